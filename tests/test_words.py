"""Names that were given up stand nowhere but in the table of the changelog that says what they became."""

import re
import subprocess
from pathlib import Path

import pytest

from node.settings import TABLE as SETTINGS

ROOT = Path(__file__).parent.parent
TABLE = (ROOT / "CHANGELOG.md").read_text().partition("| was | is |")[2]
# Files whose words are not names: what the demo model was trained on, and pictures.
APART = (":!CHANGELOG.md", ":!weights/demo/topics.py", ":!weights/demo/facts.py", ":!*.png", ":!*.json*")
# Of settings, which files that people have written may go on saying.
STILL_READ = {setting.was for setting in SETTINGS}


def given_up() -> list[str]:
    rows = [line.split(" | ")[0] for line in TABLE.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row) if name not in STILL_READ]


def test_the_table_is_read() -> None:
    names = given_up()
    assert len(names) > 40 and len(set(names)) == len(names)


@pytest.mark.parametrize("name", given_up())
def test_a_name_that_was_given_up_is_gone(name: str) -> None:
    """Class names by their case, since many are words of English too; other names in any case."""
    flags = "-wnF" if name[:1].isupper() else "-wniF"
    command = ["git", "grep", flags, "-e", name, "--", ".", *APART]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode > 1:
        pytest.skip("the tree is not a git checkout")
    # asyncio has names of its own.
    left = [line for line in found.stdout.splitlines() if f"asyncio.{name}" not in line]
    assert left == []
