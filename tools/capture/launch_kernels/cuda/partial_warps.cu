// What PTX leaves open of warps that are not whole: shuffles that ask a lane which is elsewhere, has exited or whose instruction is
// predicated off; which lanes are together behind loops and switches of unlike length.
#include "common.cuh"

static __device__ u32 ask(u32 x, u32 lane, u32 mask) {
    u32 y;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;" : "=r"(y) : "r"(x), "r"(lane), "r"(mask));
    return y;
}

extern "C" __global__ void partial_warps(const u32 *x, u32 *out) {
    u32 t = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x, lane = threadIdx.x & 31, own = x[t], y, rounds = 0;
    if (lane < 16) out[t] = ask(own, lane + 12, 0xffff);
    __syncwarp();
    asm volatile("{.reg .pred p; setp.lt.u32 p, %2, 8; mov.u32 %0, 77; @p shfl.sync.idx.b32 %0, %1, %3, 31, 0xff;}" : "=&r"(y) : "r"(own), "r"(lane), "r"(lane * 3));
    out[n + t] = y;
    for (u32 z = own | 1; z != 1 && rounds < 2000; rounds++) z = z & 1 ? 3 * z + 1 : z >> 1;
    out[2 * n + t] = __activemask();
    u32 total = rounds;
    switch (own % 5) {
    case 0: total += 3; break;
    case 1: for (u32 i = 0; i < (own >> 8 & 511); i++) total = total * 5 + i;
    case 2: total ^= own; break;
    default: if (own & 64) goto end; total -= 9;
    }
    total += __popc(own);
end:
    out[3 * n + t] = __ballot_sync(__activemask(), total & 1);
    if (lane >= 21) return;
    out[4 * n + t] = ask(own, 31 - lane, 0x1fffff);
    asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 31, -1;" : "=r"(y) : "r"(own));
    out[5 * n + t] = y;
    if (lane & 1) out[6 * n + t] = ask(own, lane * 7 & 31, 0x0aaaaa);
}
