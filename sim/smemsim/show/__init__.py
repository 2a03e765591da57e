"""Pictures: terminal views, SVG and pages."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "accumulator": ("AccumulatorMap",),
        "tile": ("atoms_svg", "pattern_svg"),
        "transfer": ("TransferMap",),
    },
)
