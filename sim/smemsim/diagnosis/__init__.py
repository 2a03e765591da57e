"""Judgement: what is wrong with a scenario, a run or a result, which field it is, and what would be right."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "numbers": ("Rounding", "Tolerance"),
        "outputs": ("Output", "Wanted"),
        "pipeline": ("Pipeline",),
        "progress": ("Progress",),
        "scenario": ("STEPS", "TABLES", "json_schema", "read_scenario"),
    },
)
