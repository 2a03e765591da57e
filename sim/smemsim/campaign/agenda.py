"""What is still to be done: chunk after chunk of every space, the spaces side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from smemsim.campaign.space import Space

__all__ = ["Agenda", "chunks_of"]


def chunks_of(space: Space, cases: int | None, *, endless: bool, shard: tuple[int, int]) -> range | None:
    """The chunks of a space that a shard does; None for no end. Without a number of cases: all there are, or one where cases are drawn for ever.

    >>> from smemsim.campaign.spaces import space
    >>> len(chunks_of(space("keys"), None, endless=False, shard=(1, 1))), chunks_of(space("maps"), 2000, endless=False, shard=(2, 3))
    (64, range(1, 4, 3))
    """
    number, of = shard
    most = space.chunks
    if cases is not None:
        most = min(math.ceil(cases / space.chunk_cases), most or math.inf)  # type: ignore[assignment]
    elif most is None and not endless:
        most = of  # one for each shard
    return None if most is None else range(number - 1, most, of)


class Agenda:
    """Chunks in the order in which they are begun: of the space that was given the least time so far. What a worker lost comes back."""

    def __init__(self, spaces: Sequence[Space], ranges: dict[str, range | None], done: dict[str, set[int]], step: int, first: int) -> None:
        self.left = {s.name: _missing(ranges[s.name], done[s.name], step, first) for s in spaces}
        self.lost: dict[str, list[int]] = {s.name: [] for s in spaces}
        self.spent = {s.name: 0.0 for s in spaces}
        self.mean = {s.name: 0.0 for s in spaces}
        self.finished = {s.name: 0 for s in spaces}
        self.remaining = {s.name: None if (r := ranges[s.name]) is None else len(set(r) - done[s.name]) for s in spaces}

    def next(self) -> tuple[str, int] | None:
        """(space, chunk) to begin, None when nothing is left."""
        for name in sorted(self.spent, key=lambda name: self.spent[name]):
            chunk = self.lost[name].pop() if self.lost[name] else next(self.left[name], None)
            if chunk is not None:
                self.spent[name] += self.mean[name] or 1e-3  # until it is known what it took
                return name, chunk
        return None

    def came(self, name: str, seconds: float) -> None:
        """A chunk is done, and took that long."""
        count = self.finished[name] = self.finished[name] + 1
        self.spent[name] += seconds - (self.mean[name] or 1e-3)
        self.mean[name] += (seconds - self.mean[name]) / count
        if self.remaining[name] is not None:
            self.remaining[name] -= 1  # type: ignore[operator]

    def again(self, name: str, chunk: int) -> None:
        """A chunk was lost with its worker."""
        self.lost[name].append(chunk)

    @property
    def seconds_left(self) -> float | None:
        """Worker seconds until all is done, as far as is known; None for no end."""
        known = [m for m in self.mean.values() if m]
        usual = sum(known) / len(known) if known else 0.0
        total = 0.0
        for name, count in self.remaining.items():
            if count is None:
                return None
            total += count * (self.mean[name] or usual)
        return total


def _missing(chunks: range | None, done: set[int], step: int, first: int) -> Iterator[int]:
    number = first
    while chunks is None or number in chunks:
        if number not in done:
            yield number
        number += step
