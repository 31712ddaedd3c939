"""From the output parser's events to content events, and their fold."""

from node.api.anthropic.content import ContentWriter, fold, make_call_id
from node.chat.events import CallArguments, CallEnd, CallStart, Event, TextDelta, ThinkingDelta


def written(*events: Event) -> tuple[list[dict], list[dict]]:
    """(content events, the folded content) with ids of calls counted."""
    numbers = iter(range(9))
    writer = ContentWriter(True, lambda: f"call{next(numbers)}")
    out = [done for event in events for done in writer.write(event)] + writer.end()
    return out, fold(out, writer.complete)


def test_a_broken_call_before_a_complete_one_is_the_one_that_goes() -> None:
    good = [CallStart("f"), CallArguments('{"a":'), CallArguments("1}"), CallEnd()]
    events, content = written(*good, CallStart("broken"), CallArguments('{"b'), *good)
    assert [(part["id"], part["input"]) for part in content] == [("call0", {"a": 1}), ("call2", {"a": 1})]
    assert [event["index"] for event in events if event["type"] == "content_block_stop"] == [0, 1, 2]


def test_parts_of_a_kind_are_one_part_unless_a_call_lies_between() -> None:
    call = [CallStart("f"), CallArguments("{}"), CallEnd()]
    _, content = written(
        ThinkingDelta("a"), ThinkingDelta("b"), TextDelta("c"), TextDelta("d"), *call, TextDelta("e")
    )
    assert [(part["type"], part.get("thinking") or part.get("text")) for part in content] == [
        ("thinking", "ab"),
        ("text", "cd"),
        ("tool_use", None),
        ("text", "e"),
    ]


def test_a_signature_comes_once_last_and_depends_on_the_thinking() -> None:
    events, content = written(ThinkingDelta("a"), ThinkingDelta("b"))
    kinds = [event.get("delta", {}).get("type") for event in events]
    assert kinds == [None, "thinking_delta", "thinking_delta", "signature_delta", None]
    assert content[0]["signature"] == written(ThinkingDelta("ab"))[1][0]["signature"]
    assert content[0]["signature"] != written(ThinkingDelta("ac"))[1][0]["signature"]


def test_ids_of_calls_are_of_the_form_that_clients_know() -> None:
    assert len(make_call_id()) == len("toolu_") + 24
    assert make_call_id()[6:].isalnum()
