"""Gluon kernels, one tile each, compiled by Triton for sm_100a on the CPU: what their tcgen05 instructions are given,
and where Triton put the tiles.

Descriptors come out of the PTX (`fold`). The layouts come out of the compiler on other ways: a linear layout a buffer,
from the attribute that the kernel asked for, and its place in shared or tensor memory from the allocation passes, run
once more on the kernel's TTGIR.
"""

# ruff: noqa: N803 - constants of a kernel are its arguments
from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import tempfile
from typing import Any

# Read by Triton when it compiles: nothing from a cache, no paths of this machine in the PTX, and the default that 3.9
# warns about.
os.environ |= {"TRITON_ALWAYS_COMPILE": "1", "TRITON_DISABLE_LINE_INFO": "1", "TRITON_DEFAULT_FP_FUSION": "1"}

import triton
from triton._C.libtriton import ir, nvidia, passes
from triton._C.libtriton.gluon_ir import GluonOpBuilder
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler.compiler import make_backend
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_scaled,
)

from tools.witnesses import fold

__all__ = ["CONFIGURATIONS", "DISAGREES", "REFUSED", "Configuration", "compile_kernel", "device"]

TARGET = GPUTarget("cuda", 100, 32)
# the kernels' names of the buffers; scale factors in shared, then in tensor memory
OPERANDS = ("a", "b", "d", "sa", "sb", "ta", "tb")
OFFSET, ROW, COLUMN, BLOCK = range(4)  # input dimensions of a linear layout
# Element type: Gluon's, the bits of a unit that Triton addresses, elements in it
TYPES = {
    "f16": (gl.float16, 16, 1), "bf16": (gl.bfloat16, 16, 1), "tf32": (gl.float32, 32, 1), "f32": (gl.float32, 32, 1),
    "e4m3": (gl.float8e4nv, 8, 1), "e5m2": (gl.float8e5, 8, 1), "s8": (gl.int8, 8, 1), "s32": (gl.int32, 32, 1),
    "e2m1": (gl.uint8, 8, 2), "ue8m0": (gl.uint8, 8, 1), "ue4m3": (gl.float8e4nv, 8, 1),
}  # fmt: skip


@gluon.jit
def dense(
    out,
    A_TYPE: gl.constexpr,
    B_TYPE: gl.constexpr,
    D_TYPE: gl.constexpr,
    A_SHAPE: gl.constexpr,
    B_SHAPE: gl.constexpr,
    D_SHAPE: gl.constexpr,
    A: gl.constexpr,
    B: gl.constexpr,
    D: gl.constexpr,
    A_IN_TMEM: gl.constexpr,
):
    """D = A B, of whatever the buffers hold: only where they are read matters."""
    if A_IN_TMEM:
        a = allocate_tensor_memory(A_TYPE, A_SHAPE, A)
    else:
        a = gl.allocate_shared_memory(A_TYPE, A_SHAPE, A)
    b = gl.allocate_shared_memory(B_TYPE, B_SHAPE, B)
    d = allocate_tensor_memory(D_TYPE, D_SHAPE, D)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tcgen05_mma(a, b, d, use_acc=False)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    result = d.load(d.get_reg_layout())
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, D_SHAPE[0], gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, D_SHAPE[1], gl.SliceLayout(0, at))[None, :]
    gl.store(out + rows * D_SHAPE[1] + columns, result)


@gluon.jit
def scaled(
    out,
    A_TYPE: gl.constexpr,
    B_TYPE: gl.constexpr,
    SCALE_TYPE: gl.constexpr,
    A_FORMAT: gl.constexpr,
    B_FORMAT: gl.constexpr,
    A_SHAPE: gl.constexpr,
    B_SHAPE: gl.constexpr,
    D_SHAPE: gl.constexpr,
    TA_SHAPE: gl.constexpr,
    TB_SHAPE: gl.constexpr,
    A: gl.constexpr,
    B: gl.constexpr,
    D: gl.constexpr,
    SA: gl.constexpr,
    SB: gl.constexpr,
    TA: gl.constexpr,
    TB: gl.constexpr,
    A_IN_TMEM: gl.constexpr,
    COPY_B: gl.constexpr,
):
    """A product with scale factors, copied from shared to tensor memory first; those of B where there are 128 of them,
    the copy's block.
    """
    if A_IN_TMEM:
        a = allocate_tensor_memory(A_TYPE, A_SHAPE, A)
    else:
        a = gl.allocate_shared_memory(A_TYPE, A_SHAPE, A)
    b = gl.allocate_shared_memory(B_TYPE, B_SHAPE, B)
    sa = gl.allocate_shared_memory(SCALE_TYPE, TA_SHAPE, SA)
    ta = allocate_tensor_memory(SCALE_TYPE, TA_SHAPE, TA)
    tb = allocate_tensor_memory(SCALE_TYPE, TB_SHAPE, TB)
    d = allocate_tensor_memory(gl.float32, D_SHAPE, D)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tcgen05_copy(sa, ta)
    if COPY_B:
        sb = gl.allocate_shared_memory(SCALE_TYPE, TB_SHAPE, SB)
        tcgen05_copy(sb, tb)
    tcgen05_mma_scaled(a, b, d, ta, tb, A_FORMAT, B_FORMAT, use_acc=False)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    result = d.load(d.get_reg_layout())
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, D_SHAPE[0], gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, D_SHAPE[1], gl.SliceLayout(0, at))[None, :]
    gl.store(out + rows * D_SHAPE[1] + columns, result)


# ---- configurations --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One kernel. `tile` M, N, K of the tensors (of both CTAs of a pair); `instruction` M, N of one MMA; how A and B
    lie.

    `a_layout`, `b_layout`: "tmem", or (swizzle width in bytes, major, order): order "nvmma" is Triton's own layout with
    the swizzle; "mn" and "k" are linear layouts of canonical atoms that follow one another along that dimension first.
    """

    suite: str
    a_type: str
    b_type: str
    d_type: str
    tile: tuple[int, int, int]
    instruction: tuple[int, int]
    a_layout: Any
    b_layout: Any
    cta_group: int = 1
    scale_block: int = 0
    scale_type: str = ""

    @property
    def name(self) -> str:
        """What makes it, in one word without spaces."""

        def told(layout: Any) -> str:
            return layout if isinstance(layout, str) else "{1}{0}{2}".format(*layout[:2], "" if layout[2] == "nvmma" else "+" + layout[2])

        shape = "x".join(map(str, self.tile))
        instruction = "x".join(map(str, self.instruction))
        scales = f"_{self.scale_type}_block{self.scale_block}" if self.scale_block else ""
        types = f"{self.a_type}_{self.b_type}_{self.d_type}{scales}"
        return f"{types}_{shape}_by_{instruction}_A{told(self.a_layout)}_B{told(self.b_layout)}_cg{self.cta_group}"


def _bits(first: int, end: int, dim: int) -> list[list[int]]:
    """Bases of one dimension: `first`, twice as much, ... below `end`."""
    out = []
    while first < end:
        out.append([0, first] if dim else [first, 0])
        first *= 2
    return out


def canonical(shape: tuple[int, int], bits: int, width: int, contiguous: int, first: int, block: list[list[int]]) -> gl.SharedLinearLayout:
    """Atoms of 8 lines of `width` bytes, swizzled (width 16: not), contiguous along dimension `contiguous`; atoms
    follow along `first`.
    """
    line = width * 8 // bits
    strided = 1 - contiguous
    bases, lines = _bits(1, line, contiguous), _bits(1, 8, strided)
    chunk = 128 // bits
    at = {128: 0, 64: 1, 32: 2}.get(width, 3)  # the line bit that is address bit 7
    for i, low in enumerate(lines[at:]):
        low[contiguous] = chunk << i
    rest = {contiguous: _bits(line, shape[contiguous], contiguous), strided: _bits(8, shape[strided], strided)}
    return gl.SharedLinearLayout(bases + lines + rest[first] + rest[1 - first], block, 1024)


def unit_shape(c: Configuration, operand: str) -> tuple[int, int]:
    """A [M, K] or B [K, N] in what Triton counts: bytes that hold two e2m1, along the contiguous dimension."""
    layout, dtype = (c.a_layout, c.a_type) if operand == "a" else (c.b_layout, c.b_type)
    shape = [c.tile[0], c.tile[2]] if operand == "a" else [c.tile[2], c.tile[1]]
    k_major = layout == "tmem" or layout[1] == "K"
    shape[k_major == (operand == "a")] //= TYPES[dtype][2]
    return shape[0], shape[1]


def shared_layout(c: Configuration, operand: str) -> Any:
    """The layout attribute of A [M, K] or B [K, N] in shared memory."""
    width, major, order = c.a_layout if operand == "a" else c.b_layout
    dtype = c.a_type if operand == "a" else c.b_type
    _, bits, packed = TYPES[dtype]
    mn, k = (0, 1) if operand == "a" else (1, 0)
    contiguous = k if major == "K" else mn
    shape = list(unit_shape(c, operand))
    padded = packed == 2 and {c.a_type, c.b_type} != {"e2m1"}
    cga = [] if c.cta_group == 1 else [[1, 0] if operand == "a" else [0, 1]]
    if order == "nvmma":
        return gl.NVMMASharedLayout(width, bits, 2, transposed=contiguous == 0, fp4_padded=padded, cga_layout=cga)
    shape[mn] //= c.cta_group
    block = [[shape[0], 0] if operand == "a" else [0, shape[1]]] if c.cta_group == 2 else []
    return canonical((shape[0], shape[1]), bits, max(16, width), contiguous, mn if order == "mn" else k, block)


def scale_layout(rows: int, factors: int, block: list[list[int]]) -> gl.SharedLinearLayout:
    """Scale factors in shared memory as tcgen05.cp wants them: blocks of 128 rows by 4 factors, row r at 16 (r % 32) +
    4 (r / 32).
    """
    bases = [[0, 1], [0, 2], [32, 0], [64, 0], *_bits(1, 32, 0), *_bits(4, factors, 1), *_bits(128, rows, 0)]
    return gl.SharedLinearLayout(bases, block, 128)


def buffers(c: Configuration) -> dict[str, tuple[str, tuple[int, int], Any]]:
    """Every buffer of a kernel: element type, shape of the whole tensor, layout."""
    m, n, k = c.tile
    block_m, block_n = c.instruction[0] // c.cta_group, c.instruction[1]
    pair = {"cga_layout": [[1, 0]], "two_ctas": True} if c.cta_group == 2 else {}
    if c.a_layout == "tmem":
        padded = TYPES[c.a_type][2] == 2 and c.b_type != "e2m1"
        a: Any = TensorMemoryLayout([block_m, unit_shape(c, "a")[1]], col_stride=1, fp4_padded=padded, **pair)
    else:
        a = shared_layout(c, "a")
    stride = 32 // TYPES[c.d_type][1]
    out = {
        "a": (c.a_type, unit_shape(c, "a"), a),
        "b": (c.b_type, unit_shape(c, "b"), shared_layout(c, "b")),
        "d": (c.d_type, (m, n), TensorMemoryLayout([block_m, block_n], col_stride=stride, **pair)),
    }
    if c.scale_block:
        factors = k // c.scale_block
        split, both = ([[1, 0]], [[0, 0]]) if c.cta_group == 2 else ([], [])
        out["sa"] = (c.scale_type, (m, factors), scale_layout(m // c.cta_group, factors, [[m // 2, 0]] if split else []))
        if n >= 128:
            out["sb"] = (c.scale_type, (n, factors), scale_layout(n, factors, both))
        out["ta"] = (c.scale_type, (m, factors), TensorMemoryScalesLayout(split))
        out["tb"] = (c.scale_type, (n, factors), TensorMemoryScalesLayout(both))
    return out


# ---- compiling -------------------------------------------------------------------------------------------------------


def _context() -> Any:
    context = ir.context()
    ir.load_dialects(context)
    make_backend(TARGET).load_dialects(context)
    return context


def linear_layout(layout: Any, shape: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Triton's linear layout: for every bit of every input dimension (`OFFSET` ... `BLOCK`)
    the coordinates it toggles.
    """
    context = _context()  # must outlive the builder
    builder = GluonOpBuilder(context)
    linear = builder.to_linear_layout(layout._to_ir(builder), list(shape))
    if hasattr(linear, "offset_bases"):
        parts = ((OFFSET, linear.offset_bases), (BLOCK, linear.block_bases))
    else:  # of tensor memory the CTAs' bases are not told; they are those the kernel asked for
        per_cta = [[shape[d] // 2 * b[d] for d in range(2)] for b in layout.cga_layout]
        parts = ((ROW, linear.rows), (COLUMN, linear.cols), (BLOCK, per_cta))  # type: ignore[assignment]
    return [(kind, *basis) for kind, bases in parts for basis in bases]


def allocations(ttgir: str) -> dict[str, int]:
    """Where Triton's allocation passes put each buffer: a byte offset in shared memory, or lane << 16 | column in
    tensor memory.
    """
    context = _context()
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir") as file:
        file.write(ttgir)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    manager = ir.pass_manager(context)
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, TARGET.arch, 94)
    nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(manager)
    manager.run(module, "allocations")
    text = str(module)
    shared = re.findall(r"(%\w+) = ttg\.local_alloc \{allocation\.offset = (\d+)", text)
    tmem = re.findall(r"(%\w+) = ttng\.tmem_alloc \{tensor_memory_col_offset = (\d+) : i32, tensor_memory_row_offset = (\d+)", text)
    at = {n: int(offset) for n, offset in shared} | {n: int(row) << 16 | int(column) for n, column, row in tmem}
    [used] = re.findall(r"ttng\.tc_gen5_mma\w* ([^:]*?) :", text)
    names = dict(zip(("a", "b", "d", "ta", "tb"), re.findall(r"%\w+", used), strict=False))
    names |= dict(zip(("sa", "sb"), re.findall(r"ttng\.tmem_copy (%\w+)", text), strict=False))
    return {name: at[value] for name, value in names.items() if value in at}


def device() -> dict[str, str]:
    """What the suites say instead of a GPU."""
    ptxas = get_ptxas(TARGET.arch)
    return {"gpu": "none: compiled, not run", "compiler": f"triton {triton.__version__}", "ptxas": ptxas.version, "target": "sm_100a"}


def compile_kernel(c: Configuration) -> dict[str, Any]:
    """Compile one kernel and say what its instructions are given and where its tensors lie; RuntimeError or the
    compiler's own error.
    """
    every = buffers(c)
    constants: dict[str, Any] = {"A_IN_TMEM": c.a_layout == "tmem"}
    for name, (dtype, shape, layout) in every.items():
        constants |= {f"{name.upper()}_TYPE": TYPES[dtype][0], f"{name.upper()}_SHAPE": list(shape), name.upper(): layout}
    constants |= {"A_FORMAT": c.a_type, "B_FORMAT": c.b_type, "SCALE_TYPE": TYPES[c.scale_type][0] if c.scale_block else None}
    constants |= {"COPY_B": "sb" in every, "SB": constants.get("SB")}
    kernel = scaled if c.scale_block else dense
    constants = {name: constants[name] for name in kernel.arg_names if name != "out"}
    out = {"f16": "*fp16", "f32": "*fp32", "s32": "*i32"}[c.d_type]
    signature = {name: "constexpr" if name in constants else out for name in kernel.arg_names}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        compiled = triton.compile(
            GluonASTSource(kernel, signature, constants), target=TARGET, options={"num_warps": 4, "num_ctas": c.cta_group}
        )
    ptx = compiled.asm["ptx"]
    if ".target sm_100a" not in ptx or not compiled.asm["cubin"]:
        raise RuntimeError("not compiled for sm_100a")
    where = allocations(compiled.asm["ttgir"])
    # The CTA of rank 0 issues for the pair; nothing but predicates depends on it.
    found = fold.fold(ptx, {"%cluster_ctarank": 0})
    return {
        "name": c.name,
        "suite": c.suite,
        "cta_group": c.cta_group,
        "a_type": c.a_type,
        "b_type": c.b_type,
        "d_type": c.d_type,
        "scale_type": c.scale_type,
        "scale_block": c.scale_block,
        "a_in_tmem": int(c.a_layout == "tmem"),
        "saturate": 0,
        "tile": c.tile,
        "instruction": c.instruction,
        "ptx_sha256": hashlib.sha256(ptx.encode()).hexdigest(),
        "base": [where.get(name, -1) if name in every else -1 for name in OPERANDS],
        "unit_bits": [TYPES[every[name][0]][1] if name in every else 0 for name in OPERANDS],
        "layout": [
            (i, kind, *(reversed(at) if name == "b" else at))
            for i, name in enumerate(OPERANDS)
            if name in every
            for kind, *at in linear_layout(every[name][2], every[name][1])
        ],
        "mma": [s for s in found if isinstance(s, fold.Mma)],
        "cp": [s for s in found if isinstance(s, fold.Cp)],
    }


# ---- the list --------------------------------------------------------------------------------------------------------


def _both(swizzle: int, a_major: str, b_major: str, order: str = "nvmma") -> tuple[Any, Any]:
    return (swizzle, a_major, order), (swizzle, b_major, order)


def fitted(c: Configuration) -> Configuration:
    """The configuration with the widest swizzle, up to the one asked for, whose atoms the tile of one CTA fills: Triton
    refuses others.
    """
    out = {}
    for operand, layout in (("a", c.a_layout), ("b", c.b_layout)):
        if layout == "tmem" or layout[2] != "nvmma":
            continue
        shape = list(unit_shape(c, operand))
        _, bits, packed = TYPES[c.a_type if operand == "a" else c.b_type]
        mn = 0 if operand == "a" else 1
        shape[mn] //= c.cta_group
        line = shape[1 - mn if layout[1] == "K" else mn] * bits // 8
        padded = packed == 2 and {c.a_type, c.b_type} != {"e2m1"}
        out[f"{operand}_layout"] = (layout[0] if padded else min(layout[0], line), *layout[1:])
    return dataclasses.replace(c, **out)


MAJORS = [(a, b) for a in ("K", "MN") for b in ("K", "MN")]
BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1}


def _shared() -> list[Configuration]:
    """Both operands in shared memory, one CTA."""
    out = []

    def add(
        a: str, b: str, d: str, tile: tuple[int, int, int], layouts: tuple[Any, Any], instruction: tuple[int, int] | None = None
    ) -> None:
        at = instruction or (min(tile[0], 128), min(tile[1], 256))
        out.append(Configuration("triton_mma", a, b, d, tile, at, *layouts))

    for tile in ((128, 128, 64), (128, 256, 64), (64, 64, 64), (128, 64, 128)):
        for swizzle in (128, 64, 32):
            for majors in MAJORS:
                add("bf16", "bf16", "f32", tile, _both(swizzle, *majors))
    for swizzle in (128, 64, 32):
        for majors in MAJORS:
            add("f16", "f16", "f16" if swizzle == 64 else "f32", (128, 128, 64), _both(swizzle, *majors))
            add("e4m3", "e5m2", "f32", (128, 128, 128), _both(swizzle, *majors))
            add("e5m2", "e4m3", "f16" if swizzle == 32 else "f32", (64, 128, 128), _both(swizzle, *majors))
            add("s8", "s8", "s32", (128, 128, 128), _both(swizzle, *majors))
        for tile in ((128, 128, 64), (64, 64, 32), (128, 256, 32)):
            add("tf32", "tf32", "f32", tile, _both(swizzle, "K", "K"))
        add("s8", "s8", "s32", (64, 64, 64), _both(swizzle, "K", "K"))
        # different layouts of A and B
        add("bf16", "bf16", "f32", (128, 128, 64), ((swizzle, "K", "nvmma"), ({128: 32, 64: 128, 32: 64}[swizzle], "MN", "nvmma")))
    for n in (8, 16, 32, 64, 128, 256, 512):
        for major in ("K", "MN"):
            width = min(128, 2 * n) if major == "MN" else 128
            if width >= 32:
                add("bf16", "bf16", "f32", (128, n, 64), ((128, "K", "nvmma"), (width, major, "nvmma")))
    for m in (64, 128, 256, 512):
        add("f16", "f16", "f32", (m, 128, 64), _both(128, "MN", "K"))
    for k in (16, 32, 128, 256):
        add("f16", "f16", "f32", (128, 32, k), ((min(128, 2 * k), "K", "nvmma"), (64, "MN", "nvmma")))
    # canonical atoms, one after the other along MN first or along K first; width 0 is no swizzle
    for dtype, d in (("bf16", "f32"), ("e4m3", "f32"), ("s8", "s32"), ("tf32", "f32")):
        k = 128 // BYTES[dtype]
        for swizzle in (0, 32, 64, 128):
            for order in ("mn", "k"):
                for a, b in (("K", "K"),) if dtype == "tf32" else (("K", "K"), ("MN", "MN")):
                    add(dtype, dtype, d, (128, 128, 2 * k if swizzle == 128 else k), _both(swizzle, a, b, order))
    for a, b in (("f16", "bf16"), ("bf16", "f16")):
        add(a, b, "f32", (128, 128, 64), _both(128, "K", "MN"))
    for dtype, d in (("e4m3", "f32"), ("s8", "s32")):
        add(dtype, dtype, d, (128, 8, 128), _both(128, "K", "K"))
    for order in ("mn", "k"):
        add("f16", "f16", "f32", (64, 8, 64), _both(0, "K", "K", order), (64, 8))
        add("f16", "f16", "f32", (128, 16, 32), _both(0, "MN", "MN", order), (128, 16))
    return out


def _pairs() -> list[Configuration]:
    """Both CTAs of a pair: `.cta_group::2`."""
    out = []
    for swizzle in (128, 64, 32):
        for majors in MAJORS:
            for m in (256, 128):
                out.append(Configuration("triton_mma_pair", "bf16", "bf16", "f32", (m, 128, 64), (m, 128), *_both(swizzle, *majors), 2))
        out.append(Configuration("triton_mma_pair", "tf32", "tf32", "f32", (256, 128, 64), (256, 128), *_both(swizzle, "K", "K"), 2))
        for a, b in (("K", "K"), ("MN", "MN")):
            out.append(Configuration("triton_mma_pair", "e4m3", "e4m3", "f32", (256, 256, 128), (256, 256), *_both(swizzle, a, b), 2))
            out.append(Configuration("triton_mma_pair", "s8", "s8", "s32", (256, 128, 128), (256, 128), *_both(swizzle, a, b), 2))
    for n in (32, 64, 256):
        out.append(Configuration("triton_mma_pair", "f16", "f16", "f32", (256, n, 64), (256, min(n, 256)), *_both(128, "K", "K"), 2))
    out.append(Configuration("triton_mma_pair", "f16", "f16", "f32", (512, 128, 64), (256, 128), *_both(128, "K", "K"), 2))
    for order in ("mn", "k"):
        for a, b in (("K", "K"), ("MN", "MN")):
            out.append(Configuration("triton_mma_pair", "f16", "f16", "f16", (256, 128, 64), (256, 128), *_both(0, a, b, order), 2))
    return out


def _tensor() -> list[Configuration]:
    """A in tensor memory."""
    out = []
    for m in (128, 64):
        for dtype, d in (("f16", "f32"), ("bf16", "f32"), ("tf32", "f32"), ("e4m3", "f32"), ("e5m2", "f32"), ("s8", "s32")):
            k = 128 // BYTES[dtype]
            for major in ("K",) if dtype == "tf32" else ("K", "MN"):
                for n in (128, 64):
                    b = (128 if n == 128 else 64, major, "nvmma")
                    out.append(Configuration("triton_mma_tmem", dtype, dtype, d, (m, n, k), (m, n), "tmem", b))
    for dtype, d in (("bf16", "f32"), ("f16", "f16"), ("tf32", "f32"), ("e4m3", "f32"), ("s8", "s32")):
        for n in (128, 256):
            k = 128 // BYTES[dtype]
            out.append(Configuration("triton_mma_tmem", dtype, dtype, d, (256, n, k), (256, n), "tmem", (128, "K", "nvmma"), 2))
    return out


def _scaled() -> list[Configuration]:
    """Block-scaled types, with the copies of their scale factors."""
    out = []
    eight = ("e4m3", "e5m2")
    for cta_group in (1, 2):
        m = 128 * cta_group

        def add(
            a: str, b: str, n: int, k: int, layouts: tuple[Any, Any], block: int, scale: str, m: int = m, cta_group: int = cta_group
        ) -> None:
            tile, at = (m, n, k), (min(m, 128 * cta_group), min(n, 256))
            out.append(Configuration("triton_mma_scaled", a, b, "f32", tile, at, *layouts, cta_group, block, scale))

        for a in eight:
            for b in eight:
                for majors in MAJORS:
                    add(a, b, 128, 128, _both(128, *majors), 32, "ue8m0")
        for swizzle in (64, 32):
            add("e4m3", "e4m3", 128, 128, _both(swizzle, "K", "K"), 32, "ue8m0")
        for n in (16, 32, 64, 256):
            add("e4m3", "e4m3", n, 128, _both(128, "K", "K"), 32, "ue8m0")
        add("e4m3", "e4m3", 128, 256, _both(128, "K", "K"), 32, "ue8m0")
        for majors in MAJORS:  # e2m1 beside 8-bit types is padded, with 128B swizzle only: a CTA needs 128 of it
            add("e4m3", "e2m1", 128 * cta_group if majors[1] == "MN" else 128, 128, _both(128, *majors), 32, "ue8m0")
            add("e2m1", "e5m2", 128, 128, _both(128, *majors), 32, "ue8m0")
        for k in (128, 256):
            for swizzle in (128, 64, 32):
                add("e2m1", "e2m1", 128, k, _both(swizzle, "K", "K"), 32, "ue8m0")
                add("e2m1", "e2m1", 128, k, _both(swizzle, "K", "K"), 16, "ue4m3")
        for order in ("mn", "k"):
            add("e4m3", "e4m3", 128, 128, _both(0, "K", "K", order), 32, "ue8m0")
            add("e2m1", "e2m1", 128, 256, _both(0, "K", "K", order), 32, "ue8m0")
        for n in (64, 256):
            add("e2m1", "e2m1", n, 256, _both(128, "K", "K"), 32, "ue8m0")
            add("e2m1", "e2m1", n, 256, _both(128, "K", "K"), 16, "ue4m3")
        add("e2m1", "e2m1", 128, 256, _both(128, "K", "K"), 32, "ue8m0", 2 * m)
        add("e4m3", "e4m3", 128, 128, ("tmem", (128, "K", "nvmma")), 32, "ue8m0")
        add("e2m1", "e2m1", 128, 128, ("tmem", (128, "K", "nvmma")), 32, "ue8m0")
        add("e2m1", "e4m3", 128, 128, ("tmem", (128, "K", "nvmma")), 32, "ue8m0")
    return out


CONFIGURATIONS: list[Configuration] = list({c.name: c for c in map(fitted, (*_shared(), *_pairs(), *_tensor(), *_scaled()))}.values())

# What Triton 3.9.0 does not compile, with its message.
REFUSED: list[tuple[str, Configuration]] = [
    (
        "failed to find valid tcgen05.mma layout for operand A",
        Configuration("", "bf16", "bf16", "f32", (128, 128, 64), (128, 128), *_both(0, "K", "K")),
    ),
    (
        "does not support transposed float32 operands",
        Configuration("", "tf32", "tf32", "f32", (128, 128, 32), (128, 128), *_both(128, "MN", "K")),
    ),
    ("more than one mma instruction along N", Configuration("", "f16", "f16", "f32", (256, 512, 64), (256, 256), *_both(128, "K", "K"), 2)),
    (
        "does not support blockM=64 with interleaved blocks",
        Configuration("", "bf16", "bf16", "f32", (128, 128, 64), (128, 128), "tmem", (128, "K", "nvmma"), 2),
    ),
    ("shape must have power-of-2", Configuration("", "f16", "f16", "f32", (128, 24, 64), (128, 24), *_both(128, "K", "K"))),
]
# What it compiles, and the words then do not address the layout (or the types) that the kernel asked for. Nothing of
# this is kept.
DISAGREES: list[tuple[str, Configuration]] = [
    (
        "e2m1 with an MN-major operand: kind::mxf8f6f4, which wants 4-bit types padded (PTX ISA 9.1 §9.7.16.10.4), over a layout that is not",
        Configuration("", "e2m1", "e2m1", "f32", (128, 128, 256), (128, 128), (128, "K", "nvmma"), (64, "MN", "nvmma"), 1, 32, "ue8m0"),
    ),
    (
        "ue8m0 scales (uint8) for blocks of 16: the instruction descriptor says ue4m3",
        Configuration("", "e2m1", "e2m1", "f32", (128, 128, 256), (128, 128), *_both(128, "K", "K"), 1, 16, "ue8m0"),
    ),
]
