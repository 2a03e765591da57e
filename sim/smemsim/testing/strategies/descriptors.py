"""Strategies for descriptors, instruction descriptors and element bits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import strategies as st

from smemsim.base.arguments import choice, shown, whole
from smemsim.base.errors import InputError
from smemsim.core.finding import Finding
from smemsim.core.spec.architectures import Architecture, architecture
from smemsim.core.spec.fields import Field, Word
from smemsim.core.spec.formats import FORMATS, ElementFormat, element_format
from smemsim.core.spec.instr_descriptor import MAX_SHIFTS
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.spec.tcgen05 import KINDS, SCALE_TYPES_OF_BLOCK, WIDE_K, kind_of, scale_modes, shapes_of
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.operand_layout import used_strides, why_unmodelled, window_reach
from smemsim.core.words.smem import SmemDescriptor
from smemsim.planning.arrangement import GRAVE

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "chosen",
    "element_arrays",
    "element_bits",
    "hard_cases",
    "instr_descriptors",
    "is_grave",
    "legality",
    "near_instr_descriptors",
    "near_smem_descriptors",
    "neighbours",
    "operands",
    "other_words",
    "readable",
    "reads",
    "smem_descriptors",
    "swizzles_of",
    "words",
]


# ---- Options of strategies, taken from people: what does not fit is a sentence, raised where the strategy is made


LEGALITY = ("legal", "near", "any")


def is_grave(findings: Iterable[Finding]) -> bool:
    """Does one of them trap, or make wrong numbers?"""
    return any(f.severity in GRAVE for f in findings)


def legality(value: Any) -> str:
    """The value, if it is one of `LEGALITY`. Raises InputError for any other."""
    return choice("legal", value, LEGALITY, "'legal', 'near' (one field away from it, and wrong) or 'any' (every word there is)")


def chosen(name: str, values: Any, known: Iterable[str]) -> tuple[str, ...]:
    """Some of the known names; None is all of them.

    >>> chosen("majors", "K", ("K", "MN")), chosen("majors", None, ("K", "MN"))
    (('K',), ('K', 'MN'))
    """
    options = tuple(known)
    if values is None:
        return options
    listed = (values,) if isinstance(values, str) else values
    if isinstance(listed, (bytes, dict)) or not isinstance(listed, Iterable):
        raise InputError(f"{name} = {shown(values)}: needs names out of {' '.join(options)}")
    names = tuple(choice(name, str(value), options, f"names out of {' '.join(options)}") for value in listed)
    if not names:
        raise InputError(f"{name}: the list is empty; needs one of {' '.join(options)} at least")
    return names


def swizzles_of(values: Any, known: Iterable[Swizzle]) -> tuple[Swizzle, ...]:
    """Some of the known swizzle modes."""
    return tuple(Swizzle(name) for name in chosen("swizzles", values, (str(mode) for mode in known)))


# ---- Shared-memory descriptors, and the operands that are read through them


MAJORS = ("K", "MN")
LINES = 1 << 12  # more rows, or K rows, than any atom has
Descriptor = TypeVar("Descriptor", SmemDescriptor, InstrDescriptor)
Draw = Callable[[st.SearchStrategy[Any]], Any]


def words(table: Word, *, raw: Mapping[str, st.SearchStrategy[int]] | None = None) -> st.SearchStrategy[int]:
    """Words of a bit table, with reserved fields. They shrink to the documented constants and to 0.

    `raw` fixes or narrows the raw bits of some fields. Raises InputError for an unknown field.

    >>> from hypothesis import find
    >>> from smemsim.core.spec.smem_descriptor import SM100_SMEM_DESC
    >>> hex(find(words(SM100_SMEM_DESC), lambda word: True))
    '0x400000000000'
    """
    pinned = dict(raw or {})
    if unknown := sorted(pinned.keys() - table.fields.keys()):
        raise InputError(f"{table.name} has no field {', '.join(unknown)}; it has {', '.join(table.fields)}")
    bits = {name: _raw_bits(field) for name, field in table.fields.items()}
    drawn = st.fixed_dictionaries(bits | pinned)
    return drawn.map(lambda values: sum(value << table.fields[name].low for name, value in values.items()))


def _raw_bits(field: Field) -> st.SearchStrategy[int]:
    """All raw bits of a field, nothing and everything of wide ones more often; the documented constant first."""
    drawn = st.integers(0, field.mask)
    if field.width > 8:
        drawn = drawn | st.sampled_from((0, field.mask))
    return drawn.map(functools.partial(int.__xor__, field.want)) if field.want else drawn


@functools.cache
def readable(machine: Architecture) -> tuple[tuple[str, str, str, Swizzle], ...]:
    """(dtype, major, packing, swizzle) that the architecture's instructions read, by the rules of
    `SmemDescriptor.problems`.
    """
    readable = []
    for name in machine.mma_types:
        fmt = FORMATS[name]
        for packing in ("packed", "padded") if fmt.bits == 4 else ("packed",):  # 6-bit types are always padded
            size = machine.k_row_bytes[-1]
            k = size * fmt.elements_per_chunk(packing) // CHUNK
            for major in MAJORS:
                for code, swizzle in layout_codes(machine.smem_descriptor).items():
                    d = SmemDescriptor(arch=machine.name, start_address=machine.shared_begin, swizzle=swizzle)
                    wrong = any(f.code == "I602" for f in d.problems(dtype=name, major=major, packing=packing) if is_grave([f]))
                    unknown = why_unmodelled(machine, swizzle, code, False, 0, major, min(size, MODES[swizzle].width))
                    if not wrong and not unknown and k:
                        readable.append((name, major, packing, swizzle))
    return tuple(readable)


def _instruction_k(machine: Architecture, dtype: str, packing: str, swizzle: Swizzle, major: str) -> tuple[int, ...]:
    """K of one instruction's operand, smallest first, as far as the swizzle covers it."""
    width = MODES[swizzle].width
    # otherwise unknown: why_unmodelled
    sizes = [size for size in machine.k_row_bytes if major == "MN" or size <= width or width < 64]
    return tuple(size * FORMATS[dtype].elements_per_chunk(packing) // CHUNK for size in sizes)


def operands(
    *,
    arch: str | None = None,
    swizzle: Any = None,
    majors: Any = None,
    dtypes: Any = None,
    extent: int = 40,
) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of `operand_addresses`: dtype, major, rows, k, packing.

    With `arch` an operand that one of its instructions reads through `swizzle` (through any mode, if None). Without,
    any operand that the addressing rules of `swizzle` cover: rows and k up to `extent` elements, multiples of nothing.
    InputError for names that do not exist and where nothing is left.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(operands(arch="sm_90a", swizzle="128B", majors="MN"))
    ... def law(operand):
    ...     assert operand["dtype"] in ("f16", "bf16") and operand["k"] in (16, 32)  # 32: the dense operand beside a sparse one
    >>> law()
    """
    extent = whole("extent", extent, minimum=1)
    if arch is None:
        names, some = chosen("dtypes", dtypes, FORMATS), chosen("majors", majors, MAJORS)
        modes = swizzles_of(None if swizzle is None else [swizzle], MODES)
        return _free_operands(modes, some, names, extent)
    machine = architecture(arch)
    names, some = chosen("dtypes", dtypes, machine.mma_types), chosen("majors", majors, MAJORS)
    modes = swizzles_of(None if swizzle is None else [swizzle], layout_codes(machine.smem_descriptor).values())
    rows = [row for row in readable(machine) if row[0] in names and row[1] in some and row[3] in modes]
    if not rows:
        raise InputError(
            f"operands of {machine.name}: no instruction reads {' '.join(names)} {' or '.join(some)}-major with swizzle {' '.join(modes)}"
        )
    return _instruction_operands(machine.name, tuple(rows)).map(lambda pair: pair[1])


@st.composite
def _free_operands(draw: Draw, modes: tuple[Swizzle, ...], majors: tuple[str, ...], dtypes: tuple[str, ...], extent: int) -> dict[str, Any]:
    dtype, major = draw(st.sampled_from(dtypes)), draw(st.sampled_from(majors))
    packing, mode = draw(st.sampled_from(("packed", "padded"))), MODES[draw(st.sampled_from(modes))]
    most = extent
    if major == "K" and mode.width >= 64:  # unknown beyond it: why_unmodelled
        most = min(extent, mode.chunks * FORMATS[dtype].elements_per_chunk(packing))
    return {"dtype": dtype, "major": major, "rows": draw(st.integers(1, extent)), "k": draw(st.integers(1, most)), "packing": packing}


@st.composite
def _instruction_operands(draw: Draw, arch: str, rows: tuple[Any, ...]) -> tuple[Swizzle, dict[str, Any]]:
    """(swizzle, operand)."""
    machine = architecture(arch)
    dtype, major, packing, swizzle = draw(st.sampled_from(rows))
    k = draw(st.sampled_from(_instruction_k(machine, dtype, packing, swizzle, major)))
    extent = 8 * draw(st.integers(1, 8) | st.sampled_from((16, 24, 32)))  # M and N come in eights, up to 256
    return swizzle, {"dtype": dtype, "major": major, "rows": extent, "k": k, "packing": packing}


@st.composite
def _legal_reads(draw: Draw, arch: str, rows: tuple[Any, ...], given: dict[str, Any] | None) -> tuple[SmemDescriptor, Any]:
    """(descriptor, operand): atoms that follow one another along one axis, then along the other, some with a gap of 16
    or 32 B.
    """
    machine = architecture(arch)
    if given is None:
        swizzle, operand = draw(_instruction_operands(arch, rows))
    else:
        swizzle, operand = draw(st.sampled_from([row[3] for row in rows])), given
    mode, fmt = MODES[swizzle], FORMATS[operand["dtype"]]
    per_chunk, k_major = fmt.elements_per_chunk(operand["packing"]), operand["major"] == "K"
    along, lines = (operand["k"], operand["rows"]) if k_major else (operand["rows"], operand["k"])
    chunks = -(-along // per_chunk)
    # Which field steps along the contiguous axis, the rules themselves say: that of an operand of one line and many
    # chunks.
    shape = (1, LINES) if k_major else (LINES, 1)
    leading = used_strides(mode, operand["major"], *shape, 1)["leading_byte_offset"]
    # atoms along the contiguous axis, and along the other
    counts = [-(-chunks * CHUNK // mode.width), -(-lines // mode.k_rows)]
    first = draw(st.sampled_from((0, 1)))
    steps = [0, 0]
    steps[first] = mode.k_rows * mode.width + CHUNK * draw(st.integers(0, 2))
    steps[1 - first] = steps[first] * counts[first] + CHUNK * draw(st.integers(0, 2))
    for axis in (0, 1):
        if counts[axis] == 1:
            steps[axis] = draw(st.sampled_from((0, CHUNK)))  # what kernels write where nothing is used
    lbo, sbo = steps if leading else steps[::-1]
    made: dict[str, Any] = {"arch": machine.name, "leading_byte_offset": lbo, "stride_byte_offset": sbo, "swizzle": swizzle}
    reach = window_reach(SmemDescriptor(**made), operand["major"], lines, chunks)
    room = (machine.shared_end - machine.shared_begin - reach) // CHUNK
    start = machine.shared_begin + CHUNK * draw(st.integers(0, max(room, 0)))
    return SmemDescriptor(**made, start_address=start), operand


def _is_sound(d: SmemDescriptor, operand: dict[str, Any] | None) -> bool:
    return not is_grave(d.problems(**operand or {}))


def reads(
    *, arch: str, legal: str = "legal", swizzles: Any = None, majors: Any = None, dtypes: Any = None
) -> st.SearchStrategy[tuple[SmemDescriptor, dict[str, Any]]]:
    """Draw (descriptor, operand): an operand that one instruction of `arch` reads, with a descriptor for it.

    If it is "legal", `SmemDescriptor.problems` with the operand has no trap and no wrong numbers. If it is "near", one
    field differs from a legal one, and the operand is wrong. If it is "any", it is any word with one of the `swizzles`,
    in relative LBO mode.

    Raises InputError like `operands`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(reads(arch="sm_90a", dtypes="bf16"))
    ... def law(read):
    ...     assert not any(f.severity in ("trap", "wrong") for f in read[0].problems(**read[1]))
    >>> law()
    """
    machine, wanted = architecture(arch), legality(legal)
    rows = _rows(machine, swizzles, majors, dtypes)
    if wanted == "any":
        return _any_reads(machine.name, rows)
    sound = _legal_reads(machine.name, rows, None).filter(lambda read: _is_sound(*read))
    if wanted == "legal":
        return sound
    return _near_reads(sound).map(lambda found: (found[1], found[3]))


def _rows(machine: Architecture, swizzles: Any, majors: Any, dtypes: Any) -> tuple[Any, ...]:
    modes = swizzles_of(swizzles, layout_codes(machine.smem_descriptor).values())
    names, some = chosen("dtypes", dtypes, machine.mma_types), chosen("majors", majors, MAJORS)
    rows = tuple(row for row in readable(machine) if row[0] in names and row[1] in some and row[3] in modes)
    if not rows:
        raise InputError(
            f"{machine.name}: no instruction reads {' '.join(names)} {' or '.join(some)}-major with swizzle {' '.join(map(str, modes))}"
        )
    return rows


@st.composite
def _any_reads(draw: Draw, arch: str, rows: tuple[Any, ...]) -> tuple[SmemDescriptor, dict[str, Any]]:
    swizzle, operand = draw(_instruction_operands(arch, rows))
    table = architecture(arch).smem_descriptor
    code = next(code for code, mode in layout_codes(table).items() if mode is swizzle)
    pinned = {"layout_type": st.just(code)} | ({"lbo_mode": st.just(0)} if "lbo_mode" in table.fields else {})
    return SmemDescriptor.decode(draw(words(table, raw=pinned)), arch=arch), operand


@st.composite
def _near_reads(draw: Draw, sound: st.SearchStrategy[Any], *, context: bool = True) -> tuple[Any, Any, str, Any]:
    """(legal descriptor, the same with one field changed so that it is wrong, the field, operand)."""
    d, operand = draw(sound)
    near, field = draw(neighbours(d).filter(lambda found: not _is_sound(found[0], operand if context else None)))
    return d, near, field, operand


def other_words(word: int, field: Field) -> st.SearchStrategy[int]:
    """The word with another value in one field: one that kernels write by mistake (0, bytes for units, units for bytes,
    all ones), or any.

    >>> from hypothesis import find
    >>> from smemsim.core.spec.smem_descriptor import SM90_SMEM_DESC
    >>> hex(find(other_words(0x4000004000010040, SM90_SMEM_DESC.fields["stride_byte_offset"]), lambda word: True))
    '0x4000000000010040'
    """
    raw = field.raw(word)
    likely = sorted({0, raw << field.shift & field.mask, raw >> field.shift, field.mask} - {raw})
    # Steps from the old value: what is drawn is never the old one, which would have to be thrown away.
    others = st.sampled_from(likely) | st.integers(1, field.mask).map(lambda step: (raw + step) & field.mask)
    return others.map(lambda value: word & ~(field.mask << field.low) | value << field.low)


@st.composite
def neighbours(draw: Draw, d: Descriptor) -> tuple[Descriptor, str]:
    """(the descriptor with another value in one field, the field); of wide fields values that kernels have by mistake
    among the random ones.
    """
    table = d.table
    name = draw(st.sampled_from([name for name, field in table.fields.items() if not name.startswith("_")]))
    field = table.fields[name]
    word = draw(other_words(d.word, field))
    made: Any = SmemDescriptor.decode(word, arch=d.arch) if isinstance(d, SmemDescriptor) else InstrDescriptor.decode(word, kind=d.kind)
    return made, name


def _given_operand(operand: Any, machine: Architecture) -> dict[str, Any] | None:
    if operand is None:
        return None
    wanted = ("dtype", "major", "rows", "k")
    if not isinstance(operand, Mapping) or not {*wanted} <= operand.keys() <= {*wanted, "packing"}:
        raise InputError("operand: needs a dict of dtype, major, rows, k and perhaps packing, as operand_addresses takes them")
    given = {"packing": "packed", **operand}
    choice("operand dtype", given["dtype"], machine.mma_types, f"one of {' '.join(machine.mma_types)}")
    if given["k"] not in {
        k for row in readable(machine) if row[0] == given["dtype"] for k in _instruction_k(machine, row[0], row[2], row[3], row[1])
    }:
        raise InputError(f"operand k = {given['k']}: no instruction of {machine.name} reads that many {given['dtype']} of K")
    return given


def smem_descriptors(
    *,
    arch: str,
    legal: str = "legal",
    operand: Mapping[str, Any] | None = None,
    swizzles: Any = None,
    fields: Mapping[str, st.SearchStrategy[int]] | None = None,
) -> st.SearchStrategy[SmemDescriptor]:
    """Shared-memory descriptors: right for an operand ("legal"), one field away from that and wrong ("near"), or any
    64-bit word ("any").

    `operand` is (dtype, major, rows, k, packing). Without it some operand of `arch` is used, and "near" means findings
    without context. `swizzles` narrows the modes. `fields` (only with "any") fixes the raw bits of fields. Raises
    InputError for unknown names, and for an operand that no instruction reads.

    >>> from hypothesis import given, settings
    >>> operand = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16}
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(smem_descriptors(arch="sm_90a", operand=operand, swizzles="128B"))
    ... def law(d):
    ...     assert d.stride_byte_offset >= 1024
    >>> law()
    """
    machine, wanted = architecture(arch), legality(legal)
    table = machine.smem_descriptor
    if wanted == "any":
        codes = {mode: code for code, mode in layout_codes(table).items()}
        pinned = {} if swizzles is None else {"layout_type": st.sampled_from([codes[mode] for mode in swizzles_of(swizzles, codes)])}
        drawn = words(table, raw=pinned | dict(fields or {}))
        return drawn.map(lambda word: SmemDescriptor.decode(word, arch=machine.name))
    if fields is not None:
        raise InputError(f"fields: pins raw bits of any words; legal = {wanted!r} chooses them itself")
    sound = _sound(machine, operand, swizzles)
    if wanted == "legal":
        return sound.map(lambda read: read[0])
    return near_smem_descriptors(arch=arch, operand=operand, swizzles=swizzles).map(lambda found: found[1])


def _sound(machine: Architecture, operand: Any, swizzles: Any) -> st.SearchStrategy[tuple[SmemDescriptor, Any]]:
    given = _given_operand(operand, machine)
    rows = _rows(machine, swizzles, given and given["major"], given and given["dtype"])
    if given:
        rows = tuple(r for r in rows if r[2] == given["packing"] and given["k"] in _instruction_k(machine, r[0], r[2], r[3], r[1]))
        if not rows:
            raise InputError(f"operand: no descriptor of {machine.name} reads {given}")
    return _legal_reads(machine.name, rows, given).filter(lambda read: _is_sound(read[0], given))


def near_smem_descriptors(
    *, arch: str, operand: Mapping[str, Any] | None = None, swizzles: Any = None
) -> st.SearchStrategy[tuple[SmemDescriptor, SmemDescriptor, str]]:
    """(legal descriptor, the same with another value in one field, that field): the second one traps or reads wrong
    numbers.

    Options as of `smem_descriptors`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(near_smem_descriptors(arch="sm_90a"))
    ... def law(found):
    ...     legal, near, field = found; assert getattr(legal, field, 0) != getattr(near, field, 1)
    >>> law()
    """
    machine = architecture(arch)
    context = operand is not None
    return _near_reads(_sound(machine, operand, swizzles), context=context).map(lambda found: found[:3])


# ---- Element bits, weighted to the cases that break kernels


def hard_cases(fmt: ElementFormat) -> tuple[int, ...]:
    """Bits of the elements on which arithmetic turns, +0 first: zeros, ones, subnormals, powers of two and their
    neighbours, the largest, infinities, NaNs.

    >>> [hex(bits) for bits in hard_cases(element_format("e2m1"))][:5], len(hard_cases(element_format("bf16"))) > 40
    (['0x0', '0x1', '0x2', '0x3', '0x4'], True)
    """
    if not fmt.is_float:
        top, mask = 1 << fmt.bits - 1, (1 << fmt.bits) - 1
        found = {0, 1, 2, top, top - 1, top + 1, mask, mask - 1}
        return tuple(sorted(bits & mask for bits in found))
    fraction = fmt.fraction_bits
    one = ((1 << fmt.exponent_bits - 1) - 1) << fraction  # exponent 0
    steps = (0, 1, 2, fmt.exponent_bits, (1 << fmt.exponent_bits - 1) - 2)
    powers = {one + (sign * step << fraction) for step in steps for sign in (1, -1)}
    # zero, the subnormals' ends, the smallest normal number
    below = {0, 1, (1 << fraction) - 1, 1 << fraction, (1 << fraction) >> 1}
    # infinities and NaNs of two payloads
    above = {fmt.largest, fmt.magnitude, fmt.largest + 1, fmt.magnitude - (1 << fraction >> 1)}
    near = {bits + ulp for bits in powers | below | above for ulp in (-1, 0, 1)}
    codes = {bits << fmt.dropped_bits for bits in near if 0 <= bits <= fmt.magnitude}
    codes |= {bits | (1 << fmt.dropped_bits) - 1 for bits in codes}  # tf32: bits that are no part of the number
    signed = {bits | 1 << fmt.bits - 1 for bits in codes} if fmt.signed else set()
    return tuple(sorted(codes | signed))


def element_bits(dtype: Any) -> st.SearchStrategy[int]:
    """Raw bits of one element of a type: half of them difficult cases, the others anything. They shrink to +0.

    Difficult cases are zeros of both signs, subnormals, powers of two, the largest numbers, infinities, NaNs, and
    numbers one ulp away from these. Raises InputError for an unknown `dtype`.

    >>> from hypothesis import find, settings
    >>> hex(find(element_bits("f16"), lambda bits: bits > 0x7C00, settings=settings(derandomize=True)))    # the first NaN
    '0x7c01'
    """
    fmt = element_format(dtype)
    return st.sampled_from(hard_cases(fmt)) | st.integers(0, (1 << fmt.bits) - 1)


def element_arrays(dtype: Any, *, shape: Sequence[int]) -> st.SearchStrategy[np.ndarray]:
    """Arrays of raw bits, one element an entry, of the smallest unsigned numpy type that holds it; shrinks to +0
    everywhere.

    InputError for a shape that is none, or of more than 65,536 elements.

    >>> from hypothesis import find, settings
    >>> find(element_arrays("e4m3", shape=(1, 2)), lambda array: array[0, 1] > 1, settings=settings(derandomize=True)).tolist()
    [[0, 2]]
    """
    import numpy as np
    from hypothesis.extra.numpy import arrays

    fmt = element_format(dtype)
    sizes = tuple(whole(f"shape[{i}]", n, minimum=1) for i, n in enumerate(shape))
    count = 1
    for n in sizes:
        count *= n
    if count > 1 << 16:
        raise InputError(f"shape = {sizes}: {count:,} elements; hypothesis draws each of them, so that more than 65,536 are too slow")
    kind = np.dtype(f"u{max(8, 1 << (fmt.bits - 1).bit_length()) // 8}")
    return arrays(kind, sizes, elements=element_bits(fmt), fill=st.just(0))


# ---- Instruction descriptors of tcgen05.mma


def instr_descriptors(
    *, kind: str | None = None, legal: str = "legal", arch: str | None = None, cta_group: int | None = None, ws: bool | None = None
) -> st.SearchStrategy[InstrDescriptor]:
    """Draw instruction descriptors of tcgen05.mma. They are ones that the hardware has ("legal"), one field away from
    that and wrong ("near"), or any word ("any").

    A kind of None means all kinds (those of `arch`, if given). The context of the checks is `cta_group` and `ws`, None
    if unknown. The rules are documented, not measured. Raises InputError for an unknown kind or context.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(instr_descriptors(kind="f16", cta_group=2))
    ... def law(d):
    ...     assert d.m in (128, 256) and d.n % 16 == 0
    >>> law()
    """
    wanted = legality(legal)
    rows, context = _kinds(kind, arch, cta_group, ws)
    if wanted == "any":
        return st.sampled_from(rows).flatmap(lambda name: words(KINDS[name].word).map(lambda word: InstrDescriptor.decode(word, kind=name)))
    if wanted == "near":
        return near_instr_descriptors(kind=kind, arch=arch, cta_group=cta_group, ws=ws).map(lambda found: found[1])
    return _legal_instr(rows, context).filter(lambda d: not is_grave(d.problems(**context)))


def near_instr_descriptors(
    *, kind: str | None = None, arch: str | None = None, cta_group: int | None = None, ws: bool | None = None
) -> st.SearchStrategy[tuple[InstrDescriptor, InstrDescriptor, str]]:
    """(legal descriptor, the same with another value in one field, that field): the second one is no instruction, or
    another one than meant.

    Options as of `instr_descriptors`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(near_instr_descriptors(kind="f16"))
    ... def law(found):
    ...     assert any(f.severity in ("trap", "wrong") for f in found[1].problems())
    >>> law()
    """
    rows, context = _kinds(kind, arch, cta_group, ws)
    sound = _legal_instr(rows, context).filter(lambda d: not is_grave(d.problems(**context)))

    def wrong(pair: tuple[InstrDescriptor, str]) -> bool:
        return is_grave(pair[0].problems(**context))

    return sound.flatmap(lambda d: neighbours(d).filter(wrong).map(lambda pair: (d, *pair)))


def _kinds(kind: Any, arch: Any, cta_group: Any, ws: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    context = {name: value for name, value in (("arch", arch), ("cta_group", cta_group), ("ws", ws)) if value is not None}
    InstrDescriptor(kind="f16").problems(**context)  # InputError for what is no context
    rows = tuple(
        row.name
        for row in ([kind_of(kind)] if kind is not None else KINDS.values())
        if (arch is None or architecture(arch).name in row.archs) and shapes_of(row, cta_group=cta_group, ws=ws, sparse=False, wide_k=False)
    )
    if not rows:
        told = ", ".join(f"{name} = {value!r}" for name, value in context.items())
        raise InputError(f"kind = {kind!r}: does not exist with {told}")
    return rows, context


@st.composite
def _legal_instr(draw: Draw, kinds: tuple[str, ...], context: dict[str, Any]) -> InstrDescriptor:
    row = KINDS[draw(st.sampled_from(kinds))]
    group, ws = context.get("cta_group"), context.get("ws")
    sparse = draw(st.booleans())
    wide = not sparse and row.has_wide_k and context.get("arch") in (None, "sm_103a") and draw(st.booleans())
    shapes = shapes_of(row, cta_group=group, ws=ws, sparse=sparse, wide_k=wide)
    if not shapes:
        sparse, wide = False, False
        shapes = shapes_of(row, cta_group=group, ws=ws, sparse=False, wide_k=False)
    shape = draw(st.sampled_from(shapes))
    types = [draw(st.sampled_from(list(of.values()))) for of in (row.a_types, row.b_types)]
    given: dict[str, Any] = {"kind": row.name, "m": draw(st.sampled_from(shape.m)), "n": draw(st.sampled_from(shape.n))}
    given |= {"a_type": types[0], "b_type": types[1], "sparsity": sparse, "k": WIDE_K if wide else None}
    wide_d = [name for name in row.d_types.values() if FORMATS[name].bits == 32]  # an f16 D needs f16 inputs, or fp8
    narrow = row.name == "f16" and types != ["f16", "f16"]
    given["d_type"] = draw(st.sampled_from(wide_d if narrow else list(row.d_types.values())))
    floats = FORMATS[types[0]].is_float
    for side in "ab":
        if f"transpose_{side}" in row.word.fields and row.transposable:
            given[f"{side}_major"] = draw(st.sampled_from(MAJORS))
        if floats:
            given[f"negate_{side}"] = draw(st.booleans())
    if not floats:
        given["saturate"] = draw(st.booleans())
    if sparse and "sparsity_selector" in row.word.fields:
        given["sparsity_selector"] = draw(st.sampled_from(row.selectors))
    if ws and "max_shift" in row.word.fields:
        given["max_shift"] = draw(st.sampled_from(MAX_SHIFTS))
    if row.block_scaled:
        mode = draw(st.sampled_from(scale_modes(row, wide_k=wide)))
        given["scale_type"] = draw(st.sampled_from(SCALE_TYPES_OF_BLOCK[mode.block]))
        given |= {f"{side}_sf_id": draw(st.sampled_from(sorted(mode.ids))) for side in "ab"}
    return InstrDescriptor(**given)
