"""The command line as a user meets it: in a process of its own where that matters."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import anthropic
import pytest

from node.chat.chat import Chat
from node.cli import main

ROOT = Path(__file__).parent.parent.parent
DEMO = ROOT / "weights" / "demo"
Run = Callable[..., "Done"]
HI = {"messages": [{"role": "user", "content": "hi"}], "model": "b3os/demo", "max_tokens": 8}


@dataclass(frozen=True)
class Done:
    status: int
    out: bytes
    err: str


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """The command in this process."""
    monkeypatch.delenv("B3OS_NODE_API_KEY", raising=False)

    def run(*words: str | Path) -> Done:
        status: object = 0
        try:
            main([str(word) for word in words])
        except SystemExit as exit_:
            status = exit_.code
        out, err = capfdbinary.readouterr()
        if isinstance(status, str):  # what sys.exit prints on its way out
            status, err = 1, status.encode() + b"\n"
        assert isinstance(status, int)
        return Done(status, out, err.decode())

    return run


def write(folder: Path, body: object) -> Path:
    path = folder / "request.json"
    path.write_text(json.dumps(body))
    return path


def test_render_prints_the_exact_prompt_and_its_ids(tmp_path: Path, run: Run) -> None:
    request = write(tmp_path, {**HI, "system": "Be brief."})
    text = run("render", "--model", DEMO, request).out.decode()
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    ids = [int(word) for word in run("render", "--model", DEMO, request, "--ids").out.split()]
    tokenizer = Chat.read(DEMO).tokenizer
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text


def test_both_dialects_render_one_conversation_alike(tmp_path: Path, run: Run) -> None:
    spoken = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "well"},
    ]
    ours = run("render", "--model", DEMO, write(tmp_path, {**HI, "system": "S", "messages": spoken}))
    openai = {"messages": [{"role": "developer", "content": "S"}, *spoken]}
    theirs = run("render", "--model", DEMO, write(tmp_path, openai), "--dialect", "openai")
    assert (ours.status, ours.out) == (0, theirs.out)


def test_openai_tools_and_their_results_are_rendered(tmp_path: Path, run: Run) -> None:
    call = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Eugene"}'}}
    body = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "weather?"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
        ],
    }
    done = run("render", "--model", DEMO, write(tmp_path, body), "--dialect", "openai")
    assert b"<function=get_weather>\n<parameter=city>\nEugene\n</parameter>" in done.out
    assert b"<tool_response>\nrain\n</tool_response>" in done.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["render", "--model", "nowhere", "{request}"], "nowhere"),
        (["render", "--model", str(DEMO), "absent.json"], "absent.json: No such file"),
        (["plan", "--model", "nowhere"], "--model: nowhere holds no config.json"),
        (
            ["plan", "--model", str(DEMO), "--context", "99999999"],
            "--context: 99999999 is more than the model's",
        ),
        (["plan", "--model", str(DEMO), "--device-memory", "1MiB"], "--device-memory"),
        (["serve", "--model", str(DEMO), "--host", "0.0.0.0"], "set --api-key or B3OS_NODE_API_KEY"),
        (["serve", "--model", "nowhere"], "nowhere holds no config.json"),
        (["serve", "--model", str(DEMO), "--api-key", ""], "--api-key: a key is made of printable ASCII"),
        (["serve", "--model", str(DEMO), "--api-key", "a b"], "--api-key: a key is made of printable ASCII"),
        (["simulate", "absent.jsonl"], "absent.jsonl: No such file"),
        (["simulate", str(DEMO / "config.json")], "config.json: "),
    ],
)
def test_what_cannot_be_done_is_one_line_and_no_stack(
    tmp_path: Path, run: Run, words: list[str], told: str
) -> None:
    request = str(write(tmp_path, HI))
    done = run(*[word.replace("{request}", request) for word in words])
    assert done.status == 1
    assert done.err.startswith("b3os-node: ")
    assert told in done.err
    assert done.err.count("\n") == 1


FAULTS = {  # what stands in the file, and what is told of it
    "config.json": ({"model_type": "qwen3", "hidden_size": "wide"}, "num_attention_heads: missing"),
    "tokenizer.json": ({"model": {}}, "not a tokenizer: KeyError('vocab')"),
    "tokenizer_config.json": ([], "not a JSON object"),
    "chat_template.jinja": ("{% if %}", "chat template, line 1: "),
}


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("plan", "config.json"),
        *(("render", file) for file in FAULTS if file != "config.json"),
        *(("replay", file) for file in FAULTS if file != "config.json"),
        *(("serve", file) for file in FAULTS),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_one_line_that_names_its_file(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, command: str, file: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name in FAULTS:
        shutil.copy(DEMO / name, folder)
    content, told = FAULTS[file]
    (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
    request = write(tmp_path, HI)
    words = {"render": [request], "replay": [request, request]}.get(command, [])
    done = run(command, "--model", folder, *words)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(f"b3os-node: {folder}/{file}: {told}")


def test_weights_that_are_not_there_are_told_when_the_node_loads_them(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name in FAULTS:
        shutil.copy(DEMO / name, folder)
    done = run("serve", "--model", folder, "--port", "0", "--device-memory", "2GiB")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(f"b3os-node: {folder}: files of the checkpoint cannot be read (1): model.safe")


def test_render_refuses_what_the_node_would_refuse(tmp_path: Path, run: Run) -> None:
    done = run("render", "--model", DEMO, write(tmp_path, {**HI, "wat": 1}))
    assert done.status == 1
    assert "wat: Extra inputs are not permitted" in done.err


def test_plan_prints_a_table_that_adds_up(run: Run) -> None:
    done = run("plan", "--model", DEMO, "--device-memory", "1GiB")
    rows = dict(re.findall(r"^  (\w+) +([\d.]+) GiB", done.out.decode(), re.MULTILINE))
    assert set(rows) == {"weights", "workspace", "state", "KV", "total"}
    parts = sum(float(size) for name, size in rows.items() if name != "total")
    assert parts == pytest.approx(float(rows["total"]), abs=0.03)
    assert float(rows["total"]) <= 0.92


@pytest.mark.parametrize(
    "words",
    [["plan", "--device", "cpu"], ["render", "{request}"], ["replay", "{request}", "{request}"]],
    ids=lambda words: words[0],
)
def test_planning_and_prompts_do_not_wait_for_torch(tmp_path: Path, words: list[str]) -> None:
    request = str(write(tmp_path, HI))
    argv = ["b3os-node", *(word.replace("{request}", request) for word in words), "--model", str(DEMO)]
    loaded = f"import sys; sys.argv = {argv}\n"
    loaded += "from node.cli import main; main(); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0


def test_simulate_tells_what_a_trace_would_take(run: Run) -> None:
    told = run("simulate", ROOT / "bench" / "traces" / "chat.jsonl").out.decode()
    assert re.search(r"requests +1,112 in ", told)
    assert re.search(r"hit rate +\d+\.\d%", told)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def spawn(tmp_path: Path, *flags: str, **environment: str) -> subprocess.Popen[str]:
    """The demo model, about to be served."""
    return subprocess.Popen(
        [sys.executable, "-m", "node", "serve", "--model", str(DEMO), "--device-memory", "2GiB", *flags],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start(tmp_path: Path, *flags: str, **environment: str) -> tuple[subprocess.Popen[str], list[str]]:
    """A served demo model, and the lines it printed up to the curl line."""
    process = spawn(tmp_path, *flags, **environment)
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("try"):
            return process, lines
    raise AssertionError(process.stderr.read() if process.stderr else "")


def test_serve_prints_a_curl_line_that_works_and_ends_in_order_on_sigterm(tmp_path: Path) -> None:
    port = free_port()
    process, lines = start(tmp_path, "--port", str(port))
    curl = lines[-1].removeprefix("try").strip()
    answer = subprocess.run(curl, shell=True, capture_output=True, timeout=60)
    message = json.loads(answer.stdout)
    assert (message["type"], message["model"]) == ("message", "b3os/demo")

    key = next(line.split()[1] for line in lines if line.startswith("key"))
    sdk = anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}/v1/infer", api_key=key, max_retries=0)
    ask = {
        "model": "b3os/demo",
        "max_tokens": 40,
        "messages": [{"role": "user", "content": "Count from 1 to 9."}],
    }
    with sdk.messages.stream(**ask) as stream:
        process.send_signal(signal.SIGTERM)  # what runs is finished
        assert stream.get_final_message().stop_reason in ("end_turn", "max_tokens")
    assert process.wait(20) == 0
    told = process.stdout.read() + process.stderr.read()
    assert key not in told
    assert "Traceback" not in told

    again, lines = start(tmp_path, "--port", str(port), "--cors-origins", "*")
    assert next(line for line in lines if line.startswith("key")).startswith("key       the one shown")
    models = sdk.models.with_raw_response.list()  # the first key still opens it
    assert [model.id for model in models.parse()] == ["b3os/demo"]
    assert models.headers["access-control-allow-origin"] == "*"
    again.terminate()
    assert again.wait(20) == 0
    again.communicate()


def test_c22_a_configured_key_is_told_by_its_beginning_alone(tmp_path: Path) -> None:
    key = "b3os_" + "k" * 32
    process, lines = start(tmp_path, "--port", str(free_port()), "--api-key", key)
    process.terminate()
    told = "".join(lines) + "".join(process.communicate(timeout=20))
    assert key not in told
    assert (
        next(line for line in lines if line.startswith("key")) == "key       the configured one, b3os_kkkk…\n"
    )
    assert "Bearer $B3OS_API_KEY" in lines[-1]


def test_c20_a_second_signal_does_not_wait_for_what_runs(tmp_path: Path) -> None:
    port = free_port()
    process, _ = start(tmp_path, "--port", str(port), "--api-key", "k")
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(
            b"POST /v1/messages HTTP/1.1\r\nHost: n\r\nX-Api-Key: k\r\nContent-Type: application/json\r\n"
            b"Content-Length: 9\r\n\r\n"
        )
        time.sleep(0.2)  # its body is waited for
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 128 + signal.SIGTERM
    told = "".join(process.communicate())
    assert "Traceback" not in told and "terminate called" not in told


def test_c20_a_signal_while_the_weights_load_ends_the_node_at_once(tmp_path: Path) -> None:
    port = free_port()
    process = spawn(tmp_path, "--port", str(port))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:  # it listens before it loads
                break
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert "Traceback" not in "".join(process.communicate())


def test_a_taken_port_is_told_in_one_line(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        done = run("serve", "--model", DEMO, "--port", str(port))
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert f"127.0.0.1:{port}" in done.err


def post(port: int, body: object) -> tuple[int, dict[str, str], str]:
    """(status, headers, body) of one question."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
    connection.request("POST", "/v1/infer/v1/messages", json.dumps(body), headers)
    response = connection.getresponse()
    answer = response.read().decode()
    connection.close()
    return response.status, dict(response.getheaders()), answer


def test_bounds_of_queue_body_and_drain_are_those_that_were_set(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "node.toml"
    file.write_text('max_num_seqs = 1\nqueue_requests = 0\nmax_body = "4KiB"\nfirst_token_timeout = 0\n')
    process, lines = start(
        tmp_path,
        "--port",
        str(port),
        "--config",
        str(file),
        "--drain-timeout",
        "0.3",
        B3OS_NODE_API_KEY="secret",
    )
    assert any(line.startswith("  1 sequences at most") for line in lines)

    ask = {**HI, "max_tokens": 60, "messages": [{"role": "user", "content": "Count from 1 to 9."}]}
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: post(port, ask), range(8)))
    assert {status for status, _, _ in answers} == {200, 529}  # one runs, none may wait
    assert {json.loads(answer)["error"]["type"] for status, _, answer in answers if status == 529} == {
        "overloaded_error"
    }

    long = [{"role": "user", "content": "a " * 2048}]
    assert post(port, {**HI, "messages": long})[0] == 413
    _, headers, _ = post(port, {**ask, "stream": True})
    assert "ttft" not in headers["server-timing"]  # its head did not wait

    with socket.create_connection(("127.0.0.1", port)) as slow:
        head = "POST /v1/infer/v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer secret\r\n"
        slow.sendall(f"{head}content-length: 9\r\nexpect: 100-continue\r\n\r\n".encode())
        assert slow.recv(64).startswith(b"HTTP/1.1 100")  # it is answered, and waits for its body
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert 0.3 <= time.monotonic() - began < 30
    process.communicate()
