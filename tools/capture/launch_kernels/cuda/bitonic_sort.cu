// A bitonic sort of keys with values in shared memory, the short distances by shuffles.
#include "common.cuh"
KERNEL bitonic_sort(u32 *keys, u32 *values) {
    __shared__ uint2 held[256];
    u32 t = threadIdx.x, at = THREAD;
    uint2 mine = make_uint2(keys[at], values[at]);
    for (u32 size = 2; size <= 256; size *= 2)
        for (u32 distance = size / 2; distance; distance /= 2) {
            uint2 other;
            if (distance >= 32) {
                __syncthreads();
                held[t] = mine;
                __syncthreads();
                other = held[t ^ distance];
            } else {
                other.x = __shfl_xor_sync(~0u, mine.x, distance);
                other.y = __shfl_xor_sync(~0u, mine.y, distance);
            }
            bool up = !(t & size), low = !(t & distance);
            bool less = mine.x < other.x || (mine.x == other.x && mine.y < other.y);
            if (less != (up == low)) mine = other;
        }
    keys[at] = mine.x;
    values[at] = mine.y;
}
