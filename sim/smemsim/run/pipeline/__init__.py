"""The pipeline of a kernel, computed from its barriers alone: an observer of execution that does not use the
sanitizer."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__, {"knowledge": ("Costs", "Filling", "Origin"), "lanes": ("Lanes", "Role", "Span"), "recorder": ("PipelineRecorder",)}
)
