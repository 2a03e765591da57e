"""Laws of a sample of a grid: its corners, edges and middle, and a cluster for each other outcome of the bounds tests."""

import itertools

import numpy as np
import pytest

from smemsim import Gpu

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {
.reg .pred %p<20>; .reg .b32 %r<40>; .reg .b64 %d<9>;
"""


def launched(body: str, grid=(1, 1, 1), block=32, n=0, cluster=(1, 1, 1), ctas="sample"):
    gpu = Gpu("sm_90a")
    given = {"cluster": cluster} if cluster != (1, 1, 1) else {}
    return gpu.launch(
        f"{HEAD}{body}\nret;\n}}", "k", grid=grid, block=block, args=[gpu.zeros(1, np.uint32), n], ctas=ctas, progress=False, **given
    )


@pytest.mark.parametrize(
    ("grid", "cluster"),
    [
        ((6, 1, 1), (1, 1, 1)), ((7, 1, 1), (1, 1, 1)), ((1, 9, 1), (1, 1, 1)), ((1, 1, 8), (1, 1, 1)), ((6, 5, 1), (1, 1, 1)), ((3, 1, 8), (1, 1, 1)),
        ((4, 4, 4), (1, 1, 1)), ((5, 4, 3), (1, 1, 1)), ((2, 2, 9), (1, 1, 1)), ((16, 1, 1), (2, 1, 1)), ((8, 8, 1), (2, 2, 1)), ((5, 1, 1), (1, 1, 1)),
        ((3, 3, 1), (1, 1, 1)), ((1, 1, 1), (1, 1, 1)), ((12, 6, 2), (1, 1, 2)),
    ],
)  # fmt: skip
def test_a_sample_has_the_first_the_middle_and_the_last_of_each_axis(grid, cluster):
    counts = [g // c for g, c in zip(grid, cluster, strict=True)]
    ends = [sorted({0, count // 2, count - 1}) for count in counts]
    found = launched("", grid, cluster=cluster).sample
    clusters = int(np.prod(counts))
    if 2 * int(np.prod([len(axis) for axis in ends])) > clusters:
        assert found is None  # all of them run
        return
    wide = [n for n in range(3) if counts[n] > 1]
    wanted = []
    for z, y, x in itertools.product(*reversed(ends)):
        at = (x, y, z)
        named = [f"{'first' if at[n] == 0 else 'last'} of {'xyz'[n]}" for n in wide if at[n] in (0, counts[n] - 1)]
        if len(wide) == 1 and named:
            why = named[0].partition(" ")[0]
        else:
            why = f"{'corner' if len(named) == len(wide) else 'edge'}: {', '.join(named)}" if named else "interior"
        place = tuple(a * c for a, c in zip(at, cluster, strict=True))
        wanted.append((x + counts[0] * (y + counts[1] * z), place, why))
    assert [(one.cluster, one.ctaid, one.why) for one in found.chosen] == sorted(wanted)
    assert found.left == 0
    told = [f"{'cluster of ' * (cluster != (1, 1, 1))}CTA {place} {why}" for _, place, why in sorted(wanted)]
    more = f"; and {len(told) - 12} more" if len(told) > 12 else ""
    assert found.text() == f"sample: {'; '.join(told[:12])}{more}"


# A test of a place in the grid: PTX with {p}, the same for a CTA (x, y) and threads.
PLACE = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %tid.x; mov.u32 %r5, %ntid.x; ld.param.u32 %r4, [n];\n"
TESTS = {
    "threads of an array": ("mad.lo.u32 %r6, %r1, %r5, %r3; setp.lt.u32 %p1, %r6, %r4;", lambda x, y, t, n: x * 32 + t < n),
    "one column": ("setp.eq.u32 %p1, %r1, 5;", lambda x, y, t, n: x + 0 * t == 5),
    "each third row": ("rem.u32 %r6, %r2, 3; setp.eq.u32 %p1, %r6, 1;", lambda x, y, t, n: y % 3 + 0 * t == 1),
    "both": (
        "setp.eq.u32 %p1, %r1, 5; setp.gt.u32 %p2, %r2, 3; setp.lt.u32 %p3, %r3, 4;",
        lambda x, y, t, n: (x == 5) * 2 + (y > 3) + 0 * t,
    ),
    "two CTAs": (
        "shr.u32 %r7, %r1, 1; mad.lo.u32 %r6, %r2, 6, %r7; setp.eq.u32 %p1, %r6, 7;",
        lambda x, y, t, n: 6 * y + x // 2 + 0 * t == 7,
    ),
    "some threads": ("add.u32 %r6, %r1, %r3; setp.eq.u32 %p1, %r6, 7;", lambda x, y, t, n: x + t == 7),
    "the diagonal": ("setp.eq.u32 %p1, %r1, %r2;", lambda x, y, t, n: (x == y) + 0 * t),
}


def kinds(test, grid, n):
    """For each cluster the sets of outcomes of its threads."""
    threads = np.arange(32)
    return {
        x + grid[0] * y: tuple(sorted(set(np.asarray(test(x, y, threads, n)).tolist()))) for y in range(grid[1]) for x in range(grid[0])
    }


@pytest.mark.parametrize("n", [0, 100, 320, 11 * 32])
@pytest.mark.parametrize(("text", "test"), TESTS.values(), ids=TESTS)
def test_each_outcome_of_the_bounds_tests_is_in_the_sample(text, test, n):
    grid = (12, 7, 1)
    found = launched("\n".join([PLACE, text]), grid, n=n).sample
    of_each = kinds(test, grid, n)
    places = [x + grid[0] * y for y in (0, 3, 6) for x in (0, 6, 11)]
    others = {}
    for cluster, kind in of_each.items():
        if kind not in {of_each[k] for k in places}:
            others.setdefault(kind, []).append(cluster)
    added = {one.cluster: one for one in found.chosen if one.cluster not in places}
    assert set(found.clusters) == {*places, *(own[0] for own in others.values())}
    assert [*added] == sorted(added)
    for own in others.values():
        more = f", as in {len(own) - 1} other{'s' * (len(own) > 2)}" if len(own) > 1 else ""
        assert added[own[0]].why.startswith("another outcome of the test at line ")
        assert added[own[0]].why.endswith(more)
        assert ("as in" in added[own[0]].why) == bool(more)
        assert added[own[0]].ctaid == (own[0] % 12, own[0] // 12, 0)


def test_a_cluster_with_another_outcome_is_named_by_its_first_cta():
    found = launched(PLACE + "setp.eq.u32 %p1, %r1, 7;", (40, 1, 1), cluster=(2, 1, 1)).sample
    assert [(one.cluster, one.ctaid) for one in found.chosen] == [(0, (0, 0, 0)), (3, (6, 0, 0)), (10, (20, 0, 0)), (19, (38, 0, 0))]


UNKNOWN = {
    "a value of memory": "ld.param.u64 %d1, [p]; ld.global.u32 %r7, [%d1]; add.u32 %r6, %r7, %r1; setp.eq.u32 %p1, %r6, 5;",
    "the lane of a clock": "mov.u32 %r6, %clock; setp.eq.u32 %p1, %r1, %r6;",
    "the multiprocessor": "mov.u32 %r7, %smid; add.u32 %r6, %r7, %r1; setp.eq.u32 %p1, %r6, 5;",
    "a register of two values": "setp.lt.u32 %p2, %r3, 5; mov.u32 %r6, %r1; @%p2 add.u32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 5;",
    "a test of some threads": "setp.lt.u32 %p2, %r3, 5; setp.lt.u32 %p1, %r3, 5; @%p2 setp.eq.u32 %p1, %r1, 5;",
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_a_test_that_more_than_the_place_decides_is_not_known(text):
    found = launched(PLACE + text, (20, 1, 1)).sample
    assert found.clusters == [0, 10, 19]


@pytest.mark.parametrize(
    ("at", "is_seen"), [(2047, True), (2048, False), (2900, False), (2951, False), (2952, True), (0, True), (2500, True)]
)
def test_of_a_large_grid_both_ends_are_looked_at(at, is_seen):
    found = launched(PLACE + f"setp.eq.u32 %p1, %r1, {at};", (5000, 1, 1)).sample
    assert (at in found.clusters) == is_seen
    assert set(found.clusters) <= {0, 2500, 4999, at}
    grid = launched(PLACE + "setp.eq.u32 %p1, %r1, 1700;", (4096, 1, 1)).sample
    assert 1700 in grid.clusters


@pytest.mark.parametrize(("bits", "left"), [(4, 0), (5, 13)])
def test_sixteen_other_outcomes_are_added_at_most(bits, left):
    tests = "".join(f"and.b32 %r{10 + n}, %r1, {1 << n}; setp.ne.u32 %p{n + 1}, %r{10 + n}, 0;" for n in range(bits))
    found = launched(PLACE + tests, (64, 1, 1)).sample
    others = [one for one in found.chosen if "outcome" in one.why]
    known = {c % (1 << bits) for c in (0, 32, 63)}
    assert len(others) == min(16, (1 << bits) - len(known))
    assert found.left == max(0, (1 << bits) - len(known) - 16)
    assert ("further combinations" in found.text()) == (found.left > 0)
    assert [one.cluster for one in others] == [c for c in range(1 << bits) if c not in known][:16]


def test_the_test_that_is_named_is_the_first_that_differs_from_the_middle():
    body = PLACE + "setp.gt.u32 %p1, %r1, 100;\nsetp.eq.u32 %p2, %r1, 7;\nsetp.eq.u32 %p3, %r1, 7;"
    found = launched(body, (20, 1, 1)).sample
    (other,) = (one for one in found.chosen if one.cluster == 7)
    line = 1 + (HEAD + body).splitlines().index("setp.eq.u32 %p2, %r1, 7;")
    assert other.why == f"another outcome of the test at line {line}"


def test_threads_beyond_the_block_have_no_outcome():
    """A block of 40 threads has two warps, of which 24 lanes do not exist."""
    for thread, is_there in ((39, True), (40, False), (50, False), (63, False)):
        body = PLACE + f"mad.lo.u32 %r6, %r1, 64, %r3; setp.eq.u32 %p1, %r6, {5 * 64 + thread};"
        assert launched(body, (20, 1, 1), block=40).sample.clusters == ([0, 5, 10, 19] if is_there else [0, 10, 19])
