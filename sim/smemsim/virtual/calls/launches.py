"""Calls: launches, functions of the host in a stream, and what the card holds at once."""

from __future__ import annotations

from typing import Any

from smemsim.virtual.calls.handles import SIGNED, Handles
from smemsim.virtual.code import Function
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.graphs import Node

__all__ = ["LaunchCalls"]


class LaunchCalls(Handles):
    """The calls that run kernels and host functions."""

    def foreign_runtime(self) -> None:
        """The program holds NVIDIA's own runtime, as it has said on stderr: its kernels are not simulated."""
        self.device.code.note_refused("the program has NVIDIA's own CUDA runtime in it: link it with nvcc -cudart shared")

    def launch(self, function: int, *given: Any) -> None:
        gx, gy, gz, bx, by, bz, cx, cy, cz, shared, stream, cooperative, begins, bank = given
        if begins & 2:  # the program has synchronised since its last launch, and the server was not asked
            self.device.host_has_waited()
        f = self._of(function, Function)
        self.is_running = True
        before = len(self.device.launches)
        try:
            self.device.launch(
                f, (gx, gy, gz), (bx, by, bz), bank, cluster=(cx, cy, cz), shared_bytes=shared, stream=self._stream(stream),
                cooperative=bool(cooperative), dependent=bool(begins & 1),
            )  # fmt: skip
        except CudaError as e:
            if e.reason and len(self.device.launches) == before:  # else its line is printed already
                self.device.tell(f"launch refused: {e.reason}")
                if self.device.policy.strict:  # else as on a card: programs try what fits
                    self.device.code.note_refused(f"launch refused: {e.reason}")
            raise
        finally:
            self.is_running = False

    def enter(self) -> None:
        """Until `leave`, this thread alone is answered: what compiled code has once it makes then."""
        self.device.turn.__enter__()

    def leave(self) -> None:
        self.device.turn.__exit__()

    def call_host(self, stream: int, function: int, data: int) -> None:
        self.device.call_host(function, data, self._stream(stream))

    def call_back(self, stream: int, function: int, data: int) -> None:
        self.device.submit(self._stream(stream), Node("host", lambda: self.device.outside(self.host.call_back, function, stream, data)))

    def occupancy(self, function: int, threads: int, shared: int) -> int:
        self.device.check()
        if not 0 < threads < SIGNED:
            raise CudaError(INVALID_VALUE, f"{threads} threads")
        return self.device.occupancy.blocks_per_multiprocessor(self._of(function, Function), threads, shared)

    def available_shared(self, function: int, blocks: int, threads: int) -> int:
        return self.device.occupancy.shared_available(self._of(function, Function), blocks, threads)

    def clusters(self, function: int, threads: int, shared: int, x: int, y: int, z: int) -> int:
        """cudaOccupancyMaxActiveClusters; three zeros: the launch has no cluster attribute."""
        self.device.check()
        return self.device.occupancy.active_clusters(self._of(function, Function), threads, shared, (x, y, z))

    def cluster_size(self, function: int, threads: int, shared: int) -> int:
        f = self._of(function, Function)
        most = 16 if f.allows_large_clusters else 8
        return next((n for n in (16, 8, 4, 2) if n <= most and self.device.occupancy.clusters_at_once(f, threads, shared, n)), 1)
