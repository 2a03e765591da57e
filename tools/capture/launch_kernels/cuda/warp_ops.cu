// Shuffles, votes, matches, elections and reductions of warps, with full and partial masks.
#include "common.cuh"
KERNEL warp_ops(const u32 *in, u32 *out) {
    int slot = 0, lane = threadIdx.x & 31;
    u32 x = in[THREAD], all = ~0u, half = lane < 16 ? 0x0000ffff : 0xffff0000;
    PUT(__shfl_sync(all, x, 5)); PUT(__shfl_sync(all, x, lane * 7)); PUT(__shfl_up_sync(all, x, 3)); PUT(__shfl_down_sync(all, x, 9)); PUT(__shfl_xor_sync(all, x, 21));
    PUT(__shfl_sync(all, x, lane + 1, 8)); PUT(__shfl_up_sync(all, x, 2, 16)); PUT(__shfl_down_sync(all, x, 1, 4)); PUT(__shfl_xor_sync(half, x, 5, 8)); PUT(__shfl_sync(half, x, x & 31, 16));
    PUT_ASM("{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, %2, 0, -1; @!p add.u32 %0, %0, 1000; }", "r", u32, "r"(x), "r"(lane & 15))
    PUT_ASM("{ .reg .pred p; shfl.sync.down.b32 %0|p, %1, 6, 0x1807, -1; @!p xor.b32 %0, %0, %2; }", "r", u32, "r"(x), "r"(0x55))
    PUT_ASM("{ .reg .pred p; shfl.sync.idx.b32 %0|p, %1, %2, 0x1f, -1; selp.u32 %0, %0, 7, p; }", "r", u32, "r"(x), "r"(lane * 3))
    PUT((u32)(__shfl_xor_sync(all, (u64)x * x, 1) >> 13)); PUT((u32)__shfl_down_sync(all, (double)x, 2)); PUT(__float_as_uint(__shfl_up_sync(all, (float)x, 1)));
    PUT(__ballot_sync(all, x & 1)); PUT(__any_sync(half, x % 37 == 0)); PUT(__all_sync(half, x % 16));
    PUT_ASM("{ .reg .pred p, q; setp.gt.u32 p, %1, 100; vote.sync.uni.pred q, p, -1; selp.u32 %0, 3, 4, q; }", "r", u32, "r"(x))
    PUT_ASM("{ .reg .pred p, q; setp.gt.u32 p, %1, 100; vote.sync.all.pred q, !p, -1; selp.u32 %0, 3, 4, q; }", "r", u32, "r"(x))
    PUT(__match_any_sync(all, x & 3)); PUT(__match_any_sync(half, (u64)(x & 7) << 32));
    int same;
    u32 mask = __match_all_sync(all, x >> 31 ? 1 : 1, &same);
    PUT(mask + same);
    mask = __match_all_sync(half, x & 1, &same);
    PUT(mask + 2 * same);
    PUT_ASM("{ .reg .pred p; .reg .u32 r; elect.sync r|p, -1; selp.u32 %0, 100, 0, p; add.u32 %0, %0, r; }", "r", u32, "r"(0))
    PUT_ASM("{ .reg .pred p; elect.sync _|p, %1; selp.u32 %0, 100, 0, p; }", "r", u32, "r"(half))
    PUT(__reduce_add_sync(all, x)); PUT(__reduce_min_sync(all, x)); PUT(__reduce_max_sync(half, x)); PUT(__reduce_min_sync(all, (int)x)); PUT(__reduce_max_sync(all, (int)x));
    PUT(__reduce_and_sync(half, x | 0xf0)); PUT(__reduce_or_sync(half, x & 0x7)); PUT(__reduce_xor_sync(all, x));
    if (x & 1) {
        out[THREADS * 36 + THREAD] = __reduce_add_sync(__ballot_sync(__activemask(), 1), 1) > 0;
    } else if (lane & 4) {
        out[THREADS * 37 + THREAD] = __popc(__activemask()) > 0;
    }
    __syncwarp();
    slot = 38;
    u32 lt, le, eq, ge, gt;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt)); asm("mov.u32 %0, %%lanemask_le;" : "=r"(le)); asm("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge)); asm("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
    PUT(lt ^ le); PUT(eq ^ ge); PUT(gt);
    u32 peers = __ballot_sync(all, x & 2);
    PUT(__popc(peers & lt));  // compaction: the place of each thread among those of the ballot
    if (x & 2) {
        u32 leader = __ffs(peers) - 1;
        PUT(__shfl_sync(peers, x, leader)); PUT(__reduce_add_sync(peers, x & 0xff));
    }
}
