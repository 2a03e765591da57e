"""The memory of a virtual device: ranges of addresses that host and device share, and the allocations in them.

Device memory is in one range of addresses, pinned and managed memory in another. Both are one file in memory, mapped
at the same addresses in all processes of the program: a copy is a memmove, and no array exists twice. Untouched
memory needs no room.

>>> memory = DeviceMemory()
>>> a = memory.allocate(1000)
>>> memory.view(a.address, 4)[:] = 7
>>> memory.at(a.address + 999) is a, memory.at(a.address + 1000)
(True, None)
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import dataclasses
import functools
import gc
import mmap
import os
import shutil
import subprocess
import sys
import weakref
from typing import Any

import numpy as np

from smemsim.base.budget import ask, told
from smemsim.base.errors import InputError, SmemsimError

__all__ = ["ALIGN", "DEVICE_BASE", "HOST_BASE", "PLACES", "RANGE_BYTES", "Allocation", "DeviceMemory", "bytes_at"]


# Nothing else is mapped there on x86-64 and AArch64 Linux: programs, heaps, libraries and sanitizers' shadows lie
# elsewhere, and so do the windows of generic addresses (spec.launches).
DEVICE_BASE, HOST_BASE = 0x3000_0000_0000, 0x2000_0000_0000
RANGE_BYTES = 1 << 40
# number of such ranges, one after the other: for several devices of one process, and if the program has mapped
# something else there (tcmalloc may)
PLACES = 14
ALIGN = 512  # of allocations, as on hardware
LARGE, LARGE_ALIGN = (
    1 << 20,
    1 << 21,
)  # from one megabyte on an allocation begins a page of the card: Taichi aligns in it, and has no room for more
GAP = 4096  # bytes between allocations, so that an access past one is outside
PAGE = 4096
LINE = 16  # bytes of the widest access
_FIXED_NOREPLACE, _NORESERVE = 0x100000, 0x4000  # Linux


def bytes_at(address: int, size: int, owner: Any = None) -> np.ndarray:
    """The bytes of this process's memory from an address on, the memory itself; they keep `owner` alive, whose memory
    it is.
    """
    if not size:
        return np.zeros(0, np.uint8)
    raw = (ctypes.c_uint8 * size).from_address(address)
    raw._owner = owner  # type: ignore[attr-defined]
    return np.ctypeslib.as_array(raw)


@dataclasses.dataclass(eq=False)
class Allocation:
    """Bytes that a program has requested.

    The kind is "device", "managed", "pinned", "registered", "mapped" (cuMemMap), "heap" (of kernels), "array" (of
    texels), or "own" (variables and parameters).

    If `is_littered` is set, it was filled with garbage at allocation (`smemsim.core.machine.uninitialised`). The
    address of the bytes in this process is `place`. It differs only for registered memory of another process. The
    requester is `where`. If a library gave them, the element type and shape of the tensor there are `elements`.
    """

    address: int
    size: int
    kind: str
    number: int
    place: int
    where: str = ""
    owner: Any = None  # keeps the host's memory alive that is bound
    elements: tuple[str, tuple[int, ...]] = ("", ())
    is_littered: bool = False
    kept: dict[int, int] | None = None  # attributes of it that were set, by their numbers (CUpointer_attribute)

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.size

    @property
    def name(self) -> str:
        """How findings call it."""
        return "" if self.kind in ("own", "heap", "array", "managed variable") else f"allocation{self.number}"

    def told(self) -> str:
        """The description of the allocation in findings."""
        kind = {"pinned": "pinned ", "managed": "managed ", "registered": "registered host "}.get(self.kind, "")
        if self.elements[0]:  # torch's "cuda": the device's memory, whatever holds it
            kind = ""
        where = f", made at {_readable(self.where)}" if self.where else ""
        return f"{self.name}: {self.size} bytes of {kind}memory at {self.address:#x}{where}"

    @property
    def is_on_host(self) -> bool:
        """May the host touch it?"""
        return self.kind not in ("device", "mapped", "own", "heap", "array")


@functools.lru_cache(maxsize=1024)
def _readable(where: str) -> str:
    """A place in a program, "/path/program+0x1234", as file and line where its debugging information has them."""
    path, _, offset = where.rpartition("+0x")
    tool = shutil.which("addr2line")
    if not path or tool is None:
        return where
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
        asked = [tool, "-e", path, hex(int(offset, 16) - 1)]
        line = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=False).stdout.split(" ")[0].strip()
        if line and not line.startswith("??") and not line.endswith(":?"):
            return line
    hint = "" if ".so" in os.path.basename(path) else " (nvcc -g names the line)"
    return f"{os.path.basename(path)}+0x{offset}{hint}"


class _Range:
    """Addresses that are given out in order. Freed ones are used again when the end is reached."""

    def __init__(self, base: int, size: int = RANGE_BYTES) -> None:
        self.base, self.end, self.next = base, base + size, base

    def place(self, size: int, taken: list[Allocation]) -> int:
        """The first address of `size` free bytes; `taken` are sorted by address."""
        align = LARGE_ALIGN if size >= LARGE else ALIGN
        step = -(-(size + GAP) // ALIGN) * ALIGN
        at = -(-self.next // align) * align
        if at + step <= self.end:
            self.next = at + step
            return at
        at = self.base
        for other in taken:
            if self.base <= other.address < self.end:
                if at + step <= other.address:
                    return at
                at = -(-(other.end + GAP) // align) * align
        if at + step <= self.end:
            return at
        raise MemoryError


class DeviceMemory:
    """The allocations of a device, and the file in memory that contains them. Another process maps the file by
    `descriptor`.

    The bases of device and host memory that another process has chosen are `bases`. They are out of `PLACES` from
    `DEVICE_BASE` and `HOST_BASE` on.
    """

    def __init__(self, bases: tuple[int, int] | None = None) -> None:
        self.descriptor = _file(2 * RANGE_BYTES)
        places = PLACES if bases is None else 1
        device, host = bases or (DEVICE_BASE, HOST_BASE)
        self.device_base, self.host_base = (
            _mapped(self.descriptor, base, offset, places) for base, offset in ((device, 0), (host, RANGE_BYTES))
        )
        half = RANGE_BYTES // 2
        self._device, self._own, self._host = _Range(self.device_base, half), _Range(self.device_base + half, half), _Range(self.host_base)
        self._sorted: list[Allocation] = []
        self._begins: list[int] = []
        self._reserved: list[Allocation] = []  # ranges of addresses without memory
        self._count = 0
        self.used = 0  # bytes of device memory
        weakref.finalize(self, _close, self.descriptor, (self.device_base, self.host_base))

    def __iter__(self) -> Any:
        return iter(self._sorted)

    def allocate(self, size: int, kind: str = "device", where: str = "") -> Allocation:
        """Room for `size` bytes, which are zero. MemoryError where the machine has none, InputError from
        `smemsim.base.budget`.
        """
        ask(f"an allocation of {told(size)}", size)
        space = {"device": self._device, "own": self._own, "heap": self._own, "array": self._own}.get(kind, self._host)
        address = space.place(size, self._taken())
        self.used += size if kind in ("device", "managed") else 0
        return self._add(Allocation(address, size, kind, self._count + 1, address, where))

    def _taken(self) -> list[Allocation]:
        return sorted((*self._sorted, *self._reserved), key=lambda a: a.address) if self._reserved else self._sorted

    def reserve(self, size: int, align: int) -> int:
        """Addresses for `size` bytes, a multiple of `align`, without memory. MemoryError where there are none."""
        address = -(-self._device.place(size + align, self._taken()) // align) * align
        self._reserved.append(Allocation(address, size, "reserved", 0, address))
        return address

    def is_reserved(self, address: int, size: int) -> bool:
        """Do addresses lie in one range that `reserve` gave?"""
        return any(r.address <= address and address + size <= r.end for r in self._reserved)

    def give_back(self, address: int, size: int) -> bool:
        """Is this a range that `reserve` gave? It is gone now."""
        found = [r for r in self._reserved if (r.address, r.size) == (address, size)]
        self._reserved = [r for r in self._reserved if r not in found]
        return bool(found)

    def put(self, address: int, size: int, kind: str, where: str = "") -> Allocation:
        """An allocation at a place in a range that is reserved."""
        return self._add(Allocation(address, size, kind, self._count + 1, address, where))

    def take(self, allocation: Allocation) -> None:
        """Forget an allocation; its bytes stay."""
        n = bisect.bisect_left(self._begins, allocation.address)
        del self._begins[n], self._sorted[n]

    def raw(self, address: int, size: int) -> np.ndarray:
        """Bytes of a range that is reserved."""
        return bytes_at(address, size, self)

    def discard(self, address: int, size: int) -> None:
        """Give whole pages back to the machine; they are zero then."""
        _discard(address, size)

    def bind(
        self, address: int, size: int, owner: Any = None, *, place: int | None = None, where: str = "",
        elements: tuple[str, tuple[int, ...]] = ("", ()),
    ) -> Allocation:  # fmt: skip
        """Make the host's memory known as registered memory; `place` is where its bytes are in this process, if not
        there.
        """
        if any(other.address < address + size and address < other.end for other in self._near(address, size)):
            raise InputError(f"host memory {address:#x}: a part of its {size} bytes is registered already")
        return self._add(
            Allocation(address, size, "registered", self._count + 1, address if place is None else place, where, owner, elements)
        )

    def free(self, allocation: Allocation) -> None:
        """Give an allocation back, and its pages to the machine. Registered memory is the host's, which may have freed
        it: it stays as it is.
        """
        self.take(allocation)
        if allocation.kind in ("device", "managed"):
            self.used -= allocation.size
        if allocation.place == allocation.address and allocation.kind != "registered":
            first, last = self._own_pages(allocation)
            if last > first:
                _discard(first, last - first)
            for begin, end in ((allocation.address, min(first, allocation.end)), (max(last, first, allocation.address), allocation.end)):
                if end > begin:
                    bytes_at(begin, end - begin)[:] = 0

    def _own_pages(self, gone: Allocation) -> tuple[int, int]:
        """The pages (first, end) that only a freed allocation uses. They are given back, or a program that allocates
        often would grow.
        """
        n = bisect.bisect_left(self._begins, gone.address)
        before = self._sorted[n - 1].end if n else 0
        behind = self._sorted[n].address if n < len(self._sorted) else gone.end + PAGE
        first, last = gone.address // PAGE * PAGE, -(-gone.end // PAGE) * PAGE
        return first + PAGE * (before > first), last - PAGE * (behind < last)

    def at(self, address: int) -> Allocation | None:
        """The allocation that holds an address."""
        n = bisect.bisect_right(self._begins, address) - 1
        return self._sorted[n] if n >= 0 and address < max(self._sorted[n].end, self._sorted[n].address + 1) else None

    def is_ours(self, address: int) -> bool:
        """Is an address one that only allocations of this device can have?"""
        return any(base <= address < base + RANGE_BYTES for base in (self.device_base, self.host_base))

    def view(self, address: int, size: int) -> np.ndarray:
        """The bytes from an address on, the memory itself. InputError unless one allocation holds them all."""
        found = self.at(address)
        if found is None or address + size > found.end:
            raise InputError(f"{address:#x}: no array holds {size} bytes there")
        return bytes_at(found.place + address - found.address, size, self if found.owner is None else found.owner)

    def _near(self, address: int, size: int) -> list[Allocation]:
        first = max(0, bisect.bisect_right(self._begins, address) - 1)
        return self._sorted[first : bisect.bisect_left(self._begins, address + size)]

    def _add(self, allocation: Allocation) -> Allocation:
        self._count += 1
        n = bisect.bisect_right(self._begins, allocation.address)
        self._begins.insert(n, allocation.address)
        self._sorted.insert(n, allocation)
        return allocation


# ---- The file in memory


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
if _libc is not None:
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    _libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    _libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_MADV_REMOVE = 9


def _file(size: int) -> int:
    if _libc is None:
        raise InputError("the virtual GPU needs Linux: it maps memory at addresses of its own")
    descriptor = os.memfd_create("smemsim", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
    except OSError as e:
        os.close(descriptor)
        raise InputError(
            f"no file in memory of {told(size)} for the device's memory: {e.strerror}; is there a limit on files (ulimit -f)?"
        ) from None
    return descriptor


def _mapped(descriptor: int, base: int, offset: int, places: int) -> int:
    """Map a part of the file at `base`, or at the next free place after it."""
    assert _libc is not None
    for attempt in range(3 * places):
        if attempt == places:
            gc.collect()  # devices that are no longer used
        elif attempt == 2 * places:
            gc.unfreeze()  # they may be among what a program has frozen, through which a collection takes longer
            gc.collect()
        at = base + attempt % places * RANGE_BYTES
        found = _libc.mmap(
            at, RANGE_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _FIXED_NOREPLACE | _NORESERVE, descriptor, offset
        )
        if found == at:
            return at
        if found not in (None, ctypes.c_void_p(-1).value):
            _libc.munmap(found, RANGE_BYTES)
    raise SmemsimError(f"no room for {told(RANGE_BYTES)} of addresses from {base:#x} on; is there a limit of virtual memory (ulimit -v)?")


def _discard(address: int, size: int) -> None:
    assert _libc is not None
    if _libc.madvise(address, size, _MADV_REMOVE):
        bytes_at(address, size)[:] = 0


def _close(descriptor: int, bases: tuple[int, int]) -> None:
    assert _libc is not None
    for base in bases:
        _libc.munmap(base, RANGE_BYTES)
    os.close(descriptor)
