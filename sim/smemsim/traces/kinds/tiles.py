"""TMA and wgmma together: tiles on every phase, and the reference kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.arithmetic.multiply import multiply
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.machine.memory import GlobalMemory, SharedMemory
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.common import UNTOUCHED
from smemsim.traces.kinds.tensor_map import MAP_COLUMNS, recorded_map
from smemsim.traces.outcome import Case, Outcome, agree, differ

__all__ = ["ReferenceGemm", "TmaWgmma"]


class TmaWgmma:
    """bf16 tiles that TMA wrote and wgmma read: the tensor element each lane received."""

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, "loads": 1, "load_address": 2, "load_coordinates": 3, "descriptor": 1, "major": 1, "element": 3,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Run the loads into a memory with owners, read the operand, and compare what its elements are."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        word, major = int(a["descriptor"][index]), str(a["major"][index])

        def title() -> str:
            return f"descriptor {word:#018x} {major}-major over {int(a['loads'][index])} loads of {tm!r}"

        if wrong_map:
            return Case(title, wrong_map)
        pitch = tm.global_strides[0]
        world, shared = GlobalMemory(), SharedMemory(self.suite.arch)
        world.place(np.zeros(pitch * tm.global_dim[1], np.uint8), tm.global_address)
        for i in range(int(a["loads"][index])):
            at = a["load_coordinates"][index, i].tolist()
            shared.tma_load(tm, at, smem_address=int(a["load_address"][index, i]), source=world)
        operand = shared.read_operand(word, arch=self.suite.arch, dtype="bf16", major=major, rows=64, k=16)
        place = operand.coordinates()[..., :2]
        inside = ((place >= 0) & (place < tm.global_dim)).all(-1)
        model = np.where(inside, place[..., 0] + place[..., 1] * (pitch // 2), -1)
        model[operand.writer < 0] = UNTOUCHED
        hardware = a["element"][index].astype(np.int64)

        def describe(at: tuple[int, ...]) -> str:
            return f"row {at[0]}, k {at[1]}: hardware got element {hardware[at]} | model {model[at]} (-1: fill, -2: unwritten)"

        return Case(title, differ(hardware, model, RULES["operand.base_offset"], "elements", describe, 8))


class ReferenceGemm:
    """The reference kernel: shared memory before the first MMA, then D from the operands its descriptors read."""

    columns = {  # noqa: RUF012
        "data": 1, "major_a": 1, "major_b": 1, "map_a": 2, "map_b": 2, "boxes_a": 3, "boxes_b": 3, "descriptors": 3, "image": 2, "d": 3,
        "stage_address": 1,
    }  # fmt: skip
    tile, stage = 64, 16384  # rows and K of a stage's operands; bytes of a stage, A first

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.stage_address = int(suite.arrays["stage_address"][0]) if len(suite) else 0

    def case(self, index: int) -> Case:
        """Load every tile with the recorded maps, compare the first image, multiply what the descriptors read, compare D bit for bit."""
        a = self.suite.arrays
        data, majors = str(a["data"][index]), (str(a["major_a"][index]), str(a["major_b"][index]))
        maps = [TensorMap.from_bytes(a[f"map_{side}"][index].tobytes()) for side in "ab"]

        def title() -> str:
            return f"{data}, A {majors[0]}-major {maps[0].swizzle.name}, B {majors[1]}-major {maps[1].swizzle.name}"

        for tm in maps:
            if tm.unknown_bits or tm.broken_rules:
                first = f"the map has {', '.join((*tm.unknown_fields, *tm.broken_rules))} | model: no encoder writes that"
                return Case(title, Outcome(1, 1, first, (), RULES["tensor_map.bits"], "map bytes"))
        world = GlobalMemory()
        for side, tm, major in zip("ab", maps, majors, strict=True):
            matrix = a[f"{side}_{data}"]
            world.place(matrix if major == "K" else matrix.T, tm.global_address)
        rows, k_extent = a[f"a_{data}"].shape
        d = np.zeros((rows, rows), np.uint32)
        for m in range(0, rows, self.tile):
            for n in range(0, rows, self.tile):
                shared = SharedMemory(self.suite.arch)
                for tile in range(k_extent // self.tile):
                    self._load(index, shared, world, maps, majors, (m, n), tile)
                    if (m, n, tile) == (0, 0, 0):
                        outcome = self._compare_image(index, shared)
                        if outcome.differing:
                            return Case(title, outcome)
                    corner = d[m : m + self.tile, n : n + self.tile]
                    corner[:] = self._multiply(index, shared, majors, tile, corner)
        hardware = a["d"][index]

        def describe(at: tuple[int, ...]) -> str:
            values = hardware[at].view(np.float32), d[at].view(np.float32)
            return f"D[{at[0]}, {at[1]}]: hardware {hardware[at]:#010x} = {values[0]} | model {d[at]:#010x} = {values[1]}"

        result = differ(hardware, d, RULES["arithmetic.wgmma_bf16_f32"], "elements of D", describe, 8)
        return Case(title, result if result.differing else agree(self.stage + hardware.size))

    def _load(self, index: int, shared: SharedMemory, world: GlobalMemory, maps: Any, majors: Any, corner: Any, tile: int) -> None:
        stage = self.stage_address + tile % 2 * self.stage
        for i, (side, tm, major) in enumerate(zip("ab", maps, majors, strict=True)):
            for offset, row, k in self.suite.arrays[f"boxes_{side}"][index].tolist():
                if offset >= 0:
                    at = (self.tile * tile + k, corner[i] + row)
                    address = stage + i * self.stage // 2 + offset
                    shared.tma_load(tm, at if major == "K" else at[::-1], smem_address=address, source=world)

    def _compare_image(self, index: int, shared: SharedMemory) -> Outcome:
        begin = self.stage_address - shared.begin
        model, hardware = shared.bytes[begin : begin + self.stage], self.suite.arrays["image"][index]

        def describe(at: tuple[int, ...]) -> str:
            return f"shared {self.stage_address + at[0]:#x}: hardware {hardware[at]:#04x} | model {model[at]:#04x}"

        return differ(hardware, model, RULES["tma.placement"], "bytes", describe, 16)

    def _multiply(self, index: int, shared: SharedMemory, majors: Any, tile: int, d: np.ndarray) -> np.ndarray:
        for step in range(4):
            words = self.suite.arrays["descriptors"][index, 4 * tile + step]
            a, b = (
                shared.read_operand(int(word), arch=self.suite.arch, dtype="bf16", major=major, rows=self.tile, k=16)
                for word, major in zip(words, majors, strict=True)
            )
            d, _ = multiply(a.bits, b.bits, d, instruction="wgmma", a_type="bf16", b_type="bf16", d_type="f32")
        return d
