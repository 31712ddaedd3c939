"""The endless stream of made conversations: same seed, same stream.

python -m weights.demo.generate 20      prints twenty of them
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

from weights.demo import calls, chats, conversation, examples
from weights.demo.conversation import Conversation
from weights.demo.words import Words

THINKING = 0.3  # share of conversations, of every kind

# Makers of conversations with tools, by share of draws. A missing pair is two conversations.
TOOL_KINDS = {
    calls.single: 14,
    calls.missing_pair: 30,
    calls.double: 34,
    calls.answered: 16,
    calls.answered_twice: 5,
    calls.failed: 9,
}


def draw(w: Words, focus: bool) -> list[Conversation]:
    """One conversation, or a pair that belongs together."""
    thinking = w.chance(THINKING)
    if focus and w.chance(0.5):
        return calls.missing_pair(w, thinking, alone=0.7)
    lot = w.random.random()
    if lot < 0.04:
        return [w.pick(examples.exact()) if w.chance(0.5) else examples.weather(w, thinking)]
    if lot < 0.09:
        return [calls.beside(w, chats.plain(w, thinking, beside=True))]
    if lot < 0.52:
        make = w.random.choices(list(TOOL_KINDS), list(TOOL_KINDS.values()))[0]
        return make(w, thinking)
    return [chats.chat(w, thinking)]


def stream(seed: int, held: bool = False, focus: bool = False) -> Iterator[Conversation]:
    """Training conversations, or with `held` those of the other world, which no training has seen.

    `focus`: half of the draws ask whether the one tool there fits. To notice that nothing fits is the hardest skill
    here; it comes from a stretch of such batches and not from a share of them everywhere.
    """
    w = Words(Random(seed), held)
    while True:
        yield from draw(w, focus)


if __name__ == "__main__":
    source = stream(seed=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for _ in range(int(sys.argv[1])):
        talk = next(source)
        print(f"=== {talk.kind}\n{conversation.text(talk)}")
