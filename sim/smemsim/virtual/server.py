"""The process that has the device for a program in another process: it answers the calls that `clib/` sends over a socket.

A message is a length, the name of a method of `Session`, and its arguments; the answer has an error code, what the program's process is to do
itself (copy its own memory, call its functions, print), and results. Memory is shared: `memory.DeviceMemory`. Nothing here says what a call means;
that is `device.VirtualDevice`.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from smemsim.errors import InputError, SmemsimError, Unmodelled
from smemsim.spec.cards import MAPPING_BYTES
from smemsim.virtual import fatbin
from smemsim.virtual.code import Function, Module
from smemsim.virtual.device import VirtualDevice
from smemsim.virtual.errors import (
    CAPTURE_UNSUPPORTED,
    ILLEGAL_STATE,
    INVALID_HANDLE,
    INVALID_VALUE,
    LAUNCH_FAILED,
    NO_BINARY,
    NOT_FOUND,
    NOT_SUPPORTED,
    UNSUPPORTED_LIMIT,
    CudaError,
)  # fmt: skip
from smemsim.virtual.graphs import Condition, Graph, GraphExec, Node, UserObject
from smemsim.virtual.host import Host
from smemsim.virtual.mapping import Physical
from smemsim.virtual.memory import RANGE_BYTES
from smemsim.virtual.policy import FindingsError, Policy, line_of, line_of_begun, line_of_refused
from smemsim.virtual.pools import Pool
from smemsim.virtual.streams import Event, Stream

__all__ = ["Session", "serve"]


COPY, CALL, WRITE, CALL_BACK = 1, 2, 3, 4
INTERNAL = 999
KINDS = {"device": 2, "mapped": 2, "managed": 3, "pinned": 1, "registered": 1, "own": 2, "managed variable": 3}
POOL_FLAGS = {1: 1, 2: 1, 3: 1, 4: 0}  # CUmemPool_attribute: what may be reused, and the bytes that are kept; their values at first
POOL_SIZES = {5: "reserved", 6: "most_reserved", 7: "used", 8: "most_used"}  # of a Pool
GRAPH_SIZES = {0: "used", 1: "most_used", 2: "reserved", 3: "most_reserved"}  # CUgraphMem_attribute
MANAGED = 2  # CUmemAllocationType
ACCESSED_BY, CPU, NOWHERE = 3, -1, -2  # CUmem_range_attribute, and places as numbers
DEFAULT_STREAMS = (0, 1, 2)  # the null stream, and those that cuda.h calls legacy and per-thread
NODE_TYPES = {
    "kernel": 0,
    "memcpy": 1,
    "memset": 2,
    "host": 3,
    "graph": 4,
    "empty": 5,
    "wait": 6,
    "record": 7,
    "alloc": 10,
    "free": 11,
    "conditional": 13,
}
CONDITIONALS = ("if", "while", "switch")  # CUgraphConditionalNodeType
SIGNED = 1 << 63
Kept = TypeVar("Kept")


class RemoteHost(Host):
    """The program's process: it is asked to do what only it can do, with the next answer, or before anything that depends on it."""

    shares_memory = False

    def __init__(self, flush: Callable[[], None]) -> None:
        self.waiting: list[bytes] = []
        self._flush = flush

    def _ask(self, kind: int, a: int = 0, b: int = 0, c: int = 0, data: bytes = b"") -> None:
        self.waiting.append(struct.pack("<BQQQ", kind, a, b, c) + data)

    def copy(self, to: int, source: int, size: int) -> None:
        """See `Host`."""
        self._ask(COPY, to, source, size)

    def call(self, function: int, data: int) -> None:
        """See `Host`."""
        self._ask(CALL, function, data)

    def call_back(self, function: int, stream: int, data: int) -> None:
        """Call a stream's callback: `void (*)(stream, error, void *)`."""
        self._ask(CALL_BACK, function, stream, data)

    def write(self, text: str, *, is_error: bool = False) -> None:
        """See `Host`."""
        raw = text.encode()
        self._ask(WRITE, len(raw), int(is_error), data=raw)

    def settle(self) -> None:
        """See `Host`."""
        if self.waiting:
            self._flush()


class Session:
    """One program's calls. Its methods are what `clib/` names; handles are numbers."""

    def __init__(self, channel: socket.socket, arch: str, policy: Policy, **card: Any) -> None:
        self.channel = channel
        self.host = RemoteHost(self._flush)
        self.device = VirtualDevice(arch, policy=policy, host=self.host, **card)
        self._objects: dict[int, Any] = {}
        self._next = 0x1000
        self.is_running = False

    # The wire

    def run(self) -> None:
        """Answer calls until the program ends."""
        memory = self.device.memory
        hello = struct.pack("<QQQ", memory.device_base, memory.host_base, RANGE_BYTES)
        socket.send_fds(self.channel, [hello], [memory.descriptor])
        while True:
            head = self._receive(4)
            if head is None:
                return
            message = self._receive(struct.unpack("<I", head)[0])
            if message is None:
                return
            error, results = self._answer(*parsed(message))
            actions = self.host.waiting
            self.host.waiting = []
            self._send(True, error, actions, results)

    def _answer(self, name: str, arguments: list[Any]) -> tuple[int, tuple[Any, ...]]:
        method = None if name.startswith("_") else getattr(self, name, None)
        if method is None:
            return NOT_SUPPORTED, ()
        try:
            results = method(*arguments)
        except CudaError as e:
            return e.code, ()
        except FindingsError:
            return LAUNCH_FAILED, ()
        except Unmodelled as e:
            self.device.refuse(f"not modelled: {e}")
            return NOT_SUPPORTED, ()
        except SmemsimError as e:
            self.device.tell(str(e))
            return INVALID_VALUE, ()
        except KeyboardInterrupt:
            self.device.error = self.device.error or LAUNCH_FAILED
            return LAUNCH_FAILED, ()
        except Exception:
            self.device.tell(f"internal error in {name}, please report it:\n{traceback.format_exc()}")
            return INTERNAL, ()
        return 0, results if isinstance(results, tuple) else () if results is None else (results,)

    def _send(self, is_last: bool, error: int, actions: list[bytes], results: tuple[Any, ...]) -> None:
        reply = replied(is_last, error, actions, results)
        self.channel.sendall(struct.pack("<I", len(reply)) + reply)

    def _flush(self) -> None:
        actions, self.host.waiting = self.host.waiting, []
        self._send(False, 0, actions, ())
        if self._receive(4) is None:
            raise KeyboardInterrupt

    def _receive(self, size: int) -> bytes | None:
        parts = []
        while size:
            try:
                part = self.channel.recv(min(size, 1 << 24))
            except ConnectionError:
                return None
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    # Handles

    def _keep(self, made: Any) -> int:
        self._next += 16
        self._objects[self._next] = made
        return self._next

    def _of(self, handle: int, kind: type[Kept]) -> Kept:
        found = self._objects.get(handle)
        if not isinstance(found, kind):
            raise CudaError(INVALID_HANDLE, f"{handle:#x} is no {kind.__name__.lower()}")
        return found

    def _stream(self, handle: int) -> Stream | None:
        return None if handle in DEFAULT_STREAMS else self._of(handle, Stream)

    def _handle_of(self, thing: Any) -> int:
        return next((handle for handle, kept in self._objects.items() if kept is thing), 0) or self._keep(thing)

    def _nodes(self, raw: bytes) -> list[Node]:
        return [self._of(handle, Node) for (handle,) in struct.iter_unpack("<Q", raw)]

    # Properties

    def driver_version(self) -> int:
        return self.device.driver_version

    def device_name(self) -> bytes:
        return self.device.card.name.encode()

    def device_uuid(self) -> bytes:
        return self.device.uuid

    def total_memory(self) -> int:
        return self.device.memory_bytes

    def attribute(self, number: int) -> int:
        return self.device.attribute(number)

    def properties(self, version: int) -> bytes:
        return self.device.properties(version)

    def limit(self, number: int) -> int:
        self.device.check()
        if number not in self.device.limits:
            raise CudaError(UNSUPPORTED_LIMIT)
        return self.device.limits[number]

    def set_limit(self, number: int, value: int) -> None:
        self.limit(number)
        self.device.limits[number] = value

    def reset(self) -> None:
        self.host.settle()

    def synchronize(self, stream: int) -> None:
        self.device.synchronize(self._stream(stream))

    # Code

    def load(self, code: bytes, managed: str, is_wrapped: int) -> int:
        if is_wrapped:
            parts, at = [], 0
            while at < len(code):
                size = struct.unpack_from("<Q", code, at)[0]
                parts.append(code[at + 8 : at + 8 + size])
                at += 8 + size
            return self._keep(self._load_first(parts, managed.split()))
        return self._keep(self.device.load(code, managed=managed.split()))

    def _load_first(self, parts: list[bytes], managed: list[str]) -> Module:
        """What a wrapper holds: the program's own code, and those that were linked into it."""
        found = [fatbin.images(part) for part in parts]
        try:
            texts = [fatbin.chosen(images, self.device.arch)[0].ptx for images in found if any(i.ptx for i in images)]
            if not texts:
                fatbin.chosen([image for images in found for image in images], self.device.arch)
        except fatbin.NoCode as e:
            self.device.refuse(f"no code for {self.device.arch}: {e}")
            raise CudaError(NO_BINARY, str(e)) from None
        return self.device.load(fatbin.linked(texts), managed=managed)

    def unload(self, module: int) -> None:
        self.device.check()
        self.device.unload(self._of(module, Module))
        del self._objects[module]

    def function(self, module: int, name: str) -> int:
        self.device.check()
        return self._handle_of(self._of(module, Module).function(name))

    def name_parameters(self, function: int, names: tuple[str, ...]) -> None:
        """Have findings call the parameters of a function as its source does."""
        known = self._of(function, Function)
        if len(names) == len(known.parameters):
            known.parameter_names = names

    def function_count(self, module: int) -> int:
        return len(self._of(module, Module).names)

    def functions(self, module: int, count: int) -> bytes:
        found = self._of(module, Module)
        return b"".join(struct.pack("<Q", self._handle_of(found.function(name))) for name in found.names[:count])

    def function_module(self, function: int) -> int:
        return self._handle_of(self._of(function, Function).module)

    def function_name(self, function: int) -> bytes:
        return self._of(function, Function).name.encode() + b"\0"

    def function_layout(self, function: int) -> tuple[int, int, bytes]:
        places = self._of(function, Function).parameters
        end = max((p.offset + p.size for p in places), default=0)
        return len(places), end, b"".join(struct.pack("<II", p.offset, p.size) for p in places)

    def function_attribute(self, function: int, number: int) -> int:
        return self._of(function, Function).attribute(number)

    def set_function_attribute(self, function: int, number: int, value: int) -> None:
        self._of(function, Function).set_attribute(number, value - (value & SIGNED) * 2)

    def variable(self, module: int, name: str) -> tuple[int, int]:
        self.device.check()
        return self._of(module, Module).variable(name)

    def link_create(self) -> int:
        return self._keep([])

    def link_add(self, state: int, data: bytes, name: str) -> None:
        try:
            self._of(state, list).append(fatbin.chosen(fatbin.images(data), self.device.arch)[0].ptx)
        except fatbin.NoCode as e:
            self.device.refuse(f"{name or 'linker input'}: {e}")
            raise CudaError(NO_BINARY, str(e)) from None

    def link_complete(self, state: int) -> int:
        found = self._of(state, list)
        found[:] = [fatbin.linked(found)]
        return len(found[0].encode()) + 1

    def link_text(self, state: int) -> bytes:
        return str(self._of(state, list)[0]).encode() + b"\0"

    # Launches

    def foreign_runtime(self) -> None:
        """The program holds NVIDIA's own runtime, as it has said on stderr: its kernels are not simulated."""
        self.device.note_refused("the program has NVIDIA's own CUDA runtime in it: link it with nvcc -cudart shared")

    def launch(self, function: int, *given: Any) -> None:
        gx, gy, gz, bx, by, bz, cx, cy, cz, shared, stream, cooperative, dependent, bank = given
        f = self._of(function, Function)
        self.is_running = True
        before = len(self.device.launches)
        try:
            self.device.launch(
                f, (gx, gy, gz), (bx, by, bz), bank, cluster=(cx, cy, cz), shared_bytes=shared, stream=self._stream(stream),
                cooperative=bool(cooperative), dependent=bool(dependent),
            )  # fmt: skip
        except CudaError as e:
            if e.reason and len(self.device.launches) == before:  # else its line is told already
                self.device.tell(f"launch refused: {e.reason}")
                if self.device.policy.strict:  # else as on a card: programs try what fits
                    self.device.note_refused(f"launch refused: {e.reason}")
            raise
        finally:
            self.is_running = False

    def call_host(self, stream: int, function: int, data: int) -> None:
        self.device.call_host(function, data, self._stream(stream))

    def call_back(self, stream: int, function: int, data: int) -> None:
        self.device.submit(self._stream(stream), Node("host", lambda: self.host.call_back(function, stream, data)))

    def occupancy(self, function: int, threads: int, shared: int) -> int:
        self.device.check()
        return self.device.occupancy.blocks_per_multiprocessor(self._of(function, Function), threads, shared)

    def available_shared(self, function: int, blocks: int, threads: int) -> int:
        return self.device.occupancy.shared_available(self._of(function, Function), blocks, threads)

    def clusters(self, function: int, threads: int, shared: int, size: int) -> int:
        f = self._of(function, Function)
        return self.device.occupancy.clusters_at_once(f, threads, shared, size or math.prod(f.cluster) or 1)

    def cluster_size(self, function: int, threads: int, shared: int) -> int:
        f = self._of(function, Function)
        most = 16 if f.allows_large_clusters else 8
        return next((n for n in (16, 8, 4, 2) if n <= most and self.device.occupancy.clusters_at_once(f, threads, shared, n)), 1)

    # Tensor maps

    def encode_tiled(
        self, kind: int, rank: int, address: int, dim: bytes, strides: bytes, box: bytes, steps: bytes, interleave: int, swizzle: int,
        promotion: int, fill: int,
    ) -> bytes:  # fmt: skip
        return self.device.encode(
            "tiled", data_type=kind, global_address=address, global_dim=_u64(dim), global_strides=_u64(strides), box_dim=_u32(box),
            element_strides=_u32(steps), interleave=interleave, swizzle=swizzle, l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def encode_im2col(
        self, kind: int, rank: int, address: int, dim: bytes, strides: bytes, low: bytes, high: bytes, channels: int, pixels: int, steps: bytes,
        interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> bytes:  # fmt: skip
        return self.device.encode(
            "im2col", data_type=kind, global_address=address, global_dim=_u64(dim), global_strides=_u64(strides), pixel_box_lower_corner=_s32(low),
            pixel_box_upper_corner=_s32(high), channels_per_pixel=channels, pixels_per_column=pixels, element_strides=_u32(steps),
            interleave=interleave, swizzle=swizzle, l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def encode_im2col_wide(
        self, kind: int, rank: int, address: int, dim: bytes, strides: bytes, low: int, high: int, channels: int, pixels: int, steps: bytes,
        interleave: int, mode: int, swizzle: int, promotion: int, fill: int,
    ) -> bytes:  # fmt: skip
        return self.device.encode(
            "im2col_wide", data_type=kind, global_address=address, global_dim=_u64(dim), global_strides=_u64(strides),
            pixel_box_lower_corner_width=low - (low & SIGNED) * 2, pixel_box_upper_corner_width=high - (high & SIGNED) * 2,
            channels_per_pixel=channels, pixels_per_column=pixels, element_strides=_u32(steps), interleave=interleave, mode=mode, swizzle=swizzle,
            l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def replace_address(self, raw: bytes, address: int) -> bytes:
        return self.device.replace_address(raw, address)

    # Memory

    def allocate(self, size: int, kind: str, where: str) -> int:
        return self.device.allocate(size, kind, where=where)

    def allocate_async(self, size: int, where: str, stream: int) -> int:
        return self.device.allocate_async(size, self._stream(stream), where=where)

    def allocate_from_pool(self, size: int, where: str, pool: int, stream: int) -> int:
        return self.device.allocate_async(size, self._stream(stream), pool=self._of(pool, Pool), where=where)

    def pool_create(self, props: bytes) -> int:
        self.device.check()
        return self._keep(_pool(props))

    def pool_default(self, kind: int, place: int) -> int:
        return self._handle_of(self.device.pools[_kind_of(kind, place)])

    def pool_current(self) -> int:
        return self._handle_of(self.device.pool)

    def pool_use(self, pool: int) -> None:
        self.device.pool = self._of(pool, Pool)

    def pool_destroy(self, pool: int) -> None:
        found = self._of(pool, Pool)
        if found in self.device.pools.values():
            raise CudaError(INVALID_VALUE, "a default pool is not destroyed")
        if self.device.pool is found:
            self.device.pool = self.device.pools["device"]
        del self._objects[pool]

    def pool_at(self, address: int) -> int:
        found = self.device.allocation(address)
        pool = self.device.pool_of.get(found.address) if found is not None else None
        return 0 if pool is None else self._handle_of(pool)

    def pool_attribute(self, pool: int, number: int) -> int:
        found = self._of(pool, Pool)
        if number not in POOL_FLAGS and number not in POOL_SIZES:
            raise CudaError(INVALID_VALUE, f"memory pools have no attribute {number} here")
        return int(getattr(found, POOL_SIZES[number])) if number in POOL_SIZES else found.values.get(number, POOL_FLAGS[number])

    def set_pool_attribute(self, pool: int, number: int, value: int) -> None:
        found = self._of(pool, Pool)
        if number in POOL_FLAGS:
            found.values[number] = value
        elif POOL_SIZES.get(number, "").startswith("most") and not value:
            found.most_used = found.used
        else:
            raise CudaError(INVALID_VALUE, f"attribute {number} of a memory pool cannot be set to {value}")

    def graph_memory(self, number: int) -> int:
        if number not in GRAPH_SIZES:
            raise CudaError(INVALID_VALUE, f"the memory of graphs has no attribute {number}")
        return int(getattr(self.device.graph_pool, GRAPH_SIZES[number]))

    def set_graph_memory(self, number: int, value: int) -> None:
        if value or not GRAPH_SIZES.get(number, "").startswith("most"):
            raise CudaError(INVALID_VALUE, "high watermarks of the memory of graphs can be set to 0, and nothing else")
        self.device.graph_pool.most_used = self.device.graph_pool.used

    def advise(self, address: int, size: int, advice: int, kind: int, number: int) -> None:
        if advice not in range(1, 7) or (advice > 2 and advice != 4 and not 0 < kind <= 4):
            raise CudaError(INVALID_VALUE, f"advice {advice} for location {kind}")
        place = (kind, number - (number >> 31 << 32))
        key = f"is_accessed_by {place if kind == 1 else (2, 0)}"
        said: dict[int, tuple[str, Any]] = {
            1: ("is_read_mostly", True), 2: ("is_read_mostly", False), 3: ("preferred", place), 4: ("preferred", None), 5: (key, True), 6: (key, False),
        }  # fmt: skip
        self.device.advise(address, size, **dict([said[advice]]))

    def prefetch(self, address: int, size: int, kind: int, number: int, stream: int) -> None:
        self.device.advise(address, size, prefetched=(kind, number - (number >> 31 << 32)))
        self.device.submit(self._stream(stream), Node("empty", lambda: None))

    def advised(self, address: int, size: int, number: int, count: int) -> bytes:
        """An attribute of cuMemRangeGetAttribute, as numbers of 4 bytes; `count` have room."""
        keys = {1: "is_read_mostly", 2: "preferred", 4: "prefetched", 5: "preferred", 6: "preferred", 7: "prefetched", 8: "prefetched"}
        if number == ACCESSED_BY:
            places = {(1, 0): 0, (2, 0): CPU}
            found = [n for place, n in places.items() if self.device.advised(address, size, f"is_accessed_by {place}")]
            return struct.pack(f"<{count}i", *[*found, *[NOWHERE] * count][:count])
        if number not in keys:
            raise CudaError(INVALID_VALUE, f"managed memory has no attribute {number}")
        said = self.device.advised(address, size, keys[number])
        if number == 1:
            return struct.pack("<i", bool(said))
        kind, place = said or (0, NOWHERE)
        if number in (2, 4):
            return struct.pack("<i", {0: NOWHERE, 1: place}.get(kind, CPU))
        return struct.pack("<i", kind if number in (5, 7) else place)

    def free(self, address: int) -> None:
        self.host.settle()
        self.device.free(address)

    def free_async(self, address: int, stream: int) -> None:
        self.device.free_async(address, self._stream(stream))

    def check_host(self, address: int) -> None:
        found = self.device.allocation(address)
        if found is None or not found.is_on_host:
            raise CudaError(INVALID_VALUE, f"{address:#x} is no pinned memory")

    def register(self, address: int, size: int, where: str) -> None:
        self.device.register(address, size, where=where)

    def unregister(self, address: int) -> None:
        self.device.check()
        self.device.unbind(address)

    def memory_info(self) -> tuple[int, int]:
        return self.device.memory_info()

    def range(self, address: int) -> tuple[int, int]:
        found = self.device.allocation(address)
        if found is None:
            raise CudaError(NOT_FOUND, f"{address:#x} lies in no allocation")
        return found.address, found.size

    def pointer(self, address: int) -> tuple[int, int, int, int]:
        found = self.device.allocation(address)
        if found is None:
            raise CudaError(INVALID_VALUE, f"{address:#x} lies in no allocation")
        return KINDS[found.kind], found.address, found.size, found.number

    def copy(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        self.device.copy(to, source, size, self._stream(stream), kind=kind)

    def copy_2d(self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int, stream: int) -> None:
        self.device.copy_2d(to, to_pitch, source, source_pitch, width, height, self._stream(stream), kind=kind)

    def fill(self, to: int, pitch: int, value: int, width: int, count: int, height: int, stream: int) -> None:
        self.device.fill_2d(to, pitch, value, width, count, height, self._stream(stream))

    # Virtual memory management

    def physical_create(self, size: int, where: str) -> int:
        return self._keep(self.device.map("create", size, where))

    def physical_release(self, handle: int) -> None:
        self.device.map("release", self._of(handle, Physical))
        del self._objects[handle]

    def physical_at(self, address: int) -> int:
        found: Physical = self.device.map("at", address)[0]
        found.handles += 1
        return self._keep(found)

    def range_reserve(self, size: int, align: int) -> int:
        if not size or size % MAPPING_BYTES or align & (align - 1):
            raise CudaError(INVALID_VALUE, f"{size} bytes of addresses: needs a multiple of {MAPPING_BYTES}")
        return int(self.device.map("reserve", size, max(align, MAPPING_BYTES)))

    def range_free(self, address: int, size: int) -> None:
        self.device.map("free", address, size)

    def range_map(self, address: int, size: int, offset: int, handle: int) -> None:
        physical = self._of(handle, Physical)
        if physical.is_mapped:
            raise Unmodelled("physical memory that is mapped at two places at once")
        self.device.map("map", address, size, offset, physical)

    def range_unmap(self, address: int, size: int) -> None:
        self.device.map("unmap", address, size)

    def range_access(self, address: int, size: int, access: int) -> None:
        self.device.map("set_access", address, size, access)

    def range_access_at(self, address: int) -> int:
        return int(self.device.map("at", address)[1])

    # Streams and events

    def stream_create(self, flags: int, priority: int) -> int:
        self.device.check()
        return self._keep(Stream(min(0, max(-5, priority - (priority & SIGNED) * 2)), flags))

    def stream_destroy(self, stream: int) -> None:
        self._of(stream, Stream)
        del self._objects[stream]

    def stream_wait(self, stream: int, event: int) -> None:
        self.device.wait(self._stream(stream), self._of(event, Event))

    def stream_info(self, stream: int) -> tuple[int, int]:
        found = self._stream(stream)
        return (found.priority, found.flags) if found is not None else (0, 0)

    def event_create(self, flags: int) -> int:
        self.device.check()
        return self._keep(Event(flags))

    def event_destroy(self, event: int) -> None:
        self._of(event, Event)
        del self._objects[event]

    def event_record(self, event: int, stream: int) -> None:
        self.device.record(self._of(event, Event), self._stream(stream))

    def event_synchronize(self, event: int) -> None:
        if self._of(event, Event).captured is not None:
            raise CudaError(CAPTURE_UNSUPPORTED)
        self.device.synchronize()

    def event_elapsed(self, begin: int, end: int) -> int:
        return round(1000 * self.device.elapsed(self._of(begin, Event), self._of(end, Event)))

    # Graphs

    def capture_begin(self, stream: int, mode: int) -> None:
        found = self._stream(stream)
        if found is None:
            raise CudaError(CAPTURE_UNSUPPORTED, "the null stream cannot be captured")
        self.device.begin_capture(found, mode)

    def capture_to(self, stream: int, graph: int, mode: int) -> None:
        self.device.begin_capture(self._of(stream, Stream), mode, self._of(graph, Graph))

    def capture_end(self, stream: int) -> int:
        streams = [kept for kept in self._objects.values() if isinstance(kept, Stream)]
        return self._handle_of(self.device.end_capture(self._of(stream, Stream), streams))

    def capture_status(self, stream: int) -> tuple[int, int]:
        found = self._stream(stream)
        if found is None or found.graph is None:
            return 0, 0
        return 2 if found.is_broken else 1, self._handle_of(found.graph)

    def capture_nodes(self, stream: int, count: int) -> tuple[int, bytes]:
        """What the next node of a stream under capture runs after."""
        found = self._stream(stream)
        return self._told_of([] if found is None or found.graph is None else found.last, count)

    def capture_after(self, stream: int, after: bytes, is_all: int) -> None:
        """Say what the next node of a stream under capture runs after: that and no more, or that too."""
        found = self._of(stream, Stream)
        if found.graph is None:
            raise CudaError(ILLEGAL_STATE, "the stream is not captured")
        found.last = list(dict.fromkeys([*(() if is_all else found.last), *self._nodes(after)]))

    def graph_create(self) -> int:
        return self._keep(Graph())

    def graph_destroy(self, graph: int) -> None:
        found = self._objects.pop(graph, None)
        if isinstance(found, (Graph, GraphExec)):
            found.close()

    def user_object_create(self, destroy: int, data: int, count: int) -> int:
        return self._keep(UserObject(lambda: self.host.call(destroy, data), count))

    def user_object_retain(self, held: int, count: int) -> None:
        self._of(held, UserObject).retain(count)

    def user_object_release(self, held: int, count: int) -> None:
        self._of(held, UserObject).release(count)

    def graph_hold(self, graph: int, held: int, count: int, is_moved: int) -> None:
        self._of(graph, Graph).hold(self._of(held, UserObject), count, is_moved=bool(is_moved))

    def graph_let_go(self, graph: int, held: int, count: int) -> None:
        self._of(graph, Graph).let_go(self._of(held, UserObject), count)

    def graph_clone(self, graph: int) -> int:
        return self._keep(self._of(graph, Graph).clone())

    def node_in_clone(self, node: int, clone: int) -> int:
        found = self._of(clone, Graph).copies.get(self._of(node, Node))
        if found is None:
            raise CudaError(INVALID_VALUE, "the graph is no clone of the node's")
        return self._handle_of(found)

    def graph_instantiate(self, graph: int) -> int:
        return self._keep(GraphExec(self._of(graph, Graph)))

    def graph_launch(self, graph: int, stream: int) -> None:
        self.is_running = True
        try:
            self.device.launch_graph(self._of(graph, GraphExec), self._stream(stream))
        finally:
            self.is_running = False

    def graph_update(self, executable: int, graph: int) -> None:
        self._of(executable, GraphExec).update(self._of(graph, Graph))

    def graph_nodes(self, graph: int, count: int) -> tuple[int, bytes]:
        return self._told_of(self._of(graph, Graph).nodes, count)

    def node_type(self, node: int) -> int:
        return NODE_TYPES[self._of(node, Node).kind]

    def _added(self, graph: int, after: bytes, node: Node) -> int:
        return self._keep(self._of(graph, Graph).add(node, self._nodes(after)))

    def _kernel(self, function: int, given: tuple[Any, ...]) -> Node:
        gx, gy, gz, bx, by, bz, shared, bank = given
        return self.device.launcher.node(self._of(function, Function), (gx, gy, gz), (bx, by, bz), bank, shared_bytes=shared)

    def graph_add_kernel(self, graph: int, after: bytes, function: int, *given: Any) -> int:
        return self._added(graph, after, self._kernel(function, given))

    def graph_set_kernel(self, executable: int, node: int, function: int, *given: Any) -> None:
        self._own(executable, node).become(self._kernel(function, given))

    def _own(self, executable: int, node: int) -> Node:
        """The node of what was instantiated; `executable` 0: the graph's own."""
        if not executable:
            return self._of(node, Node)
        own = self._of(executable, GraphExec).of.get(self._of(node, Node))
        if own is None:
            raise CudaError(INVALID_VALUE, "the node is not of this graph")
        return own

    def node_kernel(self, node: int) -> tuple[Any, ...]:
        info = self._of(node, Node).info
        if "config" not in info:
            raise CudaError(INVALID_VALUE, "the node is no kernel's")
        function, config = info["function"], info["config"]
        bank = bytearray(max((p.offset + p.size for p in function.parameters), default=0))
        for p, raw in zip(function.parameters, info["arguments"], strict=True):
            bank[p.offset : p.offset + p.size] = raw
        return self._handle_of(function), *config["grid"], *config["block"], config["shared_bytes"], bytes(bank)

    def node_enable(self, executable: int, node: int, is_enabled: int) -> None:
        self._own(executable, node).is_enabled = bool(is_enabled)

    def node_is_enabled(self, executable: int, node: int) -> int:
        return int(self._own(executable, node).is_enabled)

    def node_destroy(self, node: int) -> None:
        found = self._of(node, Node)
        if found.graph is not None:
            found.graph.remove(found)
        del self._objects[node]

    def _told_of(self, nodes: list[Node], count: int) -> tuple[int, bytes]:
        return (min(count, len(nodes)) if count else len(nodes)), b"".join(struct.pack("<Q", self._handle_of(n)) for n in nodes[:count])

    def node_links(self, node: int, is_after: int, count: int) -> tuple[int, bytes]:
        found = self._of(node, Node)
        after = [n for n in found.graph.nodes if found in n.after] if found.graph is not None else []
        return self._told_of(after if is_after else found.after, count)

    def graph_roots(self, graph: int, count: int) -> tuple[int, bytes]:
        return self._told_of([node for node in self._of(graph, Graph).nodes if not node.after], count)

    def graph_edges(self, graph: int, count: int) -> tuple[int, bytes, bytes]:
        edges = self._of(graph, Graph).edges
        (number, first), (_, second) = (self._told_of([edge[n] for edge in edges], count) for n in (0, 1))
        return number, first, second

    def graph_add_empty(self, graph: int, after: bytes) -> int:
        return self._added(graph, after, Node("empty", lambda: None))

    def _call(self, function: int, data: int) -> Node:
        return Node("host", lambda: self.host.call(function, data), {"given": (function, data)})

    def graph_add_host(self, graph: int, after: bytes, function: int, data: int) -> int:
        return self._added(graph, after, self._call(function, data))

    def _fill(self, to: int, pitch: int, value: int, width: int, count: int, height: int) -> Node:
        given = (to, pitch, value, width, count, height)
        return Node("memset", lambda: self.device.fill_2d(to, pitch or count * width, value, width, count, height), {"given": given})

    def _copy(self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int) -> Node:
        given = (to, to_pitch, source, source_pitch, width, height)
        return Node("memcpy", lambda: self.device.copy_2d(to, to_pitch, source, source_pitch, width, height), {"given": given})

    def node_given(self, node: int, kind: str) -> bytes:
        """The numbers that a node was made of."""
        found = self._of(node, Node)
        if found.kind != kind or "given" not in found.info:
            raise CudaError(INVALID_VALUE, f"the node is of kind {found.kind}, not {kind}")
        return struct.pack(f"<{len(found.info['given'])}Q", *found.info["given"])

    def graph_dot(self, graph: int) -> bytes:
        """The graph in the language of Graphviz."""
        nodes = self._of(graph, Graph).nodes
        lines = [f'"node_{n}" [label="{n}: {node.kind}"];' for n, node in enumerate(nodes)]
        edges = [f'"node_{nodes.index(a)}" -> "node_{nodes.index(b)}";' for a, b in self._of(graph, Graph).edges]
        return "\n".join(["digraph dot {", *lines, *edges, "}", ""]).encode() + b"\0"

    def graph_add_fill(self, graph: int, after: bytes, *given: int) -> int:
        return self._added(graph, after, self._fill(*given))

    def graph_set_fill(self, executable: int, node: int, *given: int) -> None:
        self._own(executable, node).become(self._fill(*given))

    def graph_add_copy(self, graph: int, after: bytes, *given: int) -> int:
        return self._added(graph, after, self._copy(*given))

    def graph_set_copy(self, executable: int, node: int, *given: int) -> None:
        self._own(executable, node).become(self._copy(*given))

    def graph_set_host(self, executable: int, node: int, function: int, data: int) -> None:
        self._own(executable, node).become(self._call(function, data))

    def graph_add_event(self, graph: int, after: bytes, event: int, is_wait: int) -> int:
        found = self._of(event, Event)
        info = {"given": (event,)}
        made = Node("wait", lambda: None, info) if is_wait else Node("record", lambda: self.device.record(found), info)
        return self._added(graph, after, made)

    def graph_add_alloc(self, graph: int, after: bytes, size: int, props: bytes, where: str) -> tuple[int, int]:
        address = self.device.allocate(size, _pool(props).kind, where=where)  # as long as the graph lives: for ever
        self.device.graph_pool.gives(address, size)
        info = {"address": address, "props": props, "given": (size, address)}
        return self._added(graph, after, Node("alloc", lambda: None, info)), address

    def node_props(self, node: int) -> bytes:
        """The pool properties of an allocation."""
        return bytes(self._of(node, Node).info.get("props", b""))

    def graph_add_free(self, graph: int, after: bytes, address: int) -> int:
        self.device.begins_at(address)
        return self._added(graph, after, Node("free", lambda: None, {"address": address, "given": (address,)}))

    def graph_add_child(self, graph: int, after: bytes, child: int) -> int:
        return self._keep(self._of(graph, Graph).add_graph(self._of(child, Graph), self._nodes(after)))

    def node_graph(self, node: int) -> int:
        """The graph that a node is."""
        found = self._of(node, Node).info.get("graph")
        if found is None:
            raise CudaError(INVALID_VALUE, "the node is no graph")
        return self._handle_of(found)

    def condition_create(self, graph: int, value: int, flags: int) -> int:
        """A conditional handle; bit 0 of the flags: it has this value at the start of each launch of the graph."""
        found = self._of(graph, Graph)
        condition = Condition(found, value if flags & 1 else None)
        found.conditions.append(condition)
        handle = self._keep(condition)
        self.device.conditions[handle] = condition
        return handle

    def graph_add_conditional(self, graph: int, after: bytes, condition: int, kind: int, count: int) -> tuple[int, bytes]:
        """A conditional node, and the graphs that it runs."""
        if kind >= len(CONDITIONALS):
            raise CudaError(INVALID_VALUE, f"a conditional node of type {kind}")
        name, handle = CONDITIONALS[kind], self._of(condition, Condition)
        made = self._of(graph, Graph).add_conditional(name, handle, count, self._nodes(after))
        return self._keep(made), b"".join(struct.pack("<Q", self._handle_of(body)) for body in made.info["bodies"])

    def node_bodies(self, node: int, count: int) -> tuple[int, int, int, bytes]:
        """Of a conditional node: its handle, its type, how many graphs it has, and the first `count` of these."""
        info = self._of(node, Node).info
        if "bodies" not in info:
            raise CudaError(INVALID_VALUE, "the node is not conditional")
        bodies = b"".join(struct.pack("<Q", self._handle_of(body)) for body in info["bodies"][:count])
        return self._handle_of(info["condition"]), CONDITIONALS.index(info["conditional"]), len(info["bodies"]), bodies

    def graph_depend(self, graph: int, before: bytes, after: bytes) -> None:
        for first, second in zip(self._nodes(before), self._nodes(after), strict=True):
            self._of(graph, Graph).depend(first, second)

    def graph_part(self, graph: int, before: bytes, after: bytes) -> None:
        for first, second in zip(self._nodes(before), self._nodes(after), strict=True):
            self._of(graph, Graph).part(first, second)


def _kind_of(kind: int, place: int) -> str:
    """Of CUmemAllocationType and CUmemLocationType: what memory a pool has."""
    if kind not in (1, 2) or place > 4:
        raise CudaError(INVALID_VALUE, f"a pool of allocations of type {kind} at a place of type {place}")
    return "managed" if kind == MANAGED else "device" if place <= 1 else "pinned"


def _pool(props: bytes) -> Pool:
    """Of CUmemPoolProps."""
    kind, _, place, _, _, most = struct.unpack_from("<iiiiQQ", props)
    return Pool(_kind_of(kind, place), most)


def _u64(raw: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(raw, np.uint64).tolist())


def _u32(raw: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(raw, np.uint32).tolist())


def _s32(raw: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(raw, np.int32).tolist())


def parsed(message: bytes) -> tuple[str, list[Any]]:
    """(method, arguments) of a message."""
    length = struct.unpack_from("<I", message)[0]
    name, at = message[4 : 4 + length].decode(), 4 + length
    count = struct.unpack_from("<I", message, at)[0]
    at += 4
    found: list[Any] = []
    for _ in range(count):
        kind, at = message[at : at + 1], at + 1
        if kind == b"i":
            found.append(struct.unpack_from("<Q", message, at)[0])
            at += 8
        else:
            size, at = struct.unpack_from("<I", message, at)[0], at + 4
            raw, at = message[at : at + size], at + size
            found.append(raw.decode(errors="replace") if kind == b"s" else raw)
    return name, found


def replied(is_last: bool, error: int, actions: list[bytes], results: tuple[Any, ...]) -> bytes:
    """What `clib/door.c` reads as the answer to a call."""
    doing = b"".join(actions)
    out = b"".join(struct.pack("<Q", x & (1 << 64) - 1) if isinstance(x, int) else struct.pack("<I", len(x)) + x for x in results)
    return struct.pack("<BiII", is_last, error, len(actions), len(doing)) + doing + out


# ---- A session's process


def serve(channel: socket.socket, report: socket.socket, arch: str, policy: Policy, card: dict[str, Any], label: str = "") -> None:
    """Serve one program until it ends, tell what was launched to `report`, and end this process: it is a fork of the one that listens."""
    telling = threading.Lock()

    def say(line: bytes) -> None:
        with telling, contextlib.suppress(OSError):
            report.sendall(line)

    def finish() -> None:
        telling.acquire()
        os._exit(0)

    def watch() -> None:
        poll = select.poll()
        poll.register(channel, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        poll.poll()
        finish()

    def interrupt(number: int, frame: Any) -> None:
        if session is not None and session.is_running:
            raise KeyboardInterrupt

    session: Session | None = None
    sys.warnoptions.append("ignore:resource_tracker")  # workers of a launch that was ended: their semaphores are nobody's news
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        session = Session(channel, arch, policy, **card)
        device = session.device
        device.label, device.begins = label, lambda launched: say(line_of_begun(launched))
        device.ended, device.refuses = lambda launched: say(line_of(launched)), lambda why: say(line_of_refused(why))
        threading.Thread(target=watch, daemon=True).start()
        session.run()
    except (InputError, SmemsimError) as e:
        print(f"smemsim: {e}", flush=True)
    except (OSError, KeyboardInterrupt):
        pass
    finally:
        with contextlib.suppress(OSError):
            channel.close()
        finish()
