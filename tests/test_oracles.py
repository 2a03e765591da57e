"""Differential oracles: both sides say the same, a planted fault is seen and made small, and a case is JSON that can be judged again."""

import importlib.util
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smemsim import InputError
from smemsim.campaign.oracles import ORACLES, again, cute_descriptors, cute_layouts, mmasim, numpy_formulas, triton_layouts
from smemsim.campaign.oracles.differential import minimal, oracle, shrunk_numbers
from strategies import examples

MODULES = {
    "numpy": numpy_formulas,
    "triton-layouts": triton_layouts,
    "cute-layouts": cute_layouts,
    "cute-descriptors": cute_descriptors,
    "mmasim": mmasim,
}
FEW = {"numpy": 60, "triton-layouts": 10, "cute-layouts": 200, "cute-descriptors": 200, "mmasim": 3}


def test_every_oracle_is_registered():
    assert ORACLES.keys() == MODULES.keys()
    for name, make in ORACLES.items():
        space = make()
        assert space.name == name
        assert space.chunks is None
        assert space.chunk_cases > 0
        assert len(space.says) > 20


@pytest.mark.parametrize("name", MODULES)
def test_cases_are_json_and_smaller_ones_are_others(name):
    rng = random.Random(7)
    for _ in range(100):
        case = MODULES[name].case_of(rng)
        assert json.loads(json.dumps(case)) == case
        others = list(MODULES[name]._smaller(case))
        assert all(json.loads(json.dumps(other)) == other for other in others)


@pytest.mark.parametrize("name", MODULES)
def test_both_sides_say_the_same(name):
    space = ORACLES[name]()
    if missing := [package for package in space.needs if importlib.util.find_spec(package) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    rng, kinds = random.Random(3), set()
    for _ in range(FEW[name]):
        case = MODULES[name].case_of(rng)
        kind, what = MODULES[name].compare(case)
        assert what == "", case
        assert again(name, json.dumps(case)) == ""
        kinds.add(kind)
    assert len(kinds) > 1


def test_an_unknown_oracle_is_explained():
    with pytest.raises(InputError, match="numpy, triton-layouts"):
        again("nvcc", "{}")


def of_numbers(compare):
    return oracle("planted", "a planted fault", draw=lambda rng: {"n": rng.randrange(1000), "m": rng.randrange(1000)}, compare=compare,
                  smaller=lambda case: shrunk_numbers(case, {"n": 0, "m": 0}), chunk_cases=50, needs=())  # fmt: skip


def test_a_fault_is_found_counted_and_made_small():
    space = of_numbers(lambda case: ("sum", f"{case['n']} is too much" if case["n"] > 12 else ""))
    found = space.run(1, 0)
    assert space.run(1, 0) == found
    assert found.cases == 50 == sum(found.classes.values())
    assert found.classes["differs: sum"] > 25
    [trouble] = found.troubles
    assert trouble.case == {"n": 13, "m": 0}
    assert trouble.what == "13 is too much"


def test_an_error_of_either_side_is_a_difference():
    def compare(case):
        if case["m"] > 3:
            raise KeyError("m")
        return "fine", ""

    [trouble] = of_numbers(compare).run(0, 0).troubles
    assert trouble.case == {"n": 0, "m": 4}
    assert trouble.what == "KeyError: 'm'"


@examples(60)
@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_what_is_minimal_still_differs_and_nothing_below_it_does(limit, start):
    case = minimal({"n": start}, lambda c: c["n"] >= limit, lambda c: shrunk_numbers(c, {"n": 0}))
    if start >= limit:
        assert case["n"] >= limit
        assert case["n"] == limit or start - limit > 400


def test_a_wrong_formula_is_noticed(monkeypatch):
    """The plain formula with another XOR: some operand must differ, and the smallest has few elements."""
    from smemsim.addressing import swizzle

    monkeypatch.setattr(swizzle, "swizzle", lambda linear, base, mask, shift: linear ^ (linear >> 7 & mask) << 5)
    rng = random.Random(5)
    cases = [case for case in (numpy_formulas.case_of(rng) for _ in range(300)) if case["of"] in ("operand", "box")]
    wrong = [case for case in cases if numpy_formulas.compare(case)[1]]
    assert len(wrong) > 10
    small = minimal(next(c for c in wrong if c["of"] == "operand"), lambda c: bool(numpy_formulas.compare(c)[1]), numpy_formulas._smaller)
    assert small["rows"] * small["k"] <= 64
