"""Changes that may fix a finding: which instructions each one changes, and whether its sentence says so."""

import re

import pytest

from smemsim.core.finding import Half, Touched, at_instruction
from smemsim.core.ptx import read_module
from smemsim.diagnosis.trials.candidates import candidates_of

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n.shared .align 8 .b64 bar[8];\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .b16 %h<3>; .reg .f32 %f<9>;\n"
FIRST = HEAD.count("\n") + 1  # the line of the first instruction


def code(*lines):
    """A module with an instruction on each line, and its instructions."""
    module = read_module(HEAD + "\n".join(lines) + "\nret;\n}")
    return module, module.functions["k"].body


def operand(x):
    return x.name if hasattr(x, "name") else str(x.value) if hasattr(x, "value") else "[]"


def shown(i):
    return f"{'@' + i.guard.name + ' ' if i.guard is not None else ''}{i.name} {', '.join(map(operand, i.operands))}".strip()


def changes(found, module, mbarriers=None):
    """[(sentence with places for lines, {number of the changed instruction: what it becomes})]"""
    told = []
    for one in candidates_of(found, module, mbarriers or {}):
        # whether the rule proposes nothing else, and whether its text names other changes, too
        assert one.is_all == one.text.startswith(("expect ", "fence.proxy", "wgmma.fence", "accumulators ", "wgmma.wait"))
        assert one.is_beside == (found.code in ("X006", "X008", "X010", "X011") and not one.is_other)
        becomes = {edit.of.line - FIRST: ["*" if i is edit.of else shown(i) for i in edit.becomes] for edit in one.edits}
        named = re.findall(r"lines? (\d+(?:, \d+)*(?: and \d+)?)", one.text)
        lines = {int(n) - FIRST for some in named for n in re.findall(r"\d+", some)}
        assert lines == set(becomes) or "all ordinary stores" in one.text or "where n counts" in one.text, one.text
        told.append((re.sub(r" (?:in|before|after) lines? \d+(?:, \d+)*(?: and \d+)?", lambda m: " " + m[0].split()[0], one.text), becomes))
    return told


MASKS = (
    "shfl.sync.idx.b32 %r1, %r2, 0, 31, 3;",
    "vote.sync.any.pred %p1, %p2, 3;",
    "bar.warp.sync 3;",
    "shfl.sync.up.b32 %r1, %r2, 1, 0, 7;",
)


@pytest.mark.parametrize("lanes", [15, 0xFFFFFFFF, None])
@pytest.mark.parametrize("at", [0, 3])
def test_a_member_mask_is_that_of_the_lanes_or_of_all(lanes, at):
    """In the instruction alone, and in all that have the same mask."""
    module, body = code(*MASKS)
    found = at_instruction("X011", body[at], "", numbers={} if lanes is None else {"lanes": lanes})
    masks = list(dict.fromkeys(n for n in (lanes, 0xFFFFFFFF) if n is not None))
    groups = [[at], [0, 1, 2]] if at == 0 else [[at]]
    wanted = [(f"the member mask {mask:#x} in", some) for some in groups for mask in masks]
    assert [(text, [*becomes]) for text, becomes in changes(found, module)] == wanted
    for text, becomes in changes(found, module):
        for n, (new,) in becomes.items():
            assert new.split(" ")[0] == body[n].name
            assert int(new.rpartition(" ")[2]) == int(text.split(" ")[3], 16)


BARRIERS = (
    "bar.sync 1, 64;",
    "barrier.sync 1, 64;",
    "bar.sync 2, 32;",
    "bar.sync 0;",
    "bar.arrive 1, 96;",
    "bar.sync %r1, 64;",
    "bar.sync 5;",
    "bar.sync 6;",
)


@pytest.mark.parametrize(
    ("at", "came", "wanted"),
    [
        (0, 128, [("a count of 128 threads in", [0]), ("barrier 0 instead of 1 in", [0]), ("barrier 2 instead of 1 in", [0]), ("barrier 5 instead of 1 in", [0]),
                  ("a count of 128 threads in", [0, 1, 4])]),
        (2, 96, [("a count of 96 threads in", [2]), ("barrier 0 instead of 2 in", [2]), ("barrier 1 instead of 2 in", [2]), ("barrier 5 instead of 2 in", [2])]),
        (3, 96, [("barrier 1 instead of 0 in", [3]), ("barrier 2 instead of 0 in", [3]), ("barrier 5 instead of 0 in", [3])]),
        (5, 96, [("a count of 96 threads in", [5])]), (2, 0, [("barrier 0 instead of 2 in", [2]), ("barrier 1 instead of 2 in", [2]), ("barrier 5 instead of 2 in", [2])]),
        (7, None, [("barrier 0 instead of 6 in", [7]), ("barrier 1 instead of 6 in", [7]), ("barrier 2 instead of 6 in", [7])]),
    ],
)  # fmt: skip
def test_a_barrier_gets_the_threads_that_came_or_the_number_of_another_one(at, came, wanted):
    module, body = code(*BARRIERS)
    told = changes(at_instruction("X010", body[at], "", numbers={} if came is None else {"came": came}), module)
    assert [(text, [*becomes]) for text, becomes in told] == wanted
    for text, becomes in told:
        for n, (new,) in becomes.items():
            number, *count = new.partition(" ")[2].split(", ")
            now, *of = shown(body[n]).partition(" ")[2].split(", ")
            assert (number, count) == ((now, [str(came)]) if "count" in text else (text.split(" ")[1], of))


INITS = (
    "mbarrier.init.shared.b64 [bar], 4;",
    "mbarrier.init.shared.b64 [bar+8], 4;",
    "mbarrier.init.shared.b64 [bar+16], 1;",
    "bar.sync 0;",
)


@pytest.mark.parametrize(("own", "groups"), [(0, [[0], [0, 1]]), (2, [[2]]), (3, []), (None, [])])
def test_an_init_gets_the_counts_that_arrived(own, groups):
    """Alone, and with all that have the same count."""
    module, body = code(*INITS)
    numbers = {"counts": (1, 2)} | ({} if own is None else {"init": body[own].line})
    told = changes(at_instruction("X006", body[3], "", numbers=numbers), module)
    assert [(text, becomes) for text, becomes in told if "init" in text] == [
        (f"mbarrier.init with {count} arrival{'s' * (count > 1)} in", {n: [f"mbarrier.init.shared.b64 [], {count}"] for n in some})
        for some in groups for count in (1, 2)
    ]  # fmt: skip
    without = at_instruction("X006", body[3], "", numbers=numbers | {"counts": 2})
    assert not [text for text, _ in changes(without, module) if "init" in text]


FENCED = ("st.shared.u32 [bar], 1;", "st.local.u32 [%r1], 1;", "st.global.u32 [%d1], 1;", "mbarrier.arrive.shared.b64 _, [bar];", "bar.sync 0;",
          "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;")  # fmt: skip


@pytest.mark.parametrize(
    ("given", "fence"),
    [({"touched": (Touched(0, 0x400, 0x500),)}, "fence.proxy.async.shared::cta"), ({"arrays": (1,)}, "fence.proxy.async")],
)
def test_a_proxy_fence_comes_after_the_store_or_before_what_orders_it(given, fence):
    module, body = code(*FENCED)
    wanted = [
        (f"{fence} after", {0: ["*", fence]}), (f"{fence} before", {3: [fence, "*"]}), (f"{fence} after all ordinary stores", {0: ["*", fence], 2: ["*", fence]}),
    ]  # fmt: skip
    assert changes(at_instruction("X003", body[5], "", other=body[0], **given), module) == wanted
    last = at_instruction("X003", body[5], "", other=body[4], **given)
    assert [text for text, _ in changes(last, module)] == [f"{fence} after", f"{fence} after all ordinary stores"]
    for more in ({"numbers": {"map": 1}}, {"other": None}, {"touched": (), "arrays": ()}):  # another fence, no store, no bytes
        assert not changes(at_instruction("X003", body[5], "", **{"other": body[0], **given, **more}), module)
    one, body = code("st.shared.u32 [bar], 1;", "nanosleep.u32 1;")
    assert changes(at_instruction("X003", body[1], "", other=body[0], **given), one) == [(f"{fence} after", {0: ["*", fence]})]


def test_a_proxy_fence_of_copies_comes_after_their_waits():
    fence = "fence.proxy.async.shared::cta"
    module, body = code("cp.async.ca.shared.global [%r1], [%d1], 4;", "cp.async.wait_group 0;", "cp.async.wait_all;", "bar.sync 0;")
    f = at_instruction("X003", body[3], "", other=body[0], touched=(Touched(0, 0x400, 0x500),))
    assert changes(f, module) == [(f"{fence} before", {3: [fence, "*"]}), (f"{fence} after", {1: ["*", fence], 2: ["*", fence]})]
    module, body = code("cp.async.ca.shared.global [%r1], [%d1], 4;", "nanosleep.u32 1;")
    assert not changes(at_instruction("X003", body[1], "", other=body[0], touched=(Touched(0, 0x400, 0x500),)), module)


def test_a_fence_of_wgmma_comes_before_the_product():
    module, body = code("mov.u32 %r1, 1;", "mov.u32 %r2, 1;")
    fence = "wgmma.fence.sync.aligned"
    assert changes(at_instruction("X014", body[1], ""), module) == [(f"{fence} before", {1: [fence, "*"]})]


@pytest.mark.parametrize("kind", ["ld", "st", "mma"])
@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("by", ["half", "other"])
def test_accesses_of_tensor_memory_get_waits_and_fences_on_both_sides(kind, arrives, by):
    """A product needs no wait of its own: its mbarrier has one."""
    first = {"ld": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];", "st": "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};",
             "mma": "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1;"}[kind]  # fmt: skip
    module, body = code(
        first,
        "mbarrier.arrive.shared.b64 _, [bar];" if arrives else "nanosleep.u32 1;",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];",
    )
    given = {"halves": (Half("read", "", body[2]), Half("write", "", body[0]))} if by == "half" else {"other": body[0]}
    wait, early, late = f"tcgen05.wait::{kind}.sync.aligned", "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"
    after = (f"{late} before", {2: [late, "*"]})
    wanted = [after]
    if kind != "mma":
        wanted = [(f"{wait} after", {0: ["*", wait]}), after]
        for text in ((early,), (wait,), (wait, early)) if arrives else ():
            wanted.append((f"{' and '.join(text)} before", {1: [*text, "*"]}))
        wanted.append((f"{wait} and {early} after, {late} before", {0: ["*", wait, early], 2: [late, "*"]}))
        wanted.append((f"{early} after, {late} before", {0: ["*", early], 2: [late, "*"]}))
    assert changes(at_instruction("X012", body[2], "", **given), module) == wanted
    assert not changes(at_instruction("X012", body[2], "", other=body[1]), module)
    assert not changes(at_instruction("X012", body[2], ""), module)


EXPECT = "mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};"


@pytest.mark.parametrize(("arrive", "is_short"), [(64, True), (128, False), (256, False)])
def test_bytes_are_changed_in_the_lines_that_expect_them_and_in_all_alike(arrive, is_short):
    """Fewer bytes are right only if no copy is missing."""
    module, body = code(
        EXPECT.format(128),
        EXPECT.format(128),
        "mov.u32 %r1, 128;",
        EXPECT.format("%r1"),
        EXPECT.format(64),
        "mbarrier.init.shared.b64 [bar], 1;",
    )
    line = [i.line for i in body]
    numbers = {
        "expected": 128,
        "arrive": arrive,
        "was": 128,
        "expect": (((line[0], arrive),), ((line[0], 96), (line[4], 32)), ((line[5], 96),)),
    }
    told = changes(at_instruction("T210", body[0], "", numbers=numbers), module)

    def some(*pairs):
        return {n: [shown(body[n]).rpartition(" ")[0] + f" {size}"] for n, size in pairs}

    assert [becomes for _, becomes in told] == [some((0, arrive)), some((0, 96), (4, 32)), some((0, arrive), (1, arrive), (3, arrive))]
    found = candidates_of(at_instruction("T210", body[0], "", numbers=numbers), module, {})
    assert all(("if no copy is missing" in one.fix) == is_short for one in found)


MULTICASTS = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d1], 16, [%r2], %h1;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r1], [%d1], 16, [%r2], 1, %d3;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %h1;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 16, [%r2];",
    "mapa.shared::cluster.u32 %r3, %r4, %r5;",
    "mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;",
    "@%p1 bra END;",
    "END: bar.sync 0;",
)


@pytest.mark.parametrize(("mask", "every", "first"), [(3, 15, None), (3, 3, 2), (None, 15, 1), (None, None, None)])
def test_masks_of_multicasts_and_ranks_are_changed(mask, every, first):
    """The multicast that the finding names is the first."""
    module, body = code(*MULTICASTS)
    numbers = {name: n for name, n in (("mask", mask), ("all_ctas", every)) if n is not None} | {"elsewhere": 2}
    numbers |= {} if first is None else {"mask_line": body[first].line}
    told = changes(at_instruction("X006", body[5], "", numbers=numbers), module)
    masks = list(dict.fromkeys(n for n in (mask, every) if n is not None))
    order = sorted((0, 1, 2), key=lambda n: n != first)
    said = [(text, becomes) for text, becomes in told if "as the mask" in text]
    assert [(text, [*becomes]) for text, becomes in said] == [(f"{n:#x} as the mask of every CTA in", [at]) for at in order for n in masks]
    for text, becomes in said:
        ((at, (new,)),) = becomes.items()
        now = shown(body[at]).split(", ")
        now[-2 if at == 1 else -1] = str(int(text.split(" ")[0], 16))
        assert new == ", ".join(now)
    ranks = [becomes[4] for text, becomes in told if text.startswith("mapa")]
    name = "mapa.shared::cluster.u32"
    assert ranks == [
        ["mov.u32 %r3, tid.x", f"{name} %r3, %r4, %r3"], ["mov.u32 %r3, cluster_ctarank", f"{name} %r3, %r4, %r3"],
        ["mov.u32 %r3, cluster_ctarank", "xor.b32 %r3, %r3, 1", f"{name} %r3, %r4, %r3"], [f"{name} %r3, %r4, 0"], [f"{name} %r3, %r4, 1"],
    ]  # fmt: skip


SCOPED = (
    "st.relaxed.cta.global.u32 [%d1], 1;",
    "fence.acq_rel.cta;",
    "ld.relaxed.gpu.global.u32 %r1, [%d1];",
    "atom.relaxed.cta.global.add.u32 %r1, [%d1], 1;",
    "ld.acquire.cta.global.u32 %r1, [%d1];",
)


def test_scopes_and_orders_between_ctas_are_widened_nearest_first():
    module, body = code(*SCOPED)
    told = changes(at_instruction("X008", body[4], "", other=body[0], arrays=(1,)), module)

    def becomes(n, *pairs):
        text = shown(body[n])
        for old, new in pairs:
            text = text.replace(f".{old}", f".{new}")
        return {n: [text]}

    wide, order = ("cta", "gpu"), {"st": "release", "ld": "acquire", "atom": "acq_rel"}
    assert told == [
        *((".gpu instead of .cta in", becomes(n, wide)) for n in (4, 3, 1, 0)),
        *((f".{order[body[n].op]} instead of .relaxed in", becomes(n, ("relaxed", order[body[n].op]))) for n in (3, 2, 0)),
        (".gpu instead of .cta in", becomes(0, wide) | becomes(4, wide)),
    ]


@pytest.mark.parametrize("has_number", [True, False])
@pytest.mark.parametrize("parity", [0, 1, 3])
@pytest.mark.parametrize("is_early", [True, False])
def test_a_wait_gets_the_other_parity(has_number, parity, is_early):
    """If it waits for a phase that is past, or not begun. In a register the parity is turned for this wait alone."""
    given = str(parity) if has_number else "%r1"
    module, body = code("mov.u32 %r1, 1;", f"W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], {given};", "@!%p1 bra W;")
    told = changes(at_instruction("X006", body[1], "", numbers={"parity": is_early}), module)
    name, other = body[1].name, 1 - parity % 2
    if has_number:
        wanted = (f"parity {other} in", {1: [f"{name} %p1, [], {other}"]})
    else:
        wanted = ("the other parity (xor 1) in", {1: ["xor.b32 %r1, %r1, 1", "*", "xor.b32 %r1, %r1, 1"]})
    assert [one for one in told if "where n counts" not in one[0]] == [wanted] * is_early
    counted = [text for text, _ in told if "where n counts" in text]
    starts = [parity % 2] if has_number else [1]  # the register's only value
    counts = [("n" if n == 1 else f"(n / {n})") + " & 1" + " ^ 1" * start for n in (1, 2, 3, 4) for start in starts]
    assert counted == [f"parity {text} in, where n counts the earlier passes of this wait" for text in counts]


@pytest.mark.parametrize("apart", [16, 24])
def test_accumulators_move_apart_where_their_addresses_are_computed(apart):
    """A shift makes powers of two alone. First without the sums, which may be of other things."""
    shift = apart.bit_length() - 1
    module, body = code(
        f"add.u32 %r2, %r1, {apart};", f"shl.b32 %r3, %r2, {shift};", f"mad.lo.u32 %r4, %r3, {apart}, %r9;", f"mul.lo.u32 %r9, %r8, {apart};", "add.u32 %r9, %r9, 7;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r4], %d1, %d2, %r5, %p1;", f"add.u32 %r6, %r1, {apart};", f"mad.lo.u32 %r12, %r11, 2, {apart};",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%r6};",
    )  # fmt: skip
    for code_ in ("X012", "X017"):
        told = changes(at_instruction(code_, body[8], "", numbers={"apart": apart, "columns": 32}), module)
        others = {2: ["mad.lo.u32 %r4, %r3, 32, %r9"], 3: ["mul.lo.u32 %r9, %r8, 32"], 7: ["mad.lo.u32 %r12, %r11, 2, 32"]}
        others |= {1: ["shl.b32 %r3, %r2, 5"]} if apart == 16 else {}
        text = f"accumulators 32 columns apart instead of {apart} in"
        assert told == [(text, others), (text, others | {0: ["add.u32 %r2, %r1, 32"]})]
        for numbers in ({"apart": apart}, {"columns": 32}, {"apart": apart, "columns": "32"}, {"apart": 5, "columns": 32}):
            assert not changes(at_instruction(code_, body[8], "", numbers=numbers), module)


def test_other_findings_have_no_change():
    module, body = code("mov.u32 %r1, 1;", "bar.sync 0;")
    assert not changes(at_instruction("X001", body[1], "", numbers={"came": 5}), module)
    cluster, body = code("barrier.cluster.wait.aligned;", "bar.sync 0;", "bar.sync 1, 64;")
    assert not changes(at_instruction("X006", body[0], "", numbers={"came": 64}), cluster)


WAIT = "mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;"


@pytest.mark.parametrize(
    ("lines", "decides"),
    [
        ((f"W: {WAIT}", "@!%p1 bra W;"), True), ((WAIT, "@%p1 exit;"), True), ((WAIT, "@%p1 ret;"), True), ((WAIT, "nanosleep.u32 1;"), False),
        ((WAIT, "not.pred %p2, %p1;", "@%p2 bra END;"), True), ((WAIT, "setp.eq.u32 %p1, %r1, 0;", "@%p1 bra END;"), False),
        ((WAIT, "@%p3 setp.eq.u32 %p1, %r1, 0;", "@%p1 bra END;"), True), ((WAIT, "selp.u32 %r1, 1, 0, %p1;", "setp.eq.u32 %p2, %r1, 0;", "@%p2 bra END;"), True),
        ((WAIT, "selp.u32 %r1, 1, 0, %p1;", "mov.u32 %r1, 0;", "setp.eq.u32 %p2, %r1, 0;", "@%p2 bra END;"), False), ((WAIT, "@%p1 mov.u32 %r1, 0;"), False),
        ((WAIT, "bra FAR;", "BACK: @%p1 bra END;", "ret;", "FAR: bra BACK;"), True), ((WAIT, "ret;", "@%p1 bra END;"), False), ((WAIT, "trap;", "@%p1 bra END;"), False),
        ((WAIT, "bra FAR;", "@%p1 bra END;", "FAR: nanosleep.u32 1;"), False), (("L: setp.eq.u32 %p2, %r1, 1;", "@%p1 bra END;", WAIT, "@%p2 bra L;"), True),
        ((WAIT, "ts: .branchtargets ONE, TWO;", "brx.idx %r1, ts;", "ONE: nanosleep.u32 1;", "ret;", "TWO: @%p1 bra END;"), True),
        ((WAIT, "L: nanosleep.u32 1;", "bra L;"), False), ((WAIT.replace(";", ", 100;"), "@%p1 bra END;"), True), ((WAIT, "@%p2 bra END;"), False), (("@%p2 bra END;", WAIT), False),
    ],
)  # fmt: skip
def test_a_loop_is_put_around_a_wait_whose_answer_decides_no_branch(lines, decides):
    """On any way that the threads may take, and in any register that has the answer."""
    module, body = code("nanosleep.u32 2;", *lines, "END: ld.shared.u32 %r3, [bar];")
    wait, load = (next(i for i in body if i.op == op) for op in ("mbarrier", "ld"))
    found = [one for one in candidates_of(at_instruction("X004", load, ""), module, {}) if "until it is true" in one.text]
    assert len(found) == (not decides)
    for one in found:
        (edit,) = one.edits
        first, back = edit.becomes
        ((label, n),) = edit.labels
        assert (edit.of.line, first, n) == (wait.line, wait, 0)
        assert (back.name, back.operands[0].name, back.guard.name, back.guard.negated) == ("bra", label, "%p1", True)
        assert (one.is_all, one.is_other) == (False, True)
    counted = [one for one in candidates_of(at_instruction("X004", load, ""), module, {}) if "where n counts" in one.text]
    assert bool(counted) == decides
    for one, stages in zip(counted, (1, 2, 3, 4), strict=bool(counted)):
        (becomes, zero), first = (edit.becomes for edit in one.edits), len(module.functions["k"].registers)
        count, parity = becomes[0].operands[1], becomes[0].operands[0]
        assert [x.slot for x in (count, parity)] == [first, first + 1]
        assert [x.name for x in one.edits[0].registers] == [count.name, parity.name]
        assert [shown(i) for i in becomes] == [
            f"div.u32 {parity.name}, {count.name}, {stages}", f"and.b32 {parity.name}, {parity.name}, 1", f"xor.b32 {parity.name}, {parity.name}, 0",
            shown(wait).replace(", 0", f", {parity.name}", 1), f"@%p1 add.u32 {count.name}, {count.name}, 1",
        ]  # fmt: skip
        assert ([shown(i) for i in zero], zero[0].line) == ([f"mov.u32 {count.name}, 0", "nanosleep.u32 2"], FIRST)
        assert (one.is_all, one.is_other, one.parities) == (False, True, (wait,))


@pytest.mark.parametrize("wait", [f"@%p2 {WAIT}", WAIT.replace("%p1", "_"), WAIT.replace(".parity", "").replace("0;", "%d1;")])
def test_a_wait_without_an_answer_of_its_own_gets_no_loop(wait):
    module, body = code("mov.u32 %r1, 0;", wait, "ld.shared.u32 %r3, [bar];")
    assert not [one for one in candidates_of(at_instruction("X004", body[2], ""), module, {}) if "until it is true" in one.text]


COPIES = {
    "cp.async": ("cp.async.ca.shared.global [%r1], [%d1], 4;", "cp.async.commit_group;", "cp.async.wait_group {};"),
    "bulk": ("cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;", "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group {};"),
    "wgmma": ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d1, %d2, 1, 1, 1, 0, 0;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned {};"),
}  # fmt: skip
BEHIND = {  # what follows a commit, and whether its group is waited for there
    "a wait": (["wait 0"], True), "nothing": ([], False), "a wait that leaves one": (["wait 1"], False), "a wait after other work": (["add.u32 %r3, %r3, 1;", "wait 0"], True),
    "a barrier before": (["bar.sync 0;", "wait 0"], False), "an arrival before": (["mbarrier.arrive.shared.b64 _, [bar];", "wait 0"], False), "two waits": (["wait 1", "wait 0"], True),
    "the reads": (["wait.read 0"], None),
}  # fmt: skip


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("one", BEHIND)
@pytest.mark.parametrize("two", ["a wait", "nothing", "the reads", "a barrier before"])
def test_a_wait_is_put_behind_each_commit_whose_group_is_not_waited_for_there(kind, one, two):
    """A wait for the reads of copies is no wait for all of them; one for all is one for the reads."""
    if kind != "bulk" and "the reads" in (one, two):
        return
    copy, commit, wait = COPIES[kind]
    lines, at = [copy], []
    for name in (one, two):
        at.append(len(lines))
        lines += [
            commit,
            *(
                wait.replace("wait_group", "wait_group.read").format(0)
                if x == "wait.read 0"
                else wait.format(x[-1])
                if x.startswith("wait")
                else x
                for x in BEHIND[name][0]
            ),
        ]
    module, body = code(*lines, "ld.shared.u32 %r5, [%r1];")
    access = body[len(lines)]
    found = at_instruction("X007", access, "", halves=(Half("write", "", body[0]), Half("read", "", access)))
    every = [
        (one.text, {e.of.line - FIRST: ["*" if i is e.of else shown(i) for i in e.becomes] for e in one.edits})
        for one in candidates_of(found, module, {})
    ]
    for text in ([wait.replace("wait_group", "wait_group.read")] if kind == "bulk" else []) + [wait]:
        has = [BEHIND[name][1] is not False if ".read" in text else BEHIND[name][1] is True for name in (one, two)]
        lacking = [n for n, is_there in zip(at, has, strict=True) if not is_there]
        new = text.format(0)[:-1]
        placed = [tuple(becomes) for said, becomes in every if said.startswith(f"{new} after ")]
        assert {*placed} == {(at[0],), *([tuple(lacking)] if lacking else [])}  # behind the copy's own commit, too
        assert all(becomes == {n: ["*", new] for n in becomes} for said, becomes in every if said.startswith(f"{new} after "))


def told_of(found, module, mbarriers=None):
    """[(sentence without lines, numbers of the changed instructions in order)]"""
    every = candidates_of(found, module, mbarriers or {})
    return [(re.sub(r" lines? \d+(?:, \d+)*(?: and \d+)?| that :\d+", "", one.text), sorted(e.of.line - FIRST for e in one.edits)) for one in every]  # fmt: skip


def test_barriers_without_a_count_get_none():
    module, body = code("bar.sync 1, 64;", "bar.sync 1;", "bar.sync 1, 96;")
    found = at_instruction("X010", body[0], "", numbers={"came": 128})
    assert told_of(found, module) == [("a count of 128 threads in", [0]), ("a count of 128 threads in", [0, 2])]


def test_a_fence_comes_after_a_bulk_copy_itself():
    """Waits for groups are those of other copies."""
    module, body = code("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 16, [bar];", "cp.async.wait_all;", "bar.sync 0;")  # fmt: skip
    found = at_instruction("X003", body[2], "", other=body[0], touched=(Touched(0, 0x400, 0x500),))
    assert told_of(found, module) == [("fence.proxy.async.shared::cta after", [0]), ("fence.proxy.async.shared::cta before", [2])]


@pytest.mark.parametrize(
    ("count", "who"),
    [
        ("1", "one thread"),
        ("4", "lane 0 of each warp"),
        ("31", "lane 0 of each warp"),
        ("32", "all threads"),
        ("128", "all threads"),
        ("%r7", ""),
    ],
)
def test_an_arrival_is_made_by_as_many_threads_as_the_mbarrier_counts(count, who):
    """After waits for wgmma and products that each thread comes to, in a ring of up to four; where the mbarrier is known."""
    for after in ("wgmma.wait_group.sync.aligned 0;", "tcgen05.mma.cta_group::1.kind::f16 [%r4], %d1, %d2, %r5, %p1;"):
        module, body = code("mov.u32 %r1, 1;", f"mbarrier.init.shared.b64 [bar], {count};", after, f"@%p3 {after}", f"W: {WAIT}", "@!%p1 bra W;")  # fmt: skip
        numbers, touched = {"init": body[1].line}, (Touched(0, 0x400, 0x408),)
        by = f"mbarrier.arrive by {who}" if after[0] == "w" else "tcgen05.commit" if count == "1" else ""
        at = ["mbarrier", *(f"{n} mbarriers in turn" for n in (2, 3, 4))]
        wanted = [(f"{by} after, at the {ring} waits for", [0, 2]) for ring in at] if who and by else []
        told = told_of(at_instruction("X006", body[4], "", numbers=numbers, touched=touched), module)
        assert [one for one in told if "waits for" in one[0]] == wanted
        for given in ({"numbers": numbers}, {"touched": touched}):
            assert not [one for one in told_of(at_instruction("X006", body[4], "", **given), module) if "waits for" in one[0]]


@pytest.mark.parametrize("kind", COPIES)
def test_operations_without_any_group_are_committed_and_waited_for(kind):
    """After the operation or each such one, if one thread issues it; before what orders it, if all threads do. Products
    also after the last one before each branch or barrier.
    """
    copy = COPIES[kind][0]
    module, body = code(copy, "@%p1 bra X;", copy, copy, "bar.sync 0;", copy, "mbarrier.arrive.shared.b64 _, [bar];", "X: nanosleep.u32 1;", copy, "ld.shared.u32 %r5, [%r1];")  # fmt: skip
    found = at_instruction("X007", body[9], "", halves=(Half("write", "", body[0]), Half("read", "", body[9])))
    both = " and ".join(text[:-1].format(0) for text in COPIES[kind][1:])
    wanted = {
        "cp.async": [(f"{both} before", [4]), ("bar.sync 0 before", [9]), (f"{both}, then bar.sync 0 before", [9])],
        "bulk": [(f"{both} after", [0]), (f"{both} after", [0, 2, 3, 5, 8])],
        "wgmma": [(f"{both} before", [9]), (f"{both} before", [4]), (f"{both} after", [0, 3, 5, 8])],
    }
    assert told_of(found, module) == wanted[kind]


def test_a_cta_stays_until_others_have_written_to_its_shared_memory():
    """If it is not known which bytes: then a barrier of the cluster comes before each end, and none is in a warp."""
    module, body = code("st.shared::cluster.u32 [%r1], 1;", "@%p1 exit;", "ld.shared.u32 %r2, [%r1];")
    given = {"other": body[0]}
    assert told_of(at_instruction("X008", body[2], "", **given), module) == [
        ("barrier.cluster.arrive and barrier.cluster.wait before", [3])
    ]
    assert told_of(at_instruction("X008", body[2], "", **given, within_warp=True), module) == [("bar.warp.sync (__syncwarp) before", [2])]
    touched = (Touched(0, 0x400, 0x408),)
    assert told_of(at_instruction("X008", body[2], "", **given, touched=touched), module) == [("bar.sync 0 (__syncthreads) before", [2])]
    assert told_of(at_instruction("X008", body[2], "", **given, arrays=(1,)), module) == []


def test_a_commit_takes_the_place_of_the_nearest_later_arrival_without_bytes():
    lines = "mbarrier.arrive.shared.b64 _, [bar+16];", "tcgen05.mma.cta_group::2.kind::f16 [%r4], %d1, %d2, %r5, %p1;"
    arrive = "mbarrier.arrive.shared.b64 _, [bar];"
    module, body = code(*lines, "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;", arrive, arrive, "st.shared.u32 [%r1], 1;")
    halves = Half("read", "", body[1]), Half("write", "", body[5])
    (one,) = candidates_of(at_instruction("X005", body[5], "", halves=halves), module, {})
    assert told_of(at_instruction("X005", body[5], "", halves=halves), module) == [
        ("tcgen05.commit instead of mbarrier.arrive.shared.b64 in", [3])
    ]
    assert [shown(i) for i in one.edits[0].becomes] == ["tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 []"]
    assert told_of(at_instruction("X004", body[5], "", halves=halves), module) == []


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ((), ""), ((0,), "load's mbarrier m0"), ((0, 8), "mbarrier of the load's stage (m0, m1)"), ((0, 8, 16, 24), "mbarrier of the load's stage (m0, m1, m2, m3)"),
        ((0, 8, 16, 24, 32), "mbarrier of the load's stage (m0, m1, m2, m3, ...)"), ((0, 8, 24), ""), ((0, 24, 48), "mbarrier of the load's stage (m0, m1, m2)"),
    ],
)  # fmt: skip
def test_a_wait_for_loads_is_at_the_mbarriers_of_their_ring(places, said):
    """If these follow one another at one distance. A read that only some threads make gets none."""
    module, body = code("mov.u32 %r1, 1;", "ld.shared.u32 %r2, [%r1];", "@%p1 ld.shared.u32 %r2, [%r1];")
    mbarriers, count = {0x400 + at: f"m{n}" for n, at in enumerate(places)}, len(places)
    ways = [("parity 0", [1])] * (count == 1) + [
        (f"parity {'n' if count == 1 else f'(n / {count})'} & 1, where n counts its earlier passes", [0, 1])
    ]
    wanted = [(f"mbarrier.try_wait.parity on the {said} before, {way}", at) for way, at in ways] if said else []
    assert told_of(at_instruction("X004", body[1], ""), module, mbarriers) == wanted
    assert told_of(at_instruction("X004", body[2], ""), module, mbarriers) == []


@pytest.mark.parametrize(
    ("before", "after", "is_beside"), [(False, False, False), (False, True, False), (True, False, True), (True, True, False)]
)
def test_a_copy_after_the_last_wait_may_be_for_another_stage(before, after, is_beside):
    wait = {True: "cp.async.wait_group 0;", False: "nanosleep.u32 1;"}
    module, body = code(
        "mov.u32 %r1, 1;", wait[before], "cp.async.ca.shared.global [%r1], [%d1], 4;", wait[after], "ld.shared.u32 %r2, [%r1];"
    )
    for does, copy in (("write", body[2]), ("read", body[2]), ("write", body[4])):
        found = at_instruction("X004", body[4], "", halves=(Half(does, "", copy), Half("read", "", body[4])))
        every = [*candidates_of(found, module, {})]
        if does == "write" and copy is body[2]:
            assert every
        assert {one.is_beside for one in every} <= {is_beside and does == "write" and copy is body[2]}
