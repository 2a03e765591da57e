"""Litmus tests as kernels (`tools.litmus`): small ones of our own, and a sample of Dat3M's where SMEMSIM_DAT3M names a
checkout.
"""

import os
import pathlib

import pytest

from tools.litmus import run
from tools.litmus.kernel import kernel_of
from tools.litmus.parse import Inexpressible, holds, parse
from tools.litmus.run import expectations, judged

SCHEDULES: list[int | str | None] = [None, "latest", *range(6)]


def litmus(columns: str, condition: str, ctas: tuple[int, ...] = (0, 0), quantifier: str = "exists") -> str:
    """A test: the threads' instructions by ';' and '|'."""
    head = " | ".join(f"P{n}@cta {cta},gpu 0" for n, cta in enumerate(ctas))
    return f"PTX own\n{{\nx=0; y=0;\n}}\n {head} ;\n {columns} ;\n{quantifier}\n({condition})"


SENT = "P1:r0 == 1 /\\ P1:r1 == 0"
PLAIN = "st.weak x, 1 | ld.relaxed.gpu r0, y ; st.relaxed.gpu y, 1 | ld.weak r1, x"
PASSED = "st.weak x, 1 | ld.acquire.gpu r0, y ; st.release.gpu y, 1 | bne r0, 1, LC0 ; | ld.weak r1, x ; | LC0:"
NARROW = PASSED.replace("gpu", "cta")
FENCED = "st.weak x, 1 | ld.relaxed.gpu r0, y ; fence.acq_rel.gpu | fence.acq_rel.gpu ; st.relaxed.gpu y, 1 | bne r0, 1, LC0 ; | ld.weak r1, x ; | LC0:"
BUFFERED = "st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ; ld.relaxed.gpu r0, y | ld.relaxed.gpu r1, x"
FENCED_SC = "st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ; fence.sc.gpu | fence.sc.gpu ; ld.relaxed.gpu r0, y | ld.relaxed.gpu r1, x"
READERS = ("st.relaxed.gpu x, 1 | ld.acquire.gpu r0, x | ld.acquire.gpu r2, y | st.relaxed.gpu y, 1 ; | ld.acquire.gpu r1, y | ld.acquire.gpu r3, x |")  # fmt: skip


def test_what_the_model_forbids_is_never_seen():
    for columns, condition, ctas in (
        (PASSED, "P1:r0 == 1 /\\ P1:r1 == 0", (0, 1)), (FENCED, "P1:r0 == 1 /\\ P1:r1 == 0", (0, 1)),
        (FENCED_SC, "P0:r0 == 0 /\\ P1:r1 == 0", (0, 1)),
    ):  # fmt: skip
        result = judged("own", litmus(columns, condition, ctas), "global", SCHEDULES, holds_=False)
        assert not [told for told in result.disagreements if told[0] in ("forbidden", "expectation", "hang")], columns


def test_a_store_that_nothing_orders_may_be_seen_late():
    for columns, condition in ((PLAIN, SENT), (BUFFERED, "P0:r0 == 0 /\\ P1:r1 == 0")):
        seen = judged("own", litmus(columns, condition, (0, 1)), "global", [*range(40)], holds_=True)
        assert seen.reached, columns
        assert not seen.in_turns


@pytest.mark.parametrize(("columns", "races"), [(PLAIN, True), (PASSED, False), (NARROW, False), (FENCED, False)])
def test_the_watch_finds_what_races_and_nothing_else(columns: str, races: bool):
    result = judged("own", litmus(columns, SENT), "shared", SCHEDULES)
    assert result.races == races
    assert not [told for told in result.disagreements if told[0] in ("race", "silence")]


def test_a_scope_that_does_not_reach_the_other_cta_orders_nothing():
    assert judged("own", litmus(NARROW, SENT, (0, 1)), "global", [0]).races
    assert not judged("own", litmus(PASSED, SENT, (0, 1)), "global", [0]).races


def test_turns_show_no_readers_that_disagree():
    result = judged("own", litmus(READERS, "P1:r0 == 1 /\\ P1:r1 == 0 /\\ P2:r2 == 1 /\\ P2:r3 == 0", (0, 0, 0, 0)), "shared", [None, 0])
    assert not result.in_turns
    assert not result.reached


def test_what_no_kernel_can_have_is_named():
    two = litmus("st.weak x, 1 | ld.weak r0, x", "P1:r0 == 1").replace("P1@cta 0,gpu 0", "P1@cta 0,gpu 1")
    for text, why in ((two, "two GPUs"), (litmus("sust.weak x, 1 | ld.weak r0, x", "P1:r0 == 1"), "surface proxy")):
        with pytest.raises(Inexpressible, match=why):
            kernel_of(parse(text), "global")


def test_conditions_are_read():
    assert holds("(P0:r0 == 1 \\/ ~(x = 2))", {"x": 3})
    assert not holds("1:r1 == 1 /\\ x != 0", {"P1:r1": 1})


@pytest.mark.skipif("SMEMSIM_DAT3M" not in os.environ, reason="SMEMSIM_DAT3M names no checkout of hernanponcedeleon/Dat3M")
def test_a_sample_of_dat3m_agrees():
    checkout = pathlib.Path(os.environ["SMEMSIM_DAT3M"])
    conditions, endings = expectations(checkout)
    for path in run.tests_of(checkout)[::37]:
        name = path.relative_to(checkout).as_posix()
        result = judged(name, path.read_text(), "shared", SCHEDULES, conditions.get(name), endings.get(name))
        assert not [told for told in result.disagreements if told[0] in ("forbidden", "expectation", "hang", "ending", "silence")], name
