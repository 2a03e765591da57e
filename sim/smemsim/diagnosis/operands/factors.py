"""Which bytes of global memory block-scaled products multiply with which rows and which K of A and of B: scale factors,
followed through shared and tensor memory.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.bulk import BulkTransfer
from smemsim.core.machine.global_memory import FOREIGN, UNWRITTEN, GlobalMemory
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.product import SharedOperand
from smemsim.core.machine.tma import Transfer
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.copy import copied_cells, copied_operand, copy_shape
from smemsim.core.machine.tmem.layout import MetadataLayout, ScaleLayout, cells_of_metadata, cells_of_scales
from smemsim.core.spec.assumptions import remembered
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.tensor_memory import COLUMNS, LANE_SHIFT, LANES, WARP_LANES
from smemsim.diagnosis.operands.metadata import RegisterSources
from smemsim.diagnosis.operands.orders import is_looked_up
from smemsim.diagnosis.operands.places import Places
from smemsim.run.engine.records import Copy, Mma
from smemsim.run.engine.wave import COPIES
from smemsim.run.sanitizer.history import may_be_written

if TYPE_CHECKING:
    from smemsim.core.words.tensor_map import TensorMap
    from smemsim.run.engine.launch import Launch
    from smemsim.run.engine.wave import Cta, Wave

__all__ = ["Brought", "Factors", "Registers", "Rows", "Use", "bytes_at", "unchanged"]

CELL, BYTE = 4, 8  # bytes, bits
WINDOWS = LANES // WARP_LANES
BY_THREADS = "scale factors that no load has brought from global memory"
IN_REGISTERS = "registers that no array holds as they are, or at several addresses"
TABLE = "scale factors that threads look up in a table"
NO_TILE = "scale factors of operands that are no rows of one tensor, brought by tensor loads"
COLUMNS_END = 1 << LANE_SHIFT
NOWHERE = -1  # of a cell: no copy that is followed has written it


class Rows(NamedTuple):
    """Some rows of an operand: side, tensor (address, strides, bits), coordinates that are neither row nor k, first row
    and number, without rows outside of the tensor.
    """

    side: str
    tensor: tuple[Any, ...]
    plane: tuple[int, ...]
    first: int
    extent: int


class Use(NamedTuple):
    """An instruction that multiplies rows, from a k on, with scale factors.

    Its factors are bytes of global memory at `base + offsets`, (rows, factors of a row); negative ones are those of
    `core/machine/global_memory.py`. `copies` brought them to tensor memory.
    """

    event: Mma
    k: int
    elements: int  # of K for one factor
    base: int
    offsets: np.ndarray
    copies: tuple[Brought, ...]
    # in tensor memory; None: metadata in registers, which no copy has brought
    layout: ScaleLayout | MetadataLayout | None
    other: Rows | None  # of the other operand
    size: tuple[int, int]  # rows and k of the whole tensor; 0 where it has more dimensions
    beside: np.ndarray | None = None  # of mma.sync, (rows, bytes): all bytes of the registers that have them

    @property
    def addresses(self) -> np.ndarray:
        """The bytes of global memory; negative ones are none."""
        return np.where(self.offsets < 0, self.offsets, self.offsets + self.base)

    @property
    def by_threads(self) -> bool:
        """Have threads stored them?"""
        return (
            not all(copy.loads and all(isinstance(load, BulkTransfer | Transfer) for load in copy.loads) for copy in self.copies)
            or not self.copies
        )

    @property
    def is_looked_up(self) -> bool:
        """Have threads taken them from a table?"""
        return self.by_threads and is_looked_up(self.offsets)


@dataclasses.dataclass(frozen=True, eq=False)
class Brought:
    """A tcgen05.cp: the global addresses of the bytes of its rows, (rows, bytes), and the first column that it writes.

    The loads of the shared memory that it read are `loads`. The rows of each product are in `taken`.
    """

    event: Copy
    column: int
    base: int
    offsets: np.ndarray
    key: int  # equal for equal offsets
    loads: tuple[Any, ...]
    values: np.ndarray | None = None  # the bytes, if threads have stored some of them
    # then: what products take of it alone
    taken: list[tuple[Rows, Use, ScaleLayout]] = dataclasses.field(default_factory=list)

    @property
    def addresses(self) -> np.ndarray:
        """The bytes of global memory; negative ones are none."""
        return np.where(self.offsets < 0, self.offsets, self.offsets + self.base)

    @property
    def content(self) -> bytes:
        """The bytes, if threads have stored some of them."""
        return b"" if self.values is None else self.values.tobytes()


class _Spot(NamedTuple):
    """An operand: its rows, its first k, and the size of its tensor as in `Use`."""

    rows: Rows
    k: int
    size: tuple[int, int]


class Registers(NamedTuple):
    """The metadata of a warpgroup: `places` are (thread, lowest bit), (rows, groups), `values` and `origins` of each
    byte those of its registers, (128,) and (128, 4).
    """

    places: tuple[np.ndarray, np.ndarray]
    values: np.ndarray
    origins: np.ndarray | None


class Selected(NamedTuple):
    """Metadata registers with these values, (threads,), the threads of each four that instructions select, and the
    first such instruction.
    """

    values: np.ndarray
    threads: frozenset[int]
    event: Mma


class _Part(NamedTuple):
    """Some rows of an operand of a product, the CTA of the pair in whose tensor memory their factors are looked at, and
    the rows of the other operand.
    """

    layout: ScaleLayout | MetadataLayout
    which: int
    rows: slice
    other: Rows | None
    uses: dict[Rows, dict[tuple[int, int, int], Use]]


class _Cells:
    """The content of the tensor memory of a CTA. For each column and 32 lanes it has the number of the copy, and the
    row in the first lane.
    """

    def __init__(self) -> None:
        self.copies: list[Brought] = []
        self.of = np.full((COLUMNS, WINDOWS, 2), NOWHERE, np.int32)


class Factors:
    """The scale factors of a launch. Factors of each row are in `uses`, once for each K and for each set of bytes.
    Copies are in `brought`, once for each set of bytes. Instructions with unknown factors are counted in `missed`, by
    reason. All instructions are counted in `instructions`.
    """

    def __init__(self) -> None:
        self.uses: dict[Rows, dict[tuple[int, int, int], Use]] = {}
        self.brought: dict[tuple[int, int], Brought] = {}
        self.metadata: dict[Rows, dict[tuple[int, int, int], Use]] = {}  # as `uses`: the metadata of a sparse A
        # as `uses`: the metadata that wgmma.mma_async.sp has in registers
        self.registers: dict[Rows, dict[tuple[int, int, int], Use]] = {}
        self.missed_registers: collections.Counter[str] = collections.Counter()
        self.missed: collections.Counter[str] = collections.Counter()
        self.missed_metadata: collections.Counter[str] = collections.Counter()
        self.selected: dict[bytes, Selected] = {}  # metadata registers, by their values
        # copies of factors that threads have stored, by what products take of them
        self.stored: dict[Any, Brought] = {}
        self.instructions = 0
        self._forget()

    def _forget(self) -> None:
        self._cells: dict[Wave, dict[int, _Cells]] = {}
        self._offsets: dict[tuple[tuple[int, ...], bytes], tuple[int, np.ndarray]] = {}
        self._unknown: set[int] = set()  # of those the numbers that have bytes of no array
        self._tables: dict[int, bool] = {}  # of those by number: are they the offsets of a table?
        self._taken: dict[Any, tuple[int, np.ndarray, int, _CellsRead]] = {}
        self._of_bulk: dict[Any, tuple[int, np.ndarray, int]] = {}
        self._forms: dict[Any, tuple[Transfer, _Form | None]] = {}
        self._sources: dict[Launch, RegisterSources] = {}

    def finish(self) -> None:
        """No more is to come: what was needed on the way is dropped."""
        for wave in [*self._cells]:
            self._close(wave)
        self._forget()

    def _close(self, wave: Wave) -> None:
        """Keep what products have taken of the copies of factors that threads stored: each kind of it once."""
        for cells in self._cells.pop(wave).values():
            for copy in cells.copies:
                if copy.taken:
                    event = copy.event.instruction
                    does = tuple(
                        (rows.side, use.event.instruction.line, use.k - copy.taken[0][1].k, layout) for rows, use, layout in copy.taken
                    )
                    self.stored.setdefault((event.line, does), copy)

    def merge(self, other: Factors) -> None:
        """Take what another process has seen."""
        _merge(self.uses, other.uses)
        _merge(self.metadata, other.metadata)
        _merge(self.registers, other.registers)
        for one in other.selected.values():
            self._select(*one)
        self.missed_metadata.update(other.missed_metadata)
        self.missed_registers.update(other.missed_registers)
        known = {(copy.base, copy.offsets.tobytes()) for copy in self.brought.values()}
        for copy in other.brought.values():
            if (copy.base, copy.offsets.tobytes()) not in known:
                self.brought[copy.base, -len(self.brought) - 1] = copy
        self.missed.update(other.missed)
        self.stored = other.stored | self.stored
        self.instructions += other.instructions

    # ---- what is written to tensor memory

    def _of(self, x: Wave, cta: Cta) -> _Cells:
        waves = self._cells
        if x not in waves:
            for wave in [w for w in waves if w not in x.launch.waves]:
                self._close(wave)
            waves[x] = {}
        cells = waves[x].get(cta.number)
        if cells is None:
            cells = waves[x][cta.number] = _Cells()
        return cells

    def copied(self, x: Wave, cta: Cta, event: Copy, places_of: Callable[[SharedMemory, SharedOperand], Places | None]) -> bool:
        """A tcgen05.cp of one CTA. Is it followed?"""
        cells, shared = self._of(x, cta), cta.shared
        shape = copy_shape(event.shape, event.multicast)
        columns, windows, is_whole = _written(event.shape, event.multicast, event.tmem_address)
        places = places_of(shared, copied_operand(shape, event.word))
        if places is None or event.is_packed or not is_whole:
            cells.of[columns, [window for window, _ in windows]] = NOWHERE
            if x.origins is not None:
                x.origins.forget_columns(cta.index, columns.start, columns.stop)
            return False
        behind = self._behind(x, cta, places)
        values = None
        if behind[2] in self._unknown and (places.chunks >= 0).all():
            values = shared.bytes[(places.chunks[:, :, None] + np.arange(CHUNK)).reshape(shape.rows, -1)]
        copy = Brought(event, columns.start, *behind, values)
        cells.copies.append(copy)
        self.brought.setdefault((copy.base, copy.key), copy)
        for window, first in windows:
            cells.of[columns, window] = len(cells.copies) - 1, first
        return True

    def _behind(self, x: Wave, cta: Cta, places: Places) -> tuple[int, np.ndarray, int, tuple[Any, ...]]:
        """The result of `_known` for the global bytes of rows of chunks, and their loads."""
        shared, chunks = cta.shared, places.chunks
        if (chunks >= 0).all():
            writer, place = shared.owned(chunks)
            load = shared.writers[int(writer[0, 0]) - 1] if writer[0, 0] and (writer == writer[0, 0]).all() else None
            if isinstance(load, BulkTransfer) and load.src_space == "global":
                key = place.shape, place.tobytes()
                held = self._of_bulk.get(key)
                if held is None:
                    held = self._of_bulk[key] = self._known(
                        shared.look(chunks[:, :, None] + np.arange(CHUNK))[0].reshape(len(chunks), -1) - int(load.src)
                    )
                return int(load.src) + held[0], held[1], held[2], (load,)
        sources, writers = shared.look(np.where(chunks[:, :, None] < 0, -1, chunks[:, :, None] + np.arange(CHUNK)))
        loads = tuple(shared.writers[n - 1] for n in distinct(writers.astype(np.int64)).tolist() if n)
        copied = writers == COPIES
        if x.origins is not None and copied.any():
            at = (chunks[:, :, None] + np.arange(CHUNK))[copied]
            sources[copied] = unchanged(x, x.origins.in_shared(cta.index, at), shared.bytes[at])
        return *self._known(sources.reshape(len(chunks), -1)), loads

    def _known(self, sources: np.ndarray) -> tuple[int, np.ndarray, int]:
        """(the lowest byte of global memory, offsets from there, a number that equal offsets share)."""
        inside = sources >= 0
        base = int(sources[inside].min()) if inside.any() else 0
        offsets = np.where(inside, sources - base, sources)
        number, kept = self._offsets.setdefault((offsets.shape, offsets.tobytes()), (len(self._offsets), offsets))
        if ((offsets == FOREIGN) | (offsets == UNWRITTEN)).any():
            self._unknown.add(number)
        return base, kept, number

    def overwritten(self, x: Wave, cta: Cta, first: int, end: int, window: int | slice = slice(None)) -> None:
        """Something else than a copy writes columns."""
        if x in self._cells and cta.number in self._cells[x]:
            self._cells[x][cta.number].of[first:end, window] = NOWHERE

    # ---- what is multiplied

    def multiplied(
        self, x: Wave, members: Sequence[Cta], event: Mma, places_of: Callable[[SharedMemory, SharedOperand], Places | None]
    ) -> None:
        """A block-scaled product of a CTA or of a pair."""
        spots = {side: [self._spot(member, event, side, places_of) for member in members] for side in "ab"}
        if event.scales is not None:
            self._scaled(x, members, event, spots)
        if event.metadata is not None:
            own, reasons = event.metadata.rows, set[str]()
            for n, (member, spot) in enumerate(zip(members, spots["a"], strict=True)):
                part = _Part(event.metadata, n, slice(n * own, (n + 1) * own), None, self.metadata)
                reasons |= self._use(x, member, event, spot, part)
            self.missed_metadata.update(f"sparse metadata: {reason}" for reason in sorted(reasons)[:1])

    def of_registers(
        self, x: Wave, cta: Cta, event: Mma, words: Registers, places_of: Callable[[SharedMemory, SharedOperand], Places | None]
    ) -> None:
        """The metadata of a wgmma.mma_async.sp."""
        self._select(words.values, frozenset(distinct(words.places[0] % 4).tolist()), event)
        spot = self._spot(cta, event, "a", places_of)
        thread, bit = (of[:, words.places[1][0] % BYTE == 0] for of in words.places)
        at = self._in_registers(x, words, thread, bit // BYTE)
        if spot is None or at is None:
            self.missed_registers["sparse metadata: " + (NO_TILE if at is not None else IN_REGISTERS)] += 1
            return
        base, offsets, number = self._known(at[: spot.rows.extent])
        uses = self.registers.setdefault(spot.rows, {})
        if (spot.k, base, number) not in uses:
            uses[spot.k, base, number] = Use(event, spot.k, event.k // thread.shape[1], base, offsets, (), None, None, spot.size)

    def _select(self, values: np.ndarray, threads: frozenset[int], event: Mma) -> None:
        """Note which threads of each four an instruction selects."""
        key = values.tobytes()
        before = self.selected.get(key)
        if before is None or not threads <= before.threads:
            self.selected[key] = Selected(values, threads, event) if before is None else before._replace(threads=before.threads | threads)

    def _in_registers(self, x: Wave, words: Registers, thread: np.ndarray, byte: np.ndarray) -> np.ndarray | None:
        """The bytes of global memory that bytes of registers are: as threads have copied them, or by their values; None
        where that is not known of all.
        """
        if words.origins is not None:
            values = np.ascontiguousarray(words.values, np.uint32).view(np.uint8).reshape(-1, CELL)
            found: np.ndarray = unchanged(x, words.origins, values)[thread, byte]
            if (found >= 0).all():
                return found
        launch, threads = x.launch, distinct(thread.reshape(-1))
        if launch not in self._sources:
            self._sources = {launch: RegisterSources(launch.memory, may_be_written(launch) or ())}
        at = self._sources[launch].of(words.values[threads], threads)
        if at is None:
            return None
        by_value: np.ndarray = at[np.searchsorted(threads, thread)] + byte
        return by_value

    def _scaled(self, x: Wave, members: Sequence[Cta], event: Mma, spots: dict[str, list[_Spot | None]]) -> None:
        """Notes the scale factors of a product, whose operands are these."""
        assert event.scales is not None
        self.instructions += 1
        reasons: set[str] = set()
        for side, layout in zip("ab", event.scales, strict=True):
            own = layout.m // len(members) if side == "a" else layout.n // len(members)
            for n, member in enumerate(members):
                for half, spot in enumerate(spots[side]):
                    if side == "a" and half != n:
                        continue  # of A each CTA has the factors of its own rows
                    partner = spots["b" if side == "a" else "a"][half]
                    part = _Part(layout, n, slice(half * own, (half + 1) * own), None if partner is None else partner.rows, self.uses)
                    reasons |= self._use(x, member, event, spot, part)
        first = event.d % COLUMNS_END
        for member in members:
            self.overwritten(x, member, first, first + event.n // (2 if event.cta_group == 2 and event.m == LANES else 1))
        if reasons:
            self.missed[min(reasons)] += 1

    def _use(self, x: Wave, cta: Cta, event: Mma, spot: _Spot | None, part: _Part) -> set[str]:
        """Notes the factors of some rows; why that cannot be done."""
        cells, layout = self._of(x, cta), part.layout
        places = _places_of_factors(layout, part.which, part.rows.start, part.rows.stop)
        refs = cells.of[places.column, places.window]
        numbers = refs[..., 0]
        low, high = int(numbers.min()), int(numbers.max())
        count = None if spot is None else spot.rows.extent
        by_threads: tuple[Brought, ...] = ()
        if low == NOWHERE:
            stored = self._stored_in_cells(x, cta, event, places)
            if stored is None:
                return {BY_THREADS}
            used = [n for n in distinct(numbers).tolist() if n != NOWHERE]
            at = stored.addresses[places.lane, (places.column - stored.column) * CELL + places.byte]
            base, offsets, number = self._known(_taken(cells.copies, refs, places, at)[:count])
            by_threads = (stored,)
        elif low == high and not refs[..., 1].any():
            copy, used = cells.copies[low], [low]
            key = (id(places), copy.key, layout.column - copy.column, count)
            held = self._taken.get(key)
            if held is None:
                base, offsets, number = self._known(_taken(cells.copies, refs, places)[:count])
                held = self._taken[key] = base - copy.base, offsets, number, places
            base, offsets, number = copy.base + held[0], held[1], held[2]
        else:
            used = distinct(numbers).tolist()
            base, offsets, number = self._known(_taken(cells.copies, refs, places)[:count])
        if number in self._unknown:
            if spot is not None and NOWHERE < low == high and isinstance(layout, ScaleLayout):
                use = Use(event, spot.k, event.k // layout.scales, base, offsets, (cells.copies[low],), layout, part.other, spot.size)
                cells.copies[low].taken.append((spot.rows, use, layout))
            return {BY_THREADS}
        if spot is None:
            return {NO_TILE}
        uses = part.uses.setdefault(spot.rows, {})
        place = spot.k, base, number
        if place not in uses:
            copies = (*(cells.copies[n] for n in used), *by_threads)
            elements = event.k // places.lane.shape[1]
            uses[place] = Use(event, spot.k, elements, base, offsets, copies, layout, part.other, spot.size)
        return {TABLE} if isinstance(layout, ScaleLayout) and uses[place].by_threads and self._is_table(number, offsets) else set()

    def _is_table(self, number: int, offsets: np.ndarray) -> bool:
        """Are offsets, which have this number, those of a table?"""
        if number not in self._tables:
            self._tables[number] = is_looked_up(offsets)
        return self._tables[number]

    def _stored_in_cells(self, x: Wave, cta: Cta, event: Mma, places: _CellsRead) -> Brought | None:
        """Factors that threads have stored to all lanes of some columns, as a copy made by the last of their
        instructions; None if they are not followed.
        """
        first, end = int(places.column.min()), int(places.column.max()) + 1
        if x.origins is None or cta.tensor is None or (writer := x.origins.writers.get(first)) is None:
            return None
        lane, column, byte = np.meshgrid(np.arange(LANES), np.arange(first, end), np.arange(CELL), indexing="ij")
        values = (cta.tensor.cells[lane, column] >> (BYTE * byte).astype(np.uint32)).astype(np.uint8)
        sources = unchanged(x, x.origins.in_tensor(cta.index, lane, column, byte), values).reshape(LANES, -1)
        stored = Brought(Copy(event.cta, event.thread, writer, "", "", 0, first), first, *self._known(sources), ())
        self.brought.setdefault((stored.base, stored.key), stored)
        return stored

    def _spot(self, cta: Cta, event: Mma, side: str, places_of: Callable[[SharedMemory, SharedOperand], Places | None]) -> _Spot | None:
        """The rows of a tensor that an operand is, and its first k; None if no tensor load shows it."""
        what = event.operand(side)
        if what is None:
            return None
        if event.is_sparse and side == "a":  # whose K is that of the elements that are stored and those that are not
            spot = self._stored(cta, what, side, places_of)
            return None if spot is None else spot._replace(k=2 * spot.k, size=(spot.size[0], 2 * spot.size[1]))
        return self._stored(cta, what, side, places_of)

    def _stored(
        self, cta: Cta, what: SharedOperand, side: str, places_of: Callable[[SharedMemory, SharedOperand], Places | None]
    ) -> _Spot | None:
        """`_spot` in elements that are stored."""
        places = places_of(cta.shared, what)
        if places is None:
            return None
        load = _only_load(cta.shared, places)
        if load is None:
            form = _form_of(cta.shared, places, what)
            return None if form is None else form.spot(side, what, form.begin)
        key = (what, id(load.tensor_map), load.geometry.mode, load.smem_address, cta.shared.begin)
        if key not in self._forms:
            form = _form_of(cta.shared, places, what)
            if form is not None:
                form = form._replace(begin=tuple(a - b for a, b in zip(form.begin, load.coordinates, strict=True)))
            self._forms[key] = load, form
        form = self._forms[key][1]
        return None if form is None else form.spot(side, what, tuple(map(int.__add__, form.begin, load.coordinates)))


def _merge(mine: dict[Rows, dict[tuple[int, int, int], Use]], others: dict[Rows, dict[tuple[int, int, int], Use]]) -> None:
    """Add what another process has seen."""
    for rows, uses in others.items():
        held = mine.setdefault(rows, {})
        own = {(use.k, use.base, use.offsets.tobytes()) for use in held.values()}
        new = [use for use in uses.values() if (use.k, use.base, use.offsets.tobytes()) not in own]
        held |= {(use.k, use.base, -len(held) - n - 1): use for n, use in enumerate(new)}


@remembered(256)
def _written(shape: str, multicast: str, taddr: int) -> tuple[slice, tuple[tuple[int, int], ...], bool]:
    """(columns that a copy writes, the windows of 32 lanes with the row in the first lane of each, are these windows
    written as a whole?).
    """
    row, address = copy_shape(shape, multicast), TmemAddress.decode(taddr)
    lane, column = copied_cells(row, address)
    is_whole = row.run % WARP_LANES == 0 and address.lane % WARP_LANES == 0
    begins = range(0, row.rows, WARP_LANES) if is_whole else range(row.rows)
    windows = {window: first for first in begins for window in (lane[first, :, 0] // WARP_LANES).tolist()}
    return slice(int(column.min()), int(column.max()) + 1), tuple(windows.items()), is_whole


def bytes_at(memory: GlobalMemory, at: np.ndarray) -> np.ndarray:
    """The bytes at addresses of arrays; -1 if they are uninitialised or outside of all arrays."""
    found, left = np.full(at.shape, -1, np.int64), at >= 0
    while left.any():
        first = int(at[left][0])
        region = memory.holding(first, first + 1)
        if region is None:
            left &= at != first
            continue
        mine = left & (at >= region.begin) & (at < region.end)
        found[mine] = region.data[at[mine] - region.begin]
        if region.blank is not None:
            nobody = region.blank.words(at[mine] - region.words_begin, 1)[:, 0]
            found[mine] = np.where(nobody, -1, found[mine])
        left &= ~mine
    return found


class _CellsRead(NamedTuple):
    """The places of some rows' factors: lane, column and byte (rows, factors of a row), and which 32 lanes these
    are.
    """

    lane: np.ndarray
    column: np.ndarray
    byte: np.ndarray
    window: np.ndarray


@remembered(256)
def _places_of_factors(layout: ScaleLayout | MetadataLayout, which: int, first: int, end: int) -> _CellsRead:
    """The places of the factors of rows, or of the bytes of their metadata, in one CTA of a pair."""
    if isinstance(layout, MetadataLayout):
        cells = next(cell for cell in cells_of_metadata(layout) if (cell[0][first:end] == which).all())
        _, lane, column, bit = (of[first:end, cells[3][first] % BYTE == 0] for of in cells)
        return _CellsRead(lane, column, bit // BYTE, lane // WARP_LANES)
    copy = next(cell for cell in cells_of_scales(layout) if (cell[0][first:end] == which).all())
    _, lane, column, byte = (of[first:end] for of in copy)
    return _CellsRead(lane, column, byte, lane // WARP_LANES)


def _taken(copies: Sequence[Brought], refs: np.ndarray, places: _CellsRead, stored: np.ndarray | None = None) -> np.ndarray:
    """The bytes of global memory that lie in cells, by the copies that have written these, or as threads have `stored`
    them.
    """
    sources = np.empty(places.lane.shape, np.int64) if stored is None else stored
    for number in distinct(refs[..., 0]).tolist():
        if number == NOWHERE:
            continue
        mine, copy = refs[..., 0] == number, copies[number]
        row = refs[..., 1][mine] + places.lane[mine] % WARP_LANES
        sources[mine] = copy.addresses[row, (places.column[mine] - copy.column) * CELL + places.byte[mine]]
    return sources


def unchanged(x: Wave, origins: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The origins of bytes that still have these values."""
    found: np.ndarray = np.where((origins >= 0) & (bytes_at(x.launch.memory, origins) == values), origins, FOREIGN)
    return found


def _only_load(shared: SharedMemory, places: Places) -> Transfer | None:
    """The load that brought all lines of an operand; None where there are several, or others."""
    if places.lines is None:
        return None
    lines = shared.line_writers(places.lines)
    writer = int(lines[0])
    load = shared.writers[writer - 1] if writer and (lines == writer).all() else None
    return load if isinstance(load, Transfer) else None


class _Form(NamedTuple):
    """An operand in boxes of a tensor: the dimension along which the axis that is not contiguous goes on, and the
    coordinates of its begin.
    """

    tensor_map: TensorMap
    axis: int
    begin: tuple[int, ...]

    def spot(self, side: str, what: SharedOperand, begin: tuple[int, ...]) -> _Spot | None:
        """The rows and the first k, when the operand begins there; None where that is outside of the tensor."""
        tm, axis, bits = self.tensor_map, self.axis, element_format(what.dtype).bits
        if not all(0 <= at < size for at, size in zip(begin, tm.global_dim, strict=True)):
            return None
        unit = tm.type_row.bits
        strides = (unit, *(8 * stride for stride in tm.global_strides))
        within = [n for n in range(tm.rank) if strides[n] < strides[axis]]
        plane = tuple(begin[n] for n in range(tm.rank) if n != axis and n not in within)
        along = sum(begin[n] * strides[n] for n in within) // bits
        row, k = (begin[axis], along) if what.major == "K" else (along, begin[axis])
        extent = tm.global_dim[axis] if what.major == "K" else tm.global_dim[0] * unit // bits if within == [0] else row + what.rows
        size = (tm.global_dim[0] * unit // bits, tm.global_dim[1]) if tm.rank == 2 else (0, 0)
        rows = Rows(side, (tm.global_address, tm.global_strides, unit), plane, row, min(what.rows, extent - row))
        return _Spot(rows, k, size[::-1] if what.major == "K" else size)


def _form_of(shared: SharedMemory, places: Places, what: SharedOperand) -> _Form | None:
    """How an operand lies in a tensor; None where its rows and k are no runs of neighbours in boxes of one."""
    by_row = what.major == "K"
    outer, inner = (places.chunks[:, 0], places.chunks[0]) if by_row else (places.chunks[0], places.chunks[:, 0])
    of_outer, of_inner = _coordinates(shared, outer), _coordinates(shared, inner)
    if of_outer is None or of_inner is None:
        return None
    tm, at = of_outer
    moved = np.flatnonzero((at != at[0]).any(axis=0)).tolist()
    if len(moved) != 1 or moved[0] == 0 or (np.diff(at[:, moved[0]]) != 1).any():
        return None
    along = of_inner[1]
    strides = np.array([tm.type_row.bits, *(8 * stride for stride in tm.global_strides)])
    if (along[:, moved[0]] != at[0, moved[0]]).any() or len(distinct(np.diff(along @ strides))) > 1:
        return None
    return _Form(tm, moved[0], tuple(at[0].tolist()))


def _coordinates(shared: SharedMemory, chunks: np.ndarray) -> tuple[TensorMap, np.ndarray] | None:
    """The tensor map of the loads that brought some chunks, and the coordinates of each; None where these are no loads
    of boxes of one tensor.
    """
    if (chunks < 0).any():
        return None
    writer, place = shared.owned(chunks)
    numbers = distinct(writer).tolist()
    loads = [shared.writers[n - 1] if n else None for n in numbers]
    first = loads[0]
    if not isinstance(first, Transfer):
        return None
    tm, at = first.tensor_map, np.empty((len(chunks), first.tensor_map.rank), np.int64)
    for number, load in zip(numbers, loads, strict=True):
        if not isinstance(load, Transfer) or load.tensor_map.call != "tiled" or load.geometry.mode != "tile" or load.geometry.has_flip:
            return None
        other = load.tensor_map
        if (other.global_address, other.global_strides, other.type_row) != (tm.global_address, tm.global_strides, tm.type_row):
            return None
        mine = writer == number
        at[mine] = load.tensor_coordinates(place[mine].astype(np.int64))
    return tm, at
