"""Measures the exported checkpoint on conversations of the held-out world, greedily, and prints the table.

    python -m weights.demo.evaluate [FOLDER [FILE FOR MISSES]]

Names, cities, numbers and tool signatures of these conversations occur in no training conversation
(words.held_out). Capitals, rivers, lists and small talk are the same everywhere: there the table says what
the model knows by heart.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from weights.demo import conversation, examples, export, recurrent, tokenizer
from weights.demo.conversation import Conversation
from weights.demo.generate import stream
from weights.demo.topics import TOPICS

SEED = 2_000_000
# The longest wanted answer has about 200 tokens; one that is still going then has not ended its turn.
LIMIT = 320
SAMPLES = {
    "call": 192,
    "two calls": 192,
    "missing": 96,
    "result": 48,
    "chat beside tools": 48,
    "prime": 48,
    "sum": 48,
}
SAMPLES_OTHERS = 24

CALL = re.compile(r"<tool_call>\n<function=([^>\n]+)>\n(.*?)</function>\n</tool_call>", re.S)
PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n(.*?)\n</parameter>\n", re.S)

# The words of which tools and parameters are named, apart from the made-up ones.
KNOWN = {word for topic in TOPICS for word in re.split(r"[ _]", f"{topic.verbs} {topic.nouns}")}
KNOWN_KEYS = {key for topic in TOPICS for slot in topic.slots for key in slot.names.split()}

Scores = dict[str, tuple[int, int]]


def held_talks() -> list[Conversation]:
    """So many of each kind, from one seed, each with its turn's end and its thinking judged too."""
    kinds = {talk.kind for talk, _ in zip(stream(SEED, held=True), range(5_000), strict=False)} - {"example"}
    wanted = {kind: SAMPLES.get(kind, SAMPLES_OTHERS) for kind in sorted(kinds)}
    talks = []
    for talk in stream(SEED + 1, held=True):
        if wanted.get(talk.kind, 0):
            wanted[talk.kind] -= 1
            talks.append(talk)
        if not any(wanted.values()):
            return talks
    return talks


def calls_of(text: str) -> list[tuple[str, dict[str, str]]]:
    return [(name, dict(PARAMETER.findall(body))) for name, body in CALL.findall(text)]


def made_up(name: str, keys: Iterable[str]) -> bool:
    """Is the tool, or a parameter that the call needs, named by syllables that are no word?"""
    words = re.findall(r"[A-Z]?[a-z]+", name)
    return any(word.lower() not in KNOWN for word in words) or any(
        key.removesuffix("_2") not in KNOWN_KEYS for key in keys
    )


def verdicts(talk: Conversation, written: str) -> Iterator[tuple[str, bool]]:
    """(row of the table, reached) for all that one answer shows."""
    ended = written.endswith("<|im_end|>")
    body = written.removesuffix("<|im_end|>")
    yield "every turn ended", ended
    if talk.thinking:
        thought, closed, body = body.partition("\n</think>\n\n")
        yield "thinking well formed", bool(closed and thought.strip()) and "think>" not in thought + body
    else:
        yield "no thinking when off", "think>" not in body
    wanted = conversation.answer_text(talk.answer)
    ours, theirs = calls_of(body), calls_of(wanted)
    names = [name for name, _ in ours] == [name for name, _ in theirs]
    if theirs and talk.kind != "example":
        row = talk.kind
        if row in ("call", "two calls") and any(made_up(name, keys) for name, keys in theirs):
            row += ", made-up names"
        yield f"{row}: tool", names
        yield f"{row}: arguments exact", ours == theirs
    elif talk.kind == "missing":
        yield "missing tool: no call", not ours
        yield "missing tool: says so", body == wanted
    elif talk.kind == "chat beside tools":
        yield "chat beside tools: no call", not ours
        yield "chat beside tools: right answer", body == wanted
    elif talk.kind in ("result", "example result", "retry result", "two results", "error"):
        got = []
        for message in reversed(talk.messages[:-1]):
            if message["role"] != "tool":
                break
            got.append(message["content"].removeprefix("Error: "))
        yield f"{talk.kind}: quoted", all(text in body for text in got) and not ours
    else:
        yield f"{talk.kind}", body == wanted


def run(folder: Path, talks: list[Conversation]) -> list[str]:
    shape, weights = export.load(folder)
    tokens = tokenizer.load(folder / "tokenizer.json")
    prompts = [
        tokens.encode(conversation.text(t.prompt, ask=True), add_special_tokens=False).ids for t in talks
    ]
    ids = recurrent.generate(shape, weights, prompts, tokens.token_to_id("<|im_end|>"), LIMIT)
    return [tokens.decode(row, skip_special_tokens=False) for row in ids]


def score(talks: list[Conversation], written: list[str]) -> Scores:
    scores: Scores = {}
    for talk, text in zip(talks, written, strict=True):
        for row, reached in verdicts(talk, text):
            right, of = scores.get(row, (0, 0))
            scores[row] = (right + reached, of + 1)
    return scores


def table(scores: Scores) -> str:
    lines = ["| | reached | n |", "|---|---|---|"]
    lines += [f"| {row} | {100 * right / of:.1f} % | {of} |" for row, (right, of) in sorted(scores.items())]
    return "\n".join(lines)


def main(folder: Path = export.FOLDER) -> None:
    torch.set_flush_denormal(True)
    talks = examples.exact() + held_talks()
    written = run(folder, talks)
    scores = score(talks, written)
    print(table(scores))
    misses = [
        {
            "kind": t.kind,
            "prompt": conversation.text(t.prompt, ask=True),
            "wanted": conversation.answer_text(t.answer),
            "written": text,
        }
        for t, text in zip(talks, written, strict=True)
        if not all(reached for _, reached in verdicts(t, text))
    ]
    (folder / "log").mkdir(exist_ok=True)
    report = {"seed": SEED, "scores": {row: list(pair) for row, pair in sorted(scores.items())}}
    (folder / "log" / "evaluation.json").write_text(json.dumps(report, indent=1) + "\n")
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(misses, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
