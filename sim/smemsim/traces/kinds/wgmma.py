"""Whole wgmma instructions: accumulator registers afterwards, from descriptors, registers and metadata."""

from __future__ import annotations

import numpy as np

from smemsim.addressing.fragments import d_column, d_element, d_row, d_thread
from smemsim.diagnose.difference import explain_difference
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaResult
from smemsim.machine.wgmma import wgmma, wgmma_registers
from smemsim.spec.evidence import RULES
from smemsim.spec.wgmma import WGMMA_M, WGMMA_THREADS
from smemsim.traces.format import Suite
from smemsim.traces.outcome import Case, Outcome, differ

__all__ = ["WgmmaMma"]


class WgmmaMma:
    """D of one wgmma in every register of every thread, bit for bit."""

    columns = {  # noqa: RUF012
        "dtype_a": 1, "dtype_b": 1, "dtype_d": 1, "n": 1, "sparse": 1, "selector": 1, "satfinite": 1, "trans_a": 1, "trans_b": 1,
        "scale_a": 1, "scale_b": 1, "scale_d": 1, "a_source": 1, "a_descriptor": 1, "b_descriptor": 1, "image": 1, "a_block": 1,
        "metadata_block": 1, "c_block": 1, "d_start": 1, "status": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.memories: dict[str, SharedMemory] = {}

    def _memory(self, name: str) -> SharedMemory:
        """A window that holds the image `image_NAME`, from its first byte on."""
        if name not in self.memories:
            shared = SharedMemory(self.suite.arch)
            shared.write(shared.begin, self.suite.arrays[f"image_{name}"], label=name)
            self.memories[name] = shared
        return self.memories[name]

    def _run(self, index: int) -> MmaResult:
        a = self.suite.arrays
        n, d_type = int(a["n"][index]), str(a["dtype_d"][index])
        before = np.ascontiguousarray(a["c_blocks"][a["c_block"][index]][:, : n // 2].astype(np.uint32))
        if d_type == "f16":
            before = before[:, 0::2] | before[:, 1::2] << np.uint32(16)
        in_registers, sparse = str(a["a_source"][index]) == "registers", bool(a["sparse"][index])
        return wgmma(
            self._memory(str(a["image"][index])),
            a["a_blocks"][a["a_block"][index]] if in_registers else int(a["a_descriptor"][index]),
            int(a["b_descriptor"][index]),
            n=n,
            a_type=str(a["dtype_a"][index]),
            b_type=str(a["dtype_b"][index]),
            d_type=d_type,
            d=before,
            scale_d=bool(a["scale_d"][index]),
            imm_scale_a=int(a["scale_a"][index]),
            imm_scale_b=int(a["scale_b"][index]),
            a_major="MN" if a["trans_a"][index] else "K",
            b_major="MN" if a["trans_b"][index] else "K",
            metadata=a["metadata_blocks"][a["metadata_block"][index]] if sparse else None,
            sparsity_selector=int(a["selector"][index]),
            satfinite=bool(a["satfinite"][index]),
        )

    def case(self, index: int) -> Case:
        """Run the instruction and compare every accumulator element of every thread."""
        a = self.suite.arrays
        types = [str(a[f"dtype_{x}"][index]) for x in "dab"]
        sparse = bool(a["sparse"][index])

        def title() -> str:
            where = str(a["a_source"][index])
            return f"wgmma{'.sp' if sparse else ''} n{int(a['n'][index])} {'.'.join(types)}, A in {where}, B {int(a['b_descriptor'][index]):#018x}"

        if a["status"][index]:
            return Case(title, Outcome(1, 1, f"hardware traps with CUDA error {a['status'][index]} | model runs", (), None, "outcome"))
        result = self._run(index)
        registers = wgmma_registers(result)
        if types[0] == "f16":
            registers = np.stack([registers & np.uint32(0xFFFF), registers >> np.uint32(16)], -1).reshape(WGMMA_THREADS, -1)
        hardware = a["d_values"][self.suite.ragged("d", index)].reshape(WGMMA_THREADS, -1)

        def describe(at: tuple[int, ...]) -> str:
            thread, element = (int(x) for x in at)
            where = f"thread {thread} d{element} = D[{d_row(thread, element)}, {d_column(thread, element)}]"
            return f"{where}: hardware {int(hardware[at]):#x} | model {int(registers[at]):#x}"

        rule = RULES["wgmma.sparse" if sparse else "wgmma.fragments"]
        outcome = differ(hardware, registers, rule, "elements of D", describe, 4)
        return Case(title, outcome, lambda: explain_difference(result, _matrix(hardware), shared=self._memory(str(a["image"][index]))))


def _matrix(registers: np.ndarray) -> np.ndarray:
    """D (64, N) of what the threads hold."""
    m, n = np.meshgrid(np.arange(WGMMA_M), np.arange(registers.shape[1] * 2), indexing="ij")
    return np.asarray(registers[d_thread(m, n), d_element(m, n)])  # type: ignore[arg-type,index]
