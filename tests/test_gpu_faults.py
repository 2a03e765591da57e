"""Faults planted in right kernels: the first finding is the right one, at the right line; the right kernels have none."""

from __future__ import annotations

import re

import pytest

from gpu_faults import FAULTS, Fault, launched


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.kernel}: {f.name}")
def test_the_first_finding_is_the_fault(fault: Fault):
    run, ptx = launched(fault.kernel, fault)
    assert run.findings, "nothing was found"
    first = run.findings[0]
    line = ptx.splitlines()[first.line - 1]
    assert first.code == fault.code, run.text()
    assert re.search(fault.at, line), f"line {first.line}: {line}\n{run.text()}"
    assert first.message
    assert not run.ok


@pytest.mark.parametrize("name", sorted({fault.kernel for fault in FAULTS}))
def test_the_right_kernel_has_none(name: str):
    run, _ = launched(name)
    assert not run.findings, run.text()
    assert run.ok
