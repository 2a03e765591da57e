"""`trap`, `brkpt`, and calls of what the system provides: printf (`vprintf`) and assert (`__assertfail`)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.errors import HardwareTrap, OutsideError
from smemsim.gpu.registry import Plain, Step, implements, unmodelled
from smemsim.gpu.traps import thread_name
from smemsim.ptx.module import Arguments, Instruction, Operand, Symbol
from smemsim.spec.launches import LOCAL_WINDOW, SHARED_WINDOW
from smemsim.spec.traps import ASSERTION, ILLEGAL_ADDRESS, LAUNCH_FAILURE

if TYPE_CHECKING:
    from smemsim.gpu.launch import Launch
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__: list[str] = []

LONGEST = 1 << 16  # bytes of a string, and characters of what one printf writes
MOST_OUTPUT = 1 << 26  # characters that all printf of a launch write
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")


@implements("trap")
def build_trap(i: Instruction, c: Linker) -> Step:
    """`trap`: the kernel ends with an error."""

    def run(x: Wave) -> None:
        raise HardwareTrap(f"line {i.line}: trap, executed by {thread_name(x, int(x.threads[0]))}", cuda_error=LAUNCH_FAILURE)

    return run


@implements("brkpt")
def build_brkpt(i: Instruction, c: Linker) -> Step:
    """`brkpt`: nothing happens without a debugger."""
    return lambda x: None


@implements("call")
def build_call(i: Instruction, c: Linker) -> Step:
    """Calls that are left when those of the file's own functions are inlined."""
    lists = [operand.items for operand in i.operands if isinstance(operand, Arguments)]
    names = [operand.name for operand in i.operands if isinstance(operand, Symbol)]
    name = names[0] if names else "a pointer"
    if name == "vprintf" and len(lists) == 2:
        return _printf(i, c, lists[0][0], lists[1])
    if name == "__assertfail" and lists:
        return _assert(i, c, lists[-1])
    raise unmodelled(i, f"{name} is no function of this PTX, and smemsim has only vprintf and __assertfail")


def _parameter(i: Instruction, c: Linker, operand: Operand) -> Callable[[Wave, int], int]:
    """Where an argument lies in a thread's local memory."""
    if not isinstance(operand, Symbol) or c.place(operand.name).space != "local":
        raise unmodelled(i, "arguments need .param variables")
    place = c.place(operand.name)
    slot, offset = place.frame, place.offset + operand.offset
    return lambda x, thread: offset + (0 if slot is None else int(x.r[slot][thread]))


def _value(x: Wave, thread: int, offset: int, size: int) -> int:
    return int.from_bytes(x.local[thread, offset : offset + size].tobytes(), "little")


def memory(x: Wave, thread: int, address: int) -> np.ndarray:
    """Everything from a generic address on, to the end of the window or the array."""
    if address >> 32 == LOCAL_WINDOW >> 32:
        return x.local[thread, address & 0xFFFFFFFF :]
    if address >> 32 == SHARED_WINDOW >> 32:
        flat = int(x.flat(address & 0xFFFFFFFF, np.array([thread]))[0])
        return x.shared[max(flat, 0) :] if flat >= 0 else np.zeros(0, np.uint8)
    try:
        begin, data = x.launch.memory.region(address)
    except OutsideError as e:
        raise HardwareTrap(str(e), cuda_error=ILLEGAL_ADDRESS) from None
    return data[address - begin :]


def text(x: Wave, thread: int, address: int) -> str:
    """The string at a generic address."""
    raw = memory(x, thread, address)[:LONGEST].tobytes()
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _assert(i: Instruction, c: Linker, arguments: tuple[Operand, ...]) -> Plain:
    """message, file, line, function, size of a character."""
    places = [_parameter(i, c, operand) for operand in arguments]

    def run(x: Wave) -> None:
        thread = int(x.threads[0])
        message, file, function = (text(x, thread, _value(x, thread, places[n](x, thread), 8)) for n in (0, 1, 3))
        line = _value(x, thread, places[2](x, thread), 4)
        more = f" (and {x.n - 1} more threads)" if x.n > 1 else ""
        sentence = f"assertion {message} fails in {function}, {file}:{line}, in {thread_name(x, thread)}{more}"
        x.launch.find("X013", i, sentence)
        raise HardwareTrap(f"line {i.line}: {sentence}", cuda_error=ASSERTION)

    return run


def _printf(i: Instruction, c: Linker, result: Operand, arguments: tuple[Operand, ...]) -> Plain:
    """Every thread's output is an entry of `Launch.output`, in the order of the threads. Gives the number of arguments."""
    template, values = (_parameter(i, c, operand) for operand in arguments)
    to = _parameter(i, c, result)

    def run(x: Wave) -> None:
        for thread in x.threads.tolist():
            address = _value(x, thread, values(x, thread), 8)
            raw = memory(x, thread, address) if address else np.zeros(0, np.uint8)
            found, count = formatted(
                text(x, thread, _value(x, thread, template(x, thread), 8)), raw[:LONGEST].tobytes(), lambda p, t=thread: text(x, t, p)
            )
            _write(x.launch, found)
            at = to(x, thread)
            x.local[thread, at : at + 4] = np.frombuffer(struct.pack("<i", count), np.uint8)

    return run


def _write(launch: Launch, found: str) -> None:
    """One printf's text; what is beyond the most that is kept is not, and the last of it says so."""
    if launch.output_size <= MOST_OUTPUT:
        launch.output_size += len(found)
        launch.output.append(
            found if launch.output_size <= MOST_OUTPUT else f"\n(printf wrote more than {MOST_OUTPUT >> 20} MiB: the rest is left out)\n"
        )


def _shorter(number: str) -> str:
    """A width or a precision that makes no more characters than one printf may write."""
    return number if len(number) < 6 and int(number) < LONGEST else str(LONGEST)


def formatted(template: str, raw: bytes, string_at: Any) -> tuple[str, int]:
    """What printf makes of a template and its packed arguments, and how many of them it took.

    >>> formatted("%d %5.2f %%", struct.pack("<ixxxxd", -3, 1.5), None)
    ('-3  1.50 %', 2)
    """
    at, count, written = 0, 0, 0

    def take(size: int) -> bytes:
        nonlocal at, count
        at = -(-at // size) * size
        found = raw[at : at + size].ljust(size, b"\0")
        at, count = at + size, count + 1
        return found

    def number(size: int, *, signed: bool) -> int:
        return int.from_bytes(take(size), "little", signed=signed)

    def limited(m: re.Match[str]) -> str:
        nonlocal written
        found = convert(m) if written < LONGEST else ""
        written += len(found)
        return found

    def convert(m: re.Match[str]) -> str:
        flags, width, precision, length, kind = m.groups()
        if kind == "%":
            return "%"
        if width == "*":
            width = str(number(4, signed=True))
        if precision == "*":
            precision = str(number(4, signed=True))
        if width and width[0] == "-":  # of an argument: a flag and a width
            flags, width = f"{flags}-", width[1:]
        if precision and precision[0] == "-":  # as if there were none
            precision = None
        how = f"%{flags}{_shorter(width) if width else ''}" + (f".{_shorter(precision)}" if precision is not None else "")
        size = 8 if length in ("l", "ll", "j", "z", "t") else 4
        if kind in "eEfFgG":
            return str((how + kind) % struct.unpack("<d", take(8)))
        if kind in "aA":
            return str((how + "s") % float(struct.unpack("<d", take(8))[0]).hex())
        if kind == "s":
            return str((how + "s") % string_at(number(8, signed=False)))
        if kind == "p":
            return (how + "s") % hex(number(8, signed=False))
        if kind == "c":
            return (how + "c") % (number(4, signed=False) & 0xFF)
        value = number(size, signed=kind in "di")
        if length in ("h", "hh"):
            bits = 16 if length == "h" else 8
            value &= (1 << bits) - 1
            value -= (1 << bits) if kind in "di" and value >> (bits - 1) else 0
        return (how + ("d" if kind in "diu" else kind)) % value

    return _CONVERSION.sub(limited, template), count
