"""Calls of functions that are not inlined, and `ret` out of them (PTX ISA 7.1, 9.7.12.5).

A call puts a frame (`routines.Frame`) on the thread's stack, keeps the registers of a function that may already be running, and notes where the
thread goes on. Threads may be at different depths, and in different functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.errors import HardwareTrap, InputError
from smemsim.gpu.linking.routines import Frame, interface
from smemsim.gpu.registers import dtype_of
from smemsim.gpu.registry import End, Step, implements, unmodelled
from smemsim.gpu.stack import Stack
from smemsim.gpu.traps import thread_name
from smemsim.ptx.module import Arguments, Instruction, Label, Operand, Parameter, Prototype, Symbol
from smemsim.spec.traps import INVALID_PC

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__: list[str] = []


def _bytes_of(c: Linker, operand: Operand, formal: Parameter, i: Instruction) -> Callable[[Wave], np.ndarray]:
    """What a call passes: (threads that run, bytes)."""
    if isinstance(operand, Symbol) and operand.name not in c.module.functions and c.place(operand.name).space == "local":
        if formal.size > c.place(operand.name).size:
            raise InputError(f"{operand.name} has {c.place(operand.name).size} bytes, the parameter {formal.size}")
        address, columns = c.address(operand), np.arange(formal.size)
        return lambda x: x.local[x.threads[:, None], _column(x, address) + columns]
    if formal.type == "pred" or formal.size not in (1, 2, 4, 8):
        raise unmodelled(i, f"an argument of .{formal.type} that is no .param variable")
    read, kind = c.read(operand, formal.type), dtype_of(formal.type)
    return lambda x: np.ascontiguousarray(np.broadcast_to(np.asarray(read(x), kind), x.n)).view(np.uint8).reshape(x.n, -1)


def _column(x: Wave, address: Callable[[Wave], Any]) -> np.ndarray:
    found: np.ndarray = np.broadcast_to(np.asarray(address(x)), x.n)[:, None]
    return found


def _pass(x: Wave, begin: np.ndarray, given: list[tuple[int, np.ndarray]]) -> None:
    for offset, raw in given:
        x.local[x.threads[:, None], begin[:, None] + offset + np.arange(raw.shape[1])] = raw


@implements("call.#enter")
def build_enter(i: Instruction, c: Linker) -> Step:
    """`call (results), f, (arguments)` of a function that is not inlined, or through a register that holds its address."""
    callee, arguments, label = i.operands
    if not isinstance(arguments, Arguments) or not isinstance(label, Label):
        raise unmodelled(i)
    signature = c.inlined.signatures[label.name]
    _, offsets, _ = interface(signature.results, signature.parameters)
    reads = [_bytes_of(c, operand, formal, i) for operand, formal in zip(arguments.items, signature.parameters, strict=True)]

    def go(x: Wave, frame: Frame, following: int, given: list[tuple[int, np.ndarray]]) -> None:
        begin = Stack.of(x).enter(x, i, x.threads, frame, following)
        _pass(x, begin, given)
        x.key[x.sel] = c.target(frame.label)()

    if isinstance(callee, Symbol):
        called = c.inlined.frames[callee.name]

        def direct(x: Wave, following: int) -> None:
            go(x, called, following, [(at, read(x)) for at, read in zip(offsets, reads, strict=True)])

        return End(direct)
    pointer = c.read(callee, "u64")

    def indirect(x: Wave, following: int) -> None:
        threads, values = x.threads, np.broadcast_to(pointer(x), x.n)
        given = [(at, read(x)) for at, read in zip(offsets, reads, strict=True)]
        for address in np.unique(values).tolist():
            part = np.flatnonzero(values == address)
            frame = c.pointed.get(address)
            if frame is None or not _fits(signature, frame):
                _no_function(x, i, int(threads[part[0]]), address, frame, signature)
                return
            x.select(threads[part])
            go(x, frame, following, [(at, raw[part]) for at, raw in given])

    return End(indirect)


def _fits(signature: Prototype, frame: Frame) -> bool:
    """Does a function take and give what the call says?"""
    f = frame.function
    sizes = [[(p.size, p.align) for p in part] for part in (signature.results, signature.parameters, f.results, f.parameters)]
    return sizes[:2] == sizes[2:]


def _no_function(x: Wave, i: Instruction, thread: int, address: int, frame: Frame | None, signature: Prototype) -> None:
    who = thread_name(x, thread)
    if frame is not None:
        f = frame.function
        sentence = (
            f"{i.text}: {who} calls {f.name}, which has {len(f.parameters)} parameters and {len(f.results)} results of other sizes than the "
            f"prototype's {len(signature.parameters)} and {len(signature.results)}; what it reads is undefined"
        )
        repair = "call it through a pointer of its own type"
    else:
        sentence = f"{i.text}: {who} calls through a pointer that holds {address:#x}, which is the address of no function of this PTX"
        repair = "store the address of a device function there, taken on the device: those the host has are others"
    x.launch.find("X015", i, sentence, repair)
    raise HardwareTrap(f"line {i.line}: {sentence}", cuda_error=INVALID_PC)


@implements("call.#results")
def build_results(i: Instruction, c: Linker) -> Step:
    """What a function has left in its frame, into the caller's `.param` variables or registers."""
    results, label = i.operands
    if not isinstance(results, Arguments) or not isinstance(label, Label):
        raise unmodelled(i)
    signature = c.inlined.signatures[label.name]
    offsets, _, _ = interface(signature.results, signature.parameters)
    puts = [_receiver(c, operand, formal, i) for operand, formal in zip(results.items, signature.results, strict=True)]
    sizes = [formal.size for formal in signature.results]

    def run(x: Wave) -> None:
        top = Stack.of(x).top[x.threads]
        for put, offset, size in zip(puts, offsets, sizes, strict=True):
            put(x, x.local[x.threads[:, None], top[:, None] + offset + np.arange(size)])

    return run


def _receiver(c: Linker, operand: Operand, formal: Parameter, i: Instruction) -> Callable[[Wave, np.ndarray], None]:
    if isinstance(operand, Symbol):
        if c.place(operand.name).space != "local" or c.place(operand.name).size < formal.size:
            raise InputError(f"{operand.name} cannot take a result of {formal.size} bytes")
        address, columns = c.address(operand), np.arange(formal.size)

        def put(x: Wave, raw: np.ndarray) -> None:
            x.local[x.threads[:, None], _column(x, address) + columns] = raw

        return put
    if formal.type == "pred" or formal.size not in (1, 2, 4, 8):
        raise unmodelled(i, f"a result of .{formal.type} that is no .param variable")
    write, kind = c.write(operand, formal.type), dtype_of(formal.type)
    return lambda x, raw: write(x, np.ascontiguousarray(raw).view(kind)[:, 0])


@implements("ret.#frame")
def build_ret(i: Instruction, c: Linker) -> Step:
    """`ret` of a function that is not inlined."""
    name = i.operands[0]
    if not isinstance(name, Symbol):
        raise unmodelled(i)
    frame = c.inlined.frames[name.name]

    def end(x: Wave, following: int) -> None:
        threads = x.threads
        x.key[threads] = Stack.of(x).leave(x, threads, frame)

    return End(end)
