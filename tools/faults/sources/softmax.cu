// Softmax of three rows of 256: shuffles within a warp, shared memory between the eight warps of the CTA. A warp reverses its part through shared memory.
//! 1 | barrier | the warps' maxima are read without a barrier | X008 R507 | readmax
//! 2 | barrier | the sums overwrite the maxima while other warps may read these | X008 | putsum
//! 3 | divergence | half of the lanes execute a shuffle whose mask names all | X011 X006 | shuffle
//! 4 | divergence | a barrier that one warp alone does not reach | X006 X011 X010 X008 | sync readmax readsum putmax putsum
//! 5 | uninitialised | twelve words are read of which eight were written | R507 | readsum out
//! 6 | bounds | a thread loads one element beyond the rows | X001 | load
//! 7 | syncwarp | lanes read what other lanes of their warp wrote, without __syncwarp | X008 X004 | turned
//! 8 | last trip | the barrier before the next row is missing in the last trip | X008 | putmax
//! 9 | uninitialised | a word of global memory that no thread has written decides the scale | R507 | out scale
//! 10 | alignment | a vector of four floats is loaded off 16 B | X002 | load
//! 11 | race | two warps store different values to one word of shared memory | X008 | putsum readsum
//! 12 | barrier | the warps' sums are read without a barrier | X008 R507 | readsum
//! 13 | masks | the reduction's mask leaves out lanes that execute it | X011 X015 | redux
#include "common.cuh"
extern "C" __global__ void __launch_bounds__(256) softmax(const float *x, float *y, const float *scratch) {
    __shared__ float part[16], turn[256];
    const u32 tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
#pragma unroll 1
    for (int row = 0; row < 3; row++) {
        float v = 0, most;
        if (F(10)) {
            float a, b, c;
            PTX("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v), "=f"(a), "=f"(b), "=f"(c) : "l"(x + row * 256 + tid));  // @load
        } else
            v = x[row * 256 + tid + PICK(6, 1, 0)];  // @load
        most = v;
        for (int i = 16; i; i /= 2) {
            float other = 0;
            if (!F(3) || lane < 16) PTX("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(other) : "f"(most), "r"(i));  // @shuffle
            most = fmaxf(most, other);
        }
        if (lane == 0) ST_SHARED(at(part + warp), __float_as_uint(most));  // @putmax
        if (!F(1) && !(F(4) && warp == 7)) __syncthreads();  // @sync
        u32 word;
        for (int i = 0; i < 8; i++) {
            LD_SHARED(word, at(part + i));  // @readmax
            most = fmaxf(most, __uint_as_float(word));
        }
        const float e = exp2f((v - most) * 1.4426950408889634f);
        if (!F(2)) __syncthreads();
        float sum = e;
        for (int i = 16; i; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
        if (F(13)) {
            u32 any;
            PTX("redux.sync.or.b32 %0, %1, 0xffff;" : "=r"(any) : "r"(lane));  // @redux
            sum += any > 31;
        }
        if (lane == 0) ST_SHARED(at(part + PICK(11, warp / 2, warp)), __float_as_uint(sum));  // @putsum
        if (!F(12)) __syncthreads();  // @sync
        sum = 0;
        for (int i = 0; i < PICK(5, 12, 8); i++) {
            LD_SHARED(word, at(part + i));  // @readsum
            sum += __uint_as_float(word);
        }
        ST_SHARED(at(turn + tid), __float_as_uint(e));
        if (!F(7)) __syncwarp();
        LD_SHARED(word, at(turn + (tid ^ 31)));  // @turned
        const float back = __uint_as_float(word);
        const float scale = F(9) ? scratch[row] : 1.0f;  // @scale
        y[row * 256 + (tid ^ 31)] = back / sum * scale;  // @out
        if (!F(8) || row != 1) __syncthreads();
    }
}
