"""Streams and events: what is issued has run when its call returns, so they keep what a program asks of them, and the
graph under capture.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.graphs import Graph, Node

__all__ = ["Event", "Stream", "StreamOrder"]


NON_BLOCKING = 1  # CUstream_flags
SYNCHRONIZATION_POLICY, PRIORITY = 3, 8  # CUlaunchAttributeID
POLICIES = range(1, 5)  # CUsynchronizationPolicy
# Values of attributes with their sizes, and the defaults of an H100: an access policy window, a policy, a priority,
# the domains of default and remote accesses, a domain.
ATTRIBUTES = {1: bytes(32), SYNCHRONIZATION_POLICY: b"\xff" * 4, PRIORITY: bytes(4), 9: bytes((0, 1)), 10: bytes(4)}


class Stream:
    """A queue of the device. Everything issued to it has run, unless it is being captured into a graph (`graph`)."""

    def __init__(self, priority: int = 0, flags: int = 0, *, is_default: bool = False) -> None:
        self.priority, self.flags, self.is_default = priority, flags, is_default
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


Point: TypeAlias = "dict[Stream | None, int]"  # by stream: how many of its operations are complete


class StreamOrder:
    """Which operations of streams a card completes before others; None is the default stream.

    An operation comes after earlier ones of its stream, after events that its stream waits for, and after all that the
    host has waited for. The default stream and blocking streams wait for each other (CUDA C++ Programming Guide,
    "Default Stream").

    >>> order, one, other = StreamOrder(), Stream(), Stream()
    >>> order.issue(one), order.issue(one), order.issue(other)
    (False, False, True)
    >>> order.host_waits(one)
    >>> order.issue(other)
    False
    """

    def __init__(self) -> None:
        self._issued: Point = {}
        self._known: dict[Stream | None, Point] = {}
        self._by_host: Point = {}
        self.is_beside = False  # the answer for the last operation

    def issue(self, stream: Stream | None) -> bool:
        """An operation is issued. May earlier operations of other streams still run?"""
        known = self.point(stream)
        self.is_beside = any(count > known.get(other, 0) for other, count in self._issued.items() if other is not stream)
        self._issued[stream] = known[stream] = self._issued.get(stream, 0) + 1
        self._known[stream] = known
        return self.is_beside

    def point(self, stream: Stream | None) -> Point:
        """What is complete when all that a stream has now is complete."""
        found: Point = {}
        before = [other for other in self._issued if _wait_for_each_other(stream, other)]
        for known in (self._known.get(stream, {}), self._by_host, *(self._known[other] for other in before)):
            _join(found, known)
        return found

    def waits(self, stream: Stream | None, point: Point) -> None:
        """Later operations of a stream come after a point."""
        _join(self._known.setdefault(stream, {}), point)

    def host_waits(self, stream: Stream | None) -> None:
        """The host has waited for a stream, or for all streams (None)."""
        _join(self._by_host, self._issued if stream is None else self.point(stream))

    def host_waits_for(self, point: Point) -> None:
        """The host has waited for an event."""
        _join(self._by_host, point)


def _join(point: Point, other: Point) -> None:
    for stream, count in other.items():
        point[stream] = max(count, point.get(stream, 0))


def _wait_for_each_other(one: Stream | None, other: Stream | None) -> bool:
    """Is one of them the default stream, and the other one blocking?"""
    are_default = [x is None or x.is_default for x in (one, other)]
    return any(are_default) and not any(x is not None and x.flags & NON_BLOCKING for x in (one, other))


class Event:
    """A point in a stream: when it was last recorded, in seconds, None before that."""

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags
        self.time: float | None = None
        self.captured: tuple[Graph, list[Node]] | None = None
        self.point: Point = {}
