// Distributed shared memory: CTAs read, write and add to one another's shared memory between cluster barriers of every kind.
#include "common.cuh"
KERNEL cluster_dsmem(const u32 *in, u32 *out, u32 *image) {
    __shared__ __align__(16) u32 smem[256];
    u32 t = threadIdx.x, rank, size, own = shared_address(smem), x = in[THREAD];
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    smem[t] = x;
    smem[t + 128] = 0;
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    u32 sum = 0;
    for (u32 r = 0; r < size; r++) {
        u32 there, v, a, b, c, d;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(r));
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there + 4 * (t ^ r)) : "memory");
        asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(there + 16 * (t % 32)) : "memory");
        sum = sum * 7 + v + (a ^ b) + c - d;
        asm volatile("{ .reg .u32 s; atom.relaxed.cluster.shared::cluster.add.u32 s, [%0], %1; }" ::"r"(there + 512 + 4 * (t % 64)), "r"(x >> 8) : "memory");
        asm volatile("red.relaxed.cluster.shared::cluster.max.u32 [%0], %1;" ::"r"(there + 512 + 4 * (64 + t % 32)), "r"(x) : "memory");
    }
    u64 generic;
    asm volatile("{ .reg .u64 g; cvta.shared.u64 g, %1; mapa.u64 %0, g, %2; }" : "=l"(generic) : "l"((u64)own), "r"((rank + 1) % size));
    sum += *(volatile u32 *)(generic + 4 * ((t + 5) % 128));
    u32 seen;
    asm volatile("{ .reg .u32 a; mapa.shared::cluster.u32 a, %1, %2; getctarank.shared::cluster.u32 %0, a; }" : "=r"(seen) : "r"(own), "r"((rank + 2) % size));
    out[THREAD] = sum + seen * 1000;
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    u32 next;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(next) : "r"(own), "r"(rank ^ 1));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(next + 4 * t), "r"(x + rank) : "memory");
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
    for (u32 i = t; i < 256; i += 128) image[blockIdx.x * 256 + i] = smem[i];
}
