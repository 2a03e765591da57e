"""PyTorch's CPU memory on boundaries of 512 bytes, as that of its CUDA allocator is (c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize), and what
it holds of it.

PyTorch asks the C library's `posix_memalign` for memory on 64 bytes, and nothing says otherwise. So the word with that function's address in
libc10's table of foreign functions (System V ABI, global offset table) becomes that of a function which asks for 512, and notes address and size
(`notes.py`). `free` takes the note away before the memory can be handed out again.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterator

__all__ = ["align", "claim", "holding", "is_claimed"]


LIBRARY, ALLOCATE, FREE = "libc10.so", "posix_memalign", "free"
_DYNAMIC, _JMPREL, _PLTRELSZ, _SYMTAB, _STRTAB, _PLTREL, _RELA, _RELASZ = 2, 23, 2, 6, 5, 20, 7, 8  # elf.h: PT_DYNAMIC, DT_...
_PAGE = 4096


@functools.cache
def align() -> bool:
    """Let PyTorch's memory lie on 512 bytes from now on; False where its library is not as expected, and nothing was changed."""
    try:
        found = {name: [base + offset for base in _bases() for offset in _slots(base, name)] for name in (FREE, ALLOCATE)}
        if not all(found.values()):
            return False
        from smemsim.virtual import notes

        notes.map_notes()
        for name, function in notes.replacements().items():  # `free` first: it passes on what it has no note of
            for address in found[name]:
                _write(address, function)
    except (OSError, ValueError, RuntimeError, struct.error):  # RuntimeError: of LLVM
        return False
    return True


def claim(address: int) -> None:
    """Note of the memory of PyTorch's that begins at this address that a kernel was given it, until it is freed."""
    from smemsim.virtual import notes

    if align():
        notes.claim(address)


def is_claimed(address: int) -> bool:
    """Whether `claim` was told of the memory that begins at this address, and it was not freed since."""
    from smemsim.virtual import notes

    return align() and notes.is_claimed(address)


def holding(address: int) -> tuple[int, int] | None:
    """(first address, bytes) of the memory of PyTorch's that holds an address; None where there is none, or nothing is known."""
    from smemsim.virtual import notes

    return notes.holding(address) if align() else None


# ---- The library's table


def _bases() -> Iterator[int]:
    """Where the library begins in this process."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        for line in lines:
            fields = line.split()
            if len(fields) > 5 and fields[5].endswith(f"/{LIBRARY}") and int(fields[2], 16) == 0:
                yield int(fields[0].partition("-")[0], 16)


def _slots(base: int, wanted: str) -> Iterator[int]:
    """Offsets of the words that hold a function's address."""

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
    symbols, names, *tables = (tags[tag] if tags[tag] >= base else base + tags[tag] for tag in (_SYMTAB, _STRTAB, _JMPREL, _RELA))
    for table, size_tag in zip(tables, (_PLTRELSZ, _RELASZ), strict=True):
        for at in range(table, table + tags[size_tag], 24):
            offset, about, addend = words("<QQq", at)
            if not addend and about >> 32:
                name = words("<I", symbols + 24 * (about >> 32))[0]
                if ctypes.string_at(names + name) == wanted.encode():
                    yield offset


def _write(address: int, value: int) -> None:
    """Change a word; its page may be read-only (RELRO)."""
    page = address // _PAGE * _PAGE
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 3):  # PROT_READ | PROT_WRITE
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.c_uint64.from_address(address).value = value
