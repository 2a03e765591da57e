"""Laws of the words about two D: what a sentence says of places is read back and done again, and is so."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim.diagnosis.difference.diagnose import _combined, _rounding, _where
from smemsim.diagnosis.difference.moved import _sources, moved_elements, moved_told

SIZES = (8, 24, 64)


def numbers_read(text, size):
    """The numbers that "0 to 2, 5", "1, 3 mod 8" and "0, 8, 16 ... 56" name; None if the text leaves some out."""
    if found := re.fullmatch(r"(\d+), (\d+), \d+ \.\.\. (\d+)", text):
        first, second, last = map(int, found.groups())
        return list(range(first, last + 1, second - first))
    if text.endswith("..."):
        return None
    runs, _, period = text.partition(" mod ")
    own = [n for run in runs.split(", ") for ends in [run.split(" to ")] for n in range(int(ends[0]), int(ends[-1]) + 1)]
    return sorted(n for n in range(size) if n % int(period) in own) if period else own


def places_read(text, size, letter="m"):
    """The source of each line, as `moved_told` says it; {line: source} of those that are named where some are left out."""
    i = np.arange(size)
    if found := re.fullmatch(rf"row {letter} has what belongs in (.*)", text):
        return eval(found[1], {letter: i})
    if found := re.fullmatch(rf"row {letter} of (.*) has what belongs in ({letter} [+-] \d+)", text):
        lines = numbers_read(found[1], size)
        told = i.copy()
        if lines is None:
            return None
        told[lines] = eval(found[2], {letter: i})[lines]
        return told
    pairs = {int(line): int(source) for line, source in re.findall(r"row (\d+) has that of (\d+)", text)}
    count, of = map(int, re.search(r"\((\d+) of (\d+)\)$", text).groups())
    assert of == size
    assert (", …" in text) == (count > len(pairs))
    assert len(pairs) == min(count, 4)
    return pairs, count


def orders(size):
    """Orders of lines: those of swizzles, turns, skews, mirrors; a few lines alone; any."""
    i, rng = np.arange(size), np.random.default_rng(size)
    for x in (1, 2, 4, 5, 7) if size & (size - 1) == 0 else ():
        yield i ^ x
    for d in (1, 3, size - 1):
        yield (i - d) % size
    for d in (-2, -1, 1, 2):
        skewed = i - d * (i // 8)
        if skewed.min() >= 0 and skewed.max() < size:
            yield skewed
    for x in (2, 4, 8):
        yield i % x
        yield i - i % x
    yield size - 1 - i
    for some in ([2], [1, 3], [0, 1, 2, 5], [n for n in range(size) if n % 4 == 1], [*range(4)]):
        for step in (1, 3):
            one = i.copy()
            one[some] += step
            yield np.minimum(one, size - 1)
    for count in (2, 4, 5, size):
        some, mixed = rng.permutation(size)[:count], i.copy()
        mixed[some] = rng.permutation(some)
        if (mixed != i).any():
            yield mixed


@pytest.mark.parametrize("size", SIZES)
def test_where_lines_come_from_is_said_as_it_is(size):
    for source in orders(size):
        told = places_read(moved_told(source, "row", "m"), size)
        if isinstance(told, tuple):
            pairs, count = told
            assert all(source[line] == of for line, of in pairs.items())
            assert count == int((source != np.arange(size)).sum())
            assert list(pairs) == np.nonzero(source != np.arange(size))[0][:4].tolist()
        else:
            assert told is None or (np.broadcast_to(told, size) == source).all()


def test_a_rule_is_said_and_not_its_first_lines():
    """XOR before turns, both before skews and repetitions: a swizzle is a more likely cause than chance."""
    i, skews = np.arange(128), [*range(-16, 0), *range(1, 17)]
    rules = [(i ^ x, f"m ^ {x}") for x in range(1, 128)] + [((i - d) % 128, f"(m - {d}) % 128") for d in range(1, 128) if d != 64]
    rules += [(i - d * (i // 8), f"m {'-' if d > 0 else '+'} {abs(d)} * (m // 8)") for d in skews if d != 8]
    rules += [(i % x, f"m % {x}") for x in (2, 4, 16, 32, 64)] + [(i - i % x, f"m - m % {x}") for x in (2, 4, 8, 16, 32, 64)]
    for source, text in rules:
        assert moved_told(source, "row", "m") == f"row m has what belongs in {text}"
    assert moved_told((i - 64) % 128, "row", "m") == "row m has what belongs in m ^ 64"
    assert moved_told(i % 8, "row", "m") == "row m has what belongs in m - 8 * (m // 8)"
    assert moved_told(11 - np.arange(12), "column", "n") == "column n has what belongs in 11 - n"


@pytest.mark.parametrize("turn", [(lambda n: (np.arange(n) - 1) % n), (lambda n: np.arange(n) ^ 1), (lambda n: np.arange(n)[::-1])])
def test_each_line_is_found_where_another_has_its_numbers(turn):
    """Beside NaNs and small noise, too. Equal lines, and lines of one number, say nothing."""
    rng, size = np.random.default_rng(3), 8
    wanted, source = rng.standard_normal((size, 6)), turn(8)
    found = wanted[source] + rng.uniform(-1e-3, 1e-3, (size, 6))
    found[:, 2] = np.nan
    every = np.ones(size, bool)
    assert _sources(found, wanted, every).tolist() == source.tolist()
    some = np.arange(size) % 2 == 0
    assert _sources(found, wanted, some).tolist() == np.where(some, source, np.arange(size)).tolist()
    assert _sources(wanted[source], np.tile(wanted[:1], (size, 1)), every) is None
    assert _sources(np.repeat(wanted[source, :1], 6, axis=1), np.repeat(wanted[:, :1], 6, axis=1), every) is None
    assert _sources(wanted, wanted, every) is None


def compared(model, hardware, *, exact=True):
    return SimpleNamespace(model=model, hardware=hardware, wrong=model != hardware, exact=exact)


@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_elements_that_have_changed_places_are_named_with_their_sources(count):
    rng, model = np.random.default_rng(count), np.arange(100, 164, dtype=np.uint32).reshape(8, 8)
    at, hardware = [tuple(divmod(int(n), 8)) for n in rng.permutation(64)[:count]], model.copy()
    for to, of in zip(at, [*at[1:], at[0]], strict=True):
        hardware[to] = model[of]
    [text] = moved_elements(compared(model, hardware))
    told = [tuple(map(int, one)) for one in re.findall(r"\[(\d+), (\d+)\] has that of \[(\d+), (\d+)\]", text)]
    assert len(told) == min(count, 3)
    assert text.endswith(", …") == (count > 3)
    assert all(hardware[a, b] == model[c, d] for a, b, c, d in told)
    assert not moved_elements(compared(model, hardware, exact=False))
    hardware[at[0]] += 1000
    assert not moved_elements(compared(model, hardware))
    assert not moved_elements(compared(np.array([[5, 5, 6, 6, 7]]), np.array([[7, 6, 5, 5, 6]])))  # of one alone a place is known


@pytest.mark.parametrize(("rows", "columns", "text"), [
    ([3], [], "row 3"), ([], [6], "column 6"), ([0, 15], [2], "row 0 and row 15 and column 2"), ([1, 2, 9], [4, 5, 30], "row 1 and row 2 and row 9 and column 4 and column 5 and column 30"),
    ([1, 2, 9, 11], [], "4 rows (1 to 11) and 32 columns (0 to 31)"), ([], [0, 7, 8, 9], "16 rows (0 to 15) and 4 columns (0 to 9)"),
])  # fmt: skip
def test_whole_lines_are_named_and_many_are_counted(rows, columns, text):
    wrong = np.zeros((16, 32), bool)
    wrong[rows] = True
    wrong[:, columns] = True
    assert _where(SimpleNamespace(wrong=wrong)) == text


@pytest.mark.parametrize("shape", [(16, 32), (32, 16)])
def test_lines_are_whole_if_more_than_half_of_them_differs(shape):
    for axis, what, other in ((0, "row", "columns"), (1, "column", "rows")):
        length = shape[1 - axis]
        for count in (2, length // 2, length // 2 + 1, length):
            wrong = np.zeros(shape, bool)
            np.moveaxis(wrong, axis, 0)[5, :count] = True
            is_whole = 2 * count > length
            text = _where(SimpleNamespace(wrong=wrong))
            assert f"{what} 5" in text
            assert (f"{count} {other} (0 to {count - 1})" in text) != is_whole
            wrong[9, 9] = True  # beside a whole line: nothing is named alone
            assert f"2 {what}s (5 to 9)" in _where(SimpleNamespace(wrong=wrong))


@pytest.mark.parametrize("count", [1, 3, 4, 12])
def test_rounding_that_is_in_one_line_alone_is_told_of_more_than_three_elements(count):
    for axis, told in (
        (0, "row 5, and rounding does not choose: an element of A"),
        (1, "column 5, and rounding does not choose: an element of B"),
    ):
        wrong = np.zeros((16, 12) if axis == 0 else (12, 16), bool)
        np.moveaxis(wrong, axis, 0)[5, :count] = True
        first, *more = _rounding(SimpleNamespace(wrong=wrong)).because
        assert first.startswith("no difference is larger than rounding")
        assert [told in text for text in more] == [True] * (count > 3)
        wrong[0, 0] = True
        assert len(_rounding(SimpleNamespace(wrong=wrong)).because) == 1
    thin = np.zeros((16, 1), bool)
    thin[:9] = True  # D has one column only
    assert len(_rounding(SimpleNamespace(wrong=thin)).because) == 1


@pytest.mark.parametrize("count", range(1, 8))
def test_all_that_gives_d_is_told_or_counted(count):
    kinds = ("a wrong layout", "another option", "rounding")
    for several in (1, 2, 3):
        sentences = [(kinds[n % several], f"reason {n} held") for n in range(count)]
        for rounded in (False, True):
            left = [s for s in sentences if s[0] == "rounding"] if rounded and several == 3 and count > 2 else sentences
            found = _combined(SimpleNamespace(said="bit for bit"), list(sentences), rounded)
            seen = list(dict.fromkeys(kind for kind, _ in left))
            assert found.looks_like == (seen[0] if len(seen) == 1 else "unknown")
            assert found.because[0] == f"D is what it would be if {left[0][1]}, bit for bit"
            told = [x.removeprefix("or if ") for x in found.because if x.startswith("or if ")]
            assert told == [text for _, text in left[1:4]]
            assert [x for x in found.because if "things more" in x] == [f"or {len(left) - 4} things more"] * (len(left) > 4)
            assert [x for x in found.because if "do not tell" in x] == [f"these data do not tell {' from '.join(seen)}"] * (len(seen) > 1)
