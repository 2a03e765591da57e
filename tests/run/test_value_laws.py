"""Laws of where the values of a program come from and go: its pointers, what is stored again, and what only decides."""

import functools
import random

import pytest

from flow import reached
from smemsim.core.ptx import read_module
from smemsim.run.lower import cfg, dataflow, link

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.global .align 16 .b8 gv[64]; .global .align 16 .b8 gw[64];
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.func inner (.param .b64 f) { ret; }
.visible .entry k(.param .u64 p, .param .u64 q, .param .align 64 .b8 m[128], .param .u32 n) {
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<40>; .reg .f32 %f<9>; .shared .align 16 .b8 sm[64];
"""
LOADED = "ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q];\n"


@functools.cache
def linked(body: str):
    return link(read_module(f"{HEAD}{body}\nret;\n}}"), "k", "sm_100a")


def root(kind: str, offset: int = 0, name: str = "") -> dataflow.Root:
    return dataflow.Root(kind, offset, name)


P, Q, ANY, UNKNOWN = root("parameter", 0), root("parameter", 8), root("maps"), root("unknown")
STORED = "st.global.u32 [%d3], 1;"
M = 64  # where the third parameter begins: it is aligned to 64
TENSOR = "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [{}, {{%r1}}], [%r2];"
ROOTS = {
    "a parameter": ("ld.param.u64 %d3, [q];" + STORED, {Q}),
    "a member of a structure": ("ld.param.u64 %d3, [m+8];" + STORED, {root("parameter", M + 8)}),
    "two of its members": ("ld.param.v2.u64 {%d4, %d3}, [m+16];" + STORED, {root("parameter", M + 24)}),
    "the first of two": ("ld.param.v2.u64 {%d3, %d4}, [m+16];" + STORED, {root("parameter", M + 16)}),
    "half of one": ("ld.param.u32 %r1, [q]; cvt.u64.u32 %d3, %r1;" + STORED, set()),
    "copied and moved": (LOADED + "cvta.to.global.u64 %d4, %d1; add.u64 %d5, %d4, 64; mov.b64 %d3, %d5;" + STORED, {P}),
    "one of two": (LOADED + "selp.b64 %d3, %d1, %d2, %p1;" + STORED, {P, Q}),
    "a difference of two": (LOADED + "sub.u64 %d3, %d1, %d2;" + STORED, {P, Q}),
    "which of two is compared": (LOADED + "setp.lt.u64 %p1, %d1, %d2; selp.b64 %d3, %d1, %d1, %p1;" + STORED, {P}),
    "in a loop": (LOADED + "mov.b64 %d3, %d2; L: " + STORED + "add.u64 %d3, %d3, 4; mov.b64 %d3, %d1; bra L;", {P, Q}),
    "at an offset": (LOADED + "st.global.u32 [%d1+64], 1;", {P}),
    "loaded from memory": (LOADED + "ld.global.u64 %d3, [%d1];" + STORED, {UNKNOWN}),
    "half of it loaded from memory": (LOADED + "ld.global.u32 %r1, [%d1]; mul.wide.u32 %d4, %r1, 4; add.u64 %d3, %d2, %d4;" + STORED, {Q}),
    "taken by an atomic operation": (LOADED + "atom.global.exch.b64 %d3, [%d1], %d2;" + STORED, {P, UNKNOWN}),
    "put together": (LOADED + "mov.b64 {%r1, %r2}, %d1; mov.b64 %d3, {%r1, %r2};" + STORED, {UNKNOWN}),
    "a variable": ("mov.u64 %d3, gv;" + STORED, {root("variable", 0, "gv")}),
    "a part of a variable": ("mov.u64 %d3, gv+8; st.global.u32 [gw], 1;" + STORED, {root("variable", 0, "gv"), root("variable", 0, "gw")}),
    "shared memory": (LOADED + "st.shared.u32 [sm], 1; st.shared::cluster.u32 [%r1], 1; red.shared.add.u32 [sm], 1;", set()),
    "local memory": ("st.local.u32 [%d9], 1;", set()),
    "shared memory by a pointer": (LOADED + "ld.global.u64 %d3, [%d1]; st.shared.u32 [%d3], 1; st.shared::cta.u32 [%d3], 1; st.local.u32 [%d3], 1;", set()),
    "a prefetch": (LOADED + "prefetch.global.L2 [%d1];", set()),
    "a function of the system": ("{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %d1; st.param.b64 [a], %d1; call (r), vprintf, (f, a); }", set()),
    "a function by its address": ("{ .param .b64 f; st.param.b64 [f], %d1; PR: .callprototype _ (.param .b64 _); mov.u64 %d4, inner; call %d4, (f), PR; }", {UNKNOWN}),
    "a sum of two numbers": ("mov.u64 %d4, m; mad.lo.s64 %d3, %d4, 1, 0;" + TENSOR.format("%d3"), {ANY}),
    "a number and a map": ("mov.u64 %d4, m; add.s64 %d3, 64, %d4;" + TENSOR.format("%d3"), {root("map", M + 64)}),
    "a reduction": (LOADED + "red.global.add.u32 [%d1], 1;", {P}),
    "an atomic operation": (LOADED + "atom.global.add.u32 %r1, [%d2+4], 1;", {Q}),
    "a load": (LOADED + "ld.global.u32 %r1, [%d2];", set()),
    "a copy to shared memory": (LOADED + "cp.async.ca.shared.global [%r1], [%d2], 16;", set()),
    "a copy from shared memory": (LOADED + "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r1], 16;", {Q}),
    "a map": ("mov.u64 %d3, m;" + TENSOR.format("%d3"), {root("map", M)}),
    "a map by its name": (TENSOR.format("m"), {root("map", M)}),
    "the last 64 bytes": ("mov.u64 %d4, m; cvta.param.u64 %d5, %d4; add.s64 %d3, %d5, 64;" + TENSOR.format("%d3"), {root("map", M + 64)}),
    "a part of a map": ("mov.u64 %d3, m+64;" + TENSOR.format("%d3"), {root("map", M + 64)}),
    "an offset of a map": ("mov.u64 %d3, m;" + TENSOR.format("%d3+64"), {root("map", M + 64)}),
    "back": ("mov.u64 %d4, m; add.s64 %d3, %d4, -64;" + TENSOR.format("%d3"), {root("map", 0)}),
    "before all": ("mov.u64 %d4, m; add.s64 %d3, %d4, -65;" + TENSOR.format("%d3"), {ANY}),
    "the last byte": ("mov.u64 %d4, m; add.s64 %d3, %d4, 131;" + TENSOR.format("%d3"), {root("map", M + 131)}),
    "behind all": ("mov.u64 %d4, m; add.s64 %d3, %d4, 132;" + TENSOR.format("%d3"), {ANY}),
    "at an unknown distance": ("mov.u64 %d4, m; add.s64 %d3, %d4, %d5;" + TENSOR.format("%d3"), {ANY}),
    "times a number": ("mov.u64 %d4, m; mul.lo.s64 %d3, %d4, 1;" + TENSOR.format("%d3"), {ANY}),
    "one of two maps": ("mov.u64 %d4, m; add.s64 %d5, %d4, 64; selp.b64 %d3, %d4, %d5, %p1;" + TENSOR.format("%d3"), {root("map", M), root("map", M + 64)}),
    "a map and a pointer": (LOADED + "mov.u64 %d4, m; selp.b64 %d5, %d4, %d1, %p1; add.s64 %d3, %d5, 64;" + TENSOR.format("%d3"), {UNKNOWN}),
    "a map in memory": (LOADED + TENSOR.format("%d1"), {UNKNOWN}),
    "a pointer behind a map": ("mov.u64 %d4, m; ld.param.u64 %d3, [%d4+8];" + STORED, {root("parameters")}),
    "a pointer at any place": ("mov.u64 %d4, p; add.s64 %d4, %d4, %d5; ld.param.u64 %d3, [%d4];" + STORED, {root("parameters")}),
    "a pointer behind a pointer": (LOADED + "ld.param.u64 %d3, [%d1];" + STORED, {UNKNOWN}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "roots"), ROOTS.values(), ids=ROOTS)
def test_a_pointer_is_followed_to_the_parameter_that_it_comes_from(body, roots):
    assert dataflow.written(linked(body)) == roots


@pytest.mark.parametrize("step", [1, 2, 4, 64, 100])
def test_a_map_at_which_a_loop_has_come_may_be_any(step):
    loop = f"mov.u64 %d3, p; L: add.s64 %d3, %d3, {step}; setp.lt.u64 %p1, %d3, %d4; @%p1 bra L;"
    found = dataflow.written(linked(loop + TENSOR.format("%d3")))
    places = {one.offset for one in found - {ANY}}
    assert ANY in found
    assert len(places) <= 64 + 1  # the last one that is added says that it is a walk
    assert all(one.kind == "map" and one.offset % step == 0 for one in found - {ANY})
    assert step < 4 or places >= set(range(step, M + 128 + 4, step))  # as far as the parameters go


@pytest.mark.parametrize(
    ("body", "roots"),
    [
        ("ld.global.u32 %r1, [%d2];", {Q}), ("ld.u32 %r1, [%d1+4];", {P}), ("ld.global.u32 %r1, [gv];", {root("variable", 0, "gv")}),
        ("ld.shared.u32 %r1, [sm];", set()), ("ld.local.u32 %r1, [%d1];", set()), ("st.global.u32 [%d1], %r1;", set()),
        ("ld.shared::cluster.u32 %r1, [%r2];", set()), ("ld.shared::cta.u32 %r1, [%r2];", set()),
        ("ld.global.u64 %d3, [%d2]; ld.global.u32 %r1, [%d3];", {Q, UNKNOWN}), ("atom.global.add.u32 %r1, [%d2], 1;", set()),
    ],
)  # fmt: skip
def test_what_is_loaded_is_followed_too(body, roots):
    assert dataflow.read_back(linked(LOADED + body)) == roots


@pytest.mark.parametrize(
    ("body", "goes"),
    [
        ("atom.global.add.u32 %r1, [%d1], 1; st.global.u32 [%d2], %r1;", True), ("atom.global.add.u32 %r1, [%d1], 1;", False),
        ("red.global.add.u32 [%d1], 1; st.global.u32 [%d2], %r1;", False), ("st.global.u32 [%d2], %r1; atom.global.add.u32 %r1, [%d1], 1;", True),
        ("ld.global.u32 %r1, [%d1]; st.global.u32 [%d2], %r1;", False),
    ],
)  # fmt: skip
def test_threads_go_by_tickets_if_what_an_atomic_operation_returns_is_used(body, goes):
    assert dataflow.takes_turns(linked(LOADED + body)) == goes


# ---- Random programs, against single steps from register to register

TEXTS = [
    "ld.global.u32 {a}, [%d1+{o}];", "ld.global.u32 {a}, [%d2+{o}];", "ld.relaxed.gpu.global.u32 {a}, [%d1+{o}];", "ld.shared.u32 {a}, [sm];",
    "st.global.u32 [%d1+{o}], {a};", "st.global.u32 [%d2], {a};", "@{p} st.global.u32 [%d1], {a};", "st.shared.u32 [sm], {a};",
    "add.u32 {a}, {b}, 1;", "add.u32 {a}, {b}, {c};", "or.b32 {a}, {b}, {c};", "max.u32 {a}, {b}, 7;", "mov.u32 {a}, {b};", "mov.u32 {a}, 5;",
    "setp.lt.u32 {p}, {a}, {b};", "selp.b32 {a}, {b}, {c}, {p};", "red.global.add.u32 [%d2], {a};", "atom.global.add.u32 {a}, [%d2], {b};",
    "atom.global.max.u32 {a}, [%d1+{o}], {b};", "@{p} bra L{n};", "bra L{n};", "@{p} add.u32 {a}, {b}, 1;", "shfl.sync.idx.b32 {a}, {b}, 0, 31, -1;",
    "@{p} exit;", "st.global.u32 [%d1+{o}], {a};", "ld.global.u32 {a}, [%d1+{o}];",
]  # fmt: skip
PASSES_ON = {"add", "or", "max", "mov", "setp", "selp", "shfl"}
ONCE = {"or", "max", "mov", "selp"}


@functools.cache
def program_of(seed: int):
    drawn, lines = random.Random(seed), []
    labels = drawn.randrange(1, 4)
    at = sorted(drawn.randrange(14) for _ in range(labels))
    for n in range(14):
        lines += [f"L{k}:" for k in range(labels) if at[k] == n]
        names = {x: f"%r{drawn.randrange(1, 5)}" for x in "abc"}
        text = drawn.choice([t for t in TEXTS if seed % 2 or "shared" not in t])
        lines.append(text.format(**names, p=f"%p{drawn.randrange(1, 3)}", o=drawn.choice((0, 0, 4)), n=drawn.randrange(labels)))
    return linked(LOADED + "\n".join(lines))


def ways_of(program):
    body, labels = program.inlined.body, program.inlined.labels
    ends = ("bra", "exit", "ret")
    after = [{n + 1} if i.op not in ends or i.guard is not None else set() for n, i in enumerate(body)]
    return [after[n] | ({labels[i.operands[0].name]} if i.op == "bra" else set()) for n, i in enumerate(body)] + [set()]


def made_of(program, load, by) -> set[int]:
    """The registers all of whose values these operations make of what a load brings and of constants."""
    body, mixed = program.inlined.body, set()
    while True:
        values = set(load.given - mixed)
        while more := {s for i in body if i.op in by and values & i.used for s in i.given} - values - mixed:
            values |= more
        constant = [i for i in body if i.op == "mov" and not i.used - ({i.guard.slot} if i.guard else set())]
        bad = {
            s for s in values for i in body if s in i.given and i is not load and i not in constant and not (i.op in by and values & i.used)
        }
        if not bad:
            return values
        mixed |= bad


SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_uses_of_loaded_values_are_followed_from_register_to_register(seed):
    program = program_of(seed)
    body = program.inlined.body
    chosen = dataflow.choices(program).results
    for load in body:
        if load.op != "ld" or "param" in load.modifiers:
            continue
        values, stores, other = set(load.given), set(), False
        while True:
            new = set()
            for i in body:
                for slot in values & i.used:
                    if i.op in ("st", "red", "atom") and "global" in i.modifiers and not (i.guard and i.guard.slot == slot):
                        stores.add(id(i))
                    elif i.op in PASSES_ON or id(i) in chosen:
                        new |= chosen.get(id(i), i.given)
                    else:
                        other = True
            if new <= values:
                break
            values |= new
        assert dataflow.stores_of(program, load) == (None if other else stores)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_value_that_is_overwritten_before_its_use_is_read_in_vain(seed):
    """Against the live registers before each instruction."""
    program = program_of(seed)
    steps = [i for block in program.blocks for i in block.instructions]
    at = {id(i): n for n, i in enumerate(steps)}
    firsts = [at[id(block.instructions[0])] if block.instructions else None for block in program.blocks]
    ways: dict[int, list[int]] = {}
    for n, block in enumerate(program.blocks):
        for i in block.instructions[:-1]:
            ways[at[id(i)]] = [at[id(i)] + 1]
        after = cfg.following(program, n)
        ways[at[id(block.instructions[-1])]] = [firsts[to] for to in after if to < len(program.blocks)]
    live = [set() for _ in steps]
    for _ in range(len(steps)):
        for n in reversed(range(len(steps))):
            i = steps[n]
            overwrites = i.given if i.guard is None else set()
            live[n] = set(i.used) | (set().union(*(live[to] for to in ways[n])) - overwrites)
    for load in (i for i in steps if i.op == "ld" and "param" not in i.modifiers):
        after = set().union(*(live[to] for to in ways[at[id(load)]]))
        assert dataflow.is_in_vain(program, load) == after.isdisjoint(load.given), load.text


@pytest.mark.parametrize("seed", SEEDS)
def test_a_value_that_only_decides_goes_into_guards_and_atomic_operations(seed):
    program = program_of(seed)
    body = program.inlined.body
    for load in (i for i in body if i.op == "ld" and "param" not in i.modifiers):
        values, decides, pending = set(load.given), True, list(load.given)
        while pending:
            slot = pending.pop()
            for i in body:
                is_guard = i.guard is not None and i.guard.slot == slot
                if slot not in i.used or is_guard or i.op in ("atom", "red"):  # as a value: no register here is an address
                    continue
                decides = decides and i.op in PASSES_ON
                pending += i.given - values
                values |= i.given
        assert dataflow.decides_alone(program, load) == decides, load.text


def test_an_address_of_an_atomic_operation_is_not_decided_alone():
    for text, decides in (("atom.global.add.u32 %r1, [%d3], %r2;", False), ("red.global.add.u32 [%d3], %r2;", False),
                          ("red.global.add.u64 [%d2], %d3;", True), ("atom.global.add.u64 %d4, [%d2], %d3;", True)):  # fmt: skip
        program = linked(LOADED + "ld.global.u64 %d3, [%d1];" + text)
        load = next(i for i in program.inlined.body if "global" in i.modifiers)
        assert dataflow.decides_alone(program, load) == decides, text


def polls(program, load, ways) -> bool:
    """A loop that begins anew or ends by what is made of the value: a branch back, or one out of such a loop."""
    body, labels = program.inlined.body, program.inlined.labels
    values, at = made_of(program, load, PASSES_ON), body.index(load)
    tests = {s for i in body if i.op == "setp" and values & (i.used | i.given) for s in i.given}
    after = [(n, labels[i.operands[0].name], i) for n, i in enumerate(body) if n >= at and i.op == "bra"]
    for n, to, i in after:
        is_out = any(back <= at and n <= end < to for end, back, _ in after)
        if i.guard is not None and i.guard.slot in tests and (to <= at or is_out):
            return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_loads_in_loops_are_polls_if_their_values_end_these(seed):
    program = program_of(seed)
    body, ways = program.inlined.body, ways_of(program)
    loads = [i for i in body if i.op == "ld" and "param" not in i.modifiers]
    atomic = [o for i in body if i.op in ("atom", "red") for o in i.operands[:2]]
    relaxed = {id(i) for i in loads if "relaxed" in i.modifiers and not polls(program, i, ways) and i.operands[1] not in atomic}
    assert dataflow.message_loads(program) == relaxed
    for load in loads:
        assert dataflow.is_polled(program, load) == polls(program, load, ways), load.text
    compared = {s for i in body if i.op == "setp" for s in i.used}
    brought = [i for i in body if i.op == "atom" or i in loads]
    assert dataflow.message_flags(program) == {id(i) for i in brought if made_of(program, i, PASSES_ON) & compared}


def stored_again(program, by):
    """(store, load) of one place at an address that stays, of what is made of the value; no store that waits for it."""
    body, ways = program.inlined.body, ways_of(program)
    found = set()
    for n, load in enumerate(body):
        if load.op != "ld" or "param" in load.modifiers:
            continue
        values = made_of(program, load, by)
        place = (load.modifiers[-2], load.operands[1])
        for m, store in enumerate(body):
            if (
                store.op == "st"
                and (store.modifiers[-2], store.operands[0]) == place
                and values & set(store.operands[1:][0:1] and [store.operands[1].slot])
            ):
                waits = polls_by(program, load, values) and n in reached(n, ways, {m})
                found |= set() if waits else {(store, load)}
    return found


def polls_by(program, load, values) -> bool:
    body, labels = program.inlined.body, program.inlined.labels
    at = body.index(load)
    tests = {s for i in body if i.op == "setp" and values & (i.used | i.given) for s in i.given}
    after = [(n, labels[i.operands[0].name], i) for n, i in enumerate(body) if n >= at and i.op == "bra"]
    guarded = [(n, to) for n, to, i in after if i.guard is not None and i.guard.slot in tests]
    return any(to <= at or any(back <= at and n <= end < to for end, back, _ in after) for n, to in guarded)


def once(program, store, load):
    """The one thing that is done with a number, if the store sets bits or a bound."""
    givers = [i for i in program.inlined.body if store.operands[1].slot in i.given]
    named = {"or", "max", "min", "and"}
    done = set()
    for i in givers:
        registers = {o.slot for o in i.operands[1:] if hasattr(o, "slot")}
        if i.op not in named or not registers <= load.given:
            return None
        done |= {(i.op, o) for o in i.operands[1:] if not hasattr(o, "slot")}
    return frozenset(done) or None


UPDATING = [
    "ld.global.u32 {a}, [%d1];", "ld.global.u32 {a}, [%d1];", "ld.global.u32 {a}, [%d1+4];", "ld.global.u32 {a}, [%d3];", "ld.global.u32 {a}, [%d3];",
    "st.global.u32 [%d1], {a};", "st.global.u32 [%d1], {a};", "st.global.u32 [%d1+4], {a};", "st.global.u32 [%d3], {a};", "st.global.u32 [%d3], {a};",
    "add.u32 {a}, {b}, 1;", "or.b32 {a}, {b}, 4;", "or.b32 {a}, {b}, 4;", "max.u32 {a}, {b}, 7;", "mov.u32 {a}, {b};", "mov.u32 {a}, 5;", "@{p} mov.u32 {a}, {b};",
    "setp.lt.u32 {p}, {a}, 9;", "@{p} bra L{n};", "@{p} bra L{n};", "bra L{n};", "add.u64 %d3, %d3, 4;", "selp.b32 {a}, {b}, {a}, {p};", "@{p} exit;",
]  # fmt: skip


@functools.cache
def updating(seed: int):
    """Few registers and places, so that much is stored where it comes from; %d3 gets several values."""
    drawn, lines = random.Random(seed), ["mov.u64 %d3, %d2;"]
    at = sorted(drawn.randrange(11) for _ in range(2))
    for n in range(11):
        lines += [f"L{k}:" for k in range(2) if at[k] == n]
        text = drawn.choice(UPDATING)
        lines.append(text.format(a=f"%r{drawn.randrange(1, 3)}", b=f"%r{drawn.randrange(1, 3)}", p="%p1", n=drawn.randrange(2)))
    return linked(LOADED + "\n".join(lines))


def in_line(program, by):
    """(store, load) at an address that changes: no label and no change of it in between."""
    body, labels = program.inlined.body, {*program.inlined.labels.values()}
    found = set()
    for n, load in enumerate(body):
        base = load.operands[1].base if load.op == "ld" and "global" in load.modifiers else None
        if base is None or sum(base.slot in i.given for i in body) == 1:
            continue
        values = set(load.given)
        for m in range(n + 1, len(body)):
            i = body[m]
            if m in labels:
                break
            if i.op == "st" and i.operands[0] == load.operands[1] and i.operands[1].slot in values:
                found.add((i, load))
            if base.slot in i.given:
                break
            if i.op in by and values & i.used:
                values |= i.given
            elif i.guard is None:
                values -= i.given
    return {(s, l) for s, l in found if not (polls_by(program, l, made_of(program, l, by)) and body.index(l) in reached(body.index(l), ways_of(program), {body.index(s)}))}  # fmt: skip


@pytest.mark.parametrize("seed", range(160))
def test_updates_are_found_where_much_is_stored_again(seed):
    program = updating(seed)
    body = program.inlined.body
    kinds = {}
    for name, by in (("all", PASSES_ON), ("once", ONCE), ("bits", ONCE - {"selp"})):
        steady = {(s, l) for s, l in stored_again(program, by) if sum(s.operands[0].base.slot in i.given for i in body) == 1}
        places = {}
        for store, load in steady | in_line(program, by):
            places.setdefault((store.modifiers[-2], store.operands[0]), []).append((store, load))
        kinds[name] = set()
        for of_place in places.values():
            done = {once(program, store, load) for store, load in of_place}
            if None in done or len(done) > 1:
                kinds[name] |= {id(store) for store, _ in of_place}
    assert set(dataflow.updates(program)) == kinds["all"]
    assert dataflow.accumulations(program) == kinds["all"] - kinds["once"]
    assert dataflow.bounds(program) == kinds["bits"] - (kinds["all"] - kinds["once"])
    for load in (i for i in body if i.op == "ld" and "param" not in i.modifiers):
        assert dataflow.is_polled(program, load) == polls(program, load, ways_of(program)), load.text


@pytest.mark.parametrize("seed", SEEDS)
def test_updates_are_stores_of_what_is_made_of_their_own_place(seed):
    program = program_of(seed)
    kinds = {}
    for name, by in (("all", PASSES_ON), ("once", ONCE), ("bits", ONCE - {"selp"})):
        pairs = stored_again(program, by)
        places = {}
        for store, load in pairs:
            places.setdefault((store.modifiers[-2], store.operands[0]), []).append((store, load))
        kinds[name] = set()
        for of_place in places.values():
            done = {once(program, store, load) for store, load in of_place}
            if None in done or len(done) > 1:  # else all threads do the same to it
                kinds[name] |= {id(store) for store, _ in of_place}
    found = dataflow.updates(program)
    assert set(found) == kinds["all"]
    assert all(load.op == "ld" for load in found.values())
    assert dataflow.accumulations(program) == kinds["all"] - kinds["once"]
    assert dataflow.bounds(program) == kinds["bits"] - dataflow.accumulations(program)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_instruction_may_follow_if_it_stands_behind_or_a_branch_leads_back_to_before_it(seed):
    program = program_of(seed)
    body, ways = program.inlined.body, ways_of(program)
    forward = [to | {n + 1} if to or n < len(body) else set() for n, to in enumerate(ways)]  # no matter what branches over
    for n, first in enumerate(body):
        for m, then in enumerate(body):
            found = dataflow.may_follow(program, first, then)
            assert found == (m >= n or m >= min(reached(n, forward), default=n))
            assert found or m not in reached(n, ways)  # what no text says, no path does
    assert dataflow.may_follow(program, body[1], linked("add.u32 %r1, %r1, 1;").inlined.body[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_choice_is_a_short_branch_over_arithmetic_that_no_other_way_enters(seed):
    program = program_of(seed)
    body, labels = program.inlined.body, program.inlined.labels
    found = dataflow.choices(program)
    for n, i in enumerate(body):
        over = body[n + 1 : labels[i.operands[0].name]] if i.op == "bra" and i.guard is not None else []
        inside = set(range(n + 1, n + 1 + len(over)))
        plain = all(o.op in PASSES_ON - {"shfl"} and o.guard is None for o in over)
        results = frozenset(s for o in over for s in o.given)
        is_one = 0 < len(over) <= 16 and plain and not inside & set(labels.values()) and i.guard.slot not in results
        assert found.results.get(id(i)) == (results if is_one else None)
        if is_one:
            assert all(found.deciding[id(o)] == i.guard for o in over)
    assert len(found.deciding) == sum(len(body[n + 1 : labels[i.operands[0].name]]) for n, i in enumerate(body) if id(i) in found.results)


@pytest.mark.parametrize(("count", "is_one"), [(0, False), (1, True), (16, True), (17, False)])
def test_a_choice_passes_over_sixteen_instructions_at_most(count, is_one):
    program = linked("@%p1 bra L;" + "add.u32 %r1, %r1, 1;" * count + "L: st.global.u32 [%d1], %r1;")
    assert bool(dataflow.choices(program).results) == is_one


# ---- Bit fields, and elements that decide about themselves

LOAD, STORE = "ld.global.u32 %r1, [%d1];", "st.global.u32 [%d1], %r3;"
MASKED = "and.b32 %r2, %r1, -16; or.b32 %r3, %r2, %r4;"
CAS = "atom.global.cas.b32 %r5, [%d1], %r1, %r3;"
LOOP = "L: " + MASKED + CAS + "setp.ne.u32 %p1, %r5, %r1; mov.b32 %r1, %r5; @%p1 bra L;"
FIELDS = {
    "a field": (LOAD + MASKED + STORE, 1),
    "bytes": ("ld.global.u8 %r1, [%d1];" + MASKED + "st.global.u8 [%d1], %r3;", 1),
    "a part of the bytes": ("ld.global.u32 %r1, [%d1];" + MASKED + "st.global.u8 [%d1], %r3;", 0),
    "two masks": (LOAD + "and.b32 %r2, %r1, 15; and.b32 %r6, %r1, 240; or.b32 %r3, %r2, %r6;" + STORE, 1),
    "a chain": (LOAD + "and.b32 %r2, %r1, -16; or.b32 %r6, %r2, %r4; and.b32 %r7, %r6, -8; or.b32 %r3, %r7, %r8;" + STORE, 1),
    "a sum of it": (LOAD + "and.b32 %r2, %r1, -16; add.u32 %r3, %r2, %r4;" + STORE, 0),
    "a mask that is computed": (LOAD + "and.b32 %r2, %r1, %r6; or.b32 %r3, %r2, %r4;" + STORE, 0),
    "no mask": (LOAD + "or.b32 %r3, %r1, %r4;" + STORE, 0),
    "a second reader": (LOAD + MASKED + "add.u32 %r7, %r1, 1;" + STORE, 0),
    "nothing is stored": (LOAD + MASKED, 0),
    "another value": (LOAD + MASKED + "st.global.u32 [%d1], %r4;", 0),
    "another place": (LOAD + MASKED + "st.global.u32 [%d1+4], %r3;", 0),
    "another array": (LOAD + MASKED + "st.global.u32 [%d2], %r3;", 0),
    "at an offset": ("ld.global.u32 %r1, [%d1+8];" + MASKED + "st.global.u32 [%d1+8], %r3;", 1),
    "the second of a vector": ("ld.global.u32 %r1, [%d1+4];" + MASKED + "st.global.v2.u32 [%d1], {%r7, %r3};", 1),
    "the first of a vector": ("ld.global.u32 %r1, [%d1+4];" + MASKED + "st.global.v2.u32 [%d1], {%r3, %r7};", 0),
    "before the vector": ("ld.global.u32 %r1, [%d1];" + MASKED + "st.global.v2.u32 [%d1+4], {%r7, %r3};", 0),
    "a pointer of two values": ("add.u64 %d1, %d1, 4;" + LOAD + MASKED + STORE, 0),
    "a variable": ("ld.global.u32 %r1, [gv];" + MASKED + "st.global.u32 [gv], %r3;", 1),
    "a vector that is loaded": ("ld.global.v2.u32 {%r1, %r6}, [%d1];" + MASKED + STORE, 0),
    "a swap": (LOAD + LOOP, 2),
    "a swap of what was swapped": ("mov.u32 %r1, %r5;" + LOOP + LOAD, 2),
    "a swap with copies": ("ld.global.u32 %r6, [%d1]; mov.b32 %r1, %r6;" + LOOP, 2),
    "a swap without a loop": (LOAD + MASKED + CAS, 2),
    "a swap of a number": (LOAD + MASKED + "atom.global.cas.b32 %r5, [%d1], 0, %r3;", 0),
    "a swap for a number": (LOAD + MASKED + "atom.global.cas.b32 %r5, [%d1], %r1, 1;", 0),
    "a swap of a sum": (LOAD + "and.b32 %r2, %r1, -16; add.u32 %r3, %r2, 1;" + CAS, 0),
    "a swap without a mask": (LOAD + "or.b32 %r3, %r1, %r4;" + CAS, 0),
    "a swap that is stored, too": (LOAD + LOOP + "st.global.u32 [%d2], %r1;", 0),
    "a swap that is copied elsewhere": (LOAD + LOOP + "mov.b32 %r8, %r1;", 0),
    "a swap that is compared elsewhere": (LOAD + LOOP + "setp.lt.u32 %p2, %r1, %r4;", 0),
    "a swap that is compared to a number": (LOAD + LOOP + "setp.lt.u32 %p2, %r1, 4;", 2),
    "a swap of a sum of it": (LOAD + "add.u32 %r1, %r1, 1;" + LOOP, 0),
    "a swap of half of it": ("ld.global.u16 %r1, [%d1];" + LOOP, 0),
    "an exchange": (LOAD + MASKED + "atom.global.exch.b32 %r5, [%d1], %r3;", 0),
}


@pytest.mark.parametrize(("body", "count"), FIELDS.values(), ids=FIELDS)
def test_neighbours_of_a_bit_field_are_masked_combined_and_stored_back(body, count):
    program = linked(LOADED + body)
    fields = dataflow.bit_fields(program)
    found = [i for i in program.inlined.body if id(i) in fields]
    assert len(found) == len(fields) == count
    assert all(i.op in ("ld", "atom") for i in found)


INDEX = "mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 4; add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4;\n"
ELEMENT, TEST = "ld.global.u32 %r2, [%d5];", "setp.lt.u32 %p1, %r2, 9;"
DECIDES = {
    "a store": (ELEMENT + TEST + "@%p1 st.global.u32 [%d5], 0;", True),
    "a branch": (ELEMENT + TEST + "@%p1 bra L; mov.u32 %r3, 5; st.global.u32 [%d5], %r3; L:", True),
    "a branch over nothing else": (ELEMENT + TEST + "@%p1 bra L; st.global.u32 [%d5], 5; L:", True),
    "without a guard": (ELEMENT + "st.global.u32 [%d5], 0;", False),
    "a guard of no load": ("setp.lt.u32 %p1, %r1, 9;" + ELEMENT + "@%p1 st.global.u32 [%d5], 0;", False),
    "a load behind it": (TEST + "@%p1 st.global.u32 [%d5], 0;" + ELEMENT, False),
    "another place": (ELEMENT + TEST + "@%p1 st.global.u32 [%d5+4], 0;", False),
    "another array": (ELEMENT + TEST + "@%p1 st.global.u32 [%d6], 0;", False),
    "another size": (ELEMENT + TEST + "@%p1 st.global.u16 [%d5], 0;", False),
    "two for one": (ELEMENT + TEST + "@%p1 st.global.v2.u32 [%d5], {%r1, %r1};", False),
    "shared memory": ("ld.shared.u32 %r2, [sm];" + TEST + "@%p1 st.shared.u32 [sm], 0;", False),
    "from shared memory": ("ld.shared.u32 %r2, [sm];" + TEST + "@%p1 st.global.u32 [%d5], %r2;", False),
    "a pointer of two values": (ELEMENT + TEST + "add.u64 %d5, %d5, 4; @%p1 st.global.u32 [%d5], 0;", False),
    "the element elsewhere": (ELEMENT + TEST + "@%p1 st.global.u32 [%d6], %r2;", True),
    "made of the element": (ELEMENT + TEST + "@%p1 bra L; add.u32 %r3, %r2, 1; st.global.u32 [%d6], %r3; L:", True),
    "another element elsewhere": (ELEMENT + TEST + "ld.global.u32 %r3, [%d5+4]; @%p1 st.global.u32 [%d6], %r3;", False),
    "the element at one place": (ELEMENT + TEST + "@%p1 st.global.u32 [%d2], %r2;", False),
    "one element at all places": ("ld.global.u32 %r2, [%d1];" + TEST + "@%p1 st.global.u32 [%d6], %r2;", False),
    "two stores": (ELEMENT + TEST + "@%p1 bra L; st.global.u32 [%d5], 5; st.global.u32 [%d6], 5; L:", False),
    "no store": (ELEMENT + TEST + "@%p1 bra L; mov.u32 %r3, 5; L:", False),
    "a way into it": (ELEMENT + TEST + "@%p1 bra L; K: st.global.u32 [%d5], 5; L: @%p2 bra K;", False),
    "used outside": (ELEMENT + TEST + "@%p1 bra L; mov.u32 %r3, 5; st.global.u32 [%d5], %r3; L: st.global.u32 [%d2], %r3;", False),
    "used in front": ("add.u32 %r4, %r3, 1;" + ELEMENT + TEST + "@%p1 bra L; mov.u32 %r3, 5; st.global.u32 [%d5], %r3; L:", False),
    "a guard inside": (ELEMENT + TEST + "@%p1 bra L; @%p2 mov.u32 %r3, 5; st.global.u32 [%d5], %r3; L:", False),
    "a load inside": (ELEMENT + TEST + "@%p1 bra L; ld.global.u32 %r3, [%d6]; st.global.u32 [%d5], %r3; L:", False),
    "back": ("L:" + ELEMENT + TEST + "st.global.u32 [%d5], 5; @%p1 bra L;", False),
    "16 instructions": (ELEMENT + TEST + "@%p1 bra L;" + "mov.u32 %r3, 5;" * 15 + "st.global.u32 [%d5], %r3; L:", True),
    "17 instructions": (ELEMENT + TEST + "@%p1 bra L;" + "mov.u32 %r3, 5;" * 16 + "st.global.u32 [%d5], %r3; L:", False),
    "an element of a variable": ("ld.global.u32 %r2, [gv+4];" + TEST + "@%p1 st.global.u32 [gv+4], 0;", True),
    "another of a variable": ("ld.global.u32 %r2, [gv+4];" + TEST + "@%p1 st.global.u32 [gv], 0;", False),
}


@pytest.mark.parametrize(("body", "decides"), DECIDES.values(), ids=DECIDES)
def test_an_element_decides_about_itself_alone(body, decides):
    program = linked(LOADED + INDEX + body)
    user = next((i for i in program.inlined.body if i.guard is not None), program.inlined.body[-2])
    assert dataflow.decides_itself(program, user) == decides


# (PTX from %r1 or %d7 to %d8, its result), each of 32 or 64 bits
W32, W64 = (1 << 32) - 1, (1 << 64) - 1
MOVED = {
    "mul.lo.u32 %r3, %r1, {c}; cvt.u64.u32 %d8, %r3;": lambda x, c: x * c & W32,
    "mul.lo.u32 %r3, {c}, %r1; cvt.u64.u32 %d8, %r3;": lambda x, c: x * c & W32,
    "mul.wide.u32 %d8, %r1, {c};": lambda x, c: x * c,
    "mad.lo.u32 %r3, %r1, {c}, 12; cvt.u64.u32 %d8, %r3;": lambda x, c: x * c + 12 & W32,
    "cvt.u64.u32 %d7, %r1; mul.lo.u64 %d8, %d7, {c};": lambda x, c: x * c & W64,
    "cvt.u64.u32 %d7, %r1; mad.lo.u64 %d8, %d7, {c}, %d1;": lambda x, c: x * c & W64,
}
SHIFTED = {
    "shl.b32 %r3, %r1, {c}; cvt.u64.u32 %d8, %r3;": lambda x, c: x << c & W32 if c < 32 else 0,
    "cvt.u64.u32 %d7, %r1; shl.b64 %d8, %d7, {c};": lambda x, c: x << c & W64 if c < 64 else 0,
}
ONE_EACH = {
    "add.u32 %r3, %r1, 5; cvt.u64.u32 %d8, %r3;": lambda x, c: x + 5 & W32,
    "sub.u32 %r3, 5, %r1; cvt.u64.u32 %d8, %r3;": lambda x, c: 5 - x & W32,
    "sub.u32 %r3, %r1, 5; cvt.u64.u32 %d8, %r3;": lambda x, c: x - 5 & W32,
    "sub.u32 %r3, %r1, %r1; cvt.u64.u32 %d8, %r3;": lambda x, c: 0,
    "cvt.u64.u32 %d8, %r1;": lambda x, c: x,
    "cvt.u16.u32 %h1, %r1; cvt.u64.u16 %d8, %h1;": lambda x, c: x & 0xFF,  # of 16 bits an index may need more
    "cvt.u64.u32 %d7, %r1; cvt.u32.u64 %r3, %d7; cvt.u64.u32 %d8, %r3;": lambda x, c: x & W32,
    "cvt.rn.f32.u32 %f1, %r1; cvt.rzi.u64.f32 %d8, %f1;": lambda x, c: 0,  # of large numbers
    "mul.hi.u32 %r3, %r1, 5; cvt.u64.u32 %d8, %r3;": lambda x, c: x * 5 >> 32,
    "add.sat.s32 %r3, %r1, 0x7fffff00; cvt.u64.u32 %d8, %r3;": lambda x, c: min(x + 0x7FFFFF00, 0x7FFFFFFF),
    "shr.u32 %r3, %r1, 3; cvt.u64.u32 %d8, %r3;": lambda x, c: x >> 3,
    "and.b32 %r3, %r1, 255; cvt.u64.u32 %d8, %r3;": lambda x, c: x & 255,
    "ld.global.u32 %r3, [%d1]; add.u32 %r4, %r1, %r3; cvt.u64.u32 %d8, %r4;": lambda x, c: 0,  # of any number
    "mov.u32 %r3, %r1; @%p2 mov.u32 %r3, 5; cvt.u64.u32 %d8, %r3;": lambda x, c: 5,
    "mov.u32 %r3, %laneid; cvt.u64.u32 %d8, %r3;": lambda x, c: 0,
    "ld.param.u32 %r3, [n]; add.u32 %r4, %r1, %r3; cvt.u64.u32 %d8, %r4;": lambda x, c: x + 7,
}
FACTORS = (1, 2, 3, 12, 1 << 15, 1 << 16, 3 << 16, 1 << 17, 5 << 17, 1 << 31)
LAW = [(text, f, c) for text, f in MOVED.items() for c in (*FACTORS, 0, *((1 << 32, 1 << 33) if "64 %d8" in text else ()))]
LAW += [(text, f, c) for text, f in SHIFTED.items() for c in (0, 1, 15, 16, 17, 31, 32, 33, 63, 64)]
LAW += [(text, f, 0) for text, f in ONE_EACH.items()]


def test_the_same_index_of_another_array_is_one_place_for_each_index():
    """An index needs half of the bits of a register: two of these must not come to one place."""
    for text, f, c in LAW:
        program = linked(LOADED + INDEX + ELEMENT + TEST + text.format(c=c) + "add.u64 %d9, %d2, %d8; @%p1 st.global.u32 [%d9], %r2;")
        store = next(i for i in program.inlined.body if i.op == "st")
        half = 16 if "32 %d8, %r3" in text and "wide" not in text else 32
        indices = [x for k in range(half) for x in (1 << k, (1 << k) + 1, (1 << half) - 1 - k)]
        is_apart = len({f(x, c) for x in indices}) == len(set(indices))
        assert dataflow.decides_itself(program, store) == is_apart, (text, c)


LOOKED = [  # a load, an atomic operation, other instructions; is the load only a look before the operation?
    ("ld.global.u32 %r1, [%d1];", "atom.global.cas.b32 %r2, [%d2], %r1, %r3;", "", True),
    ("ld.global.u32 %r1, [%d1];", "atom.global.max.u32 %r2, [%d1], %r3;", "", True),
    ("ld.global.u32 %r1, [%d1];", "red.global.min.u32 [%d1], %r3;", "", True),
    ("ld.global.u32 %r1, [%d1];", "red.global.max.u32 [%d1+4], %r3;", "", False),
    ("ld.global.u32 %r1, [%d1+4];", "red.global.or.b32 [%d1+4], %r3;", "", True),
    ("ld.global.u32 %r1, [%d1];", "red.global.max.u32 [%d2], %r3;", "", False),
    ("ld.global.u32 %r1, [%d1];", "red.global.max.u32 [%d2], %r3;", "red.global.and.b32 [%d1], %r3;", True),
    ("ld.global.u32 %r1, [%d1];", "red.global.max.u32 [%d2], %r3;", "red.global.add.u32 [%d1], %r3;", False),
    ("ld.global.u32 %r1, [%d1];", "red.global.max.u32 [%d2], %r3;", "st.global.u32 [%d1], %r3;", False),
    ("ld.global.u32 %r1, [%d1];", "red.global.add.u32 [%d1], %r3;", "", False),
    ("ld.global.u32 %r1, [%d1];", "atom.global.exch.b32 %r2, [%d1], %r3;", "", False),
    ("ld.global.u32 %r1, [%d1];", "st.global.u32 [%d1], %r3;", "", False),
    ("st.global.u32 [%d1], %r3;", "atom.global.cas.b32 %r2, [%d1], %r1, %r3;", "", False),
    ("atom.global.or.b32 %r1, [%d1], 0;", "atom.global.max.u32 %r2, [%d1], %r3;", "", False),
]


@pytest.mark.parametrize(("load", "atom", "others", "is_look"), LOOKED)
def test_a_load_is_a_look_before_an_operation_that_can_only_go_on(load, atom, others, is_look):
    program = linked(LOADED + load + atom + others)
    first, then = program.inlined.body[2:4]
    assert dataflow.looks_again(program, first, then) == is_look


@pytest.mark.parametrize(
    ("store", "load", "passes"),
    [
        ("st.relaxed.gpu.global.u32 [%d1], 1;", "ld.volatile.global.u32 %r1, [%d2];", True), ("st.volatile.u32 [%d1], 1;", "ld.relaxed.sys.u32 %r1, [%d2];", True),
        ("st.volatile.shared.u32 [sm], 1;", "ld.volatile.shared.u32 %r1, [sm];", True), ("st.global.u32 [%d1], 1;", "ld.volatile.global.u32 %r1, [%d2];", False),
        ("st.volatile.global.u32 [%d1], 1;", "ld.global.u32 %r1, [%d2];", False), ("st.release.gpu.global.u32 [%d1], 1;", "ld.acquire.gpu.global.u32 %r1, [%d2];", False),
        ("st.volatile.global.u32 [%d1], 1;", "atom.relaxed.gpu.global.add.u32 %r1, [%d2], 1;", False), ("red.relaxed.gpu.global.add.u32 [%d1], 1;", "ld.volatile.global.u32 %r1, [%d2];", False),
        ("", "ld.volatile.global.u32 %r1, [%d2];", False), ("st.volatile.global.u32 [%d1], 1;", "", False),
    ],
)  # fmt: skip
def test_messages_are_strong_stores_and_loads_that_order_nothing(store, load, passes):
    assert dataflow.passes_messages(linked(LOADED + store + load).inlined.body) == passes
