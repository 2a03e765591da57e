"""Tiles that threads or cp.async have copied into shared memory: do all rows of an operand have their 16-byte chunks in one order?

No tensor map says what such a tile is. But most of its chunks lie in global memory at one place alone, and say where they came from. A product adds up k by k:
in whatever order the chunks of a row come, all rows of both operands need the same. A row whose chunks the descriptor reads in another order than row 0's was
written with another swizzle than the descriptor's. Where each row lies in shared memory as in global memory, the rows may have been swizzled there before: then
it is a remark.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from smemsim.finding import Finding, at_instruction
from smemsim.machine.product import SharedOperand
from smemsim.machine.region import GlobalMemory
from smemsim.program.events import Mma
from smemsim.program.wave import Cta, Wave
from smemsim.ptx.module import Instruction
from smemsim.spec.findings import Severity
from smemsim.spec.shared_memory import CHUNK, LINE
from smemsim.spec.swizzles import MODES, Swizzle
from smemsim.words.smem import SmemDescriptor

__all__ = ["ThreadTiles"]


PERIODS = (8, 16)  # rows behind which a swizzle, or what was meant to be one, begins anew
WIDEST = 8  # chunks of a row that a swizzle reorders
MOST_BYTES = 1 << 23  # of global memory that is looked through
MOST_LOOKS = 8  # operands of a launch
KNOWN = 0.9  # share of an operand's chunks that must lie at one place alone


@dataclasses.dataclass(frozen=True, eq=False)
class _Chunks:
    """The chunks of global memory that no other one equals: their values, mixed to one word, in ascending order, and their addresses."""

    mixed: np.ndarray
    addresses: np.ndarray

    def places(self, values: np.ndarray) -> np.ndarray:
        """Addresses of chunks (..., 2) of uint64; 0 where there is none, or more than one."""
        wanted = _mixed(values)
        if not len(self.mixed):
            return np.zeros(wanted.shape, np.int64)
        at = np.minimum(np.searchsorted(self.mixed, wanted), len(self.mixed) - 1)
        return np.where(self.mixed[at] == wanted, self.addresses[at], 0)


class ThreadTiles:
    """Collects, for each matrix instruction and side, whether rows of an operand that no tensor load brought have their chunks in different orders."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Finding] = {}
        self._looked: set[tuple[str, int]] = set()
        self._chunks: _Chunks | None = None

    def look(self, x: Wave, cta: Cta, event: Mma, side: str, what: SharedOperand, chunks: np.ndarray) -> None:
        """Look at an operand of an instruction, of which `chunks` are the places in the window, as `_Places` has them."""
        key = side, event.instruction.line
        if key in self._looked or len(self._looked) >= MOST_LOOKS or event.is_sparse:
            return
        self._looked.add(key)
        rows = chunks if what.major == "K" else chunks.T
        if len(rows) < 2 * PERIODS[0] or rows.shape[1] < 2 or rows.min() < 0:
            return
        if self._chunks is None:
            self._chunks = _all_chunks(x.launch.memory)
        values = cta.shared.bytes[rows[..., None] + np.arange(CHUNK)].reshape(*rows.shape, CHUNK).view(np.uint64)
        odd = _odd_row(self._chunks.places(values), rows)
        if odd is not None:
            writer = None if x.watch is None else x.watch.last_writer((int(rows[odd.row, 0]) + cta.index * x.pitch) // 4)
            self.found[key] = _found(event, side, what, odd, writer)


def _all_chunks(memory: GlobalMemory) -> _Chunks:
    """Of arrays that are not too large in all."""
    mixed, addresses, left = [], [], MOST_BYTES
    for region in memory.filled():
        skipped = -region.begin % CHUNK
        whole = (len(region.data) - skipped) // CHUNK * CHUNK
        if 0 < whole <= left:
            left -= whole
            mixed.append(_mixed(np.ascontiguousarray(region.data[skipped : skipped + whole]).view(np.uint64).reshape(-1, 2)))
            addresses.append(region.begin + skipped + CHUNK * np.arange(whole // CHUNK))
    if not mixed:
        return _Chunks(np.zeros(0, np.uint64), np.zeros(0, np.int64))
    values, first, count = np.unique(np.concatenate(mixed), return_index=True, return_counts=True)
    return _Chunks(values[count == 1], np.concatenate(addresses).astype(np.int64)[first[count == 1]])


def _mixed(values: np.ndarray) -> np.ndarray:
    """Two words of 64 bits as one that other ones hardly ever give."""
    low, high = values[..., 0], values[..., 1]
    with np.errstate(over="ignore"):
        one = (low ^ (low >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + high
        mixed: np.ndarray = (one ^ (one >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed


@dataclasses.dataclass(frozen=True)
class _Odd:
    """A row whose chunks come in another order than row 0's; which chunk each of the two reads first, counted from the lowest; do rows lie as in global memory?"""

    row: int
    chunk: int
    of_first: int
    lies_as_there: bool


def _odd_row(addresses: np.ndarray, places: np.ndarray) -> _Odd | None:
    """A row whose chunks come in another order than row 0's, if only a swizzle explains it.

    Rows lie a pitch apart in global memory, and some rows further the order is the same. What was copied as it lies there may be a tile that was swizzled before.
    """
    known = addresses > 0
    if known.mean() < KNOWN or not known[0].all():
        return None
    pitch = next((pitch for period in PERIODS if (pitch := _pitch(addresses, known, period)) is not None), None)
    if pitch is None:
        return None
    apart = (places - addresses)[known]
    start = addresses - np.arange(len(addresses))[:, None] * pitch
    start = start - start[known].min()
    if (apart == apart[0]).all() or (start[known] % CHUNK).any() or start[known].max() >= WIDEST * CHUNK:
        return None
    index = start // CHUNK
    by = index[:, :1] ^ index[0, 0]
    if ((index ^ by) != index[0])[known & known[:, :1]].any():
        return None
    odd = np.flatnonzero(known[:, 0] & (by[:, 0] > 0))
    if not odd.size:
        return None
    by_row = places - addresses
    lies_as_there = bool((by_row == by_row[:, :1])[known & known[:, :1]].all())
    return _Odd(int(odd[0]), int(index[odd[0], 0]), int(index[0, 0]), lies_as_there)


def _pitch(addresses: np.ndarray, known: np.ndarray, period: int) -> int | None:
    """Bytes from row to row, where all chunks lie as far from those of the row that is a period further."""
    steps = (addresses[period:] - addresses[:-period])[known[period:] & known[:-period]]
    return int(steps[0]) // period if steps.size and (steps == steps[0]).all() and not steps[0] % period else None


def _found(event: Mma, side: str, what: SharedOperand, odd: _Odd, writer: Instruction | None) -> Finding:
    swizzle = SmemDescriptor.decode(what.number, arch="sm_100a" if event.kind != "wgmma" else "sm_90a").swizzle
    line = "row" if what.major == "K" else "k"
    by = "" if writer is None else f"; {writer.name} of line {writer.line} wrote it"
    before = ", unless these were in that order in global memory before" if odd.lies_as_there else ""
    return at_instruction(
        "R501", event.instruction, f"{side.upper()}, descriptor {what.number:#x}: the rows of the tile have their 16-byte chunks in different orders: where "
        f"{line} 0 gives chunk {odd.of_first} of its row in global memory, {line} {odd.row} gives chunk {odd.chunk}{by}, with another swizzle than {swizzle}, with "
        f"which it is read{before}", f"write with swizzle {swizzle}{_law(swizzle)}", because="PTX ISA 9.1 §5.5.6",
        milder=Severity.LUCK if odd.lies_as_there else None,
    )  # fmt: skip


def _law(swizzle: Swizzle) -> str:
    """Where a chunk goes, in rows that are as wide as the swizzle."""
    mode = MODES[swizzle]
    if not mode.mask or 1 << mode.shift != CHUNK:
        return ""
    rows = LINE // mode.width
    return f": chunk c of row r to c ^ (r{f' // {rows}' if rows > 1 else ''} % {mode.mask + 1})"
