// Four CTAs each sum a quarter of 1024 columns of 128 rows into a workspace in global memory; the last one that takes a ticket adds the four parts.
//! 1 | fence | no __threadfence between the parts and the ticket | X008 X018 X021 X022 X023 | part collect ticket
//! 2 | scope | __threadfence_block: only this CTA is promised to see the parts | X008 X018 X021 X022 X023 | part collect ticket
//! 3 | barrier | the ticket is taken before other warps have stored their parts | X008 X018 X021 X022 X023 | part collect ticket
//! 4 | barrier | "am I the last" is read without a barrier | X008 R507 | islast putlast
//! 5 | atomics | the ticket is a plain read and write | X008 X018 X021 X022 X023 | plain
//! 6 | count | the last CTA but one adds the parts, before those of the last CTA are stored | X008 X018 X021 X022 X023 R507 | collect part
//! 7 | uninitialised | the parts of a fifth CTA, which does not exist, are added | R507 X001 | collect out
//! 8 | race | every CTA adds the parts, not only the last one | X008 X018 X021 X022 X023 R507 | collect out part
//! 9 | race | two CTAs store their parts to one place | X008 X018 X021 X022 X023 | part
//! 10 | fence | the last CTA does not acquire: no fence after the ticket | X008 X018 X021 X022 X023 | collect
//! 11 | scope | the ticket's atomic has .cta scope | X008 X018 X021 X022 X023 | ticket collect
//! 12 | bounds | the quarters of the sum begin one column too far | X001 | load
#include "common.cuh"
extern "C" __global__ void __launch_bounds__(128) splitk(const u32 *x, u32 *parts, u32 *tickets, u32 *out) {
    __shared__ u32 last;
    const u32 tid = threadIdx.x;
    u32 sum = 0;
#pragma unroll 1
    for (int i = 0; i < 8; i++) sum += x[tid * 32 + blockIdx.x * 8 + i + PICK(12, 1, 0)];  // @load
    PTX("st.global.u32 [%0], %1;" ::"l"(parts + (F(9) ? blockIdx.x / 2 : blockIdx.x) * 128 + tid), "r"(sum) : "memory");  // @part
    if (F(2)) PTX("fence.acq_rel.cta;" ::: "memory"); else if (!F(1)) PTX("fence.acq_rel.gpu;" ::: "memory");
    if (!F(3)) __syncthreads();
    if (tid == 0) {
        u32 ticket = 0;
        if (F(5)) { ticket = *(volatile u32 *)tickets; *(volatile u32 *)tickets = ticket + 1; }  // @plain
        else if (F(11)) PTX("atom.relaxed.cta.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(tickets) : "memory");  // @ticket
        else PTX("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(tickets) : "memory");  // @ticket
        if (!F(10)) PTX("fence.acq_rel.gpu;" ::: "memory");
        ST_SHARED(at(&last), ticket == PICK(6, 2, 3) ? 1 : 0);  // @putlast
    }
    if (!F(4)) __syncthreads();
    u32 is_last;
    LD_SHARED(is_last, at(&last));  // @islast
    if (is_last || F(8)) {
        sum = 0;
        for (int i = 0; i < PICK(7, 5, 4); i++) {
            u32 part;
            PTX("ld.global.u32 %0, [%1];" : "=r"(part) : "l"(parts + i * 128 + tid) : "memory");  // @collect
            sum += part;
        }
        out[tid] = sum;  // @out
    }
}
