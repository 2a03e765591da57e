"""Hardware's D is not the model's: does that look like rounding, like a wrong term, or like a wrong layout?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from smemsim.arithmetic.multiply import Options
from smemsim.arithmetic.values import element_value, raw_bits, to_float64
from smemsim.diagnose.places import moved_chunks, moved_elements
from smemsim.diagnose.product import Product
from smemsim.diagnose.rounding import bound, rivals
from smemsim.diagnose.terms import Effective, effective, without_one
from smemsim.errors import InputError
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaResult
from smemsim.spec.formats import element_format

__all__ = ["Diagnosis", "LooksLike", "diagnose", "explain_difference"]

LooksLike = Literal["the same", "rounding", "a wrong term", "a wrong layout", "another option", "unknown"]


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What the difference between two D looks like, and why: whole sentences, the most telling one first."""

    looks_like: LooksLike
    because: tuple[str, ...]

    def __str__(self) -> str:
        return f"looks like {self.looks_like}: {'; '.join(self.because)}" if self.because else self.looks_like


def explain_difference(results: MmaResult | Sequence[MmaResult], d: Any, *, shared: SharedMemory | None = None) -> Diagnosis:
    """What a D from hardware looks like beside the model's: rounding, a wrong term (which k, from which address), a wrong layout.

    `results` is what `wgmma` or `tcgen05_mma` returned, or a list of them that add into the same D, the first one first; `d` the raw bits
    (M, N) that hardware has in the end. With `shared`, the memory that was read, chunks that were read elsewhere are found in it.

    A wrong operand is solved for: every row of D gives equations for a row of A, every column for a column of B. It is only named if the model
    comes to hardware's bits with it. Raises InputError for a `d` of another shape.

    >>> import smemsim
    >>> shared, words = smemsim.SharedMemory(), np.random.default_rng(1).integers(0x3F00, 0x4000, (16, 128), np.uint16)
    >>> shared.write(0x400, words, label="A and B")
    >>> result = smemsim.wgmma(shared, 0x0000000800080040, 0x00000008000800C0, n=64, a_type="bf16", b_type="bf16", a_major="K", b_major="K")
    >>> found = smemsim.explain_difference(result, np.roll(result.d, 8, axis=1))
    >>> found.looks_like, found.because[0]
    ('a wrong layout', "D's columns are in other places: column n has what belongs in (n - 8) % 64")
    """
    chain = [results] if isinstance(results, MmaResult) else list(results)
    if not chain or not all(isinstance(r, MmaResult) for r in chain):
        raise InputError("results: needs what wgmma or tcgen05_mma returned, or a list of that")
    first, last = chain[0], chain[-1]
    if any(r.d.shape != first.d.shape or r.instruction != first.instruction for r in chain):
        raise InputError("results: needs instructions of one kind and shape, which add into the same D")
    hardware = raw_bits("d", d, element_format(last.d_type)).astype(last.d.dtype)
    if hardware.shape != last.d.shape:
        raise InputError(f"d has shape {hardware.shape}: the result is {last.d.shape}")
    if last.written is not None:
        hardware = np.where(last.written, hardware, last.d)
    width = last.d.shape[1] // len(first.a)
    wrong = (hardware != last.d).any(axis=0)
    if not wrong.any():
        return Diagnosis("the same", ())
    band = int(np.argmax(wrong)) // width
    columns = slice(band * width, (band + 1) * width)
    product = Product.of(chain, columns)
    if product is None or (product.run() != last.d[:, columns]).any():
        found = _moved(hardware, last.d, "D")
        return found or Diagnosis("unknown", ("its terms are not products of whole elements of A and B, which is all that is looked into",))
    if shared is not None:
        product = dataclasses.replace(product, memory=(shared.begin, shared.bytes.tobytes()))
    return diagnose(product, hardware[:, columns])


def diagnose(product: Product, hardware: np.ndarray) -> Diagnosis:
    """The same of a `Product`; `hardware` are raw bits of the type of D."""
    model = product.run()
    hardware = hardware.astype(model.dtype)
    wrong = hardware != model
    if not wrong.any():
        return Diagnosis("the same", ())
    found = _moved_operand(product, hardware, model) or _moved(hardware, model, "D") or _option(product, hardware, model)
    found = found or _rounding(product, hardware, wrong)
    if found:
        return found
    delta, tolerance = _delta(product.types[2], hardware, model), bound(product)
    with np.errstate(invalid="ignore"):
        small = bool((np.abs(np.where(wrong, delta, 0)) <= tolerance).all())
    operand = _operand(product, hardware, delta, tolerance, wrong)
    if operand:
        return operand
    if small:
        return Diagnosis(
            "rounding", ("no difference is larger than rounding could make it; no other rounding that was tried gives all of D",)
        )
    return _start(product, hardware, delta, tolerance) or _one_element(product, hardware, wrong) or _unknown(wrong, delta)


def _delta(d_type: str, hardware: np.ndarray, model: np.ndarray) -> np.ndarray:
    """Hardware's D minus the model's; of integers modulo 2^32."""
    if d_type == "s32":
        return np.asarray((hardware - model).view(np.int32), np.float64)
    with np.errstate(invalid="ignore"):
        found = to_float64(hardware, d_type) - to_float64(model, d_type)
    return np.where(np.isfinite(found), found, np.where(hardware == model, 0.0, np.nan))


# ---- D or C in other places


def _moved(found: np.ndarray, wanted: np.ndarray, name: str) -> Diagnosis | None:
    """Are rows, columns or elements in other places?"""
    if found.shape[0] == found.shape[1] and (found == wanted.T).all():
        return Diagnosis("a wrong layout", (f"{name} is transposed",))
    for what, letter, x, y in (("row", "m", found, wanted), ("column", "n", found.T, wanted.T)):
        source = _lines(x, y)
        if source is not None:
            return Diagnosis("a wrong layout", (f"{name}'s {what}s are in other places: {_rule(source, what, letter)}",))
    values, counts = np.unique(wanted, return_counts=True)
    if len(values) > wanted.size // 2 and (counts == 1).any() and np.array_equal(np.sort(found, axis=None), np.sort(wanted, axis=None)):
        places = {int(v): np.unravel_index(int(i), wanted.shape) for i, v in enumerate(wanted.flat)}
        moved = list(zip(*np.nonzero(found != wanted), strict=True))[:3]
        text = ", ".join(f"[{at[0]}, {at[1]}] has that of [{', '.join(str(int(x)) for x in places[int(found[at])])}]" for at in moved)
        return Diagnosis("a wrong layout", (f"{name} has the right values in other places: {text}",))
    return None


def _moved_operand(product: Product, hardware: np.ndarray, model: np.ndarray) -> Diagnosis | None:
    """Rows of D that are those of other rows of A, or columns of B: then the operand may have been read so."""
    for name, side, x, y in (("A", product.a, hardware, model), ("B", product.b, hardware.T, model.T)):
        source = _lines(x, y)
        if source is None:
            continue
        bits = np.ascontiguousarray(side.bits[:, source])
        trial: dict[str, Any] = {name.lower(): bits}
        if (product.run(**trial) == hardware).all():
            what, letter = ("row", "m") if name == "A" else ("column", "n")
            found = Effective(name, side, bits, side.flat(bits) != side.flat(), len(source), len(source))
            because = f"D's {what}s are in other places: {_rule(source, what, letter)}"
            either = f"either {name} was read with its {what}s there, or D was stored there"
            return Diagnosis("a wrong layout", (because, *moved_chunks(product, found), either))
    return None


def _lines(found: np.ndarray, wanted: np.ndarray) -> np.ndarray | None:
    """Whose line every line is; None if one is nobody's, or if that says nothing."""
    of: dict[bytes, int] = {}
    for i in range(len(wanted) - 1, -1, -1):
        of[wanted[i].tobytes()] = i
    if len(of) < 3:
        return None
    own = [i if (found[i] == wanted[i]).all() else of.get(found[i].tobytes(), -1) for i in range(len(found))]
    return None if -1 in own else np.array(own)


def _rule(source: np.ndarray, what: str, letter: str) -> str:
    """From where each line comes, as a formula if there is one."""
    i, size = np.arange(len(source)), len(source)
    for text, rule in _rules(letter, i, size):
        if (rule == source).all():
            return f"{what} {letter} has what belongs in {text}"
    moved = np.nonzero(source != i)[0]
    some = ", ".join(f"{what} {x} has that of {source[x]}" for x in moved[:4])
    return f"{some}{', …' if len(moved) > 4 else ''} ({len(moved)} of {size})"


def _rules(letter: str, i: np.ndarray, size: int) -> Iterator[tuple[str, np.ndarray]]:
    for x in range(1, size):
        yield f"{letter} ^ {x}", i ^ x
    for d in range(1, size):
        yield f"({letter} - {d}) % {size}", (i - d) % size
    for d in (*range(-16, 0), *range(1, 17)):
        yield f"{letter} {'-' if d > 0 else '+'} {abs(d)} * ({letter} // 8)", i - d * (i // 8)
    for x in (2, 4, 8, 16, 32, 64):
        yield f"{letter} % {x}", i % x
        yield f"{letter} - {letter} % {x}", i - i % x
    yield f"{size - 1} - {letter}", size - 1 - i


# ---- the same terms, done otherwise


def _option(product: Product, hardware: np.ndarray, model: np.ndarray) -> Diagnosis | None:
    o, zero = product.options, np.zeros_like(product.c)
    tries: list[tuple[str, dict[str, Any]]] = []
    if product.c.any():
        tries.append(("C were not added (scale-d or enable-input-d 0)", {"c": zero}))
    tries.append(("nothing had been added to C", {"a": np.zeros_like(product.a.bits)}))
    if product.row.kept_bits is None:
        tries.append(("results wrapped" if o.saturate else "results were clamped", {"options": o._replace(saturate=not o.saturate)}))
    else:
        tries.append(
            (
                "products had the other sign (imm-scale or negate bits)",
                {"options": Options(not o.negate_a, o.negate_b, o.scale_c, o.saturate)},
            )
        )
        tries += [
            (f"C were divided by 2^{n} (scale-input-d)", {"options": o._replace(scale_c=n)})
            for n in range(16)
            if n != o.scale_c and product.kind in ("f16", "tf32")
        ]
    steps = len(product.a.bits)
    for step in range(steps if steps > 1 else 0):
        rest = product.a.bits.copy()
        rest[step] = 0
        tries.append((f"instruction {step} were missing", {"a": rest}))
    for text, change in tries:
        other = product.run(**change)
        if (other == hardware).all() and (other != model).any():
            return Diagnosis("another option", (f"D is what it would be if {text}, bit for bit",))
    return None


def _rounding(product: Product, hardware: np.ndarray, wrong: np.ndarray) -> Diagnosis | None:
    """Another rounding that gives all of D; tried on a corner of what differs first."""
    rows, columns = (np.nonzero(wrong.any(axis=axis))[0][:16] for axis in (1, 0))
    corner = product.part(rows, columns)
    of_corner = hardware[np.ix_(rows, columns)]
    for text, row in rivals(product):
        if (corner.run_as(row) == of_corner).all() and (product.run_as(row) == hardware).all():
            return Diagnosis("rounding", (f"{text}: that gives all of hardware's D, bit for bit",))
    return None


# ---- other terms


def _operand(product: Product, hardware: np.ndarray, delta: np.ndarray, tolerance: np.ndarray, wrong: np.ndarray) -> Diagnosis | None:
    """A or B must have been another: what is the least that must have been?"""
    first = "A" if wrong.any(axis=1).sum() <= wrong.any(axis=0).sum() else "B"
    for name in (first, "AB".replace(first, "")):
        found = effective(product, hardware, delta, tolerance, name)
        if found:
            return _told(product, found)
    return None


def _told(product: Product, found: Effective) -> Diagnosis:
    what = "row" if found.name == "A" else "column"
    explained = "all" if found.right == found.lines else f"{found.right} of"
    gives = f"with that the model gives {explained} {found.lines} {what}s of D that differ" + (
        ", bit for bit" if found.right == found.lines else ""
    )
    chunks, rule = moved_chunks(product, found), moved_elements(found)
    count = int(found.changed.sum())
    k_only = np.unique(np.nonzero(found.changed)[1])
    shown = 1 if rule or chunks else 3
    terms = [
        _term(product, found, line, k, also=not (rule or chunks)) for line, k in list(zip(*np.nonzero(found.changed), strict=True))[:shown]
    ]
    more = f", … ({count} elements)" if count > shown else ""
    if rule or chunks:
        of = [f"{found.name}'s element ({what}, k) is the one that belongs in {rule}"] if rule else []
        return Diagnosis("a wrong layout", (*of, *chunks, f"{'; '.join(terms)}{more}", gives))
    at = f"at k {', '.join(map(str, k_only[:4]))}{', …' if len(k_only) > 4 else ''}"
    return Diagnosis("a wrong term", (f"{found.name} {at}: {'; '.join(terms)}{more}", gives))


def _term(product: Product, found: Effective, line: int, k: int, *, also: bool) -> str:
    """One element that must have been another."""
    step, own = divmod(int(k), found.side.bits.shape[2])
    old, new = (int(bits[step, line, own]) for bits in (found.side.bits, found.bits))
    dtype = product.types[0 if found.name == "A" else 1]
    where = found.side.place(step, int(line), own)
    values = [f"{float(element_value(code, dtype)):g}" for code in (new, old)]
    index = f"[{line}, {own}]" + (f" of instruction {step}" if len(found.side.bits) > 1 else "")
    others = np.argwhere(found.side.bits[step] == new)
    same = f", the value of {found.name}[{others[0][0]}, {others[0][1]}]" if also and len(others) == 1 else ""
    return f"{found.name}{index}{f' ({where})' if where else ''} behaves as {new:#x} = {values[0]}{same}, not {old:#x} = {values[1]}"


def _start(product: Product, hardware: np.ndarray, delta: np.ndarray, tolerance: np.ndarray) -> Diagnosis | None:
    """Is it C whose rows or columns are in other places?"""
    values = to_float64(product.c, product.types[2])
    wanted = values + delta * 2.0**product.options.scale_c
    for axis, what, letter in ((0, "row", "m"), (1, "column", "n")):
        x, y, room = (np.moveaxis(z, axis, 0) for z in (wanted, values, tolerance))
        near = [(np.abs(y - line) <= space * 2.0**product.options.scale_c).all(axis=1) for line, space in zip(x, room, strict=True)]
        if not all(one.any() for one in near):
            continue
        source = np.array([i if one[i] else int(np.argmax(one)) for i, one in enumerate(near)])
        if (product.run(c=np.take(product.c, source, axis=axis)) == hardware).all() and (source != np.arange(len(source))).any():
            return Diagnosis(
                "a wrong layout", (f"C's {what}s are in other places: {_rule(source, what, letter)}; with that the model gives all of D",)
            )
    return None


def _one_element(product: Product, hardware: np.ndarray, wrong: np.ndarray) -> Diagnosis | None:
    """One element alone, or a few: no operand reaches only these."""
    if wrong.sum() > 3:
        return None
    m, n = (int(x[0]) for x in np.nonzero(wrong))
    k = without_one(product, hardware, m, n)
    if k is not None:
        return Diagnosis("a wrong term", (f"D[{m}, {n}] lacks the product of k {k}, and only that",))
    return Diagnosis("unknown", (
        f"{int(wrong.sum())} elements of D differ alone: an element of A reaches a whole row of D, one of B a whole column; look at D's own storage, "
        "or at what was written over it",
    ))  # fmt: skip


def _unknown(wrong: np.ndarray, delta: np.ndarray) -> Diagnosis:
    rows, columns = (np.nonzero(wrong.any(axis=axis))[0] for axis in (1, 0))
    finite = np.abs(delta[np.isfinite(delta)])
    most = f"; the largest difference is {finite.max():g}" if len(finite) else ""
    where = " and ".join(f"{len(found)} {what}s ({found[0]} to {found[-1]})" for what, found in (("row", rows), ("column", columns)))
    return Diagnosis(
        "unknown", (f"larger than rounding{most}, in {where}; no single operand, option or order of rows and columns gives it",)
    )
