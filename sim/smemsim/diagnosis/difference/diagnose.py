"""Hardware's D is not the model's: does that look like rounding, like a wrong term, or like a wrong layout?"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic.values import raw_bits, to_float64
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.product import MmaResult
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.mma_arithmetic import NAN
from smemsim.diagnosis.difference.compared import SEVERAL, Compared
from smemsim.diagnosis.difference.descriptors import read_otherwise
from smemsim.diagnosis.difference.elements import SHOWN, other_elements, other_lines
from smemsim.diagnosis.difference.moved import moved_elements, moved_lines
from smemsim.diagnosis.difference.multiplied import other_instructions, other_operands, other_options
from smemsim.diagnosis.difference.roundings import other_roundings
from smemsim.diagnosis.difference.sides import Product

__all__ = ["Diagnosis", "LooksLike", "Tests", "diagnose", "explain_difference"]


LooksLike = Literal["the same", "rounding", "a wrong term", "a wrong layout", "another option", "unknown"]
NOT_LOOKED_INTO = (
    "the sums of these instructions are not compared: a sparse A that meets infinities or NaNs, tf32 elements that metadata splits, sparse mxf4, or "
    "options that change along the chain"
)
ALONE = 3  # elements of D that no operand reaches without others


@dataclasses.dataclass(frozen=True)
class Diagnosis(metaclass=OwnMembers):
    """The difference between two D in words, and its reason: whole sentences, the most telling one first.

    >>> from smemsim import Diagnosis
    >>> print(Diagnosis("rounding", ("no element is off by more than its last bit",)))
    looks like rounding: no element is off by more than its last bit
    """

    looks_like: LooksLike
    because: tuple[str, ...]

    def __str__(self) -> str:
        return f"looks like {self.looks_like}: {'; '.join(self.because)}" if self.because else self.looks_like


@in_default_state
def explain_difference(results: MmaResult | Sequence[MmaResult], d: Any, *, shared: SharedMemory | None = None) -> Diagnosis:
    """Find the mistake that explains how D of a card differs from D of the model: rounding, a wrong term (its k and
    address), or a wrong layout.

    - Results: one of `wgmma` or `tcgen05_mma`, or the list of those that add into the same D, in order.
    - Bits: `d` (M, N), the raw bits of the card's D at the end.
    - Memory: `shared`, the memory that was read. With it, other descriptors are tried on the whole memory. Without it,
      they are tried only on the elements that the model read.

    Every sentence "D is what it would be if ..." was tried: the model with this change gives the card's D, bit for bit
    or except for rounding. If several changes of one kind give it, all are listed. If changes of several kinds give it,
    the answer is "unknown".

    Raises InputError for a `d` of another shape, or for results that do not follow each other.

    >>> import numpy as np
    >>> import smemsim
    >>> shared, words = smemsim.SharedMemory(), np.random.default_rng(1).integers(0x3F00, 0x4000, (16, 128), np.uint16)
    >>> shared.write(0x400, words, label="A and B")
    >>> result = smemsim.wgmma(shared, 0x0000000800080040, 0x00000008000800C0, n=64, a_type="bf16", b_type="bf16", a_major="K", b_major="K")
    >>> found = smemsim.explain_difference(result, np.roll(result.d, 8, axis=1))
    >>> found.looks_like, found.because[0]
    ('a wrong layout', "D is what it would be if D's columns were in other places: column n has what belongs in (n - 8) % 64, bit for bit")
    """
    chain = _chain(results)
    last = chain[-1]
    if shared is not None and not isinstance(shared, SharedMemory):
        raise InputError(f"shared = {shown(shared)}: needs the SharedMemory that was read")
    hardware = raw_bits("d", d, element_format(last.d_type)).astype(last.d.dtype)
    if hardware.shape != last.d.shape:
        raise InputError(f"d has shape {hardware.shape}: the result is {last.d.shape}")
    written = np.ones(hardware.shape, bool) if last.written is None else last.written
    wrong = (hardware != last.d) & written
    odd = np.isnan(to_float64(hardware, last.d_type)) & np.isnan(to_float64(last.d, last.d_type))
    if not wrong.any():
        return Diagnosis("the same", ())
    width = last.d.shape[1] // len(last.a)
    first = int(np.argmax(wrong.any(axis=0))) // width * width
    columns = slice(first, first + width)
    product = Product.of(chain, columns)
    model = product.run() if product else last.d[:, columns]
    if product is None or ((model != last.d[:, columns]) & written[:, columns]).any():
        return Diagnosis("unknown", (NOT_LOOKED_INTO,))
    if shared is not None:
        product = dataclasses.replace(product, memory=(shared.begin, shared.bytes.tobytes()))
    diagnosis = diagnose(product, np.where(written[:, columns], hardware[:, columns], model))
    more = []
    lines = [int((wrong & ~odd).any(axis=axis).sum()) for axis in (0, 1)]
    if shared is None and diagnosis.looks_like in ("unknown", "a wrong term") and min(lines) > 1:
        more.append("with `shared`, the memory that was read, other descriptors are tried on all of it")
    if len(last.a) > 1:
        more.append(f"columns are counted from {first}, where those begin that share their copy of A")
    return dataclasses.replace(diagnosis, because=(*diagnosis.because, *more))


def _chain(results: Any) -> list[MmaResult]:
    """The results one after the other; InputError unless each begins with what the one before left."""
    chain = [results] if isinstance(results, MmaResult) else list(results) if isinstance(results, Sequence) else []
    if not chain or not all(isinstance(r, MmaResult) for r in chain):
        raise InputError(f"results = {shown(results)}: needs what wgmma or tcgen05_mma returned, or a list of that")
    for i, (before, after) in enumerate(itertools.pairwise(chain), 1):
        kinds = [(r.instruction, r.d.shape, *(x.dtype for x in (r.a[0], r.b)), r.d_type) for r in (before, after)]
        if kinds[0] != kinds[1]:
            raise InputError(f"results[{i}] is {kinds[1]}, results[{i - 1}] {kinds[0]}: needs instructions of one kind and shape")
        lost = after.c != before.d
        if (lost if before.written is None else lost & before.written).any():
            raise InputError(f"results[{i}] does not add to what results[{i - 1}] left in D: needs a chain from where D begins anew")
    return chain


Tests = tuple[tuple[LooksLike, Callable[[Compared], list[str]]], ...]
# What has few numbers to choose; other descriptors, of which there are thousands; and systems of equations, which often
# have a solution.
FIRST: Tests = (
    ("another option", other_options), ("another option", other_instructions), ("rounding", other_roundings),
    ("a wrong layout", moved_lines), ("a wrong layout", other_operands),
    ("a wrong term", lambda c: [*other_elements(c, "A"), *other_elements(c, "B")]),
)  # fmt: skip
SECOND: Tests = (("a wrong layout", lambda c: [*read_otherwise(c, "A"), *read_otherwise(c, "B")]),)
LAST: Tests = (("a wrong layout", moved_elements), ("a wrong term", lambda c: other_lines(c, "A") or other_lines(c, "B")))
# of a few elements of D alone, which no operand reaches
FEW: Tests = (("rounding", other_roundings), ("a wrong layout", moved_elements))


def diagnose(product: Product, hardware: np.ndarray, more: Tests = (), extra: np.ndarray | None = None) -> Diagnosis:
    """Why the D of a `Product` is not what hardware left.

    `hardware` are raw bits of the type of D. The tests of `more` are made before all others; `extra` is that of
    `Compared`.
    """
    c = Compared.of(product, hardware, extra)
    if (c.hardware == c.model).all():
        return Diagnosis("the same", ())
    diagnosis = _diagnosed(c, more) if c.wrong.any() else Diagnosis("unknown", ())
    nan = c.hardware[(c.hardware != c.model) & ~c.wrong]
    if nan.size:
        bits = f"hardware has NaNs with other bits, {int(nan[0]):#x} where the model has {NAN[product.types[2]]:#x}"
        diagnosis = dataclasses.replace(
            diagnosis, because=(*diagnosis.because, f"{bits}; that is not counted" if diagnosis.because else f"{bits}, and nothing else")
        )
    return diagnosis


def _diagnosed(c: Compared, more: Tests) -> Diagnosis:
    rounded, few = not c.beyond.any(), c.wrong.sum() <= ALONE
    loosely = not rounded and c.beyond.sum() >= SEVERAL
    for exact in (False,) if loosely and c.extra is not None else (True, False) if loosely else (True,):
        c = dataclasses.replace(c, exact=exact)
        sentences = _found(c, more + (FEW if few else FIRST))
        if not (rounded or few):
            if {looks_like for looks_like, _ in sentences} <= {"a wrong layout"}:
                sentences += _found(c, SECOND)
            sentences = sentences or _found(c, LAST)
        if sentences:
            return _combined(c, sentences, rounded)
    return _rounding(c) if rounded else _unknown(c)


def _found(c: Compared, tests: Tests) -> list[tuple[LooksLike, str]]:
    return [(looks_like, text) for looks_like, test in tests for text in test(c)]


def _combined(c: Compared, sentences: list[tuple[LooksLike, str]], rounded: bool) -> Diagnosis:
    """The diagnosis from everything that gives D. If rounding does, and no difference is
    larger, the rest is left out.
    """
    if rounded and any(looks_like == "rounding" for looks_like, _ in sentences):
        sentences = [one for one in sentences if one[0] == "rounding"]
    kinds = list(dict.fromkeys(looks_like for looks_like, _ in sentences))
    because = [f"D is what it would be if {sentences[0][1]}, {c.said}"]
    because += [f"or if {text}" for _, text in sentences[1 : SHOWN + 1]]
    because += [f"or {len(sentences) - SHOWN - 1} things more"] if len(sentences) > SHOWN + 1 else []
    if len(kinds) > 1:
        because.append(f"these data do not tell {' from '.join(kinds)}")
    return Diagnosis(kinds[0] if len(kinds) == 1 else "unknown", tuple(because))


def _where(c: Compared) -> str:
    """In which rows and columns they differ; a few whole ones are named."""
    whole = [np.nonzero(2 * c.wrong.sum(axis=axis) > c.wrong.shape[axis])[0] for axis in (1, 0)]
    rest = c.wrong.copy()
    rest[whole[0]] = rest[:, whole[1]] = False
    if not rest.any() and max(len(lines) for lines in whole) <= ALONE:
        return " and ".join(f"{what} {line}" for what, lines in zip(("row", "column"), whole, strict=True) for line in lines)
    rows, columns = (np.nonzero(c.wrong.any(axis=axis))[0] for axis in (1, 0))
    return " and ".join(
        f"{what} {found[0]}" if len(found) == 1 else f"{len(found)} {what}s ({found[0]} to {found[-1]})"
        for what, found in (("row", rows), ("column", columns))
    )


def _rounding(c: Compared) -> Diagnosis:
    because = ["no difference is larger than rounding could make it; no other rounding that was tried gives all of D"]
    if c.wrong.sum() > ALONE:
        because += [
            f"but all of them are in {what} {int(found[0])}, and rounding does not choose: an element of {name} may be another"
            for what, name, axis in (("row", "A", 1), ("column", "B", 0))
            if len(found := np.nonzero(c.wrong.any(axis=axis))[0]) == 1 < c.wrong.shape[1 - axis]
        ]
    return Diagnosis("rounding", tuple(because))


def _unknown(c: Compared) -> Diagnosis:
    """The diagnosis where nothing that was tried gives hardware's D: where D differs, and what may be there."""
    finite = np.abs(c.delta[np.isfinite(c.delta)])
    largest = f"; the largest difference is {finite.max():g}" if finite.any() else ""
    where = _where(c)
    because = [
        f"larger than rounding{largest}, in {where}; no operand, option, other descriptor or order of rows and columns that was tried gives it"
    ]
    count, lines = int(c.wrong.sum()), [int(c.wrong.any(axis=axis).sum()) for axis in (1, 0)]
    if count <= ALONE:
        because.append(
            f"{'one element of D differs' if count == 1 else f'{count} elements of D differ'} alone: an element of A reaches a whole row of D, one of B a "
            "whole column; look at D's own storage, at C, or at what was written over it"
        )
    elif 1 in lines:
        because.append(f"look at that {'row of A' if lines[0] == 1 else 'column of B'}, of C, or of D's own storage")
    elif "(" not in where:
        because.append("an element of A reaches a whole row of D, one of B a whole column: several of them may be wrong")
    elif not c.product.c.any():
        because.append("the model adds to no C: hardware may (scale-d or enable-input-d 1)")
    return Diagnosis("unknown", tuple(because))
