// Conversions between integer types, with and without saturation; what sign and zero extension give.
#include "common.cuh"
#define ONE(sat, to, from, constraint, value) PUT_ASM("{ .reg .b" BITS_##to " t; cvt" sat "." #to "." #from " t, %1; cvt." WIDE_##to "." #to " %0, t; }", "l", u64, constraint(value))
#define BITS_s8 "16"
#define BITS_u8 "16"
#define BITS_s16 "16"
#define BITS_u16 "16"
#define BITS_s32 "32"
#define BITS_u32 "32"
#define WIDE_s8 "s64"
#define WIDE_u8 "u64"
#define WIDE_s16 "s64"
#define WIDE_u16 "u64"
#define WIDE_s32 "s64"
#define WIDE_u32 "u64"
#define WIDE(sat, to, from, constraint, value) PUT_ASM("cvt" sat "." #to "." #from " %0, %1;", "l", u64, constraint(value))
#define FROM_S8 \
    ONE("", s8, s8, "h", (u16)n) ONE("", u8, s8, "h", (u16)n) ONE("", s16, s8, "h", (u16)n) ONE("", u16, s8, "h", (u16)n) \
    ONE("", s32, s8, "h", (u16)n) ONE("", u32, s8, "h", (u16)n) WIDE("", s64, s8, "h", (u16)n) WIDE("", u64, s8, "h", (u16)n) \
    ONE(".sat", u8, s8, "h", (u16)n) ONE(".sat", u16, s8, "h", (u16)n) ONE(".sat", u32, s8, "h", (u16)n) WIDE(".sat", u64, s8, "h", (u16)n)
#define FROM_U8 \
    ONE("", s8, u8, "h", (u16)n) ONE("", u8, u8, "h", (u16)n) ONE("", s16, u8, "h", (u16)n) ONE("", u16, u8, "h", (u16)n) \
    ONE("", s32, u8, "h", (u16)n) ONE("", u32, u8, "h", (u16)n) WIDE("", s64, u8, "h", (u16)n) WIDE("", u64, u8, "h", (u16)n) \
    ONE(".sat", s8, u8, "h", (u16)n)
#define FROM_S16 \
    ONE("", s8, s16, "h", (u16)n) ONE("", u8, s16, "h", (u16)n) ONE("", s16, s16, "h", (u16)n) ONE("", u16, s16, "h", (u16)n) \
    ONE("", s32, s16, "h", (u16)n) ONE("", u32, s16, "h", (u16)n) WIDE("", s64, s16, "h", (u16)n) WIDE("", u64, s16, "h", (u16)n) \
    ONE(".sat", s8, s16, "h", (u16)n) ONE(".sat", u8, s16, "h", (u16)n) ONE(".sat", u16, s16, "h", (u16)n) ONE(".sat", u32, s16, "h", (u16)n) \
    WIDE(".sat", u64, s16, "h", (u16)n)
#define FROM_U16 \
    ONE("", s8, u16, "h", (u16)n) ONE("", u8, u16, "h", (u16)n) ONE("", s16, u16, "h", (u16)n) ONE("", u16, u16, "h", (u16)n) \
    ONE("", s32, u16, "h", (u16)n) ONE("", u32, u16, "h", (u16)n) WIDE("", s64, u16, "h", (u16)n) WIDE("", u64, u16, "h", (u16)n) \
    ONE(".sat", s8, u16, "h", (u16)n) ONE(".sat", u8, u16, "h", (u16)n) ONE(".sat", s16, u16, "h", (u16)n)
#define FROM_S32 \
    ONE("", s8, s32, "r", (u32)n) ONE("", u8, s32, "r", (u32)n) ONE("", s16, s32, "r", (u32)n) ONE("", u16, s32, "r", (u32)n) \
    ONE("", s32, s32, "r", (u32)n) ONE("", u32, s32, "r", (u32)n) WIDE("", s64, s32, "r", (u32)n) WIDE("", u64, s32, "r", (u32)n) \
    ONE(".sat", s8, s32, "r", (u32)n) ONE(".sat", u8, s32, "r", (u32)n) ONE(".sat", s16, s32, "r", (u32)n) ONE(".sat", u16, s32, "r", (u32)n) \
    ONE(".sat", u32, s32, "r", (u32)n) WIDE(".sat", u64, s32, "r", (u32)n)
#define FROM_U32 \
    ONE("", s8, u32, "r", (u32)n) ONE("", u8, u32, "r", (u32)n) ONE("", s16, u32, "r", (u32)n) ONE("", u16, u32, "r", (u32)n) \
    ONE("", s32, u32, "r", (u32)n) ONE("", u32, u32, "r", (u32)n) WIDE("", s64, u32, "r", (u32)n) WIDE("", u64, u32, "r", (u32)n) \
    ONE(".sat", s8, u32, "r", (u32)n) ONE(".sat", u8, u32, "r", (u32)n) ONE(".sat", s16, u32, "r", (u32)n) ONE(".sat", u16, u32, "r", (u32)n) \
    ONE(".sat", s32, u32, "r", (u32)n)
#define FROM_S64 \
    ONE("", s8, s64, "l", (u64)n) ONE("", u8, s64, "l", (u64)n) ONE("", s16, s64, "l", (u64)n) ONE("", u16, s64, "l", (u64)n) \
    ONE("", s32, s64, "l", (u64)n) ONE("", u32, s64, "l", (u64)n) WIDE("", s64, s64, "l", (u64)n) WIDE("", u64, s64, "l", (u64)n) \
    ONE(".sat", s8, s64, "l", (u64)n) ONE(".sat", u8, s64, "l", (u64)n) ONE(".sat", s16, s64, "l", (u64)n) ONE(".sat", u16, s64, "l", (u64)n) \
    ONE(".sat", s32, s64, "l", (u64)n) ONE(".sat", u32, s64, "l", (u64)n) WIDE(".sat", u64, s64, "l", (u64)n)
#define FROM_U64 \
    ONE("", s8, u64, "l", (u64)n) ONE("", u8, u64, "l", (u64)n) ONE("", s16, u64, "l", (u64)n) ONE("", u16, u64, "l", (u64)n) \
    ONE("", s32, u64, "l", (u64)n) ONE("", u32, u64, "l", (u64)n) WIDE("", s64, u64, "l", (u64)n) WIDE("", u64, u64, "l", (u64)n) \
    ONE(".sat", s8, u64, "l", (u64)n) ONE(".sat", u8, u64, "l", (u64)n) ONE(".sat", s16, u64, "l", (u64)n) ONE(".sat", u16, u64, "l", (u64)n) \
    ONE(".sat", s32, u64, "l", (u64)n) ONE(".sat", u32, u64, "l", (u64)n) WIDE(".sat", s64, u64, "l", (u64)n)
KERNEL cvt_int_int(const u64 *in, u64 *out) {
    int slot = 0;
    u64 n = in[THREAD];
    FROM_S64 FROM_U64 FROM_S32 FROM_U32 FROM_S16 FROM_U16 FROM_S8 FROM_U8
    s64 small = (s64)n >> 40;
    n = small;
    FROM_S64 FROM_S32 FROM_U32
    n = in[THREAD];
    PUT_ASM("{ .reg .b32 t; cvt.pack.sat.s16.s32 t, %1, %2; cvt.u64.u32 %0, t; }", "l", u64, "r"((u32)n), "r"((u32)small))
    PUT_ASM("{ .reg .b32 t; cvt.pack.sat.u8.s32.b32 t, %1, %2, %3; cvt.u64.u32 %0, t; }", "l", u64, "r"((u32)n), "r"((u32)small), "r"((u32)(n >> 32)))
}
