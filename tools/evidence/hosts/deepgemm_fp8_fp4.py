"""DeepGEMM's product of 8-bit and 4-bit floats (deepseek-ai/DeepGEMM, tests/test_fp8_fp4.py, test_gemm) at one small size, compared as there.

`python deepgemm_fp8_fp4.py PACKAGES M N K`, in the checkout; PACKAGES is the folder that has deep_gemm, built.
"""

import os
import sys

sys.path[:0] = [sys.argv[1], os.path.join(os.getcwd(), "tests")]

import deep_gemm  # noqa: E402
import generators  # noqa: E402
import torch  # noqa: E402
from deep_gemm.testing import calc_diff  # noqa: E402


def main() -> None:
    """Factors of A for 128 elements of K, of B for 32: one of the test's own configurations."""
    m, n, k = map(int, sys.argv[2:5])
    generators.reset_seed()
    kernel = generators.get_kernel_types(torch.float8_e4m3fn)[0]
    how = generators.QuantConfig((128, 32, False, True))
    recipe, recipe_a, recipe_b = how.get_recipes()
    of_k = generators.MajorTypeAB.KMajor
    use_ue8m0 = generators.get_ue8m0_usage(kernel)
    a, b, c, d, wanted = generators.generate_normal(
        m, n, k, of_k, of_k, False, torch.bfloat16, kernel, use_ue8m0=use_ue8m0, quant_config=how
    )
    deep_gemm.fp8_fp4_gemm_nt(a, b, d, c=c, disable_ue8m0_cast=not use_ue8m0, recipe=recipe, recipe_a=recipe_a, recipe_b=recipe_b)
    difference = calc_diff(d, wanted)
    print(f"{m} x {n} x {k}: difference {difference:.6f}, at most {how.max_diff()}")
    assert difference < how.max_diff()


main()
