"""System calls (those of the heap are in heap.py), assertions, and cancelling clusters that have not started.

How the requests are answered is the launch's choice (`CANCEL` in run/engine/launch.py): which clusters have begun is
a race that a right kernel does not depend on. The response is opaque in PTX; here its four words are the first ctaid
of the cluster, and 1 where there is one.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.errors import HardwareTrap, OutsideError
from smemsim.core.finding import Half
from smemsim.core.ptx.module import Arguments, Instruction, Operand, Symbol, Vector
from smemsim.core.spec.launches import LOCAL_WINDOW, SHARED_WINDOW
from smemsim.core.spec.traps import ASSERTION, ILLEGAL_ADDRESS, LAUNCH_FAILURE, MISALIGNED_ADDRESS
from smemsim.run.async_ops import AsyncOp, SharedWrite
from smemsim.run.engine.traps import misuse, thread_name
from smemsim.run.engine.wave import THREADS
from smemsim.run.isa.asynchronous import check_ranks, each_issuer, issue, member, own_address, stop
from smemsim.run.isa.memory.spaces import shared_operand
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Plain, Step, implements, unmodelled
from smemsim.run.isa.threads.printing import LONGEST, formatted
from smemsim.run.slots import Slot
from smemsim.run.word_ranges import WORD, WordRanges

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.lower.program import Linker


# ---- `trap`, `brkpt`, and calls of what the system provides: printf (`vprintf`), assert
# (`__assertfail`), conditions of graphs


MOST_ASSERTED = 1024  # threads whose failed assertion is reported


@implements("trap")
def build_trap(i: Instruction, c: Linker) -> Step:
    """`trap`: the kernel ends with an error."""
    Modifiers(i).end()

    def run(x: Wave) -> None:
        raise HardwareTrap(f"{thread_name(x, int(x.threads[0]))} executed trap: the kernel stopped itself here", cuda_error=LAUNCH_FAILURE)

    return run


@implements("brkpt")
def build_brkpt(i: Instruction, c: Linker) -> Step:
    """`brkpt`: without a debugger the kernel ends with a launch failure (M17; the PTX ISA says that it
    is suspended).
    """
    Modifiers(i).end()

    def run(x: Wave) -> None:
        raise HardwareTrap(f"{thread_name(x, int(x.threads[0]))} executed brkpt, and no debugger is attached", cuda_error=LAUNCH_FAILURE)

    return run


@implements("call")
def build_call(i: Instruction, c: Linker) -> Step:
    """Calls that are left when those of the file's own functions are inlined."""
    lists = [operand.items for operand in i.operands if isinstance(operand, Arguments)]
    names = [operand.name for operand in i.operands if isinstance(operand, Symbol)]
    name = names[0] if names else "a pointer"
    if name not in PROVIDED or (not lists and PROVIDED[name].arguments):
        known = " and ".join(filter(None, (", ".join(sorted(PROVIDED)[:-1]), sorted(PROVIDED)[-1])))
        raise unmodelled(i, f"{name} is no function of this PTX, and smemsim has only {known}")
    given, results = (lists[-1] if lists else ()), (lists[0] if len(lists) == 2 else ())
    wanted = PROVIDED[name]
    if len(given) != wanted.arguments or len(results) < wanted.results:
        raise unmodelled(i, f"{name} with {len(given)} arguments and {len(results)} results")
    return wanted.build(i, c, results, given)


@dataclasses.dataclass(frozen=True)
class Provided:
    """A function that the system provides: how many arguments and results it has, and what makes a call
    of it a step.
    """

    arguments: int
    results: int
    build: Callable[[Instruction, Linker, tuple[Operand, ...], tuple[Operand, ...]], Plain]


PROVIDED: dict[str, Provided] = {}


def provides(name: str, arguments: int, results: int = 0) -> Callable[[Any], Any]:
    """Register what makes calls of a function of the system: of the instruction, the linker, the operands of results
    and of arguments.
    """

    def register(build: Any) -> Any:
        PROVIDED[name] = Provided(arguments, results, build)
        return build

    return register


def parameter(i: Instruction, c: Linker, operand: Operand) -> Callable[[Wave, int], int]:
    """The place of an argument in a thread's local memory."""
    if not isinstance(operand, Symbol) or c.place(operand.name).space != "local":
        raise unmodelled(i, "arguments need .param variables")
    place = c.place(operand.name)
    slot, offset = place.frame, place.offset + operand.offset
    return lambda x, thread: offset + (0 if slot is None else int(x.r[slot][thread]))


def value_at(x: Wave, thread: int, offset: int, size: int) -> int:
    """A number of `size` bytes in a thread's local memory."""
    return int.from_bytes(x.memories.local[thread, offset : offset + size].tobytes(), "little")


def memory(x: Wave, thread: int, address: int) -> np.ndarray:
    """Everything from a generic address on, to the end of the window or the array."""
    if address >> 32 == LOCAL_WINDOW >> 32:
        return x.memories.local[thread, address & 0xFFFFFFFF :]
    if address >> 32 == SHARED_WINDOW >> 32:
        flat = int(x.flat(address & 0xFFFFFFFF, np.array([thread]))[0])
        return x.shared[max(flat, 0) :] if flat >= 0 else np.zeros(0, np.uint8)
    try:
        begin, data = x.launch.memory.region(address)
    except OutsideError as e:
        raise HardwareTrap(str(e), cuda_error=ILLEGAL_ADDRESS) from None
    return data[address - begin :]


def string(x: Wave, thread: int, address: int) -> bytes:
    """The string at a generic address."""
    return memory(x, thread, address)[:LONGEST].tobytes().split(b"\0", 1)[0]


def text(x: Wave, thread: int, address: int) -> str:
    """The same, as text."""
    return string(x, thread, address).decode("utf-8", "replace")


@provides("__assertfail", 5)
def _assert(i: Instruction, c: Linker, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Plain:
    """`__assertfail(message, file, line, function, size of a character)`: a finding, and the kernel ends."""
    places = [parameter(i, c, operand) for operand in arguments]

    def run(x: Wave) -> None:
        thread = int(x.threads[0])
        message, file, function = (text(x, thread, value_at(x, thread, places[n](x, thread), 8)) for n in (0, 1, 3))
        line = value_at(x, thread, places[2](x, thread), 4)
        more = f" (and {x.n - 1} more thread{'s' * (x.n > 2)})" if x.n > 1 else ""
        sentence = f"assertion {message} fails in {function}, {file}:{line}, in {thread_name(x, thread)}{more}"
        x.launch.find(
            "X013", i, f"assertion {message} fails in {function}, {file}:{line}", "correct the values that it checks, or the assertion",
            why=f"the kernel ends with CUDA error {ASSERTION}",
            halves=(Half("assert", f"{thread_name(x, thread)}{more}", i),),
        )  # fmt: skip
        x.launch.result.asserted += [_asserted(x, each, file, line, function, message) for each in x.threads[:MOST_ASSERTED].tolist()]
        raise HardwareTrap(f"{sentence}", cuda_error=ASSERTION)

    return run


@provides("cudaGraphSetConditional", 2)
def _set_condition(i: Instruction, c: Linker, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Plain:
    """`cudaGraphSetConditional(handle, value)`: what a conditional node of the graph looks at when its turn comes
    (CUDA C++ programming guide, CUDA graphs).
    """
    handles, values = (parameter(i, c, operand) for operand in arguments)

    def run(x: Wave) -> None:
        told: dict[int, set[int]] = {}
        for thread in x.threads.tolist():
            handle, value = value_at(x, thread, handles(x, thread), 8), value_at(x, thread, values(x, thread), 4)
            told.setdefault(handle, set()).add(value)
            x.launch.result.conditions[handle] = value
        if any(len(set_to) > 1 for set_to in told.values()):
            x.launch.result.evidence.add(
                "threads set a conditional handle of a graph to different values: which one stays is not determined"
            )

    return run


def _asserted(x: Wave, thread: int, file: str, line: int, function: str, message: str) -> str:
    """The text that the CUDA runtime writes to stderr for a thread whose assertion fails (CUDA C++ programming guide,
    assertion).
    """
    bx, by, _ = x.launch.block
    tid, cta = int(x.tid[thread]), x.ctas[int(x.cta_of[thread])]
    block, place = (",".join(map(str, at)) for at in (cta.ctaid, (tid % bx, tid // bx % by, tid // (bx * by))))
    return f"{file}:{line}: {function}: block: [{block}], thread: [{place}] Assertion `{message}` failed.\n"


@provides("vprintf", 2, 1)
def _printf(i: Instruction, c: Linker, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Plain:
    """Every thread's output is an entry of `LaunchResult.output`, in the order of the threads. Gives the number of
    arguments.
    """
    template, values = (parameter(i, c, operand) for operand in arguments)
    to = parameter(i, c, results[0])

    def run(x: Wave) -> None:
        for thread in x.threads.tolist():
            address = value_at(x, thread, values(x, thread), 8)
            raw = memory(x, thread, address) if address else np.zeros(0, np.uint8)
            printed, count = formatted(
                string(x, thread, value_at(x, thread, template(x, thread), 8)),
                raw[:LONGEST].tobytes(),
                functools.partial(string, x, thread),
            )
            x.launch.result.output.write(printed.decode("utf-8", "surrogateescape"))
            at = to(x, thread)
            x.memories.local[thread, at : at + 4] = np.frombuffer(struct.pack("<i", count), np.uint8)

    return run


# ---- `clusterlaunchcontrol` (PTX ISA 9.1 §9.7.13.17): a running cluster asks for the work of one that has not begun


_RESPONSE = 16  # bytes


@implements("clusterlaunchcontrol.try_cancel")
def build_try_cancel(i: Instruction, c: Linker) -> Step:
    """`clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128
    [to], [mbar]`.
    """
    words, operands = Modifiers(i, "try_cancel", "async", "mbarrier::complete_tx::bytes", "b128"), Operands(i)
    is_generic = not words.has("shared::cta")
    to_all = words.has("multicast::cluster::all")
    words.end()
    places = operands.next("a destination"), operands.next("an mbarrier")
    to, mbar = (c.address(place) if is_generic else shared_operand(i, c, place) for place in places)
    operands.end()

    def run(x: Wave) -> None:
        for (cta, thread), places in each_issuer(x, [to, mbar]):
            at, barrier = (_of_window(x, i, place) for place in places) if is_generic else places
            check_ranks(x, i, at, barrier)
            address, where = own_address(i, cta, at), own_address(i, cta, barrier)
            _check_place(x, i, address)
            response = np.array(_answer(x, cta), np.uint32).view(np.uint8)
            writes = []
            for rank in range(x.launch.cluster_size) if to_all else [cta.rank]:
                other = member(x, cta, rank)
                begin = address - x.window_begin
                other.shared.bytes[begin : begin + _RESPONSE] = response
                x.memories.owners.touch(np.array([(other.index * x.pitch + begin) >> 4]), THREADS)
                words = functools.partial(WordRanges.of, np.arange(begin, begin + _RESPONSE, WORD) // WORD)
                writes.append(SharedWrite(other, words, _RESPONSE, (other, where)))
            issue(x, AsyncOp("bulk", i, [(cta, thread)], writes, size=_RESPONSE))
        x.progress.changes += 1

    return run


_TOOK_OVER: Slot[list[int]] = Slot(lambda cta: [])  # the clusters that a cluster has taken over, at its first CTA


def _answer(x: Wave, cta: Cta) -> tuple[int, int, int, int]:
    """The response to a request of a CTA: whose work its cluster takes over, or zeros."""
    launch, queue, cluster = x.launch, x.launch.queue, member(x, cta, 0)
    queue.asked += 1
    declined = launch.config.cancel == "never" or (launch.config.cancel == "one" and _TOOK_OVER(cluster))
    declined = declined or (launch.schedule is not None and launch.schedule.chance(launch.schedule.declines))
    taken = None if declined else queue.cancel()
    if taken is None:
        return 0, 0, 0, 0
    _TOOK_OVER(cluster).append(taken)
    return *launch.cta(taken, 0)[1], 1


def _of_window(x: Wave, i: Instruction, address: int) -> int:
    """The `.shared` address of a generic one; X001 where it is not of shared memory."""
    address &= (1 << 64) - 1
    if address >> 32 != SHARED_WINDOW >> 32:
        stop(
            x,
            i,
            "X001",
            f"{i.name}: the generic address {address:#x} is not in shared memory",
            "pass an address of shared memory",
            ILLEGAL_ADDRESS,
        )
    return address & 0xFFFFFFFF


def _check_place(x: Wave, i: Instruction, address: int) -> None:
    if address % _RESPONSE:
        message = f"{i.name}: shared {address:#x} is no multiple of {_RESPONSE} bytes"
        stop(x, i, "X002", message, f"align the {_RESPONSE} bytes of the response: .align {_RESPONSE}", MISALIGNED_ADDRESS)
    if not x.window_begin <= address <= x.window_begin + x.memories.window - _RESPONSE:
        misuse(x, i, f"the response at {address:#x} lies outside the CTA's shared memory", "correct the address")


@implements("clusterlaunchcontrol.query_cancel")
def build_query_cancel(i: Instruction, c: Linker) -> Step:
    """`clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, response`, and `.get_first_ctaid` of it: of a
    declined request undefined, here 0.
    """
    words, operands = Modifiers(i, "query_cancel", "b128"), Operands(i)
    if words.has("is_canceled"):
        words.need("pred")
        writes = [(3, c.write(operands.next("a predicate"), "pred"))]
    else:
        word = words.need("get_first_ctaid", *(f"get_first_ctaid::{axis}" for axis in "xyz"))
        if word == "get_first_ctaid":
            words.need("v4")
        words.need("b32")
        result = operands.next("a register")
        items = result.items if isinstance(result, Vector) else (result,)
        first = "xyz".find(word[-1]) if "::" in word else 0
        writes = [(first + n, c.write(item, "b32")) for n, item in enumerate(items)]
    words.end()
    response = c.read(operands.next("a response"), "b128")
    operands.end()

    def run(x: Wave) -> None:
        parts = np.ascontiguousarray(np.broadcast_to(np.asarray(response(x), np.uint64), (x.n, 2))).view(np.uint32)
        for n, write in writes:
            write(x, parts[:, n] != 0 if n == 3 else parts[:, n])
        declined = parts[:, 3] == 0
        if x.taint is not None and (x.taint.slots or declined.any()):
            x.taint.answered(i, x.threads, declined)

    return run
