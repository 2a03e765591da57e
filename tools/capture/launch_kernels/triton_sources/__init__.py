"""Triton and Gluon kernels of the suite `launches`."""
