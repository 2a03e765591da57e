// mma.sync in double precision.
#include "common.cuh"
KERNEL mma_f64(const double *A, const double *B, const double *C, double *out) {
    int slot = 0;
    const double *a = A + THREAD * 8, *b = B + THREAD * 4, *c = C + THREAD * 4;
    double d[4];
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};" : "=d"(d[0]), "=d"(d[1]) : "d"(a[0]), "d"(b[0]), "d"(c[0]), "d"(c[1]));
    PUT(d[0]); PUT(d[1]);
#define D4 "{%0, %1, %2, %3}"
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 " D4 ", {%4, %5}, {%6}, {%7, %8, %9, %10};"
                 : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3]) : "d"(a[0]), "d"(a[1]), "d"(b[0]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
    PUT(d[0]); PUT(d[1]); PUT(d[2]); PUT(d[3]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 " D4 ", {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3]) : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
    PUT(d[0]); PUT(d[1]); PUT(d[2]); PUT(d[3]);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 " D4 ", {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19};"
                 : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3]) : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
                   "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
    PUT(d[0]); PUT(d[1]); PUT(d[2]); PUT(d[3]);
}
