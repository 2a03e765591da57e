// One probe of tensor memory: fill the shared window and tensor memory of a CTA, or of a pair, run a few tcgen05 instructions one after the
// other, and copy tensor memory out. The host says what lies where and which instructions run, so one kernel serves most suites.
// machine.py writes the instructions' forms into issue().

constexpr int MOST_STEPS = 8;
enum : unsigned { WAIT = 1 };  // flags of a step

struct Step {
    unsigned op, flags, d, idesc;   // d: tensor memory address, counted from the allocation
    unsigned long long a, b;        // descriptors; a is a tensor memory address where the form says so
    unsigned meta, scale_a, scale_b, enable_d;
    unsigned mask[8];               // disable-output-lane
    unsigned long long zero;        // zero-column mask
};

struct Case {
    unsigned long long shared[2], tensor[2];  // device addresses: the window's bytes, 128 x 512 words; of each CTA
    unsigned long long out, array;            // out: (CTA, lane, columns) words; array: where there is no tensor memory
    unsigned first_column, columns;           // what is copied out, multiples of 32
    unsigned steps, unused;
    Step step[MOST_STEPS];
};

struct Result {
    unsigned completed, shared_base, tensor_base, cycles;
};

//FORMS

template <int GROUP> __device__ void machine(const Case *job, Result *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Case &c = *job;
    const unsigned base = shared_address(smem), slot = base + CONTROL - WINDOW_BEGIN;
    const unsigned step_done = slot + 16, all_done = slot + 24;
    const unsigned t = threadIdx.x, warp = t / 32, rank = GROUP == 2 ? cluster_rank() : 0;

    for (unsigned x = t; x < (CONTROL - WINDOW_BEGIN) / 16; x += 128) ((uint4 *)smem)[x] = ((const uint4 *)c.shared[rank])[x];
    if (t == 0) {
        barrier_init(step_done, 1);
        barrier_init(all_done, 1);
        barriers_visible();
    }
    proxy_fence();
    __syncthreads();
    if (GROUP == 2) cluster_sync();  // both CTAs run before one of them allocates for the pair
    if (warp == 0) {
        tensor_alloc<GROUP>(slot, COLUMNS);
        tensor_relinquish<GROUP>();
    }
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    TensorMemory memory = {*(volatile unsigned *)(smem + CONTROL - WINDOW_BEGIN), (unsigned *)c.array + rank * LANES * COLUMNS};

    for (unsigned column = 0; column < COLUMNS; column += 32) {
        unsigned r[32];
        for (int i = 0; i < 32; i++) r[i] = ((const unsigned *)c.tensor[rank])[t * COLUMNS + column + i];
        tensor_store32(memory, warp, column, r);
    }
    tensor_wait_st();
    tensor_fence_before();
    __syncthreads();
    if (GROUP == 2) cluster_sync();
    tensor_fence_after();

    const long long begin = clock64();
    bool done = true;
#if TCGEN05
    if (rank == 0 && warp == 0) {
        if (elect()) {
            unsigned phase = 0;
            for (unsigned i = 0; i < c.steps && done; i++) {
                issue<GROUP>(c.step[i], memory.base);
                if (c.step[i].flags & WAIT) {
                    tensor_commit<GROUP>(step_done);
                    done = barrier_wait(step_done, phase);
                    phase ^= 1;
                    tensor_fence_after();
                }
            }
            if (GROUP == 2) tensor_commit_pair(all_done);
            else tensor_commit<GROUP>(all_done);
        }
        __syncwarp();
    }
    done = barrier_wait(all_done, 0) && done;
    tensor_fence_after();
#else
    for (unsigned i = 0; i < c.steps; i++) done = wgmma_step(c.step[i], memory) && done;
    __syncthreads();
#endif
    const unsigned completed = __syncthreads_and(done);
    const long long end = clock64();

    for (unsigned column = 0; column < c.columns; column += 32) {
        unsigned r[32];
        tensor_load32(memory, warp, c.first_column + column, r);
        for (int i = 0; i < 32; i++) ((unsigned *)c.out)[(rank * LANES + t) * c.columns + column + i] = r[i];
    }
    tensor_fence_before();
    __syncthreads();
    if (GROUP == 2) cluster_sync();
    if (warp == 0) tensor_dealloc<GROUP>(memory.base, COLUMNS);
    if (t == 0) results[rank] = {completed, base, memory.base, (unsigned)(end - begin)};
}

extern "C" __global__ void __launch_bounds__(128) machine_1(const Case *job, Result *results) { machine<1>(job, results); }
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(128) machine_2(const Case *job, Result *results) { machine<2>(job, results); }
