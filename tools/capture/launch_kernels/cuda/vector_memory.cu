// Loads and stores of vectors, with cache operators, hints and policies, of every width.
#include "common.cuh"
KERNEL vector_memory(const u32 *in, u32 *out, double *doubles) {
    int i = THREAD, n = THREADS;
    uint4 q = ((const uint4 *)in)[i];
    uint2 d = ((const uint2 *)in)[n - 1 - i];
    u32 a, b, c, e;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(e) : "l"(in + 4 * (i ^ 3)));
    ((uint4 *)out)[i] = make_uint4(q.x + a, q.y ^ b, q.z - c, q.w & e);
    ((uint2 *)(out + 4 * n))[i] = make_uint2(d.y, d.x);
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;" : "=r"(a), "=r"(b) : "l"(in + 2 * i), "l"(policy));
    asm volatile("st.global.L2::cache_hint.v2.u32 [%0], {%1, %2}, %3;" ::"l"(out + 6 * n + 2 * i), "r"(b), "r"(a), "l"(policy) : "memory");
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(a) : "l"(in + i));
    asm volatile("ld.volatile.global.u32 %0, [%1+4];" : "=r"(b) : "l"(in + i));
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(c) : "l"(in + 2 * i));
    asm volatile("ld.global.lu.s8 %0, [%1];" : "=r"(e) : "l"((const char *)in + 5 * i));
    out[8 * n + i] = a + b + c + e;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(in + i));
    asm volatile("st.global.cs.u16 [%0], %1;" ::"l"((u16 *)(out + 9 * n) + i), "h"((u16)a) : "memory");
    asm volatile("st.wt.global.u8 [%0], %1;" ::"l"((u8 *)(out + 10 * n) + i), "r"(b) : "memory");
    double2 x = ((const double2 *)doubles)[i];
    __syncthreads();
    ((double2 *)doubles)[i] = make_double2(x.y + 1.0, x.x * 2.0);
    u64 l, m;
    asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(l), "=l"(m) : "l"(in + 4 * i));
    asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(out + 12 * n + 4 * i), "l"(m), "l"(l) : "memory");
}
