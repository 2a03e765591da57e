"""Descriptors of elements whose addresses are known: every layout has at most one, which follows from a few elements;
the others prove or refute it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemsim.core.layout.operand import absolute_chunk
from smemsim.core.spec.shared_memory import ATOM_ROWS, CHUNK, LINE
from smemsim.core.spec.smem_descriptor import REACH
from smemsim.diagnosis.descriptors.answers import FoundDescriptor, Witness, described, read_addresses
from smemsim.diagnosis.descriptors.shapes import Kind, Shape
from smemsim.diagnosis.parts import element_name

__all__ = ["chunk_places", "inverted", "partial_solutions", "solutions"]


At = tuple[int, int, int, int]  # (block, step, line, chunk)


def solutions(shape: Shape, places: np.ndarray) -> Iterator[FoundDescriptor]:
    """The descriptors with base offset 0 and relative LBO for elements that lie at `places` (blocks, steps, rows, k),
    one a mode.
    """
    chunks, torn = chunk_places(shape, places)
    for kind in shape.kinds if torn is None else ():
        descriptor = _solved(shape, kind, chunks) if kind.base_offset == 0 else None
        if isinstance(descriptor, FoundDescriptor) and (read_addresses(shape, descriptor.words) == places).all():
            yield descriptor


def partial_solutions(shape: Shape, places: np.ndarray, starts: np.ndarray) -> Iterator[FoundDescriptor]:
    """The descriptors that read the known elements of `places`; -1 marks elements that may be anywhere, as those beyond
    the end of a tensor.

    At least one element must be known. An instruction of which nothing is known begins as far from `starts` (blocks,
    steps) as the first one that is known.
    """
    known = places >= 0
    lined = shape.lined(places)
    begins = np.full((*lined.shape[:-1], shape.chunks), -1, np.int64)
    for along in reversed(range(shape.along)):
        here = lined[..., along]
        begins[..., along // shape.per_chunk] = np.where(here >= 0, here - shape.inside[along], begins[..., along // shape.per_chunk])
    for kind in shape.kinds:
        descriptor = _fitted(shape, kind, begins, starts) if kind.base_offset == 0 else None
        if descriptor is not None and (read_addresses(shape, descriptor.words) == places)[known].all():
            yield descriptor


def _fitted(shape: Shape, kind: Kind, chunks: np.ndarray, given: np.ndarray) -> FoundDescriptor | None:
    """The descriptor that a layout has for the known chunks (not -1), if these give one that its fields can hold."""
    known = chunks >= 0
    rest = kind.before(chunks) - kind.fixed
    strides: dict[str, int | None] = {"LBO": None, "SBO": None}
    for name, own, other in (("LBO", kind.of_lbo, kind.of_sbo), ("SBO", kind.of_sbo, kind.of_lbo)):
        for block, step in np.ndindex(*chunks.shape[:2]):
            seen = known[block, step]
            if not seen.any():
                continue
            low, high = (np.argwhere(seen & (own == own[seen].min() + n) & (other == other[seen].min())) for n in (0, 1))
            if len(low) and len(high):
                strides[name] = int(rest[block, step][tuple(high[0])] - rest[block, step][tuple(low[0])])
                break
    lbo, sbo = strides["LBO"] or 0, strides["SBO"] or 0
    begin = rest - kind.of_lbo * lbo - kind.of_sbo * sbo
    starts = np.where(known, begin, -1).max(axis=(2, 3))
    sure = known.any(axis=(2, 3))
    starts = np.where(sure, starts, given + (starts - given)[sure][0])
    values = [*starts.ravel().tolist(), lbo, sbo]
    if not all(0 <= value < REACH and value % CHUNK == 0 for value in values):
        return None
    return described(shape, kind, strides["LBO"], strides["SBO"], starts)


def inverted(shape: Shape, places: np.ndarray) -> tuple[list[FoundDescriptor], list[Witness]]:
    """Every descriptor for elements that lie at `places`, and for every other layout why it has none."""
    chunks, torn = chunk_places(shape, places)
    if torn is not None:
        return [], [torn]
    descriptors, refuted = [], []
    for solution in [*(_solved(shape, kind, chunks) for kind in shape.kinds), *_absolute(shape, places, chunks)]:
        if isinstance(solution, Witness):
            refuted.append(solution)
        else:
            descriptors.append(solution)
    return descriptors, refuted


def chunk_places(shape: Shape, places: np.ndarray) -> tuple[np.ndarray, Witness | None]:
    """(blocks, steps, lines, chunks) where every chunk begins; and two elements of one chunk that are not where one
    chunk has them.
    """
    lined = shape.lined(places)
    begins = lined[..., :: shape.per_chunk]
    inside = shape.inside
    where = np.repeat(begins, shape.per_chunk, axis=-1)[..., : shape.along] + inside
    if (lined != where).any():
        block, step, line, along = (int(x) for x in np.argwhere(lined != where)[0])
        first, off = along // shape.per_chunk * shape.per_chunk, int(inside[along])
        text = f"lie {int(lined[block, step, line, along] - lined[block, step, line, first])} B apart, not {off} B as in 16 bytes of {shape.fmt.name}"
        ats = [(block, step, *((line, i) if shape.major == "K" else (i, line))) for i in (first, along)]
        return begins, Witness(None, 0, False, tuple((at, int(places[at])) for at in ats), f"{_named(shape, ats)} {text}")
    if (begins % CHUNK).any():
        at = _first(begins % CHUNK != 0)
        address = int(begins[at])
        who = _elements(shape, begins, [at])
        text = f"{_named(shape, [who[0][0]])} lies at {address:#x}, which is no multiple of 16"
        return begins, Witness(None, 0, False, who, text)
    return begins, None


def _absolute(shape: Shape, places: np.ndarray, chunks: np.ndarray) -> list[FoundDescriptor | Witness]:
    """The only descriptor with absolute LBO, if the architecture has it. LBO is the address of the buffer in which rows
    continue.
    """
    kind = next((kind for kind in shape.kinds if kind.mode is shape.absolute), None)
    if kind is None:
        return []
    sums = kind.before(chunks)
    starts, lbo, sbo = sums[:, :, 0, 0], None, None
    defining: list[At] = [(0, 0, 0, 0)]
    for block, step, chunk in np.ndindex(*starts.shape, sums.shape[3]):
        if starts[block, step] % LINE // CHUNK + chunk >= LINE // CHUNK:  # past the end of the line
            defining.append((block, step, 0, chunk))
            lbo = int(sums[defining[-1]]) - absolute_chunk(int(starts[block, step]), 0, 0, 0, chunk)
            break
    if sums.shape[2] > ATOM_ROWS:
        defining.append((0, 0, ATOM_ROWS, 0))
        sbo = int(sums[0, 0, ATOM_ROWS, 0] - sums[0, 0, 0, 0])
    fields = [*starts.ravel().tolist(), lbo or 0, sbo or 0]
    if all(0 <= value < REACH for value in fields):
        descriptor = described(shape, kind, lbo, sbo, starts, absolute=True)
        wrong = read_addresses(shape, descriptor.words) != places
        if not wrong.any():
            return [descriptor]
        block, step, row, k = (int(x) for x in np.argwhere(wrong)[0])
        line, along = (row, k) if shape.major == "K" else (k, row)
        defining += [(block, step, 0, 0), (block, step, line, along // shape.per_chunk)]
    who = _elements(shape, chunks, list(dict.fromkeys(defining)))
    text = f"{_named(shape, [at for at, _ in who])} fit no start, address of the next buffer and SBO together"
    return [Witness(kind.mode.swizzle, 0, True, who, text)]


def _solved(shape: Shape, kind: Kind, chunks: np.ndarray) -> FoundDescriptor | Witness:
    """The only descriptor of a layout that may read the chunks, or why it does not."""
    rest = kind.before(chunks) - kind.fixed  # what start, LBO and SBO must sum to
    starts = rest[:, :, 0, 0]
    strides: dict[str, int | None] = {}
    defining: dict[str, At] = {}
    for name, own, other in (("LBO", kind.of_lbo, kind.of_sbo), ("SBO", kind.of_sbo, kind.of_lbo)):
        where = np.argwhere((own == 1) & (other == 0))
        strides[name] = None
        if len(where):
            at = defining[name] = (0, 0, int(where[0, 0]), int(where[0, 1]))
            strides[name] = int(rest[at] - starts[0, 0])
    lbo, sbo = strides["LBO"] or 0, strides["SBO"] or 0
    wanted = starts[:, :, None, None] + kind.of_lbo * lbo + kind.of_sbo * sbo
    if (rest != wanted).any():
        return _contradiction(shape, kind, chunks, rest, wanted, defining)
    for name, value in strides.items():
        if value is not None and not 0 <= value < REACH:
            at = defining[name]
            who = _elements(shape, chunks, [(0, 0, 0, 0), at])
            text = f"{_named(shape, [x for x, _ in who])} would need {name} = {value} B, the field has multiples of 16 B from 0 to {REACH - CHUNK}"
            return Witness(kind.mode.swizzle, kind.base_offset, False, who, text)
    outside = (starts < 0) | (starts >= REACH)
    if outside.any():
        block, step = (int(x) for x in np.argwhere(outside)[0])
        who = _elements(shape, chunks, [(block, step, 0, 0)])
        text = f"{_named(shape, [who[0][0]])} would need a start of {int(starts[block, step]):#x}, the field has multiples of 16 B below {REACH:#x}"
        return Witness(kind.mode.swizzle, kind.base_offset, False, who, text)
    return described(shape, kind, strides["LBO"], strides["SBO"], starts)


def _contradiction(shape: Shape, kind: Kind, chunks: np.ndarray, rest: np.ndarray, wanted: np.ndarray, defining: dict[str, At]) -> Witness:
    """Two elements of one atom with the wrong distance if there are any, else those that give the strides and one that
    does not fit them.
    """
    near = (kind.of_lbo == 0) & (kind.of_sbo == 0)
    inside = (rest != wanted) & near
    sums = kind.before(chunks)
    if not inside.any():
        same = _same_atom(kind, rest)
        if same is not None:
            first, at = same
            return _pair(shape, kind, chunks, sums, first, at)
        at = _first(rest != wanted)
        line, chunk = at[2:]
        used = [defining[name] for name, of in (("LBO", kind.of_lbo), ("SBO", kind.of_sbo)) if of[line, chunk] and name in defining]
        ats = list(dict.fromkeys([(0, 0, 0, 0), *used, (*at[:2], 0, 0), at]))
        who = _elements(shape, chunks, ats)
        given = " and ".join(
            f"{name} {int(rest[defining[name]] - rest[0, 0, 0, 0])} B (from {_named(shape, [_elements(shape, chunks, [defining[name]])[0][0]])})"
            for name, of in (("LBO", kind.of_lbo), ("SBO", kind.of_sbo))
            if of[line, chunk] and name in defining
        )
        text = (
            f"{given} would put {_named(shape, [who[-1][0]])} at the sum {int(sums[at] + wanted[at] - rest[at]):#x}, "
            f"it lies where the sum {int(sums[at]):#x} leads"
        )
        return Witness(kind.mode.swizzle, kind.base_offset, False, who, text)
    at = _first(inside)
    return _pair(shape, kind, chunks, sums, (*at[:2], 0, 0), at)


def _pair(shape: Shape, kind: Kind, chunks: np.ndarray, sums: np.ndarray, first: At, at: At) -> Witness:
    who = _elements(shape, chunks, [first, at])
    apart, wants = int(sums[at] - sums[first]), int(kind.fixed[at[2:]] - kind.fixed[first[2:]])
    before = " before the XOR" if kind.mode.mask else ""
    text = f"{_named(shape, [x for x, _ in who])} are {apart} B apart{before}, not {wants} B"
    return Witness(kind.mode.swizzle, kind.base_offset, False, who, text)


def _same_atom(kind: Kind, rest: np.ndarray) -> tuple[At, At] | None:
    """Two chunks that start, LBO and SBO move alike, in one instruction, and that are not where the other says."""
    group = kind.of_lbo * (int(kind.of_sbo.max()) + 1) + kind.of_sbo
    _, first, which = np.unique(group, return_index=True, return_inverse=True)
    flat = rest.reshape(*rest.shape[:2], -1)
    wrong = flat != flat[..., first[which.ravel()]]
    if not wrong.any():
        return None
    block, step, at = (int(x) for x in np.argwhere(wrong)[0])
    own = int(first[which.ravel()[at]])
    width = rest.shape[3]
    return (block, step, *divmod(own, width)), (block, step, *divmod(at, width))


def _first(wrong: np.ndarray) -> At:
    block, step, line, chunk = (int(x) for x in np.argwhere(wrong)[0])
    return block, step, line, chunk


def _elements(shape: Shape, chunks: np.ndarray, ats: list[At]) -> tuple[tuple[tuple[int, int, int, int], int], ...]:
    """The first elements of chunks, and where they lie."""
    return tuple(((at[0], at[1], *shape.element(at[2], at[3])), int(chunks[at])) for at in ats)


def _named(shape: Shape, ats: list[tuple[int, int, int, int]]) -> str:
    """Elements in words."""
    return " and ".join(f"({element_name(at, (shape.blocks, shape.steps, shape.rows, shape.k))})" for at in ats)
