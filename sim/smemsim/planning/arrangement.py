"""Where every element of a tile lies in shared memory: the swizzle atom, how atoms are stacked, and the strides that the descriptor needs."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.addressing.cute import CuteLayout, CuteSwizzle
from smemsim.addressing.cute_algebra import tile_to_shape
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError
from smemsim.planning.instruction import GRAVE, Instruction, instruction_of
from smemsim.planning.wish import IllegalPlan, Wish
from smemsim.spec.shared_memory import ATOM_ROWS, CHUNK
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.swizzles import Swizzle
from smemsim.spec.tensor_map import LIMITS

__all__ = ["Arrangement", "arrange"]


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """A tile in shared memory. The *contiguous* axis is K of a K-major tile, M or N of an MN-major one; *lines* run along the other, strided one.

    An atom is `atom_lines` lines of `mode.width` bytes, without gaps. `strided_bytes` and `contiguous_bytes` lie between atoms that are
    neighbours along those axes. One chunk of 16 bytes holds `per_chunk` elements.
    """

    wish: Wish
    instruction: Instruction
    per_chunk: int

    @property
    def element_bits(self) -> int:
        """Bits that an element takes in shared memory: 8 for padded 4- and 6-bit types."""
        return 8 * CHUNK // self.per_chunk

    @property
    def inner(self) -> int:
        """Elements across an atom, along the contiguous axis."""
        return self.wish.mode.chunks * self.per_chunk

    @property
    def atom_lines(self) -> int:
        """Lines of an atom."""
        return ATOM_ROWS if self.wish.major == "K" else self.wish.mode.k_rows

    @property
    def atom_bytes(self) -> int:
        """Bytes of an atom."""
        return self.atom_lines * self.wish.mode.width

    @property
    def contiguous(self) -> int:
        """Elements of the tile along the contiguous axis."""
        return self.wish.k if self.wish.major == "K" else self.wish.rows

    @property
    def lines(self) -> int:
        """Lines of the tile."""
        return self.wish.rows if self.wish.major == "K" else self.wish.k

    @property
    def grid(self) -> tuple[int, int]:
        """Atoms along the strided and along the contiguous axis."""
        return self.lines // self.atom_lines, self.contiguous // self.inner

    @property
    def strided_bytes(self) -> int:
        """Bytes from an atom to the next one along the strided axis."""
        return self.atom_bytes * (1 if self.wish.stack == "strided" else self.grid[1])

    @property
    def contiguous_bytes(self) -> int:
        """Bytes from an atom to the next one along the contiguous axis."""
        return self.atom_bytes * (1 if self.wish.stack == "contiguous" else self.grid[0])

    def linear(self, line: Any, chunk: Any = 0) -> Any:
        """Bytes from the tile's beginning to a 16-byte chunk of a line, before the XOR; numbers, or arrays of them."""
        across = self.wish.mode.chunks
        return (
            line // self.atom_lines * self.strided_bytes
            + line % self.atom_lines * self.wish.mode.width
            + chunk // across * self.contiguous_bytes
            + chunk % across * CHUNK
        )

    @property
    def padded(self) -> bool:
        """Do 4- or 6-bit elements take a byte each?"""
        return self.wish.fmt.bits < 8 and self.element_bits == 8

    @property
    def panels(self) -> bool:
        """Are the lines of one panel, a swizzle width wide, without gaps? Else every atom stands alone."""
        return self.strided_bytes == self.atom_bytes or self.grid[0] == 1

    @property
    def tile_bytes(self) -> int:
        """Bytes of one stage."""
        return self.atom_bytes * self.grid[0] * self.grid[1]

    @property
    def atom(self) -> CuteLayout:
        """The atom as a CuTe layout (M or N, K) in elements."""
        functor = CuteSwizzle(self.wish.mode.mask.bit_length(), self.wish.mode.shift, 7 - self.wish.mode.shift)
        if self.wish.major == "K":
            return CuteLayout((self.atom_lines, self.inner), (self.inner, 1), functor)
        return CuteLayout((self.inner, self.atom_lines), (1, self.inner), functor)

    @property
    def order(self) -> tuple[int, int]:
        """The order of `tile_to_shape`: 0 for the axis along which atoms follow one another."""
        along_rows = (self.wish.major == "K") == (self.wish.stack == "strided")
        return (0, 1) if along_rows else (1, 0)

    @property
    def tile(self) -> CuteLayout:
        """The tile as a CuTe layout (M or N, K) in elements: the atoms stacked."""
        return tile_to_shape(self.atom, (self.wish.rows, self.wish.k), self.order)

    @property
    def blocks(self) -> int:
        """Instructions along M or N."""
        return self.wish.rows // self.instruction.rows

    @property
    def steps(self) -> int:
        """Instructions along K."""
        return self.wish.k // self.instruction.k

    def offset(self, block: int, step: int) -> int:
        """Bytes from the tile's first element to that of the instruction at a block and K step, before the XOR."""
        return self.tile(block * self.instruction.rows, step * self.instruction.k) * self.element_bits // 8

    @property
    def strides(self) -> tuple[int, int]:
        """(LBO, SBO) in bytes, from the atoms' strides.

        K-major: SBO steps to the next 8 rows; LBO to the next 16 bytes of K without swizzle, else it is unused and written as 16.
        MN-major: SBO steps along K and LBO along M or N; without swizzle the other way round. PTX ISA 9.7.16.3.3.
        """
        if self.wish.major == "K":
            return (CHUNK if self.wish.mode.mask else self.contiguous_bytes), self.strided_bytes
        if self.wish.mode.mask:
            return self.contiguous_bytes, self.strided_bytes
        return self.strided_bytes, self.contiguous_bytes

    def descriptor(self, block: int = 0, step: int = 0, stage: int = 0) -> SmemDescriptor:
        """The shared-memory descriptor of one instruction."""
        lbo, sbo = self.strides
        start = self.wish.base_address + stage * self.tile_bytes + self.offset(block, step)
        return SmemDescriptor(
            arch=self.wish.machine.name, start_address=start, leading_byte_offset=lbo, stride_byte_offset=sbo, swizzle=self.wish.swizzle
        )


def arrange(wish: Wish) -> Arrangement:
    """The tile of a wish. Raises IllegalPlan with the reason where the hardware cannot have it."""
    instruction = instruction_of(wish)
    codes, mode, fmt = layout_codes(wish.machine.smem_descriptor).values(), wish.mode, wish.fmt
    if wish.swizzle not in codes:
        raise IllegalPlan(f"swizzle = '{wish.swizzle}': {wish.machine.name} descriptors have {', '.join(codes)}")
    if wish.swizzle is Swizzle.B128_ATOM_32B and wish.major == "K":
        raise IllegalPlan("swizzle = '128B_ATOM_32B': it has no K-major layout; 32-byte atoms are for MN-major 32-bit types")
    tile = Arrangement(wish, instruction, fmt.elements_per_chunk(instruction.packing))
    axes = (("k", wish.k), ("rows", wish.rows)) if wish.major == "K" else (("rows", wish.rows), ("k", wish.k))
    (name, along), (line_name, lines) = axes
    if along % tile.inner:
        raise IllegalPlan(f"{name} = {along}: {wish.major}-major with swizzle {wish.swizzle} has atoms {mode.width} B wide, {tile.inner} {fmt.name} "
                          f"elements; {name} must be a multiple of {tile.inner}")  # fmt: skip
    if lines % tile.atom_lines:
        raise IllegalPlan(
            f"{line_name} = {lines}: an atom has {tile.atom_lines} lines; {line_name} must be a multiple of {tile.atom_lines}"
        )
    if wish.k % instruction.k:
        raise IllegalPlan(f"k = {wish.k}: one instruction reads {instruction.k} of K; k must be a multiple of {instruction.k}")
    if wish.rows % instruction.rows:
        share = f"{wish.axis} / cta_group" if wish.cta_group == 2 else wish.axis
        raise IllegalPlan(
            f"rows = {wish.rows}: one instruction reads {instruction.rows} rows of this CTA ({share}); rows must be a multiple of that"
        )
    if wish.major == "MN" and instruction.rows % tile.per_chunk:
        raise IllegalPlan(f"{wish.axis} = {instruction.rows}: the next block would begin inside a {CHUNK}-byte chunk of {tile.per_chunk} "
                          f"{fmt.name} elements, where no descriptor can start")  # fmt: skip
    if wish.major == "MN" and instruction.rows % tile.inner and tile.inner % instruction.rows and tile.blocks > 1:
        raise IllegalPlan(f"{wish.axis} = {instruction.rows}: the next block would begin inside an atom of {tile.inner} elements and leave it; "
                          f"a divisor or a multiple of {tile.inner} does not")  # fmt: skip
    _memory(tile)
    try:
        found = tile.descriptor().problems(
            dtype=fmt, major=wish.major, rows=instruction.rows, k=instruction.k, packing=instruction.packing, tile_bytes=None
        )
    except InputError as e:
        raise IllegalPlan(str(e)) from None
    for finding in found:
        if finding.severity in GRAVE:
            raise IllegalPlan(f"{finding.message}{f' ({finding.repair})' if finding.repair else ''}")
    return tile


def _memory(tile: Arrangement) -> None:
    wish, machine = tile.wish, tile.wish.machine
    if wish.base_address % LIMITS.smem_alignment:
        raise IllegalPlan(f"base_address = {wish.base_address:#x}: TMA writes to multiples of {LIMITS.smem_alignment} B")
    if wish.base_address < machine.shared_begin:
        raise IllegalPlan(f"base_address = {wish.base_address:#x}: the first {machine.shared_begin} B are reserved by the system")
    end, most = wish.base_address + wish.stages * tile.tile_bytes, machine.shared_end - machine.shared_begin
    if end > machine.shared_end:
        stages = f"{wish.stages} stages of " if wish.stages > 1 else ""
        raise IllegalPlan(
            f"{stages}{tile.tile_bytes:,} B from {wish.base_address:#x} on end at {end:#x}; a CTA's shared memory ends at {machine.shared_end:#x} ({most // 1024} KiB)"
        )
