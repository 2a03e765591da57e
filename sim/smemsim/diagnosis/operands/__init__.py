"""The operands that the matrix instructions of a launch really read (`recorded.py`), and their faults: one file for
each question.
"""
