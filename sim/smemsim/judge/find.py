"""Which descriptors read an operand from where it lies.

Whatever the layout, the sum before the XOR is start + fixed + l * LBO + s * SBO, where `fixed`, l and s belong to the chunk. They are taken from
the formulas themselves: with all fields 0, with LBO 1, with SBO 1. (Absolute LBO, of sm_103a, is apart.)

Memory is cells, one a byte: its eight bits, or where it came from; -1 is what nobody knows. A wanted chunk is 16 cells and a mask for the bits of
them that count (the last chunk of a row may be part of one, and padded elements leave gaps).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from smemsim.arguments import shown, whole
from smemsim.arithmetic.values import raw_bits
from smemsim.errors import InputError, Unmodelled
from smemsim.layout.operand import absolute_chunk
from smemsim.machine.owners import Owners
from smemsim.machine.product import shared_grade
from smemsim.machine.tma import Transfer
from smemsim.spec.architectures import Architecture, architecture
from smemsim.spec.formats import ElementFormat, element_format
from smemsim.spec.grades import Grade
from smemsim.spec.shared_memory import ATOM_ROWS, CHUNK, LINE
from smemsim.spec.smem_descriptor import REACH, START, layout_codes
from smemsim.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.words.operand import operand_addresses, swizzled
from smemsim.words.operand_layout import Decoded, check_major, check_packing, linear_address, why_unmodelled
from smemsim.words.smem import SmemDescriptor

__all__ = [
    "MOST_FOUND",
    "Answer",
    "Contents",
    "FoundDescriptor",
    "Kind",
    "Nearest",
    "Search",
    "Shape",
    "TooAmbiguousError",
    "Witness",
    "chunk_places",
    "described",
    "find_descriptors",
    "inverted",
    "nearest",
    "of_memory",
    "partial_solutions",
    "read_addresses",
    "solutions",
]


# ---- Descriptors of elements whose addresses are known: every layout has at most one, which follows from a few elements; the others prove
# or refute it


At = tuple[int, int, int, int]  # (block, step, line, chunk)


def solutions(shape: Shape, places: np.ndarray) -> Iterator[FoundDescriptor]:
    """The descriptors with base offset 0 and relative LBO for elements that lie at `places` (blocks, steps, rows, k), one a mode."""
    chunks, torn = chunk_places(shape, places)
    for kind in shape.kinds if torn is None else ():
        descriptor = _solved(shape, kind, chunks) if kind.base_offset == 0 else None
        if isinstance(descriptor, FoundDescriptor) and (read_addresses(shape, descriptor.words) == places).all():
            yield descriptor


def partial_solutions(shape: Shape, places: np.ndarray, starts: np.ndarray) -> Iterator[FoundDescriptor]:
    """The descriptors that read the known elements of `places`; -1 marks elements that may be anywhere, as those beyond the end of a tensor.

    At least one element must be known. An instruction of which nothing is known begins as far from `starts` (blocks, steps) as the first one that is known.
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
            low, high = (np.argwhere(seen & (own == n) & (other == other[seen].min(initial=0))) for n in (0, 1))
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
    """(blocks, steps, lines, chunks) where every chunk begins; and two elements of one chunk that are not where one chunk has them."""
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
    """The only descriptor with absolute LBO, where the architecture has that: LBO is the address of the buffer in which rows go on."""
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
    if all(0 <= value < REACH and value % CHUNK == 0 for value in fields):
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
        if value is not None and not (0 <= value < REACH and value % CHUNK == 0):
            at = defining[name]
            who = _elements(shape, chunks, [(0, 0, 0, 0), at])
            text = f"{_named(shape, [x for x, _ in who])} would need {name} = {value} B, the field has multiples of 16 B from 0 to {REACH - CHUNK}"
            return Witness(kind.mode.swizzle, kind.base_offset, False, who, text)
    outside = (starts < 0) | (starts >= REACH) | (starts % CHUNK != 0)
    if outside.any():
        block, step = (int(x) for x in np.argwhere(outside)[0])
        who = _elements(shape, chunks, [(block, step, 0, 0)])
        text = f"{_named(shape, [who[0][0]])} would need a start of {int(starts[block, step]):#x}, the field has multiples of 16 B below {REACH:#x}"
        return Witness(kind.mode.swizzle, kind.base_offset, False, who, text)
    return described(shape, kind, strides["LBO"], strides["SBO"], starts)


def _contradiction(shape: Shape, kind: Kind, chunks: np.ndarray, rest: np.ndarray, wanted: np.ndarray, defining: dict[str, At]) -> Witness:
    """Two elements of one atom with the wrong distance if there are any, else those that give the strides and one that does not fit them."""
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
    several = shape.blocks * shape.steps > 1
    return " and ".join(f"({f'block {block} step {step} ' if several else ''}row {row}, k {k})" for block, step, row, k in ats)


# ---- What is to be read, as 16-byte chunks, and what each layout of a descriptor says of where they are


class Kind(NamedTuple):
    """A layout that descriptors have: the mode, one base offset of those that mean the same, and of each chunk (lines, chunks) what its sum has."""

    mode: SwizzleMode
    base_offset: int
    base_offsets: tuple[int, ...]
    fixed: np.ndarray
    of_lbo: np.ndarray
    of_sbo: np.ndarray

    def before(self, addresses: np.ndarray) -> np.ndarray:
        """The sums that the XOR takes to these addresses (the XOR is its own inverse)."""
        return swizzled(addresses, self.mode, self.base_offset)

    @property
    def name(self) -> str:
        """The swizzle and its base offset, as sentences name them."""
        return f"{self.mode.swizzle}{f' with base offset {self.base_offset}' if self.base_offset else ''}"


@dataclasses.dataclass(frozen=True)
class Shape:
    """An operand of `blocks` x `steps` instructions, each (rows, k)."""

    machine: Architecture
    fmt: ElementFormat
    major: str
    packing: str
    blocks: int
    steps: int
    rows: int
    k: int

    @property
    def per_chunk(self) -> int:
        """Elements in 16 bytes."""
        return self.fmt.elements_per_chunk(self.packing)

    @property
    def lines(self) -> int:
        """Rows, or rows of K."""
        return self.rows if self.major == "K" else self.k

    @property
    def along(self) -> int:
        """Elements of the contiguous axis."""
        return self.k if self.major == "K" else self.rows

    @property
    def chunks(self) -> int:
        """Chunks of the contiguous axis."""
        return -(-self.along // self.per_chunk)

    @property
    def inside(self) -> np.ndarray:
        """(along,): the byte of its chunk at which each element begins."""
        return np.arange(self.along) % self.per_chunk * self.fmt.bits // 8

    def lined(self, elements: np.ndarray) -> np.ndarray:
        """(..., rows, k) as (..., lines, along); its own inverse."""
        return elements if self.major == "K" else np.swapaxes(elements, -1, -2)

    def element(self, line: int, chunk: int) -> tuple[int, int]:
        """(row, k) of the first element of a chunk."""
        along = chunk * self.per_chunk
        return (line, along) if self.major == "K" else (along, line)

    @functools.cached_property
    def kinds(self) -> list[Kind]:
        """Every layout whose behaviour is known, in the order of the layout codes; base offsets that mean the same are one."""
        kinds_of_shape = []
        for code, name in layout_codes(self.machine.smem_descriptor).items():
            mode = MODES[name]
            if why_unmodelled(self.machine, name, code, False, 0, self.major, self._k_bytes):
                continue
            for base in range(mode.mask + 1):
                kinds_of_shape.append(self._kind(mode, base))
        return kinds_of_shape

    @functools.cached_property
    def unmodelled(self) -> tuple[str, ...]:
        """Layouts of which nobody knows what they read of such an operand, and why."""
        reasons = (
            why_unmodelled(self.machine, name, code, False, 0, self.major, self._k_bytes)
            for code, name in layout_codes(self.machine.smem_descriptor).items()
        )
        return tuple(reason for reason in reasons if reason)

    @property
    def absolute(self) -> SwizzleMode | None:
        """The mode that absolute LBO is defined for, where this operand may be read so."""
        for code, name in layout_codes(self.machine.smem_descriptor).items():
            if not why_unmodelled(self.machine, name, code, True, 0, self.major, self._k_bytes):
                return MODES[name]
        return None

    @property
    def _k_bytes(self) -> int:
        return -(-self.k // self.per_chunk) * CHUNK

    def _kind(self, mode: SwizzleMode, base: int) -> Kind:
        line, chunk = np.arange(self.lines)[:, None], np.arange(self.chunks)[None]

        def sums(lbo: int, sbo: int) -> np.ndarray:
            d: Any = Decoded(0, lbo, sbo, 0, mode.swizzle, 0)
            found: Any = linear_address(d, self.major, line, chunk)  # type: ignore[arg-type]
            return np.asarray(found + np.zeros((self.lines, self.chunks), np.int64))

        fixed, bases = sums(0, 0), tuple(range(base, 8, mode.mask + 1))
        return Kind(mode, base, bases, fixed, sums(1, 0) - fixed, sums(0, 1) - fixed)


# ---- Answers of the solver: descriptors, the nearest one, and why there is none


@dataclasses.dataclass(frozen=True, eq=False)
class FoundDescriptor:
    """Words that read every element where it lies: (blocks, steps), they differ in their start only.

    `leading` and `stride` are bytes, None where the instruction never uses the field: any value will do. `base_offsets` are those that mean the
    same. `alternatives` has, for every word, all starts that will do: more than one where the contents of memory repeat.

    >>> import smemsim
    >>> import numpy as np
    >>> places = 1024 + 32 * np.arange(64)[:, None] + 2 * np.arange(16)
    >>> found = smemsim.find_descriptors(places ^ (places >> 7 & 1) << 4, arch="sm_90a", dtype="bf16", major="K").descriptors[0]
    >>> str(found.swizzle), found.stride, hex(found.words[0, 0])
    ('32B', 256, '0xc000001000000040')
    """

    arch: str
    swizzle: Swizzle
    base_offsets: tuple[int, ...]
    absolute: bool
    leading: int | None
    stride: int | None
    starts: np.ndarray
    words: np.ndarray
    alternatives: tuple[tuple[tuple[int, ...], ...], ...]
    grade: Grade

    @property
    def descriptor(self) -> SmemDescriptor:
        """The descriptor of the first K step of the first block."""
        return SmemDescriptor.decode(int(self.words[0, 0]), arch=self.arch)

    @property
    def unused(self) -> tuple[str, ...]:
        """Fields whose value does not matter."""
        fields = {
            "leading_byte_offset": self.leading is None,
            "stride_byte_offset": self.stride is None,
            "base_offset": len(self.base_offsets) == 8,
        }
        return tuple(name for name, free in fields.items() if free)

    @property
    def advance(self) -> np.ndarray:
        """(blocks, steps): bytes from the first start."""
        return np.asarray(self.starts - self.starts[0, 0])

    @property
    def sure(self) -> bool:
        """Is every word's start the only one?"""
        return all(len(some) == 1 for row in self.alternatives for some in row)

    def as_dict(self) -> dict[str, Any]:
        """The descriptor as a dictionary for JSON."""
        return {
            "words": [[f"{word:#018x}" for word in row] for row in self.words.tolist()],
            "swizzle": str(self.swizzle),
            "leading_byte_offset": self.leading,
            "stride_byte_offset": self.stride,
            "base_offsets": list(self.base_offsets),
            "absolute_lbo": self.absolute,
            "starts": self.starts.tolist(),
            "alternatives": [[list(some) for some in row] for row in self.alternatives],
            "advance": self.advance.tolist(),
            "unused": list(self.unused),
            "grade": str(self.grade),
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Nearest:
    """The descriptor that reads most elements right, of those that were tried: `right` of `of`.

    `first` is the first wrong (block, step, row, k). `reads` (blocks, steps, rows, k) is where the descriptor reads each element: the layout in
    which it would be right; `moves` says of each element, does it have to move there?
    """

    found: FoundDescriptor
    right: int
    of: int
    first: tuple[int, int, int, int]
    reads: np.ndarray
    moves: np.ndarray
    lies: int  # where the first wrong element lies, -1 if nowhere

    def as_dict(self) -> dict[str, Any]:
        """The nearest descriptor as a dictionary for JSON."""
        return {
            **self.found.as_dict(),
            "right": self.right,
            "of": self.of,
            "first": list(self.first),
            "lies": None if self.lies < 0 else self.lies,
            "reads": int(self.reads[self.first]),
        }


@dataclasses.dataclass(frozen=True)
class Witness:
    """Why one layout reads nothing of it: `elements`, ((block, step, row, k), address), which no start, LBO and SBO put where they are."""

    swizzle: Swizzle | None  # None: none of them can
    base_offset: int
    absolute: bool
    elements: tuple[tuple[tuple[int, int, int, int], int], ...]
    text: str

    def as_dict(self) -> dict[str, Any]:
        """The witness as a dictionary for JSON."""
        return {
            "swizzle": None if self.swizzle is None else str(self.swizzle),
            "base_offset": self.base_offset,
            "absolute_lbo": self.absolute,
            "elements": [{"at": list(at), "address": address} for at, address in self.elements],
            "text": self.text,
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """The answer of `find_descriptors`.

    `descriptors` are all that read the operand, unless `ambiguous` says why the search was given up. Without any, `why` is the proof: for every
    layout a `Witness`; and `nearest` comes closest. `unmodelled` are layouts of which nobody knows what they read: nothing is said of those.

    >>> import smemsim
    >>> import numpy as np
    >>> places = 1024 + 128 * np.arange(64)[:, None] + 2 * np.arange(16)  # bytes, of rows of 128 that no swizzle has
    >>> answer = smemsim.find_descriptors(places, arch="sm_90a", dtype="bf16", major="K")
    >>> len(answer.descriptors), answer.nearest.right, answer.nearest.of
    (0, 128, 1024)
    """

    arch: str
    descriptors: tuple[FoundDescriptor, ...]
    nearest: Nearest | None
    why: str
    witnesses: tuple[Witness, ...]
    ambiguous: str
    unmodelled: tuple[str, ...]
    shared: str = ""  # two elements that lie at the same address: the layout is not one-to-one, "" where it is

    def __repr__(self) -> str:
        more = "" if self.complete else ", of more"
        return f"<Answer on {self.arch}: {len(self.descriptors)} descriptor{'s' * (len(self.descriptors) != 1)}{more}>"

    @property
    def complete(self) -> bool:
        """Are these all the descriptors?"""
        return not self.ambiguous

    def __str__(self) -> str:
        if self.descriptors:
            return f"{len(self.descriptors)} layouts read it; the first is {self.descriptors[0].descriptor!r}{self.shared and f'; {self.shared}'}"
        return self.why

    def as_dict(self) -> dict[str, Any]:
        """The answer as a dictionary for JSON."""
        return {
            "arch": self.arch,
            "descriptors": [d.as_dict() for d in self.descriptors],
            "complete": self.complete,
            "ambiguous": self.ambiguous,
            "why": self.why,
            "witnesses": [w.as_dict() for w in self.witnesses],
            "nearest": None if self.nearest is None else self.nearest.as_dict(),
            "unmodelled": list(self.unmodelled),
            "shared": self.shared,
            "measured": architecture(self.arch).measured,
        }


def described(
    shape: Shape,
    kind: Kind,
    leading: int | None,
    stride: int | None,
    starts: np.ndarray,
    *,
    absolute: bool = False,
    alternatives: tuple[tuple[tuple[int, ...], ...], ...] | None = None,
) -> FoundDescriptor:
    """The descriptor of these fields."""
    arch = shape.machine.name
    base = SmemDescriptor(
        arch=arch,
        leading_byte_offset=leading or 0,
        stride_byte_offset=stride or 0,
        base_offset=kind.base_offset,
        swizzle=kind.mode.swizzle,
        lbo_mode=int(absolute),
    ).encode()
    words = np.uint64(base) | (starts >> START.shift).astype(np.uint64)
    some = alternatives or tuple(tuple((start,) for start in row) for row in starts.tolist())
    grade = shared_grade(int(words[0, 0]), arch, shape.fmt.name, shape.major, shape.k, shape.packing)
    bases = (0,) if absolute else kind.base_offsets
    return FoundDescriptor(arch, kind.mode.swizzle, bases, absolute, leading, stride, starts, words, some, grade)


def read_addresses(shape: Shape, words: np.ndarray) -> np.ndarray:
    """(blocks, steps, rows, k): the address of every element that these words read."""
    addresses = operand_addresses(
        words, arch=shape.machine.name, dtype=shape.fmt, major=shape.major, rows=shape.rows, k=shape.k, packing=shape.packing
    )
    return addresses.astype(np.int64)


# ---- The descriptor that reads most of an operand right, for layouts that no descriptor reads


VOTES = 3  # values of a stride that are tried
TRIED = 6  # descriptors whose elements are counted

Score = Callable[[np.ndarray], np.ndarray]  # addresses (blocks, steps, rows, k) that are read -> which are right


def nearest(shape: Shape, places: np.ndarray, right: Score) -> Nearest | None:
    """The best of those that most chunks vote for; `places` (blocks, steps, lines, chunks) is where chunks lie, -1 if that is not known."""
    known = places >= 0
    if not known.any():
        return None
    whole = np.where(known, places - places % CHUNK, -1)
    voted = [(int(votes), kind, lbo, sbo, starts) for kind in shape.kinds for votes, lbo, sbo, starts in _candidates(kind, whole, known)]
    voted.sort(key=lambda one: -one[0])
    best = None
    for _, kind, lbo, sbo, starts in voted[:TRIED]:
        descriptor = described(shape, kind, lbo, sbo, starts)
        reads = read_addresses(shape, descriptor.words)
        good = right(reads)
        if best is None or good.sum() > best[0].sum():
            best = good, descriptor, reads
    if best is None or not best[0].any() or best[0].all():
        return None
    good, descriptor, reads = best
    block, step, row, k = (int(x) for x in np.argwhere(~good)[0])
    line, along = (row, k) if shape.major == "K" else (k, row)
    lies = int(places[block, step, line, along // shape.per_chunk])
    lies = lies + int(shape.inside[along]) if lies >= 0 else -1
    return Nearest(descriptor, int(good.sum()), good.size, (block, step, row, k), reads, ~good, lies)


def _candidates(kind: Kind, places: np.ndarray, known: np.ndarray) -> list[tuple[int, int | None, int | None, np.ndarray]]:
    """(chunks that it has right, LBO, SBO, starts) of the strides that most neighbouring atoms have."""
    rest = kind.before(np.where(known, places, 0)) - kind.fixed
    strides = [_votes(of, rest, known) for of in (kind.of_lbo, kind.of_sbo)]
    candidates = []
    for lbo, sbo in itertools.product(*strides):
        starts = rest - kind.of_lbo * (lbo or 0) - kind.of_sbo * (sbo or 0)
        good = known & (starts >= 0) & (starts < REACH) & (starts % CHUNK == 0)
        own = np.zeros(places.shape[:2], np.int64)
        votes = 0
        for at in np.ndindex(*own.shape):
            values, counts = np.unique(starts[at][good[at]], return_counts=True)
            if len(values):
                own[at], votes = values[np.argmax(counts)], votes + int(counts.max())
        candidates.append((votes, lbo, sbo, own))
    return candidates


def _votes(of: np.ndarray, rest: np.ndarray, known: np.ndarray) -> list[int | None]:
    """The values of a stride by which most neighbours lie apart; None if it is not used."""
    if not of.any():
        return [None]
    axis = 0 if of[:, 0].any() else 1
    by = int(np.argmax(np.moveaxis(of, axis, 0)[:, 0] > 0))
    lower, upper = ([slice(None)] * 4 for _ in range(2))
    lower[2 + axis], upper[2 + axis] = slice(None, -by), slice(by, None)
    apart = rest[tuple(upper)] - rest[tuple(lower)]
    steps = np.moveaxis(of, axis, 0)[by:, 0] - np.moveaxis(of, axis, 0)[:-by, 0]
    apart = apart // np.expand_dims(steps, 1 - axis) if (steps > 0).all() else apart
    values, counts = np.unique(
        apart[known[tuple(upper)] & known[tuple(lower)] & (apart >= 0) & (apart < REACH) & (apart % CHUNK == 0)], return_counts=True
    )
    return [int(x) for x in values[np.argsort(-counts)][:VOTES]] or [0]


# ---- Descriptors that read wanted contents from memory in which they may lie several times: a search over modes, starts and strides


PAIRS = 1 << 21  # combinations of places that are looked at for a layout
MOST_FOUND = 64  # descriptors that are told


class TooAmbiguousError(Exception):
    """The contents fit too many places."""


@dataclasses.dataclass(frozen=True, eq=False)
class Contents:
    """Cells of shared memory from `begin` on, a multiple of 128, and the wanted chunks (blocks, steps, lines, chunks, 16) with their masks."""

    begin: int
    cells: np.ndarray
    wanted: np.ndarray
    mask: np.ndarray  # (chunks, 16), or of every line too

    @functools.cached_property
    def masks(self) -> tuple[np.ndarray, np.ndarray]:
        """(the different masks, (chunks,) or (lines, chunks): which of them each chunk has)."""
        found, which = np.unique(self.mask.reshape(-1, CHUNK), axis=0, return_inverse=True)
        return found, which.reshape(self.mask.shape[:-1])

    @functools.cached_property
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """(numbers of memory's chunks for each mask (masks, places), 0 unknown; and of the wanted ones), equal where contents are."""
        weights = np.random.default_rng(1).integers(1, 2**62, CHUNK, np.int64) * 2 + 1  # a hash; what a search finds is compared again
        masks, of = self.masks
        memory = self.cells.reshape(-1, CHUNK)
        have, want = [], np.zeros(self.wanted.shape[:-1], np.int64)
        with np.errstate(over="ignore"):
            for number, mask in enumerate(masks):
                known = ((memory >= 0) | (mask == 0)).all(axis=1)
                have.append(np.where(known, ((memory & mask) * weights).sum(axis=1) | 1, 0))
                mine = ((self.wanted & mask) * weights).sum(axis=-1) | 1
                want = np.where(of == number, mine, want)
        return np.stack(have), want

    @functools.cached_property
    def masks_of(self) -> np.ndarray:
        """Which mask each chunk (lines, chunks) has; -1 for chunks of which nothing is wanted."""
        of = np.where(self.mask.any(axis=-1), self.masks[1], -1)
        return np.broadcast_to(of, self.wanted.shape[2:4])

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """(blocks, steps, lines, chunks): where each chunk lies first, -1 if nowhere; how often."""
        have, want = self.ids
        first, count = np.full(want.shape, -1, np.int64), np.zeros(want.shape, np.int64)
        for number, row in enumerate(have):
            order = np.argsort(row, kind="stable")
            low, high = (np.searchsorted(row[order], want, side) for side in ("left", "right"))
            mine = np.broadcast_to(self.masks_of == number, want.shape)
            first = np.where(mine & (high > low), self.begin + CHUNK * order[np.minimum(low, len(order) - 1)], first)
            count = np.where(mine, high - low, count)
        return first, count


class Search:
    """All descriptors of one layout."""

    def __init__(self, shape: Shape, kind: Kind, contents: Contents) -> None:
        self.shape, self.kind, self.contents = shape, kind, contents
        self.have, self.want = contents.ids
        self.size = self.have.shape[1]
        self.moved = (kind.before(contents.begin + CHUNK * np.arange(self.size)) - contents.begin) // CHUNK
        groups, which = np.unique(np.stack([kind.of_lbo, kind.of_sbo]).reshape(2, -1), axis=1, return_inverse=True)
        wanted = contents.masks_of.ravel() >= 0
        self.groups = {(int(l), int(s)): np.nonzero((which.ravel() == i) & wanted)[0] for i, (l, s) in enumerate(groups.T)}
        self.groups = {key: members for key, members in self.groups.items() if len(members)}
        self.known: dict[tuple[int, int, int, int], np.ndarray] = {}
        self.died: tuple[int, int, int, int] | None = None

    def all(self) -> list[FoundDescriptor] | Witness:
        """The descriptors, or why there is none."""
        if (0, 0) not in self.groups:
            raise TooAmbiguousError("nothing is wanted of the first rows, so that nothing says where they begin")
        found = [one for pair in self._strides() if (one := self._starts(*pair)) is not None]
        return found or self._why()

    def _fits(self, block: int, step: int, group: tuple[int, int]) -> np.ndarray:
        """(size,) bool: from which start, moved by the group's strides, does it read what is wanted? Starts count 16 B from `begin`."""
        key = (block, step, *group)
        if key not in self.known:
            members = self.groups[group]
            width = self.kind.fixed.shape[1]
            by, mask = self.kind.fixed.ravel()[members] // CHUNK, self.contents.masks_of.ravel()[members]
            want = self.want[block, step].ravel()[members]
            left = np.arange(self.size)
            for n in range(len(members)):
                at = left + by[n]
                left, at = left[at < self.size], at[at < self.size]
                left = left[self.have[mask[n]][self.moved[at]] == want[n]]
                if not len(left):
                    line, chunk = divmod(int(members[n]), width)
                    self.died = (block, step, line, chunk)
                    break
            fits = np.zeros(self.size, bool)
            fits[left] = True
            self.known[key] = fits
        return self.known[key]

    def _at(self, block: int, step: int, group: tuple[int, int], starts: np.ndarray, lbo: np.ndarray, sbo: np.ndarray) -> np.ndarray:
        at = starts + group[0] * lbo + group[1] * sbo
        inside = (at >= 0) & (at < self.size)
        return np.asarray(inside & self._fits(block, step, group)[np.where(inside, at, 0)])

    def _strides(self) -> list[tuple[int | None, int | None]]:
        """(LBO, SBO) in 16 B by which the first instruction reads what is wanted; None where it uses none."""
        first = self._places((0, 0))
        if not len(first):
            return []
        found = (first, np.zeros_like(first), np.zeros_like(first))
        used = [any(key[axis] for key in self.groups) for axis in (0, 1)]
        for number, axis in enumerate(axis for axis in (0, 1) if used[axis]):
            found = self._with(axis, *found, alone=number == 0)
        good = (found[0] * CHUNK + self.contents.begin >= 0) & (found[0] * CHUNK + self.contents.begin < REACH)
        for group in self.groups if good.any() else ():
            good &= self._at(0, 0, group, *found)
        pairs = np.unique(np.stack(found[1:])[:, good], axis=1).T.tolist()
        if len(pairs) > MOST_FOUND:
            raise TooAmbiguousError(f"{len(pairs):,} values of LBO and SBO read the same with swizzle {self.kind.name}")
        return [(lbo if used[0] else None, sbo if used[1] else None) for lbo, sbo in pairs]

    def _places(self, group: tuple[int, int]) -> np.ndarray:
        return np.nonzero(self._fits(0, 0, group))[0]

    def _with(
        self, axis: int, starts: np.ndarray, lbo: np.ndarray, sbo: np.ndarray, *, alone: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """With every value of one stride, 0 so far, by which the groups that it alone moves are right.

        The two groups with the fewest places say what start and stride may be; where the other stride is known, the one with the fewest.
        """
        own = [key for key in self.groups if key[axis] and not key[1 - axis]]
        if not own:
            raise TooAmbiguousError("what is wanted does not say how its first rows go on")
        rarest = sorted([*own, (0, 0)] if alone else own, key=lambda key: len(self._places(key)))[: 2 if alone else 1]
        ends = self._places(rarest[-1])
        begins, before = (self._places(rarest[0]), rarest[0][axis]) if alone else (starts, 0)
        if len(begins) * len(ends) > PAIRS:
            raise TooAmbiguousError(f"rows that belong together fit {len(begins):,} and {len(ends):,} places with swizzle {self.kind.name}")
        one, other = (x.ravel() for x in np.meshgrid(np.arange(len(begins)), ends, indexing="ij"))
        apart, times = other - begins[one], rarest[-1][axis] - before
        apart, times = (apart, times) if times > 0 else (-apart, -times)
        good = (apart >= 0) & (apart % times == 0) & (apart // times < REACH // CHUNK)
        one, stride = one[good], apart[good] // times
        found = (
            [begins[one] - before * stride, np.zeros_like(stride), np.zeros_like(stride)] if alone else [starts[one], lbo[one], sbo[one]]
        )
        found[1 + axis] = stride
        for group in [*own, (0, 0)]:
            good = self._at(0, 0, group, found[0], found[1] * (axis == 0), found[2] * (axis == 1))
            found = [x[good] for x in found]
        return found[0], found[1], found[2]

    def _starts(self, lbo: int | None, sbo: int | None) -> FoundDescriptor | None:
        """The words with these strides; None if one of the instructions has no start."""
        leading, stride = (None if x is None else x * CHUNK for x in (lbo, sbo))
        some = []
        for block in range(self.shape.blocks):
            row = []
            for step in range(self.shape.steps):
                starts = np.nonzero(self._fits(block, step, (0, 0)))[0]
                for group in self.groups:
                    starts = starts[self._at(block, step, group, starts, np.int64(lbo or 0), np.int64(sbo or 0))]  # type: ignore[arg-type]
                good = tuple(x for x in (starts * CHUNK + self.contents.begin).tolist() if 0 <= x < REACH)
                if not good:
                    return None
                row.append(good)
            some.append(tuple(row))
        return described(self.shape, self.kind, leading, stride, _likeliest(some), alternatives=tuple(some))

    def _why(self) -> Witness:
        """The witness that the contents lie nowhere in this mode: the chunks of a group up to the one that the last candidate place lacks."""
        swizzle, base = self.kind.mode.swizzle, self.kind.base_offset
        if self.died is None:
            text = "each of its atoms lies somewhere, but no start, LBO and SBO lead to all of them"
            return Witness(swizzle, base, False, (), text)
        block, step, line, chunk = self.died
        row, k = self.shape.element(line, chunk)
        text = f"nowhere in memory do the elements up to (row {row}, k {k}) lie in one atom as this mode needs them"
        return Witness(swizzle, base, False, (((block, step, row, k), -1),), text)


def _likeliest(some: list[tuple[tuple[int, ...], ...]]) -> np.ndarray:
    """(blocks, steps): of the starts that will do, those nearest to an even advance."""
    likeliest = np.zeros((len(some), len(some[0])), np.int64)
    for block, row in enumerate(some):
        for step, starts in enumerate(row):
            before = likeliest[block, :step]
            expected = row[0][0] if step == 0 else int(2 * before[-1] - before[-2]) if step > 1 else int(before[0]) + CHUNK
            later = [x for x in starts if x >= expected] or list(starts)
            likeliest[block, step] = min(later, key=lambda x, expected=expected: abs(x - expected))  # type: ignore[misc]
    return likeliest


# ---- `find_descriptors`: all descriptors that read an operand from where it lies, or why there is none


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
    """All shared-memory matrix descriptors that read an operand from where it lies, or a proof that none does and what comes nearest.

    The operand is an array (rows, k), (steps, rows, k) or (blocks, steps, rows, k); `rows` and `k` cut one of two axes into what one instruction
    reads. It is one of: `places`, the shared address of every element's lowest bit; `wanted`, the global one, with the `transfers` of `tma_load`
    that wrote shared memory, in order; `operand`, raw element bits, with `dump`, bytes (or uint8) of shared memory from address `base` on. What
    one instruction's words have in common for all blocks and steps is the layout, LBO and SBO; every start is its own.

    In a dump contents may repeat: then several descriptors read the operand, of each word `alternatives` has every start, and where that are too
    many the answer is `ambiguous`. What lies outside the dump is not the operand.

    Raises InputError for arguments that do not go together and Unmodelled where nobody knows what any layout reads. Every address rests on the
    rules of `operand_addresses`: measured on an H200 for sm_90a, documented or inferred for sm_100a and sm_103a; `grade` says which.

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
    if elements.dtype.kind not in "iu":
        raise InputError(f"{given[0]}: an array of {elements.dtype}; needs addresses, whole numbers")
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
    """A sentence about the first two elements that lie at one address; "" for a layout that is one-to-one, and for elements of which bytes hold several."""
    if shape.fmt.bits < 8:
        return ""
    flat = places.ravel()
    _, first, of = np.unique(flat, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[of] != np.arange(flat.size))
    if not again.size:
        return ""
    two = [_at(tuple(int(x) for x in np.unravel_index(int(n), places.shape))) for n in (first[of[again[0]]], again[0])]
    return (
        f"{again.size} of {flat.size} elements lie where another one lies, as {two[1]} where {two[0]} does: the layout is not one-to-one, and no "
        "kernel can store different elements there"
    )


def of_memory(shape: Shape, memory: Owners, wanted: np.ndarray) -> Answer:
    """All descriptors, or why there is none, of what `memory` holds; `wanted` is the global byte of every element (blocks, steps, rows, k)."""
    places = memory.locate(wanted)
    missing = places < 0
    if missing.any():
        first: Any = tuple(np.argwhere(missing)[0].tolist())
        what = f"global byte {int(wanted[first]):#x}" if wanted[first] >= 0 else "what lies outside its tensor,"
        text = f"{int(missing.sum())} of {missing.size} elements lie nowhere in shared memory: {what} of {_at(first)} was written by nobody"
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
        text = f"{int(lost.sum())} of {lost.size} 16-byte chunks of the operand lie nowhere in it, at no multiple of 16; the first begins with {_at(at)}"
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
    other = " (and other base offsets fail likewise: see witnesses)" if several else ""
    return "; ".join(f"{name}: {witness.text}" for name, witness in zip(names, first, strict=True)) + other


def _at(at: tuple[int, ...]) -> str:
    block, step, row, k = at
    return f"block {block} step {step} row {row}, k {k}"
