"""Gluon kernels of several CTAs: pairs (cta_group::2), multicast, clusters of four."""

# ruff: noqa: N803, RUF005 - constants of a kernel are its arguments; its lists are the compiler's
from __future__ import annotations

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tma,
)

from tools.witnesses.launches.gluon_mma import BITS
from tools.witnesses.launches.launch_cases import Array, Case, Constant, Descriptor, Value
from tools.witnesses.launches.triton_matmuls import NORMAL, SMALL, product

__all__ = ["CASES"]


@gluon.jit
def pair(
    a_desc, b_desc, d_ptr, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, B_T: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Two CTAs multiply one tile (cta_group::2): each has half of A's rows and half of B's; one barrier of the pair
    counts both loads.
    """
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
    """A cluster of two, each CTA with its own MMA (cta_group::1): rows of A of its own, B the same and loaded once
    (.multicast::cluster).
    """
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
def quad(
    a_desc, b_desc, d_desc, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """A cluster of four: two pairs (cta_group::2) with rows of A of their own, B multicast to both pairs."""
    a_buffer = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b_buffer = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([a_buffer, b_buffer], True, True))
    acc = allocate_tensor_memory(gl.float32, [BLOCK_M, BLOCK_N], D)
    phase = 0
    for k in range(0, K, BLOCK_K):
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, k], loaded, a_buffer, multicast=True)
        tma.async_load(b_desc, [k, 0], loaded, b_buffer, multicast=True)
        mbarrier.wait(loaded, phase)
        tcgen05_mma(a_buffer, b_buffer, acc, use_acc=k > 0, multicast=True, mbarriers=[done])
        mbarrier.wait(done, phase)
        phase ^= 1
    d_buffer = gl.allocate_shared_memory(d_desc.dtype, d_desc.block_shape, d_desc.layout)
    d_buffer.store(acc.load().to(d_desc.dtype))
    fence_async_shared()
    tma.async_store(d_desc, [0, 0], d_buffer)
    tma.store_wait(0)


@gluon.jit
def pair_in_tmem(
    a_ptr, b_desc, d_ptr, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, A: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """A pair whose A lies in the tensor memory of both CTAs."""
    a_memory = allocate_tensor_memory(a_ptr.dtype.element_ty, [M, K], A)
    at: gl.constexpr = a_memory.get_reg_layout()
    m = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    k = gl.arange(0, K, gl.SliceLayout(0, at))[None, :]
    a_memory.store(gl.load(a_ptr + m * K + k))
    b_buffer = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [M, N], D)
    mbarrier.expect(loaded, b_desc.nbytes_per_cta)
    tma.async_load(b_desc, [0, 0], loaded, b_buffer)
    mbarrier.wait(loaded, 0)
    tcgen05_mma(a_memory, b_buffer.permute((1, 0)), acc, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    result = acc.load()
    to: gl.constexpr = result.type.layout
    rows = gl.arange(0, M, gl.SliceLayout(1, to))[:, None]
    columns = gl.arange(0, N, gl.SliceLayout(0, to))[None, :]
    gl.store(d_ptr + rows * N + columns, result)


# ---- the cases -------------------------------------------------------------------------------------------------------


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
        arrays = {
            "a": Array(dtype, (m, k), SMALL, NORMAL),
            "b": Array(dtype, (k, n) if b_t else (n, k), SMALL, NORMAL),
            "d": Array("f32", (m, n)),
        }
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
        out.append(
            Case(f"gluon_multicast_{dtype}", title, multicast, args, arrays, {"d": product("a", "b.T", dtype)}, options={"num_ctas": 2})
        )
    return out


def _clusters() -> list[Case]:
    pairs = [[1, 0], [2, 0]]
    m, n, k = 512, 128, 128
    args: dict[str, Any] = {
        "a_desc": Descriptor("a", (m, 64), gl.NVMMASharedLayout(128, 16, 2, cga_layout=pairs)),
        "b_desc": Descriptor("b", (64, n), gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 1], [0, 0]])),
        "d_desc": Descriptor("d", (m, n), gl.NVMMASharedLayout(128, 16, 2, cga_layout=pairs)), "K": Value("s32", k),
        "BLOCK_M": Constant(m), "BLOCK_N": Constant(n), "BLOCK_K": Constant(64),
        "D": Constant(TensorMemoryLayout([128, n], col_stride=1, cga_layout=pairs, two_ctas=True)),
    }  # fmt: skip
    arrays = {"a": Array("f16", (m, k), SMALL, NORMAL), "b": Array("f16", (k, n), SMALL, NORMAL), "d": Array("f16", (m, n))}
    title = "a cluster of four: two pairs, B multicast to both, commits to all"
    out = [Case("gluon_quad", title, quad, args, arrays, {"d": product("a", "b", "f16")}, options={"num_ctas": 4})]
    args = {
        "a_ptr": "a", "b_desc": Descriptor("b", (64, 64), gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[1, 0]])), "d_ptr": "d",
        "M": Constant(256), "N": Constant(64), "K": Constant(64),
        "A": Constant(TensorMemoryLayout([128, 64], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)),
        "D": Constant(TensorMemoryLayout([128, 64], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)),
    }  # fmt: skip
    arrays = {"a": Array("bf16", (256, 64), SMALL, NORMAL), "b": Array("bf16", (64, 64), SMALL, NORMAL), "d": Array("f32", (256, 64))}
    title = "a pair with A in tensor memory"
    out.append(Case("gluon_pair_tmem", title, pair_in_tmem, args, arrays, {"d": product("a", "b.T", "bf16")}, options={"num_ctas": 2}))
    return out


CASES = [*_pairs(), *_clusters()]
