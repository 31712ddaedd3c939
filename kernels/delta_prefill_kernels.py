"""The Triton kernels of delta_prefill, in the order of their launch; letters as in delta_rule.chunked.

    convolve  q, k of each token                                a program: 64 tokens of one head of q or k
    solve     T = (I + A)⁻¹;  U = T diag(β) V;  W = T diag(β exp G) K     64 tokens of one value head
    scan      V' = U − W S;  S ← exp(G_C) S + Kᵀ diag(exp(G_C − G)) V'    a row's chunks in turn, some value columns
    output    O = diag(exp G) Q S + ((Q Kᵀ) ∘ D) V'             64 tokens of one value head

Only the scan is sequential, so it does the two products that must be and leaves S and V' of each chunk to the output.
How rows fall into chunks only the device knows: programs find their own chunk, and those that are too many end at once.
"""

from __future__ import annotations

from kernels.delta_rule import gate_of, operand, silu, unit
from kernels.device import jit, tl


@jit()
def chunk_of(cu_seqlens_ptr, rows, index, CHUNK: tl.constexpr, AT_ONCE: tl.constexpr):
    """(row, its first token, its length, number in it, its index in `starts`) of the chunk `index` of all rows.

    The row is `rows` where there are fewer chunks: only the device knows how many there are.
    """
    row, before, seen = 0, 0, 0
    for base in range(0, rows, AT_ONCE):
        i = base + tl.arange(0, AT_ONCE)
        here = i < rows
        start = tl.load(cu_seqlens_ptr + i, mask=here, other=0)
        end = tl.load(cu_seqlens_ptr + i + 1, mask=here, other=0)
        chunks = ((end - start + CHUNK - 1) // CHUNK).to(tl.int32)
        passed = here & (seen + tl.cumsum(chunks) <= index)
        row += tl.sum(passed.to(tl.int32))
        before += tl.sum(tl.where(passed, chunks, 0))
        seen += tl.sum(chunks)
    start = tl.load(cu_seqlens_ptr + row, mask=row < rows, other=0)
    end = tl.load(cu_seqlens_ptr + row + 1, mask=row < rows, other=0)
    # start // CHUNK + row grows by at least the row's chunks from row to row: an index for each chunk in what is kept.
    return row, start, end - start, index - before, start // CHUNK + row + index - before


@jit()
def convolved(
    qkv_ptr, stride, window_ptr, conv_weight_ptr, start, length, t, at, width, KERNEL: tl.constexpr
):
    """Columns `at` of the row's tokens t after conv and silu, [T, columns]; tokens before the row's are the slot's."""
    mixed = tl.zeros([t.shape[0], at.shape[0]], tl.float32)
    for j in tl.static_range(KERNEL):
        p = (t + j - (KERNEL - 1))[:, None]
        new = tl.load(qkv_ptr + (start + p) * stride + at[None, :], mask=(p >= 0) & (p < length), other=0.0)
        old = tl.load(window_ptr + (p + KERNEL - 1) * width + at[None, :], mask=p < 0, other=0.0)
        mixed += tl.load(conv_weight_ptr + j * width + at)[None, :] * (
            new.to(tl.float32) + old.to(tl.float32)
        )
    return silu(mixed)


@jit()
def inverse(A, count, C: tl.constexpr):
    """(I + A)⁻¹ for strictly lower A [C, C] with zeros from row `count` on, by forward substitution in float32.

    Doubling, Π (I + A^(2ⁱ)), would be shorter, but powers of A reach 10¹⁷ where keys repeat.
    """
    i = tl.arange(0, C)
    T = tl.where(i[:, None] == i[None, :], 1.0, 0.0)
    for r in range(count - 1):  # row r of T is done: take it out of the rows below
        column = tl.sum(tl.where((i == r)[None, :], A, 0.0), 1)
        line = tl.sum(tl.where((i == r)[:, None], T, 0.0), 0)
        T -= column[:, None] * line[None, :]
    return T


@jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["state_slots_ptr", "cu_seqlens_ptr"])
def delta_convolve_kernel(
    qkv_ptr,
    qkv_stride,
    conv_weight_ptr,
    conv_state_ptr,
    state_slots_ptr,
    cu_seqlens_ptr,
    rows,
    q_ptr,
    k_ptr,
    HK: tl.constexpr,
    RATIO: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    KERNEL: tl.constexpr,
    CHUNK: tl.constexpr,
    EPS: tl.constexpr,
    STATE: tl.constexpr,
):
    head = tl.program_id(0)  # of q, then of k
    row, start, length, number, _ = chunk_of(cu_seqlens_ptr, rows, tl.program_id(1), CHUNK, 64)
    if row < rows:
        WIDTH: tl.constexpr = (2 * DK + RATIO * DV) * HK
        window_ptr = conv_state_ptr + tl.load(state_slots_ptr + row) * (KERNEL - 1) * WIDTH
        keys, t = tl.arange(0, DK), number * CHUNK + tl.arange(0, CHUNK)
        x = convolved(
            qkv_ptr,
            qkv_stride,
            window_ptr,
            conv_weight_ptr,
            start,
            length,
            t,
            head * DK + keys,
            WIDTH,
            KERNEL,
        )
        x = unit(x, 1, EPS)
        at = ((start + t)[:, None] * HK + head % HK) * DK + keys[None, :]
        if head < HK:
            tl.store(q_ptr + at, (x * DK**-0.5).to(q_ptr.dtype.element_ty), mask=(t < length)[:, None])
        else:
            tl.store(k_ptr + at, operand(x, STATE), mask=(t < length)[:, None])


@jit(
    do_not_specialize=["rows"],
    do_not_specialize_on_alignment=["a_ptr", "b_ptr", "state_slots_ptr", "cu_seqlens_ptr"],
)
def delta_solve_kernel(
    qkv_ptr,
    qkv_stride,
    a_ptr,
    a_stride,
    b_ptr,
    b_stride,
    conv_weight_ptr,
    a_log_ptr,
    dt_bias_ptr,
    conv_state_ptr,
    state_slots_ptr,
    cu_seqlens_ptr,
    rows,
    k_ptr,
    u_ptr,
    w_ptr,
    g_ptr,
    HK: tl.constexpr,
    RATIO: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    KERNEL: tl.constexpr,
    CHUNK: tl.constexpr,
    TILE: tl.constexpr,
    STATE: tl.constexpr,
):
    h = tl.program_id(0)
    row, start, length, number, _ = chunk_of(cu_seqlens_ptr, rows, tl.program_id(1), CHUNK, 64)
    if row < rows:
        HV: tl.constexpr = HK * RATIO
        WIDTH: tl.constexpr = 2 * HK * DK + HV * DV
        window_ptr = conv_state_ptr + tl.load(state_slots_ptr + row) * (KERNEL - 1) * WIDTH
        c, i = tl.arange(0, TILE), tl.arange(0, CHUNK)
        t = number * CHUNK + i
        here, token = t < length, start + t
        g, beta = gate_of(
            tl.load(a_ptr + token * a_stride + h, mask=here, other=0.0),
            tl.load(b_ptr + token * b_stride + h, mask=here, other=0.0),
            tl.load(a_log_ptr + h),
            tl.load(dt_bias_ptr + h),
        )
        G, beta = tl.cumsum(tl.where(here, g, 0.0)), tl.where(here, beta, 0.0)
        tl.store(g_ptr + token * HV + h, G, mask=here)
        k_ptrs = k_ptr + (token * HK + h // RATIO)[:, None] * DK + c[None, :]
        A = tl.zeros([CHUNK, CHUNK], tl.float32)
        for part in range(DK // TILE):
            k = tl.load(k_ptrs + part * TILE, mask=here[:, None], other=0.0)
            A = tl.dot(k, tl.trans(k), A, input_precision=STATE)
        decay = tl.exp(tl.where(i[:, None] > i[None, :], G[:, None] - G[None, :], float("-inf")))
        T = inverse(A * decay * beta[:, None], tl.minimum(length - number * CHUNK, CHUNK).to(tl.int32), CHUNK)
        T = operand(T, STATE)
        w_ptrs = w_ptr + (token * HV + h)[:, None] * DK + c[None, :]
        for part in range(DK // TILE):
            k = tl.load(k_ptrs + part * TILE, mask=here[:, None], other=0.0)
            w = tl.dot(T, operand(k * (beta * tl.exp(G))[:, None], STATE), input_precision=STATE)
            tl.store(w_ptrs + part * TILE, operand(w, STATE), mask=here[:, None])
        u_ptrs = u_ptr + (token * HV + h)[:, None] * DV + c[None, :]
        for part in range(DV // TILE):
            at = 2 * HK * DK + h * DV + part * TILE + c
            v = convolved(
                qkv_ptr, qkv_stride, window_ptr, conv_weight_ptr, start, length, t, at, WIDTH, KERNEL
            )
            u = tl.dot(T, operand(v * beta[:, None], STATE), input_precision=STATE)
            tl.store(u_ptrs + part * TILE, u, mask=here[:, None])


@jit()
def store_conv_state(
    qkv_ptr, stride, window_ptr, start, length, at, width, KERNEL: tl.constexpr, ROWS: tl.constexpr
):
    """The last KERNEL − 1 of the slot's conv_state and the row's tokens, into the slot."""
    j = tl.arange(0, ROWS)[:, None]
    p = j + length - (KERNEL - 1)
    kept = j < KERNEL - 1
    new = tl.load(qkv_ptr + (start + p) * stride + at[None, :], mask=kept & (p >= 0), other=0.0)
    old = tl.load(window_ptr + (j + length) * width + at[None, :], mask=kept & (p < 0), other=0.0)
    tl.debug_barrier()  # what one thread stores another may have had to load
    tl.store(window_ptr + j * width + at[None, :], tl.where(p >= 0, new, old), mask=kept)


@jit(do_not_specialize_on_alignment=["state_slots_ptr", "cu_seqlens_ptr"])
def delta_scan_kernel(
    qkv_ptr,
    qkv_stride,
    states_ptr,
    conv_state_ptr,
    state_slots_ptr,
    cu_seqlens_ptr,
    k_ptr,
    u_ptr,
    w_ptr,
    g_ptr,
    fresh_ptr,
    starts_ptr,
    HK: tl.constexpr,
    RATIO: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    KERNEL: tl.constexpr,
    CHUNK: tl.constexpr,
    TILE: tl.constexpr,
    ROWS: tl.constexpr,
    STATE: tl.constexpr,
):
    h, tile, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    HV: tl.constexpr = HK * RATIO
    WIDTH: tl.constexpr = 2 * HK * DK + HV * DV
    head, slot = h // RATIO, tl.load(state_slots_ptr + row)
    start = tl.load(cu_seqlens_ptr + row)
    length = tl.load(cu_seqlens_ptr + row + 1) - start
    keys, values, i = tl.arange(0, DK), tile * TILE + tl.arange(0, TILE), tl.arange(0, CHUNK)
    at = keys[:, None] * DV + values[None, :]
    S = tl.load(states_ptr + (slot * HV + h) * DK * DV + at)
    index = start // CHUNK + row  # see chunk_of
    for first in range(0, length, CHUNK):
        tl.store(starts_ptr + (index * HV + h) * DK * DV + at, S.to(starts_ptr.dtype.element_ty))
        index += 1
        token = start + first + i
        here = first + i < length
        of_value = (token * HV + h)[:, None] * DV + values[None, :]
        w = tl.load(w_ptr + (token * HV + h)[:, None] * DK + keys[None, :], mask=here[:, None], other=0.0)
        u = tl.load(u_ptr + of_value, mask=here[:, None], other=0.0)
        fresh = u - tl.dot(w, operand(S, STATE), input_precision=STATE)
        tl.store(fresh_ptr + of_value, fresh.to(fresh_ptr.dtype.element_ty), mask=here[:, None])
        last = tl.load(g_ptr + (start + tl.minimum(first + CHUNK, length) - 1) * HV + h)
        G = tl.load(g_ptr + token * HV + h, mask=here, other=0.0)
        fresh = operand(fresh * tl.exp(tl.where(here, last - G, 0.0))[:, None], STATE)
        k = tl.load(k_ptr + (token * HK + head)[:, None] * DK + keys[None, :], mask=here[:, None], other=0.0)
        S = tl.dot(tl.trans(k), fresh, S * tl.exp(last), input_precision=STATE)
    tl.store(states_ptr + (slot * HV + h) * DK * DV + at, S)
    if KERNEL > 1:
        window_ptr = conv_state_ptr + slot * (KERNEL - 1) * WIDTH
        of_v, of_q = 2 * HK * DK + h * DV + values, head * DK + keys
        store_conv_state(qkv_ptr, qkv_stride, window_ptr, start, length, of_v, WIDTH, KERNEL, ROWS)
        if (h % RATIO == 0) & (tile == 0):
            store_conv_state(qkv_ptr, qkv_stride, window_ptr, start, length, of_q, WIDTH, KERNEL, ROWS)
            store_conv_state(
                qkv_ptr, qkv_stride, window_ptr, start, length, HK * DK + of_q, WIDTH, KERNEL, ROWS
            )


@jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["cu_seqlens_ptr"])
def delta_output_kernel(
    cu_seqlens_ptr,
    rows,
    q_ptr,
    k_ptr,
    g_ptr,
    fresh_ptr,
    starts_ptr,
    out_ptr,
    HK: tl.constexpr,
    RATIO: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    CHUNK: tl.constexpr,
):
    h = tl.program_id(0)
    row, start, length, number, index = chunk_of(cu_seqlens_ptr, rows, tl.program_id(1), CHUNK, 64)
    if row < rows:
        HV: tl.constexpr = HK * RATIO
        keys, values, i = tl.arange(0, DK), tl.arange(0, DV), tl.arange(0, CHUNK)
        token, here = start + number * CHUNK + i, number * CHUNK + i < length
        of_key = (token * HK + h // RATIO)[:, None] * DK + keys[None, :]
        of_value = (token * HV + h)[:, None] * DV + values[None, :]
        q = tl.load(q_ptr + of_key, mask=here[:, None], other=0.0)
        k = tl.load(k_ptr + of_key, mask=here[:, None], other=0.0).to(q.dtype)
        G = tl.load(g_ptr + token * HV + h, mask=here, other=0.0)
        later = (i[:, None] >= i[None, :]) & here[:, None]
        decay = tl.exp(tl.where(later, G[:, None] - G[None, :], float("-inf")))
        within = tl.dot(q, tl.trans(k)) * decay
        S = tl.load(starts_ptr + (index * HV + h) * DK * DV + keys[:, None] * DV + values[None, :])
        o = tl.dot(q, S) * tl.exp(G)[:, None]
        fresh = tl.load(fresh_ptr + of_value, mask=here[:, None], other=0.0)
        o = tl.dot(within.to(q.dtype), fresh, o)
        tl.store(out_ptr + of_value, o, mask=here[:, None])
