"""Schedules: a kernel whose result depends on the order of its threads is told, with the seed that shows it again; one
that is right is not.
"""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from smemsim.cli import main
from smemsim.core.finding import at_instruction
from smemsim.diagnosis.schedules import Apart, Outcome, compared, race_of

# seeds that show what is allowed, and that do not show what is forbidden
SHOWN, NEVER = (0, 5, 7, 9, 10, 49, 56, 91, 179, 634), range(20)
HEAD = ".version 8.0 .target sm_90a .address_size 64\n"


def two_warps(first: str, second: str) -> str:
    """A kernel in which thread 0 and thread 32 do something, with %m and %o the addresses of two arrays."""
    return f"""{HEAD}
.visible .entry k(.param .u64 m, .param .u64 o) {{ .reg .b32 %t, %a, %b; .reg .b64 %m, %o; .reg .f32 %f<4>; .reg .pred %p;
 ld.param.u64 %m, [m]; ld.param.u64 %o, [o]; mov.u32 %t, %tid.x;
 setp.eq.u32 %p, %t, 0; @%p bra FIRST; setp.eq.u32 %p, %t, 32; @%p bra SECOND; ret;
FIRST: {first} ret;
SECOND: {second} ret; }}"""


RACE = two_warps("st.relaxed.gpu.global.u32 [%m], 1; ld.relaxed.gpu.global.u32 %a, [%m+4]; st.global.u32 [%o], %a;",
                 "st.relaxed.gpu.global.u32 [%m+4], 1; ld.relaxed.gpu.global.u32 %a, [%m]; st.global.u32 [%o+4], %a;")  # fmt: skip
PASSED = two_warps("st.global.u32 [%m], 7; st.release.gpu.global.u32 [%m+4], 1;",
                   "L: ld.acquire.gpu.global.u32 %a, [%m+4]; setp.eq.u32 %p, %a, 0; @%p bra L; ld.global.u32 %b, [%m]; st.global.u32 [%o], %b;")  # fmt: skip
SUMS = two_warps("mov.f32 %f1, 0f3F800000; red.global.add.f32 [%o], %f1;", "mov.f32 %f1, 0f33800000; red.global.add.f32 [%o], %f1; red.global.add.f32 [%o], %f1;")  # fmt: skip


def launched(ptx: str, schedule: int | str | None, **options: object) -> tuple[smemsim.Run, tuple[int, ...]]:
    gpu = smemsim.Gpu("sm_90a")
    m, o = gpu.array(np.zeros(2, np.uint32), name="m"), gpu.array(np.zeros(2, np.uint32), name="o")
    run = gpu.launch(ptx, block=64, args=[m, o], schedule=schedule, progress=False, **options)
    return run, tuple(o.numpy().tolist())


def test_a_race_of_relaxed_accesses_is_told_with_the_seeds_that_show_it():
    run, usual = launched(RACE, "all:6")
    assert [f.code for f in run.findings] == ["X030"]
    assert not run.ok
    assert run.schedules is not None
    (one,) = run.schedules.differing
    assert one.name == "o"
    assert 0 in one.first
    for seed in run.schedules.tried:
        assert (launched(RACE, seed)[1] != usual) == (seed in one.schedules)
    assert usual == launched(RACE, None)[1]


def test_what_schedules_show_of_a_race_follows_from_it():
    """An update that may be lost is the finding: its other race, and the array that differs, follow from it. If another
    array differs, both are findings.
    """
    update = ".visible .entry k(.param .u64 m) { .reg .b32 %a; .reg .b64 %m; ld.param.u64 %m, [m]; ld.global.u32 %a, [%m];\n add.u32 %a, %a, 1; st.global.u32 [%m], %a; ret; }"
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(HEAD + update, grid=4, block=1, args=[gpu.zeros(1, np.uint32)], schedule="all:4", progress=False)
    assert [f.code for f in run.findings if f.cause is None] == ["X008"]
    assert run.findings[0].what.startswith("an update of element 0")
    assert {f.code for f in run.findings[1:]} == {"X008", "X030"}
    assert "more follow from it: X008 at PTX line" in run.text()
    reads = two_warps("st.global.u32 [%m], 5;", "ld.global.u32 %a, [%m]; st.global.u32 [%o], %a;")
    apart, _ = launched(reads, "all:6")
    assert [f.code for f in apart.findings if f.cause is None] == ["X008", "X030"]


def test_a_finding_that_only_a_schedule_shows_is_told_with_its_line():
    """The second warp stores if it comes first."""
    rare = two_warps("st.relaxed.gpu.global.u32 [%m], 1;\nst.global.u32 [%o], 5;",
                     "ld.relaxed.gpu.global.u32 %a, [%m]; setp.ne.u32 %p, %a, 0;\n@!%p st.global.u32 [%o], 3;")  # fmt: skip
    run, _ = launched(rare, "all:6")
    assert run.schedules is not None
    (one,) = run.schedules.appeared
    assert one.short == f"X008 at line {one.finding.line}"
    assert str(one).startswith(f"X008 at line {one.finding.line} with ")
    assert not launched(rare, None)[0].findings


def test_every_interleaving_is_reached_and_no_other():
    assert {launched(RACE, seed, sanitize=False)[1] for seed in range(40)} >= {(0, 1), (1, 0), (1, 1)}


# The second thread's accesses are the first one's with the two locations in turn, or those of a reader; both end with
# what they have read.
WRITER = "st.relaxed.gpu.SPACE.u32 [%m], 1; {} st.relaxed.gpu.SPACE.u32 [%m+64], 1; mov.u32 %a, 0;"
READER = "ld.relaxed.gpu.SPACE.u32 %a, [%m+64]; {} ld.relaxed.gpu.SPACE.u32 %b, [%m]; sub.s32 %b, 1, %b; and.b32 %a, %a, %b;"
STORE_LOAD = "st.relaxed.gpu.SPACE.u32 [%m{}], 1; {} ld.relaxed.gpu.SPACE.u32 %a, [%m{}]; sub.s32 %a, 1, %a;"
LOAD_STORE = "ld.relaxed.gpu.SPACE.u32 %a, [%m{}]; {} st.relaxed.gpu.SPACE.u32 [%m{}], 1;"
ACQ_REL, SC = "fence.acq_rel.gpu;", "fence.sc.gpu;"
WEAK = {  # what the two threads do, the outcome that turns do not show, seeds that show it if it is allowed
    "message passing": (WRITER.format(""), READER.format(""), (0, 1), True),
    "message passing, writer's fence missing": (WRITER.format(""), READER.format(ACQ_REL), (0, 1), True),
    "message passing, reader's fence missing": (WRITER.format(ACQ_REL), READER.format(""), (0, 1), True),
    "message passing, fences": (WRITER.format(ACQ_REL), READER.format(ACQ_REL), (0, 1), False),
    "store buffering": (STORE_LOAD.format("", "", "+64"), STORE_LOAD.format("+64", "", ""), (1, 1), True),
    "store buffering, acq_rel": (STORE_LOAD.format("", ACQ_REL, "+64"), STORE_LOAD.format("+64", ACQ_REL, ""), (1, 1), True),
    "store buffering, sc": (STORE_LOAD.format("", SC, "+64"), STORE_LOAD.format("+64", SC, ""), (1, 1), False),
    "load buffering": (LOAD_STORE.format("", "", "+64"), LOAD_STORE.format("+64", "", ""), (1, 1), True),
    "load buffering, fences": (LOAD_STORE.format("", ACQ_REL, "+64"), LOAD_STORE.format("+64", ACQ_REL, ""), (1, 1), False),
    "one location": (LOAD_STORE.format("", "", ""), LOAD_STORE.format("", "", ""), (1, 1), False),
}  # fmt: skip


def weak_outcome(first: str, second: str, space: str, seed: int) -> tuple[int, ...]:
    ptx = two_warps(f"{first} st.global.u32 [%o], %a;", f"{second} st.global.u32 [%o+4], %a;").replace("SPACE", space)
    if space == "shared":
        zero = ".shared .align 16 .b8 s[128]; mov.u64 %m, s; mov.u32 %a, 0; st.shared.u32 [%m], %a; st.shared.u32 [%m+64], %a; bar.sync 0;"
        ptx = ptx.replace("mov.u32 %t, %tid.x;", f"mov.u32 %t, %tid.x; {zero}")
    gpu = smemsim.Gpu("sm_90a")
    m, o = gpu.array(np.zeros(32, np.uint32), name="m"), gpu.array(np.zeros(2, np.uint32), name="o")
    gpu.launch(ptx, block=64, args=[m, o], schedule=seed, progress=False, sanitize=False)
    return tuple(o.numpy().tolist())


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", WEAK)
def test_what_the_model_allows_is_reached_and_what_it_forbids_is_not(name: str, space: str):
    first, second, outcome, is_allowed = WEAK[name]
    outcomes = (weak_outcome(first, second, space, seed) for seed in (SHOWN if is_allowed else NEVER))
    assert (outcome in outcomes) == is_allowed


def test_a_kernel_that_is_right_is_silent():
    run, out = launched(PASSED, "all:6")
    assert run.ok
    assert out == (7, 0)
    assert not run.schedules.differing
    assert not run.schedules.appeared


def test_loads_that_look_late_keep_no_other_cta_from_going_on():
    polls = PASSED.replace("ld.acquire.gpu.global", "ld.global").replace("mov.u32 %t, %tid.x;", "mov.u32 %t, %ctaid.x; shl.b32 %t, %t, 5;")
    gpu = smemsim.Gpu("sm_90a")
    for seed in range(16):
        m, o = gpu.zeros(2, np.uint32), gpu.zeros(2, np.uint32)
        assert gpu.launch(polls, grid=2, block=1, args=[m, o], schedule=seed, progress=False, sanitize=False, limit=20_000).ok


def test_what_is_left_of_a_trap_is_no_race():
    run, _ = launched(two_warps("st.global.u32 [%o], 1;", "st.global.u32 [%o+4], 1; st.global.u32 [%m+65536], 1;"), "all:4")
    assert run.schedules is not None
    assert {f.code for f in run.findings} == {"X001"}
    assert not run.schedules.differing


def test_the_count_is_of_schedules():
    run, _ = launched(RACE, "all:6")
    assert run.schedules is not None
    count = len(run.schedules.differing[0].schedules)
    assert f"{count} differ{'s' * (count == 1)} from the default schedule" in run.schedules.text()


def test_sums_of_floats_in_another_order_are_a_remark():
    run, _ = launched(SUMS, "all:6")
    assert run.ok
    assert [f.code for f in run.remarks] == ["X030"]
    assert "round" in run.remarks[0].why


TICKETS = f"""{HEAD}
.visible .entry k(.param .u64 m, .param .u64 o) {{{{ .reg .b32 %t, %a, %b; .reg .b64 %m, %o, %d; .reg .pred %p;
 ld.param.u64 %m, [m]; ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; and.b32 %a, %t, 31; setp.ne.u32 %p, %a, 0; @%p ret;
 atom.relaxed.gpu.global.add.u32 %a, [%o], 1; mul.wide.u32 %d, %a, 4; add.u64 %d, %m, %d; st.global.u32 [%d], %t; {{}} ret; }}}}"""
TURN = "membar.gl; atom.relaxed.gpu.global.add.u32 %b, [%o+4], 1; setp.ne.u32 %p, %b, 1; @%p ret; membar.gl; ld.global.u32 %a, [%m]; ld.global.u32 %b, [%m+4]; add.u32 %a, %a, %b; st.global.u32 [%o], %a;"


BROADCAST = ".shared .b32 sm[64]; .reg .b32 %c; mov.u32 %b, sm; add.u32 %b, %b, %t; st.shared.u32 [%b], %a; ld.shared.u32 %c, [%b]; mul.wide.u32 %d, %c,"
LAST = "atom.relaxed.gpu.global.exch.b32 %a, [%o+4], %t;"


@pytest.mark.parametrize(
    ("then", "names", "found"),
    [("", ["m"], []), (TURN, ["m"], []), (LAST, ["m", "o"], ["X030"]), (BROADCAST, ["m"], [])],
    ids=["a list in any order", "a list that the last one adds up", "and the last one", "by shared memory"],
)
def test_what_atomic_counters_give_in_any_order_is_a_remark(then: str, names: list[str], found: list[str]):
    """Who takes a ticket first stores first: the list has the same elements. The last thread is another one each time."""
    ptx = TICKETS.format(then) if then != BROADCAST else TICKETS.format("").replace("mul.wide.u32 %d, %a,", then)
    run, _ = launched(ptx, "all:6")
    assert run.schedules is not None
    assert [one.name for one in run.schedules.differing] == names
    assert [one.reordered for one in run.schedules.differing] == [name == "m" for name in names]
    assert ([f.code for f in run.findings], [f.code for f in run.remarks]) == (found, [] if found else ["X030"])


# Thread 32 stores at the place that it reads, and does not wait for thread 0, which stores that place.
RACED = " ld.relaxed.gpu.global.u32 %a, [%o]; mul.wide.u32 %d, %a, 4; add.u64 %d, %m, %d; st.global.u32 [%d], 7;"
COUNTED = "atom.relaxed.gpu.global.add.u32 %b, [%o+4], 1;"
LISTED = f"{COUNTED} mul.wide.u32 %e, %b, 4; add.u64 %e, %o, %e; st.global.u32 [%e+4], 9;"
# Both store to element 0, and the element is one number or the other: two halves that are exchanged.
HALVES = """atom.relaxed.gpu.global.add.u32 %a, [%o], 1; shr.u32 %a, %a, 1; mul.wide.u32 %d, %a, 4; add.u64 %d, %m, %d;
 st.relaxed.gpu.global.u32 [%d], """


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(("st.relaxed.gpu.global.u32 [%o], 1;", before + RACED)
          for before in ("", COUNTED, COUNTED + " st.shared.u32 [sm], %b;", LISTED, "red.relaxed.gpu.global.add.u32 [%o+4], 1;")),
        (HALVES + "0x10002;", HALVES + "0x20001;"),
    ],
    ids=["no counter", "a counter beside it", "a counter in shared memory", "a list in another array", "a counter without a result", "halves of elements"],
)  # fmt: skip
def test_an_order_that_no_atomic_counter_gives_is_a_finding(first: str, second: str):
    """The elements are the same in another order, but a race places them. Or parts of elements are the same."""
    run, _ = launched(two_warps(first, second).replace("{ .reg", "{ .shared .b32 sm; .reg .b64 %d, %e; .reg", 1), "all:6")
    assert run.schedules is not None
    assert [(one.name, one.reordered) for one in run.schedules.differing] == [("m", False)]
    assert [f.code for f in run.findings] == ["X030"]


PROBED = """{{ .reg .b32 %t, %a, %b; .reg .b64 %m, %d, %o, %e; .reg .pred %p; ld.param.u64 %m, [m]; mov.u32 %t, %tid.x; and.b32 %a, %t, 31;
 setp.ne.u32 %p, %a, 0; @%p ret; add.u32 %t, %t, 5; L: mul.wide.u32 %d, %a, 4; add.u64 %d, %m, %d;
 atom.relaxed.gpu.global.cas.b32 %b, [%d], 0, %t; setp.eq.u32 %p, %b, 0; @%p bra D; add.u32 %a, %a, 1; bra L; D: {} ret; }}"""


@pytest.mark.parametrize("then", ["", "mul.wide.u32 %e, %a, 4; ld.param.u64 %o, [o]; add.u64 %e, %o, %e; st.global.u32 [%e], %t;"])
def test_places_of_a_hash_table_may_have_any_order(then: str):
    """Who finds a place free keeps it: the loop goes on until the atomic operation succeeds."""
    run, _ = launched(f"{HEAD}.visible .entry k(.param .u64 m, .param .u64 o) {PROBED.format(then)}", "all:6")
    assert run.schedules is not None
    assert [one.reordered for one in run.schedules.differing] == [True] * (1 + bool(then))
    assert (run.findings, [f.code for f in run.remarks]) == ([], ["X030"])


@pytest.mark.parametrize("value", ["al", -1, "all:0", True, 1.5, "1x"])
def test_what_is_no_schedule_is_refused(value: object):
    with pytest.raises(smemsim.InputError, match=r"schedule = .*: needs a seed"):
        launched(RACE, value)


def test_the_command_line_takes_a_seed_and_all(tmp_path):
    (tmp_path / "k.ptx").write_text(RACE)
    given = ["run", str(tmp_path / "k.ptx"), "--block", "64", "--arg", "zeros:u32:2", "--arg", "zeros:u32:2", "--json"]
    assert CliRunner().invoke(main, [*given, "--schedule", "3"]).exit_code == 0
    done = CliRunner().invoke(main, [*given, "--schedule", "all", "6"])
    told = json.loads(done.stdout)["schedules"]
    assert done.exit_code == 1
    assert told["tried"] == ["earliest", "latest", 0, 1, 2, 3, 4, 5]
    assert told["differences"][0]["schedules"]


COPIED = f"""{HEAD}
.visible .entry k(.param .u64 m, .param .u64 o) {{ .reg .b32 %t, %s, %a; .reg .b64 %m, %o, %w; .reg .pred %p; .shared .align 16 .b8 buf[272]; .reg .b32 %bar;
 ld.param.u64 %m, [m]; ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; mov.u32 %s, buf; mov.u32 %bar, buf; add.u32 %bar, %bar, 256;
"""
ASYNC = COPIED + """ cvt.u32.u64 %a, %w; add.u32 %s, %s, %a; add.u64 %m, %m, %w; add.u64 %o, %o, %w;
 cp.async.ca.shared.global [%s], [%m], 4; cp.async.commit_group; cp.async.wait_group 0;
 ld.shared.u32 %a, [%s]; st.global.u32 [%o], %a; ret; }"""  # fmt: skip
BULK = COPIED + """ setp.ne.u32 %p, %t, 0; @%p bra READY;
 mbarrier.init.shared.b64 [%bar], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
READY: bar.sync 0; @%p bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%m], 256, [%bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%bar], 0; @!%p bra WAIT;
 cvt.u32.u64 %a, %w; add.u32 %s, %s, %a; add.u64 %o, %o, %w; ld.shared.u32 %a, [%s]; st.global.u32 [%o], %a; bar.sync 0;
 setp.ne.u32 %p, %t, 0; @%p ret; fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%m], [buf], 256;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }"""  # fmt: skip


@pytest.mark.parametrize(
    ("ptx", "wait"), [(ASYNC, "cp.async.wait_group 0;"), (BULK, "mbarrier.try_wait.parity.shared.b64 %p, [%bar], 0; @!%p bra WAIT;")]
)
def test_copies_land_when_they_are_waited_for_and_not_before(ptx: str, wait: str):
    data = np.arange(1, 65, dtype=np.uint32)

    def run(text: str, schedule: int | str | None) -> tuple[smemsim.Run, np.ndarray]:
        gpu = smemsim.Gpu("sm_90a")
        o = gpu.zeros(64, np.uint32, name="o")
        return gpu.launch(text, block=64, args=[gpu.array(data, name="m"), o], schedule=schedule, progress=False), o.numpy()

    done, out = run(ptx, "all:3")
    assert done.ok
    assert (out == data).all()
    assert (run(ptx, "latest")[1] == data).all()
    early, _ = run(ptx.replace(wait, ""), "all:3")
    assert not early.ok
    assert (run(ptx.replace(wait, ""), "latest")[1] != data).any()


@pytest.mark.parametrize(
    ("ptx", "wait"), [(ASYNC, "cp.async.wait_group 0;"), (BULK, "mbarrier.try_wait.parity.shared.b64 %p, [%bar], 0; @!%p bra WAIT;")]
)
def test_the_command_line_says_what_the_usual_order_hides(ptx: str, wait: str, tmp_path):
    """The bytes are right in the usual order, which copies at once, and are left so; the latest order shows others."""
    file, wrong = tmp_path / "k.ptx", ptx.replace(wait, "")
    options = "--block 64 --arg iota:u32:64 --arg zeros:u32:64 --expect arg1=wanted.npy --json"
    np.save(tmp_path / "wanted.npy", np.arange(64, dtype=np.uint32))
    for text, more in ((ptx, ""), (wrong, ""), (wrong, "--schedule earliest"), (wrong, "--no-sanitize")):
        file.write_text(text)
        done = CliRunner().invoke(
            main, ["run", str(file), *options.replace("wanted.npy", str(tmp_path / "wanted.npy")).split(), *more.split()]
        )
        told = json.loads(done.stdout)
        assert told["outputs"][0]["difference"] in ("", None), told
        is_hidden = text is wrong and not more
        assert ("with --schedule latest" in told.get("later", "")) == is_hidden
        if is_hidden:
            assert "the array of arg1 (o) differs" in told["later"]


# Warp 0 stores 7 to its lanes of tensor memory and loads them; thread 32 overwrites them by tcgen05.cp with 9; warp 4,
# of the same lanes, loads what is there.
TENSOR = """.version 8.7 .target sm_100a .address_size 64
.visible .entry k(.param .u64 o) { .reg .b32 %t, %w, %a, %b, %c, %s; .reg .b64 %o, %d, %d2; .reg .pred %p, %q;
 .shared .align 128 .b8 rows[512]; .shared .align 16 .b8 more[16];
 ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.u32 %b, 0; mov.u32 %c, 0;
 mov.u32 %s, rows; mad.lo.u32 %s, %t, 16, %s; setp.gt.u32 %p, %t, 31; @%p bra FILLED; mov.u32 %a, 9; st.shared.v4.u32 [%s], {%a, %a, %a, %a};
FILLED: setp.ne.u32 %q, %t, 0; @%q bra READY; mbarrier.init.shared.b64 [more+8], 1; fence.mbarrier_init.release.cluster;
READY: setp.ne.u32 %p, %w, 0; @%p bra ALLOCATED; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [more], 32;
ALLOCATED: fence.proxy.async; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; ld.shared.u32 %s, [more];
 @%p bra STORED; mov.u32 %a, 7; tcgen05.st.sync.aligned.32x32b.x1.b32 [%s], {%a}; tcgen05.wait::st.sync.aligned;
STORED: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; setp.ne.u32 %q, %w, 4; @%q bra LOADED;
 tcgen05.ld.sync.aligned.32x32b.x1.b32 {%b}, [%s]; tcgen05.wait::ld.sync.aligned;
LOADED: @%p bra AGAIN; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%c}, [%s]; tcgen05.wait::ld.sync.aligned;
AGAIN: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; setp.ne.u32 %q, %t, 32; @%q bra WAIT;
 mov.u32 %a, rows; shr.u32 %a, %a, 4; cvt.u64.u32 %d, %a; mov.u64 %d2, 0x400800080000; or.b64 %d, %d, %d2;
 tcgen05.cp.cta_group::1.32x128b.warpx4 [%s], %d; tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [more+8];
WAIT: mbarrier.try_wait.parity.shared.b64 %q, [more+8], 0; @!%q bra WAIT; tcgen05.fence::after_thread_sync;
 mad.wide.u32 %o, %t, 8, %o; st.global.v2.u32 [%o], {%b, %c};
 bar.sync 0; @%p ret; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %s, 32; ret; }"""


@pytest.mark.parametrize("wait", ["st", "ld"])
def test_loads_and_stores_of_tensor_memory_land_when_they_are_waited_for(wait: str):
    def run(text: str, schedule: int | str | None) -> tuple[smemsim.Run, np.ndarray]:
        gpu = smemsim.Gpu("sm_100a")
        o = gpu.zeros((160, 2), np.uint32, name="o")
        return gpu.launch(text, block=160, args=[o], schedule=schedule, progress=False), o.numpy()

    wanted = np.zeros((160, 2), np.uint32)
    wanted[128:, 0] = wanted[:32, 1] = 7
    done, out = run(TENSOR, "all:4")
    assert done.ok, done.text()
    assert (out == wanted).all()
    assert (run(TENSOR, "latest")[1] == wanted).all()
    early = TENSOR.replace(f"tcgen05.wait::{wait}.sync.aligned;", "")
    told, out = run(early, "latest")
    assert {f.code for f in told.findings} == {"X012"}
    assert (out[128:, 0] == (0 if wait == "st" else 9)).all()
    assert (out[:32, 1] == (7 if wait == "st" else 9)).all(), "the warp's own load comes behind its store"


# CTA 1 gets a word of each thread of CTA 0 by st.async, and adds the words of CTA 0 by red.async.
REMOTE = """.version 8.7 .target sm_90a .address_size 64
.visible .entry k(.param .u64 o) .reqnctapercluster 2, 1, 1 { .reg .b32 %t, %r, %a, %b, %s; .reg .b64 %o; .reg .pred %p, %q; .shared .align 16 .b8 got[256]; .shared .align 8 .b64 bar;
 ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank; mov.u32 %s, got; mad.lo.u32 %s, %t, 4, %s; mov.u32 %a, 0; st.shared.u32 [%s], %a;
 setp.ne.u32 %p, %t, 0; @%p bra READY; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; fence.mbarrier_init.release.cluster;
READY: barrier.cluster.arrive; barrier.cluster.wait; setp.eq.u32 %q, %r, 1; @%q bra WAIT;
 mapa.shared::cluster.u32 %s, %s, 1; mov.u32 %b, bar; mapa.shared::cluster.u32 %b, %b, 1; add.u32 %a, %t, 5;
 OPERATION bra END;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p, [bar], 0; @!%p bra WAIT;
 ld.shared.u32 %a, [%s]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %a;
END: barrier.cluster.arrive; barrier.cluster.wait; ret; }"""
WAITS = "mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p, [bar], 0; @!%p bra WAIT;"


@pytest.mark.parametrize(
    "operation",
    [
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%s], %a, [%b];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%s], %a, [%b];",
    ],
)
def test_stores_and_reductions_in_another_cta_land_when_their_bytes_are_counted(operation: str):
    def run(text: str, schedule: int | str | None) -> tuple[smemsim.Run, np.ndarray]:
        gpu = smemsim.Gpu("sm_90a")
        o = gpu.zeros(32, np.uint32, name="o")
        return gpu.launch(text, grid=2, block=32, args=[o], schedule=schedule, progress=False), o.numpy()

    right = REMOTE.replace("OPERATION", operation)
    done, out = run(right, "all:4")
    assert done.ok, done.text()
    assert (out == np.arange(5, 37)).all()
    assert (run(right, "latest")[1] == np.arange(5, 37)).all()
    told, out = run(right.replace(WAITS, ""), "latest")
    assert told.findings
    assert (out == 0).all()


@pytest.mark.parametrize("noinc", ["", ".noinc"])
def test_an_mbarrier_waits_for_copies_that_land_late(noinc: str):
    """cp.async.mbarrier.arrive: warp 0 copies, and warp 1 waits; without .noinc the arrival is one more than
    mbarrier.init says.
    """
    ptx = f""".version 8.0
.target sm_90a
.address_size 64
.shared .align 16 .b8 sm[128];
.shared .align 8 .b64 bar;
.visible .entry k(.param .u64 m, .param .u64 o) {{ .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
ld.param.u64 %rd1, [m]; ld.param.u64 %rd2, [o]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; mul.wide.u32 %rd3, %r2, 4; add.u64 %rd1, %rd1, %rd3;
add.u64 %rd2, %rd2, %rd3; mov.u32 %r3, sm; mad.lo.u32 %r3, %r2, 4, %r3; setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [bar], {64 if noinc else 32};
bar.sync 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra T; cp.async.ca.shared.global [%r3], [%rd1], 4;
cp.async.mbarrier.arrive{noinc}.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar]; bra E;
T: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra T; ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd2], %r4; E: ret; }}""".replace(
        "; ", ";\n"
    )
    for schedule in (None, "latest", 0, 1):
        gpu = smemsim.Gpu("sm_90a")
        m, o = gpu.array(np.arange(32, dtype=np.uint32) + 7), gpu.array(np.zeros(32, np.uint32))
        run = gpu.launch(ptx, block=64, args=[m, o], schedule=schedule, progress=False)
        assert run.findings == []
        assert o.numpy().tolist() == list(range(7, 39))


def apart(name="o", **given):
    return Apart(**{"array": name, "name": name, "size": 8, "bytes_": 2, "first": (0, 3), "schedules": (1,), "summed": False} | given)


@pytest.mark.parametrize("second", [None, *itertools.product((False, True), repeat=3)])
@pytest.mark.parametrize("first", [*itertools.product((False, True), repeat=3)])
def test_why_arrays_differ_and_what_mends_it_follows_from_all_of_them(first, second, of_a_race):
    """Sums in another order are told if one array has them, turns if all have; lists in any order may need no change."""
    names = ("summed", "handed_on", "reordered")
    some = [
        apart(f"a{n}", address=256 * n, **dict(zip(names, one, strict=True))) for n, one in enumerate((first, second)) if one is not None
    ]
    (found,) = dataclasses.replace(of_a_race, differing=tuple(some), appeared=()).findings
    summed, handed_on, reordered = ([getattr(one, name) for one in some] for name in names)
    assert found.what == f"the result depends on the schedule: {'; '.join(map(str, some))}"
    assert ("floats are added atomically" in found.why) == any(summed)
    assert ("and so may what is computed from them" in found.why) == (any(summed) and not all(summed))
    assert ("take turns by atomic operations" in found.why) == all(handed_on)
    lists = [one.array for one in some if one.reordered]
    assert (f"the elements of {' and '.join(lists)} are the same in another order" in found.why) == bool(lists)
    assert "in another order, as in a list" in found.why or not lists
    assert found.repair.startswith("no change is needed") == (
        any(reordered) and all(a or b for a, b in zip(reordered, handed_on, strict=True))
    )
    assert ("add in a fixed order, or" in found.repair) == any(summed)
    is_note = found.repair.startswith("no change is needed")
    assert found.severity == ("note" if is_note else "luck" if any(summed) or all(handed_on) else "wrong")
    assert found.at.arrays == tuple(one.address for one in some)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 20])
def test_schedules_and_places_are_listed_up_to_six(count, of_a_race):
    seeds, bytes_ = tuple(range(count)), tuple(range(min(count, 6)))
    one = apart(schedules=seeds, bytes_=count, first=bytes_, size=64)
    numbers = [str(n) for n in seeds[:6]]
    listed = (
        ", ".join(numbers) + f" and {count - 6} more" if count > 6 else " and ".join(filter(None, (", ".join(numbers[:-1]), numbers[-1])))
    )
    places = ", ".join(map(str, bytes_)) + " ..." * (count > 6)
    s = "s" * (count > 1)
    assert (
        str(one)
        == f"o differs from the default schedule in {count} schedule{s} (--schedule {listed}): {count} of its 64 bytes, at offset{s} {places}"
    )
    told = dataclasses.replace(
        of_a_race,
        tried=(*seeds, 99),
        differing=(one, apart("p", schedules=seeds), apart("q", schedules=(99,))),
        appeared=(),
        unfinished=(98,),
    )
    text = told.text().splitlines()
    assert text[0] == f"{count + 1} schedules tried: {count + 2} differ from the default schedule"
    assert " ".join(" ".join(text[1:]).split()) == (
        f"--schedule {listed}: o differs ({count} of 64 bytes); p differs (2 of 8 bytes) --schedule 99: q differs (2 of 8 bytes) --schedule 98: time was over"
    )
    assert told.only(["q"]).differing == (told.differing[2],)
    none = dataclasses.replace(told, differing=(), unfinished=())
    assert none.text() == f"{count + 1} schedules tried: nothing differs from the default schedule"
    assert none.findings == []
    alone = dataclasses.replace(none, unfinished=(5,)).text().splitlines()[0]
    assert alone.endswith(": 1 differs from the default schedule")


@pytest.fixture(scope="module")
def of_a_race():
    return launched(RACE, "all:1")[0].schedules


def outcome(schedule, changed, **given):
    more = {"interrupted": False, "out_of_time": False, "findings": (), "summed": ()} | given
    return Outcome(schedule=schedule, changed=changed, **more)


def test_schedules_are_compared_byte_by_byte_if_they_came_to_their_end(of_a_race):
    launch = of_a_race.launch
    regions = launch.memory.filled()
    m, o = (next(r for r in regions if r.name == name) for name in "mo")
    usual = {r.begin: np.zeros(8, np.uint8) for r in (m, o)}

    def left(**bytes_):
        return {r.begin: np.array([n in bytes_.get(r.name, ()) for n in range(8)], np.uint8) for r in (m, o)}

    body = launch.program.inlined.body
    one, two, three = [i for i in body if i.op in ("st", "ld")][:3]
    race, turned = at_instruction("X008", one, "a race", other=two), at_instruction("X008", two, "a race", other=one)
    alone, other = at_instruction("X008", two, "a race"), at_instruction("X004", one, "no race", other=two)
    outcomes = [
        outcome("earliest", left(), findings=(race,)),
        outcome(0, left(m=[1, 5]), findings=(turned, turned, other), summed=(np.array([m.begin]), np.array([m.begin + 4, o.begin + 2]))),
        outcome(1, left(m=[5, 6], o=[3]), findings=(alone,)),
        outcome(2, left(o=[7]), interrupted=True, findings=(at_instruction("X008", three, "never told"),)),
        outcome(
            3, left(o=[7]), out_of_time=True, findings=(at_instruction("X008", three, "never told"),), summed=(np.array([m.begin + 6]),)
        ),
        outcome(4, None),
    ]
    told = compared(launch, usual, [m, o], outcomes)
    assert told.tried == ("earliest", 0, 1, 2, 3, 4)
    assert told.unfinished == (3,)
    assert [(one.name, one.bytes_, one.first, one.schedules, one.size, one.address) for one in told.differing] == [
        ("m", 3, (1, 5, 6), (0, 1), 8, m.begin), ("o", 1, (3,), (1,), 8, o.begin)
    ]  # fmt: skip
    assert [one.summed for one in told.differing] == [False, True]  # byte 6 of m is no sum in a schedule that ended
    assert [(one.finding.code, one.finding.site, one.schedules) for one in told.appeared] == [
        ("X008", one.site, ("earliest", 0)), ("X004", one.site, (0,)), ("X008", two.site, (1,)),
    ]  # fmt: skip
    assert {race_of(race), race_of(turned)} == {("X008", frozenset({one.site, two.site}))}
    assert race_of(other) == ("X004", frozenset({one.site}))
    assert told.appeared[0].short == f"X008 at {one.at}"
    assert str(told.appeared[0]) == f"X008 at {one.at} with --schedule earliest and 0: {race.message}"
    assert not compared(launch, usual, [m, o], outcomes[:1]).differing
    for by in (outcomes[2:3], outcomes[1:2]):
        assert compared(launch, usual, [m, o], by).differing[0].first == ((5, 6) if by == outcomes[2:3] else (1, 5))


@pytest.mark.parametrize(
    ("before", "is_first"),
    [("st.shared.u32 [%t], 1;", False), ("st.local.u32 [%m], 1;", False), ("st.u32 [%m], 1;", True), ("red.global.add.u32 [%m+8], 1;", True), ("ld.global.u32 %b, [%m];", False)],
)  # fmt: skip
def test_an_array_that_differs_is_told_at_the_first_write_to_global_memory(before, is_first, of_a_race):
    """A store without a state space may write there, too."""
    ptx = two_warps(f"setp.ne.u32 %p, %t, %t;\n@%p {before}\nst.global.u32 [%o], 1;", "")
    launch = launched(ptx, None)[0].launch
    (found,) = dataclasses.replace(of_a_race, launch=launch, differing=(apart(),), appeared=()).findings
    lines = {text: n for n, text in enumerate(ptx.split("\n"), 1)}
    assert found.line == lines[f"@%p {before}" if is_first else "st.global.u32 [%o], 1; ret;"]


PUBLISHED = """mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0;
@%p1 bra TAKE;
{data}
{fence}
{flag}
ret;
TAKE: ld.acquire.gpu.global.u32 %r2, [%d2+128];
setp.eq.u32 %p1, %r2, 0;
@%p1 bra TAKE;
ld.relaxed.gpu.global.u32 %r3, [%d2];
st.global.u32 [%d1], %r3;"""


@pytest.mark.parametrize(
    "flag",
    [
        "atom.relaxed.gpu.global.exch.b32 %r4, [%d2+128], 1;",
        "red.relaxed.gpu.global.add.u32 [%d2+128], 1;",
        "st.relaxed.gpu.global.u32 [%d2+128], 1;",
    ],
)
@pytest.mark.parametrize("data", ["st.relaxed.gpu.global.u32 [%d2], 7;", "st.global.u32 [%d2], 7;"])
@pytest.mark.parametrize("fence", ["fence.acq_rel.gpu;", ""])
def test_a_fence_brings_the_data_before_an_atomic_operation_on_the_flag(fence, data, flag):
    """With the fence no schedule shows the flag without the data; without it some do."""
    text = f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 m, .param .u64 o) {{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
ld.param.u64 %d2, [m]; ld.param.u64 %d1, [o];
{PUBLISHED.format(fence=fence, data=data, flag=flag)}
ret;
}}"""
    found = set()
    for schedule in ("latest", *range(9)):
        gpu = smemsim.Gpu("sm_90a")
        arrays = gpu.zeros(64, np.uint32), gpu.zeros(1, np.uint32)
        gpu.launch(text, grid=2, block=1, args=[*arrays], schedule=schedule, progress=False, sanitize=False, limit=20_000)
        found.add(int(arrays[1].numpy()[0]))
    assert found == ({7} if fence else {0, 7})
