"""Counts what a launch costs, by instruction."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.core.layout.banks import operand_wavefronts
from smemsim.core.layout.conflicts import OPS, BankAccess
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.counters import LANES, Sure
from smemsim.run.counters.classes import MULTIPLIES, counted_ones, op_of, product_of
from smemsim.run.counters.compiled import MOST_WARPS, CompiledCosts
from smemsim.run.counters.rows import Row, by_warp
from smemsim.run.events import Access, Observer

if TYPE_CHECKING:
    from smemsim.run.async_ops import AsyncOp
    from smemsim.run.tallies import CompiledAccesses, Tally
    from smemsim.run.views import Cta, Wave

__all__ = ["Counting"]

_MATRIX = "machine code chooses how a fragment is loaded and stored"
_REMOTE_CTA = "remote"
_ONES: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()  # by program: `counted_ones`


class _Sample(NamedTuple):
    """What some warps access; `at` are places in the wave's shared memory."""

    op: str
    at: np.ndarray
    size: int
    active: np.ndarray


class Counting(Observer):
    """The counters of every instruction that ran, `rows` by the instruction's identity; `instructions` has it."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.instructions: dict[int, Instruction] = {}
        self.tensor_columns = 0  # the most that a CTA has allocated at once
        self._blocks: dict[int, tuple[Sequence[Instruction], list[int]]] = {}
        self._ones: set[int] = set()  # atomics whose number is 1 and whose result nothing reads
        self._memories: dict[int, tuple[np.ndarray, int]] = {}
        self._kept: dict[int, tuple[Instruction, list[_Sample]]] = {}
        self._pitch = 1  # bytes from the window of a CTA to the next one's
        self._is_finished = False
        self._tallies: list[Tally] = []
        self._compiled: dict[int, CompiledCosts] = {}  # by the identity of `CompiledAccesses.accesses`
        self._sources: dict[
            int, list[tuple[np.ndarray, np.ndarray]]
        ] = {}  # of cp.async: threads and global addresses that it has read, before it writes

    def row(self, i: Instruction) -> Row:
        """The counters of an instruction."""
        found = self.rows.get(id(i))
        if found is None:
            found = self.rows[id(i)] = Row()
            self.instructions[id(i)] = i
        return found

    @staticmethod
    def _warps(threads: np.ndarray) -> int:
        """How many warps these threads (ascending) are of."""
        count = len(threads)
        if count and not threads[0] % LANES and threads[-1] - threads[0] == count - 1:
            return -(-count // LANES)
        return int(np.count_nonzero(np.diff(threads // LANES, prepend=-1)))

    # ---- events

    def wave_began(self, x: Wave) -> None:
        if not self._ones:
            program = x.launch.program
            if program not in _ONES:
                _ONES[program] = counted_ones(program.inlined.body) or {0}
            self._ones = _ONES[program]

    def executes(self, x: Wave, instructions: Sequence[Instruction]) -> None:
        threads = x.threads
        counts = self._blocks.setdefault(id(instructions), (instructions, [0, 0, 0]))[1]
        counts[0] += self._warps(threads)
        counts[1] += len(threads)

    def guarded(self, x: Wave, i: Instruction, holds: np.ndarray) -> None:
        off = len(holds) - int(np.count_nonzero(holds))
        if off:
            self.row(i).predicated_off += off

    def tensor_allocated(self, x: Wave, i: Instruction, warp: int, cta: Cta, column: int, group: int) -> None:
        self.tensor_columns = max(self.tensor_columns, int(np.count_nonzero(x.memories.tensor_allocated[cta.index])))

    def accessed(self, x: Wave, access: Access) -> None:
        i, piece, threads = access.instruction, access.piece, access.threads
        if not len(threads) or "const" in i.modifiers or (i.op == "cp" and access.kind == "write"):
            return
        row = self.row(i)
        if piece.space == "global":
            self._everywhere(x, row, access, threads)
        elif piece.space == "local":
            local = x.memories.local.shape[1]
            row.local(threads, piece.at - threads * local, access.size)
        else:
            self._shared(x, row, access, threads)

    def tallied(self, x: Wave, tally: Tally) -> None:
        self._tallies.append(tally)

    def accessed_together(self, x: Wave, accesses: CompiledAccesses) -> None:
        costs = self._compiled.get(id(accesses.accesses))
        if costs is None:
            costs = self._compiled[id(accesses.accesses)] = CompiledCosts(accesses.accesses)
        costs.add(accesses)
        self._pitch = x.pitch

    def _everywhere(self, x: Wave, row: Row, access: Access, threads: np.ndarray) -> None:
        i, at = access.instruction, access.piece.at + self._begin(x, access.piece.memory)
        if i.op == "cp":
            self._sources.setdefault(id(i), []).append((threads, at))
            return
        if access.kind == "read" and i.op in ("atom", "red"):
            return
        if i.op == "wmma":
            row.doubt(Sure.NONE, _MATRIX)
            return
        row.everywhere(*by_warp(threads, at), access.size)

    def _begin(self, x: Wave, memory: np.ndarray) -> int:
        """The address of the first byte of an array's memory, of which places in `Piece.at` are counted."""
        known = self._memories.get(id(memory))
        if known is None:
            begin = next((r.words_begin for r in x.launch.memory.table()[2] if r.words is memory), 0)
            known = self._memories[id(memory)] = memory, begin
        return known[1]

    def _shared(self, x: Wave, row: Row, access: Access, threads: np.ndarray) -> None:
        i, at, size = access.instruction, access.piece.at, access.size
        op = "one" if id(i) in self._ones else op_of(i)
        if op == "matrix":
            row.doubt(Sure.NONE, _MATRIX)
            return
        if x.launch.cluster_size > 1 and access.piece.space == "shared" and op != "remote" and (at // x.pitch != x.cta_of[threads]).any():
            op = _REMOTE_CTA
        if op == _REMOTE_CTA:
            row.cluster_bytes += int(np.count_nonzero(at // x.pitch != x.cta_of[threads])) * size
        rows, active = by_warp(threads, at)
        if access.kind == "copy":
            self._copied(row, access, op, rows, active)
        else:
            if op in ("atom", "one") and self._is_uniform(rows, active):
                op = "uniform"
            row.shared(op, rows, active, size)
            if op in OPS and access.piece.space == "shared":
                self._pitch = x.pitch
                self._keep(i, size, op, rows, active)

    def _keep(self, i: Instruction, size: int, op: str, rows: np.ndarray, active: np.ndarray) -> None:
        kept = self._kept.setdefault(id(i), (i, []))[1]
        room = MOST_WARPS - sum(len(one.at) for one in kept)
        if room > 0:
            kept.append(_Sample(op, rows[:room], size, active[:room]))

    def _copied(self, row: Row, access: Access, op: str, rows: np.ndarray, active: np.ndarray) -> None:
        """cp.async: lanes of one warp may have read bytes of several lengths, or none."""
        i, size, read = access.instruction, access.size, self._sources.pop(id(access.instruction), [])
        row.copied_bytes += len(access.threads) * size
        sources = rows
        if read:
            threads = np.concatenate([some for some, _ in read])
            order = np.argsort(threads, kind="stable")
            sources, reading = by_warp(threads[order], np.concatenate([at for _, at in read])[order])
            row.everywhere(sources, reading, size)
        if op == "cp.async.ca" and len(sources) == len(rows) and sum(len(some) for some, _ in read) == len(access.threads):
            row.copied(rows, sources, active, size)
        else:
            row.shared(op if "cg" in i.modifiers else "cp.async.ca", rows, active, size)

    @staticmethod
    def _is_uniform(rows: np.ndarray, active: np.ndarray) -> bool:
        """Have several lanes of each warp one address? ptxas may add them up before."""
        first = rows[np.arange(len(rows)), [int(m & -m).bit_length() - 1 for m in active.tolist()]]
        here = active[:, None] >> np.arange(LANES) & 1
        return bool(((rows == first[:, None]) | (here == 0)).all() and (here.sum(axis=1) > 1).any())

    def issued(self, x: Wave, op: AsyncOp) -> None:
        if op.kind in ("st.async", "red.async"):
            self.row(op.instruction).copied_bytes += op.byte_count

    # ---- afterwards

    def finish(self) -> None:
        """Give every instruction of the blocks that ran its counts; after the launch."""
        if self._is_finished:
            return
        self._is_finished = True
        for costs in self._compiled.values():
            costs.put(self.row)
        for tally in self._tallies:
            for i, entry in tally.off:
                if tally.numbers[entry]:
                    self.row(i).predicated_off += int(tally.numbers[entry])
            for instructions, warps, lanes in tally.blocks:
                if not tally.numbers[warps]:
                    continue
                counts = self._blocks.setdefault(id(instructions), (instructions, [0, 0, 0]))[1]
                counts[0] += int(tally.numbers[warps])
                counts[1] += int(tally.numbers[lanes])
        for instructions, (warps, lanes, _) in self._blocks.values():
            for i in instructions:
                row = self.row(i)
                row.executed += warps
                row.lanes += lanes
        self._count_products()
        self._blocks.clear()
        self._tallies.clear()

    def _count_products(self) -> None:
        """The matrix instructions, by the lanes that ran them."""
        for key, row in self.rows.items():
            product = product_of(i) if (i := self.instructions[key]).op in MULTIPLIES else None
            if product is not None:
                row.mmas = (row.lanes - row.predicated_off) // product.threads
                row.flop = row.mmas * product.flop
                if product.b_bytes:
                    row.operand_wavefronts = row.mmas * operand_wavefronts(product.a_bytes, product.b_bytes)

    @functools.cached_property
    def samples(self) -> dict[int, list[BankAccess]]:
        """Some accesses of each instruction, by offset in the window: what a layout is tried on. After the launch."""
        for costs in self._compiled.values():
            for access, rows, active in costs.samples():
                self._keep(access.instruction, access.size, op_of(access.instruction), rows, active)
        return {
            key: [BankAccess(one.op, one.at % self._pitch, one.size, one.active) for one in kept] for key, (_, kept) in self._kept.items()
        }
