"""Python functions as machine code, made by numba once and kept (`smemsim.store`); what is kept runs without numba."""

from smemsim.compiling.loop import LOOPS, Loop, compiled, describe, elementwise
from smemsim.compiling.source import digest

__all__ = ["LOOPS", "Loop", "compiled", "describe", "digest", "elementwise"]
