// D[768][32] = A[768][64] B[32][64]^T in tiles of 128 rows, by persistent CTAs that take over the tiles of others (clusterlaunchcontrol). A warp asks for tiles, into a ring of
// two responses. A loading warp, a multiplying warp and four epilogue warps read them. A has two stages, and tensor memory two accumulators.
//! 1 | reuse | the next response is asked for before all have read the last one in its slot | X004 X005 X008 | ask answer
//! 2 | arrive | the epilogue frees the slot before it reads the response | X008 X005 X004 | ask answer
//! 3 | bytes | the mbarrier of the response expects no bytes | T210 X004 X006 | answer expect ask answer_wait
//! 4 | wait | the multiplying warp does not wait for the response | X004 | answer
//! 5 | count | a slot counts as free when five of six warps have read it | X008 X005 X004 | ask
//! 6 | ending | the CTA ends while a request is under way | X005 | ask extra
//! 7 | undefined | the first ctaid of a declined request is used, without a check that the request was granted | R507 X015 | answer ctaid
//! 8 | phase | the readers' parity does not change with the round | X004 X006 X005 | answer ask answer_wait
//! 9 | wait | a product does not wait for its accumulator to be read | X012 | mma
//! 10 | wait::ld | an accumulator is freed before tcgen05.wait::ld | X012 | mma
//! 11 | commit | the commit of a product arrives at the other accumulator's mbarrier | X012 X006 | ld done
//! 12 | issue | all lanes ask | T210 X006 X010 X005 X015 | ask expect answer answer_wait
//! 13 | dealloc | the columns are given back while the epilogue may read them | X012 | dealloc
//! 14 | overlap | the second accumulator begins in the first one's columns | X012 X017 | mma ld
//! 15 | wait | the loading warp does not wait for a stage to be empty | X005 | load
//! 17 | tcgen05.fence | no tcgen05.fence::after_thread_sync after the relaxed wait for the product | X012 | ld
//! 18 | alignment | the responses lie off 16 B | X002 X001 | ask
#include "tcgen05.cuh"
#define TRY_CANCEL(to, bar) PTX("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(to), "r"(bar) : "memory")
#define ANSWER(granted, tile, from, always)                                                                                        \
    PTX("{\n.reg .b128 h;\n.reg .pred p, q;\nld.shared.b128 h, [%2];\nclusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, h;\nselp.u32 %0, 1, 0, p;\n" \
        "setp.ne.b32 q, %3, 0;\nor.pred q, p, q;\nmov.u32 %1, 0;\n@q clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, h;\n}" \
        : "=r"(granted), "=r"(tile) : "r"(from), "r"((int)(always)) : "memory")
extern "C" __global__ void __launch_bounds__(224) tc_clc(const __grid_constant__ Map ma, const __grid_constant__ Map mb, float *d) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const u32 a0 = base, b0 = a0 + 2 * 16384, answers = b0 + 4096 + (F(18) ? 8 : 0), bars = b0 + 4096 + 48;
    const u32 told = bars, heard = told + 16, b_full = heard + 16, full = b_full + 8, empty = full + 16, done = empty + 16, freed = done + 16, slot = freed + 16, spare = slot + 8;
    if (tid == 128) {
        for (int i = 0; i < 2; i++) {
            MBAR_INIT(told + 8 * i, 1);
            MBAR_INIT(heard + 8 * i, PICK(5, 5, 6));
            MBAR_INIT(full + 8 * i, 1);
            MBAR_INIT(empty + 8 * i, 1);
            MBAR_INIT(done + 8 * i, 1);
            MBAR_INIT(freed + 8 * i, 4);
        }
        MBAR_INIT(b_full, 1);
        MBAR_INIT(spare, 1);
        FENCE_INIT();
    }
    if (warp == 5) {
        TM_ALLOC(slot, 64);
        TM_RELINQUISH();
    }
    BEFORE_SYNC();
    __syncthreads();
    AFTER_SYNC();
    u32 tmem;
    LD_SHARED(tmem, slot);
    const u32 other = PICK(14, 16, 32);
    if (warp == 6) {
        if (lane == 0 || F(12)) {
            u32 granted = 1, tile;
#pragma unroll 1
            for (int n = 0; granted; n++) {
                const u32 b = n & 1;
                if (!F(1)) WAIT(heard + 8 * b, (n / 2 & 1) ^ 1);
                if (F(3)) ARRIVE(told + 8 * b); else EXPECT(told + 8 * b, 16);  // @expect
                TRY_CANCEL(answers + 16 * b, told + 8 * b);  // @ask
                WAIT(told + 8 * b, n / 2 & 1);
                ANSWER(granted, tile, answers + 16 * b, 0);  // @answer
                if (F(6) && !granted) {
                    EXPECT(spare, 16);
                    TRY_CANCEL(answers + 32, spare);  // @extra
                }
            }
        }
    } else {
        u32 tile = blockIdx.x, granted = 1;
        if (warp == 4 && lane == 0) {
            EXPECT(b_full, 4096);
            LOAD_2D(b0, &mb, 0, 0, b_full);
        }
        if (warp == 5 && lane == 0) WAIT(b_full, 0);
#pragma unroll 1
        for (int n = 0; granted; n++) {
            const u32 b = n & 1, round = n / 2 & 1;
            if (warp == 4) {
                if (lane == 0) {
                    if (!F(15)) WAIT(empty + 8 * b, round ^ 1);
                    EXPECT(full + 8 * b, 16384);
                    LOAD_2D(a0 + b * 16384, &ma, 0, tile * 128, full + 8 * b);  // @load
                }
            } else if (warp == 5) {
                if (lane == 0) {
                    if (!F(9)) WAIT_RELAXED(freed + 8 * b, round ^ 1);
                    WAIT(full + 8 * b, round);
                    AFTER_SYNC();
                    for (int j = 0; j < 4; j++) MMA(tmem + other * b, TC_DESCRIPTOR(a0 + b * 16384 + 32 * j), TC_DESCRIPTOR(b0 + 32 * j), IDESC(128, 32), j != 0);  // @mma
                    COMMIT(empty + 8 * b);
                    COMMIT(done + 8 * (F(11) ? b ^ 1 : b));
                }
            } else {
                WAIT_RELAXED(done + 8 * b, round);  // @done
                if (!F(17)) AFTER_SYNC();
                u32 v[32];
                for (int j = 0; j < 4; j++) TM_LD8(v + 8 * j, tmem + (warp << 21) + other * b + 8 * j);  // @ld
                if (!F(10)) TM_WAIT_LD();
                BEFORE_SYNC();
                __syncwarp();
                if (lane == 0) ARRIVE_RELAXED(freed + 8 * b);
                if (F(10)) TM_WAIT_LD();
                float *to = d + (tile * 128 + tid) * 32;
                for (int j = 0; j < 32; j++) to[j] = __uint_as_float(v[j]);
            }
            if (!(F(4) && warp == 5)) WAIT(told + 8 * b, F(8) ? 0 : round);  // @answer_wait
            if (F(2) && warp < 4 && lane == 0) ARRIVE(heard + 8 * b);
            ANSWER(granted, tile, answers + 16 * b, F(7));  // @answer
            if (F(7)) granted = tile != 0;  // @ctaid
            FENCE_ASYNC();
            __syncwarp();
            if (!(F(2) && warp < 4) && lane == 0) ARRIVE(heard + 8 * b);
        }
    }
    if (!F(13)) {
        BEFORE_SYNC();
        __syncthreads();
        AFTER_SYNC();
    }
    if (warp == 5) TM_DEALLOC(tmem, 64);  // @dealloc
}
