// D[64][8] = A[64][64] B[8][64]^T in bf16 with TMA, and wgmma or tcgen05. The kernel's parameter is a structure with two tensor maps, as CUTLASS passes them.
// "wrong" encodes the map of A without the swizzle that the descriptor has.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

struct parameters {
    CUtensorMap a, b;
    float *d;
    int rows;
};
__device__ void load(uint32_t to, const CUtensorMap *map, uint32_t bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(0) : "memory");
}
__device__ void wait(uint32_t bar) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(bar) : "memory");
}
#if __CUDA_ARCH__ >= 1000
__device__ uint64_t descriptor(uint32_t at) { return (at >> 4) | 1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 46 | (uint64_t)2 << 61; }
#else
__device__ uint64_t descriptor(uint32_t at) { return (at >> 4) | (uint64_t)64 << 32 | (uint64_t)1 << 62; }
#endif

__global__ void __launch_bounds__(128) gemm(const __grid_constant__ parameters p) {
    extern __shared__ __align__(1024) char room[];
    uint32_t begin = ((uint32_t)__cvta_generic_to_shared(room) + 1023) / 1024 * 1024, a = begin, b = begin + 8192, bar = begin + 9216, done = bar + 8, slot = bar + 16;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; mbarrier.init.shared::cta.b64 [%1], 1;" ::"r"(bar), "r"(done));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 9216;" ::"r"(bar));
        load(a, &p.a, bar), load(b, &p.b, bar);
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if __CUDA_ARCH__ >= 1000
    if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(slot) : "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    uint32_t tensor, idesc = 1 << 4 | 1 << 7 | 1 << 10 | (8 >> 3) << 17 | (64 >> 4) << 24, d[8];
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(tensor) : "r"(slot) : "memory");
    if (threadIdx.x == 0) {
        wait(bar);
        for (int k = 0; k < 4; k++)
            asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(tensor), "l"(descriptor(a + 32 * k)), "l"(descriptor(b + 32 * k)), "r"(idesc), "r"(k) : "memory");
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(done) : "memory");
    }
    wait(done);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8]; tcgen05.wait::ld.sync.aligned;"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]), "=r"(d[4]), "=r"(d[5]), "=r"(d[6]), "=r"(d[7]) : "r"(tensor + (warp << 21)) : "memory");
    for (int n = 0; n < 8; n++)
        if (lane < 16 && warp * 16 + lane < p.rows) p.d[(warp * 16 + lane) * 8 + n] = __uint_as_float(d[n]);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(tensor));
#else
    (void)done, (void)slot;
    __syncthreads();
    wait(bar);
    float d[4] = {0, 0, 0, 0};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; k++)
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(descriptor(a + 32 * k)), "l"(descriptor(b + 32 * k)));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
    int row = warp * 16 + lane / 4;
    for (int i = 0; i < 4; i++)
        if (row + i / 2 * 8 < p.rows) p.d[(row + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
#endif
}
typedef CUresult (*encode_t)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                             CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
// bf16 of small whole numbers: the upper half of a float.
static uint16_t half_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits >> 16;
}
static float whole_of(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
int main(int argc, char **argv) {
    bool is_wrong = argc > 1 && !strcmp(argv[1], "wrong");
    encode_t encode;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000, cudaEnableDefault, &found) || found) return 2;
    static uint16_t a[64][64], b[8][64];
    static float d[64][8];
    for (int k = 0; k < 64; k++) {
        for (int m = 0; m < 64; m++) a[m][k] = half_of((m * 3 + k * 5) % 7 - 3);
        for (int n = 0; n < 8; n++) b[n][k] = half_of((n * 2 + k * 3) % 5 - 2);
    }
    void *pa, *pb;
    parameters p;
    cudaMalloc(&pa, sizeof a), cudaMalloc(&pb, sizeof b), cudaMalloc(&p.d, sizeof d);
    cudaMemcpy(pa, a, sizeof a, cudaMemcpyHostToDevice), cudaMemcpy(pb, b, sizeof b, cudaMemcpyHostToDevice);
    cuuint64_t dim_a[] = {64, 64}, dim_b[] = {64, 8}, stride[] = {128};
    cuuint32_t box_a[] = {64, 64}, box_b[] = {64, 8}, one[] = {1, 1};
    auto map = [&](CUtensorMap *to, void *at, cuuint64_t *dim, cuuint32_t *box, CUtensorMapSwizzle swizzle) {
        return encode(to, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, at, dim, stride, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    if (map(&p.a, pa, dim_a, box_a, is_wrong ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B) || map(&p.b, pb, dim_b, box_b, CU_TENSOR_MAP_SWIZZLE_128B)) return 3;
    p.rows = 64;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1, config.blockDim = 128, config.dynamicSmemBytes = 11264;
    if (cudaLaunchKernelEx(&config, gemm, p) || cudaDeviceSynchronize()) return 4;
    cudaMemcpy(d, p.d, sizeof d, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int m = 0; m < 64; m++)
        for (int n = 0; n < 8; n++) {
            float sum = 0;
            for (int k = 0; k < 64; k++) sum += whole_of(a[m][k]) * whole_of(b[n][k]);
            wrong += sum != d[m][n];
        }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
