"""`wgmma` (PTX ISA 9.7.15): a warpgroup's matrix instruction, executed when it is issued, and what orders it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.errors import HardwareTrap, InputError, Unmodelled
from smemsim.machine.wgmma import a_places, check_immediates, d_places, types_of, wgmma, wgmma_many, wgmma_registers
from smemsim.program.asynchronous import judge, stops
from smemsim.program.events import Mma
from smemsim.program.linking.inline import slots_of
from smemsim.program.matrix.ldmatrix import items
from smemsim.program.modifiers import Modifiers, Operands
from smemsim.program.registry import Gate, Step, implements, unmodelled
from smemsim.program.watch.doubts import WORD, Product
from smemsim.program.wave import WARPGROUP
from smemsim.ptx.module import Immediate, Instruction, Operand, Register, Vector
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.traps import ILLEGAL_INSTRUCTION
from smemsim.spec.wgmma import A_REGISTERS, WGMMA_M

if TYPE_CHECKING:
    from smemsim.program.linking.program import Linker
    from smemsim.program.watch.clocks import Operation
    from smemsim.program.wave import Cta, Wave


_SHAPE = re.compile(r"m64n(\d+)k(\d+)")


def _together(i: Instruction, x: Wave) -> bool:
    """Go on with whole warpgroups; X011 for what cannot become one."""
    if not x.gather(WARPGROUP):
        return False
    threads = x.threads
    first = threads[::WARPGROUP]
    whole = (
        len(threads) % WARPGROUP == 0
        and not (x.tid[first] % WARPGROUP).any()
        and (threads[WARPGROUP - 1 :: WARPGROUP] - first == WARPGROUP - 1).all()
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
        for thread in x.threads[::WARPGROUP].tolist():
            x.ctas[int(x.cta_of[thread])].state["wgmma.fence", thread] = True

    return Gate(lambda x: _together(i, x), run)


@implements("wgmma.commit_group")
def build_commit(i: Instruction, c: Linker) -> Step:
    """`wgmma.commit_group.sync.aligned`."""
    Modifiers(i, "commit_group", "sync", "aligned").end()

    def run(x: Wave) -> None:
        if x.watch is not None:
            x.watch.commit(x, i, "wgmma")

    return Gate(lambda x: _together(i, x), run)


@implements("wgmma.wait_group")
def build_wait(i: Instruction, c: Linker) -> Step:
    """`wgmma.wait_group.sync.aligned N`: nobody waits, everything is done when it is issued."""
    Modifiers(i, "wait_group", "sync", "aligned").end()
    left = i.operands[0]
    if not isinstance(left, Immediate):
        raise unmodelled(i, "the number of groups is no immediate")
    count = left.value

    def run(x: Wave) -> None:
        if x.watch is not None:
            x.watch.wait(x, i, "wgmma", count)

    return Gate(lambda x: _together(i, x), run)


@implements("wgmma.mma_async")
def build_mma(i: Instruction, c: Linker) -> Step:
    """`wgmma.mma_async{.sp}.sync.aligned.m64nNkK{.satfinite}.D.A.B{.and.popc} d, a, b {, metadata, selector}, scale-d {, scale-a, scale-b {, trans-a, trans-b}}`."""
    return Gate(lambda x: _together(i, x), _Mma(i, c).run)


class _Mma:
    """One wgmma.mma_async of a program."""

    def __init__(self, i: Instruction, c: Linker) -> None:
        words, operands = Modifiers(i, "mma_async", "sync", "aligned"), Operands(i)
        self.i, self.is_sparse, satfinite = i, words.has("sp"), words.has("satfinite")
        shape = next((found for word in words.left if (found := _SHAPE.fullmatch(word))), None)
        if shape is None:
            raise unmodelled(i, "without a shape m64nNkK")
        words.need(shape[0])
        d_type, a_type, b_type = (words.left.pop(0) if words.left else "" for _ in range(3))
        if "b1" in (a_type, b_type):
            words.need("and")
            words.need("popc")
        words.end()
        row = types_of(a_type, b_type, d_type)
        self.n, self.k = int(shape[1]), int(shape[2])
        if self.n not in row.n or self.k != row.k * (1 + self.is_sparse):
            raise InputError(f".{shape[0]}: wgmma with {a_type} has no such shape (PTX ISA 9.7.15.2)")
        d = items(operands.next("D"), self.n // 4 if d_type == "f16" else self.n // 2, "D")
        self.first_slot = d[0].slot if isinstance(d[0], Register) else 0
        a = operands.next("A")
        self.in_registers = isinstance(a, Vector)
        a_parts = items(a, A_REGISTERS, "A") if self.in_registers else (a,)
        self.read_a = [c.read(part, "b32" if self.in_registers else "b64") for part in a_parts]
        self.read_b = c.read(operands.next("B"), "b64")
        self.metadata, selector = None, 0
        if self.is_sparse:
            self.metadata = c.read(operands.next("metadata"), "b32")
            selector = _number(i, operands, "sp-sel")
        self.scale_d = c.read(operands.next("scale-d"), "pred")
        signs = [_number(i, operands, "imm-scale") for _ in range(2)] if row.signs else [1, 1]
        majors = ["K", "K"]
        if row.transposes:
            for side in (1,) if self.in_registers else (0, 1):
                majors[side] = "MN" if _number(i, operands, "imm-trans") else "K"
        operands.end()
        check_immediates(row, majors[0], majors[1], signs[0], signs[1], satfinite, self.is_sparse, selector, self.in_registers)
        self.d, self.a_items = d, a_parts if self.in_registers else ()
        self.read_d, self.write_d = [c.read(x, "b32") for x in d], [c.write(x, "b32") for x in d]
        self.types: dict[str, Any] = {"a_type": a_type, "b_type": b_type, "d_type": d_type, "a_major": majors[0], "b_major": majors[1]}
        self.selector, self.signs, self.satfinite = selector, signs, satfinite
        self.negate = (signs[0] < 0, signs[1] < 0)
        self.stored = row.k
        self.sums = frozenset(slot for part in d for slot in slots_of(_naming(i, part)))
        self.slots = self.sums | {slot for part in (a_parts if self.in_registers else ()) for slot in slots_of(_naming(i, part))}

    def run(self, x: Wave) -> None:
        """Multiply, for every warpgroup that is here."""
        threads = x.threads
        firsts = threads[::WARPGROUP].tolist()
        ctas = [x.ctas[int(x.cta_of[first])] for first in firsts]
        d = np.stack([np.broadcast_to(read(x), len(threads)) for read in self.read_d]).reshape(len(self.read_d), -1, WARPGROUP)
        b = self._uniform(x, self.read_b, "B's descriptor")
        scale = [bool(value) for value in self._uniform(x, self.scale_d, "scale-d")]
        if self.in_registers:
            a: Any = np.stack([np.broadcast_to(read(x), len(threads)) for read in self.read_a]).reshape(A_REGISTERS, -1, WARPGROUP)
        else:
            a = self._uniform(x, self.read_a[0], "A's descriptor")
        given: dict[str, Any] = {"n": self.n, **self.types, "satfinite": self.satfinite}
        events = [self._event(x, cta, first, a, b, scale, g) for g, (cta, first) in enumerate(zip(ctas, firsts, strict=True))]
        for event in events:
            judge(x, event)  # before it is executed: it may be what ends the kernel
        with stops(x, self.i, lambda trap: ("A107", "check the descriptor's start address, LBO and SBO, and shared_bytes of the launch")):
            if not self.is_sparse:
                out, unwritten = wgmma_many([cta.shared for cta in ctas], a, b, d, scale_d=scale, negate=self.negate, **given)
                for event, missing in zip(events, unwritten.tolist(), strict=True):
                    self._done(x, event, missing, None)
            else:
                out = np.empty_like(d)
                for g, (cta, event) in enumerate(zip(ctas, events, strict=True)):
                    out[:, g] = self._one(
                        x, cta, event, np.ascontiguousarray(a[:, g].T) if self.in_registers else a[g], b[g], d[:, g], scale[g], g
                    )
        if x.watch is not None:
            self._tell(x, ctas, firsts, a, b, scale)
        for n, write in enumerate(self.write_d):
            write(x, out[n].reshape(-1))

    def _one(self, x: Wave, cta: Cta, event: Mma, a: Any, b: int, d: np.ndarray, scale: bool, group: int) -> np.ndarray:
        """One warpgroup's instruction with all that is known of its operands."""
        more: dict[str, Any] = {"imm_scale_a": self.signs[0], "imm_scale_b": self.signs[1], "satfinite": self.satfinite}
        if self.metadata is not None:
            of_all = np.broadcast_to(self.metadata(x), x.n).reshape(-1, WARPGROUP)
            more |= {"metadata": np.ascontiguousarray(of_all[group]), "sparsity_selector": self.selector}
        result = wgmma(cta.shared, a, b, n=self.n, d=np.ascontiguousarray(d.T), scale_d=scale, **self.types, **more)
        self._done(x, event, bool(result.unwritten), result)
        return wgmma_registers(result).T

    def _done(self, x: Wave, event: Mma, missing: bool, result: Any) -> None:
        if missing:
            event = dataclasses.replace(event, unwritten=True)
        if missing and x.watch is None:
            x.launch.find("R507", self.i, f"{self.i.name} reads bytes of shared memory that nobody has written", "check the descriptor, and that the load that fills the stage was issued")  # fmt: skip
        x.launch.events.append(event)

    def _event(self, x: Wave, cta: Cta, first: int, a: Any, b: list[int], scale: list[bool], g: int) -> Mma:
        """What is recorded of one warpgroup's instruction; X014 where it is the first and no fence came before it."""
        if ("wgmma.fence", first) not in cta.state:
            message = "no wgmma.fence was executed before the first wgmma.mma_async: it may read registers before what was written to them is there"
            x.launch.find("X014", self.i, message, "wgmma.fence.sync.aligned before the first wgmma.mma_async")
        t = self.types
        return Mma(
            cta.number, int(x.tid[first]), self.i, "wgmma", WGMMA_M, self.n, self.k, None if self.in_registers else a[g], b[g],
            t["a_type"], t["b_type"], t["d_type"], t["a_major"], t["b_major"], scale[g], self.negate, self.is_sparse, d=self.first_slot,
        )  # fmt: skip

    def _uniform(self, x: Wave, read: Any, what: str) -> list[int]:
        """The value that all threads of a warpgroup have of an operand, for each warpgroup."""
        values = np.broadcast_to(np.asarray(read(x)), x.n).reshape(-1, WARPGROUP)
        if (values != values[:, :1]).any():
            raise Unmodelled(f"{self.i.name}: {what} is not the same in all threads of the warpgroup, as the PTX ISA wants it (9.7.15.5.2)")
        return values[:, 0].tolist()  # type: ignore[no-any-return]

    def _tell(self, x: Wave, ctas: Sequence[Cta], firsts: list[int], a: Any, b: list[int], scale: list[bool]) -> None:
        """Tell the watch what was read."""
        t, columns = self.types, self.k
        for g, (cta, first) in enumerate(zip(ctas, firsts, strict=True)):
            op = x.watch.begin(x, self.i, first, "wgmma")
            product = _Product(x, self, cta, first, None if self.in_registers else a[g], b[g])
            op.products.append(product)
            read = [cta.shared.operand_chunks(b[g], dtype=t["b_type"], major=t["b_major"], rows=self.n, k=columns)]
            if not self.in_registers:
                read.append(cta.shared.operand_chunks(a[g], dtype=t["a_type"], major=t["a_major"], rows=WGMMA_M, k=self.stored))
            inside = np.concatenate(read)
            inside = inside[inside < len(cta.shared.bytes) // CHUNK]
            x.watch.op_reads(op, cta, (CHUNK * inside[:, None] + np.arange(0, CHUNK, 4)).ravel())
            if product.found or x.watch.unwritten.slots:
                product.finish(product.rows_of_registers(), None, goes_on=scale[g])
            x.watch.sums(op, self.sums, goes_on=scale[g])
            x.watch.op_registers(op, self.slots, results=self.sums)
            x.watch.joins(op, first, "wgmma")


class _Product(Product):
    """What the watch asks about one warpgroup's instruction."""

    m = WGMMA_M

    def __init__(self, x: Wave, made: _Mma, cta: Cta, first: int, a: int | None, b: int) -> None:
        super().__init__(x.watch.unwritten, made.i)
        self.made, self.cta, self.a, self.b, self.n = made, cta, a, b, made.n
        self.threads, self.pitch = np.arange(first, first + WARPGROUP), x.pitch

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        made, shared = self.made, self.cta.shared
        begin = self.pitch * self.cta.index // WORD
        a = np.zeros((self.m, 0), np.int64)
        if self.a is not None:
            a = begin + shared.operand_words(self.a, dtype=made.types["a_type"], major=made.types["a_major"], rows=self.m, k=made.stored)
        return a, begin + shared.operand_words(self.b, dtype=made.types["b_type"], major=made.types["b_major"], rows=self.n, k=made.k)

    def rows_of_registers(self) -> np.ndarray | None:
        """The marks of A's rows, where it is in registers."""
        marks = self.unwritten.of_registers(self.made.a_items, self.threads)
        if marks is None:
            return None
        thread, register, _ = a_places(element_format(self.made.types["a_type"]).bits, self.made.stored)
        return self.unwritten.doubts.all(marks[register, thread], axis=1)

    def marks(self) -> np.ndarray:
        marks = self.unwritten.of_registers(self.made.d, self.threads)
        found = np.zeros((self.m, self.n), np.int32)
        if marks is not None:
            found[d_places(self.n)] = np.repeat(marks, self.n // 2 // len(marks), axis=0).T
        return found

    def is_unread(self, operation: Operation) -> bool:
        return operation.holds_registers

    def put(self, marks: np.ndarray) -> None:
        each = np.ascontiguousarray(marks[d_places(self.n)].T).reshape(len(self.made.d), -1, WARPGROUP)
        self.unwritten.put_registers(self.made.d, self.threads, self.unwritten.doubts.all(each, axis=1))


def _number(i: Instruction, operands: Operands, what: str) -> int:
    operand = operands.next(what)
    if not isinstance(operand, Immediate):
        raise unmodelled(i, f"{what} is no immediate")
    return operand.value


def _naming(i: Instruction, operand: Operand) -> Any:
    """An instruction that names nothing but this operand."""
    return dataclasses.replace(i, operands=(operand,), guard=None)
