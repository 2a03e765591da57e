"""Triton kernels without matrix products: elements, rows, reductions, scans, sorts, random numbers, atomics."""

# ruff: noqa: N803 - constants of a kernel are its arguments
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    y = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    tl.store(out + at, y.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def mixed(x, y, z, out, n, BLOCK: tl.constexpr):
    """Integers, halves and doubles in one expression; division, remainder, shifts, where."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a, b, c = tl.load(x + at, mask=mask, other=1), tl.load(y + at, mask=mask, other=1.0), tl.load(z + at, mask=mask, other=1.0)
    d = a // 7 + a % 5 + (a >> 3) - (a << 2)
    e = tl.where(d > 0, b.to(tl.float64) * c, c - d)
    tl.store(out + at, tl.maximum(e, -1e9) + tl.abs(d), mask=mask)


@triton.jit
def casts(x, f8, brain, integer, half, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(f8 + at, v.to(tl.float8e4nv), mask=at < n)
    tl.store(brain + at, v.to(tl.bfloat16), mask=at < n)
    tl.store(integer + at, (v * 10).to(tl.int8), mask=at < n)
    tl.store(half + at, v.to(tl.float8e5).to(tl.float16), mask=at < n)


@triton.jit
def softmax(x, out, columns, stride, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + at, v / tl.sum(v, axis=0), mask=at < columns)


@triton.jit
def layernorm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < columns
    v = tl.load(x + row * columns + at, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / columns
    centred = tl.where(mask, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    y = centred * scale * tl.load(weight + at, mask=mask) + tl.load(bias + at, mask=mask)
    tl.store(out + row * columns + at, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def reductions(x, sums, most, places, N: tl.constexpr, M: tl.constexpr):
    """Sums along both axes, extremes with their places."""
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * M * N + rows[:, None] * N + columns[None, :])
    tl.store(sums + tl.program_id(0) * (M + N) + rows, tl.sum(v, axis=1))
    tl.store(sums + tl.program_id(0) * (M + N) + M + columns, tl.sum(v, axis=0))
    tl.store(most + tl.program_id(0) * M + rows, tl.max(v, axis=1))
    tl.store(places + tl.program_id(0) * (M + N) + rows, tl.argmax(v, axis=1))
    tl.store(places + tl.program_id(0) * (M + N) + M + columns, tl.argmin(v, axis=0))


@triton.jit
def combined(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def scans(x, y, sums, recurrence, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v, w = tl.load(x + at), tl.load(y + at)
    tl.store(sums + at, tl.cumsum(v, axis=1))
    _, b = tl.associative_scan((w, v.to(tl.float32)), axis=0, combine_fn=combined)
    tl.store(recurrence + at, b)


@triton.jit
def sort(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), dim=1))


@triton.jit
def gather_scatter(x, index, out, histogram, n, ROW: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.load(index + at, mask=at < n, other=0)
    columns = tl.arange(0, ROW)
    rows = tl.load(x + i[:, None] * ROW + columns[None, :])
    tl.store(out + at[:, None] * ROW + columns[None, :], rows, mask=(at < n)[:, None])
    tl.atomic_add(histogram + i, 1, mask=at < n)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n) / (1 - p), 0.0), mask=at < n)


@triton.jit
def atomics(x, total, most, bits, exchanged, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(total, tl.sum(v.to(tl.float32), axis=0))
    tl.atomic_max(most + at % 4, v, mask=at < n)
    tl.atomic_xor(bits + at % 8, v, mask=at < n)
    tl.atomic_cas(exchanged, 0, 5)


@triton.jit
def histogram(x, out, BLOCK: tl.constexpr, BINS: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out + tl.arange(0, BINS), tl.histogram(v, BINS))


@triton.jit
def transpose(x, out, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    v = tl.trans(v)
    a, b = tl.split(tl.reshape(v, (N, M // 2, 2)))
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.reshape(tl.join(b, a), (N, M)))


@triton.jit
def while_loop(x, out, n, BLOCK: tl.constexpr):
    """A loop as long as the data of the block say, and a branch that the whole block takes or not."""
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=1)
    steps = 0
    while tl.max(v, axis=0) > 1:
        v = tl.where(v > 1, tl.where(v % 2 == 0, v // 2, 3 * v + 1), v)
        steps += 1
    if steps % 2 == 1:
        v += pid
    tl.store(out + at, v + steps, mask=at < n)
