// The driver API with a kernel that NVRTC compiles to machine code for the card that it finds. With an argument it reads behind an array.
#include <cuda.h>
#include <nvrtc.h>
#include <cstdio>
#include <cstring>
#include <vector>
#include <string>
#define OK(x) do { CUresult e_ = (x); if (e_) { const char *n; cuGetErrorName(e_, &n); printf("%s: %s\n", #x, n); return 1; } } while (0)
#define RT(x) do { nvrtcResult e_ = (x); if (e_) { printf("%s: %s\n", #x, nvrtcGetErrorString(e_)); return 1; } } while (0)
const char *source = R"(
struct pair { int a; float b; };
extern "C" __global__ void scale(float *to, const float *from, pair p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i] * p.b + p.a;
})";
struct pair_ { int a; float b; };
int main(int argc, char **argv) {
  OK(cuInit(0)); CUdevice d; OK(cuDeviceGet(&d, 0)); CUcontext c; OK(cuDevicePrimaryCtxRetain(&c, d)); OK(cuCtxSetCurrent(c));
  char name[100]; OK(cuDeviceGetName(name, 100, d)); int major, minor; OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d)); OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d));
  printf("%s %d.%d\n", name, major, minor);
  nvrtcProgram p; RT(nvrtcCreateProgram(&p, source, "scale.cu", 0, 0, 0));
  std::string arch = "--gpu-architecture=sm_" + std::to_string(major * 10 + minor) + "a"; const char *options[] = {arch.c_str()};
  RT(nvrtcCompileProgram(p, 1, options)); size_t size; RT(nvrtcGetCUBINSize(p, &size)); std::vector<char> cubin(size); RT(nvrtcGetCUBIN(p, cubin.data()));
  CUmodule m; OK(cuModuleLoadData(&m, cubin.data())); CUfunction f; OK(cuModuleGetFunction(&f, m, "scale"));
  int n = 1000; std::vector<float> h(n); for (int i = 0; i < n; i++) h[i] = i;
  CUdeviceptr a, b; OK(cuMemAlloc(&a, n * 4)); OK(cuMemAlloc(&b, n * 4)); OK(cuMemcpyHtoD(b, h.data(), n * 4)); OK(cuMemsetD32(a, 0, n));
  pair_ q = {1, 0.5f}; int count = argc > 1 ? n + 100 : n; void *args[] = {&a, &b, &q, &count};
  OK(cuLaunchKernel(f, 5, 1, 1, 256, 1, 1, 0, 0, args, 0)); OK(cuCtxSynchronize());
  OK(cuMemcpyDtoH(h.data(), a, n * 4)); float sum = 0; for (float x : h) sum += x; printf("sum %g\n", sum); OK(cuMemFree(a)); return 0;
}
