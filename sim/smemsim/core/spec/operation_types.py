"""The types of arithmetic, warp-wide and atomic instructions, loads and stores. For `setp`, `set`, `selp` and `slct`:
those of the operands.

*Compiled*: ptxas 13.0.88 accepts these for sm_100a and refuses all others (PTX ISA 9.1, chapter 9.7). Pairs of f32 are
sm_100a's.
"""

from __future__ import annotations

__all__ = [
    "ATOMIC_TYPES",
    "ATOMIC_VECTORS",
    "LOAD_STORE_TYPES",
    "MOST_OPERANDS",
    "OPERATION_TYPES",
    "OTHER_TYPES",
    "REDUX_TYPES",
    "SET_TYPES",
    "VECTOR_BYTES",
    "WIDE_VECTOR_BYTES",
]


_16_32_64 = ("u16", "s16", "u32", "s32", "u64", "s64")
_32_64 = ("u32", "s32", "u64", "s64")
_PAIRS = ("u16x2", "s16x2")
_BITS = ("b16", "b32", "b64")
_FLOATS = ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")
_VALUES = (*_BITS, *_16_32_64, "f32", "f64")

# fmt: off
OPERATION_TYPES: dict[str, tuple[str, ...]] = {
    "add": (*_16_32_64, *_PAIRS, *_FLOATS, "f32x2"),
    **dict.fromkeys(("sub", "mul"),           (*_16_32_64, *_FLOATS, "f32x2")),
    **dict.fromkeys(("min", "max"),           (*_16_32_64, *_PAIRS, *_FLOATS)),
    **dict.fromkeys(("abs", "neg"),           ("s16", "s32", "s64", *_FLOATS)),
    **dict.fromkeys(("mad", "div"),           (*_16_32_64, "f32", "f64")),
    **dict.fromkeys(("rem", "sad"),           _16_32_64),
    **dict.fromkeys(("addc", "subc", "madc", "bfe", "bfind"), _32_64),
    "fma": (*_FLOATS, "f32x2"),
    **dict.fromkeys(("rcp", "sqrt", "rsqrt"), ("f32", "f64")),
    **dict.fromkeys(("and", "or", "xor", "not"), ("pred", *_BITS)),
    "cnot": _BITS,
    **dict.fromkeys(("popc", "clz", "brev", "bfi"), ("b32", "b64")),
    **dict.fromkeys(("bmsk", "fns", "prmt", "lop3", "shf"), ("b32",)),
    "szext": ("u32", "s32"),
    "shl": _BITS,
    "shr": (*_BITS, *_16_32_64),
    **dict.fromkeys(("selp", "slct"),         _VALUES),
    "setp": (*_VALUES, "f16", "f16x2", "bf16", "bf16x2"),
}

# The types of further instructions, all that any form has (compiled: ptxas 13.0.88).
OTHER_TYPES: dict[str, tuple[str, ...]] = {
    **OPERATION_TYPES,
    **dict.fromkeys(("elect", "isspacep", "applypriority", "discard"), ()),
    **dict.fromkeys(("activemask", "prmt", "shfl"), ("b32",)),
    **dict.fromkeys(("alloca", "cvta", "getctarank", "mapa", "stackrestore", "stacksave"), ("u32", "u64")),
    **dict.fromkeys(("cos", "lg2", "sin"), ("f32",)),
    **dict.fromkeys(("dp2a", "dp4a", "mad24", "mul24"), ("u32", "s32")),
    **dict.fromkeys(("ex2", "tanh"), ("f16", "f16x2", "bf16", "bf16x2", "f32")),
    "copysign": ("f32", "f64"),
    "createpolicy": ("b64",),
    "match": ("b32", "b64"),
    "movmatrix": ("b16",),
    "nanosleep": ("u32",),
    "redux": ("u32", "s32", "b32", "f32"),
    "testp": ("f32", "f64"),
    "vote": ("pred", "b32"),
}

# set.CMP.RESULT.OPERANDS: results by the type of the operands.
SET_TYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_VALUES, ("u32", "s32", "f32", "f16", "bf16")),
    "f16":    ("u16", "s16", "u32", "s32", "f16", "bf16"),
    "bf16":   ("u16", "s16", "u32", "s32", "bf16"),
    "f16x2":  ("u32", "s32", "f16x2"),
    "bf16x2": ("u32", "s32", "bf16x2"),
}

REDUX_TYPES: dict[str, tuple[str, ...]] = {  # of redux.sync; sm_100a also has min and max of f32
    **dict.fromkeys(("add", "min", "max"), ("u32", "s32")),
    **dict.fromkeys(("and", "or", "xor"),  ("b32",)),
}

# atom and red, by operation (PTX ISA 9.1 §9.7.13.5), and of their vectors how long they may be.
ATOMIC_TYPES: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"),
    **dict.fromkeys(("min", "max"),       _32_64),
    **dict.fromkeys(("inc", "dec"),       ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    "exch": ("b32", "b64", "b128"),
    "cas":  ("b16", "b32", "b64", "b128"),
}
_VECTORS_OF_HALVES = {"f16": (2, 4, 8), "bf16": (2, 4, 8), "f16x2": (2, 4), "bf16x2": (2, 4)}
ATOMIC_VECTORS: dict[str, dict[str, tuple[int, ...]]] = {
    "add": {"f32": (2, 4), **_VECTORS_OF_HALVES},
    **dict.fromkeys(("min", "max"), _VECTORS_OF_HALVES),
}

# How many operands there are at the most, by the beginning of a name, of which the longest counts. The builders of
# other instructions count theirs. A result with its predicate is one operand. *Compiled*: ptxas 13.0 refuses more.
MOST_OPERANDS = {
    **dict.fromkeys(("exit", "trap", "brkpt", "membar", "griddepcontrol", "ret", "fence", "barrier.cluster", "cp.async.commit_group", "cp.async.wait_all",
                     "cp.async.bulk.commit_group", "wgmma.fence", "wgmma.commit_group", "tcgen05.wait::ld", "tcgen05.wait::st", "tcgen05.fence::before_thread_sync",
                     "tcgen05.fence::after_thread_sync", "tcgen05.relinquish_alloc_permit"), 0),
    **dict.fromkeys(("activemask", "bra", "bar.warp", "prefetch", "prefetchu", "wgmma.wait_group", "mbarrier.inval", "nanosleep",
                     "cp.async.wait_group", "cp.async.mbarrier", "ret.#frame", "stacksave", "stackrestore"), 1),
    **dict.fromkeys(("brx", "cvta", "elect", "isspacep", "movmatrix", "createpolicy.fractional", "createpolicy.cvt", "mbarrier.init", "mbarrier.pending_count",
                     "mbarrier.complete_tx", "mbarrier.expect_tx", "getctarank", "fence.proxy.tensormap::generic"), 2),
    **dict.fromkeys(("alloca", "mapa", "match", "mbarrier.test_wait", "redux", "vote"), 3),
    **dict.fromkeys(("createpolicy.range", "mbarrier.try_wait", "cvt.pack", "call"), 4),
    "shfl": 5,
}

# of the longest vector that ld and st take; the wide ones in global memory, from sm_100 on
VECTOR_BYTES, WIDE_VECTOR_BYTES = 16, 32
LOAD_STORE_TYPES = (*(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)), "f32", "f64", "b128")
# fmt: on
