// A softmax of rows, one warp a row, with a largest value and a sum found by shuffles.
#include "common.cuh"
KERNEL softmax(const float *in, float *out, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    const float *x = in + row * columns;
    float largest = -INFINITY, sum = 0;
    for (int i = lane; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int d = 16; d; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
    for (int i = lane; i < columns; i += 32) sum += __expf(x[i] - largest);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    for (int i = lane; i < columns; i += 32) out[row * columns + i] = __fdividef(__expf(x[i] - largest), sum);
}
