// Sums of doubles in global and in shared memory where one or both operands are NaNs, quiet or not.
extern "C" __global__ void nan_atomics(const double *x, double *sums, double *shared_sums, double *before) {
    __shared__ double mine[128];
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    mine[threadIdx.x] = shared_sums[t];
    __syncthreads();
    before[t] = atomicAdd(sums + t, x[t]);
    atomicAdd(mine + threadIdx.x, x[t]);
    __syncthreads();
    shared_sums[t] = mine[threadIdx.x];
}
