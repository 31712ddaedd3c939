import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.constants import PAGE
from node.model.config import ModelConfig
from node.model.families import parse_config
from node.run.memory import GIB, DoesNotFit, MemoryPlan, MemoryShares, plan_memory
from node.settings import Settings

SHARES = Settings().part(MemoryShares)

# The 9B's figures: 17.9 GB of text parameters in bfloat16, 32 KiB of KV a token, 51.5 MB of state a sequence.
HYBRID_9B = parse_config(
    {
        "model_type": "qwen3_5",
        "tie_word_embeddings": False,
        "text_config": {
            "model_type": "qwen3_5_text", "hidden_size": 4096, "intermediate_size": 12288, "head_dim": 256,
            "vocab_size": 248320,
            "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4,
            "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "full_attention_interval": 4, "max_position_embeddings": 262144,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        },
    }
)  # fmt: skip
DENSE = parse_config(
    {
        "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 1000,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 1e6,
        "max_position_embeddings": 4096, "tie_word_embeddings": True,
    }
)  # fmt: skip


def plan(config: ModelConfig, memory: float, context: int = 32768, dtype: str = "bfloat16") -> MemoryPlan:
    return plan_memory(
        config,
        memory=int(memory * GIB),
        dtype=dtype,
        context=context,
        sequences=256,
        step_tokens=8192,
        shares=SHARES,
    )


def test_the_9b_on_a_large_card_runs_256_sequences() -> None:
    got = plan(HYBRID_9B, 139)
    assert got.weights == 2 * 8_953_803_264
    assert (got.page_bytes, got.sequences, got.cached_states) == (PAGE * 32 * 1024, 256, 128)
    assert got.slot_bytes == 24 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert got.total <= 139 * GIB * SHARES.memory_utilization
    assert got.pages * PAGE > 2_500_000


def test_a_24_gib_card_still_holds_one_whole_context() -> None:
    got = plan(HYBRID_9B, 24)
    assert got.pages * PAGE >= 32768
    assert got.state_slots == got.sequences + got.cached_states
    assert got.sequences >= 1


def test_what_does_not_fit_says_what_would() -> None:
    with pytest.raises(DoesNotFit) as caught:
        plan(HYBRID_9B, 20.6)
    context = int(str(caught.value).rpartition("--context ")[2].rstrip(")"))
    assert plan(HYBRID_9B, 20.6, context).pages * PAGE >= context
    needed = float(str(caught.value).partition("needs ")[2].partition(" GiB")[0])
    assert plan(HYBRID_9B, needed + 0.01).pages * PAGE >= 32768
    with pytest.raises(DoesNotFit):
        plan(HYBRID_9B, needed - 0.02)


def test_no_more_pages_than_sequences_could_fill() -> None:
    assert plan(DENSE, 8, context=4096).pages == 256 * 4096 // PAGE
    assert plan(DENSE, 8, context=4096).state_slots == 0
    assert plan(DENSE, 8, context=4096).cached_states == 0


def test_where_slots_are_short_cached_states_keep_their_part() -> None:
    got = plan(HYBRID_9B, 26)
    assert got.sequences < 256
    assert got.cached_states == got.state_slots // 3 > 0


@given(
    memory=st.floats(0.001, 200),
    context=st.integers(1, 262144),
    dtype=st.sampled_from(["bfloat16", "float32"]),
)
def test_a_plan_keeps_to_its_memory_and_holds_a_context(memory: float, context: int, dtype: str) -> None:
    for config in (HYBRID_9B, DENSE):
        try:
            got = plan(config, memory, context, dtype)
        except DoesNotFit:
            continue
        assert got.total <= got.memory * SHARES.memory_utilization
        assert got.pages * PAGE >= context
        assert got.sequences >= 1
        assert got.cached_states <= max(8, got.sequences)
        assert json.dumps(got.table())
