// cp.async: a pipeline of three stages in groups, every size, a short source (zeros behind it), and one that arrives on an mbarrier.
#include "common.cuh"
#define CP(form, to, from, ...) asm volatile("cp.async." form ";" ::"r"(to), "l"(from), ##__VA_ARGS__ : "memory")
KERNEL cp_async(const u32 *in, u32 *out, u32 *image) {
    __shared__ __align__(16) u32 stage[3][512];
    __shared__ __align__(8) u64 barrier;
    u32 t = threadIdx.x, sum = 0;
    const u32 *mine = in + blockIdx.x * 8 * 512;
    for (int k = 0; k < 2; k++) {
        CP("cg.shared.global [%0], [%1], 16", shared_address(&stage[k][4 * t]), mine + k * 512 + 4 * t);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int k = 0; k < 8; k++) {
        if (k + 2 < 8) CP("ca.shared.global.L2::128B [%0], [%1], 16", shared_address(&stage[(k + 2) % 3][4 * t]), mine + (k + 2) * 512 + 4 * t);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        __syncthreads();
        for (int i = 0; i < 4; i++) sum = sum * 3 + stage[k % 3][(t + 128 * i + 37) % 512];
        __syncthreads();
    }
    out[THREAD] = sum;
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int i = t; i < 512; i += 128) stage[0][i] = 0xA5A5A5A5;
    if (t == 0) barrier_init(shared_address(&barrier), 128);
    __syncthreads();
    CP("ca.shared.global [%0], [%1], 4", shared_address(&stage[0][t]), mine + (t ^ 5));
    CP("ca.shared.global [%0], [%1], 8", shared_address(&stage[0][128 + 2 * (t % 64)]), mine + 2 * (t % 64) + 64);
    CP("cg.shared.global [%0], [%1], 16, %2", shared_address(&stage[0][256 + 4 * (t % 64)]), mine + 4 * (t % 64), "r"(t % 64 % 17));
    CP("ca.shared.global [%0], [%1], 4, %2", shared_address(&stage[1][t]), mine + t, "r"(t % 5));
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, 40; cp.async.ca.shared.global [%0], [%1], 8, p; }" ::"r"(shared_address(&stage[1][128 + 2 * t])), "l"(mine + 2 * t), "r"(t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
    barrier_wait(shared_address(&barrier), 0);
    __syncthreads();
    for (int i = t; i < 1024; i += 128) image[blockIdx.x * 1024 + i] = (&stage[0][0])[i];
}
