"""The corpus: what small launches and scenarios find, and what they leave in memory, is as it was.

It is no law and no measurement. It says that something changed; a person decides whether it may. Most cases are changed
kernels and scenarios of the other tests: an instruction is missing, a number or a word is another one, the launch has
another shape. They were drawn at random, and chosen because they execute code that few tests reach.

`tests/support/corpus.py` shows a case, and says how one is added. After an intended change: `pytest
tests/run/test_corpus.py --snapshot-update`, then read `git diff`.
"""

import pytest

from corpus import cases, told


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_found_is_as_it_was(case, tmp_path, monkeypatch, snapshot):
    facts, claims = told(case, tmp_path, monkeypatch)
    assert facts == snapshot(name="told")
    if claims:
        assert claims == snapshot(name="claims")
