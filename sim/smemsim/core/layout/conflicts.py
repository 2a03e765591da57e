"""Layouts without bank conflicts: of the accesses of one buffer, the XOR swizzles and paddings that make all of them
free of conflicts at once.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import flag, shown, suggestion, whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers
from smemsim.core.layout.banks import Cost, matrix_lanes, shared_cost
from smemsim.core.layout.cute import CuteLayout, CuteSwizzle
from smemsim.core.spec.counters import ACCESS_COSTS, LANES, LANES_TOGETHER, Counts
from smemsim.core.spec.shared_memory import BANKS, LINE

__all__ = [
    "OPS",
    "SWIZZLE_BASE",
    "SWIZZLE_SHIFT",
    "BankAccess",
    "ConflictAnswer",
    "ConflictFree",
    "conflict_free_layouts",
    "offsets_of",
    "padding_of",
    "read_access",
]


OPS = tuple(
    name for name, cost in ACCESS_COSTS.items() if cost.counts in (Counts.WORDS, Counts.LANES) and name not in ("loop", "uniform", "poll")
)
ALL_LANES = (1 << LANES) - 1
MOST_SHIFT = 12  # a swizzle that takes bits from further up is no layout that compilers have
# of the swizzles that TMA and the tensor core have: Swizzle<1 to 3, 4, 3>
SWIZZLE_BASE, SWIZZLE_SHIFT, MOST_BITS = 4, 3, 3
MOST_PADDING = LINE


@dataclasses.dataclass(frozen=True, eq=False)
class BankAccess(metaclass=OwnMembers):
    """One instruction that accesses a buffer of shared memory.

    - Operation: `op`, one of ld, st, ldmatrix, stmatrix, atom, cas or one (`red.add.u32` of the number 1).
    - Addresses: `at` (warps, lanes), byte offsets in the present buffer.
    - Size: `size`, the bytes of each lane.
    - Lanes: `active`, the mask of the active lanes, for all warps or for each.

    Raises InputError.

    >>> from smemsim import BankAccess
    >>> import numpy as np
    >>> BankAccess("ld", [np.arange(32) * 128], 4).cost
    32
    """

    op: str
    at: Any
    size: int
    active: Any = ALL_LANES
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.op, str) or self.op not in OPS:
            raise InputError(f"op = {shown(self.op)}: needs one of {', '.join(OPS)}{suggestion(str(self.op), OPS)}")
        if not isinstance(self.size, int) or self.size not in LANES_TOGETHER:
            raise InputError(f"size = {shown(self.size)}: needs one of {', '.join(map(str, LANES_TOGETHER))} bytes")
        try:
            at = np.atleast_2d(np.asarray(self.at, np.int64))
            lanes = np.asarray(self.active, np.int64)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"at = {shown(self.at)}, active = {shown(self.active)}: needs whole numbers, byte offsets and masks of lanes"
            ) from None
        if at.ndim != 2 or not 1 <= at.shape[1] <= LANES or not at.size:
            raise InputError(f"at: needs (warps, lanes) with at most {LANES} lanes, not an array of shape {at.shape}")
        if lanes.ndim > 1 or lanes.size not in (1, len(at)):
            raise InputError(f"active: needs one mask, or one for each of {len(at)} warps, not an array of shape {lanes.shape}")
        active = np.broadcast_to(lanes.reshape(-1), (len(at),)) & ((1 << at.shape[1]) - 1)
        if (at % self.size).any():
            raise InputError(f"at: byte offset {int(at[at % self.size != 0][0])} is no multiple of the {self.size} bytes of a lane")
        if (at < 0).any():
            raise InputError(f"at: byte offset {int(at.min())} is before the buffer")
        object.__setattr__(self, "at", np.pad(at, ((0, 0), (0, LANES - at.shape[1]))))
        object.__setattr__(self, "active", active)

    @property
    def cost(self) -> int:
        """The wavefronts of all warps together."""
        return int(self.cost_at(self.at).wavefronts.sum())

    @property
    def ideal(self) -> int:
        """The wavefronts without any bank conflict."""
        return int(self.groups.sum()) * (2 if self.op == "cas" else 1)

    @property
    def groups(self) -> np.ndarray:
        """The number of groups of lanes that have an active lane, for each warp."""
        width = LANES_TOGETHER[self.size]
        parts = self.active[:, None] >> np.arange(0, LANES, width) & ((1 << width) - 1)
        out: np.ndarray = (parts != 0).sum(axis=1)
        return out

    def cost_at(self, at: np.ndarray) -> Cost:
        """The cost of the access at other offsets."""
        return shared_cost(self.op, at, self.active, self.size)

    def is_free(self, at: np.ndarray) -> bool:
        """True if no group of lanes takes more than one pass at these offsets."""
        return bool((self.cost_at(at).worst <= (2 if self.op == "cas" else 1)).all())


@dataclasses.dataclass(frozen=True)
class ConflictFree(metaclass=OwnMembers):
    """A layout of the buffer without bank conflicts. It is an XOR of byte offsets (`swizzle`), or rows of `pitch` bytes
    with `padding` bytes after each. Source code of it is returned by `cuda()`, `cute()` and `triton()`.

    >>> from smemsim import BankAccess, conflict_free_layouts
    >>> found = conflict_free_layouts([BankAccess("ldmatrix", [[row * 128 for row in range(8)]], 16)]).layouts[0]
    >>> str(found.swizzle), found.cuda(2), found(128)
    ('Swizzle<3,4,3>', 'offset ^ (offset >> 3 & 0x70)', 144)
    """

    swizzle: CuteSwizzle | None
    pitch: int = 0
    padding: int = 0
    wavefronts: int = 0

    def __call__(self, at: Any) -> Any:
        """The new place of the byte at an offset of the plain buffer."""
        if self.swizzle is not None:
            mask = (1 << self.swizzle.bits) - 1
            return at ^ (at >> (self.swizzle.base + self.swizzle.shift) & mask) << self.swizzle.base
        return at + at // self.pitch * self.padding if self.padding else at

    def cute(self, element_bytes: int) -> str:
        """The layout as CuTe writes it, with element offsets.

        >>> ConflictFree(CuteSwizzle(3, 4, 3)).cute(2)
        'Swizzle<3,3,3>'
        """
        scale = element_bytes.bit_length() - 1
        if self.swizzle is not None:
            return str(CuteSwizzle(self.swizzle.bits, self.swizzle.base - scale, self.swizzle.shift))
        columns = self.pitch // element_bytes
        return f"make_layout(make_shape(rows, {columns}), make_stride({columns + self.padding // element_bytes}, 1))"

    def cuda(self, element_bytes: int) -> str:
        """The layout as CUDA C++: an expression of a byte offset, or a declaration.

        >>> ConflictFree(CuteSwizzle(3, 4, 3)).cuda(2)
        'offset ^ (offset >> 3 & 0x70)'
        """
        if self.swizzle is not None:
            mask = ((1 << self.swizzle.bits) - 1) << self.swizzle.base
            return f"offset ^ (offset >> {self.swizzle.shift} & {mask:#x})"
        return f"__shared__ T tile[rows][{self.pitch // element_bytes} + {self.padding // element_bytes}]"

    def triton(self, element_bytes: int, pitch: int) -> str:
        """The layout as Gluon's shared layout, for rows of `pitch` bytes. "" if Gluon has none.

        >>> ConflictFree(CuteSwizzle(2, 4, 3)).triton(2, 64)
        'gl.SwizzledSharedLayout(vec=8, per_phase=2, max_phase=4, order=[1, 0])'
        """
        if self.swizzle is None:
            columns, more = self.pitch // element_bytes, self.padding // element_bytes
            return f"gl.PaddedSharedLayout.with_identity_for([[{columns}, {more}]], [rows, {columns}], [1, 0])"
        vector, phase = (1 << self.swizzle.base) // element_bytes, 1 << self.swizzle.base + self.swizzle.shift
        if not pitch or pitch & pitch - 1 or phase < pitch or (1 << self.swizzle.base + self.swizzle.bits) > pitch or not vector:
            return ""
        return f"gl.SwizzledSharedLayout(vec={vector}, per_phase={phase // pitch}, max_phase={1 << self.swizzle.bits}, order=[1, 0])"

    @property
    def says(self) -> str:
        """The layout in a few words."""
        if self.swizzle is not None:
            return f"{self.swizzle} on byte offsets" if self.swizzle.bits else "as it lies, without a swizzle"
        return f"{self.padding} bytes after every {self.pitch}" if self.padding else "as it lies"


@dataclasses.dataclass(frozen=True)
class ConflictAnswer(metaclass=OwnMembers):
    """The result of `conflict_free_layouts`.

    - Layouts: `layouts`, those without conflicts, the cheapest first. If there is none, the best one is `nearest`.
    - Wavefronts: `now`, those of the present layout, and `ideal`, those without any conflict.
    - Number: `tried`, the layouts that were tried.

    >>> from smemsim import BankAccess, conflict_free_layouts
    >>> answer = conflict_free_layouts([BankAccess("ldmatrix", [[row * 128 for row in range(8)]], 16)])
    >>> answer.now, answer.ideal, answer.nearest
    (8, 1, None)
    """

    now: int
    ideal: int
    layouts: tuple[ConflictFree, ...]
    nearest: ConflictFree | None
    tried: int
    accesses: tuple[BankAccess, ...]

    @property
    def element_bytes(self) -> int:
        """The bytes of an element, if the accesses say nothing else: those of the smallest one, 2 of a matrix."""
        return 2 if any("matrix" in a.op for a in self.accesses) else min(a.size for a in self.accesses)

    def as_dict(self) -> dict[str, Any]:
        """The answer for JSON."""
        return {
            "wavefronts": self.now,
            "ideal": self.ideal,
            "tried": self.tried,
            "layouts": [_as_dict(one) for one in self.layouts],
            "nearest": self.nearest and _as_dict(self.nearest),
        }


def _as_dict(one: ConflictFree) -> dict[str, Any]:
    swizzle = one.swizzle and [one.swizzle.bits, one.swizzle.base, one.swizzle.shift]
    return {"swizzle": swizzle, "pitch": one.pitch, "padding": one.padding, "wavefronts": one.wavefronts}


def _swizzles(unit: int, extent: int, *, is_tma: bool) -> Iterator[CuteSwizzle]:
    """Every XOR that keeps `unit` bytes together and stays in a buffer of `extent` bytes: those of the hardware first,
    then few bits first.
    """
    yield CuteSwizzle(0, SWIZZLE_BASE, SWIZZLE_SHIFT)
    hardware = [CuteSwizzle(bits, SWIZZLE_BASE, SWIZZLE_SHIFT) for bits in range(1, MOST_BITS + 1)]
    if unit <= 1 << SWIZZLE_BASE:
        yield from hardware
    if is_tma:
        return
    low, bank_bits = max(unit, BANKS.width).bit_length() - 1, (BANKS.count * BANKS.width).bit_length() - 1
    for bits in range(1, bank_bits - 1):
        for base in range(low, bank_bits - bits + 1):
            for shift in range(bits, MOST_SHIFT + 1):
                one = CuteSwizzle(bits, base, shift)
                if 1 << base + shift < extent and one not in hardware:
                    yield one


def _paddings(unit: int, pitches: Sequence[int]) -> Iterator[ConflictFree]:
    for pitch in pitches:
        for padding in range(unit, MOST_PADDING + 1, unit):
            yield ConflictFree(None, pitch, padding)


def conflict_free_layouts(
    accesses: Iterable[BankAccess], *, pitch: int | None = None, tma: bool = False, swizzle: CuteSwizzle | None = None, most: int = 8
) -> ConflictAnswer:
    """Find layouts in which no access of a buffer has bank conflicts.

    - Row: `pitch`, the bytes of a row of the buffer, for paddings. Default: powers of two that fit the accesses.
    - Present layout: `swizzle`, the XOR that the buffer has now.
    - TMA: with `tma`, TMA writes the buffer, so only TMA's swizzles are tried.
    - Number: at most `most` layouts are kept.

    Raises InputError.

    >>> from smemsim import BankAccess, conflict_free_layouts
    >>> column = BankAccess("ldmatrix", [[row * 128 for row in range(8)]], 16)
    >>> answer = conflict_free_layouts([column])
    >>> answer.now, answer.ideal, str(answer.layouts[0].swizzle)
    (8, 1, 'Swizzle<3,4,3>')
    """
    found = tuple(accesses) if isinstance(accesses, Iterable) and not isinstance(accesses, (str, bytes)) else (accesses,)
    if any(not isinstance(one, BankAccess) for one in found):
        raise InputError(f"accesses = {shown(accesses)}: needs a list of BankAccess")
    if not found:
        raise InputError("accesses: none; a layout is looked for that suits at least one")
    if pitch is not None:
        whole("pitch", pitch, minimum=1)
    if swizzle is not None and not isinstance(swizzle, CuteSwizzle):
        raise InputError(f"swizzle = {shown(swizzle)}: needs a CuteSwizzle, or None")
    flag("tma", tma)
    whole("most", most, minimum=1)
    now = ConflictFree(swizzle or CuteSwizzle(0, SWIZZLE_BASE, SWIZZLE_SHIFT))
    plain = [now(a.at) for a in found]
    unit = max(a.size for a in found)
    extent = max(int(at.max()) for at in plain) + unit
    candidates: list[ConflictFree] = [ConflictFree(x) for x in _swizzles(unit, extent, is_tma=tma)]
    if not tma:
        rows = [pitch] if pitch is not None else [1 << n for n in range(5, 13) if 1 << n < extent]
        candidates += [c for c in _paddings(unit, rows) if c.pitch % unit == 0]
    free: list[ConflictFree] = []
    nearest: ConflictFree | None = None
    for candidate in candidates:
        total = _total(found, plain, candidate)
        one = dataclasses.replace(candidate, wavefronts=total)
        if all(a.is_free(candidate(at)) for a, at in zip(found, plain, strict=True)):
            free.append(one)
            if len(free) == most:
                break
        if nearest is None or total < nearest.wavefronts:
            nearest = one
    return ConflictAnswer(
        sum(a.cost for a in found), sum(a.ideal for a in found), tuple(free), None if free else nearest, len(candidates), found
    )


def padding_of(accesses: Sequence[BankAccess]) -> ConflictFree | None:
    """The least padding of rows without conflicts; a row is as long as neighbouring lanes of the costliest access are
    apart. None if there is none.

    >>> padding_of([BankAccess("ld", [np.arange(32) * 128], 4)])
    ConflictFree(swizzle=None, pitch=128, padding=4, wavefronts=1)
    """
    worst = max(accesses, key=lambda a: a.cost - a.ideal)
    apart, counts = np.unique(np.abs(np.diff(worst.at, axis=1)), return_counts=True)
    pitch = int(apart[counts.argmax()])
    unit = max(a.size for a in accesses)
    if pitch <= unit or pitch % unit:
        return None
    plain = [a.at for a in accesses]
    free = (c for c in _paddings(unit, [pitch]) if all(a.is_free(c(at)) for a, at in zip(accesses, plain, strict=True)))
    found = next(free, None)
    return found and dataclasses.replace(found, wavefronts=_total(accesses, plain, found))


def _total(accesses: Sequence[BankAccess], plain: Sequence[np.ndarray], layout: ConflictFree) -> int:
    return sum(int(a.cost_at(layout(at)).wavefronts.sum()) for a, at in zip(accesses, plain, strict=True))


# ---- Accesses given by hand: offsets as an expression of the lane


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitXor: operator.xor, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_MOST_TEXT, _MOST_NUMBER, _MOST_STEPS = 400, 1 << 24, 64


def offsets_of(text: str, *, steps: int = 1, layout: CuteLayout | None = None, element_bytes: int = 1) -> np.ndarray:
    """The byte offsets of 32 lanes, (steps, 32), of an expression of `lane` and `step` (+ - * // % ^ & | << >>). With
    `layout`: of two expressions, row and column.

    >>> offsets_of("lane % 16 * 128 + lane // 16 * 16 + step * 32", steps=2)[1, 17]
    np.int64(176)
    """
    if len(text) > _MOST_TEXT:
        raise InputError(f"an expression of {len(text)} characters: at most {_MOST_TEXT}")
    if not 1 <= whole("steps", steps, minimum=1) <= _MOST_STEPS:
        raise InputError(f"steps = {steps}: at most {_MOST_STEPS}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{shown(text)}: not an expression of lane and step, as lane % 16 * 128 + lane // 16 * 16") from None
    names = {"lane": np.arange(LANES)[None, :], "step": np.arange(steps)[:, None]}
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    if len(parts) != (1 if layout is None else 2):
        raise InputError(f"{shown(text)}: needs {'a byte offset' if layout is None else 'row, column'}")
    values = [np.broadcast_to(_value(part, names, text), (steps, LANES)) for part in parts]
    if layout is None:
        return np.array(values[0], np.int64)
    return np.array(
        [[layout.address(0, 8 * element_bytes, int(r), int(c)) for r, c in zip(*rows, strict=True)] for rows in zip(*values, strict=True)],
        np.int64,
    )


def _value(node: ast.expr, names: dict[str, np.ndarray], text: str) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < _MOST_NUMBER:
        return np.int64(node.value)
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id].astype(np.int64)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, names, text), _value(node.right, names, text)
        if type(node.op) in (ast.FloorDiv, ast.Mod) and not np.all(right):
            raise InputError(f"{shown(text)}: divides by 0")
        if type(node.op) in (ast.LShift, ast.RShift) and not np.all((right >= 0) & (right < LANES)):
            raise InputError(f"{shown(text)}: shifts by less than 0 or more than {LANES - 1}")
        out = _OPERATORS[type(node.op)](left, right)
        if np.abs(out).max() >= _MOST_NUMBER << 8:
            raise InputError(f"{shown(text)}: numbers beyond shared memory")
        return out
    raise InputError(f"{shown(text)}: only numbers, lane, step and + - * // % ^ & | << >>")


def read_access(text: str, *, steps: int = 1, layout: CuteLayout | None = None, element_bytes: int = 1) -> BankAccess:
    """An access as the command line has it: OP[.xN]:BYTES:EXPRESSION.

    >>> read_access("ldmatrix.x4:16:lane % 16 * 128 + lane // 16 * 16").cost
    32
    """
    op, _, rest = text.partition(":")
    size, _, expression = rest.partition(":")
    op, _, count = op.strip().partition(".x")
    if not expression or not size.strip().isdigit() or (count and count not in ("1", "2", "4")):
        raise InputError(
            f"{shown(text)}: needs OP:BYTES:EXPRESSION, as ld:16:lane * 16 or ldmatrix.x4:16:lane % 16 * 128 + lane // 16 * 16"
        )
    if int(size) not in (1, 2, 4, 8, 16):
        raise InputError(f"{shown(text)}: BYTES = {int(size)}: needs one of 1, 2, 4, 8, 16 bytes")
    is_matrix = op in ("ldmatrix", "stmatrix")
    active = matrix_lanes(ALL_LANES, int(count or 4)) if is_matrix else ALL_LANES
    return BankAccess(op, offsets_of(expression, steps=steps, layout=layout, element_bytes=element_bytes), int(size), active, text)
