"""The pipeline of a kernel: how many loads its barriers allow, and which wait holds a ring of stages back."""

import json
import re
import tarfile

import pytest
from click.testing import CliRunner

import smemsim
from gpu_faults import KERNELS
from places import ROOT
from smemsim import InputError
from smemsim.cli import main
from smemsim.diagnosis import Pipeline
from smemsim.run.pipeline import Costs, PipelineRecorder

FOLDER = KERNELS / "gemm_specialized_k1024"  # four stages, sixteen loads, two warpgroups that multiply
RIGHT = (FOLDER / "kernel.ptx").read_text()
WAIT = re.compile(r"again:\nmbarrier\.try_wait\.parity\.shared::cta\.b64 P, \[(%r\d+)\], (%r\d+);")
EMPTY = next(name for name in re.findall(r"\b\w+\b", RIGHT) if name.endswith("empty"))
PRODUCER = RIGHT.index("mbarrier.arrive.expect_tx")  # what waits a little before it, or behind it, is the thread that loads


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


def ran(text, tmp_path, *, costs=None, **options):
    (tmp_path / "kernel.ptx").write_text(text)
    recorder = PipelineRecorder(costs=costs)
    run, arrays = smemsim.launch_file(FOLDER / "launch.json", ptx=tmp_path / "kernel.ptx", observers=[recorder], progress=False, **options)
    return run, arrays["C"].numpy().tobytes(), Pipeline.of(recorder, lambda i: f"line {i.line}", is_over=run.ctas == run.launch.ctas)


def verdict(pipeline):
    return [(len(ring.stages), ring.effective, ring.allowed, [(h.load, h.needs, h.newer) for h in ring.held]) for ring in pipeline.rings]


def test_a_ring_whose_waits_are_right_works_with_all_its_stages(tmp_path):
    run, _, pipeline = ran(RIGHT, tmp_path)
    (ring,) = pipeline.rings
    assert run.ok
    assert (len(ring.stages), ring.effective, ring.depth, ring.held) == (4, 4, 4, ())
    assert pipeline.sentences()[0].endswith("all stages work; up to 4 loads are in flight.")


def test_a_wait_for_another_stage_holds_the_ring_back_and_changes_no_number(tmp_path):
    run, left, pipeline = ran(WRONG, tmp_path)
    (ring,) = pipeline.rings
    assert run.ok
    assert left == ran(RIGHT, tmp_path)[1]
    assert (len(ring.stages), ring.effective, len(ring.held), ring.refills) == (4, 1, 12, 12)
    last = ring.held[-1]
    assert (last.load, last.needs, last.newer) == (15, 11, (12, 13, 14))
    text = WRONG.splitlines()
    assert text[last.origin.wait.line - 1].startswith("mbarrier.try_wait")
    assert "mbarrier.arrive" in text[last.origin.arrival.line - 1]
    assert "wgmma.wait_group" in text[last.origin.first.line - 1]
    for part in ("4 stages work as 1", "needs the MMAs of load 11", "waits for those of load 14", "12 of 12 loads"):
        assert part in pipeline.sentences()[0]


@pytest.mark.parametrize("text", [RIGHT, WRONG], ids=["right", "wrong"])
@pytest.mark.parametrize("schedule", ["latest", 3])
def test_no_schedule_changes_the_verdict(tmp_path, text, schedule):
    assert verdict(ran(text, tmp_path, schedule=schedule)[2]) == verdict(ran(text, tmp_path)[2])


@pytest.mark.parametrize("costs", [Costs(1, 1, 1), Costs(3000, 10, 100)])
def test_no_cost_changes_the_verdict(tmp_path, costs):
    usual = ran(WRONG, tmp_path)[2]
    other = ran(WRONG, tmp_path, costs=costs)[2]
    assert verdict(other) == verdict(usual)
    assert other.as_dict()["rings"][0]["loads"] != usual.as_dict()["rings"][0]["loads"]


def test_loads_in_flight_never_exceed_what_the_barriers_allow(tmp_path):
    """With loads that take long the assumed schedule reaches what is allowed, and never more."""
    (ring,) = ran(RIGHT, tmp_path, costs=Costs(3000, 0, 1))[2].rings
    for one, allowed in zip(ring.fillings, ring.allowed, strict=True):
        flying = sum(other.at <= one.at < other.full for other in ring.fillings[: one.number + 1])
        assert flying <= allowed
    assert max(sum(o.at <= one.at < o.full for o in ring.fillings[: one.number + 1]) for one in ring.fillings) == ring.depth


def test_of_a_kernel_that_hangs_no_ring_is_called_right(tmp_path):
    before, _, behind = RIGHT.rpartition("mbarrier.arrive.shared::cta.b64 _, ")
    run, _, pipeline = ran(before + "// " + behind, tmp_path)
    assert "X006" in [f.code for f in run.findings]
    assert "before the kernel stopped" in pipeline.sentences()[-1]
    assert pipeline.sentences()[0].startswith("warp 0 never goes on at line ")
    assert pipeline.notes() == []


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
    assert rows["came"] == "warp 4 of CTA (0, 0, 0)"
    assert rows["overdue"].startswith("warp 8 of CTA (0, 0, 0) waits at line ")
    assert "1 of 2 arrivals are missing" in first.why


def test_the_command_prints_the_verdict_and_writes_a_picture(tmp_path):
    (tmp_path / "kernel.ptx").write_text(WRONG)
    command = ["run", str(tmp_path / "kernel.ptx"), "--launch", str(FOLDER / "launch.json"), "--pipeline"]
    for suffix in ("svg", "txt", "json"):
        done = CliRunner().invoke(main, [*command, str(tmp_path / f"p.{suffix}")])
        assert done.exit_code == 0
        assert "4 stages work as 1" in " ".join(done.output.split())
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    assert max(map(len, (tmp_path / "p.txt").read_text().splitlines()[2:7])) <= 110
    (ring,) = json.loads((tmp_path / "p.json").read_text())["rings"]
    assert (ring["stages"], ring["effective"], ring["held_back"], len(ring["loads"])) == (4, 1, True, 16)
    refused = CliRunner().invoke(main, [*command, str(tmp_path / "p.png")])
    assert refused.exit_code == 2
    assert ".svg, .txt, .json" in refused.output


def test_a_launch_without_a_record_says_how_to_get_one(tmp_path):
    run, _ = smemsim.launch_file(FOLDER, progress=False)
    with pytest.raises(InputError, match="pipeline=True"):
        _ = run.pipeline
    with pytest.raises(InputError, match="one process"):
        smemsim.launch_file(FOLDER, pipeline=True, workers=2)


@pytest.mark.parametrize("name", ["triton_tma_f16_stages4", "gluon_specialized_e4m3", "cuda_kit_bf16_1_kk_128b_128b"])
def test_rings_of_tcgen05_allow_as_many_loads_as_they_have_stages(tmp_path, name):
    with tarfile.open(ROOT / "golden" / "compiled" / "launches_sm_100a" / "launches.tar.xz") as archive:
        archive.extractall(tmp_path, [one for one in archive.getmembers() if one.name.split("/")[-2:][0] == name], filter="data")
    run, _ = smemsim.launch_file(next(tmp_path.rglob("launch.json")).parent, pipeline=True, progress=False)
    (ring,) = run.pipeline.rings
    assert len(ring.stages) - 1 <= ring.depth <= len(ring.stages)
    assert not ring.held
