"""Gluon kernels around tcgen05.mma: every swizzle and major, chained accumulators, A in tensor memory, pairs, multicast, scale factors."""

# ruff: noqa: N803 - constants of a kernel are its arguments
from __future__ import annotations

from typing import Any

from cases import Array, Case, Constant, Descriptor, Value
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
    tcgen05_mma_barrier_count,
    tcgen05_mma_scaled,
    tma,
)
from triton_matmuls import NORMAL, SMALL, product, scaled_product

__all__ = ["CASES"]


@gluon.jit
def dense(
    a_desc, b_desc, d_ptr, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, A_T: gl.constexpr, B_T: gl.constexpr,
    D: gl.constexpr, D_TYPE: gl.constexpr, VARIANT: gl.constexpr,
):  # fmt: skip
    """D = A B, both brought by TMA, one buffer, an MMA chain over K. A is [M, K] ([K, M] if A_T), B is [N, K] ([K, N] if B_T)."""
    a_buffer = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b_buffer = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    multiplied = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(multiplied, count=1)
    acc = allocate_tensor_memory(D_TYPE, [BLOCK_M, BLOCK_N], D)
    phase = 0
    for k in range(0, K, BLOCK_K):
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        if A_T:
            tma.async_load(a_desc, [k, 0], loaded, a_buffer)
            a = a_buffer.permute((1, 0))
        else:
            tma.async_load(a_desc, [0, k], loaded, a_buffer)
            a = a_buffer
        if B_T:
            tma.async_load(b_desc, [k, 0], loaded, b_buffer)
            b = b_buffer
        else:
            tma.async_load(b_desc, [0, k], loaded, b_buffer)
            b = b_buffer.permute((1, 0))
        mbarrier.wait(loaded, phase)
        tcgen05_mma(a, b, acc, use_acc=k > 0)
        tcgen05_commit(multiplied)
        mbarrier.wait(multiplied, phase)
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(multiplied)
    result = acc.load(acc.get_reg_layout(instr_variant=VARIANT))
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, BLOCK_M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * BLOCK_N + columns, result)


@gluon.jit
def written(
    a_ptr, b_ptr, d_ptr,
    M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, A: gl.constexpr, B: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """Operands that threads write to shared memory (A [M, K], B [K, N], any layout): generic proxy, fence, one MMA chain."""
    registers: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    am = gl.arange(0, M, gl.SliceLayout(1, registers))[:, None]
    ak = gl.arange(0, K, gl.SliceLayout(0, registers))[None, :]
    bk = gl.arange(0, K, gl.SliceLayout(1, registers))[:, None]
    bn = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    a_buffer = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [M, K], A, gl.load(a_ptr + am * K + ak))
    b_buffer = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [K, N], B, gl.load(b_ptr + bk * N + bn))
    fence_async_shared()
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    acc = allocate_tensor_memory(gl.float32, [M, N], D)
    tcgen05_mma(a_buffer, b_buffer, acc, use_acc=False, mbarriers=[bar])
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    result = acc.load()
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * N + columns, result)


@gluon.jit
def accumulated(
    a_ptr, b_ptr, c_ptr, d_ptr,
    M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, A: gl.constexpr, B: gl.constexpr, D: gl.constexpr, IN_TMEM: gl.constexpr,
):  # fmt: skip
    """D = A B + A B + C: the accumulator begins with what threads store there; A in tensor memory on demand."""
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    am = gl.arange(0, M, gl.SliceLayout(1, registers))[:, None]
    ak = gl.arange(0, K, gl.SliceLayout(0, registers))[None, :]
    bk = gl.arange(0, K, gl.SliceLayout(1, registers))[:, None]
    bn = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    cn = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    a = gl.load(a_ptr + am * K + ak)
    b_buffer = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [K, N], B, gl.load(b_ptr + bk * N + bn))
    acc = allocate_tensor_memory(gl.float32, [M, N], D)
    at: gl.constexpr = acc.get_reg_layout()
    acc.store(gl.convert_layout(gl.load(c_ptr + am * N + cn), at))
    if IN_TMEM:
        a_buffer = allocate_tensor_memory(a_ptr.dtype.element_ty, [M, K], A)
        a_buffer.store(gl.convert_layout(a, a_buffer.get_reg_layout()))
    else:
        a_buffer = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [M, K], A, a)
    fence_async_shared()
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for i in range(2):
        tcgen05_mma(a_buffer, b_buffer, acc, use_acc=True)
        tcgen05_commit(bar)
        mbarrier.wait(bar, i)
    mbarrier.invalidate(bar)
    result = acc.load(at)
    rows = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * N + columns, result)


@gluon.jit
def pair(
    a_desc, b_desc, d_ptr, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, B_T: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Two CTAs multiply one tile (cta_group::2): each has half of A's rows and half of B's; one barrier of the pair counts both loads."""
    a_buffers = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_shape, a_desc.layout)
    b_buffers = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES, two_ctas=True)
    done = mbarrier.allocate_mbarrier(batch=STAGES)
    for stage in gl.static_range(STAGES):
        mbarrier.init(loaded.index(stage), count=1)
        mbarrier.init(done.index(stage), count=1)
    acc = allocate_tensor_memory(gl.float32, [BLOCK_M, BLOCK_N], D)
    steps = K // BLOCK_K
    for i in range(steps):
        s = i % STAGES
        round = i // STAGES
        mbarrier.wait(done.index(s), (round & 1) ^ 1, pred=round > 0)
        mbarrier.expect(loaded.index(s), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, i * BLOCK_K], loaded.index(s), a_buffers.index(s))
        if B_T:
            tma.async_load(b_desc, [i * BLOCK_K, 0], loaded.index(s), b_buffers.index(s))
            b = b_buffers.index(s)
        else:
            tma.async_load(b_desc, [0, i * BLOCK_K], loaded.index(s), b_buffers.index(s))
            b = b_buffers.index(s).permute((1, 0))
        mbarrier.wait(loaded.index(s), round & 1)
        tcgen05_mma(a_buffers.index(s), b, acc, use_acc=i > 0)
        tcgen05_commit(done.index(s))
    last = steps - 1
    mbarrier.wait(done.index(last % STAGES), (last // STAGES) & 1)
    result = acc.load()
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, BLOCK_M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * BLOCK_N + columns, result)


@gluon.jit
def multicast(
    a_desc, b_desc, d_ptr, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """A cluster of two, each CTA with its own MMA (cta_group::1): rows of A of its own, B the same and loaded once (.multicast::cluster)."""
    a_buffer = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b_buffer = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([a_buffer, b_buffer], True, False))
    acc = allocate_tensor_memory(gl.float32, [BLOCK_M, BLOCK_N], D)
    phase = 0
    for k in range(0, K, BLOCK_K):
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, k], loaded, a_buffer, multicast=True)
        tma.async_load(b_desc, [0, k], loaded, b_buffer, multicast=True)
        mbarrier.wait(loaded, phase)
        tcgen05_mma(a_buffer, b_buffer.permute((1, 0)), acc, use_acc=k > 0, multicast=True, mbarriers=[done])
        mbarrier.wait(done, phase)
        phase ^= 1
    result = acc.load()
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, BLOCK_M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * BLOCK_N + columns, result)


@gluon.jit
def scaled(
    a_desc, b_desc, sa_ptr, sb_ptr, d_ptr, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, A_TYPE: gl.constexpr, B_TYPE: gl.constexpr,
    A_PACKED: gl.constexpr, B_PACKED: gl.constexpr, FACTORS: gl.constexpr, D: gl.constexpr, SCALES: gl.constexpr, COPIED: gl.constexpr,
):  # fmt: skip
    """Block-scaled MMA; factors [rows, K / vector] go to tensor memory by tcgen05.st, or through shared memory by tcgen05.cp."""
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


# ---- the cases -----------------------------------------------------------------------------------------------------------------------

GL = {"bf16": gl.bfloat16, "f16": gl.float16, "tf32": gl.float32, "e4m3": gl.float8e4nv, "e5m2": gl.float8e5, "s8": gl.int8}
BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "e2m1x2": 8}


def _dense() -> list[Case]:
    out = []
    for dtype, d, (m, n, k), block_k, a_mode, b_mode, a_t, b_t, variant in (
        ("bf16", "f32", (128, 128, 128), 64, 128, 128, False, False, "32x32b"),
        ("bf16", "f32", (128, 128, 64), 64, 64, 64, True, True, "32x32b"),
        ("bf16", "f32", (128, 64, 64), 32, 32, 32, False, True, "16x64b"),
        ("f16", "f32", (128, 16, 64), 64, 128, 128, False, False, "16x256b"),
        ("f16", "f16", (128, 256, 64), 64, 128, 64, True, False, "32x32b"),
        ("f16", "f32", (64, 128, 128), 64, 128, 128, False, True, "32x32b"),
        ("f16", "f32", (256, 64, 64), 64, 64, 32, True, True, "32x32b"),
        ("bf16", "f32", (64, 32, 32), 32, 64, 64, False, False, "16x128b"),
        ("tf32", "f32", (128, 128, 64), 32, 128, 128, False, False, "32x32b"),
        ("tf32", "f32", (128, 32, 32), 16, 64, 32, False, False, "16x256b"),
        ("e4m3", "f32", (128, 128, 256), 128, 128, 128, True, True, "32x32b"),
        ("e5m2", "f16", (128, 64, 64), 64, 64, 64, False, True, "32x32b"),
        ("e4m3", "f32", (128, 32, 64), 32, 32, 32, False, False, "32x32b_splitn"),
        ("s8", "s32", (128, 128, 128), 128, 128, 128, False, False, "32x32b"),
        ("s8", "s32", (64, 64, 128), 64, 64, 64, True, True, "32x32b"),
    ):
        a_layout, b_layout = (gl.NVMMASharedLayout(mode, BITS[dtype], 2) for mode in (a_mode, b_mode))
        stride = {"f32": 1, "s32": 1, "f16": 2}[d]
        layout = TensorMemoryLayout([min(m, 128), n], col_stride=stride)
        args = {
            "a_desc": Descriptor("a", (block_k, m) if a_t else (m, block_k), a_layout),
            "b_desc": Descriptor("b", (block_k, n) if b_t else (n, block_k), b_layout),
            "d_ptr": "d", "K": Value("s32", k), "BLOCK_M": Constant(m), "BLOCK_N": Constant(n), "BLOCK_K": Constant(block_k),
            "A_T": Constant(a_t), "B_T": Constant(b_t), "D": Constant(layout),
            "D_TYPE": Constant({"f32": gl.float32, "s32": gl.int32, "f16": gl.float16}[d]), "VARIANT": Constant(variant),
        }  # fmt: skip
        fill = "integers -128..127" if dtype == "s8" else SMALL
        arrays = {
            "a": Array(dtype, (k, m) if a_t else (m, k), fill, "" if dtype == "s8" else NORMAL),
            "b": Array(dtype, (k, n) if b_t else (n, k), fill, "" if dtype == "s8" else NORMAL),
            "d": Array(d, (m, n)),
        }
        expression = product("a.T" if a_t else "a", "b" if b_t else "b.T", dtype)
        if d == "f16":
            expression = expression[:-1] + ", d_type='f16')"
        majors = ("M" if a_t else "K") + ("N" if b_t else "K")
        name = f"gluon_dense_{dtype}_{d}_{m}x{n}x{k}_{majors}_{a_mode}_{b_mode}".lower()
        title = f"{dtype} to {d}, {m}x{n}x{k} in steps of {block_k}: A {'M' if a_t else 'K'}-major {a_mode}B, B {'N' if b_t else 'K'}-major {b_mode}B; tcgen05.ld {variant}"  # fmt: skip
        out.append(Case(name, title, dense, args, arrays, {"d": expression}))
    return out


def _powers(first: int, end: int, dim: int) -> list[list[int]]:
    out = []
    while first < end:
        out.append([0, first] if dim else [first, 0])
        first *= 2
    return out


def _core_matrices(shape: tuple[int, int], bits: int, contiguous: int, first: int) -> gl.SharedLinearLayout:
    """No swizzle: core matrices of 8 lines of 16 bytes, contiguous along dimension `contiguous`, following one another along `first`."""
    strided, line = 1 - contiguous, 128 // bits
    rest = {contiguous: _powers(line, shape[contiguous], contiguous), strided: _powers(8, shape[strided], strided)}
    return gl.SharedLinearLayout(_powers(1, line, contiguous) + _powers(1, 8, strided) + rest[first] + rest[1 - first], [], 1024)


def _written() -> list[Case]:
    out = []
    for name, dtype, (m, n, k), a_layout, b_layout in (
        ("none_k_k", "bf16", (128, 128, 64), _core_matrices((128, 64), 16, 1, 0), _core_matrices((64, 128), 16, 0, 1)),
        ("none_mn_mn", "f16", (128, 64, 64), _core_matrices((128, 64), 16, 0, 1), _core_matrices((64, 64), 16, 1, 0)),
        ("none_tf32", "tf32", (64, 32, 32), _core_matrices((64, 32), 32, 1, 1), _core_matrices((32, 32), 32, 0, 0)),
        ("none_e4m3", "e4m3", (128, 64, 128), _core_matrices((128, 128), 8, 1, 0), _core_matrices((128, 64), 8, 1, 1)),
        ("swizzled", "bf16", (128, 128, 64), gl.NVMMASharedLayout(128, 16, 2), gl.NVMMASharedLayout(64, 16, 2)),
        ("swizzled_tf32", "tf32", (128, 64, 32), gl.NVMMASharedLayout(128, 32, 2), gl.NVMMASharedLayout(64, 32, 2, transposed=True)),
    ):
        args = {
            "a_ptr": "a", "b_ptr": "b", "d_ptr": "d", "M": Constant(m), "N": Constant(n), "K": Constant(k),
            "A": Constant(a_layout), "B": Constant(b_layout), "D": Constant(TensorMemoryLayout([m, n], col_stride=1)),
        }  # fmt: skip
        arrays = {"a": Array(dtype, (m, k), SMALL, NORMAL), "b": Array(dtype, (k, n), SMALL, NORMAL), "d": Array("f32", (m, n))}
        title = f"{dtype} operands written by threads, {'no swizzle' if name.startswith('none') else 'swizzled'}, {m}x{n}x{k}"
        out.append(Case(f"gluon_written_{name}", title, written, args, arrays, {"d": product("a", "b", dtype)}))
    return out


def _accumulated() -> list[Case]:
    out = []
    for dtype, (m, n, k), in_tmem in (
        ("bf16", (128, 128, 64), True), ("f16", (64, 64, 32), True), ("tf32", (128, 64, 32), True), ("e4m3", (128, 64, 64), True),
        ("bf16", (128, 64, 64), False),
    ):  # fmt: skip
        bits = BITS[dtype]
        b_layout = gl.NVMMASharedLayout(128, bits, 2, transposed=dtype == "tf32")
        if dtype == "e4m3":
            b_layout = gl.NVMMASharedLayout(64, bits, 2)
        a_layout: Any = TensorMemoryLayout([m, k], col_stride=1) if in_tmem else gl.NVMMASharedLayout(128, bits, 2)
        args = {
            "a_ptr": "a", "b_ptr": "b", "c_ptr": "c", "d_ptr": "d", "M": Constant(m), "N": Constant(n), "K": Constant(k),
            "A": Constant(a_layout), "B": Constant(b_layout), "D": Constant(TensorMemoryLayout([m, n], col_stride=1)),
            "IN_TMEM": Constant(in_tmem),
        }  # fmt: skip
        arrays = {
            "a": Array(dtype, (m, k), SMALL, NORMAL), "b": Array(dtype, (k, n), SMALL, NORMAL),
            "c": Array("f32", (m, n), "integers -99..99", NORMAL), "d": Array("f32", (m, n)),
        }  # fmt: skip
        types = product("a", "b", dtype)[:-1]
        expression = f"{types}, c={types}, c=c))"
        where = "tensor" if in_tmem else "shared"
        title = f"D = A B + (A B + C), A in {where} memory, C stored there by threads, {dtype}, {m}x{n}x{k}"
        out.append(Case(f"gluon_accumulated_{dtype}_{where}", title, accumulated, args, arrays, {"d": expression}))
    return out


def _pairs() -> list[Case]:
    out = []
    for dtype, (m, n, k), block_k, mode, b_t, stages in (
        ("bf16", (256, 128, 128), 64, 128, False, 2),
        ("f16", (256, 256, 64), 64, 128, True, 1),
        ("f16", (128, 64, 64), 32, 64, False, 2),
        ("e4m3", (256, 128, 256), 128, 128, True, 2),
        ("tf32", (256, 64, 64), 32, 128, False, 2),
    ):
        a_layout = gl.NVMMASharedLayout(mode, BITS[dtype], 2, cga_layout=[[1, 0]])
        per_cta = n // 2 * BITS[dtype] // 8  # bytes of B's rows in N-major order
        b_layout = gl.NVMMASharedLayout(min(mode, per_cta) if b_t else mode, BITS[dtype], 2, cga_layout=[[0, 1]] if b_t else [[1, 0]])
        layout = TensorMemoryLayout([m // 2, n], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
        args = {
            "a_desc": Descriptor("a", (m, block_k), a_layout), "b_desc": Descriptor("b", (block_k, n) if b_t else (n, block_k), b_layout),
            "d_ptr": "d", "K": Value("s32", k), "BLOCK_M": Constant(m), "BLOCK_N": Constant(n), "BLOCK_K": Constant(block_k),
            "B_T": Constant(b_t), "D": Constant(layout), "STAGES": Constant(stages),
        }  # fmt: skip
        arrays = {"a": Array(dtype, (m, k), SMALL, NORMAL), "b": Array(dtype, (k, n) if b_t else (n, k), SMALL, NORMAL), "d": Array("f32", (m, n))}
        title = f"a pair (cta_group::2), {dtype}, {m}x{n}x{k}, {stages} stages, barriers of the pair"
        name = f"gluon_pair_{dtype}_{m}x{n}x{k}"
        out.append(Case(name, title, pair, args, arrays, {"d": product("a", "b" if b_t else "b.T", dtype)}, options={"num_ctas": 2}))
    for dtype, (m, n, k), block_k in (("bf16", (256, 64, 128), 64), ("e4m3", (256, 128, 256), 128)):
        a_layout = gl.NVMMASharedLayout(128, BITS[dtype], 2, cga_layout=[[1, 0]])
        b_layout = gl.NVMMASharedLayout(128, BITS[dtype], 2, cga_layout=[[0, 0]])
        layout = TensorMemoryLayout([128, n], col_stride=1, cga_layout=[[1, 0]])
        args = {
            "a_desc": Descriptor("a", (m, block_k), a_layout), "b_desc": Descriptor("b", (n, block_k), b_layout), "d_ptr": "d",
            "K": Value("s32", k), "BLOCK_M": Constant(m), "BLOCK_N": Constant(n), "BLOCK_K": Constant(block_k), "D": Constant(layout),
        }  # fmt: skip
        arrays = {"a": Array(dtype, (m, k), SMALL, NORMAL), "b": Array(dtype, (n, k), SMALL, NORMAL), "d": Array("f32", (m, n))}
        title = f"a cluster of two, B loaded once for both (.multicast::cluster), commits to both, {dtype}, {m}x{n}x{k}"
        out.append(Case(f"gluon_multicast_{dtype}", title, multicast, args, arrays, {"d": product("a", "b.T", dtype)}, options={"num_ctas": 2}))
    return out


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
        order = [[0, 1], [0, 2], [32, 0], [64, 0], *_powers(1, 32, 0), *_powers(4, factors, 1)]
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
        title = f"block-scaled {a_type} by {b_type}, {scale} factors of {vector}, {m}x{n}x{k}, factors by tcgen05.{'cp' if copied else 'st'}"
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


CASES = [*_dense(), *_written(), *_accumulated(), *_pairs(), *_scaled(), *_specialized()]
