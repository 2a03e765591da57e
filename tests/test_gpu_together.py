"""What CTAs do alike is done and looked at once for all: one that does something else is found, as it would be if nobody did as the others."""

from __future__ import annotations

import dataclasses

import pytest

from gpu_faults import KERNELS
from smemsim import Gpu
from smemsim.evidence import load_launch_file

FILE = load_launch_file(KERNELS / "triton_matmul_512")
CTAS, ODD, TILE, DEPTH = 3, 1, 128, 256  # of the grid, the one with the fault; of C, and how far K goes
# By the code: the line behind which one CTA does something else, and what. A tile of B whose second K step starts 16 bytes further; and a stage of A that is
# filled while products may still read it.
FAULTS = {
    "R502": ("add.s32 \t%r51, %r49, 2;", "add.s32 %r51, %r49, 3;"),
    "X005": ("add.s32 \t%r33, %r9, %r59;", "mov.b32 %r33, %r9;"),
}


def with_fault(code: str, ctas: str) -> str:
    """The kernel with a fault, of CTA `ODD` ("one") or of all."""
    behind, fault = FAULTS[code]
    assert FILE.ptx.count(behind) == 1
    ptx = FILE.ptx.replace(behind, f"{behind}\n\t{'@%odd ' if ctas == 'one' else ''}{fault}")
    head = f"\t.reg .pred %odd;\n\t.reg .b32 %cta;\n\tmov.u32 %cta, %ctaid.x;\n\tsetp.eq.u32 %odd, %cta, {ODD};\n"
    return ptx.replace("{\n", "{\n" + head, 1)


def launched(ptx: str):
    gpu = Gpu("sm_90a")
    args = [one | {"value": DEPTH} if n == 15 else one for n, one in enumerate(FILE.about["args"])]
    file = dataclasses.replace(FILE, ptx=ptx, about={**FILE.about, "grid": (CTAS, 1, 1), "args": args})
    arrays, args = file.placed(gpu)
    found = gpu.run(file.ptx, file.config(args))
    return [(f.code, f.line) for f in found.findings], list(arrays.values())[-1].numpy()


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_one_cta_is_found_as_that_of_all(code: str):
    (of_one, c), (of_all, _) = (launched(with_fault(code, ctas)) for ctas in ("one", "all"))
    assert code in dict(of_one)
    assert of_one == of_all
    if code == "R502":  # the other CTAs compute what they should
        right = launched(FILE.ptx)[1]
        differs = (c != right).reshape(len(c) // TILE, TILE, -1, TILE).any(axis=(1, 3))
        assert differs.sum() == 1
