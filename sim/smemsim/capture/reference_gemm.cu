// The reference kernel: a complete TMA + mbarrier + wgmma tile loop, D[128, 128] = A[128, K] B[128, K]^T in bf16 with f32
// accumulation. A CTA computes 64 x 64; a stage holds 64 elements of K; A and B may each be K- or MN-major, in any swizzle.
// The host says which boxes fill a stage and which descriptor each K step gets; the kernel only runs them, and CTA (0, 0) dumps
// its shared memory as the first wgmma finds it.
#include "probes.cuh"

constexpr unsigned STAGE_BYTES = 16384;  // A, then B, 8 KiB each
constexpr int STAGES = 2;

struct Plan {
    int loads_a, loads_b;             // boxes a stage
    int offset_a[8], offset_b[8];     // shared offset of each box inside its operand's 8 KiB
    int row_a[8], k_a[8];             // element of the stage's tile that lands first
    int row_b[8], k_b[8];
    int major_a, major_b;             // 0: K-major, 1: MN-major
    unsigned long long word_a[4], word_b[4];  // the K steps' descriptors with start address 0 for the operand's first byte
};

template <int TA, int TB> __device__ void gemm(const CUtensorMap *map_a, const CUtensorMap *map_b, const Plan &plan, int K, float *D,
                                               unsigned char *image, unsigned long long *descriptors) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const unsigned base = shared_address(smem), barriers = base + STAGES * STAGE_BYTES;
    const int t = threadIdx.x, w = t / 32, g = t % 32 / 4, q = t % 4;
    const int m0 = blockIdx.x * 64, n0 = blockIdx.y * 64, tiles = K / 64;
    for (unsigned x = t; x < STAGES * STAGE_BYTES / 4; x += 128) ((unsigned *)smem)[x] = 0;
    if (t == 0)
        for (int s = 0; s < STAGES; s++) barrier_init(barriers + 8 * s);
    proxy_fence();
    __syncthreads();
    auto issue = [&](int tile) {
        unsigned stage = base + tile % STAGES * STAGE_BYTES, barrier = barriers + tile % STAGES * 8;
        barrier_expect(barrier, STAGE_BYTES);
        for (int i = 0; i < plan.loads_a; i++) {
            int row = m0 + plan.row_a[i], k = 64 * tile + plan.k_a[i];
            int c[2] = {plan.major_a ? row : k, plan.major_a ? k : row};
            tma_load(2, stage + plan.offset_a[i], map_a, c, barrier);
        }
        for (int i = 0; i < plan.loads_b; i++) {
            int row = n0 + plan.row_b[i], k = 64 * tile + plan.k_b[i];
            int c[2] = {plan.major_b ? row : k, plan.major_b ? k : row};
            tma_load(2, stage + STAGE_BYTES / 2 + plan.offset_b[i], map_b, c, barrier);
        }
    };
    if (t == 0)
        for (int tile = 0; tile < STAGES && tile < tiles; tile++) issue(tile);
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    for (int tile = 0; tile < tiles; tile++) {
        unsigned stage = base + tile % STAGES * STAGE_BYTES;
        while (!barrier_wait(barriers + tile % STAGES * 8, tile / STAGES & 1, 1000000)) {}
        __syncthreads();
        if (tile == 0 && blockIdx.x == 0 && blockIdx.y == 0)
            for (unsigned x = t; x < STAGE_BYTES; x += 128) image[x] = smem[x];
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int step = 0; step < 4; step++) {
            unsigned long long a = plan.word_a[step] + (stage >> 4), b = plan.word_b[step] + ((stage + STAGE_BYTES / 2) >> 4);
            if (t == 0 && blockIdx.x == 0 && blockIdx.y == 0) {
                descriptors[2 * (4 * tile + step)] = a;
                descriptors[2 * (4 * tile + step) + 1] = b;
            }
            asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                         "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
                         "%23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, %34, %35; }"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
                           "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
                           "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
                           "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                         : "l"(a), "l"(b), "n"(TA), "n"(TB));
        }
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
        if (t == 0 && tile + STAGES < tiles) issue(tile + STAGES);
    }
    for (int i = 0; i < 32; i++) {
        int row = 16 * w + g + 8 * ((i >> 1) & 1), column = 2 * q + (i & 1) + 8 * (i >> 2);
        D[(size_t)(m0 + row) * 128 + n0 + column] = d[i];
    }
}

#define GEMM(NAME, TA, TB)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(128) NAME(const CUtensorMap *maps, const Plan *plan, int K, float *D,          \
                                                          unsigned char *image, unsigned long long *descriptors) {              \
        gemm<TA, TB>(maps, maps + 1, *plan, K, D, image, descriptors);                                                           \
    }
GEMM(reference_kk, 0, 0)
GEMM(reference_km, 0, 1)
GEMM(reference_mk, 1, 0)
GEMM(reference_mm, 1, 1)
