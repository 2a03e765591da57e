// TMA loads of one, three, four and five dimensions, and a store of each to another tensor; loads begin outside, which stores may not.
#include "common.cuh"
#define MAP const __grid_constant__ CUtensorMap
#define MOVE(rank, coordinates, load, store)                                                                                                      \
    if (t == 0) {                                                                                                                                 \
        barrier_expect(b, 2048);                                                                                                                  \
        asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " coordinates "], [%2];"  \
                     ::"r"(base), "l"(&load), "r"(b), "r"(c), "r"(0), "r"(1), "r"(-1) : "memory");                                                \
    }                                                                                                                                             \
    barrier_wait(b, parity++ & 1);                                                                                                                \
    for (u32 i = t; i < 512; i += blockDim.x) { image[(blockIdx.x * 4 + parity - 1) * 512 + i] = smem[i]; smem[i] += 0x00010001; }                 \
    proxy_fence();                                                                                                                                \
    __syncthreads();                                                                                                                              \
    if (t == 0) {                                                                                                                                 \
        asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group [%1, " coordinates "], [%0];"                              \
                     ::"r"(base), "l"(&store), "r"(b), "r"(c), "r"(0), "r"(1), "r"(0) : "memory");                                                \
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");                                                \
    }                                                                                                                                             \
    __syncthreads();
KERNEL tma_ranks(MAP l1, MAP l3, MAP l4, MAP l5, MAP s1, MAP s3, MAP s4, MAP s5, u32 *image) {
    __shared__ __align__(1024) u32 smem[512];
    __shared__ __align__(8) u64 barrier;
    u32 t = threadIdx.x, base = shared_address(smem), b = shared_address(&barrier), parity = 0;
    if (t == 0) {
        barrier_init(b, 1);
        barrier_init_fence();
    }
    __syncthreads();
    int c = blockIdx.x * 16;
    MOVE("1d", "{%3}", l1, s1)
    MOVE("3d", "{%3, %5, %4}", l3, s3)
    MOVE("4d", "{%3, %4, %6, %5}", l4, s4)
    MOVE("5d", "{%3, %5, %4, %5, %6}", l5, s5)
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
