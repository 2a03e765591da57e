"""Gluon kernels that pipeline: scale factors on their way to tensor memory, specialised warps, accumulators that take
turns.
"""

# ruff: noqa: N803, RUF005 - constants of a kernel are its arguments; its lists are the compiler's
from __future__ import annotations

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_scaled,
    tma,
)

from tools.witnesses.launches.gluon_mma import BITS, powers_of_two
from tools.witnesses.launches.launch_cases import Array, Case, Constant, Descriptor, Value
from tools.witnesses.launches.triton_matmuls import NORMAL, SMALL, product, scaled_product

__all__ = ["CASES"]


@gluon.jit
def _drain_tiles(acc, filled, drained, d_ptr, tiles, N: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    for tile in range(tiles):
        b = tile % 2
        mbarrier.wait(filled.index(b), (tile // 2) & 1)
        result = acc.index(b).load()
        mbarrier.arrive(drained.index(b), count=1)
        at: gl.constexpr = result.type.layout
        rows = gl.program_id(0) * BLOCK_M + gl.arange(0, BLOCK_M, gl.SliceLayout(1, at))[:, None]
        columns = tile * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, at))[None, :]
        gl.store(d_ptr + rows * N + columns, result)


@gluon.jit
def _fill_tiles(
    a_desc, b_desc, a_buffer, b_buffer, loaded, multiplied, acc, filled, drained, tiles, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr
):
    for tile in range(tiles):
        b = tile % 2
        mbarrier.wait(drained.index(b), ((tile // 2) & 1) ^ 1)
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [gl.program_id(0) * BLOCK_M, 0], loaded, a_buffer)
        tma.async_load(b_desc, [tile * BLOCK_N, 0], loaded, b_buffer)
        mbarrier.wait(loaded, tile & 1)
        tcgen05_mma(a_buffer, b_buffer.permute((1, 0)), acc.index(b), use_acc=False)
        tcgen05_commit(filled.index(b))
        tcgen05_commit(multiplied)
        mbarrier.wait(multiplied, tile & 1)


@gluon.jit
def overlapped(
    a_desc, b_desc, d_ptr, tiles, N: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """Two accumulators in tensor memory: one is multiplied into while the other is read."""
    a_buffer = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b_buffer = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    filled = mbarrier.allocate_mbarrier(batch=2)
    drained = mbarrier.allocate_mbarrier(batch=2)
    loaded = mbarrier.allocate_mbarrier()
    multiplied = mbarrier.allocate_mbarrier()
    for i in gl.static_range(2):
        mbarrier.init(filled.index(i), count=1)
        mbarrier.init(drained.index(i), count=1)
    mbarrier.init(loaded, count=1)
    mbarrier.init(multiplied, count=1)
    acc = allocate_tensor_memory(gl.float32, [2, BLOCK_M, BLOCK_N], D)
    gl.warp_specialize(
        [
            (_drain_tiles, (acc, filled, drained, d_ptr, tiles, N, BLOCK_M, BLOCK_N)),
            (_fill_tiles, (a_desc, b_desc, a_buffer, b_buffer, loaded, multiplied, acc, filled, drained, tiles, BLOCK_M, BLOCK_N)),
        ],
        [1],
        [48],
    )


@gluon.jit
def scaled(
    a_desc, b_desc, sa_ptr, sb_ptr, d_ptr, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, A_TYPE: gl.constexpr, B_TYPE: gl.constexpr,
    A_PACKED: gl.constexpr, B_PACKED: gl.constexpr, FACTORS: gl.constexpr, D: gl.constexpr, SCALES: gl.constexpr, COPIED: gl.constexpr,
):  # fmt: skip
    """Block-scaled MMA; factors [rows, K / vector] go to tensor memory by tcgen05.st, or through shared memory by
    tcgen05.cp.
    """
    a_buffer = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b_buffer = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [BLOCK_M, BLOCK_N], D)
    factors: gl.constexpr = TensorMemoryScalesLayout()
    sa = allocate_tensor_memory(sa_ptr.dtype.element_ty, [BLOCK_M, FACTORS], factors)
    sb = allocate_tensor_memory(sb_ptr.dtype.element_ty, [BLOCK_N, FACTORS], factors)
    sa_at: gl.constexpr = sa.get_reg_layout()
    sb_at: gl.constexpr = sb.get_reg_layout()
    ms = gl.arange(0, BLOCK_M, gl.SliceLayout(1, sa_at))[:, None]
    mv = gl.arange(0, FACTORS, gl.SliceLayout(0, sa_at))[None, :]
    ns = gl.arange(0, BLOCK_N, gl.SliceLayout(1, sb_at))[:, None]
    nv = gl.arange(0, FACTORS, gl.SliceLayout(0, sb_at))[None, :]
    steps = K // BLOCK_K
    phase = 0
    for i in range(steps):
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, i * (BLOCK_K // A_PACKED)], loaded, a_buffer)
        tma.async_load(b_desc, [0, i * (BLOCK_K // B_PACKED)], loaded, b_buffer)
        a_factors = gl.load(sa_ptr + ms * (steps * FACTORS) + i * FACTORS + mv)
        b_factors = gl.load(sb_ptr + ns * (steps * FACTORS) + i * FACTORS + nv)
        if COPIED:
            sa_buffer = gl.allocate_shared_memory(sa_ptr.dtype.element_ty, [BLOCK_M, FACTORS], SCALES, a_factors)
            sb_buffer = gl.allocate_shared_memory(sb_ptr.dtype.element_ty, [BLOCK_N, FACTORS], SCALES, b_factors)
            fence_async_shared()
            tcgen05_copy(sa_buffer, sa)
            tcgen05_copy(sb_buffer, sb)
        else:
            sa.store(a_factors)
            sb.store(b_factors)
        mbarrier.wait(loaded, phase)
        tcgen05_mma_scaled(a_buffer, b_buffer.permute((1, 0)), acc, sa, sb, A_TYPE, B_TYPE, use_acc=i > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
    result = acc.load()
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, BLOCK_M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * BLOCK_N + columns, result)


@gluon.jit
def _load_tiles(a_desc, b_desc, a_buffers, b_buffers, loaded, free, steps, STAGES: gl.constexpr, BLOCK_K: gl.constexpr):
    for i in range(steps):
        s = i % STAGES
        mbarrier.wait(free.index(s), ((i // STAGES) & 1) ^ 1)
        mbarrier.expect(loaded.index(s), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, i * BLOCK_K], loaded.index(s), a_buffers.index(s))
        tma.async_load(b_desc, [0, i * BLOCK_K], loaded.index(s), b_buffers.index(s))


@gluon.jit
def _multiply_tiles(a_buffers, b_buffers, loaded, free, acc, done, steps, STAGES: gl.constexpr):
    for i in range(steps):
        s = i % STAGES
        mbarrier.wait(loaded.index(s), (i // STAGES) & 1)
        tcgen05_mma(a_buffers.index(s), b_buffers.index(s).permute((1, 0)), acc, use_acc=i > 0)
        tcgen05_commit(free.index(s))
    tcgen05_commit(done)


@gluon.jit
def _store_tile(acc, done, d_desc):
    mbarrier.wait(done, 0)
    d_buffer = gl.allocate_shared_memory(d_desc.dtype, d_desc.block_shape, d_desc.layout)
    d_buffer.store(acc.load().to(d_desc.dtype))
    fence_async_shared()
    tma.async_store(d_desc, [0, 0], d_buffer)
    tma.store_wait(0)


@gluon.jit
def specialized(
    a_desc, b_desc, d_desc, K, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """One warp loads, one multiplies, four store: partitions that meet at mbarriers only."""
    a_buffers = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_shape, a_desc.layout)
    b_buffers = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for stage in gl.static_range(STAGES):
        mbarrier.init(loaded.index(stage), count=1)
        mbarrier.init(free.index(stage), count=1)
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [BLOCK_M, BLOCK_N], D)
    steps = K // BLOCK_K
    gl.warp_specialize(
        [
            (_store_tile, (acc, done, d_desc)),
            (_load_tiles, (a_desc, b_desc, a_buffers, b_buffers, loaded, free, steps, STAGES, BLOCK_K)),
            (_multiply_tiles, (a_buffers, b_buffers, loaded, free, acc, done, steps, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


# ---- the cases -------------------------------------------------------------------------------------------------------


def _scaled() -> list[Case]:
    out = []
    for name, a_type, b_type, (m, n, k), block_k, vector, scale, copied in (
        ("mxf8", "e4m3", "e4m3", (128, 128, 256), 128, 32, "ue8m0", False),
        ("mxf8_cp", "e4m3", "e5m2", (128, 128, 256), 128, 32, "ue8m0", True),
        ("mxf8_n32", "e5m2", "e5m2", (128, 32, 128), 128, 32, "ue8m0", False),
        ("mxf4", "e2m1", "e2m1", (128, 128, 512), 256, 32, "ue8m0", True),
        ("nvf4", "e2m1", "e2m1", (128, 64, 256), 128, 16, "ue4m3", False),
        ("nvf4_cp", "e2m1", "e2m1", (128, 128, 256), 256, 16, "ue4m3", True),
    ):
        packed = [2 if t == "e2m1" else 1 for t in (a_type, b_type)]
        stored = ["e2m1x2" if t == "e2m1" else t for t in (a_type, b_type)]
        factors = block_k // vector
        order = [[0, 1], [0, 2], [32, 0], [64, 0], *powers_of_two(1, 32, 0), *powers_of_two(4, factors, 1)]
        mode = block_k // packed[0]
        layouts = [gl.NVMMASharedLayout(min(128, mode), 8, 2) for _ in range(2)]
        args = {
            "a_desc": Descriptor("a", (m, block_k // packed[0]), layouts[0]), "b_desc": Descriptor("b", (n, block_k // packed[1]), layouts[1]),
            "sa_ptr": "sa", "sb_ptr": "sb", "d_ptr": "d", "K": Value("s32", k), "BLOCK_M": Constant(m), "BLOCK_N": Constant(n),
            "BLOCK_K": Constant(block_k), "A_TYPE": Constant(a_type), "B_TYPE": Constant(b_type), "A_PACKED": Constant(packed[0]),
            "B_PACKED": Constant(packed[1]), "FACTORS": Constant(factors), "D": Constant(TensorMemoryLayout([m, n], col_stride=1)),
            "SCALES": Constant(gl.SharedLinearLayout(order, [], 128)), "COPIED": Constant(copied),
        }  # fmt: skip
        fill = ("powers -1..1", "powers -6..6") if scale == "ue8m0" else ("integers 1..4", "uniform 0.125..8")
        arrays = {
            "a": Array(stored[0], (m, k // packed[0]), SMALL, NORMAL), "b": Array(stored[1], (n, k // packed[1]), SMALL, NORMAL),
            "sa": Array(scale, (m, k // vector), *fill), "sb": Array(scale, (n, k // vector), *fill), "d": Array("f32", (m, n)),
        }  # fmt: skip
        expression = scaled_product(a_type, b_type, scale, vector)
        title = (
            f"block-scaled {a_type} by {b_type}, {scale} factors of {vector}, {m}x{n}x{k}, factors by tcgen05.{'cp' if copied else 'st'}"
        )
        out.append(Case(f"gluon_scaled_{name}", title, scaled, args, arrays, {"d": expression}))
    return out


def _specialized() -> list[Case]:
    out = []
    for dtype, (m, n, k), block_k, stages in (("bf16", (128, 128, 512), 64, 3), ("e4m3", (128, 64, 512), 64, 4)):
        mode = block_k * BITS[dtype] // 8
        layouts = [gl.NVMMASharedLayout(mode, BITS[dtype], 2) for _ in range(2)]
        args = {
            "a_desc": Descriptor("a", (m, block_k), layouts[0]), "b_desc": Descriptor("b", (n, block_k), layouts[1]),
            "d_desc": Descriptor("d", (m, n), gl.NVMMASharedLayout(128, 16, 2)), "K": Value("s32", k), "BLOCK_M": Constant(m),
            "BLOCK_N": Constant(n), "BLOCK_K": Constant(block_k), "D": Constant(TensorMemoryLayout([m, n], col_stride=1)),
            "STAGES": Constant(stages),
        }  # fmt: skip
        d = "bf16" if dtype == "bf16" else "f16"
        arrays = {"a": Array(dtype, (m, k), SMALL, NORMAL), "b": Array(dtype, (n, k), SMALL, NORMAL), "d": Array(d, (m, n))}
        title = f"warp specialised: a loading warp, a multiplying warp, four that store; {dtype}, {m}x{n}x{k}, ring of {stages}"
        out.append(Case(f"gluon_specialized_{dtype}", title, specialized, args, arrays, {"d": product("a", "b.T", dtype)}))
    return out


def _overlapped() -> list[Case]:
    out = []
    layout = gl.NVMMASharedLayout(128, 16, 2)
    args: dict[str, Any] = {
        "a_desc": Descriptor("a", (128, 64), layout), "b_desc": Descriptor("b", (64, 64), layout), "d_ptr": "d", "tiles": Value("s32", 5),
        "N": Constant(320), "BLOCK_M": Constant(128), "BLOCK_N": Constant(64), "D": Constant(TensorMemoryLayout([128, 64], col_stride=1)),
    }  # fmt: skip
    arrays = {"a": Array("bf16", (256, 64), SMALL, NORMAL), "b": Array("bf16", (320, 64), SMALL, NORMAL), "d": Array("f32", (256, 320))}
    title = "two accumulators that take turns, five tiles a program, warp specialised"
    out.append(Case("gluon_overlapped", title, overlapped, args, arrays, {"d": product("a", "b.T", "bf16")}, (2, 1, 1)))
    return out


CASES = [*_scaled(), *_specialized(), *_overlapped()]
