"""What the colours and outlines of a tile's picture mean, of those that occur in it."""

from __future__ import annotations

import textwrap

from smemsim.show.paint import LETTER, MARGIN, PROSE, hatch, rect, text
from smemsim.show.tile import Place, TilePicture
from smemsim.spec.shared_memory import LINE

__all__ = ["tile_legend"]


def tile_legend(
    tile: TilePicture, lines: list[int], selected: Place, notes: list[str], place: tuple[float, float]
) -> tuple[list[str], float]:
    """Swatches and sentences for the shown `lines`, below `place` (y, width of the picture); and where they end."""
    parts = list[str]()
    x, y = float(MARGIN), place[0] + 20
    width = place[1]
    swatches: list[tuple[str, str, str]] = [(f"k{i}", str(i), "") for i in range(min(8, tile.shape[1]))]
    swatches[-1] = (swatches[-1][0], f"{len(swatches) - 1}  chunk column{' mod 8' if tile.shape[1] > 8 else ''} before swizzling", "")
    cells = [c for line, of in tile.lines.items() if line in lines for c in of]
    swatches.append(("e", "mma", f"block {selected[0]}, K step {selected[1]} reads it"))
    if any(c and c.wrong for c in cells):
        swatches.append(("k3", "hatch", "wrong: ← what arrives, ≠ what was meant"))
    if any(c and len(c.readers) > 1 for c in cells) and not tile.held:
        swatches.append(("k3", "hatch", "read for several chunks"))
    if any(c and c.readers and c.home is None for c in cells):
        swatches.append(("x", "", "no data of this tile"))
    if any(c and not c.readers for c in cells):
        swatches.append(("e", "miss", "meant, but read nowhere"))
    if any(c is None for c in cells):
        swatches.append(("e", "", "not read"))
    for fill, kind, says in swatches:
        words = says or kind
        if x + 24 + LETTER * len(words) > width - MARGIN:
            x, y = float(MARGIN), y + 21
        parts.append(rect(x, y, 15, 15, f"g {fill}"))
        if kind == "hatch":
            parts.append(hatch(x, y, 15, 15))
        elif kind in ("mma", "miss"):
            parts.append(rect(x + 1, y + 1, 13, 13, kind))
        parts.append(text(x + 20, y + 11.5, "s", words))
        x += 34 + LETTER * len(words)
    y += 36
    atom = f"grey outlines are swizzle atoms of {tile.atom_lines * LINE} B" + (f", 8 x {tile.mode.width} B" if tile.major == "K" else "")
    for line in textwrap.wrap("; ".join([atom, *notes, tile.grade]), int((width - 2 * MARGIN) / PROSE)):
        parts.append(text(MARGIN, y, "s", line))
        y += 17
    return parts, y
