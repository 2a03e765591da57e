"""Pictures as SVG: every shape and text is where it is needed, and none hides another one."""

import dataclasses
import io
import itertools
import re

import pytest

from drawn import SVG, Drawn, around, inset, inside, meet, middle
from smemsim.core.picture.message import Labelled, coloured, message_lines, plain, wants_colour
from smemsim.core.picture.model import (
    COLOURS,
    EMPTY,
    OUTSIDE,
    STRAY,
    Band,
    Cell,
    Gap,
    Grid,
    Legend,
    Mark,
    Outline,
    Picture,
    Row,
    Stride,
    Strip,
)
from smemsim.core.picture.svg import arrow, boxes_svg, grids_svg, hatch, strips_svg
from smemsim.core.picture.text import picture_text

LONG = "a sentence about all that is shown here, of more than one line: " + "word " * 40


def lattice(cells):
    """Cells by (row, column) have one size, and neighbours touch."""
    sizes = {(round(b[2] - b[0], 3), round(b[3] - b[1], 3)) for b in cells.values()}
    assert len(sizes) == 1
    for (row, column), box in cells.items():
        if (row, column + 1) in cells:
            assert cells[row, column + 1][:2] == pytest.approx((box[2], box[1]))
        if (row + 1, column) in cells:
            assert cells[row + 1, column][:2] == pytest.approx((box[0], box[3]))


def numbered(rows, columns, **more):
    """Rows of cells of 16 bytes, from address 0 on."""
    return tuple(
        Row(
            r,
            f"row {r}",
            tuple(Cell(f"{r * columns + c}", f"k{c % 8}", hint=f"{r},{c}", address=16 * (r * columns + c)) for c in range(columns)),
        )
        for r in range(rows)
    )


def of_numbers(drawn):
    return {tuple(map(int, name.split(","))): box for name, box in drawn.cells.items() if re.fullmatch(r"\d+,\d+", name)}


# ---- Boxes


def boxes(rows, columns, *, outlines=(), strides=()):
    heads = tuple((f"c{c}",) for c in range(columns))
    grid = Grid("boxes of a tile", heads, numbered(rows, columns), corner="below", outlines=outlines)
    return Picture("A title", ("about it",), LONG, (grid,), outlined="outlines are reads", strides=strides, notes=("a note",), boxes=True)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 4), (8, 2), (9, 2), (16, 3), (17, 2), (2, 40)])
def test_boxes_touch_and_hold_their_numbers(rows, columns):
    drawn = Drawn(boxes_svg(boxes(rows, columns), ""))
    drawn.check()
    cells = of_numbers(drawn)
    assert len(cells) == rows * columns
    lattice(cells)
    whole = around(cells.values())
    for (row, column), box in cells.items():
        assert inside(drawn.text(f"{row * columns + column}"), box)
    for column in range(columns):
        head, box = drawn.text(f"c{column}"), cells[0, column]
        assert box[0] <= head[0] < head[2] <= box[2]
        assert head[3] <= box[1]
        assert drawn.text("boxes of a tile")[3] <= head[1]
    for row in range(rows):
        label, box = drawn.text(f"row {row}"), cells[row, 0]
        assert label[2] <= box[0]
        assert box[1] <= label[1] < label[3] <= box[3]
    corner = drawn.text("below")
    assert corner[2] <= whole[0]
    assert corner[3] <= whole[1]
    assert drawn.text("boxes of a tile")[0] == whole[0]
    foot = next(box for said, [box] in drawn.texts.items() if said.startswith("outlines are reads"))
    assert foot[1] > whole[3]
    tall = whole[3] - whole[1]
    assert tall <= 16 * 36 or rows > 16  # many rows are narrower: a picture fits on a screen
    assert whole[2] - whole[0] <= 40 * 118


def test_boxes_of_few_rows_are_higher():
    high = [of_numbers(Drawn(boxes_svg(boxes(rows, 2), "")))[0, 0] for rows in (8, 9, 16, 17)]
    eight, nine, sixteen, more = (box[3] - box[1] for box in high)
    assert eight > nine == sixteen > more


def test_boxes_are_as_wide_as_fits_or_as_their_reads_need():
    """A read is an outline inside a box: with two to a box, a box has room for both labels."""
    halves = tuple(Outline("mma", 0, 1, c / 2, (c + 1) / 2, f"+{c}") for c in range(1, 8))
    alone, divided = (of_numbers(Drawn(boxes_svg(boxes(1, 4, outlines=of), "")))[0, 0] for of in ((), halves))
    assert divided[2] - divided[0] == 2 * 76 > alone[2] - alone[0] == 118
    many = of_numbers(Drawn(boxes_svg(boxes(1, 40), "")))[0, 0]
    assert many[2] - many[0] == 34
    some = of_numbers(Drawn(boxes_svg(boxes(1, 10), "")))
    assert around(some.values())[2] - some[0, 0][0] == pytest.approx(860)


def test_outlines_of_boxes_are_inside_what_they_are_around():
    of = (
        Outline("mma", 0, 2, 0, 1, "reads a"),
        Outline("mma", 0, 1, 1, 3, "reads b"),
        Outline("mma one", 2, 3, 1.5, 2, "half"),
        Outline("mma", 2, 3, 0, 1),
    )
    drawn = Drawn(boxes_svg(boxes(3, 3, outlines=of), ""))
    drawn.check()
    cells = of_numbers(drawn)
    wide = cells[0, 0][2] - cells[0, 0][0]
    for outline, box in zip(of, [*drawn.rects["mma"][:2], *drawn.rects["mma one"], drawn.rects["mma"][2]], strict=True):
        first = cells[outline.top, int(outline.left)]
        region = (
            first[0] + wide * (outline.left % 1),
            first[1],
            cells[0, 0][0] + wide * outline.right,
            cells[outline.bottom - 1, 0][3],
        )
        assert 1 <= inset(box, region) <= 5
        if outline.label:
            label = drawn.text(outline.label)
            assert inside(label, box)
            assert middle(label)[0] == pytest.approx(middle(box)[0])
            assert label[1] > middle(region)[1]  # below the number of the box


@pytest.mark.parametrize(
    ("strides", "places"),
    [
        ((Stride("SBO", 64, 0, 16, True), Stride("LBO", 16, 0, 32, True)), [(0, 1), (0, 2)]),  # both in the first row
        ((Stride("SBO", 64, 0, 48, True), Stride("LBO", 16, 0, 96, True)), [(1, 0), (2, 0)]),  # both down
        ((Stride("SBO", 64, 0, 64, True), Stride("LBO", 16, 0, 112, True)), [(1, 1), (2, 1)]),
        ((Stride("SBO", 64, 0, 16, True), Stride("LBO", 16, 0, 96, True)), [(0, 1), (2, 0)]),
    ],
)  # fmt: skip
def test_strides_of_boxes_lead_from_the_first_box_to_the_one_that_they_end_in(strides, places):
    drawn = Drawn(boxes_svg(boxes(3, 3, strides=strides), ""))
    drawn.check()
    cells = of_numbers(drawn)
    whole, ways = around(cells.values()), []
    for stride, (row, column) in zip(strides, places, strict=True):
        [[(x0, y0), (x1, y1)]] = drawn.lines[stride.name]
        begin, end, name = middle(cells[0, 0]), middle(cells[row, column]), drawn.text(f"{stride.name} {stride.bytes} B")
        if row == 0:  # above the boxes, their heads and below their title
            assert (x0, x1) == pytest.approx((begin[0], end[0]), abs=0.06)
            assert drawn.text("boxes of a tile")[3] <= y0 == y1 <= drawn.text("c0")[1]
            assert abs(middle(name)[1] - y0) < 4
            assert name[0] > x1
            ways.append(y0)
        elif column == 0:  # beside them
            assert (y0, y1) == pytest.approx((begin[1], end[1]), abs=0.06)
            assert x0 == x1 > whole[2]
            assert name[0] > x0
            assert abs(middle(name)[1] - (y0 + y1) / 2) < 4
            ways.append(x0)
        else:
            assert (x0, y0, x1, y1) == pytest.approx((*begin, *end), abs=0.06)
            assert name[0] > whole[2]
            assert abs(middle(name)[1] - y1) < 4
    assert all(abs(a - b) >= 10 for a, b in itertools.combinations(ways, 2) if len({row == 0 for row, _ in places}) == 1)
    said = " ".join(drawn.texts)
    assert ", ".join(f"{s.name} {s.bytes} B" for s in strides) in said


def test_strides_that_are_not_drawn_are_told():
    away = (Stride("SBO", 4096, 0, 4096, True), Stride("LBO", 0, 0, 0, True), Stride("none", 16, 0, 16, False))
    drawn = Drawn(boxes_svg(boxes(2, 2, strides=away), ""))
    said = " ".join(drawn.texts)
    assert "SBO 4096 B leads to 0x1000; LBO 0 B leads to 0x0; none 16 B is not used by this operand" in said
    assert "SBO 4096 B, LBO 0 B;" in said
    assert not {"SBO", "LBO", "none"} & drawn.lines.keys()
    assert around(of_numbers(drawn).values()) == around(of_numbers(Drawn(boxes_svg(boxes(2, 2), ""))).values())


# ---- Strips


def strip(number):
    bands = tuple(
        Band(100 + a, 100 + b, f"k{n}", f"band {number}{n}", (), f"hint {number}{n}")
        for n, (a, b) in enumerate([(0, 32), (32, 128), (160, 256)])
    )
    return Strip(
        f"strip {number}", 100, 356, bands, (), "subtitle", (f"first {number}", f"last {number}"),
        ticks=((100, "100"), (228, "228"), (356, "356")), names=((164, "warp 0"), (292, "warp 1")),
    )  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 3])
def test_bands_of_strips_are_as_long_as_what_they_stand_for(count):
    picture = Picture(
        "Buffers",
        ("one", "two"),
        LONG,
        strips=tuple(map(strip, range(count))),
        colours=("a colour", "another one"),
        outlined="outlined",
        notes=("a note",),
    )
    drawn = Drawn(strips_svg(picture, ""))
    drawn.check()
    wholes = drawn.rects["g e"]
    assert len(wholes) == count
    assert len({(box[1], box[3], round(box[2] - box[0], 3)) for box in wholes}) == 1
    for number, whole in enumerate(wholes):
        left, top, right, bottom = whole
        scale = (bottom - top) / 256
        title = drawn.text(f"strip {number}")
        assert middle(title)[0] == middle(whole)[0]
        assert drawn.text(f"first {number}")[0] == left
        assert drawn.text(f"last {number}")[2] == pytest.approx(right)
        for name in ("first", "last"):
            assert title[3] <= drawn.text(f"{name} {number}")[1]
            assert drawn.text(f"{name} {number}")[3] <= top
        for n, (begin, end) in enumerate([(0, 32), (32, 128), (160, 256)]):
            box = drawn.cells[f"hint {number}{n}"]
            assert box == pytest.approx((left, top + begin * scale, right, top + end * scale), abs=0.01)
            label = drawn.text(f"band {number}{n}")
            assert middle(label)[0] == pytest.approx(middle(box)[0])
            assert abs(middle(label)[1] - middle(box)[1]) < 3
            assert inside(label, box)
    left, top, _, bottom = wholes[0]
    for at, said in ((100, "100"), (228, "228"), (356, "356"), (164, "warp 0"), (292, "warp 1")):  # beside the first strip alone
        box = drawn.text(said)
        assert box[2] < left
        assert abs(middle(box)[1] - (top + (at - 100) * (bottom - top) / 256)) < 2
    assert drawn.text("warp 0")[2] <= min(drawn.text(tick)[0] for tick in ("100", "228", "356"))
    assert drawn.text("subtitle")[2] < left
    assert drawn.text("subtitle")[3] < drawn.text("100")[1]
    swatches = [box for name, boxes in drawn.rects.items() if name in ("g k0", "g k1") for box in boxes if box[1] > bottom]
    assert len(swatches) == 2


# ---- Grids


def named(rows, grid):
    """Rows of four cells, whose hints have the number of their grid."""
    return tuple(
        Row(
            r,
            f"{grid} row {r}",
            tuple(Cell(f"{grid}{r}{c}", "k1", hint=f"{grid}:{r},{c}", address=1000 * grid + 64 * r + 16 * c) for c in range(4)),
            f"after {grid}",
        )
        for r in rows
    )


def grids(*outlines, strides=()):
    """The tile, and the memory, of which the rows from 2 to 8 are left out."""
    heads = tuple((f"h{c}", f"of {c}") for c in range(4)), tuple((f"d{c}", f"at {c}") for c in range(4))
    first = Grid("the tile", heads[0], named((0, 1), 1), corner="line", outlines=outlines, note="a note")
    rows = *named((0, 1), 2), Gap("7 rows alike"), *named((9, 10), 2)
    second = Grid("the memory", heads[1], rows, corner="address", after=("is", "next"), outlines=outlines)
    return Picture("A title", ("about it",), LONG, (first, second), colours=("one", "two"), strides=strides)


def cells_of(drawn, grid):
    return {tuple(map(int, name[2:].split(","))): box for name, box in drawn.cells.items() if name.startswith(f"{grid}:")}


@pytest.mark.parametrize("strides", [(), (Stride("SBO", 64, 2000, 2064, True),)])
def test_grids_beside_each_other_do_not_meet(strides):
    drawn = Drawn(grids_svg(grids(strides=strides), ""))
    for box in itertools.chain(*drawn.texts.values(), *drawn.rects.values()):
        assert inside(box, drawn.whole)
    tile, memory = cells_of(drawn, 1), cells_of(drawn, 2)
    lattice(tile)
    lattice(memory)
    assert around(tile.values())[2] < around(memory.values())[0]
    gap = drawn.text("⋮ 7 rows alike")
    assert memory[1, 0][3] <= gap[1] < gap[3] <= memory[9, 0][1]
    assert gap[0] == memory[9, 0][0]
    for grid, cells in ((1, tile), (2, memory)):
        for (row, column), box in cells.items():
            label = drawn.text(f"{grid}{row}{column}")
            assert inside(label, box)
            assert middle(label)[0] == pytest.approx(middle(box)[0])
            assert abs(middle(label)[1] - middle(box)[1]) < 2
            if column in (0, 3):
                beside = (
                    drawn.texts[f"{grid} row {row}"][0]
                    if not column
                    else drawn.texts[f"after {grid}"][sorted({r for r, _ in cells}).index(row)]
                )
                assert abs(middle(beside)[1] - middle(box)[1]) < 2
                assert (beside[2] <= box[0]) if not column else (beside[0] >= box[2])
        for column in range(4):
            first, second = (drawn.text(f"{name}{column}") for name in (("h", "of ") if grid == 1 else ("d", "at ")))
            for box in (first, second):
                assert middle(box)[0] == pytest.approx(middle(cells[0, column])[0])
            assert first[3] <= second[1] + 1
            assert second[3] <= cells[0, 0][1]
        title, corner = (drawn.text(("the tile", "the memory")[grid - 1]), drawn.text(("line", "address")[grid - 1]))
        assert title[0] == cells[0, 0][0]
        assert title[3] <= drawn.text("h0")[1]
        assert corner[2] <= cells[0, 0][0]
        assert corner[3] <= cells[0, 0][1]
        assert drawn.text("about it")[3] <= title[1]
    assert drawn.text("2 row 9")[0] > around(tile.values())[2]
    assert drawn.text("a note")[2] == pytest.approx(tile[0, 3][2])
    assert drawn.text("a note")[3] <= drawn.text("h0")[1] + 1
    for n, said in enumerate(("is", "next")):
        assert drawn.text(said)[0] == drawn.texts["after 2"][0][0]
        assert drawn.text(said)[3] <= memory[0, 0][1]
        assert abs(middle(drawn.text(said))[1] - middle(drawn.text(("d0", "at 0")[n]))[1]) < 2
    assert min(box[1] for said, [box, *_] in drawn.texts.items() if said.startswith("a sentence")) > around(memory.values())[3]


@pytest.mark.parametrize(("kind", "least"), [("mma", 2.5), ("mma one", 4.5), ("atom", 0)])
def test_outlines_of_grids_go_around_the_rows_that_are_shown(kind, least):
    """An outline over rows that are left out is one for each run of rows. Its label is there once, above the first row."""
    drawn = Drawn(grids_svg(grids(Outline(kind, 0, 10, 1, 3, "read"), Outline(kind, 1, 2, 0, 1, "lower")), ""))
    tile, memory = cells_of(drawn, 1), cells_of(drawn, 2)
    regions = [
        around(cells[place] for place in ((rows[0], 1), (rows[-1], 2)))
        for cells, rows in ((tile, (0, 1)), (memory, (0, 1)), (memory, (9,)))
    ]
    lower = [cells[1, 0] for cells in (tile, memory)]
    found = drawn.rects[kind]
    assert len(found) == 5
    assert all(any(inside(box, region) and inset(box, region) == pytest.approx(least) for region in (*regions, *lower)) for box in found)
    labels = drawn.texts["read"]
    assert len(labels) == 2
    for label, region in zip(labels, regions, strict=False):
        assert middle(label)[0] == pytest.approx(middle(region)[0])
        assert label[3] <= region[1]
    assert "lower" not in drawn.texts


def test_the_line_around_chosen_cells_is_their_edge():
    chosen = {(0, 0), (0, 1), (1, 1), (2, 3)}
    rows = tuple(
        Row(
            r,
            f"row {r}",
            tuple(Cell(f"{r}{c}", "k1", frozenset({Mark.CHOSEN} if (r, c) in chosen else ()), hint=f"{r},{c}") for c in range(4)),
        )
        for r in range(3)
    )
    text = grids_svg(Picture("", ("",), "", (Grid("", (("",),) * 4, rows),)), "")
    cells = of_numbers(Drawn(text))
    edges = set()
    for x, y, way, to in re.findall(r"M([\d.]+) ([\d.]+)([VH])([\d.]+)", re.search(r'<path class="mma" d="([^"]*)"', text)[1]):
        a, b = (float(x), float(y)), (float(x), float(to)) if way == "V" else (float(to), float(y))
        edges.add((min(a, b), max(a, b)))
    wanted = set()
    for r, c in chosen:
        x0, y0, x1, y1 = cells[r, c]
        left, right, up, down = ((r, c - 1) in chosen, (r, c + 1) in chosen, (r - 1, c) in chosen, (r + 1, c) in chosen)
        x0, x1, y0, y1 = x0 + 2.5 * (not left), x1 - 2.5 * (not right), y0 + 2.5 * (not up), y1 - 2.5 * (not down)
        sides = [(left, (x0, y0), (x0, y1)), (right, (x1, y0), (x1, y1)), (up, (x0, y0), (x1, y0)), (down, (x0, y1), (x1, y1))]
        wanted |= {(a, b) for joined, a, b in sides if not joined}
    assert edges == wanted


def test_strides_of_grids_lead_to_their_line():
    """Brackets next to the addresses, the shorter one inside, with their names below each other; a circle if the target is
    further right in its line. Strides in one line are above its cells.
    """
    strides = (Stride("LBO", 1024, 2000, 2000 + 64 * 10 + 32, True), Stride("SBO", 576, 2000, 2000 + 64 * 9, True))
    drawn = Drawn(grids_svg(grids(strides=strides), ""))
    memory, tile = cells_of(drawn, 2), cells_of(drawn, 1)
    ways = {}
    for stride, row in zip(strides, (10, 9), strict=True):
        [[(x, y), (x1, y1), (x2, y2), (x3, y3)]] = drawn.lines[stride.name]
        assert (y, y3) == pytest.approx((middle(memory[0, 0])[1], middle(memory[row, 0])[1]), abs=0.06)
        assert (y, x1, y2) == (y1, x2, y3)
        assert x1 < x == x3 <= drawn.text("2 row 0")[0]
        ways[stride.name] = x1
        name, size = drawn.text(stride.name), drawn.text(f"{stride.bytes} B")
        assert name[3] <= size[1] + 2
        assert name[2] == size[2] == pytest.approx(min(drawn.lines["LBO"][0][1][0], drawn.lines["SBO"][0][1][0]) - 6, abs=0.06)
        assert around(tile.values())[2] < name[0]
    assert ways["LBO"] < ways["SBO"]
    assert drawn.text("576 B")[3] <= drawn.text("LBO")[1]
    [circle] = [c for c in drawn.root.iter(f"{SVG}circle") if c.get("class") == "LBO"]
    assert inside(
        (float(circle.get("cx")) - 4, float(circle.get("cy")) - 4, float(circle.get("cx")) + 4, float(circle.get("cy")) + 4), memory[10, 2]
    )
    assert float(circle.get("cx")) < middle(memory[10, 2])[0]
    assert float(circle.get("cy")) < middle(memory[10, 2])[1]
    short = Drawn(
        grids_svg(
            grids(
                strides=(Stride("SBO", 32, 2000, 2032, True), Stride("LBO", 9000, 2000, 11000, True), Stride("no", 1, 2000, 2001, False))
            ),
            "",
        )
    )
    cells = cells_of(short, 2)
    [[(x, y), (x1, y1)]] = short.lines["SBO"]
    assert (x, x1) == pytest.approx((middle(cells[0, 0])[0], middle(cells[0, 2])[0]), abs=0.06)
    assert cells[0, 0][1] < y == y1 < middle(cells[0, 0])[1]
    assert "SBO 32 B stays in the line; LBO 9000 B leads to 0x2af8" in " ".join(short.texts)
    assert "no 1 B is not used by this operand" in " ".join(short.texts)
    assert "LBO" not in short.lines


@pytest.mark.parametrize(("end", "place"), [(32, (0, 2)), (64, (1, 0)), (112, (1, 3))])
def test_strides_lead_from_cell_to_cell_of_the_tile(end, place):
    drawn = Drawn(grids_svg(grids(strides=(Stride("SBO", end, 1000, 1000 + end, True), Stride("LBO", 64, 1016, 1080, True))), ""))
    tile = cells_of(drawn, 1)
    [[(x, y), (x1, y1)]] = drawn.lines["SBO"]
    assert (x - tile[0, 0][0], y - tile[0, 0][1]) == pytest.approx((x1 - tile[place][0], y1 - tile[place][1]), abs=0.11)
    assert tile[0, 0][0] < x < drawn.text("100")[0] + 2
    assert tile[0, 0][1] - 4 < y < middle(tile[0, 0])[1] - 4
    assert (y < tile[0, 0][1]) == (place[0] == 0)
    assert "LBO" not in drawn.lines  # it does not begin in the first cell


def marked(label, mark, **more):
    return Cell(label, more.pop("fill", "k1"), frozenset({mark} if mark else ()), hint=label, **more)


CELLS = (
    marked("AA", Mark.WRONG, below="not A"),
    marked("BB", Mark.WRONG),
    marked("CC", Mark.SHARED),
    marked("DD", Mark.MISSED),
    marked("EE", None, fill=OUTSIDE),
    marked("FF", None, fill=EMPTY),
    marked("GG", Mark.WRONG, below="a long second line"),
    marked("HH", Mark.CHOSEN, fill=STRAY, data={"address": "1"}),
    marked("II", None),
)
LEGEND = (
    Legend("wrong", "k1", Mark.WRONG), Legend("outside", OUTSIDE), Legend("missed", EMPTY, Mark.MISSED), Legend("chosen", EMPTY, Mark.CHOSEN),
    Legend("twice", "k2", Mark.SHARED, below="who"),
)  # fmt: skip


def of_marks():
    heads = tuple((f"{c}",) for c in range(len(CELLS)))
    grid = Grid("", heads, (Row(0, "row", CELLS),))
    return Picture("Marks", ("one", "two"), "evidence", (grid,), legend=LEGEND, alarm="2 wrong")


def test_marks_of_cells_are_inside_their_cells():
    cells, legend, picture = CELLS, LEGEND, of_marks()
    drawn = Drawn(grids_svg(picture, ""))
    drawn.check()
    high = {box[3] - box[1] for box in drawn.cells.values()}
    assert len(high) == 1
    for cell in cells:
        box, label = drawn.cells[cell.label], drawn.text(cell.label)
        assert inside(label, box)
        assert middle(label)[0] == pytest.approx(middle(box)[0])
        if cell.below:
            below = drawn.text(cell.below)
            assert inside(below, box)
            assert middle(below)[0] == pytest.approx(middle(box)[0])
            assert label[3] <= below[1] + 1.5
        else:
            assert abs(middle(label)[1] - middle(box)[1]) < 2
    hatched = {name: [x for line in drawn.lines.get(name, ()) for x in line] for name in ("h", "oh")}
    assert len(drawn.lines["h"]) == 4 + 2  # of cells, and of the legend
    assert len(drawn.lines["oh"]) == 1 + 1
    assert hatched["h"]
    [missed, of_legend] = drawn.rects["miss"]
    [chosen] = drawn.rects["mma"]  # of the legend
    assert chosen[2] < drawn.text("chosen")[0] < chosen[2] + 10
    assert inset(missed, drawn.cells["DD"]) == 2.5
    swatches = [box for name, boxes in drawn.rects.items() if name.startswith("g ") for box in boxes if box[1] > drawn.cells["AA"][3]]
    assert len(swatches) == len(legend)
    assert sum(0 < inset_of(of_legend, box) <= 2 for box in swatches) == 1
    for entry in legend:
        said = drawn.text(f"{entry.says}: {entry.below}" if entry.below else entry.says)
        nearest = min(swatches, key=lambda box: abs(box[2] - said[0]) + abs(middle(box)[1] - middle(said)[1]))
        assert 2 <= said[0] - nearest[2] <= 8
        assert abs(middle(said)[1] - middle(nearest)[1]) < 3


def inset_of(box, other):
    return box[0] - other[0] if inside(box, other) else -1


@pytest.mark.parametrize("size", [(58, 21), (21, 58), (15, 15), (64, 32)])
def test_a_cell_is_hatched_from_edge_to_edge(size):
    wide, high = size
    text = hatch(10, 20, wide, high)
    lines = [[tuple(map(float, p.split())) for p in part.split("L")] for part in re.search(r'd="M([^"]*)"', text)[1].split("M")]
    for (x0, y0), (x1, y1) in lines:
        assert y0 == 20 or x0 == 10 + wide  # from the upper or the right edge
        assert x1 == 10 or y1 == 20 + high  # to the left or the lower one
        assert x0 - x1 == pytest.approx(y1 - y0)  # diagonal
        assert 10 <= x1 <= x0 <= 10 + wide
        assert 20 <= y0 <= y1 <= 20 + high
    at = [x0 + y0 for (x0, y0), _ in lines]
    apart = {b - a for a, b in itertools.pairwise([30, *at])}
    assert len(apart) == 1
    assert 30 + wide + high - at[-1] <= apart.pop()  # none is missing


@pytest.mark.parametrize(
    "points", [[(0, 0), (30, 0)], [(0, 0), (0, 30)], [(5, 40), (5, 10)], [(9, 9), (9, 20), (39, 60)], [(7, 7), (7, 7)]]
)
def test_the_head_of_an_arrow_is_at_its_end(points):
    text = arrow(points, "SBO")
    line, head = ([tuple(map(float, p.split())) for p in part.split("L")] for part in re.search(r'd="M([^"]*)"', text)[1].split("M"))
    assert line == [tuple(map(float, p)) for p in points]
    left, tip, right = head
    assert tip == points[-1]
    (x0, y0), (x1, y1) = points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    sides = [((x - x1) ** 2 + (y - y1) ** 2) ** 0.5 for x, y in (left, right)]
    assert sides[0] == pytest.approx(sides[1], abs=0.1)
    if length:
        along = [((x - x1) * (x1 - x0) + (y - y1) * (y1 - y0)) / length for x, y in (left, right)]
        assert along == pytest.approx([-8, -8], abs=0.1)  # behind the tip
        assert sides[0] == pytest.approx((8**2 + 4.5**2) ** 0.5, abs=0.1)
        across = [((x - x1) * (y1 - y0) - (y - y1) * (x1 - x0)) / length for x, y in (left, right)]
        assert across[0] == pytest.approx(-across[1], abs=0.1)
    assert f'cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}"' in text
    assert 'class="SBOt"' in text
    assert 'class="dot"' in arrow(points, "SBO", "dot")


@pytest.mark.parametrize(
    ("title", "subtitle"), [("A title of many words " * 5, "short"), ("short", "a subtitle of many words " * 4), ("short", "short")]
)
def test_head_and_legend_fit_into_the_picture(title, subtitle):
    """The head makes a picture wider. The legend goes on in the next line."""
    legend = tuple(Legend(f"entry {n} of the legend", f"k{n % 8}") for n in range(12))
    grid = Grid("", (("a head that is long",),), (Row(0, "row", (Cell("a long label of a cell", "k1", hint="0,0"),)), Row(1, "row", ())))
    drawn = Drawn(grids_svg(Picture(title, (subtitle,), "evidence", (grid,), legend=legend, alarm="an alarm of some words"), ""))
    drawn.check()
    [cell] = of_numbers(drawn).values()
    assert inside(drawn.text("a long label of a cell"), cell, 2)
    assert inside(drawn.text("a head that is long"), (cell[0], 0, cell[2], cell[1]))
    places = [drawn.text(entry.says) for entry in legend]
    assert all(a[1] < b[1] or a[2] < b[0] for a, b in itertools.pairwise(places))
    for a, b in itertools.pairwise(places):
        assert a[1] == b[1] or (a[3] < b[1] and b[0] == places[0][0])
        assert a[1] == b[1] or a[2] + (b[2] - b[0]) + 34 + 18 > drawn.whole[2]  # not before the line is full


@pytest.mark.parametrize("long", [(1, 1), (60, 8), (8, 60), (60, 60)])
@pytest.mark.parametrize("strides", [(), (Stride("SBO", 64, 2000, 2064, True),)])
def test_titles_of_grids_have_room(long, strides):
    """However few columns the grids have."""
    two = grids(strides=strides)
    titled = [
        dataclasses.replace(grid, title=f"{n}" * most, after=(), note="")
        for n, (grid, most) in enumerate(zip(two.grids, long, strict=True))
    ]
    for shown in (titled, titled[1:]):
        drawn = Drawn(grids_svg(dataclasses.replace(two, grids=tuple(shown)), ""))
        texts = [box for said in drawn.texts for box in drawn.texts[said] if set(said) in ({"0"}, {"1"})]
        assert len(texts) >= len(shown)
        assert all(inside(box, drawn.whole, 1) for box in texts)
        assert not any(meet(a, b) for a, b in itertools.combinations(texts, 2))


def test_the_only_grid_has_room_for_its_strides():
    rows = tuple(Row(r, "", (Cell("", "k1", hint=f"{r},0", address=16 * r),)) for r in range(5))
    strides = (Stride("SBO", 16, 0, 16, True), Stride("LBO", 1048576, 0, 64, True))
    bare, drawn = (Drawn(grids_svg(Picture("", ("",), "", (Grid("", (("",),), rows),), strides=of), "")) for of in ((), strides))
    drawn.check()
    assert drawn.text("1048576 B")[0] > 15
    assert of_numbers(drawn)[0, 0][0] - of_numbers(bare)[0, 0][0] == 84


PICTURES = {
    "boxes": lambda: boxes_svg(boxes(3, 3, outlines=(Outline("mma", 0, 1, 0, 2, "read"),), strides=tuple(Stride("SBO", n, 0, 16 * n, True) for n in (1, 3, 8))), ""),
    "strips": lambda: strips_svg(Picture("Buffers", ("one", "two"), LONG, strips=(strip(0), strip(1)), colours=("one",)), ""),
    "strides": lambda: grids_svg(grids(Outline("mma", 0, 2, 1, 3, "read"), strides=(Stride("SBO", 576, 2000, 2576, True), Stride("LBO", 672, 2000, 2672, True))), ""),
    "marks": lambda: grids_svg(of_marks(), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_change_only_where_somebody_looks_at_them(name, snapshot):
    """Distances of a pixel or two are in no law: after a change of this snapshot look at the picture."""
    assert PICTURES[name]() == snapshot


# ---- In a terminal


@pytest.mark.parametrize("fill", [*(f"k{n}" for n in range(8)), EMPTY, STRAY, OUTSIDE])
def test_a_cell_has_the_colour_of_its_fill_in_a_terminal_too(fill):
    """Its own pastel with dark text. What is empty or outside has none of these, and what is wrong is red."""
    cells = tuple(Cell(f"c{n}", fill, frozenset(marks)) for n, marks in enumerate(((), (Mark.WRONG,), (Mark.SHARED,), (Mark.CHOSEN,))))
    *_, text = picture_text(Picture("", (), "", (Grid("", (("",),) * 4, (Row(0, "", cells),)),))).renderables
    styles = {text.plain[span.start : span.end].strip(): str(span.style) for span in text.spans if "c" in text.plain[span.start : span.end]}
    usual, wrong, shared, chosen = (styles[label] for label in ("c0", "!c1", "&c2", "[c3]"))
    assert usual == chosen
    wanted = {EMPTY: "dim", OUTSIDE: "bright_black on #f0f0f0", STRAY: f"black on {COLOURS[7]}"}
    assert usual == wanted.get(fill, f"black on {COLOURS[int(fill[1:] or 0)]}" if fill[1:] else "")
    assert wrong == shared == ("dim" if fill == EMPTY else "bold white on #a40e26")


def test_styles_of_a_message_go_around_its_words_alone():
    lines = [[("X008", "red"), ("  ", "red"), ("plain ", ""), ("", "bold")], [("dim", "dim")]]
    assert coloured(lines) == "\x1b[31mX008\x1b[0m  plain \n\x1b[2mdim\x1b[0m"
    assert plain(lines) == "X008  plain\ndim"


@pytest.mark.parametrize("room", range(-3, 40))
def test_what_is_on_the_right_is_in_the_last_line_or_below(room):
    """At the right edge of the last line if two columns are free before it, else of a line of its own, else wrapped."""
    right, said = "PTX ISA 9.1 §8", "nothing orders the two of them"
    width = 14 + len(right) + room  # a label takes 14 columns
    whole = plain(message_lines([("X008", "")], "what", [Labelled("why", said, right)], width)).split("\n")
    words = " ".join(" ".join(whole[1:]).split())
    assert words == f"why {said} {right}"
    of_text = plain(message_lines([("X008", "")], "what", [Labelled("why", said)], width)).split("\n")
    if len(of_text[-1]) + 2 + len(right) <= width:
        assert whole == [*of_text[:-1], of_text[-1] + right.rjust(width - len(of_text[-1]))]
    elif room >= 0:
        assert whole == [*of_text, right.rjust(width)]
    else:
        assert whole[: len(of_text)] == of_text
        assert all(line.startswith(" " * 14) for line in whole[len(of_text) :])
        assert max(map(len, whole)) <= width


@pytest.mark.parametrize("before", [0, 9])
def test_a_head_leaves_room_for_what_is_before_it(before):
    what = "two warps touch the same bytes of shared memory, and nothing orders these accesses"
    lines = plain(message_lines([("X008  ", "")], what, [Labelled("", "told")], 40, before)).split("\n")
    assert len(lines[0]) <= 40 - before < len(lines[0]) + 1 + len(lines[1].split()[0])
    assert all(line.startswith("      ") and len(line) <= 40 for line in lines[1:])
    assert " ".join(" ".join(lines[:-1]).split()) == f"X008 {what}"
    assert plain(message_lines([("X008", "")], "w", [Labelled("why", "", "")], 40)) == "X008w\n      why"


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("no_colour", [None, "", "1"])
@pytest.mark.parametrize("kind", [None, "xterm", "dumb"])
def test_colours_are_for_terminals_that_want_them(is_terminal, no_colour, kind, monkeypatch):
    class Stream(io.StringIO):
        def isatty(self):
            return is_terminal

    for name, value in (("NO_COLOR", no_colour), ("TERM", kind)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert wants_colour(Stream()) == (is_terminal and no_colour != "1" and kind != "dumb")
