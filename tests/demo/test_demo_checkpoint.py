"""The exported checkpoint: transformers and the node compute what training did, in the family's layout."""

import json

import pytest
import torch

from weights.demo import conversation, evaluate, examples, export, network, tokenizer

TOLERANCE = 2e-3  # float32 sums in another order, logits up to 30
MEGABYTE = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def prompt():
    talk = examples.exact()[-1]
    return tokenizer.load().encode(conversation.text(talk)).ids


@pytest.fixture(scope="module")
def logits(prompt):
    """Of the training forward, in float32 on the rounded weights."""
    shape, weights = export.load()
    padded = -(-len(prompt) // network.CHUNK) * network.CHUNK
    ids = torch.tensor([prompt + [0] * (padded - len(prompt))])
    owner = (torch.arange(padded) >= len(prompt)).long()[None]
    packed = network.pack(shape, owner, torch.float32)
    return network.logits(weights, network.hidden(shape, weights, ids, packed))[0, : len(prompt)]


def test_transformers_computes_the_same(prompt, logits):
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(export.FOLDER, dtype=torch.float32)
    with torch.no_grad():
        theirs = model(torch.tensor([prompt])).logits[0]
    torch.testing.assert_close(theirs, logits, atol=TOLERANCE, rtol=0)


def test_the_node_computes_the_same(prompt, logits):
    from node.model.families import read_config
    from node.model.qwen import Qwen
    from node.model.weight_files import read_weights
    from tests.model.drive import Drive

    config = read_config(export.FOLDER)
    model = Qwen(config, read_weights(export.FOLDER, config, torch.float32, torch.device("cpu")))
    (sequence,) = Drive(model).generate([prompt], 100, 1)
    ours = torch.stack([torch.from_numpy(row) for row in sequence.logits[: len(prompt)]])
    torch.testing.assert_close(ours[:, : logits.shape[1]], logits, atol=TOLERANCE, rtol=0)


def test_transformers_reads_the_same_tokens(prompt):
    transformers = pytest.importorskip("transformers")
    # By its class: AutoTokenizer goes by the model's type and puts Qwen's own split in place of ours.
    read = transformers.PreTrainedTokenizerFast.from_pretrained(export.FOLDER)
    talk = examples.exact()[-1]
    text = read.apply_chat_template(talk.as_sent, tools=list(talk.tools), tokenize=False)
    assert read.encode(text, add_special_tokens=False) == prompt
    assert read.eos_token == "<|im_end|>"


def test_tensors_have_the_familys_types_and_the_index_names_them_all():
    from safetensors import safe_open

    index = json.loads((export.FOLDER / "model.safetensors.index.json").read_text())["weight_map"]
    with safe_open(export.FOLDER / export.SHARD, "pt") as shard:
        assert set(index) == set(shard.keys())
        for name in shard.keys():  # noqa: SIM118  (no mapping: a file)
            wanted = torch.float32 if name.endswith(export.FLOAT32) else torch.bfloat16
            assert shard.get_tensor(name).dtype == wanted


def test_all_of_it_is_under_16_megabytes():
    files = (path for path in export.FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert sum(path.stat().st_size for path in files) < 16 * MEGABYTE


def test_the_examples_of_the_documentation_are_answered_word_for_word():
    talks = examples.exact()
    for talk, text in zip(talks, evaluate.run(export.FOLDER, talks), strict=True):
        thought = f"{talk.answer['reasoning_content']}\n</think>\n\n" if talk.thinking else ""
        assert text == f"{thought}{conversation.answer_text(talk.answer)}<|im_end|>"
