"""The scale factors that a block-scaled MMA step reads from tensor memory, as its keys say, and those that it was meant to read."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

from smemsim.checking.instructions import kind_of_step
from smemsim.checking.simulate import TMEM, Machine
from smemsim.checking.tensors import Tensor
from smemsim.checking.tmem_reads import Cells, grid, steps_of, tmem_at
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.tmem.scales import ScaleLayout
from smemsim.spec.tcgen05 import KINDS, SCALE_TYPES_OF_BLOCK, WIDE_K, scale_modes
from smemsim.spec.tensor_memory import SCALE_ID_SHIFT, SCALE_MODES, ScaleMode

__all__ = ["Slice", "slice_of"]

_VECTOR = re.compile(r"scale_vec::(\dX)|\.(block(?:16|32))\b")


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """The scale factors of one operand of one step: what each (block, K step) reads, with its `column` and `id`, and what was `meant`."""

    where: str
    title: str
    raw: dict[str, Any]
    mode: ScaleMode
    layout: ScaleLayout
    cells: Cells
    column: np.ndarray  # (blocks, steps)
    id: np.ndarray
    meant: np.ndarray  # (blocks, steps, rows, scales of a row)
    tensor: Tensor
    id_key: str  # the key that has the id

    @property
    def grade(self) -> str:
        """What the layout rests on."""
        return str(self.layout.grade)


def slice_of(machine: Machine, number: int, step: dict[str, Any], side: str, group: int | None) -> Slice | None:
    """What the step reads; None where it says too little, or nothing that an instruction has. Raises Unmodelled."""
    where, operand, letter = f"step[{number}].{side}", step[side], side[-1]
    kind, meant = KINDS.get(kind_of_step(step, machine.arch) or ""), operand.get("meant")
    if kind is None or not kind.block_scaled or meant is None or "tmem" not in operand:
        return None
    tensor = machine.tensors[meant["tensor"]]
    mode = _mode(number, step, tensor, meant)
    if mode is None:
        return None
    try:
        layout = ScaleLayout(letter.upper(), m=step["m"], n=step["n"], kind=kind.name, scale_vec=mode.name, k=WIDE_K if step["k"] == WIDE_K else None,
                             cta_group=group or 1)  # fmt: skip
    except InputError:
        return None  # no shape of this kind: I601 says so
    shape = steps_of(step, letter)
    address = grid(f"{where}.tmem", operand["tmem"], shape)
    id_, key = _ids(where, number, step, letter, kind.name, address, shape)
    starts = [tmem_at(f"{where}.tmem", int(x) & (1 << SCALE_ID_SHIFT) - 1) for x in address.flat]
    if any(start.lane for start in starts):
        raise Unmodelled("scale factors are addressed from lane 0; what another lane does is not known")
    column = np.array([start.column for start in starts]).reshape(shape)
    if WIDE_K in mode.k:
        raise Unmodelled(f"scale factors of K = {WIDE_K} go on in a second cell, which smemsim run follows and check does not")
    cells = _cells(layout)
    rows, scales = cells.lane.shape[1:]
    at = meant.get("at", [0, 0])
    down = at[0] + (np.arange(shape[0]) * meant.get("mn_step", rows))[:, None, None, None] + np.arange(rows)[:, None]
    along = at[1] + (np.arange(shape[1]) * meant.get("k_step", scales))[None, :, None, None] + np.arange(scales)
    wanted = tensor.byte_addresses((meant["axes"][0], meant["axes"][1]), *np.broadcast_arrays(down, along))
    return Slice(where, f"step {number + 1} (mma) {side}", operand, mode, layout, cells, column, id_, wanted, tensor, key)


def _mode(number: int, step: dict[str, Any], tensor: Tensor, meant: dict[str, Any]) -> ScaleMode | None:
    """How many scales a row has; None where nothing tells."""
    kind = KINDS[kind_of_step(step, "sm_103a") or ""]
    found = _VECTOR.search(step.get("instruction", ""))
    asked = step.get("scale_vec", (found[1] or found[2]) if found else None)
    names = [*dict.fromkeys(m.name for m in SCALE_MODES)]
    if asked is not None and asked not in names:
        raise InputError(f"step[{number}].scale_vec = {asked!r}: needs one of {' '.join(names)}")
    modes = scale_modes(kind, wide_k=step["k"] == WIDE_K, asked=asked)
    if asked is not None and not modes:
        has = " and ".join(m.name for m in scale_modes(kind, wide_k=step["k"] == WIDE_K))
        raise InputError(f"step[{number}].scale_vec = {asked!r}: kind {kind.name} with K = {step['k']} has {has}")
    if len(modes) > 1:
        modes = tuple(m for m in modes if tensor.fmt.name in SCALE_TYPES_OF_BLOCK[m.block] or tensor.fmt.name in ("u8", "s8"))
    if len(modes) > 1 and "k_step" in meant:
        modes = tuple(m for m in modes if m.scales == meant["k_step"])
    return modes[0] if len(modes) == 1 else None


def _ids(
    where: str, number: int, step: dict[str, Any], letter: str, kind: str, address: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, str]:
    """(scale id of every block and step, the key that has it): `id`, else bits 31:30 of `tmem`, else the instruction descriptor."""
    operand, idesc = step[f"scale_{letter}"], step.get("idesc")
    if "id" in operand:
        id_ = grid(f"{where}.id", operand["id"], shape)
        if (id_ < 0).any() or (id_ >= TMEM[2]).any():
            raise InputError(f"{where}.id = {operand['id']}: needs bytes of a cell, 0 to {TMEM[2] - 1}")
        return id_, f"{where}.id"
    if (address >> SCALE_ID_SHIFT).any():
        return address >> SCALE_ID_SHIFT & TMEM[2] - 1, f"{where}.tmem"
    if isinstance(idesc, int) and 0 <= idesc < 1 << 32:
        return np.full(shape, getattr(InstrDescriptor.decode(idesc, kind=kind), f"{letter}_sf_id")), f"step[{number}].idesc"
    return np.zeros(shape, np.int64), f"{where}.id"


def _cells(layout: ScaleLayout) -> Cells:
    """The cells of this CTA: of a pair, the first."""
    row, index = np.meshgrid(np.arange(layout.rows), np.arange(layout.scales), indexing="ij")
    copies = [layout.location(row, index, copy) for copy in range(layout.copies)]
    mine = [(lane, column, byte) for cta, lane, column, byte in copies if not np.any(cta)]
    lane, column, byte = (np.stack(x) for x in zip(*mine, strict=True))
    return Cells(lane, column, byte)
