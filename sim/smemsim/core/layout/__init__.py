"""Layouts: the address of an element. Pure functions over integers, one for each rule of the hardware, and compiled
loops around them.
"""
