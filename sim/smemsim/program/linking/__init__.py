"""From PTX to a program: calls inlined, variables placed, products fused, every instruction made a step."""

from smemsim.door import door

__getattr__ = door(
    __name__,
    {
        "fused": ("fuse",),
        "program": ("link",),
    },
)
