"""Arbitrary and damaged input for every public door of smemsim; `../robustness.py` counts what comes out."""
