"""JAX: its CUDA plugin (XLA) in a process with smemsim's `libcuda.so.1`, under `smemsim exec` and the pytest plugin.

XLA makes its own PTX for fused operations, and PTX by Triton for products. Pallas makes PTX by Triton and by Mosaic
GPU. The driver launches all of it. These obstacles are removed before the plugin starts.

- JAX looks for `/dev/nvidia0`, and does not ask the driver if it is missing.
- XLA compiles nothing without handles of cuDNN and cuBLAS, which are machine code. Here `clib/machine_code.c` has only
  the handle of cuDNN, and `clib/cublas.c` has products.
- XLA measures which kernel is fastest, and gives products to cuBLAS. The flags below take the first kernel, and
  Triton's.
- XLA divides one large piece of memory. With one allocation for each array, an access past an array is found.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import pathlib
import sys
from typing import Any

__all__ = ["install"]


PLUGINS = {12: "jax_plugins.xla_cuda12", 13: "jax_plugins.xla_cuda13"}
FLAGS = {
    "xla_gpu_generate_line_info": "true",  # keeps the PTX in the cubin
    "xla_gpu_autotune_level": "0",
    "xla_gpu_cublas_fallback": "false",
    "xla_gpu_triton_gemm_any": "true",
    "xla_gpu_unsafe_fallback_to_driver_on_ptxas_not_found": "true",
}
VARIABLES = {
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # of the versions of cuDNN and its like
    "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
}
STAND_INS = ("libsmemsim-cudnn-{major}.so", "libcublas.so.{major}", "libcublasLt.so.{major}")
_kept: list[ctypes.CDLL] = []


def install() -> None:
    """Prepare the plugin that was imported. What the program sets itself stays."""
    if not os.environ.get("SMEMSIM_SOCKET"):
        return
    for major, name in PLUGINS.items():
        plugin = sys.modules.get(name)
        if plugin is not None:
            _prepare(plugin, major)


def _prepare(plugin: Any, major: int) -> None:
    hardware = sys.modules.get("jax._src.hardware_utils")
    if hardware is not None:
        hardware.has_visible_nvidia_gpu = lambda: True  # type: ignore[attr-defined]
    for variable, value in VARIABLES.items():
        os.environ.setdefault(variable, value)
    library = plugin._get_library_path()
    known = _flags_of(pathlib.Path(library)) if library else []
    os.environ["XLA_FLAGS"] = " ".join(
        [*(f"--{flag}={FLAGS[flag]}" for flag in known), os.environ.get("XLA_FLAGS", "")]
    )  # the last one counts
    plugin._load_nvidia_libraries = lambda: _stand_in(major)


def _flags_of(library: pathlib.Path) -> list[str]:
    """The flags that this XLA knows: an unknown one would end the process."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return [flag for flag in FLAGS if text.find(flag.encode()) >= 0]


def _stand_in(major: int) -> None:
    """Load what XLA then finds by name."""
    from smemsim.virtual.build import libraries

    _kept.extend(ctypes.CDLL(str(libraries() / name.format(major=major))) for name in STAND_INS)
