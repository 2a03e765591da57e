"""Which tensors of PyTorch are the device's: marks on their storages, and the device's knowledge of their memory."""

from __future__ import annotations

import collections
import contextlib
import functools
import re
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from smemsim.base.errors import InputError
from smemsim.core.machine.uninitialised import litter
from smemsim.virtual import alignment, callers, process
from smemsim.virtual.errors import CudaError
from smemsim.virtual.memory import bytes_at

__all__ = ["CPU", "CUDA", "MARK", "PINNED", "Tensors", "address_of", "out_of_memory", "tensors", "tensors_in"]


MARK = "_smemsim_place"  # an attribute of a torch.UntypedStorage
CUDA, CPU, PINNED = "cuda", "cpu", "pinned"
EMPTY = frozenset(
    ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
)  # their results are uninitialised


class _Place:
    """The place of a storage: the device ("cuda"), the host ("cpu"), or pinned memory of the host, with its bytes when
    it was marked.
    """

    __slots__ = ("__weakref__", "address", "elements", "is_bound", "is_littered", "name", "place", "size", "watch")

    def __init__(self, place: str, name: str, elements: tuple[str, tuple[int, ...]] = ("", ())) -> None:
        self.elements = elements
        self.place, self.name, self.address, self.size, self.is_bound = place, name, 0, 0, False
        self.is_littered = False  # filled with garbage, like uninitialised memory
        self.watch: Any = None  # the weak reference that tells when the storage dies


def address_of(storage: Any) -> int:
    """The address of a storage: 0 without memory, like tensors of a program's class (`_make_wrapper_subclass`)."""
    try:
        return int(storage.data_ptr())
    except RuntimeError:
        return 0


class Tensors:
    """The storages of this process's tensors that are the device's memory."""

    def __init__(self) -> None:
        self._live: dict[int, _Place] = {}  # by address
        self._dead: collections.deque[_Place] = collections.deque()  # whose storages are gone, and which are known yet
        self._new: dict[int, _Place] = {}  # not known to the device yet
        self._on_host: weakref.WeakValueDictionary[int, _Place] = (
            weakref.WeakValueDictionary()
        )  # by address: what Python knows to be the host's
        self._others: set[int] = set()  # the begin of memory that compiled code took from torch and gave to kernels
        self._bytes = self.most_bytes = 0

    @property
    def live(self) -> dict[int, _Place]:
        """Storages of the device, by address."""
        self._bury()
        return self._live

    @property
    def bytes(self) -> int:
        """The memory of the device that they take."""
        self._bury()
        return self._bytes

    def mark(self, tensor: Any, place: str, made_by: str = "") -> None:
        """Say where a tensor's storage is; one that is marked keeps its mark, and is looked at again, since it may have
        been resized.
        """
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            self._mark_without_memory(tensor, place, made_by)
            return
        known: _Place | None = getattr(storage, MARK, None)
        is_new = known is None
        if known is None:
            known = _Place(place, _described(tensor, made_by), _elements(tensor)) if place != CPU else _Place(place, "")
            setattr(storage, MARK, known)
            if place != CPU:
                known.watch = weakref.ref(storage, functools.partial(self._died, known))
                callers.make_current()
        if tensor.device.type != "cpu":
            return
        if known.place != CPU:
            self._follow(known, storage)
            # whose bytes are 0 or 1
            if is_new and known.place == CUDA and made_by in EMPTY and str(tensor.dtype) != "torch.bool":
                self._litter(known)
        elif known.address != (address := address_of(storage)):
            known.address = address
            self._on_host[address] = known

    def place(self, tensor: Any) -> str:
        """ "cuda", "cpu" or "pinned". Unmarked storages are the host's, except those that autograd makes while backward
        runs, and those that compiled code made and gave to a kernel.
        """
        import torch

        try:
            storage = tensor.untyped_storage()
            known: _Place | None = getattr(storage, MARK, None)
        except (NotImplementedError, RuntimeError):
            inner = _inner(tensor)
            return str(getattr(tensor, MARK, CPU)) if inner is tensor else self.place(inner)
        if known is not None:
            return known.place
        if self._others and tensor.device.type == "cpu" and alignment.is_claimed(address_of(storage)):
            self.mark(tensor, CUDA, "compiled code")
            return CUDA
        return CUDA if torch._C._current_graph_task_id() != -1 else CPU

    def _mark_without_memory(self, tensor: Any, place: str, made_by: str) -> None:
        """Mark what a wrapper of torch.func holds; a sparse tensor itself."""
        inner = _inner(tensor)
        if inner is not tensor:
            self.mark(inner, place, made_by)
        elif place != CPU and not hasattr(tensor, MARK):
            setattr(tensor, MARK, place)

    def show(self) -> None:
        """Make the memory of all tensors known to the device: before a launch."""
        device = process.device()
        with device.turn:  # later calls find them all there
            self._bury()
            self._forget_others()
            device.listeners.ask_host = self.find
            for address in list(self._new):  # other threads make tensors meanwhile
                place = self._new.pop(address, None)
                if place is not None:
                    with contextlib.suppress(
                        InputError
                    ):  # two storages share bytes, as torch.from_dlpack makes them: the device knows those
                        device.bind_address(address, place.size, name=place.name, elements=place.elements, is_littered=place.is_littered)
                        place.is_bound = True

    def find(self, address: int) -> None:
        """Make memory that compiled code has taken from torch known to the device, if the address is in it.

        The intended device of such code is not known: memory that a kernel is given is the card's, unless Python has
        a tensor of the host there.
        """
        self._bury()
        found = alignment.holding(address)
        if found is None or found[0] in self._live or self._is_on_host(found[0]):
            return
        first, size = found
        with contextlib.suppress(InputError):  # a part of it is registered
            process.device().bind_address(
                first, size, name=f"a place in compiled code (torch allocation of {size} bytes)", elements=("u8", (size,))
            )
            self._others.add(first)
            alignment.claim(first)

    def _is_on_host(self, address: int) -> bool:
        known = self._on_host.get(address)
        return known is not None and known.address == address

    def _forget_others(self) -> None:
        """Memory that `find` found and that was freed, or is a tensor's by now."""
        for address in list(self._others):
            if not alignment.is_claimed(address) or address in self._new or self._is_on_host(address):
                self._others.discard(address)
                with contextlib.suppress(CudaError):
                    process.device().unbind(address)

    def _follow(self, place: _Place, storage: Any) -> None:
        """Note where a storage is now."""
        address, size = address_of(storage), storage.nbytes()
        if (address, size) == (place.address, place.size):
            return
        self._bury()
        self._forget(place)
        place.is_littered = False
        if not size or not address:
            return
        if (other := self._live.get(address)) is not None:
            self._forget(other)
        self._check_room(size)
        place.address, place.size = address, size
        self._live[address] = self._new[address] = place
        self._bytes += size
        self.most_bytes = max(self.most_bytes, self._bytes)

    def _litter(self, place: _Place) -> None:
        """Fill the card's memory that a program takes of torch with garbage, as the policy has it."""
        from smemsim.virtual.device import MOST_LITTERED  # which programs load that use the card

        if place.size and self._bytes <= MOST_LITTERED and process.device().has_garbage:
            litter(bytes_at(place.address, place.size), place.address)
            place.is_littered = True

    def _check_room(self, size: int) -> None:
        """OutOfMemoryError where the card's memory is full."""
        most = process.device().memory_bytes
        if self._bytes + size > most:
            raise out_of_memory(
                f"Tried to allocate {size / 2**30:.2f} GiB. The card has {most / 2**30:.2f} GiB, of which {self._bytes / 2**30:.2f} are in use."
            )

    def _died(self, place: _Place, _: Any) -> None:
        """A storage is gone. Python collects garbage when it likes, in the middle of what the device does too: it is
        noted, and no more.
        """
        self._dead.append(place)

    def _bury(self) -> None:
        """Forget dead storages before their memory is used again or a kernel is launched."""
        with contextlib.suppress(IndexError):  # several threads run this
            while self._dead:
                self._forget(self._dead.popleft())

    def _forget(self, place: _Place) -> None:
        """A storage is gone, or has moved."""
        if self._live.get(place.address) is place:
            del self._live[place.address]
            self._new.pop(place.address, None)
            self._bytes -= place.size
        if place.is_bound:
            with contextlib.suppress(CudaError):
                process.device().unbind(place.address)
        place.address = place.size = 0
        place.is_bound = False


tensors = Tensors()


def tensors_in(value: Any, depth: int = 3) -> Iterator[Any]:
    """The tensors in a value: in tuples, lists and dicts too."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)) and depth:
        for member in value:
            yield from tensors_in(member, depth - 1)
    elif isinstance(value, dict) and depth:
        yield from tensors_in(tuple(value.values()), depth - 1)


def out_of_memory(why: str) -> Exception:
    """What PyTorch raises where the card's memory is full."""
    import torch

    made: Exception = torch.OutOfMemoryError(f"CUDA out of memory. {why}")
    return made


def _inner(tensor: Any) -> Any:
    """The tensor inside the wrappers of torch.func. A tensor without a wrapper is returned itself."""
    import torch

    functions = torch._C._functorch
    while functions.is_functorch_wrapped_tensor(tensor):
        tensor = functions.get_unwrapped(tensor)
    return tensor


def _elements(tensor: Any) -> tuple[str, tuple[int, ...]]:
    """The element type of a tensor, as launch files name it, and its shape; bytes where they have no name for it."""
    from smemsim.run.engine.arrays import TORCH

    name = str(tensor.dtype)
    plain = re.fullmatch(r"torch\.(float|u?int)(8|16|32|64)", name)
    kind = (
        f"{plain[1].replace('float', 'f').replace('uint', 'u').replace('int', 's')}{plain[2]}" if plain else TORCH.get(name, ("u8", ""))[0]
    )
    return kind, tuple(map(int, tensor.shape))


def _described(tensor: Any, made_by: str) -> str:
    """`file.py:12 (torch.empty, float32[128, 64])`: the line that made a tensor."""
    shape = ", ".join(map(str, tensor.shape))
    where = "a place unknown"
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/torch/" not in path and "/smemsim/virtual/" not in path:
            where = f"{path}:{frame.f_lineno}"
            break
        frame = frame.f_back  # type: ignore[assignment]
    return f"{where} ({made_by or 'a tensor'}, {str(tensor.dtype).removeprefix('torch.')}[{shape}])"
