"""cuda.bindings, in the style of its documentation: NVRTC makes PTX of a kernel, the driver API runs it."""

import numpy as np
from cuda.bindings import driver, nvrtc

SAXPY = b"""
extern "C" __global__ void saxpy(float a, float *x, float *y, float *out, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}"""


def checked(result):
    if result[0].value:
        raise SystemExit(f"{result[0]}")
    return result[1] if len(result) == 2 else result[1:]


checked(driver.cuInit(0))
device = checked(driver.cuDeviceGet(0))
attributes = driver.CUdevice_attribute
major = checked(driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
minor = checked(driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
program = checked(nvrtc.nvrtcCreateProgram(SAXPY, b"saxpy.cu", 0, None, None))
options = [b"--fmad=false", f"--gpu-architecture=compute_{major}{minor}".encode()]
checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
checked(nvrtc.nvrtcGetPTX(program, ptx))
context = checked(driver.cuCtxCreate(None, 0, device))
module = checked(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
kernel = checked(driver.cuModuleGetFunction(module, b"saxpy"))

COUNT = 8192
x, y = (np.random.default_rng(n).random(COUNT, np.float32) for n in range(2))
out = np.zeros(COUNT, np.float32)
places = [checked(driver.cuMemAlloc(out.nbytes)) for _ in range(3)]
stream = checked(driver.cuStreamCreate(0))
for place, array in zip(places, (x, y), strict=False):
    checked(driver.cuMemcpyHtoDAsync(place, array.ctypes.data, array.nbytes, stream))
arguments = [np.array([2], np.float32), *(np.array([int(place)], np.uint64) for place in places), np.array([COUNT], np.uint64)]
pointers = np.array([argument.ctypes.data for argument in arguments], np.uint64)
checked(driver.cuLaunchKernel(kernel, COUNT // 512, 1, 1, 512, 1, 1, 0, stream, pointers.ctypes.data, 0))
checked(driver.cuMemcpyDtoHAsync(out.ctypes.data, places[2], out.nbytes, stream))
checked(driver.cuStreamSynchronize(stream))
print((out == np.float32(2) * x + y).sum(), "right")
