// What the kernels of this folder share. The PTX stands in macros, not in functions, so that a line of machine code is the line of its use.
#pragma once
#ifndef FAULT
#define FAULT 0
#endif
#define F(n) (FAULT == (n))
#define PICK(n, faulty, right) (F(n) ? (faulty) : (right))

typedef unsigned u32;
typedef unsigned long long u64;
struct __align__(64) Map { u64 words[16]; };  // CUtensorMap

__device__ __forceinline__ u32 at(const void *p) { return (u32)__cvta_generic_to_shared(p); }

#define PTX(...) asm volatile(__VA_ARGS__)
#define MBAR_INIT(bar, count) PTX("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory")
#define MBAR_INVAL(bar) PTX("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory")
#define EXPECT(bar, bytes) PTX("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory")
#define ARRIVE(bar) PTX("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory")
#define WAIT(bar, parity)                                                                                                          \
    PTX("{\n.reg .pred p;\nW%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W%=;\n}" ::"r"(bar), "r"(parity) : "memory")
#define FENCE_ASYNC() PTX("fence.proxy.async.shared::cta;" ::: "memory")
#define FENCE_INIT() PTX("fence.mbarrier_init.release.cluster;" ::: "memory")
#define LOAD_2D(to, map, x, y, bar)                                                                                                \
    PTX("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),   \
        "l"(map), "r"(x), "r"(y), "r"(bar) : "memory")
#define LOAD_2D_MULTICAST(to, map, x, y, bar, mask)                                                                                \
    PTX("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" \
        ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar), "h"((unsigned short)(mask)) : "memory")
#define STORE_2D(map, x, y, from)                                                                                                  \
    PTX("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(from) : "memory")
#define BULK_LOAD(to, from, bytes, bar)                                                                                            \
    PTX("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), \
        "r"(bar) : "memory")
#define BULK_STORE(to, from, bytes) PTX("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory")
#define BULK_ADD(to, from, bytes) PTX("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory")
#define BULK_COMMIT() PTX("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT_READ(n) PTX("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory")
#define BULK_WAIT(n) PTX("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory")
#define CP_ASYNC(to, from) PTX("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory")
#define CP_COMMIT() PTX("cp.async.commit_group;" ::: "memory")
#define CP_WAIT(n) PTX("cp.async.wait_group %0;" ::"n"(n) : "memory")
#define BAR(id, threads) PTX("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory")
#define CLUSTER_ARRIVE() PTX("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define CLUSTER_ARRIVE_RELAXED() PTX("barrier.cluster.arrive.relaxed.aligned;" ::: "memory")
#define CLUSTER_WAIT() PTX("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define ST_SHARED(to, value) PTX("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory")
#define LD_SHARED(value, from) PTX("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory")
#define SETMAXNREG(what, n) PTX("setmaxnreg." what ".sync.aligned.u32 %0;" ::"n"(n))

#define WGMMA_FENCE() PTX("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() PTX("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT(n) PTX("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
#define WGMMA(d, a, b, adds) /* D[64][32] of f32 in 16 registers; A and B of bf16, K-major */                                       \
    PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "                          \
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0;\n}"                       \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),     \
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])                                              \
        : "l"(a), "l"(b), "r"(adds))
// A K-major tile with the 128-byte swizzle: start, LBO 1 (unused), SBO 1024 B, layout 128B
#define DESCRIPTOR(start, sbo, layout) ((u64)(((start) & 0x3FFFF) >> 4) | 1ull << 16 | (u64)((sbo) >> 4) << 32 | (u64)(layout) << 62)
