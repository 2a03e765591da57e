"""What CTAs of a cluster do with each other's windows: addresses of mapa that never leave the CTA."""

from __future__ import annotations

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.ptx.module import Address, Instruction, Operand, Register, Vector
from smemsim.run.engine.launch import Launch

__all__ = ["own_ranks"]
DATA = {"ld", "st", "atom", "red"}


SPACES = frozenset(("global", "shared", "shared::cta", "local", "param", "const"))
MOVES = {"mov", "add", "sub", "mad", "or", "cvt"}  # that make an address of another


HOPS = 4


def own_ranks(launch: Launch) -> list[Finding]:
    """X019 for each mapa that CTAs of all ranks execute, each with its own rank, where data is read or written through
    the address.
    """
    everybody = frozenset(range(launch.cluster_size))
    lines = {line for line, (ranks, crossed) in launch.result.mapped.items() if ranks == everybody and not crossed}
    body = launch.program.inlined.body
    return [
        at_instruction(
            "X019",
            i,
            f"all {launch.cluster_size} CTAs of the cluster give mapa their own rank",
            "give mapa the rank of the CTA that is meant; in a pair, that of the other CTA is %cluster_ctarank ^ 1",
            why="each CTA then accesses its own shared memory through the address",
        )
        for i in (body if lines else ())
        if i.op == "mapa" and i.line in lines and _is_used_for_data(body, i)
    ]


def _is_used_for_data(body: list[Instruction], mapa: Instruction) -> bool:
    """Does a load, store or atomic of .shared::cluster (or a generic one, where mapa makes a generic address) take the
    address, or one made of it?
    """
    slots, is_generic = _slots(mapa.operands[0]), "shared::cluster" not in mapa.modifiers
    for _ in range(HOPS):
        slots |= {s for i in body if i.op in MOVES and any(slots & _slots(o) for o in i.operands[1:]) for s in _slots(i.operands[0])}
    return any(
        i.op in DATA
        and ("shared::cluster" in i.modifiers or (is_generic and SPACES.isdisjoint(i.modifiers)))
        and any(isinstance(o, Address) and slots & _slots(o) for o in i.operands)
        for i in body
    )


def _slots(operand: Operand) -> set[int]:
    if isinstance(operand, Address):
        return _slots(operand.base)
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return {item.slot for item in items if isinstance(item, Register)}
