// Divergent control flow: nested loops with break and continue, loops that run as long as the data say, returns inside a warp.
#include "common.cuh"
KERNEL diverge_loops(const u32 *in, u32 *out) {
    int n = THREADS, i = THREAD;
    u32 x = in[i], steps = 0, sum = 0;
    for (u32 y = (x & 1023) + 1; y != 1; steps++) y = y & 1 ? 3 * y + 1 : y / 2;  // Collatz
    for (u32 j = 0; j < (x >> 4 & 15); j++) {
        if (j == (x >> 8 & 7)) continue;
        for (u32 k = j; k < 12; k++) {
            if ((j * k ^ x) % 11 == 3) break;
            sum += j * 16 + k;
            if (sum > 700) goto out_of_both;
        }
    }
    sum |= 0x10000;
out_of_both:
    out[i] = steps;
    out[n + i] = sum;
    u32 a = x, b = in[n - 1 - i] | 1;
    while (b) {
        u32 t = a % b;
        a = b;
        b = t;
    }
    out[2 * n + i] = a;  // greatest common divisor
    if (x % 5 == 0) return;
    u32 root = 0;
    do root++;
    while (root * root <= (x >> 16));
    out[3 * n + i] = root;
    if (i % 32 > 20 && x % 3) return;
    __syncwarp(__activemask());
    out[4 * n + i] = __popc(__activemask()) > 0 ? x ^ root : 0;
}
