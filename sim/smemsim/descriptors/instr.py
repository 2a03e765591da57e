"""`InstrDescriptor`: the 32-bit instruction descriptor of tcgen05.mma as a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from smemsim.arguments import choice, flag, shown, whole
from smemsim.errors import InputError
from smemsim.spec.findings import Finding
from smemsim.spec.instr_descriptor import MAX_SHIFTS, SCALE_TYPES
from smemsim.spec.tcgen05 import KINDS, WIDE_K, Kind, kind_of
from smemsim.words import Word

__all__ = ["InstrDescriptor"]

_MAJORS = ("K", "MN")


@dataclasses.dataclass(frozen=True, repr=False, init=False)
class InstrDescriptor:
    """What one tcgen05.mma of a `.kind` multiplies: types, shape, major-ness. Every 32-bit word has one under every kind.

        kinds f16, tf32, f8f6f4, i8     max_shift - M>>4 - N>>3 transpose B A negate B A b_type a_type - d_type saturate sparsity selector
        kinds mxf8f6f4, mxf4, mxf4nvf4  K  A's scale id  M>>7 - scale_type N>>3 transpose B A negate B A b_type a_type - B's scale id - sparsity -

    M and N are those of the instruction, of both CTAs together with `.cta_group::2`. Two descriptors are equal when their kinds and words
    are. Documented: PTX ISA 9.7.16.4.2 (tables 42 to 44), not measured; compilers emit the words under golden/compiled.

    >>> i = InstrDescriptor.decode(0x08200490, kind="f16")
    >>> i
    InstrDescriptor(kind='f16', m=128, n=128, a_type='bf16', b_type='bf16', d_type='f32')
    >>> i.k, i.a_major, hex(InstrDescriptor(kind="f16", m=128, n=128, a_type="bf16", b_type="bf16", b_major="MN").encode())
    (16, 'K', '0x8210490')
    """

    kind: str
    word: int

    def __init__(
        self,
        *,
        kind: str,
        m: int = 128,
        n: int = 128,
        a_type: str | None = None,
        b_type: str | None = None,
        d_type: str | None = None,
        a_major: str = "K",
        b_major: str = "K",
        negate_a: bool = False,
        negate_b: bool = False,
        sparsity: bool = False,
        sparsity_selector: int = 0,
        saturate: bool = False,
        max_shift: int = 0,
        scale_type: str | None = None,
        a_sf_id: int = 0,
        b_sf_id: int = 0,
        k: int | None = None,
    ) -> None:
        """The fields by value. Types left out are the kind's only one, or its first; D is f32 (s32 for i8) where it can be.

        Raises InputError where the format cannot hold a field's value; what it can hold and the hardware has not, `problems` tells.
        """
        row = kind_of(kind)
        values: dict[str, int] = {"m": whole("m", m), "n": whole("n", n)}
        values["a_type"] = _code("a_type", a_type, row.a_types)
        values["b_type"] = _code("b_type", b_type, row.b_types)
        best = next(name for name in ("f32", "s32") if name in row.d_types.values())
        d_code = _code("d_type", best if d_type is None else d_type, row.d_types)
        if d_code >= 0:
            values["d_type"] = d_code
        given: dict[str, Any] = {
            "transpose_a": _MAJORS.index(choice("a_major", a_major, _MAJORS, "'K' or 'MN'")),
            "transpose_b": _MAJORS.index(choice("b_major", b_major, _MAJORS, "'K' or 'MN'")),
            "negate_a": int(flag("negate_a", negate_a)),
            "negate_b": int(flag("negate_b", negate_b)),
            "sparsity": int(flag("sparsity", sparsity)),
            "sparsity_selector": whole("sparsity_selector", sparsity_selector),
            "saturate": int(flag("saturate", saturate)),
            "a_sf_id": whole("a_sf_id", a_sf_id),
            "b_sf_id": whole("b_sf_id", b_sf_id),
        }
        if whole("max_shift", max_shift) not in MAX_SHIFTS:
            raise InputError(
                f"max_shift = {max_shift} rows: .ws instructions shift by at most {', '.join(map(str, MAX_SHIFTS))} (table 42)"
            )
        given["max_shift"] = MAX_SHIFTS.index(max_shift)
        if row.block_scaled:
            types = {name: code for code, name in SCALE_TYPES.items()}
            scale = "ue8m0" if scale_type is None else choice("scale_type", scale_type, tuple(types), f"one of {' '.join(types)}")
            values["scale_type"] = types[scale]
        elif scale_type is not None:
            raise InputError(f"scale_type = {shown(scale_type)}: kind {row.name} has no scale factors")
        dense = row.k * (2 if given["sparsity"] else 1)
        if k is not None and whole("k", k) != dense:
            if k != WIDE_K or not row.has_wide_k:
                wide = f" or {WIDE_K} (sm_103a)" if row.has_wide_k else ""
                raise InputError(
                    f"k = {k}: one {'sparse' if given['sparsity'] else 'dense'} instruction of kind {row.name} has {dense}{wide}"
                )
            given["k_size"] = 1
        for name, value in given.items():
            if name in row.word.fields:
                values[name] = value
            elif value:
                field = f"{name[-1]}_major" if name.startswith("transpose") else name
                raise InputError(f"{field}: the instruction descriptor of kind {row.name} has no such field")
        object.__setattr__(self, "kind", row.name)
        object.__setattr__(self, "word", row.word.encode(**values))

    @classmethod
    def decode(cls, word: int, *, kind: str) -> InstrDescriptor:
        """The descriptor of a raw word under a kind (`"f16"` or `"kind::f16"`); any 32-bit integer, also one printed as negative.

        Raises InputError for a word that does not fit 32 bits.
        """
        row = kind_of(kind)
        number = whole("instruction descriptor", word, wanted="a 32-bit integer")
        if number >> 32 and not number & 0xFFFFFFFF and 0 < number >> 32 < 1 << 32:
            raise InputError(
                f"instruction descriptor = {number:#x}: does not fit 32 bits; CUTLASS's intrinsics take the word in the upper half, "
                f"the instruction takes {number >> 32:#010x}"
            )
        self = object.__new__(cls)
        object.__setattr__(self, "kind", row.name)
        object.__setattr__(self, "word", row.word.check_range(number, "instruction descriptor"))
        return self

    def encode(self) -> int:
        """The raw 32-bit word."""
        return self.word

    @property
    def row(self) -> Kind:
        """The kind's row: types, K, scale vectors."""
        return KINDS[self.kind]

    @property
    def table(self) -> Word:
        """The bit table of the kind."""
        return self.row.word

    def _value(self, name: str) -> int:
        field = self.table.fields.get(name)
        return field.value(self.word) if field else 0

    @property
    def m(self) -> int:
        """M of the instruction: rows of A and D, of both CTAs together for a pair."""
        return self._value("m")

    @property
    def n(self) -> int:
        """N of the instruction: rows of B (N x K), columns of D."""
        return self._value("n")

    @property
    def k(self) -> int:
        """K of the instruction: the dense K, twice as many with sparsity, 96 with `k_size`."""
        if self.k_size:
            return WIDE_K
        return self.row.k * (2 if self.sparsity else 1)

    @property
    def a_type(self) -> str:
        """Element type of A, or "invalid" for a code the kind has not."""
        return self.row.a_types.get(self._value("a_type"), "invalid")

    @property
    def b_type(self) -> str:
        """Element type of B, or "invalid" for a code the kind has not."""
        return self.row.b_types.get(self._value("b_type"), "invalid")

    @property
    def d_type(self) -> str:
        """Element type of D, or "invalid" for a code the kind has not."""
        code = self._value("d_type") if "d_type" in self.table.fields else -1
        return self.row.d_types.get(code, "invalid")

    @property
    def a_major(self) -> str:
        """ "K", or "MN" when A is transposed: M is contiguous."""
        return _MAJORS[self._value("transpose_a")]

    @property
    def b_major(self) -> str:
        """ "K", or "MN" when B is transposed: N is contiguous."""
        return _MAJORS[self._value("transpose_b")]

    @property
    def negate_a(self) -> bool:
        """Does every element of A count with the other sign?"""
        return bool(self._value("negate_a"))

    @property
    def negate_b(self) -> bool:
        """Does every element of B count with the other sign?"""
        return bool(self._value("negate_b"))

    @property
    def sparsity(self) -> bool:
        """Is A sparse (tcgen05.mma.sp)?"""
        return bool(self._value("sparsity"))

    @property
    def sparsity_selector(self) -> int:
        """Which part of the metadata column a sparse instruction uses."""
        return self._value("sparsity_selector")

    @property
    def saturate(self) -> bool:
        """Kind i8: does D clamp instead of wrapping?"""
        return bool(self._value("saturate"))

    @property
    def max_shift(self) -> int:
        """`.ws`: rows by which the reuse of B may be shifted: 0, 8, 16 or 32."""
        return MAX_SHIFTS[self._value("max_shift")]

    @property
    def scale_type(self) -> str | None:
        """Type of the scale factors, "ue8m0" or "ue4m3"; None for a kind without."""
        return SCALE_TYPES[self._value("scale_type")] if self.row.block_scaled else None

    @property
    def a_sf_id(self) -> int:
        """Byte of its tensor-memory column at which A's scale factors begin."""
        return self._value("a_sf_id")

    @property
    def b_sf_id(self) -> int:
        """Byte of its tensor-memory column at which B's scale factors begin."""
        return self._value("b_sf_id")

    @property
    def k_size(self) -> int:
        """Bit 31 of kinds mxf4 and mxf4nvf4: 1 is K = 96 (sm_103a)."""
        return self._value("k_size")

    def problems(self, **context: Any) -> list[Finding]:
        """What is wrong with the word, or suspicious, most severe first; what is not given is taken as unknown.

        `cta_group` 1 or 2; `ws` True or False; `arch`; `a_source` "shared" or "tensor"; `swizzle_a`, `swizzle_b` of their shared-memory
        descriptors; `scale_vec` "1X", "2X", "4X" (or "block16", "block32"); `ashift` True for `.ashift`. Raises InputError for anything
        else. The rules are `smemsim.INSTR_RULES`.

        >>> for finding in InstrDescriptor.decode(0x04200490, kind="f16").problems(cta_group=2): print(finding.code, finding.message)
        I601 M = 64 with .cta_group::2: kind f16 has M 128, 256 there
        """
        from smemsim.descriptors.instr_problems import find_problems

        return find_problems(self, context)

    def __repr__(self) -> str:
        if given := self._plain():
            return f"InstrDescriptor({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        return f"InstrDescriptor.decode({self.word:#010x}, kind={self.kind!r})"

    def _plain(self) -> dict[str, Any] | None:
        """The arguments that make this word; None when some field has a value that has no name."""
        given: dict[str, Any] = {"kind": self.kind, "m": self.m, "n": self.n}
        given |= {name: getattr(self, name) for name in ("a_type", "b_type", "d_type")}
        given |= {name: "MN" for name in ("a_major", "b_major") if getattr(self, name) == "MN"}
        flags = ("negate_a", "negate_b", "sparsity", "sparsity_selector", "saturate", "max_shift")
        given |= {name: getattr(self, name) for name in flags if getattr(self, name)}
        if self.row.block_scaled:
            given |= {"scale_type": self.scale_type, "a_sf_id": self.a_sf_id, "b_sf_id": self.b_sf_id}
        if self.k_size:
            given["k"] = self.k
        if "invalid" in given.values():
            return None
        return given if InstrDescriptor(**given).word == self.word else None


def _code(field: str, name: Any, types: Mapping[int, str]) -> int:
    """The code of a type; None is the first that the kind has."""
    if name is None:
        return next(iter(types))
    names = tuple(types.values())
    picked = choice(field, name, names, f"{'one of ' if len(names) > 1 else ''}{' '.join(names)} for this kind")
    return next(code for code, known in types.items() if known == picked)
