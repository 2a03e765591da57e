"""Launchers of Triton up to 3.6: C code that Triton writes and compiles for each signature. Here nothing is compiled,
and `Utils.launch` is called.

The properties of a version are those of its own driver. If launchers are C, it has `make_launcher`. It decides the
number of flags and scratch pointers before the arguments, the functions that fill a tensor map, and the form of
descriptors without TMA.
"""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from smemsim.core.spec.swizzles import MODES
from smemsim.core.spec.tensor_map import MAP_BYTES, SWIZZLES, TensorMapDataType, TensorMapSwizzle
from smemsim.run.engine.arrays import HostMap

__all__ = ["Argument", "decomposed_flags", "map_fillers", "map_of", "replace"]


# Triton 3.3: grid, stream, function; cooperative; scratch, metadata of kernel and launch, two hooks
FIRST_FORMAT = "iiiKKpOOOOO"
NOT_SCRATCH = 4  # objects of a format that are no scratch memory: metadata of kernel and launch, two hooks
DESCRIPTOR = re.compile(r"tensordesc<([^[>]*)\[([^\]]*)\]")
UNSIGNED = {1: TensorMapDataType.UINT8, 2: TensorMapDataType.UINT16, 4: TensorMapDataType.UINT32}  # by bytes
ROWS = {
    MODES[SWIZZLES[s]].width: s for s in TensorMapSwizzle if s.name in ("SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B")
}  # by bytes of a row


class Argument:
    """Triton's `PyKernelArg`: what an argument of the signature is; the members of a tuple are `nested_tuple`."""

    CONSTEXPR, KERNEL, TUPLE = 0, 1, 2

    def __init__(self, nested_tuple: Any, type: int) -> None:
        self.nested_tuple, self.type = nested_tuple, type


class _Source(str):
    """What Triton's `make_launcher` wrote, and the signature it was written for: with descriptors as what is passed for
    them.
    """

    __slots__ = ("signature",)
    signature: tuple[Any, ...]


def decomposed_flags(nvidia: Any) -> int:
    """How many flags follow the first shape and strides of a descriptor that is no tensor map: padding, and from Triton
    3.7 on rounding.
    """
    make = getattr(nvidia, "make_tensordesc_arg", None)
    if make is None:
        return 0
    probe = types.SimpleNamespace(base=None, shape=[1], strides=[1], padding="zero", round_f32_to_tf32=False)
    without_map = [None] * (make.__code__.co_argcount - 1)
    return len(make(probe, *without_map)) - 5


def replace(nvidia: Any, launch: Callable[..., None]) -> None:
    """Let Triton's driver module, if its launchers are C, make launchers that call `launch`.

    >>> def made(src, name):  # what Triton would compile
    ...     raise NotImplementedError
    >>> driver = types.SimpleNamespace(  # as that of 3.6 is
    ...     make_launcher=lambda constants, signature, metas: "int main() {}", compile_module_from_src=made, libdevice_dir="", library_dirs=list,
    ...     _BASE_ARGS_FORMAT="iiiKKppOOOOOO")
    >>> replace(driver, lambda *given, cluster: print([x for x in given if not isinstance(x, list)], given[-2], cluster))
    >>> source = driver.make_launcher({}, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, None)
    >>> launch = driver.compile_module_from_src(src=source, name="__triton_launcher").launch
    >>> launch(2, 1, 1, 0, 7, False, True, None, None, (4, 1, 128), "metadata", None, None, 4096, 5, 64)
    [2, 1, 1, 0, 7, False, True, (4, 1, 128), 'metadata', None, None, None, None, (4096, 5, 64)] ['*fp32', 'i32'] None
    >>> launch(2, 1, 1, 0, 7, False, True, None, None, (4, 1, 128), "metadata", None, None, 4096, 5)
    Traceback (most recent call last):
    TypeError: kernel takes 3 arguments, constexprs too, and got 2: pass all of its signature
    """
    if not hasattr(nvidia, "make_launcher"):
        return
    write, build, flags = nvidia.make_launcher, nvidia.compile_module_from_src, decomposed_flags(nvidia)
    form = getattr(nvidia, "_BASE_ARGS_FORMAT", FIRST_FORMAT)

    @functools.wraps(write)
    def make_launcher(constants: Any, signature: Mapping[Any, Any], *metas: Any) -> _Source:
        made = _Source(write(constants, signature, *metas))
        made.signature = tuple(_expanded(signature.values(), metas[0] if metas else None, flags))
        return made

    @functools.wraps(build)
    def compile_module_from_src(src: str, name: str, *args: Any, **more: Any) -> Any:
        if not isinstance(src, _Source):
            return build(src, name, *args, **more)
        return types.SimpleNamespace(launch=_launcher(src.signature, form, launch, has_half=hasattr(nvidia, "FLOAT_STORAGE_TYPE")))

    nvidia.make_launcher, nvidia.compile_module_from_src = make_launcher, compile_module_from_src
    nvidia.library_dirs = _even_without_driver(nvidia.library_dirs, nvidia.libdevice_dir)


def _even_without_driver(library_dirs: Callable[[], list[str]], own: str) -> Callable[[], list[str]]:
    """Folders to link with; Triton asks before it compiles, and stops where the system has no driver."""

    @functools.wraps(library_dirs)
    def found() -> list[str]:
        try:
            return library_dirs()
        except (AssertionError, OSError, subprocess.SubprocessError):
            return [own]

    return found


def _expanded(kinds: Iterable[Any], metas: Sequence[Any] | None, flags: int) -> Iterator[Any]:
    """The types of what is passed: for a descriptor its map or its pointer, then shape and strides."""
    left = list(metas or ())
    for kind in kinds:
        found = DESCRIPTOR.match(kind) if isinstance(kind, str) else None
        if found is None:
            yield kind
            continue
        rank = found[2].count(",") + 1
        if metas and left.pop(0) is not None:
            yield "nvTmaDesc"
        else:
            yield from (f"*{found[1]}", *["i64"] * (2 * rank), *["i1"] * flags)
        yield from (*["i32"] * rank, *["i64"] * rank)


def _annotated(signature: Sequence[Any]) -> list[Argument]:
    return [
        Argument(_annotated(kind), Argument.TUPLE)
        if isinstance(kind, tuple)
        else Argument(None, Argument.CONSTEXPR if kind == "constexpr" else Argument.KERNEL)
        for kind in signature
    ]


def _flat(signature: Sequence[Any]) -> Iterator[str]:
    for kind in signature:
        if isinstance(kind, tuple):
            yield from _flat(kind)
        elif kind != "constexpr":
            yield kind


def _launcher(signature: Sequence[Any], form: str, launch: Callable[..., None], *, has_half: bool) -> Callable[..., None]:
    """What Triton's compiled launcher is called as. It wants every argument, constexprs too (TypeError)."""
    annotations, kinds = _annotated(signature), list(_flat(signature))
    if not has_half:  # Triton 3.3 passes 16-bit floats as 32 bits, of which the kernel takes the first two bytes
        kinds = ["fp32" if kind in ("fp16", "bf16") else kind for kind in kinds]
    switches = form.count("p")  # cooperative, and from Triton 3.4 on programmatic dependent launch
    scratch = form.count("O") - NOT_SCRATCH

    def run(x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
        own = len(form) - 5
        (cooperative, dependent), memory = (*rest[:switches], False)[:2], (*rest[switches : switches + scratch], None)[:2]
        sizes, metadata, enter, leave = rest[switches + scratch : own]
        arguments = rest[own:]
        _check(annotations, arguments)
        launch(
            x, y, z, stream, function, cooperative, dependent, sizes, metadata, enter, leave, *memory, annotations, kinds, arguments,
            cluster=tuple(sizes[3:6]) or None,
        )  # fmt: skip

    return run


def _check(annotations: Sequence[Argument], arguments: Sequence[Any]) -> None:
    """TypeError where their number is not that of the signature, as `PyArg_ParseTuple` gives it."""
    if len(arguments) != len(annotations):
        raise TypeError(f"kernel takes {len(annotations)} arguments, constexprs too, and got {len(arguments)}: pass all of its signature")
    for about, value in zip(annotations, arguments, strict=True):
        if about.type == Argument.TUPLE:
            _check(about.nested_tuple, value)


# ---- Tensor maps


_filled: dict[int, HostMap] = {}  # maps in memory of the host, by their address


def map_fillers(nvidia: Any, encode: Callable[..., HostMap]) -> dict[str, Callable[..., Any]]:
    """The functions of a version's `CudaUtils` that fill tensor maps, by name; `encode` is `fill_tma_descriptor_tiled`,
    the one of Triton 3.7 and later.
    """

    def plain(*arguments: Any) -> HostMap:
        """`encode`, whose error says no more than the driver's: programs compare it. The reason stands below it in a
        traceback.
        """
        try:
            return encode(*arguments)
        except RuntimeError as e:
            refused = RuntimeError("Triton Error [CUDA]: invalid argument")
            refused.add_note(str(e))
            raise refused from None

    def keep(address: int, made: HostMap) -> None:
        ctypes.memmove(address, bytes(made), MAP_BYTES)
        _filled[address] = made

    def fill_tma_descriptor(destination: int, *more: Any) -> None:  # Triton 3.4
        keep(destination, plain(*more, 0))

    def fill_1d_tma_descriptor(address: int, extent: int, block: int, element_bytes: int, destination: int) -> None:
        keep(destination, plain(address, 0, element_bytes, _unsigned(element_bytes), [block], [extent], [1], 0))

    def fill_2d_tma_descriptor(
        address: int, rows: int, columns: int, block_rows: int, block_columns: int, element_bytes: int, destination: int,
    ) -> None:  # fmt: skip
        widest = max((size for size in ROWS if size <= element_bytes * block_columns), default=0)
        swizzle = ROWS.get(widest, TensorMapSwizzle.SWIZZLE_NONE)
        block = [block_rows, min(block_columns, max(ROWS) // element_bytes)]
        kind = _unsigned(element_bytes)
        keep(destination, plain(address, swizzle, element_bytes, kind, block, [rows, columns], [columns, 1], 0))

    known: dict[str, Callable[..., Any]] = {
        "fill_1d_tma_descriptor": fill_1d_tma_descriptor, "fill_2d_tma_descriptor": fill_2d_tma_descriptor,
        "fill_tma_descriptor": plain if hasattr(nvidia, "PyCUtensorMap") else fill_tma_descriptor,
    }  # fmt: skip
    return {name: fill for name, fill in known.items() if name in nvidia.CudaUtils.__init__.__code__.co_names}


def _unsigned(element_bytes: int) -> int:
    if element_bytes not in UNSIGNED:
        raise ValueError("elementSize must be 1, 2, or 4")
    return UNSIGNED[element_bytes]


def map_of(value: Any) -> HostMap:
    """The tensor map that an argument is: one that a filler returned, or an object with the address of one. TypeError
    for anything else.
    """
    if isinstance(value, HostMap):
        return value
    if not hasattr(value, "tma_desc_cpu_ptr"):
        raise TypeError(f"object must be of type PyCUtensorMap, got {type(value).__name__}")
    address = value.tma_desc_cpu_ptr()
    raw = ctypes.string_at(address, MAP_BYTES)
    known = _filled.get(address)
    return known if known is not None and bytes(known) == raw else HostMap(raw)
