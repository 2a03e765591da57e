/* What stands in for cuDNN, NVIDIA's library of machine code, which has no PTX and cannot run here. XLA does not compile without its handle, though most of its
 * kernels need none of it. The handle is all there is: what a program asks besides is not there, and XLA says so of the operation. */
#include <stddef.h>

#define API __attribute__((visibility("default")))

static char handle;
static const char *const text = "the virtual GPU runs PTX, and this library of NVIDIA's is machine code";

API size_t cudnnGetVersion(void) { return 99900; } // XLA wants the version that it was built with, or a later one, of cuDNN 9
API size_t cudnnGetMaxDeviceVersion(void) { return 99900; }
API size_t cudnnGetCudartVersion(void) { return MAJOR * 1000; }
API int cudnnGetProperty(int which, int *value) { *value = which == 0 ? 9 : which == 1 ? 99 : 0; return 0; }
API int cudnnCreate(void **made) { *made = &handle; return 0; }
API int cudnnDestroy(void *it) { (void)it; return 0; }
API int cudnnSetStream(void *it, void *stream) { (void)it; (void)stream; return 0; }
API const char *cudnnGetErrorString(int code) { return code ? text : "CUDNN_STATUS_SUCCESS"; }
