"""Arithmetic, logic and conversions: instructions whose threads do not see each other."""

from __future__ import annotations

from smemsim.program.alu import bits, compare, convert, either, floats, integers

__all__ = ["MODULES"]


MODULES = (floats, bits, compare, convert, either, integers)
