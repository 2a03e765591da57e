"""PyTorch's CPU memory on boundaries of 512 bytes, as that of its CUDA allocator is (c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize).

PyTorch asks the C library's `posix_memalign` for memory on 64 bytes, and nothing says otherwise. So the word with that function's address in
libc10's table of foreign functions (System V ABI, global offset table) becomes that of a function which asks for 512.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["ALIGNMENT", "align"]


ALIGNMENT = 512  # bytes
LIBRARY, NAME = "libc10.so", "posix_memalign"
_DYNAMIC, _JMPREL, _PLTRELSZ, _SYMTAB, _STRTAB, _PLTREL, _RELA = 2, 23, 2, 6, 5, 20, 7  # elf.h: PT_DYNAMIC, DT_...
_PAGE = 4096


@functools.cache
def align() -> bool:
    """Let PyTorch's memory lie on 512 bytes from now on; False where its library is not as expected, and nothing was changed."""
    try:
        found = [base + offset for base in _bases() for offset in _slots(base)]
        if not found:
            return False
        for address in found:
            _write(address, _aligned().address)
    except (OSError, ValueError, struct.error):
        return False
    return True


@functools.cache
def _aligned() -> Any:
    """`posix_memalign` on 512 bytes at least, compiled."""
    from numba import cfunc, types

    words = types.int32(types.uintp, types.uintp, types.uintp)
    allocate = types.ExternalFunction(NAME, words)

    def aligned(where: int, alignment: int, size: int) -> Any:
        return allocate(where, max(alignment, ALIGNMENT), size)

    return cfunc(words, cache=True)(aligned)


def _bases() -> Iterator[int]:
    """Where the library begins in this process."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        for line in lines:
            fields = line.split()
            if len(fields) > 5 and fields[5].endswith(f"/{LIBRARY}") and int(fields[2], 16) == 0:
                yield int(fields[0].partition("-")[0], 16)


def _slots(base: int) -> Iterator[int]:
    """Offsets of the words that hold the function's address."""

    def words(form: str, address: int) -> tuple[int, ...]:
        return struct.unpack(form, ctypes.string_at(address, struct.calcsize(form)))

    headers, size, count = base + words("<Q", base + 32)[0], *words("<2H", base + 54)
    dynamic = next(base + words("<Q", at + 16)[0] for at in range(headers, headers + size * count, size) if words("<I", at)[0] == _DYNAMIC)
    tags: dict[int, int] = {}
    while (entry := words("<qQ", dynamic))[0]:
        tags[entry[0]] = entry[1]
        dynamic += 16
    if tags.get(_PLTREL) != _RELA:
        return
    table, symbols, names = (tags[tag] if tags[tag] >= base else base + tags[tag] for tag in (_JMPREL, _SYMTAB, _STRTAB))
    for at in range(table, table + tags[_PLTRELSZ], 24):
        offset, about, _ = words("<QQq", at)
        name = words("<I", symbols + 24 * (about >> 32))[0]
        if ctypes.string_at(names + name) == NAME.encode():
            yield offset


def _write(address: int, value: int) -> None:
    """Change a word; its page may be read-only (RELRO)."""
    page = address // _PAGE * _PAGE
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 3):  # PROT_READ | PROT_WRITE
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.c_uint64.from_address(address).value = value
