"""Python functions as machine code, made by numba once and kept (`smemsim.store`); what is kept runs without numba."""
