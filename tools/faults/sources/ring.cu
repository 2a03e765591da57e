// Two warps produce, two consume, through a ring of two slots of 256 B with full and empty mbarriers, ordinary loads and stores.
//! 1 | wait | the producers do not wait for a slot to be empty | X008 X005 X010 X006 | put get full
//! 2 | wait | the consumers do not wait for a slot to be full | X008 R507 | get
//! 3 | arrive | the consumers never free a slot | X006 | empty full
//! 4 | count | the full barrier counts one warp of two | X008 X010 R507 X006 | get initfull putarrive full
//! 5 | phase | the consumers' parity never changes | X008 X006 | get put full
//! 6 | arrive | the producers arrive before they store | X008 R507 | get put
//! 7 | order | the producers arrive .relaxed | X008 | get
//! 8 | wait | test_wait once, its answer thrown away | X008 R507 | get
//! 9 | barrier | no barrier after mbarrier.init | X010 X008 X006 | empty full init putarrive getarrive
//! 10 | index | the consumers read the other slot | X008 R507 | get
//! 11 | reuse | an mbarrier's words are overwritten with data at the end, while consumers still wait | X010 X008 X006 | data full
//! 12 | arrive | one warp arrives twice: a phase ends before the other has stored | X008 X010 X006 R507 | get putarrive twice full empty
//! 13 | last trip | the last slot is read without a wait | X008 | get
//! 14 | order | the consumers wait .relaxed and no fence follows | X008 | get
//! 15 | last trip | the producers do not wait for the last slot to be empty | X008 X006 | put full
#include "common.cuh"
#define TRIPS 5
extern "C" __global__ void __launch_bounds__(128) ring(const u32 *x, u32 *y) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, lane = tid % 32, t64 = tid % 64, full = base + 1024, empty = full + 16;
    if (tid == 0) {
        for (int s = 0; s < 2; s++) {
            MBAR_INIT(full + 8 * s, PICK(4, 1, 2));  // @initfull
            MBAR_INIT(empty + 8 * s, 2);  // @init
        }
    }
    if (!F(9)) __syncthreads();
    if (tid < 64) {
#pragma unroll 1
        for (int t = 0; t < TRIPS; t++) {
            const u32 s = t % 2;
            if (!F(1) && !(F(15) && t == TRIPS - 1)) WAIT(empty + 8 * s, (t / 2 & 1) ^ 1);  // @empty
            u32 value;
            PTX("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(x + t * 64 + t64) : "memory");
            if (F(6) && lane == 0) ARRIVE(full + 8 * s);
            ST_SHARED(base + s * 256 + t64 * 4, value);  // @put
            __syncwarp();
            if (lane == 0 && F(7)) PTX("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(full + 8 * s) : "memory");  // @putarrive
            else if (lane == 0 && !F(6)) ARRIVE(full + 8 * s);  // @putarrive
            if (F(12) && tid == 0 && t == 2) ARRIVE(full + 8 * s);  // @twice
        }
        if (F(11) && tid == 0) ST_SHARED(full, 77);  // @data
    } else {
#pragma unroll 1
        for (int t = 0; t < TRIPS; t++) {
            const u32 s = t % 2, parity = F(5) ? 0 : t / 2 & 1;
            if (F(8)) PTX("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%0], %1;\n}" ::"r"(full + 8 * s), "r"(parity) : "memory");
            else if (F(14)) PTX("{\n.reg .pred p;\nW%=:\nmbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%0], %1;\n@!p bra W%=;\n}" ::"r"(full + 8 * s), "r"(parity) : "memory");
            else if (!F(2) && !(F(13) && t == TRIPS - 1)) WAIT(full + 8 * s, parity);  // @full
            u32 value;
            LD_SHARED(value, base + (F(10) ? s ^ 1 : s) * 256 + (63 - t64) * 4);  // @get
            __syncwarp();
            if (!F(3) && lane == 0) ARRIVE(empty + 8 * s);  // @getarrive
            y[t * 64 + t64] = value;
        }
    }
}
