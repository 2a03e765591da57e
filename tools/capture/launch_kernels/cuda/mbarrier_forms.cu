// What mbarriers count: arrivals with and without a drop, states, test_wait by state and by parity, transactions by hand, pending_count.
#include "common.cuh"
KERNEL mbarrier_forms(u32 *out) {
    __shared__ __align__(8) u64 barriers[4];
    __shared__ u32 log[32];
    u32 t = threadIdx.x, a = shared_address(barriers), n = 0;
    if (t < 32) log[t] = 0;
    if (t == 0) {
        barrier_init(a, 3);
        barrier_init(a + 8, 64);
        barrier_init(a + 16, 2);
        barrier_init_fence();
    }
    __syncthreads();
    if (t == 0) {
        u64 state, next;
        u32 x;
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(a) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(x) : "l"(state)); log[n++] = x;
#define TEST(what) asm volatile("{ .reg .pred p; mbarrier.test_wait." what " selp.u32 %0, 1, 0, p; }" : "=r"(x) : "r"(a), "l"(state), "r"(0), "r"(1) : "memory"); log[n++] = x
        TEST("shared::cta.b64 p, [%1], %2;"); TEST("parity.shared::cta.b64 p, [%1], %3;"); TEST("parity.shared::cta.b64 p, [%1], %4;");
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 2;" : "=l"(next) : "r"(a) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(x) : "l"(next)); log[n++] = x;
        TEST("shared::cta.b64 p, [%1], %2;"); TEST("parity.shared::cta.b64 p, [%1], %3;"); TEST("parity.shared::cta.b64 p, [%1], %4;");
        asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(a) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], 48;" : "=l"(state) : "r"(a) : "memory");
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(a) : "memory");
        TEST("parity.shared::cta.b64 p, [%1], %4;");
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%0], 32;" ::"r"(a) : "memory");
        TEST("parity.shared::cta.b64 p, [%1], %4;");
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(a) : "memory");
        asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 32;" ::"r"(a) : "memory");
        TEST("parity.acquire.cta.shared::cta.b64 p, [%1], %4;");
        asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 1;" : "=l"(state) : "r"(a) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(x) : "l"(state)); log[n++] = x;  // two are expected now, one has come
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(a) : "memory");
        TEST("parity.shared::cta.b64 p, [%1], %3;");
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(a) : "memory");
    }
    // Two halves of the block hand a word back and forth.
    __shared__ u32 word;
    if (t == 0) word = 1;
    __syncthreads();
    for (u32 round = 0; round < 4; round++) {
        if (t < 64) {
            if (t == 7) word = word * 3 + round;
            barrier_arrive(a + 8);
            if (t == 0) barrier_wait(a + 16, round & 1);
            __syncwarp();
            asm volatile("bar.sync 1, 64;" ::: "memory");
        } else if (t == 64 || t == 100) {
            barrier_wait(a + 8, round & 1);
            if (t == 100) log[20 + round] = word;
            u32 done;
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 1000; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(a + 8), "r"(round & 1) : "memory");
            log[24 + round] = done;
            barrier_arrive(a + 16);
        }
    }
    __syncthreads();
    if (t < 32) out[blockIdx.x * 32 + t] = log[t];
}
