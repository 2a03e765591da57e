"""`SmemDescriptor`: the 64-bit shared-memory matrix descriptor as a value, and what is wrong with one."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnEnumMembers, OwnMembers
from smemsim.core.finding import Finding, in_word
from smemsim.core.spec.architectures import Architecture, architecture
from smemsim.core.spec.fields import Word
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.smem_descriptor import IDLE_STRIDES, SM90_SMEM_DESC, SM100_SMEM_DESC, layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.operand_layout import check_major, check_packing, chunk_address, decoded, used_strides, why_unmodelled, window_reach

__all__ = ["LboMode", "SmemDescriptor", "stride_walks", "swizzle_problem"]


class LboMode(enum.IntEnum, metaclass=OwnEnumMembers):
    """The meaning of LBO, by bit 52 of the descriptor. RELATIVE: a distance. ABSOLUTE (sm_103a): the address of the
    next buffer.

    >>> import smemsim
    >>> smemsim.SmemDescriptor.decode(0x4010004000010040, arch="sm_103a").lbo_mode
    <LboMode.ABSOLUTE: 1>
    """

    RELATIVE = 0
    ABSOLUTE = 1


@dataclasses.dataclass(frozen=True, repr=False, init=False)
class SmemDescriptor(metaclass=OwnMembers):
    """A shared-memory matrix descriptor of one architecture. Offsets and addresses are bytes. Every 64-bit word is a
    descriptor.

        63:61  layout (swizzle; on sm_90a 63:62)   45:32  stride_byte_offset >> 4
        52     lbo_mode (sm_103a)                  29:16  leading_byte_offset >> 4
        51:49  base_offset                         13:0   start_address >> 4
        48:46  constant 0b001 (tcgen05)            other bits are reserved

    Two descriptors are equal if their architectures and words are. Documented: PTX ISA 9.1 §9.7.16.4.1 (tcgen05),
    9.7.15.5.1.2.2 (wgmma). For wgmma every field is measured; the reserved bits have no effect (trace
    wgmma_reserved_bits).

    >>> from smemsim import SmemDescriptor
    >>> d = SmemDescriptor.decode(0x4000404000010040, arch="sm_100a")
    >>> d
    SmemDescriptor(arch='sm_100a', start_address=1024, leading_byte_offset=16, stride_byte_offset=1024, swizzle='128B')
    >>> hex(d.advance(32).encode())
    '0x4000404000010042'
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "table",
    )  # fmt: skip

    arch: str
    word: int

    def __init__(
        self,
        *,
        arch: str,
        start_address: int = 0,
        leading_byte_offset: int = 0,
        stride_byte_offset: int = 0,
        base_offset: int = 0,
        swizzle: str | Swizzle = Swizzle.NONE,
        lbo_mode: int = 0,
        word: int | None = None,
    ) -> None:
        """Either the fields, or `word` alone (`SmemDescriptor.decode` is the short form of that)."""
        machine = architecture(arch)
        table = machine.smem_descriptor
        if word is not None:
            fields = (start_address, leading_byte_offset, stride_byte_offset, base_offset, lbo_mode)
            if any(whole("field", value) for value in fields) or swizzle is not Swizzle.NONE:
                raise InputError("word, start_address, …: give the raw word or the fields it should have, not both")
        else:
            codes = {mode: code for code, mode in layout_codes(table).items()}
            name = swizzle.removeprefix("SWIZZLE_") if isinstance(swizzle, str) else shown(swizzle)
            name = "none" if name == "NONE" else name
            if name not in codes:
                raise InputError(f"swizzle = {name!r}: {arch} descriptors have {', '.join(codes)}")
            values: dict[str, Any] = {
                "start_address": start_address,
                "leading_byte_offset": leading_byte_offset,
                "stride_byte_offset": stride_byte_offset,
                "base_offset": base_offset,
                "layout_type": codes[Swizzle(name)],
            }
            if "lbo_mode" in table.fields:
                values["lbo_mode"] = lbo_mode
            elif whole("lbo_mode", lbo_mode):
                raise InputError(f"lbo_mode = {lbo_mode}: {arch} descriptors have no absolute mode, bit 52 is unused")
            word = table.encode(**values)
        object.__setattr__(self, "arch", machine.name)
        object.__setattr__(self, "word", table.check_range(word, "descriptor"))

    @classmethod
    def decode(cls, word: int, *, arch: str) -> SmemDescriptor:
        """The descriptor of a raw word. Any 64-bit integer is accepted, also one that was
        printed as a negative number.
        """
        return cls(arch=arch, word=architecture(arch).smem_descriptor.check_range(word, "descriptor"))

    def encode(self) -> int:
        """The raw 64-bit word."""
        return self.word

    @property
    def table(self) -> Word:
        """The bit table of the architecture."""
        return architecture(self.arch).smem_descriptor

    def _value(self, name: str) -> int:
        return self.table.fields[name].value(self.word)

    @property
    def start_address(self) -> int:
        """Byte address in the `.shared` window, modulo 2^18."""
        return self._value("start_address")

    @property
    def leading_byte_offset(self) -> int:
        """LBO in bytes. Major-ness and swizzle decide along which axis it steps."""
        return self._value("leading_byte_offset")

    @property
    def stride_byte_offset(self) -> int:
        """SBO in bytes. Major-ness and swizzle decide along which axis it steps."""
        return self._value("stride_byte_offset")

    @property
    def base_offset(self) -> int:
        """By how many lines of 128 bytes (0 to 7) the swizzle's pattern is moved. With 0 it begins at multiples of its
        size: 1024 B with 128B.
        """
        return self._value("base_offset")

    @property
    def layout_code(self) -> int:
        """The raw layout code: bits 63:62 on sm_90a, 63:61 on sm_100a."""
        return self._value("layout_type")

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle that the layout code means on this architecture, or `Swizzle.INVALID`."""
        return layout_codes(self.table).get(self.layout_code, Swizzle.INVALID)

    @property
    def lbo_mode(self) -> LboMode:
        """RELATIVE, or ABSOLUTE if bit 52 of a tcgen05 word is set. In a wgmma word the bit has no effect."""
        return LboMode(self._value("lbo_mode")) if "lbo_mode" in self.table.fields else LboMode.RELATIVE

    def advance(self, byte_offset: int) -> SmemDescriptor:
        """The descriptor with its start address moved, as kernels do by adding `byte_offset >> 4` to the word.

        Raises InputError when the sum does not fit the 14-bit field: the addition would carry into bits 14 and 15 and,
        for large offsets, on into LBO.
        """
        byte_offset = whole("byte_offset", byte_offset, wanted="a whole number of bytes")
        field = self.table.fields["start_address"]
        if byte_offset % 16:
            raise InputError(f"byte_offset = {byte_offset} B: a descriptor moves in steps of 16 B")
        moved = self.start_address + byte_offset
        if not 0 <= moved < 1 << (field.width + field.shift):
            raise InputError(
                f"start address {self.start_address} B + {byte_offset} B = {moved} B does not fit the {field.width}-bit start_address field "
                f"(0 to {field.mask << field.shift} B); adding {byte_offset >> 4} to the word would carry out of it"
            )
        return SmemDescriptor.decode(self.table.changed(self.word, start_address=moved), arch=self.arch)

    def problems(
        self,
        *,
        dtype: Any = None,
        major: str | None = None,
        rows: int | None = None,
        k: int | None = None,
        packing: str = "packed",
        tile_bytes: int | None = None,
    ) -> list[Finding]:
        """The findings about the descriptor. Each argument that is given allows more checks. Arguments `dtype`,
        `major`, `rows`, `k` and `packing` are those of `operand_addresses`. The size of the buffer from the start
        address on is `tile_bytes`.

        >>> for finding in SmemDescriptor.decode(0x6000400000000000, arch="sm_100a").problems(): print(finding.code, finding.severity)
        D302 wrong
        """
        if major is not None:
            check_major(major)
        check_packing(packing)
        given = {"rows": rows, "k": k, "tile_bytes": tile_bytes}
        numbers = {name: None if value is None else whole(name, value, minimum=0) for name, value in given.items()}
        fmt = None if dtype is None else element_format(dtype)
        context = Context(architecture(self.arch), fmt, major, numbers["rows"], numbers["k"], packing, numbers["tile_bytes"])
        findings = [finding for rule in RULES for finding in rule(self, context)]
        order = list(Severity)
        return sorted(findings, key=lambda f: order.index(f.severity))

    def __repr__(self) -> str:
        given: dict[str, Any] = {
            "start_address": self.start_address,
            "leading_byte_offset": self.leading_byte_offset,
            "stride_byte_offset": self.stride_byte_offset,
        }
        if self.base_offset:
            given["base_offset"] = self.base_offset
        given["swizzle"] = str(self.swizzle)
        if self.lbo_mode:
            given["lbo_mode"] = int(self.lbo_mode)
        plain = self.swizzle is not Swizzle.INVALID and SmemDescriptor(arch=self.arch, **given).word == self.word
        if not plain:
            return f"SmemDescriptor(arch={self.arch!r}, word={self.word:#018x})"
        return f"SmemDescriptor(arch={self.arch!r}, {', '.join(f'{name}={value!r}' for name, value in given.items())})"


# ---- What is wrong with a descriptor: one small function a rule, each yielding findings. A rule says only what
# it can know: without the operand's context it stays with what no operand makes right; with it, the operand's
# chunks are computed and compared


SMALLEST_ROWS = 64  # every A operand has at least 64 rows, and most B operands
MOST_CHUNKS = 1 << 16  # an operand beyond any instruction's size is not walked
MOST_STRIDES = 32  # multiples of an atom that are tried as another stride


class Context(NamedTuple):
    arch: Architecture
    fmt: ElementFormat | None
    major: str | None
    rows: int | None
    k: int | None
    packing: str
    tile_bytes: int | None

    @property
    def k_bytes(self) -> int | None:
        """Bytes of K in a row of a K-major operand."""
        if self.fmt is None or self.k is None:
            return None
        return -(-self.k // self.fmt.elements_per_chunk(self.packing)) * 16

    def lines_and_chunks(self) -> tuple[int, int] | None:
        """(rows of chunks, chunks in each) of the operand, when all of it is known."""
        if self.fmt is None or self.major is None or self.rows is None or self.k is None:
            return None
        along, lines = (self.k, self.rows) if self.major == "K" else (self.rows, self.k)
        chunks = -(-along // self.fmt.elements_per_chunk(self.packing))
        return (lines, chunks) if 0 < lines * chunks <= MOST_CHUNKS else None


_finding = functools.partial(in_word, "shared-memory descriptor")


def layout_code(d: SmemDescriptor, _: Context) -> Iterator[Finding]:
    """Codes that are invalid, or that mean another swizzle on the other generation."""
    code, table = d.layout_code, d.table
    if d.swizzle is Swizzle.INVALID:
        listed = ", ".join(f"{c} = {s}" for c, s in sorted(layout_codes(table).items()))
        meant = layout_codes(SM90_SMEM_DESC).get(code)
        fix = f"layout code {MODES[meant].tcgen05_code}, if {meant} is meant" if meant else "a valid code"
        yield _finding("D302", "layout_type", f"layout code {code} is invalid on {d.arch} (valid: {listed})", fix, "PTX ISA 9.1 §9.7.16.4.1",
                       why=f"{code} is the code of {meant} for wgmma" if meant else "")  # fmt: skip
    elif table is SM90_SMEM_DESC and (other := SmemDescriptor.decode(d.word, arch="sm_100a")).layout_code % 2:
        yield _finding("D302", "layout_type",
                       "bit 61 is set, which wgmma ignores", "bits 63:62 = wgmma's layout code of the swizzle that is meant, and bit 61 = 0", "trace wgmma_reserved_bits",
                       Severity.WRONG if d.swizzle is Swizzle.NONE else Severity.LUCK,
                       why=f"wgmma reads code {code} ({d.swizzle}); tcgen05 would read code {other.layout_code} ({other.swizzle})")  # fmt: skip
    elif table is SM100_SMEM_DESC and d.swizzle is Swizzle.B128_ATOM_32B:
        yield _finding("D302", "layout_type", "layout code 1 selects 128B_ATOM_32B on tcgen05, for 32-bit MN-major operands only",
                       "layout code 2, if 128B is meant (code 1 of wgmma)", "PTX ISA 9.1 §9.7.16.4.1", Severity.NOTE)  # fmt: skip


def row_group_of_other_swizzle(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """K-major, and SBO is 8 packed rows of another swizzle: of one whose code has this number on the other generation,
    or any.
    """
    if c.major != "K" or d.swizzle in (Swizzle.INVALID, Swizzle.NONE) or d.stride_byte_offset == 8 * MODES[d.swizzle].width:
        return
    here = {mode: code for code, mode in layout_codes(d.table).items()}
    other = next((m for m in (Swizzle.B32, Swizzle.B64, Swizzle.B128) if 8 * MODES[m].width == d.stride_byte_offset), None)
    if other is None:
        return
    foreign = SM100_SMEM_DESC if d.table is SM90_SMEM_DESC else SM90_SMEM_DESC
    namesake = layout_codes(foreign).get(d.layout_code) is other
    why = f"{other} has code {d.layout_code} on {'tcgen05' if foreign is SM100_SMEM_DESC else 'wgmma'}" if namesake else ""
    yield _finding("D302", "layout_type",
                   f"layout code {d.layout_code} selects {d.swizzle}; SBO = {d.stride_byte_offset} B is 8 packed rows of {other}",
                   f"layout code {here[other]}, if {other} is meant", "PTX ISA 9.1 §9.7.16.4.1",
                   Severity.LUCK if namesake else Severity.NOTE, why=why)  # fmt: skip


def fixed_bits(d: SmemDescriptor, _: Context) -> Iterator[Finding]:
    """Reserved and constant bits that differ from the manual."""
    for name, field, raw in d.table.constants(d.word):
        label = "constant" if name == "constant" else "reserved"
        if d.table is SM90_SMEM_DESC:
            effect = "wgmma ignores them (measured)"
        elif name == "constant":
            effect = "kernels with bit 46 = 0 give right results; what the bit does is not known"
        else:
            effect = "their effect on tcgen05 is not known"
        width = field.high - field.low + 3  # with 0b
        yield _finding("D305", name, f"{label} bits {field.high}:{field.low} are {raw:#0{width}b}; the manual has {field.want:#0{width}b}",
                       f"bits {field.high}:{field.low} = {field.want:#0{width}b}", field.source, why=effect, named=True)  # fmt: skip


def absolute_mode(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """Bit 52 where the architecture has no absolute mode."""
    if d.lbo_mode and not c.arch.absolute_lbo:
        yield _finding("D305", "lbo_mode", f"bit 52 is set, and {d.arch} has no absolute LBO (sm_103a has)", "bit 52 = 0",
                       "PTX ISA 9.1 §9.7.16.4.1.1", Severity.WRONG)  # fmt: skip


def base_offset(d: SmemDescriptor, _: Context) -> Iterator[Finding]:
    """A base offset on data whose pattern is anchored to absolute addresses, as TMA writes it."""
    if not d.base_offset or d.swizzle is Swizzle.INVALID:
        return
    mode = MODES[d.swizzle]
    source = "trace tma_wgmma" if d.arch == "sm_90a" else "PTX ISA 9.1 §9.7.16.4.1; the effect is measured on wgmma only"
    if not d.base_offset & mode.mask:
        reason = "there is no swizzle" if not mode.mask else f"it is 0 modulo {mode.mask + 1}"
        yield _finding(
            "D306",
            "base_offset",
            f"base_offset = {d.base_offset} has no effect",
            "base_offset = 0",
            source,
            Severity.NOTE,
            why=reason,
            named=True,
        )
        return
    moved, phase = d.base_offset & mode.mask, d.start_address >> 7 & mode.mask
    if moved == phase:
        severity = Severity.LUCK
        why = f"it is the phase of the start address {d.start_address:#x}, which is right only for a pattern that software began there"
    else:
        severity = Severity.WRONG
        why = f"modulo {mode.mask + 1} it is neither 0 nor the phase of the start address ({phase})"
    message = f"base_offset = {d.base_offset} shifts the swizzle of data that TMA wrote by {moved} line{'s' if moved > 1 else ''}"
    yield _finding("D306", "base_offset", message, f"base_offset = 0 for data that TMA wrote; its pattern begins at multiples of {mode.period} B",
                   source, severity, why=why, named=True)  # fmt: skip


def field_in_bytes(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """LBO or SBO whose raw bits look like bytes, not 16-byte units."""
    if d.swizzle is Swizzle.INVALID or d.lbo_mode:
        return
    mode = MODES[d.swizzle]
    for name in ("stride_byte_offset", "leading_byte_offset"):
        stride = getattr(d, name)
        raw = stride >> 4
        if not stride or raw % 16:
            continue
        field = d.table.fields[name]
        as_bytes = SmemDescriptor.decode(d.word & ~(field.mask << field.low) | (raw >> 4) << field.low, arch=d.arch)
        limit = c.arch.shared_end
        if c.tile_bytes is not None:
            limit = min(limit, d.start_address + c.tile_bytes)
        far, near = _farthest(d, c), _farthest(as_bytes, c)
        message = f"{name} = {stride} B: the raw field {raw} looks like bytes"
        repair = f"{raw} >> 4 = {raw >> 4} in the field, which is {raw} B"
        counts = "the field counts units of 16 B"
        if far >= limit > near:
            yield _finding(
                "D301",
                name,
                message,
                repair,
                "PTX ISA 9.1 §9.7.16.4.1",
                why=f"{counts}; the operand would end at {far:#x}, past {limit:#x}",
                named=True,
            )
        elif stride >= 1 << 16 and raw % 128 == 0:  # no kernel known to us strides that far; bytes would be ordinary
            yield _finding("D301", name, message, repair, "PTX ISA 9.1 §9.7.16.4.1", Severity.LUCK, why=counts, named=True)
        elif name == "stride_byte_offset" and c.major != "MN" and mode.mask and raw == 8 * mode.width:
            yield _finding(
                "D301",
                name,
                f"{message} ({raw} B is 8 rows of {d.swizzle})",
                repair,
                "PTX ISA 9.1 §9.7.16.4.1",
                Severity.LUCK,
                why=counts,
                named=True,
            )


def _farthest(d: SmemDescriptor, c: Context) -> int:
    """The last byte of the operand; without context that of 64 K-major rows."""
    size = c.lines_and_chunks()
    lines, chunks = size or (SMALLEST_ROWS, 2)
    major = c.major if size and c.major else "K"
    if why_unmodelled(c.arch, d.swizzle, d.layout_code, bool(d.lbo_mode), d.base_offset, major, 16 * chunks):
        return d.start_address
    plain = decoded(d)
    return max(chunk_address(plain, major, line, chunk) for line in range(lines) for chunk in range(chunks)) + 15


def stride_walks(swizzle: Swizzle) -> dict[str, dict[str, str]]:
    """The next part of the tile that each stride of a descriptor steps to, by the stride and the major-ness.

    >>> stride_walks(Swizzle.B128)["stride_byte_offset"]["K"]
    'next 8 rows'
    """
    mode = MODES.get(swizzle)
    if mode is None or not mode.mask:
        return {
            "leading_byte_offset": {"K": "next 16-byte column of K", "MN": "next 8 K"},
            "stride_byte_offset": {"K": "next 8 rows", "MN": "next 16-byte column of M/N"},
        }
    return {
        "leading_byte_offset": {"K": f"next {mode.width} bytes of K", "MN": f"next {mode.width} bytes of M/N"},
        "stride_byte_offset": {"K": "next 8 rows", "MN": f"next {mode.k_rows} K"},
    }


def _smaller(d: SmemDescriptor) -> str:
    """The fix of an operand that reaches past the window, with the values of its fields."""
    return f"a smaller start (now {d.start_address:#x}), LBO ({d.leading_byte_offset} B) or SBO ({d.stride_byte_offset} B)"


def outside_window(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """Reads past the end of the shared window fault; those below its begin read what the system keeps there."""
    source = "trace wgmma_window" if d.arch == "sm_90a" else "measured on wgmma (trace wgmma_window), expected here"
    size = c.lines_and_chunks()
    far = _farthest(d, c) if size else d.start_address
    known = (
        size and c.major and not why_unmodelled(c.arch, d.swizzle, d.layout_code, bool(d.lbo_mode), d.base_offset, c.major, 16 * size[1])
    )
    reach = window_reach(d, c.major, *size) if known and size and c.major else d.start_address + 16
    if reach > c.arch.shared_end:
        yield _finding("A107", "start_address", f"the operand reaches {reach:#x}, past the end of the largest shared window "
                       f"({c.arch.shared_end:#x})", _smaller(d), source, Severity.TRAP,
                       why="the read faults with CUDA error 700; it does not wrap")  # fmt: skip
    elif far >= c.arch.shared_end:
        yield _finding("A107", "start_address", f"the operand reaches {far:#x}, past the end of the largest shared window "
                       f"({c.arch.shared_end:#x})", _smaller(d), source,
                       why="the lines past the end read as zero; there is no fault, because each group of 8 lines begins inside")  # fmt: skip
    elif c.tile_bytes is not None and far >= d.start_address + c.tile_bytes:
        yield _finding(
            "A107",
            "start_address",
            f"the operand reaches {far:#x}, past the end of its tile of {c.tile_bytes} B",
            f"smaller strides: now LBO {d.leading_byte_offset} B, SBO {d.stride_byte_offset} B",
        )
    if d.lbo_mode and c.arch.absolute_lbo and d.leading_byte_offset < c.arch.shared_begin:
        yield _finding("A107", "leading_byte_offset", f"absolute LBO = {d.leading_byte_offset:#x} is not the address of a buffer",
                       "the address of the next buffer", "PTX ISA 9.1 §9.7.16.3.1.2", why=f"shared memory below {c.arch.shared_begin:#x} belongs to the system")  # fmt: skip
    if 0 < d.start_address < c.arch.shared_begin:
        yield _finding("A107", "start_address", f"start address {d.start_address:#x} is in the reserved shared memory below {c.arch.shared_begin:#x}",
                       "", source, Severity.NOTE)  # fmt: skip


def aliases(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """Two chunks of the operand that are the same bytes."""
    if d.swizzle is Swizzle.INVALID:
        return
    size = c.lines_and_chunks()
    source = "PTX ISA 9.1 §9.7.16.3.3"
    if size is None or c.major is None:
        if not d.stride_byte_offset:
            yield _finding("D307", "stride_byte_offset", "SBO = 0: all groups of 8 rows (K-major) or of 8 K (MN-major swizzled) are the same bytes",
                           "the distance in bytes >> 4, unless the operand has one group only", source, Severity.LUCK)  # fmt: skip
        if d.swizzle is Swizzle.NONE and not d.leading_byte_offset:
            yield _finding("D307", "leading_byte_offset", "LBO = 0 without swizzle: all 16 B columns (K-major) or groups of 8 K (MN-major) are the same bytes",
                           "the distance in bytes >> 4, unless the operand has one of them only", source, Severity.LUCK)  # fmt: skip
        return
    lines, chunks = size
    if why_unmodelled(c.arch, d.swizzle, d.layout_code, bool(d.lbo_mode), d.base_offset, c.major, 16 * chunks):
        return
    shared, first = _shared(d, c.major, lines, chunks)
    if first:
        (l0, c0), (l1, c1), address = first
        per_chunk = c.fmt.elements_per_chunk(c.packing) if c.fmt else 1
        names = ("row", "k") if c.major == "K" else ("k", "row")
        mode = MODES[d.swizzle]
        groups_differ = l0 // mode.k_rows != l1 // mode.k_rows
        steps_lines = groups_differ == (c.major == "K" or bool(mode.mask))  # unswizzled MN-major exchanges the roles
        field = "stride_byte_offset" if steps_lines else "leading_byte_offset"
        yield _finding("D307", field,
                       f"{field} = {getattr(d, field)} B lets {shared} of {lines * chunks} chunks of 16 B share their bytes with earlier chunks",
                       _apart(d, field, c.major, lines, chunks),
                       source, why=f"({names[0]} {l0}, {names[1]} {c0 * per_chunk}) and ({names[0]} {l1}, {names[1]} {c1 * per_chunk}) are both at {address:#x}", named=True)  # fmt: skip


def _shared(d: SmemDescriptor, major: str, lines: int, chunks: int) -> tuple[int, tuple[tuple[int, int], tuple[int, int], int] | None]:
    """How many chunks (line, chunk) have the bytes of an earlier one; the first two that share them, and their address."""
    plain, shared = decoded(d), 0
    seen: dict[int, tuple[int, int]] = {}
    first = None
    for line, chunk in itertools.product(range(lines), range(chunks)):
        address = chunk_address(plain, major, line, chunk)
        if address in seen:
            shared += 1
            first = first or (seen[address], (line, chunk), address)
        else:
            seen[address] = (line, chunk)
    return shared, first


def _apart(d: SmemDescriptor, field: str, major: str, lines: int, chunks: int) -> str:
    """The smallest stride with which no chunks share bytes, and its word."""
    mode, now = MODES[d.swizzle], getattr(d, field)
    atom = mode.k_rows * mode.width
    for stride in range(atom, MOST_STRIDES * atom + 1, atom):
        word = d.table.changed(d.word, **{field: stride})
        if not _shared(SmemDescriptor.decode(word, arch=d.arch), major, lines, chunks)[0]:
            steps = (
                f"to step over an atom of {mode.k_rows} x {mode.width} B" if stride == atom else "so that no two atoms have the same bytes"
            )
            return f"{field} {now} B must be {stride} B{' or more' * (stride == atom)}, {steps} ({stride} B: {word:#x})"
    return f"strides with which no two atoms of {mode.k_rows} x {mode.width} B have the same bytes"


def strides_swapped(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """LBO and SBO are those of a tile without gaps, each in the other's field."""
    size = c.lines_and_chunks()
    known = size and c.fmt and c.rows and c.k and c.major and c.tile_bytes and not d.lbo_mode and d.swizzle is not Swizzle.INVALID
    if not known or size is None or c.fmt is None or c.rows is None or c.k is None or c.major is None or c.tile_bytes is None:
        return
    mode, per_chunk = MODES[d.swizzle], c.fmt.elements_per_chunk(c.packing)
    given = d.leading_byte_offset, d.stride_byte_offset
    of_k = c.tile_bytes * per_chunk // (16 * c.rows)  # of the whole tile, with the rows of one instruction
    if not all(used_strides(mode, c.major, c.rows, c.k, per_chunk).values()) or given[0] == given[1] or of_k < c.k:
        return
    along, lines = (of_k, c.rows) if c.major == "K" else (c.rows, of_k)
    atom = mode.k_rows * mode.width
    across, down = max(along * 16 // (per_chunk * mode.width), 1), max(lines // mode.k_rows, 1)
    packed = {(atom, across * atom), (down * atom, atom)}  # (to the next atom along a line, to the next lines)
    if c.major == "MN" and not mode.mask:
        packed = {(lines_apart, chunks_apart) for chunks_apart, lines_apart in packed}
    if given in packed or given[::-1] not in packed:
        return
    lbo, sbo = given
    swapped = SmemDescriptor(arch=d.arch, start_address=d.start_address, leading_byte_offset=sbo, stride_byte_offset=lbo,
                             base_offset=d.base_offset, swizzle=d.swizzle)  # fmt: skip
    yield _finding("D309", "leading_byte_offset", f"LBO = {lbo} B and SBO = {sbo} B look swapped",
                   f"{swapped.word:#018x}, if the tile has {c.rows} rows and no gaps", "PTX ISA 9.1 §9.7.16.3.3", Severity.LUCK,
                   why=f"{c.rows} x {of_k} {c.fmt.name} in {c.tile_bytes} B without gaps have LBO {sbo} B, SBO {lbo} B")  # fmt: skip


def type_and_major(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """Combinations the instruction cannot read."""
    if c.fmt is None:
        return
    if c.fmt.name not in c.arch.mma_types:
        message = f"no {c.arch.instruction} matrix instruction reads {c.fmt.name} (they read {', '.join(c.arch.mma_types)})"
        severity = None if c.arch.instruction == "wgmma" else Severity.NOTE  # tcgen05.cp copies elements of any type
        yield _finding("I602", "dtype", message, "", c.arch.source, severity)
    if c.major is None:
        return
    if c.arch.instruction == "wgmma":
        if c.major == "MN" and c.fmt.bits != 16:
            yield _finding("I602", "major", f"the operand is MN-major {c.fmt.name}", "store the operand K-major", "PTX ISA 9.1 §9.7.15.5.1",
                           why="wgmma reads MN-major operands of 16-bit types only")  # fmt: skip
        return
    atom = d.swizzle is Swizzle.B128_ATOM_32B
    if c.major == "K" and atom:
        yield _finding(
            "I602", "layout_type", "128B_ATOM_32B has no K-major layout", "swizzle 128B (layout code 2)", "PTX ISA 9.1 §9.7.16.3"
        )
    if c.major == "MN" and c.fmt.bits == 32 and not atom:
        yield _finding("I602", "layout_type", f"MN-major {c.fmt.name} needs swizzle 128B_ATOM_32B, not {d.swizzle}",
                       "layout code 1, and a tile in 32-byte atoms", "PTX ISA 9.1 §9.7.16.3")  # fmt: skip
    if c.major == "MN" and c.fmt.bits in (8, 16) and atom:
        yield _finding(
            "I602",
            "layout_type",
            f"128B_ATOM_32B is for 32-bit types, not {c.fmt.name}",
            "swizzle 128B (layout code 2)",
            "PTX ISA 9.1 §9.7.16.3",
        )
    if c.major == "MN" and c.fmt.bits < 8:
        padded = c.packing == "padded" or c.fmt.bits == 6
        severity = Severity.NOTE if padded else None
        why = "the PTX ISA allows K-major only; CUTLASS and Triton use it" if padded else "mxf4 kinds have no transpose bit"
        yield _finding(
            "I602",
            "major",
            f"the operand is MN-major {c.fmt.name}",
            "store the operand K-major",
            "PTX ISA 9.1 §9.7.16.3",
            severity,
            why=why,
        )


def shape(_: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """An operand that no single instruction reads."""
    source = "PTX ISA 9.1 §9.7.15.2" if c.arch.instruction == "wgmma" else "PTX ISA 9.1 §9.7.16.2"
    if c.rows is not None and (not 1 <= c.rows <= 256 or (c.arch.instruction == "wgmma" and c.rows % 8)):
        wanted = "a multiple of 8 up to 256" if c.arch.instruction == "wgmma" else "at most 256"
        yield _finding(
            "I601", "rows", f"rows = {c.rows}; one instruction reads {wanted}", "rows = M or N of one instruction", source, named=True
        )
    if c.fmt is None or c.k is None:
        return
    stored = c.fmt.elements_per_chunk(c.packing)  # elements of K that 16 bytes hold
    legal = [size * stored // 16 for size in c.arch.k_row_bytes]
    if c.k not in legal:
        listed = ", ".join(str(k) for k in legal)
        yield _finding(
            "I601",
            "k",
            f"k = {c.k}; one instruction reads {listed} elements of {c.fmt.name} along K",
            "k = K of one instruction",
            source,
            named=True,
        )


def unused_field(d: SmemDescriptor, c: Context) -> Iterator[Finding]:
    """LBO or SBO set to something where the operand never uses it."""
    size = c.lines_and_chunks()
    if size is None or c.fmt is None or c.major is None or c.rows is None or c.k is None or d.lbo_mode or d.swizzle is Swizzle.INVALID:
        return
    used = used_strides(MODES[d.swizzle], c.major, c.rows, c.k, c.fmt.elements_per_chunk(c.packing))
    source = "trace wgmma_operands" if d.arch == "sm_90a" else "PTX ISA 9.1 §9.7.16.4.1"
    lines, chunks = size
    mode = MODES[d.swizzle]
    contiguous, across = ("K", "rows") if c.major == "K" else ("the rows (M or N)", "K rows")
    one = f"row of swizzle {d.swizzle}" if mode.mask else "core matrix"
    for name, is_used in used.items():
        value = getattr(d, name)
        if is_used or value in IDLE_STRIDES:
            continue
        along = (name == "leading_byte_offset") == (c.major == "K" or bool(mode.mask))
        short = "LBO" if name == "leading_byte_offset" else "SBO"
        fits = (
            f"the {16 * chunks} bytes of {contiguous} fit in one {one}"
            if along
            else f"the {lines} {across} fit in one atom of {mode.k_rows}"
        )
        yield _finding(
            "D310",
            name,
            f"{short} = {value} B is never used",
            "no change is needed; a field of 0 or 1 (16 B) removes the remark",
            source,
            why=fits,
        )


Rule = Callable[[SmemDescriptor, Context], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    layout_code,
    row_group_of_other_swizzle,
    fixed_bits,
    absolute_mode,
    base_offset,
    field_in_bytes,
    outside_window,
    aliases,
    strides_swapped,
    type_and_major,
    shape,
    unused_field,
)


def swizzle_problem(d: SmemDescriptor, meant: str) -> Finding | None:
    """D302 if a descriptor's layout code has another swizzle than is meant; the repair keeps every other field.

    >>> print(swizzle_problem(SmemDescriptor.decode(0x8000004000010040, arch="sm_90a"), "128B"))
    D302  layout_type  the layout code selects swizzle 64B; 128B is meant
          rule    PTX ISA 9.1 §9.7.16.4.1
          fix     0x4000004000010040
    """
    right = SmemDescriptor(arch=d.arch, swizzle=meant)
    if d.swizzle is right.swizzle:
        return None
    field = d.table.fields["layout_type"]
    mask = ((1 << field.width) - 1) << field.low
    has = "no swizzle mode" if d.swizzle is Swizzle.INVALID else f"swizzle {d.swizzle}"
    return _finding(
        "D302", "layout_type", f"the layout code selects {has}; {right.swizzle} is meant", f"{d.word & ~mask | right.word & mask:#018x}",
        "PTX ISA 9.1 §9.7.16.4.1", Severity.WRONG,
    )  # fmt: skip
