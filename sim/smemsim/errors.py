"""Everything smemsim raises on purpose. One base class; the text of each is a sentence for a kernel author."""

from __future__ import annotations

__all__ = ["HardwareTrap", "InputError", "InternalError", "OutsideError", "SmemsimError", "TraceError", "Unmodelled"]


class SmemsimError(Exception):
    """Base class of all errors that smemsim raises on purpose."""


class InputError(SmemsimError, ValueError):
    """An argument that no kernel could have: a wrong type, a negative size, an unknown name."""


class OutsideError(InputError):
    """Bytes of global memory that no array holds: what a kernel traps at."""


class InternalError(SmemsimError):
    """Two parts of smemsim contradict each other: a defect of smemsim, nothing that the caller did."""

    def __init__(self, message: str) -> None:
        super().__init__(f"internal error, please report it: {message}")


class TraceError(SmemsimError, ValueError):
    """A golden trace that cannot be read: damaged, truncated, foreign, or of a newer format."""


class Unmodelled(SmemsimError, NotImplementedError):
    """Nobody knows what hardware does here, or smemsim does not model it yet.

    `see` names the place where the open question is written down.
    """

    def __init__(self, message: str, *, see: str = "") -> None:
        super().__init__(f"{message} ({see})" if see else message)
        self.see = see


class HardwareTrap(SmemsimError):
    """Hardware would stop the kernel here.

    `reason` says why; `cuda_error` is the code the driver reports (700 illegal address, 715 illegal instruction, 716 misaligned
    address, 719 a write that another CTA cannot take).
    """

    def __init__(self, reason: str, *, cuda_error: int) -> None:
        super().__init__(f"{reason} (CUDA error {cuda_error})")
        self.reason = reason
        self.cuda_error = cuda_error
