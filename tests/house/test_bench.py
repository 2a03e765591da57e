"""The table of speeds: what it says of times that are known, that wrong answers get no time, and that the documentation
shows rows that there are.
"""

import functools
import json
import re
import runpy
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import ROOT
from smemsim import check
from strategies import CHARACTERS, examples
from tools import docs_tables
from tools.speeds import addresses, peer_layouts, questions, sweeps, table
from tools.speeds.race import Differs, LeftOut, Race, Result, Row, raced, run, same
from tools.speeds.rows import GROUPS, ROWS, chosen

KEPT = json.loads((ROOT / "tools" / "speeds" / "measured.json").read_text())


def takes(seconds):
    """A timer that says what it is told to, call by call."""
    left = list(seconds)
    return lambda count: left.pop(0) * count


def row(start, **more):
    return Row("MMA", "ours", "theirs", 10, "MAC", start, long=True, **more)


def raises(error):
    def start():
        raise error

    return start


@examples(50)
@given(st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=3), st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=3))
def test_the_best_of_each_side_counts(ours, theirs):
    found = run(row(lambda: Race(takes(ours), takes(theirs))))
    assert (found.ours, found.baseline, found.rounds) == (min(ours), min(theirs), 3)
    assert found.speed == min(theirs) / min(ours)
    assert found.rate == 10 / min(ours)


def test_the_two_sides_take_turns():
    order = []
    raced(Race(lambda count: order.append("us") or 1.0 * count, lambda count: order.append("them") or 1.0 * count), 4, 0)
    assert sorted(order) == ["them"] * 4 + ["us"] * 4
    assert all({order[i], order[i + 1]} == {"us", "them"} for i in range(0, 8, 2))


def test_what_was_asked_for_and_missed_is_told():
    def of(**asked):
        return run(row(lambda: Race(takes([2.0] * 3), takes([6.0] * 3)), **asked)).note

    assert of() == of(asked=3) == of(asked_rate=5) == ""
    assert "asked for: 4x, MISSED" in of(asked=4)
    assert "MAC a second, MISSED" in of(asked_rate=6)


def test_where_answers_differ_there_is_no_time():
    found = run(row(raises(Differs("3 of 7 differ"))))
    assert (found.speed, found.differs) == (None, "3 of 7 differ")
    assert "DIFFERS: 3 of 7 differ" in table.text(table.machine(), [found])
    assert "3 of 7" not in table.markdown(table.machine(), [found])
    assert run(row(raises(LeftOut("no index")))).left_out == "no index"


@examples(50)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_one_other_value_is_found(values, data):
    assert same(values, np.array(values), "numbers") == f"equal: all {len(values)} numbers"
    at = data.draw(st.integers(0, len(values) - 1))
    other = [*values[:at], values[at] + 1, *values[at + 1 :]]
    with pytest.raises(Differs, match=f"1 of {len(values)} differ, the first, number {at}: {values[at]}, there {values[at] + 1}"):
        same(values, other, "numbers")
    with pytest.raises(Differs):
        same(values, [*values, 1], "numbers")


@pytest.mark.parametrize("name", ["the same tile in numpy", "the formula in Python"])
def test_a_baseline_of_addresses_is_held_against_ours(name, monkeypatch):
    [one] = chosen([name])
    assert one.start().note == "equal: all 8,192 addresses"
    wrong = addresses.tile() ^ np.uint32(16)
    monkeypatch.setattr(addresses, "tile", lambda: wrong)
    assert run(one).differs.startswith("addresses: 8,192 of 8,192 differ")


def test_both_forms_of_a_peers_layout_are_the_tile():
    def layout(m, k):
        return (64 * m + k) ^ ((64 * m + k) >> 3 & 0x38)

    tile = addresses.as_matrix(addresses.tile()).astype(np.int64)
    for call in peer_layouts.layout_forms(layout).values():
        assert np.array_equal(addresses.START + 2 * np.asarray(call()), tile)


@pytest.mark.parametrize(("sbo", "codes"), [(1024, set()), (512, {"D308"})])
def test_the_kernel_that_is_checked_is_right_or_wrong_as_it_says(sbo, codes):
    scenario = questions.pipeline(4, sbo=sbo)
    assert {f.code for f in check(scenario).findings} == codes
    assert sum(step["op"] == "mma" for step in scenario["step"]) == 4


def test_less_than_asked_for_of_two_workers_has_a_reason():
    times = {1: [(6.2, 6.0, 0.1, 0.0)], 2: [(6.0, 6.3, 0.3, 4.8), (9.0, 6.6, 0.3, 9.0)]}
    assert "other work (and the hypervisor) had 0.80 of 2 cores, client and scheduler 0.05, and 0.10 idled" in sweeps.why(1.0, times, 2)
    assert sweeps.why(1.8, times, 2) == "a chunk takes 1.00 s of processor time with one worker, 1.05 s with two"


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.21e-9, "3.21 ns"), (3.21e-6, "3.21 us"), (0.5, "500 ms"), (75, "75 s"), (15000, "4.17 h")]
)
def test_durations_have_units(seconds, text):
    assert table.duration(seconds) == text


@pytest.mark.parametrize(
    ("speed", "text"), [(83.4, "83x as fast"), (0.25, "4.0x the time"), (1.0, "1.00x as fast"), (1 / 120, "120x the time")]
)
def test_ratios_say_which_is_faster(speed, text):
    assert table.ratio(speed) == text


# ---- rows, and what is kept of them


def test_every_row_has_a_name_and_a_group_of_its_own():
    names = [one.what for one in ROWS]
    assert len(set(names)) == len(names)
    assert {one.group for one in ROWS} == set(GROUPS)
    assert [one.what for one in chosen(["FIND_DESCRIPTORS"])] == [name for name in names if "find_descriptors" in name]


def test_what_is_kept_are_rows_of_the_bench():
    assert {(r["what"], r["against"]) for r in KEPT["rows"]} == {(one.what, one.against) for one in ROWS}
    assert not [r for r in KEPT["rows"] if "differs" in r or not re.search("speed|left_out", " ".join(r))]
    assert KEPT["machine"].keys() == table.machine().keys()


def test_the_documentation_shows_what_is_kept():
    """Every row that was measured, with its own times, in the words of the page."""
    _, results = table.of_json(KEPT)
    shown = (ROOT / "docs" / "reference" / "measurements.md").read_text()
    assert shown.partition("<!-- speeds -->\n")[2].partition("<!-- /speeds -->")[0].strip() == docs_tables.speeds(ROOT).strip()
    lines = [
        line for line in shown.partition("<!-- speeds -->")[2].splitlines() if line.startswith("| ") and not line.startswith("| what ")
    ]
    times = sorted((table.duration(r.ours), table.duration(r.baseline)) for r in results if r.speed)
    assert sorted((line.split(" | ")[1], line.split(" | ")[4]) for line in lines) == times
    assert not re.search(r"\b(watched|unwatched|judged|MISSED)\b", shown)


this_machine = functools.cache(table.machine)


TEXTS = st.text(CHARACTERS)


@examples(30)
@given(st.builds(Result, st.sampled_from(GROUPS), TEXTS, TEXTS, TEXTS, st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), rate=st.floats(1e-9, 1e9),
                 speed=st.floats(1e-9, 1e9), rounds=st.integers(0, 99), note=TEXTS))  # fmt: skip
def test_results_survive_json(result):
    kept = json.loads(json.dumps(table.as_json(this_machine(), [result])))
    assert table.of_json(kept)[1] == [result]


def bench(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bench.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "tools" / "bench.py"), run_name="__main__")
    return ended.value.code, capsys.readouterr().out


def test_a_run_prints_what_it_was_asked_for(capsys, monkeypatch):
    code, out = bench(capsys, monkeypatch, "--json", "--seconds", "0.01", "--only", "into out=", "from bytes")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [r["what"] for r in rows] == [one.what for one in chosen(["into out=", "from bytes"])]
    assert all(r["speed"] == r["baseline"] / r["ours"] > 0 and r["rounds"] >= 3 for r in rows)


def test_without_peers_their_rows_are_listed_but_not_run(capsys, monkeypatch):
    _, out = bench(capsys, monkeypatch, "--list")
    assert len(out.splitlines()) == len(ROWS)
    code, _ = bench(capsys, monkeypatch, "--only", "beside")
    assert "need --peers" in code
