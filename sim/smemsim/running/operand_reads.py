"""What matrix instructions really read: for each operand the place in the tensor that its first element came from, and the loads behind it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.descriptors.operand import operand_addresses
from smemsim.errors import SmemsimError
from smemsim.gpu.events import Event, Load, Mma, Store
from smemsim.machine.transfer import Transfer
from smemsim.spec.formats import element_format
from smemsim.spec.wgmma import WGMMA_THREADS

if TYPE_CHECKING:
    from smemsim.gpu.wave import Cta, Wave

__all__ = ["Issued", "OperandRead", "Product", "Reads"]

MOST = 4096  # instructions of a CTA that are looked at
LOST = np.int64(np.iinfo(np.int64).min)  # the virtual address of what no load brought
NEAR = 64  # events
SURE = 0.5  # share of the elements


@dataclasses.dataclass(frozen=True, eq=False)
class Issued:
    """A load that brought a tile into a CTA's shared memory: its number in the order of execution, the CTA, and where the tile went."""

    number: int
    cta: int
    event: Load
    transfer: Transfer


@dataclasses.dataclass(frozen=True, eq=False)
class OperandRead:
    """An operand that TMA loaded. `origin` is the (virtual) global address of its element (0, 0), taken from most of its elements, so that it
    holds also where a wrong descriptor mixes them up; from one row to the next it is `row_stride` bytes, from one k to the next `k_stride`.

    `share` of the elements lie where that says; `loads` are where they came from, the first element's first.
    """

    word: int
    loads: tuple[Issued, ...]
    origin: int
    row_stride: int
    k_stride: int
    share: float

    @property
    def is_fill(self) -> bool:
        """Did it all come from a box that lies outside of its tensor? Then nothing says where in the tensor it begins."""
        load = self.loads[0]
        return any(_is_outside(load, axis) for axis in range(load.transfer.tensor_map.rank))

    @property
    def is_past(self) -> bool:
        """Does that box lie outside along k alone, of a matrix?"""
        load, axis = self.loads[0], 0 if self.k_stride < self.row_stride else 1
        return load.transfer.tensor_map.rank == 2 and _is_outside(load, axis) and not _is_outside(load, 1 - axis)

    @property
    def base(self) -> int:
        """Where the tensor begins."""
        return self.loads[0].transfer.tensor_map.global_address

    @property
    def at(self) -> tuple[int, int]:
        """(row, k) of the first element in the tensor."""
        outer, inner = max(self.row_stride, self.k_stride), min(self.row_stride, self.k_stride)
        far, rest = divmod(self.origin - self.base, outer)
        near = rest // inner
        return (far, near) if self.row_stride > self.k_stride else (near, far)


@dataclasses.dataclass(eq=False)
class Product:
    """Matrix instructions that add up one tile's worth of K: they follow one another on one accumulator, and read the same tiles."""

    number: int
    cta: int
    accumulator: tuple[Any, ...]
    events: list[Mma]
    a: list[OperandRead | None]
    b: list[OperandRead | None]


class Reads:
    """A launch's judge: called with every event as it happens, it collects the products of some CTAs."""

    def __init__(self, ctas: frozenset[int]) -> None:
        self.ctas = ctas
        self.products: list[Product] = []
        self._loads: dict[int, Issued] = {}  # by the identity of the transfer, which stays alive here
        self._open: dict[tuple[Any, ...], Product] = {}
        self._count = self._looked = 0
        self.maps: dict[tuple[int, int], Load | Store] = {}  # the first use of each tensor map, by its address and identity
        self.widths: list[tuple[str, Issued, Mma]] = []  # operands of other elements than their map, by the load
        # Operand, load and dimension of tiles past the last k, where the other operand's is not.
        self.outside: list[tuple[str, Issued, int]] = []

    def around(self, p: Product) -> list[Issued]:
        """The loads from a little before the first that a product read up to the product: what a wrong descriptor may have missed."""
        used = [load.number for side in (p.a, p.b) for read in side if read is not None for load in read.loads]
        return [load for load in self._loads.values() if load.cta == p.cta and min(used, default=0) - NEAR <= load.number <= p.number]

    @property
    def loads(self) -> list[Issued]:
        """All loads of tiles."""
        return list(self._loads.values())

    @property
    def complete(self) -> bool:
        """Were all matrix instructions looked at?"""
        return self._looked < MOST

    def __call__(self, x: Wave, event: Event) -> None:
        self._count += 1
        if isinstance(event, Load | Store):
            self.maps.setdefault((event.map_address, id(event.tensor_map)), event)
        if isinstance(event, Load):
            first = next(c for c in x.ctas if c.number == event.cta)
            for delivery in event.deliveries:
                cta = x.ctas[first.index - first.rank + delivery.cta_rank]
                transfer = cta.shared.writers[-1]
                if cta.number in self.ctas and isinstance(transfer, Transfer):
                    self._loads[id(transfer)] = Issued(self._count, cta.number, event, transfer)
        elif isinstance(event, Mma) and event.cta in self.ctas and self._looked < MOST:
            self._looked += 1
            self._multiply(next(c for c in x.ctas if c.number == event.cta), event)

    def _multiply(self, cta: Cta, event: Mma) -> None:
        part = event.cta_group
        k = event.k // 2 if event.is_sparse else event.k
        a = None if event.a is None else self._read(cta, event, "a", event.m // part, k)
        b = self._read(cta, event, "b", event.n // part, event.k)
        if a is not None and b is not None and a.is_past != b.is_past:
            side, read, major = ("a", a, event.a_major) if a.is_past else ("b", b, event.b_major)
            self.outside.append((side, read.loads[0], 0 if major == "K" else 1))
        a, b = (None if read is None or read.is_fill else read for read in (a, b))
        key = (event.cta, event.thread // WGMMA_THREADS, event.kind, event.d)
        product = self._open.get(key)
        if product is None or not event.scale_d or not _goes_on(product, event, a, b):
            product = self._open[key] = Product(self._count, event.cta, key, [], [], [])
            self.products.append(product)
        product.events.append(event)
        product.a.append(a)
        product.b.append(b)

    def _read(self, cta: Cta, event: Mma, side: str, rows: int, k: int) -> OperandRead | None:
        """None for what did not come from ordinary tiles of one tensor, or is read as elements of another width (`widths`)."""
        word, dtype, major = (getattr(event, name) for name in (side, f"{side}_type", f"{side}_major"))
        shared, fmt = cta.shared, element_format(dtype)
        if fmt.bits < 8:
            return None
        per_chunk = fmt.elements_per_chunk("packed")
        try:
            address = operand_addresses(word, arch=shared.arch, dtype=dtype, major=major, rows=rows, k=k)
        except SmemsimError:
            return None
        chunks = (address[:, ::per_chunk] if major == "K" else address[::per_chunk]).astype(np.int64) - shared.begin
        inside = (chunks >= 0) & (chunks < shared.end - shared.begin)  # a wrong descriptor may leave the window
        writer, place = shared.owned(np.where(inside, chunks, 0))
        loads: list[Issued] = []
        virtual = np.full(chunks.shape, LOST)
        for number in np.unique(writer[inside]).tolist():
            transfer: Any = shared.writers[number - 1] if number else None
            if isinstance(transfer, Transfer) and id(transfer) in self._loads and _is_plain(transfer):
                loads.append(self._loads[id(transfer)])
                mine = inside & (writer == number)
                virtual[mine] = _virtual(transfer, place[mine])
        if not loads or virtual[0, 0] == LOST:
            return None
        first = next(load for load in loads if id(load.transfer) == id(shared.writers[int(writer[0, 0]) - 1]))
        tm = first.transfer.tensor_map
        loads = [load for load in loads if load.transfer.tensor_map.global_address == tm.global_address]
        outer = next((s for s, n in zip(tm.global_strides, tm.box_dim[1:], strict=True) if n > 1), 0)
        size = fmt.bits // 8
        if tm.type_row.bits != fmt.bits:
            self.widths.append((side, first, event))
            return None
        if not outer or outer < tm.global_dim[0] * size:
            return None  # of rows that overlap, an address does not say which element was meant
        row, column = np.indices(chunks.shape)
        along = (row * outer + column * 16) if major == "K" else (row * 16 + column * outer)
        origins, counts = np.unique((virtual - along)[virtual != LOST], return_counts=True)
        best = int(counts.argmax())
        share = float(counts[best]) / chunks.size
        strides = (outer, size) if major == "K" else (size, outer)
        # Most elements say where the operand begins; where they do not agree, the first one does, which the strides do not move.
        origin = int(origins[best])
        if share < SURE or origin < tm.global_address:
            origin = int(virtual[0, 0])
        return OperandRead(word, (first, *(load for load in loads if load is not first)), origin, *strides, share)


def _is_outside(load: Issued, axis: int) -> bool:
    """Does all of a box lie outside of its tensor along a dimension?"""
    tm, at = load.transfer.tensor_map, load.event.coordinates[axis]
    return at >= tm.global_dim[axis] or at + tm.box_dim[axis] <= 0


def _is_plain(transfer: Transfer) -> bool:
    g = transfer.geometry
    return (
        g.mode == "tile"
        and g.chunk_bytes == 16
        and not g.has_flip
        and transfer.tensor_map.call == "tiled"
        and not transfer.tensor_map.interleave
    )


def _virtual(transfer: Transfer, place: np.ndarray) -> np.ndarray:
    """Global addresses of bytes of the box by their coordinates, also of those outside the tensor."""
    tm = transfer.tensor_map
    at = transfer.tensor_coordinates(place)
    found: np.ndarray = tm.global_address + at[..., 0] * (tm.type_row.bits // 8)
    for n, stride in enumerate(tm.global_strides):
        found = found + at[..., n + 1] * stride
    return found


def _goes_on(product: Product, event: Mma, a: OperandRead | None, b: OperandRead | None) -> bool:
    """Does an instruction read some of the tiles that the product's first one read?"""
    first = product.events[0]
    if (first.m, first.n, first.k, first.a_major, first.b_major) != (event.m, event.n, event.k, event.a_major, event.b_major):
        return False
    if (a is None) != (product.a[0] is None) or (b is None) != (product.b[0] is None):
        return False
    pairs = [(a, product.a[0]), (b, product.b[0])]
    return any(x is not None and y is not None and {load.number for load in x.loads} & {load.number for load in y.loads} for x, y in pairs)
