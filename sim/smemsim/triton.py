"""Triton on a machine without a GPU. Kernels run as they are after two lines.

    import smemsim.triton
    smemsim.triton.install("sm_100a")          # before tensors are made; torch's "cuda" is this card from now on

    kernel[grid](x.cuda(), y, BLOCK=128)       # runs on the CPU with all checks: findings on stderr, or raised with Policy(on_finding="raise")

`smemsim exec --arch sm_100a -- python program.py` does it without these two lines.
"""

from __future__ import annotations

from smemsim.virtual.triton import install

__all__ = ["install"]
