// D[128][32] = (A SFA)[128][256] (B SFB)[32][256]^T of e4m3 with ue8m0 scales for blocks of 32 (tcgen05.mma kind::mxf8f6f4). TMA and bulk copies load A, B and the
// scales of A. Threads store the scales of B. The multiplying thread copies both to tensor memory by tcgen05.cp.
//! 1 | wait | the scales are copied before they have arrived | X004 | cpa
//! 2 | proxy | the scales that threads store reach tcgen05.cp without fence.proxy.async | X003 | cpb
//! 3 | order | another warp copies the scales, and nothing makes the product wait for that | X012 | mma
//! 4 | wait | no thread waits for the threads that store the scales of B | X004 X008 X003 | cpb
//! 5 | overlap | the scales of B lie in the columns of the accumulator | X012 X017 Unmodelled | cpb mma
//! 6 | last trip | the scales of the second block are not copied | R507 | mma
//! 7 | commit | an arrival of the issuing thread frees the stage in place of tcgen05.commit | X005 | load loadb loads scales
//! 8 | uninitialised | half of the scales of A are loaded | T210 R507 X004 X006 | loads cpa mma expect full
//! 9 | alloc | the columns of the scales lie beyond the allocation | X009 | cpa cpb
//! 10 | wait | no thread waits for A and B | X004 | mma cpa
//! 11 | early overwrite | the next scales are stored while the copy of the last may read them | X005 X008 | scales cpb
//! 12 | tcgen05.fence | another warp copies the scales of B, arrives relaxed, and no tcgen05.fence stands around it | X012 | mma
//! 13 | commit | the epilogue's commit comes before the last product | X012 | ld mma
//! 14 | lanes | tcgen05.cp to lane 32 | X015 X009 | cpa
#include "tcgen05.cuh"
#define TRIPS 2
#define SCALE_IDESC(id) (4u << 17 | 1u << 23 | 1u << 27 | (u32)(id) << 29 | (u32)(id) << 4)
// Blocks of 32 rows of 16 bytes: no swizzle, SBO 128 B
#define SCALE_DESCRIPTOR(start) ((u64)(((start) & 0x3FFFF) >> 4) | 8ull << 32 | 1ull << 46)
extern "C" __global__ void __launch_bounds__(192) tc_scaled(const __grid_constant__ Map ma, const __grid_constant__ Map mb, const unsigned char *sfa, const u32 *sfb, float *d) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const u32 a0 = base, b0 = a0 + 16384, sa = b0 + 4096, sb = sa + 512, full = sb + 512, empty = full + 8, stored = empty + 8, done = stored + 8, copied = done + 8, slot = copied + 8;
    if (tid == 128) {
        MBAR_INIT(full, 1);
        MBAR_INIT(empty, 1);
        MBAR_INIT(stored, 4);
        MBAR_INIT(done, 1);
        MBAR_INIT(copied, 1);
        FENCE_INIT();
    }
    if (warp == 5) {
        TM_ALLOC(slot, PICK(9, 32, 64));  // @alloc
        TM_RELINQUISH();
    }
    BEFORE_SYNC();
    __syncthreads();
    AFTER_SYNC();
    u32 tmem;
    LD_SHARED(tmem, slot);
    if (warp == 4) {
        if (lane == 0) {
#pragma unroll 1
            for (int n = 0; n < TRIPS; n++) {
                WAIT(empty, (n & 1) ^ 1);
                EXPECT(full, 20992);  // @expect
                LOAD_2D(a0, &ma, n * 128, 0, full);  // @load
                LOAD_2D(b0, &mb, n * 128, 0, full);  // @loadb
                BULK_LOAD(sa, sfa + n * 512, PICK(8, 256, 512), full);  // @loads
                if (F(3) || F(12)) {
                    WAIT(full, n & 1);
                    WAIT(stored, n & 1);
                    if (F(3)) CP_SCALES(tmem + 32 + 8 * n, SCALE_DESCRIPTOR(sa));
                    CP_SCALES(tmem + 36 + 8 * n, SCALE_DESCRIPTOR(sb));
                    if (F(12)) ARRIVE_RELAXED(copied);
                }
            }
        }
    } else if (warp == 5) {
        if (lane == 0) {
#pragma unroll 1
            for (int n = 0; n < TRIPS; n++) {
                const u32 scales_a = tmem + 32 + 8 * n, scales_b = F(5) ? tmem + 28 : tmem + 36 + 8 * n;
                if (!F(1) && !F(10)) WAIT(full, n & 1);  // @full
                if (!F(4)) WAIT(stored, n & 1);
                if (!F(3) && !(F(6) && n == 1)) {
                    CP_SCALES(PICK(14, scales_a + (32 << 16), scales_a), SCALE_DESCRIPTOR(sa));  // @cpa
                    if (!F(12)) CP_SCALES(scales_b, SCALE_DESCRIPTOR(sb));  // @cpb
                }
                if (F(12)) WAIT_RELAXED(copied, n & 1);
                if (F(1)) WAIT(full, n & 1);
                for (int j = 0; j < 4; j++) {
                    if (F(13) && n == TRIPS - 1 && j == 3) COMMIT(done);
                    MMA_SCALED(tmem, TC_DESCRIPTOR(a0 + 32 * j), TC_DESCRIPTOR(b0 + 32 * j), SCALE_IDESC(j), scales_a + (j << 30), scales_b + (j << 30), (n | j) != 0);  // @mma
                }
                if (F(7)) ARRIVE(empty);
                else COMMIT(empty);
            }
            if (!F(13)) COMMIT(done);
        }
        __syncwarp();
    } else {
#pragma unroll 1
        for (int n = 0; n < TRIPS; n++) {
            if (n > 0 && !F(11)) WAIT(empty, (n & 1) ^ 1);
            ST_SHARED(sb + 4 * tid, sfb[128 * n + tid]);  // @scales
            if (n > 0 && F(11)) WAIT(empty, (n & 1) ^ 1);
            if (!F(2)) FENCE_ASYNC();
            __syncwarp();
            if (lane == 0) ARRIVE(stored);
        }
        WAIT_RELAXED(done, 0);
        AFTER_SYNC();
        u32 v[32];
        for (int j = 0; j < 4; j++) TM_LD8(v + 8 * j, tmem + (warp << 21) + 8 * j);  // @ld
        TM_WAIT_LD();
        for (int j = 0; j < 32; j++) d[tid * 32 + j] = __uint_as_float(v[j]);
    }
    BEFORE_SYNC();
    __syncthreads();
    AFTER_SYNC();
    if (warp == 5) TM_DEALLOC(tmem, PICK(9, 32, 64));
}
