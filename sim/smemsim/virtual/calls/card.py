"""Calls: what the card is, its limits, and waiting for it."""

from __future__ import annotations

from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, UNSUPPORTED_LIMIT, CudaError

__all__ = ["CardCalls"]


class CardCalls(Handles):
    """The card."""

    def driver_version(self) -> int:
        return self.device.driver_version

    def device_name(self) -> bytes:
        return self.device.card.name.encode()

    def device_uuid(self) -> bytes:
        return self.device.uuid

    def total_memory(self) -> int:
        return self.device.memory_bytes

    def attribute(self, number: int) -> int:
        return self.device.attribute(number)

    def properties(self, version: int) -> bytes:
        return self.device.properties(version)

    def cache_config(self) -> int:
        return self.device.attributes.cache_preference

    def set_cache_config(self, preference: int) -> None:
        if preference > 3:
            raise CudaError(INVALID_VALUE)
        self.device.attributes.cache_preference = preference

    def limit(self, number: int) -> int:
        self.device.check()
        if number not in self.device.attributes.limits:
            raise CudaError(UNSUPPORTED_LIMIT)
        return self.device.attributes.limits[number]

    def set_limit(self, number: int, value: int) -> None:
        self.limit(number)
        self.device.set_limit(number, value)

    def reset(self) -> None:
        self.device.reset()
        self._objects.clear()
        self._gone = self._next

    def renew(self) -> None:
        """The context works again, which a card does not give (pytest)."""
        self.device.error = 0

    def synchronize(self, stream: int) -> None:
        self.device.synchronize(self._stream(stream))
