// f64 arithmetic.
#include "common.cuh"
#define TWO(op) PUT_ASM(op " %0, %1, %2;", "d", double, "d"(a), "d"(b))
#define THREE(op) PUT_ASM(op " %0, %1, %2, %3;", "d", double, "d"(a), "d"(b), "d"(c))
#define ONE(op) PUT_ASM(op " %0, %1;", "d", double, "d"(a))
#define ROUNDED(FORM, op, tail) FORM(op ".rn" tail) FORM(op ".rz" tail) FORM(op ".rm" tail) FORM(op ".rp" tail)
KERNEL float_f64(const double *A, const double *B, const double *C, double *out) {
    int slot = 0;
    double a = A[THREAD], b = B[THREAD], c = C[THREAD];
    PUT(a + b); PUT(a - b); PUT(a * b); PUT(a / b); PUT(sqrt(a)); PUT(fma(a, b, c)); PUT(fmin(a, b)); PUT(fmax(a, b)); PUT(fabs(a)); PUT(-a); PUT(1.0 / a);
    ROUNDED(TWO, "add", ".f64") ROUNDED(TWO, "sub", ".f64") ROUNDED(TWO, "mul", ".f64") ROUNDED(THREE, "fma", ".f64") ROUNDED(TWO, "div", ".f64")
    ROUNDED(ONE, "sqrt", ".f64") ROUNDED(ONE, "rcp", ".f64")
    TWO("min.f64") TWO("max.f64") TWO("copysign.f64") THREE("mad.rn.f64")
    PUT_ASM("slct.f64.f32 %0, %1, %2, %3;", "d", double, "d"(a), "d"(b), "f"((float)c))
    PUT_ASM("{ .reg .pred p; setp.ltu.f64 p, %1, %2; selp.f64 %0, %1, %2, p; }", "d", double, "d"(a), "d"(b))
    PUT_ASM("{ .reg .pred p; testp.subnormal.f64 p, %1; selp.f64 %0, 0d3FF0000000000000, 0d0000000000000000, p; }", "d", double, "d"(a))
    PUT_ASM("{ .reg .u32 t; set.ge.u32.f64 t, %1, %2; cvt.rn.f64.u32 %0, t; }", "d", double, "d"(a), "d"(b))
    PUT(trunc(a)); PUT(floor(a)); PUT(rint(a)); PUT(round(a)); PUT((double)(a < b) + 2 * (a == b) + 4 * (a != b) + 8 * (a >= b)); PUT(fmod(a, b));
}
