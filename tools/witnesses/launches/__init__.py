"""Whole kernels that production compilers make for sm_100a on a CPU, as launches: PTX, arguments, and what they must
compute.
"""
