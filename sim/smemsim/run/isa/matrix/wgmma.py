"""`wgmma` (PTX ISA 9.1 §9.7.15): a warpgroup's matrix instruction, executed when it is issued, and what orders it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.base.masks import all_set, any_set
from smemsim.core.arithmetic.multiply import Sums
from smemsim.core.finding import Half
from smemsim.core.machine import loops
from smemsim.core.machine.memory import Windows
from smemsim.core.machine.wgmma import Reads, Wgmma, a_places, d_places, to_matrix, to_registers, types_of
from smemsim.core.ptx.module import Immediate, Instruction, Register, Vector, slots_in
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.traps import ILLEGAL_INSTRUCTION
from smemsim.core.spec.wgmma import A_REGISTERS, UNFENCED, UNFENCED_A, UNFENCED_PART, UNFENCED_SHAPE, WGMMA_M, Guarded, WgmmaTypes
from smemsim.run.async_ops import Lazily, WarpgroupOp
from smemsim.run.cohort import are_repeated
from smemsim.run.engine.records import Metadata, Mma, Products
from smemsim.run.engine.traps import MORE_SHARED, SMALLER_FIELDS, find_uninitialised
from smemsim.run.engine.wave import ALL, WARPGROUP
from smemsim.run.following import Product
from smemsim.run.isa.asynchronous import issue, stops
from smemsim.run.isa.matrix.accumulators import accumulators, bits_of_slots, count_of, number_of
from smemsim.run.isa.matrix.ldmatrix import items
from smemsim.run.isa.matrix.sparsity import find_undefined
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Gate, Step, implements, unmodelled
from smemsim.run.lower.unfenced import lie_alike, shape_of, unfenced
from smemsim.run.origins import CELL, followed_stores, origins_of
from smemsim.run.slots import Slot
from smemsim.run.word_ranges import WORD, read_runs

if TYPE_CHECKING:
    from smemsim.base.compiling.loop import Loop
    from smemsim.core.machine.product import SharedOperand
    from smemsim.run.engine.launch import Launch
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.isa.registers import Read
    from smemsim.run.lower.program import Linker


_SHAPE = re.compile(r"m64n(\d+)k(\d+)")


def _together(i: Instruction, x: Wave) -> bool:
    """Go on with whole warpgroups; X011 for what cannot become one."""
    if not x.gather(WARPGROUP):
        return False
    if x.sel is ALL and x.stride % WARPGROUP == 0:
        return True
    threads = x.threads
    first, last = threads[::WARPGROUP], threads[WARPGROUP - 1 :: WARPGROUP]
    whole = (  # beside each other, and of one CTA
        len(threads) % WARPGROUP == 0
        and not (x.tid[first] % WARPGROUP).any()
        and (last - first == WARPGROUP - 1).all()
        and (x.tid[last] - x.tid[first] == WARPGROUP - 1).all()
    )
    if not whole:
        message = f"{i.name} needs the four warps of a warpgroup; a CTA of {x.launch.threads} threads, or one whose warps have exited, has no such warpgroup here"
        x.launch.find("X011", i, message, f"a multiple of {WARPGROUP} threads that execute it together")
        raise HardwareTrap(message, cuda_error=ILLEGAL_INSTRUCTION)
    return True


@implements("wgmma.fence")
def build_fence(i: Instruction, c: Linker) -> Step:
    """`wgmma.fence.sync.aligned`: registers that were written are visible to the wgmma that follow."""
    Modifiers(i, "fence", "sync", "aligned").end()

    def run(x: Wave) -> None:
        _fenced(x)[_warpgroups(x).numbers] = True

    return Gate(lambda x: _together(i, x), run)


@implements("wgmma.commit_group")
def build_commit(i: Instruction, c: Linker) -> Step:
    """`wgmma.commit_group.sync.aligned`."""
    Modifiers(i, "commit_group", "sync", "aligned").end()

    def run(x: Wave) -> None:
        if x.in_flight is not None:
            x.in_flight.commit(x, "wgmma")
        if x.events.group_committed:
            x.events.group_committed(x, i, "wgmma")

    return Gate(lambda x: _together(i, x), run)


@implements("wgmma.wait_group")
def build_wait(i: Instruction, c: Linker) -> Step:
    """`wgmma.wait_group.sync.aligned N`: operations complete when they are issued, so no thread waits."""
    Modifiers(i, "wait_group", "sync", "aligned").end()
    left = i.operands[0]
    if not isinstance(left, Immediate):
        raise unmodelled(i, "the number of groups is no immediate")
    count = left.value

    def run(x: Wave) -> None:
        if x.in_flight is not None:
            x.in_flight.wait(x, "wgmma", count)
        if x.events.group_waited:
            x.events.group_waited(x, i, "wgmma", count)

    return Gate(lambda x: _together(i, x), run)


@implements("wgmma.mma_async")
def build_mma(i: Instruction, c: Linker) -> Step:
    """`wgmma.mma_async{.sp}.sync.aligned.m64nNkK{.satfinite}.D.A.B{.and.popc} d, a, b {, metadata, selector}, scale-d
    {, scale-a, scale-b {, trans-a, trans-b}}`.
    """
    mma = _Mma(i, c)
    for loop in _loops():
        loop.ready()
    c.at_launch[unfenced] = _find_unfenced
    return Gate(lambda x: _together(i, x), mma.run, keeps=bits_of_slots(mma.d_slots))


def _find_unfenced(launch: Launch) -> None:
    """Find what `_check_fences` asks, once for a program."""
    unfenced(launch.program)


def _loops() -> list[Loop]:
    """The loops of dense products, and of the search for what their operands' bytes are."""
    from smemsim.core.arithmetic.loops import float_sums, numbers_of_words, transposed
    from smemsim.core.layout.loops import operand_addresses
    from smemsim.core.layout.tma_loops import tiled_rows

    of_owners = [loops.gather_owned, loops.one_writers, loops.owners_of, tiled_rows]
    return [loops.one_of_each, loops.take, *of_owners, operand_addresses, transposed, numbers_of_words, float_sums]


@dataclasses.dataclass(eq=False)
class Warpgroups:
    """The warpgroups that execute.

    For each: its first thread in the wave, its CTA, its number among those of the wave, the place of its D among all
    accumulators, and its window. If each CTA of the wave has the same ones, `own` are those of the first; else it is 0.
    """

    key: bytes
    firsts: list[int]
    own: int
    issuers: list[tuple[int, int]]  # the CTA's number in the grid, the first thread's in the CTA
    ctas: list[Cta]
    each: list[int]  # the number in the grid of each CTA, once
    numbers: np.ndarray
    where: np.ndarray
    windows: Windows

    def __post_init__(self) -> None:
        self.threads = list(zip(self.ctas, self.firsts, strict=True))  # the issuers


_WARPGROUPS: Slot[dict[bytes, Warpgroups]] = Slot(lambda x: {})  # by the selection
_FENCED: Slot[np.ndarray] = Slot(lambda x: np.zeros(count_of(x), bool))


def _warpgroups(x: Wave) -> Warpgroups:
    """Those that are here, kept: nearly always they are all of the wave."""
    kept = _WARPGROUPS(x)
    firsts = x.threads[::WARPGROUP]
    key = b"" if x.sel is ALL else firsts.tobytes()
    found = kept.get(key)
    if found is None:
        if len(kept) >= MOST_SELECTIONS:
            kept.clear()
        cta, tids = x.cta_of[firsts], x.tid[firsts]
        numbers = number_of(x, cta, tids)
        where = np.zeros((len(firsts), 3), np.int64)
        where[:, 0] = numbers
        ctas = [x.ctas[n] for n in cta.tolist()]
        windows = Windows([cta.shared for cta in ctas])
        issuers = list(zip([cta.number for cta in ctas], tids.tolist(), strict=True))
        of_first = None if x.cohort is None else x.cohort.own_threads(firsts)
        own = 0 if of_first is None else len(of_first)
        each = list(dict.fromkeys([cta.number for cta in ctas]))
        found = kept[key] = Warpgroups(key, firsts.tolist(), own, issuers, ctas, each, numbers, where, windows)
    return found


def _fenced(x: Wave) -> np.ndarray:
    """Which warpgroups have executed a wgmma.fence, by their numbers."""
    return _FENCED(x)


@dataclasses.dataclass(eq=False)
class _Words:
    """The descriptors of the warpgroups of an instruction, B's and, if it is not in registers, A's, and the words that
    they read.

    If each CTA of the wave has the same ones, `own` are those of the first; else it is 0.
    """

    a: list[int] | None
    b: list[int]
    own: int
    reads: Reads

    def __post_init__(self) -> None:
        self.each: list[tuple[int, ...]] = list(zip(self.b, strict=True) if self.a is None else zip(self.b, self.a, strict=True))
        self.alike, self.alike_of_own = self._alike(self.each), self._alike(self.each[: self.own])

    @staticmethod
    def _alike(words: list[tuple[int, ...]]) -> list[list[int]]:
        """Which have the same ones, by their places."""
        found: dict[tuple[int, ...], list[int]] = {}
        for n, own in enumerate(words):
            found.setdefault(own, []).append(n)
        return list(found.values())


class _Mma:
    """One wgmma.mma_async of a program: the registers and immediates that it names."""

    def __init__(self, i: Instruction, c: Linker) -> None:
        words, operands = Modifiers(i, "mma_async", "sync", "aligned"), Operands(i)
        self._kept: Slot[dict[Any, _Words]] = Slot(lambda x: {})
        self.i, is_sparse, satfinite = i, words.has("sp"), words.has("satfinite")
        n, types, row = _name(i, words, is_sparse)
        d = items(operands.next("D"), n // 4 if types[2] == "f16" else n // 2, "D")
        a = operands.next("A")
        self.in_registers = isinstance(a, Vector)
        a_parts = items(a, A_REGISTERS, "A") if self.in_registers else (a,)
        self.read_a = [c.read(part, "b32" if self.in_registers else "b64") for part in a_parts]
        self.read_b = c.read(operands.next("B"), "b64")
        self.metadata_items = [operands.next("metadata")] if is_sparse else []
        self.metadata = c.read(self.metadata_items[0], "b32") if is_sparse else None
        self.origins = followed_stores(i, c, self.metadata_items, CELL) if is_sparse else None
        selector = _number(i, operands, "sp-sel") if is_sparse else 0
        self.scale_d = c.read(operands.next("scale-d"), "pred")
        signs = [_number(i, operands, "imm-scale") for _ in range(2)] if row.signs else [1, 1]
        majors = ["K", "K"]
        if row.transposes:
            for side in (1,) if self.in_registers else (0, 1):
                majors[side] = "MN" if _number(i, operands, "imm-trans") else "K"
        operands.end()
        self.of = Wgmma(
            n, *types, a_major=majors[0], b_major=majors[1], imm_scale_a=signs[0], imm_scale_b=signs[1], satfinite=satfinite,
            is_sparse=is_sparse, sparsity_selector=selector, has_a_in_registers=self.in_registers,
        )  # fmt: skip
        self.shape = "wgmma", WGMMA_M, n, self.of.k
        self.forms = *self.of.types, self.of.a_major, self.of.b_major
        self.d, self.a_items = d, a_parts if self.in_registers else ()
        self.read_d, self.write_d = [c.read(x, "b32") for x in d], [c.write(x, "b32") for x in d]
        sums = [part.slot for part in cast("list[Register]", d)]  # `write` takes nothing else, of 32 bits
        self.first_slot, self.sums = sums[0], frozenset(sums)
        self.slots = self.sums | {slot for part in self.a_items for slot in slots_in(part)}
        self.named = bits_of_slots(self.slots | {slot for part in self.metadata_items for slot in slots_in(part)})
        self._behind: dict[tuple[int, ...], tuple[SharedOperand, ...]] = {}
        # those of D, if it names each once and the other operands name none; else no matrix is kept
        is_apart = len(self.sums) == len(sums) and self.sums.isdisjoint(dataclasses.replace(i, operands=i.operands[1:]).slots)
        self.d_slots = tuple(sums) if is_apart else ()

    def _origins(self, x: Wave) -> np.ndarray | None:
        """The sources of the metadata's bytes: (warpgroups, threads, bytes) addresses of global memory, negative if
        there is none; None if they are not followed.
        """
        if self.origins is None or origins_of(x) is None:
            return None
        return self.origins(x).reshape(-1, WARPGROUP, CELL)

    def run(self, x: Wave) -> None:
        """Multiply, for every warpgroup that is here."""
        here, of = _warpgroups(x), self.of
        b = self._uniform(x, self.read_b, "B's descriptor")
        scale = self._uniform(x, self.scale_d, "scale-d")
        a = None if self.in_registers else self._uniform(x, self.read_a[0], "A's descriptor")
        registers = self._registers(x, self.read_a) if self.in_registers else None
        metadata = None if self.metadata is None else np.broadcast_to(self.metadata(x), x.n).reshape(-1, WARPGROUP)
        words = self._words(x, here, a, b)
        values, goes_on = self._held(x, here, scale)
        self._check_fences(x, here)
        adds = scale.tolist()
        own = words.own if are_repeated(adds, words.own) else 0
        make = functools.partial(self._events, here.issuers, (words.a, words.b), adds, goes_on)  # keeps no CTA
        products = Products(len(adds), make, here.each if are_repeated(goes_on, own) else ())
        if x.events.multiplies:  # before they are executed: one may be what ends the kernel
            if metadata is not None:
                products.metadata = Metadata(of.metadata_places, metadata, self._origins(x))
            x.events.multiplies(x, self.i, products)
        with stops(
            x,
            self.i,
            lambda trap: ("A107", f"{SMALLER_FIELDS}{MORE_SHARED}"),
        ):
            operands = of.read(words.reads, registers, metadata)
        if metadata is not None:
            find_undefined(x, self.i, of.undefined_groups(operands, metadata), of.nibbles(metadata), of.row.group)
        self._record(x, products, operands.unwritten)
        op = self._operation(x, here, words, adds, own)
        if x.in_flight is None:
            op.takes = functools.partial(self._add, x, operands, here, scale, values)
        else:
            accumulators(x).left(self.sums, here.numbers.tolist(), None)
            op.takes = functools.partial(self._add_late, x, here, words, metadata, scale)
        issue(x, op)

    def _words(self, x: Wave, here: Warpgroups, a: np.ndarray | None, b: np.ndarray) -> _Words:
        """The meaning of these descriptors of warpgroups. It is kept, since a loop uses them again."""
        kept = self._kept(x)
        key = here.key, b.tobytes(), b"" if a is None else a.tobytes()
        found = kept.get(key)
        if found is None:
            if len(kept) >= MOST_WORDS:
                kept.clear()
            of_a, of_b = None if a is None else a.tolist(), b.tolist()
            own = here.own if are_repeated(of_b, here.own) and (of_a is None or are_repeated(of_a, here.own)) else 0
            found = kept[key] = _Words(of_a, of_b, own, self.of.reads(here.windows, of_a, of_b))
        return found

    def _held(self, x: Wave, here: Warpgroups, scale: np.ndarray) -> tuple[np.ndarray | None, list[bool]]:
        """The place of the values of D, if they are kept as matrices, and whether each warpgroup adds to a sum."""
        held = accumulators(x)
        if x.in_flight is None and self.d_slots and self.of.adds_in_place:
            return held.hold(self.d_slots, self.of.n, here.numbers, scale)
        return None, held.goes_on(self.sums, here.numbers.tolist(), self._registers(x, self.read_d))

    def _add(self, x: Wave, operands: Any, here: Warpgroups, scale: np.ndarray, values: np.ndarray | None) -> None:
        """Add up what was multiplied, in the registers of D or where their values are kept."""
        if values is not None:
            self.of.add(operands, Sums(values, here.where, scale))
        else:
            self._write(x, here, self._product(operands, self._registers(x, self.read_d), scale))

    def _add_late(self, x: Wave, here: Warpgroups, words: _Words, metadata: np.ndarray | None, scale: np.ndarray) -> None:
        """`_add` of what lies in shared memory and in registers by now."""
        late = self.of.read(words.reads, self._registers(x, self.read_a) if self.in_registers else None, metadata)
        self._add(x, late, here, scale, None)

    def _product(self, operands: Any, held: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The registers of D, from the operands and what was in them."""
        c = to_matrix(held, self.of.n, self.of.d_type)
        if not scale.all():
            c[~scale] = 0
        return to_registers(self.of.execute(operands, c), self.of.d_type)

    def _write(self, x: Wave, here: Warpgroups, out: np.ndarray) -> None:
        for n, write in enumerate(self.write_d):
            write(x, out[n].reshape(-1))
        accumulators(x).left(self.sums, here.numbers.tolist(), out)

    def _registers(self, x: Wave, reads: list[Read]) -> np.ndarray:
        """Registers (registers, warpgroups, 128)."""
        return np.stack([np.broadcast_to(read(x), x.n) for read in reads]).reshape(len(reads), -1, WARPGROUP)

    def _record(self, x: Wave, products: Products, taint: np.ndarray) -> None:
        """Record the instruction of each warpgroup, and whether it reads uninitialised memory; R507 if the sanitizer
        does not report it.
        """
        if any_set(taint):
            if x.taint is None:
                find_uninitialised(x, self.i)
            each = zip(products.all, taint.tolist(), strict=True)
            products = Products.of([dataclasses.replace(event, taint=True) if missing else event for event, missing in each])
        if x.events.multiplied:
            x.events.multiplied(x, self.i, products)

    def _check_fences(self, x: Wave, here: Warpgroups) -> None:
        """X014 if a warpgroup has executed no fence, or if it writes a register after it."""
        fenced = _fenced(x)[here.numbers]
        if not all_set(fenced):
            x.launch.find(
                "X014", self.i, "no wgmma.fence is executed before the first wgmma.mma_async", "wgmma.fence.sync.aligned before the first wgmma.mma_async",
                why="wgmma may read registers before earlier writes to them are visible", because="PTX ISA 9.1 §9.7.15.7.1",
                halves=(Half("read", self.i.name, self.i),),
            )  # fmt: skip
        if any_set(fenced) and (by := unfenced(x.program).get(id(self.i))) is not None:
            what, rule, why, repair = _unfenced_registers(self.i, by)
            x.launch.find(
                "X014", self.i, what, repair, because="PTX ISA 9.1 §9.7.15.7.1", milder=Severity.NOTE if rule.is_safe else None,
                why=why, halves=(Half("read", self.i.name, self.i), Half("write", by.name, by)),
            )  # fmt: skip

    def _events(
        self, issuers: list[tuple[int, int]], of: tuple[list[int] | None, list[int]], scale: list[bool], goes_on: list[bool], begin: int, end: int
    ) -> list[Mma]:  # fmt: skip
        """The record of the instruction of some warpgroups."""
        i, shape, forms, negate, is_sparse, d = self.i, self.shape, self.forms, self.of.negate, self.of.is_sparse, self.first_slot
        a, b = of
        words_of_a: Sequence[int | None] = [None] * len(b) if a is None else a
        each = itertools.islice(zip(issuers, words_of_a, b, scale, goes_on, strict=True), begin, end)
        return [
            Mma(cta, tid, i, *shape, word_a, word_b, *forms, adds, negate, is_sparse, d=d, is_new=not sums)
            for (cta, tid), word_a, word_b, adds, sums in each
        ]

    def _uniform(self, x: Wave, read: Read, what: str) -> np.ndarray:
        """The value that all threads of a warpgroup have of an operand, for each warpgroup."""
        values = np.asarray(read(x))
        found = np.empty(x.n // WARPGROUP, values.dtype)
        if not values.ndim:
            found[:] = values
        elif not loops.one_of_each(values, found):
            raise Unmodelled(f"{self.i.name}: {what} is not the same in all threads of the warpgroup, as PTX ISA 9.1 §9.7.15.5.2 wants it")
        return found

    def _operation(self, x: Wave, here: Warpgroups, of: _Words, scale: list[bool], own: int) -> WarpgroupOp:
        """The instruction of all warpgroups; `own` are those of each CTA where all do the same."""
        words, ctas = of.each, here.ctas
        return WarpgroupOp(
            "wgmma",
            self.i,
            here.threads,
            reads=Lazily(len(ctas), lambda n: read_runs(self._operands(words[n]), ctas[n].shared)),
            registers=self.slots,
            sums=self.sums,
            named=self.named,
            scale_d=scale,
            own=own,
            alike=of.alike,
            alike_of_own=of.alike_of_own,
            follow=lambda taint, n: _Product(taint, self, ctas[n], here.firsts[n], self._operands(words[n]), x.pitch),
        )

    def _operands(self, words: tuple[int, ...]) -> tuple[SharedOperand, ...]:
        """B, and A if it is in shared memory, through their descriptors."""
        found = self._behind.get(words)
        if found is None:
            if len(self._behind) > MOST_WORDS:
                self._behind.clear()
            found = self._behind[words] = tuple(make(word) for make, word in zip((self.of.b, self.of.a), words, strict=False))
        return found


def _unfenced_registers(i: Instruction, by: Instruction) -> tuple[str, Guarded, str, str]:
    """What is wrong if an instruction has written registers of a wgmma after the last wgmma.fence, what ptxas does,
    why, and the fix.
    """
    fence = f"wgmma.fence.sync.aligned between {by.at} and"
    if by.op != "wgmma":
        what = "wgmma reads a register that was written after the last wgmma.fence"
        return what, UNFENCED, f"{UNFENCED.does} ({UNFENCED.told[0]})", f"{fence} the first wgmma.mma_async after it"
    if slots_in(by.operands[0]) & slots_in(i.operands[1]):  # a fence alone is worse: ptxas then adds no wait
        what = "wgmma reads A in a register that a wgmma has written after the last wgmma.fence"
        repair = f"{fence} {i.at}, after a wgmma.wait_group that waits for {by.at}"
        return what, UNFENCED_A, f"{UNFENCED_A.does} ({UNFENCED_A.told[0]})", repair
    if not lie_alike(i, by):
        what = "wgmma adds to some registers of another sum in other places, with no wgmma.fence between the two"
        return what, UNFENCED_PART, f"{UNFENCED_PART.does} ({UNFENCED_PART.told[0]})", f"{fence} {i.at}"
    what = f"wgmma of {shape_of(i)} adds to a sum of {shape_of(by)}, with no wgmma.fence between the two"
    why = f"no failure is known: {UNFENCED_SHAPE.does}. But the PTX ISA orders sums without a fence only for one shape"
    return what, UNFENCED_SHAPE, why, f"{fence} {i.at}"


MOST_WORDS = 1024  # descriptors of an instruction that are remembered
MOST_SELECTIONS = 64  # of warpgroups that execute together


class _Product(Product):
    """One warpgroup's instruction, for the sanitizer. `operands` are B, and A if it is in shared memory."""

    m = WGMMA_M

    def __init__(self, taint: Any, made: _Mma, cta: Cta, first: int, operands: Sequence[SharedOperand], pitch: int) -> None:
        super().__init__(taint, made.i)
        self.made, self.cta, self.operands, self.n = made, cta, operands, made.of.n
        self.first, self.pitch = first, pitch

    def twin(self, cta: Cta) -> _Product:
        return _Product(self.taint, self.made, cta, self.first - self.cta.first + cta.first, self.operands, self.pitch)

    @property
    def threads(self) -> np.ndarray:
        """The threads of its warpgroup."""
        return np.arange(self.first, self.first + WARPGROUP)

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        begin = self.pitch * self.cta.index // WORD
        b, *a = (begin + operand.words(self.cta.shared) for operand in self.operands)
        return a[0] if a else np.zeros((self.m, 0), np.int64), b

    def bytes(self) -> tuple[np.ndarray, np.ndarray]:
        b, *a = (operand.bytes_of_words(self.cta.shared) for operand in self.operands)
        return a[0] if a else np.zeros((self.m, 0), np.uint8), b

    def idle(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        types = [element_format(name) for name in (self.made.of.a_type, self.made.of.b_type)]
        if self.made.of.is_sparse or len(self.operands) < 2 or not any(fmt.has_numbers_alone for fmt in types):
            return None, None
        operands, parts = self.operands[::-1], zip(self.words(), self.bytes(), strict=True)
        zeros = [operand.zeros(self.cta.shared) & self.is_known(*part) for operand, part in zip(operands, parts, strict=True)]
        a, b = (other.all(axis=0) if fmt.has_numbers_alone else None for fmt, other in zip(types, zeros[::-1], strict=True))
        return a, b

    def rows_of_registers(self) -> np.ndarray | None:
        """The marks of A's rows that registers give it: its elements, if they are in registers, and its metadata."""
        origins, found = self.taint.origins, None
        marks = self.taint.of_registers(self.made.a_items, self.threads)
        if marks is not None:
            thread, register, _ = a_places(element_format(self.made.of.a_type).bits, self.made.of.stored_k)
            found = origins.all(marks[register, thread], axis=1)
        of_metadata = self.taint.of_registers(self.made.metadata_items, self.threads)
        if of_metadata is not None:
            rows = origins.all(of_metadata[0][self.made.of.metadata_places[0]], axis=1)
            found = rows if found is None else origins.join(found, rows)
        return found

    def marks(self) -> np.ndarray:
        marks = self.taint.of_registers(self.made.d, self.threads)
        of_elements = np.zeros((self.m, self.n), np.int32)
        if marks is not None:
            of_elements[d_places(self.n)] = np.repeat(marks, self.n // 2 // len(marks), axis=0).T
        return of_elements

    def is_unread(self, operation: Any) -> bool:
        return bool(operation.registers.are_held)

    def put(self, marks: np.ndarray) -> None:
        each = np.ascontiguousarray(marks[d_places(self.n)].T).reshape(len(self.made.d), -1, WARPGROUP)
        self.taint.put_registers(self.made.d, self.threads, self.taint.origins.all(each, axis=1))


def _name(i: Instruction, words: Modifiers, is_sparse: bool) -> tuple[int, tuple[str, str, str], WgmmaTypes]:
    """N, the types of A, B and D, and their row of spec, off the name."""
    shape = next((match for word in words.left if (match := _SHAPE.fullmatch(word))), None)
    if shape is None:
        raise unmodelled(i, "without a shape m64nNkK")
    words.need(shape[0])
    d_type, a_type, b_type = (words.left.pop(0) if words.left else "" for _ in range(3))
    if "b1" in (a_type, b_type):
        words.need("and")
        words.need("popc")
    words.end()
    row, n, k = types_of(a_type, b_type, d_type), int(shape[1]), int(shape[2])
    if n not in row.n or k != row.k * (1 + is_sparse):
        raise InputError(f".{shape[0]}: wgmma with {a_type} has no such shape (PTX ISA 9.1 §9.7.15.2)")
    return n, (a_type, b_type, d_type), row


def _number(i: Instruction, operands: Operands, what: str) -> int:
    operand = operands.next(what)
    if not isinstance(operand, Immediate):
        raise unmodelled(i, f"{what} is no immediate")
    return operand.value
