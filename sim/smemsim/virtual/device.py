"""`VirtualDevice`: the one place with the behaviour of a CUDA driver and its card. Shims translate other interfaces
into its methods.

Everything happens in the order of issue, and is complete when the method returns: streams and events exist, and
nothing overlaps. Errors that a card reports later are reported later here, too. A kernel that traps returns from its
launch. The next synchronising call has the error, and every call after that fails (`error`).

>>> import numpy as np
>>> ptx = '''.version 8.0
... .target sm_90a
... .address_size 64
... .visible .entry fill(.param .u64 to, .param .u32 value) { .reg .b32 %r<3>; .reg .b64 %rd<4>;
...   ld.param.u64 %rd1, [to]; ld.param.u32 %r2, [value]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
...   st.global.u32 [%rd3], %r2; ret; }'''
>>> device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
>>> a = device.allocate(16)
>>> kernel = device.load(ptx).function("fill")
>>> device.launch(kernel, 1, 4, [a.to_bytes(8, "little"), b"\\7\\0\\0\\0"]).findings
[]
>>> device.view(a, 16).view(np.uint32).tolist()
[7, 7, 7, 7]
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.budget import told
from smemsim.base.errors import InputError, SmemsimError, Unmodelled
from smemsim.base.terminal import prefixed, visible
from smemsim.core.machine.uninitialised import litter
from smemsim.core.spec.cards import (
    DRIVER_VERSION,
    HEAP_LIMIT,
    card_named,
    card_of,
)
from smemsim.virtual.attributes import CardAttributes
from smemsim.virtual.code import Function, Module
from smemsim.virtual.copies import Copies
from smemsim.virtual.errors import (
    ALREADY_REGISTERED,
    CAPTURE_INVALIDATED,
    CAPTURE_UNJOINED,
    CAPTURE_UNMATCHED,
    CAPTURE_UNSUPPORTED,
    CAPTURED_EVENT,
    ILLEGAL_STATE,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_REGISTERED,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    UNAVAILABLE,
    CudaError,
)  # fmt: skip
from smemsim.virtual.graphs import Condition, Graph, GraphExec, Node, reached
from smemsim.virtual.host import Host
from smemsim.virtual.launching import Launcher, Listeners
from smemsim.virtual.loaded import LoadedCode
from smemsim.virtual.managed import Advice
from smemsim.virtual.mapping import Mappings, NotMapped
from smemsim.virtual.memory import Allocation, DeviceMemory
from smemsim.virtual.occupancy import Occupancy
from smemsim.virtual.policy import Launched, Policy, summary_of
from smemsim.virtual.pools import MemoryPools, Pool
from smemsim.virtual.registered import RegisteredMemory
from smemsim.virtual.stored import HostTaint
from smemsim.virtual.streams import Event, Stream, StreamOrder
from smemsim.virtual.turns import Turn, one_at_a_time

if TYPE_CHECKING:
    from smemsim.diagnosis.run import Run
    from smemsim.virtual.machine import Machine
    from smemsim.virtual.textures import Textures

__all__ = ["VirtualDevice"]


FILLED = "destination of a fill"
EVENT_DISABLE_TIMING = 2
FIRST_POINTER, END_OF_POINTERS = 1 << 20, 1 << 47  # between which the host's memory lies (x86-64 and AArch64 Linux)
MOST_LITTERED = 1 << 31  # bytes of device memory in use up to which what is allocated gets garbage
MOST_UNWRITTEN = 3  # allocations for which uninitialised bytes that go to the host are reported
LOOKED_AT = 1 << 20  # bytes of such a copy that are looked at


@one_at_a_time
class VirtualDevice:
    """A card of an architecture ("sm_90a": H200, "sm_100a": B200, "sm_103a": B300): its memory, its code, and its
    launches.

    The options are `policy` (`Policy.of()`: those of the environment). Defaults of `multiprocessors` and `memory_bytes`
    are those of the card. A product of the architecture is `card` ("H100 PCIe"). The launches that ran are `launches`.
    The CUDA error after which nothing works any more is `error`, 0 without one.
    """

    def __init__(
        self, arch: str = "sm_90a", *, policy: Policy | None = None, multiprocessors: int | None = None, memory_bytes: int | None = None,
        host: Host | None = None, memory: DeviceMemory | None = None, card: str | None = None,
    ) -> None:  # fmt: skip
        self.card = card_named(card) if card else card_of(arch)
        if self.card.arch != arch:
            raise InputError(f"card = {shown(card)}: is an {self.card.arch}, and arch is {arch}")
        self.policy = Policy.of() if policy is None else policy
        self.host = host or Host()
        self.turn = Turn()
        self.memory = memory or DeviceMemory()
        self.error = 0
        self.label = ""  # before the numbers of its launches in names of files: which of a program's processes this is
        self.launches: list[Launched] = []
        self.conditions: dict[int, Condition] = {}  # by their handles
        self.tell: Callable[[str], None] = _print
        self.attributes = CardAttributes(self.card, multiprocessors, memory_bytes, self._remark, self._is_quiet)
        self.registered = RegisteredMemory(self.memory, self.host)
        self.pools, self.advice = MemoryPools(), Advice()
        self.taint = HostTaint(
            lambda: self.machine.memory if "machine" in vars(self) else None, self.report_again, lambda: self.machine.memory
        )
        self.copies = Copies(self.memory, self.host, self.asked_for, self._remark, self._is_quiet, self.taint)
        self.code = LoadedCode(self)
        self.occupancy = Occupancy(self.card, self.multiprocessors)
        self.launcher, self.listeners = Launcher(self), Listeners()
        self.order = StreamOrder()
        self.mappings = Mappings(self.memory, self._bind, self._unbind)

    def _remark(self, text: str) -> None:
        self.tell(text)  # which may be replaced, like the policy

    def report_again(self) -> None:
        """Report launches again that have other findings by what the host has done since."""
        self.launcher.report_again()

    def _is_quiet(self) -> bool:
        return self.policy.quiet

    @functools.cached_property
    def textures(self) -> Textures:
        """The arrays and objects of textures. It is loaded when the program asks for one."""
        from smemsim.virtual.textures import Textures

        return Textures(self)

    @functools.cached_property
    def machine(self) -> Machine:
        """The machine that executes kernels. It is loaded with the first code. Earlier questions of a program need
        none.
        """
        from smemsim.virtual.machine import Machine

        made = Machine(self.arch, self.memory)
        for allocation in self.memory:
            if allocation not in self.registered.copies:
                made.bind(allocation)
        return made

    def _bind(self, allocation: Allocation) -> None:
        if "machine" in vars(self):
            self.machine.bind(allocation)

    def _unbind(self, allocation: Allocation) -> None:
        if "machine" in vars(self):
            self.machine.free(allocation.address)

    # Properties

    @property
    def arch(self) -> str:
        """The card's architecture."""
        return self.card.arch

    @property
    def multiprocessors(self) -> int:
        """How many it has."""
        return self.attributes.multiprocessors

    @property
    def memory_bytes(self) -> int:
        """How much memory it has."""
        return self.attributes.memory_bytes

    @property
    def uuid(self) -> bytes:
        """16 bytes that are the same for all virtual cards of an architecture."""
        return self.attributes.uuid

    def attribute(self, number: int) -> int:
        """A device attribute by its number in CUdevice_attribute. CudaError for a number
        that the driver does not know.
        """
        return self.attributes.of(number)

    def properties(self, version: int) -> bytes:
        """The bytes of cudaDeviceProp as CUDA `version` (12 or 13) lays them out."""
        return self.attributes.properties(version)

    def set_limit(self, number: int, value: int) -> None:
        """cuCtxSetLimit, by a number of CUlimit. CudaError 1 for the size of the kernels' heap once a kernel that
        allocates was launched.
        """
        if number == HEAP_LIMIT and "machine" in vars(self) and self.machine.has_used_heap:
            raise CudaError(INVALID_VALUE, "a kernel that allocates was launched: its heap has its size")
        self.attributes.set_limit(number, value)

    @property
    def driver_version(self) -> int:
        """The result of cuDriverGetVersion."""
        return DRIVER_VERSION

    # Errors

    def check(self) -> None:
        """CudaError where the context is dead: every call asks first."""
        if self.error:
            raise CudaError(self.error)

    def fail(self, code: int) -> None:
        """The context is dead from now on, with this error if it was not dead before."""
        self.error = self.error or code

    def reset(self) -> None:
        """cudaDeviceReset: memory and code are gone. Behind an error of a kernel the card is not there for this process
        any more, as an H200 answers.
        """
        self.host.materialize()
        self.nothing_in_front()
        if self.error:
            self.error = UNAVAILABLE
        for module in list(self.code.modules):
            self.unload(module)
        for allocation in [a for a in self.memory if a.kind in ("device", "managed", "pinned", "array")]:
            self.release(allocation)
        for own in self.registered.own:
            self.unbind(own.address)
        self.pools.reset()

    # Memory

    def reserve(self, size: int, kind: str, where: str = "") -> Allocation:
        """An allocation that kernels see. CudaError 2 where the card or this machine has no room."""
        if kind in ("device", "managed") and self.memory.used + size > self.memory_bytes:
            raise CudaError(
                OUT_OF_MEMORY, f"{told(size)} more than the {told(self.memory_bytes)} of the card, {told(self.memory.used)} are taken"
            )
        try:
            allocation = self.memory.allocate(size, kind, where)
        except (InputError, MemoryError) as e:
            self.tell(f"{told(size)} of memory cannot be had: {e}")
            raise CudaError(OUT_OF_MEMORY, str(e)) from None
        if self.has_garbage and kind == "device":
            litter(self.memory.view(allocation.address, size), allocation.address)
            allocation.is_littered = True
        self._bind(allocation)
        return allocation

    @property
    def has_garbage(self) -> bool:
        """Is there garbage in memory that is allocated? As the policy has it, but where it leaves CTAs out, which would
        have written there, and where there is much.
        """
        return self.policy.fresh_memory == "garbage" and self.policy.ctas is None and self.memory.used <= MOST_LITTERED

    def release(self, allocation: Allocation) -> None:
        """Take an allocation away from kernels and from the host."""
        if "textures" in vars(self):
            self.textures.forget(allocation)
        self._unbind(allocation)
        self.memory.free(allocation)

    def allocate(self, size: int, kind: str = "device", *, where: str = "") -> int:
        """`size` bytes of "device", "managed" or "pinned" memory: the address, a multiple of 512. `where` is the
        requester in findings.

        Default of `where`: the calling line. Raises CudaError 2 if there is no room.
        """
        self.check()
        if size <= 0 or kind not in ("device", "managed", "pinned"):
            raise CudaError(INVALID_VALUE, f"{size} bytes of {kind} memory")
        return self.reserve(size, kind, where or _caller()).address

    def free(self, address: int) -> None:
        """Give an allocation back; 0 is none. CudaError 1 for what is no allocation's address."""
        self.check()
        if address in self.pools.graphs.addresses:  # the next launch of its graph has it there again
            self.pools.graphs.gives_back(address)
        elif address:
            self.release(self.begins_at(address))
            self.order.host_waits(None)  # cudaFree waits for all
            self.advice.forget(address)
            self.pools.gives_back(address)

    def begins_at(self, address: int) -> Allocation:
        """The allocation that an address is the first of. CudaError 1 where there is none."""
        found = self.memory.at(address)
        if found is None or found.address != address or found.kind not in ("device", "managed", "pinned"):
            told_of = "" if found is None else f": it lies inside {found.told()}"
            raise CudaError(INVALID_VALUE, f"{address:#x} is no address of an allocation{told_of}")
        return found

    def allocate_async(self, size: int, stream: Stream | None = None, *, pool: Pool | None = None, where: str = "") -> int:
        """cudaMallocAsync, of a pool: the card's own without one. A graph under capture gets a node (`graph_memory`).

        CudaError 2 where the pool may not grow as far.
        """
        pool = pool or self.pools.current
        if stream is not None and stream.graph is not None:
            node = self.graph_memory(size, pool.kind, where=where or _caller())
            self.submit(stream, node)
            return int(node.info["address"])
        if pool.most_bytes and pool.used + size > pool.most_bytes:
            raise CudaError(OUT_OF_MEMORY, f"{told(size)} more than the {told(pool.most_bytes)} of the pool, {told(pool.used)} are taken")
        address = self.allocate(size, pool.kind, where=where or _caller())
        self.pools.gives(pool, address, size)
        return address

    def graph_memory(self, size: int, kind: str, *, where: str) -> Node:
        """A node that allocates: the same memory at every launch, reserved while the graphs
        exist, whatever frees it.
        """
        address = self.allocate(size, kind, where=where)
        self.pools.graphs.addresses.add(address)
        return Node("alloc", lambda: self.pools.graphs.gives(address, size), {"address": address, "given": (size, address)})

    def graph_free(self, address: int) -> Node:
        """A node that gives memory back. CudaError 1 for what is no allocation's address."""
        self.begins_at(address)
        return Node("free", lambda: self.pools.graphs.gives_back(address), {"address": address, "given": (address,)})

    def advise(self, address: int, size: int, **values: Any) -> None:
        """cudaMemAdvise and cudaMemPrefetchAsync: advice about managed memory, without effect here. CudaError 1 for
        other memory.
        """
        found = self._managed(address, size)
        self.advice.say(found.address, address, size, values)

    def advised(self, address: int, size: int, key: str) -> Any:
        """The advice for all bytes of a range; None if there is none, or if it differs. CudaError 1 as above."""
        return self.advice.of(self._managed(address, size).address, address, size, key)

    def _managed(self, address: int, size: int) -> Allocation:
        found = self.memory.at(address)
        if found is None or found.kind not in ("managed", "managed variable") or size <= 0 or address + size > found.end:
            raise CudaError(INVALID_VALUE, f"{size} bytes at {address:#x} are not managed memory")
        return found

    def free_async(self, address: int, stream: Stream | None = None) -> None:
        """cudaFreeAsync. In a graph under capture the memory stays, for the next launch of the graph."""
        if stream is not None and stream.graph is not None:
            self.submit(stream, self.graph_free(address))
            return
        self.begins_at(address)
        self.host.materialize()
        self.free(address)

    def bind(self, array: Any, *, name: str = "") -> int:
        """Make memory of this process the device's, without a copy: a contiguous numpy array, or what has a writable
        buffer. Its own address.
        """
        data = np.frombuffer(array, np.uint8) if not isinstance(array, np.ndarray) else array.reshape(-1).view(np.uint8)
        return self.bind_address(data.ctypes.data, data.size, owner=array, name=name)

    def bind_address(
        self, address: int, size: int, *, owner: Any = None, name: str = "", elements: tuple[str, tuple[int, ...]] = ("", ()),
        is_littered: bool = False,
    ) -> int:  # fmt: skip
        """`bind` for `size` bytes from an address of this process on. The `owner` is kept until `unbind`. A tensor's
        type and shape are `elements`.

        With `is_littered`, the bytes were filled with garbage. They are uninitialised while they hold it.
        """
        allocation = self.memory.bind(address, size, owner, where=name, elements=elements)
        allocation.is_littered = is_littered
        self._bind(allocation)
        return address

    def unbind(self, address: int) -> None:
        """Memory that was bound is the host's alone again."""
        found = self.memory.at(address)
        if found is None or found.address != address or found.kind != "registered":
            is_inside = found is not None and found.kind == "registered"
            raise CudaError(INVALID_VALUE if is_inside else NOT_REGISTERED, f"{address:#x} is not where registered memory begins")
        self.release(found)
        self.registered.forget(found)

    def register(self, address: int, size: int, *, where: str = "") -> None:
        """cudaHostRegister: the host's pages become visible to kernels. Those of another process are copied around
        launches.
        """
        self.check()
        if not address or size <= 0:
            raise CudaError(INVALID_VALUE, f"{size} bytes of the host's memory at {address:#x}")
        if self.host.shares_memory:
            try:
                self.bind_address(address, size)
            except InputError as e:
                raise CudaError(ALREADY_REGISTERED, str(e)) from None
        else:
            self._bind(self.registered.add(address, size, where))

    def mirror(self, *, to_device: bool) -> None:
        """Copy registered memory of another process into its copy here, or back."""
        self.registered.mirror(to_device=to_device)

    def view(self, address: int, size: int) -> np.ndarray:
        """Bytes of an allocation, the memory itself, uint8. InputError unless one allocation holds them all.

        The caller gets the bytes: uninitialised values that a kernel has stored there are R507.
        """
        found = self.memory.view(address, size)
        self.taint.gives(address, (size,), (1,), 1, "the host reads the memory")
        return found

    def allocation(self, address: int) -> Allocation | None:
        """The allocation that holds an address; None for memory that is the host's alone."""
        return self.memory.at(address)

    def asked_for(self, address: int) -> Allocation | None:
        """The allocation that holds an address of the card's memory, as the program says; the host is asked where it is
        not known.
        """
        found = self.memory.at(address)
        if found is None and self.listeners.ask_host is not None and FIRST_POINTER <= address < END_OF_POINTERS:
            self.listeners.ask_host(address)
            found = self.memory.at(address)
        return found

    def map(self, what: str, *given: Any) -> Any:
        """A method of `Mappings`, for virtual memory management: "create", "reserve", "map" ... CudaError 1 where it
        refuses, 2 without room.
        """
        self.check()
        self.host.materialize()
        if what == "create" and self.memory.used + given[0] > self.memory_bytes:
            raise CudaError(OUT_OF_MEMORY, f"{told(given[0])} more than the {told(self.memory_bytes)} of the card")
        try:
            return getattr(self.memory if what == "reserve" else self.mappings, what)(*given)
        except MemoryError:
            raise CudaError(OUT_OF_MEMORY, "there are no addresses left") from None
        except NotMapped as e:
            raise CudaError(INVALID_VALUE, str(e)) from None

    def memory_info(self) -> tuple[int, int]:
        """(free bytes, bytes) of the card."""
        self.check()
        return self.memory_bytes - self.memory.used, self.memory_bytes

    # Streams

    def submit(self, stream: Stream | None, node: Node) -> Any:
        """Do something, or note it in the graph that the stream is captured into."""
        self.check()
        if stream is not None and stream.graph is not None:
            stream.last = [stream.graph.add(node, stream.last)]
            return None
        self.order.issue(stream)
        if node.kind != "kernel":
            self.nothing_in_front()
        return node.run()

    def nothing_in_front(self) -> None:
        """Earlier launches end before the next launch starts."""
        self.launcher.in_front.clear()

    def host_has_waited(self) -> None:
        """The host has waited for the whole device, as `is_settled` allowed."""
        self.order.host_waits(None)
        self.nothing_in_front()

    @property
    def is_settled(self) -> bool:
        """Would `synchronize` raise nothing, and only end launches? Launches that may overlap the next one are reported
        at once.
        """
        return not self.error and not self.launcher.has_let_next_begin

    def synchronize(self, stream: Stream | None = None) -> None:
        """Everything issued has run; CudaError if a kernel trapped."""
        if stream is not None and stream.graph is not None:
            stream.is_broken = True
            raise CudaError(CAPTURE_UNSUPPORTED)
        self.order.host_waits(stream)
        self._all_has_run()

    def wait_for(self, event: Event) -> None:
        """The host waits for an event."""
        if event.captured is not None:
            raise CudaError(CAPTURE_UNSUPPORTED)
        self.order.host_waits_for(event.point)
        self._all_has_run()

    def _all_has_run(self) -> None:
        self.nothing_in_front()
        self.host.materialize()
        self.check()

    def record(self, event: Event, stream: Stream | None = None) -> None:
        """Record an event."""
        if stream is not None and stream.graph is not None:
            event.captured, event.time = (stream.graph, list(stream.last)), None
            return
        self.check()
        self.nothing_in_front()
        self.host.materialize()
        event.captured, event.time, event.point = None, time.perf_counter(), self.order.point(stream)

    def wait(self, stream: Stream | None, event: Event) -> None:
        """Operations that are issued to a stream run after an event. A stream that waits for an event of a graph under
        capture is captured into that graph.
        """
        self.check()
        if stream is not None and event.captured is not None:
            graph, last = event.captured
            if stream.graph is None:
                stream.graph, stream.last = graph, []
            stream.last = list(dict.fromkeys((*stream.last, *last)))
        else:
            self.order.waits(stream, event.point)

    def elapsed(self, begin: Event, end: Event) -> float:
        """Milliseconds between two events: of this simulation, not of a card."""
        self.check()
        if (begin.flags | end.flags) & EVENT_DISABLE_TIMING:
            raise CudaError(INVALID_HANDLE, "an event that measures no time (cudaEventDisableTiming)")
        if begin.time is None or end.time is None:
            raise CudaError(CAPTURED_EVENT if begin.captured or end.captured else INVALID_HANDLE, "an event that was not recorded")
        return max((end.time - begin.time) * 1000, 0.001)

    def call_host(self, function: int, data: int, stream: Stream | None = None) -> None:
        """cudaLaunchHostFunc."""
        self.submit(stream, self.host_node(function, data))

    def host_node(self, function: int, data: int) -> Node:
        """A function of the host, for a stream or a graph."""
        return Node("host", lambda: self.outside(self.host.call, function, data), {"given": (function, data)})

    def outside(self, call: Callable[..., None], *given: Any) -> None:
        """Call what may wait for other threads that use the device."""
        with self.turn.pause():
            call(*given)

    # Graphs

    def begin_capture(self, stream: Stream, mode: int = 0, graph: Graph | None = None) -> None:
        """Operations that are issued to a stream from now on become a graph."""
        self.check()
        if stream.graph is not None:
            raise CudaError(ILLEGAL_STATE, "the stream is captured already")
        stream.graph, stream.last, stream.is_origin, stream.is_broken, stream.mode = graph or Graph(), [], True, False, mode

    def end_capture(self, stream: Stream, streams: Iterable[Stream] = ()) -> Graph:
        """The graph. `streams` are all that may have joined the capture."""
        graph, was_broken = stream.graph, stream.is_broken
        if graph is None or not stream.is_origin:
            raise CudaError(CAPTURE_UNMATCHED if graph else ILLEGAL_STATE, "the stream is not captured")
        loose = [node for other in streams if other.graph is graph and other is not stream for node in other.last]
        joined = set(reached(stream.last))
        for other in {stream, *(s for s in streams if s.graph is graph)}:
            other.graph, other.last, other.is_origin, other.is_broken = None, [], False, False
        if was_broken:
            raise CudaError(CAPTURE_INVALIDATED)
        if any(node not in joined for node in loose):
            raise CudaError(CAPTURE_UNJOINED)
        return graph

    def launch_graph(self, graph: GraphExec, stream: Stream | None = None) -> None:
        """Run a graph's nodes."""
        self.submit(stream, Node("graph", graph.run, {"exec": graph}))

    # Copies

    def copy(self, to: int, source: int, size: int, stream: Stream | None = None, *, kind: int = 4) -> None:
        """Copy bytes between any two places. `kind` is cudaMemcpyKind: 0 to 3 name host and device, 4 follows from the
        addresses.

        CudaError 1 if an allocation is too small, or if a side is not of that kind.
        """
        self.copy_2d(to, size, source, size, size, 1, stream, kind=kind)

    def copy_2d(
        self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int, stream: Stream | None = None, *, kind: int = 4
    ) -> None:  # fmt: skip
        """Copy `height` rows of `width` bytes, which lie a pitch apart."""
        self.check()
        if width and height:
            self.submit(stream, self.copies.copy(to, to_pitch, source, source_pitch, width, height, kind))
            if stream is None:  # cudaMemcpy ends with the copy
                self.order.host_waits_for(self.order.point(None))

    def fill(self, to: int, value: int, count: int, width: int = 1, stream: Stream | None = None) -> None:
        """Set `count` elements of `width` bytes (1, 2 or 4) to a value."""
        self.fill_2d(to, count * width, value, width, count, 1, stream)

    def fill_2d(self, to: int, pitch: int, value: int, width: int, count: int, height: int, stream: Stream | None = None) -> None:
        """Set `height` rows of `count` elements of `width` bytes, a pitch apart, to a value."""
        self.check()
        node = self.copies.fill(to, pitch, value, width, count, height)
        if count and height:
            self.submit(stream, node)

    # Code

    def load(self, code: bytes | str, *, managed: Iterable[str] = ()) -> Module:
        """Load PTX text, a fat binary or a cubin that holds its PTX. CudaError 209 where nothing runs here, 218 for PTX
        that is none.
        """
        self.check()
        return self.code.load(code, managed)

    def unload(self, module: Module) -> None:
        """A module's variables are given back."""
        self.code.unload(module)

    # Launches

    def launch(
        self, function: Function, grid: Any, block: Any, arguments: bytes | Sequence[bytes], *, cluster: Any = None, shared_bytes: int = 0,
        stream: Stream | None = None, cooperative: bool = False, dependent: bool = False,
    ) -> Run | None:  # fmt: skip
        """Run a kernel. The arguments are the parameters' bytes in their order, or the whole parameter bank. A
        `cluster` of None is the kernel's own.

        The attribute programmatic stream serialization is `dependent`: the launch may start before the previous one in
        the stream has ended. Returns the run. Returns None if the launch was captured, hooked or refused. Raises
        CudaError for a launch that the driver refuses. Raises FindingsError for findings if the policy is to raise. A
        kernel that traps leaves its error in `error`.
        """
        self.launcher.ask(function, grid, block, cluster, shared_bytes)
        more: dict[str, Any] = {"cooperative": cooperative, "dependent": dependent, "stream": stream}
        node = self.launcher.node(function, grid, block, arguments, cluster=cluster, shared_bytes=shared_bytes, **more)
        found: Run | None = self.submit(stream, node)
        return found

    def summary(self) -> str:
        """A sentence about all launches."""
        return summary_of(self.launches)

    # Tensor maps

    def encode(self, call: str, **given: Any) -> bytes:
        """The 128 bytes of cuTensorMapEncodeTiled, Im2col or Im2colWide, by the names of `TensorMap.tiled` …; CudaError
        1 where it refuses.
        """
        from smemsim.core.words.tensor_map import TensorMap

        try:
            return bytes(getattr(TensorMap, call)(**given, arch=self.arch))
        except Unmodelled as e:
            self.tell(f"tensor map not modelled: {e}")
            raise CudaError(NOT_SUPPORTED, str(e)) from None
        except SmemsimError as e:
            self.tell(f"tensor map refused: {e}")
            raise CudaError(INVALID_VALUE, str(e)) from None

    def replace_address(self, raw: bytes, address: int) -> bytes:
        """cuTensorMapReplaceAddress: a map's bytes over another global address."""
        from smemsim.core.finding import TensorMapError
        from smemsim.core.words.tensor_map import TensorMap

        try:
            old = TensorMap.from_bytes(raw)
        except TensorMapError as e:
            raise CudaError(INVALID_VALUE, str(e)) from None
        return self.encode(old.call, **{**old.arguments, "global_address": address})


def _caller() -> str:
    """The line of the host's program that called the device: the first one outside of smemsim."""
    for frame in itertools.islice(reversed(traceback.extract_stack()), 2, 40):
        if "/smemsim/" not in frame.filename:
            return f"{frame.filename}:{frame.lineno}"
    return ""


def _print(text: str) -> None:
    """Print lines of smemsim to stderr. If nothing reads its pipe any more, the program runs on."""
    with contextlib.suppress(BrokenPipeError):
        print(prefixed(visible(text)), file=sys.stderr, flush=True)
