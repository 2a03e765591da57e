// Tiles for a whole cluster: each CTA loads its slice and multicasts it to all; a consumer frees the stage in every CTA.
#include "common.cuh"
KERNEL cluster_multicast(const __grid_constant__ CUtensorMap map, u32 *image, u32 *sums, u32 tiles) {
    __shared__ __align__(1024) u32 smem[2][1024];
    __shared__ __align__(8) u64 full[2], empty[2];
    u32 t = threadIdx.x, rank, size, sum = 0;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            barrier_init(shared_address(full + s), 1);
            barrier_init(shared_address(empty + s), size);
        }
        barrier_init_fence();
    }
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    u32 slice = 4096 / size, rows = 32 / size;
    for (u32 k = 0; k < tiles; k++) {
        u32 s = k & 1, f = shared_address(full + s), e = shared_address(empty + s);
        if (t == 0) {
            if (k >= 2) barrier_wait(e, (k / 2 - 1) & 1);
            barrier_expect(f, 4096);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                         ::"r"(shared_address(smem[s]) + rank * slice), "l"(&map), "r"(64 * k), "r"(rank * rows), "r"(f), "h"((u16)((1 << size) - 1)) : "memory");
        }
        barrier_wait(f, k / 2 & 1);
        for (int i = 0; i < 8; i++) sum = sum * 5 + smem[s][(t * 9 + 128 * i + rank) % 1024];
        if (k + 2 >= tiles)
            for (int i = t; i < 1024; i += 128) image[(blockIdx.x * 2 + s) * 1024 + i] = smem[s][i];
        __syncthreads();
        if (t < size) {
            u32 there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(e), "r"(t));
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
        }
    }
    sums[THREAD] = sum;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
