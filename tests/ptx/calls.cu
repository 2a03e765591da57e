// What a device program has beside arithmetic: calls, switches, tables, addresses in tables, inline assembly with scopes.
// nvcc -ptx -arch=sm_90a calls.cu
struct __attribute__((packed)) Packed {
    char tag;
    const int *counter;
    short more;
};

__device__ int counters[4] = {1, 2, 3};
__device__ int *second = counters + 1;
__device__ Packed packed = {1, counters + 2, 3};
__constant__ float weights[3] = {1.0f, -0.5f, 2.5f};
extern __shared__ float dynamic[];

typedef int (*Step)(int);
__device__ __noinline__ int up(int x) { return x * 3 + 1; }
__device__ __noinline__ int down(int x) { return x / 2; }
__device__ Step steps[2] = {up, down};

__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void __launch_bounds__(128, 2) calls(int n, int *out, float *values) {
    __shared__ float tile[32];
    tile[threadIdx.x & 31] = values[threadIdx.x] * weights[n];
    dynamic[threadIdx.x] = tile[n & 31];
    __syncthreads();
    out[0] = steps[n & 1](*second);
    out[1] = fibonacci(n) + *packed.counter;
    values[1] = dynamic[n];
    switch (n) {
    case 0: out[2] = atomicAdd(out + 3, 3); break;
    case 1: out[3] = atomicCAS(out, 1, 2); break;
    case 2: out[4] = __popc(n + out[7]); break;
    case 3: out[5] = __brev(out[3]); __syncthreads(); break;
    case 4: out[6] = __shfl_xor_sync(~0u, n, 3); break;
    case 5: out[7] = (int)clock64(); __threadfence(); break;
    case 6: out[8] = __activemask(); break;
    default: out[9] = n;
    }
}

extern "C" __global__ void scopes(int *out) {
    int x = out[0];
    for (int round = 0; round < 2; round++) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            asm volatile("{ .reg .pred %%p; .reg .b32 t<2>;\n"
                         "AGAIN: setp.gt.s32 %%p, %0, 7; @%%p bra DONE; add.s32 t1, %0, 017; mov.b32 %0, t1; bra AGAIN;\n"
                         "DONE: }"
                         : "+r"(x));
    }
    asm volatile("{ .reg .b32 t; mov.b32 t, 0b101; { .reg .b64 t; mov.b64 t, -1; cvt.u32.u64 %0, t; } add.s32 %0, %0, t; }" : "+r"(x));
    asm volatile("{ .reg .pred p, q; setp.lt.and.f32 p|q, %1, 0f3F800000, !p; selp.b32 %0, WARP_SZ, 0, q; }" : "=r"(out[1]) : "f"(weights[0]));
    out[0] = x;
}
