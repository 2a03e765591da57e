"""The samples of other people's tests that `tools.field` runs."""

from tools.field.suites import run
from tools.field.triton import SAMPLE, SUITES, draw

IDS = [f"{file}.py::{function}[{n}]" for file in "abc" for function in ("f", "g", "h") for n in range(4)]


def test_a_sample_takes_from_all_files_in_turn_and_each_function_once():
    drawn = draw(IDS, 7)
    assert len(drawn) == len({test.partition("[")[0] for test in drawn}) == 7
    per_file = [sum(test.startswith(f"{file}.py") for test in drawn) for file in "abc"]
    assert max(per_file) - min(per_file) <= 1
    assert draw(IDS, 100) == draw(list(reversed(IDS)), 100)
    assert len(draw(IDS, 100)) == 9


def test_the_sample_of_triton_is_300_tests_of_the_suites():
    tests = SAMPLE.read_text(encoding="utf-8").splitlines()
    assert len(set(tests)) == 300
    assert tests == sorted(tests)
    assert all(test.startswith(SUITES) for test in tests)


def test_outcomes_are_kept_as_they_come_and_what_has_one_is_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each of six processes would load them all
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p smemsim.testing.plugin")
    (tmp_path / "test_others.py").write_text(
        "import os\ndef test_first(): open('first', 'a').write('.')\ndef test_kills(): os._exit(3)\ndef test_last(): assert 1 == 2\n"
    )
    tests = [f"test_others.py::test_{name}" for name in ("first", "kills", "last", "absent")]
    kept = tmp_path / "sm_90a.jsonl"
    found = {x.test.rpartition("_")[2]: x for x in run(tmp_path, "sm_90a", tests, kept)}
    assert {name: x.outcome for name, x in found.items()} == {"first": "passed", "kills": "failed", "last": "failed", "absent": "not run"}
    assert "the process ended" in found["kills"].why
    assert "assert 1 == 2" in found["last"].why
    before = kept.read_text()
    assert [x.outcome for x in run(tmp_path, "sm_90a", tests[:3], kept)] == ["passed", "failed", "failed"]
    assert kept.read_text() == before
    assert (tmp_path / "first").read_text() == "."
