"""What works on smemsim from outside: traces from GPUs, witnesses from compilers, speeds, damaged input, figures, the
README.

Everything runs from the repository's root: `python -m tools.bench`, or, installed with `pip install -e .`, also `python
tools/bench.py`.
"""
