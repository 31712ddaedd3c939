"""Claude Code against the running node, whose model is a script. `make check-real`, with B3OS_CLAUDE naming the
`claude` executable of the npm package @anthropic-ai/claude-code."""

import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.api.anthropic.test_messages_tools import call
from tests.node_under_test import KEY, MODEL, RunningNode, running_node

CLAUDE = os.environ.get("B3OS_CLAUDE") or shutil.which("claude")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not installed; B3OS_CLAUDE can name it"),
]
SUMMARY = "<summary>The user reads a story about a river, part by part.</summary>"
CONTEXT = 120_000  # tokens of the demo tokenizer, which spends four times as many as Qwen's on this prompt


def ask(node: RunningNode, folder: Path, prompt: str, *flags: str, **environment: str) -> str:
    """What `claude -p` prints."""
    assert CLAUDE is not None
    home = folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [CLAUDE, "-p", prompt, "--model", MODEL, "--dangerously-skip-permissions", *flags],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": node.base_url,
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
            "ANTHROPIC_DEFAULT_SONNET_MODEL": MODEL,
            "ANTHROPIC_DEFAULT_OPUS_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4096",
            "MAX_THINKING_TOKENS": "0",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def read(node: RunningNode, number: int) -> str:
    """The prompt that the model read at its call `number`."""
    return b"".join(map(node.chat.tokenizer.token_bytes, node.runner.prompts[number])).decode()


def session(folder: Path) -> Sequence[str]:
    """Reads a file, edits it, runs a command, ends."""
    file = folder / "river.txt"
    file.write_text("The river is the Rogue.\n")
    return [
        "I will look.\n\n" + call("Read", file_path=str(file)),
        call("Edit", file_path=str(file), old_string="Rogue", new_string="Deschutes"),
        call("Bash", command="cat river.txt", description="show it"),
        "Done: it is the Deschutes.",
    ]


def test_a_session_reads_edits_runs_and_ends(tmp_path: Path) -> None:
    with running_node(*session(tmp_path), context=CONTEXT, pages=4096) as node:
        told = ask(node, tmp_path, "Change the river.", "--tools", "Bash,Read,Edit,Write")
        assert told.strip() == "Done: it is the Deschutes."
        assert (tmp_path / "river.txt").read_text() == "The river is the Deschutes.\n"
        assert len(node.runner.prompts) == 4
        assert "The river is the Deschutes." in read(node, 3)
        assert "x-anthropic-billing-header" not in read(node, 0)
        node.wait_until_idle()


def test_the_system_message_in_the_middle_is_refused_once_and_the_session_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "node.http")
    with running_node(*session(tmp_path), context=CONTEXT, pages=4096) as node:
        told = ask(node, tmp_path, "Change the river.")  # all tools: the agent list comes as a system message
        assert told.strip() == "Done: it is the Deschutes."
        asked = [record.getMessage() for record in caplog.records if "/messages " in record.getMessage()]
        assert [" 400 " in line for line in asked] == [True, False, False, False, False]
        assert "<system-reminder>" in read(node, 0)
        node.wait_until_idle()


def test_overflow_leads_to_compaction_and_the_session_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    file.write_text("\n".join(f"line {n} of the long story about the river" for n in range(900)))

    def part(first: int) -> str:
        return call("Read", file_path=str(file), offset=str(first), limit="300")

    scripts = [part(1), "One.", part(301), "Two.", part(601), SUMMARY, "It is about the river."]
    with running_node(*scripts, context=16_500, pages=1024) as node:  # holds two parts of the three
        flags = ["--tools", "Bash,Read"]
        assert ask(node, tmp_path, "What is in story.txt?", *flags).strip() == "One."
        assert ask(node, tmp_path, "And then?", *flags, "--continue").strip() == "Two."
        told = ask(node, tmp_path, "And then?", *flags, "--continue")
        assert told.strip() == "It is about the river."
        assert "summary" in read(node, 5)
        assert "line 100 of" not in read(node, 6)
        assert "The user reads a story about a river" in read(node, 6)
        node.wait_until_idle()


def test_a_prompt_that_does_not_fit_is_understood(tmp_path: Path) -> None:
    with running_node("never", context=2048) as node:
        assert CLAUDE is not None
        with pytest.raises(AssertionError) as caught:
            ask(node, tmp_path, "hi", "--tools", "Bash,Read")
        assert "too long" in str(caught.value).lower()
        assert node.runner.prompts == []


def test_an_image_in_a_tool_result_is_taken_out_and_the_session_heals(tmp_path: Path) -> None:
    image = tmp_path / "dot.png"
    image.write_bytes(
        bytes.fromhex(
            "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
            "1f15c4890000000d49444154789c6360f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
        )
    )
    scripts = [call("Read", file_path=str(image)), "I cannot see images."]
    with running_node(*scripts, context=CONTEXT, pages=4096) as node:
        told = ask(node, tmp_path, "What is in dot.png?", "--tools", "Bash,Read")
        assert told.strip() == "I cannot see images."
        assert len(node.runner.prompts) == 2
        node.wait_until_idle()
