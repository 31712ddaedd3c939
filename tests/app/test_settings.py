"""The table of settings: each is read by every name it has, keeps to its bounds, and reaches who reads it."""

import argparse
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from node.config import add_flags, read_settings
from node.device import step_budget
from node.engine.limits import EngineLimits
from node.engine.scheduler import Budget
from node.engine.simulate import Setup
from node.http.limits import HttpLimits
from node.http.line import READ_AHEAD
from node.run.memory import MemoryShares
from node.setting import Group, PerDevice, Setting, flag, variable
from node.settings import TABLE, Settings, SettingsError
from node.settings_page import page

KIB, MIB, GIB = 2**10, 2**20, 2**30
DEFAULTS: dict[str, Any] = {
    "model": Path("weights/demo"),
    "served_name": "",
    "device": "",
    "dtype": "bfloat16",
    "context": 0,
    "host": "127.0.0.1",
    "port": 8080,
    "api_key": None,
    "cors_origins": (),
    "device_memory": 0,
    "memory_utilization": 0.92,
    "state_share": 0.25,
    "sequences_per_cached_state": 2,
    "min_cached_states": 8,
    "state_writes": "each",
    "max_num_seqs": PerDevice(cuda=256, cpu=64),
    "max_num_batched_tokens": PerDevice(cuda=8192, cpu=512),
    "max_prefill_tokens_beside_decode": PerDevice(cuda=512, cpu=128),
    "max_partial_prefills_per_organization": 32,
    "queue_requests": 1024,
    "queue_tokens": 2**22,
    "queue_schema_bytes": 2**20,
    "queue_timeout": 120.0,
    "first_token_timeout": 10.0,
    "drain_timeout": 45.0,
    "unhealthy_timeout": 30.0,
    "watchdog_timeout": 90.0,
    "max_header": 64 * KIB,
    "max_body": 4 * MIB,
    "header_timeout": 10.0,
    "body_timeout": 60.0,
    "idle_timeout": 120.0,
    "send_timeout": 60.0,
    "linger_timeout": 30.0,
    "max_linger": 64 * MIB,
    "record": None,
    "record_texts": False,
}
# What an operator writes, what it comes to, and what is refused.
WRITTEN: dict[str, tuple[str, Any, list[str]]] = {
    "model": ("weights/x", Path("weights/x"), []),
    "served_name": ("a/b", "a/b", []),
    "device": ("cpu", "cpu", ["tpu", ""]),
    "dtype": ("float32", "float32", ["int4"]),
    "context": ("4096", 4096, ["0", "-1", "many"]),
    "host": ("::1", "::1", []),
    "port": ("0", 0, ["-1", "65536", "http"]),
    "api_key": ("secret", "secret", []),
    "cors_origins": (
        "https://a.example, http://localhost:3000",
        ("https://a.example", "http://localhost:3000"),
        ["a.example", "https://a.example/", "https://a.example:443", "*, https://a.example"],
    ),
    "device_memory": ("24GiB", 24 * GIB, ["0", "much", "-1GiB"]),
    "memory_utilization": ("0.5", 0.5, ["0", "1.01", "nan", "half"]),
    "state_share": ("1", 1.0, ["0", "1.01", "-0.5"]),
    "sequences_per_cached_state": ("1", 1, ["0", "1.5"]),
    "min_cached_states": ("0", 0, ["-1", "few"]),
    "state_writes": ("eighth", "eighth", ["never"]),
    "max_num_seqs": ("1", 1, ["0", "all"]),
    "max_num_batched_tokens": ("4_096", 4096, ["0", "4k"]),
    "max_prefill_tokens_beside_decode": ("64", 64, ["0", ""]),
    "max_partial_prefills_per_organization": ("1", 1, ["0"]),
    "queue_requests": ("0", 0, ["-1", "none"]),
    "queue_tokens": ("1", 1, ["0"]),
    "queue_schema_bytes": ("2KiB", 2 * KIB, ["0", "x"]),
    "queue_timeout": ("0", 0.0, ["-1", "inf", "nan", "long"]),
    "first_token_timeout": ("0", 0.0, ["-1", "inf"]),
    "drain_timeout": ("0", 0.0, ["-1", "inf"]),
    "unhealthy_timeout": ("0.5", 0.5, ["0", "-1", "inf"]),
    "watchdog_timeout": ("1e3", 1000.0, ["0", "nan"]),
    "max_header": ("1KiB", KIB, ["1023", "129KiB"]),
    "max_body": ("1", 1, ["0", "huge"]),
    "header_timeout": ("1", 1.0, ["0"]),
    "body_timeout": ("2", 2.0, ["0"]),
    "idle_timeout": ("3", 3.0, ["0"]),
    "send_timeout": ("4", 4.0, ["0"]),
    "linger_timeout": ("5", 5.0, ["0"]),
    "max_linger": ("0", 0, ["-1"]),
    "record": ("steps.jsonl", Path("steps.jsonl"), []),
    "record_texts": ("yes", True, ["", "true", "1"]),
}
PARTS = (HttpLimits, EngineLimits, MemoryShares)
every = pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)


def read(*flags: str, **environment: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return read_settings(parser.parse_args(flags), environment)


def in_toml(folder: Path, name: str, text: str) -> str:
    """A file that says so, as text; TOML's own numbers are another test's."""
    file = folder / "node.toml"
    file.write_text(f'{name} = "{text}"\n')
    return str(file)


def test_defaults_are_what_they_were() -> None:
    assert dataclasses.asdict(Settings()) == {
        name: dataclasses.asdict(value) if isinstance(value, PerDevice) else value
        for name, value in DEFAULTS.items()
    }
    assert read() == Settings()


@every
def test_each_is_read_from_flag_variable_and_file_by_every_name_it_has(
    setting: Setting, tmp_path: Path
) -> None:
    text, value, _ = WRITTEN[setting.name]
    assert value != DEFAULTS[setting.name]
    for name in setting.names:
        want = dataclasses.replace(Settings(), **{setting.name: value})
        assert read(flag(name), text) == want
        assert read(**{variable(name): text}) == want
        assert read("--config", in_toml(tmp_path, name, text)) == want


@every
def test_a_wrong_value_names_the_flag_the_variable_or_the_key(setting: Setting, tmp_path: Path) -> None:
    for text in WRITTEN[setting.name][2]:
        with pytest.raises(SettingsError, match=f"^{flag(setting.name)}: "):
            read(f"{flag(setting.name)}={text}")
        for name in setting.names:
            with pytest.raises(SettingsError, match=f"^{variable(name)}: "):
                read(**{variable(name): text})
            with pytest.raises(SettingsError, match=f"^{name} in .*node.toml: "):
                read("--config", in_toml(tmp_path, name, text))


def test_numbers_of_toml_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("queue_timeout = 7\nstate_share = 0.125\nmax_num_seqs = 12\nmax_body = 1_000\n")
    got = read("--config", str(file))
    assert (got.queue_timeout, got.state_share, got.max_num_seqs, got.max_body) == (7.0, 0.125, 12, 1000)


def test_auto_can_be_written_where_it_is_the_default() -> None:
    for setting in TABLE:
        if setting.shown.startswith("auto: "):
            environment = {variable(setting.name): WRITTEN[setting.name][0]}
            assert read(flag(setting.name), "auto", **environment) == Settings()
    assert read("--api-key", "auto").api_key == "auto"
    with pytest.raises(SettingsError, match="--queue-requests"):
        read("--queue-requests", "auto")


def test_help_lists_each_with_its_default_under_its_group() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    told = re.sub(r"\s+", " ", parser.format_help())
    at = [told.index(f" {group}: ") for group in Group]
    assert at == sorted(at)
    for setting in TABLE:
        start = at[list(Group).index(setting.group)]
        end = dict(zip(at, [*at[1:], len(told)], strict=True))[start]
        line = f" {flag(setting.name)} VALUE {setting.help} [{setting.shown}]"
        assert start < told.index(line) < end
        assert not setting.was or flag(setting.was) not in told


def test_the_page_of_settings_is_current() -> None:
    committed = Path(__file__).parent.parent.parent / "docs" / "settings.md"
    assert committed.read_text() == page()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_given_what_was_set(part: type) -> None:
    names = [item.name for item in dataclasses.fields(part)]
    settings = Settings(**{name: WRITTEN[name][1] for name in names})
    assert dataclasses.asdict(settings.part(part)) == {name: WRITTEN[name][1] for name in names}


def test_a_step_holds_what_was_set_and_else_what_the_device_can() -> None:
    assert step_budget(Settings(), "cuda") == Setup().budget == Budget(256, 8192, 512, 32)
    assert step_budget(Settings(), "cpu") == Budget(64, 512, 128, 32)
    written = Settings(
        max_num_seqs=3,
        max_num_batched_tokens=100,
        max_prefill_tokens_beside_decode=50,
        max_partial_prefills_per_organization=2,
    )
    assert step_budget(written, "cuda") == step_budget(written, "cpu") == Budget(3, 100, 50, 2)


@pytest.mark.parametrize("beside", [PerDevice(512, 128), 4096])
def test_no_step_is_larger_than_memory_was_planned_for(beside: int | PerDevice) -> None:
    small = Settings(max_num_batched_tokens=100, max_prefill_tokens_beside_decode=beside)
    assert step_budget(small, "cuda").mixed_tokens == step_budget(small, "cpu").mixed_tokens == 100


def test_the_largest_head_is_one_that_the_connection_reads() -> None:
    assert read("--max-header", str(READ_AHEAD)).max_header == READ_AHEAD
    with pytest.raises(SettingsError):
        read("--max-header", str(READ_AHEAD + 1))
