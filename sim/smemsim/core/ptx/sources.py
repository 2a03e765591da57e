"""Which line of the source the author of a kernel knows an instruction by."""

from __future__ import annotations

import re
from collections.abc import Iterable

from smemsim.core.ptx.module import Instruction, Location

__all__ = ["Sources"]


_LIBRARY = re.compile(
    r"/(site|dist)-packages/|/triton/language/|/include/(cute|cutlass|cuda|thrust|cub|cccl|crt)/|/usr/(local/)?(include|lib)|/targets/[^/]+/include/"
)
WRAPPER_LINES = 3  # lines of a function that does no more than wrap an instruction


class Sources:
    """Which line of the source a kernel author knows an instruction by: that of the call where a function only wraps
    an instruction, or is a library's.

    The functions that compilers inlined are those of `.loc … inlined_at`; one of at most three lines that hold
    instructions, at some call, counts as a wrapper there.
    """

    def __init__(self, body: Iterable[Instruction]) -> None:
        # by the place of a call: the lines of the function that was inlined there
        self._lines: dict[Location, set[tuple[str, int]]] = {}
        # the place of a function's inlined call, by its file and name
        self._calls: dict[tuple[str, str], set[Location]] = {}
        self._locations = [*{id(i.location): i.location for i in body if i.location is not None}.values()]
        for location in self._locations:
            for inner in location.chain:
                if inner.caller is not None:
                    self._lines.setdefault(inner.caller, set()).add((inner.file, inner.line))
                    self._calls.setdefault((inner.file, inner.function), set()).add(inner.caller)

    def place(self, location: Location) -> Location:
        """The place of an instruction with this location, with its own callers."""
        own = [place for place in location.chain if not _LIBRARY.search(place.file)]
        for place in own or [location]:
            if place.caller is None or _LIBRARY.search(place.caller.file) or len(self._lines.get(place.caller, ())) > WRAPPER_LINES:
                return place
        return (own or [location])[-1]

    def function(self, place: Location | None) -> tuple[str, str] | None:
        """The file and the name of the function with this line, if it was inlined in several places."""
        if place is None or place.caller is None or not place.function:
            return None
        function = place.file, place.function
        return function if len(self._calls.get(function, ())) > 1 else None

    def note(self) -> None:
        """Let each location know its place, for the sentences of findings."""
        for location in self._locations:
            if (place := self.place(location)) is not location:
                location.note_place(place)
