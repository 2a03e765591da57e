// CUDA's wmma fragments of tf32: a tile of 16 x 16, two steps of K.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_tf32(const float *a, const float *b, const float *c, float *d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> total;
    const int tile = blockIdx.x * 256;
    wmma::load_matrix_sync(total, c + tile, 16, wmma::mem_row_major);
    for (int k = 0; k < 16; k += 8) {
        wmma::load_matrix_sync(left, a + tile + k, 16);
        wmma::load_matrix_sync(right, b + tile + k, 16);
        for (float &x : left.x) x = wmma::__float_to_tf32(x);
        for (float &x : right.x) x = wmma::__float_to_tf32(x);
        wmma::mma_sync(total, left, right, total);
    }
    wmma::store_matrix_sync(d + tile, total, 16, wmma::mem_row_major);
}
