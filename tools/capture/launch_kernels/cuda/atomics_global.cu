// Atomic operations on global memory, all of them with results that no order of threads changes, and reductions (red).
#include "common.cuh"
KERNEL atomics_global(const u32 *in, u32 *words, u64 *longs, float *floats, double *doubles, u32 *halves, u32 *unique) {
    u32 x = in[THREAD], i = THREAD;
    atomicAdd(words + 0, x); atomicSub(words + 1, x); atomicMin(words + 2, x); atomicMax(words + 3, x);
    atomicMin((int *)words + 4, (int)x); atomicMax((int *)words + 5, (int)x); atomicAnd(words + 6, x | 0xff00ff00 | x << 7); atomicOr(words + 7, x & 0x01010101 << (x >> 29)); atomicXor(words + 8, x);
    atomicInc(words + 9, 99); atomicDec(words + 10, 70);
    atomicAdd(words + 16 + (x & 15), 1);
    atomicAdd(longs + 0, (u64)x * x); atomicMin(longs + 1, (u64)x << 20); atomicMax((s64 *)longs + 2, (s64)(int)x); atomicAnd(longs + 3, (u64)x << 32 | 0xf0f); atomicXor(longs + 4, (u64)x * 0x100000001);
    atomicAdd(floats + (x & 7), (float)(x >> 24)); atomicAdd(doubles + (x & 3), (double)(int)x);
    atomicAdd((half2 *)halves, __floats2half2_rn((float)(x & 3), 1.0f)); atomicAdd((__nv_bfloat162 *)halves + 1, __floats2bfloat162_rn(1.0f, (float)(x >> 31)));
    atomicAdd((half *)halves + 4, __float2half(0.5f)); atomicAdd((__nv_bfloat16 *)halves + 5, __float2bfloat16(0.25f));
    u32 ticket = atomicAdd(words + 11, 1);  // every thread gets another
    atomicExch(unique + ticket, 1);
    u32 old = words[12], assumed;  // addition by compare and swap
    do { assumed = old; old = atomicCAS(words + 12, assumed, assumed + (x & 0xff)); } while (old != assumed);
    u64 seen = longs[5], expected;
    do { expected = seen; seen = atomicCAS(longs + 5, expected, expected * 1 + (x >> 3)); } while (seen != expected);
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(words + 13), "r"(x) : "memory");
    asm volatile("red.release.sys.global.max.s32 [%0], %1;" ::"l"(words + 14), "r"(x) : "memory");
    asm volatile("{ .reg .u32 t; atom.acq_rel.cta.global.or.b32 t, [%0], %1; }" ::"l"(words + 15), "r"(1u << (x & 31)) : "memory");
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(floats + 8), "f"(1.0f), "f"(2.0f), "f"((float)(x & 7)), "f"(0.5f) : "memory");
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(floats + 12), "f"(3.0f), "f"(-1.0f) : "memory");
    asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %1, %2, %1};" ::"l"(halves + 4), "r"(0x3c003800), "r"(0x3400b400) : "memory");
    asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %1, %2, %1};" ::"l"(halves + 8), "r"(0x3f803f00), "r"(0x3e80be80) : "memory");
    unsigned short half_seen = ((u16 *)unique)[2 * THREADS + 2 * i], half_old;
    half_old = atomicCAS((unsigned short *)unique + 2 * THREADS + 2 * i, half_seen, (unsigned short)(x & 0x7fff));
    ((u16 *)unique)[2 * THREADS + 2 * i + 1] = half_old;
}
