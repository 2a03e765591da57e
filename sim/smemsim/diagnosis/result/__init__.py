"""What a kernel left in an array beside what was expected: the one rule that gives all the wrong elements (`explain.py`), one file for each kind of rule."""
