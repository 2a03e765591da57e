"""The output of shipping compilers for Blackwell. It is no proof of what hardware does: it contradicts alternatives,
and refutes none.

`python -m tools.witnesses.compiled_words` runs the compilers again, if they are installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["COMPILED", "Compiled"]


class Compiled(NamedTuple):
    """Something that a compiler writes: which one, what, and `against` which alternatives it is; `words` are the
    numbers in it, by their names.
    """

    source: str
    says: str
    words: Mapping[str, int]
    against: tuple[str, ...]


CUTE, PTXAS = "CuTe DSL 4.8.1, kernels for sm_100a", "ptxas 13.0.88, machine code for sm_100a"

COMPILED: tuple[Compiled, ...] = (
    Compiled(
        CUTE,
        "Field.NEGATE_A sets bit 13 of the instruction descriptors of mxf8f6f4, mxf4 and mxf4nvf4, Field.NEGATE_B bit 14, and nothing else",
        {"negate_a": 1 << 13, "negate_b": 1 << 14},
        tuple(f"tcgen05.idesc={name}" for name in (
            "scaled_negate_a_up", "scaled_negate_b_down", "mxf4_negate_a_up", "mxf4_negate_b_up", "mxf4_negate_b_down")),
    ),
    Compiled(
        CUTE,
        "A of mxf4 in tensor memory: the address of the second 64 elements of K is 8 columns further",
        {"columns": 8},
        ("tcgen05.tensor_operands=a_4_bits_in_8",),
    ),
    Compiled(
        CUTE,
        "an MN-major tile of s8, 128 x 128 under 128B_ATOM_32B: SBO of its descriptor is 512, and in its layout k 4 of row 0 lies 512 bytes on, k 8 1024",
        {"descriptor": 0x2000402000000000, "k 4": 512, "k 8": 1024},
        ("operand.atom_32b=8_rows",),
    ),
    Compiled(
        PTXAS,
        "tcgen05.alloc, of every number of columns and of pairs, becomes UTCATOMSWS.FIND_AND_SET.ALIGN, an instruction that has .ALIGN as a choice",
        {},
        ("tcgen05.alloc=unaligned",),
    ),
)  # fmt: skip
