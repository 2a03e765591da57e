/* Launches an elementwise sum on the driver API. Of each line of its input, "what count", it does so `count` times, and answers with a line:
   "launch", or "launch-wait" with a synchronising call behind each. Arguments: the PTX, elements. It ends with its input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int error;
typedef unsigned long long address;
typedef void *handle;
error cuInit(unsigned), cuDeviceGet(int *, int), cuCtxCreate_v2(handle *, unsigned, int), cuModuleLoad(handle *, const char *),
    cuModuleGetFunction(handle *, handle, const char *), cuMemAlloc_v2(address *, size_t), cuMemcpyHtoD_v2(address, const void *, size_t),
    cuMemcpyDtoH_v2(void *, address, size_t), cuCtxSynchronize(void),
    cuLaunchKernel(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);

static void must(error e, const char *what) {
    if (e) fprintf(stderr, "%s: error %d\n", what, e), exit(1);
}
#define MUST(call) must(call, #call)

int main(int count, char **given) {
    unsigned elements = atoi(given[2]), trips = 1;
    size_t bytes = elements * sizeof(float);
    float *host = malloc(bytes);
    int device, wrong = 0, times;
    handle context, module, kernel;
    address arrays[3];
    void *arguments[] = {arrays, arrays + 1, arrays + 2, &trips};
    char line[64], what[32];
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate_v2(&context, 0, device));
    MUST(cuModuleLoad(&module, given[1]));
    MUST(cuModuleGetFunction(&kernel, module, "add"));
    for (unsigned n = 0; n < elements; n++) host[n] = n % 1000;
    for (int n = 0; n < 3; n++) {
        MUST(cuMemAlloc_v2(arrays + n, bytes));
        MUST(cuMemcpyHtoD_v2(arrays[n], host, bytes));
    }
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%31s %d", what, &times) == 2) {
        while (times--) {
            MUST(cuLaunchKernel(kernel, elements / 256, 1, 1, 256, 1, 1, 0, 0, arguments, 0));
            if (!strcmp(what, "launch-wait")) MUST(cuCtxSynchronize());
        }
        puts("done");
        fflush(stdout);
    }
    MUST(cuMemcpyDtoH_v2(host, arrays[2], bytes));
    for (unsigned n = 0; n < elements; n++) wrong += host[n] != 2 * (n % 1000);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
