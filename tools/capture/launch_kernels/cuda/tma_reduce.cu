// Reductions of tiles into tensors: add, min, max, inc, dec, and, or, xor of u32, add of f32, f16 and bf16.
#include "common.cuh"
#define MAP const __grid_constant__ CUtensorMap
#define REDUCE(op, map, y) asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." op ".tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y), "r"(base) : "memory")
KERNEL tma_reduce(MAP words, MAP floats, MAP halves, MAP brains, const u32 *in) {
    __shared__ __align__(1024) u32 smem[256];
    u32 t = threadIdx.x, base = shared_address(smem);
    int x = (int)blockIdx.x * 32;  // apart: the order of inc and dec matters
    for (u32 i = t; i < 256; i += blockDim.x) smem[i] = in[blockIdx.x * 256 + i];
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        REDUCE("add", words, 0); REDUCE("min", words, 8); REDUCE("max", words, 16); REDUCE("inc", words, 24);
        REDUCE("dec", words, 32); REDUCE("and", words, 40); REDUCE("or", words, 48); REDUCE("xor", words, 56);
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
    for (u32 i = t; i < 256; i += blockDim.x) smem[i] = __float_as_uint((float)(in[blockIdx.x * 256 + i] >> 20));
    proxy_fence();
    __syncthreads();
    x = (int)(blockIdx.x & 1) * 16;  // on top of one another
    if (t == 0) {
        REDUCE("add", floats, 0);
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
    for (u32 i = t; i < 256; i += blockDim.x) smem[i] = (in[blockIdx.x * 256 + i] & 0x00ff00ff) | 0x40003c00;
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        REDUCE("min", halves, 0); REDUCE("max", halves, 8); REDUCE("max", brains, 0); REDUCE("min", brains, 8);
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
