"""Tensor transfers: which byte goes where, what the barrier is credited with, and where silicon traps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown, whole, wholes
from smemsim.errors import HardwareTrap, InputError, OutsideError
from smemsim.layout import tma_loops
from smemsim.layout.tma import im2col_offset, pack_im2col_offset
from smemsim.machine.geometry import Geometry, check_coordinates, check_global, check_map, check_smem_address, check_window, geometry_of
from smemsim.machine.transfer import Transfer
from smemsim.spec.architectures import ARCHITECTURES, architecture
from smemsim.spec.bulk import BULK_LIMITS
from smemsim.spec.tensor_map import LIMITS, WIDE_IS_IM2COL, corner_bits
from smemsim.spec.transfers import GATHERED_ROWS, HALO_EVERY
from smemsim.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION
from smemsim.words.tensor_map import TensorMap

__all__ = ["Transfer", "check_covered", "tma_load", "tma_prefetch", "tma_store"]


MOST_ADDRESS = 1 << BULK_LIMITS.cta_rank_shift  # above it stands a CTA's rank
NO_OFFSETS: tuple[int, ...] = ()  # Python keeps one empty tuple


SHARED_END, GRANULARITY = ARCHITECTURES["sm_90a"].shared_end, ARCHITECTURES["sm_90a"].shared_granularity


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
    """Where a `cp.async.bulk.tensor` load puts every byte of its box.

    `coordinates` are the instruction's, in driver order, signed: elements, with interleave slices in dimension 0; for tile::gather4 the
    column and four rows. `smem_address` is a byte address in the `.shared` window, which ends at `shared_end` (the largest window by
    default). `im2col_offsets` are those of im2col, W first, or (wHalo, wOffset) of im2col::w. `mode` is the instruction's; without it
    the one that goes with the map. `arch` None: as measured on sm_90a, and as documented for what only Blackwell has.

        pitch = bytes of an inner row, or the swizzle width; row = j1 + T1*(j2 + T2*...), or the pixel
        shared = swizzle(smem_address + row*pitch + byte)        on the absolute address

    Elements outside the tensor are fill. Raises HardwareTrap where silicon does: a dimension above 2^31, a start
    off 16 B in dimension 0 or outside the im2col pixel box, another rank or mode than the map's (715), past the window (700), a shared
    address off 128 B or a global one off 16 B (716). Measured (H200): traces tma_loads,
    tma_im2col, tma_interleave, tma_im2col_interleave; tile::gather4, im2col::w, sub-byte types and the 128B atoms are documented only.

    >>> tm = TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,), box_dim=(64, 8),
    ...                      swizzle="128B")
    >>> t = tma_load(tm, (0, 12), smem_address=2048)  # rows 12 to 19 of a tensor with 16
    >>> t.transaction_bytes, int((t.global_address == -1).sum())
    (1024, 512)
    """
    return _transfer(tm, coordinates, smem_address, im2col_offsets, mode, arch, shared_end, is_store=False)


def tma_store(
    tm: TensorMap,
    coordinates: Sequence[int],
    *,
    smem_address: int,
    mode: str | None = None,
    arch: str | None = None,
    shared_end: int = SHARED_END,
) -> Transfer:
    """Which global byte a `cp.async.bulk.tensor` store writes from which shared byte; arguments as for `tma_load`.

    Outer dimensions are clipped exactly; dimension 0 is clipped at 16-byte chunks, so that up to 15 bytes behind the tensor's last
    element are overwritten. Raises HardwareTrap also for a negative start coordinate and for im2col corners that reach out of the
    tensor (715). Measured (H200): traces tma_stores, tma_im2col_stores, tma_interleave_stores, tma_store_traps, tma_mode_traps.

    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(20, 4), global_strides=(32,), box_dim=(32, 4))
    >>> len(tma_store(tm, (0, 0), smem_address=1024).global_address)  # 4 rows of 32 bytes, not of 20
    128
    """
    return _transfer(tm, coordinates, smem_address, (), mode, arch, shared_end, is_store=True)


def tma_prefetch(
    tm: TensorMap, coordinates: Sequence[int], *, im2col_offsets: Sequence[int] = (), mode: str | None = None, arch: str | None = None
) -> np.ndarray:
    """The global bytes (int64[n]) that `cp.async.bulk.prefetch.tensor` asks the L2 cache for; it changes nothing that can be seen.

    Traps as a load does, shared memory apart. Measured (H200): trace tma_mode_traps.

    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(20,), global_strides=(), box_dim=(32,))
    >>> len(tma_prefetch(tm, (0,)))
    20
    """
    address = _transfer(tm, coordinates, LIMITS.smem_alignment, im2col_offsets, mode, arch, MOST_ADDRESS, is_store=False).global_address
    return address[address >= 0]


def check_covered(transfer: Transfer, begin: int, size: int, what: str) -> None:
    """OutsideError unless every byte the transfer touches lies in global bytes begin ... begin + size."""
    low, high = transfer.global_span
    if high and (low < begin or high > begin + size):
        raise OutsideError(
            f"{what} covers global {begin:#x} to {begin + size:#x}: the box needs {low:#x} to {high:#x}; check global_address and strides"
        )


def _transfer(
    tm: Any, coordinates: Any, smem_address: Any, offsets: Any, mode: str | None, arch: str | None, shared_end: Any, *, is_store: bool
) -> Transfer:
    if not isinstance(tm, TensorMap):
        raise InputError(f"tm: needs a TensorMap, not {type(tm).__name__}; TensorMap.from_bytes reads the 128 bytes of one")
    end = shared_end if shared_end is SHARED_END else _address("shared_end", shared_end)
    address = _address("smem_address", smem_address)
    if type(arch) is not str and arch is not None:
        arch = architecture(arch).name
    if tm.on_hopper and arch in (None, *WIDE_IS_IM2COL):
        tm = tm.as_im2col
    g = geometry_of(tm, mode, arch, is_store=is_store)
    at = _coordinates(tm, g, coordinates)
    check_map(tm, g, arch, is_store=is_store)
    extra = () if offsets is NO_OFFSETS and not g.axes else _offsets(tm, g, offsets, is_store)
    check_coordinates(tm, g, at, extra, is_store=is_store)
    if g.rows * g.pitch > MOST_ADDRESS:  # a map that no driver made; the rows alone would fill this machine
        raise HardwareTrap(f"the box takes {g.rows} rows of {g.pitch} B: no shared window has them", cuda_error=ILLEGAL_ADDRESS)
    walked = _walk(g, at, extra, tm.rank)
    c0 = 0 if g.walks_inside else at[0]
    far = g.farthest(at if walked is None else walked) if g.is_far else 0
    if far:
        _check_wrapped(far, tm.global_address)
    if walked is None:
        lines = np.empty(g.rows, np.int64)
        reach, low, high, is_whole = tma_loops.tile_reach(at + (0,) * (5 - len(at)), g.shape, g.layout, address, lines)
    else:
        lines = np.empty(len(walked), np.int64)
        tma_loops.lines_of_rows(walked, int(not g.walks_inside), g.shape, lines)
        reach, low, high, is_whole = tma_loops.reach(lines, c0, g.shape, g.layout, address)
    base = tm.global_address
    if far >> 63:  # the lines have wrapped around; no box is wide enough to lie on both sides
        for line in (low, high - 1):
            _check_wrapped(line, base)
    span = (low + base, high + base) if high else (0, 0)
    if reach > end:
        check_window(reach, -(-end // GRANULARITY) * GRANULARITY, is_store=is_store)
    # A load looks up the tensor's first byte even when its box lies outside the tensor altogether.
    check_global(span[1] if is_store else max(span[1], base + 1))
    check_smem_address(address)
    return Transfer(tm, at, address, is_store, g, lines, c0, walked, reach, span, is_whole)


def _check_wrapped(offset: int, base: int) -> None:
    """No GPU maps the address that is `offset` bytes behind `base`, in 64 bits, unless it has no more than 57."""
    check_global((base + offset) % (1 << LIMITS.address_bits) + 1)


def _walk(g: Geometry, at: tuple[int, ...], extra: tuple[int, ...], rank: int) -> np.ndarray | None:
    """The coordinates at which each row of a gather or an im2col column begins, int64 (rows, 5); None for a tile."""
    if g.mode in ("tile::gather4", "tile::scatter4"):
        rows = np.zeros((GATHERED_ROWS, 5), np.int64)
        rows[:, 0], rows[:, 1] = at[0], at[1:]
        return rows
    if not g.axes:
        return None
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
        # After every 32 pixels come wHalo more, which the walk over pixels does not use up (PTX ISA 5.5.5.2).
        line = np.empty((g.rows + extra[0], 5), np.int64)
        tma_loops.im2col_rows(start, offset, *walk, line)
        groups = [line[i : i + HALO_EVERY + extra[0]] for i in range(0, g.rows, HALO_EVERY)]
        return np.concatenate(groups)
    tma_loops.im2col_rows(start, offset, *walk, rows)
    return rows


def _coordinates(tm: TensorMap, g: Geometry, coordinates: Any) -> tuple[int, ...]:
    gathers = g.mode in ("tile::gather4", "tile::scatter4")
    rank = 1 + GATHERED_ROWS if gathers else tm.rank
    at = wholes("coordinates", coordinates, wanted="signed 32-bit element indices, dimension 0 first")
    if len(at) == rank and min(at) >= -(1 << 31) and max(at) < 1 << 31:
        return at
    what = "the column and four rows" if gathers else f"{rank} signed 32-bit element indices, dimension 0 first"
    if gathers or not at or len(at) > LIMITS.max_rank or len(at) == rank:
        raise InputError(f"coordinates = {at}: needs {what}")
    raise HardwareTrap(
        f"coordinates = {at}: an instruction of {len(at)} dimensions through a map of rank {tm.rank}; needs {what}",
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
            f"{name} = {address:#x}: needs a byte address in the .shared window (0 to {SHARED_END:#x}): not a generic pointer, and without the CTA's rank that bits 31:24 have in a cluster (see ClusterAddress)"
        )
    return address
