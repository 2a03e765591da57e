"""Which lines of a large tile a picture shows: an atom that looks like earlier ones is left out, and the gap says so."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.show.tile import TilePicture
from smemsim.spec.shared_memory import LINE

__all__ = ["Gap", "shown_columns", "shown_lines", "shown_rows"]

PLENTY = 16  # lines that are shown before atoms that look alike are left out
COLUMNS = 16  # chunk columns of the tile beside each other


@dataclasses.dataclass(frozen=True)
class Gap:
    """Lines that are left out between two that are shown; `count` of them hold something, and `alike` says whether all look like earlier ones."""

    first: int
    last: int
    count: int
    alike: bool


def shown_lines(tile: TilePicture, most: int) -> list[int | Gap]:
    """The 128-byte lines of shared memory to draw: all where there are at most `most`; else the atoms of the start, of LBO's and SBO's ends and of the first wrong read,
    and those that look like no earlier one.

    >>> tile = TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16)
    >>> shown_lines(tile, 32)[-2:]
    [23, Gap(first=24, last=71, count=48, alike=True)]
    """
    size = tile.atom_lines
    if len(tile.lines) <= most:
        return _with_gaps(list(tile.lines), list(tile.lines), {})
    kept = {stride.end // LINE // size for stride in tile.strides() if stride.used} | {tile.chunk_address((0, 0)) // LINE // size}
    if tile.first_wrong:
        kept.add(tile.chunk_address(tile.first_wrong) // LINE // size)
    seen: set[Any] = set()
    taken: list[int] = []
    atoms: dict[int, list[int]] = {}
    for line in tile.lines:
        atoms.setdefault(line // size, []).append(line)
    alike = dict.fromkeys(tile.lines, False)
    ordered = sorted(atoms, key=lambda atom: (atom not in kept, atom))
    chosen: set[int] = set()
    for atom in ordered:
        look = _look(tile, atoms[atom], atom * size)
        repeated = look in seen
        seen.add(look)
        if atom not in kept and repeated and len(chosen) >= PLENTY:
            alike.update(dict.fromkeys(atoms[atom], True))
        elif len(chosen) + len(atoms[atom]) <= most or (atom in kept and len(chosen) < most):
            chosen.update(atoms[atom][: most - len(chosen)])
        else:
            alike.update(dict.fromkeys(atoms[atom], repeated))
    taken = sorted(chosen)
    return _with_gaps(taken, list(tile.lines), alike)


def _look(tile: TilePicture, lines: list[int], base: int) -> Any:
    """What an atom looks like, wherever it lies and whichever rows it holds."""
    cells = [(line - base, slot, cell) for line in lines for slot, cell in enumerate(tile.lines[line]) if cell]
    homes = [c.home for _, _, c in cells if c.home] or [(0, 0)]
    line0, column0 = min(h[0] for h in homes), min(h[1] for h in homes)
    return tuple((at, slot, c.home and (c.home[0] - line0, c.home[1] - column0), len(c.readers), bool(c.wrong)) for at, slot, c in cells)


def shown_rows(tile: TilePicture, lines: list[int | Gap], most: int) -> list[int | Gap]:
    """The lines of the tile, at most `most`, that have a chunk in one of the shown lines of shared memory."""
    shown = {line for line in lines if isinstance(line, int)}
    taken = [row for row in range(tile.shape[0]) if shown.intersection((tile.address[row, :, 0] // LINE).tolist())]
    if tile.first_wrong:
        taken.sort(key=lambda row: abs(row - tile.first_wrong[0]) > most // 2)  # type: ignore[index]
    taken = sorted(taken[:most])
    wrong = [tuple(bool(tile.wrong_at((row, column))) for column in range(tile.shape[1])) for row in range(tile.shape[0])]
    known = {wrong[row] for row in taken}
    return _with_gaps(taken, list(range(tile.shape[0])), {row: wrong[row] in known for row in range(tile.shape[0])})


def shown_columns(tile: TilePicture, most: int = COLUMNS) -> range:
    """The chunk columns of the tile to draw: the first ones, or those around the first wrong chunk."""
    begin = tile.first_wrong[1] // most * most if tile.first_wrong else 0
    return range(begin, min(begin + most, tile.shape[1]))


def _with_gaps(taken: list[int], there: list[int], alike: dict[int, bool]) -> list[int | Gap]:
    """Lines in order, with what stands between them; a jump of addresses at which nothing lies is a gap of 0."""
    found: list[int | Gap] = []
    kept, out = set(taken), list[int]()
    previous = None
    for line in there:
        if line not in kept:
            out.append(line)
            continue
        if out:
            found.append(Gap(out[0], out[-1], len(out), all(alike[x] for x in out)))
            out = []
        elif previous is not None and line != previous + 1:
            found.append(Gap(previous + 1, line - 1, 0, True))
        found.append(line)
        previous = line
    if out:
        found.append(Gap(out[0], out[-1], len(out), all(alike[x] for x in out)))
    return found
