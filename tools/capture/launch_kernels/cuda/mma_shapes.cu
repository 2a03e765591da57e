// mma.sync of every family: each warp's registers are words of the inputs, each result is stored as the registers stand.
#include "common.cuh"
#define A4 "{%4, %5, %6, %7}"
#define MMA(kind, n, text, ...)                                                            \
    {                                                                                      \
        u32 d[4] = {};                                                                     \
        asm volatile(text ";" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : __VA_ARGS__); \
        for (int i = 0; i < n; i++) PUT(d[i]);                                             \
    }
#define REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
#define D4 "{%0, %1, %2, %3}"
#define C4 "{%10, %11, %12, %13}"
#define TWO_BY_ONE(shape) MMA(0, 4, "mma.sync.aligned." shape " " D4 ", {%4, %5}, {%8}, " C4, REGISTERS)
#define FOUR_BY_TWO(shape) MMA(0, 4, "mma.sync.aligned." shape " " D4 ", " A4 ", {%8, %9}, " C4, REGISTERS)
KERNEL mma_shapes(const u32 *A, const u32 *B, const u32 *C, u32 *out) {
    int slot = 0;
    u32 a[4], b[2], c[4];
    for (int i = 0; i < 4; i++) a[i] = A[THREAD * 4 + i], c[i] = C[THREAD * 4 + i];
    b[0] = B[THREAD * 2], b[1] = B[THREAD * 2 + 1];
#if KIND == 16
    FOUR_BY_TWO("m16n8k16.row.col.f32.f16.f16.f32") TWO_BY_ONE("m16n8k8.row.col.f32.f16.f16.f32")
    MMA(0, 2, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, " A4 ", {%8, %9}, {%10, %11}; mov.u32 %2, 0; mov.u32 %3, 0", REGISTERS)
    MMA(0, 2, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%4, %5}, {%8}, {%10, %11}; mov.u32 %2, 0; mov.u32 %3, 0", REGISTERS)
#elif KIND == 17
    FOUR_BY_TWO("m16n8k16.row.col.f32.bf16.bf16.f32") TWO_BY_ONE("m16n8k8.row.col.f32.bf16.bf16.f32")
#elif KIND == 19
    FOUR_BY_TWO("m16n8k8.row.col.f32.tf32.tf32.f32") TWO_BY_ONE("m16n8k4.row.col.f32.tf32.tf32.f32")
#elif KIND == 8
    FOUR_BY_TWO("m16n8k32.row.col.f32.e4m3.e4m3.f32") FOUR_BY_TWO("m16n8k32.row.col.f32.e5m2.e4m3.f32") FOUR_BY_TWO("m16n8k32.row.col.f32.e5m2.e5m2.f32")
#else
    FOUR_BY_TWO("m16n8k32.row.col.s32.s8.s8.s32") FOUR_BY_TWO("m16n8k32.row.col.satfinite.s32.u8.s8.s32") TWO_BY_ONE("m16n8k16.row.col.s32.s8.u8.s32")
    FOUR_BY_TWO("m16n8k64.row.col.s32.s4.u4.s32") FOUR_BY_TWO("m16n8k256.row.col.s32.b1.b1.s32.xor.popc") FOUR_BY_TWO("m16n8k256.row.col.s32.b1.b1.s32.and.popc")
#endif
}
