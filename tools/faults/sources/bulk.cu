// Two CTAs. In each, cp.async.bulk loads four blocks of 1024 B into two buffers. The blocks are doubled in place, stored by a bulk store, and added to a sum.
//! 1 | bytes | a bulk copy of 1000 B | A103 X015 T210 | load expect
//! 2 | wait | the blocks are read before they have arrived | X004 | read
//! 3 | bytes | the barrier expects half of what comes | T210 X004 X010 | expect load read
//! 4 | proxy | no fence.proxy.async between the stores and the bulk store | X003 | store add
//! 5 | early overwrite | a buffer is loaded again while its bulk store may read it | X005 | load
//! 6 | group | the stores are never committed, so the wait does nothing | X005 | load store add
//! 7 | ending | the CTA ends while the last bulk stores may read its shared memory | X005 | store add
//! 8 | ending | a bulk load that no thread waits for, and the CTA ends | X005 X004 | extra
//! 9 | bounds | the last block lies beyond the array | X001 | load store
//! 10 | barrier | the bulk store does not wait for other warps | X008 X003 | store
//! 11 | alignment | the second buffer lies off 16 B | A101 X002 A102 | load
//! 12 | reuse | an mbarrier is initialised twice without mbarrier.inval | X010 | init2
//! 13 | last trip | wait_group.read 2 before the last block is loaded | X005 | load
//! 14 | inval | mbarrier.inval while its bulk copy is pending | X010 X005 | inval load
//! 15 | race | two bulk loads write the same bytes | X005 X008 | twice load
//! 16 | init | mbarrier.init over a bulk copy in flight | X010 X005 | over load
//! 17 | group | the stored block is read after wait_group.read, which does not make it visible | X008 X004 | check
//! 18 | phase | the parity of the second round is that of the first | X004 X005 X006 | read write wait
//! 19 | reuse | an mbarrier's words are used as data without mbarrier.inval | X010 | data
//! 20 | early read | the second half of a block is read from the other buffer | X004 R507 X008 | read write
#include "common.cuh"
#define BLOCK 1024
#define TRIPS 4
extern "C" __global__ void __launch_bounds__(64) bulk(const u32 *x, u32 *y, u32 *sums, u32 *copy) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, second = PICK(11, BLOCK + 8, BLOCK), bars = base + 4096;
    const u32 *from = x + blockIdx.x * TRIPS * (BLOCK / 4);
    u32 *to = y + blockIdx.x * TRIPS * (BLOCK / 4);
    if (tid == 0) {
        MBAR_INIT(bars, 1);
        MBAR_INIT(bars + 8, 1);
        if (F(12)) MBAR_INIT(bars + 8, 1);  // @init2
        FENCE_INIT();
    }
    __syncthreads();
#pragma unroll 1
    for (int t = 0; t < TRIPS; t++) {
        const u32 buffer = base + t % 2 * second, bar = bars + t % 2 * 8;
        if (tid == 0) {
            if (t >= 2 && !F(5)) {
                if (F(13) && t == TRIPS - 1) BULK_WAIT_READ(2); else BULK_WAIT_READ(1);
            }
            EXPECT(bar, PICK(1, 1000, PICK(3, BLOCK / 2, F(15) ? 2 * BLOCK : BLOCK)));  // @expect
            BULK_LOAD(buffer, from + (t + PICK(9, 4, 0)) * (BLOCK / 4), PICK(1, 1000, BLOCK), bar);  // @load
            if (F(15)) BULK_LOAD(buffer, from, BLOCK, bar);  // @twice
            if (F(16) && t == 1) MBAR_INIT(bar, 1);  // @over
            if (F(14) && t == TRIPS - 1) MBAR_INVAL(bar);  // @inval
        }
        if ((F(14) && t == TRIPS - 1) || (F(16) && t == 1)) break;
        if (!F(2)) WAIT(bar, F(18) ? 0 : t / 2 & 1);  // @wait
        for (int i = 0; i < 4; i++) {
            u32 value;
            LD_SHARED(value, (F(20) && i >= 2 ? base + (t + 1) % 2 * second : buffer) + i * 256 + tid * 4);  // @read
            ST_SHARED(buffer + i * 256 + tid * 4, 2 * value);  // @write
        }
        if (!F(4)) FENCE_ASYNC();
        if (!F(10)) __syncthreads();
        if (tid == 0) {
            BULK_STORE(to + t * (BLOCK / 4), buffer, BLOCK);  // @store
            BULK_ADD(sums, buffer, BLOCK);  // @add
            if (!F(6)) BULK_COMMIT();
        }
    }
    if (tid == 0) {
        if (F(17)) BULK_WAIT_READ(0); else if (!F(7)) BULK_WAIT(0);
        if (F(8)) {
            BULK_WAIT(0);
            EXPECT(bars, BLOCK);
            BULK_LOAD(base, x, BLOCK, bars);  // @extra
        }
        copy[blockIdx.x] = F(7) ? 0 : ((volatile u32 *)to)[3 * (BLOCK / 4)];  // @check
    }
    if (F(19)) {
        __syncthreads();
        if (tid == 1) ST_SHARED(bars + 8, tid + 76);  // @data
    }
}
