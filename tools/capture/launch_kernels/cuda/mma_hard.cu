// mma.sync and mma.sp of floats on numbers that are hard to sum: every type, shape and selector, and m8n8k4 in every layout. Each result is stored as
// the registers stand.
#include "mma_hard.cuh"
#define A4 "{%4, %5, %6, %7}"
#define IN4 IN(a, 0), IN(a, 1), IN(a, 2), IN(a, 3), IN(b, 0), IN(b, 1)
#define WIDE(shape) asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, " A4 ", {%8, %9}, {%10, %11, %12, %13};" : F32_OUT : IN4, IN(c, 0), IN(c, 1), IN(c, 2), IN(c, 3)); PUT4;
#define NARROW(shape) asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5}, {%8}, {%10, %11, %12, %13};" : F32_OUT : IN4, IN(c, 0), IN(c, 1), IN(c, 2), IN(c, 3)); PUT4;
#define WIDE_HALF(shape) asm volatile("mma.sync.aligned." shape " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};" : "=r"(d[0]), "=r"(d[1]) : IN4, IN(h, 0), IN(h, 1)); PUT2;
#define NARROW_HALF(shape) asm volatile("mma.sync.aligned." shape " {%0, %1}, {%2, %3}, {%6}, {%8, %9};" : "=r"(d[0]), "=r"(d[1]) : IN4, IN(h, 0), IN(h, 1)); PUT2;
#define IN8 IN(a, 0), IN(a, 1), IN(a, 2), IN(a, 3), IN(b, 0), IN(b, 1), IN(b, 2), IN(b, 3)
#define C4 IN(c, 0), IN(c, 1), IN(c, 2), IN(c, 3)
#define SP_WIDE(sp, shape, selector) asm volatile("mma." sp ".sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, " selector ";" : F32_OUT : IN8, C4, "r"(e)); PUT4;
#define SP_NARROW(sp, shape, selector) asm volatile("mma." sp ".sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5}, {%8, %9}, {%12, %13, %14, %15}, %16, " selector ";" : F32_OUT : IN8, C4, "r"(e)); PUT4;
#define SP_WIDE_HALF(sp, shape, selector) asm volatile("mma." sp ".sync.aligned." shape " {%0, %1}, {%2, %3, %4, %5}, {%6, %7, %8, %9}, {%10, %11}, %12, " selector ";" : "=r"(d[0]), "=r"(d[1]) : IN8, IN(h, 0), IN(h, 1), "r"(e)); PUT2;
#define SP_NARROW_HALF(sp, shape, selector) asm volatile("mma." sp ".sync.aligned." shape " {%0, %1}, {%2, %3}, {%6, %7}, {%10, %11}, %12, " selector ";" : "=r"(d[0]), "=r"(d[1]) : IN8, IN(h, 0), IN(h, 1), "r"(e)); PUT2;
#define TWO_ALIKE(FORM, shape) FORM("sp", shape, "0x0") FORM("sp::ordered_metadata", shape, "0x0")
#define FOUR(FORM, shape) FORM("sp", shape, "0x0") FORM("sp", shape, "0x1") FORM("sp", shape, "0x2") FORM("sp::ordered_metadata", shape, "0x3")
#define TWO(FORM, shape) FORM("sp", shape, "0x0") FORM("sp::ordered_metadata", shape, "0x1")
#define QUAD_IN IN(a, 0), IN(a, 1), IN(b, 0), IN(b, 1)
#define C8 IN(c, 0), IN(c, 1), IN(c, 2), IN(c, 3), IN(c, 4), IN(c, 5), IN(c, 6), IN(c, 7)
#define D8 "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]), "=r"(d[4]), "=r"(d[5]), "=r"(d[6]), "=r"(d[7])
#define PUT8 PUT4, PUT(d[4]), PUT(d[5]), PUT(d[6]), PUT(d[7])
#define QUAD_HALF(layout) asm volatile("mma.sync.aligned.m8n8k4." layout ".f16.f16.f16.f16 {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11};" : F32_OUT : QUAD_IN, IN(h, 0), IN(h, 1), IN(h, 2), IN(h, 3)); PUT4;
#define QUAD_MIXED(layout) asm volatile("mma.sync.aligned.m8n8k4." layout ".f32.f16.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%12, %13, %14, %15};" : D8 : QUAD_IN, IN(h, 0), IN(h, 1), IN(h, 2), IN(h, 3)); PUT8;
#define QUAD_SINGLE(layout) asm volatile("mma.sync.aligned.m8n8k4." layout ".f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%12, %13, %14, %15, %16, %17, %18, %19};" : D8 : QUAD_IN, C8); PUT8;
#define QUAD_EVERY(layout) QUAD_HALF(layout) QUAD_MIXED(layout) QUAD_SINGLE(layout)
#define FP8(x, y)  \
    WIDE("m16n8k32.row.col.f32." x "." y ".f32") WIDE_HALF("m16n8k32.row.col.f16." x "." y ".f16") NARROW("m16n8k16.row.col.f32." x "." y ".f32")  \
    NARROW_HALF("m16n8k16.row.col.f16." x "." y ".f16") \
    TWO_ALIKE(SP_WIDE, "m16n8k64.row.col.f32." x "." y ".f32")
KERNEL mma_hard(u32 *out) {
    const u32 warp = THREAD / 32, lane = threadIdx.x % 32;
    u32 *at = out + THREAD;
    u32 a[4], b[4], c[8], h[4], d[8], e = 0, pairs = 0;
#pragma unroll 1
    for (int n = 0; n < 8; n++) {  // metadata: in half the warps pairs in order, in the others any; of tf32 the two that are defined
        u32 x = mixed(THREAD * 8 + n + 77);
        e |= (warp & 8 ? x & 15 : 0xed9c84u >> (4 * (x % 6)) & 15) << (4 * n);
        pairs |= (x & 1 ? 14 : 4) << (4 * n);
    }
    Draw draw;
    draw.start(warp, 0, 15, 15, -25, 15, 16);
    draw.left(a, lane, 5, 10, 16), draw.right(b, lane, 5, 10, 16), draw.addends(c, h, lane);
    WIDE("m16n8k16.row.col.f32.f16.f16.f32") NARROW("m16n8k8.row.col.f32.f16.f16.f32")
    WIDE_HALF("m16n8k16.row.col.f16.f16.f16.f16") NARROW_HALF("m16n8k8.row.col.f16.f16.f16.f16")
    TWO(SP_WIDE, "m16n8k32.row.col.f32.f16.f16.f32") FOUR(SP_NARROW, "m16n8k16.row.col.f32.f16.f16.f32")
    TWO(SP_WIDE_HALF, "m16n8k32.row.col.f16.f16.f16.f16") FOUR(SP_NARROW_HALF, "m16n8k16.row.col.f16.f16.f16.f16")
    draw.start(warp, 1, 127, 127, -149, 127, 16);
    draw.left(a, lane, 8, 7, 16), draw.right(b, lane, 8, 7, 16), draw.addends(c, h, lane);
    WIDE("m16n8k16.row.col.f32.bf16.bf16.f32") NARROW("m16n8k8.row.col.f32.bf16.bf16.f32")
    TWO(SP_WIDE, "m16n8k32.row.col.f32.bf16.bf16.f32") FOUR(SP_NARROW, "m16n8k16.row.col.f32.bf16.bf16.f32")
    draw.start(warp, 3, 7, 7, -10, 15, 32);
    draw.addends(c, h, lane);
    draw.left(a, lane, 4, 3, 8), draw.right(b, lane, 4, 3, 8);
    FP8("e4m3", "e4m3")
    draw.right(b, lane, 5, 2, 8);
    FP8("e4m3", "e5m2")
    draw.left(a, lane, 5, 2, 8);
    FP8("e5m2", "e5m2")
    draw.right(b, lane, 4, 3, 8);
    FP8("e5m2", "e4m3")
    e = pairs;
    draw.start(warp, 2, 127, 127, -149, 127, 8);
    draw.left(a, lane, 8, 23, 32), draw.right(b, lane, 8, 23, 32), draw.addends(c, h, lane);
    WIDE("m16n8k8.row.col.f32.tf32.tf32.f32") NARROW("m16n8k4.row.col.f32.tf32.tf32.f32")
    TWO(SP_WIDE, "m16n8k16.row.col.f32.tf32.tf32.f32") FOUR(SP_NARROW, "m16n8k8.row.col.f32.tf32.tf32.f32")
    draw.start(warp, 4, 15, 15, -28, 15, 4);
    draw.quad_pair(a, b, c, h, lane);
    QUAD_EVERY("row.col") QUAD_EVERY("row.row") QUAD_EVERY("col.col") QUAD_EVERY("col.row")
}
