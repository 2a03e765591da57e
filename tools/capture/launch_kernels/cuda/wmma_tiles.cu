// CUDA's own wmma fragments: a 32 x 32 product of halves, loaded from and stored to global and shared memory.
#include <mma.h>
#include "common.cuh"
using namespace nvcuda::wmma;
KERNEL wmma_tiles(const half *A, const half *B, float *C, half *D, int k_extent) {
    __shared__ __align__(32) half tile[256];
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, col_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fragment<accumulator, 16, 16, 16, half> d;
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    fill_fragment(c, 0.0f);
    fill_fragment(d, __float2half(1.0f));
    for (int k = 0; k < k_extent; k += 16) {
        load_matrix_sync(a, A + row * k_extent + k, k_extent);
        for (int i = threadIdx.x; i < 256; i += 32) tile[i] = B[(column + i / 16) * k_extent + k + i % 16];
        __syncwarp();
        load_matrix_sync(b, tile, 16);
        mma_sync(c, a, b, c);
        mma_sync(d, a, b, d);
        __syncwarp();
    }
    store_matrix_sync(C + row * 32 + column, c, 32, mem_row_major);
    store_matrix_sync(D + column * 32 + row, d, 32, mem_col_major);
}
