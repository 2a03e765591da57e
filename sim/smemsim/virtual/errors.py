"""The error with which a call of the CUDA driver fails."""

from __future__ import annotations

from smemsim.base.errors import SmemsimError
from smemsim.core.spec.cuda_errors import CUDA_CODES

__all__ = ["CudaError"]


# Of CUresult and cudaError_t, without their prefixes; what each says is in `core/spec/cuda_errors.py`.
INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONFIGURATION, INVALID_PITCH, INVALID_DIRECTION, UNAVAILABLE, INVALID_DEVICE = (
    1,
    2,
    9,
    12,
    21,
    46,
    101,
)
INVALID_IMAGE, NO_BINARY, UNSUPPORTED_LIMIT, INVALID_PTX = 200, 209, 215, 218
INVALID_HANDLE, ILLEGAL_STATE, NOT_FOUND, OUT_OF_RESOURCES, ALREADY_REGISTERED, NOT_REGISTERED = 400, 401, 500, 701, 712, 713
DESTROYED, LAUNCH_FAILED, COOPERATIVE_TOO_LARGE, NOT_PERMITTED, NOT_SUPPORTED, INVALID_CLUSTER = 709, 719, 720, 800, 801, 912
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_UNMATCHED, CAPTURE_UNJOINED = 900, 901, 903, 904
CAPTURED_EVENT, GRAPH_UPDATE_FAILED = 907, 910


class CudaError(SmemsimError):
    """A call of the CUDA driver or runtime on the virtual GPU fails. Its number in CUresult and cudaError_t is `code`.
    The cause is `reason`.

    >>> error = CudaError(700)
    >>> error.code, str(error)
    (700, 'CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered')
    """

    def __init__(self, code: int, reason: str = "") -> None:
        known = CUDA_CODES.get(code)
        name = (known.driver or known.runtime) if known else f"CUDA error {code}"
        super().__init__(f"{name}: {reason or (known.text if known else 'unknown error')}")
        self.code, self.reason = code, reason
