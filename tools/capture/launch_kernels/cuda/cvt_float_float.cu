// Conversions between floating-point types: roundings, flush to zero, saturation, packed pairs, the narrow types.
#include "common.cuh"
#define F32(text, ...) PUT_ASM("{ .reg .f32 t; " text " mov.b32 %0, t; }", "r", u32, __VA_ARGS__)
#define F16(text, ...) PUT_ASM("{ .reg .b16 t; " text " cvt.u32.u16 %0, t; }", "r", u32, __VA_ARGS__)
#define F64(text, ...) PUT_ASM("{ .reg .f64 t; .reg .b32 lo, hi; " text " mov.b64 {lo, hi}, t; xor.b32 %0, lo, hi; }", "r", u32, __VA_ARGS__)
#define PAIR(op) PUT_ASM(op " %0, %1, %2;", "r", u32, "f"(f), "f"(g))
#define NARROW(op, constraint, ...) PUT_ASM("{ .reg .b16 t; " op " cvt.u32.u16 %0, t; }", "r", u32, __VA_ARGS__)
KERNEL cvt_float_float(const u32 *f32s, const u64 *f64s, const u16 *f16s, const u16 *bf16s, u32 *out) {
    int slot = 0, n = THREADS;
    float f = __uint_as_float(f32s[THREAD]), g = __uint_as_float(f32s[n - 1 - THREAD]);
    double d = __longlong_as_double(f64s[THREAD]);
    u16 h = f16s[THREAD], b = bf16s[THREAD];
    u32 hh = h | (u32)f16s[n - 1 - THREAD] << 16;
    F32("cvt.rn.f32.f64 t, %1;", "d"(d)) F32("cvt.rz.f32.f64 t, %1;", "d"(d)) F32("cvt.rm.f32.f64 t, %1;", "d"(d)) F32("cvt.rp.f32.f64 t, %1;", "d"(d))
    F32("cvt.rn.ftz.f32.f64 t, %1;", "d"(d)) F32("cvt.rn.sat.f32.f64 t, %1;", "d"(d))
    F64("cvt.f64.f32 t, %1;", "f"(f)) F64("cvt.ftz.f64.f32 t, %1;", "f"(f)) F64("cvt.f64.f16 t, %1;", "h"(h)) F64("cvt.f64.bf16 t, %1;", "h"(b))
    F32("cvt.f32.f16 t, %1;", "h"(h)) F32("cvt.f32.bf16 t, %1;", "h"(b)) F32("cvt.sat.f32.f16 t, %1;", "h"(h)) F32("cvt.ftz.f32.f16 t, %1;", "h"(h))
    F32("cvt.rni.f32.f32 t, %1;", "f"(f)) F32("cvt.rzi.f32.f32 t, %1;", "f"(f)) F32("cvt.rmi.f32.f32 t, %1;", "f"(f)) F32("cvt.rpi.f32.f32 t, %1;", "f"(f))
    F32("cvt.sat.f32.f32 t, %1;", "f"(f)) F32("cvt.ftz.sat.f32.f32 t, %1;", "f"(f)) F32("cvt.rni.ftz.f32.f32 t, %1;", "f"(f))
    F64("cvt.rni.f64.f64 t, %1;", "d"(d)) F64("cvt.rmi.f64.f64 t, %1;", "d"(d)) F64("cvt.rpi.f64.f64 t, %1;", "d"(d)) F64("cvt.rzi.f64.f64 t, %1;", "d"(d))
    F16("cvt.rn.f16.f32 t, %1;", "f"(f)) F16("cvt.rz.f16.f32 t, %1;", "f"(f)) F16("cvt.rm.f16.f32 t, %1;", "f"(f)) F16("cvt.rp.f16.f32 t, %1;", "f"(f))
    F16("cvt.rn.sat.f16.f32 t, %1;", "f"(f)) F16("cvt.rn.relu.f16.f32 t, %1;", "f"(f)) F16("cvt.rn.ftz.f16.f32 t, %1;", "f"(f)) F16("cvt.rn.satfinite.f16.f32 t, %1;", "f"(f))
    F16("cvt.rn.f16.f64 t, %1;", "d"(d)) F16("cvt.rn.bf16.f32 t, %1;", "f"(f)) F16("cvt.rz.bf16.f32 t, %1;", "f"(f)) F16("cvt.rn.relu.bf16.f32 t, %1;", "f"(f))
    F16("cvt.rz.relu.bf16.f32 t, %1;", "f"(f)) F16("cvt.rn.satfinite.bf16.f32 t, %1;", "f"(f)) F16("cvt.rn.bf16.f16 t, %1;", "h"(h)) F16("cvt.rn.f16.bf16 t, %1;", "h"(b))
    F16("cvt.rm.bf16.f32 t, %1;", "f"(f)) F16("cvt.rp.bf16.f32 t, %1;", "f"(f)) F16("cvt.rn.bf16.f64 t, %1;", "d"(d))
    F16("cvt.rni.f16.f16 t, %1;", "h"(h)) F16("cvt.rzi.f16.f16 t, %1;", "h"(h)) F16("cvt.rmi.f16.f16 t, %1;", "h"(h)) F16("cvt.rni.bf16.bf16 t, %1;", "h"(b))
    PAIR("cvt.rn.f16x2.f32") PAIR("cvt.rz.f16x2.f32") PAIR("cvt.rn.relu.f16x2.f32") PAIR("cvt.rn.satfinite.f16x2.f32") PAIR("cvt.rn.satfinite.relu.f16x2.f32")
    PAIR("cvt.rn.bf16x2.f32") PAIR("cvt.rz.bf16x2.f32") PAIR("cvt.rn.relu.bf16x2.f32") PAIR("cvt.rz.relu.bf16x2.f32") PAIR("cvt.rn.satfinite.bf16x2.f32")
    PUT_ASM("cvt.rna.tf32.f32 %0, %1;", "r", u32, "f"(f)) PUT_ASM("cvt.rn.tf32.f32 %0, %1;", "r", u32, "f"(f)) PUT_ASM("cvt.rz.tf32.f32 %0, %1;", "r", u32, "f"(f))
    PUT_ASM("cvt.rn.relu.tf32.f32 %0, %1;", "r", u32, "f"(f)) PUT_ASM("cvt.rz.relu.tf32.f32 %0, %1;", "r", u32, "f"(f)) PUT_ASM("cvt.rna.satfinite.tf32.f32 %0, %1;", "r", u32, "f"(f))
    F16("cvt.rn.satfinite.e4m3x2.f32 t, %1, %2;", "f"(f), "f"(g)) F16("cvt.rn.satfinite.e5m2x2.f32 t, %1, %2;", "f"(f), "f"(g))
    F16("cvt.rn.satfinite.relu.e4m3x2.f32 t, %1, %2;", "f"(f), "f"(g)) F16("cvt.rn.satfinite.relu.e5m2x2.f32 t, %1, %2;", "f"(f), "f"(g))
    F16("cvt.rn.satfinite.e4m3x2.f16x2 t, %1;", "r"(hh)) F16("cvt.rn.satfinite.e5m2x2.f16x2 t, %1;", "r"(hh)) F16("cvt.rn.satfinite.relu.e4m3x2.f16x2 t, %1;", "r"(hh))
    PUT_ASM("cvt.rn.f16x2.e4m3x2 %0, %1;", "r", u32, "h"(h)) PUT_ASM("cvt.rn.f16x2.e5m2x2 %0, %1;", "r", u32, "h"(h)) PUT_ASM("cvt.rn.relu.f16x2.e4m3x2 %0, %1;", "r", u32, "h"(h))
    PUT_ASM("cvt.rn.relu.f16x2.e5m2x2 %0, %1;", "r", u32, "h"(b))
}
