"""`b3os-node replay`: the body that the node would send, from a request and what the model wrote."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DEMO = ROOT / "weights" / "demo"
WEATHER = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"days": {"type": "integer"}}},
}
ASK = {
    "model": "b3os/demo",
    "max_tokens": 99,
    "thinking": {"type": "adaptive"},
    "tools": [WEATHER],
    "messages": [{"role": "user", "content": "Weather?"}],
}
WRITTEN = (
    "why — so.\n</think>\n\nSure.\n\n"
    "<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    request, output = tmp_path / "request.json", tmp_path / "output.txt"
    request.write_text(json.dumps(ASK))
    output.write_text(WRITTEN)
    return request, output


def replay(*words: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "node", "replay", "--model", str(DEMO), *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60)


def events(body: bytes) -> list[dict]:
    return [
        json.loads(line.removeprefix("data: "))
        for line in body.decode().splitlines()
        if line.startswith("data")
    ]


def joined(body: bytes) -> list[dict]:
    """Events with neighbouring deltas of a part as one."""
    whole: list[dict] = []
    for event in events(body):
        delta = event.get("delta", {})
        if event["type"] == "content_block_delta" and whole[-1].get("delta", {}).get("type") == delta["type"]:
            for key in delta.keys() - {"type"}:
                whole[-1]["delta"][key] += delta[key]
        else:
            whole.append(event)
    return whole


def test_the_whole_answer(files: tuple[Path, Path]) -> None:
    done = replay(*files)
    message = json.loads(done.stdout)
    shown = [{key: value for key, value in part.items() if key != "signature"} for part in message["content"]]
    assert shown == [
        {"type": "thinking", "thinking": "why — so."},
        {"type": "text", "text": "Sure.", "citations": None},
        {"type": "tool_use", "id": "toolu_" + "0" * 24, "name": "get_weather", "input": {"days": 3}},
    ]
    assert message["stop_reason"] == "tool_use"
    assert done.stdout == replay(*files).stdout  # the same bytes every time


def test_any_step_streams_the_same_answer(files: tuple[Path, Path]) -> None:
    bodies = [replay(*files, "--stream", "--step", step).stdout for step in ("1", "7", "999", "random:5")]
    assert len({len(events(body)) for body in bodies}) > 1
    assert all(
        joined(body)[1:] == joined(bodies[0])[1:] for body in bodies
    )  # the first counts its own step's tokens
    assert bodies[0].startswith(b"event: message_start\ndata: {")
    assert bodies[0].endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


def test_a_cut_answer_has_no_call(files: tuple[Path, Path]) -> None:
    files[1].write_text(WRITTEN[: WRITTEN.index("3")])
    message = json.loads(replay(*files, "--cut").stdout)
    assert [part["type"] for part in message["content"]] == ["thinking", "text"]
    assert message["stop_reason"] == "max_tokens"
    streamed = events(replay(*files, "--cut", "--stream").stdout)
    assert [
        event["content_block"]["type"] for event in streamed if event["type"] == "content_block_start"
    ] == [
        "thinking",
        "text",
        "tool_use",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--step", "0"], "at least one"), (["--step", "x"], "'x'"), (["--step", "random:x"], "'x'")],
)
def test_wrong_steps_are_one_line(files: tuple[Path, Path], words: list[str], told: str) -> None:
    done = replay(*files, *words)
    assert done.returncode == 1
    assert told in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_what_the_node_refuses_is_refused(files: tuple[Path, Path]) -> None:
    files[0].write_text(json.dumps({**ASK, "wat": 1}))
    done = replay(*files)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"wat: Extra inputs are not permitted" in done.stderr
