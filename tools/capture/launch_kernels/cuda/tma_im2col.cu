// An im2col load of an NHWC tensor for a 3 x 3 filter: nine offsets, each a tile of shared memory, then copied out.
#include "common.cuh"
KERNEL tma_im2col(const __grid_constant__ CUtensorMap map, u32 *image) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ __align__(8) u64 barrier;
    u32 t = threadIdx.x, base = shared_address(smem), b = shared_address(&barrier);
    if (t == 0) {
        barrier_init(b, 1);
        barrier_init_fence();
        barrier_expect(b, 9 * 2048);
        for (int r = 0; r < 3; r++)
            for (int s = 0; s < 3; s++)
                asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                             ::"r"(base + (3 * r + s) * 2048), "l"(&map), "r"(0), "r"(-1 + (int)blockIdx.x), "r"(-1), "r"(0), "r"(b), "h"((u16)s), "h"((u16)r) : "memory");
    }
    __syncthreads();
    barrier_wait(b, 0);
    for (u32 i = t; i < 9 * 512; i += blockDim.x) image[blockIdx.x * 9 * 512 + i] = ((u32 *)smem)[i];
}
