// Which byte does TMA move? One CTA a case, several passes: in passes 0-2 every source byte holds one byte of its own index, in
// pass 3 all source bytes are 0x5A over a destination of 0xA5, which tells untouched, copied and filled bytes apart. In pass 4 the
// barrier expects 16 bytes more than in the others: the count is exact when passes 0-3 complete and pass 4 does not.
#include "probes.cuh"

constexpr unsigned WINDOW_BEGIN = 0x400;
constexpr long long PATIENCE = 200000;  // cycles; a box of 128 KiB takes about 10,000

struct LoadCase {
    int rank, coordinates[5];
    unsigned to, barrier, expect_bytes, region_begin, region_bytes;
    unsigned long long out;  // offset of the case's images in `images`, pass after pass
};

struct LoadResult {
    unsigned completed;    // bit p: pass p's barrier phase completed
    unsigned stray_bytes;  // bytes outside the region that no longer hold the sentinel
};

extern "C" __global__ void __launch_bounds__(128) probe_load(const LoadCase *cases, const CUtensorMap *maps, unsigned window_bytes,
                                                            unsigned char *images, LoadResult *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const LoadCase &c = cases[blockIdx.x];
    unsigned completed = 0;
    for (int pass = 0; pass < 5; pass++) {
        for (unsigned x = threadIdx.x; x < window_bytes / 16; x += 128)
            ((uint4 *)smem)[x] = make_uint4(0xA5A5A5A5, 0xA5A5A5A5, 0xA5A5A5A5, 0xA5A5A5A5);
        __syncthreads();
        if (threadIdx.x == 0) barrier_init(c.barrier);
        proxy_fence();
        __syncthreads();
        bool done = false;
        if (threadIdx.x == 0) {
            barrier_expect(c.barrier, c.expect_bytes + (pass == 4 ? 16 : 0));
            tma_load(c.rank, c.to, maps + (size_t)blockIdx.x * 4 + (pass & 3), c.coordinates, c.barrier);
            done = barrier_wait(c.barrier, 0, PATIENCE);
        }
        completed |= (__syncthreads_or(done) ? 1u : 0u) << pass;
        if (threadIdx.x == 0) barrier_invalidate(c.barrier);
        __syncthreads();
        if (pass == 4) break;
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
    int rank, coordinates[5];
    unsigned from;
};

// Four passes of one store: three with shared bytes that hold one byte of their address, one with 0x5A. The destinations are four
// copies of the tensor, which the caller has filled with 0xA5.
extern "C" __global__ void __launch_bounds__(128) probe_store(const StoreCase *cases, const CUtensorMap *maps, unsigned window_bytes) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const StoreCase &c = cases[blockIdx.x];
    for (int pass = 0; pass < 4; pass++) {
        for (unsigned x = threadIdx.x; x < window_bytes; x += 128)
            smem[x] = pass == 3 ? 0x5A : (WINDOW_BEGIN + x) >> (8 * pass);
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) tma_store(c.rank, c.from, maps + (size_t)blockIdx.x * 4 + pass, c.coordinates);
        __syncthreads();
    }
}
