"""Matrix products in Triton: what @triton.jit kernels become on sm_100a."""

# ruff: noqa: N803 - constants of a kernel are its arguments
from __future__ import annotations

import triton
import triton.language as tl

from tools.witnesses.launches.launch_cases import Array, Case, Constant, Descriptor, Value

__all__ = ["CASES", "NORMAL", "SMALL", "product", "scaled_product"]


@triton.jit
def pointers(
    a_ptr, b_ptr, d_ptr, bias_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One tile a program, operands through pointers with masks; bias and relu on demand."""
    tile_m, tile_n = tl.program_id(0), tl.program_id(1)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_at = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_at = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        a = tl.load(a_at, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        b = tl.load(b_at, mask=(columns[None, :] < N) & (ks[:, None] < K - k), other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    if EPILOGUE:
        acc += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
        acc = tl.maximum(acc, 0.0)
    d_at = d_ptr + rows[:, None] * N + columns[None, :]
    tl.store(d_at, acc.to(d_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def described(
    a_desc, b_desc, d_desc, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, A_T: tl.constexpr, B_T: tl.constexpr,
    STAGES: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """The same through tensor descriptors of the host: TMA loads in a ring of stages, a TMA store at the end. B is [N,
    K] unless B_T.
    """
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES, warp_specialize=SPECIALIZE):
        a = a_desc.load([k, row]).T if A_T else a_desc.load([row, k])
        b = b_desc.load([k, column]) if B_T else b_desc.load([column, k]).T
        acc = tl.dot(a, b, acc)
    d_desc.store([row, column], acc.to(d_desc.dtype))


@triton.jit
def device_described(
    a_ptr, b_ptr, d_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Descriptors made on the device: tensormap.replace on 128 bytes of global scratch."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    d_desc = tl.make_tensor_descriptor(d_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([column, k]).T, acc)
    d_desc.store([row, column], acc.to(d_desc.dtype))


@triton.jit
def persistent(
    a_desc, b_desc, d_desc, M, N, K, PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPECIALIZE: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """A few programs walk over all tiles, epilogue and next tile overlapping where the compiler sees to it."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=FLATTEN, warp_specialize=SPECIALIZE):
        row, column = tile // tiles_n * BLOCK_M, tile % tiles_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K):
            acc = tl.dot(a_desc.load([row, k]), b_desc.load([column, k]).T, acc)
        d_desc.store([row, column], acc.to(d_desc.dtype))


@triton.jit
def scaled(
    a_desc, b_desc, a_scale_ptr, b_scale_ptr, d_ptr, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, A_TYPE: tl.constexpr, B_TYPE: tl.constexpr,
    A_PACKED: tl.constexpr, B_PACKED: tl.constexpr, VECTOR: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Block-scaled operands; scale factors [rows, K / VECTOR] through pointers."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    blocks = K // VECTOR
    ms, ns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    vs = tl.arange(0, BLOCK_K // VECTOR)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        a = a_desc.load([row, k // A_PACKED])
        b = b_desc.load([column, k // B_PACKED])
        sa = tl.load(a_scale_ptr + ms[:, None] * blocks + (k // VECTOR + vs)[None, :])
        sb = tl.load(b_scale_ptr + ns[:, None] * blocks + (k // VECTOR + vs)[None, :])
        acc = tl.dot_scaled(a, sa, A_TYPE, b.T, sb, B_TYPE, acc)
    ds = d_ptr + ms[:, None] * (tl.num_programs(1) * BLOCK_N) + ns[None, :]
    tl.store(ds, acc)


@triton.jit
def scaled_packed(
    a_desc, b_desc, a_scale_desc, b_scale_desc, d_desc, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, A_TYPE: tl.constexpr, B_TYPE: tl.constexpr,
    A_PACKED: tl.constexpr, B_PACKED: tl.constexpr, VECTOR: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Scale factors stored as tcgen05.cp wants them ([1, rows / 128, K / VECTOR / 4, 2,
    256] bytes) and brought by TMA.
    """
    tile_m, tile_n = tl.program_id(0), tl.program_id(1)
    row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
    rep_m: tl.constexpr = BLOCK_M // 128
    rep_n: tl.constexpr = BLOCK_N // 128
    rep_k: tl.constexpr = BLOCK_K // VECTOR // 4
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        a = a_desc.load([row, k // A_PACKED])
        b = b_desc.load([column, k // B_PACKED])
        sa = a_scale_desc.load([0, tile_m * rep_m, k // VECTOR // 4, 0, 0])
        sb = b_scale_desc.load([0, tile_n * rep_n, k // VECTOR // 4, 0, 0])
        sa = sa.reshape(rep_m, rep_k, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BLOCK_M, BLOCK_K // VECTOR)
        sb = sb.reshape(rep_n, rep_k, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BLOCK_N, BLOCK_K // VECTOR)
        acc = tl.dot_scaled(a, sa, A_TYPE, b.T, sb, B_TYPE, acc)
    d_desc.store([row, column], acc.to(d_desc.dtype))


# ---- the cases -------------------------------------------------------------------------------------------------------

KINDS = {"bf16": "f16", "f16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8"}
STEP = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}  # K of one instruction
SMALL, NORMAL = "integers -3..3", "normal"


def product(a: str, b: str, dtype: str, other: str = "") -> str:
    """The expression of D: `mma` multiplies in steps of the instruction's K."""
    types = f", b_type={other!r}" if other and other != dtype else ""
    return f"mma({a}, {b}, kind={KINDS[dtype]!r}, a_type={dtype!r}{types})"


def scaled_product(a_type: str, b_type: str, scale: str, vector: int, unpack: bool = False) -> str:
    """The expression of D = A Bᵀ with scale factors: bytes become numbers first."""
    kind = ("mxf4nvf4" if vector == 16 else "mxf4") if a_type == b_type == "e2m1" else "mxf8f6f4"
    a, b = ("fp4(a)" if a_type == "e2m1" else "a"), ("fp4(b)" if b_type == "e2m1" else "b")
    factors = [f"unpacked_scales({s})" if unpack else s for s in ("sa", "sb")]
    if scale == "ue8m0":
        factors = [f"2.0 ** ({s} - 127)" for s in factors]
    types = f"kind={kind!r}, a_type={a_type!r}, b_type={b_type!r}, block={vector}, scale_type={scale!r}"
    return f"mma({a}, {b}.T, sa={factors[0]}, sb={factors[1]}, {types})"


def _pointers() -> list[Case]:
    out = []
    for name, dtype, d, m, n, k, block, epilogue, a_t, b_t, stages in (
        ("bf16", "bf16", "f32", 128, 128, 128, (128, 128, 64), False, False, True, 2),
        ("f16_edges", "f16", "f16", 100, 72, 88, (128, 64, 32), False, False, True, 2),
        ("tf32", "tf32", "f32", 128, 64, 64, (128, 64, 32), False, False, True, 2),
        ("e4m3", "e4m3", "f32", 128, 128, 128, (128, 128, 128), False, False, True, 1),
        ("bias_relu", "bf16", "bf16", 128, 64, 128, (64, 64, 64), True, False, True, 3),
        ("a_transposed", "f16", "f32", 128, 128, 64, (128, 128, 64), False, True, False, 2),
    ):
        a = Array(dtype, (k, m) if a_t else (m, k), SMALL, NORMAL)
        b = Array(dtype, (n, k) if b_t else (k, n), SMALL, NORMAL)
        expression = product("a.T" if a_t else "a", "b.T" if b_t else "b", dtype)
        if epilogue:
            expression = f"maximum(f32({expression} + bias), 0)"
        args = {
            "a_ptr": "a", "b_ptr": "b", "d_ptr": "d", "bias_ptr": "bias",
            "M": Value("s32", m), "N": Value("s32", n), "K": Value("s32", k),
            "stride_am": Value("s32", 1 if a_t else k), "stride_ak": Value("s32", m if a_t else 1),
            "stride_bk": Value("s32", 1 if b_t else n), "stride_bn": Value("s32", k if b_t else 1),
            "BLOCK_M": Constant(block[0]), "BLOCK_N": Constant(block[1]), "BLOCK_K": Constant(block[2]),
            "EPILOGUE": Constant(epilogue), "STAGES": Constant(stages),
        }  # fmt: skip
        if a_t:
            args["stride_am"] = Constant(1)
        else:
            args["stride_ak"] = Constant(1)
        args["stride_bk" if b_t else "stride_bn"] = Constant(1)
        arrays = {"a": a, "b": b, "bias": Array("f32", (n,), "integers -9..9", NORMAL), "d": Array(d, (m, n))}
        grid = (-(-m // block[0]), -(-n // block[1]), 1)
        title = f"matmul through pointers, {dtype} to {d}, {m}x{n}x{k} in blocks of {block}" + (", bias and relu" if epilogue else "")
        out.append(Case(f"triton_pointers_{name}", title, pointers, args, arrays, {"d": expression}, grid))
    return out


def _described() -> list[Case]:
    out = []
    for name, dtype, d, m, n, k, block, a_t, b_t, stages, specialize in (
        ("bf16", "bf16", "f32", 128, 128, 128, (128, 128, 64), False, False, 2, False),
        ("bf16_stages3", "bf16", "bf16", 128, 128, 512, (128, 128, 64), False, False, 3, False),
        ("f16_stages4", "f16", "f16", 128, 64, 512, (128, 64, 64), False, False, 4, False),
        ("f16_tt", "f16", "f32", 128, 128, 128, (128, 128, 64), True, True, 2, False),
        ("bf16_b_mn", "bf16", "f32", 128, 256, 128, (128, 256, 64), False, True, 2, False),
        ("tf32", "tf32", "f32", 128, 64, 64, (128, 64, 32), False, False, 2, False),
        ("e4m3", "e4m3", "f32", 128, 128, 256, (128, 128, 128), False, False, 2, False),
        ("e5m2", "e5m2", "f16", 64, 64, 128, (64, 64, 64), False, True, 2, False),
        ("narrow", "bf16", "f32", 64, 32, 64, (64, 32, 32), False, False, 2, False),
        ("edges", "bf16", "f32", 200, 88, 104, (128, 64, 64), False, False, 2, False),
        ("four_ctas", "bf16", "f16", 256, 256, 256, (128, 128, 64), False, False, 3, False),
        ("specialized", "bf16", "f32", 128, 128, 256, (128, 128, 64), False, False, 2, True),
        ("large", "bf16", "bf16", 256, 256, 1024, (128, 128, 64), False, False, 4, False),
    ):
        a = Array(dtype, (k, m) if a_t else (m, k), SMALL, NORMAL)
        b = Array(dtype, (k, n) if b_t else (n, k), SMALL, NORMAL)
        args = {
            "a_desc": Descriptor("a", (block[2], block[0]) if a_t else (block[0], block[2])),
            "b_desc": Descriptor("b", (block[2], block[1]) if b_t else (block[1], block[2])),
            "d_desc": Descriptor("d", block[:2]), "K": Value("s32", k),
            "BLOCK_M": Constant(block[0]), "BLOCK_N": Constant(block[1]), "BLOCK_K": Constant(block[2]),
            "A_T": Constant(a_t), "B_T": Constant(b_t), "STAGES": Constant(stages), "SPECIALIZE": Constant(specialize),
        }  # fmt: skip
        expression = product("a.T" if a_t else "a", "b" if b_t else "b.T", dtype)
        grid = (-(-m // block[0]), -(-n // block[1]), 1)
        title = f"matmul through host descriptors, {dtype} to {d}, {m}x{n}x{k} in blocks of {block}, {stages} stages"
        title += ", warp specialized" if specialize else ""
        arrays = {"a": a, "b": b, "d": Array(d, (m, n))}
        out.append(Case(f"triton_tma_{name}", title, described, args, arrays, {"d": expression}, grid))
    return out


def _others() -> list[Case]:
    def arrays(m: int, n: int, k: int, d: str) -> dict[str, Array]:
        return {"a": Array("bf16", (m, k), SMALL, NORMAL), "b": Array("bf16", (n, k), SMALL, NORMAL), "d": Array(d, (m, n))}

    expected = {"d": product("a", "b.T", "bf16")}
    block = {"BLOCK_M": Constant(128), "BLOCK_N": Constant(128), "BLOCK_K": Constant(64)}
    out = [
        Case(
            "triton_device_descriptors",
            "matmul whose tensor maps the kernel makes itself in global scratch (tensormap.replace)",
            device_described,
            {"a_ptr": "a", "b_ptr": "b", "d_ptr": "d", "M": Value("s32", 128), "N": Value("s32", 128), "K": Value("s32", 128)} | block,
            arrays(128, 128, 128, "bf16"),
            expected,
        )
    ]
    more = {"A_T": Constant(False), "B_T": Constant(False), "STAGES": Constant(2), "SPECIALIZE": Constant(False)}
    args = {
        "a_desc": Descriptor("a", (256, 64)),
        "b_desc": Descriptor("b", (128, 64)),
        "d_desc": Descriptor("d", (256, 128)),
        "K": Value("s32", 256),
    }
    args |= more | block | {"BLOCK_M": Constant(256)}
    title = "matmul by a cluster of two CTAs (num_ctas = 2)"
    out.append(Case("triton_two_ctas", title, described, args, arrays(256, 128, 256, "bf16"), expected, options={"num_ctas": 2}))
    for name, specialize, flatten in (("persistent", False, True), ("persistent_specialized", True, False)):
        described_args = {"a_desc": Descriptor("a", (128, 64)), "b_desc": Descriptor("b", (128, 64)), "d_desc": Descriptor("d", (128, 128))}
        sizes = {"M": Value("s32", 256), "N": Value("s32", 384), "K": Value("s32", 128), "PROGRAMS": Constant(2)}
        flags = {"SPECIALIZE": Constant(specialize), "FLATTEN": Constant(flatten)}
        title = "persistent matmul, two programs over six tiles" + (", warp specialized" if specialize else ", loops flattened")
        out.append(
            Case(
                f"triton_{name}",
                title,
                persistent,
                described_args | sizes | block | flags,
                arrays(256, 384, 128, "bf16"),
                expected,
                (2, 1, 1),
            )
        )
    return out


def _scaled() -> list[Case]:
    out = []
    for name, a_type, b_type, vector, scale, k, block_k in (
        ("mxfp8", "e4m3", "e4m3", 32, "ue8m0", 256, 128),
        ("mxfp8_mixed", "e5m2", "e4m3", 32, "ue8m0", 128, 128),
        ("mxfp4", "e2m1", "e2m1", 32, "ue8m0", 512, 256),
        ("nvfp4", "e2m1", "e2m1", 16, "ue4m3", 512, 256),
        ("mxfp8_by_mxfp4", "e4m3", "e2m1", 32, "ue8m0", 256, 128),
    ):
        packed = [2 if t == "e2m1" else 1 for t in (a_type, b_type)]
        stored = ["e2m1x2" if t == "e2m1" else t for t in (a_type, b_type)]
        factor = "powers -1..1" if scale == "ue8m0" else "integers 1..4"
        arrays = {
            "a": Array(stored[0], (128, k // packed[0]), SMALL, NORMAL), "b": Array(stored[1], (128, k // packed[1]), SMALL, NORMAL),
            "sa": Array(scale, (128, k // vector), factor, "powers -6..6" if scale == "ue8m0" else "uniform 0.125..8"),
            "sb": Array(scale, (128, k // vector), factor, "powers -6..6" if scale == "ue8m0" else "uniform 0.125..8"),
            "d": Array("f32", (128, 128)),
        }  # fmt: skip
        common = {
            "K": Value("s32", k), "BLOCK_M": Constant(128), "BLOCK_N": Constant(128), "BLOCK_K": Constant(block_k),
            "A_TYPE": Constant(a_type), "B_TYPE": Constant(b_type), "A_PACKED": Constant(packed[0]),
            "B_PACKED": Constant(packed[1]), "VECTOR": Constant(vector), "STAGES": Constant(2),
            "a_desc": Descriptor("a", (128, block_k // packed[0])), "b_desc": Descriptor("b", (128, block_k // packed[1])),
        }  # fmt: skip
        expression = scaled_product(a_type, b_type, scale, vector)
        args = common | {"a_scale_ptr": "sa", "b_scale_ptr": "sb", "d_ptr": "d"}
        title = f"tl.dot_scaled, {name}: {a_type} by {b_type}, {scale} factors of {vector}"
        out.append(Case(f"triton_scaled_{name}", title + ", factors through pointers", scaled, args, arrays, {"d": expression}))
        if name in ("mxfp8", "mxfp4", "nvfp4"):
            shape = (1, 1, k // vector // 4, 2, 256)
            more = {s: Array(scale, shape, arrays[s].distribution, arrays[s].random) for s in ("sa", "sb")}
            args = common | {f"{s}_scale_desc": Descriptor(f"s{s}", (1, 1, block_k // vector // 4, 2, 256)) for s in "ab"}
            expression = scaled_product(a_type, b_type, scale, vector, unpack=True)
            args["d_desc"] = Descriptor("d", (128, 128))
            title += ", factors by TMA and tcgen05.cp"
            out.append(Case(f"triton_scaled_{name}_cp", title, scaled_packed, args, arrays | more, {"d": expression}))
    return out


CASES = [*_pointers(), *_described(), *_others(), *_scaled()]
