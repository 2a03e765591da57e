"""Reductions into tensors, and loads that convert: the bytes that come of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError
from smemsim.machine.values import tma_load_bytes, tma_reduce, tma_store_bytes
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.common import trapped
from smemsim.traces.kinds.transfer import COLUMNS, MODES
from smemsim.traces.outcome import Case, differ

__all__ = ["TmaLoadBytes", "TmaReduce"]


def _window(suite: Suite, index: int, fill: int) -> np.ndarray:
    """Shared memory from address 0 to the window's end, as the probe filled it."""
    end, most = int(suite.arrays["window_end"][index]), architecture(suite.arch).shared_end
    if not 0 <= end <= most:
        raise InputError(f"window_end = {end:#x}: {suite.arch} has windows up to {most:#x}")
    return np.full(end, fill, np.uint8)


def _transfer(suite: Suite, index: int) -> tuple[TensorMap, tuple[int, ...], int]:
    a = suite.arrays
    tm = TensorMap.from_bytes(a["tensor_map"][index].tobytes())
    return tm, tuple(a["coordinates"][index][: int(a["rank"][index])].tolist()), int(a["smem_address"][index])


class TmaReduce:
    """A store or reduction: operand bytes in shared memory, the tensor's surroundings before and after."""

    columns = {  # noqa: RUF012
        **COLUMNS, "tensor_map": 2, "im2col": 1, "rank": 1, "operation": 1, "region": 1, "operand_start": 1, "before_start": 1, "after_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare the trap, then every byte of the region."""
        a = self.suite.arrays
        tm, at, address = _transfer(self.suite, index)
        operation, region = str(a["operation"][index]), int(a["region"][index])
        operand, before = self.suite.ragged("operand", index), self.suite.ragged("before", index)
        shared = _window(self.suite, index, 0xC3)
        shared[address : address + len(operand)] = operand
        given: dict[str, Any] = {"smem_address": address, "shared": shared, "global_": before[-region:]}
        given |= {"mode": MODES["store", int(a["im2col"][index])], "arch": self.suite.arch}

        def run() -> np.ndarray:
            after = tma_store_bytes(tm, at, **given) if operation == "store" else tma_reduce(operation, tm, at, **given)
            return np.concatenate([before[:-region] if region else before[:0], after])

        model, outcome = trapped(int(a["status"][index]), "reduce.types", run)
        hardware, item = self.suite.ragged("after", index), tm.type_row.itemsize

        def describe(where: tuple[int, ...]) -> str:
            i = where[0] - (where[0] + region) % item
            words = [bytes(x[i : i + item])[::-1].hex() for x in (before, hardware, model)]
            return f"global + {i + region:#x}: of 0x{words[0]} hardware made 0x{words[1]} | model 0x{words[2]}"

        def title() -> str:
            return f"{operation} {tm!r}, coordinates {at}, smem_address {address:#x}"

        return Case(title, outcome or differ(hardware, model, RULES["reduce.values"], "bytes", describe, 4))


class TmaLoadBytes:
    """A load of special values: the tensor's bytes, and the shared bytes from the box's first on."""

    columns = {  # noqa: RUF012
        **COLUMNS, "tensor_map": 2, "im2col": 1, "rank": 1, "im2col_offsets": 2, "tensor_start": 1, "image_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare the trap, then every byte of the image."""
        a = self.suite.arrays
        tm, at, address = _transfer(self.suite, index)
        im2col = int(a["im2col"][index])
        offsets = tuple(a["im2col_offsets"][index][: tm.rank - 2].tolist()) if im2col else ()
        tensor, hardware = self.suite.ragged("tensor", index), self.suite.ragged("image", index)
        shared = _window(self.suite, index, 0xA5)

        def run() -> np.ndarray:
            given: dict[str, Any] = {"smem_address": address, "shared": shared, "global_": tensor, "im2col_offsets": offsets}
            return tma_load_bytes(tm, at, mode=MODES["load", im2col], arch=self.suite.arch, **given)[address : address + len(hardware)]

        model, outcome = trapped(int(a["status"][index]), "tma.traps", run)

        def describe(where: tuple[int, ...]) -> str:
            i = where[0] // 4 * 4
            words = [bytes(x[i : i + 4])[::-1].hex() for x in (hardware, model)]
            return f"shared {address + i:#x}: hardware 0x{words[0]} | model 0x{words[1]}"

        def title() -> str:
            return f"load {tm!r}, coordinates {at}, im2col_offsets {offsets}, smem_address {address:#x}"

        return Case(title, outcome or differ(hardware, model, RULES["tma.values"], "bytes", describe, 4))
