"""Pools of memory: what cudaMallocAsync and cudaMallocFromPoolAsync take memory of.

A pool says of what kind its memory is, and counts it. Memory that is given back is free at once.

>>> pool = Pool("pinned")
>>> pool.gives(0x1000, 100)
>>> pool.used, pool.reserved, pool.most_used
(100, 2097152, 100)
>>> pool.gives_back(0x1000)
>>> pool.used, pool.most_used
(0, 100)
"""

from __future__ import annotations

import dataclasses

from smemsim.core.spec.cards import MAPPING_BYTES

__all__ = ["GraphPool", "MemoryPools", "Pool"]


@dataclasses.dataclass(eq=False)
class Pool:
    """A pool of "device", "managed" or "pinned" memory; it may hold `most_bytes`, 0 without a limit. `values` are what
    was set of its attributes.
    """

    kind: str
    most_bytes: int = 0
    values: dict[int, int] = dataclasses.field(default_factory=dict)
    used: int = 0
    most_used: int = 0
    most_reserved: int = 0

    def __post_init__(self) -> None:
        self._sizes: dict[int, int] = {}

    def gives(self, address: int, size: int) -> None:
        """An allocation more."""
        self._sizes[address] = size
        self.used += size
        self.note_most()

    def note_most(self) -> None:
        """Count the present memory for the high marks."""
        self.most_used = max(self.most_used, self.used)
        self.most_reserved = max(self.most_reserved, self.reserved)

    def reset_most(self, name: str) -> None:
        """One high mark begins again with what there is now: `most_used` or `most_reserved`."""
        setattr(self, name, getattr(self, name.removeprefix("most_")))

    def gives_back(self, address: int) -> None:
        """One less."""
        self.used -= self._sizes.pop(address)

    @property
    def reserved(self) -> int:
        """Bytes that it holds: whole pieces of physical memory."""
        return _whole(self.used)


class GraphPool(Pool):
    """The memory of graphs' nodes: what is given back stays reserved for the next launch, until it is trimmed.

    >>> pool = GraphPool("device")
    >>> pool.gives(0x1000, 100)
    >>> pool.gives_back(0x1000)
    >>> pool.used, pool.reserved
    (0, 2097152)
    >>> pool.trim()
    >>> pool.reserved
    0
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._kept = 0
        self.addresses: set[int] = set()  # of all nodes: each has its own as long as there are graphs

    def gives(self, address: int, size: int) -> None:
        """An allocation, unless an earlier launch has made it already."""
        if address not in self._sizes:
            super().gives(address, size)
            self._kept = max(self._kept, self.used)
            self.note_most()

    def gives_back(self, address: int) -> None:
        """An allocation is over, if it is one of graphs."""
        if address in self._sizes:
            super().gives_back(address)

    def trim(self) -> None:
        """Give unused memory back."""
        self._kept = self.used

    @property
    def reserved(self) -> int:
        """Bytes that it holds, used or not."""
        return _whole(self._kept)


class MemoryPools:
    """The pools of a card: `defaults` by kind, `current`, of which cudaMallocAsync takes memory, and `graphs`, which
    counts what launches of graphs have taken.
    """

    def __init__(self) -> None:
        self.defaults = {kind: Pool(kind) for kind in ("device", "managed", "pinned")}
        self.current = self.defaults["device"]
        self.graphs = GraphPool("device")
        self._of: dict[int, Pool] = {}  # by addresses of allocations

    def gives(self, pool: Pool, address: int, size: int) -> None:
        """An allocation of a pool more."""
        pool.gives(address, size)
        self._of[address] = pool

    def gives_back(self, address: int) -> None:
        """An allocation is over, if it is of a pool."""
        if (pool := self._of.pop(address, None)) is not None:
            pool.gives_back(address)

    def of(self, address: int) -> Pool | None:
        """The pool of an allocation; None if it is of none."""
        return self._of.get(address)

    def reset(self) -> None:
        """All memory is given back."""
        for address in list(self._of):
            self.gives_back(address)
        self.graphs = GraphPool("device")


def _whole(size: int) -> int:
    return -(-size // MAPPING_BYTES) * MAPPING_BYTES
