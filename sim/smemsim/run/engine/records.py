"""The records of a launch about its transfers and matrix instructions. They are enough to write a scenario, and to
check it.

Addresses in shared memory are `.shared` addresses without a CTA's rank. The CTA's number in the grid is `cta`. The
number of the issuing thread in the CTA is `thread`. For a matrix instruction it is the first one of its warp or
warpgroup. Events are immutable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from smemsim.base.lazily import cached_property
from smemsim.core.machine.bulk import BulkTransfer
from smemsim.core.machine.cluster import Delivery
from smemsim.core.machine.mma_sync import MmaSync
from smemsim.core.machine.product import SharedOperand
from smemsim.core.machine.tmem.layout import MetadataLayout, ScaleLayout
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.words.tensor_map import TensorMap

__all__ = ["Bulk", "Copy", "Event", "Events", "FragmentScales", "Fragments", "Load", "Metadata", "Mma", "Products", "Store"]


@dataclasses.dataclass(eq=False, slots=True)
class _Issued:
    """An instruction of one thread: the CTA's number in the grid, and the thread's in its CTA."""

    cta: int
    thread: int
    instruction: Instruction


@dataclasses.dataclass(eq=False, slots=True)
class _Tensor(_Issued):
    """A transfer by a tensor map: the address of the map, and the coordinates of the box."""

    map_address: int
    tensor_map: TensorMap
    mode: str
    coordinates: tuple[int, ...]


@dataclasses.dataclass(eq=False, slots=True)
class Load(_Tensor):
    """A tensor load: `deliveries` are the CTAs of the cluster (by rank) that got the box, the place, and whose barrier
    counted how many bytes.
    """

    im2col_offsets: tuple[int, ...]
    deliveries: tuple[Delivery, ...]


@dataclasses.dataclass(eq=False, slots=True)
class Store(_Tensor):
    """A tensor store, or a reduction (`operation` "add", "min" ...)."""

    smem_address: int
    operation: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class Bulk(_Issued):
    """A bulk copy or reduction without a tensor map; a multicast has a transfer for each CTA that it goes to."""

    transfers: tuple[BulkTransfer, ...]


@dataclasses.dataclass(eq=False, slots=True)
class Mma(_Issued):
    """A wgmma.mma_async or a tcgen05.mma. `a` and `b` are descriptor words; `a` None: in registers or tensor memory. K
    is that of the instruction.

    `unwritten`: some element that was read was uninitialised. `idesc` is tcgen05's instruction descriptor.
    """

    kind: str  # "wgmma", or the kind of a tcgen05.mma
    m: int
    n: int
    k: int
    a: int | None
    b: int
    a_type: str
    b_type: str
    d_type: str
    a_major: str = "K"
    b_major: str = "K"
    scale_d: bool = True
    negate: tuple[bool, bool] = (False, False)
    is_sparse: bool = False
    taint: bool = False
    idesc: int | None = None
    cta_group: int = 1
    d: int = 0  # which accumulator: its first register, or its address in tensor memory
    is_new: bool = False  # others have given D its value since the last sum there
    # the columns of the scale factors of A and of B, of a block-scaled kind
    scales: tuple[ScaleLayout, ScaleLayout] | None = None
    metadata: MetadataLayout | None = None  # the column of the metadata of a sparse tcgen05.mma

    @property
    def begins(self) -> bool:
        """Does it begin a sum: is scale-d false, or what it adds to no sum of matrix instructions?"""
        return self.is_new or not self.scale_d

    def operand(self, side: str) -> SharedOperand | None:
        """A ("a") or B ("b") as each CTA of the group reads it; None where it is not in shared memory."""
        word, dtype, major = (self.a, self.a_type, self.a_major) if side == "a" else (self.b, self.b_type, self.b_major)
        if word is None:
            return None
        packing = KINDS[self.kind].packing if self.kind in KINDS else "packed"
        return SharedOperand(word, dtype, major, self.rows_of(side), self.k_of(side), packing)

    def rows_of(self, side: str) -> int:
        """The number of rows of A ("a") or B ("b") that each CTA of the group reads."""
        return (self.m if side == "a" else self.n) // self.cta_group

    def k_of(self, side: str) -> int:
        """The number of k that are stored of A ("a") or B ("b"): half of them for sparse A."""
        return self.k // 2 if self.is_sparse and side == "a" else self.k

    def has_same_k(self, a: int, b: int) -> bool:
        """Do a k of A, among those that are stored, and a k of B belong together? A sparse A stores half as many."""
        return a * self.k_of("b") == b * self.k_of("a")


@dataclasses.dataclass(eq=False, slots=True)
class Copy(_Issued):
    """A tcgen05.cp: the descriptor word it read through, and where in tensor memory the copy went."""

    shape: str
    multicast: str
    word: int
    tmem_address: int
    cta_group: int = 1
    is_packed: bool = False  # does it make bytes of elements of 4 or 6 bits?


Event: TypeAlias = Load | Store | Bulk | Mma | Copy


class Metadata(NamedTuple):
    """The metadata of A, of wgmma.mma_async.sp or mma.sp.sync.

    They are the thread and lowest bit of each nibble, (rows, groups), the registers (warpgroups or warps, threads), and
    the sources of their bytes. Sources are (the same, threads, bytes) addresses of global memory, negative if there is
    none; None if they are not followed.
    """

    places: tuple[np.ndarray, np.ndarray]
    registers: np.ndarray
    origins: np.ndarray | None


class FragmentScales(NamedTuple):
    """The scale factors of A or B. It has the registers of all threads, (warps, 32), and their bytes' origins, (warps,
    32, 4). It also has the thread of each row, and the bytes of its register.
    """

    registers: np.ndarray
    origins: np.ndarray
    threads: np.ndarray
    bytes: slice


class Fragments(NamedTuple):
    """The sources of the operands of a block-scaled or sparse mma.sync. For each warp they are addresses of global
    memory, negative if there is none.

    Each of `warps` has its CTA's number and its first thread there. The instruction is `of`. Arrays `a` and `b` (warps,
    rows, 2) have each row's element at k = 0 and at half of its K as it is stored. Scale factors of A and of B are
    `scales`, if it has any. The metadata of a sparse A is `metadata`.
    """

    warps: list[tuple[int, int]]
    of: MmaSync
    a: np.ndarray
    b: np.ndarray
    scales: tuple[FragmentScales, FragmentScales] | None
    metadata: Metadata | None


class WarpProducts(NamedTuple):
    """An mma.sync or a wmma.mma of warps, whose operands are registers.

    The shape is M, N, K. The types are those of A, B and D. The first thread of each warp, by its number in the wave,
    is `first`. The accumulator before and after is `c` and `d`, (registers, warps, 32). For a side, "a" or "b", and a
    warp, `tile` has the raw bits of its elements, (rows, K). For a side, `sources` has the addresses of global memory
    of its elements, (warps, rows, K). They are negative where there is none. It is None if they are not followed.
    """

    shape: tuple[int, int, int]
    types: tuple[str, str, str]
    first: np.ndarray
    c: np.ndarray
    d: np.ndarray
    tile: Callable[[str, int], np.ndarray]
    sources: Callable[[str], np.ndarray] | None = None


class Products:
    """One matrix instruction in several CTAs or pairs, each separately. The events are made, from one number to
    another, when a caller needs them.

    If CTAs are known to do all the same, `ctas` has their numbers in the grid, in their order. Else it is empty.
    """

    def __init__(self, count: int, make: Callable[[int, int], list[Mma]], ctas: Sequence[int] = ()) -> None:
        self.count, self._make, self.ctas = count, make, ctas
        self.metadata: Metadata | None = None  # of wgmma.mma_async.sp, if an observer needs operands

    @classmethod
    def of(cls, events: list[Mma]) -> Products:
        """Products that are made already."""
        return cls(len(events), lambda begin, end: events[begin:end])

    @cached_property
    def own(self) -> list[Mma]:
        """The events of the first of CTAs that do the same."""
        return self._make(0, self.count // max(1, len(self.ctas)))

    @cached_property
    def all(self) -> list[Mma]:
        """The events of all, one CTA's after the other's."""
        return self.own + self._make(len(self.own), self.count)


class Events(Sequence[Event]):
    """The events of a launch, in order. Those of matrix instructions may be made when something first asks for them."""

    def __init__(self) -> None:
        self._parts: list[list[Event] | Products] = []
        self._count = 0
        self._transfers: tuple[int, list[Load | Store | Bulk | Copy]] | None = None  # of so many events

    def append(self, event: Event) -> None:
        """One more."""
        self.__iadd__((event,))

    def __iadd__(self, events: Iterable[Event]) -> Events:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, list):
            last = []
            self._parts.append(last)
        before = len(last)
        last += events
        self._count += len(last) - before
        return self

    def merge(self, other: Iterable[Event]) -> None:
        """Add the events of other CTAs."""
        self.__iadd__(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return _events, (self._all(),)

    def products(self, products: Products) -> None:
        """Some matrix instructions more."""
        self._parts.append(products)
        self._count += products.count

    def transfers(self) -> Sequence[Load | Store | Bulk | Copy]:
        """All but the matrix instructions."""
        if self._transfers is None or self._transfers[0] != self._count:
            lists = (part for part in self._parts if isinstance(part, list))
            self._transfers = self._count, [event for part in lists for event in part if not isinstance(event, Mma)]
        return self._transfers[1]

    def different_products(self) -> Iterator[Mma]:
        """The matrix instructions, of CTAs that do the same those of the first."""
        for part in self._parts:
            yield from part.own if isinstance(part, Products) else (event for event in part if isinstance(event, Mma))

    def _all(self) -> list[Event]:
        if len(self._parts) != 1 or not isinstance(self._parts[0], list):
            self._parts = [[event for part in self._parts for event in (part if isinstance(part, list) else part.all)]]
        (every,) = self._parts
        return every if isinstance(every, list) else []

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Event: ...

    @overload
    def __getitem__(self, at: slice) -> list[Event]: ...

    def __getitem__(self, at: int | slice) -> Event | list[Event]:
        return self._all()[at]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all())


def _events(found: list[Event]) -> Events:
    """Events in another process."""
    events = Events()
    events += found
    return events
