"""Settings of every property: the same examples on every machine, and no clock."""

from hypothesis import settings

settings.register_profile("smemsim", deadline=None, derandomize=True)
settings.load_profile("smemsim")

collect_ignore = ["ptx/add.py"]  # needs Triton; its output is beside it
