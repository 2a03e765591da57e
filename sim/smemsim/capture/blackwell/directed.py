"""Dot products that distinguish ways of summing, for one instruction."""

from __future__ import annotations

from smemsim.capture.blackwell import builder
from smemsim.capture.blackwell.builder import Builder, DotProbe, Instruction
from smemsim.capture.blackwell.scaled import scaled


def directed(i: Instruction) -> list[DotProbe]:
    """The probes of one instruction."""
    p = Builder(i)
    if i.d == "s32":
        builder.integers(p)
        return p.out
    builder.kept_bits(p)
    builder.rounding(p)
    builder.tiny(p)
    builder.zeros(p)
    builder.overflow(p)
    builder.specials(p)
    if i.scales:
        scaled(p)
    return p.out
