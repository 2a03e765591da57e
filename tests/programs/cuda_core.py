"""cuda.core, in the style of its documentation: a program of C++, its kernel, a launch."""

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SCALE = """
template <typename T> __global__ void scale(T *x, T factor, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}"""

device = Device()
device.set_current()
stream = device.create_stream()
program = Program(SCALE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
kernel = program.compile("cubin", name_expressions=("scale<float>",)).get_kernel("scale<float>")
buffer = device.memory_resource.allocate(4000, stream=stream)
host = np.arange(1000, dtype=np.float32)
from cuda.bindings import driver  # noqa: E402  (copies of the host's memory have no other call)

driver.cuMemcpyHtoD(int(buffer.handle), host.ctypes.data, host.nbytes)
launch(stream, LaunchConfig(grid=4, block=256), kernel, buffer, np.float32(3), np.uint64(1000))
stream.sync()
out = np.empty_like(host)
driver.cuMemcpyDtoH(out.ctypes.data, int(buffer.handle), out.nbytes)
print((out == 3 * host).sum(), "right")
