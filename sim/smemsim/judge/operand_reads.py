"""What the matrix instructions of a run really read.

Every instruction of every CTA is seen. What a CTA does falls into pieces that share no tile and no sum (the tiles of the result that it computes one
after the other); of pieces that are alike but for where in their tensors the tiles lie, the first one is kept.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import itertools
import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from smemsim.distinct import distinct
from smemsim.errors import InputError, SmemsimError
from smemsim.finding import Finding, at_instruction
from smemsim.judge.thread_tiles import ThreadTiles
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import SharedOperand
from smemsim.machine.region import GlobalMemory
from smemsim.machine.tma import Transfer
from smemsim.program.events import Copy, Event, Load, Mma, Store
from smemsim.program.launch import Launch
from smemsim.program.maps import described
from smemsim.program.traps import region_name
from smemsim.ptx.module import Address, Instruction, Operand, Register, Vector
from smemsim.spec.assumptions import remembered
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK, LINE
from smemsim.spec.smem_descriptor import BASE_OFFSET
from smemsim.spec.swizzles import MODES, Swizzle
from smemsim.spec.wgmma import WGMMA_THREADS
from smemsim.words.instr import InstrDescriptor
from smemsim.words.smem import SmemDescriptor
from smemsim.words.tensor_map import TensorMap

if TYPE_CHECKING:
    from smemsim.program.wave import Cta, Wave

__all__ = [
    "PATTERN",
    "Issued",
    "Matrix",
    "OperandRead",
    "Piece",
    "Product",
    "Reads",
    "mismatches",
    "of_maps",
    "other_type",
    "own_ranks",
    "swapped",
    "turned",
    "unreached",
    "unread",
]


# ---- What matrix instructions really read: for each operand the place in the tensor that its first element came from, and the loads behind
# it


MOST = 1 << 16  # matrix instructions of a CTA that are kept until its end
MOST_PIECES = 256  # pieces that differ, of which each is judged
MOST_CACHED = 1 << 14
NEAR = 64  # events of a CTA
SURE = 0.5  # share of the elements
PATTERN = MODES[Swizzle.B128].period  # bytes behind which every swizzle comes again


@dataclasses.dataclass(frozen=True, eq=False)
class Issued:
    """A load that brought a tile into a CTA's shared memory: its number in the CTA's order of execution, the CTA, and where the tile went."""

    number: int
    cta: int
    event: Load
    transfer: Transfer
    map_key: str  # what its map says but for the address

    @functools.cached_property
    def alone(self) -> tuple[Any, ...]:
        """What it brings, and where: what is known of operands of this load alone goes by that."""
        return self.map_key, self.event.mode, self.transfer.smem_address

    @functools.cached_property
    def clipped(self) -> tuple[tuple[int, int], ...]:
        """How much of its box lies outside of its tensor, at both ends of each dimension."""
        tm = self.transfer.tensor_map
        if self.event.mode != "tile" or tm.call != "tiled":
            return ()
        return tuple(
            (min(max(-at, 0), size), min(max(at + size - extent, 0), size))
            for at, size, extent in zip(self.event.coordinates, tm.box_dim, tm.global_dim, strict=True)
        )

    @functools.cached_property
    def is_outside(self) -> bool:
        """Does all of its box lie outside of its tensor?"""
        return any(_is_outside(self, axis) for axis in range(self.transfer.tensor_map.rank))


@dataclasses.dataclass(frozen=True)
class Mode:
    """A dimension of a tensor map as a part of a matrix's axis: coordinate `first` is its index 0; after `size` indices the next mode goes on by one.

    `stride` are bytes from one coordinate to the next, `extent` how many there are from `first` on.
    """

    dimension: int
    size: int
    stride: int
    first: int
    extent: int


@dataclasses.dataclass(frozen=True)
class Matrix:
    """What an operand is a tile of: the matrix that a tensor map's boxes are rows of, in the boxes' own order.

    `inner` is the axis of the contiguous elements, `outer` the other one, each from the fastest mode on; `address` is that of element (0, 0). A box of
    2 x 32 rows of 64 elements has 64 rows: the outer axis has two modes. Dimensions that are the same for all of an operand only move the address.
    """

    address: int
    inner: tuple[Mode, ...]
    outer: tuple[Mode, ...]

    def index(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(outer index, inner index, is it one at all?) of tensor coordinates (..., rank), outside of the tensor too."""
        is_one = np.ones(coordinates.shape[:-1], bool)
        indices = []
        for modes in (self.outer, self.inner):
            index, weight = np.zeros(coordinates.shape[:-1], np.int64), 1
            for n, mode in enumerate(modes):
                at = coordinates[..., mode.dimension] - mode.first
                index = index + at * weight
                if n < len(modes) - 1:
                    is_one &= (at >= 0) & (at < mode.size)
                weight *= mode.size
            indices.append(index)
        return indices[0], indices[1], is_one

    def place(self, coordinates: tuple[int, ...]) -> tuple[int, int]:
        """(outer, inner) index of one element."""
        places = []
        for modes in (self.outer, self.inner):
            index, weight = 0, 1
            for mode in modes:
                index += (coordinates[mode.dimension] - mode.first) * weight
                weight *= mode.size
            places.append(index)
        return places[0], places[1]


@dataclasses.dataclass(frozen=True, eq=False)
class OperandRead:
    """An operand that TMA loaded: `at` is (row, k) of its first element in `matrix`, taken from most of its elements, so that it holds also where a wrong
    descriptor mixes them up.

    `share` of the elements lie where that says; `loads` are where they came from, the first element's first. `along_k`: is K the contiguous axis?
    """

    word: int
    loads: tuple[Issued, ...]
    matrix: Matrix
    along_k: bool
    at: tuple[int, int]
    share: float

    @property
    def is_fill(self) -> bool:
        """Did it all come from a box that lies outside of its tensor? Then nothing says where in the tensor it begins."""
        return self.loads[0].is_outside

    @property
    def modes(self) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
        """(dimensions of memory that the rows run through, those that k runs through)."""
        return (self.matrix.outer, self.matrix.inner) if self.along_k else (self.matrix.inner, self.matrix.outer)

    @property
    def row_stride(self) -> int:
        """Bytes from one row to the next."""
        return self.modes[0][0].stride

    @property
    def k_stride(self) -> int:
        """Bytes from one k to the next."""
        return self.modes[1][0].stride

    @property
    def base(self) -> int:
        """The global address at which the tensor begins."""
        return self.loads[0].transfer.tensor_map.global_address

    @property
    def is_matrix(self) -> bool:
        """Has the tensor map two dimensions?"""
        return self.loads[0].transfer.tensor_map.rank == 2

    @property
    def corner(self) -> tuple[int, int]:
        """(row, k) at which the tile begins that the first element lies in."""
        outer, inner = self.matrix.place(self.loads[0].event.coordinates)
        return (outer, inner) if self.along_k else (inner, outer)

    @property
    def k_of_box(self) -> int:
        """The extent of a box along k, in elements."""
        return int(self.loads[0].transfer.tensor_map.box_dim[self.modes[1][0].dimension])

    def is_past(self, k: int, count: int) -> bool:
        """Do `count` elements from a k on all lie outside of the tensor?"""
        extent = (self.matrix.inner if self.along_k else self.matrix.outer)[0].extent
        return k >= extent or k + count <= 0


@dataclasses.dataclass(eq=False)
class Product:
    """Matrix instructions that add up one tile's worth of K: they follow one another on one accumulator, and read the same tiles."""

    number: int
    cta: int
    accumulator: tuple[Any, ...]
    events: list[Mma]
    a: list[OperandRead | None]
    b: list[OperandRead | None]
    first: tuple[OperandRead | None, OperandRead | None]  # of the first instruction, nothing but fill counted too
    missed: int = 0  # instructions of which an operand in shared memory is not judged, each told by itself

    @property
    def reads(self) -> Iterator[OperandRead]:
        """The operands, A before B, that TMA has loaded."""
        return (read for side in (self.a, self.b) for read in side if read is not None)


@dataclasses.dataclass(frozen=True, eq=False)
class Reach:
    """The first k and the end of those that instructions multiply of two matrices, `event` is one that goes furthest."""

    event: Mma
    a: OperandRead
    b: OperandRead
    a_begin: int
    a_end: int
    b_begin: int
    b_end: int

    def joined(self, other: Reach) -> Reach:
        """The reach of this and another one together."""
        far = other if other.a_end > self.a_end else self
        return Reach(
            far.event, far.a, far.b, min(self.a_begin, other.a_begin), max(self.a_end, other.a_end), min(self.b_begin, other.b_begin),
            max(self.b_end, other.b_end),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Piece:
    """Loads and products of a CTA that no others share a tile or a sum with. `key` says what they do, but for where their tiles lie."""

    cta: int
    key: bytes
    loads: tuple[Issued, ...]
    products: tuple[Product, ...]


class _Noted(NamedTuple):
    """An operand as an instruction found it: its word, whether K is contiguous, its loads, and what is known of operands that lie so."""

    word: int
    major: str
    loads: tuple[Issued, ...]
    told: _Told


class _Step(NamedTuple):
    """A matrix instruction of a CTA: its number in the launch's and in the CTA's order of execution, and its operands, None where TMA has not loaded one."""

    when: int
    number: int
    event: Mma
    a: _Noted | None
    b: _Noted | None


@dataclasses.dataclass(eq=False)
class _Course:
    """The loads and matrix instructions that a CTA has executed so far."""

    cta: int
    count: int = 0
    looked: int = 0
    loads: dict[int, Issued] = dataclasses.field(default_factory=dict)  # by the identity of the transfer, which stays alive here
    steps: list[_Step] = dataclasses.field(default_factory=list)
    products: list[Product] = dataclasses.field(default_factory=list)
    open: dict[tuple[Any, ...], Product] = dataclasses.field(default_factory=dict)

    def does(self) -> tuple[Any, ...]:
        """What its loads and instructions do, but for where in their tensors the tiles lie; along K that counts too, and how much of a tile lies outside.

        CTAs that do the same have pieces of the same keys, and whatever is found in one is found in the other.
        """
        of_map: dict[Any, tuple[int, ...]] = {}
        of_base: dict[int, tuple[int, ...]] = {}
        loads = []
        for load in self.loads.values():
            base, at, its_map = load.transfer.tensor_map.global_address, load.event.coordinates, (load.event.map_address, load.map_key)
            by = (_minus(at, of_map.setdefault(its_map, at)), _minus(at, of_base.setdefault(base, at)))
            loads.append((load.event.instruction.line, *its_map, base, load.event.mode, load.transfer.smem_address, by, load.clipped))
        return tuple(loads), *self._multiplies(of_map)

    def _multiplies(self, of_map: dict[Any, tuple[int, ...]]) -> tuple[Any, ...]:
        """What its instructions do, and where along K they begin; `of_map` are the first coordinates of each map."""
        numbers, along = {id(load): n for n, load in enumerate(self.loads.values())}, dict[Any, tuple[int, ...]]()
        steps = list[tuple[Any, ...]]()
        for _, _, event, *operands in self.steps:
            steps.append((event.instruction.line, event.thread // WGMMA_THREADS, event.kind, event.d, event.m, event.n, event.k, event.a, event.b,
                          event.a_major, event.b_major, event.begins, event.idesc, event.is_sparse))  # fmt: skip
            for operand in operands:
                if operand is None:
                    steps.append(())
                    continue
                steps.append((operand.told, *[numbers[id(load)] for load in operand.loads]))
                first = operand.loads[0]
                if (of := (first.event.map_address, first.map_key, operand.major)) not in along:
                    along[of] = of_map[of[:2]][:1] if operand.major == "K" else of_map[of[:2]][1:]
        return tuple(steps), tuple(along.items())


_CTA = operator.attrgetter("cta")
_FORM = operator.attrgetter(
    "thread", "kind", "m", "n", "k", "a", "b", "is_new", "scale_d", "idesc", "d", "unwritten"
)  # what it does, but for the CTA


def _minus(at: tuple[int, ...], origin: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([c - d for c, d in zip(at, origin, strict=False)])


@dataclasses.dataclass(eq=False)
class _SharedCourse:
    """CTAs of a wave, by their numbers, that have done the same so far but for where in their tensors the tiles lie, as `_Course.does` says it: noted is what the
    first of them does, and of the others what is their own."""

    ctas: list[int]
    first: _Course
    loads: list[tuple[Sequence[Load], list[Transfer]]] = dataclasses.field(default_factory=list)  # one of each CTA
    # Of each step the events of its instruction, how many of them are those of one CTA, and which of these it is.
    steps: list[tuple[Sequence[Mma], int, int]] = dataclasses.field(default_factory=list)
    of_map: dict[Any, tuple[Load, ...]] = dataclasses.field(default_factory=dict)  # of each map the first loads
    along: set[tuple[Any, ...]] = dataclasses.field(
        default_factory=set
    )  # maps whose tiles begin at one place along K, by which of their dimensions that is
    # The coordinates of the first loads of each map, and of those that begin at one address, a row for each CTA.
    _begun_at: dict[Any, np.ndarray] = dataclasses.field(default_factory=dict)
    _numbers: dict[int, list[int]] = dataclasses.field(default_factory=dict)
    _begins: np.ndarray | None = None

    def are_alike(self, events: Sequence[Mma], each: int) -> bool:
        """Do all do the same by the events of an instruction, so many `each`?"""
        if each not in self._numbers:
            self._numbers[each] = [cta for cta in self.ctas for _ in range(each)]
        forms = [*map(_FORM, events)]
        return [*map(_CTA, events)] == self._numbers[each] and forms == forms[:each] * len(self.ctas)

    def begins(self, x: Wave) -> np.ndarray:
        """Where their windows begin among the lines of all windows of their wave, a row for each."""
        if self._begins is None:
            self._begins = np.array([[x.numbered(cta).index * x.pitch // LINE] for cta in self.ctas], np.int64)
        return self._begins

    def load_alike(self, loads: Sequence[Load], key: str) -> bool:
        """Do all load the same, from where their first loads began? Boxes that walk in steps may lie outside of the tensor by steps that count for nothing."""
        first = loads[0]
        if any(step != 1 for step in first.tensor_map.element_strides):
            return False
        at = np.array([load.coordinates for load in loads])
        self.of_map.setdefault((first.map_address, key), tuple(loads))
        origins = (
            self._begun_at.setdefault((first.map_address, key), at),
            self._begun_at.setdefault(first.tensor_map.global_address, at),
        )
        for of in origins:
            rank = min(at.shape[1], of.shape[1])
            by = at[:, :rank] - of[:, :rank]
            if (by != by[0]).any():
                return False
        return True

    def begin_alike(self, noted: _Noted) -> bool:
        """Does the tensor of an operand begin, along K, at one place for all?"""
        load, is_k = noted.loads[0], noted.major == "K"
        its_map = load.event.map_address, load.map_key
        if (*its_map, is_k) not in self.along:
            begins = {first.coordinates[:1] if is_k else first.coordinates[1:] for first in self.of_map[its_map]}
            if len(begins) > 1:
                return False
            self.along.add((*its_map, is_k))
        return True

    def others(self) -> Iterator[_Course]:
        """What the others have done."""
        issued = list(self.first.loads.values())
        for n, cta in enumerate(self.ctas[1:], 1):
            course = _Course(cta, self.first.count, self.first.looked)
            own: dict[int, Issued] = {}
            for load, (loads, transfers) in zip(issued, self.loads, strict=True):
                own[id(load)] = course.loads[id(transfers[n])] = Issued(load.number, cta, loads[n], transfers[n], load.map_key)
            for step, (events, each, k) in zip(self.first.steps, self.steps, strict=True):
                noted = [None if it is None else it._replace(loads=tuple(own[id(load)] for load in it.loads)) for it in (step.a, step.b)]
                course.steps.append(_Step(step.when + n * each, step.number, events[n * each + k], *noted))
            yield course


class Reads:
    """A launch's judge: called with every event as it happens, it collects what the matrix instructions of all CTAs read.

    `products` and `loads` are those of the pieces that are kept. `instructions` counts the matrix instructions whose operands lie in shared memory,
    `missed_instructions` by the reason those of which an operand is not judged.
    """

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.pieces: dict[bytes, Piece] = {}
        self.instructions = 0
        self.ctas: set[int] = set()  # that have such instructions
        self.missed_instructions: collections.Counter[str] = collections.Counter()
        self.copies = 0
        self.complete = True  # Were all of them looked at?
        self.maps: dict[tuple[Any, ...], Load | Store] = {}  # the first use of each tensor map
        self.widths: dict[tuple[str, int, int], tuple[str, Issued, Mma]] = {}  # operands of other elements than their map, by the load
        # Operand, load and dimension of tiles past the last k, where the other operand's is not.
        self.outside: dict[tuple[str, int], tuple[str, Issued, int]] = {}
        self.reaches: dict[tuple[int, int], Reach] = {}  # by the addresses of the two matrices
        # Operand, line, maps and how far apart they lie: what the two CTAs of a pair have read for one instruction.
        self.pairs: dict[tuple[str, int, int, int, tuple[int, ...]], tuple[Mma, OperandRead, OperandRead]] = {}
        self.threads = ThreadTiles()
        self._products: list[Product] | None = None
        self._loads: list[Issued] | None = None
        self._forget()

    def _forget(self) -> None:
        self._waves: dict[Wave, dict[int, _Course]] = {}
        self._together: dict[Wave, _SharedCourse] = {}
        self._maps: dict[int, tuple[TensorMap, str]] = {}  # by identity: what a map says but for its address
        self._places: dict[SharedOperand, _Places | None] = {}
        self._matrices: dict[Any, Matrix | str] = {}
        self._ways: dict[Any, _Told] = {}  # by the load and how an operand lies in it
        self._done: set[tuple[Any, ...]] = set()  # what CTAs did whose pieces are kept

    # ---- pieces of other processes

    def fresh(self) -> Reads:
        """A `Reads` that has recorded nothing yet, for CTAs that another process executes."""
        return Reads(self.arch)

    def finish(self) -> Reads:
        """What has been seen, in pieces; to be called when the CTAs have come to their end, or will not."""
        for wave in self._waves:
            self._close(wave)
        self._forget()
        return self

    def merge(self, other: Reads) -> None:
        """Take what another one has seen, of CTAs that come after this one's."""
        self.finish()
        for piece in other.pieces.values():
            self._keep(piece)
        self.instructions += other.instructions
        self.ctas |= other.ctas
        self.missed_instructions.update(other.missed_instructions)
        self.copies += other.copies
        self.complete &= other.complete
        self.maps |= {key: use for key, use in other.maps.items() if key not in self.maps}
        self.widths |= {key: read for key, read in other.widths.items() if key not in self.widths}
        self.outside |= {key: load for key, load in other.outside.items() if key not in self.outside}
        self.threads.found = other.threads.found | self.threads.found
        self.pairs |= {key: pair for key, pair in other.pairs.items() if key not in self.pairs}
        for key, reach in other.reaches.items():
            self.reaches[key] = self.reaches[key].joined(reach) if key in self.reaches else reach

    # ---- what is kept

    @property
    def has_seen(self) -> bool:
        """Was there a transfer, or a matrix instruction that reads shared memory?"""
        return bool(self.maps or self.instructions or self.copies or self.pieces or self._waves)

    @property
    def missed(self) -> dict[str, int]:
        """How many instructions were not judged, by the reason."""
        return dict(self.missed_instructions) | ({"tcgen05.cp": self.copies} if self.copies else {})

    @property
    def products(self) -> list[Product]:
        """All products of the pieces that are kept, in the order of execution of each CTA."""
        self.finish()
        if self._products is None:
            self._products = sorted((p for piece in self.pieces.values() for p in piece.products), key=lambda p: (p.cta, p.number))
        return self._products

    @property
    def loads(self) -> list[Issued]:
        """All loads of tiles, of the pieces that are kept."""
        self.finish()
        if self._loads is None:
            self._loads = sorted((load for piece in self.pieces.values() for load in piece.loads), key=lambda load: (load.cta, load.number))
        return self._loads

    def around(self, p: Product) -> list[Issued]:
        """The loads from a little before the first that a product read up to the product: what a wrong descriptor may have missed."""
        used = [load.number for read in p.reads for load in read.loads]
        return [load for load in self.loads if load.cta == p.cta and min(used, default=0) - NEAR <= load.number <= p.number]

    # ---- events

    def __call__(self, x: Wave, event: Event) -> None:
        if isinstance(event, Load | Store):
            self.maps.setdefault((event.map_address, self._map_key(event.tensor_map), event.tensor_map.global_address), event)
        if isinstance(event, Load):
            self._part(x)
            first = x.numbered(event.cta)
            for delivery in event.deliveries:
                self._loaded(x, x.ctas[first.index - first.rank + delivery.cta_rank], event)
        elif isinstance(event, Mma):
            self._part(x)
            self._multiplied(event, {reason for cta in _group_of(x, event) for reason in self._multiply(x, cta, event)})
            self._pair(x, event)
        elif isinstance(event, Copy):
            self.copies += 1

    def loaded(self, x: Wave, loads: Sequence[Load]) -> None:
        """Loads of boxes that lie inside a tensor, which CTAs without a cluster issue alike: as if called with these events one after the other."""
        ctas, first = [x.numbered(load.cta) for load in loads], loads[0]
        numbers, key = [cta.number for cta in ctas], self._map_key(first.tensor_map)
        if x not in self._waves:
            course = self._courses(x)[first.cta] = _Course(first.cta)
            self._together[x] = _SharedCourse(numbers, course)
        its = self._together.get(x)
        is_alike = (
            its is not None and its.ctas == numbers and len({len(cta.shared.writers) for cta in ctas}) == 1 and its.load_alike(loads, key)
        )
        if its is None or not is_alike:
            for load in loads:
                self(x, load)
            return
        self.maps.setdefault((first.map_address, key, first.tensor_map.global_address), first)
        its.loads.append((loads, [cast(Transfer, cta.shared.writers[-1]) for cta in ctas]))
        self._loaded(x, ctas[0], first)

    def _part(self, x: Wave) -> None:
        """CTAs of a wave do not do the same any more: what each has done is noted by itself."""
        its = self._together.pop(x, None)
        if its is not None:
            self._waves[x] |= {course.cta: course for course in its.others()}

    def _multiply_together(self, x: Wave, events: Sequence[Mma]) -> bool:
        """Note what the CTAs of a wave multiply together, once for all; False, and nothing is noted, where each has to be looked at."""
        its = self._together.get(x)
        if its is None:
            return False
        each, rest = divmod(len(events), len(its.ctas))
        own, course = events[:each], its.first
        if rest or not own or own[0].cta_group != 1 or course.looked + each > MOST or not its.are_alike(events, each):
            return False
        noted: dict[tuple[str, int | None], _Noted | None] = {}
        for event in own:
            for side, word in (("a", event.a), ("b", event.b)):
                if (side, word) not in noted:
                    it = self._noted_together(x, its, event, side)
                    if it is None and word is not None:
                        return False
                    noted[side, word] = it
        for k, event in enumerate(own):
            course.count += 1
            course.looked += 1
            its.steps.append((events, each, k))
            course.steps.append(_Step(self.instructions, course.count, event, noted["a", event.a], noted["b", event.b]))
            self.instructions += 1
        self.instructions += len(events) - each
        self.ctas.update(its.ctas)
        return True

    def _noted_together(self, x: Wave, its: _SharedCourse, event: Mma, side: str) -> _Noted | None:
        """An operand that CTAs read alike, where one load has written all its lines, the same in each, and its tensor begins at one place for all."""
        cta = x.numbered(its.first.cta)
        operand, places, _ = self._found(cta, event, side)
        if places is None or places.lines is None:
            return None
        writers = x.owners.of_lines(its.begins(x) + places.lines)
        writer = int(writers[0, 0])
        if not writer or (writers != writer).any():
            return None
        it = self._known(its.first, cta, (event, side), _Found(operand, places, writer))
        return it if isinstance(it, _Noted) and its.begin_alike(it) else None

    def _known(self, course: _Course, cta: Cta, use: tuple[Mma, str], found: _Found) -> _Noted | str | None:
        """`_operand` of one that lies in whole lines of one load: most were looked at before."""
        operand, places, writer = found
        told = _told_before(course, cta, places, writer) if writer and places is not None else None
        if told is not None and operand is not None:
            return _Noted(operand.number, operand.major, *told)
        return None if operand is None else self._operand(course, cta, use, operand, places, writer)

    def multiplied(self, x: Wave, events: Sequence[Mma]) -> None:
        """What one matrix instruction does in several CTAs or pairs, each by itself: as if called with these events one after the other."""
        if self._multiply_together(x, events):
            return
        self._part(x)
        groups = [_group_of(x, event) for event in events]
        found = [{side: self._lines_read(ctas, events, side) for side in ("a", "b")} for ctas in zip(*groups, strict=True)]
        for n, (event, group) in enumerate(zip(events, groups, strict=True)):
            told: set[str] = set()
            for cta, lines in zip(group, found, strict=True):
                told.update(self._multiply(x, cta, event, {side: its[n] for side, its in lines.items()}))
            self._multiplied(event, told)
            self._pair(x, event)

    def _pair(self, x: Wave, event: Mma) -> None:
        """Note what the two CTAs of a pair have brought for one instruction, once for all that do so as far apart."""
        if event.cta_group == 1:
            return
        steps = [self._waves[x][cta.number].steps[-1:] for cta in _group_of(x, event)]
        if not all(own and own[0].event is event for own in steps):
            return
        of_first, of_second = (own[0] for own in steps)
        for side, first, second in (("a", of_first.a, of_second.a), ("b", of_first.b, of_second.b)):
            if first is None or second is None:
                continue
            by = tuple(d - c for c, d in zip(first.loads[0].event.coordinates, second.loads[0].event.coordinates, strict=False))
            key = side, event.instruction.line, first.loads[0].event.map_address, second.loads[0].event.map_address, by
            if key not in self.pairs:
                self.pairs[key] = event, self._read(*first), self._read(*second)

    def _multiplied(self, event: Mma, told: Collection[str]) -> None:
        self.ctas.add(event.cta)
        self.instructions += 1
        if told:
            self.missed_instructions.update(sorted(told)[:1])

    def _lines_read(self, ctas: Sequence[Cta], events: Sequence[Mma], side: str) -> list[_Found]:
        """The operands of events, and the one load that each reads, where it is one and reads whole lines of it."""
        alike: dict[int | None, list[int]] = {}
        for n, event in enumerate(events):
            alike.setdefault(event.a if side == "a" else event.b, []).append(n)
        found = [_Found(None, None, 0)] * len(events)
        for same in alike.values():
            what = events[same[0]].operand(side)
            if what is None:
                continue
            places = self._places_read(ctas[same[0]].shared, what)
            writers = [0] * len(same)
            if places is not None and places.lines is not None:
                lines = SharedMemory.lines_writers([ctas[n].shared for n in same], places.lines)
                writers = (lines[:, 0] * (lines == lines[:, :1]).all(axis=1)).tolist()
            for n, writer in zip(same, writers, strict=True):
                found[n] = _Found(what, places, writer)
        return found

    def _courses(self, x: Wave) -> dict[int, _Course]:
        """What the CTAs of a wave have done."""
        courses = self._waves.get(x)
        if courses is None:
            for wave in [w for w in self._waves if w not in x.launch.waves]:
                self._close(wave)
                del self._waves[wave]
            courses = self._waves[x] = {}
        return courses

    def _course(self, x: Wave, cta: Cta) -> _Course:
        courses = self._courses(x)
        course = courses.get(cta.number)
        if course is None:
            course = courses[cta.number] = _Course(cta.number)
        course.count += 1
        return course

    def _loaded(self, x: Wave, cta: Cta, event: Load) -> None:
        course, transfer = self._course(x, cta), cta.shared.writers[-1]
        if isinstance(transfer, Transfer):
            course.loads[id(transfer)] = Issued(course.count, cta.number, event, transfer, self._map_key(event.tensor_map))

    def _multiply(self, x: Wave, cta: Cta, event: Mma, found: Mapping[str, _Found] | None = None) -> Iterator[str]:
        """Note an instruction's operands, those in one CTA, `found` where they are known already; gives why one is not judged."""
        course = self._course(x, cta)
        course.looked += 1
        if course.looked > MOST:
            self.complete = False
            yield f"instructions of a CTA after its first {MOST:,}"
            return
        noted: list[_Noted | None] = [None, None]
        for n, side in enumerate(("a", "b")):
            operand, places, _ = what = self._found(cta, event, side) if found is None else found[side]
            it = self._known(course, cta, (event, side), what)
            if not isinstance(it, str):
                noted[n] = it
                continue
            if it == _NO_LOAD and places is not None and operand is not None:
                self.threads.look(x, cta, event, side, operand, places.chunks)
            yield it
        course.steps.append(_Step(self.instructions, course.count, event, *noted))

    def _found(self, cta: Cta, event: Mma, side: str) -> _Found:
        """An operand of which nobody has looked for the load yet."""
        operand = event.operand(side)
        return _Found(operand, None if operand is None else self._places_read(cta.shared, operand), 0)

    def _judge(self, course: _Course, step: _Step) -> None:
        """What an instruction of a CTA read, and whether it goes on with the product of those before it."""
        _, number, event, *noted = step
        read_a, read_b = (None if it is None else self._read(*it) for it in noted)
        if read_a is not None and read_b is not None:
            self._past(event, read_a, read_b, {"a": event.k // 2 if event.is_sparse else event.k, "b": event.k})
        a, b = (None if read is None or read.is_fill else read for read in (read_a, read_b))
        if a is not None and b is not None:
            self._reached(event, a, b)
        key = (course.cta, event.thread // WGMMA_THREADS, event.kind, event.d)
        product = course.open.get(key)
        if product is None or event.begins or not _goes_on(product, event, a, b):
            product = course.open[key] = Product(number, course.cta, key, [], [], [], (read_a, read_b))
            course.products.append(product)
        product.events.append(event)
        product.a.append(a)
        product.b.append(b)
        product.missed += read_b is None or (read_a is None and event.a is not None)

    def _reached(self, event: Mma, a: OperandRead, b: OperandRead) -> None:
        """Records how far along K two matrices are multiplied by any CTA."""
        if a.is_matrix and b.is_matrix and not event.is_sparse:
            of_a, of_b, k, bases = a.at[1], b.at[1], event.k, (a.base, b.base)
            before = self.reaches.get(bases)
            if before is None or not (
                before.a_begin <= of_a and of_a + k <= before.a_end and before.b_begin <= of_b and of_b + k <= before.b_end
            ):
                now = Reach(event, a, b, of_a, of_a + k, of_b, of_b + k)
                self.reaches[bases] = now if before is None else before.joined(now)

    def _past(self, event: Mma, a: OperandRead, b: OperandRead, count: dict[str, int]) -> None:
        """Is one operand past the last k, and the other not? Fill times data counts for nothing where the tile's first k are data times data: that is how a
        K ends that is no multiple of the tile's, be it brought in one box or in several."""
        if not (a.is_matrix and b.is_matrix):
            return
        is_past = a.is_past(a.at[1], count["a"])
        if is_past == b.is_past(b.at[1], count["b"]):
            return
        side, read = ("a", a) if is_past else ("b", b)
        begin, is_sparse = min(a.corner[1], b.corner[1]), count["a"] != count["b"]
        if a.at[1] == b.at[1] and not is_sparse and not read.is_past(begin, max(a.k_of_box, b.k_of_box)):
            return
        load = read.loads[0]
        if not read.is_fill or _is_outside(load, read.modes[0][0].dimension) or (b if side == "a" else a).is_fill:
            return
        self.outside.setdefault((side, load.event.instruction.line), (side, load, read.modes[1][0].dimension))

    def _places_read(self, shared: SharedMemory, what: SharedOperand) -> _Places | None:
        """Where an operand lies, None where nobody knows."""
        if what not in self._places:
            if len(self._places) > MOST_CACHED:
                self._places.clear()
            self._places[what] = _places_of(shared, what)
        return self._places[what]

    def _operand(
        self, course: _Course, cta: Cta, use: tuple[Mma, str], what: SharedOperand, places: _Places | None, writer: int
    ) -> _Noted | str | None:
        """An operand, all of one `writer` if that is not 0, or the reason why it is not known; None for what `widths` reports."""
        shared = cta.shared
        if element_format(what.dtype).bits < 8:
            return "operands of 4 or 6 bits"
        if places is None:
            return "descriptors of which nobody knows what they read"
        numbers, pattern = ([writer], b"") if writer else _writers(shared, places)
        loads = [course.loads.get(id(shared.writers[n - 1])) if n else None for n in numbers]
        key = pattern, self._relative(loads)
        told = places.told.get(key)
        if told is None:
            for cache in (places.told, self._matrices, self._ways):
                if len(cache) > MOST_CACHED:
                    cache.clear()
            load = loads[0] if writer else None  # which has written all of the lines
            told = places.told[key] = self._looked_at(shared, places, course, (what.dtype, what.major), load)
        if not isinstance(told, str):
            return _Noted(what.number, what.major, tuple([load for load in loads if load is not None]), told)
        if told == _WIDTH:
            (event, side), load = use, next(load for load in loads if load is not None)
            self.widths.setdefault((side, load.event.instruction.line, event.instruction.line), (side, load, event))
        return None if told == _WIDTH else told

    def _looked_at(self, shared: SharedMemory, places: _Places, course: _Course, form: tuple[str, str], only: Issued | None) -> _Told | str:
        """What an operand of a type and a major is, that of an `only` load where all of it is known to be; of what lies in one load in the same way, what was found
        before."""
        if only is None:
            return self._looked_up(shared, places, course, form)
        begin = only.transfer.smem_address
        chunks = places.chunks + (shared.begin - begin)
        key = only.map_key, only.event.mode, form, begin % PATTERN, chunks.shape, chunks.tobytes()
        before = self._ways.get(key)
        if before is not None:
            return before
        found = self._looked_up(shared, places, course, form)
        if isinstance(found, _Told):
            self._ways[key] = found
        return found

    def _looked_up(self, shared: SharedMemory, places: _Places, course: _Course, form: tuple[str, str]) -> _Told | str:
        """`_looked_at` by the owners of its bytes."""
        writer, place = _owners(shared, places)
        first = int(writer[0, 0])
        load = course.loads.get(id(shared.writers[first - 1])) if first and (writer == first).all() else None
        if load is None:
            return _looked_at(shared, (writer, place), course.loads, *form)
        key = load.map_key, load.event.mode, form, place.shape, place.tobytes()
        if key in self._ways:
            return self._ways[key]
        found = _looked_at(shared, (writer, place), course.loads, *form)
        if isinstance(found, _Told):  # a reason may lie in the load's coordinates
            self._ways[key] = found
        return found

    def _read(self, word: int, major: str, loads: tuple[Issued, ...], told: _Told) -> OperandRead:
        """The operand that looks as another one did, with its own loads."""
        held = tuple(loads[n] for n in told.order)
        first, at = held[0], held[0].event.coordinates
        key = (first.map_key, first.transfer.tensor_map.global_address, told.dimensions, told.is_absolute or at)
        if key not in self._matrices:
            self._matrices[key] = _matrix(first, told.dimensions)
        matrix = self._matrices[key]
        assert isinstance(matrix, Matrix)
        outer, inner = matrix.place(at)
        begin = (outer + told.begin[0], inner + told.begin[1])
        return OperandRead(word, held, matrix, major == "K", begin if major == "K" else begin[::-1], told.share)

    def _relative(self, loads: list[Issued | None]) -> Any:
        """Loads as what they bring, where, and how far from the first one."""
        first = next((load for load in loads if load is not None), None)
        if first is None:
            return None
        base, at = first.transfer.tensor_map.global_address, first.event.coordinates
        if len(loads) == 1:
            return first.alone
        return tuple(
            None if load is None else (
                load.map_key, load.event.mode, load.transfer.smem_address, load.transfer.tensor_map.global_address == base,
                load is first or tuple(c - d for c, d in zip(load.event.coordinates, at, strict=False)),
            ) for load in loads
        )  # fmt: skip

    def _map_key(self, tm: TensorMap) -> str:
        held = self._maps.get(id(tm))
        if held is None:
            key = (tm.call, tm.data_type.name, tm.global_dim, tm.global_strides, tm.box_dim, tm.element_strides, tm.swizzle.name, int(tm.interleave),
                   tm.oob_fill.name)  # fmt: skip
            held = self._maps[id(tm)] = tm, hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()
        return held[1]

    # ---- pieces

    def _close(self, wave: Wave) -> None:
        groups: dict[tuple[Any, ...], list[_Course]] = {}
        its = self._together.pop(wave, None)
        for course in self._waves[wave].values():
            groups.setdefault(course.does(), []).append(course)
        new = {does: alike for does, alike in groups.items() if does not in self._done}
        self._judge_all([alike[0] for alike in new.values()])
        for does, (first, *others) in new.items():
            if not self._keep_all(first):
                rest = [*others, *(() if its is None or its.first is not first else its.others())]
                self._judge_all(rest)
                for course in rest:
                    self._keep_all(course)
            elif len(self._done) < MOST_PIECES:
                self._done.add(does)

    def _judge_all(self, courses: list[_Course]) -> None:
        """Judge all instructions of some CTAs, as they came."""
        steps = [(step, course) for course in courses for step in course.steps]
        for step, course in sorted(steps, key=lambda one: one[0].when):
            self._judge(course, step)

    def _keep_all(self, course: _Course) -> bool:
        """Keep the pieces of a CTA; False where there are too many."""
        pieces = [Piece(course.cta, self._key_of(loads, products), tuple(loads), tuple(products)) for loads, products in _apart(course)]
        for piece in pieces:
            self._keep(piece)
        return all(piece.key in self.pieces for piece in pieces)

    def _keep(self, piece: Piece) -> None:
        if piece.key in self.pieces:
            return
        if len(self.pieces) >= MOST_PIECES:
            if not piece.products:
                return
            self.complete = False
            count = sum(len(p.events) - p.missed for p in piece.products)
            if count:
                reason = f"instructions of CTAs that do something other than the first {MOST_PIECES} different ones"
                self.missed_instructions[reason] += count
            return
        self.pieces[piece.key] = piece
        self._products = self._loads = None

    def _key_of(self, loads: list[Issued], products: list[Product]) -> bytes:
        """What loads and products do, but for where in their tensors the tiles lie."""
        first: dict[Any, tuple[int, ...]] = {}
        key: list[Any] = []
        numbers = {id(load): n for n, load in enumerate(loads)}
        for load in loads:
            at = load.event.coordinates
            origin = first.setdefault((load.event.map_address, load.map_key), at)
            by = tuple(c - d for c, d in zip(at, origin, strict=False))
            key.append((load.event.instruction.line, load.map_key, list(first).index((load.event.map_address, load.map_key)), load.event.mode,
                         load.transfer.smem_address, by, load.clipped))  # fmt: skip
        for p in products:
            key.append(p.accumulator[1:])
            for event, *reads in zip(p.events, p.a, p.b, strict=True):
                key.append(
                    (
                        event.instruction.line,
                        event.m,
                        event.n,
                        event.k,
                        event.a,
                        event.b,
                        event.a_major,
                        event.b_major,
                        event.begins,
                        event.idesc,
                    )
                )
                for read in reads:
                    key.append(None if read is None else (
                        [numbers[id(load)] for load in read.loads], [c - d for c, d in zip(read.at, read.corner, strict=True)], read.share,
                    ))  # fmt: skip
        return hashlib.blake2b(repr(key).encode(), digest_size=16).digest()


class _Found(NamedTuple):
    """An operand in shared memory, where it lies, and the number of the writer of all its lines; 0 where that is not known."""

    operand: SharedOperand | None
    places: _Places | None
    writer: int


_WIDTH = "width"
_NO_LOAD = "operands that no tensor load brought: no tensor map says which tile is meant"
_BASE_OFFSET = BASE_OFFSET.mask << BASE_OFFSET.low  # bits of a descriptor


@dataclasses.dataclass(frozen=True, eq=False)
class _Places:
    """Where an operand's chunks lie, as offsets in the window: (rows, chunks along k), or (chunks along rows, k); -1 outside of the window. `lines` are the
    lines of 128 bytes that they lie in, None where some lie outside. `told` is what is known of operands that lie there, by their writers."""

    chunks: np.ndarray
    lines: np.ndarray | None
    told: dict[Any, _Told | str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class _Told:
    """What is known of an operand: which of its loads are of its tensor, the first element's first, the dimensions that are walked, (outer, inner) of the
    first element from the first load's corner, the share. `is_absolute`: does its matrix begin where the tensor does?"""

    order: tuple[int, ...]
    dimensions: tuple[int, ...]
    begin: tuple[int, int]
    share: float
    is_absolute: bool


def _group_of(x: Wave, event: Mma) -> tuple[Cta, ...]:
    """The CTAs whose operands an instruction multiplies: that of the thread, and its peer."""
    first = x.numbered(event.cta)
    return (first,) if event.cta_group == 1 else (first, x.ctas[first.index ^ 1])


def _told_before(course: _Course, cta: Cta, places: _Places, writer: int) -> tuple[tuple[Issued], _Told] | None:
    """The load that brought all of an operand that lies there, and what is known of such operands, if that was asked before."""
    load = course.loads.get(id(cta.shared.writers[writer - 1]))
    told = None if load is None else places.told.get((b"", load.alone))
    return ((load,), told) if load is not None and isinstance(told, _Told) else None


def _places_of(shared: SharedMemory, what: SharedOperand) -> _Places | None:
    """None where nobody knows."""
    found = _chunks_of(what, shared.arch, shared.begin, shared.end)
    return None if found is None else _Places(*found)


@remembered(512)
def _chunks_of(what: SharedOperand, arch: str, begin: int, end: int) -> tuple[np.ndarray, np.ndarray | None] | None:
    """The chunks and the lines of an operand in a window. A base offset is left out: tensor loads write by absolute addresses, and it moves no tile."""
    per_chunk = element_format(what.dtype).elements_per_chunk(what.packing)
    what = dataclasses.replace(what, word=what.number & ~_BASE_OFFSET)
    try:
        address = what.addresses(arch)
    except SmemsimError:
        return None
    chunks = (address[:, ::per_chunk] if what.major == "K" else address[::per_chunk]).astype(np.int64) - begin
    inside = (chunks >= 0) & (chunks < end - begin)  # a wrong descriptor may leave the window
    return np.where(inside, chunks, -1), distinct(chunks // LINE) if inside.all() else None


def _writers(shared: SharedMemory, places: _Places) -> tuple[list[int], bytes]:
    """The writers that an operand reads, and which of them where."""
    if places.lines is not None:
        lines = shared.line_writers(places.lines)
        low = int(lines.min())
        if low == int(lines.max()) > 0:
            return [low], b""
        if low > 0:
            found, pattern = np.unique(lines, return_inverse=True)
            return found.tolist(), b"lines" + pattern.astype(np.uint16).tobytes()
    found, pattern = np.unique(_owners(shared, places)[0], return_inverse=True)
    return found.tolist(), pattern.astype(np.uint16).tobytes()


def _owners(shared: SharedMemory, places: _Places) -> tuple[np.ndarray, np.ndarray]:
    """(writer, place) of every chunk; 0 outside of the window."""
    inside = places.chunks >= 0
    writer, place = shared.owned(np.where(inside, places.chunks, 0))
    return np.where(inside, writer, 0), place


def _looked_at(
    shared: SharedMemory, owners: tuple[np.ndarray, np.ndarray], known_loads: Mapping[int, Issued], dtype: str, major: str
) -> _Told | str:
    """The tile that an operand is, of which chunks have these `owners`, or the reason why that is not known."""
    writer, place = owners
    if (writer == writer[0, 0]).all():
        numbers, pattern = writer[0, :1], np.zeros(writer.shape, np.intp)
    else:
        numbers, pattern = np.unique(writer, return_inverse=True)
        pattern = pattern.reshape(writer.shape)
    loads = [known_loads.get(id(shared.writers[n - 1])) if n else None for n in numbers.tolist()]
    first = loads[int(pattern.flat[0])]
    if first is None:
        return _NO_LOAD if all(load is None for load in loads) else "operands that begin where no tensor load wrote"
    if not _is_plain(first):
        return "operands of im2col, gathered, strided or interleaved loads"
    tm, size = first.transfer.tensor_map, element_format(dtype).bits // 8
    if tm.type_row.bits != 8 * size:
        return _WIDTH
    same = [n for n, load in enumerate(loads) if load is not None and _is_plain(load) and _is_of(load, tm)]
    held = [load for n in same if (load := loads[n]) is not None]
    dimensions = _walked(first, held)
    matrix = _matrix(first, dimensions)
    if isinstance(matrix, str):
        return matrix
    at, known = np.zeros((*pattern.shape, tm.rank), np.int64), np.isin(pattern, same)
    for n, load in zip(same, held, strict=True):
        at[pattern == n] = load.transfer.tensor_coordinates(place[pattern == n])
    outer, inner, is_one = matrix.index(at)
    known &= is_one
    if same and not known.any() and ((at < 0) | (at >= np.array(tm.global_dim))).any(axis=-1).all():
        return "operands of nothing but out-of-bounds fill: nothing says where in a tensor of several dimensions they begin"
    row, column = np.indices(pattern.shape)
    per_chunk = CHUNK // size
    by = (outer - row, inner - column * per_chunk) if major == "K" else (outer - column, inner - row * per_chunk)
    begin, share = _begin_of(by, known, (int(outer.flat[0]), int(inner.flat[0])))
    if share < 1 and len(dimensions) > 1 and _each_alone(pattern, same, by):
        return "operands whose rows come from several planes of a tensor"
    real = [load for load in loads if load is not None]
    order = tuple(real.index(load) for load in (first, *(load for load in held if load is not first)))
    corner = matrix.place(first.event.coordinates)
    is_absolute = tm.rank == 2
    return _Told(order, dimensions, (begin[0] - corner[0], begin[1] - corner[1]), share, is_absolute)


def _begin_of(by: tuple[np.ndarray, np.ndarray], known: np.ndarray, begin: tuple[int, int]) -> tuple[tuple[int, int], float]:
    """Where an operand begins whose chunks say so, those of them that are `known`, and the share that says that; its first element says `begin`."""
    if not known.any():
        return begin, 0.0
    origins = np.stack([x[known] for x in by], axis=-1)
    if (origins == origins[0]).all():
        origins, counts = origins[:1], np.array([len(origins)])
    else:
        origins, counts = np.unique(origins, axis=0, return_counts=True)
    best = int(counts.argmax())
    share = float(counts[best]) / known.size
    # Most elements say where the operand begins; where they do not agree, or as many say what the first one does, that one, which the strides do not
    # move: of 128 rows of A, 64 may be those of the next box, which belong to no row of D that is stored.
    is_first = counts[(origins == begin).all(axis=1)].max(initial=0) == counts[best]
    return (int(origins[best][0]), int(origins[best][1])) if share >= SURE and not is_first else begin, share


def _each_alone(pattern: np.ndarray, loads: list[int], by: tuple[np.ndarray, np.ndarray]) -> bool:
    """Does each load's part lie as it should, and only the parts to each other do not?"""
    return len(loads) > 1 and all(len(distinct(x[pattern == n])) == 1 for n in loads for x in by)


def _walked(first: Issued, loads: list[Issued]) -> tuple[int, ...]:
    """The dimensions but the contiguous one that an operand runs along: those that its boxes have more than one of, those that move from load to load, and
    those within a row of these. A dimension of one element has a stride that says nothing: CUTLASS writes 0 for a batch of one."""
    tm = first.transfer.tensor_map
    several = [
        n for n in range(1, tm.rank)
        if tm.box_dim[n] > 1 or any(load.event.coordinates[n] != first.event.coordinates[n] for load in loads)
    ]  # fmt: skip
    outer = next((n for n in several if tm.box_dim[n] > 1), 0)
    within = [n for n in range(1, tm.rank) if outer and tm.global_dim[n] > 1 and tm.global_strides[n - 1] < tm.global_strides[outer - 1]]
    return tuple(sorted({*several, *within}))


def _matrix(first: Issued, dimensions: tuple[int, ...]) -> Matrix | str:
    """The matrix that a load's boxes are rows of, or why there is none."""
    tm, at = first.transfer.tensor_map, first.event.coordinates
    size = tm.type_row.bits // 8
    stride = (size, *tm.global_strides)
    main = next((n for n in dimensions if tm.box_dim[n] > 1), 0)
    if not main:
        return "operands of boxes of one row"
    panels = sorted((n for n in dimensions if stride[n] < stride[main]), key=lambda n: stride[n])
    planes = [n for n in dimensions if n != main and stride[n] >= stride[main]]
    inner = [0, *panels]
    steps = [stride[n] for n in inner]
    if stride[main] < tm.global_dim[0] * size or (panels and stride[panels[0]] < tm.global_dim[0] * size) or any(
        b % a for a, b in itertools.pairwise(steps)
    ):  # fmt: skip
        return "operands of tensors whose rows overlap"  # an address does not say which element was meant
    address = tm.global_address + sum(at[n] * stride[n] for n in range(1, tm.rank) if n not in dimensions)
    inner_modes = tuple(
        Mode(n, b // a, a, 0, tm.global_dim[n]) for n, a, b in zip(inner, steps, [*steps[1:], steps[-1]], strict=True)
    )  # fmt: skip
    outer_modes = []
    for n in (main, *planes):
        begin = at[n] if planes else 0
        outer_modes.append(Mode(n, tm.box_dim[n], stride[n], begin, tm.global_dim[n] - begin))
        address += begin * stride[n]
    return Matrix(address, inner_modes, tuple(outer_modes))


def _apart(course: _Course) -> Iterator[tuple[list[Issued], list[Product]]]:
    """A CTA's loads and products in pieces that share no tile and no sum; loads that nobody reads go with those before them."""
    parent: dict[int, int] = {}

    def root(item: int) -> int:
        while parent.setdefault(item, item) != item:
            parent[item] = item = parent[parent[item]]
        return item

    last: dict[Any, Product] = {}
    for p in course.products:
        root(id(p))
        for read in p.reads:
            for load in read.loads:
                parent[root(id(load))] = root(id(p))
        before = last.get(p.accumulator)
        last[p.accumulator] = p
        if (
            before is not None
            and not p.events[0].begins
            and any(x is not None and x == y for x, y in zip(_rows(before), _rows(p), strict=True))
        ):
            parent[root(id(p))] = root(id(before))
    pieces: dict[int, tuple[list[Issued], list[Product]]] = {}
    for p in course.products:
        pieces.setdefault(root(id(p)), ([], []))[1].append(p)
    of, waiting = -1, list[Issued]()
    for load in course.loads.values():
        if id(load) in parent:
            of = root(id(load))
            pieces[of][0].extend([*waiting, load])
            waiting = []
        elif of in pieces:
            pieces[of][0].append(load)
        else:
            waiting.append(load)
    if waiting:
        pieces[-1] = (waiting, [])
    yield from pieces.values()


def _rows(p: Product) -> list[Any]:
    """Which rows of which tensors a product multiplies."""
    return [None if read is None else (read.base, read.at[0]) for read in p.first]


def _is_of(load: Issued, tm: TensorMap) -> bool:
    """Did a load bring of the same tensor, by a map that counts alike?"""
    other = load.transfer.tensor_map
    return (other.global_address, other.rank, other.global_strides, other.type_row.bits) == (
        tm.global_address,
        tm.rank,
        tm.global_strides,
        tm.type_row.bits,
    )


def _is_outside(load: Issued, axis: int) -> bool:
    """Does all of a box lie outside of its tensor along a dimension?"""
    tm, at = load.transfer.tensor_map, load.event.coordinates[axis]
    return at >= tm.global_dim[axis] or at + tm.box_dim[axis] <= 0


def _is_plain(load: Issued) -> bool:
    g, tm = load.transfer.geometry, load.transfer.tensor_map
    return g.mode == "tile" and g.chunk_bytes == CHUNK and not g.has_flip and tm.call == "tiled" and not tm.interleave


def _goes_on(product: Product, event: Mma, a: OperandRead | None, b: OperandRead | None) -> bool:
    """Does an instruction read some of the tiles that the product's first one read?"""
    first = product.events[0]
    if (first.m, first.n, first.k, first.a_major, first.b_major) != (event.m, event.n, event.k, event.a_major, event.b_major):
        return False
    if (a is None) != (product.a[0] is None) or (b is None) != (product.b[0] is None):
        return False
    pairs = [(a, product.a[0]), (b, product.b[0])]
    if _is_another(pairs):
        return False
    if any(x is not None and y is not None and x.loads[0] is y.loads[0] for x, y in pairs):
        return True
    return any(x is not None and y is not None and {load.number for load in x.loads} & {load.number for load in y.loads} for x, y in pairs)


def _is_another(pairs: Sequence[tuple[OperandRead | None, OperandRead | None]]) -> bool:
    """Do the k of both operands begin again as at a product's first instruction, with another tile of one of them? That is a product of its own on one
    accumulator: two tiles of K or of B, which one tile of Q or of A is multiplied with, or the parts of numbers that were split."""
    both = [(now, first) for now, first in pairs if now is not None and first is not None]
    begin_again = len(both) == len(pairs) and all(now.at[1] == first.at[1] for now, first in both)
    return begin_again and any({*now.loads}.isdisjoint(first.loads) for now, first in both)


# ---- Operands that are read as another type than their tensor map brings


# Maps of these bring numbers, which these types read; those of integers bring any bytes.
READ_AS = {"BFLOAT16": ("bf16",), "FLOAT16": ("f16",), "FLOAT32": ("f32", "tf32")}


def other_type(event: Mma, side: str, load: Issued) -> Finding | None:
    """I603 of an instruction descriptor, R508 or, of another width, T211 of a wgmma, where operand `side` ("a", "b") is none of what the load brought."""
    tm, dtype = load.transfer.tensor_map, event.a_type if side == "a" else event.b_type
    right = READ_AS.get(tm.data_type.name, (dtype,))
    if dtype in right:
        return None
    is_word, is_as_wide = event.idesc is not None, element_format(dtype).bits == tm.type_row.bits
    if is_as_wide:
        repair = f"{side}_type {right[0]}{' in the instruction descriptor' if is_word else ''}"
    else:
        repair = (
            f"a kind and {side}_type for {right[0]}" if is_word else f"an instruction for {right[0]}, or a map of the type that is read"
        )
    return at_instruction(
        "I603" if is_word else "R508" if is_as_wide else "T211",
        event.instruction,
        f"operand {side.upper()} is read as {dtype} by {event.instruction.name}; the tensor map of the load at line {load.event.instruction.line} "
        f"says {right[0]}{'' if is_as_wide else ', elements of another width'}",
        repair,
    )


# ---- Do A and B step through the same K, and through all of it? Of the products that add up in one accumulator, each must multiply the
# same k of both operands


def mismatches(reads: Reads) -> list[Finding]:
    """R508 for the first product in which the k of A and of B part, at the load that brought the wrong one."""
    before: dict[tuple[object, ...], Product] = {}
    for p in reads.products:
        a, b = p.a[0], p.b[0]
        if a is None or b is None or not (a.is_matrix and b.is_matrix):
            before.pop(p.accumulator, None)
            continue
        last = before.get(p.accumulator)
        before[p.accumulator] = p
        if last is None or p.events[0].begins:
            continue
        last_a, last_b = last.a[0], last.b[0]
        if last_a is None or last_b is None or (last_a.base, last_b.base) != (a.base, b.base):
            continue
        if (last_a.at[0], last_b.at[0]) != (a.at[0], b.at[0]):  # another tile of the result
            continue
        if a.modes[1][0].extent != b.modes[1][0].extent:  # one of them may be packed: blocks of a sparse matrix
            continue
        step_a, step_b = a.at[1] - last_a.at[1], b.at[1] - last_b.at[1]
        if step_a != step_b:
            return [_found(p, a, b, step_a, step_b)]
    return []


def _found(p: Product, a: OperandRead, b: OperandRead, step_a: int, step_b: int) -> Finding:
    """The operand that stays, or goes the shorter way, is the one that was loaded wrongly."""
    name, wrong, other = ("A", a, b) if abs(step_a) < abs(step_b) else ("B", b, a)
    line = p.events[0].instruction.line
    return at_instruction(
        "R508",
        wrong.loads[0].event.instruction,
        f"the product at line {line} multiplies k = {a.at[1]} of A with k = {b.at[1]} of B: since the one before A went on by {step_a}, B by "
        f"{step_b}; {name}'s tile was loaded at coordinates {wrong.loads[0].event.coordinates}",
        f"load {name} at k = {other.at[1]}, or read it from the stage that holds that",
    )


# ---- coordinates


def swapped(reads: Reads) -> list[Finding]:
    """R508 for loads that have the coordinates of row and k in each other's place.

    Certain where the products that add up in one accumulator go on along the k of one operand, and the tile of the other one goes on by as much along its
    rows, at just the coordinates that its k should have, while its k stays; and both tensors have as many k. Within a tile the instructions must step
    along k, as those do not that read it with the wrong major-ness.
    """
    sums: dict[tuple[object, ...], list[tuple[OperandRead, OperandRead]]] = {}
    for p in reads.products:
        a, b = p.first
        if a is None or b is None or not (a.is_matrix and b.is_matrix and _steps_along_k(p)):
            sums.pop(p.accumulator, None)
            continue
        held = sums.setdefault(p.accumulator, [])
        if p.events[0].begins or not held or (held[0][0].base, held[0][1].base) != (a.base, b.base):
            held.clear()
        held.append((a, b))
        for name, wrong, other in (("A", 0, 1), ("B", 1, 0)):
            if _goes_along_rows([(one[wrong], one[other]) for one in held[-2:]]):
                return [_found_swapped(name, held[-1][wrong], held[-1][other])]
    return []


def _steps_along_k(p: Product) -> bool:
    """Do the instructions of a product go on along the k of both tiles?"""
    steps = [(one, two, event.k) for side in (p.a, p.b) for one, two, event in zip(side, side[1:], p.events, strict=False)]
    return bool(steps) and all(
        one is None or two is None or (two.at[0] == one.at[0] and two.at[1] == one.at[1] + k) for one, two, k in steps
    )  # fmt: skip


def _goes_along_rows(held: list[tuple[OperandRead, OperandRead]]) -> bool:
    """Do rows of the first operand go where its k should, as the k of the second one does?"""
    if len(held) < 2:
        return False
    (now, other), (then, other_then) = held
    rows, k = [read.corner[0] for read in (now, then)], [read.corner[1] for read in (other, other_then)]
    stays = now.corner[1] == then.corner[1] and other.corner[0] == other_then.corner[0]
    return stays and rows == k and rows[0] != rows[1] and now.modes[1][0].extent == other.modes[1][0].extent


def _found_swapped(name: str, wrong: OperandRead, other: OperandRead) -> Finding:
    load, at = wrong.loads[0], wrong.loads[0].event.coordinates
    names = "{k, row}" if wrong.along_k else "{row, k}"
    return at_instruction(
        "R508",
        load.event.instruction,
        f"the coordinates of {name}'s tile are swapped: it is loaded at {list(at)}, k = {wrong.corner[1]} and rows from {wrong.corner[0]} on, for a product "
        f"with k = {other.corner[1]} of the other operand; from product to product its rows go on, and its k stays",
        f"coordinates {names}, dimension 0 (the contiguous one) first: [{at[1]}, {at[0]}] here",
    )


# ---- the whole of K


def unreached(reads: Reads, memory: GlobalMemory) -> list[Finding]:
    """R508 where nobody multiplies the last (or the first) tile of K: a loop with a trip too few.

    Certain only where all instructions of all CTAs are known, both maps have the same K, both operands end at the same k, every sum has all of what anybody
    multiplies, two tiles at least, one tile is left, and neither operand is zero there, as what pads a tensor is. The caller knows that all of the grid has
    run.
    """
    if not reads.complete or reads.missed_instructions:
        return []
    for reach in reads.reaches.values():
        extent = reach.a.modes[1][0].extent
        tile = max(reach.a.k_of_box, reach.b.k_of_box)
        same = (reach.a_begin, reach.a_end) == (reach.b_begin, reach.b_end) and extent == reach.b.modes[1][0].extent
        if not same or reach.a_end - reach.a_begin < 2 * tile or not _are_whole(reads, reach):
            continue
        for begin, end in ((reach.a_end, extent), (0, reach.a_begin)):
            if 0 < end - begin <= tile and _has_data(memory, reach.a, begin, end) and _has_data(memory, reach.b, begin, end):
                return [_found_unreached(reach, begin, end, extent)]
    return []


def _are_whole(reads: Reads, reach: Reach) -> bool:
    """Has every sum all the k that anybody multiplies, each once?"""
    sums: list[list[tuple[int, int]]] = []
    last: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for p in reads.products:
        steps = [(read.at[1], event.k) for read, event in zip(p.a, p.events, strict=True) if read is not None and read.base == reach.a.base]
        if not steps:
            continue
        before = last.get(p.accumulator)
        if before is None or p.events[0].begins or steps[0][0] <= before[-1][0]:
            before = last[p.accumulator] = []
            sums.append(before)
        before += steps
    wanted = reach.a_end - reach.a_begin
    return all(sum(count for _, count in one) == wanted == max(k + count for k, count in one) - min(one)[0] for one in sums)


def _has_data(memory: GlobalMemory, read: OperandRead, begin: int, end: int) -> bool:
    """Is anything but zero there, between two k of an operand's matrix?"""
    tm = read.loads[0].transfer.tensor_map
    size, pitch, (columns, rows) = tm.type_row.bits // 8, tm.global_strides[0], tm.global_dim
    first, last, high, low = (begin, end, 0, rows) if read.along_k else (0, columns, begin, end)
    try:
        raw = memory.span(tm.global_address + high * pitch, (low - high - 1) * pitch + columns * size)
    except SmemsimError:
        return False
    lines = np.lib.stride_tricks.as_strided(raw, (low - high, columns * size), (pitch, 1))
    return bool(lines[:, first * size : last * size].any())


def _found_unreached(reach: Reach, begin: int, end: int, extent: int) -> Finding:
    trip = "the last" if begin else "the first"
    return at_instruction(
        "R508",
        reach.event.instruction,
        f"nobody multiplies k = {begin} to {end - 1} of A and B: their maps have K = {extent}, and all products of the launch add up k = {reach.a_begin} to "
        f"{min(reach.a_end, extent) - 1}",
        f"one more trip of the loop over k, for {trip} tile",
    )


# ---- Is all of a tile read that TMA brings for a matrix instruction, and as the type that its map has?


@dataclasses.dataclass(eq=False)
class _Tile:
    """A load that is an operand: what lies inside the tensor (outer axis, contiguous axis), what was read of it, and by which instructions.

    `turned` are those by their major-ness: does K run along the contiguous axis?
    """

    load: Issued
    side: str
    read: OperandRead
    wanted: np.ndarray
    turned: dict[bool, list[Mma]] = dataclasses.field(default_factory=dict)

    def mark(self, read: OperandRead, event: Mma, rows: int, k: int) -> None:
        along_k = read.along_k
        self.turned.setdefault(along_k, []).append(event)
        inner, outer = self.load.event.coordinates
        at = (read.at, (rows, k)) if along_k else (read.at[::-1], (k, rows))
        (far, near), (high, wide) = at
        far, near = far - outer, near - inner
        self.wanted[max(far, 0) : max(far + high, 0), max(near, 0) : max(near + wide, 0)] = False


def unread(reads: Reads, elsewhere: Collection[int] = ()) -> list[Finding]:
    """Parts of tiles that no instruction reads (rows: I603 of tcgen05's N and M, R504 of wgmma; others: R505, R508), and operands of another type
    than their map (I603, R508). `elsewhere` are the lines of loads whose tiles others read too, threads or stores: nothing of these is missed."""
    findings: dict[str, Finding] = {}
    tiles: dict[tuple[int, int, str], _Tile] = {}
    for p in reads.products:
        for side in ("a", "b"):
            rows = (p.events[0].m if side == "a" else p.events[0].n) // p.events[0].cta_group
            for event, read in zip(p.events, getattr(p, side), strict=True):
                if read is None or not read.is_matrix:
                    continue
                sure = read.share >= SURE
                if sure and (other := other_type(event, side, read.loads[0])) is not None:
                    findings.setdefault(f"type {side}", other)
                for load in read.loads:
                    key = load.cta, load.number, side
                    tile = tiles.get(key) or tiles.setdefault(key, _Tile(load, side, read, _inside(load)))
                    if load.event.instruction.line in elsewhere:
                        tile.wanted[:] = False
                    if sure:
                        tile.mark(read, event, rows, event.k // (2 if event.is_sparse and side == "a" else 1))
                    else:
                        tile.wanted[:] = False
    if reads.complete:
        left = next((tile for tile in tiles.values() if tile.wanted.any()), None)
        if left is not None:
            findings["unread"] = _of(left, tiles.get((left.load.cta, left.load.number, "b" if left.side == "a" else "a")))
        elif (panel := _panel(reads, tiles, elsewhere)) is not None:
            findings["unread"] = panel
    return list(findings.values())


def turned(reads: Reads) -> list[Finding]:
    """Of the instructions that add into one accumulator and read the same tiles: R505 where some read one K-major and others MN-major, R508 where a
    few read A's as B and B's as A. A cause: nothing else that is found of these instructions says what is wrong."""
    last: dict[tuple[object, ...], Product] = {}
    for p in reads.products:
        before = last.get(p.accumulator)
        last[p.accumulator] = p
        if before is None or p.events[0].begins:
            continue
        odd, rest = (before, p) if len(before.events) < len(p.events) else (p, before)
        are_few = len(odd.events) < len(rest.events)  # sums of A B and B A, or of a symmetric matrix's halves, have as many of each
        tensors = [[None if read is None else read.base for read in (q.a[0], q.b[0])] for q in (odd, rest)]
        if are_few and None not in tensors[0] and tensors[0] == tensors[1][::-1] != tensors[1]:
            return [_swapped(odd, rest)]
        for n, side in enumerate(("a", "b")):
            one, two = getattr(odd, side)[0], getattr(rest, side)[0]
            if one is None or two is None or one.along_k == two.along_k:
                continue
            if one.loads[0] is not two.loads[0] and not (are_few and tensors[0][n] == tensors[1][n]):
                continue
            has, wants = ("K", "MN") if one.along_k else ("MN", "K")
            return [
                at_instruction(
                    "R505",
                    odd.events[0].instruction,
                    f"{side.upper()} is read {has}-major here; line {rest.events[0].instruction.line}, which adds into the same D, reads the tile that line "
                    f"{two.loads[0].event.instruction.line} brings {wants}-major",
                    _as_written(odd.events[0], side, wants),
                )
            ]
    return []


def _as_written(event: Mma, side: str, major: str) -> str:
    """The other major-ness of an operand, as its instruction spells it."""
    bit = int(major == "MN")
    if event.idesc is None:
        return f"{side.upper()} {major}-major: imm-trans-{side} = {bit} at line {event.instruction.line}"
    place = InstrDescriptor.decode(event.idesc, kind=event.kind).table.fields[f"transpose_{side}"].low
    return f"{side.upper()} {major}-major: bit {place} of the instruction descriptor (transpose {side.upper()}) = {bit}"


def _swapped(odd: Product, rest: Product) -> Finding:
    return at_instruction(
        "R508",
        odd.events[0].instruction,
        f"the tile of A is read as B here, and that of B as A; line {rest.events[0].instruction.line}, which adds into the same D, reads them the other way",
        "swap the descriptors of A and B",
    )


def _panel(reads: Reads, tiles: dict[tuple[int, int, str], _Tile], elsewhere: Collection[int]) -> Finding | None:
    """A tile that nobody reads, next to one of the same map and the same k that an instruction does read: N or M is too small."""
    used = {(cta, number) for cta, number, _ in tiles}
    idle: dict[tuple[int, int, int, int], Issued] = {}
    for load in reads.loads:
        if (
            (load.cta, load.number) not in used
            and load.event.instruction.line not in elsewhere
            and load.event.mode == "tile"
            and load.transfer.tensor_map.rank == 2
            and _inside(load).any()
        ):
            for axis, at in enumerate(load.event.coordinates):
                idle.setdefault((load.cta, load.event.map_address, axis, at), load)
    for tile in tiles.values():
        along_k, events = max(tile.turned.items(), key=lambda one: len(one[1]), default=(True, []))
        axis = 0 if along_k else 1
        other = idle.get((tile.load.cta, tile.load.event.map_address, axis, tile.load.event.coordinates[axis]))
        if events and other is not None and 0 < abs(other.number - tile.load.number) < NEAR:
            event, name = events[0], "M" if tile.side == "a" else "N"
            return at_instruction(
                "I603" if event.idesc is not None else "R504",
                event.instruction,
                f"nobody reads the tile that line {other.event.instruction.line} brings at coordinates {other.event.coordinates}, next to that at "
                f"{tile.load.event.coordinates}, which is {tile.side.upper()} here: {name} = {event.m if tile.side == 'a' else event.n}",
                f"a larger {name}, or an instruction for the other tile",
            )
    return None


def _inside(load: Issued) -> np.ndarray:
    """Which elements of a load's box lie inside the tensor, (rows, columns)."""
    tm = load.transfer.tensor_map
    columns, rows = (
        (np.arange(at, at + size) >= 0) & (np.arange(at, at + size) < extent)
        for at, size, extent in zip(load.event.coordinates, tm.box_dim, tm.global_dim, strict=True)
    )
    found: np.ndarray = rows[:, None] & columns
    return found


def _of(tile: _Tile, other: _Tile | None) -> Finding:
    """The part of a tile that nobody reads: whole rows, or because an instruction takes it for the other operand, or turned, or another K."""
    along_k, events = max(tile.turned.items(), key=lambda one: len(one[1]))
    name, line = tile.side.upper(), tile.load.event.instruction.line
    by_row = tile.wanted if along_k else tile.wanted.T
    missing = np.asarray(by_row.any(1))
    if (by_row.all(1) == missing).all():
        return _of_rows(tile, events[0], missing)
    rows, k = np.flatnonzero(missing), np.flatnonzero(by_row.any(0))
    part = f"nobody reads rows {rows[0]} to {rows[-1]}, k {k[0]} to {k[-1]}, of the tile of {name} that line {line} brings"
    if other is not None and len(other.turned) == 1:
        mine, yours = (sum(map(len, one.turned.values())) for one in (tile, other))
        odd, as_what = (other, name) if mine >= yours else (tile, other.side.upper())
        event = next(iter(odd.turned.values()))[0]
        return at_instruction(
            "R508",
            event.instruction,
            f"{part} as {name}: it is read as {odd.side.upper()} here, and as {as_what} by most",
            "swap the descriptors of A and B",
        )
    if len(tile.turned) > 1:
        odd_event = tile.turned[not along_k][0]
        wanted, has = ("K", "MN") if along_k else ("MN", "K")
        return at_instruction(
            "R505",
            odd_event.instruction,
            f"{part}: {name} is read {has}-major here, and {wanted}-major by the others",
            _as_written(odd_event, tile.side, wanted),
        )
    return at_instruction("R508", events[0].instruction, part, "issue the K steps that read it, at the right places")


def _of_rows(tile: _Tile, event: Mma, missing: np.ndarray) -> Finding:
    name, size = ("M", event.m) if tile.side == "a" else ("N", event.n)
    name_of, line = tile.side.upper(), tile.load.event.instruction.line
    where = "the instruction descriptor" if event.idesc is not None else "the instruction"
    rows = np.flatnonzero(missing)
    first = int(rows[0])
    if first == 0 and rows[-1] + 1 == len(rows) < len(missing):
        return at_instruction(
            "R508",
            event.instruction,
            f"{name_of} begins at row {len(rows)} of the tile that line {line} brings: nobody reads the {len(rows)} before it",
            "a descriptor whose start address is that of the tile's first row",
        )
    return at_instruction(
        "I603" if event.idesc is not None else "R504",
        event.instruction,
        f"{where} has {name} = {size}: of the {len(missing)} rows of {name_of} that line {line} brings for it, nobody reads those from {first} on "
        f"({len(rows)} rows)",
        f"{name} = {len(missing) * event.cta_group}, or a smaller box"
        if first == size // event.cta_group
        else "read the other rows too, or load a smaller box",
    )


# ---- What a launch's tensor maps say, held against the arrays they point into, and tiles that lie outside of them


def of_maps(reads: Reads, launch: Launch, known_wrong: Collection[int] = ()) -> list[Finding]:
    """The findings about tensor maps; each is a cause, and other findings of the same tiles follow from it.

    `known_wrong` are lines of loads whose coordinates are known to be wrong already.
    """
    outside = (f for f in _outside(reads, launch) if f.line not in known_wrong)
    return [*_misfits(reads, launch), *_pitches(reads, launch.arch), *_widths(reads), *outside]


def _misfits(reads: Reads, launch: Launch) -> list[Finding]:
    """T207 for maps whose rows overlap, where the array behind has all the bytes of rows one behind the other: for a stride that is the number of a
    row's elements that many at least, for others just as many (the windows of a longer row are fewer bytes apart than there are in the array)."""
    findings = []
    for event in reads.maps.values():
        tm = event.tensor_map
        size = tm.type_row.bits // 8
        if tm.call != "tiled" or tm.rank < 2 or tm.interleave or not size:
            continue
        stride, row, rows = tm.global_strides[0], tm.global_dim[0] * size, tm.global_dim[1]
        room = _room(launch.memory, tm)
        all_rows = math.prod(n for n, step in zip(tm.global_dim[1:], tm.global_strides, strict=True) if step)
        is_elements = size > 1 and stride == tm.global_dim[0] and room >= all_rows * row
        if stride >= row or not (is_elements or (tm.rank == 2 and rows > 1 and room == rows * row)):
            continue
        made, begins = (
            described(launch, event.map_address, tm),
            f"row 1 begins in the middle of row 0, and {_behind(launch, tm)} holds {rows} rows of",
        )
        if made is not None:
            k, wide = tm.rank - 2, tm.global_dim[0]
            message = f"strides[{k}] of {made} is {made.strides[k]} elements: {begins} {wide} elements"
            repair = f"strides[{k}] = {wide} (elements, not bytes)"
            if tm.rank == 2 and room % stride == 0 and not is_elements:
                repair += f", or shape = [{room // stride}, {stride // size}] where rows have {stride // size}"
            findings.append(at_instruction("T207", event.instruction, message, repair, arrays=(tm.global_address,)))
            continue
        what = f"is the number of elements of dimension 0, of {size} B each" if is_elements else f"is less than the {row} B of dimension 0"
        findings.append(
            at_instruction(
                "T207",
                event.instruction,
                f"global_strides[0] = {stride} B {what}: {begins} {row} B",
                f"strides are bytes: global_strides[0] = {row}",
                arrays=(tm.global_address,),
            )
        )
    return findings


def _behind(launch: Launch, tm: TensorMap) -> str:
    """The array behind a map, by its name where it has one."""
    begin, held = launch.memory.region(tm.global_address)
    return f"{region_name(launch, begin, begin + len(held))} behind the map"


def _room(memory: GlobalMemory, tm: TensorMap) -> int:
    """Bytes of the array behind a map, from its address on."""
    try:
        begin, held = memory.region(tm.global_address)
    except InputError:
        return 0
    return begin + len(held) - tm.global_address


def _outside(reads: Reads, launch: Launch) -> list[Finding]:
    """T209 for loads past the last k of one operand's tensor, where the other operand's tile is still inside of its own."""
    findings: dict[int, Finding] = {}
    for side, load, axis in reads.outside.values():
        i, tm = load.event.instruction, load.transfer.tensor_map
        at, extent = load.event.coordinates[axis], tm.global_dim[axis]
        other, coordinates = "B" if side == "a" else "A", list(load.event.coordinates)
        end = f"and the tile of {other} that it is multiplied with lies inside of its tensor"
        made = described(launch, load.event.map_address, tm)
        if made is not None:
            k = tm.rank - 1 - axis
            message = (
                f"the block of {side.upper()} at {coordinates[::-1]} is nothing but out-of-bounds fill: index {at} of dimension {k} is outside of shape "
                f"{list(made.shape)} of {made} (strides {list(made.strides)} elements), {end}"
            )
            repair = f"check index {k} of the load, and shape[{k}] = {made.shape[k]}"
        else:
            message = (
                f"the tile of {side.upper()} at coordinates {coordinates} is nothing but out-of-bounds fill: coordinate {at} of dimension {axis} is outside of "
                f"the map's extent {extent}, {end}"
            )
            repair = f"coordinates and global_dim count elements, dimension 0 first: check coordinate {axis} of the load, and global_dim = {list(tm.global_dim)}"
        findings.setdefault(i.line, at_instruction("T209", i, message, repair, arrays=(tm.global_address,)))
    return list(findings.values())


def _pitches(reads: Reads, arch: str) -> list[Finding]:
    """R501 for boxes without swizzle whose rows are wider than those of the swizzled descriptor that reads them."""
    findings: dict[int, Finding] = {}
    for p in reads.products:
        for side, read in (("a", p.a[0]), ("b", p.b[0])):
            if read is None:
                continue
            load, tm = read.loads[0], read.loads[0].transfer.tensor_map
            swizzle = SmemDescriptor.decode(read.word, arch=arch).swizzle
            row, span = tm.box_dim[0] * tm.type_row.bits // 8, MODES[swizzle].width if swizzle in MODES else 0
            if tm.swizzle.name != "SWIZZLE_NONE" or swizzle == Swizzle.NONE or not 0 < span < row or tm.rank != 2:
                continue
            right = span * 8 // tm.type_row.bits
            turned = tm.box_dim[1] == right
            findings.setdefault(
                load.event.instruction.line,
                at_instruction(
                    "R501",
                    load.event.instruction,
                    f"the map's box_dim = {list(tm.box_dim)} without swizzle lays down rows of {row} B; operand {side.upper()} of line "
                    f"{p.events[0].instruction.line} is read in rows of {span} B with swizzle {swizzle}",
                    f"box_dim = [{right}, {tm.box_dim[0] if turned else tm.box_dim[1]}] (dimension 0, the contiguous one, first) and swizzle = {swizzle}",
                ),
            )
    return list(findings.values())


def _widths(reads: Reads) -> list[Finding]:
    """I603 or T211 for operands that are read as elements of another width than those that their map has."""
    findings: dict[str, Finding] = {}
    for side, load, event in reads.widths.values():
        if (other := other_type(event, side, load)) is not None:
            findings.setdefault(side, other)
    return list(findings.values())


# ---- What CTAs of a cluster do with each other's windows: addresses of mapa that never leave the CTA


DATA = {"ld", "st", "atom", "red"}
SPACES = frozenset(("global", "shared", "shared::cta", "local", "param", "const"))
MOVES = {"mov", "add", "sub", "mad", "or", "cvt"}  # that make an address of another
HOPS = 4


def own_ranks(launch: Launch) -> list[Finding]:
    """X019 for each mapa that CTAs of all ranks execute, each with its own rank, where data is read or written through the address."""
    everybody = frozenset(range(launch.cluster_size))
    lines = {line for line, (ranks, crossed) in launch.mapped.items() if ranks == everybody and not crossed}
    body = launch.program.inlined.body
    return [
        at_instruction(
            "X019",
            i,
            f"every CTA of the cluster ({launch.cluster_size} of them) gives mapa its own rank: what is read or written through the address stays in the CTA",
            "give mapa the rank of the other CTA, such as %cluster_ctarank ^ 1 of two",
        )
        for i in (body if lines else ())
        if i.op == "mapa" and i.line in lines and _is_used_for_data(body, i)
    ]


def _is_used_for_data(body: list[Instruction], mapa: Instruction) -> bool:
    """Does a load, store or atomic of .shared::cluster (or a generic one, where mapa makes a generic address) take the address, or one made of it?"""
    slots, is_generic = _slots(mapa.operands[0]), "shared::cluster" not in mapa.modifiers
    for _ in range(HOPS):
        slots |= {s for i in body if i.op in MOVES and any(slots & _slots(o) for o in i.operands[1:]) for s in _slots(i.operands[0])}
    return any(
        i.op in DATA
        and ("shared::cluster" in i.modifiers or (is_generic and SPACES.isdisjoint(i.modifiers)))
        and any(isinstance(o, Address) and slots & _slots(o) for o in i.operands)
        for i in body
    )


def _slots(operand: Operand) -> set[int]:
    if isinstance(operand, Address):
        return _slots(operand.base)
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return {item.slot for item in items if isinstance(item, Register)}
