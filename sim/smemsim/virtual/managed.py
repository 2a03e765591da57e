"""Advice about managed memory: cudaMemAdvise and prefetches. It has no effect here; queries return it.

>>> advice = Advice()
>>> advice.say(0x1000, 0x1000, 64, {"is_read_mostly": True})
>>> advice.of(0x1000, 0x1000, 64, "is_read_mostly"), advice.of(0x1000, 0x1000, 128, "is_read_mostly")
(True, None)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Advice"]


class Advice:
    """The advice for ranges of allocations; the last one counts. An allocation is known by its address."""

    def __init__(self) -> None:
        self._said: dict[int, list[tuple[int, int, str, Any]]] = {}

    def say(self, allocation: int, begin: int, size: int, values: Mapping[str, Any]) -> None:
        """Something of `size` bytes from `begin` on."""
        kept = self._said.setdefault(allocation, [])
        for key, value in values.items():
            kept[:] = [x for x in kept if x[2] != key or x[0] < begin or x[1] > begin + size]
            kept.append((begin, begin + size, key, value))

    def of(self, allocation: int, begin: int, size: int, key: str) -> Any:
        """The advice for all these bytes; None if there is none, or if it differs."""
        said = [x for x in self._said.get(allocation, ()) if x[2] == key and x[0] < begin + size and begin < x[1]]
        edges = sorted({begin, *(edge for x in said for edge in x[:2] if begin < edge < begin + size)})
        found = [next((x[3] for x in reversed(said) if x[0] <= edge < x[1]), None) for edge in edges]
        return found[0] if all(value == found[0] for value in found) else None

    def forget(self, allocation: int) -> None:
        """It is freed."""
        self._said.pop(allocation, None)
