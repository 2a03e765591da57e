// mma.sp: structured sparsity with metadata, both selectors.
#include "common.cuh"
KERNEL mma_sparse(const u32 *A, const u32 *B, const u32 *C, const u32 *metadata, u32 *out) {
    int slot = 0;
    u32 a[4], b[4], c[4], d[4], e = metadata[THREAD];
    for (int i = 0; i < 4; i++) a[i] = A[THREAD * 4 + i], b[i] = B[THREAD * 4 + i], c[i] = C[THREAD * 4 + i];
#define OUT "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
#define IN "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(e)
#define SPARSE(shape, selector) asm volatile("mma.sp::ordered_metadata.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, " selector ";" : OUT : IN); \
    for (int i = 0; i < 4; i++) PUT(d[i]);
    SPARSE("m16n8k32.row.col.f32.f16.f16.f32", "0x0") SPARSE("m16n8k32.row.col.f32.f16.f16.f32", "0x1")
    asm volatile("mma.sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%8, %9}, {%12, %13, %14, %15}, %16, 0x2;" : OUT : IN);
    for (int i = 0; i < 4; i++) PUT(d[i]);
    SPARSE("m16n8k64.row.col.s32.s8.s8.s32", "0x0")
}
