"""TMA and wgmma together: tiles on every phase, and the reference kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from smemsim.arithmetic.multiply import multiply
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.diagnose.difference import Diagnosis, diagnose
from smemsim.diagnose.product import Product, Side
from smemsim.machine.memory import GlobalMemory, Operand, SharedMemory
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
                corner = d[m : m + self.tile, n : n + self.tile]
                for tile, shared in self._stages(index, world, maps, majors, (m, n), k_extent):
                    if (m, n, tile) == (0, 0, 0):
                        outcome = self._compare_image(index, shared)
                        if outcome.differing:
                            return Case(title, outcome)
                    for a_read, b_read in self._operands(index, shared, majors, tile):
                        corner[:] = multiply(a_read.bits, b_read.bits, corner, kind="wgmma", a_type="bf16", b_type="bf16", d_type="f32")[0]
        hardware = a["d"][index]

        def describe(at: tuple[int, ...]) -> str:
            values = hardware[at].view(np.float32), d[at].view(np.float32)
            return f"D[{at[0]}, {at[1]}]: hardware {hardware[at]:#010x} = {values[0]} | model {d[at]:#010x} = {values[1]}"

        result = differ(hardware, d, RULES["arithmetic.wgmma"], "elements of D", describe, 8)

        def explain() -> Diagnosis:
            m, n = (int(x[0]) // self.tile * self.tile for x in np.nonzero(hardware != d))
            stages = self._stages(index, world, maps, majors, (m, n), k_extent)
            read = [pair for tile, shared in stages for pair in self._operands(index, shared, majors, tile)]
            a_side, b_side = (_side([pair[side] for pair in read]) for side in (0, 1))
            c = np.zeros((self.tile, self.tile), np.uint32)
            found = diagnose(Product("wgmma", ("bf16", "bf16", "f32"), a_side, b_side, c), hardware[m : m + self.tile, n : n + self.tile])
            return dataclasses.replace(found, because=(*found.because, f"counted from row {m} and column {n} of D, where its tile begins"))

        return Case(title, result if result.differing else agree(self.stage + hardware.size), explain)

    def _stages(
        self, index: int, world: GlobalMemory, maps: Any, majors: Any, corner: tuple[int, int], k_extent: int
    ) -> Iterator[tuple[int, SharedMemory]]:
        """Shared memory, every time both tiles of a stage have been loaded."""
        shared = SharedMemory(self.suite.arch)
        for tile in range(k_extent // self.tile):
            self._load(index, shared, world, maps, majors, corner, tile)
            yield tile, shared

    def _operands(self, index: int, shared: SharedMemory, majors: Any, tile: int) -> Iterator[tuple[Operand, Operand]]:
        """A and B of the instructions of a stage."""
        for step in range(4):
            words = self.suite.arrays["descriptors"][index, 4 * tile + step]
            a, b = (
                shared.read_operand(int(word), arch=self.suite.arch, dtype="bf16", major=major, rows=self.tile, k=16)
                for word, major in zip(words, majors, strict=True)
            )
            yield a, b

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


def _side(operands: Sequence[Operand]) -> Side:
    """What the steps read, with addresses."""
    address = np.stack([one.address for one in operands]).astype(np.int64)
    return Side(np.stack([one.bits for one in operands]), address, lambda step, line, k: f"shared {int(address[step, line, k]):#x}")
