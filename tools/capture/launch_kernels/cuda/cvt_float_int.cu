// Conversions between floating point and integers: every rounding, saturation, both directions.
#include "common.cuh"
#define PUT64(text, constraint, value) PUT_ASM(text, "l", u64, constraint(value))
#define MODES(to, wide, from, constraint, value)                                                                 \
    PUT64("{ .reg ." to " t; cvt.rni." to "." from " t, %1; cvt." wide "." to " %0, t; }", constraint, value)     \
    PUT64("{ .reg ." to " t; cvt.rzi." to "." from " t, %1; cvt." wide "." to " %0, t; }", constraint, value)     \
    PUT64("{ .reg ." to " t; cvt.rmi." to "." from " t, %1; cvt." wide "." to " %0, t; }", constraint, value)     \
    PUT64("{ .reg ." to " t; cvt.rpi." to "." from " t, %1; cvt." wide "." to " %0, t; }", constraint, value)
#define LONG_MODES(to, from, constraint, value)                        \
    PUT64("cvt.rni." to "." from " %0, %1;", constraint, value)        \
    PUT64("cvt.rzi." to "." from " %0, %1;", constraint, value)        \
    PUT64("cvt.rmi." to "." from " %0, %1;", constraint, value)        \
    PUT64("cvt.rpi." to "." from " %0, %1;", constraint, value)
#define ALL_INTS(from, constraint, value)                                                                          \
    MODES("s32", "s64", from, constraint, value) MODES("u32", "u64", from, constraint, value)                      \
    MODES("s16", "s64", from, constraint, value) MODES("u16", "u64", from, constraint, value)                      \
    LONG_MODES("s64", from, constraint, value) LONG_MODES("u64", from, constraint, value)                          \
    PUT64("{ .reg .s16 t; cvt.rzi.s8." from " t, %1; cvt.s64.s8 %0, t; }", constraint, value)                       \
    PUT64("{ .reg .u16 t; cvt.rni.u8." from " t, %1; cvt.u64.u8 %0, t; }", constraint, value)
#define TO_F32(mode, from, constraint, value) PUT64("{ .reg .f32 t; .reg .b32 u; cvt." mode ".f32." from " t, %1; mov.b32 u, t; cvt.u64.u32 %0, u; }", constraint, value)
#define TO_F64(mode, from, constraint, value) PUT64("{ .reg .f64 t; cvt." mode ".f64." from " t, %1; mov.b64 %0, t; }", constraint, value)
#define TO_F16(mode, from, constraint, value) PUT64("{ .reg .b16 t; cvt." mode ".f16." from " t, %1; cvt.u64.u16 %0, t; }", constraint, value)
#define TO_BF16(mode, from, constraint, value) PUT64("{ .reg .b16 t; cvt." mode ".bf16." from " t, %1; cvt.u64.u16 %0, t; }", constraint, value)
#define ALL_FLOATS(from, constraint, value)                                                                            \
    TO_F32("rn", from, constraint, value) TO_F32("rz", from, constraint, value) TO_F32("rm", from, constraint, value)  \
    TO_F32("rp", from, constraint, value) TO_F64("rn", from, constraint, value) TO_F64("rz", from, constraint, value)  \
    TO_F64("rm", from, constraint, value) TO_F64("rp", from, constraint, value) TO_F16("rn", from, constraint, value)  \
    TO_F16("rz", from, constraint, value) TO_F16("rm", from, constraint, value) TO_F16("rp", from, constraint, value)  \
    TO_BF16("rn", from, constraint, value)
KERNEL cvt_float_int(const u32 *f32s, const u64 *f64s, const u16 *f16s, const u16 *bf16s, const u64 *integers, u64 *out) {
    int slot = 0;
    float f = __uint_as_float(f32s[THREAD]);
    double d = __longlong_as_double(f64s[THREAD]);
    u16 h = f16s[THREAD], b = bf16s[THREAD];
    u64 n = integers[THREAD];
    ALL_INTS("f32", "f", f) ALL_INTS("f64", "d", d) ALL_INTS("f16", "h", h)
    PUT64("{ .reg .s32 t; cvt.rzi.s32.bf16 t, %1; cvt.s64.s32 %0, t; }", "h", b)
    PUT64("{ .reg .s32 t; cvt.rni.ftz.s32.f32 t, %1; cvt.s64.s32 %0, t; }", "f", f)
    PUT64("{ .reg .u32 t; cvt.rpi.ftz.u32.f32 t, %1; cvt.u64.u32 %0, t; }", "f", f)
    PUT64("{ .reg .s32 t; cvt.rzi.sat.s32.f32 t, %1; cvt.s64.s32 %0, t; }", "f", f)
    PUT64("{ .reg .s16 t; cvt.rzi.sat.s8.f32 t, %1; cvt.s64.s8 %0, t; }", "f", f)
    PUT64("{ .reg .u16 t; cvt.rni.sat.u8.f64 t, %1; cvt.u64.u8 %0, t; }", "d", d)
    ALL_FLOATS("s64", "l", n) ALL_FLOATS("u64", "l", n) ALL_FLOATS("s32", "r", (u32)n) ALL_FLOATS("u32", "r", (u32)n)
    TO_F32("rn", "s16", "h", (u16)n) TO_F16("rn", "u16", "h", (u16)n) TO_F64("rn", "s16", "h", (u16)n) TO_F16("rn", "s16", "h", (u16)n)
    PUT64("{ .reg .b16 c; .reg .f32 t; .reg .b32 u; mov.b16 c, %1; cvt.rn.f32.s8 t, c; mov.b32 u, t; cvt.u64.u32 %0, u; }", "h", (u16)n)
    PUT64("{ .reg .b16 c; .reg .f32 t; .reg .b32 u; mov.b16 c, %1; cvt.rn.f32.u8 t, c; mov.b32 u, t; cvt.u64.u32 %0, u; }", "h", (u16)n)
    PUT64("{ .reg .b16 c, t; mov.b16 c, %1; cvt.rn.f16.s8 t, c; cvt.u64.u16 %0, t; }", "h", (u16)n)
}
