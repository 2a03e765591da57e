"""The cost of accesses, as Nsight Compute counts it: which lanes go together, what is counted, how sure that is, and
the names of ncu's metrics.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from smemsim.core.spec.grades import Grade

__all__ = [
    "ACCESS_COSTS",
    "COLUMNS",
    "COPY_ISSUE",
    "LANES",
    "LANES_TOGETHER",
    "OPERAND_BYTES",
    "PAIRED",
    "SECTOR",
    "TAG_LINE",
    "AccessCost",
    "Column",
    "Counts",
    "Sure",
]

LANES = 32  # of a warp
# bytes of global memory that are moved together: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"
SECTOR = 32
TAG_LINE = 128  # bytes of a cache line of L1, four sectors: the same chapter
OPERAND_BYTES = 128  # of wgmma's operands in shared memory that one wavefront reads: trace access_shared, 192 cases
# wavefronts that the hardware counter has for each cp.async besides those of its data: trace access_async
COPY_ISSUE = 4
WGMMA_ISSUE = 5  # and for each wgmma besides those of its operands: trace access_shared
# How many lanes go together, by the bytes of each; groups go one after the other. Trace access_shared and access_lines.
LANES_TOGETHER: dict[int, int] = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}
# Two groups of a load of 8 or 16 bytes go together if every active lane has the address of its neighbour (lane XOR
# n), or the neighbour is inactive.
PAIRED = (1, 2)


class Sure(enum.StrEnum):
    """How far a count can be relied on.

    >>> str(Sure.EXACT)
    'exact'
    """

    EXACT = "exact"  # equal to what the card counts, unless ptxas removes, merges or widens the access
    BOUND = "lower bound"  # the card counts as much or more
    NONE = "not countable"  # it depends on timing, on data that other threads store, or no counter shows it

    def __repr__(self) -> str:
        return repr(str(self))


class Counts(enum.StrEnum):
    """The things that are counted in the busiest bank of a group of lanes."""

    WORDS = "different words"  # lanes at one word are served together
    LANES = "lanes"  # each lane is served alone, at one word too
    BOTH = "lanes, at the source too"  # cp.async through L1: the banks of the cached line are read lane by lane as well
    NOTHING = "nothing"

    def __repr__(self) -> str:
        return repr(str(self))


class AccessCost(NamedTuple):
    """How one kind of access to shared memory is counted."""

    counts: Counts
    sure: Sure
    why: str  # for a bound and for what is not countable
    grade: Grade  # on sm_90a; inferred elsewhere
    source: str


_M, _E, _B, _N = Grade.MEASURED, Sure.EXACT, Sure.BOUND, Sure.NONE
# fmt: off
ACCESS_COSTS: dict[str, AccessCost] = {
    "ld":          AccessCost(Counts.WORDS, _E, "", _M, "trace access_shared"),
    "st":          AccessCost(Counts.WORDS, _E, "", _M, "trace access_shared"),
    "ldmatrix":    AccessCost(Counts.WORDS, _E, "", _M, "trace access_shared"),
    "stmatrix":    AccessCost(Counts.WORDS, _E, "", _M, "trace access_shared"),
    "atom":        AccessCost(Counts.LANES, _E, "", _M, "trace access_shared"),
    "cas":         AccessCost(Counts.LANES, _E, "", _M, "trace access_shared: twice what another atomic costs"),
    "one":         AccessCost(Counts.WORDS, _E, "", _M, "trace access_shared: red.add.u32 of the number 1 becomes ATOMS.POPC.INC"),
    "loop":        AccessCost(Counts.LANES, _N, "ptxas makes a loop of loads and compare-and-swap of it, whose length depends on what other lanes store", _M, "trace access_shared"),
    "uniform":     AccessCost(Counts.LANES, _N, "ptxas may add up the lanes of a warp first, if all of them have one address", _M, "trace launch_counters"),
    "cp.async.ca": AccessCost(Counts.BOTH,  _B, "the lanes of a group read several lines of global memory, which L1 looks up in turns", _M, "traces access_async and access_lines"),
    "cp.async.cg": AccessCost(Counts.NOTHING, _N, "L2 writes the data past the queue of the banks; ncu's source page shows nothing for some of these and the lanes' passes for others", _M, "traces access_async, access_lines and counted_kernels: the hardware counter is the same whatever the addresses"),
    "remote":      AccessCost(Counts.NOTHING, _N, "the other CTA's shared memory is reached through the cluster's network, in sectors", _M, "trace access_copies"),
    "local":       AccessCost(Counts.NOTHING, _N, "ptxas may keep the variable in registers", _M, "trace launch_counters"),
    "poll":        AccessCost(Counts.WORDS, _N, "how often a wait looks depends on time", _M, "trace launch_counters"),
}
# fmt: on


class Column(NamedTuple):
    """A column of the table of counters: what it counts and which metric of ncu equals it ("" where none does)."""

    name: str
    says: str
    metric: str
    unit: str


# fmt: off
COLUMNS: tuple[Column, ...] = (
    Column("executed",         "PTX instructions, one for each warp",                                   "", "warp instructions"),
    Column("lanes",            "active lanes of these, summed up",                                      "", "lanes"),
    Column("predicated_off",   "lanes that are there and whose predicate is false",                     "", "lanes"),
    Column("shared_requests",  "warp instructions that access shared memory with a lane",               "", "requests"),
    Column("wavefronts",       "passes through the banks of shared memory",                             "memory_l1_wavefronts_shared", "wavefronts"),
    Column("ideal_wavefronts", "passes that the bytes need without conflicts",                          "memory_l1_wavefronts_shared_ideal", "wavefronts"),
    Column("worst_degree",     "most passes of one group of lanes: the degree of the worst conflict",   "", "wavefronts"),
    Column("global_requests",  "warp instructions that access global memory with a lane",               "", "requests"),
    Column("sectors",          "32-byte sectors of global memory",                                      "memory_l2_theoretical_sectors_global", "sectors"),
    Column("ideal_sectors",    "sectors that the bytes need if they lie together",                      "memory_l2_theoretical_sectors_global_ideal", "sectors"),
    Column("local_requests",   "warp instructions that access local memory",                            "", "requests"),
    Column("local_sectors",    "32-byte sectors of local memory: word n of all lanes of a warp lies together", "", "sectors"),
    Column("cluster_bytes",    "bytes that threads access in the shared memory of other CTAs",          "", "bytes"),
    Column("operand_wavefronts", "passes that a matrix instruction reads its operands of shared memory with", "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum", "wavefronts"),
    Column("copied_bytes",     "bytes of TMA, bulk and asynchronous copies",                            "", "bytes"),
    Column("mmas",             "matrix instructions; of wgmma one for each warpgroup",                   "", "matrix instructions"),
    Column("flop",             "operations of matrix instructions: a product and a sum are two",        "", "operations"),
)
# fmt: on
