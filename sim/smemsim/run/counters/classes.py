"""The counters' view of a PTX instruction: its class, the rule that counts its access, the operations of a matrix
instruction.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from smemsim.core.ptx.module import Immediate, Instruction, Register, Vector
from smemsim.core.spec.wgmma import OPERAND_ROW_BYTES, WGMMA_M, WGMMA_THREADS

__all__ = ["MULTIPLIES", "Product", "class_of", "counted_ones", "op_of", "product_of"]

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_CLASSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("matrix", ("mma", "wmma", "wgmma", "tcgen05")),
    ("copy", ("cp", "red.async", "st.async")),
    ("barrier", ("bar", "barrier", "mbarrier", "fence", "membar", "griddepcontrol", "elect")),
    ("atomic", ("atom", "red", "multimem")),
    ("load", ("ld", "ldu", "ldmatrix", "tex", "tld4", "suld")),
    ("store", ("st", "stmatrix", "sust", "sured")),
    ("control", ("bra", "brx", "call", "ret", "exit", "trap", "nanosleep")),
    ("lanes", ("shfl", "vote", "match", "redux", "activemask")),
)
MULTIPLIES = ("mma", "wmma", "wgmma")  # whose shape is in their name
_LOOP_TYPES = (
    "f32",
    "f64",
    "f16",
    "f16x2",
    "bf16",
    "bf16x2",
    "b64",
    "u64",
    "s64",
)  # of a shared atomic that no instruction of the machine has


class Product(NamedTuple):
    """One matrix instruction: threads that issue it together, its operations, the bytes of A and B that it reads from
    shared memory.
    """

    threads: int
    flop: int
    a_bytes: int
    b_bytes: int


def class_of(i: Instruction) -> str:
    """The class of an instruction: matrix, copy, barrier, atomic, load, store, control, lanes or arithmetic."""
    return _class(i.op, i.modifiers[0] if i.modifiers else "")


@functools.cache
def _class(op: str, modifier: str) -> str:
    name = f"{op}.{modifier}"
    return next((kind for kind, ops in _CLASSES if op in ops or name in ops), "arithmetic")


def op_of(i: Instruction) -> str:
    """The key of `ACCESS_COSTS` that counts its access of shared memory."""
    words = i.modifiers
    if i.op == "cp":
        return "cp.async.cg" if "cg" in words else "cp.async.ca"
    if "shared::cluster" in words:
        return "remote"
    if i.op in ("atom", "red"):
        return _atomic(i)
    if i.op in ("ldmatrix", "stmatrix", "st"):
        return i.op
    return "ld" if i.op in ("ld", "ldu") else "matrix"


def counted_ones(body: Iterable[Instruction]) -> set[int]:
    """The identities of atomics that add the number 1 and whose result nothing reads: ptxas makes another instruction
    of them (`ACCESS_COSTS["one"]`).
    """
    ones, others, read, found = set(), set(), set(), []
    for i in body:
        for slot, gives in i.mentions:
            if not gives:
                read.add(slot)
            elif i.op == "mov" and isinstance(i.operands[-1], Immediate) and i.operands[-1].value == 1:
                ones.add(slot)
            else:
                others.add(slot)
        if i.op in ("atom", "red") and "add" in i.modifiers and i.modifiers[-1] in ("u32", "s32"):
            found.append(i)
    return {id(i) for i in found if _adds_one(i, ones - others) and (i.op == "red" or not _result(i) & read)}


def _adds_one(i: Instruction, ones: set[int]) -> bool:
    last = i.operands[-1]
    return last.value == 1 if isinstance(last, Immediate) else isinstance(last, Register) and last.slot in ones


def _result(i: Instruction) -> set[int]:
    return {slot for slot, gives in i.mentions if gives}


def _atomic(i: Instruction) -> str:
    if "cas" in i.modifiers:
        return "cas"
    kind = i.modifiers[-1]
    if "exch" not in i.modifiers and kind in _LOOP_TYPES and ("add" in i.modifiers or kind[-2:] == "64"):
        return "loop"
    return "atom"


def product_of(i: Instruction) -> Product | None:
    """The product that a matrix instruction of registers or of wgmma computes. None for others, tcgen05 among them,
    whose shape is in a register.
    """
    if i.op not in MULTIPLIES or (i.op == "wmma" and "mma" not in i.modifiers):
        return None
    shape = next((found for word in i.modifiers if (found := _SHAPE.fullmatch(word))), None)
    if shape is None:
        return None
    m, n, k = (int(x) for x in shape.groups())
    if i.op != "wgmma":
        return Product(32, 2 * m * n * k, 0, 0)
    is_sparse = "sp" in i.modifiers
    in_registers = len(i.operands) > 1 and isinstance(i.operands[1], Vector)
    a_bytes = 0 if in_registers else WGMMA_M * OPERAND_ROW_BYTES
    return Product(WGMMA_THREADS, 2 * m * n * k, a_bytes, n * OPERAND_ROW_BYTES * (2 if is_sparse else 1))
