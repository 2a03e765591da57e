"""Streams and events: what is issued has run when its call returns, so they keep what a program asks of them, and the
graph under capture.
"""

from __future__ import annotations

import struct

from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.graphs import Graph, Node

__all__ = ["Event", "Stream"]


SYNCHRONIZATION_POLICY, PRIORITY = 3, 8  # CUlaunchAttributeID
POLICIES = range(1, 5)  # CUsynchronizationPolicy
# Values of attributes with their sizes, and the defaults of an H100: an access policy window, a policy, a priority,
# the domains of default and remote accesses, a domain.
ATTRIBUTES = {1: bytes(32), SYNCHRONIZATION_POLICY: b"\xff" * 4, PRIORITY: bytes(4), 9: bytes((0, 1)), 10: bytes(4)}


class Stream:
    """A queue of the device. Everything issued to it has run, unless it is being captured into a graph (`graph`)."""

    def __init__(self, priority: int = 0, flags: int = 0) -> None:
        self.priority, self.flags = priority, flags
        self.graph: Graph | None = None
        self.last: list[Node] = []  # of the graph: what the next node runs after
        self.is_origin = False
        self.is_broken = False
        self.mode = 0
        self._attributes = dict(ATTRIBUTES)

    def attribute(self, number: int) -> bytes:
        """The value of an attribute, as it was set last; it changes nothing here. CudaError 1 where streams have none
        of this number.
        """
        if number not in ATTRIBUTES:
            raise CudaError(INVALID_VALUE)
        return struct.pack("<i", self.priority) if number == PRIORITY else self._attributes[number]

    def set_attribute(self, number: int, value: bytes) -> None:
        """Give an attribute a value."""
        value = value[: len(self.attribute(number))]
        if number == PRIORITY:
            (self.priority,) = struct.unpack("<i", value)
        if number == SYNCHRONIZATION_POLICY and int.from_bytes(value, "little") not in POLICIES:
            raise CudaError(INVALID_VALUE)
        self._attributes[number] = value

    def copy_attributes(self, other: Stream) -> None:
        """Take over those of another stream."""
        self.priority, self._attributes = other.priority, dict(other._attributes)


class Event:
    """A point in a stream: when it was last recorded, in seconds, None before that."""

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags
        self.time: float | None = None
        self.captured: tuple[Graph, list[Node]] | None = None
