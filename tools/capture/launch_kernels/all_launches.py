"""Registers every launch."""

from tools.capture.launch_kernels import (
    arithmetic_launches,  # noqa: F401
    matrix_launches,  # noqa: F401
    memory_launches,  # noqa: F401
    program_launches,  # noqa: F401
    system_launches,  # noqa: F401
    triton_launches,  # noqa: F401
)
