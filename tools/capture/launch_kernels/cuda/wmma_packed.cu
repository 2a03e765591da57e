// CUDA's wmma fragments of 4 bits and of one bit: products of rows whose matrices are wider than a fragment.
#include <mma.h>
#include "common.cuh"
using namespace nvcuda::wmma;
template <typename T, int K, int WIDTH, typename Multiply> __device__ void product(const u32 *A, const u32 *B, const int *C, int *out, Multiply multiply) {
    const int words = 4 * gridDim.x, per_word = 32 / WIDTH;
    fragment<matrix_a, 8, 8, K, T, row_major> a;
    fragment<matrix_b, 8, 8, K, T, col_major> b;
    fragment<accumulator, 8, 8, K, int> c;
    load_matrix_sync(a, A + 4 * blockIdx.x, words * per_word);
    load_matrix_sync(b, B + 4 * blockIdx.x, words * per_word);
    load_matrix_sync(c, C + 8 * blockIdx.x, 8 * gridDim.x, mem_row_major);
    multiply(c, a, b);
    store_matrix_sync(out + 8 * blockIdx.x, c, 8 * gridDim.x, mem_col_major);
}
KERNEL wmma_packed(const u32 *A, const u32 *B, const int *C, int *out) {
    const int size = 64 * gridDim.x;
    auto plain = [](auto &c, auto &a, auto &b) { mma_sync(c, a, b, c); };
    auto clamped = [](auto &c, auto &a, auto &b) { mma_sync(c, a, b, c, true); };
    product<experimental::precision::s4, 32, 4>(A, B, C, out, plain);
    product<experimental::precision::u4, 32, 4>(A, B, C, out + size, plain);
    product<experimental::precision::s4, 32, 4>(A, B, C, out + 2 * size, clamped);
    product<experimental::precision::u4, 32, 4>(A, B, C, out + 3 * size, clamped);
    product<experimental::precision::b1, 128, 1>(A, B, C, out + 4 * size, [](auto &c, auto &a, auto &b) { bmma_sync(c, a, b, c); });
    product<experimental::precision::b1, 128, 1>(A, B, C, out + 5 * size, [](auto &c, auto &a, auto &b) { bmma_sync(c, a, b, c, experimental::bmmaBitOpAND); });
}
