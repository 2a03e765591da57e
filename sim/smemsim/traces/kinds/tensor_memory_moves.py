"""What moves in tensor memory without a product: tcgen05.ld and st, cp, shift."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from smemsim.machine.memory import SharedMemory
from smemsim.machine.tmem.access import SPLIT, TmemAccess
from smemsim.machine.tmem.copy import tcgen05_cp, tcgen05_shift
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES
from smemsim.spec.tensor_memory import COLUMNS, DECOMPRESSIONS, LANES, WARP_LANES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.blackwell import SENTINEL, alone_or_pair, fresh_tensor_memory, judged
from smemsim.traces.outcome import Case, Outcome, differ

__all__ = ["Tcgen05Copy", "TmemAccesses", "TmemShift"]

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


class TmemAccesses:
    """tcgen05.ld and tcgen05.st: the lane and the column behind every register."""

    columns = {  # noqa: RUF012
        "store": 1, "shape": 1, "num": 1, "pack": 1, "half_split_offset": 1, "lane": 1, "column": 1, "warps": 1, "status": 1,
        "completed": 1, "words_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

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
            given: dict[str, Any] = {"half_split_offset": offset if shape == SPLIT else None, "taddr": lane << 16 | column}
            access = TmemAccess(shape, repeat=num, pack=bool(pack), **given)
            return self._stored(access, warps) if is_store else self._loaded(access, warps)

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.ld_st"], model)
        if outcome:
            return Case(title, outcome)
        recorded = self.suite.ragged("words", index)
        return Case(title, self._stores(recorded, found) if is_store else self._loads(recorded, found))

    def _loaded(self, access: TmemAccess, warps: list[int]) -> np.ndarray:
        registers = np.full((2, WARPS, WARP_LANES, access.registers), NOTHING_LOADED, np.uint32)
        for step, memory in enumerate(self._indexed):
            for warp in warps:
                registers[step, warp] = memory.ld(access, warp=warp)
        return registers

    def _stored(self, access: TmemAccess, warps: list[int]) -> np.ndarray:
        memory = fresh_tensor_memory(self.suite.arch, 1)
        thread = np.arange(WARPS * WARP_LANES).reshape(WARPS, WARP_LANES, 1)
        values = _twice(thread << 7 | np.arange(access.registers))
        for warp in warps:
            memory.st(access, values[warp], warp=warp)
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


class Tcgen05Copy:
    """tcgen05.cp: which shared bits lie where in tensor memory afterwards."""

    columns = {  # noqa: RUF012
        "instruction": 1, "descriptor": 1, "d": 1, "group": 1, "passes": 1, "status": 1, "completed": 1, "columns": 1, "words_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.images: dict[tuple[int, int, int], SharedMemory] = {}

    def _shared(self, cta: int, bits: int, step: int) -> SharedMemory:
        """A window whose words hold their address / 4 and the CTA, or whose packed elements hold `bits` bits of their place."""
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


class TmemShift:
    """tcgen05.shift: where every lane and column came from."""

    columns = {"d": 1, "group": 1, "status": 1, "completed": 1, "columns": 1, "words_start": 1}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

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
