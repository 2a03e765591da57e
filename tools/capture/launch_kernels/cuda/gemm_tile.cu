// D[64, 64] a block = A[64, K] B[64, K]^T, both K-major in 128-byte rows, by TMA and wgmma: every operand type of wgmma, one at a time.
// -DWGMMA= the macro, -DSHAPE= shape and types, -DTAIL= what follows the scales, -DTYPE= of a register of D, -DREGISTERS= how many
#include "wgmma.cuh"
KERNEL gemm_tile(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, TYPE *D, u32 *image, int tiles, int elements) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ __align__(8) u64 full[2];
    u32 t = threadIdx.x, base = shared_address(smem), f = shared_address(full), scale_d = 0;
    if (t == 0) {
        barrier_init(f, 1);
        barrier_init(f + 8, 1);
        barrier_init_fence();
    }
    __syncthreads();
    auto fetch = [&](int k) {
        u32 stage = base + (k & 1) * 16384, barrier = f + (k & 1) * 8;
        barrier_expect(barrier, 16384);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(stage), "l"(&map_a), "r"(k * elements), "r"(blockIdx.x * 64), "r"(barrier) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(stage + 8192), "l"(&map_b), "r"(k * elements), "r"(blockIdx.y * 64), "r"(barrier) : "memory");
    };
    if (t == 0)
        for (int k = 0; k < 2 && k < tiles; k++) fetch(k);
    TYPE d[REGISTERS];
    for (int i = 0; i < REGISTERS; i++) d[i] = 0;
    for (int k = 0; k < tiles; k++) {
        barrier_wait(f + (k & 1) * 8, k / 2 & 1);
        wgmma_begin();
        for (int step = 0; step < 4; step++) {
            u64 a = descriptor_128b(base + (k & 1) * 16384 + 32 * step), b = descriptor_128b(base + (k & 1) * 16384 + 8192 + 32 * step);
            WGMMA(SHAPE, TAIL);
            scale_d = 1;
        }
        wgmma_end();
        __syncthreads();
        if (t == 0 && k + 2 < tiles) fetch(k + 2);
    }
    u32 block = blockIdx.y * gridDim.x + blockIdx.x;
    for (int i = 0; i < REGISTERS; i++) D[(block * REGISTERS + i) * 128 + t] = d[i];
    if (block == 0)
        for (u32 i = t; i < 8192; i += 128) image[i] = ((u32 *)smem)[i];
}
