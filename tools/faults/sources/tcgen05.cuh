// What the Blackwell kernels of this folder share, beside common.cuh.
#pragma once
#include "common.cuh"

#define TM_ALLOC(slot, columns) PTX("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns) : "memory")
#define TM_DEALLOC(taddr, columns) PTX("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(taddr), "r"(columns) : "memory")
#define TM_RELINQUISH() PTX("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory")
#define TM_ALLOC_PAIR(slot, columns) PTX("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns) : "memory")
#define TM_DEALLOC_PAIR(taddr, columns) PTX("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(taddr), "r"(columns) : "memory")
#define TM_RELINQUISH_PAIR() PTX("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory")
#define BEFORE_SYNC() PTX("tcgen05.fence::before_thread_sync;" ::: "memory")
#define AFTER_SYNC() PTX("tcgen05.fence::after_thread_sync;" ::: "memory")
#define TM_WAIT_LD() PTX("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define TM_WAIT_ST() PTX("tcgen05.wait::st.sync.aligned;" ::: "memory")
#define COMMIT(bar) PTX("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory")
#define COMMIT_PAIR(bar, mask)                                                                                                     \
    PTX("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(bar),           \
        "h"((unsigned short)(mask)) : "memory")
#define ARRIVE_RELAXED(bar) PTX("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory")
#define ARRIVE_AT_RELAXED(bar, rank) /* at the mbarrier of another CTA of the cluster */                                           \
    PTX("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [r];\n}" ::"r"(bar), "r"(rank) : "memory")
#define WAIT_RELAXED(bar, parity) /* between tcgen05 instructions alone: tcgen05.fence makes it order these */                     \
    PTX("{\n.reg .pred p;\nW%=:\nmbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra W%=;\n}" ::"r"(bar), "r"(parity) : "memory")
#define MMA(d, a, b, idesc, adds)                                                                                                  \
    PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d), "l"(a), "l"(b), "r"(idesc), \
        "r"((int)(adds)) : "memory")
#define MMA_PAIR(d, a, b, idesc, adds)                                                                                             \
    PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d), "l"(a), "l"(b), "r"(idesc), \
        "r"((int)(adds)) : "memory")
#define MMA_TM(d, a, b, idesc, adds) /* A in tensor memory */                                                                      \
    PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(d), "r"(a), "l"(b), "r"(idesc), \
        "r"((int)(adds)) : "memory")
#define MMA_SCALED(d, a, b, idesc, scales_a, scales_b, adds)                                                                       \
    PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\ntcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], p;\n}" ::"r"(d), \
        "l"(a), "l"(b), "r"(idesc), "r"(scales_a), "r"(scales_b), "r"((int)(adds)) : "memory")
#define CP_SCALES(taddr, descriptor) PTX("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(taddr), "l"(descriptor) : "memory")
#define TM_LD8(v, taddr)                                                                                                           \
    PTX("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"                                            \
        : "=r"((v)[0]), "=r"((v)[1]), "=r"((v)[2]), "=r"((v)[3]), "=r"((v)[4]), "=r"((v)[5]), "=r"((v)[6]), "=r"((v)[7]) : "r"(taddr) : "memory")
#define TM_ST8(taddr, v)                                                                                                           \
    PTX("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"r"(taddr), "r"((v)[0]), "r"((v)[1]), "r"((v)[2]), "r"((v)[3]), \
        "r"((v)[4]), "r"((v)[5]), "r"((v)[6]), "r"((v)[7]) : "memory")
// A K-major tile with the 128-byte swizzle: start, LBO 1 (unused), SBO 1024 B, version 1, layout 128B
#define TC_DESCRIPTOR(start) ((u64)(((start) & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61)
// f32 = bf16 x bf16, M and N
#define IDESC(m, n) (1u << 4 | 1u << 7 | 1u << 10 | (u32)(n) / 8 << 17 | (u32)(m) / 16 << 24)
