"""The cost of a launch, by line, as Nsight Compute would count it. It is counted by an observer of execution that does
not use the sanitizer.
"""

from smemsim.base.lazy_exports import door

__getattr__ = door(__name__, {"observer": ("Counting",), "limits": ("Limit", "limits_of"), "table": ("Counters",)})
