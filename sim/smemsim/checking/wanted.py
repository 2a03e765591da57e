"""One operand of a scenario as something to find descriptors for: what lies in shared memory when it is read, and what it was meant to be."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.checking.buffers import buffers_of
from smemsim.checking.instructions import kind_of_step
from smemsim.checking.reads import made_words, meant_of, packing_of
from smemsim.checking.scenario import MOST, MOST_ELEMENTS, extents_of, run_steps
from smemsim.checking.tensors import tensors_of
from smemsim.errors import InputError
from smemsim.scenario.reader import read_scenario
from smemsim.solve.atoms import Shape
from smemsim.solve.inverse import locate
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format

__all__ = ["wanted_of"]


def wanted_of(scenario: Any, where: str) -> tuple[Shape, np.ndarray, np.ndarray]:
    """(the operand's shape, the global byte that lies at every shared address, that of every element (blocks, steps, rows, k)).

    Blocks and K steps are those of the operand's words. Without words: as many K steps, and blocks of these, as have all their elements in
    shared memory, at least one.
    """
    raw = read_scenario(scenario)
    match = re.fullmatch(r"step\[(\d+)\]\.([ab])", where.strip())
    steps = raw.get("step", [])
    known = [f"step[{i}].{side}" for i, step in enumerate(steps) for side in "ab" if "meant" in step.get(side, {})]
    if match is None or where.strip() not in known:
        raise InputError(f"operand {shown(where)}: needs one that says what it was meant to be; there are {', '.join(known) or 'none'}")
    number, side = int(match[1]), match[2]
    step, operand = steps[number], steps[number][side]
    machine = run_steps({**raw, "step": steps[:number]})
    source, arch = machine.source, architecture(raw["arch"])
    rows, k = extents_of(raw, step, side, where)
    tensor = tensors_of(raw)[operand["meant"]["tensor"]]
    made = made_words(operand, buffers_of(raw), where)

    def meant(blocks: int, count: int) -> np.ndarray:
        if blocks * count * rows * k > MOST_ELEMENTS:
            raise InputError(f"{where}: {blocks * count} instructions of {rows} x {k} elements; a tile has at most {MOST_ELEMENTS:,}")
        return meant_of(operand, tensor, (blocks, count), rows, k)

    def here(blocks: int, count: int) -> bool:
        wanted = meant(blocks, count)
        return bool((wanted >= 0).all() and (locate(source, wanted) >= 0).all())

    if made is not None:
        blocks, count = made[0].shape
    else:
        blocks = count = 1
        while count < MOST // k and here(1, count + 1):
            count += 1
        while blocks < MOST // rows and here(blocks + 1, count):
            blocks += 1
    packing = packing_of(kind_of_step(step, machine.arch) or "", operand["dtype"])
    shape = Shape(arch, element_format(operand["dtype"]), operand["major"], packing, blocks, count, rows, k)
    return shape, source, meant(blocks, count)
