// wgmma with A from registers (ldmatrix, then f32 arithmetic on the fragments) and B MN-major through its transpose bit.
#include "wgmma.cuh"
KERNEL wgmma_registers(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float *D, int tiles) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ __align__(8) u64 full;
    u32 t = threadIdx.x, base = shared_address(smem), f = shared_address(&full), scale_d = 1;
    if (t == 0) {
        barrier_init(f, 1);
        barrier_init_fence();
    }
    __syncthreads();
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = (float)i;
    for (int k = 0; k < tiles; k++) {
        if (t == 0) {
            barrier_expect(f, 16384);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(base), "l"(&map_a), "r"(k * 64), "r"(0), "r"(f) : "memory");
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(base + 8192), "l"(&map_b), "r"(blockIdx.x * 64), "r"(k * 64), "r"(f) : "memory");
        }
        barrier_wait(f, k & 1);
        u32 fragments[4][4];
        for (int step = 0; step < 4; step++) {
            u32 row = t / 32 * 16 + t % 16, chunk = 2 * step + (t % 32) / 16, *a = fragments[step];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(base + row * 128 + (chunk ^ (row & 7)) * 16) : "memory");
            for (int i = 0; i < 4; i++) a[i] ^= 0x80000000;  // the odd columns of A change their sign
        }
        wgmma_begin();
        for (int step = 0; step < 4; step++) {
            u32 *a = fragments[step];
            u64 b = descriptor_128b_mn(base + 8192 + step * 2048, 0);
            WGMMA_32F_RS("m64n64k16.f32.bf16.bf16", ", 1, 1, 1");
        }
        wgmma_end();
        __syncthreads();
    }
    for (int i = 0; i < 32; i++) {
        int row = 16 * (t / 32) + t % 32 / 4 + 8 * (i >> 1 & 1), column = 2 * (t % 4) + (i & 1) + 8 * (i >> 2);
        D[row * gridDim.x * 64 + blockIdx.x * 64 + column] = d[i];
    }
}
