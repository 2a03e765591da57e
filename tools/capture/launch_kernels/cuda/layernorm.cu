// A layer normalisation in bf16, one block a row: sums over the block, division and square root rounded to nearest.
#include "common.cuh"
KERNEL layernorm(const __nv_bfloat162 *in, const __nv_bfloat162 *weight, __nv_bfloat162 *out, float epsilon) {
    __shared__ float2 warps[4];
    int t = threadIdx.x;
    float2 x = __bfloat1622float2(in[THREAD]), w = __bfloat1622float2(weight[t]), s = make_float2(x.x + x.y, x.x * x.x + x.y * x.y);
    for (int d = 16; d; d /= 2) s.x += __shfl_xor_sync(~0u, s.x, d), s.y += __shfl_xor_sync(~0u, s.y, d);
    if (t % 32 == 0) warps[t / 32] = s;
    __syncthreads();
    s = warps[0];
    for (int i = 1; i < 4; i++) s.x += warps[i].x, s.y += warps[i].y;
    float mean = s.x / 256, scale = 1.0f / sqrtf(s.y / 256 - mean * mean + epsilon);
    out[THREAD] = __floats2bfloat162_rn((x.x - mean) * scale * w.x, (x.y - mean) * scale * w.y);
}
