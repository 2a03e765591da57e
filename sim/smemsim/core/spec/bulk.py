"""Bulk copies and clusters: alignments, what a broken one ends in, and how an address names another CTA."""

from __future__ import annotations

from typing import NamedTuple

from smemsim.base.members import OwnMembers
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, LAUNCH_FAILURE, MISALIGNED_ADDRESS

__all__ = ["BULK_LIMITS", "BULK_TRAPS", "BulkLimits", "BulkTrap"]


class BulkLimits(NamedTuple):
    """Sizes in bytes."""

    unit: int = 16  # addresses are multiples, of sizes the rest is dropped; PTX ISA 9.1 §9.7.9.25.4.1, trace bulk_traps
    mbarrier_alignment: int = 8  # PTX ISA 9.1 §9.7.13.15.1; 1, 2 and 4 off trap (trace bulk_traps)
    size_end: int = 1 << 20  # a copy of that size moves nothing (trace bulk_traps); an mbarrier counts less than that
    most_ctas: int = 16  # of a cluster; 8 are portable (CUDA guide), ctaMask has 16 bits (PTX ISA 9.1 §9.7.9.25.4.1)
    cta_rank_shift: int = 24  # shared::cluster address = rank << 24 | offset; trace cluster_addresses


BULK_LIMITS = BulkLimits()


class BulkTrap(NamedTuple):
    """The CUDA error that one broken requirement ends in."""

    cuda_error: int
    grade: Grade  # on sm_90a
    source: str


class BulkTraps(dict[str, BulkTrap], metaclass=OwnMembers):
    """Why a bulk copy traps, a dict by reason: `cuda_error`, `grade` and `source`.

    >>> import smemsim
    >>> smemsim.BULK_TRAPS["mbarrier address"].cuda_error
    716
    """


_M = Grade.MEASURED
# fmt: off
# If there are several reasons, the first one in this order counts (trace bulk_traps: past the own window and off 16 B
# is 700, past another's 716).
BULK_TRAPS = BulkTraps({
    "window":           BulkTrap(ILLEGAL_ADDRESS,    _M, "trace bulk_traps"),  # of the executing CTA
    "shared address":   BulkTrap(MISALIGNED_ADDRESS, _M, "trace bulk_traps"),
    "global address":   BulkTrap(MISALIGNED_ADDRESS, _M, "trace bulk_traps"),
    "mbarrier address": BulkTrap(MISALIGNED_ADDRESS, _M, "trace bulk_traps"),
    "another's window": BulkTrap(LAUNCH_FAILURE,     _M, "trace bulk_traps"),
    "no such CTA":      BulkTrap(LAUNCH_FAILURE,     _M, "trace multicast_traps"),
})
# fmt: on
