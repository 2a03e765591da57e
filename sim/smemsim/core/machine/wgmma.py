"""wgmma: one wgmma.mma_async, of one warpgroup or of several at once.

The instruction, as its name and its immediates spell it, is `Wgmma`. It is checked once. Its method `read` reads the
operands of warpgroups, `execute` multiplies. The function `wgmma` does both for one warpgroup, and explains every term
by its address and its tensor coordinate.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import choice, flag, in_steps, shown, whole
from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.core.arithmetic.multiply import Options, Sums, add_tiles, is_added_in_place, multiply_tiles, row_of
from smemsim.core.layout import fragments
from smemsim.core.machine.memory import WORDS, SharedMemory, Windows
from smemsim.core.machine.product import MmaOperand, MmaResult, SharedOperand, halves, weaker
from smemsim.core.machine.sparsity import undefined_groups
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.wgmma import A_REGISTERS, WGMMA_M, WGMMA_THREADS, WGMMA_TYPES, WgmmaTypes
from smemsim.core.words.smem import SmemDescriptor

__all__ = ["Operands", "Reads", "Wgmma", "a_places", "d_places", "to_matrix", "to_registers", "types_of", "wgmma", "wgmma_registers"]


REGISTER_BITS = 32


# ---- The instruction: what its name and its immediates say


def types_of(a_type: Any, b_type: Any, d_type: Any) -> WgmmaTypes:
    """The row of spec for these types; InputError, with what there is, if they do not go together."""
    for name, dtype in (("a_type", a_type), ("b_type", b_type), ("d_type", d_type)):
        if not isinstance(dtype, str):
            raise InputError(f"{name} = {shown(dtype)}: needs the name of a type, such as 'bf16'")
    for row in WGMMA_TYPES:
        if a_type in row.a and b_type in row.b and d_type in row.d:
            return row
    forms = "; ".join(f"{'/'.join(row.a)} x {'/'.join(row.b)} -> {'/'.join(row.d)}" for row in WGMMA_TYPES)
    raise InputError(f"A {shown(a_type)}, B {shown(b_type)}, D {shown(d_type)}: wgmma has {forms} (PTX ISA 9.1 §9.7.15.2)")


@dataclasses.dataclass(frozen=True)
class Wgmma:
    """A wgmma.mma_async as its name and its immediates say it; InputError for one that does not exist.

    >>> i = Wgmma(8, "bf16", "bf16", "f32")
    >>> i.name, i.k
    ('wgmma.m64n8k16', 16)
    >>> shared = SharedMemory("sm_90a", size=8192)
    >>> shared.write(0x400, np.full(64 * 16, 0x3F80, np.uint16))
    >>> word = 0x1000080040  # no swizzle, LBO 128 B, SBO 256 B
    >>> operands = i.read(i.reads(Windows([shared] * 2), [word] * 2, [word] * 2))
    >>> d = i.execute(operands, np.zeros((2, 64, 8), np.uint32))
    >>> d.shape, float(d.view(np.float32)[1, 63, 7]), operands.unwritten.tolist()
    ((2, 64, 8), 16.0, [False, False])
    """

    n: int
    a_type: str
    b_type: str
    d_type: str
    _: dataclasses.KW_ONLY
    a_major: str = "K"
    b_major: str = "K"
    imm_scale_a: int = 1
    imm_scale_b: int = 1
    satfinite: bool = False
    is_sparse: bool = False
    sparsity_selector: int = 0
    has_a_in_registers: bool = False

    def __post_init__(self) -> None:
        row = self.row
        if whole("n", self.n) not in row.n:
            raise InputError(f"n = {self.n}: wgmma with {self.a_type} has N {in_steps(row.n)} (PTX ISA 9.1 §9.7.15.2)")
        for name, major in (("a_major", self.a_major), ("b_major", self.b_major)):
            if choice(name, major, ("K", "MN"), "'K' or 'MN'") == "MN" and not row.transposes:
                raise InputError(f"{name} = 'MN': wgmma reads {row.a[0]} K-major only (PTX ISA 9.1 §9.7.15.5.2)")
        if self.has_a_in_registers and self.a_major == "MN":
            raise InputError("a_major = 'MN': A in registers has no imm-trans-a (PTX ISA 9.1 §9.7.15.5.2)")
        for name, sign in (("imm_scale_a", self.imm_scale_a), ("imm_scale_b", self.imm_scale_b)):
            if whole(name, sign) not in ((1, -1) if row.signs else (1,)):
                raise InputError(
                    f"{name} = {sign}: {'needs 1 or -1' if row.signs else f'{row.a[0]} operands have no sign'} (PTX ISA 9.1 §9.7.15.5.2)"
                )
        if flag("satfinite", self.satfinite) and not row.satfinite:
            raise InputError(f"satfinite: {row.a[0]} has no .satfinite (PTX ISA 9.1 §9.7.15.5.2)")
        self._check_sparsity(row)

    def _check_sparsity(self, row: WgmmaTypes) -> None:
        selector = self.sparsity_selector
        if self.is_sparse and not row.group:
            raise InputError(f"metadata: wgmma.sp does not exist for {row.a[0]} (PTX ISA 9.1 §9.7.15.6)")
        if not self.is_sparse and whole("sparsity_selector", selector):
            raise InputError(f"sparsity_selector = {selector}: only wgmma.sp has one; give the metadata too")
        if self.is_sparse and whole("sparsity_selector", selector) not in row.selectors:
            raise InputError(
                f"sparsity_selector = {selector}: {row.a[0]} has {' or '.join(map(str, row.selectors))} (PTX ISA 9.1 §9.7.15.6.1)"
            )

    @functools.cached_property
    def row(self) -> WgmmaTypes:
        """The row of spec that its types are in."""
        return types_of(*self.types)

    @property
    def types(self) -> tuple[str, str, str]:
        """The element types of A, B and D."""
        return self.a_type, self.b_type, self.d_type

    @property
    def stored_k(self) -> int:
        """K of A as it is stored."""
        return self.row.k

    @property
    def k(self) -> int:
        """K of the instruction: twice the stored one with .sp."""
        return self.row.k * (1 + self.is_sparse)

    @property
    def name(self) -> str:
        """The instruction as messages name it."""
        return f"wgmma{'.sp' if self.is_sparse else ''}.m{WGMMA_M}n{self.n}k{self.k}"

    @property
    def negate(self) -> tuple[bool, bool]:
        """Do A and B count negative?"""
        return self.imm_scale_a < 0, self.imm_scale_b < 0

    @property
    def d_bits(self) -> type[np.unsignedinteger[Any]]:
        """The raw bits of an element of D."""
        return np.uint16 if self.d_type == "f16" else np.uint32

    @property
    def metadata_places(self) -> tuple[np.ndarray, np.ndarray]:
        """(thread, lowest bit) of the metadata of every group of a sparse A, (64, groups)."""
        return _metadata_places(2 * self.stored_k // self.row.group, self.sparsity_selector)

    def a(self, word: int | SmemDescriptor) -> SharedOperand:
        """A in shared memory, by its descriptor. Reads the rows of one operand."""
        return SharedOperand(word, self.a_type, self.a_major, WGMMA_M, self.stored_k)

    def b(self, word: int | SmemDescriptor) -> SharedOperand:
        """B in shared memory, by its descriptor. Reads the rows of one operand."""
        return SharedOperand(word, self.b_type, self.b_major, self.n, self.k)

    def reads(self, windows: Windows, a: Sequence[int] | None, b: Sequence[int]) -> Reads:
        """The operands of several warpgroups, each with a window and descriptors of its own. A is in registers without
        `a`.
        """
        return Reads(None if a is None else _Side.of(self.a, windows, a), _Side.of(self.b, windows, b))

    def read(self, reads: Reads, registers: np.ndarray | None = None, metadata: np.ndarray | None = None) -> Operands:
        """The operands of several warpgroups. Raises HardwareTrap if one leaves its window.

        `registers` are those of A if it is in registers, uint32 (4, groups, 128). `metadata` of a sparse instruction is
        uint32 (groups, 128).
        """
        of_b, unwritten = reads.b.read()
        if reads.a is None:
            of_a = from_registers(np.asarray(registers), self.a_type, self.stored_k)
            which_a = np.arange(len(of_a))
        else:
            of_a, missing = reads.a.read()
            which_a, unwritten = reads.a.which, unwritten | missing
        return Operands(of_a, of_b, which_a, reads.b.which, unwritten, self.places_of(metadata))

    def places_of(self, metadata: np.ndarray | None) -> tuple[Sparse, ...]:
        """The sparsity of A by the metadata of each warpgroup, uint32 (groups, 128). None without metadata."""
        return (
            () if metadata is None else tuple(_sparse(registers, self.row, self.stored_k, self.sparsity_selector) for registers in metadata)
        )

    def nibbles(self, metadata: np.ndarray) -> np.ndarray:
        """The metadata of each group of K, (warpgroups, 64, groups), from the registers, uint32 (warpgroups, 128)."""
        thread, bit = self.metadata_places
        return np.asarray(metadata.astype(np.int64)[:, thread] >> bit & 0xF)

    def undefined_groups(self, operands: Operands, metadata: np.ndarray) -> np.ndarray:
        """Which groups of K (warpgroups, 64, groups) of a sparse A have undefined metadata? It is uint32 (warpgroups,
        128).
        """
        return undefined_groups(self.nibbles(metadata), operands.a[operands.which_a], self.a_type, group=self.row.group)

    def execute(self, operands: Operands, c: np.ndarray) -> np.ndarray:
        """D (groups, 64, N), raw bits, of operands and of C, which is what D held, or zeros."""
        a, b = operands.a[operands.which_a], operands.b[operands.which_b]
        if not operands.places:
            return self._sums(a, b, c)
        each = zip(a, b, c, operands.places, strict=True)
        return np.stack([self._sparse_sums(*one) for one in each])

    @property
    def adds_in_place(self) -> bool:
        """Can `add` execute this instruction? For others `execute` makes a new D."""
        return not self.is_sparse and is_added_in_place(row_of("wgmma", *self.types), self.d_type)

    def add(self, operands: Operands, sums: Sums) -> None:
        """`execute` where D stays where it lies."""
        which, options = (operands.which_a, operands.which_b), Options(*self.negate, 0, self.satfinite)
        add_tiles(operands.a, operands.b, which, sums, row=row_of("wgmma", *self.types), types=self.types, options=options)

    def _sums(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, index: np.ndarray | None = None) -> np.ndarray:
        options = Options(*self.negate, 0, self.satfinite)
        return multiply_tiles(a, b, c, row=row_of("wgmma", *self.types), types=self.types, index=index, options=options)

    def _sparse_sums(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, places: Sparse) -> np.ndarray:
        lower = places.lower
        if lower is None:
            return np.asarray(self._sums(a[None], b[None], c[None], places.index)[0])
        # Every row has its own B: each tf32 put together from the halves that the metadata names.
        rows = [self._sums(a[None, m : m + 1], halves(b, lower[m])[None], c[None, m : m + 1])[0] for m in range(WGMMA_M)]
        return np.concatenate(rows)


@dataclasses.dataclass(frozen=True, eq=False)
class Operands:
    """The operands of the wgmma of several warpgroups: raw bits of A (some, 64, stored K) and of B (some, N, K), each
    once.

    The operands of each warpgroup are `which_a` and `which_b` (groups,). If an element of them is uninitialised,
    `unwritten` (groups,) is set. A sparse instruction has `places` for each group.
    """

    a: np.ndarray
    b: np.ndarray
    which_a: np.ndarray
    which_b: np.ndarray
    unwritten: np.ndarray
    places: tuple[Sparse, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class _Side:
    """An operand of several warpgroups, each once: what is read of which windows, and which of all these each warpgroup
    has.
    """

    parts: tuple[tuple[SharedOperand, Windows], ...]
    which: np.ndarray

    @classmethod
    def of(cls, operand: Callable[[int], SharedOperand], windows: Windows, words: Sequence[int]) -> _Side:
        """The operand of each warpgroup, by its descriptor, in its window."""
        firsts, which = _each_once(tuple(words), windows.numbers)
        return cls(tuple((operand(word), windows.some(numbers)) for word, numbers in firsts), which)

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """(raw bits, each once; whether those of each warpgroup have uninitialised elements)."""
        found = [operand.bits_of(windows) for operand, windows in self.parts]
        bits, missing = found[0] if len(found) == 1 else (np.concatenate(parts) for parts in zip(*found, strict=True))
        return bits, missing[self.which]


@dataclasses.dataclass(frozen=True, eq=False)
class Reads:
    """The operands of the wgmma of several warpgroups in shared memory: A, unless it is in registers, and B."""

    a: _Side | None
    b: _Side


@functools.lru_cache(maxsize=1024)
def _each_once(words: tuple[int, ...], windows: tuple[int, ...]) -> tuple[tuple[tuple[int, tuple[int, ...]], ...], np.ndarray]:
    """For pairs (a word, a window): each different pair in the order of its first use, and the number of each given
    pair in that order.
    """
    order: dict[int, dict[int, int]] = {}
    for n, (word, window) in enumerate(zip(words, windows, strict=True)):
        order.setdefault(word, {}).setdefault(window, n)
    pairs = [(word, window) for word, own in order.items() for window in own]
    number = {pair: n for n, pair in enumerate(pairs)}
    which = np.array([number[pair] for pair in zip(words, windows, strict=True)], np.int64)
    which.flags.writeable = False
    return tuple((word, tuple(own.values())) for word, own in order.items()), which


# ---- `wgmma`: one instruction from registers to registers, explained


@in_default_state
def wgmma(
    shared: SharedMemory,
    a: int | SmemDescriptor | np.ndarray,
    b: int | SmemDescriptor,
    *,
    n: int,
    a_type: str,
    b_type: str | None = None,
    d_type: str = "f32",
    d: np.ndarray | None = None,
    scale_d: bool = True,
    imm_scale_a: int = 1,
    imm_scale_b: int = 1,
    a_major: str = "K",
    b_major: str = "K",
    metadata: np.ndarray | None = None,
    sparsity_selector: int = 0,
    satfinite: bool = False,
) -> MmaResult:
    """Execute `wgmma.mma_async.m64nNkK`: D = A * B + D, with A from shared memory or registers, B from shared memory.

    - Operands: `a`, a descriptor or the registers of A, uint32 (128 threads, 4), and `b`, a descriptor.
    - Accumulator: `d`, its registers before, uint32 (128, N / 2), for f16 (128, N / 4). None means zeros. The registers
      after it are `wgmma_registers(result)`. With `scale_d=False`, D = A * B.
    - Sparsity: `metadata`, uint32 (128,), makes it wgmma.mma_async.sp.
    - Immediates: `imm_scale_a` and `imm_scale_b` are 1 or -1. With `a_major` or `b_major` "MN", imm-trans is 1.

    Measured (H200): the choice of elements, in traces wgmma_f32, wgmma_f16, wgmma_s32, wgmma_sparse, wgmma_operands.
    Every bit of the sums is measured, too, in traces wgmma_dots_f32, wgmma_dots_f16, wgmma_dots_s32. If D depends on
    uninitialised data, `result.certain` is False. One element is explained by `result.dot(m, n)`.

    Raises InputError for an instruction that does not exist, HardwareTrap if an operand leaves the shared window.

    >>> from smemsim import SharedMemory, SmemDescriptor, wgmma, wgmma_registers
    >>> import numpy as np
    >>> shared = SharedMemory("sm_90a", size=8192)
    >>> shared.write(0x400, np.full(64 * 16, 0x3F80, np.uint16))
    >>> word = SmemDescriptor(arch="sm_90a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256)
    >>> result = wgmma(shared, word, word, n=8, a_type="bf16")
    >>> result, float(result.d.view(np.float32)[63, 7]), wgmma_registers(result).shape
    (<wgmma.m64n8k16: 64 x 8 f32; addresses measured; arithmetic measured>, 16.0, (128, 4))
    """
    if not isinstance(shared, SharedMemory) or architecture(shared.arch).instruction != "wgmma":
        raise InputError(f"shared = {shown(shared)}: needs the SharedMemory of an architecture with wgmma (sm_90a)")
    registers = a if isinstance(a, np.ndarray) and a.ndim > 0 else None
    i = Wgmma(
        n, a_type, a_type if b_type is None else b_type, d_type, a_major=a_major, b_major=b_major, imm_scale_a=imm_scale_a,
        imm_scale_b=imm_scale_b, satfinite=satfinite, is_sparse=metadata is not None, sparsity_selector=sparsity_selector,
        has_a_in_registers=registers is not None,
    )  # fmt: skip
    adds_d = flag("scale_d", scale_d)
    of_b = i.b(b).explain((shared,))
    of_a = i.a(a).explain((shared,)) if registers is None else _a_in_registers(registers, i)  # type: ignore[arg-type]
    places = i.places_of(None if metadata is None else _registers("metadata", metadata, 0)[None])
    if adds_d and d is not None:
        half = i.d_type == "f16"
        c = to_matrix(_registers("d", d, n // 4 if half else n // 2).T[:, None], n, d_type)
    else:
        c = np.zeros((1, WGMMA_M, n), i.d_bits)
    one = np.zeros(1, np.int64)
    values = i.execute(Operands(of_a.bits[None], of_b.bits[None], one, one, np.zeros(1, bool), places), c)
    counts = {name: int(operand.unwritten.sum()) for name, operand in (("A", of_a), ("B", of_b))}
    return MmaResult(
        i.name, (of_a,), of_b, c[0], values[0], d_type, grade=weaker(of_a.grade, of_b.grade), arithmetic=row_of("wgmma", *i.types),
        doubtful=of_a.doubtful_rows[:, None] | of_b.doubtful_rows[None, :], unwritten={name: count for name, count in counts.items() if count},
        index=places[0].index if places else None, lower=places[0].lower if places else None, negate=i.negate, saturate=bool(satfinite),
    )  # fmt: skip


@in_default_state
def wgmma_registers(result: MmaResult) -> np.ndarray:
    """D of a wgmma as the threads hold it: uint32 (128, N / 2), for f16 (128, N / 4) with two elements a register.

    Raises InputError for what is no result of `wgmma`.

    >>> import smemsim
    >>> import numpy as np
    >>> shared = smemsim.SharedMemory()
    >>> shared.write(0x400, np.full((16, 128), 0x3F80, np.uint16), label="A and B")
    >>> result = smemsim.wgmma(shared, 0x0000000800080040, 0x00000008000800C0, n=64, a_type="bf16", b_type="bf16", a_major="K", b_major="K")
    >>> smemsim.wgmma_registers(result).shape
    (128, 32)
    """
    if not isinstance(result, MmaResult) or not result.instruction.startswith("wgmma"):
        raise InputError(f"result = {shown(result)}: needs what wgmma returned; D of tcgen05.mma lies in tensor memory (TensorMemory.ld)")
    return np.ascontiguousarray(to_registers(result.d[None], result.d_type)[:, 0].T)


# ---- Registers and matrices


def _registers(name: str, given: Any, count: int) -> np.ndarray:
    """uint32 (128, count), or InputError."""
    shape = (WGMMA_THREADS, count) if count else (WGMMA_THREADS,)
    if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype.itemsize != 4 or given.dtype.kind not in "iuf":
        got = f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
        raise InputError(f"{name}: needs 32-bit registers of shape {shape}, a row for each thread, not {got}")
    words: np.ndarray = np.ascontiguousarray(given).view(np.uint32)
    return words


@functools.lru_cache(maxsize=64)
def d_places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of every element of every thread, (128, N / 2)."""
    thread, element = np.meshgrid(np.arange(WGMMA_THREADS), np.arange(n // 2), indexing="ij")
    return fragments.d_row(thread, element), fragments.d_column(thread, element)  # type: ignore[arg-type,return-value]


@functools.lru_cache(maxsize=64)
def _flat(n: int) -> np.ndarray:
    """Place in the row-major D of every element of every thread, (N / 2, 128)."""
    row, column = d_places(n)
    return np.ascontiguousarray((row * n + column).T)


@functools.lru_cache(maxsize=64)
def _held(n: int) -> np.ndarray:
    """Place among (N / 2, 128) of every element of the row-major D: the way back of `_flat`."""
    places: np.ndarray = np.argsort(_flat(n).reshape(-1))
    return places


def to_matrix(d: np.ndarray, n: int, d_type: str) -> np.ndarray:
    """The accumulators (groups, 64, N) of registers (R, groups, 128)."""
    if d_type == "f16":
        d = np.stack([d & np.uint32(0xFFFF), d >> np.uint32(16)], 1).reshape(n // 2, *d.shape[1:])
    rows = np.ascontiguousarray(d.transpose(1, 0, 2), np.uint16 if d_type == "f16" else np.uint32).reshape(d.shape[1], -1)
    out: np.ndarray = np.take(rows, _held(n), axis=1).reshape(-1, WGMMA_M, n)
    return out


def to_registers(d: np.ndarray, d_type: str) -> np.ndarray:
    """The registers (R, groups, 128) of accumulators (groups, 64, N)."""
    groups, _, n = d.shape
    out = np.empty((n // 2, groups, WGMMA_THREADS), np.uint32)
    for group in range(groups):
        out[:, group] = d[group].reshape(-1)[_flat(n)]
    if d_type != "f16":
        return out
    packed: np.ndarray = out[0::2] | out[1::2] << np.uint32(16)
    return packed


@functools.lru_cache(maxsize=16)
def a_places(bits: int, stored: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(thread, register, lowest bit) of every stored element, (64, stored)."""
    row, column = np.meshgrid(np.arange(WGMMA_M), np.arange(stored), indexing="ij")
    thread = fragments.a_thread(row, column, bits)  # type: ignore[arg-type]
    element = np.asarray(fragments.a_element(row, column, bits))  # type: ignore[arg-type]
    per_register = REGISTER_BITS // bits
    return np.asarray(thread), element // per_register, element % per_register * bits


def from_registers(a: np.ndarray, a_type: str, k: int) -> np.ndarray:
    """The elements of A (groups, 64, K) of registers (4, groups, 128)."""
    bits = element_format(a_type).bits
    thread, register, bit = a_places(bits, k)
    raw = a[register, :, thread].transpose(2, 0, 1) >> bit.astype(np.uint32) & np.uint32((1 << bits) - 1)
    return raw.astype(WORDS.get(bits, np.uint8))


def _a_in_registers(a: np.ndarray, i: Wgmma) -> MmaOperand:
    """A of registers (128, 4), with thread and register of every element."""
    bits = from_registers(_registers("a", a, A_REGISTERS).T[:, None], i.a_type, i.stored_k)[0]
    thread, register, bit = a_places(element_format(i.a_type).bits, i.stored_k)
    nobody, nowhere = np.full(bits.shape, -1), np.zeros(bits.shape, bool)
    address = (thread << 8 | register).astype(np.uint32)
    rows = np.zeros(WGMMA_M, np.int64)
    return MmaOperand(i.a_type, "registers", bits, address, bit, rows, nobody, nobody, ({},), Grade.MEASURED, nowhere, nowhere)


# ---- Sparsity


@dataclasses.dataclass(frozen=True, eq=False)
class Sparse:
    """The K of every stored element of A, (64, stored K). For a tf32 whose halves differ, `lower` (64, stored K, 2) has
    the K of both halves, in units of 16 bits. It is None if no element is torn.
    """

    index: np.ndarray
    lower: np.ndarray | None


def _sparse(registers: np.ndarray, row: WgmmaTypes, stored: int, selector: int) -> Sparse:
    """The sparsity of A by the metadata (128,) of a warpgroup. Each row has `stored` elements of K."""
    groups = 2 * stored // row.group
    m, s = np.meshgrid(np.arange(WGMMA_M), np.arange(stored), indexing="ij")
    thread, bit = _metadata_places(groups, selector)
    nibbles = (registers[thread].astype(np.int64) >> bit & 0xF)[m, 2 * s // row.group]
    if row.group != 2:
        return Sparse(np.asarray(fragments.sparse_k(s, nibbles)), None)  # type: ignore[arg-type]
    lower, upper = (np.asarray(fragments.sparse_k(2 * s + half, nibbles)) for half in (0, 1))  # type: ignore[arg-type]
    is_plain = (lower % 2 == 0) & (upper == lower + 1)
    return Sparse(upper // 2, None if is_plain.all() else np.stack([lower, upper], -1))


@functools.lru_cache(maxsize=8)
def _metadata_places(groups: int, selector: int) -> tuple[np.ndarray, np.ndarray]:
    """(thread, lowest bit) of every group's metadata, (64, groups)."""
    places = [
        [(fragments.metadata_thread(m, g, groups, selector), fragments.metadata_bit(m, g, groups)) for g in range(groups)]
        for m in range(WGMMA_M)
    ]
    thread_and_bit = np.array(places)
    return thread_and_bit[..., 0], thread_and_bit[..., 1]
