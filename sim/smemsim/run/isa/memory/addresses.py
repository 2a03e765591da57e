"""Addresses from one state space to another: cvta, isspacep, mapa, getctarank (PTX ISA 9.1 §9.7.9); createpolicy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Immediate, Instruction, Symbol
from smemsim.core.spec.launches import LOCAL_WINDOW, SHARED_WINDOW
from smemsim.run.engine.wave import RANK_SHIFT
from smemsim.run.isa.memory.spaces import shared_address, space_modifier
from smemsim.run.isa.registers import Read, constant, dtype_of
from smemsim.run.isa.registry import Plain, Step, implements, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker


_BASES = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW, "local": LOCAL_WINDOW}
_SAME = ("global", "const")
_BANK = ("param", "param::entry")


@implements("cvta")
def build_cvta(i: Instruction, c: Linker) -> Step:
    """`cvta.space` makes a generic address, `cvta.to.space` takes one."""
    rest = list(i.modifiers)
    to = "to" in rest
    if to:
        rest.remove("to")
    space = space_modifier(rest)
    if len(rest) != 1 or rest[0] not in ("u32", "u64") or space not in (*_BASES, *_SAME, *_BANK):
        raise unmodelled(i)
    kind = rest[0]
    if kind == "u32":
        raise unmodelled(i, "32-bit generic addresses")
    source = i.operands[1]
    if space in _BANK and isinstance(source, Symbol) and c.place(source.name).space == "local":
        space = "local"
    read, write, base = c.read(source, kind), c.write(i.operands[0], kind), np.uint64(_BASES.get(space, 0))
    if space in _BANK:  # a place in the bank, which fits into 32 bits, against a generic address

        def of_bank(x: Wave) -> None:
            bank = np.uint64(x.launch.parameter_address)
            write(x, read(x) - bank if to else read(x) + bank)

        return of_bank

    # ptxas puts the upper half of the window there, or leaves it out: what has it already keeps it
    if base == SHARED_WINDOW:

        def of_shared(x: Wave) -> None:
            at = shared_address(np.asarray(read(x)).view(np.int64)).view(np.uint64)
            write(x, at if to else np.where(at >> 32 == 0, at | base, at))

        return of_shared

    def convert(x: Wave) -> None:
        value = read(x)
        write(x, value - base if to else value + base if base else value)

    return convert


@implements("isspacep")
def build_isspacep(i: Instruction, c: Linker) -> Step:
    """Is a generic address in a state space?"""
    rest = list(i.modifiers)
    space = space_modifier(rest)
    if rest or space is None:
        raise unmodelled(i)
    read, write = c.read(i.operands[1], "u64"), c.write(i.operands[0], "pred")

    def test(x: Wave) -> None:
        at = np.broadcast_to(np.asarray(read(x), np.uint64), (x.n,))
        window = at >> np.uint64(32)
        if space == "local":
            write(x, window == LOCAL_WINDOW >> 32)
        elif space in ("shared", "shared::cta", "shared::cluster"):
            inside = window == SHARED_WINDOW >> 32
            rank = (at & np.uint64(0xFFFFFFFF)) >> np.uint64(RANK_SHIFT)
            own = (x.grid.rank_bits[x.sel] >> RANK_SHIFT).astype(np.uint64)
            write(x, inside & ((rank < x.launch.cluster_size) if space == "shared::cluster" else (rank == own)))
        else:
            rest_of_it = (window != LOCAL_WINDOW >> 32) & (window != SHARED_WINDOW >> 32)
            first = np.uint64(x.launch.parameter_address)
            parameter = (at >= first) & (at < first + np.uint64(max(1, len(x.launch.parameters))))
            constant = np.zeros(x.n, bool)
            for v in c.places.globals:
                if v.space == "const":
                    begin = np.uint64(x.launch.addresses[v.name])
                    constant |= (at >= begin) & (at < begin + np.uint64(max(1, v.size)))
            write(x, constant if space == "const" else rest_of_it & ~constant if space == "global" else parameter)

    return test


@implements("mapa")
def build_mapa(i: Instruction, c: Linker) -> Step:
    """`mapa d, a, rank`: the address of `a` in the shared window of the CTA of this rank. A rank beyond the cluster
    gives an address too; to use it ends the kernel.
    """
    rest = list(i.modifiers)
    space = space_modifier(rest)
    if len(rest) != 1 or rest[0] not in ("u32", "u64") or space not in (None, "shared::cluster") or (space is None and rest[0] == "u32"):
        raise unmodelled(i)
    kind = dtype_of(rest[0]).type
    read, rank, write = c.read(i.operands[1], rest[0]), c.read(i.operands[2], "u32"), c.write(i.operands[0], rest[0])
    clear = kind(~(0xFF << RANK_SHIFT) & (0xFFFFFFFF if kind is np.uint32 else 0xFFFFFFFFFFFFFFFF))

    def map_(x: Wave) -> None:
        # one byte of the address is replaced (PRMT of ptxas 13.0.88)
        to = np.asarray(rank(x)).astype(kind) & kind(0xFF)
        write(x, (read(x) & clear) | (to << kind(RANK_SHIFT)))

    return _recorded(i, rank, map_)


def _recorded(i: Instruction, rank: Read, step: Plain) -> Plain:
    """A mapa that keeps for the launch which CTAs execute it, and whether one ever asks for another CTA's window than
    its own.
    """

    def both(x: Wave) -> None:
        if x.launch.cluster_size > 1:
            own = (x.grid.rank_bits[x.sel] >> RANK_SHIFT).astype(np.int64)
            asked = np.asarray(rank(x)).astype(np.int64)
            x.launch.result.mapped.note(i.line, distinct(own).tolist(), crossed=bool((asked != own).any()))
        step(x)

    return both


@implements("getctarank")
def build_getctarank(i: Instruction, c: Linker) -> Step:
    """The rank of the CTA in whose window an address lies."""
    rest = list(i.modifiers)
    space = space_modifier(rest)
    if len(rest) != 1 or rest[0] not in ("u32", "u64") or space not in (None, "shared::cluster"):
        raise unmodelled(i)
    read, write = c.read(i.operands[1], rest[0]), c.write(i.operands[0], "u32")

    def rank(x: Wave) -> None:
        write(x, ((np.asarray(read(x)).astype(np.uint64) >> np.uint64(RANK_SHIFT)) & np.uint64(0xFF)).astype(np.uint32))

    return rank


@implements("createpolicy")
def build_createpolicy(i: Instruction, c: Linker) -> Step:
    """A cache policy: a word without another effect that a kernel can see. Its bits were measured on an H200 (M17)."""
    words = list(i.modifiers)
    if words[-1] != "b64" or words[0] not in ("fractional", "range", "cvt"):
        raise unmodelled(i)
    write = c.write(i.operands[0], "b64")
    if words[0] == "cvt":
        read = c.read(i.operands[1], "b64")
        return lambda x: write(x, read(x))
    kept, *others = [word.removeprefix("L2::") for word in words if word.startswith("L2::")] or [""]
    if kept not in _KEPT or set(others) - {"evict_first", "evict_unchanged"}:
        raise unmodelled(i)
    upper = _KEPT[kept] + ("evict_first" in others)
    if words[0] == "range":  # what of the address and the sizes is in it is not modelled
        return lambda x: write(x, np.uint64(upper + 8 << 56))
    if words[0] == "fractional" and len(i.operands) > 1:
        part = c.read(i.operands[1], "f32")
        if isinstance(i.operands[1], Immediate) and not 0 < float(constant(i.operands[1], "f32")) <= 1:
            raise InputError(f"the fraction {constant(i.operands[1], 'f32')}: needs a number above 0, at most 1.0; ptxas refuses others")
        return lambda x: write(x, _policy(upper, part(x)))
    return lambda x: write(x, _policy(upper, np.float32(1)))


# the upper byte of a policy
_KEPT = {"evict_unchanged": 0x10, "evict_first": 0x12, "evict_last": 0x14, "evict_normal": 0x16}


def _policy(upper: int, part: Any) -> np.ndarray:
    """The word for a fraction of the accesses, in sixteenths."""
    sixteenths = np.clip(np.ceil(np.nan_to_num(np.asarray(part, np.float64)) * 16), 1, 16).astype(np.uint64) - np.uint64(1)
    found: np.ndarray = np.uint64(upper << 56) | sixteenths << np.uint64(52)
    return found
