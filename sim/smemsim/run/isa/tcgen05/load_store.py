"""tcgen05.ld and st, with reduction."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError
from smemsim.core.finding import ranges
from smemsim.core.machine.global_memory import FOREIGN
from smemsim.core.machine.tmem.memory import SPLIT, WHOSE_VALUE, TmemAccess, first_lane, same_in_same_cells
from smemsim.core.ptx.module import Immediate, Instruction, Operand, Vector, slots_in
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tensor_memory import COLUMNS, LANES, LOAD_STORE_SHAPES, WARP_LANES
from smemsim.core.spec.traps import ILLEGAL_INSTRUCTION
from smemsim.run.async_ops import TensorAccess
from smemsim.run.engine.in_flight import defer
from smemsim.run.engine.traps import warp_name
from smemsim.run.engine.wave import WARP
from smemsim.run.isa.asynchronous import stop
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Gate, Step, implements, limit, unmodelled
from smemsim.run.isa.tcgen05.allocation import given_back
from smemsim.run.origins import CELL, cells_in_order, followed_stores, origins_of
from smemsim.run.word_ranges import WORD

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.isa.registers import Write
    from smemsim.run.lower.program import Linker

__all__ = ["Reduction"]


# ---- `tcgen05.ld.red`: the smallest or largest of what a thread has loaded, beside the values
# (PTX ISA 9.1 §9.7.16.8.3)


_NAN = np.uint32(0x7FFFFFFF)  # the canonical NaN of f32


class Reduction:
    """`.min` or `.max` with `.abs` and `.NaN` of f32, or of u32 and s32."""

    def __init__(self, i: Instruction, c: Linker, words: Modifiers) -> None:
        if SPLIT in words.left:
            raise limit(i, ".red of .16x32bx2: which columns count for a thread is in no document")
        if "x1" in words.left:
            raise unmodelled(i, ".red of .x1: it has at least .x2")
        self.i, self.linker = i, c
        self.operation = words.need("min", "max")
        self.absolute, self.nan = words.has("abs"), words.has("NaN")
        self.kind = words.need("f32", "u32", "s32")
        if self.kind != "f32" and (self.absolute or self.nan):
            raise unmodelled(i, f".abs and .NaN of .{self.kind}")
        self.write: Write | None = None

    def result(self, operand: Operand) -> None:
        """The register it goes to; Triton writes a list of one."""
        if isinstance(operand, Vector) and len(operand.items) == 1:
            operand = operand.items[0]
        self.write = self.linker.write(operand, self.kind)

    def run(self, x: Wave, loaded: np.ndarray) -> None:
        """Reduce the registers (registers, threads) of each thread."""
        values = loaded.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[self.kind])
        if self.kind != "f32":
            reduced = (np.min if self.operation == "min" else np.max)(values, axis=0)
        else:
            values = np.abs(values) if self.absolute else values
            # -0 is below +0: integers in the order of the floats show that.
            raw = np.ascontiguousarray(values).view(np.int32)
            order = np.where(raw < 0, raw ^ np.int32(0x7FFFFFFF), raw).astype(np.int64)
            lost = np.isnan(values)
            order[lost] = (1 << 40) if self.operation == "min" else -(1 << 40)
            picked = (np.argmin if self.operation == "min" else np.argmax)(order, axis=0)
            reduced = np.take_along_axis(values, picked[None], 0)[0]
            gone = lost.any(0) if self.nan else lost.all(0)
            reduced = np.where(gone, _NAN.view(np.float32), reduced)
        if self.write is not None:
            self.write(x, reduced)


# ---- `tcgen05.ld`, `tcgen05.st` and `tcgen05.wait` (PTX ISA 9.1 §9.7.16.8): registers of whole warps
# from and to tensor memory


_LOW = np.uint32(0xFFFF)


class _Access:
    """A shape of tcgen05.ld or .st with its address operand: where in `x.tensor` the registers of the running threads
    are.
    """

    def __init__(self, i: Instruction, c: Linker, words: Modifiers, operands: Operands, packing: str, registers: Operand | None) -> None:
        self.i = i
        shape = words.need(*LOAD_STORE_SHAPES)
        repeat = words.need(*(f"x{1 << n}" for n in range(8)))
        self.pack = words.has(packing)
        words.end()
        self.address = c.address(operands.next("an address in tensor memory"))
        split = operands.next("immHalfSplitoff") if shape == SPLIT else None
        if split is not None and not isinstance(split, Immediate):
            raise unmodelled(i, "immHalfSplitoff is no immediate")
        self.access = TmemAccess(
            shape, int(repeat[1:]), pack=self.pack, half_split_offset=split.value if isinstance(split, Immediate) else None
        )
        registers = registers or operands.next("registers")
        operands.end()
        self.items = registers.items if isinstance(registers, Vector) else (registers,)
        if len(self.items) != self.access.registers:
            raise InputError(f"{len(self.items)} registers; .{shape}.{repeat} has {self.access.registers} (PTX ISA 9.1 §9.7.16.8.3)")
        thread, register = np.arange(WARP), np.arange(self.access.registers)[:, None]
        places = []
        for half in range(1 + self.pack):
            lane, column = self.access.location(0, thread, register, half)
            places.append(lane * COLUMNS + column)
        self.places = self._tiled = np.stack(places)  # (halves, registers, threads)
        self.first_lanes = tuple(range(0, WARP_LANES, self.access.lanes))

    def at(self, x: Wave) -> np.ndarray:
        """(halves, registers, running threads): places in the flat `x.tensor`. Ends the kernel for addresses that the
        warp cannot reach.
        """
        threads = x.threads
        starts = np.flatnonzero(np.diff(threads // WARP, prepend=-1))
        word = self._of_warps(x, threads, starts, np.broadcast_to(self.address(x), threads.shape))
        column = word & 0xFFFF
        lane = self._lanes(x, threads, word)
        cta = x.cta_of[threads]
        begins = column[starts]
        spans = [np.arange(self.access.width)]
        if self.access.half_split_offset:
            spans.append(spans[0] + self.access.half_split_offset)
        columns = begins[:, None] + np.concatenate(spans)
        free = (columns >= COLUMNS) | ~x.memories.tensor_allocated[cta[starts, None], np.minimum(columns, COLUMNS - 1)]
        if free.any():
            which, n = (int(a[0]) for a in np.nonzero(free))
            self._not_allocated(x, x.ctas[int(cta[starts[which]])], int(columns[which, n]), columns[which])
        base = (cta * LANES + lane) * COLUMNS + column
        found: np.ndarray = base + self._of_threads(x, threads)
        return found

    def _of_warps(self, x: Wave, threads: np.ndarray, starts: np.ndarray, word: np.ndarray) -> np.ndarray:
        """The address of each warp, in all its threads. If lanes give several, it is that of the first, if they differ
        only by their own lanes.
        """
        first: np.ndarray = word[np.repeat(starts, np.diff(starts, append=len(word)))]
        first = assumed("ld_st.address", first, word, starts)
        apart = word ^ first
        if not apart.any():
            return word
        if (apart & ~np.uint32((WARP_LANES - 1) << 16)).any():
            self._stop(
                x,
                "X015",
                "the lane or another upper bit of the tensor memory address differs between the threads of a warp",
                "give all 32 threads the same address",
            )
        n, rule = int(np.flatnonzero(apart)[0]), RULES["tcgen05.one_address"]
        x.launch.find(
            "X015", self.i, f"the tensor memory address differs between the threads of {warp_name(x, threads[n] // WARP)}",
            why=f"it is {int(first[n]):#x} in the first lane and {int(word[n]):#x} in another; the PTX ISA leaves that undefined, and the first lane counts", repair=
            "give all 32 threads the address of the first lane", because=f"PTX ISA 9.1 §9.7.16.8.1; {rule.source} ({rule.on(x.launch.arch)})",
            milder=Severity.NOTE,
        )  # fmt: skip
        return first

    def _not_allocated(self, x: Wave, cta: Cta, column: int, columns: np.ndarray) -> None:
        """Ends the kernel: a column that a warp accesses is not allocated, or not any more."""
        what = f"column {column} of CTA {cta.number} is not allocated"
        own = np.flatnonzero(x.memories.tensor_allocated[cta.index])
        has = f"allocated are columns {ranges(own.tolist())}" if own.size else "no column is allocated"
        where = f"(the access has columns {int(columns.min())} to {int(columns.max())}; {has})"
        by = given_back(cta, column)
        if by is None:
            first = "tcgen05.alloc more columns" if own.size else "tcgen05.alloc before this access"
            self._stop(x, "X009", f"{what} {where}", f"{first}, or correct the address")
            return
        i, warp = by
        self._stop(
            x, "X009", f"{what} any more {where}: {warp_name(x, warp)} deallocated it at {i.at} ({i.name})",
            f"deallocate it later: a barrier before {i.at}, after the last use by all warps",
        )  # fmt: skip

    def _lanes(self, x: Wave, threads: np.ndarray, word: np.ndarray) -> np.ndarray:
        """The lane at which each thread's warp begins. Ends the kernel where the shape begins at no such lane."""
        given = word >> 16
        lane: np.ndarray = first_lane(x.tid[threads] // WARP, given)
        inside = given % WARP_LANES
        if not np.isin(inside, self.first_lanes).all():
            n = int(np.flatnonzero(~np.isin(inside, self.first_lanes))[0])
            only = " or ".join(map(str, self.first_lanes))
            self._stop(
                x, "X009", f"{warp_name(x, threads[n] // WARP)} gives address {int(word[n]):#x}, lane {int(given[n])}; .{self.access.shape} begins "
                f"at lane {only} of the {WARP_LANES} lanes of a warp", f"give lane {self._own(lane[n])}: the base address + ({self._own(lane[n])} << 16)",
            )  # fmt: skip
        # lanes 0 to 31 name no window: so all warps of many kernels give them
        elsewhere = (given != lane) & (given >= WARP_LANES)
        if elsewhere.any():
            # 32 times the warp, not modulo 4, is right except for the bits above
            of_another = elsewhere & (given % LANES != lane)
            self._in_another_window(x, threads, word, lane, int(np.flatnonzero(of_another if of_another.any() else elsewhere)[0]))
        return lane

    def _in_another_window(self, x: Wave, threads: np.ndarray, word: np.ndarray, lane: np.ndarray, n: int) -> None:
        """Reports that thread `n` gives a lane of another warp's window: what it gets or writes is that of its own."""
        rule, given, own = RULES["tcgen05.warp_window"], int(word[n] >> 16), self._own(lane[n])
        is_named = given % LANES == int(lane[n])
        other = given % LANES // WARP_LANES
        end = own + WARP_LANES - 1
        means = "the result is the same" if is_named else f"the access does not reach lane {given}"
        repair = (
            f"let a warp whose number is {other} modulo 4 access lane {given}; or if lane {int(lane[n])} is meant: give it in the address"
        )
        x.launch.find(
            "X009", self.i, f"{warp_name(x, threads[n] // WARP)} gives lane {given} in its tensor memory address ({int(word[n]):#x}), but accesses lane {int(lane[n])}",
            why=f"the warp reaches lanes {own} to {end} only; hardware takes bits 4:0 of the lane, so {means}", repair=
            f"give lane {int(lane[n])}, or leave the warp's bits out" if is_named else repair,
            because=f"PTX ISA 9.1 §9.7.16.8.1; {rule.source} ({rule.on(x.launch.arch)})", milder=Severity.NOTE if is_named else Severity.WRONG,
        )  # fmt: skip

    @staticmethod
    def _own(lane: Any) -> int:
        """The first lane of a window."""
        return int(lane) // WARP_LANES * WARP_LANES

    def _of_threads(self, x: Wave, threads: np.ndarray) -> np.ndarray:
        """The places of the running threads' registers, from where the address of each points."""
        warps = len(threads) // WARP
        if (
            len(threads) != WARP * warps
            or (x.grid.lane[threads[::WARP]] != 0).any()
            or (threads[WARP - 1 :: WARP] - threads[::WARP] != WARP - 1).any()
        ):
            return self.places[:, :, x.grid.lane[threads]]
        tiled = self._tiled
        if tiled.shape[-1] != len(threads):
            tiled = self._tiled = np.tile(self.places, warps)
        return tiled

    def boxes(self, x: Wave) -> list[tuple[int, int, int, int, int]]:
        """For the sanitizer: (warp in the wave, CTA, first lane, first column, end column) of each
        access of each warp.
        """
        threads = x.threads
        starts = np.flatnonzero(np.diff(threads // WARP, prepend=-1))
        first, word = threads[starts], np.broadcast_to(self.address(x), threads.shape)[starts]
        cells = []
        for thread, address in zip(first.tolist(), word.tolist(), strict=True):
            lane, column = first_lane(int(x.tid[thread]) // WARP, address >> 16), address & 0xFFFF
            for offset in {0, self.access.half_split_offset or 0}:
                begin = column + offset
                cells.append((thread // WARP, int(x.cta_of[thread]), lane, begin, begin + self.access.width))
        return cells

    def _stop(self, x: Wave, code: str, message: str, repair: str) -> None:
        stop(x, self.i, code, f"{self.i.name}: {message}", repair, ILLEGAL_INSTRUCTION)


@implements("tcgen05.ld")
def build_ld(i: Instruction, c: Linker) -> Step:
    """`tcgen05.ld{.red}.sync.aligned.SHAPE.NUM{.pack::16b}.b32 {r...}, [taddr] {, immHalfSplitoff}`."""
    words, operands = Modifiers(i, "ld", "sync", "aligned"), Operands(i)
    reduction = Reduction(i, c, words) if words.has("red") else None
    if reduction is None:
        words.need("b32")
    results = operands.next("registers")
    reduced: tuple[Operand, ...] = () if reduction is None else (operands.next("a register for the reduction"),)
    if reduction is not None:
        reduction.result(reduced[0])
    access = _Access(i, c, words, operands, "pack::16b", results)
    writes = [c.write(item, "b32") for item in access.items]

    brought = frozenset(slot for item in (*access.items, *reduced) for slot in slots_in(item))

    def bring(x: Wave, at: np.ndarray) -> None:
        flat = x.tensor.reshape(-1)
        loaded = flat.take(at[0])
        if access.pack:
            loaded = loaded & _LOW | flat.take(at[1]) << np.uint32(16)
        for write, values in zip(writes, loaded, strict=True):
            write(x, values)
        if reduction is not None:
            reduction.run(x, loaded)

    def run(x: Wave) -> None:
        at = access.at(x)
        if x.events.tensor_loaded:
            follow = functools.partial(_follow_load, x, i, at, access, reduced)
            x.events.tensor_loaded(x, i, TensorAccess(access.boxes(x), access.access.lanes, follow))
        _completes(x, bring, "ld", at, slots=brought)

    return Gate(lambda x: x.gather(), run)


def _completes(x: Wave, act: Callable[..., None], kind: str, *arrays: np.ndarray, slots: frozenset[int] = frozenset()) -> None:
    """Do `act(x, *arrays)` for the running threads, the last axis of each array; under a schedule each warp by itself
    and maybe later, in its order.
    """
    if x.in_flight is None:
        act(x, *arrays)
        return
    threads = x.threads.copy()
    for warp in distinct(threads // WARP).tolist():
        own = threads // WARP == warp
        complete = functools.partial(_for_threads, x, threads[own], act, *(array[..., own] for array in arrays))
        defer(x, complete, stream=("tensor memory", warp), kind=f"tcgen05.{kind}", threads=threads[own], slots=slots)


def _for_threads(x: Wave, threads: np.ndarray, act: Callable[..., None], *arrays: np.ndarray) -> None:
    kept, x.sel = x.sel, threads
    try:
        act(x, *arrays)
    finally:
        x.sel = kept


def _follow_load(x: Wave, i: Instruction, at: np.ndarray, access: _Access, reduced: tuple[Operand, ...], taint: Any, tensor: Any) -> None:
    """The registers get the marks of their cells (halves, registers, threads); a lane that is not used gets none."""
    halves = np.moveaxis(tensor.of_halves(i, at)[..., 0], 0, -1) if access.pack else tensor.of_halves(i, at[0])
    taint.put_parts_of_registers(access.items, x.threads, halves)
    marks = taint.origins.all(taint.origins.all(halves, axis=-1), axis=0)
    taint.put_registers(reduced, x.threads, marks[None])


def _follow_store(x: Wave, i: Instruction, at: np.ndarray, access: _Access, taint: Any, tensor: Any) -> None:
    """The cells have the doubts of the registers."""
    marks = taint.parts_of_registers(access.items, x.threads)
    if marks is None:
        marks = np.zeros((*at.shape[1:], WORD), np.int32)
    if access.pack:
        for half, of_half in enumerate(np.split(marks, 2, axis=-1)):
            tensor.put_lower(i, at[half], of_half)
    elif tensor.marks is not None or marks.any():
        tensor.put_parts(at[0], marks)


@implements("tcgen05.st")
def build_st(i: Instruction, c: Linker) -> Step:
    """`tcgen05.st.sync.aligned.SHAPE.NUM{.unpack::16b}.b32 [taddr] {, immHalfSplitoff}, {r...}`."""
    words, operands = Modifiers(i, "st", "sync", "aligned", "b32"), Operands(i)
    access = _Access(i, c, words, operands, "unpack::16b", None)
    overlaps = access.access.overlaps
    if overlaps and access.pack:
        raise limit(i, WHOSE_VALUE)
    reads = [c.read(item, "b32") for item in access.items]
    origins = followed_stores(i, c, access.items, CELL)

    def put(x: Wave, at: np.ndarray, values: np.ndarray) -> None:
        flat = x.tensor.reshape(-1)
        if access.pack:  # the upper halves of the cells keep what they had (inferred)
            for half in (0, 1):
                flat[at[half]] = flat[at[half]] & ~_LOW | values >> np.uint32(16 * half) & _LOW
        else:
            flat[at[0]] = values

    def run(x: Wave) -> None:
        at = access.at(x)
        values = np.empty(at.shape[1:], np.uint32)
        for n, read in enumerate(reads):
            values[n] = read(x)
        if overlaps and not same_in_same_cells(at[0], values):
            raise limit(i, WHOSE_VALUE)
        if x.events.tensor_stored:
            are_alike, follow = bool((values == values.flat[0]).all()), functools.partial(_follow_store, x, i, at, access)
            x.events.tensor_stored(x, i, TensorAccess(access.boxes(x), access.access.lanes, follow, are_alike))
        if origins is not None and (held := origins_of(x)) is not None:
            of_cells = np.full((*values.shape, CELL), FOREIGN) if access.pack else origins(x).reshape(x.n, -1, CELL).swapaxes(0, 1)
            held.tensor.put(cells_in_order(at[0]), of_cells)
            held.writers |= dict.fromkeys(distinct(at[0] % COLUMNS).tolist(), i)
        elif x.origins is not None:
            x.origins.tensor.forget(cells_in_order(at))
        _completes(x, put, "st", at, values)
        x.progress.changes += 1

    return Gate(lambda x: x.gather(), run)


@implements("tcgen05.wait::ld", "tcgen05.wait::st")
def build_wait(i: Instruction, c: Linker) -> Step:
    """`tcgen05.wait::ld.sync.aligned` and `tcgen05.wait::st.sync.aligned`: without a schedule operations complete when
    they are issued, and no thread waits.
    """
    words = Modifiers(i, "sync", "aligned")
    kind = words.need("wait::ld", "wait::st").removeprefix("wait::")
    words.end()

    def run(x: Wave) -> None:
        if x.in_flight is not None:
            x.in_flight.wait_all(x, f"tcgen05.{kind}")
        if x.events.tensor_waited:
            x.events.tensor_waited(x, i, kind)

    return Gate(lambda x: x.gather(), run)
