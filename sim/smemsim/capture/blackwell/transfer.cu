// Tensor transfers that only Blackwell has: gather4, scatter4, im2col::w, im2col::w::128, and loads of a CTA pair (.cta_group::2). They end
// transfer_probe.cu, whose fill, count and passes they share.

enum Form { GATHER = 0, GATHER_CTA = 1, WIDE = 2, WIDE_128 = 3, SCATTER = 4 };

struct BlackwellTransfer {
    int form, rank, coordinates[5];
    unsigned short halo, offset;  // wHalo, wOffset of im2col::w
    unsigned shared, barrier, most_bytes;
};

#define GATHER_LOAD(SPACE)                                                                                                                 \
    asm volatile("cp.async.bulk.tensor.2d.shared::" SPACE ".global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" \
                 ::"r"(t.shared), "l"(map), "r"(t.barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]) : "memory")
#define WIDE_LOAD(RANK, MODE, COORDINATES, A, B, ...)                                                                                      \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global." MODE ".mbarrier::complete_tx::bytes [%0], [%1, " COORDINATES "], [%2], " \
                 "{" A ", " B "};" ::"r"(t.shared), "l"(map), "r"(t.barrier), __VA_ARGS__, "h"(t.halo), "h"(t.offset) : "memory")
#define WIDE_LOADS(MODE)                                                                                                                   \
    if (t.rank == 3) WIDE_LOAD(3, MODE, "{%3, %4, %5}", "%6", "%7", C3);                                                                   \
    else if (t.rank == 4) WIDE_LOAD(4, MODE, "{%3, %4, %5, %6}", "%7", "%8", C4);                                                          \
    else WIDE_LOAD(5, MODE, "{%3, %4, %5, %6, %7}", "%8", "%9", C5);

__device__ void issue_blackwell(const BlackwellTransfer &t, const void *map) {
    const int *c = t.coordinates;
    if (t.form == GATHER) GATHER_LOAD("cluster");
    else if (t.form == GATHER_CTA) GATHER_LOAD("cta");
    else if (t.form == WIDE) { WIDE_LOADS("im2col::w") }
    else if (t.form == WIDE_128) { WIDE_LOADS("im2col::w::128") }
}

// As probe_transfer_load: pass 0 measures what the barrier is credited with, passes 1 to 4 bring three bytes of the index and a constant,
// pass 5 expects 16 bytes more and must not complete.
extern "C" __global__ void __launch_bounds__(256) blackwell_load(const BlackwellTransfer *transfer, const unsigned char *map_bytes, unsigned window_bytes,
                                                                 unsigned char *images, unsigned *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const BlackwellTransfer t = *transfer;
    unsigned completed = 0, credited = 0;
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
            issue_blackwell(t, map);
            done = barrier_wait(t.barrier, 0, PATIENCE) || barrier_test(t.barrier, 0);
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
        completed |= (__syncthreads_or(done) ? 1u : 0u) << pass;
        if (threadIdx.x == 0) barrier_invalidate(t.barrier);
        __syncthreads();
        if (pass > 0 && pass < 5)
            for (unsigned x = threadIdx.x; x < window_bytes; x += blockDim.x) images[(size_t)(pass - 1) * window_bytes + x] = smem[x];
        __syncthreads();
    }
    if (threadIdx.x == 0) results[1] = completed;
}

// Four passes of one tile::scatter4, as probe_transfer_store.
extern "C" __global__ void __launch_bounds__(256) blackwell_store(const BlackwellTransfer *transfer, const unsigned char *map_bytes, unsigned window_bytes) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const BlackwellTransfer t = *transfer;
    const int *c = t.coordinates;
    for (int pass = 0; pass < 4; pass++) {
        for (unsigned x = threadIdx.x; x < window_bytes; x += blockDim.x) smem[x] = pass == 3 ? 0x5A : (WINDOW_BEGIN + x) >> (8 * pass);
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            const void *map = map_bytes + 256 * pass;
            map_fence(map);
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];"
                         ::"r"(t.shared), "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]) : "memory");
            asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncthreads();
    }
}

__device__ inline unsigned pair_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline unsigned in_peer(unsigned address, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

struct PairTransfer {
    int coordinates[2];
    unsigned shared, barrier, most_bytes;
    unsigned issuer, barrier_rank, group, mask;  // barrier_rank: whose barrier is named; group: .cta_group; mask 0: no multicast
};

#define PAIR_LOAD(GROUP)                                                                                                                       \
    if (t.mask) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::" #GROUP \
                             " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to), "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "h"((unsigned short)t.mask) \
                             : "memory");                                                                                                      \
    else asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::" #GROUP " [%0], [%1, {%3, %4}], [%2];" \
                      ::"r"(to), "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]) : "memory")

// One load by CTA `issuer` of a pair. Both arm their barriers with more than it can bring and complete the rest by hand: what each was credited
// with. A CTA whose barrier is not the one named has nothing to wait for but PATIENCE, forty times what such a load takes.
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(256) blackwell_pair(const PairTransfer *transfer, const unsigned char *map_bytes,
                                                                                    unsigned window_bytes, unsigned char *images, unsigned *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const PairTransfer t = *transfer;
    const int *c = t.coordinates;
    // In a cluster a CTA's own .shared addresses name the CTA: 0x1000400 and on in CTA 1 (measured on Hopper).
    const unsigned rank = pair_rank(), own = shared_address(smem) - WINDOW_BEGIN, to = own + t.shared, mine = own + t.barrier;
    for (int pass = 0; pass < 4; pass++) {
        fill_window(smem, window_bytes, 0xA5A5A5A5);
        __syncthreads();
        if (threadIdx.x == 0) {
            barrier_init(mine);
            barrier_expect(mine, t.most_bytes);
        }
        proxy_fence();
        __syncthreads();
        asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
        if (threadIdx.x == 0 && rank == t.issuer) {
            const void *map = map_bytes + 256 * pass;
            const unsigned barrier = t.barrier_rank == rank ? mine : in_peer(t.barrier, t.barrier_rank);
            map_fence(map);
            if (t.group == 1) { PAIR_LOAD(1); }
            else { PAIR_LOAD(2); }
        }
        if (threadIdx.x == 0) {
            bool done = barrier_wait(mine, 0, PATIENCE);
            unsigned given = 0;
            while (!done && given < t.most_bytes) {
                asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(mine) : "memory");
                given += 16;
                done = barrier_test(mine, 0);
            }
            results[4 * rank + pass] = done ? t.most_bytes - given : 0xFFFFFFFF;
        }
        __syncthreads();
        asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
        for (unsigned x = threadIdx.x; x < window_bytes; x += blockDim.x) images[((size_t)rank * 4 + pass) * window_bytes + x] = smem[x];
        if (threadIdx.x == 0) barrier_invalidate(mine);
        __syncthreads();
    }
}
