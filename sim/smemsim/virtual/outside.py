"""Libraries that the virtual GPU cannot serve. A program that imports one gets one message.

CuPy contains NVIDIA's static runtime, which works with NVIDIA's driver only.
"""

from __future__ import annotations

import sys

__all__ = ["OUTSIDE", "install"]


OUTSIDE = {
    "cupy": "CuPy: it holds NVIDIA's own CUDA runtime, which works with NVIDIA's driver alone, and finds no GPU here; its kernels' sources run with "
    "cuda.core or numba-cuda, on memory of theirs or torch's",
}
_told: set[str] = set()


def install() -> None:
    """Report such libraries that were imported and not reported yet."""
    for name, sentence in OUTSIDE.items():
        if name in sys.modules and sentence not in _told:
            _told.add(sentence)
            print(f"smemsim: {sentence}", file=sys.stderr, flush=True)
