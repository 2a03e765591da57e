"""What the matrix instructions of a launch really read (`recorded.py`), and what is wrong with it: one file for each
question.
"""
