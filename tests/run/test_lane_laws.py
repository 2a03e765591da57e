"""Laws of addresses that differ by lane: an address is said to be another one in each lane exactly if its number is."""

import random

import pytest

from smemsim.core.ptx import read_module
from smemsim.run.lower import link
from smemsim.run.lower.lane_private import is_spread

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {{
.reg .pred %p<2>; .reg .b16 %h<12>; .reg .b32 %r<999>; .reg .b64 %d<999>; .reg .f32 %f<2>; .shared .align 4 .b8 sm[64];
ld.param.u64 %d20, [p]; ld.param.u32 %r9, [n]; mov.u32 %r8, %ctaid.y; mov.u32 %r10, {lane}; ld.global.u32 %r11, [%d20];
{body}
ret;
}}
"""
P, N, Y = 0x7F00_1234_5600, 48, 5  # of the parameters and %ctaid.y


def program_of(body: str, lane: str):
    return link(read_module(HEAD.format(lane=lane, body=body)), "k", "sm_90a")


def spread(body: str, lane: str = "%tid.x", *, in_rows: bool = True) -> bool:
    """What is said of the last instruction."""
    program = program_of(body, lane)
    return is_spread(program, program.inlined.body[-2], in_rows=in_rows)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def step(drawn: random.Random, bits: int):
    """(PTX with {to} and {of}, its result, how many bits it has) of one instruction with the lane's number."""
    k, one = drawn.randrange(bits + 2), drawn.randrange(1, 1 << 12) << drawn.randrange(20)
    mask, alike, value, minus = (1 << bits) - 1, {32: "%r9", 64: "%d20"}[bits], {32: N, 64: P}[bits], one if bits == 64 else -one
    ways = [
        (f"add.u{bits} {{to}}, {{of}}, {one};", lambda x: x + one & mask, bits),
        (f"add.s{bits} {{to}}, {alike}, {{of}};", lambda x: value + x & mask, bits),
        (f"sub.s{bits} {{to}}, {{of}}, {alike};", lambda x: x - value & mask, bits),
        (f"sub.s{bits} {{to}}, {alike}, {{of}};", lambda x: value - x & mask, bits),
        (f"shl.b{bits} {{to}}, {{of}}, {k};", lambda x: x << k & mask if k < bits else 0, bits),
        (f"mul.lo.s{bits} {{to}}, {{of}}, {one};", lambda x: x * one & mask, bits),
        (f"mul.lo.u{bits} {{to}}, {{of}}, {minus};", lambda x: x * minus & mask, bits),
        (f"mad.lo.s{bits} {{to}}, {{of}}, {one}, {alike};", lambda x: x * one + value & mask, bits),
        (f"mad.lo.s{bits} {{to}}, {one}, {{of}}, 12;", lambda x: x * one + 12 & mask, bits),
        (f"mad.lo.s{bits} {{to}}, {alike}, 3, {{of}};", lambda x: value * 3 + x & mask, bits),
        (f"mov.b{bits} {{to}}, {{of}};", lambda x: x, bits),
    ]
    if bits == 32:
        ways += [
            (f"mul.wide.u32 {{to}}, {{of}}, {one};", lambda x: x * one, 64),
            (f"mul.wide.s32 {{to}}, {{of}}, {one};", lambda x: signed(x, 32) * one & (1 << 64) - 1, 64),
            (f"mad.wide.u32 {{to}}, {{of}}, {one}, %d20;", lambda x: x * one + P, 64),
            ("cvt.u64.u32 {to}, {of};", lambda x: x, 64),
            ("cvt.s64.s32 {to}, {of};", lambda x: signed(x, 32) & (1 << 64) - 1, 64),
        ]
    else:
        ways += [("cvt.u32.u64 {to}, {of};", lambda x: x & 0xFFFFFFFF, 32), ("cvta.to.global.u64 {to}, {of};", lambda x: x, 64)]
    return drawn.choice(ways)


@pytest.mark.parametrize(("seed", "lane"), [(1, "%tid.x"), (2, "%laneid"), (3, "%tid.x")])
def test_a_chain_of_arithmetic_gives_each_lane_its_own_address_or_not(seed, lane):
    drawn, text, wanted = random.Random(seed), [], []
    for n in range(100):
        lanes, bits, at = [*range(32)], 32, "%r10"
        for k in range(drawn.randrange(1, 6)):
            ptx, result, to = step(drawn, bits)
            register = f"%{'r' if to == 32 else 'd'}{40 + 8 * n + k}"
            text.append(ptx.format(to=register, of=at))
            lanes, bits, at = [result(x) for x in lanes], to, register
        if bits == 32:
            text.append(f"cvt.u64.u32 %d{47 + 8 * n}, {at};")
            at = f"%d{47 + 8 * n}"
        text += [f"st.global.u8 [{at}+4], 1;", f"ld.global.u8 %r7, [{at}];"]
        wanted += [len(set(lanes)) == 32] * 2
    program = program_of("\n".join(text), lane)
    assert [is_spread(program, i, in_rows=True) for i in program.inlined.body if "u8" in i.modifiers] == wanted


STORE = "st.global.u32 [%d1], 0;"
ADDED = "add.u64 %d1, %d20, %d0; " + STORE
SPREAD = {
    "the lane": ("mul.wide.u32 %d0, %r10, 4;" + ADDED, True),
    "the CTA": ("mul.wide.u32 %d0, %r8, 4;" + ADDED, False),
    "the lane and the CTA": ("mad.lo.u32 %r0, %r8, 64, %r10; mul.wide.u32 %d0, %r0, 4;" + ADDED, True),
    "the lane times the CTA": ("mul.lo.u32 %r0, %r10, %r8; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),  # in row 0
    "the lane times a parameter": ("mul.lo.u32 %r0, %r10, %r9; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),  # of 0
    "the lane times 0": ("mul.wide.u32 %d0, %r10, 0;" + ADDED, False),
    "a number shifted by the lane": ("shl.b32 %r0, 4, %r10; cvt.u64.u32 %d0, %r0;" + ADDED, False),
    "the lane twice": ("sub.u32 %r0, %r10, %r10; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "the upper half": ("mul.hi.u32 %r0, %r10, 0x10000000; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "a saturated sum": ("add.sat.s32 %r0, %r10, 0x7ffffff0; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "two of one word": ("shr.u32 %r0, %r10, 1; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "a value of memory": ("add.u32 %r0, %r10, %r11; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "a register of two values": ("mov.u32 %r0, %r10; @%p1 mov.u32 %r0, 3; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "a register of some threads": ("@%p1 mov.u32 %r0, %r10; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "a register made of itself": ("mul.wide.u32 %d0, %r10, 4; add.u64 %d1, %d1, %d0;" + STORE, False),
    "a parameter alone": ("add.u64 %d1, %d20, 4;" + STORE, False),
    "16 bits": ("cvt.u16.u32 %h0, %r10; shl.b16 %h1, %h0, 11; cvt.u64.u16 %d0, %h1;" + ADDED, True),
    "16 bits are too few": ("cvt.u16.u32 %h0, %r10; shl.b16 %h1, %h0, 12; cvt.u64.u16 %d0, %h1;" + ADDED, False),
    "bits that 16 do not hold": ("shl.b32 %r0, %r10, 12; cvt.u16.u32 %h0, %r0; cvt.u64.u16 %d0, %h0;" + ADDED, False),
    "a parameter by its address": (
        "mov.u64 %d0, p; ld.param.u64 %d2, [%d0]; mul.wide.u32 %d0, %r10, 4; add.u64 %d1, %d2, %d0;" + STORE,
        False,
    ),
    "through a float": ("cvt.rn.f32.u32 %f0, %r10; cvt.rzi.u32.f32 %r0, %f0; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "8 bits": ("shl.b32 %r1, %r10, 3; cvt.u32.u8 %r0, %r1; mul.wide.u32 %d0, %r0, 4;" + ADDED, True),
    "8 bits are too few": ("shl.b32 %r1, %r10, 4; cvt.u32.u8 %r0, %r1; mul.wide.u32 %d0, %r0, 4;" + ADDED, False),
    "a variable": ("mov.u32 %r0, sm; add.u32 %r0, %r0, %r10; st.shared.u8 [%r0], 0;", False),  # a register of two values
    "a variable and the lane": ("mov.u32 %r0, sm; add.u32 %r1, %r0, %r10; st.shared.u8 [%r1], 0;", True),
    "a variable alone": ("st.shared.u32 [sm], 0;", False),
}


@pytest.mark.parametrize(("body", "is_so"), SPREAD.values(), ids=SPREAD)
def test_an_address_is_another_one_in_each_lane(body, is_so):
    assert spread(body) == is_so


@pytest.mark.parametrize(
    ("lane", "in_rows", "is_so"),
    [
        ("%tid.x", True, True), ("%tid.x", False, False), ("%laneid", True, True), ("%laneid", False, True), ("%tid.y", True, False),
        ("%tid.z", True, False), ("%tid.y", False, False), ("%ntid.x", False, False), ("%nctaid.z", False, False), ("%warpid", True, False),
    ],
)  # fmt: skip
def test_lanes_differ_in_their_number_and_in_a_row_of_a_warp_in_tid_x(lane, in_rows, is_so):
    assert spread("mul.wide.u32 %d0, %r10, 4;" + ADDED, lane, in_rows=in_rows) == is_so
    # the numbers that a CTA's threads share may be added, and others not
    both = f"mov.u32 %r1, {lane}; mov.u32 %r2, %laneid; mad.lo.u32 %r3, %r1, 64, %r2; mul.wide.u32 %d0, %r3, 4;" + ADDED
    alike = lane.startswith(("%ntid", "%nctaid")) or (in_rows and lane in ("%tid.y", "%tid.z"))
    assert spread(both, lane, in_rows=in_rows) == alike
