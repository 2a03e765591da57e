"""Gluon kernels that move boxes: TMA loads, stores, reductions, gather and scatter, im2col, multicast."""

# ruff: noqa: N803 - constants of a kernel are its arguments; its lists are the compiler's
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
    tma,
)

from tools.witnesses.launches.launch_cases import Array, Case, Constant, Descriptor, Im2col, Value
from tools.witnesses.launches.triton_matmuls import NORMAL, SMALL

__all__ = ["CASES"]


@gluon.jit
def tma_copy(x_desc, y_desc, x0, x1, y0, y1):
    """A box in, the same box out."""
    buffer = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_shape, x_desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [x0, x1], bar, buffer)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_store(y_desc, [y0, y1], buffer)
    tma.store_wait(0, read_only=False)


@gluon.jit
def tma_read(x_desc, y_ptr, x0, x1, M: gl.constexpr, N: gl.constexpr):
    """A box in, read by threads: out of bounds elements show."""
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    buffer = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_shape, x_desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [x0, x1], bar, buffer)
    mbarrier.wait(bar, 0)
    m = gl.arange(0, M, gl.SliceLayout(1, registers))[:, None]
    n = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    gl.store(y_ptr + m * N + n, buffer.load(registers))


@gluon.jit
def tma_five(x_desc, y_desc):
    """Rank 5."""
    buffer = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_shape, x_desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [1, 0, 1, 2, 0], bar, buffer)
    mbarrier.wait(bar, 0)
    tma.async_store(y_desc, [0, 0, 0, 0, 0], buffer)
    tma.store_wait(0)


@gluon.jit
def tma_reduce(x_ptr, d_desc, M: gl.constexpr, N: gl.constexpr, WHAT: gl.constexpr):
    """cp.reduce.async.bulk.tensor."""
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    m = gl.arange(0, M, gl.SliceLayout(1, registers))[:, None]
    n = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    buffer = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [M, N], d_desc.layout, gl.load(x_ptr + m * N + n))
    fence_async_shared()
    if WHAT == "add":
        tma.async_atomic_add(d_desc, [0, 0], buffer)
    elif WHAT == "min":
        tma.async_atomic_min(d_desc, [0, 0], buffer)
    elif WHAT == "max":
        tma.async_atomic_max(d_desc, [0, 0], buffer)
    elif WHAT == "and":
        tma.async_atomic_and(d_desc, [0, 0], buffer)
    elif WHAT == "or":
        tma.async_atomic_or(d_desc, [0, 0], buffer)
    else:
        tma.async_atomic_xor(d_desc, [0, 0], buffer)
    tma.store_wait(0)


@gluon.jit
def gather(x_desc, rows_ptr, y_ptr, column, ROWS: gl.constexpr, N: gl.constexpr):
    """tile::gather4: rows of a tensor by index."""
    at: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    rows = gl.load(rows_ptr + gl.arange(0, ROWS, at))
    buffer = gl.allocate_shared_memory(x_desc.dtype, [ROWS, N], x_desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, ROWS * x_desc.nbytes_per_cta)
    tma.async_gather(x_desc, rows, column, bar, buffer)
    mbarrier.wait(bar, 0)
    m = gl.arange(0, ROWS, gl.SliceLayout(1, registers))[:, None]
    n = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    gl.store(y_ptr + m * N + n, buffer.load(registers))


@gluon.jit
def scatter(x_ptr, rows_ptr, y_desc, column, ROWS: gl.constexpr, N: gl.constexpr):
    """tile::scatter4."""
    at: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    rows = gl.load(rows_ptr + gl.arange(0, ROWS, at))
    m = gl.arange(0, ROWS, gl.SliceLayout(1, registers))[:, None]
    n = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    buffer = gl.allocate_shared_memory(y_desc.dtype, [ROWS, N], y_desc.layout, gl.load(x_ptr + m * N + n))
    fence_async_shared()
    tma.async_scatter(y_desc, rows, column, buffer)
    tma.store_wait(0)


@gluon.jit
def im2col_read(x_desc, y_ptr, n0, h0, w0, c0, OFF_H: gl.constexpr, OFF_W: gl.constexpr, PIXELS: gl.constexpr, CHANNELS: gl.constexpr):
    """One im2col load of an NHWC tensor, read by threads."""
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    buffer = gl.allocate_shared_memory(x_desc.dtype, [PIXELS, CHANNELS], x_desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_desc.nbytes_per_cta)
    tma.async_load_im2col(x_desc, [n0, h0, w0, c0], [OFF_H, OFF_W], bar, buffer)
    mbarrier.wait(bar, 0)
    m = gl.arange(0, PIXELS, gl.SliceLayout(1, registers))[:, None]
    n = gl.arange(0, CHANNELS, gl.SliceLayout(0, registers))[None, :]
    gl.store(y_ptr + m * CHANNELS + n, buffer.load(registers))


@gluon.jit
def convolution(x_desc, w_desc, y_ptr, PIXELS: gl.constexpr, CHANNELS: gl.constexpr, N: gl.constexpr, D: gl.constexpr):
    """3 x 3 convolution with padding 1, the implicit product: im2col loads of the image, tiled ones of the weights,
    tcgen05.mma.
    """
    x_buffer = gl.allocate_shared_memory(x_desc.dtype, [PIXELS, CHANNELS], x_desc.layout)
    w_buffer = gl.allocate_shared_memory(w_desc.dtype, w_desc.block_shape, w_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [PIXELS, N], D)
    for i in range(9):
        r = i // 3
        s = i % 3
        mbarrier.expect(loaded, x_desc.nbytes_per_cta + w_desc.nbytes_per_cta)
        tma.async_load_im2col(x_desc, [0, -1, -1, 0], [r.to(gl.int16), s.to(gl.int16)], loaded, x_buffer)
        tma.async_load(w_desc, [i * CHANNELS, 0], loaded, w_buffer)
        mbarrier.wait(loaded, i & 1)
        tcgen05_mma(x_buffer, w_buffer, acc, use_acc=i > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, i & 1)
    y = acc.load()
    at: gl.constexpr = y.type.layout
    m = gl.arange(0, PIXELS, gl.SliceLayout(1, at))[:, None]
    n = gl.arange(0, N, gl.SliceLayout(0, at))[None, :]
    gl.store(y_ptr + m * N + n, y)


@gluon.jit
def multicast_copy(x_desc, y_desc, N: gl.constexpr):
    """One box to both CTAs of a cluster; each stores it, the second one N columns further on."""
    buffer = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_shape, x_desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [0, 0], bar, buffer, multicast=True)
    mbarrier.wait(bar, 0)
    tma.async_store(y_desc, [0, 0], buffer)
    tma.store_wait(0)


# ---- the cases -------------------------------------------------------------------------------------------------------


def _case(
    name: str, title: str, kernel: Any, args: dict[str, Any], arrays: dict[str, Array], expected: dict[str, str], **more: Any
) -> Case:
    return Case(f"gluon_{name}", title, kernel, args, arrays, expected, **more)


def _tma() -> list[Case]:
    out = []
    for dtype, swizzle, (m, n) in (
        ("bf16", 128, (64, 64)),
        ("f32", 64, (32, 16)),
        ("u8", 32, (64, 32)),
        ("f16", 0, (16, 64)),
        ("f16", 128, (64, 128)),
    ):
        bits = {"bf16": 16, "f16": 16, "f32": 32, "u8": 8}[dtype]
        layout = gl.NVMMASharedLayout(swizzle, bits, 2)
        x, y = (3 * m // 2, 2 * n), (2 * m, n + n // 2)
        args = {
            "x_desc": Descriptor("x", (m, n), layout), "y_desc": Descriptor("y", (m, n), layout), "x0": Value("s32", m - 4),
            "x1": Value("s32", n // 2), "y0": Value("s32", 3), "y1": Value("s32", n),
        }  # fmt: skip
        fill = "bits" if dtype == "u8" else NORMAL
        arrays = {"x": Array(dtype, x, fill), "y": Array(dtype, y, fill)}
        rows, kept = x[0] - (m - 4), y[1] - n
        taken = f"x[{m - 4}:, {n // 2} : {n // 2 + kept}]"
        expression = f"concatenate([y[:3], concatenate([y[3 : {m + 3}, :{n}], concatenate([{taken}, zeros(({m - rows}, {kept}))], 0)], 1), y[{m + 3}:]], 0)"
        title = f"TMA load and store of {m}x{n} {dtype}, swizzle {swizzle}B, both boxes past their tensor's end"
        out.append(_case(f"tma_copy_{dtype}_{swizzle}_{n}", title, tma_copy, args, arrays, {"y": expression}))
    for name, dtype, nan, tf32 in (("nan", "bf16", True, False), ("tf32", "f32", False, True), ("negative", "f16", False, False)):
        bits = 32 if dtype == "f32" else 16
        args = {
            "x_desc": Descriptor("x", (32, 32), gl.NVMMASharedLayout(64, bits, 2), nan_fill=nan, round_to_tf32=tf32), "y_ptr": "y",
            "x0": Value("s32", -8), "x1": Value("s32", 16), "M": Constant(32), "N": Constant(32),
        }  # fmt: skip
        arrays = {"x": Array(dtype, (40, 40), NORMAL), "y": Array(dtype, (32, 32))}
        fill = "0x7FF7" if nan else "0"  # the bits that TMA fills with
        value = "tf32(x)" if tf32 else "x_bits" if nan else "x"
        expression = f"pad({value}, ((8, 0), (0, 8)), constant_values={fill})[:32, 16:48]"
        title = f"TMA load from -8 on, past the other end too: fill {'NaN' if nan else 'zero'}" + (", TFLOAT32 map" if tf32 else "")
        out.append(_case(f"tma_read_{name}", title, tma_read, args, arrays, {"y": expression}))
    five = gl.NVMMASharedLayout(0, 16, 5)
    args = {"x_desc": Descriptor("x", (1, 2, 2, 4, 16), five), "y_desc": Descriptor("y", (1, 2, 2, 4, 16), five)}
    arrays = {"x": Array("f16", (2, 2, 4, 6, 16), NORMAL), "y": Array("f16", (1, 2, 2, 4, 16))}
    out.append(_case("tma_rank5", "TMA load and store of rank 5", tma_five, args, arrays, {"y": "x[1:2, 0:2, 1:3, 2:6]"}))
    for what, dtype, expression in (
        ("add", "f32", "d + x"), ("add", "f16", "d + x"), ("add", "bf16", "d + x"), ("min", "f16", "minimum(d, x)"), ("max", "s32", "maximum(d, x)"),
        ("add", "u32", "d + x"), ("and", "u32", "d & x"), ("or", "u32", "d | x"), ("xor", "u32", "d ^ x"), ("min", "s32", "minimum(d, x)"),
    ):  # fmt: skip
        bits = {"f32": 32, "s32": 32, "u32": 32}.get(dtype, 16)
        layout = gl.NVMMASharedLayout(128, bits, 2)
        n = 1024 // bits
        args = {"x_ptr": "x", "d_desc": Descriptor("d", (32, n), layout), "M": Constant(32), "N": Constant(n), "WHAT": Constant(what)}
        fill = "bits" if dtype == "u32" else "integers -999..999" if dtype == "s32" else NORMAL
        arrays = {"x": Array(dtype, (32, n), fill), "d": Array(dtype, (30, n), fill)}
        kept = expression.replace("x)", "x[:30])") if expression[-1] == ")" else expression + "[:30]"
        out.append(
            _case(f"tma_reduce_{what}_{dtype}", f"cp.reduce.async.bulk.tensor .{what} on {dtype}", tma_reduce, args, arrays, {"d": kept})
        )
    for dtype, n, swizzle in (("bf16", 64, 128), ("u8", 64, 64)):
        bits = 16 if dtype == "bf16" else 8
        fill = "bits" if dtype == "u8" else NORMAL
        layout = gl.NVMMASharedLayout(swizzle, bits, 2)
        args = {
            "x_desc": Descriptor("x", (1, n), layout),
            "rows_ptr": "rows",
            "y_ptr": "y",
            "column": Value("s32", 32),
            "ROWS": Constant(32),
            "N": Constant(n),
        }
        arrays = {"x": Array(dtype, (48, 128), fill), "rows": Array("s32", (32,), "integers 0..47"), "y": Array(dtype, (32, n))}
        out.append(
            _case(f"gather_{dtype}", f"tile::gather4 of 32 rows of {n} {dtype}", gather, args, arrays, {"y": f"x[rows, 32 : {32 + n}]"})
        )
        args = {
            "x_ptr": "x",
            "rows_ptr": "rows",
            "y_desc": Descriptor("y", (1, n), layout),
            "column": Value("s32", 32),
            "ROWS": Constant(32),
            "N": Constant(n),
        }
        arrays = {"x": Array(dtype, (32, n), fill), "rows": Array("s32", (32,), "permutation"), "y": Array(dtype, (40, 128), fill)}
        expression = f"concatenate([y[:, :32], concatenate([x[argsort(rows)], y[32:, 32 : {32 + n}]], 0), y[:, {32 + n} :]], 1)"
        out.append(_case(f"scatter_{dtype}", f"tile::scatter4 of 32 rows of {n} {dtype}", scatter, args, arrays, {"y": expression}))
    return out


def _im2col() -> list[Case]:
    out = []
    for name, lower, upper, start, offset, strides, expression in (
        ("corner", (-1, -1), (-1, -1), (0, -1, -1, 0), (0, 0), (), "pad(x[0], ((1, 1), (1, 1), (0, 0)))[0:8, 0:8]"),
        ("offset", (-1, -1), (-1, -1), (0, -1, -1, 32), (2, 1), (), "pad(x[0], ((1, 1), (1, 1), (0, 0)))[2:10, 1:9, 32:64]"),
        ("strided", (-1, -1), (-1, -1), (0, -1, -1, 0), (1, 1), (1, 2, 2, 1), "pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))[:, 1:9:2, 1:9:2]"),
    ):
        channels = 32
        pixels = 32 if name == "strided" else 64
        layout = gl.NVMMASharedLayout(64, 16, 2)
        args = {
            "x_desc": Im2col("x", (pixels, channels), layout, lower, upper, strides), "y_ptr": "y", "n0": Value("s32", start[0]),
            "h0": Value("s32", start[1]), "w0": Value("s32", start[2]), "c0": Value("s32", start[3]), "OFF_H": Constant(offset[0]),
            "OFF_W": Constant(offset[1]), "PIXELS": Constant(pixels), "CHANNELS": Constant(channels),
        }  # fmt: skip
        arrays = {"x": Array("f16", (2, 8, 8, 64), NORMAL), "y": Array("f16", (pixels, channels))}
        value = f"{expression}[..., :32].reshape({pixels}, 32)"
        out.append(_case(f"im2col_{name}", f"im2col load of an NHWC tensor: {name}", im2col_read, args, arrays, {"y": value}))
    args = {
        "x_desc": Im2col("x", (128, 32), gl.NVMMASharedLayout(64, 16, 2), (-1, -1), (-1, -1)),
        "w_desc": Descriptor("w", (32, 64), gl.NVMMASharedLayout(128, 16, 2)), "y_ptr": "y", "PIXELS": Constant(128), "CHANNELS": Constant(32),
        "N": Constant(64), "D": Constant(TensorMemoryLayout([128, 64], col_stride=1)),
    }  # fmt: skip
    arrays = {"x": Array("bf16", (2, 8, 8, 32), SMALL, NORMAL), "w": Array("bf16", (288, 64), SMALL, NORMAL), "y": Array("f32", (128, 64))}
    patches = "concatenate([pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))[:, i // 3 : i // 3 + 8, i % 3 : i % 3 + 8].reshape(128, 32) for i in range(9)], 1)"
    out.append(
        _case(
            "convolution", "3 x 3 convolution: im2col loads and tcgen05.mma", convolution, args, arrays,
            {"y": f"mma({patches}, w, kind='f16', a_type='bf16')"},
        )
    )  # fmt: skip
    return out


def _multicast() -> list[Case]:
    out = []
    one = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 0]])
    args = {"x_desc": Descriptor("x", (64, 64), one), "y_desc": Descriptor("y", (64, 64), one), "N": Constant(64)}
    arrays = {"x": Array("f16", (64, 64), NORMAL), "y": Array("f16", (64, 64))}
    more: dict[str, Any] = {"options": {"num_ctas": 2}}
    out.append(_case("multicast_copy", "one box to two CTAs, stored", multicast_copy, args, arrays, {"y": "x"}, **more))
    return out


CASES = [*_tma(), *_im2col(), *_multicast()]
