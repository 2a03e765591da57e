// Small wrappers around the PTX that every probe needs. One thread issues, all wait.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ inline void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void barrier_init(unsigned barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_invalidate(unsigned barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
}

// true when the phase completed within `cycles`
__device__ inline bool barrier_wait(unsigned barrier, unsigned phase, long long cycles) {
    long long begin = clock64();
    unsigned done = 0;
    while (!done && clock64() - begin < cycles)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
    return done;
}

#define LOAD(RANK, COORDINATES, ...)                                                                                           \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " COORDINATES \
                 "], [%2];" ::"r"(to), "l"(map), "r"(barrier), __VA_ARGS__ : "memory")

__device__ inline void tma_load(int rank, unsigned to, const void *map, const int *c, unsigned barrier) {
    switch (rank) {
    case 1: LOAD(1, "{%3}", "r"(c[0])); break;
    case 2: LOAD(2, "{%3, %4}", "r"(c[0]), "r"(c[1])); break;
    case 3: LOAD(3, "{%3, %4, %5}", "r"(c[0]), "r"(c[1]), "r"(c[2])); break;
    case 4: LOAD(4, "{%3, %4, %5, %6}", "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); break;
    case 5: LOAD(5, "{%3, %4, %5, %6, %7}", "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])); break;
    }
}

#define STORE(RANK, COORDINATES, ...)                                                                              \
    asm volatile("cp.async.bulk.tensor." #RANK "d.global.shared::cta.tile.bulk_group [%1, " COORDINATES "], [%0];" \
                 ::"r"(from), "l"(map), __VA_ARGS__ : "memory")

__device__ inline void tma_store(int rank, unsigned from, const void *map, const int *c) {
    switch (rank) {
    case 1: STORE(1, "{%2}", "r"(c[0])); break;
    case 2: STORE(2, "{%2, %3}", "r"(c[0]), "r"(c[1])); break;
    case 3: STORE(3, "{%2, %3, %4}", "r"(c[0]), "r"(c[1]), "r"(c[2])); break;
    case 4: STORE(4, "{%2, %3, %4, %5}", "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); break;
    case 5: STORE(5, "{%2, %3, %4, %5, %6}", "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])); break;
    }
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}
