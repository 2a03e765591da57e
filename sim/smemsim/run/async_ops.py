"""Asynchronous operations as values: what an instruction has issued, what it reads and writes, and which mbarriers
count it.

Execution makes one for each operation and issues it by one function (`isa/asynchronous.py`, `issue`). Observers get
it as an event (`events.py`), and store what they know of it in `known`. CTAs that issue the same operation at once,
each in its own window, make one value with several `issuers`.

To add an operation, take `build_in` of `isa/copies/bulk.py` as the pattern, with `_arrives` and `_Source`. Its step
does this for each `(cta, thread), values` of `each_issuer(x, reads)`:

1. Check the addresses (`check_ranks`, `own_address`). Under a schedule, call `x.in_flight.clears`.
2. Find out which bytes go where by a method of `core/machine` inside `with stops(...)`, which makes findings of
   traps. Nothing is moved yet.
3. Make a `SharedWrite` and an `AsyncOp`. `brings` is a function that moves the bytes into shared memory, `takes` one
   that moves them to global memory.
4. Call `issue(x, op)`.
5. Add 1 to `x.progress.changes`. The scheduler takes a wave in which nothing changes for one that waits for ever.

A place in shared memory has three names here. A `.shared` address counts bytes, as in the PTX (`Delivery`, mbarriers).
A word of the window counts words of 4 bytes, from `x.window_begin` of the CTA on (`SharedWrite`). A word of `x.shared`
counts words of 4 bytes, from the window of the wave's first CTA on. Windows are `x.pitch` bytes apart (`clears`).

`kind` is a word of your choice. A row of `KINDS` has its proxy and its commit groups. It also says whether a copy
engine continues after the CTA has ended. A kind without a row is a copy, as `Kind` has it. Without `records` the
scenario, the counters' bytes and the operand check lack the operation. In a `GlobalSource`, the i-th address of `at()`
goes to the i-th place of `places()` (bytes of the window): findings of uninitialised bytes (R507) depend on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.warps import WARPGROUP
from smemsim.run.word_ranges import WordRanges

if TYPE_CHECKING:
    from smemsim.run.views import Cta

__all__ = [
    "BY_ONE_THREAD", "KINDS", "AsyncOp", "Delivery", "GlobalSource", "GlobalWrite", "Kind", "Lazily", "Once", "SharedWrite", "TensorAccess", "TensorCoreOp", "WarpgroupOp", "facts_of", "is_bulk",
]  # fmt: skip

T = TypeVar("T")

# the fix if several lanes of a warp issue one operation
BY_ONE_THREAD = "let one thread execute this line: guard it with elect.sync, or with a comparison of %tid.x (threadIdx.x)"


class Kind(NamedTuple):
    """The properties of all asynchronous operations of a kind (`AsyncOp.kind`). A kind that is not in KINDS has these
    defaults, which are those of a load into shared memory.

    If `is_load` is set, a copy engine brings its bytes to shared memory. It continues when the thread that issued it,
    or its CTA, has ended. If `is_generic` is set, it belongs to the generic proxy. The commit groups that its threads
    wait for are `group` ("cp.async", "bulk", "wgmma"). If `is_in_order` is set, operations of one thread complete in
    their order.
    """

    is_load: bool = True
    is_generic: bool = False
    group: str = "bulk"
    is_in_order: bool = False


KINDS = {
    "tma_load": Kind(),
    "bulk": Kind(),
    "tma_store": Kind(is_load=False),
    "tma_reduce": Kind(is_load=False),
    "cp.async": Kind(is_load=False, is_generic=True, group="cp.async"),
    "st.async": Kind(is_load=False, is_generic=True),
    "red.async": Kind(is_load=False, is_generic=True),
    "wgmma": Kind(is_load=False, group="wgmma", is_in_order=True),
    "tcgen05.mma": Kind(is_load=False, is_in_order=True),
    "tcgen05.cp": Kind(is_load=False, is_in_order=True),
    "tcgen05.shift": Kind(is_load=False, is_in_order=True),
    "tcgen05.alloc": Kind(is_load=False, is_generic=True),
    "fence": Kind(is_load=False),
    "wait": Kind(is_load=False),
}
# How the names of the instructions begin whose bytes a copy engine moves between global and shared memory.
ENGINE_COPIES = ("cp.async.bulk", "cp.reduce.async.bulk")
_OTHER = Kind()


def facts_of(kind: str) -> Kind:
    """The properties of operations of a kind.

    >>> facts_of("wgmma").group, facts_of("a new copy").is_generic
    ('wgmma', False)
    """
    return KINDS.get(kind, _OTHER)


def is_bulk(i: Instruction) -> bool:
    """Is an instruction one of the bulk and tensor copies (ENGINE_COPIES), which a copy engine executes?"""
    return i.name.startswith(ENGINE_COPIES)


@dataclasses.dataclass(frozen=True)
class Delivery:
    """The bytes that an asynchronous copy writes to one CTA: `size` bytes from `begin` on (a `.shared` address without
    the rank) in CTA `to`.

    CTAs are ranks in the cluster: `issuer` is the one whose thread issued it, `reached` are all that get it. In a CTA
    pair (.cta_group::2) the bytes may be in another CTA than the mbarrier that counts them.
    """

    instruction: Instruction
    issuer: int
    to: int
    begin: int
    size: int
    reached: tuple[int, ...]

    @property
    def key(self) -> tuple[int, int]:
        """The identity of the copy: its line, and the CTA that issued it."""
        return self.instruction.line, self.issuer

    @property
    def mask(self) -> int:
        """`reached` as the operand of .multicast::cluster."""
        return sum(1 << rank for rank in self.reached)

    @property
    def is_multicast(self) -> bool:
        """Does the copy have a CTA mask (.multicast::cluster)?"""
        return any(m.startswith("multicast") for m in self.instruction.modifiers)


class GlobalSource(Protocol):
    """Global memory from which an operation brings bytes to a window."""

    @property
    def begin(self) -> int | None:
        """An address in the array that it reads; None where there may be several."""

    def at(self) -> tuple[np.ndarray, int]:
        """The addresses that it reads, in the order of `places`, and how many bytes at each."""

    def places(self) -> np.ndarray | None:
        """The places in the window (bytes) of the words at each address: (n, words), row k for the k-th address of
        `at`. None if the words are not moved as they are.
        """


class SharedWrite(NamedTuple):
    """Words (`make_words`) of a CTA's window that an operation writes. The `barrier` (the CTA, the offset) counts
    `size` bytes of them.

    `by` is the copy as the mbarrier knows it. `lay_there` marks the words whose value does not change. The bytes come
    from `source` in global memory, or were `copied` from words of the window of another CTA, by an issuer there.
    """

    cta: Any
    make_words: Callable[[], WordRanges]
    size: int
    barrier: tuple[Any, int]
    by: Any = None
    source: GlobalSource | None = None
    lay_there: np.ndarray | None = None
    copied: WordRanges | None = None

    @property
    def words(self) -> WordRanges:
        """The words, counted from the window's begin."""
        return self.make_words()


class GlobalWrite(NamedTuple):
    """Global memory that an operation is about to write.

    The addresses, and the number of bytes at each, are returned by `at`. For byte addresses, `stays` returns which
    values do not change. If `is_again` is set, another thread of its CTA writes the same.
    """

    at: Callable[[], tuple[np.ndarray, int]]
    size: int
    stays: Callable[[np.ndarray], np.ndarray] | None = None
    is_again: bool = False


def _nothing() -> None:
    """An operation that brings no bytes."""


@dataclasses.dataclass(eq=False)
class AsyncOp:
    """An asynchronous operation. Its kind is one of KINDS, or another word. Its `issuers` are CTAs and the thread of
    each (in the wave) that issued it.

    With one issuer, `writes` has an entry for each CTA that gets bytes. With several issuers it has one for each
    issuer. For each issuer, `reads` has the words that it reads of its window. (`TensorCoreOp` has its own rule.) For
    each issuer, `stores` has what it writes to global memory. One issuer moves `size` bytes. The function `brings`
    moves all bytes into shared memory. The function `takes` moves them to global memory, or sums to registers. If
    `is_update` is set, the new bytes depend on the old ones. Under a schedule they are computed when they are written.
    """

    kind: str
    instruction: Instruction
    issuers: Sequence[tuple[Cta, int]]
    writes: Sequence[SharedWrite] = ()
    reads: Sequence[WordRanges] = ()
    stores: Sequence[GlobalWrite] = ()
    size: int = 0
    brings: Callable[[], object] = _nothing
    takes: Callable[[], object] | None = None
    is_update: bool = False
    lanes: int = 0  # a bit set: the lanes of the warp that issue the very same, one after the other
    again: Sequence[int] = ()  # the threads of these that follow the issuer
    records: Sequence[Any] = ()  # what the launch records of it (`engine/records.py`), by issuer
    known: Any = None  # what the sanitizer knows it by

    @property
    def threads(self) -> list[int]:
        """The issuing threads."""
        return [thread for _, thread in self.issuers]

    @property
    def committed_by(self) -> np.ndarray:
        """The threads whose commit groups it belongs to."""
        return np.array(self.threads)

    @property
    def brought(self) -> frozenset[int]:
        """The registers that it writes."""
        return frozenset()

    @property
    def counted(self) -> list[tuple[SharedWrite, list[Any]]]:
        """The writes that mbarriers count, each with the CTAs whose mbarriers do: of several issuers the first write,
        which stands for those of all.
        """
        if len(self.issuers) > 1:
            return [(write, [cta for cta, _ in self.issuers]) for write in self.writes[:1]]
        return [(write, [write.barrier[0]]) for write in self.writes]

    @property
    def byte_count(self) -> int:
        """The bytes that all issuers move together; of a multicast those of each CTA that gets them."""
        return sum(write.size for write in self.writes) if self.writes else self.size * len(self.issuers)


class Once(Generic[T]):
    """A function without arguments that makes its value at the first call and returns it at each."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None

    def __call__(self) -> T:
        if self._made is None:
            self._made = self._make()
        return self._made


class Lazily(Sequence[T]):
    """`count` values, each made when something first asks for it."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count, self._make = count, make
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, n: int) -> T: ...

    @overload
    def __getitem__(self, n: slice) -> list[T]: ...

    def __getitem__(self, n: int | slice) -> T | list[T]:
        if isinstance(n, slice):
            return [self[k] for k in range(*n.indices(self._count))]
        if n >= self._count:
            raise IndexError(n)
        if n not in self._made:
            self._made[n] = self._make(n)
        return self._made[n]


@dataclasses.dataclass(eq=False, kw_only=True)
class WarpgroupOp(AsyncOp):
    """A wgmma.mma_async of warpgroups, each an issuer by its first thread.

    It reads `registers` and leaves a sum in those of `sums`. With `scale_d` it adds to the sum there. All registers
    that it names are `named`, as a bit set.

    Issuers that read the same words of their windows are `alike`, by their places. Each CTA may have the same
    warpgroups with the same operation. Then their number is `own`, and `alike_of_own` is for the first CTA. For the
    sanitizer's taint and an issuer, `follow` returns a follower of values in doubt.
    """

    registers: frozenset[int]
    sums: frozenset[int]
    named: int
    scale_d: Sequence[bool]
    own: int
    alike: Sequence[Sequence[int]]
    alike_of_own: Sequence[Sequence[int]]
    follow: Callable[[Any, int], Any]

    @property
    def committed_by(self) -> np.ndarray:
        """All threads of its warpgroups."""
        found: np.ndarray = (np.array(self.threads)[:, None] + np.arange(WARPGROUP)).reshape(-1)
        return found

    @property
    def brought(self) -> frozenset[int]:
        """The registers that it writes: D."""
        return self.sums


@dataclasses.dataclass(eq=False, kw_only=True)
class TensorCoreOp(AsyncOp):
    """A tcgen05.mma, .cp or .shift. For each issuer, `members` has the CTAs of its group. A box of tensor memory is
    (which member, lanes, first column, end column).

    For a tcgen05.cp, `reads` has the words that each member reads of its window. For a tcgen05.mma it has those of each
    issuer's first member, `members[n][0]`. Reads of the other member are in `mmas`, which are the mmas as the machine
    has prepared them.

    The function `follow` gets the sanitizer's taint, its tensor memory and an issuer. It returns followers of values in
    doubt: one for an mma, one for each member for a copy. With `shifts`, the rows of A are moved.
    """

    members: Sequence[tuple[Any, ...]]
    boxes_read: Sequence[Any] = ()
    boxes_written: Sequence[Any] = ()
    follow: Any = None
    mmas: Sequence[Any] = ()
    shifts: bool = False


class TensorAccess(NamedTuple):
    """Loads of warps from tensor memory, or stores to it, as boxes of `lanes` lanes. A box is (the warp in the wave,
    the CTA's index, the first lane, the first column, the end column).

    If `are_alike` is set, all values stored are the same. If values may be in doubt, `follow` is called with the
    sanitizer's taint and its tensor memory.
    """

    boxes: Sequence[tuple[int, int, int, int, int]]
    lanes: int
    follow: Callable[[Any, Any], None]
    are_alike: bool = False
