"""`tcgen05.cp` and `tcgen05.shift` (PTX ISA 9.1 §9.7.16.9): from shared into tensor memory, and one lane further
inside it, executed in the order of their CTA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.copy import copied_cells, copied_operand, copy_shape, copy_unowned, tcgen05_cp, tcgen05_shift
from smemsim.core.machine.tmem.layout import lane_set
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.tensor_memory import COPY_SHAPES, DECOMPRESSIONS, LANES, SHIFT, CopyShape
from smemsim.run.async_ops import Lazily, TensorCoreOp
from smemsim.run.engine.in_flight import defer
from smemsim.run.engine.records import Copy
from smemsim.run.engine.traps import find_uninitialised
from smemsim.run.following import WHOLE, Follows
from smemsim.run.isa.asynchronous import each_issuer, issue
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements
from smemsim.run.isa.tcgen05.allocation import cells_at, cta_group, group_of, refusals, tensor_of
from smemsim.run.word_ranges import WORD, read_runs

if TYPE_CHECKING:
    from smemsim.core.machine.tmem.memory import TmemCopy
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.following import Tell
    from smemsim.run.lower.program import Linker


def _of_group(memories: Iterable[Any]) -> Any:
    """The memory of a CTA, or those of its pair."""
    found = tuple(memories)
    return found if len(found) == 2 else found[0]


class _Copied(Follows):
    """The rows that a CTA copies, for the sanitizer: the marks of words go to their cells."""

    def __init__(
        self, taint: Any, tensor: Any, x: Wave, i: Instruction, cta: Cta, word: int, shape: CopyShape, cells: tuple[np.ndarray, np.ndarray], *, is_packed: bool
    ) -> None:  # fmt: skip
        super().__init__(taint, i)
        self.tensor, self.cta, self.word, self.shape, self.cells, self.is_packed = tensor, cta, word, shape, cells, is_packed
        self.first = cta.index * x.pitch // WORD
        # marks, the words that have them, and the bits of their bytes
        self.found: list[tuple[int, np.ndarray, np.ndarray]] = []

    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        is_whole = len(distinct(places)) * WORD >= self.shape.rows * self.shape.row_bytes
        mark = self.taint.origins.of((code, self.i.site, places.tobytes()), tell, is_whole=is_whole)
        self.found.append((mark, places, np.full(len(places), WHOLE, np.uint8)))

    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        if nobody.any():
            blank = at[nobody]
            self.found.append((self.taint.nobody(self.i, is_whole=bool(nobody.all())), blank, self.taint.blank(blank)))
        if self.taint.shared is not None and (marks := self.taint.shared.marks[at]).any():
            for mark in distinct(marks[marks != 0]).tolist():
                bits = np.packbits(marks == mark, axis=-1, bitorder="little")[..., 0]
                self.found.append((mark, at[bits != 0], bits[bits != 0]))

    def finish(self) -> None:
        """Called when the cells are written: they get the marks of the bytes."""
        words = self.first + copied_operand(self.shape, self.word).words(self.cta.shared)[:, ::WORD]
        marks, there = np.zeros((*words.shape, WORD), np.int32), np.zeros(self.taint.words + 1, np.uint8)
        for mark, places, bits in self.found:
            there[:] = 0
            np.bitwise_or.at(there, places, bits)
            is_marked = there[words][..., None] >> np.arange(WORD, dtype=np.uint8) & 1
            marks = self.taint.origins.join(marks, np.where(is_marked != 0, np.int32(mark), np.int32(0)))
        if self.is_packed:  # 16 elements of a chunk come from fewer words than they go to
            of_chunks = self.taint.origins.all(marks.reshape(len(marks), -1, CHUNK), axis=2)
            marks = of_chunks.repeat(CHUNK // WORD, axis=1)[..., None]
        lane, column = self.cells
        self.tensor.put_parts(cells_at(self.cta.index, lane, column), np.broadcast_to(marks[:, None], (*column.shape, marks.shape[-1])))


@implements("tcgen05.cp")
def build_cp(i: Instruction, c: Linker) -> Step:
    """`tcgen05.cp.cta_group.SHAPE{.MULTICAST}{.b8x16.SOURCE} [taddr], descriptor`."""
    words, operands = Modifiers(i, "cp"), Operands(i)
    group = cta_group(words)
    name = words.need(*dict.fromkeys(row.name for row in COPY_SHAPES.values()))
    multicast = words.one_of(dict.fromkeys(row.multicast for row in COPY_SHAPES.values() if row.multicast))
    src_fmt = words.need(*DECOMPRESSIONS) if words.has("b8x16") else ""
    words.end()
    shape, form = copy_shape(name, multicast), ".".join(filter(None, ("tcgen05.cp", name, multicast, src_fmt)))
    to, descriptor = c.address(operands.next("an address in tensor memory")), c.read(operands.next("a descriptor"), "b64")
    operands.end()

    def run(x: Wave) -> None:
        for (cta, thread), (at, word) in each_issuer(x, [to, descriptor]):
            members = group_of(x, i, cta, group)
            given: dict[str, Any] = {"shape": name, "multicast": multicast, "src_fmt": src_fmt, "cta_group": group}
            tensor, shared = _of_group(tensor_of(m) for m in members), _of_group(m.shared for m in members)
            plain = functools.partial(copy_unowned, tensor, at, word, shared=shared, **given)
            copy = functools.partial(_copy, x, i, form, plain, functools.partial(tcgen05_cp, tensor, at, word, shared=shared, **given))
            defer(x, copy, stream=("tcgen05", members[0].index))
            op = _operation(x, i, (cta, thread), members, shape, word, copied_cells(shape, TmemAddress.decode(at)), is_packed=bool(src_fmt))
            op.records = [Copy(cta.number, int(x.tid[thread]), i, name, multicast, word, at, group, bool(src_fmt))]
            issue(x, op)
        x.progress.changes += 1

    return run


def _operation(
    x: Wave, i: Instruction, issuer: tuple[Cta, int], members: tuple[Cta, ...], shape: CopyShape, word: int, cells: tuple[np.ndarray, np.ndarray],
    *, is_packed: bool,
) -> TensorCoreOp:  # fmt: skip
    """A copy as observers get it."""
    lane, column = cells
    box, operand = (lane_set(lane), int(column.min()), int(column.max()) + 1), copied_operand(shape, word)
    return TensorCoreOp(
        "tcgen05.cp",
        i,
        [issuer],
        reads=Lazily(len(members), lambda n: read_runs((operand,), members[n].shared)),
        members=[members],
        boxes_written=tuple((n, *box) for n in range(len(members))),
        follow=lambda taint, tensor, n: _Copied(taint, tensor, x, i, members[n], word, shape, cells, is_packed=is_packed),
    )


def _copy(x: Wave, i: Instruction, form: str, plain: Callable[[], Grade | None], whole: Callable[[], tuple[TmemCopy, ...]]) -> None:
    with refusals(x, i):
        grade = plain()
        copies = whole() if grade is None else ()
    if x.taint is None and any((copy.writer < 0).any() for copy in copies):
        find_uninitialised(x, i)
    x.launch.result.evidence.add(f"{form}: addresses and places {copies[0].grade if copies else grade}")


def _shift(x: Wave, i: Instruction, tensor: Any, at: int, group: int) -> None:
    with refusals(x, i):
        tcgen05_shift(tensor, at, cta_group=group)


@implements("tcgen05.shift")
def build_shift(i: Instruction, c: Linker) -> Step:
    """`tcgen05.shift.cta_group.down [taddr]`."""
    words, operands = Modifiers(i, "shift", "down"), Operands(i)
    group = cta_group(words)
    words.end()
    to = c.address(operands.next("an address in tensor memory"))
    operands.end()

    def run(x: Wave) -> None:
        for (cta, thread), (at,) in each_issuer(x, [to]):
            members = group_of(x, i, cta, group)
            tensor = _of_group(tensor_of(m) for m in members)
            defer(x, functools.partial(_shift, x, i, tensor, at, group), stream=("tcgen05", members[0].index))
            x.launch.result.evidence.add(f"tcgen05.shift: inferred ({SHIFT.source})")
            column = TmemAddress.decode(at).column
            boxes = tuple((n, slice(0, LANES), column, column + SHIFT.columns) for n in range(len(members)))
            given: dict[str, Any] = {"boxes_read": boxes, "boxes_written": boxes, "members": [members]}
            issue(x, TensorCoreOp("tcgen05.shift", i, [(cta, thread)], **given))
        x.progress.changes += 1

    return run
