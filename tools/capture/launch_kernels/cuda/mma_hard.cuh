// Numbers that are hard to sum, the same for every thread that asks for the same element of a warp's matrices. Warp n draws in manner n % 8:
//   0 any bits                      4 large enough to overflow
//   1 of one size, C of any         5 pairs along K that cancel, small ones beside them
//   2 of many sizes, some zero      6 of three sizes far apart
//   3 near the smallest numbers     7 two products alone, the second far below the first
#include "common.cuh"

__device__ inline u32 mixed(u32 x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}
__device__ inline int below(u32 hash, int n) { return int((hash >> 8) % u32(n)); }

struct Draw {
    u32 seed;
    int manner, spread, step, sum, a_size, c_offset, c_spread, zeros, first, second, far;
    __device__ __noinline__ void start(u32 warp, u32 salt, int bias_a, int bias_b, int low, int high, int k_extent) {
        seed = mixed(warp + salt * 0x9e3779b9u);
        manner = warp % 8;
        u32 h = mixed(seed + 1), g = mixed(seed + 2);
        spread = manner == 2 ? 6 : manner == 7 ? 0 : manner == 3 || manner == 4 ? 2 : 1;
        step = manner == 5 ? 6 : manner == 6 ? 4 + below(g, 4) : 0;
        sum = manner == 3 ? low + below(h, 14) : manner == 4 ? high - below(h, 10) : manner == 7 ? low + below(h, 3) / 2 : 0;
        sum = max(sum, 3 - bias_a - bias_b);
        int least = max(2 - bias_a, sum - bias_b + 1), most = min(bias_a - 1, sum + bias_b - 2);
        a_size = manner == 3 || manner == 4 ? least + below(mixed(h), max(1, most - least + 1)) : manner == 7 ? sum / 2 : below(mixed(h), 5) - 2;
        c_spread = manner == 2 ? 12 : 1;
        c_offset = manner == 1 ? below(g, 31) - 4 : manner == 6 ? below(mixed(g), 34) - 30 : manner == 5 ? below(g, 24) - 20 : below(g, 14) - 6;
        zeros = manner >= 2 && manner <= 4 ? 4 : 0;
        first = below(mixed(g + 1), k_extent), second = below(mixed(g + 2), k_extent), far = g & 256 ? 1 + below(mixed(g + 3), 24) : 15 + below(mixed(g + 3), 8);
    }
    // the bits of a number of about 2^size, with e bits of exponent and m of fraction; `exact`: a power of two, also a subnormal one
    __device__ u64 number(int e, int m, u32 h, int size, int range, bool exact) const {
        const bool no_infinity = e == 4;
        int field = size + (1 << (e - 1)) - 1 + below(mixed(h), 2 * range + 1) - range;
        field = min(field, (1 << e) - (no_infinity ? 1 : 2));
        u64 fraction = (u64(mixed(h + 5)) << 20 ^ h) & ((1ull << m) - 1);
        if ((h >> 27 & 7) == 0 || exact) fraction = 0;
        if (no_infinity && field == 15 && fraction == 7) fraction--;
        if (exact && field < 1) fraction = 1ull << max(m - 1 + field, 0);
        return u64(h >> 31) << (e + m) | u64(max(field, 0)) << m | fraction;
    }
    __device__ __noinline__ u64 factor(int e, int m, int side, int line, int k) const {
        int kind = below(mixed(seed + 99 + k / 2), manner == 6 ? 3 : 2);
        bool paired = manner == 5 && kind == 0 && k % 2;
        u32 h = mixed(seed + 0x10000u * (side + 1) + line * 512 + (paired ? k - 1 : k));
        u64 sign = u64(h >> 31) << (e + m);
        int size = side ? sum - a_size : a_size;
        if (manner == 0) return u64(mixed(h + 5)) << 32 | h;
        if (manner == 7) {
            if (k != first && k != second) return sign;
            if (k == second && k != first) size -= (far + (side ? line % 8 : 0)) / 2 + (side ? (far + line % 8) % 2 : 0);
        } else {
            size -= step * kind;
        }
        if (zeros && (mixed(h + 7) & 15) < zeros) return sign;
        u64 bits = number(e, m, h, size, spread, manner == 7);
        return paired && side ? bits ^ 1ull << (e + m) : bits;
    }
    __device__ __noinline__ u64 addend(int e, int m, int row, int column) const {
        u32 h = mixed(seed + 0x50000u + row * 512 + column), z = mixed(h + 7) & 15;
        if (manner == 0) return u64(mixed(h + 5)) << 32 | h;
        u64 sign = u64(h >> 31) << (e + m);
        if (manner == 7) return sign | (z < 2);
        if ((manner >= 2 && manner <= 5 && z < 8) || z == 0) return sign;
        return number(e, m, h, sum + c_offset, c_spread, false);
    }
    // what follows sets the registers of mma.sync: of A with rows 8 apart in odd registers, of B
    __device__ __noinline__ void left(u32 *a, int lane, int e, int m, int width) const {
#pragma unroll 1
        for (int r = 0; r < 4; r++) a[r] = word(e, m, width, 0, lane / 4 + 8 * (r % 2), (r / 2 * 4 + lane % 4) * (32 / width));
    }
    __device__ __noinline__ void right(u32 *b, int lane, int e, int m, int width) const {
#pragma unroll 1
        for (int r = 0; r < 4; r++) b[r] = word(e, m, width, 1, lane / 4, (r * 4 + lane % 4) * (32 / width));
    }
    __device__ __noinline__ u32 word(int e, int m, int width, int side, int line, int k) const {
        u32 w = 0;
#pragma unroll 1
        for (int i = 0; i < 32 / width; i++) w |= (u32(factor(e, m, side, line, k + i)) & u32((1ull << width) - 1)) << (i * width % 32);
        return w;
    }
    __device__ __noinline__ u32 half_addends(int row, int column) const { return (u32(addend(5, 10, row, column)) & 0xffff) | u32(addend(5, 10, row, column + 1)) << 16; }
    __device__ __noinline__ void addends(u32 *f32, u32 *f16, int lane) const {
#pragma unroll 1
        for (int i = 0; i < 4; i++) f32[i] = u32(addend(8, 23, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2));
#pragma unroll 1
        for (int i = 0; i < 2; i++) f16[i] = half_addends(lane / 4 + 8 * i, lane % 4 * 2);
    }
    // of m8n8k4, whose lines and K are taken from threads and their elements
    __device__ void quad_pair(u32 *a, u32 *b, u32 *f32, u32 *f16, int lane) const {
#pragma unroll 1
        for (int r = 0; r < 2; r++) a[r] = word(5, 10, 16, 0, lane, 2 * r), b[r] = word(5, 10, 16, 1, lane, 2 * r);
#pragma unroll 1
        for (int i = 0; i < 8; i++) f32[i] = u32(addend(8, 23, lane, i));
#pragma unroll 1
        for (int i = 0; i < 4; i++) f16[i] = half_addends(lane, 2 * i);
    }
};

// Results go below each other: `at` is where this thread's next one goes.
#undef PUT
#define PUT(value) *at = (value), at += THREADS
#define IN(x, n) "r"(x[n])
#define F32_OUT "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
#define PUT2 PUT(d[0]), PUT(d[1])
#define PUT4 PUT2, PUT(d[2]), PUT(d[3])
