"""Streams and events: what is issued has run when its call returns, so they keep what a program asks of them, and the graph under capture."""

from __future__ import annotations

from smemsim.virtual.graphs import Graph, Node

__all__ = ["Event", "Stream"]


class Stream:
    """A queue of the device. Everything issued to it has run, unless it is being captured into a graph (`graph`)."""

    def __init__(self, priority: int = 0, flags: int = 0) -> None:
        self.priority, self.flags = priority, flags
        self.graph: Graph | None = None
        self.last: list[Node] = []  # of the graph: what the next node runs after
        self.is_origin = False
        self.is_broken = False
        self.mode = 0


class Event:
    """A point in a stream: when it was last recorded, in seconds, None before that."""

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags
        self.time: float | None = None
        self.captured: tuple[Graph, list[Node]] | None = None
