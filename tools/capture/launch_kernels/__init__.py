"""Whole kernels of the suite `launches`: what they are, how they are compiled and launched,
what is odd about an outcome.
"""
