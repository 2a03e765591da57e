"""Calls that stay calls: recursion, functions in tables, room on the stack; what C says they come to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import Device, kernel
from smemsim import InputError, Unmodelled
from strategies import examples

WORD = 0xFFFFFFFF

ACKERMANN = """
.func (.param .b32 result) ackermann(.param .b32 m, .param .b32 n) {
.reg .pred %p<3>; .reg .b32 %r<8>;
ld.param.u32 %r1, [m]; ld.param.u32 %r2, [n];
setp.eq.u32 %p1, %r1, 0;
@%p1 bra DONE;
setp.eq.u32 %p2, %r2, 0;
mov.u32 %r3, 1;
@%p2 bra OUTER;
sub.u32 %r4, %r2, 1;
{ .param .b32 a; .param .b32 b; .param .b32 r;
  st.param.b32 [a], %r1; st.param.b32 [b], %r4;
  call.uni (r), ackermann, (a, b);
  ld.param.b32 %r3, [r]; }
OUTER:
sub.u32 %r5, %r1, 1;
{ .param .b32 a; .param .b32 b; .param .b32 r;
  st.param.b32 [a], %r5; st.param.b32 [b], %r3;
  call.uni (r), ackermann, (a, b);
  ld.param.b32 %r6, [r]; }
st.param.b32 [result], %r6;
ret;
DONE:
add.u32 %r7, %r2, 1;
st.param.b32 [result], %r7;
ret;
}
"""


def ackermann(m: int, n: int) -> int:
    return n + 1 if m == 0 else ackermann(m - 1, ackermann(m, n - 1) if n else 1)


def run(variables: str, body: str, *arrays: np.ndarray, block: int, locals_: str = "") -> tuple[list[np.ndarray], list]:
    """Arrays afterwards, and the findings."""
    device = Device("sm_90a")
    placed = [device.array(a) for a in arrays]
    done = device.launch(kernel(len(arrays), body, variables=variables, locals_=locals_), "k", block=block, args=placed)
    return [p.numpy() for p in placed], list(done.result.findings.values())


# Word t of the array at %d20 to %r2, and %r9 from it to that of %d21.
LOAD = "mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; ld.global.u32 %r2, [%d2]; add.u64 %d3, %d21, %d1;"
STORE = "st.global.u32 [%d3], %r9;"


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=64))
@examples(20)
def test_recursion_of_threads_at_different_depths(asked: list[tuple[int, int]]) -> None:
    given = np.array([m | n << 8 for m, n in asked], np.uint32)
    body = f"""{LOAD}
    and.b32 %r3, %r2, 255; shr.u32 %r4, %r2, 8;
    {{ .param .b32 a; .param .b32 b; .param .b32 r; st.param.b32 [a], %r3; st.param.b32 [b], %r4;
       call.uni (r), ackermann, (a, b); ld.param.b32 %r9, [r]; }}
    {STORE}"""
    (_, found), findings = run(ACKERMANN, body, given, np.zeros_like(given), block=len(given))
    assert findings == []
    assert found.tolist() == [ackermann(m, n) for m, n in asked]


# Each call has an array of its own, of which it gives the next one the address: the innermost sums up what all of them
# have left.
CHAIN = """
.func (.param .b32 result) chain(.param .b32 n, .param .b64 before) {
.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
.local .align 8 .b8 mine[16];
ld.param.u32 %r1, [n]; ld.param.u64 %rd1, [before];
mov.u64 %rd2, mine; cvta.local.u64 %rd3, %rd2;
st.local.u32 [mine], %r1; st.local.u64 [%rd2+8], %rd1;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DEEPER;
mov.u32 %r2, 0;
WALK:
ld.u32 %r3, [%rd3]; mad.lo.u32 %r2, %r2, 3, %r3;
ld.u64 %rd3, [%rd3+8]; setp.ne.u64 %p2, %rd3, 0;
@%p2 bra WALK;
st.param.b32 [result], %r2;
ret;
DEEPER:
sub.u32 %r4, %r1, 1;
{ .param .b32 a; .param .b64 b; .param .b32 r; st.param.b32 [a], %r4; st.param.b64 [b], %rd3;
  call.uni (r), chain, (a, b); ld.param.b32 %r5, [r]; }
ld.local.u32 %r6, [mine];
add.u32 %r5, %r5, %r6;
st.param.b32 [result], %r5;
ret;
}
"""


def test_every_call_has_variables_of_its_own() -> None:
    depths = np.arange(64, dtype=np.uint32) * 7 % 23
    body = f"""{LOAD}
    {{ .param .b32 a; .param .b64 b; .param .b32 r; st.param.b32 [a], %r2; st.param.b64 [b], 0;
       call.uni (r), chain, (a, b); ld.param.b32 %r9, [r]; }}
    {STORE}"""
    (_, found), findings = run(CHAIN, body, depths, np.zeros_like(depths), block=64)
    expected = []
    for depth in depths.tolist():
        total = 0
        for n in range(depth + 1):
            total = total * 3 + n
        expected.append((total + depth * (depth + 1) // 2) & WORD)
    assert findings == []
    assert found.tolist() == expected


def test_a_recursion_without_end_fills_the_stack() -> None:
    body = f"""{LOAD}
    {{ .param .b32 a; .param .b64 b; .param .b32 r; st.param.b32 [a], %r2; st.param.b64 [b], 0;
       call.uni (r), chain, (a, b); ld.param.b32 %r9, [r]; }}
    {STORE}"""
    _, findings = run(CHAIN, body, np.full(8, 1 << 30, np.uint32), np.zeros(8, np.uint32), block=8)
    assert [f.code for f in findings] == ["X001"]
    assert "the stack of thread (0, 0, 0)" in findings[0].message


# .reg parameters, a predicated call, and a warp instruction inside a function that calls itself.
REGISTERS_AND_SHUFFLES = """
.func (.reg .b32 sum) halves(.reg .b32 n, .reg .b64 factor) {
.reg .pred %p; .reg .b32 %r<6>;
cvt.u32.u64 %r1, factor;
mul.lo.u32 sum, n, %r1;
shr.u32 %r2, n, 1;
setp.ne.u32 %p, %r2, 0;
mov.u32 %r3, 0;
@%p call (%r3), halves, (%r2, 5);
add.u32 sum, sum, %r3;
ret;
}
"""


def test_parameters_in_registers_and_a_guarded_call() -> None:
    numbers = np.arange(40, dtype=np.uint32) ** 2
    body = f"{LOAD} mov.u64 %d4, 2; call (%r9), halves, (%r2, %d4); {STORE}"
    (_, found), findings = run(REGISTERS_AND_SHUFFLES, body, numbers, np.zeros_like(numbers), block=40)

    def halves(n: int, factor: int) -> int:
        return n * factor + (halves(n >> 1, 5) if n >> 1 else 0)

    assert findings == []
    assert found.tolist() == [halves(n, 2) for n in numbers.tolist()]


FUNCTIONS = """
.func (.param .b32 r) f0(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, %a, 1; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) f1(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; mul.lo.u32 %a, %a, 3; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) f2(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; not.b32 %a, %a; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) wide(.param .b64 x) { st.param.b32 [r], 0; ret; }
.func (.param .b32 r) twice(.param .b32 x, .param .b64 f) { .reg .b32 %a; .reg .b64 %f;
  ld.param.b32 %a, [x]; ld.param.u64 %f, [f];
  { .param .b32 p; .param .b32 q; st.param.b32 [p], %a; proto: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (q), %f, (p), proto; ld.param.b32 %a, [q]; st.param.b32 [p], %a; call (q), %f, (p), proto; ld.param.b32 %a, [q]; }
  st.param.b32 [r], %a; ret; }
.global .align 8 .u64 table[4] = {f0, f1, f2, wide};
"""
PURE = [lambda v: v + 1 & WORD, lambda v: v * 3 & WORD, lambda v: ~v & WORD]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, WORD >> 2)), min_size=1, max_size=40))
@examples(20)
def test_threads_call_what_their_pointers_name(asked: list[tuple[int, int]]) -> None:
    given = np.array([which | n << 2 for which, n in asked], np.uint32)
    body = f"""{LOAD}
    and.b32 %r3, %r2, 3; mul.wide.u32 %d4, %r3, 8; mov.u64 %d5, table; add.u64 %d5, %d5, %d4; ld.global.u64 %d6, [%d5];
    {{ .param .b32 a; .param .b64 b; .param .b32 r; st.param.b32 [a], %r2; st.param.b64 [b], %d6;
       call.uni (r), twice, (a, b); ld.param.b32 %r9, [r]; }}
    {STORE}"""
    (_, found), findings = run(FUNCTIONS, body, given, np.zeros_like(given), block=len(given))
    assert findings == []
    assert found.tolist() == [PURE[which](PURE[which](which | n << 2)) for which, n in asked]


@pytest.mark.parametrize(
    ("pointer", "says"),
    [
        ("mov.u64 %d6, 0;", "calls address 0x0"),
        ("mov.u64 %d6, f0; add.u64 %d6, %d6, 4;", "no function"),
        ("mov.u64 %d6, wide;", "other sizes"),
    ],
)
def test_pointers_to_no_function_of_that_kind(pointer: str, says: str) -> None:
    call = "{ .param .b32 a; .param .b32 r; st.param.b32 [a], 1; them: .calltargets f0, f1, wide; call (r), %d6, (a), them; }"
    _, findings = run(FUNCTIONS, pointer + call, block=32)
    assert [f.code for f in findings] == ["X015"]
    assert says in findings[0].message


# A function that calls no other one: two predicates of one comparison, a table of targets, and a label behind its end.
CHOOSES = """
.func (.reg .b32 r) choose(.reg .b32 a, .reg .b32 b) {
.reg .pred %p<3>; .reg .b32 %s<4>;
setp.lt.u32 %p1|%p2, a, b;
selp.u32 %s1, 100, 0, %p1; selp.u32 %s2, 1, 0, %p2; add.u32 r, %s1, %s2;
and.b32 %s3, a, 1;
TABLE: .branchtargets EVEN, ODD;
brx.idx %s3, TABLE;
ODD: add.u32 r, r, 10;
setp.gt.u32 %p1, b, 40; @%p1 bra END;
EVEN: add.u32 r, r, 20;
END:
}
"""
COUNTS = """
.func (.param .b32 r) even(.param .b32 n);
.func (.param .b32 r) odd(.param .b32 n) { .reg .b32 %s<3>; .reg .pred %p; ld.param.u32 %s0, [n]; mov.u32 %s1, 0; setp.eq.u32 %p, %s0, 0; @%p bra OUT;
  sub.u32 %s0, %s0, 1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %s0; call.uni (b), even, (a); ld.param.b32 %s1, [b]; } OUT: st.param.b32 [r], %s1; ret; }
.func (.param .b32 r) even(.param .b32 n) { .reg .b32 %s<3>; .reg .pred %p; ld.param.u32 %s0, [n]; mov.u32 %s1, 1; setp.eq.u32 %p, %s0, 0; @%p bra OUT;
  sub.u32 %s0, %s0, 1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %s0; call.uni (b), odd, (a); ld.param.b32 %s1, [b]; } OUT: st.param.b32 [r], %s1; ret; }
"""


@pytest.mark.parametrize("guard", ["", "@%p5 ", "@!%p5 "])
def test_a_function_that_is_inlined_does_what_it_says_for_those_who_call_it(guard: str) -> None:
    given = np.arange(64, dtype=np.uint32)
    body = f"{LOAD} mov.u32 %r9, 7; setp.lt.u32 %p5, %r2, 50; sub.u32 %r3, 63, %r2; {guard}call (%r9), choose, (%r2, %r3); {STORE}"
    (_, found), findings = run(CHOOSES, body, given, np.zeros_like(given), block=64)

    def choose(a: int, b: int) -> int:
        r = 100 if a < b else 1
        return r + (10 + 20 * (b <= 40) if a & 1 else 20)

    calls = {"": range(64), "@%p5 ": range(50), "@!%p5 ": range(50, 64)}[guard]
    assert findings == []
    assert found.tolist() == [choose(a, 63 - a) if a in calls else 7 for a in range(64)]


def test_two_functions_may_call_each_other() -> None:
    given = np.arange(32, dtype=np.uint32)
    call = "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call.uni (r), even, (a); ld.param.b32 %r9, [r]; }"
    (_, found), findings = run(COUNTS, f"{LOAD} {call} {STORE}", given, np.zeros_like(given), block=32)
    assert findings == []
    assert found.tolist() == [1, 0] * 16


def test_functions_whose_calls_multiply_are_called_instead_of_inlined() -> None:
    """20 functions that each call the one before twice: a million copies of the first, were they inlined."""
    first = ".func (.reg .b32 r) g0(.reg .b32 x) { add.u32 r, x, 1; ret; }\n"
    more = "".join(
        f".func (.reg .b32 r) g{n}(.reg .b32 x) {{ .reg .pred p; .reg .b32 a; call (a), g{n - 1}, (x); setp.eq.u32 p, x, 77;\n"
        f"mov.u32 r, a; @p call (r), g{n - 1}, (a); ret; }}\n"
        for n in range(1, 21)
    )
    (_, found), findings = run(first + more, f"{LOAD} call (%r9), g20, (%r2); {STORE}", *[np.arange(32, dtype=np.uint32)] * 2, block=32)
    assert findings == []
    assert found.tolist() == list(range(1, 33))


ALLOCA = """
.func (.param .b32 result) squares(.param .b32 n) {
.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<8>;
ld.param.u32 %r1, [n]; mul.wide.u32 %rd1, %r1, 64;
alloca.u64 %rd2, %rd1, 64;
and.b64 %rd5, %rd2, 63; cvt.u32.u64 %r7, %rd5;
mov.u32 %r2, 0;
FILL: mul.wide.u32 %rd3, %r2, 4; add.u64 %rd3, %rd2, %rd3; mul.lo.u32 %r3, %r2, %r2; st.local.u32 [%rd3], %r3;
add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1; @%p bra FILL;
mov.u32 %r4, %r7;
SUM: sub.u32 %r2, %r2, 1; mul.wide.u32 %rd3, %r2, 4; add.u64 %rd3, %rd2, %rd3; ld.local.u32 %r3, [%rd3]; mad.lo.u32 %r4, %r4, 3, %r3;
setp.ne.u32 %p, %r2, 0; @%p bra SUM;
st.param.b32 [result], %r4; ret; }
"""


def test_alloca_gives_room_until_the_function_returns() -> None:
    """A hundred arrays of a KiB would not fit were they kept."""
    lengths = np.arange(1, 17, dtype=np.uint32)
    body = f"""{LOAD} mov.u32 %r5, 0;
    AGAIN: {{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call.uni (r), squares, (a); ld.param.b32 %r9, [r]; }}
    add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 100; @%p1 bra AGAIN;
    {STORE}"""
    (_, found), findings = run(ALLOCA, body, lengths, np.zeros_like(lengths), block=16)

    def squares(n: int) -> int:
        total = 0
        for k in reversed(range(n)):
            total = total * 3 + k * k
        return total & WORD

    assert findings == []
    assert found.tolist() == [squares(n) for n in lengths.tolist()]


def test_stackrestore_gives_back_what_came_after_stacksave() -> None:
    body = """stacksave.u64 %d1; alloca.u64 %d2, 4096; st.local.u32 [%d2+4092], %r1;
    stackrestore.u64 %d1; alloca.u64 %d3, 16; sub.u64 %d4, %d3, %d2; mad.wide.u32 %d5, %r1, 8, %d20; st.global.u64 [%d5], %d4;"""
    (found,), findings = run("", body, np.ones(4, np.int64), block=4)
    assert findings == []
    assert found.tolist() == [0] * 4
    _, findings = run("", "stackrestore.u64 48000;", block=4)
    assert [f.code for f in findings] == ["X015"]
    _, findings = run("", "alloca.u64 %d2, 1000000;", block=4)
    assert [f.code for f in findings] == ["X001"]


def test_printf_in_a_function_that_calls_itself() -> None:
    text = """
    .extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
    .global .align 1 .b8 format[4] = {37, 117, 32, 0};
    .func count(.param .b32 n) { .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>; .local .align 8 .b8 room[8];
    ld.param.u32 %r1, [n]; st.local.u32 [room], %r1; mov.u64 %rd1, room; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, format;
    cvta.global.u64 %rd2, %rd2;
    { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd2; st.param.b64 [b], %rd1; call (r), vprintf, (a, b); }
    setp.eq.u32 %p, %r1, 0; @%p ret;
    sub.u32 %r1, %r1, 1;
    { .param .b32 a; st.param.b32 [a], %r1; call.uni count, (a); }
    ret; }
    """
    device = Device("sm_90a")
    body = "{ .param .b32 a; st.param.b32 [a], 5; call.uni count, (a); }"
    done = device.launch(kernel(0, body, variables=text), "k", block=1)
    assert "".join(done.result.output) == "5 4 3 2 1 0 "


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("call (%r2), ackermann, (%r1);", "takes 2 arguments"),
        ("call %d1, (%r1);", "callprototype"),
        ("call.uni.sync (%r2), ackermann, (%r1, %r1);", "no word but .uni"),
        ("P: .callprototype _ (.param .b64 _); call %d1, (%r1, %r1), P;", "takes 1 arguments"),
    ],
)
def test_calls_that_do_not_fit(body: str, says: str) -> None:
    with pytest.raises((InputError, Unmodelled), match=says):
        run(ACKERMANN, body, block=1)


def test_functions_have_shared_variables_of_their_own() -> None:
    """A name that three functions have is three variables, of which all calls of a function have the same one."""
    functions = """
.func put(.reg .b32 n) { .shared .b32 own; st.shared.b32 [own], n; ret; }
.func (.reg .b32 n) add(.reg .b32 m) { .shared .b32 own; .reg .b32 t; ld.shared.b32 t, [own]; add.u32 n, t, m; st.shared.b32 [own], n; ret; }
"""
    body = """mov.u32 %r2, own; st.shared.b32 [own], 5; call put, (7); st.global.b32 [%d20], %r2;
add.u32 %r3, %r2, 4; st.shared.b32 [%r3], 0; add.u32 %r3, %r2, 8; st.shared.b32 [%r3], 0;
call (%r4), add, (2); call (%r4), add, (3); ld.shared.b32 %r5, [own]; st.global.b32 [%d20], %r5; st.global.b32 [%d20+4], %r4;"""
    device = Device()
    out = device.array(np.zeros(2, np.uint32))
    launch = device.launch(kernel(1, body, variables=functions, locals_=".shared .b32 own;"), args=[out])
    assert out.numpy().tolist() == [5, 5]
    assert launch.program.places.dynamic_begin - launch.program.places.of("own").offset == 12
