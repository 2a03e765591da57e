"""Hot blocks of a program as machine code: the same steps over the same register arrays, sixteen threads at a time
(docs/internals.md, tiers).
"""
