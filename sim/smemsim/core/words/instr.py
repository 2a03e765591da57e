"""The 32-bit instruction descriptor of tcgen05.mma, and what is wrong with one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from smemsim.base.arguments import choice, flag, in_steps, shown, whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers
from smemsim.core.finding import Finding, in_word
from smemsim.core.spec.architectures import ARCHITECTURES, architecture
from smemsim.core.spec.assumptions import remembered
from smemsim.core.spec.fields import Word
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.instr_descriptor import MAX_SHIFTS, SCALE_TYPES
from smemsim.core.spec.swizzles import Swizzle
from smemsim.core.spec.tcgen05 import (
    ASHIFT_M,
    KINDS,
    SCALE_TYPES_OF_BLOCK,
    TCGEN05_DISPUTES,
    WIDE_K,
    Kind,
    Shape,
    kind_of,
    scale_modes,
    shapes_of,
)

__all__ = ["INSTR_RULES", "InstrDescriptor", "InstrRule", "find_problems", "kinds_that_fit", "shape_disputes"]


# ---- `InstrDescriptor`: the 32-bit instruction descriptor of tcgen05.mma as a value


_MAJORS = ("K", "MN")


@dataclasses.dataclass(frozen=True, repr=False, init=False)
class InstrDescriptor(metaclass=OwnMembers):
    """The instruction descriptor of tcgen05.mma under a `.kind`: types, shape, major-ness. Every 32-bit word has a
    meaning under every kind.

        bits   f16, tf32, f8f6f4, i8       mxf8f6f4, mxf4, mxf4nvf4
        31:24  max_shift 31:30, M>>4 28:24   k_size 31 (mxf4), a_sf_id 30:29, M>>7 28:27
        23:17  N>>3 22:17                    scale_type 23, N>>3 22:17
        16:13  transpose_b, transpose_a, negate_b, negate_a (all kinds)
        12:7   b_type 12:10, a_type 9:7      the same (mxf4 kinds: b_type 11:10)
        5:0    d_type 5:4, saturate 3,       b_sf_id 5:4, sparsity 2
               sparsity 2, selector 1:0

    M and N are those of the instruction, of both CTAs with `.cta_group::2`. Two descriptors are equal if their kinds
    and words are. Documented: PTX ISA 9.1 §9.7.16.4.2 (tables 42 to 44), not measured. Compilers emit the words under
    golden/compiled.

    >>> from smemsim import InstrDescriptor
    >>> i = InstrDescriptor.decode(0x08200490, kind="f16")
    >>> i
    InstrDescriptor(kind='f16', m=128, n=128, a_type='bf16', b_type='bf16', d_type='f32')
    >>> i.k, i.a_major, hex(InstrDescriptor(kind="f16", m=128, n=128, a_type="bf16", b_type="bf16", b_major="MN").encode())
    (16, 'K', '0x8210490')
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "row", "table",
    )  # fmt: skip

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
        """The fields by value. Types left out are the kind's only one, or its first; D is f32 (s32 for i8) where it can
        be.

        Raises InputError if the format cannot hold a field's value. Values that it can hold and the hardware does not
        have are reported by `problems`.
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
        """The descriptor of a raw word under a kind (`"f16"` or `"kind::f16"`). Any 32-bit integer is accepted, also
        one that was printed as a negative number.

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
        """M of the instruction: the rows of A and D. For a pair it counts the rows of both CTAs."""
        return self._value("m")

    @property
    def n(self) -> int:
        """N of the instruction: the rows of B (N x K), the columns of D."""
        return self._value("n")

    @property
    def k(self) -> int:
        """K of the instruction, in elements: 32 B of a row of A if it is dense, twice as many elements if it is sparse.
        96 with `k_size`.
        """
        if self.k_size:
            return WIDE_K
        return self.row.k * (2 if self.sparsity else 1)

    @property
    def a_type(self) -> str:
        """The element type of A, or "invalid" for a code that the kind does not have."""
        return self.row.a_types.get(self._value("a_type"), "invalid")

    @property
    def b_type(self) -> str:
        """The element type of B, or "invalid" for a code that the kind does not have."""
        return self.row.b_types.get(self._value("b_type"), "invalid")

    @property
    def d_type(self) -> str:
        """The element type of D, or "invalid" for a code that the kind does not have."""
        code = self._value("d_type") if "d_type" in self.table.fields else -1
        return self.row.d_types.get(code, "invalid")

    @property
    def a_major(self) -> str:
        """ "K", or "MN" if A is transposed: M is contiguous."""
        return _MAJORS[self._value("transpose_a")]

    @property
    def b_major(self) -> str:
        """ "K", or "MN" if B is transposed: N is contiguous."""
        return _MAJORS[self._value("transpose_b")]

    @property
    def negate_a(self) -> bool:
        """True if the sign of every element of A is changed."""
        return bool(self._value("negate_a"))

    @property
    def negate_b(self) -> bool:
        """True if the sign of every element of B is changed."""
        return bool(self._value("negate_b"))

    @property
    def sparsity(self) -> bool:
        """True if A is sparse (tcgen05.mma.sp)."""
        return bool(self._value("sparsity"))

    @property
    def sparsity_selector(self) -> int:
        """Which part of a metadata column a sparse instruction uses."""
        return self._value("sparsity_selector")

    @property
    def saturate(self) -> bool:
        """Only kind i8: true if D is limited to the range of s32. Otherwise it wraps around."""
        return bool(self._value("saturate"))

    @property
    def max_shift(self) -> int:
        """Only `.ws`: by how many rows the reuse of B may be shifted: 0, 8, 16 or 32."""
        return MAX_SHIFTS[self._value("max_shift")]

    @property
    def scale_type(self) -> str | None:
        """The type of the scale factors, "ue8m0" or "ue4m3". None for a kind without scale factors."""
        return SCALE_TYPES[self._value("scale_type")] if self.row.block_scaled else None

    @property
    def a_sf_id(self) -> int:
        """The scale id of A: the byte of a tensor-memory cell at which the scale factors of A begin."""
        return self._value("a_sf_id")

    @property
    def b_sf_id(self) -> int:
        """The scale id of B: the byte of a tensor-memory cell at which the scale factors of B begin."""
        return self._value("b_sf_id")

    @property
    def k_size(self) -> int:
        """Bit 31 of kinds mxf4 and mxf4nvf4. 1 means K = 96 (sm_103a)."""
        return self._value("k_size")

    def problems(self, **context: Any) -> list[Finding]:
        """The findings about the word, the most severe first. Arguments that are not given count as unknown.

        The `cta_group` is 1 or 2. The flag `ws` is True or False. The card's architecture is `arch`. The `a_source` is
        "shared" or "tensor". The swizzles `swizzle_a` and `swizzle_b` are those of the shared-memory descriptors. The
        `scale_vec` is "1X", "2X", "4X" (or "block16", "block32"). The flag `ashift` is True for `.ashift`. Raises
        InputError for anything else. The rules are `smemsim.INSTR_RULES`.

        >>> for finding in InstrDescriptor.decode(0x04200490, kind="f16").problems(cta_group=2): print(finding.code, finding.message)
        I601 M = 64 with .cta_group::2; kind f16 allows only M = 128 or 256 there
        """

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


# ---- What is wrong with an instruction descriptor: the named rules, one function each, and a kind that
# would fit a word better


_SERIOUS = (Severity.TRAP, Severity.WRONG)
_SCALE_VECTORS = ("1X", "2X", "4X", "block16", "block32")
_SHARED_SWIZZLES = tuple(str(s) for s in (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128, Swizzle.B128_ATOM_32B))


class Context(NamedTuple):
    """The known facts about the instruction besides its descriptor. None is unknown."""

    cta_group: int | None = None
    ws: bool | None = None
    arch: str | None = None
    a_source: str | None = None
    swizzle_a: str | None = None
    swizzle_b: str | None = None
    scale_vec: str | None = None
    ashift: bool | None = None

    def qualifiers(self) -> str:
        """The qualifiers as PTX writes them in the instruction."""
        known = [f".cta_group::{self.cta_group}" if self.cta_group else "", ".ws" if self.ws else ""]
        return " ".join(text for text in known if text)


Check = Callable[[InstrDescriptor, Context], Iterator[Finding]]


@dataclasses.dataclass(frozen=True)
class InstrRule:
    """One rule: its name, its requirement, its source and its grade."""

    name: str
    text: str
    source: str
    grade: Grade
    check: Check = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.text} ({self.grade}; {self.source})"


class InstrRules(list[InstrRule], metaclass=OwnMembers):
    """The rules that an instruction descriptor must obey, a list. Each has `name`, `text`, `source` and `grade`.

    >>> import smemsim
    >>> smemsim.INSTR_RULES[0].grade
    'documented'
    """


INSTR_RULES = InstrRules()


def _rule(source: str, grade: Grade = Grade.DOCUMENTED) -> Callable[[Check], Check]:
    """Make a check a rule; its docstring is the rule's text."""

    def register(check: Check) -> Check:
        INSTR_RULES.append(InstrRule(check.__name__, " ".join((check.__doc__ or "").split()), source, grade, check))
        return check

    return register


_finding = functools.partial(in_word, "instruction descriptor")


def find_problems(d: InstrDescriptor, context: Mapping[str, Any]) -> list[Finding]:
    """The findings of every rule, most severe first; see `InstrDescriptor.problems`."""
    c = _context(context)
    findings = [
        dataclasses.replace(finding, source=finding.source or f"{rule.source} ({rule.grade})", rule=rule.name)
        for rule in INSTR_RULES
        for finding in rule.check(d, c)
    ]
    if (others := kinds_that_fit(d.word)) and d.kind not in others:
        listed = " and ".join(f"kind {name}" for name in others)
        findings.append(_finding("I603", "kind", f"{d.word:#010x} is not a legal word of kind {d.kind}, but one of {listed}",
                              f"kind {others[0]}: {InstrDescriptor.decode(d.word, kind=others[0])!r}", "PTX ISA 9.1 §9.7.16.4.2", Severity.NOTE))  # fmt: skip
    order = list(Severity)
    return sorted(findings, key=lambda f: order.index(f.severity))


def _context(given: Mapping[str, Any]) -> Context:
    if unknown := sorted(given.keys() - set(Context._fields)):
        raise InputError(f"{', '.join(unknown)}: not known of an instruction; given can be {', '.join(Context._fields)}")
    values = {name: value for name, value in given.items() if value is not None}
    if "cta_group" in values and (isinstance(values["cta_group"], bool) or values["cta_group"] not in (1, 2)):
        raise InputError(f"cta_group = {shown(values['cta_group'])}: needs 1 or 2")
    for modifier in ("ws", "ashift"):
        if modifier in values and not isinstance(values[modifier], bool):
            raise InputError(f"{modifier} = {shown(values[modifier])}: needs True or False")
    if "arch" in values and architecture(values["arch"]).instruction != "tcgen05":
        raise InputError(f"arch = {shown(values['arch'])}: wgmma has no instruction descriptor; tcgen05 is on sm_100a and sm_103a")
    if "a_source" in values:
        choice("a_source", values["a_source"], ("shared", "tensor"), "'shared' or 'tensor' (memory)")
    for side in ("swizzle_a", "swizzle_b"):
        if side in values:
            values[side] = choice(side, str(values[side]), _SHARED_SWIZZLES, f"one of {' '.join(_SHARED_SWIZZLES)}")
    if "scale_vec" in values:
        choice("scale_vec", values["scale_vec"], _SCALE_VECTORS, f"one of {' '.join(_SCALE_VECTORS)}")
    return Context(**values)


def kinds_that_fit(word: int) -> list[str]:
    """The kinds under which a word is sound in some context: legal fields, and no bit of a reserved field set.

    >>> kinds_that_fit(0x08A01400)
    ['mxf8f6f4']
    """
    return [name for name in KINDS if _fits(word, name)]


@remembered(maxsize=4096)  # the same word is asked about with every modifier that its instruction may have
def _fits(word: int, kind: str) -> bool:
    d, nothing = InstrDescriptor.decode(word, kind=kind), Context()
    serious = any(f.severity in _SERIOUS for rule in INSTR_RULES for f in rule.check(d, nothing))
    return not serious and not any(d.table.constants(word))


@_rule("PTX ISA 9.1 §9.7.16.4.2, tables 42 to 44")
def types(d: InstrDescriptor, _: Context) -> Iterator[Finding]:
    """The codes of A's, B's and D's types are those of the kind."""
    row = d.row
    for field, known in (("a_type", row.a_types), ("b_type", row.b_types), ("d_type", row.d_types)):
        if getattr(d, field) == "invalid":
            code = d.table.fields[field].value(d.word)
            listed = " or ".join(f"{c} ({name})" for c, name in known.items())
            yield _finding(
                "I602",
                field,
                f"{field} = {code} of the instruction descriptor {d.word:#010x} is not a type of kind {d.kind}",
                f"{field} = {listed}",
                named=True,
            )


@_rule("PTX ISA 9.1 §9.7.16.2")
def d_follows_inputs(d: InstrDescriptor, _: Context) -> Iterator[Finding]:
    """An f16 D of kind f16 needs f16 inputs; A and B of one 16-bit type is what every kernel has."""
    if d.kind != "f16" or "invalid" in (d.a_type, d.b_type, d.d_type):
        return
    if d.d_type == "f16" and (d.a_type, d.b_type) != ("f16", "f16"):
        yield _finding("I602", "d_type", f"D is f16, A is {d.a_type}, B is {d.b_type}", "d_type = 1 (f32)", why="an f16 D needs f16 inputs")
    elif d.a_type != d.b_type:
        dispute = TCGEN05_DISPUTES["mixed f16 and bf16"]
        yield _finding("I602", "b_type", f"A is {d.a_type}, B is {d.b_type}", "", dispute.source, Severity.NOTE, why=dispute.other)


def _shapes(d: InstrDescriptor, c: Context) -> tuple[Shape, ...]:
    return shapes_of(d.row, cta_group=c.cta_group, ws=c.ws, sparse=d.sparsity, wide_k=bool(d.k_size))


@_rule("PTX ISA 9.1 §9.7.16.2, table 39")
def qualifiers(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """The kind exists with these qualifiers: .ws for a single CTA and kinds without scale
    factors, K = 96 dense only.
    """
    if _shapes(d, c):
        return
    if d.k_size and d.sparsity:
        yield _finding("I601", "k_size", f"K = {WIDE_K} with sparsity", "bit 31 = 0", why=f"K = {WIDE_K} exists for dense A only")
    elif c.ws and d.row.block_scaled:
        yield _finding("I601", "kind", f"kind {d.kind} with .ws", "leave out .ws", why="block-scaled kinds have no .ws", named=True)
    else:
        yield _finding("I601", "cta_group", ".ws with .cta_group::2", "leave out .ws, or .cta_group::1", why=".ws is for a single CTA")


@_rule("PTX ISA 9.1 §9.7.16.2, table 39")
def shape(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """M and N are a shape of the kind, for the cta_group, .ws, sparsity and K at hand."""
    rows = _shapes(d, c)
    if not rows:
        return
    where = c.qualifiers()
    where = f" with {where}" if where else ""
    sparse = "sparse " if d.sparsity else ""
    possible = sorted({m for row in rows for m in row.m})
    if d.n == 0:
        yield _finding("I601", "n", "N = 0; no instruction has that", "N >> 3 in the field")
    if d.m not in possible:
        yield _finding("I601", "m", f"M = {d.m}{where}; {sparse}kind {d.kind} allows only M = {_listed(possible)}{' there' * bool(where)}",
                       f"M = {_listed(possible)}: write {_listed([m >> d.table.fields['m'].shift for m in possible])} (M >> {d.table.fields['m'].shift}) into bits {d.table.fields['m'].span}")  # fmt: skip
        return
    rows = tuple(row for row in rows if d.m in row.m)
    fitting = [row for row in rows if d.n in row.n]
    if not fitting and d.n:
        ranges = " or ".join(dict.fromkeys(in_steps(row.n) for row in rows))
        yield _finding(
            "I601",
            "n",
            f"N = {d.n} with M = {d.m}{where}; {sparse}kind {d.kind} has N of {ranges} there",
            "one of these N: the field holds N >> 3",
        )
        return
    for name in shape_disputes(d, cta_group=c.cta_group, ws=c.ws):
        dispute = TCGEN05_DISPUTES[name]
        yield _finding("I601", "n" if name.startswith("N") else "m", f"sources disagree whether M = {d.m}, N = {d.n}{where} is legal",
                       "", f"legal after {dispute.source}", Severity.NOTE, why=dispute.other)  # fmt: skip


def shape_disputes(d: InstrDescriptor, *, cta_group: int | None, ws: bool | None) -> list[str]:
    """The rows of TCGEN05_DISPUTES that the shape of an instruction rests on.

    >>> shape_disputes(InstrDescriptor(kind="f16", m=128, n=24), cta_group=1, ws=False)
    ['N of M = 128']
    """
    rows = shapes_of(d.row, cta_group=cta_group, ws=ws, sparse=d.sparsity, wide_k=bool(d.k_size))
    fitting = [row for row in rows if d.m in row.m and d.n in row.n]
    names = {row.dispute for row in fitting}
    return [name for name in names if name and len(names) == 1 and _disputed(name, d)]


def _disputed(name: str, d: InstrDescriptor) -> bool:
    """Is this shape one that the other source has not?"""
    return {
        "N of M = 128": d.m == 128 and d.n % 16 != 0,
        "N of a pair": False,  # CUTLASS's limit is for A in tensor memory: `tensor_memory_a`
        "N of kind i8": d.n == 24,
        "M of block-scaled pairs": d.kind == "mxf8f6f4" and d.m == 128,
        "M of K = 96": d.m == 128,
    }[name]


def _listed(values: list[int]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


@_rule("PTX ISA 9.1 §9.7.16.2; .target lines of 9.7.16.10")
def targets(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """The architecture has the kind: i8 on sm_100a, K = 96 on sm_103a."""
    archs = ("sm_103a",) if d.k_size else d.row.archs
    if c.arch is not None and c.arch not in archs:
        what = f"K = {WIDE_K} (bit 31)" if d.k_size else f"kind {d.kind}"
        yield _finding("I601", "k_size" if d.k_size else "kind", f"{what} does not exist on {c.arch}",
                       f"bit 31 = 0, for K = {d.row.k}" if d.k_size else "another kind", why=f"only {', '.join(archs)} has it", named=not d.k_size)  # fmt: skip
    elif c.arch is None and not set(ARCHITECTURES) - {"sm_90a"} <= set(archs):
        what = f"K = {WIDE_K}" if d.k_size else f"kind {d.kind}"
        yield _finding(
            "I601", "k_size" if d.k_size else "kind", f"{what} exists on {', '.join(archs)} only", "", "", Severity.NOTE, named=not d.k_size
        )


@_rule("PTX ISA 9.1 §9.7.16.4.2, table 42")
def integers_only(d: InstrDescriptor, _: Context) -> Iterator[Finding]:
    """Saturation is for kind i8, negation for all others."""
    if d.saturate and d.kind != "i8":
        yield _finding("I603", "saturate", f"saturate = 1 with kind {d.kind}", "saturate = 0", why="only integers saturate", named=True)
    if d.kind == "i8" and (d.negate_a or d.negate_b):
        yield _finding(
            "I603", "negate_a" if d.negate_a else "negate_b", "negate = 1 with kind i8", "negate = 0", why="integers cannot be negated"
        )


@_rule("PTX ISA 9.1 §9.7.16.3, tables 51, 54, 55")
def majors(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """Major-ness against type, swizzle and where A lies: MN-major tf32 needs 32-byte atoms, which nothing else has;
    tensor memory is K-major.
    """
    if c.a_source == "tensor" and d.a_major == "MN":
        yield _finding(
            "I602",
            "transpose_a",
            "A is MN-major and in tensor memory",
            "transpose_a = 0",
            why="tensor memory has one lane for each row of A: A is K-major there",
        )
    for side, swizzle in (("a", c.swizzle_a), ("b", c.swizzle_b)):
        major, dtype = getattr(d, f"{side}_major"), getattr(d, f"{side}_type")
        if dtype == "invalid" or (side == "a" and c.a_source == "tensor"):
            continue
        bits, field = element_format(dtype).bits, f"transpose_{side}"
        operand = f"{side.upper()} is {dtype}, {major}-major"
        if major == "MN" and bits < 8:
            dispute = TCGEN05_DISPUTES["MN-major 4- and 6-bit operands of f8f6f4"]
            yield _finding("I602", field, operand, "", "sources disagree", Severity.NOTE, why=f"{dispute.source}; {dispute.other}")
        if swizzle is None:
            continue
        atoms = swizzle == Swizzle.B128_ATOM_32B
        if major == "MN" and bits == 32 and not atoms:
            yield _finding("I602", field, f"{operand}, with swizzle {swizzle}", "layout code 1 and a tile in 32-byte atoms, or a K-major tile", against=(f"swizzle_{side}",),
                           why=f"MN-major 32-bit types need swizzle {Swizzle.B128_ATOM_32B}")  # fmt: skip
        elif atoms and not (major == "MN" and bits == 32):
            yield _finding(
                "I602", field, f"{operand}, with swizzle {swizzle}", "swizzle 128B (layout code 2)", against=(f"swizzle_{side}",),
                why="32-byte atoms are for MN-major 32-bit types",
            )  # fmt: skip


@_rule("PTX ISA 9.1 §9.7.16.3, table 52")
def transposed_bytes(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """An MN-major B of 8-bit types has N in steps of 16, of 32 for a pair."""
    if d.b_major != "MN" or d.b_type == "invalid" or element_format(d.b_type).bits != 8:
        return
    step = 32 if c.cta_group == 2 else 16
    if not d.n or d.n % step:
        yield _finding("I601", "n", f"N = {d.n} with an MN-major B of {d.b_type}", f"N of {step} to 256 in steps of {step}")


@_rule("CUTLASS include/cute/arch/mma_sm100_umma.hpp", Grade.COMPILED)
def tensor_memory_a(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """With A in tensor memory CUTLASS asks for N in steps of 16 at M = 128, of 32 for a pair."""
    if c.a_source != "tensor" or c.cta_group is None:
        return
    step = 32 if c.cta_group == 2 else 16 if d.m == 128 else 8
    if d.n % step:
        yield _finding("I601", "n", f"N = {d.n} with A in tensor memory, M = {d.m}, .cta_group::{c.cta_group}", "", "", Severity.NOTE,
                       why=f"CUTLASS asks for multiples of {step}; the PTX ISA has no such limit")  # fmt: skip


@_rule("PTX ISA 9.1 §9.7.16.7")
def selector(d: InstrDescriptor, _: Context) -> Iterator[Finding]:
    """The sparsity selector is 0 or 1 for sparse f16 and tf32, and 0 for everything else."""
    legal = d.row.selectors if d.sparsity else (0,)
    if d.sparsity_selector not in legal:
        what = f"sparse kind {d.kind}" if d.sparsity else "a dense instruction"
        yield _finding("I603", "sparsity_selector", f"sparsity_selector = {d.sparsity_selector}; {what} has {_listed(list(legal))}", "one of these",
                       severity=None if d.sparsity else Severity.NOTE, named=True)  # fmt: skip


@_rule("PTX ISA 9.1 §9.7.16.4.2, table 42")
def shift_of_b(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """max_shift is for .ws."""
    if d.max_shift and c.ws is False:
        yield _finding(
            "I603", "max_shift", f"max_shift = {d.max_shift} rows without .ws", "max_shift = 0", severity=Severity.NOTE, named=True
        )


@_rule("PTX ISA 9.1 §9.7.16.10")
def ashift(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """.ashift needs A in tensor memory and M = 128 or 256."""
    if not c.ashift:
        return
    if d.m not in ASHIFT_M:
        yield _finding("I601", "m", f"M = {d.m} with .ashift", "M = 128 or 256, or leave out .ashift")
    if c.a_source == "shared":
        yield _finding(
            "I603", "a_source", ".ashift with A in shared memory", "leave out .ashift", why=".ashift shifts the rows of A in tensor memory"
        )


@_rule("PTX ISA 9.1 §9.7.16.10.7, tables 56, 57")
def scales(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """Scale vectors, their type, and the byte at which the factors begin: any with one factor a row, even with two, 0
    with four.
    """
    if not d.row.block_scaled:
        if c.scale_vec:
            yield _finding(
                "I603",
                "scale_vec",
                f"scale_vec = {c.scale_vec} with kind {d.kind}",
                "leave out scale_vec",
                why="the kind has no scale factors",
                named=True,
            )
        return
    modes = scale_modes(d.row, wide_k=bool(d.k_size), asked=c.scale_vec)
    if not modes:
        listed = ", ".join(mode.name for mode in scale_modes(d.row, wide_k=bool(d.k_size)))
        yield _finding(
            "I603", "scale_vec", f"scale_vec = {c.scale_vec}; kind {d.kind} with K = {d.k} has {listed}", "one of these", named=True
        )
        return
    typed = [mode for mode in modes if d.scale_type in SCALE_TYPES_OF_BLOCK[mode.block]]
    if not typed:
        legal = list(dict.fromkeys(name for mode in modes for name in SCALE_TYPES_OF_BLOCK[mode.block]))
        code = next(code for code, name in SCALE_TYPES.items() if name == legal[0])
        what = f" with {c.scale_vec}" if c.scale_vec else ""
        yield _finding(
            "I603", "scale_type", f"scale_type = {d.scale_type}; kind {d.kind}{what} has {', '.join(legal)}", f"bit 23 = {code}", named=True
        )
        return
    ids = sorted({i for mode in typed for i in mode.ids})
    for side in "ab":
        if (number := getattr(d, f"{side}_sf_id")) not in ids:
            yield _finding("I603", f"{side}_sf_id", f"{side}_sf_id = {number}; kind {d.kind} with {typed[0].scales} factors for each row and step has {_listed(ids)}",
                           "the byte at which the factors begin", named=True)  # fmt: skip


@_rule("PTX ISA 9.1 §9.7.16.10.9, target notes")
def vector_names(d: InstrDescriptor, c: Context) -> Iterator[Finding]:
    """.scale_vec::NX is of sm_100a; sm_103a writes .block16 or .block32."""
    if d.row.block_scaled and c.arch == "sm_103a" and c.scale_vec in ("1X", "2X", "4X"):
        yield _finding("I603", "scale_vec", f"scale_vec = {c.scale_vec} on sm_103a", ".block16 or .block32", severity=Severity.NOTE,
                       why="the PTX ISA has .scale_vec for sm_100a", named=True)  # fmt: skip


@_rule("PTX ISA 9.1 §9.7.16.4.2, tables 42 to 44")
def reserved(d: InstrDescriptor, _: Context) -> Iterator[Finding]:
    """Reserved bits are 0."""
    for name, field, raw in d.table.constants(d.word):
        verb = "bits {} are"
        yield _finding("D305", name.lstrip("_"), f"reserved {verb.format(field.span)} {raw:#b} (kind {d.kind})" if field.width > 1 else f"reserved bit {field.span} is 1 (kind {d.kind})",
                       f"bit{'s' * (field.width > 1)} {field.span} = 0", field.source, why="reserved bits must be 0; smemsim ignores them", named=field.width == 1)  # fmt: skip
