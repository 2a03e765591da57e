"""Laws of the comparison of CTAs: they do the same exactly if each one's numbers are the first one's, moved."""

import random

import numpy as np
import pytest

from smemsim.run.cohort import Cohort, Unfolded, are_repeated, own_of, repeats


def numbers_of(drawn: random.Random, count: int, own: int, stride: int, limit: int) -> list[int]:
    """Numbers of CTAs that mostly do the same: one may be changed, left out, or one too many."""
    first = sorted(drawn.sample(range(limit), own)) if drawn.random() < 0.5 else [drawn.randrange(limit) for _ in range(own)]
    found = [n + cta * stride for cta in range(count) for n in first]
    change = drawn.randrange(6)
    if found and change == 0:
        found[drawn.randrange(len(found))] += drawn.choice((-1, 1, stride or 1))
    elif found and change == 1:
        del found[drawn.randrange(len(found))]
    elif change == 2:
        found.append(drawn.randrange(limit * count))
    return found


def same(numbers: list[int], count: int, stride: int) -> list[int] | None:
    own, rest = divmod(len(numbers), count)
    if rest or not own:
        return None
    first = numbers[:own]
    is_same = numbers == [n + cta * stride for cta in range(count) for n in first]
    return first if is_same and (stride == 0 or max(first) < stride) else None


@pytest.mark.parametrize("seed", range(12))
def test_ctas_are_the_same_if_each_has_the_numbers_of_the_first_one_moved(seed):
    drawn, seen = random.Random(seed), set()
    for _ in range(60):
        count, own, stride = drawn.randrange(1, 5), drawn.randrange(4), drawn.choice((0, 32, 64))
        numbers = numbers_of(drawn, count, own, stride, drawn.choice((stride or 8, 80)))
        wanted, found = same(numbers, count, stride), own_of(np.array(numbers, np.int64), count, stride)
        assert (None if found is None else found.tolist()) == wanted
        seen.add(wanted is None)
        cohort = Cohort(count, stride or 32, stride or 256, is_apart=True)
        for mine, apart in ((cohort.own_threads, stride or 32), (cohort.own_places, stride or 256)):
            whole, found = same(numbers, count, apart), mine(np.array(numbers, np.int64))
            assert (None if found is None else found.tolist()) == whole
        assert cohort.are_same(np.array(numbers, np.int64)) == (same(numbers, count, 0) is not None)
    assert seen == {True, False}


@pytest.mark.parametrize("seed", range(12))
def test_a_cta_repeats_the_first_one_if_its_numbers_are_so_much_more(seed):
    drawn, seen = random.Random(seed), set()
    for _ in range(80):
        first = (
            sorted(drawn.sample(range(12), drawn.randrange(5)))
            if drawn.random() < 0.6
            else [*range(k := drawn.randrange(9), k + drawn.randrange(4))]
        )
        other = [n + 64 for n in first]
        if drawn.random() < 0.5:
            other = sorted(drawn.sample(range(64, 76), drawn.choice((len(first), drawn.randrange(5)))))
        wanted = bool(first) and other == [n + 64 for n in first]
        assert repeats(np.array(other, np.int64), np.array(first, np.int64), 64) == wanted, (first, other)
        assert repeats(np.array(other, np.int64), np.array(first, np.int64), 63) == (bool(first) and other == [n + 63 for n in first])
        seen.add(wanted)
        items = [drawn.randrange(2) for _ in range(drawn.randrange(1, 7))]
        for own in range(4):
            groups = [items[n : n + own] for n in range(0, len(items), own)] if own else []
            is_so = own > 0 and len(items) % own == 0 and all(group == groups[0] for group in groups)
            assert are_repeated(items, own) == is_so, (items, own)
    assert seen == {True, False}


@pytest.mark.parametrize("seed", range(12))
def test_issuing_threads_and_accesses_are_those_of_the_first_cta_if_each_has_the_same(seed):
    drawn, seen = random.Random(seed), set()
    for _ in range(60):
        count, own = drawn.randrange(1, 4), drawn.randrange(1, 3)
        cohort = Cohort(count, 64, 256, is_apart=True)
        threads = numbers_of(drawn, count, own, 64, 64)
        mine = same(threads, count, 64)
        what = [[drawn.randrange(2) if drawn.random() < 0.2 else 0 for _ in threads] for _ in range(2)]
        k = len(mine or ())
        is_same = all(row == row[:k] * count for row in what)
        for _ in range(2):  # and again, when it is known
            assert cohort.own_count(threads, *what) == (k if mine and is_same else 0)
            assert cohort.own_count(threads) == k
        warps = [(drawn.randrange(2), 0, drawn.randrange(2)) for _ in range(own)]
        accesses = [(warp + 2 * cta, cta, more) for cta in range(count) for warp, _, more in warps]
        wanted = warps
        if drawn.random() < 0.6:
            n, field = drawn.randrange(len(accesses)), drawn.randrange(3)
            accesses[n] = tuple(x + (field == f) for f, x in enumerate(accesses[n]))
            own_ = accesses[:own]
            is_so = accesses == [(w + 2 * cta, c + cta, more) for cta in range(count) for w, c, more in own_]
            wanted = own_ if is_so else None
        elif drawn.random() < 0.5:
            del accesses[-1]
            own_, rest = divmod(len(accesses), count)
            wanted = accesses[:own_] if own_ and not rest and accesses == [(w + 2 * cta, c + cta, m) for cta in range(count) for w, c, m in accesses[:own_]] else None  # fmt: skip
        found = cohort.own_accesses(accesses)
        assert found == wanted
        seen.add(found is None)
    assert seen == {True, False}
    assert Cohort(2, 64, 256, is_apart=True).own_accesses([]) is None


@pytest.mark.parametrize(("rounds", "ctas"), [(0, 2), (1, 1), (1, 3), (2, 1), (2, 2), (3, 4)])
def test_what_the_first_cta_does_is_unfolded_for_each_in_turn(rounds, ctas):
    each = [
        (np.array([5 * n, 5 * n + 1]), tuple(f"{n} of {cta}" for cta in range(ctas)), 64 * np.arange(ctas)[:, None]) for n in range(rounds)
    ]
    both = Unfolded(each)
    wanted = [([5 * n + 64 * cta, 5 * n + 1 + 64 * cta], f"{n} of {cta}") for cta in range(ctas) for n in range(rounds)]
    assert len(both) == len(wanted)
    assert [(threads.tolist(), at) for threads, at in both] == wanted
    assert [(both[k][0].tolist(), both[k][1]) for k in range(len(wanted))] == wanted
    assert [at for _, at in both[1:]] == [at for _, at in wanted[1:]]
    assert [(threads.tolist(), at) for threads, at in both.own] == wanted[:rounds]
    assert both.all is both.all
