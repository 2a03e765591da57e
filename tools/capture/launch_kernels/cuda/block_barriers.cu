// Barriers that reduce, named barriers of a few warps, arrivals without waiting, a reduction tree over shared memory.
#include "common.cuh"
extern __shared__ u32 dynamic[];
KERNEL block_barriers(const u32 *in, u32 *out) {
    __shared__ u32 order[8];
    u32 x = in[THREAD], t = threadIdx.x, n = blockDim.x;
    int slot = 0;
    PUT(__syncthreads_count(x & 1)); PUT(__syncthreads_and(x != 12345) != 0); PUT(__syncthreads_or(x % 1000 == 7) != 0); PUT(__syncthreads_count(t < 5));
    PUT_ASM("{ .reg .pred p, q; setp.lt.u32 p, %1, 1000000; barrier.sync.aligned 0; barrier.red.popc.aligned.u32 %0, 0, p; }", "r", u32, "r"(x))
    PUT_ASM("{ .reg .pred p, q; setp.eq.u32 p, %1, 1; barrier.cta.red.or.aligned.pred q, 2, 128, p; selp.u32 %0, 1, 2, q; }", "r", u32, "r"(x % 100))
    dynamic[t] = x;
    for (u32 s = n / 2; s; s /= 2) {
        __syncthreads();
        if (t < s) dynamic[t] += dynamic[t + s];
    }
    __syncthreads();
    PUT(dynamic[0]);
    // Warps 0 and 1 make, warps 2 and 3 use: barrier 1 says full, barrier 3 says empty.
    u32 seen = 0;
    for (int round = 0; round < 3; round++) {
        if (t < 64) {
            if (round) asm volatile("bar.sync 3, 128;" ::: "memory");
            dynamic[n + t] = x + round * 1000 + t;
            asm volatile("bar.arrive 1, 128;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            seen += dynamic[n + 127 - t] * (round + 1);
            if (round < 2) asm volatile("bar.arrive 3, 128;" ::: "memory");
        }
    }
    PUT(seen);
    __syncthreads();
    u32 warp = t / 32;
    asm volatile("barrier.sync %0, 32;" ::"r"(warp + 4) : "memory");
    if (t % 32 == 0) order[warp] = dynamic[n + t / 2];
    asm volatile("bar.sync %0, 64;" ::"r"(warp / 2 + 8) : "memory");
    PUT(order[warp ^ 1]);
    __syncthreads();
    for (u32 i = t; i < n + 64; i += n) out[THREADS * 9 + blockIdx.x * (n + 64) + i] = dynamic[i];
}
