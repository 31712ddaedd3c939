from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.chat import Chat
from node.chat.events import Event, Text


def folded(events: list[Event]) -> str:
    return "".join(event.text for event in events)


def test_text_becomes_one_event_a_push(tiny: Chat) -> None:
    machine = tiny.machine()
    assert machine.push(tiny.tokenizer.encode("the quick fox")) == [Text("the quick fox")]
    assert machine.push([]) == []
    assert machine.end() == []
    assert machine.matched is None


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_any_chunking_folds_to_the_same_events(tiny: Chat, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tiny.tokenizer.vocabulary_size), max_size=40))
    stops = data.draw(
        st.lists(st.sampled_from(["e", "th", "the", "\ufffd\ufffd", "<think>", "qu"]), max_size=3)
    )
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=6).map(sorted))
    whole, cut_up = tiny.machine(stops), tiny.machine(stops)
    edges = [0, *cuts, len(ids)]
    events = [event for a, b in pairwise(edges) for event in cut_up.push(ids[a:b])]
    assert folded(events + cut_up.end()) == folded(whole.push(ids) + whole.end())
    assert (cut_up.matched, cut_up.consumed) == (whole.matched, whole.consumed)


def test_stop_string_is_found_across_tokens_and_not_emitted(tiny: Chat) -> None:
    encode = tiny.tokenizer.encode
    first, second = encode("the fo"), encode("x jumps")
    machine = tiny.machine(["fox"])
    assert folded(machine.push(first)) == "the "
    assert machine.push(second) == []
    assert machine.matched == "fox"
    assert (machine.push(encode("more")), machine.end()) == ([], [])


def test_consumed_counts_up_to_the_token_that_completed_the_stop_string(tiny: Chat) -> None:
    ids = [token for word in ("t", "h", "e", " ", "f", "o", "x") for token in tiny.tokenizer.encode(word)]
    machine = tiny.machine(["he"])
    machine.push(ids[:2])
    assert machine.consumed == 2
    machine.push(ids[2:])
    assert (machine.matched, machine.consumed) == ("he", 3)


def test_consumed_counts_tokens_without_text(tiny: Chat) -> None:
    machine = tiny.machine()
    assert machine.push([tiny.tokenizer.control["<|im_end|>"], tiny.tokenizer.vocabulary_size]) == []
    assert machine.consumed == 2


def test_start_of_a_stop_string_is_given_at_the_end(tiny: Chat) -> None:
    machine = tiny.machine(["fox!"])
    assert folded(machine.push(tiny.tokenizer.encode("the fox"))) == "the "
    assert machine.end() == [Text("fox")]


def test_half_a_character_at_the_end_is_one_replacement(tiny: Chat) -> None:
    ids = tiny.tokenizer.encode("😀")
    machine = tiny.machine(["x"])
    assert machine.push(ids[:-1]) == []
    assert machine.end() == [Text("\ufffd")]
