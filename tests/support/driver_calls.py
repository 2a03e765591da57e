"""The calls of one program in the process of the test, and a kernel for them."""

import ctypes
import struct

from smemsim.virtual import Calls, Host, Policy, VirtualDevice

__all__ = ["OTHER", "PTX", "TWO_64", "Program", "handles", "packed", "resource"]

PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counter = 3;
.visible .entry fill(.param .u64 to, .param .u32 value) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; ld.param.u32 %r2, [value]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2; ret; }
.visible .entry late(.param .u32 first, .param .u64 last) { ret; }
.visible .entry nothing() { ret; }
"""
OTHER = PTX.partition(".visible .global")[0] + ".visible .entry other() { ret; }\n"
TWO_64 = 1 << 64


class Calling(Host):
    """The process of the test, which makes a stream's callbacks too; it counts how often it was asked to finish what it
    was told to do.
    """

    finished = 0

    def materialize(self):
        self.finished += 1

    def call_back(self, function, stream, data):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(function)(stream, 0, data)


class Program(Calls):
    """The calls of one program."""

    def __init__(self, arch="sm_90a", *, multiprocessors=None, **policy):
        super().__init__()
        self.host, self.told = Calling(), []
        self.device = VirtualDevice(arch, policy=Policy(**{"quiet": True, **policy}), host=self.host, multiprocessors=multiprocessors)
        self.device.tell = self.told.append

    def code(self, name, *arguments):
        """The error code of a call."""
        return self.answer(name, list(arguments))[0]

    def made(self, name, *arguments):
        """The results of a call that works; one alone for itself."""
        code, results = self.answer(name, list(arguments))
        assert code == 0, (name, code)
        return results[0] if len(results) == 1 else results


def handles(raw):
    return [handle for (handle,) in struct.iter_unpack("<Q", raw)]


def packed(*given):
    return b"".join(struct.pack("<Q", handle) for handle in given)


def resource(kind, handle, *about):
    return struct.pack("<i4xQiI3Q", kind, handle, *about).ljust(144, b"\0")
