"""CuTe layouts as values: read, printed and evaluated in CuTe's own notation, integers only.

A layout maps coordinates to offsets: a shape and a stride of the same nesting. The coordinate of a mode is one number that runs through the
nested shape with the leftmost entry fastest (colexicographic order), or a tuple of its nesting. Offsets count elements.

    Swizzle<3,4,3> o ((8,16),(64,2)):((64,512),(1,8192))      XOR after shape : stride; the XOR acts on byte addresses

Documented: CUTLASS, media/docs/cpp/cute (01_layout, 02_layout_algebra); PTX ISA 9.7.16.3.3 uses the notation for canonical layouts.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from typing import TypeAlias

from smemsim.arguments import shown
from smemsim.errors import InputError

__all__ = ["CuteLayout", "CuteSwizzle", "Leaf", "Nested", "text_of"]

Nested: TypeAlias = "int | tuple[Nested, ...]"
Leaf = tuple[int, int]  # size, stride

LINE_BIT = 7  # the XOR of hardware takes the index of the 128-byte line, from this bit of the address on: PTX ISA 5.5.7
MOST_TEXT = 4096


@dataclasses.dataclass(frozen=True)
class CuteSwizzle:
    """`Swizzle<bits, base, shift>`: XOR the `bits` bits that stand `shift` above bit `base` into those at `base`.

    >>> CuteSwizzle(3, 4, 3)(128)
    144
    """

    bits: int
    base: int
    shift: int

    def __call__(self, offset: int) -> int:
        return offset ^ ((offset >> self.base + self.shift) % (1 << self.bits) << self.base)

    def __str__(self) -> str:
        return f"Swizzle<{self.bits},{self.base},{self.shift}>"

    def on_bytes(self, element_bits: int) -> CuteSwizzle:
        """The same XOR on bytes, where this one is printed for bytes, as in the PTX ISA, or for elements, as CuTe DSL does.

        Which of the two it is shows: hardware takes the bits from bit 7 of the byte address on. Raises InputError if neither is so.

        >>> CuteSwizzle(3, 3, 3).on_bytes(16), CuteSwizzle(3, 4, 3).on_bytes(16)
        (CuteSwizzle(bits=3, base=4, shift=3), CuteSwizzle(bits=3, base=4, shift=3))
        """
        scale = int(math.log2(element_bits / 8)) if element_bits else 0
        for base in (self.base, self.base + scale):
            if base + self.shift == LINE_BIT and base >= 4:
                return CuteSwizzle(self.bits, base, self.shift)
        if not self.bits:
            return IDENTITY
        raise InputError(
            f"{self} on elements of {element_bits} bits: the hardware XORs bits of the byte address from bit {LINE_BIT} on, as Swizzle<3,4,3> does"
        )


IDENTITY = CuteSwizzle(0, 4, 3)


@dataclasses.dataclass(frozen=True)
class CuteLayout:
    """A layout: `shape`, `stride` in elements, and the XOR that acts on the byte address of what they give.

    >>> tile = CuteLayout.parse("((8,2),(4,4)):((4,32),(1,64))")
    >>> tile(9, 5)  # row 9 is (1,1): 4 + 32; column 5 is (1,1): 1 + 64
    101
    >>> tile.size, tile.cosize
    (256, 256)
    """

    shape: Nested
    stride: Nested
    functor: CuteSwizzle = IDENTITY

    def __post_init__(self) -> None:
        if not _congruent(self.shape, self.stride):
            raise InputError(f"layout {text_of(self.shape)}:{text_of(self.stride)}: shape and stride must have the same nesting")
        if any(size < 1 for size, _ in _leaves(self.shape, self.stride)):
            raise InputError(f"layout {text_of(self.shape)}:{text_of(self.stride)}: every size is at least 1")

    @classmethod
    def parse(cls, text: str, *, element_bits: int = 0) -> CuteLayout:
        """The layout of a text as CuTe prints it, C++ or Python: `Sw<3,4,3> o`, `Swizzle<..> o`, `S<..> o 0 o`, `_8` for 8.

        `element_bits` says what the layout counts; a swizzle that is written for elements is then turned into that of bytes. Raises
        InputError for what is no layout, dynamic sizes (`?`) included.

        >>> print(CuteLayout.parse("S<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))", element_bits=16))
        Swizzle<3,4,3> o ((8,16),(64,2)):((64,512),(1,8192))
        >>> print(CuteLayout.parse("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)"))
        Swizzle<3,4,3> o (8,64):(64,1)
        """
        if not isinstance(text, str):
            raise InputError(f"layout = {shown(text)}: needs a text as '((8,16),(64,2)):((64,512),(1,8192))'")
        found = _LAYOUT.fullmatch(text.strip()) if len(text) <= MOST_TEXT else None
        if found is None:
            raise InputError(f"layout = {shown(text)}: needs shape:stride as CuTe prints it, as 'Sw<3,4,3> o ((8,16),64):((64,512),1)'")
        functor = CuteSwizzle(*(int(x) for x in found.group(1, 2, 3))) if found[1] else IDENTITY
        if element_bits:
            functor = functor.on_bytes(element_bits)
        elif functor.bits + functor.base + functor.shift > 18:
            raise InputError(f"layout = {shown(text)}: {functor} reaches beyond the 18 bits of a shared address")
        shape, stride = (_nested(text, part.replace("_", "")) for part in found.group(4, 5))
        return cls(shape, stride, functor)

    def __str__(self) -> str:
        functor = f"{self.functor} o " if self.functor.bits else ""
        return f"{functor}{text_of(self.shape)}:{text_of(self.stride)}"

    @property
    def rank(self) -> int:
        """Top-level modes."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def size(self) -> int:
        """Coordinates."""
        return math.prod(size for size, _ in self.leaves())

    @property
    def cosize(self) -> int:
        """One more than the largest offset, for strides that are not negative."""
        return 1 + sum((size - 1) * step for size, step in self.leaves())

    def mode(self, index: int) -> CuteLayout:
        """One top-level mode as a layout."""
        if not isinstance(self.shape, tuple) or not isinstance(self.stride, tuple):
            return self
        return CuteLayout(self.shape[index], self.stride[index], self.functor)

    def modes(self) -> tuple[CuteLayout, ...]:
        """The top-level modes."""
        return tuple(self.mode(i) for i in range(self.rank))

    def leaves(self) -> tuple[Leaf, ...]:
        """(size, stride) of every innermost mode, fastest first: the layout flattened."""
        return tuple(_leaves(self.shape, self.stride))

    def __call__(self, *coordinate: Nested) -> int:
        """The offset of a coordinate, one entry for each top-level mode, or one number for all; without the XOR."""
        given: Nested = coordinate[0] if len(coordinate) == 1 else coordinate
        return _offset(given, self.shape, self.stride)

    def address(self, start: int, element_bits: int, *coordinate: Nested) -> int:
        """Byte address of the element at a coordinate, of a tile that begins at `start`: the XOR is taken of the whole address.

        >>> CuteLayout.parse("Swizzle<3,4,3> o (8,64):(64,1)").address(0x400, 16, 1, 0)
        1168
        """
        return self.functor(start + self(*coordinate) * element_bits // 8)


# ---- nested tuples

_SWIZZLE = (
    r"(?:Sw|Swizzle|S)\s*<\s*(\d{1,2})\s*,\s*(\d{1,2})\s*,\s*(\d{1,2})\s*>\s*(?:o|∘)\s*(?:(?:_?0|smem_ptr\[\d+b\]\([^)]*\))\s*(?:o|∘)\s*)?"
)
_LAYOUT = re.compile(rf"(?:{_SWIZZLE})?([^:]+):([^:]+)")


def _nested(text: str, part: str) -> Nested:
    """A tuple of tuples of whole numbers."""
    if not re.fullmatch(r"[\d\s(),]+", part):
        raise InputError(f"layout = {shown(text)}: {shown(part)} needs whole numbers in brackets; every size and stride must be known")
    try:
        value = ast.literal_eval(part.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise InputError(f"layout = {shown(text)}: {shown(part)} is no nested tuple of whole numbers") from None

    def checked(value: object, depth: int) -> Nested:
        if isinstance(value, tuple) and value and depth < 8:
            return tuple(checked(x, depth + 1) for x in value)
        if isinstance(value, int) and value < 1 << 48:
            return value
        raise InputError(f"layout = {shown(text)}: {shown(value)} is no size or stride that a tile can have")

    return checked(value, 0)


def _congruent(shape: Nested, stride: Nested) -> bool:
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        return len(shape) == len(stride) and all(_congruent(s, d) for s, d in zip(shape, stride, strict=True))
    return isinstance(shape, int) and isinstance(stride, int)


def _leaves(shape: Nested, stride: Nested) -> list[Leaf]:
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        return [leaf for s, d in zip(shape, stride, strict=True) for leaf in _leaves(s, d)]
    assert isinstance(shape, int)
    assert isinstance(stride, int)
    return [(shape, stride)]


def text_of(value: Nested) -> str:
    """A nested tuple as CuTe prints it."""
    if isinstance(value, tuple):
        return f"({','.join(text_of(x) for x in value)})"
    return str(value) if isinstance(value, int) and abs(value) < 1 << 64 else shown(value)


def _offset(coordinate: Nested, shape: Nested, stride: Nested) -> int:
    if isinstance(coordinate, tuple):
        if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(coordinate) != len(shape):
            raise InputError(f"coordinate {text_of(coordinate)}: does not fit the shape {text_of(shape)}")
        return sum(_offset(c, s, d) for c, s, d in zip(coordinate, shape, stride, strict=True))
    leaves, total = _leaves(shape, stride), 0
    for number, (size, step) in enumerate(leaves):
        total += (coordinate % size if number < len(leaves) - 1 else coordinate) * step
        coordinate //= size
    return total
