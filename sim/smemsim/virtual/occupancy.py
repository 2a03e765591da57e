"""How many CTAs and clusters a card holds at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smemsim.core.spec.cards import SHARED_UNIT
from smemsim.core.spec.launches import DEFAULT_SHARED, LAUNCH_LIMITS, PORTABLE_CLUSTER
from smemsim.core.spec.occupancy import cta_fit
from smemsim.virtual.clusters import cluster_of
from smemsim.virtual.errors import INVALID_CLUSTER, INVALID_VALUE, CudaError

if TYPE_CHECKING:
    from smemsim.core.spec.cards import Card
    from smemsim.virtual.code import Function

__all__ = ["Occupancy"]


class Occupancy:
    """The answers of a card that has so many multiprocessors."""

    def __init__(self, card: Card, multiprocessors: int) -> None:
        self.card, self.multiprocessors = card, multiprocessors

    def blocks_per_multiprocessor(self, function: Function, threads: int, shared_bytes: int) -> int:
        """CTAs that a multiprocessor holds at once. Registers count where a directive says how many there are at most.

        >>> from smemsim.virtual import Policy, VirtualDevice
        >>> device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
        >>> kernel = device.load(".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }").function("k")
        >>> [device.occupancy.blocks_per_multiprocessor(kernel, *x) for x in ((32, 0), (128, 0), (1024, 0), (128, 40000), (96, 100))]
        [32, 16, 2, 5, 21]
        """
        if not 0 < threads <= LAUNCH_LIMITS.threads:  # measured (H200): .reqntid and .maxntid do not count
            return 0
        if shared_bytes > max(function.dynamic_limit, DEFAULT_SHARED - function.static_shared):  # measured (H200)
            return 0
        registers = function.registers if "maxnreg" in function.directives else None
        return cta_fit(self.card, threads, function.static_shared + shared_bytes, registers).most

    def shared_available(self, function: Function, blocks: int, threads: int) -> int:
        """The most dynamic shared memory with which a multiprocessor holds so many CTAs, and that the function may
        have.

        Measured on an H200: the bytes that the system keeps of each CTA count only for whether so many fit at all.
        """
        if not 0 < blocks <= self.blocks_per_multiprocessor(function, threads, 0):
            raise CudaError(INVALID_VALUE, f"{blocks} CTAs of {threads} threads: a multiprocessor does not hold so many")
        share = self.card.named("max_shared_memory_per_multiprocessor") // blocks // SHARED_UNIT * SHARED_UNIT
        return max(0, min(share - function.static_shared, function.dynamic_limit))

    def active_clusters(self, function: Function, threads: int, shared_bytes: int, cluster: tuple[int, int, int]) -> int:
        """The result of cudaOccupancyMaxActiveClusters. (0, 0, 0): the launch has no cluster attribute. CudaError for
        clusters that a launch refuses.

        >>> from smemsim.virtual import Policy, VirtualDevice
        >>> device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
        >>> kernel = device.load(".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }").function("k")
        >>> [device.occupancy.active_clusters(kernel, 1024, 0, shape) for shape in ((0, 0, 0), (4, 1, 1), (2, 2, 2))]
        [264, 62, 30]
        """
        if threads <= 0:
            raise CudaError(INVALID_VALUE, f"{threads} threads")
        found = cluster_of(function, cluster)
        return self.clusters_at_once(function, threads, shared_bytes, math.prod(found or (1,)))

    def clusters_at_once(self, function: Function, threads: int, shared_bytes: int, cluster: int) -> int:
        """Clusters of so many CTAs that the card holds at once: each lies within one GPC."""
        each = self.blocks_per_multiprocessor(function, threads, shared_bytes)
        if cluster > (LAUNCH_LIMITS.cluster if function.allows_large_clusters else PORTABLE_CLUSTER):
            if function.allows_large_clusters:
                return 0
            raise CudaError(INVALID_CLUSTER, f"clusters of {cluster} CTAs need cudaFuncAttributeNonPortableClusterSizeAllowed")
        found = self.card.clusters_at_once(max(cluster, 1), each)
        return found * self.multiprocessors // self.card.named("multiprocessor_count")
