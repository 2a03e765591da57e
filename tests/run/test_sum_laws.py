"""Laws of the sums that smemsim sees in a program's text: over a loop, over lanes, in shared memory, of two elements."""

import random
import re

import pytest

from smemsim.core.ptx import read_module
from smemsim.run.lower import link
from smemsim.run.lower.sums import Place, sums

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n) {
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .f32 %f<12>; .shared .align 16 .b8 sm[64]; .local .align 16 .b8 lm[64];
ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q]; ld.param.u32 %r9, [n];
"""


def linked(body: str):
    return link(read_module(f"{HEAD}{body}\nret;\n}}"), "k", "sm_90a")


TEXTS = [
    "ld.global.u32 {a}, [%d1];", "ld.shared.u32 {a}, [sm];", "ld.shared.u32 {a}, [sm+4];", "ld.param.u32 {a}, [n];", "mov.u32 {a}, {b};",
    "add.u32 {a}, {b}, {c};", "add.u32 {a}, {a}, {c};", "max.u32 {a}, {b}, {a};", "mul.lo.u32 {a}, {b}, {c};", "mad.lo.u32 {a}, {b}, {c}, {a};",
    "shfl.sync.idx.b32 {a}, {b}, 1, 31, -1;", "shfl.sync.bfly.b32 {a}, {a}, 1, 31, -1;", "selp.b32 {a}, {b}, {c}, %p1;", "cvt.u32.u8 {a}, {b};",
    "st.shared.u32 [sm], {a};", "st.shared.u32 [sm+4], {a};", "st.global.u32 [%d2], {a};", "@%p1 bra L{n};", "mov.u32 {a}, 0;",
]  # fmt: skip
MOVES, COMBINES = {"mov", "selp", "cvt"}, {"add", "max", "mad"}
COMPUTING = MOVES | COMBINES | {"mul"}


def program_of(seed: int):
    drawn, lines = random.Random(seed), []
    at = sorted(drawn.randrange(12) for _ in range(3))
    for n in range(12):
        lines += [f"L{k}:" for k in range(3) if at[k] == n]
        names = {x: f"%r{drawn.randrange(1, 6)}" for x in "abc"}
        lines.append(drawn.choice(TEXTS).format(**names, n=drawn.randrange(3)))
    return linked("\n".join(lines))


class Model:
    """The same from single steps: which instruction reads what which other one gives."""

    def __init__(self, program):
        self.body, self.labels = program.inlined.body, program.inlined.labels

    def givers(self, slots):
        return {n for n, i in enumerate(self.body) if i.given & slots}

    def behind(self, slots, by):
        found, left = set(), [*self.givers(slots)]
        while left:
            n = left.pop()
            if n not in found:
                found.add(n)
                left += self.givers(self.body[n].used) if self.body[n].op in by else ()
        return found

    def slots(self, operand):
        return {operand.slot} if hasattr(operand, "slot") else set()

    def loops(self):
        for n, i in enumerate(self.body):
            begin = self.labels[i.operands[0].name] if i.op == "bra" else n + 1
            own = {m for m in range(begin, n + 1) if self.body[m].op in COMPUTING}
            into = {m: self.givers(self.body[m].used) & own for m in own}

            def before(m, into=into):
                found, left = set(), [m]
                while left:
                    for k in into[left.pop()] - found:
                        found.add(k)
                        left.append(k)
                return found

            for m in own:
                cycle = {k for k in before(m) if m in before(k)}
                used = {s for k in cycle for s in self.body[k].used}
                brings = {k for k in self.behind(used, COMPUTING) if begin <= k <= n and self.body[k].op in ("ld", "shfl")}
                if cycle and self.body[m].op not in MOVES and any("param" not in self.body[k].modifiers for k in brings):
                    yield m

    def lanes(self):
        for n, i in enumerate(self.body):
            if i.op in COMBINES:
                sides = [self.behind(self.slots(o), MOVES) for o in i.operands[1:]]
                for k, side in enumerate(sides):
                    others = set().union(*(s for m, s in enumerate(sides) if m != k))
                    taken = {s for b in side if self.body[b].op == "shfl" for s in self.slots(self.body[b].operands[1])}
                    if self.behind(taken, MOVES) & others:
                        yield n

    def words(self):
        """A word of shared memory that is combined with another load of it, and stored there again."""
        for store in (i for i in self.body if i.op == "st" and "shared" in i.modifiers):
            for m in self.behind(self.slots(store.operands[1]), MOVES):
                made = self.body[m]
                loads = {k for o in made.operands[1:] for k in self.behind(self.slots(o), MOVES) if self.body[k].op == "ld"}
                loads = {k for k in loads if "shared" in self.body[k].modifiers}
                if made.op in COMBINES and len(loads) > 1 and any(self.body[k].operands[1] == store.operands[0] for k in loads):
                    yield m


@pytest.mark.parametrize("seed", range(90))
def test_sums_of_loops_lanes_and_shared_memory_are_those_of_single_steps(seed):
    program = program_of(seed)
    model = Model(program)
    wanted = {id(model.body[n]) for n in (*model.loops(), *model.lanes(), *model.words())}
    assert sums(program).always == wanted


A, B = "ld.global.f32 %f1, [%d1];", "ld.global.f32 %f2, [%d1+{}];"
ADD = "add.f32 %f3, %f1, %f2;"
MOVED = "add.u64 %d3, %d1, 64;"
TWO = {  # the registers of both terms, the places that they are of (register, first, end), are they certainly far?
    "neighbours": (A + B.format(4) + ADD, ("f1", "f2", {("d1", 0, 4), ("d1", 4, 8)}, False)),
    "of one element of 16 bytes": (A + B.format(12) + ADD, ("f1", "f2", {("d1", 0, 4), ("d1", 12, 16)}, False)),
    "beyond an element": (A + B.format(16) + ADD, ("f1", "f2", {("d1", 0, 4), ("d1", 16, 20)}, True)),
    "before it": (A + B.format(-16) + ADD, ("f1", "f2", {("d1", 0, 4), ("d1", -16, -12)}, True)),
    "the same": (A + B.format(0) + ADD, None),
    "two arrays": (A + "ld.global.f32 %f2, [%d2+4];" + ADD, None),
    "two places of an array": (MOVED + A + "ld.global.f32 %f2, [%d3];" + ADD, ("f1", "f2", {("d1", 0, 4), ("d3", 0, 4)}, False)),
    "one place that moves": (A + "add.u64 %d1, %d1, 64; ld.global.f32 %f2, [%d1];" + ADD, None),
    "a difference": (A + B.format(32) + "sub.f32 %f3, %f2, %f1;", ("f2", "f1", {("d1", 0, 4), ("d1", 32, 36)}, True)),
    "a product": (A + B.format(32) + "mul.f32 %f3, %f1, %f2;", None),
    "the factors of a sum": (A + B.format(32) + "fma.rn.f32 %f3, %f1, %f2, %f4;", None),
    "a factor and the sum": (A + B.format(32) + "fma.rn.f32 %f3, %f1, %f4, %f2;", ("f1f4", "f2", {("d1", 0, 4), ("d1", 32, 36)}, True)),
    "the other factor": (A + B.format(32) + "fma.rn.f32 %f3, %f4, %f2, %f1;", ("f4f2", "f1", {("d1", 0, 4), ("d1", 32, 36)}, True)),
    "a number added": (A + "add.f32 %f3, %f1, 0f3f800000;", None),
    "a sum with itself": (A + "add.f32 %f3, %f1, %f1;", None),
    "vectors": ("ld.global.v2.f32 {%f1, %f4}, [%d1]; ld.global.v2.f32 {%f2, %f5}, [%d1+8];" + ADD, ("f1", "f2", {("d1", 0, 8), ("d1", 8, 16)}, False)),
    "longer vectors": ("ld.global.v2.f32 {%f1, %f4}, [%d1]; ld.global.v2.f32 {%f2, %f5}, [%d1+12];" + ADD, ("f1", "f2", {("d1", 0, 8), ("d1", 12, 20)}, True)),
    "one vector": ("ld.global.v2.f32 {%f1, %f2}, [%d1];" + ADD, None),
    "16 bits": ("ld.global.u16 %r1, [%d1]; ld.global.u16 %r2, [%d1+14]; add.u32 %r3, %r1, %r2;", ("r1", "r2", {("d1", 0, 2), ("d1", 14, 16)}, False)),
    "64 bits": ("ld.global.u64 %d4, [%d1]; ld.global.u64 %d5, [%d1+16]; add.u64 %d6, %d4, %d5;", ("d4", "d5", {("d1", 0, 8), ("d1", 16, 24)}, True)),
    "shared memory": ("mov.u32 %r1, sm; ld.shared.u32 %r2, [%r1]; ld.shared.u32 %r3, [%r1+32]; add.u32 %r4, %r2, %r3;", None),
    "parameters": ("mov.u64 %d3, p; ld.param.u32 %r2, [%d3]; ld.param.u32 %r3, [%d3+8]; add.u32 %r4, %r2, %r3;", None),
    "local memory": ("mov.u64 %d3, lm; add.u64 %d4, %d3, %d2; ld.local.u32 %r2, [%d3]; ld.local.u32 %r3, [%d4]; add.u32 %r4, %r2, %r3;", ("r2", "r3", {("d3", 0, 4), ("d4", 0, 4)}, False)),
    "a pointer of memory": ("ld.global.u64 %d3, [%d1]; ld.global.u32 %r2, [%d3]; ld.global.u32 %r3, [%d3+32]; add.u32 %r4, %r2, %r3;", ("r2", "r3", {("d3", 0, 4), ("d3", 32, 36)}, True)),
    "two pointers of memory": ("ld.global.v2.u64 {%d3, %d4}, [%d1]; ld.global.u32 %r2, [%d3]; ld.global.u32 %r3, [%d4+32]; add.u32 %r4, %r2, %r3;", None),
    "made of both arrays": ("add.u64 %d3, %d1, %d2;" + A + "ld.global.f32 %f2, [%d3];" + ADD, None),
    "a number is no array": ("mul.wide.u32 %d4, %r9, 4; add.u64 %d3, %d1, %d4;" + A + "ld.global.f32 %f2, [%d3];" + ADD, ("f1", "f2", {("d1", 0, 4), ("d3", 0, 4)}, False)),
    "through arithmetic": (A + B.format(32) + "mul.f32 %f4, %f1, %f5; neg.f32 %f6, %f2; max.f32 %f3, %f4, %f6;", ("f4", "f6", {("d1", 0, 4), ("d1", 32, 36)}, True)),
    "a variable": ("ld.shared.f32 %f1, [sm]; ld.shared.f32 %f2, [sm+32];" + ADD, None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "wanted"), TWO.values(), ids=TWO)
def test_a_sum_of_two_elements_of_one_array_has_their_places(body, wanted):
    program = linked(body)
    found = sums(program)
    assert not found.always
    assert bool(found.of_two) == (wanted is not None)
    if wanted is None:
        return
    ((at, terms),) = found.of_two.items()
    assert at == id(program.inlined.body[-2])
    slots = {r.name.removeprefix("%"): slot for slot, r in enumerate(program.inlined.registers)}
    one, other, places, are_far = wanted
    assert (terms.one, terms.other) == tuple({slots[name] for name in re.findall(r"\w\d", names)} for names in (one, other))
    assert terms.places == {Place(slots[base], first, end) for base, first, end in places}
    assert terms.are_far == are_far
