"""Tiles against Triton: where its linear layout of an NVMMASharedLayout has an element, TMA must write it and the
descriptors must read it.

Triton is a compiler: what it says is what it emits, not hardware.
"""

from __future__ import annotations

import atexit
import functools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from smemsim.campaign.oracles.differential import Case, Oracle, Verdict

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ORACLE", "case_of", "compare"]


WIDTHS = (32, 64, 128)
TYPES = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}  # bits in shared memory
MOST_BYTES = 1 << 16  # of a tile
BASE = 1024  # whole swizzle atoms begin here and there


@functools.cache
def _builder() -> tuple[Any, Any]:
    """(context, which must outlive the builder; the builder)."""
    from triton._C.libtriton import ir
    from triton._C.libtriton.gluon_ir import GluonOpBuilder
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("cuda", 100, 32)).load_dialects(context)
    atexit.register(_builder.cache_clear)  # before Triton's modules go
    return context, GluonOpBuilder(context)


def _theirs(case: Case) -> np.ndarray:
    """int64 (rows, k): the byte offset of every element in Triton's layout, -1 where it has none."""
    import numpy as np
    from triton.experimental.gluon import language as gl

    bits, rows, k = TYPES[case["dtype"]], case["rows"], case["k"]
    layout = gl.NVMMASharedLayout(case["width"], bits, 2, transposed=case["major"] == "MN")
    _, builder = _builder()
    bases = builder.to_linear_layout(layout._to_ir(builder), [rows, k]).offset_bases
    places = np.zeros((1, 2), np.int64)
    for basis in bases:
        places = np.concatenate([places, places ^ np.array(basis, np.int64)])
    offsets = np.full((rows, k), -1, np.int64)
    offsets[tuple(places.T)] = np.arange(len(places)) * (bits // 8)
    return offsets


def _written(case: Case) -> np.ndarray:
    """Where TMA loads of boxes as wide as the swizzle, one after the other, put every element of the tile."""
    import numpy as np

    from smemsim.core.machine.tma import tma_load
    from smemsim.core.words.tensor_map import TensorMap

    size = TYPES[case["dtype"]] // 8
    lines, along = (case["rows"], case["k"]) if case["major"] == "K" else (case["k"], case["rows"])
    inner, pitch, first = case["width"] // size, max(along * size, 16), 1 << 20
    tm = TensorMap.tiled(
        data_type={1: "u8", 2: "bf16", 4: "f32"}[size], global_address=first, global_dim=(along, lines), global_strides=(pitch,),
        box_dim=(inner, min(lines, 256)), swizzle=f"{case['width']}B",
    )  # fmt: skip
    out = np.full((lines, along), -1, np.int64)
    for panel in range(along // inner):
        for line in range(0, lines, 256):
            at = BASE + (panel * lines + line) * case["width"]
            t = tma_load(tm, (panel * inner, line), smem_address=at)
            source, where = t.global_address.ravel() - first, t.shared_address.ravel().astype(np.int64) - BASE
            whole = source % size == 0
            out[source[whole] // pitch, source[whole] % pitch // size] = where[whole]
    return out if case["major"] == "K" else out.T


def _read(case: Case) -> np.ndarray | None:
    """The addresses at which the descriptors of the tile's plan read every element; None if no instruction reads such a
    tile.
    """
    import numpy as np

    from smemsim.base.errors import Unmodelled
    from smemsim.core.words.operand import operand_addresses
    from smemsim.planning.arrangement import IllegalPlan
    from smemsim.planning.make import unchecked

    try:
        made = unchecked(case["rows"], case["k"], dtype=case["dtype"], major=case["major"], swizzle=f"{case['width']}B", arch=case["arch"],
                         side=case["side"], base_address=BASE * case["base"], stack="strided")  # fmt: skip
    except (IllegalPlan, Unmodelled):
        return None
    words = made.words
    blocks, steps = words.shape
    rows, k = case["rows"] // blocks, case["k"] // steps
    found = operand_addresses(words, arch=case["arch"], dtype=case["dtype"], major=case["major"], rows=rows, k=k)
    places: np.ndarray = found.astype(np.int64).transpose(0, 2, 1, 3).reshape(case["rows"], case["k"])
    return places - BASE * int(case["base"])


def _first(ours: np.ndarray, theirs: np.ndarray, what: str) -> str:
    import numpy as np

    where = np.argwhere(ours != theirs)
    if not len(where):
        return ""
    row, k = where[0].tolist()
    return f"{len(where)} of {ours.size} elements {what} elsewhere; the first, ({row}, {k}), at byte {ours[row, k]} of the tile, Triton has it at {theirs[row, k]}"


def compare(case: Case) -> Verdict:
    """One tile: written, and read where the planner has descriptors for it."""
    theirs = _theirs(case)
    kind = f"{case['arch']} {case['major']}-major {case['width']}B"
    if what := _first(_written(case), theirs, "are written"):
        return f"{kind} written", what
    read = _read(case)
    if read is None:
        return "written only", ""
    return kind, _first(read, theirs, "are read")


def case_of(rng: random.Random) -> Case:
    """A tile that Triton has a layout for: at least eight lines, and as long as the swizzle is wide."""
    dtype, major, width = rng.choice(list(TYPES)), rng.choice(("K", "MN")), rng.choice(WIDTHS)
    size = TYPES[dtype] // 8
    along = width // size << rng.randrange(4)
    most = MOST_BYTES // (along * size)
    lines = min(8 << rng.randrange(6), most)
    rows, k = (lines, along) if major == "K" else (along, lines)
    return {"arch": rng.choice(("sm_90a", "sm_100a", "sm_103a")), "dtype": dtype, "major": major, "width": width, "rows": rows, "k": k,
            "side": rng.choice("ab"), "base": rng.randrange(1, 40)}  # fmt: skip


def _smaller(case: Case) -> Iterator[Case]:
    size = TYPES[case["dtype"]] // 8
    lines, along = ("rows", "k") if case["major"] == "K" else ("k", "rows")
    yield case | {"base": 1}
    if case[lines] > 8:
        yield case | {lines: case[lines] // 2}
    if case[along] * size > case["width"]:
        yield case | {along: case[along] // 2}


ORACLE = Oracle(
    "triton-layouts", "tiles in shared memory: TMA's bytes and the planned descriptors' addresses against Triton's LinearLayout",
    draw=case_of, compare=compare, smaller=_smaller, chunk_cases=200, needs=("triton",),
)  # fmt: skip
