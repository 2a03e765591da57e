// D[64][16] = A[64][128] B[16][128]^T: cp.async into two stages, ldmatrix, mma.sync; four warps, 16 rows each.
//! 1 | group | no cp.async.commit_group: the wait waits for nothing | X004 X008 | lda ldb
//! 2 | group | cp.async.wait_group 2 leaves the stage that is read in flight | X004 X008 | lda ldb
//! 3 | barrier | no barrier after cp.async.wait_group: other threads' copies are read | X004 X008 | lda ldb
//! 4 | barrier | no barrier before a stage is filled again | X005 X008 | copya copyb
//! 5 | early overwrite | the next tile is copied into the stage that is read | X004 X005 X008 | copya copyb lda ldb
//! 6 | last trip | the last trip's wait leaves its stage in flight | X004 X008 | lda ldb
//! 7 | uninitialised | only half of B's rows are copied | R507 X004 | ldb mma out
//! 8 | uninitialised | ldmatrix reads beyond the rows that were copied | R507 X004 X008 X001 | lda mma out
//! 9 | divergence | half of a warp executes mma.sync | X011 X006 | mma
//! 10 | bounds | the last row of D lies outside of it | X001 | out
//! 11 | alignment | cp.async of 16 B at an address off 16 B | X002 | copya
//! 12 | uninitialised | the accumulators are registers that nothing has written | R507 | mma out
//! 13 | race | two warps store the same rows of D | X008 | out
//! 14 | divergence | a barrier that one warp does not reach in the last trip | X006 X010 X011 X008 X004 | sync lda ldb copya copyb
//! 15 | wait | no cp.async.wait_group at all | X004 X008 | lda ldb
#include "common.cuh"
#define TRIPS 4
extern "C" __global__ void __launch_bounds__(128) gemm_cpasync(const unsigned short *a, const unsigned short *b, float *d) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;  // a stage: A 64 rows of 80 B, B 16 rows of 80 B
    float c[8];
    if (!F(12))
        for (int i = 0; i < 8; i++) c[i] = 0;
    else
        for (int i = 0; i < 8; i++) asm volatile("{.reg .f32 t; mov.f32 %0, t;}" : "=f"(c[i]));
#define COPY(t, s)                                                                                                                 \
    const u32 stage = base + (s) * 6400;                                                                                           \
    const unsigned short *from = a + tid / 4 * 128 + (t) * 32 + tid % 4 * 8 + PICK(11, 1, 0), *of_b = b + tid / 4 * 128 + (t) * 32 + tid % 4 * 8
    {
        COPY(0, 0);
        CP_ASYNC(stage + tid / 4 * 80 + tid % 4 * 16, from);  // @copya
        CP_ASYNC(stage + (tid / 4 + 32) * 80 + tid % 4 * 16, from + 32 * 128);  // @copya
        if (tid < PICK(7, 32, 64)) CP_ASYNC(stage + 5120 + tid / 4 * 80 + tid % 4 * 16, of_b);  // @copyb
        if (!F(1)) CP_COMMIT();
    }
#pragma unroll 1
    for (int t = 0; t < TRIPS; t++) {
        if (t + 1 < TRIPS) {
            COPY(t + 1, F(5) ? t & 1 : (t + 1) & 1);
            CP_ASYNC(stage + tid / 4 * 80 + tid % 4 * 16, from);  // @copya
            CP_ASYNC(stage + (tid / 4 + 32) * 80 + tid % 4 * 16, from + 32 * 128);  // @copya
            if (tid < PICK(7, 32, 64)) CP_ASYNC(stage + 5120 + tid / 4 * 80 + tid % 4 * 16, of_b);  // @copyb
            if (!F(1)) CP_COMMIT();
            if (F(2)) CP_WAIT(2); else if (!F(15)) CP_WAIT(1);
        } else {
            if (F(6)) CP_WAIT(1); else if (!F(15) && !F(2)) CP_WAIT(0);
        }
        if (!F(3) && !(F(14) && t == TRIPS - 1 && warp == 3)) __syncthreads();  // @sync
        const u32 now = base + (t & 1) * 6400;
        for (int k = 0; k < 2; k++) {
            u32 x[4], y[4];
            const u32 row = warp * 16 + lane % 16 + PICK(8, 2 * 64, 0);
            PTX("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(now + row * 80 + k * 32 + lane / 16 * 16) : "memory");  // @lda
            PTX("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]) : "r"(now + 5120 + (lane % 8 + lane / 16 * 8) * 80 + k * 32 + lane / 8 % 2 * 16) : "memory");  // @ldb
            if (!F(9) || lane < 16) {
                for (int n = 0; n < 2; n++)
                    PTX("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[4 * n]), "+f"(c[4 * n + 1]), "+f"(c[4 * n + 2]), "+f"(c[4 * n + 3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * n]), "r"(y[2 * n + 1]));  // @mma
            }
        }
        if (!F(4)) __syncthreads();  // @sync
    }
    for (int i = 0; i < 8; i++) {
        const u32 row = PICK(13, warp / 2, warp) * 16 + lane / 4 + (i & 2) * 4 + PICK(10, 1, 0), column = lane % 4 * 2 + (i & 1) + i / 4 * 8;
        d[row * 16 + column] = c[i];  // @out
    }
}
