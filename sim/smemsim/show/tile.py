"""Operands as SVG and pages: the tile next to shared memory, the tile as swizzle atoms, and a checked scenario."""

from __future__ import annotations

from typing import Any

from smemsim.base.arguments import flag, shown, whole, wholes
from smemsim.base.errors import InputError
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.picture.model import Cell, Grid, Outline, Picture, Row, colour
from smemsim.core.picture.svg import boxes_svg, grids_svg
from smemsim.core.spec.shared_memory import BANKS, CHUNK, LINE
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.check import check
from smemsim.diagnosis.report import Report
from smemsim.diagnosis.tile import MOST_LINES, Place, TilePicture

__all__ = ["atoms_svg", "pattern_svg", "patterns", "show_html", "tile_svg"]


def tile_svg(
    tile: TilePicture, *, selected: Place | None = None, most: int = MOST_LINES, style: str | None = None, hover: bool = True
) -> str:
    """An operand as SVG text, at most `most` 128-byte lines of it.

    `selected` is the (block, K step) whose reads are outlined. Default: the first wrong element, or the first one. With
    `hover`, a cell shows its address, banks and content. `style` "" leaves out the style sheet, for pages that have it.
    Raises InputError for more chunks than a picture has.

    >>> import smemsim
    >>> tile = smemsim.TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=8, k=16)
    >>> smemsim.tile_svg(tile).startswith("<svg")
    True
    """
    if not isinstance(tile, TilePicture):
        raise InputError(f"tile = {shown(tile)}: needs a TilePicture, as TilePicture.of makes one of a descriptor")
    if tile.too_large:
        raise InputError(tile.too_large)
    most = whole("most", most, minimum=1, wanted="a number of 128-byte lines")
    if not (style is None or isinstance(style, str)):
        raise InputError(f"style = {shown(style)}: needs a style sheet's text")
    place = None if selected is None else _place(tile, selected)
    return grids_svg(tile.picture(most, place), style, hover=flag("hover", hover))


def _place(tile: TilePicture, selected: Any) -> Place:
    """The (block, K step) that is asked for."""
    read = wholes("selected", selected, wanted="(block, K step)")
    blocks, steps = tile.words.shape
    if len(read) != 2 or not (0 <= read[0] < blocks and 0 <= read[1] < steps):
        raise InputError(f"selected = {shown(selected)}: needs (block, K step) from (0, 0) to ({blocks - 1}, {steps - 1})")
    return read[0], read[1]


def atoms_svg(tile: TilePicture, style: str | None = None) -> str:
    """A tile as SVG text: its swizzle atoms with their numbers in shared memory.

    Outlines are the reads of the instructions, with the bytes from the first start address. Arrows are LBO and SBO from
    the first atom. An atom that is not contiguous has no number. Raises InputError for more atoms than a picture has.

    >>> tile = TilePicture.of(0x4000004000010000, arch="sm_100a", dtype="bf16", major="K", rows=64, k=16, k_add=[0, 32, 64, 96])
    >>> atoms_svg(tile).count("<title>atom"), "+96" in atoms_svg(tile)
    (8, True)
    """
    return boxes_svg(tile.atoms(), style)


def show_html(scenario: Any) -> str:
    """The page of a scenario: a path, a dict, or the `Report` of one that `check` has run.

    Raises what `check` raises.

    >>> from smemsim import show_html
    >>> page = show_html({"arch": "sm_90a", "title": "nothing <yet>"})
    >>> "<h1>nothing &lt;yet&gt;</h1>" in page, "http://" in page.replace("http://www.w3.org/2000/svg", "")
    (True, False)
    """
    return (scenario if isinstance(scenario, Report) else check(scenario)).html()


# ---- The swizzle patterns themselves: which 16-byte chunk of a 128-byte line lies in which group of four banks


LINES = 8
SHOWN = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)


def pattern_svg(modes: tuple[Swizzle, ...] = SHOWN, style: str | None = None) -> str:
    """Eight 128-byte lines under each mode as SVG text. A cell has the number of its chunk, counted before swizzling.

    >>> pattern_svg().count("<title>")
    256
    """
    says = (
        "lines of 128 B downward, 16-byte chunks to the right, under their first bank; a cell has the number of its chunk before swizzling"
    )
    picture = Picture("Swizzle patterns on shared addresses", (), "", tuple(map(_pattern, modes)), notes=(says, "outlines repeat"))
    return grids_svg(picture, style)


def patterns(modes: tuple[Swizzle, ...] = SHOWN) -> list[Picture]:
    """Eight 128-byte lines under each mode, a picture each."""
    says = "its number before swizzling; above each column the first of its four banks"
    return [Picture(f"swizzle {name}", (), "", (_pattern(name),), cell=says) for name in modes]


def _pattern(name: Swizzle) -> Grid:
    mode, slots = MODES[name], LINE // CHUNK
    rows = []
    for line in range(LINES):
        cells = dict[int, Cell]()
        for chunk in range(slots):
            address = swizzle(line * LINE + chunk * CHUNK, 0, mode.mask, mode.shift)
            hint = f"line {line}, chunk {chunk} before swizzling: {address:#x}"
            cells[address % LINE // CHUNK] = Cell(str(chunk), colour(chunk), hint=hint, address=address)
        rows.append(Row(line, f"{line * LINE:#05x}", tuple(cells[slot] for slot in range(slots))))
    repeats = f"repeats after {mode.period} B" if mode.mask else "no permutation"
    size = mode.mask + 1
    outlines = tuple(Outline("atom", first, first + size, 0, slots) for first in range(0, LINES, size)) if mode.mask else ()
    heads = tuple((str(BANKS.of(slot * CHUNK)),) for slot in range(slots))
    return Grid(f"swizzle {name}: {repeats}", heads, tuple(rows), "bank", outlines=outlines)
