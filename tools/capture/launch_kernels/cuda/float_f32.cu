// f32 arithmetic: roundings, flush to zero, saturation, minimum and maximum with NaN, comparisons.
#include "common.cuh"
#define TWO(op) PUT_ASM(op " %0, %1, %2;", "f", float, "f"(a), "f"(b))
#define THREE(op) PUT_ASM(op " %0, %1, %2, %3;", "f", float, "f"(a), "f"(b), "f"(c))
#define ONE(op) PUT_ASM(op " %0, %1;", "f", float, "f"(a))
#define ROUNDED(FORM, op, tail) FORM(op ".rn" tail) FORM(op ".rz" tail) FORM(op ".rm" tail) FORM(op ".rp" tail)
#define COMPARE(op) bits = 2 * bits + [&] { u32 x; asm("{ .reg .pred p; setp." op ".f32 p, %1, %2; selp.u32 %0, 1, 0, p; }" : "=r"(x) : "f"(a), "f"(b)); return x; }();
KERNEL float_f32(const float *A, const float *B, const float *C, float *out) {
    int slot = 0;
    float a = A[THREAD], b = B[THREAD], c = C[THREAD];
    PUT(a + b); PUT(a - b); PUT(a * b); PUT(a / b); PUT(sqrtf(a)); PUT(fmaf(a, b, c)); PUT(fminf(a, b)); PUT(fmaxf(a, b)); PUT(fabsf(a)); PUT(-a); PUT(copysignf(a, b));
    ROUNDED(TWO, "add", ".f32") ROUNDED(TWO, "sub", ".f32") ROUNDED(TWO, "mul", ".f32") ROUNDED(THREE, "fma", ".f32") ROUNDED(TWO, "div", ".f32")
    ROUNDED(ONE, "sqrt", ".f32") ROUNDED(ONE, "rcp", ".f32")
    TWO("add.rn.ftz.f32") TWO("sub.rz.ftz.f32") TWO("mul.rn.ftz.f32") THREE("fma.rn.ftz.f32") TWO("div.rn.ftz.f32") ONE("sqrt.rn.ftz.f32") ONE("rcp.rn.ftz.f32")
    TWO("add.rn.sat.f32") TWO("mul.rn.sat.f32") THREE("fma.rn.sat.f32") THREE("fma.rn.ftz.sat.f32") TWO("add.f32") TWO("mul.ftz.f32")
    TWO("min.f32") TWO("max.f32") TWO("min.NaN.f32") TWO("max.NaN.f32") TWO("min.ftz.f32") TWO("max.ftz.NaN.f32") TWO("min.xorsign.abs.f32") TWO("max.NaN.xorsign.abs.f32")
    ONE("abs.f32") ONE("neg.f32") ONE("abs.ftz.f32") ONE("neg.ftz.f32") TWO("copysign.f32")
    PUT_ASM("slct.f32.f32 %0, %1, %2, %3;", "f", float, "f"(a), "f"(b), "f"(c)) PUT_ASM("slct.ftz.f32.f32 %0, %1, %2, %3;", "f", float, "f"(a), "f"(b), "f"(c))
    PUT_ASM("set.lt.f32.f32 %0, %1, %2;", "f", float, "f"(a), "f"(b)) PUT_ASM("set.geu.f32.f32 %0, %1, %2;", "f", float, "f"(a), "f"(b))
    PUT_ASM("{ .reg .pred p; testp.finite.f32 p, %1; selp.f32 %0, %1, 0f00000000, p; }", "f", float, "f"(a))
    u32 bits = 0;
    COMPARE("eq") COMPARE("ne") COMPARE("lt") COMPARE("le") COMPARE("gt") COMPARE("ge") COMPARE("equ") COMPARE("neu") COMPARE("ltu") COMPARE("leu") COMPARE("gtu") COMPARE("geu")
    COMPARE("num") COMPARE("nan") COMPARE("eq.ftz") COMPARE("lt.ftz") COMPARE("gtu.ftz")
#define TEST(kind) bits = 2 * bits + [&] { u32 x; asm("{ .reg .pred p; testp." kind ".f32 p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(x) : "f"(a)); return x; }();
    TEST("finite") TEST("infinite") TEST("number") TEST("notanumber") TEST("normal") TEST("subnormal")
    ((u32 *)out)[THREADS * slot++ + THREAD] = bits;
    PUT(truncf(a)); PUT(floorf(a)); PUT(ceilf(a)); PUT(rintf(a)); PUT(roundf(a)); PUT(nextafterf(a, b)); PUT(fdimf(a, b));
}
