"""`mma.sync` and `mma.sp.sync` (PTX ISA 9.7.14.5, 9.7.14.6): the warps of a wave multiply side by side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.errors import InputError
from smemsim.gpu.matrix.fragments import items, whole_warps
from smemsim.gpu.modifiers import Modifiers, Operands
from smemsim.gpu.registry import Gate, Step, implements, unmodelled
from smemsim.gpu.wave import WARP
from smemsim.machine.mma_sync import mma_sync, mma_sync_types, register_counts
from smemsim.ptx.module import Immediate, Instruction

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__: list[str] = []

STUDIES = "inferred from public studies of H100, H200 and B200 (Khattak and Mikaitis, MMA-Sim)"
EVIDENCE = {
    "sm_90a": f"mma.sync agrees with the H200 bit for bit on random numbers (trace launches); directed cases, as sums with tiny terms, are {STUDIES}",
    "sm_100a": f"the sums of mma.sync are {STUDIES}",
    "sm_103a": f"the sums of mma.sync are {STUDIES}",
}
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
    words.need("row")
    words.need("col")
    satfinite = words.has("satfinite")
    d_type, a_type, b_type, c_type = (words.left.pop(0) if words.left else "" for _ in range(4))
    if c_type != d_type:
        raise unmodelled(i, f"C of .{c_type} and D of .{d_type}")
    xor = False
    if a_type == "b1":
        xor = words.need("xor", "and") == "xor"
        words.need("popc")
    words.end()
    shape = (int(found[1]), int(found[2]), int(found[3]))
    row = mma_sync_types(a_type, b_type, d_type, shape, sparse=sparse)
    if satfinite and not row.satfinite:
        raise InputError(f".satfinite: mma.sync with {a_type} has none")
    counts = register_counts(row, shape, d_type, sparse=sparse)
    kind = "b64" if row.bits == 64 else "b32"
    writes = [c.write(x, kind) for x in items(operands.next("D"), counts[2], "D")]
    reads = [
        [c.read(x, kind) for x in items(operands.next(name), count, name)]
        for name, count in zip("ABC", (*counts[:2], counts[2]), strict=True)
    ]
    metadata, selector = None, 0
    if sparse:
        metadata = c.read(operands.next("metadata"), "b32")
        number = operands.next("a selector")
        if not isinstance(number, Immediate):
            raise unmodelled(i, "the sparsity selector is no immediate")
        selector = number.value
    operands.end()
    given: dict[str, Any] = {"shape": shape, "a_type": a_type, "b_type": b_type, "d_type": d_type, "satfinite": satfinite, "xor": xor}

    inferred = d_type != "s32"

    def run(x: Wave) -> None:
        if inferred:
            x.launch.evidence.add(EVIDENCE[x.launch.arch])
        a, b, start = (np.stack([np.broadcast_to(read(x), x.n) for read in part]).reshape(len(part), -1, WARP) for part in reads)
        more: dict[str, Any] = (
            {} if metadata is None else {"metadata": np.broadcast_to(metadata(x), x.n).reshape(-1, WARP), "selector": selector}
        )
        d = mma_sync(a, b, start, **given, **more)
        for n, write in enumerate(writes):
            write(x, d[n].reshape(-1))

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.7.14.5.14"), run)
