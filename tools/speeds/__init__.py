"""The races of `tools/bench.py`, each between smemsim and a baseline that is timed in the same run."""
