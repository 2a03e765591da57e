"""Programs of others as evidence: which run right, and which alternatives of rules they refute (`python -m
tools.evidence`).
"""
