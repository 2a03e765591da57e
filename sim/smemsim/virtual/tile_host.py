"""Hidden parameters of kernels of tile IR (cuTile): tensor maps that host code in the cubin makes of the other
parameters.

NVIDIA's compiler tileiras writes a section `.nv.host`, a relocatable ELF file for x86-64. It has for each kernel a name
(`__CUDA_TILEIR_FUNC_NAME_n`) and a function (`__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_n`). The fourth argument of the
function is the parameter bank: it reads the parameters there and writes the maps after them. Their place counts from
the begin of the bank in constant memory (attribute 0x0a of `.nv.info`). NVIDIA documents none of this: it was read from
the output of tileiras 13.4, and cuTile's own tests pass. The code runs in the process with the device. It is the
program's own code, and is not restricted.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import platform
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smemsim.base.errors import Unmodelled
from smemsim.core.ptx.module import Parameter
from smemsim.virtual.fatbin import HOST_SECTION, sections

__all__ = ["HiddenParameters"]


_NAME, _CHANGE = "__CUDA_TILEIR_FUNC_NAME_", "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_"
# an attribute of eight bytes: the symbol, then where the bank begins and its size, 16 bits each
_BANK = bytes((4, 0x0A, 8, 0))
_X86_64 = 62  # elf.h: EM_X86_64
_OTHERWISE = "the cubin's code for its hidden parameters is not as tileiras 13.4 writes it"
_ROOM = 1 << 16  # bytes; a kernel has at most 32,764 of parameters


class _Symbol(NamedTuple):
    section: int
    value: int
    size: int


class HiddenParameters:
    """The maker of the hidden parameters of the kernels of a cubin. Unmodelled if the cubin is not as tileiras 13.4
    writes it.
    """

    def __init__(self, cubin: bytes) -> None:
        self._attributes = {name.removeprefix(".nv.info."): data for name, _, data in sections(cubin) if name.startswith(".nv.info.")}
        host = next((data for name, _, data in sections(cubin) if name == HOST_SECTION), b"")
        if len(host) < 64 or struct.unpack_from("<H", host, 18)[0] != _X86_64 or platform.machine() != "x86_64":
            raise Unmodelled("it has hidden parameters, and the cubin has no code for this machine that makes them")
        with _as_written():
            self._sections = list(sections(host))
            self._symbols = self._read_symbols()
        self._bank = (ctypes.c_uint64 * (_ROOM // 8))()
        self._functions: dict[str, ctypes._FuncPointer] = {}
        self._kept: list[mmap.mmap] = []

    def _read_symbols(self) -> dict[str, _Symbol]:
        names = next((data for name, _, data in self._sections if name == ".strtab"), b"")
        table = next((data for name, _, data in self._sections if name == ".symtab"), b"")
        found = {}
        for name, _, _, section, value, size in struct.iter_unpack("<IBBHQQ", table):
            found[names[name:].split(b"\0", 1)[0].decode()] = _Symbol(section, value, size)
        return found

    def make(self, kernel: str, parameters: Sequence[Parameter], given: Sequence[bytes]) -> tuple[bytes, ...]:
        """All parameters of a kernel, of those that a program gives."""
        with _as_written():
            begin, function = self._begin(kernel), self._functions.get(kernel) or self._function(kernel)
        self._functions[kernel], end, places = function, 0, []
        for p in parameters:
            at = -(-(begin + end) // p.align) * p.align - begin
            places.append(at)
            end = at + p.size
        if end > _ROOM:
            raise Unmodelled(f"{end} bytes of parameters")
        ctypes.memset(self._bank, 0, end)
        visible = [at for at, p in zip(places, parameters, strict=True) if not p.is_hidden]
        for at, raw in zip(visible, given, strict=True):
            ctypes.memmove(ctypes.addressof(self._bank) + at, raw, len(raw))
        if function(None, None, None, ctypes.addressof(self._bank)):
            raise Unmodelled("the cubin's code for its hidden parameters says that it has failed")
        bank = ctypes.string_at(self._bank, end)
        return tuple(bank[at : at + p.size] for at, p in zip(places, parameters, strict=True))

    def _begin(self, kernel: str) -> int:
        """The begin of a kernel's parameter bank in constant memory."""
        attributes = self._attributes.get(kernel, b"")
        at = attributes.find(_BANK)
        if at < 0:
            raise Unmodelled("the cubin does not say where the kernel's parameters begin")
        return int(struct.unpack_from("<H", attributes, at + 8)[0])

    def _function(self, kernel: str) -> ctypes._FuncPointer:
        """The function that makes the hidden parameters of a kernel: it stands alone, as nothing in it is to be
        relocated.
        """
        for name, symbol in self._symbols.items():
            if name.startswith(_NAME) and self._bytes(symbol).rstrip(b"\0").decode() == kernel:
                change = self._symbols.get(_CHANGE + name.removeprefix(_NAME))
                if change is not None and not self._relocates(change):
                    return self._loaded(self._bytes(change))
        raise Unmodelled(_OTHERWISE)

    def _bytes(self, symbol: _Symbol) -> bytes:
        found = self._sections[symbol.section][2][symbol.value : symbol.value + symbol.size]
        if len(found) < symbol.size:
            raise Unmodelled(_OTHERWISE)
        return found

    def _relocates(self, symbol: _Symbol) -> bool:
        table = next((data for name, _, data in self._sections if name == f".rela{self._sections[symbol.section][0]}"), b"")
        return any(symbol.value <= at < symbol.value + symbol.size for at, _, _ in struct.iter_unpack("<QQq", table))

    def _loaded(self, code: bytes) -> ctypes._FuncPointer:
        memory = mmap.mmap(
            -1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        )
        memory.write(code)
        self._kept.append(memory)
        place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(place)


@contextlib.contextmanager
def _as_written() -> Iterator[None]:
    """Unmodelled for what a reader of a damaged file meets; OSError: of memory that may not hold code."""
    try:
        yield
    except (LookupError, ValueError, struct.error, OSError) as e:
        raise Unmodelled(_OTHERWISE) from e
