// nvcc -ptx -G -arch=sm_100a debug.cu
extern "C" __global__ void debug(int *out) {
    int local[4] = {1, 2, 3, 4};
    out[threadIdx.x] = local[out[0] & 3];
}
