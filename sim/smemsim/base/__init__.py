"""Errors, files, processes, the memory budget and compiled loops: what every other package may import, and nothing
about GPUs.
"""
