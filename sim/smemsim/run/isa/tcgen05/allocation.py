"""tcgen05.alloc and dealloc, and what all tcgen05 instructions share.

Every CTA has an SM's 512 columns to itself here; on hardware the CTAs of one SM share them, and wait for each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.base.masks import all_set
from smemsim.core.finding import Half
from smemsim.core.machine.tcgen05 import BrokenRule
from smemsim.core.machine.tmem.memory import AllocationError, TensorMemory
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tensor_memory import ALLOCATION, COLUMNS, LANES
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION
from smemsim.run.engine.traps import MORE_SHARED, SMALLER_FIELDS
from smemsim.run.engine.wave import EXITED, WARP
from smemsim.run.isa.asynchronous import stop
from smemsim.run.isa.memory.spaces import locate, own
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import ON_EXIT, Gate, Step, implements
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wait, Wave
    from smemsim.run.lower.program import Linker

__all__ = ["cells_at", "cta_group", "given_back", "group_of", "refusals", "tensor_of", "warps_of"]


# ---- What the tcgen05 instructions have in common: their CTA group, whose memories they work on, and what
# becomes of what the model refuses


def cta_group(words: Modifiers) -> int:
    """1 or 2, of `.cta_group::1` and `.cta_group::2`."""
    return int(words.need("cta_group::1", "cta_group::2")[-1])


def tensor_of(cta: Cta) -> TensorMemory:
    """The tensor memory of a CTA."""
    if cta.tensor is None:
        raise InputError("there is no tensor memory")
    return cta.tensor


def cells_at(cta: np.ndarray | int, lane: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The places of cells among those of all CTAs of a wave, which are named by their index."""
    found: np.ndarray = (cta * LANES + lane) * COLUMNS + column
    return found


def group_of(x: Wave, i: Instruction, cta: Cta, group: int) -> tuple[Cta, ...]:
    """The CTAs an instruction works on: the own one, or the even one of the pair and its peer. X015 where there is no
    peer.
    """
    if group == 1:
        return (cta,)
    if x.launch.cluster_size % 2:
        message = f".cta_group::2 needs a pair of CTAs; CTA {cta.number} has no peer in its cluster of {x.launch.cluster_size}"
        stop(x, i, "X015", message, "launch with clusters of an even number of CTAs", ILLEGAL_INSTRUCTION)
    first = cta.index - cta.rank % 2
    return x.ctas[first], x.ctas[first + 1]


@contextlib.contextmanager
def refusals(x: Wave, i: Instruction) -> Iterator[None]:
    """Give what the machine refuses a finding at the instruction, and end the kernel there; Unmodelled
    gets the line.
    """
    try:
        yield
    except HardwareTrap as trap:
        if not any(f.site == i.site for f in x.launch.result.findings.values()):
            code = "A107" if trap.cuda_error == ILLEGAL_ADDRESS else "X015"
            repair = f"{SMALLER_FIELDS} (or M or N of the instruction descriptor){MORE_SHARED}" if code == "A107" else ""
            x.launch.find(code, i, trap.reason, repair, why=f"{i.name} traps: CUDA error {trap.cuda_error}")
        raise
    except BrokenRule as rule:
        found = rule.finding
        x.launch.find(found.code, i, f"{i.name}: {found.message}", found.repair, because=found.because)
        raise HardwareTrap(str(rule), cuda_error=ILLEGAL_INSTRUCTION) from None
    except AllocationError as problem:
        stop(x, i, "X009", f"{i.name}: {problem}", problem.repair, ILLEGAL_INSTRUCTION)
    except InputError as problem:
        stop(x, i, "X015", f"{i.name}: {problem}", "", ILLEGAL_INSTRUCTION)
    except Unmodelled as problem:
        if problem.line:
            raise
        raise Unmodelled(f"{i.name}: {problem}", line=i.line) from None


# ---- `tcgen05.alloc`, `.dealloc` and `.relinquish_alloc_permit` (PTX ISA 9.1 §9.7.16.7.1): columns of tensor memory,
# which a warp may have to wait for


@dataclasses.dataclass(eq=False)
class _Columns:
    """The owners of the columns of a CTA's tensor memory, and the warps that wait for some."""

    # by warp, the address that its tcgen05.alloc is about to get
    granted: dict[int, int] = dataclasses.field(default_factory=dict)
    asking: dict[int, tuple[int, int]] = dataclasses.field(
        default_factory=dict
    )  # of a pair, by the CTA's place in it: the warp, and how many columns
    waiting: list[Wait] = dataclasses.field(default_factory=list)  # for columns
    held: dict[int, Instruction] = dataclasses.field(default_factory=dict)  # by address, what allocated there
    returned: dict[int, tuple[Instruction, int]] = dataclasses.field(
        default_factory=dict
    )  # by column: what deallocated it last, and the warp


_COLUMNS: Slot[_Columns] = Slot(lambda cta: _Columns())


def given_back(cta: Cta, column: int) -> tuple[Instruction, int] | None:
    """The last deallocation of a column: the instruction and the warp of the wave; None without one."""
    return _COLUMNS(cta).returned.get(column)


def warps_of(x: Wave) -> Iterator[tuple[Cta, int, np.ndarray]]:
    """The warps that run: (CTA, number in the wave, places of their threads among those that run)."""
    warps = x.threads // WARP
    for warp in distinct(warps).tolist():
        yield x.ctas[int(x.cta_of[warp * WARP])], warp, np.flatnonzero(warps == warp)


@implements("tcgen05.alloc")
def build_alloc(i: Instruction, c: Linker) -> Step:
    """`tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], columns`."""
    words, operands = Modifiers(i, "alloc", "sync", "aligned", "b32"), Operands(i)
    group = cta_group(words)
    space = "shared::cta" if words.has("shared::cta") else None
    words.end()
    place = locate(i, c, operands.next("an address in shared memory"), space, 4, only_shared=True)
    count = c.read(operands.next("a number of columns"), "u32")
    operands.end()

    def opens(x: Wave) -> bool:
        if not x.gather():
            return False
        counts = np.broadcast_to(count(x), x.n)
        go = [part for cta, warp, part in list(warps_of(x)) if _grant(x, i, cta, warp, int(counts[part[0]]), group)]
        if not go:
            return False
        x.select(x.threads[np.sort(np.concatenate(go))])
        return True

    def run(x: Wave) -> None:
        granted = np.zeros(x.n, np.uint32)
        for cta, warp, part in warps_of(x):
            granted[part] = _COLUMNS(cta).granted.pop(warp)
            if x.events.tensor_allocated:
                x.events.tensor_allocated(x, i, warp, cta, int(granted[part][0]) & 0xFFFF, group)
        for piece in place(x):
            if piece.space != "shared":
                stop(
                    x,
                    i,
                    "X001",
                    f"{i.name}: the address it writes to lies in {piece.space} memory",
                    "give one in shared memory",
                    ILLEGAL_INSTRUCTION,
                )
            x.shared.view(np.uint32)[piece.at >> 2] = granted if piece.part is None else granted[piece.part]
            own(x, piece, 4)
            if x.events.allocation_written:
                x.events.allocation_written(x, i, piece)

    return Gate(opens, run)


def _grant(x: Wave, i: Instruction, cta: Cta, warp: int, count: int, group: int) -> bool:
    """Give a warp its columns, or let it wait."""
    if warp in _COLUMNS(cta).granted:
        return True
    members = group_of(x, i, cta, group)
    threads = np.flatnonzero(x.pc[warp * WARP : (warp + 1) * WARP] == x.at) + warp * WARP
    asking = _COLUMNS(members[0]).asking
    if group == 2:
        asking[cta.rank % 2] = (warp, count)
        if len(asking) < 2:
            wait = x.park(
                threads, x.at, i, lambda: "tcgen05.alloc.cta_group::2 needs a warp of each CTA of the pair, and only one has come"
            )
            _COLUMNS(cta).waiting.append(wait)
            return False
        counts = {asked for _, asked in asking.values()}
        if len(counts) > 1:
            stop(
                x,
                i,
                "X009",
                f"the CTAs of the pair ask for {' and '.join(map(str, sorted(counts)))} columns",
                "the same number in both",
                ILLEGAL_INSTRUCTION,
            )
    with refusals(x, i):
        memories = [tensor_of(member) for member in members]
        for memory in memories:
            memory.check_allocation(count, cta_group=group)
        if any(memory.free(count) is None for memory in memories):
            held = ", ".join(f"{n} at column {column}" for column, n in sorted(memories[0].allocations.items()))
            wait = x.park(threads, x.at, i, lambda: f"{count} columns of tensor memory in a row; allocated are {held}")
            _COLUMNS(cta).waiting.append(wait)
            return False
        if before := memories[0].grows(count):
            x.launch.find(
                "X009", i, f"{count} columns of tensor memory are allocated after {before}",
                "allocate the largest one first", why="the PTX ISA allows no allocation larger than the one before; hardware does not check it", because=ALLOCATION.source, milder=Severity.NOTE,
            )  # fmt: skip
        for member, memory in zip(members, memories, strict=True):
            address = memory.alloc(count, cta_group=group).encode()
            _COLUMNS(member).held[address] = i
            whose = asking[member.rank % 2][0] if group == 2 else warp
            _COLUMNS(member).granted[whose] = address
            if member is not cta:
                wake(x, member)
    asking.clear()
    return True


def wake(x: Wave, cta: Cta) -> None:
    """Wake the warps that wait for columns of a CTA, to try again."""
    columns = _COLUMNS(cta)
    waits, columns.waiting = columns.waiting, []
    for wait in waits:
        x.wake(wait)


@implements("tcgen05.dealloc")
def build_dealloc(i: Instruction, c: Linker) -> Step:
    """`tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, columns`."""
    words, operands = Modifiers(i, "dealloc", "sync", "aligned", "b32"), Operands(i)
    group = cta_group(words)
    words.end()
    at, count = c.read(operands.next("an address"), "u32"), c.read(operands.next("a number of columns"), "u32")
    operands.end()

    def run(x: Wave) -> None:
        addresses, counts = (np.broadcast_to(read(x), x.n) for read in (at, count))
        given: list[tuple[int, int, int, int]] = []  # what is reported to the sanitizer
        try:
            free(x, addresses, counts, given)
        finally:
            tell(x, given)
        x.progress.changes += 1

    def tell(x: Wave, given: list[tuple[int, int, int, int]]) -> None:
        if x.events.tensor_freed and given:
            x.events.tensor_freed(x, i, given.copy(), group)
        given.clear()

    def free(x: Wave, addresses: np.ndarray, counts: np.ndarray, given: list[tuple[int, int, int, int]]) -> None:
        for cta, warp, part in list(warps_of(x)):
            address = int(addresses[part[0]])
            columns = range(address & 0xFFFF, (address & 0xFFFF) + int(counts[part[0]]))
            if _is_back(x, i, cta, columns):
                continue
            with refusals(x, i):
                cut = tensor_of(cta).dealloc(address & 0xFFFF, int(counts[part[0]]), cta_group=group)
            _COLUMNS(cta).returned.update(dict.fromkeys(columns, (i, warp)))
            if cut:
                tell(x, given)
                x.launch.find(
                    "X009", i, f"tcgen05.dealloc of {int(counts[part[0]])} columns at {address:#x} leaves {cut} columns of their allocation", "deallocate as many columns as tcgen05.alloc took",
                    why="no instruction can deallocate the rest; later CTAs on this SM can wait for them for ever",
                    because=f"{ALLOCATION.source}; ptxas 13.0 lets a deallocation begin only where an allocation does",
                )  # fmt: skip
            given.append((int(x.threads[part[0]]) // WARP, cta.index, columns.start, columns.stop))
            held = _COLUMNS(cta).held
            for begin in [begin for begin in held if begin & 0xFFFF not in tensor_of(cta).allocations]:
                del held[begin]
            for member in group_of(x, i, cta, group):
                wake(x, member)

    return Gate(lambda x: x.gather(), run)


def _is_back(x: Wave, i: Instruction, cta: Cta, columns: range) -> bool:
    """Was all that is given back given back before? CUTLASS 7107b05 examples/112_blackwell_ssd does so with each of
    four warps; nothing happens then.
    """
    by = given_back(cta, columns.start)
    if by is None or any(given_back(cta, column) is None for column in columns) or tensor_of(cta).has(columns):
        return False
    x.launch.find(
        "X009", i, f"{len(columns)} columns of tensor memory at {columns.start:#x} are deallocated twice", "tcgen05.dealloc by one warp, once",
        why="if another CTA on this SM has allocated them since, it loses them", halves=(Half("free", i.name, i), Half("free", by[0].name, by[0])), because=ALLOCATION.source, milder=Severity.LUCK,
    )  # fmt: skip
    return True


@implements("tcgen05.relinquish_alloc_permit")
def build_relinquish(i: Instruction, c: Linker) -> Step:
    """`tcgen05.relinquish_alloc_permit.cta_group.sync.aligned`."""
    words = Modifiers(i, "relinquish_alloc_permit", "sync", "aligned")
    group = cta_group(words)
    words.end()

    def run(x: Wave) -> None:
        for cta, _, _ in warps_of(x):
            with refusals(x, i):
                tensor_of(cta).relinquish_alloc_permit(cta_group=group)

    return Gate(lambda x: x.gather(), run)


def check_exit(x: Wave, threads: np.ndarray) -> None:
    """A finding where the last thread of a CTA exits and columns are still allocated."""
    if not len(x.tensor):
        return
    for number in distinct(x.cta_of[threads]).tolist():
        cta = x.ctas[number]
        held = _COLUMNS(cta).held
        if held and all_set(x.pc[cta.first : cta.first + x.stride] >= EXITED):
            for address, i in held.items():
                columns = tensor_of(cta).allocations.get(address & 0xFFFF, 0)
                x.launch.find(
                    "X009", i, f"{columns} columns of tensor memory at {address:#x} are not deallocated before CTA {cta.number} exits",
                    why="later CTAs on this SM can wait for them for ever", repair=
                    "tcgen05.dealloc by one warp (of each CTA of a pair) before the kernel ends", because="PTX ISA 9.1 §9.7.16.7.1",
                )  # fmt: skip


ON_EXIT.append(check_exit)
