"""Witnesses: what shipping compilers emit for tcgen05, compiled without a GPU and held against smemsim."""
