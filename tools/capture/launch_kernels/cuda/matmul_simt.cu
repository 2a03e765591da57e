// A matrix product without tensor cores: tiles in shared memory, four results a thread.
#include "common.cuh"
KERNEL matmul_simt(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[32][33], b[32][32];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32, column = blockIdx.x * 32;
    float c[4] = {};
    for (int k = 0; k < K; k += 32) {
        for (int i = 0; i < 4; i++) {
            a[ty + 8 * i][tx] = row + ty + 8 * i < M && k + tx < K ? A[(row + ty + 8 * i) * K + k + tx] : 0.0f;
            b[ty + 8 * i][tx] = k + ty + 8 * i < K && column + tx < N ? B[(k + ty + 8 * i) * N + column + tx] : 0.0f;
        }
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < 32; j++)
            for (int i = 0; i < 4; i++) c[i] = fmaf(a[ty + 8 * i][j], b[j][tx], c[i]);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        if (row + ty + 8 * i < M && column + tx < N) C[(row + ty + 8 * i) * N + column + tx] = c[i];
}
