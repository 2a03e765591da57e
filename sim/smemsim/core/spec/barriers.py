"""How far the barriers of a CTA count."""

from __future__ import annotations

__all__ = ["CTA_BARRIERS", "MBARRIER_ARRIVALS", "MBARRIER_BYTES", "MBARRIER_SIZE"]


MBARRIER_SIZE = 8  # bytes of the object, and what its address is a multiple of; PTX ISA 9.1 §9.7.13.15.1
CTA_BARRIERS = 16  # of bar.sync, 0 to 15; PTX ISA 9.1 §9.7.13.1
MBARRIER_ARRIVALS = (1 << 20) - 1  # of a phase; PTX ISA 9.1 §9.7.13.15.2
# that a phase still expects, or that came before they were expected; PTX ISA 9.1 §9.7.13.15.2
MBARRIER_BYTES = (1 << 20) - 1
