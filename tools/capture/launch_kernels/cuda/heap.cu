// The heap of kernels: how many allocations of each size it holds, and what malloc and free do at its edges.
#include <cstdint>
#include <cstdlib>

// sizes: bytes of an allocation; counts: how many there is room for. All of them are given back before the next size.
extern "C" __global__ void heap_sizes(const uint32_t *sizes, uint32_t *counts, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        char *last = nullptr;
        uint32_t count = 0;
        for (char *p; (p = (char *)malloc(sizes[k])); count++) *(char **)p = last, last = p;
        counts[k] = count;
        while (last) { char *next = *(char **)last; free(last); last = next; }
    }
}

extern "C" __global__ void heap_edges(const uint32_t *x, uint32_t *out) {
    char *p = (char *)malloc(64), *q = (char *)malloc(64), *none = (char *)malloc(0), *huge = (char *)malloc(1ull << 40), *wraps = (char *)malloc(~0ull);
    out[0] = (p != nullptr) | (q != nullptr) << 1 | (none != nullptr) << 2 | (huge != nullptr) << 3 | (wraps != nullptr) << 4;
    out[1] = ((uint64_t)p | (uint64_t)q | (uint64_t)none) & 15;
    for (int k = 0; k < 16; k++) ((uint32_t *)p)[k] = x[k];
    free(q), free(nullptr);
    for (int k = 0; k < 16; k++) out[2 + k] = ((uint32_t *)p)[k];
#if KIND == 1
    int own;
    free(&own);
#elif KIND == 2
    free(p), free(p);
#elif KIND == 3
    free((void *)16);
#endif
    out[18] = KIND + 100;
}
