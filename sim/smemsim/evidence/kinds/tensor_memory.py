"""Traces of tensor memory."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from smemsim.base.errors import Unmodelled
from smemsim.core.arithmetic.values import element_value
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.product import MmaResult
from smemsim.core.machine.tcgen05 import scale_address, scale_id_in_force, stored_k, tcgen05_mma
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.copy import tcgen05_cp, tcgen05_shift
from smemsim.core.machine.tmem.layout import AccumulatorLayout, ATmemLayout, MetadataLayout, ScaleLayout
from smemsim.core.machine.tmem.memory import SPLIT, TensorMemory, TmemAccess
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import RULES, Rule
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.tcgen05 import scale_modes
from smemsim.core.spec.tensor_memory import CELL_BITS, COLUMNS, DECOMPRESSIONS, LANES, METADATA, WARP_LANES
from smemsim.core.words.smem import SmemDescriptor
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.kinds.tcgen05 import (
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
from smemsim.evidence.outcome import Case, Outcome, differ

__all__ = [
    "PROBE_COLUMNS",
    "Tcgen05Copy",
    "TmemAccesses",
    "TmemLayout",
    "TmemMetadata",
    "TmemOperand",
    "TmemProbe",
    "TmemScale",
    "TmemShift",
    "compare_cells",
    "number_of",
]


# ---- Where D lies in tensor memory, and what the probes of tcgen05.mma have in common whose cells are kept


_OUTCOME = {"status": 1, "completed": 1, "columns": 1, "words_start": 1}
_COLUMNS = {"what": 1, "form": 1, "kind": 1, "dtype": 1, "m": 1, "n": 1, "group": 1, "ws": 1, "sparse": 1, "idesc": 1, **_OUTCOME}
PROBE_COLUMNS = {**_COLUMNS, "d": 1, "a": 1, "meta": 1, "scale_a": 1, "scale_b": 1, "passes": 1}
BACKGROUND = 256  # columns in which D held lane + 128 * column


class TmemProbe(Comparer):
    """One suite of probes whose words of D are kept."""

    columns = PROBE_COLUMNS

    def compare(
        self,
        index: int,
        issued: Issued,
        model: Callable[[], tuple[AccumulatorLayout, np.ndarray]],
        rule: Rule,
        names: Any,
        last: Rule | None = None,
    ) -> Case:
        """Compare words of D (pass, M, N) and its layout from `model` with all cells. `names` describes the numbers.

        `last` is the rule of the last pass, if it differs.
        """
        a = self.suite.arrays

        def title() -> str:
            return f"{issued}{f', {text}' if (text := str(a['what'][index])) else ''}"

        verdict, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        layout, words = verdict
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
    """Words (pass, CTA, lane, column): first which cells were written at all, then the words. `last`: the rule if only
    the last pass differs.
    """
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
    """D of numbered rows: its place, and the effect of masks, signs and scales of D."""

    columns = {**_COLUMNS, "d": 1, "enable_d": 1, "background": 1, "mask": 2, "zero_column_mask": 1}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare all cells of both passes: the row of A, then the row of B, of every element of D."""
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
        """Words of D with what the modifiers make of it: the model runs the instruction on zeros, and the numbers are
        added where they count.
        """
        zeros = self._run_on_zeros(index, issued, at)
        if zeros.zero_columns is not None:
            numbers = np.where(zeros.zero_columns, 0, numbers)
        words = words_of(numbers + zeros.d.view(np.float32), issued.idesc.kind)
        if zeros.written is None:
            return words
        before = self.before(index, len(words), issued)
        if not before.shape[-1]:  # hardware refused the instruction, so that nothing was copied out
            return words
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
        given |= {"shared": alone_or_pair(shared), "cta_group": issued.cta_group, "ws": issued.ws, "kind": issued.idesc.kind}
        return tcgen05_mma(alone_or_pair(tensor), at, word, word, issued.word, **given)


def _background() -> np.ndarray:
    lane, column = np.arange(LANES)[:, None], np.arange(BACKGROUND)
    return (lane + LANES * column).astype(np.float32).view(np.uint32)


# ---- What moves in tensor memory without a product: tcgen05.ld and st, cp, shift


WARPS = LANES // WARP_LANES
NOTHING_LOADED = 0xA5A5A5A5  # in the registers before a load
UPPER = 0x8000  # marks the upper half of a word that says one number twice


def _twice(number: np.ndarray) -> np.ndarray:
    """A number below 2^15 in both halves of a word, the upper one marked."""
    low = number.astype(np.uint32)
    return low | (low | np.uint32(UPPER)) << np.uint32(16)


def _index(step: int) -> np.ndarray:
    """Words (128, 512) that say their lane (step 0) or their column (step 1)."""
    return _twice(np.broadcast_to((np.arange(LANES)[:, None], np.arange(COLUMNS))[step], (LANES, COLUMNS)))


def _halves(word: int) -> str:
    """A word of `_twice`, or of two halves that differ."""
    low, high = word & 0xFFFF, word >> 16
    parts = [f"{half & UPPER - 1}{' (an upper half)' if half & UPPER else ''}" for half in (low, high)]
    return str(low) if high == low | UPPER and not low & UPPER else " and ".join(parts)


def own_lane(warp: int, lane: int) -> int:
    """The lane in the address of a warp: the kit's kernel adds `lane` to the first lane of the warp's own window."""
    return WARP_LANES * warp + lane


class TmemAccesses(Comparer):
    """tcgen05.ld and tcgen05.st: the lane and the column of every register."""

    columns = {  # noqa: RUF012
        "store": 1, "shape": 1, "num": 1, "pack": 1, "half_split_offset": 1, "lane": 1, "column": 1, "warps": 1, "status": 1,
        "completed": 1, "words_start": 1,
    }  # fmt: skip

    @functools.cached_property
    def _indexed(self) -> list[TensorMemory]:
        return [fresh_tensor_memory(self.suite.arch, 1, _index(step)) for step in (0, 1)]

    def case(self, index: int) -> Case:
        """Compare the registers of a load, or the cells that a store changed."""
        a = self.suite.arrays
        shape, is_store = str(a["shape"][index]), bool(a["store"][index])
        num, pack, offset, lane, column, mask = (int(a[x][index]) for x in ("num", "pack", "half_split_offset", "lane", "column", "warps"))
        warps = [warp for warp in range(WARPS) if mask >> warp & 1]

        def title() -> str:
            name = f"tcgen05.{'st' if is_store else 'ld'}.{shape}.x{num}"
            more = (".unpack::16b" if is_store else ".pack::16b") if pack else ""
            return f"{name}{more}{f', split {offset}' if shape == SPLIT else ''} at lane {lane}, column {column} by warps {warps}"

        def model() -> Any:
            given: dict[str, Any] = {"half_split_offset": offset if shape == SPLIT else None, "taddr": TmemAddress(0, column)}
            access = TmemAccess(shape, repeat=num, pack=bool(pack), **given)
            if max(own_lane(warp, lane) for warp in warps) >= LANES:
                raise Unmodelled(f"a warp's address names lane {own_lane(max(warps), lane)}: tensor memory has lanes 0 to {LANES - 1}")
            at = {warp: TmemAddress(own_lane(warp, lane), column) for warp in warps}
            return self._stored(access, at) if is_store else self._loaded(access, at)

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.ld_st"], model)
        if outcome:
            return Case(title, outcome)
        recorded = self.suite.ragged("words", index)
        return Case(title, self._stores(recorded, found) if is_store else self._loads(recorded, found))

    def _loaded(self, access: TmemAccess, at: dict[int, TmemAddress]) -> np.ndarray:
        registers = np.full((2, WARPS, WARP_LANES, access.registers), NOTHING_LOADED, np.uint32)
        for step, memory in enumerate(self._indexed):
            for warp, address in at.items():
                registers[step, warp] = memory.ld(access, warp=warp, taddr=address.encode())
        return registers

    def _stored(self, access: TmemAccess, at: dict[int, TmemAddress]) -> np.ndarray:
        memory = fresh_tensor_memory(self.suite.arch, 1)
        thread = np.arange(WARPS * WARP_LANES).reshape(WARPS, WARP_LANES, 1)
        values = _twice(thread << 7 | np.arange(access.registers))
        for warp, address in at.items():
            memory.st(access, values[warp], warp=warp, taddr=address.encode())
        return memory.cells

    @staticmethod
    def _loads(recorded: np.ndarray, model: np.ndarray) -> Outcome:
        hardware = recorded.reshape(model.shape)

        def describe(at: tuple[int, ...]) -> str:
            step, warp, thread, register = at
            said = ["nothing" if x[at] == NOTHING_LOADED else _halves(int(x[at])) for x in (hardware, model)]
            what = ("lane", "column")[step]
            return f"warp {warp} thread {thread} register {register}: hardware has {what} {said[0]} | model {what} {said[1]}"

        return differ(hardware, model, RULES["tcgen05.ld_st"], "registers", describe, max(1, model.shape[-1] // 64))

    @staticmethod
    def _stores(recorded: np.ndarray, model: np.ndarray) -> Outcome:
        pairs, hardware = recorded.reshape(-1, 2), np.full((LANES, COLUMNS), SENTINEL, np.uint32)
        hardware[pairs[:, 0] // COLUMNS, pairs[:, 0] % COLUMNS] = pairs[:, 1]

        def say(word: int) -> str:
            if word == SENTINEL:
                return "untouched"
            low, high = word & 0xFFFF, word >> 16
            parts = [f"thread {half >> 7 & 127} register {half & 127}" for half in (low, high & UPPER - 1)]
            if high == SENTINEL >> 16:
                return f"{parts[0]}{' (its upper half)' if low & UPPER else ''}, the upper half untouched"
            return parts[0] if high == low | UPPER else f"{word:#010x}"

        def describe(at: tuple[int, ...]) -> str:
            return f"lane {at[0]} column {at[1]}: hardware {say(int(hardware[at]))} | model {say(int(model[at]))}"

        outcome = differ(hardware, model, RULES["tcgen05.ld_st"], "cells", describe, 8)
        return outcome if outcome.differing else Outcome(max(1, int((model != SENTINEL).sum())))


class Tcgen05Copy(Comparer):
    """tcgen05.cp: which shared bits lie where in tensor memory afterwards."""

    columns = {  # noqa: RUF012
        "instruction": 1, "descriptor": 1, "d": 1, "group": 1, "passes": 1, "status": 1, "completed": 1, "columns": 1, "words_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        self.images: dict[tuple[int, int, int], SharedMemory] = {}

    def _shared(self, cta: int, bits: int, step: int) -> SharedMemory:
        """A window whose words hold their address / 4 and the CTA, or whose packed elements hold `bits` bits of their
        place.
        """
        key = (cta, bits, step)
        if key not in self.images:
            machine = architecture(self.suite.arch)
            at = np.arange(machine.shared_begin, machine.shared_end, dtype=np.uint32)
            if bits:
                digit = at.reshape(-1, 16) >> np.uint32(step * bits) & np.uint32((1 << bits) - 1)
                spread = (digit[..., None] >> np.arange(bits, dtype=np.uint32) & 1).astype(np.uint8).reshape(len(digit), -1)
                data = np.packbits(spread, axis=1, bitorder="little")
                content = np.concatenate([data, np.full((len(data), 16 - data.shape[1]), 0xFF, np.uint8)], axis=1)
            else:
                content = (at[::4] // np.uint32(4) | np.uint32(cta << 24)).view(np.uint8)
            shared = SharedMemory(self.suite.arch)
            shared.write(shared.begin, content, label="probe")
            self.images[key] = shared
        return self.images[key]

    def case(self, index: int) -> Case:
        """Compare all lanes and columns of all passes."""
        a = self.suite.arrays
        instruction, word, to = str(a["instruction"][index]), int(a["descriptor"][index]), int(a["d"][index])
        group, passes, columns = (int(a[name][index]) for name in ("group", "passes", "columns"))
        form, _, compressed = instruction.partition(".b8x16.")
        shape, _, multicast = form.partition(".")
        bits = DECOMPRESSIONS[compressed].bits if compressed else 0

        def title() -> str:
            return f"tcgen05.cp.cta_group::{group}.{instruction} to {to:#x} through {word:#018x}"

        def model() -> np.ndarray:
            words = np.empty((passes, group, LANES, COLUMNS), np.uint32)
            for step in range(passes):
                tensor = [fresh_tensor_memory(self.suite.arch, group) for _ in range(group)]
                shared = alone_or_pair([self._shared(cta, bits, step) for cta in range(group)])
                given: dict[str, Any] = {"shape": shape, "multicast": multicast, "src_fmt": compressed, "cta_group": group}
                tcgen05_cp(alone_or_pair(tensor), to, word, shared=shared, **given)
                words[step] = [memory.cells for memory in tensor]
            return words

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.cp"], model)
        if outcome:
            return Case(title, outcome)
        cells = found[..., :columns]
        hardware = self.suite.ragged("words", index).reshape(cells.shape)

        def say(value: int) -> str:
            if value == SENTINEL:
                return "untouched"
            return f"{value:#010x}" if bits else f"shared {(value & 0xFFFFFF) * 4:#x} of CTA {value >> 24}"

        def describe(at: tuple[int, ...]) -> str:
            where = f"pass {at[0]}, CTA {at[1]} lane {at[2]} column {at[3]}"
            return f"{where}: hardware = {say(int(hardware[at]))} | model = {say(int(cells[at]))}"

        return Case(title, differ(hardware, cells, RULES["tcgen05.cp"], "words", describe, 1))


class TmemShift(Comparer):
    """tcgen05.shift: where every lane and column came from."""

    columns = {"d": 1, "group": 1, "status": 1, "completed": 1, "columns": 1, "words_start": 1}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare the lane, then the column, that every cell says."""
        a = self.suite.arrays
        to, group, columns = (int(a[name][index]) for name in ("d", "group", "columns"))

        def title() -> str:
            return f"tcgen05.shift.cta_group::{group}.down at lane {to >> 16}, column {to & 0xFFFF}"

        def model() -> np.ndarray:
            words = np.empty((2, group, LANES, COLUMNS), np.uint32)
            for step in (0, 1):
                tensor = [fresh_tensor_memory(self.suite.arch, group, _index(step)) for _ in range(group)]
                tcgen05_shift(alone_or_pair(tensor), to, cta_group=group)
                words[step] = [memory.cells for memory in tensor]
            return words

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.cp"], model)
        if outcome:
            return Case(title, outcome)
        cells = found[..., :columns]
        hardware = self.suite.ragged("words", index).reshape(cells.shape)

        def describe(at: tuple[int, ...]) -> str:
            what = ("lane", "column")[at[0]]
            said = [_halves(int(x[at])) for x in (hardware, cells)]
            return f"CTA {at[1]} lane {at[2]} column {at[3]}: hardware has {what} {said[0]} | model {what} {said[1]}"

        return Case(title, differ(hardware, cells, RULES["tcgen05.cp"], "words", describe, 2))


# ---- What tcgen05.mma reads from tensor memory: A, scale factors, sparsity metadata


ROW_BYTES, TAGGED = 2048, 32  # bytes of a lane as tags number them; columns of scale factors that hold tags
UE8M0_LEAST = 15  # tag 0 is 2^-15


def of_any(copies: np.ndarray, shown: np.ndarray, columns: int) -> np.ndarray:
    """Words (pass, M, N) of D: what is `shown` where `columns` of a row are those of one of the copies (copy, pass, M,
    N), else the first's.
    """
    bands = copies.reshape(*copies.shape[:3], -1, columns)
    seen = shown.reshape(bands.shape[1:])
    right = (bands == seen).all((1, -1)).any(0)[..., None]
    return np.where(right, seen, bands[0]).reshape(shown.shape)


def owners_in_words(words: np.ndarray, kind: str) -> dict[int, str]:
    """The words of D that two numbers make, and whose number each of them is."""
    even, odd = words_of(words, kind).tolist()
    return {even: "the even CTA's", odd: "the odd CTA's"}


class TmemOperand(TmemProbe):
    """A in tensor memory, B an identity: D shows which byte every element of A came from, or what the byte means; in
    pairs also whose it is.
    """

    columns = {**PROBE_COLUMNS, "tag_bits": 1, "owner_words": 2}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare all cells of all passes; each CTA of a pair gives the rows of its D."""
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        i, passes, tags = issued.idesc, int(a["passes"][index]), str(a["what"][index]) == "tags"
        owner_words = a["owner_words"][index].astype(np.int64)
        asks = passes - 1 if owner_words.any() else passes  # the pass that asks for the owner
        source, to = (TmemAddress.decode(int(a[name][index])) for name in ("a", "d"))

        def model() -> tuple[AccumulatorLayout, np.ndarray]:
            if issued.tail == "ashift":
                raise Unmodelled(".ashift: by how many rows A is shifted, and what the first or last row becomes, is in no document")
            issued.check(source, d=to)
            layout = issued.layout(lane=to.lane, column=to.column)
            at = ATmemLayout(i.m, i.kind, issued.cta_group, ws=issued.ws, lane=source.lane, column=source.column)
            k = np.arange(min(i.k, i.n))
            copy = k // (i.n // at.copies)
            cta, lane, column, bit = at.location(np.arange(i.m)[:, None], k, copy)
            numbers = np.zeros((passes, i.m, i.n))
            for step in range(asks):
                read = _digit if tags else _meaning
                numbers[step][:, k] = read(issued, lane, column, bit, step, int(a["tag_bits"][index]))
            if asks < passes:
                numbers[asks][:, k] = _worth(issued, owner_words)[cta]
            return layout, words_of(numbers, i.kind)

        def names(step: int, word: int, m: int, n: int) -> str:
            number = number_of(word, i.kind)
            if step == asks:
                whose = owners_in_words(_worth(issued, owner_words), i.kind).get(word, "nobody's")
                return f"{number} ({whose} A[{m}, {n}])"
            return f"{number} (part {step} of the place of A[{m}, {n}])" if tags else f"{number} (A[{m}, {n}])"

        return self.compare(index, issued, model, RULES["tcgen05.tensor_operands"], names, RULES["tcgen05.pair"] if asks < passes else None)


def _digit(issued: Issued, lane: np.ndarray, column: np.ndarray, bit: np.ndarray, step: int, tag_bits: int) -> np.ndarray:
    """Part `step` of the place of an element: 16-byte chunk times per_chunk and its position, lanes being 2,048 bytes
    one after the other.
    """
    bits = (lane * ROW_BYTES * 8 + column * CELL_BITS) + bit
    place = bits // 128 * issued.per_chunk + bits % 128 // issued.element.bits
    return np.asarray(place >> step * tag_bits & (1 << tag_bits) - 1)


def _meaning(issued: Issued, lane: np.ndarray, column: np.ndarray, bit: np.ndarray, step: int, _: int) -> np.ndarray:
    """The value of an element with this byte: every byte of lane l is l + 128 * step."""
    shift = 0 if issued.idesc.row.packing == "padded" else bit % 8
    return _worth(issued, lane + LANES * step >> shift)


def _worth(issued: Issued, bits: np.ndarray) -> np.ndarray:
    """The number of the element in the lowest bits of a container; a 4- or 6-bit one may lie higher in its byte."""
    fmt, padded = issued.element, issued.idesc.row.packing == "padded"
    shift = next((row.shift for row in DECOMPRESSIONS.values() if padded and fmt.name in row.types), 0)
    codes, where = np.unique(bits >> shift & (1 << fmt.bits) - 1, return_inverse=True)
    return np.asarray(np.array([float(element_value(int(code), fmt)) for code in codes])[where.reshape(bits.shape)])


class TmemScale(TmemProbe):
    """One block of K is ones, the scale factors of one side are tags: D shows the byte that scaled every row; in pairs
    also whose it is.
    """

    columns = {**PROBE_COLUMNS, "owner_words": 2}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Every element of D must be scaled by one of the copies of its factor; which one is not part of the model.

        In pairs the last pass asks whose factor it is. Those of A lie in one CTA only. Those of B lie in both (CUTLASS
        tmem_sf_frg); that each CTA takes its own is inferred.
        """
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        i, passes = issued.idesc, int(a["passes"][index])
        side, vector = str(a["what"][index]).split()
        name, word = f"scale_{side.lower()}", int(a[f"scale_{side.lower()}"][index])
        in_address, column = scale_address(name, word)

        def title() -> str:
            other = f", scale id {in_address} in the address" if in_address else ""
            return f"{issued}, factor {vector} of every row of {side}{other}"

        def model() -> tuple[AccumulatorLayout, ScaleLayout]:
            issued.check()
            modes = scale_modes(i.row, wide_k=bool(i.k_size), asked=issued.scale_vec)
            scale_id = scale_id_in_force(i.a_sf_id if side == "A" else i.b_sf_id, name, word, modes)
            given: dict[str, Any] = {"cta_group": issued.cta_group, "scale_id": scale_id, "column": column, "k": i.k}
            return issued.layout(), ScaleLayout(side, m=i.m, n=i.n, kind=i.kind, scale_vec=str(issued.scale_vec), **given)

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        layout, scales = found
        owner_words = a["owner_words"][index]
        asks = passes - 1 if owner_words.any() else passes  # the pass that asks for the owner
        ones = i.k // (2 if i.sparsity else 1) // scales.scales
        copies = self._copies(issued, scales, int(vector), asks, column)
        copies = np.broadcast_to(copies if side == "A" else copies.transpose(0, 1, 3, 2), (len(copies), asks, i.m, i.n))
        words = of_any(copies, self.shown(index, layout, passes)[:asks], 1)
        scale = element_format(str(i.scale_type))
        owned = np.array([ones * float(element_value(int(word) & 0xFF, scale)) for word in owner_words])
        if asks < passes:
            words = np.concatenate([words, words_of(owned, i.kind)[cells_of_d(layout)[0]][None]])
        cells = self.before(index, passes, issued)
        put_in_cells(layout, words, cells)
        hardware = self.suite.ragged("words", index).reshape(cells.shape)

        def names(step: int, word: int, m: int, n: int) -> str:
            if step == asks:
                whose = owners_in_words(owned, i.kind).get(word, "nobody's")
                return f"{number_of(word, i.kind)} ({whose} factor of {side}{', which is inferred' if side == 'B' else ''})"
            tag = _tag(Fraction(float(np.uint32(word).view(np.float32))) / ones, str(i.scale_type))
            part = "no tag" if tag is None else f"part {step} of the byte's place is {tag}"
            return f"{number_of(word, i.kind)} ({part})"

        last = RULES["tcgen05.pair"] if asks < passes else None
        return Case(title, compare_cells(layout, hardware, cells, RULES["tcgen05.tensor_operands"], names, last))

    @staticmethod
    def _copies(issued: Issued, scales: ScaleLayout, vector: int, passes: int, column: int) -> np.ndarray:
        """Words of D (copy, pass, row, 1) if that copy of the factor scales the row."""
        i = issued.idesc
        row = np.arange(i.m if scales.operand == "A" else i.n)
        ones = i.k // (2 if i.sparsity else 1) // scales.scales
        out = np.empty((scales.copies, passes, len(row), 1), np.uint32)
        for copy in range(scales.copies):
            _, lane, at, byte = scales.location(row, vector, copy)
            place = (lane * TAGGED + at - column) * 4 + byte
            for step in range(passes):
                if i.scale_type == "ue8m0":
                    scale = 2.0 ** ((place >> 5 * step & 31) - UE8M0_LEAST)
                else:
                    scale = (place >> 4 * step & 15).astype(np.float64)
                out[copy, step, :, 0] = words_of(scale * ones, i.kind)
        return out


def _tag(scale: Fraction, scale_type: str) -> int | None:
    """The tag that a scale factor says."""
    if scale_type != "ue8m0":
        return int(scale) if scale.denominator == 1 and 0 <= scale < 16 else None
    return next((tag for tag in range(32) if Fraction(2) ** (tag - UE8M0_LEAST) == scale), None)


class TmemMetadata(TmemProbe):
    """A is ones, its metadata random, B an identity: D shows which elements of K every row keeps."""

    columns = {**PROBE_COLUMNS, "metadata": 4}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare all cells; where metadata lies once for every band of N, a row of a band
        may have any of the copies.
        """
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        i, to = issued.idesc, TmemAddress.decode(int(a["d"][index]))

        def model() -> tuple[AccumulatorLayout, np.ndarray]:
            issued.check()
            layout = issued.layout(lane=to.lane, column=to.column)
            copies = self._copies(index, issued)
            ended = int(a["status"][index]) or len(copies) == 1
            return layout, copies[0] if ended else of_any(copies, self.shown(index, layout, 1), layout.columns)

        def names(step: int, word: int, m: int, n: int) -> str:
            return f"{number_of(word, i.kind)} (times that row {m} keeps k = {n})"

        return self.compare(index, issued, model, RULES["tcgen05.tensor_operands"], names)

    def _copies(self, index: int, issued: Issued) -> np.ndarray:
        """Words of D (copy, 1, M, N) if that copy of the metadata counts."""
        i, words = issued.idesc, self.suite.arrays["metadata"][index]
        at, row = TmemAddress.decode(int(self.suite.arrays["meta"][index])), METADATA[i.kind]
        layout = MetadataLayout(i.m, i.kind, issued.cta_group, ws=issued.ws, selector=i.sparsity_selector, column=at.column)
        stored, copies = np.arange(i.k // 2), []
        for copy in range(layout.copies):
            cta, lane, column, bit = layout.location(np.arange(i.m)[:, None], np.arange(0, i.k, row.chunk), copy)
            nibbles = words[cta, lane, column - at.column].astype(np.int64) >> bit & 0xF
            if not np.isin(nibbles, row.indices).all():
                raise Unmodelled(f"metadata that kind {i.kind} does not have")
            kept = stored_k(stored, nibbles[:, stored * 2 // row.chunk], row.chunk)
            numbers = np.zeros((1, i.m, max(i.k, i.n)))
            np.add.at(numbers[0], (np.arange(i.m)[:, None], kept), 1)
            copies.append(words_of(numbers[:, :, : i.n], i.kind))
        return np.stack(copies)
