// TMA of a matrix: tiles come in with one swizzle, go out with another, all of shared memory is copied out; loads begin outside the tensor.
#include "common.cuh"
KERNEL tma_tiles(const __grid_constant__ CUtensorMap load, const __grid_constant__ CUtensorMap store, u32 *image, int x0, int y0, u32 bytes) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ __align__(8) u64 barrier;
    u32 t = threadIdx.x, base = shared_address(smem), b = shared_address(&barrier);
    for (u32 i = t; i < bytes / 4; i += blockDim.x) ((u32 *)smem)[i] = 0xEEEEEEEE;
    if (t == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&load) : "memory");
        barrier_init(b, 1);
        barrier_init_fence();
    }
    proxy_fence();
    __syncthreads();
    int x = x0 + blockIdx.x * 64, y = y0 + blockIdx.y * 32;
    if (t == 0) {
        barrier_expect(b, bytes);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(base), "l"(&load), "r"(x), "r"(y), "r"(b) : "memory");
    }
    barrier_wait(b, 0);
    for (u32 i = t; i < bytes / 4; i += blockDim.x) image[(blockIdx.y * gridDim.x + blockIdx.x) * bytes / 4 + i] = ((u32 *)smem)[i];
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&store), "r"(x - x0), "r"(y - y0), "r"(base) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
