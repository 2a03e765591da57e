"""Fixes that are executed before they are printed: what was tried is the fix, and a fix that does not help is none."""

import re

import numpy as np
import pytest

from gpu_faults import BLACKWELL, FAULTS, MULTICAST, RING, TRITON
from gpu_faults import kernel as golden
from launches import SHARED, kernel
from smemsim import Gpu, TensorMap

OWN = "mov.u32 %r3, sm; mad.lo.u32 %r3, %r1, 4, %r3; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1;\n"
INIT = OWN + "mov.u32 %r5, bar; @%p9 mbarrier.init.shared.b64 [bar], {}; bar.sync 0;\n"
EXPECT = "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};\n"
LOAD = "@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d20], 256, [bar];\n"
WAIT = "W: mbarrier.try_wait.parity{}.shared.b64 %p2, [bar], 0; @!%p2 bra W;\n"
LEAVE = "ld.shared.b32 %r2, [%r3]; st.global.b32 [%d1+8192], %r2;\n"
ALONE = LEAVE.replace("; ", ";\n")
REPEATED = "mov.u32 %r8, 0; L: and.b32 %r9, %r8, 1; " + EXPECT.format(256) + LOAD + WAIT + LEAVE
REPEATED += "bar.sync 0;\nadd.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 3; @%p3 bra L;\n"
STORED = OWN + "st.shared.b32 [%r3], %r1;\n{}bar.sync 0;\n"
BULK = "@%p9 cp.async.bulk.global.shared::cta.bulk_group [%d20], [sm], 256;\n@%p9 cp.async.bulk.commit_group;\n"
AGAIN = "bar.sync 0;\nst.shared.b32 [%r3], %r1;\n@%p9 cp.async.bulk.wait_group 0;\n"
COPY = OWN + "cp.async.ca.shared.global [%r3], [%d1], 4;\n"
OTHERS = "bar.sync 0;\nxor.b32 %r4, %r3, 128;\nld.shared.b32 %r2, [%r4]; st.global.b32 [%d1+8192], %r2;\n"
FENCE, WAITED = "fence.proxy.async;\n", "@%p9 cp.async.bulk.wait_group 0;\n"


# The first wait has no loop, and the second wait gives the same predicate another answer.
TWICE = (
    INIT.format(1) + EXPECT.format(256) + LOAD + WAIT.format("").replace(" @!%p2 bra W;", "") + "ld.shared.b32 %r9, [%r3];\n"
    "st.global.b32 [%d1+4096], %r9; bar.sync 0;\n" + EXPECT.format(256) + LOAD + "{}" + LEAVE
)  # fmt: skip
TWO_STAGES = (
    "mov.u32 %r5, bar; mov.u32 %r6, sm; @%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 mbarrier.init.shared.b64 [bar+8], 1; mov.u32 %r8, 256;\n"
    "L: @%p9 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 512;\n"
    "@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%d20], %r8, [%r5];\n"
    "add.u32 %r5, %r5, 8; add.u32 %r6, %r6, 256; shr.u32 %r8, %r8, 1; setp.gt.u32 %p3, %r8, 64; @%p3 bra L; bar.sync 0;\n" + WAIT.format("")
    + "V: mbarrier.try_wait.parity.shared.b64 %p2, [bar+8], 0; @!%p2 bra V;\n"
)  # fmt: skip


# Two threads store the same bytes, and tell thread 0 that it may overwrite them; the first one waits before that.
TWO_STORES = (
    INIT.format(2) + "st.shared.b32 [%r3], %r1; fence.proxy.async; bar.sync 0; setp.eq.u32 %p4, %r1, 32; setp.eq.u32 %p5, %r1, 33; setp.lt.u32 %p6, %r1, 32;\n"
    "@%p4 cp.async.bulk.global.shared::cta.bulk_group [%d20], [sm], 256;\n@%p4 cp.async.bulk.commit_group;\n@%p4 cp.async.bulk.wait_group.read 0;\n"
    "@%p4 mbarrier.arrive.shared.b64 _, [bar];\n"
    "@%p5 cp.async.bulk.global.shared::cta.bulk_group [%d20+512], [sm], 256;\n@%p5 cp.async.bulk.commit_group;\n{}"
    "@%p5 mbarrier.arrive.shared.b64 _, [bar];\n@!%p6 bra J;\n" + WAIT.format("") + "st.shared.b32 [%r3], 5;\nJ: cp.async.bulk.wait_group 0;\n"
)  # fmt: skip


def ran(body: str, *, try_fixes: bool = True, **given):
    gpu = Gpu("sm_90a")
    array = gpu.array(np.arange(4096, dtype=np.uint32))
    run = gpu.launch(kernel(1, body), **{"block": 64} | given, args=[array], progress=False, try_fixes=try_fixes)
    return run, array.numpy()


@pytest.mark.parametrize(
    ("wrong", "code", "fix", "trial"),
    [
        (INIT.format(1) + EXPECT.format(512) + LOAD + WAIT.format("") + LEAVE, "T210", "expect 256 bytes in line {mbarrier.arrive.expect}, if no copy is missing and each has the intended size", ""),
        (INIT.format(1) + EXPECT.format(128) + LOAD + WAIT.format("") + LEAVE, "T210", "expect 256 bytes in line {mbarrier.arrive.expect}", ""),
        (INIT.format(3) + EXPECT.format(256) + LOAD + WAIT.format("") + LEAVE, "X006", "let the missing threads arrive too, or correct the count of mbarrier.init", "mbarrier.init with 1 arrival in line {mbarrier.init}"),
        (INIT.format(1) + EXPECT.format(256) + LOAD + ALONE, "X004", "mbarrier.try_wait.parity on the load's mbarrier bar[0] (0x1400) before line {ld.shared}, parity 0", ""),
        (INIT.format(1) + REPEATED.replace(WAIT, "").replace(LEAVE, ALONE), "X004", "mbarrier.try_wait.parity on the load's mbarrier bar[0] (0x1400) before line {ld.shared}, parity n & 1", None),
        (INIT.format(1) + REPEATED.format(""), "X006", "parity n & 1 in line {mbarrier.try_wait}, where n counts the earlier passes of this wait", ""),
        (INIT.format(1) + REPEATED.format(".relaxed.cta").replace("], 0", "], %r9"), "X004", ".acquire instead of .relaxed in line {mbarrier.try_wait}", ""),
        (INIT.format(1) + EXPECT.format(256) + LOAD + WAIT.format("").replace(" @!%p2 bra W;", "") + LEAVE, "X004", "a loop that repeats mbarrier.try_wait.parity.shared.b64 in line {mbarrier.try_wait} until it is true", ""),
        (TWICE.format(WAIT.format("").replace("W", "V").replace("], 0", "], 1")), "X004", "a loop that repeats mbarrier.try_wait.parity.shared.b64 in line {mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0} until it is true", ""),
        (TWO_STORES.format(""), "X005", "cp.async.bulk.wait_group.read 0 after line {@%p5 cp.async.bulk.commit_group}", ""),
        (TWO_STORES.format("").replace("@%p4 cp.async.bulk.wait_group.read 0;\n", ""), "X005", "cp.async.bulk.wait_group.read 0 after lines {@%p4 cp.async.bulk.commit_group} and {@%p5 cp.async.bulk.commit_group}", ""),
        (STORED.format("") + BULK + WAITED, "X003", "fence.proxy.async.shared::cta after line {st.shared}", ""),
        (STORED.format(FENCE) + BULK + AGAIN, "X005", "cp.async.bulk.wait_group.read 0 before line 20", ""),
        (STORED.format(FENCE) + BULK + WAITED.replace("0", "1") + AGAIN, "X005", "cp.async.bulk.wait_group 0 instead of 1 in line {cp.async.bulk.wait}", ""),
        (COPY + "cp.async.commit_group;\ncp.async.wait_group 2;\n" + OTHERS, "X004", "cp.async.wait_group 0 instead of 2 in line {cp.async.wait}", ""),
        (COPY + "cp.async.commit_group;\ncp.async.wait_group 0;\n" + OTHERS.removeprefix("bar.sync 0;\n"), "X004", "bar.sync 0 before line {ld.shared}", ""),
        (COPY + OTHERS, "X004", "cp.async.commit_group and cp.async.wait_group 0 before line {bar.sync}", ""),
        (INIT.format(1) + EXPECT.format(256) + LOAD + WAIT.format(".relaxed.cta") + LEAVE, "X004", ".acquire instead of .relaxed in line {mbarrier.try_wait}", ""),
        (INIT.format(1) + EXPECT.format(256) + LOAD + "bar.sync 0;\nst.global.b32 [%d1], 5;\n" + WAIT.format(""), "X008", "wait for the mbarrier of the copy in line {cp.async.bulk}", "mbarrier.try_wait.parity on the load's mbarrier bar[0] (0x1400) before line {st.global}, parity 0"),
        (COPY + "cp.async.commit_group;\nbar.sync 0;\nst.global.b32 [%d1], 5;\n", "X008", "cp.async.wait_all or cp.async.wait_group in the threads", "cp.async.wait_group 0 before line {bar.sync}"),
        (INIT.format(1) + "st.shared.b32 [%r3], %r1;\n" + OTHERS.removeprefix("bar.sync 0;\n"), "X008", "put a barrier", "bar.sync 0 (__syncthreads) before line {ld.shared}"),
        (OWN + "st.global.b32 [%d1], %r1;\n" + INIT.removeprefix(OWN).format(1) + EXPECT.format(256) + LOAD + WAIT.format("") + LEAVE, "X003", "fence.proxy.async after line {st.global}", ""),
        (STORED.format(FENCE) + "@!%p9 bra J;\n" + BULK + "cp.async.bulk.wait_group.read 0;\nJ: setp.ne.u32 %p4, %r1, 32; @%p4 bra K;\nst.shared.b32 [%r3], 7;\nK: bar.sync 0;\n", "X005", "bar.sync 0 (__syncthreads) between line {wait_group.read} and line {st.shared.b32 [%r3], 7}", ""),
        (STORED.format(FENCE) + BULK + WAITED + "st.shared.b32 [%r3], 7;\n", "X005", "bar.sync 0 (__syncthreads) before line {st.shared.b32 [%r3], 7}", ""),
    ],
)  # fmt: skip
def test_the_fix_was_executed_and_helps(wrong, code, fix, trial):
    run, left = ran(wrong)
    first = run.findings[0]
    places = fix + (trial or "")
    lines = {
        m[1]: n
        for n, line in reversed([*enumerate(kernel(1, wrong).split("\n"), 1)])
        for m in re.finditer(r"\{([^}]*)\}", places)
        if m[1] in line
    }
    fix, trial = (text and re.sub(r"\{([^}]*)\}", lambda m: str(lines[m[1]]), text) for text in (fix, trial))
    assert (first.code, first.tried) == (code, True)
    assert first.repair.startswith(fix)
    assert trial is None or (first.trial or fix) == (trial or fix)
    untried, same = ran(wrong, try_fixes=False)
    assert (left == same).all()  # a trial leaves nothing
    assert [(f.code, f.line) for f in untried.findings] == [(f.code, f.line) for f in run.findings]
    assert not any(f.tried for f in untried.findings)


@pytest.mark.parametrize("again", [" @!%p2 bra W;", ""], ids=["second with a loop", "second without"])
@pytest.mark.parametrize("loop", [" @!%p2 bra W;", ""], ids=["first with a loop", "first without"])
def test_each_wait_without_a_loop_is_named(loop: str, again: str):
    """Also if a loop around one of them alone does not help. None of them is a wait for an earlier phase."""
    first, second = WAIT.format("").replace(" @!%p2 bra W;", loop), WAIT.format("").replace(" @!%p2 bra W;", again)
    second = second.replace("W", "V").replace("], 0", "], 1")
    body = TWICE.replace(WAIT.format("").replace(" @!%p2 bra W;", ""), first).format(second)
    findings = ran(body, try_fixes=False)[0].findings
    lines = [n for n, line in enumerate(kernel(1, body).split("\n"), 1) if "try_wait" in line and "bra" not in line]
    said = [f for f in findings if "until it is true" in f.repair]
    assert [f"in line {line} until" in f.repair for f, line in zip(said, lines, strict=False)] == [True] * len(said)
    assert sum(1 + len(f.alike) for f in said) == len(lines) == (not loop) + (not again)
    assert not loop or len(findings) == len(said)


BRANCHED = "setp.lt.u32 %p4, %r1, 32; @%p4 bra A;\nfence.proxy.async; bra E;\nA: fence.proxy.async;\n"


@pytest.mark.parametrize(("fences", "is_tried"), [(FENCE, True), (BRANCHED, False)])
def test_a_barrier_after_a_fence_helps_only_if_all_threads_come_there(fences: str, is_tried: bool):
    """The other warp would arrive at it by the last barrier of the kernel, and the accesses have an order by chance."""
    (found,) = ran(f"{OWN}st.shared.b32 [%r3], %r1;\n{fences}{BULK}{WAITED}E: bar.sync 0;\n")[0].findings
    assert (found.code, found.tried) == ("X008", is_tried)


COPIED = """mov.u32 %r5, sm; mad.lo.u32 %r3, %r1, 16, %r5; mov.u32 %r10, 3; st.shared.v4.b32 [%r3], {%r10, %r10, %r10, %r10};
fence.proxy.async.shared::cta; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+56], 32; @%p9 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0;
ld.shared.u32 %r11, [bar+56]; shr.u32 %r12, %r5, 4; cvt.u64.u32 %d5, %r12; or.b64 %d5, %d5, 0x0000400800000000;
@%p9 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r11], %d5;
@%p9 DONE
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;
st.shared.v4.b32 [%r3], {%r1, %r1, %r1, %r1}; bar.sync 0;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;
"""


@pytest.mark.parametrize(("wait", "is_repeated"), [
    (WAIT, False), (WAIT.replace("@!%p2 bra W;", ""), True), (WAIT.replace("@!%p2", "not.pred %p3, %p2; @%p3"), False),
    (WAIT.replace("@!%p2", "mov.pred %p3, %p2; setp.ne.u32 %p2, %r1, %r1; @%p2"), True),
    (WAIT.replace("W: ", "W: @%p2 bra V; ").replace("@!%p2 bra W;", "bra W; V:"), False),
], ids=["a loop", "no loop", "by another register", "of another answer", "at its begin"])  # fmt: skip
def test_a_loop_around_a_wait_is_tried_if_its_answer_decides_nothing(wait: str, is_repeated: bool):
    run, labels = Gpu.run, set()

    def seen(self, linked, *given):
        labels.update(linked.program.inlined.labels)
        return run(self, linked, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gpu, "run", seen)
        found, _ = ran(INIT.format(1) + "setp.ne.u32 %p2, %r1, %r1;\n" + EXPECT.format(256) + LOAD + ALONE + wait.format(""))
    assert (found.findings[0].code, found.findings[0].tried) == ("X004", True)
    assert any("smemsim_again" in label for label in labels) == is_repeated


def test_stores_that_all_wait_before_they_arrive_have_no_finding():
    assert ran(TWO_STORES.format("@%p5 cp.async.bulk.wait_group.read 0;\n"))[0].ok


def test_an_arrival_in_place_of_a_commit_is_why_an_operand_is_overwritten():
    """Only tcgen05.commit makes the arrival wait for the copy: a wait for another commit would not help."""
    commit, arrive = (
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];",
        "mbarrier.arrive.shared::cta.b64 _, [bar];",
    )

    def found(done, **given):
        gpu = Gpu("sm_100a")
        return gpu.launch(
            kernel(1, COPIED.replace("DONE", done), arch="sm_100a"), block=32, args=[gpu.zeros(64, "u4")], progress=False, **given
        ).findings

    assert not found(commit)
    tried, untried = found(arrive, try_fixes=True)[0], found(arrive, try_fixes=False)[0]
    line = next(n for n, one in enumerate(kernel(1, COPIED).split("\n"), 1) if "DONE" in one)
    said = f"tcgen05.commit instead of mbarrier.arrive.shared::cta.b64 in line {line}"
    assert (tried.code, tried.tried, tried.repair) == ("X005", True, said)
    assert untried.repair == f"{said}, at the mbarrier that line {line + 1} waits for"


def test_what_was_tried_is_printed_and_in_json():
    run, _ = ran(INIT.format(3) + EXPECT.format(256) + LOAD + WAIT.format("") + LEAVE)
    words = " ".join(run.text().split())
    assert "(now 3) tried mbarrier.init with 1 arrival in line" in words
    assert run.as_dict()["findings"][0]["fix"]["tried"]
    assert run.as_dict()["findings"][0]["fix"]["trial"].startswith("mbarrier.init with 1 arrival")


def test_a_fix_that_does_not_help_is_not_printed_as_one():
    """One line expects bytes at two mbarriers, at which different numbers of bytes come."""
    first, said = ran(TWO_STAGES)[0].findings[0], ran(TWO_STAGES, try_fixes=False)[0].findings[0]
    assert (first.code, said.repair.startswith("expect 256 bytes")) == ("T210", True)
    assert (first.repair, first.tried) == ("", False)
    assert first.failed.startswith("expect 256 bytes in line")
    assert "tried   expect 256 bytes in line" in str(first)


def test_a_change_that_brings_another_finding_is_none():
    """With fewer bytes the hang ends, and half of what is read has never come."""
    run, _ = ran(INIT.format(1) + EXPECT.format(256) + LOAD.replace("256", "128") + WAIT.format("") + LEAVE)
    assert [(f.code, f.tried, f.trial, f.failed) for f in run.findings[:1]] == [("T210", False, "", "")]
    assert run.findings[0].repair


def test_ctrl_c_ends_all_trials():
    run, runs = Gpu.run, []

    def interrupted(self, *given):
        done = run(self, *given)
        done.interrupted = bool(runs)
        runs.append(done)
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gpu, "run", interrupted)
        assert not any(f.tried or f.failed for f in ran(TWO_STAGES)[0].findings)
    assert len(runs) == 3  # the launch, one trial of two, and the stages of the hang


def test_a_right_kernel_and_a_remark_are_not_run_again():
    run, _ = ran(STORED.format(FENCE) + BULK + WAITED)
    assert not run.findings


PIPELINE = COPY + "cp.async.commit_group;\n" + COPY.removeprefix(OWN).replace("[%r3]", "[%r3+256]") + "cp.async.commit_group;\n{}" + OTHERS
UNROLLED = (
    PIPELINE.replace("{}", ".loc 1 7 0\n{0}.loc 1 8 0\n")
    + "bar.sync 0;\n"
    + COPY.removeprefix(OWN)
    + "cp.async.commit_group;\n.loc 1 7 0\n{0}.loc 1 8 0\n"
    + OTHERS.replace("[%r4]", "[%r4+256]")
)
FLAG = (
    "ld.global.b32 %r2, [%d20]; mov.u32 %r4, %ctaid.x; setp.ne.u32 %p2, %r4, 0; @%p2 bra R; @!%p9 bra E; st.global.b32 [%d20+64], 7;\n"
    "st.{}.global.b32 [%d20+512], 1; bra E;\nR: @!%p9 bra E;\nW: ld.{}.global.b32 %r5, [%d20+512];\nsetp.ne.u32 %p3, %r5, 1; @%p3 bra W;\n"
    "ld.global.b32 %r6, [%d20+64];\nst.global.b32 [%d20+1024], %r6; E:\n"
)
NAMED = OWN + "st.shared.b32 [%r3], %r1;\nbar.sync {};\nxor.b32 %r4, %r3, 128;\nld.shared.b32 %r2, [%r4]; st.global.b32 [%d1+8192], %r2;\n"
RELAXED = (
    OWN + "mov.u32 %r5, bar; @%p9 mbarrier.init.shared.b64 [bar], 64; bar.sync 0;\nst.shared.b32 [%r3], %r1;\n"
    "mbarrier.arrive.shared.b64 _, [bar];\nW: mbarrier.try_wait.parity.{}.cta.shared.b64 %p2, [bar], 0;\n@!%p2 bra W;\n"
    "xor.b32 %r4, %r3, 128;\nld.shared.b32 %r2, [%r4]; st.global.b32 [%d1+8192], %r2;\n"
)
ROUNDS = (
    INIT.format(1)
    + "@%p9 mbarrier.arrive.shared.b64 _, [bar];\nmov.u32 %r7, {};\nW: mbarrier.try_wait.parity.shared.b64 %p2, [bar], {}; @!%p2 bra W;\n"
)
HOME = (
    "mov.u32 %r7, %cluster_ctarank; mov.u32 %r5, bar; @%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster;\n"
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\nmapa.shared::cluster.u32 %r6, %r5, {};\n"
    "@%p9 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n"
    "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
)


@pytest.mark.parametrize(
    ("body", "right", "wrong", "code", "fix", "shape"),
    [
        (PIPELINE, "cp.async.wait_group 1;\n", "cp.async.wait_group 2;\n", "X004", "cp.async.wait_group 1 instead of 2 in line 19", {}),
        (UNROLLED, "cp.async.wait_group 1;\n", "cp.async.wait_group 2;\n", "X004", "cp.async.wait_group 1 instead of 2 in file 1:7 (PTX lines 20 and 29)", {}),
        (PIPELINE, "cp.async.wait_group 1;\n", "", "X004", "cp.async.wait_group 1 before line 19", {}),
        ("shfl.sync.bfly.b32 %r2, %r1, 1, 31, {};\n@%p9 st.global.b32 [%d20], %r2;", "-1", "0xffff", "X011", "the member mask 0xffffffff in line 14", {}),
        ("@%p9 bra S; bar.warp.sync {};\nS: bar.sync 0;", "0xfffffffe", "0xfffffffc", "X011", "the member mask 0xfffffffe in line 14", {"block": 32}),
        (FLAG, "release.gpu", "relaxed.gpu", "X008", ".release instead of .relaxed in line 15", {"grid": 2}),
        (FLAG, "release.gpu", "release.cta", "X008", ".gpu instead of .cta in line 15", {"grid": 2}),
        (FLAG.replace("st.{}", "st.release.{}").replace("ld.{}", "ld.acquire.{}"), "gpu", "cta", "X008", ".gpu instead of .cta in lines 15 and 17", {"grid": 2}),
        (NAMED, "1, 64", "1, 96", "X006", "a count of 64 threads in line 16", {}),
        (RELAXED, "acquire", "relaxed", "X008", ".acquire instead of .relaxed in line 18", {}),
        (ROUNDS, "0", "1", "X006", "the other parity (xor 1) in line 18", {}),
        (HOME, "%r7", "0", "X006", "mapa to rank %cluster_ctarank in line 16", {"grid": 2, "cluster": 2}),
    ],
    ids=["a smaller number", "copies of one line", "one wait", "member mask", "member mask of a part", "release", "scope", "both scopes", "count of threads", "a relaxed wait", "parity", "rank"],
)  # fmt: skip
def test_the_smallest_change_that_helps_is_the_fix(body, right, wrong, code, fix, shape):
    """The number or the word that was planted is undone, and a wait is put where it belongs."""
    filled = [body.replace("st.{}", f"st.{one}").replace("ld.{}", "ld.acquire.gpu").replace("try_wait.parity.shared.b64 %p2, [bar], {}", "try_wait.parity.shared.b64 %p2, [bar], %r7").replace("{}", one).replace("{0}", one) for one in (right, wrong)]  # fmt: skip
    assert not ran(filled[0], **shape)[0].findings
    first = ran(filled[1], **shape)[0].findings[0]
    assert (first.code, first.tried, first.trial) == (code, True, fix)


@pytest.mark.parametrize(
    ("set_by", "read_by", "repair"),
    [
        ("st.release.cta", "ld.acquire.cta", ".gpu instead of .cta in lines 15 and 17"),
        ("st.release.gpu", "ld.acquire.cta", ".gpu instead of .cta in line 17"),
        ("st.release.cta", "ld.acquire.gpu", ".gpu instead of .cta in line 15"),
        ("st.relaxed.cta", "ld.acquire.cta", ".gpu instead of .cta in lines 15 and 17, and .release instead of .relaxed in line 15"),
    ],
)
def test_the_scope_of_a_flag_is_why_it_does_not_order_the_data(set_by, read_by, repair):
    """The finding of the data names the flag, and does not ask for one. With the scope of the fix all is ordered."""
    text = FLAG.replace("st.{}", set_by).replace("ld.{}", read_by)
    flag, data = ran(text, grid=2, try_fixes=False)[0].findings
    assert flag.repair == repair.partition(", and")[0]
    assert data.why == "line 15 sets a flag that line 17 reads, but the scope .cta leaves out the other CTA"
    assert data.repair == repair
    assert not ran(text.replace(".cta", ".gpu").replace("st.relaxed", "st.release"), grid=2)[0].findings


@pytest.mark.parametrize(
    ("store", "load", "repair"), [("st", "ld.volatile", "set a flag after line 15"), ("st.volatile", "ld", "if line 17 polls a flag")]
)
def test_only_a_load_polls_a_flag(store: str, load: str, repair: str):
    """A store that is not atomic needs an order, or must not need one."""
    text = (
        f"ld.global.b32 %r2, [%d20]; mov.u32 %r4, %ctaid.x; setp.ne.u32 %p2, %r4, 0; @%p2 bra R; @!%p9 bra E;\n{store}.global.b32 [%d20+64], 7; bra E;\n"
        f"R: @!%p9 bra E;\n{load}.global.b32 %r6, [%d20+64];\nst.global.b32 [%d20+1024], %r6; E:\n"
    )
    (found,) = ran(text, grid=2, try_fixes=False)[0].findings
    assert found.code == "X008"
    assert found.repair.startswith(repair), found.repair


@pytest.mark.parametrize(
    ("name", "base", "trial"),
    [
        ("half of one phase expected", TRITON, "expect 24576 bytes in line 81"),
        ("an arrival too many", RING, "mbarrier.init with 2 arrivals in lines 50, 58 and 66"),
        ("no wgmma.fence", RING, "wgmma.fence.sync.aligned before line 289"),
        ("CTAs end on their own", MULTICAST, "barrier.cluster.arrive and barrier.cluster.wait before line 316"),
        ("zeros not waited for", BLACKWELL, "tcgen05.wait::st.sync.aligned after triton_matmuls.py:52 (PTX line 77)"),
    ],
)
def test_faults_of_real_kernels_have_a_fix_that_was_executed(name, base, trial):
    fault, file = next(f for f in FAULTS if (f.name, f.kernel) == (name, base)), golden(base)
    gpu = Gpu(file.about["arch"])
    arrays = {n: gpu.array(x) for n, x in file.arrays().items()}
    args = [
        TensorMap.tiled(**one["map"] | {"global_address": arrays[one["map"]["global_address"]].address}) if "map" in one
        else arrays[one["array"]] if "array" in one else one.get("value")
        for one in file.about["args"]
    ]  # fmt: skip
    config = file.config(args)
    run = gpu.launch(
        fault.edit(file.ptx), config.entry, grid=config.grid, block=config.block, cluster=config.cluster, shared_bytes=config.shared_bytes,
        args=args, progress=False, try_fixes=True,
    )  # fmt: skip
    assert trial in [f.trial for f in run.findings]


# ---- the number of bytes that a phase expects: which phase, which line, which number

ROUND = "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};\n" + LOAD.replace("256", "{}") + "bar.sync 0;\n"
ONCE = INIT.format(1) + ROUND.format(256, 256) + WAIT.format("") + "bar.sync 0;\n"
LATER = "V: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1; @!%p2 bra V;\nbar.sync 0;\n"
LOOP = (
    INIT.format(1) + "mov.u32 %r7, 0;\nL: setp.gt.u32 %p3, %r7, 1; selp.b32 %r8, {}, 256, %p3; and.b32 %r9, %r7, 1;\n"
    + ROUND.format("%r8", 256)
    + "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r9; @!%p2 bra W;\nbar.sync 0; add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 4; @%p4 bra L;\n"
)  # fmt: skip
HALVES = LOAD.replace("256", "128") + LOAD.replace("256", "128").replace("[sm], [%d20]", "[sm+128], [%d20]")
APART = "@%p9 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], {};\n@%p9 mbarrier.arrive.shared.b64 _, [bar];\n"
CLUSTER = (
    "mov.u32 %r7, %cluster_ctarank; mov.u32 %r5, bar; mov.u32 %r6, sm; mad.lo.u32 %r6, %r7, 128, %r6; mov.u16 %h1, 3;\n"
    "@%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
    + "".join(
        "@%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {}; // "
        + f"{n}\n@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r6], [%d20], 128, [%r5], %h1;\n"
        + f"W{n}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], {n}; @!%p2 bra W{n};\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
        for n in (0, 1)
    )
)


@pytest.mark.parametrize(
    ("body", "right", "wrong", "phases", "planted", "cluster"),
    [
        (ONCE + ROUND.format("{}", 256) + LATER, 256, 272, "phase 1 (parity 1) of", "expect_tx", 1),
        (ONCE + "mov.u32 %r8, {};\n" + ROUND.format("%r8", 256) + LATER, 256, 128, "phase 1 (parity 1) of", "%r8, ", 1),
        (LOOP, 256, 288, "phase 2 (parity 0) of", "_, [bar], %r8", 1),
        (LOOP, 256, 128, "phase 2 (parity 0) of", "_, [bar], %r8", 1),
        (ONCE + APART + HALVES + "bar.sync 0;\n" + LATER, 256, 128, "phase 1 (parity 1) of", "mbarrier.expect_tx", 1),
        (INIT.format(2) + EXPECT.format(64) + EXPECT + HALVES + WAIT.format(""), 192, 448, "phase 0 (parity 0) of", "expect_tx", 1),
        (CLUSTER.replace("{}", "256", 1), 256, 128, "phase 1 (parity 1) of", "// 1", 2),
        (CLUSTER.replace("{}", "256", 1), 256, 272, "phase 1 (parity 1) of", "// 1", 2),
    ],
    ids=["too many", "too few, in a register", "a loop, too many", "a loop, too few", "expect_tx apart", "two threads", "multicast, too few", "multicast, too many"],
)  # fmt: skip
def test_the_phase_the_line_and_the_number_of_wrong_bytes_are_named(body, right, wrong, phases, planted, cluster, monkeypatch):
    given = {"grid": 2 * cluster, "cluster": cluster}
    assert not ran(body.replace("{}", str(right)), **given)[0].findings
    text = kernel(1, body.replace("{}", str(wrong)))
    line = max(n for n, one in enumerate(text.split("\n"), 1) if planted in one)
    for environment in ({}, {"SMEMSIM_COHORTS": "off"}, {"SMEMSIM_TIERS": "closures"}, {"SMEMSIM_TIERS": "compiled"}):
        with monkeypatch.context() as m:
            for name, value in environment.items():
                m.setenv(name, value)
            first, *others = ran(body.replace("{}", str(wrong)), **given)[0].findings
        assert (first.code, first.tried, first.what.startswith(phases)) == ("T210", True, True), first.what
        assert line in (first.line, *(half.instruction.line for half in first.halves if half.instruction is not None))
        where = f" in line {line}" if line == first.line else f": change the number in line {line}, which line {first.line} uses"
        provided = ", if no copy is missing and each has the intended size" * (wrong > right)
        assert first.repair == f"expect {right} bytes{where}{provided}"
        assert all(f.cause is not None and f.because == f"follows from T210 at line {first.line}" for f in others)


UNROLLED = INIT.format(1) + "".join(
    ROUND.format("{}", 128).replace("bar.sync 0;\n", LOAD.replace("256", "128").replace("[sm], [%d20]", "[sm+128], [%d20]"))
    + f"V{n}: mbarrier.try_wait.parity.shared.b64 %p2, [bar], {n & 1}; @!%p2 bra V{n};\nbar.sync 0;\n"
    for n in range(3)
)  # fmt: skip


def joined(lines: list[int]) -> str:
    return " and ".join([", ".join(map(str, lines[:-1])), str(lines[-1])])


@pytest.mark.parametrize("wrong", [128, 192])
def test_bytes_left_out_in_an_unrolled_loop_have_the_number_of_one_round(wrong):
    """The bytes of a round that are left over come to the next phase: they do not make its number larger."""
    assert not ran(UNROLLED.replace("{}", "256"))[0].findings
    text = kernel(1, UNROLLED.replace("{}", str(wrong)))
    lines = [n for n, one in enumerate(text.split("\n"), 1) if "expect_tx" in one]
    first = ran(UNROLLED.replace("{}", str(wrong)))[0].findings[0]
    assert (first.code, first.tried) == ("T210", True)
    assert first.repair == f"expect 256 bytes in lines {joined(lines)}"


@pytest.mark.parametrize("other", [None, "before", "after"])
def test_the_copies_of_a_wait_in_an_unrolled_loop_count_together(other):
    """Four rounds of a ring of two stages: no parity of one copy is a fix, as the next copy waits for another one. Another
    kernel of the module may come from the same lines, as that of the same template: its waits stay.
    """
    init = "@%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 mbarrier.init.shared.b64 [bar+8], 1; bar.sync 0;\n"

    def found(parity):
        rounds = (
            (ROUND.format(256, 256) + f".loc 1 5 0\nV{n}: mbarrier.try_wait.parity.shared.b64 %p2, [bar], {parity(n)}; @!%p2 bra V{n};\n")
            .replace("[bar]", f"[bar+{n % 2 * 8}]")
            for n in range(4)
        )  # fmt: skip
        text = kernel(1, init + "bar.sync 0;\n".join(rounds), variables=SHARED + '.file 1 "ring.cu"\n')
        at = text.index(".visible .entry k(")
        head, own = text[:at], text[at:] + "\n"
        again = own.replace("entry k(", "entry k2(") if other else ""
        before = head + again * (other == "before")
        text = before + own + again * (other == "after")
        gpu, first = Gpu("sm_90a"), before.count("\n")
        lines = [n for n, one in enumerate(text.split("\n"), 1) if "try_wait" in one and first < n <= first + own.count("\n")]
        return gpu.launch(text, "k", block=64, args=[gpu.zeros(64, "u4")], progress=False, try_fixes=True).findings, lines

    assert not found(lambda n: n // 2 & 1)[0]
    (first, *_), lines = found(lambda n: n & 1)
    said = f"parity (n / 2) & 1 in ring.cu:5 (PTX lines {joined(lines)}), where n counts the earlier passes of this wait"
    assert (first.code, first.tried, first.repair) == ("X006", True, said)


def test_bytes_that_differ_from_time_to_time_have_no_number_for_all():
    """What a line expects is right in no phase, and the copies differ: the number of the first phase is named."""
    body = LOOP.format(256).replace("[%d20], 256,", "[%d20], %r8,").replace("_, [bar], %r8", "_, [bar], 512")
    body = body.replace("selp.b32 %r8, 256, 256", "selp.b32 %r8, 128, 256").replace("{}", "256")
    first = ran(body)[0].findings[0]
    assert (first.code, first.what.partition(" of ")[0]) == ("T210", "phase 0 (parity 0)")
    assert "expects 512 bytes, and 256 arrive" in first.what


ONE = "mov.u32 %r1, %tid.x; setp.eq.u32 %p9, %r1, 0; @%p9 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;\n"


NEXT_COPY = "cp.async.ca.shared.global [%r3], [%d1+4096], 4;\ncp.async.commit_group;\n"


@pytest.mark.parametrize(
    ("before", "after", "code", "beside"),
    [
        (NEXT_COPY, "cp.async.wait_group 0;\n", "", False),
        (NEXT_COPY, "cp.async.wait_group 1;\n", "X004", False),
        ("", "cp.async.wait_group 0;\n" + NEXT_COPY, "X004", True),
    ],
)
def test_a_copy_after_the_wait_may_be_for_another_stage(before, after, code, beside):
    """A new wait between the copy and the read removes the finding, but the copy may bring a later round's bytes."""
    body = OWN + f"cp.async.ca.shared.global [%r3+1024], [%d1], 4;\ncp.async.commit_group;\n{before}{after}" + ALONE
    found = ran(body)[0].findings
    assert [f.code for f in found] == [code] * bool(code)
    assert all((f.tried, f.beside, "copy into another stage" in f.repair) == (True, beside, beside) for f in found)


@pytest.mark.parametrize(("waits", "code"), [(True, ""), (False, "X006")])
def test_a_producer_that_runs_ahead_is_not_mended_by_a_larger_count(waits, code):
    """Thread 0 gives warp 1 four words, one in each phase; without a wait for the reader all but the last are lost."""
    free = "F: mbarrier.try_wait.parity.shared::cta.b64 %p9, [bar+8], %r11; @!%p9 bra F;" * waits
    body = f"""setp.eq.u32 %p5, %r1, 0; @%p5 mbarrier.init.shared::cta.b64 [bar], 1; @%p5 mbarrier.init.shared::cta.b64 [bar+8], 1; bar.sync 0; mov.u32 %r10, 0;
    setp.ge.u32 %p8, %r1, 32; @%p8 bra TAKE; setp.ne.u32 %p8, %r1, 0; @%p8 exit;
    GIVE: and.b32 %r11, %r10, 1; xor.b32 %r11, %r11, 1; {free} st.volatile.shared.u32 [sm], %r10; mbarrier.arrive.shared::cta.b64 _, [bar];
    add.u32 %r10, %r10, 1; setp.lt.u32 %p8, %r10, 4; @%p8 bra GIVE; exit;
    TAKE: and.b32 %r11, %r10, 1; W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [bar], %r11; @!%p9 bra W; ld.volatile.shared.u32 %r12, [sm];
    setp.eq.u32 %p8, %r1, 32; bar.warp.sync -1; @%p8 mbarrier.arrive.shared::cta.b64 _, [bar+8]; add.u32 %r10, %r10, 1; setp.lt.u32 %p8, %r12, 3; @%p8 bra TAKE;"""
    found = ran(body)[0].findings
    assert [f.code for f in found if f.code == "X006"] == [code] * bool(code)
    assert not any("mbarrier.init" in f.trial for f in found)


@pytest.mark.parametrize(("begin", "code"), [("", "X010"), ("wgmma.wait_group.sync.aligned 0;\n" + ONE, "X006")])
def test_a_change_of_the_first_instruction_has_no_counter(begin, code):
    """The counter is zeroed before the first instruction, which no other change may touch: that ended in an IndexError."""
    text = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .pred %p<10>; .reg .b32 %r<9>; .shared .align 8 .b64 bar;\n"
    run = Gpu("sm_90a").launch(text + begin + WAIT.format("") + "ret; }", block=128, progress=False, try_fixes=True)
    assert run.findings[0].code == code


# ---- changes that only hide the fault

READ = "xor.b32 %r4, %r3, 128;\nld.shared.b32 %r2, [%r4]; st.global.b32 [%d1+8192], %r2;\n"


@pytest.mark.parametrize(
    ("branch", "end", "is_tried"),
    [
        ("", "", True),
        ("setp.lt.u32 %p2, %r1, 64; @!%p2 bra E;\n", "E: bar.sync 0;\n", True),
        ("setp.lt.u32 %p2, %r1, 32; @!%p2 bra E;\n", "E: bar.sync 0;\n", False),
        ("setp.lt.u32 %p2, %r1, 32; @!%p2 bra E;\n", "E: ret;\n", False),
        ("xor.b32 %r4, %r3, 128; setp.lt.u32 %p2, %r1, 32; @%p2 bar.sync 1, 32; ", "", True),
    ],
    ids=[
        "no branch",
        "all threads take it",
        "other threads come to the next barrier",
        "other threads exit",
        "a barrier of a warp on its line",
    ],
)
def test_a_barrier_is_no_fix_in_a_branch_that_some_threads_do_not_take(branch: str, end: str, is_tried: bool):
    """Without a finding it would only be because the next barrier, or the end of the others, completes it."""
    read = READ if branch.endswith("\n") or not branch else READ.partition("\n")[2]
    first = ran(OWN + "st.shared.b32 [%r3], %r1;\n" + branch + read + end)[0].findings[0]
    assert (first.code, first.tried) == ("X008", is_tried)
    assert first.repair.startswith("put a barrier of all threads")


@pytest.mark.parametrize(("parity", "rounds", "is_tried"), [("0", 3, True), ("%r9", 1, False)], ids=["the parity", "a load is missing"])
def test_a_parity_is_no_fix_if_the_wait_finds_one_phase_complete_again(parity: str, rounds: int, is_tried: bool):
    """With one load in three rounds, a wait that passes three times for its phase hides that two are missing."""
    body = REPEATED.format("").replace("L: and.b32", f"L: setp.lt.u32 %p4, %r8, {rounds}; and.pred %p4, %p4, %p9; and.b32")
    body = body.replace("@%p9 mbar", "@%p4 mbar").replace("@%p9 cp", "@%p4 cp").replace("[bar], 0;", f"[bar], {parity};")
    first = ran(INIT.format(1) + body)[0].findings[0]
    assert (first.code, first.tried) == ("X006", is_tried)
    assert first.repair.startswith("parity n & 1 in line") == is_tried


@pytest.mark.parametrize(
    ("branch", "block", "is_tried"),
    [
        ("", 32, True),
        ("", 20, True),
        ("setp.lt.u32 %p2, %r1, 32; @!%p2 bra E;\n", 32, True),
        ("setp.lt.u32 %p2, %r1, 16; @!%p2 bra E;\n", 32, False),
        ("setp.lt.u32 %p2, %r1, 16; @!%p2 ret;\n", 32, False),
    ],
    ids=["no branch", "a smaller warp", "all lanes take it", "some lanes take it", "the others exit"],
)
def test_a_barrier_of_a_warp_is_no_fix_in_a_branch_that_some_lanes_do_not_take(branch: str, block: int, is_tried: bool):
    """Its mask names all lanes, and each lane of the mask must execute it."""
    body = OWN + "st.shared.b32 [%r3], %r1;\n" + branch + READ.replace("128", "4") + "E: bar.warp.sync 0xffffffff;\n"
    first = next(f for f in ran(body, block=block)[0].findings if f.code == "X008")
    assert first.tried == is_tried
    assert first.repair.startswith("bar.warp.sync (__syncwarp) between")


@pytest.mark.parametrize("drops", [True, False])
def test_warps_that_exit_between_phases_are_to_drop_their_arrivals(drops: bool):
    """The first warp leaves after the first round. No other parity makes up for its arrivals."""
    leaves = "@%p4 mbarrier.arrive_drop.shared.b64 _, [bar];" * drops
    body = INIT.format(64) + (
        "mov.u32 %r8, 0; L: mbarrier.arrive.shared.b64 _, [bar]; and.b32 %r9, %r8, 1;\n"
        f"W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r9; @!%p2 bra W;\nsetp.lt.u32 %p4, %r1, 32; {leaves} @%p4 exit;\n"
        "add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 3; @%p3 bra L;\n"
    )
    run, _ = ran(body)
    assert [f.code for f in run.findings] == ([] if drops else ["X006"])
    assert all(f.repair.startswith("mbarrier.arrive_drop in these warps before they exit") and not f.tried for f in run.findings)
