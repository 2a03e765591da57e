"""Descriptors that read what was meant, found from where it lies: for each swizzle mode the strides and starts follow, and are tried."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from smemsim.addressing.swizzle import swizzle
from smemsim.check.reads import START, Read
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError, Unmodelled
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.swizzles import MODES, Swizzle, SwizzleMode

__all__ = ["Solution", "locate", "solutions"]

CHUNK = 16  # bytes that every swizzle moves together


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """Words that read every element where it lies; a stride is None where the instruction never uses it."""

    swizzle: Swizzle
    leading: int | None
    stride: int | None
    starts: np.ndarray  # (blocks, steps), bytes
    words: np.ndarray


def locate(source: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The shared address at which every global byte lies, -1 where it lies nowhere."""
    written = np.nonzero(source >= 0)[0]
    if not len(written):
        return np.full(wanted.shape, -1, np.int64)
    order = written[np.argsort(source[written], kind="stable")]
    at = np.minimum(np.searchsorted(source[order], wanted), len(order) - 1)
    return np.where(source[order[at]] == wanted, order[at], -1)


def solutions(read: Read, places: np.ndarray, major: str | None = None) -> Iterator[Solution]:
    """Every mode's descriptor for elements that lie at `places` (blocks, steps, rows, k)."""
    machine, wanted_major = architecture(read.arch), major or read.major
    for name in dict.fromkeys(layout_codes(machine.smem_descriptor).values()):
        mode = MODES.get(name)
        if mode is None:
            continue
        linear = np.asarray(swizzle(places, 0, mode.mask, mode.shift))  # type: ignore[arg-type]
        leading, stride = _strides(read, mode, linear[0, 0], wanted_major)
        found = _tried(read, mode, leading, stride, linear[:, :, 0, 0], places, wanted_major)
        if found is not None:
            yield found


def _strides(read: Read, mode: SwizzleMode, linear: np.ndarray, major: str) -> tuple[int | None, int | None]:
    """(LBO, SBO) as the first instruction's elements have them."""
    per_chunk = element_format(read.dtype).elements_per_chunk(read.packing)
    across = mode.width // CHUNK * per_chunk  # elements of the contiguous axis before LBO is used
    rows, k = linear.shape
    start = int(linear[0, 0])

    def step(row: int, column: int) -> int | None:
        return int(linear[row, column]) - start if row < rows and column < k else None

    if major == "K":
        return step(0, across), step(8, 0)
    along, lines = step(across, 0), step(0, mode.k_rows)
    return (along, lines) if mode.mask else (lines, along)  # without swizzle they have each other's role


def _tried(
    read: Read, mode: SwizzleMode, leading: int | None, stride: int | None, starts: np.ndarray, places: np.ndarray, major: str
) -> Solution | None:
    given = {"leading_byte_offset": leading or 0, "stride_byte_offset": stride or 0}
    unit, end = 1 << START.shift, START.mask + 1 << START.shift
    if (
        any(value % unit or not 0 <= value < end for value in given.values())
        or (starts % unit).any()
        or (starts < 0).any()
        or (starts >= end).any()
    ):
        return None
    try:
        base = SmemDescriptor(arch=read.arch, start_address=0, swizzle=mode.swizzle, **given).encode()
        words = np.uint64(base) | (starts >> START.shift).astype(np.uint64)
        if (read.addresses(words, major) != places).any():
            return None
    except (InputError, Unmodelled):
        return None
    return Solution(mode.swizzle, leading, stride, starts, words)
