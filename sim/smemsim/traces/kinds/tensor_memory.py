"""Where D lies in tensor memory, and what the probes of tcgen05.mma have in common whose cells are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import Unmodelled
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaResult
from smemsim.machine.tcgen05 import tcgen05_mma
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.spec.evidence import RULES, Rule
from smemsim.spec.tensor_memory import COLUMNS, LANES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.blackwell import (
    SENTINEL,
    Issued,
    alone_or_pair,
    cells_of_d,
    fresh_tensor_memory,
    judged,
    put_in_cells,
    same_zeros,
    whose_number,
    words_of,
)
from smemsim.traces.outcome import Case, Outcome, differ

__all__ = ["PROBE_COLUMNS", "TmemLayout", "TmemProbe", "compare_cells", "number_of"]

_OUTCOME = {"status": 1, "completed": 1, "columns": 1, "words_start": 1}
_COLUMNS = {"what": 1, "form": 1, "kind": 1, "dtype": 1, "m": 1, "n": 1, "group": 1, "ws": 1, "sparse": 1, "idesc": 1, **_OUTCOME}
PROBE_COLUMNS = {**_COLUMNS, "d": 1, "a": 1, "meta": 1, "scale_a": 1, "scale_b": 1, "passes": 1}
BACKGROUND = 256  # columns in which D held lane + 128 * column


class TmemProbe:
    """One suite of probes whose words of D are kept."""

    columns = PROBE_COLUMNS

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def compare(
        self,
        index: int,
        issued: Issued,
        model: Callable[[], tuple[AccumulatorLayout, np.ndarray]],
        rule: Rule,
        names: Any,
        last: Rule | None = None,
    ) -> Case:
        """Compare what `model` gives, words of D (pass, M, N) and its layout, with all cells; `names` says what the numbers are.

        `last` is the rule of the last pass where it is another one.
        """
        a = self.suite.arrays

        def title() -> str:
            return f"{issued}{f', {text}' if (text := str(a['what'][index])) else ''}"

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        layout, words = found
        cells = self.before(index, len(words), issued)
        put_in_cells(layout, words, cells)
        hardware = self.suite.ragged("words", index).reshape(cells.shape)
        hardware, cells = (same_zeros(x, issued.idesc.kind) for x in (hardware, cells))
        return Case(title, compare_cells(layout, hardware, cells, rule, names, last))

    def before(self, index: int, passes: int, issued: Issued) -> np.ndarray:
        """The cells that were copied out, as they were before: (pass, CTA, lane, column)."""
        columns = int(self.suite.arrays["columns"][index])
        return np.full((passes, issued.cta_group, LANES, columns), SENTINEL, np.uint32)

    def shown(self, index: int, layout: AccumulatorLayout, passes: int) -> np.ndarray:
        """Hardware's words (pass, M, N) of D."""
        cta, lane, column = cells_of_d(layout)
        words = self.suite.ragged("words", index).reshape(passes, layout.cta_group, LANES, -1)
        return np.asarray(words[:, cta, lane, column])


def compare_cells(
    layout: AccumulatorLayout, hardware: np.ndarray, model: np.ndarray, rule: Rule, names: Any, last: Rule | None = None
) -> Outcome:
    """Words (pass, CTA, lane, column): first which cells were written at all, then the words. `last`: the rule if only the last pass differs."""
    columns = hardware.shape[-1]

    def describe(at: tuple[int, ...]) -> str:
        step, cta, lane, column = at
        m, n = (int(x[0]) for x in layout.element(np.array([cta]), np.array([lane]), np.array([column])))
        inside = f"D[{m}, {n}]" if m >= 0 else f"no element of layout {layout.name}"
        said = [names(step, int(x[at]), m, n) if x[at] != SENTINEL else "untouched" for x in (hardware, model)]
        return f"pass {step}, CTA {cta} lane {lane} column {column} ({inside}): hardware {said[0]} | model {said[1]}"

    outcome = differ(hardware != SENTINEL, model != SENTINEL, RULES["tcgen05.accumulator"], "cells", describe, max(1, columns // 64))
    if outcome.differing:
        return outcome
    outcome = differ(hardware, model, rule, "words of D", describe, max(1, columns // 64))
    if last and outcome.differing and np.array_equal(hardware[:-1], model[:-1]):
        return dataclasses.replace(outcome, rule=last)
    return outcome


def number_of(word: int, kind: str) -> Any:
    """The number of a word of D."""
    raw = np.uint32(word)
    return int(raw.view(np.int32)) if kind == "i8" else f"{float(raw.view(np.float32)):g}"


class TmemLayout(TmemProbe):
    """D of numbered rows: where it lies, and what masks, signs and scales of D do to it."""

    columns = {**_COLUMNS, "d": 1, "enable_d": 1, "background": 1, "mask": 2, "zero_column_mask": 1}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare all cells of both passes: the row of A, then that of B, behind every element of D."""
        issued = Issued.of(self.suite, index)
        i = issued.idesc

        def model() -> tuple[AccumulatorLayout, np.ndarray]:
            if issued.tail in ("fill", "use", "lastuse"):
                raise Unmodelled(f"collector buffers (.collector::{issued.tail}): whether an operand is read again is not known")
            issued.check()
            at = TmemAddress.decode(int(self.suite.arrays["d"][index]))
            layout = issued.layout(lane=at.lane, column=at.column)
            shape = (i.m, i.n)
            rows = np.broadcast_to(whose_number(i.m, issued.cta_group)[:, None], shape)
            columns = np.broadcast_to(whose_number(i.n, issued.cta_group), shape)
            numbers = np.stack([rows, columns]).astype(np.float64) * (-1 if i.negate_a != i.negate_b else 1)
            return layout, words_of(numbers, i.kind) if not self._modified(index, issued) else self._modify(index, issued, numbers, at)

        rule = RULES["arithmetic.tcgen05" if issued.tail or self.suite.arrays["enable_d"][index] else "tcgen05.accumulator"]

        def names(step: int, word: int, m: int, n: int) -> str:
            return f"{number_of(word, i.kind)}{'' if issued.tail else (' (the row of A)', ' (the row of B)')[step]}"

        return self.compare(index, issued, model, rule, names)

    def _modified(self, index: int, issued: Issued) -> bool:
        return bool(issued.tail) or bool(self.suite.arrays["enable_d"][index])

    def before(self, index: int, passes: int, issued: Issued) -> np.ndarray:
        """The cells that were copied out, as they were before: (pass, CTA, lane, column)."""
        cells = super().before(index, passes, issued)
        if self.suite.arrays["background"][index]:
            cells[..., :BACKGROUND] = _background()[:, : cells.shape[-1]]
        return cells

    def _modify(self, index: int, issued: Issued, numbers: np.ndarray, at: TmemAddress) -> np.ndarray:
        """Words of D with what the modifiers make of it: the model runs the instruction on zeros, and the numbers are added where they count."""
        zeros = self._run_on_zeros(index, issued, at)
        if zeros.zero_columns is not None:
            numbers = np.where(zeros.zero_columns, 0, numbers)
        words = words_of(numbers + zeros.d.view(np.float32), issued.idesc.kind)
        if zeros.written is None:
            return words
        before = self.before(index, len(words), issued)
        cta, lane, column = cells_of_d(issued.layout(lane=at.lane, column=at.column))
        return np.where(zeros.written, words, before[:, cta, lane, np.minimum(column, before.shape[-1] - 1)])

    def _run_on_zeros(self, index: int, issued: Issued, at: TmemAddress) -> MmaResult:
        a = self.suite.arrays
        image = np.full((LANES, COLUMNS), SENTINEL, np.uint32)
        if a["background"][index]:
            image[:, :BACKGROUND] = _background()
        shared = [SharedMemory(issued.arch) for _ in range(issued.cta_group)]
        tensor = [fresh_tensor_memory(issued.arch, issued.cta_group, image) for _ in shared]
        word = SmemDescriptor(arch=issued.arch, start_address=shared[0].begin, leading_byte_offset=128, stride_byte_offset=256)
        given: dict[str, Any] = {"enable_input_d": bool(a["enable_d"][index])}
        if issued.tail == "mask":
            given["disable_output_lane"] = tuple(a["mask"][index][: 4 * issued.cta_group].tolist())
        if issued.tail == "zero":
            given["zero_column_mask"] = int(a["zero_column_mask"][index])
        if issued.tail.startswith("scale"):
            given["scale_input_d"] = int(issued.tail.removeprefix("scale"))
        given |= {"shared": alone_or_pair(shared), "cta_group": issued.cta_group, "ws": issued.ws}
        return tcgen05_mma(alone_or_pair(tensor), at, word, word, issued.idesc, **given)


def _background() -> np.ndarray:
    lane, column = np.arange(LANES)[:, None], np.arange(BACKGROUND)
    return (lane + LANES * column).astype(np.float32).view(np.uint32)
