// Conversions to and from the types of tcgen05 that are no bytes, and to scale factors. Thread t has elements 2 t and 2 t + 1 of `a`; the first
// operand of a conversion of two becomes the upper half of its result. Rows of `narrow` are bytes or halves in words, rows of `half` pairs.

#define BYTE(ROW, OP)                                                                                                \
    {                                                                                                                \
        unsigned short d;                                                                                            \
        asm("{ .reg .b8 d; cvt." OP " d, %1, %2; cvt.u16.u8 %0, d; }" : "=h"(d) : "f"(high), "f"(low));              \
        narrow[(ROW) * n + t] = d;                                                                                   \
    }
#define HALF(ROW, OP)                                                                                                \
    {                                                                                                                \
        unsigned short d;                                                                                            \
        asm("cvt." OP " %0, %1, %2;" : "=h"(d) : "f"(high), "f"(low));                                               \
        narrow[(ROW) * n + t] = d;                                                                                   \
    }
#define BACK(ROW, OP)                                                                                                \
    {                                                                                                                \
        unsigned d;                                                                                                  \
        asm("cvt." OP " %0, %1;" : "=r"(d) : "h"(codes[t]));                                                         \
        half[(ROW) * n + t] = d;                                                                                     \
    }

extern "C" __global__ void conversions(const float *a, const unsigned short *codes, const unsigned *pairs, unsigned *narrow, unsigned *half, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const float low = a[2 * t], high = a[2 * t + 1];
    BYTE(0, "rn.satfinite.e2m1x2.f32")
    BYTE(1, "rn.satfinite.relu.e2m1x2.f32")
    HALF(2, "rn.satfinite.e2m3x2.f32")
    HALF(3, "rn.satfinite.e3m2x2.f32")
    HALF(4, "rn.satfinite.relu.e3m2x2.f32")
    HALF(5, "rz.satfinite.ue8m0x2.f32")
    HALF(6, "rp.satfinite.ue8m0x2.f32")
    HALF(7, "rn.satfinite.e4m3x2.f32")
    {
        unsigned short d;
        asm("cvt.rz.satfinite.ue8m0x2.bf16x2 %0, %1;" : "=h"(d) : "r"(pairs[t]));
        narrow[8 * n + t] = d;
    }
    {
        unsigned d;
        asm("{ .reg .b8 c, z; mov.b16 {c, z}, %1; cvt.rn.f16x2.e2m1x2 %0, c; }" : "=r"(d) : "h"(codes[t]));
        half[t] = d;
    }
    BACK(1, "rn.f16x2.e2m3x2")
    BACK(2, "rn.relu.f16x2.e3m2x2")
    BACK(3, "rn.bf16x2.ue8m0x2")
    BACK(4, "rn.f16x2.e5m2x2")
}
