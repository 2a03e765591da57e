"""Kernels that were run, judged: what the matrix instructions read, the findings with their lines, the run as a scenario."""
