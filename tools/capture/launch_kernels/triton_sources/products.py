"""Triton kernels with matrix products: by pointers, by tensor descriptors of host and device,
persistent, split, attention.
"""

# ruff: noqa: N803 - constants of a kernel are its arguments
import triton
import triton.language as tl


@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    WHOLE: tl.constexpr,
):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.int32 if WHOLE else tl.float32)
    for at in range(0, K, BK):
        left = tl.load(
            a + m[:, None] * stride_am + (at + k)[None, :] * stride_ak, mask=(m[:, None] < M) & ((at + k)[None, :] < K), other=0.0
        )
        right = tl.load(
            b + (at + k)[:, None] * stride_bk + n[None, :] * stride_bn, mask=((at + k)[:, None] < K) & (n[None, :] < N), other=0.0
        )
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * stride_cm + n[None, :], total.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_host(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Host tensor descriptors; B is [N, K]."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(c.dtype))


@triton.jit
def matmul_device(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Descriptors made on the device, in global scratch; B is [K, N]."""
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    right = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    out = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(left.load([m, k]), right.load([k, n]), total)
    out.store([m, n], total.to(c.dtype.element_ty))


@triton.jit
def matmul_specialized(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The compiler parts the warps: some load, some multiply."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(c.dtype))


@triton.jit
def matmul_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
        m, n = tile // tiles_n * BM, tile % tiles_n * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
        c.store([m, n], total.to(c.dtype))


@triton.jit
def matmul_split(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    """Split along K; parts are added by atomics."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.program_id(2) * BK + tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, K, BK * SPLIT):
        total = tl.dot(tl.load(a + m[:, None] * K + (at + k)[None, :]), tl.load(b + (at + k)[:, None] * N + n[None, :]), total)
    tl.atomic_add(c + m[:, None] * N + n[None, :], total)


@triton.jit
def attention(
    q, k, v, out, SCALE: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    """Flash attention, forward: descriptors of [heads * rows, D]."""
    head, m = tl.program_id(1) * ROWS, tl.program_id(0) * BM
    query = q.load([head + m, 0])
    rows = m + tl.arange(0, BM)
    most, total = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    for n in range(0, m + BM if CAUSAL else ROWS, BN):
        s = tl.dot(query, k.load([head + n, 0]).T) * (SCALE * 1.44269504)
        if CAUSAL:
            s = tl.where(rows[:, None] >= (n + tl.arange(0, BN))[None, :], s, -float("inf"))
        larger = tl.maximum(most, tl.max(s, 1))
        p = tl.math.exp2(s - larger[:, None])
        shrink = tl.math.exp2(most - larger)
        total = total * shrink + tl.sum(p, 1)
        result = tl.dot(p.to(query.dtype), v.load([head + n, 0]), result * shrink[:, None])
        most = larger
    out.store([head + m, 0], (result / total[:, None]).to(out.dtype))
