"""Laws of what a launch multiplies: each k once, none left out, the same tile by no two CTAs, no steps exchanged."""

import collections
import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim import TensorMap
from smemsim.core.ptx import read_module
from smemsim.diagnosis.operands.exchanged_steps import exchanged_steps
from smemsim.diagnosis.operands.k_slices import _ranges, _told
from smemsim.diagnosis.operands.repeated import _axis, repeated_products
from smemsim.diagnosis.operands.steps import _found_unreached, are_whole, begun_anew
from smemsim.run import Load, Store

TEXT = (
    ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .b32 %r<9>;\n"
    + "".join(f"mov.u32 %r{n}, {n};\n" for n in range(8))
    + "ret; }"
)
LINES = read_module(TEXT).functions["k"].body[:8]
MAP = TensorMap.tiled(data_type="f16", global_address=0x10000, global_dim=(64, 64), global_strides=(128,), box_dim=(16, 16))
OTHER = TensorMap.tiled(data_type="f16", global_address=0x20000, global_dim=(64, 64), global_strides=(128,), box_dim=(16, 16))


def numbers_of(text):
    return [n for run in text.split(", ") for ends in [[*map(int, run.split(" to "))]] for n in range(ends[0], ends[-1] + 1)]


# ---- slices of K


def test_ranges_name_each_number_once():
    for count in range(1, 7):
        for some in itertools.combinations(range(8), count):
            assert numbers_of(_ranges(some)) == [*some]


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("has_numbers", [True, False])
def test_k_that_are_multiplied_more_often_or_never_are_counted(width, has_numbers):
    """Nothing is said if all k are there, or past the end, or if a part of more than a step is left out."""
    extent, asked = 128, []
    starts = [*range(0, 136, width)]
    rng = np.random.default_rng(width)
    cases = [dict.fromkeys(starts[:n], 1) for n in range(1, len(starts) + 1)] + [{k: 1 for k in starts[:8] if k != n} for n in starts[:8]]
    cases += [{120: 1, **dict.fromkeys(starts[:7], 1)}, {124: 1, 0: 1}]
    cases += [{int(k): int(rng.integers(1, 3)) for k in rng.choice(starts[: 128 // width], 6)} for _ in range(20)]
    for case in cases:
        times = np.zeros(max(extent, max(case) + width), int)
        for k, count in case.items():
            times[k : k + width] += count
        found = _told(collections.Counter(case), extent, width, LINES[0], lambda k: asked.append(k.tolist()) or has_numbers)
        never, often = np.flatnonzero(times == 0).tolist(), np.flatnonzero(times > times[times > 0].min()).tolist()
        is_step = 4 * len(never) <= extent and never == [*range(never[0], never[-1] + 1)] if never else False
        if not never or len(times) > extent or (not often and not (is_step and has_numbers)):
            assert not found
            continue
        (f,) = found
        assert f.severity.name == "NOTE"
        if often:
            twice, none = re.search(r"have k = (.*) more often than others, and k = (.*) never", f.what).groups()
            assert (numbers_of(twice), numbers_of(none)) == (often, never)
        else:
            assert numbers_of(re.search(r"multiplies k = (.*) of A and B", f.what)[1]) == never
            assert asked[-1] == never


# ---- sums that have all k


def product(steps, *, accumulator="d", begins=True, base=0x10000, k=16, cta=0, freely=False, rows=(0, 0), other_base=0x20000):
    """Products of these first k of A and B (one number: the same of both)."""
    pairs = [(at, at) if isinstance(at, int) else at for at in steps]

    def reads(side):
        return [
            None if pair[side] is None
            else SimpleNamespace(base=(base, other_base)[side], at=(rows[side], pair[side]), loads=[SimpleNamespace(transfer=SimpleNamespace(tensor_map=(MAP, OTHER)[side]), event=SimpleNamespace(instruction=LINES[side]))])
            for pair in pairs
        ]  # fmt: skip

    events = [
        SimpleNamespace(k=k, begins=begins and n == 0, scale_d=not begins or n > 0, instruction=LINES[2 + n], is_sparse=False, cta=cta)
        for n in range(len(pairs))
    ]
    a, b = reads(0), reads(1)
    return SimpleNamespace(events=events, a=a, b=b, first=(a[0], b[0]), accumulator=accumulator, cta=cta, pairs_freely=freely)


def reads_of(*products, complete=True):
    return SimpleNamespace(products=list(products), complete=complete)


@pytest.mark.parametrize(
    ("products", "is_whole"),
    [
        ([product([0, 16, 32, 48])], True), ([product([0, 16]), product([32, 48], begins=False)], True), ([product([0, 16]), product([32, 48])], False),
        ([product([0, 16, 32, 48]), product([0, 16, 32, 48])], True), ([product([0, 16, 32, 48]), product([0, 16, 32, 48], begins=False)], True), ([product([0, 16, 48])], False),
        ([product([0, 16, 32, 48]), product([0, 16, 32], accumulator="e")], False), ([product([0, 16, 32, 48]), product([16, 32, 48, 64], accumulator="e")], True),
        ([product([0, 16]), product([0, 16, 32, 48], accumulator="e"), product([32, 48], begins=False)], True), ([product([0, 16, 16, 48])], False),
        ([product([0, 16, 32, 48]), product([0, 16], base=0x30000, accumulator="e")], True), ([product([0, 32], k=32)], True), ([product([0, 16, 32, 48, 64])], False),
    ],
)  # fmt: skip
def test_sums_are_whole_if_each_has_as_many_k_as_all_reach(products, is_whole):
    """Products of one accumulator that go on are one sum; those that begin anew, or lower, another one."""
    assert are_whole(reads_of(*products), SimpleNamespace(a=SimpleNamespace(base=0x10000), a_begin=0, a_end=64)) == is_whole


@pytest.mark.parametrize(
    ("begin", "end", "trip", "inside"), [(48, 64, "the last", False), (0, 16, "the first", False), (32, 48, "this", True)]
)
def test_k_that_nothing_multiplies_are_the_first_the_last_or_between(begin, end, trip, inside):
    reach = SimpleNamespace(a_begin=16 if begin == 0 else 0, a_end=48 if begin == 48 else 64, event=SimpleNamespace(instruction=LINES[3]))
    found = _found_unreached(reach, begin, end, 60)
    assert f"k = {begin} to {end - 1} of A and B" in found.what
    assert f"for {trip} tile" in found.repair
    assert f"add up k = {reach.a_begin} to {min(reach.a_end, 60) - 1}" in found.why
    assert ("without these" in found.why) == inside


def test_a_sum_that_begins_anew_with_the_same_rows_and_another_k_may_be_one_sum():
    first = product([0, 16])
    for again, lines, is_one in (
        (product([32, 48]), (LINES[3].line, LINES[2].line), True), (product([32, 48], rows=(16, 0)), (LINES[3].line, LINES[2].line), False), (product([16, 48]), (LINES[3].line, LINES[2].line), False),
        (product([(32, 16), 48]), (LINES[3].line, LINES[2].line), False), (product([32], other_base=0x30000), (LINES[3].line, LINES[2].line), False),
    ):  # fmt: skip
        assert begun_anew(reads_of(first, again)) == {lines: is_one}
        assert begun_anew(reads_of(again, first, product([0], accumulator="e"))).keys() <= {
            (again.events[-1].instruction.line, LINES[2].line)
        }
        assert begun_anew(reads_of(first, product([32, 48], rows=(16, 0)), first, product([32, 48])))[LINES[3].line, LINES[2].line]
    assert not begun_anew(reads_of(first, product([32, 48], begins=False)))
    assert not begun_anew(reads_of(first, product([(None, 32)])))
    assert not begun_anew(reads_of(product([(0, None)]), product([32])))
    assert not begun_anew(reads_of(first, product([32], accumulator="e")))


# ---- steps that are exchanged


@pytest.mark.parametrize("step", [16, 32])
def test_steps_are_exchanged_if_each_k_meets_its_neighbour_in_all_sums(step):
    """Of neighbours, or in several accumulators of the same rows. With one k that meets itself they are complex numbers."""
    pairs = [(0, step), (step, 0), (2 * step, 3 * step), (3 * step, 2 * step)]
    one = product(pairs, k=16, freely=True)
    found = exchanged_steps(reads_of(one))
    assert bool(found) == (step == 16)
    several = exchanged_steps(reads_of(product(pairs[:2], freely=True), product(pairs[2:], accumulator="e")))
    for f in [*found, *several]:
        assert ("neighbouring K steps" in f.what) == (step == 16)
        assert f"k = 0 of A is multiplied with k = {step} of B, and k = {step} of A with k = 0 of B" in f.what
        assert f.severity.name == "NOTE"
    assert len(several) == 1
    assert not exchanged_steps(reads_of(product(pairs)))  # none was judged to be free
    assert not exchanged_steps(reads_of(one, product([0], accumulator="e")))
    assert not exchanged_steps(reads_of(product(pairs[:3], freely=True)))
    assert not exchanged_steps(
        reads_of(one, product([(4 * step, 5 * step)], k=8, accumulator="e"), product([(5 * step, 4 * step)], k=8, accumulator="f"))
    )
    far = [(a + 64, b + 64) for a, b in pairs]
    assert bool(exchanged_steps(reads_of(product(far, freely=True)))) == (step == 16)
    assert not exchanged_steps(reads_of(product([*far, (None, 0)], freely=True), product([(0, None)])))[1:]
    if step == 32:
        for other in ({"rows": (16, 0)}, {"rows": (0, 16)}, {"cta": 1}):
            assert not exchanged_steps(reads_of(product(pairs[:2], freely=True), product(pairs[2:], accumulator="e", **other)))


# ---- CTAs that do the same


def launch(grid, boxes, stores=None, cluster=1):
    events = []
    for cta, own in boxes.items():
        events += [Load(cta, 0, LINES[n % 2], 0, (MAP, OTHER)[n % 2], "tile", at, (), ()) for n, at in enumerate(own)]
        events += [Store(cta, 0, LINES[5], 0, MAP, "tile", at, 0x400) for at in (stores or {}).get(cta, [(cta, 0)])]
    return SimpleNamespace(
        grid=grid,
        ctas=int(np.prod(grid)),
        cluster_size=cluster,
        result=SimpleNamespace(events=SimpleNamespace(transfers=lambda: iter(events))),
    )


def place(cta, grid):
    return cta % grid[0], cta // grid[0] % grid[1], cta // grid[0] // grid[1]


@pytest.mark.parametrize("grid", [(4, 1, 1), (2, 3, 1), (3, 2, 2), (1, 4, 2), (2, 2, 2)])
@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), ()])
def test_ctas_along_an_axis_that_no_coordinate_depends_on_repeat_their_products(grid, used):
    """Of one axis: a launch whose CTAs all do the same is a benchmark. Those that also store the same are meant so."""
    ctas = range(int(np.prod(grid)))
    boxes = {cta: [tuple(place(cta, grid)[n] * (n in used) for n in (0, 1)), (place(cta, grid)[2] * (2 in used), 0)] for cta in ctas}
    groups = collections.defaultdict(list)
    for cta in ctas:
        groups[tuple(boxes[cta])].append(cta)
    free = [n for n in range(3) if n not in used and grid[n] > 1]
    axis = free[0] if len(free) == 1 and grid[free[0]] < len(ctas) else None
    assert _axis([*groups.values()], launch(grid, boxes)) == axis
    products = reads_of(product([0], cta=0))
    found = repeated_products(products, launch(grid, boxes))
    assert bool(found) == (axis is not None)
    for f in found:
        name = "xyz"[axis]
        assert f"the {grid[axis]} CTAs along {name} of the grid load the same tiles" in f.what
        assert f"{len(ctas)} CTAs compute {len(groups)} different products" in f.what
        assert f"(PTX line {LINES[0].line}) and of B (PTX line {LINES[1].line}) changes with %ctaid.{name}" in f.why
        assert f"%ctaid.{name}" in f.repair
    if found:
        same = {cta: [boxes[cta][0]] for cta in ctas}
        assert not repeated_products(products, launch(grid, boxes, stores=same))
        assert not repeated_products(products, launch(grid, boxes, cluster=2))
        assert not repeated_products(reads_of(product([0]), complete=False), launch(grid, boxes))
        assert not repeated_products(reads_of(), launch(grid, boxes))
        assert not repeated_products(reads_of(product([(0, None)])), launch(grid, boxes))
        assert not repeated_products(products, launch(grid, {cta: boxes[cta] for cta in ctas if cta}))
        both = next(group for group in groups.values() if len(group) > 1)[:2]
        assert not repeated_products(reads_of(*(product([0], cta=cta) for cta in both)), launch(grid, boxes))
        assert repeated_products(reads_of(*(product([0], cta=group[0]) for group in groups.values())), launch(grid, boxes))
        ragged = dict(boxes)
        ragged[both[0]] = [(99, 99), (9, 9)]
        assert not repeated_products(products, launch(grid, ragged))
