"""tcgen05.mma operands in shared memory: which element of the window was read for every element, and in which cell of D it shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.descriptors.layout import rules_in_force, window_reach
from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import HardwareTrap, SmemsimError, Unmodelled
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES, Rule
from smemsim.spec.tensor_memory import LANES
from smemsim.spec.traps import ILLEGAL_ADDRESS
from smemsim.traces.format import Suite
from smemsim.traces.kinds.blackwell import UNTOUCHED, Issued, judged, put_in_cells
from smemsim.traces.outcome import Case, Outcome, agree, differ, grid_map

__all__ = ["Tcgen05Operand"]

BARRIER_BYTES = 256  # at the end of the window, which hold no tags
NO_TAG = -3
UNKNOWN = -4  # in the model: what lies there is not the probe's


@dataclasses.dataclass(frozen=True)
class _Probed:
    """The operand that a case probes."""

    issued: Issued
    operand: str
    major: str
    descriptor: int
    rows: int  # of one CTA
    stored_k: int
    halves: int

    def place(self) -> np.ndarray:
        """(rows, stored k) of one CTA: chunk * per_chunk + position of the element behind each element; HardwareTrap past the window's end."""
        machine, per_chunk = architecture(self.issued.arch), self.issued.per_chunk
        address = operand_addresses(
            self.descriptor, arch=machine.name, dtype=self.issued.dtype, major=self.major, rows=self.rows, k=self.stored_k,
            packing=self.issued.idesc.row.packing,
        ).astype(np.int64)  # fmt: skip
        along, lines = (self.stored_k, self.rows) if self.major == "K" else (self.rows, self.stored_k)
        d = SmemDescriptor.decode(self.descriptor, arch=machine.name)
        if window_reach(d, self.major, lines, -(-along // per_chunk)) > machine.shared_end:
            raise HardwareTrap("the operand passes the end of the shared window", cuda_error=ILLEGAL_ADDRESS)
        position = np.arange(self.stored_k)[None, :] if self.major == "K" else np.arange(self.rows)[:, None]
        place = address // 16 * per_chunk + position % per_chunk
        past = address >= machine.shared_end
        place[past] = 0  # lines past the end that do not fault read as zero
        foreign = ~past & ((address < machine.shared_begin) | (address >= machine.shared_end - BARRIER_BYTES))
        place[foreign.any(1)] = UNKNOWN  # a NaN among them would be in every dot product of the row
        if foreign.any(1).all():
            raise Unmodelled("every row reads bytes that are not the probe's: the system's, or barriers")
        return place

    def shown(self, place: np.ndarray) -> np.ndarray:
        """(halves, M, N): which of `place` (rows of both CTAs, stored k) every element of D shows; 0 where the identity has no one.

        B is an identity where A is probed; where B is, A is one in each CTA, sparse ones in two halves by the metadata.
        """
        i, kept = self.issued.idesc, self.issued.kept_half
        out = np.zeros((self.halves, i.m, i.n), np.int64)
        foreign = (place == UNKNOWN).any(1)
        if self.operand == "A":
            out[:, foreign] = UNKNOWN
            logical = np.flatnonzero(kept == 0) if i.sparsity else np.arange(i.k)
            logical = logical[logical < i.n]
            out[0][:, logical] = place[:, : len(logical)]
            return out
        out[:, :, foreign] = UNKNOWN
        row = np.arange(i.m) % (i.m // self.issued.cta_group)
        for half in range(self.halves):
            seen = row < i.k
            if i.sparsity:
                seen &= kept[np.minimum(row, i.k - 1)] == half
            out[half][seen] = place[:, row[seen]].T
        return out

    @property
    def rule(self) -> Rule:
        """What the addresses rest on, the most special rule first."""
        machine, fmt = architecture(self.issued.arch), self.issued.element
        if any(machine.smem_descriptor.constants(self.descriptor)):
            return RULES["descriptor.reserved_bits"]
        d, packing = SmemDescriptor.decode(self.descriptor, arch=machine.name), self.issued.idesc.row.packing
        k_bytes = -(-self.stored_k // self.issued.per_chunk) * 16
        given: dict[str, Any] = {"major": self.major, "k_bytes": k_bytes, "bits": fmt.bits}
        return rules_in_force(d, machine, **given, packing=packing if fmt.bits < 8 else "packed")[0]

    def say(self, place: int) -> str:
        """A place in words."""
        if place < 0:
            return {UNTOUCHED: "nothing: the cell is untouched", NO_TAG: "no tag"}.get(place, "what is not the probe's")
        chunk, position = divmod(place, self.issued.per_chunk)
        bits = self.issued.element.bits
        return f"shared {chunk * 16 + position * bits // 8:#x}{f' bit {position * bits % 8}' if bits < 8 else ''}"


class Tcgen05Operand:
    """The element behind every element of an operand, and the cell of D that shows it."""

    columns = {  # noqa: RUF012
        "what": 1, "descriptor": 1, "idesc": 1, "kind": 1, "dtype": 1, "operand": 1, "major": 1, "m": 1, "n": 1, "k": 1, "stored_k": 1,
        "rows": 1, "group": 1, "ws": 1, "sparse": 1, "halves": 1, "status": 1, "completed": 1, "columns": 1, "raw_start": 1,
        "owner_start": 1, "element_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare the outcome; then which cells were written, which elements were read, whose they were."""
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        rows, stored_k, halves = (int(a[name][index]) for name in ("rows", "stored_k", "halves"))
        p = _Probed(issued, str(a["operand"][index]), str(a["major"][index]), int(a["descriptor"][index]), rows, stored_k, halves)

        def title() -> str:
            what = str(a["what"][index])
            return f"{issued}, {p.operand} {p.major}-major through {p.descriptor:#018x}{f' ({what})' if what else ''}"

        def model() -> tuple[AccumulatorLayout, np.ndarray]:
            issued.check(*((p.descriptor, 0) if p.operand == "A" else (0, p.descriptor)))  # the other operand has no swizzle
            return issued.layout(), p.place()

        status, completed = int(a["status"][index]), int(a["completed"][index])
        found, outcome = judged(status, completed, RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, self._refused(index, p, outcome) if outcome.differing and not status else outcome)
        layout, place = found
        return Case(title, self._compare(index, p, layout, np.tile(place, (issued.cta_group, 1))))

    def _element(self, index: int, p: _Probed) -> np.ndarray:
        return self.suite.ragged("element", index).astype(np.int64).reshape(p.rows * p.issued.cta_group, p.stored_k)

    def _refused(self, index: int, p: _Probed, outcome: Outcome) -> Outcome:
        """Hardware runs what the model calls illegal: does it read where the formulas say?"""
        if len(self.suite.ragged("element", index)) != p.rows * p.issued.cta_group * p.stored_k:
            return outcome
        try:
            same = bool((self._element(index, p) == np.tile(p.place(), (p.issued.cta_group, 1))).all())
        except SmemsimError:  # the formulas have no answer
            return outcome
        return dataclasses.replace(outcome, first=f"{outcome.first}; it reads {'where' if same else 'elsewhere than'} the formulas say")

    def _compare(self, index: int, p: _Probed, layout: AccumulatorLayout, place: np.ndarray) -> Outcome:
        columns = int(self.suite.arrays["columns"][index])
        shape = (p.halves, p.issued.cta_group, LANES, columns)
        raw = self.suite.ragged("raw", index).astype(np.int64).reshape(shape)
        cells = np.full(shape, UNTOUCHED, np.int64)
        put_in_cells(layout, p.shown(place), cells)
        raw = np.where(cells == UNKNOWN, UNKNOWN, raw)
        where = RULES["tcgen05.accumulator"]
        written, expected = raw != UNTOUCHED, cells != UNTOUCHED
        outcome = differ(written, expected, where, "cells", self._cell(p, layout, raw, cells), max(1, columns // 64))
        if outcome.differing:
            return outcome
        element = self._element(index, p)
        element = np.where(place == UNKNOWN, UNKNOWN, element)

        def describe(at: tuple[int, ...]) -> str:
            return f"row {at[0]}, k {at[1]}: hardware read {p.say(int(element[at]))} | model {p.say(int(place[at]))}"

        outcome = differ(element, place, p.rule, "elements", describe, max(1, p.stored_k // 64))
        if outcome.differing:
            return self._elsewhere(p, raw, cells, outcome) or outcome
        outcome = differ(raw, cells, where, "cells", self._cell(p, layout, raw, cells), max(1, columns // 64))
        if outcome.differing:
            return outcome
        compared = element.size + raw.size
        if p.issued.cta_group == 2:
            outcome = self._owners(index, p, layout, shape)
            if outcome.differing:
                return outcome
            compared += raw.size
        return agree(compared)

    @staticmethod
    def _cell(p: _Probed, layout: AccumulatorLayout, raw: np.ndarray, cells: np.ndarray) -> Callable[[tuple[int, ...]], str]:
        def describe(at: tuple[int, ...]) -> str:
            half, cta, lane, column = at
            m, n = (int(x[0]) for x in layout.element(np.array([cta]), np.array([lane]), np.array([column])))
            inside = f"D[{m}, {n}]" if m >= 0 else f"no element of layout {layout.name}"
            twice = f"metadata half {half}, " if p.halves > 1 else ""
            return f"{twice}CTA {cta} lane {lane} column {column} ({inside}): hardware shows {p.say(int(raw[at]))} | model {p.say(int(cells[at]))}"

        return describe

    @staticmethod
    def _elsewhere(p: _Probed, raw: np.ndarray, cells: np.ndarray, outcome: Outcome) -> Outcome | None:
        """The same elements in the same cells, in another order: then D lies otherwise, and the addresses are right."""
        wrong = raw != cells
        if not wrong.any() or not np.array_equal(np.sort(raw, axis=None), np.sort(cells, axis=None)):
            return None
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), raw.shape))
        there = np.argwhere((raw == cells[at]) & (cells != cells[at]))
        cta, lane, column = there[0][1:].tolist() if len(there) else at[1:]
        first = (
            f"hardware read the same elements and put them into other cells: {p.say(int(cells[at]))} shows in CTA {cta} lane {lane} column "
            f"{column} | model has it in CTA {at[1]} lane {at[2]} column {at[3]}"
        )
        return Outcome(
            raw.size, int(wrong.sum()), first, grid_map(wrong, max(1, raw.shape[-1] // 64)), RULES["tcgen05.accumulator"], "cells"
        )

    def _owners(self, index: int, p: _Probed, layout: AccumulatorLayout, shape: tuple[int, ...]) -> Outcome:
        """Whose shared memory the elements came from."""
        whose = np.repeat(np.arange(1, p.issued.cta_group + 1), p.rows)[:, None] + np.zeros(p.stored_k, np.int64)
        cells = np.full(shape, UNTOUCHED, np.int64)
        put_in_cells(layout, p.shown(whose), cells)
        owner = self.suite.ragged("owner", index).astype(np.int64).reshape(shape)

        def describe(at: tuple[int, ...]) -> str:
            names = {1: "the even CTA's memory", 2: "the odd CTA's memory", 0: "no element of the operand", UNTOUCHED: "an untouched cell"}
            said = [names.get(int(x[at]), "no tag") for x in (owner, cells)]
            return f"CTA {at[1]} lane {at[2]} column {at[3]}: hardware shows {said[0]} | model {said[1]}"

        return differ(owner, cells, RULES["tcgen05.pair"], "owners", describe, max(1, shape[-1] // 64))
