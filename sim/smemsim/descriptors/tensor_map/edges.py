"""What a map's box does at the edges of its tensor: fill that comes with every load, and bytes that stores write behind a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from smemsim.addressing.tma import tile_size
from smemsim.descriptors.tensor_map.arguments import Arguments
from smemsim.descriptors.tensor_map.finding import finding, measured
from smemsim.descriptors.tensor_map.rule import Target
from smemsim.descriptors.tensor_map.rules import inner
from smemsim.descriptors.tensor_map.traps import map_traps
from smemsim.spec.findings import Finding
from smemsim.spec.tensor_map import WIDE_IS_IM2COL

if TYPE_CHECKING:
    from smemsim.descriptors.tensor_map.map import TensorMap

__all__ = ["box_beyond_tensor", "pixels_outside", "store_overrun", "walked"]


def walked(a: Arguments) -> list[int]:
    """Dimensions of a tile that the box and the element strides count in: 0 with interleave only, and then not the planes of slices."""
    return [i for i in range(a.rank) if (i != a.rank - 2 if a.interleave else i)]


def store_overrun(a: TensorMap, at: Target) -> Iterator[Finding]:
    """Where stores work at all; with interleave rows are whole slices."""
    row = a.global_dim[0] * a.type_row.bits
    if a.interleave or row % 128 == 0 or a.is_im2col_wide or any(trap.stops(is_store=True) for trap in map_traps(a, at.arch)):
        return
    size = -(-row // 8)
    yield finding(
        "T216",
        "global_dim[0]",
        f"global_dim[0] = {a.global_dim[0]} x {a.type_row.bits} bit = {size} B, no multiple of 16 B: stores and reductions that reach the end of a row write the "
        f"{-size % 16} B behind it too; loads fill",
        "keep those bytes free: pad the rows, and the allocation behind the last one",
        measured(at, "PTX ISA 5.5.4 says that stores clip per element, Triton issue 11583 has it on Hopper and Blackwell", "tma_stores"),
    )


def box_beyond_tensor(a: Arguments, at: Target) -> Iterator[Finding]:
    """A box larger than the tensor, as small problems have them."""
    name, elements = inner(a)
    sides = {} if a.interleave else {0: (name, elements, 1)}
    if a.box_dim:
        sides |= {i: (f"box_dim[{i}]", a.box_dim[i], a.element_strides[i]) for i in walked(a)}
    for i, (where, box, step) in sides.items():
        moved, inside = tile_size(box, step), tile_size(a.global_dim[i], step)
        if moved > inside:
            yield finding(
                "T219",
                where,
                f"{where} = {box} is larger than global_dim[{i}] = {a.global_dim[i]}: at least {moved - inside} of {moved} elements of every load along "
                "this dimension are fill, and the barrier counts them",
                "",
                measured(at, "PTX ISA 5.5.4", "tma_loads" if a.box_dim else "tma_im2col"),
            )


def pixels_outside(a: Arguments, at: Target) -> Iterator[Finding]:
    """Of an im2col walk that no offset brings inside, and of columns longer than the walk."""
    if a.box_dim or (a.mode is not None and at.arch not in WIDE_IS_IM2COL):
        return
    pixels = inside = 1
    for axis, (low, high) in enumerate(zip(*a.pixel_box, strict=True), start=0 if a.interleave else 1):
        dim, step = a.global_dim[axis], a.element_strides[axis]
        steps = tile_size(max(dim + high - low, 1), step)
        pixels *= steps
        # Offsets only lead to the right: they bring a box that begins left of the image in, and nothing else.
        inside *= min(steps, tile_size(max(dim - max(low, 0), 0), step))
    if 2 * inside < pixels:
        yield finding(
            "T219",
            "pixel_box_lower_corner",
            f"the pixel box of corners {', '.join(map(str, a.pixel_box))} walks over {pixels} pixels an image, of which at most {inside} lie in the tensor, "
            "whatever the offsets: the others are fill",
            "the lower corner is -padding, the upper one padding - (filter - 1) * dilation, W first",
            measured(at, "PTX ISA 5.5.5", "tma_im2col"),
        )
    total = pixels * tile_size(a.global_dim[-1], a.element_strides[-1])
    if a.pixels_per_column > total:
        yield finding(
            "T219",
            "pixels_per_column",
            f"pixels_per_column = {a.pixels_per_column}, and the whole tensor has {total}: at least {a.pixels_per_column - total} of every column are fill, "
            "and the barrier counts them",
            "",
            measured(at, "PTX ISA 5.5.5", "tma_im2col"),
        )
