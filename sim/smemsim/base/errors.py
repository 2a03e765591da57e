"""The exceptions that smemsim raises on purpose. All have one base class, and a message for kernel authors."""

from __future__ import annotations

from smemsim.base.members import OwnMembers

__all__ = ["HardwareTrap", "InputError", "InternalError", "NotKeptWarning", "OutsideError", "SmemsimError", "TraceError", "Unmodelled"]


class SmemsimError(Exception, metaclass=OwnMembers):
    """Base class of all errors that smemsim raises on purpose.

    >>> import smemsim
    >>> issubclass(smemsim.InputError, smemsim.SmemsimError), issubclass(smemsim.Unmodelled, smemsim.SmemsimError)
    (True, True)
    """


class InputError(SmemsimError, ValueError):
    """An argument is wrong: a wrong type, a negative size, an unknown name. The message lists what is accepted.

    >>> import smemsim
    >>> smemsim.SharedMemory(size=-1)
    Traceback (most recent call last):
    smemsim.base.errors.InputError: size = -1 B: sm_90a has 0 to 232448 B of shared memory a CTA
    """


class OutsideError(InputError):
    """An access to global memory outside of every array. A kernel would trap.

    >>> import smemsim
    >>> smemsim.GlobalMemory().span(0x10000, 4)
    Traceback (most recent call last):
    smemsim.base.errors.OutsideError: global address 0x10000: nothing was placed there; this memory holds no array
    """


class InternalError(SmemsimError):
    """Two parts of smemsim contradict each other. This is a defect of smemsim; please report it.

    >>> from smemsim import InternalError
    >>> print(InternalError("LBO is 16 from the atoms and 32 from the CuTe layout"))
    internal error, please report it: LBO is 16 from the atoms and 32 from the CuTe layout
    """

    def __init__(self, message: str) -> None:
        super().__init__(f"internal error, please report it: {message}")


class NotKeptWarning(UserWarning, metaclass=OwnMembers):
    """Compiled code took more than a second to make, and could not be kept for the next process. The message has the
    reason, and what to change.
    """


class TraceError(SmemsimError, ValueError):
    """A golden trace cannot be read: it is damaged, truncated, of another kind, or of a newer format.

    >>> import smemsim
    >>> from smemsim.evidence import load_suite
    >>> load_suite("nowhere")
    Traceback (most recent call last):
    smemsim.base.errors.TraceError: nowhere/manifest.json: there is no such file; a trace folder holds manifest.json and data.npz
    """


class Unmodelled(SmemsimError, NotImplementedError):
    """The behaviour of the hardware is not known here, or smemsim does not model it yet. A page or trace about the
    question is `see`. The line of PTX is `line`, or 0. For several instructions, `each` has a pair of a line and a
    sentence. Example:

    >>> import smemsim
    >>> smemsim.AccumulatorLayout(128, 256, column=500)
    Traceback (most recent call last):
    smemsim.base.errors.Unmodelled: layout D: 256 columns from column 500 on pass column 511; whether hardware wraps around or faults is not known
    """

    def __init__(self, message: str, *, see: str = "", line: int = 0, each: tuple[tuple[int, str], ...] = ()) -> None:
        self.each = each or ((line, f"{message}{f' ({see})' if see else ''}"),)
        super().__init__("\n".join(f"{f'line {at}: ' if at else ''}{sentence}" for at, sentence in self.each))
        self.see = see
        self.line = line


class HardwareTrap(SmemsimError):
    """The hardware would stop the kernel here. The reason is a sentence. The code that the driver reports is
    `cuda_error`. It is 700 for an illegal address, 715 for an illegal instruction, 716 for a misaligned address, and
    719 for a write that another CTA cannot take. Example:

    >>> import smemsim
    >>> tm = smemsim.TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(64,), global_strides=(), box_dim=(32,))
    >>> smemsim.tma_load(tm, (0,), smem_address=1032)
    Traceback (most recent call last):
    smemsim.base.errors.HardwareTrap: smem_address = 0x408: needs a multiple of 128 B, with and without swizzle (CUDA error 716)
    """

    def __init__(self, reason: str, *, cuda_error: int, is_told: bool = False) -> None:
        super().__init__(f"{reason} (CUDA error {cuda_error})")
        self.reason = reason
        self.cuda_error = cuda_error
        self.is_told = is_told  # does a finding say so already?
