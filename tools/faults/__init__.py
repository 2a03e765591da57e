"""Faults planted in kernels of several kinds: what smemsim and compute-sanitizer find of them (docs/faults.md)."""
