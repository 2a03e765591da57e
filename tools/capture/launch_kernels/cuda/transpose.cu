// Transposes: through shared memory with a pad, and of 32 x 32 bits and words within a warp by shuffles.
#include "common.cuh"
KERNEL transpose(const u32 *in, u32 *out, u32 *bits, u32 *words) {
    __shared__ u32 tile[32][33];
    int lane = threadIdx.x, y = threadIdx.y, n = gridDim.x * 32;
    for (int r = y; r < 32; r += blockDim.y) tile[r][lane] = in[(blockIdx.y * 32 + r) * n + blockIdx.x * 32 + lane];
    __syncthreads();
    for (int r = y; r < 32; r += blockDim.y) out[(blockIdx.x * 32 + r) * n + blockIdx.y * 32 + lane] = tile[lane][r];
    int block = blockIdx.y * gridDim.x + blockIdx.x;
    if (y == 0) {
        u32 row = tile[lane][0], column = 0;
        for (int b = 0; b < 32; b++) {
            u32 vote = __ballot_sync(~0u, row >> b & 1);
            if (lane == b) column = vote;
        }
        bits[block * 32 + lane] = column;
    } else if (y == 1) {
        u32 v[4];
        for (int i = 0; i < 4; i++) v[i] = tile[i][lane];
        for (int step = 1; step < 4; step *= 2)
            for (int i = 0; i < 4; i++)
                if (!(i & step)) {
                    u32 give = lane & step ? v[i] : v[i | step], got = __shfl_xor_sync(~0u, give, step);
                    if (lane & step) v[i] = got; else v[i | step] = got;
                }
        for (int i = 0; i < 4; i++) words[(block * 4 + i) * 32 + lane] = v[i];
    }
}
