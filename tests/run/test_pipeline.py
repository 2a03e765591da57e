"""The pipeline of a kernel: how many loads its barriers allow, and which wait holds a ring of stages back."""

import dataclasses
import functools
import itertools
import json
import pathlib
import random
import re
import shutil
import tarfile
import tempfile

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from drawn import Drawn, around, inside, middle
from gpu_faults import KERNELS
from places import ROOT
from smemsim import InputError
from smemsim.cli import main
from smemsim.core.picture.svg import MARGIN, svg
from smemsim.diagnosis import Pipeline, pipeline_picture
from smemsim.diagnosis.pipeline_picture import Bar, Lane
from smemsim.run.engine import grid
from smemsim.run.pipeline import Costs, PipelineRecorder

FOLDER = KERNELS / "gemm_specialized_k1024"  # four stages, sixteen loads, two warpgroups that multiply
RIGHT = (FOLDER / "kernel.ptx").read_text()
WAIT = re.compile(r"again:\nmbarrier\.try_wait\.parity\.shared::cta\.b64 P, \[(%r\d+)\], (%r\d+);")
EMPTY = next(name for name in re.findall(r"\b\w+\b", RIGHT) if name.endswith("empty"))
# what waits a little before it, or behind it, is the thread that loads
PRODUCER = RIGHT.index("mbarrier.arrive.expect_tx")


def of_the_stage_before(found):
    """A wait for the stage that was filled last, in place of the one that is filled now."""
    if found.start() < PRODUCER - 2000:
        return found[0]
    at, parity = found[1], found[2]
    return f""".reg .b32 at, of, parity;
.reg .pred first;
mov.u32 of, {EMPTY};
setp.eq.u32 first, {at}, of;
add.s32 at, {at}, -8;
@first add.s32 at, at, 32;
xor.b32 parity, {parity}, 1;
@first xor.b32 parity, parity, 1;
again:
mbarrier.try_wait.parity.shared::cta.b64 P, [at], parity;"""


WRONG = WAIT.sub(of_the_stage_before, RIGHT)
NEVER_FREE = "// ".join(RIGHT.rsplit("mbarrier.arrive.shared::cta.b64 _, ", 1))  # no thread releases a stage


def ran(text, tmp_path, *, costs=None, **options):
    (tmp_path / "kernel.ptx").write_text(text)
    recorder = PipelineRecorder(costs=costs)
    run, arrays = smemsim.launch_file(FOLDER / "launch.json", ptx=tmp_path / "kernel.ptx", observers=[recorder], progress=False, **options)
    return run, arrays["C"].numpy().tobytes(), Pipeline.of(recorder, lambda i: f"line {i.line}", is_over=run.ctas == run.launch.ctas)


@functools.cache
def usual(text):
    """The run of a text in the usual order; tests that only read it share it."""
    return ran(text, pathlib.Path(tempfile.mkdtemp()))


@pytest.fixture(scope="module", autouse=True)
def _shared_runs():
    """The kept facts of a test do not depend on the tests that shared a run with it."""
    for text in (RIGHT, WRONG, NEVER_FREE):
        usual(text)


def verdict(pipeline):
    return [(len(ring.stages), ring.effective, ring.allowed, [(h.load, h.needs, h.newer) for h in ring.held]) for ring in pipeline.rings]


def alarms(pipeline):
    """The lines of a picture's text that are bad news."""
    return re.findall('class="s alarm"[^>]*>([^<]*)<', pipeline.svg())


def test_a_ring_whose_waits_are_right_works_with_all_its_stages():
    run, _, pipeline = usual(RIGHT)
    (ring,) = pipeline.rings
    assert run.ok
    assert (len(ring.stages), ring.effective, ring.depth, ring.held) == (4, 4, 4, ())
    assert pipeline.sentences()[0].endswith("all stages work; its barriers allow 4 loads in flight at once.")
    assert alarms(pipeline) == []


def test_a_wait_for_another_stage_holds_the_ring_back_and_changes_no_number():
    run, left, pipeline = usual(WRONG)
    (ring,) = pipeline.rings
    assert run.ok
    assert left == usual(RIGHT)[1]
    assert (len(ring.stages), ring.effective, len(ring.held), ring.refills) == (4, 1, 12, 12)
    last = ring.held[-1]
    assert (last.load, last.needs, last.newer) == (15, 11, (12, 13, 14))
    text = WRONG.splitlines()
    assert text[last.origin.wait.line - 1].startswith("mbarrier.try_wait")
    assert "mbarrier.arrive" in text[last.origin.arrival.line - 1]
    assert "wgmma.wait_group" in text[last.origin.first.line - 1]
    for part in ("4 stages work as 1", "needs the MMAs of load 11", "waits for those of load 14", "all 12 loads that overwrite another"):
        assert part in pipeline.sentences()[0]
    assert " ".join(alarms(pipeline)) == pipeline.sentences()[0]


def test_groups_of_cp_async_are_not_held_back():
    """Groups of K and of V alternate in one ring, and what attention needs of K looks like a wait without need."""
    (ring,) = usual(WRONG)[2].rings
    other = type(ring).of([dataclasses.replace(one, kind="cp.async", loads=0) for one in ring.fillings])
    assert ring.is_late
    assert other.held
    assert not other.is_late


def test_loads_of_several_tensors_that_take_turns_in_the_same_stages_are_one_ring():
    recorder = PipelineRecorder()
    (ring,) = usual(WRONG)[2].rings
    recorder.fillings = [dataclasses.replace(one, sizes=((None, n % 3),)) for n, one in enumerate(ring.fillings)]
    (whole,) = Pipeline.of(recorder, str).rings
    assert (whole.held, whole.allowed) == (ring.held, ring.allowed)


def test_a_recorder_changes_neither_findings_nor_bytes():
    run, left, _ = usual(RIGHT)
    alone, arrays = smemsim.launch_file(FOLDER, progress=False)
    assert arrays["C"].numpy().tobytes() == left
    assert [f.code for f in alone.findings] == [f.code for f in run.findings] == []


@pytest.mark.parametrize(("text", "schedule"), [(RIGHT, 3), (WRONG, "latest")], ids=["right", "wrong"])
def test_no_schedule_changes_the_verdict(tmp_path, text, schedule):
    assert verdict(ran(text, tmp_path, schedule=schedule, sanitize=False)[2]) == verdict(usual(text)[2])


@pytest.mark.parametrize("costs", [Costs(3000, 10, 100)])
def test_no_cost_changes_the_verdict(tmp_path, costs):
    other = ran(WRONG, tmp_path, costs=costs, sanitize=False)[2]
    assert verdict(other) == verdict(usual(WRONG)[2])
    assert other.as_dict()["rings"][0]["loads"] != usual(WRONG)[2].as_dict()["rings"][0]["loads"]


def test_loads_in_flight_never_exceed_what_the_barriers_allow(tmp_path):
    """With loads that take long the assumed schedule reaches what is allowed, and never more."""
    (ring,) = ran(RIGHT, tmp_path, costs=Costs(3000, 0, 1))[2].rings
    for one, allowed in zip(ring.fillings, ring.allowed, strict=True):
        flying = sum(other.at <= one.at < other.full for other in ring.fillings[: one.number + 1])
        assert flying <= allowed
    assert max(sum(o.at <= one.at < o.full for o in ring.fillings[: one.number + 1]) for one in ring.fillings) == ring.depth


@pytest.mark.parametrize(
    ("instead", "overdue"),
    [
        ("// ", ""),
        (
            ".reg .pred some; .reg .b32 who; mov.u32 who, %tid.x; setp.lt.u32 some, who, 256; @some mbarrier.arrive.shared::cta.b64 _, ",
            "; warp 8 has never arrived there, but at empty[0].",
        ),
    ],
)
def test_of_a_kernel_that_hangs_no_ring_is_called_right(tmp_path, instead, overdue):
    """No thread releases a stage, or one of two warpgroups does not: then it is named."""
    before, _, behind = RIGHT.rpartition("mbarrier.arrive.shared::cta.b64 _, ")
    run, _, pipeline = ran(before + instead + behind, tmp_path)
    assert "X006" in [f.code for f in run.findings]
    assert "before the kernel stopped; stage 0 has been read (load 4), " in pipeline.sentences()[-1]
    assert pipeline.sentences()[0].startswith("Warp 0 waits for ever at line ")
    assert overdue in pipeline.sentences()[0]
    came = "; warp 4 arrived at line " if overdue else "2 of 2 arrivals are missing; warps 4 to 11 have never arrived there."
    assert came in pipeline.sentences()[0]
    assert "|~until 0 is read~" in pipeline.text()
    assert " ".join(alarms(pipeline)) == " ".join(pipeline.sentences()[:-1])  # the ring has no verdict
    dots = re.findall(r'<circle cx="([0-9.]+)" cy="([0-9.]+)"', pipeline.svg())
    # stage 0 is full (for both rows of warpgroups), stage 0 is free (stage 2 is full then, too); the legend
    assert (len(dots), len({y for _, y in dots})) == (4 if overdue else 3, 2)
    assert ("MMAs, overdue: warps 8 to 11" in pipeline.svg()) == bool(overdue)
    drawn = ("waits for ever", "accumulator is computed", "empty, and the next load waits")
    assert [says in pipeline.svg() for says in drawn] == [True, False, False]  # the legend has what is drawn
    assert "before issuing load 5 into stage 1, for mbarrier " in pipeline.sentences()[0]
    assert pipeline.sentences()[1].endswith("before reading load 5 in stage 1, which is never issued: a consequence.")
    loads = next(one for one in pipeline.lanes.stuck if pipeline.awaited(one).is_issue)
    # where it has passed no wait, at an mbarrier that no reader arrives at
    other = pipeline.rings[0].fillings[0].instruction
    elsewhere = loads._replace(instruction=other, missing=loads.missing._replace(reads=0))
    assert pipeline.awaited(elsewhere) is None
    assert pipeline.notes() == []


# ---- the picture

OF_KIND = {f"g {name}": kind for kind, name in pipeline_picture.FILLS.items()}


@pytest.mark.parametrize("text", [RIGHT, WRONG, NEVER_FREE], ids=["right", "wrong", "hangs"])
def test_a_picture_has_all_its_rows_and_a_legend_of_what_is_drawn(text):
    pipeline = usual(text)[2]
    drawn = Drawn(pipeline.svg())
    drawn.check()
    rows = sorted(box[1] for box in drawn.rects["g e"] if box[0] == pipeline_picture.LEFT and box[2] == drawn.whole[2] - MARGIN)
    names = sorted(box[1] for said, boxes in drawn.texts.items() for box in boxes if box[2] == pipeline_picture.LEFT - 8)
    assert len(rows) == len(names) == pipeline.svg().count(" class='s r'") + pipeline.svg().count(' class="s r"')
    assert all(row < name < row + pipeline_picture.BOX for row, name in zip(rows, names, strict=True))
    legend = min(box[1] for said, boxes in drawn.texts.items() if said in ("stages:", "roles:", "engines:") for box in boxes)
    for kind, boxes in drawn.rects.items():
        if kind in OF_KIND and kind != "g e":  # both among the rows and in the legend
            assert {box[1] < legend - 8 for box in boxes} == {True, False}, kind
    for name, tip in (("dep", "s"), ("late", "alarm")):  # from the stage that is full or free to the role that has waited
        points = [line for line in drawn.lines.get(name, ()) if line[0][1] < legend - 8]
        assert all(line[0][1] - pipeline_picture.BOX in rows and line[-1][1] > line[0][1] for line in points), tip
        assert bool(points) == any(line[0][1] > legend - 8 for line in drawn.lines.get(name, ()))
    says = [(box, said) for said, boxes in drawn.texts.items() for box in boxes if box[1] > legend - 8 and said[-1] != ":" and said != "1"]
    boxes = [box for kind, boxes in drawn.rects.items() if kind[0] in "gs" for box in boxes if box[1] > legend - 8]
    boxes += [
        around((x, y - 1, x, y + 1) for x, y in line)
        for name in ("dep", "late")
        for line in drawn.lines.get(name, ())
        if line[0][1] > legend - 8
    ]
    for box, said in says:  # each has its sample on the left
        (sample,) = [one for one in boxes if 0 < box[0] - one[2] < 16 and one[1] < middle(box)[1] < one[3] + 10]
        assert sample[3] < drawn.whole[3]
        assert inside(box, (0, 0, drawn.whole[2] - MARGIN + 1, drawn.whole[3])), said
    assert all(any(inside(box, one) for one in itertools.chain(*drawn.rects.values())) for box in drawn.texts["1"])
    plain = pipeline.text().splitlines()
    assert max(map(len, plain)) <= 110
    marks, explained = "".join(line[26:] for line in plain if re.match(r"(stage \d|MMAs|loads:|tensor core|accum)", line)), " ".join(plain)
    for mark, says in (
        ("-", "load under way"),
        ("=", "full"),
        ("#", "being read"),
        ("x", "waits for more than"),
        ("~", "waits"),
        ("!", "waits for ever"),
    ):
        assert (mark in marks) == (f"{mark} {says}" in explained), mark


BEGIN, END = 100.0, 1100.0


def bars_of(seed):
    """A row of random bars, one behind the other, from before the picture's begin to behind its end. Some labels just
    fit.
    """
    rng = random.Random(seed)
    time, bars = -100.0, []
    while time < 1400:
        begin, time = time, time + rng.choice((0, 1, 20, 60, 61.5, 90, 300)) * rng.random()
        labels = tuple(rng.choice("abc") * n for n in sorted(rng.sample(range(1, 30), rng.randint(0, 3)), reverse=True))
        kind = rng.choice([*pipeline_picture.FILLS, "issue", "kept"])
        most = int(((time - begin) * (pipeline_picture.WIDTH - pipeline_picture.LEFT - MARGIN) / 1000 - 2) / pipeline_picture.LETTER)
        labels = ("a" * most, *labels) if most > 0 and rng.random() < 0.5 else labels
        labels = labels if kind != "load" else tuple(says[:3] for says in labels)  # the number of a load
        bars.append(Bar(kind, begin, time, labels, f"<{len(bars)}>"))
        time += rng.choice((0, 30))
    return bars


@pytest.mark.parametrize("seed", range(12))
def test_every_bar_is_drawn_from_its_begin_to_its_end_and_labels_are_inside(seed):
    bars, y = bars_of(seed), 100.0
    lane = Lane("roles", "n" * (seed * 5 + 1), tuple(bars))
    drawing = pipeline_picture.Drawing((lane,), (), BEGIN, END)
    drawn = Drawn(svg(pipeline_picture.WIDTH, 200, pipeline_picture._lane_svg(lane, drawing, y), "", None))
    row = (pipeline_picture.LEFT, y, pipeline_picture.WIDTH - MARGIN, y + pipeline_picture.BOX)
    left, _, right, bottom = row
    texts = [(box, said) for said, boxes in drawn.texts.items() for box in boxes]
    for box, said in texts:
        assert inside(box, drawn.whole), said
    for n, bar in enumerate(bars):
        begin, end = (left + min(max(time - BEGIN, 0), 1000) / 1000 * (right - left) for time in (bar.begin, bar.end))
        is_seen = bar.end >= BEGIN and bar.begin <= END and (end > begin or bar.kind == "issue")
        assert (f"<{n}>" in drawn.cells) == is_seen, bar
        if not is_seen:
            continue
        if bar.kind == "issue":
            assert drawn.cells[f"<{n}>"] == pytest.approx((begin - 1, y, begin + 1, bottom), abs=0.11)
            continue
        assert drawn.cells[f"<{n}>"] == pytest.approx((begin, y, end, bottom), abs=0.11)
        fitting = [says for says in bar.labels if len(says) * pipeline_picture.LETTER <= end - begin - 2]
        wanted = fitting[0] if fitting else bar.label if bar.kind == "load" else ""
        own = [(box, said) for box, said in texts if abs(box[0] - begin - 3) < 0.1 and said[0] in "abc"]
        assert [said for _, said in own] == [wanted] * bool(wanted) or (not wanted and len(own) <= 1), bar
        if fitting:
            assert inside(own[0][0], (begin, y, end + 1, bottom))
        plates = [box for box in drawn.rects.get("e", ()) if abs(box[0] - begin - 1) < 0.1]
        assert len(plates) <= 1
        if plates:
            assert begin < plates[0][0] < own[0][0][0]
            assert own[0][0][2] - 1.5 <= plates[0][2] <= end + 0.11
            assert y < plates[0][1] < plates[0][3] < bottom
        assert bool(plates) == (bar.kind == "kept" and bool(wanted))


@pytest.mark.parametrize("seed", range(12))
def test_a_row_of_text_has_the_marks_of_its_bars_and_labels_where_there_is_room(seed):
    kinds = {kind: mark for kind, mark in pipeline_picture.MARKS.items() if kind not in ("load", "issue", "stuck", "work")}
    bars = [bar for bar in bars_of(seed) if bar.kind in kinds]
    row = pipeline_picture._row(Lane("roles", "n", tuple(bars)), pipeline_picture.Drawing((), (), BEGIN, END))
    width = pipeline_picture.COLUMNS - pipeline_picture.NAMES
    wanted = [" "] * width
    for bar in bars:
        begin, end = (int((time - BEGIN) / 1000 * width) for time in (bar.begin, bar.end))
        for column in range(max(begin, 0), min(end, width)):
            wanted[column] = kinds[bar.kind]
        label = next((says for says in bar.labels if len(says) <= end - begin - 3), "")
        if len(label) > 3 and 0 <= begin + 2 < width:
            wanted[begin + 2 : min(begin + 2 + len(label), width)] = label[: width - begin - 2]
    assert row == "".join(wanted)


def test_a_hang_has_the_sentences_of_its_rings_without_the_option(tmp_path):
    before, _, behind = RIGHT.rpartition("mbarrier.arrive.shared::cta.b64 _, ")
    (tmp_path / "kernel.ptx").write_text(f"{before}// {behind}")
    command = ["run", str(tmp_path / "kernel.ptx"), "--launch", str(FOLDER / "launch.json")]
    said = " ".join(CliRunner().invoke(main, command).output.split())
    assert "before issuing load 5 into stage 1" in said
    assert "5 loads were issued before the kernel stopped" in said


def test_a_hang_names_the_warps_that_came_and_those_that_are_overdue(tmp_path):
    """The second warpgroup releases every stage but the last."""
    arrival = re.compile(r"mbarrier\.arrive\.shared::cta\.b64 _, \[(%r\d+)\];")
    *_, found = arrival.finditer(RIGHT)
    skips = f""".reg .pred skip; .reg .b32 of, me;
mov.u32 of, {EMPTY}; add.s32 of, of, 24; mov.u32 me, %tid.x;
setp.eq.u32 skip, {found[1]}, of; setp.ge.and.u32 skip, me, 256, skip;
@!skip {found[0]}"""
    run, _, _ = ran(RIGHT[: found.start()] + skips + RIGHT[found.end() :], tmp_path)
    first = next(f for f in run.findings if f.code == "X006")
    rows = {half.does: half.text for half in first.halves}
    assert rows["arrived"] == "warp 4 of CTA (0, 0, 0)"
    assert rows["missing"].startswith("warp 8 of CTA (0, 0, 0) waits at line ")
    assert "1 of 2 arrivals is missing" in first.why


def test_a_hang_names_the_cta_of_a_cluster_that_never_arrived(twins, tmp_path):
    """CTA 1 releases its stages at its own mbarriers only."""
    text = (twins / "cluster_2" / "kernel.ptx").read_text()
    arrival = re.compile(r"(mapa.shared::cluster.u32 there, %r\d+, %r\d+;\s*)(mbarrier.arrive[^;]*;)")
    far = ".reg .pred own; .reg .b32 me; mov.u32 me, %cluster_ctarank; setp.eq.u32 own, me, 0; @own "
    times = iter(range(4))  # for ranks 0 and 1, in two copies of the loop
    text = arrival.sub(lambda found: found[1] + (far if next(times) % 2 == 0 else "") + found[2], text)
    assert next(times, None) is None
    folder = tmp_path / "hangs"
    shutil.copytree(twins / "cluster_2", folder)
    (folder / "kernel.ptx").write_text(text)
    run, _ = smemsim.launch_file(folder, pipeline=True, progress=False, sanitize=False)
    first = next(f for f in run.findings if f.code == "X006")
    assert "CTA 1 has arrived at the mbarrier of CTA 1" in first.why
    says = next(says for says in run.pipeline.sentences() if "2 of 4 arrivals are missing" in says)
    assert "warps 4, 8 of CTA 0 arrived" in says
    assert says.endswith("CTA 1 has arrived at the mbarrier of CTA 1, never at this one. Let it arrive here too.")
    assert "2 of 4 arrivals are missing: CTA 1 never arrived" in run.pipeline.svg()


def copies(buffers, stages, left, steps=12):
    """A loop over `steps`, unrolled: each step waits until `left` groups are in flight, reads its stage of each buffer,
    and issues a group for each buffer, `stages` - 1 steps ahead (with one stage: after the read).
    """
    ahead = max(1, stages - 1)

    def issue(step):
        if step >= steps:
            return ["cp.async.commit_group;"] * buffers
        at = [16 * 32 * (buffer * stages + step % stages) for buffer in range(buffers)]
        return [f"cp.async.cg.shared.global [%a+{place}], [%g], 16; cp.async.commit_group;" for place in at]

    lines = [line for step in range(ahead) for line in issue(step)]
    for step in range(steps):
        lines += [f"cp.async.wait_group {left};", "bar.sync 0;"]
        lines += [f"ld.shared.u32 %x, [%a+{16 * 32 * (buffer * stages + step % stages)}];" for buffer in range(buffers)]
        lines += [*["bar.sync 0;"] * (stages == 1), *issue(step + ahead)]
    body = "\n".join([*lines, "cp.async.wait_group 0;"])
    return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in) {{
.reg .b32 %a, %t, %x; .reg .b64 %g, %o; .shared .align 16 .b8 tiles[16384];
ld.param.u64 %g, [in]; mov.u32 %t, %tid.x; shl.b32 %t, %t, 4; cvt.u64.u32 %o, %t; add.u64 %g, %g, %o;
mov.u32 %a, tiles; add.u32 %a, %a, %t;
{body}
ret;
}}"""


@pytest.mark.parametrize(
    ("buffers", "stages", "left", "works"),
    [(1, 4, 2, 0), (1, 4, 0, 1), (2, 4, 4, 0), (2, 4, 2, 0), (2, 4, 0, 2), (3, 3, 0, 3), (2, 2, 0, 0), (2, 1, 0, 0), (4, 1, 0, 0)],
)
def test_groups_of_several_buffers_are_issued_a_step_at_a_time(buffers, stages, left, works):
    """Of one or two stages a step alone can be in flight; of three or more a wait for all groups loses them."""
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(copies(buffers, stages, left), args=[gpu.array(np.zeros(128, np.uint32))], block=32, pipeline=True, progress=False)
    notes = [f for f in run.remarks if f.code == "P101"]
    assert [f.message.partition(";")[0] for f in notes] == [f"a ring of {buffers * stages} stages works as {works}"] * bool(works)
    assert all(f.repair.startswith(f"cp.async.wait_group {buffers * (stages - 2)},") for f in notes)


# ---- Kernels that an H200 timed: tools/capture/pipeline_twins.py

TWINS = ROOT / "tests" / "data" / "pipeline_twins"
TIMES, MODEL = (json.loads((TWINS / f"{name}.json").read_text()) for name in ("times", "model"))


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twins")
    with tarfile.open(TWINS / "kernels.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(
    "name", ["gemm_4", "gemm_very_late", "gemm_own", "cluster_stage_before", "attention_k_wrong", "copies_wait_all"]
)  # fmt: skip
def test_rings_of_timed_kernels(twins, name):
    run, _ = smemsim.launch_file(twins / name, pipeline=True, progress=False, sanitize=False)
    rings, right = run.pipeline.rings, TIMES["kernels"][name]["says"].startswith("right")
    assert MODEL["kernels"][name] == {
        "stages": [len(ring.stages) for ring in rings], "effective": [ring.effective for ring in rings], "in_flight": [ring.steady for ring in rings],
    }  # fmt: skip
    notes = [f for f in run.remarks if f.code == "P101"]
    assert bool(notes) == (not right)
    if name in ("gemm_very_late", "cluster_stage_before"):
        is_late = name == "gemm_very_late"
        assert notes[0].repair.startswith("release a stage as soon as" if is_late else "wait for the release of stage")
        assert ("comes late" in notes[0].why, "Enough would be" in notes[0].why) == (is_late, not is_late)
        assert ("either wgmma.wait_group 2 there, or an arrival for load 9 at once" in notes[0].repair) == is_late
        assert f"Fix: {notes[0].repair}" in run.pipeline.sentences()[0]


@pytest.mark.parametrize(
    ("name", "at", "fix"),
    [
        ("gemm_late", "pipeline_twins.cu:163", "wgmma.wait_group 1"), ("gemm_one_group", "wgmma.wait_group", None),
        ("gemm_lock", "", "leave bar.sync out"), ("gemm_4", "mbarrier.try_wait", None),
    ],
)  # fmt: skip
def test_a_wait_is_needless_if_the_weaker_kernel_is_silent_and_leaves_the_same(twins, name, at, fix):
    said = CliRunner().invoke(main, ["run", str(twins / name), *(["--relax-at", at] if at else ["--relax"]), "--json"])
    notes = {f["code"]: f for f in json.loads(said.output)["remarks"]}
    assert said.exit_code == 0
    assert (fix is None) == ("P102" not in notes)
    assert fix is None or fix in notes["P102"]["repair"]
    headline, *tried = json.loads(said.output)["relaxed"]
    assert "weakened, " in headline
    assert all(("pipeline_twins.cu:" in line and ": needed: " in line) or "not needed (P102)" in line for line in tried)
    assert (fix is None) == all("not needed" not in line for line in tried)


def test_a_wait_that_does_not_exist_is_refused(tmp_path):
    text = ".version 8.7 .target sm_90a .address_size 64\n.visible .entry k() { ret; }"
    (tmp_path / "k.ptx").write_text(text)
    done = CliRunner().invoke(main, ["run", str(tmp_path / "k.ptx"), "--relax-at", "12"])
    assert done.exit_code == 2
    assert "no wait of CTA 0 is there; give a line of the PTX, a source line" in " ".join(done.output.split())


def test_a_wait_that_never_waits(tmp_path):
    """A wait for parity 1 passes at a new mbarrier, and no thread arrives. A wait that learns of one phase is none."""
    body = "mbarrier.init.shared.b64 [bar], 1; mov.u32 %r4, 0; L: {arrive} W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1; @!%p1 bra W; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 4; @%p2 bra L;"
    for arrive, wanted in (("", ["P103"]), ("mbarrier.arrive.shared.b64 _, [bar]; mbarrier.arrive.shared.b64 _, [bar];", [])):
        text = f".version 8.7 .target sm_90a .address_size 64\n.visible .entry k() {{ .reg .pred %p<3>; .reg .b32 %r<5>; .shared .align 8 .b64 bar;\n{body.replace('{arrive}', arrive)} ret; }}"
        run = smemsim.Gpu("sm_90a").launch(text, block=1, pipeline=True, progress=False)
        assert [f.code for f in run.remarks] == wanted


def test_times_follow_the_loads_in_flight():
    """Deeper kernels of a family are never more than 5 % slower; those of equal depth are within 10 %. The exceptions
    are listed with their reasons.
    """
    families = {}
    for name, at in MODEL["kernels"].items():
        if name not in MODEL["exceptions"]:
            families.setdefault(name.partition("_")[0], []).append((min(at["in_flight"]), TIMES["kernels"][name]["best_ms"]))
    assert TIMES["kernels"].keys() == MODEL["kernels"].keys()
    assert len(MODEL["exceptions"]) <= 6
    for kernels in families.values():
        for depth, time in kernels:
            equal = [t for d, t in kernels if d == depth]
            assert max(equal) <= 1.1 * min(equal)
            assert all(time > 0.95 * t for d, t in kernels if d > depth)
    assert TIMES["kernels"]["gemm_wrong_stage"]["best_ms"] > 2.5 * TIMES["kernels"]["gemm_4"]["best_ms"]


def test_the_command_prints_the_verdict_and_writes_a_picture(tmp_path):
    (tmp_path / "kernel.ptx").write_text(WRONG)
    command = ["run", str(tmp_path / "kernel.ptx"), "--no-sanitize", "--launch", str(FOLDER / "launch.json"), "--pipeline"]
    for suffix in ("svg", "txt", "json"):
        done = CliRunner().invoke(main, [*command, str(tmp_path / f"p.{suffix}")])
        assert done.exit_code == 0
        assert "4 stages work as 1" in " ".join(done.output.split())
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    assert max(map(len, (tmp_path / "p.txt").read_text().splitlines()[2:7])) <= 110
    (ring,) = json.loads((tmp_path / "p.json").read_text())["rings"]
    assert (ring["stages"], ring["effective"], ring["held_back"], len(ring["loads"])) == (4, 1, True, 16)
    (tmp_path / "costs.toml").write_text("load = 600\ninterval = 10")
    CliRunner().invoke(main, [*command, str(tmp_path / "q.json"), "--costs", str(tmp_path / "costs.toml"), "--cta", "0"])
    (drawn,) = json.loads((tmp_path / "q.json").read_text())["rings"]
    assert (drawn["loads"][0]["full"], drawn["effective"]) == (610, 1)  # the load of B is 10 behind that of A
    CliRunner().invoke(main, [*command[:-1], "--report", str(tmp_path / "page.html")])
    assert "<h2 id=hs>Pipeline</h2><ul class=outputs><li>ring of 4 stages" in (tmp_path / "page.html").read_text()
    (tmp_path / "costs.toml").write_text("loads = 600")
    for options in (["--cta", "0"], ["--pipeline", str(tmp_path / "q.json"), "--costs", str(tmp_path / "costs.toml")]):
        assert CliRunner().invoke(main, [*command[:-1], *options]).exit_code == 2
    refused = CliRunner().invoke(main, [*command, str(tmp_path / "p.png")])
    assert refused.exit_code == 2
    assert ".svg, .txt, .json" in refused.output


def test_a_launch_without_a_record_says_how_to_get_one(tmp_path):
    run, _ = smemsim.launch_file(FOLDER, progress=False)
    with pytest.raises(InputError, match="pipeline=True"):
        _ = run.pipeline
    with pytest.raises(InputError, match="one process"):
        smemsim.launch_file(FOLDER, pipeline=True, workers=2)


def unpacked(tmp_path, name):
    """The folder of a compiled launch."""
    with tarfile.open(ROOT / "golden" / "compiled" / "launches_sm_100a" / "launches.tar.xz") as archive:
        archive.extractall(tmp_path, [one for one in archive.getmembers() if one.name.split("/")[-2:][0] == name], filter="data")
    return next(tmp_path.rglob("launch.json")).parent


@pytest.mark.parametrize("name", ["triton_tma_f16_stages4", "gluon_specialized_e4m3", "cuda_kit_bf16_1_kk_128b_128b"])
def test_rings_of_tcgen05_allow_as_many_loads_as_they_have_stages(tmp_path, name):
    run, _ = smemsim.launch_file(unpacked(tmp_path, name), pipeline=True, progress=False)
    (ring,) = run.pipeline.rings
    assert len(ring.stages) - 1 <= ring.depth <= len(ring.stages)
    assert not ring.held


def test_what_is_enough_is_never_a_barrier_that_the_wait_itself_taught(tmp_path):
    """The wait for a load tells of an epilogue, too, if the thread knew of it as it arrived there: no advice."""
    folder = unpacked(tmp_path, "gluon_overlapped")
    text = (folder / "kernel.ptx").read_text()
    changes = {
        "not.b32 \t%r30, %r137;": ".reg .b32 %u, %v; add.s32 %u, %r137, -1; and.b32 %v, %u, 1; shl.b32 %v, %v, 3; add.s32 %v, %v, %r9; mov.b32 %r30, %u;",
        "add.s32 \t%r24, %r6, 24720;": "",
        "[%r24], %r25": "[%v + 24720], %r25",
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "kernel.ptx").write_text(text)
    run, _ = smemsim.launch_file(folder, pipeline=True, progress=False)
    (note,) = run.pipeline.notes()
    assert "for mbarrier 0x6498 phase 1" in note.why
    assert "Enough would be mbarrier 0x6490 phase 1" in note.why


MULTICAST = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) .reqntid 64, 1, 1 .reqnctapercluster 2, 1, 1 {{
.reg .b32 %t, %r, %n, %s, %full, %empty, %stage, %parity, %x, %to, %w; .reg .b64 %g, %st; .reg .pred %p, %q; .reg .b16 %m;
.shared .align 128 .b8 tiles[512]; .shared .align 8 .b8 bars[32];
ld.param.u64 %g, [p]; mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank; mov.u32 %n, 0; shr.u32 %w, %t, 5;
setp.ne.u32 %p, %t, 0;
@%p bra READY;
mov.u32 %s, bars;
mbarrier.init.shared::cta.b64 [%s], 1; mbarrier.init.shared::cta.b64 [%s+8], 1;
mbarrier.init.shared::cta.b64 [%s+16], 2; mbarrier.init.shared::cta.b64 [%s+24], 2;
fence.mbarrier_init.release.cluster;
READY: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.eq.u32 %p, %t, 0;
setp.eq.u32 %q, %t, 32;
LOOP: and.b32 %stage, %n, 1; shl.b32 %x, %stage, 3; mov.u32 %s, bars; add.u32 %full, %s, %x; add.u32 %empty, %full, 16;
shr.u32 %parity, %n, 1; and.b32 %parity, %parity, 1;
@%p bra LOADS;
@!%q bra NEXT;
FULL: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%full], %parity;
@!%p bra FULL;
setp.eq.u32 %p, %t, 0;
mov.u32 %s, tiles; shl.b32 %x, %stage, 8; add.u32 %s, %s, %x; ld.shared.u32 %x, [%s];
mapa.shared::cluster.u32 %to, %empty, 1;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%to];
mapa.shared::cluster.u32 %to, %empty, 0;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%to];
bra NEXT;
LOADS: xor.b32 %parity, %parity, 1;
EMPTY: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%empty], %parity;
@!%p bra EMPTY;
mbarrier.arrive.expect_tx.shared::cta.b64 %st, [%full], 256;
setp.ne.u32 %p, %r, 0;
@%p bra OVER;
mov.u32 %s, tiles; shl.b32 %x, %stage, 8; add.u32 %s, %s, %x; mov.u16 %m, 3;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%s], [%g], 256, [%full], %m;
OVER: setp.eq.u32 %p, %t, 0;
NEXT: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {loads};
@!%p bra END;
setp.eq.u32 %p, %t, 0;
bra LOOP;
END: barrier.cluster.arrive; barrier.cluster.wait;
ret;
}}"""


def test_a_multicast_fills_a_ring_in_each_cta():
    """One thread loads for two CTAs: each has two stages, and one sentence is about both."""
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(MULTICAST.format(loads=8), grid=2, args=[gpu.array(np.arange(64, dtype=np.uint32))], pipeline=True, progress=False)
    assert [(len(ring.stages), ring.depth, len(ring.fillings), ring.cta) for ring in run.pipeline.rings] == [(2, 2, 8, 0), (2, 2, 8, 1)]
    assert len(run.pipeline.sentences()) == 1
    assert "ring of 2 stages" in run.pipeline.sentences()[0]
    assert "CTAs 0 and 1: its barriers allow 2 loads in flight at once" in run.pipeline.sentences()[0]
    assert run.ok


TWO_BUFFERS = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) .reqntid 64, 1, 1 {
.reg .b32 %t, %n, %x, %parity, %other; .reg .b64 %g, %h, %st; .reg .pred %p, %q;
.shared .align 128 .b8 tiles[512]; .shared .align 8 .b8 bars[32];
ld.param.u64 %g, [p]; ld.param.u64 %h, [q]; mov.u32 %t, %tid.x; mov.u32 %n, 0; setp.ne.u32 %p, %t, 0;
@%p bra READY;
mbarrier.init.shared::cta.b64 [bars], 1; mbarrier.init.shared::cta.b64 [bars+8], 1;
mbarrier.init.shared::cta.b64 [bars+16], 1; mbarrier.init.shared::cta.b64 [bars+24], 1;
READY: bar.sync 0; setp.eq.u32 %p, %t, 0; setp.eq.u32 %q, %t, 32;
LOOP: and.b32 %parity, %n, 1; xor.b32 %other, %parity, 1;
@%p bra LOADS;
@!%q bra NEXT;
A: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars], %parity;
@!%p bra A;
ld.shared.u32 %x, [tiles]; mbarrier.arrive.shared::cta.b64 _, [bars+16];
B: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars+8], %parity;
@!%p bra B;
ld.shared.u32 %x, [tiles+256]; mbarrier.arrive.shared::cta.b64 _, [bars+24]; setp.eq.u32 %p, %t, 0;
bra NEXT;
LOADS:
C: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars+16], %other;
@!%p bra C;
mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bars], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tiles], [%g], 256, [bars];
D: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars+24], %other;
@!%p bra D;
mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bars+8], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tiles+256], [%h], 256, [bars+8];
setp.eq.u32 %p, %t, 0;
NEXT: add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 6; @!%q bra END; setp.eq.u32 %q, %t, 32;
bra LOOP;
END: bar.sync 0;
ret;
}"""


# Warp 0 fills stages of 512 bytes, and warp 1 reads them; each waits for the other at mbarriers.
STAGES = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) .reqntid 64, 1, 1 {{
.reg .b32 %t, %n, %s, %full, %empty, %stage, %parity, %x, %own; .reg .b64 %g, %st; .reg .pred %p, %q, %one;
.shared .align 128 .b8 tiles[2048]; .shared .align 8 .b8 bars[64];
ld.param.u64 %g, [p]; mov.u32 %t, %tid.x; mov.u32 %n, 0; setp.eq.u32 %one, %t, 0;
@!%one bra READY;
{inits}
READY: bar.sync 0; setp.lt.u32 %q, %t, 32;
LOOP: rem.u32 %stage, %n, {stages}; shl.b32 %x, %stage, 3; mov.u32 %s, bars; add.u32 %full, %s, %x; add.u32 %empty, %full, 32;
div.u32 %parity, %n, {stages}; and.b32 %parity, %parity, 1; shl.b32 %x, %stage, 9; mov.u32 %s, tiles; add.u32 %s, %s, %x;
shl.b32 %own, %t, 4; and.b32 %own, %own, 511; add.u32 %own, %own, %s;
@%q bra LOADS;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p, [%full], %parity;
@!%p bra FULL;
ld.shared.u32 %x, [%own];
mbarrier.arrive.shared::cta.b64 _, [%empty];
bra NEXT;
LOADS: xor.b32 %parity, %parity, 1;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p, [%empty], %parity;
@!%p bra EMPTY;
{load}
NEXT: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 8;
@%p bra LOOP;
bar.sync 0;
ret;
}}"""
BULK = """@!%one bra NEXT;
mbarrier.arrive.expect_tx.shared::cta.b64 %st, [%full], 512;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%g], 512, [%full];"""
WORDS = """cp.async.cg.shared.global [%own], [%g], 16;
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%full];"""
ITS_OWN = """xor.b32 %parity, %parity, 1;
OWN: mbarrier.try_wait.parity.shared::cta.b64 %p, [%full], %parity;
@!%p bra OWN;"""


def staged(load, arrivals, stages):
    inits = (
        f"mbarrier.init.shared::cta.b64 [bars+{8 * n}], {arrivals}; mbarrier.init.shared::cta.b64 [bars+{32 + 8 * n}], 32;"
        for n in range(stages)
    )
    return STAGES.format(load=load, stages=stages, inits=" ".join(inits))


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_a_ring_of_words_that_an_mbarrier_counts_is_like_one_of_bulk_copies(stages, waits):
    """Also where the warp that loads waits for each of its loads: then one is in flight."""
    seen = []
    for load, arrivals in ((BULK, 1), (WORDS, 32)):
        gpu = smemsim.Gpu("sm_90a")
        text = staged(f"{load}\n{ITS_OWN}" if waits else load, arrivals, stages)
        run = gpu.launch(text, args=[gpu.array(np.arange(128, dtype=np.uint32))], pipeline=True, progress=False)
        (ring,) = run.pipeline.rings
        told = [(f.barrier, f.phase, f.stage, f.places, sum(size for _, size in f.sizes)) for f in ring.fillings]
        seen.append((len(ring.stages), ring.depth, ring.allowed, ring.effective, told))
        assert run.ok
        assert ring.allowed == tuple(1 if waits else min(n + 1, stages) for n in range(8))
    assert seen[0] == seen[1]


# The mbarriers of each buffer in a variable of its own; of equal names with a number, as of an unrolled loop.
OWN = TWO_BUFFERS.replace(".b8 bars[32]", ".b8 bars_k[32]; .shared .align 8 .b8 bars_v[32]")
OWN = re.sub(r"bars\+(8|24)", lambda found: f"bars_v+{found[1]}", OWN).replace("[bars]", "[bars_k]").replace("bars+16", "bars_k+16")


@pytest.mark.parametrize(
    ("text", "same", "stages"),
    [
        (TWO_BUFFERS, False, [1, 1]), (TWO_BUFFERS, True, [2]), (OWN, True, [1, 1]),
        (OWN.replace("bars_k", "bars0").replace("bars_v", "bars1"), True, [2]),
    ],
)  # fmt: skip
def test_bulk_copies_are_rings_of_their_own_by_array_or_by_mbarriers(text, same, stages, monkeypatch):
    """Equal sizes, a buffer and mbarriers each, from two arrays or one: then names of mbarriers tell them apart. Of the
    CTAs one is recorded, whether they execute together or one after another.
    """
    gpu = smemsim.Gpu("sm_90a")
    a, b = (gpu.array(np.arange(64, dtype=np.uint32)) for _ in range(2))
    run = gpu.launch(text, args=[a, a if same else b], pipeline=True, progress=False)
    assert [len(ring.stages) for ring in run.pipeline.rings] == stages
    assert run.ok
    for together in (3, 1):
        monkeypatch.setattr(grid, "at_once", lambda launch, *, sanitizer=True, n=together: n)
        beside = gpu.launch(text, grid=3, args=[a, a if same else b], pipeline=True, progress=False, workers=1)
        assert verdict(beside.pipeline) == verdict(run.pipeline)
        assert beside.pipeline.sentences() == run.pipeline.sentences()
        assert beside.ok


def test_rings_of_one_array_with_mbarriers_of_their_own_are_apart(twins):
    """K and V in one tensor: as loads of one array they keep their verdicts. A loop that is unrolled stays one ring."""
    recorder = PipelineRecorder()
    smemsim.launch_file(twins / "attention_k_wrong", observers=[recorder], progress=False, sanitize=False)
    of_two = verdict(Pipeline.of(recorder, str))
    for one in recorder.fillings:
        one.sizes, one.variable = tuple((None, size) for _, size in one.sizes), "bars"
    assert verdict(Pipeline.of(recorder, str)) == of_two
    assert [ring[:2] for ring in of_two] == [(3, 1), (3, 2)]
    other = PipelineRecorder()
    (ring,) = usual(RIGHT)[2].rings
    names = {one.stage: dataclasses.replace(one.instruction) for one in ring.fillings}
    other.fillings = [dataclasses.replace(one, instruction=names[one.stage]) for one in ring.fillings]
    assert [len(one.stages) for one in Pipeline.of(other, str).rings] == [4]


def test_a_wait_that_comes_in_addition_is_left_out(tmp_path):
    """The right wait is there, and another one before it: the note names the one that is enough."""

    def twice(found):
        first = of_the_stage_before(found).replace("again", "first")
        return found[0] if found.start() < PRODUCER - 2000 else f"{first}\n@!P bra first;\n{found[0]}"

    both = WAIT.sub(twice, RIGHT)
    pipeline = ran(both, tmp_path, sanitize=False)[2]
    (note,) = pipeline.notes()
    held = pipeline.rings[0].held[-1]
    assert held.enough is not None
    assert "This wait comes in addition and can be left out: another one, at line " in note.why
    assert note.repair.startswith("leave this wait out: the wait at line ")
    (alone,) = usual(WRONG)[2].notes()
    assert "Enough would be mbarrier 0x438 (empty[3]) phase 2" in " ".join(alone.why.split())
    assert alone.repair.startswith("wait for the release of stage 3")


# Where a thread waits for what nobody brings: the second stage of the second buffer.
HANGS = TWO_BUFFERS.replace(
    "ld.shared.u32 %x, [tiles+256]; mbarrier.arrive.shared::cta.b64 _, [bars+24];", "ld.shared.u32 %x, [tiles+256];"
)


def as_of_first(recorder, first, threads):
    """All that was recorded, with threads, warps and CTAs counted from the recorded cluster on."""

    def moved(key):
        return None if key is None else (key[0] - first, *key[1:])

    def span(one):
        return (one.kind, one.begin, one.end, one.label, one.instruction.line, one.loads, one.reads)

    fillings = [
        (f.number, f.kind, f.instruction.line, f.thread - first * threads, moved(f.barrier), moved(f.stage), f.phase, f.at, f.full, f.read, f.free,
         f.issued, f.loads, f.reads, f.readers, f.sizes, f.is_full, [moved(place) for place in f.places],
         [(w.wait.line, moved(w.barrier), *w[2:]) for w in f.waits], sorted(f.origins), sorted(f.load_origins))
        for f in recorder.fillings
    ]  # fmt: skip
    lanes = recorder.lanes
    stuck = [
        (one.warps, one.instruction.line, one.thread - first * threads, moved(one.barrier), one.overdue, [moved(at) for at in one.elsewhere],
         None if one.missing is None else [(w, i.line) for w, i in one.missing.came])
        for one in lanes.stuck
    ]  # fmt: skip
    of_warps = {warp: [span(one) for one in spans] for warp, spans in sorted(lanes.warps.items())}
    of_engines = {engine: [span(one) for one in spans] for engine, spans in sorted(lanes.engines.items())}
    passes = {i.line: (p.fresh, p.again) for i, p in recorder.passes.items()}
    return fillings, of_warps, of_engines, stuck, passes, [name for _, name in sorted(recorder.barrier_names.items())]


@pytest.mark.parametrize("together", [8, 2])
@pytest.mark.parametrize(
    ("text", "block", "cluster"),
    [
        (copies(2, 4, 2), 32, 1),
        (copies(1, 4, 0), 32, 1),
        (TWO_BUFFERS, 64, 1),
        (HANGS, 64, 1),
        (MULTICAST.format(loads=5), 64, 2),
        (staged(WORDS, 32, 2), 64, 1),
    ],
    ids=["groups", "one group", "bulk", "hangs", "multicast", "words"],
)
def test_each_cta_has_the_record_of_the_first_if_it_does_the_same(text, block, cluster, together, monkeypatch):
    monkeypatch.setattr(grid, "at_once", lambda launch, *, sanitizer=True: together)
    gpu = smemsim.Gpu("sm_90a")
    array = gpu.array(np.arange(128, dtype=np.uint32))
    records = []
    for cta in (0, 3, 5) if cluster == 1 else (0, 2, 4):
        recorder = PipelineRecorder(cta=cta)
        args = [array] * text.count(".param .u64")
        gpu.launch(text, grid=6, block=block, args=args, observers=[recorder], progress=False, workers=1, sanitize=False)
        first = min(recorder.numbers)
        records.append(as_of_first(recorder, first, block))
        assert recorder.numbers == {first + n: cta + n for n in range(cluster)}
    assert records[0][0]
    assert all(record == records[0] for record in records[1:])


# Warp 1 loads into four stages, and waits for each load before it issues the next one.
IN_TURN = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) .reqntid 64, 1, 1 {
.reg .b32 %t, %n, %x, %s, %b, %parity; .reg .b64 %g, %st; .reg .pred %p;
.shared .align 128 .b8 tiles[1024]; .shared .align 8 .b8 bars[32];
ld.param.u64 %g, [p]; mov.u32 %t, %tid.x; mov.u32 %n, 0; setp.ne.u32 %p, %t, 32;
@%p ret;
mbarrier.init.shared::cta.b64 [bars], 1; mbarrier.init.shared::cta.b64 [bars+8], 1;
mbarrier.init.shared::cta.b64 [bars+16], 1; mbarrier.init.shared::cta.b64 [bars+24], 1;
LOOP: and.b32 %x, %n, 3; mov.u32 %s, tiles; mad.lo.u32 %s, %x, 256, %s; mov.u32 %b, bars; mad.lo.u32 %b, %x, 8, %b;
shr.u32 %parity, %n, 2; and.b32 %parity, %parity, 1;
mbarrier.arrive.expect_tx.shared::cta.b64 %st, [%b], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%g], 256, [%b];
W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], %parity;
@!%p bra W;
ld.shared.u32 %x, [%s]; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 12;
@%p bra LOOP;
ret;
}"""


@pytest.mark.parametrize("cta", [0, 3])
def test_the_warp_of_a_sentence_is_counted_in_its_cta(cta):
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(IN_TURN, grid=4, args=[gpu.array(np.arange(64, dtype=np.uint32))], pipeline={"cta": cta}, progress=False)
    (note,) = run.pipeline.notes()
    assert "where warp 1 waits for" in note.why
    assert "leave this wait out in warp 1" in note.repair
