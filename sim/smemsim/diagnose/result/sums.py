"""Sums that lack some k or have it twice, and products of other matrices than those that were meant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smemsim.diagnose.numbers import numbers_told
from smemsim.diagnose.result.arrays import Arrays, Explanation

__all__ = ["explain_sums"]

ROWS = 8  # of D that the k are looked for in
MOST_STEPS = 512
MOST_COLUMNS = 2048
HOW = {  # what D has of a step, by how often it is there beyond once
    -1: "lacks the product of {}",
    1: "has the product of {} twice",
    2: "has the product of {} three times",
    -2: "has the product of {} with the other sign",
}
BLOCK = 16  # rows and columns that are wrong together


def explain_sums(x: Arrays, a: np.ndarray, b: np.ndarray, steps: Sequence[int]) -> Explanation | None:
    """What the product D = A B makes of it: `a` (M, K) and `b` (N, K) are numbers, `steps` the numbers of k that a kernel may take at once."""
    if x.shape != (len(a), len(b)) or a.shape[1] != b.shape[1]:
        return None
    for step in dict.fromkeys(steps):
        if (told := _counted(x, a, b, step)) is not None:
            return told
    return _other(x, a, b)


def _counted(x: Arrays, a: np.ndarray, b: np.ndarray, step: int) -> Explanation | None:
    """How often each step of k is in D, beyond once."""
    count = -(-a.shape[1] // step)
    if not 2 <= count <= MOST_STEPS:
        return None
    r, _ = x.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    columns = np.flatnonzero(x.wrong[rows].any(axis=0))[:MOST_COLUMNS]
    ranges = [slice(n * step, (n + 1) * step) for n in range(count)]
    terms = np.stack([a[rows, k].astype(np.float64) @ b[columns, k].T.astype(np.float64) for k in ranges])
    wrong = x.wrong[np.ix_(rows, columns)]
    matrix, delta = terms[:, wrong].T, (x.found.astype(np.float64) - x.wanted)[np.ix_(rows, columns)][wrong]
    if len(delta) < 4 * count:
        return None
    times = np.rint(np.linalg.lstsq(matrix.T @ matrix, matrix.T @ delta, rcond=None)[0])
    chosen = np.flatnonzero(times)
    if not len(chosen) or np.abs(times).max() > max(HOW) or (times == -1).all():
        return None
    k = np.concatenate([np.arange(a.shape[1])[ranges[n]] for n in chosen])
    weight = np.repeat(times, step)[: a.shape[1]][k].astype(a.dtype)
    blocks = _blocks(x.wrong)
    change = np.where(blocks, (a[:, k] * weight) @ b[:, k].T, 0)
    if not x.gives((x.wanted + change).astype(x.wanted.dtype)):
        return None
    where = "all of it" if blocks.all() else "what is wrong"
    kinds = {n: np.flatnonzero(times == n) for n in HOW if (times == n).any()}
    what = " and ".join(HOW[n].format(_ranges(steps, step, a.shape[1])) for n, steps in kinds.items())
    return Explanation(f"{where} {what}", _change(kinds, count))


def _change(kinds: dict[int, np.ndarray], count: int) -> str:
    if len(kinds) > 1:
        return "look at the coordinates along k of the loads, and at the stages that they go to"
    ((times, chosen),) = kinds.items()
    if times == -2:
        return "look at imm-scale-a and imm-scale-b (negate-a, negate-b) of those instructions"
    if times > 0:
        return "look for a step of the K loop that is executed twice, or an accumulator that is added to D twice"
    if chosen[-1] == len(chosen) - 1:
        return "look at where the K loop begins, and at scale-d (enable-input-d): 0 in a later step forgets what came before"
    if chosen[0] == count - len(chosen):
        return "look at where the K loop ends"
    return "look at how k goes on from step to step"


def _ranges(chosen: np.ndarray, step: int, extent: int) -> str:
    """Which k, in words."""
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
    if len(runs) > 3:
        return f"steps {numbers_told(chosen.tolist(), -(-extent // step))} of k ({step} each)"
    return "k = " + " and ".join(f"{run[0] * step} to {min((run[-1] + 1) * step, extent) - 1}" for run in runs)


def _blocks(wrong: np.ndarray) -> np.ndarray:
    """Whole blocks in which something is wrong."""
    rows, columns = wrong.shape
    padded = np.pad(wrong, ((0, -rows % BLOCK), (0, -columns % BLOCK)))
    some = padded.reshape(padded.shape[0] // BLOCK, BLOCK, padded.shape[1] // BLOCK, BLOCK).any(axis=(1, 3))
    return np.asarray(some.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)[:rows, :columns])


def _other(x: Arrays, a: np.ndarray, b: np.ndarray) -> Explanation | None:
    """Is D another product of the same matrices? B here is (K, N), as in D = A B."""
    named = {"A": a, "A^T": a.T, "B": b.T, "B^T": b}
    r, _ = x.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    if not x.near(a[rows] @ b.T, x.wanted[rows]).mean() > 0.99:
        return None
    for left, p in named.items():
        for right, q in named.items():
            if (left, right) == ("A", "B") or (p.shape[0], q.shape[1]) != x.shape or p.shape[1] != q.shape[0]:
                continue
            if x.near(x.found[rows], p[rows] @ q).mean() > 0.99 and x.gives((p @ q).astype(x.wanted.dtype)):
                same = left[0] == right[0]
                change = f"look for a load or a descriptor of {left[0]} where the other operand is meant" if same else _turned(left, right)
                return Explanation(f"it is {left} {right}, not A B", change)
    return None


def _turned(left: str, right: str) -> str:
    swapped = "exchange A and B" if left[0] == "B" else ""
    turned = [name for name, t in ((left[0], left), (right[0], right)) if t.endswith("T")]
    major = (
        f"look at the major-ness of {' and '.join(turned)} (tnspA, tnspB, the instruction descriptor) and the strides of its map"
        if turned
        else ""
    )
    return "; ".join(filter(None, (swapped, major)))
