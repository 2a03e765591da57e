"""Evidence: traces of what hardware did, launch files, and their replay against the model."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "format": ("Suite", "find_suites", "load_suite", "write_suite"),
        "launches": ("LaunchFile", "RecordedLaunches", "load_launch_file", "read_launch_file", "sample_places"),
        "recipes": ("array_of", "random_bits"),
        "regrade": ("patch", "regraded"),
        "replay": ("replay_suite",),
        "settle": ("OPEN", "REFUTED", "SHOWN", "Settled", "Settlement", "settle_suites"),
    },
)
