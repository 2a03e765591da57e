// Atomic operations on shared memory and what they return, where only one thread can be first; then all of shared memory is copied out.
#include "common.cuh"
__shared__ u32 words[64];
__shared__ u64 longs[8];
__shared__ float floats[8];
__shared__ half2 halves[4];
KERNEL atomics_shared(const u32 *in, u32 *out, u32 *returned) {
    u32 x = in[THREAD], t = threadIdx.x;
    if (t < 64) words[t] = t == 2 ? ~0u : 0;
    if (t < 8) longs[t] = 0, floats[t] = 0;
    if (t < 4) halves[t] = __floats2half2_rn(0, 0);
    __syncthreads();
    atomicAdd(&words[0], x); atomicMax(&words[1], x); atomicMin(&words[2], x); atomicOr(&words[3], 1u << (x & 31)); atomicXor(&words[4], x); atomicSub(&words[5], x >> 4);
    atomicMin((int *)&words[6], (int)x); atomicMax((int *)&words[7], (int)x); atomicInc(&words[8], 50); atomicAdd(&words[32 + (x & 31)], x >> 16);
    atomicAdd(&longs[0], (u64)x); atomicMax(&longs[1], (u64)x << 9); atomicXor(&longs[2], (u64)x << 31); atomicMin((s64 *)&longs[3], -(s64)x);
    atomicAdd(&floats[x & 3], (float)(x & 63)); atomicAdd(&halves[0], __floats2half2_rn(1.0f, 0.5f)); atomicAdd((__nv_bfloat162 *)&halves[1], __floats2bfloat162_rn(1.0f, -1.0f));
    asm volatile("red.shared.and.b32 [%0], %1;" ::"r"(shared_address(&words[9])), "r"(x) : "memory");
    asm volatile("red.shared::cta.add.f32 [%0], %1;" ::"r"(shared_address(&floats[4])), "f"(0.5f) : "memory");
    u32 slot = atomicAdd(&words[10], 1);  // any order; each value comes once
    atomicExch(&words[11], 7);
    atomicCAS(&words[12], 0, 42);
    atomicExch(&words[16 + (t & 7)], t & 7);
    __syncthreads();
    returned[blockIdx.x * blockDim.x + slot] = 1000 + blockIdx.x;
    if (t < 64) out[blockIdx.x * 96 + t] = words[t];
    if (t < 16) out[blockIdx.x * 96 + 64 + t] = ((u32 *)longs)[t];
    if (t < 8) out[blockIdx.x * 96 + 80 + t] = __float_as_uint(floats[t]);
    if (t < 4) out[blockIdx.x * 96 + 88 + t] = *(u32 *)&halves[t];
}
