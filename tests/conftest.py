"""Settings of every property: the same examples on every machine, and no clock. And little looking for garbage.

`pytest tests --hypothesis-profile=nightly` draws other examples every time (`--hypothesis-seed=N`: those of a seed). What it finds becomes an
`@example` of the test that failed, together with the repair, so that the examples which never change hold it from then on.
"""

import gc

from hypothesis import settings

settings.register_profile("smemsim", deadline=None, derandomize=True)
settings.register_profile("nightly", deadline=None, derandomize=False, database=None, print_blob=True)
settings.load_profile("smemsim")

# The package, its tests and what numba compiles live to the end: going through them again and again is a tenth of the time.
gc.set_threshold(200_000, 20, 100)

collect_ignore = ["ptx/add.py"]  # needs Triton; its output is beside it
