"""The running node through Anthropic's TypeScript SDK."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.api.anthropic.test_messages_tools import call
from tests.node_under_test import KEY, MODEL, running_node

FOLDER = Path(__file__).parents[2] / "typescript"


@pytest.fixture(scope="module")
def sdk() -> Path:
    """The folder with the SDK installed, pinned by its package.json."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    if not (FOLDER / "node_modules" / "@anthropic-ai" / "sdk").exists():
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--omit=dev"]
        done = subprocess.run(install, cwd=FOLDER, capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.skip(f"the SDK could not be installed: {done.stderr[-300:]}")
    return FOLDER


def test_everything_that_the_typescript_sdk_does(sdk: Path) -> None:
    weather = call("get_weather", city="Eugene, Oregon")
    scripts = [
        "Rain.",
        "It rains — again. 🦫",
        weather,
        "52F and raining.",
        weather,
        "Rain, it says.",
        "Hm.\n</think>\n\nRain.",
        '{"age": 36}',
    ]
    with running_node(*scripts) as node:
        command = ["node", "check.mjs", node.base_url, KEY, MODEL]
        done = subprocess.run(command, cwd=sdk, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "create": {"text": "Rain.", "stop": "end_turn", "id": "req_"},
            "stream": {
                "text": "It rains — again. 🦫",
                "same": True,
                "usage": len(node.chat.written("It rains — again. 🦫")) + 1,
            },
            "tools": {"stop": "tool_use", "input": {"city": "Eugene, Oregon"}, "answer": "52F and raining."},
            "runner": "Rain, it says.",
            "thinking": [["thinking", "Hm."], ["text", "Rain."]],
            "signed": True,
            "parsed": {"age": 36},
            "counted": True,
            "models": [MODEL],
            "model": MODEL,
            "errors": {
                "missing": ["NotFoundError", 404, "not_found_error", "model"],
                "badField": ["BadRequestError", 400, "invalid_request_error", "max_tokens"],
                "badKey": ["AuthenticationError", 401, "authentication_error", None],
                "system": ["BadRequestError", 400, "invalid_request_error", "messages.1.role"],
            },
        }
        node.wait_until_idle()
