/* libnvidia-ml.so.1: what programs ask of NVML before they use the card (Mojo does). It says of the one card what libcuda.so.1 says; what it has no
 * answer for is not there, and a program that loads names one by one is told so. Names, structures and codes: nvml.h of CUDA 13. */
#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };

typedef struct card *Card;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetAttribute(int *value, int which, int device);
int cuDeviceGetUuid(void *uuid, int device);
int cuDeviceGetPCIBusId(char *id, int length, int device);
int cuDeviceGetByPCIBusId(int *device, const char *id);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDriverGetVersion(int *version);

#define WANT(pointer) if (!(pointer)) return INVALID_ARGUMENT

static char the_card;
static int put(char *out, unsigned length, const char *text) {
    WANT(out);
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

API int nvmlInitWithFlags(unsigned flags) { (void)flags; return cuInit(0) ? UNKNOWN : SUCCESS; }
API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlInit(void) { return nvmlInitWithFlags(0); }
API int nvmlShutdown(void) { return SUCCESS; }
API const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "The operation was successful";
    case INVALID_ARGUMENT: return "A supplied argument is invalid";
    case NOT_SUPPORTED: return "The requested operation is not available on target device";
    case NOT_FOUND: return "A query to find an object was unsuccessful";
    case INSUFFICIENT_SIZE: return "An input argument is not large enough";
    default: return "An internal driver error occurred";
    }
}

API int nvmlDeviceGetCount_v2(unsigned *count) { WANT(count); int n = 0; int code = cuDeviceGetCount(&n); *count = n; return code ? UNKNOWN : SUCCESS; }
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, Card *card) {
    WANT(card && !index);
    *card = (Card)&the_card;
    return SUCCESS;
}
API int nvmlDeviceGetHandleByIndex(unsigned index, Card *card) { return nvmlDeviceGetHandleByIndex_v2(index, card); }
API int nvmlDeviceGetPciInfo_v3(Card card, Pci *pci) {
    (void)card;
    WANT(pci);
    memset(pci, 0, sizeof *pci);
    cuDeviceGetPCIBusId(pci->legacy, sizeof pci->legacy, 0);
    if (sscanf(pci->legacy, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return UNKNOWN;
    snprintf(pci->text, sizeof pci->text, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return SUCCESS;
}
API int nvmlDeviceGetHandleByPciBusId_v2(const char *text, Card *card) {
    int device;
    WANT(text);
    return cuDeviceGetByPCIBusId(&device, text) ? NOT_FOUND : nvmlDeviceGetHandleByIndex_v2(0, card);
}
API int nvmlDeviceGetIndex(Card card, unsigned *index) { (void)card; WANT(index); *index = 0; return SUCCESS; }
API int nvmlDeviceGetName(Card card, char *name, unsigned length) {
    char text[96];
    (void)card;
    return cuDeviceGetName(text, sizeof text, 0) ? UNKNOWN : put(name, length, text);
}
API int nvmlDeviceGetUUID(Card card, char *uuid, unsigned length) {
    unsigned char u[16];
    char text[48] = "GPU-";
    (void)card;
    if (cuDeviceGetUuid(u, 0)) return UNKNOWN;
    for (int i = 0; i < 16; i++) sprintf(text + strlen(text), i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u[i]);
    return put(uuid, length, text);
}
API int nvmlDeviceGetCudaComputeCapability(Card card, int *major, int *minor) {
    (void)card;
    WANT(major && minor);
    return cuDeviceGetAttribute(major, 75, 0) || cuDeviceGetAttribute(minor, 76, 0) ? UNKNOWN : SUCCESS; // COMPUTE_CAPABILITY_MAJOR, _MINOR
}
API int nvmlDeviceGetMemoryInfo(Card card, Memory *memory) {
    size_t bytes = 0;
    (void)card;
    WANT(memory);
    if (cuDeviceTotalMem_v2(&bytes, 0)) return UNKNOWN;
    *memory = (Memory){bytes, bytes, 0};
    return SUCCESS;
}
API int nvmlDeviceGetMemoryInfo_v2(Card card, MemoryV2 *memory) {
    Memory all;
    WANT(memory);
    if (nvmlDeviceGetMemoryInfo(card, &all)) return UNKNOWN;
    memory->total = memory->free = all.total;
    memory->reserved = memory->used = 0;
    return SUCCESS;
}
API int nvmlDeviceGetMigMode(Card card, unsigned *now, unsigned *later) { (void)card; WANT(now && later); *now = *later = 0; return NOT_SUPPORTED; }
API int nvmlDeviceGetComputeRunningProcesses_v3(Card card, unsigned *count, void *all) { (void)card; (void)all; WANT(count); *count = 0; return SUCCESS; }
API int nvmlDeviceGetTotalEccErrors(Card card, int kind, int counter, unsigned long long *count) { (void)card; (void)kind; (void)counter; WANT(count); *count = 0; return SUCCESS; }
API int nvmlDeviceGetCurrentClocksThrottleReasons(Card card, unsigned long long *reasons) { (void)card; WANT(reasons); *reasons = 0; return SUCCESS; }
API int nvmlDeviceGetCurrPcieLinkGeneration(Card card, unsigned *generation) { (void)card; WANT(generation); *generation = 5; return SUCCESS; } // data sheets of H200 and B200: PCIe Gen5 x16
API int nvmlDeviceGetCurrPcieLinkWidth(Card card, unsigned *width) { (void)card; WANT(width); *width = 16; return SUCCESS; }
API int nvmlDeviceGetNvLinkState(Card card, unsigned link, int *active) { (void)card; (void)link; WANT(active); *active = 0; return NOT_SUPPORTED; }
API int nvmlDeviceGetGpuFabricInfoV(Card card, void *info) { (void)card; WANT(info); return NOT_SUPPORTED; }
API int nvmlSystemGetCudaDriverVersion_v2(int *version) { WANT(version); return cuDriverGetVersion(version) ? UNKNOWN : SUCCESS; }
API int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
API int nvmlSystemGetDriverVersion(char *version, unsigned length) { return put(version, length, DRIVER_RELEASE); }
