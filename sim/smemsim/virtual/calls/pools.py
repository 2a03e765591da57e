"""Calls: pools of memory, and the memory of graphs."""

from __future__ import annotations

import struct

from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.pools import Pool

__all__ = ["PoolCalls", "pool_of"]


# CUmemPool_attribute: what may be reused, and the bytes that are kept; their values at first
POOL_FLAGS = {1: 1, 2: 1, 3: 1, 4: 0}
POOL_SIZES = {5: "reserved", 6: "most_reserved", 7: "used", 8: "most_used"}  # of a Pool
GRAPH_SIZES = {0: "used", 1: "most_used", 2: "reserved", 3: "most_reserved"}  # CUgraphMem_attribute
MANAGED = 2  # CUmemAllocationType


class PoolCalls(Handles):
    """Pools."""

    def allocate_from_pool(self, size: int, where: str, pool: int, stream: int) -> int:
        return self.device.allocate_async(size, self._stream(stream), pool=self._of(pool, Pool), where=where)

    def pool_create(self, props: bytes) -> int:
        self.device.check()
        return self._keep(pool_of(props))

    def pool_default(self, kind: int, place: int) -> int:
        return self._handle_of(self.device.pools.defaults[_kind_of(kind, place)])

    def pool_current(self) -> int:
        return self._handle_of(self.device.pools.current)

    def pool_use(self, pool: int) -> None:
        self.device.pools.current = self._of(pool, Pool)

    def pool_destroy(self, pool: int) -> None:
        found = self._of(pool, Pool)
        if found in self.device.pools.defaults.values():
            raise CudaError(INVALID_VALUE, "a default pool is not destroyed")
        if self.device.pools.current is found:
            self.device.pools.current = self.device.pools.defaults["device"]
        del self._objects[pool]

    def pool_at(self, address: int) -> int:
        found = self.device.allocation(address)
        pool = self.device.pools.of(found.address) if found is not None else None
        return 0 if pool is None else self._handle_of(pool)

    def pool_attribute(self, pool: int, number: int) -> int:
        found = self._of(pool, Pool)
        if number not in POOL_FLAGS and number not in POOL_SIZES:
            raise CudaError(INVALID_VALUE, f"memory pools have no attribute {number} here")
        return int(getattr(found, POOL_SIZES[number])) if number in POOL_SIZES else found.values.get(number, POOL_FLAGS[number])

    def set_pool_attribute(self, pool: int, number: int, value: int) -> None:
        found = self._of(pool, Pool)
        if number in POOL_FLAGS:
            found.values[number] = value
        elif POOL_SIZES.get(number, "").startswith("most") and not value:
            found.reset_most(POOL_SIZES[number])
        else:
            raise CudaError(INVALID_VALUE, f"attribute {number} of a memory pool cannot be set to {value}")

    def graph_memory(self, number: int) -> int:
        if number not in GRAPH_SIZES:
            raise CudaError(INVALID_VALUE, f"the memory of graphs has no attribute {number}")
        return int(getattr(self.device.pools.graphs, GRAPH_SIZES[number]))

    def set_graph_memory(self, number: int, value: int) -> None:
        if value or not GRAPH_SIZES.get(number, "").startswith("most"):
            raise CudaError(INVALID_VALUE, "high watermarks of the memory of graphs can be set to 0, and nothing else")
        self.device.pools.graphs.reset_most(GRAPH_SIZES[number])

    def trim_graph_memory(self) -> None:
        self.device.pools.graphs.trim()


def _kind_of(kind: int, place: int) -> str:
    """Of CUmemAllocationType and CUmemLocationType: what memory a pool has."""
    if kind not in (1, 2) or place > 4:
        raise CudaError(INVALID_VALUE, f"a pool of allocations of type {kind} at a place of type {place}")
    return "managed" if kind == MANAGED else "device" if place <= 1 else "pinned"


def pool_of(props: bytes) -> Pool:
    """Of CUmemPoolProps."""
    kind, _, place, _, _, most = struct.unpack_from("<iiiiQQ", props)
    return Pool(_kind_of(kind, place), most)
