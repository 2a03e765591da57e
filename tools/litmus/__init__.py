"""Litmus tests of the PTX memory model, written by others, as kernels: what can be reached, and what the sanitizer
reports.
"""
