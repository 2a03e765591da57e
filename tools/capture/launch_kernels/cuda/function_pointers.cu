// Calls through a table of pointers to functions: the threads of a warp call different ones.
#include "common.cuh"
__device__ __noinline__ u32 add_one(u32 x) { return x + 1; }
__device__ __noinline__ u32 triple(u32 x) { return x * 3; }
__device__ __noinline__ u32 mirrored(u32 x) { return __brev(x); }
__device__ __noinline__ u32 halved(u32 x) { return x > 10 ? mirrored(x) / 2 : triple(x); }
typedef u32 (*function)(u32);
__device__ const function table[4] = {add_one, triple, mirrored, halved};
KERNEL function_pointers(const u32 *in, u32 *out) {
    u32 x = in[THREAD];
    out[THREAD] = table[x % 4](x) ^ table[(x >> 5) % 4](x >> 3);
}
