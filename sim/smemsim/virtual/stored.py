"""What the host does with memory that holds uninitialised values: garbage of `core/machine/uninitialised.py`, and what
kernels have stored (`core/machine/stored_taint.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import GlobalMemory

__all__ = ["HostTaint"]


class HostTaint:
    """Passes on copies and writes of the host. `memory` returns the card's memory, None before it is used; `made` makes
    it. `found` is called after a use of an uninitialised value.
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
