"""Tensor memory of tcgen05: its addresses, what lies where in it, and the memory itself with its owners."""
