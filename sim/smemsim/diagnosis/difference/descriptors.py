"""An operand read otherwise: through another descriptor, from the same memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from smemsim.core.arithmetic.values import to_float64
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.swizzles import MODES, SwizzleMode
from smemsim.core.words.operand import swizzled
from smemsim.core.words.operand_layout import Decoded, chunk_address
from smemsim.diagnosis.difference.compared import Compared
from smemsim.diagnosis.difference.sides import Product, Side

__all__ = ["read_otherwise"]


SEEN = 8  # elements of a line of D that are looked at before an operand is multiplied
MOST_DESCRIPTORS = 256  # descriptors that are multiplied
ENOUGH = 8  # that give D


class Descriptors(NamedTuple):
    """Many descriptors of one swizzle and major: `start` (descriptors, steps), the other fields (descriptors,)."""

    swizzle: Any
    major: str
    start: np.ndarray
    lbo: np.ndarray
    sbo: np.ndarray
    base: np.ndarray

    def those(self, which: Any) -> Descriptors:
        """Some of them."""
        return self._replace(start=self.start[which], lbo=self.lbo[which], sbo=self.sbo[which], base=self.base[which])

    def address(self, lines: np.ndarray, stored: int, fmt: ElementFormat, per_chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """(descriptors, steps, lines, stored): the byte of every element; and its lowest bit there."""
        line, k = lines[:, None], np.arange(stored)
        along, across = (k, line) if self.major == "K" else (line, k)
        lbo, sbo, base = (x[:, None, None, None] for x in (self.lbo, self.sbo, self.base))
        d: Any = Decoded(self.start[:, :, None, None], lbo, sbo, base, self.swizzle, 0)  # type: ignore[arg-type]
        inside = along % per_chunk * fmt.bits
        chunk: Any = chunk_address(d, self.major, across, along // per_chunk)  # type: ignore[arg-type]
        return chunk + inside // 8, inside % 8


class Reading(NamedTuple):
    """How an operand was read: its elements and their addresses, the descriptors, and the memory as far as it is
    `known`.
    """

    name: str
    side: Side
    address: np.ndarray
    fmt: ElementFormat
    per_chunk: int
    d: Descriptors
    begin: int
    memory: np.ndarray
    known: np.ndarray

    def read(self, d: Descriptors, lines: np.ndarray, steps: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(addresses, elements, is everything there known) of some lines of some steps through other descriptors."""
        address, shift = d._replace(start=d.start[:, steps]).address(lines, self.address.shape[2], self.fmt, self.per_chunk)
        size = 2 if self.fmt.bits == 6 else -(-self.fmt.bits // 8)  # a 6-bit element may straddle two bytes
        at = address - self.begin
        inside = (at >= 0) & (at + size <= len(self.memory))
        at = np.where(inside, at, 0)[..., None] + np.arange(size)
        raw = (self.memory[at].astype(np.uint32) << 8 * np.arange(size, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)
        codes = (raw >> shift.astype(np.uint32) & np.uint32((1 << self.fmt.bits) - 1)).astype(self.side.bits.dtype)
        known = np.asarray((inside & self.known[at].all(axis=-1)).all(axis=(1, 2, 3)))
        return address, self.side.spread(codes, lines, steps), known


def read_otherwise(c: Compared, name: str) -> list[str]:
    """Which other descriptors give hardware's D: another stride, swizzle, major, base offset or start, in all
    instructions or in one.
    """
    reading = _reading(c.product, name)
    if reading is None:
        return []
    sentences: dict[bytes, str] = {}
    count, lines, _ = reading.side.bits.shape
    tries = (
        (others.those([i]), steps)
        for steps in (slice(None), *(slice(i, i + 1) for i in range(count if count > 1 else 0)))
        for others in _others(reading.d, _modes(c.product.kind), alone=steps != slice(None))
        for i in _plausible(c, reading, others, steps)
    )
    for other, steps in itertools.islice(tries, MOST_DESCRIPTORS):
        address, bits = reading.address.copy(), reading.side.bits.copy()
        read, elements, _ = reading.read(other, np.arange(lines), steps)
        address[steps], bits[steps] = read[0], elements[0]
        key = address.tobytes()
        if key not in sentences and c.explained(c.product.having(name, bits)):
            sentences[key] = _told(reading, other, address, steps)
        if len(sentences) == ENOUGH:
            break
    return list(sentences.values())


def _modes(kind: str) -> list[SwizzleMode]:
    modes = [mode for mode in MODES.values() if (mode.wgmma_code if kind == "wgmma" else mode.tcgen05_code) is not None]
    return sorted(modes, key=lambda mode: -mode.width)


def _reading(p: Product, name: str) -> Reading | None:
    """None if it is not known where the operand was, or if no descriptor reads it so."""
    side, fmt = p.side(name), element_format(p.types["AB".index(name)])
    if side.address is None:
        return None
    per_chunk = fmt.elements_per_chunk("packed" if p.kind.startswith("mxf4") else "padded")
    lines = np.arange(side.bits.shape[1])
    for major in ("K", "MN"):
        for mode in _modes(p.kind):
            for base in range(mode.mask + 1):
                d = _descriptor(side.address, major, mode, base, per_chunk)
                if (d.address(lines, side.address.shape[2], fmt, per_chunk)[0] == side.address).all():
                    readings = (Reading(name, side, side.address, fmt, per_chunk, d, *memory) for memory in _memories(p))
                    return next((r for r in readings if (r.read(d, lines, slice(None))[1][0] == side.bits).all()), None)
    return None


def _descriptor(address: np.ndarray, major: str, mode: SwizzleMode, base: int, per_chunk: int) -> Descriptors:
    """The only descriptor of that kind that may have these addresses (steps, lines, stored)."""
    linear = swizzled(address, mode, base)
    along, across = (linear[0, 0], linear[0, :, 0]) if major == "K" else (linear[0, :, 0], linear[0, 0])

    def apart(axis: np.ndarray, index: int) -> int:
        return int(axis[index] - axis[0]) if index < len(axis) else 0

    lbo, sbo = apart(along, mode.width // 16 * per_chunk), apart(across, 8 if major == "K" else mode.k_rows)
    if major == "MN" and mode.width == 16:
        lbo, sbo = sbo, lbo
    return Descriptors(mode.swizzle, major, linear[:, 0, 0][None], np.array([lbo]), np.array([sbo]), np.array([base]))


def _memories(p: Product) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(first address, bytes, known): shared memory if it is available, and its contents that the operands show."""
    if p.memory is not None:
        memory = np.frombuffer(p.memory[1], np.uint8)
        yield p.memory[0], memory, np.ones(memory.shape, bool)
    read = [
        (side.address, side.bits, element_format(dtype).bits // 8)
        for side, dtype in zip((p.a, p.b), p.types, strict=False)
        if side.address is not None and side.stored is None and element_format(dtype).bits >= 8
    ]
    size = max((int(address.max()) for address, _, _ in read), default=0) + 8
    memory, known = np.zeros(size, np.uint8), np.zeros(size, bool)
    for address, bits, width in read:
        for i in range(width):
            memory[address + i], known[address + i] = bits >> 8 * i & 0xFF, True
    yield 0, memory, known


def _others(d: Descriptors, modes: Sequence[SwizzleMode], *, alone: bool) -> Iterator[Descriptors]:
    """Descriptors that differ in what is often mistaken, the most common mistakes first."""
    lbo, sbo, base = int(d.lbo[0]), int(d.sbo[0]), int(d.base[0])
    near = [x for x in range(-8192, 8193, 16) if x]
    far = [] if alone else [x for x in (*range(-1 << 15, 1 << 15, 128), *range(-1 << 18, 1 << 18, 1024)) if abs(x) > 8192]

    def those(**changed: Any) -> Descriptors:
        swizzle, major, *fields = d._replace(**changed)
        arrays = [np.asarray(x) for x in fields]
        count = max(len(x) for x in arrays)
        return Descriptors(swizzle, major, *(np.broadcast_to(x, (count, *x.shape[1:])) for x in arrays))

    # most swizzled operands do without the LBO of their descriptor
    unseen = [lbo] if lbo else [0, *(16 << i for i in range(14))]
    yield those(lbo=[sbo], sbo=[lbo])
    yield those(lbo=unseen, major="MN" if d.major == "K" else "K")
    for mode in modes:
        bases = [base, *(x for x in range(mode.mask + 1) if x != base)]
        strides = [sbo] if mode.swizzle == d.swizzle else [sbo, 8 * mode.width]
        fields = [x.ravel() for x in np.meshgrid(strides, bases, unseen, indexing="ij")]
        yield those(swizzle=mode.swizzle, sbo=fields[0], base=fields[1], lbo=fields[2])
    for name, value in (("sbo", sbo), ("lbo", lbo)):
        nearby = {*range(0, 4097, 16), *(16 << i for i in range(14)), 2 * value, value // 32 * 16, 16 * value, value // 256 * 16} - {value}
        yield those(**{name: sorted(nearby, key=lambda x, value=value: (x & x - 1 != 0, abs(x - value)))})  # type: ignore[misc]
    yield those(start=d.start + np.array(sorted(near, key=abs) + sorted(far, key=abs))[:, None])
    if d.start.shape[1] > 1 and not alone:
        advance = d.start - d.start[:, :1]
        others = 0 * advance, 2 * advance, advance // 32 * 16, 4 * advance, 16 * advance, advance // 256 * 16
        yield those(start=d.start[:, :1] + np.concatenate(others))


def _plausible(c: Compared, reading: Reading, others: Descriptors, steps: slice) -> list[int]:
    """The descriptors by which a few lines of D may be hardware's, summed in float64."""
    p, axis, side = c.product, "AB".index(reading.name), reading.side
    k = side.steps(np.arange(side.bits.shape[0] * side.bits.shape[2])[None])[steps].ravel()
    told = np.moveaxis(c.differs & np.isfinite(c.delta), axis, 0)
    rich = np.nonzero(2 * told.sum(axis=1) >= told.sum(axis=1).max())[0]
    terms, own, weights = p.terms("BA"[axis])[:, k], p.values(reading.name)[:, k], p.weights(reading.name)[:, k]
    left = np.arange(len(others.start))
    for line in [rich[i] for i in sorted({0, len(rich) // 2, len(rich) - 1})]:
        across = np.nonzero(told[line])[0][:SEEN]
        part = c.part([line], across) if axis == 0 else c.part(across, [line])
        _, bits, known = reading.read(others.those(left), np.array([line]), steps)
        left, bits = left[known], bits[known]
        if not len(left):
            break
        with np.errstate(all="ignore"):
            new = to_float64(bits.reshape(len(bits), -1), reading.fmt) - own[line]
            change = (new * weights[line]) @ terms[across].T
            near = part.near(change[:, None]) if axis == 0 else part.near(change[:, :, None])
        left = left[near.all(axis=(1, 2))]
    return left.tolist()


def _told(reading: Reading, other: Descriptors, address: np.ndarray, steps: slice) -> str:
    """The fields that differ between two descriptors, and the first element that this moves, as a sentence."""
    d, name = reading.d, reading.name
    (lbo, sbo, base), (new_lbo, new_sbo, new_base) = ([int(x[0]) for x in fields[3:]] for fields in (d, other))
    said = []
    if (lbo, sbo) == (new_sbo, new_lbo) != (new_lbo, new_sbo):
        said.append("LBO and SBO swapped")
    else:
        said += [f"{what} {new} instead of {old}" for what, new, old in (("LBO", new_lbo, lbo), ("SBO", new_sbo, sbo)) if new != old]
    if other.major != d.major:
        said.append(f"{other.major}-major instead of {d.major}-major (imm-trans, or the major bit)")
    if other.swizzle != d.swizzle:
        said.append(f"swizzle {other.swizzle} instead of {d.swizzle}")
    if new_base != base:
        said.append(f"base offset {new_base} instead of {base}")
    apart = (other.start - d.start)[0]
    if apart.any() and (apart == apart[0]).all():
        said.append(f"a start address {abs(int(apart[0]))} bytes {'further' if apart[0] > 0 else 'back'}")
    elif apart.any():
        said.append(f"start addresses that advance by {int(np.diff(other.start[0])[0])} bytes instead of {int(np.diff(d.start[0])[0])}")
    step, line, k = (int(x) for x in np.argwhere(address != reading.address)[0])
    of = f" of instruction {step}" if len(address) > 1 else ""
    alone = f" in instruction {steps.start}" if steps != slice(None) else ""
    stored = "stored element " if reading.side.stored is not None else ""
    places = f"{int(address[step, line, k]):#x} instead of {int(reading.address[step, line, k]):#x}"
    return f"{name} was read with {' and '.join(said)}{alone}: {stored}{name}[{line}, {k}]{of} from {places}"
