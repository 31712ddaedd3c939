"""The command line: serve, pull, render, replay, plan, simulate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from node.checkpoint import CheckpointError
from node.config import add_flags, read_settings
from node.setting import Group
from node.settings import TABLE, SettingsError


class Refusal(Exception):
    """The command cannot be carried out. The message is all that people need."""


def main(argv: list[str] | None = None) -> None:
    """Exit status: 0 done, 1 could not be done, 2 the words of the command are wrong."""
    parser = _parser()
    flags = parser.parse_args(argv)
    try:
        flags.run(flags)
    except (SettingsError, CheckpointError, Refusal) as error:
        sys.exit(f"b3os-node: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="b3os-node", description="Serves one Qwen model on one machine.")
    parser.add_argument("--version", action="version", version=version("b3os-node"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser(
        "serve",
        help="serve a checkpoint",
        usage="%(prog)s [--FLAG VALUE ...]",
        epilog="docs/settings.md says why the defaults are what they are.",
    )
    add_flags(serve)
    serve.set_defaults(run=_serve)

    pull = commands.add_parser("pull", help="fetch a checkpoint from the Hugging Face hub")
    pull.add_argument("repo", help="such as Qwen/Qwen3.5-9B")
    pull.add_argument("--to", type=Path, metavar="DIR", help="folder to fetch into [weights/NAME]")
    pull.add_argument("--revision", help="branch, tag or commit")
    pull.set_defaults(run=_pull)

    render = commands.add_parser(
        "render", help="print the exact prompt that a request makes; loads no weights"
    )
    render.add_argument("request", type=Path, metavar="REQUEST.json")
    render.add_argument("--dialect", choices=("anthropic", "openai"), default="anthropic")
    render.add_argument("--ids", action="store_true", help="print token ids instead of text")
    add_flags(render, "model")
    render.set_defaults(run=_render)

    replay = commands.add_parser(
        "replay", help="print what the node would send if the model had written a text; loads no weights"
    )
    replay.add_argument("request", type=Path, metavar="REQUEST.json")
    replay.add_argument(
        "output", type=Path, metavar="OUTPUT.txt", help="what the model wrote, control tokens too"
    )
    replay.add_argument("--dialect", choices=("anthropic",), default="anthropic")
    replay.add_argument("--step", default="1", metavar="N|random:SEED", help="ids a step [1]")
    replay.add_argument("--stream", action=argparse.BooleanOptionalAction, help="[as the request says]")
    replay.add_argument("--cut", action="store_true", help="the output was cut by its limit")
    add_flags(replay, "model")
    replay.set_defaults(run=_replay)

    simulate = commands.add_parser("simulate", help="replay a recording or a trace on a modelled device")
    simulate.add_argument("file", type=Path, metavar="FILE", help="of serve --record, or a trace")
    simulate.set_defaults(run=_simulate)

    plan = commands.add_parser("plan", help="print how memory would be divided; reads config.json alone")
    of_memory = [setting.name for setting in TABLE if setting.group is Group.MEMORY]
    sizes = "model", "device", "dtype", "context", "max_num_seqs", "max_num_batched_tokens"
    add_flags(plan, *sizes, *of_memory)
    plan.set_defaults(run=_plan)
    return parser


def _serve(flags: argparse.Namespace) -> None:
    from node.app import serve  # loads torch: the other commands do without it

    serve(read_settings(flags))


def _pull(flags: argparse.Namespace) -> None:
    from node.pull import PullError, pull

    try:
        folder = pull(flags.repo, flags.to, flags.revision)
    except PullError as error:
        raise Refusal(str(error)) from None
    print(f"{flags.repo} is in {folder}\nserve it: b3os-node serve --model {folder}")


def _render(flags: argparse.Namespace) -> None:
    from node.chat.chat import Chat

    with _refusing(flags.request):
        conversation = _conversation(_read_json(flags.request), flags.dialect)
        prompt = Chat.read(read_settings(flags).model).prompt(conversation)
    if flags.ids:
        print(" ".join(map(str, prompt.ids)))
    else:
        sys.stdout.buffer.write(prompt.text.encode())  # not one byte more than the model would read


def _replay(flags: argparse.Namespace) -> None:
    import asyncio

    from node.api.anthropic.replay import replay
    from node.chat.chat import Chat
    from node.model.stops import stop_ids

    folder = read_settings(flags).model
    with _refusing(flags.request):
        chat, stops = Chat.read(folder), stop_ids(folder)
        output = _read_output(flags.output)
        body = _read_json(flags.request)
        pace = _steps(flags.step)
        sent = asyncio.run(replay(chat, stops, body, output, pace, flags.stream, flags.cut))
    sys.stdout.buffer.write(sent)


@contextmanager
def _refusing(request: Path) -> Iterator[None]:
    """What is wrong with the request, in one line."""
    from node.api.errors import ApiError
    from node.chat.template import TemplateError

    try:
        yield
    except ApiError as error:
        raise Refusal(f"{request}: {error.param or error.code}: {error.message}") from None
    except TemplateError as error:
        raise Refusal(str(error)) from None


def _read_output(path: Path) -> str:
    try:
        return path.read_bytes().decode()  # every byte: universal newlines would change what the model wrote
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Refusal(f"{path}: {error}") from None


def _simulate(flags: argparse.Namespace) -> None:
    from node.engine.simulate import simulate
    from node.engine.trace import TraceError

    try:
        print(simulate(flags.file))
    except OSError as error:
        raise Refusal(f"{flags.file}: {error.strerror}") from None
    except (TraceError, UnicodeDecodeError) as error:
        raise Refusal(f"{flags.file}: {error}") from None


def _steps(words: str) -> Iterator[int]:
    from node.api.anthropic.replay import steps

    try:
        return steps(words)
    except ValueError as error:
        raise Refusal(f"--step: {words!r}: {error}") from None


def _conversation(body: dict[str, Any], dialect: str) -> Any:
    if dialect == "openai":
        from node.api.openai.chat_request import read_conversation

        return read_conversation(body)
    from node.api.anthropic.messages_request import parse

    return parse(body, counting=True).generation_request().conversation


def _read_json(path: Path) -> dict[str, Any]:
    """Read as the node reads a body."""
    from node.api.body import read_object
    from node.api.errors import ApiError

    try:
        return read_object(path.read_bytes(), None)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    except ApiError as error:
        raise Refusal(f"{path}: {error.message}") from None


def _plan(flags: argparse.Namespace) -> None:
    from node.device import choose_context, memory_plan, read_config

    settings = read_settings(flags)
    config = read_config(settings)
    plan = memory_plan(settings, config)
    context = choose_context(settings, config)
    print(f"{settings.model}: {config.parameters:,} parameters, {context:,} tokens of context")
    print(plan.table())
