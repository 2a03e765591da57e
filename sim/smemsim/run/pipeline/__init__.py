"""What a kernel's pipeline does, from its barriers alone: an observer of execution that knows nothing of the sanitizer."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__, {"knowledge": ("Costs", "Filling", "Origin"), "lanes": ("Lanes", "Role", "Span"), "recorder": ("PipelineRecorder",)}
)
