// One tensor transfer of any mode: which byte moves where, and how many bytes the barrier is credited with. The count is measured, not
// assumed: pass 0 arms the barrier with more than any box has and then completes the rest by hand, 16 bytes at a time.
#include "probes.cuh"

constexpr unsigned WINDOW_BEGIN = 0x400;
constexpr long long PATIENCE = 200000;  // cycles; a box of 64 KiB takes about 5,000

// try_wait may sleep; this does not
__device__ inline bool barrier_test(unsigned barrier, unsigned phase) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
    return done;
}

enum Mode { TILE = 0, IM2COL = 1 };

struct Transfer {
    int mode, rank, coordinates[5];
    unsigned short offsets[4];
    unsigned shared, barrier, most_bytes;  // most_bytes: more than the transfer credits
};

// Maps may lie where earlier launches had others.
__device__ inline void map_fence(const void *map) { asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory"); }

#define C3 "r"(c[0]), "r"(c[1]), "r"(c[2])
#define C4 C3, "r"(c[3])
#define C5 C4, "r"(c[4])

#define IM2COL_LOAD(RANK, COORDINATES, OFFSETS, ...)                                                                              \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, " COORDINATES \
                 "], [%2], " OFFSETS ";" ::"r"(t.shared), "l"(map), "r"(t.barrier), __VA_ARGS__ : "memory")

__device__ void issue_load(const Transfer &t, const void *map) {
    const int *c = t.coordinates;
    const unsigned short *o = t.offsets;
    if (t.mode == TILE) tma_load(t.rank, t.shared, map, c, t.barrier);
    else if (t.rank == 3) IM2COL_LOAD(3, "{%3, %4, %5}", "{%6}", C3, "h"(o[0]));
    else if (t.rank == 4) IM2COL_LOAD(4, "{%3, %4, %5, %6}", "{%7, %8}", C4, "h"(o[0]), "h"(o[1]));
    else IM2COL_LOAD(5, "{%3, %4, %5, %6, %7}", "{%8, %9, %10}", C5, "h"(o[0]), "h"(o[1]), "h"(o[2]));
}

#define PREFETCH(RANK, COORDINATES, ...) \
    asm volatile("cp.async.bulk.prefetch.tensor." #RANK "d.L2.global.tile [%0, " COORDINATES "];" ::"l"(map), __VA_ARGS__ : "memory")
#define IM2COL_PREFETCH(RANK, COORDINATES, OFFSETS, ...)                                                                     \
    asm volatile("cp.async.bulk.prefetch.tensor." #RANK "d.L2.global.im2col [%0, " COORDINATES "], " OFFSETS ";" ::"l"(map), \
                 __VA_ARGS__ : "memory")

__device__ void issue_prefetch(const Transfer &t, const void *map) {
    const int *c = t.coordinates;
    const unsigned short *o = t.offsets;
    if (t.mode == IM2COL) {
        if (t.rank == 3) IM2COL_PREFETCH(3, "{%1, %2, %3}", "{%4}", C3, "h"(o[0]));
        else if (t.rank == 4) IM2COL_PREFETCH(4, "{%1, %2, %3, %4}", "{%5, %6}", C4, "h"(o[0]), "h"(o[1]));
        else IM2COL_PREFETCH(5, "{%1, %2, %3, %4, %5}", "{%6, %7, %8}", C5, "h"(o[0]), "h"(o[1]), "h"(o[2]));
        return;
    }
    switch (t.rank) {
    case 1: PREFETCH(1, "{%1}", "r"(c[0])); break;
    case 2: PREFETCH(2, "{%1, %2}", "r"(c[0]), "r"(c[1])); break;
    case 3: PREFETCH(3, "{%1, %2, %3}", C3); break;
    case 4: PREFETCH(4, "{%1, %2, %3, %4}", C4); break;
    case 5: PREFETCH(5, "{%1, %2, %3, %4, %5}", C5); break;
    }
}

#define OUT(WHAT, RANK, MODE, COORDINATES, ...) \
    asm volatile(WHAT MODE ".bulk_group [%1, " COORDINATES "], [%0];" ::"r"(t.shared), "l"(map), __VA_ARGS__ : "memory")
#define OUT_ALL(PREFIX, OP)                                                                                                       \
    if (t.mode == IM2COL) {                                                                                                       \
        if (t.rank == 3) OUT(PREFIX "3d.global.shared::cta" OP, 3, ".im2col_no_offs", "{%2, %3, %4}", C3);                        \
        else if (t.rank == 4) OUT(PREFIX "4d.global.shared::cta" OP, 4, ".im2col_no_offs", "{%2, %3, %4, %5}", C4);               \
        else OUT(PREFIX "5d.global.shared::cta" OP, 5, ".im2col_no_offs", "{%2, %3, %4, %5, %6}", C5);                            \
    } else if (t.rank == 1) OUT(PREFIX "1d.global.shared::cta" OP, 1, ".tile", "{%2}", "r"(c[0]));                                \
    else if (t.rank == 2) OUT(PREFIX "2d.global.shared::cta" OP, 2, ".tile", "{%2, %3}", "r"(c[0]), "r"(c[1]));                   \
    else if (t.rank == 3) OUT(PREFIX "3d.global.shared::cta" OP, 3, ".tile", "{%2, %3, %4}", C3);                                 \
    else if (t.rank == 4) OUT(PREFIX "4d.global.shared::cta" OP, 4, ".tile", "{%2, %3, %4, %5}", C4);                             \
    else OUT(PREFIX "5d.global.shared::cta" OP, 5, ".tile", "{%2, %3, %4, %5, %6}", C5);

// operation 0 is a plain store, then add min max inc dec and or xor
__device__ void issue_store(const Transfer &t, const void *map, int operation) {
    const int *c = t.coordinates;
    switch (operation) {
    case 0: OUT_ALL("cp.async.bulk.tensor.", ""); break;
    case 1: OUT_ALL("cp.reduce.async.bulk.tensor.", ".add"); break;
    case 2: OUT_ALL("cp.reduce.async.bulk.tensor.", ".min"); break;
    case 3: OUT_ALL("cp.reduce.async.bulk.tensor.", ".max"); break;
    case 4: OUT_ALL("cp.reduce.async.bulk.tensor.", ".inc"); break;
    case 5: OUT_ALL("cp.reduce.async.bulk.tensor.", ".dec"); break;
    case 6: OUT_ALL("cp.reduce.async.bulk.tensor.", ".and"); break;
    case 7: OUT_ALL("cp.reduce.async.bulk.tensor.", ".or"); break;
    case 8: OUT_ALL("cp.reduce.async.bulk.tensor.", ".xor"); break;
    }
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}

__device__ void fill_window(unsigned char *smem, unsigned bytes, unsigned word) {
    for (unsigned x = threadIdx.x; x < bytes / 16; x += blockDim.x) ((uint4 *)smem)[x] = make_uint4(word, word, word, word);
}

// map_bytes: four maps 256 bytes apart, over copies of the tensor that hold bytes 0, 1, 2 of their index and 0x5A. images: four copies of the window.
// results: what was credited, and a bit for each pass 1 … 5 whose phase completed (5 expects 16 bytes more and must not).
extern "C" __global__ void __launch_bounds__(256) probe_transfer_load(const Transfer *transfer, const unsigned char *map_bytes,
                                                                     unsigned window_bytes, unsigned char *images, unsigned *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Transfer t = *transfer;
    unsigned completed = 0, credited = 0;  // thread 0's; static shared memory would move the window
    for (int pass = 0; pass < 6; pass++) {
        fill_window(smem, window_bytes, 0xA5A5A5A5);
        __syncthreads();
        if (threadIdx.x == 0) barrier_init(t.barrier);
        proxy_fence();
        __syncthreads();
        bool done = false;
        if (threadIdx.x == 0) {
            const void *map = map_bytes + 256 * (pass == 0 || pass == 5 ? 3 : pass - 1);
            barrier_expect(t.barrier, pass == 0 ? t.most_bytes : credited + (pass == 5 ? 16 : 0));
            map_fence(map);
            issue_load(t, map);
            done = barrier_wait(t.barrier, 0, PATIENCE);
            if (pass == 0) {
                unsigned given = 0;
                while (!done && given < t.most_bytes) {
                    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(t.barrier) : "memory");
                    given += 16;
                    done = barrier_test(t.barrier, 0);
                }
                credited = done ? t.most_bytes - given : 0xFFFFFFFF;
                results[0] = credited;
            }
        }
        bool all = __syncthreads_or(done);
        completed |= (all ? 1u : 0u) << pass;
        if (threadIdx.x == 0) barrier_invalidate(t.barrier);
        __syncthreads();
        if (pass > 0 && pass < 5)
            for (unsigned x = threadIdx.x; x < window_bytes; x += blockDim.x) images[(size_t)(pass - 1) * window_bytes + x] = smem[x];
        __syncthreads();
    }
    if (threadIdx.x == 0) results[1] = completed;
}

// Four passes of one store: three with shared bytes that hold one byte of their address, one with 0x5A, into four copies of the tensor.
extern "C" __global__ void __launch_bounds__(256) probe_transfer_store(const Transfer *transfer, const unsigned char *map_bytes, unsigned window_bytes) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Transfer t = *transfer;
    for (int pass = 0; pass < 4; pass++) {
        for (unsigned x = threadIdx.x; x < window_bytes; x += blockDim.x) smem[x] = pass == 3 ? 0x5A : (WINDOW_BEGIN + x) >> (8 * pass);
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            map_fence(map_bytes + 256 * pass);
            issue_store(t, map_bytes + 256 * pass, 0);
        }
        __syncthreads();
    }
}

// One store or reduction of the window's bytes as given.
extern "C" __global__ void __launch_bounds__(256) probe_transfer_reduce(const Transfer *transfer, const unsigned char *map_bytes, unsigned window_bytes,
                                                                       const unsigned char *content, unsigned operation) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Transfer t = *transfer;
    for (unsigned x = threadIdx.x; x < window_bytes; x += blockDim.x) smem[x] = content[x];
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        map_fence(map_bytes);
        issue_store(t, map_bytes, operation);
    }
}

extern "C" __global__ void probe_transfer_prefetch(const Transfer *transfer, const unsigned char *map_bytes) {
    map_fence(map_bytes);
    issue_prefetch(*transfer, map_bytes);
    // Nothing waits for a prefetch: without this a trap would be reported to the next case.
    for (long long begin = clock64(); clock64() - begin < 10 * PATIENCE;) {}
}

// One load of the tensor as it is; the whole window comes back.
extern "C" __global__ void __launch_bounds__(256) probe_transfer_values(const Transfer *transfer, const unsigned char *map_bytes, unsigned window_bytes,
                                                                       unsigned char *image, unsigned *done) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Transfer t = *transfer;
    fill_window(smem, window_bytes, 0xA5A5A5A5);
    if (threadIdx.x == 0) barrier_init(t.barrier);
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(t.barrier, t.most_bytes);
        map_fence(map_bytes);
        issue_load(t, map_bytes);
        *done = barrier_wait(t.barrier, 0, PATIENCE);
    }
    __syncthreads();
    for (unsigned x = threadIdx.x; x < window_bytes; x += blockDim.x) image[x] = smem[x];
}
