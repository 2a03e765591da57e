"""CuTe layouts, as much of them as the documents use; independent of smemsim.

A layout maps coordinates to offsets: a shape and a stride of the same nesting. Inside a mode the coordinate is one
number that runs through the nested shape with the leftmost entry fastest (colexicographic order).

>>> tile = parse("((8,2),(4,4)):((4,32),(1,64))")
>>> tile(9, 5)  # row 9 is (1,1): 4 + 32; column 5 is (1,1): 1 + 64
101
>>> parse("((T,2,m),(8,k)):((1,T,LBO),(2T,SBO))", T=8, m=2, k=1, LBO=128, SBO=256).shape
((8, 2, 2), (8, 1))
"""

import ast
import dataclasses
import math
import re

import numpy as np


@dataclasses.dataclass(frozen=True)
class Swizzle:
    """Swizzle<bits, base, shift>: XOR `bits` bits that stand `shift` above bit `base` into the bits at `base`.

    >>> Swizzle(3, 4, 3)(128)
    144
    """

    bits: int
    base: int
    shift: int

    def __call__(self, offset):
        return offset ^ ((offset >> self.base + self.shift) % (1 << self.bits) << self.base)


@dataclasses.dataclass(frozen=True)
class Layout:
    shape: tuple
    stride: tuple
    functor: Swizzle = Swizzle(0, 4, 3)

    def __str__(self):
        return f"{self.shape}:{self.stride}".replace(" ", "")

    def offsets(self):
        """The offsets of all coordinates without the functor, one axis for each top-level mode."""
        total = np.zeros((), np.int64)
        for shape, stride in zip(self.shape, self.stride, strict=True):
            total = total[..., None] + _mode_offsets(shape, stride)
        return total

    def addresses(self, start, bits):
        """Byte addresses of elements of `bits` bits; the functor acts on the complete address."""
        return self.functor(start + self.offsets() * bits // 8)

    def __call__(self, *coordinate):
        return int(self.offsets()[coordinate])


def parse(text, **values):
    """`Swizzle<B,M,S> o shape:stride`, the functor being optional; letters take the values, `2T` is twice T."""
    found = re.fullmatch(r"(?:Swizzle<(\d),\s?(\d),\s?(\d)>\s?o\s?)?(.*):(.*)", text)
    shape, stride = (
        ast.literal_eval(re.sub(r"(\d*)([A-Za-z]+)", lambda m: str(int(m[1] or 1) * values[m[2]]), part)) for part in found.group(4, 5)
    )
    return Layout(shape, stride, Swizzle(*(int(x) for x in found.group(1, 2, 3)))) if found[1] else Layout(shape, stride)


def _leaves(shape, stride):
    """(size, stride) of every innermost mode, fastest first."""
    if isinstance(shape, tuple):
        return [leaf for s, d in zip(shape, stride, strict=True) for leaf in _leaves(s, d)]
    return [(shape, stride)]


def _mode_offsets(shape, stride):
    total = np.zeros(1, np.int64)
    for size, step in _leaves(shape, stride):
        total = (total + step * np.arange(size)[:, None]).ravel()
    return total


def _coalesced(leaves):
    """Neighbours that run on become one, single elements vanish; nothing left is 1:0."""
    kept = []
    for size, step in leaves:
        if size > 1 and kept and kept[-1][0] * kept[-1][1] == step:
            kept[-1] = (kept[-1][0] * size, kept[-1][1])
        elif size > 1:
            kept.append((size, step))
    if len(kept) < 2:
        return kept[0] if kept else (1, 0)
    return tuple(size for size, _ in kept), tuple(step for _, step in kept)


def _divide(shape, stride, tile):
    """One mode as its first `tile` elements and what repeats them."""
    inner, rest = [], []
    for size, step in _leaves(shape, stride):
        take = math.gcd(size, tile)
        if take not in (size, tile):
            raise ValueError(f"{shape}:{stride} does not divide by {tile}")
        tile //= take
        inner.append((take, step))
        rest.append((size // take, step * take))
    return _coalesced(inner), _coalesced(rest)


def zipped_divide(layout, tiler):
    """((tile modes), (rest modes)), mode by mode.

    >>> print(zipped_divide(parse("((8,16),(64,2)):((64,512),(1,8192))"), (64, 16)))
    ((64,16),(2,(4,2))):((64,1),(4096,(16,8192)))
    """
    parts = [_divide(s, d, n) for s, d, n in zip(layout.shape, layout.stride, tiler, strict=True)]
    return Layout(*(tuple(tuple(part[which][i] for part in parts) for which in (0, 1)) for i in (0, 1)))


def logical_divide(layout, tiler):
    """((tile, rest) of the first mode, (tile, rest) of the second).

    >>> print(logical_divide(parse("(64,2):(8,1)"), (8, 1)))
    ((8,8),(1,2)):((8,64),(0,1))
    """
    parts = [_divide(s, d, n) for s, d, n in zip(layout.shape, layout.stride, tiler, strict=True)]
    return Layout(*(tuple(tuple(half[i] for half in part) for part in parts) for i in (0, 1)))


def recast(layout, count):
    """`count` neighbouring elements become one: the contiguous mode shrinks, every other stride is divided.

    >>> print(recast(parse("(64,16):(64,1)"), 8))
    (64,2):(8,1)
    """

    def one(shape, stride):
        if isinstance(shape, tuple):
            return tuple(zip(*(one(s, d) for s, d in zip(shape, stride, strict=True)), strict=True))
        size, step = (shape // count, 1) if stride == 1 else (shape, stride // count)
        if size * step * count != shape * stride:
            raise ValueError(f"{shape}:{stride} cannot be recast by {count}")
        return size, step

    return Layout(*one(layout.shape, layout.stride))


def tile_to_shape(atom, shape, order):
    """Copies of a dense atom until `shape` is covered, along the axes in `order`, the first being the fastest.

    >>> print(tile_to_shape(parse("(8,64):(64,1)"), (128, 128), (0, 1)))
    ((8,16),(64,2)):((64,512),(1,8192))
    """
    step, rest = math.prod(atom.shape), {}
    for axis in order:
        count = shape[axis] // atom.shape[axis]
        rest[axis] = count, step
        step *= count
    return Layout(*(tuple((given[i], rest[i][which]) for i in (0, 1)) for which, given in enumerate((atom.shape, atom.stride))))
