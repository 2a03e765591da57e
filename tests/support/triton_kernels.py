"""Kernels of Triton for the tests; Triton reads their source, so that they stand in a file."""

try:
    import triton
    import triton.language as tl
except ImportError:  # the tests that compile them are skipped
    shifted = None
else:

    @triton.jit
    def shifted(p, s, step, block: tl.constexpr):
        """p[1] = p[0] + s, in blocks of so many elements that lie `step` apart."""
        at = (tl.program_id(0) * block + tl.arange(0, block)) * step
        tl.store(p[1] + at, tl.load(p[0] + at) + s)
