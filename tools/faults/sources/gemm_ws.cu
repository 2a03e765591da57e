// Two persistent CTAs, each with two tiles of D[256][32] = A[256][256] B[32][256]^T. A producer and a consumer warpgroup, setmaxnreg, full and empty
// mbarriers in a ring of two stages, stmatrix, and a TMA store of the bf16 tile.
//! 1 | wait | the producer does not wait for the stage to be empty | X005 | load loadb
//! 2 | phase | the producer's first wait has the consumer's parity, so no load starts | X006 | empty full
//! 3 | arrive | the consumer never releases a stage | X006 | empty full release
//! 4 | early overwrite | the stage is released before the consumer waits for the wgmma | X005 | load loadb mma
//! 5 | count | the empty barrier counts 128 arrivals and gets 4 | X006 | initempty empty full
//! 6 | phase | the consumer's parity begins anew with every tile of an odd count | X004 X005 X006 | mma full
//! 7 | setmaxnreg | setmaxnreg.inc without the producer's dec: the CTA has no registers left to take | X006 X015 | inc
//! 8 | setmaxnreg | only one warp of the producer's warpgroup executes setmaxnreg.dec | X011 X015 X006 | dec inc
//! 9 | barrier | the TMA store does not wait for other warps' stmatrix | X008 X003 | store
//! 10 | proxy | stmatrix reaches the TMA store without fence.proxy.async | X003 | store
//! 11 | early overwrite | the second tile's stmatrix overwrites what the first store may still read | X005 | stmatrix
//! 12 | barrier | the named barrier of the consumers counts 96 threads | X010 X008 X006 X003 | named named2 store
//! 14 | group | wgmma.wait_group 1: the last product may run when its stage is released | X005 X007 | load loadb wait use stmatrix
//! 15 | trips | the producer makes one trip too few | X006 | full empty
//! 16 | ending | the CTA ends while the last TMA store may read its shared memory | X005 | store
//! 17 | last trip | the last trip's full wait is left out | X004 | mma
//! 18 | bytes | the last trip expects too few bytes | T210 X004 X010 X005 | expect load loadb mma full
//! 19 | wait | the named barrier before the next stmatrix is missing: only the issuing warp waited for the store | X005 | stmatrix
//! 20 | ending | the producer loads one stage more than any thread waits for | X005 X004 T210 | load loadb extra
//! 21 | divergence | one lane of each consumer warp leaves before stmatrix | X011 X006 | stmatrix leave
//! 22 | coordinates | both tiles are stored to the first tile's rows | X008 X005 R508 | store
#include "common.cuh"
#define STAGES 2
#define TRIPS 4
extern "C" __global__ void __launch_bounds__(256, 2) gemm_ws(const __grid_constant__ Map ma, const __grid_constant__ Map mb, const __grid_constant__ Map md) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, a0 = base, b0 = a0 + STAGES * 8192, out = b0 + STAGES * 4096, full = out + 4096, empty = full + 64;
    if (tid == 0) {
        for (int s = 0; s < STAGES; s++) {
            MBAR_INIT(full + 8 * s, 1);
            MBAR_INIT(empty + 8 * s, PICK(5, 128, 4));  // @initempty
        }
        FENCE_INIT();
    }
    __syncthreads();
    if (tid < 128) {
        if (!F(7) && !(F(8) && tid >= 32)) SETMAXNREG("dec", 40);  // @dec
        if (tid == 0) {
            const int trips = 2 * TRIPS - (F(15) ? 1 : 0);
#pragma unroll 1
            for (int n = 0; n < trips; n++) {
                const int s = n % STAGES, tile = blockIdx.x + n / TRIPS * 2;
                if (!F(1)) WAIT(empty + 8 * s, F(2) ? n / STAGES & 1 : (n / STAGES & 1) ^ 1);  // @empty
                EXPECT(full + 8 * s, F(18) && n == trips - 1 ? 4096 : 12288);  // @expect
                LOAD_2D(a0 + s * 8192, &ma, n % TRIPS * 64, tile * 64, full + 8 * s);  // @load
                LOAD_2D(b0 + s * 4096, &mb, n % TRIPS * 64, 0, full + 8 * s);  // @loadb
            }
            if (F(20)) {
                WAIT(empty, 1);
                EXPECT(full, 8192);
                LOAD_2D(a0, &ma, 0, 0, full);  // @extra
            }
        }
    } else {
        SETMAXNREG("inc", 208);  // @inc
        const u32 t = tid - 128, warp = t / 32, lane = t % 32;
        int n = 0;
#pragma unroll 1
        for (int tile = blockIdx.x; tile < 4; tile += 2) {
            float d[16];
            for (int i = 0; i < 16; i++) d[i] = 0;
           
#pragma unroll 1
            for (int k = 0; k < TRIPS; k++, n++) {
                const int s = n % STAGES, round = F(6) ? (n / STAGES + n / TRIPS) : n / STAGES;
                if (!(F(17) && n == 2 * TRIPS - 1)) WAIT(full + 8 * s, round & 1);  // @full
                WGMMA_FENCE();
                for (int j = 0; j < 4; j++) {
                    WGMMA(d, DESCRIPTOR(a0 + s * 8192 + 32 * j, 1024, 1), DESCRIPTOR(b0 + s * 4096 + 32 * j, 1024, 1), (k | j) != 0 ? 1 : 0);  // @mma
                }
                WGMMA_COMMIT();
                if (F(4) && lane == 0) ARRIVE(empty + 8 * s);
                if (F(14)) WGMMA_WAIT(1); else WGMMA_WAIT(0);  // @wait
                if (!F(3) && !F(4) && lane == 0) ARRIVE(empty + 8 * s);  // @release

            }
            if (F(14)) WGMMA_WAIT(0);
            if (n > TRIPS) {
                if (t == 0 && !F(11)) BULK_WAIT_READ(0);
                if (!F(19)) BAR(1, 128);  // @named2
            }
            if (F(21) && lane == 31 && warp == 0) break;  // @leave
            for (int j = 0; j < 4; j += 2) {
                u32 v[4];
                for (int i = 0; i < 4; i++) PTX("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v[i]) : "f"(d[4 * j + 2 * i + 1]), "f"(d[4 * j + 2 * i]));  // @use
                const u32 to = out + (warp * 16 + lane % 16) * 64 + (j + lane / 16) * 16;
                PTX("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");  // @stmatrix
            }
            if (!F(10)) FENCE_ASYNC();
            if (!F(9)) BAR(1, PICK(12, 96, 128));  // @named
            if (t == 0) {
                STORE_2D(&md, 0, PICK(22, 0, tile * 64), out);  // @store
                BULK_COMMIT();
            }
        }
        if (t == 0 && !F(16)) BULK_WAIT(0);
    }
}
