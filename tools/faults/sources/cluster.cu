// A cluster of two CTAs. CTA 0 loads two tiles of u32 into both by multicast, one after the other. Each CTA sums half of the rows, and sends its
// sums to CTA 0 through distributed shared memory, with an arrival at CTA 0's mbarrier. CTA 0 adds and stores.
//! 1 | barrier | nothing makes CTA 0 wait for CTA 1's mbarrier.init before the multicast | X008 X010 | load init send
//! 3 | mask | the multicast reaches CTA 0 alone | X006 T210 | load full
//! 4 | bytes | CTA 1 expects nothing: its phase ends before the tile has arrived | T210 X004 X010 X006 | expect load sum full
//! 5 | order | the remote arrive is .relaxed, and publishes no sums | X008 | collect
//! 6 | rank | the sums go to the sender's own CTA | X019 X006 R507 X008 X004 | mapa remote send collect part
//! 7 | wait | CTA 0 does not wait for the sums of CTA 1 | X008 X004 R507 | collect
//! 8 | count | the mbarrier of the sums counts 3 warps of 4 | X008 X010 X006 X004 | initpart remote collect part
//! 9 | order | barrier.cluster.arrive.relaxed, without fence.mbarrier_init, hands on the mbarriers | X008 X010 | load init remote relaxed expect
//! 10 | scope | the remote arrive has .cta scope | X008 | collect remote
//! 12 | arrive | CTA 1 does not say that it has read the first tile | X006 | peer release
//! 13 | arrive before store | the arrive is executed before the sums are sent | X008 | collect send
//! 14 | phase | CTA 0 waits for the first tile's sums twice | X008 X004 X006 | collect part
//! 15 | ending | CTA 1 leaves before the second multicast writes its shared memory | X008 X005 X004 X006 | load leave full
//! 16 | bounds | mapa of a rank outside of the cluster | X001 X015 X010 | mapa remote send
#include "common.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) cluster(const __grid_constant__ Map map, u32 *out) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const u32 base = at(raw), tid = threadIdx.x, warp = tid / 32, tile = base, sums = base + 4096, full = sums + 1024, part = full + 8, peer = full + 16;
    u32 rank;
    PTX("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (tid == 0) {
        MBAR_INIT(full, 1);  // @init
        MBAR_INIT(part, PICK(8, 3, 4));  // @initpart
        MBAR_INIT(peer, 1);  // @init
        if (!F(9)) FENCE_INIT();
    }
    if (F(9)) CLUSTER_ARRIVE_RELAXED(); else if (!F(1)) CLUSTER_ARRIVE();  // @relaxed
    if (!F(1)) CLUSTER_WAIT();
    if (F(1)) __syncthreads();
    u32 there, its_part, its_peer;
    const u32 target = F(6) ? rank : F(16) ? 2 : 0;
    PTX("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(sums), "r"(target));  // @mapa
    PTX("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_part) : "r"(part), "r"(target));  // @mapa
    PTX("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_peer) : "r"(peer), "r"(0));
    u32 total = 0;
#pragma unroll 1
    for (int t = 0; t < 2; t++) {
        if (F(15) && rank == 1 && t == 1) return;  // @leave
        if (tid == 0) {
            if (!(F(4) && rank == 1)) EXPECT(full, 4096); else ARRIVE(full);  // @expect
            if (rank == 0) {
                if (t > 0) WAIT(peer, 0);  // @peer
                LOAD_2D_MULTICAST(tile, &map, 0, 32 * t, full, PICK(3, 1, 3));  // @load
            }
        }
        WAIT(full, t);  // @full
        u32 sum = 0;
        for (int r = 0; r < 16; r++) {
            u32 value;
            if (tid < 32) { LD_SHARED(value, tile + (rank * 16 + r) * 128 + tid * 4); sum += value; }  // @sum
            else if (r < 4) { LD_SHARED(value, tile + (rank * 16 + r + warp * 4) * 128 + tid % 32 * 4); sum += value; }  // @sum
        }
        __syncthreads();
        if (tid == 0 && rank == 1 && t == 0 && !F(12)) PTX("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(its_peer) : "memory");  // @release
        if (rank == 1) {
            if (F(13) && tid % 32 == 0) PTX("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(its_part) : "memory");
            PTX("st.shared::cluster.u32 [%0], %1;" ::"r"(there + t * 512 + tid * 4), "r"(sum) : "memory");  // @send
            __syncwarp();
            if (tid % 32 == 0) {
                if (F(5)) PTX("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(its_part) : "memory");  // @remote
                else if (F(10)) PTX("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(its_part) : "memory");  // @remote
                else if (!F(13)) PTX("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(its_part) : "memory");  // @remote
            }
        } else {
            if (!F(7)) PTX("{\n.reg .pred p;\nW%=:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra W%=;\n}" ::"r"(part), "r"(F(14) ? 0 : t) : "memory");  // @part
            u32 other;
            LD_SHARED(other, sums + t * 512 + tid * 4);  // @collect
            total += sum + other;
        }
    }
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
    if (rank == 0) out[tid] = total;
}
