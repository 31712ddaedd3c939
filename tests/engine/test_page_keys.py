"""Keys of pages: what two prompts share, and what their ids do not tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.constants import PAGE
from node.engine.page_keys import PromptItem
from node.engine.sampling import Sampling
from node.engine.sequence import Sequence

PAGES = 5


def keys(items: tuple[PromptItem, ...], organization: str = "a", ids: int = 0) -> list[bytes]:
    prompt = np.full(PAGES * PAGE, ids)
    sequence = Sequence("s", prompt, 0, Sampling(), frozenset(), organization=organization, items=items)
    return sequence.page_keys(PAGES)


@given(st.lists(st.integers(0, PAGES * PAGE), min_size=2, max_size=2, unique=True).map(sorted))
def test_two_images_under_equal_ids_share_the_pages_before_them_alone(span: list[int]) -> None:
    one, other = (keys((PromptItem(*span, digest),)) for digest in (b"one", b"other"))
    before = span[0] // PAGE
    assert one[:before] == other[:before] == keys(())[:before]
    assert not set(one[before:]) & set(other[before:])
    assert one == keys((PromptItem(*span, b"one"),))


@pytest.mark.parametrize("moved", [(63, 100), (65, 100), (64, 99), (64, 101)])
def test_an_image_that_lies_elsewhere_is_another(moved: tuple[int, int]) -> None:
    assert keys((PromptItem(64, 100, b"i"),))[1] != keys((PromptItem(*moved, b"i"),))[1]


def test_a_key_knows_the_page_the_pages_before_it_and_the_organization() -> None:
    assert len(set(keys(()) + keys((), "b") + keys((), ids=1))) == 3 * PAGES


def test_keys_that_were_asked_for_in_parts_are_those_of_the_whole() -> None:
    sequence = Sequence(
        "s", np.arange(PAGES * PAGE), 0, Sampling(), frozenset(), items=(PromptItem(70, 200, b"i"),)
    )
    other = Sequence(
        "t", np.arange(PAGES * PAGE), 0, Sampling(), frozenset(), items=(PromptItem(70, 200, b"i"),)
    )
    assert [sequence.page_keys(count) for count in (1, 3, PAGES)][-1] == other.page_keys(PAGES)


@pytest.mark.parametrize("span", [(0, 0), (-1, 3), (3, PAGES * PAGE + 1)])
def test_an_item_outside_the_prompt_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="items"):
        keys((PromptItem(*span, b"i"),))
