"""`clusterlaunchcontrol` (PTX ISA 9.7.13.19): a running cluster asks for the work of one that has not begun.

How the requests are answered is the launch's choice (`gpu.launch.CANCEL`): which clusters have begun is a race that a right kernel does not
depend on. The response is opaque in PTX; here its four words are the first ctaid of the cluster, and 1 where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.asynchronous import check_ranks, credit, each, member, own_address, stop
from smemsim.gpu.modifiers import Modifiers, Operands
from smemsim.gpu.registry import Step, implements
from smemsim.gpu.traps import misuse
from smemsim.gpu.wave import THREADS
from smemsim.ptx.module import Instruction, Vector
from smemsim.spec.launches import SHARED_WINDOW
from smemsim.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Cta, Wave

__all__: list[str] = []

_RESPONSE = 16  # bytes


@implements("clusterlaunchcontrol.try_cancel")
def build_try_cancel(i: Instruction, c: Linker) -> Step:
    """`clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [to], [mbar]`."""
    words, operands = Modifiers(i, "try_cancel", "async", "mbarrier::complete_tx::bytes", "b128"), Operands(i)
    is_generic = not words.has("shared::cta")
    to_all = words.has("multicast::cluster::all")
    words.end()
    to, mbar = c.address(operands.next("a destination")), c.address(operands.next("an mbarrier"))
    operands.end()

    def run(x: Wave) -> None:
        for (cta, thread), places in each(x, [to, mbar]):
            at, barrier = (_of_window(x, i, place) for place in places) if is_generic else places
            check_ranks(x, i, at, barrier)
            address, where = own_address(i, cta, at), own_address(i, cta, barrier)
            _check_place(x, i, address)
            response = np.array(_answer(x, cta), np.uint32).view(np.uint8)
            op = x.watch.begin(x, i, thread, "bulk") if x.watch is not None else None
            for rank in range(x.launch.cluster_size) if to_all else [cta.rank]:
                other = member(x, cta, rank)
                begin = address - x.window_begin
                other.shared.bytes[begin : begin + _RESPONSE] = response
                x.owners.touch(np.array([(other.index * x.pitch + begin) >> 4]), THREADS)
                if op is not None:
                    x.watch.op_writes(op, other, np.arange(begin, begin + _RESPONSE, 4))
                credit(x, cta, rank, where, _RESPONSE, op)
        x.changes += 1

    return run


def _answer(x: Wave, cta: Cta) -> tuple[int, int, int, int]:
    """The response to a request of a CTA: whose work its cluster takes over, or zeros."""
    launch, queue, cluster = x.launch, x.launch.queue, member(x, cta, 0)
    queue.asked += 1
    declined = launch.cancel == "never" or (launch.cancel == "one" and cluster.state.get("took over"))
    taken = None if declined else queue.cancel()
    if taken is None:
        return 0, 0, 0, 0
    cluster.state["took over"] = True
    return *launch.cta(taken, 0)[1], 1


def _of_window(x: Wave, i: Instruction, address: int) -> int:
    """The `.shared` address of a generic one; X001 where it is not of shared memory."""
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
        stop(x, i, "X002", message, "align the response", MISALIGNED_ADDRESS)
    if not x.window_begin <= address <= x.window_begin + x.window - _RESPONSE:
        misuse(x, i, f"the response at {address:#x} lies outside the CTA's shared memory", "correct the address")


@implements("clusterlaunchcontrol.query_cancel")
def build_query_cancel(i: Instruction, c: Linker) -> Step:
    """`clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, response`, and `.get_first_ctaid` of it: of a declined request undefined, here 0."""
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
        found = np.ascontiguousarray(np.broadcast_to(np.asarray(response(x), np.uint64), (x.n, 2))).view(np.uint32)
        for n, write in writes:
            write(x, found[:, n] != 0 if n == 3 else found[:, n])

    return run
