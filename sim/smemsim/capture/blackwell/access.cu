// One tcgen05.ld or tcgen05.st by the warps of `warps`, each at its own 32 lanes plus `place`. Before a load, tensor memory holds what the host
// gave; before a store every register holds its thread and number. access.py writes the forms.

struct Case {
    unsigned long long tensor, out;
    unsigned form, place, warps, unused;  // place: lane << 16 | column
};

__device__ TensorMemory begin(const Case &c, unsigned char *smem) {
    const unsigned t = threadIdx.x, warp = t / 32;
    if (warp == 0) {
        tensor_alloc<1>(shared_address(smem), COLUMNS);
        tensor_relinquish<1>();
    }
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    TensorMemory memory = {*(volatile unsigned *)smem, nullptr};
    for (unsigned column = 0; column < COLUMNS; column += 32) {
        unsigned r[32];
        for (int i = 0; i < 32; i++) r[i] = ((const unsigned *)c.tensor)[t * COLUMNS + column + i];
        tensor_store32(memory, warp, column, r);
    }
    tensor_wait_st();
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    return memory;
}

__device__ void end(const TensorMemory &memory, unsigned *results) {
    tensor_fence_before();
    __syncthreads();
    if (threadIdx.x < 32) tensor_dealloc<1>(memory.base, COLUMNS);
    if (threadIdx.x == 0) *results = 1;
}

extern "C" __global__ void __launch_bounds__(128) probe_load(const Case *job, unsigned *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Case c = *job;
    const TensorMemory memory = begin(c, smem);
    const unsigned t = threadIdx.x, warp = t / 32, address = memory.base + (warp * 32 << 16) + c.place;
    unsigned r[128];
    for (int i = 0; i < 128; i++) r[i] = 0xA5A5A5A5;
    if (c.warps >> warp & 1) switch (c.form) {
//LOADS
    }
    for (int i = 0; i < 128; i++) ((unsigned *)c.out)[t * 128 + i] = r[i];
    end(memory, results);
}

extern "C" __global__ void __launch_bounds__(128) probe_store(const Case *job, unsigned *results) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const Case c = *job;
    const TensorMemory memory = begin(c, smem);
    const unsigned t = threadIdx.x, warp = t / 32, address = memory.base + (warp * 32 << 16) + c.place;
    unsigned r[128];
    for (int i = 0; i < 128; i++) r[i] = (t << 7 | i) | (t << 7 | i | 0x8000u) << 16;
    if (c.warps >> warp & 1) switch (c.form) {
//STORES
    }
    tensor_wait_st();
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    for (unsigned column = 0; column < COLUMNS; column += 32) {
        unsigned words[32];
        tensor_load32(memory, warp, column, words);
        for (int i = 0; i < 32; i++) ((unsigned *)c.out)[t * COLUMNS + column + i] = words[i];
    }
    end(memory, results);
}
