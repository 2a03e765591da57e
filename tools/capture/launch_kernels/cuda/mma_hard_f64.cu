// mma.sync in double precision on numbers that are hard to sum: every shape, every rounding.
#include "mma_hard.cuh"
#define OUT4 "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
#define ALL(FORM) FORM("") FORM(".rz") FORM(".rm") FORM(".rp")
#define K4(rounding) asm volatile("mma.sync.aligned.m8n8k4.row.col" rounding ".f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};" : "=d"(d[0]), "=d"(d[1]) : "d"(a[0]), "d"(b[0]), "d"(c[0]), "d"(c[1])); PUT2;
#define M16K4(rounding) asm volatile("mma.sync.aligned.m16n8k4.row.col" rounding ".f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" : OUT4 : "d"(a[0]), "d"(a[1]), "d"(b[0]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3])); PUT4;
#define K8(rounding) asm volatile("mma.sync.aligned.m16n8k8.row.col" rounding ".f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" : OUT4 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3])); PUT4;
#define K16(rounding) asm volatile("mma.sync.aligned.m16n8k16.row.col" rounding ".f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19};" : OUT4 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3])); PUT4;
KERNEL mma_hard_f64(double *out) {
    int lane = threadIdx.x % 32;
    double *at = out + THREAD;
    double a[8], b[4], c[4], d[4];
    Draw draw;
    draw.start(THREAD / 32, 64, 1023, 1023, -1074, 1023, 16);
#pragma unroll 1
    for (int r = 0; r < 8; r++) a[r] = __longlong_as_double(draw.factor(11, 52, 0, lane / 4 + 8 * (r % 2), r / 2 * 4 + lane % 4));
#pragma unroll 1
    for (int r = 0; r < 4; r++) b[r] = __longlong_as_double(draw.factor(11, 52, 1, lane / 4, r * 4 + lane % 4));
#pragma unroll 1
    for (int i = 0; i < 4; i++) c[i] = __longlong_as_double(draw.addend(11, 52, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2));
    ALL(K4) ALL(M16K4) ALL(K8) ALL(K16)
}
