"""st.async and red.async: into the shared memory of another CTA of the cluster, counted by an mbarrier there (PTX ISA
9.1 §9.7.9.12, 9.7.13.7).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Instruction, Operand
from smemsim.core.spec.traps import ILLEGAL_INSTRUCTION
from smemsim.run.accesses import Piece
from smemsim.run.async_ops import AsyncOp, SharedWrite
from smemsim.run.engine.traps import find_misuse
from smemsim.run.events import Access
from smemsim.run.isa.asynchronous import issue, stop
from smemsim.run.isa.barriers.mbarrier import Delivery, mbarrier_of
from smemsim.run.isa.memory.atomics import Form, build_atomic, combine, form, raw_elements
from smemsim.run.isa.memory.load_store import build_st, items, scattered
from smemsim.run.isa.memory.ordering import SCOPES
from smemsim.run.isa.memory.spaces import Locate, locate, own, space_modifier
from smemsim.run.isa.registers import bits_of, dtype_of
from smemsim.run.isa.registry import Step, implements, unmodelled
from smemsim.run.origins import followed_store
from smemsim.run.word_ranges import WORD, WordRanges

if TYPE_CHECKING:
    from smemsim.run.checks import Taint
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker


WITHOUT = "a launch without clusters: st.async and red.async end it with CUDA error 715 (measured on an H200)"
_ARRIVES = "mbarrier::complete_tx::bytes"
_TYPES = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
_REDUCTIONS = {
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "add": ("u32", "s32", "u64"),
} | dict.fromkeys(("and", "or", "xor"), ("b32",))


@implements("st.async")
def build_st_async(i: Instruction, c: Linker) -> Step:
    """`st.async.shared::cluster.mbarrier::complete_tx::bytes{.v2|.v4}.type [a], b, [mbar]`;
    `st.async{.mmio}.release.scope.global`.
    """
    if "global" in i.modifiers:
        return build_st(_at_once(i, c), c)
    rest = [m for m in i.modifiers[1:] if m not in ("weak", *SCOPES)]
    space = space_modifier(rest)
    count = {"v2": 2, "v4": 4}.get(rest[1] if len(rest) == 3 else "", 1)
    if space != "shared::cluster" or rest[:1] != [_ARRIVES] or len(rest) != 2 + (count > 1) or rest[-1] not in _TYPES:
        raise unmodelled(i)
    kind = f"b{bits_of(rest[-1])}"
    size, dtype = count * bits_of(kind) // 8, dtype_of(kind)
    values = items(i.operands[1], count)
    reads = [c.read(item, kind) for item in values]
    return _counted(
        i,
        c,
        size,
        lambda x: np.stack([np.broadcast_to(read(x), x.n) for read in reads], axis=1),
        lambda piece, stored: scattered(piece, dtype, list(stored.T)),
        values,
    )


@implements("red.async")
def build_red_async(i: Instruction, c: Linker) -> Step:
    """`red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.op.type [a], b, [mbar]`;
    `red.async{.mmio}.release.scope.global`.
    """
    if "global" in i.modifiers:
        return build_atomic(_at_once(i, c), c)
    if _ARRIVES not in i.modifiers:
        raise unmodelled(i)
    f: Form = form(i, c, [m for m in i.modifiers[1:] if m != _ARRIVES])
    if f.space != "shared::cluster" or f.kind not in _REDUCTIONS.get(f.op, ()):
        raise unmodelled(i)
    reads = [c.read(i.operands[1], f.raw)]

    return _counted(i, c, f.size, lambda x: raw_elements(x, reads, packed=False), lambda piece, new: combine(f, piece, None, new))


def _at_once(i: Instruction, c: Linker) -> Instruction:
    """The synchronous st or red with .release that stands for a form for global memory (sm_100 on): nothing can wait
    for its completion.
    """
    if "release" not in i.modifiers:
        raise unmodelled(i)
    return dataclasses.replace(i, modifiers=tuple(m for m in i.modifiers if m not in ("async", "mmio")))


def _counted(
    i: Instruction, c: Linker, size: int, take: Callable[[Wave], Any], put: Callable[[Piece, Any], object], values: Sequence[Operand] = ()
) -> Step:  # fmt: skip
    """A step that puts what it takes from registers into another CTA's window and counts its bytes at an mbarrier
    there; `values` are the registers that are stored.
    """
    if len(i.operands) != 3:
        raise InputError("takes an address, a value and an mbarrier")
    find: Locate = locate(i, c, i.operands[0], "shared::cluster", size)
    barrier_at: Locate = locate(i, c, i.operands[2], "shared::cluster", 8)
    follow = followed_store(i, c, values, size // max(1, len(values)))

    def run(x: Wave) -> None:
        if not x.launch.is_clustered:
            stop(
                x,
                i,
                "X010",
                WITHOUT,
                "launch with a cluster dimension, even of one CTA (__cluster_dims__, or the launch attribute)",
                ILLEGAL_INSTRUCTION,
            )
        (piece,), (place,) = find(x), barrier_at(x)
        cta, there = piece.at // x.pitch, place.at // x.pitch
        if (
            cta != there
            # measured on an H200: no error, and as of other copies the barrier at that offset in the data's CTA counts
        ).any():
            find_misuse(x, i, "the mbarrier lies in another CTA's window than the data", "mapa both to the same rank")
            place = place._replace(at=place.at + (cta - there) * x.pitch)
        follow.begins(x, piece)
        own(x, piece, size)
        follow.ends(x, piece)
        reduced = Access(x, i, "write", piece, size, is_strong=True) if i.op == "red" else None
        if reduced is not None and x.events.updates:
            x.events.updates(x, reduced)
        barriers = [(x.ctas[mbar // x.pitch], mbar % x.pitch + x.window_begin) for mbar in place.at.tolist()]
        taken = take(x)
        for n, (thread, at, (cta, address)) in enumerate(zip(x.threads.tolist(), piece.at.tolist(), barriers, strict=True)):
            issuer, begin = x.ctas[int(x.cta_of[thread])], at - cta.index * x.pitch
            by = Delivery(i, issuer.rank, cta.rank, begin + x.window_begin, size, (cta.rank,))
            mbarrier_of(x, cta, address, i).alone().sent(by)
            words = functools.partial(WordRanges.of, np.arange(begin, begin + size, WORD) // WORD)
            writes = [SharedWrite(cta, words, size, (cta, address))]
            brings = functools.partial(put, piece._replace(at=piece.at[n : n + 1]), taken[n : n + 1])
            issue(x, AsyncOp(f"{i.op}.async", i, [(issuer, thread)], writes, size=size, brings=brings, is_update=i.op == "red"))
        marks = None if x.taint is None else x.taint.of_registers(values, x.threads)
        for n, own_marks in enumerate(() if marks is None else marks):
            cast("Taint", x.taint).put_stored(piece.at + n * size // len(values), size // len(values), own_marks)
        if reduced is not None and x.events.reduced:
            x.events.reduced(x, reduced)

    return run
