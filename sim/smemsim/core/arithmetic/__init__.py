"""Arithmetic: what the tensor core computes, bit for bit, and the conversions, roundings and reductions beside it."""
