"""How several prompts share what one step has for them."""

from __future__ import annotations

from collections import defaultdict

from kernels.constants import PAGE


def share(budget: int, wanted: list[int], owners: list[str]) -> list[int]:
    """Tokens for each prompt, in order of age: equal parts for each owner, and of those for each of its prompts.

    `wanted` are the tokens that each could run, `owners` the organizations that they belong to.
    """
    indexes: dict[str, list[int]] = defaultdict(list)
    for index, owner in enumerate(owners):
        indexes[owner].append(index)
    given = [0] * len(wanted)
    totals = [sum(wanted[index] for index in mine) for mine in indexes.values()]
    for mine, part in zip(indexes.values(), _parts(budget, totals), strict=True):
        for index, tokens in zip(mine, _parts(part, [wanted[index] for index in mine]), strict=True):
            given[index] = tokens
    return given


def _parts(budget: int, wanted: list[int]) -> list[int]:
    """The oldest first, so that each comes to its end; then whoever is done soonest.

    No part is smaller than a page while the budget lasts, for shorter chunks cost a step nearly as much.
    """
    if not wanted:
        return []
    part = max(PAGE, budget // len(wanted))
    order = [0, *sorted(range(1, len(wanted)), key=wanted.__getitem__)]
    given = [0] * len(wanted)
    for index in order:
        given[index] = min(part, wanted[index], budget)
        budget -= given[index]
    for index in order:
        more = min(wanted[index] - given[index], budget)
        given[index] += more
        budget -= more
    return given
