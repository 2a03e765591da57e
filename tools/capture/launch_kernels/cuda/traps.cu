// What ends a kernel: -DKIND= says which of them. One block; the words before the trap may or may not have been written.
#include "common.cuh"
KERNEL traps(const __grid_constant__ CUtensorMap map, const u32 *in, u32 *out, int x) {
    __shared__ __align__(128) u32 smem[256];
    u32 t = threadIdx.x, base = shared_address(smem);
    smem[t] = in[t];
    proxy_fence();
    __syncthreads();
#if KIND == 0  // a store that begins below the tensor
    if (t == 0) asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, 0}], [%2];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"l"(&map), "r"(x), "r"(base) : "memory");
#elif KIND == 1  // a vector from an address that is no multiple of its size
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(in + t + x));
    out[t] = v.x ^ v.y ^ v.z ^ v.w;
#elif KIND == 2  // trap
    if (smem[t ^ 1] != 12345 && t == 77) asm volatile("trap;");
    out[t] = smem[t ^ 1];
#elif KIND == 3  // shared memory past the window
    out[t] = *(volatile u32 *)(smem + 0x10000 + (x & t));
#elif KIND == 4  // a generic address where a place in the parameter bank is wanted
    if (t == 0) asm volatile("prefetch.param.tensormap [%0];" ::"l"(&map) : "memory");
    out[t] = smem[t ^ 1];
#endif
}
