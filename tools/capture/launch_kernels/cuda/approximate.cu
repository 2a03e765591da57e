// Functions that hardware approximates.
#include "common.cuh"
#define ONE(op) PUT_ASM(op " %0, %1;", "f", float, "f"(a))
#define TWO(op) PUT_ASM(op " %0, %1, %2;", "f", float, "f"(a), "f"(b))
KERNEL approximate(const float *A, const float *B, const u32 *halves, float *out, u32 *out_halves, double *out_doubles) {
    int slot = 0;
    float a = A[THREAD], b = B[THREAD];
    ONE("ex2.approx.f32") ONE("ex2.approx.ftz.f32") ONE("lg2.approx.f32") ONE("lg2.approx.ftz.f32") ONE("sin.approx.f32") ONE("cos.approx.ftz.f32")
    ONE("rcp.approx.f32") ONE("rcp.approx.ftz.f32") ONE("rsqrt.approx.f32") ONE("rsqrt.approx.ftz.f32") ONE("sqrt.approx.f32") ONE("sqrt.approx.ftz.f32")
    ONE("tanh.approx.f32") TWO("div.approx.f32") TWO("div.approx.ftz.f32") TWO("div.full.f32") TWO("div.full.ftz.f32")
    u32 h = halves[THREAD], x;
    slot = 0;
#define HALF(op) asm volatile(op " %0, %1;" : "=r"(x) : "r"(h)); out_halves[THREADS * slot++ + THREAD] = x;
    HALF("ex2.approx.f16x2") HALF("ex2.approx.ftz.bf16x2") HALF("tanh.approx.f16x2") HALF("tanh.approx.bf16x2")
    double d = (double)a * 1.0000001;
    asm volatile("rcp.approx.ftz.f64 %0, %1;" : "=d"(d) : "d"(d));
    out_doubles[THREAD] = d;
    d = fabs((double)b);
    asm volatile("rsqrt.approx.f64 %0, %1;" : "=d"(d) : "d"(d));
    out_doubles[THREADS + THREAD] = d;
}
