"""Gluon kernels for Hopper: layouts, TMA and mbarriers by hand, wgmma, partitions of warps."""

# ruff: noqa: N803 - constants of a kernel are its arguments
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def copy_2d(x, out, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """From one layout of registers to another through shared memory."""
    first: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    second: gl.constexpr = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    m, n = gl.arange(0, ROWS, gl.SliceLayout(1, first)), gl.arange(0, COLUMNS, gl.SliceLayout(0, first))
    v = gl.load(x + m[:, None] * COLUMNS + n[None, :])
    shared = gl.allocate_shared_memory(x.dtype.element_ty, [ROWS, COLUMNS], gl.SwizzledSharedLayout(4, 2, 8, [1, 0]))
    shared.store(v)
    w = gl.convert_layout(shared.load(second) * 2, second)
    m, n = gl.arange(0, ROWS, gl.SliceLayout(1, second)), gl.arange(0, COLUMNS, gl.SliceLayout(0, second))
    gl.store(out + n[None, :] * ROWS + m[:, None], w)


@gluon.jit
def tile_product(a_map, b_map, c_map, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """TMA, one barrier, wgmma, TMA store."""
    a = gl.allocate_shared_memory(a_map.dtype, [BM, BK], a_map.layout)
    b = gl.allocate_shared_memory(b_map.dtype, [BN, BK], b_map.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    total = gl.zeros((BM, BN), gl.float32, layout)
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(full, a_map.nbytes_per_cta + b_map.nbytes_per_cta)
        tma.async_load(a_map, [m, k], full, a)
        tma.async_load(b_map, [n, k], full, b)
        mbarrier.wait(full, phase)
        total = warpgroup_mma(a, b.permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
        phase ^= 1
    mbarrier.invalidate(full)
    c = gl.allocate_shared_memory(c_map.dtype, [BM, BN], c_map.layout)
    c.store(total.to(c_map.dtype))
    fence_async_shared()
    tma.async_store(c_map, [m, n], c)
    tma.store_wait(0)


@gluon.jit
def load_partition(a_map, b_map, a, b, full, empty, m, n, K, BK: gl.constexpr, STAGES: gl.constexpr):
    for i in range(0, gl.cdiv(K, BK)):
        stage, phase = i % STAGES, i // STAGES & 1
        mbarrier.wait(empty.index(stage), phase ^ 1)
        mbarrier.expect(full.index(stage), a_map.nbytes_per_cta + b_map.nbytes_per_cta)
        tma.async_load(a_map, [m, i * BK], full.index(stage), a.index(stage))
        tma.async_load(b_map, [n, i * BK], full.index(stage), b.index(stage))


@gluon.jit
def multiply_partition(c_map, a, b, full, empty, m, n, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    total = gl.zeros((BM, BN), gl.float32, layout)
    for i in range(0, gl.cdiv(K, BK)):
        stage, phase = i % STAGES, i // STAGES & 1
        mbarrier.wait(full.index(stage), phase)
        total = warpgroup_mma(a.index(stage), b.index(stage).permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
        mbarrier.arrive(empty.index(stage), count=1)
    c = gl.allocate_shared_memory(c_map.dtype, [BM, BN], c_map.layout)
    c.store(total.to(c_map.dtype))
    fence_async_shared()
    tma.async_store(c_map, [m, n], c)
    tma.store_wait(0)


@gluon.jit
def specialized(a_map, b_map, c_map, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """A partition of one warp brings tiles, the default one multiplies."""
    a = gl.allocate_shared_memory(a_map.dtype, [STAGES, BM, BK], a_map.layout)
    b = gl.allocate_shared_memory(b_map.dtype, [STAGES, BN, BK], b_map.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for s in gl.static_range(STAGES):
        mbarrier.init(full.index(s), count=1)
        mbarrier.init(empty.index(s), count=1)
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    gl.warp_specialize(
        [
            (multiply_partition, (c_map, a, b, full, empty, m, n, K, BM, BN, BK, STAGES)),
            (load_partition, (a_map, b_map, a, b, full, empty, m, n, K, BK, STAGES)),
        ],
        [1],
        [24],
    )
