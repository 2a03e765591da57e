"""Calls: streams, events, and captures of streams."""

from __future__ import annotations

import functools

from smemsim.virtual.calls.handles import SIGNED, Handles
from smemsim.virtual.errors import CAPTURE_UNSUPPORTED, ILLEGAL_STATE, CudaError
from smemsim.virtual.graphs import Graph
from smemsim.virtual.streams import Event, Stream

__all__ = ["StreamCalls"]


class StreamCalls(Handles):
    """Streams and events."""

    def stream_create(self, flags: int, priority: int) -> int:
        self.device.check()
        return self._keep(Stream(min(0, max(-5, priority - (priority & SIGNED) * 2)), flags))

    def stream_destroy(self, stream: int) -> None:
        self._of(stream, Stream)
        del self._objects[stream]

    def stream_wait(self, stream: int, event: int) -> None:
        self.device.wait(self._stream(stream), self._of(event, Event))

    def stream_info(self, stream: int) -> tuple[int, int]:
        found = self._stream(stream)
        return (found.priority, found.flags) if found is not None else (0, 0)

    def stream_attribute(self, stream: int, attribute: int) -> bytes:
        return (self._stream(stream) or self._default).attribute(attribute)

    def stream_set_attribute(self, stream: int, attribute: int, value: bytes) -> None:
        (self._stream(stream) or self._default).set_attribute(attribute, value)

    def stream_copy_attributes(self, to: int, other: int) -> None:
        (self._stream(to) or self._default).copy_attributes(self._stream(other) or self._default)

    @functools.cached_property
    def _default(self) -> Stream:
        """Has the attributes of the default stream."""
        return Stream()

    def event_create(self, flags: int) -> int:
        self.device.check()
        return self._keep(Event(flags))

    def event_destroy(self, event: int) -> None:
        self._of(event, Event)
        del self._objects[event]

    def event_record(self, event: int, stream: int) -> None:
        self.device.record(self._of(event, Event), self._stream(stream))

    def event_synchronize(self, event: int) -> None:
        self.device.wait_for(self._of(event, Event))

    def event_elapsed(self, begin: int, end: int) -> int:
        return round(1000 * self.device.elapsed(self._of(begin, Event), self._of(end, Event)))

    def capture_begin(self, stream: int, mode: int) -> None:
        found = self._stream(stream)
        if found is None:
            raise CudaError(CAPTURE_UNSUPPORTED, "the null stream cannot be captured")
        self.device.begin_capture(found, mode)

    def capture_to(self, stream: int, graph: int, mode: int) -> None:
        self.device.begin_capture(self._of(stream, Stream), mode, self._of(graph, Graph))

    def capture_end(self, stream: int) -> int:
        streams = [kept for kept in self._objects.values() if isinstance(kept, Stream)]
        return self._handle_of(self.device.end_capture(self._of(stream, Stream), streams))

    def capture_status(self, stream: int) -> tuple[int, int]:
        found = self._stream(stream)
        if found is None or found.graph is None:
            return 0, 0
        return 2 if found.is_broken else 1, self._handle_of(found.graph)

    def capture_nodes(self, stream: int, count: int) -> tuple[int, bytes]:
        """The nodes after which the next node of a stream under capture runs."""
        found = self._stream(stream)
        return self._told_of([] if found is None else found.last, count)

    def capture_after(self, stream: int, after: bytes, is_all: int) -> None:
        """Say what the next node of a stream under capture runs after: that and no more, or that too."""
        found = self._of(stream, Stream)
        if found.graph is None:
            raise CudaError(ILLEGAL_STATE, "the stream is not captured")
        found.last = list(dict.fromkeys([*(() if is_all else found.last), *self._nodes(after)]))
