// The reference kernel: a complete TMA + mbarrier + tcgen05 tile loop. A CTA, or a pair of them, computes D[128 x 128] or D[256 x 128] =
// A B^T. Warp 4 loads, warp 5 issues the MMAs, warps 0 to 3 read the accumulator, each its own 32 lanes. A ring of STAGES stages has a full
// and an empty barrier each; in a pair the even CTA's full barrier counts the bytes of both, and every commit reaches both. With sm_90a the same
// loop runs on wgmma, which warps 0 to 3 issue.
// The host says which boxes fill a stage and which descriptor each K step gets; the kernel only runs them.

constexpr int STAGES = 3, STEPS = 4, MOST_BOXES = 16;
constexpr unsigned OPERAND_BYTES = 16384, STAGE_BYTES = 2 * OPERAND_BYTES;  // A, then B
constexpr unsigned BARRIERS = STAGES * STAGE_BYTES;
constexpr int TILE_N = 128;

struct Plan {
    int boxes_a, boxes_b, k_stage, stages_of_k;  // k_stage: elements of K in a stage; stages_of_k: in all
    int rows_a, rows_b;                          // of one CTA: 128, and 128 or 64
    int mn_major_a, mn_major_b;
    unsigned bytes;                              // that one CTA loads a stage
    unsigned idesc;
    unsigned half_a;                             // sm_90a: from row 0 to row 64 of A, bytes
    unsigned unused;
    int offset_a[MOST_BOXES], row_a[MOST_BOXES], k_a[MOST_BOXES];  // shared offset of a box, and the element of the tile that lands first
    int offset_b[MOST_BOXES], row_b[MOST_BOXES], k_b[MOST_BOXES];
    unsigned long long word_a[STEPS], word_b[STEPS];               // the K steps' descriptors, start address counted from the operand's first byte
};

template <int GROUP>
__device__ inline void load_box(unsigned to, const void *map, int c0, int c1, unsigned barrier) {
#if TCGEN05
    if (GROUP == 2) {  // the barrier may be the peer's
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%3, %4}], [%2];"
                     ::"r"(to), "l"(map), "r"(barrier), "r"(c0), "r"(c1) : "memory");
        return;
    }
#endif
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(c0), "r"(c1) : "memory");
}

#if TCGEN05
template <int KIND, int GROUP>
__device__ inline void mma(unsigned d, unsigned long long a, unsigned long long b, unsigned idesc, unsigned enable) {
#define MMA(G, K) asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::" #G ".kind::" #K " [%0], %1, %2, %3, p; }" \
                               ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"(enable) : "memory")
    if (GROUP == 1) {
        if (KIND == 0) MMA(1, f16);
        if (KIND == 1) MMA(1, tf32);
        if (KIND == 2) MMA(1, f8f6f4);
        if (KIND == 3) MMA(1, i8);
    } else {
        if (KIND == 0) MMA(2, f16);
        if (KIND == 1) MMA(2, tf32);
        if (KIND == 2) MMA(2, f8f6f4);
        if (KIND == 3) MMA(2, i8);
    }
}
#else
//WGMMA
#endif

template <int KIND, int GROUP>
__device__ void gemm(const unsigned char *maps, const Plan *job, unsigned *D, unsigned char *image, unsigned long long *words, unsigned *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Plan &plan = *job;
    const unsigned base = shared_address(smem), full = base + BARRIERS, empty = full + 8 * STAGES, done = empty + 8 * STAGES, slot = done + 8;
    const unsigned t = threadIdx.x, warp = t / 32, rank = GROUP == 2 ? cluster_rank() : 0;
    const int m0 = blockIdx.x * 128, n0 = 0, tiles = plan.stages_of_k;
    const unsigned char *map_a = maps, *map_b = maps + 128;
    bool good = true;

    for (unsigned x = t; x < BARRIERS / 16; x += blockDim.x) ((uint4 *)smem)[x] = make_uint4(0, 0, 0, 0);
    if (t == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, 1);
        }
        barrier_init(done, 1);
        barriers_visible();
    }
    proxy_fence();
    __syncthreads();
    if (GROUP == 2) cluster_sync();  // both CTAs run before one of them allocates for the pair
    if (warp == 5) {
        tensor_alloc<GROUP>(slot, TILE_N);
        tensor_relinquish<GROUP>();
    }
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    const TensorMemory memory = {*(volatile unsigned *)(smem + (slot - base)), nullptr};
#if TCGEN05
    if (warp < 4) {  // an MMA that does nothing must not leave an earlier launch's D
        unsigned r[32];
        for (int i = 0; i < 32; i++) r[i] = SENTINEL;
        for (unsigned column = 0; column < TILE_N; column += 32) tensor_store32(memory, warp, column, r);
        tensor_wait_st();
    }
    tensor_fence_before();
    __syncthreads();
    if (GROUP == 2) cluster_sync();
    tensor_fence_after();
#endif

    if (warp == 4) {
        if (elect()) {
            for (int tile = 0; tile < tiles && good; tile++) {
                const int s = tile % STAGES, round = tile / STAGES;
                if (round > 0) good = barrier_wait(empty + 8 * s, (round - 1) & 1);
                const unsigned stage = base + s * STAGE_BYTES;
                unsigned barrier = full + 8 * s;
                if (GROUP == 1) barrier_expect(barrier, plan.bytes);
                else {
                    if (rank == 0) barrier_expect(barrier, 2 * plan.bytes);
                    barrier = mapa(barrier, 0);
                }
                for (int i = 0; i < plan.boxes_a; i++) {
                    const int row = m0 + plan.row_a[i], k = tile * plan.k_stage + plan.k_a[i];
                    load_box<GROUP>(stage + plan.offset_a[i], map_a, plan.mn_major_a ? row : k, plan.mn_major_a ? k : row, barrier);
                }
                for (int i = 0; i < plan.boxes_b; i++) {
                    const int row = n0 + (int)rank * plan.rows_b + plan.row_b[i], k = tile * plan.k_stage + plan.k_b[i];
                    load_box<GROUP>(stage + OPERAND_BYTES + plan.offset_b[i], map_b, plan.mn_major_b ? row : k, plan.mn_major_b ? k : row, barrier);
                }
            }
        }
        __syncwarp();
    }
#if TCGEN05
    if (warp == 5 && rank == 0) {
        for (int tile = 0; tile < tiles && good; tile++) {
            const int s = tile % STAGES;
            const unsigned stage = (base & 0x3FFFF) + s * STAGE_BYTES;  // descriptors hold 18 bits, without the CTA
            good = __all_sync(0xFFFFFFFF, barrier_wait(full + 8 * s, tile / STAGES & 1));  // the warp stays together when a wait runs out
            tensor_fence_after();
            if (tile == 0 && blockIdx.x == 0 && blockIdx.y == 0)
                for (unsigned x = t % 32; x < STAGE_BYTES; x += 32) image[x] = smem[x];
            __syncwarp();
            if (elect()) {
                for (int step = 0; step < STEPS; step++) {
                    const unsigned long long a = plan.word_a[step] + (stage >> 4), b = plan.word_b[step] + ((stage + OPERAND_BYTES) >> 4);
                    if (blockIdx.x == 0 && blockIdx.y == 0) {
                        words[2 * (STEPS * tile + step)] = a;
                        words[2 * (STEPS * tile + step) + 1] = b;
                    }
                    mma<KIND, GROUP>(memory.base, a, b, plan.idesc, tile > 0 || step > 0);
                }
                if (GROUP == 1) tensor_commit<1>(empty + 8 * s);
                else tensor_commit_pair(empty + 8 * s);
            }
            __syncwarp();
        }
        if (elect()) {
            if (GROUP == 1) tensor_commit<1>(done);
            else tensor_commit_pair(done);
        }
        __syncwarp();
    }
    if (warp < 4) {
        good = barrier_wait(done, 0);
        __syncwarp();
        tensor_fence_after();
        for (unsigned column = 0; column < TILE_N; column += 32) {
            unsigned r[32];
            tensor_load32(memory, warp, column, r);
            for (int i = 0; i < 32; i++) D[(size_t)(m0 + t) * TILE_N + column + i] = r[i];
        }
    }
#else
    if (warp < 4) good = consume(plan, base, full, empty, D + (size_t)m0 * TILE_N, blockIdx.x == 0 ? image : nullptr, words, smem);
#endif
    tensor_fence_before();
    const unsigned all = __syncthreads_and(good);
    if (GROUP == 2) cluster_sync();
    if (warp == 5) tensor_dealloc<GROUP>(memory.base, TILE_N);
    if (t == 0) results[blockIdx.x] = all;
}

#define GEMM(NAME, KIND)                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(192) NAME##_1(const unsigned char *maps, const Plan *plan, unsigned *D, unsigned char *image, \
                                                              unsigned long long *words, unsigned *results) {                            \
        gemm<KIND, 1>(maps, plan, D, image, words, results);                                                                               \
    }
#define GEMM_PAIR(NAME, KIND)                                                                                                             \
    extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(192) NAME##_2(const unsigned char *maps, const Plan *plan, unsigned *D, \
                                                              unsigned char *image, unsigned long long *words, unsigned *results) {        \
        gemm<KIND, 2>(maps, plan, D, image, words, results);                                                                               \
    }
//KERNELS
