"""CTAs that do the same are executed and checked as one, and one by one with `SMEMSIM_COHORTS=off`: the same bytes and the same findings."""

import random

import numpy as np
import pytest

from smemsim import Gpu
from smemsim.campaign.spaces import space
from smemsim.campaign.spaces.cohorts import Program, difference, draw, mutated, recorded_kernels, simpler

STORE, LOAD = "st.shared.b32 [%own+0], %acc;", "ld.shared.b32 %x, [%near+0]; add.u32 %acc, %acc, %x;"
MEETS = "setp.eq.u32 %q, %cta, 1; @%q bra D1; bar.sync 0; D1:"  # all CTAs but one


def differs(program):
    return difference(*(program.outcome(cohorts=cohorts) for cohorts in (True, False)))


@pytest.mark.parametrize("part", range(4))
def test_generated_programs_leave_the_same_bytes_and_findings(part):
    said = set()
    for number in range(8):
        program = draw(random.Random(f"cohorts {part} {number}"))
        found = program.outcome(cohorts=True)
        assert difference(found, program.outcome(cohorts=False)) == "", program.text()
        said.add(isinstance(found, str) or bool(found[2]))
    assert said == {True, False}  # some have findings, some have none


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_cta_that_leaves_out_a_barrier_is_found_by_both(is_compiled):
    program = Program((STORE, MEETS, LOAD), 4, 1, 1, is_compiled=is_compiled)
    found = program.outcome(cohorts=True)
    assert [code for code, *_ in found[2]] == ["X008"]
    assert "CTA 1" in found[2][0][3]
    assert differs(program) == ""


def test_a_fault_in_what_is_alike_is_a_difference(monkeypatch):
    """CTAs that are taken for alike though one has left out a barrier."""
    monkeypatch.setattr("smemsim.run.sanitizer.folding.Folding.are_in_step", lambda self, epochs: True)
    program = Program((STORE, MEETS, LOAD), 4, 1, 1, is_compiled=True)
    assert "one by one" in differs(program)
    assert any(differs(small) for small in simpler(Program((STORE, MEETS, LOAD, "bar.sync 0;"), 4, 1, 1, is_compiled=True)))


def test_the_switch_leaves_no_two_ctas_together(monkeypatch):
    made = []

    def noted(name):
        module, _, owner = name.rpartition(".")
        of = getattr(__import__(module, fromlist=[owner]), owner)
        before = of.is_possible
        monkeypatch.setattr(of, "is_possible", staticmethod(lambda x: made.append((name, before(x))) or made[-1][1]))

    for name in ("smemsim.run.sanitizer.folding.Folding", "smemsim.run.sanitizer.first.SanitizerOfFirst"):
        noted(name)
    program = Program((STORE, "bar.sync 0;", LOAD), 4, 1, 1)
    program.outcome(cohorts=True)
    assert (True in {possible for _, possible in made}, made.clear()) == (True, None)
    program.outcome(cohorts=False)
    assert made
    assert not any(possible for _, possible in made)


def test_the_environment_says_which(monkeypatch):
    for value, wanted in (("off", False), ("on", True), ("", True)):
        monkeypatch.setenv("SMEMSIM_COHORTS", value)
        gpu = Gpu("sm_90a")
        run = gpu.launch(".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }", grid=2, block=32, progress=False)
        assert run.launch.has_cohorts is wanted


def test_a_mutated_kernel_differs_from_its_original_in_a_line():
    kernel = recorded_kernels()[0].with_name("kernel.ptx").read_text()
    assert recorded_kernels("nowhere") == ()
    for seed in range(10):
        other = mutated(kernel, random.Random(seed))
        pairs = list(zip(kernel.split("\n"), other.split("\n"), strict=True))
        assert 1 <= sum(a != b for a, b in pairs) <= 2 or other == kernel


def test_the_space_is_one_of_the_campaigns():
    found = space("cohorts").run(0, 1)
    assert found.cases == space("cohorts").chunk_cases
    assert not found.troubles, found.troubles
    assert np.isin(list(found.classes.values()), range(1, 9)).all()
