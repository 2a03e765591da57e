"""Accesses that end a kernel: outside everything, or misaligned. Each is a finding with the line, the thread and what
lies nearest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import HardwareTrap
from smemsim.core.finding import Half, shortened
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.launches import LAUNCH_LIMITS, LOCAL_WINDOW, SHARED_WINDOW
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, LAUNCH_FAILURE, MISALIGNED_ADDRESS
from smemsim.run.engine.wave import OFFSET_MASK, RANK_SHIFT
from smemsim.run.lower.cfg import conditions
from smemsim.run.lower.dataflow import givers_of
from smemsim.run.lower.program import WORKSPACE, names_special
from smemsim.run.lower.waits import is_wait
from smemsim.run.warps import warp_name

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import Region
    from smemsim.run.engine.launch import Launch
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Program

__all__ = [
    "MAY_REACH",
    "MORE_SHARED",
    "OVERRUN",
    "SMALLER_FIELDS",
    "elsewhere",
    "find_misuse",
    "find_no_workspace",
    "find_outside",
    "find_uninitialised",
    "fix_of_stop",
    "foreign",
    "lacks_workspace",
    "misaligned",
    "miscount",
    "misuse",
    "no_rank",
    "outside",
    "reserved",
    "shared_error",
    "thread_name",
    "warp_name",
]


# the two fixes of an operand that reaches past the shared window: what a descriptor should have, or the launch
SMALLER_FIELDS = "a smaller start, LBO or SBO"
MORE_SHARED = "; or if the descriptor is right: that many more bytes of shared memory for the launch (shared_bytes)"

FAR = 1 << 20  # bytes from an array; further away, and further than its size, an address is meant for another one
ELEMENTS = (1, 2, 4, 8, 16)  # bytes of an element that an index counts
NULL_PAGE = 4096  # addresses below it are a null pointer and an offset


def thread_name(x: Wave, thread: int) -> str:
    """A thread as a kernel author knows it."""
    bx, by, _ = x.launch.block
    tid = int(x.tid[thread])
    cta = x.ctas[int(x.cta_of[thread])]
    return f"thread ({tid % bx}, {tid // bx % by}, {tid // (bx * by)}) of CTA ({', '.join(map(str, cta.ctaid))})"


def _first(x: Wave, part: np.ndarray | None, bad: np.ndarray) -> tuple[int, int]:
    n = int(np.flatnonzero(bad)[0])
    at = n if part is None else int(part[n])
    return n, int(x.threads[at])


def outside(x: Wave, i: Instruction, space: str, at: np.ndarray, part: np.ndarray | None, bad: np.ndarray, size: int) -> NoReturn:
    """Threads whose bytes lie outside: X001, and the kernel ends."""
    n, _ = _first(x, part, bad)
    error = shared_error(x, int(at[n])) if space == "shared" else ILLEGAL_ADDRESS
    raise HardwareTrap(find_outside(x, i, space, at, part, bad, size), cuda_error=error)


def shared_error(x: Wave, address: int) -> int:
    """The CUDA error of an access to a `.shared` address outside the window, by the rank in its bits 31:24 (measured
    on an H200).

    Without a cluster any rank but 0 is an illegal instruction, as is one from 16 on. In a cluster a rank that it has
    not is a launch failure.
    """
    rank = (address & 0xFFFFFFFF) >> RANK_SHIFT
    if rank and (not x.launch.is_clustered or rank >= LAUNCH_LIMITS.cluster):
        return ILLEGAL_INSTRUCTION
    return LAUNCH_FAILURE if rank >= x.launch.cluster_size else ILLEGAL_ADDRESS


def no_rank(x: Wave, rank: int) -> str:
    """What bits 31:24 of a shared address do, of a rank that the cluster does not have."""
    size = x.launch.cluster_size
    return f"name rank {rank}; the cluster has {size} CTA{'s' * (size > 1)}"


OVERRUN, RESERVED = "overrun", "reserved"  # kinds of X001 after which the kernel goes on
MAY_REACH = "a GPU faults only if no memory is mapped there; otherwise the access reaches another allocation"


def find_outside(
    x: Wave, i: Instruction, space: str, at: np.ndarray, part: np.ndarray | None, bad: np.ndarray, size: int, *, kind: str = ""
) -> str:  # fmt: skip
    """X001 of threads whose bytes lie outside; what it says. An instruction may have a finding of each `kind`: OVERRUN
    if the kernel goes on.
    """
    n, thread = _first(x, part, bad)
    address = int(at[n]) & ((1 << 64) - 1) if space == "global" else int(at[n])
    count, ctas = int(bad.sum()), len(distinct(x.cta_of[x.threads if part is None else x.threads[part]][bad]))
    more = f" (and {count - 1} more thread{'s' * (count > 2)}{f', in {ctas} CTAs' * (ctas > 1)})" if count > 1 else ""
    where, repair = _ABOUT[space](x, address, size)
    message = f"{i.name} of {thread_name(x, thread)}{more} touches {size} bytes at {space} address {address:#x}: {where}"
    near = _near(x, address) if space == "global" else None
    what = f"{size} byte{'s' * (size > 1)} at {space} address {address:#x} {'are' if size > 1 else 'is'} out of bounds: {where}"
    who = Half("access", f"{thread_name(x, thread)}{more} ({i.name})", i)
    why = (
        f"the access traps: CUDA error {shared_error(x, address)}"
        if space == "shared"
        else ""
        if space != "global" or (near is not None and near.chunks is not None)
        else f"a GPU faults (CUDA error {ILLEGAL_ADDRESS}), unless other memory is mapped there"
        if near is None
        else MAY_REACH
    )
    arrays = () if near is None else (near.begin,)
    x.launch.find("X001", i, what, repair, arrays=arrays, halves=(who,), why=why, operation=kind, kind=kind)
    return message


def misaligned(x: Wave, i: Instruction, space: str, at: np.ndarray, part: np.ndarray | None, align: int) -> NoReturn:
    """Threads whose address is no multiple of what the access needs: X002, and the kernel ends."""
    n, thread = _first(x, part, at & (align - 1) != 0)
    address = int(at[n]) & ((1 << 64) - 1)
    message = (
        f"{i.name} of {thread_name(x, thread)}: {space} address {address:#x} is not a multiple of the {align} bytes that the access needs"
    )
    repair = f"align the array and its offsets to {align} bytes, or use narrower accesses"
    who = Half("access", f"{thread_name(x, thread)} ({i.name})", i)
    x.launch.find(
        "X002", i, f"{space} address {address:#x} is not a multiple of the {align} bytes that the access needs", repair, halves=(who,),
        why=f"the access traps: CUDA error {MISALIGNED_ADDRESS}",
    )  # fmt: skip
    raise HardwareTrap(f"{message}", cuda_error=MISALIGNED_ADDRESS)


def misuse(x: Wave, i: Instruction, message: str, repair: str = "") -> NoReturn:
    """A barrier is used as no barrier can be: X010, and the kernel ends. PTX leaves undefined what
    hardware does then.
    """
    find_misuse(x, i, message, repair)
    raise HardwareTrap(f"{i.name}: {message}; PTX leaves undefined what happens then", cuda_error=ILLEGAL_INSTRUCTION)


def miscount(x: Wave, i: Instruction, message: str, repair: str = "") -> NoReturn:
    """An mbarrier counts further than it can: X010, and the kernel ends with a launch failure (measured on an H200)."""
    find_misuse(x, i, message, repair)
    raise HardwareTrap(f"{i.name}: {message}", cuda_error=LAUNCH_FAILURE)


def find_uninitialised(x: Wave, i: Instruction) -> None:
    """R507 of a matrix instruction or a copy that reads shared memory, if no sanitizer follows the values."""
    x.launch.find(
        "R507", i, "uninitialised bytes of shared memory are read",
        "issue the load that fills these bytes before; or correct the address or the descriptor, if other bytes should be read", halves=(Half("read", i.name, i),),
    )  # fmt: skip


def find_misuse(x: Wave, i: Instruction, message: str, repair: str = "") -> None:
    """X010 where hardware goes on all the same."""
    x.launch.find(
        "X010", i, message, repair, why="the effect is undefined", because="PTX ISA 9.1 §9.7.13", halves=(Half("use", i.name, i),)
    )


def reserved(x: Wave, i: Instruction, at: np.ndarray, part: np.ndarray | None, bad: np.ndarray) -> None:
    """Shared addresses before the window, which the system reserves: X001, but a card goes on."""
    n, thread = _first(x, part, bad)
    what = f"shared address {int(at[n]):#x} is reserved for the system: the memory of the CTA begins at {x.window_begin:#x}"
    x.launch.find(
        "X001", i, what, "look for a null pointer, or a negative index", because="measured on an H200, trace reserved_shared",
        why="a card accesses it without an error", halves=(Half("access", f"{thread_name(x, thread)} ({i.name})", i),),
        operation=RESERVED, kind=RESERVED,
    )  # fmt: skip


def elsewhere(x: Wave, i: Instruction, at: np.ndarray, part: np.ndarray | None, bad: np.ndarray) -> NoReturn:
    """64-bit addresses of another state space as a `.shared` one: X001, and the kernel ends. A card goes on with the
    low 32 bits, at other bytes.
    """
    n, thread = _first(x, part, bad)
    address = int(at[n])
    if address >> 32 == LOCAL_WINDOW >> 32:
        where = "the thread's local memory"
    else:
        region = x.launch.memory.find(address)
        where = region_name(x.launch, region.begin, region.end)
    message = (
        f"{i.name} of {thread_name(x, thread)} takes a .shared address, and {address:#x} is the generic address of a byte of {where}: it lies in another "
        f"state space; a card drops bits 63:32 and accesses shared address {address & 0xFFFFFFFF:#x}"
    )
    x.launch.find(
        "X001", i, f"{address:#x}, a generic address in {where}, is used as a .shared address",
        "pass the address of a .shared variable, or drop .shared", because="PTX ISA 9.1 §6.4.1",
        why=f"a card drops bits 63:32 and accesses shared address {address & 0xFFFFFFFF:#x}", halves=(Half("access", f"{thread_name(x, thread)} ({i.name})", i),),
    )  # fmt: skip
    raise HardwareTrap(message, cuda_error=ILLEGAL_ADDRESS)


def foreign(x: Wave, i: Instruction, address: int, thread: int) -> NoReturn:
    """A `.shared::cta` address of a thread in the window of another CTA of the cluster: the kernel ends."""
    message = f"{i.name}: shared address {address:#x} lies in another CTA's window, which only .shared::cluster and generic addresses reach"
    x.launch.find(
        "X001", i, f"shared address {address:#x} is in the window of rank {address >> RANK_SHIFT} of the cluster, not of the own CTA",
        "take the address of the shared variable itself (mov, cvta.to.shared), or use ld or st with .shared::cluster",
        because="measured on an H200, trace reserved_shared", halves=(Half("access", f"{thread_name(x, thread)} ({i.name})", i),),
        why=f"bits 31:24 of a .shared address are the rank of the CTA; {i.name} reaches the own CTA only",
    )  # fmt: skip
    raise HardwareTrap(message, cuda_error=ILLEGAL_INSTRUCTION)


def _near(x: Wave, address: int) -> Region | None:
    """The array that an address was perhaps meant for: the nearest, unless it is further away than FAR and than its
    own size.
    """
    near = x.launch.memory.nearest(address)
    if near is None or max(near.begin - address, address - near.end) > max(FAR, near.end - near.begin):
        return None
    return near


def _far_from(away: Region, address: int, size: int) -> str:
    """The distance of an address from the nearest array, if a reader can do something with it."""
    below = (1 << 64) - address
    if below <= FAR:
        return f"the address is {-below} as a signed number"
    distance = max(away.begin - address, address + size - away.end)
    return "no array is near" + (f": the nearest one is {distance:,} bytes away" if distance < 1 << 40 else "")


def _about_global(x: Wave, address: int, size: int) -> tuple[str, str]:
    if address < NULL_PAGE:
        return f"a null pointer and an offset of {address}", "pass an array for the pointer"
    if (overflowed := _overflowed(x, address, size)) is not None:
        return overflowed
    near = _near(x, address)
    if near is None:
        away = x.launch.memory.nearest(address)
        if away is None:
            return "there is no array at all", ""
        passed = x.launch.parameter_of(address, address + 1)
        if passed is not None:
            name = f"arg{passed[0]} ({x.launch.kernel.parameter_name(passed[0])})"
            return f"{_far_from(away, address, size)}, the value of {name}", f"pass the address of an array as {name}"
        return (
            _far_from(away, address, size),
            "check the pointer: a host pointer, one that was never set, freed memory, or an offset that overflowed",
        )
    if near.chunks is not None:
        return _about_heap(x, address, size)
    begin, end = near.begin, near.end
    name = region_name(x.launch, begin, end)
    if address < begin:
        place = f"{begin - address} bytes before {name}"
    elif address >= end:
        place = f"right after {name}" if address == end else f"{address - end} bytes past the end of {name}"
    else:
        place = f"{address + size - end} of them past the end of {name}"
    return f"{place}, {end - begin} bytes at {begin:#x}", "guard the access, or make the array large enough"


def _overflowed(x: Wave, address: int, size: int) -> tuple[str, str] | None:
    """An address that a signed 32-bit index with an overflow gives: 2^32 elements below an element of an array."""
    for element in ELEMENTS:
        meant = address + (element << 32)
        array = x.launch.memory.holding(meant, meant + size)
        if array is not None and array.chunks is None and address < array.begin and meant - array.begin >= element << 31:
            index = (meant - array.begin) // element
            name = region_name(x.launch, array.begin, array.end)
            unit = "bytes" if element == 1 else f"elements of {element} bytes"
            wide = ".to(tl.int64) on" if x.launch.kernel.counts_elements else "(size_t) before"
            return (
                f"a 32-bit index overflowed, {index} became {index - (1 << 32)}: the address is 2^32 {unit} before element {index} "
                f"of {name}, {array.end - array.begin} bytes at {array.begin:#x}",
                f"compute the index in 64 bits: {wide} a factor of the product that overflows",
            )
    return None


def _about_heap(x: Wave, address: int, size: int) -> tuple[str, str]:
    """An address in the kernels' heap that is in no allocation."""
    chunk = x.launch.memory.heap.near(address)
    if chunk is None:
        return "before all allocations of the kernels' heap", "check the index"
    if chunk.freed and address < chunk.end:
        return f"inside {chunk}, which line {chunk.freed} of {chunk.freed_by} has freed", "free it after its last use"
    place = (
        f"{address + size - chunk.end} of them past the end of" if address < chunk.end else f"{address - chunk.end} bytes past the end of"
    )
    return f"{place} {chunk}", "guard the access, or allocate more"


def region_name(launch: Launch, begin: int, end: int) -> str:
    """The program's name of an array in global memory: a variable, or the parameter that points there."""
    return launch.array_name(begin, end) or "an array"


def _about_shared(x: Wave, address: int, size: int) -> tuple[str, str]:
    rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
    end = x.window_begin + x.memories.window
    if address < 0:
        return f"a negative address; the CTA's window is {x.window_begin:#x} to {end - 1:#x}", "check the index"
    if address >> 32:
        return (
            f"bits 63:32 are {address >> 32:#x}; generic addresses of shared memory have {SHARED_WINDOW >> 32:#x} there",
            "give an address of shared memory: of a .shared variable, or a generic one that cvta.shared made",
        )
    if rank >= x.launch.cluster_size:
        return f"bits 31:24 {no_rank(x, rank)}", "give mapa a rank of the cluster"
    past = (
        "right after"
        if offset == end
        else f"{offset - end} bytes past"
        if offset > end
        else f"the last {offset + size - end} bytes are past"
    )
    last = x.program.places.shared_at(end - 1)
    name = "" if last is None else last.name
    named = f"; the last array is {name}" if name else ""
    larger = f"make {name} larger" if name else "launch with more dynamic shared memory (--shared, shared_bytes)"
    return (
        f"{past} the end of the CTA's shared memory ({x.window_begin:#x} to {end - 1:#x}{named})",
        f"check the index, or {larger}",
    )


def _about_local(x: Wave, address: int, size: int) -> tuple[str, str]:
    return f"the thread's local memory has {x.memories.local.shape[1]} bytes", "check the index"


_ABOUT: dict[str, Any] = {"global": _about_global, "shared": _about_shared, "local": _about_local}


MOST_CONDITIONS = 2  # branches to a trap that are named


def lacks_workspace(launch: Launch, i: Instruction) -> bool:
    """Does grid.sync() execute this `trap`, as the launch is not cooperative?"""
    return i.op == "trap" and not launch.config.cooperative and launch.program.names_workspace and _asks_workspace(launch.program, i)


def find_no_workspace(launch: Launch, i: Instruction, reason: str) -> None:
    """X013 of `lacks_workspace`. The thread's part is `reason`."""
    launch.find(
        "X013", i, "the kernel calls grid.sync(), but the launch is not cooperative",
        "launch the kernel with cudaLaunchCooperativeKernel (smemsim run: --cooperative; Gpu.launch: cooperative=True)",
        halves=(Half("trap", reason, i),),
        why=f"%envreg1 and %envreg2 are 0 then, and the kernel executes trap: it ends with CUDA error {LAUNCH_FAILURE}",
    )  # fmt: skip


def _asks_workspace(program: Program, i: Instruction) -> bool:
    """Does a condition that leads to an instruction depend on the address of the grid's workspace?"""
    givers, seen = givers_of(program), set()
    pending = [branch.guard.slot for branch in conditions(program, i) if branch.guard is not None]
    while pending:
        slot = pending.pop()
        if slot in seen:
            continue
        seen.add(slot)
        for giver in givers.get(slot, ()):
            if names_special(giver, *WORKSPACE):
                return True
            pending += giver.used
    return False


def fix_of_stop(program: Program, i: Instruction) -> str:
    """The fix for a kernel that stops itself at an instruction: the comparison and the branch that lead there."""
    named, first = [], "correct the condition that leads here, or its data:"
    found = conditions(program, i)
    for branch, guards in list(found.items())[:MOST_CONDITIONS]:
        assert branch.guard is not None
        tests = [test for test in givers_of(program).get(branch.guard.slot, ()) if test.line <= branch.line]
        sets = f"; {tests[-1].at} sets {branch.guard.name} ({shortened(tests[-1].text)})" if tests else ""
        values = {holds != branch.guard.negated for holds in guards}
        does = f"depends on {branch.guard.name}" if len(values) > 1 else f"leads here if {branch.guard.name} is {str(*values).lower()}"
        named.append(f"{branch.at} ({shortened(branch.text)}) {does}{sets}")
        if len(found) == len(values) == 1 and tests and is_wait(tests[-1]):
            first = _AFTER_WAIT[values.pop()]
    return f"{first} {'; '.join(named)}" if named else ""


# How to keep threads from a trap, by what the wait at an mbarrier that leads there has returned.
_AFTER_WAIT = {
    True: "leave the trap out, or branch around it: each thread that passes the wait comes here;",
    False: "find out why the phase of the mbarrier is not complete (check its arrivals and its expected bytes):",
}
