"""Tiles that threads have copied, chunk by chunk, of which each chunk is known: where in global memory it lies,
whatever values it has (`run/origins.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.product import SharedOperand
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.recognised import Recognised
from smemsim.run.engine.wave import COPIES
from smemsim.run.origins import origins_of

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave

__all__ = ["SWIZZLES", "addresses_of", "lines_of", "matrix_of", "read_otherwise"]

CORE_ROWS = 8  # of a core matrix
SWIZZLES = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)


def lines_of(chunks: np.ndarray, major: str) -> np.ndarray:
    """(lines, chunks) of an operand: what is contiguous goes along the second axis."""
    return chunks if major == "K" else chunks.T


def addresses_of(x: Wave, cta: Cta, lines: np.ndarray) -> np.ndarray | None:
    """The places in global memory at which chunks of a CTA's window begin. None unless threads have copied all of them
    from there.
    """
    held = origins_of(x)
    if held is None or lines.min() < 0 or (cta.shared.owned(lines)[0] != COPIES).any():
        return None
    at = held.in_shared(cta.index, lines[..., None] + np.arange(CHUNK))
    first: np.ndarray = at[..., 0]
    return first if (first >= 0).all() and (at == first[..., None] + np.arange(CHUNK)).all() else None


def matrix_of(memory: GlobalMemory, at: np.ndarray, what: SharedOperand) -> Recognised | None:
    """The tile whose chunks (lines, chunks) start at these addresses, if its rows are a pitch apart and their chunks
    consecutive.
    """
    lines, count = at.shape
    size = element_format(what.dtype).bits // 8
    if lines < 2 or not size:
        return None
    pitch = int(at[1, 0] - at[0, 0])
    region = memory.holding(int(at.min()), int(at.max()) + CHUNK)
    is_matrix = (at == at[0, 0] + np.arange(lines)[:, None] * pitch + CHUNK * np.arange(count)).all()
    if region is None or not pitch or pitch % size or not is_matrix:
        return None
    row, step = (pitch // size, 1) if what.major == "K" else (1, pitch // size)
    return Recognised(region.begin, len(region.data) // size, size, (int(at[0, 0]) - region.begin) // size, row, step)


def read_otherwise(x: Wave, cta: Cta, what: SharedOperand) -> tuple[SmemDescriptor, Recognised] | None:
    """The descriptor with other strides, or another swizzle, that reads a tile as a matrix, and that matrix; None if
    there is none, or several.
    """
    found = []
    for word in _others(what, cta.shared):
        other = dataclasses.replace(what, word=word)
        lines = _lines_read(other, cta.shared)
        at = None if lines is None else addresses_of(x, cta, lines)
        matrix = None if at is None else matrix_of(x.launch.memory, at, what)
        if matrix is not None:
            found.append((word, matrix))
    return found[0] if len(found) == 1 else None


def _others(what: SharedOperand, shared: SharedMemory) -> Iterator[SmemDescriptor]:
    """The descriptor with its strides exchanged, with that of groups of 8 rows in rows as wide as the swizzle, and with
    the other swizzles.
    """
    word = SmemDescriptor.decode(what.number, arch=shared.arch)
    leading, stride, mode = word.leading_byte_offset, word.stride_byte_offset, MODES[word.swizzle]
    forms = [(stride, leading, word.swizzle)] if leading != stride else []
    if mode.mask and what.major == "K" and stride != CORE_ROWS * mode.width:
        forms.append((leading, CORE_ROWS * mode.width, word.swizzle))
    forms += [(leading, stride, other) for other in SWIZZLES if other is not word.swizzle]
    for lbo, sbo, swizzle in forms:
        yield SmemDescriptor(
            arch=word.arch, start_address=word.start_address, leading_byte_offset=lbo, stride_byte_offset=sbo, base_offset=word.base_offset,
            swizzle=swizzle, lbo_mode=word.lbo_mode if "lbo_mode" in word.table.fields else 0,
        )  # fmt: skip


def _lines_read(what: SharedOperand, shared: SharedMemory) -> np.ndarray | None:
    """The begins of an operand's chunks in the window; None if one is not a chunk of neighbours, or is outside."""
    try:
        address = what.addresses(shared.arch).astype(np.int64) - shared.begin
    except SmemsimError:
        return None
    size = element_format(what.dtype).bits // 8
    rows = address if what.major == "K" else address.T
    each = CHUNK // size
    lines = rows[:, ::each]
    is_whole = (
        rows.shape[1] % each == 0 and (rows == np.repeat(lines, each, axis=1) + np.tile(np.arange(each) * size, lines.shape[1])).all()
    )
    return lines if is_whole and lines.min() >= 0 and lines.max() + CHUNK <= len(shared.bytes) and not (lines % CHUNK).any() else None
