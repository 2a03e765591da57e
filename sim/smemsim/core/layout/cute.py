"""Layouts in CuTe's notation: read, written, evaluated, and CuTe's algebra on them.

A layout maps coordinates to offsets: a shape and a stride of the same nesting. The coordinate of a mode is one number
that runs through the nested shape with the leftmost entry fastest (colexicographic order), or a tuple of its nesting.
Offsets count elements.

    Swizzle<3,4,3> o ((8,16),(64,2)):((64,512),(1,8192))      XOR after shape : stride; the XOR acts on byte addresses

Documented: CUTLASS, media/docs/cpp/cute (01_layout, 02_layout_algebra); PTX ISA 9.1 §9.7.16.3.3 uses the notation for
canonical layouts.

Documented: CUTLASS, media/docs/cpp/cute/02_layout_algebra.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
import operator
import re
from collections.abc import Sequence
from typing import TypeAlias

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers

__all__ = [
    "CuteLayout",
    "CuteSwizzle",
    "Leaf",
    "Nested",
    "byte_axes",
    "coalesce",
    "composition",
    "is_layout",
    "logical_divide",
    "recast",
    "stated_bits",
    "text_of",
    "tile_to_shape",
    "zipped_divide",
]


# ---- CuTe layouts as values: read, printed and evaluated in CuTe's own notation, integers only


Nested: TypeAlias = "int | tuple[Nested, ...]"
Leaf = tuple[int, int]  # size, stride

# the XOR of hardware takes the index of the 128-byte line, from this bit of the address on: PTX ISA 9.1 §5.5.7
LINE_BIT = 7
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
        """This XOR on bytes, whether it was printed for bytes (PTX ISA) or for elements (CuTe DSL).

        The hardware takes the bits from bit 7 of the byte address on, which shows which of the two it is. Raises
        InputError if neither fits.

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
class CuteLayout(metaclass=OwnMembers):
    """A layout of CuTe: `shape`, `stride` in elements, and a swizzle. The swizzle XORs the byte address.

    >>> from smemsim import CuteLayout
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
        """The layout of a text that CuTe printed, in C++ or Python. Accepted are `Sw<3,4,3> o`, `Swizzle<..> o`,
        `S<..> o 0 o`, `_8` for 8, and a whole tensor.

        If the text does not have the size of an element, it is `element_bits`. A swizzle for elements is converted to
        bytes. Raises InputError for other texts, also for dynamic sizes (`?`). Examples:

        >>> print(CuteLayout.parse("S<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))", element_bits=16))
        Swizzle<3,4,3> o ((8,16),(64,2)):((64,512),(1,8192))
        >>> print(CuteLayout.parse("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)"))
        Swizzle<3,4,3> o (8,64):(64,1)
        >>> print(CuteLayout.parse("tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>"))
        Swizzle<3,4,3> o (8,64):(64,1)
        """
        if not isinstance(text, str):
            raise InputError(f"layout = {shown(text)}: needs a text as '((8,16),(64,2)):((64,512),(1,8192))'")
        printed = _LAYOUT.fullmatch(_bare(text)) if len(text) <= MOST_TEXT else None
        if printed is None:
            raise InputError(f"layout = {shown(text)}: needs shape:stride as CuTe prints it, as 'Sw<3,4,3> o ((8,16),64):((64,512),1)'")
        functor = CuteSwizzle(*(int(x) for x in printed.group(1, 2, 3))) if printed[1] else IDENTITY
        element_bits = element_bits or stated_bits(text)
        if element_bits:
            functor = functor.on_bytes(element_bits)
        elif functor.bits + functor.base + functor.shift > 18:
            raise InputError(f"layout = {shown(text)}: {functor} reaches beyond the 18 bits of a shared address")
        shape, stride = (_nested(text, part.replace("_", "")) for part in printed.group(4, 5))
        return cls(shape, stride, functor)

    def __str__(self) -> str:
        functor = f"{self.functor} o " if self.functor.bits else ""
        return f"{functor}{text_of(self.shape)}:{text_of(self.stride)}"

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return math.prod(size for size, _ in self.leaves())

    @property
    def cosize(self) -> int:
        """One more than the largest offset, if no stride is negative."""
        return 1 + sum((size - 1) * step for size, step in self.leaves())

    def mode(self, index: int) -> CuteLayout:
        """One top-level mode as a layout."""
        if not isinstance(self.shape, tuple) or not isinstance(self.stride, tuple):
            return self
        which = whole("index", index)
        if not -self.rank <= which < self.rank:
            raise InputError(f"index = {which}: {self} has {self.rank} modes, needs 0 to {self.rank - 1}")
        return CuteLayout(self.shape[which], self.stride[which], self.functor)

    def modes(self) -> tuple[CuteLayout, ...]:
        """The top-level modes."""
        return tuple(self.mode(i) for i in range(self.rank))

    def leaves(self) -> tuple[Leaf, ...]:
        """The innermost modes, fastest first: (size, stride) of each. This is the flattened layout."""
        return tuple(_leaves(self.shape, self.stride))

    def __call__(self, *coordinate: Nested) -> int:
        """The offset of a coordinate, one entry for each top-level mode, or one number for all; without the XOR."""
        given: Nested = coordinate[0] if len(coordinate) == 1 else coordinate
        return _offset(given, self.shape, self.stride)

    def coalesce(self) -> CuteLayout:
        """The same layout as a function of one number, in as few modes as possible: CuTe's `coalesce`."""
        return coalesce(self)

    def logical_divide(self, tiler: Nested) -> CuteLayout:
        """Each mode as (inside a tile, which tile): CuTe's `logical_divide`. Raises InputError if the tiler does not
        divide.

        >>> print(CuteLayout.parse("(64,2):(8,1)").logical_divide((8, 1)))
        ((8,8),(1,2)):((8,64),(0,1))
        """
        return logical_divide(self, tiler)

    def zipped_divide(self, tiler: tuple[int, ...]) -> CuteLayout:
        """(inside a tile, which tile), each of all modes: CuTe's `zipped_divide`. Raises InputError if the tiler
        does not divide.

        >>> print(CuteLayout.parse("((8,16),(64,2)):((64,512),(1,8192))").zipped_divide((64, 16)))
        ((64,16),(2,(4,2))):((64,1),(4096,(16,8192)))
        """
        return zipped_divide(self, tiler)

    def recast(self, new_bits: int, old_bits: int) -> CuteLayout:
        """The layout of the same bytes in elements of another width: CuTe's `recast_layout`. Raises InputError if
        elements do not fit.

        >>> print(CuteLayout.parse("(64,16):(64,1)").recast(128, 16))
        (64,2):(8,1)
        """
        return recast(self, new_bits, old_bits)

    def linear_bases(self, element_bits: int = 0) -> list[tuple[int, ...]]:
        """The bases of this layout as a LinearLayout of Triton. They are the coordinates (one for each top-level mode)
        at offset 1, 2, 4, … elements.

        With an XOR, `element_bits` is needed. The XOR acts on bytes of a tile that starts at a multiple of its pattern.
        Raises InputError for layouts that are not linear in the bits of the offset. These have sizes or strides that
        are not powers of two, elements that share a place, or holes. Example:

        >>> CuteLayout.parse("Swizzle<1,4,3> o (8,16):(16,1)").linear_bases(16)
        [(0, 1), (0, 2), (0, 4), (0, 8), (1, 0), (2, 0), (4, 8)]
        """
        return _linear_bases(self, element_bits)

    def address(self, start: int, element_bits: int, *coordinate: Nested) -> int:
        """The byte address of the element at a coordinate, in a tile that begins at `start`. The XOR uses the whole
        address.

        >>> CuteLayout.parse("Swizzle<3,4,3> o (8,64):(64,1)").address(0x400, 16, 1, 0)
        1168
        """
        return self.functor(start + self(*coordinate) * element_bits // 8)


# ---- nested tuples

_AFTER = r"\s*(?:o|∘)\s*"
_POINTER = r"(?:[gs]mem_)?ptr\[\d+b\]\([^)]*\)"
_SWIZZLE = rf"(?:Sw|Swizzle|S)\s*<\s*(\d{{1,2}})\s*,\s*(\d{{1,2}})\s*,\s*(\d{{1,2}})\s*>(?:{_AFTER}(?:(?:_?0|{_POINTER}){_AFTER})?|_{_POINTER}{_AFTER})"
_LAYOUT = re.compile(rf"(?:{_SWIZZLE}|{_POINTER}{_AFTER})?([^:]+):([^:]+)")
_TENSOR = re.compile(rf"tensor<ptr<(\w+)(?:,\s*(?:\w+|align<\d+>))*(?:,\s*(S<[\d\s,]+>))?>{_AFTER}(.+)>")  # of CuTe DSL
_ATTRIBUTE = re.compile(r"!cute\.\w+<\"(.+)\">")  # of its MLIR
_PRINTED = re.compile(
    r"(?:Sw|Swizzle|S)\s*<.*|!cute\..*|tensor<ptr<.*|(?:[gs]mem_)?ptr\[\d+b\].*|\(?[\d_(][\d\s(),_?]*:\s*\(.*|_?\d{1,6}:_?\d{1,6}",
    re.DOTALL,
)


def is_layout(text: str) -> bool:
    """Is this text meant as a layout, rather than as a word, a dump or a call?

    >>> is_layout("(8,64):(64,1)"), is_layout("Sw<3,4,3> o (8,?):(64,1)"), is_layout("00000000: 4000 4040 0001 0040")
    (True, True, False)
    """
    return len(text) <= MOST_TEXT and _PRINTED.fullmatch(text.strip()) is not None


def stated_bits(text: str) -> int:
    """The bits of an element where the text says them, 0 where it does not.

    >>> stated_bits("Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)"), stated_bits("(8,64):(64,1)")
    (16, 0)
    """
    if pointer := re.search(r"ptr\[(\d{1,3})b\]", text):
        return int(pointer[1])
    tensor = _TENSOR.search(text)
    width = re.fullmatch(r"[a-z]+?(\d+)(?:E\w+)?", tensor[1]) if tensor else None
    return int(width[1]) if width else 0


def _bare(text: str) -> str:
    """A text without what the Python face prints around a layout."""
    text = text.strip()
    if attribute := _ATTRIBUTE.fullmatch(text):
        text = attribute[1]
    if tensor := _TENSOR.fullmatch(text):
        return f"{tensor[2]} o {tensor[3]}" if tensor[2] else tensor[3]
    return text


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


# ---- The same as a linear function over bits, as Triton writes layouts


def _linear_bases(layout: CuteLayout, element_bits: int) -> list[tuple[int, ...]]:
    at: dict[int, tuple[int, ...]] = {}  # offset of one bit of one coordinate -> the coordinates
    for axis, mode in enumerate(layout.modes()):
        inside = 1
        for size, step in mode.leaves():
            if size & size - 1:
                raise InputError(f"{layout}: size {size} is no power of two, so that no LinearLayout is this layout")
            for bit in range(size.bit_length() - 1):
                offset = step << bit
                if not offset or offset & offset - 1 or offset in at:
                    why = "is no power of two" if offset and offset & offset - 1 else "is taken twice: elements share a place"
                    raise InputError(
                        f"{layout}: offset {offset} of coordinate {inside << bit} of mode {axis} {why}; no LinearLayout is this layout"
                    )
                at[offset] = tuple(inside << bit if i == axis else 0 for i in range(layout.rank))
            inside *= size
    if holes := [1 << bit for bit in range(len(at)) if 1 << bit not in at]:
        raise InputError(f"{layout}: has holes, nothing lies at offset {holes[0]}; a LinearLayout from offsets needs every one")
    if layout.functor.bits and not element_bits:
        raise InputError(f"{layout}: the bits of an element are needed, since the XOR acts on bytes")
    bases = []
    for bit in range(len(at)):
        # The XOR is its own inverse: what lies at an offset is what was there before it.
        before = (
            layout.functor((element_bits << bit) // 8) * 8 // element_bits if layout.functor.bits and element_bits << bit >= 8 else 1 << bit
        )
        found = [at[1 << i] for i in range(before.bit_length()) if before >> i & 1]
        bases.append(tuple(_xor(axis) for axis in zip(*found, strict=True)))
    return bases


def _xor(numbers: Sequence[int]) -> int:
    return functools.reduce(operator.xor, numbers)


# ---- The algebra of CuTe layouts, as much of it as descriptors need; results are those that CuTe prints


def coalesce(layout: CuteLayout) -> CuteLayout:
    """A layout that is the given one as a function of one number, in as few modes as possible.

    >>> print(coalesce(CuteLayout.parse("((8,16),(64,1)):((64,512),(1,0))")))
    (128,64):(64,1)
    """
    return _made(_coalesced(layout.leaves()), layout.functor)


def composition(layout: CuteLayout, tiler: Nested | CuteLayout) -> CuteLayout:
    """`layout` after `tiler`: the coordinate goes through `tiler` first. A tuple acts on each mode, a number n is n:1.

    >>> print(composition(CuteLayout.parse("(6,2):(8,2)"), CuteLayout.parse("(4,3):(3,1)")))
    ((2,2),3):((24,2),8)
    """
    if isinstance(tiler, tuple):
        _check_rank(layout, tiler)
        return _joined([composition(mode, part) for mode, part in zip(layout.modes(), tiler, strict=True)], layout.functor)
    inner = CuteLayout(tiler, 1) if isinstance(tiler, int) else tiler
    if isinstance(inner.shape, tuple):
        return _joined([composition(layout, mode) for mode in inner.modes()], layout.functor)
    ((size, step),) = inner.leaves()
    return _made(_strided(_coalesced(layout.leaves()), size, step), layout.functor)


def logical_divide(layout: CuteLayout, tiler: Nested) -> CuteLayout:
    """Each mode as (what is inside a tile, which tile): ((tile, rest), (tile, rest)).

    >>> print(logical_divide(CuteLayout.parse("(64,2):(8,1)"), (8, 1)))
    ((8,8),(1,2)):((8,64),(0,1))
    """
    if isinstance(tiler, tuple):
        _check_rank(layout, tiler)
        return _joined([logical_divide(mode, part) for mode, part in zip(layout.modes(), tiler, strict=True)], layout.functor)
    tiler = whole("tiler", tiler, minimum=1, wanted="a tuple with a number for each mode, or a number,")
    if layout.size % tiler:
        raise InputError(f"{layout} does not divide by {tiler}: {layout.size} coordinates")
    rest = layout.size // tiler
    return _joined([composition(layout, tiler), composition(layout, CuteLayout(rest, tiler if rest > 1 else 0))], layout.functor)


def zipped_divide(layout: CuteLayout, tiler: tuple[int, ...]) -> CuteLayout:
    """The elements inside a tile of all modes, then the tiles of all modes: ((tile, tile), (rest, rest)).

    >>> print(zipped_divide(CuteLayout.parse("((8,16),(64,2)):((64,512),(1,8192))"), (64, 16)))
    ((64,16),(2,(4,2))):((64,1),(4096,(16,8192)))
    """
    parts = logical_divide(layout, tiler).modes()
    return _joined([_joined([part.mode(which) for part in parts], layout.functor) for which in (0, 1)], layout.functor)


def recast(layout: CuteLayout, new_bits: int, old_bits: int) -> CuteLayout:
    """The layout of the same bytes in elements of another width: the contiguous mode shrinks or grows, strides are
    divided or multiplied.

    The XOR stays as it is, since it acts on bytes.

    >>> print(recast(CuteLayout.parse("(64,16):(64,1)"), 128, 16))
    (64,2):(8,1)
    >>> print(recast(CuteLayout.parse("(64,2):(8,1)"), 16, 128))
    (64,16):(64,1)
    """
    new_bits, old_bits = whole("new_bits", new_bits), whole("old_bits", old_bits)
    big, small = max(new_bits, old_bits), min(new_bits, old_bits)
    if small < 1 or big % small:
        raise InputError(f"recast from {old_bits} to {new_bits} bits: one must be a multiple of the other")
    count = big // small

    def one(size: int, step: int) -> Leaf:
        if step == 0 or count == 1:
            return size, step
        if new_bits < old_bits:
            return (size * count, 1) if step == 1 else (size, step * count)
        if size == 1:
            return 1, -(-step // count)
        if step % count == 0:
            return size, step // count
        together = count // math.gcd(count, step)  # elements of this mode that make one new one
        if count % step or size % together:
            raise InputError(
                f"{layout} cannot be recast from {old_bits} to {new_bits} bits: mode {size}:{step} does not fill whole elements"
            )
        return size // together, 1  # also of a single one: CuTe keeps its stride

    def walk(shape: Nested, stride: Nested) -> tuple[Nested, Nested]:
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            pairs = [walk(s, d) for s, d in zip(shape, stride, strict=True)]
            return tuple(s for s, _ in pairs), tuple(d for _, d in pairs)
        assert isinstance(shape, int)
        assert isinstance(stride, int)
        return one(shape, stride)

    return CuteLayout(*walk(layout.shape, layout.stride), layout.functor)


def byte_axes(layout: CuteLayout, element_bits: int) -> tuple[tuple[Leaf, ...], ...]:
    """The (size, stride) pairs of each top-level mode in bytes, fastest first. The contiguous mode counts bytes, the
    others lines. Scenarios write a buffer's layout like this.

    >>> byte_axes(CuteLayout.parse("((8,16),(64,2)):((64,512),(1,8192))"), 16)
    (((8, 128), (16, 1024)), ((128, 1), (2, 16384)))
    """
    return tuple(mode.leaves() for mode in recast(layout, 8, element_bits).modes())


def tile_to_shape(atom: CuteLayout, shape: Sequence[int], order: Sequence[int]) -> CuteLayout:
    """Copies of an atom until `shape` is covered; `order` has the place of each mode in the stacking, 0 the fastest.

    Raises InputError if the shape is no multiple of the atom, or the atom has holes.

    >>> print(tile_to_shape(CuteLayout.parse("(8,64):(64,1)"), (128, 128), (0, 1)))
    ((8,16),(64,2)):((64,512),(1,8192))
    >>> print(tile_to_shape(CuteLayout.parse("(8,64):(64,1)"), (128, 128), (1, 0)))
    ((8,16),(64,2)):((64,1024),(1,512))
    """
    if len(shape) != atom.rank or sorted(order) != list(range(atom.rank)):
        raise InputError(
            f"tile_to_shape of {atom} to {tuple(shape)} in order {tuple(order)}: needs one entry for each of {atom.rank} modes"
        )
    if atom.cosize != atom.size:
        raise InputError(f"{atom} has holes: {atom.size} elements in {atom.cosize}")
    step, rest = atom.size, [(1, 0)] * atom.rank
    for axis in sorted(range(atom.rank), key=lambda i: order[i]):
        inside = atom.mode(axis).size
        if shape[axis] % inside:
            raise InputError(f"{shape[axis]} is no multiple of the atom's {inside} along mode {axis}")
        rest[axis] = _unit(shape[axis] // inside, step)
        step *= shape[axis] // inside
    return _joined([_joined([mode, CuteLayout(*more)], atom.functor) for mode, more in zip(atom.modes(), rest, strict=True)], atom.functor)


def _unit(size: int, step: int) -> Leaf:
    """A single element has stride 0, as CuTe prints it."""
    return (size, step) if size > 1 else (1, 0)


def _coalesced(leaves: Sequence[Leaf]) -> list[Leaf]:
    """Neighbours that run on become one, single elements vanish; nothing left is 1:0."""
    kept: list[Leaf] = []
    for size, step in leaves:
        if size > 1 and kept and kept[-1][0] * kept[-1][1] == step:
            kept[-1] = (kept[-1][0] * size, kept[-1][1])
        elif size > 1:
            kept.append((size, step))
    return kept or [(1, 0)]


def _strided(leaves: list[Leaf], size: int, step: int) -> list[Leaf]:
    """Every `step`-th coordinate of a layout, `size` of them."""
    if step == 0 or size == 1:
        return [(size, 0)]
    modes, left, apart = [], size, step
    for count, stride in leaves[:-1]:
        if count % apart and apart % count:
            raise InputError(f"{size}:{step} does not divide the mode {count}:{stride}")
        take = min(max(1, count // apart), left)
        if left % take:
            raise InputError(f"{size}:{step} does not divide the mode {count}:{stride}")
        if take > 1:
            modes.append((take, apart * stride))
        left, apart = left // take, -(-apart // count)
    if left > 1 or not modes:
        modes.append((left, apart * leaves[-1][1]))
    return modes


def _made(leaves: Sequence[Leaf], functor: CuteSwizzle) -> CuteLayout:
    if len(leaves) == 1:
        return CuteLayout(*_unit(*leaves[0]), functor)
    return CuteLayout(tuple(size for size, _ in leaves), tuple(step for _, step in leaves), functor)


def _joined(modes: Sequence[CuteLayout], functor: CuteSwizzle) -> CuteLayout:
    return CuteLayout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes), functor)


def _check_rank(layout: CuteLayout, tiler: tuple[Nested, ...]) -> None:
    if layout.rank != len(tiler):
        raise InputError(f"{layout} has {layout.rank} modes; a tiler of {len(tiler)} does not fit")
