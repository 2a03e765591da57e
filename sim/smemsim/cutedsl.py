"""CuTe DSL on a machine without a GPU. Programs run as they are after two lines.

    import smemsim.cutedsl
    smemsim.cutedsl.install("sm_100a")         # before cutlass is imported; torch's "cuda" is this card from now on
    import cutlass

`smemsim exec --arch sm_100a -- python program.py` does it without the two lines.
"""

from __future__ import annotations

from smemsim.virtual.cutedsl import install

__all__ = ["install"]
