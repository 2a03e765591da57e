// O[128][64] = relu(Q K^T) V for K and V of 192 rows in blocks of 64. Tensor memory has the scores of two blocks. Four warps make P of them, and store it as bf16 in
// tensor memory; the second product reads its A there. Waits between tcgen05 instructions alone are relaxed, with tcgen05.fence.
//! 1 | wait::st | the arrival for P comes before tcgen05.wait::st | X012 | pv
//! 2 | tcgen05.fence | no tcgen05.fence::before_thread_sync after the stores of P | X012 | pv
//! 3 | tcgen05.fence | no tcgen05.fence::after_thread_sync before the product that reads P | X012 | pv
//! 4 | wait | the scores are read before they are complete | X012 | lds
//! 5 | overlap | P lies in the columns of the next block's scores | X012 X017 | pv qk stp lds
//! 6 | wait | the first product does not wait for Q | X004 | qk
//! 7 | wait | O is read before the last product is complete | X012 | ldo
//! 8 | dealloc | the columns are given back before other warps have read O | X012 X009 | dealloc ldo
//! 9 | count | P counts as ready when three of four warps have stored it | X012 | pv
//! 10 | phase | the parity for P never changes | X012 X006 | pv s_wait stp
//! 12 | commit | the scores of a block are committed before the product that makes them | X012 | lds qk
//! 13 | wait | the warps store P of the block after next while the product reads the last | X012 | stp lds
//! 14 | uninitialised | the first block's product adds to an O that no thread has written | R507 | pv
//! 15 | lost | every block's product begins O anew | X017 | pv
//! 16 | wait | no thread waits for V | X004 | pv
//! 17 | overlap | O lies in the columns of P | X012 X017 R507 | pv stp
//! 18 | lanes | one warp stores P in the columns after its own | R507 X012 X009 | pv stp
#include "tcgen05.cuh"
#define BLOCKS 3
extern "C" __global__ void __launch_bounds__(192) tc_attention(const __grid_constant__ Map mq, const __grid_constant__ Map mk, const __grid_constant__ Map mv, float *out) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const u32 q0 = base, k0 = q0 + 16384, v0 = k0 + BLOCKS * 8192, bars = v0 + BLOCKS * 8192;
    const u32 q_full = bars, k_full = bars + 8, v_full = k_full + 8 * BLOCKS, s_full = v_full + 8 * BLOCKS, p_full = s_full + 16, o_full = p_full + 16, slot = o_full + 8;
    if (tid == 128) {
        MBAR_INIT(q_full, 1);
        for (int i = 0; i < BLOCKS; i++) {
            MBAR_INIT(k_full + 8 * i, 1);
            MBAR_INIT(v_full + 8 * i, 1);
        }
        for (int i = 0; i < 2; i++) {
            MBAR_INIT(s_full + 8 * i, 1);
            MBAR_INIT(p_full + 8 * i, PICK(9, 3, 4));
        }
        MBAR_INIT(o_full, 1);
        FENCE_INIT();
    }
    if (warp == 5) {
        TM_ALLOC(slot, 256);
        TM_RELINQUISH();
    }
    BEFORE_SYNC();
    __syncthreads();
    AFTER_SYNC();
    u32 tmem;
    LD_SHARED(tmem, slot);
    const u32 scores = tmem, p = F(5) ? tmem + 64 : tmem + 128, o = F(17) ? tmem + 128 : tmem + 192;  // 64 columns a block, 32 a block, 64
    if (warp == 4) {
        if (lane == 0) {
            EXPECT(q_full, 16384);
            LOAD_2D(q0, &mq, 0, 0, q_full);
            for (int i = 0; i < BLOCKS; i++) {
                EXPECT(k_full + 8 * i, 8192);
                LOAD_2D(k0 + i * 8192, &mk, 0, i * 64, k_full + 8 * i);
                EXPECT(v_full + 8 * i, 8192);
                LOAD_2D(v0 + i * 8192, &mv, i * 64, 0, v_full + 8 * i);
            }
        }
    } else if (warp == 5) {
        if (lane == 0) {
            if (!F(6)) WAIT(q_full, 0);
#pragma unroll 1
            for (int n = 0; n <= BLOCKS; n++) {
                if (n < BLOCKS) {  // the scores of block n
                    const int b = n & 1;
                    WAIT(k_full + 8 * n, 0);
                    // Block n - 2's scores were read: the wait for its P, two trips ago, says so.
                    AFTER_SYNC();
                    if (F(12)) COMMIT(s_full + 8 * b);
                    for (int j = 0; j < 4; j++) MMA(scores + 64 * b, TC_DESCRIPTOR(q0 + 32 * j), TC_DESCRIPTOR(k0 + n * 8192 + 32 * j), IDESC(128, 64), j != 0);  // @qk
                    if (!F(12)) COMMIT(s_full + 8 * b);
                }
                if (n > 0) {  // the product of block n - 1
                    const int m = n - 1, b = m & 1;
                    if (!F(16)) WAIT(v_full + 8 * m, 0);
                    WAIT_RELAXED(p_full + 8 * b, F(10) ? 0 : m / 2 & 1);  // @p_wait
                    if (!F(3)) AFTER_SYNC();
                    for (int j = 0; j < 4; j++) MMA_TM(o, p + 32 * b + 8 * j, TC_DESCRIPTOR(v0 + m * 8192 + 32 * j), IDESC(128, 64), F(14) || (!F(15) && (m | j) != 0));  // @pv
                }
            }
            COMMIT(o_full);
        }
        __syncwarp();
    } else {
        const u32 mine = warp << 21;
#pragma unroll 1
        for (int n = 0; n < BLOCKS; n++) {
            const int b = n & 1;
            if (!F(4) && !(F(13) && n >= 2)) WAIT_RELAXED(s_full + 8 * b, n / 2 & 1);  // @s_wait
            AFTER_SYNC();
            u32 s[64];
            for (int j = 0; j < 8; j++) TM_LD8(s + 8 * j, scores + 64 * b + mine + 8 * j);  // @lds
            TM_WAIT_LD();
            u32 t[32];
            for (int j = 0; j < 32; j++) {
                const float lo = fmaxf(__uint_as_float(s[2 * j]), 0.f), hi = fmaxf(__uint_as_float(s[2 * j + 1]), 0.f);
                PTX("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(t[j]) : "f"(hi), "f"(lo));
            }
            for (int j = 0; j < 4; j++) TM_ST8(p + 32 * b + mine + 8 * j + (F(18) && warp == 1 ? 32 - 64 * b : 0), t + 8 * j);  // @stp
            if (!F(1)) TM_WAIT_ST();
            if (!F(2)) BEFORE_SYNC();
            __syncwarp();
            if (lane == 0) ARRIVE_RELAXED(p_full + 8 * b);
            if (F(1)) TM_WAIT_ST();
        }
        if (!F(7)) WAIT_RELAXED(o_full, 0);
        AFTER_SYNC();
#pragma unroll 1
        for (int j = 0; j < 64; j += 8) {
            u32 v[8];
            TM_LD8(v, o + mine + j);  // @ldo
            TM_WAIT_LD();
            for (int k = 0; k < 8; k++) out[tid * 64 + j + k] = __uint_as_float(v[k]);
        }
    }
    if (!F(8)) {
        BEFORE_SYNC();
        __syncthreads();
        AFTER_SYNC();
    }
    if (warp == 5) TM_DEALLOC(tmem, 256);  // @dealloc
}
