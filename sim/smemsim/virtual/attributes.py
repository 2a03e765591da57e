"""The properties of a card that a program can read: attributes, cudaDeviceProp, limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smemsim.core.spec.cards import (
    DEVICE_LIMITS,
    HEAP_LIMIT,
    PERSISTING_LIMIT,
    PROPERTIES,
    PROPERTY_BYTES,
    SHARED_LIMIT,
    Card,
)
from smemsim.core.spec.heap import HEAP
from smemsim.core.spec.launches import LAUNCH_LIMITS
from smemsim.virtual.errors import INVALID_VALUE, CudaError

__all__ = ["CardAttributes"]


class CardAttributes:
    """Attributes of a card with so many multiprocessors and bytes of memory. They include the limits of its context
    (CUlimit) and its cache preference (cudaFuncCache, which changes nothing). Unless it `is_quiet`, `tell` prints once
    that unknown attributes are 0.
    """

    def __init__(
        self, card: Card, multiprocessors: int | None, memory_bytes: int | None, tell: Callable[[str], None], is_quiet: Callable[[], bool]
    ) -> None:
        self.card, self.tell, self.is_quiet = card, tell, is_quiet
        self.multiprocessors = multiprocessors or card.named("multiprocessor_count")
        self.memory_bytes = memory_bytes or card.memory_bytes
        self.limits = DEVICE_LIMITS | {SHARED_LIMIT: card.named("max_shared_memory_per_block_optin")}
        if "max_persisting_l2_cache_size" in card.unknown:
            self.limits[PERSISTING_LIMIT] = 0
        self.cache_preference = 0
        self._told_unknown = False

    def of(self, number: int) -> int:
        """A device attribute by its number in CUdevice_attribute. CudaError for a number
        that the driver does not know.
        """
        value = self.multiprocessors if number == 16 else self.card.attribute(number)
        if value is None:
            raise CudaError(INVALID_VALUE, f"device attribute {number}: there is no such attribute")
        if number in self.card.unknown_numbers:
            self._tell_unknown()
        return value

    def _tell_unknown(self) -> None:
        """Print once which attributes are 0 because they are unknown."""
        if self._told_unknown or self.is_quiet():
            return
        self._told_unknown = True
        self.tell(
            f"{self.card.name}: {len(self.card.unknown)} device attributes have no known source, and the program gets 0 for each (docs/cards.md)"
        )

    def properties(self, version: int) -> bytes:
        """The bytes of cudaDeviceProp as CUDA `version` (12 or 13) lays them out."""
        out = bytearray(PROPERTY_BYTES[version])
        name = self.card.name.encode()
        out[: len(name)] = name
        out[256:272] = self.uuid
        if self.card.unknown:
            self._tell_unknown()
        out[288:296] = self.memory_bytes.to_bytes(8, "little")
        axes = {"maxThreadsDim": (324, LAUNCH_LIMITS.block), "maxGridSize": (336, LAUNCH_LIMITS.grid)}
        for begin, values in axes.values():
            out[begin : begin + 12] = np.array(values, np.int32).tobytes()
        for _, attribute, old, new, size in PROPERTIES:
            place = old if version == 12 else new
            if place is not None:
                number = self.multiprocessors if attribute == "multiprocessor_count" else self.card.named(attribute)
                out[place : place + size] = number.to_bytes(size, "little", signed=True)
        return bytes(out)

    def set_limit(self, number: int, value: int) -> None:
        """Set a limit; the kernels' heap has a least size."""
        self.limits[number] = max(value, HEAP.least_bytes) if number == HEAP_LIMIT else value

    @property
    def uuid(self) -> bytes:
        """16 bytes that are the same for all virtual cards of an architecture."""
        return f"smemsim-{self.card.arch}".encode().ljust(16, b"\0")[:16]
