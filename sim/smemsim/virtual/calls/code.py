"""Calls: modules, functions and their attributes, the linker."""

from __future__ import annotations

import struct

from smemsim.base.errors import InputError
from smemsim.virtual import fatbin
from smemsim.virtual.calls.handles import SIGNED, Handles
from smemsim.virtual.code import Function, Module
from smemsim.virtual.errors import INVALID_IMAGE, NO_BINARY, CudaError
from smemsim.virtual.linker import linked

__all__ = ["CodeCalls"]


ARCHIVE = b"!<arch>\n"


class CodeCalls(Handles):
    """The code of a program."""

    def load(self, code: bytes, managed: str, is_wrapped: int) -> int:
        if is_wrapped:
            parts, at = [], 0
            while at < len(code):
                size = struct.unpack_from("<Q", code, at)[0]
                parts.append(code[at + 8 : at + 8 + size])
                at += 8 + size
            return self._keep(self._load_first(parts, managed.split()))
        return self._keep(self.device.load(code, managed=managed.split()))

    def load_log(self) -> bytes:
        """The errors of the code that was loaded last."""
        return self.device.code.log.encode() + b"\0"

    def _load_first(self, parts: list[bytes], managed: list[str]) -> Module:
        """The codes of a wrapper: the program's own code, and those that were linked into it."""
        try:
            found = [fatbin.images(part) for part in parts]
            text = fatbin.of_parts(found, self.device.arch)
        except fatbin.NoCode as e:
            self.device.code.refuse(f"no code for {self.device.arch}: {e}")
            raise CudaError(NO_BINARY, str(e)) from None
        except InputError as e:
            self.device.code.refuse(str(e))
            raise CudaError(INVALID_IMAGE, str(e)) from None
        if len(found) == 1:
            self.device.code.note_passed_over(found[0])
        return self.device.load(text, managed=managed)

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
        if data.startswith(ARCHIVE):
            return  # machine code: most programs need nothing of libcudadevrt.a, and calls of it are not found
        try:
            self._of(state, list).append(fatbin.chosen(fatbin.images(data), self.device.arch)[0].ptx)
        except fatbin.NoCode as e:
            self.device.code.refuse(f"{name or 'linker input'}: {e}")
            raise CudaError(NO_BINARY, str(e)) from None
        except InputError as e:
            self.device.code.refuse(f"{name or 'linker input'}: {e}")
            raise CudaError(INVALID_IMAGE, str(e)) from None

    def link_complete(self, state: int) -> int:
        found = self._of(state, list)
        found[:] = [linked(found)]
        module = self.device.load(found[0])  # a linker compiles: what is wrong is found here
        self.device.unload(module)
        return len(found[0].encode()) + 1

    def link_text(self, state: int) -> bytes:
        return str(self._of(state, list)[0]).encode() + b"\0"
