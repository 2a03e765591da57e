// D[64][32] = A[64][384] B[32][384]^T: TMA loads in a ring of three stages, wgmma, and a TMA store of the f32 tile.
//! 1 | barrier | mbarriers are used before their initialisation is known to other warps | X010 X008 X006 | init wait
//! 2 | bytes | the barrier expects 4096 B less than the loads bring: its phase ends early | T210 X004 X010 | expect load mma wait
//! 3 | bytes | the barrier expects 1024 B more than the loads bring | T210 X006 | expect wait
//! 4 | wait | no thread waits for the loads | X004 | mma
//! 5 | phase | the parity never changes: the second round's wait passes at once | X004 X005 X006 | mma wait
//! 6 | fence | no wgmma.fence before the first wgmma | X014 | mma
//! 7 | group | no wgmma.commit_group: the wait waits for nothing | X007 X005 | commit mma use load
//! 8 | group | no wgmma.wait_group before the stage is loaded again | X005 X007 | mma load use
//! 10 | early overwrite | the next load into a stage is issued before the wgmma of that stage | X005 X004 R508 | early mma
//! 11 | proxy | the epilogue's stores are not fenced before the TMA store | X003 | store
//! 12 | barrier | the TMA store does not wait for other warps' stores | X008 X003 | store
//! 13 | ending | the CTA ends while the TMA store may still read its shared memory | X005 | store
//! 14 | coordinates | the K and N coordinates of B's load are swapped | R508 T209 | loadb mma
//! 15 | descriptor | SBO of half a swizzle atom | D308 | mma
//! 16 | descriptor | the descriptor says 64B, the map 128B | D302 R501 | mma
//! 17 | uninitialised | the first product adds to accumulators that nothing has written | R507 | mma use store
//! 18 | lost | every product begins a new sum | X017 | mma
//! 19 | last trip | the K step of the last stage's last block points into the next stage | R502 R503 R508 R507 D304 X004 X005 | mma
//! 20 | alignment | the stages of A lie off 128 B | A101 A102 X002 | load
//! 21 | issue | all lanes of warp 0 issue the refill | X016 T210 X010 | load expect loadb
//! 22 | wait | only warp 0 waits for the loads | X004 X008 | mma
//! 23 | count | the barrier counts two arrivals and gets one | X006 | init wait
//! 24 | reuse | the output tile overwrites an mbarrier that loads still use | X010 X005 X008 | put wait
//! 25 | last trip | the wait of the last tile is left out | X004 | mma
//! 26 | coordinates | the last trip loads the tile before it once more | R508 R502 X004 R510 | load loadb mma
#include "common.cuh"
#define STAGES 3
#define TILES 6
extern "C" __global__ void __launch_bounds__(128) gemm_tma(const __grid_constant__ Map ma, const __grid_constant__ Map mb, const __grid_constant__ Map md) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, a0 = base, b0 = base + PICK(20, STAGES * 8192 + 1024, STAGES * 8192), bars = b0 + STAGES * 4096 + 1024;
    const u32 out = F(24) ? bars - 1024 : bars + 1024;
    if (tid == 0) {
        for (int s = 0; s < STAGES; s++) MBAR_INIT(bars + 8 * s, PICK(23, 2, 1));  // @init
        FENCE_INIT();
    }
    if (!F(1)) __syncthreads();
#define FILL(t)                                                                                                                    \
    EXPECT(bars + 8 * ((t) % STAGES), PICK(2, 8192, PICK(3, 13312, 12288)))
    if (tid == 0)
        for (int t = 0; t < STAGES; t++) {
            FILL(t);  // @expect
            LOAD_2D(a0 + t * PICK(20, 8192 + 64, 8192), &ma, t * 64, 0, bars + 8 * t);  // @load
            LOAD_2D(b0 + t * 4096, &mb, PICK(14, 0, t * 64), PICK(14, t * 64, 0), bars + 8 * t);  // @loadb
        }
    float d[16];
    if (!F(17))
        for (int i = 0; i < 16; i++) d[i] = 0;
    else
        for (int i = 0; i < 16; i++) asm volatile("{.reg .f32 t; mov.f32 %0, t;}" : "=f"(d[i]));
#pragma unroll 1
    for (int t = 0; t < TILES; t++) {
        const int s = t % STAGES;
        const bool refill = t + STAGES < TILES;
        if (!F(4) && !(F(22) && tid >= 32) && !(F(25) && t == TILES - 1)) WAIT(bars + 8 * s, F(5) ? 0 : t / STAGES & 1);  // @wait
        if (F(10) && refill && tid == 0) {
            FILL(t + STAGES);
            LOAD_2D(a0 + s * 8192, &ma, (t + STAGES) * 64, 0, bars + 8 * s);  // @early
            LOAD_2D(b0 + s * 4096, &mb, (t + STAGES) * 64, 0, bars + 8 * s);
        }
        if (!F(6)) WGMMA_FENCE();
        for (int k = 0; k < 4; k++) {
            const u32 step = F(19) && t == TILES - 1 && k == 3 ? 8192 + 96 : 32 * k;
            const u64 da = DESCRIPTOR(a0 + s * PICK(20, 8192 + 64, 8192) + step, PICK(15, 512, 1024), PICK(16, 2ull, 1ull));
            const u64 db = DESCRIPTOR(b0 + s * 4096 + 32 * k, 1024, 1);
            const int adds = F(17) ? 1 : F(18) ? 0 : (t | k) != 0;
            WGMMA(d, da, db, adds);  // @mma
        }
        if (!F(7)) WGMMA_COMMIT();  // @commit
        if (!F(8)) WGMMA_WAIT(0);
        __syncthreads();
        if (refill && (F(21) ? tid < 32 : tid == 0) && !F(10)) {
            FILL(t + STAGES);  // @expect
            const int from = F(26) && t + STAGES == TILES - 1 ? t + STAGES - 1 : t + STAGES;
            LOAD_2D(a0 + s * PICK(20, 8192 + 64, 8192), &ma, from * 64, 0, bars + 8 * s);  // @load
            LOAD_2D(b0 + s * 4096, &mb, PICK(14, 0, (t + STAGES) * 64), PICK(14, (t + STAGES) * 64, 0), bars + 8 * s);  // @loadb
        }
        if (F(24) && t == 1) ST_SHARED(out + 1024 + tid % 8 * 4, tid);  // @put
    }
    if (F(8)) WGMMA_WAIT(0);
    const u32 row = tid / 32 * 16 + tid % 32 / 4, column = tid % 4 * 2;
    for (int i = 0; i < 16; i++) {
        const u32 to = out + (row + (i & 2) * 4) * 128 + (column + (i & 1) + i / 4 * 8) * 4;
        ST_SHARED(F(24) ? to + 2048 : to, __float_as_uint(d[i]));  // @use
    }
    if (!F(11)) FENCE_ASYNC();
    if (!F(12)) __syncthreads();
    if (tid == 0) {
        STORE_2D(&md, 0, 0, F(24) ? out + 2048 : out);  // @store
        if (!F(13)) {
            BULK_COMMIT();
            BULK_WAIT(0);
        }
    }
}
