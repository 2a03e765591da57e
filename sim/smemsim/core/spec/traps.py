"""The CUDA errors that traps end in (driver API codes): those of the copy engine and the tensor core as the trap traces
recorded them.
"""

from __future__ import annotations

__all__ = [
    "ASSERTION",
    "ILLEGAL_ADDRESS",
    "ILLEGAL_INSTRUCTION",
    "INVALID_PC",
    "LAUNCH_FAILURE",
    "MISALIGNED_ADDRESS",
    "STACK_ERROR",
    "TIMEOUT",
]


ILLEGAL_ADDRESS = 700  # past the shared window
ILLEGAL_INSTRUCTION = 715  # coordinates and dimensions the copy engine does not take
MISALIGNED_ADDRESS = 716  # shared address off 128 B
ASSERTION = 710  # a failed assert; CUDA driver API, CUDA_ERROR_ASSERT
LAUNCH_FAILURE = 719  # "unspecified": a write that another CTA of the cluster cannot take
STACK_ERROR = 714  # CUDA driver API, CUDA_ERROR_HARDWARE_STACK_ERROR
INVALID_PC = 718  # CUDA driver API, CUDA_ERROR_INVALID_PC
TIMEOUT = 702  # a kernel that never ends, if the driver checks; CUDA driver API, CUDA_ERROR_LAUNCH_TIMEOUT
