// 32-bit integer arithmetic: every thread puts one word of each operation.
#include "common.cuh"
KERNEL alu_int32(const u32 *A, const u32 *B, const u32 *C, u32 *out) {
    int slot = 0;
    u32 a = A[THREAD], b = B[THREAD], c = C[THREAD];
    s32 sa = a, sb = b;
    PUT(a + b); PUT(a - b); PUT(a * b); PUT(a * b + c);
    PUT(__umulhi(a, b)); PUT(__mulhi(sa, sb)); PUT(__umul24(a, b)); PUT(__mul24(sa, sb));
    PUT(a / (b | 1)); PUT(a % (b | 1)); PUT(sa / (s32)(b >> 9 | 1)); PUT(sa % (s32)(b >> 9 | 1)); PUT(a / 7); PUT(sa % 13);
    PUT(a & b); PUT(a | b); PUT(a ^ b); PUT(~a); PUT((a & b) ^ (~a & c));
    PUT(a << (b & 31)); PUT(a >> (b & 31)); PUT(sa >> (b & 31));
    PUT(__funnelshift_l(a, b, c)); PUT(__funnelshift_r(a, b, c)); PUT(__funnelshift_lc(a, b, c & 63)); PUT(__funnelshift_rc(a, b, c & 63));
    PUT(__popc(a)); PUT(__clz(a >> (b & 31))); PUT(__brev(a)); PUT(__ffs(a << (b & 31)));
    PUT(min(a, b)); PUT(max(a, b)); PUT(min(sa, sb)); PUT(max(sa, sb)); PUT(abs(sa)); PUT(-sa);
    PUT(a < b); PUT(sa < sb); PUT(a == b ? c : a); PUT(sa <= sb ? a : c);
    PUT(__byte_perm(a, b, c)); PUT(__usad(a, b, c)); PUT(__sad(sa, sb, c));
    PUT(__dp4a(sa, sb, (s32)c)); PUT(__dp4a(a, b, c)); PUT(__dp2a_lo(sa, sb, (s32)c)); PUT(__dp2a_hi(a, b, c));
    PUT(__uhadd(a, b)); PUT(__rhadd(sa, sb));
    PUT(__vadd4(a, b)); PUT(__vminu2(a, b)); PUT(__vabsdiffu4(a, b)); PUT(__vcmpgts2(a, b));
    PUT(__viaddmax_s32(sa, sb, (s32)c)); PUT(__vimin3_u32(a, b, c)); PUT(__viaddmin_s16x2_relu(a, b, c)); PUT(__vimax3_s16x2(a, b, c));
}
