// D[512][64] = A[512][256] B[64][256]^T by a cluster of four CTAs in two pairs. The even CTA of a pair executes tcgen05.mma.cta_group::2 with M 256. Each CTA loads 128 rows of A, and
// by multicast 16 rows of B, also for the CTA of the other pair that reads them. Loads count at the mbarriers of the even CTA, commits at all.
//! 1 | barrier | mbarriers are used by other CTAs before their initialisation is known there | X008 | load loadb expect empty commit_empty commit_done init
//! 2 | count | a stage counts as free when the own pair has read it | X005 X004 | loadb
//! 3 | bytes | the even CTA expects its own bytes alone | T210 X004 | expect load loadb mma
//! 4 | mask | the commit of a stage reaches the even CTAs alone | X006 | empty full
//! 5 | mask | the commit of the product reaches the other pair | X012 | ld
//! 6 | ending | CTAs give the columns back and leave while others may still read them, load into, or arrive at, their shared memory | X012 X005 X008 T210 X010 | dealloc load loadb commit_done commit_empty end
//! 7 | dealloc | the columns are given back before the product is waited for | X012 X009 | dealloc ld
//! 8 | alloc | the columns are allocated for one CTA, the product is the pair's | X015 X009 | mma alloc
//! 9 | tcgen05.fence | no tcgen05.fence::after_thread_sync after the relaxed wait for the product | X012 | ld
//! 10 | rank | the odd CTA's loads count at its own mbarrier | X006 T210 | load loadb full expect
//! 11 | issue | both CTAs of a pair issue its products, the odd one without a wait | X012 X016 X004 | mma
//! 12 | coordinates | the halves of B are exchanged between the CTAs of a pair | R508 R502 | loadb mma
//! 13 | barrier | barrier.cluster.arrive.relaxed, without fence.mbarrier_init, hands on the mbarriers | X008 | load loadb expect empty commit_empty commit_done init
//! 14 | phase | the producers' first wait has the consumers' parity | X006 | empty full
//! 15 | dealloc | the even CTA alone gives the columns back | X009 | dealloc alloc
//! 16 | mask | the multicast reaches the loading CTA alone | X006 T210 X004 | loadb full expect
//! 17 | wait | no thread waits for the loads | X004 | mma
//! 18 | wait | the odd CTA's epilogue does not wait for the product | X012 | ld
//! 19 | commit | the product is committed for its own CTA alone, without multicast | X006 | done
//! 20 | commit | tcgen05.commit.cta_group::1 after products of the pair | X009 X012 X015 | commit_done commit_empty ld
//! 21 | last trip | the last wait for a stage is left out | X004 | mma
#include "tcgen05.cuh"
#define STAGES 2
#define TRIPS 4
#define PEER 0xFEFFFFFFu  // without the lowest bit of the rank: the even CTA's
#define LOAD_PAIR(to, map, x, y, bar)                                                                                              \
    PTX("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), \
        "l"(map), "r"(x), "r"(y), "r"(bar) : "memory")
#define LOAD_PAIR_MULTICAST(to, map, x, y, bar, mask)                                                                              \
    PTX("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" \
        ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar), "h"((unsigned short)(mask)) : "memory")
extern "C" __global__ void __launch_bounds__(192) tc_pair(const __grid_constant__ Map ma, const __grid_constant__ Map mb, float *d) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const u32 pair = rank / 2, odd = rank & 1;
    const u32 a0 = base, b0 = a0 + STAGES * 16384, full = b0 + STAGES * 4096, empty = full + 8 * STAGES, done = empty + 8 * STAGES, slot = done + 8;
    CLUSTER_ARRIVE_RELAXED(); CLUSTER_WAIT();  // both CTAs of a pair have begun before they allocate
    if (tid == 128) {
        for (int s = 0; s < STAGES; s++) {
            MBAR_INIT(full + 8 * s, 1);  // @init
            MBAR_INIT(empty + 8 * s, PICK(2, 1, 2));  // @init
        }
        MBAR_INIT(done, 1);  // @init
        if (!F(13)) FENCE_INIT();
    }
    if (warp == 5) {
        if (F(8)) {
            TM_ALLOC(slot, 64);  // @alloc
        } else {
            TM_ALLOC_PAIR(slot, 64);  // @alloc
            TM_RELINQUISH_PAIR();
        }
    }
    BEFORE_SYNC();
    __syncthreads();
    if (F(13)) {
        CLUSTER_ARRIVE_RELAXED();
        CLUSTER_WAIT();
    } else if (!F(1)) {
        CLUSTER_ARRIVE();
        CLUSTER_WAIT();
    }
    AFTER_SYNC();
    u32 tmem;
    LD_SHARED(tmem, slot);
    if (warp == 4) {
        if (lane == 0) {
#pragma unroll 1
            for (int n = 0; n < TRIPS; n++) {
                const int s = n % STAGES;
                const u32 bar = F(10) ? full + 8 * s : full + 8 * s & PEER;
                WAIT(empty + 8 * s, F(14) ? n / STAGES & 1 : (n / STAGES & 1) ^ 1);  // @empty
                if (!odd) EXPECT(full + 8 * s, PICK(3, 20480, 40960));  // @expect
                LOAD_PAIR(a0 + s * 16384, &ma, n * 64, rank * 128, bar);  // @load
                LOAD_PAIR_MULTICAST(b0 + s * 4096 + pair * 2048, &mb, n * 64, (F(12) ? odd ^ 1 : odd) * 32 + pair * 16, bar, F(16) ? 1 << rank : 5 << odd);  // @loadb
            }
        }
    } else if (warp == 5) {
        if (lane == 0 && (!odd || F(11))) {
#pragma unroll 1
            for (int n = 0; n < TRIPS; n++) {
                const int s = n % STAGES;
                if (!F(17) && !(F(11) && odd) && !(F(21) && n == TRIPS - 1)) WAIT(full + 8 * s, n / STAGES & 1);  // @full
                for (int j = 0; j < 4; j++) {
                    MMA_PAIR(tmem, TC_DESCRIPTOR(a0 + s * 16384 + 32 * j), TC_DESCRIPTOR(b0 + s * 4096 + 32 * j), IDESC(256, 64), (n | j) != 0);  // @mma
                }
                COMMIT_PAIR(empty + 8 * s, F(2) ? 3 << (2 * pair) : F(4) ? 5 : 15);  // @commit_empty
            }
            if (F(20)) COMMIT(done);  // @commit_done
            else COMMIT_PAIR(done, F(5) ? 3 << (2 * (pair ^ 1)) : F(19) ? 1 << rank : 3 << (2 * pair));  // @commit_done
        }
        __syncwarp();
        if (F(7)) TM_DEALLOC_PAIR(tmem, 64);  // @dealloc
    } else {
        if (!(F(18) && odd)) WAIT_RELAXED(done, 0);  // @done
        if (!F(9)) AFTER_SYNC();
        float *to = d + (rank * 128 + tid) * 64;
#pragma unroll 1
        for (int j = 0; j < 64; j += 8) {
            u32 v[8];
            TM_LD8(v, tmem + (warp << 21) + j);  // @ld
            TM_WAIT_LD();
            for (int k = 0; k < 8; k++) to[j + k] = __uint_as_float(v[k]);
        }
    }
    BEFORE_SYNC();
    if (F(6)) __syncthreads();
    else { CLUSTER_ARRIVE(); CLUSTER_WAIT(); }  // the columns are the pair's: both CTAs have read them
    AFTER_SYNC();
    if (warp == 5 && !F(7) && !(F(15) && odd)) {
        if (F(8)) TM_DEALLOC(tmem, 64);  // @dealloc
        else TM_DEALLOC_PAIR(tmem, 64);  // @dealloc
    }
}  // @end
