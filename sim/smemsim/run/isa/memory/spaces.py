"""State spaces and addresses: the bytes that the addresses of an instruction name, and the windows of generic
addresses.

A generic address is in the shared window, in the local window, or is the address in global memory (PTX ISA 9.1 §5.1).
Here .const and kernel parameters are in global memory. The begins of the two windows are invented (`spec.launches`).
Their low 32 bits are 0 on hardware, too. A generic address is made by ptxas from a window's upper half and 32 bits. The
upper half is dropped to convert back. So instructions take a generic address of shared memory instead of a `.shared`
one. The rule for all of them is `shared_address`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine import loops
from smemsim.core.ptx.module import Address, Instruction, Operand, Register
from smemsim.core.spec.launches import LOCAL_WINDOW, RESERVED_OFFSETS, SHARED_WINDOW
from smemsim.run.accesses import AT_ONCE, WHOLE_MAP, Piece, Values
from smemsim.run.engine.traps import OVERRUN, elsewhere, find_outside, foreign, misaligned, outside, reserved
from smemsim.run.engine.wave import OFFSET_MASK, RANK_SHIFT, THREADS
from smemsim.run.events import Access
from smemsim.run.isa.registers import bits_of
from smemsim.run.isa.registry import unmodelled
from smemsim.run.scopes import GPU
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import Region
    from smemsim.run.engine.wave import Wave
    from smemsim.run.isa.registers import Read
    from smemsim.run.lower.program import Linker

__all__ = [
    "SPACES",
    "Locate",
    "global_operand",
    "in_windows",
    "in_windows_or_below",
    "locate",
    "note_read",
    "note_update",
    "note_write",
    "own",
    "shared_address",
    "shared_operand",
    "shared_places",
    "space_modifier",
    "values_of",
]


_SHARED_HIGH, _LOCAL_HIGH = SHARED_WINDOW >> 32, LOCAL_WINDOW >> 32
_LOW_HALF = 0xFFFFFFFF
SPACES = ("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func")


Locate = Callable[["Wave"], list[Piece]]


def shared_address(address: Any) -> Any:
    """The `.shared` address, int64, of a 64-bit operand that has to be in shared memory: of a generic one the low 32
    bits.

    Any other address is unchanged, so that its access fails. Compiled: `smemsim.RULES["shared.generic"]`.

    >>> [hex(int(at)) for at in shared_address(np.array([0x400, 0x1E00_0100_0400, 0x7F00_0000_0400]))]
    ['0x400', '0x1000400', '0x7f0000000400']
    """
    at = np.asarray(address, np.int64)
    return np.where(at >> 32 == _SHARED_HIGH, at & _LOW_HALF, at)


def shared_operand(i: Instruction, c: Linker, operand: Operand, *, generic: bool = False) -> Read:
    """An operand that is an address in shared memory, of the instruction's `.shared` space or `generic`: as a
    `.shared` one.
    """
    address = c.address(operand)
    if c.space_of(operand) is not None or _is_narrow(operand):
        return address
    if generic:
        return lambda x: shared_address(address(x))
    return lambda x: _low_half(x, i, np.asarray(address(x)))


def global_operand(c: Linker, operand: Operand) -> Read:
    """An operand that is an address in global memory: as uint64."""
    address = c.address(operand)
    return lambda x: np.asarray(address(x)).astype(np.uint64)


def _is_narrow(operand: Operand) -> bool:
    """Is the address in a register of 32 bits?"""
    base = operand.base if isinstance(operand, Address) else operand
    return isinstance(base, Register) and bits_of(base.type) <= 32


def _low_half(x: Wave, i: Instruction, at: np.ndarray, part: np.ndarray | None = None) -> np.ndarray:
    """`.shared` addresses of 64-bit registers: the low 32 bits (PTX ISA 9.1 §6.4.1: an address is cut to the width of
    its state space).

    X001 if a 64-bit address lies in another state space.
    """
    low: np.ndarray = at & _LOW_HALF
    if not (at >> 32).any():
        return low
    wide = np.broadcast_to(at, x.n if part is None else part.shape)
    is_local = wide >> 32 == _LOCAL_HIGH
    begins, ends, _ = x.launch.memory.table()
    address = wide.view(np.uint64) if wide.flags.c_contiguous else wide.astype(np.uint64)
    if len(begins):
        is_global = address < ends[np.maximum(np.searchsorted(begins, address, "right") - 1, 0)]
        is_global &= address >= begins[0]
        if (is_local | is_global).any():
            elsewhere(x, i, wide, part, is_local | is_global)
    elif is_local.any():
        elsewhere(x, i, wide, part, is_local)
    return low


def space_modifier(modifiers: list[str]) -> str | None:
    """Take the state space off a list of modifiers; None: generic."""
    for m in modifiers:
        if m in SPACES:
            modifiers.remove(m)
            return m
    return None


def locate(
    i: Instruction,
    c: Linker,
    operand: Operand,
    space: str | None,
    size: int,
    align: int | None = None,
    *,
    beyond: Callable[[Wave], Any] | None = None,
    only_shared: bool = False,
) -> Locate:
    """A function that finds the bytes of an instruction's access: `size` of them at the address of every running
    thread, `beyond` bytes further.

    Instructions on shared memory only have `only_shared`. Without a space in their name, an address below 2^32 is a
    `.shared` one too. The kernel ends with HardwareTrap 716 and X002 for addresses that are not a multiple of `align`
    (the size). It ends with HardwareTrap 700 and X001 for addresses outside all memory.
    """
    address = c.address(operand)
    own = c.space_of(operand)
    if space in ("param", "param::entry", "param::func"):
        in_bank = address
        space = "local" if own == "local" else "global"
        if space == "global":
            address = lambda x: (in_bank(x) & _LOW_HALF) + x.launch.parameter_address  # noqa: E731
    elif space == "const":
        return _Constant(i, _in_constant(c, address), size, (align or size) - 1)
    if only_shared and space is None and own is None:
        generic = address
        address = lambda x: _in_window(generic(x))  # noqa: E731
    find = _FINDERS.get(space or "generic")
    if find is None:
        raise unmodelled(i, f"no state space .{space}")
    if beyond is not None:
        first, further = address, beyond
        address = lambda x: first(x) + further(x)  # noqa: E731
    return find(i, address, size, (align or size) - 1)


def _in_constant(c: Linker, address: Read) -> Read:
    """The place in global memory of a `.const` address, of which the low 32 bits count: `.const` variables have one
    upper half there.
    """
    names = [v.name for v in c.places.globals if v.space == "const"]

    def find(x: Wave) -> Any:
        high = {x.launch.addresses[name] >> 32 for name in names}
        return address(x) & _LOW_HALF | high.pop() << 32 if len(high) == 1 else address(x)

    return find


def in_windows(x: Wave, i: Instruction, where: Locate) -> Piece:
    """The bytes of all running threads in the CTAs' windows of shared memory; Unmodelled where some are elsewhere."""
    for piece in (pieces := where(x)):
        if piece.space == "reserved":
            raise unmodelled(i, f"at a shared address below {x.window_begin:#x}, which the system reserves")
        _check_shared(i, piece)
    (piece,) = pieces
    return piece


def in_windows_or_below(x: Wave, i: Instruction, where: Locate) -> list[Piece]:
    """The same, apart from those in what the system keeps there."""
    pieces = where(x)
    for piece in pieces:
        if piece.space != "reserved":
            _check_shared(i, piece)
    return pieces


def _check_shared(i: Instruction, piece: Piece) -> None:
    if piece.space != "shared":
        raise unmodelled(i, f"at an address in {piece.space} memory (undefined: it accesses shared memory)")


def _in_window(address: Any) -> Any:
    """The generic address of an operand that has to lie in shared memory."""
    at = np.asarray(address, np.int64)
    return np.where(at >> 32 == 0, at | SHARED_WINDOW, at)


def _values(x: Wave, address: Any) -> np.ndarray:
    """Addresses of the running threads, int64 and contiguous."""
    return address if isinstance(address, np.ndarray) and address.ndim else np.full(x.n, address, np.int64)


# an array, its begin, and the last offset at which an access fits
_Found: TypeAlias = "tuple[Region, np.int64, np.uint64]"


def _nothing(x: Wave) -> _Found:
    raise LookupError("no array has been found yet")


class _Global:
    """Finds arrays in global memory; the one that it found last in the wave first."""

    def __init__(self, i: Instruction, address: Callable[[Wave], Any], size: int, low: int) -> None:
        self.i, self.address, self.size, self.low = i, address, size, low
        self._last: Slot[_Found] = Slot(_nothing)

    def __call__(self, x: Wave) -> list[Piece]:
        return self.find(x, _values(x, self.address(x)), None)

    def find(self, x: Wave, at: np.ndarray, part: np.ndarray | None) -> list[Piece]:
        if self.low and np.bitwise_or.reduce(at) & self.low:
            misaligned(x, self.i, "global", at, part, self.low + 1)
        last = self._last.peek(x)
        if last is not None:
            region, begin, room = last
            offset = at - begin
            if not (offset.view(np.uint64) > room).any() and (
                region.chunks is None or not region.chunks.outside(at.view(np.uint64), self.size).any()
            ):
                if region.begin != region.words_begin:
                    offset += region.begin - region.words_begin
                return [Piece("global", region.words, offset, part)]
        return self._search(x, at, part)

    def _search(self, x: Wave, at: np.ndarray, part: np.ndarray | None) -> list[Piece]:
        address = at.view(np.uint64)
        whole = x.launch.memory.holding(int(address.min()), int(address.max()) + self.size)
        if whole is not None:
            self._last.put(x, (whole, np.uint64(whole.begin).view(np.int64), np.uint64(len(whole.data) - self.size)))
            return [Piece("global", whole.words, (address - np.uint64(whole.words_begin)).view(np.int64), part)]
        begins, ends, regions = x.launch.memory.table()
        which = np.searchsorted(begins, address, "right") - 1
        bad = (which < 0) | (address + np.uint64(self.size) > ends[which]) | (address + np.uint64(self.size) < address)
        for n in distinct(which[~bad]).tolist():
            if (chunks := regions[n].chunks) is not None:
                bad[which == n] |= chunks.outside(address[which == n], self.size)
        pieces = []
        if bad.any():
            self._may_go_on(x, at, part, bad, ends[which])
            pieces = [
                _piece(x.launch.memory.behind(regions[n], x.launch.options.overrun), address, np.flatnonzero(bad & (which == n)), part)
                for n in distinct(which[bad]).tolist()
            ]
        for n in distinct(which[~bad]).tolist():
            pieces.append(_piece(regions[n], address, np.flatnonzero(~bad & (which == n)), part))
            self._last.put(x, (regions[n], begins[n].view(np.int64), np.uint64(len(regions[n].data) - self.size)))
        return pieces

    def _may_go_on(self, x: Wave, at: np.ndarray, part: np.ndarray | None, bad: np.ndarray, ends: np.ndarray) -> None:
        """Threads whose bytes are outside: the kernel ends, unless all of them are no further after an array than the
        launch allows.
        """
        room = x.launch.options.overrun - self.size
        if room < 0 or (at.view(np.uint64)[bad] - ends[bad] > np.uint64(room)).any():
            outside(x, self.i, "global", at, part, bad, self.size)
        if x.launch.result.findings.found("X001", self.i, OVERRUN) is None:
            find_outside(x, self.i, "global", at, part, bad, self.size, kind=OVERRUN)


class _Constant(_Global):
    """Finds constants. Outside of all of them a card reads on in the bank, without an error (M17): X001, and here a
    load gives 0.
    """

    def _search(self, x: Wave, at: np.ndarray, part: np.ndarray | None) -> list[Piece]:
        address = at.view(np.uint64)
        begins, ends, _ = x.launch.memory.table()
        which = np.searchsorted(begins, address, "right") - 1
        bad = (which < 0) | (address + np.uint64(self.size) > ends[which])
        if not bad.any():
            return super()._search(x, at, part)
        find_outside(x, self.i, "global", at, part, bad, self.size)
        here, rest = np.flatnonzero(bad), np.flatnonzero(~bad)
        nothing = Piece(
            "reserved", np.zeros(max(self.size // 4, 1), np.uint32), np.zeros(len(here), np.int64), here if part is None else part[here]
        )
        return [nothing, *(super()._search(x, at[rest], rest if part is None else part[rest]) if len(rest) else ())]


def _piece(region: Region, address: np.ndarray, here: np.ndarray, part: np.ndarray | None) -> Piece:
    """The bytes of an array that threads access, `here` among `address`, which are those of `part` of
    the running ones.
    """
    offset = (address[here] - np.uint64(region.words_begin)).view(np.int64)
    return Piece("global", region.words, offset, here if part is None else part[here])


def _shared(cluster: bool) -> Callable[..., Locate]:
    def make(i: Instruction, address: Callable[[Wave], Any], size: int, low: int) -> Locate:
        return lambda x: _in_shared(x, i, _values(x, address(x)), None, size, low, cluster)

    return make


def _in_shared(x: Wave, i: Instruction, at: np.ndarray, part: np.ndarray | None, size: int, low: int, cluster: bool) -> list[Piece]:
    if x.launch.cluster_size == 1 and x.memories.window >= size:
        threads, places = x.threads if part is None else x.threads[part], np.empty(len(at), np.int64)
        if loops.own_places(at, threads, _windows(x), x.window_begin, x.memories.window - size, low, places):
            return [Piece("shared", x.shared, places, part)]
    if np.bitwise_or.reduce(at) >> 32:
        at = _low_half(x, i, at, part)
    if low and np.bitwise_or.reduce(at) & low:
        misaligned(x, i, "shared", at, part, low + 1)
    offset, rank, bad = _window(x, at, size)
    if bad.any():
        return _with_reserved(x, i, at, part, size, low, cluster)
    return [Piece("shared", x.shared, _flat(x, i, offset, rank, part, cluster), part)]


def _with_reserved(x: Wave, i: Instruction, at: np.ndarray, part: np.ndarray | None, size: int, low: int, cluster: bool) -> list[Piece]:
    """Threads of which some leave the window: below it lies the system's part, which is memory too. Measured:
    `smemsim.RULES["shared.reserved"]`.
    """
    offset, rank, bad = _window(x, at, size)
    threads = x.sel if part is None else x.threads[part]
    is_below = bad & (offset >= -x.window_begin) & (offset <= -size)
    if rank is not None:
        is_below &= (rank >= 0) & (rank < x.launch.cluster_size)
    if not is_below.any():
        outside(x, i, "shared", at, part, bad, size)
    is_foreign = is_below & (rank != x.grid.rank_bits[threads] >> RANK_SHIFT) if rank is not None and not cluster else np.zeros_like(bad)
    if (is_own := is_below & ~is_foreign).any():
        reserved(x, i, at, part, is_own)
    if is_foreign.any():
        n = int(np.flatnonzero(is_foreign)[0])
        foreign(x, i, int(at[n]), int(x.threads[n if part is None else part[n]]))
    here = np.flatnonzero(is_below)
    base = x.cta_of[threads][here] if rank is None else (x.grid.cluster_first[threads] + rank)[here]
    which = here if part is None else part[here]
    pieces = [Piece("reserved", x.memories.reserved(), base * x.window_begin + x.window_begin + offset[here], which)]
    rest = np.flatnonzero(~is_below)
    return pieces + _in_shared(x, i, at[rest], rest if part is None else part[rest], size, low, cluster) if len(rest) else pieces


def shared_places(x: Wave, i: Instruction, at: np.ndarray, part: np.ndarray | None, size: int, cluster: bool) -> np.ndarray:
    """Places in `x.shared` of `size` bytes at `.shared` addresses (int64, of the threads that run, or of `part` of
    them).

    Ends the kernel for those outside the window, without `cluster` for those in another CTA's.
    """
    offset, rank, bad = _window(x, at, size)
    if bad.any():
        if ((offset < 0) & (offset >= -x.window_begin)).any():
            raise unmodelled(i, f"a shared address below {x.window_begin:#x}, which the system reserves")
        outside(x, i, "shared", at, part, bad, size)
    return _flat(x, i, offset, rank, part, cluster)


def _window(x: Wave, at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """For `.shared` addresses: the places in a window, the CTA of the window in the cluster, and which are outside."""
    rank = None
    offset = at - x.window_begin
    if x.launch.cluster_size > 1:
        rank = at >> RANK_SHIFT
        offset = (at & OFFSET_MASK) - x.window_begin
    bad = offset.view(np.uint64) > np.uint64(x.memories.window - size) if x.memories.window >= size else np.ones(len(at), bool)
    if rank is not None:
        bad |= rank.view(np.uint64) >= np.uint64(x.launch.cluster_size)
    if x.scratch and bad.any():
        low = at & OFFSET_MASK if rank is not None else at
        scratch = low.view(np.uint64) <= np.uint64(RESERVED_OFFSETS["end"] - size)
        offset = np.where(scratch, low + x.scratch, offset)
        bad &= ~scratch
    return offset, rank, bad


def _windows(x: Wave) -> np.ndarray:
    """The begin of each thread's window in `x.shared`."""
    windows: np.ndarray = x.alike("window", lambda: x.cta_of * x.pitch)
    return windows


def _flat(x: Wave, i: Instruction, offset: np.ndarray, rank: np.ndarray | None, part: np.ndarray | None, cluster: bool) -> np.ndarray:
    """Places in `x.shared` of places in windows, which are changed to them."""
    threads = x.sel if part is None else x.threads[part]
    if rank is None:
        offset += _windows(x)[threads]
        return offset
    if not cluster and (is_foreign := rank != x.grid.rank_bits[threads] >> RANK_SHIFT).any():
        n = int(np.argmax(is_foreign))
        foreign(x, i, int(rank[n]) << RANK_SHIFT | int(offset[n]) + x.window_begin, int(x.threads[n if part is None else part[n]]))
    offset += (x.grid.cluster_first[threads] + rank) * x.pitch
    return offset


def _local(i: Instruction, address: Callable[[Wave], Any], size: int, low: int) -> Locate:
    return lambda x: [_in_local(x, i, _values(x, address(x)), None, size, low)]


def _in_local(x: Wave, i: Instruction, at: np.ndarray, part: np.ndarray | None, size: int, low: int) -> Piece:
    at = at & _LOW_HALF
    if low and np.bitwise_or.reduce(at) & low:
        misaligned(x, i, "local", at, part, low + 1)
    room = x.memories.local.shape[1] - size
    bad = at.view(np.uint64) > np.uint64(max(room, 0)) if room >= 0 else np.ones(len(at), bool)
    if bad.any():
        outside(x, i, "local", at, part, bad, size)
    threads = x.threads if part is None else x.threads[part]
    return Piece("local", x.memories.local.reshape(-1), threads * x.memories.local.shape[1] + at, part)


def _generic(i: Instruction, address: Callable[[Wave], Any], size: int, low: int) -> Locate:
    world = _Global(i, address, size, low)

    def find(x: Wave) -> list[Piece]:
        at = _values(x, address(x))
        high = at >> 32
        shared, local = high == _SHARED_HIGH, high == _LOCAL_HIGH
        some_shared, some_local = shared.any(), local.any()
        if not (some_shared or some_local):
            return world.find(x, at, None)
        if some_shared and shared.all():
            return _in_shared(x, i, at & _LOW_HALF, None, size, low, True)
        if some_local and local.all():
            return [_in_local(x, i, at, None, size, low)]
        pieces = []
        if some_shared:
            part = np.flatnonzero(shared)
            pieces += _in_shared(x, i, at[part] & _LOW_HALF, part, size, low, True)
        if some_local:
            part = np.flatnonzero(local)
            pieces.append(_in_local(x, i, at[part], part, size, low))
        part = np.flatnonzero(~(shared | local))
        return pieces + world.find(x, at[part], part) if len(part) else pieces

    return find


_FINDERS: dict[str, Callable[..., Locate]] = {
    "generic": _generic,
    "global": _Global,
    "shared": _shared(False),
    "shared::cta": _shared(False),
    "shared::cluster": _shared(True),
    "local": _local,
}


def values_of(x: Wave, piece: Piece, size: int, own: Callable[[], np.ndarray] | None = None) -> Values | None:
    """Called before a store: what an observer may want to know of it."""
    if piece.space not in x.values_wanted:
        return None
    return Values(piece, size, own) if size in AT_ONCE or (size == 32 and piece.space == "global") or size == WHOLE_MAP else None


def note_write(
    x: Wave,
    i: Instruction,
    piece: Piece,
    size: int,
    *,
    strong: bool = False,
    changed: bool = True,
    written: Values | None = None,
    scope: int = GPU,
    is_joint: bool = False,
) -> None:
    """Threads have written: threads that poll read again, MMA operands get a writer, observers get the event. Local
    memory needs none of this.

    Atomics without an effect (`changed` False) are only reads.
    """
    own(x, piece, size, changed=changed)
    if x.events.accessed:
        x.events.accessed(x, Access(x, i, "write", piece, size, strong, scope, is_joint, changed, written))


def note_update(x: Wave, i: Instruction, piece: Piece, size: int) -> None:
    """Threads are about to update memory by an atomic operation; an exchange takes the value, and stores another."""
    if x.events.updates:
        x.events.updates(x, Access(x, i, "read", piece, size, is_strong=True))


def own(x: Wave, piece: Piece, size: int, *, changed: bool = True) -> None:
    """Threads have written: without a word to observers."""
    if piece.space == "local":
        return
    x.progress.changes += changed
    x.progress.stores += changed
    x.progress.polls += not changed
    if piece.space == "shared" and x.memories.has_owners:
        chunks = piece.at >> 4
        x.memories.owners.touch(chunks, THREADS)
        for n in range(1, size >> 4):
            x.memories.owners.touch(chunks + n, THREADS)


def note_read(x: Wave, i: Instruction, piece: Piece, size: int, *, strong: bool = False, scope: int = GPU, is_joint: bool = False) -> None:
    """Threads have read: observers get the event."""
    if x.events.accessed:
        x.events.accessed(x, Access(x, i, "read", piece, size, strong, scope, is_joint))
