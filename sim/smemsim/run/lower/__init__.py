"""From PTX to a program: calls inlined, variables placed, products fused, every instruction made a step."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "fused": ("fuse",),
        "program": ("link",),
    },
)
