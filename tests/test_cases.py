"""Every row of cases.md is held by a test that carries its id, or the list says why not yet."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LIST, _, NOT_YET = (TESTS / "cases.md").read_text().partition("\n## Not yet held by a test\n")
ROWS = [line for line in LIST.splitlines() if line.startswith("|")][2:]  # below the table's head
IDS = [row.split("|")[1].strip() for row in ROWS]


def carried() -> set[str]:
    """The ids in the names of all tests."""
    found = set()
    for file in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?def test_(\w+)", file.read_text(), re.MULTILINE):
            found |= {case.upper() for case in re.findall(r"(?:^|_)([bBcC]\d+)(?=_)", name)}
    return found


def test_every_row_has_three_cells_and_ids_come_once_and_in_order() -> None:
    for row in ROWS:
        before, *cells, after = (cell.strip() for cell in row.split("|"))
        assert (before, len(cells), all(cells), after) == ("", 3, True, ""), row
    assert all(re.fullmatch(r"[BC]\d\d", case) for case in IDS)
    assert sorted(set(IDS)) == IDS


def test_every_id_that_a_test_carries_is_listed() -> None:
    assert carried() - set(IDS) == set()


def test_every_case_is_held_by_a_test_or_listed_with_the_reason_why_not_yet() -> None:
    reasoned = re.findall(r"^- ([BC]\d\d(?:, [BC]\d\d)*): \S", NOT_YET, re.MULTILINE)
    assert set(IDS) - carried() == {case for cases in reasoned for case in cases.split(", ")}


def test_no_case_told_elsewhere_is_missing() -> None:
    """The list goes with the repository; the one that it was drawn from may lie in a folder beside it."""
    folders = [folder / "shared" for folder in (TESTS.parent, TESTS.parent.parent)]
    source = next((folder / "CASES.md" for folder in folders if (folder / "CASES.md").exists()), None)
    if source is None:
        pytest.skip("CASES.md is not at hand: no folder shared/ in the repository or beside it has it")
    told = set(re.findall(r"^\| ([A-Z]\d+) \|", source.read_text(), re.MULTILINE))
    assert told
    assert told - set(IDS) == set()
