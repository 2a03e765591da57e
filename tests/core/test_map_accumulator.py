"""`smemsim map WORD --kind …`: where D lies in tensor memory, and the way from a register to its element."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from smemsim import AccumulatorLayout, InstrDescriptor
from smemsim.cli import main
from smemsim.show import AccumulatorMap

FORMS = [(64, 1, False), (128, 1, False), (128, 2, False), (256, 2, False), (64, 1, True), (32, 1, True)]


def run(text):
    return CliRunner().invoke(main, ["map", *text.split()])


@pytest.mark.parametrize(("m", "cta_group", "ws"), FORMS)
def test_the_runs_are_the_whole_of_d_and_nothing_twice(m, cta_group, ws):
    picture = AccumulatorMap.of(InstrDescriptor(kind="f16", m=m, n=128), cta_group=cta_group, ws=ws)
    covered = [(run.m + i, run.n + column) for run in picture.runs() for i in range(run.lanes) for column in range(picture.layout.columns)]
    assert sorted(covered) == [(row, n) for row in range(m) for n in range(128)]
    for run_ in picture.runs():
        assert picture.layout.element(run_.cta, run_.lane + run_.lanes - 1, 5) == (run_.m + run_.lanes - 1, run_.n + 5)
        assert run_.lane // 32 == (run_.lane + run_.lanes - 1) // 32  # a run lies in one warp's window
    svg = CliRunner().invoke(
        main, ["map", hex(picture.instr.word), "--kind", "f16", f"--cta-group={cta_group}", *(["--ws"] if ws else []), "--svg"]
    )
    root = ElementTree.fromstring(svg.stdout)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(t.startswith("m ") for t in texts) == len(picture.runs())
    assert "not measured" in " ".join(texts)


def test_people_see_layout_lanes_and_grade(snapshot):
    assert run("0x08200490 --kind f16 --cta-group 2").output == snapshot


def test_an_element_its_cell_and_its_register_name_one_another():
    by_element = json.loads(run("0x04200490 --kind f16 --element 20,3 --json").stdout)
    assert by_element["element"] == {"m": 20, "n": 3, "cta": 0, "lane": 36, "column": 3, "taddr": "0x00240003"}
    assert (by_element["of"]["layout"], by_element["of"]["grade"], by_element["of"]["d_type"]) == ("F", "compiled", "f32")
    assert json.loads(run("0x04200490 --kind f16 --cell 36,3 --json").stdout) == by_element
    assert len(by_element["loads"]) == 4
    for r in by_element["loads"]:
        assert r["taddr"] == "0x00000000"
        found = run(f"0x04200490 --kind f16 --register {r['warp']},{r['thread']},{r['register']} --ld {r['ld']} --json")
        assert json.loads(found.stdout) == by_element
    text = run("0x04200490 --kind f16 --element 20,3").output
    assert "tcgen05.ld.32x32b.x128 at 0x00000000: warp 1, thread 4, register 3" in text
    assert "not measured" in text


def test_a_packed_register_has_two_elements_and_a_pair_two_ctas():
    both = json.loads(run("0x04100010 --kind f16 --register 1,4,3 --ld 32x32b.x32.pack::16b --json").stdout)
    assert [(e["element"]["m"], e["element"]["n"]) for e in both] == [(20, 6), (20, 7)]
    other = json.loads(run("0x08200490 --kind f16 --cta-group 2 --register 1,4,3,1 --ld .32x32b.x64 --json").stdout)
    assert (other["element"]["cta"], other["element"]["m"]) == (1, 100)
    split = run("0x08100010 --kind f16 --register 1,20,3 --ld tcgen05.ld.sync.aligned.16x32bx2.x8.b32,16")
    assert "D[36, 19]" in split.output


def test_what_is_wrong_with_the_word_is_said_beside_the_picture():
    result = run("0x08200490 --kind mxf4nvf4")
    assert result.exit_code == 1
    assert "I603  b_sf_id = 1" in result.stderr
    assert "layout D" in result.stdout


def test_csv_has_a_line_for_every_element():
    rows = list(csv.DictReader(io.StringIO(run("0x08200490 --kind f16 --cta-group 2 --taddr 0x80 --csv").stdout)))
    layout = AccumulatorLayout(128, 128, 2, column=128)
    assert len(rows) == 128 * 128
    for row in rows[:: 128 * 9 + 5]:
        place = layout.location(int(row["m"]), int(row["n"]))
        assert place == tuple(int(row[name]) for name in ("cta", "lane", "column"))


# fmt: off
BAD = {
    "0x04200490 --kind f16 --element 64,0": "rows 0 to 63",
    "0x04200490 --kind f16 --cell 20,3": "no element of D",
    "0x04200490 --kind f16 --register 1,4,3": "go together",
    "0x04200490 --kind f16 --register 1,4 --ld 32x32b.x128": "WARP,THREAD,REGISTER",
    "0x04200490 --kind f16 --register 1,40,3 --ld 32x32b.x128": "thread",
    "0x04200490 --kind f16 --register 1,4,3 --ld 32x32b": "its repetition",
    "0x04200490 --kind f16 --register 1,4,3 --ld 33x33b.x1": "shape",
    "0x04200490 --kind f16 --element 1,1 --cell 1,1": "exclude each other",
    "0x04200490 --kind f16 --element 1,1 --svg": "--svg: of the whole D",
    "0x04200490 --kind f16 --cta-group 2": "M = 64",
    "0x04200490 --kind f16 --rows 64": "--rows: not of an instruction's D",
    "0x04200490 --element 1,1": "--kind",
    "0x04200490 --kind f16 --taddr 0x30000": "lane = 3",
    "0x04200490 --kind q": "kind = 'q'",
}
# fmt: on


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_a_sentence_on_stderr(command):
    result = run(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert BAD[command] in result.stderr
