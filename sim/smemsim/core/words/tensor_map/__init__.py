"""`TensorMap`, and everything about the 128 bytes: `map` is the value, the other modules its rules, bits, findings and
texts.
"""

from __future__ import annotations

from smemsim.core.words.tensor_map.map import TensorMap

__all__ = ["TensorMap"]
