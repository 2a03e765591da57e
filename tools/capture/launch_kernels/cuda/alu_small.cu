// 8- and 16-bit integers: loads and stores that extend and cut, 16-bit arithmetic, vectors of bytes.
#include "common.cuh"
KERNEL alu_small(const u8 *bytes, const u16 *halves, u32 *out, u8 *bytes_out, u16 *halves_out) {
    int slot = 0, i = THREAD;
    u8 b = bytes[i];
    s8 sb = (s8)bytes[i];
    u16 h = halves[i];
    s16 sh = (s16)halves[THREADS - 1 - i];
    PUT(b); PUT(sb); PUT(h); PUT(sh);
    PUT((u16)(h * sh)); PUT((s16)(h + sb)); PUT((u16)(h - b) >> 3); PUT((s16)(sh >> (b & 15)));
    PUT_ASM("mul.wide.u16 %0, %1, %2;", "r", u32, "h"(h), "h"((u16)sh))
    PUT_ASM("mul.wide.s16 %0, %1, %2;", "r", u32, "h"(h), "h"((u16)sh))
    PUT_ASM("mad.wide.s16 %0, %1, %2, %3;", "r", u32, "h"(h), "h"((u16)sh), "r"(slot))
    PUT_ASM("{ .reg .u16 t; mul.hi.u16 t, %1, %2; cvt.u32.u16 %0, t; }", "r", u32, "h"(h), "h"((u16)sh))
    PUT_ASM("{ .reg .u16 t; mad.lo.u16 t, %1, %2, %1; min.s16 t, t, %2; cvt.s32.s16 %0, t; }", "r", u32, "h"(h), "h"((u16)sh))
    PUT_ASM("{ .reg .u16 t; div.s16 t, %1, %2; rem.u16 t, t, %2; neg.s16 t, t; cvt.s32.s16 %0, t; }", "r", u32, "h"(h), "h"((u16)(sh | 1)))
    PUT_ASM("{ .reg .b16 t; shr.s16 t, %1, %2; xor.b16 t, t, %1; not.b16 t, t; mov.b32 %0, {t, %1}; }", "r", u32, "h"(h), "r"(b & 31))
    PUT_ASM("{ .reg .pred p; setp.lt.s16 p, %1, %2; selp.b32 %0, 1, 2, p; }", "r", u32, "h"(h), "h"((u16)sh))
    uchar4 v = ((const uchar4 *)bytes)[i / 4];
    PUT(v.x + v.y * 256 + v.z * 65536 - v.w);
    char4 w = ((const char4 *)bytes)[i / 4];
    PUT(w.x * w.y - w.z * w.w);
    ushort4 x = ((const ushort4 *)halves)[i / 4];
    PUT(x.x ^ x.y ^ x.z ^ x.w);
    bytes_out[i] = (u8)(h >> 4);
    halves_out[i] = (u16)(b * sb);
    if (i % 4 == 0) ((uchar4 *)(bytes_out + THREADS))[i / 4] = make_uchar4(v.w, v.z, v.y, v.x);
    if (i % 2 == 0) ((ushort2 *)(halves_out + THREADS))[i / 2] = make_ushort2(x.w, x.x);
}
