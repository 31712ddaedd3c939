"""How several prompts share what one step has for them."""

from __future__ import annotations

from collections import defaultdict

from node.engine.plan import PAGE


def share(budget: int, wanted: list[int], owners: list[str]) -> list[int]:
    """Tokens for each prompt, in order of age: equal parts for each owner, and of those for each of its prompts.

    `wanted` are the tokens that each could run, `owners` the organizations that they belong to.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, owner in enumerate(owners):
        places[owner].append(place)
    given = [0] * len(wanted)
    totals = [sum(wanted[place] for place in mine) for mine in places.values()]
    for mine, part in zip(places.values(), _parts(budget, totals), strict=True):
        for place, tokens in zip(mine, _parts(part, [wanted[place] for place in mine]), strict=True):
            given[place] = tokens
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
    for place in order:
        given[place] = min(part, wanted[place], budget)
        budget -= given[place]
    for place in order:
        more = min(wanted[place] - given[place], budget)
        given[place] += more
        budget -= more
    return given
