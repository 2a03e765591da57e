/* libcuda.so.1: the driver API. Each function translates its arguments; contexts, which belong to threads, are kept here. */
#define _GNU_SOURCE
#include "door.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CALL(...) answer(smemsim_call(__VA_ARGS__))
#define NEED                                   \
    do {                                       \
        R state_ = needed();                   \
        if (state_) return state_;             \
    } while (0)
#define NEED_ON(stream) do { R state_ = needed_on(stream); if (state_) return state_; } while (0)
#define NEED_START do { R state_ = started(); if (state_) return state_; } while (0) /* what names memory, a pool or an event, which know their context: as an H100 has it */
#define WANT(pointer) if (!(pointer)) return INVALID_VALUE

/* Is there an array? What is said of a short one is believed; of more entries than programs have, memory is asked. */
static int has(const void *at, size_t count, size_t each) { return !count || (at && (count <= 64 || smemsim_is_mapped((U)at, product(count, each)))); }

/* The runtime's codes that the driver does not have: configuration, pitch, direction. */
static R answer(R error) { return error == 9 || error == 12 || error == 21 ? INVALID_VALUE : error; }

/* Contexts: all of them are the one device's, and each thread has a stack of them. */

#define PRIMARY 0x100
static __thread U stack[64];
static __thread int depth;
static U contexts = PRIMARY;
static int primary_count, primary_flags, is_initialized;
#define MOST_CONTEXTS 4096
static char is_destroyed[MOST_CONTEXTS]; /* by what a context is above the primary one */
static int is_gone(U context) { return context - PRIMARY < MOST_CONTEXTS && is_destroyed[context - PRIMARY]; }

API U smemsim_context(void) { return depth ? stack[depth - 1] : 0; }
API void smemsim_make_current(void) { /* of the runtime, which initializes the driver */
    is_initialized = 1;
    if (!depth) stack[depth++] = PRIMARY;
    if (!primary_count || is_destroyed[0]) primary_count += !primary_count, is_destroyed[0] = 0;
}
static R started(void) { return !is_initialized ? NOT_INITIALIZED : smemsim_is_over() ? 0 : smemsim_start(); }
static R needed(void) {
    if (!is_initialized) return NOT_INITIALIZED;
    R error = smemsim_is_over() ? 0 : smemsim_start();
    return error ? error : !depth || !stack[depth - 1] ? INVALID_CONTEXT : is_gone(stack[depth - 1]) ? DESTROYED : 0;
}
static unsigned resets;
API unsigned smemsim_resets(void) { return __atomic_load_n(&resets, __ATOMIC_ACQUIRE); }
API R smemsim_reset(void) { /* all memory and code are gone, and the primary context until somebody asks for it */
    R error = smemsim_call("reset", "");
    if (!error) is_destroyed[0] = 1, primary_count = 0, __atomic_add_fetch(&resets, 1, __ATOMIC_RELEASE);
    return error;
}

static R needed_on(U stream) { return stream > 2 ? started() : needed(); } /* a stream of the program's own has its context with it; the default ones take the current one */

API R cuInit(unsigned flags) {
    if (flags) return INVALID_VALUE;
    is_initialized = 1;
    return smemsim_start();
}
API R cuDriverGetVersion(int *version) {
    WANT(version);
    U found = 0;
    R error = smemsim_call("driver_version", "|I", &found);
    *version = error ? 0 : (int)found;
    return 0;
}
API R cuGetErrorString(R error, const char **text) {
    const smemsim_error *found = smemsim_error_of(error);
    WANT(text);
    *text = found ? found->text : 0;
    return found ? 0 : INVALID_VALUE;
}
API R cuGetErrorName(R error, const char **text) {
    const smemsim_error *found = smemsim_error_of(error);
    WANT(text);
    *text = found ? found->driver : 0;
    return found ? 0 : INVALID_VALUE;
}

/* Devices */

API R cuDeviceGet(int *device, int ordinal) {
    WANT(device);
    R error = smemsim_start();
    if (error) return error;
    *device = 0;
    return ordinal ? 101 : 0;
}
API R cuDeviceGetCount(int *count) {
    WANT(count);
    R error = smemsim_start();
    *count = !error;
    return error == NO_DEVICE ? 0 : error;
}
API R cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    if (!name || length <= 0) return INVALID_VALUE;
    return answer(smemsim_card_name(name, length));
}
API R cuDeviceGetUuid_v2(void *uuid, int device) { (void)device; return CALL("device_uuid", "|B", uuid, (size_t)16); }
API R cuDeviceGetUuid(void *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
API R cuDeviceGetLuid(char *luid, unsigned *mask, int device) {
    WANT(luid && mask);
    (void)device;
    memset(luid, 0, 8), *mask = 1;
    return 0;
}
API R cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; return CALL("total_memory", "|I", bytes); }
API R cuDeviceGetAttribute(int *value, int attribute, int device) {
    WANT(value);
    if (device) return 101;
    U found = 0;
    R error = CALL("attribute", "i|I", (U)attribute, &found);
    if (!error) *value = (int)found;
    return error;
}
API R cuDeviceComputeCapability(int *major, int *minor, int device) {
    R error = cuDeviceGetAttribute(major, 75, device);
    return error ? error : cuDeviceGetAttribute(minor, 76, device);
}
API R cuDeviceGetPCIBusId(char *id, int length, int device) { WANT(id); (void)device; snprintf(id, length, BUS_ID); return 0; }
API R cuDeviceGetByPCIBusId(int *device, const char *id) { WANT(device); *device = 0; return smemsim_is_card(id) ? 0 : 101; }
API R cuDeviceGetDefaultMemPool(U *pool, int device) { (void)device; return CALL("pool_default", "ii|I", (U)1, (U)1, pool); }
API R cuDeviceGetMemPool(U *pool, int device) { (void)device; return CALL("pool_current", "|I", pool); }
API R cuDeviceSetMemPool(int device, U pool) { (void)device; return CALL("pool_use", "i", pool); }
API R cuMemGetDefaultMemPool(U *pool, const int *location, int type) { WANT(pool && location); return CALL("pool_default", "ii|I", (U)type, (U)location[0], pool); }
API R cuMemGetMemPool(U *pool, const int *location, int type) { WANT(pool && location); return location[0] == 1 && type == 1 ? CALL("pool_current", "|I", pool) : cuMemGetDefaultMemPool(pool, location, type); }
API R cuMemSetMemPool(const int *location, int type, U pool) { WANT(location); return location[0] == 1 && type == 1 ? CALL("pool_use", "i", pool) : 0; }
API R cuDeviceGetGraphMemAttribute(int device, int attribute, U *value) { (void)device; return CALL("graph_memory", "i|I", (U)attribute, value); }
API R cuDeviceSetGraphMemAttribute(int device, int attribute, const U *value) { (void)device; WANT(value); return CALL("set_graph_memory", "ii", (U)attribute, *value); }
API R cuDeviceGraphMemTrim(int device) { (void)device; return CALL("trim_graph_memory", "|"); }
API R cuDeviceCanAccessPeer(int *can, int a, int b) { WANT(can); (void)a, (void)b; *can = 0; return 0; }
API R cuDeviceGetP2PAttribute(int *value, int attribute, int a, int b) { WANT(value); (void)attribute, (void)a, (void)b; *value = 0; return 101; }
API R cuDevicePrimaryCtxRetain(U *context, int device) {
    WANT(context);
    if (device) return 101;
    if (!is_initialized) return NOT_INITIALIZED;
    R error = smemsim_start();
    if (!error) *context = PRIMARY, primary_count++, is_destroyed[0] = 0;
    return error;
}
API R cuDevicePrimaryCtxRelease_v2(int device) { (void)device; if (primary_count) primary_count--; return 0; }
API R cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
API R cuDevicePrimaryCtxReset_v2(int device) { (void)device; return answer(smemsim_reset()); }
API R cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }
API R cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { (void)device; primary_flags = flags; return 0; }
API R cuDevicePrimaryCtxSetFlags(int device, unsigned flags) { return cuDevicePrimaryCtxSetFlags_v2(device, flags); }
API R cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    (void)device;
    if (flags) *flags = primary_flags;
    if (active) *active = primary_count > 0;
    return 0;
}

/* Contexts */

static R create(U *context) {
    WANT(context);
    if (!is_initialized) return NOT_INITIALIZED;
    R error = smemsim_start();
    if (error) return error;
    if (depth == 64) return UNKNOWN;
    *context = stack[depth++] = __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
    return 0;
}
API R cuCtxCreate(U *context, unsigned flags, int device) { (void)flags, (void)device; return create(context); }
API R cuCtxCreate_v2(U *context, unsigned flags, int device) { (void)flags, (void)device; return create(context); }
API R cuCtxCreate_v3(U *context, void *affinity, int n, unsigned flags, int device) { (void)affinity, (void)n, (void)flags, (void)device; return create(context); }
API R cuCtxCreate_v4(U *context, void *params, unsigned flags, int device) { (void)params, (void)flags, (void)device; return create(context); }
API R cuCtxDestroy_v2(U context) {
    WANT(context && context != PRIMARY);
    if (is_gone(context)) return DESTROYED;
    if (context - PRIMARY < MOST_CONTEXTS) is_destroyed[context - PRIMARY] = 1;
    if (depth && stack[depth - 1] == context) depth--;
    return 0;
}
API R cuCtxDestroy(U context) { return cuCtxDestroy_v2(context); }
static unsigned char attached[MOST_CONTEXTS]; /* how often beyond its creation (deprecated since CUDA 4; PyCUDA ends its contexts so) */
API R cuCtxAttach(U *context, unsigned flags) {
    NEED;
    WANT(context && !flags);
    *context = smemsim_context();
    if (*context - PRIMARY < MOST_CONTEXTS) attached[*context - PRIMARY]++;
    return 0;
}
API R cuCtxDetach(U context) {
    WANT(context);
    if (context - PRIMARY < MOST_CONTEXTS && attached[context - PRIMARY]) { attached[context - PRIMARY]--; return 0; }
    return cuCtxDestroy_v2(context);
}
API R cuCtxPushCurrent_v2(U context) {
    WANT(context);
    if (depth == 64) return INVALID_CONTEXT;
    stack[depth++] = context;
    return 0;
}
API R cuCtxPushCurrent(U context) { return cuCtxPushCurrent_v2(context); }
API R cuCtxPopCurrent_v2(U *context) {
    if (!depth) return INVALID_CONTEXT;
    depth--;
    if (context) *context = stack[depth];
    return 0;
}
API R cuCtxPopCurrent(U *context) { return cuCtxPopCurrent_v2(context); }
API R cuCtxSetCurrent(U context) {
    if (!is_initialized) return NOT_INITIALIZED;
    if (depth) stack[depth - 1] = context;
    else if (context) stack[depth++] = context;
    if (depth && !stack[depth - 1]) depth--;
    return 0;
}
API R cuCtxGetCurrent(U *context) {
    WANT(context);
    if (!is_initialized) return NOT_INITIALIZED;
    *context = smemsim_context();
    return 0;
}
API R cuCtxGetDevice(int *device) { NEED; WANT(device); *device = 0; return 0; }
API R cuCtxGetDevice_v2(int *device, U context) { WANT(device); (void)context; *device = 0; return 0; }
API R cuCtxGetFlags(unsigned *flags) { WANT(flags); NEED; *flags = primary_flags; return 0; }
API R cuCtxSetFlags(unsigned flags) { NEED; primary_flags = flags; return 0; }
API R cuCtxGetId(U context, unsigned long long *id) { WANT(id); *id = context ? context : smemsim_context(); return 0; }
API R cuCtxSynchronize(void) { NEED; return answer(smemsim_synchronize(0)); }
API R cuCtxSynchronize_v2(U context) { (void)context; return answer(smemsim_synchronize(0)); }
API R cuCtxGetLimit(size_t *value, int limit) { NEED; return CALL("limit", "i|I", (U)limit, value); }
API R cuCtxSetLimit(int limit, size_t value) { NEED; return CALL("set_limit", "ii", (U)limit, (U)value); }
API R cuCtxGetApiVersion(U context, unsigned *version) { WANT(version); (void)context; *version = 3020; return 0; }
API R cuCtxGetStreamPriorityRange(int *least, int *greatest) { NEED; if (least) *least = 0; if (greatest) *greatest = -5; return 0; }
API R cuCtxGetCacheConfig(int *config) { NEED; WANT(config); U c = 0; R error = CALL("cache_config", "|I", &c); *config = (int)c; return error; }
API R cuCtxSetCacheConfig(int config) { NEED; return CALL("set_cache_config", "i", (U)config); }
API R cuCtxGetSharedMemConfig(int *config) { WANT(config); *config = 1; return 0; }
API R cuCtxSetSharedMemConfig(int config) { (void)config; return 0; }
API R cuCtxResetPersistingL2Cache(void) { return 0; }
API R cuCtxEnablePeerAccess(U context, unsigned flags) { (void)context, (void)flags; return 217; }
API R cuCtxDisablePeerAccess(U context) { (void)context; return 705; }

/* Code */

/* Can this process read so many bytes there? Code comes without its size, and what its header says may be wrong. */
static int is_readable(const void *at, size_t size) {
    enum { PAGE = 4096, MANY = 256 };
    const char *next = at, *end = next + size;
    char byte[MANY];
    struct iovec own[MANY], theirs[MANY];
    if (end < next) return 0;
    while (next < end) {
        int n = 0;
        for (; n < MANY && next < end; n++, next = (const char *)(((uintptr_t)next & -(uintptr_t)PAGE) + PAGE))
            own[n] = (struct iovec){byte + n, 1}, theirs[n] = (struct iovec){(void *)next, 1};
        ssize_t got = process_vm_readv(getpid(), own, n, theirs, n, 0);
        if (got < 0 && errno != EFAULT) return 1; /* a system that does not answer */
        if (got != n) return 0;
    }
    return 1;
}
#define NO_SIZE ((size_t)-1)
#define MOST_CODE (((U)1 << 31) - 1) /* a message holds no more */
#define ELF_WORD 0x464C457F
/* Bytes of an ELF file, up to the end of what lies last: section headers, sections. */
static size_t elf_size(const unsigned char *at, size_t most) {
    uint16_t entry, count;
    U sections;
    if (most < 64 || !is_readable(at, 64)) return NO_SIZE;
    memcpy(&sections, at + 40, 8), memcpy(&entry, at + 58, 2), memcpy(&count, at + 60, 2);
    U table = (U)entry * count, size = sections + table;
    if (sections > most || size > most || !is_readable(at + sections, table)) return NO_SIZE;
    for (unsigned n = 0; entry >= 64 && n < count; n++) {
        const unsigned char *row = at + sections + n * entry;
        uint32_t type;
        U offset, length;
        memcpy(&type, row + 4, 4), memcpy(&offset, row + 24, 8), memcpy(&length, row + 32, 8);
        if (type == 8) continue; /* a section without bytes in the file */
        if (offset > most || length > most - offset) return NO_SIZE;
        if (offset + length > size) size = offset + length;
    }
    return size;
}
/* The first four bytes of code; 0 where there are fewer: a text may end with the last byte of the memory. */
static uint32_t first_word(const void *code) {
    uint32_t word = 0;
    if (is_readable(code, 4)) memcpy(&word, code, 4);
    return word;
}
/* Bytes of a text up to its zero byte; NO_SIZE where it goes on to memory that is not there. */
static size_t text_size(const char *text) {
    enum { PAGE = 4096 };
    for (const char *at = text;;) {
        size_t room = PAGE - ((uintptr_t)at & (PAGE - 1)), found;
        if (!is_readable(at, 1)) return NO_SIZE;
        if ((found = strnlen(at, room)) < room) return at + found - text;
        if ((size_t)((at += room) - text) > MOST_CODE) return NO_SIZE;
    }
}
/* Bytes of code of at most so many: a fat binary and an ELF file say it, a text ends with a zero byte. NO_SIZE for what is damaged. */
static size_t code_size(const void *code, size_t most) {
    const unsigned char *at = code;
    uint32_t magic = first_word(code);
    uint16_t head;
    U size;
    if (!is_readable(at, 1)) return NO_SIZE;
    if (magic != 0xBA55ED50 && magic != ELF_WORD) return text_size(code);
    if (magic == 0xBA55ED50) {
        if (most < 16 || !is_readable(at, 16)) return NO_SIZE;
        memcpy(&head, at + 6, 2), memcpy(&size, at + 8, 8);
        size = size > most ? NO_SIZE : size + head;
    } else
        size = elf_size(at, most);
    return size <= most && is_readable(at, size) ? size : NO_SIZE;
}
static R load_code(const void *code, size_t most, const char *managed, U *module) {
    WANT(code && module);
    if (most == MOST_CODE && first_word(code) == 0x466243B1) { /* a wrapper of fatbinary_section.h: the binary, and in version 2 those that were linked */
        uint32_t version;
        const void *data, *const *linked;
        if (!is_readable(code, 24)) return 200;
        memcpy(&version, (char *)code + 4, 4), memcpy(&data, (char *)code + 8, 8), memcpy(&linked, (char *)code + 16, 8);
        char *all = 0;
        size_t size = 0;
        for (int n = -1; n < 0 || (version == 2 && linked); n++) {
            const void *part = data;
            if (n >= 0) {
                if (!is_readable(linked + n, sizeof part)) return free(all), 200;
                memcpy(&part, linked + n, sizeof part);
                if (!part) break;
            }
            if (!part) continue;
            size_t more = code_size(part, MOST_CODE);
            char *longer = more == NO_SIZE || more > MOST_CODE - size - 8 ? 0 : realloc(all, size + more + 8);
            if (!longer) return free(all), 200;
            U length = more;
            all = longer;
            memcpy(all + size, &length, 8), memcpy(all + size + 8, part, more);
            size += more + 8;
        }
        R error = smemsim_call("load", "bsi|I", all ? all : "", size, managed, (U)1, module);
        free(all);
        return error;
    }
    size_t size = code_size(code, most);
    return size == NO_SIZE ? 200 : smemsim_call("load", "bsi|I", code, size, managed, (U)0, module);
}
API R smemsim_load(const void *code, const char *managed, U *module) { return load_code(code, MOST_CODE, managed, module); }
/* The logs of a compiler that options ask for: 3 and 5 are buffers for information and errors, 4 and 6 their sizes, and what was written there. */
static R logged(R error, unsigned count, const int *options, void **values) {
    size_t room[2] = {0, 0}, said = 0; /* for information, for errors */
    for (unsigned n = 0; n < count; n++)
        if (options[n] == 4 || options[n] == 6) room[options[n] == 6] = (unsigned)(size_t)values[n]; /* an unsigned int */
    for (unsigned n = 0; n < count; n++)
        if ((options[n] == 3 || options[n] == 5) && values[n] && room[options[n] == 5]) {
            char *log = values[n];
            *log = 0;
            if (!error || options[n] == 3) continue;
            smemsim_call("load_log", "|B", log, room[1] - 1);
            log[said = strnlen(log, room[1] - 1)] = 0;
        }
    for (unsigned n = 0; n < count; n++)
        if (options[n] == 4 || options[n] == 6) values[n] = (void *)(options[n] == 6 ? said : 0);
    return error;
}
API R cuModuleLoadDataEx(U *module, const void *code, unsigned count, int *options, void **values) {
    NEED;
    WANT(module && code && has(options, count, sizeof *options) && has(values, count, sizeof *values));
    return logged(answer(smemsim_load(code, "", module)), count, options, values);
}
API R cuModuleLoadData(U *module, const void *code) { return cuModuleLoadDataEx(module, code, 0, 0, 0); }
API R cuModuleLoadFatBinary(U *module, const void *code) { return cuModuleLoadDataEx(module, code, 0, 0, 0); }
/* The bytes of a regular file, and 64 zero bytes behind them; 301 for anything else. A pipe is no file of code, and is not waited for. */
static R file_of(const char *name, char **data, size_t *size) {
    int file = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat about;
    if (file < 0) return 301;
    if (fstat(file, &about) || !S_ISREG(about.st_mode)) return close(file), 301;
    size_t got = 0;
    *size = about.st_size;
    *data = *size > MOST_CODE - 64 ? 0 : calloc(1, *size + 64);
    for (ssize_t more = 1; *data && got < *size && more > 0; got += more > 0 ? more : 0) more = read(file, *data + got, *size - got);
    close(file);
    if (!*data) return 200;
    return got == *size ? 0 : (free(*data), 301);
}
static R load_file(U *module, const char *name) {
    char *data;
    size_t size;
    R error = file_of(name, &data, &size);
    if (error) return error;
    error = answer(load_code(data, size, "", module));
    free(data);
    return error;
}
API R cuModuleLoad(U *module, const char *name) { NEED; WANT(module && name); return load_file(module, name); }
API R cuModuleUnload(U module) { NEED; return CALL("unload", "i", module); }
API R cuModuleGetLoadingMode(int *mode) { WANT(mode); *mode = 2; return 0; }
API R cuModuleGetFunction(U *function, U module, const char *name) { NEED; WANT(function && name); return CALL("function", "is|I", module, name, function); }
API R cuModuleGetFunctionCount(unsigned *count, U module) {
    WANT(count);
    U n = 0;
    R error = CALL("function_count", "i|I", module, &n);
    *count = n;
    return error;
}
API R cuModuleEnumerateFunctions(U *functions, unsigned count, U module) { return CALL("functions", "ii|B", module, (U)count, functions, (size_t)count * 8); }
API R cuModuleGetGlobal_v2(U *address, size_t *bytes, U module, const char *name) { NEED; WANT(name); return CALL("variable", "is|II", module, name, address, bytes); }
API R cuLibraryLoadData(U *library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options, void **values, unsigned count) {
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    R error = smemsim_start();
    if (error) return error;
    WANT(library && code);
    return logged(answer(smemsim_load(code, "", library)), jit_count, jit, jit_values);
}
API R cuLibraryLoadFromFile(U *library, const char *name, int *jit, void **jit_values, unsigned jit_count, int *options, void **values, unsigned count) {
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    R error = smemsim_start();
    if (error) return error;
    WANT(library && name);
    return load_file(library, name);
}
API R cuLibraryUnload(U library) { return CALL("unload", "i", library); }
API R cuLibraryGetKernel(U *kernel, U library, const char *name) { return CALL("function", "is|I", library, name, kernel); }
API R cuLibraryGetKernelCount(unsigned *count, U library) { return cuModuleGetFunctionCount(count, library); }
API R cuLibraryEnumerateKernels(U *kernels, unsigned count, U library) { return cuModuleEnumerateFunctions(kernels, count, library); }
API R cuLibraryGetModule(U *module, U library) { WANT(module); *module = library; return 0; }
API R cuLibraryGetGlobal(U *address, size_t *bytes, U library, const char *name) { return CALL("variable", "is|II", library, name, address, bytes); }
API R cuLibraryGetManaged(U *address, size_t *bytes, U library, const char *name) { return CALL("variable", "is|II", library, name, address, bytes); }
API R cuKernelGetFunction(U *function, U kernel) { WANT(function && kernel); *function = kernel; return 0; }
API R cuKernelGetLibrary(U *library, U kernel) { return CALL("function_module", "i|I", kernel, library); }
API R cuFuncGetModule(U *module, U function) { return CALL("function_module", "i|I", function, module); }
API R cuFuncIsLoaded(int *state, U function) { WANT(state); (void)function; *state = 1; return 0; }
API R cuFuncLoad(U function) { (void)function; return 0; }
static R name_of(const char **name, U function) {
    char text[8192] = "";
    WANT(name && function);
    R error = CALL("function_name", "i|B", function, text, sizeof text - 1);
    if (!error) *name = strdup(text); /* lives as long as the kernel: for ever */
    return error;
}
API R cuFuncGetName(const char **name, U function) { return name_of(name, function); }
API R cuKernelGetName(const char **name, U kernel) { return name_of(name, kernel); }
API R cuFuncGetAttribute(int *value, int attribute, U function) {
    WANT(value);
    U found = 0;
    R error = CALL("function_attribute", "ii|I", function, (U)attribute, &found);
    if (!error) *value = (int)found;
    return error;
}
API R cuFuncSetAttribute(U function, int attribute, int value) { return CALL("set_function_attribute", "iii", function, (U)attribute, (U)(int64_t)value); }
API R cuKernelGetAttribute(int *value, int attribute, U kernel, int device) { (void)device; return cuFuncGetAttribute(value, attribute, kernel); }
API R cuKernelSetAttribute(int attribute, int value, U kernel, int device) { (void)device; return cuFuncSetAttribute(kernel, attribute, value); }
API R cuFuncSetCacheConfig(U function, int config) { (void)function, (void)config; return 0; }
API R cuKernelSetCacheConfig(U kernel, int config, int device) { (void)kernel, (void)config, (void)device; return 0; }
API R cuFuncSetSharedMemConfig(U function, int config) { (void)function, (void)config; return 0; }
API R cuFuncGetParamInfo(U function, size_t index, size_t *offset, size_t *size) {
    smemsim_layout layout;
    R error = smemsim_layout_of(function, &layout);
    if (error) return answer(error);
    if (index >= layout.count) return INVALID_VALUE;
    if (offset) *offset = layout.places[2 * index];
    if (size) *size = layout.places[2 * index + 1];
    return 0;
}
API R cuKernelGetParamInfo(U kernel, size_t index, size_t *offset, size_t *size) { return cuFuncGetParamInfo(kernel, index, offset, size); }

/* Linking: of PTX alone, whose texts become one */

/* Of each linker the options, which say where its logs go. */
typedef struct logs { U state; unsigned count; int *options; void **values; struct logs *next; } logs;
static logs *linkers;
API R cuLinkCreate_v2(unsigned count, int *options, void **values, U *state) {
    WANT(state && has(options, count, sizeof *options) && has(values, count, sizeof *values));
    NEED;
    R error = CALL("link_create", "|I", state);
    logs *own = error ? 0 : malloc(sizeof *own);
    int entered = smemsim_enter();
    if (own) *own = (logs){*state, count, memcpy(malloc(count * sizeof *options + 1), options ? options : (int *)"", options ? count * sizeof *options : 0), values, linkers}, linkers = own;
    smemsim_leave(entered);
    return error;
}
API R cuLinkAddData_v2(U state, int type, void *data, size_t size, const char *name, unsigned count, int *options, void **values) {
    (void)type, (void)count, (void)options, (void)values;
    return CALL("link_add", "ibs", state, data, size, name ? name : "");
}
API R cuLinkAddFile_v2(U state, int type, const char *path, unsigned count, int *options, void **values) {
    WANT(path);
    char *data;
    size_t bytes;
    R error = file_of(path, &data, &bytes);
    if (error) return error;
    error = cuLinkAddData_v2(state, type, data, bytes, path, count, options, values);
    free(data);
    return error;
}
API R cuLinkComplete(U state, void **code, size_t *bytes) {
    U size = 0;
    R error = CALL("link_complete", "i|I", state, &size);
    int entered = smemsim_enter();
    for (logs *l = linkers; l; l = l->next)
        if (l->state == state && l->values) logged(error, l->count, l->options, l->values);
    smemsim_leave(entered);
    if (error) return error;
    char *text = calloc(1, size + 1);
    error = CALL("link_text", "i|B", state, text, (size_t)size);
    if (code) *code = text; /* lives as long as the linker: for ever */
    if (bytes) *bytes = size;
    return error;
}
API R cuLinkDestroy(U state) {
    int entered = smemsim_enter();
    for (logs **l = &linkers; *l; l = &(*l)->next)
        if ((*l)->state == state) {
            logs *own = *l;
            *l = own->next;
            free(own->options), free(own);
            break;
        }
    smemsim_leave(entered);
    return 0;
}

/* Launches */

typedef struct { unsigned grid[3], block[3], shared; U stream; void *attributes; unsigned count; } launch_config;

API R cuLaunchKernelEx(const launch_config *config, U function, void **arguments, void **extra) {
    NEED;
    WANT(config && function);
    return answer(smemsim_launch(function, config->grid, config->block, config->shared, config->stream, arguments, extra, config->attributes, config->count));
}
API R cuLaunchKernel(U function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, U stream, void **arguments, void **extra) {
    launch_config config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, 0, 0};
    return cuLaunchKernelEx(&config, function, arguments, extra);
}
API R cuLaunchCooperativeKernel(U function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, U stream, void **arguments) {
    uint32_t attribute[18] = {2, 0, 1};
    launch_config config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, attribute, 1};
    return cuLaunchKernelEx(&config, function, arguments, 0);
}
/* Launches as they were before CUDA 4: a function keeps its block and its parameters (PyCUDA). */
typedef struct held { U function; unsigned block[3], shared; size_t bytes, room; char *parameters; struct held *next; } held;
static R held_of(U function, held **found) {
    static held *all;
    smemsim_layout layout;
    R error = smemsim_layout_of(function, &layout);
    if (error) return error;
    int entered = smemsim_enter();
    for (*found = all; *found && (*found)->function != function; *found = (*found)->next);
    if (!*found && (*found = calloc(1, sizeof(held)))) (*found)->function = function, (*found)->block[0] = (*found)->block[1] = (*found)->block[2] = 1, (*found)->next = all, all = *found;
    smemsim_leave(entered);
    return *found ? 0 : 2;
}
#define HELD(function) NEED; held *h; do { R state_ = answer(held_of(function, &h)); if (state_) return state_; } while (0)
static R hold(held *h, size_t bytes) {
    enum { MOST = 1 << 16 }; /* more than any kernel takes */
    if (bytes > MOST) return INVALID_VALUE;
    if (bytes > h->room) {
        char *more = realloc(h->parameters, bytes);
        if (!more) return 2;
        memset(more + h->room, 0, bytes - h->room);
        h->parameters = more, h->room = bytes;
    }
    return 0;
}
API R cuFuncSetBlockShape(U function, int x, int y, int z) { HELD(function); WANT(x > 0 && y > 0 && z > 0); h->block[0] = x, h->block[1] = y, h->block[2] = z; return 0; }
API R cuFuncSetSharedSize(U function, unsigned bytes) { HELD(function); h->shared = bytes; return 0; }
API R cuParamSetSize(U function, unsigned bytes) { HELD(function); R error = hold(h, bytes); if (!error) h->bytes = bytes; return error; }
API R cuParamSetv(U function, int offset, const void *data, unsigned bytes) {
    HELD(function);
    WANT(offset >= 0 && (data || !bytes));
    R error = hold(h, (size_t)offset + bytes);
    if (!error && bytes) memcpy(h->parameters + offset, data, bytes);
    return error;
}
API R cuParamSeti(U function, int offset, unsigned value) { return cuParamSetv(function, offset, &value, sizeof value); }
API R cuParamSetf(U function, int offset, float value) { return cuParamSetv(function, offset, &value, sizeof value); }
API R cuLaunchGridAsync(U function, int width, int height, U stream) {
    HELD(function);
    WANT(width > 0 && height > 0);
    void *extra[] = {(void *)1, h->parameters, (void *)2, &h->bytes, 0}; /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END */
    return cuLaunchKernel(function, width, height, 1, h->block[0], h->block[1], h->block[2], h->shared, stream, 0, extra);
}
API R cuLaunchGrid(U function, int width, int height) { return cuLaunchGridAsync(function, width, height, 0); }
API R cuLaunch(U function) { return cuLaunchGridAsync(function, 1, 1, 0); }
API R cuLaunchHostFunc(U stream, void *function, void *data) { NEED; WANT(function); return CALL("call_host", "iii", stream, function, data); }
API R cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, U function, int threads, size_t shared, unsigned flags) {
    WANT(count);
    (void)flags;
    U found = 0;
    R error = CALL("occupancy", "iii|I", function, (U)threads, (U)shared, &found);
    if (!error) *count = (int)found;
    return error;
}
API R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, U function, int threads, size_t shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, threads, shared, 0);
}
API R cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, U function, size_t (*shared_of)(int), size_t shared, int limit, unsigned flags) {
    WANT(grid && block);
    int best = 0, most = 1024, sms = 0, allowed = 1024;
    cuDeviceGetAttribute(&sms, 16, 0), cuFuncGetAttribute(&allowed, 0, function);
    if (allowed < most) most = allowed;
    if (limit && limit < most) most = limit;
    *block = *grid = 0;
    for (int n = most; n >= 32; n -= 32) {
        int count = 0;
        R error = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&count, function, n, shared_of ? shared_of(n) : shared, flags);
        if (error) return error;
        if (count * n > best) best = count * n, *block = n, *grid = count * sms;
    }
    return 0;
}
API R cuOccupancyMaxPotentialBlockSize(int *grid, int *block, U function, size_t (*shared_of)(int), size_t shared, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit, 0);
}
API R cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, U function, int blocks, int threads) { return CALL("available_shared", "iii|I", function, (U)blocks, (U)threads, bytes); }
API R cuOccupancyMaxActiveClusters(int *count, U function, const launch_config *config) {
    WANT(count && config);
    U found = 0;
    static const uint32_t none[5];
    const uint32_t *cluster = none, *given = config->attributes;
    for (unsigned n = 0; n < config->count; n++, given += 18)
        if (given[0] == 4) cluster = given;
    R error = CALL("clusters", "iiiiii|I", function, (U)config->block[0] * config->block[1] * config->block[2], (U)config->shared, (U)cluster[2], (U)cluster[3], (U)cluster[4], &found);
    if (!error) *count = (int)found;
    return error;
}
API R cuOccupancyMaxPotentialClusterSize(int *size, U function, const launch_config *config) {
    WANT(size && config);
    U found = 0;
    R error = CALL("cluster_size", "iii|I", function, (U)config->block[0] * config->block[1] * config->block[2], (U)config->shared, &found);
    if (!error) *size = (int)found;
    return error;
}

/* Tensor maps */

API R cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, U address, const U *dim, const U *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    WANT(map && rank > 0 && rank < 33 && dim && box && steps);
    return CALL("encode_tiled", "iiibbbbiiii|B", (U)type, (U)rank, address, dim, (size_t)rank * 8, strides ? strides : dim, (size_t)(strides ? rank - 1 : 0) * 8, box, (size_t)rank * 4, steps,
                (size_t)rank * 4, (U)interleave, (U)swizzle, (U)promotion, (U)fill, map, (size_t)128);
}
API R cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, U address, const U *dim, const U *strides, const int *low, const int *high, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    WANT(map && rank > 2 && rank < 33 && dim && strides && low && high && steps);
    return CALL("encode_im2col", "iiibbbbiibiiii|B", (U)type, (U)rank, address, dim, (size_t)rank * 8, strides, (size_t)(rank - 1) * 8, low, (size_t)(rank - 2) * 4, high, (size_t)(rank - 2) * 4,
                (U)channels, (U)pixels, steps, (size_t)rank * 4, (U)interleave, (U)swizzle, (U)promotion, (U)fill, map, (size_t)128);
}
API R cuTensorMapEncodeIm2colWide(void *map, int type, uint32_t rank, U address, const U *dim, const U *strides, int low, int high, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int mode, int swizzle, int promotion, int fill) {
    WANT(map && rank > 2 && rank < 33 && dim && strides && steps);
    return CALL("encode_im2col_wide", "iiibbiiiibiiiii|B", (U)type, (U)rank, address, dim, (size_t)rank * 8, strides, (size_t)(rank - 1) * 8, (U)(int64_t)low, (U)(int64_t)high, (U)channels, (U)pixels,
                steps, (size_t)rank * 4, (U)interleave, (U)mode, (U)swizzle, (U)promotion, (U)fill, map, (size_t)128);
}
API R cuTensorMapReplaceAddress(void *map, U address) { return CALL("replace_address", "bi|B", map, (size_t)128, address, map, (size_t)128); }

/* Memory */

#define POINTER_CONTEXT 1 /* CU_POINTER_ATTRIBUTE_... */
#define POINTER_SYNC_MEMOPS 6
/* Memory belongs to the context that was current: where nothing is kept of it, to the primary one. */
API R smemsim_made(R error, const U *address) {
    U context = smemsim_context();
    return error || !context || context == PRIMARY ? error : smemsim_call("keep_of_pointer", "iii", *address, (U)POINTER_CONTEXT, context);
}
static R allocate(U *address, size_t bytes, const char *kind, void *caller) {
    char text[1024];
    WANT(address);
    return answer(smemsim_made(smemsim_call("allocate", "iss|I", (U)bytes, kind, smemsim_caller(caller, text, sizeof text), address), address));
}
#define CALLER __builtin_return_address(0)
API R cuMemAlloc_v2(U *address, size_t bytes) { NEED; return allocate(address, bytes, "device", CALLER); }
API R cuMemAllocPitch_v2(U *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    WANT(pitch);
    NEED;
    (void)element;
    *pitch = pitch_of(width);
    return allocate(address, product(*pitch, height), "device", CALLER);
}
API R cuMemAllocManaged(U *address, size_t bytes, unsigned flags) { NEED; (void)flags; return allocate(address, bytes, "managed", CALLER); }
API R cuMemHostAlloc(U *address, size_t bytes, unsigned flags) { NEED; (void)flags; return allocate(address, bytes, "pinned", CALLER); }
API R cuMemAllocHost_v2(U *address, size_t bytes) { NEED; return allocate(address, bytes, "pinned", CALLER); }
API R cuMemAllocAsync(U *address, size_t bytes, U stream) { NEED_ON(stream); char text[1024]; WANT(address); *address = 0; return !bytes ? 0 : CALL("allocate_async", "isi|I", (U)bytes, smemsim_caller(CALLER, text, sizeof text), stream, address); }
API R cuMemAllocFromPoolAsync(U *address, size_t bytes, U pool, U stream) { NEED_ON(stream); char text[1024]; WANT(address); *address = 0; return !bytes ? 0 : CALL("allocate_from_pool", "isii|I", (U)bytes, smemsim_caller(CALLER, text, sizeof text), pool, stream, address); }
API R cuMemFree_v2(U address) { NEED_START; return CALL("free", "i", address); }
API R cuMemFreeHost(U address) { NEED; return CALL("free", "i", address); }
API R cuMemFreeAsync(U address, U stream) { NEED_ON(stream); return !address ? 0 : CALL("free_async", "ii", address, stream); }
API R cuMemHostGetDevicePointer_v2(U *address, U host, unsigned flags) { (void)flags; WANT(address); *address = host; return CALL("check_host", "i", host); }
API R cuMemHostGetFlags(unsigned *flags, U host) { WANT(flags); *flags = 2; return CALL("check_host", "i", host); }
API R cuMemHostRegister_v2(U address, size_t bytes, unsigned flags) { NEED; (void)flags; char text[1024]; WANT(smemsim_is_mapped(address, bytes)); return CALL("register", "iis", address, (U)bytes, smemsim_caller(CALLER, text, sizeof text)); }
API R cuMemHostUnregister(U address) { NEED; return CALL("unregister", "i", address); }
API R cuMemGetInfo_v2(size_t *available, size_t *total) { NEED; return CALL("memory_info", "|II", available, total); }
API R cuMemGetAddressRange_v2(U *base, size_t *size, U address) { NEED; return CALL("range", "i|II", address, base, size); }
API R cuPointerGetAttribute(void *value, int attribute, U address) {
    WANT(value);
    U kind = 0, base = 0, size = 0, number = 0;
    R error = CALL("pointer", "i|IIII", address, &kind, &base, &size, &number);
    if (error) return error;
    switch (attribute) {
        case POINTER_CONTEXT: {
            U context = 0;
            error = CALL("kept_of_pointer", "ii|I", address, (U)POINTER_CONTEXT, &context);
            *(U *)value = context ? context : PRIMARY;
            return error;
        }
        case 2: *(unsigned *)value = kind == 1 ? 1 : 2; return 0;
        case 3: *(U *)value = address; return 0;
        case 4: *(U *)value = address; return kind == 2 ? INVALID_VALUE : 0;
        case POINTER_SYNC_MEMOPS: {
            U on = 0;
            error = CALL("kept_of_pointer", "ii|I", address, (U)POINTER_SYNC_MEMOPS, &on);
            *(int *)value = (int)on;
            return error;
        }
        case 7: *(U *)value = number; return 0;
        case 8: *(int *)value = kind == 3; return 0;
        case 9: *(int *)value = 0; return 0;
        case 10: case 13: *(int *)value = 0; return 0;
        case 11: *(U *)value = base; return 0;
        case 12: *(size_t *)value = size; return 0;
        case 14: *(int *)value = 1; return 0;
        case 15: *(U *)value = 0; return 0;
        case 17: return CALL("pool_at", "i|I", address, value);
        case 16: *(unsigned *)value = 3; return 0;
        default: return INVALID_VALUE;
    }
}
API R cuPointerGetAttributes(unsigned count, int *attributes, void **values, U address) {
    WANT(count && has(attributes, count, sizeof *attributes) && has(values, count, sizeof *values));
    for (unsigned n = 0; n < count; n++) {
        static const unsigned char sizes[] = {0, 8, 4, 8, 8, 16, 4, 8, 4, 4, 4, 8, 8, 4, 4, 8, 4, 8};
        if (cuPointerGetAttribute(values[n], attributes[n], address) && attributes[n] < 18) memset(values[n], 0, sizes[attributes[n]]);
    }
    return 0;
}
API R cuPointerSetAttribute(const void *value, int attribute, U address) {
    WANT(value && attribute == POINTER_SYNC_MEMOPS); /* the one that can be set: copies are over when they return, whatever it says */
    return CALL("keep_of_pointer", "iii", address, (U)attribute, (U)!!*(const unsigned *)value);
}
API R cuMemPoolCreate(U *pool, const void *props) { NEED_START; WANT(pool && props); return CALL("pool_create", "b|I", props, (size_t)88, pool); }
API R cuMemPoolDestroy(U pool) { return CALL("pool_destroy", "i", pool); }
API R cuMemPoolTrimTo(U pool, size_t keep) { (void)pool, (void)keep; return 0; }
API R cuMemPoolSetAttribute(U pool, int attribute, void *value) { WANT(value); return CALL("set_pool_attribute", "iii", pool, (U)attribute, attribute < 4 ? (U)*(int *)value : *(U *)value); }
API R cuMemPoolGetAttribute(U pool, int attribute, void *value) {
    U found = 0;
    WANT(value);
    R error = CALL("pool_attribute", "ii|I", pool, (U)attribute, &found);
    if (error) return error;
    if (attribute < 4) *(int *)value = (int)found;
    else *(U *)value = found;
    return 0;
}
API R cuMemPoolSetAccess(U pool, const void *descriptions, size_t count) { (void)pool, (void)descriptions, (void)count; return 0; }
API R cuMemPoolGetAccess(int *flags, U pool, void *location) { WANT(flags); (void)pool, (void)location; *flags = 3; return 0; }
API R cuMemAdvise_v2(U address, size_t bytes, int advice, U location) { NEED; return CALL("advise", "iiiii", address, (U)bytes, (U)advice, location & 0xffffffff, location >> 32); }
API R cuMemAdvise(U address, size_t bytes, int advice, int device) { return cuMemAdvise_v2(address, bytes, advice, device < 0 ? 2 : 1 | (U)device << 32); }
API R cuMemPrefetchAsync_v2(U address, size_t bytes, U location, unsigned flags, U stream) { NEED; (void)flags; return CALL("prefetch", "iiiii", address, (U)bytes, location & 0xffffffff, location >> 32, stream); }
API R cuMemPrefetchAsync(U address, size_t bytes, int device, U stream) { return cuMemPrefetchAsync_v2(address, bytes, device < 0 ? 2 : 1 | (U)device << 32, 0, stream); }
API R cuMemRangeGetAttribute(void *data, size_t size, int attribute, U address, size_t bytes) {
    NEED;
    WANT(data && size && size % 4 == 0);
    return CALL("advised", "iiii|B", address, (U)bytes, (U)attribute, (U)(size / 4), data, size);
}
API R cuMemRangeGetAttributes(void **data, size_t *sizes, int *attributes, size_t count, U address, size_t bytes) {
    WANT(count && has(data, count, sizeof *data) && has(sizes, count, sizeof *sizes) && has(attributes, count, sizeof *attributes));
    R error = 0;
    for (size_t n = 0; n < count && !error; n++) error = cuMemRangeGetAttribute(data[n], sizes[n], attributes[n], address, bytes);
    return error;
}

/* Virtual memory management */

API R cuMemGetAllocationGranularity(size_t *bytes, const int *prop, int option) { (void)option; WANT(bytes && prop); *bytes = 2 << 20; return prop[0] == 1 ? 0 : INVALID_VALUE; }
API R cuMemCreate(U *handle, size_t bytes, const int *prop, U flags) {
    NEED;
    (void)flags;
    char text[1024];
    WANT(handle && prop && prop[0] == 1);
    if (prop[2] != 1) return smemsim_unknown("cuMemCreate of memory of the host");
    return CALL("physical_create", "ibs|I", (U)bytes, prop, (size_t)32, smemsim_caller(CALLER, text, sizeof text), handle);
}
API R cuMemRelease(U handle) { NEED; return CALL("physical_release", "i", handle); }
API R cuMemRetainAllocationHandle(U *handle, U address) { NEED; WANT(handle); return CALL("physical_at", "i|I", address, handle); }
API R cuMemGetAllocationPropertiesFromHandle(int *prop, U handle) { NEED; WANT(prop); return CALL("physical_properties", "i|B", handle, prop, (size_t)32); }
API R cuMemAddressReserve(U *address, size_t bytes, size_t align, U wanted, U flags) { NEED; (void)wanted, (void)flags; WANT(address); return CALL("range_reserve", "ii|I", (U)bytes, (U)align, address); }
API R cuMemAddressFree(U address, size_t bytes) { NEED; return CALL("range_free", "ii", address, (U)bytes); }
API R cuMemMap(U address, size_t bytes, size_t offset, U handle, U flags) { NEED; (void)flags; return CALL("range_map", "iiii", address, (U)bytes, (U)offset, handle); }
API R cuMemUnmap(U address, size_t bytes) { NEED; return CALL("range_unmap", "ii", address, (U)bytes); }
typedef struct { int type, id, flags; } access_of;
API R cuMemSetAccess(U address, size_t bytes, const access_of *given, size_t count) {
    NEED;
    WANT(count && has(given, count, sizeof *given));
    for (size_t n = 0; n < count; n++)
        if (given[n].type == 1) {
            R error = CALL("range_access", "iii", address, (U)bytes, (U)given[n].flags);
            if (error) return error;
        }
    return 0;
}
API R cuMemGetAccess(U *flags, const void *location, U address) { NEED; (void)location; WANT(flags); return CALL("range_access_at", "i|I", address, flags); }

static R copy(U to, U from, size_t bytes, int kind, U stream) { return CALL("copy", "iiiii", to, from, (U)bytes, (U)kind, stream); }
API R cuMemcpy(U to, U from, size_t bytes) { NEED; return copy(to, from, bytes, 4, 0); }
API R cuMemcpyAsync(U to, U from, size_t bytes, U stream) { NEED_ON(stream); return copy(to, from, bytes, 4, stream); }
API R cuMemcpyHtoD_v2(U to, U from, size_t bytes) { NEED; return copy(to, from, bytes, 1, 0); }
API R cuMemcpyDtoH_v2(U to, U from, size_t bytes) { NEED; return copy(to, from, bytes, 2, 0); }
API R cuMemcpyDtoD_v2(U to, U from, size_t bytes) { NEED; return copy(to, from, bytes, 3, 0); }
API R cuMemcpyHtoDAsync_v2(U to, U from, size_t bytes, U stream) { NEED_ON(stream); return copy(to, from, bytes, 1, stream); }
API R cuMemcpyDtoHAsync_v2(U to, U from, size_t bytes, U stream) { NEED_ON(stream); return copy(to, from, bytes, 2, stream); }
API R cuMemcpyDtoDAsync_v2(U to, U from, size_t bytes, U stream) { NEED_ON(stream); return copy(to, from, bytes, 3, stream); }
API R cuMemcpyPeer(U to, U a, U from, U b, size_t bytes) { NEED; (void)a, (void)b; return copy(to, from, bytes, 3, 0); }
API R cuMemcpyPeerAsync(U to, U a, U from, U b, size_t bytes, U stream) { NEED_ON(stream); (void)a, (void)b; return copy(to, from, bytes, 3, stream); }

/* Arrays: to copies they are memory, whose rows lie one behind the other. */

typedef struct { size_t x, y, z, lod; unsigned type; U host, device, array, context; size_t pitch, height; } side_3d;
typedef struct { side_3d from, to; size_t width, height, depth; } copy_3d;
typedef struct { U address, element, row, rows, width, height, depth, flags; int channel[5]; } array_about;
static R about_array(U array, array_about *a) {
    return CALL("array_about", "i|IIIIIIIIB", array, &a->address, &a->element, &a->row, &a->rows, &a->width, &a->height, &a->depth, &a->flags, a->channel, sizeof a->channel);
}
static R as_memory(side_3d *s, size_t width, size_t height, size_t depth) {
    array_about a;
    R error = s->type == 3 ? about_array(s->array, &a) : 0;
    if (error) return error;
    if (s->type == 1) s->device = s->host;
    if (s->type == 3) s->device = a.address, s->pitch = a.row, s->height = a.rows;
    if (s->type == 3 && !(is_within(s->x, width, a.row) && is_within(s->y, height, a.rows) && is_within(s->z, depth, a.depth ? a.depth : 1))) return INVALID_VALUE;
    if (!s->pitch) s->pitch = width;
    if (!s->height) s->height = height;
    s->device += (s->z * s->height + s->y) * s->pitch + s->x;
    return 0;
}
static R copy3(const copy_3d *given, U stream) {
    WANT(given);
    copy_3d c = *given;
    R error = as_memory(&c.from, c.width, c.height, c.depth);
    if (!error) error = as_memory(&c.to, c.width, c.height, c.depth);
    for (size_t z = 0; !error && z < c.depth; z++)
        error = CALL("copy_2d", "iiiiiiii", c.to.device + z * c.to.height * c.to.pitch, (U)c.to.pitch, c.from.device + z * c.from.height * c.from.pitch, (U)c.from.pitch, (U)c.width, (U)c.height, (U)4, stream);
    return error;
}
API R cuMemcpy3D_v2(const copy_3d *c) { NEED; return copy3(c, 0); }
API R cuMemcpy3DAsync_v2(const copy_3d *c, U stream) { NEED_ON(stream); return copy3(c, stream); }
API R cuMemcpy3DPeer(const copy_3d *c) { return cuMemcpy3D_v2(c); } /* CUDA_MEMCPY3D_PEER has contexts, which are the one device's, where the other has nothing */
API R cuMemcpy3DPeerAsync(const copy_3d *c, U stream) { NEED_ON(stream); return copy3(c, stream); }
typedef struct { size_t x, y; unsigned type; U host, device, array; size_t pitch; } side_2d;
typedef struct { side_2d from, to; size_t width, height; } copy_2d;
static R copy2(const copy_2d *c, U stream) {
    WANT(c);
    const side_2d *f = &c->from, *t = &c->to;
    copy_3d all = {{f->x, f->y, 0, 0, f->type, f->host, f->device, f->array, 0, f->pitch, 0}, {t->x, t->y, 0, 0, t->type, t->host, t->device, t->array, 0, t->pitch, 0}, c->width, c->height, 1};
    return copy3(&all, stream);
}
API R cuMemcpy2D_v2(const copy_2d *c) { NEED; return copy2(c, 0); }
API R cuMemcpy2DUnaligned_v2(const copy_2d *c) { NEED; return copy2(c, 0); }
API R cuMemcpy2DAsync_v2(const copy_2d *c, U stream) { NEED_ON(stream); return copy2(c, stream); }
/* Bytes one behind the other, from a place in an array on. */
static R place_in(U array, size_t offset, size_t bytes, U *address) {
    array_about a;
    R error = about_array(array, &a);
    if (!error && !is_within(offset, bytes, a.row * a.rows * (a.depth ? a.depth : 1))) error = INVALID_VALUE;
    *address = error ? 0 : a.address + offset;
    return error;
}
static R copy_in(U array, size_t offset, U other, size_t bytes, int is_to, int kind, U stream) {
    U own;
    R error = place_in(array, offset, bytes, &own);
    return error ? error : is_to ? copy(own, other, bytes, kind, stream) : copy(other, own, bytes, kind, stream);
}
API R cuMemcpyHtoA_v2(U to, size_t offset, U from, size_t bytes) { NEED; return copy_in(to, offset, from, bytes, 1, 1, 0); }
API R cuMemcpyHtoAAsync_v2(U to, size_t offset, U from, size_t bytes, U stream) { NEED_ON(stream); return copy_in(to, offset, from, bytes, 1, 1, stream); }
API R cuMemcpyAtoH_v2(U to, U from, size_t offset, size_t bytes) { NEED; return copy_in(from, offset, to, bytes, 0, 2, 0); }
API R cuMemcpyAtoHAsync_v2(U to, U from, size_t offset, size_t bytes, U stream) { NEED_ON(stream); return copy_in(from, offset, to, bytes, 0, 2, stream); }
API R cuMemcpyDtoA_v2(U to, size_t offset, U from, size_t bytes) { NEED; return copy_in(to, offset, from, bytes, 1, 3, 0); }
API R cuMemcpyAtoD_v2(U to, U from, size_t offset, size_t bytes) { NEED; return copy_in(from, offset, to, bytes, 0, 3, 0); }
API R cuMemcpyAtoA_v2(U to, size_t to_offset, U from, size_t offset, size_t bytes) {
    NEED;
    U other;
    R error = place_in(from, offset, bytes, &other);
    return error ? error : copy_in(to, to_offset, other, bytes, 1, 3, 0);
}
typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } array_3d;
typedef struct { size_t width, height; int format; unsigned channels; } array_2d;
static R make_array(U *array, const array_3d *d, unsigned levels, void *caller) {
    char text[1024];
    WANT(array && d);
    return CALL("array_create_of", "iiiiiiis|I", (U)d->width, (U)d->height, (U)d->depth, (U)d->format, (U)d->channels, (U)d->flags, (U)levels, smemsim_caller(caller, text, sizeof text), array);
}
API R cuArray3DCreate_v2(U *array, const array_3d *d) { NEED; return make_array(array, d, 0, CALLER); }
API R cuArrayCreate_v2(U *array, const array_2d *d) {
    NEED;
    WANT(d);
    array_3d all = {d->width, d->height, 0, d->format, d->channels, 0};
    return make_array(array, &all, 0, CALLER);
}
API R cuArray3DGetDescriptor_v2(array_3d *d, U array) {
    array_about a;
    U format = 0, channels = 0;
    NEED;
    WANT(d);
    R error = about_array(array, &a);
    if (!error) error = CALL("array_format", "i|II", array, &format, &channels);
    if (!error) *d = (array_3d){a.width, a.height, a.depth, (int)format, (unsigned)channels, (unsigned)a.flags};
    return error;
}
API R cuArrayGetDescriptor_v2(array_2d *d, U array) {
    array_3d all;
    WANT(d);
    R error = cuArray3DGetDescriptor_v2(&all, array);
    if (!error) *d = (array_2d){all.width, all.height, all.format, all.channels};
    return error;
}
API R cuArrayDestroy(U array) { NEED; return CALL("array_free", "i", array); }
API R cuMipmappedArrayCreate(U *array, const array_3d *d, unsigned levels) { NEED; return make_array(array, d, levels ? levels : 1, CALLER); }
API R cuMipmappedArrayGetLevel(U *array, U all, unsigned level) { NEED; WANT(array); return CALL("array_level", "ii|I", all, (U)level, array); }
API R cuMipmappedArrayDestroy(U array) { NEED; return CALL("array_free", "i", array); }

/* Texture and surface objects */

enum { RESOURCE = 144, SAMPLER = 104 }; /* bytes of CUDA_RESOURCE_DESC and CUDA_TEXTURE_DESC */

API R cuTexObjectCreate(U *object, const void *resource, const void *how, const void *view) {
    NEED;
    WANT(object && resource && how);
    return view ? smemsim_unknown("cuTexObjectCreate with a view") : CALL("texture_create_of", "bb|I", resource, (size_t)RESOURCE, how, (size_t)SAMPLER, object);
}
API R cuTexObjectDestroy(U object) { NEED; return CALL("object_destroy", "i", object); }
API R cuTexObjectGetResourceDesc(void *resource, U object) { NEED; WANT(resource); return CALL("object_resource", "i|B", object, resource, (size_t)RESOURCE); }
API R cuTexObjectGetTextureDesc(void *how, U object) { NEED; WANT(how); return CALL("object_sampler", "i|B", object, how, (size_t)SAMPLER); }
API R cuSurfObjectCreate(U *object, const void *resource) { NEED; WANT(object && resource); return CALL("surface_create_of", "b|I", resource, (size_t)RESOURCE, object); }
API R cuSurfObjectDestroy(U object) { NEED; return CALL("object_destroy", "i", object); }
API R cuSurfObjectGetResourceDesc(void *resource, U object) { NEED; WANT(resource); return CALL("object_resource", "i|B", object, resource, (size_t)RESOURCE); }

static R fill(U to, size_t pitch, unsigned value, int width, size_t count, size_t height, U stream) {
    return CALL("fill", "iiiiiii", to, (U)pitch, (U)value, (U)width, (U)count, (U)height, stream);
}
API R cuMemsetD8_v2(U to, unsigned char value, size_t count) { NEED; return fill(to, count * 1, value, 1, count, 1, 0); }
API R cuMemsetD8Async(U to, unsigned char value, size_t count, U stream) { NEED_ON(stream); return fill(to, count * 1, value, 1, count, 1, stream); }
API R cuMemsetD16_v2(U to, unsigned short value, size_t count) { NEED; return fill(to, count * 2, value, 2, count, 1, 0); }
API R cuMemsetD16Async(U to, unsigned short value, size_t count, U stream) { NEED_ON(stream); return fill(to, count * 2, value, 2, count, 1, stream); }
API R cuMemsetD32_v2(U to, unsigned value, size_t count) { NEED; return fill(to, count * 4, value, 4, count, 1, 0); }
API R cuMemsetD32Async(U to, unsigned value, size_t count, U stream) { NEED_ON(stream); return fill(to, count * 4, value, 4, count, 1, stream); }
API R cuMemsetD2D8_v2(U to, size_t pitch, unsigned char value, size_t width, size_t height) { NEED; return fill(to, pitch, value, 1, width, height, 0); }
API R cuMemsetD2D16_v2(U to, size_t pitch, unsigned short value, size_t width, size_t height) { NEED; return fill(to, pitch, value, 2, width, height, 0); }
API R cuMemsetD2D32_v2(U to, size_t pitch, unsigned value, size_t width, size_t height) { NEED; return fill(to, pitch, value, 4, width, height, 0); }
API R cuMemsetD2D8Async(U to, size_t pitch, unsigned char value, size_t width, size_t height, U stream) { NEED_ON(stream); return fill(to, pitch, value, 1, width, height, stream); }
API R cuMemsetD2D16Async(U to, size_t pitch, unsigned short value, size_t width, size_t height, U stream) { NEED_ON(stream); return fill(to, pitch, value, 2, width, height, stream); }
API R cuMemsetD2D32Async(U to, size_t pitch, unsigned value, size_t width, size_t height, U stream) { NEED_ON(stream); return fill(to, pitch, value, 4, width, height, stream); }

/* Streams and events */

API R cuStreamCreateWithPriority(U *stream, unsigned flags, int priority) { NEED; WANT(stream); return CALL("stream_create", "ii|I", (U)flags, (U)(int64_t)priority, stream); }
API R cuStreamCreate(U *stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
API R cuStreamDestroy_v2(U stream) { NEED_ON(stream); return CALL("stream_destroy", "i", stream); }
API R cuStreamDestroy(U stream) { return cuStreamDestroy_v2(stream); }
API R cuStreamSynchronize(U stream) { NEED_ON(stream); return answer(smemsim_synchronize(stream)); }
API R cuStreamQuery(U stream) { NEED_ON(stream); return answer(smemsim_synchronize(stream)); }
API R cuStreamWaitEvent(U stream, U event, unsigned flags) { NEED; (void)flags; return CALL("stream_wait", "ii", stream, event); }
static R stream_info(U stream, int *priority, unsigned *flags) {
    U p = 0, f = 0;
    R error = CALL("stream_info", "i|II", stream, &p, &f);
    if (priority) *priority = (int)p;
    if (flags) *flags = (unsigned)f;
    return error;
}
API R cuStreamGetPriority(U stream, int *priority) { return stream_info(stream, priority, 0); }
API R cuStreamGetFlags(U stream, unsigned *flags) { return stream_info(stream, 0, flags); }
API R cuStreamGetId(U stream, unsigned long long *id) { WANT(id); *id = stream; return 0; }
API R cuStreamGetCtx(U stream, U *context) { WANT(context); (void)stream; *context = smemsim_context(); return 0; }
API R cuStreamGetCtx_v2(U stream, U *context, U *green) { if (green) *green = 0; return cuStreamGetCtx(stream, context); } /* there are no green contexts */
API R cuStreamGetDevice(U stream, int *device) { WANT(device); (void)stream; *device = 0; return 0; }
API R cuStreamGetAttribute(U stream, int attribute, void *value) { NEED_ON(stream); WANT(value); return CALL("stream_attribute", "ii|B", stream, (U)attribute, value, (size_t)64); }
API R cuStreamSetAttribute(U stream, int attribute, const void *value) { NEED_ON(stream); WANT(value); return CALL("stream_set_attribute", "iib", stream, (U)attribute, value, (size_t)64); }
API R cuStreamCopyAttributes(U to, U from) { NEED; return CALL("stream_copy_attributes", "ii", to, from); }
API R cuStreamAttachMemAsync(U stream, U address, size_t bytes, unsigned flags) { (void)stream, (void)address, (void)bytes, (void)flags; return 0; }
API R cuStreamAddCallback(U stream, void *function, void *data, unsigned flags) { NEED; WANT(function); (void)flags; return CALL("call_back", "iii", stream, function, data); }
API R cuEventCreate(U *event, unsigned flags) { NEED; WANT(event); return CALL("event_create", "i|I", (U)flags, event); }
API R cuEventDestroy_v2(U event) { NEED_START; return CALL("event_destroy", "i", event); }
API R cuEventDestroy(U event) { return cuEventDestroy_v2(event); }
API R cuEventRecord(U event, U stream) {
    NEED_ON(stream); /* Dr.Jit 1.5 records events on one where no context is current */
    return CALL("event_record", "ii", event, stream);
}
API R cuEventRecordWithFlags(U event, U stream, unsigned flags) { (void)flags; return cuEventRecord(event, stream); }
API R cuEventSynchronize(U event) { NEED_START; return CALL("event_synchronize", "i", event); }
API R cuEventQuery(U event) { NEED_START; return CALL("event_synchronize", "i", event); }
API R cuEventElapsedTime_v2(float *milliseconds, U begin, U end) {
    WANT(milliseconds);
    NEED_START;
    U micro = 0;
    R error = CALL("event_elapsed", "ii|I", begin, end, &micro);
    if (!error) *milliseconds = (float)micro / 1000;
    return error;
}
API R cuEventElapsedTime(float *milliseconds, U begin, U end) { return cuEventElapsedTime_v2(milliseconds, begin, end); }

/* Graphs */

API R cuStreamBeginCapture_v2(U stream, int mode) { NEED; return CALL("capture_begin", "ii", stream, (U)mode); }
API R cuStreamBeginCapture(U stream) { return cuStreamBeginCapture_v2(stream, 0); }
API R cuStreamBeginCaptureToGraph(U stream, U graph, const U *after, const void *edges, size_t count, int mode) { NEED; (void)after, (void)edges, (void)count; return CALL("capture_to", "iii", stream, graph, (U)mode); }
API R cuStreamEndCapture(U stream, U *graph) { NEED; return CALL("capture_end", "i|I", stream, graph); }
API R cuStreamIsCapturing(U stream, int *status) {
    WANT(status);
    U found = 0;
    R error = CALL("capture_status", "i|II", stream, &found, (U *)0);
    *status = (int)found;
    return error;
}
API R cuStreamGetCaptureInfo_v3(U stream, int *status, U *id, U *graph, const U **after, const void **edges, size_t *count) {
    U found = 0, own = 0;
    R error = CALL("capture_status", "i|II", stream, &found, &own);
    if (status) *status = (int)found;
    if (id) *id = own;
    if (graph) *graph = own;
    static __thread U nodes[256];
    static __thread uint64_t plain[256]; /* of CUgraphEdgeData: none is special */
    U have = 0;
    if (!error && found) error = CALL("capture_nodes", "ii|IB", stream, (U)256, &have, nodes, sizeof nodes);
    if (after) *after = nodes;
    if (edges) *edges = plain;
    if (count) *count = have;
    return error;
}
API R cuStreamUpdateCaptureDependencies_v2(U stream, const U *after, const void *edges, size_t count, unsigned flags) { NEED; (void)edges; return CALL("capture_after", "ibi", stream, after, count * 8, (U)(flags & 1)); }
API R cuStreamUpdateCaptureDependencies(U stream, const U *after, size_t count, unsigned flags) { return cuStreamUpdateCaptureDependencies_v2(stream, after, 0, count, flags); }
API R cuStreamGetCaptureInfo_v2(U stream, int *status, U *id, U *graph, const U **after, size_t *count) { return cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, 0, count); }
API R cuStreamGetCaptureInfo(U stream, int *status, U *id) { return cuStreamGetCaptureInfo_v3(stream, status, id, 0, 0, 0, 0); }
API R cuThreadExchangeStreamCaptureMode(int *mode) { /* kept for who asks: a capture forbids nothing here */
    static __thread int own;
    WANT(mode && *mode >= 0 && *mode <= 2);
    int before = own;
    own = *mode, *mode = before;
    return 0;
}
API R cuGraphCreate(U *graph, unsigned flags) { (void)flags; return CALL("graph_create", "|I", graph); }
API R cuGraphDestroy(U graph) { return CALL("graph_destroy", "i", graph); }
API R cuGraphClone(U *clone, U graph) { return CALL("graph_clone", "i|I", graph, clone); }
API R cuGraphInstantiateWithFlags(U *exec, U graph, unsigned long long flags) { (void)flags; return CALL("graph_instantiate", "i|I", graph, exec); }
API R cuGraphInstantiate(U *exec, U graph, U *node, char *log, size_t size) { (void)node; if (log && size) *log = 0; return cuGraphInstantiateWithFlags(exec, graph, 0); }
API R cuGraphInstantiate_v2(U *exec, U graph, U *node, char *log, size_t size) { return cuGraphInstantiate(exec, graph, node, log, size); }
API R cuGraphInstantiateWithParams(U *exec, U graph, void *params) { (void)params; return cuGraphInstantiateWithFlags(exec, graph, 0); }
API R cuGraphExecDestroy(U exec) { return CALL("graph_destroy", "i", exec); }
API R cuGraphLaunch(U exec, U stream) { NEED; return CALL("graph_launch", "ii", exec, stream); }
API R cuGraphUpload(U exec, U stream) { (void)exec, (void)stream; return 0; }
API R cuGraphExecUpdate_v2(U exec, U graph, uint32_t *result) {
    R error = CALL("graph_update", "ii", exec, graph);
    if (result) memset(result, 0, 24), result[0] = error == 910 ? 2 : error != 0; /* 2: another topology */
    return error;
}
API R cuGraphGetNodes(U graph, U *nodes, size_t *count) {
    WANT(count);
    U have = 0;
    R error = CALL("graph_nodes", "ii|IB", graph, nodes ? (U)*count : (U)0, &have, nodes, nodes ? *count * 8 : (size_t)0);
    if (!error) *count = have;
    return error;
}
API R cuGraphNodeGetType(U node, int *type) {
    WANT(type);
    U found = 0;
    R error = CALL("node_type", "i|I", node, &found);
    *type = (int)found;
    return error;
}
typedef struct { U function; unsigned grid[3], block[3], shared; void **arguments, **extra; } kernel_node;
typedef struct { kernel_node own; U kernel, context; } kernel_node_2;
static kernel_node with_kernel(const kernel_node_2 *k) { kernel_node own = k->own; if (!own.function) own.function = k->kernel; return own; }
static R bank_of(const kernel_node *k, char **bank, unsigned *bytes) {
    smemsim_layout layout;
    R error = smemsim_layout_of(k->function, &layout);
    if (error) return error;
    *bytes = layout.bytes, *bank = calloc(1, layout.bytes + 8);
    for (unsigned n = 0; k->arguments && n < layout.count; n++) memcpy(*bank + layout.places[2 * n], k->arguments[n], layout.places[2 * n + 1]);
    return 0;
}
API R cuGraphAddKernelNode(U *node, U graph, const U *after, size_t count, const kernel_node *k) {
    WANT(k);
    char *bank = 0;
    unsigned bytes = 0;
    R error = bank_of(k, &bank, &bytes);
    if (!error)
        error = CALL("graph_add_kernel", "ibiiiiiiiib|I", graph, after, count * 8, k->function, (U)k->grid[0], (U)k->grid[1], (U)k->grid[2], (U)k->block[0], (U)k->block[1],
                     (U)k->block[2], (U)k->shared, bank, (size_t)bytes, node);
    free(bank);
    return error;
}
API R cuGraphAddKernelNode_v2(U *node, U graph, const U *after, size_t count, const kernel_node_2 *k) { WANT(k); kernel_node own = with_kernel(k); return cuGraphAddKernelNode(node, graph, after, count, &own); }
API R cuGraphExecKernelNodeSetParams(U exec, U node, const kernel_node *k) {
    WANT(k);
    char *bank = 0;
    unsigned bytes = 0;
    R error = bank_of(k, &bank, &bytes);
    if (!error)
        error = CALL("graph_set_kernel", "iiiiiiiiiib", exec, node, k->function, (U)k->grid[0], (U)k->grid[1], (U)k->grid[2], (U)k->block[0], (U)k->block[1], (U)k->block[2], (U)k->shared, bank,
                     (size_t)bytes);
    free(bank);
    return error;
}
API R cuGraphExecKernelNodeSetParams_v2(U exec, U node, const kernel_node_2 *k) { WANT(k); kernel_node own = with_kernel(k); return cuGraphExecKernelNodeSetParams(exec, node, &own); }
API R cuGraphAddEmptyNode(U *node, U graph, const U *after, size_t count) { return CALL("graph_add_empty", "ib|I", graph, after, count * 8, node); }
typedef struct { void *function, *data; } host_node;
API R cuGraphAddHostNode(U *node, U graph, const U *after, size_t count, const host_node *h) { WANT(h); return CALL("graph_add_host", "ibii|I", graph, after, count * 8, h->function, h->data, node); }
typedef struct { U to; size_t pitch; unsigned value, width; size_t count, height; } fill_node;
API R cuGraphAddMemsetNode(U *node, U graph, const U *after, size_t count, const fill_node *f, U context) {
    WANT(f);
    (void)context;
    return CALL("graph_add_fill", "ibiiiiii|I", graph, after, count * 8, f->to, (U)f->pitch, (U)f->value, (U)f->width, (U)f->count, (U)f->height, node);
}
API R cuGraphAddMemcpyNode(U *node, U graph, const U *after, size_t count, const copy_3d *c, U context) {
    WANT(c);
    (void)context;
    const side_3d *f = &c->from, *t = &c->to;
    U from = (f->type == 1 ? f->host : f->device) + f->x, to = (t->type == 1 ? t->host : t->device) + t->x;
    if (c->depth > 1 || f->type == 3 || t->type == 3 || f->y || t->y) return smemsim_unknown("cuGraphAddMemcpyNode of arrays or 3-D copies");
    return CALL("graph_add_copy", "ibiiiiii|I", graph, after, count * 8, to, t->pitch ? (U)t->pitch : (U)c->width, from, f->pitch ? (U)f->pitch : (U)c->width, (U)c->width,
                (U)c->height, node);
}
API R cuGraphExecMemcpyNodeSetParams(U exec, U node, const copy_3d *c, U context) {
    WANT(c);
    (void)context;
    const side_3d *f = &c->from, *t = &c->to;
    U from = (f->type == 1 ? f->host : f->device) + f->x, to = (t->type == 1 ? t->host : t->device) + t->x;
    if (c->depth > 1 || f->type == 3 || t->type == 3 || f->y || t->y) return smemsim_unknown("cuGraphExecMemcpyNodeSetParams of arrays or 3-D copies");
    return CALL("graph_set_copy", "iiiiiiii", exec, node, to, t->pitch ? (U)t->pitch : (U)c->width, from, f->pitch ? (U)f->pitch : (U)c->width, (U)c->width, (U)c->height);
}
API R cuGraphMemcpyNodeSetParams(U node, const copy_3d *c) { return cuGraphExecMemcpyNodeSetParams(0, node, c, 0); }
API R cuGraphKernelNodeSetParams(U node, const kernel_node *k) { return cuGraphExecKernelNodeSetParams(0, node, k); } /* to the device, no executable is the graph itself */
API R cuGraphKernelNodeSetParams_v2(U node, const kernel_node_2 *k) { WANT(k); kernel_node own = with_kernel(k); return cuGraphKernelNodeSetParams(node, &own); }
API R cuGraphKernelNodeGetParams(U node, kernel_node *k) {
    U function, v[7];
    char bank[1 << 16];
    WANT(k);
    R error = CALL("node_kernel", "i|IIIIIIIIB", node, &function, v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, bank, sizeof bank);
    smemsim_layout layout;
    if (!error) error = smemsim_layout_of(function, &layout);
    if (error) return error;
    char *own = malloc(layout.bytes + 8); /* lives as long as the node: for ever */
    memcpy(own, bank, layout.bytes);
    *k = (kernel_node){function, {v[0], v[1], v[2]}, {v[3], v[4], v[5]}, v[6], malloc(layout.count * 8 + 8), 0};
    for (unsigned n = 0; n < layout.count; n++) k->arguments[n] = own + layout.places[2 * n];
    return 0;
}
API R cuGraphKernelNodeGetParams_v2(U node, kernel_node_2 *k) { WANT(k); k->kernel = k->context = 0; return cuGraphKernelNodeGetParams(node, &k->own); }
API R cuGraphNodeSetEnabled(U exec, U node, unsigned is_enabled) { return CALL("node_enable", "iii", exec, node, (U)is_enabled); }
API R cuGraphNodeGetEnabled(U exec, U node, unsigned *is_enabled) { WANT(is_enabled); U found = 0; R error = CALL("node_is_enabled", "ii|I", exec, node, &found); *is_enabled = (unsigned)found; return error; }
API R cuGraphDestroyNode(U node) { return CALL("node_destroy", "i", node); }
#define ROOM(to, count) (to) ? (U)*(count) : (U)0
static R linked_nodes(const char *call, U of, U which, U *nodes, size_t *count) {
    U have = 0;
    WANT(count);
    R error = CALL(call, "iii|IB", of, which, ROOM(nodes, count), &have, nodes, nodes ? *count * 8 : (size_t)0);
    if (!error) *count = have;
    return error;
}
API R cuGraphNodeGetDependencies(U node, U *nodes, size_t *count) { return linked_nodes("node_links", node, 0, nodes, count); }
API R cuGraphNodeGetDependencies_v2(U node, U *nodes, void *edges, size_t *count) { if (edges && count) memset(edges, 0, 8 * *count); return linked_nodes("node_links", node, 0, nodes, count); }
API R cuGraphNodeGetDependentNodes(U node, U *nodes, size_t *count) { return linked_nodes("node_links", node, 1, nodes, count); }
API R cuGraphNodeGetDependentNodes_v2(U node, U *nodes, void *edges, size_t *count) { if (edges && count) memset(edges, 0, 8 * *count); return linked_nodes("node_links", node, 1, nodes, count); }
API R cuGraphGetRootNodes(U graph, U *nodes, size_t *count) {
    U have = 0;
    WANT(count);
    R error = CALL("graph_roots", "ii|IB", graph, ROOM(nodes, count), &have, nodes, nodes ? *count * 8 : (size_t)0);
    if (!error) *count = have;
    return error;
}
API R cuGraphGetEdges(U graph, U *from, U *to, size_t *count) {
    U have = 0;
    WANT(count);
    size_t room = from && to ? *count : 0;
    R error = CALL("graph_edges", "ii|IBB", graph, (U)room, &have, from, room * 8, to, room * 8);
    if (!error) *count = have;
    return error;
}
API R cuGraphGetEdges_v2(U graph, U *from, U *to, void *edges, size_t *count) { if (edges && count) memset(edges, 0, 8 * *count); return cuGraphGetEdges(graph, from, to, count); }
API R cuGraphRemoveDependencies(U graph, const U *from, const U *to, size_t count) { return CALL("graph_part", "ibb", graph, from, count * 8, to, count * 8); }
API R cuGraphRemoveDependencies_v2(U graph, const U *from, const U *to, const void *edges, size_t count) { (void)edges; return cuGraphRemoveDependencies(graph, from, to, count); }
API R cuGraphExecMemsetNodeSetParams(U exec, U node, const fill_node *f, U context) {
    WANT(f);
    (void)context;
    return CALL("graph_set_fill", "iiiiiiii", exec, node, f->to, (U)f->pitch, (U)f->value, (U)f->width, (U)f->count, (U)f->height);
}
API R cuGraphMemsetNodeSetParams(U node, const fill_node *f) { return cuGraphExecMemsetNodeSetParams(0, node, f, 0); }
API R cuGraphExecHostNodeSetParams(U exec, U node, const host_node *h) { WANT(h); return CALL("graph_set_host", "iiii", exec, node, h->function, h->data); }
API R cuGraphHostNodeSetParams(U node, const host_node *h) { return cuGraphExecHostNodeSetParams(0, node, h); }
API R cuGraphAddEventRecordNode(U *node, U graph, const U *after, size_t count, U event) { return CALL("graph_add_event", "ibii|I", graph, after, count * 8, event, (U)0, node); }
API R cuGraphAddEventWaitNode(U *node, U graph, const U *after, size_t count, U event) { return CALL("graph_add_event", "ibii|I", graph, after, count * 8, event, (U)1, node); }
typedef struct { char props[88]; const void *access; size_t accesses, bytes; U address; } alloc_node; /* pool properties are 88 bytes */
API R cuGraphAddMemAllocNode(U *node, U graph, const U *after, size_t count, alloc_node *a) {
    WANT(a);
    char text[1024];
    return CALL("graph_add_alloc", "ibibs|II", graph, after, count * 8, (U)a->bytes, a->props, sizeof a->props, smemsim_caller(CALLER, text, sizeof text), node, &a->address);
}
static R given(U node, const char *kind, U *to, size_t count) { return CALL("node_given", "is|B", node, kind, to, count * 8); }
API R cuGraphMemAllocNodeGetParams(U node, alloc_node *a) {
    U own[2];
    WANT(a);
    R error = given(node, "alloc", own, 2);
    if (error) return error;
    memset(a, 0, sizeof *a), a->bytes = own[0], a->address = own[1];
    return CALL("node_props", "i|B", node, a->props, sizeof a->props);
}
API R cuGraphMemFreeNodeGetParams(U node, U *address) { WANT(address); return given(node, "free", address, 1); }
API R cuGraphHostNodeGetParams(U node, host_node *h) { WANT(h); return given(node, "host", (U *)h, 2); }
API R cuGraphMemsetNodeGetParams(U node, fill_node *f) {
    U own[6];
    WANT(f);
    R error = given(node, "memset", own, 6);
    if (!error) *f = (fill_node){own[0], own[1], (unsigned)own[2], (unsigned)own[3], own[4], own[5]};
    return error;
}
API R cuGraphEventRecordNodeGetEvent(U node, U *event) { WANT(event); return given(node, "record", event, 1); }
API R cuGraphEventWaitNodeGetEvent(U node, U *event) { WANT(event); return given(node, "wait", event, 1); }
API R cuGraphNodeFindInClone(U *node, U original, U clone) { WANT(node); return CALL("node_in_clone", "ii|I", original, clone, node); }
API R cuGraphChildGraphNodeGetGraph(U node, U *graph) { WANT(graph); return CALL("node_graph", "i|I", node, graph); }
API R cuGraphDebugDotPrint(U graph, const char *path, unsigned flags) {
    (void)flags;
    WANT(path);
    char *text = calloc(1, 1 << 22);
    R error = CALL("graph_dot", "i|B", graph, text, (size_t)1 << 22);
    FILE *file = error ? 0 : fopen(path, "w");
    if (file) fputs(text, file), fclose(file);
    free(text);
    return error ? error : file ? 0 : 304; /* operating system */
}
API R cuUserObjectCreate(U *object, void *data, void *destroy, unsigned count, unsigned flags) { NEED; WANT(object && destroy && count && flags == 1); return CALL("user_object_create", "iii|I", destroy, data, (U)count, object); }
API R cuUserObjectRetain(U object, unsigned count) { return CALL("user_object_retain", "ii", object, (U)count); }
API R cuUserObjectRelease(U object, unsigned count) { return CALL("user_object_release", "ii", object, (U)count); }
API R cuGraphRetainUserObject(U graph, U object, unsigned count, unsigned flags) { return CALL("graph_hold", "iiii", graph, object, (U)count, (U)(flags & 1)); }
API R cuGraphReleaseUserObject(U graph, U object, unsigned count) { return CALL("graph_let_go", "iii", graph, object, (U)count); }
API R cuGraphAddMemFreeNode(U *node, U graph, const U *after, size_t count, U address) { return CALL("graph_add_free", "ibi|I", graph, after, count * 8, address, node); }
API R cuGraphAddDependencies(U graph, const U *from, const U *to, size_t count) { return CALL("graph_depend", "ibb", graph, from, count * 8, to, count * 8); }
API R cuGraphAddDependencies_v2(U graph, const U *from, const U *to, const void *edges, size_t count) { (void)edges; return cuGraphAddDependencies(graph, from, to, count); }
API R cuGraphAddChildGraphNode(U *node, U graph, const U *after, size_t count, U child) { return CALL("graph_add_child", "ibi|I", graph, after, count * 8, child, node); }
API R cuGraphConditionalHandleCreate(U *handle, U graph, U context, unsigned value, unsigned flags) {
    (void)context;
    WANT(handle && flags <= 1);
    return CALL("condition_create", "iii|I", graph, (U)value, (U)flags, handle);
}
typedef struct { U handle; int type; unsigned size; U *bodies, context; } conditional_node;
typedef struct { /* CUgraphNodeParams */
    int type, reserved[3];
    union {
        kernel_node_2 kernel;
        struct { int flags, reserved; U context; copy_3d own; } copy;
        fill_node fill;
        host_node host;
        U graph, event, address;
        alloc_node alloc;
        conditional_node conditional;
        char room[232];
    };
} any_node;
static R add_conditional(U *node, U graph, const U *after, size_t count, conditional_node *c) {
    U *bodies = calloc(c->size + 1, 8); /* lives as long as the node: for ever */
    R error = CALL("graph_add_conditional", "ibiii|IB", graph, after, count * 8, c->handle, (U)(unsigned)c->type, (U)c->size, node, bodies, (size_t)c->size * 8);
    if (error) free(bodies);
    else c->bodies = bodies;
    return error;
}
API R cuGraphAddNode(U *node, U graph, const U *after, size_t count, any_node *n) {
    WANT(node && n);
    switch (n->type) { /* CUgraphNodeType */
    case 0: return cuGraphAddKernelNode_v2(node, graph, after, count, &n->kernel);
    case 1: return cuGraphAddMemcpyNode(node, graph, after, count, &n->copy.own, 0);
    case 2: return cuGraphAddMemsetNode(node, graph, after, count, &n->fill, 0);
    case 3: return cuGraphAddHostNode(node, graph, after, count, &n->host);
    case 4: return cuGraphAddChildGraphNode(node, graph, after, count, n->graph);
    case 5: return cuGraphAddEmptyNode(node, graph, after, count);
    case 6: return cuGraphAddEventWaitNode(node, graph, after, count, n->event);
    case 7: return cuGraphAddEventRecordNode(node, graph, after, count, n->event);
    case 10: return cuGraphAddMemAllocNode(node, graph, after, count, &n->alloc);
    case 11: return cuGraphAddMemFreeNode(node, graph, after, count, n->address);
    case 13: return add_conditional(node, graph, after, count, &n->conditional);
    }
    return smemsim_unknown("cuGraphAddNode of semaphores or batched memory operations");
}
API R cuGraphAddNode_v2(U *node, U graph, const U *after, const void *edges, size_t count, any_node *n) { (void)edges; return cuGraphAddNode(node, graph, after, count, n); }
API R cuGraphExecNodeSetParams(U exec, U node, any_node *n) {
    WANT(n);
    switch (n->type) {
    case 0: return cuGraphExecKernelNodeSetParams_v2(exec, node, &n->kernel);
    case 1: return cuGraphExecMemcpyNodeSetParams(exec, node, &n->copy.own, 0);
    case 2: return cuGraphExecMemsetNodeSetParams(exec, node, &n->fill, 0);
    case 3: return cuGraphExecHostNodeSetParams(exec, node, &n->host);
    }
    return smemsim_unknown("cuGraphExecNodeSetParams of other nodes than kernels, copies, fills and host functions");
}
static R get_conditional(U node, conditional_node *c) {
    U type, size;
    R error = CALL("node_bodies", "ii|IIIB", node, (U)0, &c->handle, &type, &size, c->bodies, (size_t)0);
    if (error) return error;
    c->type = (int)type, c->size = (unsigned)size, c->context = smemsim_context(), c->bodies = calloc(size + 1, 8); /* lives as long as the node: for ever */
    return CALL("node_bodies", "ii|IIIB", node, size, &c->handle, &type, &size, c->bodies, (size_t)size * 8);
}
static R get_copy(U node, copy_3d *c) {
    U own[6];
    R error = given(node, "memcpy", own, 6);
    if (error) return error;
    memset(c, 0, sizeof *c);
    c->to.type = c->from.type = 4; /* unified: told by the address */
    c->to.device = own[0], c->to.pitch = own[1], c->from.device = own[2], c->from.pitch = own[3], c->width = own[4], c->height = own[5], c->depth = 1;
    return 0;
}
API R cuGraphMemcpyNodeGetParams(U node, copy_3d *c) { WANT(c); return get_copy(node, c); }
API R cuGraphNodeGetParams(U node, any_node *n) {
    WANT(n);
    memset(n, 0, sizeof *n);
    R error = cuGraphNodeGetType(node, &n->type);
    if (error) return error;
    switch (n->type) {
    case 0: return cuGraphKernelNodeGetParams_v2(node, &n->kernel);
    case 1: return get_copy(node, &n->copy.own);
    case 2: return cuGraphMemsetNodeGetParams(node, &n->fill);
    case 3: return cuGraphHostNodeGetParams(node, &n->host);
    case 4: return cuGraphChildGraphNodeGetGraph(node, &n->graph);
    case 6: return cuGraphEventWaitNodeGetEvent(node, &n->event);
    case 7: return cuGraphEventRecordNodeGetEvent(node, &n->event);
    case 10: return cuGraphMemAllocNodeGetParams(node, &n->alloc);
    case 11: return cuGraphMemFreeNodeGetParams(node, &n->address);
    case 13: return get_conditional(node, &n->conditional);
    }
    return 0;
}
API R cuGraphNodeSetParams(U node, any_node *n) { return cuGraphExecNodeSetParams(0, node, n); }

/* What is asked of the library itself */

API R cuGetProcAddress_v2(const char *name, void **function, int version, U flags, int *status) {
    (void)flags;
    static const struct { const char *name; int version; } since[] = { /* cudaTypedefs.h: PFN_NAME_vVERSION, from CUDA 10 on */
        {"cuCtxCreate_v4", 12050}, {"cuCtxCreate_v3", 11040}, {"cuCtxGetDevice_v2", 13000}, {"cuCtxSynchronize_v2", 13000},
        {"cuDeviceGetUuid_v2", 11040}, {"cuEventElapsedTime_v2", 12080}, {"cuGetProcAddress_v2", 12000}, {"cuGraphAddDependencies_v2", 12030},
        {"cuGraphAddKernelNode_v2", 12000}, {"cuGraphAddNode_v2", 12030}, {"cuGraphExecKernelNodeSetParams_v2", 12000},
        {"cuGraphExecUpdate_v2", 12000}, {"cuGraphGetEdges_v2", 12030}, {"cuGraphInstantiate_v2", 11000}, {"cuGraphKernelNodeGetParams_v2", 12000},
        {"cuGraphKernelNodeSetParams_v2", 12000}, {"cuGraphNodeGetDependencies_v2", 12030}, {"cuGraphNodeGetDependentNodes_v2", 12030},
        {"cuGraphRemoveDependencies_v2", 12030}, {"cuMemAdvise_v2", 12020}, {"cuMemPrefetchAsync_v2", 12020}, {"cuStreamBeginCapture_v2", 10010},
        {"cuStreamGetCaptureInfo_v2", 11030}, {"cuStreamGetCaptureInfo_v3", 12030}, {"cuStreamGetCtx_v2", 12050},
        {"cuStreamUpdateCaptureDependencies_v2", 12030},
    };
    WANT(name && function);
    char symbol[128];
    if (!strcmp(name, "cuGraphInstantiate") && version >= 12000) name = "cuGraphInstantiateWithFlags";
    *function = 0;
    for (int k = 9; k >= 1 && !*function; k--) {
        snprintf(symbol, sizeof symbol, k > 1 ? "%s_v%d" : "%s", name, k);
        unsigned n = 0;
        while (n < sizeof since / sizeof *since && strcmp(since[n].name, symbol)) n++;
        if (n == sizeof since / sizeof *since || since[n].version <= version) *function = smemsim_symbol(symbol);
    }
    if (status) *status = !*function;
    return *function ? 0 : NOT_FOUND;
}
API R cuGetProcAddress(const char *name, void **function, int version, U flags) { return cuGetProcAddress_v2(name, function, version, flags, 0); }
API R cuGetExportTable(const void **table, const void *id) {
    static int is_told;
    char caller[1024] = "";
    (void)id;
    if (table) *table = 0;
    smemsim_caller(__builtin_return_address(0), caller, sizeof caller);
    if (!strstr(caller, "libnvrtc") && !strstr(caller, "libnvJitLink") && !is_told++) { /* these ask too, and do without an answer */
        smemsim_tell("this program has NVIDIA's own CUDA runtime in it, which works with NVIDIA's driver alone: link it with nvcc -cudart shared, or use the driver API (docs/virtual.md says why)");
        (void)CALL("foreign_runtime", "");
    }
    return NOT_FOUND;
}
API R cuProfilerStart(void) { return 0; }
API R cuProfilerStop(void) { return 0; }
API R cuProfilerInitialize(const char *config, const char *output, int mode) { (void)config, (void)output, (void)mode; return 0; }
