"""Global offset tables of libraries in this process (System V ABI): their places, and the replaced entries."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

__all__ = ["slots", "write"]


# elf.h: PT_DYNAMIC, DT_...
_DYNAMIC, _JMPREL, _PLTRELSZ, _SYMTAB, _STRTAB, _PLTREL, _RELA, _RELASZ = 2, 23, 2, 6, 5, 20, 7, 8
_PAGE = 4096


def slots(library: str, wanted: str) -> Iterator[int]:
    """Addresses of the words through which a library, by the end of its path, calls a function of others."""
    for base in _bases(library):
        for offset in _slots(base, wanted):
            yield base + offset


def _bases(library: str) -> Iterator[int]:
    with open("/proc/self/maps", encoding="utf-8") as lines:
        for line in lines:
            fields = line.split()
            if len(fields) > 5 and fields[5].endswith(f"/{library}") and int(fields[2], 16) == 0:
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


def write(address: int, value: int) -> None:
    """Change a word; its page may be read-only (RELRO)."""
    page = address // _PAGE * _PAGE
    # PROT_READ | PROT_WRITE
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 3):
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.c_uint64.from_address(address).value = value
