// What do bulk copies without a tensor map do, their reductions, and loads into other CTAs of a cluster? One CTA or cluster a case.
//
// Bytes are found as in tma_probes.cu: in passes 0-2 every source byte holds one byte of its own index, in pass 3 all hold 0x5A over a
// destination of 0xA5. How much a barrier is credited with is found, not assumed: in pass 4 it is armed with more than the copy can
// bring, and the rest is given with mbarrier.complete_tx, 16 bytes (or 1) at a time, until the phase completes.
#include "probes.cuh"

constexpr unsigned WINDOW_BEGIN = 0x400, NEVER = 0xFFFFFFFF, MOST_TX = 0xFFFFF;
constexpr int COUNTING = 4;  // the pass that counts
constexpr long long PATIENCE = 100000;  // cycles; 48 KiB take about 5,000
constexpr long long SHORT_PATIENCE = 30000;  // in clusters, where most waits end without an arrival

__device__ bool phase_completed(unsigned barrier) {
    unsigned done = 0;
    for (int tries = 0; tries < 8 && !done; tries++)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier) : "memory");
    return done;
}

// Bytes with which the phase completed, when the copy is done and the barrier was armed with `armed`; NEVER if giving them all did not help.
__device__ unsigned credited(unsigned barrier, unsigned armed, unsigned step) {
    for (unsigned given = 0; given <= armed; given += step) {
        if (given) asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(step) : "memory");
        if (phase_completed(barrier)) return armed - given;
    }
    return NEVER;
}

__device__ unsigned mapa(unsigned address, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ unsigned cluster_size() {
    unsigned size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// What a CTA's own offsets count from: in a cluster its .shared addresses have its rank in bits 31:24, and low addresses are CTA 0's.
__device__ unsigned own_window(const unsigned char *smem) { return shared_address(smem) - WINDOW_BEGIN; }

__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ void fill_window(unsigned char *smem, unsigned window_bytes, unsigned word) {
    for (unsigned x = threadIdx.x; x < window_bytes / 16; x += 128) ((uint4 *)smem)[x] = make_uint4(word, word, word, word);
}

// Every shared byte holds byte `pass` of its address, or 0x5A.
__device__ void code_window(unsigned char *smem, unsigned window_bytes, int pass) {
    for (unsigned x = threadIdx.x; x < window_bytes; x += 128) smem[x] = pass >= 3 ? 0x5A : (WINDOW_BEGIN + x) >> (8 * pass);
}

__device__ void bulk_load(bool to_cluster, unsigned to, const void *from, unsigned size, unsigned barrier) {
    if (to_cluster)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(to), "l"(from), "r"(size), "r"(barrier) : "memory");
    else
        asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(to), "l"(from), "r"(size), "r"(barrier) : "memory");
}

struct LoadCase {
    unsigned long long from;  // offset in every one of the four source buffers
    unsigned long long out;   // offset of the case's images
    unsigned to_cluster, to, size, barrier, barrier_operand, armed, step, region_begin, region_bytes;
};
static_assert(sizeof(LoadCase) == 56, "as bulk_suites.py packs it");

struct LoadResult {
    unsigned completed;    // bit p: pass p's phase, armed with the size alone, completed
    unsigned stray_bytes;  // bytes outside the region that no longer hold the sentinel
    unsigned credited;
};

extern "C" __global__ void __launch_bounds__(128) probe_bulk_load(const LoadCase *cases, const unsigned char *s0, const unsigned char *s1,
                                                                  const unsigned char *s2, const unsigned char *s3, unsigned window_bytes,
                                                                  unsigned char *images, LoadResult *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const LoadCase &c = cases[blockIdx.x];
    unsigned completed = 0;
    for (int pass = 0; pass <= COUNTING; pass++) {
        fill_window(smem, window_bytes, 0xA5A5A5A5);
        __syncthreads();
        if (threadIdx.x == 0) barrier_init(c.barrier);
        proxy_fence();
        __syncthreads();
        bool done = false;
        if (threadIdx.x == 0) {
            const unsigned char *source = (pass == 0 ? s0 : pass == 1 ? s1 : pass == 2 ? s2 : s3) + c.from;
            barrier_expect(c.barrier, pass == COUNTING ? c.armed : min(c.size, MOST_TX));
            bulk_load(c.to_cluster, c.to, source, c.size, c.barrier_operand);
            done = barrier_wait(c.barrier, 0, PATIENCE);
            if (pass == COUNTING) results[blockIdx.x].credited = credited(c.barrier, c.armed, c.step);
        }
        completed |= (__syncthreads_or(done) ? 1u : 0u) << pass;
        if (threadIdx.x == 0) barrier_invalidate(c.barrier);
        __syncthreads();
        if (pass == COUNTING) break;
        unsigned stray = 0;
        for (unsigned x = threadIdx.x; x < window_bytes; x += 128) {
            unsigned address = WINDOW_BEGIN + x;
            if (address >= c.region_begin && address < c.region_begin + c.region_bytes)
                images[c.out + (size_t)pass * c.region_bytes + address - c.region_begin] = smem[x];
            else if ((address < c.barrier || address >= c.barrier + 8) && smem[x] != 0xA5)
                stray++;
        }
        if (stray) atomicAdd(&results[blockIdx.x].stray_bytes, stray);
        __syncthreads();
    }
    if (threadIdx.x == 0) results[blockIdx.x].completed = completed;
}

struct StoreCase {
    unsigned long long to;  // offset of the destination in the target buffer, in pass 0
    unsigned long long region_bytes;  // from one pass's destination to the next
    unsigned from, size;
};
static_assert(sizeof(StoreCase) == 24, "as bulk_suites.py packs it");

extern "C" __global__ void __launch_bounds__(128) probe_bulk_store(const StoreCase *cases, unsigned window_bytes, unsigned char *target) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const StoreCase &c = cases[blockIdx.x];
    for (int pass = 0; pass < 4; pass++) {
        code_window(smem, window_bytes, pass);
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         ::"l"(target + c.to + pass * c.region_bytes), "r"(c.from), "r"(c.size) : "memory");
            asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncthreads();
    }
}

extern "C" __global__ void probe_bulk_prefetch(const unsigned char *source, unsigned from, unsigned size) {
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(source + from), "r"(size) : "memory");
}

// ------------------------------------------------------------------------------------------- from one CTA's shared memory to another's

struct PeerCase {
    unsigned long long out;
    unsigned from, to, size, barrier, armed, step, region_begin, region_bytes, from_rank, to_rank, barrier_rank;
};
static_assert(sizeof(PeerCase) == 56, "as bulk_suites.py packs it");

extern "C" __global__ void __launch_bounds__(128) probe_bulk_peer(const PeerCase *cases, unsigned window_bytes, unsigned char *images,
                                                                  LoadResult *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const unsigned me = cluster_rank(), n = blockIdx.x / cluster_size();
    const PeerCase &c = cases[n];
    const unsigned own = own_window(smem), barrier = own + c.barrier;
    unsigned completed = 0, stray = 0;
    for (int pass = 0; pass <= COUNTING; pass++) {
        if (me == c.from_rank)
            code_window(smem, window_bytes, pass);
        else
            fill_window(smem, window_bytes, 0xA5A5A5A5);
        __syncthreads();
        if (me == c.to_rank)  // a copy to itself: its destination lies among the coded bytes
            for (unsigned x = threadIdx.x; x < c.region_bytes; x += 128) smem[c.region_begin - WINDOW_BEGIN + x] = 0xA5;
        __syncthreads();
        if (threadIdx.x == 0) {
            barrier_init(barrier);
            barrier_expect(barrier, pass == COUNTING ? c.armed : min(c.size, MOST_TX));
        }
        proxy_fence();
        cluster_sync();
        if (me == c.from_rank && threadIdx.x == 0)
            asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(mapa(c.to, c.to_rank)), "r"(own + c.from), "r"(c.size), "r"(mapa(c.barrier, c.barrier_rank)) : "memory");
        bool done = false;
        if (threadIdx.x == 0 && me == c.barrier_rank) {
            done = barrier_wait(barrier, 0, SHORT_PATIENCE);
            if (pass == COUNTING) results[n].credited = credited(barrier, c.armed, c.step);
        }
        cluster_sync();
        completed |= (__syncthreads_or(done) ? 1u : 0u) << pass;
        if (threadIdx.x == 0) barrier_invalidate(barrier);
        __syncthreads();
        if (pass == COUNTING) break;
        for (unsigned x = threadIdx.x; x < window_bytes; x += 128) {
            unsigned address = WINDOW_BEGIN + x;
            bool outside = address < c.region_begin || address >= c.region_begin + c.region_bytes;
            if (me == c.to_rank && !outside)
                images[c.out + (size_t)pass * c.region_bytes + address - c.region_begin] = smem[x];
            else if (me != c.from_rank && (address < c.barrier || address >= c.barrier + 8) && smem[x] != 0xA5)
                stray++;
        }
        cluster_sync();
    }
    if (stray) atomicAdd(&results[n].stray_bytes, stray);
    if (threadIdx.x == 0 && me == c.barrier_rank) results[n].completed = completed;
}

// ---------------------------------------------------------------------------------------------------------------------- reductions

#define GLOBAL(CODE, FORM)                                                                                        \
    case CODE:                                                                                                    \
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." FORM " [%0], [%1], %2;" ::"l"(global), \
                     "r"(from), "r"(size) : "memory");                                                            \
        break;
#define PEER(CODE, FORM)                                                                                              \
    case CODE:                                                                                                        \
        asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." FORM            \
                     " [%0], [%1], %2, [%3];" ::"r"(peer), "r"(from), "r"(size), "r"(barrier) : "memory");            \
        break;

// The codes are places in GLOBAL_FORMS and PEER_FORMS of bulk_cases.py.
__device__ void reduce_global(int form, void *global, unsigned from, unsigned size) {
    switch (form) {
        GLOBAL(0, "add.u32") GLOBAL(1, "add.s32") GLOBAL(2, "add.u64") GLOBAL(3, "add.f32") GLOBAL(4, "add.f64")
        GLOBAL(5, "add.noftz.f16") GLOBAL(6, "add.noftz.bf16") GLOBAL(7, "min.u32") GLOBAL(8, "min.s32") GLOBAL(9, "min.u64")
        GLOBAL(10, "min.s64") GLOBAL(11, "min.f16") GLOBAL(12, "min.bf16") GLOBAL(13, "max.u32") GLOBAL(14, "max.s32")
        GLOBAL(15, "max.u64") GLOBAL(16, "max.s64") GLOBAL(17, "max.f16") GLOBAL(18, "max.bf16") GLOBAL(19, "inc.u32")
        GLOBAL(20, "dec.u32") GLOBAL(21, "and.b32") GLOBAL(22, "and.b64") GLOBAL(23, "or.b32") GLOBAL(24, "or.b64")
        GLOBAL(25, "xor.b32") GLOBAL(26, "xor.b64")
    }
}

__device__ void reduce_peer(int form, unsigned peer, unsigned from, unsigned size, unsigned barrier) {
    switch (form) {
        PEER(0, "add.u32") PEER(1, "add.s32") PEER(2, "add.u64") PEER(3, "min.u32") PEER(4, "min.s32") PEER(5, "max.u32")
        PEER(6, "max.s32") PEER(7, "inc.u32") PEER(8, "dec.u32") PEER(9, "and.b32") PEER(10, "or.b32") PEER(11, "xor.b32")
    }
}

struct ReduceCase {
    unsigned form, size, from, to;  // `to`: offset in the case's slot of global memory, or address in the peer
};
static_assert(sizeof(ReduceCase) == 16, "as bulk_suites.py packs it");

constexpr unsigned SLOT = 512;  // bytes a case has in every buffer

extern "C" __global__ void __launch_bounds__(128) probe_reduce_global(const ReduceCase *cases, const unsigned char *operands,
                                                                      unsigned char *memory) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const ReduceCase &c = cases[blockIdx.x];
    const size_t slot = (size_t)blockIdx.x * SLOT;
    for (unsigned i = threadIdx.x; i < c.size; i += 128) smem[c.from - WINDOW_BEGIN + i] = operands[slot + i];
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        reduce_global(c.form, memory + slot + c.to, c.from, c.size);
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// In clusters of two: CTA 0 holds the operand, CTA 1 the memory that is reduced into, and its barrier.
extern "C" __global__ void __launch_bounds__(128) probe_reduce_peer(const ReduceCase *cases, const unsigned char *operands,
                                                                    unsigned char *memory, unsigned *counts) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const unsigned me = cluster_rank(), n = blockIdx.x / 2;
    const ReduceCase &c = cases[n];
    const size_t slot = (size_t)n * SLOT;
    const unsigned own = own_window(smem), barrier = own + WINDOW_BEGIN, image = 0x800, armed = c.size + 64;
    if (me == 0)
        for (unsigned i = threadIdx.x; i < c.size; i += 128) smem[c.from - WINDOW_BEGIN + i] = operands[slot + i];
    else
        for (unsigned i = threadIdx.x; i < SLOT; i += 128) smem[image - WINDOW_BEGIN + i] = memory[slot + i];
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_init(barrier);
        barrier_expect(barrier, armed);
    }
    proxy_fence();
    cluster_sync();
    if (me == 0 && threadIdx.x == 0) reduce_peer(c.form, mapa(image + c.to, 1), own + c.from, c.size, mapa(barrier, 1));
    if (me == 1 && threadIdx.x == 0) {
        barrier_wait(barrier, 0, SHORT_PATIENCE);
        counts[n] = credited(barrier, armed, 16);
    }
    cluster_sync();
    if (me == 1)
        for (unsigned i = threadIdx.x; i < SLOT; i += 128) memory[slot + i] = smem[image - WINDOW_BEGIN + i];
}

// ----------------------------------------------------------------------------------------------------------------------- multicast

struct MulticastCase {
    int coordinates[2];
    unsigned issuer, multicast, mask;
    unsigned to, barrier, size, armed, region_begin, region_bytes;
    int to_rank, barrier_rank;  // -1: the issuer's own, otherwise mapa of that rank
    unsigned long long out;     // of the cluster's images: CTA after CTA, pass after pass
};
static_assert(sizeof(MulticastCase) == 64, "as bulk_suites.py packs it");

// Every CTA of the cluster arms its own barrier, looks at its own window, and counts its own credit.
extern "C" __global__ void __launch_bounds__(128) probe_multicast(const MulticastCase *cases, const CUtensorMap *maps, unsigned window_bytes,
                                                                 unsigned char *images, LoadResult *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const unsigned me = cluster_rank(), n = blockIdx.x / cluster_size();
    const MulticastCase &c = cases[n];
    const unsigned own = own_window(smem), mine = own + c.barrier;
    unsigned completed = 0, stray = 0;
    for (int pass = 0; pass <= COUNTING; pass++) {
        fill_window(smem, window_bytes, 0xA5A5A5A5);
        __syncthreads();
        if (threadIdx.x == 0) {
            barrier_init(mine);
            barrier_expect(mine, pass == COUNTING ? c.armed : c.size);
        }
        proxy_fence();
        cluster_sync();
        if (me == c.issuer && threadIdx.x == 0) {
            const CUtensorMap *map = maps + (size_t)n * 4 + (pass & 3);
            const unsigned to = c.to_rank < 0 ? own + c.to : mapa(c.to, c.to_rank);
            const unsigned barrier = c.barrier_rank < 0 ? mine : mapa(c.barrier, c.barrier_rank);
            if (c.multicast)
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                             "[%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(map), "r"(c.coordinates[0]), "r"(c.coordinates[1]), "r"(barrier),
                             "h"((unsigned short)c.mask) : "memory");
            else
                tma_load(2, to, map, c.coordinates, barrier);
        }
        bool done = false;
        if (threadIdx.x == 0) {
            done = barrier_wait(mine, 0, SHORT_PATIENCE);
            if (pass == COUNTING) results[blockIdx.x].credited = credited(mine, c.armed, 16);
        }
        completed |= (__syncthreads_or(done) ? 1u : 0u) << pass;
        if (threadIdx.x == 0) barrier_invalidate(mine);
        __syncthreads();
        if (pass == COUNTING) break;
        const size_t out = c.out + ((size_t)me * 4 + pass) * c.region_bytes;
        for (unsigned x = threadIdx.x; x < window_bytes; x += 128) {
            unsigned address = WINDOW_BEGIN + x;
            if (address >= c.region_begin && address < c.region_begin + c.region_bytes)
                images[out + address - c.region_begin] = smem[x];
            else if ((address < c.barrier || address >= c.barrier + 8) && smem[x] != 0xA5)
                stray++;
        }
        cluster_sync();
    }
    if (stray) atomicAdd(&results[blockIdx.x].stray_bytes, stray);
    if (threadIdx.x == 0) results[blockIdx.x].completed = completed;
    cluster_sync();
}

// -------------------------------------------------------------------------------------------------------------- cluster addresses

struct AddressResult {
    unsigned mapa;         // of `offset` for `target`
    unsigned found;        // rank of the CTA whose word an access through it found
    unsigned plain_found;  // the same through the plain offset as a shared::cluster address
    unsigned own;            // the issuer's own .shared address of the same place
    unsigned generic_found;  // the same through the generic address that mapa makes
};

// Every CTA writes its rank at every offset, then looks at every other CTA's.
extern "C" __global__ void probe_cluster_addresses(const unsigned *offsets, unsigned count, AddressResult *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const unsigned me = cluster_rank(), size = cluster_size(), n = threadIdx.x;
    if (n < count) *(unsigned *)(smem + offsets[n] - WINDOW_BEGIN) = me;
    cluster_sync();
    if (n < count)
        for (unsigned target = 0; target < size; target++) {
            AddressResult r;
            unsigned long long here = (unsigned long long)(smem + offsets[n] - WINDOW_BEGIN), there;
            r.mapa = mapa(offsets[n], target);
            r.own = own_window(smem) + offsets[n];
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(r.found) : "r"(r.mapa) : "memory");
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(r.plain_found) : "r"(offsets[n]) : "memory");
            asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(target));
            asm volatile("ld.u32 %0, [%1];" : "=r"(r.generic_found) : "l"(there) : "memory");
            results[((size_t)me * size + target) * count + n] = r;
        }
    cluster_sync();
}
