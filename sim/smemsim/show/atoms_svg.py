"""A whole tile as its swizzle atoms: in which order they lie in shared memory, where LBO and SBO lead, and what each instruction reads."""

from __future__ import annotations

import textwrap

from smemsim.errors import InputError
from smemsim.show.paint import MARGIN, PROSE, arrow, rect, svg, text
from smemsim.show.tile import Place, TilePicture
from smemsim.spec.shared_memory import LINE

__all__ = ["atoms_svg"]

TOP = 104
MOST_ATOMS = 1024
WIDEST, LEAST = 860, 34  # pixels of the tile, and of an atom


class _Atoms:
    """Atoms by their place in the tile, rows of M or N downward and K to the right."""

    def __init__(self, tile: TilePicture) -> None:
        self.tile = tile
        lines, chunks = (8 if tile.major == "K" else tile.mode.k_rows), tile.mode.chunks
        self.base: dict[Place, int] = {}
        self.whole: dict[Place, bool] = {}
        size = tile.atom_lines * LINE
        for line, column in tile.places():
            at = (line // lines, column // chunks)
            place = at if tile.major == "K" else (at[1], at[0])
            base = tile.chunk_address((line, column)) // size * size
            self.whole[place] = self.base.setdefault(place, base) == base and self.whole.get(place, True)
        along = chunks * tile.per_chunk
        self.rows, self.k = (lines, along) if tile.major == "K" else (along, lines)  # elements of an atom
        down, right = (max(p[i] for p in self.base) + 1 for i in (0, 1))
        subtiles = max(self.k // tile.k, 1)
        self.width = min(max(WIDEST / right, LEAST), 76.0 * subtiles if subtiles > 1 else 118.0)
        self.height = 52.0 if down <= 8 else 34.0 if down <= 16 else 26.0
        self.size = (down, right)

    def at(self, row: float, k: float) -> tuple[float, float]:
        """Where an element's corner is drawn."""
        return MARGIN + 54 + k / self.k * self.width, TOP + row / self.rows * self.height

    def box(self, place: Place) -> tuple[float, float, float, float]:
        """Of an atom: x, y, width, height."""
        x, y = self.at(place[0] * self.rows, place[1] * self.k)
        return x, y, self.width, self.height


def atoms_svg(tile: TilePicture, style: str | None = None) -> str:
    """A tile as SVG text: every swizzle atom with its number in shared memory, what the instructions read as outlines with the bytes that their start
    addresses are past the first, and LBO and SBO as arrows from the first atom. An atom that is not one piece has no number.
    Raises InputError for more atoms than a picture has.

    >>> tile = TilePicture.of(0x4000004000010000, arch="sm_100a", dtype="bf16", major="K", rows=64, k=16, k_add=[0, 32, 64, 96])
    >>> atoms_svg(tile).count("<title>atom"), "+96" in atoms_svg(tile)
    (8, True)
    """
    atoms = _Atoms(tile)
    if len(atoms.base) > MOST_ATOMS:
        raise InputError(f"{tile.name}: {len(atoms.base):,} swizzle atoms; a picture has at most {MOST_ATOMS:,}")
    ordered = {base: number for number, base in enumerate(sorted(set(atoms.base.values())))}
    rows, k = tile.held.axes if tile.held else ("M / N", "K")
    down, right = atoms.size
    parts = [text(MARGIN + 54, TOP - 28, "s", f"{k} →")]
    parts += [text(atoms.at(0, j * atoms.k)[0] + 3, TOP - 8, "s", j * atoms.k) for j in range(right)]
    parts += [text(MARGIN + 46, atoms.at(i * atoms.rows, 0)[1] + 14, "s r", i * atoms.rows) for i in range(down)]
    parts.append(text(MARGIN, TOP - 8, "s", f"{rows} ↓"))
    for place, base in atoms.base.items():
        x, y, width, height = atoms.box(place)
        number = ordered[base]
        parts.append(
            rect(
                x,
                y,
                width,
                height,
                f"g k{number % 8}",
                f"<title>atom {number}: {base:#x} to {base + tile.atom_lines * LINE - 1:#x}</title>",
            )
        )
        parts.append(text(x + 5, y + 13, "c", number if atoms.whole[place] else "·"))
    parts += _instructions(tile, atoms)
    strides, notes = _strides(tile, atoms)
    bottom = TOP + down * atoms.height
    used = ", ".join(f"{s.name} {s.bytes} B" for s in tile.strides() if s.used)
    words = [f"coloured boxes are swizzle atoms of {atoms.rows} x {atoms.k} elements, {tile.atom_lines * LINE} B, numbered as they lie in shared memory",
             "violet outlines are instructions, with what their start address adds to the first", used, *notes, tile.grade]  # fmt: skip
    width = max(
        MARGIN * 2 + 54 + right * atoms.width + 100, MARGIN * 2 + 9.1 * len(tile.title), MARGIN * 2 + PROSE * len(tile.subtitle), 560
    )
    wrapped = textwrap.wrap("; ".join(w for w in words if w), int((width - 2 * MARGIN) / PROSE))
    foot = [text(MARGIN, bottom + 26 + 17 * i, "s", line) for i, line in enumerate(wrapped)]
    head = [text(MARGIN, 28, "t", tile.title), text(MARGIN, 49, "s", tile.subtitle)]
    return svg(width, bottom + 26 + 17 * len(wrapped), [*head, *parts, *strides, *foot], tile.title, style)


def _instructions(tile: TilePicture, atoms: _Atoms) -> list[str]:
    """Outlines, and how far each start is past the first."""
    parts = []
    blocks, steps = tile.words.shape
    for block in range(blocks):
        for step in range(steps):
            (x, y), (x1, y1) = atoms.at(block * tile.rows, step * tile.k), atoms.at((block + 1) * tile.rows, (step + 1) * tile.k)
            parts.append(rect(x + 2, y + 2, x1 - x - 4, y1 - y - 4, "mma"))
            if blocks * steps > 1:
                past = tile.start((block, step)) - tile.start((0, 0))
                parts.append(text((x + x1) / 2, y1 - 8, "mmad m edge", f"{past:+,}" if past else "start"))
    return parts


def _strides(tile: TilePicture, atoms: _Atoms) -> tuple[list[str], list[str]]:
    """Arrows from the middle of the first atom to that of the one in which the stride ends; and what is not used."""
    size = tile.atom_lines * LINE
    parts, notes = [], []
    for number, stride in enumerate(tile.strides()):
        if not stride.used:
            notes.append(f"{stride.name} {stride.bytes} B is not used by this operand")
            continue
        target = next((place for place, base in atoms.base.items() if base == stride.end // size * size), None)
        if target is None or target == (0, 0):
            notes.append(f"{stride.name} {stride.bytes} B leads to {stride.end:#x}")
            continue
        shift = 12 * number
        (x0, y0, width, height), (x1, y1, _, _) = atoms.box((0, 0)), atoms.box(target)
        begin, end = (
            (x0 + width * 0.42 + shift, y0 + height * 0.5),
            (x1 + width * 0.42 + (shift if target[1] == 0 else 0), y1 + height * 0.5),
        )
        parts.append(arrow([begin, end], stride.name))
        label = (end[0] + 9, (begin[1] + end[1]) / 2 + 7) if target[1] == 0 else ((begin[0] + end[0]) / 2, begin[1] - 7)
        parts.append(text(*label, f"{stride.name}d edge" + ("" if target[1] == 0 else " m"), f"{stride.name} {stride.bytes} B"))
    return parts, notes
