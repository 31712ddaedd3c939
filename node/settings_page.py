"""docs/settings.md, made from the table of settings: `python -m node.settings_page > FILE`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from node.setting import Setting, flag
from node.settings import TABLE

HEAD = """\
# Settings

What an operator decides. The flag `--max-num-seqs` of `b3os-node serve` is the key `max_num_seqs` of the TOML file that
`--config` names (or `B3OS_NODE_CONFIG`) and the variable `B3OS_NODE_MAX_NUM_SEQS`, and so with every other. Flags win
over variables, variables over the file, the file over defaults. Sizes are written `24GiB`, `512MiB`, `80GB` or as
bytes. Where the default is `auto`, that word may be written too. Former names are still read.

This page is made from the table that reads them, `node/settings.py`.
"""


def page() -> str:
    groups = groupby(TABLE, key=lambda setting: setting.group)
    return "\n\n".join([HEAD.rstrip(), *(f"## {title}\n\n{_rows(rows)}" for title, rows in groups)]) + "\n"


def _rows(settings: Iterable[Setting]) -> str:
    return "\n".join(["| flag | default | | why |", "|---|---|---|---|", *map(_row, settings)])


def _row(setting: Setting) -> str:
    former = f"; was `{flag(setting.was)}`" if setting.was else ""
    return f"| `{flag(setting.name)}` | {setting.shown} | {setting.help}{former} | {setting.reason} |"


if __name__ == "__main__":
    print(page(), end="")
