"""What memory PyTorch's allocator holds: notes of address and size, made and taken away by compiled functions in place of `posix_memalign` and `free`.

Any thread allocates, so the notes have a lock of the C library's. Python reads them without it: code that has it must not be made to free a tensor.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import Any

import numpy as np
from numba import cfunc, njit, types
from numba.extending import intrinsic

__all__ = ["ALIGNMENT", "aligned", "claim", "freed", "holding", "is_claimed", "map_notes", "size_at"]


ALIGNMENT = 512  # bytes
# A lock (pthread_mutex_t, of zeros), then pairs of an address and its bytes, 0 where that was freed. They lie at a place that cached code knows; what else
# lies at such places: memory.DEVICE_BASE. A note is at most `WAY` places behind where its address belongs.
NOTES, LOCK_BYTES, PLACES, WAY = 0x1F00_0000_0000, 64, 1 << 16, 64
NOTES_BYTES = LOCK_BYTES + 16 * (PLACES + WAY)
_CLAIMED = 1 << 60  # beside the bytes of a note, until the memory is freed: a kernel was given it
_FIXED_NOREPLACE, _NORESERVE = 0x100000, 0x4000  # Linux

_WORD, _WORDS, _NOTHING = types.intp, types.CPointer(types.intp), types.void
_lock = types.ExternalFunction("pthread_mutex_lock", types.int32(_WORD))
_unlock = types.ExternalFunction("pthread_mutex_unlock", types.int32(_WORD))
_allocate = types.ExternalFunction("posix_memalign", types.int32(_WORDS, _WORD, _WORD))
_free = types.ExternalFunction("free", _NOTHING(_WORD))


def size_at(address: int) -> int:
    """Bytes of the memory that PyTorch holds from this very address on; 0 where it holds none."""
    return _noted(address) & ~_CLAIMED


def claim(address: int) -> None:
    """Note of memory that begins at this address, which nobody may free meanwhile, that a kernel was given it."""
    n = _place_of(address)
    near = _notes()[n : n + WAY]
    near[(near[:, 0] == address) & (near[:, 1] != 0), 1] |= _CLAIMED


def is_claimed(address: int) -> bool:
    """Whether the memory that begins at this address was claimed since it was allocated."""
    return bool(_noted(address) & _CLAIMED)


def _noted(address: int) -> int:
    n = _place_of(address)
    near = _notes()[n : n + WAY]
    return int(near[near[:, 0] == address, 1].max(initial=0))


def holding(address: int) -> tuple[int, int] | None:
    """(first address, bytes) of the memory of PyTorch's that holds an address; None where there is none."""
    notes = _notes()
    live = notes[np.flatnonzero(notes[:, 1])] & [-1, ~_CLAIMED]
    found = live[(live[:, 0] <= address) & (address < live[:, 0] + live[:, 1])]
    return next(
        ((first, size) for first, size in found.tolist() if first <= address < first + size == first + size_at(first)), None
    )  # again: other threads go on


def map_notes() -> None:
    """Make room for the notes, once. OSError where there is none. In a child made by fork nobody has the lock."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED_NOREPLACE | _NORESERVE
    if libc.mmap(NOTES, NOTES_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) != NOTES:
        raise OSError(ctypes.get_errno(), "mmap")
    os.register_at_fork(after_in_child=functools.partial(ctypes.memset, NOTES, 0, LOCK_BYTES))


@functools.cache
def _notes() -> np.ndarray:
    """The notes themselves: int64, a row of two for each place."""
    raw = (ctypes.c_int64 * (2 * (PLACES + WAY))).from_address(NOTES + LOCK_BYTES)
    return np.ctypeslib.as_array(raw).reshape(-1, 2)


def _place_of(address: int) -> int:
    """Where the note of an address belongs."""
    return (address // ALIGNMENT * 40503 >> 9) % PLACES


# ---- Compiled


_compiled_place_of = njit(cache=True)(_place_of)


@intrinsic  # type: ignore[untyped-decorator]
def _words_at(typing: Any, address: Any) -> Any:
    """The words from an address on."""
    return _WORDS(_WORD), lambda context, builder, signature, given: builder.inttoptr(given[0], context.get_value_type(_WORDS))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _change(address: int, size: int) -> None:
    """Note an address with its bytes, or with 0 that it is free. One that finds no place is not noted."""
    notes, first, at = _words_at(NOTES + LOCK_BYTES), _compiled_place_of(address), -1
    _lock(NOTES)
    for n in range(first, first + WAY):
        if notes[2 * n] == address:
            at = n
            break
        if at < 0 and size and not notes[2 * n + 1]:
            at = n
        if not notes[2 * n]:
            break
    if at >= 0:
        notes[2 * at] = address  # its bytes are 0 until the next line
        notes[2 * at + 1] = size
    _unlock(NOTES)


@cfunc(_NOTHING(_WORD), cache=True)  # type: ignore[untyped-decorator]
def freed(address: int) -> None:
    """`free`."""
    if address:
        _change(address, 0)
    _free(address)


@cfunc(types.int32(_WORDS, _WORD, _WORD), cache=True)  # type: ignore[untyped-decorator]
def aligned(where: Any, alignment: int, size: int) -> Any:
    """`posix_memalign` on 512 bytes at least."""
    error = _allocate(where, max(alignment, ALIGNMENT), size)
    if not error:
        _change(where[0], size)
    return error
