// A warp-specialised, persistent GEMM: C[M, N] = A[M, K] B[N, K]^T in bf16. One warp group brings tiles, two multiply (setmaxnreg gives them
// its registers), full and empty mbarriers of STAGES stages, results leave through shared memory by stmatrix and TMA.
#include "wgmma.cuh"
#ifndef STAGES
#define STAGES 3
#endif
constexpr u32 STAGE = 32768;
KERNEL __launch_bounds__(384, 1) gemm_specialized(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                                                  const __grid_constant__ CUtensorMap map_c, int tiles_m, int tiles_n, int tiles_k) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    u32 base = shared_address(smem), out = base + STAGES * STAGE, f = shared_address(full), e = shared_address(empty);
    u32 group = threadIdx.x / 128, t = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(f + 8 * s, 1);
            barrier_init(e + 8 * s, 2);
        }
        barrier_init_fence();
    }
    __syncthreads();
    u32 at = 0, phase = 0;
    auto advance = [&] { if (++at == STAGES) at = 0, phase ^= 1; };
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (t == 0)
            for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x)
                for (int k = 0; k < tiles_k; k++, advance()) {
                    u32 to = base + at * STAGE;
                    barrier_wait(e + 8 * at, phase ^ 1);
                    barrier_expect(f + 8 * at, STAGE);
                    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map_a), "r"(k * 64), "r"(tile / tiles_n * 128), "r"(f + 8 * at) : "memory");
                    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to + 16384), "l"(&map_b), "r"(k * 64), "r"(tile % tiles_n * 128), "r"(f + 8 * at) : "memory");
                }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        u32 mine = group - 1, store = out + mine * 16384;
        for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
            float d[64];
            u32 scale_d = 0;
            for (int i = 0; i < 64; i++) d[i] = 0;
            for (int k = 0; k < tiles_k; k++, advance()) {
                barrier_wait(f + 8 * at, phase);
                wgmma_begin();
                for (int step = 0; step < 4; step++) {
                    u64 a = descriptor_128b(base + at * STAGE + mine * 8192 + 32 * step), b = descriptor_128b(base + at * STAGE + 16384 + 32 * step);
                    WGMMA_64F("m64n128k16.f32.bf16.bf16", ", 1, 1, 0, 0");
                    scale_d = 1;
                }
                wgmma_end();
                if (t == 0) barrier_arrive(e + 8 * at);
            }
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
            for (int j = 0; j < 8; j++) {  // 16 columns: four 8 x 8 matrices, the lane's row with the 128-byte swizzle of each half of the tile
                u32 p[4];
                for (int i = 0; i < 4; i++) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p[i]) : "f"(d[8 * j + 2 * i + 1]), "f"(d[8 * j + 2 * i]));
                u32 row = t / 32 * 16 + t % 16, chunk = 2 * (j % 4) + t % 32 / 16;
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                             ::"r"(store + j / 4 * 8192 + row * 128 + (chunk ^ (row & 7)) * 16), "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]) : "memory");
            }
            proxy_fence();
            asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
            if (t == 0) {
                for (int half = 0; half < 2; half++)
                    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map_c), "r"(tile % tiles_n * 128 + 64 * half), "r"(tile / tiles_n * 128 + 64 * mine), "r"(store + half * 8192) : "memory");
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
