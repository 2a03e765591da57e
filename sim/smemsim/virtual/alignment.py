"""PyTorch's CPU memory with an alignment of 512 bytes, like that of its CUDA allocator
(c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize), and a record of it.

PyTorch asks the C library's `posix_memalign` for an alignment of 64 bytes, and has no option for it. So the word with
that function's address in libc10's global offset table (System V ABI) is replaced. The new function asks for 512, and
notes address and size (`notes.py`). The function `free` removes the note before the memory can be used again.
"""

from __future__ import annotations

import functools
import struct

from smemsim.virtual.linkage import slots, write

__all__ = ["align", "claim", "holding", "is_claimed"]


LIBRARY, ALLOCATE, FREE = "libc10.so", "posix_memalign", "free"


@functools.cache
def align() -> bool:
    """Let PyTorch's memory lie on 512 bytes from now on; False where its library is not as expected, and nothing was
    changed.
    """
    try:
        found = {name: list(slots(LIBRARY, name)) for name in (FREE, ALLOCATE)}
        if not all(found.values()):
            return False
        from smemsim.virtual import notes

        notes.map_notes()
        for name, function in notes.replacements().items():  # `free` first: it passes on what it has no note of
            for address in found[name]:
                write(address, function)
    except (OSError, ValueError, RuntimeError, struct.error):  # RuntimeError: of LLVM
        return False
    return True


def claim(address: int) -> None:
    """Note of the memory of PyTorch's that begins at this address that a kernel was given it, until it is freed."""
    from smemsim.virtual import notes

    if align():
        notes.claim(address)


def is_claimed(address: int) -> bool:
    """Was `claim` called for the memory at this address, without a free since?"""
    from smemsim.virtual import notes

    return align() and notes.is_claimed(address)


def holding(address: int) -> tuple[int, int] | None:
    """(first address, bytes) of the memory of PyTorch's that holds an address; None where there is none, or nothing is
    known.
    """
    from smemsim.virtual import notes

    return notes.holding(address) if align() else None
