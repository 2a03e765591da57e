// Between the CTAs of a cluster: arrivals on another's mbarrier, st.async, bulk copies from shared to shared memory, red.async.
#include "common.cuh"
KERNEL cluster_barriers(const u32 *in, u32 *image) {
    __shared__ __align__(128) u32 smem[512];
    __shared__ __align__(8) u64 barriers[3];
    u32 t = threadIdx.x, rank, own = shared_address(smem), b = shared_address(barriers), there, far;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(b), "r"(rank ^ 1));
    for (int i = 0; i < 4; i++) smem[t + 128 * i] = i ? 0 : in[THREAD];
    if (t == 0) {
        barrier_init(b, 128);
        barrier_init(b + 8, 1);
        barrier_init(b + 16, 2);
        barrier_init_fence();
        barrier_expect(b + 8, 512 + 512 + 128);
    }
    proxy_fence();
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    // 512 bytes by one bulk copy, 512 by st.async, 128 by red.async: all of them complete transactions of the other's second barrier
    if (t == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(there + 512), "r"(own), "r"(far + 8) : "memory");
    if (t < 64) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];" ::"r"(there + 1024 + 8 * t), "r"(t * 3), "r"(in[THREAD] >> 4), "r"(far + 8) : "memory");
    else if (t < 96) asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(there + 1536 + 4 * (t & 7)), "r"(t + rank), "r"(far + 8) : "memory");
    barrier_wait(b + 8, 0);
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");  // nobody copies from these words any more
    smem[t] = smem[128 + (t ^ 1)] + smem[256 + t];
    // everyone arrives at the other CTA's first barrier, then waits for its own
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far) : "memory");
    asm volatile("{\n.reg .pred P;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [%0], 0;\n@!P bra again;\n}" ::"r"(b) : "memory");
    u32 v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there + 4 * (127 - t)) : "memory");
    if (t >= 8) smem[384 + t] = v;
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], 0;" ::"r"(far + 16) : "memory");
        barrier_arrive(b + 16);
    }
    barrier_wait(b + 16, 0);
    __syncthreads();
    for (int i = t; i < 512; i += 128) image[blockIdx.x * 512 + i] = smem[i];
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
