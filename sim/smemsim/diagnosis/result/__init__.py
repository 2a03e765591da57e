"""The content of an array compared with the expected one: the one rule that gives all wrong elements (`explain.py`),
one file for each kind of rule.
"""
