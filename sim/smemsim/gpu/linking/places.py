"""Where a program's variables and parameters lie."""

from __future__ import annotations

import dataclasses
import itertools

from smemsim.errors import InputError, Unmodelled
from smemsim.gpu.linking.inline import Inlined
from smemsim.gpu.linking.routines import FRAME_ALIGN
from smemsim.ptx.module import Function, Module, Variable
from smemsim.spec.architectures import architecture

__all__ = ["Place", "Places"]


@dataclasses.dataclass(frozen=True)
class Place:
    """A variable's space and its first byte there: of shared memory the `.shared` address without a CTA's rank, of parameters and local
    memory the offset in the parameter bank and in the thread's memory; the addresses of global and const variables are the launch's.

    `frame` is the register that holds where the variables of the running call begin, for those of functions that are not inlined.
    """

    name: str
    space: str  # "shared", "global" (const too), "param", "local"
    offset: int
    size: int
    frame: int | None = None


class Places:
    """Static shared variables one after the other from the window's begin, then the dynamic part; local variables likewise."""

    def __init__(self, module: Module, entry: Function, inlined: Inlined, arch: str) -> None:
        machine = architecture(arch)
        self._of: dict[str, Place] = {}
        self.parameters = entry.parameters
        self.parameter_bytes = self._lay_out("param", [(p.name, p.align, p.size) for p in entry.parameters], 0)
        used = {**{v.name: v for v in module.variables.values()}, **{v.name: v for v in inlined.variables}}
        shared = [v for v in used.values() if v.space == "shared"]
        static = [(v.name, v.align, v.size) for v in shared if v.size]
        self.static_end = self._lay_out("shared", static, machine.shared_begin)
        dynamic = [v for v in shared if not v.size]
        align = max((v.align for v in dynamic), default=16)
        self.dynamic_begin = -(-self.static_end // align) * align if dynamic else self.static_end
        for v in dynamic:
            self._of[v.name] = Place(v.name, "shared", self.dynamic_begin, 0)
        local = [(v.name, v.align, v.size) for v in used.values() if v.space in ("local", "param")]
        stacked = [v for frame in inlined.frames.values() for v in frame.variables]
        self.frame_align = max((FRAME_ALIGN, *(v.align for v in stacked)))
        self.local_bytes = -(-self._lay_out("local", local, 0) // self.frame_align) * self.frame_align
        self.frame_bytes: dict[str, int] = {}
        for name, frame in inlined.frames.items():
            end = self._lay_out("local", [(v.name, v.align, v.size) for v in frame.variables], 0, frame.slot)
            self.frame_bytes[name] = -(-end // self.frame_align) * self.frame_align
        in_memory = [v for v in used.values() if v.space in ("global", "const")]
        self.globals: list[Variable] = [v for v in in_memory if not v.is_extern]
        self._elsewhere = {v.name: v.line for v in in_memory if v.is_extern}
        for v in self.globals:
            self._of[v.name] = Place(v.name, "global", 0, v.size)

    def _lay_out(self, space: str, variables: list[tuple[str, int, int]], begin: int, frame: int | None = None) -> int:
        for name, align, size in variables:
            begin = -(-begin // max(align, 1)) * max(align, 1)
            self._of[name] = Place(name, space, begin, size, frame)
            begin += size
        return begin

    def of(self, name: str) -> Place:
        """Where a name lies; Unmodelled for variables of other files."""
        if name in self._elsewhere:
            raise Unmodelled(
                f"line {self._elsewhere[name]}: {name} is declared .extern and not in this PTX: variables of other files are not modelled"
            )
        if name not in self._of:
            known = ", ".join(itertools.islice(self._of, 8))
            raise InputError(f"{name}: no variable of this program ({known})")
        return self._of[name]
