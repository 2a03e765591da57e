"""Where the elements of an operand lie in a shared window, and how its bytes become elements."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from smemsim.descriptors.layout import window_reach
from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import HardwareTrap, InputError, Unmodelled
from smemsim.spec.formats import element_format
from smemsim.spec.traps import ILLEGAL_ADDRESS

__all__ = ["WORDS", "element_bits", "offsets", "pattern", "places", "shifts"]

WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32}  # elements that are whole words of memory, by their bits


def places(
    descriptor: Any, *, arch: str, dtype: Any, major: str, rows: int, k: int, packing: str = "packed", window: tuple[int, int]
) -> np.ndarray:
    """The addresses of an operand's elements, uint32 (rows, k); `window` is (begin, end) of the CTA's.

    Raises HardwareTrap when the operand leaves the window (see `window_reach`: the last lines may).
    """
    begin, end = window
    address = operand_addresses(descriptor, arch=arch, dtype=dtype, major=major, rows=rows, k=k, packing=packing)
    if address.ndim != 2:
        raise InputError("read_operand takes one descriptor at a time")
    fmt = element_format(dtype)
    d = SmemDescriptor.decode(descriptor.encode() if isinstance(descriptor, SmemDescriptor) else descriptor, arch=arch)
    along, lines = address.shape[::-1] if major == "K" else address.shape
    farthest = window_reach(d, major, lines, -(-along // fmt.elements_per_chunk(packing)))
    if farthest > end:
        known = "" if arch == "sm_90a" else "; measured on Hopper, expected here"
        reason = f"the operand reaches {farthest:#x}, past the end of the CTA's shared window ({end:#x}){known}"
        raise HardwareTrap(reason, cuda_error=ILLEGAL_ADDRESS)
    if address.size and int(address.min()) < begin:
        raise Unmodelled(f"the operand begins at {int(address.min()):#x}; nobody knows what the system keeps below {begin:#x}")
    return address


def offsets(address: np.ndarray, window: tuple[int, int]) -> np.ndarray:
    """Offsets in the window. Lines past the end that do not fault read as zero: they find the guard behind it, which nobody writes."""
    found: np.ndarray = np.minimum(address.astype(np.int64), window[1]) - window[0]
    return found


@functools.lru_cache(maxsize=512)
def pattern(
    word: int, arch: str, dtype: str, major: str, rows: int, k: int, window: tuple[int, int], packing: str = "packed"
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, k) the place of each element in the window, counted in `WORDS` or bytes, and the chunks of 16 bytes they are in, ascending.

    Kept for every word and window: those of a kernel come again and again.
    """
    at = offsets(places(word, arch=arch, dtype=dtype, major=major, rows=rows, k=k, packing=packing, window=window), window)
    return at * 8 // max(8, element_format(dtype).bits), np.unique(at >> 4)


def element_bits(raw: np.ndarray, bits: int, per_chunk: int, major: str) -> np.ndarray:
    """Raw bytes (rows, k, size) to raw element bits, for types of whole bytes; sub-byte types are cut out of their byte or bytes."""
    value = np.zeros(raw.shape[:-1], np.uint64)
    for i in range(raw.shape[-1]):
        value |= raw[..., i].astype(np.uint64) << np.uint64(8 * i)
    if bits < 8:
        value = value >> shifts(raw.shape[:2], bits, per_chunk, major) & np.uint64((1 << bits) - 1)
    return value.astype({64: np.uint64, **WORDS}.get(bits, np.uint8))


@functools.lru_cache(maxsize=64)
def shifts(shape: tuple[int, int], bits: int, per_chunk: int, major: str) -> np.ndarray:
    """How far from its byte's lowest bit each element of a sub-byte type begins, (rows or 1, k or 1)."""
    index = np.arange(shape[1])[None, :] if major == "K" else np.arange(shape[0])[:, None]
    return np.asarray((index % per_chunk * bits % 8).astype(np.uint64))
