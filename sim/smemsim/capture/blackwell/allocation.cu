// A sequence of tcgen05.alloc, dealloc and relinquish by warp 0, and what each gave. Warp 1 watches: an allocation that never comes ends the
// launch with a trap. In `contend` many CTAs of one SM ask for columns and hold them for a while.

struct Op {
    unsigned what, columns, index;  // 0 alloc, 1 dealloc of the allocation that operation `index` made, 2 relinquish
};
constexpr int MOST_OPS = 16;

template <int GROUP> __device__ void sequence(const Op *ops, unsigned count, unsigned *addresses, unsigned *cycles) {
    __shared__ unsigned slot;
    __shared__ volatile unsigned finished;
    const unsigned t = threadIdx.x, rank = GROUP == 2 ? cluster_rank() : 0;
    if (t == 0) finished = 0;
    __syncthreads();
    if (GROUP == 2) cluster_sync();
    if (t < 32) {
        unsigned held[MOST_OPS];
        for (unsigned i = 0; i < count; i++) held[i] = 0;
        for (unsigned i = 0; i < count; i++) {
            const long long begin = clock64();
            if (ops[i].what == 0) {
                if (t == 0) *(volatile unsigned *)&slot = 0xFFFFFFFF;
                __syncwarp();
                tensor_alloc<GROUP>(shared_address(&slot), ops[i].columns);
                __syncwarp();
                const unsigned address = *(volatile unsigned *)&slot;
                __syncwarp();
                held[i] = ops[i].columns;
                if (t == 0) addresses[rank * MOST_OPS + i] = address;
            } else if (ops[i].what == 1) {
                __syncwarp();
                tensor_dealloc<GROUP>(*(volatile unsigned *)&addresses[rank * MOST_OPS + ops[i].index], ops[i].columns);
                held[ops[i].index] = 0;
            } else {
                tensor_relinquish<GROUP>();
            }
            if (t == 0) cycles[rank * MOST_OPS + i] = (unsigned)(clock64() - begin);
            __threadfence();
            __syncwarp();
        }
        for (unsigned i = 0; i < count; i++)
            if (held[i]) tensor_dealloc<GROUP>(*(volatile unsigned *)&addresses[rank * MOST_OPS + i], held[i]);
        if (t == 0) finished = 1;
    } else if (t == 32) {
        const long long begin = clock64();
        while (!finished && clock64() - begin < 4 * PATIENCE) {}
        if (!finished) __trap();
    }
    __syncthreads();
    if (GROUP == 2) cluster_sync();
}

extern "C" __global__ void __launch_bounds__(64) sequence_1(const Op *ops, unsigned count, unsigned *addresses, unsigned *cycles) {
    sequence<1>(ops, count, addresses, cycles);
}
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(64) sequence_2(const Op *ops, unsigned count, unsigned *addresses, unsigned *cycles) {
    sequence<2>(ops, count, addresses, cycles);
}

struct Held {
    unsigned sm, address;
    unsigned long long asked, got, released;  // %globaltimer, ns
};

__device__ inline unsigned long long now() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

// Every CTA allocates columns[its number % kinds], holds them and gives them back; more CTAs live on an SM than its columns can serve.
extern "C" __global__ void __launch_bounds__(32) contend(const unsigned *columns, unsigned kinds, unsigned hold, Held *held) {
    __shared__ unsigned slot;
    const unsigned t = threadIdx.x, count = columns[blockIdx.x % kinds];
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    const unsigned long long asked = now();
    tensor_alloc<1>(shared_address(&slot), count);
    __syncwarp();
    const unsigned address = *(volatile unsigned *)&slot;
    const unsigned long long got = now();
    tensor_relinquish<1>();
    for (const long long begin = clock64(); clock64() - begin < hold;) {}
    __syncwarp();
    tensor_dealloc<1>(address, count);
    if (t == 0) held[blockIdx.x] = {sm, address, asked, got, now()};
}
