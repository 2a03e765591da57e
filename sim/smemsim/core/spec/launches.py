"""The limits of a launch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "DEFAULT_SHARED",
    "LARGE_CLUSTERS",
    "LAUNCH_LIMITS",
    "LOCAL_WINDOW",
    "PORTABLE_CLUSTER",
    "REGISTERS",
    "RESERVED_BARRIERS",
    "RESERVED_OFFSETS",
    "SHARED_WINDOW",
    "LaunchLimits",
    "Registers",
    "Residency",
]


class LaunchLimits(NamedTuple):
    """The largest grid, block and cluster, and how much local memory a thread may have."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    threads: int
    cluster: int
    local_bytes: int
    source: str


LAUNCH_LIMITS = LaunchLimits(
    grid=(2**31 - 1, 65535, 65535), block=(1024, 1024, 64), threads=1024, cluster=16, local_bytes=512 << 10,
    source="CUDA programming guide, technical specifications per compute capability",
)  # fmt: skip


# Architectures of which it is known that clusters of more CTAs than that exist (measured on an H200; documented for
# compute capability 10.0).
LARGE_CLUSTERS = ("sm_90a", "sm_100a", "sm_103a")
# CTAs of a cluster, if the kernel does not allow more (CUDA programming guide, thread block clusters)
PORTABLE_CLUSTER = 8
# bytes of shared memory that a kernel has without cudaFuncSetAttribute (CUDA programming guide, shared memory)
DEFAULT_SHARED = 48 << 10


class Residency(NamedTuple):
    """How much of a grid is on a multiprocessor at once: CTAs that poll what others write
    need these to be there too.
    """

    threads: int  # of a multiprocessor
    ctas: int
    shared_bytes: int
    reserved_bytes: int  # of each CTA


# The begins of the windows of generic addresses. Each has 2^32 bytes, so that .shared addresses with a rank fit. The
# numbers are made up: hardware has others, which the driver chooses, and no program may rely on them (PTX ISA 9.1
# §5.1). They are below all memory of arrays: Linux gives a process addresses from 2^47 downwards, and host memory
# that is bound to a GPU keeps its address.
SHARED_WINDOW, LOCAL_WINDOW = 0x1E00_0000_0000, 0x1D00_0000_0000

# %reserved_smem_offset_* of a kernel, in bytes of the shared window: seen on an H200 with driver 580.159.04, no trace
# of it is kept.
# From "1" to "end" lies what cooperative groups use for tiles of several warps (inferred: 32 bytes, and 8 for each of
# 32 warps in its headers).
# Their first 32 bytes, barriers, hold zeros when a CTA begins: from sm_80 on the headers of CUDA 13.0 do not initialise
# them (init_barriers, inferred).
RESERVED_BARRIERS = 32
RESERVED_OFFSETS = {"begin": 0, "end": 0x120, "cap": 0x400, "0": 0, "1": 0}


class Registers(NamedTuple):
    """The registers of a multiprocessor (32 bits each), how ptxas shares them out, and how
    many a thread has at most.
    """

    multiprocessor: int
    unit: int
    most: int
    source: str

    def at_entry(self, maxnreg: int, threads: int, ctas: int) -> int:
        """The registers of each thread at the start of a kernel with setmaxnreg. Arguments are .maxnreg, .maxntid and
        .minnctapersm (0: absent).

        The result is 0 if ptxas cannot know them. Then ptxas ignores setmaxnreg (C7508).

        >>> REGISTERS.at_entry(128, 256, 0), REGISTERS.at_entry(0, 384, 1), REGISTERS.at_entry(0, 384, 2), REGISTERS.at_entry(0, 384, 0)
        (128, 168, 80, 0)
        """
        count = maxnreg or (self.multiprocessor // (threads * ctas) if threads and ctas else 0)
        return min(count // self.unit * self.unit, self.most)


REGISTERS = Registers(
    65536,
    8,
    256,
    "compiled: what ptxas 13.0.88 says that it uses with each of the directives (sm_90a); PTX ISA 9.1 §9.7.19.5, CUDA programming guide",
)
