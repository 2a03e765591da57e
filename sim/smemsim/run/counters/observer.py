"""Counts what a launch costs, by instruction."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.core.layout.bank_loops import WORK
from smemsim.core.layout.banks import operand_wavefronts
from smemsim.core.layout.conflicts import OPS, BankAccess
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.counters import LANES, Sure
from smemsim.run.counters.classes import MULTIPLIES, Product, counted_ones, op_of, product_of
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
_NO_BLOCK: tuple[Sequence[Instruction], np.ndarray] = (), np.zeros(0, np.int64)


class Body:
    """The numbers of a program's instructions, in the order of its lines. They are the same in each launch.

    Its `counted_ones` are `ones`. The numbers of instructions by their identity are `instructions`.
    """

    def __init__(self, body: Iterable[Instruction] = ()) -> None:
        self.instructions = list(body)
        self.ones = counted_ones(self.instructions)
        self._numbers = {id(i): n for n, i in enumerate(self.instructions)}
        # by identity: instructions, their numbers
        self._blocks: dict[int, tuple[Sequence[Instruction], np.ndarray]] = {}
        self._guards: dict[int, tuple[Sequence[tuple[Instruction, int]], np.ndarray, np.ndarray]] = {}
        self._products: dict[int, Product | None] = {}
        self._multiplies = np.zeros(0, bool)

    def number(self, i: Instruction) -> int:
        """The number of an instruction; a new one if it is not of the body."""
        found = self._numbers.get(id(i))
        if found is None:
            found = self._numbers[id(i)] = len(self.instructions)
            self.instructions.append(i)
        return found

    def block(self, instructions: Sequence[Instruction]) -> np.ndarray:
        """The numbers of the instructions of a block, which is the same object in all launches."""
        kept, numbers = self._blocks.get(id(instructions), _NO_BLOCK)
        if kept is not instructions:
            numbers = np.array([self.number(i) for i in instructions], np.int64)
            self._blocks[id(instructions)] = instructions, numbers
        return numbers

    def guards(self, off: Sequence[tuple[Instruction, int]]) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of instructions with a predicate, and the entries of a tally with their lanes."""
        found = self._guards.get(id(off))
        if found is None or found[0] is not off:
            numbers, entries = (np.array(some, np.int64) for some in ([self.number(i) for i, _ in off], [entry for _, entry in off]))
            found = self._guards[id(off)] = off, numbers, entries
        return found[1:]

    def product(self, n: int) -> Product | None:
        """`product_of` the instruction with this number."""
        if n not in self._products:
            self._products[n] = product_of(self.instructions[n])
        return self._products[n]

    def multiplies(self, ran: np.ndarray) -> list[int]:
        """The numbers of the matrix instructions among those that ran (a mask)."""
        if len(self._multiplies) < len(ran):
            self._multiplies = np.array([i.op in MULTIPLIES for i in self.instructions], bool)
        numbers: list[int] = np.flatnonzero(self._multiplies[: len(ran)] & ran).tolist()
        return numbers


_BODIES: weakref.WeakKeyDictionary[Any, Body] = weakref.WeakKeyDictionary()  # by program


class _Sample(NamedTuple):
    """The accesses of some warps. The places in the wave's shared memory are `at`."""

    op: str
    at: np.ndarray
    size: int
    active: np.ndarray


class Counting(Observer):
    """The counters of every instruction that ran. Accesses and matrix instructions have theirs in `rows`, by the
    identity of the instruction in `instructions`.

    After the launch `executed`, `lanes` and `off` have the warps, their lanes, and the lanes that a predicate leaves
    out, of each instruction of `body`. Instructions that ran are in `ran`.
    """

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.instructions: dict[int, Instruction] = {}
        self.tensor_columns = 0  # the most that a CTA has allocated at once
        self._blocks: dict[int, tuple[Sequence[Instruction], list[int]]] = {}
        self.body = Body()
        self.executed = self.lanes = self.off = np.zeros(0, np.int64)
        self.ran = np.zeros(0, bool)
        self._ones: set[int] = set()  # atomics whose number is 1 and whose result nothing reads
        self._guarded: dict[int, tuple[Instruction, list[int]]] = {}
        self._memories: dict[int, tuple[np.ndarray, int]] = {}
        self._kept: dict[int, tuple[Instruction, list[_Sample]]] = {}
        self._pitch = 1  # bytes from the window of a CTA to the next one's
        self._is_finished = False
        self._tallies: list[Tally] = []
        self._work = np.empty((WORK, LANES), np.int64)
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
            if self._is_finished:
                self._fill(found, self.body.number(i))
        return found

    def _fill(self, row: Row, n: int) -> None:
        """Give a row the warps and lanes of its instruction."""
        if n < len(self.executed):
            row.executed, row.lanes, row.predicated_off = int(self.executed[n]), int(self.lanes[n]), int(self.off[n])

    @staticmethod
    def _warps(threads: np.ndarray) -> int:
        """How many warps these threads (ascending) are of."""
        count = len(threads)
        if count and not threads[0] % LANES and threads[-1] - threads[0] == count - 1:
            return -(-count // LANES)
        return int(np.count_nonzero(np.diff(threads // LANES, prepend=-1)))

    # ---- events

    def wave_began(self, x: Wave) -> None:
        if not self.body.instructions:
            program = x.launch.program
            if program not in _BODIES:
                _BODIES[program] = Body(program.inlined.body)
            self.body = _BODIES[program]
            self._ones = self.body.ones

    def executes(self, x: Wave, instructions: Sequence[Instruction]) -> None:
        threads = x.threads
        counts = self._blocks.setdefault(id(instructions), (instructions, [0, 0, 0]))[1]
        counts[0] += self._warps(threads)
        counts[1] += len(threads)

    def guarded(self, x: Wave, i: Instruction, holds: np.ndarray) -> None:
        off = len(holds) - int(np.count_nonzero(holds))
        if off:
            self._guarded.setdefault(id(i), (i, [0]))[1][0] += off

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
            costs = self._compiled[id(accesses.accesses)] = CompiledCosts(accesses.accesses, self._work)
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
        for costs in self._compiled.values():
            costs.put(self.row)
        off: list[tuple[np.ndarray, np.ndarray]] = []
        for tally in self._tallies:
            if tally.off:
                numbers, entries = self.body.guards(tally.off)
                off.append((numbers, tally.numbers[entries]))
            for instructions, warps, lanes in tally.blocks:
                if not tally.numbers[warps]:
                    continue
                counts = self._blocks.setdefault(id(instructions), (instructions, [0, 0, 0]))[1]
                counts[0] += int(tally.numbers[warps])
                counts[1] += int(tally.numbers[lanes])
        off += [(np.array([self.body.number(i)]), np.array(count)) for i, count in self._guarded.values()]
        blocks = [(self.body.block(instructions), counts) for instructions, counts in self._blocks.values()]
        of_rows = [self.body.number(i) for i in self.instructions.values()]
        total = len(self.body.instructions)
        self.executed, self.lanes, self.off, self.ran = *(np.zeros(total, np.int64) for _ in range(3)), np.zeros(total, bool)
        if blocks:
            numbers, sizes = np.concatenate([numbers for numbers, _ in blocks]), [len(numbers) for numbers, _ in blocks]
            by_block = np.array([counts for _, counts in blocks], np.int64)
            np.add.at(self.executed, numbers, np.repeat(by_block[:, 0], sizes))
            np.add.at(self.lanes, numbers, np.repeat(by_block[:, 1], sizes))
            self.ran[numbers] = True
        for numbers, lanes_off in off:
            np.add.at(self.off, numbers, lanes_off)
        self.ran |= self.off > 0
        self.ran[of_rows] = True
        for row, n in zip(self.rows.values(), of_rows, strict=True):
            self._fill(row, n)
        self._is_finished = True
        self._count_products()
        self._blocks.clear()
        self._tallies.clear()

    def _count_products(self) -> None:
        """The matrix instructions, by the lanes that ran them."""
        for n in self.body.multiplies(self.ran):
            product = self.body.product(n)
            if product is not None:
                row = self.row(self.body.instructions[n])
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
