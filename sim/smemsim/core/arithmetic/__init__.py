"""Arithmetic: what the tensor core computes, bit for bit; conversions, roundings and reductions."""
