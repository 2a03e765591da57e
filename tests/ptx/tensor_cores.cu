// The instructions around a tensor core, by inline assembly. It computes nothing of use.
// nvcc -ptx -lineinfo -arch=sm_90a (or sm_100a) tensor_cores.cu
#include <cuda.h>
#include <stdint.h>

__device__ __forceinline__ uint32_t shared_address(const void *pointer) { return (uint32_t)__cvta_generic_to_shared(pointer); }

extern "C" __global__ void __cluster_dims__(2, 1, 1) tensor_cores(const __grid_constant__ CUtensorMap map, uint64_t a, uint64_t b, float *out) {
    __shared__ __align__(1024) char tile[4096];
    __shared__ uint64_t barrier;
    uint32_t shared = shared_address(tile), bar = shared_address(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(1));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(4096));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared),
                     "l"(&map), "r"(0), "r"(8), "r"(bar)
                     : "memory");
    }
    asm volatile("{\n.reg .pred ready;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 ready, [%0], %1;\n@ready bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(bar), "r"(0));
#if __CUDA_ARCH__ == 900
    float r[4] = {0, 0, 0, 0};
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 1;\n}"
                 : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3])
                 : "l"(a), "l"(b), "r"(1));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
    for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = r[i];
#else
    uint32_t r[2], tensor_memory = *(volatile uint32_t *)tile;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %5, %5, %5}, p;\n}" ::"r"(tensor_memory),
                 "l"(a), "l"(b), "r"(0x8210490), "r"(1), "r"(0));
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar));
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0, %1}, [%2+0x10];" : "=r"(r[0]), "=r"(r[1]) : "r"(tensor_memory));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    out[threadIdx.x] = r[0] + r[1];
#endif
}
