"""Gluon kernels that move data otherwise: tensor memory and back, clusters, cp.async, cluster launch control; packed
arithmetic.
"""

# ruff: noqa: N803 - constants of a kernel are its arguments; its lists are the compiler's
from __future__ import annotations

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    add2,
    allocate_tensor_memory,
    async_copy,
    clc,
    fence_async_shared,
    fma2,
    mbarrier,
    mul2,
    tcgen05_commit,
    tcgen05_copy,
)

from tools.witnesses.launches.launch_cases import Array, Case, Constant
from tools.witnesses.launches.triton_matmuls import NORMAL

__all__ = ["CASES"]


@gluon.jit
def roundtrip(x_ptr, y_ptr, M: gl.constexpr, N: gl.constexpr, LAYOUT: gl.constexpr, STORE: gl.constexpr, LOAD: gl.constexpr):
    """Registers to tensor memory in one access shape, back in another."""
    memory = allocate_tensor_memory(x_ptr.dtype.element_ty, [M, N], LAYOUT)
    to: gl.constexpr = memory.get_reg_layout(instr_variant=STORE)
    back: gl.constexpr = memory.get_reg_layout(instr_variant=LOAD)
    xm = gl.arange(0, M, gl.SliceLayout(1, to))[:, None]
    xn = gl.arange(0, N, gl.SliceLayout(0, to))[None, :]
    memory.store(gl.load(x_ptr + xm * N + xn))
    y = memory.load(back)
    ym = gl.arange(0, M, gl.SliceLayout(1, back))[:, None]
    yn = gl.arange(0, N, gl.SliceLayout(0, back))[None, :]
    gl.store(y_ptr + ym * N + yn, y)


@gluon.jit
def _fill(part, x_ptr, M: gl.constexpr, STRIDE: gl.constexpr):
    at: gl.constexpr = part.get_reg_layout()
    m = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    n = gl.arange(0, part.shape[1], gl.SliceLayout(0, at))[None, :]
    part.store(gl.load(x_ptr + m * STRIDE + n))


@gluon.jit
def _drain(part, y_ptr, M: gl.constexpr, STRIDE: gl.constexpr):
    at: gl.constexpr = part.get_reg_layout()
    m = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    n = gl.arange(0, part.shape[1], gl.SliceLayout(0, at))[None, :]
    gl.store(y_ptr + m * STRIDE + n, part.load(at))


@gluon.jit
def sliced(x_ptr, y_ptr, M: gl.constexpr, N: gl.constexpr, PART: gl.constexpr, LAYOUT: gl.constexpr):
    """Columns of tensor memory written slice by slice, read whole, doubled, and read back slice by slice in reverse."""
    memory = allocate_tensor_memory(gl.float32, [M, N], LAYOUT)
    for i in gl.static_range(N // PART):
        _fill(memory.slice(i * PART, PART), x_ptr + i * PART, M, N)
    whole = memory.load()
    memory.store(whole + whole)
    for j in gl.static_range(N // PART):
        _drain(memory.slice(N - (j + 1) * PART, PART), y_ptr + j * PART, M, N)


@gluon.jit
def copied(x_ptr, y_ptr, M: gl.constexpr, N: gl.constexpr, SHARED: gl.constexpr, LAYOUT: gl.constexpr):
    """Shared to tensor memory by tcgen05.cp."""
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    m = gl.arange(0, M, gl.SliceLayout(1, registers))[:, None]
    n = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    buffer = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [M, N], SHARED, gl.load(x_ptr + m * N + n))
    fence_async_shared()
    memory = allocate_tensor_memory(x_ptr.dtype.element_ty, [M, N], LAYOUT)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tcgen05_copy(buffer, memory)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    y = memory.load()
    at: gl.constexpr = y.type.layout
    ym = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    yn = gl.arange(0, N, gl.SliceLayout(0, at))[None, :]
    gl.store(y_ptr + ym * N + yn, y)


@gluon.jit
def exchanged(x_ptr, y_ptr, M: gl.constexpr, N: gl.constexpr):
    """A conversion of layouts between the CTAs of a cluster: rows split, then columns split (distributed shared
    memory).
    """
    by_rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    by_columns: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    m = gl.arange(0, M, gl.SliceLayout(1, by_rows))[:, None]
    n = gl.arange(0, N, gl.SliceLayout(0, by_rows))[None, :]
    x = gl.convert_layout(gl.load(x_ptr + m * N + n), by_columns)
    total = gl.sum(x, 1)
    gl.store(y_ptr + gl.arange(0, M, gl.SliceLayout(1, by_columns)), total)


@gluon.jit
def pipelined(x_ptr, y_ptr, TILES: gl.constexpr, BLOCK: gl.constexpr):
    """cp.async in a ring of two buffers."""
    at: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    buffers = gl.allocate_shared_memory(gl.float32, [2, BLOCK], shared)
    i = gl.arange(0, BLOCK, at)
    async_copy.async_load(buffers.index(0), x_ptr + i)
    async_copy.commit_group()
    total = gl.zeros([BLOCK], gl.float32, at)
    for tile in range(TILES):
        if tile + 1 < TILES:
            async_copy.async_load(buffers.index((tile + 1) % 2), x_ptr + (tile + 1) * BLOCK + i)
        async_copy.commit_group()
        async_copy.wait_group(1)
        total += buffers.index(tile % 2).load(at)
    gl.store(y_ptr + i, total)


@gluon.jit
def stolen(x_ptr, y_ptr, BLOCK: gl.constexpr):
    """Cluster launch control: a program asks for the block of one that has not begun, until there is none. Every tile
    is done once.
    """
    at: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    i = gl.arange(0, BLOCK, at)
    tile = gl.program_id(0)
    phase = 0
    more = True
    while more:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        gl.store(y_ptr + tile * BLOCK + i, gl.load(x_ptr + tile * BLOCK + i) * 2)
        mbarrier.wait(bar, phase)
        phase ^= 1
        got = clc.load_result(answer)
        more = got.is_canceled()
        if more:
            tile = got.program_id(0)
        gl.barrier()


@gluon.jit
def packed(a_ptr, b_ptr, c_ptr, d_ptr, e_ptr, f_ptr, BLOCK: gl.constexpr):
    """Two-lane arithmetic: f32x2 add, mul, fma."""
    at: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, at)
    a, b, c = gl.load(a_ptr + i), gl.load(b_ptr + i), gl.load(c_ptr + i)
    gl.store(d_ptr + i, add2(a, b))
    gl.store(e_ptr + i, mul2(a, b))
    gl.store(f_ptr + i, fma2(a, b, c))


# ---- the cases -------------------------------------------------------------------------------------------------------


def _case(
    name: str, title: str, kernel: Any, args: dict[str, Any], arrays: dict[str, Array], expected: dict[str, str], **more: Any
) -> Case:
    return Case(f"gluon_{name}", title, kernel, args, arrays, expected, **more)


def _tensor_memory() -> list[Case]:
    out = []
    shapes = ("32x32b", "16x64b", "16x128b", "16x256b", "32x32b_splitn")
    for i, (store, dtype, m, n, stride, warps) in enumerate((
        ("32x32b", "f32", 128, 64, 1, 4), ("16x64b", "f32", 128, 32, 1, 4), ("16x128b", "f32", 128, 64, 1, 4), ("16x256b", "f32", 128, 128, 1, 4),
        ("32x32b_splitn", "f32", 128, 64, 1, 4), ("32x32b", "f32", 64, 128, 1, 4), ("16x128b", "f16", 128, 64, 1, 4),
        ("16x256b", "f16", 128, 64, 2, 4), ("32x32b", "u8", 128, 64, 1, 4), ("32x32b", "f32", 128, 256, 1, 8), ("16x64b", "f32", 64, 64, 1, 4),
        ("32x32b", "bf16", 256, 64, 1, 8),
    )):  # fmt: skip
        load = "32x32b" if dtype == "u8" or m == 256 else shapes[(i + 2) % 4]
        if m == 64:
            load = {"32x32b": "16x64b", "16x64b": "32x32b"}[store]
        layout = TensorMemoryLayout([min(m, 128), n], col_stride=stride)
        args = {
            "x_ptr": "x", "y_ptr": "y", "M": Constant(m), "N": Constant(n), "LAYOUT": Constant(layout),
            "STORE": Constant(store), "LOAD": Constant(load),
        }  # fmt: skip
        arrays = {"x": Array(dtype, (m, n), "bits" if dtype == "u8" else NORMAL), "y": Array(dtype, (m, n))}
        title = f"tensor memory round trip of {m}x{n} {dtype} (column stride {stride}): stored as {store}, loaded as {load}, {warps} warps"
        name = f"tmem_{dtype}_{m}x{n}_{store}_{load}_w{warps}" + (f"_s{stride}" if stride > 1 else "")
        out.append(_case(name, title, roundtrip, args, arrays, {"y": "x"}, options={"num_warps": warps}))
    layout = TensorMemoryLayout([128, 128], col_stride=1)
    args = {"x_ptr": "x", "y_ptr": "y", "M": Constant(128), "N": Constant(128), "PART": Constant(32), "LAYOUT": Constant(layout)}
    both = {"x": Array("f32", (128, 128), NORMAL), "y": Array("f32", (128, 128))}
    expression = "f32(concatenate([2 * x[:, 96 - 32 * i : 128 - 32 * i] for i in range(4)], 1))"
    out.append(_case("tmem_slices", "slices of columns of tensor memory", sliced, args, both, {"y": expression}))
    for name, dtype, n, swizzle in (("f32", "f32", 64, 128), ("f32_64", "f32", 16, 64), ("u32", "u32", 32, 128)):
        shared = gl.NVMMASharedLayout(swizzle, 32, 2)
        args = {
            "x_ptr": "x", "y_ptr": "y", "M": Constant(128), "N": Constant(n), "SHARED": Constant(shared),
            "LAYOUT": Constant(TensorMemoryLayout([128, n], col_stride=1)),
        }  # fmt: skip
        both = {"x": Array(dtype, (128, n), NORMAL if dtype == "f32" else "bits"), "y": Array(dtype, (128, n))}
        out.append(_case(f"copied_{name}", f"tcgen05.cp of 128x{n} {dtype}, swizzle {swizzle}B", copied, args, both, {"y": "x"}))
    return out


def _others() -> list[Case]:
    out = []
    args: dict[str, Any] = {"x_ptr": "x", "y_ptr": "y", "M": Constant(64), "N": Constant(64)}
    arrays: dict[str, Array] = {"x": Array("f32", (64, 64), "integers -99..99"), "y": Array("f32", (64,))}
    out.append(
        _case(
            "exchanged", "layouts converted between CTAs of a cluster", exchanged, args, arrays, {"y": "x.sum(1)"}, options={"num_ctas": 2}
        )
    )
    args = {"x_ptr": "x", "y_ptr": "y", "TILES": Constant(8), "BLOCK": Constant(512)}
    arrays = {"x": Array("f32", (4096,), "integers -99..99", NORMAL), "y": Array("f32", (512,))}
    sums = "x[:512]"
    for i in range(1, 8):
        sums = f"f32({sums} + x[{512 * i}:{512 * (i + 1)}])"
    out.append(_case("cp_async", "cp.async, two buffers", pipelined, args, arrays, {"y": sums}))
    args = {"x_ptr": "x", "y_ptr": "y", "BLOCK": Constant(128)}
    arrays = {"x": Array("f32", (2048,), NORMAL), "y": Array("f32", (2048,))}
    out.append(
        _case(
            "launch_control",
            "clusterlaunchcontrol: programs take over the tiles of others",
            stolen,
            args,
            arrays,
            {"y": "2 * x"},
            grid=(16, 1, 1),
        )
    )
    args = {f"{name}_ptr": name for name in "abcdef"} | {"BLOCK": Constant(512)}
    arrays = {name: Array("f32", (1024,), NORMAL) for name in "abc"} | {name: Array("f32", (1024,)) for name in "def"}
    expected = {"d": "f32(a + b)", "e": "f32(a * b)", "f": "fma(a, b, c)"}
    out.append(_case("packed_f32x2", "add.f32x2, mul.f32x2, fma.f32x2", packed, args, arrays, expected, grid=(2, 1, 1)))
    return out


CASES = [*_tensor_memory(), *_others()]
