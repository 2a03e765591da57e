"""Why an operand reads wrong elements, and which change was tried and makes them right: one file for each kind of
change.
"""
