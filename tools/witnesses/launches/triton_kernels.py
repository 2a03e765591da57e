"""Triton kernels beside plain products: attention, normalisation, reductions, conversions, what the compiler emits for
sm_100a.
"""

# ruff: noqa: N803 - constants of a kernel are its arguments
from __future__ import annotations

import triton
import triton.language as tl

from tools.witnesses.launches.launch_cases import Array, Case, Constant, Descriptor, Value
from tools.witnesses.launches.triton_matmuls import NORMAL, SMALL, product

__all__ = ["CASES"]


@triton.jit
def attention(
    q_desc, k_desc, v_desc, o_desc, scale, LENGTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr, STAGES: tl.constexpr, SPECIALIZE: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Flash attention, forward: online softmax in base 2, two products a step, the second with A from the first."""
    row = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1) * LENGTH
    highest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    q = q_desc.load([head + row, 0])
    rows = row + tl.arange(0, BLOCK_M)
    end = row + BLOCK_M if CAUSAL else LENGTH
    for start in tl.range(0, end, BLOCK_N, num_stages=STAGES, warp_specialize=SPECIALIZE):
        k = k_desc.load([head + start, 0])
        s = tl.dot(q, k.T) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] >= (start + tl.arange(0, BLOCK_N))[None, :], s, float("-inf"))
        higher = tl.maximum(highest, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        fade = tl.exp2(highest - higher)
        total = total * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        v = v_desc.load([head + start, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        highest = higher
    o_desc.store([head + row, 0], (acc / total[:, None]).to(o_desc.dtype))


@triton.jit
def softmax(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """Rows, through exp2."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * N + i, (e / tl.sum(e, 0)).to(y_ptr.dtype.element_ty), mask=i < N)


@triton.jit
def layernorm(x_ptr, w_ptr, b_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """Mean, variance, 1 / sqrt, scale and shift."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0).to(tl.float32)
    centred = tl.where(i < N, x - tl.sum(x, 0) / N, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / N + 1e-5)
    y = centred * scale * tl.load(w_ptr + i, mask=i < N) + tl.load(b_ptr + i, mask=i < N)
    tl.store(y_ptr + row * N + i, y.to(y_ptr.dtype.element_ty), mask=i < N)


@triton.jit
def elementwise(x_ptr, y_ptr, d_ptr, BLOCK: tl.constexpr):
    """d = x + y."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(d_ptr + i, x + y)


@triton.jit
def cast(x_ptr, e4_ptr, e5_ptr, half_ptr, back_ptr, BLOCK: tl.constexpr):
    """f32 to fp8 and bf16, and fp8 back."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    e4 = x.to(tl.float8e4nv)
    tl.store(e4_ptr + i, e4)
    tl.store(e5_ptr + i, x.to(tl.float8e5))
    tl.store(half_ptr + i, x.to(tl.bfloat16))
    tl.store(back_ptr + i, e4.to(tl.float32))


@triton.jit
def reductions(x_ptr, high_ptr, low_ptr, sum_ptr, at_ptr, M: tl.constexpr, N: tl.constexpr):
    """max, min, sum and argmax of rows."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + m * N + n)
    r = tl.arange(0, M)
    tl.store(high_ptr + r, tl.max(x, 1))
    tl.store(low_ptr + r, tl.min(x, 1))
    tl.store(sum_ptr + r, tl.sum(x, 1))
    tl.store(at_ptr + r, tl.argmax(x, 1))


@triton.jit
def scans(x_ptr, sums_ptr, sorted_ptr, M: tl.constexpr, N: tl.constexpr):
    """Running sums and sorted rows."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + m * N + n)
    tl.store(sums_ptr + m * N + n, tl.cumsum(x, 1))
    tl.store(sorted_ptr + m * N + n, tl.sort(x, 1))


@triton.jit
def split_k(a_ptr, b_ptr, d_ptr, N, K, SPLIT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Parts of K by different programs, added up by atomics in global memory."""
    part = tl.program_id(0)
    m, n, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(K // BLOCK_K // SPLIT):
        at = (part * (K // BLOCK_K // SPLIT) + i) * BLOCK_K + k
        acc = tl.dot(tl.load(a_ptr + m[:, None] * K + at[None, :]), tl.load(b_ptr + n[None, :] * K + at[:, None]), acc)
    tl.atomic_add(d_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def grouped(a_ptr, b_ptr, d_ptr, starts_ptr, GROUPS: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BLOCK_M: tl.constexpr):
    """Groups of rows with matrices of their own (experts); the number of rows is data."""
    group = tl.program_id(0)
    first, end = tl.load(starts_ptr + group), tl.load(starts_ptr + group + 1)
    n, k = tl.arange(0, N), tl.arange(0, K)
    b = tl.load(b_ptr + group * N * K + n[None, :] * K + k[:, None])
    row = first
    while row < end:
        m = row + tl.arange(0, BLOCK_M)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < end, other=0.0)
        tl.store(d_ptr + m[:, None] * N + n[None, :], tl.dot(a, b), mask=m[:, None] < end)
        row += BLOCK_M


@triton.jit
def two_products(a_ptr, b_ptr, c_ptr, d_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """(A B) C: the first product rounded to bf16 becomes A of the second, by way of tensor memory."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.load(c_ptr + n[:, None] * N + n[None, :])
    t = tl.dot(a, b).to(tl.bfloat16)
    tl.store(d_ptr + m[:, None] * N + n[None, :], tl.dot(t, c))


@triton.jit
def gathered(x_desc, rows_ptr, y_desc, column, ROWS: tl.constexpr):
    """Rows by index through a descriptor, scattered again by the same indices."""
    rows = tl.load(rows_ptr + tl.arange(0, ROWS))
    y_desc.scatter(x_desc.gather(rows, column), rows, 0)


@triton.jit
def accumulated(x_ptr, d_desc, M: tl.constexpr, N: tl.constexpr):
    """Reductions into global memory through a descriptor."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    d_desc.atomic_add([0, 0], tl.load(x_ptr + m * N + n))


@triton.jit
def integers(a_ptr, b_ptr, d_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """s8 by s8."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + n[None, :] * K + k[:, None])
    tl.store(d_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))


# ---- the cases -------------------------------------------------------------------------------------------------------


def _attention() -> list[Case]:
    out = []
    for name, dtype, length, heads, head, causal, specialize in (
        ("plain", "f16", 256, 1, 64, False, False), ("causal", "bf16", 256, 2, 64, True, False), ("specialized", "f16", 256, 1, 64, False, True),
        ("head128", "bf16", 128, 1, 128, False, False),
    ):  # fmt: skip
        block_n = 64 if head == 64 else 128
        args = {
            "q_desc": Descriptor("q", (128, head)), "k_desc": Descriptor("k", (block_n, head)), "v_desc": Descriptor("v", (block_n, head)),
            "o_desc": Descriptor("o", (128, head)), "scale": Value("f32", 0.125 * 1.4375), "LENGTH": Value("s32", length),
            "BLOCK_M": Constant(128), "BLOCK_N": Constant(block_n), "HEAD": Constant(head), "STAGES": Constant(2),
            "SPECIALIZE": Constant(specialize), "CAUSAL": Constant(causal),
        }  # fmt: skip
        arrays = {x: Array(dtype, (heads * length, head), NORMAL) for x in "qkv"} | {"o": Array(dtype, (heads * length, head))}
        mask = f" + where(arange({length})[:, None] >= arange({length}), 0, -inf)" if causal else ""
        parts = []
        for h in range(heads):
            at = f"[{h * length} : {(h + 1) * length}]"
            parts.append(f"(lambda p: p @ v{at} / p.sum(1, keepdims=True))(exp2(q{at} @ k{at}.T * {0.125 * 1.4375}{mask}))")
        expected = {"o": parts[0] if heads == 1 else f"concatenate([{', '.join(parts)}], 0)"}
        title = f"flash attention, forward, {dtype}, {heads} heads of {length} x {head}{', causal' if causal else ''}{', warp specialized' if specialize else ''}"
        more = {
            "tolerance": {"o": 0.01},
            "why_not_exact": "ex2 is an approximation, and P is rounded to 16 bits after a running maximum is taken off",
        }
        grid = (length // 128, heads, 1)
        out.append(Case(f"triton_attention_{name}", title, attention, args, arrays, expected, grid, **more))
    return out


def _others() -> list[Case]:
    near = {"why_not_exact": "ex2, rsqrt or the order of a sum"}
    out = [
        Case("triton_softmax", "softmax of rows", softmax, {"x_ptr": "x", "y_ptr": "y", "N": Value("s32", 200), "BLOCK": Constant(256)},
             {"x": Array("f32", (8, 200), NORMAL), "y": Array("f32", (8, 200))}, {"y": "exp(x) / exp(x).sum(1, keepdims=True)"}, (8, 1, 1),
             tolerance={"y": 1e-5}, **near),
        Case("triton_layernorm", "layer normalisation, bf16", layernorm,
             {"x_ptr": "x", "w_ptr": "w", "b_ptr": "b", "y_ptr": "y", "N": Value("s32", 500), "BLOCK": Constant(512)},
             {"x": Array("bf16", (4, 500), NORMAL), "w": Array("f32", (500,), NORMAL), "b": Array("f32", (500,), NORMAL), "y": Array("bf16", (4, 500))},
             {"y": "(x - x.mean(1, keepdims=True)) / sqrt(x.var(1, keepdims=True) + 1e-5) * w + b"}, (4, 1, 1), tolerance={"y": 0.01}, **near),
        Case("triton_cast", "f32 to e4m3, e5m2, bf16, and e4m3 to f32", cast,
             {"x_ptr": "x", "e4_ptr": "e4", "e5_ptr": "e5", "half_ptr": "half", "back_ptr": "back", "BLOCK": Constant(512)},
             {"x": Array("f32", (1024,), "uniform -300.0..300.0"), "e4": Array("e4m3", (1024,)), "e5": Array("e5m2", (1024,)),
              "half": Array("bf16", (1024,)), "back": Array("f32", (1024,))},
             {"e4": "x", "e5": "x", "half": "x", "back": "e4m3(x)"}, (2, 1, 1)),
        Case("triton_reductions", "max, min, sum, argmax of rows", reductions,
             {"x_ptr": "x", "high_ptr": "high", "low_ptr": "low", "sum_ptr": "sum", "at_ptr": "at", "M": Constant(16), "N": Constant(128)},
             {"x": Array("f32", (16, 128), "permutation"), "high": Array("f32", (16,)), "low": Array("f32", (16,)), "sum": Array("f32", (16,)),
              "at": Array("s32", (16,))},
             {"high": "x.max(1)", "low": "x.min(1)", "sum": "x.sum(1)", "at": "x.argmax(1)"}),
        Case("triton_scans", "running sums and sorted rows", scans,
             {"x_ptr": "x", "sums_ptr": "sums", "sorted_ptr": "sorted", "M": Constant(4), "N": Constant(128)},
             {"x": Array("f32", (4, 128), "integers -999..999"), "sums": Array("f32", (4, 128)), "sorted": Array("f32", (4, 128))},
             {"sums": "cumsum(x, 1)", "sorted": "sort(x, 1)"}),
        Case("triton_split_k", "split K, added up by red.global.add.f32", split_k,
             {"a_ptr": "a", "b_ptr": "b", "d_ptr": "d", "N": Value("s32", 64), "K": Value("s32", 512), "SPLIT": Constant(4), "BLOCK_M": Constant(128),
              "BLOCK_N": Constant(64), "BLOCK_K": Constant(64)},
             {"a": Array("f16", (128, 512), SMALL), "b": Array("f16", (64, 512), SMALL), "d": Array("f32", (128, 64))},
             {"d": product("a", "b.T", "f16")}, (4, 1, 1)),
        Case("triton_grouped", "grouped product, rows of each group are data", grouped,
             {"a_ptr": "a", "b_ptr": "b", "d_ptr": "d", "starts_ptr": "starts", "GROUPS": Constant(3), "N": Constant(32), "K": Constant(64),
              "BLOCK_M": Constant(64)},
             {"a": Array("bf16", (200, 64), SMALL, NORMAL), "b": Array("bf16", (3, 32, 64), SMALL, NORMAL),
              "starts": Array("s32", (4,), "values 0,150,160,200"), "d": Array("f32", (200, 32))},
             {"d": "concatenate([mma(a[starts[g] : starts[g + 1]], b[g].T, kind='f16', a_type='bf16') for g in range(3)], 0)"}, (3, 1, 1)),
        Case("triton_two_products", "(A B) C with the first product as A in tensor memory", two_products,
             {"a_ptr": "a", "b_ptr": "b", "c_ptr": "c", "d_ptr": "d", "M": Constant(128), "N": Constant(64), "K": Constant(64)},
             {"a": Array("bf16", (128, 64), "integers -1..1", NORMAL), "b": Array("bf16", (64, 64), "integers -1..1", NORMAL),
              "c": Array("bf16", (64, 64), SMALL, NORMAL), "d": Array("f32", (128, 64))},
             {"d": "mma(bf16(mma(a, b, kind='f16', a_type='bf16')), c, kind='f16', a_type='bf16')"}),
    ]  # fmt: skip
    args = {
        "x_desc": Descriptor("x", (1, 64)),
        "rows_ptr": "rows",
        "y_desc": Descriptor("y", (1, 64)),
        "column": Value("s32", 64),
        "ROWS": Constant(32),
    }
    arrays = {"x": Array("bf16", (32, 128), NORMAL), "rows": Array("s32", (32,), "permutation"), "y": Array("bf16", (32, 64))}
    out.append(Case("triton_gather_scatter", "descriptor.gather and .scatter", gathered, args, arrays, {"y": "x[:, 64:]"}))
    args = {"x_ptr": "x", "d_desc": Descriptor("d", (64, 32)), "M": Constant(64), "N": Constant(32)}
    arrays = {"x": Array("f32", (64, 32), NORMAL), "d": Array("f32", (64, 32), NORMAL)}
    out.append(Case("triton_descriptor_add", "descriptor.atomic_add", accumulated, args, arrays, {"d": "x + d"}))
    args = {"a_ptr": "a", "b_ptr": "b", "d_ptr": "d", "M": Constant(128), "N": Constant(64), "K": Constant(128)}
    arrays = {"a": Array("s8", (128, 128), "bits"), "b": Array("s8", (64, 128), "bits"), "d": Array("s32", (128, 64))}
    out.append(Case("triton_s8", "s8 by s8 to s32", integers, args, arrays, {"d": product("a", "b.T", "s8")}))
    for dtype in ("f32", "bf16", "f16"):
        args = {"x_ptr": "x", "y_ptr": "y", "d_ptr": "d", "BLOCK": Constant(2048)}
        arrays = {"x": Array(dtype, (4096,), NORMAL), "y": Array(dtype, (4096,), NORMAL), "d": Array(dtype, (4096,))}
        out.append(Case(f"triton_elementwise_{dtype}", f"x + y, {dtype}", elementwise, args, arrays, {"d": "x + y"}, (2, 1, 1)))
    return out


CASES = [*_attention(), *_others()]
