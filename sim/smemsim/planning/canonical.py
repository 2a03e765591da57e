"""The canonical layout of one operand, and the steps by which CuTe comes from the tile's layout to the descriptor's fields."""

from __future__ import annotations

import dataclasses

from smemsim.addressing.cute import CuteLayout
from smemsim.addressing.cute_algebra import logical_divide, recast, zipped_divide
from smemsim.errors import InputError
from smemsim.planning.arrangement import Arrangement
from smemsim.spec.shared_memory import ATOM_ROWS, CHUNK

__all__ = ["CuteSteps", "canonical_layouts", "cute_steps"]


@dataclasses.dataclass(frozen=True)
class CuteSteps:
    """CuTe's way: `tile` and `partitioned` count elements; `units`, `canonical` and `descriptors` count 16 bytes, as the descriptor does.

    `partitioned` is ((operand), (blocks, K steps)), `canonical` the operand divided by `unit` (8 rows of a chunk, or a swizzle atom), and
    `descriptors` what is added to the start for each block and K step. `lbo` and `sbo` are read off `canonical`, in bytes; None where the
    operand has one unit only, so that the stride does not exist.
    """

    tile: CuteLayout
    order: tuple[int, int]
    subtile: tuple[int, int]
    partitioned: CuteLayout
    units: CuteLayout
    unit: tuple[int, int]
    canonical: CuteLayout
    descriptors: CuteLayout
    lbo: int | None
    sbo: int | None


def cute_steps(tile: Arrangement) -> CuteSteps:
    """tile_to_shape, zipped_divide by one instruction's operand, recast to 16 bytes, logical_divide by the unit of the descriptor."""
    bits, wish, mode = 8 * CHUNK, tile.wish, tile.wish.mode
    subtile = (tile.instruction.rows, tile.instruction.k)
    partitioned = zipped_divide(tile.tile, subtile)
    units = recast(partitioned, bits, tile.element_bits)
    operand = units.mode(0)
    if wish.major == "K":
        unit = (ATOM_ROWS, 1)
    else:
        unit = (min(mode.chunks, operand.mode(0).size), tile.atom_lines)
    try:
        canonical = logical_divide(operand, unit)
    except InputError:  # rows end inside an atom: whole atoms and a part of one
        canonical = operand
    rows, k = (_stride_of(canonical.mode(i)) for i in (0, 1))
    swapped = wish.major == "MN" and not mode.mask
    lbo, sbo = (rows, k) if (wish.major == "MN") != swapped else (k, rows)
    return CuteSteps(tile.tile, tile.order, subtile, partitioned, units, unit, canonical, units.mode(1), lbo, sbo)


def _stride_of(mode: CuteLayout) -> int | None:
    """Bytes between units, from (unit, rest)."""
    if not isinstance(mode.shape, tuple):
        return None
    size, step = mode.mode(1).leaves()[0]
    return CHUNK * step if size > 1 else None


def canonical_layouts(tile: Arrangement) -> tuple[str, str]:
    """(symbolic, numeric) canonical layout of one operand in elements, as the PTX ISA writes it: T elements in 16 bytes."""
    mode, (lbo, sbo) = tile.wish.mode, (8 * x // tile.element_bits for x in tile.strides)
    per, chunks, swizzled = tile.per_chunk, mode.chunks, bool(mode.mask)
    rows, k = tile.instruction.rows, tile.instruction.k // per
    if tile.wish.major == "K":
        symbolic = f"((8,m),(T,{k})):(({chunks}T,SBO),(1,{'T' if swizzled else 'LBO'}))"
        numeric = f"((8,{rows // ATOM_ROWS}),({per},{k})):(({chunks * per},{sbo}),(1,{per if swizzled else lbo}))"
    else:
        far, near = ("LBO", "SBO") if swizzled else ("SBO", "LBO")
        far_by, near_by = (lbo, sbo) if swizzled else (sbo, lbo)
        m, lines = -(-rows // tile.inner), tile.atom_lines
        symbolic = f"((T,{chunks},m),({lines},k)):((1,T,{far}),({chunks}T,{near}))"
        numeric = f"(({per},{chunks},{m}),({lines},{tile.instruction.k // lines})):((1,{per},{far_by}),({chunks * per},{near_by}))"
    return f"{mode.cute} o {symbolic}", f"{mode.cute} o {numeric}"
