// Functions that call themselves, to a depth that the data say.
#include "common.cuh"
__device__ __noinline__ u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ u32 ackermann(u32 m, u32 n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
KERNEL recursion(const u32 *in, u32 *out) {
    int slot = 0;
    u32 x = in[THREAD];
    PUT(fibonacci(x % 9)); PUT(ackermann(x % 3, x >> 8 & 3));
}
