"""The shared memory of one CTA as bytes with owners, and operands read from it.

>>> import numpy as np
>>> from smemsim.core.words.tensor_map import TensorMap
>>> world, shared = GlobalMemory(), SharedMemory()
>>> a = world.place(np.arange(16 * 64, dtype=np.uint16).reshape(16, 64))
>>> tm = TensorMap.tiled(data_type="u16", global_address=a, global_dim=(64, 16), global_strides=(128,), box_dim=(64, 8),
...                      swizzle="128B")
>>> _ = shared.tma_load(tm, (0, 4), smem_address=1024, source=world)
>>> operand = shared.read_operand(0x4000004000000040, arch="sm_90a", dtype="bf16", major="K", rows=8, k=16)
>>> int(operand.bits[1, 0]), operand.coordinate(1, 0)
(320, (0, 5))
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from smemsim.base.arguments import whole
from smemsim.base.distinct import distinct
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic.reduce import tensor_reduction
from smemsim.core.machine.bulk import BulkTransfer, bulk_bytes, bulk_copy, bulk_reduce
from smemsim.core.machine.global_memory import GlobalMemory, Region
from smemsim.core.machine.owners import Owners, ThreadWrite
from smemsim.core.machine.tma import Boxes, BoxForm, Transfer, box_form, check_covered, store_boxes
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.assumptions import remembered
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.traps import ILLEGAL_ADDRESS
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import window_reach
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap

__all__ = [
    "WORDS",
    "GlobalMemory",
    "Operand",
    "SharedMemory",
    "ThreadWrite",
    "Windows",
    "element_bits",
    "offsets",
    "pattern",
    "places",
    "shifts",
]


# ---- Where the elements of an operand lie in a shared window, and how its bytes become elements


WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32}  # elements that are whole words of memory, by their bits
UNITS = {bits // 8: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}  # by their bytes


def places(
    descriptor: Any, *, arch: str, dtype: Any, major: str, rows: int, k: int, packing: str = "packed", window: tuple[int, int]
) -> np.ndarray:
    """The addresses of an operand's elements, uint32 (rows, k); `window` is (begin, end) of the CTA's.

    Raises HardwareTrap when the operand leaves the window (see `window_reach`: the last lines may).
    """
    begin, end = window
    address = operand_addresses(descriptor, arch=arch, dtype=dtype, major=major, rows=rows, k=k, packing=packing)
    if address.ndim != 2:
        raise InputError("read_operand takes one descriptor at a time")
    fmt = element_format(dtype)
    d = SmemDescriptor.decode(descriptor.encode() if isinstance(descriptor, SmemDescriptor) else descriptor, arch=arch)
    along, lines = address.shape[::-1] if major == "K" else address.shape
    farthest = window_reach(d, major, lines, -(-along // fmt.elements_per_chunk(packing)))
    if farthest > end:
        known = "" if arch == "sm_90a" else "; this trap is measured on Hopper, expected here"
        past = " (past the end by itself)" * (d.start_address >= end)
        fields = f"start {d.start_address:#x}{past}, LBO {d.leading_byte_offset} B, SBO {d.stride_byte_offset} B"
        reason = (
            f"descriptor {d.encode():#018x} ({rows} rows, {major}-major) reaches {farthest:#x}, {farthest - end} B past the end of the CTA's shared "
            f"window ({end:#x}): {fields}{known}"
        )
        raise HardwareTrap(reason, cuda_error=ILLEGAL_ADDRESS)
    if address.size and int(address.min()) < begin:
        raise Unmodelled(f"the operand begins at {int(address.min()):#x}; the reserved memory below {begin:#x} is not modelled")
    return address


def offsets(address: np.ndarray, window: tuple[int, int]) -> np.ndarray:
    """Offsets in the window. Lines past the end that do not fault read zero: their offsets are in the guard after the
    window, which is never written.
    """
    found: np.ndarray = np.minimum(address.astype(np.int64), window[1]) - window[0]
    return found


@remembered(512)
def pattern(
    word: int, arch: str, dtype: str, major: str, rows: int, k: int, window: tuple[int, int], packing: str = "packed"
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, k) the place of each element in the window, counted in `WORDS` or bytes, and the chunks of 16 bytes they
    are in, ascending.

    Kept for every word and window: those of a kernel come again and again.
    """
    at = offsets(places(word, arch=arch, dtype=dtype, major=major, rows=rows, k=k, packing=packing, window=window), window)
    return at * 8 // max(8, element_format(dtype).bits), distinct(at >> 4)


@remembered(512)
def wide_pattern(
    word: int, arch: str, dtype: str, major: str, rows: int, k: int, window: tuple[int, int], packing: str = "packed"
) -> tuple[np.ndarray, int, np.ndarray]:
    """`pattern` with flat places: counted in steps of 8 bytes if elements that follow one another along K are
    contiguous. The second result is the bytes of a step.
    """
    bits = element_format(dtype).bits
    index, chunks = pattern(word, arch, dtype, major, rows, k, window, packing)
    each = 64 // max(8, bits)
    if k % each == 0:
        first = index.reshape(rows, -1, each)[:, :, :1]
        if not ((first % each).any() or (index.reshape(rows, -1, each) != first + np.arange(each)).any()):
            return np.ascontiguousarray(first.reshape(-1) // each), 8, chunks
    return index.reshape(-1), max(8, bits) // 8, chunks


def element_bits(raw: np.ndarray, bits: int, per_chunk: int, major: str) -> np.ndarray:
    """Raw bytes (rows, k, size) to raw element bits, for types of whole bytes; sub-byte types are cut out of their byte
    or bytes.
    """
    value = np.zeros(raw.shape[:-1], np.uint64)
    for i in range(raw.shape[-1]):
        value |= raw[..., i].astype(np.uint64) << np.uint64(8 * i)
    if bits < 8:
        value = value >> shifts(raw.shape[:2], bits, per_chunk, major) & np.uint64((1 << bits) - 1)
    return value.astype({64: np.uint64, **WORDS}.get(bits, np.uint8))


@functools.lru_cache(maxsize=64)
def shifts(shape: tuple[int, int], bits: int, per_chunk: int, major: str) -> np.ndarray:
    """How far from its byte's lowest bit each element of a sub-byte type begins, (rows or 1, k or 1)."""
    index = np.arange(shape[1])[None, :] if major == "K" else np.arange(shape[0])[:, None]
    return np.asarray((index % per_chunk * bits % 8).astype(np.uint64))


# ---- Memory as bytes, and for every shared byte its writer: the transfer and the element of the tensor, or none


GUARD = 16  # bytes after the window: one element of any type
NOWHERE = Region.of(0, bytes(1))  # for boxes that touch no global byte


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Operand(metaclass=OwnMembers):
    """The operand that one MMA read through a descriptor: arrays of shape (rows, k).

    Raw element bits are `bits`. The array `writer` has an index into `writers`, or -1 if the byte is uninitialised. The
    place of the byte in the writer's dense box is `position`. An element is `torn` if its bytes do not come from one
    place. It is `unwritten` if a byte of it is uninitialised.

    >>> import smemsim
    >>> import numpy as np
    >>> shared = smemsim.SharedMemory()
    >>> shared.write(0x400, np.arange(512, dtype=np.uint16).reshape(64, 8), label="A")
    >>> operand = shared.read_operand(0x0000000800080040, dtype="bf16", major="K", rows=64, k=16)
    >>> operand.bits[1, :3].tolist(), int(operand.unwritten.sum())
    ([8, 9, 10], 64)
    """

    address: np.ndarray
    bits: np.ndarray
    writer: np.ndarray
    position: np.ndarray
    torn: np.ndarray
    unwritten: np.ndarray
    writers: Sequence[Transfer | BulkTransfer | ThreadWrite]

    def __repr__(self) -> str:
        unwritten, torn = int(self.unwritten.sum()), int(self.torn.sum())
        return f"<Operand {self.bits.shape[0]} x {self.bits.shape[1]} of {self.bits.dtype}: {unwritten} elements unwritten, {torn} torn>"

    def coordinate(self, row: int, k: int) -> tuple[int, ...] | None:
        """The coordinate of the tensor element at (row, k), dimension 0 first. None if no TMA load wrote it."""
        rows, columns = self.writer.shape
        row, k = whole("row", row, minimum=0), whole("k", k, minimum=0)
        if row >= rows or k >= columns:
            raise InputError(f"row = {row}, k = {k}: the operand has {rows} rows and {columns} of K")
        w = int(self.writer[row, k])
        writer = self.writers[w] if w >= 0 else None
        if not isinstance(writer, Transfer):
            return None
        return tuple(writer.tensor_coordinates(self.position[row, k]).tolist())

    def coordinates(self) -> np.ndarray:
        """The coordinates of all elements, int64 (rows, k, 5), dimension 0 first. -2^63 if no TMA load wrote the
        element.
        """
        out = np.full((*self.writer.shape, 5), np.iinfo(np.int64).min)
        for w in distinct(self.writer[self.writer >= 0]).tolist():
            writer = self.writers[w]
            if isinstance(writer, Transfer):
                mine = self.writer == w
                found = writer.tensor_coordinates(self.position[mine])
                out[mine] = np.pad(found, ((0, 0), (0, 5 - found.shape[1])))
        return out


class SharedMemory(metaclass=OwnMembers):
    """One CTA's shared-memory window, with the owner of every byte.

    - `size`: the bytes that the kernel asks for. Default: the largest window of the architecture. The system's bytes
      come before it (the first KiB on sm_90a). In `.shared` addresses the window is `begin` to `end`.
    - `room`, `at`, `owners`: for smemsim itself, which keeps the memories of several CTAs in one array.

    >>> import smemsim
    >>> import numpy as np
    >>> shared = smemsim.SharedMemory("sm_90a", size=1024)
    >>> hex(shared.begin), hex(shared.end)
    ('0x400', '0x800')
    >>> shared.write(0x400, np.arange(16, dtype=np.uint8), label="A")
    >>> int(shared.bytes[0x404 - shared.begin])
    4
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "boxes", "bulk_arrives", "bulk_leaves", "bulk_source", "bulk_target", "form", "line_writers",
        "lines_writers", "load", "look", "operand_bits", "operand_bytes", "operand_chunks", "operand_words",
        "owned", "store",
    )  # fmt: skip

    def __init__(
        self, arch: str = "sm_90a", *, size: int | None = None, room: np.ndarray | None = None, at: int = 0, owners: Owners | None = None
    ) -> None:
        machine = any_architecture(arch)
        self.arch = machine.name
        self.begin = machine.shared_begin
        asked = machine.shared_end if size is None else self.begin + whole("size", size)
        self.end = -(-asked // machine.shared_granularity) * machine.shared_granularity
        if not self.begin <= asked <= machine.shared_end:
            raise InputError(f"size = {size} B: {arch} has 0 to {machine.shared_end - self.begin} B of shared memory a CTA")
        count = (self.end - self.begin + GUARD) // 8
        self.room, self.at = np.zeros(count, np.uint64) if room is None else room, at
        self._words = self.room[at // 8 : at // 8 + count]
        self._memory = self._words.view(np.uint8)
        self.bytes = self._memory[:-GUARD]
        self._owners = Owners(len(self._memory)) if owners is None else owners

    @property
    def writers(self) -> list[Transfer | BulkTransfer | ThreadWrite]:
        """Everything that has written to the window, in order."""
        return self._owners.writers

    def _span(self, address: int, size: int) -> slice:
        address = whole("address", address)
        self._check_begin(address)
        if address + size > self.end:
            raise HardwareTrap(
                f"shared bytes {address:#x} to {address + size:#x} are not inside the window {self.begin:#x} to {self.end:#x}",
                cuda_error=ILLEGAL_ADDRESS,
            )
        return slice(address - self.begin, address + size - self.begin)

    def write(self, address: int, data: bytes | np.ndarray, label: str = "threads") -> None:
        """Store data at the addresses that software chose, like threads do."""
        if not isinstance(data, (bytes, bytearray, memoryview, np.ndarray)):
            raise InputError(f"data: needs bytes or a numpy array, not {type(data).__name__}")
        raw = np.frombuffer(data.tobytes() if isinstance(data, np.ndarray) else bytes(data), np.uint8)
        span = self._span(address, len(raw))
        self.writers.append(ThreadWrite(address, len(raw), label))
        self.bytes[span] = raw
        self._owners.set_run(span.start, len(raw), len(self.writers))

    def peek(self, address: int, size: int) -> np.ndarray:
        """A copy of `size` bytes from `address` on."""
        span = self._span(address, whole("size", size, minimum=0))
        return self.bytes[span].copy()

    def tma_load(
        self,
        tm: TensorMap,
        coordinates: Sequence[int],
        *,
        smem_address: int,
        source: GlobalMemory,
        im2col_offsets: Sequence[int] = (),
        mode: str | None = None,
    ) -> Transfer:
        """Run a TMA load of any mode from `source` into this window. Raises as `smemsim.tma_load` does."""
        form = self.form(tm, smem_address, im2col_offsets, mode)
        boxes, region = self.boxes(form, [form.coordinates(coordinates)], source)
        SharedMemory.load([self], boxes, region)
        return boxes.transfers[0]

    def form(self, tm: TensorMap, smem_address: int, im2col_offsets: Sequence[int] = (), mode: str | None = None, *, is_store: bool = False) -> BoxForm:  # fmt: skip
        """The form of loads, or stores, of boxes of a map at one address of windows like this one. Raises InputError
        for arguments that no instruction has.
        """
        return box_form(
            tm, smem_address=smem_address, im2col_offsets=im2col_offsets, mode=mode, arch=self.arch, shared_end=self.end, is_store=is_store
        )

    def boxes(self, form: BoxForm, each: Sequence[tuple[int, ...]], array: GlobalMemory) -> tuple[Boxes, Region]:
        """Boxes of a form that begin at some coordinates each, and the array that they touch; nothing is moved yet.
        Raises as `smemsim.tma_load` does.
        """
        found = form.boxes(each)
        if form.broken:
            raise InputError(f"{self.arch} has no such tensor map: {form.broken}")
        if form.smem_address < self.begin:
            self._check_begin(form.smem_address)
        region = array.holding(*found.span) if isinstance(array, GlobalMemory) and found.span[1] else None
        return found, region or _array_of(found, array)

    @staticmethod
    def load(memories: Sequence[SharedMemory], boxes: Boxes, region: Region) -> None:
        """Move the bytes of loads, each into one of several memories of one room."""
        first = memories[0]
        Owners.load([memory._owners for memory in memories], boxes, first.room, _begins(memories), region)

    @staticmethod
    def store(memories: Sequence[SharedMemory], boxes: Boxes, region: Region, operation: str = "") -> None:
        """Move the bytes of stores, or of reductions by an operation, each out of one of
        several memories of one room.
        """
        store_boxes(boxes, memories[0].room, _begins(memories), region, operation)

    def tma_store(
        self, tm: TensorMap, coordinates: Sequence[int], *, smem_address: int, to: GlobalMemory, mode: str | None = None
    ) -> Transfer:  # fmt: skip
        """Run a TMA store of any mode from this window into `to`. Raises as `smemsim.tma_store` does."""
        form = self.form(tm, smem_address, (), mode, is_store=True)
        boxes, region = self.boxes(form, [form.coordinates(coordinates)], to)
        SharedMemory.store([self], boxes, region)
        return boxes.transfers[0]

    def tma_reduce(
        self, op: Any, tm: TensorMap, coordinates: Sequence[int], *, smem_address: int, to: GlobalMemory, mode: str | None = None
    ) -> Transfer:
        """Run a TMA reduction from this window into `to`. Raises as `smemsim.tma_reduce` does."""
        if isinstance(tm, TensorMap):
            tensor_reduction(op, tm.data_type)
        form = self.form(tm, smem_address, (), mode, is_store=True)
        boxes, region = self.boxes(form, [form.coordinates(coordinates)], to)
        SharedMemory.store([self], boxes, region, op)
        return Transfer(boxes, 0, str(op))

    def bulk_load(self, smem_address: int, global_address: int, size: int, *, mbar: int, source: GlobalMemory) -> BulkTransfer:
        """`cp.async.bulk.shared::cta.global`: copy from `source` into this window. Raises as
        `smemsim.bulk_copy` does.
        """
        given: dict[str, Any] = {"dst_space": "shared::cta", "src_space": "global", "mbar": mbar, "shared_end": self.end}
        return self.bulk_arrives(bulk_copy(smem_address, global_address, size, **given), source)

    def bulk_arrives(self, transfer: BulkTransfer, source: GlobalMemory) -> BulkTransfer:
        """Bring in the bytes of a bulk copy from global memory."""
        data, at = self.bulk_source(transfer, source), transfer.dst - self.begin
        if transfer.size:
            self.writers.append(transfer)
            self._memory[at : at + transfer.size] = data
            self._owners.set_run(at, transfer.size, len(self.writers))
        return transfer

    def bulk_source(self, transfer: BulkTransfer, source: GlobalMemory) -> np.ndarray:
        """The bytes of global memory that a bulk copy into this window reads. Raises
        OutsideError where nothing lies.
        """
        _check_world(source)
        self._check_begin(transfer.dst)
        return source.span(transfer.src, transfer.size) if transfer.size else np.zeros(0, np.uint8)

    def bulk_store(self, smem_address: int, global_address: int, size: int, *, to: GlobalMemory) -> BulkTransfer:
        """`cp.async.bulk.global.shared::cta`: copy from this window to `to`. Raises as `smemsim.bulk_copy` does."""
        transfer = bulk_copy(global_address, smem_address, size, dst_space="global", src_space="shared::cta", shared_end=self.end)
        self.bulk_leaves(transfer, to)
        return transfer

    def bulk_reduce(self, op: str, dtype: str, smem_address: int, global_address: int, size: int, *, to: GlobalMemory) -> BulkTransfer:
        """`cp.reduce.async.bulk.global.shared::cta`: reduce this window's bytes into `to`. Raises as
        `smemsim.bulk_reduce` does.
        """
        transfer = bulk_reduce(op, dtype, global_address, smem_address, size, dst_space="global", shared_end=self.end)
        self.bulk_leaves(transfer, to)
        return transfer

    @in_default_state
    def bulk_leaves(self, transfer: BulkTransfer, to: GlobalMemory, chosen: np.ndarray | None = None) -> None:
        """Move the bytes of a bulk copy, or reduction, to global memory; `chosen` (bool[16]): of each 16 bytes those
        alone.
        """
        data = self.bulk_target(transfer, to)
        if transfer.size:
            at = transfer.src - self.begin
            new = bulk_bytes(transfer, dst=data, src=self._memory[at : at + transfer.size])
            if chosen is None:
                data[:] = new
            else:
                data.reshape(-1, len(chosen))[:, chosen] = new.reshape(-1, len(chosen))[:, chosen]

    def bulk_target(self, transfer: BulkTransfer, to: GlobalMemory) -> np.ndarray:
        """The bytes of global memory that a bulk copy writes. Raises OutsideError where nothing lies."""
        self._check_begin(transfer.src)
        _check_world(to)
        return to.span(transfer.dst, transfer.size) if transfer.size else np.zeros(0, np.uint8)

    def __repr__(self) -> str:
        return f"SharedMemory(arch={self.arch!r}, size={self.end - self.begin})  # {len(self.writers)} writers"

    def _check_begin(self, smem_address: int) -> None:
        if smem_address < 0:
            raise InputError(f"smem_address = {smem_address}: needs a byte address in the .shared window")
        if smem_address < self.begin:
            raise Unmodelled(f"smem_address = {smem_address:#x}: below {self.begin:#x} lies what the system keeps in shared memory")

    def owned(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(writer, place) of bytes at offsets from the window's begin: the number of the writer from 1 on (0:
        uninitialised), the index of the byte in its data. IndexError for offsets outside of the window.
        """
        if offsets.size and not 0 <= offsets.min() <= offsets.max() < len(self._memory):
            raise IndexError(f"offsets from {offsets.min()} to {offsets.max()} in a window of {len(self.bytes)} bytes")
        return self._owners.of(offsets)

    def owned_in_parts(self, chunks: np.ndarray) -> np.ndarray:
        """Which chunks of 16 bytes, by their numbers in the window, several may have written."""
        return self._owners.has_several(chunks)

    def look(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(source, writer) of bytes at offsets from the window's begin, as `Owners.look` has them; some may lie
        outside.
        """
        return self._owners.look(offsets)

    def line_writers(self, lines: np.ndarray) -> np.ndarray:
        """The writers of lines of 128 bytes, by their numbers in the window; 0 for lines
        that no load wrote as a whole.
        """
        return self._owners.of_lines(lines)

    @staticmethod
    def lines_writers(memories: Sequence[SharedMemory], lines: np.ndarray) -> np.ndarray:
        """`line_writers` of several memories, a row for each."""
        if all(memory._is_beside(memories[0]) for memory in memories):
            return Owners.each_of_lines([memory._owners for memory in memories], lines)
        return np.stack([memory.line_writers(lines) for memory in memories])

    def owner(self, address: int) -> tuple[Transfer | BulkTransfer | ThreadWrite, tuple[int, ...]] | None:
        """The writer of the byte at `address`, and the tensor element that it wrote there. For a writer that is a
        thread: the index of the byte in its data. None if the byte is uninitialised.
        """
        at = whole("address", address) - self.begin
        if not 0 <= at < self.end - self.begin:
            raise InputError(f"address = {address:#x}: not in the window {self.begin:#x} to {self.end:#x}")
        found, where = self._owners.of(np.array([at]))
        w, position = int(found[0]), int(where[0])
        if not w:
            return None
        writer = self.writers[w - 1]
        if isinstance(writer, Transfer):
            return writer, tuple(writer.tensor_coordinates(np.array(position)).tolist())
        return writer, (position,)

    def read_operand(
        self, descriptor: Any, *, dtype: Any, major: str, rows: int, k: int, packing: str = "packed", arch: str | None = None
    ) -> Operand:
        """Read one operand as the tensor core does. The arguments are those of `operand_addresses`, for one descriptor
        and without `arch`.

        Raises HardwareTrap when the operand leaves the window (see `window_reach`: the last lines may, and read as
        zero).
        """
        if arch is not None and any_architecture(arch).name != self.arch:
            raise InputError(f"arch = {arch}: this shared memory is that of {self.arch}")
        address = places(
            descriptor, arch=self.arch, dtype=dtype, major=major, rows=rows, k=k, packing=packing, window=(self.begin, self.end)
        )
        fmt = element_format(dtype)
        size = 2 if fmt.bits == 6 else -(-fmt.bits // 8)  # a 6-bit element may straddle two bytes
        at = offsets(address, (self.begin, self.end))
        reach = at[..., None] + np.arange(size)
        writer, position = self._owners.of(reach)
        if fmt.bits == 6:  # the second byte counts where the element reaches into it
            index = np.arange(address.shape[1])[None, :] if major == "K" else np.arange(address.shape[0])[:, None]
            alone = np.broadcast_to((index % fmt.elements_per_chunk(packing) * fmt.bits % 8 <= 8 - fmt.bits), address.shape)
            writer, position = writer.copy(), position.copy()
            writer[alone, 1], position[alone, 1] = writer[alone, 0], position[alone, 0] + 1
        torn = (writer != writer[..., :1]).any(-1) | (np.diff(position.astype(np.int64), axis=-1) != 1).any(-1) & (writer[..., 0] > 0)
        return Operand(
            address,
            element_bits(self._memory[reach], fmt.bits, fmt.elements_per_chunk(packing), major),
            writer[..., 0].astype(np.int64) - 1,
            position[..., 0],
            torn,
            (writer == 0).any(-1),
            tuple(self.writers),
        )

    def operand_bits(self, word: int, *, dtype: str, major: str, rows: int, k: int, packing: str = "packed") -> tuple[np.ndarray, bool]:
        """The bits of `read_operand`, and whether some of them are uninitialised."""
        fmt = element_format(dtype)
        index, chunks = pattern(word, self.arch, dtype, major, rows, k, (self.begin, self.end), packing)
        if self._owners.owned(chunks):
            if fmt.bits >= 8:
                return self._words.view(WORDS[fmt.bits])[index], False
            reach = index[..., None] + np.arange(1 + (fmt.bits == 6))
            return element_bits(self._memory[reach], fmt.bits, fmt.elements_per_chunk(packing), major), False
        operand = self.read_operand(word, dtype=dtype, major=major, rows=rows, k=k, packing=packing)
        return operand.bits, bool(operand.unwritten.any())

    def _is_beside(self, other: SharedMemory) -> bool:
        """Do both lie in one room, with windows of one size?"""
        return self.room is other.room and self.end == other.end and self.arch == other.arch

    def operand_words(self, word: int, *, dtype: str, major: str, rows: int, k: int, packing: str = "packed") -> np.ndarray:
        """(rows, k) the word of 4 bytes in which each element of an operand begins, counted from the window's begin."""
        index, _ = pattern(word, self.arch, dtype, major, rows, k, (self.begin, self.end), packing)
        found: np.ndarray = index * max(8, element_format(dtype).bits) // 32
        return found

    def operand_bytes(self, word: int, *, dtype: str, major: str, rows: int, k: int, packing: str = "packed") -> np.ndarray:
        """(rows, k) the bytes of a 32-bit word (`operand_words`) that each element takes: bit n stands for byte n."""
        index, _ = pattern(word, self.arch, dtype, major, rows, k, (self.begin, self.end), packing)
        size = max(8, element_format(dtype).bits) // 8
        found: np.ndarray = ((1 << min(size, 4)) - 1 << (index * size & 3)).astype(np.uint8)
        return found

    def operand_chunks(self, word: int, *, dtype: str, major: str, rows: int, k: int, packing: str = "packed") -> np.ndarray:
        """The chunks of 16 bytes that an operand has bytes in, counted from the window's begin, ascending."""
        return pattern(word, self.arch, dtype, major, rows, k, (self.begin, self.end), packing)[1]


class Windows:
    """The shared memories of several CTAs, read through one descriptor: together if they are windows of one size in one
    room.

    >>> import numpy as np
    >>> shared = SharedMemory("sm_90a", size=1024)
    >>> shared.write(0x400, np.arange(128, dtype=np.uint16))
    >>> bits, unwritten = Windows([shared, shared]).operands_bits(0x1000080040, dtype="bf16", major="K", rows=8, k=16)
    >>> bits.shape, bits[1, 1, :3].tolist(), unwritten.tolist()
    ((2, 8, 16), [8, 9, 10], [False, False])
    """

    def __init__(self, memories: Sequence[SharedMemory]) -> None:
        first = self._first = memories[0]
        self.memories = tuple(memories)
        self._are_beside = len(memories) > 1 and all(memory._is_beside(first) for memory in memories)
        self._begins = np.array([memory.at for memory in memories], np.int64)  # bytes
        self._some: dict[tuple[int, ...], Windows] = {}
        ids = [*map(id, memories)]
        known = {memory: number for number, memory in enumerate(dict.fromkeys(ids))}
        self.numbers = tuple([known[memory] for memory in ids])  # equal ones are one memory
        self._owners, self._chunks = Owners.begins_of([memory._owners for memory in memories])

    def some(self, numbers: tuple[int, ...]) -> Windows:
        """Some of them, by their place among all."""
        found = self._some.get(numbers)
        if found is None:
            found = self._some[numbers] = Windows([self.memories[n] for n in numbers])
        return found

    def operands_bits(
        self, word: int, *, dtype: str, major: str, rows: int, k: int, packing: str = "packed"
    ) -> tuple[np.ndarray, np.ndarray]:
        """`SharedMemory.operand_bits` of each: raw bits (memories, rows, k), bool (memories,)."""
        first, bits = self._first, element_format(dtype).bits
        if self._are_beside and bits in WORDS:
            places, size, chunks = wide_pattern(word, first.arch, dtype, major, rows, k, (first.begin, first.end), packing)
            out, unit = np.empty((len(self.memories), rows, k), WORDS[bits]), UNITS[size]
            flat = out.view(unit).reshape(len(out), -1)
            if self._owners.gather(chunks, self._chunks, first.room.view(unit), self._begins // size, places, flat):
                return out, np.zeros(len(out), bool)
        found = [memory.operand_bits(word, dtype=dtype, major=major, rows=rows, k=k, packing=packing) for memory in self.memories]
        return np.stack([bits for bits, _ in found]), np.array([missing for _, missing in found])


def _array_of(boxes: Boxes, memory: GlobalMemory) -> Region:
    """The array that transfers touch."""
    _check_world(memory)
    low, high = boxes.span
    if not high:
        if not boxes.form.is_store:
            memory.find(boxes.form.tensor_map.global_address)  # looked up all the same (trace tma_edited)
        return NOWHERE
    region = memory.find(low)
    check_covered(boxes.span, region.begin, len(region.data), "the array there")
    return region


def _begins(memories: Sequence[SharedMemory]) -> np.ndarray:
    """The shared addresses that the first byte of their room would have in memories."""
    return memories[0].begin - np.array([memory.at for memory in memories], np.int64)


def _check_world(memory: Any) -> None:
    if not isinstance(memory, GlobalMemory):
        raise InputError(f"global memory: needs a GlobalMemory, not {type(memory).__name__}")
