"""`mma.sync` and `mma.sp.sync` (PTX ISA 9.7.14.5, 9.7.14.6): the warps of a wave multiply side by side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.errors import InputError
from smemsim.gpu.alu.floats import MODES
from smemsim.gpu.matrix.fragments import items, whole_warps
from smemsim.gpu.modifiers import Modifiers, Operands
from smemsim.gpu.registry import Gate, Step, implements, unmodelled
from smemsim.gpu.wave import WARP
from smemsim.machine.mma_sync import mma_sync, mma_sync_types, register_counts, register_places
from smemsim.machine.quad_pairs import QUAD_PAIR_SHAPE, quad_pair_registers, quad_pairs
from smemsim.ptx.module import Immediate, Instruction, Operand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.registers import Read
    from smemsim.gpu.wave import Wave

__all__: list[str] = []

_SECTION = "PTX ISA 9.7.14.5.14"

# On sm_90a every sum is measured: trace launches, kernels mma_hard*.
STUDIES = "inferred from those of an H200 (trace launches) and public studies of a B200 (Khattak and Mikaitis, MMA-Sim)"
EVIDENCE = dict.fromkeys(("sm_100a", "sm_103a"), f"the sums of mma.sync are {STUDIES}")
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@implements("mma")
def build_mma(i: Instruction, c: Linker) -> Step:
    """`mma{.sp}.sync.aligned.mMnNkK.row.col{.satfinite}.D.A.B.C{.OP.popc} d, a, b, c {, metadata, selector}`."""
    words, operands = Modifiers(i, "sync", "aligned"), Operands(i)
    if "block_scale" in words.left or any(word.startswith("kind::") for word in words.left):
        raise unmodelled(i, "only sm_120a has mma.sync with .kind:: and .block_scale")
    sparse = bool(words.one_of(("sp", "sp::ordered_metadata")))
    found = next((m for word in words.left if (m := _SHAPE.fullmatch(word))), None)
    if found is None:
        raise unmodelled(i, "without a shape")
    words.need(found[0])
    layouts = [word for word in words.left if word in ("row", "col")]
    words.left = [word for word in words.left if word not in ("row", "col")]
    satfinite = words.has("satfinite")
    rounding = words.one_of(MODES)
    d_type, a_type, b_type, c_type = (words.left.pop(0) if words.left else "" for _ in range(4))
    shape = (int(found[1]), int(found[2]), int(found[3]))
    if shape == QUAD_PAIR_SHAPE and a_type == "f16" and not sparse:
        return _quad_pairs(i, c, words, operands, layouts, (d_type, b_type, c_type), plain=not (satfinite or rounding))
    if layouts != ["row", "col"]:
        raise unmodelled(i, f"layouts .{'.'.join(layouts)}")
    if c_type != d_type:
        raise unmodelled(i, f"C of .{c_type} and D of .{d_type}")
    xor = False
    if a_type == "b1":
        xor = words.need("xor", "and") == "xor"
        words.need("popc")
    words.end()
    row = mma_sync_types(a_type, b_type, d_type, shape, sparse=sparse)
    if satfinite and not row.satfinite:
        raise InputError(f".satfinite: mma.sync with {a_type} has none")
    if rounding and a_type != "f64":
        raise InputError(f".{rounding}: mma.sync with {a_type} has no rounding")
    counts = register_counts(row, shape, d_type, sparse=sparse)
    kind = "b64" if row.bits == 64 else "b32"
    parts = [items(operands.next(name), count, name) for name, count in zip("DABC", (counts[2], *counts), strict=True)]
    writes = [c.write(x, kind) for x in parts[0]]
    reads = [[c.read(x, kind) for x in part] for part in parts[1:]]
    places = register_places(shape, row.bits, sparse=sparse)
    metadata, selector = None, 0
    if sparse:
        metadata = c.read(operands.next("metadata"), "b32")
        number = operands.next("a selector")
        if not isinstance(number, Immediate):
            raise unmodelled(i, "the sparsity selector is no immediate")
        selector = number.value
    operands.end()
    given: dict[str, Any] = {"shape": shape, "a_type": a_type, "b_type": b_type, "d_type": d_type, "satfinite": satfinite, "xor": xor,
                             "rounding": MODES[rounding or "rn"]}  # fmt: skip

    inferred = EVIDENCE if d_type != "s32" else {}

    def run(x: Wave) -> None:
        note_inferred(x, inferred)
        a, b, start = (_stacked(part, x) for part in reads)
        more: dict[str, Any] = (
            {} if metadata is None else {"metadata": np.broadcast_to(metadata(x), x.n).reshape(-1, WARP), "selector": selector}
        )
        d = mma_sync(a, b, start, **given, **more)
        if x.watch is not None and x.watch.unwritten.slots:
            _follow(x, parts, places)
        for n, write in enumerate(writes):
            write(x, d[n].reshape(-1))

    return Gate(lambda x: whole_warps(i, x, _SECTION), run)


def _follow(x: Wave, parts: Sequence[Sequence[Operand]], places: tuple[tuple[np.ndarray, np.ndarray], ...]) -> None:
    """The registers of D get the doubts of C, and row by row those of A, column by column those of B; `parts` are the registers of D, A, B and C."""
    unwritten, doubts, warps = x.watch.unwritten, x.watch.unwritten.doubts, x.n // WARP
    a, b, c = (unwritten.of_registers(part, x.threads) for part in parts[1:])
    row, column = places[2]
    found = np.zeros((len(row), WARP, warps), np.int32)
    for marks, (thread, register), at in ((a, places[0], row), (b, places[1], column)):
        if marks is not None:
            of_rows = doubts.all(marks.reshape(len(marks), warps, WARP)[register, :, thread], axis=1)
            found = doubts.join(found, of_rows[at])
    of_registers = doubts.all(found.transpose(0, 2, 1).reshape(len(parts[0]), -1, x.n), axis=1)
    unwritten.put_registers(parts[0], x.threads, of_registers if c is None else doubts.join(of_registers, c))


def note_inferred(x: Wave, evidence: Mapping[str, str]) -> None:
    """What is not measured on this architecture."""
    if x.launch.arch in evidence:
        x.launch.evidence.add(evidence[x.launch.arch])


def _quad_pairs(
    i: Instruction, c: Linker, words: Modifiers, operands: Operands, layouts: list[str], types: tuple[str, str, str], *, plain: bool
) -> Step:
    """m8n8k4 of f16: in a warp of quad pairs, with the layouts that are named, and C of f16 for D of f32 as well."""
    d_type, b_type, c_type = types
    words.end()
    if not plain or len(layouts) != 2 or b_type != "f16" or (d_type, c_type) not in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
        raise unmodelled(i, "these types or modifiers")
    counts = (quad_pair_registers(d_type), 2, 2, quad_pair_registers(c_type))
    parts = [items(operands.next(name), n, name) for name, n in zip("DABC", counts, strict=True)]
    writes = [c.write(x, "b32") for x in parts[0]]
    reads = [[c.read(x, "b32") for x in part] for part in parts[1:]]
    operands.end()

    def run(x: Wave) -> None:
        note_inferred(x, EVIDENCE)
        a, b, start = (_stacked(part, x) for part in reads)
        d = quad_pairs(a, b, start, a_layout=layouts[0], b_layout=layouts[1], d_type=d_type, c_type=c_type)
        if x.watch is not None and x.watch.unwritten.slots:
            marks = x.watch.unwritten.of_registers([item for part in parts[1:] for item in part], x.threads)
            of_warps = 0 if marks is None else [x.watch.unwritten.of_warps(list(marks), x.threads)] * len(parts[0])
            x.watch.unwritten.put_registers(parts[0], x.threads, of_warps)
        for n, write in enumerate(writes):
            write(x, d[n].reshape(-1))

    return Gate(lambda x: whole_warps(i, x, _SECTION), run)


def _stacked(reads: list[Read], x: Wave) -> np.ndarray:
    """Registers (registers, warps, 32)."""
    return np.stack([np.broadcast_to(read(x), x.n) for read in reads]).reshape(len(reads), -1, WARP)
