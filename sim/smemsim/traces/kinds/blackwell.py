"""What the comparisons of tcgen05 traces share: the instruction of a case, its outcome, the tags that probes leave in D."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.descriptors.instr import InstrDescriptor
from smemsim.errors import HardwareTrap, InputError, Unmodelled
from smemsim.machine.tcgen05_checks import check_instruction
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.spec.evidence import Rule
from smemsim.spec.formats import ElementFormat, element_format
from smemsim.spec.tensor_memory import COLUMNS
from smemsim.traces.format import Suite
from smemsim.traces.outcome import Outcome, agree

__all__ = [
    "SENTINEL",
    "UNTOUCHED",
    "Issued",
    "alone_or_pair",
    "cells_of_d",
    "fresh_tensor_memory",
    "judged",
    "put_in_cells",
    "same_zeros",
    "whose_number",
    "words_of",
]

LAUNCH_TIMEOUT = 702  # the status of a kernel that had to be ended
UNTOUCHED = -2  # a place in a cell that nothing wrote
SENTINEL = 0x7FE5A5A5  # the word that tensor memory held before: a NaN that no instruction makes
LANE_0 = TmemAddress()
CTA_ROWS = 128  # probes number the rows of an operand 128 * CTA + row of that CTA


def judged(status: int, completed: int, rule: Rule, call: Callable[[], Any]) -> tuple[Any, Outcome | None]:
    """Run the model on a case; an outcome when it is settled without data.

    An instruction that the model refuses agrees with any error: which one an illegal instruction gives is not part of the model. A wait that
    ran out (`completed` 0, or a kernel that had to be ended) is none: hardware may have run it and lost only its completion, so that the case is
    Unmodelled. What the model does not know stays Unmodelled too, and the sentences say what was recorded.
    """
    late = status == LAUNCH_TIMEOUT or not (status or completed)
    ended = "never completes it" if late else f"ends with CUDA error {status}" if status else ""
    try:
        result = call()
    except InputError as e:
        if late:
            raise Unmodelled(f"no such instruction: {e}; recorded: hardware never completes it, neither an error nor a result") from None
        if ended:
            return None, agree(1)
        return None, Outcome(1, 1, f"hardware runs it | model: no such instruction: {e}", (), rule, "outcome")
    except HardwareTrap as e:
        if status == e.cuda_error:
            return None, agree(1)
        return None, Outcome(1, 1, f"hardware {ended or 'runs it'} | model traps: {e}", (), rule, "outcome")
    except Unmodelled as e:
        raise Unmodelled(f"{e}; recorded: hardware {ended or 'runs it'}") from None
    if ended:
        return None, Outcome(1, 1, f"hardware {ended} | model runs it", (), rule, "outcome")
    return result, None


@dataclasses.dataclass(frozen=True)
class Issued:
    """The tcgen05.mma of a case. `form` is the kit's name of it: kind, block size if any, ss or ts, sp, ws, and one more qualifier."""

    arch: str
    idesc: InstrDescriptor
    dtype: str
    cta_group: int
    ws: bool
    form: tuple[str, ...] = ()

    @classmethod
    def of(cls, suite: Suite, index: int) -> Issued:
        """The instruction of a case that records kind, dtype, idesc, group and perhaps ws and form."""
        a = suite.arrays
        idesc = InstrDescriptor.decode(int(a["idesc"][index]), kind=str(a["kind"][index]))
        form = tuple(str(a["form"][index]).split(".")) if "form" in a else ()
        ws = bool(a["ws"][index]) if "ws" in a else False
        return cls(suite.arch, idesc, str(a["dtype"][index]).removesuffix("x2"), int(a["group"][index]), ws, form)

    def __str__(self) -> str:
        i = self.idesc
        name = f"tcgen05.mma{'.ws' if self.ws else ''}{'.sp' if i.sparsity else ''}.cta_group::{self.cta_group}.kind::{i.kind}"
        return f"{name}, {self.dtype}, {i.m} x {i.n} x {i.k}{f' ({self.tail})' if self.tail else ''}"

    @property
    def element(self) -> ElementFormat:
        """The type of A and B."""
        return element_format(self.dtype)

    @property
    def per_chunk(self) -> int:
        """Elements of 16 bytes of shared memory."""
        return self.element.elements_per_chunk(self.idesc.row.packing)

    @property
    def tail(self) -> str:
        """The qualifier that is neither in the kind nor in the operands: mask, zero, fill, scale3 ..."""
        last = self.form[-1] if self.form else ""
        return "" if last in (*_PLAIN, *self.form[:1], self.scale_vec) else last

    @property
    def scale_vec(self) -> str | None:
        """block16 or block32, as the form has it."""
        return next((part for part in self.form if part.startswith("block")), None)

    def check(self, a: int | TmemAddress = 0, b: int = 0, d: TmemAddress = LANE_0) -> None:
        """InputError with the first rule that the instruction breaks; `a` and `b` are its operands where their swizzle or lane matters."""
        factors, sparse = (LANE_0 if self.idesc.row.block_scaled else None), (LANE_0 if self.idesc.sparsity else None)
        check_instruction(
            self.idesc, self.arch, d, a, b, cta_group=self.cta_group, ws=self.ws, scale_vec=self.scale_vec, scale_a=factors, scale_b=factors,
            metadata=sparse,
        )  # fmt: skip

    def layout(self, *, lane: int = 0, column: int = 0) -> AccumulatorLayout:
        """Where D lies; InputError for a shape or a lane that there is not."""
        i = self.idesc
        return AccumulatorLayout(i.m, i.n, self.cta_group, ws=self.ws, sparse=i.sparsity, lane=lane, column=column)

    @property
    def kept_half(self) -> np.ndarray:
        """For every logical k 0 where metadata 0x4 keeps it, 1 where 0xE does."""
        group = {4: 8, 32: 2}.get(self.element.bits if self.idesc.row.packing == "packed" else 8, 4)
        return np.arange(self.idesc.k) % group // (group // 2)


_PLAIN = ("ss", "ts", "sp", "ws", None)


@functools.lru_cache(maxsize=64)
def cells_of_d(layout: AccumulatorLayout) -> tuple[np.ndarray, ...]:
    """(CTA, lane, column) of every element of D, (M, N) each."""
    m, n = np.meshgrid(np.arange(layout.m), np.arange(layout.n), indexing="ij")
    return layout.location(m, n)


def put_in_cells(layout: AccumulatorLayout, d: np.ndarray, into: np.ndarray) -> None:
    """Write D (..., M, N) to `into` (..., CTA, lane, column), columns counted from 0 of tensor memory on.

    Columns that were not copied out are left away.
    """
    cta, lane, column = cells_of_d(layout)
    seen = column < into.shape[-1]
    into[..., cta[seen], lane[seen], column[seen]] = d[..., seen]


def alone_or_pair(memories: list[Any]) -> Any:
    """One memory by itself, two as a pair: as the instructions take them."""
    return tuple(memories) if len(memories) > 1 else memories[0]


def words_of(numbers: np.ndarray, kind: str) -> np.ndarray:
    """The words of D that hold whole numbers: f32, of kind i8 s32."""
    return numbers.astype(np.int32 if kind == "i8" else np.float32).view(np.uint32)


def whose_number(rows: int, cta_group: int) -> np.ndarray:
    """The number of every row of an operand of `rows` rows: 128 * CTA + its row there."""
    each = rows // cta_group
    return np.arange(rows) // each * CTA_ROWS + np.arange(rows) % each


def same_zeros(words: np.ndarray, kind: str) -> np.ndarray:
    """The words with every -0.0 as +0.0: the sign of a zero is a question of other suites (tcgen05_dots_directed)."""
    return words if kind == "i8" else np.where(words == np.uint32(1 << 31), np.uint32(0), words)


def fresh_tensor_memory(arch: str, cta_group: int, words: np.ndarray | int = SENTINEL) -> TensorMemory:
    """A tensor memory, all of it allocated, that holds these words (128, 512)."""
    memory = TensorMemory(arch)
    memory.alloc(COLUMNS, cta_group=cta_group)
    memory.cells[:] = np.asarray(words, np.uint32)
    return memory
