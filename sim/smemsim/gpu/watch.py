"""The watch: who wrote and who reads each word of shared memory, what orders them, and what is still in flight.

Written against the PTX memory model (PTX ISA 8): a write is seen by a later access of another thread only when synchronisation lies between
them, by the asynchronous proxy (TMA, wgmma, tcgen05) only when a fence.proxy.async lies on that way too, and what an asynchronous operation
writes only when its completion was waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from smemsim.gpu.program import Block
    from smemsim.gpu.wave import Cta, Wave
    from smemsim.ptx.module import Instruction

__all__ = ["Watch"]


class Watch:
    """What the operations tell. Every method is called for the threads that run (`x.threads`) unless it names others."""

    in_flight: int = 0  # bit set of register slots that asynchronous operations may still read or write

    # ---- ordinary accesses of shared memory

    def read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads read `size` bytes at places `flat` (n,) of `x.shared`."""

    def write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads write `size` bytes at places `flat` (n,) of `x.shared`."""

    # ---- asynchronous operations

    def begin(self, x: Wave, i: Instruction, thread: int, kind: str) -> Any:
        """An asynchronous operation that a thread issues: "tma_load" "tma_store" "tma_reduce" "bulk" "cp.async" "wgmma" "tcgen05.mma"
        "tcgen05.cp" "tcgen05.shift". Returns its handle."""

    def op_reads(self, op: Any, cta: Cta, offsets: np.ndarray) -> None:
        """It reads these bytes of a CTA's window (offsets from the window's begin, one for every 4 bytes is enough)."""

    def op_writes(self, op: Any, cta: Cta, offsets: np.ndarray) -> None:
        """It writes these bytes of a CTA's window."""

    def op_registers(self, op: Any, slots: set[int]) -> None:
        """It reads or writes these registers of its warpgroup until it is waited for."""

    def completes_on(self, op: Any, barrier: Any) -> None:
        """Its completion is counted by the current phase of an mbarrier (the Mbarrier object)."""

    def joins(self, op: Any, thread: int, group: str) -> None:
        """It belongs to the next group its thread commits: "bulk" "cp.async" "wgmma" "tcgen05"."""

    def commit(self, x: Wave, i: Instruction, group: str, barrier: Any = None) -> None:
        """The running threads commit their open group; tcgen05.commit and cp.async.mbarrier.arrive name the mbarrier that counts it."""

    def wait(self, x: Wave, i: Instruction, group: str, left: int, *, only_read: bool = False) -> None:
        """The running threads wait until at most `left` of their groups are pending; `only_read`: for what they read (`.read`)."""

    # ---- order

    def release(self, x: Wave, threads: np.ndarray, what: Any) -> None:
        """Threads arrive at something (a barrier object): what they have seen goes into its current phase."""

    def complete(self, what: Any) -> None:
        """A phase is complete: those who acquire from now on see what was released into it."""

    def acquire(self, x: Wave, threads: np.ndarray, what: Any) -> None:
        """Threads have seen the last complete phase."""

    def fence_async(self, x: Wave, i: Instruction) -> None:
        """fence.proxy.async: what the running threads have seen is visible to asynchronous operations ordered behind it."""

    def check_registers(self, x: Wave, block: Block) -> None:
        """A block names registers that are in flight."""
