"""Sums that lack some k or have it twice, and products of other matrices than those that were meant."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.diagnosis.numbers import numbers_told
from smemsim.diagnosis.result.arrays import Arrays, Explanation
from smemsim.diagnosis.result.tiles import SHOWN

__all__ = ["Code", "explain_sums", "is_product"]


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
MOST_RIGHT = 0.99  # share of the elements of some rows
SOME = 64  # rows or columns that the chunks are learned from
SURE = 0.1  # how far from a whole number a count of chunks may be


@dataclasses.dataclass(frozen=True)
class Code:
    """The names of the instructions of a product in a sentence: the `loop` over K and its `loads`, and by operand those
    that read or write its tile.
    """

    loop: str = ""
    loads: str = ""
    reads: Mapping[str, str] = dataclasses.field(default_factory=dict)
    writes: Mapping[str, str] = dataclasses.field(default_factory=dict)


NO_CODE = Code()


def is_product(arrays: Arrays, a: np.ndarray, b: np.ndarray) -> bool:
    """Was A B expected, for (M, K) and (N, K)? Judged by some rows."""
    if arrays.shape != (len(a), len(b)) or a.shape[1] != b.shape[1]:
        return False
    r, _ = arrays.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    return bool(arrays.near(a[rows] @ b.T, arrays.wanted[rows]).mean() > MOST_RIGHT)


def explain_sums(
    arrays: Arrays, a: np.ndarray, b: np.ndarray, steps: Sequence[int], *, itemsize: int = 0, code: Code = NO_CODE
) -> Explanation | None:
    """Explain D = A B by sums. The numbers are `a` (M, K) and `b` (N, K). A kernel may take `steps` k at once.

    The bytes of an element of the operands in shared memory are `itemsize`. With 0 their 16-byte chunks are not
    considered.
    """
    if arrays.shape != (len(a), len(b)) or a.shape[1] != b.shape[1]:
        return None
    for step in dict.fromkeys(steps):
        if (explanation := _counted(arrays, a, b, step, code)) is not None:
            return explanation
    if (explanation := _other(arrays, a, b)) is not None or not itemsize or not is_product(arrays, a, b):
        return explanation
    return _chunks(arrays, a, b, itemsize, code)


def _counted(arrays: Arrays, a: np.ndarray, b: np.ndarray, step: int, code: Code) -> Explanation | None:
    """The explanation that D lacks some steps of k, or has them several times; None where that is not so."""
    count = -(-a.shape[1] // step)
    if not 2 <= count <= MOST_STEPS:
        return None
    r, _ = arrays.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    columns = np.flatnonzero(arrays.wrong[rows].any(axis=0))[:MOST_COLUMNS]
    ranges = [slice(n * step, (n + 1) * step) for n in range(count)]
    terms = np.stack([a[rows, k].astype(np.float64) @ b[columns, k].T.astype(np.float64) for k in ranges])
    wrong = arrays.wrong[np.ix_(rows, columns)]
    matrix, delta = terms[:, wrong].T, (arrays.found.astype(np.float64) - arrays.wanted)[np.ix_(rows, columns)][wrong]
    if len(delta) < 4 * count:
        return None
    times = np.rint(np.linalg.lstsq(matrix.T @ matrix, matrix.T @ delta, rcond=None)[0])
    chosen = np.flatnonzero(times)
    if not len(chosen) or np.abs(times).max() > max(HOW) or (times == -1).all():
        return None
    k = np.concatenate([np.arange(a.shape[1])[ranges[n]] for n in chosen])
    weight = np.repeat(times, step)[: a.shape[1]][k].astype(a.dtype)
    blocks = _blocks(arrays.wrong)
    change = np.where(blocks, (a[:, k] * weight) @ b[:, k].T, 0)
    if not arrays.gives((arrays.wanted + change).astype(arrays.wanted.dtype)):
        return None
    where = "all of it" if blocks.all() else "what is wrong"
    kinds = {n: np.flatnonzero(times == n) for n in HOW if (times == n).any()}
    what = " and ".join(HOW[n].format(_ranges(steps, step, a.shape[1])) for n, steps in kinds.items())
    return Explanation(f"{where} {what}", _change(kinds, count, step, code))


def _change(kinds: dict[int, np.ndarray], count: int, step: int, code: Code) -> str:
    if len(kinds) > 1:
        return f"look at the coordinates along k of the loads{f' ({code.loads})' if code.loads else ''}, and at the stages that they go to"
    ((times, chosen),) = kinds.items()
    if times == -2:
        return "look at imm-scale-a and imm-scale-b (negate-a, negate-b) of those instructions"
    if times > 0:
        return "look for a step of the K loop that is executed twice, or an accumulator that is added to D twice"
    if chosen[-1] == len(chosen) - 1:
        return "look at where the K loop begins, and at scale-d (enable-input-d): 0 in a later step forgets what came before"
    if chosen[0] == count - len(chosen):
        trips = f"{count - len(chosen)} steps of {step} are there, {count} are needed"
        return f"look at where the K loop ends{f' ({code.loop})' if code.loop else ''}: {trips}"
    return f"look at how k goes on from step to step{f' ({code.loop})' if code.loop else ''}"


def _ranges(chosen: np.ndarray, step: int, extent: int) -> str:
    """The chosen steps of k in words, as ranges where these are few."""
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


def _other(arrays: Arrays, a: np.ndarray, b: np.ndarray) -> Explanation | None:
    """Is D another product of the same matrices? B here is (K, N), as in D = A B."""
    named = {"A": a, "A^T": a.T, "B": b.T, "B^T": b}
    if not is_product(arrays, a, b):
        return None
    r, _ = arrays.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    for left, p in named.items():
        for right, q in named.items():
            if (left, right) == ("A", "B") or (p.shape[0], q.shape[1]) != arrays.shape or p.shape[1] != q.shape[0]:
                continue
            if arrays.near(arrays.found[rows], p[rows] @ q).mean() > MOST_RIGHT and arrays.gives((p @ q).astype(arrays.wanted.dtype)):
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


def _chunks(arrays: Arrays, a: np.ndarray, b: np.ndarray, itemsize: int, code: Code) -> Explanation | None:
    """Are 16-byte chunks of an operand multiplied in the place of others, as a wrong lane address of ldmatrix or a
    missing swizzle makes it?
    """
    found = {}
    for name, mine, other, d in (("A", a, b, arrays.found), ("B", b, a, arrays.found.T)):
        weights = _weights(mine, other, d, itemsize)
        if weights is None:
            continue
        product = _mixed(mine, weights, CHUNK // itemsize) @ other.T
        if arrays.gives((product if name == "A" else product.T).astype(arrays.wanted.dtype)):
            found[name] = weights
    # If all rows are alike, the same may hold for the other operand: it is the one whose places have one chunk each.
    found = {name: w for name, w in found.items() if _is_choice(w)} or found
    if not found:
        return None
    told = [
        f"16-byte chunks of {name} are multiplied in the place of others: {_weights_told(w, CHUNK // itemsize)}"
        for name, w in found.items()
    ]
    look = [f"{code.reads.get(name, f'the instructions that read {name}')}" for name in found] + [
        w for name in list(found)[:1] if (w := code.writes.get(name))
    ]
    return Explanation("; or ".join(told), f"look at the row and the chunk in the addresses of {' and '.join(look)}")


def _is_choice(weights: np.ndarray) -> bool:
    """Is there one chunk in each place?"""
    return bool((np.abs(weights).sum(axis=(2, 3)) == 1).all() and (weights.sum(axis=(2, 3)) == 1).all())


PARTNER = 8  # rows of a matrix of ldmatrix: the one that another matrix holds is so far away


def _weights(mine: np.ndarray, other: np.ndarray, found: np.ndarray, itemsize: int) -> np.ndarray | None:
    """(16, chunk, 2, chunk): how often, for rows r and r ^ 8 of each r % 16, a chunk of `mine` stands where another
    one of its line belongs.
    """
    per = CHUNK // itemsize
    count = next((n for n in (LINE // CHUNK, 4, 2) if mine.shape[1] % (n * per) == 0), 0)
    if not count or len(mine) % BLOCK or len(other) < SOME:
        return None
    columns = np.unique(np.linspace(0, len(other) - 1, SOME).astype(int))
    theirs = other[columns].reshape(len(columns), -1, count, per)
    weights = np.zeros((BLOCK, count, 2, count))
    for row in range(BLOCK):
        rows = np.arange(row, len(mine), BLOCK)[: SOME // 4]
        pair = np.stack([mine[rows], mine[rows ^ PARTNER]], axis=1).reshape(len(rows), 2, -1, count, per)
        terms = np.einsum("rptae,ntbe->rnbpa", pair, theirs, optimize=True).reshape(len(rows) * len(columns), -1).astype(np.float64)
        if len(terms) < 2 * terms.shape[1]:
            return None
        solved = _solved(terms, found[np.ix_(rows, columns)].astype(np.float64).ravel())
        if solved is None or np.abs(solved - np.rint(solved)).max() > SURE:
            return None
        weights[row] = np.rint(solved).reshape(count, 2, count)
    return weights


def _solved(terms: np.ndarray, sums: np.ndarray) -> np.ndarray | None:
    """How often each term is in the sums. None if the sums do not show it."""
    square = terms.T @ terms
    try:
        return np.asarray(np.linalg.solve(square, terms.T @ sums))
    except np.linalg.LinAlgError:
        return None


def _mixed(mine: np.ndarray, weights: np.ndarray, per: int) -> np.ndarray:
    """An operand as it would be that gives the same product by right instructions."""
    rows, count = len(mine), weights.shape[1]
    lines = mine.reshape(rows, -1, count, per)
    mixed = np.zeros_like(lines)
    for row, to, half, chunk in np.argwhere(weights):
        mixed[row::BLOCK, :, to] += weights[row, to, half, chunk].astype(mine.dtype) * lines[row ^ PARTNER * half :: BLOCK, :, chunk]
    return mixed.reshape(mine.shape)


def _weights_told(weights: np.ndarray, per: int) -> str:
    count = weights.shape[1]
    row, chunk = np.indices((BLOCK, count))
    source = weights.reshape(BLOCK, count, -1).argmax(axis=2)
    if _is_choice(weights) and (source < count).all():
        moved = source ^ chunk
        laws = {f"c ^ {n}": np.full_like(chunk, n) for n in range(1, count)}
        laws |= {f"c ^ (r % {n})": row % n for n in (2, 4, 8)} | {
            f"c ^ (r // {n} % {m})": row // n % m for n, m in ((2, 4), (4, 2), (2, 2))
        }
        moves = next((name for name, law in laws.items() if (moved == law).all()), "")
        if moves:
            return f"chunk {moves} of row r stands where chunk c belongs (a chunk is k = {per} c to {per} c + {per - 1}, of each {count * per})"
    kinds: dict[str, list[int]] = {}
    for r in range(BLOCK):
        for c in range(count):
            of = [(int(p), int(s), int(weights[r, c, p, s])) for p, s in np.argwhere(weights[r, c])]
            if of == [(0, c, 1)]:
                continue
            text = " + ".join(f"{f'{w} x ' * (w != 1)}chunk {s}{f' of row r ^ {PARTNER}' * p}" for p, s, w in of) or "nothing"
            kinds.setdefault(f"{text} stands where chunk {c} belongs", []).append(r)
    parts = [f"{text}{'' if len(rows) == BLOCK else f' in rows {numbers_told(rows, BLOCK)} of {BLOCK}'}" for text, rows in kinds.items()]
    return f"{', '.join(parts[:SHOWN])}{', ...' if len(parts) > SHOWN else ''} (a chunk is {per} k, {count} of them {count * per})"
