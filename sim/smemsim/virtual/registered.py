"""Memory of another process that a program has registered (cudaHostRegister): it is copied around launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smemsim.base.errors import InputError
from smemsim.virtual.errors import ALREADY_REGISTERED, CudaError
from smemsim.virtual.memory import ALIGN, Allocation, DeviceMemory

if TYPE_CHECKING:
    from smemsim.virtual.host import Host

__all__ = ["RegisteredMemory"]


class RegisteredMemory:
    """Each piece with what holds its copy in this process."""

    def __init__(self, memory: DeviceMemory, host: Host) -> None:
        self.memory, self.host = memory, host
        self._pairs: list[tuple[Allocation, Allocation]] = []

    @property
    def own(self) -> list[Allocation]:
        """The pieces."""
        return [own for own, _ in self._pairs]

    @property
    def copies(self) -> list[Allocation]:
        """The holder of their copies."""
        return [shadow for _, shadow in self._pairs]

    def add(self, address: int, size: int, where: str) -> Allocation:
        """A piece more; kernels see the allocation that is returned. CudaError 712 if it is registered already."""
        try:
            shadow = self.memory.allocate(size + ALIGN, "pinned", where)
            own = self.memory.bind(address, size, place=shadow.address + address % ALIGN, where=where)
        except InputError as e:
            raise CudaError(ALREADY_REGISTERED, str(e)) from None
        self._pairs.append((own, shadow))
        return own

    def forget(self, own: Allocation) -> None:
        """A piece is registered no more."""
        for pair in [pair for pair in self._pairs if pair[0] is own]:
            self._pairs.remove(pair)
            self.memory.free(pair[1])

    def mirror(self, *, to_device: bool) -> None:
        """Copy all pieces into their copies here, or back."""
        for own in self.own:
            self.host.copy(*((own.place, own.address) if to_device else (own.address, own.place)), own.size)
        if self._pairs and to_device:
            self.host.materialize()
