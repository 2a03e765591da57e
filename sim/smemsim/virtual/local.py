"""The device of this process for shims of CUDA's own interfaces: handles are numbers, errors are codes.

`calls.table.Calls` serves `libcuda.so.1` and `libcudart.so`. Here it is used without a socket, so a call means the
same in both ways.
"""

from __future__ import annotations

import ctypes
import signal
import struct
import sys
from typing import Any

from smemsim.base.errors import SmemsimError
from smemsim.virtual import process
from smemsim.virtual.calls.handles import DEFAULT_STREAMS, Kept
from smemsim.virtual.calls.memory import KINDS
from smemsim.virtual.calls.table import Calls
from smemsim.virtual.calls.wire import parsed, replied
from smemsim.virtual.code import Function
from smemsim.virtual.errors import LAUNCH_FAILED, CudaError
from smemsim.virtual.host import Host
from smemsim.virtual.policy import FindingsError
from smemsim.virtual.streams import Stream
from smemsim.virtual.turns import once

__all__ = ["LaunchAttributes", "LocalSession", "attributes_of", "session"]


# cudaLaunchAttributeID; the others change when and where CTAs run, which is no matter here
CLUSTER, COOPERATIVE, DEPENDENT = 4, 2, 6
ATTRIBUTE_BYTES, VALUE_AT = 72, 8
FIRST_HANDLE = 1 << 32  # above the numbers of torch's streams


class _LocalHost(Host):
    """This process, whose streams may have callbacks."""

    waiting: tuple[bytes, ...] = ()

    def call_back(self, function: int, stream: int, data: int) -> None:
        """Call a stream's callback: `void (*)(stream, error, void *)`."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(function)(stream, 0, data)


class LocalSession(Calls):
    """The calls of this process. `reason` is what the last one that failed said."""

    def __init__(self) -> None:
        super().__init__(FIRST_HANDLE)
        self.device = process.device()
        self.host = _LocalHost()
        self.device.host = self.host
        self.reason = ""

    def call(self, name: str, *arguments: Any) -> Any:
        """A call by its name in `Calls`; CudaError where it fails, whatever the cause."""
        try:
            with self.device.turn:
                return getattr(self, name)(*arguments)
        except CudaError as e:
            self.reason = str(e)
            raise
        except FindingsError as e:
            self.reason = str(e)
            raise CudaError(LAUNCH_FAILED, "the launch has findings, and the policy is to raise") from None
        except SmemsimError as e:
            self.device.tell(str(e))
            self.reason = str(e)
            raise CudaError(1, str(e)) from None
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)  # the program hears of it when compiled code has returned
            raise CudaError(LAUNCH_FAILED, "interrupted") from None

    def reply(self, message: bytes) -> bytes:
        """The answer to a message of `clib/door.c`, whose memory this is."""
        torch = sys.modules.get("smemsim.virtual.torch")
        if torch is not None:
            torch.tensors.show()
        error, results = self.answer(*parsed(message))
        return replied(True, error, [], results)

    def _of(self, handle: int, kind: type[Kept]) -> Kept:
        torch = sys.modules.get("smemsim.virtual.torch")
        found = torch.streams.by_number.get(handle) if torch is not None and kind is Stream and handle not in DEFAULT_STREAMS else None
        return super()._of(handle, kind) if found is None else found

    def launch(self, function: int, *given: Any) -> None:
        """Launch a kernel. The memory of torch's tensors is the device's."""
        torch = sys.modules.get("smemsim.virtual.torch")
        if torch is not None:
            torch.tensors.show()
        super().launch(function, *given)

    def pointer(self, address: int) -> tuple[int, int, int, int]:
        """The pointer of an argument. Memory that torch calls the card's is the card's."""
        kind, begin, size, number = super().pointer(address)
        torch = sys.modules.get("smemsim.virtual.torch")
        if torch is not None and (held := torch.tensors.live.get(begin)) is not None and held.place == torch.CUDA:
            kind = KINDS["device"]
        return kind, begin, size, number

    def function_of(self, handle: int) -> Function:
        """A kernel by its handle."""
        return self._of(handle, Function)

    def bank(self, function: int, arguments: int) -> bytes:
        """The parameter bank of a launch, from the address of an array with the address of each argument."""
        parameters = self.function_of(function).parameters
        out = bytearray(max((p.offset + p.size for p in parameters), default=0))
        if parameters:
            for p, (address,) in zip(parameters, struct.iter_unpack("<Q", ctypes.string_at(arguments, 8 * len(parameters))), strict=True):
                out[p.offset : p.offset + p.size] = ctypes.string_at(address, p.size)
        return bytes(out)


class LaunchAttributes:
    """The attributes of a launch that have an effect on the device."""

    def __init__(self) -> None:
        self.cluster: tuple[int, ...] = (0, 0, 0)
        self.is_cooperative = self.is_dependent = False


def attributes_of(address: int, count: int) -> LaunchAttributes:
    """The attributes of an array of cudaLaunchAttribute."""
    found = LaunchAttributes()
    for n in range(count):
        raw = ctypes.string_at(address + n * ATTRIBUTE_BYTES, VALUE_AT + 12)
        kind, x, y, z = struct.unpack("<I4xIII", raw)
        if kind == CLUSTER:
            found.cluster = (x, y, z)
        elif kind == COOPERATIVE:
            found.is_cooperative = bool(x)
        elif kind == DEPENDENT:
            found.is_dependent = bool(x)
    return found


@once
def session() -> LocalSession:
    """The session of this process."""
    return LocalSession()
