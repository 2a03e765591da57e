// O[128][64] is the sum over three blocks of 64 keys of relu(Q K^T) V, by one CTA. K and V are loaded into rings of two stages. V is MN-major. P replaces the scores S of a block
// in its own columns of tensor memory. O is written to shared memory. The loading warp stores each warp's rows of O by a bulk store.
//! 1 | descriptor | V is multiplied as if it were K-major (no transpose bit) | R505 | pv
//! 2 | overlap | P is read from the columns of S that the softmax has not overwritten | R508 | pv
//! 3 | barrier | one lane arrives for its warp's rows of O, without a __syncwarp before | X008 | store
//! 4 | descriptor | base offset 2 on data that lies by absolute addresses | D306 | qk
//! 5 | descriptor | start addresses in bytes, not in units of 16 B | D301 | qk
//! 6 | early overwrite | a stage of K and V is released before V is read | X004 X005 | pv load
//! 7 | uninitialised | the epilogue adds O to an array that no thread has written | R507 | store
//! 8 | wait | before the last block, the product with V does not wait for P, only the next product waits for the scores | X012 X017 | qk s_ld pv
//! 9 | wait | the softmax does not wait for its tcgen05.st | X012 | pv
//! 10 | descriptor | the transpose bit of K, which lies along d | R505 | qk
//! 11 | wait | the product with V does not wait for P | X012 | pv s_st
//! 12 | commit | the product is committed for the softmax before its last instruction | X012 | s_ld qk
//! 13 | proxy | O's rows reach the bulk store without fence.proxy.async | X003 | store
#include "tcgen05.cuh"
#define BLOCKS 3
#define V_DESCRIPTOR(start) ((u64)(((start) & 0x3FFFF) >> 4) | 64ull << 32 | 1ull << 46 | 2ull << 61)  // one atom of 64 columns: LBO is not used, SBO 1024 B
extern "C" __global__ void __launch_bounds__(192) tc_chain(const __grid_constant__ Map mq, const __grid_constant__ Map mk, const __grid_constant__ Map mv, float *out, float *blank) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const u32 q0 = base, k0 = q0 + 16384, v0 = k0 + 2 * 8192, o0 = v0 + 2 * 8192, full = o0 + 32768, empty = full + 16, s_full = empty + 16, p_full = s_full + 8;
    const u32 o_full = p_full + 8, rows = o_full + 8, slot = rows + 8;
    if (tid == 128) {
        for (int i = 0; i < 2; i++) {
            MBAR_INIT(full + 8 * i, 1);
            MBAR_INIT(empty + 8 * i, 1);
        }
        MBAR_INIT(s_full, 1);
        MBAR_INIT(p_full, 4);
        MBAR_INIT(o_full, 1);
        MBAR_INIT(rows, 4);
        FENCE_INIT();
    }
    if (warp == 5) {
        TM_ALLOC(slot, 128);
        TM_RELINQUISH();
    }
    BEFORE_SYNC();
    __syncthreads();
    AFTER_SYNC();
    u32 tmem;
    LD_SHARED(tmem, slot);
    const u32 scores = tmem, o = tmem + 64, mine = warp << 21;
    if (warp == 4) {
        if (lane == 0) {
#pragma unroll 1
            for (int n = 0; n < BLOCKS; n++) {
                const int s = n & 1;
                WAIT(empty + 8 * s, (n / 2 & 1) ^ 1);
                EXPECT(full + 8 * s, 16384 + (n == 0) * 16384);
                if (n == 0) LOAD_2D(q0, &mq, 0, 0, full);
                LOAD_2D(k0 + s * 8192, &mk, 0, n * 64, full + 8 * s);  // @load
                LOAD_2D(v0 + s * 8192, &mv, 0, n * 64, full + 8 * s);  // @load
            }
            WAIT(rows, 0);
            for (int w = 0; w < 4; w++) {
                if (F(7)) {
                    PTX("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(blank + w * 2048), "r"(o0 + w * 8192), "r"(8192) : "memory");  // @store
                }
                BULK_STORE(out + w * 2048, o0 + w * 8192, 8192);  // @store
            }
            BULK_COMMIT();
            BULK_WAIT(0);
        }
        __syncwarp();
    } else if (warp == 5) {
        if (lane == 0) {
#pragma unroll 1
            for (int n = 0; n < BLOCKS; n++) {
                const int s = n & 1;
                WAIT(full + 8 * s, n / 2 & 1);
                if (F(8) && n > 0) WAIT_RELAXED(s_full, (n - 1) & 1);
                for (int j = 0; j < 4; j++) {
                    u64 a = TC_DESCRIPTOR(q0 + 32 * j);
                    if (F(4)) a |= 2ull << 49;
                    if (F(5)) a = (a & ~0x3FFFull) | ((q0 + 32 * j) & 0x3FFF);
                    if (F(12) && j == 3) COMMIT(s_full);
                    MMA(scores, a, TC_DESCRIPTOR(k0 + s * 8192 + 32 * j), IDESC(128, 64) | (u32)F(10) << 16, j != 0);  // @qk
                }
                if (!F(12)) COMMIT(s_full);
                if (F(6)) COMMIT(empty + 8 * s);
                if (!F(11) && !(F(8) && n < BLOCKS - 1)) WAIT_RELAXED(p_full, n & 1);
                AFTER_SYNC();
                for (int j = 0; j < 4; j++)
                    MMA_TM(o, scores + PICK(2, 32, 0) + 8 * j, V_DESCRIPTOR(v0 + s * 8192 + 2048 * j), IDESC(128, 64) | (u32)!F(1) << 16, (n | j) != 0);  // @pv
                if (!F(6)) COMMIT(empty + 8 * s);
            }
            COMMIT(o_full);
        }
        __syncwarp();
    } else {
#pragma unroll 1
        for (int n = 0; n < BLOCKS; n++) {
            WAIT_RELAXED(s_full, n & 1);
            AFTER_SYNC();
            u32 v[64], t[32];
            for (int j = 0; j < 8; j++) TM_LD8(v + 8 * j, scores + mine + 8 * j);  // @s_ld
            TM_WAIT_LD();
            for (int j = 0; j < 32; j++)
                PTX("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(t[j]) : "f"(__uint_as_float(v[2 * j + 1])), "f"(__uint_as_float(v[2 * j])));
            for (int j = 0; j < 4; j++) TM_ST8(scores + mine + 8 * j, t + 8 * j);  // @s_st
            if (!F(9)) TM_WAIT_ST();
            BEFORE_SYNC();
            __syncwarp();
            if (lane == 0) ARRIVE_RELAXED(p_full);
        }
        TM_WAIT_ST();
        WAIT_RELAXED(o_full, 0);
        AFTER_SYNC();
        u32 v[64];
        for (int j = 0; j < 8; j++) TM_LD8(v + 8 * j, o + mine + 8 * j);
        TM_WAIT_LD();
        for (int j = 0; j < 64; j++) ST_SHARED(o0 + tid * 256 + 4 * j, v[j]);
        if (!F(13)) FENCE_ASYNC();
        if (!F(3)) __syncwarp();
        if (lane == 0) ARRIVE(rows);
    }
    BEFORE_SYNC();
    __syncthreads();
    AFTER_SYNC();
    if (warp == 5) TM_DEALLOC(tmem, 128);
}
