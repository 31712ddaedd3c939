"""Makes the two traces: `python -m bench.traces.make`. The same seed makes the same lines.

Lengths are log-normal about the means that published chat and agent traces report: answers of a few hundred
tokens, tool results of a few hundred, system prompts of agents with their tools of several thousand.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from node.engine.trace import TraceRequest, write_trace

FOLDER = Path(__file__).parent
CHATS, CHAT_RATE = 240, 4.0  # conversations, and how many begin a second
AGENTS, AGENT_RATE = 48, 1.6
TURNS = 20  # of an agent between two questions of its user
FLOOD, FLOOD_AT = 240, 20.0  # requests of a batch job that all come at once, seconds


def lengths(draw: np.random.Generator, mean: float, count: int, spread: float = 0.6) -> list[int]:
    """Log-normal with that mean, at least 4."""
    values = draw.lognormal(np.log(mean) - spread**2 / 2, spread, count)
    return np.maximum(4, values).astype(int).tolist()


def chat() -> list[TraceRequest]:
    """People: one system prompt for all, one to eight questions, some seconds to read an answer.

    What the answer thought is gone from the next prompt, and so what is kept ends with the last question.
    """
    draw = np.random.default_rng(1)
    requests = []
    for number, begins in enumerate(np.cumsum(draw.exponential(1 / CHAT_RATE, CHATS))):
        turns = int(draw.integers(1, 9))
        questions, answers = lengths(draw, 60, turns, 0.9), lengths(draw, 250, turns)
        before, kept, end = None, 0, 0
        for turn in range(turns):
            name = f"chat{number}.{turn}"
            parts = [("system", 300)] if turn == 0 else [(f"{name} told", answers[turn - 1] // 2)]
            parts.append((f"{name} asked", questions[turn]))
            end = kept + sum(tokens for _, tokens in parts)
            parts.append(("turn", 6))
            at = float(begins) if turn == 0 else float(draw.exponential(8.0))
            requests.append(
                TraceRequest(name, round(at, 3), tuple(parts), answers[turn], "chat", (end,), before, kept)
            )
            before, kept = name, end
    return requests


def agents() -> list[TraceRequest]:
    """Tool loops: the prompt grows by what was answered and what the tool said, and nothing is taken back.

    Another organization's batch arrives in their midst, all at once.
    """
    draw = np.random.default_rng(2)
    requests = []
    for number, begins in enumerate(np.cumsum(draw.exponential(1 / AGENT_RATE, AGENTS))):
        answers, results = lengths(draw, 120, TURNS), lengths(draw, 350, TURNS, 0.9)
        (task,) = lengths(draw, 400, 1)
        before, kept, question = None, 0, 0
        for turn in range(TURNS):
            name = f"agent{number}.{turn}"
            parts = [(f"tools{number % 3}", 4000), (f"{name} task", task)]
            if turn:
                parts = [(f"{name} result", results[turn - 1])]
            end = kept + sum(tokens for _, tokens in parts)
            question = question or end
            parts.append(("turn", 6))
            at = float(begins) if turn == 0 else float(draw.exponential(0.7))
            boundaries = tuple(sorted({question, end}))
            requests.append(
                TraceRequest(
                    name, round(at, 3), tuple(parts), answers[turn], "agents", boundaries, before, kept
                )
            )
            before, kept = name, end + 6 + answers[turn]
    for number, (prompt, answer) in enumerate(
        zip(lengths(draw, 3000, FLOOD), lengths(draw, 300, FLOOD), strict=True)
    ):
        parts = (("batch", 200), (f"batch{number}", prompt))
        requests.append(TraceRequest(f"batch{number}", FLOOD_AT, parts, answer, "batch"))
    return requests


if __name__ == "__main__":
    write_trace(FOLDER / "chat.jsonl", chat())
    write_trace(FOLDER / "agent.jsonl", agents())
