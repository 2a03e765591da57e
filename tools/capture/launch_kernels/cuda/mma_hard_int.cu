// mma.sync and mma.sp of integers of 8, 4 bits and one: every type and shape, sums near the ends of s32, with and without .satfinite.
#include "mma_hard.cuh"
#define IN6 IN(a, 0), IN(a, 1), IN(a, 2), IN(a, 3), IN(b, 0), IN(b, 1)
#define C4 IN(c, 0), IN(c, 1), IN(c, 2), IN(c, 3)
#define WIDE(shape, op) asm volatile("mma.sync.aligned." shape op " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" : F32_OUT : IN6, C4); PUT4;
#define MIDDLE(shape, op) asm volatile("mma.sync.aligned." shape op " {%0, %1, %2, %3}, {%4, %5}, {%8}, {%10, %11, %12, %13};" : F32_OUT : IN6, C4); PUT4;
#define SMALL(shape, op) asm volatile("mma.sync.aligned." shape op " {%0, %1}, {%2}, {%6}, {%8, %9};" : "=r"(d[0]), "=r"(d[1]) : IN6, C4); PUT2;
#define SPARSE(sp, shape, selector) asm volatile("mma." sp ".sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, " selector ";" : F32_OUT : IN6, IN(b, 2), IN(b, 3), C4, "r"(e)); PUT4;
#define SPARSE_SMALL(sp, shape, selector) asm volatile("mma." sp ".sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5}, {%8, %9}, {%12, %13, %14, %15}, %16, " selector ";" : F32_OUT : IN6, IN(b, 2), IN(b, 3), C4, "r"(e)); PUT4;
#define TYPES(sat, x, y, small, large) SMALL("m8n8k" small ".row.col" sat ".s32." x "." y ".s32", "") MIDDLE("m16n8k" small ".row.col" sat ".s32." x "." y ".s32", "") WIDE("m16n8k" large ".row.col" sat ".s32." x "." y ".s32", "")
#define SPARSE_TYPES(sat, x, y, small, large)                                                                               \
    SPARSE("sp", "m16n8k" large ".row.col" sat ".s32." x "." y ".s32", "0x0") SPARSE_SMALL("sp", "m16n8k" small ".row.col" sat ".s32." x "." y ".s32", "0x0") \
    SPARSE_SMALL("sp::ordered_metadata", "m16n8k" small ".row.col" sat ".s32." x "." y ".s32", "0x1")
#define EACH(x, y, small, large, sparse_small, sparse_large) \
    TYPES("", x, y, small, large) TYPES(".satfinite", x, y, small, large) SPARSE_TYPES("", x, y, sparse_small, sparse_large) SPARSE_TYPES(".satfinite", x, y, sparse_small, sparse_large)
#define BITS(op) SMALL("m8n8k128.row.col.s32.b1.b1.s32", op) MIDDLE("m16n8k128.row.col.s32.b1.b1.s32", op) WIDE("m16n8k256.row.col.s32.b1.b1.s32", op)
KERNEL mma_hard_int(u32 *out) {
    u32 *at = out + THREAD;
    u32 a[4], b[4], c[4], d[4], e = 0;
    const u32 warp = THREAD / 32, seed = mixed(THREAD + 1), low = warp & 1 ? 0x80808080u : 0, high = warp & 1 ? 0x7f7f7f7fu : ~0u;
#pragma unroll 1
    for (int n = 0; n < 4; n++) {
        u32 h = mixed(seed + n), g = mixed(seed + n + 8), s = mixed(seed + n + 16);
        a[n] = warp & 2 ? h : h & 4 ? high : low, b[n] = warp & 2 ? g : g & 4 ? high : low;
        c[n] = warp & 4 ? s : (s & 1 ? 0x7fffffffu - (s >> 14) : 0x80000000u + (s >> 14));
    }
#pragma unroll 1
    for (int n = 0; n < 8; n++) {
        u32 x = mixed(THREAD * 8 + n + 77);
        e |= (warp & 8 ? x & 15 : 0xed9c84u >> (4 * (x % 6)) & 15) << (4 * n);
    }
#if KIND == 8
    EACH("s8", "s8", "16", "32", "32", "64") EACH("s8", "u8", "16", "32", "32", "64") EACH("u8", "s8", "16", "32", "32", "64") EACH("u8", "u8", "16", "32", "32", "64")
#else
    EACH("s4", "s4", "32", "64", "64", "128") EACH("s4", "u4", "32", "64", "64", "128") EACH("u4", "s4", "32", "64", "64", "128") EACH("u4", "u4", "32", "64", "64", "128")
    BITS(".xor.popc") BITS(".and.popc")
#endif
}
