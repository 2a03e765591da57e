// Forms of tcgen05.mma that Triton does not emit, on tiles that threads write without swizzle, K-major: core matrices of 8 rows x 16 bytes, one
// after the other along rows, then along K. M = 128, f16. What is done stands in WHAT: 0 a mask of output lanes, 1 scale-input-d, 2 collector
// buffers, 3 .ws, 4 .sp.

#include "tcgen05.cuh"

constexpr int ROWS = 128;

// Element (row, k) of a tile of `rows` rows: its byte offset.
__device__ inline int place(int row, int k, int rows) { return (k / 8 * rows + row) * 16 + k % 8 * 2; }

// Start address, LBO (from one column of core matrices to the next along K), SBO (along rows), version 1, no swizzle.
__device__ inline unsigned long long descriptor(unsigned address, int rows) {
    return (unsigned long long)((address & 0x3FFFF) >> 4) | (unsigned long long)rows << 16 | 8ull << 32 | 1ull << 46;
}

#ifndef WHAT
#define WHAT 0
#endif

extern "C" __global__ void __launch_bounds__(128) forms(const unsigned short *a, const unsigned short *b, const float *c, float *d, unsigned argument) {
    constexpr int N = WHAT == 3 ? 64 : 32, K = WHAT == 4 ? 32 : 16, KA = 16;
    extern __shared__ __align__(1024) unsigned char smem[];
    const unsigned base = shared_address(smem), tile_b = base + ROWS * KA * 2, barrier = base + 16384, slot = barrier + 8;
    const unsigned t = threadIdx.x, warp = t / 32;
    for (int i = t; i < ROWS * KA; i += 128) *(unsigned short *)(smem + place(i / KA, i % KA, ROWS)) = a[i];
    for (int i = t; i < N * K; i += 128) *(unsigned short *)(smem + ROWS * KA * 2 + place(i / K, i % K, N)) = b[i];
    if (t == 0) {
        barrier_init(barrier, 1);
        barriers_visible();
    }
    proxy_fence();
    if (warp == 0) {
        tensor_alloc<1>(slot, 128);
        tensor_relinquish<1>();
    }
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    const TensorMemory memory = {*(volatile unsigned *)(smem + 16384 + 8), nullptr};
    unsigned r[32];
    for (int column = 0; column < N; column += 32) {
        for (int i = 0; i < 32; i++) r[i] = __float_as_uint(c[t * N + column + i]);
        tensor_store32(memory, warp, column, r);
    }
    for (int i = 0; i < 32; i++) r[i] = argument;  // metadata of .sp: the same word everywhere
    tensor_store32(memory, warp, 96, r);
    tensor_wait_st();
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    if (warp == 0 && elect()) {
        const unsigned long long A = descriptor(base, ROWS), B = descriptor(tile_b, N);
        // D f32, A and B f16, N, M = 128; bit 2: sparse
        const unsigned idesc = 1u << 4 | (N / 8) << 17 | (ROWS / 16) << 24 | (WHAT == 4 ? 4 : 0);
#if WHAT == 0
        asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%4, %5, 0, 0}, p; }"
                     ::"r"(memory.base), "l"(A), "l"(B), "r"(idesc), "r"(argument), "r"(~argument) : "memory");
#elif WHAT == 1
        asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p, 3; }"
                     ::"r"(memory.base), "l"(A), "l"(B), "r"(idesc) : "memory");
#elif WHAT == 2
#define STEP(HOW)                                                                                                                                  \
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16.collector::a::" HOW " [%0], %1, %2, %3, p; }" \
                 ::"r"(memory.base), "l"(A), "l"(B), "r"(idesc) : "memory")
        STEP("fill");
        STEP("use");
        STEP("lastuse");
        STEP("discard");
#elif WHAT == 3
        asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0; tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::fill [%0], %1, %2, %3, p, 0; }"
                     ::"r"(memory.base), "l"(A), "l"(B), "r"(idesc) : "memory");
#elif WHAT == 4
        asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0; tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%4], %3, p; }"
                     ::"r"(memory.base), "l"(A), "l"(B), "r"(idesc), "r"(memory.base + 96) : "memory");
#endif
        tensor_commit<1>(barrier);
    }
    __syncwarp();
    while (!barrier_try(barrier, 0)) {}
    tensor_fence_after();
    for (int column = 0; column < N; column += 32) {
        tensor_load32(memory, warp, column, r);
        for (int i = 0; i < 32; i++) d[t * N + column + i] = __uint_as_float(r[i]);
    }
    tensor_fence_before();
    __syncthreads();
    if (warp == 0) tensor_dealloc<1>(memory.base, 128);
}
