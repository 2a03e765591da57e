/* What stands in for NVIDIA's libraries of machine code, which have no PTX and cannot run here: cuDNN, cuBLAS and cuBLASLt. XLA does not compile without
 * their handles, though most of its kernels need none of them. A handle is all there is: what a program asks of one besides is not there, and XLA says
 * so of the operation. Built once for each library, as WHICH says. */
#include <stddef.h>

#define API __attribute__((visibility("default")))
#define CUDNN 1
#define CUBLAS 2
#define CUBLASLT 3

static char handle;
static const char *const text = "the virtual GPU runs PTX, and this library of NVIDIA's is machine code";

#if WHICH == CUDNN
API size_t cudnnGetVersion(void) { return 99900; } // XLA wants the version that it was built with, or a later one, of cuDNN 9
API size_t cudnnGetMaxDeviceVersion(void) { return 99900; }
API size_t cudnnGetCudartVersion(void) { return MAJOR * 1000; }
API int cudnnGetProperty(int which, int *value) { *value = which == 0 ? 9 : which == 1 ? 99 : 0; return 0; }
API int cudnnCreate(void **made) { *made = &handle; return 0; }
API int cudnnDestroy(void *it) { (void)it; return 0; }
API int cudnnSetStream(void *it, void *stream) { (void)it; (void)stream; return 0; }
API const char *cudnnGetErrorString(int code) { return code ? text : "CUDNN_STATUS_SUCCESS"; }
#elif WHICH == CUBLAS
API int cublasCreate_v2(void **made) { *made = &handle; return 0; }
API int cublasDestroy_v2(void *it) { (void)it; return 0; }
API int cublasSetStream_v2(void *it, void *stream) { (void)it; (void)stream; return 0; }
API int cublasSetMathMode(void *it, int mode) { (void)it; (void)mode; return 0; }
API int cublasSetPointerMode_v2(void *it, int mode) { (void)it; (void)mode; return 0; }
API int cublasSetAtomicsMode(void *it, int mode) { (void)it; (void)mode; return 0; }
API int cublasSetWorkspace_v2(void *it, void *at, size_t bytes) { (void)it; (void)at; (void)bytes; return 0; }
API int cublasGetVersion_v2(void *it, int *version) { (void)it; *version = MAJOR * 10000 + 9900; return 0; }
API int cublasGetProperty(int which, int *value) { *value = which == 0 ? MAJOR : which == 1 ? 99 : 0; return 0; }
API const char *cublasGetStatusString(int code) { return code ? text : "CUBLAS_STATUS_SUCCESS"; }
#else
API int cublasLtCreate(void **made) { *made = &handle; return 0; }
API int cublasLtDestroy(void *it) { (void)it; return 0; }
API size_t cublasLtGetVersion(void) { return MAJOR * 10000 + 9900; }
API int cublasLtGetProperty(int which, int *value) { *value = which == 0 ? MAJOR : which == 1 ? 99 : 0; return 0; }
API const char *cublasLtGetStatusString(int code) { return code ? text : "CUBLAS_STATUS_SUCCESS"; }
#endif
