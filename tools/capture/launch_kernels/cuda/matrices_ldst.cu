// ldmatrix and stmatrix: one, two and four matrices, transposed or not, lanes' addresses with a swizzle; then all of shared memory.
#include "common.cuh"
KERNEL matrices_ldst(const u32 *in, u32 *out, u32 *image) {
    __shared__ __align__(1024) u32 smem[1024];
    int slot = 0, lane = threadIdx.x;
    u32 base = shared_address(smem), a, b, c, d;
    for (int i = lane; i < 512; i += 32) smem[i] = in[blockIdx.x * 512 + i];
    for (int i = lane; i < 512; i += 32) smem[512 + i] = 0;
    __syncwarp();
    u32 at = base + lane * 16, row = base + (lane % 8) * 128 + ((lane / 8) ^ (lane % 8)) * 16;
#define LD1(form, from) asm volatile("ldmatrix.sync.aligned.m8n8.x1" form ".shared.b16 {%0}, [%1];" : "=r"(a) : "r"(from) : "memory"); PUT(a);
#define LD2(form, from) asm volatile("ldmatrix.sync.aligned.m8n8.x2" form ".shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from) : "memory"); PUT(a); PUT(b);
#define LD4(form, from) asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared::cta.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory"); PUT(a); PUT(b); PUT(c); PUT(d);
    LD1("", at) LD1(".trans", at + 128) LD2("", at) LD2(".trans", row) LD4("", row) LD4(".trans", row)
    u32 to = base + 2048 + lane * 16;
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(to), "r"(a) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(to + 128), "r"(b) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to + 256), "r"(c), "r"(d) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to + 512), "r"(a), "r"(d) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + 768), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + 1280), "r"(d), "r"(c), "r"(b), "r"(a) : "memory");
    __syncwarp();
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(b) : "r"(a)); PUT(b);
    for (int i = lane; i < 1024; i += 32) image[blockIdx.x * 1024 + i] = smem[i];
}
