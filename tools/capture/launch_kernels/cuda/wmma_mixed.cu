// CUDA's wmma fragments of f16 with C of one type and D of another, and in each shape with bf16 and bytes.
#include <mma.h>
#include "common.cuh"
using namespace nvcuda::wmma;
template <int M, int N, typename T, typename C, typename D> __device__ void product(const void *A, const void *B, const void *start, void *out, bool clamp = false) {
    const int at = blockIdx.x * 512;
    fragment<matrix_a, M, N, 16, T, row_major> a;
    fragment<matrix_b, M, N, 16, T, col_major> b;
    fragment<accumulator, M, N, 16, C> c;
    fragment<accumulator, M, N, 16, D> d;
    load_matrix_sync(a, (const T *)A + at, 16);
    load_matrix_sync(b, (const T *)B + at, 16);
    load_matrix_sync(c, (const C *)start + at, N, mem_row_major);
    if constexpr (sizeof(T) == 1) mma_sync(d, a, b, c, clamp);
    else mma_sync(d, a, b, c);
    store_matrix_sync((D *)out + at, d, N, mem_row_major);
}
KERNEL wmma_mixed(const half *A, const half *B, const half *half_C, const float *C, const int *int_C, float *out, half *half_out, int *int_out) {
    const int size = 512 * gridDim.x;
    product<16, 16, half, half, float>(A, B, half_C, out);
    product<16, 16, half, float, half>(A, B, C, half_out);
    product<8, 32, half, half, half>(A, B, half_C, half_out + size);
    product<32, 8, __nv_bfloat16, float, float>(A, B, C, out + size);
    product<8, 32, __nv_bfloat16, float, float>(A, B, C, out + 2 * size);
    product<32, 8, signed char, int, int>(A, B, int_C, int_out, true);
    product<8, 32, unsigned char, int, int>(A, B, int_C, int_out + size);
}
