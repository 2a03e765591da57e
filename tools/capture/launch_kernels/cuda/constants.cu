// Constant memory, initialised variables in global memory, pointers in initialisers, variables that the kernel changes.
#include "common.cuh"
__constant__ u32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__constant__ float polynomial[4] = {1.5f, -0.25f, 3.0f, 0.125f};
__constant__ char text[] = "swizzle";
__device__ u32 counters[4] = {100, 200, 300, 400};
__device__ u64 zeroed[4];
__device__ u32 *places[3] = {counters + 1, counters + 3, counters};
KERNEL constants(const u32 *in, u32 *out) {
    int n = THREADS;
    u32 x = in[THREAD];
    out[THREAD] = primes[x & 7] * primes[threadIdx.x & 7] + primes[3];
    float t = (float)(x & 15);
    out[n + THREAD] = __float_as_uint(((polynomial[0] * t + polynomial[1]) * t + polynomial[2]) * t + polynomial[x & 3]);
    out[2 * n + THREAD] = text[x % 7] + 256 * text[(x >> 4) % 7];
    atomicAdd(places[x % 3], 1);
    atomicMax(zeroed + (x >> 8 & 3), (u64)x << 4);
    __syncthreads();
    if (threadIdx.x < 4) out[3 * n + threadIdx.x] = counters[threadIdx.x], ((u64 *)(out + 3 * n + 4))[threadIdx.x] = zeroed[threadIdx.x];
}
