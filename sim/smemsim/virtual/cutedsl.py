"""CuTe DSL on the virtual GPU: its compiled host code calls the device of this process instead of NVIDIA's runtime
library.

`smemsim exec` installs this shim. Without it, call `install` before cutlass is imported.

    import smemsim.virtual.cutedsl
    smemsim.virtual.cutedsl.install("sm_100a")
    import cutlass

The DSL compiles as usual, with `-lineinfo`. ptxas then keeps the PTX in the cubin, which the runtime library loads. The
DSL's own file of the PTX also has the lines of the Python source. It is kept in a temporary folder.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import pathlib
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

from smemsim.base.errors import InputError
from smemsim.core.spec.cuda_errors import CUDA_CODES
from smemsim.virtual import bindings, build, fatbin, process
from smemsim.virtual.errors import INVALID_DEVICE, CudaError
from smemsim.virtual.local import attributes_of, session
from smemsim.virtual.policy import Policy

__all__ = ["before_import", "install"]


LIBRARY = "libcute_dsl_runtime.so"
# of the environment variables of cutlass.cute and cutlass.cute_experimental
PREFIXES = ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL")
FOLDER = "smemsim-cutedsl-"
INTERNAL = 999
_kept: list[Any] = []  # what compiled code points to
_names: dict[str, tuple[str, ...]] = {}  # of kernels: what the source calls their parameters


def install(arch: str | None = None, *, policy: Policy | None = None, **card: Any) -> None:
    """Let CuTe DSL use the virtual GPU of this process. Call it before cutlass is imported. `card` is that of
    `process.choose`.

    Raises InputError if no card is given, if cutlass is imported already without this shim, and if the replacement of
    the runtime library neither exists nor can be built.
    """
    process.choose(arch, policy=policy, **card)
    if _is_open():
        _after_import()
        return
    if "cutlass" in sys.modules:
        raise InputError(
            "cutlass is imported already: call smemsim.virtual.cutedsl.install before the import, or run the program under smemsim exec"
        )
    before_import()
    process.open_on_import({name: process.DOORS[name] for name in ("torch", "cutlass")})


def before_import() -> None:
    """The environment that cutlass reads when it is imported."""
    if _is_open():
        return
    arch = process.choose()
    library = _runtime_library()
    for prefix in PREFIXES:
        keep = {*filter(None, os.environ.get(f"{prefix}_KEEP", "").split(",")), "ptx"}
        os.environ |= {
            f"{prefix}_LIBS": str(library), f"{prefix}_ARCH": arch, f"{prefix}_LINEINFO": "1", f"{prefix}_KEEP": ",".join(sorted(keep)),
            f"{prefix}_DUMP_DIR": os.environ.get(f"{prefix}_DUMP_DIR") or str(_folder()), f"{prefix}_DISABLE_FILE_CACHING": "1",
        }  # fmt: skip
    warnings.filterwarnings("ignore", "Cache is disabled as user wants to generate PTX")
    _fill(library)
    bindings.install()


def _is_open() -> bool:
    return bool(_kept)


def _after_import() -> None:
    """The changes in cutlass itself. A benchmark runs a kernel once, since the time of a simulation is not that of a
    card.
    """
    for name in ("cutlass.testing", "cutlass.cute.testing"):
        testing: Any = sys.modules.get(name)
        if hasattr(testing, "benchmark") and not hasattr(testing.benchmark, "of_smemsim"):
            testing.benchmark = _once(testing.benchmark)
    base: Any = getattr(sys.modules.get("cutlass.base_dsl.dsl"), "BaseDSL", None)
    prepare = getattr(base, "generate_kernel_operands_and_types", None)
    if prepare is not None and not hasattr(prepare, "of_smemsim"):
        base.generate_kernel_operands_and_types = _named(prepare)


def _named(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """`generate_kernel_operands_and_types` of the DSL, which notes what the source calls the
    parameters of each kernel.
    """

    @functools.wraps(prepare)
    def run(dsl: Any, function: Any, name: str, signature: Any, arguments: Any, named: Any, *more: Any) -> Any:
        made = prepare(dsl, function, name, signature, arguments, named, *more)
        with contextlib.suppress(Exception):  # another version of the DSL: findings name parameters as the PTX does
            _names[name] = _names_of(signature, arguments, named)
        return made

    run.of_smemsim = True  # type: ignore[attr-defined]
    return run


_PASSED = re.compile(  # types of the DSL whose values the host passes; an mma that adds to D or not has that
    r"b?f\d|i\d|index|!llvm|!cute\.(?:memref|ptr)|!cute_nvgpu\.atom\.\w*tma|!cute\.tiled_mma<!cute_nvgpu\.sm\d+\."
)


def _names_of(signature: Any, arguments: Any, named: Any) -> tuple[str, ...]:
    """The names of a kernel's parameters in the source: its arguments without those of which everything is known when
    it compiles.
    """
    extract = sys.modules["cutlass.base_dsl.dsl"].extract_mlir_values
    values = dict(zip(signature.parameters, arguments, strict=False)) | dict(named)
    names: list[str] = []
    for name, value in values.items():
        if "Constexpr" in str(signature.parameters[name].annotation):
            continue
        types = ["i32"] if isinstance(value, (int, float)) else [str(part.type) for part in extract(value)]
        passed = [n for n, kind in enumerate(types) if _PASSED.match(kind)]
        names += [name] if len(passed) == 1 else [f"{name}[{n}]" for n in passed]
    return tuple(names)


def _once(benchmark: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(benchmark)
    def run(*arguments: Any, **named: Any) -> Any:
        count = 2 if named.get("workspace_generator") else 1
        return benchmark(
            *arguments, **{**named, "warmup_iterations": 0, "iterations": 1, "workspace_count": min(named.get("workspace_count", 1), count)}
        )

    run.of_smemsim = True  # type: ignore[attr-defined]
    return run


@functools.cache
def _folder() -> pathlib.Path:
    """A folder of this process for the DSL's PTX; those of processes that were killed go away too."""
    base = pathlib.Path(tempfile.gettempdir())
    for left in base.glob(f"{FOLDER}*"):
        number = left.name.removeprefix(FOLDER).partition("-")[0]
        if number.isdigit() and not pathlib.Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)
    mine = os.getpid()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{FOLDER}{mine}-", dir=base))
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == mine else None)
    return folder


def _runtime_library() -> pathlib.Path:
    return build.libraries() / LIBRARY


# ---- Code


_NO_CODE = re.compile(r"\s*(?:\.loc\b|\.file\b|//|$)")


def _with_lines(code: bytes) -> bytes | str:
    """A cubin, or its PTX with the lines of the source, if the DSL has written that, too."""
    try:
        text = next((image.ptx for image in fatbin.images(code) if image.ptx), "")
    except InputError:
        return code
    wanted = _instructions(text)
    for path in (
        path for folder in {os.environ[f"{prefix}_DUMP_DIR"] for prefix in PREFIXES} for path in pathlib.Path(folder).glob("**/*.ptx")
    ):
        written = path.read_text(errors="replace")
        if (_instructions(written) == wanted) if text else all(name.encode() in code for name in _entries(written)):
            return written
    return code


def _entries(text: str) -> list[str]:
    return re.findall(r"\.entry\s+([\w$]+)", text) or ["\0"]


def _instructions(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if not _NO_CODE.match(line)]


# ---- The runtime library's functions. Those that CUDA has too take CUDA's arguments; each returns a CUDA error.


LETTERS = {"p": ctypes.c_uint64, "i": ctypes.c_int32, "u": ctypes.c_uint32}
_TABLE: dict[str, tuple[Callable[..., Any], Any]] = {}


def _entry(takes: str, *names: str, gives: str = "i") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of the runtime library, under its names there; `takes` are LETTERS of its arguments."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _TABLE[name] = (function, ctypes.CFUNCTYPE(LETTERS[gives], *(LETTERS[letter] for letter in takes)))
        return function

    return note


def _put(at: int, value: int, kind: Any = ctypes.c_uint64) -> None:
    kind.from_address(at).value = value


def _name(at: int) -> str:
    return ctypes.string_at(at).decode()


@_entry("pppp", "cuda_dialect_init_library_once")
def _init_library(storage: int, load: int, to_device: int, on_error: int) -> int:
    """Load a library once. `on_error` makes an exception of a kind and a text. A code without one looks for an
    exception that does not exist.
    """
    if ctypes.c_uint64.from_address(storage).value:
        return 0
    library = ctypes.c_uint64()
    at = ctypes.addressof(library)
    code: int = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64)(load)(at)
    if not code and to_device:
        code = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_int32)(to_device)(at, 0)
    if code and on_error:
        ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(on_error)(b"RuntimeError", _text(code).encode())
        return -1
    if not code:
        _put(storage, library.value)
    return code


@_entry("pp", "cuda_dialect_unload_library_once", "cuda_dialect_assert_success")
def _nothing(first: int, second: int) -> None: ...


@_entry("i", "cuda_dialect_get_error_name", gives="p")
def _error_name(code: int) -> int:
    return _error_names()[code if code in CUDA_CODES else INTERNAL][1]


@functools.cache
def _error_names() -> dict[int, tuple[Any, int]]:
    texts = {n: ctypes.create_string_buffer((c.runtime or c.driver).encode()) for n, c in CUDA_CODES.items()}
    texts[INTERNAL] = ctypes.create_string_buffer(b"cudaErrorUnknown")
    return {n: (text, ctypes.addressof(text)) for n, text in texts.items()}


@_entry("i", "cuda_dialect_print_on_error")
def _print_error(code: int) -> None:
    if code:
        session().device.tell(f"CUDA error {code}: {session().reason or CUDA_CODES[code].text if code in CUDA_CODES else 'unknown'}")


@_entry("pi", "CuteDSLRT_TVMFFISetRaisedCudaError")
def _raised(set_raised: int, code: int) -> None:
    """The host code of a TVM FFI function has had an error. Its caller gets an exception from what is set here."""
    _set_raised(set_raised, code)


@_entry("pi", "CuteDSLRT_TVMFFISetRaisedCudaLaunchError")
def _raised_by_launch(set_raised: int, code: int) -> None:
    _set_raised(set_raised, code)


def _set_raised(set_raised: int, code: int) -> None:
    parts = (ctypes.c_char_p * 1)(_text(code).encode())
    ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32)(set_raised)(b"RuntimeError", ctypes.addressof(parts), 1)


def _text(code: int) -> str:
    known = CUDA_CODES.get(code)
    return f"{known.runtime or known.driver if known else f'CUDA error {code}'}: {session().reason or (known.text if known else '')}"


@_entry("pp", "_cudaLibraryLoadData", "_cuLibraryLoadData")
def _load(out: int, code: int) -> None:
    _put(out, session().call("load", _as_bytes(_with_lines(fatbin.at_address(code))), "", 0))


def _as_bytes(code: bytes | str) -> bytes:
    return code.encode() if isinstance(code, str) else code


@_entry("p", "_cudaLibraryUnload", "_cuLibraryUnload")
def _unload(library: int) -> None:
    session().call("unload", library)


@_entry("ppp", "_cudaLibraryGetKernel", "_cuLibraryGetKernel", "_cudaLibraryGetUnifiedFunction", "_cuLibraryGetUnifiedFunction")
def _get_kernel(out: int, library: int, name: int) -> None:
    function = session().call("function", library, _name(name))
    session().call("name_parameters", function, _names.get(_name(name), ()))
    _put(out, function)


@_entry("pp", "_cudaLibraryGetKernelCount", "_cuLibraryGetKernelCount")
def _kernel_count(out: int, library: int) -> None:
    _put(out, session().call("function_count", library), ctypes.c_uint32)


@_entry("pppp", "_cudaLibraryGetGlobal", "_cuLibraryGetGlobal", "_cudaLibraryGetManaged", "_cuLibraryGetManaged")
def _get_variable(out: int, size: int, library: int, name: int) -> None:
    address, count = session().call("variable", library, _name(name))
    _put(out, address)
    if size:
        _put(size, count)


@_entry("pipi", "_cuKernelGetAttribute")
def _kernel_attribute(out: int, what: int, kernel: int, device: int) -> None:
    _put(out, session().call("function_attribute", kernel, what), ctypes.c_int32)


@_entry("pii", "_cudaFuncSetAttribute")
def _set_attribute(function: int, what: int, value: int) -> None:
    session().call("set_function_attribute", function, what, value & (1 << 64) - 1)


@_entry("piii", "_cudaKernelSetAttributeForDevice")
def _set_attribute_for_device(function: int, what: int, value: int, device: int) -> None:
    _set_attribute(function, what, value)


@_entry("ppp", "_cudaLaunchKernelEx")
def _launch(config: int, function: int, arguments: int) -> None:
    """cudaLaunchKernelExC: a cudaLaunchConfig_t is grid, block, dynamic shared memory, stream, attributes and their
    number.
    """
    grid, block = ((ctypes.c_uint32 * 3).from_address(config + 12 * n) for n in range(2))
    shared, stream, attributes = ((ctypes.c_uint64).from_address(config + 24 + 8 * n).value for n in range(3))
    said = attributes_of(attributes, ctypes.c_uint32.from_address(config + 48).value)
    session().call(
        "launch", function, *(n or 1 for n in grid), *(n or 1 for n in block), *said.cluster, shared, stream, said.is_cooperative, said.is_dependent,
        session().bank(function, arguments),
    )  # fmt: skip


@_entry("ppip", "_cudaOccupancyMaxActiveBlocksPerMultiprocessor")
def _occupancy(out: int, function: int, threads: int, shared: int) -> None:
    _put(out, session().call("occupancy", function, threads, shared), ctypes.c_int32)


@_entry("piupppppiiii", "_cuTensorMapEncodeTiled")
def _encode(
    out: int, kind: int, rank: int, address: int, dim: int, strides: int, box: int, steps: int, interleave: int, swizzle: int, promotion: int, fill: int
) -> None:  # fmt: skip
    arrays = ((dim, 8, rank), (strides, 8, rank - 1), (box, 4, rank), (steps, 4, rank))
    read = [ctypes.string_at(at, size * count) if count else b"" for at, size, count in arrays]
    ctypes.memmove(out, session().call("encode_tiled", kind, rank, address, *read, interleave, swizzle, promotion, fill), 128)


@_entry("p", "_cudaGetDevice")
def _get_device(out: int) -> None:
    _put(out, 0, ctypes.c_int32)


@_entry("pi", "_cuDeviceGet")
def _device_get(out: int, ordinal: int) -> None:
    _put(out, 0, ctypes.c_int32)


@_entry("p", "_cudaGetDeviceCount")
def _device_count(out: int) -> None:
    _put(out, 1, ctypes.c_int32)


@_entry("i", "_cudaSetDevice")
def _set_device(ordinal: int) -> None:
    if ordinal:
        raise CudaError(INVALID_DEVICE, f"device {ordinal}: there is one, device 0")


@_entry("pii", "_cudaDeviceGetAttribute")
def _device_attribute(out: int, what: int, device: int) -> None:
    _put(out, session().call("attribute", what), ctypes.c_int32)


@_entry("", "_cudaDeviceSynchronize")
def _synchronize() -> None:
    session().call("synchronize", 0)


@_entry("pp", "_cudaMalloc")
def _malloc(out: int, size: int) -> None:
    _put(out, session().call("allocate", size, "device", ""))


@_entry("ppp", "_cudaMallocAsync")
def _malloc_async(out: int, size: int, stream: int) -> None:
    _put(out, session().call("allocate_async", size, "", stream))


@_entry("pp", "_cudaMallocHost")
def _malloc_host(out: int, size: int) -> None:
    _put(out, session().call("allocate", size, "pinned", ""))


@_entry("ppi", "_cudaMallocManaged")
def _malloc_managed(out: int, size: int, flags: int) -> None:
    _put(out, session().call("allocate", size, "managed", ""))


@_entry("p", "_cudaFree", "_cudaFreeHost")
def _free(address: int) -> None:
    session().call("free", address)


@_entry("pp", "_cudaFreeAsync")
def _free_async(address: int, stream: int) -> None:
    session().call("free_async", address, stream)


@_entry("pppi", "_cudaMemcpy")
def _memcpy(to: int, source: int, size: int, kind: int) -> None:
    session().call("copy", to, source, size, kind, 0)


@_entry("pppip", "_cudaMemcpyAsync")
def _memcpy_async(to: int, source: int, size: int, kind: int, stream: int) -> None:
    session().call("copy", to, source, size, kind, stream)


@_entry("pip", "_cudaMemset")
def _memset(to: int, value: int, size: int) -> None:
    session().call("fill", to, 0, value, 1, size, 1, 0)


@_entry("pipp", "_cudaMemsetAsync")
def _memset_async(to: int, value: int, size: int, stream: int) -> None:
    session().call("fill", to, 0, value, 1, size, 1, stream)


@_entry("p", "_cudaStreamCreate")
def _stream_create(out: int) -> None:
    _put(out, session().call("stream_create", 0, 0))


@_entry("p", "_cudaStreamDestroy")
def _stream_destroy(stream: int) -> None:
    session().call("stream_destroy", stream)


@_entry("p", "_cudaStreamSynchronize")
def _stream_synchronize(stream: int) -> None:
    session().call("synchronize", stream)


@_entry("ppi", "_cudaStreamWaitEvent")
def _stream_wait(stream: int, event: int, flags: int) -> None:
    session().call("stream_wait", stream, event)


@_entry("pppi", "_cudaStreamAddCallback")
def _stream_callback(stream: int, function: int, data: int, flags: int) -> None:
    session().call("call_back", stream, function, data)


@_entry("pi", "_cudaStreamBeginCapture")
def _capture_begin(stream: int, mode: int) -> None:
    session().call("capture_begin", stream, mode)


@_entry("pp", "_cudaStreamEndCapture")
def _capture_end(stream: int, out: int) -> None:
    _put(out, session().call("capture_end", stream))


@_entry("ppp", "_cudaGraphInstantiate")
def _graph_instantiate(out: int, graph: int, flags: int) -> None:
    _put(out, session().call("graph_instantiate", graph))


@_entry("pp", "_cudaGraphLaunch")
def _graph_launch(graph: int, stream: int) -> None:
    session().call("graph_launch", graph, stream)


@_entry("p", "_cudaGraphDestroy", "_cudaGraphExecDestroy")
def _graph_destroy(graph: int) -> None:
    session().call("graph_destroy", graph)


@_entry("p", "_cudaEventCreate")
def _event_create(out: int) -> None:
    _put(out, session().call("event_create", 0))


@_entry("p", "_cudaEventDestroy")
def _event_destroy(event: int) -> None:
    session().call("event_destroy", event)


@_entry("pp", "_cudaEventRecord")
def _event_record(event: int, stream: int) -> None:
    session().call("event_record", event, stream)


@_entry("ppp", "_cudaEventElapsedTime")
def _event_elapsed(out: int, begin: int, end: int) -> None:
    ctypes.c_float.from_address(out).value = session().call("event_elapsed", begin, end) / 1000


@_entry("", "_cudaProfilerStart", "_cudaProfilerStop")
def _profiler() -> None: ...


def _fill(library: pathlib.Path) -> None:
    """Put the functions into the slots of the stand-in."""
    loaded = ctypes.CDLL(str(library))
    for name, (function, kind) in _TABLE.items():
        made = kind(_guarded(name, function))
        _kept.append(made)
        ctypes.c_void_p.in_dll(loaded, f"slot_{name}").value = ctypes.cast(made, ctypes.c_void_p).value


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., int]:
    """No exception leaves through compiled code: it becomes the error that CUDA has for it."""

    def call(*arguments: int) -> int:
        try:
            return function(*arguments) or 0
        except CudaError as e:
            return e.code
        except Exception:
            import traceback

            session().reason = f"internal error in {name}"
            session().device.tell(f"{session().reason}, please report it:\n{traceback.format_exc()}")
            return INTERNAL

    return call
