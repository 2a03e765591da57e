"""The end of a program under `smemsim exec`: its exit code, and the lines that sum up its launches. The programs are those
of a shell; what launches there were is told by a stand-in for the journal.
"""

import dataclasses
import functools
import html
import itertools
import json
import os
import re
import types

import pytest
from click.testing import CliRunner

from smemsim.cli import main
from smemsim.core.spec.findings import CODES
from smemsim.virtual import Journal, Policy, VirtualDevice, summary_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs processes of Linux")

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
PTX = (
    HEAD
    + """.visible .entry fill(.param .u64 a) { .reg .b64 %d<4>; .reg .b32 %r<4>; ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %r1; ret; }"""
)
WITH_LINES = PTX.replace("st.global", ".loc 1 7 0\nst.global") + '\n.file 1 "fill.cu"\n'


@functools.cache
def launched(threads, text=PTX):
    """A launch of a kernel that writes a word for each thread into an array of 32."""
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
    device.launch(device.load(text).function("fill"), 1, threads, [device.allocate(128).to_bytes(8, "little")])
    [one] = device.launches
    return dataclasses.replace(one, seconds=1.0)


def of_run(**more):
    return dataclasses.replace(launched(32), run=launched(32).run | more)


KINDS = {  # a launch, and the exit code of a program that has it and ends with 0
    "fine": (lambda: launched(32), 0),
    "findings": (lambda: launched(64), 1),
    "refused": (lambda: dataclasses.replace(launched(32), refused="no such kernel", error=1, run=None), 1),
    "not modelled": (lambda: dataclasses.replace(launched(32), refused="not modelled", error=801, run=None), 3),
    "stopped": (lambda: dataclasses.replace(launched(32), error=702), 1),
    "held up": (lambda: of_run(held_up="line 7 waits for CTA 3", partial=True), 2),
    "partial": (lambda: of_run(partial=True), 0),
    "no files": (lambda: dataclasses.replace(launched(32), has_no_files=True), 2),
}
WORST_FIRST = (3, 1, 2, 0)


@pytest.fixture
def ended(monkeypatch):
    """(exit code, lines) of a program with these launches. `died`: a device ended before it."""
    monkeypatch.setattr("smemsim.virtual.build.libraries", lambda: None)

    def end(launches=(), *options, script="exit 0", refused=(), running=(), has_device=True, died=()):
        class Told(Journal):
            def read(self):
                self.running = dict(enumerate(running))
                return types.SimpleNamespace(launches=[x.fields() for x in launches], refused=list(refused))

        def until_end(sessions, program):
            sessions.has_device, sessions.died = has_device, list(died)
            sessions.select.close()

        monkeypatch.setattr("smemsim.virtual.exec.Journal", Told)
        monkeypatch.setattr("smemsim.virtual.sessions.Sessions.until_end", until_end)
        made = CliRunner().invoke(main, ["exec", "--arch", "sm_90a", *options, "sh", "-c", script])
        assert made.stdout == ""
        assert made.exception is None or isinstance(made.exception, SystemExit)
        assert all(line.startswith(("smemsim: ", "  ")) for line in made.stderr.splitlines())
        return made.exit_code, re.sub(r"\n  (?=\S)", " ", made.stderr)  # lines are wrapped

    return end


def end_of(text):
    """The line that sums up."""
    [line] = [line for line in text.splitlines() if "the program: " in line]
    return line


PAIRS = itertools.combinations(("fine", "findings", "not modelled", "held up"), 2)


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), *PAIRS, tuple(KINDS)], ids="+".join)
def test_the_worst_launch_decides_the_exit_code(ended, kinds):
    """Kernels that are not modelled before findings, these before what ran in part. A program's own code stays."""
    launches = [KINDS[kind][0]() for kind in kinds]
    wanted = next(code for code in WORST_FIRST if code in {KINDS[kind][1] for kind in kinds})
    code, text = ended(launches)
    assert code == wanted
    own = f"; smemsim exec: exit code {wanted}" if wanted else ""
    assert end_of(text).endswith(f"the program: exit code 0{own}")
    assert summary_of(launches) in text
    if len(kinds) == 1:
        code, text = ended(launches, script="exit 7")
        assert code == 7
        assert end_of(text).endswith("the program: exit code 7")
        is_clean = kinds[0] == "fine" or kinds[0] == "no files"
        assert ("no finding explains exit code 7" in text) == is_clean
        code, text = ended(launches, script="kill -9 $$")
        assert code == 128 + 9
        assert end_of(text).endswith("the program: ended by signal 9")
        assert "no finding explains" not in text


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ({"refused": ["a binary without PTX"]}, 2, "a part of the program cannot run here (see above) and was not simulated"),
        ({"running": ["2 fill"]}, 1, ", ended during launch 2 fill, which was not checked"),
        ({"running": ["2 fill", "1 f"]}, 1, ", ended during launch 2 fill, launch 1 f, which was not checked"),
        ({"running": ["2 fill"], "died": ["it was killed"]}, 0, "; the process of the device ended before the program (see above)"),
        ({}, 0, "no findings; the program"),
    ],
)
def test_what_was_not_simulated_is_in_the_last_line(ended, more, code, says):
    found, text = ended([launched(32)], **more)
    assert found == code
    assert says in end_of(text)
    assert summary_of([launched(32)]) in text


@pytest.mark.parametrize(("has_device", "script", "says"), [
    (True, "exit 0", "no kernel was launched, and nothing was checked; the program"),
    (True, "exit 5", "no kernel was launched, and nothing was checked; the program"),
    (False, "exit 5", "nothing was checked: the program ended before it used the GPU; the program"),
    (False, "exit 0", "nothing was checked: no process of the program used the GPU; env -i and sudo"),
])  # fmt: skip
def test_a_program_without_a_launch_says_why(ended, has_device, script, says):
    code, text = ended(has_device=has_device, script=script)
    assert code == int(script[-1])
    assert says in end_of(text)
    assert "checked: " not in text.replace(end_of(text), "")
    assert "no finding explains" not in text
    running = end_of(ended(running=["1 fill"])[1])
    assert running.startswith("smemsim: no launch was over, ended during launch 1 fill")


@pytest.mark.parametrize("asked", [1, 2, 3])
@pytest.mark.parametrize("refused", [0, 1])
def test_launches_that_are_required_have_run(ended, asked, refused):
    launches = [launched(32)] * 2 + [dataclasses.replace(launched(32), refused="why", error=702, run=None)] * refused
    code, text = ended(launches, "--require-launches", str(asked))
    assert (f"; --require-launches asks for {asked}" in text) == (asked == 3)
    assert code == (1 if refused else 2 if asked == 3 else 0)


@pytest.mark.parametrize("kind", ["fine", "findings", "partial", "held up"])
def test_a_quiet_end_tells_faults_and_parts_alone(ended, kind):
    """With --quiet: the last line if the exit code is not the program's own, and that outputs are partial."""
    launches = [KINDS[kind][0]()]
    for script in ("exit 0", "exit 7"):
        code, loud = ended(launches, script=script)
        silent_code, silent = ended(launches, "--quiet", script=script)
        assert code == silent_code
        lines = silent.splitlines()
        assert ("the program: " in silent) == (code != int(script[-1]))
        assert ("ran in part (--ctas)" in silent) == (kind in ("partial", "held up"))
        assert set(lines) <= set(loud.splitlines())
        assert "to read the PTX lines" not in silent
        assert "no finding explains" not in silent


@pytest.mark.parametrize("text", [PTX, WITH_LINES])
def test_findings_have_hints_where_something_is_missing(ended, text, tmp_path):
    bad, good = launched(64, text), launched(32, text)
    for launches in ([bad], [good, bad], [good], []):
        _, told = ended(launches)
        assert ("findings have no source lines: build the program with nvcc -lineinfo" in told) == (bad in launches and text == PTX)
        assert ("to read the PTX lines that findings name: smemsim exec --record DIR" in told) == (bad in launches)
        _, told = ended(launches, "--record", str(tmp_path))
        assert "to read the PTX lines" not in told
        assert f"wrote {tmp_path} ({len(launches)} launch{'es' * (len(launches) != 1)} as launch files, for smemsim run" in told


def test_files_that_were_asked_for_are_named(ended, tmp_path):
    launches = [launched(32), dataclasses.replace(launched(64), has_no_files=True), launched(32)]
    where = {name: tmp_path / name for name in ("report", "records", "out.json")}
    options = ("--report", str(where["report"]), "--json", str(where["out.json"]), "--record", str(where["records"]))
    code, text = ended(launches, *options, refused=["why", "why", "other"])
    for said in (
        "report/index.html (3 launches, with a page each",
        "out.json (3 launches and their findings",
        "records (2 of 3 launches as launch files, for smemsim run",
    ):
        assert f"smemsim: wrote {tmp_path}/{said}" in text
    written = json.loads(where["out.json"].read_text())
    assert (written["exit_code"], written["not_simulated"], len(written["launches"])) == (code, ["why", "other"], 3)
    assert [x["number"] for x in written["launches"]] == [1, 2, 3]
    page = (where["report"] / "index.html").read_text()
    assert "sh -c &#x27;exit 0&#x27; on sm_90a" in page or "sh -c 'exit 0' on sm_90a" in page
    assert page.count("<tr") >= 3


@pytest.mark.parametrize("options", [("record",), ("report",), ("record", "report"), ()])
def test_what_an_earlier_program_has_left_is_removed(ended, tmp_path, options):
    """Files of launches, and pages. Without the option the folder is not touched."""
    old = {"record": tmp_path / "record" / "0001-old" / "launch.toml", "report": tmp_path / "report" / "launch-0009.html"}
    for file in old.values():
        file.parent.mkdir(parents=True)
        file.write_text("")
    ended([launched(32)], *itertools.chain.from_iterable((f"--{name}", str(tmp_path / name)) for name in options))
    assert {name: file.exists() for name, file in old.items()} == {name: name not in options for name in old}


@pytest.mark.parametrize("option", ["record", "report", "json"])
def test_a_place_that_cannot_be_written_is_told_before_the_program_starts(ended, tmp_path, option):
    place = tmp_path / "place"
    place.mkdir() if option == "json" else place.write_text("")
    code, text = ended([launched(32)], f"--{option}", str(place), script=f"touch {tmp_path / 'started'}")
    assert code == 2
    assert f"--{option}" in text
    assert str(place) in text
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("length", [10, 92, 93, 200])
def test_the_title_of_a_page_is_the_command_as_far_as_it_fits(ended, tmp_path, length):
    ended([launched(32)], "--report", str(tmp_path / "pages"), script="exit 0;" + "a" * (length - 7))
    page = (tmp_path / "pages" / "index.html").read_text().replace("&#x27;", "'")
    title = page.partition("<title>")[2].partition("</title>")[0]
    command = "sh -c 'exit 0;" + "a" * (length - 7) + "'"
    assert (command if len(command) <= 100 else command[:99] + "…") + " on sm_90a" in title


@pytest.mark.parametrize("when", ["warn", "collect"])
def test_findings_that_were_collected_are_printed_at_the_end(ended, when):
    bad = dataclasses.replace(launched(64), named=("the array has 128 bytes",))
    _, text = ended([launched(32), bad], "--on-finding", when)
    assert ("smemsim: X001" in text) == (when == "collect")
    assert ("the array has 128 bytes" in text) == (when == "collect")
    assert ("launch 2, " in text) == (when == "collect")
    assert "launch 1, " not in text


def test_the_page_of_a_program_has_each_launch_and_what_became_of_it(ended, tmp_path):
    """Findings, or why it did not run, or remarks, or nothing; each finding once, with the launches that have it."""
    remark = {"code": "X014", "severity": "note", "what": "a remark", "fix": {"text": ""}, "because": ""}
    launches = [
        launched(32),
        KINDS["refused"][0](),
        of_run(remarks=[remark]),
        of_run(remarks=[remark] * 2),
        dataclasses.replace(launched(64), named=("array a has 128 bytes",)),
        launched(64),
        dataclasses.replace(launched(32), run=None, said="fill: it was not simulated"),
    ]
    ended(launches, "--report", str(tmp_path))
    page = (tmp_path / "index.html").read_text()
    rows = [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in page.split("<tr")[2:]]
    says = (
        "no findings",
        "no such kernel",
        "1 remark",
        "2 remarks",
        "array a has 128 bytes",
        "X001",
        "launch 7, fill: it was not simulated",
    )
    rows = [row for row in rows if "grid (1, 1, 1), block" in row]
    assert len(rows) == len(launches)
    for number, (row, said) in enumerate(zip(rows, says, strict=True), 1):
        assert f"{number} fill {said}" in row or (f"{number} fill X001" in row and said in row), row
        assert ("no findings" in row) == (number == 1)
        assert "1.0 s" in row
    assert "remarks" not in rows[2]
    assert page.count("writes 4 bytes") + page.count("out of bounds") >= 1
    told = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    finding = launched(64).run["findings"][0]
    assert told.count("also found in launch 6") == 1
    for said in (finding["because"], CODES["X001"].cause.partition(".")[0], finding["what"]):
        assert html.escape(said, quote=False) in told or html.escape(said) in told
    assert told.count(html.escape(finding["fix"]["text"], quote=False)) == 1


def test_a_headline_is_the_first_finding_else_the_first_remark_else_what_became_of_the_launch():
    found = launched(64).run["findings"]
    remark = found[0] | {"code": "X014", "severity": "note"}
    assert launched(64).headline().startswith("X001")
    assert of_run(findings=found, remarks=[remark]).headline() == launched(64).headline()
    assert of_run(remarks=[remark]).headline().startswith("X014")
    assert KINDS["refused"][0]().headline() == "no such kernel"
    silent = dataclasses.replace(launched(32), run=None, said="fill: it was not simulated")
    assert silent.headline() == silent.told == "launch 1, fill: it was not simulated"
    assert of_run().headline() == launched(32).told


# ---- What was checked


@pytest.mark.parametrize(("watched", "others", "of"), [
    (1, 0, "in the launch"), (3, 0, "in all 3 launches"), (2, 1, "in 2 of 3 launches"), (1, 1, "in 1 of 2 launches"), (0, 2, None),
])  # fmt: skip
@pytest.mark.parametrize("refused", [0, 1])
def test_races_were_checked_in_launches_with_the_sanitizer(ended, watched, others, of, refused):
    launches = [launched(32)] * watched + [of_run(sanitized=False)] * others
    launches += [dataclasses.replace(launched(32), refused="why", error=1, run=None)] * refused
    if refused and of:
        of = f"in {watched} of {len(launches)} launches"
    _, text = ended(launches)
    line = "checked: races, waits and uninitialised values "
    assert (f"{line}{of}\n" in text) if of else (line not in text and "checked: nothing" in text)


@pytest.mark.parametrize(
    ("a", "b", "sides"),
    [([0, 0], [0, 0], ""), ([4, 4], [4, 4], ""), ([3, 4], [4, 4], "A"), ([4, 4], [0, 4], "B"), ([1, 4], [1, 4], "A and B")],
)
def test_operands_that_were_not_checked_have_a_command(ended, a, b, sides):
    launches = [of_run(checked={"a": a, "b": b, "missed": {}}), of_run(checked={"a": [0, 0], "b": [2, 2], "missed": {}})]
    _, text = ended(launches)
    assert (
        f"to check {sides}, save D, A and B: smemsim solve --arch sm_90a --d D.npy --a A.npy --b B.npy" in " ".join(text.split())
    ) == bool(sides)
    assert "checked: operand layouts: " in text


def test_launches_that_ran_in_part_say_what_that_means(ended):
    part, held = KINDS["partial"][0](), KINDS["held up"][0]()
    _, text = ended([part, launched(32), held])
    told = " ".join(text.split())
    assert (
        "2 of 3 launches ran in part (--ctas): outputs are partial. The program's own comparisons mean nothing: its exit code says nothing"
        in told
    )
    assert "1 of these could not go on (fill): a CTA waits for one that was left out" in told
    assert "races with CTAs that were left out are not checked" in told
    _, text = ended([part], script="exit 3")
    told = " ".join(text.split())
    assert "1 of 1 launch ran in part" in told
    assert "its exit code 3 may come from that, or from a fault of its own" in told
    assert "could not go on" not in told
