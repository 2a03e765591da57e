"""CTAs that do the same are executed and checked as one, and one by one with `SMEMSIM_COHORTS=off`: the same bytes and
the same findings.
"""

import random
import re

import numpy as np
import pytest

from smemsim import Gpu
from smemsim.campaign.spaces import space
from smemsim.campaign.spaces.cohorts import Program, difference, draw, mutated, outcome, recorded_kernels, simpler
from smemsim.evidence.launches import load_launch_file
from smemsim.run.sanitizer import shared_loops

STORE, LOAD = "st.shared.b32 [%own+0], %acc;", "ld.shared.b32 %x, [%near+0]; add.u32 %acc, %acc, %x;"
MEETS = "setp.eq.u32 %q, %cta, 1; @%q bra D1; bar.sync 0; D1:"  # all CTAs but one

# A bulk copy into a CTA's stage 0, and a wait of all threads for it.
COPY = """@!%first bra A; mbarrier.arrive.expect_tx.shared.b64 _, [%bars+0], 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm+0], [%in+0], 1024, [%bars+0]; A:"""
WAIT = "W{0}: mbarrier.try_wait.parity.shared.b64 %p, [%bars+0], 0; @!%p bra W{0};"
TELL = "@%first st.release.gpu.global.u32 [%flags+{0}], 1;"
HEAR = "H{0}: ld.acquire.gpu.global.u32 %x, [%flags+{0}]; setp.ne.u32 %p, %x, 0; @!%p bra H{0};"
READ = "ld.shared.v4.b32 {%x, %y, %z, %w}, [%wide+0]; add.u32 %acc, %acc, %x;"


def only(condition, label, steps):
    """Steps of those for whom a comparison does not hold."""
    return f"setp.{condition}; @%q bra {label}; {steps} {label}:"


def differs(program):
    return difference(*(program.outcome(cohorts=cohorts) for cohorts in (True, False)))


@pytest.mark.parametrize("part", range(4))
def test_generated_programs_leave_the_same_bytes_and_findings(part):
    said = set()
    for number in range(8):
        program = draw(random.Random(f"ctas {part} {number}"))
        found = program.outcome(cohorts=True)
        assert difference(found, program.outcome(cohorts=False)) == "", program.text()
        said.add(isinstance(found, str) or bool(found[2]))
    assert said == {True, False}  # some have findings, some have none


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_cta_that_leaves_out_a_barrier_is_found_by_both(is_compiled):
    program = Program((STORE, MEETS, LOAD), 4, 1, 1, is_compiled=is_compiled)
    found = program.outcome(cohorts=True)
    assert [code for code, *_ in found[2]] == ["X008"]
    assert "CTA 1" in found[2][0][3]
    assert differs(program) == ""


def test_a_fault_in_what_is_alike_is_a_difference(monkeypatch):
    """CTAs that are taken for alike though one has left out a barrier."""
    monkeypatch.setattr("smemsim.run.sanitizer.folding.Folding.are_in_step", lambda self, epochs: True)
    program = Program((STORE, MEETS, LOAD), 4, 1, 1, is_compiled=True)
    assert "one by one" in differs(program)
    assert any(differs(small) for small in simpler(Program((STORE, MEETS, LOAD, "bar.sync 0;"), 4, 1, 1, is_compiled=True)))


VOUCHES = only("ne.u32 %q, %cta, 0", "B", WAIT.format(1) + TELL.format(16))
TRUSTS = only("eq.u32 %q, %cta, 0", "C", HEAR.format(16))


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_flag_behind_the_wait_of_another_cta_says_nothing_of_own_copies(is_compiled):
    """Operations of CTAs have the same numbers but for the CTA's: who hears that one is over knows nothing of the
    other.
    """
    wrong = Program((COPY, VOUCHES, TRUSTS, READ, WAIT.format(2)), 3, 1, 1, is_compiled=is_compiled)
    found = wrong.outcome(cohorts=True)
    assert [code for code, *_ in found[2]] == ["X004"]
    assert "CTA 1" in found[2][0][3]
    assert differs(wrong) == ""
    right = Program((COPY, VOUCHES, TRUSTS, WAIT.format(2), READ), 3, 1, 1, is_compiled=is_compiled)
    assert right.outcome(cohorts=True)[2] == ()
    assert differs(right) == ""


SHEDS = "st.global.v4.b32 [%mine+0], {%acc, %acc, %acc, %acc};"
TILE = """@!%first bra T; mbarrier.arrive.expect_tx.shared.b64 _, [%bars+8], 1024; mad.lo.u32 %x, %cta, 4096, 0; mov.b64 %n, map;
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%sm+2048], [%n, {%x}], [%bars+8]; T:"""
TILE_COMES = "V: mbarrier.try_wait.parity.shared.b64 %p, [%bars+8], 0; @!%p bra V;"


@pytest.mark.parametrize(
    ("steps", "codes"),
    [
        ((SHEDS, "fence.proxy.async; bar.sync 0;", TILE, TILE_COMES), []),
        ((SHEDS, "bar.sync 0;", TILE, TILE_COMES), ["X003"]),
        ((TILE, TILE_COMES, SHEDS), []),
        ((TILE, "bar.sync 0;", SHEDS, TILE_COMES), ["X008"]),
        ((COPY, WAIT.format(1), TILE), ["X005"]),  # a CTA ends while its copy still writes
    ],
)
def test_loads_of_ctas_are_checked_however_these_run(steps, codes):
    program = Program(steps, 3, 1, 1)
    assert [code for code, *_ in program.outcome(cohorts=True)[2]] == codes
    assert differs(program) == ""


FIRST_TILE = TILE.replace("mad.lo.u32 %x, %cta, 4096, 0", "mov.u32 %x, 0").replace("%sm+2048", "%smo+{0}")


@pytest.mark.parametrize(("at", "codes"), [(0, ["X003", "X008"]), (4096, ["A107", "X003"])], ids=["", "CTA 1 traps"])
def test_loads_to_other_places_are_issued_in_the_order_of_the_ctas(at, codes):
    """CTA 1 loads to another place than CTAs 0 and 2: it is named first, and a trap ends the kernel before CTA 2 loads."""
    program = Program((SHEDS, "bar.sync 0;", FIRST_TILE.replace("{0}", str(at)), TILE_COMES), 3, 1, 1, other=1)
    found = [f for f in program.outcome(cohorts=True)[2] if f[0] != "X006"]
    assert sorted(code for code, *_ in found) == codes
    assert all("read: warp 0 of CTA 1 " in message for code, _, _, message, *_ in found if code == "X008")
    assert differs(program) == ""


# Changes of recorded kernels of several CTAs, and what is found then.
CHANGED = {
    "the second of two stores of each CTA traps": ("triton_persistent", "shl.b32 \t%r111, %r110, 14;", "shl.b32 \t%r111, %r110, 15;", {"A107"}),
    "a ring of two stages never begins again": ("triton_persistent_specialized", "selp.b32 \t%r535, 0, %r307, %p56;", "", {"X006"}),
    "a grid of more tiles than rows": ("triton_persistent", "shr.s32 \t%r42, %r41, 7;", "shr.s32 \t%r42, %r41, 6;", None),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_kernel_leaves_the_same_bytes_and_findings(name):
    folder, old, new, codes = CHANGED[name]
    (path,) = (path for path in recorded_kernels() if path.parent.name == folder)
    launch = load_launch_file(path.parent)
    kernel = path.with_name("kernel.ptx").read_text()
    assert kernel.count(old) == 1
    gpu, found = Gpu("sm_100a"), []
    for cohorts in (True, False):
        arrays, args = launch.placed(gpu)
        found.append(outcome(gpu, kernel.replace(old, new), launch.config(args), list(arrays.values()), cohorts=cohorts))
    assert difference(*found) == ""
    assert codes is None or {code for code, *_ in found[0][2]} == codes


STORED = "st.shared.b32 [%own+0], %acc; fence.proxy.async.shared::cta; bar.sync 0;"
SENT = "@!%first bra S; cp.async.bulk.global.shared::cta.bulk_group [%out+0], [%sm+0], 512; cp.async.bulk.commit_group; S: bar.sync 0;"
TIMES = """wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %desc, %desc, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;"""
MULTIPLIES = "@!%leader bra M; tcgen05.mma.cta_group::1.kind::f16 [%tm+0], %desc, %desc, %idesc, 0; M:"
COMMITS = "@!%leader bra C; tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bars+0]; C:"
LOADS = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%x}, [%tl+0]; tcgen05.wait::ld.sync.aligned; add.u32 %acc, %acc, %x; tcgen05.fence::before_thread_sync; bar.sync 0;"
FILLS = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%tl+0], {%acc}; {0} tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
# What CTAs do alike until one (CTA 1) leaves something out: the steps before, what it leaves out, the steps after, and
# what is found then.
PARTED = {
    "a wait for a group of copies": (0, (STORED, SENT), "cp.async.bulk.wait_group.read 0;", ("bar.sync 0;", STORE), "X005"),
    "a wait for a group of products": (0, (STORED, TIMES), "wgmma.wait_group.sync.aligned 0;", ("bar.sync 0;", STORE), "X005"),
    "a wait before registers": (0, (STORED, TIMES), "wgmma.wait_group.sync.aligned 0;", ("mov.b32 %x, %f0; add.u32 %acc, %acc, %x;",), "X007"),
    "a wait before registers that one CTA has named": (0, (STORED, TIMES, "wgmma.wait_group.sync.aligned 0;", only("eq.u32 %q, %cta, 1", "N", "mov.b32 %x, %f0;"), TIMES), "wgmma.wait_group.sync.aligned 0;", ("mov.b32 %y, %f1; add.u32 %acc, %acc, %y;",), "X007"),
    "a wait for the tensor core": (1, (STORED, MULTIPLIES, COMMITS), WAIT.format(3), (LOADS, WAIT.format(4)), "X012"),
    "a wait for the tensor core before its columns are written": (1, (STORED, MULTIPLIES, COMMITS), WAIT.format(3), (FILLS.replace("{0}", "tcgen05.wait::st.sync.aligned;"), WAIT.format(4)), "X012"),
}  # fmt: skip


@pytest.mark.parametrize("what", PARTED)
def test_what_one_cta_leaves_out_after_all_did_the_same_is_found_in_it_alone(what):
    """Operations, commit groups, registers and tensor memory are kept once for all CTAs, until one parts."""
    pair, before, left_out, after, code = PARTED[what]
    wrong = Program((*before, only("eq.u32 %q, %cta, 1", "P", left_out), *after), 3, 1, 1, pair=pair)
    _, _, findings, remarks = wrong.outcome(cohorts=True)
    assert code in {found for found, *_ in (*findings, *remarks)}
    assert code == "X007" or ("CTA 1" in findings[0][3], findings[0][5]) == (True, (1,))
    assert differs(wrong) == ""
    right = Program((*before, only("eq.u32 %q, %cta, 9", "P", left_out), *after), 3, 1, 1, pair=pair)
    _, _, findings, remarks = right.outcome(cohorts=True)
    assert (findings, code in {found for found, *_ in remarks}) == ((), False)
    assert differs(right) == ""


USES = "mov.b32 %x, %f0; add.u32 %acc, %acc, %x;"
HANGS = "W9: mbarrier.try_wait.parity.shared.b64 %p, [%bars+0], 1; @!%p bra W9;"
ENDS = {
    "uses D": (f"bar.sync 0; {USES}", ["X005"]), "hangs": (f"{USES} {HANGS}", ["X006"]), "traps": ("trap;", ["X013"]),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_a_copy_over_operands_in_flight_is_one_finding_however_the_ctas_run(end):
    """That no thread waits for the copy before its CTA ends is not told beside it. The copy spoils some columns of D:
    if the kernel ends before they are stored, nothing is reported.
    """
    steps, codes = ENDS[end]
    ahead = TELL.format(16), only("ne.u32 %q, %cta, 0", "H", HEAR.format(16))
    product = TIMES.replace("%desc, %desc", "%da, %desc").replace("wgmma.mma", "add.u64 %da, %desc, 128; wgmma.mma")
    first = COPY.replace("%bars+0", "%bars+8"), WAIT.format(1).replace("%bars+0", "%bars+8")
    over = TILE.replace("%bars+8", "%bars+0")
    wrong = Program((*ahead, *first, product, over, steps), 2, 1, 1)
    on, off = (wrong.outcome(cohorts=cohorts) for cohorts in (True, False))
    assert [code for code, *_ in on[2]] == codes
    assert ("X005" in codes) == any("is overwritten" in message for _, _, _, message, *_ in on[2])
    assert difference(on, off) == ""


@pytest.mark.parametrize(("scope", "told"), [("", ["X008"]), (".release.cluster", [])])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_pair_multiplies_what_the_peer_stored_before_an_arrival(scope, told, is_compiled):
    """Without a scope that is a remark: by the PTX ISA the arrival does not release to the CTA that multiplies."""
    arrives = only("ne.u32 %q, %rank, 1", "T", f"mbarrier.arrive{scope}.shared::cluster.b64 _, [%peerbars+24];")
    waits = only("ne.u32 %q, %rank, 0", "U", "V: mbarrier.try_wait.parity.shared.b64 %p, [%bars+24], 0; @!%p bra V;")
    commits = COMMITS.replace("group::1", "group::2").replace("b64 [%bars+0]", "multicast::cluster.b64 [%bars+0], 3")
    steps = STORED, arrives, waits, MULTIPLIES.replace("group::1", "group::2"), commits, WAIT.format(3), LOADS
    program = Program(steps, 4, 2, 1, is_compiled=is_compiled, pair=2)
    on, off = (program.outcome(cohorts=cohorts) for cohorts in (True, False))
    assert (on[2], [code for code, *_ in on[3] if code == "X008"]) == ((), told)
    assert difference(on, off) == ""


def test_a_cta_waits_for_its_own_product_after_a_finding_in_all():
    """The stores before the product have no proxy fence (X003 in all CTAs); then CTA 1 does not wait before it reads D."""
    wait = only("eq.u32 %q, %cta, 1", "P", "wgmma.wait_group.sync.aligned 0;")
    wrong = Program(("st.shared.b32 [%own+0], %acc; bar.sync 0;", TIMES, wait, "mov.b32 %x, %f0; add.u32 %acc, %acc, %x;"), 3, 1, 1)
    _, _, findings, remarks = wrong.outcome(cohorts=True)
    assert {"X003", "X007"} <= {code for code, *_ in (*findings, *remarks)}
    assert differs(wrong) == ""


LOOPS = ("read", "write", "copy", "operation_reads", "operations_read", "operation_writes", "operations_write")


def test_the_compiled_checks_pass_only_what_the_rule_passes(monkeypatch):
    """Compiled loops note accesses to shared memory in which nothing is suspicious; the rule in numpy decides about the
    others. Without the loops it decides about all.
    """
    programs = [draw(random.Random(f"loops {number}")) for number in range(8)]
    found = [program.outcome(cohorts=False) for program in programs]
    for name in LOOPS:
        monkeypatch.setattr(shared_loops, name, lambda *given: 0)
    assert [difference(known, program.outcome(cohorts=False)) for known, program in zip(found, programs, strict=True)] == [""] * len(
        programs
    )
    assert {isinstance(known, str) or bool(known[2]) for known in found} == {True, False}


def test_the_fix_names_a_wait_of_all_ctas_that_leaves_a_group_pending():
    program = Program((STORED, TIMES, "wgmma.wait_group.sync.aligned 1; bar.sync 0;", STORE), 3, 1, 1)
    (found,) = program.outcome(cohorts=True)[2]
    assert (found[0], "wgmma.wait_group.sync.aligned 0 instead of 1" in found[4], found[5]) == ("X005", True, (0, 1, 2))
    assert re.search(r"wgmma\.wait_group\.sync\.aligned 1 of line \d+ leaves it pending", found[3])
    assert differs(program) == ""


COPIED = "cp.async.ca.shared.global [%own+0], [%in+0], 4;"
OVER = "wgmma.wait_group.sync.aligned 0;"
OWNED = {
    "cp.async": (f"{COPIED} cp.async.commit_group; cp.async.wait_group 0;", COPIED, "in each thread that issued the operation"),
    "bulk": (f"{SENT} @%first cp.async.bulk.wait_group.read 0; bar.sync 0;", SENT.replace("cp.async.bulk.commit_group;", "").replace("S", "T"), "in lane 0 of warp 0 of CTA 0"),
}  # fmt: skip


@pytest.mark.parametrize("group", OWNED)
@pytest.mark.parametrize("parts", ["", MEETS])
def test_after_a_wait_of_all_ctas_the_fix_says_whose_groups_they_are(group, parts):
    """Threads have waited for a group before: then a wait is not missing everywhere, but in the threads that issued the
    operation.
    """
    waited, left, whose = OWNED[group]
    (found,) = Program((STORED, TIMES, OVER, waited, left, parts, STORE), 3, 1, 1).outcome(cohorts=True)[2]
    assert (found[0], whose in found[4]) == ("X005", True)
    assert differs(Program((STORED, TIMES, OVER, waited, left, parts, STORE), 3, 1, 1)) == ""
    (found,) = Program((STORED, TIMES, OVER, left, parts, STORE), 3, 1, 1).outcome(cohorts=True)[2]
    assert (found[0], "belong to threads" in found[4]) == ("X005", False)


def test_a_cta_hears_by_way_of_another_one_that_its_own_copy_is_over():
    """Warp 0 of CTA 0 waits and tells CTA 1, which tells the other warps of CTA 0: these may read."""
    waits = only("ne.u32 %q, %cta, 0", "B", only("ge.u32 %q, %t, 32", "C", WAIT.format(1) + "bar.warp.sync -1;" + TELL.format(16)))
    answers = only("ne.u32 %q, %cta, 1", "D", HEAR.format(16) + TELL.format(20))
    hears = only("ne.u32 %q, %cta, 0", "E", only("lt.u32 %q, %t, 32", "F", HEAR.format(20)))
    reads = only("ne.u32 %q, %cta, 0", "G", READ)
    right = Program((COPY, waits, answers, hears, reads, WAIT.format(2)), 3, 1, 1)
    assert right.outcome(cohorts=True)[2] == ()
    assert differs(right) == ""
    wrong = Program((COPY, waits, answers, reads, WAIT.format(2)), 3, 1, 1)
    assert [code for code, *_ in wrong.outcome(cohorts=True)[2]] == ["X004"]
    assert differs(wrong) == ""


def test_columns_of_one_cta_for_what_others_may_hear_are_a_difference(monkeypatch):
    """The fault: warps have columns for operations of their own CTA alone, though flags say of others' that they are
    over.
    """
    monkeypatch.setattr("smemsim.run.lower.program.Program.needs_others", False)
    # a program that no other test has linked
    wrong = Program((COPY, VOUCHES, TRUSTS, READ, WAIT.format("fault")), 3, 1, 1)
    assert "one by one: [('X004'" in differs(wrong)


def test_the_switch_leaves_no_two_ctas_together(monkeypatch):
    made = []

    def noted(name):
        module, _, owner = name.rpartition(".")
        of = getattr(__import__(module, fromlist=[owner]), owner)
        before = of.is_possible
        monkeypatch.setattr(of, "is_possible", staticmethod(lambda x: made.append((name, before(x))) or made[-1][1]))

    for name in ("smemsim.run.sanitizer.folding.Folding", "smemsim.run.sanitizer.first.SanitizerOfFirst"):
        noted(name)
    program = Program((STORE, "bar.sync 0;", LOAD), 4, 1, 1)
    program.outcome(cohorts=True)
    assert (True in {possible for _, possible in made}, made.clear()) == (True, None)
    program.outcome(cohorts=False)
    assert made
    assert not any(possible for _, possible in made)


def test_the_environment_says_which(monkeypatch):
    for value, wanted in (("off", False), ("on", True), ("", True)):
        monkeypatch.setenv("SMEMSIM_COHORTS", value)
        gpu = Gpu("sm_90a")
        run = gpu.launch(".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }", grid=2, block=32, progress=False)
        assert run.launch.has_cohorts is wanted


def test_loads_that_the_first_cta_leaves_in_flight_are_found_after_a_remark_in_all():
    """A recorded GEMM loads over what threads have read without a proxy fence (X003 in all CTAs). CTA 0 leaves its loop
    after one step, with loads in flight.
    """
    (path,) = (path for path in recorded_kernels() if path.parent.name == "reference_mk_32b_none")
    kernel, again = path.with_name("kernel.ptx").read_text(), "setp.lt.s32 \t%p43, %r238, %r4;"
    assert kernel.count(again) == 1
    leaves = f"{again} {{ .reg .pred %first; .reg .b32 %cta; mov.u32 %cta, %ctaid.x; setp.eq.u32 %first, %cta, 0; @%first setp.ne.u32 %p43, %cta, %cta; }}"
    found = []
    for cohorts in (True, False):
        launch = load_launch_file(path.parent)
        gpu = Gpu("sm_90a")
        arrays, args = launch.placed(gpu)
        found.append(outcome(gpu, kernel.replace(again, leaves), launch.config(args), list(arrays.values()), cohorts=cohorts))
    assert (
        sorted((code, kernel.split("\n")[line - 1].split()[0].split(".")[0]) for code, line, *_ in found[0][2] if code == "X005")
        == [("X005", "cp")] * 2
    )
    assert difference(*found) == ""


def test_a_mutated_kernel_differs_from_its_original_in_a_line():
    kernel = recorded_kernels()[0].with_name("kernel.ptx").read_text()
    assert recorded_kernels("nowhere") == ()
    for seed in range(10):
        other = mutated(kernel, random.Random(seed))
        pairs = list(zip(kernel.split("\n"), other.split("\n"), strict=True))
        assert 1 <= sum(a != b for a, b in pairs) <= 2 or other == kernel
    others = [mutated(" add.u32 %r1, %r2, 512;", random.Random(seed)) for seed in range(400)]
    changed = {int(n) for other in others for n in re.findall(r"^ add.u32 %r1, %r2, (\d+);$", other)}
    # a number is another one in one of its lowest eight bits
    assert changed == {512} | {512 ^ 1 << bit for bit in range(8)}


@pytest.mark.parametrize("number", [0, 1])
def test_a_difference_of_cohorts_is_told_of_generated_and_of_recorded_kernels(number, monkeypatch):
    """Each case runs with cohorts and without: here the two leave other bytes."""
    asked = []

    def fake(gpu, ptx, config, arrays, *, cohorts, tiers=""):
        asked.append(cohorts)
        return ((bytes([cohorts]),), 0, (), ())

    monkeypatch.setattr("smemsim.campaign.spaces.cohorts.outcome", fake)
    case = space("cohorts").case(5, 0, number)
    assert (case.wrong, case.of.partition(" ")[0]) == ("other bytes in an array", "wrong:")
    assert asked[:2] == [True, False]


@pytest.mark.parametrize("number", [0, 1])
def test_a_case_of_cohorts_says_whether_its_kernel_has_findings(number, monkeypatch):
    """Remarks are none."""
    code = (("X002", 7, "wrong", "", "", 1),)
    for found, said in (
        (((b"",), 0, code, ()), "with findings"),
        (((b"",), 0, (), code), "silent"),
        (((b"",), 0, (), ()), "silent"),
        ("InputError: no", "refused"),
    ):
        monkeypatch.setattr("smemsim.campaign.spaces.cohorts.outcome", lambda *args, found=found, **more: found)
        assert space("cohorts").case(5, 0, number).of.rpartition(", ")[2] == said


def test_every_recorded_kernel_is_read():
    """None is refused for what its launch file expects of outputs."""
    assert len(recorded_kernels()) > 100
    for path in recorded_kernels():
        assert load_launch_file(path.parent).about["entry"]


def test_the_space_is_one_of_the_campaigns():
    found = space("cohorts").run(0, 1)
    assert found.cases == space("cohorts").chunk_cases
    assert not found.troubles, found.troubles
    assert np.isin(list(found.classes.values()), range(1, 9)).all()
