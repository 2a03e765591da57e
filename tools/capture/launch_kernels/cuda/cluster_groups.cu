// The same in the words of cooperative groups: a histogram whose bins are spread over the cluster, reductions of tiles and blocks.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include "common.cuh"
namespace cg = cooperative_groups;
KERNEL __cluster_dims__(2, 1, 1) cluster_groups(const u8 *in, u32 count, u32 *bins, u32 *sums) {
    __shared__ u32 own[64];
    cg::cluster_group cluster = cg::this_cluster();
    cg::thread_block block = cg::this_thread_block();
    for (u32 i = block.thread_rank(); i < 64; i += block.size()) own[i] = 0;
    cluster.sync();
    for (u32 i = cluster.thread_rank(); i < count; i += cluster.num_threads()) {
        u32 bin = in[(blockIdx.x / 2) * count + i] / 2;
        atomicAdd(cluster.map_shared_rank(own, bin / 64) + bin % 64, 1);
    }
    cluster.sync();
    for (u32 i = block.thread_rank(); i < 64; i += block.size()) atomicAdd(bins + 64 * cluster.block_rank() + i, own[i]);
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    u32 x = own[threadIdx.x % 64], sum = cg::reduce(warp, x, cg::plus<u32>());
    cg::thread_block_tile<8> eight = cg::tiled_partition<8>(warp);
    float most = cg::reduce(eight, (float)x, cg::greater<float>());
    cg::coalesced_group active = cg::coalesced_threads();
    if (x & 1) {
        cg::coalesced_group odd = cg::coalesced_threads();
        sum += odd.size() >= 1 ? odd.shfl(x, 0) & 1 : 0;
    }
    sums[THREAD] = sum * 4 + (u32)most + (active.size() > 0);
    cluster.sync();
}
