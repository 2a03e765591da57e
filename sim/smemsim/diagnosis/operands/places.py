"""The place of an operand in shared memory, the tensor loads that wrote there, and so its tile."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import SmemsimError
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.product import SharedOperand
from smemsim.core.spec.assumptions import remembered
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.core.spec.smem_descriptor import BASE_OFFSET
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.covered import NO_LOAD
from smemsim.diagnosis.operands.read import Issued, Matrix, Mode

__all__ = [
    "CHANGED",
    "FRAMES",
    "LATER",
    "OTHER_MODES",
    "OTHER_WIDTH",
    "PIXELS_APART",
    "RECOGNISED",
    "SEVERAL_PLACES",
    "SLICED",
    "SURE",
    "Found",
    "Noted",
    "Places",
    "Stray",
    "Told",
    "matrix_of",
    "owners_of",
    "places_of",
    "signed",
    "stray_of",
    "tile_of",
    "ways",
    "writers_of",
]

SURE = 0.5  # share of the elements
OTHER_WIDTH = "width"
OTHER_MODES = "operands of im2col, gathered, strided or interleaved loads"
PIXELS_APART = "pixels"  # rows of an operand that are parts of several pixels of one im2col load
CHANGED = "operands of tensor loads into whose tiles threads have written since"
SEVERAL_PLACES = "operands whose rows come from several places in global memory"
FRAMES = "operands whose rows are the same rows of a tensor, at several k: overlapping frames of a signal"
SLICED = "operands that are a whole tile, read as more rows with a part of its k each: slice-K"
LATER = "operands that threads wrote, after the first ones that are looked for in global memory"
RECOGNISED = "operands that threads wrote, recognised in global memory"
_BASE_OFFSET = BASE_OFFSET.mask << BASE_OFFSET.low  # bits of a descriptor


class Noted(NamedTuple):
    """An operand as an instruction found it: its word, whether K is contiguous, its loads, and what is known of
    operands that lie so.
    """

    word: int
    major: str
    loads: tuple[Issued, ...]
    told: Told


class Found(NamedTuple):
    """An operand in shared memory, its place, and the number of the writer of all its lines; 0 if that is not known."""

    operand: SharedOperand | None
    places: Places | None
    writer: int


@dataclasses.dataclass(frozen=True, eq=False)
class Places:
    """The places of an operand's chunks as offsets in the window: (rows, chunks along k), or (chunks along rows, k). A
    chunk outside of the window has -1.

    Their 128-byte lines are `lines`, None if some are outside. The known facts of operands at this place are in `told`,
    by their writers.
    """

    chunks: np.ndarray
    lines: np.ndarray | None
    told: dict[Any, Told | str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Told:
    """The known facts of an operand. The order of its loads begins with the load of the first element. The dimensions
    are those that it runs along. The first element is (outer, inner) from the corner of the first load, in `begin`.
    Most of its elements agree; their part is `share`.

    If `is_absolute` is set, its matrix starts where the tensor does. If there are several, `moves` has the dimensions
    along which its rows continue, and those of its k. If `is_changed` is set, something else has written into the
    loads' tiles since. If `may_be_frames` is set, all CTAs together decide whether its rows are frames of a signal.
    """

    order: tuple[int, ...]
    dimensions: tuple[int, ...]
    begin: tuple[int, int]
    share: float
    is_absolute: bool
    moves: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    is_changed: bool = False
    may_be_frames: bool = False


@remembered(1)
def ways() -> dict[Any, Told]:
    """The known facts of operands inside one load of a matrix, for all launches: by the load's content and the
    operand's place in it. With more dimensions this may depend on the coordinates.
    """
    return {}


def places_of(shared: SharedMemory, what: SharedOperand) -> Places | None:
    """The places of an operand; None if they are not known."""
    found = _chunks_of(what, shared.arch, shared.begin, shared.end)
    return None if found is None else Places(*found)


@remembered(512)
def _chunks_of(what: SharedOperand, arch: str, begin: int, end: int) -> tuple[np.ndarray, np.ndarray | None] | None:
    """The chunks and the lines of an operand in a window. A base offset is left out: tensor loads write by absolute
    addresses, and it moves no tile.
    """
    per_chunk = element_format(what.dtype).elements_per_chunk(what.packing)
    what = dataclasses.replace(what, word=what.number & ~_BASE_OFFSET)
    try:
        address = what.addresses(arch)
    except SmemsimError:
        return None
    chunks = (address[:, ::per_chunk] if what.major == "K" else address[::per_chunk]).astype(np.int64) - begin
    inside = (chunks >= 0) & (chunks < end - begin)  # a wrong descriptor may leave the window
    return np.where(inside, chunks, -1), distinct(chunks // LINE) if inside.all() else None


def writers_of(shared: SharedMemory, places: Places) -> tuple[list[int], bytes]:
    """The writers that an operand reads, and which of them where."""
    if places.lines is not None:
        lines = shared.line_writers(places.lines)
        low = int(lines.min())
        if low == int(lines.max()) > 0:
            return [low], b""
        if low > 0:
            found, pattern = np.unique(lines, return_inverse=True)
            return found.tolist(), b"lines" + pattern.astype(np.uint16).tobytes()
    found, pattern = np.unique(owners_of(shared, places)[0], return_inverse=True)
    return found.tolist(), pattern.astype(np.uint16).tobytes()


def owners_of(shared: SharedMemory, places: Places) -> tuple[np.ndarray, np.ndarray]:
    """(writer, place) of every chunk; 0 outside of the window, and for chunks that several have written."""
    inside = places.chunks >= 0
    writer, place = shared.owned(np.where(inside, places.chunks, 0))
    writer = np.where(inside, writer, 0)
    part = inside & shared.owned_in_parts(np.where(inside, places.chunks, 0) // CHUNK)
    if part.any():
        own = writer[part]
        of_bytes, _ = shared.owned((places.chunks[part][:, None] + np.arange(1, CHUNK)).reshape(-1))
        writer[part] = np.where((of_bytes.reshape(len(own), -1) == own[:, None]).all(axis=1), own, 0)
    return writer, place


def tile_of(
    shared: SharedMemory, owners: tuple[np.ndarray, np.ndarray], known_loads: Mapping[int, Issued], dtype: str, major: str
) -> Told | str:
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
        return NO_LOAD if all(load is None for load in loads) else "operands that begin where no tensor load wrote"
    if not _is_plain(first):
        return PIXELS_APART if len(loads) == 1 and major == "K" and _are_pixels_apart(first, place, dtype) else OTHER_MODES
    tm, size = first.transfer.tensor_map, element_format(dtype).bits // 8
    if tm.type_row.bits != 8 * size:
        return OTHER_WIDTH
    same = [n for n, load in enumerate(loads) if load is not None and _is_plain(load) and _is_of(load, tm)]
    held = [load for n in same if (load := loads[n]) is not None]
    dimensions = _walked(first, held)
    matrix = matrix_of(first, dimensions)
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
    if share < 1 and len(held) == len(loads) == 1 and major == "K" and _is_sliced(first, place):
        return SLICED
    if share < 1 and len(dimensions) > 1 and _each_alone(pattern, same, by):
        return "operands whose rows come from several planes of a tensor"
    origins = _whole_boxes(loads, pattern, place, per_chunk, along_k=major == "K") if share < 1 else 0
    if origins == 1:
        return SEVERAL_PLACES
    hop = _hop(held, matrix, along_k=major == "K") if origins > 1 else None
    if hop is not None and not hop.may_be_next:
        return FRAMES
    real = [load for load in loads if load is not None]
    order = tuple(real.index(load) for load in (first, *(load for load in held if load is not first)))
    corner = matrix.place(first.event.coordinates)
    is_absolute = tm.rank == 2
    moves = ((), ()) if is_absolute else (_moved(at[:, 0], known[:, 0]), _moved(at[0], known[0]))
    may_be_frames = is_absolute and hop is not None and hop.has_more_rows
    return Told(order, dimensions, (begin[0] - corner[0], begin[1] - corner[1]), share, is_absolute, moves, may_be_frames=may_be_frames)


def _are_pixels_apart(load: Issued, place: np.ndarray, dtype: str) -> bool:
    """Are the rows of a K-major operand not pixels of an im2col load, one after the other, with their channels in
    order?
    """
    tm, bits = load.transfer.tensor_map, element_format(dtype).bits
    if load.event.mode != "im2col" or tm.interleave or tm.type_row.bits != bits:
        return False
    pixels, begins = np.divmod(place, load.transfer.geometry.row_bytes)
    row, column = np.indices(place.shape)
    return bool((pixels - row != pixels[0, 0]).any() or (begins - column * CHUNK != begins[0, 0]).any())


def _moved(at: np.ndarray, known: np.ndarray) -> tuple[int, ...]:
    """Along which dimensions the coordinates of a row of chunks, those of them that are `known`, go on."""
    held = at[known]
    return tuple(int(n) for n in np.flatnonzero((held != held[:1]).any(axis=0)))


def _begin_of(by: tuple[np.ndarray, np.ndarray], known: np.ndarray, begin: tuple[int, int]) -> tuple[tuple[int, int], float]:
    """The begin of an operand by its `known` chunks, and the share of them that agree. Its
    first element gives `begin`.
    """
    if not known.any():
        return begin, 0.0
    origins = np.stack([x[known] for x in by], axis=-1)
    if (origins == origins[0]).all():
        origins, counts = origins[:1], np.array([len(origins)])
    else:
        origins, counts = np.unique(origins, axis=0, return_counts=True)
    best = int(counts.argmax())
    share = float(counts[best]) / known.size
    # Most elements give the begin of the operand. If they disagree, or as many agree with the first element, that one
    # counts: strides do not move it. Of 128 rows of A, 64 may be those of the next box, for rows of D that are not
    # stored.
    is_first = counts[(origins == begin).all(axis=1)].max(initial=0) == counts[best]
    return (int(origins[best][0]), int(origins[best][1])) if share >= SURE and not is_first else begin, share


def _is_sliced(load: Issued, place: np.ndarray) -> bool:
    """Does one instruction read each chunk of a tile once, as several times as many rows with a part of the k each?

    Slice-K does so: its rows are the parts of K of a row, and the program adds up rows of D. A wrong descriptor leaves
    out chunks, or the tile has as many rows as the instruction.
    """
    tm, (rows, chunks) = load.transfer.tensor_map, place.shape
    if tm.rank != 2 or rows <= tm.box_dim[1] or rows % tm.box_dim[1]:
        return False
    return rows * chunks * CHUNK == load.transfer.transaction_bytes and len(distinct(place)) == place.size


def _each_alone(pattern: np.ndarray, loads: list[int], by: tuple[np.ndarray, np.ndarray]) -> bool:
    """Does each load's part lie as it should, and only the parts to each other do not?"""
    return len(loads) > 1 and all(len(distinct(x[pattern == n])) == 1 for n in loads for x in by)


def _whole_boxes(loads: Sequence[Issued | None], pattern: np.ndarray, place: np.ndarray, per_chunk: int, *, along_k: bool) -> int:
    """The number of different k at which the boxes of an operand begin. 0 if the operand is not made of such boxes.

    The boxes follow one another along the rows, and each is read from its first row on.

    If all begin at one k, any rows may be meant: pages of a cache, two halves of a weight, heads. A box that comes
    twice may have wrong coordinates, unless a table names it twice.
    """
    if len(loads) < 2:
        return 0
    each, held = np.indices(pattern.shape), list[tuple[int, int, int]]()  # of each box its first row, address and bytes
    rows, columns = each[0], each[1]
    count, origins, brought = len(pattern) * (1 if along_k else per_chunk), set(), set()
    for n, load in enumerate(loads):
        if load is None or not _is_plain(load):
            return 0
        tm, at = load.transfer.tensor_map, load.event.coordinates
        main = [dimension for dimension in range(1, tm.rank) if tm.box_dim[dimension] > 1]
        if len(main) != 1:
            return 0
        mine = pattern == n
        coordinates = load.transfer.tensor_coordinates(place[mine])
        inner, outer = coordinates[:, 0], coordinates[:, main[0]]
        if along_k:
            of_rows, size, row, step, of_k = outer - at[main[0]], tm.box_dim[main[0]], rows[mine], 1, inner - columns[mine] * per_chunk
        else:
            of_rows, size, row, step, of_k = inner - at[0], tm.box_dim[0], rows[mine] * per_chunk, per_chunk, outer - columns[mine]
        ends = of_rows.max() + step == size or row.max() + step == count
        if of_rows.min() > 0 or not ends or len(distinct(row - of_rows)) > 1 or len(distinct(of_k)) > 1:
            return 0
        held.append((int(row.min()), load.transfer.smem_address, load.transfer.transaction_bytes))
        origins.add((tm.type_row.bits, int(of_k[0])))
        brought.add((tm.global_address, at))
    if any(at + size != then for (_, at, size), (_, then, _) in itertools.pairwise(sorted(held))):
        return 0  # a wrong stride leaves out a box that lies between
    may_repeat = any(load is not None and load.is_looked_up for load in loads)
    return len(origins) if may_repeat or len(brought) == len(loads) else 0


class _Hop(NamedTuple):
    """How far apart along k the boxes of an operand lie that are the same rows of a tensor, as frames of a signal are.

    It `may_be_next` if this is the size of a box. Boxes that go on along k may be an N that is too large: it reads on
    in the next box of a tile. Exchanged coordinates of boxes that follow one another along the rows look like a hop of
    their rows, if the tensor has more rows than a box.
    """

    may_be_next: bool
    has_more_rows: bool


def _hop(loads: Sequence[Issued], matrix: Matrix, *, along_k: bool) -> _Hop | None:
    """The hop of frames; None if the boxes are other rows, or not equally far apart."""
    k, rows = (matrix.inner, matrix.outer) if along_k else (matrix.outer, matrix.inner)
    if len(k) > 1 or len(rows) > 1:
        return None
    tm, at = loads[0].transfer.tensor_map, np.array([load.event.coordinates for load in loads])
    others = np.delete(at, k[0].dimension, axis=1)
    hops = distinct(np.diff(np.sort(at[:, k[0].dimension])))
    if (others != others[0]).any() or len(hops) != 1 or not hops[0]:
        return None
    size, its_rows = (tm.box_dim[axis[0].dimension] for axis in (k, rows))
    has_more_rows = tm.global_dim[rows[0].dimension] > its_rows
    return _Hop(int(hops[0]) == size or (has_more_rows and int(hops[0]) == its_rows), has_more_rows)


class Stray(NamedTuple):
    """The only one of the boxes of an operand that does not go on where the box before it ends.

    It has the dimension, and the coordinate at which the others would have the box. The others are `others` in number.
    """

    load: Issued
    dimension: int
    wanted: int
    others: int


def stray_of(loads: Sequence[Issued | None]) -> Stray | None:
    """The box whose coordinate may be wrong, if an operand comes `SEVERAL_PLACES`. All boxes but one follow one
    another, and there are at least three. Of two, it is the second one if they overlap. Coordinates from a table in
    memory may be any. If the others go on outside of the tensor, as in a ring that begins anew, the box is none.
    """
    held = sorted((load for load in loads if load is not None), key=lambda load: load.transfer.smem_address)
    at = np.array([load.event.coordinates for load in held])
    moving = np.flatnonzero((at != at[:1]).any(axis=0))
    if len(held) < 2 or len({load.key_of_map for load in held}) > 1 or len(moving) != 1 or any(load.is_looked_up for load in held):
        return None
    n = int(moving[0])
    if len(held) == 2 and abs(at[1, n] - at[0, n]) >= held[0].transfer.tensor_map.box_dim[n]:
        return None
    begins = at[:, n] - np.arange(len(held)) * held[0].transfer.tensor_map.box_dim[n]
    found, counts = np.unique(begins, return_counts=True)
    begin = int(begins[0] if len(held) == 2 else found[counts.argmax()])
    odd = np.flatnonzero(begins != begin)
    if len(odd) != 1:
        return None
    wanted = int(at[odd[0], n] - begins[odd[0]] + begin)
    if not 0 <= wanted < held[0].transfer.tensor_map.global_dim[n]:
        return None
    return Stray(held[odd[0]], n, wanted, len(held) - 1)


def _walked(first: Issued, loads: list[Issued]) -> tuple[int, ...]:
    """The dimensions, except the contiguous one, along which an operand runs. They have several elements in its boxes,
    move from load to load, or are within a row of such dimensions. The stride of a dimension with one element means
    nothing: CUTLASS writes 0 for a batch of one.
    """
    tm = first.transfer.tensor_map
    several = [
        n for n in range(1, tm.rank)
        if tm.box_dim[n] > 1 or any(load.event.coordinates[n] != first.event.coordinates[n] for load in loads)
    ]  # fmt: skip
    outer = next((n for n in several if tm.box_dim[n] > 1), 0)
    within = [n for n in range(1, tm.rank) if outer and tm.global_dim[n] > 1 and tm.global_strides[n - 1] < tm.global_strides[outer - 1]]
    return tuple(sorted({*several, *within}))


def matrix_of(first: Issued, dimensions: tuple[int, ...]) -> Matrix | str:
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
        return "operands of tensors whose rows overlap"  # an address does not tell the meant element
    address = tm.global_address + sum(at[n] * stride[n] for n in range(1, tm.rank) if n not in dimensions)
    inner_modes = tuple(
        Mode(n, b // a, a, 0, tm.global_dim[n]) for n, a, b in zip(inner, steps, [*steps[1:], steps[-1]], strict=True)
    )  # fmt: skip
    outer_modes = []
    for n in (main, *planes):
        begin = at[n] if planes else 0
        outer_modes.append(Mode(n, tm.box_dim[n], stride[n], begin, tm.global_dim[n] - begin))
        address += begin * stride[n]
    return Matrix(signed(address), inner_modes, tuple(outer_modes))


def signed(address: int) -> int:
    """A sum in 64 bits, as in hardware. Maps of ragged tensors wrap around; their element (0, 0), which is never read,
    may be below 0.
    """
    half = 1 << LIMITS.address_bits - 1
    return (address + half) % (2 * half) - half


def _is_of(load: Issued, tm: TensorMap) -> bool:
    """Did a load bring of the same tensor, by a map that counts alike?"""
    other = load.transfer.tensor_map
    return (other.global_address, other.rank, other.global_strides, other.type_row.bits) == (
        tm.global_address,
        tm.rank,
        tm.global_strides,
        tm.type_row.bits,
    )


def _is_plain(load: Issued) -> bool:
    g, tm = load.transfer.geometry, load.transfer.tensor_map
    is_of_neighbours = not load.is_strided
    return g.mode == "tile" and g.chunk_bytes == CHUNK and not g.has_flip and tm.call == "tiled" and not tm.interleave and is_of_neighbours
