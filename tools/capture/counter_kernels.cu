// Kernels whose memory accesses have every degree of conflict and coalescing; `counter_build.py` compiles one at a time (-DK_name). a, b: inputs; o: output.
#include <cooperative_groups.h>
#include <cstdint>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void
#define T threadIdx.x
#define SHARED(p) ((uint32_t)__cvta_generic_to_shared(p))
#if defined(K_transpose_plain) || defined(K_transpose_padded) || defined(K_transpose_xor)
#ifdef K_transpose_padded
#define AT(r, c) ((r) * 33 + (c))
#elif defined(K_transpose_xor)
#define AT(r, c) ((r) * 32 + ((c) ^ (r)))
#else
#define AT(r, c) ((r) * 32 + (c))
#endif
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t tile[32 * 33];
    int x = blockIdx.x * 32 + (T & 31), row = T >> 5;
    for (int k = 0; k < 32; k += 4) tile[AT(row + k, T & 31)] = a[(row + k) * 128 + x];
    __syncthreads();
    for (int k = 0; k < 32; k += 4) o[(blockIdx.x * 32 + row + k) * 32 + (T & 31)] = tile[AT(T & 31, row + k)];
}
#endif
#ifdef K_transpose_vector
KERNEL NAME(const uint4 *a, const uint32_t *b, uint4 *o) {
    __shared__ __align__(16) uint32_t tile[32][36];
    int row = T >> 3, column = (T & 7) * 4;
    for (int k = 0; k < 32; k += 16) *(uint4 *)&tile[row + k][column] = a[(row + k) * 32 + blockIdx.x * 8 + (T & 7)];
    __syncthreads();
    for (int k = 0; k < 32; k += 16) {
        uint4 v = {tile[column][row + k], tile[column + 1][row + k], tile[column + 2][row + k], tile[column + 3][row + k]};
        o[(blockIdx.x * 32 + row + k) * 8 + (T & 7)] = v;
    }
}
#endif
#ifdef K_transpose_half
KERNEL NAME(const uint16_t *a, const uint32_t *b, uint16_t *o) {
    __shared__ uint16_t tile[64][64];
    for (int k = T; k < 4096; k += 128) tile[k >> 6][k & 63] = a[blockIdx.x * 4096 + k];
    __syncthreads();
    for (int k = T; k < 4096; k += 128) o[blockIdx.x * 4096 + k] = tile[k & 63][k >> 6];
}
#endif
#ifdef K_reduce_interleaved
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t s[256];
    s[T] = a[blockIdx.x * 256 + T]; s[T + 128] = a[blockIdx.x * 256 + 128 + T];
    __syncthreads();
    for (int stride = 1; stride < 256; stride *= 2) {
        int at = 2 * stride * T;
        if (at < 256) s[at] += s[at + stride];
        __syncthreads();
    }
    if (T == 0) o[blockIdx.x] = s[0];
}
#endif
#ifdef K_reduce_sequential
KERNEL NAME(const uint2 *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t s[128];
    uint2 v = a[blockIdx.x * 128 + T];
    s[T] = v.x + v.y;
    __syncthreads();
    for (int half = 64; half > 16; half >>= 1) { if (T < half) s[T] += s[T + half]; __syncthreads(); }
    if (T < 32) { uint32_t r = s[T]; for (int k = 16; k; k >>= 1) r += __shfl_down_sync(~0u, r, k); if (T == 0) o[blockIdx.x] = r; }
}
#endif
#ifdef K_stencil
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t s[10][34];
    int x = T & 31, y = T >> 5;
    for (int k = 0; k < 2; k++) s[y + 1 + 4 * k][x + 1] = a[(y + 4 * k + 1) * 130 + blockIdx.x * 32 + x + 1];
    if (T < 32) { s[0][x + 1] = a[blockIdx.x * 32 + x + 1]; s[9][x + 1] = a[9 * 130 + blockIdx.x * 32 + x + 1]; }
    if (T < 8) { s[T + 1][0] = a[(T + 1) * 130 + blockIdx.x * 32]; s[T + 1][33] = a[(T + 1) * 130 + blockIdx.x * 32 + 33]; }
    __syncthreads();
    for (int k = 0; k < 2; k++) { int r = y + 1 + 4 * k; o[(y + 4 * k) * 128 + blockIdx.x * 32 + x] = s[r][x + 1] + s[r - 1][x + 1] + s[r + 1][x + 1] + s[r][x] + s[r][x + 2]; }
}
#endif
#ifdef K_structures
struct P { float x, y, z; };
KERNEL NAME(const P *a, const float *b, float *o) {
    int n = blockIdx.x * 128 + T;
    P p = a[n]; o[n] = p.x * p.x + p.y * p.y + p.z * p.z; o[n + 512] = b[n * 7];
}
#endif
#ifdef K_gather
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    int n = blockIdx.x * 128 + T;
    uint32_t sum = 0;
    for (int k = 0; k < 4; k++) sum += b[a[n * 4 + k] & 8191];
    o[n] = sum; o[(n * 37 & 511) * 3 + 1024] = n;
}
#endif
#ifdef K_strides
KERNEL NAME(const uint32_t *a, const uint64_t *b, uint64_t *o) {
    int n = blockIdx.x * 128 + T;
    o[n * 2] = a[n * 3] + a[n * 8 + 1] + b[n * 5 & 4095] + ((const uint8_t *)a)[n * 17 & 16383];
}
#endif
#ifdef K_product_bank
KERNEL NAME(const float *a, const float *b, float *o) {
    __shared__ float A[32][32], B[32][32];
    int x = T & 31, y = T >> 5; float r[8] = {};
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < 8; k++) { A[y * 8 + k][x] = a[(y * 8 + k) * 64 + t * 32 + x]; B[y * 8 + k][x] = b[(t * 32 + y * 8 + k) * 128 + blockIdx.x * 32 + x]; }
        __syncthreads();
        for (int k = 0; k < 32; k++) for (int j = 0; j < 8; j++) r[j] += A[x][k] * B[k][y * 8 + j];
        __syncthreads();
    }
    for (int j = 0; j < 8; j++) o[x * 128 + blockIdx.x * 32 + y * 8 + j] = r[j];
}
#endif
#ifdef K_product_vector
KERNEL NAME(const float4 *a, const float4 *b, float4 *o) {
    __shared__ float4 A[16][17], B[16][16];
    int x = T & 15, y = T >> 4; float4 r = {0, 0, 0, 0};
    for (int k = y; k < 16; k += 8) { A[k][x] = a[k * 16 + x]; B[k][x] = b[k * 64 + blockIdx.x * 16 + x]; }
    __syncthreads();
    for (int k = 0; k < 16; k++) { float4 p = A[x][k], q = B[k][y]; r.x += p.x * q.x; r.y += p.y * q.y; r.z += p.z * q.z; r.w += p.w * q.w; }
    o[blockIdx.x * 128 + T] = r;
}
#endif
#if defined(K_mma_plain) || defined(K_mma_padded) || defined(K_mma_xor)
#ifdef K_mma_padded
#define PITCH 72
#define AT(r, c) ((r) * PITCH + (c))
#elif defined(K_mma_xor)
#define PITCH 64
#define AT(r, c) ((r) * PITCH + (((c) / 8 ^ ((r) & 7)) * 8) + (c) % 8)
#else
#define PITCH 64
#define AT(r, c) ((r) * PITCH + (c))
#endif
KERNEL NAME(const uint16_t *a, const uint16_t *b, float *o) {
    __shared__ __align__(16) uint16_t A[64 * PITCH], B[64 * PITCH];
    int lane = T & 31, warp = T >> 5;
    for (int k = T; k < 512; k += 128) {
        int r = k >> 3, c = (k & 7) * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SHARED(&A[AT(r, c)])), "l"(a + r * 64 + c));
        *(uint4 *)&B[AT(r, c)] = *(const uint4 *)(b + blockIdx.x * 4096 + r * 64 + c);
    }
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    float d[8][4] = {};
    for (int k = 0; k < 64; k += 16) {
        uint32_t x[4], y[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(SHARED(&A[AT(warp * 16 + (lane & 15), k + (lane >> 4) * 8)])));
        for (int n = 0; n < 8; n += 2) {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]) : "r"(SHARED(&B[AT(k + (lane & 15), n * 8 + (lane >> 4) * 8)])));
            for (int h = 0; h < 2; h++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[n + h][0]), "+f"(d[n + h][1]), "+f"(d[n + h][2]), "+f"(d[n + h][3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * h]), "r"(y[2 * h + 1]));
        }
    }
    for (int n = 0; n < 8; n++) for (int h = 0; h < 2; h++) *(float2 *)&o[blockIdx.x * 4096 + (warp * 16 + lane / 4 + 8 * h) * 64 + n * 8 + lane % 4 * 2] = make_float2(d[n][2 * h], d[n][2 * h + 1]);
}
#endif
#ifdef K_histogram_private
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t bins[4][64];
    for (int k = T; k < 256; k += 128) bins[k >> 6][k & 63] = 0;
    __syncthreads();
    for (int k = 0; k < 8; k++) atomicAdd(&bins[T >> 5][a[blockIdx.x * 1024 + k * 128 + T] & 63], b[k * 128 + T]);
    __syncthreads();
    if (T < 64) atomicAdd(&o[T], bins[0][T] + bins[1][T] + bins[2][T] + bins[3][T]);
}
#endif
#ifdef K_scan_conflicts
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t s[256];
    s[2 * T] = a[blockIdx.x * 256 + 2 * T]; s[2 * T + 1] = a[blockIdx.x * 256 + 2 * T + 1];
    int offset = 1;
    for (int d = 128; d > 0; d >>= 1) { __syncthreads(); if (T < d) s[offset * (2 * T + 2) - 1] += s[offset * (2 * T + 1) - 1]; offset *= 2; }
    if (T == 0) s[255] = 0;
    for (int d = 1; d < 256; d *= 2) { offset >>= 1; __syncthreads(); if (T < d) { uint32_t x = s[offset * (2 * T + 1) - 1]; s[offset * (2 * T + 1) - 1] = s[offset * (2 * T + 2) - 1]; s[offset * (2 * T + 2) - 1] += x; } }
    __syncthreads();
    o[blockIdx.x * 256 + 2 * T] = s[2 * T]; o[blockIdx.x * 256 + 2 * T + 1] = s[2 * T + 1];
}
#endif
#ifdef K_bytes_table
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint8_t table[1024]; __shared__ uint16_t wide[512];
    for (int k = T; k < 1024; k += 128) table[k] = (uint8_t)(b[k] * 7);
    for (int k = T; k < 512; k += 128) wide[k ^ 5] = (uint16_t)b[k];
    __syncthreads();
    uint32_t v = a[blockIdx.x * 128 + T], r = 0;
    for (int k = 0; k < 4; k++) { r = r * 31 + table[v & 1023] + wide[v >> 2 & 511]; v = v * 1664525u + r; }
    o[blockIdx.x * 128 + T] = r;
}
#endif
#ifdef K_doubles
KERNEL NAME(const double *a, const double *b, double *o) {
    __shared__ double s[16][18];
    __shared__ double2 p[128];
    for (int k = T; k < 256; k += 128) s[k >> 4][k & 15] = a[blockIdx.x * 256 + k];
    p[T ^ 9] = make_double2(b[T], b[T + 128]);
    __syncthreads();
    double2 q = p[T * 5 & 127];
    for (int k = T; k < 256; k += 128) o[blockIdx.x * 256 + k] = s[k & 15][k >> 4] + q.x * q.y;
}
#endif
#ifdef K_diverging
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t s[512], w[256];
    for (int k = T; k < 512; k += 128) s[k] = b[k];
    __syncthreads();
    uint32_t v = a[blockIdx.x * 128 + T], r = v;
    if (v & 1) r += s[T * 4 & 511]; else r += s[(T * 3 + v) & 511];
    if (T % 5 == 0) { w[T * 2] = r; r ^= a[T * 9 & 1023]; }
    for (uint32_t k = 0; k < (v & 7); k++) r = r * 3 + s[(k * 32 + T) & 511];
    __syncthreads();
    o[blockIdx.x * 128 + T] = r + w[T / 5 * 10];
}
#endif
#if defined(K_epilogue_plain) || defined(K_epilogue_xor)
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint4 *o) {
    __shared__ __align__(16) uint32_t s[64 * 32];
    int lane = T & 31, warp = T >> 5;
    for (int c = 0; c < 8; c += 2) {
        uint32_t x[4]; for (int k = 0; k < 4; k++) x[k] = a[(blockIdx.x * 4 + k) * 128 + T] + c;
        int r = warp * 16 + (lane & 15), chunk = c + (lane >> 4);
#ifdef K_epilogue_xor
        chunk ^= r & 7;
#endif
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(SHARED(&s[r * 32 + chunk * 4])), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
    }
    __syncthreads();
    for (int k = T; k < 512; k += 128) o[blockIdx.x * 512 + k] = *(uint4 *)&s[k * 4];
}
#endif
#ifdef K_columns
KERNEL NAME(const float *a, const float *b, float *o) {
    int n = blockIdx.x * 128 + T; float r = 0, q = 0;
    for (int k = 0; k < 16; k++) { r += a[n * 16 + k] * b[k]; q += a[k * 512 + n] * b[k + 16]; }
    o[n] = r; o[n + 512] = q;
}
#endif
#ifdef K_local_index
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    uint32_t own[24]; int n = blockIdx.x * 128 + T;
    for (int k = 0; k < 24; k++) own[k] = a[n] * k;
    uint32_t r = 0;
    for (int k = 0; k < 24; k++) r = r * 5 + own[(b[k] + T) % 24];
    o[n] = r;
}
#endif
#ifdef K_butterfly
KERNEL NAME(const float2 *a, const float2 *b, float2 *o) {
    __shared__ float2 s[256];
    s[T] = a[blockIdx.x * 256 + T]; s[T + 128] = a[blockIdx.x * 256 + T + 128];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int i = T / half * half * 2 + T % half; float2 x = s[i], y = s[i + half];
        s[i] = make_float2(x.x + y.x, x.y + y.y); s[i + half] = make_float2(x.x - y.x, x.y - y.y);
    }
    __syncthreads();
    o[blockIdx.x * 256 + T] = s[T]; o[blockIdx.x * 256 + T + 128] = s[T + 128];
}
#endif
#ifdef K_rows_ragged
KERNEL NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    int n = blockIdx.x * 128 + T; uint32_t r = 0, begin = n * 8, end = begin + (a[n] & 15);
    for (uint32_t k = begin; k < end; k++) r += b[k & 8191];
    o[n] = r;
}
#endif
#ifdef K_ring
KERNEL NAME(const uint4 *a, const uint32_t *b, uint4 *o) {
    __shared__ uint4 s[3][128];
    for (int k = 0; k < 2; k++) { asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\ncp.async.commit_group;" ::"r"(SHARED(&s[k][T])), "l"(a + (k * 4 + blockIdx.x) * 128 + T)); }
    uint4 r = {0, 0, 0, 0};
    for (int k = 0; k < 6; k++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory"); __syncthreads();
        uint4 v = s[k % 3][T ^ 1]; r.x += v.x; r.y ^= v.y; r.z += v.z; r.w ^= v.w;
        if (k + 2 < 6) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(SHARED(&s[(k + 2) % 3][T])), "l"(a + ((k + 2) * 4 + blockIdx.x) * 128 + T));
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    o[blockIdx.x * 128 + T] = r;
}
#endif
#ifdef K_cluster_pairs
KERNEL __cluster_dims__(2, 1, 1) NAME(const uint32_t *a, const uint32_t *b, uint32_t *o) {
    __shared__ uint32_t s[512];
    for (int k = T; k < 512; k += 128) s[k] = a[blockIdx.x * 512 + k];
    cg::cluster_group c = cg::this_cluster(); c.sync();
    uint32_t *other = c.map_shared_rank(s, c.block_rank() ^ 1);
    uint32_t r = other[T * 2] + other[T] + s[T * 4];
    c.sync();
    o[blockIdx.x * 128 + T] = r;
}
#endif
#ifdef K_broadcasts
KERNEL NAME(const uint32_t *a, const uint4 *b, uint32_t *o) {
    __shared__ uint4 s[128]; __shared__ uint2 p[128];
    s[T] = b[T]; p[T] = make_uint2(a[T], a[T + 128]);
    __syncthreads();
    uint4 x = s[T >> 1], y = s[(T & 31) >> 2 | (T & 1) << 3], z = s[T & 96]; uint2 u = p[T >> 2], v = p[T ^ 3], w = p[(T & ~2) & 127];
    o[blockIdx.x * 128 + T] = x.x + y.y + z.z + u.x + v.y + w.x + x.w + y.z + w.y + u.y;
}
#endif
