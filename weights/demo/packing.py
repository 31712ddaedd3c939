"""Batches of rows, each packed with several conversations.

A batch is a function of its number, so that a run resumes anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import torch
from tokenizers import Tokenizer
from torch import Tensor

from weights.demo.conversation import ANSWER, DECISION, Conversation, pieces
from weights.demo.generate import stream

FOCUS = range(1500, 1800)
ROWS = 8
LENGTH = 512
# Tokens of a deciding piece: "Sorry" and its comma, a call and its line end, a space and a capital.
OPENING = 2
# So many conversations in a row that fit nowhere end the search; rows are then about 98 % full.
MOST_MISSES = 12


@dataclass(frozen=True, slots=True)
class Batch:
    """ids, owner int64 [B, T]; target int64 [B, T], the next token; weight float [B, T] of it in the loss.

    `talks[row][owner]` is the conversation; the filling at a row's end has an owner of its own and no weight.
    """

    ids: Tensor
    owner: Tensor
    target: Tensor
    weight: Tensor
    talks: list[list[Conversation]]


def encode(tokenizer: Tokenizer, talk: Conversation) -> tuple[list[int], list[float]]:
    """Piece by piece; the tokens are those of the whole text: pieces meet at added tokens and line ends."""
    parts = pieces(talk)
    encoded = tokenizer.encode_batch([text for text, _ in parts], add_special_tokens=False)
    ids = [token for part in encoded for token in part.ids]
    weights: list[float] = []
    for part, (_, weight) in zip(encoded, parts, strict=True):
        opening = OPENING if weight == DECISION else 0
        weights += [weight if n < opening else min(weight, ANSWER) for n in range(len(part.ids))]
    return ids, weights


def batch(
    tokenizer: Tokenizer, number: int, held: bool = False, rows: int = ROWS, length: int = LENGTH
) -> Batch:
    """Best fit: each conversation goes where it leaves the least space."""
    space = [length] * rows
    filled: list[list[tuple[list[int], list[float]]]] = [[] for _ in range(rows)]
    talks: list[list[Conversation]] = [[] for _ in range(rows)]
    misses = 0
    for talk in stream(1_000_000 + number, held, focus=not held and number in FOCUS):
        ids, weights = encode(tokenizer, talk)
        fitting = [row for row in range(rows) if space[row] >= len(ids)]
        if fitting:
            row = min(fitting, key=lambda row: space[row])
            space[row] -= len(ids)
            filled[row].append((ids, weights))
            talks[row].append(talk)
            misses = 0
        elif misses == MOST_MISSES:
            break
        else:
            misses += 1

    ids = torch.zeros(rows, length, dtype=torch.int64)
    owner = torch.zeros(rows, length, dtype=torch.int64)
    target = torch.zeros(rows, length, dtype=torch.int64)
    weight = torch.zeros(rows, length)
    for row, parts in enumerate(filled):
        at = 0
        for number_in_row, (tokens, weights) in enumerate(parts):
            end = at + len(tokens)
            ids[row, at:end] = torch.tensor(tokens)
            owner[row, at:end] = number_in_row
            target[row, at : end - 1] = torch.tensor(tokens[1:])
            weight[row, at : end - 1] = torch.tensor(weights[1:])
            at = end
        owner[row, at:] = len(parts)
    return Batch(ids, owner, target, weight, talks)


def right_turns(packed: Batch, predicted: Tensor) -> dict[str, list[bool]]:
    """By kind: is every token of the wanted answer the likeliest, given the tokens before it?"""
    wrong = (predicted != packed.target) & (packed.weight >= ANSWER)
    verdicts: dict[str, list[bool]] = {}
    for row, talks in enumerate(packed.talks):
        for number, talk in enumerate(talks):
            verdicts.setdefault(talk.kind, []).append(not wrong[row][packed.owner[row] == number].any())
    return verdicts


def lengths(tokenizer: Tokenizer, count: int) -> list[int]:
    return [len(encode(tokenizer, talk)[0]) for talk in islice(stream(seed=1), count)]
