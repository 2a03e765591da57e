"""`VirtualDevice`: the one place that says what a CUDA driver and its card do; doors translate other interfaces into its methods.

Everything happens in the order in which it is issued, and is over when the method returns: streams and events are there, and nothing overlaps. What a
card tells later it tells later here too: a kernel that traps returns from its launch, the next synchronising call has the error, and everything after
that fails (`error`).

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

import ctypes
import functools
import hashlib
import itertools
import math
import re
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.arguments import shown, suggestion
from smemsim.budget import told
from smemsim.errors import InputError, SmemsimError, Unmodelled
from smemsim.machine.blank import Garbage, litter
from smemsim.ptx.demangle import shorter_name
from smemsim.spec.cards import DEVICE_LIMITS, DRIVER_VERSION, PROPERTIES, PROPERTY_BYTES, REGISTER_UNIT, SHARED_UNIT, WARP_UNIT, card_of
from smemsim.spec.launches import LAUNCH_LIMITS
from smemsim.spec.ptx import WARP_SIZE
from smemsim.spec.traps import TIMEOUT
from smemsim.virtual import fatbin
from smemsim.virtual.errors import NOT_SUPPORTED, CudaError
from smemsim.virtual.graphs import Condition, Graph, GraphExec, Node, UserObject, reached
from smemsim.virtual.managed import Advice
from smemsim.virtual.mapping import Mappings, NotMapped, Physical
from smemsim.virtual.memory import ALIGN, Allocation, DeviceMemory
from smemsim.virtual.policy import FindingsError, HookedLaunch, Launched, Policy, hook_failed, hooks_of, summary_of
from smemsim.virtual.pools import Pool

if TYPE_CHECKING:
    from smemsim.judge.run import Run
    from smemsim.program.launch import LinkedKernel
    from smemsim.ptx.module import Function as PtxFunction
    from smemsim.virtual.machine import Machine, Parameter
    from smemsim.virtual.record import Recorder

__all__ = [
    "NOT_SUPPORTED",
    "Condition",
    "CudaError",
    "Event",
    "Function",
    "Graph",
    "GraphExec",
    "Host",
    "Module",
    "Node",
    "Physical",
    "Pool",
    "Stream",
    "UserObject",
    "VirtualDevice",
]


INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONFIGURATION, INVALID_IMAGE, NO_BINARY, INVALID_PTX = 1, 2, 9, 200, 209, 218
INVALID_HANDLE, NOT_FOUND, OUT_OF_RESOURCES, ALREADY_REGISTERED, NOT_REGISTERED = 400, 500, 701, 712, 713
LAUNCH_FAILED, COOPERATIVE_TOO_LARGE, INVALID_CLUSTER = 719, 720, 912
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_UNMATCHED, CAPTURE_UNJOINED, CAPTURED_EVENT = 900, 901, 903, 904, 907
EVENT_DISABLE_TIMING = 2
PORTABLE_CLUSTER = 8  # CTAs of a cluster, where the kernel does not allow more (CUDA programming guide, thread block clusters)
DEFAULT_SHARED = 48 << 10  # bytes of shared memory that a kernel has without cudaFuncSetAttribute
FIRST_POINTER, END_OF_POINTERS = 1 << 20, 1 << 47  # between which the host's memory lies (x86-64 and AArch64 Linux)
MOST_LITTERED = 1 << 31  # bytes of device memory in use up to which what is allocated gets garbage
MOST_UNWRITTEN, LOOKED_AT = (
    3,
    1 << 20,
)  # allocations of which it is told that unwritten bytes go to the host, and bytes of a copy that are looked at
LAST_PAGES = 3  # launches of a kernel without findings that get a page


class Host:
    """What only the process of the host program can do: this is the one where the device is in that process."""

    shares_memory = True  # is the host's memory this process's?

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes of the host's memory, or between it and the device's."""
        ctypes.memmove(to, source, size)

    def call(self, function: int, data: int) -> None:
        """Call a C function of the host: `void (*)(void *)`."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data)

    def settle(self) -> None:
        """All copies and calls so far have been made."""

    def write(self, text: str, *, is_error: bool = False) -> None:
        """What a kernel's printf wrote, or to stderr its failed assertions."""
        stream = sys.stderr if is_error else sys.stdout
        stream.write(text)
        stream.flush()


# ---- Streams and events


class Stream:
    """A queue of the device. Everything issued to it has run, unless it is being captured into a graph (`graph`)."""

    def __init__(self, priority: int = 0, flags: int = 0) -> None:
        self.priority, self.flags = priority, flags
        self.graph: Graph | None = None
        self.last: list[Node] = []  # of the graph: what the next node runs after
        self.is_origin = False
        self.is_broken = False
        self.mode = 0


class Event:
    """A point in a stream: when it was last recorded, in seconds, None before that."""

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags
        self.time: float | None = None
        self.captured: tuple[Graph, list[Node]] | None = None


# ---- Code


class Function:
    """A kernel of a loaded module. `parameters` are its bytes in the parameter bank, in the order of the signature."""

    def __init__(self, module: Module, name: str) -> None:
        from smemsim.virtual.machine import parameters_of

        self.module, self.name = module, name
        self.source = module.source.functions[name]
        self.parameters: tuple[Parameter, ...] = parameters_of(self.source)
        self.most_dynamic: int | None = None  # what cudaFuncSetAttribute allows
        self.carveout, self.allows_large_clusters, self.policy_preference = -1, False, 0
        self.cluster_set = (0, 0, 0)
        self.parameter_names: tuple[str, ...] = ()  # of the source, where the host knows them
        self.counts_elements = False  # in tensor descriptors of the source

    @property
    def linked(self) -> LinkedKernel:
        """What can run. Raises InputError and Unmodelled as `Gpu.run` does."""
        return self.module.kernel(self.name).called(self.parameter_names, counts_elements=self.counts_elements)

    @property
    def readable(self) -> str:
        """Its name without template arguments' details."""
        return shorter_name(self.name)

    @functools.cached_property
    def digest(self) -> str:
        """Of its code, whatever its debugging information says: the same for the same instructions, in whichever module."""
        return _digest(self.module.lines_of(self.source))

    @functools.cached_property
    def families(self) -> tuple[str, ...]:
        """Which instructions of Hopper and Blackwell it has, as "tcgen05.mma"."""
        return tuple(sorted(set(_FAMILIES.findall("\n".join(self.module.lines_of(self.source))))))

    @property
    def directives(self) -> Mapping[str, tuple[int, ...]]:
        """Its performance directives, such as {"maxntid": (128,)}."""
        return self.source.directives

    @property
    def cluster(self) -> tuple[int, int, int]:
        """What `.reqnctapercluster` says; zeros without it."""
        from smemsim.program.launch import three

        wanted = self.directives.get("reqnctapercluster")
        return three("reqnctapercluster", wanted) if wanted else self.cluster_set

    @property
    def most_threads(self) -> int:
        """Threads that a CTA may have."""
        most = self.directives.get("reqntid") or self.directives.get("maxntid")
        return min(math.prod(most), LAUNCH_LIMITS.threads) if most else LAUNCH_LIMITS.threads

    @property
    def registers(self) -> int:
        """Registers of a thread, as far as directives say: what ptxas would give it is not known."""
        if most := self.directives.get("maxnreg"):
            return most[0]
        return min(255, 65536 // self.most_threads // 8 * 8)

    @property
    def static_shared(self) -> int:
        """Bytes of shared memory that it declares."""
        return self.module.kernel(self.name).static_shared_bytes

    @property
    def dynamic_limit(self) -> int:
        """Bytes of dynamic shared memory that it may be launched with."""
        return max(0, DEFAULT_SHARED - self.static_shared) if self.most_dynamic is None else self.most_dynamic


def _digest(lines: Iterable[str]) -> str:
    code = "\n".join(text for line in lines if (text := line.partition("//")[0].strip()) and not text.startswith(_DEBUG))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


class Module:
    """Code that is loaded: its kernels and variables. `why` says which of several pieces of code was chosen."""

    def __init__(self, device: VirtualDevice, ptx: str, why: str, managed: Iterable[str] = ()) -> None:
        self.device, self.ptx, self.why = device, ptx, why
        self.loaded = device.machine.load(ptx, managed)
        self.source = self.loaded.module
        self._functions: dict[str, Function] = {}

    @functools.cached_property
    def digest(self) -> str:
        """Of its code, whatever its debugging information says: the same for the same instructions."""
        return _digest(self.ptx.splitlines())

    def lines_of(self, function: PtxFunction) -> list[str]:
        """The text of a kernel: all of a module that has no other, else what stands from its line to that of the next function."""
        lines = self.ptx.splitlines()
        if len(self.names) == 1:
            return lines
        behind = (f.line for f in self.source.functions.values() if f.line > function.line)
        return lines[function.line - 1 : min(behind, default=len(lines) + 1) - 1]

    @property
    def names(self) -> list[str]:
        """Of its kernels."""
        return [f.name for f in self.source.entries]

    @property
    def variables(self) -> dict[str, tuple[int, int]]:
        """(address, bytes) of its variables by name."""
        return {name: self.loaded.variable(name) for name in self.loaded.addresses}

    def function(self, name: str) -> Function:
        """A kernel by its name as the PTX has it. CudaError 500 says which there are."""
        if name not in self._functions:
            if name not in self.names:
                raise CudaError(NOT_FOUND, f"there is no kernel {shown(name)}{suggestion(name, self.names)}")
            self._functions[name] = Function(self, name)
        return self._functions[name]

    def variable(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable. CudaError 500 where there is none of this name."""
        if name not in self.loaded.addresses:
            raise CudaError(NOT_FOUND, f"there is no variable {shown(name)}{suggestion(name, self.loaded.addresses)}")
        return self.loaded.variable(name)

    def kernel(self, name: str) -> LinkedKernel:
        """A kernel that can run. Raises InputError and Unmodelled as `Gpu.run` does."""
        return self.loaded.kernel(name)


_DEBUG = (".loc", ".file", ".section", ".b8", ".b32", ".b64")
_FAMILIES = re.compile(r"\b(tcgen05\.\w+|wgmma\.mma_async|cp\.async\.bulk(?:\.tensor)?|mma\.sync|clusterlaunchcontrol)\b")


# ---- The device


class VirtualDevice:
    """A card of an architecture ("sm_90a": H200, "sm_100a": B200, "sm_103a": B300), its memory, its code, and what ran on it.

    `policy` says what happens with findings (`Policy.of()`: as the environment says). `multiprocessors` and `memory_bytes` are the card's own if
    not given. `launches` tells what ran; `error` is the CUDA error after which nothing works any more, 0 without one.
    """

    def __init__(
        self, arch: str = "sm_90a", *, policy: Policy | None = None, multiprocessors: int | None = None, memory_bytes: int | None = None,
        host: Host | None = None,
    ) -> None:  # fmt: skip
        self.card = card_of(arch)
        self.arch = arch
        self.policy = Policy.of() if policy is None else policy
        self.host = host or Host()
        self.multiprocessors = multiprocessors or self.card.named("multiprocessor_count")
        self.memory_bytes = memory_bytes or self.card.memory_bytes
        self.memory = DeviceMemory()
        self.error = 0
        self.label = ""  # before the numbers of its launches in names of files: which of a program's processes this is
        self.launches: list[Launched] = []
        self._remarked: set[str] = set()  # remarks on broken rules that were told
        self.limits = dict(DEVICE_LIMITS)
        self.modules: list[Module] = []
        self.hooks = hooks_of(self.policy.hooks)
        self._registered: list[tuple[Allocation, Allocation]] = []  # the host's memory of another process, and what holds its copy here
        self._pages: dict[str, int] = {}
        self._in_front: dict[
            Stream | None, Any
        ] = {}  # what the last launch of a stream has done, while the next one may begin before its end
        self._began: float | None = None  # when the first launch was asked for
        self._is_over = ""
        self._told_of_ctas = False
        self.pools = {kind: Pool(kind) for kind in ("device", "managed", "pinned")}  # those that are there from the start
        self.pool = self.pools["device"]  # what cudaMallocAsync takes memory of
        self.graph_pool = Pool("device")  # counts what nodes of graphs have taken
        self.conditions: dict[int, Condition] = {}  # by their handles
        self._unwritten: set[int] = set()  # numbers of allocations of which it was told that unwritten bytes go to the host
        self.pool_of: dict[int, Pool] = {}  # by addresses of allocations
        self.advice = Advice()
        self.mappings = Mappings(self.memory, self._bind, self._unbind)
        self.begins: Callable[[Launched], None] = lambda about: None  # is told of each launch when it begins
        self.ended: Callable[[Launched], None] = lambda about: None  # ... and when it is over
        self.ask_host: Callable[[int], None] | None = (
            None  # binds the host's memory that holds an address, where that is the card's for the host
        )
        self.refused: list[str] = []  # why code of the program is not simulated
        self.refuses: Callable[[str], None] = lambda why: None  # is told of each of these
        self.tell: Callable[[str], None] = lambda text: print(f"smemsim: {text}", file=sys.stderr, flush=True)

    @functools.cached_property
    def machine(self) -> Machine:
        """What executes kernels. It is loaded when code is: what a program asks before that needs none."""
        from smemsim.virtual.machine import Machine

        made = Machine(self.arch, self.memory)
        copies = [shadow for _, shadow in self._registered]
        for allocation in self.memory:
            if allocation not in copies:
                made.bind(allocation)
        return made

    def _bind(self, allocation: Allocation) -> None:
        if "machine" in vars(self):
            self.machine.bind(allocation)

    def _unbind(self, allocation: Allocation) -> None:
        if "machine" in vars(self):
            self.machine.free(allocation.address)

    # Properties

    def attribute(self, number: int) -> int:
        """A device attribute by its number in CUdevice_attribute. CudaError for a number that the driver does not know."""
        value = self.multiprocessors if number == 16 else self.card.attribute(number)
        if value is None:
            raise CudaError(INVALID_VALUE, f"device attribute {number}: there is no such attribute")
        return value

    def properties(self, version: int) -> bytes:
        """The bytes of cudaDeviceProp as CUDA `version` (12 or 13) lays them out."""
        out = bytearray(PROPERTY_BYTES[version])
        name = self.card.name.encode()
        out[: len(name)] = name
        out[256:272] = self.uuid
        out[288:296] = self.memory_bytes.to_bytes(8, "little")
        axes = {"maxThreadsDim": (324, LAUNCH_LIMITS.block), "maxGridSize": (336, LAUNCH_LIMITS.grid)}
        for begin, values in axes.values():
            out[begin : begin + 12] = np.array(values, np.int32).tobytes()
        for _, attribute, old, new, size in PROPERTIES:
            place = old if version == 12 else new
            if place is not None:
                number = self.multiprocessors if attribute == "multiprocessor_count" else self.card.named(attribute)
                out[place : place + size] = number.to_bytes(size, "little", signed=True)
        return bytes(out)

    @property
    def uuid(self) -> bytes:
        """16 bytes that are the same for all virtual cards of an architecture."""
        return f"smemsim-{self.arch}".encode().ljust(16, b"\0")[:16]

    @property
    def driver_version(self) -> int:
        """What cuDriverGetVersion gives."""
        return DRIVER_VERSION

    # Errors

    def check(self) -> None:
        """CudaError where the context is dead: every call asks first."""
        if self.error:
            raise CudaError(self.error)

    def _fail(self, code: int) -> None:
        self.error = self.error or code

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
        """Is there garbage in memory that is allocated? As the policy has it, but where it leaves CTAs out, which would have written there, and where there is much."""
        return self.policy.fresh_memory == "garbage" and self.policy.ctas is None and self.memory.used <= MOST_LITTERED

    def release(self, allocation: Allocation) -> None:
        """Take an allocation away from kernels and from the host."""
        self._unbind(allocation)
        self.memory.free(allocation)

    def allocate(self, size: int, kind: str = "device", *, where: str = "") -> int:
        """`size` bytes of "device", "managed" or "pinned" memory: the address, a multiple of 512. `where` is how findings say who asked.

        Without `where` that is the line that called. Raises CudaError 2 where there is no room.
        """
        self.check()
        if size <= 0 or kind not in ("device", "managed", "pinned"):
            raise CudaError(INVALID_VALUE, f"{size} bytes of {kind} memory")
        return self.reserve(size, kind, where or _caller()).address

    def free(self, address: int) -> None:
        """Give an allocation back; 0 is none. CudaError 1 for what is no allocation's address."""
        self.check()
        if address:
            self.release(self.begins_at(address))
            self.advice.forget(address)
            if (pool := self.pool_of.pop(address, None)) is not None:
                pool.gives_back(address)

    def begins_at(self, address: int) -> Allocation:
        """The allocation that an address is the first of. CudaError 1 where there is none."""
        found = self.memory.at(address)
        if found is None or found.address != address or found.kind not in ("device", "managed", "pinned"):
            told_of = "" if found is None else f": it lies inside {found.told()}"
            raise CudaError(INVALID_VALUE, f"{address:#x} is no address of an allocation{told_of}")
        return found

    def allocate_async(self, size: int, stream: Stream | None = None, *, pool: Pool | None = None, where: str = "") -> int:
        """cudaMallocAsync, of a pool: the card's own without one. A graph under capture takes its memory now, and keeps it.

        CudaError 2 where the pool may not grow as far.
        """
        pool = pool or self.pool
        if pool.most_bytes and pool.used + size > pool.most_bytes:
            raise CudaError(OUT_OF_MEMORY, f"{told(size)} more than the {told(pool.most_bytes)} of the pool, {told(pool.used)} are taken")
        address = self.allocate(size, pool.kind, where=where or _caller())
        pool.gives(address, size)
        self.pool_of[address] = pool
        return address

    def advise(self, address: int, size: int, **values: Any) -> None:
        """cudaMemAdvise and cudaMemPrefetchAsync: what is said of managed memory, and changes nothing here. CudaError 1 for other memory."""
        found = self._managed(address, size)
        self.advice.say(found.address, address, size, values)

    def advised(self, address: int, size: int, key: str) -> Any:
        """What was said of all bytes of a range; None where that is nothing, or not the same everywhere. CudaError 1 as above."""
        return self.advice.of(self._managed(address, size).address, address, size, key)

    def _managed(self, address: int, size: int) -> Allocation:
        found = self.memory.at(address)
        if found is None or found.kind not in ("managed", "managed variable") or size <= 0 or address + size > found.end:
            raise CudaError(INVALID_VALUE, f"{size} bytes at {address:#x} are not managed memory")
        return found

    def free_async(self, address: int, stream: Stream | None = None) -> None:
        """cudaFreeAsync. In a graph under capture the memory stays, for the next launch of the graph."""
        self.begins_at(address)
        if stream is None or stream.graph is None:
            self.host.settle()
            self.free(address)
        else:
            self.submit(stream, Node("free", lambda: None, {"given": (address,)}))

    def bind(self, array: Any, *, name: str = "") -> int:
        """Make memory of this process the device's, without a copy: a contiguous numpy array, or what has a writable buffer. Its own address."""
        data = np.frombuffer(array, np.uint8) if not isinstance(array, np.ndarray) else array.reshape(-1).view(np.uint8)
        return self.bind_address(data.ctypes.data, data.size, owner=array, name=name)

    def bind_address(
        self, address: int, size: int, *, owner: Any = None, name: str = "", elements: tuple[str, tuple[int, ...]] = ("", ()),
        is_littered: bool = False,
    ) -> int:  # fmt: skip
        """`bind` for `size` bytes from an address of this process on; `owner` is kept until `unbind`, `elements` are a tensor's type and shape.

        `is_littered`: the bytes were filled with garbage, and what is still so nobody has written."""
        allocation = self.memory.bind(address, size, owner, where=name, elements=elements)
        allocation.is_littered = is_littered
        self._bind(allocation)
        return address

    def unbind(self, address: int) -> None:
        """Memory that was bound is the host's alone again."""
        found = self.memory.at(address)
        if found is None or found.address != address or found.kind != "registered":
            raise CudaError(NOT_REGISTERED, f"{address:#x} is no address of registered memory")
        self.release(found)
        for own, shadow in [pair for pair in self._registered if pair[0] is found]:
            self._registered.remove((own, shadow))
            self.memory.free(shadow)

    def register(self, address: int, size: int, *, where: str = "") -> None:
        """cudaHostRegister: the host's pages become visible to kernels. Those of another process are copied around launches."""
        self.check()
        try:
            if self.host.shares_memory:
                self.bind_address(address, size)
                return
            shadow = self.memory.allocate(size + ALIGN, "pinned", where)
            own = self.memory.bind(address, size, place=shadow.address + address % ALIGN, where=where)
        except InputError as e:
            raise CudaError(ALREADY_REGISTERED, str(e)) from None
        self._bind(own)
        self._registered.append((own, shadow))

    def view(self, address: int, size: int) -> np.ndarray:
        """Bytes of an allocation, the memory itself, uint8. InputError unless one allocation holds them all."""
        return self.memory.view(address, size)

    def allocation(self, address: int) -> Allocation | None:
        """The allocation that holds an address; None for memory that is the host's alone."""
        return self.memory.at(address)

    def _asked_for(self, address: int) -> Allocation | None:
        """The allocation that holds an address of the card's memory, as the program says; the host is asked where it is not known."""
        found = self.memory.at(address)
        if found is None and self.ask_host is not None and FIRST_POINTER <= address < END_OF_POINTERS:
            self.ask_host(address)
            found = self.memory.at(address)
        return found

    def map(self, what: str, *given: Any) -> Any:
        """A method of `Mappings`, for virtual memory management: "create", "reserve", "map" ... CudaError 1 where it refuses, 2 without room."""
        self.check()
        self.host.settle()
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
        if node.kind != "kernel":
            self.nothing_in_front()
        return node.run()

    def nothing_in_front(self) -> None:
        """What was launched is over before the next launch begins."""
        self._in_front.clear()

    def synchronize(self, stream: Stream | None = None) -> None:
        """Everything issued has run; CudaError if a kernel trapped."""
        if stream is not None and stream.graph is not None:
            stream.is_broken = True
            raise CudaError(CAPTURE_UNSUPPORTED)
        self.nothing_in_front()
        self.host.settle()
        self.check()

    def record(self, event: Event, stream: Stream | None = None) -> None:
        """Record an event."""
        if stream is not None and stream.graph is not None:
            event.captured, event.time = (stream.graph, list(stream.last)), None
            return
        self.check()
        self.nothing_in_front()
        self.host.settle()
        event.captured, event.time = None, time.perf_counter()

    def wait(self, stream: Stream | None, event: Event) -> None:
        """What is issued to a stream runs after an event; a stream that waits for one of a graph under capture is captured into it."""
        self.check()
        if stream is not None and event.captured is not None:
            graph, last = event.captured
            if stream.graph is None:
                stream.graph, stream.last = graph, []
            stream.last = list(dict.fromkeys((*stream.last, *last)))

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
        self.submit(stream, Node("host", lambda: self.host.call(function, data), {"given": (function, data)}))

    # Graphs

    def begin_capture(self, stream: Stream, mode: int = 0, graph: Graph | None = None) -> None:
        """What is issued to a stream from now on becomes a graph."""
        self.check()
        if stream.graph is not None:
            raise CudaError(401, "the stream is captured already")
        stream.graph, stream.last, stream.is_origin, stream.is_broken, stream.mode = graph or Graph(), [], True, False, mode

    def end_capture(self, stream: Stream, streams: Iterable[Stream] = ()) -> Graph:
        """The graph. `streams` are all that may have joined the capture."""
        graph, was_broken = stream.graph, stream.is_broken
        if graph is None or not stream.is_origin:
            raise CudaError(CAPTURE_UNMATCHED if graph else 401, "the stream is not captured")
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
        """Copy bytes between any two places; `kind` is cudaMemcpyKind: 0 to 3 name host and device, 4 is told by the addresses.

        CudaError 1 where an allocation is too small, or one side is not what the kind says.
        """
        self.copy_2d(to, size, source, size, size, 1, stream, kind=kind)

    def copy_2d(
        self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int, stream: Stream | None = None, *, kind: int = 4
    ) -> None:  # fmt: skip
        """Copy `height` rows of `width` bytes, which lie a pitch apart."""
        self.check()
        if not width or not height:
            return
        if height == 1:
            to_pitch = source_pitch = width
        if width > to_pitch or width > source_pitch:
            raise CudaError(12, f"rows of {width} bytes, pitches of {to_pitch} and {source_pitch}")
        for address, pitch, on_device, what in (
            (to, to_pitch, kind in (1, 3), "destination"),
            (source, source_pitch, kind in (2, 3), "source"),
        ):
            self._check_place(address, pitch * (height - 1) + width, on_device, what)
        if kind > 4:
            raise CudaError(INVALID_VALUE, f"kind = {kind}: cudaMemcpyKind has 0 to 4")

        def run() -> None:
            self._tell_unwritten(to, source, width)
            if to_pitch == source_pitch == width:
                self._move(to, source, width * height)
            else:
                for n in range(height):
                    self._move(to + n * to_pitch, source + n * source_pitch, width)

        self.submit(stream, Node("memcpy", run, {"given": (to, to_pitch, source, source_pitch, width, height)}))

    def fill(self, to: int, value: int, count: int, width: int = 1, stream: Stream | None = None) -> None:
        """Set `count` elements of `width` bytes (1, 2 or 4) to a value."""
        self.fill_2d(to, count * width, value, width, count, 1, stream)

    def fill_2d(self, to: int, pitch: int, value: int, width: int, count: int, height: int, stream: Stream | None = None) -> None:
        """Set `height` rows of `count` elements of `width` bytes, a pitch apart, to a value."""
        self.check()
        if width not in (1, 2, 4) or to % width:
            raise CudaError(INVALID_VALUE, f"elements of {width} bytes at {to:#x}")
        if not count or not height:
            return
        self._check_place(to, pitch * (height - 1) + count * width, True, "destination")
        word = (value & (1 << 8 * width) - 1).to_bytes(width, "little")

        def run() -> None:
            self.host.settle()
            for n in range(height):
                self.view(to + n * pitch, count * width).view(f"u{width}")[:] = int.from_bytes(word, "little")

        self.submit(stream, Node("memset", run, {"given": (to, pitch, value, width, count, height)}))

    def _check_place(self, address: int, size: int, on_device: bool, what: str) -> None:
        found = self._asked_for(address) if on_device else self.memory.at(address)
        if found is None:
            if on_device or self.memory.is_ours(address) or not address:
                raise CudaError(INVALID_VALUE, f"{what} {address:#x}: no allocation is there")
            return
        if address + size > found.end and found.kind != "registered":
            raise CudaError(INVALID_VALUE, f"{what} {address:#x}: {size} bytes there reach past its end: {found.told()}")

    def _tell_unwritten(self, to: int, source: int, size: int) -> None:
        """Tell of what goes to the host and was written by nobody, once of an allocation: what the program makes of it is another thing on each card."""
        found, target = self.memory.at(source), self.memory.at(to)
        if self.policy.quiet or found is None or not found.is_littered or len(self._unwritten) == MOST_UNWRITTEN:
            return
        if found.number in self._unwritten or (target is not None and not target.is_on_host):
            return
        self.host.settle()
        looked_at = min(size, LOOKED_AT)
        blank = Garbage(self.memory.view(found.address, found.size), found.address, 0)
        count = 4 * int(blank.words(np.arange(source - found.address, source - found.address + looked_at - 3, 4), 4).sum())
        if count:
            self._unwritten.add(found.number)
            most = f"the first {looked_at} of {size}" if looked_at < size else str(size)
            self.tell(
                f"{count} of {most} bytes that are copied to the host were written by nobody: on a card they hold whatever was there before; {found.told()}"
            )

    def _move(self, to: int, source: int, size: int) -> None:
        """Copy bytes, here where both sides lie in this process."""
        sides = [self.memory.at(to), self.memory.at(source)]
        if not self.host.shares_memory and all(s is not None and s.kind != "registered" for s in sides):
            self.host.settle()
            ctypes.memmove(to, source, size)
        else:
            self.host.copy(to, source, size)

    # Code

    def load(self, code: bytes | str, *, managed: Iterable[str] = ()) -> Module:
        """Load PTX text, a fat binary or a cubin that holds its PTX. CudaError 209 where nothing runs here, 218 for PTX that is none."""
        self.check()
        try:
            image, why = fatbin.chosen(fatbin.images(code.encode() if isinstance(code, str) else code), self.arch)
        except fatbin.NoCode as e:
            self.refuse(f"no code for {self.arch}: {e}")
            raise CudaError(INVALID_PTX if _is_text(code) else NO_BINARY, str(e)) from None
        except (InputError, ValueError, IndexError) as e:
            self.refuse(str(e))
            raise CudaError(INVALID_IMAGE, str(e)) from None
        try:
            module = Module(self, image.ptx, why, managed)
        except SmemsimError as e:
            if isinstance(e, CudaError):
                raise
            self.refuse(f"this PTX cannot be read: {e}")
            raise CudaError(INVALID_PTX, str(e)) from None
        self.modules.append(module)
        return module

    def refuse(self, why: str) -> None:
        """Say that code of the program cannot run here, so that its kernels are not simulated; the exit code of `smemsim exec` tells of it."""
        self.tell(why)
        self.note_refused(why)

    def note_refused(self, why: str) -> None:
        """Keep for the end that something was not simulated, without a line of its own."""
        self.refused.append(why)
        self.refuses(why)

    def function_attribute(self, f: Function, number: int) -> int:
        """An attribute of a kernel by its number in CUfunction_attribute. What ptxas would decide is told as directives leave it."""
        self.check()
        version = int(self.card.named("compute_capability_major") * 10 + self.card.named("compute_capability_minor"))
        known: dict[int, Callable[[], int]] = {
            0: lambda: f.most_threads,
            1: lambda: f.static_shared,
            2: lambda: sum(v.size for v in f.module.source.variables.values() if v.space == "const"),
            3: lambda: f.module.kernel(f.name).local_bytes,
            4: lambda: f.registers,
            5: lambda: version,
            6: lambda: version,
            7: lambda: 0,
            8: lambda: f.dynamic_limit,
            9: lambda: f.carveout,
            10: lambda: int("reqnctapercluster" in f.directives or "explicitcluster" in f.directives),
            **{11 + n: lambda n=n: f.cluster[n] for n in range(3)},  # type: ignore[misc]
            14: lambda: int(f.allows_large_clusters),
            15: lambda: f.policy_preference,
        }
        if number not in known:
            raise CudaError(INVALID_VALUE, f"function attribute {number}: there is no such attribute")
        try:
            return known[number]()
        except CudaError:
            raise
        except SmemsimError as e:
            self.tell(f"{f.readable}: {e}")
            raise CudaError(NOT_SUPPORTED if isinstance(e, Unmodelled) else INVALID_IMAGE, str(e)) from None

    def set_function_attribute(self, f: Function, number: int, value: int) -> None:
        """Set an attribute: dynamic shared memory, carveout, cluster dimensions, clusters of more than eight CTAs."""
        self.check()
        if number == 8:
            most = self.card.named("max_shared_memory_per_block_optin") - f.static_shared
            if not 0 <= value <= most:
                raise CudaError(INVALID_VALUE, f"{value} bytes of dynamic shared memory: {f.readable} can have {most} at most")
            f.most_dynamic = value
        elif number == 9:
            f.carveout = value
        elif number in (11, 12, 13):
            f.cluster_set = tuple(value if n == number - 11 else old for n, old in enumerate(f.cluster_set))  # type: ignore[assignment]
        elif number == 14:
            f.allows_large_clusters = bool(value)
        elif number == 15:
            f.policy_preference = value
        else:
            raise CudaError(INVALID_VALUE, f"function attribute {number} cannot be set")

    def unload(self, module: Module) -> None:
        """A module's variables are given back."""
        if module in self.modules:
            self.modules.remove(module)
            self.machine.forget(module.loaded)

    # Occupancy

    def blocks_per_multiprocessor(self, function: Function, threads: int, shared_bytes: int) -> int:
        """CTAs that a multiprocessor holds at once. Registers count where a directive says how many there are at most.

        >>> device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
        >>> kernel = device.load(".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }").function("k")
        >>> [device.blocks_per_multiprocessor(kernel, *x) for x in ((32, 0), (128, 0), (1024, 0), (128, 40000), (96, 100))]
        [32, 16, 2, 5, 21]
        """
        named = self.card.named
        if not 0 < threads <= LAUNCH_LIMITS.threads:  # measured (H200): .reqntid and .maxntid do not count
            return 0
        warps = -(-threads // WARP_SIZE)
        shared = -(-(function.static_shared + shared_bytes + named("reserved_shared_memory_per_block")) // SHARED_UNIT) * SHARED_UNIT
        if shared - named("reserved_shared_memory_per_block") > named("max_shared_memory_per_block_optin"):
            return 0
        fits = [
            named("max_blocks_per_multiprocessor"),
            named("max_threads_per_multiprocessor") // WARP_SIZE // warps,
            named("max_shared_memory_per_multiprocessor") // shared,
        ]
        if "maxnreg" in function.directives:
            of_warp = -(-WARP_SIZE * function.registers // REGISTER_UNIT) * REGISTER_UNIT
            fits.append(named("max_registers_per_multiprocessor") // of_warp // WARP_UNIT * WARP_UNIT // warps)
        return max(0, min(fits))

    def shared_available(self, function: Function, blocks: int, threads: int) -> int:
        """The most dynamic shared memory with which a multiprocessor holds so many CTAs, and that the function may have (cuda.core's tests expect that)."""
        reserved = self.card.named("reserved_shared_memory_per_block")
        most = (
            self.card.named("max_shared_memory_per_multiprocessor") // max(blocks, 1) // SHARED_UNIT * SHARED_UNIT
            - reserved
            - function.static_shared
        )
        return max(0, min(most, function.dynamic_limit))

    def clusters_at_once(self, function: Function, threads: int, shared_bytes: int, cluster: int) -> int:
        """Clusters of so many CTAs that the card holds at once: each lies within one GPC."""
        each = self.blocks_per_multiprocessor(function, threads, shared_bytes)
        if cluster > (LAUNCH_LIMITS.cluster if function.allows_large_clusters else PORTABLE_CLUSTER):
            if function.allows_large_clusters:
                return 0
            raise CudaError(INVALID_CLUSTER, f"clusters of {cluster} CTAs need cudaFuncAttributeNonPortableClusterSizeAllowed")
        found = self.card.clusters_at_once(max(cluster, 1), each)
        return found * self.multiprocessors // self.card.named("multiprocessor_count")

    # Launches

    def launch(
        self, function: Function, grid: Any, block: Any, arguments: bytes | Sequence[bytes], *, cluster: Any = None, shared_bytes: int = 0,
        stream: Stream | None = None, cooperative: bool = False, dependent: bool = False,
    ) -> Run | None:  # fmt: skip
        """Run a kernel. `arguments` are the parameters' bytes in their order, or the whole parameter bank; `cluster` None is what the kernel says.
        `dependent` is the attribute programmatic stream serialization: it may begin before the launch in front of it in the stream has ended.

        The run, None where the launch was captured, hooked or refused. Raises CudaError for a launch that the driver refuses, and
        FindingsError for findings where the policy is to raise; a kernel that traps leaves its error in `error`.
        """
        if self._is_over:
            self._refuse(self._asked(function, grid, block, cluster, shared_bytes))
        more: dict[str, Any] = {"cooperative": cooperative, "dependent": dependent, "stream": stream}
        node = self.kernel_node(function, grid, block, arguments, cluster=cluster, shared_bytes=shared_bytes, **more)
        found: Run | None = self.submit(stream, node)
        return found

    def kernel_node(
        self, function: Function, grid: Any, block: Any, arguments: bytes | Sequence[bytes], *, cluster: Any = None, shared_bytes: int = 0,
        cooperative: bool = False, dependent: bool = False, stream: Stream | None = None,
    ) -> Node:  # fmt: skip
        """A launch that has not run, for a graph; arguments as for `launch`."""
        config = self._configured(function, grid, block, cluster, shared_bytes, cooperative)
        given: tuple[bytes, ...] = (
            tuple(arguments[p.offset : p.offset + p.size] for p in function.parameters)
            if isinstance(arguments, bytes)
            else tuple(arguments)
        )
        if [len(a) for a in given] != [p.size for p in function.parameters]:
            wanted = ", ".join(str(p.size) for p in function.parameters)
            raise CudaError(INVALID_VALUE, f"{function.readable} has parameters of {wanted or 'no'} bytes, not {[len(a) for a in given]}")
        info = {"function": function, "config": config, "arguments": given}
        return Node("kernel", lambda: self._run_behind(function, config, given, stream, dependent=dependent), info)

    def _configured(self, f: Function, grid: Any, block: Any, cluster: Any, shared_bytes: int, cooperative: bool) -> dict[str, Any]:
        """The shape of a launch, checked as the driver does. CudaError says which limit is broken."""
        from smemsim.program.launch import three

        self.check()
        try:
            shape = {"grid": three("grid", grid), "block": three("block", block)}
        except InputError as e:
            raise CudaError(INVALID_CONFIGURATION, str(e)) from None
        for name, most in (("grid", LAUNCH_LIMITS.grid), ("block", LAUNCH_LIMITS.block)):
            if any(n > limit for n, limit in zip(shape[name], most, strict=True)):
                raise CudaError(INVALID_CONFIGURATION, f"{name} = {shape[name]}: at most {most}")
        threads = math.prod(shape["block"])
        if threads > LAUNCH_LIMITS.threads:
            raise CudaError(
                INVALID_CONFIGURATION, f"block = {shape['block']}: {threads} threads; a CTA has at most {LAUNCH_LIMITS.threads}"
            )
        if threads > f.most_threads:
            raise CudaError(OUT_OF_RESOURCES, f"block = {shape['block']}: {f.readable} is compiled for at most {f.most_threads} threads")
        given = three("cluster", [max(1, n) for n in _some(cluster)]) if cluster is not None and any(_some(cluster)) else None
        own = f.cluster if any(f.cluster) else None
        if given and own and "reqnctapercluster" in f.directives and given != own:
            raise CudaError(INVALID_CLUSTER, f"cluster = {given}: {f.readable} requires {own}")
        chosen = given or own or (1, 1, 1)
        size = math.prod(chosen)
        if size > (LAUNCH_LIMITS.cluster if f.allows_large_clusters else PORTABLE_CLUSTER):
            raise CudaError(
                INVALID_CLUSTER,
                f"cluster = {chosen}: {size} CTAs; more than {PORTABLE_CLUSTER} need cudaFuncAttributeNonPortableClusterSizeAllowed",
            )
        if any(g % c for g, c in zip(shape["grid"], chosen, strict=True)):
            raise CudaError(INVALID_CLUSTER, f"grid = {shape['grid']}: is no multiple of the cluster {chosen}")
        if shared_bytes > f.dynamic_limit:
            raise CudaError(
                INVALID_VALUE,
                f"{shared_bytes} bytes of dynamic shared memory: {f.readable} may have {f.dynamic_limit}; cudaFuncSetAttribute allows more",
            )
        if cooperative and math.prod(shape["grid"]) > self.blocks_per_multiprocessor(f, threads, shared_bytes) * self.multiprocessors:
            raise CudaError(
                COOPERATIVE_TOO_LARGE, f"grid = {shape['grid']}: not all CTAs are on the card at once, as a cooperative launch needs"
            )
        return {**shape, "cluster": chosen, "shared_bytes": shared_bytes}

    def _run_behind(
        self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], stream: Stream | None, *, dependent: bool
    ) -> Run | None:
        """Execute a launch of a stream now, beside what is in front of it where it is `dependent`."""
        from smemsim.program.execute import in_front

        after = self._in_front.pop(stream, None)
        run = self._run(f, config, arguments, after if dependent else None)
        if run is not None and (done := in_front(run.launch)) is not None:
            self._in_front[stream] = done
        return run

    def _run(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], after: Any) -> Run | None:
        """Execute a launch now."""
        self.check()
        about = Launched(
            len(self.launches) + 1, f.readable, f.name, config["grid"], config["block"], config["cluster"], config["shared_bytes"],
            ptx=f.digest, families=list(f.families),
        )  # fmt: skip
        if self._began is None:
            self._began = time.monotonic()
        if self._is_out(about):
            return None
        self.launches.append(about)
        self.begins(about)
        try:
            return self._execute(f, config, arguments, about, after)
        finally:
            self.ended(about)

    def _execute(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], about: Launched, after: Any) -> Run | None:
        self.host.settle()
        self._mirror(to_device=True)
        self._look_up(arguments)
        begin = time.perf_counter()
        from smemsim.program.launch import LIMIT

        try:
            if self._hooked(f, config, arguments):
                self.machine.forget_garbage()
                about.seconds = time.perf_counter() - begin
                self._mirror(to_device=False)
                return self._done(about, None, "run by a hook")
            recorder = self._recorder(f, config, arguments, about.number)
            run, error = self.machine.run(
                f.linked, arguments, config, sanitize=self.policy.is_watched(f.name), watch_global=self.policy.watch_global,
                limit=self.policy.limit or LIMIT,
                limit_seconds=self._seconds_of_a_launch(), ctas=self._ctas(config), progress=not self.policy.quiet, name=f"{f.readable}.ptx",
                workers=self.policy.workers, cancel=self.policy.cancel, schedule=self.policy.schedule, assume=self.policy.assume,
                after=after, multiprocessors=self.multiprocessors,
            )  # fmt: skip
        except SmemsimError as e:
            self.machine.forget_garbage()
            about.seconds = time.perf_counter() - begin
            about.refused, about.error = str(e), NOT_SUPPORTED if isinstance(e, Unmodelled) else LAUNCH_FAILED
            self._done(about, None, f"not run: {'not modelled: ' if isinstance(e, Unmodelled) else ''}{e}")
            raise CudaError(about.error, str(e)) from None
        about.seconds = time.perf_counter() - begin
        self._mirror(to_device=False)
        if run.out_of_time:
            self.machine.forget_garbage()
        self._tell_host(run)
        about.error, about.is_fine, about.run = error, self.policy.is_fine(run), run.as_dict()
        if recorder is not None:
            recorder.write(run)
        about.named = [] if about.is_fine else self._named_in(run)
        self._page(about, run)
        self._done(about, run, "")
        if run.interrupted:
            raise KeyboardInterrupt
        if error:
            self._fail(error)
        if about.is_fine or self.policy.on_finding != "raise" or (error and run.asserted):  # an assertion is told as a card tells it
            return run
        if not error:
            about.error = LAUNCH_FAILED
            self._fail(LAUNCH_FAILED)
        if self.host.shares_memory:
            raise FindingsError(run)
        return run

    def _tell_host(self, run: Run) -> None:
        """What the kernel has printed, and what it has set conditional handles to (cudaGraphSetConditional)."""
        for text, is_error in ((run.output, False), (run.asserted, True)):
            if text:
                self.host.write(text, is_error=is_error)
        for handle, value in run.launch.conditions.items():
            if handle not in self.conditions:
                self.tell(
                    f"cudaGraphSetConditional: {handle:#x} is no conditional handle (cudaGraphConditionalHandleCreate); nothing is set"
                )
            else:
                self.conditions[handle].value = value

    def _look_up(self, arguments: tuple[bytes, ...]) -> None:
        """Ask for what lies where a word of the arguments points: a pointer, a member of a structure, the first word of a tensor map."""
        if self.ask_host is not None:
            for raw in arguments:
                for (word,) in struct.iter_unpack("<Q", raw[: len(raw) // 8 * 8]):
                    self._asked_for(word)

    def _recorder(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], number: int) -> Recorder | None:
        if self.policy.record is None:
            return None
        from smemsim.virtual.record import Recorder

        return Recorder(self, f, config, arguments, number)

    def _ctas(self, config: dict[str, Any]) -> list[int] | None:
        """The CTAs of the policy that this grid has; its first one, and a word about it, where it has none of them."""
        if self.policy.ctas is None:
            return None
        count = math.prod(config["grid"])
        found = [n for n in self.policy.ctas if n < count]
        if not found and not self._told_of_ctas:
            self._told_of_ctas = True
            self.tell(
                f"--ctas {self.policy.ctas[0]}: a grid of {count} CTA{'s' * (count != 1)} has none of these; CTA 0 of such grids is run"
            )
        return found or [0]

    def _seconds_left(self) -> float | None:
        """Of the program's time on the device; None where it has no limit."""
        total = self.policy.total_seconds
        if total is None or self._began is None:
            return total
        return max(0.0, total - (time.monotonic() - self._began))

    def _seconds_of_a_launch(self) -> float | None:
        """How long a launch may run that begins now."""
        limits = [seconds for seconds in (self.policy.limit_seconds, self._seconds_left()) if seconds is not None]
        return max(min(limits), 0.001) if limits else None

    def _is_out(self, about: Launched) -> bool:
        """Is the limit on launches or on the program's seconds reached? Then nothing runs any more, and calls time out."""
        policy = self.policy
        if policy.limit_launches is not None and len(self.launches) >= policy.limit_launches:
            reason = f"the limit of {policy.limit_launches} launches is reached (--limit-launches)"
        elif policy.total_seconds is not None and not self._seconds_left():
            reason = f"the limit of {policy.total_seconds:g} s is reached (--total-seconds)"
        else:
            return False
        if not self._is_over:
            self._is_over = reason
            self.tell(f"{reason}: {about.name} and all that follows is not run, and the program is told that the launch timed out")
        self._refuse(about)
        self._fail(TIMEOUT)
        return True

    def _asked(self, f: Function, grid: Any, block: Any, cluster: Any, shared_bytes: int) -> Launched:
        """A launch as it was asked for, whatever it is."""
        shapes = (_some(grid), _some(block), _some(cluster) if cluster is not None else (1, 1, 1))
        return Launched(len(self.launches) + 1, f.readable, f.name, *shapes, shared_bytes, ptx=f.digest)

    def _refuse(self, about: Launched) -> None:
        """Count a launch that is not run because the program's use of the device is over."""
        about.refused, about.error, about.told = self._is_over, TIMEOUT, f"{about.number} {about.name}: not run: {self._is_over}"
        self.launches.append(about)
        self.ended(about)

    def _mirror(self, *, to_device: bool) -> None:
        """Copy registered memory of another process into its copy here, or back."""
        for own, _ in self._registered:
            self.host.copy(*((own.place, own.address) if to_device else (own.address, own.place)), own.size)
        if self._registered and to_device:
            self.host.settle()

    def _hooked(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...]) -> bool:
        for pattern, function in self.hooks:
            if pattern.search(f.name) or pattern.search(f.readable):
                try:
                    return function(HookedLaunch(f.readable, config["grid"], config["block"], arguments, self.view)) is not False
                except Exception as e:
                    raise hook_failed(f"the hook {function.__name__}", e) from None
        return False

    def _done(self, about: Launched, run: Run | None, instead: str) -> Run | None:
        """Tell of a launch on stderr, as the policy has it."""
        shape = f"{math.prod(about.grid)} CTA{'s' * (math.prod(about.grid) != 1)}"
        about.told = f"{about.number} {run.summary(strict=self.policy.strict) if run is not None else f'{about.name}: {shape} in {about.seconds:.1f} s, {instead}'}"
        is_told = run is not None and not about.is_fine and self.policy.on_finding != "collect"
        if not self.policy.quiet or is_told:
            left = self._seconds_left()
            self.tell(about.told if left is None else f"{about.told}; {left:.0f} s left of {self.policy.total_seconds:g}")
        if run is not None and is_told:
            self.tell("\n".join((run.details(), *about.named)))
        elif run is not None and about.is_fine:
            new = {str(f): f for f in run.broken if str(f) not in self._remarked}
            self._remarked.update(new)
            for text, f in new.items():
                self.tell("\n".join((text, *(f"      {line}" for line in f.excerpt()))))
        return run

    def _named_in(self, run: Run) -> list[str]:
        """A line for each allocation that findings name: its size, and who asked for it."""
        found = [self.memory.at(address) for f in run.findings for address in f.arrays]
        return [a.told() for a in dict.fromkeys(found) if a is not None and a.name]

    def _page(self, about: Launched, run: Run) -> None:
        """A page for a launch, where a report is asked for: for every one with findings, and for the first ones of each kernel."""
        if self.policy.report is None:
            return
        self._pages[about.kernel] = seen = self._pages.get(about.kernel, 0) + 1
        if about.is_fine and not run.remarks and seen > LAST_PAGES:
            return
        from smemsim.virtual import record

        about.page = record.write_page(self.policy.report, f"{self.label}{about.number:04}", run, about.named)

    def summary(self) -> str:
        """A sentence about all launches."""
        return summary_of(self.launches)

    # Tensor maps

    def encode(self, call: str, **given: Any) -> bytes:
        """The 128 bytes of cuTensorMapEncodeTiled, Im2col or Im2colWide, by the names of `TensorMap.tiled` …; CudaError 1 where it refuses."""
        from smemsim.words.tensor_map import TensorMap

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
        from smemsim.finding import TensorMapError
        from smemsim.words.tensor_map import TensorMap

        try:
            old = TensorMap.from_bytes(raw)
        except TensorMapError as e:
            raise CudaError(INVALID_VALUE, str(e)) from None
        return self.encode(old.call, **{**old.arguments, "global_address": address})


def _is_text(code: bytes | str) -> bool:
    return isinstance(code, str) or code.lstrip()[:1] in (b".", b"/")


def _some(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _caller() -> str:
    """The line of the host's program that called the device: the first one outside of smemsim."""
    for frame in itertools.islice(reversed(traceback.extract_stack()), 2, 40):
        if "/smemsim/" not in frame.filename:
            return f"{frame.filename}:{frame.lineno}"
    return ""
