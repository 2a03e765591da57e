// The reference kernel of the capture tool, its maps as parameters. -DMAJOR_A= and -DMAJOR_B= are 1 for an MN-major operand.
#include "../../reference_gemm.cu"

extern "C" __global__ void __launch_bounds__(128) reference(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, const Plan *plan,
                                                            int K, float *D, unsigned char *image, unsigned long long *descriptors) {
    gemm<MAJOR_A, MAJOR_B>(&map_a, &map_b, *plan, K, D, image, descriptors);
}
