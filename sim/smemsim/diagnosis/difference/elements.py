"""Elements of an operand that must have been others: solved for from D, rounded to elements, and tried."""

from __future__ import annotations

import functools

import numpy as np

from smemsim.core.arithmetic.values import element_value, from_float64, to_float64
from smemsim.core.spec.formats import element_format
from smemsim.diagnosis.difference.compared import Compared
from smemsim.diagnosis.difference.sides import Product

__all__ = ["SHOWN", "other_elements", "other_lines"]


LINES = 16  # lines of D that single wrong elements may reach
TRIED = 1024  # values and places that are tried for one line
SHOWN = 3
SINGULAR = 1e10
Found = list[tuple[int, int]]  # (k along all steps, bits) of one element


def other_elements(c: Compared, name: str) -> list[str]:
    """Sentences about a single wrong element in each row of A, or column of B: the elements that would give hardware's
    D.
    """
    lines = np.nonzero(c.differs.any(axis=1 - "AB".index(name)))[0].tolist()
    if len(lines) > (LINES if c.beyond.any() else 1):
        return []
    candidates = [_right(c, name, line, _candidates(c, name, line)) for line in lines]
    if not all(candidates):
        return []
    common = set.intersection(*({k for k, _ in elements} for elements in candidates))
    candidates = [[x for x in elements if x[0] in common or not common] for elements in candidates]
    if len(lines) > 1 and any(len({k for k, _ in elements}) > 1 for elements in candidates):
        return []  # where any place would do in every line, it is not one element in each that is wrong
    return [_some([_one_of(c, name, line, elements) for line, elements in zip(lines, candidates, strict=True)])]


def _candidates(c: Compared, name: str, line: int) -> Found:
    """Single elements of a line that may give its D: at each place every equation bounds the value, what lies between
    is a candidate.
    """
    p, own_line = c.product, np.array([line])
    part = c.part(own_line) if name == "A" else c.part(slice(None), own_line)
    delta, room = part.delta.ravel(), part.loose.ravel()
    matrix, own, weight = p.terms("BA"["AB".index(name)]), p.values(name)[line], p.weights(name)[line]
    usable, clean = _usable(p, name)[line], np.isfinite(matrix).all(axis=1)
    values, codes, odd = _codes(p.types["AB".index(name)])
    candidates = []
    if (part.wrong.ravel() & np.isnan(delta) & clean).any():
        candidates = [(int(k), int(code)) for k in np.nonzero(usable)[0] for code in odd]
    known = np.isfinite(delta) & clean
    delta, room, matrix = delta[known, None], room[known, None], matrix[known]
    with np.errstate(all="ignore"):
        one, other = (delta - room) / matrix, (delta + room) / matrix
        free = (matrix == 0) & (np.abs(delta) <= room)  # this equation says nothing of that element
        low = np.where(free, -np.inf, np.minimum(one, other)).max(axis=0, initial=-np.inf)
        high = np.where(free, np.inf, np.maximum(one, other)).min(axis=0, initial=np.inf)
        best = own + np.nan_to_num((matrix * delta).sum(axis=0) / (matrix**2).sum(axis=0)) / weight
        ends = np.sort([own + low / weight, own + high / weight], axis=0)
    places = np.nonzero(usable & (low <= high))[0]
    most = max(4, TRIED // max(1, len(places)))
    for k in places.tolist():
        first, middle = (int(x) for x in np.searchsorted(values, (ends[0, k], best[k])))
        past = int(np.searchsorted(values, ends[1, k], "right"))
        near = slice(max(first, middle - most // 2), min(past, middle + most // 2))
        simplest = [(k, 0)] if ends[0, k] <= 0 <= ends[1, k] and own[k] != 0 else []
        candidates += simplest + [(k, int(code)) for value, code in zip(values[near], codes[near], strict=True) if value not in (own[k], 0)]
    return candidates


@functools.lru_cache(maxsize=4)
def _codes(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(finite values in order, their bits, the bits of infinities and a NaN)."""
    fmt = element_format(dtype)
    codes = np.arange(1 << fmt.bits - fmt.dropped_bits, dtype=np.uint32) << np.uint32(fmt.dropped_bits)
    values = to_float64(codes, dtype)
    finite, first = np.unique(values[np.isfinite(values)], return_index=True)
    odd = codes[np.isinf(values)].tolist() + codes[np.isnan(values)][:1].tolist()
    return finite, codes[np.isfinite(values)][first], np.array(odd, np.uint32)


def _right(c: Compared, name: str, line: int, candidates: Found) -> Found:
    """The candidates that give the line of D; places where it differs are compared first."""
    axis = "AB".index(name)
    for across in (np.nonzero(np.moveaxis(c.differs, axis, 0)[line])[0][:LINES], slice(None)):
        if candidates:
            many = np.full(len(candidates), line)
            part = c.part(many, across) if name == "A" else c.part(across, many)
            side = part.product.side(name)
            bits = side.flat().copy()
            bits[np.arange(len(candidates)), [k for k, _ in candidates]] = [code for _, code in candidates]
            good = np.asarray(part.fits(part.product.having(name, side.steps(bits))).all(axis=1 - axis))
            candidates = [one for one, right in zip(candidates, good, strict=True) if right]
    return candidates


def _usable(p: Product, name: str) -> np.ndarray:
    """(lines, K): elements that could be others."""
    weight = p.weights(name)
    return np.asarray(p.side(name).usable & np.isfinite(p.values(name)) & np.isfinite(weight) & (weight != 0))


def other_lines(c: Compared, name: str) -> list[str]:
    """Several other elements in every differing line of D: those of 16 bytes, of an instruction, or any.

    Every line is a system of linear equations, one for each line of the other operand. Half as many unknowns are
    solved for, so the other half of the equations is evidence.
    """
    p, side = c.product, c.product.side(name)
    axis, dtype = "AB".index(name), p.types["AB".index(name)]
    lines = np.nonzero(c.differs.any(axis=1 - axis))[0]
    delta, room = (np.moveaxis(x, axis, 0)[lines] for x in (c.delta, c.loose))
    matrix, own, weight, usable = p.terms("BA"[axis]), p.values(name)[lines], p.weights(name)[lines], _usable(p, name)[lines]
    known = np.isfinite(delta) & np.isfinite(matrix).all(axis=1)
    k = np.arange(own.shape[1])
    for of in (k // element_format(dtype).elements_per_chunk(), k // side.bits.shape[2], 0 * k):
        change = _solved(matrix, np.where(known, delta, 0), np.where(known, room, np.inf), known, usable, of, alone=not c.exact)
        if change is None:
            continue
        with np.errstate(all="ignore"):
            new = np.where(change == 0, own, own + change / weight)
        scale = np.where(change == 0, 0, np.maximum(np.abs(new), np.abs(np.nan_to_num(own)))).max(axis=1, keepdims=True)
        for least in (2.0**-20, 0.0):  # of a sum without rounding, what is next to nothing is nothing
            values = np.where(np.abs(new) < least * scale, 0, new)
            bits = side.flat().copy()
            codes = from_float64(np.nan_to_num(values), dtype).astype(bits.dtype)
            bits[lines] = np.where((change == 0) | (to_float64(codes, dtype) == own), bits[lines], codes)
            if c.explained(p.having(name, side.steps(bits))):
                places = np.argwhere(bits != side.flat()).tolist()
                return [_some([_element(c, name, line, at, [int(bits[line, at])]) for line, at in places])]
    return []


def _solved(
    matrix: np.ndarray, delta: np.ndarray, room: np.ndarray, known: np.ndarray, usable: np.ndarray, of: np.ndarray, *, alone: bool
) -> np.ndarray | None:
    """(lines, K): what one group of elements, equal in `of`, must add in every line; the best one, or the only one if
    it must be `alone`.
    """
    change, solutions, best = np.zeros(usable.shape), np.zeros(len(delta), int), np.full(len(delta), np.inf)
    kinds, which = np.unique(np.concatenate([known, usable], axis=1), axis=0, return_inverse=True)
    for i, kind in enumerate(kinds if len(kinds) <= LINES else []):
        lines = np.nonzero(which.ravel() == i)[0]
        equations = matrix[kind[: known.shape[1]]]
        given, space = (x[lines][:, kind[: known.shape[1]]].T for x in (delta, room))
        space = np.maximum(space, np.abs(given).max(axis=0, initial=0) * 2.0**-30)  # of float64
        square, right_side = equations.T @ equations, equations.T @ given
        for group in np.unique(of):
            columns = np.nonzero((of == group) & kind[known.shape[1] :])[0]
            if not len(columns) or 2 * len(columns) > len(equations):
                continue
            own = square[np.ix_(columns, columns)]
            if np.linalg.cond(own) > SINGULAR:  # then D does not tell its solutions apart
                continue
            x = np.linalg.solve(own, right_side[columns])
            rest = np.abs(given - equations[:, columns] @ x)
            right = (rest <= space).all(axis=0)
            solutions[lines[right]] += 1
            better = right & (rest.max(axis=0) < best[lines])
            best[lines[better]] = rest.max(axis=0)[better]
            change[lines[better]] = 0
            change[np.ix_(lines[better], columns)] = x[:, better].T
    return change if (solutions > 0).all() and (not alone or (solutions == 1).all()) else None


def _some(said: list[str]) -> str:
    return "; ".join(said[:SHOWN]) + (f"; … ({len(said)} elements)" if len(said) > SHOWN else "")


def _one_of(c: Compared, name: str, line: int, candidates: Found) -> str:
    """One element of a line, of which place or value may not be certain."""
    places = sorted({k for k, _ in candidates})
    if len(places) == 1:
        return _element(c, name, line, places[0], [code for _, code in candidates])
    some = ", ".join(_where_terms(c.product, name, line, k) for k in places[:SHOWN])
    return f"one element were another, any of {len(places)} in {'row' if name == 'A' else 'column'} {line}: {some}{', …' if len(places) > SHOWN else ''}"


def _where_terms(p: Product, name: str, line: int, k: int) -> str:
    side = p.side(name)
    step, own = divmod(k, side.bits.shape[2])
    where = side.place(step, int(line), own)
    return f"{name}[{line}, {own}]" + (f" of instruction {step}" if len(side.bits) > 1 else "") + (f" ({where})" if where else "")


def _element(c: Compared, name: str, line: int, k: int, codes: list[int]) -> str:
    """One element with another value. The value with the fewest bits, if several are possible; with rounding the middle
    one.
    """
    dtype, side = c.product.types["AB".index(name)], c.product.side(name)
    old, *values = (float(element_value(x, dtype)) for x in (int(side.flat()[line, k]), *codes))
    if c.exact:
        code, value = min(zip(codes, values, strict=True), key=lambda x: (-(x[0] & -x[0]) if x[0] else -(1 << 32), x))
        new = f"{code:#x} = {value:g}{' or nearly so' if len(codes) > 1 else ''}"
    else:
        new = f"about {sorted(values)[len(values) // 2]:g}"
    return f"{_where_terms(c.product, name, line, k)} were {new}, not {int(side.flat()[line, k]):#x} = {old:g}"
