// Functions that are not inlined: structures by value, results of several words, pointers to locals.
#include "common.cuh"
struct Pair { u32 a; double b; u8 c[3]; };
__device__ __noinline__ Pair swapped(Pair p, int by) {
    Pair q;
    q.a = (u32)p.b + by;
    q.b = p.a * 0.5;
    q.c[0] = p.c[2]; q.c[1] = p.c[0]; q.c[2] = p.c[1] + by;
    return q;
}
__device__ __noinline__ void sort4(u32 *v) {
    for (int i = 0; i < 4; i++)
        for (int j = i + 1; j < 4; j++)
            if (v[j] < v[i]) { u32 t = v[i]; v[i] = v[j]; v[j] = t; }
}
__device__ __noinline__ float horner(float x, const float *c, int n) {
    float y = c[0];
    for (int i = 1; i < n; i++) y = fmaf(y, x, c[i]);
    return y;
}
__device__ __noinline__ void store_if(bool wanted, u64 *p, u64 v) { if (wanted) *p = v; }
KERNEL functions(const u32 *in, const float *coefficients, u32 *out, u64 *wide) {
    int slot = 0;
    u32 x = in[THREAD];
    Pair p = {x & 0xffff, (double)(x >> 16), {(u8)x, (u8)(x >> 8), (u8)(x >> 16)}};
    for (int i = 0; i < (x & 3) + 1; i++) p = swapped(p, i);
    PUT(p.a); PUT((u32)(p.b * 4)); PUT(p.c[0] | p.c[1] << 8 | p.c[2] << 16);
   
    u32 v[4] = {x, x * 7, x ^ 0x12345678, x >> 3};
    sort4(v + 0);
    PUT(v[0]); PUT(v[1]); PUT(v[2]); PUT(v[3]);
    PUT(__float_as_uint(horner((float)(x & 255) / 64.0f, coefficients, 3 + (x & 3))));
    store_if(x & 1, wide + THREAD, (u64)x * x);
}
