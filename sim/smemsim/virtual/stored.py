"""Accesses of the host to memory that holds uninitialised values. They are garbage of `core/machine/uninitialised.py`,
or values that kernels have stored (`core/machine/stored_taint.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import GlobalMemory

__all__ = ["HostTaint"]


class HostTaint:
    """Passes on copies and writes of the host. The function `memory` returns the card's memory, None before it is used.
    The function `made` makes it. After a use of an uninitialised value, `found` is called.
    """

    def __init__(self, memory: Callable[[], GlobalMemory | None], found: Callable[[], None], made: Callable[[], GlobalMemory]) -> None:
        self._memory, self._found, self._made = memory, found, made

    @property
    def memory(self) -> GlobalMemory | None:
        """The card's memory, if there are such values in it."""
        found = self._memory()
        return found if found is not None and found.taint else None

    def gives(self, address: int, shape: Sequence[int], strides: Sequence[int], size: int, by: str) -> None:
        """The host gets elements of `size` bytes, as many as `shape` has; strides are in bytes. `by` names the call in
        the finding.
        """
        if (memory := self.memory) is None or 0 in shape:
            return
        from smemsim.core.finding import Half
        from smemsim.core.machine.stored_taint import strided

        end = address + sum((count - 1) * stride for count, stride in zip(shape, strides, strict=True)) + size
        if memory.taint.use(address, end, Half("use", by), strided(shape, strides, size)):
            self._found()

    def wrote(self, address: int, size: int) -> None:
        """The host has written bytes."""
        if (memory := self.memory) is not None:
            memory.taint.wrote(address, address + size)

    def moved(self, to: int, source: int, size: int) -> None:
        """Bytes have been copied from one address to another, one of which is the card's."""
        if (memory := self.memory) is not None:
            memory.moved(to, source, size)

    def moved_garbage(self, to: int, source: int, size: int) -> None:
        """Bytes of one allocation of the card have been copied to another one."""
        self._made().moved_garbage(to, source, size)

    def marked(self, address: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The bytes with uninitialised values from an address on, by their distance from it, and the marks of these."""
        memory = self.memory
        if memory is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        found: tuple[np.ndarray, np.ndarray] = memory.taint.marked(address, address + size)
        return found

    def becomes(self, address: int, size: int, offsets: np.ndarray, numbers: np.ndarray, *, element: int) -> None:
        """The host has written elements of `element` bytes to some of `size` bytes, at these distances; they have these
        marks, or none (0).
        """
        memory = self.memory
        region = None if memory is None else memory.holding(address, address + size)
        if memory is None or region is None:
            return
        at = offsets + (address - region.words_begin)
        memory.taint.clear(region.words, at[numbers == 0], element)
        memory.taint.put(region, at[numbers != 0], element, numbers[numbers != 0])

    def uses(self, numbers: Iterable[int], by: str, *, are_pads: bool = False) -> None:
        """The host uses values with these marks. `by` names the call in the finding. `are_pads`: they lie as padding
        does.
        """
        from smemsim.core.finding import Half

        if (memory := self.memory) is not None and memory.taint.use_numbers(tuple(numbers), Half("use", by), are_pads=are_pads):
            self._found()

    def copied(self, offsets: Mapping[int, np.ndarray], by: str) -> None:
        """The host has got values with these marks: by mark, the distances of their bytes from the first one that it
        got.
        """
        from smemsim.core.finding import Half

        if (memory := self.memory) is not None and offsets:
            numbers = np.repeat(np.array(list(offsets), np.int32), [len(own) for own in offsets.values()])
            if memory.taint.copied(np.concatenate(list(offsets.values())), numbers, Half("use", by)):
                self._found()
