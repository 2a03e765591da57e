"""A kernel of numba's CUDA target."""

import sys
import warnings

import numpy as np

try:
    from numba import cuda
except ImportError:
    print("needs numba with its CUDA target")
    sys.exit(77)
if not cuda.is_available():
    print("needs what numba's CUDA target needs: libnvvm")
    sys.exit(77)
warnings.simplefilter("ignore")


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


x = np.arange(1000, dtype=np.float32)
out = cuda.device_array_like(x)
add[4, 256](cuda.to_device(x), cuda.to_device(x[::-1].copy()), out)
print((out.copy_to_host() == 999).sum(), "right")
