"""MMA-Sim's model and the tensor cores, bit for bit: kernels, model, data and comparison are the project's (tests/equivalence/test_nv_blackwell.py), for one kind of instruction.

    python mmasim_equivalence.py LIBRARY TRIALS NAME ...    # in the checkout; names as in mmasim.nv_ptx.isa_tcgen05mma

Its packages build their kernels by torch.utils.cpp_extension when they are imported, for which torch's CUDA build is needed: here LIBRARY has them, built with the same source by
nvcc alone. The project's test draws all bits of A, B, C and the factors anew in every trial, 100 for each of 64 sizes and each type; the draws here begin with a seed.
"""

import sys

import torch
import torch.utils.cpp_extension

sys.path.insert(0, "tests/equivalence")  # of the checkout


def main(library: str, trials: int, names: list[str]) -> int:
    """1 where one bit differs."""
    build = torch.utils.cpp_extension.load
    torch.utils.cpp_extension.load = lambda name, *files, **options: library if "blackwell" in name else build(name, *files, **options)
    import mmasim.nv_ptx.isa_mma

    mmasim.nv_ptx.isa_mma.blackwell_mma_shape_and_type.clear()  # those of mma.sync are not in LIBRARY
    from helper import random_test
    from mmasim.nv_ptx.sim import TCGen05MMA, TCGen05MMABlockScale
    from mmasim_kernels.nv_ptx.blackwell import tcgen05mma_block_scale_kernels, tcgen05mma_kernels

    torch.manual_seed(0)
    for name in names:
        kernels, model = (tcgen05mma_block_scale_kernels, TCGen05MMABlockScale) if "block" in name else (tcgen05mma_kernels, TCGen05MMA)
        try:
            random_test(model("Blackwell", name), kernels[name], allow_different_nan=False, trials=trials)
        except Exception as error:
            if str(error) != "Test failed":  # of its own comparison, behind the inputs and both results
                raise
            print(f"{name}: the bits differ")
            return 1
        print(f"{name}: {trials} times the same bits")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
