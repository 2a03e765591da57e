"""`SmemDescriptor`: the 64-bit shared-memory matrix descriptor as a value."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from smemsim.arguments import shown, whole
from smemsim.errors import InputError
from smemsim.finding import Finding
from smemsim.spec.architectures import architecture
from smemsim.spec.fields import Word
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.swizzles import Swizzle

__all__ = ["LboMode", "SmemDescriptor"]


class LboMode(enum.IntEnum):
    """Descriptor bit 52: is the leading-dimension field a distance, or (sm_103a) the address of the next buffer?"""

    RELATIVE = 0
    ABSOLUTE = 1


@dataclasses.dataclass(frozen=True, repr=False, init=False)
class SmemDescriptor:
    """A shared-memory matrix descriptor of one architecture. Offsets and addresses are bytes. Every 64-bit word has one.

        63  61        52 51 49 48 46 45            32 31 30 29            16 15 14 13             0
        layout  … lbo_mode base  const stride_byte_offset  -- leading_byte_offset  -- start_address     (all three >> 4)

    Two descriptors are equal when their architectures and words are. Documented: PTX ISA 9.7.16.4.1 (tcgen05), 9.7.15.5.1.2.2
    (wgmma); on wgmma every field is measured, the reserved bits having no effect (trace wgmma_reserved_bits).

    >>> d = SmemDescriptor.decode(0x4000404000010040, arch="sm_100a")
    >>> d
    SmemDescriptor(arch='sm_100a', start_address=1024, leading_byte_offset=16, stride_byte_offset=1024, swizzle='128B')
    >>> hex(d.advance(32).encode())
    '0x4000404000010042'
    """

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
        """The descriptor of a raw word; any 64-bit integer, also one printed as a negative number."""
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
        """LBO in bytes; what it walks depends on major-ness and swizzle."""
        return self._value("leading_byte_offset")

    @property
    def stride_byte_offset(self) -> int:
        """SBO in bytes; what it walks depends on major-ness and swizzle."""
        return self._value("stride_byte_offset")

    @property
    def base_offset(self) -> int:
        """Lines of 128 bytes by which the swizzle pattern's origin lies off its natural boundary, 0 … 7."""
        return self._value("base_offset")

    @property
    def layout_code(self) -> int:
        """The raw layout code: bits 63:62 on sm_90a, 63:61 on sm_100a."""
        return self._value("layout_type")

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle mode the layout code means on this architecture, or `Swizzle.INVALID`."""
        return layout_codes(self.table).get(self.layout_code, Swizzle.INVALID)

    @property
    def lbo_mode(self) -> LboMode:
        """RELATIVE, or ABSOLUTE where bit 52 is set on tcgen05 (on wgmma the bit has no effect)."""
        return LboMode(self._value("lbo_mode")) if "lbo_mode" in self.table.fields else LboMode.RELATIVE

    def advance(self, byte_offset: int) -> SmemDescriptor:
        """The descriptor with its start address moved, as kernels do by adding `byte_offset >> 4` to the word.

        Raises InputError when the sum does not fit the 14-bit field: the addition would carry into bits 14 and 15 and, for large
        offsets, on into LBO.
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
        return SmemDescriptor.decode(self.word & ~(field.mask << field.low) | (moved >> field.shift) << field.low, arch=self.arch)

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
        """What is wrong with the descriptor, or suspicious; the more context is given, the more can be said.

        `dtype`, `major`, `rows`, `k` and `packing` as in `operand_addresses`; `tile_bytes` is the size of the buffer from the start
        address on.

        >>> for finding in SmemDescriptor.decode(0x6000400000000000, arch="sm_100a").problems(): print(finding.code, finding.severity)
        D302 wrong
        """
        from smemsim.words.problems import find_problems

        return find_problems(self, dtype=dtype, major=major, rows=rows, k=k, packing=packing, tile_bytes=tile_bytes)

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
