"""What tcgen05.mma makes of numbers: D's bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.arithmetic.multiply import Factors, Options, multiply
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.diagnose.difference import Diagnosis, diagnose
from smemsim.diagnose.product import Product, Side
from smemsim.machine.tcgen05_operands import stored_k
from smemsim.spec.evidence import RULES
from smemsim.spec.formats import element_format
from smemsim.spec.tcgen05 import scale_modes
from smemsim.spec.tensor_memory import METADATA
from smemsim.traces.format import Suite
from smemsim.traces.kinds.blackwell import Issued, judged
from smemsim.traces.outcome import Case, differ

__all__ = ["Tcgen05Dot"]

ROWS, COLUMNS = 128, 16


class Tcgen05Dot:
    """128 x 16 dot products a case, bit for bit."""

    columns = {  # noqa: RUF012
        "what": 1, "kind": 1, "a": 1, "b": 1, "d": 1, "vector": 1, "ue8m0": 1, "idesc": 1, "enable_d": 1, "repeat": 1, "scale_words": 2,
        "form": 1, "group": 1, "metadata": 1, "status": 1, "completed": 1, "rows_start": 1, "columns_start": 1, "c": 3, "result": 3,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare every element; a difference says whether any datapath would have come to the model's bits."""
        a = self.suite.arrays
        i = InstrDescriptor.decode(int(a["idesc"][index]), kind=str(a["kind"][index]))
        form, group = tuple(str(a["form"][index]).split(".")), int(a["group"][index])
        issued = Issued(self.suite.arch, i, i.a_type, group, "ws" in form, form)
        probes = str(a["what"][index]).split("; ")

        def title() -> str:
            what = probes[0] if len(probes) == 1 else f"{len(probes)} probes"
            name = str(issued).partition(",")[0]
            return f"{name}, {i.a_type} x {i.b_type} to {i.d_type}, {what}"

        def model() -> tuple[np.ndarray, np.ndarray]:
            issued.check()
            return self._multiplied(index, i)

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        d, certain = found
        mask = np.uint32((1 << element_format(i.d_type).bits) - 1)
        hardware = a["result"][index] & mask

        def describe(at: tuple[int, ...]) -> str:
            m, n = at
            probe = f" ({probes[m]})" if m == n < len(probes) > 1 else ""
            rounding = "" if certain[at] else ", which depends on rounding"
            return f"D[{m}, {n}]{probe}: hardware {int(hardware[at]):#x} | model {int(d[at]):#x}{rounding}"

        return Case(
            title, differ(hardware, d, RULES["arithmetic.tcgen05"], "elements of D", describe, 1), lambda: self._explain(index, i, hardware)
        )

    def _explain(self, index: int, i: InstrDescriptor, hardware: np.ndarray) -> Diagnosis:
        """What the difference looks like, of instructions that are not sparse."""
        if i.sparsity:
            return Diagnosis("unknown", ("sparse instructions are not looked into",))
        a, times = self.suite.arrays, int(self.suite.arrays["repeat"][index])
        a_side, b_side = (
            Side(np.stack([self.suite.ragged(name, index).reshape(lines, i.k)] * times))
            for name, lines in (("rows", ROWS), ("columns", COLUMNS))
        )
        c = a["c"][index].astype(np.uint32) * np.uint32(bool(a["enable_d"][index]))
        factors = self._factors(index, i)
        options = Options(i.negate_a, i.negate_b, 0, i.saturate)
        types = (i.a_type, i.b_type, i.d_type)
        return diagnose(Product(i.kind, types, a_side, b_side, c, options, (factors,) * times if factors else None), hardware)

    def _multiplied(self, index: int, i: InstrDescriptor) -> tuple[np.ndarray, np.ndarray]:
        """D as often as it is added to, and where every step of that is certain."""
        a = self.suite.arrays
        stored = i.k // 2 if i.sparsity else i.k
        rows, columns = self.suite.ragged("rows", index).reshape(ROWS, stored), self.suite.ragged("columns", index).reshape(COLUMNS, i.k)
        c = a["c"][index].astype(np.uint32)
        given: dict[str, Any] = {name: getattr(i, name) for name in ("a_type", "b_type", "d_type", "negate_a", "negate_b", "saturate")}
        given["factors"] = self._factors(index, i)
        if i.sparsity:  # the same four bits of metadata everywhere
            nibbles = np.full(stored, int(a["metadata"][index]) & 0xF)
            given["index"] = np.broadcast_to(stored_k(np.arange(stored), nibbles, METADATA[i.kind].chunk), rows.shape)
        adds_c = bool(a["enable_d"][index])
        if not adds_c:
            c = np.zeros_like(c)
        certain = np.ones(c.shape, bool)
        for _ in range(int(a["repeat"][index])):
            c, sure = multiply(rows, columns, c, kind=i.kind, adds_c=adds_c, **given)
            adds_c = True
            certain &= sure
        return c, certain

    def _factors(self, index: int, i: InstrDescriptor) -> Factors | None:
        """The same word of scale factors in every lane and column: byte b is that of block b."""
        if not i.row.block_scaled:
            return None
        [mode] = scale_modes(i.row, wide_k=False, asked=str(self.suite.arrays["vector"][index]).removeprefix("."))
        word = self.suite.arrays["scale_words"][index].astype("<u4").view(np.uint8).reshape(2, 4)[:, : mode.scales]
        a, b = (np.broadcast_to(one, (count, mode.scales)) for one, count in zip(word, (ROWS, COLUMNS), strict=True))
        return Factors(a, b, str(i.scale_type), i.k // mode.scales)
