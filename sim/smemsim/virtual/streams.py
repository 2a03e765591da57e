"""Streams and events: what is issued has run when its call returns, so they keep what a program asks of them, and the graph under capture."""

from __future__ import annotations

import struct

from smemsim.virtual.graphs import Graph, Node

__all__ = ["Event", "Stream"]


VALUE = 64  # bytes of an attribute's value
SYNCHRONIZATION_POLICY, PRIORITY, SYNC_DOMAINS = 3, 8, 9  # CUlaunchAttributeID
AUTO = 1  # CUsynchronizationPolicy


class Stream:
    """A queue of the device. Everything issued to it has run, unless it is being captured into a graph (`graph`)."""

    def __init__(self, priority: int = 0, flags: int = 0) -> None:
        self.priority, self.flags = priority, flags
        self.graph: Graph | None = None
        self.last: list[Node] = []  # of the graph: what the next node runs after
        self.is_origin = False
        self.is_broken = False
        self.mode = 0
        self._attributes = {
            SYNCHRONIZATION_POLICY: struct.pack("<I", AUTO),
            SYNC_DOMAINS: bytes((0, 1)),
        }  # which of default and remote accesses

    def attribute(self, number: int) -> bytes:
        """The value of an attribute, as it was set last; it changes nothing here."""
        value = struct.pack("<i", self.priority) if number == PRIORITY else self._attributes.get(number, b"")
        return value.ljust(VALUE, b"\0")

    def set_attribute(self, number: int, value: bytes) -> None:
        """Give an attribute a value."""
        if number == PRIORITY:
            (self.priority,) = struct.unpack_from("<i", value)
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
