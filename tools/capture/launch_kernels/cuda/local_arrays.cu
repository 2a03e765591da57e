// Local memory: arrays with indices known only at run time, a stack, and copies of vectors.
#include "common.cuh"
KERNEL local_arrays(const u32 *in, u32 *out) {
    int n = THREADS;
    u32 x = in[THREAD];
    u32 counts[16] = {};
    for (int i = 0; i < 40; i++) {
        counts[x >> 28]++;
        x = x * 1664525 + 1013904223;
    }
    u32 h = 0;
    for (int i = 0; i < 16; i++) h = h * 31 + counts[i];
    out[THREAD] = h;
    u8 stack[64];
    int top = 0;
    u32 y = in[THREAD], seen = 0;
    stack[top++] = 1;
    while (top) {
        u32 node = stack[--top];
        seen = seen * 3 + node;
        if (node < 40 && top < 60) {
            if (y >> (node & 31) & 1) stack[top++] = (u8)(2 * node);
            stack[top++] = (u8)(2 * node + 1);
        }
    }
    out[n + THREAD] = seen;
    double d[6];
    for (int i = 0; i < 6; i++) d[i] = (double)(y >> i * 5 & 31);
    for (int i = 0; i < 6; i++) { int j = (y >> 2 * i) % 6; double t = d[i]; d[i] = d[j]; d[j] = t; }
    out[2 * n + THREAD] = (u32)(d[0] + 32 * d[1] + 1024 * d[2] + 32768 * d[3]);
    uint4 four[3] = {{y, y + 1, y + 2, y + 3}, {x, 1, 2, 3}, {7, x, y, 9}};
    uint4 *q = &four[y % 3], *r = &four[x % 3];
    q->x += r->w;
    out[3 * n + THREAD] = four[(x + y) % 3].x ^ four[0].y ^ q->z;
}
