"""Arithmetic, logic and conversions: instructions whose threads do not see each other."""
