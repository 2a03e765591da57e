"""What a launch costs, by line, as Nsight Compute would count it: an observer of execution that knows nothing of the
sanitizer.
"""

from smemsim.base.lazy_exports import door

__getattr__ = door(__name__, {"observer": ("Counting",), "limits": ("Limit", "limits_of"), "table": ("Counters",)})
