// The heap of kernels, and shared memory below the first byte that a kernel is given: one question for each process, since some of them trap.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

constexpr long long PATIENCE = 1500000000; // cycles: a full heap is slow

// All threads allocate until there is no more; the first one's addresses.
__global__ void fill(size_t bytes, int most, unsigned long long *out) {
    long long begin = clock64();
    int n = 0;
    for (; n < most && clock64() - begin < PATIENCE; n++) {
        char *p = (char *)malloc(bytes);
        if (!p) { atomicAdd(out + 1, 1); break; }
        if (n < 12 && blockIdx.x + threadIdx.x == 0) out[3 + n] = (uint64_t)p;
        atomicMin(out + 15, (uint64_t)p), atomicMax(out + 16, (uint64_t)p);
    }
    atomicAdd(out, n);
    if (clock64() - begin >= PATIENCE) atomicAdd(out + 2, 1);
}
// Everything freed: does it all come back?
__global__ void again(size_t bytes, int rounds, uint64_t *out) {
    long long begin = clock64();
    for (int r = 0; r < rounds; r++) {
        char *last = nullptr;
        int n = 0;
        for (; n < 1 << 20 && clock64() - begin < PATIENCE; n++) {
            char *p = (char *)malloc(bytes);
            if (!p) break;
            *(char **)p = last, last = p;
        }
        out[r] = n;
        while (last) { char *next = *(char **)last; free(last); last = next; }
    }
    out[rounds] = clock64() - begin >= PATIENCE;
}
__global__ void each(size_t bytes, uint64_t *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = (uint64_t)malloc(bytes); }
__global__ void give_back(uint64_t *p) { free((void *)p[blockIdx.x * blockDim.x + threadIdx.x]); }
__global__ void words(const uint32_t *p, int n, uint32_t *out) { for (int k = 0; k < n; k++) out[k] = p[k]; }
__global__ void twice(uint64_t *out, int how) {
    char *p = (char *)malloc(64), *q = (char *)malloc(64);
    out[0] = (uint64_t)p, out[1] = (uint64_t)q;
    if (how == 0) { free(p); free(p); }
    if (how == 1) free(p + 4);
    if (how == 2) free(p + 16);
    if (how == 3) free(out);
    if (how == 4) { int own; free(&own); }
    if (how == 5) free((void *)16);
    if (how == 6) { free(p); *(volatile int *)p = 7; }
    if (how == 7) *(volatile int *)(p + 80) = 7;
    if (how == 8) free(nullptr);
    if (how == 9) p[-8] = 1, free(p);
    out[2] = (uint64_t)malloc(64), out[3] = (uint64_t)malloc(64), out[4] = (uint64_t)malloc(0), out[5] = (uint64_t)malloc(1), out[6] = (uint64_t)malloc(~0ull), out[7] = (uint64_t)malloc(1ull << 40);
}
__global__ void low(uint32_t *out, unsigned begin, int count, int how) {
    extern __shared__ uint32_t own[];
    uint32_t *to = out + blockIdx.x * 4 * count;
    if (how & 8) own[threadIdx.x] = 5;
    for (unsigned k = threadIdx.x; k < (unsigned)count; k += blockDim.x) {
        uint32_t v = 0, a = begin + 4 * k;
        if (how & 1) { asm volatile("ld.shared.u32 %0,[%1];" : "=r"(v) : "r"(a) : "memory"); to[k] = v; }
        if (how & 2) asm volatile("st.shared.u32 [%0],%1;" ::"r"(a), "r"(0x5eed0000u + k) : "memory");
        if (how & 2) { asm volatile("ld.shared.u32 %0,[%1];" : "=r"(v) : "r"(a) : "memory"); to[count + k] = v; }
        if (how & 4) asm volatile("red.shared.add.u32 [%0],%1;" ::"r"(a), "r"(1u) : "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        uint64_t g;
        asm volatile("{ .reg .b64 %x; mov.u64 %x, 0; cvta.shared.u64 %0, %x; }" : "=l"(g));
        to[2 * count] = (uint32_t)g, to[2 * count + 1] = (uint32_t)(g >> 32), to[2 * count + 2] = (uint32_t)(size_t)__cvta_generic_to_shared(own);
    }
}
static uint64_t held[1 << 16];
static uint64_t *room() { uint64_t *p; cudaMalloc(&p, sizeof held); cudaMemset(p, 0, sizeof held); return p; }
static int got(uint64_t *p) { int e = cudaDeviceSynchronize(); if (!e) e = cudaMemcpy(held, p, sizeof held, cudaMemcpyDefault); return e; }

int main(int count, char **names) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    const char *what = names[1];
    long a = count > 2 ? strtol(names[2], 0, 0) : 0, b = count > 3 ? strtol(names[3], 0, 0) : 0, c = count > 4 ? strtol(names[4], 0, 0) : 0, d = count > 5 ? strtol(names[5], 0, 0) : 0;
    printf("## ");
    for (int n = 1; n < count; n++) printf("%s ", names[n]);
    printf("\n");
    size_t limit = 0;
    if (!strcmp(what, "fill")) { // bytes, heap
        if (b) printf("set %d ", cudaDeviceSetLimit(cudaLimitMallocHeapSize, b));
        cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
        uint64_t *p = room();
        uint64_t none = ~0ull;
        cudaMemcpy(p + 15, &none, 8, cudaMemcpyDefault);
        if (c) fill<<<1, 1>>>(a, c, (unsigned long long *)p);
        else fill<<<32, 32>>>(a, 1 << 20, (unsigned long long *)p);
        int launched = cudaGetLastError(), e = got(p);
        printf("limit %zu launch %d error %d count %lu total %lu full %lu late %lu range %lx %lx first", limit, launched, e, held[0], held[0] * a, held[1], held[2], held[15], held[16]);
        for (int n = 3; n < 15; n++) printf(" %lx", held[n]);
        printf("\n");
    } else if (!strcmp(what, "again")) {
        uint64_t *p = room();
        again<<<1, 1>>>(a, 4, p);
        int e = got(p);
        printf("error %d counts %lu %lu %lu %lu late %lu\n", e, held[0], held[1], held[2], held[3], held[4]);
    } else if (!strcmp(what, "each")) { // bytes, blocks, threads
        uint64_t *p = room();
        each<<<b, c>>>(a, p);
        int e = got(p), zero = 0;
        for (int n = 0; n < b * c; n++) zero += !held[n];
        printf("error %d null %d first", e, zero);
        for (int n = 0; n < 70; n++) printf(" %lx", held[n]);
        uint32_t *w = (uint32_t *)room();
        words<<<1, 1>>>((uint32_t *)held[0], 16, w);
        uint64_t first = held[0];
        e = got((uint64_t *)w);
        printf("\nfresh %d:", e);
        for (int n = 0; n < 16; n++) printf(" %x", ((uint32_t *)held)[n]);
        cudaPointerAttributes about = {};
        int e1 = cudaPointerGetAttributes(&about, (void *)first);
        int e2 = cudaMemcpy(held, (void *)first, 16, cudaMemcpyDeviceToHost);
        cudaGetLastError();
        int e3 = cudaMemset((void *)first, 0, 16);
        cudaGetLastError();
        int e4 = cudaFree((void *)first);
        cudaGetLastError();
        int e5 = cudaMemcpy(held, (void *)first, 16, cudaMemcpyDefault);
        printf("\nattributes %d type %d; memcpy %d memset %d free %d default %d\n", e1, about.type, e2, e3, e4, e5);
        give_back<<<b, c>>>(p);
        printf("given back: %d\n", cudaDeviceSynchronize());
        each<<<b, c>>>(a, p);
        e = got(p);
        zero = 0;
        for (int n = 0; n < b * c; n++) zero += !held[n];
        printf("again: error %d null %d first %lx %lx %lx\n", e, zero, held[0], held[1], held[2]);
    } else if (!strcmp(what, "twice")) {
        uint64_t *p = room();
        twice<<<1, 1>>>(p, a);
        int e = got(p);
        printf("error %d:", e);
        for (int n = 0; n < 8; n++) printf(" %lx", held[n]);
        printf("\n");
    } else if (!strcmp(what, "limits")) {
        for (long v : {0L, 1000L, 4096L, 1L << 20, 9L << 20, 33L << 20, 1L << 36, 1L << 40}) {
            int e = cudaDeviceSetLimit(cudaLimitMallocHeapSize, v);
            int e2 = cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
            printf("set %ld: %d get %d %zu\n", v, e, e2, limit);
        }
        cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20);
        uint64_t *p = room();
        each<<<1, 1>>>(64, p);
        printf("launched %d\n", got(p));
        int e = cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20);
        cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
        printf("set after a launch: %d, now %zu\n", e, limit);
        e = cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20);
        printf("set the same: %d\n", e);
    } else if (!strcmp(what, "low")) { // begin, words, how, bytes
        uint64_t *p = room();
        cudaFuncSetAttribute(low, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
        low<<<3, 32, d>>>((uint32_t *)p, a, b, c);
        int e = got(p);
        printf("error %d", e);
        uint32_t *w = (uint32_t *)held;
        if (!e) {
            printf(" window %08x%08x own %x", w[2 * b + 1], w[2 * b], w[2 * b + 2]);
            for (int block = 0; block < 3; block++)
                for (int part = 0; part < ((c & 2) ? 2 : 1); part++) {
                    printf("\n block %d %s:", block, part ? "written" : "read");
                    for (int k = 0; k < b; k++) if (part ? w[(block * 4 + part) * b + k] != 0x5eed0000u + k : w[(block * 4 + part) * b + k] != 0) printf(" [%lx]=%x", a + 4 * k, w[(block * 4 + part) * b + k]);
                }
        }
        printf("\n");
    }
    return 0;
}
