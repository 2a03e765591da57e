"""Arithmetic, logic and conversions: instructions whose threads do not see each other."""

from __future__ import annotations

from smemsim.gpu.alu import bits, compare, convert, either, moves, video

__all__ = ["MODULES"]

MODULES = (bits, compare, convert, either, moves, video)
