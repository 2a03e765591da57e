"""Common parts of all calls. Handles are numbers, and stand for objects of the device."""

from __future__ import annotations

import struct
from typing import Any, Protocol, TypeVar

from smemsim.virtual.device import VirtualDevice
from smemsim.virtual.errors import DESTROYED, INVALID_HANDLE, CudaError
from smemsim.virtual.graphs import Node
from smemsim.virtual.streams import Stream

__all__ = ["DEFAULT_STREAMS", "SIGNED", "CallingHost", "Handles", "Kept"]


DEFAULT_STREAMS = (0, 1, 2)  # the null stream, and those that cuda.h calls legacy and per-thread
SIGNED = 1 << 63
Kept = TypeVar("Kept")


class CallingHost(Protocol):
    """The questions of calls to the program's process."""

    def call(self, function: int, data: int) -> None:
        """Call a function of it."""

    def call_back(self, function: int, stream: int, data: int) -> None:
        """Call a stream's callback."""

    def materialize(self) -> None:
        """All copies and calls so far have been made."""


class Handles:
    """The device, the program's process, and what was given a handle."""

    device: VirtualDevice
    host: CallingHost
    is_running = False  # is a kernel executed?

    def __init__(self, first: int = 0x1000) -> None:
        self._objects: dict[int, Any] = {}
        self._next = first
        self._gone = 0  # the last handle of before a reset

    def _keep(self, made: Any) -> int:
        self._next += 16
        self._objects[self._next] = made
        return self._next

    def _of(self, handle: int, kind: type[Kept]) -> Kept:
        found = self._objects.get(handle)
        if not isinstance(found, kind):
            raise CudaError(DESTROYED if 0 < handle <= self._gone else INVALID_HANDLE, f"{handle:#x} is no {kind.__name__.lower()}")
        return found

    def _stream(self, handle: int) -> Stream | None:
        return None if handle in DEFAULT_STREAMS else self._of(handle, Stream)

    def _handle_of(self, thing: Any) -> int:
        return next((handle for handle, kept in self._objects.items() if kept is thing), 0) or self._keep(thing)

    def _nodes(self, raw: bytes) -> list[Node]:
        return [self._of(handle, Node) for (handle,) in struct.iter_unpack("<Q", raw)]

    def _told_of(self, nodes: list[Node], count: int) -> tuple[int, bytes]:
        return (min(count, len(nodes)) if count else len(nodes)), b"".join(struct.pack("<Q", self._handle_of(n)) for n in nodes[:count])
