"""The operand that must have been multiplied: solved for from D, rounded to elements, and tried."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.arithmetic.values import from_float64, to_float64
from smemsim.diagnose.product import Product, Side
from smemsim.spec.formats import element_format

__all__ = ["Effective", "effective", "without_one"]

FEW = 4  # wrong elements in a line that are looked for before all of them are solved for


@dataclasses.dataclass(frozen=True, eq=False)
class Effective:
    """What one operand must have been: `bits` as in `Side`, `changed` the elements that are others, of `lines`; `right` of these give D's bits."""

    name: str
    side: Side
    bits: np.ndarray
    changed: np.ndarray
    lines: int
    right: int


def effective(product: Product, hardware: np.ndarray, delta: np.ndarray, tolerance: np.ndarray, name: str) -> Effective | None:
    """Operand `name` as hardware's D needs it; None if no operand gives more than half of the lines that differ.

    `delta` is hardware's D minus the model's, NaN where one of them is no number. Every line of the unknown operand, a row of A or a column of
    B, is its own linear system: one equation for each line of the other operand, as many unknowns as K.
    """
    own, other = (product.a, "B") if name == "A" else (product.b, "A")
    dtype = element_format(product.types[0 if name == "A" else 1])
    matrix = np.nan_to_num(product.values(other) * product.weights(other), posinf=0, neginf=0)
    mine, weight = product.values(name), product.weights(name)
    lines, room = (delta, tolerance) if name == "A" else (delta.T, tolerance.T)
    wanted = np.nonzero((np.nan_to_num(lines, nan=1.0) != 0).any(axis=1))[0]
    flat = own.flat().copy()
    changed = np.zeros(flat.shape, bool)
    for line in wanted:
        known = np.isfinite(lines[line]) & np.isfinite(room[line])
        found = _solved(matrix[known], lines[line][known], room[line][known])
        usable = np.isfinite(mine[line]) & (weight[line] != 0) & np.isfinite(weight[line])
        moved = usable & (np.abs(found) * np.abs(matrix).max(axis=0, initial=0) > room[line][known].max(initial=0))
        if not moved.any():
            continue
        values = mine[line][moved] + found[moved] / weight[line][moved]
        codes = from_float64(values, dtype.name)
        differs = to_float64(codes, dtype) != mine[line][moved]
        at = np.nonzero(moved)[0][differs]
        flat[line, at], changed[line, at] = codes[differs], True
    steps, _, k = own.bits.shape
    bits = np.ascontiguousarray(flat.reshape(-1, steps, k).transpose(1, 0, 2))
    trial: dict[str, Any] = {name.lower(): bits}
    same = product.run(**trial) == hardware
    right = int((same if name == "A" else same.T)[wanted].all(axis=1).sum())
    if 2 * right <= len(wanted) or not changed.any():
        return None
    return Effective(name, own, bits, changed, len(wanted), right)


def _solved(matrix: np.ndarray, delta: np.ndarray, room: np.ndarray) -> np.ndarray:
    """x with matrix @ x = delta: with few elements that are not 0 if that is possible, else by least squares."""
    x = np.zeros(matrix.shape[1])
    norms = np.linalg.norm(matrix, axis=0)
    usable = norms > 0
    if not len(delta) or not usable.any():
        return x
    chosen: list[int] = []
    rest = delta
    for _ in range(min(FEW, len(delta) // 2)):
        scores = np.where(usable, np.abs(matrix.T @ rest) / np.where(usable, norms, 1), -1.0)
        scores[chosen] = -1
        chosen.append(int(np.argmax(scores)))
        part = np.linalg.lstsq(matrix[:, chosen], delta, rcond=None)[0]
        rest = delta - matrix[:, chosen] @ part
        if (np.abs(rest) <= room).all():
            x[chosen] = part
            return x
    if usable.sum() <= len(delta):
        x[usable] = np.linalg.lstsq(matrix[:, usable] / norms[usable], delta, rcond=None)[0] / norms[usable]
    return x


def without_one(product: Product, hardware: np.ndarray, m: int, n: int) -> int | None:
    """The only place along K whose product is missing in D[m, n]; None if there is none or more than one."""
    one = product.part(slice(m, m + 1), slice(n, n + 1))
    found = []
    for step, k in np.ndindex(one.a.bits.shape[0], one.a.bits.shape[2]):
        bits = one.a.bits.copy()
        if bits[step, 0, k] == 0 or one.b.bits[step, 0, k] == 0:
            continue
        bits[step, 0, k] = 0
        if one.run(a=bits)[0, 0] == hardware[m, n]:
            found.append(step * one.a.bits.shape[2] + k)
    return found[0] if len(found) == 1 else None
