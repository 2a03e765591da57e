"""`find_descriptors`: all descriptors that read an operand from where it lies, or why there is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.arithmetic.values import raw_bits
from smemsim.core.machine.owners import Owners
from smemsim.core.machine.tma import Transfer
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.core.spec.smem_descriptor import REACH
from smemsim.core.words.operand_layout import check_major, check_packing
from smemsim.diagnosis.descriptors.answers import Answer, FoundDescriptor, Nearest, Witness, nearest, read_addresses
from smemsim.diagnosis.descriptors.places import chunk_places, inverted
from smemsim.diagnosis.descriptors.search import MOST_FOUND, Contents, Search, TooAmbiguousError
from smemsim.diagnosis.descriptors.shapes import Shape
from smemsim.diagnosis.parts import element_name

__all__ = ["find_descriptors", "of_memory"]


MOST_ELEMENTS = 1 << 20  # elements of an operand


def find_descriptors(
    places: Any = None,
    *,
    arch: str,
    dtype: Any,
    major: str,
    rows: int | None = None,
    k: int | None = None,
    packing: str = "packed",
    transfers: Transfer | Sequence[Transfer] | None = None,
    wanted: Any = None,
    dump: Any = None,
    base: int | None = None,
    operand: Any = None,
) -> Answer:
    """All shared-memory matrix descriptors that read an operand. If there is none: a proof, and the nearest descriptor.

    The operand is an array of shape (rows, k), (steps, rows, k) or (blocks, steps, rows, k). If an axis is longer than
    one instruction reads, give `rows` or `k` of one instruction. The axis is then cut into blocks or steps. Pass the
    operand in one of three forms.

    - Shared addresses: `places`, that of the lowest bit of every element.
    - Global addresses: `wanted`, that of every element, with the `transfers` of `tma_load` that wrote shared memory, in
      order.
    - Content: `operand`, raw element bits, with `dump`, the bytes (or uint8) of shared memory from address `base` on.

    Layout, LBO and SBO are the same for all blocks and steps. The start addresses are independent. If contents repeat
    in a dump, `alternatives` has every possible start address of a word. If there are too many, the answer is
    `ambiguous`.

    The addresses follow the rules of `operand_addresses`: measured on an H200 for sm_90a, witnessed or inferred for
    sm_100a and sm_103a. The answer has the grade in `grade`.

    Raises InputError for arguments that do not go together. Raises Unmodelled if it is not known what a layout reads.

    >>> from smemsim import find_descriptors
    >>> import numpy as np
    >>> places = 1024 + 128 * np.arange(64)[:, None] + 2 * np.arange(16)  # rows of 128 B, not swizzled
    >>> answer = find_descriptors(places, arch="sm_90a", dtype="bf16", major="K")
    >>> len(answer.descriptors), answer.nearest.right, answer.nearest.of, answer.nearest.found.swizzle.value
    (0, 128, 1024, 'none')
    >>> print(answer.witnesses[0].text)
    (row 0, k 0) and (row 1, k 0) are 128 B apart, not 16 B
    >>> found = find_descriptors(places ^ (places >> 7 & 7) << 4, arch="sm_90a", dtype="bf16", major="K").descriptors[0]
    >>> found.descriptor, found.unused
    (SmemDescriptor(arch='sm_90a', start_address=1024, leading_byte_offset=0, stride_byte_offset=1024, swizzle='128B'), ('leading_byte_offset',))
    """
    machine, fmt = architecture(arch), element_format(dtype)
    check_major(major)
    check_packing(packing)
    forms = {"places": places, "wanted": wanted, "operand": operand}
    given = [name for name, value in forms.items() if value is not None]
    if len(given) != 1:
        raise InputError(
            f"{', '.join(given) or 'nothing'} given: needs one of places, wanted (with transfers) or operand (with dump and base)"
        )
    if (wanted is None) != (transfers is None) or (operand is None) != (dump is None) or (dump is None) != (base is None):
        raise InputError("wanted goes with transfers, operand with dump and base: give what belongs together, and nothing else")
    elements = _cut(given[0], forms[given[0]], rows, k)
    blocks, steps, of_rows, of_k = elements.shape
    shape = Shape(machine, fmt, major, packing, blocks, steps, of_rows, of_k)
    if not shape.kinds:
        raise Unmodelled("; ".join(shape.unmodelled))
    if operand is not None:
        contents = _dumped(shape, dump, whole("base", base, minimum=0), raw_bits("operand", elements, fmt))
        return _of_contents(shape, contents)
    elements = elements.astype(np.int64)
    if elements.min(initial=0) < 0:
        raise InputError(f"{given[0]} has {int(elements.min())}: every element needs an address; leave out the rows that do not matter")
    if places is not None:
        return _of_places(shape, elements)
    return of_memory(shape, _loaded(transfers), elements)


def _cut(name: str, value: Any, rows: int | None, k: int | None) -> np.ndarray:
    """(blocks, steps, rows, k)."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} = {shown(value)}: needs an array") from None
    if array.ndim not in (2, 3, 4) or not array.size or array.dtype.kind not in "iu":
        raise InputError(
            f"{name}: an array of {array.dtype} {array.shape}; needs whole numbers, (rows, k), (steps, rows, k) or (blocks, steps, rows, k)"
        )
    if array.size > MOST_ELEMENTS:
        raise InputError(f"{name} has {array.size:,} elements; a tile has at most {MOST_ELEMENTS:,}")
    if array.ndim > 2:
        if (rows not in (None, array.shape[-2])) or (k not in (None, array.shape[-1])):
            raise InputError(f"rows, k: {name} {array.shape} is cut into instructions of {array.shape[-2]} x {array.shape[-1]} already")
        return array[None] if array.ndim == 3 else array
    sizes = []
    for what, one, extent in (("rows", rows, array.shape[0]), ("k", k, array.shape[1])):
        size = extent if one is None else whole(what, one, minimum=1)
        if extent % size:
            raise InputError(f"{what} = {size}: does not divide the {extent} of {name}")
        sizes.append(size)
    own_rows, own_k = sizes
    return array.reshape(array.shape[0] // own_rows, own_rows, array.shape[1] // own_k, own_k).swapaxes(1, 2)


# ---- the three forms


def _of_places(shape: Shape, places: np.ndarray) -> Answer:
    found, refuted = inverted(shape, places)
    if found:
        return dataclasses.replace(_answer(shape, found, refuted), shared=_shared(shape, places))
    chunks, _ = chunk_places(shape, places)
    answer = _answer(shape, [], refuted, nearest(shape, chunks, lambda reads: reads == places))
    other = dataclasses.replace(shape, major="MN" if shape.major == "K" else "K")
    transposed = inverted(other, places)[0]
    if transposed:
        hint = f"but {other.major}-major {int(transposed[0].words[0, 0]):#018x} reads it: the operand lies transposed"
        answer = dataclasses.replace(answer, why=f"{answer.why}; {hint}")
    return answer


def _shared(shape: Shape, places: np.ndarray) -> str:
    """A sentence about the first two elements that lie at one address; "" for a layout that is one-to-one, and for
    elements of which bytes hold several.
    """
    if shape.fmt.bits < 8:
        return ""
    flat = places.ravel()
    _, first, of = np.unique(flat, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[of] != np.arange(flat.size))
    if not again.size:
        return ""
    two = [element_name([int(x) for x in np.unravel_index(int(n), places.shape)], places.shape) for n in (first[of[again[0]]], again[0])]
    return (
        f"{again.size} of {flat.size} elements have the address of another element, such as {two[1]} that of {two[0]}; no kernel can store "
        "different elements there"
    )


def of_memory(shape: Shape, memory: Owners, wanted: np.ndarray) -> Answer:
    """All descriptors, or why there is none, of what `memory` holds; `wanted` is the global byte of every element
    (blocks, steps, rows, k).
    """
    places = memory.locate(wanted)
    missing = places < 0
    if missing.any():
        first: Any = tuple(np.argwhere(missing)[0].tolist())
        what = f"global byte {int(wanted[first]):#x}" if wanted[first] >= 0 else "what lies outside its tensor,"
        text = f"{int(missing.sum())} of {missing.size} elements are not in shared memory; the first is {what} of {element_name(first, places.shape)}"
        chunks = shape.lined(places)[..., :: shape.per_chunk]
        return _answer(shape, [], [], nearest(shape, chunks, lambda reads: memory.source(reads) == wanted), text)
    if not np.isin(wanted, memory.repeated()).any():
        return _of_places(shape, places)
    count, inside = shape.chunks, shape.inside
    lined = shape.lined(wanted)
    cells = np.full((*lined.shape[:-1], count * CHUNK), -1, np.int64)
    columns = np.arange(shape.along) // shape.per_chunk * CHUNK + inside
    for byte in range(max(shape.fmt.bits // 8, 1)):  # elements of less than 8 bits come from one byte
        cells[..., columns + byte] = lined + byte
    if (cells[..., columns] != lined).any():
        raise InputError("wanted: elements that lie in one byte of shared memory need the same global byte")
    mask = np.where(cells[0, 0, 0] < 0, 0, -1).reshape(count, CHUNK)
    held = memory.source(np.arange(-(-memory.size // LINE) * LINE))
    return _of_contents(shape, Contents(0, held, cells.reshape(*lined.shape[:-1], count, CHUNK), mask))


def _loaded(transfers: Any) -> Owners:
    """Shared memory as loads leave it."""
    listed = [transfers] if isinstance(transfers, Transfer) else list(transfers) if isinstance(transfers, Sequence) else [None]
    memory = Owners(REACH)
    for one in listed:
        if not isinstance(one, Transfer) or one.is_store:
            raise InputError(f"transfers = {shown(transfers)}: needs what tma_load returned, or a list of that")
        memory.put(one.shared_address.astype(np.int64), one)
    return memory


def _dumped(shape: Shape, dump: Any, base: int, codes: np.ndarray) -> Contents:
    if isinstance(dump, (bytes, bytearray, memoryview)):
        memory = np.frombuffer(dump, np.uint8)
    else:
        memory = np.asarray(dump)
        if memory.dtype != np.uint8:
            raise InputError(f"dump: {memory.dtype} {memory.shape}; needs bytes, or an array of uint8 (x.view(np.uint8))")
    memory = memory.ravel()
    if not memory.size or base + memory.size > REACH:
        raise InputError(
            f"dump has {memory.size} bytes from base {base:#x} on; needs some, all below {REACH:#x}, where .shared addresses end"
        )
    begin = base // LINE * LINE
    end = -(-(base + memory.size) // LINE) * LINE
    cells = np.full(end - begin, -1, np.int64)
    cells[base - begin : base - begin + memory.size] = memory
    lined = shape.lined(codes)
    return Contents(begin, cells, _packed(shape, lined), _packed(shape, np.full(shape.along, (1 << shape.fmt.bits) - 1, np.uint64)))


def _packed(shape: Shape, lined: np.ndarray) -> np.ndarray:
    """(..., chunks, 16): the bytes of elements along the contiguous axis."""
    bits, per_chunk = shape.fmt.bits, shape.per_chunk
    padded = np.zeros((*lined.shape[:-1], shape.chunks * per_chunk), np.uint64)
    padded[..., : shape.along] = lined
    each = padded.reshape(*lined.shape[:-1], shape.chunks, per_chunk, 1) >> np.arange(bits, dtype=np.uint64) & np.uint64(1)
    raw = np.packbits(each.astype(np.uint8).reshape(*each.shape[:-2], per_chunk * bits), axis=-1, bitorder="little")
    out = np.zeros((*raw.shape[:-1], CHUNK), np.int64)
    out[..., : raw.shape[-1]] = raw
    return out


def _of_contents(shape: Shape, contents: Contents) -> Answer:
    chunks, count = contents.places()
    lost = count == 0
    if lost.any():
        block, step, line, chunk = (int(x) for x in np.argwhere(lost)[0])
        at = (block, step, *shape.element(line, chunk))
        text = f"{int(lost.sum())} of {lost.size} 16-byte chunks of the operand lie nowhere in it, at no multiple of 16; the first begins with {element_name(at, (shape.blocks, shape.steps, shape.rows, shape.k))}"
        return _answer(shape, [], [], nearest(shape, chunks, lambda reads: _right(shape, contents, reads)), text)
    if (count == 1).all():
        return _of_places(shape, shape.lined(np.repeat(chunks, shape.per_chunk, axis=-1)[..., : shape.along] + shape.inside))
    descriptors: list[FoundDescriptor] = []
    refuted: list[Witness] = []
    ambiguous = []
    for kind in shape.kinds:
        if len(descriptors) > MOST_FOUND:
            ambiguous.append(f"more than {MOST_FOUND} read the same")
            break
        try:
            some = Search(shape, kind, contents).all()
        except TooAmbiguousError as e:
            ambiguous.append(str(e))
            continue
        if isinstance(some, Witness):
            refuted.append(some)
        else:
            descriptors += [one for one in some if _right(shape, contents, read_addresses(shape, one.words)).all()]
    said = f"the contents repeat too often to tell all the descriptors: {ambiguous[0]}" if ambiguous else ""
    if shape.absolute is not None:
        said = "; ".join(filter(None, (said, "absolute LBO is not searched for where contents repeat")))
    near = None if descriptors or said else nearest(shape, chunks, lambda reads: _right(shape, contents, reads))
    return _answer(shape, descriptors, refuted, near, ambiguous=said)


def _right(shape: Shape, contents: Contents, reads: np.ndarray) -> np.ndarray:
    """Which elements (blocks, steps, rows, k) are what is wanted when read from these addresses."""
    begins = shape.lined(reads)[..., :: shape.per_chunk]
    inside = (begins >= contents.begin) & (begins + CHUNK <= contents.begin + len(contents.cells))
    read = contents.cells.reshape(-1, CHUNK)[np.where(inside, begins - contents.begin, 0) // CHUNK]
    wrong = np.where(inside[..., None] & (read >= 0), (read ^ contents.wanted) & contents.mask, -1)
    byte = np.where((wrong < 0) | (wrong > 0xFF), 0xFF, wrong).astype(np.uint8)
    bits = np.unpackbits(byte, axis=-1, bitorder="little")[..., : shape.per_chunk * shape.fmt.bits]
    each = bits.reshape(*bits.shape[:-1], shape.per_chunk, shape.fmt.bits).any(axis=-1)
    good = ~each.reshape(*each.shape[:-2], -1)[..., : shape.along]
    return np.asarray(shape.lined(good))


# ---- the answer


def _answer(
    shape: Shape,
    descriptors: list[FoundDescriptor],
    refuted: list[Witness],
    near: Nearest | None = None,
    text: str = "",
    ambiguous: str = "",
) -> Answer:
    why = ""
    if not descriptors:
        why = text or (ambiguous if ambiguous else f"no descriptor reads it {shape.major}-major: {_told(refuted)}")
        if shape.unmodelled and not ambiguous:
            why += f"; not considered: {'; '.join(shape.unmodelled)}"
    descriptors = sorted(descriptors, key=lambda one: (one.absolute, one.base_offsets[0] > 0))
    return Answer(shape.machine.name, tuple(descriptors), near, why, tuple(refuted), ambiguous, shape.unmodelled)


def _told(refuted: list[Witness]) -> str:
    """One sentence a mode, that of its first base offset; the others are refuted too."""
    if refuted and refuted[0].swizzle is None:
        return refuted[0].text
    modes = list(dict.fromkeys((witness.swizzle, witness.absolute) for witness in refuted))
    first = [next(witness for witness in refuted if (witness.swizzle, witness.absolute) == mode) for mode in modes]
    names = [f"{witness.swizzle}{' with absolute LBO' if witness.absolute else ''}" for witness in first]
    several = any(witness.base_offset for witness in refuted)
    other = " (other base offsets fail too: see witnesses)" if several else ""
    return "; ".join(f"{name}: {witness.text}" for name, witness in zip(names, first, strict=True)) + other
