// Two tiles of D[256][32] = A[256][128] B[32][128]^T by one CTA, warps apart: TMA loads into a ring of two stages, tcgen05.mma into one accumulator in
// tensor memory, an epilogue of four warps with tcgen05.ld. Waits between tcgen05 instructions alone are relaxed, with tcgen05.fence, as the PTX ISA has them.
//! 1 | tcgen05.fence | no tcgen05.fence::after_thread_sync after the relaxed wait for the product | X012 | ld
//! 2 | tcgen05.fence | no tcgen05.fence::before_thread_sync before the relaxed arrival that frees the accumulator | X012 | mma
//! 3 | tcgen05.fence | no tcgen05.fence::after_thread_sync after the relaxed wait for the accumulator | X012 | mma
//! 4 | wait::ld | the accumulator is freed before tcgen05.wait::ld | X012 | mma
//! 5 | commit | no tcgen05.commit for the epilogue | X006 | full_wait
//! 6 | commit | no tcgen05.commit for the producer: no stage is ever free | X006 | empty full
//! 7 | commit | the product is committed before its last instructions | X012 | ld mma
//! 8 | phase | the epilogue's parity does not change with the tile | X012 | ld
//! 9 | bytes | mbarrier.arrive without expect_tx: the phase ends before the loads | X004 T210 | mma expect load loadb
//! 10 | dealloc | the columns are given back while the epilogue may read them | X012 | dealloc
//! 11 | dealloc | no warp deallocates the columns | X009 | alloc
//! 12 | wait | the second tile's product does not wait for the accumulator to be read | X012 | mma
//! 13 | wait | the producer does not wait for a stage to be empty | X005 | load loadb
//! 14 | wait | no thread waits for the loads | X004 | mma
//! 15 | uninitialised | the first product adds to columns that nothing has written | R507 | mma
//! 16 | lost | every instruction begins a new sum | X017 | mma
//! 17 | lanes | every warp of the epilogue names its neighbour's lanes | X009 | ld
//! 18 | dealloc | half of the columns are given back | X009 | dealloc alloc
//! 19 | barrier | no barrier between the allocation and the warps that read its address | X008 X004 | address
//! 20 | commit | another lane than the one that multiplies commits: its commit waits for nothing | X012 X006 | ld full_wait empty
//! 21 | dealloc | the columns are given back before the second tile's product is issued | X012 X009 X015 | mma dealloc
//! 22 | alloc | 48 columns are asked for | X009 X015 | alloc
//! 23 | proxy | the epilogue's words in shared memory reach the TMA store without fence.proxy.async | X003 | store
//! 24 | early overwrite | the second tile's words overwrite what the first TMA store may read | X005 | stage
//! 25 | init | mbarriers are used before their initialisation is known to other warps | X008 | full_wait empty full expect load loadb init
//! 26 | issue | all lanes of the warp issue the products | X016 X012 X017 X010 X006 | mma commit full commit_full
#include "tcgen05.cuh"
#define STAGES 2
#define TRIPS 2
#define TILES 2
extern "C" __global__ void __launch_bounds__(192) tc_gemm(const __grid_constant__ Map ma, const __grid_constant__ Map mb, const __grid_constant__ Map md) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const u32 a0 = base, b0 = a0 + STAGES * 16384, out = b0 + STAGES * 4096, full = out + 16384, empty = full + 8 * STAGES;
    const u32 done = empty + 8 * STAGES, freed = done + 8, slot = freed + 8;
    if (tid == 128) {
        for (int s = 0; s < STAGES; s++) {
            MBAR_INIT(full + 8 * s, 1);  // @init
            MBAR_INIT(empty + 8 * s, 1);
        }
        MBAR_INIT(done, 1);
        MBAR_INIT(freed, 4);
        FENCE_INIT();
    }
    if (F(19)) __syncthreads();
    if (warp == 5) {
        TM_ALLOC(slot, PICK(22, 48, 64));  // @alloc
        TM_RELINQUISH();
    }
    if (F(25)) {
        if (warp != 4) BAR(2, 160);
    } else if (!F(19)) {
        BEFORE_SYNC();
        __syncthreads();
        AFTER_SYNC();
    }
    u32 tmem;
    LD_SHARED(tmem, slot);  // @address
    if (warp == 4) {
        if (lane == 0) {
#pragma unroll 1
            for (int n = 0; n < TILES * TRIPS; n++) {
                const int s = n % STAGES;
                if (!F(13)) WAIT(empty + 8 * s, (n / STAGES & 1) ^ 1);  // @empty
                if (F(9)) ARRIVE(full + 8 * s); else EXPECT(full + 8 * s, 20480);  // @expect
                LOAD_2D(a0 + s * 16384, &ma, n % TRIPS * 64, n / TRIPS * 128, full + 8 * s);  // @load
                LOAD_2D(b0 + s * 4096, &mb, n % TRIPS * 64, 0, full + 8 * s);  // @loadb
            }
        }
    } else if (warp == 5) {
        if (lane == 0 || F(26) || (F(20) && lane == 1)) {
#pragma unroll 1
            for (int tile = 0, n = 0; tile < TILES; tile++) {
                if (!F(12)) WAIT_RELAXED(freed, (tile & 1) ^ 1);
                if (!F(3)) AFTER_SYNC();
#pragma unroll 1
                for (int k = 0; k < TRIPS; k++, n++) {
                    const int s = n % STAGES;
                    if (!F(14)) WAIT(full + 8 * s, n / STAGES & 1);  // @full
                    if (F(7) && k == TRIPS - 1) COMMIT(done);
                    for (int j = 0; j < 4; j++) {
                        if (!(F(20) && lane == 1))
                            MMA(tmem, TC_DESCRIPTOR(a0 + s * 16384 + 32 * j), TC_DESCRIPTOR(b0 + s * 4096 + 32 * j), IDESC(128, 32), F(15) || (!F(16) && (k | j) != 0));  // @mma
                    }
                    if (!F(6) && !(F(20) && lane == 1)) COMMIT(empty + 8 * s);  // @commit
                }
                if (!F(5) && !F(7) && !(F(20) && lane == 0)) COMMIT(done);  // @commit_full
            }
        }
        __syncwarp();
        if (F(21)) TM_DEALLOC(tmem, 64);  // @dealloc
    } else {
#pragma unroll 1
        for (int tile = 0; tile < TILES; tile++) {
            WAIT_RELAXED(done, PICK(8, 0, tile & 1));  // @full_wait
            if (!F(1)) AFTER_SYNC();
            u32 v[32];
            for (int j = 0; j < 4; j++) TM_LD8(v + 8 * j, tmem + (PICK(17, warp ^ 1, warp) << 21) + 8 * j);  // @ld
            if (!F(4)) TM_WAIT_LD();
            if (!F(2)) BEFORE_SYNC();
            __syncwarp();
            if (lane == 0) ARRIVE_RELAXED(freed);
            if (F(4)) TM_WAIT_LD();
            if (tile) {
                if (tid == 0 && !F(24)) BULK_WAIT_READ(0);
                BAR(1, 128);
            }
            for (int j = 0; j < 32; j++) ST_SHARED(out + tid * 128 + 4 * j, v[j]);  // @stage
            if (!F(23)) FENCE_ASYNC();
            BAR(1, 128);
            if (tid == 0) {
                STORE_2D(&md, 0, tile * 128, out);  // @store
                BULK_COMMIT();
            }
        }
        if (tid == 0) BULK_WAIT(0);
    }
    if (!F(10)) {
        BEFORE_SYNC();
        __syncthreads();
        AFTER_SYNC();
    }
    if (warp == 5 && !F(11) && !F(21)) TM_DEALLOC(tmem, PICK(18, 32, 64));  // @dealloc
}
