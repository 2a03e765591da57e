"""Laws of the choices of a schedule: what names one, and that each choice is one of those that there are."""

import collections

import numpy as np
import pytest

from smemsim import InputError
from smemsim.run.engine.schedule import MOST_SEEDS, Schedule, checked_schedule, seeds_of

SEEDS = 16  # of "all" without a number

NAMES = {
    None: None, 0: 0, 7: 7, (1 << 63) - 1: (1 << 63) - 1, np.int64(3): 3, "0": 0, "007": 7, "9" * 18: 10**18 - 1, "earliest": "earliest", "latest": "latest",
    "all": f"all:{SEEDS}", "all:1": "all:1", "all 4": "all:4", "all=12": "all:12", "all4": "all:4", "all: = 4": "all:4", "all:00004": "all:4",
    f"all:{MOST_SEEDS}": f"all:{MOST_SEEDS}",
}  # fmt: skip
NONE = [
    -1,
    1 << 63,
    True,
    False,
    1.0,
    np.bool_(True),
    "",
    "9" * 19,
    "-1",
    "1.5",
    "٣",
    "all:0",
    f"all:{MOST_SEEDS + 1}",
    "all:000004",
    "all:x",
    "all:-1",
    "allx",
    "late",
    " 7",
    [1],
]


@pytest.mark.parametrize(("value", "schedule"), NAMES.items(), ids=repr)
def test_a_schedule_is_a_seed_an_extreme_or_several_seeds(value, schedule):
    found = checked_schedule(value)
    assert found == schedule
    assert type(found) is type(schedule)
    assert seeds_of(found) == (int(schedule.partition(":")[2]) if isinstance(schedule, str) and ":" in schedule else None)
    assert checked_schedule(found) == found


@pytest.mark.parametrize("value", NONE, ids=repr)
def test_anything_else_is_no_schedule(value):
    with pytest.raises(InputError, match=r"^schedule = .*: needs a seed from 0 on, earliest, latest, or all:N"):
        checked_schedule(value)


@pytest.mark.parametrize(("value", "meant"), [("lates", "latest"), ("earlest", "earliest"), ("al", "all")])
def test_a_word_that_is_nearly_one_is_named(value, meant):
    with pytest.raises(InputError, match=meant + r"\b.*\?"):
        checked_schedule(value)


def test_odds_are_met_and_every_choice_is_made():
    schedule = Schedule(5)
    assert not any(schedule.chance(0.0) for _ in range(50))
    assert all(schedule.chance(1.0) for _ in range(50))
    assert 150 < sum(schedule.chance(0.5) for _ in range(400)) < 250
    drawn = collections.Counter(schedule.draw("abc") for _ in range(600))
    assert set(drawn) == set("abc")
    assert min(drawn.values()) > 140
    orders = collections.Counter(tuple(schedule.shuffled(range(3))) for _ in range(600))
    assert len(orders) == 6
    assert min(orders.values()) > 50
    assert all(0 <= schedule.uniform() < 1 for _ in range(100))


@pytest.mark.parametrize("seed", [*range(12), "earliest", "latest"])
def test_waves_and_clusters_begin_as_the_schedule_says(seed):
    schedule, clusters = Schedule(seed), [*range(10)]
    begun = [schedule.begins(clusters) for _ in range(20)]
    assert all(sorted(order) == clusters for order in begun)
    if seed == "earliest":
        assert all(order == clusters for order in begun)
    elif seed == "latest":
        assert all(order == clusters[::-1] for order in begun)
    else:
        assert any(order != clusters for order in begun)
        assert len({tuple(order) for order in begun}) > 5
    together = {schedule.together(8, 40) for _ in range(60)}
    assert together == ({3, 8} if isinstance(seed, int) else {8})  # 16 pieces at most
    assert {schedule.together(8, 16) for _ in range(60)} == ({1, 2, 8} if isinstance(seed, int) else {8})
    assert {schedule.together(2, 64) for _ in range(20)} == {2}
    assert schedule.wave([], can_begin=True) is None
    for ready in ("a", "abc", "abcd"):
        chosen = {schedule.wave(ready, can_begin=True) for _ in range(80)}
        assert chosen == ({*ready, *([None] if len(ready) < 4 else [])} if isinstance(seed, int) else {"a"})
        assert {schedule.wave(ready, can_begin=False) for _ in range(80)} == ({*ready} if isinstance(seed, int) else {"a"})


def test_a_seed_gives_the_same_choices_each_time_and_others_give_others():
    def choices(seed):
        schedule = Schedule(seed)
        return (
            schedule.pauses, schedule.completes, schedule.change, schedule.gives_up, schedule.declines, schedule.first_multiprocessor,
            schedule.clock_begin, schedule.clock_step, schedule.late_odds, schedule.look_odds, schedule.changes_soon, schedule.parts_lanes,
            [schedule.is_late() for _ in range(5)], [schedule.looks_late() for _ in range(5)],
        )  # fmt: skip

    assert choices(3) == choices(3)
    found = [choices(seed) for seed in range(60)]
    for n, column in enumerate(zip(*found, strict=True)):
        assert len(set(map(str, column))) > 1, n
    parts = sum(one[11] for one in found)
    assert 4 < parts < 30
    assert all(0 <= one[5] < 1024 and 0 <= one[6] < 1 << 33 and 1 <= one[7] <= 64 for one in found)
    for seed, is_late in (("earliest", False), ("latest", True)):
        extreme = Schedule(seed)
        assert (extreme.pauses, extreme.completes, extreme.gives_up, extreme.declines, extreme.first_multiprocessor) == (0, 0, 0, 0, 0)
        assert [extreme.is_late(), extreme.looks_late(), extreme.parts_lanes] == [is_late, is_late, False]
