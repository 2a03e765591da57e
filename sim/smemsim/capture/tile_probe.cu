// Does the tensor core read what TMA wrote? Tiles on every 128-byte phase, read through descriptors with and without base_offset.
#include "probes.cuh"

constexpr unsigned WINDOW_BEGIN = 0x400;
constexpr long long PATIENCE = 200000;

// TMA, then wgmma: up to 8 loads of a bf16 tensor whose elements hold one byte of their index, then one m64n64k16 whose operand B
// reads them through `descriptor`; A is an identity. Pass 2 has constant 1.0 elements over shared memory full of 512.0.
struct TileCase {
    int rank, loads, coordinates[8][5];
    unsigned to[8], expect_bytes;
    unsigned long long descriptor;
};

template <int TRANSPOSED> __device__ void probe_tile(const TileCase *cases, const CUtensorMap *maps, unsigned window_bytes, unsigned *out) {
    extern __shared__ __align__(1024) unsigned char window[];
    const TileCase &c = cases[blockIdx.x];
    const unsigned barrier = WINDOW_BEGIN + window_bytes - 16;
    const int t = threadIdx.x, w = t / 32, g = t % 32 / 4, q = t % 4;
    unsigned a[4] = {0, 0, 0, 0};
    for (int i = 0; i < 8; i++) {
        int row = 16 * w + g + 8 * ((i >> 1) & 1), column = 2 * q + (i & 1) + 8 * (i >> 2);
        if (row == column) a[i / 2] |= 0x3F80u << (i % 2 * 16);
    }
    for (int pass = 0; pass < 3; pass++) {
        for (unsigned x = t; x < window_bytes / 4; x += 128) ((unsigned *)window)[x] = 0x44004400;  // two times 512.0
        __syncthreads();
        if (t == 0) barrier_init(barrier);
        proxy_fence();
        __syncthreads();
        if (t == 0) {
            barrier_expect(barrier, c.expect_bytes);
            for (int i = 0; i < c.loads; i++) tma_load(c.rank, c.to[i], maps + (size_t)blockIdx.x * 3 + pass, c.coordinates[i], barrier);
        }
        barrier_wait(barrier, 0, PATIENCE);
        __syncthreads();
        float d[32];
        for (int i = 0; i < 32; i++) d[i] = 0;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                     "%24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, %37; }"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
                       "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
                       "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
                       "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(c.descriptor), "n"(TRANSPOSED));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        for (int i = 0; i < 32; i++) {
            int row = 16 * w + g + 8 * ((i >> 1) & 1), column = 2 * q + (i & 1) + 8 * (i >> 2);
            if (row < 16) out[((size_t)blockIdx.x * 3 + pass) * 1024 + column * 16 + row] = (unsigned)d[i];
        }
        __syncthreads();
        if (t == 0) barrier_invalidate(barrier);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(128) probe_tile_k(const TileCase *c, const CUtensorMap *m, unsigned w, unsigned *o) { probe_tile<0>(c, m, w, o); }
extern "C" __global__ void __launch_bounds__(128) probe_tile_mn(const TileCase *c, const CUtensorMap *m, unsigned w, unsigned *o) { probe_tile<1>(c, m, w, o); }
