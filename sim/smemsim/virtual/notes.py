"""The memory of PyTorch's allocator. Notes of address and size are made and removed by compiled functions in place of
`posix_memalign` and `free`.

Any thread allocates, so the notes have a lock of the C library's. Python reads them without it: code that has it must
not be made to free a tensor.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import Any

import numpy as np

from smemsim.run.jit.objects import functions

__all__ = ["ALIGNMENT", "claim", "holding", "is_claimed", "map_notes", "replacements", "size_at"]


ALIGNMENT = 512  # bytes
# A lock (pthread_mutex_t, of zeros), then pairs of an address and its bytes, 0 if it was freed. Cached code knows
# their place; memory.DEVICE_BASE lists other such places. A note is at most `WAY` places after the place of its
# address.
NOTES, LOCK_BYTES, PLACES, WAY = 0x1F00_0000_0000, 64, 1 << 16, 64
MIXED_BY, MIXED_SHIFT = 40503, 9  # of a note's place
NOTES_BYTES = LOCK_BYTES + 16 * (PLACES + WAY)
_CLAIMED = 1 << 60  # beside the bytes of a note, until the memory is freed: a kernel was given it
_FIXED_NOREPLACE, _NORESERVE = 0x100000, 0x4000  # Linux


def size_at(address: int) -> int:
    """Bytes of the memory that PyTorch holds from this very address on; 0 where it holds none."""
    return _noted(address) & ~_CLAIMED


def claim(address: int) -> None:
    """Note that a kernel was given the memory at this address, which must not be freed meanwhile."""
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
    """Make room for the notes, once. OSError if there is none. In a child made by fork the lock is free."""
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
    """The place of an address's note."""
    return (address // ALIGNMENT * MIXED_BY >> MIXED_SHIFT) % PLACES


# ---- Machine code: any thread calls it, with Python's lock or without


def _code() -> str:
    """LLVM text: `change` notes an address with its bytes, or with 0 that it is free; one that finds no place is not
    noted.
    """
    return f"""
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)

define internal void @change(i64 %address, i64 %size) {{
entry:
  %block = lshr i64 %address, {ALIGNMENT.bit_length() - 1}
  %mixed = mul i64 %block, {MIXED_BY}
  %shifted = lshr i64 %mixed, {MIXED_SHIFT}
  %first = and i64 %shifted, {PLACES - 1}
  %lock = inttoptr i64 {NOTES} to ptr
  %locked = call i32 @pthread_mutex_lock(ptr %lock)
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %next, %other ]
  %at = phi i64 [ 0, %entry ], [ %kept, %other ]
  %place = add i64 %first, %n
  %offset = shl i64 %place, 4
  %where = add i64 %offset, {NOTES + LOCK_BYTES}
  %note = inttoptr i64 %where to ptr
  %there = load i64, ptr %note
  %is = icmp eq i64 %there, %address
  br i1 %is, label %ended, label %other
other:
  %behind = getelementptr i64, ptr %note, i64 1
  %bytes = load i64, ptr %behind
  %is_free = icmp eq i64 %bytes, 0
  %is_made = icmp ne i64 %size, 0
  %is_first = icmp eq i64 %at, 0
  %may = and i1 %is_free, %is_made
  %takes = and i1 %may, %is_first
  %kept = select i1 %takes, i64 %where, i64 %at
  %is_new = icmp eq i64 %there, 0
  %next = add i64 %n, 1
  %is_last = icmp eq i64 %next, {WAY}
  %stops = or i1 %is_new, %is_last
  br i1 %stops, label %ended, label %look
ended:
  %chosen = phi i64 [ %where, %look ], [ %kept, %other ]
  %is_nowhere = icmp eq i64 %chosen, 0
  br i1 %is_nowhere, label %done, label %write
write:
  %to = inttoptr i64 %chosen to ptr
  store i64 %address, ptr %to
  %to_bytes = getelementptr i64, ptr %to, i64 1
  store i64 %size, ptr %to_bytes
  br label %done
done:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %lock)
  ret void
}}

define void @freed(ptr %what) {{
entry:
  %address = ptrtoint ptr %what to i64
  %is_nothing = icmp eq i64 %address, 0
  br i1 %is_nothing, label %done, label %note
note:
  call void @change(i64 %address, i64 0)
  br label %done
done:
  call void @free(ptr %what)
  ret void
}}

define i32 @aligned(ptr %where, i64 %alignment, i64 %size) {{
entry:
  %is_less = icmp ult i64 %alignment, {ALIGNMENT}
  %wider = select i1 %is_less, i64 {ALIGNMENT}, i64 %alignment
  %error = call i32 @posix_memalign(ptr %where, i64 %wider, i64 %size)
  %is_wrong = icmp ne i32 %error, 0
  br i1 %is_wrong, label %done, label %note
note:
  %address = load i64, ptr %where
  call void @change(i64 %address, i64 %size)
  br label %done
done:
  ret i32 %error
}}
"""


@functools.cache
def replacements() -> dict[str, int]:
    """The addresses of what stands for `free`, and for `posix_memalign`, on 512 bytes at least: as long as the process
    lives.
    """
    nothing = ctypes.CFUNCTYPE(None)
    _code_of.extend(functions(_code(), ("freed", nothing), ("aligned", nothing)))
    addresses = [ctypes.cast(made, ctypes.c_void_p).value or 0 for made in _code_of]
    return dict(zip(("free", "posix_memalign"), addresses, strict=True))


_code_of: list[Any] = []  # keeps the machine code
