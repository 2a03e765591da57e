"""Hardware's D is not the model's: does that look like rounding, like a wrong term, or like a wrong layout
(`diagnose.py`)? One file for each idea.
"""
