"""Arithmetic, logic and conversions: instructions whose threads do not see each other."""

from __future__ import annotations

from smemsim.gpu.alu import approximate, bits, compare, convert, either, integers, moves, video

__all__ = ["MODULES"]

MODULES = (approximate, bits, compare, convert, either, integers, moves, video)
