// A histogram of 64 bins of 2048 numbers by two CTAs: bins in shared memory, then added to those in global memory.
//! 1 | uninitialised | the bins in shared memory are never zeroed | R507 | count flush add
//! 2 | barrier | warps count before the bins are zeroed | X008 R507 | count
//! 3 | barrier | the bins are added to the result while other warps still count | X008 | flush
//! 4 | atomics | bins are counted up by a plain read and write | X008 | plain
//! 5 | atomics | the result is counted up by a plain read and write of both CTAs | X008 X018 X021 X022 X023 | plainadd
//! 6 | bounds | bin 64 of 64: the word after the array in global memory | X001 | add
//! 7 | bounds | the last thread reads beyond the numbers | X001 | load
//! 8 | uninitialised | half of the bins are zeroed | R507 | count flush add
//! 9 | syncwarp | a warp's own bins are counted by its lanes and read without __syncwarp | X008 | mine
//! 10 | scope | atomics of both CTAs on the result have .cta scope | X008 X018 X021 X022 X023 | add
//! 11 | last trip | the last trip counts without an atomic | X008 | plain
//! 12 | race | zeroing is left to the second warp, which comes after the first has counted | X008 R507 | zero count
#include "common.cuh"
extern "C" __global__ void __launch_bounds__(64) histogram(const u32 *x, u32 *bins, u32 *order) {
    __shared__ u32 mine[64], turned[64];
    const u32 tid = threadIdx.x;
    if (F(8) ? tid < 32 : !F(1) && !F(12)) ST_SHARED(at(mine + tid), 0);
    if (F(12) && tid >= 32)
        for (int i = 0; i < 2; i++) ST_SHARED(at(mine + tid - 32 * i), 0);  // @zero
    if (!F(2) && !F(12)) __syncthreads();
#pragma unroll 1
    for (int t = 0; t < 16; t++) {
        u32 value;
        PTX("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(x + (blockIdx.x * 16 + t) * 64 + tid + PICK(7, 1, 0)) : "memory");  // @load
        const u32 bin = at(mine + (value & 63));
        if (F(4) || (F(11) && t == 15)) {
            u32 n;
            LD_SHARED(n, bin);  // @plain
            ST_SHARED(bin, n + 1);  // @plain
        } else
            PTX("red.shared.add.u32 [%0], 1;" ::"r"(bin) : "memory");  // @count
    }
    ST_SHARED(at(turned + tid), tid * 3);
    if (!F(9)) __syncwarp();
    u32 other;
    LD_SHARED(other, at(turned + (tid ^ 1)));  // @mine
    order[blockIdx.x * 64 + tid] = other;
    if (!F(3)) __syncthreads();
    u32 n;
    LD_SHARED(n, at(mine + 63 - tid));  // @flush
    u32 *to = bins + 63 - tid + PICK(6, 1, 0);
    if (F(5)) { u32 old = *(volatile u32 *)to; *(volatile u32 *)to = old + n; }  // @plainadd
    else if (F(10)) PTX("red.relaxed.cta.global.add.u32 [%0], %1;" ::"l"(to), "r"(n) : "memory");  // @add
    else PTX("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(n) : "memory");  // @add
}
