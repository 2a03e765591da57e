"""Bulk copies and clusters: alignments, what a broken one ends in, how an address names another CTA, and the evidence for it."""

from __future__ import annotations

import dataclasses

from smemsim.spec.evidence import Grade, Rule
from smemsim.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS

__all__ = ["BULK_LIMITS", "BULK_RULES", "BULK_TRAPS", "LAUNCH_FAILURE", "BulkLimits", "BulkTrap"]

LAUNCH_FAILURE = 719  # CUDA's "unspecified launch failure": a write that another CTA of the cluster cannot take


@dataclasses.dataclass(frozen=True)
class BulkLimits:
    """Sizes in bytes."""

    unit: int = 16  # addresses are multiples, of sizes the rest is dropped; PTX ISA 9.7.9.25.4.1, trace bulk_traps
    mbarrier_alignment: int = 8  # PTX ISA 9.7.13.15.1; 1, 2 and 4 off trap (trace bulk_traps)
    size_end: int = 1 << 20  # a copy of that size moves nothing (trace bulk_traps); an mbarrier counts less than that
    most_ctas: int = 16  # of a cluster; 8 are portable (CUDA guide), ctaMask has 16 bits (PTX ISA 9.7.9.25.4.1)
    cta_rank_shift: int = 24  # shared::cluster address = rank << 24 | offset; trace cluster_addresses


BULK_LIMITS = BulkLimits()


@dataclasses.dataclass(frozen=True)
class BulkTrap:
    """The CUDA error that one broken requirement ends in."""

    cuda_error: int
    grade: Grade  # on sm_90a
    source: str


_M = Grade.MEASURED
# fmt: off
# Of several reasons the first one counts, in this order (trace bulk_traps: past the own window and off 16 B is 700, past another's 716).
BULK_TRAPS: dict[str, BulkTrap] = {
    "window":           BulkTrap(ILLEGAL_ADDRESS,    _M, "trace bulk_traps"),  # of the executing CTA
    "shared address":   BulkTrap(MISALIGNED_ADDRESS, _M, "trace bulk_traps"),
    "global address":   BulkTrap(MISALIGNED_ADDRESS, _M, "trace bulk_traps"),
    "mbarrier address": BulkTrap(MISALIGNED_ADDRESS, _M, "trace bulk_traps"),
    "another's window": BulkTrap(LAUNCH_FAILURE,     _M, "trace bulk_traps"),
    "no such CTA":      BulkTrap(LAUNCH_FAILURE,     _M, "trace multicast_traps"),
}
# fmt: on


def _rule(name: str, statement: str, blackwell: Grade, source: str, traces: tuple[str, ...]) -> Rule:
    return Rule(name, statement, {"sm_90a": Grade.MEASURED, "sm_100a": blackwell, "sm_103a": blackwell}, source, traces)


_DOCUMENTED, _INFERRED = Grade.DOCUMENTED, Grade.INFERRED
BULK_RULES: dict[str, Rule] = {
    r.name: r
    for r in (
        _rule(
            "bulk.copy",
            "byte i of the source goes to byte i of the destination, whose CTA's barrier is credited with the size",
            _DOCUMENTED,
            "PTX ISA 9.7.9.25.4.1",
            ("bulk_copies",),
        ),
        _rule(
            "bulk.size",
            "bits 19:4 of the size count: what is over a multiple of 16 B is neither moved nor credited, 0 and 2^20 move nothing",
            _INFERRED,
            "the PTX ISA wants multiples of 16 B and says no more",
            ("bulk_traps",),
        ),
        _rule(
            "bulk.traps",
            "bulk copies: past the CTA's own window (700), an address off 16 B, a barrier's off 8 B (716), past another CTA's window (719)",
            _INFERRED,
            "PTX ISA 9.7.9.25.4.1 forbids them; no document says what happens",
            ("bulk_traps",),
        ),
        _rule(
            "reduce.values",
            "integers modulo 2^n; floats to nearest even, subnormals kept but in FTZ maps; f64 hands a NaN on, other sums give 0x7FFF…; "
            "min and max of a NaN and a number give the number, -0 is below +0",
            _DOCUMENTED,
            "PTX ISA 9.7.9.25.4.2, which says that add.f32 flushes; the bits of NaNs and zeros are in no document",
            ("bulk_reductions", "tma_reductions"),
        ),
        _rule(
            "reduce.types",
            "which operation a tensor reduction has on which data type of the map; all else traps (715)",
            _INFERRED,
            "PTX ISA 9.7.9.27 lists operations and not which types of a map they go with",
            ("tma_reduce_traps",),
        ),
        _rule(
            "multicast.delivery",
            "every CTA in ctaMask gets the box at the same offset and its own barrier the full byte count; ranks in the addresses are ignored",
            _DOCUMENTED,
            "PTX ISA 9.7.9.27, operand ctaMask; it wants the barrier in the destination's CTA",
            ("multicast", "multicast_traps"),
        ),
        _rule(
            "multicast.masks",
            "an empty ctaMask delivers and credits nothing; a bit for a CTA that is not in the cluster traps (719)",
            _INFERRED,
            "no document says what happens",
            ("multicast_traps",),
        ),
        _rule(
            "cluster.addresses",
            "shared::cluster address = CTA rank << 24 | offset; in a cluster a CTA's own .shared addresses have its rank too, "
            "and an address without one is CTA 0's",
            Grade.COMPILED,
            "CUTLASS clears bit 24 to reach the even CTA of a pair",
            ("cluster_addresses",),
        ),
    )
}
