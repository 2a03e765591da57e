"""Pictures of operands: every element stands where `operand_addresses` says, wrong ones are marked, and the page does
in a browser what it says.
"""

import functools
import html
import itertools
import json
import re
import runpy
import shutil
import tomllib
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from drawn import Drawn, inside, meet
from kernels import changed, kernel, word_with
from places import ROOT, TESTS
from smemsim import InputError, TilePicture, check, operand_addresses, show_html, tile_svg
from smemsim.cli import main
from smemsim.core.layout.swizzle import guide_chunk
from smemsim.core.picture.text import picture_text, stdout
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.tile import LeftOut, buffer_strips, shown_columns, shown_lines, shown_rows
from smemsim.show import atoms_svg, pattern_svg
from strategies import CLASSIC, examples, reads

SVG = "{http://www.w3.org/2000/svg}"
WORD = "step.1.a.word"


def three_stages(title="three stages", names=("A", "B"), sbo=512):
    """128 x 128 x 64 in three stages; B of the second stage is read with the wrong SBO."""
    words = [kernel("sm_90a", "bf16", "K", "128B", 128, 64)["step"][1]["a"]["word"]]
    words.append(word_with("sm_90a", stride_byte_offset=sbo)(words[0]))
    steps, tensors, buffers, maps = [], {}, {}, {}
    for number, name in enumerate(names):
        tensors[name] = {"dtype": "bf16", "extent": {"mn": 128, "k": 512}, "stride": {"mn": 1024, "k": 2}}
        buffers[f"s{name}"] = {"address": 0x400 + number * 0xC000, "bytes": 0xC000, "stages": 3, "stage_bytes": 0x4000}
        maps[f"t{name}"] = {"of": name, "data_type": "BFLOAT16", "global_address": name, "global_dim": [512, 128], "global_strides": [1024],
                            "box_dim": [64, 128], "swizzle": "128B"}  # fmt: skip
        steps += [{"op": "tma_load", "map": f"t{name}", "to": f"s{name}", "stage": s, "at": [64 * s, 0]} for s in range(3)]
    for s in range(3):
        sides = {}
        for side, name, rows, adds in (("a", names[0], 64, [0, 8192]), ("b", names[1], 128, [0])):
            sides[side] = {"dtype": "bf16", "major": "K", "rows": rows, "word": words[side == "b" and s == 1], "start": f"s{name}", "stage": s,
                           "k_add": [0, 32, 64, 96], "mn_add": adds, "meant": {"tensor": name, "axes": ["mn", "k"], "at": [0, 64 * s]}}  # fmt: skip
        steps.append({"op": "mma", "kind": "wgmma", "m": 64, "n": 128, "k": 16, **sides})
    return {"arch": "sm_90a", "title": title, "tensor": tensors, "buffer": buffers, "map": maps, "step": steps}


@functools.cache
def checked():
    return check(three_stages())


def faulty(**fields):
    """A clean kernel of 64 x 64 bf16, and its descriptor with other fields."""
    return changed(kernel("sm_90a", "bf16", "K", "128B", 64, 64), WORD, word_with("sm_90a", **fields))


def tiles(scenario):
    report = check(scenario)
    return report, [TilePicture.of_seen(report.machine, seen) for seen in report.machine.seen]


def drawn(picture):
    """{address: the chunks' first elements} of the cells of shared memory in an SVG."""
    root = ET.fromstring(picture)
    cells = [g for g in root.iter(f"{SVG}g") if g.get("data-address")]
    return {int(g.get("data-address")): [tuple(map(int, p.split(","))) for p in g.get("data-readers").split()] for g in cells}


def spoken(scenario_or_word, *options):
    return CliRunner().invoke(main, ["show", str(scenario_or_word), *options], prog_name="smemsim")


# ---- the picture


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_every_element_is_drawn_where_the_instruction_reads_it(arch):
    modes = (*CLASSIC, Swizzle.B128_ATOM_32B) if arch == "sm_100a" else CLASSIC

    @examples(25)
    @given(reads(arch=arch, swizzles=modes, extent=24))
    def law(read):
        word, operand = read
        tile = TilePicture.of(word, arch=arch, **operand)
        addresses = operand_addresses(word, arch=arch, **operand).astype(int)
        by_chunk = {}
        for (row, k), address in np.ndenumerate(addresses):
            along = k if operand["major"] == "K" else row
            if along % tile.per_chunk == 0:
                by_chunk.setdefault(int(address), []).append((row, k))
        pictured = drawn(tile_svg(tile, most=1 << 20))
        assert {at: sorted(held) for at, held in pictured.items()} == {at: sorted(held) for at, held in by_chunk.items()}
        assert {cell.address: sorted(tile.first(p) for p in cell.readers) for cell in tile.cells.values()} == {
            at: sorted(x) for at, x in by_chunk.items()
        }
        data = tile.data()
        for i, base in enumerate(data["address"]):
            place = divmod(i, data["columns"])
            for element in range(data.get("partial", {}).get(i, len(data["offsets"]))):
                assert base + data["offsets"][element] == addresses[tile.first(place, element)]

    law()


@examples(25)
@given(reads(arch="sm_90a", extent=40), st.integers(4, 64))
def test_what_is_left_out_is_said(read, most):
    word, operand = read
    tile = TilePicture.of(word, arch="sm_90a", **operand)
    lines = shown_lines(tile, most)
    shown = [line for line in lines if isinstance(line, int)]
    assert 0 < len(shown) <= most
    assert len(shown) + sum(gap.count for gap in lines if isinstance(gap, LeftOut)) == len(tile.lines)
    assert tile.chunk_address((0, 0)) // 128 in shown
    cells = drawn(tile_svg(tile, most=most))
    assert {address // 128 for address in cells} == set(shown)
    rows = shown_rows(tile, lines, most)
    assert sum(r.count if isinstance(r, LeftOut) else 1 for r in rows) == tile.shape[0]
    assert len(shown_columns(tile)) <= tile.shape[1]


def test_bytes_of_steps_are_a_number_or_several_of_any_sequence():
    tiles = [
        TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=8, k=16, k_add=adds)  # type: ignore[arg-type]
        for adds in (list(range(0, 320, 32)), tuple(range(0, 320, 32)), np.arange(0, 320, 32))
    ]
    assert [tile.words.size for tile in tiles] == [10] * 3
    for wrong in ("32", None, [1.5], [[0, 32]]):
        with pytest.raises(InputError, match=r"k_add = .*: needs whole numbers"):
            TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=8, k=16, k_add=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_the_colours_show_the_permutation(swizzle):
    """Down a column of 16 bytes, the chunk column before swizzling is that of the XOR with the line."""
    mode = MODES[Swizzle(swizzle)]
    word = word_with("sm_90a", start_address=0x400, stride_byte_offset=8 * mode.width, swizzle=swizzle)(0)
    tile = TilePicture.of(word, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16, k_add=list(range(0, mode.width, 32)))
    for line, cells in tile.lines.items():
        for slot, cell in enumerate(cells):
            assert cell.home[1] == slot % mode.chunks ^ (line & mode.mask) % mode.chunks


@examples(20)
@given(reads(arch="sm_90a", extent=24, raw={"start_address": st.integers(0, 512)}), st.lists(st.integers(0, 64), min_size=2, max_size=4))
def test_a_k_step_is_the_descriptor_with_another_start(read, steps):
    word, operand = read
    tile = TilePicture.of(word, arch="sm_90a", k_add=[16 * s for s in steps], **operand)
    for number, step in enumerate(steps):
        alone = TilePicture.of(word + step, arch="sm_90a", **operand)
        mine = [p for p in tile.places() if tile.instruction(p) == (0, number)]
        assert sorted(map(tile.chunk_address, mine)) == sorted(map(alone.chunk_address, alone.places()))
        assert tile.start((0, number)) == alone.start((0, 0))


def test_strides_are_used_or_not():
    def used(word, **operand):
        return {s.name: s.used for s in TilePicture.of(word, arch="sm_90a", dtype="bf16", **operand).strides()}

    assert used(0x4000004000010040, major="K", rows=64, k=16) == {"SBO": True, "LBO": False}
    assert used(0x4000004000010040, major="K", rows=8, k=16) == {"SBO": False, "LBO": False}
    assert used(0x0000001000080040, major="K", rows=64, k=16) == {"SBO": True, "LBO": True}
    assert used(0x4000004002000040, major="MN", rows=128, k=16) == {"SBO": True, "LBO": True}
    assert used(0x4000004002000040, major="MN", rows=64, k=16) == {"SBO": True, "LBO": False}


@examples(25)
@given(reads(arch="sm_90a", extent=40))
def test_atoms_are_where_their_chunks_are(read):
    word, operand = read
    tile = TilePicture.of(word, arch="sm_90a", **operand)
    picture = ET.fromstring(atoms_svg(tile))
    atoms = [re.fullmatch(r"atom (\d+): (\w+) to (\w+)", t.text).groups() for t in picture.iter(f"{SVG}title")]
    ranges = {int(number): (int(first, 16), int(last, 16)) for number, first, last in atoms}
    assert [ranges[n][0] for n in sorted(ranges)] == sorted({first for first, _ in ranges.values()})
    assert all(last - first + 1 == tile.atom_lines * 128 for first, last in ranges.values())
    begins = any(first <= tile.chunk_address((0, 0)) <= last for first, last in ranges.values())
    assert begins
    if operand["major"] == "K":
        assert len(atoms) == -(-tile.shape[0] // 8) * -(-tile.shape[1] // tile.mode.chunks)


def test_a_tile_is_covered_along_the_rows_first():
    """The usual K-major 128B tile of 128 x 128: 16 x 2 atoms, and 16 instructions whose starts are told."""
    k_add = [panel + step for panel in (0, 16384) for step in (0, 32, 64, 96)]
    tile = TilePicture.of(0x4000404000010000, arch="sm_100a", dtype="bf16", major="K", rows=64, k=16, k_add=k_add, mn_add=[0, 8192])
    root = ET.fromstring(atoms_svg(tile))
    said = [t.text for t in root.iter(f"{SVG}text")]
    assert [t.text.split(":")[0] for t in root.iter(f"{SVG}title")] == [
        f"atom {16 * j + i}" for i in range(16) for j in (0, 0, 0, 0, 1, 1, 1, 1)
    ][::4]
    starts = [tile.start((block, step)) for block in (0, 1) for step in range(8)]
    assert [f"{start:+,}" if start else "start" for start in starts] == [t for t in said if t == "start" or t.startswith("+")]
    assert "SBO 1024 B" in said


def test_the_patterns_are_those_of_the_guides_table():
    """Against Table 11 of the CUDA guide, smem[y][x] <-> smem[y][((y + offset) % modulus) ^ x]."""
    root = ET.fromstring(pattern_svg())
    titles = [t.text for t in root.iter(f"{SVG}title")]
    for number, modulus in enumerate((1, 2, 4, 8)):
        for text in titles[64 * number : 64 * number + 64]:
            y, x, address = re.fullmatch(r"line (\d) *, chunk (\d) before swizzling: (\w+)", text).groups()
            assert int(address, 16) == 128 * int(y) + 16 * guide_chunk(int(y), int(x), 0, modulus)


def test_the_standard_figures(tmp_path, monkeypatch):
    path = ROOT / "tools" / "figures.py"
    monkeypatch.setattr("sys.argv", ["figures.py", str(tmp_path)])
    runpy.run_path(str(path), run_name="__main__")
    page = (tmp_path / "index.html").read_text()
    drawn_files = sorted(p.name for p in tmp_path.glob("*.svg"))
    assert len(drawn_files) > 15
    assert sorted(re.findall(r"src='([^']+)'", page)) == drawn_files
    for name in drawn_files:
        text = (tmp_path / name).read_text()
        assert ET.fromstring(text).tag == f"{SVG}svg"
        assert "prefers-color-scheme:dark" in text


# ---- what is wrong


FAULTS = {"half SBO": {"stride_byte_offset": 512}, "SBO in bytes": {"stride_byte_offset": 16384}, "as 64B": {"swizzle": "64B"}}


@pytest.mark.parametrize("fields", FAULTS.values(), ids=FAULTS)
def test_the_marks_are_the_finding(fields):
    report, [tile] = tiles(faulty(**fields))
    [finding] = report.findings
    data = tile.data()
    masks = [int(str(mask), 16) for mask in data["wrong"]]
    assert sum(mask.bit_count() for mask in masks) == finding.wrong
    assert [[bool(mask >> i & 1) for i in range(tile.per_chunk)] for mask in masks] == tile.held.wrong.reshape(len(masks), -1).tolist()
    first = tile.first_wrong
    assert tile.instruction(first) == (finding.first["block"], finding.first["step"])
    assert tile.held.text(tile.held.meant_at(first)) == finding.first["meant"]
    assert tile.held.text(tile.held.got_at(first)) == finding.first["read"]
    assert tile.chunk_address(first) == finding.first["address"]
    picture = tile_svg(tile, most=1 << 20)
    assert picture.count("≠") - 1 == sum(bool(cell.wrong) for cell in tile.cells.values())
    meant = {c.address for c in tile.cells.values() if not c.readers}
    assert meant == {int(a) for p, a in np.ndenumerate(tile.held.lies) if a >= 0} - set(tile.address[..., 0].ravel().tolist())


def test_a_clean_operand_has_no_marks():
    report, [tile] = tiles(kernel("sm_90a", "bf16", "MN", "64B", 64, 64))
    assert not report.findings
    assert tile.first_wrong is None
    assert "≠" not in tile_svg(tile)
    assert set(tile.data()["got"]) == {1}
    assert tile.held.lies.tolist() == tile.address[..., 0].tolist()


def test_names_of_what_was_read():
    """The page's compact lists say of every element what the arrays say: data as meant, other data, what no step wrote,
    fill.
    """
    scenario = faulty(stride_byte_offset=512)
    scenario["step"][0]["at"] = [[0, 8]]
    scenario["tensor"]["X"]["extent"]["m"] = 40
    scenario["map"]["tm"]["global_dim"][1] = 40
    report, [tile] = tiles(scenario)
    data, names = tile.data(), list(report.machine.tensors)
    kinds = set()
    for i, got in enumerate(data["got"]):
        place = divmod(i, data["columns"])
        for element in range(tile.per_chunk):
            named = tile.held.got_at(place, element)
            if got == 1:
                assert named == tile.held.meant_at(place, element)
            elif isinstance(got, int):
                assert named == got
            else:
                assert named == (names[got[0]], tuple(x + element * (j == got[1]) for j, x in enumerate(got[2:])))
                assert report.machine.tensors["X"].named(int(tile.held.got[place][element])) == tile.held.text(named)
            kinds.add(got if isinstance(got, int) else "other")
    assert kinds >= {1, -2, "other"}


def test_elements_of_four_bits_that_share_a_byte_are_named_each():
    scenario = kernel("sm_100a", "e4m3", "K", "128B", 128, 128)
    scenario["tensor"]["X"] |= {"dtype": "e2m1", "extent": {"m": 131, "k": 256}}
    scenario["map"]["tm"] |= {"data_type": "16U4_ALIGN8B", "global_dim": [256, 131], "box_dim": [256, 128]}
    scenario["step"][1] |= {"kind": "mxf4", "k": 64}
    scenario["step"][1]["a"]["dtype"] = "e2m1"
    assert check(scenario).codes == ()
    scenario["step"][1]["a"]["k_add"] = [0] * 4
    report, [tile] = tiles(scenario)
    assert report.codes == ("R502",)
    for row, column, element in itertools.product((0, 77), range(8), range(32)):
        k = 32 * column + element
        assert tile.held.got_at((row, column), element) == ("X", (row, k % 64))
        assert tile.held.meant_at((row, column), element) == ("X", (row, k))


def test_a_tensor_may_begin_at_the_address_0():
    """Its first element is data as all others are, also where it is read in the place of others."""
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64)
    scenario["step"][1]["a"]["k_add"] = [0] * 4
    elsewhere, [tile] = tiles(scenario)
    scenario["tensor"]["X"]["address"] = 0
    report, [other] = tiles(scenario)
    assert (report.text(), other.data(), tile_svg(other)) == (elsewhere.text(), tile.data(), tile_svg(tile))
    assert (int(other.held.got[0, 2, 0]), other.held.text(other.held.got_at((0, 2)))) == (0, "X[m=0, k=0]")


def test_buffers_say_what_filled_them():
    report = checked()
    strips = buffer_strips(report.machine)
    assert [len(strip.bands) for strip in strips] == [3, 3]
    for strip in strips:
        assert [band.end - band.begin for band in strip.bands] == [0x4000] * 3
        assert strip.bands[0].begin == strip.begin
        assert strip.bands[-1].end == strip.end


def test_a_page_without_operands_says_what_filled_the_buffers():
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64)
    del scenario["step"][1]
    report = check(scenario)
    assert report.tiles() == []
    assert "TMA load of tm at [0, 0] to 0x400 (step[0])" in report.html().partition("<h2 id=hb>Buffers</h2>")[2]


# ---- what people see


def test_a_small_picture(snapshot):
    tile = TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=8, k=16)
    assert tile_svg(tile, style="") == snapshot


def test_the_terminal(snapshot, tmp_path):
    path = tmp_path / "kernel.json"
    path.write_text(json.dumps(faulty(stride_byte_offset=512)))
    result = spoken(path, "--lines", "16")
    assert result.exit_code == 1
    assert result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert result.stdout == snapshot


@pytest.mark.parametrize("dtype", ["e4m3", "bf16", "tf32"])
def test_the_terminal_needs_no_colour(dtype):
    scenario = changed(kernel("sm_90a", dtype, "K", "128B", 64, 256), WORD, word_with("sm_90a", stride_byte_offset=2048))
    _, [tile] = tiles(scenario)
    text = spoken_of(tile, 1 << 20)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    pictured = [line for line in text.splitlines() if re.match(r" *0x[0-9a-f]+  ", line)]
    assert sum(line.count("!") for line in pictured) == sum(bool(c.wrong) for c in tile.cells.values())
    assert sum(line.count("(") for line in pictured) == sum(not c.readers for c in tile.cells.values())


@pytest.mark.parametrize("fields", [{}, *FAULTS.values()], ids=["right", *FAULTS])
def test_text_and_svg_say_the_same_of_every_cell(fields):
    _, [tile] = tiles(faulty(**fields) if fields else kernel("sm_90a", "bf16", "K", "128B", 64, 64))
    written = {}
    for line in spoken_of(tile, 1 << 20).splitlines():
        if row := re.fullmatch(r" *(0x[0-9a-f]+)  (.*)", line):
            labels = [cell.strip("[]()!") for cell in row[2].split()]
            written |= {int(row[1], 16) + 16 * slot: label for slot, label in enumerate(labels) if label != "·"}
    root = ET.fromstring(tile_svg(tile, most=1 << 20))
    pictured = {int(g.get("data-address")): g.find(f"{SVG}text").text for g in root.iter(f"{SVG}g")}
    missed = {cell.address for cell in tile.cells.values() if not cell.readers}
    assert len(pictured) == sum(bool(cell.readers) for cell in tile.cells.values()) > 200
    assert pictured == {address: label for address, label in written.items() if address not in missed}


OPERAND = ["--arch", "sm_90a", "--dtype", "bf16", "--major", "K", "--rows", "8", "--k", "16"]
ASKED = {
    "a word": (["0x4000004000010040", *OPERAND], 0, "each cell is 16 bytes"),
    "K steps": (["0x4000004000010040", *OPERAND, "--k-add", "0,32", "--k-step", "1"], 0, "K step 1 reads it"),
    "half an operand": (["0x4000004000010040", "--arch", "sm_90a"], 2, "missing: --dtype, --major, --rows, --k, as --arch sm_90a"),
    "no such step": (["0x4000004000010040", *OPERAND, "--k-step", "1"], 2, "has 1, from 0 to 0"),
    "no elements": (["0x4000004000010040", *OPERAND[:-1], "0"], 2, "no element to show"),
    "a page of a word": (["0x4000004000010040", *OPERAND, "--html", "x.html"], 2, "--html: of a scenario"),
    "two forms": (["0x4000004000010040", *OPERAND, "--svg", "--json"], 2, "exclude each other"),
    "no lines": (["0x4000004000010040", *OPERAND, "--lines", "0"], 2, "needs at least 1"),
    "unknown layout": (["0x6000000000000000", "--arch", "sm_100a", *OPERAND[2:]], 3, "not modelled"),
    "no file": (["nothing.toml"], 2, "nothing.toml"),
    "no word": (["zz"], 2, "not a 64-bit word"),
}


@pytest.mark.parametrize(("command", "code", "says"), ASKED.values(), ids=ASKED)
def test_the_command(command, code, says):
    result = CliRunner().invoke(main, ["show", *command], prog_name="smemsim")
    assert result.exit_code == code, result.output
    assert says in result.output
    assert "Traceback" not in result.output


def test_the_command_of_a_scenario(tmp_path):
    path, page = tmp_path / "kernel.json", tmp_path / "report.html"
    path.write_text(json.dumps(three_stages()))
    assert spoken(path, "--html", page).exit_code == 1
    assert "stride_byte_offset 512 must be 1024" in page.read_text()
    assert spoken(path, "--html", tmp_path / "no" / "folder.html").exit_code == 2
    everything = json.loads(spoken(path, "--json").stdout)
    assert [o["where"] for o in everything["operands"]] == [f"step[{n}].{side}" for n in (6, 7, 8) for side in "ab"]
    assert everything["findings"][0]["code"] == "D308"
    one = spoken(path, "--svg", "--operand", "step[7].b")
    assert one.exit_code == 1
    assert ET.fromstring(one.stdout).tag == f"{SVG}svg"
    assert "6 (step[6].a" in spoken(path, "--svg").output
    assert "the scenario shows step[6].a" in spoken(path, "--operand", "step[1].a").output
    assert [o["where"] for o in json.loads(spoken(path, "--json", "--stage", "2").stdout)["operands"]] == ["step[8].a", "step[8].b"]
    assert "they read 0, 1, 2" in spoken(path, "--stage", "7").output
    path.write_text(json.dumps(three_stages(sbo=1024)))
    assert spoken(path, "--stage", "0").exit_code == 0


def test_too_large_or_empty_is_said():
    with pytest.raises(InputError, match="at most"):
        TilePicture.of(0, arch="sm_90a", dtype="bf16", major="K", rows=256, k=16, k_add=list(range(0, 1 << 14, 16)))
    with pytest.raises(InputError, match="k_add"):
        TilePicture.of(0, arch="sm_90a", dtype="bf16", major="K", rows=8, k=16, k_add=[])


def test_a_scenario_too_large_to_draw_is_still_told():
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64)
    scenario["step"][1]["a"]["k_add"] = [0] * 1024
    scenario["step"][1]["a"]["meant"]["k_step"] = 0
    report, [tile] = tiles(scenario)
    assert "131,072 chunks" in tile.too_large
    with pytest.raises(InputError, match="at most 65,536"):
        tile_svg(tile)
    assert "at most 65,536" in spoken_of(tile, 24)
    assert "Without an interactive picture, which would make this page too large: step[1].a (mma)" in show_html(report)
    assert "<svg" not in report._repr_html_()


def spoken_of(tile, most):
    console = stdout()
    with console.capture() as said:
        console.print(picture_text(tile.picture(most), 11))
    return said.get()


def test_notebooks():
    report, [tile, *_] = tiles(three_stages(title="<b>&"))
    piece = report._repr_html_()
    assert "<script" not in piece
    assert "&lt;b&gt;&amp;" in piece
    first = report.findings[0]
    assert all(html.escape(text, quote=False) in piece for text in (first.what, first.repair, *(half.text for half in first.halves)))
    assert piece.count("<svg") == 1
    assert ET.fromstring(tile._repr_svg_()).tag == f"{SVG}svg"
    empty = check({"arch": "sm_90a"})
    assert empty.html() == show_html(empty)
    assert "No findings" in empty._repr_html_()


def test_blackwell_says_that_nothing_is_measured():
    scenario = kernel("sm_100a", "bf16", "K", "128B", 128, 64)
    _, [tile] = tiles(scenario)
    assert "nothing is measured on Blackwell" in tile_svg(tile)
    assert "or inferred; nothing is measured on Blackwell. You have a card? smemsim capture" in show_html(scenario)


ATOMS = [
    "show",
    "0x4000404002000040",
    "--arch",
    "sm_100a",
    "--dtype",
    "bf16",
    "--major",
    "MN",
    "--rows",
    "128",
    "--k",
    "16",
    "--k-add",
    "0,2048,4096,6144",
]


@pytest.mark.parametrize(("command", "code", "says"), [
    ([*ATOMS, "--atoms"], 0, "SBO 1024 B: 0x400 -> 0x800"),
    ([*ATOMS, "--atoms", "--svg"], 0, "+2,048"),
    (["show", "patterns"], 0, "0x380   7  6  5  4  3  2  1  0"),
    (["show", "patterns", "--svg"], 0, "<svg"),
    (["show", "patterns", "--arch", "sm_90a"], 2, "--arch: not of the patterns"),
    ([*ATOMS, "--atoms", "--json"], 2, "--json: not with --atoms"),
])  # fmt: skip
def test_atoms_and_patterns_are_drawn_by_the_command(command, code, says):
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, says in done.output) == (code, True), done.output


def test_names_of_strides_cover_no_number_of_an_atom():
    """A name stands above the boxes or right of them."""
    picture = ET.fromstring(CliRunner().invoke(main, [*ATOMS, "--atoms", "--svg"]).output)
    boxes = [rect for rect in picture.iter(f"{SVG}rect") if rect.get("class", "").startswith("g ")]
    right = max(float(rect.get("x")) + float(rect.get("width")) for rect in boxes)
    top = min(float(rect.get("y")) for rect in boxes)
    names = [text for text in picture.iter(f"{SVG}text") if text.get("class") in ("LBOd", "SBOd")]
    assert len(names) == 2
    assert all(float(text.get("y")) < top or float(text.get("x")) > right for text in names)


# ---- the page in a browser

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
HOSTILE = "</script><script>window.hurt=1</script><img src=x onerror=window.hurt=1>\"'&"


@pytest.fixture(scope="module")
def browser():
    chromium = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("no Chromium here (apt-get install chromium): the page is not opened")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(show_html(checked()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(browser):
    """Opens a file; nothing may be fetched, and nothing may complain."""
    contexts, complaints, fetched = [], [], []

    def go(path, **options):
        context = browser.new_context(viewport={"width": 1500, "height": 1000}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(path.as_uri())
        assert fetched.pop(0) == path.as_uri()
        return page

    def noise():
        said = [*complaints, *(url for url in fetched if not url.startswith("data:"))]
        complaints.clear()
        return said

    yield go, noise
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def shared_page(opened, report_file):
    return opened[0](report_file, color_scheme="light")


@pytest.fixture
def page(shared_page, opened):
    yield shared_page
    assert opened[1]() == []


def told(page):
    names, values = page.locator("#info dt").all_inner_texts(), page.locator("#info dd").all_inner_texts()
    return dict(zip(names, values, strict=True))


def outlined(page, grid="memory"):
    return page.evaluate(f"[...document.querySelectorAll('#{grid} .mine')].map((e) => +e.dataset.address)")


def step_addresses(report, where, block, step):
    seen = next(s for s in report.machine.seen if str(s.read.where) == where)
    return {int(a) // 16 * 16 for a in seen.addresses[block, step].ravel()}


def test_hovering_tells_the_element_its_address_and_its_data(page):
    report = checked()
    page.get_by_role("button", name="step[8].a (mma)").click()
    seen = next(s for s in report.machine.seen if str(s.read.where) == "step[8].a")
    for row, k in ((0, 0), (5, 21), (70, 63)):  # row 70 is row 6 of the second block
        address = int(seen.addresses[row // 64, k // 16, row % 64, k % 16])
        cell = page.locator(f'#memory [data-address="{address // 16 * 16}"]')
        width = cell.bounding_box()["width"]
        cell.hover(position={"x": width * (k % 8 + 0.5) / 8, "y": 8})
        info = told(page)
        assert info["element"] == f"row {row}, k {k} of the tile: A[mn={row}, k={128 + k}]"
        assert info["shared address"].startswith(
            f"{address:#x}: line {address // 128 * 128:#x}, chunk {address % 128 // 16}, byte {address % 16}"
        )
        assert info["bank"] == str(address // 4 % 32)
        assert info["read by"].startswith(
            f"row block {row // 64}, K step {k // 16}, descriptor {int(seen.read.words[row // 64, k // 16]):#018x}"
        )
        assert info["holds"] == f"A[mn={row}, k={128 + k}]"
        assert info["written by"].startswith("TMA load of tA at [128, 0]")
        assert info["written by"].endswith("(step[2])")


def test_a_finding_shows_its_first_wrong_element(page):
    report = checked()
    page.get_by_role("button", name="step[6].a (mma)").click()
    page.locator(".finding").click()
    info, first = told(page), report.findings[0].first
    assert page.locator("#title").inner_text().startswith("step[7].b (mma)")
    assert info["is there"] == first["read"]
    assert info["needed"] == first["meant"]
    assert info["shared address"].startswith(f"{first['address']:#x}:")
    lies = int(info["which is at"], 16)
    assert report.machine.tensors["B"].named(int(report.machine.memory.source(np.array(lies)))) == first["meant"]
    assert page.locator(".here").count() == 2
    assert page.locator("#memory .bad").count() == 8 * 64  # with half the SBO lines 4 to 67 are read for other rows


def test_k_steps_and_blocks_are_stepped_through(page):
    report = checked()
    page.get_by_role("button", name="step[6].a (mma)").click()
    assert set(outlined(page)) == step_addresses(report, "step[6].a", 0, 0)
    page.get_by_role("button", name="Next K step").click()
    assert set(outlined(page)) == step_addresses(report, "step[6].a", 0, 1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert set(outlined(page)) == step_addresses(report, "step[6].a", 1, 2)
    assert page.locator("#word").inner_text() == f"{int(report.machine.seen[0].read.words[1, 2]):#018x}"
    assert page.locator("#step").inner_text() == "K step 2 (0 to 3)"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("button", name="Next K step").is_disabled()


def test_keys_walk_over_the_elements(page):
    page.get_by_role("button", name="step[6].b (mma)").click()
    page.locator("#tile").focus()
    for key in [*["ArrowRight"] * 9, "ArrowDown"]:
        page.keyboard.press(key)
    assert told(page)["element"] == "row 1, k 9 of the tile: B[mn=1, k=9]"
    address = operand_addresses(0x4000004000010000 | 0xC400 >> 4, arch="sm_90a", dtype="bf16", major="K", rows=128, k=16)[1, 9]
    assert told(page)["shared address"].startswith(f"{address:#x}:")
    page.locator("#memory").focus()
    page.keyboard.press("ArrowUp")
    assert told(page)["shared address"].startswith(f"{address - 128:#x}:")


def test_light_dark_and_paper(page):
    def ground(page):
        still = "getComputedStyle(document.querySelector('.smem .bg')).fill"
        return page.evaluate(f"[getComputedStyle(document.body).backgroundColor, {still}]")

    light, night = ["rgb(255, 255, 255)"] * 2, ["rgb(13, 17, 23)"] * 2
    assert ground(page) == light
    page.emulate_media(color_scheme="dark")
    assert ground(page) == night
    page.get_by_role("button", name="Switch to light colours").click()
    assert ground(page) == light
    page.get_by_role("button", name="Switch to dark colours").click()
    page.emulate_media(color_scheme="light")
    assert ground(page) == night
    page.emulate_media(media="print")
    assert ground(page) == light
    assert page.locator(".finding").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".still.first svg").is_visible()
    assert page.locator(".still:not(.first) svg").first.is_hidden()
    assert page.locator("#memory").is_hidden()
    page.emulate_media(media="screen")
    assert page.locator("#memory").is_visible()


def test_without_scripts_findings_and_pictures_stay(opened, report_file):
    page = opened[0](report_file, java_script_enabled=False)
    assert "stride_byte_offset 512 must be 1024" in page.locator(".finding").inner_text()
    assert page.locator(".still.first svg").is_visible()
    assert page.locator("#memory").is_hidden()
    assert opened[1]() == []


def test_a_hostile_scenario_is_text(opened, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(show_html(three_stages(title=HOSTILE, names=(f"A{HOSTILE}", f"B{HOSTILE}"))), encoding="utf-8")
    page = opened[0](path)
    assert page.evaluate("window.hurt") is None
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.evaluate("document.scripts.length") == 2
    assert page.evaluate("document.images.length") == 0
    assert HOSTILE in told(page)["needed"]
    assert opened[1]() == []


def test_the_page_is_small(report_file):
    assert report_file.stat().st_size < 2_000_000
    page = show_html(kernel("sm_90a", "bf16", "K", "128B", 256, 1024, side="b"))
    assert len(page.encode()) < 2_000_000
    assert "Without an interactive picture" in page
    assert page.count('<div class="still') == 2  # the operand, and its atoms


def test_the_package_carries_the_pages_files():
    from importlib import resources

    for name in ("page.css", "page.js"):
        assert resources.files("smemsim.core.picture").joinpath(name).is_file()
    with open("pyproject.toml", "rb") as file:
        assert tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["sim/smemsim"]


# ---- whatever a command draws

BUGS = TESTS / "scenarios" / "bugs"
WORDS = {"K": "0x4000004000010040", "MN": "0x4000004000010000"}
PICTURES = [
    *(
        f"map {word} --arch {arch} --dtype {dtype} --major {major} --rows {rows} --k {k} --svg"
        for arch in ("sm_90a", "sm_100a")
        for major, word in WORDS.items()
        for dtype, k, rows in (("bf16", 16, 16), ("tf32", 8, 8), ("s8", 32, 64))
        if major == "K" or dtype == "bf16"
    ),
    *(f"map {word} --kind {kind} --svg" for word, kind in (("0x04200490", "f16"), ("0x08200490", "f16"))),
    "map 0x08200490 --kind f16 --cta-group 2 --svg",
    *(f"map {layout} --dtype {dtype} --svg" for layout in ("(8,64):(64,1)", "Sw<3,4,3>o0o(8,64):(64,1)", "((8,4),(64,2)):((64,1024),(1,512))", "8:1") for dtype in ("bf16", "u8", "f32")),
    *(f"show {BUGS / name}.toml --svg --lines 6" for name in ("B13-box-wider-than-swizzle", "B19-stride-24", "B27-code-3-is-32B", "B29-roles-swapped-without-swizzle")),
    *(f"show {BUGS}/B12-both-operands-off-phase.toml --operand step[2].{side} --svg" for side in "ab"),
]  # fmt: skip


@pytest.mark.parametrize("command", PICTURES, ids=lambda command: command.replace(str(BUGS), ""))
def test_everything_in_a_picture_is_inside_of_it_and_no_text_covers_another(command):
    done = CliRunner().invoke(main, command.split(), prog_name="smemsim")
    assert done.exit_code in (0, 1), done.output
    drawn = Drawn(done.stdout)
    for said, boxes in (*drawn.texts.items(), *drawn.rects.items()):
        assert all(inside(box, drawn.whole) for box in boxes), said
    texts = sorted((box, said) for said, boxes in drawn.texts.items() for box in boxes)
    for n, (box, said) in enumerate(texts):
        beside = itertools.takewhile(lambda one, right=box[2]: one[0][0] < right, texts[n + 1 :])
        assert [what for other, what in beside if meet(box, other)] == [], said
