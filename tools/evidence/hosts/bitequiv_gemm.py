"""The same product by mma.sync and by tcgen05.mma, bit for bit: kernel, data and comparison are bitequiv's, with its own smaller size.

    python bitequiv_gemm.py TYPE      # bf16, f16 or f32 (as tf32); in a checkout of facebookexperimental/triton

bitequiv/evaluation/evaluate.py, stage `korder`, compiles one configuration of its product with tiles of 32 rows, which become mma.sync, and of 64 or more, which become
tcgen05.mma, and says what its authors found on a GB300: the same bits with these types. It takes 2048 x 2048 x 2048 for that; the size here is that of its own
stages of precision. 1 where the bits differ, or where a kernel has the wrong instruction.
"""

import sys

sys.path.insert(0, ".")  # the checkout

from bitequiv.evaluation.equivalence_fuzzer import empirical_keys, partition
from bitequiv.evaluation.eval_kernels import REGISTRY


def main(dtype: str) -> int:
    """Compile both, run both with one seed, compare."""
    spec = REGISTRY["gemm"]
    size = spec.precision_size
    fixed = {
        "dtype": dtype, "num_warps": 4, "num_stages": 1, "enable_fp_fusion": True, "gemm_num_ctas": 1, "gemm_block_k": 32, "gemm_block_n": 64,
        "max_num_imprecise_acc": 32, "input_precision": "tf32" if dtype == "f32" else "ieee",
    }  # fmt: skip
    instructions = {32: "mma.sync", 128: "tcgen05.mma"}
    chosen = [
        c for c in spec.max_config_space() if c.gemm_block_m in instructions and all(getattr(c, name) == x for name, x in fixed.items())
    ]
    compiled = {c: spec.compile(c, size) for c in chosen}
    found = {c.gemm_block_m: instructions[c.gemm_block_m] in compiled[c].asm["ptx"] for c in chosen}
    if found != dict.fromkeys(instructions, True):
        print(f"tiles of 32 rows have mma.sync and of 128 rows tcgen05.mma: {found}")
        return 1
    classes = partition(chosen, empirical_keys(lambda config, seed: spec.run(config, compiled[config], seed, size), chosen, 1))
    print(f"{dtype}, {size}: {len(classes)} class of bits" if len(classes) == 1 else f"{dtype}, {size}: the bits differ")
    return int(len(classes) != 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
