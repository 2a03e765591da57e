"""Python functions as machine code, made by numba once and kept (`smemsim.base.store`); what is kept runs without
numba.
"""

from smemsim.base.compiling.loop import LOOPS, Loop, compiled, describe, elementwise
from smemsim.base.compiling.source import digest

__all__ = ["LOOPS", "Loop", "compiled", "describe", "digest", "elementwise"]
