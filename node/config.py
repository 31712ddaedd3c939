"""Where settings come from: flags, over B3OS_NODE_* variables, over a TOML file, over defaults."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from node.setting import Setting, flag, variable
from node.settings import TABLE, Settings, SettingsError


def add_flags(parser: argparse.ArgumentParser, *names: str) -> None:
    """Flags for the settings `names`, or for all of them, in their groups."""
    chosen = [setting for setting in TABLE if not names or setting.name in names]
    for title, settings in groupby(chosen, key=lambda setting: setting.group):
        group = parser.add_argument_group(title)
        for setting in settings:
            help = f"{setting.help} [{setting.shown}]"
            group.add_argument(flag(setting.name), dest=setting.name, metavar="VALUE", help=help)
            if setting.was:
                group.add_argument(flag(setting.was), dest=setting.name, help=argparse.SUPPRESS)
    parser.add_argument("--config", metavar="FILE.toml", type=Path, help="file of further settings")


def read_settings(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Settings:
    """Join the four sources. Raises SettingsError."""
    config = flags.config or environment.get(variable("config"))
    from_file = _read_toml(Path(config)) if config else {}
    values: dict[str, Any] = {}
    for setting in TABLE:
        for source, text in (
            (flag(setting.name), getattr(flags, setting.name, None)),
            *((variable(name), environment.get(variable(name))) for name in setting.names),
            *((f"{name} in {config}", from_file.get(name)) for name in setting.names),
        ):
            if text is not None:
                values[setting.name] = _read(setting, text, source)
                break
    return Settings(**values)


def _read(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.read(text)
    except ValueError as error:
        raise SettingsError(f"{source}: {text!r} {error}") from None


def _read_toml(path: Path) -> dict[str, str]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    known = {name for setting in TABLE for name in setting.names}
    for key, value in table.items():
        if key not in known:
            there_are = ", ".join(sorted(setting.name for setting in TABLE))
            raise SettingsError(f"{path}: unknown setting {key}; there are {there_are}")
        if key == "cors_origins" and isinstance(value, list):
            table[key] = ",".join(map(str, value))
        elif not isinstance(value, str | int | float) or isinstance(value, bool):
            raise SettingsError(f"{path}: {key} must be text or a number")
    return {key: str(value) for key, value in table.items()}
