"""Races in global memory (PTX ISA 8): each way to order two CTAs is silent, and found as soon as a piece of it is missing."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from launches import found as found_in
from launches import kernel
from launches import run as run_in
from smemsim import DeviceArray, Gpu, InputError, TensorMap


def found(body: str, *arrays: np.ndarray, **given) -> dict[str, str]:
    return found_in(body, *arrays, **given)


def races(body: str, *arrays: np.ndarray, **given) -> set[str]:
    """How severe the races are that are told of a body."""
    done, _ = run_in(body, arrays, **given)
    assert {f.code for f in done.result.findings.values()} <= {"X008"}
    return {f.severity.value for f in done.result.findings.values()}


# CTA 0 writes a word and publishes it; the others wait for that, read the word and store it at a place of their own.
PRODUCE, CONSUME = "st.global.u32 [%d20], 7;", "ld.global.u32 %r2, [%d20];"
MESSAGE = """mov.u32 %r8, %ctaid.x; mul.wide.u32 %d1, %r8, 4; add.u64 %d1, %d22, %d1; setp.ne.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0;
@%p2 bra END; @%p1 bra WAIT; {}
bra END; WAIT: {}
st.global.u32 [%d1], %r2; END:"""
POLL = "AGAIN: {} setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN;"
FENCE, VOLATILE = "fence.acq_rel.gpu;", "ld.volatile.global.u32 %r3, [%d21];"
ACQUIRE, RELEASE = "ld.acquire.{}.global.u32 %r3, [%d21];", "st.release.{}.global.u32 [%d21], 1;"


def message(publish: str, wait: str, grid: int = 3) -> dict[str, str]:
    body = MESSAGE.format(f"{PRODUCE} {publish}", f"{POLL.format(wait[: wait.index(';') + 1])} {wait[wait.index(';') + 1 :]} {CONSUME}")
    return found(body, *(np.zeros(n, np.uint32) for n in (1, 1, grid)), grid=grid)


@pytest.mark.parametrize(
    ("publish", "wait", "codes"),
    [
        (RELEASE.format("gpu"), ACQUIRE.format("gpu"), set()),
        (RELEASE.format("sys"), ACQUIRE.format("gpu"), set()),
        (f"{FENCE} st.volatile.global.u32 [%d21], 1;", f"{VOLATILE} {FENCE}", set()),
        (f"{FENCE} atom.global.exch.b32 %r4, [%d21], 1;", f"atom.global.or.b32 %r3, [%d21], 0; {FENCE}", set()),
        ("membar.gl; red.global.add.u32 [%d21], 1;", f"{VOLATILE} membar.gl;", set()),
        ("atom.release.gpu.global.add.u32 %r4, [%d21], 1;", "ld.acquire.gpu.global.u32 %r3, [%d21];", set()),
        ("st.volatile.global.u32 [%d21], 1;", VOLATILE, {"X008"}),
        (f"atom.global.exch.b32 %r4, [%d21], 1; {FENCE}", f"atom.global.or.b32 %r3, [%d21], 0; {FENCE}", {"X008"}),
        (RELEASE.format("cta"), ACQUIRE.format("cta"), {"X008"}),
        (f"{FENCE} st.global.u32 [%d21], 1;", f"{VOLATILE} {FENCE}", {"X008"}),
    ],
)
def test_a_message_between_ctas_needs_a_release_and_an_acquire_that_reach_each_other(publish, wait, codes):
    assert set(message(publish, wait)) == codes


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize(
    ("acquire", "barrier", "codes"), [("acquire", "bar.sync 0;", set()), ("acquire", "", {"X008"}), ("relaxed", "bar.sync 0;", {"X008"})]
)
def test_a_barrier_hands_on_what_one_warp_has_acquired_of_another_cta(acquire, barrier, codes, together, monkeypatch):
    """Whether that CTA runs beside it or has ended."""
    monkeypatch.setattr("smemsim.run.engine.grid.at_once", lambda launch, *, sanitizer=True: together)
    body = f"""mov.u32 %r8, %ctaid.x; setp.ne.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0; @%p1 bra SECOND;
    @!%p2 st.global.u32 [%d20], 7; @!%p2 st.release.gpu.global.u32 [%d21], 1; bra END;
    SECOND: @%p2 bra MEET; AGAIN: ld.{acquire}.gpu.global.u32 %r3, [%d21]; setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN;
    MEET: {barrier} setp.ne.u32 %p2, %r1, 32; @%p2 bra END; ld.global.u32 %r2, [%d20]; st.global.u32 [%d20+4], %r2; END:"""
    assert set(found(body, *(np.zeros(n, np.uint32) for n in (2, 1)), grid=2, block=64)) == codes


@pytest.mark.parametrize("poll", ["ld.volatile.global.u32 %r3, [%d21];", "ld.global.cg.u32 %r3, [%d21];"])
def test_words_past_the_l1_are_a_remark_and_order_nothing_else(poll):
    """order.past_l1: the word itself, handed on as in a look-back; what lies beside it races as ever."""
    gpu = Gpu()
    arrays = [gpu.array(np.zeros(n, np.uint32)) for n in (1, 1, 3)]
    body = MESSAGE.format("mov.u32 %r2, 1; st.global.cg.u32 [%d21], %r2;", f"{POLL.format(poll)} mov.u32 %r2, %r3;")
    run = gpu.launch(kernel(3, body), grid=3, block=32, args=arrays, progress=False)
    assert not run.findings
    assert {f.code for f in run.remarks} == {"X008"}
    assert set(message("st.global.cg.u32 [%d21], 1;", poll)) == {"X008"}
    for scope in ("cta", "cluster"):  # which does not reach the other CTAs
        narrow = body.replace(poll, f"ld.relaxed.{scope}.global.u32 %r3, [%d21];")
        assert races(narrow, *(np.zeros(n, np.uint32) for n in (1, 1, 3)), grid=3) == {"wrong"}


# Each thread adds its CTA's number to its word in a workspace, that of the multiprocessor that it runs on.
BY_SM = """mov.u32 %r8, %smid; mov.u32 %r9, %ctaid.x; mad.lo.u32 %r8, %r8, 32, %r1; mul.wide.u32 %d1, %r8, 4; add.u64 %d1, %d20, %d1;
ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r9; st.global.u32 [%d1], %r2;"""


@pytest.mark.parametrize("schedule", [None, 3])
def test_ctas_of_one_multiprocessor_follow_each_other_where_one_alone_fits(schedule):
    """order.same_multiprocessor: a remark where another CTA comes behind this one, a race where two CTAs fit for certain."""
    for shared_bytes, codes in ((200 << 10, []), (0, ["X008"])):
        gpu = Gpu()
        work = gpu.array(np.zeros((2, 32), np.uint32))
        ptx = kernel(1, BY_SM).replace(".visible .entry", ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry")
        run = gpu.launch(
            ptx, grid=7, block=32, args=[work], shared_bytes=shared_bytes, multiprocessors=2, schedule=schedule, progress=False
        )
        assert sorted({f.code for f in run.findings}) == codes
        if not codes:
            assert {f.code for f in run.remarks} == {"X008"}
            assert int(work.numpy()[:, 0].sum()) == 21


def test_ctas_of_different_waves_are_ordered_by_what_they_acquire_alone():
    """More CTAs than run together here: a card would run them at once."""
    assert message(RELEASE.format("gpu"), ACQUIRE.format("gpu"), grid=140) == {}
    lines = message("st.volatile.global.u32 [%d21], 1;", VOLATILE, grid=140)["X008"]
    assert "element 0 (.u32) of the array of arg" in lines
    assert "write: warp 0 of CTA 0 (st.global.u32)" in lines


COUNT = "ld.global.u32 %r3, [%d20]; add.u32 %r3, %r3, 1; st.global.u32 [%d20], %r3;"
LOCK = "AGAIN: atom.{}global.cas.b32 %r4, [%d21], 0, 1; setp.ne.u32 %p3, %r4, 0; @%p3 bra AGAIN;"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("red.global.add.u32 [%d20], 1;", set()),
        (COUNT, {"X008"}),
        (f"{LOCK.format('acquire.gpu.')} {COUNT} st.release.gpu.global.u32 [%d21], 0;", set()),
        (f"{LOCK.format('')} {FENCE} {COUNT} {FENCE} atom.global.exch.b32 %r5, [%d21], 0;", set()),
        (f"{LOCK.format('')} {COUNT} atom.global.exch.b32 %r5, [%d21], 0;", {"X008"}),
        ("st.global.u32 [%d20], 5;", set()),  # all leave the same bytes
        ("mov.u32 %r3, %ctaid.x; st.global.u32 [%d20], %r3;", {"X008"}),
        ("mov.u32 %r3, %ctaid.x; and.b32 %r3, %r3, 3; cvt.u64.u32 %d1, %r3; add.u64 %d1, %d20, %d1; st.global.u8 [%d1], %r3;", set()),
    ],
)
def test_ctas_that_write_one_word_need_an_atomic_a_lock_or_equal_bytes(body, codes):
    grid = 4
    text = f"setp.ne.u32 %p1, %r1, 0; @%p1 bra END; {body} END:"
    assert set(found(text, np.zeros(1, np.uint32), np.zeros(1, np.uint32), grid=grid)) == codes


def test_a_loop_of_cas_that_begins_with_a_plain_load_is_a_remark():
    """The value is looked at again by the atomic: formally a race, and it has held."""
    body = """setp.ne.u32 %p1, %r1, 0; @%p1 bra END; ld.global.u32 %r2, [%d20]; AGAIN: mov.u32 %r3, %r2; add.u32 %r4, %r3, 1;
    atom.global.cas.b32 %r2, [%d20], %r3, %r4; setp.ne.u32 %p2, %r2, %r3; @%p2 bra AGAIN; END:"""
    assert "checks the value again" in found(body, np.zeros(1, np.uint32), grid=4)["X008"]


NEIGHBOURS = "{} st.global.u32 [%d1], %r1; {} xor.b32 %r3, %r1, 32; mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d20, %d2; ld.global.u32 %r2, [%d2]; st.global.u32 [%d1+1024], %r2;"
OWN_WORD = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1;"


@pytest.mark.parametrize(("between", "codes"), [("bar.sync 0;", set()), ("", {"X008"}), ("fence.acq_rel.gpu;", {"X008"})])
def test_warps_of_a_cta_meet_at_its_barrier(between, codes):
    assert set(found(NEIGHBOURS.format(OWN_WORD, between), np.zeros(512, np.uint32), block=64)) == codes


STORED = """setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r3, %ctaid.x; setp.ne.u32 %p2, %r3, 0; @%p2 bra WAIT; mov.u32 %r5, sm; mov.u32 %r6, 7; st.shared.v4.u32 [%r5], {{%r6, %r6, %r6, %r6}};
fence.proxy.async.shared::cta; cp.async.bulk.global.shared::cta.bulk_group [%d20], [%r5], 16; cp.async.bulk.commit_group; {}
st.release.gpu.global.u32 [%d21], 1; bra END; WAIT: AGAIN: ld.acquire.gpu.global.u32 %r3, [%d21]; setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN;
ld.global.u32 %r2, [%d20]; st.global.u32 [%d21+4], %r2; END:"""


@pytest.mark.parametrize(
    ("wait", "codes"),
    [("cp.async.bulk.wait_group 0;", set()), ("cp.async.bulk.wait_group.read 0;", {"X004"}), ("", {"X004"})],
)
def test_a_bulk_store_is_read_behind_a_wait_for_its_writes(wait, codes):
    assert set(found(STORED.format(wait), np.zeros(4, np.uint32), np.zeros(2, np.uint32), grid=2)) == codes


WARP_STORES = """mov.u32 %r5, sm; mad.lo.u32 %r4, %r1, 16, %r5; st.shared.v4.u32 [%r4], {{%r1, %r1, %r1, %r1}}; fence.proxy.async.shared::cta; bar.sync 0;
{} cp.async.bulk.global.shared::cta.bulk_group [%d20], [%r5], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""


@pytest.mark.parametrize("block", [32, 96])
@pytest.mark.parametrize(("source", "codes"), [("", set()), ("mov.u32 %r5, %r4;", {"X008"})])
def test_threads_that_issue_one_bulk_store_write_equal_bytes(source, codes, block):
    """CUTLASS and the CuTe DSL let a whole warp issue their stores, a test of CUTLASS four."""
    assert set(found(WARP_STORES.format(source), np.zeros(4, np.uint32), block=block)) == codes


LOADED = f"""{OWN_WORD} @%p9 mbarrier.init.shared.b64 [bar], 1; st.global.u32 [%d1], %r1; {{}} bar.sync 0; @!%p9 bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [sm], [%d20], 128, [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;"""


@pytest.mark.parametrize(
    ("fence", "codes"),
    [
        ("fence.proxy.async;", set()),
        ("fence.proxy.async.global;", set()),
        ("fence.proxy.async.shared::cta; fence.proxy.async;", set()),
        ("", {"X003"}),
        ("fence.acq_rel.gpu;", {"X003"}),
        ("fence.proxy.async.shared::cta;", {"X003"}),
    ],
)
def test_a_bulk_load_of_what_threads_have_stored_needs_a_proxy_fence(fence, codes):
    assert set(found(LOADED.format(fence), np.zeros(32, np.uint32))) == codes
    if codes == set():
        assert set(found(f"{fence} {LOADED.format('')}", np.zeros(32, np.uint32))) == {"X003"}  # too early


# Threads write words of their own, and those of a bulk store, a bulk reduction, or nobody else.
STORED_OVER = f"""{OWN_WORD} mov.u32 %r2, sm; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], {{value}}; st.global.u32 [%d1], %r1; {{fence}} bar.sync 0; @!%p9 bra END;
cp{{copy}}.bulk_group{{how}} [%d20], [%r2], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"""
COPY, ADD = {"copy": ".async.bulk.global.shared::cta", "how": ""}, {"copy": ".reduce.async.bulk.global.shared::cta", "how": ".add.u32"}


@pytest.mark.parametrize(
    ("fence", "value", "what", "codes"),
    [
        ("fence.proxy.async;", 5, COPY, set()),
        ("fence.proxy.async;", 5, ADD, set()),
        ("fence.proxy.async.shared::cta; fence.proxy.async.global;", 5, ADD, set()),
        ("fence.proxy.async.shared::cta;", 5, COPY, {"X003"}),
        ("fence.proxy.async.shared::cta;", 5, ADD, {"X003"}),
        ("fence.proxy.async.shared::cta;", "%r1", COPY, set()),  # the bytes that lie there
    ],
)
def test_a_bulk_store_over_what_threads_have_stored_needs_a_proxy_fence_for_global_memory(fence, value, what, codes):
    assert set(found(STORED_OVER.format(fence=fence, value=value, **what), np.zeros(32, np.uint32))) == codes


# Each CTA loads 256 bytes, adds 1, and stores them where they came from, eight times.
TILES_IN_PLACE = """mov.u32 %r4, %ctaid.x; mul.wide.u32 %d3, %r4, 2048; add.u64 %d20, %d20, %d3; @%p9 mbarrier.init.shared.b64 [bar], 1;
mov.u32 %r5, sm; mad.lo.u32 %r6, %r1, 4, %r5; mov.u32 %r2, 0; mov.u32 %r3, 0; bar.sync 0;
LOOP: @!%p9 bra LOADED; cp.async.bulk.wait_group.read 0; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d20], 256, [bar]; LOADED: {}
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], %r3; @!%p3 bra WAIT;
ld.shared.u32 %r7, [%r6]; add.u32 %r7, %r7, 1; st.shared.u32 [%r6], %r7; fence.proxy.async.shared::cta; bar.sync 0;
@!%p9 bra STORED; cp.async.bulk.global.shared::cta.bulk_group [%d20], [%r5], 256; cp.async.bulk.commit_group; STORED:
add.u64 %d20, %d20, 256; xor.b32 %r3, %r3, 1; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 8; @%p2 bra LOOP; @%p9 cp.async.bulk.wait_group 0;"""


@pytest.mark.parametrize(
    ("meanwhile", "codes"), [("", set()), ("setp.eq.u32 %p4, %r1, 40; @%p4 st.global.u32 [%d20], %r1;", {"X003", "X008"})]
)
def test_what_a_bulk_load_has_brought_may_be_overwritten(meanwhile, codes):
    assert set(found(TILES_IN_PLACE.format(meanwhile), np.zeros(4 * 8 * 64, np.uint32), block=64, grid=4)) == codes


# Every lane of a warp issues the same tensor store, as those of CUTLASS do. {} is what lanes write before that, and what they do behind it.
STORED_BY_ALL = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .align 64 .b8 map[128]) {{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>; .shared .align 128 .b8 sm[128];
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mad.lo.u32 %r4, %r1, 4, %r2; mov.u32 %r3, 0; mov.b64 %d1, map; setp.ne.u32 %p1, %r1, 0;
{} cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d1, {{%r3}}], [%r2]; cp.async.bulk.commit_group; {} ret; }}"""
OWN_WORDS = "st.shared.u32 [%r4], %r1; fence.proxy.async.shared::cta;"
FIRST_WRITES = "@%p1 bra A; st.shared.v4.u32 [%r2], {0, 1, 2, 3}; A: fence.proxy.async.shared::cta;"


@pytest.mark.parametrize(
    ("before", "behind", "codes"),
    [
        (f"{OWN_WORDS} bar.warp.sync -1;", "cp.async.bulk.wait_group 0; st.shared.u32 [%r4], %r1;", set()),
        (f"{OWN_WORDS} bar.warp.sync -1;", "st.shared.u32 [%r4], %r1;", {"X005"}),
        (OWN_WORDS, "cp.async.bulk.wait_group 0;", {"X008"}),
        (f"{FIRST_WRITES} bar.warp.sync -1;", "cp.async.bulk.wait_group 0;", set()),
        (FIRST_WRITES, "cp.async.bulk.wait_group 0;", {"X008"}),
    ],
)
def test_a_tensor_store_that_every_lane_issues(before, behind, codes):
    """It leaves the same bytes each time. What only the first lane has written is there for that one alone, until the lanes meet."""
    gpu = Gpu("sm_90a")
    tile = gpu.array(np.full(4 if before.startswith(FIRST_WRITES) else 32, 9, np.uint32))
    count = len(tile.numpy())
    to = TensorMap.tiled(
        data_type="u32", global_address=tile.address, global_dim=[count], global_strides=[], box_dim=[count], arch="sm_90a"
    )
    run = gpu.launch(STORED_BY_ALL.format(before, behind), block=32, args=[to], progress=False)
    assert {f.code for f in (*run.findings, *run.remarks)} - {"T219"} == codes
    assert tile.numpy().tolist() == list(range(count))


# Two CTAs store 128 bytes to one place by a copy, with no order. {} is what a thread stores to shared memory, and the copy.
STORED_TWICE = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 to) {{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>; .shared .align 128 .b8 sm[128];
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mad.lo.u32 %r4, %r1, 4, %r2; mov.u32 %r5, %ctaid.x; mov.u32 %r3, 0; ld.param.u64 %d2, [to]; mov.b64 %d1, map;
st.shared.u32 [%r4], {}; fence.proxy.async.shared::cta; bar.warp.sync -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
{}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END: ret; }}"""


@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d1, {%r3}], [%r2]",
        "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r2], 128",
    ],
)
@pytest.mark.parametrize(("value", "codes"), [("%r1", set()), ("%r5", {"X008"})])
def test_copies_of_two_ctas_that_leave_the_same_bytes_race_with_nobody(copy, value, codes):
    """Pallas' own test of multicast has every cluster store the whole result. Under a schedule both land whenever."""
    gpu = Gpu("sm_90a")
    for options in ({}, {"schedule": 3}):
        tile = gpu.array(np.full(32, 99, np.uint32))
        to = TensorMap.tiled(data_type="u32", global_address=tile.address, global_dim=[32], global_strides=[], box_dim=[32], arch="sm_90a")
        run = gpu.launch(STORED_TWICE.format(value, copy), grid=2, block=32, args=[to, tile], progress=False, **options)
        assert {f.code for f in (*run.findings, *run.remarks)} - {"T219"} == codes, options


# A structure by value: 192 at byte 8, two arrays at 16 and 24, a map of the first at 192. CTA 1 stores a tile there, which CTA 0 reads.
BY_VALUE = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .align 64 .b8 p[320]) {{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>; .shared .align 128 .b8 sm[128];
mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 1; @%p2 bra STORE;
ld.param.u64 %d5, [p+16]; ld.param.u64 %d6, [p+24]; ld.global.u32 %r4, [%d5]; st.global.u32 [%d6], %r4; bra END;
STORE: mov.u32 %r2, sm; st.shared.v4.u32 [%r2], {{1, 2, 3, 4}}; fence.proxy.async.shared::cta; mov.u32 %r3, 0; mov.b64 %d1, p; {}
cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [{}, {{%r3}}], [%r2]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret; }}"""


@pytest.mark.parametrize(
    ("place", "at"),
    [
        ("", "%d1+192"),
        ("add.s64 %d2, %d1, 192;", "%d2"),
        ("cvta.param.u64 %d3, %d1; add.s64 %d2, %d3, 192;", "%d2"),
        ("ld.param.u64 %d4, [p+8]; add.s64 %d2, %d1, %d4;", "%d2"),
        ("mov.b64 %d2, p; add.s64 %d3, %d2, 192; L: add.s64 %d2, %d2, 64; setp.ne.u64 %p1, %d2, %d3; @%p1 bra L;", "%d2"),
    ],
)
def test_a_map_inside_a_structure_says_what_is_written(place, at):
    """ThunderKittens and CUTLASS pass structures by value, with maps at their own offsets. What lies before these need be no map: there is what was on the
    host's stack."""
    gpu = Gpu("sm_90a")
    for before in (0, 0x69):
        tile, out = gpu.array(np.zeros(4, np.uint32)), gpu.array(np.zeros(4, np.uint32))
        to = TensorMap.tiled(data_type="u32", global_address=tile.address, global_dim=[4], global_strides=[], box_dim=[4], arch="sm_90a")
        given = np.full(320, before, np.uint8)
        given[8:32] = np.array([192, tile.address, out.address], np.uint64).view(np.uint8)
        given[192:] = np.frombuffer(bytes(to), np.uint8)
        run = gpu.launch(BY_VALUE.format(place, at), grid=2, args=[given.tobytes()], progress=False)
        assert [f.code for f in run.findings] == ["X008"]


@pytest.mark.parametrize(
    ("writes", "load", "codes"), [(True, "ld.global.nc", ["X008"]), (True, "ld.global", []), (False, "ld.global.nc", [])]
)
def test_read_only_loads_of_what_the_kernel_has_written_are_a_remark(writes, load, codes):
    body = f"{OWN_WORD} {'st.global.u32 [%d1], %r1;' if writes else ''} bar.sync 0; {load}.u32 %r2, [%d20]; st.global.u32 [%d21], %r2;"
    gpu = Gpu("sm_90a")
    run = gpu.launch(
        kernel(2, body), block=64, args=[gpu.array(np.zeros(64, np.uint32)), gpu.array(np.zeros(1, np.uint32))], progress=False
    )
    assert (run.findings, [f.code for f in run.remarks]) == ([], codes)


# Each CTA adds to a sum, then to a counter; who finds that it is the last reads the sum, and sets the counter back.
SUMMED = """setp.ne.u32 %p1, %r1, 0; @%p1 bra END; red.global.add.u32 [%d20], 5; {} atom.global.add.u32 %r3, [%d21], 1; mov.u32 %r4, %nctaid.x; sub.u32 %r4, %r4, 1;
setp.ne.u32 %p2, %r3, %r4; @%p2 bra END; {} st.global.u32 [%d21], 0; {}.global.u32 %r5, [%d20]; st.global.u32 [%d22], %r5; END:"""


@pytest.mark.parametrize(
    ("released", "acquired", "load", "codes"),
    [
        (FENCE, FENCE, "ld", set()),
        (FENCE, FENCE, "ld.volatile", set()),
        ("", "", "ld.relaxed.gpu", set()),  # no data race, though the sum may lack what others add
        ("", "", "ld", {"X008"}),
        (FENCE, "", "ld", {"X008"}),
        ("", FENCE, "ld", {"X008"}),
        ("fence.acq_rel.cta;", FENCE, "ld", {"X008"}),
    ],
)
@pytest.mark.parametrize("grid", [3, 140])
def test_who_reads_a_sum_must_have_seen_all_that_were_added(released, acquired, load, codes, grid):
    """The last to add in a run is the reader itself; in another run it need not be."""
    assert set(found(SUMMED.format(released, acquired, load), *np.zeros((3, 1), np.uint32), grid=grid)) == codes


# Threads read a word and count themselves; the last to count overwrites it.
READ_BY_ALL = """setp.ne.u32 %p2, %r1, 0; @%p2 bra END; mov.u32 %r8, %ctaid.x; add.u32 %r8, %r8, 1; mul.wide.u32 %d1, %r8, 4; add.u64 %d1, %d21, %d1;
ld.global.u32 %r2, [%d20]; st.global.u32 [%d1], %r2; fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r3, [%d21], 1; fence.acq_rel.gpu;
mov.u32 %r4, %nctaid.x; sub.u32 %r4, %r4, 1; setp.eq.u32 %p1, %r3, %r4; @%p1 st.global.u32 [%d20], 9; END:"""
# Warps of a CTA read a word in turn, with a barrier behind each; then thread 0 overwrites it.
READ_IN_TURN = "".join(
    f"setp.eq.u32 %p1, %r1, {32 * n}; @%p1 ld.global.u32 %r2, [%d20]; @%p1 st.global.u32 [%d21+{4 * n}], %r2; bar.sync 0;" for n in range(6)
)


# All threads of the CTAs read words that are 8 bytes apart; the last CTA overwrites the first one.
READ_APART = """mul.wide.u32 %d1, %r1, 8; add.u64 %d1, %d20, %d1; ld.global.u32 %r2, [%d1]; ld.global.u32 %r5, [%d1+4096]; ld.global.u32 %r6, [%d1+8192];
add.u32 %r2, %r2, %r5; add.u32 %r2, %r2, %r6; setp.ne.u32 %p2, %r2, 0; bar.sync 0; @%p2 st.global.u32 [%d21+8], %r2; @!%p9 bra END;
fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r3, [%d21], 1; fence.acq_rel.gpu;
mov.u32 %r4, %nctaid.x; sub.u32 %r4, %r4, 1; setp.eq.u32 %p1, %r3, %r4; @%p1 st.global.u32 [%d20], 9; END:"""
BARRED = "ld.global.u32 %r2, [%d20]; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d21, %d1; st.global.u32 [%d1], %r2; {} @%p9 st.global.u32 [%d20], 9;"
HANDS_IN = "fence.acq_rel.gpu; atom.relaxed"


@pytest.mark.parametrize(
    ("body", "shape", "codes", "is_named"),
    [
        (READ_BY_ALL, {"grid": 2}, [], False),
        (READ_BY_ALL, {"grid": 5}, [], False),
        *[
            (READ_BY_ALL.replace(HANDS_IN, f"setp.ne.u32 %p5, %r8, {n}; @%p5 {HANDS_IN}", 1), {"grid": 5}, ["X008"], False)
            for n in (1, 2, 4)
        ],
        (READ_IN_TURN + "@%p9 st.global.u32 [%d20], 9;", {"block": 192}, [], False),
        (BARRED.format("bar.sync 0;"), {"block": 192}, [], False),
        (BARRED.format("bar.sync 1, 160;").replace("ld.global", "setp.lt.u32 %p4, %r1, 160; @%p4 ld.global", 1), {"block": 160}, [], False),
        (BARRED.format("setp.lt.u32 %p4, %r1, 160; @%p4 bar.sync 1, 160;"), {"block": 192}, ["X008"], False),
        (READ_APART, {"grid": 5, "block": 128}, [], False),
        (READ_APART, {"grid": 5, "block": 1024}, [], True),
    ],
)
def test_every_reader_of_a_word_counts_until_the_list_is_full(body, shape, codes, is_named):
    """A write races with any of its readers. A right kernel stays silent, and a full list is named."""
    gpu = Gpu("sm_90a")
    arrays = [gpu.array(np.zeros(8192, np.uint32)) for _ in range(2)]
    done = gpu.launch(kernel(2, body), "k", args=arrays, progress=False, workers=1, try_fixes=False, **{"grid": 1, "block": 32, **shape})
    assert [str(f.code) for f in done.findings] == codes
    assert len(done.bounds) == len(done.as_dict()["bounds"]) == is_named
    assert all(bound in " ".join(done.details().split()) for bound in done.bounds)


# Warp 0 changes the address in the map at `room`, and thread 32 loads with it.
MAP_MADE = """.version 8.7 .target sm_90a .address_size 64
.visible .entry k(.param .u64 room, .param .u64 other, .param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;
.shared .align 128 .b8 sm[128]; .shared .align 128 .b8 copy[128]; .shared .align 8 .b64 bar;
ld.param.u64 %d1, [room]; ld.param.u64 %d2, [other]; ld.param.u64 %d3, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r3, 0;
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; setp.ge.u32 %p3, %r1, 32; mov.u32 %r4, copy; mad.lo.u32 %r5, %r1, 4, %r4; mul.wide.u32 %d4, %r1, 4; add.u64 %d4, %d4, %d1;
@%p1 mbarrier.init.shared.b64 [bar], 1; {early}
@%p3 bra MEET; {change} MEET: {meet} {acquire}
@!%p2 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%d1, {{%r3}}], [bar];
WAIT: {wait} mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra WAIT;
@%p2 ld.shared.u32 %r6, [sm]; @%p2 st.global.u32 [%d3], %r6; ret; }}"""
REPLACED = "@%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%d1], %d2;"
STORED_MAP = "@%p1 st.global.u64 [%d1], %d2;"
COPIED = """ld.global.u32 %r7, [%d4]; st.shared.u32 [%r5], %r7; bar.warp.sync -1; @%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r4], %d2;
bar.warp.sync -1; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d1], [%r4], 128;"""
RELEASED, ACQUIRED = "fence.proxy.tensormap::generic.release.cta;", "fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;"


@pytest.mark.parametrize(("step", "fixes"), [(0, ["a tensor map of its own in global memory for each CTA that changes it"]), (128, [])])
def test_ctas_that_change_one_map_need_one_each(step, fixes):
    """Each CTA copies a map of its own address to global memory, and prefetches a box by it."""
    body = f"""mov.u32 %r8, %ctaid.x; mul.lo.u32 %r9, %r8, {step}; cvt.u64.u32 %d1, %r9; add.u64 %d1, %d1, %d21; mov.u32 %r7, sm;
    shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r7; cvt.u64.u32 %d2, %r1; shl.b64 %d2, %d2, 2; add.u64 %d2, %d2, %d20; ld.global.u32 %r3, [%d2]; st.shared.u32 [%r2], %r3;
    bar.warp.sync -1; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d1], [%r7], 128;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra END; fence.proxy.tensormap::generic.acquire.gpu [%d1], 128; mov.u32 %r3, 0;
    mbarrier.init.shared.b64 [%r7+256], 1; fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 _, [%r7+256], 16;
    cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r7+512], [%d1, {{%r3}}], [%r7+256];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r7+256], 0; @!%p2 bra WAIT; END:"""
    gpu = Gpu("sm_90a")
    data = gpu.array(np.arange(4, dtype=np.uint32))
    to = TensorMap.tiled(data_type="u32", global_address=data.address, global_dim=[4], global_strides=[], box_dim=[4], arch="sm_90a")
    arrays = [gpu.array(np.frombuffer(bytes(to), np.uint8)), gpu.array(np.zeros(256, np.uint8))]
    run = gpu.launch(kernel(2, body), grid=2, block=32, args=arrays, progress=False)
    assert [f.repair.split("; or ")[0] for f in run.findings if f.code == "X008"] == fixes, run.text()


def test_warps_that_make_the_same_map_in_one_place_are_a_remark():
    """order.replaced_alike: one lane of each warp; what follows is not ordered, and leaves the same words."""
    body = """and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
    tensormap.replace.tile.global_address.global.b1024.b64 [%d20], %d20; mov.u32 %r3, 64; tensormap.replace.tile.global_dim.global.b1024.b32 [%d20], 0, %r3; END:"""
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), block=128, args=[gpu.array(np.zeros(32, np.uint32))], progress=False)
    assert not run.findings
    assert {f.code for f in run.remarks} == {"X008"}


@pytest.mark.parametrize(
    ("change", "acquire", "given", "codes"),
    [
        (f"{REPLACED} {RELEASED}", ACQUIRED, {}, {}),
        (f"{STORED_MAP} {RELEASED}", f"@%p2 {ACQUIRED}", {}, {}),
        (COPIED, ACQUIRED, {}, {}),
        (
            COPIED.replace("st.shared", "setp.lt.u32 %p3, %r1, 16; @%p3 st.shared"),
            ACQUIRED,
            {},
            {},
        ),  # words 0 to 15: nothing reads the others
        (
            COPIED.replace("st.shared", "setp.lt.u32 %p3, %r1, 8; @%p3 st.shared"),
            ACQUIRED,
            {},
            {"R507": "before anything has written", "T212": ""},
        ),
        (f"{REPLACED} {RELEASED} {ACQUIRED}", "", {}, {}),  # the fence lies on the way to the other warp
        (REPLACED, ACQUIRED, {}, {"X003": "generic.release"}),
        (STORED_MAP, ACQUIRED, {}, {"X003": "generic.release"}),
        (f"{STORED_MAP} fence.proxy.async;", ACQUIRED, {}, {"X003": "generic.release"}),
        (f"{REPLACED} {RELEASED}", "", {}, {"X003": "generic.acquire"}),
        (COPIED, "", {}, {"X003": "generic.acquire"}),
        (COPIED, "fence.acq_rel.gpu; fence.proxy.async;", {}, {"X003": "generic.acquire"}),
        (COPIED, "", {"early": ACQUIRED}, {"X003": "generic.acquire"}),
        (COPIED, ACQUIRED.replace("%d1", "%d1+128"), {}, {"X003": "generic.acquire"}),
        (COPIED, ACQUIRED, {"meet": "", "wait": "bar.sync 0;"}, {"X008": "nothing orders the two"}),
        (COPIED.replace("bar.warp.sync -1;", ""), ACQUIRED, {}, {"X008": "lane"}),
    ],
)
def test_a_map_that_the_kernel_makes_is_seen_behind_two_fences_of_its_proxy(change, acquire, given, codes):
    gpu = Gpu("sm_90a")
    a, b, out = (gpu.array(np.full(4, n, np.uint32)) for n in range(3))
    to = TensorMap.tiled(data_type="u32", global_address=a.address, global_dim=[4], global_strides=[], box_dim=[4], arch="sm_90a")
    room = gpu.array(np.frombuffer(bytes(to) + bytes(128), np.uint8))
    ptx = MAP_MADE.format(**{"early": "", "meet": "bar.sync 0;", "wait": "", "change": change, "acquire": acquire, **given})
    run = gpu.launch(ptx, block=64, args=[room, b, out], progress=False)
    assert {f.code for f in run.findings} == set(codes)
    assert all(words in f.message for f in run.findings for code, words in codes.items() if f.code == code), run.text()
    assert all(f.cause is not None and f.cause.code == "R507" for f in run.findings if f.code == "T212")
    if not codes:
        assert out.numpy()[0] == 1
        again = gpu.launch(
            MAP_MADE.format(early="", change="", meet="bar.sync 0;", acquire="", wait=""), block=64, args=[room, b, out], progress=False
        )
        assert again.findings == []  # what another launch has made is there


# Two launches: the second may begin as soon as the first lets it. It reads the word of the neighbouring warp.
DEPENDENT = """.version 8.0 .target sm_90a .address_size 64
.visible .entry first(.param .u64 a) {{ .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
  add.u64 %d1, %d1, %d2; {lets} st.global.u32 [%d1], %r1; ret; }}
.visible .entry second(.param .u64 a, .param .u64 b) {{ .reg .b32 %r<4>; .reg .b64 %d<5>; .reg .pred %p<2>; ld.param.u64 %d1, [a]; ld.param.u64 %d3, [b];
  mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; xor.b32 %r2, %r1, 32; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d3, %d2; mul.wide.u32 %d2, %r2, 4;
  add.u64 %d1, %d1, %d2; {} ret; }}"""
LETS, WAITS, TAKES = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;", "ld.global.u32 %r2, [%d1]; st.global.u32 [%d3], %r2;"


@pytest.mark.parametrize(
    ("lets", "second", "codes"),
    [
        (LETS, f"{WAITS} {TAKES}", []),
        (LETS, f"@%p1 {WAITS} bar.sync 0; {TAKES}", []),  # one waits, for all
        (LETS, f"st.global.u32 [%d3], 0; {WAITS} {TAKES}", []),  # of what the first does not touch, before it waits
        ("", TAKES, ["X008"]),  # begins when the first one's threads have exited: nothing that they wrote need be visible
        ("", f"{WAITS} {TAKES}", []),
        (LETS, TAKES, ["X008"]),
        (LETS, f"{TAKES} {WAITS}", ["X008"]),
        (LETS, f"@%p1 {WAITS} {TAKES}", ["X008"]),
        (LETS, "st.global.u32 [%d1], 0;", ["X008"]),
    ],
)
def test_a_dependent_launch_waits_for_the_one_in_front(lets, second, codes):
    gpu = Gpu("sm_90a")
    a, b = (gpu.array(np.zeros(64, np.uint32)) for _ in range(2))
    ptx = DEPENDENT.format(second, lets=lets)
    first = gpu.launch(ptx, "first", block=64, args=[a], progress=False)
    for after, expected in ((first, codes), (None, [])):
        run = gpu.launch(ptx, "second", block=64, args=[a, b], progress=False, after=after)
        assert [f.code for f in run.findings] == expected
    with pytest.raises(InputError, match="after"):
        gpu.launch(ptx, "first", block=64, args=[a], after=3)


ONE_WAITS = """.version 8.0 .target sm_90a .address_size 64
.visible .entry first(.param .u64 a) {{ .reg .b32 %r<4>; .reg .b64 %d<5>; ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
  add.u64 %d1, %d1, %d2; griddepcontrol.launch_dependents; st.global.u32 [%d1], %r1; ret; }}
.visible .entry second(.param .u64 a, .param .u64 b) {{ .reg .b32 %r<9>; .reg .b64 %d<5>; .reg .pred %p<4>; ld.param.u64 %d1, [a]; ld.param.u64 %d3, [b];
  mov.u32 %r1, %tid.x; mov.u32 %r4, %ctaid.x; shr.u32 %r5, %r1, 5; mad.lo.u32 %r5, %r4, 2, %r5; setp.eq.u32 %p1, %r5, {waiter}; setp.eq.u32 %p2, %r5, {reader};
  mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; add.u64 %d3, %d3, %d2;
  @%p1 griddepcontrol.wait; {between} @%p2 ld.global.u32 %r2, [%d1]; @%p2 st.global.u32 [%d3], %r2; ret; }}"""


@pytest.mark.parametrize("waiter", [1, 2, 5])
@pytest.mark.parametrize("reader", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("between", ["", "bar.sync 0;"])
def test_any_warp_of_any_cta_may_wait_for_those_that_it_meets(waiter, reader, between):
    gpu = Gpu("sm_90a")
    a, b = (gpu.array(np.zeros(64, np.uint32)) for _ in range(2))
    ptx = ONE_WAITS.format(waiter=waiter, reader=reader, between=between)
    before = gpu.launch(ptx, "first", block=64, args=[a], progress=False)
    run = gpu.launch(ptx, "second", grid=3, block=64, args=[a, b], progress=False, after=before)
    is_right = waiter == reader or (between != "" and waiter // 2 == reader // 2)
    assert [f.code for f in run.findings] == ["X008"] * (not is_right)


def of_chain(name, body):
    return f""".visible .entry {name}(.param .u64 a) {{ .reg .pred %p<4>; .reg .b32 %r<5>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; {body} ret; }}"""


def waits_at(flag, how):
    if how in ("wait", ""):
        return "griddepcontrol.wait;" * (how == "wait")
    return f"@!%p1 bra M; P: ld.{how}.gpu.global.u32 %r2, [%d1+{flag}]; setp.eq.u32 %p2, %r2, 0; @%p2 bra P; M: bar.sync 0;"


@pytest.mark.parametrize("second", ["wait", "acquire", "relaxed", ""])
@pytest.mark.parametrize(("third", "missing"), [("acquire", 0), ("relaxed", 2), ("", 2)])
def test_what_the_launch_before_has_waited_for_or_acquired_comes_with_its_release(second, third, missing):
    """The third of three launches reads what the other two have stored."""
    released = "bar.sync 0; @%p1 st.release.gpu.global.u32 [%d1+{}], 1;"
    ptx = ".version 8.0 .target sm_90a .address_size 64\n" + "\n".join(
        (
            of_chain("first", f"{LETS} st.global.u32 [%d3], %r1; {released.format(4000)}"),
            of_chain("second", f"{LETS} {waits_at(4000, second)} st.global.u32 [%d3+1024], %r1; {released.format(4004)}"),
            of_chain(
                "third",
                f"{waits_at(4004, third)} ld.global.u32 %r3, [%d3]; ld.global.u32 %r4, [%d3+1024]; add.u32 %r3, %r3, %r4; st.global.u32 [%d3+2048], %r3;",
            ),
        )
    )
    gpu = Gpu("sm_90a")
    a, before = gpu.array(np.zeros(2048, np.uint32)), None
    for name in ("first", "second", "third"):
        before = gpu.launch(ptx, name, block=64, args=[a], progress=False, after=before)
        told = [f.what.partition(" ")[2].partition(" ")[0] for f in before.findings if f.code == "X008"]
    missing = missing or int(second in ("relaxed", ""))
    assert told == ["0", "256"][:missing]


DEPENDENT_ACCESSES = {
    "load": "@%p1 ld.global.u32 %q1, [%z]; st.shared.u32 [t], %q1;",
    "store": "@%p1 st.global.u32 [%z], 7;",
    "cp.async": "mov.u32 %q1, s; mad.lo.u32 %q1, %r1, 4, %q1; @%p1 cp.async.ca.shared.global [%q1], [%z], 4; cp.async.wait_all;",
    "bulk load": """@!%p1 bra M; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%z], 256, [bar]; W: mbarrier.try_wait.parity.shared.b64 %w, [bar], 0; @!%w bra W; M:""",
    "bulk store": "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%z], [s], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    "bulk reduction": "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%z], [s], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
}


@pytest.mark.parametrize("does", DEPENDENT_ACCESSES)
def test_copies_of_a_dependent_launch_wait_for_the_one_in_front(does):
    """A thread reads or writes what the launch in front has written, has read, or leaves alone; all threads wait, those
    of one warp, or none.
    """
    body = f"""{{{{ .shared .align 16 .b8 s[256]; .shared .b32 t; .shared .align 8 .b64 bar; .reg .b32 %q<3>; .reg .pred %w; .reg .b64 %z;
    mov.u32 %q2, s; mad.lo.u32 %q2, %r1, 4, %q2; st.shared.u32 [%q2], %r1; fence.proxy.async.shared::cta; bar.sync 0; ld.param.u64 %z, [{{array}}];
    setp.ge.u32 %w, %r1, {{waits}}; @%w griddepcontrol.wait; setp.eq.u32 %p1, %r1, {{thread}}; {DEPENDENT_ACCESSES[does]} }}}}"""
    writes, reads = "st.global.u32 [%d1], %r1;", "ld.global.u32 %r2, [%d1]; st.global.u32 [%d1+256], %r2;"
    gpu, is_write = Gpu("sm_90a"), does.split()[-1] in ("store", "reduction")
    a, b = (gpu.array(np.zeros(128, np.uint32)) for _ in range(2))
    for first, array, waits, thread, races_ in (
        (writes, "a", 64, 0, True), (writes, "a", 0, 0, False), (writes, "b", 64, 0, False), (reads, "a", 64, 0, is_write), (reads, "a", 0, 32, False),
        (writes, "a", 32, 32, False), (writes, "a", 32, 0, True), (writes, "a", 64, 32, True),
    ):  # fmt: skip
        ptx = DEPENDENT.format(body.format(array=array, waits=waits, thread=thread), lets="griddepcontrol.launch_dependents;").replace(
            writes, first
        )
        before = gpu.launch(ptx, "first", block=64, args=[a], progress=False)
        run = gpu.launch(ptx, "second", block=64, args=[a, b], progress=False, after=before)
        assert [f.code for f in run.findings] == ["X008"] * races_, (first, array, waits, thread, run.text())


PUBLISHES = """.version 8.0 .target sm_90a .address_size 64
.visible .entry first(.param .u64 a) {{ .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>; ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 64, %r1; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; setp.eq.u32 %p1, %r1, 0; {} ret; }}
.visible .entry second(.param .u64 a) {{ .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
  xor.b32 %r3, %r3, 32; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; {} ret; }}"""
PUTS, GETS = "st.global.u32 [%d1+4096], %r1;", "ld.global.u32 %r2, [%d1+4096]; add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2;"


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        (f"{PUTS} fence.acq_rel.gpu; bar.sync 0; {LETS}", GETS, []),  # each thread has fenced, and any of them may be the first
        (f"{PUTS} bar.sync 0; fence.acq_rel.gpu; {LETS}", GETS, []),
        (f"{PUTS} bar.sync 0; @%p1 membar.sys; @%p1 {LETS}", GETS, []),
        (f"{PUTS} bar.sync 0; @%p1 fence.acq_rel.cta; @%p1 {LETS}", GETS, ["X008"]),
        (f"{PUTS} bar.sync 0; {LETS}", GETS, ["X008"]),
        (f"{PUTS} fence.acq_rel.gpu; {LETS}", GETS, ["X008"]),  # the warp that triggers first knows its own stores
        (f"bar.sync 0; fence.acq_rel.gpu; {LETS} {PUTS}", GETS, ["X008"]),
        (f"bar.sync 0; fence.acq_rel.gpu; {PUTS} {LETS}", GETS, ["X008"]),
        (PUTS, GETS, ["X008"]),
        (PUTS, f"{WAITS} {GETS}", []),
        (PUTS, PUTS, ["X008"]),  # which of two writes stays
        ("ld.global.u32 %r2, [%d1+4096]; st.global.u32 [%d1], %r2;", PUTS, []),  # threads that have exited have read
        (f"{LETS} ld.global.u32 %r2, [%d1+4096]; st.global.u32 [%d1], %r2;", PUTS, ["X008"]),
    ],
)
@pytest.mark.parametrize("grid", [1, 3])
def test_what_a_launch_publishes_to_the_next_one(grid, first, second, codes):
    """A fence before griddepcontrol.launch_dependents publishes what its thread knows, the end of a CTA nothing."""
    gpu = Gpu("sm_90a")
    a, ptx = gpu.array(np.zeros(2048, np.uint32)), PUBLISHES.format(first, second)
    run = gpu.launch(ptx, "first", grid=grid, block=64, args=[a], progress=False)
    assert [f.code for f in gpu.launch(ptx, "second", grid=grid, block=64, args=[a], progress=False, after=run).findings] == codes
    assert gpu.launch(ptx, "second", grid=grid, block=64, args=[a], progress=False).findings == []


@pytest.mark.parametrize(
    ("releases", "polls", "codes"),
    [
        ("red.release.gpu.global.add.u32", ("ld.acquire.gpu", ""), []),
        ("st.release.gpu.global.u32", ("ld.acquire.gpu", ""), []),
        ("fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32", ("ld.volatile", "fence.acq_rel.gpu;"), []),
        ("red.relaxed.gpu.global.add.u32", ("ld.acquire.gpu", ""), ["X008"]),  # nothing is released
        ("red.release.gpu.global.add.u32", ("ld.relaxed.gpu", ""), ["X008"]),  # nothing is acquired
        ("red.release.cta.global.add.u32", ("ld.acquire.gpu", ""), ["X008"]),
        ("red.release.gpu.global.add.u32", ("ld.acquire.cta", ""), ["X008"]),
        ("st.global.u32", ("ld.acquire.gpu", ""), ["X008"]),
    ],
)
@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_a_dependent_launch_may_wait_for_a_flag(releases, polls, codes, barrier):
    """A read that acquires what the launch in front has released needs no griddepcontrol.wait; the warps that have not read it, and meet no other that has, do."""
    gpu = Gpu("sm_90a")
    a = gpu.array(np.zeros(2048, np.uint32))
    load, behind = polls
    poll = f"ld.param.u64 %d3, [a]; setp.ne.u32 %p1, %r1, 0; @%p1 bra MEET; POLL: {load}.global.u32 %r2, [%d3+8000]; setp.eq.u32 %p1, %r2, 0; @%p1 bra POLL; {behind} MEET:"
    *fences, store = releases.split("; ")
    flag = f"{LETS} {PUTS} bar.sync 0; ld.param.u64 %d1, [a]; {'; '.join([*fences, ''])} @%p1 {store} [%d1+8000], 1;"
    second = PUBLISHES.replace(".visible .entry second(.param .u64 a) {{", ".visible .entry second(.param .u64 a) {{ .reg .pred %p<2>;")
    ptx = second.format(flag, f"{poll} {barrier} {GETS}")
    run = gpu.launch(ptx, "first", block=64, args=[a], progress=False)
    found = {f.code for f in gpu.launch(ptx, "second", block=64, args=[a], progress=False, after=run).findings}
    assert found == ({*codes} if barrier else {"X008"})


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ("red.global.add.u32 [%d1], 1;", "red.global.add.u32 [%d1], 1;", []),
        ("red.global.add.u32 [%d1], 1;", "atom.global.add.u32 %r2, [%d1], 1;", []),
        ("st.relaxed.gpu.global.u32 [%d1], 1;", "red.global.add.u32 [%d1], 1;", []),
        ("ld.relaxed.gpu.global.u32 %r2, [%d1];", "red.global.add.u32 [%d1], 1;", []),
        ("red.cta.global.add.u32 [%d1], 1;", "red.global.add.u32 [%d1], 1;", ["X008"]),
        ("red.global.add.u32 [%d1], 1;", "red.cta.global.add.u32 [%d1], 1;", ["X008"]),
        ("red.global.add.u32 [%d1], 1;", "ld.global.u32 %r2, [%d1]; st.global.u32 [%d1+4096], %r2;", ["X008"]),
        ("red.global.add.u32 [%d1], 1;", "st.global.u32 [%d1], 1;", ["X008"]),
    ],
)
def test_strong_accesses_of_two_launches_do_not_race(first, second, codes):
    gpu = Gpu("sm_90a")
    a, ptx = gpu.array(np.zeros(2048, np.uint32)), PUBLISHES.replace("xor.b32 %r3, %r3, 32;", "").format(f"{LETS} {first}", second)
    run = gpu.launch(ptx, "first", block=64, args=[a], progress=False)
    assert [f.code for f in gpu.launch(ptx, "second", block=64, args=[a], progress=False, after=run).findings] == codes


@pytest.mark.parametrize(("waits", "codes"), [(WAITS, set()), ("", {"X008"})])
def test_what_a_flag_releases_includes_what_its_launch_has_waited_for(waits, codes):
    """The first and the second launch store the same words, the third one acquires the second one's flag, and reads them."""
    gpu = Gpu("sm_90a")
    a = gpu.array(np.zeros(2048, np.uint32))
    sets = "ld.param.u64 %d1, [a]; @%p1 red.release.gpu.global.add.u32 [%d1+8000], 1;"
    gets = f"ld.param.u64 %d3, [a]; ld.acquire.gpu.global.u32 %r2, [%d3+8000]; {GETS}"

    def ptx(waits: str = "", sets: str = "") -> str:
        return PUBLISHES.format(f"{LETS} {waits} {PUTS} bar.sync 0; {sets}", gets)

    run = gpu.launch(ptx(), "first", block=64, args=[a], progress=False)
    run = gpu.launch(ptx(waits, sets), "first", block=64, args=[a], progress=False, after=run)
    found = gpu.launch(ptx(), "second", block=64, args=[a], progress=False, after=run).findings
    assert {f.code for f in found} == codes


@pytest.mark.parametrize(("acquires", "codes"), [("acquire", set()), ("relaxed", {"X008"})])
def test_what_a_flag_releases_includes_what_its_launch_has_acquired(acquires, codes):
    """The first launch stores words and releases a flag, the second acquires it and releases a flag of its own, which the
    third one acquires before it reads the words.
    """
    gpu = Gpu("sm_90a")
    a = gpu.array(np.zeros(2048, np.uint32))
    flags = "ld.param.u64 %d1, [a];"
    sets, passes = (f"@%p1 red.release.gpu.global.add.u32 [%d1+{at}], 1;" for at in (8000, 8004))
    gets = f"ld.param.u64 %d3, [a]; ld.acquire.gpu.global.u32 %r2, [%d3+8004]; {GETS}"
    bodies = (
        f"{LETS} {PUTS} bar.sync 0; {flags} {sets}",
        f"{LETS} {flags} ld.{acquires}.gpu.global.u32 %r2, [%d1+8000]; bar.sync 0; {passes}",
    )
    run = None
    for body, name in (*((body, "first") for body in bodies), ("", "second")):
        run = gpu.launch(PUBLISHES.format(body, gets), name, block=64, args=[a], progress=False, after=run)
    assert {f.code for f in run.findings} == codes


@pytest.mark.parametrize(
    ("waits", "codes"), [(f"@%p1 {WAITS}", set()), ("@%p2 " + WAITS, {"X008"}), ("@%p3 " + WAITS, {"X008"}), ("", {"X008"})],
    ids=["of each CTA", "of CTA 0", "of CTA 1", "none"],
)  # fmt: skip
def test_one_thread_of_each_cta_waits_for_the_launch_in_front(waits, codes):
    """A wait in one CTA is none for another CTA."""
    gpu = Gpu("sm_90a")
    a, b = (gpu.array(np.zeros(64, np.uint32)) for _ in range(2))
    who = "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r1; setp.eq.u32 %p2, %r2, 0; setp.eq.u32 %p3, %r2, 64;"
    ptx = DEPENDENT.replace(".reg .pred %p<2>;", ".reg .pred %p<4>;").format(f"{who} {waits} bar.sync 0; {TAKES}", lets=LETS)
    first = gpu.launch(ptx, "first", block=64, args=[a], progress=False)
    run = gpu.launch(ptx, "second", grid=2, block=64, args=[a, b], progress=False, after=first)
    assert {f.code for f in run.findings} == codes


@pytest.mark.parametrize(
    ("middle", "third", "is_found"),
    [
        (LETS, TAKES, True),
        ("", TAKES, True),  # the middle one is over, and the first one may run still
        (LETS + WAITS, TAKES, True),  # the third one begins before the middle one has waited
        (WAITS, TAKES, False),
        (WAITS + LETS, TAKES, False),
        (f"@%p1 {WAITS} bar.sync 0; {LETS}", TAKES, False),
        (LETS, WAITS + TAKES, False),  # a wait is for all that is in front
        ("", WAITS + TAKES, False),
        (LETS, "", False),
    ],
)
def test_a_third_launch_may_run_beside_the_first(middle, third, is_found):
    gpu = Gpu("sm_90a")
    a, b, c = (gpu.array(np.zeros(64, np.uint32)) for _ in range(3))
    run = gpu.launch(DEPENDENT.format("", lets=LETS), "first", block=64, args=[a], progress=False)
    for body, given in ((middle, [c, b]), (third, [a, b])):
        run = gpu.launch(DEPENDENT.format(body, lets=""), "second", block=64, args=given, progress=False, after=run)
    assert [f.code for f in run.findings] == ["X008"] * is_found
    assert not is_found or "the launch before: kernel 'first'" in run.findings[0].message


@pytest.mark.parametrize(("waiting", "waits", "is_found"), [(0, WAITS, False), (1, WAITS, False), (2, WAITS, False), (0, "", True)])
def test_launches_that_do_not_wait_may_all_run_beside_each_other(waiting: int, waits: str, is_found: bool):
    """Four let the next one begin at once, the fifth uses what the first writes; `waiting` is one of those between that may wait first, where 0 is none."""
    gpu = Gpu("sm_90a")
    a, b, c = (gpu.array(np.zeros(64, np.uint32)) for _ in range(3))
    run = gpu.launch(DEPENDENT.format("", lets=LETS), "first", block=64, args=[a], progress=False)
    bodies = [(waits if waiting and n == waiting else "") + LETS for n in (1, 2, 3)] + [("" if waiting else waits) + TAKES]
    for n, body in enumerate(bodies):
        given = [a, b] if n == 3 else [c, b]
        run = gpu.launch(DEPENDENT.format(body, lets=""), "second", block=64, args=given, progress=False, after=run)
    assert [f.code for f in run.findings] == ["X008"] * is_found


@pytest.mark.parametrize(("waits", "codes"), [("", ["X008"]), (WAITS, [])])
def test_a_dependent_launch_leaves_what_the_one_in_front_reads(waits, codes):
    ptx = f""".version 8.0 .target sm_90a .address_size 64
    .visible .entry first(.param .u64 a, .param .u64 b) {{ .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];
      {LETS} ld.global.u32 %r1, [%d1]; st.global.u32 [%d2], %r1; ret; }}
    .visible .entry second(.param .u64 a) {{ .reg .b64 %d<4>; ld.param.u64 %d1, [a]; {waits} st.global.u32 [%d1], 7; ret; }}"""
    gpu = Gpu("sm_90a")
    a, b = (gpu.array(np.zeros(1, np.uint32)) for _ in range(2))
    first = gpu.launch(ptx, "first", args=[a, b], progress=False)
    assert [f.code for f in gpu.launch(ptx, "second", args=[a], progress=False, after=first).findings] == codes


def test_it_can_be_left_out():
    ptx = """.version 8.0 .target sm_90a .address_size 64
    .visible .entry k(.param .u64 a) { .reg .b32 %r<2>; .reg .b64 %d<2>; ld.param.u64 %d1, [a]; mov.u32 %r1, %ctaid.x; st.global.u32 [%d1], %r1; ret; }"""
    gpu = Gpu("sm_90a")
    args = [gpu.array(np.zeros(1, np.uint32))]
    assert [f.code for f in gpu.launch(ptx, grid=2, args=args, progress=False).findings] == ["X008"]
    assert gpu.launch(ptx, grid=2, args=args, progress=False, watch_global=False).findings == []
    with pytest.raises(InputError, match="watch_global"):
        gpu.launch(ptx, watch_global="no", args=args)


LAST = """mov.u32 %r8, %ctaid.x; mad.lo.u32 %r9, %r8, 64, %r1; mul.wide.u32 %d1, %r9, 4; add.u64 %d1, %d20, %d1; st.global.u32 [%d1], 1;
{each} bar.sync 0; setp.ne.u32 %p1, %r1, 0; mov.u32 %r12, sm; @%p1 bra MEET;
atom.relaxed.gpu.global.add.u32 %r10, [%d21], 1; {one} st.shared.u32 [%r12], %r10;
MEET: bar.sync 0; ld.shared.u32 %r10, [%r12]; setp.ne.u32 %p2, %r10, {last}; @%p2 bra END; {after}
mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d20, %d2; ld.global.u32 %r2, [%d2]; ld.global.u32 %r3, [%d2+256]; ld.global.u32 %r4, [%d2+512];
add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d22, %d3; st.global.u32 [%d3], %r2;
END:"""


@pytest.mark.parametrize(
    ("each", "one", "last", "after", "severities"),
    [
        (FENCE, FENCE, 2, "", set()),
        (FENCE, "", 2, FENCE, set()),
        ("", FENCE, 2, FENCE, {"wrong"}),
        ("fence.acq_rel.cta;", FENCE, 2, "", {"wrong"}),
        (FENCE, "", 2, "", {"note"}),  # rule order.reader_fence
        (FENCE, "", 2, "fence.acq_rel.cta;", {"note"}),
        ("", "", 2, "", {"wrong"}),
        (FENCE, "", 1, "", {"note", "wrong"}),
        (FENCE, FENCE, 1, FENCE, {"wrong"}),
    ],
    ids=[
        "right",
        "fence behind the barrier",
        "no fence in front",
        "fence of the CTA",
        "no fence behind",
        "fence of the CTA behind",
        "no fence at all",
        "last but one, no fence behind",
        "last but one",
    ],
)
def test_the_last_cta_adds_what_all_have_fenced(each, one, last, after, severities):
    """__threadfence by every thread, __syncthreads, atomicAdd by one: the ticket of the last CTA covers what all threads have stored."""
    arrays = [np.zeros(n, np.uint32) for n in (192, 1, 64)]
    assert races(LAST.format(each=each, one=one, last=last, after=after), *arrays, grid=3, block=64) == severities


@pytest.mark.parametrize(
    ("before", "severities"),
    [
        ("", {"note"}),
        (
            "ld.global.u32 %r20, [%d1]; st.global.u32 [%d3], %r20;",
            {"note", "wrong"},
        ),  # the own word's line, before others have written theirs
        ("add.u64 %d4, %d20, 1024; ld.global.u32 %r20, [%d4]; st.global.u32 [%d3], %r20;", {"note"}),  # another line
    ],
    ids=["nothing", "its line", "another line"],
)
def test_the_last_cta_has_no_older_copy_of_what_it_reads_without_a_fence(before, severities):
    """Each CTA stores a word, the first CTAs to neighbouring ones: whoever has loaded one of them may have the others in its L1 (rule order.reader_fence)."""
    body = f"""mov.u32 %r8, %ctaid.x; mul.wide.u32 %d1, %r8, 4; add.u64 %d3, %d22, %d1; add.u64 %d1, %d20, %d1; {before} st.global.u32 [%d1], 1; {FENCE}
    atom.relaxed.gpu.global.add.u32 %r10, [%d21], 1; setp.ne.u32 %p2, %r10, 2; @%p2 bra END;
    ld.global.u32 %r2, [%d20]; ld.global.u32 %r3, [%d20+4]; ld.global.u32 %r4, [%d20+8]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.u32 [%d20], %r2;
    END:"""
    assert races(body, *(np.zeros(n, np.uint32) for n in (512, 1, 64)), grid=3, block=1) == severities


@pytest.mark.parametrize(
    ("first", "second", "severities"),
    [
        (FENCE, FENCE, set()),
        (FENCE, "bar.sync 0;", {"note"}),
        (FENCE, "", {"note"}),
        ("", FENCE, {"wrong"}),
        ("", "", {"wrong"}),
    ],
)
def test_who_overwrites_what_others_have_read_lacks_a_fence_by_the_letter_alone(first, second, severities):
    """CTA 0 reads a word and frees it by a relaxed store, CTA 1 waits for that and writes there (rule order.reader_fence)."""
    body = f"""mov.u32 %r8, %ctaid.x; setp.ne.u32 %p2, %r8, 0; @%p2 bra WAIT; ld.global.u32 %r2, [%d20]; st.global.u32 [%d22], %r2; {first}
    st.relaxed.gpu.global.u32 [%d21], 1; bra END; WAIT: ld.volatile.global.u32 %r3, [%d21]; setp.eq.u32 %p3, %r3, 0; @%p3 bra WAIT; {second} st.global.u32 [%d20], 7; END:"""
    assert races(body, *(np.zeros(1, np.uint32) for _ in range(3)), grid=2, block=1) == severities


@pytest.mark.parametrize(
    ("fence", "sets", "reads", "lacks"),
    [
        (FENCE, "st.relaxed.gpu", "ld.acquire.gpu", ""),
        ("", "st.release.gpu", "ld.acquire.gpu", ""),
        (FENCE, "st.relaxed.gpu", "ld.relaxed.gpu", "ld.relaxed.gpu.global.u32) reads the flag without a fence after it"),
        (FENCE, "st.volatile", "ld.volatile", "ld.volatile.global.u32) reads the flag without a fence after it"),
        (FENCE, "red.relaxed.gpu.add", "ld.relaxed.gpu", "ld.relaxed.gpu.global.u32) reads the flag without a fence after it"),
        ("", "st.relaxed.gpu", "ld.relaxed.gpu", "st.relaxed.gpu.global.u32) sets the flag without a fence between line"),
        ("", "st.volatile", "ld.volatile", "st.volatile.global.u32) sets the flag without a fence between line"),
        ("", "st.relaxed.gpu", "ld.relaxed.gpu", "has no fence after it, and is .relaxed, not .acquire: so the flag orders nothing"),
        ("", "st.relaxed.gpu", "ld.relaxed.gpu AND FENCE", "and is .relaxed, not .release: so the flag orders nothing"),
        ("", "st.volatile", "ld.volatile AND FENCE", "and is .volatile, not .release: so the flag orders nothing"),
        ("", "st.relaxed.gpu", "ld.acquire.gpu", ".release instead of .relaxed there; or"),
        ("", "red.relaxed.gpu.add", "ld.acquire.gpu", "sets a flag: __threadfence() (fence.acq_rel.gpu) before it; or"),
    ],
)  # fmt: skip
def test_a_flag_that_is_there_is_never_advised(fence, sets, reads, lacks):
    """CTA 0 writes data and a flag, CTA 2 loads from the line before, CTA 1 polls the flag and reads the data. A fence
    or word that is there is not advised either.
    """
    reads, _, after = reads.partition(" AND ")
    sets = sets.replace(".add", ".global.add") if "add" in sets else f"{sets}.global"
    body = f"""mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r8, 0; setp.eq.u32 %p2, %r8, 1; @%p1 bra WRITES; @%p2 bra READS;
    ld.global.u32 %r2, [%d20+4]; st.global.u32 [%d22+4], %r2; bra END;
    WRITES: st.global.u32 [%d20], 5; {fence}
    {sets}.u32 [%d21], 1; bra END;
    READS: {reads}.global.u32 %r3, [%d21]; setp.eq.u32 %p3, %r3, 0; @%p3 bra READS;
    {FENCE * bool(after)} ld.global.u32 %r2, [%d20]; st.global.u32 [%d22], %r2; END:"""
    done, _ = run_in(body, [np.zeros(2, np.uint32) for _ in range(3)], grid=3, block=1)
    said = [f"{f.why}, {f.repair}" for f in done.result.findings.values()]
    assert len(said) == bool(lacks)
    assert all(lacks in one and ("flag after" not in one or lacks.endswith("; or")) for one in said)
    assert not any(after and ("fence after" in one or "acquire" in one) for one in said)


@pytest.mark.parametrize(("each", "codes"), [(FENCE, set()), ("", {"X008"})], ids=["fenced", "not fenced"])
def test_what_is_fenced_counts_for_all_who_meet_however_they_come(each, codes):
    """The same where the warps come to the barrier by two instructions, one after the other."""
    apart = "setp.ge.u32 %p5, %r1, 32; @%p5 bra OTHER; bar.sync 0; bra MET; OTHER: bar.sync 0; MET:"
    body = LAST.replace("{each} bar.sync 0;", "{each}").format(each=f"{each} {apart}", one="", last=2, after=FENCE)
    assert set(found(body, *(np.zeros(n, np.uint32) for n in (192, 1, 64)), grid=3, block=64)) == codes


# CTA 0 stores and tells the last CTA, of another wave, by a flag; that tells CTA 1, which reads.
RELAYED = """setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p2, %r8, 0; setp.eq.u32 %p3, %r8, 1; setp.eq.u32 %p4, %r8, 7;
@!%p2 bra A; st.global.u32 [%d20], 5; st.release.gpu.global.u32 [%d21], 1; A: @!%p4 bra B; P: ld.acquire.gpu.global.u32 %r2, [%d21]; setp.eq.u32 %p5, %r2, 0; @%p5 bra P;
st{}.gpu.global.u32 [%d21+4], 1; B: @!%p3 bra END; Q: ld.acquire.gpu.global.u32 %r2, [%d21+4]; setp.eq.u32 %p5, %r2, 0; @%p5 bra Q;
ld.global.u32 %r3, [%d20]; st.global.u32 [%d21+8], %r3; END:"""


@pytest.mark.parametrize(("does", "codes"), [(".release", set()), (".relaxed", {"X008"})])
def test_order_comes_back_from_a_cta_of_another_wave(does, codes):
    assert set(found(RELAYED.format(does), np.zeros(1, np.uint32), np.zeros(3, np.uint32), grid=8, block=1024)) == codes


# Both warps load the same 32 words, as Triton lets warps do in a block smaller than the CTA; the first one stores them, one larger.
IN_PLACE = """and.b32 %r3, %r1, 31; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d20, %d1; setp.lt.u32 %p1, %r1, 32; setp.ge.u32 %p2, %r1, 32;
{} ld.global.u32 %r4, [%d1]; add.u32 %r4, %r4, 1; @%p1 st.global.u32 [%d1], %r4; {}"""


@pytest.mark.parametrize(
    ("before", "behind", "codes"),
    [
        ("", "", set()),
        ("", "@%p2 st.global.u32 [%d21], %r4;", {"X008"}),
        ("", "mov.u32 %r5, sm; @%p2 st.shared.u32 [%r5], %r4;", {"X008"}),
        ("", "setp.eq.u32 %p3, %r4, 9; @%p3 bra END; @%p2 st.global.u32 [%d21], 1; END:", {"X008"}),
        ("", "mov.u32 %r5, 0; setp.eq.u32 %p3, %r4, 9; @%p3 bra ON; add.u32 %r5, %r4, 1; ON: @%p1 st.global.u32 [%d21], 1;", set()),
        ("", "mov.u32 %r5, 0; setp.eq.u32 %p3, %r1, 9; @%p3 bra ON; add.u32 %r5, %r4, 1; ON: @%p2 st.global.u32 [%d21], %r5;", {"X008"}),
        ("", "mov.u32 %r5, 0; setp.eq.u32 %p3, %r4, 9; @%p3 bra ON; add.u32 %r5, %r1, 1; ON: @%p2 st.global.u32 [%d21], %r5;", {"X008"}),
        ("@%p2 bra AWAY;", "AWAY:", set()),
    ],
    ids=[
        "nobody uses it",
        "stored",
        "stored in shared memory",
        "branch",
        "branch over arithmetic",
        "stored after it",
        "chosen",
        "not loaded",
    ],
)
def test_a_value_that_nobody_uses_is_no_race(before, behind, codes):
    assert set(found(IN_PLACE.format(before, behind), np.zeros(32, np.uint32), np.zeros(1, np.uint32), block=64)) == codes


@pytest.mark.parametrize(("op", "remark"), [("max", True), ("add", False)])
def test_a_look_before_a_maximum_is_a_remark(op, remark):
    body = f"ld.global.u32 %r2, [%d20]; setp.gt.u32 %p1, %r2, 7; @%p1 bra END; red.global.{op}.u32 [%d20], 7; END:"
    assert ("checks the value again" in found(body, np.zeros(1, np.uint32), grid=3)["X008"]) == remark


def test_two_waves_of_a_launch_are_held_against_each_other():
    """CTAs that depend on nobody run in waves, one after the other: a card may run them at once."""
    body = "shr.u32 %r3, %r1, 8; mov.u32 %r4, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; st.global.u32 [%d1], %r4;"
    assert set(found(body, np.zeros(1024, np.uint32), grid=5, block=1024)) == {"X008"}


CHAIN = """setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r8, %ctaid.x; mul.wide.u32 %d1, %r8, 4; add.u64 %d1, %d20, %d1;
AGAIN: ld.volatile.global.u32 %r3, [%d21]; setp.lt.u32 %p3, %r3, %r8; @%p3 bra AGAIN; fence.acq_rel.gpu;
ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, 1; st.global.u32 [%d1+4], %r2; {} add.u32 %r4, %r8, 1; st.volatile.global.u32 [%d21], %r4; END:"""


@pytest.mark.parametrize(("fence", "codes"), [(FENCE, set()), ("", {"X008"})])
def test_a_chain_of_ctas_goes_on_from_wave_to_wave(fence, codes):
    """Each waits for the one before it: what a CTA knows of its own wave through another one does not replace what it hands on itself."""
    assert set(found(CHAIN.format(fence), np.zeros(10, np.uint32), np.zeros(1, np.uint32), grid=9, block=1024)) == codes


TURN = "AGAIN: ld.volatile.global.u32 %r4, [%d21]; setp.ne.u32 %p3, %r4, %r8; @%p3 bra AGAIN; {} add.u32 %r3, %r4, 1; st.volatile.global.u32 [%d21], %r3;"
EITHER = (
    "setp.eq.u32 %p3, %r8, 0; @%p3 bra FIRST; ld.volatile.global.u32 %r3, [%d20]; {}; st.volatile.global.u32 [%d20], %r5; bra END;"
    "FIRST: ld.volatile.global.u32 %r4, [%d20]; {}; st.volatile.global.u32 [%d20], %r6;"
)
VOLATILE_COUNT = "ld.volatile.global.u32 %r3, [%d20]; add.u32 %r5, %r3, 1; st.volatile.global.u32 [%d20], %r5;"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (VOLATILE_COUNT, {"X008"}),
        (VOLATILE_COUNT.replace("volatile", "relaxed.gpu"), {"X008"}),
        (VOLATILE_COUNT.replace("%r3, 1;", "%r8, 1;"), set()),  # what it stores has nothing to do with what it has read
        (f"{LOCK.format('acquire.gpu.')} {VOLATILE_COUNT} st.release.gpu.global.u32 [%d21], 0;", set()),
        (f"{LOCK.format('acquire.gpu.')} {VOLATILE_COUNT} st.volatile.global.u32 [%d21], 0;", {"X008"}),
        (TURN.format(f"{FENCE} {VOLATILE_COUNT} {FENCE}"), set()),  # each waits for its turn
        (VOLATILE_COUNT.replace("add.u32", "or.b32"), set()),  # all set the same bit
        (EITHER.format("or.b32 %r5, %r3, 1", "or.b32 %r6, %r4, 1"), set()),
        (EITHER.format("or.b32 %r5, %r3, 1", "or.b32 %r6, %r4, 2"), {"X008"}),  # the CTAs set different bits
        (EITHER.format("max.u32 %r5, %r3, 1", "max.u32 %r6, %r4, 2"), {"X008"}),
        (EITHER.format("or.b32 %r5, %r3, 1", "add.u32 %r6, %r4, 2"), {"X008"}),
        (VOLATILE_COUNT.replace("add.u32 %r5, %r3, 1", "or.b32 %r5, %r3, %r8"), {"X008"}),
        (TURN.format(""), set()),  # with nothing else to hand on
        (
            f"AGAIN: {VOLATILE_COUNT} setp.lt.u32 %p3, %r3, 4; @%p3 bra AGAIN;",
            {"X008"},
        ),  # the loop ends by the value, and stores in every round
        (f"AGAIN: {VOLATILE_COUNT.replace('add', 'setp.ge.u32 %p3, %r3, 4; @%p3 bra END; add')} bra AGAIN;", {"X008"}),
        (TURN.format("").replace("@%p3 bra AGAIN;", "@!%p3 bra ON; bra.uni AGAIN; ON:"), set()),
        ("mul.wide.u32 %d1, %r8, 4; add.u64 %d1, %d1, %d22;" + VOLATILE_COUNT.replace("%d20", "%d1"), set()),  # each counts by itself
    ],
)
def test_a_strong_load_and_a_strong_store_of_what_is_made_of_it_lose_updates(body, codes):
    for grid in (3, 140) if "cas" not in body else (3,):  # in one wave, in two
        arrays = [np.zeros(n, np.uint32) for n in (1, 1, grid)]
        assert set(found(f"mov.u32 %r8, %ctaid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; {body} END:", *arrays, grid=grid)) == codes


# Each CTA stores a word, then takes a ticket. Those that are not the first read the first word.
TAKES_TICKET = """mov.u32 %r8, %ctaid.x; mul.wide.u32 %d2, %r8, 4; add.u64 %d2, %d2, %d21; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; st.global.u32 [%d2], 7; {}
atom.global.add.u32 %r3, [%d20], 1; setp.eq.u32 %p3, %r3, 0; @%p3 bra END; {} ld.global.u32 %r4, [%d21]; st.global.u32 [%d2+16], %r4; END:"""
ADD_ONE = "ld.global.u32 %r4, [%d22]; add.u32 %r4, %r4, 1; st.global.u32 [%d22], %r4;"
# Each CTA adds to a word when the word of turns is its ticket, and passes the turn on.
WAITS_TURN = f"""setp.ne.u32 %p2, %r1, 0; @%p2 bra END; atom.global.add.u32 %r3, [%d20], 1; POLL: atom.global.add.u32 %r5, [%d21], 0;
setp.ne.u32 %p3, %r3, %r5; @%p3 bra POLL; {{1}} {ADD_ONE} {{0}} atom.global.add.u32 %r6, [%d21], 1; END:"""


@pytest.mark.parametrize(
    ("body", "before", "after", "why", "fix"),
    [
        (TAKES_TICKET, "", "", "no fence is between", "takes a ticket: __threadfence() (fence.acq_rel.gpu) before and after it"),
        (TAKES_TICKET, "", FENCE, "no fence is between", "takes a ticket: __threadfence() (fence.acq_rel.gpu) before it"),
        (TAKES_TICKET, FENCE, "", "without a fence after it", "__threadfence() (fence.acq_rel.gpu) after line"),
        (TAKES_TICKET, FENCE, FENCE, "", ""),
        (WAITS_TURN, "", "", "no fence is between", "passes a lock on or sets a flag: __threadfence() (fence.acq_rel.gpu) before it, and after line"),
        (WAITS_TURN, "", FENCE, "no fence is between", "passes a lock on or sets a flag: __threadfence() (fence.acq_rel.gpu) before it; or"),
        (WAITS_TURN, FENCE, "", "without a fence after it", "__threadfence() (fence.acq_rel.gpu) after the load or atomic"),
        (WAITS_TURN, FENCE, FENCE, "", ""),
    ],
)  # fmt: skip
def test_a_relaxed_atomic_operation_without_a_fence_is_named(body, before, after, why, fix):
    arrays = [np.zeros(n, np.uint32) for n in (1, 8, 1)]
    findings = [*run_in(body.format(before, after), arrays, grid=4)[0].result.findings.values()]
    assert bool(findings) == bool(why)
    assert all(why in f.why and fix in f.repair for f in findings[:1]), findings


# Thread 0 of each CTA waits until the semaphore is the CTA's number. Both warps add to words of their own. Then thread 0 passes it on.
SEMAPHORE = """mov.u32 %r8, %ctaid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra HERE; POLL: ld.acquire.gpu.global.u32 %r3, [%d20];
setp.ne.u32 %p3, %r3, %r8; @%p3 bra POLL; HERE: bar.sync 0; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d21;
ld.global.u32 %r4, [%d1]; add.u32 %r4, %r4, 1; st.global.u32 [%d1], %r4; {} @%p2 bra END; red.{}.gpu.global.add.u32 [%d20], 1; END:"""


@pytest.mark.parametrize(
    ("bar", "order", "why", "fix"),
    [
        ("bar.sync 0;", "release", "", ""),
        (
            "bar.sync 0;",
            "relaxed",
            "is .relaxed, and no fence is between",
            "passes a lock on or sets a flag: __threadfence() (fence.acq_rel.gpu) before it",
        ),
        ("", "release", "set the flag, and no bar.sync is between", "bar.sync (__syncthreads) between"),
    ],
)
def test_what_a_semaphore_lacks_is_named_where_updates_may_be_lost(bar, order, why, fix):
    findings = [
        *run_in(SEMAPHORE.format(bar, order), [np.zeros(n, np.uint32) for n in (1, 64)], grid=3, block=64)[0].result.findings.values()
    ]
    lost = [f for f in findings if "may be lost" in f.what]
    assert bool(lost) == bool(findings) == bool(why)
    assert all(why in f.why and f.repair.startswith(("if line", fix)) and fix in f.repair for f in lost), lost


@pytest.mark.parametrize(("word", "is_right"), [("release.gpu", True), ("volatile", False)])
def test_a_store_that_passes_a_lock_on_without_a_release_is_named_where_updates_may_be_lost(word, is_right):
    body = SEMAPHORE.replace("red.{}.gpu.global.add.u32 [%d20], 1;", "add.u32 %r9, %r8, 1;\nst.{}.global.u32 [%d20], %r9;")
    done, _ = run_in(body.format("bar.sync 0;", word), [np.zeros(n, np.uint32) for n in (1, 64)], grid=3, block=64)
    lost = [f for f in done.result.findings.values() if "may be lost" in f.what]
    assert bool(lost) != is_right
    assert all(re.match(r"if line \d+ sets a flag: st\.release instead of st\.volatile there; or one atomic", f.repair) for f in lost), lost


# CTA 0 fills 64 words three times, CTA 1 reads them. The words of turns are those that thread 0 of the reader, and of the writer, sets.
SLOT = """mov.u32 %r8, %ctaid.x; setp.ne.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d21, %d1; mov.u32 %r9, 0; mov.u32 %r12, 0;
LOOP: add.u32 %r10, %r9, 1; @%p1 bra READ; @%p2 bra W1; W0: ld.acquire.gpu.global.u32 %r3, [%d20]; setp.ne.u32 %p3, %r3, %r9; @%p3 bra W0;
W1: bar.sync 0; st.global.u32 [%d1], %r9; bar.sync 0; @!%p2 st.release.gpu.global.u32 [%d20+4], %r10; bra NEXT;
READ: @%p2 bra R1; R0: ld.acquire.gpu.global.u32 %r5, [%d20+4]; setp.ne.u32 %p3, %r5, %r10; @%p3 bra R0;
R1: bar.sync 0;
ld.global.u32 %r4, [%d1];
{}
add.u32 %r12, %r12, %r4; @!%p2 st.release.gpu.global.u32 [%d20], %r10;
NEXT: mov.u32 %r9, %r10; setp.lt.u32 %p3, %r9, 3; @%p3 bra LOOP; @%p1 st.global.u32 [%d1+256], %r12;"""


@pytest.mark.parametrize("bar", ["bar.sync 0;", ""])
def test_a_slot_that_is_given_back_before_all_threads_have_read_it_needs_a_barrier(bar):
    done, _ = run_in(SLOT.format(bar), [np.zeros(n, np.uint32) for n in (2, 128)], grid=2, block=64)
    findings = [*done.result.findings.values()]
    assert bool(findings) != bool(bar), findings
    for f in findings:
        assert "may be overwritten before it is read" in f.what
        assert re.match(r"if line (\d+) sets the flag: bar.sync \(__syncthreads\) between line (\d+) and line \1; or", f.repair), f.repair


# Each CTA writes its 32 words, waits until both have, and reads those of the other one; twice.
ROUNDS = """mov.u32 %r8, %ctaid.x; setp.ne.u32 %p2, %r1, 0; mov.u32 %r9, 0; mov.u32 %r4, %r1;
LOOP: mul.lo.u32 %r10, %r9, {}; mad.lo.u32 %r10, %r8, 32, %r10; add.u32 %r10, %r10, %r1; mul.wide.u32 %d1, %r10, 4; add.u64 %d1, %d21, %d1;
st.global.u32 [%d1], %r4; xor.b32 %r10, %r10, 32; mul.wide.u32 %d1, %r10, 4; add.u64 %d1, %d21, %d1; add.u32 %r9, %r9, 1; mul.lo.u32 %r11, %r9, 2; bar.sync 0;
@%p2 bra ON; red.release.gpu.global.add.u32 [%d20], 1; WAIT: ld.acquire.gpu.global.u32 %r3, [%d20]; setp.lt.u32 %p3, %r3, %r11; @%p3 bra WAIT;
ON: bar.sync 0; ld.global.u32 %r4, [%d1]; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r9, 2; @%p3 bra LOOP;"""


@pytest.mark.parametrize("apart", [64, 0])
def test_words_that_are_written_again_while_others_read_them_need_two_buffers(apart):
    done, _ = run_in(ROUNDS.format(apart), [np.zeros(n, np.uint32) for n in (1, 128)], grid=2, block=32)
    findings = [*done.result.findings.values()]
    assert bool(findings) != bool(apart), findings
    assert all(
        "write to another buffer than the one that is still read" in f.repair and "if threads add" not in f.repair for f in findings
    ), findings


@pytest.mark.parametrize(
    ("shape", "actors"),
    [((1, 64), ["both warps", "warp 1", "warp 0"]), ((2, 32), ["both CTAs", "warp 0 of CTA 1", "warp 0 of CTA 0"])],
)
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("is_atomic", [True, False])
def test_a_lost_update_is_of_two_warps_that_the_finding_names(shape, actors, space, is_atomic):
    """Both execute the same store. Warp 0 has set the counter to 0, and a barrier of the cluster is after that."""
    grid, block = shape
    at, place = (f".{space}", "%d20") if space == "global" else (".shared::cluster", "%r9")
    count = VOLATILE_COUNT.replace(".global", at).replace("%d20", place)
    count = f"atom{at}.add.u32 %r3, [{place}], 1;" if is_atomic else count
    body = f"""mov.u32 %r9, sm; mapa.shared::cluster.u32 %r9, %r9, 0; mov.u32 %r10, %cluster_ctarank; or.b32 %r10, %r10, %r1;
    setp.ne.u32 %p3, %r10, 0; @!%p3 st{at}.u32 [{place}], 0; barrier.cluster.arrive; barrier.cluster.wait;
    and.b32 %r2, %r1, 31; setp.ne.u32 %p2, %r2, 0; @%p2 bra END; {count} END: barrier.cluster.arrive; barrier.cluster.wait;"""
    races = run_in(body, [np.zeros(1, np.uint32)], grid=grid, block=block, cluster=grid)[0].result.findings.values()
    assert [[half.text.split(" (")[0] for half in race.halves] for race in races] == ([] if is_atomic else [actors])


COPIED = "mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1; {} "
LOAD, STORE = "ld.global.u32 %r2, [%d2];", "st.global.u32 [%d3], %r2;"


BULK = """mov.u32 %r5, sm; mad.lo.u32 %r6, %r1, 4, %r5; st.shared.u32 [%r6], 1; fence.proxy.async.shared::cta; bar.warp.sync -1;
@%p9 {}.async.bulk.global.shared::cta.bulk_group{} [%d20], [%r5], 128; @%p9 cp.async.bulk.commit_group; @%p9 cp.async.bulk.wait_group 0;"""


def of_blank(body: str, block: int = 32, *, before: Callable[[DeviceArray], None] = lambda array: None) -> set[str]:
    """What is found in a kernel whose first array nobody has written."""
    gpu = Gpu("sm_90a")
    blank, out = gpu.empty(64, np.uint32), gpu.zeros(64, np.uint32)
    before(blank)
    return {f.code for f in gpu.launch(kernel(2, COPIED.format(body)), "k", block=block, args=[blank, out], progress=False).findings}


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (f"{LOAD} {STORE}", {"R507"}),
        (f"st.global.u32 [%d2], %r1; {LOAD} {STORE}", set()),
        (f"{LOAD} add.u32 %r2, %r1, 1; {STORE}", set()),  # nobody uses it
        (f"{LOAD} setp.lt.u32 %p1, %r1, 0; selp.b32 %r2, %r2, %r1, %p1; {STORE}", set()),  # nor here
        (f"st.global.u16 [%d2], %r1; {LOAD} {STORE}".replace("%r1;", "%h1;", 1), {"R507"}),  # half of it is written
        ("ld.global.v2.u32 {%r2, %r3}, [%d20]; st.global.u32 [%d3], %r3;", {"R507"}),
        ("red.global.add.u32 [%d2], 1;", {"R507"}),
        (f"{BULK.format('cp.reduce', '.add.u32')}", {"R507"}),
        (f"{BULK.format('cp', '')}", set()),
        (f"st.global.u32 [%d2], 0; fence.proxy.async.global; bar.warp.sync -1; {BULK.format('cp.reduce', '.add.u32')}", set()),
        (f"atom.global.exch.b32 %r3, [%d2], 1; {LOAD} {STORE}", set()),
        ("setp.eq.u32 %p1, %r1, 0; @!%p1 bra END; mov.u32 %r2, 5; st.global.u32 [%d2], %r2; END:", set()),
    ],
)
def test_what_nobody_has_written_is_no_value(body, codes):
    assert of_blank(body) == codes


def test_the_host_writes_too_and_other_launches_do():
    copy = f"{LOAD} {STORE}"
    assert of_blank(copy, before=lambda array: array.update(np.zeros(64, np.uint32))) == set()
    gpu = Gpu("sm_90a")
    blank, out = gpu.empty(64, np.uint32), gpu.zeros(64, np.uint32)
    fill = gpu.launch(kernel(2, COPIED.format("st.global.u32 [%d2], %r1;")), "k", block=32, args=[blank, out], progress=False)
    assert fill.findings == []
    assert gpu.launch(kernel(2, COPIED.format(copy)), "k", block=32, args=[blank, out], progress=False).findings == []
    assert out.numpy()[:32].tolist() == list(range(32))
    (unwritten,) = gpu.launch(kernel(2, COPIED.format(copy)), "k", block=64, args=[blank, out], progress=False).findings
    assert "element 32 (.u32)" in unwritten.message
    assert "; use: " in unwritten.message
    assert unwritten.why.startswith("nothing has written bytes 128 to 255 of the array's 256; ")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_unwritten_at_the_end_of_a_launch_is_told_by_its_extent(workers):
    gpu = Gpu("sm_90a")
    loaded = "mov.u32 %r3, %ctaid.x; setp.ne.u32 %p1, %r3, 0; @%p1 ld.global.u32 %r2, [%d2+512]; @%p1 st.global.u32 [%d3], %r2;"
    for stored, told in (
        ("", "any of the array's 1024 bytes"),
        ("@!%p1 st.global.u32 [%d2], %r1;", "bytes 128 to 1023 of the array's 1024"),
        ("@!%p1 st.global.u32 [%d2+256], %r1;", "896 of the array's 1024 bytes, from byte 0 to byte 1023"),
    ):
        text = kernel(2, COPIED.format(loaded.replace("@%p1 ld", f"{stored} @%p1 ld")))
        arrays = [gpu.empty(256, np.uint32), gpu.zeros(64, np.uint32)]
        (f,) = gpu.launch(text, "k", grid=2, block=32, args=arrays, progress=False, workers=workers).findings
        assert (f.code, f.why.partition(";")[0]) == ("R507", f"nothing has written {told}")


def test_a_launch_that_nobody_watches_may_have_written_everything():
    gpu = Gpu("sm_90a")
    blank, out = gpu.empty(64, np.uint32), gpu.zeros(64, np.uint32)
    assert (
        gpu.launch(kernel(2, COPIED.format("st.global.u32 [%d2], %r1;")), "k", block=32, args=[blank, out], sanitize=False).findings == []
    )
    assert gpu.launch(kernel(2, COPIED.format(f"{LOAD} {STORE}")), "k", block=64, args=[blank, out], progress=False).findings == []


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("bar", ["", "bar.sync 0;"])
def test_an_update_that_is_lost_is_found_although_both_leave_the_same_value(block, bar):
    """Every warp loads, as compilers have it of one element, and one thread stores: the readers that are kept of a cell need not be those that store."""
    for operation, codes in (("add.u32 %r2, %r2, 64;", {"X008"}), ("max.u32 %r2, %r2, 64;", set())):
        text = kernel(1, f"mov.u32 %r2, 0; ld.global.u32 %r2, [%d20]; {operation} {bar} @%p9 st.global.u32 [%d20], %r2;")
        gpu = Gpu("sm_90a")
        run = gpu.launch(text, grid=8, block=block, args=[gpu.zeros(1, np.uint32)])
        assert {f.code for f in run.findings if "one update is lost" in f.message} == codes


# CTA 1 adds to a word behind a fence; CTA 0 does something with it.
TOLD = """mov.u32 %r8, %ctaid.x; setp.ne.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; @%p1 bra ADD; {} bra END; ADD: fence.acq_rel.gpu;
{} END:"""
ADDS = "red.relaxed.gpu.global.add.u32 [%d20], 1;"
WAITS = "AGAIN: {} setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN;"
HEARS = "UNTIL: ld.{}.gpu.global.u32 %r3, [%d20+4]; setp.eq.u32 %p3, %r3, 0; @%p3 bra UNTIL;"
STORES, READS = "st.global.u32 [%d20], 9;", "ld.global.u32 %r2, [%d20]; st.global.u32 [%d21], %r2;"


@pytest.mark.parametrize(
    ("gives", "severities"),
    [
        ("st.global.u32 [%d20], 9;", set()),
        ("red.global.max.u32 [%d20], 9;", set()),
        ("atom.global.exch.b32 %r3, [%d20], 9;", set()),
        ("red.global.add.u32 [%d20], 9;", {"wrong"}),
        ("atom.global.exch.b32 %r3, [%d20], 9; st.global.u32 [%d21], %r3;", {"wrong"}),
    ],
    ids=["store", "maximum", "swap", "sum", "swap whose result is used"],
)
def test_a_store_of_the_value_that_another_cta_has_left_there(gives, severities):
    """order.same_value: the two may change places, unless the first would add to the value of the second."""
    assert races(TOLD.format(gives, STORES), np.zeros(1, np.uint32), np.zeros(1, np.uint32), grid=2) == severities


@pytest.mark.parametrize(
    ("first", "second", "severities"),
    [
        ("", f"{STORES} st.global.u32 [%d20], 4;", {"wrong"}),
        ("", f"{STORES} red.global.add.u32 [%d20], 4;", {"wrong"}),
        ("", f"{STORES} {STORES}", set()),
        ("", f"{STORES} {READS}", set()),
        ("st.release.gpu.global.u32 [%d20+4], 1;", f"{HEARS.format('acquire')} {STORES} st.global.u32 [%d20], 4;", set()),
        ("st.release.gpu.global.u32 [%d20+4], 1;", f"{STORES} {HEARS.format('acquire')} st.global.u32 [%d20], 4;", set()),
    ],
    ids=["another", "a sum", "the same", "reads it", "another, ordered", "another, ordered in between"],
)
def test_a_store_of_the_same_value_does_not_hide_the_first_one(first, second, severities):
    """order.same_value: CTA 0 and CTA 1 store one value. What CTA 1 then does must follow the store of CTA 0."""
    assert races(TOLD.format(f"{STORES} {first}", second), np.zeros(2, np.uint32), np.zeros(1, np.uint32), grid=2) == severities


@pytest.mark.parametrize(("guard", "severities"), [("", {"wrong"}), ("@!%p1 bra END;", set())], ids=["executed", "skipped"])
def test_a_sum_uses_what_is_read_also_if_it_adds_0(guard, severities):
    """order.unused_read: CTA 0 reads a word and adds its value, CTA 1 writes the word."""
    uses = f"ld.global.u32 %r2, [%d20]; {guard} red.global.add.u32 [%d21], %r2;"
    assert races(TOLD.format(uses, STORES), np.zeros(1, np.uint32), np.zeros(1, np.uint32), grid=2) == severities


@pytest.mark.parametrize(
    "again", ["", "ld.global.u32 %r10, [%d20];", "ld.relaxed.gpu.global.u32 %r10, [%d20];"], ids=["", "again", "again, relaxed"]
)
@pytest.mark.parametrize(("read", "severities"), [(READS, {"wrong"}), ("", set())], ids=["used", "unused"])
def test_a_read_that_nothing_uses_does_not_hide_one_before_it(read, again, severities):
    """order.unused_read: CTA 0 reads a word, CTA 1 writes it."""
    assert races(TOLD.format(read + again, STORES), np.zeros(1, np.uint32), np.zeros(1, np.uint32), grid=2) == severities


@pytest.mark.parametrize("then", [STORES, READS], ids=["stores", "reads"])
@pytest.mark.parametrize(
    ("before", "adds", "severities"),
    [
        (WAITS.format("ld.acquire.gpu.global.u32 %r3, [%d20];"), ADDS, set()),
        (WAITS.format("ld.relaxed.gpu.global.u32 %r3, [%d20];"), ADDS, set()),
        (WAITS.format("atom.relaxed.gpu.global.add.u32 %r3, [%d20], 0;"), ADDS, set()),
        (WAITS.format("atom.relaxed.gpu.global.cas.b32 %r3, [%d20], 0, 0;"), ADDS, set()),
        ("", ADDS, {"wrong"}),
        ("ld.relaxed.gpu.global.u32 %r3, [%d20+4];", ADDS, {"wrong"}),
        (WAITS.format("ld.relaxed.cta.global.u32 %r3, [%d20];"), ADDS, {"wrong"}),
        (WAITS.format("ld.relaxed.gpu.global.u32 %r3, [%d20];"), "st.global.u32 [%d20], 1;", {"wrong"}),
    ],
    ids=["acquire", "relaxed", "atomic", "exchange that fails", "does not look", "looks elsewhere", "looks in its CTA", "a plain store"],
)
def test_who_has_seen_a_strong_write_follows_it(then, before, adds, severities):
    """order.observation: a flag or a counter may be read and set back plainly by who has seen it by a strong read."""
    assert races(TOLD.format(before + then, adds), np.zeros(2, np.uint32), np.zeros(1, np.uint32), grid=2) == severities


@pytest.mark.parametrize(
    "strong", ["red.relaxed.gpu.global.add.u32 [%d20], 256;", "st.relaxed.gpu.global.u32 [%d20], 256;"], ids=["red", "st"]
)
@pytest.mark.parametrize("then", [STORES, READS], ids=["stores", "reads"])
@pytest.mark.parametrize(
    ("looks", "severities"),
    [
        (WAITS.format("atom.relaxed.gpu.global.add.u32 %r3, [%d20], 256; and.b32 %r3, %r3, 255;"), set()),
        (WAITS.format("atom.relaxed.cta.global.add.u32 %r3, [%d20], 256; and.b32 %r3, %r3, 255;"), {"wrong"}),
        ("atom.relaxed.gpu.global.add.u32 %r3, [%d20], 256; and.b32 %r3, %r3, 255;", {"wrong"}),
        ("", {"wrong"}),
    ],
    ids=["waits", "in its CTA", "once", "not at all"],
)
def test_who_has_seen_a_strong_write_follows_it_behind_another_of_its_own(looks, then, strong, severities):
    """order.observation: the result of an atomic counts for later accesses, whatever its thread adds or stores after it."""
    assert races(TOLD.format(f"{looks} {strong} {then}", ADDS), np.zeros(2, np.uint32), np.zeros(1, np.uint32), grid=2) == severities


@pytest.mark.parametrize(
    ("looks", "severities"), [("", {"wrong"}), ("ld.relaxed.gpu.global.u32 %r3, [%d20];", set())], ids=["once", "again"]
)
@pytest.mark.parametrize("then", [STORES, READS], ids=["stores", "reads"])
def test_who_has_seen_a_strong_write_does_not_follow_the_next_one(then, looks, severities):
    """order.observation: CTA 2 adds after CTA 0 has looked, between two relaxed flags."""
    first = WAITS.format("ld.relaxed.gpu.global.u32 %r3, [%d20];")
    asks = f"st.relaxed.gpu.global.u32 [%d20+4], 1; {WAITS.format('ld.relaxed.gpu.global.u32 %r3, [%d20+8];').replace('AGAIN', 'UNTIL')}"
    later = (
        f"{WAITS.format('ld.relaxed.gpu.global.u32 %r3, [%d20+4];').replace('AGAIN', 'WAIT')} {ADDS} st.relaxed.gpu.global.u32 [%d20+8], 1;"
    )
    adds = f"setp.eq.u32 %p4, %r8, 2; @%p4 bra LATER; {ADDS} bra END; LATER: {later}"
    assert races(TOLD.format(f"{first} {asks} {looks} {then}", adds), np.zeros(3, np.uint32), np.zeros(1, np.uint32), grid=3) == severities


# A thread of CTA 1 adds to a word. Warp 0 of CTA 0 has seen that, and a warp that meets it or hears of it uses the word.
PASSED_ON = """mov.u32 %r8, %ctaid.x; and.b32 %r4, %r1, 31; setp.eq.u32 %p1, %r8, 1; @%p1 bra ADD; setp.eq.u32 %p1, %r8, 2; @%p1 bra TWO; setp.ge.u32 %p2, %r1, 32; @%p2 bra ONE;
WAIT: ld.relaxed.gpu.global.u32 %r3, [%d20]; setp.eq.u32 %p3, %r3, 0; @%p3 bra WAIT; {meets} setp.eq.u32 %p4, %r1, 0; @%p4 {flag} bra END;
ONE: {meets} setp.ne.u32 %p2, %r4, 0; @%p2 bra END; {one} bra END;
TWO: setp.ne.u32 %p2, %r1, 0; @%p2 bra END; {two} bra END;
ADD: setp.ne.u32 %p2, %r1, 0; @%p2 bra END; fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [%d20], 1; END:"""


@pytest.mark.parametrize("then", [STORES, READS], ids=["stores", "reads"])
@pytest.mark.parametrize(
    ("given", "severities"),
    [
        ({"meets": "bar.sync 1, 64;", "one": "{then}"}, set()),
        ({"meets": "", "one": "{then}"}, {"wrong"}),
        ({"flag": "st.release.gpu.global.u32 [%d20+4], 1;", "two": HEARS.format("acquire") + "{then}"}, set()),
        ({"flag": "st.relaxed.gpu.global.u32 [%d20+4], 1;", "two": HEARS.format("relaxed") + "{then}"}, {"wrong"}),
    ],
    ids=["a barrier", "no barrier", "a release", "a relaxed flag"],
)
@pytest.mark.parametrize("at", [0, 70], ids=["first wave", "second wave"])
def test_who_has_seen_the_reader_of_a_strong_write_follows_it(at, given, severities, then):
    own = {"meets": "", "one": "", "two": "", "flag": ""} | given
    body = PASSED_ON.format(**own).replace("{then}", then).replace("@%p4  bra", "bra")
    body = body.replace("%ctaid.x;", f"%ctaid.x; setp.lt.u32 %p1, %r8, {at}; @%p1 bra END; sub.u32 %r8, %r8, {at};", 1)
    assert races(body, np.zeros(2, np.uint32), np.zeros(1, np.uint32), grid=at + 3, block=64) == severities


# The lanes of warp 0 release a flag each at once. Then one of them stores a word, and its flag again. Warp 1 waits for a
# flag, and reads the word.
FLAGS = """shl.b32 %r2, %r1, 2; cvt.u64.u32 %d1, %r2; mov.u64 %d2, {base}; add.u64 %d1, %d1, %d2; setp.lt.u32 %p1, %r1, 32;
@!%p1 bra MEET; st.weak.{space}.u32 [%d1], 0; MEET: bar.sync 0; @!%p1 bra READ; {first}
st.release.cta.{space}.u32 [%d1], 1; setp.ne.u32 %p2, %r1, {sets}; @%p2 bra END; {again} bra END;
READ: setp.ne.u32 %p2, %r1, 32; @%p2 bra END; WAIT: ld.acquire.cta.{space}.u32 %r3, [%d2+{at}]; setp.lt.u32 %p3, %r3, {least};
@%p3 bra WAIT; ld.{space}.u32 %r4, [%d2+128]; st.global.u32 [%d20+192], %r4; END:"""


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize(("sets", "waits"), [(0, 0), (5, 5), (0, 5), (31, 0)])
@pytest.mark.parametrize(
    ("again", "codes"),
    [
        ("{second} st.release.cta.{space}.u32 [%d1], 2;", [set(), {"wrong"}]),
        ("st.weak.{space}.u32 [%d1], 2;", [{"wrong"}, set()]),
        ("red.relaxed.cta.{space}.add.u32 [%d1], 1;", [set(), set()]),
    ],
    ids=["a release", "a plain store", "a relaxed sum"],
)
def test_flags_that_were_released_together_are_apart_afterwards(again, codes, sets, waits, space):
    data, is_other = f"setp.eq.u32 %p4, %r1, {sets}; @%p4 st.weak.{space}.u32 [%d2+128], 7;", sets != waits
    first, base = "" if "{second}" in again else data + "bar.warp.sync -1;", "sm" if space == "shared" else "%d20"
    then = again.format(second=data, space=space)
    body = FLAGS.format(base=base, space=space, sets=sets, at=4 * waits, least=2 - is_other, again=then, first=first)
    assert races(body, np.zeros(64, np.uint32), block=64) == codes[is_other]


@pytest.mark.parametrize("at", [124, 512, 32768])
def test_who_has_seen_a_strong_write_follows_it_in_every_line(at):
    """order.observation: at the end of the first line of 128 B, in others, and beside a word that many CTAs write."""

    def flag(text: str) -> str:
        return text.replace("[%d20]", f"[%d20+{at}]")

    other = f"@%p1 st.global.u32 [%d20+{at + 4}], %r8;"
    for body, severities in ((WAITS.format("ld.relaxed.gpu.global.u32 %r3, [%d20];"), set()), ("", {"wrong"})):
        for more in ("", other):
            told = TOLD.replace("@%p1 bra ADD;", f"{more} @%p1 bra ADD;")
            assert races(flag(told.format(body + READS, ADDS)), np.zeros(8200, np.uint32), np.zeros(1, np.uint32), grid=2) == severities


def test_who_has_seen_an_atomic_follows_those_before_it():
    """order.observation: through the atomics of three CTAs; the third of them sets the counter back and reads it, without a fence behind its own."""
    last = "atom.relaxed.gpu.global.add.u32 %r3, [%d20], 1; setp.ne.u32 %p3, %r3, 2; @%p3 bra END;"
    reset = f"setp.ne.u32 %p2, %r1, 0; @%p2 bra END; fence.acq_rel.gpu; {last} {READS} {STORES} END:"
    assert not races(reset, np.zeros(1, np.uint32), np.zeros(1, np.uint32), grid=3)
    waits = WAITS.format("ld.relaxed.gpu.global.u32 %r3, [%d20];").replace("setp.eq.u32 %p3, %r3, 0;", "setp.lt.u32 %p3, %r3, 2;")
    assert not races(TOLD.format(waits + READS, ADDS), np.zeros(1, np.uint32), np.zeros(1, np.uint32), grid=3)


# The same of two warps and a word of shared memory.
TOLD_IN_SHARED = """.shared .align 4 .b32 word; mov.u32 %r9, word; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r9], 0; bar.sync 0; and.b32 %r4, %r1, 31;
setp.ne.u32 %p2, %r4, 0; @%p2 bra END; setp.ge.u32 %p3, %r1, 32; @%p3 bra ADD; {} bra END; ADD: fence.acq_rel.cta; red.relaxed.cta.shared.add.u32 [%r9], 1; END:"""
STORES_SHARED, READS_SHARED = "st.shared.u32 [%r9], 9;", "ld.shared.u32 %r2, [%r9]; st.global.u32 [%d20], %r2;"


@pytest.mark.parametrize("then", [STORES_SHARED, READS_SHARED], ids=["stores", "reads"])
@pytest.mark.parametrize(
    ("before", "severities"),
    [
        (WAITS.format("ld.acquire.cta.shared.u32 %r3, [%r9];"), set()),
        (WAITS.format("ld.volatile.shared.u32 %r3, [%r9];"), set()),
        (WAITS.format("atom.relaxed.cta.shared.add.u32 %r3, [%r9], 0;"), set()),
        (WAITS.format("atom.relaxed.cta.shared.cas.b32 %r3, [%r9], 0, 0;"), set()),
        ("", {"wrong"}),
    ],
    ids=["acquire", "volatile", "atomic", "exchange that fails", "does not look"],
)
def test_who_has_seen_a_strong_write_follows_it_in_shared_memory(then, before, severities):
    assert races(TOLD_IN_SHARED.format(before + then), np.zeros(1, np.uint32), block=64) == severities


OWN_WRITES = {"nothing": "", "a reduction": "red.relaxed.{}.add.u32 [{}], 4;", "a relaxed store": "st.relaxed.{}.u32 [{}], 4;", "a store": "st.{}.u32 [{}], 4;",
              "an atomic": "atom.relaxed.{}.add.u32 %r5, [{}], 4;"}  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("own", OWN_WRITES)
@pytest.mark.parametrize("looks", [True, False], ids=["looks", "looks elsewhere"])
def test_a_strong_write_that_was_seen_stays_seen_behind_an_own_write(looks, own, space):
    """order.observation: the write happens before everything that its reader does next, whatever it writes there itself.
    A reduction or a store returns no value: it has seen nothing.
    """
    scope, word, told = ("gpu.global", "%d20", TOLD) if space == "global" else ("cta.shared", "%r9", TOLD_IN_SHARED)
    told = told.replace("END:", f"st.relaxed.{scope}.u32 [{word}+4], 1; END:") if space == "shared" else told
    told = told.replace(".b32 word;", ".b32 word[2];").replace("[%r9], 0;", "[%r9], 0; @%p1 st.shared.u32 [%r9+4], 0;")
    waits = WAITS.format(f"ld.relaxed.{scope}.u32 %r3, [{word}{'' if looks else '+4'}];")
    writes = OWN_WRITES[own].format(scope if own != "a store" else space, word)
    body = f"{waits} {writes} ld.{space}.u32 %r2, [{word}]; st.global.u32 [%d21], %r2;"
    body = told.format(body, f"{ADDS} st.relaxed.gpu.global.u32 [%d20+4], 1;")
    shape = {"grid": 2} if space == "global" else {"block": 64}
    wanted = set() if looks or own == "an atomic" else {"wrong"}
    assert races(body, np.zeros(2, np.uint32), np.zeros(1, np.uint32), **shape) == wanted


# A warp adds to a word. Warp 0 takes the 1 by an atomic, and meets warp 1 or not, which uses the word.
TAKEN = """.shared .align 4 .b32 word; mov.u32 %r9, word; @%p9 st.shared.u32 [%r9], 0; bar.sync 0; and.b32 %r4, %r1, 31; setp.ne.u32 %p2, %r4, 0;
mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r8, 1; @%p1 bra ADD; shr.u32 %r8, %r1, 5; setp.eq.u32 %p1, %r8, 1; @%p1 bra ONE; setp.eq.u32 %p1, %r8, 2; @%p1 bra ADD;
TAKE: {takes} setp.eq.u32 %p3, %r3, 0; @%p3 bra TAKE; {meets} bra END; ONE: {meets} @%p2 bra END; {then} bra END;
ADD: setp.eq.u32 %p1, %r1, {adder}; @%p1 red.relaxed.{scope}.add.u32 [{word}], 1; END:"""


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("then", ["reads", "stores"])
@pytest.mark.parametrize("takes", ["ld.relaxed.{}.u32 %r3, [{}];", "atom.relaxed.{}.cas.b32 %r3, [{}], 1, 2;"], ids=["a load", "an atomic"])
@pytest.mark.parametrize(("meets", "severities"), [("bar.sync 1, 64;", set()), ("", {"wrong"})], ids=["a barrier", "no barrier"])
def test_who_meets_the_taker_of_a_strong_write_follows_it(meets, severities, takes, then, space):
    """order.observation: the value that an atomic has returned was written before it, for all who follow the atomic."""
    scope, word = ("gpu.global", "%d20") if space == "global" else ("cta.shared", "%r9")
    uses = {"reads": f"ld.{space}.u32 %r2, [{word}]; st.global.u32 [%d21], %r2;", "stores": f"st.{space}.u32 [{word}], 9;"}[then]
    shape = {"block": 64, "grid": 2} if space == "global" else {"block": 96}
    body = TAKEN.format(
        takes=takes.format(scope, word), meets=meets, then=uses, scope=scope, word=word, adder=0 if space == "global" else 64
    )
    assert races(body, np.zeros(2, np.uint32), np.zeros(1, np.uint32), **shape) == severities


TICKET = """.shared .align 4 .b32 w; setp.ne.u32 %p2, %r1, 0; @%p2 bra MEET; atom.global.add.u32 %r3, [%d20], 1; st.shared.u32 [w], %r3;
MEET: bar.sync 0; ld.shared.u32 %r4, [w]; setp.ne.u32 %p1, %r4, {last}; @%p1 bra END; setp.ne.u32 %p1, %r1, {who}; @%p1 bra END; {then} END:"""


@pytest.mark.parametrize("then", [STORES, READS], ids=["stores", "reads"])
@pytest.mark.parametrize("who", [0, 32])
@pytest.mark.parametrize(("last", "severities"), [(3, set()), (1, {"wrong"})], ids=["the last ticket", "an early ticket"])
def test_threads_of_the_cta_with_the_last_ticket_may_use_the_counter(last, severities, who, then):
    """Behind a barrier, any thread: the other CTAs have added before. A CTA with an early ticket does not follow those."""
    assert (
        races(TICKET.format(last=last, who=who, then=then), np.zeros(1, np.uint32), np.zeros(1, np.uint32), grid=4, block=64) == severities
    )


# Warp 2 adds to a word, warp 0 waits for that, meets warp 1 or not, looks again and says so; warp 1 reads the word plainly.
LOOKS_AGAIN = """.shared .align 8 .b32 word[2]; mov.u32 %r9, word; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r9], 0; @%p1 st.shared.u32 [%r9+4], 0; bar.sync 0;
shr.u32 %r4, %r1, 5; setp.eq.u32 %p1, %r4, 1; @%p1 bra ONE; setp.eq.u32 %p1, %r1, 64; @%p1 red.relaxed.cta.shared.add.u32 [%r9], 1; setp.eq.u32 %p1, %r4, 2; @%p1 bra END;
W: ld.relaxed.cta.shared.u32 %r3, [%r9]; setp.eq.u32 %p3, %r3, 0; @%p3 bra W; {meets} ld.relaxed.cta.shared.u32 %r3, [%r9]; st.relaxed.cta.shared.u32 [%r9+4], 1; bra END;
ONE: {meets} V: ld.relaxed.cta.shared.u32 %r3, [%r9+4]; setp.eq.u32 %p3, %r3, 0; @%p3 bra V; ld.shared.u32 %r2, [%r9]; st.global.u32 [%d20], %r2; END:"""


@pytest.mark.parametrize(("meets", "severities"), [("bar.sync 1, 64;", set()), ("", {"wrong"})])
def test_who_looks_again_has_seen_a_strong_write_at_the_first_look(meets, severities):
    assert races(LOOKS_AGAIN.format(meets=meets), np.zeros(1, np.uint32), block=96) == severities


# Two warps look at a word of shared memory, and put something else there where it is free.
LOOKS_FIRST = """.shared .align 4 .b32 word; mov.u32 %r9, word; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r9], 0; bar.sync 0; and.b32 %r4, %r1, 31;
setp.ne.u32 %p2, %r4, 0; @%p2 bra END;
ld{strong}.shared.u32 %r3, [%r9];
setp.ne.u32 %p3, %r3, 0; @%p3 bra END;
{takes} END:"""


@pytest.mark.parametrize(
    ("strong", "takes", "severities"),
    [
        ("", "atom.relaxed.cta.shared.cas.b32 %r3, [%r9], 0, 1;", {"note"}),
        (".relaxed.cta", "atom.relaxed.cta.shared.cas.b32 %r3, [%r9], 0, 1;", set()),
        ("", "red.relaxed.cta.shared.max.u32 [%r9], 1;", {"note"}),
        ("", "red.relaxed.cta.shared.add.u32 [%r9], 1;", {"wrong"}),
        ("", "atom.relaxed.cta.shared.cas.b32 %r3, [%r9], 0, 1;\nld.shared.u32 %r3, [%r9]; add.u32 %r4, %r3, 1;", {"note", "wrong"}),
        ("", "add.u32 %r2, %r3, 1; atom.relaxed.cta.shared.cas.b32 %r4, [%r9], %r3, %r2;", {"note"}),
        ("", "atom.relaxed.cta.shared.cas.b32 %r2, [%r9], 0, 1; st.global.u32 [%d20], %r3;", {"wrong"}),  # what was read is used
    ],
)
def test_a_plain_look_in_front_of_an_atomic_that_looks_again_is_a_remark_in_shared_memory_too(strong, takes, severities):
    assert races(LOOKS_FIRST.format(strong=strong, takes=takes), np.zeros(1, np.uint32), block=64) == severities


# Each of two CTAs looks at a word, and then changes that word or its own one by an atomic operation.
LOOKS_THEN = """setp.ne.u32 %p2, %r1, 0; @%p2 bra END; mov.u32 %r8, %ctaid.x; mul.wide.u32 %d4, %r8, 4; add.u64 %d4, %d20, %d4;
ld.global.u32 %r3, [%d20];
setp.ne.u32 %p3, %r3, 0; @%p3 bra END;
{}.relaxed.gpu.global.{} [{}], 1; END:"""


@pytest.mark.parametrize(("at", "severities"), [("%d20", {"note"}), ("%d4", {"wrong"})], ids=["there", "elsewhere"])
@pytest.mark.parametrize("way", [("red", "max.u32"), ("red", "or.b32"), ("atom", "max.u32 %r4,"), ("atom", "or.b32 %r4,")])
def test_a_plain_look_is_none_for_an_atomic_at_another_place(way, at, severities):
    op, words = way
    kind, _, gives = words.partition(" ")
    body = LOOKS_THEN.format(op, f"{kind} {gives}" if gives else kind, at)
    assert races(body, np.zeros(2, np.uint32), grid=2) == severities


@pytest.mark.parametrize("way", ["red.relaxed.gpu.global.max.u32 [%d20], %r2;", "atom.relaxed.gpu.global.or.b32 %r4, [%d20], %r2;"])
@pytest.mark.parametrize(
    ("uses", "severities"), [("", {"note"}), ("add.u32 %r2, %r3, 1;", {"note"}), ("st.global.u32 [%d4+8], %r3;", {"wrong"})]
)
def test_a_plain_look_whose_value_is_used_elsewhere_is_a_race_in_global_memory_too(way, uses, severities):
    """The value may be an older one. As an operand of the atomic operation it does no harm."""
    body = LOOKS_THEN[: LOOKS_THEN.index("{}.relaxed")] + f"mov.u32 %r2, 1; {uses} {way} END:"
    assert races(body, np.zeros(4, np.uint32), grid=2) == severities


# Two CTAs take a word of global memory by cas, and load it plainly before or after.
@pytest.mark.parametrize(
    ("body", "severities"),
    [
        (
            "ld.global.u32 %r3, [%d20];\nsetp.ne.u32 %p3, %r3, 0; @%p3 bra END;\natom.relaxed.gpu.global.cas.b32 %r3, [%d20], 0, 1;",
            {"note"},
        ),
        ("atom.relaxed.gpu.global.cas.b32 %r3, [%d20], 0, 1;\nld.global.u32 %r4, [%d20];\nst.global.u32 [%d1], %r4;", {"wrong"}),
        (
            "L: atom.relaxed.gpu.global.cas.b32 %r3, [%d20], %r4, 1;\nld.global.u32 %r4, [%d20]; setp.ne.u32 %p3, %r3, %r4;\n@%p3 bra L;",
            {"note"},
        ),  # a loop
        (
            "atom.relaxed.gpu.global.cas.b32 %r3, [%d20], 0, 1; fence.acq_rel.gpu;\nld.relaxed.gpu.global.u32 %r4, [%d20];\nst.global.u32 [%d1], %r4;",
            set(),
        ),
    ],
    ids=["a look before", "a load after", "a load before the next turn", "a relaxed load after"],
)
def test_a_plain_load_after_a_cas_is_no_look_in_global_memory(body, severities):
    own = (
        "setp.ne.u32 %p2, %r1, 0; @%p2 bra END; mov.u32 %r4, 0; mov.u32 %r8, %ctaid.x; mul.wide.u32 %d1, %r8, 4; add.u64 %d1, %d1, %d21;\n"
    )
    assert races(own + body + " END:", np.zeros(1, np.uint32), np.zeros(8, np.uint32), grid=2) == severities


# CTA 1 writes a word by a strong store; CTA 0 waits for that and copies the word by a bulk copy.
COPIED_FLAG = """.shared .align 16 .b8 here[16]; .shared .align 8 .b64 full; mov.u32 %r8, %ctaid.x; setp.ne.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; @%p1 bra ADD;
mbarrier.init.shared::cta.b64 [full], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16; AGAIN: {look} setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN; {fence}
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [here], [%d20], 16, [full];
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra FULL; bra END; ADD: st.release.gpu.global.u32 [%d20], 1; END:"""


@pytest.mark.parametrize("look", ["ld.relaxed.gpu.global.u32 %r3, [%d20];", "ld.acquire.gpu.global.u32 %r3, [%d20];"])
@pytest.mark.parametrize(("fence", "codes"), [("fence.proxy.async;", set()), ("", {"X003"})])
def test_a_copy_of_what_a_strong_read_has_found_follows_it_behind_a_proxy_fence(look, fence, codes):
    done, _ = run_in(COPIED_FLAG.format(look=look, fence=fence), [np.zeros(4, np.uint32)], grid=2)
    assert {f.code for f in done.result.findings.values()} == codes


# The last CTA, of another wave than the first one, waits for a flag of that, and copies what it has stored, or stores over it.
WAITED_COPY = """.shared .align 16 .b8 here[16]; .shared .align 8 .b64 full; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; @%p1 bra ADD;
setp.ne.u32 %p2, %r8, 8; @%p2 bra END; AGAIN: ld.acquire.gpu.global.u32 %r3, [%d20+16]; setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN; {fence} {copy} bra END;
ADD: st.global.u32 [%d20], 5; st.release.gpu.global.u32 [%d20+16], 1; END:"""
BROUGHT = """mbarrier.init.shared::cta.b64 [full], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [here], [%d20], 16, [full]; FULL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
@!%p3 bra FULL;"""
PUT = "st.shared.v4.u32 [here], {%r1, %r1, %r1, %r1}; fence.proxy.async.shared::cta; cp.async.bulk.global.shared::cta.bulk_group [%d20], [here], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


@pytest.mark.parametrize("copy", [BROUGHT, PUT], ids=["loads", "stores"])
@pytest.mark.parametrize(("fence", "codes"), [("fence.proxy.async;", set()), ("fence.proxy.async.shared::cta;", {"X003"})])
def test_a_copy_of_what_another_wave_has_stored_needs_a_proxy_fence(copy, fence, codes):
    body = WAITED_COPY.replace("{fence}", fence).replace("{copy}", copy)
    assert set(found(body, np.zeros(8, np.uint32), grid=9, block=1024)) == codes


# The same with a fence in the program that lies elsewhere: in the CTA that writes, before it writes; in the one that reads, before it has seen the flag; in one between.
FENCED_AT = """.shared .align 16 .b8 here[16]; .shared .align 8 .b64 full; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; @%p1 bra ADD;
setp.eq.u32 %p2, %r8, 4; @%p2 bra HANDS_ON; setp.ne.u32 %p2, %r8, 8; @%p2 bra END; {early} AGAIN: ld.acquire.gpu.global.u32 %r3, [%d20+{flag}]; setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN;
{read} {copy} bra END; ADD: {before} st.global.u32 [%d20], 5; {written} st.release.gpu.global.u32 [%d20+16], 1; bra END;
HANDS_ON: ld.acquire.gpu.global.u32 %r3, [%d20+16]; setp.eq.u32 %p3, %r3, 0; @%p3 bra HANDS_ON; {between} st.release.gpu.global.u32 [%d20+20], 1; END:"""
ASYNC = "fence.proxy.async;"


@pytest.mark.parametrize("copy", [BROUGHT, PUT], ids=["loads", "stores"])
@pytest.mark.parametrize(
    ("where", "flag", "codes"),
    [
        ({"read": ASYNC}, 16, set()),
        ({"written": ASYNC}, 16, set()),
        ({"written": "fence.proxy.async.global;"}, 20, set()),
        ({"between": ASYNC}, 20, set()),
        ({"read": ASYNC}, 20, set()),
        ({"before": ASYNC}, 16, {"X003"}),
        ({"early": ASYNC}, 16, {"X003"}),
        ({"between": ASYNC}, 16, {"X003"}),  # the reader does not wait for that CTA
        ({"before": ASYNC, "early": ASYNC, "written": "fence.proxy.async.shared::cta;"}, 20, {"X003"}),
    ],
)
def test_a_proxy_fence_lies_on_the_way_from_one_wave_to_another(copy, where, flag, codes):
    places = dict.fromkeys(("early", "read", "before", "written", "between"), "") | where
    body = FENCED_AT.replace("{flag}", str(flag)).replace("{copy}", copy)
    for name, fence in places.items():
        body = body.replace(f"{{{name}}}", fence)
    assert set(found(body, np.zeros(8, np.uint32), grid=9, block=1024)) == codes


AGAIN_AND_AGAIN = """mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; mov.u32 %r5, 0; L: ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, %r5;
st.global.u32 [%d1], %r3; atom.global.add.u32 %r4, [%d1], 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra L; """


@pytest.mark.parametrize("tier", ["closures", "compiled"])
@pytest.mark.parametrize("begin", [0, 4, 8, 12])
def test_an_array_may_begin_at_any_address_of_its_elements(begin, tier, monkeypatch):
    """Also for accesses that find their array again; one element further is outside."""
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    for size, codes in ((32, set()), (31, {"X001"})):
        gpu = Gpu("sm_90a")
        x = gpu.array(np.arange(size, dtype=np.uint32), address=0x10000000 + begin)
        run = gpu.launch(kernel(1, AGAIN_AND_AGAIN), block=32, args=[x], progress=False)
        assert {f.code for f in run.findings} == codes
        assert codes or (x.numpy() == np.arange(32) + 10).all()


# Each CTA copies what it has stored itself; the last one is of another wave.
OWN_COPY = """.shared .align 16 .b8 here[16]; .shared .align 8 .b64 full; mov.u32 %r8, %ctaid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; mul.wide.u32 %d1, %r8, 16;
add.u64 %d20, %d20, %d1; st.global.u32 [%d20], 5; setp.eq.u32 %p1, %r8, {lacks}; @%p1 bra COPY; {fence} COPY: {copy} END:"""


@pytest.mark.parametrize("copy", [BROUGHT, PUT], ids=["loads", "stores"])
@pytest.mark.parametrize("fence", [ASYNC, "fence.proxy.async.global;"])
@pytest.mark.parametrize("lacks", [0, 8, 9])
def test_a_cta_of_any_wave_needs_a_proxy_fence_for_what_it_has_stored(lacks, fence, copy):
    body = OWN_COPY.replace("{lacks}", str(lacks)).replace("{fence}", fence).replace("{copy}", copy)
    told = found(body, np.zeros(36, np.uint32), grid=9, block=1024)
    assert set(told) == ({"X003"} if lacks < 9 else set())
    assert all(f"CTA {lacks}" in message for message in told.values()), told


# Lanes of one warp load the word that `key` (in %r4) names, and store there what `op` makes of it, in global memory or shared memory.
COUNTED = """mov.u32 %r5, sm; mad.lo.u32 %r6, %r1, 4, %r5; mov.u32 %r7, 0; st.shared.u32 [%r6], %r7; bar.warp.sync -1; {key} mul.wide.u32 %d1, %r4, 4;
add.u64 %d2, %d20, %d1; mad.lo.u32 %r8, %r4, 4, %r5; ld.{space}.u32 %r9, [{at}]; {op} st.{space}.u32 [{at}], %r9;"""
SPACES = {"global": "%d2", "shared": "%r8"}
THIRDS, OTHERS, ALL, TURNED = (
    "div.u32 %r4, %r1, 3;",
    "xor.b32 %r4, %r1, 5;",
    "mov.u32 %r4, 3;",
    "mul.lo.u32 %r4, %r1, 7; and.b32 %r4, %r4, 31;",
)
COUNTS, SUMS, BITS, NAMED_BIT = (
    "add.u32 %r9, %r9, 1;",
    "add.u32 %r9, %r9, %r1;",
    "shl.b32 %r3, 1, %r1; or.b32 %r9, %r9, %r3;",
    "or.b32 %r9, %r9, 4;",
)


@pytest.mark.parametrize("tier", ["closures", "compiled"])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("key", "op", "codes"),
    [
        (THIRDS, COUNTS, {"X008"}),  # though lanes with one key store the same value
        (THIRDS, BITS, {"X008"}),
        (THIRDS, NAMED_BIT, None),
        (OTHERS, COUNTS, set()),
        (TURNED, SUMS, set()),
        (ALL, SUMS, {"X008"}),
    ],
)
def test_lanes_that_count_in_one_place_lose_updates(space, key, op, codes, tier, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    if codes is None:
        codes = {"X008"} if space == "shared" else set()  # lanes that overwrite what others read, by order.lanes
    assert set(found(COUNTED.format(space=space, at=SPACES[space], key=key, op=op), np.zeros(64, np.uint32))) == codes


@pytest.mark.parametrize(("key", "severities"), [("shr.u32 %r4, %r1, 2;", {"note"}), (ALL, {"note"}), (THIRDS, {"wrong"})])
def test_lanes_that_count_alike_may_be_meant_as_one(key, severities):
    assert races(COUNTED.format(space="global", at="%d2", key=key, op=COUNTS), np.zeros(64, np.uint32)) == severities


@pytest.mark.parametrize(("block", "codes"), [(32, set()), ((8, 4), {"X008"}), ((64, 1), set())])
def test_a_warp_of_several_rows_has_lanes_of_one_column(block, codes):
    body = "mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; ld.global.u32 %r9, [%d2]; mov.u32 %r3, %tid.y; add.u32 %r9, %r9, %r3; st.global.u32 [%d2], %r9;"
    assert set(found(body, np.zeros(64, np.uint32), block=block)) == codes


@pytest.mark.parametrize(
    ("offset", "codes"),
    [
        ("shl.b32 %r4, %r1, 2;", set()),
        ("shl.b32 %r4, %r1, 32;", {"X008"}),  # nothing is left
        ("mad.lo.u32 %r4, %r1, 12, 8;", set()),
        ("cvt.u16.u32 %h1, %r1; mul.lo.u16 %h1, %h1, 4; cvt.u32.u16 %r4, %h1;", set()),
        ("cvt.u16.u32 %h1, %r1; mul.lo.u16 %h1, %h1, 4096; cvt.u32.u16 %r4, %h1;", {"X008"}),  # lane 16 is lane 0
        ("sub.u32 %r4, %r1, 16; cvt.sat.u32.s32 %r4, %r4; mul.lo.u32 %r4, %r4, 4;", {"X008"}),
    ],
)
def test_lanes_are_apart_as_far_as_their_type_holds_it(offset, codes):
    body = "cvt.u64.u32 %d1, %r4; add.u64 %d2, %d20, %d1; ld.global.u32 %r9, [%d2]; add.u32 %r9, %r9, 1; st.global.u32 [%d2], %r9;"
    assert set(found(offset + body, np.zeros(1 << 14, np.uint32))) == codes


# Each thread stores a word; then the warps add, one after the other, at 32 addresses: warp 2 at the second half of them comes to addresses of its own. Then a
# lane of warp `reader` loads what the lane of warp `writer` has stored that came to the same address as it, or to another one.
TURNS = """mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; shr.u32 %r3, %r1, 5; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d20, %d3;
st.global.u32 [%d3], %r1; bar.warp.sync -1;
setp.eq.u32 %p1, %r3, 2; setp.ge.u32 %p2, %r2, 16; and.pred %p1, %p1, %p2; mov.u32 %r4, %r2; @%p1 add.u32 %r4, %r4, 32;
mul.wide.u32 %d4, %r4, 4; add.u64 %d4, %d21, %d4; atom.{order}.gpu.global.add.u32 %r5, [%d4], 1; bar.warp.sync -1;
setp.ne.u32 %p3, %r3, {reader}; @%p3 bra END;
add.u32 %r6, %r2, {begin}; mul.wide.u32 %d5, %r6, 4; add.u64 %d5, %d20, %d5; ld.global.u32 %r7, [%d5]; st.global.u32 [%d3], %r7; END:"""


@pytest.mark.parametrize(
    ("order", "reader", "writer", "codes"),
    [
        ("acq_rel", 1, 0, set()),
        ("acq_rel", 2, 1, set()),
        ("acq_rel", 0, 1, {"X008"}),
        ("acq_rel", 1, 2, {"X008"}),
        ("relaxed", 1, 0, {"X008"}),
    ],
)
def test_warps_that_take_turns_at_addresses_have_seen_those_before_them(order: str, reader: int, writer: int, codes: set[str]):
    body = TURNS.format(order=order, reader=reader, begin=32 * writer)
    assert set(found(body, np.zeros(96, np.uint32), np.zeros(64, np.uint32), block=96)) == codes


@pytest.mark.parametrize("at", [0, 512, 516, 32768, 32768 + 512])
@pytest.mark.parametrize("waits", ["", "griddepcontrol.wait;"])
def test_a_dependent_launch_may_touch_every_word_but_those_that_the_one_in_front_writes(at, waits):
    """The first launch writes one word; the second reads that word, or one of the neighbouring word, the next lines and the next pages."""
    gpu = Gpu("sm_90a")
    ptx = f""".version 8.0 .target sm_90a .address_size 64
    .visible .entry first(.param .u64 a) {{ .reg .b64 %d<2>; ld.param.u64 %d1, [a]; griddepcontrol.launch_dependents; st.global.u32 [%d1+{at}], 7; ret; }}
    .visible .entry second(.param .u64 a, .param .u64 b) {{ .reg .b32 %r<2>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];
      {waits} add.u64 %d1, %d1, %d2; ld.global.u32 %r1, [%d1]; st.global.u32 [%d1], %r1; ret; }}"""
    a = gpu.array(np.zeros(1 << 14, np.uint32))
    for other in (0, 4, 508, 512, 516, 1024, 32768, 32768 + 512, 65532):
        first = gpu.launch(ptx, "first", args=[a], progress=False)
        second = gpu.launch(ptx, "second", args=[a, other], progress=False, after=first)
        assert [f.instruction.partition(".")[0] for f in second.findings if f.code == "X008"] == (
            ["ld", "st"] if other == at and not waits else []
        ), other


# A CTA loads by two maps that lie in a parameter, in constant memory, or in global memory, where the host or an earlier launch has written them.
TWO_MAPS = """.version 8.7 .target sm_90a .address_size 64
.const .align 64 .b8 fixed[256] = {{{fixed}}};
.visible .entry k({parameter}, .param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;
.shared .align 128 .b8 sm[256]; .shared .align 8 .b64 bar; {address} ld.param.u64 %d3, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r3, 0; add.u64 %d2, %d1, 128;
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; @%p1 mbarrier.init.shared.b64 [bar], 1; {acquire}
bar.sync 0; @!%p2 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%d1, {{%r3}}], [bar];
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r2+128], [%d2, {{%r3}}], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra WAIT; @%p2 ld.shared.u32 %r6, [sm]; @%p2 st.global.u32 [%d3], %r6; ret; }}
.visible .entry put(.param .align 64 .b8 from[256], .param .u64 to) {{ .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d1, [to]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
add.u64 %d1, %d1, %d2; mov.b64 %d3, from; add.u64 %d3, %d3, %d2; ld.param.u32 %r2, [%d3]; st.global.u32 [%d1], %r2; fence.proxy.tensormap::generic.release.gpu; ret; }}"""
IN_GLOBAL = {"parameter": ".param .u64 maps", "address": "ld.param.u64 %d1, [maps];"}
IN_PARAMETER = {"parameter": ".param .align 64 .b8 maps[256]", "address": "mov.b64 %d1, maps; cvta.param.u64 %d1, %d1;"}
IN_CONSTANT = {"parameter": ".param .u64 unused", "address": "mov.u64 %d1, fixed; cvta.const.u64 %d1, %d1;"}
BOTH_ACQUIRED = "fence.proxy.tensormap::generic.acquire.sys [%d1], 128; fence.proxy.tensormap::generic.acquire.sys [%d2], 128;"


@pytest.mark.parametrize("by", ["the host", "an earlier launch"])
@pytest.mark.parametrize(
    ("place", "acquire", "lines"),
    [
        (IN_GLOBAL, BOTH_ACQUIRED, 0),
        (IN_GLOBAL, f"@%p1 {BOTH_ACQUIRED}".replace("; fence", "; @%p1 fence"), 0),  # one warp, for its CTA
        (IN_GLOBAL, BOTH_ACQUIRED.split(";", maxsplit=1)[0] + ";", 1),
        (IN_GLOBAL, "", 2),
        (IN_GLOBAL, "fence.proxy.async; fence.acq_rel.sys;", 2),
        (IN_GLOBAL, f"mov.u32 %r4, %ctaid.x; setp.eq.u32 %p3, %r4, 0; @!%p3 bra N; {BOTH_ACQUIRED} N:", 2),  # the other CTA
        (IN_PARAMETER, "", 0),
        (IN_CONSTANT, "", 0),
    ],
)
def test_a_map_in_global_memory_is_acquired_by_each_cta(place, acquire, lines, by):
    gpu = Gpu("sm_90a")
    tile, out, room = gpu.array(np.full(4, 7, np.uint32)), gpu.array(np.zeros(1, np.uint32)), gpu.array(np.zeros(256, np.uint8))
    one = TensorMap.tiled(data_type="u32", global_address=tile.address, global_dim=[4], global_strides=[], box_dim=[4], arch="sm_90a")
    both = np.frombuffer(bytes(one) * 2, np.uint8)
    ptx = TWO_MAPS.format(acquire=acquire, fixed=", ".join(map(str, both.tolist())), **place)
    given = both.tobytes() if place is IN_PARAMETER else room
    if by == "the host" and place is IN_GLOBAL:
        given = gpu.array(both)
    elif place is IN_GLOBAL:
        gpu.launch(ptx, "put", block=64, args=[both.tobytes(), room], progress=False)
    run = gpu.launch(ptx, "k", grid=2, block=64, args=[given, out], progress=False)
    assert {f.code for f in run.findings} <= {"X008"}  # both CTAs store the same word
    assert [(f.code, str(f.severity)) for f in run.remarks] == [("X003", "note")] * lines
    assert out.numpy()[0] == 7


# The source of a copy: each thread stores to its word of 512 bytes (STORE), which a copy of each kind reads.
COPYING = """.version 8.7 .target {arch} .address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 from, .param .u64 to) {{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .b16 %h<2>;
.shared .align 128 .b8 sm[1024]; .shared .align 8 .b64 bar; ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to]; mov.b64 %d3, map; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
mov.u32 %r3, sm; mad.lo.u32 %r4, %r1, 4, %r3; mov.u32 %r5, 0; add.u32 %r6, %r1, 7; mul.wide.u32 %d4, %r1, 4; add.u64 %d5, %d1, %d4; add.u64 %d2, %d2, %d4; mul.wide.u32 %d4, %r2, 512;
add.u64 %d2, %d2, %d4; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p4, %r2, 0; and.pred %p5, %p4, %p1; mov.u16 %h1, 3; mov.u32 %r7, bar; and.b32 %r7, %r7, 0xFEFFFFFF;
@%p1 mbarrier.init.shared::cta.b64 [bar], {count}; @%p1 fence.mbarrier_init.release.cluster; {meet}
{body}
bar.sync 0; ld.shared.u32 %r8, [%r4]; st.global.u32 [%d2], %r8; END: {meet} ret; }}"""
EXPECTS = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;"
TENSOR_COPY = "cp.async.bulk.tensor.{}.shared::{}.global.{}.mbarrier::complete_tx::bytes{} [sm], [%d3, {{{}}}], [{}]"
BULK_COPY = "cp.async.bulk.shared::{}.global.mbarrier::complete_tx::bytes{} [sm], [%d1], 512, [bar]{};"
IN_2D = "%r5, %r5"
COPIES = {
    "bulk": f"{EXPECTS} @%p1 {BULK_COPY.format('cta', '', '')}",
    "tensor": f"{EXPECTS} @%p1 {TENSOR_COPY.format('2d', 'cta', 'tile', '', IN_2D, 'bar')};",
    "im2col": f"{EXPECTS} @%p1 {TENSOR_COPY.format('4d', 'cta', 'im2col', '', '%r5, %r5, %r5, %r5', 'bar')}, {{0, 0}};",
    "gather4": f"{EXPECTS} @%p1 {TENSOR_COPY.format('2d', 'cta', 'tile::gather4', '', '%r5, 0, 1, 2, 3', 'bar')};",
    "multicast": f"{EXPECTS} @%p5 {TENSOR_COPY.format('2d', 'cluster', 'tile', '.multicast::cluster', IN_2D, 'bar')}, %h1;",
    "bulk multicast": f"{EXPECTS} @%p5 {BULK_COPY.format('cluster', '.multicast::cluster', ', %h1')}",
    "pair": "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024; @%p1 "
    + TENSOR_COPY.format("2d", "cluster", "tile", ".cta_group::2", IN_2D, "%r7")
    + ";",
    "cp.async": "cp.async.ca.shared.global [%r4], [%d5], 4; cp.async.commit_group;",
    "counted cp.async": "cp.async.ca.shared.global [%r4], [%d5], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [bar];",
}
ARRIVED = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;"
IN_CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
OWN_STORES, STORES_OF_OTHERS = (
    "st.global.u32 [%d5], %r6;",
    "xor.b32 %r9, %r1, 64; mul.wide.u32 %d6, %r9, 4; add.u64 %d6, %d1, %d6; @%p4 st.global.u32 [%d6], %r6;",
)


def copying(kind: str, body: str, *, grid: int = 1, **options) -> set[str]:
    """The codes that are found if a body of PTX copies so; {copy}, {wait} and {meet} stand for what the kind has."""
    cluster = 2 if kind in ("multicast", "bulk multicast", "pair") else 1
    gpu = Gpu(arch := "sm_100a" if kind in ("gather4", "pair") else "sm_90a")
    words, given = gpu.array(np.arange(128, dtype=np.uint32) + 1000), {"data_type": "u32"}
    if kind == "im2col":
        tm = TensorMap.im2col(
            **given, global_address=words.address, global_dim=(32, 4, 1, 1), global_strides=(128, 512, 512), pixel_box_lower_corner=(0, 0),
            pixel_box_upper_corner=(0, 0), channels_per_pixel=32, pixels_per_column=4,
        )  # fmt: skip
    else:
        box = (32, 1 if kind == "gather4" else 4)
        tm = TensorMap.tiled(**given, global_address=words.address, global_dim=(32, 4), global_strides=(128,), box_dim=box, arch=arch)
    meet = IN_CLUSTER if cluster > 1 else "bar.sync 0;"
    wait = {"cp.async": "cp.async.wait_group 0;", "pair": f"@!%p4 bra X; {ARRIVED} X: {meet}"}.get(kind, ARRIVED)
    for part, text in {"copy": COPIES[kind], "wait": wait, "meet": meet}.items():
        body = body.replace(f"{{{part}}}", text)
    ptx = COPYING.format(arch=arch, body=body, meet=meet, count=128 if kind == "counted cp.async" else 1)
    out = gpu.array(np.zeros(128 * cluster * grid, np.uint32))
    run = gpu.launch(ptx, grid=grid * cluster, cluster=cluster, block=128, args=[tm, words, out], progress=False, **options)
    return {f.code for f in (*run.findings, *run.remarks)} - {"T219"}


@pytest.mark.parametrize("kind", COPIES)
def test_the_source_of_a_copy_is_read_until_the_copy_is_complete(kind: str) -> None:
    own = OWN_STORES if "multicast" not in kind and kind != "pair" else f"@%p4 {OWN_STORES}"
    assert copying(kind, f"{{copy}} {{wait}} {{meet}} {own}") == set()
    assert copying(kind, f"{{copy}} {{meet}} {own} {{wait}}") == {"X008"}
    assert copying(kind, f"{{copy}} {{wait}} {{meet}} {STORES_OF_OTHERS}", schedule=2) == set()
    assert copying(kind, f"{{copy}} {STORES_OF_OTHERS} {{wait}}", schedule=1) == {"X008"}
    fenced = f"{own} fence.proxy.async; {{meet}} {{copy}} {{wait}}"
    assert copying(kind, fenced) == set()
    assert copying(kind, fenced.replace("fence.proxy.async;", "")) == ({"X003"} if "cp.async" not in kind else set())


@pytest.mark.parametrize("kind", ["tensor", "bulk", "cp.async"])
@pytest.mark.parametrize(
    ("setting", "options"),
    [
        ({"SMEMSIM_TIERS": "compiled"}, {}),
        ({"SMEMSIM_TIERS": "closures", "SMEMSIM_COHORTS": "off"}, {}),
        ({}, {"schedule": 3}),
        ({}, {"workers": 2}),
    ],
)
def test_the_source_of_a_copy_is_followed_however_a_kernel_runs(kind, setting, options, monkeypatch):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    for body, codes in (
        ("@!%p4 bra END; {copy} {wait} bar.sync 0; " + OWN_STORES, set()),
        ("@!%p4 bra END; {copy} bar.sync 0; " + OWN_STORES + " {wait}", {"X008"}),
        ("{copy} {wait} @%p4 " + OWN_STORES, {"X008"}),  # the other CTA has waited for its own copy
    ):
        assert copying(kind, body, grid=2, **options) == codes


@pytest.mark.parametrize("copies", [(1, 3), (3, 1), (1, 1, 3), (2, 1, 1)])
@pytest.mark.parametrize("kind", ["bulk", "cp.async"])
def test_who_has_waited_for_each_phase_may_overwrite_what_its_copies_read(kind, copies):
    """Of a ring whose phases count different numbers of copies: those of each phase are over once it is."""
    is_bulk, wait = kind == "bulk", "W{0}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], {1}; @!%p2 bra W{0};"
    copy = (
        "@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9+{0}], [%d20+{0}], 128, [bar];"
        if is_bulk
        else "cp.async.ca.shared.global [%r4+{0}], [%d5+{0}], 4;"
    )
    lines, places = [], [128 * n for n in range(sum(copies))]
    for n, count in enumerate(copies):
        brings = "".join(copy.format(place) for place in places[sum(copies[:n]) :][:count])
        expects = f"@%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {128 * count};"
        lines += [f"{expects} {brings}" if is_bulk else f"{brings} cp.async.mbarrier.arrive.noinc.shared.b64 [bar];", wait.format(n, n % 2)]
    begin = f"""mov.u32 %r9, sm; mad.lo.u32 %r4, %r1, 4, %r9; mul.wide.u32 %d4, %r1, 4; add.u64 %d5, %d20, %d4;
    @%p9 mbarrier.init.shared::cta.b64 [bar], {1 if is_bulk else 32}; bar.sync 0;"""
    stores = "".join(f"st.global.u32 [%d5+{place}], 7;" for place in places)
    words = np.zeros(32 * len(places), np.uint32)
    assert found(" ".join((begin, *lines, stores)), words) == {}
    assert set(found(" ".join((begin, *lines[:-1], stores, lines[-1])), words)) == {"X008"}


@pytest.mark.parametrize("commit", ["cp.async.commit_group;", "@%p1 cp.async.commit_group; @%p3 cp.async.commit_group;"])
@pytest.mark.parametrize(
    ("then", "codes"),
    [
        ("@%p1 cp.async.wait_group 0; @%p1 st.global.u32 [%d5], 7;", set()),
        ("@%p1 cp.async.wait_all; @%p1 st.global.u32 [%d5], 7;", set()),
        ("@%p3 cp.async.wait_group 0; @%p3 st.global.u32 [%d5], 7;", set()),
        ("@%p1 cp.async.wait_group 0; @%p3 cp.async.wait_group 0; st.global.u32 [%d5], 7;", set()),
        ("@%p1 cp.async.wait_group 1; @%p1 st.global.u32 [%d5], 7;", {"X008"}),
        ("@%p1 st.global.u32 [%d5], 7; cp.async.wait_all;", {"X008"}),
    ],
)
def test_lanes_that_have_waited_for_their_copies_may_overwrite_what_they_have_read(then, codes, commit):
    body = f"""mov.u32 %r9, sm; mad.lo.u32 %r4, %r1, 4, %r9; mul.wide.u32 %d4, %r1, 4; add.u64 %d5, %d20, %d4; setp.lt.u32 %p1, %r1, 16; not.pred %p3, %p1;
    cp.async.ca.shared.global [%r4], [%d5], 4; {commit} {then}"""
    assert set(found(body, np.zeros(32, np.uint32))) == codes


# Lanes of warp 0 store in a loop, and lane 0 says so by a flag; warp 1 waits for that and reads what lane 2 has stored.
STORED_IN_LOOP = """mov.u32 %r9, sm; mad.lo.u32 %r4, %r1, 16, %r9; setp.ge.u32 %p8, %r1, 32; @%p8 bra READS; mov.u32 %r10, 0; mul.wide.u32 %d4, %r1, 16;
add.u64 %d5, %d20, %d4; L: {stores} add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {rounds}; @%p3 bra L; {sync} @%p9 st.release.gpu.global.u32 [%d21], 1; bra END;
READS: setp.ne.u32 %p3, %r1, 32; @%p3 bra END; W: ld.acquire.gpu.global.u32 %r3, [%d21]; setp.eq.u32 %p4, %r3, 0; @%p4 bra W; {reads} st.global.u32 [%d21+4], %r2; END:"""
TO_GLOBAL, TO_SHARED, NEXT = (
    "st.global.v4.u32 [%d5], {%r1, %r1, %r1, %r1};",
    "st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};",
    "add.u64 %d5, %d5, 512;",
)
FIRST_OF_GLOBAL, FIRST_OF_SHARED = "ld.global.u32 %r2, [%d20+32];", "ld.shared.u32 %r2, [%r9+32];"


@pytest.mark.parametrize("rounds", [1, 33])
@pytest.mark.parametrize(
    ("stores", "reads"),
    [
        (TO_GLOBAL + NEXT, FIRST_OF_GLOBAL),
        (TO_GLOBAL + NEXT, "ld.global.u32 %r2, [%d20+{last}];"),
        (TO_GLOBAL, FIRST_OF_GLOBAL),
        (TO_SHARED, FIRST_OF_SHARED),
        (TO_GLOBAL + NEXT + TO_SHARED, FIRST_OF_GLOBAL),
        (TO_GLOBAL + NEXT + TO_SHARED, FIRST_OF_SHARED),
    ],
    ids=["new words, the first", "new words, the last", "the same words", "shared", "two memories, global", "two memories, shared"],
)
def test_a_release_orders_the_stores_of_its_own_lane_however_many_others_there_are(stores, reads, rounds):
    reads = reads.format(last=512 * (rounds - 1) + 32)
    arrays = np.zeros(128 * rounds, np.uint32), np.zeros(2, np.uint32)
    for sync, codes in (("", {"X008"}), ("bar.warp.sync 0xffffffff;", set())):
        body = STORED_IN_LOOP.format(stores=stores, rounds=rounds, sync=sync, reads=reads)
        assert set(found(body, *arrays, block=64)) == codes


# A writes and tells B by a flag. A neighbour of A, then B, then that neighbour again count up; C waits for all three.
COUNTED_BY_WAVES = """mov.u32 %r8, %ctaid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; setp.eq.u32 %p1, %r8, 0; @%p1 bra NEIGHBOUR; setp.eq.u32 %p1, %r8, 1; @%p1 bra A;
setp.eq.u32 %p1, %r8, {b}; @%p1 bra B; setp.eq.u32 %p1, %r8, {c}; @%p1 bra C; bra END;
A: st.global.u32 [%d20], 7; st.{release}.gpu.global.u32 [%d21+4], 1; bra END;
NEIGHBOUR: {counts} T: ld.relaxed.gpu.global.u32 %r3, [%d21+8]; setp.lt.u32 %p3, %r3, 2; @%p3 bra T; {counts} bra END;
B: U: ld.acquire.gpu.global.u32 %r3, [%d21+4]; setp.eq.u32 %p3, %r3, 0; @%p3 bra U;
V: ld.relaxed.gpu.global.u32 %r3, [%d21+8]; setp.lt.u32 %p3, %r3, 1; @%p3 bra V; {counts} bra END;
C: W: ld.acquire.gpu.global.u32 %r3, [%d21+8]; setp.lt.u32 %p3, %r3, 3; @%p3 bra W; ld.global.u32 %r2, [%d20]; st.global.u32 [%d21+12], %r2; END:"""


@pytest.mark.parametrize(
    "count", ["red.release.gpu.global.add.u32 [%d21+8], 1;", "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r4, [%d21+8], 1;"]
)
@pytest.mark.parametrize(("b", "c", "grid"), [(2, 3, 4), (8, 9, 10), (8, 2, 9), (8, 16, 17), (16, 8, 17)])
def test_what_one_passes_on_stays_known_when_others_release_again(b, c, grid, count):
    """Wherever the CTAs run: with 1024 threads each, eight of them are executed together."""
    for release, codes in (("release", set()), ("relaxed", {"X008"})):
        body = COUNTED_BY_WAVES.format(b=b, c=c, release=release, counts=count)
        assert set(found(body, np.zeros(1, np.uint32), np.zeros(4, np.uint32), block=1024, grid=grid)) == codes


# All CTAs read every second word of an array and meet; then each thread overwrites one of them.
READ_THEN_SHARED_OUT = """mov.u32 %r8, %ctaid.x; mad.lo.u32 %r9, %r8, 256, %r1; mul.wide.u32 %d2, %r9, 8; add.u64 %d2, %d20, %d2; mul.wide.u32 %d1, %r1, 8; add.u64 %d1, %d20, %d1;
mov.u32 %r2, 0; mov.u32 %r10, 0; mov.u32 %r4, %nctaid.x; NEXT: ld.global.u32 %r5, [%d1]; add.u32 %r2, %r2, %r5; add.u64 %d1, %d1, 2048; add.u32 %r10, %r10, 1;
setp.lt.u32 %p1, %r10, %r4; @%p1 bra NEXT; bar.sync 0; @!%p9 bra MEET; fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r3, [%d21], 1;
SPIN: ld.acquire.gpu.global.u32 %r3, [%d21]; setp.lt.u32 %p1, %r3, %r4; @%p1 bra SPIN; MEET: bar.sync 0;
add.u32 %r6, %r2, 9; mul.lo.u32 %r7, %r6, %r2; xor.b32 %r11, %r7, %r6;
{} [%d2], {};"""


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(("grid", "is_named"), [(2, False), (8, True)])
@pytest.mark.parametrize(
    "store",
    [("st.global.u32", "%r11"), ("st.global.u16", "%r11"), ("st.global.v2.u32", "{%r7, %r11}"), ("red.relaxed.gpu.global.add.u32", "%r11")],
)
def test_a_full_list_of_readers_is_named_by_whatever_overwrites_them(store, grid, is_named, tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    done, _ = run_in(READ_THEN_SHARED_OUT.format(*store), [np.zeros(512 * grid, np.uint32), np.zeros(1, np.uint32)], block=256, grid=grid)
    assert not done.result.findings
    assert len(done.result.bounds) == is_named


# The first CTA copies 16 bytes and says so by a flag. The last one, of another wave, then stores there.
FREED_SOURCE = """.shared .align 16 .b8 here[16]; .shared .align 8 .b64 full; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra END; @%p1 bra COPIES;
setp.ne.u32 %p2, %r8, 8; @%p2 bra END; AGAIN: ld.acquire.gpu.global.u32 %r3, [%d20+16]; setp.eq.u32 %p3, %r3, 0; @%p3 bra AGAIN; st.global.u32 [%d20], 5; bra END;
COPIES: {} END:"""
SOURCE_IS_READ = BROUGHT.replace(" FULL:", "\n FULL:").split("\n")
SAYS_SO = "st.release.gpu.global.u32 [%d20+16], 1;"
WORDS_COPIED = "cp.async.ca.shared.global [here], [%d20], 16;"


@pytest.mark.parametrize(
    ("does", "codes"),
    [
        ((SOURCE_IS_READ[0], *SOURCE_IS_READ[1:], SAYS_SO), set()),
        ((SOURCE_IS_READ[0], SAYS_SO, *SOURCE_IS_READ[1:]), {"X008"}),
        ((WORDS_COPIED, "cp.async.wait_all;", SAYS_SO), set()),
        ((WORDS_COPIED, SAYS_SO, "cp.async.wait_all;"), {"X008"}),
    ],
)
def test_a_flag_after_the_wait_frees_the_source_of_a_copy(does, codes):
    assert set(found(FREED_SOURCE.format(" ".join(does)), np.zeros(8, np.uint32), grid=9, block=1024)) == codes


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        (("copy", "wait", "fence.acq_rel.gpu;", LETS), "", []),
        (("copy", "fence.acq_rel.gpu;", LETS, "wait"), "", ["X008"]),
        (("copy", "wait", LETS), "", ["X008"]),
        (("copy", "fence.acq_rel.gpu;", LETS, "wait"), "griddepcontrol.wait;", []),
    ],
)
@pytest.mark.parametrize(
    ("copy", "wait"), [(SOURCE_IS_READ[0], " ".join(SOURCE_IS_READ[1:])), (WORDS_COPIED, "cp.async.wait_all;")], ids=["bulk", "cp.async"]
)
def test_a_dependent_launch_leaves_the_source_of_a_copy(copy, wait, first, second, codes):
    body = " ".join({"copy": copy, "wait": wait}.get(part, part) for part in first)
    ptx = f""".version 8.0 .target sm_90a .address_size 64
    .visible .entry first(.param .u64 a) {{ .reg .pred %p<4>; .reg .b64 %d<21>; .shared .align 16 .b8 here[16]; .shared .align 8 .b64 full; ld.param.u64 %d20, [a]; {body} ret; }}
    .visible .entry second(.param .u64 a) {{ .reg .b64 %d<4>; ld.param.u64 %d1, [a]; {second} st.global.u32 [%d1], 7; ret; }}"""
    gpu = Gpu("sm_90a")
    a = gpu.array(np.zeros(4, np.uint32))
    run = gpu.launch(ptx, "first", args=[a], progress=False)
    assert run.findings == []
    assert [f.code for f in gpu.launch(ptx, "second", args=[a], progress=False, after=run).findings] == codes
