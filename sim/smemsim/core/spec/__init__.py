"""Data only: every hardware number smemsim knows stands here once, with where it comes from and how sure it is."""
