"""Graphs of `torch.cuda`: kernels are nodes of the device's graph, and functions of PyTorch, which run on the CPU, are
its host nodes.

The results of a function keep their place in memory: a replay computes them again and copies them there. A function
that changes its argument runs in replays only, as on a card. Tensors that were made during the capture live as long
as the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smemsim.virtual import process
from smemsim.virtual.graphs import GraphExec, Node
from smemsim.virtual.torch_cuda import CudaStream, streams
from smemsim.virtual.torch_tensors import CUDA, tensors, tensors_in

__all__ = ["WITHOUT_WORK", "Capture", "CudaGraph", "captured", "is_capturing"]


# Functions with such names change what tensors are, not their values.
OF_SHAPES = {"requires_grad_", "detach_", "resize_", "resize_as_", "set_", "squeeze_", "unsqueeze_", "transpose_", "swapaxes_", "swapdims_", "t_", "rename_",
             "share_memory_", "retain_grad"}  # fmt: skip
IN_PLACE = {
    "__setitem__",
    *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")),
}
EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
# What launches nothing on a card.
WITHOUT_WORK = OF_SHAPES | EMPTY | {"__get__", "__set__", "__delete__", "__len__", "as_strided", "data_ptr", "detach", "dim", "element_size", "expand", "flatten", "is_contiguous", "narrow", "ndimension", "numel", "permute", "reshape", "size", "squeeze", "storage_offset", "stride", "t", "transpose", "unflatten", "unsqueeze", "untyped_storage", "view", "view_as"}  # fmt: skip


class CudaGraph:
    """`torch.cuda.CUDAGraph`: kernels and functions of torch are captured and replayed; backward is not."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph: GraphExec | None = None

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """The current stream's kernels become the graph."""
        self._stream = streams.get(streams.current)
        process.device().begin_capture(self._stream)

    def capture_end(self) -> None:
        """The graph is complete."""
        self._graph = GraphExec(process.device().end_capture(self._stream, streams.by_number.values()))

    def instantiate(self) -> None:
        """Nothing is left to do."""

    def replay(self) -> None:
        """Run the graph's kernels."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        tensors.show()
        process.device().launch_graph(self._graph, streams.get(streams.current))

    def reset(self) -> None:
        """Forget the graph."""
        self._graph = None

    def pool(self) -> tuple[int, int]:
        """A name of a pool."""
        return (0, 0)


class Capture:
    """`torch.cuda.graph`."""

    def __init__(self, cuda_graph: CudaGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global") -> None:
        self.graph, self.stream = cuda_graph, stream or CudaStream()

    def __enter__(self) -> CudaGraph:
        self.stream.__enter__()
        self.graph.capture_begin()
        return self.graph

    def __exit__(self, *_: object) -> None:
        try:
            self.graph.capture_end()
        finally:
            self.stream.__exit__()


def is_capturing() -> bool:
    """Is the current stream captured?"""
    return streams.get(streams.current).graph is not None


def captured(handler: Callable[[Any, Any, Any], Any], func: Any, args: Any, kwargs: Any) -> Any:
    """A function of torch while the current stream is captured: what it gives now, and a node that computes it in
    replays.
    """
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "__delete__") or name in OF_SHAPES:
        return handler(func, args, kwargs)
    target = kwargs.get("out") if kwargs.get("out") is not None else args[0] if args and _changes(name) else None
    if target is not None and any(tensors.place(x) == CUDA for x in tensors_in((target,))):
        _add(lambda: func(*args, **kwargs))
        return None if name == "__setitem__" else target
    out = handler(func, args, kwargs)
    given = {x.untyped_storage().data_ptr() for x in tensors_in((args, tuple(kwargs.values()))) if not x.is_sparse}
    new = [x for x in tensors_in((out,)) if tensors.place(x) == CUDA and not x.is_sparse and x.untyped_storage().data_ptr() not in given]
    if not new:
        return out
    keeps = [x.detach() for x in new]
    for x in keeps:
        tensors.mark(x, CUDA)

    def again() -> None:
        made = [x for x in tensors_in((func(*args, **kwargs),)) if not x.is_sparse]
        fresh = [x for x in made if x.untyped_storage().data_ptr() not in given]
        for to, x in zip(keeps, fresh, strict=False):
            to.copy_(x.detach())

    _add(again if name not in EMPTY else lambda: len(keeps))
    return out


def _changes(name: str) -> bool:
    """Does a function change its first argument?"""
    return name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))


def _add(run: Callable[[], Any]) -> None:
    import torch

    def without_grad() -> None:
        with torch.no_grad():
            run()

    process.device().submit(streams.get(streams.current), Node("host", without_grad))
