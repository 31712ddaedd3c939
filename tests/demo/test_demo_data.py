"""The made conversations: the same from the same seed, evaluation apart from training, tokens as promised."""

from itertools import islice

import pytest
import torch

from weights.demo import conversation, packing, tokenizer
from weights.demo.generate import stream
from weights.demo.words import Words, held_out


@pytest.fixture(scope="module")
def tokens():
    return tokenizer.load()


def test_same_seed_same_stream():
    assert list(islice(stream(4), 200)) == list(islice(stream(4), 200))
    assert list(islice(stream(4), 20)) != list(islice(stream(5), 20))


@pytest.mark.parametrize("held", [False, True])
def test_tool_signatures_belong_to_one_world(held):
    for talk in islice(stream(6, held), 1500):
        for tool in talk.tools:
            function = tool["function"]
            if "description" in function and function["name"] != "get_weather":
                keys = function["parameters"]["properties"]
                assert held_out(f"{function['name']}|{','.join(keys)}") == held


@pytest.mark.parametrize("held", [False, True])
def test_names_words_and_numbers_belong_to_one_world(held):
    from random import Random

    words = Words(Random(1), held)
    for make in (words.name, words.city, words.word, words.phrase, words.code, words.email, words.path):
        assert all(held_out(str(make())) == held for _ in range(60))


def test_every_answer_ends_its_turn_and_writes_no_control_token():
    for talk in islice(stream(8), 500):
        assert conversation.text(talk).endswith("<|im_end|>\n")
        assert "<|" not in conversation.answer_text(talk.answer)
        assert "think>" not in talk.answer["content"] + talk.answer["reasoning_content"]


def test_added_tokens_stand_in_qwens_order_after_the_merges(tokens):
    first = tokens.get_vocab_size() - len(tokenizer.ADDED)
    assert [tokens.token_to_id(name) for name, _ in tokenizer.ADDED] == list(range(first, tokenizer.VOCAB))
    added = tokens.get_added_tokens_decoder()
    assert [added[first + n].special for n in range(len(tokenizer.ADDED))] == [s for _, s in tokenizer.ADDED]


@pytest.mark.parametrize(
    "text",
    ["Hello, world!", " in Zoë's  house\n\n\n12.5 °C", "日本語 und 🙂\t\r\n end ", "<think>\n\n</think>\n\n"],
)
def test_text_survives_the_tokenizer(tokens, text):
    assert tokens.decode(tokens.encode(text).ids, skip_special_tokens=False) == text


def test_a_name_has_the_same_tokens_wherever_it_stands(tokens):
    inside = tokens.encode("weather in Eugene, Oregon?").tokens
    alone = tokens.encode("\nEugene, Oregon\n").tokens
    assert alone[1:-1] == inside[-len(alone[1:-1]) - 1 : -1]


def test_pieces_give_the_tokens_of_the_whole(tokens):
    for talk in islice(stream(9), 300):
        assert packing.encode(tokens, talk)[0] == tokens.encode(conversation.text(talk)).ids


def test_a_batch_is_full_and_a_function_of_its_number(tokens):
    one, same = packing.batch(tokens, 3), packing.batch(tokens, 3)
    assert torch.equal(one.ids, same.ids)
    assert torch.equal(one.weight, same.weight)
    filling = sum(int((one.owner[row] == len(talks)).sum()) for row, talks in enumerate(one.talks))
    assert filling / one.ids.numel() < 0.06
    assert float(one.weight[:, -1].sum()) == 0
