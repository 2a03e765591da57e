// The first KiB of shared memory, which the system keeps in front of a kernel's own: read as it is found, changed in the ways of KIND, read again.
#include <cooperative_groups.h>
#include <cstdint>
#ifndef OWN
#define OWN 64
#endif
__device__ uint32_t load(uint32_t at) { uint32_t v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory"); return v; }
__device__ void store(uint32_t at, uint32_t v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ uint32_t of(uint32_t at, uint32_t rank) { uint32_t to; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at), "r"(rank)); return to; }
__device__ uint64_t generic(uint32_t at) { uint64_t to; asm volatile("{ .reg .b64 x; cvt.u64.u32 x, %1; cvta.shared.u64 %0, x; }" : "=l"(to) : "r"(at)); return to; }

// out: of each CTA 512 words; x: 256 words.
extern "C" __global__ void reserved(const uint32_t *x, uint32_t *out) {
    __shared__ uint32_t own[OWN];
    extern __shared__ uint32_t more[];
    uint32_t *to = out + 512 * blockIdx.x, rank = cooperative_groups::this_cluster().block_rank(), n = cooperative_groups::this_cluster().num_blocks();
    for (uint32_t k = threadIdx.x; k < OWN; k += blockDim.x) own[k] = k + 3;
    for (uint32_t k = threadIdx.x; k < 256; k += blockDim.x) {
        uint32_t at = 4 * k, old = 0;
#if KIND == 1
        to[k] = load(at);  // whatever was there
#elif KIND == 2
        store(at, x[k] + blockIdx.x);
#elif KIND == 3
        store(at, x[k]);
        asm volatile("atom.shared.add.u32 %0, [%1], 5;" : "=r"(old) : "r"(at) : "memory");
        to[k] = old;
#elif KIND == 4
        if (k % 4 == 0) asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;" ::"r"(at), "l"(x + k) : "memory");
#elif KIND == 5
        *(volatile uint32_t *)generic(at) = x[k] ^ 7;
        to[k] = *(volatile uint32_t *)generic(at);
#elif KIND == 6
        if (rank == n - 1) to[k] = load(at);
#elif KIND == 7
        if (rank == n - 1) store(at, x[k]);
#elif KIND == 8
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(old) : "r"(of(at, (rank + 1) % n)) : "memory");
        to[k] = old;
#elif KIND == 9
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(of(at, (rank + 1) % n)), "r"(x[k]) : "memory");
#elif KIND == 10
        if (k % 64 == 0) to[k] = load(at + 1026);
#elif KIND == 11
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(old) : "r"(of(at, rank)) : "memory");
        to[k] = old;
#elif KIND == 12
        if (rank == n - 1) to[k] = load(0x400 + 4 * (k % OWN));
#elif KIND == 13
        if (rank == n - 1) store(0x400 + 4 * (k % OWN), x[k]);
#elif KIND == 14
        if (rank == n - 1) asm volatile("atom.shared.add.u32 %0, [%1], 5;" : "=r"(old) : "r"(0x400 + 4 * (k % OWN)) : "memory");
        to[k] = old;
#elif KIND == 15
        at = of(at, rank);
        store(at, x[k] + rank);
        to[k] = load(at);
#endif
    }
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < 256; k += blockDim.x) {
#if KIND != 1 && KIND != 6 && KIND != 7 && KIND != 8 && KIND != 9 && KIND < 10
        to[256 + k] = load(4 * ((k + 77) % 256)) + own[k % OWN];
#else
        to[256 + k] = own[k % OWN];
#endif
    }
}
