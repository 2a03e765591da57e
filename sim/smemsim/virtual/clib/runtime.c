/* libcudart.so.12 and .13: the runtime API, as programs that nvcc builds with -cudart shared use it. MAJOR is 12 or 13. */
#define _GNU_SOURCE
#include "door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned x, y, z; } dim3;
#define CALL(...) told(bound() ? why : smemsim_call(__VA_ARGS__))
#define SYNCHRONIZE(stream) told(bound() ? why : smemsim_synchronize(stream))
#define WANT(pointer) if (!(pointer)) return told(INVALID_VALUE)
#define CALLER __builtin_return_address(0)

/* Errors: what a thread's last call that failed said */

static __thread R last, why;
static R told(R error) {
    if (error == NOT_FOUND) error = 98; /* the runtime has names of kernels alone: invalid device function */
    if (error == 209 || error == 218) return last = error;
    if (error) last = error;
    return error;
}
static R bound(void) {
    why = smemsim_start();
    if (!why) smemsim_make_current();
    return why;
}
R smemsim_missing(const char *name) { return told(smemsim_unknown(name)); } /* of generated entry points */
API R cudaGetLastError(void) { R found = last; last = 0; return found; }
API R cudaPeekAtLastError(void) { return last; }
API const char *cudaGetErrorString(R error) {
    const smemsim_error *found = smemsim_error_of(error);
    return found ? found->text : "unrecognized error code";
}
API const char *cudaGetErrorName(R error) {
    const smemsim_error *found = smemsim_error_of(error);
    return found && found->runtime ? found->runtime : "unrecognized error code";
}

/* What nvcc's code registers before main begins: fat binaries, kernels and variables. They are loaded when first used. */

typedef struct { const void *wrapper; U module; int is_loaded; R error; char *managed; } binary;
typedef struct entry { const void *host; binary *of; char *name; U function, address, bytes; int is_managed; void **pointer; struct entry *next; } entry;
#define SLOTS 4096
static entry *kernels[SLOTS], *variables[SLOTS];
static binary *binaries[4096];
static unsigned binary_count;

static entry **slot_of(entry **table, const void *host) { return &table[((uintptr_t)host >> 3) % SLOTS]; }
static entry *find(entry **table, const void *host) {
    entry *found = *slot_of(table, host);
    while (found && found->host != host) found = found->next;
    return found;
}
static entry *add(entry **table, const void *host, binary *of, const char *name) {
    entry *made = calloc(1, sizeof *made), **slot = slot_of(table, host);
    *made = (entry){.host = host, .of = of, .name = strdup(name), .next = *slot};
    return *slot = made;
}
API void **__cudaRegisterFatBinary(void *wrapper) {
    binary *made = calloc(1, sizeof *made);
    made->wrapper = wrapper, made->managed = strdup("");
    if (binary_count < 4096) binaries[binary_count++] = made;
    return (void **)made;
}
API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *t, void *b, void *bd, void *gd, int *w) {
    (void)device, (void)limit, (void)t, (void)b, (void)bd, (void)gd, (void)w;
    add(kernels, host, (binary *)handle, name);
}
API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant, int global) {
    (void)device, (void)ext, (void)size, (void)constant, (void)global;
    add(variables, host, (binary *)handle, name);
}
API void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext, size_t size, int constant, int global) {
    (void)device, (void)ext, (void)size, (void)constant, (void)global;
    binary *of = (binary *)handle;
    entry *made = add(variables, host, of, name);
    made->is_managed = 1, made->pointer = host;
    of->managed = realloc(of->managed, strlen(of->managed) + strlen(name) + 2);
    strcat(strcat(of->managed, name), " ");
}
R smemsim_load(const void *code, const char *managed, U *module);
/* Managed variables: the host reads their addresses without a call. */
static void tell_host(binary *of) {
    for (unsigned n = 0; n < SLOTS && *of->managed; n++)
        for (entry *e = variables[n]; e; e = e->next)
            if (e->of == of && e->is_managed) {
                U address = 0;
                if (!smemsim_call("variable", "is|II", of->module, e->name, &address, (U *)0)) *e->pointer = (void *)address;
            }
}
static R load(binary *of) {
    int entered = smemsim_enter();
    if (!of->is_loaded) {
        of->is_loaded = 1, of->error = smemsim_load(of->wrapper, of->managed, &of->module);
        if (!of->error) tell_host(of);
    }
    smemsim_leave(entered);
    return of->error;
}
/* Behind a reset all code is loaded anew when it is used. */
static void forget(void) {
    static unsigned seen;
    if (smemsim_resets() == seen) return;
    int entered = smemsim_enter();
    for (unsigned n = 0; n < binary_count; n++) binaries[n]->is_loaded = 0;
    for (unsigned n = 0; n < SLOTS; n++) {
        for (entry *e = kernels[n]; e; e = e->next) e->function = 0;
        for (entry *e = variables[n]; e; e = e->next) e->address = 0;
    }
    seen = smemsim_resets();
    smemsim_leave(entered);
}
API char __cudaInitModule(void **handle) {
    binary *of = (binary *)handle;
    if (*of->managed && !bound()) load(of);
    return 1;
}
static R function_of(const void *host, U *function) {
    if (bound()) return why;
    forget();
    entry *found = find(kernels, host);
    if (!found) { *function = (U)host; return (U)host & 0xF || !host ? 98 : 0; } /* a cudaKernel_t of a library, or a cudaFunction_t */
    if (!found->function) {
        R error = load(found->of);
        if (!error) error = smemsim_call("function", "is|I", found->of->module, found->name, &found->function);
        if (error) return error;
    }
    *function = found->function;
    return 0;
}
static R variable_of(const void *host, U *address, U *bytes) {
    if (bound()) return why;
    forget();
    entry *found = find(variables, host);
    if (!found) return 13;
    if (!found->address) {
        R error = load(found->of);
        if (!error) error = smemsim_call("variable", "is|II", found->of->module, found->name, &found->address, &found->bytes);
        if (error) return error == NOT_FOUND ? 13 : error;
    }
    *address = found->address;
    if (bytes) *bytes = found->bytes;
    return 0;
}

/* Launches */

static __thread struct { dim3 grid, block; size_t shared; U stream; } calls[32];
static __thread int depth;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, U stream) {
    if (depth == 32) return 1;
    calls[depth].grid = grid, calls[depth].block = block, calls[depth].shared = shared, calls[depth++].stream = stream;
    return 0;
}
API R __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, U *stream) {
    if (!depth) return told(52);
    *grid = calls[--depth].grid, *block = calls[depth].block, *shared = calls[depth].shared, *stream = calls[depth].stream;
    return 0;
}
static R launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, U stream, const void *attributes, unsigned count) {
    U function;
    R error = function_of(host, &function);
    unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
    return told(error ? error : smemsim_launch(function, g, b, (unsigned)shared, stream, arguments, 0, attributes, count));
}
API R __cudaGetKernel(U *kernel, const void *host) { *kernel = (U)host; return 0; } /* the launch that follows finds it */
API R cudaGetKernel(U *kernel, const void *host) { WANT(kernel); *kernel = (U)host; return 0; }
API R cudaGetFuncBySymbol(U *function, const void *host) { WANT(function); return told(function_of(host, function)); }
API R __cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared, U stream) { return launch(f, grid, block, arguments, shared, stream, 0, 0); }
API R cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared, U stream) { return launch(f, grid, block, arguments, shared, stream, 0, 0); }
API R cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared, U stream) {
    uint32_t attribute[18] = {2, 0, 1};
    return launch(f, grid, block, arguments, shared, stream, attribute, 1);
}
typedef struct { dim3 grid, block; size_t shared; U stream; void *attributes; unsigned count; } config;
API R cudaLaunchKernelExC(const config *c, const void *f, void **arguments) { WANT(c); return launch(f, c->grid, c->block, arguments, c->shared, c->stream, c->attributes, c->count); }
API R cudaLaunchHostFunc(U stream, void *function, void *data) { WANT(function); return CALL("call_host", "iii", stream, function, data); }
API R cudaStreamAddCallback(U stream, void *function, void *data, unsigned flags) { (void)flags; WANT(function); return CALL("call_back", "iii", stream, function, data); }

API R cudaFuncGetName(const char **name, const void *f) {
    WANT(name);
    U function;
    char text[8192] = "";
    R error = function_of(f, &function);
    if (!error) error = smemsim_call("function_name", "i|B", function, text, sizeof text - 1);
    if (!error) *name = strdup(text);
    return told(error);
}
API R cudaFuncGetParamInfo(const void *f, size_t index, size_t *offset, size_t *size) {
    U function;
    smemsim_layout layout;
    R error = function_of(f, &function);
    if (!error) error = smemsim_layout_of(function, &layout);
    if (!error && index >= layout.count) error = INVALID_VALUE;
    if (error) return told(error);
    if (offset) *offset = layout.places[2 * index];
    if (size) *size = layout.places[2 * index + 1];
    return 0;
}
typedef struct {
    size_t shared, constant, local;
    int threads, registers, ptx, binary, cache, dynamic, carveout, must_cluster, width, height, depth, policy, nonportable, reserved[16];
} attributes;
API R cudaFuncGetAttributes(attributes *a, const void *f) {
    WANT(a);
    U function, v[16] = {0};
    R error = function_of(f, &function);
    for (int n = 0; !error && n < 16; n++) error = smemsim_call("function_attribute", "ii|I", function, (U)n, &v[n]);
    if (error) return told(error);
    memset(a, 0, 144);
    a->threads = v[0], a->shared = v[1], a->constant = v[2], a->local = v[3], a->registers = v[4], a->ptx = v[5], a->binary = v[6], a->cache = v[7], a->dynamic = v[8], a->carveout = v[9];
    a->must_cluster = v[10], a->width = v[11], a->height = v[12], a->depth = v[13], a->nonportable = (int)v[14], a->policy = v[15];
    return 0;
}
API R cudaFuncSetAttribute(const void *f, int attribute, int value) {
    U function;
    R error = function_of(f, &function);
    return told(error ? error : smemsim_call("set_function_attribute", "iii", function, (U)attribute, (U)(int64_t)value));
}
API R cudaFuncSetCacheConfig(const void *f, int c) { (void)f, (void)c; return 0; }
API R cudaFuncSetSharedMemConfig(const void *f, int c) { (void)f, (void)c; return 0; }
API R cudaKernelSetAttributeForDevice(U kernel, int attribute, int value, int device) { (void)device; return cudaFuncSetAttribute((void *)kernel, attribute, value); }
API R cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *f, int threads, size_t shared, unsigned flags) {
    WANT(count);
    (void)flags;
    U function, found = 0;
    R error = function_of(f, &function);
    if (!error) error = smemsim_call("occupancy", "iii|I", function, (U)threads, (U)shared, &found);
    if (!error) *count = (int)found;
    return told(error);
}
API R cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *f, int threads, size_t shared) { return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, f, threads, shared, 0); }
API R cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *f, int blocks, int threads) {
    U function;
    R error = function_of(f, &function);
    return told(error ? error : smemsim_call("available_shared", "iii|I", function, (U)blocks, (U)threads, bytes));
}
API R cudaOccupancyMaxActiveClusters(int *count, const void *f, const config *c) {
    WANT(count && c);
    U function, found = 0;
    static const uint32_t none[5];
    const uint32_t *cluster = none, *given = c->attributes;
    for (unsigned n = 0; n < c->count; n++, given += 18)
        if (given[0] == 4) cluster = given;
    R error = function_of(f, &function);
    if (!error) error = smemsim_call("clusters", "iiiiii|I", function, (U)c->block.x * c->block.y * c->block.z, (U)c->shared, (U)cluster[2], (U)cluster[3], (U)cluster[4], &found);
    if (!error) *count = (int)found;
    return told(error);
}
API R cudaOccupancyMaxPotentialClusterSize(int *size, const void *f, const config *c) {
    WANT(size && c);
    U function, found = 0;
    R error = function_of(f, &function);
    if (!error) error = smemsim_call("cluster_size", "iii|I", function, (U)c->block.x * c->block.y * c->block.z, (U)c->shared, &found);
    if (!error) *size = (int)found;
    return told(error);
}

/* Devices */

API R cudaGetDeviceCount(int *count) { WANT(count); R error = smemsim_start(); *count = !error; return told(error); }
API R cudaGetDevice(int *device) { WANT(device); *device = 0; return told(bound()); }
API R cudaSetDevice(int device) { return told(device ? 101 : bound()); }
API R cudaInitDevice(int device, unsigned flags, unsigned more) { (void)flags, (void)more; return cudaSetDevice(device); }
API R cudaSetValidDevices(int *devices, int count) { (void)devices, (void)count; return 0; }
API R cudaChooseDevice(int *device, const void *properties) { WANT(device); (void)properties; *device = 0; return 0; }
API R cudaSetDeviceFlags(unsigned flags) { (void)flags; return 0; }
API R cudaGetDeviceFlags(unsigned *flags) { WANT(flags); *flags = 0; return 0; }
API R cudaDeviceReset(void) { return told(bound() ? why : smemsim_reset()); }
API R cudaDeviceSynchronize(void) { return SYNCHRONIZE(0); }
API R cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
API R cudaDriverGetVersion(int *version) {
    WANT(version);
    U found = 0;
    R error = smemsim_call("driver_version", "|I", &found);
    *version = error ? 0 : (int)found;
    return 0;
}
API R cudaRuntimeGetVersion(int *version) { WANT(version); *version = MAJOR == 12 ? 12090 : 13000; return 0; }
API R cudaDeviceGetAttribute(int *value, int attribute, int device) {
    WANT(value);
    U found = 0;
    if (device) return told(101);
    R error = CALL("attribute", "i|I", (U)attribute, &found);
    if (!error) *value = (int)found;
    return error;
}
static R properties(void *to, int device, int major, size_t size) {
    WANT(to);
    if (device) return told(101);
    return CALL("properties", "i|B", (U)major, to, size);
}
API R cudaGetDeviceProperties(void *to, int device) { return properties(to, device, MAJOR, MAJOR == 12 ? 728 : 1008); }
API R cudaGetDeviceProperties_v2(void *to, int device) { return properties(to, device, 12, 1032); }
API R cudaDeviceGetName(char *name, int length, int device) { WANT(name && length > 0); (void)device; return told(bound() ? why : smemsim_card_name(name, length)); }
API R cudaDeviceGetPCIBusId(char *id, int length, int device) { WANT(id); (void)device; snprintf(id, length, BUS_ID); return 0; }
API R cudaDeviceGetByPCIBusId(int *device, const char *id) { WANT(device); *device = 0; return smemsim_is_card(id) ? 0 : told(101); }
API R cudaDeviceGetLimit(size_t *value, int limit) { return CALL("limit", "i|I", (U)limit, value); }
API R cudaDeviceSetLimit(int limit, size_t value) { return CALL("set_limit", "ii", (U)limit, (U)value); }
API R cudaDeviceGetCacheConfig(int *config) { WANT(config); U c = 0; R error = CALL("cache_config", "|I", &c); *config = (int)c; return error; }
API R cudaDeviceSetCacheConfig(int config) { return CALL("set_cache_config", "i", (U)config); }
API R cudaDeviceGetSharedMemConfig(int *config) { WANT(config); *config = 1; return 0; }
API R cudaDeviceSetSharedMemConfig(int config) { (void)config; return 0; }
API R cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { if (least) *least = 0; if (greatest) *greatest = -5; return told(bound()); }
API R cudaDeviceCanAccessPeer(int *can, int a, int b) { WANT(can); (void)a, (void)b; *can = 0; return 0; }
API R cudaDeviceEnablePeerAccess(int device, unsigned flags) { (void)device, (void)flags; return told(217); }
API R cudaDeviceDisablePeerAccess(int device) { (void)device; return told(705); }
extern R cuDeviceGetDefaultMemPool(U *pool, int device);
API R cudaDeviceGetDefaultMemPool(U *pool, int device) { return told(bound() ? why : cuDeviceGetDefaultMemPool(pool, device)); }
extern R cuDeviceGetMemPool(U *pool, int device);
API R cudaDeviceGetMemPool(U *pool, int device) { return told(bound() ? why : cuDeviceGetMemPool(pool, device)); }
extern R cuDeviceSetMemPool(int device, U pool);
API R cudaDeviceSetMemPool(int device, U pool) { return told(bound() ? why : cuDeviceSetMemPool(device, pool)); }
extern R cuMemGetDefaultMemPool(U *pool, const int *location, int type);
API R cudaMemGetDefaultMemPool(U *pool, const int *location, int type) { return told(bound() ? why : cuMemGetDefaultMemPool(pool, location, type)); }
extern R cuMemGetMemPool(U *pool, const int *location, int type);
API R cudaMemGetMemPool(U *pool, const int *location, int type) { return told(bound() ? why : cuMemGetMemPool(pool, location, type)); }
extern R cuMemSetMemPool(const int *location, int type, U pool);
API R cudaMemSetMemPool(const int *location, int type, U pool) { return told(bound() ? why : cuMemSetMemPool(location, type, pool)); }
extern R cuDeviceGraphMemTrim(int device);
API R cudaDeviceGraphMemTrim(int device) { return told(bound() ? why : cuDeviceGraphMemTrim(device)); }
extern R cuDeviceGetGraphMemAttribute(int device, int attribute, U *value);
API R cudaDeviceGetGraphMemAttribute(int device, int attribute, U *value) { return told(bound() ? why : cuDeviceGetGraphMemAttribute(device, attribute, value)); }
extern R cuDeviceSetGraphMemAttribute(int device, int attribute, const U *value);
API R cudaDeviceSetGraphMemAttribute(int device, int attribute, const U *value) { return told(bound() ? why : cuDeviceSetGraphMemAttribute(device, attribute, value)); }
API R cudaCtxResetPersistingL2Cache(void) { return 0; }
API R cudaProfilerStart(void) { return 0; }
API R cudaProfilerStop(void) { return 0; }

/* Memory */

extern R smemsim_made(R error, const U *address);
static R allocate(U *address, size_t bytes, const char *kind, void *caller) {
    char text[1024];
    WANT(address);
    *address = 0;
    return bytes ? smemsim_made(CALL("allocate", "iss|I", (U)bytes, kind, smemsim_caller(caller, text, sizeof text), address), address) : told(bound());
}
API R cudaMalloc(U *address, size_t bytes) { return allocate(address, bytes, "device", CALLER); }
API R cudaMallocManaged(U *address, size_t bytes, unsigned flags) { (void)flags; return allocate(address, bytes, "managed", CALLER); }
API R cudaMallocHost(U *address, size_t bytes) { return allocate(address, bytes, "pinned", CALLER); }
API R cudaHostAlloc(U *address, size_t bytes, unsigned flags) { (void)flags; return allocate(address, bytes, "pinned", CALLER); }
API R cudaMallocPitch(U *address, size_t *pitch, size_t width, size_t height) { WANT(pitch); *pitch = pitch_of(width); WANT(product(*pitch, height) || !width || !height); return allocate(address, *pitch * height, "device", CALLER); }
typedef struct { size_t width, height, depth; } extent;
typedef struct { U pointer; size_t pitch, width, height; } pitched;
API R cudaMalloc3D(pitched *to, extent e) {
    WANT(to);
    to->pitch = pitch_of(e.width), to->width = e.width, to->height = e.height;
    size_t all = product(to->pitch, product(e.height, e.depth));
    WANT(all || !e.width || !e.height || !e.depth);
    return allocate(&to->pointer, all, "device", CALLER);
}
static R allocate_async(U *address, size_t bytes, U stream, void *caller) {
    char text[1024];
    WANT(address);
    *address = 0;
    return bytes ? CALL("allocate_async", "isi|I", (U)bytes, smemsim_caller(caller, text, sizeof text), stream, address) : told(bound());
}
API R cudaMallocAsync(U *address, size_t bytes, U stream) { return allocate_async(address, bytes, stream, CALLER); }
API R cudaMallocFromPoolAsync(U *address, size_t bytes, U pool, U stream) { char text[1024]; WANT(address); return CALL("allocate_from_pool", "isii|I", (U)bytes, smemsim_caller(CALLER, text, sizeof text), pool, stream, address); }
API R cudaFree(U address) { return CALL("free", "i", address); }
API R cudaFreeHost(U address) { return CALL("free", "i", address); }
API R cudaFreeAsync(U address, U stream) { return address ? CALL("free_async", "ii", address, stream) : told(bound()); }
API R cudaHostGetDevicePointer(U *address, U host, unsigned flags) { (void)flags; WANT(address); *address = host; return CALL("check_host", "i", host); }
API R cudaHostGetFlags(unsigned *flags, U host) { WANT(flags); *flags = 2; return CALL("check_host", "i", host); }
API R cudaHostRegister(U address, size_t bytes, unsigned flags) { (void)flags; char text[1024]; if (!smemsim_is_mapped(address, bytes)) return told(INVALID_VALUE); return CALL("register", "iis", address, (U)bytes, smemsim_caller(CALLER, text, sizeof text)); }
API R cudaHostUnregister(U address) { return CALL("unregister", "i", address); }
API R cudaMemGetInfo(size_t *available, size_t *total) { return CALL("memory_info", "|II", available, total); }
typedef struct { int type, device; U on_device, on_host; } pointer_attributes;
API R cudaPointerGetAttributes(pointer_attributes *a, U address) {
    WANT(a);
    U kind = 0;
    R error = bound() ? why : smemsim_call("pointer", "i|IIII", address, &kind, (U *)0, (U *)0, (U *)0);
    if (error && error != INVALID_VALUE) return told(error);
    memset(a, 0, sizeof *a);
    a->type = kind, a->device = kind ? 0 : -2, a->on_device = kind ? address : 0, a->on_host = kind == 2 ? 0 : address;
    return 0;
}
extern R cuMemPoolCreate(U *pool, const void *props);
API R cudaMemPoolCreate(U *pool, const void *props) { return told(bound() ? why : cuMemPoolCreate(pool, props)); }
extern R cuMemPoolDestroy(U pool);
API R cudaMemPoolDestroy(U pool) { return told(bound() ? why : cuMemPoolDestroy(pool)); }
extern R cuMemPoolTrimTo(U pool, size_t keep);
API R cudaMemPoolTrimTo(U pool, size_t keep) { return told(bound() ? why : cuMemPoolTrimTo(pool, keep)); }
extern R cuMemPoolSetAttribute(U pool, int attribute, void *value);
API R cudaMemPoolSetAttribute(U pool, int attribute, void *value) { return told(bound() ? why : cuMemPoolSetAttribute(pool, attribute, value)); }
extern R cuMemPoolGetAttribute(U pool, int attribute, void *value);
API R cudaMemPoolGetAttribute(U pool, int attribute, void *value) { return told(bound() ? why : cuMemPoolGetAttribute(pool, attribute, value)); }
extern R cuMemRangeGetAttribute(void *data, size_t size, int attribute, U address, size_t bytes);
API R cudaMemRangeGetAttribute(void *data, size_t size, int attribute, U address, size_t bytes) { return told(bound() ? why : cuMemRangeGetAttribute(data, size, attribute, address, bytes)); }
extern R cuMemRangeGetAttributes(void **data, size_t *sizes, int *attributes, size_t count, U address, size_t bytes);
API R cudaMemRangeGetAttributes(void **data, size_t *sizes, int *attributes, size_t count, U address, size_t bytes) { return told(bound() ? why : cuMemRangeGetAttributes(data, sizes, attributes, count, address, bytes)); }
API R cudaMemPoolSetAccess(U pool, const void *descriptions, size_t count) { (void)pool, (void)descriptions, (void)count; return 0; }
extern R cuMemAdvise(U address, size_t bytes, int advice, int device), cuMemAdvise_v2(U address, size_t bytes, int advice, U where);
extern R cuMemPrefetchAsync(U address, size_t bytes, int device, U stream), cuMemPrefetchAsync_v2(U address, size_t bytes, U where, unsigned flags, U stream);
API R cudaMemAdvise_v2(U address, size_t bytes, int advice, U where) { return told(bound() ? why : cuMemAdvise_v2(address, bytes, advice, where)); }
API R cudaMemPrefetchAsync_v2(U address, size_t bytes, U where, unsigned flags, U stream) { return told(bound() ? why : cuMemPrefetchAsync_v2(address, bytes, where, flags, stream)); }
#if MAJOR >= 13
API R cudaMemAdvise(U address, size_t bytes, int advice, U where) { return cudaMemAdvise_v2(address, bytes, advice, where); }
API R cudaMemPrefetchAsync(U address, size_t bytes, U where, unsigned flags, U stream) { return cudaMemPrefetchAsync_v2(address, bytes, where, flags, stream); }
#else
API R cudaMemAdvise(U address, size_t bytes, int advice, int device) { return told(bound() ? why : cuMemAdvise(address, bytes, advice, device)); }
API R cudaMemPrefetchAsync(U address, size_t bytes, int device, U stream) { return told(bound() ? why : cuMemPrefetchAsync(address, bytes, device, stream)); }
#endif

static R copy(U to, U from, size_t bytes, int kind, U stream) { return CALL("copy", "iiiii", to, from, (U)bytes, (U)kind, stream); }
API R cudaMemcpy(U to, U from, size_t bytes, int kind) { return copy(to, from, bytes, kind, 0); }
API R cudaMemcpyAsync(U to, U from, size_t bytes, int kind, U stream) { return copy(to, from, bytes, kind, stream); }
API R cudaMemcpyPeer(U to, int a, U from, int b, size_t bytes) { (void)a, (void)b; return copy(to, from, bytes, 3, 0); }
API R cudaMemcpyPeerAsync(U to, int a, U from, int b, size_t bytes, U stream) { (void)a, (void)b; return copy(to, from, bytes, 3, stream); }
static R copy_rows(U to, size_t to_pitch, U from, size_t from_pitch, size_t width, size_t height, int kind, U stream) {
    return CALL("copy_2d", "iiiiiiii", to, (U)to_pitch, from, (U)from_pitch, (U)width, (U)height, (U)kind, stream);
}
API R cudaMemcpy2D(U to, size_t to_pitch, U from, size_t from_pitch, size_t width, size_t height, int kind) { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, 0); }
API R cudaMemcpy2DAsync(U to, size_t to_pitch, U from, size_t from_pitch, size_t width, size_t height, int kind, U stream) { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream); }
typedef struct { U from_array; size_t from_x, from_y, from_z; pitched from; U to_array; size_t to_x, to_y, to_z; pitched to; extent size; int kind; } copy_3d;

/* Arrays: to copies they are memory, whose rows lie one behind the other. */

typedef struct { int x, y, z, w, f; } channel;
typedef struct { U address, element, row, rows, width, height, depth, flags; channel own; } array_about;
static R about_array(U array, array_about *a) {
    return CALL("array_about", "i|IIIIIIIIB", array, &a->address, &a->element, &a->row, &a->rows, &a->width, &a->height, &a->depth, &a->flags, &a->own, sizeof a->own);
}
static R as_memory(U array, size_t *x, pitched *p, U *element, size_t *planes) {
    array_about a;
    R error = array ? about_array(array, &a) : 0;
    if (!array || error) return error;
    *p = (pitched){a.address, a.row, a.row, a.rows}, *x = *x > SIZE_MAX / a.element ? SIZE_MAX : *x * a.element, *element = a.element, *planes = a.depth ? a.depth : 1;
    return 0;
}
static int has_box(U array, const pitched *p, size_t planes, size_t x, size_t y, size_t z, extent e) {
    return !array || (is_within(x, e.width, p->pitch) && is_within(y, e.height, p->height) && is_within(z, e.depth, planes));
}
static R copy_box(const copy_3d *given, U stream) {
    WANT(given);
    copy_3d own = *given, *c = &own;
    U element = 1;
    size_t from_planes = 0, to_planes = 0;
    R error = as_memory(c->from_array, &c->from_x, &c->from, &element, &from_planes);
    if (!error) error = as_memory(c->to_array, &c->to_x, &c->to, &element, &to_planes);
    if (error) return error;
    if (c->size.width > SIZE_MAX / element) return told(INVALID_VALUE);
    c->size.width *= element;
    if (!has_box(c->from_array, &c->from, from_planes, c->from_x, c->from_y, c->from_z, c->size)) return told(INVALID_VALUE);
    if (!has_box(c->to_array, &c->to, to_planes, c->to_x, c->to_y, c->to_z, c->size)) return told(INVALID_VALUE);
    if (c->from_array || c->to_array) c->kind = c->kind == 4 ? 4 : c->from_array && c->to_array ? 3 : c->kind;
    for (size_t z = 0; z < c->size.depth; z++) {
        U from = c->from.pointer + ((c->from_z + z) * c->from.height + c->from_y) * c->from.pitch + c->from_x;
        U to = c->to.pointer + ((c->to_z + z) * c->to.height + c->to_y) * c->to.pitch + c->to_x;
        error = copy_rows(to, c->to.pitch, from, c->from.pitch, c->size.width, c->size.height, c->kind, stream);
        if (error) return error;
    }
    return 0;
}
/* Rows to or from an array: x and width are bytes. */
static R rows_of_array(U array, size_t x, size_t y, U other, size_t pitch, size_t width, size_t height, int kind, U stream, int is_to) {
    array_about a;
    R error = about_array(array, &a);
    if (error) return error;
    if (!is_within(x, width, a.row) || !is_within(y, height, a.rows)) return told(INVALID_VALUE);
    U own = a.address + y * a.row + x;
    return is_to ? copy_rows(own, a.row, other, pitch, width, height, kind, stream) : copy_rows(other, pitch, own, a.row, width, height, kind, stream);
}
API R cudaMemcpy2DToArray(U to, size_t x, size_t y, U from, size_t pitch, size_t width, size_t height, int kind) { return rows_of_array(to, x, y, from, pitch, width, height, kind, 0, 1); }
API R cudaMemcpy2DToArrayAsync(U to, size_t x, size_t y, U from, size_t pitch, size_t width, size_t height, int kind, U stream) { return rows_of_array(to, x, y, from, pitch, width, height, kind, stream, 1); }
API R cudaMemcpy2DFromArray(U to, size_t pitch, U from, size_t x, size_t y, size_t width, size_t height, int kind) { return rows_of_array(from, x, y, to, pitch, width, height, kind, 0, 0); }
API R cudaMemcpy2DFromArrayAsync(U to, size_t pitch, U from, size_t x, size_t y, size_t width, size_t height, int kind, U stream) { return rows_of_array(from, x, y, to, pitch, width, height, kind, stream, 0); }
API R cudaMemcpy2DArrayToArray(U to, size_t to_x, size_t to_y, U from, size_t x, size_t y, size_t width, size_t height, int kind) {
    array_about a;
    R error = about_array(to, &a);
    (void)kind;
    return error ? error : !is_within(to_x, width, a.row) || !is_within(to_y, height, a.rows) ? told(INVALID_VALUE) : rows_of_array(from, x, y, a.address + to_y * a.row + to_x, a.row, width, height, 3, 0, 0);
}
/* Bytes one behind the other, from a place in an array on: its rows have no gaps. */
static R bytes_of_array(U array, size_t x, size_t y, U other, size_t bytes, int kind, U stream, int is_to) {
    array_about a;
    R error = about_array(array, &a);
    if (error) return error;
    if (y > a.rows || x > a.row || !is_within(y * a.row + x, bytes, a.row * a.rows)) return told(INVALID_VALUE);
    U own = a.address + y * a.row + x;
    return is_to ? copy(own, other, bytes, kind, stream) : copy(other, own, bytes, kind, stream);
}
API R cudaMemcpyToArray(U to, size_t x, size_t y, U from, size_t bytes, int kind) { return bytes_of_array(to, x, y, from, bytes, kind, 0, 1); }
API R cudaMemcpyToArrayAsync(U to, size_t x, size_t y, U from, size_t bytes, int kind, U stream) { return bytes_of_array(to, x, y, from, bytes, kind, stream, 1); }
API R cudaMemcpyFromArray(U to, U from, size_t x, size_t y, size_t bytes, int kind) { return bytes_of_array(from, x, y, to, bytes, kind, 0, 0); }
API R cudaMemcpyFromArrayAsync(U to, U from, size_t x, size_t y, size_t bytes, int kind, U stream) { return bytes_of_array(from, x, y, to, bytes, kind, stream, 0); }
API R cudaMemcpyArrayToArray(U to, size_t to_x, size_t to_y, U from, size_t x, size_t y, size_t bytes, int kind) {
    array_about a;
    R error = about_array(from, &a);
    (void)kind;
    if (error) return error;
    if (y > a.rows || x > a.row || !is_within(y * a.row + x, bytes, a.row * a.rows)) return told(INVALID_VALUE);
    return bytes_of_array(to, to_x, to_y, a.address + y * a.row + x, bytes, 3, 0, 1);
}
static R make_array(U *array, const channel *c, extent e, unsigned flags, unsigned levels, void *caller) {
    char text[1024];
    WANT(array && c);
    return CALL("array_create", "biiiiis|I", c, sizeof *c, (U)e.width, (U)e.height, (U)e.depth, (U)flags, (U)levels, smemsim_caller(caller, text, sizeof text), array);
}
API R cudaMallocArray(U *array, const channel *c, size_t width, size_t height, unsigned flags) { return make_array(array, c, (extent){width, height, 0}, flags, 0, CALLER); }
API R cudaMalloc3DArray(U *array, const channel *c, extent e, unsigned flags) { return make_array(array, c, e, flags, 0, CALLER); }
API R cudaMallocMipmappedArray(U *array, const channel *c, extent e, unsigned levels, unsigned flags) { return make_array(array, c, e, flags, levels ? levels : 1, CALLER); }
API R cudaGetMipmappedArrayLevel(U *array, U all, unsigned level) { WANT(array); return CALL("array_level", "ii|I", all, (U)level, array); }
API R cudaFreeMipmappedArray(U array) { return CALL("array_free", "i", array); }
API R cudaFreeArray(U array) { return CALL("array_free", "i", array); }
API R cudaArrayGetInfo(channel *c, extent *e, unsigned *flags, U array) {
    array_about a;
    R error = about_array(array, &a);
    if (error) return error;
    if (c) *c = a.own;
    if (e) *e = (extent){a.width, a.height, a.depth};
    if (flags) *flags = (unsigned)a.flags;
    return 0;
}
API R cudaGetChannelDesc(channel *c, U array) { return cudaArrayGetInfo(c, 0, 0, array); }

/* Texture and surface objects */

enum { RESOURCE = MAJOR < 13 ? 64 : 144, SAMPLER = 72 }; /* bytes of cudaResourceDesc and cudaTextureDesc */
typedef struct { int type; union { U array; struct { U pointer; channel own; size_t bytes; } linear; struct { U pointer; channel own; size_t width, height, pitch; } pitch; char room[RESOURCE - 8]; }; } resource;
API R cudaCreateTextureObject(U *object, const resource *r, const void *how, const void *view) {
    channel none = {0, 0, 0, 0, 0};
    WANT(object && r && how);
    if (view) return told(smemsim_unknown("cudaCreateTextureObject with a view"));
    R error;
    if (r->type < 2) error = CALL("texture_create", "iiibiiib|I", (U)r->type, r->array, (U)0, &none, sizeof none, (U)0, (U)0, (U)0, how, (size_t)SAMPLER, object);
    else if (r->type == 2) error = CALL("texture_create", "iiibiiib|I", (U)2, (U)0, r->linear.pointer, &r->linear.own, sizeof none, (U)r->linear.bytes, (U)0, (U)0, how, (size_t)SAMPLER, object);
    else error = CALL("texture_create", "iiibiiib|I", (U)3, (U)0, r->pitch.pointer, &r->pitch.own, sizeof none, (U)r->pitch.width, (U)r->pitch.height, (U)r->pitch.pitch, how, (size_t)SAMPLER, object);
    return error ? error : CALL("describe", "ibb", *object, r, (size_t)RESOURCE, how, (size_t)SAMPLER);
}
API R cudaGetTextureObjectResourceDesc(resource *r, U object) { WANT(r); return CALL("object_resource", "i|B", object, r, (size_t)RESOURCE); }
API R cudaGetTextureObjectTextureDesc(void *how, U object) { WANT(how); return CALL("object_sampler", "i|B", object, how, (size_t)SAMPLER); }
API R cudaDestroyTextureObject(U object) { return CALL("object_destroy", "i", object); }
API R cudaCreateSurfaceObject(U *object, const resource *r) {
    WANT(object && r && !r->type);
    R error = CALL("surface_create", "i|I", r->array, object);
    return error ? error : CALL("describe", "ibb", *object, r, (size_t)RESOURCE, "", (size_t)0);
}
API R cudaGetSurfaceObjectResourceDesc(resource *r, U object) { WANT(r); return CALL("object_resource", "i|B", object, r, (size_t)RESOURCE); }
API R cudaDestroySurfaceObject(U object) { return CALL("object_destroy", "i", object); }
API R cudaMemcpy3D(const copy_3d *c) { return copy_box(c, 0); }
API R cudaMemcpy3DAsync(const copy_3d *c, U stream) { return copy_box(c, stream); }
typedef struct { U from_array; size_t from_x, from_y, from_z; pitched from; int from_device; U to_array; size_t to_x, to_y, to_z; pitched to; int to_device; extent size; } copy_3d_peer;
API R cudaMemcpy3DPeerAsync(const copy_3d_peer *p, U stream) {
    WANT(p);
    copy_3d c = {p->from_array, p->from_x, p->from_y, p->from_z, p->from, p->to_array, p->to_x, p->to_y, p->to_z, p->to, p->size, 4};
    return copy_box(&c, stream);
}
API R cudaMemcpy3DPeer(const copy_3d_peer *p) { return cudaMemcpy3DPeerAsync(p, 0); }
static R copy_symbol(const void *symbol, U other, size_t bytes, size_t offset, int kind, U stream, int is_to) {
    U address = 0, size = 0;
    R error = variable_of(symbol, &address, &size);
    if (error) return told(error);
    if (offset + bytes > size) return told(INVALID_VALUE);
    return is_to ? copy(address + offset, other, bytes, kind, stream) : copy(other, address + offset, bytes, kind, stream);
}
API R cudaMemcpyToSymbol(const void *symbol, U from, size_t bytes, size_t offset, int kind) { return copy_symbol(symbol, from, bytes, offset, kind, 0, 1); }
API R cudaMemcpyToSymbolAsync(const void *symbol, U from, size_t bytes, size_t offset, int kind, U stream) { return copy_symbol(symbol, from, bytes, offset, kind, stream, 1); }
API R cudaMemcpyFromSymbol(U to, const void *symbol, size_t bytes, size_t offset, int kind) { return copy_symbol(symbol, to, bytes, offset, kind, 0, 0); }
API R cudaMemcpyFromSymbolAsync(U to, const void *symbol, size_t bytes, size_t offset, int kind, U stream) { return copy_symbol(symbol, to, bytes, offset, kind, stream, 0); }
API R cudaGetSymbolAddress(U *address, const void *symbol) { return told(variable_of(symbol, address, 0)); }
API R cudaGetSymbolSize(size_t *size, const void *symbol) { U address; return told(variable_of(symbol, &address, size)); }
static R fill(U to, size_t pitch, int value, size_t width, size_t height, U stream) {
    return CALL("fill", "iiiiiii", to, (U)pitch, (U)(unsigned char)value, (U)1, (U)width, (U)height, stream);
}
API R cudaMemset(U to, int value, size_t count) { return fill(to, count, value, count, 1, 0); }
API R cudaMemsetAsync(U to, int value, size_t count, U stream) { return fill(to, count, value, count, 1, stream); }
API R cudaMemset2D(U to, size_t pitch, int value, size_t width, size_t height) { return fill(to, pitch, value, width, height, 0); }
API R cudaMemset2DAsync(U to, size_t pitch, int value, size_t width, size_t height, U stream) { return fill(to, pitch, value, width, height, stream); }
API R cudaMemset3D(pitched to, int value, extent e) {
    R error = 0;
    for (size_t z = 0; z < e.depth && !error; z++) error = fill(to.pointer + z * to.pitch * to.height, to.pitch, value, e.width, e.height, 0);
    return error;
}
API R cudaMemset3DAsync(pitched to, int value, extent e, U stream) {
    R error = 0;
    for (size_t z = 0; z < e.depth && !error; z++) error = fill(to.pointer + z * to.pitch * to.height, to.pitch, value, e.width, e.height, stream);
    return error;
}

/* Streams and events */

API R cudaStreamCreateWithPriority(U *stream, unsigned flags, int priority) { WANT(stream); return CALL("stream_create", "ii|I", (U)flags, (U)(int64_t)priority, stream); }
API R cudaStreamCreateWithFlags(U *stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
API R cudaStreamCreate(U *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
API R cudaStreamDestroy(U stream) { return CALL("stream_destroy", "i", stream); }
API R cudaStreamSynchronize(U stream) { return SYNCHRONIZE(stream); }
API R cudaStreamQuery(U stream) { return SYNCHRONIZE(stream); }
API R cudaStreamWaitEvent(U stream, U event, unsigned flags) { (void)flags; return CALL("stream_wait", "ii", stream, event); }
API R cudaStreamGetPriority(U stream, int *priority) { WANT(priority); U p = 0; R error = CALL("stream_info", "i|II", stream, &p, (U *)0); *priority = (int)p; return error; }
API R cudaStreamGetFlags(U stream, unsigned *flags) { WANT(flags); U f = 0; R error = CALL("stream_info", "i|II", stream, (U *)0, &f); *flags = (unsigned)f; return error; }
API R cudaStreamGetId(U stream, unsigned long long *id) { WANT(id); *id = stream; return 0; }
API R cudaStreamGetDevice(U stream, int *device) { WANT(device); (void)stream; *device = 0; return 0; }
API R cudaStreamGetAttribute(U stream, int attribute, void *value) { WANT(value); return CALL("stream_attribute", "ii|B", stream, (U)attribute, value, (size_t)64); }
API R cudaStreamSetAttribute(U stream, int attribute, const void *value) { WANT(value); return CALL("stream_set_attribute", "iib", stream, (U)attribute, value, (size_t)64); }
API R cudaStreamCopyAttributes(U to, U from) { return CALL("stream_copy_attributes", "ii", to, from); }
API R cudaStreamAttachMemAsync(U stream, U address, size_t bytes, unsigned flags) { (void)stream, (void)address, (void)bytes, (void)flags; return 0; }
API R cudaEventCreateWithFlags(U *event, unsigned flags) { WANT(event); return CALL("event_create", "i|I", (U)flags, event); }
API R cudaEventCreate(U *event) { return cudaEventCreateWithFlags(event, 0); }
API R cudaEventDestroy(U event) { return CALL("event_destroy", "i", event); }
API R cudaEventRecord(U event, U stream) { return CALL("event_record", "ii", event, stream); }
API R cudaEventRecordWithFlags(U event, U stream, unsigned flags) { (void)flags; return cudaEventRecord(event, stream); }
API R cudaEventSynchronize(U event) { return CALL("event_synchronize", "i", event); }
API R cudaEventQuery(U event) { return CALL("event_synchronize", "i", event); }
API R cudaEventElapsedTime(float *milliseconds, U begin, U end) {
    WANT(milliseconds);
    U micro = 0;
    R error = CALL("event_elapsed", "ii|I", begin, end, &micro);
    if (!error) *milliseconds = (float)micro / 1000;
    return error;
}
API R cudaEventElapsedTime_v2(float *milliseconds, U begin, U end) { return cudaEventElapsedTime(milliseconds, begin, end); }

/* Graphs */

API R cudaStreamBeginCapture(U stream, int mode) { return CALL("capture_begin", "ii", stream, (U)mode); }
API R cudaStreamBeginCaptureToGraph(U stream, U graph, const U *after, const void *edges, size_t count, int mode) { (void)after, (void)edges, (void)count; return CALL("capture_to", "iii", stream, graph, (U)mode); }
API R cudaStreamEndCapture(U stream, U *graph) { return CALL("capture_end", "i|I", stream, graph); }
API R cudaStreamIsCapturing(U stream, int *status) { WANT(status); U found = 0; R error = CALL("capture_status", "i|II", stream, &found, (U *)0); *status = (int)found; return error; }
extern R cuStreamGetCaptureInfo_v3(U stream, int *status, U *id, U *graph, const U **after, const void **edges, size_t *count);
static R capture_info(U stream, int *status, U *id, U *graph, const U **after, const void **edges, size_t *count) {
    return told(bound() ? why : cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, edges, count));
}
#if MAJOR == 12
API R cudaStreamGetCaptureInfo(U stream, int *status, U *id) { return capture_info(stream, status, id, 0, 0, 0, 0); }
#else
API R cudaStreamGetCaptureInfo(U stream, int *status, U *id, U *graph, const U **after, const void **edges, size_t *count) { return capture_info(stream, status, id, graph, after, edges, count); }
#endif
API R cudaStreamGetCaptureInfo_v2(U stream, int *status, U *id, U *graph, const U **after, size_t *count) { return capture_info(stream, status, id, graph, after, 0, count); }
API R cudaStreamGetCaptureInfo_v3(U stream, int *status, U *id, U *graph, const U **after, const void **edges, size_t *count) { return capture_info(stream, status, id, graph, after, edges, count); }
extern R cuThreadExchangeStreamCaptureMode(int *mode);
API R cudaThreadExchangeStreamCaptureMode(int *mode) { return told(cuThreadExchangeStreamCaptureMode(mode)); }
API R cudaGraphCreate(U *graph, unsigned flags) { (void)flags; return CALL("graph_create", "|I", graph); }
API R cudaGraphDestroy(U graph) { return CALL("graph_destroy", "i", graph); }
API R cudaGraphClone(U *clone, U graph) { return CALL("graph_clone", "i|I", graph, clone); }
API R cudaGraphInstantiate(U *exec, U graph, U flags) { (void)flags; return CALL("graph_instantiate", "i|I", graph, exec); }
API R cudaGraphInstantiateWithFlags(U *exec, U graph, U flags) { (void)flags; return CALL("graph_instantiate", "i|I", graph, exec); }
API R cudaGraphInstantiateWithParams(U *exec, U graph, void *parameters) { (void)parameters; return CALL("graph_instantiate", "i|I", graph, exec); }
API R cudaGraphExecDestroy(U exec) { return CALL("graph_destroy", "i", exec); }
API R cudaGraphLaunch(U exec, U stream) { return CALL("graph_launch", "ii", exec, stream); }
API R cudaGraphUpload(U exec, U stream) { (void)exec, (void)stream; return 0; }
API R cudaGraphExecUpdate(U exec, U graph, uint32_t *result) {
    R error = CALL("graph_update", "ii", exec, graph);
    if (result) memset(result, 0, 24), result[0] = error != 0;
    return error;
}
API R cudaGraphGetNodes(U graph, U *nodes, size_t *count) {
    WANT(count);
    U have = 0;
    R error = CALL("graph_nodes", "ii|IB", graph, nodes ? (U)*count : (U)0, &have, nodes, nodes ? *count * 8 : (size_t)0);
    if (!error) *count = have;
    return error;
}
API R cudaGraphNodeGetType(U node, int *type) { WANT(type); U found = 0; R error = CALL("node_type", "i|I", node, &found); *type = (int)found; return error; }
typedef struct { const void *f; dim3 grid, block; unsigned shared; void **arguments, **extra; } kernel_node;
static R bank_of(const kernel_node *k, U *function, char **bank, unsigned *bytes) {
    smemsim_layout layout;
    R error = function_of(k->f, function);
    if (!error) error = smemsim_layout_of(*function, &layout);
    if (error) return error;
    *bytes = layout.bytes, *bank = calloc(1, layout.bytes + 8);
    for (unsigned n = 0; k->arguments && n < layout.count; n++) memcpy(*bank + layout.places[2 * n], k->arguments[n], layout.places[2 * n + 1]);
    return 0;
}
API R cudaGraphAddKernelNode(U *node, U graph, const U *after, size_t count, const kernel_node *k) {
    WANT(k);
    U function = 0;
    char *bank = 0;
    unsigned bytes = 0;
    R error = bank_of(k, &function, &bank, &bytes);
    if (!error)
        error = smemsim_call("graph_add_kernel", "ibiiiiiiiib|I", graph, after, count * 8, function, (U)k->grid.x, (U)k->grid.y, (U)k->grid.z, (U)k->block.x, (U)k->block.y,
                             (U)k->block.z, (U)k->shared, bank, (size_t)bytes, node);
    free(bank);
    return told(error);
}
API R cudaGraphExecKernelNodeSetParams(U exec, U node, const kernel_node *k) {
    WANT(k);
    U function = 0;
    char *bank = 0;
    unsigned bytes = 0;
    R error = bank_of(k, &function, &bank, &bytes);
    if (!error)
        error = smemsim_call("graph_set_kernel", "iiiiiiiiiib", exec, node, function, (U)k->grid.x, (U)k->grid.y, (U)k->grid.z, (U)k->block.x, (U)k->block.y, (U)k->block.z, (U)k->shared, bank,
                             (size_t)bytes);
    free(bank);
    return told(error);
}
API R cudaGraphAddEmptyNode(U *node, U graph, const U *after, size_t count) { return CALL("graph_add_empty", "ib|I", graph, after, count * 8, node); }
typedef struct { void *function, *data; } host_node;
API R cudaGraphAddHostNode(U *node, U graph, const U *after, size_t count, const host_node *h) { WANT(h); return CALL("graph_add_host", "ibii|I", graph, after, count * 8, h->function, h->data, node); }
typedef struct { U to; size_t pitch; unsigned value, width; size_t count, height; } fill_node;
API R cudaGraphAddMemsetNode(U *node, U graph, const U *after, size_t count, const fill_node *f) {
    WANT(f);
    return CALL("graph_add_fill", "ibiiiiii|I", graph, after, count * 8, f->to, (U)f->pitch, (U)f->value, (U)f->width, (U)f->count, (U)f->height, node);
}
API R cudaGraphAddMemcpyNode1D(U *node, U graph, const U *after, size_t count, U to, U from, size_t bytes, int kind) {
    (void)kind;
    return CALL("graph_add_copy", "ibiiiiii|I", graph, after, count * 8, to, (U)bytes, from, (U)bytes, (U)bytes, (U)1, node);
}
API R cudaGraphAddMemcpyNode(U *node, U graph, const U *after, size_t count, const copy_3d *c) {
    WANT(c);
    if (c->from_array || c->to_array || c->size.depth != 1) return told(smemsim_unknown("cudaGraphAddMemcpyNode of arrays or of several planes"));
    U from = c->from.pointer + (c->from_z * c->from.height + c->from_y) * c->from.pitch + c->from_x;
    U to = c->to.pointer + (c->to_z * c->to.height + c->to_y) * c->to.pitch + c->to_x;
    return CALL("graph_add_copy", "ibiiiiii|I", graph, after, count * 8, to, (U)c->to.pitch, from, (U)c->from.pitch, (U)c->size.width, (U)c->size.height, node);
}
/* Of graphs, what is the same in the driver API; in CUDA 13 edges have data besides, in 12 only under the second name. */
R cuGraphNodeSetEnabled(U exec, U node, unsigned is_enabled);
API R cudaGraphNodeSetEnabled(U exec, U node, unsigned is_enabled) { return told(bound() ? why : cuGraphNodeSetEnabled(exec, node, is_enabled)); }
R cuGraphNodeGetEnabled(U exec, U node, unsigned *is_enabled);
API R cudaGraphNodeGetEnabled(U exec, U node, unsigned *is_enabled) { return told(bound() ? why : cuGraphNodeGetEnabled(exec, node, is_enabled)); }
R cuGraphDestroyNode(U node);
API R cudaGraphDestroyNode(U node) { return told(bound() ? why : cuGraphDestroyNode(node)); }
R cuGraphGetRootNodes(U graph, U *nodes, size_t *count);
API R cudaGraphGetRootNodes(U graph, U *nodes, size_t *count) { return told(bound() ? why : cuGraphGetRootNodes(graph, nodes, count)); }
R cuGraphExecHostNodeSetParams(U exec, U node, const host_node *h);
API R cudaGraphExecHostNodeSetParams(U exec, U node, const host_node *h) { return told(bound() ? why : cuGraphExecHostNodeSetParams(exec, node, h)); }
R cuGraphAddEventRecordNode(U *node, U graph, const U *after, size_t count, U event);
API R cudaGraphAddEventRecordNode(U *node, U graph, const U *after, size_t count, U event) { return told(bound() ? why : cuGraphAddEventRecordNode(node, graph, after, count, event)); }
R cuGraphAddEventWaitNode(U *node, U graph, const U *after, size_t count, U event);
API R cudaGraphAddEventWaitNode(U *node, U graph, const U *after, size_t count, U event) { return told(bound() ? why : cuGraphAddEventWaitNode(node, graph, after, count, event)); }
R cuGraphAddMemAllocNode(U *node, U graph, const U *after, size_t count, void *a);
API R cudaGraphAddMemAllocNode(U *node, U graph, const U *after, size_t count, void *a) { return told(bound() ? why : cuGraphAddMemAllocNode(node, graph, after, count, a)); }
R cuGraphAddMemFreeNode(U *node, U graph, const U *after, size_t count, U address);
API R cudaGraphAddMemFreeNode(U *node, U graph, const U *after, size_t count, U address) { return told(bound() ? why : cuGraphAddMemFreeNode(node, graph, after, count, address)); }
R cuGraphKernelNodeGetParams(U node, kernel_node *k);
API R cudaGraphKernelNodeGetParams(U node, kernel_node *k) { return told(bound() ? why : cuGraphKernelNodeGetParams(node, k)); }
R cuGraphAddDependencies_v2(U graph, const U *from, const U *to, const void *edges, size_t count);
API R cudaGraphAddDependencies_v2(U graph, const U *from, const U *to, const void *edges, size_t count) { return told(bound() ? why : cuGraphAddDependencies_v2(graph, from, to, edges, count)); }
R cuGraphRemoveDependencies_v2(U graph, const U *from, const U *to, const void *edges, size_t count);
API R cudaGraphRemoveDependencies_v2(U graph, const U *from, const U *to, const void *edges, size_t count) { return told(bound() ? why : cuGraphRemoveDependencies_v2(graph, from, to, edges, count)); }
R cuGraphGetEdges_v2(U graph, U *from, U *to, void *edges, size_t *count);
API R cudaGraphGetEdges_v2(U graph, U *from, U *to, void *edges, size_t *count) { return told(bound() ? why : cuGraphGetEdges_v2(graph, from, to, edges, count)); }
R cuGraphNodeGetDependencies_v2(U node, U *nodes, void *edges, size_t *count);
API R cudaGraphNodeGetDependencies_v2(U node, U *nodes, void *edges, size_t *count) { return told(bound() ? why : cuGraphNodeGetDependencies_v2(node, nodes, edges, count)); }
R cuGraphNodeGetDependentNodes_v2(U node, U *nodes, void *edges, size_t *count);
API R cudaGraphNodeGetDependentNodes_v2(U node, U *nodes, void *edges, size_t *count) { return told(bound() ? why : cuGraphNodeGetDependentNodes_v2(node, nodes, edges, count)); }
#if MAJOR == 12
API R cudaGraphAddDependencies(U graph, const U *from, const U *to, size_t count) { return cudaGraphAddDependencies_v2(graph, from, to, 0, count); }
API R cudaGraphRemoveDependencies(U graph, const U *from, const U *to, size_t count) { return cudaGraphRemoveDependencies_v2(graph, from, to, 0, count); }
API R cudaGraphGetEdges(U graph, U *from, U *to, size_t *count) { return cudaGraphGetEdges_v2(graph, from, to, 0, count); }
API R cudaGraphNodeGetDependencies(U node, U *nodes, size_t *count) { return cudaGraphNodeGetDependencies_v2(node, nodes, 0, count); }
API R cudaGraphNodeGetDependentNodes(U node, U *nodes, size_t *count) { return cudaGraphNodeGetDependentNodes_v2(node, nodes, 0, count); }
#else
API R cudaGraphAddDependencies(U graph, const U *from, const U *to, const void *edges, size_t count) { return cudaGraphAddDependencies_v2(graph, from, to, edges, count); }
API R cudaGraphRemoveDependencies(U graph, const U *from, const U *to, const void *edges, size_t count) { return cudaGraphRemoveDependencies_v2(graph, from, to, edges, count); }
API R cudaGraphGetEdges(U graph, U *from, U *to, void *edges, size_t *count) { return cudaGraphGetEdges_v2(graph, from, to, edges, count); }
API R cudaGraphNodeGetDependencies(U node, U *nodes, void *edges, size_t *count) { return cudaGraphNodeGetDependencies_v2(node, nodes, edges, count); }
API R cudaGraphNodeGetDependentNodes(U node, U *nodes, void *edges, size_t *count) { return cudaGraphNodeGetDependentNodes_v2(node, nodes, edges, count); }
#endif
API R cudaGraphKernelNodeSetParams(U node, const kernel_node *k) { return cudaGraphExecKernelNodeSetParams(0, node, k); } /* to the device, no executable is the graph itself */
API R cudaGraphExecMemcpyNodeSetParams1D(U exec, U node, U to, U from, size_t bytes, int kind) {
    (void)kind;
    return CALL("graph_set_copy", "iiiiiiii", exec, node, to, (U)bytes, from, (U)bytes, (U)bytes, (U)1);
}
API R cudaGraphExecMemsetNodeSetParams(U exec, U node, const fill_node *f) {
    WANT(f);
    return CALL("graph_set_fill", "iiiiiiii", exec, node, f->to, (U)f->pitch, (U)f->value, (U)f->width, (U)f->count, (U)f->height);
}
API R cudaGraphMemcpyNodeSetParams1D(U node, U to, U from, size_t bytes, int kind) { return cudaGraphExecMemcpyNodeSetParams1D(0, node, to, from, bytes, kind); }
API R cudaGraphMemsetNodeSetParams(U node, const fill_node *f) { return cudaGraphExecMemsetNodeSetParams(0, node, f); }
API R cudaGraphHostNodeSetParams(U node, const host_node *h) { return cudaGraphExecHostNodeSetParams(0, node, h); }
extern R cuGraphConditionalHandleCreate(U *handle, U graph, U context, unsigned value, unsigned flags);
API R cudaGraphConditionalHandleCreate(U *handle, U graph, unsigned value, unsigned flags) { return told(bound() ? why : cuGraphConditionalHandleCreate(handle, graph, 0, value, flags)); }
typedef struct { /* cudaGraphNodeParams */
    int type, reserved[3];
    union {
        kernel_node kernel;
        struct { int reserved[4]; copy_3d own; } copy;
        fill_node fill;
        host_node host;
        char room[232];
    };
} any_node;
extern R cuGraphAddNode(U *node, U graph, const U *after, size_t count, void *n);
static R add_node(U *node, U graph, const U *after, size_t count, any_node *n) {
    WANT(node && n);
    if (n->type == 0) return cudaGraphAddKernelNode(node, graph, after, count, &n->kernel);
    if (n->type == 1) return cudaGraphAddMemcpyNode(node, graph, after, count, &n->copy.own);
    return told(bound() ? why : cuGraphAddNode(node, graph, after, count, n)); /* what is the same in the driver API */
}
API R cudaGraphAddNode_v2(U *node, U graph, const U *after, const void *edges, size_t count, any_node *n) { (void)edges; return add_node(node, graph, after, count, n); }
#if MAJOR >= 13
API R cudaGraphAddNode(U *node, U graph, const U *after, const void *edges, size_t count, any_node *n) { (void)edges; return add_node(node, graph, after, count, n); }
#else
API R cudaGraphAddNode(U *node, U graph, const U *after, size_t count, any_node *n) { return add_node(node, graph, after, count, n); }
#endif
API R cudaGraphExecNodeSetParams(U exec, U node, any_node *n) {
    WANT(n);
    if (n->type == 0) return cudaGraphExecKernelNodeSetParams(exec, node, &n->kernel);
    if (n->type == 2) return cudaGraphExecMemsetNodeSetParams(exec, node, &n->fill);
    if (n->type == 3) return cudaGraphExecHostNodeSetParams(exec, node, &n->host);
    return told(smemsim_unknown("cudaGraphExecNodeSetParams of other nodes than kernels, fills and host functions"));
}
API R cudaGraphNodeSetParams(U node, any_node *n) { return cudaGraphExecNodeSetParams(0, node, n); }
extern R cuStreamUpdateCaptureDependencies_v2(U stream, const U *after, const void *edges, size_t count, unsigned flags);
API R cudaStreamUpdateCaptureDependencies_v2(U stream, const U *after, const void *edges, size_t count, unsigned flags) { return told(bound() ? why : cuStreamUpdateCaptureDependencies_v2(stream, after, edges, count, flags)); }
#if MAJOR >= 13
API R cudaStreamUpdateCaptureDependencies(U stream, const U *after, const void *edges, size_t count, unsigned flags) { return cudaStreamUpdateCaptureDependencies_v2(stream, after, edges, count, flags); }
#else
API R cudaStreamUpdateCaptureDependencies(U stream, const U *after, size_t count, unsigned flags) { return cudaStreamUpdateCaptureDependencies_v2(stream, after, 0, count, flags); }
#endif
extern R cuGraphNodeFindInClone(U *node, U original, U clone);
API R cudaGraphNodeFindInClone(U *node, U original, U clone) { return told(bound() ? why : cuGraphNodeFindInClone(node, original, clone)); }
extern R cuGraphMemAllocNodeGetParams(U node, void *a);
API R cudaGraphMemAllocNodeGetParams(U node, void *a) { return told(bound() ? why : cuGraphMemAllocNodeGetParams(node, a)); }
extern R cuGraphMemFreeNodeGetParams(U node, U *address);
API R cudaGraphMemFreeNodeGetParams(U node, U *address) { return told(bound() ? why : cuGraphMemFreeNodeGetParams(node, address)); }
extern R cuGraphHostNodeGetParams(U node, void *h);
API R cudaGraphHostNodeGetParams(U node, void *h) { return told(bound() ? why : cuGraphHostNodeGetParams(node, h)); }
extern R cuGraphMemsetNodeGetParams(U node, void *f);
API R cudaGraphMemsetNodeGetParams(U node, void *f) { return told(bound() ? why : cuGraphMemsetNodeGetParams(node, f)); }
extern R cuGraphEventRecordNodeGetEvent(U node, U *event);
API R cudaGraphEventRecordNodeGetEvent(U node, U *event) { return told(bound() ? why : cuGraphEventRecordNodeGetEvent(node, event)); }
extern R cuGraphEventWaitNodeGetEvent(U node, U *event);
API R cudaGraphEventWaitNodeGetEvent(U node, U *event) { return told(bound() ? why : cuGraphEventWaitNodeGetEvent(node, event)); }
extern R cuGraphChildGraphNodeGetGraph(U node, U *graph);
API R cudaGraphChildGraphNodeGetGraph(U node, U *graph) { return told(bound() ? why : cuGraphChildGraphNodeGetGraph(node, graph)); }
extern R cuGraphDebugDotPrint(U graph, const char *path, unsigned flags);
API R cudaGraphDebugDotPrint(U graph, const char *path, unsigned flags) { return told(bound() ? why : cuGraphDebugDotPrint(graph, path, flags)); }
extern R cuUserObjectCreate(U *object, void *data, void *destroy, unsigned count, unsigned flags);
API R cudaUserObjectCreate(U *object, void *data, void *destroy, unsigned count, unsigned flags) { return told(bound() ? why : cuUserObjectCreate(object, data, destroy, count, flags)); }
extern R cuUserObjectRetain(U object, unsigned count);
API R cudaUserObjectRetain(U object, unsigned count) { return told(bound() ? why : cuUserObjectRetain(object, count)); }
extern R cuUserObjectRelease(U object, unsigned count);
API R cudaUserObjectRelease(U object, unsigned count) { return told(bound() ? why : cuUserObjectRelease(object, count)); }
extern R cuGraphRetainUserObject(U graph, U object, unsigned count, unsigned flags);
API R cudaGraphRetainUserObject(U graph, U object, unsigned count, unsigned flags) { return told(bound() ? why : cuGraphRetainUserObject(graph, object, count, flags)); }
extern R cuGraphReleaseUserObject(U graph, U object, unsigned count);
API R cudaGraphReleaseUserObject(U graph, U object, unsigned count) { return told(bound() ? why : cuGraphReleaseUserObject(graph, object, count)); }
API R cudaGraphAddChildGraphNode(U *node, U graph, const U *after, size_t count, U child) { return CALL("graph_add_child", "ibi|I", graph, after, count * 8, child, node); }

/* Libraries, and the way to the driver */

API R cudaLibraryLoadData(U *library, const void *code, void *jit, void **jit_values, unsigned jit_count, void *options, void **values, unsigned count) {
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    return told(bound() ? why : smemsim_load(code, "", library));
}
API R cudaLibraryUnload(U library) { return CALL("unload", "i", library); }
API R cudaLibraryGetKernel(U *kernel, U library, const char *name) { return CALL("function", "is|I", library, name, kernel); }
API R cudaLibraryGetKernelCount(unsigned *count, U library) { WANT(count); U n = 0; R error = CALL("function_count", "i|I", library, &n); *count = n; return error; }
API R cudaLibraryEnumerateKernels(U *kernels_, unsigned count, U library) { return CALL("functions", "ii|B", library, (U)count, kernels_, (size_t)count * 8); }
API R cudaLibraryGetGlobal(U *address, size_t *bytes, U library, const char *name) { return CALL("variable", "is|II", library, name, address, bytes); }
API R cudaLibraryGetManaged(U *address, size_t *bytes, U library, const char *name) { return CALL("variable", "is|II", library, name, address, bytes); }
R cuGetProcAddress_v2(const char *name, void **function, int version, U flags, int *status);
API R cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, U flags, int *status) {
    bound();
    R error = cuGetProcAddress_v2(name, function, version, flags, status);
    return told(error == NOT_FOUND && status ? 0 : error);
}
API R cudaGetDriverEntryPoint(const char *name, void **function, U flags, int *status) { return cudaGetDriverEntryPointByVersion(name, function, MAJOR * 1000, flags, status); }
R cuGetExportTable(const void **table, const void *id);
API R cudaGetExportTable(const void **table, const void *id) { return cuGetExportTable(table, id); }
API channel cudaCreateChannelDesc(int x, int y, int z, int w, int f) { channel c = {x, y, z, w, f}; return c; }
