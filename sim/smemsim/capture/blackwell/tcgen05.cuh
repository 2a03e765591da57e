// PTX wrappers of the Blackwell probes. With sm_90a the same kernels build too: tensor memory is then an array in global memory and
// wgmma stands in for tcgen05.mma, so that everything around the instructions can be run on a Hopper card.
#pragma once

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
#define TCGEN05 1
#else
#define TCGEN05 0
#endif

[[maybe_unused]] constexpr unsigned WINDOW_BEGIN = 0x400, CONTROL = 0x38F00;  // CONTROL: barriers, and the address that alloc writes
[[maybe_unused]] constexpr int LANES = 128, COLUMNS = 512;
constexpr long long PATIENCE = 100000000;  // cycles, about 50 ms: no probe takes a thousandth of that
[[maybe_unused]] constexpr unsigned SENTINEL = 0x7FE5A5A5;  // in tensor memory where nothing has been written: a NaN that no instruction makes

__device__ inline unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// ---------------------------------------------------------------------------------------------------- barriers, proxies, clusters

__device__ inline void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void barrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void barriers_visible() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void barrier_arrive(unsigned barrier) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(barrier) : "memory");
}

__device__ inline bool barrier_try(unsigned barrier, unsigned phase) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
    return done;
}

// True when the phase completed; false after PATIENCE cycles, so that nothing hangs. A thread that was held up past its patience looks once more.
__device__ inline bool barrier_wait(unsigned barrier, unsigned phase) {
    const long long begin = clock64();
    bool done = false;
    while (!done && clock64() - begin < PATIENCE) done = barrier_try(barrier, phase);
    return done || barrier_try(barrier, phase);
}

__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline unsigned mapa(unsigned address, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// One thread of a converged warp.
__device__ inline bool elect() {
    unsigned chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.u32 %0, 1, 0, p; }" : "=r"(chosen)::"memory");
    return chosen;
}

// ------------------------------------------------------------------------------------------------------------------ tensor memory

#define R8(I) "r"(r[I]), "r"(r[I + 1]), "r"(r[I + 2]), "r"(r[I + 3]), "r"(r[I + 4]), "r"(r[I + 5]), "r"(r[I + 6]), "r"(r[I + 7])
#define W8(I) "=r"(r[I]), "=r"(r[I + 1]), "=r"(r[I + 2]), "=r"(r[I + 3]), "=r"(r[I + 4]), "=r"(r[I + 5]), "=r"(r[I + 6]), "=r"(r[I + 7])
#define NAMES32                                                                                                                       \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, " \
    "%27, %28, %29, %30, %31}"

// What a warp of tensor memory is: on Hopper, rows of `array`.
struct TensorMemory {
    unsigned base;    // what alloc gave
    unsigned *array;  // 128 x 512 words where there is no tensor memory
};

template <int GROUP> __device__ inline void tensor_alloc(unsigned slot, unsigned columns) {  // by one converged warp (of each CTA)
#if TCGEN05
    if (GROUP == 1) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns) : "memory");
    else asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns) : "memory");
#else
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(slot), "r"(0) : "memory");
#endif
}

template <int GROUP> __device__ inline void tensor_dealloc(unsigned address, unsigned columns) {
#if TCGEN05
    if (GROUP == 1) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory");
    else asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory");
#endif
}

template <int GROUP> __device__ inline void tensor_relinquish() {
#if TCGEN05
    if (GROUP == 1) asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
    else asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
#endif
}

__device__ inline void tensor_fence_before() {
#if TCGEN05
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
#endif
}

__device__ inline void tensor_fence_after() {
#if TCGEN05
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
#endif
}

__device__ inline void tensor_wait_st() {
#if TCGEN05
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
#endif
}

// 32 columns of the calling warp's own 32 lanes; the caller waits with tensor_wait_st.
__device__ inline void tensor_store32(const TensorMemory &memory, unsigned warp, unsigned column, const unsigned (&r)[32]) {
#if TCGEN05
    asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], " NAMES32 ";"
                 ::R8(0), R8(8), R8(16), R8(24), "r"(memory.base + (warp * 32 << 16) + column) : "memory");
#else
    for (int i = 0; i < 32; i++) memory.array[threadIdx.x % 128 * COLUMNS + column + i] = r[i];
#endif
}

// The same the other way round; the registers hold the words on return.
__device__ inline void tensor_load32(const TensorMemory &memory, unsigned warp, unsigned column, unsigned (&r)[32]) {
#if TCGEN05
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 " NAMES32 ", [%32];\n tcgen05.wait::ld.sync.aligned;"
                 : W8(0), W8(8), W8(16), W8(24) : "r"(memory.base + (warp * 32 << 16) + column) : "memory");
#else
    for (int i = 0; i < 32; i++) r[i] = memory.array[threadIdx.x % 128 * COLUMNS + column + i];
#endif
}

// Arrive at `barrier` when everything that this thread issued (mma, cp, shift) is done. It fences before_thread_sync itself.
template <int GROUP> __device__ inline void tensor_commit(unsigned barrier) {
#if TCGEN05
    if (GROUP == 1) asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
    else asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
#endif
}

// The same at that offset in both CTAs of the pair.
__device__ inline void tensor_commit_pair(unsigned barrier) {
#if TCGEN05
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(barrier), "h"((unsigned short)3) : "memory");
#endif
}
