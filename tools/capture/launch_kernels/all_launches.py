"""Registers every launch."""

import arithmetic_launches  # noqa: F401
import matrix_launches  # noqa: F401
import memory_launches  # noqa: F401
import program_launches  # noqa: F401
import triton_launches  # noqa: F401
