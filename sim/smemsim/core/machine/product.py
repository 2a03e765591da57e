"""The operands of one matrix instruction, with the place and the owner of every element, and the terms of each dot
product.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from smemsim.base.arguments import whole
from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError
from smemsim.base.lazily import cached_property
from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic.explain import DotProduct, explain
from smemsim.core.arithmetic.multiply import Factors, Options, certain
from smemsim.core.arithmetic.values import element_value
from smemsim.core.machine.memory import Operand, SharedMemory, Windows
from smemsim.core.machine.tma import Transfer
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.mma_arithmetic import MmaArithmetic
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import rules_in_force, weakest
from smemsim.core.words.smem import SmemDescriptor

__all__ = ["Element", "MmaOperand", "MmaResult", "SharedOperand", "Term", "halves", "shared_grade", "used_writers", "weaker"]


@dataclasses.dataclass(frozen=True)
class Element:
    """One element that was multiplied: its place, its raw bits, their value, and its origin.

    Its `place` is "shared 0x490", "tensor lane 3 column 7 bit 16" or "thread 5 register 2 bit 16", of CTA `cta` of a
    pair. The tensor coordinate that TMA loaded is `coordinate`, dimension 0 first. It is None if no TMA load wrote the
    element. The writer is `writer`. It is None if the element is uninitialised.
    """

    row: int
    k: int
    cta: int
    place: str
    bits: int
    value: Fraction | float
    coordinate: tuple[int, ...] | None
    writer: Any

    def __str__(self) -> str:
        where = f" = tensor element {self.coordinate}" if self.coordinate is not None else ""
        return f"({self.row}, {self.k}) {self.bits:#x} = {float(self.value):g} at {self.place}{where}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MmaOperand:
    """A (M x K) or B (N x K) as one instruction read it, with the rows of both CTAs of a pair.

    Raw element bits are `bits`. The address is a byte of shared memory, or lane << 16 | column of tensor memory, or
    thread << 8 | register. The lowest bit in that word is `bit` (0 for shared memory). The CTA of every row is `cta`.

    The arrays `writer` and `position` are those of `Operand`. Each CTA has its own `writers`. The evidence of the
    addresses is `grade`. An element is `unwritten` if a byte of it is uninitialised. It is `unsure` if its writer was
    not certain of it.
    """

    dtype: str
    space: str
    bits: np.ndarray
    address: np.ndarray
    bit: np.ndarray
    cta: np.ndarray
    writer: np.ndarray
    position: np.ndarray
    writers: tuple[Mapping[int, Any], ...]
    grade: Grade
    unwritten: np.ndarray
    unsure: np.ndarray

    def __repr__(self) -> str:
        rows, k = self.bits.shape
        where = self.space if self.space == "registers" else f"{self.space} memory"
        nobody = int(self.unwritten.sum())
        return f"<MmaOperand {rows} x {k} of {self.dtype} in {where}{f', {nobody} elements unwritten' if nobody else ''}>"

    @property
    def doubtful_rows(self) -> np.ndarray:
        """(rows,) bool: does the row have an element that is uninitialised, or whose writer was not certain of it?"""
        return np.asarray((self.unwritten | self.unsure).any(axis=1))

    def _index(self, row: Any, k: Any) -> tuple[int, int]:
        row, k = whole("row", row, minimum=0), whole("k", k, minimum=0)
        if row >= self.bits.shape[0] or k >= self.bits.shape[1]:
            raise InputError(f"row = {row}, k = {k}: the operand has {self.bits.shape[0]} rows and {self.bits.shape[1]} of K")
        return row, k

    def place(self, row: int, k: int) -> str:
        """The place of an element in words; for a pair with its CTA."""
        row, k = self._index(row, k)
        address, bit = int(self.address[row, k]), int(self.bit[row, k])
        owner = f"CTA {int(self.cta[row])} " if len(self.writers) > 1 else ""
        if self.space == "shared":
            return f"{owner}shared {address:#x}"
        within = f" bit {bit}" if bit else ""
        if self.space == "tensor":
            return f"{owner}tensor lane {address >> 16} column {address & 0xFFFF}{within}"
        return f"thread {address >> 8} register {address & 0xFF}{within}"

    def element(self, row: int, k: int) -> Element:
        """One element with everything that is known of it."""
        row, k = self._index(row, k)
        cta, bits = int(self.cta[row]), int(self.bits[row, k])
        number = int(self.writer[row, k])
        writer = self.writers[cta].get(number)
        coordinate = _coordinate(writer, int(self.position[row, k]))
        return Element(row, k, cta, self.place(row, k), bits, element_value(bits, self.dtype), coordinate, writer)


def _coordinate(writer: Any, position: int) -> tuple[int, ...] | None:
    """The tensor coordinate of a writer's byte, through copies into tensor memory."""
    if isinstance(writer, Transfer):
        return tuple(writer.tensor_coordinates(np.array(position)).tolist())
    source = getattr(writer, "source", None)
    owner = source(position) if callable(source) else None
    if owner is not None and isinstance(owner.origin.writer, Transfer):
        return tuple(owner.origin.where)
    return None


def used_writers(numbers: np.ndarray, writers: Sequence[Any]) -> dict[int, Any]:
    """The writers that some element has, by their number."""
    return {int(number): writers[number] for number in distinct(numbers) if number >= 0}


def shared_grade(descriptor: Any, arch: str, dtype: str, major: str, k: int, packing: str = "packed") -> Grade:
    """The evidence of the addresses of an operand read through a descriptor, bits that differ from the manual's
    included.
    """
    d = descriptor if isinstance(descriptor, SmemDescriptor) else SmemDescriptor.decode(descriptor, arch=arch)
    fmt, machine = element_format(dtype), architecture(arch)
    k_bytes = -(-k // fmt.elements_per_chunk(packing)) * CHUNK
    rules = rules_in_force(d, machine, major=major, k_bytes=k_bytes, bits=max(fmt.bits, 4), packing=packing if fmt.bits < 8 else "packed")
    if any(d.table.constants(d.word)):
        rules.append(RULES["descriptor.reserved_bits"])
    return weakest(rules, machine)


# ---- Operands in shared memory


@dataclasses.dataclass(frozen=True)
class SharedOperand:
    """An operand that is read through a descriptor: `rows` x `k` elements of each CTA's shared memory, `k` as they are
    stored.

    >>> operand = SharedOperand(0x1000080040, "bf16", "K", rows=8, k=16)
    >>> shared = SharedMemory("sm_90a", size=8192)
    >>> shared.write(0x400, np.arange(8 * 16, dtype=np.uint16))
    >>> bits, unwritten = operand.bits(shared)
    >>> bits[1, :3].tolist(), unwritten, operand.chunks(shared)[:3].tolist(), operand.grade(shared)
    ([8, 9, 10], False, [0, 1, 2], 'measured')
    """

    word: int | SmemDescriptor
    dtype: str
    major: str
    rows: int
    k: int
    packing: str = "packed"

    @cached_property
    def _form(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "major": self.major, "rows": self.rows, "k": self.k, "packing": self.packing}

    @property
    def number(self) -> int:
        """The descriptor's 64-bit word."""
        return self.word.encode() if isinstance(self.word, SmemDescriptor) else int(self.word)

    def bits(self, shared: SharedMemory) -> tuple[np.ndarray, bool]:
        """Raw bits (rows, k), and whether some of them are uninitialised. Raises HardwareTrap if the operand leaves the
        window.
        """
        return shared.operand_bits(self.number, **self._form)

    def bits_of(self, memories: Windows) -> tuple[np.ndarray, np.ndarray]:
        """`bits` of each of several memories: (memories, rows, k) and (memories,)."""
        return memories.operands_bits(self.number, **self._form)

    def read(self, shared: SharedMemory) -> Operand:
        """Raw bits with the address and the writer of each element; InputError for a word that is none."""
        return shared.read_operand(self.word, **self._form)

    def words(self, shared: SharedMemory) -> np.ndarray:
        """(rows, k) the word of 4 bytes in which each element begins, counted from the window's begin."""
        return shared.operand_words(self.number, **self._form)

    def bytes_of_words(self, shared: SharedMemory) -> np.ndarray:
        """(rows, k) the bytes of that word in which each element lies, as bits."""
        return shared.operand_bytes(self.number, **self._form)

    def zeros(self, shared: SharedMemory) -> np.ndarray:
        """(rows, k) which elements are zero."""
        fmt, (bits, _) = element_format(self.dtype), self.bits(shared)
        found: np.ndarray = bits & (fmt.magnitude << fmt.dropped_bits if fmt.is_float else (1 << fmt.bits) - 1) == 0
        return found

    def chunks(self, shared: SharedMemory) -> np.ndarray:
        """The chunks of 16 bytes that the operand touches, counted from the window's begin, ascending. The one after
        the last chunk stands for everything past the end.
        """
        return shared.operand_chunks(self.number, **self._form)

    def read_words(self, shared: SharedMemory) -> np.ndarray:
        """Offsets in the window, in steps of 4 bytes, of what is read: without the padding after 16 elements of 4 or 6
        bits, and without bytes past the end.
        """
        return _read_words(self.chunks(shared).tobytes(), len(shared.bytes), self.dtype, self.packing)

    def addresses(self, arch: str) -> np.ndarray:
        """(rows, k) the address of every element; of a wrong word also outside of any window."""
        return operand_addresses(self.word, arch=arch, **self._form)

    def grade(self, shared: SharedMemory) -> Grade:
        """The evidence grade of the operand's addresses."""
        return self._grade(shared.arch, is_past_end=int(self.chunks(shared)[-1]) >= len(shared.bytes) // CHUNK)

    def _grade(self, arch: str, *, is_past_end: bool) -> Grade:
        grade = _graded(self.number, arch, self.dtype, self.major, self.k, self.packing)
        return weaker(grade, RULES["operand.window"].on(arch)) if is_past_end else grade

    def explain(self, memories: Sequence[SharedMemory]) -> MmaOperand:
        """The operand with place and writer of every element. The rows of one CTA's memory
        follow those of the other.
        """
        parts = [self.read(memory) for memory in memories]
        shape = (self.rows * len(parts), self.k)
        is_past_end = any(int(part.address.max(initial=0)) >= memory.end for part, memory in zip(parts, memories, strict=True))
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in ("bits", "address", "writer", "position", "unwritten")
        }
        return MmaOperand(
            self.dtype, "shared", bit=np.broadcast_to(np.uint8(0), shape), cta=np.repeat(np.arange(len(parts)), self.rows),
            writers=tuple(used_writers(part.writer, part.writers) for part in parts), grade=self._grade(memories[0].arch, is_past_end=is_past_end),
            unsure=np.broadcast_to(np.False_, shape), **joined,
        )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _read_words(chunks: bytes, size: int, dtype: str, packing: str) -> np.ndarray:
    """`SharedOperand.read_words` of chunks (int64) in a window of so many bytes. Read-only."""
    every, fmt = np.frombuffer(chunks, np.int64), element_format(dtype)
    inside = every[every < size // CHUNK]
    held = fmt.elements_per_chunk(packing) * fmt.bits // 8
    found: np.ndarray = (CHUNK * inside[:, None] + np.arange(0, held, 4)).ravel()
    found.flags.writeable = False
    return found


_graded = functools.lru_cache(maxsize=512)(shared_grade)


def weaker(*grades: Grade) -> Grade:
    """The weakest of some grades."""
    return max(grades, key=list(Grade).index)


def halves(bits: np.ndarray, units: np.ndarray) -> np.ndarray:
    """tf32 words (N, S) put together from the 16-bit halves `units` (S, 2) of words (N, K): the lower half, the upper
    half.
    """
    pieces = np.ascontiguousarray(bits, np.uint32).view("<u2")
    return pieces[:, units[:, 0]].astype(np.uint32) | pieces[:, units[:, 1]].astype(np.uint32) << np.uint32(16)


@dataclasses.dataclass(frozen=True)
class Term:
    """One product of a dot product: elements of A and B at `k`, their scale factors (1 without), the exact product (nan
    without one).
    """

    k: int
    a: Element
    b: Element
    scale_a: Fraction | float
    scale_b: Fraction | float
    product: Fraction | float

    def __str__(self) -> str:
        scales = f" x {float(self.scale_a):g} x {float(self.scale_b):g}" if (self.scale_a, self.scale_b) != (1, 1) else ""
        return f"k {self.k}: A {self.a} x B {self.b}{scales} = {float(self.product):g}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MmaResult(metaclass=OwnMembers):
    """The result of one wgmma or tcgen05.mma: its operands, C, and D as raw bits (M, N).

    - Operands: `a`, one operand or one for each band of N that reads its own copy of A, and `b`.
    - Accumulator before: `c`, which counts times 2^-`scale_c`.
    - Sparse A: `index` (M, S), the K of every stored element, else None. If the metadata splits tf32 elements, `lower`
      (M, S, 2) has the 16-bit halves of B that they multiply.
    - Disabled lanes: `written` is False for elements of D that keep their content. None means that all are written.
    - Doubt: `doubtful` is True for elements of D that depend on uninitialised data (counted in `unwritten`), or on an
      uncertain earlier result.
    - Evidence: `grade` of the addresses and of D's places, and `disputes`, the rows of smemsim.DISPUTES among them.

    The memories may change afterwards. Terms and certainty are computed when they are read.

    >>> import smemsim
    >>> import numpy as np
    >>> shared = smemsim.SharedMemory()
    >>> shared.write(0x400, np.full((16, 128), 0x3F80, np.uint16), label="A and B")
    >>> result = smemsim.wgmma(shared, 0x0000000800080040, 0x00000008000800C0, n=64, a_type="bf16", b_type="bf16", a_major="K", b_major="K")
    >>> result.d.shape, result.d_type, hex(result.d[0, 0]), str(result.grade)
    ((64, 64), 'f32', '0x41800000', 'measured')
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "options",
    )  # fmt: skip

    instruction: str
    a: tuple[MmaOperand, ...]
    b: MmaOperand
    c: np.ndarray
    d: np.ndarray
    d_type: str
    _: dataclasses.KW_ONLY
    grade: Grade
    arithmetic: MmaArithmetic
    doubtful: np.ndarray
    index: np.ndarray | None = None
    unwritten: dict[str, int] = dataclasses.field(default_factory=dict)
    disputes: tuple[str, ...] = ()
    scale_c: int = 0
    adds_c: bool = True
    factors: Factors | None = None
    negate: tuple[bool, bool] = (False, False)
    lower: np.ndarray | None = None
    written: np.ndarray | None = None
    zero_columns: np.ndarray | None = None
    saturate: bool = False

    def __repr__(self) -> str:
        m, n = self.d.shape
        parts = [f"addresses {self.grade}"]
        parts += [f"disputed: {', '.join(self.disputes)}"] if self.disputes else []
        parts += [f"{count} elements of {name} are uninitialised" for name, count in self.unwritten.items()]
        unsure = int((~self.certain).sum())
        counted = f"{unsure} of {m * n} elements of D are not certain" if unsure else "no element depends on it"
        measured = self.arithmetic.grade is Grade.MEASURED
        parts.append(f"arithmetic {self.arithmetic.grade}" + (f", {counted}" if unsure or not measured else ""))
        return f"<{self.instruction}: {m} x {n} {self.d_type}; {'; '.join(parts)}>"

    @property
    def options(self) -> Options:
        """Signs, scale of C and clamping, as the arithmetic has them."""
        return Options(*self.negate, self.scale_c, self.saturate)

    @cached_property
    def certain(self) -> np.ndarray:
        """(M, N) bool: where D's bits depend on nothing doubtful, and not on `arithmetic`, unless that is measured."""
        types = (self.a[0].dtype, self.b.dtype, self.d_type)
        b = self.b.bits if self.zero_columns is None else np.where(self.zero_columns[:, None], 0, self.b.bits)
        width = self.d.shape[1] // len(self.a)
        parts = []
        for number, operand in enumerate(self.a):
            band = slice(number * width, (number + 1) * width)
            factors = None if self.factors is None else self.factors.of(self.factors.a, self.factors.b[band])
            parts.append(
                certain(
                    operand.bits, b[band], self.c[:, band], self.d[:, band], row=self.arithmetic, types=types, index=self.index,
                    options=self.options, factors=factors, adds_c=self.adds_c,
                )
            )  # fmt: skip
        return np.asarray(np.concatenate(parts, axis=1) & ~self.doubtful)

    @property
    def rounding(self) -> str:
        """The assumptions about the bits of D that are not `certain`, in words."""
        if self.certain.all():
            return (
                "no element of D depends on how hardware rounds"
                if self.arithmetic.grade is not Grade.MEASURED
                else "D is measured bit for bit"
            )
        if self.unwritten:
            return "D depends on uninitialised values: " + ", ".join(
                f"{count} elements of {name}" for name, count in self.unwritten.items()
            )
        return (
            f"{int((~self.certain).sum())} elements depend on how hardware rounds, which is {self.arithmetic.grade} ({self.arithmetic.source}), "
            "or on what an earlier instruction was not certain of"
        )

    def dot(self, m: int, n: int) -> DotProduct:
        """How D[m, n] was computed: each term and where it was cut, the alignment, the sum, the conversion."""
        m, n = self._element(m, n)
        terms, factors = self.terms(m, n), self.factors
        masked = self.zero_columns is not None and bool(self.zero_columns[n])
        return explain(
            [t.a.bits for t in terms],
            [0 if masked else t.b.bits for t in terms],
            int(self.c[m, n]),
            kind=self.kind,
            types=(self.a[0].dtype, self.b.dtype, self.d_type),
            row=self.arithmetic,
            k=[t.k for t in terms],
            options=self.options,
            factors=None if factors is None else factors.of(factors.a[m], factors.b[n]),
        )

    @property
    def kind(self) -> str:
        """ "wgmma", or the kind of a tcgen05.mma."""
        return self.instruction.partition("kind::")[2] or "wgmma"

    def _element(self, m: Any, n: Any) -> tuple[int, int]:
        rows, columns = self.d.shape
        m, n = whole("m", m, minimum=0), whole("n", n, minimum=0)
        if m >= rows or n >= columns:
            raise InputError(f"m = {m}, n = {n}: D is {rows} x {columns}")
        return m, n

    def terms(self, m: int, n: int) -> list[Term]:
        """The terms of D[m, n], in the order of A's stored elements. D is their sum and `c[m, n] * 2^-scale_c`."""
        m, n = self._element(m, n)
        columns = self.d.shape[1]
        band = n // (columns // len(self.a))
        dot_terms = []
        for s in range(self.a[band].bits.shape[1]):
            k = s if self.index is None else int(self.index[m, s])
            b = self.b.element(n, k)
            if self.lower is not None:
                b = self._torn(n, b, self.lower[m, s])
            dot_terms.append(self._term(self.a[band].element(m, s), b, k))
        return dot_terms

    def _torn(self, n: int, b: Element, units: np.ndarray) -> Element:
        """A tf32 of B put together from the 16-bit halves that the metadata names."""
        low, high = units.tolist()
        if low % 2 == 0 and high == low + 1:
            return b
        bits = int(halves(self.b.bits[n : n + 1], units[None])[0, 0])
        places = [f"{('lower', 'upper')[unit % 2]} half of {self.b.place(n, unit // 2)}" for unit in (high, low)]
        return dataclasses.replace(b, bits=bits, value=element_value(bits, self.b.dtype), place=" over ".join(places), coordinate=None)

    def _term(self, a: Element, b: Element, k: int) -> Term:
        scales: list[Fraction | float] = [Fraction(1), Fraction(1)]
        if self.factors is not None:
            f = self.factors
            scales = [element_value(int(bits[row, k // f.k_per_factor]), f.dtype) for bits, row in ((f.a, a.row), (f.b, b.row))]
        product: Any = a.value * b.value * scales[0] * scales[1]
        if self.zero_columns is not None and self.zero_columns[b.row]:
            product = Fraction(0)
        return Term(k, a, b, scales[0], scales[1], -product if self.negate[0] != self.negate[1] else product)
