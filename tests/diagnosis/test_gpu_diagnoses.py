"""What is said of a kernel that waits for ever, counts wrong bytes or misuses a barrier: the cause, at its line; and
nothing of its right twin.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from launches import SHARED as VARIABLES
from launches import kernel
from messages import one_line
from smemsim import Gpu, Run, TensorMap
from smemsim.core.finding import PTX_LINE
from smemsim.core.ptx import demangled, read_module, readable, shorter_name
from smemsim.core.spec.compiler_faults import COMPILER_FAULTS
from smemsim.core.spec.findings import CODES

BUTTERFLY = "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;"
OUT = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; st.global.b32 [%d1], %r2;"
OWN = "mov.u32 %r5, sm; mad.lo.u32 %r4, %r1, 4, %r5; "
LANES = "and.b32 %r6, %r1, 31; setp.lt.u32 %p1, %r6, 16; @!%p1 bra J;\n"
WARPS = "setp.lt.u32 %p1, %r1, 64; @!%p1 bra J;\n"


def ran(body: str, *, block: int = 32, cluster: int = 1, ptx: str = "", **given) -> Run:
    gpu = Gpu("sm_90a")
    array = gpu.array(np.zeros(1024, np.uint32))
    return gpu.launch(ptx or kernel(1, f"mov.u32 %r2, 7; {body}"), grid=cluster, block=block, cluster=cluster, args=[array], **given)


def first(body: str, **shape):
    run = ran(body, **shape)
    assert run.findings, "nothing was found"
    return run.findings[0]


# ---- who waits for whom


@pytest.mark.parametrize("wait", ["bar.sync 0;", "barrier.cluster.arrive; barrier.cluster.wait;"])
@pytest.mark.parametrize(
    "together",
    [BUTTERFLY, "vote.sync.ballot.b32 %r2, %p9, -1;", "match.any.sync.b32 %r2, %r1, -1;", "bar.warp.sync -1;", "elect.sync %r2|%p3, -1;"],
)
def test_lanes_that_wait_for_lanes_that_went_on_are_the_first_cause(together, wait):
    found = first(f"{LANES}{together}\nJ: {wait} {OUT}", block=64)
    assert found.code == "X011"
    assert found.instruction.startswith(together.partition(" ")[0])
    assert "lanes 0 to 15 of warp 0" in found.message
    assert "mask is 0xffffffff" in found.message
    assert f"lanes 16 to 31 of warp 0 of CTA (0, 0, 0) wait at line {found.line + 1}" in found.message
    assert not ran(f"{together}\n{wait} {OUT}", block=64).findings


@pytest.mark.parametrize(
    ("part", "together", "who"),
    [
        ("setp.lt.u32 %p1, %r1, 96; @!%p1 bra J;\n", "wgmma.fence.sync.aligned;", "warps 0 to 2 of CTA (0, 0, 0) wait for ever"),
        (LANES, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r5];", "lanes 0 to 15 of warp 0"),
    ],
)
def test_instructions_of_a_whole_warp_or_warpgroup_name_who_is_missing(part, together, who):
    begin = "mov.u32 %r5, sm; st.shared.b32 [%r5], 0; bar.sync 0; and.b32 %r6, %r1, 7; mad.lo.u32 %r5, %r6, 0, %r5; "
    found = first(f"{begin}{part}{together}\nJ: bar.sync 0;", block=160)
    assert found.code == "X011"
    assert who in found.message
    assert f"at line {found.line + 1} (bar.sync)" in found.message


@pytest.mark.parametrize("load", ["ld.acquire.gpu.global.u32 %r7, [%d20+4];", "atom.global.cas.b32 %r7, [%d20+4], 9, 9;"])
@pytest.mark.parametrize("wanted", [0, 3])
def test_a_poll_that_holds_up_a_barrier_is_the_cause_and_says_what_it_reads(load: str, wanted: int):
    """Lane 0 polls a word, which is 0; the others wait for it."""
    run = ran(f"setp.ne.u32 %p1, %r1, 0; @%p1 bra J;\nL: {load} setp.ne.u32 %p2, %r7, {wanted}; @%p2 bra L;\nJ: bar.sync 0;")
    assert run.ok == (wanted == 0), run.text()
    if wanted:
        poll, barrier = run.findings
        assert poll.instruction == load.removesuffix(";")
        assert "reads 0 at byte 4 of the array" in poll.why
        assert "compares it with 3 (setp.ne.u32)" in poll.why
        assert (barrier.instruction, barrier.cause.line) == ("bar.sync 0", poll.line)


@pytest.mark.parametrize("count", [2, 1])
def test_two_arrivals_that_complete_two_phases_are_a_count_before_another_mbarrier(count: int):
    """Threads of both warps load; nobody waits for the mbarrier next to it, whose phase is complete, too."""
    one, other, next_to_it = (
        f"@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], 256; {bulk(to, bar)}" for to, bar in (("sm", "bar"), ("sm+256", "bar"), ("sm+512", "bar+8"))
    )  # fmt: skip
    body = f"""@%p9 mbarrier.init.shared.b64 [bar], {count}; @%p9 mbarrier.init.shared.b64 [bar+8], 1; bar.sync 0;
    {one} {next_to_it} setp.eq.u32 %p3, %r1, 32; {other.replace("%p9", "%p3")} bar.sync 0;
    W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W; ld.shared.b32 %r2, [%r4]; {OUT}"""
    found = [f for f in ran(body, block=64).findings if f.code == "X006"]
    assert len(found) == (count == 1)
    for f in found:
        assert re.match(r"correct the count of mbarrier.init in line \d+ \(now 1\), .*; or wait for the mbarrier at 0x", f.repair), f.repair


@pytest.mark.parametrize(("wanted", "has_passed"), [(3, True), (5, None), (7, False)])
def test_a_poll_for_a_value_that_a_counter_has_passed_says_so(wanted: int, has_passed: bool | None):
    """The word is 5. A writer may have put 3 there before the loop has looked."""
    poll = f"L: ld.acquire.gpu.global.u32 %r7, [%d20+4]; setp.ne.u32 %p2, %r7, {wanted}; @%p2 bra L;"
    run = ran(f"setp.ne.u32 %p1, %r1, 0; @%p1 bra J;\nst.release.gpu.global.u32 [%d20+4], 5;\n{poll}\nJ: bar.sync 0;")
    assert run.ok == (has_passed is None), run.text()
    for f in run.findings[:1]:
        assert f.repair.startswith(f"if it was {wanted} before: let the thread that writes it wait for an answer") == has_passed, f.repair


def test_lanes_that_went_on_in_a_loop_are_seen_as_well():
    loop = f"mov.u32 %r7, 0; L: {{}} bar.sync 0; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 4; @%p2 bra L; {OUT}"
    assert first(loop.format(f"{LANES}{BUTTERFLY}\nJ:"), block=64).instruction.startswith("shfl")
    assert not ran(loop.format(BUTTERFLY), block=64).findings


def test_the_barrier_in_a_branch_is_told_and_not_the_read_that_follows():
    body = f"{OWN} st.shared.b32 [%r4], %r1; {WARPS} bar.sync 0;\nst.shared.b32 [%r4], %r4;\nJ: {{}}\nbar.sync 0;\nxor.b32 %r6, %r4, 256; ld.shared.b32 %r2, [%r6]; {OUT}"
    run = ran(body.format(""), block=128)
    assert [f.code for f in run.findings] == ["X011", "X008"]
    found = run.findings[0]
    assert found.instruction == "bar.sync 0"
    assert found.line < run.findings[1].line - 2
    assert f"warps 2, 3, in the same phase (line {found.line + 3})" in found.message
    assert not ran(body.format("").replace(WARPS, ""), block=128).findings  # for all threads
    assert not ran(f"{WARPS} bar.sync 0;\nJ: bar.sync 0; {OUT}", block=128).findings  # where it does no harm


def test_lanes_at_different_barriers_are_told_with_both_lines():
    found = first(f"setp.lt.u32 %p1, %r1, 16; @!%p1 bra J;\nbar.sync 0;\nJ: bar.sync 0; {OUT}", block=64)
    assert (found.code, found.instruction) == ("X011", "bar.sync 0")
    assert f"lanes 0 to 15 at line {found.line}, lanes 16 to 31 at line {found.line + 1}" in found.message


CLUSTER = "barrier.cluster.arrive{0}; barrier.cluster.wait{0};\n"


def test_a_cluster_barrier_in_a_branch_is_told():
    other = "mov.u32 %r7, %cluster_ctarank; xor.b32 %r7, %r7, 1; mapa.shared::cluster.u32 %r8, %r4, %r7; ld.shared::cluster.b32 %r2, [%r8];"
    body = f"{OWN} {{}}{CLUSTER.format('')}st.shared.b32 [%r4], %r4;\nJ: {CLUSTER.format('')}{other} {CLUSTER.format('')} {OUT}"
    found = first(body.format(WARPS), block=128, cluster=2)
    assert (found.code, found.instruction) == ("X011", "barrier.cluster.arrive")
    assert f"warps 2, 3 of CTA 1, in the same phase (line {found.line + 2})" in found.message
    # both CTAs write the same words of the array
    assert not ran(body.format(""), block=128, cluster=2, watch_global=False).findings
    body = f"{{}}{CLUSTER.format('{0}')}J: {CLUSTER.format('{0}')} {OUT}".replace("{}", LANES)
    found = first(body.replace("{0}", ".aligned"), block=64, cluster=2)
    assert f"lanes 0 to 15 at line {found.line}, lanes 16 to 31 at line {found.line + 1}" in found.message


@pytest.mark.parametrize(
    ("one", "other", "message", "repair"),
    [
        ("bar.sync 1;", "bar.sync 2;", "warps 2, 3 of CTA (0, 0, 0) wait at line", "the same barrier"),
        (
            "bar.sync 1, 128;",
            "",
            "it is for 128, so 64 more must come; warps 2, 3 ended without arriving",
            "arrive before they end: no thread is left that could",
        ),
        ("bar.sync 1, 128;", "bar.arrive 2, 128;", "it is for 128, so 64 more must come", "correct the thread count"),
    ],
)
def test_barriers_that_never_meet_say_where_the_others_are(one, other, message, repair):
    body = f"setp.lt.u32 %p1, %r1, 64; @!%p1 bra A;\n{one} bra J;\nA: {other}\nJ: {OUT}"
    found = first(body, block=128)
    assert found.code == "X006"
    assert message in found.message
    assert repair in found.repair
    assert not ran(body.replace(one, "bar.sync 1, 128;").replace(f"A: {other}", "A: bar.arrive 1, 128;"), block=128).findings


def test_a_wait_for_a_phase_that_gets_no_arrival_any_more_names_the_arrivals_of_earlier_ones():
    """One thread arrives once, and all wait for two phases."""
    body = "mov.u32 %r5, bar; @%p9 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;\n@%p9 mbarrier.arrive.shared.b64 _, [bar];\n"
    waits = [f"W{n}: mbarrier.try_wait.parity.shared.b64 %p2, [bar], {n};\n@!%p2 bra W{n};\n" for n in (0, 1)]
    again = "@%p9 mbarrier.arrive.shared.b64 _, [bar];\n"
    found = first(body + waits[0] + waits[1] + OUT, try_fixes=False)
    assert found.code == "X006"
    assert re.fullmatch(rf"let line \d+ arrive once more, for phase 1, or remove the wait in line {found.line}", found.repair)
    assert not ran(body + waits[0] + again + waits[1] + OUT).findings
    assert not ran(body + waits[0] + OUT).findings


# ---- phases that nobody waited for


@pytest.mark.parametrize(
    ("arrives", "why", "repair"),
    [
        (
            "@%p9 mbarrier.arrive.shared.b64 _, [bar]; @%p9 mbarrier.arrive.shared.b64 _, [bar];",
            "the same threads arrived in each",
            "let the arriving threads wait",
        ),
        (
            "setp.eq.u32 %p3, %r1, 32; @%p9 mbarrier.arrive.shared.b64 _, [bar]; @%p3 mbarrier.arrive.shared.b64 _, [bar];",
            "2 arrivals came by line",
            "(now 1), or let fewer threads arrive",
        ),
    ],
)
def test_who_runs_ahead_is_told_from_a_count_that_is_too_small(arrives, why, repair):
    found = first(f"@%p9 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; {arrives} bar.sync 0; {WAIT} {OUT}", block=64)
    assert found.code == "X006"
    assert "the wait is for phase 2 (parity 0) of the mbarrier bar[0] (" in found.why
    assert "phases 0, 1 completed without a wait" in found.why
    assert why in found.why
    assert repair in found.repair
    assert [half.does for half in found.halves] == ["wait"]  # the warps that wait are not said to be missing


@pytest.mark.parametrize(("leaves", "is_told"), [("", True), ("bra OUT;", False)])
def test_a_wait_is_a_producers_where_loads_follow_it_on_its_way(leaves, is_told):
    body = f"@%p9 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; mov.u32 %r5, sm; {WAIT} {leaves} {bulk('%r5', 'bar')} OUT: {OUT}"
    found = first(body)
    assert found.code == "X006"
    assert ("wait for parity 1 in line" in found.repair) == is_told


# ---- bytes that came twice, or elsewhere

RANK = (
    "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0; mov.u32 %r5, bar; mov.u32 %r6, sm; mov.u16 %h1, 3; and.pred %p3, %p1, %p9;\n"
)
INIT = "@%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;\n"
EXPECT = "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
MULTICAST = "@{} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r6], [%d20], 256, [%r5], %h1;\n"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;\n"
END = "barrier.cluster.arrive; barrier.cluster.wait;"
HALVES = "mad.lo.u32 %r6, %r7, 128, %r6;\n" + MULTICAST.format("%p9").replace("256", "128")
GOOD = RANK + INIT + EXPECT + MULTICAST.format("%p3") + WAIT + END
SHARED = RANK + INIT + EXPECT + HALVES + WAIT + END
FOREIGN = "not.pred %p5, %p1; and.pred %p4, %p9, %p5; @%p4 mbarrier.arrive.shared.b64 _, [bar];\n@%p3" + EXPECT.removeprefix("@%p9")
MASKS = {
    "leaves out a CTA": (GOOD.replace("%h1, 3", "%h1, 1"), "its mask 0x1 leaves out bit 1", "the mask 0x3"),
    "each its own": (
        SHARED.replace("mov.u16 %h1, 3", "mov.u32 %r8, 1; shl.b32 %r8, %r8, %r7; cvt.u16.u32 %h1, %r8"),
        "the load of CTA 1", "the mask 0x3",
    ),
    "no multicast": (SHARED.replace(".multicast::cluster", "").replace(", %h1;", ";").replace("[%r5]", "[bar]"), "it has no .multicast::cluster", "0x3"),
    "one CTA alone": (SHARED.replace("@%p9 cp.async", "@%p3 cp.async"), "CTA 1 has not issued it", "let CTA 1 issue its part too"),
    "reaches one that expects nothing": (GOOD.replace(EXPECT, FOREIGN), "the mask 0x3 of CTA 0 sends 256 bytes", "the mask 0x1"),
    "twice": (GOOD.replace(WAIT, MULTICAST.format("%p3") + WAIT), "loads it again after", "load it once"),
    "from two CTAs": (GOOD.replace("@%p3 cp", "@%p9 cp"), "twice for one expect_tx, from CTA 0 (mask 0x3) and CTA 1 (mask 0x3)", "out of the mask"),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
def test_a_wrong_mask_or_copy_is_named(name):
    body, why, repair = MASKS[name]
    found = first(body, cluster=2)
    assert found.code == "T210"
    assert found.instruction.startswith(("@%p3 cp.async.bulk", "@%p9 cp.async.bulk"))
    assert why in found.message
    assert repair in found.repair


@pytest.mark.parametrize("body", [GOOD, SHARED], ids=["one issues", "halves"])
def test_a_right_multicast_is_silent(body):
    assert not ran(body, cluster=2).findings


def test_copies_that_bring_the_same_half_twice_are_the_cause_of_what_is_never_written():
    """The bytes that come are as many as expected: both CTAs load the first half."""
    body = SHARED.replace("mad.lo.u32 %r6, %r7, 128, %r6;", "") + f"{OWN} ld.shared.b32 %r2, [%r4+128]; {OUT}"
    found = first(body, cluster=2)
    assert found.code == "X005"
    assert "twice for one expect_tx, from CTA 0 (mask 0x3) and CTA 1 (mask 0x3)" in found.message
    assert not ran(SHARED + f"{OWN} ld.shared.b32 %r2, [%r4+128]; {OUT}", cluster=2).findings


def test_copies_that_nobody_expects_are_told_with_what_to_expect():
    found = first(GOOD.replace(EXPECT, ""), cluster=2)
    assert found.code == "T210"
    assert found.instruction.startswith("@%p3 cp")
    assert "mbarrier.arrive.expect_tx of 256 bytes in CTA 1" in found.repair


def test_a_mask_that_reaches_a_cta_without_the_mbarrier_says_so():
    body = RANK + INIT.replace("@%p9 mbarrier.init", "@%p3 mbarrier.init") + EXPECT.replace("@%p9", "@%p3") + MULTICAST.format("%p3") + END
    found = first(body, cluster=2)
    assert found.code == "X010"
    assert "which the mask 0x3 of CTA 0 reaches" in found.message


def bulk(to: str, bar: str) -> str:
    return f"@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [%d20], 256, [{bar}];\n"


TWO = "@%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 mbarrier.init.shared.b64 [bar+8], 1; bar.sync 0; mov.u32 %r5, sm; mad.lo.u32 %r4, %r1, 4, %r5;\n"
STAGES = TWO + "".join(
    f"@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar+{8 * s}], 256;\n" + bulk(f"sm+{256 * s}", f"bar+{8 * s}") for s in (0, 1)
)


LAST_WAIT = WAIT.replace("[bar]", "[bar+8]").replace("W:", "V:").replace("bra W", "bra V")


def test_bytes_that_complete_on_another_mbarrier_are_named():
    body = STAGES.replace("[%d20], 256, [bar+8]", "[%d20], 256, [bar+0]") + WAIT.replace("[bar]", "[bar+8]")
    found = first(body)
    assert found.code == "T210"
    assert found.instruction.startswith("@%p9 cp.async.bulk")
    assert "expects them at another" in found.message
    assert "give both lines the same mbarrier" in found.repair
    assert not ran(STAGES + WAIT + LAST_WAIT).findings


def test_bytes_that_complete_on_the_mbarrier_of_the_issuers_own_cta_are_named():
    """CTA 0 expects what both load; the other one's load completes at home."""
    body = f"""mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0; setp.ne.u32 %p4, %r7, 0; and.pred %p3, %p1, %p9; and.pred %p4, %p4, %p9; mov.u32 %r5, bar;
    mov.u32 %r6, sm; @%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
    @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512; {bulk("%r6", "%r5")} @!%p1 bra OUT; {WAIT} OUT: barrier.cluster.arrive; barrier.cluster.wait;"""
    run = ran(body, cluster=2)
    found = run.findings[0]
    assert found.code == "T210"
    assert found.instruction.startswith("@%p9 cp.async.bulk")
    assert "of CTA 1 completes on its own mbarrier" in found.message
    assert "the address of CTA 0's mbarrier" in found.repair
    assert not ran(
        body.replace("512;", "256;").replace("@!%p1 bra OUT;", "@%p4 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;"), cluster=2
    ).findings


@pytest.mark.parametrize(("stage", "silent"), [(0, True), (1, False)])
def test_a_read_of_another_stage_than_was_waited_for_is_named(stage, silent):
    rest = LAST_WAIT if silent else ""
    run = ran(f"{STAGES}{WAIT}{rest} ld.shared.b32 %r2, [%r4+{256 * stage}]; {OUT}")
    assert bool(run.findings) != silent
    if not silent:
        found = run.findings[0]
        assert found.code == "X004"
        assert "waited for the mbarrier at 0x1400, whose phase brought 0x400 to 0x4ff: another stage" in found.message
        assert "complete on the mbarrier at 0x1408" in found.repair


@pytest.mark.parametrize("rest", ["", LAST_WAIT])
def test_a_read_of_bytes_that_another_variable_counts_names_it(rest):
    """The mbarrier of the second load is a variable of its own."""
    body = f"mov.u32 %r2, 7; {STAGES}{WAIT}{rest} ld.shared.b32 %r2, [%r4+256]; {OUT}".replace("bar+8", "scales")
    findings = ran("", ptx=kernel(1, body, variables=f"{VARIABLES}.shared .align 8 .b64 scales;\n")).findings
    assert len(findings) == (not rest)
    for found in findings:
        assert re.search(r"waited for the mbarrier bar\S* \(0x\w+\); these bytes complete on scales", found.why)
        assert re.search(r"^wait for the mbarrier scales\S* \(0x\w+\) before the read", found.repair)


@pytest.mark.parametrize(
    ("waits_at", "repair"), [("bar+8", "mbarrier.try_wait.parity on the load's mbarrier bar[0] (0x"), ("bar", "parity 0 in line")]
)
def test_a_wait_that_passes_at_once_is_told_of_the_mbarrier_that_counts_the_load(waits_at, repair):
    """Warp 0 reads what warp 1 loads later; it has waited for a free accumulator, or with the wrong parity for the
    load.
    """
    body = f"""{TWO} setp.lt.u32 %p1, %r1, 32; @!%p1 bra LOADS; W:
    mbarrier.try_wait.parity.shared.b64 %p2, [{waits_at}], 1;
    @!%p2 bra W; ld.shared.b32 %r2, [%r4]; bra END;
    LOADS: setp.eq.u32 %p9, %r1, 32; @%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; {bulk("sm", "bar")} @%p9 mbarrier.arrive.shared.b64 _, [bar+8];
    END: {OUT}"""
    found = next(f for f in ran(body, block=64).findings if f.code == "X004")
    assert repair in found.repair


TOO_EARLY, MISSING_WAIT = "wait for an mbarrier at which the readers arrive", "mbarrier.try_wait.parity on the load's mbarrier"


@pytest.mark.parametrize(
    ("waits", "causes"),
    [
        (LAST_WAIT, [TOO_EARLY, MISSING_WAIT]),
        (f"{LAST_WAIT} ld.shared.b32 %r2, [%r4+256];", [MISSING_WAIT, TOO_EARLY]),
        ("", []),
    ],
    ids=["nothing has read the first bytes", "they were read", "no wait"],
)
def test_a_load_into_what_its_reader_has_waited_for_may_have_come_too_early(waits, causes):
    """One warp loads a stage, waits, and loads it again: who reads it then waits for that, or was to read it before.
    The second is more likely if nothing has read what the first load brought.
    """
    again = "bar.warp.sync -1; @%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 256;" + bulk("sm+256", "bar+8")
    store = "@%p9 cp.async.bulk.global.shared::cta.bulk_group [%d20], [sm+256], 128; @%p9 cp.async.bulk.commit_group; @%p9 cp.async.bulk.wait_group 0;"
    found = next(f for f in ran(f"{STAGES}{WAIT} {waits} {again if waits else ''} {store}").findings if f.code == "X004")
    assert sorted((text for text in (TOO_EARLY, MISSING_WAIT) if text in found.repair), key=found.repair.find) == causes


# ---- arrivals of the other CTA

PEERS = """mov.u32 %r7, %cluster_ctarank; mov.u32 %r5, bar; @%p9 mbarrier.init.shared.b64 [bar], 2; @%p9 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive; barrier.cluster.wait; {} WHO mapa.shared::cluster.u32 %r8, %r5, 0; WHO mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
WHO mapa.shared::cluster.u32 %r8, %r5, TO; WHO mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W; barrier.cluster.arrive; barrier.cluster.wait;"""


def test_a_missing_arrival_of_the_peer_is_named():
    right = PEERS.format("").replace("WHO", "@%p9").replace("TO", "1")
    assert not ran(right, cluster=2).findings
    own = right.replace("mapa.shared::cluster.u32 %r8, %r5, 0", "mapa.shared::cluster.u32 %r8, %r5, %r7", 1).replace(
        "u32 %r8, %r5, 1;", "u32 %r8, %r5, 1; bra W;", 1
    )
    found = first(own, cluster=2)
    assert found.code == "X006"
    assert "1 of 2 arrivals is missing; CTA 1 has arrived at the mbarrier of CTA 1" in found.message
    assert "let CTA 1 arrive here too: mapa of the address to rank 0" in found.repair
    alone = PEERS.format("setp.eq.u32 %p3, %r7, 0; and.pred %p3, %p3, %p9;").replace("WHO", "@%p3").replace("TO", "1")
    found = first(alone, cluster=2)
    assert "CTA 1 has never arrived" in found.message
    assert "let CTA 1 arrive here too" in found.repair


def test_who_has_waited_for_a_store_and_tells_nobody_is_named():
    """Warp 0 stores and waits for what it reads; warp 1 overwrites it, with a barrier between or without."""
    body = f"""{OWN} st.shared.b32 [%r4], %r1; fence.proxy.async.shared::cta; bar.sync 0; setp.lt.u32 %p1, %r1, 32; @!%p1 bra J;
    @%p9 cp.async.bulk.global.shared::cta.bulk_group [%d20], [%r5], 128; @%p9 cp.async.bulk.commit_group; @%p9 cp.async.bulk.wait_group.read 0;
    J: {{}} @!%p1 st.shared.b32 [%r4+-128], %r1;"""
    assert not ran(body.format("bar.sync 0;"), block=64).findings
    assert "X005" in {f.code for f in ran(body.format(""), block=64).findings}


# ---- the life of an mbarrier

MADE = "mov.u32 %r5, bar; @%p9 mbarrier.init.shared.b64 [%r5], 1; bar.sync 0;\n"
USED = "@%p9 mbarrier.arrive.shared.b64 _, [%r5]; W{0}: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra W{0}; bar.sync 0;\n"
INVAL = "@%p9 mbarrier.inval.shared.b64 [%r5];\n"
COPY = "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 256;\n" + bulk("sm", "%r5")
AGAIN = "@%p9 mbarrier.init.shared.b64 [%r5], 1; bar.sync 0;\n"


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        (MADE + USED.format(1) + AGAIN + USED.format(2), MADE + USED.format(1) + INVAL + AGAIN + USED.format(2), "of CTA 0 is initialised again"),
        (MADE + USED.format(1) + "@%p9 st.shared.b32 [%r5], 7;", MADE + USED.format(1) + INVAL + "@%p9 st.shared.b32 [%r5], 7;", "of CTA 0 is overwritten, and was not invalidated; write: st.shared.b32"),
        (MADE + COPY + INVAL, MADE + COPY + WAIT + "bar.sync 0;" + INVAL, "may still complete"),
        (
            MADE + COPY + "setp.lt.u32 %p3, %r1, 32; @%p3 bra J;\n" + WAIT + "J:" + INVAL,
            MADE + COPY + "setp.lt.u32 %p3, %r1, 32; @%p3 bra J;\n" + WAIT + "J: bar.sync 0;" + INVAL,
            "may still complete",
        ),
    ],
    ids=["init twice", "reused as data", "inval of a pending copy", "inval without a barrier"],
)  # fmt: skip
def test_an_mbarrier_ends_with_inval(wrong, right, words):
    """What comes behind its last use without inval is luck: silicon keeps no account of mbarriers, and Triton's kernels
    reuse their bytes.
    """
    run = ran(wrong, block=64)
    code, severity, told = ("X005", "wrong", run.findings) if "complete" in words else ("X010", "luck", run.remarks)
    found = next(f for f in told if f.code == code)
    assert found.severity == severity
    assert words in found.message
    assert not ran(right, block=64).findings
    assert code not in {f.code for f in ran(right, block=64).remarks}


@pytest.mark.parametrize("before", ["mov.u32 %r5, bar;\n", MADE + USED.format(1) + INVAL], ids=["none was there", "twice"])
def test_inval_of_no_mbarrier_is_a_remark(before):
    """An H100 leaves the word as it is, and goes on."""
    run = ran(before + INVAL, block=64)
    assert (run.findings, [(f.code, f.severity) for f in run.remarks]) == ([], [("X010", "luck")])


def test_an_expect_tx_that_all_threads_execute_is_one_for_one_thread():
    """Each execution expects its own bytes, and is an arrival."""
    right = MADE + COPY + "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra W;"
    assert not ran(right).findings
    found = first(right.replace("@%p9 mbarrier.arrive.expect_tx", "mbarrier.arrive.expect_tx"))
    assert (found.code, found.repair) == ("X010", "let one thread execute it")
    assert "32 threads execute it together, and a phase has 1 arrival" in found.message
    twice = first(right.replace(COPY, COPY.partition("\n")[0] + COPY))
    assert (twice.code, "together" in twice.message) == ("X010", False)


READ_ALL = "mad.lo.u32 %r4, %r1, 4, %r3; ld.shared.b32 %r2, [%r4]; add.u64 %d1, %d20, 1024; mad.wide.u32 %d1, %r1, 4, %d1; st.global.b32 [%d1], %r2;"


@pytest.mark.parametrize(
    ("update", "repair"),
    [
        ("@%p3 ld.shared.b32 %r2, [%r3]; @%p3 add.u32 %r8, %r2, %r1; @%p3 st.shared.b32 [%r3], %r8;", "one atomic operation (atom or red)"),
        ("@%p3 ld.shared.b32 %r2, [%r3]; @%p3 add.u32 %r8, %r1, 7; @%p3 st.shared.b32 [%r3], %r8;", "bar.sync"),
        ("@%p3 atom.shared.add.u32 %r2, [%r3], %r1;", None),
    ],
    ids=["a sum", "another value", "an atomic"],
)
def test_a_sum_that_two_warps_update_needs_an_atomic_operation(update: str, repair: str | None):
    """%p3: lane 0 of each warp. No barrier between the load and the store helps."""
    body = f"mov.u32 %r3, sm; @%p9 st.shared.b32 [%r3], 0; bar.sync 0; and.b32 %r6, %r1, 31; setp.eq.u32 %p3, %r6, 0; {update}"
    findings = ran(body, block=64).findings
    assert {f.code for f in findings} == ({"X008"} if repair else set())
    assert all((str(repair) in f.repair, "atomic" in f.repair) == (True, repair != "bar.sync") for f in findings[:1])


def copies_by_threads(*, early: str = "", late: str = "", arrive: str = "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];") -> str:
    """The second warp copies other numbers to a stage twice by cp.async, and the first one reads them. The word behind
    the stage says how many copies were issued.
    """
    return f"""mov.u32 %r3, sm; @%p9 mbarrier.init.shared.b64 [bar], 32; @%p9 mbarrier.init.shared.b64 [bar+8], 1; @%p9 st.shared.b32 [sm+512], 0;
    and.b32 %r6, %r1, 31; mad.lo.u32 %r4, %r6, 4, %r3; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1;
    st.global.b32 [%d1], %r1; bar.sync 0;
    mov.u32 %r8, 0; setp.ge.u32 %p3, %r1, 32; @%p3 bra COPIES;
    READS: and.b32 %r9, %r8, 1; W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r9; @!%p2 bra W;
    {early}
    ld.shared.b32 %r2, [%r4]; st.global.b32 [%d1+1024], %r2;
    {late}
    add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 2; @%p4 bra READS; bra J;
    COPIES: xor.b32 %r9, %r8, 1; and.b32 %r9, %r9, 1; E: mbarrier.try_wait.parity.shared.b64 %p2, [bar+8], %r9; @!%p2 bra E;
    cp.async.ca.shared.global [%r4], [%d1], 4;
    {arrive}
    sub.u64 %d1, %d1, 128; add.u32 %r8, %r8, 1; st.volatile.shared.b32 [sm+512], %r8; setp.lt.u32 %p4, %r8, 2; @%p4 bra COPIES; J:
    """


FREE = "bar.warp.sync -1; @%p9 mbarrier.arrive.shared.b64 _, [bar+8];"
NEXT_COPY = "F: ld.volatile.shared.b32 %r12, [sm+512]; setp.lt.u32 %p4, %r12, 2; @%p4 bra F;"


@pytest.mark.parametrize(
    ("given", "repair"),
    [
        ({"late": FREE}, ""),
        ({"early": FREE + NEXT_COPY}, r"; or if bar\[1\].* is the mbarrier of this stage: move mbarrier.arrive.shared.b64 of line \d+ after the reads"),
        ({"late": FREE, "arrive": "mbarrier.arrive.shared.b64 _, [bar];"}, r"^cp.async.mbarrier.arrive.noinc instead of mbarrier.arrive.shared.b64 in line \d+"),
    ],
    ids=["right", "freed before the reads", "the arrival does not wait"],
)  # fmt: skip
def test_a_ring_of_copies_by_threads_names_the_arrival(given: dict[str, str], repair: str):
    findings = ran(copies_by_threads(**given), block=64).findings
    assert [f.code for f in findings[:1]] == ["X004"] * bool(repair)
    assert all(re.search(repair, f.repair) for f in findings[:1]), findings[0].repair


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("waits", ["@%p9", "@%p3"], ids=["one thread", "one thread of the first warp"])
def test_who_has_not_waited_for_a_copy_decides_how_to_repair(block: int, waits: str):
    """%p3: thread 0, and all of the second warp."""
    wait = f"{waits.replace('@', '@!')} bra J; W: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra W; J:\n"
    body = MADE + "mov.u32 %r3, sm; setp.ge.u32 %p3, %r1, 32; or.pred %p3, %p3, %p9;\n" + COPY + wait
    found = first(body + READ_ALL, block=block)
    whole = block == 64 and waits == "@%p9"
    assert found.code == "X004"
    assert ("warp 1 has not waited" in found.message, found.repair) == (
        whole, "bar.sync (__syncthreads) after the wait, or let all threads wait" if whole else "bar.warp.sync (__syncwarp) after the wait, or let all lanes wait"
    )  # fmt: skip
    assert not ran(body + ("bar.sync 0;" if whole else "bar.warp.sync -1;") + READ_ALL, block=block).findings


@pytest.mark.parametrize(
    ("who", "words"),
    [(32, "is of warp 1: a thread"), (1, "is of other lanes of warp 0: a thread"), (0, "")],
    ids=["warp", "lane", "issuer"],
)
def test_a_wait_for_commit_groups_is_of_the_thread_that_issued(who: int, words: str):
    store = bulk("", "").replace(
        "shared::cluster.global.mbarrier::complete_tx::bytes [], [%d20], 256, []", "global.shared::cta.bulk_group [%d20], [sm], 256"
    )
    body = f"{store} @%p9 cp.async.bulk.commit_group; setp.eq.u32 %p3, %r1, {who}; @%p3 cp.async.bulk.wait_group 0; bar.sync 0; @%p9 st.shared.b32 [sm], %r1;"
    findings = ran(
        "mov.u32 %r3, sm; mad.lo.u32 %r4, %r1, 4, %r3; st.shared.b32 [%r4], %r1; fence.proxy.async.shared::cta; bar.sync 0;" + body,
        block=64,
    ).findings
    assert [f.code for f in findings] == ["X005"] * (who > 0)
    assert all(words in f.message for f in findings)


def test_threads_that_all_initialise_at_once_do_no_harm():
    assert not ran("mov.u32 %r5, bar; mbarrier.init.shared.b64 [%r5], 1; bar.sync 0;\n" + USED.format(1)).findings


FAR = "setp.eq.u32 %p3, %r7, 0; not.pred %p4, %p3; and.pred %p3, %p3, %p9; and.pred %p4, %p4, %p9;"  # the first threads of CTAs 0 and 1
BETWEEN = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
GIVEN = f"mov.u32 %r5, bar; mov.u32 %r6, sm; mov.u32 %r7, %cluster_ctarank; {FAR} @%p9 mbarrier.init.shared.b64 [%r5], 1; {BETWEEN}"


@pytest.mark.parametrize("state", ["%d1", "%d2"], ids=["of the first phase", "of its own phase"])
def test_a_wait_with_the_state_of_an_earlier_phase_says_so(state: str):
    """No number of the program is a parity."""
    arrive, wait = "mbarrier.arrive.shared.b64 {}, [%r5];", "W{0}: mbarrier.try_wait.shared.b64 %p2, [%r5], {1}; @!%p2 bra W{0};\n"
    body = (
        f"{MADE}@!%p9 bra J; {arrive.format('%d1')} {wait.format(1, '%d1')} {arrive.format('%d2')} {wait.format(2, state)} J: bar.sync 0;"
    )
    run = ran(body)
    assert run.ok == (state == "%d2")
    if not run.ok:
        assert run.findings[0].code == "X006"
        assert "with the state that the thread's last arrival returned" in run.findings[0].repair
        assert "parity" not in run.findings[0].repair


@pytest.mark.parametrize("is_again", [False, True])
def test_an_mbarrier_that_is_initialised_again_while_others_use_it_must_not_be(is_again: bool):
    used = MADE + "@%p9 mbarrier.arrive.shared.b64 _, [%r5]; W: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra W;\n"
    again = "@%p9 mbarrier.init.shared.b64 [%r5], 1;\n" if is_again else ""
    run = ran(f"{used} bar.sync 0; {again} setp.eq.u32 %p3, %r1, 32; @%p3 mbarrier.arrive.shared.b64 _, [%r5];", block=64)
    assert [f.code for f in run.findings] == ["X008"] * is_again, run.text()
    if is_again:
        init = next(half.instruction.line for half in run.findings[0].halves if half.does == "init")
        assert run.findings[0].repair.startswith(f"let line {init} execute once")
        assert next(f for f in run.remarks if f.code == "X010").cause.line == run.findings[0].line


@pytest.mark.parametrize("who", ["", "%p3", "%p4"], ids=["nobody", "the issuer", "the receiver"])
def test_bytes_for_another_cta_are_expected_there(who: str):
    """CTA 0 copies to CTA 1, on whose mbarrier the copy completes."""
    expect = f"@{who} mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 16;" if who else ""
    body = f"""{GIVEN} {expect} @%p3 st.shared.v4.b32 [%r6], {{%r1, %r1, %r1, %r1}}; mapa.shared::cluster.u32 %r8, %r6, 1; mapa.shared::cluster.u32 %r9, %r5, 1;
    fence.proxy.async.shared::cta; @%p3 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8+64], [%r6], 16, [%r9];
    @!%p4 bra J; W: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra W;
    J: {BETWEEN.replace(".aligned", "")}"""
    run = ran(body, cluster=2)
    assert run.ok == (who == "%p4"), run.text()
    assert run.ok or any("mbarrier.arrive.expect_tx of 16 bytes by a thread of CTA 1" in f.repair for f in run.findings)


@pytest.mark.parametrize("waits", [True, False])
def test_nobody_can_wait_at_the_mbarrier_of_another_cta(waits: bool):
    """CTA 0 reads what a copy brings to CTA 1."""
    load = "@%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 16; @%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%d20], 16, [%r5];"
    wait = "@!%p4 bra A; W: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra W; A:"
    read = f"mapa.shared::cluster.u32 %r8, %r6, 1; @%p3 ld.shared::cluster.b32 %r9, [%r8]; @%p3 st.global.b32 [%d20+64], %r9; {BETWEEN.replace('.aligned', '')}"
    run = ran(f"{GIVEN} {load} {wait if waits else ''} {BETWEEN.replace('.aligned', '')} {read} {'' if waits else wait}", cluster=2)
    assert run.ok == waits, run.text()
    if not waits:
        assert re.search(r"^let line \d+ complete at an mbarrier of CTA 0 \(mapa\), and wait there", run.findings[0].repair)


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_a_release_for_other_warps_needs_a_barrier_of_all(block: int, barrier: str):
    """CTA 0 stores, its first thread releases a flag, which CTA 1 polls."""
    at = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1;"
    body = f"""{at} mov.u32 %r7, %ctaid.x; setp.ne.u32 %p3, %r7, 0; @%p3 bra READ;
    st.global.b32 [%d1], %r1; {barrier} @%p9 st.release.gpu.global.b32 [%d20+1024], 1; bra END;
    READ: ld.acquire.gpu.global.b32 %r8, [%d20+1024]; setp.ne.u32 %p4, %r8, 1; @%p4 bra READ; ld.global.b32 %r9, [%d1]; END:"""
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), grid=2, block=block, args=[gpu.array(np.zeros(1024, np.uint32))], progress=False)
    assert [f.code for f in run.findings] == ["X008"] * (not barrier), run.text()
    if not barrier:
        assert ("of other warps too: bar.sync" in run.findings[0].repair) == (block == 64)


def test_what_overwrote_an_mbarrier_is_named():
    found = first(MADE + "@%p9 st.shared.b32 [%r5], 7;\nbar.sync 0;" + WAIT)
    assert found.code == "X010"
    assert f"overwritten by st.shared.b32 of line {found.line - 1}" in found.message


# ---- in words

UNROLLED = OWN + "".join(f"st.shared.b32 [%r4+{256 * n}], %r1;\n" for n in range(4)) + "xor.b32 %r6, %r4, 128;\n" + "".join(
    f"ld.shared.b32 %r{20 + n}, [%r6+{256 * n}]; add.u32 %r2, %r2, %r{20 + n};\n" for n in range(4)
) + OUT  # fmt: skip


def test_one_bug_of_an_unrolled_loop_is_one_finding_with_all_lines():
    run = ran(UNROLLED, block=64)
    (found,) = run.findings
    assert (found.code, found.count) == ("X008", 4)
    assert found.lines == tuple(range(found.line, found.line + 4))
    assert run.text().count("X008") == 1
    assert f"and 3 more like it (PTX lines {found.line + 1}, {found.line + 2}, {found.line + 3})" in run.text()
    assert "1 finding at 4 instructions" in run.summary()
    told = json.loads(json.dumps(run.as_dict()))["findings"]
    assert [(f["count"], f["lines"]) for f in told] == [(4, list(found.lines))]
    assert "and 3 more like it" in run.html()
    assert not ran(UNROLLED.replace("xor.b32", "bar.sync 0; xor.b32"), block=64).findings


def inlined(calls: int) -> Run:
    """A function of six lines, whose loads bring shared memory that nothing has written, inlined at so many lines of a
    kernel.
    """
    lines = (
        "and.b32 %r6, %r1, 31;", "ld.shared.b32 %r20, [%r4];", "ld.shared.u16 %r21, [%r4+256];", "ld.shared.u8 %r22, [%r4+512];",
        "add.u32 %r2, %r2, %r20;", "add.u32 %r2, %r2, %r21; add.u32 %r2, %r2, %r22;",
    )  # fmt: skip
    body = f".loc 1 90 1\n{OWN} mov.u32 %r2, 0;\n"
    for call in range(calls):
        body += f".loc 1 {100 + call} 3\n"
        for n, text in enumerate(lines):
            body += f".loc 2 {7 + n} 5, function_name NAME, inlined_at 1 {100 + call} 3\n{text}\n"
    body += f".loc 1 200 1\n{OUT}"
    ptx = kernel(1, body) + '.file 1 "kernel.cu"\n.file 2 "hash.cuh"\n.section .debug_str\n{\nNAME:\n.b8 104\n.b8 0\n}\n'
    return ran("", ptx=ptx)


def test_what_an_inlined_function_reads_uninitialised_is_one_finding():
    """It has one cause, whichever of its lines and calls meet it."""
    (found,) = inlined(3).findings
    assert (found.code, found.count) == ("R507", 9)
    assert found.repair
    assert len(inlined(1).findings) == 3


def test_waits_at_several_places_stay_apart():
    """Threads that wait at two places for what never comes are two findings, though the sentences are alike."""
    waits = "".join(
        f"setp.ge.u32 %p1, %r1, 32; @{'!' * n}%p1 bra J{n};\nW{n}: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W{n};\nJ{n}:\n"
        for n in range(2)
    )
    run = ran(f"@%p9 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; {waits}", block=64)
    assert [f.code for f in run.findings] == ["X006"] * 2


LOCATED = """.file 1 "k.cu"
.file 2 "/usr/local/cuda/include/lib.h"
"""


def located(*lines: str) -> Run:
    ptx = kernel(1, "\n".join(lines)).replace(".visible", LOCATED + ".visible")
    return ran("", block=64, ptx=ptx)


def test_the_line_of_the_users_call_comes_first():
    store, load = f"{OWN} st.shared.b32 [%r4], %r1; xor.b32 %r6, %r4, 128;", "ld.shared.b32 %r2, [%r6];"
    (found,) = located(".loc 1 10 1", store, ".loc 1 3 1, function_name n, inlined_at 1 10 5", load, ".loc 1 12 1", OUT).findings
    # a function of one line only wraps its instruction
    assert (str(found.place), str(found.location)) == ("k.cu:10", "k.cu:3")
    assert found.where.endswith("(k.cu:10, by line 3)")
    (found,) = located(".loc 1 10 1", store, ".loc 2 3 1, function_name n, inlined_at 1 10 5", load, ".loc 1 12 1", OUT).findings
    assert found.where.endswith("(k.cu:10, by /usr/local/cuda/include/lib.h:3)")
    longer = [f".loc 1 {n} 1, function_name n, inlined_at 1 30 5\nadd.u32 %r9, %r9, 1;" for n in (1, 2, 4, 5)]
    (found,) = located(".loc 1 10 1", store, *longer, ".loc 1 3 1, function_name n, inlined_at 1 30 5", load, ".loc 1 12 1", OUT).findings
    assert found.where.endswith("(k.cu:3, inlined at line 30)")  # one that does more is what its author wrote


def test_a_function_inlined_at_several_places_is_one_finding():
    longer = [f".loc 1 {n} 1, function_name n, inlined_at 1 {{0}} 5\nadd.u32 %r9, %r9, 1;" for n in (1, 2, 4, 5)]
    body = [".loc 1 3 1, function_name n, inlined_at 1 {0} 5\nld.shared.b32 %r{1}, [%r6]; add.u32 %r2, %r2, %r{1};"]
    both = [line.format(at, 20 + at) for at in (30, 31) for line in (*longer, *body)]
    store = f"mov.b32 %r2, 0; mov.b32 %r9, 0; {OWN} st.shared.b32 [%r4], %r1; xor.b32 %r6, %r4, 128;"
    (found,) = located(".loc 1 10 1", store, *both, ".loc 1 12 1", OUT).findings
    assert (found.count, len(found.lines)) == (2, 2)
    places = [found.at, *found.alike]
    assert [at.place.path for at in places] == ["k.cu:3, inlined at line 30", "k.cu:3, inlined at line 31"]


def test_inline_assembly_keeps_the_line_of_its_statement():
    """LLVM numbers the lines of assembly text from the statement on."""
    ptx = kernel(
        0, ".loc 1 9 5\n// begin inline asm\n{\n.loc 1 12 5\nadd.u32 %r2, %r2, 1;\n}\n// end inline asm\n.loc 1 20 1\nadd.u32 %r2, %r2, 1;"
    )
    module = read_module(ptx.replace(".visible", LOCATED + ".visible"))
    assert [i.location.line for i in module.functions["k"].body if i.op == "add"] == [9, 20]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z4gemmILi3E4TileILi64EEEv14CUtensorMap_stPf", "gemm<3, Tile<64>>"),
        ("_ZZ4gemmILi3EEvPfE4smem", "gemm<3>::smem"),
        ("_ZN2ns6kernelIfLb1EJ6__halfiEEEvPT_", "ns::kernel<float, true, __half, int>"),
        ("_ZN12_GLOBAL__N_13fooEv", "(anonymous)::foo"),
        ("_Z1kIN1a1bI1cI1dI1eEEEEEvv", "k<a::b<c<…>>>"),
        ("_Z1kIXsrT_5valueEEvv", "k<…>"),
        ("_Z4gemmPf_param_2", "gemm_param_2"),
        ("kernel", "kernel"),
        ("_Z", "_Z"),
    ],
)  # fmt: skip
def test_symbols_are_told_as_names(symbol, name):
    assert demangled(symbol) == name
    assert readable(f"see {symbol}, twice {symbol}") == f"see {name}, twice {name}"


@pytest.mark.parametrize("part", ["I", "P", "1aI", "N", "Z", "J", "L", "S", "F", "1aIL"])
def test_no_symbol_takes_long(part):
    for count in (3, 100, 2000):
        assert len(shorter_name("_Z" + part * count)) <= 80


def test_long_lines_are_cut_and_json_keeps_them():
    symbol, pad = f"_ZN1n{'6kernelI' * 20}f{'E' * 21}v", "_" * 800
    body = f"{OWN} .reg .b32 %wide{pad}; mov.b32 %wide{pad}, %r1; st.shared.b32 [%r4], %wide{pad}; xor.b32 %r6, %r4, 128; ld.shared.b32 %wide{pad}, [%r6]; mov.b32 %r2, %wide{pad}; {OUT}"
    run = ran("", block=64, ptx=kernel(1, body).replace(" k(", f" {symbol}("))
    assert {f.code for f in run.findings} == {"X008"}
    assert all(len(line) < 500 for line in run.text().splitlines())
    assert pad not in run.html()
    assert run.summary().startswith("n::kernel<kernel<kernel<…>>>: ")
    told = run.as_dict()
    assert (told["entry"], told["name"]) == (symbol, "n::kernel<kernel<kernel<…>>>")
    assert pad in told["findings"][0]["instruction"]


# ---- instructions on one line, as inline assembly has them

ONE_LINE = """.version 8.3 .target sm_90a .address_size 64
.visible .entry k(.param .u64 to) {{ .reg .b32 %t, %s, %x, %v; .reg .b64 %to; .reg .pred %p; .shared .align 16 .b8 sm[512];
 ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; shl.b32 %s, %t, 2; mov.u32 %x, sm; add.u32 %s, %s, %x; xor.b32 %v, %s, 128;
 {body}
 ret; }}
"""
ONE_INIT = "setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%x], 1; bar.sync 0;"


@pytest.mark.parametrize(
    ("body", "code", "halves", "repair"),
    [
        (
            "st.shared.u32 [%s], %t; ld.shared.u32 %t, [%v]; st.global.u32 [%to], %t;", "X008", ["ld.shared.u32", "st.shared.u32"],
            "between st.shared.u32 of line 4 and ld.shared.u32 of line 4",
        ),
        (
            "cp.async.ca.shared.global [%s], [%to], 4; ld.shared.u32 %t, [%s]; st.global.u32 [%to], %t;", "X004",
            ["ld.shared.u32", "cp.async.ca.shared.global"], "before ld.shared.u32 of line 4: cp.async.commit_group",
        ),
        ("setp.ne.u32 %p, %t, 77;\n @!%p bra OUT;\n trap;\nOUT:", "X013", [], "line 5 (@!%p bra OUT) leads here if %p is true; line 4 sets %p"),
        (
            ONE_INIT + " mbarrier.try_wait.parity.shared.b64 %p, [%x], 0;\n @%p bra OUT;\n trap;\nOUT:", "X013", [],
            "the phase of the mbarrier is not complete (check its arrivals and its expected bytes): line 5 (@%p bra OUT) leads here if %p is false",
        ),
        (
            ONE_INIT + "\nW: mbarrier.try_wait.parity.shared.b64 %p, [%x], 1; @!%p bra W; trap;", "X013", [],
            "or branch around it: each thread that passes the wait comes here; line 5 (@!%p bra W) leads here if %p is true; line 5 sets %p",
        ),
        (
            "st.shared.u32 [%x], 5; ld.shared.u32 %t, [%x+4]; st.global.u32 [%to], %t;", "R507", ["ld.shared.u32", "st.global.u32"],
            "so far line 4 (st.shared.u32) has written only bytes next to them",
        ),
        (
            "st.shared.u32 [%x], 5; ld.shared.u32 %t, [%x+4]; bar.sync 0; st.shared.u32 [%x+4], 5; st.global.u32 [%to], %t;", "R507",
            ["ld.shared.u32", "st.global.u32"], "before ld.shared.u32 of line 4 reads them: line 4 (st.shared.u32) writes them only after that",
        ),
        (
            "st.shared.u32 [%x], 5; ld.shared.u32 %t, [%x+4]; bar.sync 0;\nst.shared.u8 [%x+7], 5; st.global.u32 [%to], %t;", "R507",
            ["ld.shared.u32", "st.global.u32"], "line 5 (st.shared.u8) writes some of them only after that",
        ),
        (
            "cp.async.ca.shared.global [%x], [%to], 4; cp.async.ca.shared.global [%x+8], [%to], 4; cp.async.wait_all; bar.sync 0;"
            "ld.shared.u32 %t, [%x+4]; st.global.u32 [%to], %t;", "R507",
            ["ld.shared.u32", "st.global.u32"], "so far line 4 (cp.async.ca.shared.global) has written only bytes next to them",
        ),
        (
            "st.shared.u32 [%x], 5; st.shared.u16 [%x+8], 1; ld.shared.u32 %t, [%x+4]; st.global.u32 [%to], %t;", "R507", ["ld.shared.u32", "st.global.u32"],
            "so far line 4 (st.shared.u32) has written only bytes next to them",
        ),
        ("W: ld.volatile.global.u32 %t, [%to]; setp.eq.u32 %p, %t, 0; @%p bra W;", "X006", [None], "(ld.volatile.global.u32) reads"),
    ],
)  # fmt: skip
def test_a_finding_names_the_instruction_that_can_do_it(body: str, code: str, halves: list[str | None], repair: str):
    gpu = Gpu("sm_90a")
    found = gpu.launch(ONE_LINE.format(body=body), block=64, args=[gpu.zeros(256, np.uint32)], progress=False).findings
    first = next(f for f in found if f.code == code)
    assert [half.instruction.name for half in first.halves if half.instruction is not None and halves != [None]] == [h for h in halves if h]
    assert repair in first.repair


def on_a_line(first: str, then: str) -> list[tuple[int, list[str]]]:
    """The races of words that warps store by `first` and read by `then`: the line and the texts of both accesses."""
    gpu, body = Gpu("sm_90a"), f"{first}\n {then}\n red.global.add.u32 [%to], %t; red.global.add.u32 [%to], %x;"
    found = gpu.launch(ONE_LINE.format(body=body), block=64, args=[gpu.zeros(256, np.uint32)], progress=False).findings
    return [(f.line, [half.instruction.text for half in f.halves if half.instruction is not None]) for f in found if f.code == "X008"]


ONE_STORE, OTHER_STORE, ONE_LOAD, OTHER_LOAD = (
    "st.shared.v2.u32 [%x+496], {%t, %t}", "st.shared.u32 [%s], %t", "ld.shared.u32 %x, [%s]", "ld.shared.u32 %t, [%v]",
)  # fmt: skip


@pytest.mark.parametrize("meets", ["", "bar.sync 0;"])
def test_of_several_instructions_on_one_line_the_one_that_races_is_named(meets: str):
    stores = f"setp.eq.u32 %p, %t, 0; @%p {ONE_STORE}; {OTHER_STORE}; {meets}"
    assert on_a_line(stores, f"{ONE_LOAD}; {OTHER_LOAD};") == ([] if meets else [(5, [OTHER_LOAD, OTHER_STORE])])


@pytest.mark.parametrize(("apart", "lines"), [("", [5, 5]), ("\n", [5, 6])])
def test_two_races_of_one_line_are_two_findings(apart: str, lines: list[int]):
    found = on_a_line(
        f"{OTHER_STORE}; {OTHER_STORE.replace('%s', '%s+256')};",
        f"{OTHER_LOAD.replace('%t', '%x')}; {apart}{OTHER_LOAD.replace('%v', '%v+256')};",
    )
    assert [line for line, _ in found] == lines
    assert [[text.partition("256")[1] for text in texts] for _, texts in found] == [["", ""], ["256", "256"]]


OF_SITES = """.version 8.3 .target sm_90a .address_size 64
.shared .align 8 .b64 bars[2];
.visible .entry k(.param .u64 to) {{ .reg .b32 %t, %y, %z; .reg .b64 %to; .reg .pred %p, %w; .local .align 16 .b8 own[16];
 ld.param.u64 %to, [to]; mov.u32 %t, %tid.x;
 {body}
 red.global.add.u32 [%to], %y; red.global.add.u32 [%to+4], %z; ret; }}
"""
BARRIERS = "setp.lt.u32 %p, %t, {}; @%p bra A; bar.sync 0; bra B; A: bar.sync 0; B: mov.u32 %y, 1; mov.u32 %z, 2;"
SHUFFLES = (
    "and.b32 %z, %t, 1; setp.eq.u32 %p, %z, 0; mov.u32 %y, 1; @%p bra A; shfl.sync.idx.b32 %y, %t, {}, 31, 0xaaaaaaaa;"
    " shfl.sync.idx.b32 %z, %t, {}, 31, 0xaaaaaaaa; A:"
)
WAITS = (
    "setp.eq.u32 %p, %t, 0; @!%p bra I; mbarrier.init.shared.b64 [bars], 1; mbarrier.init.shared.b64 [bars+8], 1;"
    " I: bar.sync 0; mov.u32 %y, 1; mov.u32 %z, 2; setp.lt.u32 %p, %t, 32; @%p bra V;"
    " W: mbarrier.try_wait.parity.shared.b64 %w, [bars], {0}; @!%w bra W; bra E;"
    " V: mbarrier.try_wait.parity.shared.b64 %w, [bars+8], {0}; @!%w bra V; E:"
)


@pytest.mark.parametrize(
    ("wrong", "right", "codes"),
    [
        (BARRIERS.format(16), BARRIERS.format(32), ["X011"]),  # lanes of one warp at two barriers; warps at two
        (SHUFFLES.format(0, 2), SHUFFLES.format(1, 3), ["X011", "X011"]),  # from lanes that take no part
        ("ld.local.u32 %y, [own]; ld.local.u32 %z, [own+8];", "st.local.v4.u32 [own], {1, 2, 3, 4}; ld.local.u32 %y, [own]; ld.local.u32 %z, [own+8];",
         ["R507", "R507"]),
        (WAITS.format(0), WAITS.format(1), ["X006", "X006"]),
    ],
)  # fmt: skip
def test_instructions_of_one_line_are_told_apart(wrong: str, right: str, codes: list[str]):
    """The findings are those of the same instructions in a line each."""

    def found(body: str) -> list[tuple[str, str, str]]:
        gpu = Gpu("sm_90a")
        run = gpu.launch(OF_SITES.format(body=body), block=64, args=[gpu.zeros(4, np.uint32)], progress=False)
        return [(f.code, f.instruction, f.what) for f in run.findings]

    of_one, of_many = found(wrong), found(wrong.replace("; ", ";\n"))
    assert [code for code, *_ in of_one] == codes
    assert of_one == of_many
    assert len(set(of_one)) == len(codes)
    assert found(right) == []


# ---- whose fault it is

OF_PYTHON = """.version 8.3 .target sm_90a .address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry k(.param .u64 to) {{ .reg .b32 %t, %s, %x; .reg .b64 %to; .reg .pred %p;
 .loc 1 3 0
 ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; shl.b32 %s, %t, 2; mov.u32 %x, global_smem; add.u32 %s, %s, %x;
 {body}
 ret; }}
.file 1 "{file}"
"""
NO_FENCE = """st.shared.b32 [%s], %t; bar.sync 0; setp.ne.u32 %p, %t, 0; @%p ret;
 .loc 1 4 0
 cp.async.bulk.global.shared::cta.bulk_group [%to], [%x], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
NO_BARRIER = "st.shared.b32 [%s], %t; ld.shared.b32 %t, [%s^]; st.global.b32 [%to], %t;".replace("[%s^]", "[%x]")
OF_CTAS = "mov.u32 %x, %ctaid.x; st.global.b32 [%to], %x;"
WRITTEN = "import triton\n\n\ntl.load(a)\ntl.store(b)\n"


@pytest.mark.parametrize(
    ("body", "code", "source", "compiler"),
    [
        (NO_FENCE, "X003", WRITTEN, "Triton"),
        (NO_FENCE, "X003", None, "Triton"),  # a source that cannot be read
        (NO_FENCE, "X003", WRITTEN.replace("import triton", "from triton.experimental import gluon"), ""),  # whose kernels have the fence
        (NO_FENCE, "X003", f"{WRITTEN}tl.inline_asm_elementwise()\n", ""),
        (NO_BARRIER, "X008", WRITTEN, "Triton"),
        (OF_CTAS, "X008", WRITTEN, ""),  # of global memory: the programs of the grid race
    ],
)
def test_a_compilers_fault_is_told_as_such(body: str, code: str, source: str | None, compiler: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if source is not None:
        (tmp_path / "k.py").write_text(source)
    ptx, gpu = OF_PYTHON.format(file=tmp_path / "k.py", body=body), Gpu("sm_90a")

    out = gpu.zeros(64, np.uint32)

    def found(text: str):
        return gpu.launch(text, grid=2, block=64, shared_bytes=256, args=[out], progress=False).findings[0]

    mine, plain = found(ptx), found(ptx.replace("global_smem", "tile"))
    assert (mine.code, mine.compiler, plain.code, plain.compiler) == (code, compiler, code, "")
    assert mine.as_dict()["compiler"] == (compiler or None)
    if not compiler:
        call = "; or in Gluon: fence_async_shared() after the stores" * ("gluon" in (source or ""))
        call += "; or in Triton: let each program store its own elements (tl.program_id), or use tl.atomic_add" * (code == "X008")
        assert (mine.message, mine.repair) == (plain.message, plain.repair + call)
        return
    if source is None:  # the source may be Gluon's
        blame = "in a Triton kernel (not Gluon) Triton is at fault: Triton 3.7.1"
        assert mine.message == plain.message
        assert mine.repair.startswith(f"{plain.repair}; or {blame}")
        return
    assert "this is Triton's fault, not the kernel's" in mine.message
    assert mine.source_line == f"{tmp_path}/k.py:{4 if code == 'X003' else 3}"
    assert f"; or in the PTX: {plain.repair}" in mine.repair
    assert mine.repair.startswith("Triton 3.7.1" if code == "X003" else "try another version of Triton")


def test_rows_of_compilers_faults_say_what_is_free_of_them():
    for fault in COMPILER_FAULTS:
        assert fault.says
        assert fault.free
        assert fault.source
        assert set(fault.codes) <= set(CODES)
        re.compile(fault.instruction)


# ---- both halves by their lines of the source

COPY_HERE = """.loc 1 3 0
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%x], [%to], 128, [%bar];"""
HALVES_HERE = OF_PYTHON.replace("global_smem", "tile").replace("{body}", """add.u32 %bar, %x, 128; setp.ne.u32 %p, %t, 0; @%p bra READY;
 mbarrier.init.shared.b64 [%bar], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 128;
 {body}
READY: bar.sync 0;
 .loc 1 5 0
 {other}
 .loc 1 6 0
 {waits}""").replace(".reg .pred %p;", ".reg .pred %p; .reg .b32 %bar;")  # fmt: skip
WAIT_HERE = "WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%bar], 0; @!%p bra WAIT;"


@pytest.mark.parametrize(
    ("other", "code"), [("ld.shared.b32 %t, [%x]; st.global.b32 [%to+1024], %t;", "X004"), ("@!%p st.shared.b32 [%x], 7;", "X005")]
)
def test_the_other_half_has_its_line_of_the_source(other: str, code: str):
    text = HALVES_HERE.format(file="/sources/k.cu", body=COPY_HERE, other=other, waits=WAIT_HERE)
    gpu = Gpu("sm_90a")
    args = [gpu.zeros(1024, np.uint32)]
    found = next(f for f in gpu.launch(text, block=32, shared_bytes=256, args=args, progress=False).findings if f.code == code)
    copy, wait = (next(n for n, line in enumerate(text.splitlines(), 1) if word in line) for word in ("cp.async.bulk", "try_wait"))
    assert str(found).startswith(f"{code}  /sources/k.cu:5  ")
    assert f"k.cu:3, PTX line {copy}" in str(found) or f"line {copy} is k.cu:3" in one_line(str(found))
    assert found.as_dict()["mentions"] == [{"line": copy, "location": "/sources/k.cu:3"}]
    assert f"k.cu:6 (PTX line {wait})" in found.repair
    assert "(the wait in k.cu:6" in one_line(str(found)) or "(the wait in /sources/k.cu:6" in one_line(str(found))
    plain = gpu.launch(text.replace(".loc", "//"), block=32, shared_bytes=256, args=args, progress=False)
    assert "/sources" not in plain.text()


def test_a_kernel_whose_ptx_is_in_no_file_is_named_with_its_line():
    run = ran(f"{OUT.replace('%d20', '%d19')}", name=f"gemm{PTX_LINE}")
    assert all(f.where.startswith("gemm, PTX line ") for f in (*run.findings, *run.remarks))
    assert run.findings


# ---- a ring that cp.async fills, with mbarriers: the reader or the writer does not wait


def ring_of_copies(*, reads_wait: bool, copies_wait: bool) -> str:
    """Warp 0 copies four times into two stages of 512 bytes, warp 1 reads them. Each has an mbarrier for both stages."""
    wait = "{label}: mbarrier.try_wait.parity.shared.b64 %p3, [%r11+{bar}], {parity}; @!%p3 bra {label};"
    copies, reads = [], []
    for n in range(4):
        full, empty = 8 * (n % 2), 16 + 8 * (n % 2)
        if copies_wait and n > 1:
            copies.append(wait.format(label=f"FREE{n}", bar=empty, parity=n // 2 - 1))
        copies.append(
            f"cp.async.cg.shared.global [%r13+{n % 2 * 512}], [%d4], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [%r11+{full}];"
        )
        if reads_wait:
            reads.append(wait.format(label=f"FULL{n}", bar=full, parity=n // 2))
        reads.append(f"ld.shared.u32 %r15, [%r14+{n % 2 * 512}]; add.u32 %r16, %r16, %r15; mbarrier.arrive.shared.b64 _, [%r11+{empty}];")
    newline = "\n"
    return f""".shared .align 16 .b8 ring[1024]; .shared .align 8 .b64 bars[4]; .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .pred %p<5>;
mov.u32 %r11, bars; mov.u32 %r10, ring; mov.u32 %r1, %tid.x; and.b32 %r12, %r1, 31; mad.lo.u32 %r13, %r12, 16, %r10; mad.lo.u32 %r14, %r12, 4, %r10;
mul.wide.u32 %d4, %r12, 16; ld.param.u64 %d5, [a]; add.u64 %d4, %d4, %d5; mov.u32 %r16, 0; setp.ne.u32 %p1, %r1, 0; setp.ge.u32 %p2, %r1, 32; @%p1 bra MADE;
{" ".join(f"mbarrier.init.shared.b64 [%r11+{8 * n}], 32;" for n in range(4))}
MADE: bar.sync 0; @%p2 bra READER;
{newline.join(copies)}
bra END;
READER:
{newline.join(reads)}
st.global.u32 [%d5+512], %r16;
END: ret;"""


@pytest.mark.parametrize(
    ("waits", "code"),
    [
        ({"reads_wait": True, "copies_wait": True}, ""),
        ({"reads_wait": False, "copies_wait": True}, "X004"),
        ({"reads_wait": False, "copies_wait": False}, "X004"),
        ({"reads_wait": True, "copies_wait": False}, "X0"),
    ],
    ids=["right", "the reader does not wait", "none waits", "the copies do not wait"],
)
def test_a_reader_that_has_never_waited_is_the_cause_of_other_races_of_the_copy(waits: dict[str, bool], code: str):
    body = ring_of_copies(**waits)
    text = f".version 8.3 .target sm_90a .address_size 64 .visible .entry k(.param .u64 a) {{ {body} }}".replace("; ", ";\n")
    found = ran("", block=64, ptx=text)
    roots = {f.code for f in found.findings if f.cause is None}
    assert bool(roots) == bool(code), found.text()
    if code == "X004":
        assert roots == {"X004"}, found.text()
        assert "wait at the mbarrier at which cp.async.mbarrier.arrive.noinc.shared.b64 of line" in found.findings[0].repair
    elif code:
        assert roots
        assert "X004" not in roots, found.text()


@pytest.mark.parametrize("copies_wait", [True, False])
@pytest.mark.parametrize("reads_wait", [True, False])
def test_a_hang_at_another_mbarrier_does_not_follow_from_a_read_without_a_wait(reads_wait: bool, copies_wait: bool):
    """Warp 2 waits at an mbarrier at which no thread arrives. Where the copies wait, they may hang too: the reader, which
    does not wait, is ahead of them.
    """
    body = ring_of_copies(reads_wait=reads_wait, copies_wait=copies_wait).replace("bars[4]", "bars[5]")
    body = body.replace(
        "MADE: bar.sync 0;", "mbarrier.init.shared.b64 [%r11+32], 32; MADE: bar.sync 0; setp.ge.u32 %p4, %r1, 64; @%p4 bra ALONE;"
    )
    body = body.replace("END: ret;", "bra END; ALONE: mbarrier.try_wait.parity.shared.b64 %p3, [%r11+32], 0; @!%p3 bra ALONE; END: ret;")
    text = f".version 8.3 .target sm_90a .address_size 64 .visible .entry k(.param .u64 a) {{ {body} }}".replace("; ", ";\n")
    found = ran("", block=96, ptx=text).findings
    alone = next(f for f in found if f.code == "X006" and "(0x820)" in f.why)
    assert alone.cause is None
    assert "arrive at bars[4]" in alone.repair
    others = [f.cause is not None and f.cause.code for f in found if f.code == "X006" and f is not alone]
    assert others == ([] if reads_wait == copies_wait else ["X004"] if copies_wait else [False])


# ---- operands of im2col loads

# One load brings 64 pixels of 64 channels, which are A; B is the first 8 of them.
PIXELS = """.version 8.8 .target sm_90a .address_size 64
.shared .align 1024 .b8 sm[8192]; .shared .align 8 .b64 bar[1];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) { .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<4>; .reg .b16 %h<2>;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @!%p1 bra M; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; M: bar.sync 0; @!%p1 bra W;
mov.b64 %d1, map; cvta.param.u64 %d1, %d1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 8192; mov.u32 %r2, 0; mov.u16 %h1, 0;
cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [sm], [%d1, {%r2, %r2, %r2, %r2}], [bar], {%h1, %h1};
W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.u32 %r3, sm; shr.u32 %r3, %r3, 4; cvt.u64.u32 %d2, %r3;
or.b64 %d2, %d2, 0x4000004000010000; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d2, %d2, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
ld.param.u64 %d3, [out]; mul.wide.u32 %d4, %r1, 4; add.u64 %d3, %d3, %d4; st.global.f32 [%d3], %f0; ret; }"""


@pytest.mark.parametrize("swizzle", ["128B", "64B", "none"])
def test_an_im2col_map_has_the_swizzle_of_the_descriptor(swizzle):
    """With 64B a pixel has 32 channels."""
    gpu, channels = Gpu("sm_90a"), 32 if swizzle == "64B" else 64
    image = gpu.array(np.ones(64 * 64, np.uint16))
    tm = TensorMap.im2col(
        data_type="bf16", global_address=image.address, global_dim=(64, 8, 8, 1), global_strides=(128, 1024, 8192), pixel_box_lower_corner=(0, 0),
        pixel_box_upper_corner=(0, 0), channels_per_pixel=channels, pixels_per_column=4096 // channels, swizzle=swizzle, arch="sm_90a",
    )  # fmt: skip
    found = gpu.launch(PIXELS, block=128, args=[tm, gpu.array(np.zeros(128, np.float32))], progress=False).findings
    assert [f.code for f in found] == ["R501"] * (swizzle != "128B")
    assert all(f.repair.startswith("swizzle = 128B in the map") for f in found)
