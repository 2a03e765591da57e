// What does TMA do to values on the way? One 256-byte row a case: loaded into shared memory and read back, or stored from it.
#include "probes.cuh"

constexpr unsigned WINDOW_BEGIN = 0x400, ROW = 256;

extern "C" __global__ void __launch_bounds__(ROW) probe_values(const CUtensorMap *maps, const unsigned *stores, const unsigned char *input,
                                                              unsigned char *output) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const CUtensorMap *map = maps + blockIdx.x;
    const int start[5] = {0, 0, 0, 0, 0};
    const size_t mine = (size_t)blockIdx.x * ROW + threadIdx.x;
    if (stores[blockIdx.x]) {
        smem[threadIdx.x] = input[mine];
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) tma_store(1, WINDOW_BEGIN, map, start);
        return;
    }
    const unsigned barrier = WINDOW_BEGIN + ROW;
    smem[threadIdx.x] = 0xA5;
    if (threadIdx.x == 0) barrier_init(barrier);
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(barrier, ROW);
        tma_load(1, WINDOW_BEGIN, map, start, barrier);
    }
    while (!barrier_wait(barrier, 0, 1000000)) {}
    output[mine] = smem[threadIdx.x];
}
