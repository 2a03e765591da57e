"""The stacks of threads: frames of calls, kept registers, and `alloca`, `stacksave`, `stackrestore` (PTX ISA 7.3, 9.7.12).

Every thread has a stack in its local memory, behind the variables of the entry.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.errors import HardwareTrap, InputError
from smemsim.gpu.linking.routines import Frame
from smemsim.gpu.modifiers import Modifiers
from smemsim.gpu.registers import dtype_of
from smemsim.gpu.registry import Step, implements
from smemsim.gpu.traps import thread_name
from smemsim.ptx.module import Immediate, Instruction
from smemsim.spec.traps import STACK_ERROR

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__ = ["Stack"]

STACK_BYTES = 1 << 16  # of each thread: frames and kept registers. Hardware: 1 KiB, or what cudaLimitStackSize says
_RETURN = 8  # bytes that a call takes besides


@dataclasses.dataclass(eq=False)
class _Kept:
    """Registers of a function at every depth: arrays (depth, threads)."""

    slots: range
    depth: np.ndarray
    values: list[np.ndarray]

    def push(self, x: Wave, threads: np.ndarray) -> None:
        """Keep the registers of threads that enter the function."""
        depth = self.depth[threads]
        if len(self.values) == 0 or int(depth.max()) >= len(self.values[0]):
            rows = max(4, 2 * (int(depth.max()) + 1))
            old = self.values or [np.zeros((0, *x.r[slot].shape), x.r[slot].dtype) for slot in self.slots]
            self.values = [np.concatenate([v, np.zeros((rows - len(v), *v.shape[1:]), v.dtype)]) for v in old]
        for slot, kept in zip(self.slots, self.values, strict=True):
            kept[depth, threads] = x.r[slot][threads]
        self.depth[threads] += 1

    def pop(self, x: Wave, threads: np.ndarray) -> None:
        """Give the registers back to threads that leave it."""
        self.depth[threads] -= 1
        depth = self.depth[threads]
        for slot, kept in zip(self.slots, self.values, strict=True):
            x.r[slot][threads] = kept[depth, threads]


class Stack:
    """The stacks of the threads of a wave: `top` is the first free byte of each one's local memory, `depth` its open calls."""

    def __init__(self, x: Wave) -> None:
        self.align = x.program.places.frame_align
        self.bottom = x.program.places.local_bytes
        self.top = np.full(x.total, self.bottom, np.int64)
        self.depth = np.zeros(x.total, np.int64)
        self.registers = np.zeros(x.total, np.int64)  # bytes of kept registers
        self.back = np.zeros((8, x.total), np.int32)  # (depth, threads): the block to go on with
        self.kept: dict[str, _Kept] = {}

    @staticmethod
    def of(x: Wave) -> Stack:
        """The stacks of a wave."""
        found: Stack | None = x.state.get(Stack)
        if found is None:
            found = x.state[Stack] = Stack(x)
        return found

    def grow(self, x: Wave, i: Instruction, threads: np.ndarray, size: Any) -> np.ndarray:
        """Take bytes from the stacks of threads; where they begin. Ends the kernel when there is no room: X001."""
        begin: np.ndarray = self.top[threads]
        end = begin + (-(-np.asarray(size, np.int64) // self.align) * self.align)
        full = end - self.bottom + self.registers[threads] + _RETURN * self.depth[threads]
        if (full > STACK_BYTES).any() or (end < begin).any():
            self._overflow(x, i, int(threads[int(full.argmax())]))
        self.top[threads] = end
        need = int(end.max())
        if need > x.local.shape[1]:
            room = -(-max(need, 2 * x.local.shape[1]) // 16) * 16
            x.local = np.concatenate([x.local, np.zeros((x.total, room - x.local.shape[1]), np.uint8)], axis=1)
        return begin

    def _overflow(self, x: Wave, i: Instruction, thread: int) -> None:
        sentence = (
            f"{i.text}: the stack of {thread_name(x, thread)} is full: {int(self.depth[thread])} calls within one another, "
            f"{int(self.top[thread]) - self.bottom + int(self.registers[thread])} bytes of variables and kept registers; smemsim gives a thread "
            f"{STACK_BYTES}, a GPU 1024 if nobody asks for more"
        )
        x.launch.find("X001", i, sentence, "end the recursion earlier, or walk with a loop and a stack of your own")
        raise HardwareTrap(f"line {i.line}: {sentence}", cuda_error=STACK_ERROR)

    def enter(self, x: Wave, i: Instruction, threads: np.ndarray, frame: Frame, back: int) -> np.ndarray:
        """Threads begin a call; where their frames begin."""
        name = frame.function.name
        begin = self.grow(x, i, threads, x.program.places.frame_bytes[name])
        if frame.recursive:
            kept = self.kept.setdefault(name, _Kept(range(frame.first, frame.first + frame.count), np.zeros(x.total, np.int64), []))
            kept.push(x, threads)
            self.registers[threads] += _register_bytes(x, frame)
        depth = self.depth[threads]
        if int(depth.max()) >= len(self.back):
            self.back = np.concatenate([self.back, np.zeros_like(self.back)])
        self.back[depth, threads] = back
        self.depth[threads] += 1
        x.r[frame.slot][threads] = begin.view(np.uint64)
        return begin

    def leave(self, x: Wave, threads: np.ndarray, frame: Frame) -> np.ndarray:
        """Threads end a call; the blocks they go on with. Their frames, now free, still hold the results."""
        self.top[threads] = x.r[frame.slot][threads].view(np.int64)
        if frame.recursive:
            self.kept[frame.function.name].pop(x, threads)
            self.registers[threads] -= _register_bytes(x, frame)
        self.depth[threads] -= 1
        back: np.ndarray = self.back[self.depth[threads], threads]
        return back


def _register_bytes(x: Wave, frame: Frame) -> int:
    return sum(x.r[slot].nbytes for slot in range(frame.first, frame.first + frame.count)) // x.total


# ---- room on the stack


def _width(i: Instruction) -> str:
    """.u64 or .u32, the only modifier of these."""
    words = Modifiers(i)
    kind = words.need("u64", "u32")
    words.end()
    return kind


@implements("alloca")
def build_alloca(i: Instruction, c: Linker) -> Step:
    """`alloca.u64 p, size {, alignment}`: room on the stack until the function returns; a `.local` address."""
    kind = _width(i)
    write, size = c.write(i.operands[0], kind), c.read(i.operands[1], kind)
    align = i.operands[2] if len(i.operands) == 3 else Immediate(8)
    if not isinstance(align, Immediate) or align.value < 1 or align.value & (align.value - 1):
        raise InputError("the alignment needs to be a power of two")
    least = align.value

    def run(x: Wave) -> None:
        stack, threads = Stack.of(x), x.threads
        begin = -(-stack.top[threads] // least) * least
        stack.grow(x, i, threads, np.broadcast_to(size(x), x.n).astype(np.int64) + begin - stack.top[threads])
        write(x, begin.view(np.uint64).astype(dtype_of(kind)))

    return run


@implements("stacksave")
def build_stacksave(i: Instruction, c: Linker) -> Step:
    """`stacksave.u64 d`: where the stack ends now."""
    kind = _width(i)
    write = c.write(i.operands[0], kind)
    return lambda x: write(x, Stack.of(x).top[x.threads].view(np.uint64).astype(dtype_of(kind)))


@implements("stackrestore")
def build_stackrestore(i: Instruction, c: Linker) -> Step:
    """`stackrestore.u64 a`: the stack ends again where `stacksave` found it."""
    read = c.read(i.operands[0], _width(i))

    def run(x: Wave) -> None:
        stack, threads = Stack.of(x), x.threads
        to = np.broadcast_to(read(x), x.n).astype(np.int64)
        wrong = (to < stack.bottom) | (to > stack.top[threads])
        if wrong.any():
            n = int(np.flatnonzero(wrong)[0])
            sentence = f"{i.text}: {int(to[n]):#x} of {thread_name(x, int(threads[n]))} is no place of its stack that stacksave gave"
            x.launch.find("X015", i, sentence)
            raise HardwareTrap(f"line {i.line}: {sentence}", cuda_error=STACK_ERROR)
        stack.top[threads] = to

    return run
