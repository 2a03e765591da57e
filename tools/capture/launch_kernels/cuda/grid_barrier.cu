// A barrier over the whole grid through an atomic counter: rounds of a stencil between two buffers.
#include "common.cuh"
__device__ void grid_barrier(u32 *counter, u32 round) {
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 seen;
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        while (seen < gridDim.x * (round + 1));
    }
    __syncthreads();
}
KERNEL grid_barrier_stencil(u32 *even, u32 *odd, u32 *counter, u32 rounds) {
    u32 n = THREADS, i = THREAD;
    for (u32 round = 0; round < rounds; round++) {
        const u32 *from = round & 1 ? odd : even;
        u32 *to = round & 1 ? even : odd;
        to[i] = __ldcg(from + (i + n - 1) % n) + 3 * __ldcg(from + i) + __ldcg(from + (i + 1) % n);
        grid_barrier(counter, round);
    }
}
