"""A page in Chromium that asks a node of another origin. `make check-real`; B3OS_CHROMIUM can name the browser."""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from node.api.routes import EXPOSED_HEADERS
from node.http import Cors
from tests.node_under_test import KEY, MODEL, RunningNode, running_node

CHROMIUM = os.environ.get("B3OS_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; B3OS_CHROMIUM can name it"),
]
# It is on its own: no look at the network beside the page, no sandbox that root may not have.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SCRIPT = """
const body = {model: MODEL, max_tokens: 64, service_tier: "auto", messages: [{role: "user", content: "hi"}]};
const fields = {
  "authorization": "Bearer " + KEY, "content-type": "application/json", "anthropic-version": "2023-06-01",
  "anthropic-dangerous-direct-browser-access": "true", "x-stainless-os": "Browser:chrome",
};
async function ask(path, more = {}, changed = {}) {
  try {
    const init = {method: "POST", headers: {...fields, ...changed}, body: JSON.stringify({...body, ...more})};
    const answer = await fetch(BASE + path, init);
    let text = "", pieces = 0;
    const decoder = new TextDecoder(), reader = answer.body.getReader();
    for (let piece; !(piece = await reader.read()).done; pieces++)
      text += decoder.decode(piece.value, {stream: true});
    return {status: answer.status, fields: Object.fromEntries(answer.headers), text, pieces};
  } catch (error) {
    return {error: error.name};
  }
}
(async () => {
  const told = {
    whole: await ask("/v1/messages"),
    stream: await ask("/v1/messages", {stream: true}),
    refused: await ask("/v1/messages", {}, {authorization: "Bearer wrong"}),
    missing: await ask("/v1/message"),
  };
  await fetch("/told", {method: "POST", body: JSON.stringify(told)});
})();
"""


class Site:
    """A web server whose only page runs the script and tells what came of it."""

    def __init__(self) -> None:
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        self.page = b""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(site.page)

            def do_POST(self) -> None:
                site.told.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.answer(b"")

            def answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_address[1]

    def __enter__(self) -> "Site":
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def asks(self, node: RunningNode) -> None:
        """From now on the page asks this node."""
        names = {"BASE": node.base_url, "MODEL": MODEL, "KEY": KEY}
        constants = "".join(f"const {name} = {json.dumps(value)};" for name, value in names.items())
        self.page = f"<!doctype html><script>{constants}{SCRIPT}</script>".encode()


@contextlib.contextmanager
def opened(url: str, folder: Path) -> Iterator[None]:
    """The page while it is shown."""
    assert CHROMIUM is not None
    browser = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", url],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        browser.terminate()
        browser.wait(20)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


def told_at(site: Site, node: RunningNode, host: str, folder: Path) -> dict[str, Any]:
    """What the page finds out where it is shown as `host`'s."""
    site.asks(node)
    with opened(f"http://{host}:{site.port}/", folder):
        return site.told.get(timeout=60)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:{port}", "*"])
def test_c15_a_page_reads_answers_streams_and_errors_with_their_headers(
    site: Site, origin: str, tmp_path: Path
) -> None:
    cors = Cors([origin.format(port=site.port)], EXPOSED_HEADERS)
    with running_node("Good morning to you all", seconds=0.05, cors=cors) as node:
        told = told_at(site, node, "127.0.0.1", tmp_path)
    whole, stream, refused, missing = (told[name] for name in ("whole", "stream", "refused", "missing"))
    assert (whole["status"], stream["status"], refused["status"], missing["status"]) == (200, 200, 401, 404)
    assert json.loads(whole["text"])["content"][0]["text"] == "Good morning to you all"
    assert "event: message_stop" in stream["text"] and stream["pieces"] > 3
    assert json.loads(refused["text"])["error"]["type"] == "authentication_error"
    assert json.loads(missing["text"])["error"]["message"].endswith(
        "the nearest route is /v1/infer/v1/messages"
    )
    for answer in (whole, stream, refused, missing):
        assert {"request-id", "x-request-id", "server-timing"} <= answer["fields"].keys()
    assert whole["fields"]["b3os-ignored"] == stream["fields"]["b3os-ignored"] == "service_tier"


def test_c15_a_page_of_an_unlisted_origin_gets_nothing(site: Site, tmp_path: Path) -> None:
    """Its port is that of a listed one, its host another name of the same machine."""
    cors = Cors([f"http://127.0.0.1:{site.port}"], EXPOSED_HEADERS)
    with running_node("secret", cors=cors) as node:
        told = told_at(site, node, "localhost", tmp_path)
        assert node.runner.prompts == []  # the preflight ended it: the model was never asked
    assert set(told) == {"whole", "stream", "refused", "missing"}
    assert all(answer == {"error": "TypeError"} for answer in told.values())


def test_without_the_setting_no_page_gets_anything(site: Site, tmp_path: Path) -> None:
    with running_node("secret") as node:
        told = told_at(site, node, "127.0.0.1", tmp_path)
        assert node.runner.prompts == []
    assert all(answer == {"error": "TypeError"} for answer in told.values())
