"""Tensor transfers on bytes: loads with their conversions and fill, stores, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arithmetic.reduce import reduction_op, tensor_reduction
from smemsim.arithmetic.reduce_loops import reduce_elements
from smemsim.errors import InputError, Unmodelled
from smemsim.machine import loops
from smemsim.machine.tma import check_covered, tma_load, tma_store
from smemsim.machine.transfer import Transfer
from smemsim.words.tensor_map import TensorMap

__all__ = ["load_bytes", "reduce_bytes", "store_bytes", "tma_load_bytes", "tma_reduce", "tma_store_bytes"]


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

    Index 0 of `shared` is shared address 0, of `global_` it is tm.global_address. Returns a copy; `shared` is left as it is. Bytes that
    the load leaves alone (gaps between narrow rows, the gaps of sub-byte types) are those of `shared`.
    Measured (H200): traces tma_values, tma_conversions.

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
    """The bytes of global memory after `cp.reduce.async.bulk.tensor`; arrays as for `tma_load_bytes`.

    `op` is "add" "min" "max" "inc" "dec" "and" "or" "xor", on elements of the map's type; box and clipping are a store's. Raises
    HardwareTrap (715) for an operation that the type does not have. Two elements of one box that meet at one address (overlapping
    strides) are reduced in no defined order: Unmodelled. Measured (H200): traces tma_reductions, tma_reduce_traps.

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
    """Put a load's bytes into `memory`, whose first byte has shared address `memory_begin`; `tensor` begins at global `tensor_begin`."""
    g, tm = transfer.geometry, transfer.tensor_map
    place = (transfer.lines, transfer.c0, g.shape, g.layout, transfer.smem_address)
    # Where nothing is in bounds the tensor may lie anywhere, and `tensor` need not hold it.
    origin = tm.global_address - tensor_begin if transfer.global_span[1] else 0
    loops.load(*place, g.fill, g.to_tf32, memory, memory_begin, tensor, origin)


def _check_distinct(transfer: Transfer) -> None:
    """Unmodelled when two chunks of the box meet in global memory: nobody says which one comes last."""
    begins = np.sort(transfer.chunk_global[transfer.chunk_valid > 0])
    if (np.diff(begins) < transfer.chunk_bytes).any():
        raise Unmodelled(
            "elements of the box overlap in global memory (check global_strides, and rows named twice): the order of their writes is not defined"
        )


def store_bytes(transfer: Transfer, memory: np.ndarray, memory_begin: int, tensor: np.ndarray, tensor_begin: int) -> None:
    """Put a store's bytes into `tensor`; arguments as for `load_bytes`."""
    _check_distinct(transfer)
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


def reduce_bytes(
    transfer: Transfer, op: Any, kind: Any, memory: np.ndarray, memory_begin: int, tensor: np.ndarray, tensor_begin: int
) -> None:
    """Reduce a store's bytes into `tensor`; arguments as for `load_bytes`, `kind` from `tensor_reduction`."""
    if transfer.geometry.mode == "tile::scatter4":
        raise Unmodelled("reductions in mode tile::scatter4: ptxas takes them, the PTX ISA does not list them, nobody has run one")
    _check_distinct(transfer)
    where = transfer.global_address - tensor_begin
    at = transfer.shared_address.astype(np.int64) - memory_begin
    tensor[where] = reduce_elements(tensor[where], memory[at], op, kind)


def _arrays(transfer: Transfer, shared: Any, global_: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays, if they hold every byte that the transfer touches."""
    memory, tensor = _byte_array("shared", shared), _byte_array("global_", global_)
    if transfer.shared_end > len(memory):
        raise InputError(f"shared has {len(memory)} bytes: the box reaches shared address {transfer.shared_end - 1:#x}")
    check_covered(transfer, transfer.tensor_map.global_address, len(tensor), "global_")
    return memory, tensor


def _byte_array(name: str, array: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise InputError(f"{name}: needs a one-dimensional uint8 array, not {getattr(array, 'dtype', type(array).__name__)}")
    return np.ascontiguousarray(array)
