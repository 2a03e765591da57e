// cp.async.bulk without a tensor map: loads on two mbarriers, stores in bulk groups, reductions into memory, a prefetch.
#include "common.cuh"
KERNEL bulk_1d(const u32 *in, u32 *out, u32 *sums, float *floats, u16 *halves, u32 *image) {
    __shared__ __align__(128) u32 buffer[2][256];
    __shared__ __align__(8) u64 barriers[2];
    u32 t = threadIdx.x, first = shared_address(barriers);
    const u32 *mine = in + blockIdx.x * 1024;
    if (t == 0) {
        barrier_init(first, 1);
        barrier_init(first + 8, 1);
        barrier_init_fence();
    }
    __syncthreads();
    for (int k = 0; k < 4; k++) {
        u32 barrier = first + 8 * (k & 1), to = shared_address(buffer[k & 1]);
        if (t == 0) {
            asm volatile("cp.async.bulk.prefetch.L2.global [%0], 1024;" ::"l"(mine) : "memory");
            barrier_expect(barrier, 1024);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(mine + 256 * k), "r"(640), "r"(barrier) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to + 640), "l"(mine + 256 * k + 160), "r"(384), "r"(barrier) : "memory");
        }
        barrier_wait(barrier, k >> 1 & 1);
        buffer[k & 1][t] = buffer[k & 1][t] * 5 + k;
        buffer[k & 1][t + 128] ^= buffer[k & 1][255 - t] >> 20 & 0;
        proxy_fence();
        __syncthreads();
        if (t == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + blockIdx.x * 1024 + 256 * k), "r"(to), "r"(1024) : "memory");
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(sums), "r"(to), "r"(512) : "memory");
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%0], [%1], %2;" ::"l"(sums + 128), "r"(to + 512), "r"(512) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
    ((float *)buffer[0])[t] = (float)(mine[t] >> 28);
    ((half *)buffer[1])[t] = __float2half((float)(mine[t] >> 30));
    ((__nv_bfloat16 *)buffer[1])[128 + t] = __float2bfloat16((float)(mine[t] >> 30));
    proxy_fence();
    __syncthreads();
    if (t == 32) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(floats), "r"(shared_address(buffer[0])), "r"(512) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(halves), "r"(shared_address(buffer[1])), "r"(256) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(halves + 128), "r"(shared_address(buffer[1]) + 256), "r"(256) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    for (int i = t; i < 512; i += 128) image[blockIdx.x * 512 + i] = (&buffer[0][0])[i];
}
