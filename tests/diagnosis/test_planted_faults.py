"""Faults planted in Hopper and Blackwell kernels (tools/faults): each that was found is found again, by the same code
at the same line; the clean kernels have none, at most a remark.
"""

from __future__ import annotations

import shutil

import pytest
from hypothesis import settings

from smemsim import Gpu
from smemsim.run import RunOptions
from tools.faults.here import LIMIT, judged
from tools.faults.planted import all_planted, compiled, planted
from tools.faults.table import PAGE, page, results

# By day: an ending, uninitialised memory, an arrival of the next phase, a transposed operand, a start in bytes, another
# lane's tcgen05.commit.
SAMPLE = ("bulk/7", "histogram/1", "ring/12", "tc_chain/1", "tc_chain/5", "tc_gemm/20")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the PATH")


def chosen():
    """The variants to run: some by day, all by night."""
    if settings.get_current_profile_name() == "nightly":
        return list(results()["here"])
    return [*SAMPLE, "ring/0"]


@needs_nvcc
@pytest.mark.parametrize("name", chosen())
def test_what_was_found_is_found(name):
    kernel, number = planted(name.split("/")[0]), int(name.split("/")[1])
    fault = next((fault for fault in kernel.faults if fault.number == number), None)
    verdict = judged(kernel, fault)
    known = results()["here"][name]
    if fault is None:
        assert not verdict.fails
        assert (verdict.found, verdict.is_equal) == (known["found"], True)
    elif known["right"]:
        assert verdict.right, verdict.told


# A counted parity, a missing wait at an mbarrier, a missing mbarrier.arrive, a missing tcgen05.commit, a missing fence
# before an arrival.
TRIED = ("gemm_tma/4", "gemm_tma/5", "gemm_ws/3", "gemm_ws/6", "gemm_ws/14", "ring/5", "tc_gemm/2", "tc_gemm/6", "tc_gemm/8")


@needs_nvcc
@pytest.mark.parametrize("name", TRIED if settings.get_current_profile_name() == "nightly" else ())
def test_faults_have_a_fix_that_was_executed(name):
    kernel, number = planted(name.split("/")[0]), int(name.split("/")[1])
    ptx = compiled(kernel, number)
    launch, gpu = kernel.launch(ptx), Gpu(kernel.shape.arch)
    arrays, args = launch.placed(gpu)
    for unwritten in kernel.shape.unwritten:
        gpu.memory.declare_blank(arrays[unwritten].address)
    run = gpu.run_and_compare(ptx, launch.config(args), RunOptions(progress=False, limit=LIMIT, workers=1))
    assert run.findings[0].tried


def test_the_page_is_made_of_the_results():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_variant_has_a_result():
    names = {f"{kernel.name}/{n}" for kernel in all_planted() for n in (0, *(fault.number for fault in kernel.faults))}
    assert set(results()["here"]) == names
