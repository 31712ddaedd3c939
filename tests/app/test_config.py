import argparse
from pathlib import Path

import pytest

from node.config import add_flags, read_settings
from node.settings import Settings, SettingsError
from node.values import size


def settings(*flags: str, **environment: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return read_settings(parser.parse_args(flags), environment)


def test_flags_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('port = 1\nhost = "10.0.0.1"\nserved_name = "from/file"\n')
    got = settings("--config", str(file), "--port", "3", B3OS_NODE_PORT="2", B3OS_NODE_HOST="10.0.0.2")
    assert (got.port, got.host, got.name) == (3, "10.0.0.2", "from/file")
    assert settings(B3OS_NODE_CONFIG=str(file)).port == 1


@pytest.mark.parametrize("name", ["first_token_timeout", "patience"])
def test_a_setting_that_was_renamed_is_read_by_either_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f"{name} = 1.5\n")
    assert settings("--config", str(file)).first_token_timeout == 1.5
    variable = {f"B3OS_NODE_{name.upper()}": "2.5"}
    assert settings("--config", str(file), **variable).first_token_timeout == 2.5
    flag = "--" + name.replace("_", "-")
    assert settings(flag, "3.5", "--config", str(file), **variable).first_token_timeout == 3.5


def test_the_served_name_is_the_folders_in_lower_case(tmp_path: Path) -> None:
    assert settings("--model", "weights/Qwen3.5-9B").name == "b3os/qwen3.5-9b"
    assert settings().name == "b3os/demo"
    assert settings("--model", str(tmp_path / "A" / "..")).name == f"b3os/{tmp_path.name.lower()}"
    assert settings("--served-name", "x/Y").name == "x/Y"


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("", ()),
        ("*", ("*",)),
        ("http://localhost:3000", ("http://localhost:3000",)),
        (
            " https://Chat.example.com,app://obsidian.md , http://[::1]:8080,",
            ("https://chat.example.com", "app://obsidian.md", "http://[::1]:8080"),
        ),
    ],
)
def test_c15_origins_are_given_by_flag_variable_and_file(
    tmp_path: Path, text: str, origins: tuple[str, ...]
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f'cors_origins = "{text}"\n')
    assert settings("--cors-origins", text).cors_origins == origins
    assert settings(B3OS_NODE_CORS_ORIGINS=text).cors_origins == origins
    assert settings("--config", str(file)).cors_origins == origins
    file.write_text(f"cors_origins = {list(origins)}\n")
    assert settings("--config", str(file)).cors_origins == origins
    assert settings().cors_origins == ()


@pytest.mark.parametrize(
    ("text", "number"), [("24GiB", 24 * 2**30), ("80 GB", 80 * 10**9), ("1.5mib", 3 * 2**19), ("77", 77)]
)
def test_sizes(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--port", "99999"], ["--port", "65535"]),
        (["--port", "x"], ["--port", "'x'"]),
        (["--device", "tpu"], ["--device", "cpu, cuda"]),
        (["--context", "0"], ["--context", "at least 1"]),
        (["--max-body", "huge"], ["--max-body", "24GiB"]),
        (["--first-token-timeout", "inf"], ["--first-token-timeout"]),
        (["--cors-origins", "chat.example.com"], ["--cors-origins", "https://chat.example.com"]),
        (["--cors-origins", "https://chat.example.com/"], ["--cors-origins", "without path"]),
        (["--cors-origins", "https://chat.example.com:443"], ["--cors-origins", "default port"]),
        (["--cors-origins", "*, https://chat.example.com"], ["--cors-origins", "*"]),
        (["--cors-origins", "null"], ["--cors-origins", "null"]),
        (["--config", "/nowhere.toml"], ["/nowhere.toml", "No such file"]),
    ],
)
def test_a_wrong_value_names_the_flag(flags: list[str], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(*flags)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("text", "words"),
    [("prot = 1", ["prot", "port"]), ("port = [1]", ["port"]), ("port", ["toml"]), ("port = true", ["port"])],
)
def test_a_wrong_file_names_the_key(tmp_path: Path, text: str, words: list[str]) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        settings("--config", str(file))
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("node", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert settings("--host", host).loopback is loopback
