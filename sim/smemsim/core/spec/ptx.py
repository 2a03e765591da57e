"""The words of PTX that a reader must know: sizes of types, special registers, directives (PTX ISA 9.1, chapters 4, 5,
10 and 11).
"""

from __future__ import annotations

__all__ = [
    "CLOCKS", "CONSTANT_BYTES", "FROM_ONE_ON", "L2_LINE", "LINKAGE", "LONG_REGISTERS", "NEEDED", "NOT_TOGETHER", "OF_FUNCTIONS", "OPAQUE", "PARAMETER_BYTES", "PERFORMANCE", "SETMAXNREG",
    "SPACES", "SPECIAL_REGISTERS", "TYPE_BYTES", "VECTOR_BYTES", "WARP_SIZE",
]  # fmt: skip


WARP_SIZE = 32  # what the predefined constant WARP_SZ is (4.4)
SETMAXNREG = range(24, 257, 8)  # numbers of registers that setmaxnreg takes (9.7.19)
L2_LINE = 128  # bytes: the only size that applypriority and discard take (9.7.9; ptxas 13.0 refuses others)

CONSTANT_BYTES = 65536  # of the .const variables of a file (5.1.3)
# of an entry, from a version of PTX on (ptxas 13.0; 5.1.6.1 says the larger one alone)
PARAMETER_BYTES = {(0, 0): 4352, (8, 1): 32764}

_NUMBERS = {f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64)}

OPAQUE = ("texref", "samplerref", "surfref")
# Bytes of one element in memory (5.2.1, and the opaque handles of 5.3); a predicate has no place in memory.
TYPE_BYTES = _NUMBERS | {"b128": 16, "f16": 2, "f16x2": 4, "f32": 4, "f64": 8, "pred": 0} | dict.fromkeys(OPAQUE, 8)
VECTOR_BYTES = 16  # of a variable that is a vector (5.4.2), at the most

SPACES = ("global", "const", "shared", "local", "param")
LINKAGE = ("visible", "weak", "extern", "common")

# Directives between the parameters of a function and its body, for its launch or compilation (11.4, 11.7; .language
# is from tileiras 13.4), with the least and most numbers of each.
PERFORMANCE = {
    "abi_preserve": (1, 1), "abi_preserve_control": (1, 1), "blocksareclusters": (0, 0), "explicitcluster": (0, 0), "language": (0, 3),
    "maxclusterrank": (1, 1), "maxnreg": (1, 1), "maxntid": (1, 3), "minnctapersm": (1, 1), "noreturn": (0, 0), "reqnctapercluster": (1, 3),
    "reqntid": (1, 3),
}  # fmt: skip
FROM_ONE_ON = ("maxnreg", "maxntid", "minnctapersm", "reqntid")  # of which none is 0 (ptxas 13.0)
OF_FUNCTIONS = frozenset(
    ("abi_preserve", "abi_preserve_control", "noreturn")
)  # the others are directives of entries, except .language (also observed)
NEEDED = {"blocksareclusters": ("reqntid", "reqnctapercluster")}  # the required companion directive (also observed)
NOT_TOGETHER = (("maxntid", "reqntid"), ("maxclusterrank", "reqnctapercluster"))  # also observed

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")

CLOCKS = ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")

# Special registers of 64 bits; %gridid is read as 32 or 64.
LONG_REGISTERS = frozenset(("clock64", "globaltimer", "current_graph_exec", *(f"pm{i}_64" for i in range(8))))

# Chapter 10, without the percent sign. A vector is read whole or by its element.
SPECIAL_REGISTERS = frozenset(
    {
        *_VECTORS,
        *(f"{name}.{element}" for name in _VECTORS for element in "xyzw"),
        *("laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid"),
        *("is_explicit_cluster", "cluster_ctarank", "cluster_nctarank"),
        *(f"lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt")),
        *CLOCKS,
        *(f"pm{i}{width}" for i in range(8) for width in ("", "_64")),
        *(f"envreg{i}" for i in range(32)),
        *(f"reserved_smem_offset_{which}" for which in ("begin", "end", "cap", "0", "1")),
        *("total_smem_size", "aggr_smem_size", "dynamic_smem_size", "current_graph_exec"),
    }
)
