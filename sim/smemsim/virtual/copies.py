"""Copies between host and device, and fills: what cudaMemcpy and cudaMemset do."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.machine.uninitialised import Garbage
from smemsim.virtual.errors import INVALID_DIRECTION, INVALID_PITCH, INVALID_VALUE, CudaError
from smemsim.virtual.graphs import Node

if TYPE_CHECKING:
    from smemsim.virtual.host import Host
    from smemsim.virtual.memory import Allocation, DeviceMemory
    from smemsim.virtual.stored import HostTaint

__all__ = ["Copies"]


FILLED = "destination of a fill"
MOST_UNWRITTEN = 3  # allocations for which the remark on unwritten bytes copied to the host is printed
LOOKED_AT = 1 << 20  # bytes of such a copy that are looked at


class Copies:
    """Makes the nodes of copies and fills. The function `asked_for` finds the allocation that holds an address of the
    card. Unless it `is_quiet`, `tell` prints what a program copies to the host although nothing has written it. Copied
    values are passed to `taint`.
    """

    def __init__(
        self,
        memory: DeviceMemory,
        host: Host,
        asked_for: Callable[[int], Allocation | None],
        tell: Callable[[str], None],
        is_quiet: Callable[[], bool],
        taint: HostTaint,
    ) -> None:
        self.taint = taint
        self.memory, self.host, self.asked_for, self.tell, self.is_quiet = memory, host, asked_for, tell, is_quiet
        # numbers of allocations for which the remark on unwritten bytes copied to the host was printed
        self._unwritten: set[int] = set()

    def copy(self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int) -> Node:
        """Copies `height` rows of `width` bytes, which lie a pitch apart; `kind` is cudaMemcpyKind."""
        if height == 1:
            to_pitch = source_pitch = width
        if width > to_pitch or width > source_pitch:
            raise CudaError(INVALID_PITCH, f"rows of {width} bytes, pitches of {to_pitch} and {source_pitch}")
        for address, pitch, on_device, what in (
            (to, to_pitch, kind in (1, 3), "destination"),
            (source, source_pitch, kind in (2, 3), "source"),
        ):
            self._check(address, pitch * (height - 1) + width, on_device, what)
        if kind > 4:
            raise CudaError(INVALID_DIRECTION, f"kind = {kind}: cudaMemcpyKind has 0 to 4")

        def run() -> None:
            self._tell_unwritten(to, source, width)
            if to_pitch == source_pitch == width:
                self._move(to, source, width * height)
            else:
                for n in range(height):
                    self._move(to + n * to_pitch, source + n * source_pitch, width)
            self._pass_on(to, to_pitch, source, source_pitch, width, height)

        return Node("memcpy", run, {"given": (to, to_pitch, source, source_pitch, width, height)})

    def _pass_on(self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int) -> None:
        """Uninitialised values go with the bytes that were copied."""
        sides = [self.memory.at(to), self.memory.at(source)]
        if all(side is not None and side.is_littered for side in sides):
            for n in range(height):
                self.taint.moved_garbage(to + n * to_pitch, source + n * source_pitch, width)
        if self.taint.memory is not None:
            for n in range(height):
                self.taint.moved(to + n * to_pitch, source + n * source_pitch, width)
            target = self.memory.at(to)
            # loads of constants are not followed
            by = "a copy to the host" if target is None or target.is_on_host else "a copy to a variable" * (target.kind == "own")
            if by:
                self.taint.gives(source, (height, width), (source_pitch, 1), 1, by)

    def fill(self, to: int, pitch: int, value: int, width: int, count: int, height: int) -> Node:
        """Sets `height` rows of `count` elements of `width` bytes, a pitch apart, to a value."""
        if width not in (1, 2, 4) or to % width:
            raise CudaError(INVALID_VALUE, f"elements of {width} bytes at {to:#x}")
        if count and height:
            self._check(to, pitch * (height - 1) + count * width, True, FILLED)
        word = (value & (1 << 8 * width) - 1).to_bytes(width, "little")

        def run() -> None:
            self.host.materialize()
            for n in range(height):
                self.memory.view(to + n * pitch, count * width).view(f"u{width}")[:] = int.from_bytes(word, "little")
                self.taint.wrote(to + n * pitch, count * width)

        return Node("memset", run, {"given": (to, pitch, value, width, count, height)})

    def _check(self, address: int, size: int, on_device: bool, what: str) -> None:
        found = self.asked_for(address) if on_device else self.memory.at(address)
        if found is None:
            if on_device or self.memory.is_ours(address) or not address:
                raise CudaError(INVALID_VALUE, f"{what} {address:#x}: no allocation is there")
            return
        if found.kind == "heap" and what != FILLED:
            raise CudaError(INVALID_VALUE, f"{what} {address:#x}: lies in the kernels' heap, which copies do not reach")
        if address + size > found.end and found.kind != "registered":
            raise CudaError(INVALID_VALUE, f"{what} {address:#x}: {size} bytes there reach past its end: {found.told()}")

    def _tell_unwritten(self, to: int, source: int, size: int) -> None:
        """Report uninitialised bytes that go to the host, once for each allocation: the program's results depend on the
        card then.
        """
        found, target = self.memory.at(source), self.memory.at(to)
        if self.is_quiet() or found is None or not found.is_littered or len(self._unwritten) == MOST_UNWRITTEN:
            return
        if found.number in self._unwritten or (target is not None and not target.is_on_host):
            return
        self.host.materialize()
        looked_at = min(size, LOOKED_AT)
        blank = Garbage(self.memory.view(found.address, found.size), found.address, 0)
        count = 4 * int(blank.words(np.arange(source - found.address, source - found.address + looked_at - 3, 4), 4).sum())
        if count:
            self._unwritten.add(found.number)
            most = f"the first {looked_at} of {size}" if looked_at < size else str(size)
            self.tell(
                f"{count} of {most} bytes that are copied to the host are uninitialised: on a card they hold earlier contents; {found.told()}"
            )

    def _move(self, to: int, source: int, size: int) -> None:
        """Copy bytes, here where both sides lie in this process."""
        sides = [self.memory.at(to), self.memory.at(source)]
        if not self.host.shares_memory and all(s is not None and s.kind != "registered" for s in sides):
            self.host.materialize()
            ctypes.memmove(to, source, size)
        else:
            self.host.copy(to, source, size)
