"""`tma_load` and `tma_store`: which byte goes where, what the barrier is credited with, and where silicon traps."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.addressing.tma import row_pitch, tile_size
from smemsim.arguments import shown, whole, wholes
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import HardwareTrap, InputError, Unmodelled
from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.swizzles import Swizzle
from smemsim.spec.tensor_map import DERIVED_FIELDS, LIMITS, SWIZZLES, Interleave
from smemsim.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS

__all__ = ["Transfer", "tma_load", "tma_load_bytes", "tma_store"]

SHARED_END, GRANULARITY = ARCHITECTURES["sm_90a"].shared_end, ARCHITECTURES["sm_90a"].shared_granularity


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Transfer:
    """One tiled TMA transfer, as 16-byte chunks and, on demand, as bytes.

    `chunk_shared` (uint32) and `chunk_global` (int64) say where each chunk of the box lies in shared memory and which global address
    it belongs to; of its 16 bytes the first `chunk_valid` are inside the tensor. Chunk n holds bytes 16 n … 16 n + 15 of the dense
    box, dimension 0 fastest.
    """

    tensor_map: TensorMap
    coordinates: tuple[int, ...]
    smem_address: int
    is_store: bool
    chunk_shared: np.ndarray
    chunk_global: np.ndarray
    chunk_valid: np.ndarray
    global_span: tuple[int, int]  # begin and end of the global bytes that are touched; (0, 0) for none

    def __repr__(self) -> str:
        what = "store" if self.is_store else "load"
        return f"<tiled {what} of {self.tensor_map.data_type.name} {self.tile_shape} at {self.coordinates}, shared {self.smem_address:#x}>"

    @property
    def transaction_bytes(self) -> int:
        """What a load credits to its mbarrier: the dense box, fill included, gaps between rows not. For a store the bytes it reads."""
        return 16 * len(self.chunk_shared)

    @functools.cached_property
    def _bytes(self) -> tuple[np.ndarray, np.ndarray]:
        byte = np.arange(16)
        shared = (self.chunk_shared[:, None] + byte.astype(np.uint32)).ravel()
        valid = (byte < self.chunk_valid[:, None]).ravel()
        source = np.where(valid, (self.chunk_global[:, None] + byte).ravel(), -1)
        return (shared[valid], source[valid]) if self.is_store else (shared, source)

    @property
    def shared_address(self) -> np.ndarray:
        """uint32[n]: for a load every shared byte written, for a store the shared byte behind each global byte written."""
        return self._bytes[0]

    @property
    def global_address(self) -> np.ndarray:
        """int64[n]: the global byte each of them came from or went to; -1 for out-of-bounds fill."""
        return self._bytes[1]

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Elements of the dense box along each dimension, dimension 0 first."""
        return tile_shape(self.tensor_map)

    def tensor_coordinates(self, position: np.ndarray) -> np.ndarray:
        """Tensor coordinates (…, rank), dimension 0 first, of bytes of the dense box; outside the tensor where that is what they are."""
        tm = self.tensor_map
        index = np.asarray(position, np.int64) // tm.type_row.itemsize
        steps = (1, *tm.element_strides[1:])
        out = np.empty((*index.shape, tm.rank), np.int64)
        for i, size in enumerate(self.tile_shape):
            out[..., i] = self.coordinates[i] + index % size * steps[i]
            index = index // size
        return out


def tile_shape(tm: TensorMap) -> tuple[int, ...]:
    """Elements of a tiled map's dense box along each dimension."""
    return (tm.box_dim[0], *(tile_size(b, s) for b, s in zip(tm.box_dim[1:], tm.element_strides[1:], strict=True)))


def tma_load(
    tm: TensorMap, coordinates: Sequence[int], *, smem_address: int, im2col_offsets: Sequence[int] = (), shared_end: int = SHARED_END
) -> Transfer:
    """Where a tiled `cp.async.bulk.tensor` load puts every byte of its box.

    `coordinates` are elements in driver order, signed; `smem_address` a byte address in the `.shared` window, which ends at
    `shared_end` (the largest window by default). Elements outside the tensor are fill.

        pitch = bytes of an inner row, or the swizzle width; row = j1 + T1*(j2 + T2*…)
        shared = swizzle(smem_address + row*pitch + byte)        on the absolute address

    Raises HardwareTrap where silicon does: a dimension above 2^31 or a box that does not start on a multiple of 16 B in dimension 0
    (715), a write past the window (700), a destination that is no multiple of 128 B (716), in that order. Measured (H200): traces
    tma_loads, tma_loads_far, tma_load_traps; nothing of it is measured on Blackwell.

    >>> tm = TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,), box_dim=(64, 8),
    ...                      swizzle="128B")
    >>> t = tma_load(tm, (0, 12), smem_address=2048)
    >>> t.transaction_bytes, int((t.global_address == -1).sum())
    (1024, 512)
    """
    if not isinstance(tm, TensorMap) or tm.is_im2col:
        return _transfer(tm, coordinates, smem_address, shared_end, is_store=False)
    if wholes("im2col_offsets", im2col_offsets, wanted="one whole number for each spatial axis, or none"):
        raise InputError(f"im2col_offsets = {shown(im2col_offsets)}: the map is tiled and takes none")
    return _transfer(tm, coordinates, smem_address, shared_end, is_store=False)


def tma_store(tm: TensorMap, coordinates: Sequence[int], *, smem_address: int, shared_end: int = SHARED_END) -> Transfer:
    """Which global byte a tiled `cp.async.bulk.tensor` store writes from which shared byte; arguments as for `tma_load`.

    Outer dimensions are clipped exactly; dimension 0 is clipped at 16-byte chunks, so that up to 15 bytes behind the tensor's last
    element are overwritten. Raises HardwareTrap also for a negative start coordinate (715).
    Measured (H200): traces tma_stores, tma_store_traps.

    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(20, 4), global_strides=(32,), box_dim=(32, 4))
    >>> len(tma_store(tm, (0, 0), smem_address=1024).global_address)  # 4 rows of 32 bytes, not of 20
    128
    """
    return _transfer(tm, coordinates, smem_address, shared_end, is_store=True)


def tma_load_bytes(
    tm: TensorMap,
    coordinates: Sequence[int],
    *,
    smem_address: int,
    shared: np.ndarray,
    global_: np.ndarray,
    im2col_offsets: Sequence[int] = (),
) -> np.ndarray:
    """The bytes of shared memory after the load, fill included. Index 0 of `shared` is shared address 0, of `global_` is tm.global_address.

    Returns a copy; `shared` is left as it is.
    """
    from smemsim.machine import loops

    transfer = tma_load(tm, coordinates, smem_address=smem_address, im2col_offsets=im2col_offsets)
    memory = _byte_array("shared", shared).copy()
    tensor = _byte_array("global_", global_)
    if len(transfer.chunk_shared) and int(transfer.chunk_shared.max()) + 16 > len(memory):
        raise InputError(f"shared has {len(memory)} bytes: the box reaches shared address {int(transfer.chunk_shared.max()) + 15:#x}")
    check_covered(transfer, tm.global_address, len(tensor), "global_")
    writer, position = np.zeros((2, len(memory)), np.uint32)
    chunks = transfer.chunk_shared, transfer.chunk_global, transfer.chunk_valid
    loops.copy_chunks(*chunks, fill_bytes(tm), tm.global_address, memory, tensor, 0, writer, position, 1, tm.type_row.to_tf32)
    return memory


def _byte_array(name: str, array: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise InputError(f"{name}: needs a one-dimensional uint8 array, not {getattr(array, 'dtype', type(array).__name__)}")
    return np.ascontiguousarray(array)


def fill_bytes(tm: TensorMap) -> np.ndarray:
    """One element's worth of what out-of-bounds elements become."""
    row = tm.type_row
    return np.frombuffer(row.nan_fill if tm.oob_fill else bytes(row.itemsize), np.uint8)


def check_covered(transfer: Transfer, begin: int, size: int, what: str) -> None:
    """InputError unless every byte the transfer touches lies in global bytes begin … begin + size."""
    low, high = transfer.global_span
    if high and (low < begin or high > begin + size):
        raise InputError(
            f"{what} covers global {begin:#x} to {begin + size:#x}: the box needs {low:#x} to {high:#x}; check global_address and strides"
        )


def _transfer(tm: TensorMap, coordinates: Any, smem_address: Any, shared_end: int, *, is_store: bool) -> Transfer:
    from smemsim.addressing import loops

    if not isinstance(tm, TensorMap):
        raise InputError(f"tm: needs a TensorMap, not {type(tm).__name__}; TensorMap.from_bytes reads the 128 bytes of one")
    shared_end = _address("shared_end", shared_end)
    at = _coordinates(tm, coordinates)
    address = _address("smem_address", smem_address)
    _check_modelled(tm)
    mode, itemsize = tm.swizzle_mode, tm.type_row.itemsize
    pitch = row_pitch(tm.box_dim[0] * itemsize, mode.width)
    _check_coordinates(tm, at, is_store)
    rank = tm.rank
    dim, stride, box, step, position = np.ones((5, 5), np.int64)
    dim[:rank], box[:rank], step[:rank] = tm.global_dim, tm.box_dim, tm.element_strides
    stride[1:rank] = tm.global_strides
    position[:] = 0
    position[:rank] = at
    tile = tile_shape(tm)
    _check_reach(tm, at, tile)
    n = math.prod(tile) * itemsize // 16
    shared, source, valid = np.empty(n, np.uint32), np.empty(n, np.int64), np.empty(n, np.uint8)
    shape = (dim, stride, box, step, itemsize)
    target = (address, pitch, mode.mask, mode.shift, is_store)
    end, low, high = loops.tile_chunks(position, *shape, tm.global_address, *target, shared, source, valid)
    if end > -(-shared_end // GRANULARITY) * GRANULARITY:
        raise HardwareTrap(
            f"the box {'reads' if is_store else 'writes'} shared bytes up to {end - 1:#x}, past the end of the CTA's shared window "
            f"({shared_end:#x})",
            cuda_error=ILLEGAL_ADDRESS,
        )
    if address % LIMITS.smem_alignment:
        raise HardwareTrap(
            f"smem_address = {address:#x}: needs a multiple of {LIMITS.smem_alignment} B, with and without swizzle",
            cuda_error=MISALIGNED_ADDRESS,
        )
    return Transfer(tm, at, address, is_store, shared, source, valid, (int(low), int(high)))


def _coordinates(tm: TensorMap, coordinates: Any) -> tuple[int, ...]:
    wanted = f"{tm.rank} signed 32-bit element indices, dimension 0 first"
    at = wholes("coordinates", coordinates, wanted=wanted)
    if len(at) != tm.rank or any(not -(1 << 31) <= c < 1 << 31 for c in at):
        raise InputError(f"coordinates = {at}: needs {wanted}")
    return at


def _address(name: str, value: Any) -> int:
    address = whole(name, value, wanted="a byte address in the .shared window")
    if not 0 <= address < 1 << 24:
        raise InputError(f"{name} = {address:#x}: needs a byte address in the .shared window (0 to {SHARED_END:#x}), not a generic pointer")
    return address


def _check_modelled(tm: TensorMap) -> None:
    if tm.broken_rules:
        raise Unmodelled(f"no driver makes such a map ({tm.broken_rules[0]}); what a transfer does with it is not known")
    if foreign := [name.lstrip("_") for name in tm.unknown_fields if name not in DERIVED_FIELDS]:
        raise Unmodelled(
            f"the map has bits in {', '.join(foreign)} that no known encoder writes; what a transfer does with it is not known"
        )
    if tm.is_im2col:
        raise Unmodelled("im2col transfers are not modelled in this version")
    if tm.interleave is not Interleave.INTERLEAVE_NONE:
        raise Unmodelled(f"interleave {tm.interleave.name}: interleaved transfers are not modelled in this version")
    if not tm.type_row.itemsize:
        raise Unmodelled(f"{tm.data_type.name}: transfers of sub-byte types are not modelled in this version")
    if SWIZZLES[tm.swizzle] in (Swizzle.B128_ATOM_32B_FLIP_8B, Swizzle.B128_ATOM_64B):
        raise Unmodelled(f"{tm.swizzle.name}: not modelled; no document settles what it does on loads")


def _check_reach(tm: TensorMap, at: tuple[int, ...], tile: tuple[int, ...]) -> None:
    """The last in-bounds byte must have a 63-bit address; addresses beyond exist on no GPU and would not fit the results."""
    steps = (1, *tm.element_strides[1:])
    strides = (tm.type_row.itemsize, *tm.global_strides)
    last = [min(c + (n - 1) * step, dim - 1) for c, n, step, dim in zip(at, tile, steps, tm.global_dim, strict=True)]
    if min(last) >= 0 and tm.global_address + sum(g * stride for g, stride in zip(last, strides, strict=True)) + 16 >= 1 << 63:
        raise Unmodelled(f"global_address = {tm.global_address:#x}, strides {tm.global_strides}: the box reaches addresses past 63 bits")


def _check_coordinates(tm: TensorMap, at: tuple[int, ...], is_store: bool) -> None:
    itemsize = tm.type_row.itemsize
    for i, n in enumerate(tm.global_dim):
        if n > LIMITS.max_usable_dim:
            raise HardwareTrap(
                f"global_dim[{i}] = {n}: every transfer with a dimension above 2^31 traps, although the driver encodes up to 2^32",
                cuda_error=ILLEGAL_INSTRUCTION,
            )
    if at[0] * itemsize % 16:
        raise HardwareTrap(
            f"coordinates[0] = {at[0]} x {itemsize} B = {at[0] * itemsize} B: the box must start on a multiple of 16 B, "
            f"that is {16 // itemsize} elements",
            cuda_error=ILLEGAL_INSTRUCTION,
        )
    if is_store:
        for i, c in enumerate(at):
            if c < 0:
                raise HardwareTrap(f"coordinates[{i}] = {c}: a store cannot start below 0", cuda_error=ILLEGAL_INSTRUCTION)
