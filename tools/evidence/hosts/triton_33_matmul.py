"""Triton 3.3's test_simple_matmul at one of its configurations, compared as there; the kernel is what its compiler makes for sm_100a.

`python triton_33_matmul.py`, in the checkout. Triton 3.3 launches by a library that it compiles at run time, which the virtual GPU does not replace: the launch is cuLaunchKernel here, with
the specialization that its launcher would choose (pointers, sizes and strides of multiples of 16, the strides of 1 as constants).
"""

import ctypes
import os
import re
import sys

import torch
import triton
from cuda.bindings import driver
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, os.path.join(os.getcwd(), "python", "test", "unit", "language"))

import test_matmul

SIZES, TILE, STAGES, WARPS = (1024, 512, 256), (128, 128, 16), 4, 4


def compiled(strides: list[int]) -> tuple[str, int, str]:
    """PTX, bytes of shared memory and name of the kernel."""
    pointers, sizes = {"a_ptr": "*fp16", "b_ptr": "*fp16", "output_ptr": "*fp32"}, dict.fromkeys(("M", "N", "K"), "i32")
    names = test_matmul.matmul_kernel.arg_names
    values = dict(zip(names[6:12], strides, strict=True))
    constants = {name: 1 for name, stride in values.items() if stride == 1}
    constants |= dict(
        zip(("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_STAGES", "SCALE_A", "PRECISION"), (*TILE, STAGES, None, "ieee"), strict=True)
    )
    signature = {name: {**pointers, **sizes}.get(name, "constexpr" if name in constants else "i32") for name in names}
    place = {name: (n,) for n, name in enumerate(names)}
    aligned = {place[name]: [["tt.divisibility", 16]] for name, kind in signature.items() if kind != "constexpr"}
    source = ASTSource(test_matmul.matmul_kernel, signature, {place[name]: value for name, value in constants.items()}, aligned)
    kernel = triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": WARPS})
    return kernel.asm["ptx"], kernel.metadata.shared, kernel.metadata.name


def done(result: tuple) -> list:
    """What a call of the driver gives, if it succeeds."""
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return list(result[1:])


def main() -> None:
    """Data, launch and comparison."""
    m, n, k = SIZES
    torch.manual_seed(42)
    a, b = torch.randn(m, k, dtype=torch.float16, device="cuda"), torch.randn(k, n, dtype=torch.float16, device="cuda")
    output = torch.empty((m, n), dtype=torch.float32, device="cuda")
    strides = [*a.stride(), *b.stride(), *output.stride()]
    ptx, shared, name = compiled(strides)
    assert "tcgen05.mma" in ptx
    done(driver.cuInit(0))
    [context] = done(driver.cuDevicePrimaryCtxRetain(0))
    done(driver.cuCtxSetCurrent(context))
    [module] = done(driver.cuModuleLoadData(ptx.encode() + b"\0"))
    [function] = done(driver.cuModuleGetFunction(module, name.encode()))
    done(driver.cuFuncSetAttribute(function, driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared))
    values = [a.data_ptr(), b.data_ptr(), output.data_ptr(), m, n, k, *(stride for stride in strides if stride != 1)]
    kinds = re.findall(r"\.param \.(u64|u32)", ptx[: ptx.index("{")])
    values += [0] * (len(kinds) - len(values))  # its scratch memory, of which there is none
    types = tuple({"u64": ctypes.c_uint64, "u32": ctypes.c_uint32}[kind] for kind in kinds)
    grid = triton.cdiv(m, TILE[0]) * triton.cdiv(n, TILE[1])
    done(driver.cuLaunchKernel(function, grid, 1, 1, 32 * WARPS, 1, 1, shared, 0, (tuple(values), types), 0))
    torch.cuda.synchronize()
    torch.testing.assert_close(torch.matmul(a, b).to(torch.float32), output, atol=0.01, rtol=0.01)
    print("right")


main()
