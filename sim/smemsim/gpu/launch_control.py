"""`clusterlaunchcontrol` (PTX ISA 9.7.13.19): a running cluster asks for the work of one that has not begun. Here there is never any to have.

That is an answer hardware gives too, once all clusters have begun: a right kernel computes the same with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.asynchronous import credit, each, member, own_address, stop
from smemsim.gpu.modifiers import Modifiers, Operands
from smemsim.gpu.registry import Step, implements, unmodelled
from smemsim.gpu.traps import misuse
from smemsim.gpu.wave import THREADS
from smemsim.ptx.module import Instruction, Vector
from smemsim.spec.traps import MISALIGNED_ADDRESS

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__: list[str] = []

_RESPONSE = 16  # bytes


@implements("clusterlaunchcontrol.try_cancel")
def build_try_cancel(i: Instruction, c: Linker) -> Step:
    """`clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [to], [mbar]`."""
    words, operands = Modifiers(i, "try_cancel", "async", "mbarrier::complete_tx::bytes", "b128"), Operands(i)
    if not words.has("shared::cta"):
        raise unmodelled(i, "generic addresses")
    to_all = words.has("multicast::cluster::all")
    words.end()
    to, mbar = c.address(operands.next("a destination")), c.address(operands.next("an mbarrier"))
    operands.end()

    def run(x: Wave) -> None:
        x.launch.evidence.add(
            "clusterlaunchcontrol.try_cancel: the answer is always that no work is left to take over, as when all clusters have begun"
        )
        for (cta, thread), (at, barrier) in each(x, [to, mbar]):
            address, where = own_address(i, cta, at), own_address(i, cta, barrier)
            if address % _RESPONSE:
                stop(
                    x,
                    i,
                    "X002",
                    f"{i.name}: shared {address:#x} is no multiple of {_RESPONSE} bytes",
                    "align the response",
                    MISALIGNED_ADDRESS,
                )
            if not x.window_begin <= address <= x.window_begin + x.window - _RESPONSE:
                misuse(x, i, f"the response at {address:#x} lies outside the CTA's shared memory", "correct the address")
            op = x.watch.begin(x, i, thread, "bulk") if x.watch is not None else None
            for rank in range(x.launch.cluster_size) if to_all else [cta.rank]:
                other = member(x, cta, rank)
                begin = address - x.window_begin
                other.shared.bytes[begin : begin + _RESPONSE] = 0
                x.owners.touch(np.array([(other.index * x.pitch + begin) >> 4]), THREADS)
                if op is not None:
                    x.watch.op_writes(op, other, np.arange(begin, begin + _RESPONSE, 4))
                credit(x, cta, rank, where, _RESPONSE, op)
        x.changes += 1

    return run


@implements("clusterlaunchcontrol.query_cancel")
def build_query_cancel(i: Instruction, c: Linker) -> Step:
    """`clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, response` is false; `.get_first_ctaid` of such a response is undefined, here 0."""
    words, operands = Modifiers(i, "query_cancel", "b128"), Operands(i)
    if words.has("is_canceled"):
        words.need("pred")
        writes = [c.write(operands.next("a predicate"), "pred")]
        zero: np.generic = np.bool_(False)
    else:
        word = words.need("get_first_ctaid", "get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z")
        if word == "get_first_ctaid":
            words.need("v4")
        words.need("b32")
        result = operands.next("a register")
        writes = [c.write(item, "b32") for item in (result.items if isinstance(result, Vector) else (result,))]
        zero = np.uint32(0)
    words.end()
    operands.next("a response")
    operands.end()

    def run(x: Wave) -> None:
        for write in writes:
            write(x, zero)

    return run
