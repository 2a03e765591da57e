// An inclusive prefix sum of 1024 numbers by eight CTAs with decoupled look-back. A CTA publishes its sum, and later the sum of all before it, each by a flag.
//! 1 | fence | no fence between the published sum and its flag | X008 X018 X021 X022 X023 | value takevalue
//! 2 | scope | the flag is stored with .cta scope | X008 X018 X021 X022 X023 | flag poll takevalue
//! 3 | weak | the flag is polled by a plain load | X008 X018 X021 X022 X023 | pollweak takevalue flag
//! 4 | fence | no fence between the flag that was seen and the sum that is read | X008 X018 X021 X022 X023 | takevalue
//! 5 | arrive before store | the flag is stored before the sum | X008 X018 X021 X022 X023 R507 | value takevalue
//! 6 | barrier | the sum of the earlier CTAs is read by other warps without a barrier | X008 R507 | use
//! 7 | uninitialised | flags of an uninitialised array are polled | R507 | poll polluninit
//! 8 | bounds | CTA 0 looks at the flag before the first one | X001 | poll
//! 9 | barrier | the warps' sums are added without a barrier | X008 R507 | warpsums
//! 10 | scope | the fence before the flag is that of the CTA | X008 X018 X021 X022 X023 | takevalue
//! 11 | early overwrite | the next tile's warp sums overwrite those that are read | X008 R507 | putwarp half warpsums
#include "common.cuh"
extern "C" __global__ void __launch_bounds__(64) lookback(const u32 *x, u32 *y, u32 *values, u32 *flags, const u32 *blank) {
    __shared__ u32 sums[2], front;
    const u32 tid = threadIdx.x, lane = tid % 32, tile = blockIdx.x;
    u32 v[2];
    for (int h = 0; h < 2; h++) {
        v[h] = x[tile * 128 + h * 64 + tid];
        for (int i = 1; i < 32; i *= 2) {
            const u32 other = __shfl_up_sync(~0u, v[h], i);
            if (lane >= i) v[h] += other;
        }
        if (lane == 31) ST_SHARED(at(sums + tid / 32), v[h]);  // @putwarp
        if (!F(9)) __syncthreads();
        u32 first, second;
        LD_SHARED(first, at(sums));  // @warpsums
        LD_SHARED(second, at(sums + 1));  // @warpsums
        if (tid >= 32) v[h] += first;
        if (h == 1) {
            u32 half;
            LD_SHARED(half, at(&front));  // @half
            v[1] += half;
        }
        if (h == 0 && tid == 0) ST_SHARED(at(&front), first + second);
        if (!F(11)) __syncthreads();
        if (h == 1) first += second;
    }
    const u32 total = v[1];
    if (tid == 63) {
        u32 before = 0;
        if (tile > 0 || F(8)) {
            u32 seen = 0;
            do {
                if (F(3)) PTX("ld.global.u32 %0, [%1];" : "=r"(seen) : "l"(flags + tile - 1) : "memory");  // @pollweak
                else if (F(7)) PTX("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(blank + tile - 1) : "memory");  // @polluninit
                else PTX("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flags + (int)tile - 1) : "memory");  // @poll
            } while (seen != 1 && !F(7));
            if (!F(4)) PTX("fence.acq_rel.gpu;" ::: "memory");
            PTX("ld.global.u32 %0, [%1];" : "=r"(before) : "l"(values + tile - 1) : "memory");  // @takevalue
            if (F(7) && seen != 1) before = 0;
        }
        if (F(5)) PTX("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(flags + tile) : "memory");  // @flag
        PTX("st.global.u32 [%0], %1;" ::"l"(values + tile), "r"(before + total) : "memory");  // @value
        if (F(10)) PTX("fence.acq_rel.cta;" ::: "memory"); else if (!F(1)) PTX("fence.acq_rel.gpu;" ::: "memory");
        if (F(2)) PTX("st.relaxed.cta.global.u32 [%0], 1;" ::"l"(flags + tile) : "memory");  // @flag
        else if (!F(5)) PTX("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(flags + tile) : "memory");  // @flag
        ST_SHARED(at(&front), before);
    }
    if (!F(6)) __syncthreads();
    u32 add;
    LD_SHARED(add, at(&front));  // @use
    y[tile * 128 + tid] = v[0] + add;
    y[tile * 128 + 64 + tid] = v[1] + add;
}
