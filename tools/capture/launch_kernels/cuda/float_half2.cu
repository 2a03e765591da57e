// f16, f16x2, bf16 and bf16x2 arithmetic; results as pairs of halves.
#include "common.cuh"
#define TWO(op) PUT_ASM(op " %0, %1, %2;", "r", u32, "r"(a), "r"(b))
#define THREE(op) PUT_ASM(op " %0, %1, %2, %3;", "r", u32, "r"(a), "r"(b), "r"(c))
#define ONE(op) PUT_ASM(op " %0, %1;", "r", u32, "r"(a))
#define SINGLE(text) PUT_ASM("{ .reg .b16 x, y, z, t, u; .reg .pred p; mov.b32 {x, u}, %1; mov.b32 {y, u}, %2; mov.b32 {z, u}, %3; " text " cvt.u32.u16 %0, t; }", "r", u32, "r"(a), "r"(b), "r"(c))
KERNEL float_half2(const u32 *A, const u32 *B, const u32 *C, u32 *out) {
    int slot = 0;
    u32 a = A[THREAD], b = B[THREAD], c = C[THREAD];
#define PAIRS(type)                                                                                                              \
    TWO("add." type "x2") TWO("sub." type "x2") TWO("mul." type "x2") THREE("fma.rn." type "x2") THREE("fma.rn.relu." type "x2") \
    TWO("min." type "x2") TWO("max." type "x2") TWO("min.NaN." type "x2") TWO("max.NaN." type "x2") TWO("min.xorsign.abs." type "x2") \
    ONE("abs." type "x2") ONE("neg." type "x2")                                                                                 \
    SINGLE("add." type " t, x, y;") SINGLE("mul.rn." type " t, x, y;") SINGLE("fma.rn." type " t, x, y, z;") SINGLE("max." type " t, x, y;") \
    SINGLE("setp.lt." type " p, x, y; selp.b16 t, x, z, p;") SINGLE("setp.neu." type " p, x, y; selp.b16 t, x, z, p;")           \
    PUT_ASM("{ .reg .pred p, q; .reg .b32 s, t; setp.gt." type "x2 p|q, %1, %2; selp.b32 s, 1, 0, p; selp.b32 t, 2, 0, q; add.u32 %0, s, t; }", "r", u32, "r"(a), "r"(b)) \
    TWO("set.ge." type "x2." type "x2")
    PAIRS("f16") PAIRS("bf16")
    TWO("add.ftz.f16x2") TWO("add.sat.f16x2") TWO("mul.ftz.sat.f16x2") THREE("fma.rn.ftz.f16x2") THREE("fma.rn.sat.f16x2") TWO("min.ftz.f16x2") TWO("max.ftz.NaN.f16x2")
    TWO("add.rn.f16x2") TWO("sub.rn.bf16x2") THREE("fma.rn.oob.f16x2") THREE("fma.rn.oob.relu.bf16x2")
    half2 x = *(half2 *)&a, y = *(half2 *)&b, z = *(half2 *)&c, r;
    r = __hfma2(x, y, z); PUT(*(u32 *)&r);
    r = __halves2half2(__float2half_rn(__low2float(x) * 3.0f), __hadd_sat(y.x, z.y)); PUT(*(u32 *)&r);
    __nv_bfloat162 u = *(__nv_bfloat162 *)&a, v = *(__nv_bfloat162 *)&b, w;
    w = __hmul2(u, v); PUT(*(u32 *)&w);
    w = __hadd2_rn(u, v); PUT(*(u32 *)&w);
    w = __hfma2_relu(u, v, u); PUT(*(u32 *)&w);
    PUT(__hbge2(u, v) + 2 * __hbequ2(u, v));
    PUT(__half2int_rn(x.x) + __half2int_rz(x.y));
}
