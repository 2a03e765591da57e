"""Running what Triton compiled: its calling convention, after the launcher of Triton 3.9.0 (`triton/backends/nvidia/driver.py`).

Parameters stand in the order of the signature without constexprs. A host tensor descriptor becomes the map of 128 bytes, then its shape as 32-bit and
its strides as 64-bit integers; a kernel without TMA gets a pointer, shape and strides, two flags, shape and strides. Two pointers to scratch memory
follow, zeroed here, null where the kernel needs none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown, suggestion
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError, SmemsimError
from smemsim.gpu.arrays import DeviceArray, as_numpy
from smemsim.gpu.device import Device, target_of
from smemsim.gpu.launch import three
from smemsim.ptx.parser import read_module
from smemsim.running.gpu import Gpu
from smemsim.running.run import Run
from smemsim.spec.ptx import WARP_SIZE

__all__ = ["launch_triton"]

HOST_TYPES = {8: 10, 9: 8, 10: 9}  # the device's numbers of map data types which the driver numbers otherwise
TF32 = 11
SWIZZLES = ("none", "32B", "64B", "128B")
OPTIONS = ("sanitize", "ctas", "progress", "limit", "limit_seconds", "workers", "client", "sources", "cancel")
ELEMENT_BITS = re.compile(r"\*k?(?:fp|bf|i|u)(\d+)")  # of a pointer in a signature


def launch_triton(kernel: Any, *args: Any, grid: Any, gpu: Gpu | None = None, **more: Any) -> Run:
    """Run what `triton.compile` or `KERNEL.warmup` returned, over a grid of programs; block, cluster and shared memory are what Triton decided.

    `args` are the kernel's arguments in their order, with the constexprs or without them, or by name. Numpy arrays are copied into the GPU's memory and
    hold the results afterwards (read-only ones stay as they are); arrays of `gpu.array` stay where they are (give their `gpu`). Host descriptors are
    anything with `base`, `shape`, `strides` and `block_shape`, such as Triton's TensorDescriptor of a `gpu.array`. `sanitize`, `ctas`, `progress`,
    `limit`, `limit_seconds`, `workers`, `client`, `sources` and `cancel` are those of `Gpu.launch`, unless the kernel has arguments of these names.
    Raises InputError for arguments that do not fit the signature, and what `Gpu.launch` raises.

    >>> launch_triton("kernel.py", grid=1)
    Traceback (most recent call last):
    smemsim.errors.InputError: kernel = 'kernel.py': needs what triton.compile(...) or KERNEL.warmup(..., grid=(1,)) returns: with .asm, .metadata and .src
    """
    if gpu is not None and not isinstance(gpu, Gpu):
        raise InputError(f"gpu = {shown(gpu)}: needs a smemsim.Gpu")
    ptx, about, signature = _compiled(kernel)
    options = {key: more.pop(key) for key in OPTIONS if key in more and key not in signature}
    options.setdefault("sources", _source_folders(kernel))
    gpu = Gpu(target_of(read_module(ptx, name="the kernel's PTX"))) if gpu is None else gpu
    given = _by_name(signature, args, more)
    metas = list(about("tensordesc_meta", None) or ())
    passed: list[Any] = []
    copies: list[tuple[np.ndarray, DeviceArray]] = []
    for name, kind in signature.items():
        if kind == "constexpr":
            continue
        if isinstance(kind, str) and kind.startswith("tensordesc"):
            meta = metas.pop(0) if metas else None
            passed += _descriptor(name, given[name], meta, gpu, copies)
        elif isinstance(kind, str) and kind.startswith("*"):
            passed.append(None if given[name] is None else _array(name, given[name], gpu, copies, kind))
        elif isinstance(kind, str):
            passed.append(given[name])
        else:
            raise InputError(f"{name}: is a tuple of arguments ({shown(kind)}); pass its members as arguments of their own")
    x, y, z = three("grid", grid)
    ctas = int(about("num_ctas", 1))
    for size in (int(about("global_scratch_size", 0)), int(about("profile_scratch_size", 0))):
        passed.append(gpu.zeros(x * y * z * ctas * size, np.uint8) if size else None)
    module = gpu.module(ptx, "the kernel's PTX")
    entry = gpu.entry(module, about("name", None))
    block = module.functions[entry].directives.get("reqntid") or (WARP_SIZE * int(about("num_warps", 4)), 1, 1)
    run = gpu.launch(
        ptx, entry, grid=(x * ctas, y, z), block=tuple(block), cluster=(ctas, 1, 1), shared_bytes=int(about("shared", 0)), args=passed, name=entry,
        **options,
    )  # fmt: skip
    for host, device in copies:
        if host.flags.writeable:
            host[...] = device.numpy()
    return run


def _compiled(kernel: Any) -> tuple[str, Any, Mapping[str, Any]]:
    """(PTX, how to ask for metadata, the signature) of a compiled kernel."""
    asm, metadata, source = (getattr(kernel, name, None) for name in ("asm", "metadata", "src"))
    signature = getattr(source, "signature", None)
    try:
        ptx = asm["ptx"]  # type: ignore[index]
    except (TypeError, KeyError):
        ptx = None
    if not isinstance(ptx, str) or metadata is None or not isinstance(signature, Mapping):
        hint = "; compile it first" if hasattr(kernel, "warmup") else ""
        raise InputError(
            f"kernel = {shown(kernel)}{hint}: needs what triton.compile(...) or KERNEL.warmup(..., grid=(1,)) returns: with .asm, .metadata and .src"
        )

    def about(name: str, otherwise: Any) -> Any:
        value = metadata.get(name, otherwise) if isinstance(metadata, Mapping) else getattr(metadata, name, otherwise)
        return otherwise if value is None else value

    return ptx, about, signature


def _source_folders(kernel: Any) -> list[str]:
    """Where the kernel's Python source lies: as its function says, not as the PTX does."""
    code = getattr(getattr(getattr(kernel.src, "fn", None), "fn", None), "__code__", None)
    folder = os.path.dirname(os.path.abspath(code.co_filename)) if code is not None else ""
    return [folder] if os.path.isdir(folder) else []


def _by_name(signature: Mapping[str, Any], args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names of the signature; those of constexprs count for nothing."""
    plain = [name for name, kind in signature.items() if kind != "constexpr"]
    for name in named:
        if name not in signature:
            raise InputError(f"{name}: no such argument{suggestion(name, signature)}; the kernel has {', '.join(signature)}")
    order = list(signature) if len(args) == len(signature) else plain
    if len(args) > len(order):
        raise InputError(f"args: {len(args)} were given, the kernel has {', '.join(plain)} (and constexprs)")
    found = dict(zip(order, args, strict=False))
    for name in found:
        if name in named:
            raise InputError(f"{name}: is given twice")
    found |= named
    missing = [f"{name} ({signature[name]})" for name in plain if name not in found]
    if missing:
        raise InputError(f"args: {', '.join(missing)} not given")
    return found


def _array(name: str, value: Any, gpu: Device, copies: list[tuple[np.ndarray, DeviceArray]], kind: str = "*") -> DeviceArray:
    """An argument in the GPU's memory; `kind` is its type in the signature, such as "*bf16". Arrays of bytes go anywhere."""
    if isinstance(value, DeviceArray):
        _check_width(name, value.dtype, kind)
        return value
    if isinstance(value, (int, float)):
        raise InputError(f"{name} = {shown(value)}: is a pointer; needs an array")
    for host, device in copies:
        if host is value:
            return device
    array = as_numpy(name, value)
    _check_width(name, array.dtype, kind)
    device = gpu.array(array, name=name.removesuffix(".base"))
    if isinstance(value, np.ndarray):
        copies.append((value, device))
    return device


def _check_width(name: str, dtype: np.dtype[Any], kind: str) -> None:
    """Are an array's elements as wide as the kernel's, or bytes?"""
    bits, size = ELEMENT_BITS.match(kind), dtype.itemsize
    if bits and size not in (1, max(1, int(bits[1]) // 8)):
        raise InputError(f"{name}: an array of {dtype} ({8 * size} bits an element); the kernel was compiled for {kind}")


def _descriptor(name: str, value: Any, meta: Any, gpu: Device, copies: list[tuple[np.ndarray, DeviceArray]]) -> list[Any]:
    """A host tensor descriptor as parameters."""
    try:
        base, shape, strides = value.base, [int(n) for n in value.shape], [int(n) for n in value.strides]
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            f"{name} = {shown(value)}: is a tensor descriptor; needs an object with base, shape, strides and block_shape"
        ) from None
    array = _array(f"{name}.base", base, gpu, copies)
    is_nan, is_tf32 = getattr(value, "padding", "zero") == "nan", bool(getattr(value, "round_f32_to_tf32", False))
    if meta is None:
        return [array, *shape, *strides, is_nan, is_tf32, *shape, *strides]
    size = int(meta["elem_size"])
    code = TF32 if is_tf32 else HOST_TYPES.get(int(meta["elem_type"]), int(meta["elem_type"]))
    extents = [*shape[:-1], shape[-1] * (2 if meta.get("fp4_padded") else 1)]
    known: dict[str, Any] = {
        "data_type": code, "global_address": array.address, "global_dim": extents[::-1],
        "global_strides": [s * size for s in strides[:-1]][::-1], "interleave": "none", "swizzle": SWIZZLES[int(meta["swizzle"])],
        "l2_promotion": "128B", "oob_fill": "nan" if is_nan else "zeros", "arch": gpu.arch,
    }  # fmt: skip
    block = [int(n) for n in meta["block_size"]]
    try:
        if meta.get("is_im2col"):
            steps = list(getattr(value, "element_strides", None) or [1] * len(shape))[::-1]
            lower, upper = (list(getattr(value, f"pixel_box_{side}_corner"))[::-1] for side in ("lower", "upper"))
            tm = TensorMap.im2col(
                **known, pixel_box_lower_corner=lower, pixel_box_upper_corner=upper, pixels_per_column=block[0], channels_per_pixel=block[1],
                element_strides=steps,
            )  # fmt: skip
        else:
            tm = TensorMap.tiled(**known, box_dim=block[::-1], element_strides=[1] * len(shape))
    except SmemsimError as e:
        raise InputError(f"{name}: the driver refuses the map of this descriptor: {e}") from None
    return [tm, *shape, *strides]
