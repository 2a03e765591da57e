"""`launch_triton`: run what Triton compiled, by its calling convention (after the launcher of Triton 3.9.0,
`triton/backends/nvidia/driver.py`).

Parameters have the order of the signature without constexprs; members of tuples follow one another. A host tensor
descriptor becomes the map of 128 bytes, then its shape as 32-bit and its strides as 64-bit integers. A kernel without
TMA gets a pointer, shape and strides, two flags, shape and strides. Two pointers to scratch memory follow, zeroed here,
null if the kernel needs none. Older versions have fewer flags and pointers (`FORMS`). The number of parameters
distinguishes them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError, SmemsimError
from smemsim.base.floating_point import in_default_state
from smemsim.core.spec.ptx import WARP_SIZE
from smemsim.core.words.tensor_map import TensorMap
from smemsim.run.engine.arrays import MOST_BYTES, DeviceArray, HostMap, as_numpy
from smemsim.run.engine.launch import LaunchConfig, RunOptions, three

if TYPE_CHECKING:
    from smemsim.diagnosis.gpu import Gpu
    from smemsim.diagnosis.run import Run
    from smemsim.run.engine.device import Device

__all__ = ["as_compiled", "launch_triton", "map_arguments", "parameter_names", "scalar"]


HOST_TYPES = {8: 10, 9: 8, 10: 9}  # the device's numbers of map data types which the driver numbers otherwise
TF32 = 11
SWIZZLES = ("none", "32B", "64B", "128B")
RUN_OPTIONS = tuple(field.name for field in dataclasses.fields(RunOptions))
LAST_WITH_STRIDES_OF_16_BYTES = (8, 4)  # of the PTX ISA: that of CUDA 12.4
ELEMENT_BITS = re.compile(r"\*k?(?:fp|bf|i|u)(\d+)")  # of a pointer in a signature


@in_default_state
def launch_triton(kernel: Any, *args: Any, grid: Any, gpu: Gpu | None = None, **more: Any) -> Run:
    """Execute a kernel that `triton.compile` or `KERNEL.warmup` returned, over a grid of programs, and check it.

    Block, cluster and shared memory are what Triton decided.

    - Argument `args` has the arguments in their order, with or without the constexprs, or a mapping by name. Tuples are
      tuples.
    - Arrays of numpy and tensors of PyTorch are copied to the GPU's memory, and hold the results afterwards. Arrays
      that share memory share it there. Read-only arrays stay as they are.
    - Arrays of `gpu.array` are used in place. Pass their `gpu`.
    - Argument `grid` is one to three numbers, or a function of the arguments and constexprs by name.
    - Host descriptors are objects with `base`, `shape`, `strides` and `block_shape`.
    - All other options are those of `Gpu.launch`, unless the kernel has arguments of these names.

    Raises InputError for arguments that do not fit the signature, and what `Gpu.launch` raises.

    >>> from smemsim import launch_triton
    >>> launch_triton("kernel.py", grid=1)
    Traceback (most recent call last):
    smemsim.base.errors.InputError: kernel = 'kernel.py': needs what triton.compile(...) or KERNEL.warmup(..., grid=(1,)) returns: with .asm, .metadata and .src
    """
    from smemsim.diagnosis.gpu import Gpu  # the doors of the virtual GPU ask for the rest of this file alone
    from smemsim.run.engine.device import entry_of, target_of
    from smemsim.run.lower.program import module_of

    if gpu is not None and not isinstance(gpu, Gpu):
        raise InputError(f"gpu = {shown(gpu)}: needs a smemsim.Gpu")
    ptx, about, signature = _compiled(kernel)
    chosen = {key: more.pop(key) for key in (*RUN_OPTIONS, "cancel") if key in more and key not in signature}
    module = module_of(as_compiled(ptx, kernel.src), "the kernel's PTX")
    gpu = Gpu(target_of(module)) if gpu is None else gpu
    given = _by_name(signature, args, more)
    host = _HostMemory(gpu)
    entry = entry_of(module, about("name", None))
    has_maps = bool(about("tensordesc_meta", None))
    flags, pointers = _form(signature, has_maps, len(module.functions[entry].parameters))
    passed = _parameters(about, signature, given, gpu, host, flags)
    scratch = []
    programs = three("grid", _grid_of(grid, _meta(kernel, about, given)) if callable(grid) else grid)
    # which Triton has up to 3.5
    cluster = three("cluster_dims", about("cluster_dims", (int(about("num_ctas", 1)), 1, 1)))
    for size in (int(about("global_scratch_size", 0)), int(about("profile_scratch_size", 0)))[:pointers]:
        scratch.append(gpu.zeros(math.prod(programs) * math.prod(cluster) * size, np.uint8) if size else None)
    required = "reqntid" in module.functions[entry].directives
    config = LaunchConfig(
        entry=entry, grid=tuple(n * ctas for n, ctas in zip(programs, cluster, strict=True)),
        block=None if required else WARP_SIZE * int(about("num_warps", 4)), cluster=cluster,
        shared_bytes=int(about("shared", 0)), args=[*passed, *scratch], cancel=chosen.pop("cancel", LaunchConfig.cancel),
    )  # fmt: skip
    linked = gpu.kernel(module, entry).called(parameter_names(signature, has_maps, flags), counts_elements=True)
    run = gpu.run(linked, config, RunOptions(**{"sources": _source_folders(kernel), "name": entry, **chosen}))
    host.bring_back()
    for address in (*host.addresses, *(array.address for array in scratch if array is not None)):
        run.launch.own(address)
    return run


def _form(signature: Mapping[str, Any], has_maps: bool, count: int) -> tuple[int, int]:
    """The one of `FORMS` that a kernel of so many parameters has; the newest where none fits."""
    return next((form for form in FORMS if len(parameter_names(signature, has_maps, form[0])) + form[1] == count), FORMS[0])


def _parameters(about: Any, signature: Mapping[str, Any], given: Mapping[str, Any], gpu: Gpu, host: _HostMemory, flags: int) -> list[Any]:
    """The kernel's parameters without scratch memory. Arrays of the host are placed in the GPU's memory."""
    flat = [part for name, kind in signature.items() if kind != "constexpr" for part in _flat(name, kind, given[name])]
    for name, kind, value in flat:
        if kind.startswith("tensordesc"):
            host.add(f"{name}.base", _tensor_of(name, value)[0])
        elif kind.startswith("*") and value is not None:
            host.add(name, value, kind)
    host.place()
    metas = list(about("tensordesc_meta", None) or ())
    passed: list[Any] = []
    for name, kind, value in flat:
        if kind.startswith("tensordesc"):
            passed += _descriptor(name, value, metas.pop(0) if metas else None, gpu, host, flags)
        elif kind.startswith("*"):
            passed.append(None if value is None else host.pointer(value))
        else:
            passed.append(scalar(name, kind, value))
    return passed


def _flat(name: str, kind: Any, value: Any) -> Iterator[tuple[str, str, Any]]:
    """The arguments that an argument stands for, each with its type: the members of tuples, without constexprs."""
    if isinstance(kind, (tuple, list)):
        if not isinstance(value, (tuple, list)) or len(value) != len(kind):
            raise InputError(f"{name} = {shown(value)}: the kernel takes a tuple of {len(kind)} ({shown(tuple(kind))})")
        for n, (one, member) in enumerate(zip(kind, value, strict=True)):
            yield from _flat(f"{name}[{n}]", one, member)
    elif kind != "constexpr":
        yield name, str(kind), value


def scalar(name: str, kind: str, value: Any) -> Any:
    """A number as it is passed: those of 16 bits as their bytes, which Triton's launcher rounds to fp16 and cuts off to
    bf16.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if kind not in ("fp16", "bf16"):
        return value
    try:
        return struct.pack("<e", value) if kind == "fp16" else struct.pack("<f", value)[2:]
    except (struct.error, TypeError, OverflowError):
        raise InputError(f"{name} = {shown(value)}: needs a number that {kind} has room for") from None


def _grid_of(grid: Callable[[dict[str, Any]], Any], meta: dict[str, Any]) -> Any:
    try:
        return grid(meta)
    except KeyError as e:
        raise InputError(f"grid: the function asks for {e}; there are {', '.join(meta)}") from None


def _meta(kernel: Any, about: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The argument of a grid that is a function: arguments and constexprs by name, and the options of the compiler."""
    source = kernel.src
    names, constants = list(source.signature), getattr(source, "constants", None) or {}
    fixed = {
        key if isinstance(key, str) else names[key[0]]: value for key, value in constants.items() if isinstance(key, str) or len(key) == 1
    }
    options = {name: about(name, None) for name in ("num_warps", "num_ctas", "num_stages")}
    return {**options, **fixed, **given}


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


DESCRIPTOR = re.compile(r"tensordesc\w*<[^\[]*\[([^\]]*)\]")  # of a signature: its element type and its block


DESCRIPTOR_FLAGS = ("padding", "round_f32_to_tf32")  # of a descriptor that is no map
# (flags of these, pointers to scratch memory) of Triton 3.7 and later, 3.5 and 3.6, 3.3 and 3.4
FORMS = ((2, 2), (1, 2), (0, 1))


def parameter_names(signature: Mapping[str, Any], has_maps: bool, flags: int = len(DESCRIPTOR_FLAGS)) -> tuple[str, ...]:
    """The names in the source of the parameters of a kernel's PTX. With `has_maps`, descriptors are tensor maps. Else
    they are pointers with shapes and `flags` flags.

    >>> parameter_names({"x": "*fp32", "n": "constexpr", "a": "tensordesc<fp16[64, 64]>", "t": ("i32", "i32")}, True)
    ('x', 'a', 'a.shape[0]', 'a.shape[1]', 'a.strides[0]', 'a.strides[1]', 't[0]', 't[1]')
    """
    return tuple(part for name, kind in signature.items() for part in _names_of(name, kind, has_maps, flags))


def _names_of(name: str, kind: Any, has_maps: bool, flags: int) -> Iterator[str]:
    if isinstance(kind, (tuple, list)):
        for n, member in enumerate(kind):
            yield from _names_of(f"{name}[{n}]", member, has_maps, flags)
    elif found := DESCRIPTOR.match(str(kind)):
        rank = found[1].count(",") + 1
        sizes = [f"{name}.{what}[{n}]" for what in ("shape", "strides") for n in range(rank)]
        yield name
        yield from sizes if has_maps else (*sizes, *(f"{name}.{flag}" for flag in DESCRIPTOR_FLAGS[:flags]), *sizes)
    elif kind != "constexpr":
        yield name


_FIRST_FILE = re.compile(r"^[ \t]*\.loc[ \t]+(\d+)", re.MULTILINE)


_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_GLOBAL_STRIDE = re.compile(r"((?:@!?%\w+\s+)?tensormap\.replace\.tile\.global_stride\b[^;\n]*,\s*)(%?\w+)\s*;")


def as_compiled(ptx: str, source: Any) -> str:
    """A kernel's PTX as Triton's output runs: with the file of its function, and with strides of maps in bytes.

    Triton's PTX has the version of its ptxas. The ptxas of CUDA 12.3 and 12.4 (Triton up to 3.3) counts the strides of
    tensormap.replace in 16 bytes. So does Triton's PTX (`core/spec/errata.py`).

    >>> as_compiled(".version 8.7\\n", None), as_compiled(".version 8.4\\ntensormap.replace.tile.global_stride.b1024.b64 [%rd1], 0, %rd2;", None)[13:]
    ('.version 8.7\\n', '{ .reg .b64 %stride; shl.b64 %stride, %rd2, 4; tensormap.replace.tile.global_stride.b1024.b64 [%rd1], 0, %stride; }')
    """
    version = _VERSION.search(ptx)
    if version is not None and (int(version[1]), int(version[2])) <= LAST_WITH_STRIDES_OF_16_BYTES:
        ptx = _GLOBAL_STRIDE.sub(r"{ .reg .b64 %stride; shl.b64 %stride, \2, 4; \1%stride; }", ptx)
    return _at_home(ptx, source)


def _at_home(ptx: str, source: Any) -> str:
    """A kernel's PTX with the file that its function is in: Triton's cache keeps that of a copy with the same text,
    which was compiled first.
    """
    code = getattr(getattr(getattr(source, "fn", None), "fn", None), "__code__", None)
    own = _FIRST_FILE.search(ptx)
    if code is None or own is None or not os.path.isfile(code.co_filename):
        return ptx
    return re.sub(
        rf'^([ \t]*\.file[ \t]+{own[1]}[ \t]+)"[^"\n]*"', lambda m: f'{m[1]}"{os.path.abspath(code.co_filename)}"', ptx, flags=re.MULTILINE
    )


def _source_folders(kernel: Any) -> list[str]:
    """The folder of the kernel's Python source, by its function and not by the PTX."""
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
    by_name = dict(zip(order, args, strict=False))
    for name in by_name:
        if name in named:
            raise InputError(f"{name}: is given twice")
    by_name |= named
    missing = [f"{name} ({signature[name]})" for name in plain if name not in by_name]
    if missing:
        raise InputError(f"args: {', '.join(missing)} not given")
    return by_name


@dataclasses.dataclass
class _HostArray:
    """An array of the host. The field `array` is it, or a copy that `back` copies back. The first and the last byte of
    the memory that it is a view of are `root`.
    """

    name: str
    value: Any
    array: np.ndarray
    root: tuple[int, int]
    back: Callable[[], Any] | None = None
    owner: tuple[str, int, int] = ("", 0, 0)  # the address of the given memory, if `array` is a copy of it


class _HostMemory:
    """The host's arrays of a launch, in the GPU's memory: what is one memory there is one array here."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._arrays: list[_HostArray] = []
        # of a memory: its first byte here, its address there, its bytes before
        self._placed: list[tuple[int, int, np.ndarray]] = []

    def add(self, name: str, value: Any, kind: str = "*") -> None:
        """An argument; `kind` is its type in the signature, such as "*bf16". Arrays of bytes go anywhere."""
        value = _unwrapped(value)
        if isinstance(value, DeviceArray):
            _check_width(name, value.dtype, kind)
            return
        if value is None or isinstance(value, (int, float)):
            raise InputError(f"{name} = {shown(value)}: is a pointer; needs an array")
        if any(one.value is value for one in self._arrays):
            return
        host_array = _of_host(name, value)
        _check_width(name, host_array.array.dtype, kind)
        for other in self._arrays:
            if _overlap(host_array, other):
                raise InputError(
                    f"{name}: shares memory with {other.name}, and one of them has to be copied: pass copies, or arrays of gpu.array"
                )
        self._arrays.append(host_array)

    def place(self) -> None:
        """Put all of them into the GPU's memory."""
        for array in sorted(self._arrays, key=lambda array: array.root):
            begin, end = array.root
            if self._placed and begin < self._placed[-1][0] + len(self._placed[-1][2]):
                first, _, data = self._placed.pop()
                begin, end = first, max(end, first + len(data))
            self._placed.append((begin, 0, _bytes_at(array.name, begin, end)))
        self._placed = [(begin, 0, data.copy()) for begin, _, data in self._placed]
        for n, (begin, _, data) in enumerate(self._placed):
            name = next(array.name for array in self._arrays if self._memory_of(array)[0] == begin)
            self._placed[n] = begin, DeviceArray(self.gpu.memory, data, name.removesuffix(".base")).address, data

    @property
    def addresses(self) -> list[int]:
        """The addresses of the host's arrays in the GPU's memory."""
        return [address for _, address, _ in self._placed]

    def _memory_of(self, one: _HostArray) -> tuple[int, int, np.ndarray]:
        """The memory that an array lies in."""
        return next(x for x in self._placed if x[0] <= one.root[0] < x[0] + max(1, len(x[2])))

    def pointer(self, value: Any) -> Any:
        """The address to pass for an argument, or the array of the GPU that the argument is."""
        value = _unwrapped(value)
        if isinstance(value, DeviceArray):
            return value
        one = next(one for one in self._arrays if one.value is value)
        begin, address, _ = self._memory_of(one)
        return address + one.array.ctypes.data - begin

    def bring_back(self) -> None:
        """Give the host's arrays what the kernel wrote; those that are read-only stay as they are."""
        for array in self._arrays:
            if not array.array.flags.writeable or not array.array.size:
                continue
            begin, address, before = self._memory_of(array)
            span = slice(array.root[0] - begin, array.root[1] - begin)
            after = self.gpu.memory.span(address, len(before))[span]
            changed = np.flatnonzero(after != before[span])
            _bytes_at(array.name, *array.root)[changed] = after[changed]
            if array.back is not None:
                array.back()


def _unwrapped(value: Any) -> Any:
    """The array of a pointer of another type: what `triton.reinterpret` makes has it as `base`."""
    wrapped = not isinstance(value, np.ndarray) and hasattr(value, "data_ptr") and hasattr(value, "base")
    return value.base if wrapped else value


def _of_host(name: str, value: Any) -> _HostArray:
    if _is_tensor(value) and value.device.type != "cpu":
        host = value.detach().cpu()
        begin = value.untyped_storage().data_ptr()
        owner = str(value.device), begin, begin + value.untyped_storage().nbytes()
        array = as_numpy(name, host)
        return _HostArray(name, value, array, _root(array), lambda: value.detach().copy_(host), owner)
    array = as_numpy(name, value)
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        array.flags.writeable = value.flags.writeable
        return _HostArray(name, value, array, _root(array), lambda: np.copyto(value, array), ("host", *_root(value)))
    return _HostArray(name, value, array, _root(array))


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "untyped_storage")


def _root(array: np.ndarray) -> tuple[int, int]:
    """The bytes of the memory that an array is a view of: of its base, or of PyTorch's storage."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    owner: Any = root.base
    if _is_tensor(owner):
        storage = owner.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    first = root.ctypes.data
    if not root.size:
        return first, first
    reach = [step * (n - 1) for step, n in zip(root.strides, root.shape, strict=True)]
    return first + sum(min(x, 0) for x in reach), first + sum(max(x, 0) for x in reach) + root.itemsize


def _overlap(a: _HostArray, b: _HostArray) -> bool:
    """Is one of two arrays a copy of memory that the other one is in too?"""
    for copy, other in ((a, b), (b, a)):
        space, begin, end = copy.owner
        where = other.owner if other.owner[0] else ("host", *other.root)
        if space and space == where[0] and begin < where[2] and where[1] < end:
            return True
    return False


def _bytes_at(name: str, begin: int, end: int) -> np.ndarray:
    """The host's memory itself."""
    if end - begin > MOST_BYTES:
        raise InputError(f"{name}: is a view of {end - begin} bytes; smemsim takes {MOST_BYTES} at most: pass a copy")
    return np.ctypeslib.as_array((ctypes.c_uint8 * (end - begin)).from_address(begin)) if end > begin else np.zeros(0, np.uint8)


def _check_width(name: str, dtype: np.dtype[Any], kind: str) -> None:
    """Are an array's elements as wide as the kernel's, or bytes?"""
    bits, size = ELEMENT_BITS.match(kind), dtype.itemsize
    if bits and size not in (1, max(1, int(bits[1]) // 8)):
        raise InputError(f"{name}: an array of {dtype} ({8 * size} bits an element); the kernel was compiled for {kind}")


def _tensor_of(name: str, value: Any) -> tuple[Any, list[int], list[int]]:
    """(base, shape, strides) of a host tensor descriptor."""
    try:
        return value.base, [int(n) for n in value.shape], [int(n) for n in value.strides]
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            f"{name} = {shown(value)}: is a tensor descriptor; needs an object with base, shape, strides and block_shape"
        ) from None


def _descriptor(name: str, value: Any, meta: Any, gpu: Device, host: _HostMemory, flags: int) -> list[Any]:
    """A host tensor descriptor as parameters; `flags` follow where it is no map."""
    base, shape, strides = _tensor_of(name, value)
    array = host.pointer(base)
    is_nan, is_tf32 = getattr(value, "padding", "zero") == "nan", bool(getattr(value, "round_f32_to_tf32", False))
    if meta is None:
        return [array, *shape, *strides, *(is_nan, is_tf32)[:flags], *shape, *strides]
    code = TF32 if is_tf32 else HOST_TYPES.get(int(meta["elem_type"]), int(meta["elem_type"]))
    extents = [*shape[:-1], shape[-1] * (2 if meta.get("fp4_padded") else 1)]
    im2col: dict[str, Any] = {}
    if meta.get("is_im2col"):
        im2col = {f"{side}_corner": getattr(value, f"pixel_box_{side}_corner") for side in ("lower", "upper")}
        im2col["element_strides"] = getattr(value, "element_strides", None) or [1] * len(shape)
    address = array.address if isinstance(array, DeviceArray) else array
    call, arguments = map_arguments(
        address, meta["swizzle"], meta["elem_size"], code, meta["block_size"], extents, strides, is_nan, **im2col
    )
    try:
        tensor_map = getattr(TensorMap, call)(**arguments, arch=gpu.arch)
        return [HostMap.of(bytes(tensor_map), name, shape, strides), *shape, *strides]
    except SmemsimError as e:
        raise InputError(f"{name}: the driver refuses the map of this descriptor: {e}") from None


def map_arguments(
    address: int, swizzle: Any, element_bytes: Any, data_type: Any, block: Sequence[Any], shape: Sequence[Any], strides: Sequence[Any],
    is_nan: Any, lower_corner: Sequence[int] | None = None, upper_corner: Sequence[int] | None = None, element_strides: Sequence[int] = (),
) -> tuple[str, dict[str, Any]]:  # fmt: skip
    """The tensor map that Triton's driver makes of a descriptor, as (call, arguments by name). The dimensions of the
    descriptor are in the order of Triton.

    The driver's number of the type is `data_type`. Strides are elements. With corners it is an im2col map, and `block`
    has its pixels and channels.

    >>> call, arguments = map_arguments(0x1000, 3, 2, 6, [64, 32], [128, 256], [256, 1], False)
    >>> call, arguments["box_dim"], arguments["global_strides"], arguments["swizzle"]
    ('tiled', [32, 64], [512], '128B')
    """
    known: dict[str, Any] = {
        "data_type": int(data_type), "global_address": address, "global_dim": [int(n) for n in shape][::-1],
        "global_strides": [int(s) * int(element_bytes) for s in strides[:-1]][::-1], "interleave": "none", "swizzle": SWIZZLES[int(swizzle)],
        "l2_promotion": "128B", "oob_fill": "nan" if is_nan else "zeros",
    }  # fmt: skip
    if lower_corner is None or upper_corner is None:
        return "tiled", {**known, "box_dim": [int(n) for n in block][::-1], "element_strides": [1] * len(shape)}
    corners = {"pixel_box_lower_corner": list(lower_corner)[::-1], "pixel_box_upper_corner": list(upper_corner)[::-1]}
    sizes = {"pixels_per_column": int(block[0]), "channels_per_pixel": int(block[1])}
    return "im2col", {**known, **corners, **sizes, "element_strides": list(element_strides)[::-1]}
