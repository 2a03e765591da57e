// An inclusive prefix sum over the whole grid in one pass: each block waits for the sum of the blocks before it.
#include "common.cuh"
KERNEL scan(const u32 *in, u32 *out, u32 *sums, u32 *ready) {
    __shared__ u32 warps[8], before;
    u32 t = threadIdx.x, lane = t & 31, x = in[THREAD];
    for (int d = 1; d < 32; d *= 2) {
        u32 y = __shfl_up_sync(~0u, x, d);
        if (lane >= d) x += y;
    }
    if (lane == 31) warps[t / 32] = x;
    __syncthreads();
    if (t < 8) {
        u32 w = warps[t];
        for (int d = 1; d < 8; d *= 2) {
            u32 y = __shfl_up_sync(0xff, w, d, 8);
            if (t >= d) w += y;
        }
        warps[t] = w;
    }
    __syncthreads();
    if (t >= 32) x += warps[t / 32 - 1];
    if (t == 0) {
        u32 sum = 0, flag = 0;
        if (blockIdx.x) {
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(flag) : "l"(ready + blockIdx.x - 1) : "memory");
            while (!flag);
            sum = sums[blockIdx.x - 1];
        }
        before = sum;
        sums[blockIdx.x] = sum + warps[7];
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(ready + blockIdx.x), "r"(1) : "memory");
    }
    __syncthreads();
    out[THREAD] = x + before;
}
