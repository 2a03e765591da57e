"""Which bytes of global memory block-scaled and sparse mma.sync multiply with which rows and which K: scale factors and
metadata, followed into the registers of warps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.spec.formats import FORMATS
from smemsim.diagnosis.operands.factors import BY_THREADS, CELL, IN_REGISTERS, TABLE, Factors, Registers, Rows, Use, unchanged
from smemsim.diagnosis.operands.orders import is_looked_up
from smemsim.diagnosis.operands.thread_sums import Pointers
from smemsim.run.engine.records import Fragments, FragmentScales, Metadata, Mma

if TYPE_CHECKING:
    from smemsim.core.machine.mma_sync import MmaSync
    from smemsim.core.ptx.module import Instruction
    from smemsim.run.engine.launch import Launch
    from smemsim.run.engine.wave import Wave

__all__ = ["FragmentFactors", "Unselected"]

BYTE = 8  # bits
MOST_USES = 1 << 16  # that are kept
NO_MATRIX = "scale factors of operands whose rows are not a pitch apart in one array"
TOO_MANY = f"scale factors beyond {MOST_USES} different ones"
_WEIGHTS = np.random.default_rng(1).integers(1, 1 << 63, 1 << 12, np.int64) * 2 + 1


class Unselected(NamedTuple):
    """Scale factors in registers that the instruction's thread-id does not select, although the selected ones hold a
    number that no array has. It has the event, the thread-id's threads of each four, and the bytes of global memory.
    """

    event: Mma
    threads: tuple[int, ...]
    at: np.ndarray


class _Spot(NamedTuple):
    """The rows that an operand begins with, its first k, and the k that a row of the matrix has room for (0: not
    known).
    """

    rows: Rows
    k: int
    room: int


class FragmentFactors(Factors):
    """The scale factors and the metadata of the block-scaled and sparse mma.sync of a launch. The tables `uses` and
    `registers` are like those of `Factors`. The table `unselected` is by the line and the side.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unselected: dict[tuple[int, str], Unselected] = {}
        self.is_whole = True

    def _forget(self) -> None:
        super()._forget()
        self._done: dict[tuple[int, str, int], str] = {}  # what was said of equal addresses before: the reason, or ""
        self._pointers: dict[Launch, Pointers] = {}
        self._count = 0

    def merge(self, other: Factors) -> None:
        """Take what another process has seen."""
        super().merge(other)
        assert isinstance(other, FragmentFactors)
        self.unselected = other.unselected | self.unselected
        self.is_whole &= other.is_whole

    def warps_multiplied(self, x: Wave, i: Instruction, f: Fragments) -> None:
        """Note what warps multiply."""
        reasons = [""] * len(f.warps)
        for side, at, scales in zip("ab", (f.a, f.b), f.scales or (), strict=False):
            keys = _hashes(at, scales.origins[:, scales.threads])
            for n, key in enumerate(keys):
                found = self._done.get((i.line, side, key))
                if found is None:
                    found = self._done[i.line, side, key] = self._factors_of(x, (i, f, n), side, at[n], scales)
                reasons[n] = reasons[n] or found
        self.instructions += len(f.warps) if f.scales is not None else 0
        self.missed.update(filter(None, reasons))
        if f.metadata is not None:
            self._sparse(x, i, f, f.metadata)

    # ---- scale factors

    def _factors_of(self, x: Wave, event: tuple[Instruction, Fragments, int], side: str, at: np.ndarray, scales: FragmentScales) -> str:
        """Note the factors of a warp's rows; the reason if that cannot be done."""
        i, f, n = event
        values = np.ascontiguousarray(scales.registers[n], np.uint32).view(np.uint8).reshape(-1, CELL)
        every = unchanged(x, scales.origins[n], values)
        words = every[scales.threads]
        own = words[:, scales.bytes]
        spot = self._rows_at(x, f.of, side, at)
        if (own[: spot.rows.extent if spot is not None else None] < 0).any():
            if (own < 0).all() and len(distinct(values[scales.threads][:, scales.bytes])) == 1:
                self._not_selected(_event(i, f, n), side, every, scales)
            return BY_THREADS
        if spot is None:
            return NO_MATRIX
        base, offsets, number = self._known(own[: spot.rows.extent])
        uses = self.uses.setdefault(spot.rows, {})
        if (spot.k, base, number) not in uses:
            if self._is_full():
                return TOO_MANY
            elements = f.of.shape[2] // f.of.factors
            uses[spot.k, base, number] = Use(
                _event(i, f, n), spot.k, elements, base, offsets, (), None, None, (0, spot.room), words[: spot.rows.extent]
            )
        return TABLE if is_looked_up(own[: spot.rows.extent]) else ""

    def _is_full(self) -> bool:
        """Are as many uses kept as may be? Else there is one more."""
        self._count += 1
        self.is_whole &= self._count <= MOST_USES
        return not self.is_whole

    def _not_selected(self, event: Mma, side: str, every: np.ndarray, scales: FragmentScales) -> None:
        """Note loaded bytes in the threads that are not selected."""
        others = np.setdiff1d(np.arange(len(every)), scales.threads)
        at = distinct(every[others])
        at = at[at >= 0]
        if len(at):
            key = event.instruction.line, side
            before = self.unselected.get(key)
            at = at if before is None else distinct(np.concatenate([before.at, at]))
            self.unselected[key] = Unselected(event, tuple(distinct(scales.threads % 4).tolist()), at)

    # ---- metadata

    def _sparse(self, x: Wave, i: Instruction, f: Fragments, metadata: Metadata) -> None:
        """Note the metadata of a sparse A."""
        thread, bit = (of[:, metadata.places[1][0] % BYTE == 0] for of in metadata.places)
        named = distinct(thread.reshape(-1))
        origins = metadata.origins
        held = metadata.registers[:, named] if origins is None else origins[:, named]
        for n, key in enumerate(_hashes(f.a, held)):
            found = self._done.get((i.line, "metadata", key))
            if found is None:
                words = Registers(metadata.places, metadata.registers[n], None if origins is None else origins[n])
                found = self._done[i.line, "metadata", key] = self._metadata(x, (i, f, n), words, (thread, bit))
            if found:
                self.missed_registers[found] += 1

    def _metadata(self, x: Wave, event: tuple[Instruction, Fragments, int], words: Registers, places: tuple[np.ndarray, np.ndarray]) -> str:
        i, f, n = event
        thread, bit = places
        self._select(words.values, frozenset(distinct(thread % 4).tolist()), _event(i, f, n))
        spot, at = self._rows_at(x, f.of, "a", f.a[n]), self._in_registers(x, words, thread, bit // BYTE)
        if spot is None or at is None:
            return "sparse metadata: " + (NO_MATRIX.replace("scale factors", "metadata") if at is not None else IN_REGISTERS)
        base, offsets, number = self._known(at[: spot.rows.extent])
        uses = self.registers.setdefault(spot.rows, {})
        if (spot.k, base, number) not in uses:
            if self._is_full():
                return TOO_MANY.replace("scale factors", "sparse metadata")
            uses[spot.k, base, number] = Use(
                _event(i, f, n), spot.k, f.of.shape[2] // thread.shape[1], base, offsets, (), None, None, (0, spot.room)
            )
        return ""

    # ---- which rows and which k

    def _rows_at(self, x: Wave, of: MmaSync, side: str, at: np.ndarray) -> _Spot | None:
        """The rows and the first k of an operand whose elements at k = 0 and at half of K have these addresses, (rows,
        2). The result is None unless its rows are a pitch apart in one array.
        """
        first, half = at[:, 0], at[:, 1]
        pitch, step = int(first[1] - first[0]), int(half[0] - first[0])
        k = (of.stored_k if side == "a" else of.shape[2]) // 2
        is_row = (first >= 0) & (half - first == step) & (np.diff(first, prepend=first[0] - pitch) == pitch)
        extent = int(np.argmin(is_row)) if not is_row.all() else len(is_row)
        region = x.launch.memory.holding(int(first[0]), int(first[0]) + 1) if extent > 1 and pitch > 0 and step > 0 else None
        if region is None:
            return None
        by = int(first[0]) - self._begin(x.launch, int(first[0]), region.begin)
        name = of.a_type if side == "a" else of.b_type
        for bits in sorted({of.row.bits, FORMATS[name].bits if name in FORMATS else of.row.bits}):  # no format: s4, u4
            if step * BYTE == k * bits and pitch >= 2 * step:
                row, column, room = by // pitch, by % pitch * BYTE // bits, pitch * BYTE // bits
            elif pitch * BYTE == bits and step % k == 0:
                pitch = step // k
                row, column, room = by % pitch * BYTE // bits, by // pitch, 0
            else:
                continue
            rows = Rows(side, (int(first[0]) - by, (pitch,), bits), (), row, extent)
            stored = 2 if of.is_sparse and side == "a" else 1
            return _Spot(rows, column * stored, room * stored)
        return None

    def _begin(self, launch: Launch, address: int, begin: int) -> int:
        """The begin of an address's matrix."""
        if launch not in self._pointers:
            self._pointers = {launch: Pointers(launch)}
        return self._pointers[launch].begin(address, begin)


def _event(i: Instruction, f: Fragments, n: int) -> Mma:
    """The instruction of one warp."""
    of, (cta, thread) = f.of, f.warps[n]
    return Mma(cta, thread, i, "mma.sync", *of.shape, None, 0, *of.types, is_sparse=of.is_sparse)


def _hashes(*parts: np.ndarray) -> list[int]:
    """One number for each warp, equal for equal arrays: (warps, …)."""
    found = np.zeros(len(parts[0]), np.int64)
    for n, part in enumerate(parts):
        flat = part.reshape(len(part), -1).astype(np.int64)
        with np.errstate(over="ignore"):
            found = found * np.int64(31) + (flat * _WEIGHTS[n : n + flat.shape[1]]).sum(axis=1)
    return found.tolist()
