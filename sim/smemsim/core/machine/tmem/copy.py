"""`tcgen05_cp` and `tcgen05_shift`: from shared memory into tensor memory, and one lane further inside it.

>>> from smemsim.core.machine.memory import SharedMemory
>>> shared, tmem = SharedMemory("sm_100a"), TensorMemory("sm_100a")
>>> shared.write(0x400, np.arange(512, dtype=np.uint16).astype(np.uint8))
>>> to = tmem.alloc(32)
>>> _ = tcgen05_cp(tmem, to, 0x0000400800000040, shape="32x128b", multicast="warpx4", shared=shared)
>>> hex(tmem.read(97, 1)), tmem.owner(97, 1).source.where
('0x17161514', (20,))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.layout.tensor_memory import copy_lane, shift_source
from smemsim.core.machine.memory import Operand, SharedMemory
from smemsim.core.machine.product import SharedOperand, weaker
from smemsim.core.machine.tmem.address import TmemAddress, check_columns
from smemsim.core.machine.tmem.memory import TensorMemory, TmemCopy, check_together, memories_of
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_memory import COPY_SHAPES, DECOMPRESSIONS, LANES, SHIFT, CopyShape, Decompression
from smemsim.core.words.smem import SmemDescriptor

__all__ = ["copied_cells", "copied_operand", "copy_shape", "copy_unowned", "decompress", "tcgen05_cp", "tcgen05_shift"]


CHUNK = 16  # bytes that begin 16 elements where the source is compressed


def copy_shape(shape: Any, multicast: Any = "") -> CopyShape:
    """The row of a shape with its multicast; InputError where tcgen05.cp has no such form."""
    name, cast = (text.removeprefix(".") if isinstance(text, str) else shown(text) for text in (shape, multicast))
    if (name, cast) in COPY_SHAPES:
        row: CopyShape = assumed("cp.shape", COPY_SHAPES[name, cast])
        return row
    named = [row for row in COPY_SHAPES.values() if row.name == name]
    if not named:
        raise InputError(
            f"shape = {shown(shape)}: tcgen05.cp has {', '.join(dict.fromkeys(row.name for row in COPY_SHAPES.values()))}"
            f"{suggestion(name, [row.name for row in COPY_SHAPES.values()])}"
        )
    needs = " or ".join(f"'{row.multicast}'" if row.multicast else "none" for row in named)
    raise InputError(f"multicast = {shown(multicast)}: .{name} takes {needs} (PTX ISA 9.1 §9.7.16.9.2)")


def copied_cells(row: CopyShape, address: TmemAddress) -> tuple[np.ndarray, np.ndarray]:
    """(lane, column) of the cells that a copy to an address writes: (rows, copies, 1) and (rows, copies, columns),
    every row `copies` times.

    InputError for lanes that the shape does not fit, Unmodelled past the last column.

    >>> lane, column = copied_cells(copy_shape("32x128b", "warpx4"), TmemAddress(0, 8))
    >>> lane[5, :, 0].tolist(), column[5, 0].tolist()
    ([5, 37, 69, 101], [8, 9, 10, 11])
    """
    room = LANES - 1 - int(copy_lane(row.rows - 1, row.copies - 1, row.run, row.run_step, row.copy_step))
    if address.lane > room:
        where = f"lanes 0 to {room}" if room else "lane 0"
        raise InputError(f"taddr = {address.encode():#x}: lane {address.lane}; .{row.name} fills the lanes from {where} on")
    check_columns(f"tcgen05.cp.{row.name}", address.column, row.columns)
    lane = address.lane + copy_lane(
        np.arange(row.rows)[:, None, None], np.arange(row.copies)[:, None], row.run, row.run_step, row.copy_step
    )
    return lane, np.broadcast_to(address.column + np.arange(row.columns), (row.rows, row.copies, row.columns))


def decompress(data: np.ndarray, src_fmt: str) -> np.ndarray:
    """The bytes that .b8x16 makes of rows of 16-byte chunks: uint8 (rows, bytes) to the same shape, an element each.

    An element has these bits of its byte: E2M1 5:2, E2M3 and E3M2 5:0 (compiled: DECOMPRESSIONS).

    >>> decompress(np.arange(16, dtype=np.uint8).reshape(1, 16) * 16 + 3, "b4x16_p64")[0, :4].tolist()
    [12, 0, 12, 4]
    """
    row = _format(src_fmt)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] % CHUNK:
        raise InputError("data: needs uint8 rows of whole 16-byte chunks")
    packed = data.reshape(len(data), -1, CHUNK)[..., : CHUNK * row.bits // 8]
    bits = np.unpackbits(packed, axis=-1, bitorder="little").reshape(*packed.shape[:2], CHUNK, row.bits)
    out: np.ndarray = (bits << np.arange(row.bits, dtype=np.uint8)).sum(-1, dtype=np.uint8) << row.shift
    return out.reshape(data.shape)


def _format(src_fmt: Any) -> Decompression:
    name = src_fmt.removeprefix(".") if isinstance(src_fmt, str) else ""
    if name not in DECOMPRESSIONS:
        raise InputError(
            f"src_fmt = {shown(src_fmt)}: tcgen05.cp decompresses {' and '.join(DECOMPRESSIONS)} to b8x16 (PTX ISA 9.1 §9.7.16.9.1)"
        )
    row: Decompression = assumed("decompression", DECOMPRESSIONS[name])
    return row


def copied_operand(shape: CopyShape, descriptor: int | SmemDescriptor) -> SharedOperand:
    """The rows of shared memory that a copy reads, as bytes."""
    return SharedOperand(descriptor, "u8", "K", shape.rows, shape.row_bytes)


def tcgen05_cp(
    tensor_memory: TensorMemory | tuple[TensorMemory, TensorMemory],
    taddr: int | TmemAddress,
    descriptor: Any,
    *,
    shape: str,
    shared: SharedMemory | tuple[SharedMemory, SharedMemory],
    multicast: str = "",
    src_fmt: str = "",
    cta_group: int = 1,
) -> tuple[TmemCopy, ...]:
    """Copy rows of shared memory to lanes of tensor memory by `tcgen05.cp`. The rows are read through a descriptor
    (always K-major). Returns one TmemCopy for each CTA, which knows the writer of every byte.

    The shape is "128x256b", "128x128b", "4x256b", "64x128b" or "32x128b". The `multicast` of "64x128b" is
    "warpx2::02_13" or "warpx2::01_23". That of "32x128b" is "warpx4". With `src_fmt` "b4x16_p64" or "b6x16_p32" each 4-
    or 6-bit element becomes a byte (.b8x16). With `cta_group` 2, both memories are pairs, and each CTA copies from its
    own shared memory (inferred).

    Grades: COPY_SHAPES, DECOMPRESSIONS; none is measured. Raises InputError for forms that do not exist and for lanes
    that do not fit. Raises HardwareTrap if the rows leave the shared window. Raises Unmodelled past the last column and
    for descriptors of unknown meaning.

    >>> import smemsim
    >>> import numpy as np
    >>> shared, tmem = smemsim.SharedMemory("sm_100a"), smemsim.TensorMemory("sm_100a")
    >>> shared.write(0x400, np.arange(2048, dtype=np.uint8), label="rows of 16 bytes")
    >>> word = smemsim.SmemDescriptor(arch="sm_100a", start_address=0x400, stride_byte_offset=128).encode()
    >>> at = tmem.alloc(32)
    >>> (copied,) = smemsim.tcgen05_cp(tmem, at, word, shape="128x128b", shared=shared)
    >>> hex(tmem.cells[1, 0])
    '0x13121110'
    """
    form = _Form.of(tensor_memory, taddr, descriptor, shape, shared, multicast, src_fmt, cta_group)
    row, fmt, operand, (lane, column) = form.shape, form.fmt, form.operand, form.cells
    read = [operand.read(source) for source in form.sources]
    grade = form.grade()
    for memory in form.memories:
        memory.check_allocated(lane, column)
    copies = []
    for cta, (memory, rows) in enumerate(zip(form.memories, read, strict=True)):
        data, behind = _moved(rows, fmt)
        copy = TmemCopy(
            row,
            fmt.name if fmt else "",
            form.address.encode(),
            operand.number & (1 << 64) - 1,
            cta,
            grade,
            np.take_along_axis(rows.writer, behind, 1),
            np.take_along_axis(rows.position, behind, 1),
            rows.writers,
        )
        words = np.ascontiguousarray(data).view("<u4")[:, None, :]
        place = np.arange(row.rows * row.columns).reshape(row.rows, 1, row.columns) * 4
        memory.write_placed(lane, column, np.broadcast_to(words, column.shape), copy, np.broadcast_to(place, column.shape))
        copies.append(copy)
    return tuple(copies)


def copy_unowned(
    tensor_memory: TensorMemory | tuple[TensorMemory, TensorMemory], taddr: int, descriptor: int, *, shape: str,
    shared: SharedMemory | tuple[SharedMemory, SharedMemory], multicast: str, src_fmt: str, cta_group: int,
) -> Grade | None:  # fmt: skip
    """`tcgen05_cp` for tensor memories without owners. Returns its grade; None, and nothing is copied, if a source byte
    is uninitialised.
    """
    form = _Form.of(tensor_memory, taddr, descriptor, shape, shared, multicast, src_fmt, cta_group)
    read = [form.operand.bits(source) for source in form.sources]
    if any(missing for _, missing in read):
        return None
    lane, column = form.cells
    for memory in form.memories:
        memory.check_allocated(lane, column)
    for memory, (bits, _) in zip(form.memories, read, strict=True):
        data = bits if form.fmt is None else decompress(bits, form.fmt.name)
        memory.cells[lane, column] = np.ascontiguousarray(data).view("<u4")[:, None, :]
    return form.grade()


@dataclasses.dataclass(frozen=True, eq=False)
class _Form:
    """A copy that exists: from where to where."""

    shape: CopyShape
    fmt: Decompression | None
    address: TmemAddress
    memories: Sequence[TensorMemory]
    sources: Sequence[SharedMemory]
    cells: tuple[np.ndarray, np.ndarray]
    operand: SharedOperand

    @classmethod
    def of(
        cls, tensor_memory: Any, taddr: int | TmemAddress, descriptor: Any, shape: str, shared: Any, multicast: str, src_fmt: str, cta_group: int
    ) -> _Form:  # fmt: skip
        row = copy_shape(shape, multicast)
        fmt = None if isinstance(src_fmt, str) and not src_fmt else _format(src_fmt)
        address = TmemAddress.decode(taddr)
        memories = memories_of("tensor_memory", tensor_memory, TensorMemory, cta_group)
        sources = assumed("cp.sources", memories_of("shared", shared, SharedMemory, cta_group))
        check_together(memories, sources, cta_group)
        return cls(row, fmt, address, memories, sources, copied_cells(row, address), copied_operand(row, descriptor))

    def grade(self) -> Grade:
        """The weakest of what the copy rests on."""
        grades = [self.shape.grade, *(self.operand.grade(source) for source in self.sources)]
        grades += [self.fmt.grade] if self.fmt else []
        grades += [Grade.INFERRED] if len(self.memories) == 2 else []
        return weaker(*grades)


def _moved(operand: Operand, fmt: Decompression | None) -> tuple[np.ndarray, np.ndarray]:
    """The bytes that are written, and for each the byte of its row in shared memory that it, or its lowest bit, comes
    from.
    """
    at = np.arange(operand.bits.shape[1])
    if fmt is None:
        return operand.bits, np.broadcast_to(at, operand.bits.shape)
    return decompress(operand.bits, fmt.name), np.broadcast_to(at // CHUNK * CHUNK + at % CHUNK * fmt.bits // 8, operand.bits.shape)


def tcgen05_shift(tensor_memory: TensorMemory | tuple[TensorMemory, TensorMemory], taddr: int | TmemAddress, *, cta_group: int = 1) -> None:
    """`tcgen05.shift.down`: in 8 columns (32 bytes) from the address on, every lane takes the content of the next one.
    The last of 32 keeps its own. Owners move with their bytes.

    Witnessed on sm_100a (rule tcgen05.shift): PTX ISA 9.1 §9.7.16.9.3 gives neither the direction nor the 32 lanes.
    Raises InputError for a lane that is not a multiple of 32. Raises Unmodelled for a lane above 0, since it is not
    known whether the lanes below shift, too.

    >>> from smemsim import TensorMemory, tcgen05_shift
    >>> import numpy as np
    >>> tmem = TensorMemory()
    >>> to = tmem.alloc(32)
    >>> tmem.cells[:, to.column] = np.arange(128)
    >>> tcgen05_shift(tmem, to)
    >>> tmem.cells[[0, 30, 31, 32], to.column].tolist()
    [1, 31, 31, 33]
    """
    address = TmemAddress.decode(taddr)
    memories = memories_of("tensor_memory", tensor_memory, TensorMemory, cta_group)
    check_together(memories, (), cta_group)
    if address.lane % SHIFT.lane_alignment:
        raise InputError(
            f"taddr = {address.encode():#x}: lane {address.lane}; tcgen05.shift needs a multiple of {SHIFT.lane_alignment} (PTX ISA 9.1 §9.7.16.9.3)"
        )
    if address.lane:
        raise Unmodelled(
            f"taddr = {address.encode():#x}: which lanes a shift at lane {address.lane} moves is not known; at lane 0 it moves all",
            see="smemsim.DISPUTES['direction of shift']",
        )
    check_columns("tcgen05.shift", address.column, SHIFT.columns)
    lane, column = np.arange(LANES)[:, None], address.column + np.arange(SHIFT.columns)
    for memory in memories:
        memory.check_allocated(lane, column)
    for memory in memories:
        memory.move(lane, column, assumed("shift.source", shift_source(lane, SHIFT.window), lane))
