"""What accesses cost: the rules against what an H200 counted, and the laws that hold whatever the card."""

import numpy as np
import pytest

from places import ROOT
from smemsim.core.layout.bank_loops import NO_PLACE, is_like_before
from smemsim.core.layout.banks import conflict_free, copy_cost, ideal_sectors, ideal_wavefronts, operand_wavefronts, sectors, shared_cost
from smemsim.evidence import load_suite, replay_suite

GOLDEN = ROOT / "golden" / "sm_90a"
ALL = 0xFFFFFFFF
LANES = np.arange(32)


@pytest.mark.parametrize(
    ("name", "compared"), [("access_shared", 1100), ("access_async", 100), ("access_copies", 160), ("access_lines", 6900)]
)
def test_single_accesses_cost_what_the_card_counts(name: str, compared: int) -> None:
    report = replay_suite(load_suite(GOLDEN / name))
    assert (report.differing, report.compared >= compared) == (0, True)


def test_a_wrong_number_of_a_trace_is_found() -> None:
    suite = load_suite(GOLDEN / "access_shared")
    changed = np.char.startswith(suite.arrays["form"], "ld.shared.b32")
    suite.arrays["wavefronts_ld"] = suite.arrays["wavefronts_ld"] + changed
    report = replay_suite(suite)
    assert report.differing == changed.sum() > 0


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("op", ["ld", "st", "atom"])
def test_laws_of_wavefronts(op: str, size: int) -> None:
    """Neither fewer lanes nor lanes in order cost more; moving all by 128 bytes changes nothing; a stride that is odd
    in words is free.
    """
    random = np.random.default_rng(size)
    at = random.integers(0, 2048 // size, (50, 32)) * size
    mask = random.integers(1, 1 << 32, 50)
    cost = shared_cost(op, at, mask, size).wavefronts
    assert (cost >= np.minimum(ideal_wavefronts(mask, size), 1)).all()
    assert (shared_cost(op, at, mask & mask - 1, size).wavefronts <= cost).all()
    assert (shared_cost(op, at + 128 * 7, mask, size).wavefronts == cost).all()
    groups = max(size // 4, 1)
    odd = shared_cost(op, LANES * max(size, 4) * 3, ALL, size)
    assert odd.wavefronts[0] == groups
    assert odd.worst[0] == 1
    if op == "atom":
        assert shared_cost(op, LANES * 0, ALL, size).wavefronts[0] == 32
        assert (shared_cost("cas", at, mask, size).wavefronts == 2 * cost).all()
    else:
        assert shared_cost(op, LANES * 0, ALL, 4).wavefronts[0] == 1


def test_lanes_of_loads_that_go_together() -> None:
    """Sixteen lanes of 8 bytes go together, all 32 if neighbours have one address; stores never; an inactive neighbour
    does not count.
    """
    pairs = LANES // 2 * 8
    assert shared_cost("ld", pairs, ALL, 8).wavefronts[0] == 1
    assert shared_cost("st", pairs, ALL, 8).wavefronts[0] == 2
    assert shared_cost("ld", LANES * 8, ALL, 8).wavefronts[0] == 2
    assert shared_cost("ld", LANES * 4 // 8 * 8, 0x55555555, 8).wavefronts[0] == 1
    assert shared_cost("ld", LANES // 2 * 16, ALL, 16).wavefronts[0] == 2


def test_copies_through_the_cache_read_its_banks_too() -> None:
    same, rows = np.zeros(32, np.int64), LANES * 4
    assert copy_cost(rows, rows, ALL, 4).wavefronts[0] == 1
    assert copy_cost(rows, same, ALL, 4).wavefronts[0] == 32 == copy_cost(same, rows, ALL, 4).wavefronts[0]
    assert not copy_cost(rows, LANES * 128, ALL, 4).exact[0]
    assert copy_cost(rows, rows, ALL, 4).exact[0]


def test_sectors_and_operands() -> None:
    assert [int(sectors(LANES * n, ALL)[0]) for n in (1, 4, 8, 32, 128)] == [1, 4, 8, 32, 32]
    assert ideal_sectors(sectors(LANES * 32, ALL), [ALL], 4)[0] == 4
    assert operand_wavefronts(0, 64 * 32) == 16
    assert operand_wavefronts(64 * 32, 64 * 32) == 32
    assert conflict_free("ldmatrix", LANES % 8 * 16, 0xFF, 16).all()
    assert not conflict_free("ldmatrix", LANES % 8 * 64, 0xFF, 16).any()


@pytest.mark.parametrize("unit", [1, 2, 4, 32, 128])
def test_a_warp_is_like_the_one_before_if_all_its_lanes_are_a_multiple_of_a_unit_further(unit):
    """And the same lanes access."""
    rng = np.random.default_rng(unit)
    for moved in (0, 1, 2, 3, 16, 32, 127, 128, 256, -1, -2, -128, -129):
        at = rng.integers(1000, 5000, (2, 32))
        at[0, rng.random(32) < 0.3] = NO_PLACE
        at[1] = np.where(at[0] == NO_PLACE, NO_PLACE, at[0] + moved)
        active = np.full(2, 0xFFFFFFFF, np.uint32)
        assert bool(is_like_before(at, active, 1, unit)) == (moved % unit == 0)
        assert not is_like_before(at, active, 0, unit)
        assert not is_like_before(at, np.array([1, 3], np.uint32), 1, unit)
        for lane in (0, 15, 16, 31):
            other = at.copy()
            other[1, lane] = 77 if at[0, lane] == NO_PLACE else NO_PLACE
            assert not is_like_before(other, active, 1, unit)
            if at[0, lane] != NO_PLACE:
                other[1, lane] = at[1, lane] + 128
                assert not is_like_before(other, active, 1, unit)
