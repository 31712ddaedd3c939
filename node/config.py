"""What the operator decides: flags, over B3OS_NODE_* variables, over a TOML file, over defaults."""

from __future__ import annotations

import argparse
import dataclasses
import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENVIRONMENT = "B3OS_NODE_"
DEFAULT_CONTEXT = 32_768  # tokens; less where the model's own maximum is
UNITS = {"": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class SettingsError(Exception):
    """Something the operator wrote cannot be used. The message names it and says where it stands."""


def size(text: str) -> int:
    """Bytes, from `24GiB`, `512MiB`, `80GB` or a bare number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError("must be a size such as 24GiB")
    return int(float(match[1]) * UNITS[(match[2] or "").upper()])


def port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**16:
        raise ValueError("must be between 0 and 65535")
    return number


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("must be at least 1")
    return number


def seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError("must be a number of seconds")
    return number


def switch(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text == "yes"


def choice(*allowed: str) -> Any:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def setting(default: Any, parse: Any, help: str, was: str = "") -> Any:
    """`was` is a name that files, variables and scripts may still use."""
    return field(default=default, metadata={"parse": parse, "help": help, "was": was})


@dataclass(frozen=True, slots=True)
class Settings:
    """Each is a flag (`--served-name`), a variable (`B3OS_NODE_SERVED_NAME`), a TOML key (`served_name`)."""

    model: Path = setting(Path("weights/demo"), Path, "folder of the checkpoint")  # noqa: RUF009
    served_name: str = setting("", str, "what requests call the model [b3os/ and the folder's name]")
    host: str = setting("127.0.0.1", str, "address to listen on")
    port: int = setting(8080, port, "port to listen on; 0 takes a free one")
    device: str = setting("", choice("cpu", "cuda"), "cpu or cuda [cuda where there is one]")
    dtype: str = setting(
        "bfloat16", choice("bfloat16", "float32"), "type of weights and KV: bfloat16 or float32"
    )
    context: int = setting(
        0, positive, f"tokens of prompt and output [{DEFAULT_CONTEXT} or the model's maximum]"
    )
    device_memory: int = setting(0, size, "memory that the node may use, such as 24GiB [what is free]")
    state_writes: str = setting(
        "each",
        choice("each", "eighth"),
        "each, or eighth: how often delta states are written; eighth moves less and holds more (of the 9B a tenth)",
    )
    max_body: int = setting(4 * 2**20, size, "largest request body")
    first_token_timeout: float = setting(
        10.0, seconds, "seconds that a stream's head waits for the first token", was="patience"
    )
    max_wait: float = setting(120.0, seconds, "seconds that a request may wait for its first step")
    record: Path | None = setting(None, Path, "file to write every step and event to, for b3os-node simulate")  # noqa: RUF009
    record_texts: bool = setting(
        False, switch, "yes: ids of tokens are recorded too, so prompts can be read [no]"
    )
    api_key: str | None = setting(None, str, "the key that opens the node [one is made at the first start]")

    @property
    def name(self) -> str:
        return self.served_name or f"b3os/{self.model.resolve().name.lower()}"

    @property
    def deferred(self) -> bool:
        return self.state_writes == "eighth"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the node."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"


def add_flags(parser: argparse.ArgumentParser, *names: str) -> None:
    """Flags for the settings `names`, or for all of them."""
    for item in dataclasses.fields(Settings):
        if not names or item.name in names:
            parser.add_argument(_flag(item.name), dest=item.name, metavar="VALUE", help=item.metadata["help"])
            if was := item.metadata["was"]:
                parser.add_argument(_flag(was), dest=item.name, help=argparse.SUPPRESS)
    parser.add_argument("--config", metavar="FILE.toml", type=Path, help="file of further settings")


def read_settings(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Settings:
    """Join the four sources. Raises SettingsError."""
    config = flags.config or environment.get(ENVIRONMENT + "CONFIG")
    from_file = _read_toml(Path(config)) if config else {}
    values: dict[str, Any] = {}
    for item in dataclasses.fields(Settings):
        names = [name for name in (item.name, item.metadata["was"]) if name]
        variables = [ENVIRONMENT + name.upper() for name in names]
        for source, text in (
            (_flag(item.name), getattr(flags, item.name, None)),
            *((variable, environment.get(variable)) for variable in variables),
            *((f"{name} in {config}", from_file.get(name)) for name in names),
        ):
            if text is not None:
                values[item.name] = _parse(item.metadata["parse"], text, source)
                break
    return Settings(**values)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parse(parse: Any, text: str, source: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise SettingsError(f"{source}: {text!r} {error}") from None


def _read_toml(path: Path) -> dict[str, str]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    known = {item.name for item in dataclasses.fields(Settings)}
    former = {item.metadata["was"] for item in dataclasses.fields(Settings)}
    for key, value in table.items():
        if key not in known | former:
            raise SettingsError(f"{path}: unknown setting {key}; there are {', '.join(sorted(known))}")
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise SettingsError(f"{path}: {key} must be text or a number")
    return {key: str(value) for key, value in table.items()}
