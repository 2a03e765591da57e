// A sparse matrix times a vector: rows of any length, one warp a row; f64 sums.
#include "common.cuh"
KERNEL sparse_rows(const u32 *starts, const u32 *columns, const float *values, const float *x, double *y, u32 rows) {
    u32 row = THREAD / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    double sum = 0;
    for (u32 i = starts[row] + lane; i < starts[row + 1]; i += 32) sum += (double)values[i] * (double)x[columns[i]];
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}
