"""`tcgen05.mma` (PTX ISA 9.7.16.10.9): a thread's matrix instruction on the memories of its CTA or of its pair, executed when it is issued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.arithmetic.multiply import row_of
from smemsim.errors import HardwareTrap
from smemsim.machine.tcgen05 import Issue, Touched, layout_of_a, layout_of_metadata, layouts_of_scales, scale_address, tcgen05_mma_many
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.layout import AccumulatorLayout, Copies, cells_of_a, cells_of_d, cells_of_metadata, cells_of_scales
from smemsim.program.asynchronous import check_alone, judge, record
from smemsim.program.events import Mma
from smemsim.program.modifiers import Modifiers, Operands
from smemsim.program.registry import Step, implements, unmodelled
from smemsim.program.tcgen05.allocation import cells_at, cta_group, group_of, refusals, tensor_of
from smemsim.program.watch.doubts import WORD, Product
from smemsim.ptx.module import Address, Immediate, Instruction, Vector
from smemsim.spec.evidence import RULES
from smemsim.spec.findings import Severity
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.tensor_memory import COLUMNS, LANES
from smemsim.words.instr import InstrDescriptor

if TYPE_CHECKING:
    from smemsim.program.linking.program import Linker
    from smemsim.program.registers import Read
    from smemsim.program.watch.clocks import Operation
    from smemsim.program.wave import Cta, Wave


_SCALE_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
_USES = ("fill", "use", "lastuse", "discard")


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
        if words.has("ashift"):
            raise unmodelled(i, ".ashift: in which direction the rows of A move, and what the last one becomes, is in no document")
        buffers = ("b0", "b1", "b2", "b3") if self.ws else ("a",)
        words.one_of(f"collector::{buffer}::{use}" for buffer in buffers for use in _USES)  # what is kept for later is what memory holds
        words.end()
        self.d = c.address(operands.next("D's address"))
        a = operands.next("A")
        self.in_tensor = isinstance(a, Address)
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

    def run(self, x: Wave) -> None:
        """Multiply, for every thread that is here: those of different CTAs together."""
        threads = x.threads
        reads = {"d": self.d, "a": self.a, "b": self.b, "idesc": self.idesc, **self.more}
        columns = {name: np.broadcast_to(np.asarray(read(x)), threads.shape).tolist() for name, read in reads.items()}
        lanes = list(zip(*(np.broadcast_to(read(x), threads.shape).tolist() for read in self.lanes), strict=True)) if self.lanes else []
        if len(threads) > 1:
            added = zip(threads.tolist(), columns["d"], columns["enable_input_d"], strict=True)
            same = ((thread, d) for thread, d, adds in added if adds)
            check_alone(x, self.i, same, f"{self.i.name} for the same D", "the product is added", "PTX ISA 9.7.16.10.9")
        waiting = list(range(len(threads)))
        while waiting:  # threads of one CTA, which an elect.sync should have made one, come after each other
            now: list[int] = []
            taken: set[int] = set()
            for n in waiting:
                mine = {member.index for member in group_of(x, self.i, x.ctas[int(x.cta_of[threads[n]])], self.group)}
                if not mine & taken and (not now or columns["idesc"][n] == columns["idesc"][now[0]]):
                    now.append(n)
                    taken |= mine
            waiting = [n for n in waiting if n not in now]
            self._issue(
                x, [(int(threads[n]), {name: column[n] for name, column in columns.items()}, lanes[n] if lanes else ()) for n in now]
            )
        x.changes += 1

    def _issue(self, x: Wave, given: list[tuple[int, dict[str, Any], tuple[int, ...]]]) -> None:
        issues, groups, idesc = [], [], given[0][1]["idesc"]
        with refusals(x, self.i):
            for thread, values, lanes in given:
                cta = x.ctas[int(x.cta_of[thread])]
                members = group_of(x, self.i, cta, self.group)
                words = {name: value for name, value in values.items() if name != "idesc"}
                if self.in_tensor:
                    words["a"] = TmemAddress.decode(words["a"], "a")
                tensor, shared = tuple(tensor_of(member) for member in members), tuple(member.shared for member in members)
                issues.append(Issue(tensor, shared, disable_output_lane=lanes, **words))
                groups.append(members)
            try:
                i, done = tcgen05_mma_many(issues, idesc, kind=self.kind, ws=self.ws, scale_vec=self.scale_vec)
            except HardwareTrap:  # what it was meant to read may say why
                for (thread, _, _), issue in zip(given, issues, strict=True):
                    judge(x, self._event(x, InstrDescriptor.decode(idesc, kind=self.kind), thread, idesc, issue, unwritten=False))
                raise
        for (thread, _, _), issue, members, touched in zip(given, issues, groups, done, strict=True):
            self._note(x, i, thread, idesc, issue, members, touched)

    def _note(
        self, x: Wave, i: InstrDescriptor, thread: int, idesc: int, issue: Issue, members: tuple[Cta, ...], touched: Touched
    ) -> None:  # fmt: skip
        """Tell the watch, the record and the evidence."""
        launch = x.launch
        if touched.unwritten and x.watch is None:
            launch.find(
                "R507", self.i, f"{self.i.name} reads bytes of shared memory that nobody has written",
                "check the descriptor, and that the load that fills the stage was issued",
            )  # fmt: skip
        if any(i.table.constants(i.word)):
            for found in i.problems():
                if found.code == "D305":
                    launch.find(
                        found.code,
                        self.i,
                        f"{self.i.name}, instruction descriptor {idesc:#010x}: {found.message}",
                        found.repair,
                        because=found.because,
                    )
        self._note_scale_ids(x, i, issue)
        launch.evidence |= evidence_of(i, touched)
        if x.watch is not None:
            self._tell(x, i, thread, issue, members, touched)
        record(x, self._event(x, i, thread, idesc, issue, unwritten=touched.unwritten))

    def _note_scale_ids(self, x: Wave, i: InstrDescriptor, issue: Issue) -> None:
        """Remark an address of scale factors that names another scale id than the instruction descriptor."""
        for side, taddr, number in (("A", issue.scale_a, i.a_sf_id), ("B", issue.scale_b, i.b_sf_id)):
            in_address = 0 if taddr is None else scale_address(side, taddr)[0]
            if in_address not in (0, number):
                rule = RULES["tcgen05.scale_address"]
                x.launch.find(
                    "S702", self.i, f"{self.i.name}: the address of {side}'s scale factors, {taddr:#x}, has scale id {in_address} in bits 31:30, and the "
                    f"instruction descriptor has {side.lower()}_sf_id = {number}, which is taken here",
                    f"make {side.lower()}_sf_id of these bits (CUTLASS make_runtime_instr_desc_block_scaled)", because=f"{rule.source} ({rule.grades[x.launch.arch]})",
                    milder=Severity.NOTE,
                )  # fmt: skip

    def _tell(self, x: Wave, i: InstrDescriptor, thread: int, issue: Issue, members: tuple[Cta, ...], touched: Touched) -> None:
        """Tell the watch what it read and wrote."""
        op = x.watch.tensor.begin(x, self.i, thread, "tcgen05.mma")
        product = _Product(x, self, i, issue, members, touched)
        op.products.append(product)
        for member in members:
            for operand in product.shared_operands():
                chunks = member.shared.operand_chunks(**operand)
                chunks = chunks[chunks < len(member.shared.bytes) // CHUNK]
                fmt = element_format(operand["dtype"])
                held = fmt.elements_per_chunk(i.row.packing) * fmt.bits // 8  # bytes; behind 16 elements of 4 or 6 bits is padding
                x.watch.op_reads(op, member, (CHUNK * chunks[:, None] + np.arange(0, held, 4)).ravel())
        is_doubtful = x.watch.tensor.reads(op, members, touched.reads)
        if is_doubtful or product.found or x.watch.tensor.marks is not None:
            product.finish(*product.of_tensor_memory(), goes_on=bool(issue.enable_input_d))
        x.watch.tensor.writes(op, members, touched.writes)

    def _event(self, x: Wave, i: InstrDescriptor, thread: int, idesc: int, issue: Issue, *, unwritten: bool) -> Mma:
        return Mma(
            x.ctas[int(x.cta_of[thread])].number, int(x.tid[thread]), self.i, self.kind, i.m, i.n, i.k,
            None if isinstance(issue.a, TmemAddress) else issue.a, issue.b, i.a_type, i.b_type, i.d_type, i.a_major, i.b_major,
            bool(issue.enable_input_d), (i.negate_a, i.negate_b), self.is_sparse, unwritten, idesc, self.group, issue.d,
        )  # fmt: skip


class _Product(Product):
    """What the watch asks about one instruction."""

    def __init__(self, x: Wave, made: _Mma, i: InstrDescriptor, issue: Issue, members: tuple[Cta, ...], touched: Touched) -> None:
        super().__init__(x.watch.unwritten, made.i)
        self.tensor, self.made, self.of, self.issue, self.members, self.touched = x.watch.tensor, made, i, issue, members, touched
        self.m, self.n, self.pitch = i.m, i.n, x.pitch

    def shared_operands(self) -> list[dict[str, Any]]:
        """B, and A where it is in shared memory, as each CTA of the group has it: the arguments of `SharedMemory.operand_chunks`."""
        i, issue, half = self.of, self.issue, len(self.members)
        found = [{"word": issue.b, "dtype": i.b_type, "major": i.b_major, "rows": i.n // half, "k": i.k, "packing": i.row.packing}]
        if not isinstance(issue.a, TmemAddress):
            k = i.k // 2 if self.made.is_sparse else i.k
            found.append({"word": issue.a, "dtype": i.a_type, "major": i.a_major, "rows": i.m // half, "k": k, "packing": i.row.packing})
        return found

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        b, *a = (
            np.concatenate([m.index * self.pitch // WORD + m.shared.operand_words(**operand) for m in self.members])
            for operand in self.shared_operands()
        )
        return a[0] if a else np.zeros((self.m, 0), np.int64), b

    def of_tensor_memory(self) -> tuple[np.ndarray, np.ndarray]:
        """The marks of the rows of A and of B that what lies in tensor memory gives them: A, scale factors, metadata."""
        i, issue, group = self.of, self.issue, len(self.members)
        rows, columns = np.zeros(self.m, np.int32), np.zeros(self.n, np.int32)
        if isinstance(issue.a, TmemAddress):
            rows = self._joined(rows, cells_of_a(layout_of_a(i, issue.a, group, ws=self.made.ws)))
        if i.row.block_scaled:
            of_a, of_b = layouts_of_scales(i, issue.scale_a, issue.scale_b, group, scale_vec=self.made.scale_vec)
            rows, columns = self._joined(rows, cells_of_scales(of_a)), self._joined(columns, cells_of_scales(of_b))
        if i.sparsity:
            rows = self._joined(rows, cells_of_metadata(layout_of_metadata(i, issue.metadata, group, ws=self.made.ws)))
        return rows, columns

    def _joined(self, marks: np.ndarray, copies: Copies) -> np.ndarray:
        """Marks of rows, with those of the cells that each row has in tensor memory."""
        doubts, ctas = self.unwritten.doubts, np.array([member.index for member in self.members])
        for cta, lane, column, _ in copies:
            of_cells = self.tensor.of_cells(self.i, cells_at(ctas[cta], lane, column))
            marks = doubts.join(marks, doubts.all(of_cells, axis=1))
        return marks

    def _cells(self) -> np.ndarray:
        """The cells of D (m, n), by their place among all."""
        i, at = self.of, TmemAddress.decode(self.issue.d, "d")
        layout = AccumulatorLayout(i.m, i.n, len(self.members), ws=self.made.ws, sparse=i.sparsity, lane=at.lane, column=at.column)
        parts = zip(self.members, cells_of_d(layout), strict=True)
        return np.concatenate([cells_at(member.index, lane, column) for member, (lane, column) in parts])

    def marks(self) -> np.ndarray:
        found: np.ndarray = self.tensor.of_cells(self.i, self._cells())
        return found

    def is_unread(self, operation: Operation) -> bool:
        return bool(self.tensor.is_product.reshape(-1)[self._cells()].all())

    def put(self, marks: np.ndarray) -> None:
        cells = self._cells()
        is_written = np.zeros(len(self.tensor.who) * LANES, bool)
        for cta, lanes, _, _ in self.touched.writes:
            is_written.reshape(-1, LANES)[self.members[cta].index, lanes] = True
        written = is_written[cells // COLUMNS]
        self.tensor.put_cells(cells[written], marks[written])


def evidence_of(i: InstrDescriptor, touched: Touched) -> set[str]:
    """What the results of an instruction rest on, in words."""
    row = row_of(i.kind, i.a_type, i.b_type, i.d_type)
    found = {
        f"tcgen05.mma.kind::{i.kind} ({i.a_type} x {i.b_type} to {i.d_type}, M = {i.m}): addresses and places {touched.grade}, arithmetic "
        f"{row.grade} ({row.source})"
    }
    return found | {f"sources disagree about {name!r}: see smemsim.DISPUTES" for name in touched.disputes}
