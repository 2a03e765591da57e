"""`tcgen05.mma` (PTX ISA 9.1 §9.7.16.10.9): a thread's matrix instruction on the memories of its CTA or of its pair,
executed when it is issued.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from smemsim.base.errors import HardwareTrap, InputError
from smemsim.core.arithmetic.multiply import row_of
from smemsim.core.finding import Finding
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.tcgen05 import (
    Issue,
    Prepared,
    Tcgen05Mma,
    Together,
    descriptor_of,
    execute,
    prepared,
    scale_address,
    scale_factors,
)
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.copy import tcgen05_shift
from smemsim.core.machine.tmem.layout import ATmemLayout, Copies, cells_of_a, cells_of_d, cells_of_metadata, cells_of_scales
from smemsim.core.machine.tmem.memory import TensorMemory
from smemsim.core.ptx.module import Address, Immediate, Instruction, Vector
from smemsim.core.spec.assumptions import in_force, remembered
from smemsim.core.spec.disputes import DISPUTE_QUESTIONS
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.tcgen05 import ASHIFT_M
from smemsim.core.spec.tensor_memory import COLUMNS, LANES
from smemsim.core.words.instr import InstrDescriptor
from smemsim.run.async_ops import Lazily, TensorCoreOp
from smemsim.run.engine.in_flight import defer
from smemsim.run.engine.records import Mma, Products
from smemsim.run.engine.traps import find_uninitialised
from smemsim.run.following import Product
from smemsim.run.isa.asynchronous import check_alone, issue, listed
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements, unmodelled
from smemsim.run.isa.tcgen05.allocation import cells_at, cta_group, group_of, refusals, tensor_of
from smemsim.run.slots import Slot
from smemsim.run.word_ranges import WORD, read_runs

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.isa.registers import Read
    from smemsim.run.lower.program import Linker


_SCALE_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
_USES = ("fill", "use", "lastuse", "discard")
BYTE = 8  # bits
MOST_WORDS = 1024  # of an instruction that are remembered


@implements("tcgen05.mma")
def build_mma(i: Instruction, c: Linker) -> Step:
    """`tcgen05.mma{.ws}{.sp}.cta_group.kind{.block_scale{.vector}}{.collector…} [d], a, b {, [metadata]}, idesc, …`."""
    return _Mma(i, c).run


class _Mma:
    """One tcgen05.mma of a program."""

    def __init__(self, i: Instruction, c: Linker) -> None:
        words, operands = Modifiers(i, "mma"), Operands(i)
        self.i = i
        self.ws, self.is_sparse, self.group = words.has("ws"), words.has("sp"), cta_group(words)
        self.kind = words.need(*(word for word in i.modifiers if word.startswith("kind::"))).removeprefix("kind::")
        self.is_scaled = words.has("block_scale")
        self.scale_vec = words.one_of(_SCALE_VECTORS).removeprefix("scale_vec::") or None
        self.shifts = words.has("ashift")
        buffers = ("b0", "b1", "b2", "b3") if self.ws else ("a",)
        # the operand is always read from memory; without a qualifier the buffer's content is discarded
        collects = words.one_of([f"collector::{buffer}::{use}" for buffer in buffers for use in _USES], f"::{buffers[0]}::discard")
        _, self.buffer, self.use = collects.split("::")
        words.end()
        self.d = c.address(operands.next("D's address"))
        a = operands.next("A")
        self.in_tensor = isinstance(a, Address)
        if self.shifts and (self.ws or not self.in_tensor):
            raise InputError(".ashift shifts the rows of A in tensor memory: needs A there, and no .ws")
        self.a = c.address(a) if self.in_tensor else c.read(a, "b64")
        self.b = c.read(operands.next("B's descriptor"), "b64")
        more: dict[str, Read] = {}
        if self.is_sparse:
            more["metadata"] = c.address(operands.next("the address of the metadata"))
        self.idesc = c.read(operands.next("an instruction descriptor"), "u32")
        if self.is_scaled:
            more["scale_a"], more["scale_b"] = (c.address(operands.next(f"the address of {side}'s scale factors")) for side in "AB")
        lanes = operands.left.pop(0) if operands.left and isinstance(operands.left[0], Vector) else None
        self.lanes = [c.read(word, "u32") for word in lanes.items] if isinstance(lanes, Vector) else []
        more["enable_input_d"] = c.read(operands.next("enable-input-d"), "pred")
        if operands.left and self.ws:
            more["zero_column_mask"] = c.read(operands.next("a zero-column mask"), "b64")
        elif operands.left:
            shift = operands.next("scale-input-d")
            if not isinstance(shift, Immediate):
                raise unmodelled(i, "scale-input-d is no immediate")
            more["scale_input_d"] = lambda x: np.int64(shift.value)
        operands.end()
        self.more = more
        self._batches: Slot[dict[Any, _Batch]] = Slot(lambda x: {})  # by the threads and the words of the operands
        self._made: dict[Any, Prepared] = {}  # by the words of the operands, and what is assumed

    def run(self, x: Wave) -> None:
        """Multiply, for every thread that is here, those of different CTAs together. The preparation for the same
        threads and words is kept: loops repeat it.
        """
        threads = x.threads
        reads = {"d": self.d, "a": self.a, "b": self.b, "idesc": self.idesc, **self.more}
        given = {name: np.asarray(read(x)) for name, read in reads.items()}
        if self.use != "discard" or _COLLECTED(x):
            self._collect(x, threads, listed(given["b" if self.ws else "a"], len(threads)))
        key = (threads.tobytes(), *(words.tobytes() for words in given.values()), in_force())
        kept = self._batches(x)
        if (batch := kept.get(key)) is not None:
            self._run_together(x, batch)
        else:
            alone = self._run_in_turn(x, threads, given)
            if alone is not None and not self.lanes:
                if len(kept) >= MOST_WORDS:
                    kept.clear()
                kept[key] = alone
        x.progress.changes += 1

    def _collect(self, x: Wave, threads: np.ndarray, words: list[int]) -> None:
        """Note which matrix a collector buffer holds, by its descriptor or address. A use of a buffer without a
        matrix, or with another one, is a remark.
        """
        kept = _COLLECTED(x)
        for thread, word in zip(threads.tolist(), words, strict=True):
            place = int(x.cta_of[thread]), self.buffer
            filled = kept.get(place)
            if self.use in ("use", "lastuse") and (filled is None or filled[0] != word):
                self._note_collector(x, None if filled is None else filled[1])
            if self.use == "fill":
                kept[place] = word, self.i
            elif self.use != "use":
                kept.pop(place, None)

    def _note_collector(self, x: Wave, filled: Instruction | None) -> None:
        side, name = ("B" if self.ws else "A"), f"collector::{self.buffer}"
        holds = (
            f"holds the {side} of {filled.at}, which is another one"
            if filled is not None
            else "holds no matrix: no .fill before it, or discarded"
        )
        x.launch.find(
            "X009", self.i, f".{name}::{self.use} reads {side} from a collector buffer that {holds}", f".{name}::fill for this {side}, or no qualifier",
            because="PTX ISA 9.1 §9.7.16.10.9", why=f"smemsim reads {side} from memory; hardware may take the content of the buffer", milder=Severity.LUCK,
        )  # fmt: skip

    def _run_in_turn(self, x: Wave, threads: np.ndarray, given: dict[str, np.ndarray]) -> _Batch | None:
        """Run the instructions of threads with these words; the batch, if there is one alone."""
        columns = {name: listed(words, len(threads)) for name, words in given.items()}
        each = list(zip(*columns.values(), strict=True))
        lanes = list(zip(*(listed(np.asarray(read(x)), len(threads)) for read in self.lanes), strict=True))
        with refusals(x, self.i):
            groups = [self._group(x, cta) for cta in x.ctas.those(x.cta_of[threads].tolist())]
        waiting = list(range(len(threads)))
        if len(set(groups)) < len(groups):
            added = zip(threads.tolist(), columns["d"], columns["enable_input_d"], strict=True)
            same = ((thread, d) for thread, d, adds in added if adds)
            check_alone(x, self.i, same, f"the same {self.i.name}", "the product is added", "PTX ISA 9.1 §9.7.16.10.9")
        while waiting:  # threads of one group, which an elect.sync should have made one, come after each other
            now = sorted({groups[n]: n for n in reversed(waiting)}.values())
            waiting = [n for n in waiting if n not in now]
            with refusals(x, self.i):
                mmas = [self._prepared(tuple(columns), each[n], lanes[n] if lanes else (), groups[n].tensor[0].arch) for n in now]
                batch = self._batch(x, threads[now], [groups[n] for n in now], mmas)
            self._run_together(x, batch)
        return batch if len(now) == len(threads) else None

    def _batch(self, x: Wave, threads: np.ndarray, groups: list[_Group], mmas: list[Prepared]) -> _Batch:
        """The instructions of threads. Those of a loop differ in the addresses of A and B alone: the preparation of a
        form is kept.
        """
        issues = Lazily(len(mmas), lambda n: groups[n].issue(mmas[n]))
        is_one = mmas.count(mmas[0]) == len(mmas)
        key = threads.tobytes(), self.group, mmas[0].form if is_one else None, in_force()
        kept = _ALIKE(x)
        if (like := kept.get(key)) is not None:
            return like._replace(mmas=mmas, issues=issues, together=like.together.again(issues))
        ctas, of_cta = [x.ctas[n].number for n in x.cta_of[threads].tolist()], x.tid[threads].tolist()
        are_alike = is_one and len(set(ctas)) == len(ctas) and len(set(of_cta)) == 1
        issuers = list(zip(ctas, of_cta, strict=True))
        made = _Batch(threads.tolist(), groups, issuers, mmas, issues, Together(issues), ctas if are_alike else ())
        if key[2] is not None:
            if len(kept) >= MOST_WORDS:
                kept.clear()
            kept[key] = made
        return made

    def _run_together(self, x: Wave, batch: _Batch) -> None:
        """Run the instructions of threads whose groups of CTAs are not the same."""
        count = len(batch.mmas)
        with refusals(x, self.i):
            try:
                if x.in_flight is None:
                    taint = batch.together.run()
                    for one in batch.issues if self.shifts else ():
                        self._shift(one)
                else:
                    taint = [False] * count
                    for one, group in zip(batch.issues, batch.groups, strict=True):
                        defer(x, functools.partial(self._late, x, one), stream=("tcgen05", group.members[0].index))
            except HardwareTrap:  # what it was meant to read may say why
                if x.events.multiplies:
                    meant = self._events(batch.issuers, batch.mmas, [False] * count, 0, count)
                    x.events.multiplies(x, self.i, Products.of(meant))
                raise
        issue(x, self._operation(x, batch))
        noted: dict[tuple[Prepared, bool], int] = {}  # what is to be noted of one is so of all that do the same
        for n, what in enumerate(zip(batch.mmas, taint, strict=True)):
            noted.setdefault(what, n)
        for (_, is_unwritten), n in noted.items():
            self._note(x, batch.issues[n], is_unwritten=is_unwritten)
        make = functools.partial(self._events, batch.issuers, batch.mmas, taint)  # keeps no CTA
        products = Products(count, make, batch.ctas if x.launch.has_cohorts and len(set(taint)) == 1 else ())
        tells = [*filter(None, (x.events.multiplied, x.events.multiplies))]
        if tells:
            is_one_form = len({mma.of.i.word for mma in batch.mmas}) == 1
            for some in (products,) if is_one_form else [Products.of([event]) for event in products.all]:
                for tell in tells:
                    tell(x, self.i, some)

    def _events(self, issuers: list[tuple[int, int]], mmas: list[Prepared], taint: list[bool], begin: int, end: int) -> list[Mma]:
        """The record of some instructions."""
        each = itertools.islice(zip(issuers, mmas, taint, strict=True), begin, end)
        return [Mma(cta, thread, self.i, *_recorded(mma, self.kind, is_unwritten=missing)) for (cta, thread), mma, missing in each]

    def _late(self, x: Wave, issue: Issue) -> None:
        with refusals(x, self.i):  # its columns may have been given back by now
            execute([issue])
            self._shift(issue)

    def _shift(self, issue: Issue) -> None:
        """`.ashift`: what is multiplied are the rows as they lay; then they are moved as tcgen05.shift moves them
        (rule tcgen05.ashift).
        """
        if self.shifts:
            if issue.mma.i.m not in ASHIFT_M:
                raise InputError(f"M = {issue.mma.i.m} with .ashift: needs M {' or '.join(map(str, ASHIFT_M))} (PTX ISA 9.1 §9.7.16.10)")
            tcgen05_shift(
                (issue.tensor[0], issue.tensor[1]) if self.group == 2 else issue.tensor[0],
                cast("int | TmemAddress", issue.mma.of.a),
                cta_group=self.group,
            )

    def _group(self, x: Wave, cta: Cta) -> _Group:
        """The group of CTAs whose memories an instruction of this CTA works on."""
        kept = _GROUPS(x)
        found = kept.get((cta.index, self.group))
        if found is None:
            members = group_of(x, self.i, cta, self.group)
            indices = np.array([member.index for member in members])
            found = kept[cta.index, self.group] = kept.setdefault(
                (members[0].index, self.group),
                _Group(
                    members,
                    tuple([tensor_of(member) for member in members]),
                    tuple([member.shared for member in members]),
                    None if x.checks is None else functools.partial(_are_unwritten, x, indices),
                ),
            )
        return found

    def _prepared(self, names: tuple[str, ...], words: tuple[Any, ...], lanes: tuple[int, ...], arch: str) -> Prepared:
        """The meaning of these words of the operands with these names."""
        key = words, lanes, in_force()
        if (made := self._made.get(key)) is None:
            if len(self._made) >= MOST_WORDS:
                self._made.clear()
            values: dict[str, Any] = dict(zip(names, words, strict=True))
            idesc = descriptor_of(values.pop("idesc"), self.kind)
            if self.in_tensor:
                values["a"] = TmemAddress.decode(values["a"], "a")
            given: dict[str, Any] = {"cta_group": self.group, "ws": self.ws, "scale_vec": self.scale_vec, "disable_output_lane": lanes}
            made = self._made[key] = prepared(Tcgen05Mma(idesc, arch, **given, **values))
        return made

    def _note(self, x: Wave, issue: Issue, *, is_unwritten: bool) -> None:
        """Note what is remarked, and what the results rest on."""
        launch, i = x.launch, issue.mma.i
        if is_unwritten and x.taint is None:
            find_uninitialised(x, self.i)
        for problem in _wrong_bits(i):
            message = f"instruction descriptor {i.word:#010x}: {problem.message}"
            launch.find(problem.code, self.i, message, problem.repair, because=problem.because)
        if overwritten := issue.mma.overwritten:
            self._note_overlap(x, *overwritten)
        if i.row.block_scaled:
            self._note_scale_ids(x, issue.mma.of)
        launch.result.evidence |= evidence_of(issue)

    def _note_overlap(self, x: Wave, operand: str, first: int, last: int) -> None:
        """D overlaps an operand of the same instruction."""
        columns = f"column {first}" if first == last else f"columns {first} to {last}"
        x.launch.find(
            "X012", self.i, f"D overlaps {operand} of the same instruction in {columns} of tensor memory", "put D in columns that no operand of the instruction uses",
            because="PTX ISA 9.1 §9.7.16.10", why="no document says whether the instruction reads all of its operands before it writes D",
        )  # fmt: skip

    def _note_scale_ids(self, x: Wave, of: Tcgen05Mma) -> None:
        """Remark an address of scale factors that names another scale id than the instruction descriptor."""
        for side, taddr, number in (("A", of.scale_a, of.i.a_sf_id), ("B", of.scale_b, of.i.b_sf_id)):
            in_address = 0 if taddr is None else scale_address(side, taddr)[0]
            if in_address not in (0, number):
                rule = RULES["tcgen05.scale_address"]
                x.launch.find(
                    "S702", self.i, f"two scale ids for {side}: {in_address} in bits 31:30 of the address {taddr:#x}, {number} in the instruction descriptor",
                    why=f"tcgen05.mma takes {side.lower()}_sf_id of the instruction descriptor", repair=
                    f"{side.lower()}_sf_id = {in_address} in the instruction descriptor, if the address is right (CUTLASS: make_runtime_instr_desc_block_scaled)", because=f"{rule.source} ({rule.on(x.launch.arch)})",
                    milder=Severity.NOTE,
                )  # fmt: skip

    def _operation(self, x: Wave, batch: _Batch) -> TensorCoreOp:
        """The operation that threads issue together, as observers get it."""
        mmas, members = batch.mmas, [group.members for group in batch.groups]
        return TensorCoreOp(
            "tcgen05.mma",
            self.i,
            [(its[0], thread) for its, thread in zip(members, batch.threads, strict=True)],
            reads=Lazily(len(mmas), lambda n: read_runs(mmas[n].shared_operands, members[n][0].shared)),
            members=members,
            follow=lambda taint, tensor, n: _Product(taint, tensor, self.i, mmas[n], members[n], x.pitch),
            mmas=mmas,
            shifts=self.shifts,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Group:
    """The CTAs whose memories one instruction works on, and these memories."""

    members: tuple[Cta, ...]
    tensor: tuple[TensorMemory, ...]
    shared: tuple[SharedMemory, ...]
    are_unwritten: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None

    def issue(self, mma: Prepared) -> Issue:
        """The instruction on these memories."""
        return Issue(mma, self.tensor, self.shared, self.are_unwritten)


# by the index of a CTA and a collector buffer: the descriptor or address that filled it, and by what instruction
_COLLECTED: Slot[dict[tuple[int, str], tuple[int, Instruction]]] = Slot(lambda x: {})
_GROUPS: Slot[dict[tuple[int, int], _Group]] = Slot(lambda x: {})  # by the index of a CTA, and `.cta_group`


def _are_unwritten(x: Wave, members: np.ndarray, cta: np.ndarray, lane: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Which cells of the CTAs of a group has no instruction written, or hold uninitialised bytes?"""
    cells, checks = cells_at(members[cta], lane, column), x.checks
    return np.zeros(cells.shape, bool) if checks is None else checks.are_unwritten(cells)


@remembered(1024)
def _recorded(mma: Prepared, kind: str, *, is_unwritten: bool) -> tuple[Any, ...]:
    """The record of an instruction, in the order of `Mma`, from its kind on."""
    of = mma.of
    i, a, b, d = of.i, cast("int | TmemAddress", of.a), cast("int", of.b), cast("int", of.d)
    return (
        kind, i.m, i.n, i.k, None if isinstance(a, TmemAddress) else a, b, i.a_type, i.b_type, i.d_type, i.a_major, i.b_major, bool(of.enable_input_d),
        (i.negate_a, i.negate_b), bool(i.sparsity), is_unwritten, i.word, of.cta_group, d, False, mma.scales, mma.metadata,
    )  # fmt: skip


@remembered(64)
def _wrong_bits(i: InstrDescriptor) -> tuple[Finding, ...]:
    """The remark on reserved bits that are set."""
    return tuple(problem for problem in i.problems() if problem.code == "D305") if any(i.table.constants(i.word)) else ()


class _Batch(NamedTuple):
    """Instructions of threads (their numbers in the wave) whose groups of CTAs are not the same. Their `issuers` are
    the CTA's number in the grid, and the thread's in the CTA.

    If one instruction is issued by the same thread of several CTAs, once by each, `ctas` has their numbers.
    """

    threads: list[int]
    groups: list[_Group]
    issuers: list[tuple[int, int]]
    mmas: list[Prepared]
    issues: Sequence[Issue]
    together: Together
    ctas: Sequence[int]


# what has been prepared by the threads, `.cta_group`, and the form of the instruction
_ALIKE: Slot[dict[tuple[bytes, int, Any, str], _Batch]] = Slot(lambda x: {})


class _Product(Product):
    """One instruction, for the sanitizer."""

    def __init__(self, taint: Any, tensor: Any, instruction: Instruction, mma: Prepared, members: tuple[Cta, ...], pitch: int) -> None:
        super().__init__(taint, instruction)
        self.tensor, self.mma, self.members = tensor, mma, members
        self.m, self.n, self.pitch = mma.i.m, mma.i.n, pitch

    def twin(self, cta: Cta) -> _Product:
        return _Product(self.taint, self.tensor, self.i, self.mma, (cta,), self.pitch)

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        b, *a = (
            np.concatenate([m.index * self.pitch // WORD + operand.words(m.shared) for m in self.members])
            for operand in self.mma.shared_operands
        )
        return a[0] if a else np.zeros((self.m, 0), np.int64), b

    def bytes(self) -> tuple[np.ndarray, np.ndarray]:
        b, *a = (np.concatenate([operand.bytes_of_words(m.shared) for m in self.members]) for operand in self.mma.shared_operands)
        return a[0] if a else np.zeros((self.m, 0), np.uint8), b

    def idle(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        mma, types = self.mma, [element_format(name) for name in (self.mma.i.a_type, self.mma.i.b_type)]
        if mma.metadata is not None or len(mma.shared_operands) < 2 or not any(fmt.has_numbers_alone for fmt in types):
            return None, None
        operands, parts = mma.shared_operands[::-1], zip(self.words(), self.bytes(), strict=True)
        zeros = [
            np.concatenate([operand.zeros(member.shared) for member in self.members]) & self.is_known(*part)
            for operand, part in zip(operands, parts, strict=True)
        ]
        a, b = (
            other.all(axis=0) | of_scales if fmt.has_numbers_alone else None
            for fmt, other, of_scales in zip(types, zeros[::-1], self._small_scales(), strict=True)
        )
        return a, b

    def _small_scales(self) -> tuple[np.ndarray, np.ndarray]:
        """The elements of A and of B whose scale factors are too small to have an effect."""
        scales = self.mma.scales
        if scales is not None:
            marks = [
                self._joined(np.zeros(rows, np.int32), cells_of_scales(layout), 1)
                for rows, layout in zip((self.m, self.n), scales, strict=True)
            ]
            if not any(of_rows.any() for of_rows in marks):
                members = self.members
                issue = Issue(self.mma, tuple([tensor_of(member) for member in members]), tuple([member.shared for member in members]))
                return scale_factors(issue).negligible()
        return np.array(False), np.array(False)

    def of_tensor_memory(self) -> tuple[np.ndarray, np.ndarray]:
        """The marks of the rows of A and of B that what lies in tensor memory gives them: A, scale
        factors, metadata.
        """
        mma, rows, columns = self.mma, np.zeros(self.m, np.int32), np.zeros(self.n, np.int32)
        if isinstance(mma.a, ATmemLayout):
            rows = self._joined(rows, cells_of_a(mma.a))
        if mma.scales is not None:
            of_a, of_b = mma.scales
            rows, columns = self._joined(rows, cells_of_scales(of_a), 1), self._joined(columns, cells_of_scales(of_b), 1)
        if mma.metadata is not None:
            rows = self._joined(rows, cells_of_metadata(mma.metadata), BYTE)
        return rows, columns

    def _joined(self, marks: np.ndarray, copies: Copies, unit: int = 0) -> np.ndarray:
        """Marks of rows, with those of the cells that each row has in tensor memory: of the whole cells, or of the byte
        at `unit` in its cell.
        """
        origins, ctas = self.taint.origins, np.array([member.index for member in self.members])
        for cta, lane, column, place in copies:
            cells = cells_at(ctas[cta], lane, column)
            if unit:
                byte = np.broadcast_to(place // unit, cells.shape)[..., None]
                own = np.take_along_axis(self.tensor.of_bytes(self.i, cells), byte, axis=-1)[..., 0]
            else:
                own = self.tensor.of_cells(self.i, cells)
            marks = origins.join(marks, origins.all(own, axis=1))
        return marks

    def _cells(self) -> np.ndarray:
        """The cells of D (m, n), by their place among all."""
        parts = zip(self.members, cells_of_d(self.mma.d), strict=True)
        return np.concatenate([cells_at(member.index, lane, column) for member, (lane, column) in parts])

    def marks(self) -> np.ndarray:
        found: np.ndarray = self.tensor.of_cells(self.i, self._cells())
        return found

    def is_unread(self, operation: Any) -> bool:
        return bool(self.tensor.are_unread_products(self._cells()))

    def put(self, marks: np.ndarray) -> None:
        cells = self._cells()
        is_written = np.zeros((1 + max(member.index for member in self.members)) * LANES, bool)
        for cta, lanes, _, _ in self.mma.writes:
            is_written.reshape(-1, LANES)[self.members[cta].index, lanes] = True
        written = is_written[cells // COLUMNS]
        self.tensor.put_cells(cells[written], marks[written])


def evidence_of(issue: Issue) -> frozenset[str]:
    """The evidence of the results of an instruction, in words."""
    first = issue.shared[0]
    return _evidence_of(issue.mma, len(issue.shared), (first.arch, first.begin, first.end))


def _question(dispute: str) -> str:
    """The question that documents answer in different ways."""
    return next(questions[dispute] for questions in DISPUTE_QUESTIONS.values() if dispute in questions)


@remembered(1024)
def _evidence_of(mma: Prepared, count: int, window: tuple[str, int, int]) -> frozenset[str]:
    arch, begin, end = window
    i, shared = mma.i, [SharedMemory(arch, size=end - begin)] * count
    row = row_of(i.kind, i.a_type, i.b_type, i.d_type)
    lines = {
        f"tcgen05.mma.kind::{i.kind} ({i.a_type} x {i.b_type} to {i.d_type}, M = {i.m}): addresses and places {mma.grade(shared)}, arithmetic "
        f"{row.grade} ({row.source})"
    }
    return frozenset(lines) | {
        f"documents contradict each other: {_question(name)} (smemsim.DISPUTES has both answers)" for name in mma.disputes
    }
