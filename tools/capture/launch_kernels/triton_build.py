"""Compiles a Triton launch for sm_90a, without a GPU, and completes it with what the compiler decided: block,
shared memory, scratch, maps.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import re
import tempfile
from typing import Any

# Read by Triton when it compiles: nothing from a cache, no paths of this machine in the PTX.
os.environ |= {"TRITON_ALWAYS_COMPILE": "1", "TRITON_DISABLE_LINE_INFO": "1", "TRITON_DEFAULT_FP_FUSION": "1"}

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon._runtime import GluonASTSource

from tools.capture.launch_kernels.spec import Launch, null, tiled, value

NAMES = {"s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64", "f16": "fp16", "bf16": "bf16", "f32": "fp32",
         "f64": "fp64", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}  # fmt: skip
SIZES = {"s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1, "f16": 2, "bf16": 2, "f32": 4, "s32": 4, "f64": 8}
MAP_TYPES = {"e4m3": "u8", "e5m2": "u8", "s8": "u8"}
SWIZZLES = ("none", "32B", "64B", "128B")  # the driver's codes


def gluon_layout(size: int, block: list[int]) -> Any:
    from triton.experimental.gluon import language as gl

    return gl.NVMMASharedLayout(min(128, block[-1] * size), 8 * size, len(block))


def compiled(launch: Launch) -> tuple[str, Launch]:
    """PTX, and the launch as the driver is given it."""
    module, name = launch.source.removeprefix("triton:").split(".")
    kernel = getattr(importlib.import_module(f"tools.capture.launch_kernels.triton_sources.{module}"), name)
    is_gluon = isinstance(kernel, gluon._runtime.GluonJITFunction)
    types = {a["name"]: a["dtype"] for a in launch.arrays}
    constants = dict(launch.constants)
    signature: dict[str, Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    given = iter(launch.args)
    plan: list[tuple[str, dict[str, Any]]] = []
    for i, parameter in enumerate(kernel.arg_names):
        if parameter in constants:
            signature[parameter] = "constexpr"
            continue
        arg = next(given)
        if "array" in arg:
            signature[parameter] = "*" + NAMES[types[arg["array"]]]
            attributes[(i,)] = [["tt.divisibility", 16]]
        elif "descriptor" in arg:
            d = arg["descriptor"]
            dtype = types[d["array"]]
            layout = f",{gluon_layout(SIZES[dtype], d['block'])!r}" if is_gluon else ""
            signature[parameter] = f"tensordesc<{NAMES[dtype]}{str(d['block']).replace(' ', '') if is_gluon else d['block']}{layout}>"
        else:
            signature[parameter] = NAMES[arg["type"]]
            if arg["type"][0] in "su" and int(arg["value"]) == 1:
                signature[parameter], constants[parameter] = "constexpr", 1  # as Triton's own runtime specialises
                continue
            if arg["type"][0] in "su" and int(arg["value"]) % 16 == 0:
                attributes[(i,)] = [["tt.divisibility", 16]]
        plan.append((parameter, arg))
    make = GluonASTSource if is_gluon else ASTSource
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        done = triton.compile(
            make(kernel, signature, constants, attributes),
            target=GPUTarget("cuda", 90, 32),
            options={"ptx_version": 90} | dict(launch.options),
        )  # what CUDA 13.0 reads
    ptx, about = done.asm["ptx"], done.metadata
    args: list[dict[str, Any]] = []
    metas = iter(about.tensordesc_meta or [])
    for _, arg in plan:
        args += described(arg["descriptor"], types, next(metas)) if "descriptor" in arg else [arg]
    arrays = list(launch.arrays)
    if about.global_scratch_size:
        size = math.prod(launch.config.grid) * about.num_ctas * about.global_scratch_size
        arrays.append({"name": "global_scratch", "dtype": "u8", "shape": [size], "seed": 0, "distribution": "zeros"})
        args.append({"array": "global_scratch"})
    else:
        args.append(null())
    args.append(null())  # profile scratch
    if about.profile_scratch_size:
        raise RuntimeError("wants profile scratch")
    threads = 32 * about.num_warps
    asked = re.search(r"\.reqntid (\d+)", ptx)
    if asked and int(asked[1]) != threads:
        raise RuntimeError(f".reqntid {asked[1]}, but {threads} threads by the metadata")
    x, y, z = launch.config.grid
    config = dataclasses.replace(launch.config, entry=about.name, grid=(x * about.num_ctas, y, z), block=threads, cluster=about.num_ctas,
                                 shared_bytes=about.shared)  # fmt: skip
    return ptx, dataclasses.replace(launch, args=tuple(args), arrays=tuple(arrays), config=config)


def described(d: dict[str, Any], types: dict[str, str], meta: dict[str, Any]) -> list[dict[str, Any]]:
    """A host descriptor as Triton's launcher passes it: the map by value, then shape (32 bits) and
    strides (64 bits) in elements.
    """
    dtype = types[d["array"]]
    size, shape = SIZES[dtype], d["shape"]
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    if meta["fp4_padded"] or meta["elem_size"] != size:
        raise RuntimeError(f"descriptor {meta}")
    one = tiled(d["array"], MAP_TYPES.get(dtype, dtype), list(reversed(shape)), [s * size for s in reversed(strides[:-1])], list(reversed(meta["block_size"])),
                swizzle=SWIZZLES[meta["swizzle"]], l2_promotion="128B")  # fmt: skip
    return [one, *(value(n, "s32") for n in shape), *(value(n, "s64") for n in strides)]
