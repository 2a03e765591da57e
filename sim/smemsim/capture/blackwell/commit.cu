// One tcgen05.commit by one CTA of a cluster, to its own mbarrier or by a mask to those of others: how often each CTA's barrier was arrived at.
// The barriers expect more arrivals than there can be. Afterwards each CTA arrives at its own until the phase ends: what it need not do itself was done.

constexpr unsigned EXPECTED = 8;
constexpr long long PAUSE = 100000;  // cycles: a commit of nothing takes a hundredth of that

struct Commit {
    unsigned issuer, has_mask, mask, unused;
};

__device__ inline bool barrier_test(unsigned barrier, unsigned phase) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
    return done;
}

template <int GROUP> __device__ inline void tensor_commit_mask(unsigned barrier, unsigned mask) {
    if (GROUP == 1)
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                     ::"r"(barrier), "h"((unsigned short)mask) : "memory");
    else
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                     ::"r"(barrier), "h"((unsigned short)mask) : "memory");
}

template <int GROUP> __device__ void commits(const Commit *job, unsigned *arrivals) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Commit c = *job;
    const unsigned barrier = shared_address(smem), t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        barrier_init(barrier, EXPECTED);
        barriers_visible();
    }
    __syncthreads();
    cluster_sync();
    if (rank == c.issuer && elect()) {
        if (c.has_mask) tensor_commit_mask<GROUP>(barrier, c.mask);
        else tensor_commit<GROUP>(barrier);
    }
    __syncwarp();
    const long long begin = clock64();
    while (clock64() - begin < PAUSE && PAUSE < PATIENCE) {}
    cluster_sync();
    if (t == 0) {
        unsigned own = 0;
        for (; own < EXPECTED && !barrier_test(barrier, 0); own++) barrier_arrive(barrier);
        arrivals[rank] = EXPECTED - own;
    }
    __syncthreads();
    cluster_sync();
}

#define KERNEL(GROUP, SIZE)                                                                                           \
    extern "C" __global__ void __cluster_dims__(SIZE) __launch_bounds__(32)                                           \
        commit_##GROUP##_##SIZE(const Commit *job, unsigned *arrivals) { commits<GROUP>(job, arrivals); }
KERNEL(1, 2)
KERNEL(1, 4)
KERNEL(2, 2)
KERNEL(2, 4)
