// wgmma.sp: A with two of four elements kept, metadata in registers, operands without swizzle written by the threads themselves.
#include "common.cuh"
KERNEL wgmma_sparse(const u32 *A, const u32 *B, const u32 *metadata, float *D) {
    __shared__ __align__(1024) u32 a_tile[512], b_tile[1024];
    u32 t = threadIdx.x;
    for (u32 i = t; i < 512; i += 128) a_tile[i] = A[blockIdx.x * 512 + i];
    for (u32 i = t; i < 1024; i += 128) b_tile[i] = B[blockIdx.x * 1024 + i];
    proxy_fence();
    __syncthreads();
    // core matrices of 128 bytes: A (64 x 16 stored) has 2 along K, B (64 x 32) has 4; next along K after 128 bytes
    u64 a = (u64)(shared_address(a_tile) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32, b = (u64)(shared_address(b_tile) >> 4 & 0x3fff) | 8ull << 16 | 32ull << 32;
    float d[8];
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 8; i++) d[i] = (float)(half * 8 + i);
        u32 e = metadata[(blockIdx.x * 2 + half) * 128 + t];
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        if (half)
            asm volatile("wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, %10, 1, 1, 1, -1, 0, 0;"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "l"(a), "l"(b), "r"(e));
        else
            asm volatile("wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, %10, 0, 1, 1, 1, 0, 0;"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "l"(a), "l"(b), "r"(e));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        for (int i = 0; i < 8; i++) D[((blockIdx.x * 2 + half) * 8 + i) * 128 + t] = d[i];
    }
}
