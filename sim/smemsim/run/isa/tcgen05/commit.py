"""`tcgen05.commit` and `tcgen05.fence` (PTX ISA 9.1 §9.7.16.11, 9.7.16.12): which mbarriers count
complete operations.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.machine.cluster import commit_arrivals
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.traps import ILLEGAL_INSTRUCTION
from smemsim.run.engine.in_flight import defer
from smemsim.run.isa.asynchronous import member, stop
from smemsim.run.isa.barriers.mbarrier import Mbarrier, State, arrive, mbarrier_of
from smemsim.run.isa.memory.spaces import locate
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements
from smemsim.run.isa.tcgen05.allocation import cta_group, refusals, tensor_of

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.lower.program import Linker


@implements("tcgen05.commit")
def build_commit(i: Instruction, c: Linker) -> Step:
    """`tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbar] {, mask}`:
    one arrival, at once.

    With a mask it is one at the same offset in every CTA of the cluster whose rank has a bit. Without
    .shared::cluster the address is generic (PTX ISA 9.1 §9.7.16.12); Triton passes a .shared address widened by
    cvt.u64.u32.
    """
    words, operands = Modifiers(i, "commit", "mbarrier::arrive::one", "b64"), Operands(i)
    group = cta_group(words)
    space = "shared::cluster" if words.has("shared::cluster") else None
    is_multicast = words.has("multicast::cluster")
    words.end()
    place = locate(i, c, operands.next("an mbarrier"), space, 8, only_shared=True)
    mask = c.read(operands.next("a CTA mask"), "u16") if is_multicast else None
    operands.end()

    def run(x: Wave) -> None:
        threads = x.threads
        masks = np.broadcast_to(mask(x), threads.shape).tolist() if mask is not None else [None] * len(threads)
        issued: list[list[_Commit]] = []
        for piece in place(x):
            if piece.space != "shared":
                stop(x, i, "X010", f"the mbarrier is in {piece.space} memory; mbarriers are in shared memory", "", ILLEGAL_INSTRUCTION)
            which = range(len(threads)) if piece.part is None else piece.part.tolist()
            for n, at in zip(which, piece.at.tolist(), strict=True):
                index, offset = divmod(at, x.pitch)
                cta = x.ctas[int(x.cta_of[threads[n]])]
                with refusals(x, i):
                    tensor_of(cta).check_group(group)
                ctas = [x.ctas[index]]
                if masks[n] is not None:
                    beyond = masks[n] >> x.launch.cluster_size
                    if beyond:
                        message = f"the mask {masks[n]:#x} names CTAs that the cluster of {x.launch.cluster_size} does not have"
                        stop(x, i, "X015", message, "a bit for each rank of the cluster, from bit 0", ILLEGAL_INSTRUCTION)
                    ranks = commit_arrivals(masks[n], cluster_size=x.launch.cluster_size, cta_rank=cta.rank, cta_group=group)
                    ctas = [member(x, cta, rank) for rank in ranks]
                issued.append([(int(threads[n]), cta, mbarrier_of(x, to, offset + x.window_begin, i)) for to in ctas])
        together = [one for some in issued for one in some]
        is_apart = x.in_flight is None and len({barrier for *_, barrier in together}) == len(together)
        for some in [together] if is_apart else issued:
            _commit(x, i, some, group)

    return run


_Commit = tuple[int, "Cta", Mbarrier]  # the thread, its CTA, and the mbarrier


def _commit(x: Wave, i: Instruction, each: list[_Commit], group: int) -> None:
    """Threads commit their operations to mbarriers, none of which is named twice."""
    if x.events.mbarriers_used:
        x.events.mbarriers_used(x, i, [(np.array([thread]), barrier) for thread, _, barrier in each])
    if x.events.committed:
        x.events.committed(x, i, [(thread, barrier) for thread, _, barrier in each])
    count = assumed("commit.arrivals", 1, group)
    if x.in_flight is None:
        arrive(x, _arrivals(x, each), count, i=i, release=False)
        return
    for thread, cta, barrier in each:
        act = functools.partial(_arrives, x, i, thread, barrier, count)
        defer(x, act, stream=("tcgen05", cta.index - cta.rank % group))


def _arrivals(x: Wave, each: list[_Commit]) -> list[tuple[State, np.ndarray]]:
    """The mbarriers with the threads that issued: one for all, if a thread of each CTA commits to one with the same
    history as the others.
    """
    if not each:
        return []
    thread, state = each[0][0], each[0][2].state
    if x.cohort is not None and tuple(barrier for *_, barrier in each) == state.members and x.cohort.own_count([n for n, *_ in each]) == 1:
        return [(state, np.array([thread]))]
    return [(barrier.alone(), np.array([thread])) for thread, _, barrier in each]


def _arrives(x: Wave, i: Instruction, thread: int, barrier: Mbarrier, count: int) -> None:
    arrive(x, [(barrier.alone(), np.array([thread]))], count, i=i, release=False)


@implements("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def build_fence(i: Instruction, c: Linker) -> Step:
    """`tcgen05.fence::before_thread_sync` and `::after_thread_sync`: nothing is reordered here. Around relaxed accesses
    they order tcgen05 instructions (9.7.16.6.4), and only these. ptxas 13.0 makes a NOP of both.

    The PTX ISA requires them around barriers that order tcgen05 instructions of different threads. Triton and CuTe
    DSL omit them in correct kernels, so a missing one is not reported.
    """
    Modifiers(i, i.modifiers[0]).end()
    before = i.modifiers[0] == "fence::before_thread_sync"

    def fence(x: Wave) -> None:
        if x.events.tensor_fenced:
            x.events.tensor_fenced(x, i, acquires=not before, releases=before)

    return fence
