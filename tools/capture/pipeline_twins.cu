// Rings of stages, right and held back: the kernels that tools/capture/pipeline_twins.py times. One macro says which family, the others what is wrong.
//   STAGES  stages of the ring                    LAG    the producer waits until the MMAs of the load LAG before are complete (right: STAGES)
//   LATE    a stage is released so many steps late   GROUPS wgmma groups that stay in flight          ONE_EMPTY  one barrier for the release of all stages
//   OWN     the producer waits for the load that it just issued                                       LOOK       the consumer waits for the next stage too
//   LOCK    both consumers meet at each step      MEET   all warps meet at each step, and no stage has an empty barrier
#include "launch_kernels/cuda/wgmma.cuh"
#ifndef STAGES
#define STAGES 4
#endif
#ifndef LAG
#define LAG STAGES
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef GROUPS
#define GROUPS 0
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define WAIT_GROUPS(n) asm volatile("wgmma.wait_group.sync.aligned " TEXT(n) ";" ::: "memory")

__device__ inline void load_2d(u32 to, const CUtensorMap &map, u32 x, u32 y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ inline u32 packed(float low, float high) {
    u32 p;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(high), "f"(low));
    return p;
}

#if defined(GEMM)
// C[M, N] = A[M, K] B[N, K]^T in bf16, persistent: one warpgroup loads, two multiply, results leave by stmatrix and TMA. CLUSTER: two CTAs share the tile of B.
#ifndef LAG_B  // SPLIT: A and B have barriers of their own
#define LAG_B LAG
#endif
constexpr u32 STAGE = 32768, TILE = 16384;
#ifdef CLUSTER
__device__ inline void arrive_at(u32 barrier, u32 rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(rank) : "memory");
}
__device__ inline void wait_cluster(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred P;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [%0], %1;\n@P bra done;\nbra again;\ndone:\n}" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ inline void load_shared(u32 to, const CUtensorMap &map, u32 x, u32 y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((u16)3) : "memory");
}
__device__ inline void cluster_meets() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
#define RELEASE(barrier) { arrive_at(barrier, 0); arrive_at(barrier, 1); }
#define AWAIT_EMPTY wait_cluster
constexpr u32 RELEASES = 4;
#define SHAPE __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
#else
#define RELEASE(barrier) barrier_arrive(barrier)
#define AWAIT_EMPTY barrier_wait
constexpr u32 RELEASES = 2;
#define SHAPE __launch_bounds__(384, 1)
#endif
KERNEL SHAPE ring(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                                      const __grid_constant__ CUtensorMap map_c, int tiles_m, int tiles_n, int tiles_k) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES], full_b[STAGES], empty_b[STAGES];
    u32 base = shared_address(smem), out = base + STAGES * STAGE, f = shared_address(full), e = shared_address(empty);
    u32 fb = shared_address(full_b), eb = shared_address(empty_b), group = threadIdx.x / 128, t = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(f + 8 * s, 1);
            barrier_init(e + 8 * s, RELEASES);
            barrier_init(fb + 8 * s, 1);
            barrier_init(eb + 8 * s, RELEASES);
        }
        barrier_init_fence();
    }
    __syncthreads();
#ifdef CLUSTER
    cluster_meets();
    u32 rank = blockIdx.x % 2;
    int first = blockIdx.x / 2, step = gridDim.x / 2, tiles = tiles_m / 2 * tiles_n;
#define TILE_M (tile / tiles_n * 2 + rank)
#else
    int first = blockIdx.x, step = gridDim.x, tiles = tiles_m * tiles_n;
#define TILE_M (tile / tiles_n)
#endif
    u32 n = 0;  // the step, counted through all tiles
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#if defined(MEET)
        if (t < 32) {
            u32 total = first < tiles ? ((tiles - first + step - 1) / step) * tiles_k : 0;
            auto load = [&](u32 i) {
                if (i >= total || t != 0) return;
                u32 at = i % STAGES, to = base + at * STAGE, k = i % tiles_k;
                int tile = first + i / tiles_k * step;
                barrier_expect(f + 8 * at, STAGE);
                load_2d(to, map_a, k * 64, TILE_M * 128, f + 8 * at);
                load_2d(to + TILE, map_b, k * 64, tile % tiles_n * 128, f + 8 * at);
            };
            for (u32 i = 0; i < STAGES - 1; i++) load(i);
            for (; n < total; n++) {
                asm volatile("bar.sync 4, 288;" ::: "memory");
                load(n + STAGES - 1);
                __syncwarp();
            }
        }
#else
        if (t == 0)
            for (int tile = first; tile < tiles; tile += step)
                for (int k = 0; k < tiles_k; k++, n++) {
                    u32 at = n % STAGES, to = base + at * STAGE;
#if defined(ONE_EMPTY)
                    if (n >= 1) barrier_wait(e, (n - 1) & 1);
#else
                    if (n >= LAG) AWAIT_EMPTY(e + 8 * ((n - LAG) % STAGES), (n - LAG) / STAGES & 1);
#endif
#if defined(SPLIT)
                    barrier_expect(f + 8 * at, TILE);
                    load_2d(to, map_a, k * 64, TILE_M * 128, f + 8 * at);
                    if (n >= LAG_B) barrier_wait(eb + 8 * ((n - LAG_B) % STAGES), (n - LAG_B) / STAGES & 1);
                    barrier_expect(fb + 8 * at, TILE);
                    load_2d(to + TILE, map_b, k * 64, tile % tiles_n * 128, fb + 8 * at);
#elif defined(CLUSTER)
                    barrier_expect(f + 8 * at, STAGE);
                    load_2d(to, map_a, k * 64, TILE_M * 128, f + 8 * at);
                    load_shared(to + TILE + rank * 8192, map_b, k * 64, tile % tiles_n * 128 + rank * 64, f + 8 * at);
#else
                    barrier_expect(f + 8 * at, STAGE);
                    load_2d(to, map_a, k * 64, TILE_M * 128, f + 8 * at);
                    load_2d(to + TILE, map_b, k * 64, tile % tiles_n * 128, f + 8 * at);
#endif
#ifdef OWN
                    barrier_wait(f + 8 * at, n / STAGES & 1);
#endif
                }
#endif
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        u32 mine = group - 1, store = out + mine * TILE;
        for (int tile = first; tile < tiles; tile += step) {
            float d[64];
            u32 scale_d = 0;
            for (int i = 0; i < 64; i++) d[i] = 0;
            for (int k = 0; k < tiles_k; k++, n++) {
                u32 at = n % STAGES;
#ifdef MEET
                asm volatile("bar.sync 4, 288;" ::: "memory");
#endif
                barrier_wait(f + 8 * at, n / STAGES & 1);
#ifdef SPLIT
                barrier_wait(fb + 8 * at, n / STAGES & 1);
#endif
#ifdef LOOK
                if (k + 1 < tiles_k || tile + step < tiles) barrier_wait(f + 8 * ((n + 1) % STAGES), (n + 1) / STAGES & 1);
#endif
                wgmma_begin();
                for (int part = 0; part < 4; part++) {
                    u64 a = descriptor_128b(base + at * STAGE + mine * 8192 + 32 * part), b = descriptor_128b(base + at * STAGE + TILE + 32 * part);
                    WGMMA_64F("m64n128k16.f32.bf16.bf16", ", 1, 1, 0, 0");
                    scale_d = 1;
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                WAIT_GROUPS(GROUPS);
#if defined(ONE_EMPTY)
                if (t == 0) barrier_arrive(e);
#elif !defined(MEET)
                if (t == 0 && k >= LATE) RELEASE(e + 8 * ((n - LATE) % STAGES));
#ifdef SPLIT
                if (t == 0) barrier_arrive(eb + 8 * at);
#endif
#endif
#ifdef LOCK
                asm volatile("bar.sync 3, 256;" ::: "memory");
#endif
            }
            WAIT_GROUPS(0);
#if LATE
            if (t == 0)
                for (int j = LATE < tiles_k ? LATE : tiles_k; j > 0; j--) RELEASE(e + 8 * ((n - j) % STAGES));
#endif
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
            for (int j = 0; j < 8; j++) {
                u32 p[4];
                for (int i = 0; i < 4; i++) p[i] = packed(d[8 * j + 2 * i], d[8 * j + 2 * i + 1]);
                u32 row = t / 32 * 16 + t % 16, chunk = 2 * (j % 4) + t % 32 / 16;
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                             ::"r"(store + j / 4 * 8192 + row * 128 + (chunk ^ (row & 7)) * 16), "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]) : "memory");
            }
            proxy_fence();
            asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
            if (t == 0) {
                for (int half = 0; half < 2; half++)
                    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                                 ::"l"(&map_c), "r"(tile % tiles_n * 128 + 64 * half), "r"(TILE_M * 128 + 64 * mine), "r"(store + half * 8192) : "memory");
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
#ifdef CLUSTER
    __syncwarp();
    cluster_meets();
#endif
}

#elif defined(ATTENTION)
// O = exp2(Q K^T / 8) V / sum, 128 rows a CTA, head size 64: one warpgroup loads K and V into two rings, two multiply. LAG is that of K's ring, LAG_V that of V's.
#ifndef LAG_V
#define LAG_V STAGES
#endif
constexpr u32 TILE = 8192;
KERNEL __launch_bounds__(384, 1) ring(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                                      const __grid_constant__ CUtensorMap map_v, u32 *o, int length) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ __align__(8) u64 full_k[STAGES], empty_k[STAGES], full_v[STAGES], empty_v[STAGES], full_q;
    u32 q = shared_address(smem), ks = q + 2 * TILE, vs = ks + STAGES * TILE, group = threadIdx.x / 128, t = threadIdx.x % 128, blocks = length / 64;
    u32 fk = shared_address(full_k), ek = shared_address(empty_k), fv = shared_address(full_v), ev = shared_address(empty_v), fq = shared_address(&full_q);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(fk + 8 * s, 1);
            barrier_init(ek + 8 * s, 2);
            barrier_init(fv + 8 * s, 1);
            barrier_init(ev + 8 * s, 2);
        }
        barrier_init(fq, 1);
        barrier_init_fence();
    }
    __syncthreads();
    u32 row = blockIdx.y * length;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (t == 0) {
            barrier_expect(fq, 2 * TILE);
            load_2d(q, map_q, 0, row + blockIdx.x * 128, fq);
            load_2d(q + TILE, map_q, 0, row + blockIdx.x * 128 + 64, fq);
            for (u32 n = 0; n < blocks; n++) {
                u32 at = n % STAGES;
                if (n >= LAG) barrier_wait(ek + 8 * ((n - LAG) % STAGES), (n - LAG) / STAGES & 1);
                barrier_expect(fk + 8 * at, TILE);
                load_2d(ks + at * TILE, map_k, 0, row + n * 64, fk + 8 * at);
                if (n >= LAG_V) barrier_wait(ev + 8 * ((n - LAG_V) % STAGES), (n - LAG_V) / STAGES & 1);
                barrier_expect(fv + 8 * at, TILE);
                load_2d(vs + at * TILE, map_v, 0, row + n * 64, fv + 8 * at);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float total[32], sums[2] = {0, 0};
        for (int i = 0; i < 32; i++) total[i] = 0;
        barrier_wait(fq, 0);
        for (u32 n = 0; n < blocks; n++) {
            u32 at = n % STAGES;
            float s[32];
            barrier_wait(fk + 8 * at, n / STAGES & 1);
            {
                float(&d)[32] = s;
                u32 scale_d = 0;
                wgmma_begin();
                for (int part = 0; part < 4; part++) {
                    u64 a = descriptor_128b(q + (group - 1) * TILE + 32 * part), b = descriptor_128b(ks + at * TILE + 32 * part);
                    WGMMA_32F("m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 0");
                    scale_d = 1;
                }
                wgmma_end();
            }
#ifndef LATE_K
            if (t == 0) barrier_arrive(ek + 8 * at);
#endif
            for (int i = 0; i < 32; i++) {
                asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(s[i]) : "f"(s[i] * 0.18033688f));
                sums[i / 2 % 2] += s[i];
            }
            barrier_wait(fv + 8 * at, n / STAGES & 1);
            {
                float(&d)[32] = total;
                u32 scale_d = 1, p[4][4];
                for (int part = 0; part < 4; part++)
                    for (int i = 0; i < 4; i++) p[part][i] = packed(s[8 * part + 2 * i], s[8 * part + 2 * i + 1]);
                wgmma_begin();
                for (int part = 0; part < 4; part++) {
                    u32(&a)[4] = p[part];
                    u64 b = descriptor_128b_mn(vs + at * TILE + 2048 * part, TILE);
                    WGMMA_32F_RS("m64n64k16.f32.bf16.bf16", ", 1, 1, 1");
                }
                wgmma_end();
            }
            if (t == 0) barrier_arrive(ev + 8 * at);
#ifdef LATE_K
            if (t == 0) barrier_arrive(ek + 8 * at);
#endif
#ifdef LOCK
            asm volatile("bar.sync 3, 256;" ::: "memory");
#endif
        }
        for (int i = 0; i < 2; i++) {
            sums[i] += __shfl_xor_sync(~0u, sums[i], 1);
            sums[i] += __shfl_xor_sync(~0u, sums[i], 2);
        }
        u32 top = row + blockIdx.x * 128 + (group - 1) * 64 + t / 32 * 16 + t % 32 / 4;
        for (int j = 0; j < 8; j++)
            for (int i = 0; i < 2; i++)
                o[(top + 8 * i) * 32 + j * 4 + t % 4] = packed(total[4 * j + 2 * i] / sums[i], total[4 * j + 2 * i + 1] / sums[i]);
    }
}

#elif defined(COPIES)
// C[M, N] = A[M, K] B[N, K]^T in bf16 by cp.async and mma.sync, 128 x 128 x 32 a step: STAGES - 1 groups ahead, and PENDING of them stay in flight at each wait.
#ifndef PENDING
#define PENDING (STAGES - 2)
#endif
constexpr u32 TILE = 8192;
__device__ inline u32 place(u32 row, u32 chunk) { return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4); }
template <int LEFT> __device__ inline void wait_groups() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
KERNEL __launch_bounds__(256, 2) ring(const u16 *a, const u16 *b, u32 *c, int m, int n, int k) {
    extern __shared__ __align__(1024) u8 smem[];
    u32 base = shared_address(smem), t = threadIdx.x, lane = t % 32, warp = t / 32, wm = warp / 4 * 64, wn = warp % 4 * 32;
    u32 top = blockIdx.y * 128, left = blockIdx.x * 128;
    int steps = k / 32;
    auto load = [&](int step) {
        if (step < steps)
            for (int i = 0; i < 2; i++) {
                u32 row = i * 64 + t / 4, chunk = t % 4, to = base + step % STAGES * 2 * TILE + place(row, chunk);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(a + (u64)(top + row) * k + step * 32 + chunk * 8) : "memory");
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + TILE), "l"(b + (u64)(left + row) * k + step * 32 + chunk * 8) : "memory");
            }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float d[4][4][4];
    for (int i = 0; i < 64; i++) d[i / 16][i / 4 % 4][i % 4] = 0;
    for (int s = 0; s < STAGES - 1; s++) load(s);
    for (int step = 0; step < steps; step++) {
        wait_groups<PENDING>();
        __syncthreads();
        load(step + STAGES - 1);
        u32 from = base + step % STAGES * 2 * TILE;
        for (int part = 0; part < 2; part++) {
            u32 x[4][4], y[4][2];
            for (int i = 0; i < 4; i++)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                             : "r"(from + place(wm + i * 16 + lane % 16, part * 2 + lane / 16)) : "memory");
            for (int j = 0; j < 4; j += 2)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(y[j][0]), "=r"(y[j][1]), "=r"(y[j + 1][0]), "=r"(y[j + 1][1])
                             : "r"(from + TILE + place(wn + j * 8 + lane / 16 * 8 + lane % 8, part * 2 + lane / 8 % 2)) : "memory");
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(d[i][j][0]), "+f"(d[i][j][1]), "+f"(d[i][j][2]), "+f"(d[i][j][3]) : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j][0]), "r"(y[j][1]));
        }
#ifdef LOCK  // a second barrier that nothing needs
        __syncthreads();
#endif
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int half = 0; half < 2; half++)
                c[((u64)(top + wm + i * 16 + half * 8 + lane / 4) * n + left + wn + j * 8) / 2 + lane % 4] = packed(d[i][j][2 * half], d[i][j][2 * half + 1]);
}
#endif
