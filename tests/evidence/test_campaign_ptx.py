"""Random PTX: machine code and closures agree, a difference is seen and made small."""

import dataclasses
import random

from smemsim.campaign.spaces import ptx


def program():
    rng = random.Random(3)
    return dataclasses.replace(ptx.draw(rng), threads=32, ctas=1)


def test_both_ways_leave_the_same():
    one = program()
    assert ptx.runs(one, "closures") == ptx.runs(one, "compiled")
    assert not isinstance(ptx.runs(one, "closures"), str)


def test_a_difference_is_told_and_made_small(monkeypatch):
    def runs(program, mode, level="1"):
        word = 1 if mode == "compiled" and any("popc" in line for line in ptx._flat(program.lines)) else 0
        return (bytes(32), word.to_bytes(144, "little")), ()

    monkeypatch.setattr(ptx, "runs", runs)
    found = next(case for n in range(50) if (case := ptx.SPACE.case(0, 0, n)).wrong)
    assert "of closures" in found.wrong
    body = found.shown["kernel.ptx"].partition("BODY:\n")[2].partition("bra END")[0]
    assert "popc" in body
    assert body.count(";") == 1


def test_what_ended_the_process_once_is_compiled():
    """A shuffle that gives one lane to all, in front of a funnel shift: LLVM 22 left the process over it."""
    assert not ptx.SPACE.case(0, 2436, 26).wrong
