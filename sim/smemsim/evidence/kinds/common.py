"""Common parts of the comparisons of all kinds."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from smemsim.base.errors import HardwareTrap, TraceError
from smemsim.core.spec.evidence import RULES
from smemsim.evidence.format import Suite
from smemsim.evidence.outcome import Case, Outcome, agree

__all__ = ["FILLED", "UNTOUCHED", "Comparer", "side_by_side", "trapped"]


UNTOUCHED = -2  # `source` of a byte that the transfer left alone
MOST_BYTES = 1 << 26  # between the first and the last address of a case
FILLED = -256  # minus the byte: the transfer filled it in


class Comparer(abc.ABC):
    """Compares the cases of one suite; `columns` are the arrays it needs and their
    dimensions, the cases' own included.
    """

    columns: ClassVar[dict[str, int]]

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    @abc.abstractmethod
    def case(self, index: int) -> Case:
        """Compare one case."""


def trapped(recorded: int, rule: str, call: Callable[[], Any]) -> tuple[Any, Outcome | None]:
    """Run the model; an outcome when hardware or model trapped, which must agree on the CUDA error."""
    try:
        result, error = call(), 0
    except HardwareTrap as e:
        result, error = None, e.cuda_error
    if error == recorded:
        return result, (agree(1) if error else None)
    said = {0: "runs"}
    first = (
        f"hardware {said.get(recorded, f'traps with CUDA error {recorded}')} | model {said.get(error, f'traps with CUDA error {error}')}"
    )
    return result, Outcome(1, 1, first, (), RULES[rule], "outcome")


def side_by_side(first: int, hardware: np.ndarray, where: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(addresses, [hardware's sources, the model's]): what was recorded from `first` on,
    and what the model puts where.
    """
    begin = int(where.min()) if len(where) else first
    low = min(first, begin) if len(hardware) else begin
    high = max(first + len(hardware), int(where.max()) + 1 if len(where) else begin)
    if high - low > MOST_BYTES:
        raise TraceError(f"addresses from {low:#x} to {high:#x}: more than any transfer reaches over")
    both = np.full((2, high - low), UNTOUCHED, np.int64)
    if len(hardware):
        both[0, first - low : first - low + len(hardware)] = hardware
    both[1, where - low] = source
    return np.arange(low, high), both
