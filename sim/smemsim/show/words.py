"""Words: descriptors and instruction descriptors, field by field."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any

from smemsim.core.finding import Finding
from smemsim.core.picture.lines import table_lines
from smemsim.core.picture.message import COLUMNS
from smemsim.core.picture.table import Column, Line, Table
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.fields import Field, Word
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.instr import InstrDescriptor, kinds_that_fit
from smemsim.core.words.operand_layout import rules_in_force, weakest
from smemsim.core.words.smem import SmemDescriptor, stride_walks

__all__ = ["descriptor_json", "descriptor_view", "field_lines", "finding_lines", "instr_json", "instr_view", "ruler_lines"]


# ---- Any machine word as a person wants to see it: the bit ruler, the table of its fields, and findings in paragraphs


SEVERITY_STYLE = {"trap": "red", "wrong": "red", "luck": "yellow", "note": "cyan"}
FIELD_STYLES = ("cyan", "green", "magenta", "yellow", "blue")


def ruler_lines(table: Word, word: int) -> list[Line]:
    """The bits in their fields, with the bit numbers above and letters below."""
    numbers, bits, marks = Line(), Line(), Line()
    for letter, style, _, field in _rows(table):
        label = str(field.high) if field.width < 5 else f"{field.high}{field.low:>{field.width - len(str(field.high))}}"
        width = max(field.width, len(label))
        numbers.append((f"{label:<{width}} ", "dim"))
        bits.append((f"{field.raw(word):0{field.width}b}".ljust(width) + " ", style))
        marks.append((f"{letter:<{width}} ", style))
    return [numbers, bits, marks]


def _rows(table: Word) -> list[tuple[str, str, str, Field]]:
    """(letter, style, name, field) from the highest bits down."""
    ordered = sorted(table.fields.items(), key=lambda item: -item[1].low)
    return [
        ("abcdefghijklmnopqrstuvwxyz"[i], "dim" if field.want is not None else FIELD_STYLES[i % len(FIELD_STYLES)], name, field)
        for i, (name, field) in enumerate(ordered)
    ]


def field_lines(table: Word, word: int, unit: str, number: Callable[[str, Field], str], meaning: Callable[[str], str]) -> list[Line]:
    """One line a field: letter, name, bits, raw value, the value in `unit` ("" for none), what it means."""
    rows, styles = [], []
    for letter, style, name, field in _rows(table):
        shown = name.lstrip("_") if field.want is None or name == "constant" else "reserved"
        rows.append((letter, shown, field.span, f"{field.raw(word):#x}", number(name, field), meaning(name)))
        styles.append((style, style, "", "", "", ""))
    heads = ("", "field", "bits", "raw", unit, "meaning")
    columns = tuple(Column(head, right=head in heads[2:5]) for head in heads)
    return table_lines(Table(columns, tuple(rows), tuple(styles)))


def finding_lines(findings: Sequence[Finding], width: int) -> list[Line]:
    """One finding a paragraph: code, field and what is wrong, then why with its source, then the fix."""
    return [line for f in findings for line in f.printed.lines(min(width, COLUMNS))]


# ---- A shared-memory descriptor as a person wants to see it: the bit ruler, every field with
# its meaning, what is wrong


def _smem_meaning(d: SmemDescriptor, name: str, major: str | None = None) -> str:
    """One line for people: what the field is and what it walks, for both major-nesses unless one is known."""
    mode = MODES.get(d.swizzle)
    swizzled = d.swizzle not in (Swizzle.NONE, Swizzle.INVALID)
    width = mode.width if mode else 0
    walks = stride_walks(d.swizzle).get(name)
    if walks and name == "leading_byte_offset" and swizzled:
        walks |= {"K": f"used only if K passes {width} bytes"}
    if walks and not (name == "leading_byte_offset" and d.lbo_mode):
        return walks[major] if major else "; ".join(f"{which}-major: {what}" for which, what in walks.items())
    if name == "leading_byte_offset":
        return f"address {d.leading_byte_offset:#x} of the buffer that continues the row"
    if name == "start_address":
        phase = f", {d.start_address % mode.period} B into a {mode.period} B pattern" if mode and swizzled else ""
        return f"{d.start_address:#x} in the .shared window{phase}"
    if name == "base_offset":
        return "pattern starts on its natural boundary" if not d.base_offset else f"pattern starts {d.base_offset} lines of 128 B off"
    if name == "lbo_mode":
        return "absolute: LBO is an address" if d.lbo_mode else "relative: LBO is a distance"
    if name == "layout_type":
        cute = f", {mode.cute} on byte addresses" if mode and mode.cute else ""
        return f"{d.swizzle}{cute}" if d.swizzle is not Swizzle.INVALID else "no swizzle mode has this code"
    field = d.table.fields[name]
    label = "constant" if name == "constant" else "reserved"
    return label if field.raw(d.word) == field.want else f"{label}: the manual wants {field.want:#b}"


def answer_of(findings: Sequence[Finding], *, reads: str = "", is_known: bool = False) -> str:
    """Is a word right for its operand? OK or WRONG and one sentence; "" if nothing is known of the operand and nothing
    is wrong.
    """
    wrong = next((f for f in findings if f.severity in (Severity.TRAP, Severity.WRONG)), None)
    if wrong is not None:
        return f"WRONG: {wrong.what}"
    return (
        f"OK: the word reads {reads}"
        if reads
        else "OK: nothing is wrong with the word for what is known of the operand"
        if is_known
        else ""
    )


def _fields(d: SmemDescriptor, major: str | None, unused: Collection[str] = ()) -> list[Line]:
    def number(_: str, field: Field) -> str:
        return f"{field.value(d.word)}" if field.unit == "B" else ""

    return field_lines(
        d.table, d.word, "bytes", number, lambda name: "not used by this operand" if name in unused else _smem_meaning(d, name, major)
    )


# a word alone is never a clean bill
LEGAL = "legal; whether it reads your tile needs --tile ROWSxK, smemsim check or smemsim plan"


def descriptor_view(
    d: SmemDescriptor, findings: Sequence[Finding], *, major: str | None, context: bool, answer: str = "", width: int
) -> list[Line]:
    """A shared-memory descriptor as lines of text: the answer, bits, fields and findings.

    If `major` is known, it is passed. With `context`, the findings were made with the operand known. The answer is OK
    or WRONG and a sentence.
    """
    arch = architecture(d.arch)
    head = [Line([(f"{d.word:#018x}", "bold"), (f"  {d.arch} ({arch.instruction})", "")]), Line([(repr(d), "dim")])]
    rules = [] if d.swizzle is Swizzle.INVALID else rules_in_force(d, arch, major=major)
    where = "against an H200" if d.arch == "sm_90a" else "nothing is measured on Blackwell"
    first = [Line([(part, "green" if answer.startswith("OK") else "red")]) for part in textwrap.wrap(answer, COLUMNS)]
    unused = {f.where for f in findings if f.code == "D310"}
    lines = [*first, *head, Line(), *ruler_lines(d.table, d.word), Line(), *_fields(d, major, unused), Line()]
    lines += finding_lines(findings, width) if findings else [] if answer else [Line([(LEGAL, "")])]
    lines.append(Line())
    if not context:
        lines.append(
            Line([("more can be said with --dtype, --major, --rows and --k of an instruction's operand, or --tile ROWSxK", "dim")])
        )
    if rules:
        names = ", ".join(rule.name for rule in rules)
        lines.append(Line([(f"address rules: {weakest(rules, arch)} ({where}); {names}", "dim")]))
    return lines


def descriptor_json(d: SmemDescriptor, findings: Sequence[Finding], *, major: str | None = None, reads: str = "") -> dict[str, Any]:
    """A shared-memory descriptor as JSON: fields, findings and rules. The part of a tile that it reads, if known, is
    `reads`. If the behaviour of hardware is not known, `grade` is null.
    """
    arch = architecture(d.arch)
    rules = [] if d.swizzle is Swizzle.INVALID else rules_in_force(d, arch, major=major)
    return {
        "word": f"{d.word:#018x}",
        "arch": d.arch,
        "start_address": d.start_address,
        "leading_byte_offset": d.leading_byte_offset,
        "stride_byte_offset": d.stride_byte_offset,
        "base_offset": d.base_offset,
        "swizzle": str(d.swizzle),
        "layout_code": d.layout_code,
        "lbo_mode": d.lbo_mode.name.lower(),
        "fields": {
            name: {
                "bits": [field.high, field.low],
                "raw": field.raw(d.word),
                "value": field.value(d.word),
                "meaning": _smem_meaning(d, name),
            }
            for name, field in d.table.fields.items()
        },
        "grade": str(weakest(rules, arch)) if rules else None,
        "rules": [rule.name for rule in rules],
        **({"reads": reads} if reads else {}),
        "findings": [f.as_dict() for f in findings],
    }


# ---- An instruction descriptor as a person wants to see it: the bit ruler, every field with its meaning, what is wrong


def _instr_meaning(d: InstrDescriptor, name: str) -> str:
    """One line for people: what the field's value is."""
    side = name.rpartition("_")[2].upper() if name.startswith(("transpose", "negate")) else name[0].upper()
    if name in ("a_type", "b_type", "d_type"):
        dtype = getattr(d, name)
        return f"{side} is {dtype}" if dtype != "invalid" else f"no type of kind {d.kind} has this code"
    if name.startswith("transpose"):
        major = getattr(d, f"{side.lower()}_major")
        return f"{side} is {major}-major: {'K' if major == 'K' else 'M' if side == 'A' else 'N'} is contiguous"
    if name.startswith("negate"):
        return f"{side} counts {'with the other sign' if getattr(d, name) else 'as it is'}"
    if name.endswith("sf_id"):
        return f"{side}'s scale factors begin in byte {getattr(d, name)} of their tensor-memory column"
    if name.startswith("_"):
        field = d.table.fields[name]
        return "reserved" if field.raw(d.word) == field.want else "reserved: the manual wants 0"
    return {
        "m": "M, rows of A and D; of both CTAs together with .cta_group::2",
        "n": "N, rows of B (N x K) and columns of D",
        "sparsity": f"{'A is sparse' if d.sparsity else 'dense'}: K = {d.k}",
        "sparsity_selector": "part of the metadata that is used" if d.sparsity else "not used by a dense instruction",
        "saturate": "D clamps" if d.saturate else "D wraps" if d.kind == "i8" else "for integers only",
        "max_shift": f"B is reused shifted by at most {d.max_shift} rows (.ws)" if d.max_shift else "no shift of B (.ws)",
        "scale_type": f"scale factors are {d.scale_type}",
        "k_size": f"K = {d.k}{' (sm_103a)' if d.k_size else ''}",
    }[name]


def instr_view(d: InstrDescriptor, findings: Sequence[Finding], *, context: bool, width: int) -> list[Line]:
    """An instruction descriptor as lines of text: bits, fields and findings. If `context` is set, something of the
    instruction besides the word was known.
    """

    def number(name: str, field: Field) -> str:
        return f"{field.value(d.word)}" if name in ("m", "n") else ""

    lines = [
        Line([(f"{d.word:#010x}", "bold"), (f"  tcgen05.mma.kind::{d.kind}, instruction descriptor", "")]),
        Line([(repr(d), "dim")]),
        Line(),
        *ruler_lines(d.table, d.word),
        Line(),
        *field_lines(d.table, d.word, "value", number, lambda name: _instr_meaning(d, name)),
        Line(),
    ]
    lines += finding_lines(findings, width) if findings else [Line([("no problem found", "green")])]
    lines.append(Line())
    if not context:
        lines.append(
            Line([("more can be said with --cta-group, --ws, --a-source, --swizzle-a, --swizzle-b, --scale-vec and --arch", "dim")])
        )
    lines.append(
        Line(
            [("bits and rules: documented (PTX ISA 9.1 §9.7.16.4.2), compiled (Triton, CuTe DSL); nothing is measured on Blackwell", "dim")]
        )
    )
    return lines


def instr_json(d: InstrDescriptor, findings: Sequence[Finding]) -> dict[str, Any]:
    """An instruction descriptor as JSON: fields and findings; `kinds` are those under which the word has no errors."""
    values = ("m", "n", "k", "a_type", "b_type", "d_type", "a_major", "b_major", "negate_a", "negate_b", "sparsity", "sparsity_selector",
              "saturate", "max_shift", "scale_type", "a_sf_id", "b_sf_id")  # fmt: skip
    return {
        "word": f"{d.word:#010x}",
        "kind": d.kind,
        **{name: getattr(d, name) for name in values},
        "fields": {
            name: {
                "bits": [field.high, field.low],
                "raw": field.raw(d.word),
                "value": field.value(d.word),
                "meaning": _instr_meaning(d, name),
            }
            for name, field in d.table.fields.items()
        },
        "kinds": kinds_that_fit(d.word),
        "grade": "documented",
        "findings": [f.as_dict() for f in findings],
    }
