"""Texts of tensor maps as people paste them: encode calls (`call`) and 128 bytes as tools print them (`dump`)."""

from __future__ import annotations

from smemsim.descriptors.tensor_map.call import Pasted, find_calls, parse_call
from smemsim.descriptors.tensor_map.dump import Dump, parse_bytes, parse_dump

__all__ = ["Dump", "Pasted", "find_calls", "parse_bytes", "parse_call", "parse_dump"]
