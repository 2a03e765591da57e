"""cp.async without bulk: 4, 8 or 16 bytes a thread from global to shared memory (PTX ISA 9.1 §9.7.9.25.3)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.ptx.module import Immediate, Instruction, Register
from smemsim.run.accesses import Piece, Values, for_part
from smemsim.run.engine.in_flight import defer
from smemsim.run.events import Access
from smemsim.run.isa.barriers.mbarrier import Mbarrier, arrive, mbarrier_of
from smemsim.run.isa.barriers.mbarrier_operations import barriers
from smemsim.run.isa.memory.load_store import gathered, merged, own_values, scattered
from smemsim.run.isa.memory.spaces import Locate, in_windows_or_below, locate, note_read, own
from smemsim.run.isa.registry import Step, implements, unmodelled
from smemsim.run.origins import followed_copy

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.lower.program import Linker


_WORD = np.dtype(np.uint32)
GROUP = "cp.async"  # its name in the sanitizer


@implements("cp.async")
def build_cp_async(i: Instruction, c: Linker) -> Step:
    """`cp.async.ca|cg.shared.global [dst], [src], size {, source size | ignore source} {, policy}`: what the source
    lacks is zero.
    """
    rest = [m for m in i.modifiers[1:] if not m.startswith("L2::")]
    if len(rest) != 3 or rest[0] not in ("ca", "cg") or rest[1] not in ("shared", "shared::cta") or rest[2] != "global":
        raise unmodelled(i)
    operands = list(i.operands)
    if "L2::cache_hint" in i.modifiers:
        operands.pop()
    count = operands[2] if len(operands) in (3, 4) else None
    if not isinstance(count, Immediate) or count.value not in ((16,) if rest[0] == "cg" else (4, 8, 16)):
        raise InputError("takes two addresses, a size (16, with .ca also 4 and 8), and maybe a source size or a predicate")
    size = count.value
    to = locate(i, c, operands[0], rest[1], size)
    sources: dict[int, Locate] = {size: locate(i, c, operands[1], "global", size)}
    amount = _amount(c, operands[3], size) if len(operands) == 4 else None
    follow = followed_copy(i, c, operands[1], size, amount)

    def take(x: Wave, piece: Piece) -> None:
        if amount is None:
            values = _words(x, i, sources[size](x), size)
        else:
            sizes = amount(x)
            if sizes.max() > size:
                raise Unmodelled(
                    f"{i.name}: a source size of {int(sizes.max())} bytes for a copy of {size}: undefined in PTX",
                    line=i.line,
                )
            values = [np.zeros(x.n, _WORD) for _ in range(size // 4)]
            kept, threads = x.sel, x.threads
            for wanted in distinct(sizes[sizes > 0]).tolist():
                part = np.flatnonzero(sizes == wanted)
                if wanted not in sources:
                    sources[wanted] = locate(i, c, operands[1], "global", wanted, size)
                x.select(threads[part])
                try:
                    pieces = sources[wanted](x)
                    loaded = _words(x, i, pieces, size) if wanted == size else _bytes(x, i, pieces, wanted, size)
                finally:
                    x.select(kept)
                for whole, some in zip(values, loaded, strict=True):
                    whole[part] = some
        follow.begins(x, piece)
        _put(x, i, piece, size, values)
        follow.ends(x, piece)

    def copy(x: Wave) -> None:
        for piece in in_windows_or_below(x, i, to):
            for_part(x, piece, functools.partial(take, x, piece._replace(part=None)))

    return copy


def _put(x: Wave, i: Instruction, piece: Piece, size: int, values: list[Any]) -> None:
    """The threads' values go to shared memory: now, or when they complete."""
    back = None if x.in_flight is None else _taken_back(x, piece, size)
    written = Values(piece, size, lambda: own_values(piece, _WORD, values)) if x.events.accessed else None
    scattered(piece, _WORD, values)
    own(x, piece, size)
    for tell in filter(None, (x.events.accessed, x.events.copied)):
        tell(x, Access(x, i, "copy", piece, size, values=written))
    if back is not None:
        back()


def _taken_back(x: Wave, piece: Piece, size: int) -> Callable[[], None]:
    """Called before a copy: returns what to call after it, so that its bytes are there only when it completes."""
    words: np.ndarray = ((piece.at[:, None] >> 2) + np.arange(size // 4)).reshape(-1)
    view, threads = piece.memory.view(np.uint32), x.threads.copy()
    followed = words if piece.space == "shared" else None  # of x.shared; the rest is the system's part
    if followed is not None:
        x.in_flight.clears(x, followed)
    before = view[words].copy()

    def take() -> None:
        new = view[words].copy()
        view[words] = before
        defer(x, lambda: view.__setitem__(words, new), stream=GROUP, kind=GROUP, threads=threads, words=followed)

    return take


def _amount(c: Linker, operand: Any, size: int) -> Callable[[Wave], np.ndarray]:
    """How many bytes of the source each thread reads."""
    if isinstance(operand, Register) and operand.type == "pred":
        ignored = c.read(operand, "pred")
        return lambda x: np.where(ignored(x), 0, size)
    read = c.read(operand, "u32")
    return lambda x: np.broadcast_to(read(x), (x.n,)).astype(np.int64)


def _words(x: Wave, i: Instruction, pieces: list[Piece], size: int) -> list[Any]:
    for piece in pieces:
        note_read(x, i, piece, size)
    return gathered(pieces[0], _WORD, size // 4) if len(pieces) == 1 else merged(x, pieces, _WORD, size // 4)


def _bytes(x: Wave, i: Instruction, pieces: list[Piece], count: int, size: int) -> list[Any]:
    """The first `count` bytes of each source, zeros after them, as words."""
    out = np.zeros((x.n, size), np.uint8)
    for piece in pieces:
        note_read(x, i, piece, count)
        part = slice(None) if piece.part is None else piece.part
        out[part, :count] = piece.memory.view(np.uint8)[piece.at[:, None] + np.arange(count)]
    return list(out.view(_WORD).T)


@implements("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
def build_groups(i: Instruction, c: Linker) -> Step:
    """`cp.async.commit_group`, `.wait_group`, `.wait_all`: copies complete when they are issued; these are events for
    the sanitizer.
    """
    if len(i.modifiers) != 2:
        raise unmodelled(i)
    if i.modifiers[1] == "commit_group":
        return lambda x: _commit(x, i)
    if i.modifiers[1] == "wait_group":
        left = i.operands[0]
        if not isinstance(left, Immediate):
            raise InputError("takes a number")
        count = left.value
        return lambda x: _wait(x, i, count)

    def wait_all(x: Wave) -> None:
        _commit(x, i)
        _wait(x, i, 0)

    return wait_all


def _commit(x: Wave, i: Instruction) -> None:
    if x.in_flight is not None:
        x.in_flight.commit(x, GROUP)
    if x.events.group_committed:
        x.events.group_committed(x, i, GROUP)


def _wait(x: Wave, i: Instruction, left: int) -> None:
    if x.in_flight is not None:
        x.in_flight.wait(x, GROUP, left)
    if x.events.group_waited:
        x.events.group_waited(x, i, GROUP, left)


@implements("cp.async.mbarrier.arrive")
def build_arrive(i: Instruction, c: Linker) -> Step:
    """Arrives once the thread's copies are complete, which they are, unless they complete late; without .noinc one
    arrival more is expected for that.
    """
    rest = [m for m in i.modifiers[3:] if m not in ("shared", "shared::cta", "b64", "noinc")]
    if rest or i.modifiers[-1] != "b64":
        raise unmodelled(i)
    counts = "noinc" in i.modifiers
    space = next((m for m in i.modifiers if m.startswith("shared")), None)
    find = locate(i, c, i.operands[0], space, 8, only_shared=True)

    def run(x: Wave) -> None:
        threads = x.threads
        each = [(cta, offset, part, mbarrier_of(x, cta, offset, i)) for cta, offset, part in barriers(x, i, find)]
        if x.events.mbarriers_used:
            x.events.mbarriers_used(x, i, [(threads[part], barrier) for *_, part, barrier in each])
        for cta, offset, part, barrier in each:
            if x.events.copies_counted:
                x.events.copies_counted(x, i, barrier, threads[part])
            if counts:
                defer(x, functools.partial(_arrives, x, i, cta, offset, threads[part]), stream=GROUP)
                continue
            barrier.state.adds_own(i)
            if x.in_flight is not None:
                barrier.alone().adds(x, len(threads[part]))
                defer(x, functools.partial(_come, x, i, barrier, threads[part]), stream=GROUP)

    return run


def _come(x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
    """Arrivals that were added have come."""
    barrier.alone().completes_own(x, threads, i)


def _arrives(x: Wave, i: Instruction, cta: Cta, offset: int, threads: np.ndarray) -> None:
    arrive(x, [(mbarrier_of(x, cta, offset, i).alone(), threads)], i=i)
