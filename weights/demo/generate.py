"""The endless stream of made conversations: same seed, same stream.

    python -m weights.demo.generate 20      prints twenty of them
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

from weights.demo import chats, conversation, examples, tools
from weights.demo.conversation import Conversation
from weights.demo.words import Words

THINKING = 0.3  # share of conversations, of every kind

# Makers of conversations with tools, by share of draws. A missing pair is two conversations.
TOOL_KINDS = {
    tools.single: 26,
    tools.missing_pair: 20,
    tools.double: 18,
    tools.answered: 16,
    tools.answered_twice: 5,
    tools.failed: 9,
}


def draw(w: Words) -> list[Conversation]:
    """One conversation, or a pair that belongs together."""
    thinking = w.chance(THINKING)
    lot = w.random.random()
    if lot < 0.04:
        return [w.pick(examples.exact()) if w.chance(0.5) else examples.weather(w, thinking)]
    if lot < 0.09:
        return [tools.beside(w, chats.plain(w, thinking, beside=True))]
    if lot < 0.52:
        make = w.random.choices(list(TOOL_KINDS), list(TOOL_KINDS.values()))[0]
        return make(w, thinking)
    return [chats.chat(w, thinking)]


def stream(seed: int, held: bool = False) -> Iterator[Conversation]:
    """Training conversations, or with `held` those of the other world, which no training has seen."""
    w = Words(Random(seed), held)
    while True:
        yield from draw(w)


if __name__ == "__main__":
    source = stream(seed=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for _ in range(int(sys.argv[1])):
        talk = next(source)
        print(f"=== {talk.kind}\n{conversation.text(talk)}")
