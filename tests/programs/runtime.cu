// Programs on the runtime API, as nvcc builds them with -cudart shared: the first argument says which. Each prints what a card would let it print.
#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <sys/wait.h>
#include <atomic>
#include <thread>
#include <unistd.h>
#include <vector>

struct affine {
    float factor;
    short shift;
};
__device__ int launches;
__constant__ float weights[4];
__managed__ int managed_word;

__global__ void transform(float *to, const float *from, affine f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] * f.factor + f.shift + weights[i % 4];
    if (i == 0) atomicAdd(&launches, 1);
}
__global__ void numbers(int *to) { to[threadIdx.x] = threadIdx.x; }
__global__ void behind(int *to, int n) { to[n + threadIdx.x] = 1; }
__global__ void speak(int n) { printf("kernel %d.%d\n", n, threadIdx.x); }
__global__ void claim(const int *p) {
    if (threadIdx.y) assert(p[0] == 0);
}
__global__ void unordered(int *to) {
    __shared__ int word[64];
    word[threadIdx.x] = threadIdx.x;
    to[threadIdx.x] = word[63 - threadIdx.x];  // nothing orders the two warps
}
__global__ void next(cudaGraphConditionalHandle loop, int *p) { cudaGraphSetConditional(loop, ++p[0] < 5); }
__global__ void choose(cudaGraphConditionalHandle branch, int n) { cudaGraphSetConditional(branch, n); }
__global__ void put(int *p, int n) { *p = n; }
__global__ void busy(int *p) {
    int x = p[0];
    for (int i = 0; i < 100000000; i++) {
        x = x * 3 + i;
        if (x == 12345) p[1] = x;
    }
    p[0] = x;
}

#define SHOW(call) printf("%s: %s\n", #call, cudaGetErrorName(call))
#define IS(name) (!strcmp(what, name))

static cudaGraphNode_t added(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphNodeParams &made) {
    cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
    cudaError_t error = cudaGraphAddNode(&node, graph, &after, nullptr, after != nullptr, &made);
#else
    cudaError_t error = cudaGraphAddNode(&node, graph, &after, after != nullptr, &made);
#endif
    if (error) printf("cudaGraphAddNode: %s\n", cudaGetErrorName(error));
    return node;
}
static cudaGraphNode_t launched(cudaGraph_t graph, cudaGraphNode_t after, void *kernel, void **arguments) {
    cudaGraphNodeParams made = {cudaGraphNodeTypeKernel};
    made.kernel.func = kernel, made.kernel.gridDim = made.kernel.blockDim = dim3(1), made.kernel.kernelParams = arguments;
    return added(graph, after, made);
}
static void conditional(int *p) {  // a loop until p[0] is 5, then p[1] by what a kernel chooses
    cudaGraph_t graph;
    cudaGraphExec_t made;
    cudaGraphConditionalHandle loop, branch;
    cudaGraphCreate(&graph, 0), cudaMemset(p, 0, 8);
    cudaGraphConditionalHandleCreate(&loop, graph, 1, cudaGraphCondAssignDefault), cudaGraphConditionalHandleCreate(&branch, graph);
    cudaGraphNodeParams repeat = {cudaGraphNodeTypeConditional}, either = {cudaGraphNodeTypeConditional};
    repeat.conditional.handle = loop, repeat.conditional.type = cudaGraphCondTypeWhile, repeat.conditional.size = 1;
    either.conditional.handle = branch, either.conditional.type = cudaGraphCondTypeSwitch, either.conditional.size = 3;
    int chosen = 2, *to = p + 1;
    void *in_loop[] = {&loop, &p}, *in_front[] = {&branch, &chosen};
    cudaGraphNode_t node = added(graph, nullptr, repeat);
    launched(repeat.conditional.phGraph_out[0], nullptr, (void *)next, in_loop);
    node = launched(graph, node, (void *)choose, in_front);
    node = added(graph, node, either);
    for (int n = 0; n < 3; n++) {
        int value = 10 + n;
        void *inside[] = {&to, &value};
        launched(either.conditional.phGraph_out[n], nullptr, (void *)put, inside);
    }
    SHOW(cudaGraphInstantiate(&made, graph));
    SHOW(cudaGraphLaunch(made, 0));
    int got[2];
    cudaMemcpy(got, p, 8, cudaMemcpyDeviceToHost);
    printf("%d %d\n", got[0], got[1]);
}

static void compute() {
    const int n = 1000;
    float *a, *b, h[n], w[4] = {1, 2, 3, 4};
    int count = -1;
    cudaMalloc(&a, n * 4), cudaMalloc(&b, n * 4);
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMemcpy(b, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(weights, w, sizeof w);
    transform<<<4, 256>>>(a, b, affine{2, -1}, n);
    SHOW(cudaDeviceSynchronize());
    cudaMemcpy(h, a, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&count, launches, 4);
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += h[i] != 2 * i - 1 + w[i % 4];
    printf("%d wrong, %d launch\n", wrong, count), count = -1;
    managed_word = 5;
    numbers<<<1, 1>>>(&managed_word);
    cudaDeviceSynchronize();
    printf("managed %d\n", managed_word);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cudaLaunchConfig_t config = {};
    config.gridDim = 8, config.blockDim = 1024, config.attrs = &cluster;
    for (unsigned x : {0, 1, 4, 16}) {  // a dimension of 0, clusters that fit, one that is too large
        cluster.val.clusterDim.x = x, cluster.val.clusterDim.y = x ? 1 : 2, cluster.val.clusterDim.z = 1, config.numAttrs = 1;
        printf("%d ", cudaOccupancyMaxActiveClusters(&count, numbers, &config)), printf("%d, ", count), count = -1;
    }
    config.numAttrs = 0;
    cudaGetLastError(), printf("%d ", cudaOccupancyMaxActiveClusters(&count, numbers, &config)), printf("%d\n", count);
}
static void errors(int *p) {
    numbers<<<1, 2048>>>(p);
    SHOW(cudaGetLastError());
    SHOW(cudaGetLastError());
    numbers<<<1, 32, 60000>>>(p);
    SHOW(cudaGetLastError());
    SHOW(cudaFuncSetAttribute(numbers, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    numbers<<<1, 32, 60000>>>(p);
    SHOW(cudaGetLastError());
    SHOW(cudaMemset(p, 0, 5000));
    SHOW(cudaFree(p + 1));
    SHOW(cudaMalloc((void **)&p, (size_t)1 << 60));
    cudaGetLastError(), cudaMalloc(&p, 1000);
    behind<<<1, 32>>>(p, 250);
    SHOW(cudaPeekAtLastError());
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaGetLastError());
    SHOW(cudaGetLastError());
    SHOW(cudaFree(p));
}
static void memory(int *p) {
    int *m, *h, *r = (int *)malloc(4096), row[4][8];
    cudaPointerAttributes about;
    cudaMallocManaged(&m, 128), cudaMallocHost(&h, 128), cudaHostRegister(r, 4096, 0);
    numbers<<<1, 32>>>(m), numbers<<<1, 32>>>(h), numbers<<<1, 32>>>(r + 3);
    cudaDeviceSynchronize();
    printf("%d %d %d\n", m[31], h[31], r[34]);
    for (void *at : {(void *)m, (void *)h, (void *)r, (void *)p, (void *)&row}) cudaPointerGetAttributes(&about, at), printf("%d ", about.type);
    numbers<<<1, 32>>>(p);
    cudaMemcpy2D(row, sizeof row[0], p, 16, 16, 2, cudaMemcpyDeviceToHost);
    printf("| %d %d | ", row[0][3], row[1][3]);
    cudaHostUnregister(r);
    size_t available, total;
    cudaMemGetInfo(&available, &total);
    printf("%d\n", available < total);
}
static void graph(int *p) {
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t e;
    int h[32] = {0};
    cudaStreamCreate(&s);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    numbers<<<1, 32, 0, s>>>(p);
    cudaMemcpyAsync(h, p, 128, cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(s, [](void *x) { printf("host function sees %d\n", ((int *)x)[31]); }, h);
    cudaStreamEndCapture(s, &g);
    printf("captured %d\n", h[31]);
    cudaGraphInstantiate(&e, g, 0);
    cudaGraphLaunch(e, s);
    SHOW(cudaStreamSynchronize(s));
    printf("launched %d\n", h[31]);
}
template <typename T> static T driver(const char *name) {
    T found = 0;
    cudaDriverEntryPointQueryResult how;
    cudaGetDriverEntryPointByVersion(name, (void **)&found, 12000, cudaEnableDefault, &how);
    return found;
}
#define DRIVER(name) auto name = driver<decltype(&::name)>(#name)
static void mapped(int *p) {
    DRIVER(cuMemGetAllocationGranularity);
    DRIVER(cuMemCreate);
    DRIVER(cuMemAddressReserve);
    DRIVER(cuMemMap);
    DRIVER(cuMemSetAccess);
    DRIVER(cuMemUnmap);
    DRIVER(cuMemRelease);
    DRIVER(cuMemAddressFree);
    DRIVER(cuMemRetainAllocationHandle);
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED, prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle a, b, again;
    CUdeviceptr at;
    size_t unit, before, after, total;
    cudaMemGetInfo(&before, &total);
    for (int error : {cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM), cuMemCreate(&a, unit + 1, &prop, 0), cuMemCreate(&a, unit, &prop, 0), cuMemCreate(&b, unit, &prop, 0)}) printf("%d ", error);
    for (int error : {cuMemAddressReserve(&at, 3 * unit, 0, 0, 0), cuMemMap(at, unit, 0, a, 0), cuMemMap(at + unit, unit, 0, b, 0), cuMemSetAccess(at, 2 * unit, &access, 1)}) printf("%d ", error);
    int *middle = (int *)(at + unit) - 16, h[32] = {};
    numbers<<<1, 32>>>(middle);  // half in the one, half in the other
    cudaMemcpy(h, middle, 128, cudaMemcpyDeviceToHost);
    printf("%zu %d %d\n", unit, h[0], h[31]);
    for (int error : {cuMemUnmap(at + unit, unit), cuMemMap(at + 2 * unit, unit, 0, b, 0), cuMemSetAccess(at + 2 * unit, unit, &access, 1)}) printf("%d ", error);
    cudaMemcpy(h, (void *)(at + 2 * unit), 64, cudaMemcpyDeviceToHost);
    cudaMemGetInfo(&after, &total);
    printf("%d %d %zu\n", h[0], h[15], (before - after) / unit);  // b's bytes came along
    for (int error : {cuMemRetainAllocationHandle(&again, (void *)at), cuMemAddressFree(at, 3 * unit), cuMemRelease(again), cuMemRelease(a), cuMemRelease(b), cuMemUnmap(at, unit), cuMemUnmap(at + 2 * unit, unit)}) printf("%d ", error);
    cudaMemGetInfo(&after, &total);
    printf("%zu\n", before - after);
    numbers<<<1, 32>>>((int *)at);
    SHOW(cudaDeviceSynchronize());
}
static void nodes(int *p) {
    cudaGraph_t g, other;
    cudaGraphExec_t e;
    cudaGraphNode_t fill, kernel, copy, tail, roots[2], from[4], to[4];
    cudaEvent_t event;
    int h[32] = {}, *q = p + 64, is_enabled = -1;
    void *one[] = {&p}, *two[] = {&q};
    size_t count = 2, edges = 4, before = 0;
    cudaMemsetParams zeros = {p, 0, 9, 4, 32, 1};
    cudaKernelNodeParams k = {(void *)numbers, 1, 16, 0, one, 0}, read;
    cudaEventCreate(&event);
    SHOW(cudaGraphCreate(&g, 0));
    SHOW(cudaGraphAddMemsetNode(&fill, g, 0, 0, &zeros));
    SHOW(cudaGraphAddKernelNode(&kernel, g, &fill, 1, &k));
    SHOW(cudaGraphAddMemcpyNode1D(&copy, g, &kernel, 1, h, p, 128, cudaMemcpyDeviceToHost));
    SHOW(cudaGraphAddEventRecordNode(&tail, g, &copy, 1, event));
    cudaGraphGetRootNodes(g, roots, &count);
    cudaGraphGetEdges(g, from, to, 0, &edges);
    cudaGraphNodeGetDependentNodes(kernel, 0, 0, &before);
    printf("%zu %d %zu %d %zu\n", count, roots[0] == fill, edges, from[1] == kernel && to[1] == copy, before);
    cudaGraphInstantiate(&e, g, 0), cudaGraphLaunch(e, 0);
    printf("%d %d %d\n", h[0], h[15], h[16]);
    cudaGraphKernelNodeGetParams(kernel, &read);
    printf("%d %d\n", read.blockDim.x, *(int **)read.kernelParams[0] == p);
    k.blockDim = 32, SHOW(cudaGraphExecKernelNodeSetParams(e, kernel, &k)), cudaGraphLaunch(e, 0);
    printf("%d %d\n", h[16], h[31]);
    SHOW(cudaGraphNodeSetEnabled(e, kernel, 0)), cudaGraphLaunch(e, 0);
    cudaGraphNodeGetEnabled(e, kernel, (unsigned *)&is_enabled);
    printf("%d %d\n", h[31], is_enabled);
    k.kernelParams = two, cudaGraphClone(&other, g);
    SHOW(cudaGraphKernelNodeSetParams(kernel, &k)), SHOW(cudaGraphDestroyNode(tail));
    cudaGraphExec_t changed, cloned;
    cudaGraphInstantiate(&changed, g, 0), cudaGraphLaunch(changed, 0);
    printf("%d\n", h[31]);  // the kernel writes elsewhere
    cudaGraphInstantiate(&cloned, other, 0), cudaGraphLaunch(cloned, 0);
    printf("%d\n", h[15]);
    cudaGraphExecUpdateResultInfo how;
    SHOW(cudaGraphExecUpdate(changed, other, &how));
    printf("%d\n", how.result != cudaGraphExecUpdateSuccess);
    cudaGraphAddDependencies(g, &copy, &fill, 0, 1);
    SHOW(cudaGraphInstantiate(&e, g, 0));
    SHOW(cudaDeviceSynchronize());
}
static void threads() {
    static int sums[4], calls[4];
    std::vector<std::thread> all;
    for (int n = 0; n < 4; n++)
        all.emplace_back([n] {
            cudaStream_t s;
            cudaEvent_t done;
            int *q, h[32];
            cudaStreamCreate(&s), cudaEventCreate(&done), cudaMallocAsync(&q, 128, s);
            for (int i = 0; i < 3; i++) {
                numbers<<<1, 32, 0, s>>>(q);
                cudaLaunchHostFunc(s, [](void *x) { ++*(int *)x; }, &calls[n]);
                cudaMemcpyAsync(h, q, 128, cudaMemcpyDeviceToHost, s);
                cudaEventRecord(done, s);
                if (cudaEventSynchronize(done)) return;
                for (int x : h) sums[n] += x;
            }
            numbers<<<1, 2000, 0, s>>>(q);  // an error of this thread alone
            if (cudaGetLastError() == cudaErrorInvalidValue) sums[n]++;
            cudaFreeAsync(q, s), cudaStreamDestroy(s);
        });
    for (std::thread &one : all) one.join();
    for (int n = 0; n < 4; n++) printf("%d %d ", sums[n], calls[n]);
    static std::atomic<int> is_allocated;  // a function of the host may wait for a thread that calls CUDA
    std::thread other([] { int *q; is_allocated = 1 + (cudaMalloc(&q, 128) != cudaSuccess); });
    cudaLaunchHostFunc(0, [](void *) { while (!is_allocated) std::this_thread::yield(); }, nullptr);
    other.join();
    printf("%d %s\n", (int)is_allocated, cudaGetErrorName(cudaGetLastError()));
}
static __device__ int kept = 3;
static __managed__ int shown = 4;
static void resets(int *p) {  // as an H200 answered, driver 580.159.04
    int *pinned, h[32], one = 9;
    cudaEvent_t e;
    cudaMallocHost(&pinned, 64), cudaEventCreate(&e), shown = 8;
    cudaMemcpyToSymbol(kept, &one, 4);
    SHOW(cudaDeviceReset());
    SHOW(cudaMemcpy(h, p, 128, cudaMemcpyDeviceToHost)), SHOW(cudaFreeHost(pinned)), SHOW(cudaEventSynchronize(e));
    cudaMalloc(&p, 128), numbers<<<1, 32>>>(p);
    SHOW(cudaMemcpy(h, p, 128, cudaMemcpyDeviceToHost)), cudaMemcpyFromSymbol(&one, kept, 4);
    printf("%d %d %d\n", h[31], one, shown);
    numbers<<<1, 32>>>((int *)64);
    SHOW(cudaDeviceSynchronize()), SHOW(cudaDeviceReset()), SHOW(cudaMalloc(&p, 64));
}
static void forks(int *p) {
    numbers<<<1, 32>>>(p);
    if (pid_t child = fork()) {
        int status, h[32];
        waitpid(child, &status, 0);
        SHOW(cudaMemcpy(h, p, 128, cudaMemcpyDeviceToHost));
        printf("%d\n", h[31]);
    } else {
        void *q;
        SHOW(cudaMalloc(&q, 4));
        fflush(stdout);
        _exit(0);
    }
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "compute";
    if (IS("beforehand")) {  // a fork before the first call: two programs
        int *q, h[32], status;
        pid_t child = fork();
        cudaMalloc(&q, 128);
        numbers<<<1, 32>>>(q);
        cudaMemcpy(h, q, 128, cudaMemcpyDeviceToHost);
        printf("%d\n", h[31]);
        fflush(stdout);
        if (child) waitpid(child, &status, 0);
        return 0;
    }
    int *p;
    if (cudaMalloc(&p, 4096)) return puts("no device"), 9;
    if (IS("compute")) compute();
    if (IS("errors")) errors(p);
    if (IS("memory")) memory(p);
    if (IS("graph")) graph(p);
    if (IS("conditional")) conditional(p);
    if (IS("mapped")) mapped(p);
    if (IS("nodes")) nodes(p);
    if (IS("threads")) threads();
    if (IS("resets")) resets(p);
    if (IS("abort")) numbers<<<1, 32>>>(p), abort();
    if (IS("fork")) forks(p);
    if (IS("printf")) puts("before"), speak<<<1, 2>>>(7), cudaDeviceSynchronize(), puts("after");
    if (IS("assert")) cudaMemset(p, 1, 4), claim<<<2, dim3(2, 2)>>>(p), SHOW(cudaGetLastError()), SHOW(cudaDeviceSynchronize());
    if (IS("race")) unordered<<<1, 64>>>(p), SHOW(cudaDeviceSynchronize());
    if (IS("touch")) p[0] = 1;
    if (IS("busy")) puts("started"), fflush(stdout), busy<<<1, 1>>>(p), SHOW(cudaDeviceSynchronize());
    return 0;
}
