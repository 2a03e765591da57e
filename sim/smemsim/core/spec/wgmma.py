"""The wgmma instructions of sm_90a. Rows have types, shapes, transposes, signs and selectors.

    wgmma.mma_async{.sp}.sync.aligned.m64nNkK{.satfinite}.D.A.B{.and.popc}  d, a, b {, sp-meta, sp-sel}, scale-d {, imm-scale-a, imm-scale-b
                                                                           {, imm-trans-a, imm-trans-b}}

Sources: PTX ISA 9.1 §9.7.15.2 (shapes), 9.7.15.5 (dense), 9.7.15.6 (sparse). ptxas 13.0.88 assembles every row below
and refuses all others.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ASCENDING_METADATA_2_4",
    "A_REGISTERS",
    "INVALID_METADATA_2_4",
    "IN_FLIGHT",
    "METADATA_1_2",
    "OPERAND_ROW_BYTES",
    "UNFENCED",
    "UNFENCED_A",
    "UNFENCED_PART",
    "UNFENCED_SHAPE",
    "WGMMA_M",
    "WGMMA_THREADS",
    "WGMMA_TYPES",
    "Guarded",
    "WgmmaTypes",
]


WGMMA_M = 64  # rows of A and D, 16 a warp; PTX ISA 9.1 §9.7.15.2
WGMMA_THREADS = 128  # four warps; PTX ISA 9.1 §9.7.15.1
A_REGISTERS = 4  # .b32 of each thread that hold A, dense and sparse; PTX ISA 9.1 §9.7.15.5.1.1, 9.7.15.6.2
# of K that an instruction reads of every row of A as stored, and of dense B; of B twice that with .sp
OPERAND_ROW_BYTES = 32

EVERY_8 = tuple(range(8, 257, 8))
# The shape table (PTX ISA 9.1 §9.7.15.2) ends at n256, the syntax block of 9.7.15.5.2 at n224 for s8 and u8. ptxas
# 13.0.88 accepts 240 and 256, and an H200 runs them (trace wgmma_s32).
INTEGER_N = (8, 16, 24, *range(32, 257, 16))

# Four bits of metadata stand for one group of K; PTX ISA 9.1 §9.7.15.6.1 calls the rest undefined. An H200 has a
# meaning for all sixteen values (`layout.fragments.sparse_k`, trace wgmma_metadata).
ASCENDING_METADATA_2_4 = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)  # the lower place first
INVALID_METADATA_2_4 = frozenset((0b0000, 0b0101, 0b1010, 0b1111))  # both elements in one place
# of tf32, the only meaningful values: the element is the group's first or second
METADATA_1_2 = frozenset((0b0100, 0b1110))


class WgmmaTypes(NamedTuple):
    """One syntax of the instruction: the types that go together, and its operands.

    The dense K is `k`, twice that with .sp. In each `group` elements of K share four bits of metadata (0: no .sp). Half
    of them are stored. Legal values of sp-sel are `selectors`. Operands in shared memory have imm-trans if `transposes`
    is set. Both have imm-scale if `signs` is set.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    d: tuple[str, ...]
    bits: int
    n: tuple[int, ...]
    group: int
    selectors: tuple[int, ...]
    transposes: bool
    signs: bool
    satfinite: bool
    source: str

    @property
    def k(self) -> int:
        """K of the dense instruction: 32 bytes of each row.

        >>> [t.k for t in WGMMA_TYPES]
        [16, 16, 8, 32, 32, 256]
        """
        return 8 * OPERAND_ROW_BYTES // self.bits


_FP8, _INT8 = ("e4m3", "e5m2"), ("s8", "u8")
# fmt: off
WGMMA_TYPES: tuple[WgmmaTypes, ...] = (  # any type of A with any of B and any of D in its row
    #           A          B          D               bits  N          group  sp-sel  trans  signs  satfinite
    WgmmaTypes(("f16",),  ("f16",),  ("f16", "f32"),  16,   EVERY_8,   4,     (0, 1), True,  True,  False, "PTX ISA 9.1 §9.7.15.5.2, 9.7.15.6.3"),
    WgmmaTypes(("bf16",), ("bf16",), ("f32",),        16,   EVERY_8,   4,     (0, 1), True,  True,  False, "PTX ISA 9.1 §9.7.15.5.2, 9.7.15.6.3"),
    WgmmaTypes(("tf32",), ("tf32",), ("f32",),        32,   EVERY_8,   2,     (0, 1), False, True,  False, "PTX ISA 9.1 §9.7.15.5.2, 9.7.15.6.3"),
    WgmmaTypes(_FP8,      _FP8,      ("f16", "f32"),   8,   EVERY_8,   4,     (0,),   False, True,  False, "PTX ISA 9.1 §9.7.15.5.2, 9.7.15.6.3"),
    WgmmaTypes(_INT8,     _INT8,     ("s32",),         8,   INTEGER_N, 4,     (0,),   False, False, True,  "PTX ISA 9.1 §9.7.15.2, 9.7.15.6.3"),
    WgmmaTypes(("b1",),   ("b1",),   ("s32",),         1,   INTEGER_N, 0,     (),     False, False, False, "PTX ISA 9.1 §9.7.15.5.2"),
)
# fmt: on


class Guarded(NamedTuple):
    """The code of ptxas for an instruction that uses a register of a wgmma in flight. PTX ISA 9.1 §9.7.15.7 leaves it
    undefined.

    If `is_safe` is set, the machine code is right anyway. The reason is `does`. The messages that ptxas prints are
    `told`.
    """

    does: str
    told: tuple[str, ...]
    is_safe: bool


# Read off the machine code of small kernels: ptxas 13.0.88, sm_90a, -O0 to -O3 (compiled). It sees D of a wgmma as a
# value like any other. Only of A in registers it does not: a loop that loads A anew without wgmma.wait_group overwrites
# the registers that the last round's wgmma may still read. A wgmma may also take D of another one as A ("multiplied").
# If a wgmma.fence is between the two, and A is a group of four registers of D or begins with D, ptxas adds no wait, and
# an H200 multiplies old values (trace wgmma_in_flight).
# fmt: off
IN_FLIGHT: dict[str, Guarded] = {
    "D read":    Guarded("ptxas inserts the wait before the first use, or serialises all wgmma of the function", ("C7517", "C7514"), True),
    "D copied":  Guarded("ptxas moves the copy after the wait, or inserts a wait if the copied registers change earlier", ("C7517",), True),
    "D written": Guarded("ptxas takes another register, or serialises all wgmma of the function", ("C7515", "C7511"), True),
    "A read":    Guarded("wgmma only reads this register (A), and ptxas leaves this instruction as it is", (), True),
    "A written": Guarded("ptxas leaves the write as it is", (), False),
    "D multiplied": Guarded("ptxas serialises all wgmma of the function", ("C7513", "C7511"), True),
    "D multiplied, fenced": Guarded("ptxas leaves the wgmma as it is, and an H200 then reads A too early", (), False),
    "A accumulated": Guarded("ptxas serialises all wgmma of the function", ("C7513",), True),
}
# fmt: on
# For registers of A or D that were written after the last wgmma.fence (-O1 to -O3; compiled).
UNFENCED = Guarded("ptxas inserts warpgroup.arrive before the wgmma", ("C7519",), True)
# The same if an earlier wgmma has written them as its D. They are A now, or D of another shape, or D whose registers
# are others or in another order. Without a fence between two shapes, an H200 leaves the same bytes. In the last case
# most kernels leave others (trace wgmma_in_flight).
UNFENCED_A = Guarded("ptxas serialises all wgmma of the function", ("C7513",), True)
UNFENCED_SHAPE = Guarded("ptxas leaves the wgmma as they are, and an H200 adds right", (), True)
UNFENCED_PART = Guarded("ptxas copies registers to and fro, and without the fence the copies are wrong", ("C7511",), False)
