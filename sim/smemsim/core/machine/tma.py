"""Tensor transfers: which byte goes where, what the barrier is credited with, where hardware traps, and what becomes of
the bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from smemsim.base.arguments import shown, whole, wholes
from smemsim.base.errors import HardwareTrap, InputError, OutsideError, SmemsimError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.base.lazily import cached_property
from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic.reduce import reduction_op, tensor_reduction
from smemsim.core.arithmetic.reduce_loops import reduce_elements
from smemsim.core.layout import tma_loops
from smemsim.core.layout.tma import im2col_offset, pack_im2col_offset
from smemsim.core.machine import loops
from smemsim.core.machine.geometry import (
    Geometry,
    check_coordinates,
    check_global,
    check_map,
    check_smem_address,
    check_window,
    geometry_of,
)
from smemsim.core.machine.global_memory import OUTSIDE, Region
from smemsim.core.spec.architectures import ARCHITECTURES, any_architecture
from smemsim.core.spec.assumptions import assumed, in_force
from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.core.spec.tensor_map import LIMITS, WIDE_IS_IM2COL, corner_bits
from smemsim.core.spec.transfers import GATHERED_ROWS, HALO_EVERY, STORED_BITS
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.problems import short_strides

__all__ = [
    "GATHERS", "LOOPS", "BoxForm", "Boxes", "Transfer", "are_apart", "box_form", "check_covered", "load_bytes", "prepare", "reduce_bytes", "store_boxes", "store_bytes", "tma_load", "tma_load_bytes", "tma_prefetch",
    "tma_reduce", "tma_store", "tma_store_bytes",
]  # fmt: skip


MOST_ADDRESS = 1 << BULK_LIMITS.cta_rank_shift  # above it stands a CTA's rank
GATHERS = ("tile::gather4", "tile::scatter4")
LOOPS = (tma_loops.tile_reaches, loops.load_boxes)  # those of loads of whole lines
NO_OFFSETS: tuple[int, ...] = ()  # Python keeps one empty tuple


SHARED_END, GRANULARITY = ARCHITECTURES["sm_90a"].shared_end, ARCHITECTURES["sm_90a"].shared_granularity


# ---- `Transfer`: one tensor transfer as 16-byte chunks, as bytes, and as tensor coordinates


@dataclasses.dataclass(eq=False)
class Boxes:
    """Tensor loads, or stores, of boxes of one map, each at the same address of a window of its own. One box is no
    special case.

    - Common properties of all boxes are in `form`.
    - The begin of each box is in `coordinates`. The same in one array is `starts` (int64, boxes x 5).
    - Array `lines` (int64, boxes x rows) has for each row the bytes from the tensor's first element to coordinate 0 of
      dimension 0. Rows out of bounds have `tma_loops.OUTSIDE`.
    - Array `found` (int64, boxes + 1 x 4) has four numbers for each box. The end of the shared bytes that are accessed.
      The first byte and the end of the accessed bytes of the tensor (both 0 for none). Whether every byte of the box is
      in bounds. The last row is for all boxes together.
    - Begin and end of the global bytes that are touched are `span`, (0, 0) for none.
    - Rows of an im2col walk or a gather are in `walked`, for each box. Those of a tile are made when asked for.
    """

    form: BoxForm
    coordinates: Sequence[tuple[int, ...]]
    starts: np.ndarray
    lines: np.ndarray
    found: np.ndarray
    span: tuple[int, int]
    are_whole: bool
    walked: Sequence[np.ndarray] | None = None

    @cached_property
    def transfers(self) -> list[Transfer]:
        """Each of them."""
        return [Transfer(self, n) for n in range(len(self.coordinates))]

    @cached_property
    def inner(self) -> np.ndarray:
        """int64[boxes]: the coordinate of dimension 0 at which every row of a box begins; 0 where the lines have it."""
        return np.zeros(len(self.starts), np.int64) if self.form.geometry.walks_inside else np.ascontiguousarray(self.starts[:, 0])

    @cached_property
    def reaches(self) -> list[list[int]]:
        """The rows of `found`."""
        rows: list[list[int]] = self.found.tolist()
        return rows

    @cached_property
    def transaction_bytes(self) -> int:
        """The bytes that each load reports to its mbarrier: the dense box, fill included, gaps not. For a store they
        are the bytes of the dense box.
        """
        return int(self.lines.shape[1]) * self.form.geometry.row_bytes

    @property
    def are_alike(self) -> bool:
        """Can all be moved at once: is there one, or are all inside the tensor, and does no store touch what another
        one does?
        """
        return len(self.coordinates) == 1 or (
            self.are_whole and (not self.form.is_store or are_apart(self.form.tensor_map, self.coordinates))
        )


def are_apart(tm: TensorMap, boxes: Sequence[tuple[int, ...]]) -> bool:
    """Do boxes of a map share no bytes, as those of a grid in a tensor whose elements share none?

    >>> import smemsim
    >>> tm = smemsim.TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(64, 4), global_strides=(64,), box_dim=(32, 4))
    >>> are_apart(tm, [(0, 0), (32, 0)]), are_apart(tm, [(0, 0), (16, 0)])
    (True, False)
    """
    if len(boxes[0]) != tm.rank or tm.call != "tiled" or any(short_strides(tm)):
        return False
    at = np.array(boxes)
    steps, rest = np.divmod(at - at[0], np.array(tm.box_dim))
    return not rest.any() and len({*map(tuple, steps.tolist())}) == len(boxes)


class Transfer(metaclass=OwnMembers):
    """One TMA transfer of any mode by a `tensor_map`. The box consists of rows, and a row consists of chunks.

    - Array `lines` (int64) has for each row the bytes from the tensor's first element to coordinate 0 of dimension 0.
      Rows out of bounds have `tma_loops.OUTSIDE`.
    - Array `rows` (int64, n x 5) has the tensor coordinates at which each row begins.
    - Array `chunk_shared` (uint32) has the shared address of each chunk. Byte b of the chunk is at that address XOR b.
    - Array `chunk_global` (int64) has the global address of each chunk. The first `chunk_valid` of its `chunk_bytes`
      bytes are inside the tensor.

    A chunk is 16 bytes on both sides. For sub-byte types with gaps it holds 8 or 12 bytes of global memory.

    >>> import smemsim
    >>> tm = smemsim.TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(64, 4), global_strides=(64,), box_dim=(32, 4))
    >>> t = smemsim.tma_load(tm, (0, 2), smem_address=0x800)
    >>> t.transaction_bytes, t.tile_shape, t.rows[2, :2].tolist()
    (128, (32, 4), [0, 4])
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "c0", "geometry", "sources", "stored_bits", "whole",
    )  # fmt: skip

    def __init__(self, boxes: Boxes, n: int = 0, operation: str = "") -> None:
        self.boxes, self.n, self.operation = boxes, n, operation  # of a reduction: add, min, ...
        self.tensor_map: TensorMap = boxes.form.tensor_map

    @property
    def coordinates(self) -> tuple[int, ...]:
        """The coordinates of the box, dimension 0 first."""
        return self.boxes.coordinates[self.n]

    @property
    def smem_address(self) -> int:
        """The address of the box in the window."""
        return self.boxes.form.smem_address

    @property
    def is_store(self) -> bool:
        """True for a store or a reduction."""
        return self.boxes.form.is_store

    @property
    def geometry(self) -> Geometry:
        """The common facts of all boxes of a map."""
        return self.boxes.form.geometry

    @property
    def lines(self) -> np.ndarray:
        """int64[rows]: for each row, the bytes from the tensor's first element."""
        found: np.ndarray = self.boxes.lines[self.n]
        return found

    @property
    def c0(self) -> int:
        """The coordinate of dimension 0 at which every row begins; 0 where the lines have it."""
        return int(self.boxes.inner[self.n])

    @property
    def shared_end(self) -> int:
        """The end of the shared bytes that are accessed."""
        return self.boxes.reaches[self.n][0]

    @property
    def global_span(self) -> tuple[int, int]:
        """The begin and the end of the global bytes that are accessed. (0, 0) if there are none."""
        (_, low, high, _), base = self.boxes.reaches[self.n], self.tensor_map.global_address
        return (low + base, high + base) if high else (0, 0)

    @property
    def whole(self) -> bool:
        """Is every byte of the box in bounds?"""
        return bool(self.boxes.reaches[self.n][3])

    def __repr__(self) -> str:
        direction = f"{self.operation} reduction" if self.operation else "store" if self.is_store else "load"
        what = f"{self.geometry.mode} {direction}"
        return f"<{what} of {self.tensor_map.data_type.name} {self.tile_shape} at {self.coordinates}, shared {self.smem_address:#x}>"

    @cached_property
    def rows(self) -> np.ndarray:
        """int64[rows, 5]: the tensor coordinates each row of the box begins at."""
        if self.boxes.walked is not None:
            return self.boxes.walked[self.n]
        g, start = self.geometry, np.zeros(5, np.int64)
        start[: len(self.coordinates)] = self.coordinates
        rows = np.empty((g.rows, 5), np.int64)
        tma_loops.tiled_rows(start, g.shape[2], g.shape[3], rows)
        return rows

    @property
    def transaction_bytes(self) -> int:
        """The bytes that a load counts at its mbarrier: the box without gaps, with fill. For a store: the bytes of the
        box without gaps.
        """
        return len(self.lines) * self.geometry.row_bytes

    @property
    def chunk_bytes(self) -> int:
        """Bytes of global memory in a chunk."""
        return self.geometry.chunk_bytes

    @property
    def stored_bits(self) -> int:
        """Bits that a store takes of each shared byte: 8, or 6 where it packs."""
        return STORED_BITS.get(self.tensor_map.data_type, 8)

    @cached_property
    def _chunks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, g = len(self.lines) * self.geometry.chunks, self.geometry
        shared, source, valid = np.empty(n, np.uint32), np.empty(n, np.int64), np.empty(n, np.uint8)
        # it may have 64 bits where nothing is touched
        base = self.tensor_map.global_address if self.global_span[1] else 0
        tma_loops.chunks_of_lines(self.lines, self.c0, g.shape, g.layout, base, self.smem_address, shared, source, valid)
        return shared, source, valid

    @property
    def chunk_shared(self) -> np.ndarray:
        """uint32[chunks]: the shared address of each chunk."""
        return self._chunks[0]

    @property
    def chunk_global(self) -> np.ndarray:
        """int64[chunks]: the global address of each chunk."""
        return self._chunks[1]

    @property
    def chunk_valid(self) -> np.ndarray:
        """uint8[chunks]: how many bytes of each chunk are inside of the tensor."""
        return self._chunks[2]

    @cached_property
    def _bytes(self) -> tuple[np.ndarray, np.ndarray]:
        byte = np.arange(self.chunk_bytes)
        chunk_shared, chunk_global, chunk_valid = self._chunks
        # of packed stores the shared byte that a global byte begins in
        begins = byte * 8 // self.stored_bits if self.is_store else byte
        shared = (chunk_shared[:, None] ^ begins.astype(np.uint32)).ravel()
        source = (chunk_global[:, None] + byte).ravel()
        if self.whole:
            return shared, source
        valid = (byte < chunk_valid[:, None]).ravel()
        return (shared[valid], source[valid]) if self.is_store else (shared, np.where(valid, source, -1))

    @property
    def shared_address(self) -> np.ndarray:
        """uint32[n]: every shared byte that a load writes, or the shared byte of each global byte that a store writes.

        Stores of 16U6_ALIGN16B pack six bits of each shared byte: there it is the byte with the lowest bit of the
        global byte.
        """
        return self._bytes[0]

    @property
    def global_address(self) -> np.ndarray:
        """int64[n]: the global byte that each byte came from or went to. -1 for fill."""
        return self._bytes[1]

    @property
    def sources(self) -> np.ndarray:
        """int64[n]: of a load, as a writer of shared memory: the global byte of each byte that it wrote, or
        region.OUTSIDE.
        """
        return self.global_address if self.whole else np.where(self.global_address < 0, OUTSIDE, self.global_address)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The dense box along each dimension, dimension 0 first: elements, or slices with interleave; (channels,
        pixels) for im2col.
        """
        tm, g = self.tensor_map, self.geometry
        if tm.call == "tiled" and len(self.lines) == g.rows and g.mode == "tile":
            return tuple(int(n) for n in g.shape[2, : tm.rank])
        return g.row_bytes * 8 // g.unit_bits, len(self.lines)

    def tensor_coordinates(self, position: np.ndarray) -> np.ndarray:
        """The tensor coordinates (..., rank) of bytes of the dense box, dimension 0 first. They may lie outside of the
        tensor.
        """
        g, rank = self.geometry, self.tensor_map.rank
        at = np.asarray(position, np.int64)
        row, inside = at // g.row_bytes, at % g.row_bytes
        out = self.rows[np.minimum(row, len(self.rows) - 1)][..., :rank].copy()
        out[..., 0] += inside * 8 // g.unit_bits * int(g.shape[3, 0])
        return out


# ---- Loads, stores and prefetches as transfers


def tma_load(
    tm: TensorMap,
    coordinates: Sequence[int],
    *,
    smem_address: int,
    im2col_offsets: Sequence[int] = (),
    mode: str | None = None,
    arch: str | None = None,
    shared_end: int = SHARED_END,
) -> Transfer:
    """The shared address of every byte of the box of a `cp.async.bulk.tensor` load.

    - Coordinates: signed, in driver order, in elements. With interleave, dimension 0 counts slices. For tile::gather4
      they are the column and four rows.
    - Address: `smem_address`, a byte of the `.shared` window, which ends at `shared_end` (default: the largest window).
    - Offsets: `im2col_offsets`, those of im2col, W first, or (wHalo, wOffset) of im2col::w.
    - Mode: `mode`, that of the instruction. Default: that of the map.
    - Architecture: `arch`. None is as measured on sm_90a, and as documented for modes that only Blackwell has.

        pitch = bytes of an inner row, or the swizzle width; row = j1 + T1*(j2 + T2*...), or the pixel
        shared = swizzle(smem_address + row*pitch + byte)        on the absolute address

    Elements outside the tensor are fill.

    Raises HardwareTrap if hardware traps. The CUDA error is 700 if the box ends past the window. It is 715 for a
    dimension above 2^31, and for a start in dimension 0 that is no multiple of 16 B. It is also 715 for a start outside
    of the im2col pixel box, and for a rank or mode that is not that of the map. It is 716 for a shared address that is
    no multiple of 128 B, or a global address that is no multiple of 16 B.

    Measured on an H200: traces tma_loads, tma_im2col, tma_interleave, tma_im2col_interleave. Documented: tile::gather4,
    im2col::w, sub-byte types and the 128B atoms.

    >>> from smemsim import TensorMap, tma_load
    >>> tm = TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,), box_dim=(64, 8),
    ...                      swizzle="128B")
    >>> t = tma_load(tm, (0, 12), smem_address=2048)  # rows 12 to 19 of a tensor with 16
    >>> t.transaction_bytes, int((t.global_address == -1).sum())
    (1024, 512)
    """
    place: dict[str, Any] = {"smem_address": smem_address, "im2col_offsets": im2col_offsets, "shared_end": shared_end}
    return box_form(tm, mode=mode, arch=arch, **place).one(coordinates)


def tma_store(
    tm: TensorMap,
    coordinates: Sequence[int],
    *,
    smem_address: int,
    mode: str | None = None,
    arch: str | None = None,
    shared_end: int = SHARED_END,
) -> Transfer:
    """Every global byte that a `cp.async.bulk.tensor` store writes, and its shared byte. Arguments are those of
    `tma_load`.

    Outer dimensions are clipped exactly. Dimension 0 is clipped at 16-byte chunks: up to 15 bytes after the tensor's
    last element are overwritten. Raises HardwareTrap also for a negative start coordinate, and for im2col corners
    outside the tensor (715). Measured (H200): traces tma_stores, tma_im2col_stores, tma_interleave_stores,
    tma_store_traps, tma_mode_traps.

    >>> from smemsim import TensorMap, tma_store
    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(20, 4), global_strides=(32,), box_dim=(32, 4))
    >>> len(tma_store(tm, (0, 0), smem_address=1024).global_address)  # 4 rows of 32 bytes, not of 20
    128
    """
    place: dict[str, Any] = {"smem_address": smem_address, "shared_end": shared_end, "is_store": True}
    return box_form(tm, mode=mode, arch=arch, **place).one(coordinates)


def tma_prefetch(
    tm: TensorMap, coordinates: Sequence[int], *, im2col_offsets: Sequence[int] = (), mode: str | None = None, arch: str | None = None
) -> np.ndarray:
    """The global bytes (int64[n]) that `cp.async.bulk.prefetch.tensor` asks the L2 cache for. It changes no memory.

    It traps like a load, except for shared memory. Measured (H200): trace tma_mode_traps. Raises what `tma_load`
    raises.

    >>> from smemsim import TensorMap, tma_prefetch
    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(20,), global_strides=(), box_dim=(32,))
    >>> len(tma_prefetch(tm, (0,)))
    20
    """
    place: dict[str, Any] = {"smem_address": LIMITS.smem_alignment, "im2col_offsets": im2col_offsets, "shared_end": MOST_ADDRESS}
    address = box_form(tm, mode=mode, arch=arch, **place).one(coordinates).global_address
    return address[address >= 0]


def check_covered(span: tuple[int, int], begin: int, size: int, what: str) -> None:
    """OutsideError unless every byte that transfers touch (`span`) lies in global bytes begin ... begin + size."""
    low, high = span
    if high and (low < begin or high > begin + size):
        raise OutsideError(
            f"{what} covers global {begin:#x} to {begin + size:#x}: the box needs {low:#x} to {high:#x}; check global_address and strides"
        )


def box_form(
    tm: Any, *, smem_address: Any, im2col_offsets: Any = NO_OFFSETS, mode: str | None = None, arch: str | None = None, shared_end: Any = SHARED_END, is_store: bool = False
) -> BoxForm:  # fmt: skip
    """What `tma_load`, or `tma_store`, of boxes of a map at one address have in common; it is kept with the map. Raises
    InputError for arguments that no instruction has.
    """
    if not isinstance(tm, TensorMap):
        raise InputError(f"tm: needs a TensorMap, not {type(tm).__name__}; TensorMap.from_bytes reads the 128 bytes of one")
    is_plain = type(smem_address) is int and type(shared_end) is int and type(mode) in _NAMES and type(arch) in _NAMES
    if not is_plain or (im2col_offsets is not NO_OFFSETS and not _are_ints(im2col_offsets)):
        return _box_form(tm, smem_address, im2col_offsets, mode, arch, shared_end, is_store)
    forms: dict[Any, dict[tuple[int, int], BoxForm]] = tm.__dict__.setdefault("_forms", {})
    known = forms.setdefault((im2col_offsets, mode, arch, is_store, in_force()), {})
    found = known.get((smem_address, shared_end))
    if found is None:
        other = next(iter(known.values()), None)
        found = (
            _box_form(tm, smem_address, im2col_offsets, mode, arch, shared_end, is_store)
            if other is None
            else other.at(smem_address, shared_end)
        )
        known[smem_address, shared_end] = found
    return found


_NAMES = frozenset((str, type(None)))


def _are_ints(values: Any) -> bool:
    """Is it a tuple of plain ints?"""
    return type(values) is tuple and all(type(value) is int for value in values)


def _box_form(
    tm: TensorMap, smem_address: Any, im2col_offsets: Any, mode: str | None, arch: str | None, shared_end: Any, is_store: bool
) -> BoxForm:
    address, end = _place(smem_address, shared_end)
    if type(arch) is not str and arch is not None:
        arch = any_architecture(arch).name
    broken = "" if arch is None else next(iter(tm.broken_on(arch)), "")
    if tm.on_hopper and arch in (None, *WIDE_IS_IM2COL):
        tm = tm.as_im2col
    return BoxForm(tm, address, is_store, geometry_of(tm, mode, arch, is_store=is_store), arch, end, im2col_offsets, broken)


def _place(smem_address: Any, shared_end: Any) -> tuple[int, int]:
    """The address of boxes, and the end of their window. Raises InputError for what is none."""
    end = shared_end if shared_end is SHARED_END else _address("shared_end", shared_end)
    return _address("smem_address", smem_address), end


def prepare(tm: TensorMap, *, mode: str, arch: str, is_store: bool = False) -> None:
    """Find out before a transfer what the map alone decides: the geometry of its box, and where hardware stops it. The
    answers are kept with the map. An error is raised by the transfer, if there is one.
    """
    known: set[Any] = tm.__dict__.setdefault("_prepared", set())
    if (key := (mode, arch, is_store, in_force())) in known:
        return
    known.add(key)
    with contextlib.suppress(SmemsimError):
        form = box_form(tm, smem_address=LIMITS.smem_alignment, im2col_offsets=(), mode=mode, arch=arch, is_store=is_store)
        at = (0,) * (1 + GATHERED_ROWS if mode in GATHERS else tm.rank)
        for each in ([at], [at, at]):  # their arrays have types of their own
            form.boxes(each)


@dataclasses.dataclass(eq=False)
class BoxForm:
    """The common facts of the boxes of one map that an instruction moves to or from one shared address. Only their
    first elements differ.
    """

    tensor_map: TensorMap
    smem_address: int
    is_store: bool
    geometry: Geometry
    arch: str | None
    shared_end: int
    im2col_offsets: Any
    broken: str  # the rule that the map breaks on the architecture, "" for none
    _halo: tuple[tuple[int, ...] | None] | None = None  # as soon as it is known

    def at(self, smem_address: int, shared_end: int) -> BoxForm:
        """The same of another address, in a window with another end. What is known of the map stays known. Raises
        InputError for what is no address.
        """
        address, end = _place(smem_address, shared_end)
        return dataclasses.replace(self, smem_address=address, shared_end=end)

    def halo(self) -> tuple[int, ...] | None:
        """The im2col offsets of a walk; None for tiles. Raises what comes from the map alone, and for offsets that no
        instruction has.
        """
        if self._halo is None:
            tm, g, given = self.tensor_map, self.geometry, self.im2col_offsets
            check_map(tm, g, self.arch, is_store=self.is_store)
            extra = () if given is NO_OFFSETS and not g.axes else _offsets(tm, g, given, self.is_store)
            self._halo = (extra if g.axes or g.mode in GATHERS else None,)
        return self._halo[0]

    def one(self, coordinates: Any) -> Transfer:
        """The transfer of the box at some coordinates."""
        return Transfer(self.boxes([self.coordinates(coordinates)]))

    def coordinates(self, given: Any) -> tuple[int, ...]:
        """Coordinates of a box as Python ints. Raises InputError, and HardwareTrap for another number of dimensions
        than the map has.
        """
        if _are_ints(given):  # `boxes` looks at their count and range
            return cast("tuple[int, ...]", given)
        return _coordinates(self.tensor_map, self.geometry, given)

    def boxes(self, each: Sequence[tuple[int, ...]]) -> Boxes:
        """The boxes at coordinates, which all have as many. Raises as `tma_load` does, for one of them."""
        tm, g, address, is_store = self.tensor_map, self.geometry, self.smem_address, self.is_store
        count = 1 + GATHERED_ROWS if g.mode in GATHERS else tm.rank
        if len(each[0]) != count or not -(1 << 31) <= min(each[0]) <= max(each[0]) < 1 << 31:
            _coordinates(tm, g, each[0])
        extra, base = self.halo(), tm.global_address
        # of a load's tile `check_coordinates` looks at dimension 0 alone
        is_own = len(each) == 1 or g.axes > 0 or is_store
        for at in each if is_own else {at[0]: at for at in each}.values():
            check_coordinates(tm, g, at, extra or (), is_store=is_store)
        if g.rows * g.pitch > MOST_ADDRESS:  # a map that no driver made; the rows alone would fill this machine
            raise HardwareTrap(f"the box takes {g.rows} rows of {g.pitch} B: no shared window has them", cuda_error=ILLEGAL_ADDRESS)
        walked = None if extra is None else [_walk(g, at, extra, tm.rank) for at in each]
        far = self._farthest(each if walked is None else walked) if g.is_far else ()
        starts, found = np.zeros((len(each), 5), np.int64), np.empty((len(each) + 1, 4), np.int64)
        starts[:, : len(each[0])] = each
        lines = np.empty((len(each), g.rows if walked is None else len(walked[0])), np.int64)
        if walked is None:  # a tile, as most boxes are
            tma_loops.tile_reaches(starts, g.shape, g.layout, address, lines, found)
        else:
            self._reach(walked, starts, lines, found)
        for n, offset in enumerate(far):
            if offset >> 63:  # the lines have wrapped around; no box is wide enough to lie on both sides
                for line in (int(found[n, 1]), int(found[n, 2]) - 1):
                    _check_wrapped(line, base)
        reach, low, high, whole = found[-1].tolist()
        span = (low + base, high + base) if high else (0, 0)
        if reach > self.shared_end:
            check_window(reach, -(-self.shared_end // GRANULARITY) * GRANULARITY, is_store=is_store)
        # A load looks up the tensor's first byte even when its box lies outside the tensor altogether.
        check_global(span[1] if is_store or high else base + 1)
        check_smem_address(address)
        return Boxes(self, each, starts, lines, found, span, bool(whole), walked)

    def _farthest(self, each: Sequence[tuple[int, ...]] | Sequence[np.ndarray]) -> list[int]:
        """`Geometry.farthest` of each box. Raises HardwareTrap if one is beyond all addresses."""
        found = [self.geometry.farthest(at) for at in each]
        for offset in filter(None, found):
            _check_wrapped(offset, self.tensor_map.global_address)
        return found

    def _reach(self, walked: Sequence[np.ndarray], starts: np.ndarray, lines: np.ndarray, found: np.ndarray) -> None:
        """The lines of walks, and what they reach."""
        g = self.geometry
        for n, rows in enumerate(walked):
            tma_loops.lines_of_rows(rows, int(not g.walks_inside), g.shape, lines[n])
            found[n] = tma_loops.reach(lines[n], 0 if g.walks_inside else starts[n, 0], g.shape, g.layout, self.smem_address)
        tma_loops.joined(found)


def _check_wrapped(offset: int, base: int) -> None:
    """Raise HardwareTrap if the address `offset` bytes after `base`, in 64 bits, has more than 57 bits."""
    check_global((base + offset) % (1 << LIMITS.address_bits) + 1)


def _walk(g: Geometry, at: tuple[int, ...], extra: tuple[int, ...], rank: int) -> np.ndarray:
    """The coordinates at which each row of a gather or an im2col column begins, int64 (rows, 5)."""
    if g.mode in GATHERS:
        rows = np.zeros((GATHERED_ROWS, 5), np.int64)
        rows[:, 0], rows[:, 1] = at[0], assumed("tma.gathered", at[1:])
        return rows
    start = np.zeros(5, np.int64)
    start[:rank] = at
    offset = np.zeros(5, np.int64)
    lower, upper, count = g.lower, g.upper, g.rows
    if g.mode.startswith("im2col::w"):
        halo, moved = extra
        start[g.first] += moved
        lower, upper = lower + moved, upper + moved  # only the entry of W is looked at
        count += halo * (g.rows // HALO_EVERY if g.mode.endswith("::128") else 1)
    else:
        offset[g.first : g.first + g.axes] = extra
    rows = np.empty((count, 5), np.int64)
    walk = (g.first, g.axes, lower, upper, g.shape[3], rank - 1)
    if g.mode == "im2col::w::128" and extra[0]:
        # After every 32 pixels come wHalo more, which the walk over pixels does not use up (PTX ISA 9.1 §5.5.5.2).
        line = np.empty((g.rows + extra[0], 5), np.int64)
        tma_loops.im2col_rows(start, offset, *walk, line)
        groups = [line[i : i + HALO_EVERY + extra[0]] for i in range(0, g.rows, HALO_EVERY)]
        return np.concatenate(groups)
    tma_loops.im2col_rows(start, offset, *walk, rows)
    return rows


def _coordinates(tm: TensorMap, g: Geometry, coordinates: Any) -> tuple[int, ...]:
    gathers = g.mode in GATHERS
    rank = 1 + GATHERED_ROWS if gathers else tm.rank
    at = wholes("coordinates", coordinates, wanted="signed 32-bit element indices, dimension 0 first")
    if len(at) == rank and min(at) >= -(1 << 31) and max(at) < 1 << 31:
        return at
    what = "the column and four rows" if gathers else f"{rank} signed 32-bit element indices, dimension 0 first"
    if gathers or not at or len(at) > LIMITS.max_rank or len(at) == rank:
        raise InputError(f"coordinates = {at}: needs {what}")
    is_zero = tm.call == "tiled" and not any(bytes(tm))  # all fields of 0 are those of a tiled map
    raise HardwareTrap(
        "all 128 bytes of the tensor map are zero"
        if is_zero
        else f"coordinates = {at}: the instruction has {len(at)} dimensions, but uses a map of rank {tm.rank}",
        cuda_error=ILLEGAL_INSTRUCTION,
    )


def _offsets(tm: TensorMap, g: Geometry, offsets: Any, is_store: bool) -> tuple[int, ...]:
    if not g.axes or is_store:
        if wholes("im2col_offsets", offsets, wanted="whole numbers"):
            raise InputError(f"im2col_offsets = {shown(offsets)}: {g.mode} takes none")
        return (0,) * g.axes
    is_wide = g.mode.startswith("im2col::w")
    count = 2 if is_wide else g.axes
    wanted = "(wHalo, wOffset)" if is_wide else f"one unsigned 16-bit number for each of {g.axes} spatial axes, W first, or none"
    given = wholes("im2col_offsets", offsets, wanted=wanted)
    if (given and len(given) != count) or any(not 0 <= value < 1 << 16 for value in given):
        raise InputError(f"im2col_offsets = {given}: needs {wanted}")
    if not given or is_wide:
        return given or (0,) * count
    packed, bits = 0, corner_bits(tm.rank)
    for axis, value in enumerate(given):
        packed = pack_im2col_offset(packed, value, axis, bits)
    return tuple(im2col_offset(packed, axis, bits) for axis in range(count))


def _address(name: str, value: Any) -> int:
    address = whole(name, value, wanted="a byte address in the .shared window")
    if not 0 <= address <= MOST_ADDRESS:
        raise InputError(
            f"{name} = {address:#x}: needs a byte address in the .shared window, 0 to {SHARED_END:#x}; a generic pointer, or an address with a CTA's rank in bits 31:24, is none (see ClusterAddress)"
        )
    return address


# ---- Tensor transfers on bytes: loads with their conversions and fill, stores, reductions


@in_default_state
def tma_load_bytes(
    tm: TensorMap,
    coordinates: Sequence[int],
    *,
    smem_address: int,
    shared: np.ndarray,
    global_: np.ndarray,
    im2col_offsets: Sequence[int] = (),
    mode: str | None = None,
    arch: str | None = None,
) -> np.ndarray:
    """The bytes of shared memory after a load, conversions and fill included; arguments as for `tma_load`.

    Index 0 of `shared` is shared address 0, of `global_` it is tm.global_address. Returns a copy; `shared` is left as
    it is. Bytes that the load leaves alone (gaps between narrow rows, the gaps of sub-byte types) are those of
    `shared`. Measured (H200): traces tma_values, tma_conversions. Raises what `tma_load` raises, and InputError for
    arrays that are too small.

    >>> from smemsim import TensorMap, tma_load_bytes
    >>> import numpy as np
    >>> tm = TensorMap.tiled(data_type="tf32", global_address=0x10000, global_dim=(3,), global_strides=(), box_dim=(4,), oob_fill="nan")
    >>> data = np.array([0x3F801001, 0x3F801000, 0xFFC00000], np.uint32).view(np.uint8)
    >>> after = tma_load_bytes(tm, (0,), smem_address=1024, shared=np.zeros(1040, np.uint8), global_=data)
    >>> [hex(word) for word in after[1024:].view(np.uint32).tolist()]
    ['0x3f802000', '0x3f800000', '0x7fffe000', '0x7ff77ff7']
    """
    transfer = tma_load(tm, coordinates, smem_address=smem_address, im2col_offsets=im2col_offsets, mode=mode, arch=arch)
    memory, tensor = _arrays(transfer, shared, global_)
    memory = memory.copy()
    load_bytes(transfer, memory, 0, tensor, tm.global_address)
    return memory


@in_default_state
def tma_store_bytes(
    tm: TensorMap,
    coordinates: Sequence[int],
    *,
    smem_address: int,
    shared: np.ndarray,
    global_: np.ndarray,
    mode: str | None = None,
    arch: str | None = None,
) -> np.ndarray:
    """The bytes of global memory after a store; arrays as for `tma_load_bytes`. Stores copy bits, of tf32 maps too.

    Raises what `tma_store` raises, and InputError for arrays that are too small.

    >>> from smemsim import TensorMap, tma_store_bytes
    >>> import numpy as np
    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(20,), global_strides=(), box_dim=(32,))
    >>> after = tma_store_bytes(tm, (0,), smem_address=1024, shared=np.ones(2048, np.uint8), global_=np.zeros(64, np.uint8))
    >>> int(after.sum())  # a whole 16-byte chunk past the 20 elements
    32
    """
    transfer = tma_store(tm, coordinates, smem_address=smem_address, mode=mode, arch=arch)
    memory, tensor = _arrays(transfer, shared, global_)
    tensor = tensor.copy()
    store_bytes(transfer, memory, 0, tensor, tm.global_address)
    return tensor


def tma_reduce(
    op: Any,
    tm: TensorMap,
    coordinates: Sequence[int],
    *,
    smem_address: int,
    shared: np.ndarray,
    global_: np.ndarray,
    mode: str | None = None,
    arch: str | None = None,
) -> np.ndarray:
    """The bytes of global memory after `cp.reduce.async.bulk.tensor`. Arrays are those of `tma_load_bytes`.

    `op` is "add" "min" "max" "inc" "dec" "and" "or" "xor", on elements of the map's type. Box and clipping are those of
    a store. Raises HardwareTrap (715) for an operation that the type does not have, and Unmodelled if two elements of
    the box share an address (overlapping strides): their order is not defined. Measured (H200): traces tma_reductions,
    tma_reduce_traps.

    >>> from smemsim import TensorMap, tma_reduce
    >>> import numpy as np
    >>> tm = TensorMap.tiled(data_type="u32", global_address=0x10000, global_dim=(4,), global_strides=(), box_dim=(4,))
    >>> after = tma_reduce("max", tm, (0,), smem_address=0, shared=np.array([1, 9, 3, 9], np.uint32).view(np.uint8),
    ...                    global_=np.array([5, 5, 5, 5], np.uint32).view(np.uint8))
    >>> after.view(np.uint32).tolist()
    [5, 9, 5, 9]
    """
    operation = reduction_op(op)
    if not isinstance(tm, TensorMap):
        raise InputError(f"tm: needs a TensorMap, not {type(tm).__name__}")
    kind = tensor_reduction(operation, tm.data_type)
    transfer = tma_store(tm, coordinates, smem_address=smem_address, mode=mode, arch=arch)
    memory, tensor = _arrays(transfer, shared, global_)
    tensor = tensor.copy()
    reduce_bytes(transfer, operation, kind, memory, 0, tensor, tm.global_address)
    return tensor


def load_bytes(transfer: Transfer, memory: np.ndarray, memory_begin: int, tensor: np.ndarray, tensor_begin: int) -> None:
    """Put a load's bytes into `memory`, whose first byte has shared address `memory_begin`; `tensor` begins at global
    `tensor_begin`.
    """
    g, tm = transfer.geometry, transfer.tensor_map
    place = (transfer.lines, transfer.c0, g.shape, g.layout, transfer.smem_address)
    # If no element is in bounds, the tensor may be anywhere, and `tensor` need not hold it.
    origin = tm.global_address - tensor_begin if transfer.global_span[1] else 0
    loops.load(*place, g.fill, g.to_tf32, memory, memory_begin, tensor, origin)


def _check_distinct(transfer: Transfer) -> None:
    """Raise Unmodelled if two chunks of the box share global memory: it is not defined which one is written last."""
    if not _is_distinct(transfer):
        raise Unmodelled(
            "elements of the box overlap in global memory (check global_strides, and rows named twice): the order of their writes is not defined"
        )


def _is_distinct(transfer: Transfer) -> bool:
    begins = transfer.chunk_global if transfer.whole else transfer.chunk_global[transfer.chunk_valid > 0]
    if (np.diff(begins) >= transfer.chunk_bytes).all():  # as those of nearly every map
        return True
    return not (np.diff(np.sort(begins)) < transfer.chunk_bytes).any()


def store_bytes(transfer: Transfer, memory: np.ndarray, memory_begin: int, tensor: np.ndarray, tensor_begin: int) -> None:
    """Put a store's bytes into `tensor`; arguments as for `load_bytes`."""
    _check_distinct(transfer)
    if transfer.whole and transfer.geometry.is_plain and transfer.stored_bits == 8:
        loops.store_chunks(transfer.chunk_shared, memory_begin, memory, transfer.chunk_global, tensor_begin, tensor)
        return
    where = transfer.global_address - tensor_begin
    at = transfer.shared_address.astype(np.int64) - memory_begin
    bits = transfer.stored_bits
    if bits < 8:
        used = (1 << bits) - 1
        low = np.arange(len(at)) % transfer.chunk_bytes * 8 % bits
        pair = (memory[at] & used).astype(np.uint16) | (memory[np.minimum(at + 1, len(memory) - 1)] & used).astype(np.uint16) << bits
        tensor[where] = (pair >> low).astype(np.uint8)
    else:
        tensor[where] = memory[at]


def store_boxes(boxes: Boxes, memory: np.ndarray, begins: np.ndarray, region: Region, operation: str = "") -> None:
    """Put the bytes of stores into an array, or reduce them into it by an operation. All windows are in `memory`
    (64-bit words). For the window of each box, `begins` has the shared address that its first word would have.
    """
    first, g, tm = boxes.transfers[0], boxes.form.geometry, boxes.form.tensor_map
    if boxes.are_whole and g.is_whole_lines and first.stored_bits == 8 and not operation:
        _check_distinct(first)
        at = tm.global_address - region.words_begin
        loops.store_boxes(boxes.lines, boxes.inner, g.shape, g.layout, boxes.form.smem_address, memory, begins, region.words, at)
        return
    kind = tensor_reduction(operation, tm.data_type) if operation else None
    for transfer, begin in zip(boxes.transfers, begins.tolist(), strict=True):
        place = (memory.view(np.uint8), begin, region.data, region.begin)
        if operation:
            reduce_bytes(transfer, operation, kind, *place)
        else:
            store_bytes(transfer, *place)


@in_default_state
def reduce_bytes(
    transfer: Transfer, op: Any, kind: Any, memory: np.ndarray, memory_begin: int, tensor: np.ndarray, tensor_begin: int
) -> None:
    """Reduce a store's bytes into `tensor`; arguments as for `load_bytes`, `kind` from `tensor_reduction`."""
    if transfer.geometry.mode == "tile::scatter4":
        raise Unmodelled("reductions in mode tile::scatter4: ptxas accepts them, the PTX ISA does not list them, and none is tested")
    _check_distinct(transfer)
    where = transfer.global_address - tensor_begin
    at = transfer.shared_address.astype(np.int64) - memory_begin
    tensor[where] = reduce_elements(tensor[where], memory[at], op, kind)


def _arrays(transfer: Transfer, shared: Any, global_: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays, if they hold every byte that the transfer touches."""
    memory, tensor = _byte_array("shared", shared), _byte_array("global_", global_)
    if transfer.shared_end > len(memory):
        raise InputError(f"shared has {len(memory)} bytes: the box reaches shared address {transfer.shared_end - 1:#x}")
    check_covered(transfer.global_span, transfer.tensor_map.global_address, len(tensor), "global_")
    return memory, tensor


def _byte_array(name: str, array: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise InputError(f"{name}: needs a one-dimensional uint8 array, not {getattr(array, 'dtype', type(array).__name__)}")
    return np.ascontiguousarray(array)
