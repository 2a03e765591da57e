"""Differential oracles: both sides say the same, a planted fault is seen and made small, and a case is JSON that can be
judged again.
"""

import json
import math
import random
import re
import unittest

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from smemsim import InputError, sweep
from smemsim.campaign.oracles import ORACLES, again, cute_descriptors, cute_layouts, mmasim, mmasim_sync, numpy_formulas, triton_layouts
from smemsim.campaign.oracles.differential import Oracle, minimal, shrunk_numbers
from smemsim.core.layout.cute import CuteLayout
from smemsim.testing.oracles import assert_agrees, oracle_cases
from strategies import examples

pytest_plugins = ["pytester"]
MODULES = {
    "numpy": numpy_formulas,
    "triton-layouts": triton_layouts,
    "cute-layouts": cute_layouts,
    "cute-descriptors": cute_descriptors,
    "mmasim": mmasim,
    "mmasim-sync": mmasim_sync,
}
FEW = {"numpy": 60, "triton-layouts": 10, "cute-layouts": 200, "cute-descriptors": 200, "mmasim": 3, "mmasim-sync": 5}


def test_every_oracle_is_registered():
    assert ORACLES.keys() == MODULES.keys()
    for name, one in ORACLES.items():
        space = one.space()
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
    if ORACLES[name].lacks:
        pytest.skip(ORACLES[name].lacks)
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
    return Oracle("planted", "a planted fault", draw=lambda rng: {"n": rng.randrange(1000), "m": rng.randrange(1000)}, compare=compare,
                  smaller=lambda case: shrunk_numbers(case, {"n": 0, "m": 0}), chunk_cases=50)  # fmt: skip


def too_much(case):
    return "a sum", f"{case['n']} is too much" if case["n"] > 12 else ""


def test_a_fault_is_found_counted_and_made_small():
    space = of_numbers(too_much).space()
    found = space.run(1, 0)
    assert space.run(1, 0) == found
    assert found.cases == 50 == sum(found.classes.values())
    assert found.classes["differs: a sum"] > 25
    [trouble] = found.troubles
    assert trouble.case == {"n": 13, "m": 0}
    assert trouble.what == "13 is too much"


def test_an_error_of_either_side_is_a_difference():
    def compare(case):
        if case["m"] > 3:
            raise KeyError("m")
        return "fine", ""

    [trouble] = of_numbers(compare).space().run(0, 0).troubles
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
    from smemsim.core.layout import swizzle

    monkeypatch.setattr(swizzle, "swizzle", lambda linear, base, mask, shift: linear ^ (linear >> 7 & mask) << 5)
    rng = random.Random(5)
    cases = [case for case in (numpy_formulas.case_of(rng) for _ in range(300)) if case["of"] in ("operand", "box")]
    wrong = [case for case in cases if numpy_formulas.compare(case)[1]]
    assert len(wrong) > 10
    small = minimal(next(c for c in wrong if c["of"] == "operand"), lambda c: bool(numpy_formulas.compare(c)[1]), numpy_formulas._smaller)
    assert small["rows"] * small["k"] <= 64


def test_numbers_that_are_converted_are_of_both_signs_and_of_every_size():
    """A conversion is asked for few bits and for many, with ties: hardly two drawn numbers are the same."""
    rng = random.Random(6)
    drawn = [case for case in (numpy_formulas.case_of(rng) for _ in range(60)) if case["of"] == "conversion"]
    numbers = [x for case in drawn for x in case["values"]]
    assert len(set(map(abs, numbers))) > 0.8 * len(numbers) > 80
    assert 0.3 < sum(x < 0 for x in numbers) / len(numbers) < 0.7


# ---- as properties of other people's tests -------------------------------------------------------------------------------------------


@pytest.fixture
def planted(monkeypatch):
    """An oracle that finds every n above 12 wrong, among the others."""
    monkeypatch.setitem(ORACLES, "planted", of_numbers(too_much))
    return ORACLES["planted"]


@pytest.mark.parametrize("name", MODULES)
def test_drawn_cases_agree_or_are_skipped_with_a_sentence(name):
    kinds = set()

    @examples(min(FEW[name], 40))
    @given(oracle_cases(name))
    def law(case):
        assert json.loads(json.dumps(case)) == case
        kinds.add(assert_agrees(name, case))

    if lacks := ORACLES[name].lacks:
        with pytest.raises(unittest.SkipTest, match=rf"^the oracle {name} needs .*, which (is|are) not installed$") as skipped:
            law()
        assert lacks in str(skipped.value)
    else:
        law()
        assert len(kinds) > 1


SMALLEST = {
    "numpy": (
        lambda case: case["of"] == "product" and case["m"] > 2,
        {"of": "product", "row": 0, "seed": 0, "m": 3, "n": 1},
    ),
    "triton-layouts": (
        lambda case: case["rows"] > 8,
        {"arch": "sm_90a", "dtype": "bf16", "major": "K", "width": 32, "rows": 16, "k": 16, "side": "a", "base": 1},
    ),
    "cute-layouts": (
        lambda case: case["of"] == "swizzle" and case["swizzle"][2] > 1,
        {"of": "swizzle", "swizzle": [0, 0, 2], "offsets": [0] * 16},
    ),
    "cute-descriptors": (lambda case: case["word"] >> 40 & 1, {"of": "sm_90a", "word": 1 << 40}),
    "mmasim-sync": (
        lambda case: case["seed"] > 5,
        {"instruction": "sm_80 m16n8k8.f32.f16.f16.f32", "m": 16, "n": 8, "values": "near", "seed": 6},
    ),
    "mmasim": (lambda case: case["seed"] > 5, {"instruction": "wgmma bf16 to f32", "m": 8, "n": 8, "values": "near", "seed": 6}),
}


@pytest.mark.parametrize("name", MODULES)
def test_cases_shrink_to_the_first_of_everything(name):
    wanted, smallest = SMALLEST[name]
    assert find(oracle_cases(name), wanted, settings=settings(derandomize=True, deadline=None, max_examples=500)) == smallest


def test_drawn_words_have_upper_fields_as_often_as_lower_ones():
    """Hypothesis draws long integers near 0: words without swizzle and format."""
    words = []

    @examples(200)
    @given(oracle_cases("cute-descriptors"))
    def law(case):
        words.append((case["word"], 64 if case["of"].startswith("sm_") else 32))

    law()
    assert len(words) >= 20
    upper, lower = sum(word >> bits - 3 != 0 for word, bits in words), sum(word & 7 != 0 for word, _ in words)
    assert upper > len(words) / 2
    assert upper >= lower / 2


def test_a_planted_disagreement_shrinks_and_is_filed(planted, tmp_path):
    @examples(60)
    @given(oracle_cases("planted"))
    def law(case):
        assert_agrees("planted", case, out=tmp_path / "new" / "folder")

    with pytest.raises(AssertionError, match="planted, a sum: 13 is too much") as failed:
        law()
    assert json.dumps({"n": 13, "m": 0}) in str(failed.value)
    [path] = (tmp_path / "new" / "folder").iterdir()
    assert str(path) in str(failed.value)
    filed = json.loads(path.read_text())
    assert path.name == "planted-a-sum.json"
    assert (filed["case"], filed["what"]) == ({"n": 13, "m": 0}, "13 is too much")
    assert 'again("planted"' in filed["reproduce"]
    assert filed["version"]


def test_one_case_alone_is_made_small_when_it_is_filed(planted, tmp_path):
    with pytest.raises(AssertionError, match="999 is too much"):
        assert_agrees("planted", {"n": 999, "m": 999}, out=tmp_path)
    assert json.loads((tmp_path / "planted-a-sum.json").read_text())["case"] == {"n": 13, "m": 0}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"n": 14}, {"n": 14}),  # smaller, and it still differs
        ({"n": 12}, {"n": 13, "m": 0}),  # no longer differs
        ({"n": 999, "m": 999, "k": 0}, {"n": 13, "m": 0}),
        ([13], {"n": 13, "m": 0}),
    ],
)
def test_what_is_filed_stays_as_long_as_it_is_the_smallest_that_differs(planted, tmp_path, before, after):
    path = tmp_path / "planted-a-sum.json"
    path.write_text(json.dumps({"case": before}))
    with pytest.raises(AssertionError, match="filed: "):
        assert_agrees("planted", {"n": 77, "m": 5}, out=tmp_path)
    assert json.loads(path.read_text())["case"] == after


@pytest.mark.parametrize("of", ["box", "operand"])
def test_a_wrong_swizzle_is_found_as_a_property_and_filed_small(monkeypatch, tmp_path, of):
    from smemsim.core.layout import swizzle

    monkeypatch.setattr(swizzle, "swizzle", lambda linear, base, mask, shift: linear ^ (linear >> 7 & mask) << 5)

    @examples(60)
    @given(oracle_cases("numpy").filter(lambda case: case["of"] == of))
    def law(case):
        assert_agrees("numpy", case, out=tmp_path)

    with pytest.raises(AssertionError, match=f"numpy, {of}: "):
        law()
    filed = json.loads((tmp_path / f"numpy-{of}.json").read_text())["case"]
    if of == "box":
        assert filed | {"dim": [1, 1, 1], "step": [1, 1], "gap": 0, "at": [0, 0, 0]} == filed
        assert math.prod(filed["box"]) <= 16 * 8  # a line that the swizzle moves
    else:
        assert filed["rows"] * filed["k"] <= 8
        assert bin(filed["word"]).count("1") <= 2  # a layout, and a start or stride at most
    monkeypatch.undo()
    assert assert_agrees("numpy", filed) == of


def test_without_its_package_a_property_is_skipped(monkeypatch, pytester):
    pytester.makepyfile(
        """
        from hypothesis import given
        from smemsim.testing.oracles import ORACLES, assert_agrees, oracle_cases
        from smemsim.campaign.oracles.differential import Oracle
        import dataclasses

        ORACLES["absent"] = dataclasses.replace(ORACLES["numpy"], name="absent", needs=("no_such_package_here",))

        @given(oracle_cases("absent"))
        def test_absent(case):
            assert_agrees("absent", case)
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    try:
        result = pytester.runpytest_inprocess("-rs")
    finally:
        ORACLES.pop("absent", None)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*the oracle absent needs no_such_package_here, which is not installed*"])


def test_what_is_no_oracle_and_no_case_is_explained(tmp_path):
    for call, says in (
        (lambda: oracle_cases("numpi"), "did you mean 'numpy'"),
        (lambda: assert_agrees("nvcc", {"n": 1}), "needs one of numpy, triton-layouts"),
        (lambda: assert_agrees("numpy", [1]), r"oracle_cases\('numpy'\)"),
        (lambda: assert_agrees("numpy", {}), "needs a case of numpy"),
    ):
        with pytest.raises(InputError, match=says):
            call()
    (tmp_path / "file").write_text("")
    with pytest.raises(AssertionError, match="KeyError"):
        assert_agrees("numpy", {"of": "nothing"})
    with pytest.raises(InputError, match="nothing can be written there"):
        assert_agrees("numpy", {"of": "nothing"}, out=tmp_path / "file")


def test_a_campaign_files_an_oracles_disagreements_each_in_a_file(monkeypatch, tmp_path):
    """Two classes of disagreement are two files, whatever their cases hold."""

    def compare(case):
        return ("even", "n / 2") if case["n"] % 2 == 0 else ("odd", "n // 2")

    monkeypatch.setattr("smemsim.campaign.sweep.space", lambda name: of_numbers(compare).space())
    report = sweep(["planted"], cases=1, workers=1, out=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == len(report.troubles) == 2
    assert {json.loads(path.read_text())["what"] for path in files} == {"n / 2", "n // 2"}
    assert all(re.fullmatch(r"planted-[0-9a-f]{12}\.json", path.name) for path in files)


class Other:
    """A layout of pycute's, with one place exchanged."""

    def __init__(self, ours, at=None, by=0, more=0):
        self.ours, self.at, self.by, self.more = ours, at, by, more

    def size(self):
        return self.ours.size + self.more

    def __call__(self, i):
        return self.ours(i) + (self.by if i == self.at else 0)


@pytest.mark.parametrize(
    ("at", "by", "more", "says"), [(None, 0, 0, ""), (0, 1, 0, "of 0 is 0"), (11, 64, 0, "of 11 is"), (None, 0, 1, "coordinates")]
)
def test_a_planted_difference_of_layouts_is_told(at, by, more, says):
    ours = CuteLayout((4, 3), (3, 1))
    assert says in cute_layouts._values_differ(ours, Other(ours, at, by, more))
    assert bool(says) == bool(cute_layouts._values_differ(ours, Other(ours, at, by, more)))


# ---- Without Triton: its side by a formula


def swizzled(case):
    """The byte of each element, (rows, k): panels as wide as the swizzle, bits 7 to 9 of the byte exclusive-or'ed into
    bits 4 to 6 (PTX ISA, swizzling modes), as many as the width has.
    """
    size, width, mn = triton_layouts.TYPES[case["dtype"]] // 8, case["width"], case["major"] == "MN"
    lines, along = (case["k"], case["rows"]) if mn else (case["rows"], case["k"])
    line, at = np.arange(lines)[:, None], np.arange(along)[None] * size
    byte = (at // width * lines + line) * width + at % width
    byte = byte ^ (byte >> 3 & width - 16)
    return byte.T if mn else byte


@pytest.mark.parametrize("seed", range(8))
def test_tiles_of_triton_are_written_and_read_where_the_swizzle_says(seed, monkeypatch):
    rng = random.Random(seed)
    cases = [case for case in (triton_layouts.case_of(rng) for _ in range(12)) if case["rows"] * case["k"] <= 8192]
    monkeypatch.setattr(triton_layouts, "_theirs", swizzled)
    for case in cases:
        assert case["width"] <= (case["k"] if case["major"] == "K" else case["rows"]) * triton_layouts.TYPES[case["dtype"]] // 8
        kind, what = triton_layouts.compare(case)
        assert what == "", (case, what)
        assert kind in ("written only", f"{case['arch']} {case['major']}-major {case['width']}B")
    assert len(cases) > 3


def test_a_tile_that_lies_elsewhere_is_told_with_its_first_element(monkeypatch):
    case = {"arch": "sm_90a", "dtype": "bf16", "major": "K", "width": 64, "rows": 64, "k": 64, "side": "a", "base": 3}

    def other(case):
        wrong = swizzled(case).copy()
        wrong[5, 7], wrong[9, 1] = wrong[5, 8], 0
        return wrong

    right = swizzled(case)
    monkeypatch.setattr(triton_layouts, "_theirs", other)
    kind, what = triton_layouts.compare(case)
    assert kind == "sm_90a K-major 64B written"
    assert what == (
        f"2 of 4096 elements are written elsewhere; the first, (5, 7), at byte {right[5, 7]} of the tile, Triton has it at {right[5, 8]}"
    )
    smaller = list(triton_layouts.ORACLE.smaller(case))
    assert smaller == [case | {"base": 1}, case | {"rows": 32}, case | {"k": 32}]
    assert list(triton_layouts.ORACLE.smaller(case | {"rows": 8, "k": 32, "base": 1})) == [case | {"rows": 8, "k": 32, "base": 1}]
