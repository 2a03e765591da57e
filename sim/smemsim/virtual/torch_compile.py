"""`torch.compile`: Dynamo and Inductor are PyTorch's own, "cuda" is the card's device, and the kernels that Inductor
writes are launched.

Dynamo does not trace the mode that lets "cuda" mean the card: fakes of marked tensors are on "cuda"
(`torch_fake.py`). The code around the kernels runs with the mode. Nothing is measured: of several configurations the
first one is taken, and nothing of it is kept for a card.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import pathlib
import sys
from typing import Any

from smemsim.virtual import process
from smemsim.virtual.torch_ops import with_mode
from smemsim.virtual.torch_tensors import tensors

__all__ = ["open_compile"]


SETTINGS = {
    "use_static_cuda_launcher": False,  # its C++ is of a build with CUDA
    "compile_threads": 1,  # other processes have no card
    "fx_graph_cache": False,  # what a card compiled is not taken for this one, nor the other way round
    "autotune_local_cache": False,
    "autotune_remote_cache": False,
    "benchmark_epilogue_fusion": False,
    "shape_padding": False,  # whether padding pays is measured, and nothing is here
    "layout_optimization": False,  # convolutions are the CPU's, and keep its strides
    "triton.cudagraphs": False,  # kernels are launched one by one
    "triton.autotune_at_compile_time": False,
}  # of torch._inductor.config
GRAPHS = {
    "reduce-overhead": None,
    "max-autotune": "max-autotune-no-cudagraphs",
}  # modes of torch.compile that capture graphs, and what is done instead


def open_compile(mode: Any) -> None:
    """Change torch, once. `mode` is what handles torch's functions."""
    import torch

    real = torch.compile

    @functools.wraps(real)
    def compiled(model: Any = None, **named: Any) -> Any:
        if named.get("disable"):
            return real(model, **named)
        if sys._getframe(1).f_globals.get("__name__", "").startswith("torch.") and named.get("backend") not in (None, "inductor"):
            return model  # of PyTorch's own that only traces (flex_attention without compilation)
        if (why := _opened(mode)) is not None:
            _refuse(f"torch.compile: compiles nothing here, functions run as they are written ({why})")
            return model if model is not None else lambda function: function
        if named.get("mode") in GRAPHS or (named.get("options") or {}).get("triton.cudagraphs"):
            _say_once("torch.compile: no graph is captured, kernels are launched one by one")
            named = _without_graphs(named)
        return real(model, **named)

    torch.compile = compiled


def _without_graphs(named: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `torch.compile` that ask for no captured graph."""
    mode: Any = named.get("mode")
    options = {**(named.get("options") or {})}
    if options:
        options["triton.cudagraphs"] = False
    return {**named, "mode": GRAPHS.get(mode, mode), "options": options or None}


@functools.cache
def _opened(mode: Any) -> str | None:
    """Change Dynamo and Inductor, once, as they are imported first; why that cannot be, or None."""
    try:
        _open_dynamo()
        _open_inductor(mode)
        _open_backward()
        _open_failures()
    except (ImportError, AttributeError, OSError, StopIteration) as e:
        return f"{type(e).__name__}: {e}"
    return None


def _open_dynamo() -> None:
    """Dynamo traces no mode of ours, and code that was compiled for a tensor of the card is not used for one of the
    host, nor the other way round.
    """
    guards = importlib.import_module("torch._dynamo.guards").GuardBuilder
    state = importlib.import_module("torch._dynamo.variables.torch_function").SymbolicTorchFunctionState
    begin, match = state.__init__, guards.TENSOR_MATCH

    @functools.wraps(begin)
    def without_ours(self: Any, py_stack: Any, *args: Any, **kwargs: Any) -> None:
        stack = list(py_stack)
        begin(self, [] if [type(one).__module__ for one in stack] == ["smemsim.virtual.torch"] else stack, *args, **kwargs)

    @functools.wraps(match)
    def of_place(self: Any, guard: Any, value: Any = None) -> None:
        match(self, guard, value)
        given = self.get(guard) if value is None else value
        given = given() if callable(given) and not hasattr(given, "untyped_storage") else given
        place = tensors.place(given)
        self.get_guard_manager(guard).add_lambda_guard(
            lambda x: tensors.place(x) == place, [f"the tensor's device is {place}"], guard.user_stack
        )

    state.__init__, guards.TENSOR_MATCH = without_ours, of_place


def _open_inductor(mode: Any) -> None:
    """Inductor's code takes memory of the card, and nothing is measured."""
    import torch

    config = importlib.import_module("torch._inductor.config")
    for name, value in SETTINGS.items():
        *path, last = name.split(".")
        owner = functools.reduce(getattr, path, config)
        if hasattr(owner, last):
            setattr(owner, last, value)
    heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    algorithms = importlib.import_module("torch._inductor.select_algorithm")
    code = importlib.import_module("torch._inductor.output_code")

    def empty_strided(*args: Any) -> Any:
        with_card = with_mode(mode, torch.empty_strided)
        size, stride, dtype = args
        return with_card(size, stride, dtype=dtype, device="cuda")

    torch._C._dynamo.guards._empty_strided_cuda = empty_strided
    folding = importlib.import_module("torch._inductor.constant_folding").ConstantFolder
    folding.run = with_mode(mode, folding.run)
    algorithms.AlgorithmSelectorCache.get_inputs = classmethod(lambda *_, **__: None)
    heuristics.CachingAutotuner.benchmark_all_configs = lambda self, *args, **kwargs: {
        one: float(n) for n, one in enumerate(self.launchers)
    }
    heuristics.CachingAutotuner.coordinate_descent_tuning = lambda self, launcher, *args, **kwargs: launcher
    heuristics.CachingAutotuner.bench = lambda self, launcher, *args, **kwargs: 1.0
    algorithms.AlgorithmSelectorCache.benchmark_choices = classmethod(_unmeasured)
    code.CompiledFxGraph.__call__ = with_mode(mode, _noted(code.CompiledFxGraph.__call__))


def _noted(call: Any) -> Any:
    """A call of compiled code, after which the end of the program looks for launches."""

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "cuda" in self.device_types:
            _look_at_end()
        return call(self, *args, **kwargs)

    return called


@functools.cache
def _look_at_end() -> None:
    """Compiled code without a kernel of its own is no simulation: a card would run the library's products."""

    def look() -> None:
        if not process.device().launches:
            _refuse(
                "torch.compile: the compiled code launched no kernel; its operations ran on the CPU, where a card runs a "
                'library (mode="max-autotune" writes products as kernels)'
            )

    atexit.register(look)


def _unmeasured(cls: Any, choices: Any, *args: Any, **kwargs: Any) -> dict[Any, float]:
    """Stands for the times of the ways to compute a product: the first kernel of Triton, since cuBLAS's are not
    simulated; else the first way.
    """
    own = [choice for choice in choices if type(choice).__name__.startswith("Triton")]
    order = [*own, *(choice for choice in choices if choice not in own)]
    return {choice: float(n) for n, choice in enumerate(order, 1)}


FAILURES = (NotImplementedError, RuntimeError, AttributeError, AssertionError, LookupError, TypeError, ValueError)


def _open_failures() -> None:
    """Code that Inductor cannot compile here runs uncompiled. A line reports it, and the exit code shows that not all
    was simulated.
    """
    compiler: Any = importlib.import_module("torch._inductor.compile_fx")
    errors = importlib.import_module("torch._dynamo.exc")
    real = compiler.compile_fx

    @functools.wraps(real)
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **named: Any) -> Any:
        try:
            return real(model_, example_inputs_, *args, **named)
        except FAILURES as e:
            is_of_inductor = type(e).__name__ in ("InductorError", "BackendCompilerFailed")
            if isinstance(e, errors.TorchDynamoException) and not is_of_inductor:
                raise  # Dynamo's own way to begin anew
            first = str(e).partition("\n")[0]
            _refuse(f"torch.compile: Inductor cannot compile a graph here, which runs as it is written ({first})")
            return model_.forward

    compiler.compile_fx = compile_fx


@functools.cache
def _say_once(what: str) -> None:
    process.device().tell(what)


@functools.cache
def _refuse(what: str) -> None:
    process.device().code.refuse(what)


# ---- Backward of fake tensors: autograd's C++ asks which accelerator there is


class _Symbol(ctypes.Structure):
    """Dl_info (dladdr(3))."""

    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p))


class Accelerator:
    """Context manager: PyTorch's build for the CPU answers "cuda" to C++ code that asks for the accelerator.

    Its object for CUDA (`at::detail::getCUDAHooks`) has a virtual function that says whether CUDA exists. It has no
    name in the library, so the functions that return false are tried. The result is used only for backward of fake
    tensors. Raises AttributeError or OSError if another PyTorch has no such object.
    """

    def __init__(self) -> None:
        import torch

        library = ctypes.CDLL(str(next(pathlib.Path(torch.__file__).parent.glob("lib/libtorch_cpu.*"))))
        hooks = library._ZN2at6detail12getCUDAHooksEv
        hooks.restype = ctypes.c_void_p
        self._object = ctypes.c_void_p.from_address(hooks())
        self._own = int(self._object.value or 0)
        self._table = (ctypes.c_void_p * (BEFORE + FUNCTIONS))()
        ctypes.memmove(self._table, self._own - BEFORE * ctypes.sizeof(ctypes.c_void_p), ctypes.sizeof(self._table))
        self._yes, self._no = (ctypes.CFUNCTYPE(ctypes.c_bool)(answer) for answer in (lambda: True, lambda: False))
        self._deep = 0
        self._find()

    def _find(self) -> None:
        import torch

        yes = ctypes.cast(self._yes, ctypes.c_void_p).value
        for n in range(BEFORE, BEFORE + FUNCTIONS):
            own = self._table[n]
            if own and ctypes.CDLL(None).dladdr(ctypes.c_void_p(own), ctypes.byref(_Symbol())) and _is_false(own):
                self._table[n] = yes
                with self:
                    found = torch._C._accelerator_getAccelerator()
                if found is not None:
                    self._table[n + CONTEXT] = ctypes.cast(self._no, ctypes.c_void_p).value
                    return
                self._table[n] = own
        raise AttributeError("no function of this PyTorch says whether CUDA is there")

    def __enter__(self) -> None:
        self._deep += 1
        self._object.value = ctypes.addressof(self._table) + BEFORE * ctypes.sizeof(ctypes.c_void_p)

    def __exit__(self, *_: object) -> None:
        self._deep -= 1
        if not self._deep:
            self._object.value = self._own


CONTEXT = (
    # hasPrimaryContext is so many functions after it (ATen/detail/AcceleratorHooksInterface.h: isBuilt, isAvailable,
    # hasPrimaryContext)
    2
)
# words of a table of virtual functions before the first one (Itanium C++ ABI); how many of them are looked at
BEFORE, FUNCTIONS = 2, 64
FALSE = (b"\x31\xc0\xc3", b"\x00\x00\x80\x52\xc0\x03\x5f\xd6")  # x86-64: xor eax, eax; ret. aarch64: mov w0, 0; ret
BRANCH_TARGETS = (b"\xf3\x0f\x1e\xfa", b"\x5f\x24\x03\xd5")  # endbr64; bti c


def _is_false(address: int) -> bool:
    """Does a function return false, and do nothing else?"""
    code = ctypes.string_at(address, 12)
    for prefix in BRANCH_TARGETS:
        code = code.removeprefix(prefix)
    return code.startswith(FALSE)


def _open_backward() -> None:
    import torch

    accelerator, engine = Accelerator(), torch.autograd._engine_run_backward

    @functools.wraps(engine)
    def run(*args: Any, **kwargs: Any) -> Any:
        is_traced = (
            torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None or torch._guards.detect_fake_mode(args) is not None
        )
        with accelerator if is_traced else contextlib.nullcontext():
            return engine(*args, **kwargs)

    for module in (torch.autograd, torch.autograd.graph):
        module._engine_run_backward = run
