"""Scenarios: a kernel with everything but the addresses taken out, as a file or as the same structure in Python."""
