// Two-lane f32 arithmetic, min and max of three, and sums whose second operand is 16 bits wide: instructions that sm_90 lacks.
// Each form has a row of `out`; thread t has elements 2 t and 2 t + 1.

__device__ inline unsigned long long pair(const float *p) { return *(const unsigned long long *)p; }

#define TWO(ROW, OP)                                                                                                 \
    {                                                                                                                \
        unsigned long long d;                                                                                        \
        asm(OP " %0, %1, %2;" : "=l"(d) : "l"(x), "l"(y));                                                           \
        *(unsigned long long *)(out + (ROW) * n + at) = d;                                                           \
    }
#define THREE(ROW, OP)                                                                                               \
    {                                                                                                                \
        unsigned long long d;                                                                                        \
        asm(OP " %0, %1, %2, %3;" : "=l"(d) : "l"(x), "l"(y), "l"(z));                                               \
        *(unsigned long long *)(out + (ROW) * n + at) = d;                                                           \
    }

extern "C" __global__ void packed(const float *a, const float *b, const float *c, float *out, int n) {
    const int at = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    const unsigned long long x = pair(a + at), y = pair(b + at), z = pair(c + at);
    TWO(0, "add.rn.f32x2")
    TWO(1, "add.rz.f32x2")
    TWO(2, "add.rm.f32x2")
    TWO(3, "add.rp.ftz.f32x2")
    TWO(4, "sub.rn.f32x2")
    TWO(5, "mul.rn.f32x2")
    TWO(6, "mul.rz.ftz.f32x2")
    TWO(7, "mul.rp.f32x2")
    THREE(8, "fma.rn.f32x2")
    THREE(9, "fma.rz.f32x2")
    THREE(10, "fma.rm.f32x2")
    THREE(11, "fma.rp.ftz.f32x2")
}

#define LIMIT(ROW, OP)                                                                                               \
    {                                                                                                                \
        float d;                                                                                                     \
        asm(OP " %0, %1, %2, %3;" : "=f"(d) : "f"(a[at]), "f"(b[at]), "f"(c[at]));                                   \
        out[(ROW) * n + at] = d;                                                                                     \
    }

extern "C" __global__ void limits(const float *a, const float *b, const float *c, float *out, int n) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    LIMIT(0, "max.f32")
    LIMIT(1, "min.f32")
    LIMIT(2, "max.abs.f32")
    LIMIT(3, "min.NaN.f32")
    LIMIT(4, "max.NaN.abs.f32")
    LIMIT(5, "min.ftz.f32")
}

#define MIXED(ROW, OP, H)                                                                                            \
    {                                                                                                                \
        float d;                                                                                                     \
        asm(OP " %0, %1, %2;" : "=f"(d) : "h"(H), "f"(c[at]));                                                       \
        out[(ROW) * n + at] = d;                                                                                     \
    }
#define MIXED_FMA(ROW, OP, H, G)                                                                                     \
    {                                                                                                                \
        float d;                                                                                                     \
        asm(OP " %0, %1, %2, %3;" : "=f"(d) : "h"(H), "h"(G), "f"(c[at]));                                           \
        out[(ROW) * n + at] = d;                                                                                     \
    }

extern "C" __global__ void mixed(const unsigned short *f, const unsigned short *g, const unsigned short *h, const float *c, float *out, int n) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    MIXED(0, "add.rn.f32.f16", f[at])
    MIXED(1, "sub.rn.f32.f16", f[at])
    MIXED(2, "add.rz.f32.bf16", h[at])
    MIXED(3, "sub.rp.f32.bf16", h[at])
    MIXED_FMA(4, "fma.rn.f32.f16", f[at], g[at])
    MIXED_FMA(5, "fma.rm.f32.bf16", h[at], h[at])
}

// A value of every lane of the warp, reduced: redux.sync on f32.
#define REDUX(ROW, OP)                                                                                               \
    {                                                                                                                \
        float d;                                                                                                     \
        asm volatile("redux.sync." OP " %0, %1, 0xffffffff;" : "=f"(d) : "f"(a[at]));                                \
        out[(ROW) * n + at] = d;                                                                                     \
    }

extern "C" __global__ void redux(const float *a, float *out, int n) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    REDUX(0, "min.f32")
    REDUX(1, "max.f32")
    REDUX(2, "min.abs.f32")
    REDUX(3, "max.abs.NaN.f32")
    REDUX(4, "min.NaN.f32")
}

// 256 bits a thread, in and out.
extern "C" __global__ void wide(const float *a, const unsigned long long *b, float *x, unsigned long long *y) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    float v[8];
    asm volatile("ld.global.v8.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]) : "l"(a + 8 * t));
    asm volatile("st.global.v8.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};"
                 ::"l"(x + 8 * t), "f"(v[7]), "f"(v[6]), "f"(v[5]), "f"(v[4]), "f"(v[3]), "f"(v[2]), "f"(v[1]), "f"(v[0]) : "memory");
    unsigned long long w[4];
    asm volatile("ld.global.nc.L2::evict_last.v4.b64 {%0, %1, %2, %3}, [%4];" : "=l"(w[0]), "=l"(w[1]), "=l"(w[2]), "=l"(w[3]) : "l"(b + 4 * t));
    asm volatile("st.global.L2::evict_first.v4.b64 [%0], {%1, %2, %3, %4};" ::"l"(y + 4 * t), "l"(w[1]), "l"(w[0]), "l"(w[3]), "l"(w[2]) : "memory");
}
