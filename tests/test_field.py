"""The samples of other people's tests that `tools.field` runs."""

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
