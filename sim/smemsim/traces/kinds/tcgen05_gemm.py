"""The reference kernel of tcgen05: TMA, then every operand that its descriptors read, then D."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.arithmetic.multiply import multiply
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.machine.memory import GlobalMemory, SharedMemory
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.blackwell import Issued, cells_of_d, judged
from smemsim.traces.outcome import Case, Outcome, agree, differ

__all__ = ["Tcgen05Gemm"]

CTAS, ROWS, TILE_N = 2, 128, 128  # of one CTA's tile, alone or as half of a pair
STAGES, STEPS, OPERAND_BYTES = 3, 4, 16384
STAGE_BYTES = 2 * OPERAND_BYTES
K_BYTES = 128  # of K in a stage


class Tcgen05Gemm:
    """D[256, 128] = A B^T by two CTAs or a pair: the first stage's bytes, then D bit for bit."""

    columns = {  # noqa: RUF012
        "kind": 1, "dtype": 1, "group": 1, "major_a": 1, "major_b": 1, "mode_a": 1, "mode_b": 1, "idesc": 1, "maps": 2, "boxes_a": 3,
        "boxes_b": 3, "descriptors": 3, "image": 2, "d_of": 1, "status": 1, "completed": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.products: dict[tuple[Any, ...], np.ndarray] = {}

    def case(self, index: int) -> Case:
        """Load every stage with the recorded maps, compare the first image, multiply what the descriptors read, compare D."""
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        majors, modes = ([str(a[f"{name}_{side}"][index]) for side in "ab"] for name in ("major", "mode"))

        def title() -> str:
            return f"{issued}: A {majors[0]}-major {modes[0]}, B {majors[1]}-major {modes[1]}"

        def model() -> AccumulatorLayout:
            words = a["descriptors"][index][0].tolist()
            if not a["status"][index]:
                issued.check(*words)
            else:
                issued.check()
            return issued.layout()

        layout, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        return Case(title, self._run(index, issued, layout, majors))

    def _run(self, index: int, issued: Issued, layout: AccumulatorLayout, majors: list[str]) -> Outcome:
        a, group = self.suite.arrays, issued.cta_group
        maps = [TensorMap.from_bytes(raw.tobytes()) for raw in a["maps"][index].reshape(2, -1)]
        for tm in maps:
            if tm.unknown_bits or tm.broken_rules:
                first = f"the map has {', '.join((*tm.unknown_fields, *tm.broken_rules))} | model: no encoder writes that"
                return Outcome(1, 1, first, (), RULES["tensor_map.bits"], "map bytes")
        world, dtype = GlobalMemory(), str(a["dtype"][index])
        matrices = [a[f"a_{dtype}"], a[f"b_{dtype}"][:TILE_N]]
        for tm, matrix, major in zip(maps, matrices, majors, strict=True):
            world.place(matrix if major == "K" else matrix.T, tm.global_address)
        k_stage = K_BYTES // matrices[0].itemsize
        read: list[list[np.ndarray]] = [[], []]  # of A and B, (rows of both CTAs, K) each
        for stage in range(matrices[0].shape[1] // k_stage):
            shared = [SharedMemory(self.suite.arch) for _ in range(CTAS)]
            for cta, memory in enumerate(shared):
                memory.write(memory.begin, bytes(STAGES * STAGE_BYTES))
                self._load(index, memory, world, maps, majors, cta, group, stage, k_stage)
            if not stage:
                outcome = self._compare_image(index, shared[0])
                if outcome.differing:
                    return outcome
            for step in range(STEPS):
                for side, word in enumerate(a["descriptors"][index][STEPS * stage + step].tolist()):
                    rows = (ROWS, TILE_N // group)[side]
                    parts = [
                        memory.read_operand(int(word), dtype=issued.dtype, major=majors[side], rows=rows, k=issued.idesc.k).bits
                        for memory in shared
                    ]
                    read[side].append(np.concatenate(parts))
        return self._compare_d(index, issued, layout, [np.concatenate(parts, axis=1) for parts in read])

    def _load(
        self, index: int, shared: SharedMemory, world: GlobalMemory, maps: Any, majors: Any, cta: int, group: int, stage: int, k_stage: int
    ) -> None:
        first_row = (cta * ROWS, cta * (TILE_N // group) if group == 2 else 0)
        for side, (tm, major) in enumerate(zip(maps, majors, strict=True)):
            for offset, row, k in self.suite.arrays[f"boxes_{'ab'[side]}"][index].tolist():
                if offset >= 0:
                    at = (stage * k_stage + k, first_row[side] + row)
                    address = shared.begin + stage % STAGES * STAGE_BYTES + side * OPERAND_BYTES + offset
                    shared.tma_load(tm, at if major == "K" else at[::-1], smem_address=address, source=world)

    def _compare_image(self, index: int, shared: SharedMemory) -> Outcome:
        model, hardware = shared.bytes[:STAGE_BYTES], self.suite.arrays["image"][index]

        def describe(at: tuple[int, ...]) -> str:
            return f"shared {shared.begin + at[0]:#x}: hardware {hardware[at]:#04x} | model {model[at]:#04x}"

        return differ(hardware, model, RULES["tma.placement"], "bytes", describe, 16)

    def _compare_d(self, index: int, issued: Issued, layout: AccumulatorLayout, operands: list[np.ndarray]) -> Outcome:
        """D as its cells were stored: row 128 * CTA + lane, a column each. Small whole numbers, whose sums no order of them changes."""
        group = issued.cta_group
        model = np.empty((CTAS * ROWS, TILE_N), np.uint32)
        cta, lane, column = cells_of_d(layout)
        for tile in range(CTAS // group):
            a_rows = operands[0][tile * ROWS : tile * ROWS + layout.m]
            b_rows = operands[1][:TILE_N] if group == 2 else operands[1][tile * TILE_N : (tile + 1) * TILE_N]
            key = (issued.idesc.word, issued.dtype, a_rows.tobytes(), b_rows.tobytes())
            if key not in self.products:
                types: dict[str, Any] = {"a_type": issued.dtype, "b_type": issued.dtype, "d_type": issued.idesc.d_type}
                self.products[key] = multiply(a_rows, b_rows, np.zeros((layout.m, TILE_N), np.uint32), kind=issued.idesc.kind, **types)[0]
            model[(tile + cta) * ROWS + lane, column] = self.products[key]
        number = int(self.suite.arrays["d_of"][index])
        hardware = self.suite.arrays["d"][number]

        def describe(at: tuple[int, ...]) -> str:
            return f"D[{at[0]}, {at[1]}]: hardware {int(hardware[at]):#010x} | model {int(model[at]):#010x}"

        result = differ(hardware, model, RULES["arithmetic.tcgen05"], "elements of D", describe, 2)
        return result if result.differing else agree(STAGE_BYTES + model.size)
