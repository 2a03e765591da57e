"""A case compiled by Triton, and the launch that its host code would make: PTX text and launch.json."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from typing import Any

# Read by Triton when it compiles: nothing from a cache, and the default that 3.9 warns about.
os.environ |= {"TRITON_ALWAYS_COMPILE": "1", "TRITON_DEFAULT_FP_FUSION": "1"}

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction

from tools.witnesses.launches.launch_cases import Array, Case, Constant, Descriptor, Im2col, Value, about_results
from tools.witnesses.launches.ptx_text import cleaned

__all__ = ["assembled", "compiled", "compiler"]

TARGET = GPUTarget("cuda", 100, 32)
TYPES = {
    "bf16": "bf16", "f16": "fp16", "f32": "fp32", "tf32": "fp32", "f64": "fp64", "e4m3": "fp8e4nv", "e5m2": "fp8e5", "e2m1x2": "u8",
    "ue8m0": "u8", "ue4m3": "fp8e4nv", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64", "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64",
}  # fmt: skip
BYTES = {"bf16": 2, "f16": 2, "f64": 8, "u16": 2, "s16": 2, "f32": 4, "tf32": 4, "u32": 4, "s32": 4, "u64": 8, "s64": 8}
# Triton's numbers of map data types are the device's; the driver's names for them.
MAP_TYPES = {0: "u8", 1: "u16", 2: "u32", 3: "s32", 4: "u64", 5: "s64", 6: "f16", 7: "f32", 8: "FLOAT32_FTZ", 9: "f64", 10: "bf16",
             13: "16U4_ALIGN8B", 14: "16U4_ALIGN16B"}  # fmt: skip
SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}


def compiler() -> dict[str, str]:
    """What a suite says instead of a GPU."""
    ptxas = get_ptxas(TARGET.arch)
    return {"gpu": "none: compiled, not run", "compiler": f"triton {triton.__version__}", "ptxas": ptxas.version, "target": "sm_100a"}


def assembled(ptx: str, arch: str = "sm_100a") -> None:
    """Raise where ptxas refuses the text."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/k.ptx"
        with open(path, "w") as file:
            file.write(ptx)
        made = subprocess.run(
            [get_ptxas(TARGET.arch).path, f"-arch={arch}", path, "-o", f"{folder}/k.cubin"], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise RuntimeError(made.stderr)


def _descriptor_type(d: Descriptor | Im2col, case: Case) -> str:
    array = case.arrays[d.array]
    block = ",".join(map(str, d.block))
    if isinstance(d, Im2col):
        return f"tensordesc_im2col<{TYPES[array.dtype]}[{block}],input_rank={len(array.shape)},{d.layout!r}>"
    return f"tensordesc<{TYPES[array.dtype]}[{block}]" + (f",{d.layout!r}>" if d.layout is not None else ">")


def _signature(case: Case) -> tuple[dict[str, str], dict[str, Any], dict[Any, Any]]:
    """Signature, constants and attributes (pointers are aligned to 16 bytes, as the driver's allocator has them)."""
    types, constants, attributes = {}, {}, {}
    names = {"s32": "i32", "s64": "i64", "u32": "u32", "u64": "u64", "f32": "fp32"}
    for i, name in enumerate(case.kernel.arg_names):
        argument = case.args[name]
        if isinstance(argument, Constant):
            types[name], constants[name] = "constexpr", argument.value
        elif isinstance(argument, str):
            types[name] = "*" + TYPES[case.arrays[argument].dtype]
            attributes[(i,)] = [["tt.divisibility", 16]]
        elif isinstance(argument, Value):
            types[name] = names[argument.type]
            if argument.type != "f32" and int(argument.value) % 16 == 0:
                attributes[(i,)] = [["tt.divisibility", 16]]
        else:
            types[name] = _descriptor_type(argument, case)
    return types, constants, attributes


def _strides(shape: tuple[int, ...]) -> list[int]:
    out = [1]
    for n in reversed(shape[1:]):
        out.insert(0, out[0] * n)
    return out


def _map(d: Descriptor | Im2col, array: Array, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The 128 bytes, then what Triton passes after them: the shape as 32-bit and the strides (in elements) as 64-bit
    integers.
    """
    shape = list(d.shape) if isinstance(d, Descriptor) and d.shape else list(array.shape)
    strides = list(d.strides) if isinstance(d, Descriptor) and d.strides else _strides(array.shape)
    size = BYTES.get(array.dtype, 1)
    inner = [*shape[:-1], shape[-1] * (2 if about["fp4_padded"] else 1)]
    data_type = MAP_TYPES[about["elem_type"]]
    if isinstance(d, Descriptor) and d.round_to_tf32:
        data_type = "tf32"
    made: dict[str, Any] = {
        "data_type": data_type,
        "global_address": d.array,
        "global_dim": inner[::-1],
        "global_strides": [s * size for s in strides[:-1]][::-1],
        "element_strides": [1] * len(shape),
        "interleave": "none",
        "swizzle": SWIZZLES[about["swizzle"]],
        "l2_promotion": "128B",
        "oob_fill": "nan" if isinstance(d, Descriptor) and d.nan_fill else "zeros",
    }
    if isinstance(d, Im2col):
        pixels, channels = about["block_size"]
        made |= {"pixel_box_lower_corner": list(d.lower)[::-1], "pixel_box_upper_corner": list(d.upper)[::-1]}
        made |= {"channels_per_pixel": channels, "pixels_per_column": pixels}
        made["element_strides"] = list(d.element_strides or made["element_strides"])[::-1]
    else:
        made["box_dim"] = list(about["block_size"])[::-1]
    rest = [{"value": n, "type": "s32"} for n in shape] + [{"value": n, "type": "s64"} for n in strides]
    return [{"map": made}, *rest]


def compiled(case: Case) -> tuple[str, str, dict[str, Any]]:
    """The PTX as Triton writes it, the PTX that is kept, and the launch."""
    types, constants, attributes = _signature(case)
    kind = GluonASTSource if isinstance(case.kernel, GluonJITFunction) else ASTSource
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        made = triton.compile(kind(case.kernel, types, constants, attributes), target=TARGET, options=case.options)
    raw, about = made.asm["ptx"], made.metadata
    if dump := os.environ.get("DUMP_TTGIR"):
        with open(dump, "w") as file:
            file.write(made.asm["ttgir"])
    ptx = cleaned(raw)
    assembled(ptx)
    maps = iter(about.tensordesc_meta or ())
    arguments: list[dict[str, Any]] = []
    for name in case.kernel.arg_names:
        argument = case.args[name]
        if isinstance(argument, str):
            arguments.append({"array": argument})
        elif isinstance(argument, Value):
            arguments.append({"value": argument.value, "type": argument.type})
        elif isinstance(argument, (Descriptor, Im2col)):
            arguments += _map(argument, case.arrays[argument.array], next(maps))
    ctas = about.num_ctas
    grid = [case.grid[0] * ctas, *case.grid[1:]]
    for size in (about.global_scratch_size, about.profile_scratch_size):
        count = grid[0] * grid[1] * grid[2] * size
        arguments.append({"scratch": count} if count else {"null": True})
    declared = re.search(r"\.reqntid (\d+)", ptx)
    threads = int(declared[1]) if declared else 32 * about.num_warps
    parameters = len(re.findall(r"\.param ", ptx[: ptx.index(")", ptx.index(".entry"))]))
    if parameters != len(arguments):
        raise RuntimeError(f"{parameters} parameters in the PTX, {len(arguments)} in the launch")
    launch = {
        "schema": "smemsim.launch/1",
        "title": case.title,
        "entry": about.name,
        "arch": "sm_100a",
        "grid": grid,
        "block": [threads, 1, 1],
        "cluster": [ctas, 1, 1],
        "shared_bytes": about.shared,
        "cooperative": bool(about.launch_cooperative_grid),
        "args": arguments,
    }
    return raw, ptx, launch | about_results(case) | {"compiler": f"triton {triton.__version__}"}
