// A histogram: bins in shared memory, then in global memory.
#include "common.cuh"
KERNEL histogram(const u8 *in, u32 count, u32 *bins) {
    __shared__ u32 own[256];
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
    __syncthreads();
    for (u32 i = THREAD * 4; i + 3 < count; i += THREADS * 4) {
        uchar4 v = *(const uchar4 *)(in + i);
        atomicAdd(own + v.x, 1); atomicAdd(own + v.y, 1); atomicAdd(own + v.z, 1); atomicAdd(own + v.w, 1);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
        if (own[i]) atomicAdd(bins + i, own[i]);
}
