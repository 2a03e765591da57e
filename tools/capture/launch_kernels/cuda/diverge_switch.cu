// A dense switch in a loop, a sparse one.
#include "common.cuh"
KERNEL diverge_switch(const u32 *in, u32 *out) {
    u32 x = in[THREAD], state = x & 7, y = x, n = THREADS;
    for (int step = 0; step < 24; step++) {
        switch (state) {
        case 0: y = y * 5 + 1; state = y >> 9 & 7; break;
        case 1: y ^= y << 3; state = 4; break;
        case 2: y -= 77; state = 7;
        case 3: y = y >> 1 | y << 31; state = y & 7; break;
        case 4: y += step; state = 2; break;
        case 5: y = ~y; state = 6; break;
        case 6: y ^= 0x5a5a; state = y % 3; break;
        default: y = y * y + step; state = y >> 20 & 7;
        }
    }
    out[THREAD] = y;
    switch (x % 1000) {
    case 1: y = 1; break;
    case 17: y = 2; break;
    case 500: y = 3; break;
    case 999: y = 4; break;
    default: if (x % 1000 > 400) y = 5;
    }
    out[n + THREAD] = y;
}
