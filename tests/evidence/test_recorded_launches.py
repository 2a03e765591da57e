"""Launches of others' programs, launched again on a card: moving them, and what is kept of them."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from places import TESTS
from tools.capture.recorded_launches import compared, moved
from tools.evidence.corpus import corpus

RECORDED = json.loads((TESTS / "data" / "h200_recorded_programs.json").read_text(encoding="utf-8"))
BEGIN, END = 0x300000000000, 0x300000100000


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(BEGIN - 16, END + 16), min_size=1, max_size=20),
    st.integers(-(2**40), 2**40),
    st.integers(0, 7),
)
def test_addresses_are_moved_and_nothing_else(words, by, tail):
    """Words in the range by so much, others and the bytes behind the last word not at all; the way back restores them."""
    raw = np.concatenate([np.array(words, np.uint64).view(np.uint8), np.full(tail, 0x5A, np.uint8)])
    found = moved(raw, BEGIN, END, by)
    want = [(w + by) % 2**64 if BEGIN <= w < END else w for w in words]
    assert found[: 8 * len(words)].view(np.uint64).tolist() == want
    assert (found[8 * len(words) :] == 0x5A).all()
    if not any(BEGIN + by <= w < END + by and not BEGIN <= w < END for w in words):
        assert np.array_equal(moved(found, BEGIN + by, END + by, -by), raw)


def test_launches_are_the_same_where_every_array_holds_the_same_bytes():
    card = {"gpu": "g", "driver": "1", "captured_utc": "now", "stable": True}
    one = {"ptx_sha256": "p", "status": 0, "outputs": {"a": "1", "b": "2"}}
    there = {"same": {**one, **card}, "other": {**one, **card, "outputs": {"a": "1", "b": "3"}}, "more": {**one, **card, "outputs": {"a": "1", "b": "2", "c": "4"}},
             "kernel": {**one, **card, "ptx_sha256": "q"}, "ended": {"said": "hangs"}, "status": {**one, **card, "status": 700}}  # fmt: skip
    rows = {row["launch"]: row for row in compared(dict.fromkeys(there, one), there)}
    assert {name for name, row in rows.items() if row.get("same")} == {"same"}
    assert rows["other"]["differ"] == ["b"]
    assert rows["more"]["differ"] == ["c"]
    assert rows["ended"]["said"] == "hangs"
    assert "another kernel" in rows["kernel"]["said"]


def test_what_a_card_left_is_told_with_its_program_and_every_difference_with_its_cause():
    names = {p.name: p.arch for p in corpus()}
    assert RECORDED["device"]["gpu"].startswith("NVIDIA H")
    for row in RECORDED["launches"]:
        assert names[row["program"]] == "sm_90a"
        assert row["status"] == 0
        assert row["outputs"]
        assert row["same"] == (not row["differ"]) == ("why" not in row)
    assert sum(row["same"] for row in RECORDED["launches"]) >= 60
