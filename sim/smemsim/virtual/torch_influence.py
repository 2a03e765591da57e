"""Which elements of a torch function's result depend on uninitialised ones. The function runs again on copies, in which
these elements have other values: what changes in the result depends on them. So the marks of elements that are moved go
with them, and a sum has those of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from smemsim.core.finding import Half
from smemsim.core.machine.padding import pad_columns
from smemsim.virtual import process
from smemsim.virtual.torch_cuda import is_cuda
from smemsim.virtual.torch_tensors import CUDA, tensors

__all__ = ["bytes_of", "combined", "influenced", "marks_of"]


# words in the names of functions whose result is another one each time
RANDOM = ("bernoulli", "dropout", "multinomial", "normal", "poisson", "rand", "sample")
VALUES = {1: (200.0, -150.0), 2: (30000.0, -21000.0)}  # by bytes of a float: values that it can hold
WIDE = (3.0e30, -2.1e30)
FLIPS = (1, 6)  # bits of integers


def marks_of(tensor: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distances of a tensor's elements from its first one in bytes, and their marks; both have its shape."""
    try:
        begin, size, strides = tensor.data_ptr(), tensor.element_size(), tensor.stride()
    except (RuntimeError, NotImplementedError):  # it has no memory of its own, such as a sparse one
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    offsets = np.zeros((), np.int64)
    for count, stride in zip(tensor.shape, strides, strict=True):
        offsets = offsets[..., None] + np.arange(count) * (stride * size)
    numbers = np.zeros(offsets.shape, np.int32)
    if not offsets.size:
        return offsets, numbers
    end = int(offsets.max()) + size
    at, own = process.device().taint.marked(begin, end)
    if at.size:
        of_bytes = np.zeros(end, np.int32)
        of_bytes[at] = own
        numbers = of_bytes[offsets[..., None] + np.arange(size)].max(axis=-1)
    return offsets, numbers


def influenced(func: Any, args: Any, kwargs: Any, used: Callable[[], None]) -> Callable[[Any], None]:
    """A function is about to run on elements with marks. Returns what is to be called with its result. `used` reports a
    use of all that it reads.
    """
    name = getattr(func, "__name__", "")
    given = _leaves((args, kwargs))
    marked = {n: marks_of(x)[1] for n, x in enumerate(given) if _is_tensor(x) and tensors.place(x) == CUDA}
    numbers = sorted(set().union(*(set(np.unique(own).tolist()) for own in marked.values())) - {0})
    if any(word in name for word in RANDOM) or not all(_is_plain(x) for x in given if _is_tensor(x)):
        used()
        return lambda out: None
    try:
        runs: dict[tuple[int, int] | None, _Run] = {None: _Run(func, args, kwargs, {})}
        for number in numbers:
            for variant in (0, 1):
                runs[number, variant] = _Run(func, args, kwargs, {n: (own == number, variant) for n, own in marked.items()})
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError):
        used()
        return lambda out: None

    def follow(out: Any) -> None:
        _Results(name, given, [given[n] for n, own in marked.items() if own.any()], out, runs).follow(used)

    return follow


def _is_dense(tensor: Any) -> bool:
    """Has a tensor no elements of its memory left out?"""
    offsets = sum((count - 1) * stride for count, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(offsets + 1 <= tensor.numel())


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "untyped_storage")


def _is_plain(tensor: Any) -> bool:
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided


def _leaves(value: Any) -> list[Any]:
    from torch.utils import _pytree

    return list(_pytree.tree_leaves(value))


class _Run:
    """A function that has run on copies of what it was given, in which elements, by the place of their tensor, have
    other values.
    """

    def __init__(self, func: Any, args: Any, kwargs: Any, changes: dict[int, tuple[np.ndarray, int]]) -> None:
        import torch
        from torch.utils import _pytree

        leaves, spec = _pytree.tree_flatten((args, kwargs))
        copies = [_changed(x, *changes.get(n, (None, 0))) if _is_tensor(x) else _on_host(x) for n, x in enumerate(leaves)]
        own_args, own_kwargs = _pytree.tree_unflatten(copies, spec)
        with torch.no_grad():
            self.out = _leaves(func(*own_args, **own_kwargs))
        self.given = copies


def _on_host(value: Any) -> Any:
    import torch

    return "cpu" if isinstance(value, (str, torch.device)) and bool(is_cuda(value)) else value


def _changed(tensor: Any, where: np.ndarray | None, variant: int) -> Any:
    import torch

    copy = tensor.detach().clone().resolve_conj().resolve_neg()
    if where is None or not where.any():
        return copy
    chosen = torch.from_numpy(np.ascontiguousarray(where))
    if tensor.dtype == torch.bool:
        copy[chosen] = ~copy[chosen] if variant == 0 else copy[chosen]
    elif tensor.is_complex():
        parts = torch.view_as_real(copy)
        value = VALUES.get(parts.element_size(), WIDE)[variant]
        parts[chosen] = torch.full((int(where.sum()), 2), value, dtype=torch.float32).to(parts.dtype)
    elif tensor.is_floating_point():
        value = VALUES.get(tensor.element_size(), WIDE)[variant]
        copy[chosen] = torch.full((int(where.sum()),), value, dtype=torch.float32).to(tensor.dtype)
    else:
        copy[chosen] = copy[chosen] ^ FLIPS[variant]
    return copy


class _Results:
    """Values that a function has returned or changed, in addition to those that it makes of other values."""

    def __init__(self, name: str, given: Sequence[Any], marked: Sequence[Any], out: Any, runs: dict[Any, _Run]) -> None:
        self.name, self.given, self.marked, self.out, self.runs = name, given, marked, _leaves(out), runs
        self.usual = runs.pop(None)

    def follow(self, used: Callable[[], None]) -> None:
        """Give results the marks of what they depend on; report a use by what is not of the card."""
        if len(self.usual.out) != len(self.out):
            used()
            return
        self._decide({number for (number, _), run in self.runs.items() if len(run.out) != len(self.out)})
        own = {id(x) for x in self.out}
        numbers = [n for n, x in enumerate(self.out) if not _is_tensor(x)]
        if numbers:  # those of a list, for example
            self._goes_out(lambda run: [run.out[n] for n in numbers])
        pairs = [(x, lambda run, n=n: run.out[n]) for n, x in enumerate(self.out) if _is_tensor(x)]
        pairs += [(x, lambda run, n=n: run.given[n]) for n, x in self._changed() if id(x) not in own]
        for real, of in pairs:
            if _is_tensor(real) and tensors.place(real) == CUDA and _is_plain(real):
                self._mark(real, of, used)
            else:
                self._goes_out(of)

    def _decide(self, numbers: set[int]) -> None:
        """Values with these marks decide how many results there are: that is a use."""
        if numbers:
            process.device().taint.uses(sorted(numbers), f"{self.name} of torch")
            self.runs = {key: run for key, run in self.runs.items() if key[0] not in numbers}

    def _changed(self) -> Iterator[tuple[int, Any]]:
        """The arguments that the function has changed, by their place."""
        for n, (real, usual) in enumerate(zip(self.given, self.usual.given, strict=True)):
            if _is_tensor(real) and tensors.place(real) == CUDA and (self.name.endswith("_") or self._differ(real, usual).any()):
                yield n, real

    def _goes_out(self, of: Callable[[_Run], Any]) -> None:
        """A value leaves the card: what it depends on is used. Columns of a tensor may be padding."""
        usual = of(self.usual)
        differ = {key: self._differ(usual, of(run)).reshape(-1) for key, run in self.runs.items()}
        if len({each.size for each in differ.values()}) > 1:  # some runs have results of another shape
            differ = {key: np.array([each.any()]) for key, each in differ.items()}
        count = max((each.size for each in differ.values()), default=0)
        marked = np.zeros(count, bool)
        for each in differ.values():
            marked |= each
        got = np.flatnonzero(marked)
        if all(map(_is_dense, self.marked)) and self._has_whole_rows(count, 0):
            marked[got[pad_columns(got)]] = False
        taint, by = process.device().taint, f"{self.name} of torch"
        taint.uses(sorted({key[0] for key, each in differ.items() if (each & marked).any()}), by)
        taint.uses(sorted({key[0] for key, each in differ.items() if each.any()}), by, are_pads=True)
        size = usual.element_size() if _is_tensor(usual) else self.marked[0].element_size()
        taint.copied(bytes_of(((key[0], each) for key, each in differ.items()), size), by)

    def _has_whole_rows(self, count: int, columns: int) -> bool:
        """Has a result as many elements as what it is made of, or as many columns? Else columns were chosen."""
        return all(count >= x.numel() or (x.dim() > 0 and columns >= x.shape[-1]) for x in self.marked)

    def _mark(self, real: Any, of: Callable[[_Run], Any], used: Callable[[], None]) -> None:
        usual = of(self.usual)
        if tuple(usual.shape) != tuple(real.shape):
            used()
            return
        self._decide({number for (number, _), run in self.runs.items() if tuple(of(run).shape) != tuple(real.shape)})
        tensors.show()  # makes a new tensor known to the device
        offsets, _ = marks_of(real)
        memory = process.device().taint.memory
        if memory is None or not offsets.size:
            return
        differ = ((key[0], self._differ(usual, of(run))) for key, run in self.runs.items())
        which, sets = combined(differ, offsets.shape)
        made = np.zeros(len(sets), np.int32)
        is_whole = self._has_whole_rows(real.numel(), real.shape[-1] if real.dim() else 1)
        by = Half("compute", f"{self.name} of torch")
        for n, those in enumerate(sets):
            doubts: list[Any] = [doubt for number in those for doubt in memory.taint.doubts_of(number)]
            kept = [doubt.made(by) if doubt.is_pad and not is_whole else doubt for doubt in doubts]
            made[n] = memory.taint.number_of(kept) if kept else 0
        size = real.element_size()
        process.device().taint.becomes(
            real.data_ptr(), int(offsets.max()) + size, offsets.reshape(-1), made[which.reshape(-1)], element=size
        )

    @staticmethod
    def _differ(one: Any, other: Any) -> np.ndarray:
        """Which elements of two tensors, or of two lists, are not the same bits. It is one answer for other values, and
        for tensors that have other shapes, or no bits for each element. Two sparse tensors count as different.
        """
        if isinstance(one, list) and isinstance(other, list) and np.shape(one) == np.shape(other):
            return _are_others(np.array(one), np.array(other))
        if not (_has_bits(one) and _has_bits(other)) or one.shape != other.shape or one.dtype != other.dtype:
            return np.array([_is_tensor(one) != _is_tensor(other) or _is_tensor(one) or bool(_are_others(one, other))])
        differ = np.asarray((_bits(one) != _bits(other)).numpy())
        return np.asarray(differ.any(axis=-1)) if one.is_complex() else differ


def _are_others(one: Any, other: Any) -> np.ndarray:
    """Which values are not the same? NaN is the same as NaN.

    >>> _are_others(np.array([1.0, np.nan, np.nan]), np.array([2.0, np.nan, 3.0])).tolist(), bool(_are_others(np.nan, np.nan))
    ([True, False, True], False)
    """
    are_none = np.asarray(one != one) & np.asarray(other != other)  # noqa: PLR0124
    found: np.ndarray = np.asarray(one != other) & ~are_none
    return found


def combined(differ: Iterable[tuple[int, np.ndarray]], shape: tuple[int, ...]) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """The sets of numbers that elements have, by (which of them, the sets), from numbers and which elements have them.

    >>> combined([(7, np.array([True, False, True])), (7, np.array([False] * 3)), (9, np.array([True, False, False]))], (3,))
    (array([2, 0, 1]), [(), (7,), (7, 9)])
    """
    which, sets = np.zeros(shape, np.int64), list[tuple[int, ...]]([()])
    for number, own in differ:
        if own.any():
            known, which = np.unique(2 * which + own, return_inverse=True)
            sets = [tuple(dict.fromkeys((*sets[n >> 1], *(number,) * (n & 1)))) for n in known.tolist()]
    return which.reshape(shape), sets


def bytes_of(differ: Iterable[tuple[int, np.ndarray]], size: int) -> dict[int, np.ndarray]:
    """For each number the distances of the bytes that have it, from numbers and which elements of `size` bytes have
    them. A number comes several times, once for each value that was tried.

    >>> bytes_of([(7, np.array([True, False, False])), (7, np.array([False, False, True])), (9, np.array([False] * 3))], 2)
    {7: array([0, 1, 4, 5])}
    """
    held = dict[int, np.ndarray]()
    for number, own in differ:
        held[number] = held.get(number, np.zeros(own.shape, bool)) | own
    return {number: (np.flatnonzero(own)[:, None] * size + np.arange(size)).reshape(-1) for number, own in held.items() if own.any()}


def _has_bits(value: Any) -> bool:
    """Is it a tensor with a place in memory for each element?"""
    import torch

    return _is_tensor(value) and value.layout == torch.strided


def _bits(tensor: Any) -> Any:
    """The bits of each element; a complex one has those of two numbers."""
    import torch

    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.resolve_neg()
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.detach().contiguous().view(kinds[tensor.element_size()])
