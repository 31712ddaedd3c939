"""What the programs of each kernel of a decode step load and store, read off the kernels.

A count and no measurement: of the lanes that a mask lets through, whether they come from memory or from a cache. For
each argument there are the entries in all, and how many of them are distinct: between the two lies what a device's
memory sees, nearer to the second where the rest is small or was used a moment ago. tests/bench holds every formula to
what Triton's interpreter loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernels.constants import PAGE


@dataclass(frozen=True, slots=True)
class Values:
    """What decides how much is moved and is no shape: it lies in tensors.

    context     tokens of each row
    parts       parts that the draw looks at again, of all rows: those that hold a candidate
    looked      ids of them whose logits it reads: those below a peak that is high enough
    candidates  ids that the draw keeps at hand, of all rows
    pending     tokens that rings hold: 0 to 7, each by as many rows
    """

    context: int
    parts: int = 0
    looked: int = 0
    candidates: int = 0
    pending: tuple[int, ...] = (0,)


class Access(NamedTuple):
    """Entries of an argument that a launch loads, or that it stores, and how many of them are distinct."""

    argument: str
    entries: float
    distinct: float


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel's grid, its arguments by name, and what of their values matters."""

    name: str
    grid: tuple[int, ...]
    given: dict[str, Any]
    values: Values

    @classmethod
    def of(
        cls,
        kernel: Any,
        grid: tuple[int, ...],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        values: Values,
    ) -> Launch:
        """As kernels.device.traced hands it over."""
        given = dict(zip(kernel.arg_names, arguments, strict=False)) | options
        return cls(kernel.fn.__name__, grid, given, values)

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    @property
    def job(self) -> str:
        """Which of bench.least it does, or helps to do. Raises LookupError for a kernel that has no formula here."""
        return self._entry[0]

    @property
    def accesses(self) -> list[Access]:
        """Raises LookupError likewise. Arguments that are None, or that a launch does not touch, may be among them."""
        return self._entry[1](self)

    @property
    def _entry(self) -> tuple[str, Formula]:
        if self.name not in FORMULAS:
            raise LookupError(f"{self.name}: bench/traffic.py does not know what it loads and stores")
        return FORMULAS[self.name]

    @property
    def bytes(self) -> tuple[float, float]:
        """(moved, distinct)."""
        sizes = [(self[a.argument].itemsize, a) for a in self.accesses if self[a.argument] is not None]
        return sum(size * a.entries for size, a in sizes), sum(size * a.distinct for size, a in sizes)


def each(entries: float, *arguments: str) -> list[Access]:
    """Arguments of which every entry is taken once."""
    return [Access(argument, entries, entries) for argument in arguments]


def rms_norm(launch: Launch) -> list[Access]:
    rows, width = launch.grid[0], launch["H"]
    added = () if launch["residual_ptr"] is None else ("residual_ptr", "total_ptr")
    # Every program reads the weight.
    return [*each(rows * width, "x_ptr", "y_ptr", *added), Access("weight_ptr", rows * width, width)]


def swiglu(launch: Launch) -> list[Access]:
    entries = launch.grid[0] * launch["I"]
    return [*each(2 * entries, "gate_up_ptr"), *each(entries, "y_ptr")]


def output_gate(launch: Launch) -> list[Access]:
    return each(launch.grid[0] * launch["C"], "o_ptr", "gate_ptr", "y_ptr")


def gated_rms_norm(launch: Launch) -> list[Access]:
    tokens, programs = launch.grid
    width = launch["DV"]
    return [
        *each(tokens * launch["HV"] * width, "o_ptr", "z_ptr", "y_ptr"),
        Access("weight_ptr", tokens * programs * width, width),
    ]


def prologue(launch: Launch) -> list[Access]:
    """Of the columns that turn each is read twice, once as its partner's; angles and norms by every program."""
    tokens, programs = launch.grid
    queries, keys, width, turning = (launch[name] for name in ("NQ", "NK", "D", "R"))
    kv_parts = -(-keys // launch["TILE"])
    q_parts = programs - 2 * kv_parts
    columns = tokens * (queries + 2 * keys) * width
    angles = tokens * (q_parts + kv_parts) * turning
    return [
        Access("slot_mapping_ptr", tokens * programs, tokens),
        Access("x_ptr", columns + tokens * (queries + keys) * turning, columns),
        Access("q_norm_ptr", tokens * q_parts * (width + turning), width),
        Access("k_norm_ptr", tokens * kv_parts * (width + turning), width),
        *(Access(name, angles, tokens * turning) for name in ("cos_ptr", "sin_ptr")),
        *each(tokens * queries * width, "q_ptr"),
        *each(tokens * keys * width, "k_pages_ptr", "v_pages_ptr"),
    ]


def splits_with_tokens(context: int, splits: int) -> int:
    pages = -(-context // PAGE)
    return -(-pages // -(-pages // splits))


def decode_attention(launch: Launch) -> list[Access]:
    """Keys to the end of the last page, values to the end of the row, each by one program: that of its key head."""
    rows, keys, splits = launch.grid
    context, group, width = launch.values.context, launch["G"], launch["D"]
    pages, used = -(-context // PAGE), splits_with_tokens(context, splits)
    heads = rows * keys * group
    return [
        Access("context_lengths_ptr", rows * keys * splits, rows),
        Access("page_table_ptr", rows * keys * pages, rows * pages),
        Access("q_ptr", heads * used * width, heads * width),
        *each(rows * keys * pages * PAGE * width, "k_pages_ptr"),
        *each(rows * keys * context * width, "v_pages_ptr"),
        *each(heads * used * width, "parts_ptr"),
        *each(heads * splits, "logs_ptr"),
    ]


def merge_splits(launch: Launch) -> list[Access]:
    heads, splits, width = launch.grid[0] * launch.grid[1], launch["SPLITS"], launch["D"]
    used = splits_with_tokens(launch.values.context, splits)
    return [
        *each(heads * used * width, "parts_ptr"),
        *each(heads * splits, "logs_ptr"),
        *each(heads * width, "out_ptr"),
    ]


def delta_decode(launch: Launch) -> list[Access]:
    rows = launch.grid[1]
    states = rows * launch["HK"] * launch["RATIO"] * launch["DK"] * launch["DV"]
    return [*_between_projections(launch), *each(2 * states, "states_ptr")]


def delta_ring(launch: Launch) -> list[Access]:
    """As many of the rows as hold 7 tokens write the state, and read the ring again to do so; the others append."""
    keys, rows = launch.grid
    key_dim, value_dim, ring = launch["DK"], launch["DV"], launch["RING"]
    heads = keys * launch["RATIO"]
    tiles = heads * (value_dim // launch["TILE"])  # programs' turns, of a row
    pending = launch.values.pending
    held = rows * sum(pending) / len(pending)
    full = rows * pending.count(ring - 1) / len(pending)
    again = full * (ring - 1)
    return [
        *_between_projections(launch),
        Access("pending_ptr", rows * keys, rows),
        *each((rows + full) * heads * key_dim * value_dim, "states_ptr"),
        Access("ring_k_ptr", (held * keys + again * tiles) * key_dim, held * keys * key_dim),
        Access("ring_e_ptr", (held + again) * heads * value_dim, held * heads * value_dim),
        Access("ring_g_ptr", (held + again) * tiles, held * heads),
        *each((rows - full) * keys * key_dim, "ring_k_ptr"),
        *each((rows - full) * heads * value_dim, "ring_e_ptr"),
        Access("ring_g_ptr", (rows - full) * tiles, (rows - full) * heads),
    ]


def _between_projections(launch: Launch) -> list[Access]:
    """Of a row: columns once, and what moves up in the slot again; conv_weight too though all rows share it; gates on
    every turn of a program.
    """
    keys, rows = launch.grid
    heads, kernel = keys * launch["RATIO"], launch["KERNEL"]
    columns = 2 * keys * launch["DK"] + heads * launch["DV"]
    turns = heads * (launch["DV"] // launch["TILE"])
    return [
        Access("state_slots_ptr", rows * keys, rows),
        Access("qkv_ptr", 2 * rows * columns, rows * columns),
        Access("conv_state_ptr", rows * (3 * kernel - 4) * columns, 2 * rows * (kernel - 1) * columns),
        Access("conv_weight_ptr", rows * kernel * columns, kernel * columns),
        *(Access(name, rows * turns, rows * heads) for name in ("a_ptr", "b_ptr")),
        *(Access(name, rows * turns, heads) for name in ("a_log_ptr", "dt_bias_ptr")),
        *each(rows * heads * launch["DV"], "out_ptr"),
    ]


def sample_parts(launch: Launch) -> list[Access]:
    parts, rows = launch.grid
    peaks = rows * parts * (launch["PART"] // launch["PEAK"])
    return [
        *each(rows * launch["vocabulary"], "logits_ptr"),
        *each(peaks, "peaks_ptr"),
        *each(rows * parts, "mass_ptr"),
        Access("temperature_ptr", rows * parts, rows),
    ]


def sample_draw(launch: Launch) -> list[Access]:
    """Of rows with a temperature and top_k: what lies below high peaks is read again, and candidates go to and fro."""
    rows, parts = launch.grid[0], launch["parts"]
    values, in_part = launch.values, launch["PART"] // launch["PEAK"]
    return [
        Access("peaks_ptr", (rows * parts + values.parts) * in_part, rows * parts * in_part),
        *each(rows * parts, "mass_ptr"),
        *each(rows, "temperature_ptr", "top_k_ptr", "top_p_ptr", "seeds_ptr", "positions_ptr", "out_ptr"),
        *each(values.looked, "logits_ptr"),
        *each(2 * values.candidates, "found_ptr", "found_ids_ptr"),
    ]


Formula = Callable[[Launch], list[Access]]
# With the job of bench.least that each does or helps to do.
FORMULAS: dict[str, tuple[str, Formula]] = {
    "rms_norm_kernel": ("norms", rms_norm),
    "swiglu_kernel": ("swiglu", swiglu),
    "output_gate_kernel": ("output gate", output_gate),
    "gated_rms_norm_kernel": ("gated norm", gated_rms_norm),
    "prologue_kernel": ("prologue", prologue),
    "decode_attention_kernel": ("attention", decode_attention),
    "merge_splits_kernel": ("attention", merge_splits),
    "delta_decode_kernel": ("delta rule", delta_decode),
    "delta_ring_kernel": ("delta rule", delta_ring),
    "sample_parts_kernel": ("sampling", sample_parts),
    "sample_draw_kernel": ("sampling", sample_draw),
}
