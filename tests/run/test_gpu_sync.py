"""Threads that meet: warp operations against the loops of the PTX ISA, barriers that let nobody through early,
mbarriers against an automaton.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import Device, found, kernel, launch, results, run
from smemsim import Gpu, InputError, TensorMap, Unmodelled
from strategies import examples

N = 128
T = np.arange(N)
FULL = 0xFFFFFFFF
OWN = "mov.u32 %r5, sm; mad.lo.u32 %r4, %r1, 4, %r5;"  # %r4: the thread's word of shared memory

# ---- warp operations


def shuffled(mode, a, b, c):
    """PTX ISA 9.1 §9.7.9.6, as the loop that it is."""
    out, inside = [], []
    for lane in range(32):
        clamp, segment = c & 31, c >> 8 & 31
        last, first = (lane & segment) | (clamp & ~segment), lane & segment
        by = b & 31
        if mode == "up":
            j, p = lane - by, lane - by >= last
        elif mode == "down":
            j, p = lane + by, lane + by <= last
        elif mode == "bfly":
            j, p = lane ^ by, lane ^ by <= last
        else:
            j = first | (by & ~segment)
            p = j <= last
        out.append(a[j] if p else a[lane])
        inside.append(p)
    return out, inside


@examples(40)
@given(
    mode=st.sampled_from(["up", "down", "bfly", "idx"]), b=st.integers(0, 63), width=st.sampled_from([1, 2, 4, 8, 16, 32]), c=st.integers(0, 0x1F1F),
    usual=st.booleans(), register=st.booleans(),
)  # fmt: skip
def test_shfl_is_the_definition(mode, b, width, c, usual, register):
    if usual:  # what __shfl_sync makes of a width
        c = (32 - width) << 8 | (0 if mode == "up" else 31)
    by = f"mov.u32 %r6, {b}; mov.u32 %r7, {c};" if register else ""
    operands = "%r6, %r7" if register else f"{b}, {c}"
    body = f"{by} mad.lo.u32 %r3, %r1, 7, 5; shfl.sync.{mode}.b32 %r2|%p1, %r3, {operands}, -1; @%p1 or.b32 %r2, %r2, 0x10000;"
    got = results(body)
    out, inside = shuffled(mode, [7 * t + 5 for t in range(32)], b, c)
    assert got.tolist() == [v | 0x10000 * p for v, p in zip(out, inside, strict=True)]


@examples(30)
@given(mask=st.integers(1, FULL), word=st.integers(0, FULL), values=st.lists(st.integers(-3, 3), min_size=32, max_size=32))
def test_votes_matches_and_reductions_of_members(mask, word, values):
    """Members meet in the branch, the others are elsewhere and meet there; every one of them sees its own group."""
    table = np.array(values, np.int32)
    groups = [mask, ~mask & FULL]

    def run(operation):
        body = f"""mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d21, %d1; ld.global.b32 %r6, [%d2]; shr.u32 %r3, {mask}, %r1; and.b32 %r3, %r3, 1;
        shr.u32 %r8, {word}, %r1; and.b32 %r8, %r8, 1; setp.eq.u32 %p2, %r8, 1; setp.eq.u32 %p1, %r3, 1; mov.u32 %r2, 9;
        @%p1 bra A; {operation.replace("MASK", str(groups[1]))} bra B; A: {operation.replace("MASK", str(mask))} B: bar.warp.sync -1;
        add.u64 %d3, %d20, %d1; st.global.b32 [%d3], %r2;"""
        return launch(body, np.zeros(32, np.int32), table, expected=("X011",) if "shfl" in operation else ())[0]

    def of(t):
        mine = groups[0] if mask >> t & 1 else groups[1]
        return mine, [u for u in range(32) if mine >> u & 1]

    def expect(f):
        return [f(t, *of(t)) for t in range(32)]

    bits = lambda lanes: sum(1 << u for u in lanes)  # noqa: E731
    as_bits = lambda found: found.view(np.uint32).tolist()  # noqa: E731
    assert as_bits(run("vote.sync.ballot.b32 %r2, %p2, MASK;")) == expect(lambda t, m, us: word & m)
    assert as_bits(run("shfl.bfly.b32.sync %r2, %r6, 3, 31, MASK;")) == as_bits(
        run("shfl.sync.bfly.b32 %r2, %r6, 3, 31, MASK;")
    )  # ptxas takes any order
    assert as_bits(run("vote.ballot.sync.b32 %r2, %p2, MASK;")) == expect(lambda t, m, us: word & m)  # as CUB writes it
    flag = "selp.b32 %r2, 1, 0, %p3;"
    assert run(f"vote.sync.all.pred %p3, %p2, MASK; {flag}").tolist() == expect(lambda t, m, us: int(word & m == m))
    assert run(f"vote.sync.any.pred %p3, %p2, MASK; {flag}").tolist() == expect(lambda t, m, us: int(word & m != 0))
    assert run(f"vote.sync.uni.pred %p3, %p2, MASK; {flag}").tolist() == expect(lambda t, m, us: int(word & m in (0, m)))
    assert as_bits(run("match.any.sync.b32 %r2, %r6, MASK;")) == expect(lambda t, m, us: bits(u for u in us if values[u] == values[t]))
    assert as_bits(run("match.all.sync.b32 %r2|%p4, %r6, MASK;")) == expect(lambda t, m, us: m if len({values[u] for u in us}) == 1 else 0)
    assert run("redux.sync.add.s32 %r2, %r6, MASK;").tolist() == expect(lambda t, m, us: sum(values[u] for u in us))
    assert run("redux.sync.min.s32 %r2, %r6, MASK;").tolist() == expect(lambda t, m, us: min(values[u] for u in us))
    assert as_bits(run("redux.sync.max.u32 %r2, %r6, MASK;")) == expect(lambda t, m, us: max(values[u] & FULL for u in us))
    assert as_bits(run("redux.sync.xor.b32 %r2, %r6, MASK;")) == expect(
        lambda t, m, us: int(np.bitwise_xor.reduce(table[us].view(np.uint32)))
    )
    assert run("elect.sync %r2|%p4, MASK;").tolist() == expect(lambda t, m, us: us[0])
    assert as_bits(run("activemask.b32 %r2;")) == expect(lambda t, m, us: m)


@pytest.mark.parametrize(("flags", "expected"), [("", [-2.0, 3.0]), (".NaN", [None, None]), (".abs", [0.5, 3.0])])
def test_redux_of_floats(flags, expected):
    values = np.array([0.5, -2.0, 3.0, np.nan] * 8, np.float32)
    for op, wanted in zip(("min", "max"), expected, strict=True):
        body = f"mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; ld.global.b32 %r3, [%d2]; redux.sync.{op}{flags}.f32 %r2, %r3, -1; st.global.b32 [%d2], %r2;"
        (out,) = launch(body, values, arch="sm_100a")
        assert (np.isnan(out).all() and (out.view(np.uint32) == 0x7FFFFFFF).all()) if wanted is None else (out == wanted).all()
        with pytest.raises(InputError, match="sm_100a"):
            launch(body, values)


def test_lanes_that_are_gone_are_not_waited_for():
    """Threads that exited, before or while others wait, and the missing lanes of a last warp."""
    body = "setp.gt.u32 %p1, %r1, 39; @%p1 bra X; redux.sync.add.u32 %r2, 1, -1; bra Y; X: exit; Y:"
    assert results(body, block=48).tolist() == [32] * 32 + [8] * 8 + [0] * 8
    body = "setp.lt.u32 %p1, %r1, 8; @%p1 bra X; bra Z; Y: vote.sync.ballot.b32 %r2, %p1, -1; bra E; Z: bra Y; X: nanosleep.u32 100; nanosleep.u32 100; exit; E:"
    assert results(body)[8:].tolist() == [0] * 24


def test_lanes_that_wait_at_the_first_instruction_go_on_after_the_others_have_exited():
    """The kernel begins with a barrier, to which half of each warp goes back. Nothing is in front of it to set %r2 to 0."""
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0) { .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %p<3>;
TOP: bar.warp.sync -1; add.u32 %r2, %r2, 1; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r2, 2; @%p1 bra END;
and.b32 %r3, %r1, 16; setp.eq.u32 %p2, %r3, 0; @!%p2 bra GONE; bra TOP; GONE: exit;
END: ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r2; ret; }"""
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros(64, np.uint32))
    done = gpu.launch(text, block=64, args=[out], progress=False)
    assert {f.code for f in done.findings} == {"R507"}
    assert out.numpy().tolist() == ([2] * 16 + [0] * 16) * 2


def test_bar_warp_sync_of_both_sides_of_a_branch_is_one():
    """PTX ISA 9.1 §9.7.13.2 asks for a bar.warp.sync with the same mask, not for the same instruction; sides of another
    length meet as well.
    """
    put = "st.shared.b32 [%r4], %r1; bar.warp.sync -1; xor.b32 %r6, %r4, 64; ld.shared.b32 %r2, [%r6];"
    for more in ("", "bar.warp.sync -1; bar.warp.sync 0xffff0000; bar.warp.sync -1;"):
        body = f"{OWN} setp.lt.u32 %p1, %r1, 16; @%p1 bra A; {put} {more} bra B; A: {put} {more.replace('ffff0000', '0000ffff')} B:"
        assert results(body).tolist() == (np.arange(32) ^ 16).tolist()


@pytest.mark.parametrize("mask", ["-1", "%r9"], ids=["all lanes", "a register"])
@pytest.mark.parametrize(
    "whole", ["", "setp.ge.u32 %p5, %r1, 32; @%p5 mov.u32 %r7, 1;"], ids=["warps alike", "the second warp in one piece"]
)
def test_halves_of_a_warp_that_change_sides_each_round_meet_in_every_round(whole, mask):
    """A half comes to the barrier that the other one is still before: it waits there for the next round."""
    exchange = "st.shared.b32 [%r4], %r2; bar.warp.sync {}; xor.b32 %r6, %r4, 64; ld.shared.b32 %r8, [%r6]; bar.warp.sync {}; add.u32 %r2, %r2, %r8;"
    exchange = exchange.format(mask, mask)
    body = f"""{OWN} mov.u32 %r2, %r1; mov.u32 %r3, 0; mov.u32 %r9, -1; shr.u32 %r7, %r1, 4; and.b32 %r7, %r7, 1; {whole}
AGAIN: setp.eq.u32 %p1, %r3, 4; @%p1 bra END; xor.b32 %r6, %r3, %r7; add.u32 %r3, %r3, 1; and.b32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0; @%p1 bra B;
        {exchange} bra AGAIN; B: {exchange} bra AGAIN; END:"""
    wanted = np.arange(64)
    for _ in range(4):
        wanted = wanted + wanted[np.arange(64) ^ 16]
    assert results(body, block=64).tolist() == wanted.tolist()


def test_a_barrier_that_is_initialised_again_has_its_bytes_counted():
    body = """mov.u32 %r5, sm; mbarrier.init.shared.b64 [%r5], 1; mbarrier.expect_tx.relaxed.cta.shared.b64 [%r5], 32;
        mbarrier.init.shared.b64 [%r5], 1;"""
    assert "expects 32 bytes" in found(body, block=1)["T210"]


def test_whoever_looks_at_many_barriers_in_turn_finds_the_complete_one():
    """mbarrier.try_wait gives up after a while, also when nobody else is left who could do something meanwhile."""
    names = [f"[%r5+{8 * k}]" for k in range(10)]
    begin = "".join(f"@%p9 mbarrier.init.shared.b64 {name}, 1;" for name in names)
    looks = "".join(f"mbarrier.try_wait.parity.shared.b64 %p1, {name}, 0; mov.u32 %r2, {k}; @%p1 bra B;" for k, name in enumerate(names))
    body = f"mov.u32 %r5, sm; {begin} bar.sync 0; @%p9 mbarrier.arrive.shared.b64 _, {names[-1]}; bar.sync 0; A: {looks} bra A; B:"
    assert results(body).tolist() == [9] * 32


def test_what_stands_before_a_guarded_wait_is_done_once():
    """Threads that come back to an instruction that made them wait come back to nothing in front of it."""
    body = """mov.u32 %r5, sm; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32; setp.eq.u32 %p3, %r1, 40; mov.u32 %r2, 0;
        @%p1 mbarrier.init.shared.b64 [%r5], 1; bar.sync 0; @!%p2 bra A;
        add.u32 %r2, %r2, 1; @%p2 mbarrier.try_wait.parity.shared.b64 %p4, [%r5], 0; bra B;
        A: @%p3 mbarrier.arrive.shared.b64 _, [%r5]; B:"""
    assert results(body, block=64).tolist() == [1] * 32 + [0] * 32


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("add.u32 %r4, %r1, 100; shfl.sync.up.b32 %r2, %r4, 16, 0, 0xffff;", [100 + t % 16 for t in range(32)]),
        ("vote.sync.ballot.b32 %r2, 1, 0xffff;", [0xFFFF] * 32),
        ("redux.sync.add.u32 %r2, %r1, 0xffff;", [120] * 32),
    ],
)
def test_a_thread_outside_its_own_mask_is_told_and_goes_on(operation, wanted):
    """Its lanes have converged, so that all take part in a shuffle; what lanes in the mask get is not touched by it."""
    assert results(operation, expected=("X011",)).tolist() == wanted
    assert "thread (16, 0, 0)" in found(operation)["X011"]
    inside = f"setp.lt.u32 %p1, %r1, 16; mov.u32 %r2, 7; @!%p1 bra B; {operation} B:"
    assert results(inside).tolist() == wanted[:16] + [7] * 16


def test_old_warp_operations_are_refused():
    for form in ("shfl.up.b32 %r2, %r1, 1, 0;", "vote.ballot.b32 %r2, %p1;"):
        with pytest.raises(Unmodelled, match="sync"):
            results(form)


# ---- divergence


@examples(15)
@given(counts=st.lists(st.integers(0, 5), min_size=N, max_size=N), inner=st.integers(0, 3))
def test_nested_loops_of_different_lengths_meet_again(counts, inner):
    """Every thread runs its own number of rounds, each with an inner loop that depends on both; behind them the warp is
    whole again.
    """
    body = f"""mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d21, %d1; ld.global.u32 %r3, [%d2]; mov.u32 %r2, 0; mov.u32 %r4, 0;
    O: setp.ge.u32 %p1, %r4, %r3; @%p1 bra E; mov.u32 %r5, 0; add.u32 %r6, %r1, %r4; and.b32 %r6, %r6, {inner};
    I: setp.ge.u32 %p2, %r5, %r6; @%p2 bra J; add.u32 %r2, %r2, 1; add.u32 %r5, %r5, 1; bra I;
    J: add.u32 %r4, %r4, 1; add.u32 %r2, %r2, 100; bra O;
    E: shfl.sync.bfly.b32 %r7, %r2, 1, 31, -1; activemask.b32 %r8; setp.ne.u32 %p3, %r8, -1; @%p3 mov.u32 %r7, 0;
    add.u64 %d3, %d20, %d1; st.global.u32 [%d3], %r7;"""
    out, _ = launch(body, np.zeros(N, np.uint32), np.array(counts, np.uint32), block=N)
    own = [sum(100 + ((t + k) & inner) for k in range(counts[t])) for t in range(N)]
    assert out.tolist() == [own[t ^ 1] for t in range(N)]


def test_behind_a_loop_of_a_thousand_rounds_a_warp_is_whole_again():
    """The lanes that leave it first wait for the last one, as on the card: activemask, which PTX leaves open, has them
    all.
    """
    body = """mul.lo.u32 %r3, %r1, 90; mov.u32 %r4, 0;
    L: setp.ge.u32 %p1, %r4, %r3; @%p1 bra E; add.u32 %r4, %r4, 1; bra L;
    E: activemask.b32 %r2;"""
    assert (results(body) == FULL).all()


def test_a_lane_that_takes_no_part_is_read_as_zero():
    """Lanes 16 to 23 are elsewhere, 24 to 31 have exited."""
    body = """add.u32 %r3, %r1, 100; mov.u32 %r2, 7; setp.ge.u32 %p1, %r1, 24; @%p1 exit; setp.ge.u32 %p2, %r1, 16; @%p2 bra E;
    xor.b32 %r4, %r1, 16; shfl.sync.idx.b32 %r2, %r3, %r4, 31, 0xffff; shfl.sync.bfly.b32 %r5, %r3, 1, 31, 0xffff; add.u32 %r2, %r2, %r5;
    E:"""
    assert results(body, expected=("X011",)).tolist() == [100 + (t ^ 1) for t in range(16)] + [7] * 8 + [0] * 8


# ---- barriers of a CTA


@examples(15)
@given(rounds=st.integers(1, 4), slow=st.integers(0, 3), stride=st.sampled_from([1, 33, 64, 127]))
def test_nobody_passes_a_barrier_early(rounds, slow, stride):
    """Each round every thread reads what another one wrote; one warp dawdles in a loop of its own."""
    body = f"""{OWN} mov.u32 %r2, 0; shr.u32 %r3, %r1, 5; add.u32 %r6, %r1, {stride}; and.b32 %r6, %r6, {N - 1}; mad.lo.u32 %r6, %r6, 4, %r5;
    mov.u32 %r7, 0;
    R: setp.ne.u32 %p1, %r3, {slow}; @%p1 bra F; mov.u32 %r8, 0; S: add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 20; @%p2 bra S;
    F: mad.lo.u32 %r9, %r7, 1000, %r1; st.shared.u32 [%r4], %r9; bar.sync 0; ld.shared.u32 %r10, [%r6]; add.u32 %r2, %r2, %r10;
    barrier.sync.aligned 0, {N}; add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, {rounds}; @%p3 bra R;"""
    other = (T + stride) % N
    assert results(body, block=N).tolist() == (rounds * other + 1000 * (rounds * (rounds - 1) // 2)).tolist()


def test_producers_arrive_and_consumers_wait():
    """Named barriers, both ways: full and empty, over several rounds, in several CTAs."""
    body = """mov.u32 %r5, sm; and.b32 %r3, %r1, 63; mad.lo.u32 %r4, %r3, 4, %r5; mov.u32 %r7, 0; mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 64; @%p1 bra P;
    C: bar.sync 1, 128; ld.shared.u32 %r6, [%r4]; add.u32 %r2, %r2, %r6; bar.arrive 2, 128; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 3; @%p2 bra C; bra E;
    P: setp.eq.u32 %p3, %r7, 0; @%p3 bra Q; bar.sync 2, 128; Q: mad.lo.u32 %r6, %r7, 100, %r3; st.shared.u32 [%r4], %r6; bar.arrive 1, 128;
    add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 3; @%p2 bra P; bar.sync 2, 128; E:"""
    for row in results(body, block=N, grid=5):
        assert row.tolist() == [0] * 64 + [3 * t + 300 for t in range(64)]


def test_reductions_over_a_cta():
    for block in (32, 100, 128):
        expected = sum(t % 3 == 0 for t in range(block))
        vote = "rem.u32 %r3, %r1, 3; setp.eq.u32 %p1, %r3, 0; "
        assert set(results(vote + "barrier.cta.red.popc.aligned.u32 %r2, 0, %p1;", block=block).tolist()) == {expected}
        assert set(results(vote + "bar.red.or.pred %p2, 3, %p1; selp.u32 %r2, 1, 0, %p2;", block=block).tolist()) == {1}
        assert set(results(vote + "bar.red.and.pred %p2, 3, !%p1; selp.u32 %r2, 1, 0, %p2;", block=block).tolist()) == {0}


@pytest.mark.parametrize(
    ("first", "others", "codes"),
    [
        ("bar.red.popc.u32 %r2, 0, %p2;", "bar.sync 0;", {"X010"}),
        ("bar.red.popc.u32 %r2, 1, 128, %p2; bar.sync 1, 128;", "bar.arrive 1, 128; bar.sync 1, 128;", {"X010"}),
        ("bar.red.popc.u32 %r2, 0, %p2;", "bar.red.and.pred %p3, 0, %p2;", {"X010"}),
        ("bar.red.popc.u32 %r2, 0, %p2;", "bar.red.popc.u32 %r2, 0, %p2;", set()),
        ("bar.red.popc.u32 %r2, 0, %p2; bar.sync 0;", "bar.red.popc.u32 %r2, 0, %p2; bar.sync 0;", set()),
        ("bar.red.popc.u32 %r2, 1, 32, %p2; bar.sync 0;", "bar.sync 0;", set()),
    ],
    ids=["sync", "arrive", "another reduction", "two reductions", "in turn", "another barrier"],
)
def test_a_reduction_meets_reductions_only(first, others, codes):
    """Warp 0 executes the first, warps 1 to 3 the others. An H200 ends the wrong ones with error 715."""
    body = f"setp.ge.u32 %p1, %r1, 32; setp.lt.u32 %p2, %r1, 5; @%p1 bra O; {first} bra E; O: {others} E:"
    done, _ = run(body, [np.zeros(N, np.uint32)], block=N)
    assert {f.code for f in done.result.findings.values()} == codes
    assert done.result.status == (715 if codes else 0)


@pytest.mark.parametrize("arrive", ["mov.u32 %r2, 5; bar.arrive 1, 64;", "bar.arrive 1, 64;"], ids=["with a mov", "alone"])
@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
def test_an_arrival_beside_a_reduction_is_named_once(arrive, is_last):
    """Warp 0 or 1 arrives, by a line that may have other instructions, and the other one reduces."""
    parts = [arrive, "bar.red.popc.u32 %r2, 1, 64, %p2;"]
    first, then = reversed(parts) if is_last else parts
    body = f"setp.ge.u32 %p1, %r1, 32; setp.lt.u32 %p2, %r1, 5; @%p1 bra O;\n{first}\nbra E;\nO:\n{then}\nE:"
    done, _ = run(body, [np.zeros(64, np.uint32)], block=64)
    (finding,) = done.result.findings.values()
    assert finding.code == "X010"
    assert "others bar.arrive" in finding.message


@pytest.mark.parametrize(
    ("count", "sync", "codes"),
    [(160, "@%p1 bar.sync 1, 160;", set()), (128, "@%p1 bar.sync 1, 128;", {"X006"}), (160, "", {"X008"})],
    ids=["counts twice", "one warp too few", "does not wait"],
)
def test_a_warp_that_has_arrived_and_waits_counts_once_more(count, sync, codes):
    """All four warps fill a tile and arrive, and the last of them waits for all and takes it."""
    body = f"""{OWN} setp.ge.u32 %p1, %r1, 96; st.shared.u32 [%r4], %r1; bar.arrive 1, {count}; {sync}
    @!%p1 bra E; xor.b32 %r6, %r4, 256; ld.shared.u32 %r2, [%r6]; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; st.global.u32 [%d1], %r2; E:"""
    done, (out,) = run(body, [np.zeros(N, np.uint32)], block=N)
    assert {f.code for f in done.result.findings.values()} == codes
    if not codes:
        assert out.numpy().tolist() == [0] * 96 + list(range(32, 64))


def test_barriers_do_not_wait_for_those_who_left():
    body = "setp.lt.u32 %p1, %r1, 64; @%p1 bra W; nanosleep.u32 9; exit; W: bar.sync 0; mov.u32 %r2, 1;"
    assert results(body, block=N).tolist() == [1] * 64 + [0] * 64


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("bar.sync 1, 64;", "128 threads have arrived at barrier 1, which is for 64"),
        ("bar.sync 1, 96;", "128 threads have arrived at barrier 1, which is for 96"),
        ("bar.arrive 1, 256; bar.arrive 1, 256;", "twice in one phase"),
        ("mov.u32 %r3, 40; bar.sync 1, %r3;", "multiple of 32"),
        ("mov.u32 %r3, 16; bar.sync %r3;", "0 to 15"),
        ("setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.arrive 1, 160; bra B; A: bar.sync 1, 192; B:", "for 192 threads here, and for 160"),
        ("barrier.cluster.wait.aligned;", "without having arrived"),
        ("barrier.cluster.arrive; barrier.cluster.arrive;", "twice without"),
        ("barrier.cluster.arrive; bar.sync 0; barrier.cluster.arrive;", "twice without"),
    ],
)
def test_barriers_that_are_used_as_no_barrier_can_be(body, words):
    assert words in found(body, block=N)["X010"]


@pytest.mark.parametrize(("count", "comes"), [(64, [1] * N), (96, [1] * 96 + [0] * 32)])
def test_more_warps_than_a_barrier_counts_meet_in_turn(count, comes):
    """As on an H200: four warps at a barrier for two go on, and of four at one for three the last waits for ever."""
    out = np.zeros(N, np.uint32)
    done, (out,) = run(
        f"{OWN} bar.sync 1, {count}; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; st.global.u32 [%d1], 1;", [out], block=N
    )
    assert [f.code for f in done.result.findings.values()] == ["X010"] + ["X006"] * (0 in comes)
    assert out.numpy().tolist() == comes


def test_a_barrier_of_one_warp_is_complete_with_each_of_them():
    """TLX's test_named_barrier_wait_1warp_async_deadlock_single_proc, which its project runs on H100 and B200: four
    warps at a barrier of 32 threads.
    """
    assert results("bar.sync 14, 32; mov.u32 %r2, 1;", block=N).tolist() == [1] * N
    body = "setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 14, 32; barrier.cta.red.popc.aligned.u32 %r2, 3, 32, %p1;"
    assert results(body, block=N).tolist() == [32] * 32 + [0] * 96


def test_who_meets_one_that_has_waited_for_the_cluster_may_arrive_again():
    """Warps 2 and 3 arrive and do not wait; they hear of the phase's end at a barrier of their CTA, as the warps of
    Triton's kernels that wait for work do.
    """
    body = """setp.ge.u32 %p1, %r1, 64; barrier.cluster.arrive.relaxed; @%p1 bra W; barrier.cluster.wait;
    W: bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r2, 1;"""
    assert results(body, block=N).tolist() == [1] * N
    body = body.replace("W: bar.sync 0;", "bar.sync 0; W:")
    assert "twice without" in found(body, block=N)["X010"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "@%p9 bar.sync 1, 64;",
            "1 thread has arrived (warp 0, line 14); it is for 64, so 32 more must come; warps 1 to 3 ended without arriving",
        ),
        ("setp.lt.u32 %p1, %r1, 96; @%p1 bar.sync 1, 128;", "96 threads have arrived (warps 0 to 2"),
        ("@%p9 bra L; bar.sync 2; bra M;\nL: bar.sync 3, 64; M:", "127 threads have arrived (warps 0 to 3"),
        (
            "@%p9 bra L; barrier.cluster.arrive; barrier.cluster.wait; bra M;\nL: bar.sync 3, 64; M:",
            "; lane 0 of warp 0 of CTA (0, 0, 0) waits at line 15 (bar.sync)",
        ),
        (
            "@%p9 mbarrier.init.shared::cta.b64 [bar], 129; bar.sync 0; mbarrier.arrive.shared::cta.b64 %d5, [bar]; "
            "W: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %d5; @!%p1 bra W;",
            "1 of 129 arrivals is missing; so far: arrivals by line",
        ),
        (
            "@%p9 mbarrier.init.shared::cta.b64 [bar], 129; bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [bar]; "
            "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;",
            "arrived: warps 0 to 3 of CTA (0, 0, 0)",
        ),
        (
            "@%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64; bar.sync 0; "
            "@%p9 mbarrier.complete_tx.shared::cta.b64 [bar], 60; W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;",
            "4 of the 64 expected bytes are missing; so far: arrivals by line",
        ),
    ],
)
def test_a_barrier_that_somebody_never_reaches_hangs(body, words):
    messages = found(body, block=N)
    assert set(messages) - {"T210"} == {"X006"}
    assert words in messages["X006"]


@pytest.mark.parametrize(("waits", "ended"), [(True, "warp 3 ended"), (False, "warps 2, 3 ended")])
def test_a_warp_of_which_one_lane_waits_has_not_ended(waits, ended):
    """Lane 0 of warp 2 waits for an arrival that never comes; its other lanes, and warp 3, have exited."""
    body = f"""@%p9 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0; setp.lt.u32 %p1, %r1, 64; @%p1 bra MEET;
    setp.ne.u32 %p2, %r1, 64; @%p2 exit; {"W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W;" * waits} exit; MEET: bar.sync 1, 128;"""
    done, _ = run(body, [], block=N)
    (why,) = (f.why for f in done.result.findings.values() if "barrier 1" in f.why)
    assert why.endswith(f"{ended} without arriving")


def test_lanes_that_wait_for_lanes_at_an_mbarrier_are_no_cause():
    body = """@%p9 mbarrier.init.shared::cta.b64 [bar], 2; bar.warp.sync -1; @!%p9 bra J;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W; J: bar.warp.sync -1;"""
    assert set(found(body)) == {"X006"}
    assert set(found("@!%p9 bra J; exit; J: setp.gt.u32 %p1, %r1, 9; @%p1 bar.warp.sync 7;")) == {
        "X011"
    }  # lane 0 has left, and 1 and 2 do not come


# As Triton compiles `while tl.atomic_add(p, 0) == 0`: one thread asks, and the others get its answer through shared
# memory.
POLL = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .u64 at) { .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<2>; .shared .b32 told; ld.param.u64 %rd1, [at];
mov.u32 %r1, %tid.x; mov.u32 %r3, %ctaid.x; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r3, 1; @%p3 st.release.gpu.global.u32 [%rd1], 1; @%p3 ret;
L: @%p2 atom.global.acq_rel.gpu.add.u32 %r2, [%rd1], 0; bar.sync 0; @%p2 st.shared.u32 [told], %r2; bar.sync 0; ld.shared.u32 %r2, [told];
setp.ne.u32 %p1, %r2, 1; @%p1 bra L; ret; }"""


@pytest.mark.parametrize(("grid", "codes"), [(1, ["X006"]), (2, [])])
def test_warps_that_poll_by_an_atomic_and_share_its_answer_end_or_are_told_to_hang(grid, codes):
    gpu = Gpu("sm_90a")
    word = gpu.array(np.zeros(1, np.uint32))
    done = gpu.launch(POLL, args=[word], grid=grid, block=64, sanitize=False, progress=False, limit_seconds=60)
    assert [f.code for f in done.findings] == codes
    assert not done.out_of_time


# Two warps take their own lock and then the other's, and give back what they have where one was taken: in step neither
# ever gets both.
BOTH_LOCKS = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .u64 at) { .reg .pred %p<6>; .reg .b32 %r<9>; .reg .b64 %d<4>; ld.param.u64 %d1, [at];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; xor.b32 %r3, %r2, 1; and.b32 %r4, %r1, 31; setp.ne.u32 %p1, %r4, 0; mov.u32 %r5, 0;
mul.wide.u32 %d2, %r2, 4; add.u64 %d2, %d2, %d1; mul.wide.u32 %d3, %r3, 4; add.u64 %d3, %d3, %d1;
AGAIN: bar.sync 0; @%p1 bra DONE;
TRY: atom.acquire.gpu.global.exch.b32 %r6, [%d2], 1; atom.acquire.gpu.global.exch.b32 %r7, [%d3], 1; or.b32 %r8, %r6, %r7; setp.eq.u32 %p2, %r8, 0;
setp.eq.u32 %p3, %r6, 0; @%p3 st.relaxed.gpu.global.u32 [%d2], 0; setp.eq.u32 %p3, %r7, 0; @%p3 st.relaxed.gpu.global.u32 [%d3], 0; @!%p2 bra TRY;
DONE: bar.sync 0; add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 120; @%p4 bra AGAIN; ret; }"""


@pytest.mark.parametrize(("held", "codes"), [(0, set()), (1, {"X006"})], ids=["free locks", "a lock that nobody gives back"])
def test_warps_that_in_step_never_get_on_and_apart_do_are_no_endless_loop_however_often(held, codes):
    gpu = Gpu("sm_90a")
    done = gpu.launch(BOTH_LOCKS, args=[gpu.array(np.full(2, held, np.uint32))], block=64, sanitize=False, progress=False, limit_seconds=60)
    assert {f.code for f in done.findings} == codes
    assert not done.out_of_time


@pytest.mark.parametrize(("ends", "codes"), [("", {"X006"}), ("exit;", {"T210"})], ids=["hangs", "ends"])
def test_bytes_that_came_in_an_earlier_phase_are_late_in_a_hang(ends, codes):
    body = f"""mbarrier.init.shared::cta.b64 [bar], 1; mov.u32 %r2, 0;
    L: mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64; setp.eq.u32 %p1, %r2, 0; @%p1 mbarrier.complete_tx.shared::cta.b64 [bar], 64;
    @%p1 bra W; {ends}
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2; @!%p2 bra W; add.u32 %r2, %r2, 1; bra L;"""
    assert set(found(body, block=1)) == codes


@pytest.mark.parametrize(
    ("after", "severity"),
    [
        ("", "note"),  # a stage that is armed once more at the end, as pipelines do
        ("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0;", "note"),  # the phase before
        ("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 1;", "trap"),  # somebody asks, and gives up
        ("W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1; @!%p1 bra W;", "trap"),
    ],
)
def test_bytes_that_never_come_in_a_phase_that_nobody_waits_for_are_a_remark(after, severity):
    body = f"""mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
    mbarrier.complete_tx.shared::cta.b64 [bar], 64; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32; {after}"""
    done, _ = run(body, [], block=1)
    (found,) = (f for f in done.result.findings.values() if f.code == "T210")
    assert found.severity == severity
    assert ("no thread waits for the phase" in found.message) == (severity == "note")
    assert bool(found.source) == (severity != "note")  # so that --strict fails for it


def test_clusters_see_each_other():
    """Each CTA writes into its neighbour's window; the second barrier keeps windows alive."""
    body = """mov.u32 %r10, %cluster_ctarank; add.u32 %r11, %r10, 1; and.b32 %r11, %r11, 3; mov.u32 %r5, sm; mapa.shared::cluster.u32 %r6, %r5, %r11;
    mad.lo.u32 %r6, %r1, 4, %r6; mad.lo.u32 %r7, %r10, 1000, %r1; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;
    st.shared::cluster.u32 [%r6], %r7; barrier.cluster.arrive.release; barrier.cluster.wait; mad.lo.u32 %r4, %r1, 4, %r5; ld.shared.u32 %r2, [%r4];"""
    out = results(body, block=N, grid=8, cluster=4)
    for cta in range(8):
        assert out[cta].tolist() == (1000 * ((cta % 4 - 1) % 4) + T).tolist()


OUT = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; st.global.u32 [%d1], %r1;"
PART = "setp.lt.u32 %p2, %r1, 32;"
LOOP = "mov.u32 %r2, 0; AGAIN: @%p1 bra ON; bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3; @%p2 bra AGAIN; ON:"
SKIPS = {
    "branch around": ("@%p1 bra ON; bar.sync 0; ON: {OUT}", True),
    "a loop some leave": (
        "mov.u32 %r2, 0; AGAIN: @%p1 bra ON; bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3; @%p2 bra AGAIN; ON: {OUT}",
        True,
    ),
    "a loop some leave, and a store that not all come to": ("{LOOP} setp.eq.u32 %p3, %r1, 41; @%p3 bra OFF; {OUT} OFF:", True),
    "a loop some leave, and an arrival": ("{LOOP} @!%p1 bra OFF; mbarrier.arrive.shared::cta.b64 %d5, [bar]; OFF:", True),
    "a loop some leave and do no more": ("{LOOP} @%p1 bra OFF; {OUT} OFF:", False),
    "a return in a loop": (
        "mov.u32 %r2, 0; AGAIN: @%p1 bra OFF; bar.sync 0; {OUT} add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3; sub.u32 %r3, 40, %r2; setp.ge.u32 %p1, %r1, %r3; "
        "@%p2 bra AGAIN; OFF:",
        False,
    ),
    "return": ("@%p1 ret; bar.sync 0; {OUT}", False),
    "return with a result": ("@%p1 bra OFF; bar.sync 0; {OUT} ret; OFF: {OUT}", False),
    "meet again": ("mov.u32 %r5, sm; mad.lo.u32 %r4, %r1, 4, %r5; @%p1 bra ON; st.shared.u32 [%r4], %r1; ON: bar.sync 0; {OUT}", False),
    "an arrival alone": ("{PART} @%p2 bra W; @!%p1 bar.arrive 1, 64; bra ON; W: bar.sync 1, 64; ON: {OUT}", True),
    "an arrival that nobody waits for": ("@!%p1 bar.arrive 1, 64; {OUT}", True),
    "an arrival of all": ("{PART} @%p2 bra W; bar.arrive 1, 64; bra ON; W: bar.sync 1, 64; ON: {OUT}", False),
    "an arrival of all that nobody waits for": ("{PART} @%p2 bra ON; bar.arrive 1, 64; ON: {OUT}", False),
    "an arrival, and a return": ("{PART} @%p2 bra W; @!%p1 bar.arrive 1, 64; ret; W: bar.sync 1, 64; {OUT}", False),
    "an arrival of single threads": ("{PART} @%p2 bra ON; @!%p1 barrier.arrive 1, 64; ON: {OUT}", False),
    "a barrier of one warp": ("{PART} @%p2 bra ON; bar.sync 1, 32; ON: bar.sync 0; {OUT}", False),
    "for single threads": ("@%p1 bra ON; barrier.sync 0; ON: {OUT}", False),
}


@pytest.mark.parametrize("name", SKIPS)
def test_lanes_that_branch_around_a_barrier_of_their_warp_are_told_at_it(name):
    """Lanes that exit in front of an aligned barrier are not missed there; those that come by behind it are."""
    body, wrong = SKIPS[name]
    made = "@%p9 mbarrier.init.shared::cta.b64 [bar], 64; bar.sync 0;"
    told = found(
        f"{made} setp.ge.u32 %p1, %r1, 40; {body.replace('{OUT}', OUT).replace('{PART}', PART).replace('{LOOP}', LOOP)}",
        np.zeros(64, np.uint32),
        block=64,
    )
    assert set(told) == ({"X011"} if wrong else set())
    assert not wrong or "thread (40, 0, 0)" in told["X011"]


@pytest.mark.parametrize(("who", "name", "wrong"), [("%p9", "bar.sync", True), ("%p2", "bar.sync", False), ("%p9", "barrier.sync", True)])
def test_lanes_do_not_pass_a_barrier_that_other_warps_complete_without_their_warp(who, name, wrong):
    """Lane 0 of warp 0, or all of the warp, branches around a barrier for one warp."""
    body = f"{PART} @{who} bra ON; {name} 1, 32; ON: bar.sync 0; {OUT}"
    told = found(body, np.zeros(64, np.uint32), block=64)
    assert set(told) == ({"X011"} if wrong else set())
    assert not wrong or ("missing: lane 0 of warp 0" if name == "barrier.sync" else "thread (0, 0, 0)") in told["X011"]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("@%p9 bar.arrive 1, 64; bar.sync 1, 64;", True),
        ("@!%p9 bar.arrive 1, 64; bar.sync 1, 64;", True),
        ("@%p2 bar.arrive 1, 96; bar.sync 1, 96;", False),  # warp 0 counts twice
        ("bar.sync 1, 64; bar.sync 1, 64;", False),
    ],
)
def test_lanes_that_have_arrived_in_the_phase_before_their_warp_waits_there(body: str, wrong: bool):
    """An H200 counts the warp twice then, and a program of the first kind hung."""
    told = found(f"{PART} {body} {OUT}", np.zeros(64, np.uint32), block=64)
    assert bool(told) == wrong
    assert not wrong or "threads of a warp execute bar.arrive" in told["X011"]


WARPS = "shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 1; and.b32 %r3, %r1, 31; setp.eq.u32 %p3, %r3, 0;"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("@%p1 barrier.cluster.arrive; @%p1 ret; bar.sync 0;", "So these do not exit"),
        ("barrier.cluster.arrive; @%p1 ret; bar.sync 0;", ""),
        ("@%p1 barrier.cluster.arrive; @%p1 ret; bar.sync 3, 32;", ""),
        ("@%p1 barrier.cluster.arrive; @%p1 ret; barrier.cluster.arrive; bar.sync 0;", ""),
        ("@%p1 ret; bar.sync 0;", ""),
        ("@%p1 barrier.cluster.arrive; setp.eq.u32 %p4, %r1, 0; @!%p4 barrier.sync 3, 64;", "So these do not exit"),
        ("barrier.cluster.arrive; setp.eq.u32 %p4, %r1, 0; @!%p4 barrier.sync 3, 64;", ""),
        ("@%p2 barrier.cluster.arrive; setp.eq.u32 %p4, %r1, 0; @!%p4 barrier.sync 3, 64;", ""),
        ("@%p2 barrier.cluster.arrive; setp.eq.u32 %p4, %r1, 0; @%p4 ret; bar.sync 0;", "lanes of warp 0 have exited before"),
        ("@%p2 barrier.cluster.arrive; setp.eq.u32 %p4, %r1, 0; @%p4 ret; bar.sync 3, 32;", ""),
        ("setp.eq.u32 %p4, %r1, 0; @%p4 ret; bar.sync 0; @%p2 barrier.cluster.arrive;", ""),
        ("barrier.cluster.arrive; barrier.cluster.wait; setp.eq.u32 %p4, %r1, 0; @%p4 ret; bar.sync 0;", ""),
    ],
)
def test_threads_that_have_arrived_at_the_clusters_barrier_exit_when_all_have(body: str, wrong: str):
    """As golden/sm_90a/exits_at_cluster_barriers: the wrong kernels hang, and the right ones end."""
    told = found(f"{WARPS} {body} {OUT}", np.zeros(64, np.uint32), block=64)
    assert list(told) == ["X006"] * bool(wrong)
    assert not wrong or wrong in told["X006"]


ADDING = "cp.async.mbarrier.arrive.shared::cta.b64 [bar];"


@pytest.mark.parametrize(
    ("count", "body", "wrong"),
    [
        (32, f"{ADDING} mbarrier.arrive.shared::cta.b64 _, [bar];", True),
        (64, f"{ADDING} mbarrier.arrive.shared::cta.b64 _, [bar];", False),
        (32, "mbarrier.arrive.shared::cta.b64 _, [bar];", False),
        (32, f"{ADDING} @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];", False),
        (32, f"@%p1 {ADDING} mbarrier.arrive.shared::cta.b64 _, [bar];", True),
        (2, f"@%p3 {ADDING} @%p3 mbarrier.arrive.shared::cta.b64 _, [bar];", False),
        (1, f"@%p3 {ADDING} @%p3 mbarrier.arrive.shared::cta.b64 _, [bar];", True),
    ],
)
def test_an_added_arrival_may_keep_the_phase_open_for_more_arrivals_than_it_has(count: int, body: str, wrong: bool):
    """Two warps arrive together, and a phase has the arrivals of one. On an H200 the wrong kernels end with error 719,
    if a copy or the instruction takes long.
    """
    text = f"{WARPS} @%p9 mbarrier.init.shared::cta.b64 [bar], {count}; bar.sync 0; {body} bar.sync 0; {OUT}"
    told = found(text, np.zeros(64, np.uint32), block=64)
    assert list(told) == ["X010"] * wrong
    assert not wrong or "may count in phase 0" in told["X010"]


HALVES = "and.b32 %r2, %r1, 31; setp.eq.u32 %p1, %r2, 0; setp.lt.u32 %p2, %r2, 16;"
ALONE = (
    "barrier.arrive 3, 64;",
    "barrier.cluster.arrive;",
    "barrier.cluster.arrive.relaxed;",
    "barrier.cluster.arrive.aligned;",
    "barrier.sync 3, 64;",
)
MEET = (
    "bar.sync 0;", "barrier.sync 0;", "bar.warp.sync -1;", "barrier.arrive 4, 64;", "shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;",
    "vote.sync.ballot.b32 %r3, %p1, -1;", "redux.sync.add.u32 %r3, %r1, -1;", "barrier.cluster.wait;",
)  # fmt: skip


@pytest.mark.parametrize("lanes", ["%p1", "!%p2"])
@pytest.mark.parametrize("alone", ALONE)
@pytest.mark.parametrize("meets", MEET)
def test_lanes_that_come_to_a_barrier_alone_hang_if_the_others_wait_for_them(lanes: str, alone: str, meets: str):
    """As golden/sm_90a/lanes_at_barriers: a barrier keeps such lanes until the others of their warp exit or come to it,
    too. The wrong kernel hangs or traps, and the right ones end.
    """
    others = f"!{lanes}".replace("!!", "")
    if "cluster" in meets:
        meets = "" if "cluster" in alone else f"barrier.cluster.arrive; {meets}"
    told = found(f"{HALVES} @{lanes} {alone} {meets} {OUT}", np.zeros(64, np.uint32), block=64)
    assert set(told) == ({"X011"} if meets else set())
    assert not meets or f"to {alone.split(' ', maxsplit=1)[0].strip(';')} alone, which keeps" in told["X011"]
    both = "" if "aligned" in alone else f"@{lanes} {alone} @{others} {alone} {meets}"  # one instruction must be for all lanes
    for right in (f"@{lanes} {alone}", f"{alone} {meets}", both):
        assert found(f"{HALVES} {right} {OUT}", np.zeros(64, np.uint32), block=64) == {}, right


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("@%p2 barrier.arrive 3, 64; @!%p2 shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0xffff0000;", ""),
        ("@%p2 barrier.arrive 3, 64; selp.b32 %r3, 0xffff, 0xffff0000, %p2; shfl.sync.bfly.b32 %r3, %r1, 1, 31, %r3;", ""),
        ("@%p2 barrier.arrive 3, 64; selp.b32 %r3, 0xffff, 0xffff0001, %p2; shfl.sync.bfly.b32 %r3, %r1, 1, 31, %r3;", "alone, which keeps"),
        ("mov.u32 %r3, 3; @%p2 bra A; barrier.arrive %r3, 64; bra B; A: barrier.arrive 3, 64; B: bar.sync 0;", ""),
        ("mov.u32 %r3, 4; @%p2 bra A; barrier.arrive %r3, 64; bra B; A: barrier.arrive 3, 64; B: bar.sync 0;", "alone, which keeps"),
        ("@%p2 bra A; barrier.arrive 3, 96; bra B; A: barrier.arrive 3, 64; B: bar.sync 0;", "alone, which keeps"),
        ("@%p2 bra A; barrier.arrive 3, 64; bra B; A: barrier.sync 3, 64; B:", "alone, which keeps"),
        ("@%p2 bra A; barrier.cluster.arrive; bra B; A: barrier.cluster.arrive.release; B: barrier.cluster.wait;", ""),
        ("@%p2 bra A; barrier.cluster.arrive; bra B; A: barrier.cluster.arrive.relaxed; B: barrier.cluster.wait;", "alone, which keeps"),
        ("barrier.cluster.arrive; @%p2 barrier.cluster.wait; @!%p2 barrier.cluster.wait; bar.sync 0;", ""),
        ("barrier.cluster.arrive; @%p2 barrier.cluster.wait; bar.sync 0;", "alone, which keeps"),
        ("selp.b32 %r3, 3, 3, %p2; barrier.arrive %r3, 64;", ""),
        ("selp.b32 %r3, 3, 4, %p2; barrier.arrive %r3, 64;", "several barrier numbers or thread counts"),
        ("mov.u32 %r3, 0; L: and.b32 %r4, %r1, 1; setp.eq.u32 %p3, %r4, %r3; @%p3 barrier.arrive 3, 64; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 2; @%p3 bra L; bar.sync 0;", ""),
        ("mov.u32 %r3, 0; L: and.b32 %r4, %r1, 1; setp.eq.u32 %p3, %r4, %r3; @%p3 barrier.arrive 3, 64; bar.warp.sync -1; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 2; @%p3 bra L;", "alone, which keeps"),
    ],
)  # fmt: skip
def test_lanes_meet_at_barriers_with_the_same_words_number_and_count(body: str, wrong: str):
    """Each pair differs in one thing, and was measured: the right one ends on an H200."""
    told = found(f"{HALVES} {body} {OUT}", np.zeros(64, np.uint32), block=64)
    assert set(told) == ({"X011"} if wrong else set())
    assert wrong in told.get("X011", "")


@pytest.mark.parametrize(
    ("count", "before", "after", "codes"),
    [
        (64, "", "mbarrier.arrive.shared.b64 _, [bar];", {"X011"}),  # of all lanes
        (2, "", "@%p1 mbarrier.arrive.shared.b64 _, [bar];", {"X011"}),  # of those that are kept
        (1, "", "", {"X006"}),  # that nobody makes
        (64, "mbarrier.arrive.shared.b64 _, [bar];", "", set()),
    ],
)
def test_a_barrier_that_keeps_lanes_is_no_cause_where_the_others_wait_for_something_else(
    count: int, before: str, after: str, codes: set[str]
):
    """The others of a warp wait at an mbarrier, which needs arrivals before or after the barrier."""
    body = f"""@%p9 mbarrier.init.shared.b64 [bar], {count}; bar.sync 0; {before} @%p1 barrier.arrive 3, 64; {after}
    W: mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra W;"""
    assert set(found(f"{HALVES} {body}", block=64)) == codes


APART = "and.b32 %r2, %r1, 31; setp.lt.u32 %p1, %r2, 16; @%p1 bra A;\n{} bra END;\nA: {} END: {}"
WAITS, STORES = "bar.sync 0;\n", "st.global.u32 [%d20], 7;"
AGAIN = "setp.lt.u32 %p1, %r2, 8; @%p1 bra {label};\n"  # after the lanes have joined


@pytest.mark.parametrize(
    ("others", "own", "then", "count"),
    [
        ("", "", WAITS * 3, 0),
        (WAITS, WAITS, STORES, 1),
        (WAITS * 3, WAITS * 3, STORES, 1),
        (WAITS * 3, WAITS * 3, WAITS + STORES, 1),
        (WAITS, WAITS, f"{AGAIN.format(label='B')} {WAITS} bra END2;\nB: {WAITS} END2: {STORES}", 2),
        ("", WAITS, STORES, 1),
        ("", WAITS * 3, STORES, 1),
        ("", WAITS, f"{AGAIN.format(label='B')} bra END2;\nB: {WAITS} END2: {STORES}", 2),
    ],
)
def test_barriers_of_one_branch_are_one_finding(others, own, then, count):
    """Lanes 0 to 15 execute other barriers than lanes 16 to 31, or these execute none."""
    findings = run(APART.format(others, own, then), [np.zeros(1, np.uint32)], block=64)[0].result.findings.values()
    assert [f.code for f in findings] == ["X011"] * count, findings


# ---- mbarriers


class Automaton:
    """PTX ISA 9.1 §9.7.13.15: what one mbarrier does, without anything else."""

    def __init__(self, count):
        self.phase, self.expected, self.pending, self.tx = 0, count, count, 0

    def do(self, op, n):
        """Is it allowed? Then do it."""
        if op == "arrive_tx":  # the bytes first
            return self.do("expect", n) and self.do("arrive", 1)
        if op in ("arrive", "drop"):
            if n > self.pending:
                return False
            if op == "drop":
                self.expected -= n
            self.pending -= n
        else:
            self.tx += n if op == "expect" else -n
        if self.pending == 0 and self.tx == 0:
            self.phase, self.pending = self.phase + 1, self.expected
        return True


TEXT = {
    "arrive": "mbarrier.arrive.shared::cta.b64 %d5, [bar], {};",
    "drop": "mbarrier.arrive_drop.shared::cta.b64 %d5, [bar], {};",
    "arrive_tx": "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [bar], {};",
    "expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], {};",
    "complete": "mbarrier.complete_tx.shared::cta.b64 [bar], {};",
}


WHO = st.sampled_from([0b111, 0b111, 0b111, 0b001, 0b110])  # of three CTAs: mostly all do the same


@examples(60)
@given(count=st.integers(1, 4), steps=st.lists(st.tuples(st.sampled_from(sorted(TEXT)), st.integers(1, 3), WHO), max_size=25))
def test_mbarriers_are_the_automaton(count, steps):
    """After every step both parities answer as the phase of the CTA's own automaton; what one of them forbids ends the
    kernel.
    """
    body = f"mbarrier.init.shared::cta.b64 [bar], {count}; mov.u32 %r4, %ctaid.x; mad.wide.u32 %d6, %r4, 256, %d20;"
    expected, each, allowed = {}, [Automaton(count) for _ in range(3)], True
    for n, (op, amount, who) in enumerate(steps):
        doing = [reference for k, reference in enumerate(each) if who >> k & 1]
        if op == "drop" and any(amount >= reference.expected for reference in doing):
            continue
        allowed = all(reference.do(op, amount) for reference in doing)
        body += f"shr.u32 %r5, {who}, %r4; and.b32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0; @%p2 {TEXT[op].format(amount)}"
        if not allowed:
            break
        for parity in (0, 1):
            body += f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], {parity}; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%d6+{8 * n + 4 * parity}], %r3;"
            expected |= {(k, 2 * n + parity): int(reference.phase & 1 != parity) for k, reference in enumerate(each)}
    out = np.full((3, 64), 7, np.uint32)
    if not allowed:
        assert "arrivals at the mbarrier" in found(body, out, block=1, grid=3)["X010"]
        return
    (out,) = launch(body, out, block=1, grid=3, expected=("T210",))  # it may end with bytes that never came
    assert {at: int(out[at]) for at in expected} == expected


def test_a_hang_names_the_cta_whose_mbarrier_lacks_an_arrival():
    """Three CTAs do the same at their mbarriers until one leaves an arrival out; the others go on."""
    body = """mov.u32 %r4, %ctaid.x; @%p9 mbarrier.init.shared::cta.b64 [bar], 32; bar.sync 0; mov.u32 %r7, 0;
    AGAIN: setp.eq.u32 %p2, %r7, 2; setp.eq.and.u32 %p2, %r4, 1, %p2; setp.eq.and.u32 %p2, %r1, 5, %p2; @!%p2 mbarrier.arrive.shared::cta.b64 %d5, [bar];
    and.b32 %r8, %r7, 1; W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r8; @!%p1 bra W; add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, 4; @%p3 bra AGAIN;"""
    told = found(body, np.zeros(1, np.uint32), grid=3)
    assert set(told) == {"X006"}
    assert "1 of 32 arrivals is missing" in told["X006"]
    assert "of CTA 1" in told["X006"]
    assert not any(f"of CTA {other}" in told["X006"] for other in (0, 2))


def test_tokens_are_those_of_the_phase_before_the_arrival():
    body = """@%p9 mbarrier.init.shared::cta.b64 [bar], 128; bar.sync 0; mbarrier.arrive.shared::cta.b64 %d5, [bar]; mbarrier.pending_count.b64 %r2, %d5;
    W: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %d5; @!%p1 bra W;"""
    assert results(body, block=N).tolist() == (N - T).tolist()


@pytest.mark.parametrize("consumer_first", [False, True])
@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
def test_a_ring_of_stages(consumer_first, wait):
    """Two stages, full and empty barriers, six rounds: every value arrives once and in order, whoever comes first in
    the program.
    """
    spin = "{0}: mbarrier." + wait + ".parity.shared::cta.b64 %p3, [%r20], %r21; @!%p3 bra {0};"
    step = "and.b32 %r8, %r7, 1; shr.u32 %r21, %r7, 1; and.b32 %r21, %r21, 1; mov.u32 %r22, bar; mad.lo.u32 %r20, %r8, 8, %r22; mad.lo.u32 %r4, %r8, 256, %r5;"
    step += "and.b32 %r6, %r1, 63; mad.lo.u32 %r4, %r6, 4, %r4;"
    consumer = f"""C: {step} {spin.format("WC")} ld.shared.u32 %r9, [%r4]; mad.lo.u32 %r2, %r2, 3, %r9; add.u32 %r20, %r20, 16;
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r20]; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 6; @%p2 bra C; bra E;"""
    producer = f"""P: {step} add.u32 %r20, %r20, 16; xor.b32 %r21, %r21, 1; {spin.format("WP")} mad.lo.u32 %r9, %r7, 10, %r6; st.shared.u32 [%r4], %r9;
    sub.u32 %r20, %r20, 16; mbarrier.arrive.shared::cta.b64 %d5, [%r20]; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 6; @%p2 bra P; bra E;"""
    init = "".join(f"@%p9 mbarrier.init.shared::cta.b64 [bar+{8 * n}], 64;" for n in range(4))
    body = f"mov.u32 %r5, sm; {init} bar.sync 0; mov.u32 %r7, 0; mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 64; @%p1 bra P; bra C;"
    body += (consumer + producer if consumer_first else producer + consumer) + "E:"
    expected = [0] * 64
    for k in range(6):
        expected = [3 * e + 10 * k + t for t, e in enumerate(expected)]
    for row in results(body, block=N, grid=3):
        assert row.tolist() == [0] * 64 + expected


def test_try_wait_gives_up_when_nobody_else_can_go_on():
    """A look at a phase that will be completed only by the one who looks."""
    body = """mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; selp.u32 %r2, 1, 0, %p1;
    mbarrier.arrive.shared::cta.b64 %d5, [bar]; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [bar], 0, 100; @%p1 add.u32 %r2, %r2, 10;"""
    assert results(body, block=1).tolist() == [10]


def test_arrivals_and_bytes_across_the_cluster():
    """Every CTA arrives at CTA 0's barrier and stores a word there with st.async; nobody is early."""
    body = """mov.u32 %r2, 0; mov.u32 %r10, %cluster_ctarank; mov.u32 %r5, sm; mov.u32 %r6, bar; setp.eq.u32 %p8, %r10, 0; and.pred %p9, %p8, %p9;
    @%p9 mbarrier.init.shared::cta.b64 [bar], 65; @%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; barrier.cluster.arrive; barrier.cluster.wait;
    mapa.shared::cluster.u32 %r7, %r5, 0; mapa.shared::cluster.u32 %r8, %r6, 0; mad.lo.u32 %r9, %r10, 32, %r1; mad.lo.u32 %r7, %r9, 4, %r7;
    add.u32 %r9, %r9, 500; st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r9, [%r8];
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8]; setp.ne.u32 %p1, %r10, 0; @%p1 bra E;
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W; mad.lo.u32 %r4, %r1, 8, %r5;
    ld.shared.u32 %r2, [%r4]; ld.shared.u32 %r3, [%r4+4]; mad.lo.u32 %r2, %r3, 0x10000, %r2;
    E: barrier.cluster.arrive; barrier.cluster.wait;"""
    out = results(body, grid=2, cluster=2)
    assert out[0].tolist() == [500 + 2 * t + (501 + 2 * t) * 0x10000 for t in range(32)]


def test_red_async_counts_and_adds():
    body = """mov.u32 %r5, sm; mov.u32 %r6, bar; @%p9 st.shared.u32 [%r5], %r1; @%p9 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128; bar.sync 0;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], %r1, [%r6];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W; ld.shared.u32 %r2, [%r5];"""
    assert results(body, cluster=1).tolist() == [31 * 16] * 32


def test_cp_async_arrives():
    for form, count in ((".noinc", 32), ("", 1)):
        body = f"""@%p9 mbarrier.init.shared::cta.b64 [bar], {count}; bar.sync 0; {OWN} cp.async.ca.shared.global [%r4], [%d20], 4;
        cp.async.mbarrier.arrive{form}.shared::cta.b64 [bar]; {"@%p9 mbarrier.arrive.shared::cta.b64 _, [bar];" if not form else ""}
        W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W; ld.shared.u32 %r2, [%r4];"""
        assert results(body).tolist() == [0] * 32
    # without .noinc it is no arrival of those that init counts
    alone = body.replace("@%p9 mbarrier.arrive.shared::cta.b64 _, [bar];", "")
    assert "X006" in found(alone, np.zeros(32, np.uint32), block=1)
    (hang,) = run(alone, [np.zeros(32, np.uint32)], block=1)[0].result.findings.values()
    assert "arrivals that the instruction itself adds by line" in hang.message
    assert hang.repair.startswith("cp.async.mbarrier.arrive.noinc in line")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [bar];", "there is no mbarrier at"),
        ("mbarrier.init.shared::cta.b64 [bar], 0;", "a count of 0"),
        ("mbarrier.init.shared::cta.b64 [bar], 0x100000;", "a count of 1048576"),
        ("mbarrier.init.shared::cta.b64 [bar+4], 1;", "not a multiple of the 8 bytes"),
        ("mbarrier.init.shared::cta.b64 [bar], 1; st.shared.u32 [bar], %r1; mbarrier.arrive.shared::cta.b64 _, [bar];", "was overwritten"),
        (
            "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.inval.shared::cta.b64 [bar]; mbarrier.arrive.shared::cta.b64 _, [bar];",
            "no mbarrier",
        ),
        (
            "mbarrier.init.shared::cta.b64 [bar], 2; mbarrier.arrive.shared::cta.b64 _, [bar], 3;",
            "this instruction adds 3, but the current phase expects only 2 more",
        ),
        (  # bytes have come that nobody has expected: the phase goes on without them
            "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16; mbarrier.arrive.shared::cta.b64 _, [bar]; "
            "mbarrier.arrive.shared::cta.b64 _, [bar];",
            "this instruction adds 1, but the current phase expects only 0 more",
        ),
        (
            "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; mbarrier.arrive.shared::cta.b64 _, [bar];",
            "this instruction adds 1, but the current phase has all its arrivals, and waits for 16 bytes",
        ),
        ("mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.noComplete.shared::cta.b64 %d5, [bar], 1;", "noComplete"),
        ("mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 0x100000;", "at most 1048575"),
        (
            "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.expect_tx.shared::cta.b64 [bar], 0xfffff; mbarrier.expect_tx.shared::cta.b64 [bar], 1;",
            "now counts 1048576 bytes",
        ),
        (
            "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 0xfffff; "
            "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 1;",
            "now counts -1048576 bytes",
        ),
        ("mbarrier.arrive.b64 _, [%d20];", "mbarriers lie in shared memory"),
        (
            "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64; "
            "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1; @!%p1 bra W; mbarrier.arrive.shared::cta.b64 _, [bar];",
            "was for parity 1, which passes at once at a new mbarrier",
        ),
    ],
)
def test_mbarriers_that_are_used_as_no_mbarrier_can_be(body, words):
    messages = found(body, np.zeros(4, np.uint64), block=1)
    assert next(iter(messages)) == ("X002" if "multiple" in words else "X010")
    assert {*messages} <= {"X002", "X010", "T210"}  # what a card goes on after may leave a phase that expects bytes
    assert words in "".join(messages.values())


@pytest.mark.parametrize(
    ("count", "arrive", "status", "codes"),
    [
        (40, "mbarrier.arrive.shared::cta.b64 _, [bar];", 719, {"X010"}),
        (40, "mbarrier.arrive_drop.shared::cta.b64 _, [bar];", 719, {"X010"}),
        (40, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];", 0, {"X010"}),
        (32, "mbarrier.arrive.shared::cta.b64 _, [bar];", 0, set()),
        (64, "mbarrier.arrive.shared::cta.b64 _, [bar];", 0, set()),
        (64, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];", 0, set()),
    ],
)
def test_lanes_that_arrive_in_two_phases_end_the_kernel_but_not_with_their_copies(count, arrive, status, codes):
    """Two arrivals of 32 lanes where a phase has 40, in each of three CTAs."""
    body = f"@%p9 mbarrier.init.shared::cta.b64 [bar], {count}; bar.warp.sync -1; {arrive} {arrive}"
    done, _ = run(body, (), grid=3)
    assert done.result.status == status
    assert {f.code for f in done.result.findings.values()} == codes
    said = " ".join(f.message for f in done.result.findings.values())
    said_of = "1 of 0 arrivals dropped at" if "drop" in arrive else "lanes of one warp arrive in two phases of"
    assert not codes or f"{said_of} the mbarrier at 0x400" in said
    repairs = [f.repair for f in done.result.findings.values() if said_of in f.message and "drop" not in arrive]
    assert all("a phase has 40 arrivals, and 64 come: init with 64, if no more arrive" in repair for repair in repairs)


def test_fences_run():
    for fence in (
        "fence.acq_rel.gpu", "fence.sc.cluster", "fence.acquire.sync_restrict::shared::cluster.cluster", "membar.cta", "membar.gl",
        "fence.mbarrier_init.release.cluster", "fence.proxy.async", "fence.proxy.async.shared::cta", "fence.proxy.async.global",
        "fence.proxy.alias", "fence.proxy.tensormap::generic.release.gpu", "fence.proxy.tensormap::generic.acquire.sys [%d20], 128",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
    ):  # fmt: skip
        launch(f"{fence};", np.zeros(32, np.uint32))
        assert found(f"{fence};", np.zeros(32, np.uint32)) == {}
    with pytest.raises(InputError, match=r"PTX has no instruction with \.other"):
        launch("fence.proxy.other;", np.zeros(1, np.uint32))


# ---- what the watch makes of it

EXCHANGE = OWN + "st.shared.u32 [%r4], %r1; {0} xor.b32 %r6, %r1, 32; mad.lo.u32 %r6, %r6, 4, %r5; ld.shared.u32 %r2, [%r6];"


@pytest.mark.parametrize(
    ("between", "codes"),
    [
        ("", {"X008"}),
        ("bar.warp.sync -1;", {"X008"}),
        ("bar.sync 0;", set()),
        ("bar.sync 3, 128;", set()),
        ("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;", set()),
        ("barrier.cluster.arrive.relaxed; barrier.cluster.wait;", {"X008"}),
        # Warps 0 and 1 meet, and so do 2 and 3: those are the ones that exchange words.
        ("shr.u32 %r7, %r1, 6; add.u32 %r7, %r7, 1; bar.sync %r7, 64;", set()),
        # Here 0 and 2 meet, and 1 and 3: two barriers, and none for those that exchange words.
        ("shr.u32 %r7, %r1, 5; and.b32 %r7, %r7, 1; add.u32 %r7, %r7, 1; bar.sync %r7, 64;", {"X008"}),
        ("setp.lt.u32 %p1, %r1, 64; @%p1 bra A; bar.sync 1, 64; bra B; A: bar.sync 2, 64; B:", set()),
    ],
)
def test_barriers_order_those_who_meet_and_nobody_else(between, codes):
    assert set(found(EXCHANGE.format(between), block=N, grid=3)) == codes


def test_a_copy_is_complete_once_its_group_was_waited_for():
    body = f"{OWN} cp.async.ca.shared.global [%r4], [%d20], 4; cp.async.ca.shared.global [%r4+1024], [%d20+4], 4; cp.async.commit_group;"
    read = "ld.shared.u32 %r2, [%r4];"
    data = np.arange(2, dtype=np.uint32)
    assert set(found(f"{body} {read}", data)) == {"X004"}
    assert set(found(f"{body} cp.async.wait_group 1; {read}", data)) == {"X004"}
    assert set(found(f"{body} cp.async.wait_group 0; {read}", data)) == set()
    assert set(found(f"{body} cp.async.wait_all; {read}", data)) == set()
    again = "cp.async.ca.shared.global [%r4+2048], [%d20], 4; cp.async.commit_group; cp.async.wait_group 1;"
    assert set(found(f"{body} {again} {read}", data)) == set()
    assert set(found(f"{body} {again} ld.shared.u32 %r2, [%r4+2048];", data)) == {"X004"}


@pytest.mark.parametrize(
    ("use", "is_used"),
    [
        ("", False),
        ("st.shared.u32 [%r5+2048], %r2;", False),
        ("st.shared.u32 [%r5+2048], %r2; ld.shared.u32 %r3, [%r5+2048]; st.global.u32 [%d20+192], %r3;", True),
        ("st.shared.u8 [%r5+2049], %r2; st.shared.u8 [%r5+2048], %r1; ld.shared.u8 %r3, [%r5+2048]; st.global.u32 [%d20+192], %r3;", False),
        (
            "st.shared.u8 [%r5+2049], %r2; st.shared.u8 [%r5+2048], %r1; ld.shared.u8 %r3, [%r5+2049]; st.global.u32 [%d20+192], %r3;",
            True,
        ),
        (
            "st.shared.u32 [%r5+2048], %r2; st.shared.u32 [%r5+2048], %r1; ld.shared.u32 %r3, [%r5+2048]; st.global.u32 [%d20+192], %r3;",
            False,
        ),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("between", "code"), [("", "X004"), ("bar.sync 0;", "R507")])
def test_what_comes_after_a_read_is_told_where_the_value_is_used(use, is_used, when, between, code):
    """Where the read is ordered before the load nobody could have waited for it: what it reads, nobody has written. A
    copy is no use.
    """
    copy = """@!%p9 bra B; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [sm], [%d20], 128, [bar]; B:"""
    uses = [use * (when == at) for at in ("before", "after")]
    body = f"""{OWN} mov.u32 %r5, %r4; setp.lt.u32 %p1, %r1, 32; @%p1 bra A; ld.shared.u32 %r2, [%r4-128]; {uses[0]} A: {between} {copy}
    @%p1 bra D; {uses[1]} D: @!%p9 bra F; W: mbarrier.try_wait.parity.shared.b64 %p8, [bar], 0; @!%p8 bra W; F:"""
    assert set(found(body, np.arange(64, dtype=np.uint32), block=64)) == ({code} if is_used else set())


# ---- what orders what, and what does not


@pytest.mark.parametrize(
    ("before", "after", "codes"), [("st.shared.u32 [sm], %r1;", "", set()), ("", "st.shared.u32 [sm], %r1;", {"X008"})]
)
def test_an_arrival_releases_what_comes_before_it_and_nothing_else(before, after, codes):
    body = f"""setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1, 64; nanosleep.u32 9;
    ld.shared.u32 %r2, [sm]; bra B; A: {before} bar.arrive 1, 64; {after} B:"""
    assert set(found(body, block=64)) == codes


@pytest.mark.parametrize(("fence", "codes"), [("fence.proxy.async.shared::cta;", set()), ("", {"X003"})])
def test_what_cp_async_brought_reaches_the_asynchronous_proxy_behind_a_fence(fence, codes):
    body = f"""{OWN} mad.lo.u32 %r6, %r1, 4, 0; cvt.u64.u32 %d1, %r6; add.u64 %d1, %d20, %d1; cp.async.ca.shared.global [%r4], [%d1], 4;
    cp.async.commit_group; cp.async.wait_group 0; {fence} bar.sync 0;
    @%p9 cp.async.bulk.global.shared::cta.bulk_group [%d20+128], [sm], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    assert set(found(body, np.arange(64, dtype=np.uint32))) == codes


@pytest.mark.parametrize("read", range(4))
@pytest.mark.parametrize("fenced", range(4))
def test_a_fence_covers_the_copies_that_were_complete_before_it_and_no_others(read, fenced):
    """Four groups of one copy each; the fence comes when the first ones are complete, and one of the four is read."""
    body = f"""{OWN} mad.lo.u32 %r6, %r1, 4, 0; cvt.u64.u32 %d1, %r6; add.u64 %d1, %d20, %d1;
    {" ".join(f"cp.async.ca.shared.global [%r4+{128 * n}], [%d1], 4; cp.async.commit_group;" for n in range(4))}
    cp.async.wait_group {3 - fenced}; fence.proxy.async.shared::cta; cp.async.wait_group 0; bar.sync 0;
    @%p9 cp.async.bulk.global.shared::cta.bulk_group [%d20+128], [sm+{128 * read}], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    assert set(found(body, np.arange(64, dtype=np.uint32))) == ({"X003"} if read > fenced else set())


@pytest.mark.parametrize(("waits", "codes"), [(True, set()), (False, {"X005"})])
def test_the_source_of_a_copy_is_free_once_its_mbarrier_has_counted_it(waits, codes):
    wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;" if waits else ""
    body = f"""{OWN} st.shared.u32 [%r4], %r1; @%p9 mbarrier.init.shared::cta.b64 [bar], 1; fence.proxy.async.shared::cta; bar.sync 0;
    @!%p9 bra E; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [sm+1024], [sm], 128, [bar]; E: {wait} st.shared.u32 [%r4], %r1;"""
    assert set(found(body)) == codes


@pytest.mark.parametrize(("fences", "codes"), [("lt", set()), ("ge", {"X008"})])
def test_a_fence_of_mbarrier_init_publishes_the_barriers_of_its_own_warp(fences, codes):
    body = f"""@%p9 mbarrier.init.shared::cta.b64 [bar], 32; setp.{fences}.u32 %p1, %r1, 32; @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed; barrier.cluster.wait; setp.lt.u32 %p2, %r1, 32; @!%p2 mbarrier.arrive.shared::cta.b64 _, [bar];"""
    assert set(found(body, block=64)) == codes


@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.ca.shared.global [%r4], [%d20], 4; cp.async.commit_group;",
        "@%p9 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [sm], [%d20], 128, [bar];",
    ],
)
def test_a_copy_writes_whole_words_of_which_only_some_bytes_were_known(copy):
    body = f"""{OWN} @%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128; st.shared.u8 [%r4], %r1;
    fence.proxy.async.shared::cta; bar.sync 0; {copy} bar.sync 0;
    st.shared.u8 [%r4+1], %r1;"""
    assert "X005" in found(body, np.zeros(32, np.uint32))


# Four words are flags: thread 0 sets them, and all poll them. Later asynchronous operations write them, and warp 1 uses
# them.
FLAGS = """mov.u32 %r5, sm; mov.u32 %r6, bar; setp.eq.u32 %p1, %r1, 32; mov.u32 %r7, 1; mov.u16 %h1, 1; mov.u32 %r10, %cluster_ctarank;
mapa.shared::cluster.u32 %r8, %r5, %r10; mapa.shared::cluster.u32 %r9, %r6, %r10; mov.u64 %d1, map; cvta.param.u64 %d1, %d1; @!%p9 bra INIT;
mbarrier.init.shared::cta.b64 [bar], 1; st.volatile.shared.v4.u32 [sm], {%r1, %r1, %r1, %r1}; st.shared.v4.u32 [sm+128], {%r1, %r1, %r1, %r1};
fence.mbarrier_init.release.cluster; INIT: bar.sync 0; @%p9 st.volatile.shared.v4.u32 [sm], {%r7, %r7, %r7, %r7};
P: ld.volatile.shared.v4.u32 {%r11, %r12, %r13, %r14}, [sm]; setp.ne.u32 %p2, %r14, 0; @!%p2 bra P; fence.proxy.async.shared::cta; bar.sync 0;
"""
BY_MBARRIER = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;"
COUNTED = "complete_tx::bytes"
WRITES = {
    "bulk": f"@%p9 cp.async.bulk.shared::cluster.global.mbarrier::{COUNTED} [sm], [%d20], 16, [bar];",
    "tensor": f"@%p9 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::{COUNTED} [sm], [%d1, {{0}}], [bar];",
    "within": f"@%p9 cp.async.bulk.shared::cluster.shared::cta.mbarrier::{COUNTED} [%r8], [sm+128], 16, [%r9];",
    "st.async": f"@%p9 st.async.shared::cluster.mbarrier::{COUNTED}.v4.u32 [%r8], {{%r7, %r7, %r7, %r7}}, [%r9];",
    "red.async": "".join(
        f"@%p9 red.async.relaxed.cluster.shared::cluster.mbarrier::{COUNTED}.add.u32 [%r8+{at}], %r7, [%r9];" for at in (0, 4, 8, 12)
    ),
    "cp.async": "@%p9 cp.async.cg.shared.global [sm], [%d20], 16; cp.async.commit_group;",
}
FLAG_USES = {
    "st.volatile.shared.u32 [sm], %r1;": "X005", "red.shared.add.u32 [sm+4], 1;": "X005", "ld.volatile.shared.u32 %r3, [sm+8];": "X004",
    "atom.shared.cas.b16 %h2, [sm+12], %h1, %h1;": "X005",
}  # fmt: skip


@pytest.mark.parametrize("tier", ["closures", "compiled"])
@pytest.mark.parametrize("write", WRITES)
def test_a_word_that_was_a_flag_is_one_no_longer_once_an_operation_writes_it(write, tier, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    wait = "@%p9 cp.async.wait_group 0; bar.sync 0;" if write == "cp.async" else BY_MBARRIER
    expects = "" if write == "cp.async" else "@%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;"
    uses = "".join(f"@%p1 {use}\n" for use in FLAG_USES)
    for before, after, codes in ((wait, "", []), ("", wait, list(FLAG_USES.values()))):
        card = Device("sm_90a")
        array = card.array(np.arange(64, dtype=np.uint32))
        box = TensorMap.tiled(
            data_type="u32", global_address=array.address, global_dim=(64,), global_strides=(), box_dim=(4,), element_strides=(1,),
            interleave="none", swizzle="none", l2_promotion="none", oob_fill="zeros",
        )  # fmt: skip
        text = kernel(1, f"{FLAGS}{expects}{WRITES[write]}{before}\n{uses}bar.sync 0; {after}")
        text = text.replace("(.param .u64 p0)", "(.param .u64 p0, .param .align 64 .b8 map[128])")
        done = card.launch(text, "k", grid=2, cluster=2, block=64, args=[array, box])
        begin = text[: text.index(uses)].count("\n") + 1
        assert sorted((f.line - begin, f.code) for f in done.result.findings.values()) == list(enumerate(codes))


# Each warp touches the words of the other one. CTAs whose number is in a relation to 1 have a barrier in between.
EXCHANGED = """mov.u32 %r2, sm; mad.lo.u32 %r3, %r1, 4, %r2; xor.b32 %r4, %r3, 128; mov.u32 %r6, %ctaid.x; setp.{relation}.u32 %p1, %r6, 1;
st.shared.u32 [%r3], %r1; @%p1 bar.sync 0; {use} mad.lo.u32 %r6, %r6, 64, %r1; mul.wide.u32 %d1, %r6, 4; add.u64 %d1, %d20, %d1; st.global.u32 [%d1], %r5;"""


@pytest.mark.parametrize("cohorts", ["", "off"])
@pytest.mark.parametrize(
    "use", ["ld.shared.u32 %r5, [%r4];", "mov.u32 %r5, 0; st.shared.u32 [%r4], %r5;", "atom.shared.add.u32 %r5, [%r4], 1;"]
)
def test_a_race_names_all_ctas_that_have_it(use, cohorts, monkeypatch):
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    for relation, ctas in (("gt", (0, 1)), ("lt", (1, 2)), ("eq", (0, 2)), ("ne", (1,)), ("hi", (0, 1)), ("hs", (0,))):
        gpu = Gpu("sm_90a")
        text = kernel(1, EXCHANGED.format(relation=relation, use=use))
        run = gpu.launch(text, "k", grid=3, block=64, args=[gpu.zeros(192, np.uint32)], progress=False, workers=1, try_fixes=False)
        assert [(f.code, f.ctas) for f in run.findings] == [("X008", ctas)], relation


def test_a_warp_that_has_arrived_and_then_syncs_with_all_others_is_one_too_many():
    body = "setp.ge.u32 %p1, %r1, 32; @%p1 bra S; bar.arrive 1, 64; S: bar.sync 1{count};"
    assert list(found(body.format(count=""), block=64)) == ["X010"]
    # the third to come is alone in its phase
    assert list(found(body.format(count=", 64"), block=64)) == ["X010", "X006"]
    assert found("bar.sync 1; setp.ge.u32 %p1, %r1, 32; @%p1 bra S; bar.arrive 1, 64; bra E; S: bar.sync 1, 64; E:", block=64) == {}


def test_warps_that_arrive_where_nobody_waits_begin_the_next_phase():
    """CUTLASS's examples/77_blackwell_fmha (7107b05) ends so: all 8 warps arrive at a barrier for 5, and 3 of them
    belong to a phase that nobody ends.
    """
    assert found("bar.arrive 1, 96;", block=N) == {}
    # 128 of 96 leave 32, and 64 more complete the next phase
    assert found("bar.arrive 1, 96; setp.lt.u32 %p1, %r1, 64; @!%p1 bra E; bar.sync 1, 96; E:", block=N) == {}
    assert list(found("bar.arrive 1, 96; setp.lt.u32 %p1, %r1, 32; @!%p1 bra E; bar.sync 1, 96; E:", block=N)) == ["X006"]


@pytest.mark.parametrize(("first", "second"), [(0, 64), (64, 48), (0, 0)])
def test_loads_that_overlap_say_where_each_begins(first, second):
    body = f"""@%p9 mbarrier.init.shared::cta.b64 [bar], 1; @%p9 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128; fence.proxy.async.shared::cta;
    bar.sync 0; @%p9 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [sm+{first}], [%d20], 128, [bar]; bar.sync 0;
    {OWN} cp.async.ca.shared.global [%r4+{second}], [%d20], 4;"""
    done, _ = run(body, [np.zeros(32, np.uint32)], block=32)
    [finding] = [f for f in done.result.findings.values() if f.code == "X005"]
    if first == second:
        assert "before the next load into a stage" in finding.repair
    else:
        assert f"the first load begins at {0x400 + first:#x}, this one at {0x400 + second:#x}" in finding.repair


@pytest.mark.parametrize(("apart", "codes"), [(0, set()), (256, {"X005"})], ids=["the same bytes", "other bytes"])
def test_warps_that_each_copy_the_same_bytes_make_no_race(apart, codes):
    """The barrier counts the copies of both warps; only what they bring may not differ."""
    body = f"""
    mov.u32 %r5, sm; and.b32 %r6, %r1, 31; setp.eq.u32 %p1, %r6, 0; shr.u32 %r7, %r1, 5;
    @%p9 mbarrier.init.shared::cta.b64 [bar], 2; bar.sync 0;
    mul.wide.u32 %d1, %r7, {apart}; add.u64 %d1, %d1, %d20;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d1], 256, [bar];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;
    mad.lo.u32 %r4, %r1, 4, %r5; ld.shared.u32 %r2, [%r4]; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %d21; st.global.u32 [%d2], %r2;"""
    assert set(found(body, np.arange(128, dtype=np.uint32), np.zeros(64, np.uint32), block=64)) == codes


# Lane 0 takes what warp 1 brings, four times; the other lanes of its warp wait for the same phases in a copy of the
# loop, as compilers make one.
AHEAD = """.shared .align 8 .b64 bars[2]; .reg .b32 %full, %free, %round, %parity; mov.u32 %full, bars; add.u32 %free, %full, 8; mov.u32 %round, 0;
@%p9 mbarrier.init.shared.b64 [%full], 1; @%p9 mbarrier.init.shared.b64 [%free], 1; bar.sync 0;
setp.ge.u32 %p1, %r1, 32; @%p1 bra WARP1; setp.ne.u32 %p1, %r1, 0; @%p1 bra OTHERS;
TAKE: and.b32 %parity, %round, 1; mbarrier.try_wait.parity.shared.b64 %p2, [%full], %parity; @!%p2 bra TAKE;
mbarrier.arrive.shared.b64 _, [%free]; add.u32 %round, %round, 1; setp.lt.u32 %p2, %round, 4; @%p2 bra TAKE; bra END;
WARP1: setp.ne.u32 %p1, %r1, 32; @%p1 bra END;
BRING: mbarrier.arrive.shared.b64 _, [%full]; and.b32 %parity, %round, 1;
GIVEN: mbarrier.try_wait.parity.shared.b64 %p2, [%free], %parity; @!%p2 bra GIVEN;
add.u32 %round, %round, 1; setp.lt.u32 %p2, %round, 4; @%p2 bra BRING; bra END;
OTHERS: and.b32 %parity, %round, 1; mbarrier.try_wait.parity.shared.b64 %p2, [%full], %parity; @!%p2 bra OTHERS;
add.u32 %round, %round, 1; setp.lt.u32 %p2, %round, {}; @%p2 bra OTHERS; END: bar.sync 0;"""


@pytest.mark.parametrize(("rounds", "codes"), [(4, set()), (5, {"X006"})])
def test_lanes_do_not_miss_a_phase_that_another_lane_of_their_warp_has_passed(rounds, codes):
    """Hardware runs the lanes of a warp beside each other; those of Mosaic GPU that do not multiply wait with the one
    that does. A round too many hangs.
    """
    assert set(found(AHEAD.format(rounds), block=64)) - {"X010", "T210"} == codes


HEAD = """
HEAD:
setp.ge.u32 %p1, %r1, 32;
@%p1 bra LATCH;
add.u32 %r4, %r3, 7; st.shared.u32 [sm], %r4;
"""
LATCH = """
LATCH:
BARRIER
ld.shared.u32 %r5, [sm]; mad.lo.u32 %r2, %r2, 10, %r5;
bar.sync 0;
add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 3;
"""


ORDERS = [HEAD + LATCH + "@%p2 bra HEAD;", "bra.uni HEAD;" + LATCH + "@!%p2 bra DONE;" + HEAD + "bra.uni LATCH; DONE:"]
TO_ARRAY = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; st.global.u32 [%d1], %r2;"


@pytest.mark.parametrize(("barrier", "codes"), [("bar.sync 0;", set()), ("", {"X008"})])
@pytest.mark.parametrize("text", ORDERS)
def test_a_loop_whose_end_stands_in_front_of_its_begin_is_the_same_loop(text, barrier, codes):
    body = "mov.u32 %r2, 0; mov.u32 %r3, 0;" + text.replace("BARRIER", barrier) + TO_ARRAY
    done, (out,) = run(body, [np.zeros(64, np.uint32)], block=64)
    assert {f.code for f in done.result.findings.values()} == codes
    assert codes or set(out.numpy().tolist()) == {789}


ENDS = "LATCH: add.u32 %r2, %r2, 16; setp.lt.u32 %p2, %r2, 48; @!%p2 bra DONE;"
BEGINS = "HEAD: add.u32 %r2, %r2, 1; setp.ge.u32 %p1, %r1, 16; @%p1 bra LATCH;"


@pytest.mark.parametrize(
    ("text", "of_0", "of_1", "of_16"),
    [
        (f"{BEGINS} {ENDS} bra.uni HEAD; DONE:", 51, 51, 51),
        (f"bra.uni HEAD; {ENDS} {BEGINS} bra.uni LATCH; DONE:", 51, 51, 51),
        (f"@%p9 bra HEAD; {ENDS} {BEGINS} bra.uni LATCH; DONE:", 51, 50, 50),
        (f"@%p9 bra LATCH; bra.uni HEAD; {ENDS} {BEGINS} bra.uni LATCH; DONE:", 50, 51, 51),
        (f"bra.uni HEAD; {ENDS} {BEGINS} @%p9 bra LATCH; DONE:", 51, 1, 51),
    ],
    ids=["in order", "the end first", "threads fall into the end", "one begins at the end", "threads fall out of the loop"],
)
def test_each_thread_goes_its_way_through_a_loop_whose_end_stands_in_front(text, of_0, of_1, of_16):
    """Sums of 16 for each pass of the loop's end, and 1 for each pass of its begin."""
    _, (out,) = run(f"mov.u32 %r2, 0; {text} {TO_ARRAY}", [np.zeros(64, np.uint32)], block=64)
    assert out.numpy().tolist() == [of_0] + [of_1] * 15 + [of_16] * 48


def test_one_warp_loops_and_several_loop():
    for block, who in (
        (32, "warp 0 of CTA (0, 0, 0) still runs at the limit of the launch"),
        (64, "warps 0, 1 of CTA (0, 0, 0) still run at the limit of the launch"),
    ):
        hung = Gpu("sm_90a").launch(kernel(0, "L: bra L;"), block=block, progress=False, limit=2000)
        assert [f.what for f in hung.findings] == [who]


@pytest.mark.parametrize("lanes", ["lt.u32 %p1, %r4, 16", "lt.u32 %p1, %r4, 1", "ge.u32 %p1, %r4, 16"])
@pytest.mark.parametrize(
    ("block", "count", "codes"), [(32, 32, set()), (64, 32, set()), (64, 64, set()), (128, 64, {"X010"}), (128, 128, set())]
)
def test_a_barrier_counts_each_warp_whole_of_which_some_lanes_come(block, count, codes, lanes):
    """PTX ISA 9.1 §9.7.13.1: an arrival counts the warp size, whatever lanes are active. A barrier of one
    warp is complete with each warp (golden/sm_90a/lanes_at_barriers).
    """
    body = f"and.b32 %r4, %r1, 31; setp.{lanes}; @!%p1 bra END; barrier.sync 1, {count}; END:"
    assert set(found(body, block=block)) == codes


# A loop that waits for ever, whose load lies in one of its blocks or in none; another load is before it.
ENDLESS = {
    "one block": ("{load} setp.eq.u32 %p1, %r2, 0;\n @%p1 bra L;", True),
    "the first of two": ("{load} setp.ne.u32 %p1, %r2, 0;\n @%p1 bra OUT;\n nanosleep.u32 20;\n bra L;", True),
    "the second of two": ("setp.eq.u32 %p2, %r1, 40;\n @%p2 bra OUT;\n {load} setp.eq.u32 %p1, %r2, 0;\n @%p1 bra L;", True),
    "the last of three": ("setp.eq.u32 %p2, %r1, 40;\n @%p2 bra OUT;\n setp.eq.u32 %p2, %r1, 41;\n @%p2 bra OUT;\n {load} setp.eq.u32 %p1, %r2, 0;\n @%p1 bra L;", True),
    "none": ("mov.u32 %r2, 0;\n setp.eq.u32 %p1, %r2, 0;\n @%p1 bra L;", False),
    "none of two": ("setp.eq.u32 %p2, %r1, 40;\n @%p2 bra OUT;\n mov.u32 %r2, 0; setp.eq.u32 %p1, %r2, 0;\n @%p1 bra L;", False),
}  # fmt: skip


@pytest.mark.parametrize("load", ["ld.relaxed.gpu.global.u32 %r2, [%d20];", "atom.global.or.b32 %r2, [%d20], 0;"])
@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_loop_names_what_it_reads_in_whichever_block(name, load):
    loop, reads = ENDLESS[name]
    lines = f"ld.global.u32 %r3, [%d20+4];\n L:\n {loop.format(load=load)}\n OUT:"
    done, _ = run(lines, [np.zeros(8, np.uint32)])
    (hang,) = done.result.findings.values()
    assert hang.code == "X006"
    assert (f"({load.split()[0]})" in hang.repair) == reads
    assert ("reads 0 at byte 0" in hang.message) == reads
    assert "ld.global.u32" not in hang.repair.replace(load.split()[0], "")


# One thread arrives, and copies 64 bytes, 128 bytes, and so on, by one instruction; all wait, and read the first words.
ARRIVES = """setp.ne.u32 %p1, %r1, 0; mov.u32 %r4, sm; mov.u32 %r5, bar; @%p1 bra MEET; mbarrier.init.shared.b64 [%r5], 1; fence.mbarrier_init.release.cluster;
MEET: bar.sync 0; @%p1 bra WAIT; mov.u32 %r6, {first};
{arrive}
COPY: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d20], %r6, [%r5]; add.u32 %r4, %r4, %r6;
add.u32 %r6, %r6, 64; setp.le.u32 %p3, %r6, {last}; @%p3 bra COPY;
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra WAIT; ld.shared.u32 %r2, [sm]; st.global.u32 [%d21], %r2;"""


@pytest.mark.parametrize(("first", "last", "size"), [(128, 128, 128), (64, 128, 192), (64, 192, 384)])
def test_an_arrival_that_expects_nothing_is_named_with_the_bytes_of_its_copies(first, last, size):
    """The number is told where the copies of the line are of one size. Bytes that are expected in its place are right."""
    arrive = "mbarrier.arrive.shared.b64 %d4, [%r5];"
    arrays = [np.zeros(256, np.uint32), np.zeros(1, np.uint32)]
    done, _ = run(ARRIVES.format(first=first, last=last, arrive=arrive), arrays)
    (f,) = done.result.findings.values()
    assert f.code == "X004"
    assert f.why.endswith("(mbarrier.arrive.shared.b64) expects none")
    assert f.repair.startswith("mbarrier.arrive.expect_tx instead of mbarrier.arrive.shared.b64 in line ")
    assert f.repair.endswith(f"in a phase ({size} of line {f.halves[1].instruction.line})") == (first == last)
    right = f"mbarrier.arrive.expect_tx.shared.b64 %d4, [%r5], {size};"
    done, _ = run(ARRIVES.format(first=first, last=last, arrive=right), arrays)
    assert not done.result.findings
