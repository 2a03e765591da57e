"""How many CTAs a multiprocessor holds at once, and which resource limits them."""

from __future__ import annotations

import bisect
from typing import NamedTuple

from smemsim.core.spec.cards import REGISTER_UNIT, SHARED_UNIT, WARP_UNIT, Card
from smemsim.core.spec.ptx import WARP_SIZE

__all__ = ["CtaFit", "cta_fit", "registers_for"]


class CtaFit(NamedTuple):
    """The CTAs of one kernel that a multiprocessor holds, by resource; `registers` None if ptxas chooses them."""

    ctas: int  # that a multiprocessor holds, whatever they need
    threads: int
    shared: int
    registers: int | None = None

    @property
    def most(self) -> int:
        """How many CTAs a multiprocessor holds at once; at most so many if `registers` is None."""
        return max(0, min(n for n in self if n is not None))

    @property
    def limits(self) -> tuple[str, ...]:
        """The resources that allow no more CTAs.

        >>> CtaFit(ctas=32, threads=16, shared=2).limits
        ('shared memory',)
        """
        words = {"ctas": "CTAs", "threads": "threads", "shared": "shared memory", "registers": "registers"}
        return tuple(says for name, says in words.items() if getattr(self, name) is not None and max(getattr(self, name), 0) == self.most)


def cta_fit(card: Card, threads: int, shared_bytes: int, registers: int | None = None) -> CtaFit:
    """How many CTAs of `threads` threads and `shared_bytes` of static and dynamic shared memory a multiprocessor of a
    card holds, by resource.

    `registers` is the number of each thread. The units are those with which 15,200 answers of
    cuOccupancyMaxActiveBlocksPerMultiprocessor on an H200 come out as they were (`cards.SHARED_UNIT`).

    >>> from smemsim.core.spec.cards import card_of
    >>> fit = cta_fit(card_of("sm_90a"), 384, 100_000, registers=168)
    >>> fit, fit.most, fit.limits
    (CtaFit(ctas=32, threads=5, shared=2, registers=1), 1, ('registers',))
    """
    named, warps = card.named, -(-threads // WARP_SIZE)
    reserved = named("reserved_shared_memory_per_block")
    shared = -(-(shared_bytes + reserved) // SHARED_UNIT) * SHARED_UNIT
    is_possible = shared - reserved <= named("max_shared_memory_per_block_optin")
    fits = None
    if registers is not None:
        of_warp = -(-WARP_SIZE * registers // REGISTER_UNIT) * REGISTER_UNIT
        fits = named("max_registers_per_multiprocessor") // of_warp // WARP_UNIT * WARP_UNIT // warps
    return CtaFit(
        named("max_blocks_per_multiprocessor"),
        named("max_threads_per_multiprocessor") // WARP_SIZE // warps,
        named("max_shared_memory_per_multiprocessor") // shared if is_possible else 0,
        fits,
    )


def registers_for(card: Card, threads: int, ctas: int, most: int = 255) -> int:
    """The most registers of a thread with which `ctas` CTAs of `threads` threads fit; 0 if they never do.

    >>> from smemsim.core.spec.cards import card_of
    >>> registers_for(card_of("sm_90a"), 384, 1), registers_for(card_of("sm_90a"), 128, 4)
    (168, 128)
    """
    counts = range(most, 0, -1)
    found = bisect.bisect_left(counts, True, key=lambda n: (cta_fit(card, threads, 0, n).registers or 0) >= ctas)
    return counts[found] if found < len(counts) else 0
