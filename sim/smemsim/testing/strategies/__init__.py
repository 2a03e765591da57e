"""Hypothesis strategies for descriptors, tensor maps, operand tiles, scenarios and element bits, drawn from the tables
of `smemsim.core.spec`. Cases of other people's answers are drawn by `smemsim.testing.oracles.oracle_cases`.

Every field is drawn from its own width and towards 0, so that a failing example shrinks to one that a reader can check.
Strategies are plural functions with keyword-only options; an option that no hardware has raises `smemsim.InputError` at
once.

>>> from hypothesis import find, settings
>>> few = settings(max_examples=200, derandomize=True)
>>> find(smem_descriptors(arch="sm_90a", legal="any"), lambda d: d.stride_byte_offset > 1000, settings=few)
SmemDescriptor(arch='sm_90a', start_address=0, leading_byte_offset=0, stride_byte_offset=1008, swizzle='none')
"""

from __future__ import annotations

from smemsim.testing.strategies.descriptors import (
    element_arrays,
    element_bits,
    instr_descriptors,
    near_instr_descriptors,
    near_smem_descriptors,
    operands,
    reads,
    smem_descriptors,
    words,
)
from smemsim.testing.strategies.kernels import Fault, faulty_scenarios, plans, scenarios
from smemsim.testing.strategies.maps import encode_arguments, mutated_tensor_maps, tensor_maps, tiled_loads

__all__ = [
    "Fault",
    "element_arrays",
    "element_bits",
    "encode_arguments",
    "faulty_scenarios",
    "instr_descriptors",
    "mutated_tensor_maps",
    "near_instr_descriptors",
    "near_smem_descriptors",
    "operands",
    "plans",
    "reads",
    "scenarios",
    "smem_descriptors",
    "tensor_maps",
    "tiled_loads",
    "words",
]
