// Generic addresses of every state space, isspacep, special registers.
#include "common.cuh"
__constant__ u32 fixed[4] = {11, 22, 33, 44};
__device__ u32 elsewhere[4] = {1, 2, 3, 4};
__device__ __noinline__ u32 spaces(const void *p) { return __isGlobal(p) | __isShared(p) << 1 | __isLocal(p) << 2 | __isConstant(p) << 3; }
KERNEL generic_addresses(const u32 *in, u32 *out) {
    __shared__ u32 shared[128];
    extern __shared__ u32 more[];
    u32 x = in[THREAD], local[8];
    int slot = 0;
    shared[threadIdx.x % 128] = x;
    more[threadIdx.x] = ~x;
    for (int i = 0; i < 8; i++) local[i] = x >> i;
    __syncthreads();
    const u32 *p;
    switch (x % 5) {
    case 0: p = shared + (x >> 5 & 63); break;
    case 1: p = local + (x >> 5 & 7); break;
    case 2: p = fixed + (x >> 5 & 3); break;
    case 3: p = more + (x >> 5 & 63); break;
    default: p = elsewhere + (x >> 5 & 3);
    }
    PUT(*p); PUT(spaces(p)); PUT(spaces(in));
    __syncthreads();
    u32 *q = x & 1 ? local + (x >> 3 & 7) : shared + threadIdx.x % 128;
    *q = x + 99;
    PUT(local[x >> 3 & 7] + shared[threadIdx.x % 128]);
    PUT(threadIdx.x + threadIdx.y * 100 + threadIdx.z * 10000); PUT(blockIdx.x + blockIdx.y * 100 + blockIdx.z * 10000);
    PUT(blockDim.x + blockDim.y * 100 + blockDim.z * 10000); PUT(gridDim.x + gridDim.y * 100 + gridDim.z * 10000);
#define SPECIAL(name) PUT_ASM("mov.u32 %0, %%" name ";", "r", u32, "r"(0))
    SPECIAL("laneid") SPECIAL("cluster_ctaid.x") SPECIAL("cluster_nctaid.x") SPECIAL("cluster_ctarank") SPECIAL("cluster_nctarank")
    SPECIAL("clusterid.x") SPECIAL("nclusterid.x") SPECIAL("dynamic_smem_size") SPECIAL("total_smem_size")
}
