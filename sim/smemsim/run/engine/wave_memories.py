"""The memories of a wave: the shared windows, local memory and tensor memory of all its CTAs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.cache_lines import zeros_in_lines
from smemsim.core.machine.memory import SharedMemory, ThreadWrite
from smemsim.core.machine.owners import Owners
from smemsim.core.machine.tmem.memory import TensorMemory
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.launches import RESERVED_OFFSETS
from smemsim.core.spec.tensor_memory import COLUMNS, LANES
from smemsim.run.followed import follows

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["COPIES", "THREADS", "WaveMemories"]


THREADS = 1  # the writer that stands for ordinary stores, in the list of every shared memory
COPIES = 2  # ... for those of bytes that are followed from global memory (`origins.py`)


class WaveMemories:
    """The memories of `count` CTAs with `total` threads.

    The bytes of all windows are `shared`. CTA n has `window` bytes from n * `pitch`. Their `.shared` addresses begin at
    `window_begin`. Some kernels use a part of the system's bytes. Its offset in a CTA is `scratch`, 0 for none. Local
    memory is `local` (threads, bytes). Tensor memory is `tensor` (CTAs, lanes, columns) of 32-bit cells, and
    `tensor_allocated` (CTAs, columns). With `has_owners`, `owners` has the writer of each byte of `shared`.
    """

    def __init__(self, launch: Launch, count: int, total: int) -> None:
        machine, program = any_architecture(launch.arch), launch.program
        self.arch, self.count = launch.arch, count
        self.window_begin = machine.shared_begin
        self.window = launch.window_bytes
        # The bytes of the system's part, before the window, that a kernel may use: stored after it.
        self.scratch = -(-(self.window + 16) // 16) * 16 if program.has_scratch else 0
        room = self.scratch + RESERVED_OFFSETS["end"] if self.scratch else self.window
        self.pitch = -(-(room + 16) // 128) * 128
        self._words = zeros_in_lines((count * self.pitch // 8,), np.uint64)
        self.shared = self._words.view(np.uint8)
        self.owners = Owners(len(self.shared))
        self.has_owners = program.needs_owners or bool(launch.checks_operands and program.copied.fragments and follows(launch))
        has_tensor = machine.instruction == "tcgen05" and "tcgen05" in program.uses
        self.tensor = np.zeros((count if has_tensor else 0, LANES, COLUMNS), np.uint32)
        self.tensor_allocated = np.zeros((len(self.tensor), COLUMNS), bool)
        self.local = np.zeros((total, program.places.local_bytes), np.uint8)
        self._reserved: np.ndarray | None = None

    def reserved(self) -> np.ndarray:
        """The system's bytes before the windows of all CTAs: made at the first access."""
        if self._reserved is None:
            self._reserved = np.zeros(self.count * self.window_begin, np.uint8)
        return self._reserved

    def window_of(self, index: int) -> SharedMemory:
        """The window of a CTA, with its part of shared memory."""
        at = index * self.pitch
        shared = SharedMemory(self.arch, size=self.window, room=self._words, at=at, owners=self.owners.part(at, self.pitch))
        threads = ThreadWrite(shared.begin, self.window, "threads")
        shared.writers.extend((threads, threads))  # numbers THREADS and COPIES
        return shared

    def tensor_of(self, index: int) -> TensorMemory | None:
        """The tensor memory of a CTA; None if the kernel uses none."""
        if not len(self.tensor):
            return None
        return TensorMemory(self.arch, room=self.tensor, at=index, allocated=self.tensor_allocated[index], owners=False)
