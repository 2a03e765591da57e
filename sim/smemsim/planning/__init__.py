"""From an operand tile to everything a kernel author writes down: boxes, tensor map, descriptors, advances, layouts,
code.
"""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "arrangement": ("Arrangement", "GRAVE"),
        "code": ("LANGUAGES",),
        "fits": ("Fit", "fit"),
    },
)
