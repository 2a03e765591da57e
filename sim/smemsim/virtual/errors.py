"""What a call of the CUDA driver fails with."""

from __future__ import annotations

from smemsim.errors import SmemsimError
from smemsim.spec.cuda_errors import CUDA_CODES

__all__ = ["INVALID_VALUE", "NOT_SUPPORTED", "CudaError"]


INVALID_VALUE, NOT_SUPPORTED = 1, 801


class CudaError(SmemsimError):
    """What a call of the driver fails with: `code` is its number in CUresult and cudaError_t, `reason` what led to it, in a sentence."""

    def __init__(self, code: int, reason: str = "") -> None:
        known = CUDA_CODES.get(code)
        name = (known.driver or known.runtime) if known else f"CUDA error {code}"
        super().__init__(f"{name}: {reason or (known.text if known else 'unknown error')}")
        self.code, self.reason = code, reason
