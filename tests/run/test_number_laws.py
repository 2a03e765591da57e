"""Laws of registers that hold one number: which these are, and what takes the number in place of the register."""

import itertools

import pytest

from smemsim.core.ptx import Immediate, read_module
from smemsim.run.jit.constants import constants, in_numbers, is_joint
from smemsim.run.lower import link

MOVES = {
    "mov.u32 %r1, 31;": 31,
    "mov.s32 %r1, -1;": 0xFFFFFFFF,
    "mov.b32 %r1, 0xFFFF0000;": 0xFFFF0000,
    "mov.b32 %r1, -2147483648;": 1 << 31,
    "@%p1 mov.b32 %r1, 31;": None,  # another lane has what was there before
    "@!%p1 mov.b32 %r1, 31;": None,
    "mov.f32 %r1, 0f3F800000;": None,
    "mov.b32 %r1, %r2;": None,
    "mov.b32 %r1, v;": None,
    "add.u32 %r1, 3, 4;": None,
    "ld.shared.u32 %r1, [v];": None,
}
OTHERS = {  # further instructions, and whether they give register 1 another value
    "": False,
    "add.u32 %r2, %r1, %r1;": False,
    "st.shared.u32 [v], %r1;": False,
    "st.shared.u32 [%r1], 1;": False,
    "ld.shared.u32 %r2, [%r1];": False,
    "bar.sync 0, %r1;": False,
    "setp.eq.u32 %p2, %r1, 3;": False,
    "shfl.sync.bfly.b32 %r2, %r3, %r1, %r1, %r1;": False,
    "ld.shared.u32 %r1, [v];": True,
    "ld.shared.v2.u32 {%r2, %r1}, [v];": True,
    "mov.b32 %r1, 31;": True,  # of two nobody asks whether they are the same
    "@%p1 add.u32 %r1, %r1, 1;": True,
    "shfl.sync.bfly.b32 %r1, %r3, 1, 31, -1;": True,
    "shfl.sync.bfly.b32 %r1|%p2, %r3, 1, 31, -1;": True,
    "atom.shared.add.u32 %r1, [v], 1;": True,
    "vote.sync.ballot.b32 %r1, %p1, -1;": True,
}


def linked(body):
    head = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .shared .align 16 .b8 v[64];\n"
    return link(read_module(f"{head}{body}\nret; }}"), "k", "sm_90a")


@pytest.mark.parametrize("move", MOVES)
def test_a_register_that_one_move_alone_gives_a_number_holds_it(move):
    for other, is_given in OTHERS.items():
        for body in (f"{move} {other}", f"{other} {move}"):
            found = constants(linked(body))
            number = None if is_given or MOVES[move] is None else MOVES[move]
            assert list(found.values()) == ([] if number is None else [number]), body


FORMS = ["shfl.sync.bfly.b32 %r2, %r3, {}, {}, {};", "vote.sync.ballot.b32 %r2, %p1, {mask};", "redux.sync.add.u32 %r2, %r3, {mask};"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("guard", ["", "@%p1 "])
@pytest.mark.parametrize(("mask", "is_full"), [("-1", True), ("0xFFFFFFFF", True), ("0x7FFFFFFF", False), ("0", False)])
def test_a_mask_counts_as_its_number_wherever_it_stands(form, guard, mask, is_full):
    for lane, limit, held in itertools.product(("1", "%r4"), ("31", "%r5"), (mask, "%r6", "%r7")):
        statement = form.format(lane, limit, held, mask=held)
        program = linked(f"mov.b32 %r4, 2; mov.u32 %r5, 30; mov.b32 %r6, {mask}; ld.shared.u32 %r7, [v];\n{guard}{statement}")
        i = next(i for i in program.inlined.body if i.op in ("shfl", "vote", "redux"))
        assert is_joint(program, i) == (is_full and held != "%r7" and not guard)
        wanted = [
            {"%r4": 2, "%r5": 30, "%r6": int(mask, 0) & 0xFFFFFFFF}.get(one, one) for one in (lane, limit, held)[-len(i.operands[2:]) :]
        ]
        got = in_numbers(program, i)
        assert got.operands[:2] == i.operands[:2]
        for now, old, number in zip(got.operands[2:], i.operands[2:], wanted, strict=True):
            assert now == (Immediate(number) if isinstance(number, int) else old)
