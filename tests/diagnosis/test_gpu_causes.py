"""What a finding names as the cause: the part of a multicast that does not come, the bytes that were counted wrongly,
coordinates that are exchanged, and of a launch that hangs what holds the others up.
"""

import re

import numpy as np
import pytest

import smemsim
from gpu_faults import RING, Fault, launched, sub
from launches import found, kernel
from launches import run as executed
from smemsim.core.finding import OR

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.shared .align 1024 .b8 sm[4096];
.shared .align 8 .b64 bar[4];
"""


# ---- boxes outside of their tensor

BOXES = (
    HEAD
    + """
.visible .entry k(.param .align 64 .b8 tm[128], .param .u64 o) {
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
mov.u64 %rd1, tm; cvta.param.u64 %rd1, %rd1; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, %ctaid.x; mov.u32 %r3, 0;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
mul.lo.u32 %r4, %r2, {step};
@!%p1 bra W;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd1, {{at}}], [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra W;
ret;
}
"""
)


def boxes(at: str, step: int, dims: tuple[int, int], grid: int) -> list[smemsim.Finding]:
    gpu = smemsim.Gpu("sm_90a")
    x = gpu.array(np.zeros(dims[::-1], np.uint32))
    tm = smemsim.TensorMap.tiled(data_type="u32", global_address=x.address, global_dim=dims, global_strides=[4 * dims[0]], box_dim=(32, 8))
    text = BOXES.replace("{step}", str(step)).replace("{{at}}", "{" + at + "}").replace("; ", ";\n")
    return gpu.launch(text, grid=grid, block=32, args=[tm, x], progress=False).findings


@pytest.mark.parametrize(
    ("at", "step", "dims", "grid", "codes"),
    [
        ("%r3, %r4", 8, (32, 64), 8, []),
        ("%r4, %r3", 8, (32, 64), 8, ["T209"]),  # the rows' coordinate stands first
        ("%r4, %r3", 32, (256, 8), 8, []),
        ("%r3, %r4", 32, (256, 8), 8, ["T209"]),
        ("%r3, %r4", 8, (32, 52), 9, []),  # a box past a ragged end
        ("%r3, %r4", 8, (32, 8), 3, []),  # more CTAs than tiles
    ],
    ids=["rows", "rows, exchanged", "columns", "columns, exchanged", "ragged", "too many"],
)
def test_boxes_that_lie_inside_with_two_coordinates_exchanged(at, step, dims, grid, codes):
    told = boxes(at, step, dims, grid)
    assert [f.code for f in told] == codes
    assert all("with coordinates 0 and 1 exchanged" in f.message for f in told)


# ---- bytes

LOADS = """@%p9 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0; @!%p9 bra W; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {expected};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d20], 256, [bar];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+256], [%d20], 128, [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;"""


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (256, "leave out the bytes of line"),
        (128, "leave out the bytes of line"),
        (768, "twice the bytes that arrive"),
        (192, "half of the bytes that arrive"),
        (320, "expect 384 bytes in line 14, if"),
    ],
)
def test_bytes_that_are_counted_wrongly(expected, why):
    gpu = smemsim.Gpu("sm_90a")
    x = gpu.array(np.zeros(64, np.uint32))
    first = gpu.launch(kernel(1, LOADS.format(expected=expected)), args=[x], block=32, progress=False).findings[0]
    assert first.code == "T210"
    assert why in f"{first.message}; {first.repair}"
    assert found(LOADS.format(expected=384), np.zeros(64, np.uint32)) == {}


# Each CTA of a cluster of four loads a part for itself and for the CTA two ranks further.
PARTS = (
    HEAD
    + """
.visible .entry k(.param .u64 in) {
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [in]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r4, %cluster_ctarank; shr.u32 %r5, %r4, 1; and.b32 %r6, %r4, 1;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1;
@%p1 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@!%p1 bra W;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
{guard} bra W;
mov.u32 %r7, {mask}; shl.b32 %r7, %r7, %r6; cvt.u16.u32 %h1, %r7; mov.u32 %r8, sm; mad.lo.u32 %r8, %r5, 256, %r8;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r8], [%rd1], 256, [bar], %h1;
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra W;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ret;
}
"""
)


@pytest.mark.parametrize(
    ("mask", "guard", "says"),
    [
        ("5", "@!%p1", []),
        ("4", "@!%p1", ["its mask 0x4 leaves out bit 0", "the mask 0x5"]),
        ("5", "setp.gt.u32 %p3, %r4, 1;\n@%p3", ["CTA 2, 3 has not issued it"]),
    ],
    ids=["right", "a mask without its own CTA", "two CTAs do not issue theirs"],
)
def test_the_part_of_a_multicast_that_does_not_come(mask, guard, says):
    gpu = smemsim.Gpu("sm_90a")
    text = PARTS.replace("{mask}", mask).replace("{guard}", guard).replace("; ", ";\n")
    findings = gpu.launch(text, grid=4, cluster=4, block=32, args=[gpu.array(np.zeros(64, np.uint32))], progress=False).findings
    assert [f.code for f in findings][:1] == ["T210"] * bool(says)
    assert all(one in f"{findings[0].message}; {findings[0].repair}" for one in says)


def test_a_store_to_another_cta_that_only_one_gets():
    """CTA 0 gives both CTAs a word; or forgets the other one."""

    def given(count: int) -> dict[str, str]:
        body = f"""mov.u32 %r4, %cluster_ctarank; @%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p9 bra W; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;
        setp.ne.u32 %p2, %r4, 0; @%p2 bra W; mov.u32 %r5, 0; mov.u32 %r8, sm; mov.u32 %r9, bar;
        L: mapa.shared::cluster.u32 %r6, %r8, %r5; mapa.shared::cluster.u32 %r7, %r9, %r5;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6], %r4, [%r7]; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, {count}; @%p3 bra L;
        W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
        return found(body, grid=2, cluster=2)

    assert given(2) == {}
    assert "it goes to CTA 0 only" in given(1)["T210"]


# ---- hangs

# Three times both CTAs give CTA 0 a word; in one `round` CTA 1 waits first for an arrival that never comes.
HELD = """mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p3, %r4, 0; mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.init.shared::cta.b64 [bar+8], 1;
fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r8, sm; mov.u32 %r9, bar; mov.u32 %r11, 0;
mapa.shared::cluster.u32 %r6, %r8, 0; mapa.shared::cluster.u32 %r7, %r9, 0; mad.lo.u32 %r6, %r4, 4, %r6;
L: @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 8; setp.ne.u32 %p4, %r11, {round}; or.pred %p4, %p4, %p3; @%p4 bra S;
H: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0; @!%p1 bra H;
S: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6], %r4, [%r7]; and.b32 %r12, %r11, 1; @!%p3 bra N;
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], %r12; @!%p1 bra W;
N: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; add.u32 %r11, %r11, 1; setp.lt.u32 %p5, %r11, 3; @%p5 bra L;
"""


@pytest.mark.parametrize("held", [0, 1, 2, 3])
def test_bytes_of_a_cta_that_waits_elsewhere_are_not_counted_wrongly(held):
    """The expected bytes are right: the first finding is the wait that holds up the copy. There is no T210."""
    gpu = smemsim.Gpu("sm_90a")
    text = kernel(1, HELD.format(round=held))
    findings = gpu.launch(text, grid=2, cluster=2, block=1, args=[gpu.zeros(64, "u4")], progress=False).findings
    line = next(n for n, one in enumerate(text.split("\n"), 1) if one.startswith("H:"))
    assert [(f.code, f.line) for f in findings][:1] == [("X006", line)] * (held < 3)
    assert "T210" not in {f.code for f in findings}


def test_what_holds_others_up_is_told_first():
    """Warps 1 and 2 wait for each other at two barriers, and warp 0 for an arrival that comes behind them; its line is
    the first of the kernel.
    """
    body = """@%p9 mbarrier.init.shared::cta.b64 [bar], 2; bar.sync 0; setp.ge.u32 %p1, %r1, 32; @%p1 bra OTHERS;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W; bra E;
    OTHERS: shr.u32 %r3, %r1, 5; {} bar.sync %r3, 64; and.b32 %r4, %r1, 31; setp.eq.u32 %p3, %r4, 0; @%p3 mbarrier.arrive.shared::cta.b64 _, [bar]; E:"""
    text = kernel(0, body.format("").replace("; ", ";\n"))
    findings = smemsim.Gpu("sm_90a").launch(text, block=96, progress=False).findings
    assert [(f.code, "bar.sync" in f.instruction) for f in findings] == [("X006", True), ("X006", False)]
    assert found(body.format("mov.u32 %r3, 1;"), block=96) == {}


@pytest.mark.parametrize("gives", ["", "mbarrier.arrive.shared::cta.b64 _, [ready];"])
def test_the_mbarrier_at_which_nothing_arrives_is_the_cause_of_a_hang(gives):
    """Warp 0 waits until warp 1 has freed the accumulator, and warp 1 until it is ready: each could arrive elsewhere."""
    body = f""".shared .b64 stage; .shared .b64 free; .shared .b64 ready; @%p9 mbarrier.init.shared::cta.b64 [stage], 1;
    @%p9 mbarrier.init.shared::cta.b64 [free], 1; @%p9 mbarrier.init.shared::cta.b64 [ready], 1; bar.sync 0;
    and.b32 %r4, %r1, 31; setp.ne.u32 %p3, %r4, 0; @%p3 exit; setp.ge.u32 %p1, %r1, 32; @%p1 bra EPILOGUE; {gives}
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [free], 0; @!%p2 bra W; mbarrier.arrive.shared::cta.b64 _, [stage]; bra E;
    EPILOGUE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [ready], 0; @!%p2 bra EPILOGUE; mbarrier.arrive.shared::cta.b64 _, [free]; E:"""
    text = kernel(0, body.replace("; ", ";\n"))
    findings = smemsim.Gpu("sm_90a").launch(text, block=64, progress=False).findings
    line = next(n for n, one in enumerate(text.split("\n"), 1) if "EPILOGUE: " in one)
    assert [(f.code, f.line == line, f.cause is None) for f in findings] == [("X006", True, True), ("X006", False, False)] * (not gives)
    assert all("no instruction of the kernel can arrive at it" in f.why for f in findings[:1])


# ---- own ranks


@pytest.mark.parametrize(("rank", "codes"), [("%r4", ["X019"]), ("%r5", [])])
def test_mapa_of_ones_own_rank_by_generic_addresses(rank, codes):
    """As cooperative groups' map_shared_rank makes them."""
    text = (
        HEAD
        + f""".visible .entry k(.param .u64 o) {{ .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .pred %p<4>;
    ld.param.u64 %rd1, [o]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r4, %cluster_ctarank; xor.b32 %r5, %r4, 1; mov.u32 %r6, sm; st.shared.u32 [%r6], %r4;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    cvt.u64.u32 %rd2, %r6; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, {rank}; ld.u32 %r7, [%rd3];
    mul.wide.u32 %rd4, %r4, 4; add.u64 %rd4, %rd4, %rd1; st.global.u32 [%rd4], %r7;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }}""".replace("; ", ";\n")
    )
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(text, grid=2, cluster=2, block=1, args=[gpu.array(np.zeros(2, np.uint32))], progress=False)
    assert [f.code for f in (*run.findings, *run.remarks)] == codes


# ---- stages


@pytest.mark.parametrize(
    ("parity", "arrives", "words"),
    [
        ("%r5", "", None),
        ("", "", "wait for an mbarrier at which its readers arrive"),
        ("1", "", "phase 0 is not complete there, and parity 1 of a new mbarrier counts as complete"),
        ("%r5", "mbarrier.arrive.shared::cta.b64 _, [bar+8];", "after the reads"),
    ],
    ids=["right", "no wait", "parity 1 twice", "the arrival before the reads"],
)
def test_a_stage_that_is_loaded_again_before_anybody_has_read_it(parity, arrives, words):
    body = """@%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 mbarrier.init.shared::cta.b64 [bar+8], 32; bar.sync 0; mov.u32 %r3, 0; setp.ge.u32 %p1, %r1, 32; @%p1 bra T;
    @!%p9 bra E; G: and.b32 %r4, %r3, 1; xor.b32 %r5, %r4, 1; {} mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d20], 128, [bar]; add.u64 %d20, %d20, 128; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 2; @%p3 bra G; bra E;
    T: {} and.b32 %r4, %r3, 1; V: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], %r4; @!%p4 bra V; mov.u32 %r6, sm; ld.shared.u32 %r7, [%r6];
    st.global.u32 [%d21], %r7; fence.proxy.async.shared::cta; mbarrier.arrive.shared::cta.b64 _, [bar+8]; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 2; @%p3 bra T; E:"""
    wait = f"U: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar+8], {parity}; @!%p2 bra U;" if parity else ""
    body = (
        body.replace(
            "st.global.u32 [%d21], %r7; fence.proxy.async.shared::cta; mbarrier.arrive.shared::cta.b64 _, [bar+8];",
            "st.global.u32 [%d21], %r7;",
        )
        if arrives
        else body
    )
    done, _ = executed(body.format(wait, arrives).replace("; ", ";\n"), [np.arange(64, dtype=np.uint32), np.zeros(1, np.uint32)], block=64)
    told = {f.code: f"{f.message} {f.repair}" for f in done.result.findings.values()}
    fixes = [f.repair.split(OR) for f in done.result.findings.values() if f.code == "X005"]
    assert all(len(each) == 1 + bool(parity) for each in fixes)  # one in each row
    assert ("no thread has read yet what the earlier copy brought" in told.get("X005", "")) == (words is not None)
    assert words in told["X005"] if words else not told


# ---- clusters


@pytest.mark.parametrize(
    ("meet", "codes"),
    [("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", set()), ("bar.sync 0;", {"X008"})],
    ids=["the cluster", "the CTA alone"],
)
def test_a_cta_that_runs_ahead_of_one_that_reads_its_memory(meet, codes):
    body = f"""mov.u32 %r4, %cluster_ctarank; xor.b32 %r5, %r4, 1; mov.u32 %r6, sm; mad.lo.u32 %r6, %r1, 4, %r6; st.shared.u32 [%r6], %r1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mapa.shared::cluster.u32 %r7, %r6, %r5; ld.shared::cluster.u32 %r2, [%r7];
    {meet} add.u32 %r8, %r1, 5; st.shared.u32 [%r6], %r8; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mad.lo.u32 %r9, %r4, 32, %r1; mul.wide.u32 %d1, %r9, 4; add.u64 %d1, %d1, %d20; st.global.u32 [%d1], %r2;"""
    gpu = smemsim.Gpu("sm_90a")
    text = kernel(1, body.replace("; ", ";\n"))
    findings = gpu.launch(text, grid=2, cluster=2, block=32, args=[gpu.array(np.zeros(64, np.uint32))], progress=False).findings
    assert {f.code for f in findings} == codes
    assert all(
        "may be overwritten before it is read" in f.message and "of CTA 0" in f.message and "barrier.cluster" in f.repair for f in findings
    )


# ---- locks


@pytest.mark.parametrize("fence", ["fence.acq_rel.gpu;", ""])
def test_a_lock_without_a_fence_is_told_as_that(fence):
    """Two warps of one CTA, which a barrier of all threads could order as well: the lock is what is meant."""
    body = f"""and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 0; @%p1 bra E; T: atom.relaxed.gpu.global.cas.b32 %r4, [%d21], 0, 1; setp.ne.u32 %p2, %r4, 0; @%p2 bra T; {fence}
    ld.global.u32 %r5, [%d20]; add.u32 %r5, %r5, 1; st.global.u32 [%d20], %r5; fence.acq_rel.gpu; atom.relaxed.gpu.global.exch.b32 %r4, [%d21], 0; E:"""
    gpu = smemsim.Gpu("sm_90a")
    arrays = [gpu.array(np.zeros(1, np.uint32)) for _ in range(2)]
    findings = gpu.launch(kernel(2, body.replace("; ", ";\n")), block=64, args=arrays, progress=False).findings
    assert [f.code for f in findings][:1] == ([] if fence else ["X008"])
    assert fence or re.search(r"after line \d+, or .acquire instead of .relaxed", findings[0].repair)


# ---- places


def test_bytes_of_bulk_copies_are_counted_at_their_lines():
    body = """.shared .align 128 .b8 sm[512]; .shared .align 8 .b64 bar; .reg .b64 %rd<4>; .reg .pred %p; .reg .b64 %st;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [d]; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 %st, [bar], 384;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd1], 256, [bar];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+256], [%rd1], 128, [bar];
W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra W;
fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%rd2], [sm], 384; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    ptx = f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 d) {{ {body} ret; }}"
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(
        ptx, grid=2, block=1, args=[gpu.array(np.arange(256, dtype=np.uint8)), gpu.array(np.zeros(384, np.uint8))], counters=True
    )
    assert run.findings == []
    rows = zip(run.counters["line"].tolist(), run.counters["copied_bytes"].tolist(), strict=True)
    assert [(line, size) for line, size in rows if size] == [(7, 512), (8, 256), (10, 768)]


def test_line_0_is_no_line_of_the_source():
    """nvcc writes it for what it has moved: the line in front of it is told."""
    text = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o) { .reg .b64 %rd<4>; .reg .b32 %r<4>;
.loc 1 7 3
ld.param.u64 %rd1, [o];
.loc 1 0 3
st.global.u32 [%rd1+4096], %r1;
ret; }
.file 1 "kernel.cu"
"""
    gpu = smemsim.Gpu("sm_90a")
    (finding,) = gpu.launch(text, block=1, args=[gpu.array(np.zeros(1, np.uint32))], progress=False).findings
    assert (finding.code, str(finding.place)) == ("X001", "kernel.cu:7")


# ---- arrivals that land at another CTA's mbarrier

# The first CTA of each pair of a cluster of four commits to its pair, or the second one arrives at the first; all that
# are meant wait.
LANDS = """mov.u32 %r4, %cluster_ctarank; and.b32 %r5, %r4, 2; and.b32 %r6, %r4, 1; setp.eq.u32 %p2, %r6, {half}; and.pred %p2, %p2, %p9; setp.eq.u32 %p4, %r6, 0; mov.u32 %r9, bar;
@%p9 mbarrier.init.shared::cta.b64 [bar], {count}; @%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
shl.b32 %r7, 3, {shift}; cvt.u16.u32 %h1, %r7; mapa.shared::cluster.u32 %r8, %r9, {shift};
@%p2 {arrives}
W: {some} mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0; {some} @!%p1 bra W; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
COMMIT = {
    "arrives": "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r9], %h1;",
    "half": 0,
    "some": "",
}
ARRIVE = {"arrives": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];", "half": 1, "some": "@%p4"}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("how", "where", "why", "repair"),
    [
        (COMMIT, "sm_100a", "the mask 0x3 of tcgen05.commit", "in CTA 2 the mask 0xc (0x3 << 2)"),
        (ARRIVE, "sm_90a", "of CTA 3 arrives at the mbarrier of CTA 0", "in CTA 3, mapa to rank 2 instead of 0"),
    ],
)
def test_arrivals_that_land_at_another_ctas_mbarrier_are_told_by_their_mask_or_rank(how, where, why, repair, count):
    shape = {"arch": where, "grid": 4, "cluster": 4}
    body = (
        LANDS.replace("{some} @!%p1", "@!%p1")
        if not how["some"]
        else LANDS.replace("{some} @!%p1 bra W;", "setp.eq.u32 %p5, %r6, 1; or.pred %p1, %p1, %p5; @!%p1 bra W;")
    )
    assert found(body.format(**how, shift="%r5", count=1), **shape) == {}
    gpu = smemsim.Gpu(where)
    findings = gpu.launch(
        kernel(0, body.format(**how, shift=0, count=count), arch=where), grid=4, cluster=4, block=32, progress=False
    ).findings
    first = findings[0]
    starved = "CTAs 2, 3 get no arrival" if how is COMMIT else "CTA 2 gets no arrival"
    assert (first.code, starved in first.message, why in first.message, repair in first.repair) == ("X006", True, True, True)
    assert "count" not in first.repair


@pytest.mark.parametrize(("mask", "repair"), [("3", None), ("1", "the mask 0x3")])
def test_a_commit_whose_mask_leaves_out_the_peer_is_named_in_a_loop_of_both(mask: str, repair: str | None):
    """The code of both CTAs leads to the commit, which a predicate leaves to CTA 0."""
    body = f"""mov.u32 %r4, %cluster_ctarank; mov.u32 %r9, bar; mov.u32 %r8, 0; setp.eq.u32 %p4, %r4, 0; and.pred %p4, %p4, %p9; mov.u16 %h1, {mask};
    @%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    L: @%p4 {COMMIT["arrives"]} and.b32 %r7, %r8, 1;
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], %r7; @!%p1 bra W; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 2; @%p3 bra L;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    gpu = smemsim.Gpu("sm_100a")
    findings = gpu.launch(kernel(0, body, arch="sm_100a"), grid=2, cluster=2, block=32, progress=False).findings
    assert [f.code for f in findings if f.cause is None] == ["X006"] * (repair is not None)
    assert all("leaves out bit 1" in f.message and repair in f.repair for f in findings[:1])


LEADER = """mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p4, %r4, 0; and.pred %p4, %p4, %p9; mov.u32 %r6, sm; mov.u32 %r9, bar; and.b32 %r9, %r9, 0xfeffffff;
@%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};
@%p9 cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%d20, {{%r5}}], [%r9];
@!%p4 bra E;
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W; E: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""


@pytest.mark.parametrize("bytes_", [512, 256])
def test_loads_of_the_peer_that_complete_at_the_leader_are_no_multicasts(bytes_: int):
    gpu = smemsim.Gpu("sm_100a")
    array = gpu.array(np.zeros(64, np.uint32))
    tm = smemsim.TensorMap.tiled(data_type="u32", global_address=array.address, global_dim=(64,), global_strides=(), box_dim=(64,))
    body = "mov.u32 %r5, 0; " + LEADER.format(bytes=bytes_)
    findings = gpu.launch(
        kernel(1, body, arch="sm_100a"), grid=2, cluster=2, block=32, args=[gpu.array(np.frombuffer(bytes(tm), np.uint8))], progress=False
    ).findings
    assert [f.code for f in findings][:1] == ["T210"] * (bytes_ == 256)
    assert all("count the loads of CTA 0 only; those of CTA 1 complete on this mbarrier too" in f.message for f in findings[:1])


@pytest.mark.parametrize("size", [128, 144])
def test_the_copies_of_a_phase_are_listed_or_counted(size: int):
    """Eight instructions bring 16 bytes each; six have a row of their own."""
    copy = "@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+{at}], [%d20+{at}], 16, [bar];"
    body = "@%p9 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n" + f"@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {size};\n"
    body += "\n".join(copy.format(at=16 * n) for n in range(8)) + "\nW: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;\n@!%p1 bra W;"
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), grid=1, block=32, args=[gpu.array(np.zeros(64, np.uint32))], progress=False, try_fixes=False)
    assert [f.code for f in run.findings if f.cause is None] == ["T210"] * (size == 144)
    assert all("32 bytes by 2 more instructions" in f.message for f in run.findings[:1])


# ---- waits and arrivals that are there, and are too weak


def _repairs(body: str, **shape) -> dict[str, str]:
    gpu = smemsim.Gpu("sm_90a")
    arrays = [gpu.array(np.zeros(4096, np.uint32))]
    run = gpu.launch(kernel(1, body.replace("; ", ";\n")), args=arrays, progress=False, **{"grid": 1, "block": 32, **shape})
    return {f.code: f.repair for f in run.findings}


def test_a_wait_that_is_relaxed_is_told_so():
    body = """@%p9 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
    @%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d20], 256, [bar];
    W: mbarrier.try_wait.parity.{how}.cta.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W; shl.b32 %r2, %r1, 2; mov.u32 %r3, sm; add.u32 %r2, %r2, %r3;
    ld.shared.u32 %r4, [%r2]; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; st.global.u32 [%d1+1024], %r4;"""
    assert _repairs(body.format(how="acquire")) == {}
    found = _repairs(body.format(how="relaxed"))
    assert list(found) == ["X004"]
    assert found["X004"].startswith(".acquire instead of .relaxed in line ")


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_wait_that_leaves_the_group_pending_is_told_with_the_number_that_does_not(left):
    copies = """shl.b32 %r2, %r1, 4; mov.u32 %r3, sm; add.u32 %r2, %r2, %r3; mul.wide.u32 %d1, %r1, 16; add.u64 %d1, %d1, %d20;
    cp.async.ca.shared.global [%r2], [%d1], 16; cp.async.commit_group; cp.async.ca.shared.global [%r2+512], [%d1], 16; cp.async.commit_group;
    cp.async.wait_group {left}; ld.shared.u32 %r4, [%r2+{at}]; st.global.u32 [%d1+1024], %r4;"""
    stores = """mov.u32 %r3, sm; shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], 5; fence.proxy.async.shared::cta; bar.sync 0; @!%p9 bra E;
    cp.async.bulk.global.shared::cta.bulk_group [%d20], [sm], 16; cp.async.bulk.commit_group;
    cp.async.bulk.global.shared::cta.bulk_group [%d20+64], [sm+16], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read {left};
    st.shared.u32 [sm+{at}], 7; cp.async.bulk.wait_group 0; E: bar.warp.sync -1;"""
    for body, code, wait, first, second in (
        (copies, "X004", "cp.async.wait_group", 0, 512),
        (stores, "X005", "cp.async.bulk.wait_group.read", 0, 16),
    ):
        for younger, at in ((1, first), (0, second)):
            found = _repairs(body.format(left=left, at=at))
            if younger >= left:
                assert found == {}
            else:
                assert list(found) == [code]
                assert found[code].startswith(f"{wait} {younger} instead of {left} in line ")


def test_an_arrival_whose_scope_is_too_narrow_is_told_so():
    """As the generic proxy has it; a fence and a barrier are there."""
    body = """mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p2, %r4, 1; mov.u32 %r9, bar; mov.u32 %r10, sm; and.pred %p3, %p2, %p9;
    @%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r8, %r9, 0; mapa.shared::cluster.u32 %r11, %r10, 1; @%p3 st.shared.u32 [sm], 7;
    @%p3 mbarrier.arrive.release.{scope}.shared::cluster.b64 _, [%r8]; @%p2 bra E; @!%p9 bra E;
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W; ld.shared::cluster.u32 %r12, [%r11]; st.global.u32 [%d20], %r12;
    E: bar.warp.sync -1; barrier.cluster.arrive; barrier.cluster.wait;"""
    assert _repairs(body.format(scope="cluster"), grid=2, cluster=2) == {}
    found = _repairs(body.format(scope="cta"), grid=2, cluster=2)
    assert list(found) == ["X008"]
    assert found["X008"].startswith(".cluster instead of .cta in line ")


@pytest.mark.parametrize("size", [252, 256])
def test_the_size_that_is_proposed_for_a_bulk_copy_fits_into_the_array(size):
    body = """mov.u32 %r3, sm; shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; fence.proxy.async.shared::cta; bar.sync 0; @!%p9 bra E;
    cp.async.bulk.global.shared::cta.bulk_group [%d20], [sm], {size}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E: bar.warp.sync -1;"""
    for elements, repair in ((63, "copy 240 bytes in bulk, and the last 12 bytes by st.global"), (64, "copy 256 bytes")):
        gpu = smemsim.Gpu("sm_90a")
        text = kernel(1, body.format(size=size).replace("; ", ";\n"))
        found = gpu.launch(text, block=64, args=[gpu.array(np.zeros(elements, np.uint32))], progress=False).findings
        if (size, elements) == (256, 64):
            assert found == []
        else:
            ((code, told),) = ((f.code, f.repair) for f in found)
            assert (code, told.startswith(repair)) == ("A103" if size == 252 else "X001", True)


def test_a_missing_fence_is_not_the_cause_of_an_overwrite_in_flight():
    body = """mov.u32 %r3, sm; shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], 5; bar.sync 0; @!%p9 bra E;
    cp.async.bulk.global.shared::cta.bulk_group [%d20], [sm], 128; cp.async.bulk.commit_group; st.shared.u32 [sm], 7; cp.async.bulk.wait_group 0; E: bar.warp.sync -1;"""
    gpu = smemsim.Gpu("sm_90a")
    findings = gpu.launch(
        kernel(1, body.replace("; ", ";\n")), block=32, args=[gpu.array(np.zeros(64, np.uint32))], progress=False
    ).findings
    assert {f.code: f.cause for f in findings} == {"X003": None, "X005": None}


@pytest.mark.parametrize("everybody", ["", "wait"])
@pytest.mark.parametrize("words", [32, 64])
def test_bytes_that_nothing_writes_are_a_fault_of_their_own(everybody, words):
    """64 threads read 64 words, of which a copy brings some: the wait that is missing does not bring the others."""
    body = f"""mov.u32 %r3, sm; shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r3; @%p9 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @!%p9 bra E{everybody};
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], {4 * words};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d20], {4 * words}, [bar];
    Ewait: W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;
    E: ld.shared.u32 %r4, [%r2]; mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d20, %d1; st.global.u32 [%d1], %r4;"""
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(kernel(1, body.replace("; ", ";\n")), block=64, args=[gpu.array(np.arange(64, dtype=np.uint32))], progress=False)
    waits = [] if everybody else ["X004"]
    assert {f.code: f.cause for f in run.findings} == dict.fromkeys(waits + ["R507"] * (words == 32))


# Both CTAs expect bytes, each of its own mbarrier, and arrive: at their own, or both at that of one CTA.
TWICE = """mov.u32 %r4, %cluster_ctarank; mov.u32 %r9, bar; setp.eq.u32 %p4, %r4, 0; @%p9 mbarrier.init.shared::cta.b64 [bar], 1;
@%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p9 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;
mapa.shared::cluster.u32 %r8, %r9, {rank}; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{who} mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8]; {again} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""


@pytest.mark.parametrize(
    ("given", "repair"),
    [
        ({"rank": "%r4", "who": "@%p9", "again": ""}, None),
        ({"rank": "0", "who": "@%p9", "again": ""}, "in CTA 1, mapa to rank 1 instead of 0"),
        ({"rank": "%r4", "who": "", "again": ""}, "let one thread execute it"),  # all threads arrive
        ({"rank": "%r4", "who": "@%p9", "again": "@%p9 mbarrier.arrive.shared::cta.b64 _, [bar];"}, "wait for the phase"),
    ],
)
def test_too_many_arrivals_that_another_cta_was_to_get_are_told_by_their_rank(given, repair):
    gpu = smemsim.Gpu("sm_90a")
    done = gpu.launch(kernel(0, TWICE.format(**given), arch="sm_90a"), grid=2, cluster=2, block=32, progress=False)
    assert [f.code for f in done.findings] == ([] if repair is None else ["X010"])
    assert all(f.repair.startswith(repair) and ("gets no arrival" in f.message) == ("mapa" in repair) for f in done.findings)


def test_a_reader_that_waits_for_no_load_is_the_cause_of_the_hang():
    """The wait of the consumer is gone: it frees stages that are not full, and the producer waits for ever."""
    fault = Fault("", RING, "X004", "", edit=sub(r"mbarrier\.try_wait[^;]*%r112\], %r425;", "setp.eq.u32 P, 0, 0;"))
    run, _ = launched(RING, fault)
    first, *others = run.findings
    assert (first.code, "is read before a load has written it" in first.message) == ("X004", True), run.text()
    assert re.search(
        r"loads at lines \d+, .*wait for the mbarrier of the loads .*: full\[0\] \(0x400\), full\[1\] \(0x408\), full\[2\] \(0x410\)$",
        first.message + first.repair,
    )
    assert [(f.code, f.cause.line if f.cause else 0) for f in others] == [("X006", first.line)] * len(others) != []


@pytest.mark.parametrize(("address", "text"), [(-4, "the address is -4 as a signed number"), (1 << 60, "no array is near")])
def test_an_address_far_from_every_array_has_no_distance(address: int, text: str):
    body = f"mov.b64 %d1, {address & (1 << 64) - 1:#x}; st.global.u32 [%d1], 7;"
    gpu = smemsim.Gpu("sm_90a")
    (first,) = gpu.launch(kernel(1, body, arch="sm_90a"), args=[gpu.array(np.zeros(4, np.uint32))], progress=False).findings
    assert (first.code, text in first.message, "within" in first.message) == ("X001", True, False)


@pytest.mark.parametrize("waits", [True, False])
def test_a_store_that_begins_a_sum_comes_before_the_additions(waits: bool):
    """CTA 1 stores the first number, CTA 0 adds to it."""
    adds = "atom.global.add.u32 %r4, [%d20], 1;"
    polls = "W: ld.acquire.gpu.global.u32 %r3, [%d21]; setp.eq.u32 %p3, %r3, 0; @%p3 bra W;" * waits
    body = f"mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 1; @%p1 bra A; {polls} {adds} bra E;\nA: st.global.u32 [%d20], 5; st.release.gpu.global.u32 [%d21], 1;\nE:"
    gpu = smemsim.Gpu("sm_90a")
    text = kernel(2, body.replace("; ", ";\n"))
    line = {word: 1 + next(n for n, row in enumerate(text.split("\n")) if word in row) for word in ("st.global", "atom.global")}
    run = gpu.launch(text, grid=2, block=1, args=[gpu.empty(4), gpu.array(np.zeros(1, np.uint32))], progress=False)
    races = [f for f in run.findings if f.code == "X008"]
    assert len(run.findings) == (0 if waits else 2)
    assert len(races) == (not waits)
    for f in races:
        assert f"set a flag after line {line['st.global']} " in f.repair
        assert f"before line {line['atom.global']} " in f.repair


BETWEEN = [
    "",
    "st.weak.global.u32 [%d20+4], 6;",
    "red.relaxed.gpu.global.add.u32 [%d20+4], 6;",
    "red.release.cta.shared::cta.add.u32 [sm], 6;",
]


@pytest.mark.parametrize(
    ("is_first", "between"),
    [(True, ""), *((False, between) for between in BETWEEN)],
    ids=["True", "False", "a plain store", "a relaxed sum", "a flag in shared memory"],
)
def test_a_release_before_the_data_is_named(is_first: bool, between: str):
    """CTA 0 stores a number and sets the flag, or the reverse; CTA 1 waits for the flag. Nothing else that is between
    sets a flag of global memory.
    """
    both = ["st.global.u32 [%d20], 5;", f"st.release.gpu.global.u32 [%d21], 1; {between}"][:: 1 if is_first else -1]
    polls = "W: ld.acquire.gpu.global.u32 %r3, [%d21]; setp.eq.u32 %p3, %r3, 0; @%p3 bra W; ld.global.u32 %r4, [%d20]; st.global.u32 [%d20+64], %r4;"
    body = f"mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 1; @%p1 bra A; {' '.join(both)} bra E;\nA: {polls}\nE:"
    gpu = smemsim.Gpu("sm_90a")
    text = kernel(2, body.replace("; ", ";\n"))
    line = {word: 1 + next(n for n, row in enumerate(text.split("\n")) if word in row) for word in ("st.global", "st.release")}
    arrays = [gpu.array(np.zeros(32, np.uint32)), gpu.array(np.zeros(1, np.uint32))]
    findings = gpu.launch(text, grid=2, block=1, args=arrays, progress=False).findings
    assert [f.code for f in findings] == ([] if is_first else ["X008"])
    assert all(f.repair.startswith(f"line {line['st.global']} before line {line['st.release']}, if that sets the flag") for f in findings)


USES = "ld.global.u32 %r4, [%d20]; st.global.u32 [%d20+64], %r4;"
POLL = "W: {} setp.eq.u32 %p3, %r3, 0; @%p3 bra W;"


@pytest.mark.parametrize(
    ("polls", "is_named"),
    [
        (f"{POLL.format('ld.acquire.gpu.global.u32 %r3, [%d21];')} {USES}", True),
        (f"{POLL.format('atom.acq_rel.gpu.global.add.u32 %r3, [%d21], 0;')} {USES}", True),
        (f"{POLL.format('atom.acquire.gpu.global.or.b32 %r3, [%d21], 0;')} {USES}", True),
        (f"{POLL.format('ld.relaxed.gpu.global.u32 %r3, [%d21];')} {USES}", False),
        (f"{USES} {POLL.format('ld.acquire.gpu.global.u32 %r3, [%d21];')}", False),
        (f"{POLL.format('atom.release.gpu.global.add.u32 %r3, [%d21], 0;')} {USES}", False),
    ],
    ids=["acquires", "acquires and releases", "an atomic acquires", "relaxed", "acquires behind the use", "releases"],
)
def test_a_release_before_the_data_is_the_cause_for_who_acquires_it(polls: str, is_named: bool):
    """CTA 0 sets the flag before the number. A reader that acquires nothing has a fault of its own."""
    body = (
        "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 1; @%p1 bra A; st.release.gpu.global.u32 [%d21], 1; st.global.u32 [%d20], 5; bra E;"
    )
    gpu = smemsim.Gpu("sm_90a")
    arrays = [gpu.array(np.zeros(32, np.uint32)), gpu.array(np.zeros(1, np.uint32))]
    text = kernel(2, f"{body} A: {polls} E:".replace("; ", ";\n"))
    findings = [f for f in gpu.launch(text, grid=2, block=1, args=arrays, progress=False).findings if "st.global.u32" in str(f)]
    assert [f.code for f in findings] == ["X008"]
    assert [" releases before " in f.why for f in findings] == [is_named]
