// 64-bit integer arithmetic.
#include "common.cuh"
KERNEL alu_int64(const u64 *A, const u64 *B, const u64 *C, u64 *out) {
    int slot = 0;
    u64 a = A[THREAD], b = B[THREAD], c = C[THREAD];
    s64 sa = a, sb = b;
    u32 n = c & 63;
    PUT(a + b); PUT(a - b); PUT(a * b); PUT(a * b + c); PUT(__umul64hi(a, b)); PUT(__mul64hi(sa, sb));
    PUT(a / (b >> 20 | 1)); PUT(a % (b >> 40 | 1)); PUT(sa / (sb >> 17 | 1)); PUT(sa % (sb >> 33 | 1)); PUT(a / 10); PUT(sa / -1000003);
    PUT(a & b); PUT(a | b); PUT(a ^ b); PUT(~a); PUT(a << n); PUT(a >> n); PUT(sa >> n);
    PUT(__popcll(a)); PUT(__clzll(a >> n)); PUT(__brevll(a)); PUT(__ffsll(a << n));
    PUT(min(a, b)); PUT(max(a, b)); PUT(min(sa, sb)); PUT(max(sa, sb)); PUT(llabs(sa)); PUT(-sa); PUT(a < b); PUT(sa >= sb ? a : c);
    PUT((u64)(u32)a * (u32)b); PUT((s64)(s32)a * (s32)b); PUT((u64)(u32)a * (u32)b + c); PUT((s64)(s32)a * (s32)b + sa);
    PUT((u64)((unsigned __int128)a * b >> 37));
    PUT((u64)(((unsigned __int128)a << 64 | b) - c >> 64));
    PUT_ASM("bfe.u64 %0, %1, %2, %3;", "l", u64, "l"(a), "r"(n), "r"((u32)(c >> 8 & 63)))
    PUT_ASM("bfe.s64 %0, %1, %2, %3;", "l", u64, "l"(a), "r"(n), "r"((u32)(c >> 8 & 63)))
    PUT_ASM("bfi.b64 %0, %1, %2, %3, %4;", "l", u64, "l"(a), "l"(b), "r"(n), "r"((u32)(c >> 8 & 63)))
    PUT_ASM("mad.hi.u64 %0, %1, %2, %3;", "l", u64, "l"(a), "l"(b), "l"(c))
    PUT_ASM("mad.lo.s64 %0, %1, %2, %3;", "l", u64, "l"(a), "l"(b), "l"(c))
    PUT_ASM("shl.b64 %0, %1, %2;", "l", u64, "l"(a), "r"((u32)c & 127))
    PUT_ASM("shr.s64 %0, %1, %2;", "l", u64, "l"(a), "r"((u32)c & 127))
    PUT_ASM("{ .reg .u64 t; add.cc.u64 t, %1, %2; addc.u64 %0, %3, 0; }", "l", u64, "l"(a), "l"(b), "l"(c))
    PUT_ASM("{ .reg .u32 t; bfind.s64 t, %1; cvt.u64.u32 %0, t; }", "l", u64, "l"(a))
    PUT_ASM("{ .reg .u32 x, y; mov.b64 {x, y}, %1; mov.b64 %0, {y, x}; }", "l", u64, "l"(a))
    PUT_ASM("{ .reg .u16 x, y, z, w; mov.b64 {x, y, z, w}, %1; mov.b64 %0, {w, x, z, y}; }", "l", u64, "l"(a))
    PUT_ASM("cnot.b64 %0, %1;", "l", u64, "l"(a & -(b & 1)))
    PUT_ASM("sad.u64 %0, %1, %2, %3;", "l", u64, "l"(a), "l"(b), "l"(c))
}
