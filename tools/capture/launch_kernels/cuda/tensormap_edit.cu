// A tensor map made on the device: copied to shared memory, its address, extents, stride and box replaced, written to global memory, acquired, used.
#include "common.cuh"
KERNEL tensormap_edit(const __grid_constant__ CUtensorMap pattern, const u16 *tensor, u8 *maps, u32 *image, u32 width, u32 height) {
    __shared__ __align__(128) u8 map[128];
    __shared__ __align__(1024) u32 smem[512];
    __shared__ __align__(8) u64 barrier;
    u32 t = threadIdx.x, b = shared_address(&barrier), m = shared_address(map);
    u8 *mine = maps + blockIdx.x * 128;
    if (t < 32) ((u32 *)map)[t] = ((const u32 *)&pattern)[t];
    __syncwarp();
    if (t == 0) {
        const u16 *at = tensor + blockIdx.x * width * height;
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(m), "l"(at) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(m), "r"(width - blockIdx.x) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(m), "r"(height) : "memory");
        asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(m), "l"((u64)width * 2) : "memory");
        asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(m), "r"(16) : "memory");
        asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" ::"r"(m) : "memory");
    }
    __syncwarp();
    if (t < 32) asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(mine), "r"(m) : "memory");
    if (t == 0) {
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(mine) : "memory");
        barrier_init(b, 1);
        barrier_init_fence();
        barrier_expect(b, 2048);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(shared_address(smem)), "l"(mine), "r"(8), "r"(3), "r"(b) : "memory");
    }
    __syncthreads();
    barrier_wait(b, 0);
    for (u32 i = t; i < 512; i += blockDim.x) image[blockIdx.x * 512 + i] = smem[i];
}
