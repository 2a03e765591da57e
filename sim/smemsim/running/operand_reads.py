"""What matrix instructions really read: for each operand the place in the tensor that its first element came from, and the loads behind it.

Every instruction of every CTA is seen. What a CTA does falls into pieces that share no tile and no sum (the tiles of the result that it computes one
after the other); of pieces that are alike but for where in their tensors the tiles lie, the first one is kept.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import SmemsimError
from smemsim.gpu.events import Copy, Event, Load, Mma, Store
from smemsim.machine.memory import SharedMemory
from smemsim.machine.transfer import Transfer
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK, LINE
from smemsim.spec.wgmma import WGMMA_THREADS

if TYPE_CHECKING:
    from smemsim.gpu.wave import Cta, Wave

__all__ = ["Issued", "Matrix", "OperandRead", "Piece", "Product", "Reads"]

MOST = 1 << 16  # matrix instructions of a CTA that are kept until its end
MOST_PIECES = 256  # pieces that differ, of which each is judged
MOST_CACHED = 1 << 14
NEAR = 64  # events of a CTA
SURE = 0.5  # share of the elements


@dataclasses.dataclass(frozen=True, eq=False)
class Issued:
    """A load that brought a tile into a CTA's shared memory: its number in the CTA's order of execution, the CTA, and where the tile went."""

    number: int
    cta: int
    event: Load
    transfer: Transfer
    map_key: str  # what its map says but for the address


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
        found = []
        for modes in (self.outer, self.inner):
            index, weight = np.zeros(coordinates.shape[:-1], np.int64), 1
            for n, mode in enumerate(modes):
                at = coordinates[..., mode.dimension] - mode.first
                index = index + at * weight
                if n < len(modes) - 1:
                    is_one &= (at >= 0) & (at < mode.size)
                weight *= mode.size
            found.append(index)
        return found[0], found[1], is_one

    def place(self, coordinates: tuple[int, ...]) -> tuple[int, int]:
        """(outer, inner) index of one element."""
        found = []
        for modes in (self.outer, self.inner):
            index, weight = 0, 1
            for mode in modes:
                index += (coordinates[mode.dimension] - mode.first) * weight
                weight *= mode.size
            found.append(index)
        return found[0], found[1]


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
        load = self.loads[0]
        return any(_is_outside(load, axis) for axis in range(load.transfer.tensor_map.rank))

    @property
    def modes(self) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
        """Those of rows and those of k."""
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
        """Where the tensor begins."""
        return self.loads[0].transfer.tensor_map.global_address

    @property
    def is_matrix(self) -> bool:
        """Is the tensor one?"""
        return self.loads[0].transfer.tensor_map.rank == 2

    @property
    def corner(self) -> tuple[int, int]:
        """(row, k) at which the tile begins that the first element lies in."""
        outer, inner = self.matrix.place(self.loads[0].event.coordinates)
        return (outer, inner) if self.along_k else (inner, outer)

    @property
    def k_of_box(self) -> int:
        """How many k a box has."""
        return int(self.loads[0].transfer.tensor_map.box_dim[self.modes[1][0].dimension])

    def is_past(self, k: int, count: int) -> bool:
        """Do `count` elements from a k on all lie outside of the tensor?"""
        extent = self.modes[1][0].extent
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

    @property
    def reads(self) -> Iterator[OperandRead]:
        """All that TMA loaded of both operands."""
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
        """Of both."""
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


@dataclasses.dataclass(eq=False)
class _Course:
    """What a CTA has done so far."""

    cta: int
    count: int = 0
    looked: int = 0
    loads: dict[int, Issued] = dataclasses.field(default_factory=dict)  # by the identity of the transfer, which stays alive here
    products: list[Product] = dataclasses.field(default_factory=list)
    open: dict[tuple[Any, ...], Product] = dataclasses.field(default_factory=dict)


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
        self._products: list[Product] | None = None
        self._loads: list[Issued] | None = None
        self._forget()

    def _forget(self) -> None:
        self._waves: dict[Wave, dict[int, _Course]] = {}
        self._maps: dict[int, tuple[TensorMap, str]] = {}  # by identity: what a map says but for its address
        self._places: dict[Any, _Places | None] = {}
        self._seen: dict[Any, Any] = {}
        self._matrices: dict[Any, Matrix | str] = {}

    # ---- pieces of other processes

    def fresh(self) -> Reads:
        """One that has seen nothing, for CTAs that another process executes."""
        return Reads(self.arch)

    def finish(self) -> Reads:
        """What has been seen, in pieces; to be called when the CTAs have come to their end, or will not."""
        for courses in self._waves.values():
            self._close(courses)
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
        for key, reach in other.reaches.items():
            self.reaches[key] = self.reaches[key].joined(reach) if key in self.reaches else reach

    # ---- what is kept

    @property
    def missed(self) -> dict[str, int]:
        """What is not judged, by its reason, and how often that was so."""
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
            first = next(c for c in x.ctas if c.number == event.cta)
            for delivery in event.deliveries:
                self._loaded(x, x.ctas[first.index - first.rank + delivery.cta_rank], event)
        elif isinstance(event, Mma):
            first = next(c for c in x.ctas if c.number == event.cta)
            self.ctas.add(event.cta)
            self.instructions += 1
            pair = [first] if event.cta_group == 1 else [x.ctas[first.index ^ n] for n in (0, 1)]
            told = {reason for cta in pair for reason in self._multiply(x, cta, event)}
            self.missed_instructions.update(sorted(told)[:1])
        elif isinstance(event, Copy):
            self.copies += 1

    def _course(self, x: Wave, cta: Cta) -> _Course:
        courses = self._waves.get(x)
        if courses is None:
            for wave in [w for w in self._waves if w not in x.launch.waves]:
                self._close(self._waves.pop(wave))
            courses = self._waves[x] = {}
        course = courses.setdefault(cta.number, _Course(cta.number))
        course.count += 1
        return course

    def _loaded(self, x: Wave, cta: Cta, event: Load) -> None:
        course, transfer = self._course(x, cta), cta.shared.writers[-1]
        if isinstance(transfer, Transfer):
            course.loads[id(transfer)] = Issued(course.count, cta.number, event, transfer, self._map_key(event.tensor_map))

    def _multiply(self, x: Wave, cta: Cta, event: Mma) -> Iterator[str]:
        """Note an instruction's operands, those in one CTA; gives why one is not judged."""
        course = self._course(x, cta)
        course.looked += 1
        if course.looked > MOST:
            self.complete = False
            yield f"instructions of a CTA after its first {MOST:,}"
            return
        part = event.cta_group
        k = {"a": event.k // 2 if event.is_sparse else event.k, "b": event.k}
        found: dict[str, OperandRead | None] = {"a": None, "b": None}
        for side, rows in (("a", event.m // part), ("b", event.n // part)):
            if getattr(event, side) is not None:
                told = self._operand(course, cta, event, side, rows, k[side])
                if isinstance(told, str):
                    yield told
                elif told is not None:
                    found[side] = told
        a, b = found["a"], found["b"]
        if a is not None and b is not None:
            self._past(event, a, b, k)
        first = a, b
        a, b = (None if read is None or read.is_fill else read for read in (a, b))
        if a is not None and b is not None:
            self._reached(event, a, b)
        key = (cta.number, event.thread // WGMMA_THREADS, event.kind, event.d)
        product = course.open.get(key)
        if product is None or not event.scale_d or not _goes_on(product, event, a, b):
            product = course.open[key] = Product(course.count, cta.number, key, [], [], [], first)
            course.products.append(product)
        product.events.append(event)
        product.a.append(a)
        product.b.append(b)

    def _reached(self, event: Mma, a: OperandRead, b: OperandRead) -> None:
        """How far along K two matrices are multiplied, by anybody."""
        if a.is_matrix and b.is_matrix and not event.is_sparse:
            now = Reach(event, a, b, *(k for read in (a, b) for k in (read.at[1], read.at[1] + event.k)))
            before = self.reaches.get((a.base, b.base))
            if before is None or not (
                before.a_begin <= now.a_begin and now.a_end <= before.a_end and before.b_begin <= now.b_begin and now.b_end <= before.b_end
            ):
                self.reaches[a.base, b.base] = now if before is None else before.joined(now)

    def _past(self, event: Mma, a: OperandRead, b: OperandRead, count: dict[str, int]) -> None:
        """Is one operand past the last k, and the other not? Fill times data counts for nothing where the tile's first k are data times data: that is how a
        K ends that is no multiple of the tile's, be it brought in one box or in several."""
        if not (a.is_matrix and b.is_matrix):
            return
        past = {"a": a.is_past(a.at[1], count["a"]), "b": b.is_past(b.at[1], count["b"])}
        if past["a"] == past["b"]:
            return
        side, read = ("a", a) if past["a"] else ("b", b)
        begin, is_sparse = min(a.corner[1], b.corner[1]), count["a"] != count["b"]
        if a.at[1] == b.at[1] and not is_sparse and not read.is_past(begin, max(a.k_of_box, b.k_of_box)):
            return
        load = read.loads[0]
        if not read.is_fill or _is_outside(load, read.modes[0][0].dimension) or (b if side == "a" else a).is_fill:
            return
        self.outside.setdefault((side, load.event.instruction.line), (side, load, read.modes[1][0].dimension))

    def _operand(self, course: _Course, cta: Cta, event: Mma, side: str, rows: int, k: int) -> OperandRead | str | None:
        """What an operand reads; why that is not known; None for what is told elsewhere (`widths`)."""
        word, dtype, major = (getattr(event, name) for name in (side, f"{side}_type", f"{side}_major"))
        shared = cta.shared
        if element_format(dtype).bits < 8:
            return "operands of 4 or 6 bits"
        what = (word, dtype, major, rows, k)
        if what not in self._places:
            self._places[what] = _places_of(shared, what)
        places = self._places[what]
        if places is None:
            return "descriptors of which nobody knows what they read"
        numbers, pattern = _writers(shared, places)
        loads = [course.loads.get(id(shared.writers[n - 1])) if n else None for n in numbers]
        key = (what, pattern, self._relative(loads))
        if key not in self._seen:
            for cache in (self._seen, self._places, self._matrices):
                if len(cache) > MOST_CACHED:
                    cache.clear()
            self._seen[key] = _looked_at(shared, places, course.loads, dtype, major)
        told = self._seen[key]
        if not isinstance(told, str):
            return self._read(word, [load for load in loads if load is not None], told, major)
        if told == _WIDTH:
            load = next(load for load in loads if load is not None)
            self.widths.setdefault((side, load.event.instruction.line, event.instruction.line), (side, load, event))
        return None if told == _WIDTH else told

    def _read(self, word: int, loads: list[Issued], told: _Told, major: str) -> OperandRead:
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

    def _close(self, courses: dict[int, _Course]) -> None:
        for course in courses.values():
            for loads, products in _apart(course):
                self._keep(Piece(course.cta, self._key_of(loads, products), tuple(loads), tuple(products)))

    def _keep(self, piece: Piece) -> None:
        if piece.key in self.pieces:
            return
        if len(self.pieces) >= MOST_PIECES:
            if not piece.products:
                return
            self.complete = False
            count = sum(len(p.events) for p in piece.products)
            self.missed_instructions[f"instructions of CTAs that do another thing than the first {MOST_PIECES} different ones"] += count
            return
        self.pieces[piece.key] = piece
        self._products = self._loads = None

    def _key_of(self, loads: list[Issued], products: list[Product]) -> bytes:
        """What loads and products do, but for where in their tensors the tiles lie."""
        first: dict[Any, tuple[int, ...]] = {}
        told: list[Any] = []
        numbers = {id(load): n for n, load in enumerate(loads)}
        for load in loads:
            at = load.event.coordinates
            origin = first.setdefault((load.event.map_address, load.map_key), at)
            by = tuple(c - d for c, d in zip(at, origin, strict=False))
            told.append((load.event.instruction.line, load.map_key, list(first).index((load.event.map_address, load.map_key)), load.event.mode,
                         load.transfer.smem_address, by, _clipped(load)))  # fmt: skip
        for p in products:
            told.append(p.accumulator[1:])
            for event, *reads in zip(p.events, p.a, p.b, strict=True):
                told.append(
                    (
                        event.instruction.line,
                        event.m,
                        event.n,
                        event.k,
                        event.a,
                        event.b,
                        event.a_major,
                        event.b_major,
                        event.scale_d,
                        event.idesc,
                    )
                )
                for read in reads:
                    told.append(None if read is None else (
                        [numbers[id(load)] for load in read.loads], [c - d for c, d in zip(read.at, read.corner, strict=True)], read.share,
                    ))  # fmt: skip
        return hashlib.blake2b(repr(told).encode(), digest_size=16).digest()


_WIDTH = "width"


@dataclasses.dataclass(frozen=True, eq=False)
class _Places:
    """Where an operand's chunks lie, as offsets in the window: (rows, chunks along k), or (chunks along rows, k); -1 outside of the window. `lines` are the
    lines of 128 bytes that they lie in, None where some lie outside."""

    chunks: np.ndarray
    lines: np.ndarray | None


@dataclasses.dataclass(frozen=True, eq=False)
class _Told:
    """What is known of an operand: which of its loads are of its tensor, the first element's first, the dimensions that are walked, (outer, inner) of the
    first element from the first load's corner, the share. `is_absolute`: does its matrix begin where the tensor does?"""

    order: tuple[int, ...]
    dimensions: tuple[int, ...]
    begin: tuple[int, int]
    share: float
    is_absolute: bool


def _places_of(shared: SharedMemory, what: tuple[int, str, str, int, int]) -> _Places | None:
    """None where nobody knows."""
    word, dtype, major, rows, k = what
    per_chunk = element_format(dtype).elements_per_chunk("packed")
    try:
        address = operand_addresses(word, arch=shared.arch, dtype=dtype, major=major, rows=rows, k=k)
    except SmemsimError:
        return None
    chunks = (address[:, ::per_chunk] if major == "K" else address[::per_chunk]).astype(np.int64) - shared.begin
    inside = (chunks >= 0) & (chunks < shared.end - shared.begin)  # a wrong descriptor may leave the window
    return _Places(np.where(inside, chunks, -1), np.unique(chunks // LINE) if inside.all() else None)


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


def _looked_at(shared: SharedMemory, places: _Places, known_loads: Mapping[int, Issued], dtype: str, major: str) -> _Told | str:
    """What an operand's tile is, or why that is not known."""
    writer, place = _owners(shared, places)
    numbers, pattern = np.unique(writer, return_inverse=True)
    pattern = pattern.reshape(writer.shape)
    loads = [known_loads.get(id(shared.writers[n - 1])) if n else None for n in numbers.tolist()]
    first = loads[int(pattern.flat[0])]
    if first is None:
        return (
            "operands that no tensor load brought"
            if all(load is None for load in loads)
            else "operands that begin where no tensor load wrote"
        )
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
    row, column = np.indices(pattern.shape)
    per_chunk = CHUNK // size
    by = (outer - row, inner - column * per_chunk) if major == "K" else (outer - column, inner - row * per_chunk)
    begin, share = (int(outer.flat[0]), int(inner.flat[0])), 0.0
    if known.any():
        origins, counts = np.unique(np.stack([x[known] for x in by], axis=-1), axis=0, return_counts=True)
        best = int(counts.argmax())
        share = float(counts[best]) / pattern.size
        # Most elements say where the operand begins; where they do not agree, the first one does, which the strides do not move.
        begin = (int(origins[best][0]), int(origins[best][1])) if share >= SURE else begin
    if share < 1 and len(dimensions) > 1 and _each_alone(pattern, same, by):
        return "operands whose rows come from several planes of a tensor"
    real = [load for load in loads if load is not None]
    order = tuple(real.index(load) for load in (first, *(load for load in held if load is not first)))
    corner = matrix.place(first.event.coordinates)
    is_absolute = tm.rank == 2
    return _Told(order, dimensions, (begin[0] - corner[0], begin[1] - corner[1]), share, is_absolute)


def _each_alone(pattern: np.ndarray, loads: list[int], by: tuple[np.ndarray, np.ndarray]) -> bool:
    """Does each load's part lie as it should, and only the parts to each other do not?"""
    return len(loads) > 1 and all(len(np.unique(x[pattern == n])) == 1 for n in loads for x in by)


def _walked(first: Issued, loads: list[Issued]) -> tuple[int, ...]:
    """The dimensions but the contiguous one that an operand runs along: those that its boxes have more than one of, those that move from load to load, and
    those within a row of these."""
    tm = first.transfer.tensor_map
    several = [
        n for n in range(1, tm.rank)
        if tm.box_dim[n] > 1 or any(load.event.coordinates[n] != first.event.coordinates[n] for load in loads)
    ]  # fmt: skip
    outer = next((n for n in several if tm.box_dim[n] > 1), 0)
    return tuple(n for n in range(1, tm.rank) if n in several or (outer and tm.global_strides[n - 1] < tm.global_strides[outer - 1]))


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
            and p.events[0].scale_d
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


def _clipped(load: Issued) -> tuple[tuple[int, int], ...]:
    """How much of a load's box lies outside of its tensor, at both ends of each dimension."""
    tm = load.transfer.tensor_map
    if load.event.mode != "tile" or tm.call != "tiled":
        return ()
    return tuple(
        (min(max(-at, 0), size), min(max(at + size - extent, 0), size))
        for at, size, extent in zip(load.event.coordinates, tm.box_dim, tm.global_dim, strict=True)
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
    return any(x is not None and y is not None and {load.number for load in x.loads} & {load.number for load in y.loads} for x, y in pairs)
