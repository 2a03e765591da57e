"""Instructions that threads execute by themselves and with those of their warp: control flow, votes and shuffles,
system calls.
"""
