"""The algebra of CuTe layouts, as much of it as descriptors need; results are those that CuTe prints.

Documented: CUTLASS, media/docs/cpp/cute/02_layout_algebra.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from smemsim.addressing.cute import CuteLayout, CuteSwizzle, Leaf, Nested
from smemsim.errors import InputError

__all__ = ["byte_axes", "coalesce", "composition", "logical_divide", "recast", "tile_to_shape", "zipped_divide"]


def coalesce(layout: CuteLayout) -> CuteLayout:
    """The same function of one number in as few modes as possible.

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
    if layout.size % tiler:
        raise InputError(f"{layout} does not divide by {tiler}: {layout.size} coordinates")
    rest = layout.size // tiler
    return _joined([composition(layout, tiler), composition(layout, CuteLayout(rest, tiler if rest > 1 else 0))], layout.functor)


def zipped_divide(layout: CuteLayout, tiler: tuple[int, ...]) -> CuteLayout:
    """What is inside a tile of all modes, then which tile of all modes: ((tile, tile), (rest, rest)).

    >>> print(zipped_divide(CuteLayout.parse("((8,16),(64,2)):((64,512),(1,8192))"), (64, 16)))
    ((64,16),(2,(4,2))):((64,1),(4096,(16,8192)))
    """
    parts = logical_divide(layout, tiler).modes()
    return _joined([_joined([part.mode(which) for part in parts], layout.functor) for which in (0, 1)], layout.functor)


def recast(layout: CuteLayout, new_bits: int, old_bits: int) -> CuteLayout:
    """The layout of the same bytes in elements of another width: the contiguous mode shrinks or grows, strides are divided or multiplied.

    The XOR stays as it is, since it acts on bytes.

    >>> print(recast(CuteLayout.parse("(64,16):(64,1)"), 128, 16))
    (64,2):(8,1)
    >>> print(recast(CuteLayout.parse("(64,2):(8,1)"), 16, 128))
    (64,16):(64,1)
    """
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
    """Of each top-level mode the (size, stride) pairs in bytes, fastest first; the contiguous mode counts bytes, the others lines.

    This is how scenarios write a buffer's layout.

    >>> byte_axes(CuteLayout.parse("((8,16),(64,2)):((64,512),(1,8192))"), 16)
    (((8, 128), (16, 1024)), ((128, 1), (2, 16384)))
    """
    return tuple(mode.leaves() for mode in recast(layout, 8, element_bits).modes())


def tile_to_shape(atom: CuteLayout, shape: Sequence[int], order: Sequence[int]) -> CuteLayout:
    """Copies of an atom until `shape` is covered; `order` has the place of each mode in the stacking, 0 the fastest.

    Raises InputError where the shape is no multiple of the atom, or the atom has holes.

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
    found, left, apart = [], size, step
    for count, stride in leaves[:-1]:
        if count % apart and apart % count:
            raise InputError(f"{size}:{step} does not divide the mode {count}:{stride}")
        take = min(max(1, count // apart), left)
        if left % take:
            raise InputError(f"{size}:{step} does not divide the mode {count}:{stride}")
        if take > 1:
            found.append((take, apart * stride))
        left, apart = left // take, -(-apart // count)
    if left > 1 or not found:
        found.append((left, apart * leaves[-1][1]))
    return found


def _made(leaves: Sequence[Leaf], functor: CuteSwizzle) -> CuteLayout:
    if len(leaves) == 1:
        return CuteLayout(*_unit(*leaves[0]), functor)
    return CuteLayout(tuple(size for size, _ in leaves), tuple(step for _, step in leaves), functor)


def _joined(modes: Sequence[CuteLayout], functor: CuteSwizzle) -> CuteLayout:
    return CuteLayout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes), functor)


def _check_rank(layout: CuteLayout, tiler: tuple[Nested, ...]) -> None:
    if layout.rank != len(tiler):
        raise InputError(f"{layout} has {layout.rank} modes; a tiler of {len(tiler)} does not fit")
