"""An instruction descriptor as a person wants to see it: the bit ruler, every field with its meaning, what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.instr_problems import kinds_that_fit
from smemsim.show.plain import Line
from smemsim.show.word import field_lines, finding_json, finding_lines, ruler_lines
from smemsim.spec.findings import Finding
from smemsim.words import Field

__all__ = ["instr_json", "instr_view"]


def _meaning(d: InstrDescriptor, name: str) -> str:
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
    """The whole view in lines; `context` says whether anything of the instruction beside the word was known."""

    def number(name: str, field: Field) -> str:
        return f"{field.value(d.word)}" if name in ("m", "n") else ""

    lines = [
        Line([(f"{d.word:#010x}", "bold"), (f"  tcgen05.mma.kind::{d.kind}, instruction descriptor", "")]),
        Line([(repr(d), "dim")]),
        Line(),
        *ruler_lines(d.table, d.word),
        Line(),
        *field_lines(d.table, d.word, "value", number, lambda name: _meaning(d, name)),
        Line(),
    ]
    lines += finding_lines(findings, width) if findings else [Line([("no problem found", "green")])]
    lines.append(Line())
    if not context:
        lines.append(
            Line([("more can be said with --cta-group, --ws, --a-source, --swizzle-a, --swizzle-b, --scale-vec and --arch", "dim")])
        )
    lines.append(
        Line([("bits and rules: documented (PTX ISA 9.7.16.4.2), compiled (Triton, CuTe DSL); nothing is measured on Blackwell", "dim")])
    )
    return lines


def instr_json(d: InstrDescriptor, findings: Sequence[Finding]) -> dict[str, Any]:
    """The same for programs; `kinds` are those under which the word is sound."""
    values = ("m", "n", "k", "a_type", "b_type", "d_type", "a_major", "b_major", "negate_a", "negate_b", "sparsity", "sparsity_selector",
              "saturate", "max_shift", "scale_type", "a_sf_id", "b_sf_id")  # fmt: skip
    return {
        "word": f"{d.word:#010x}",
        "kind": d.kind,
        **{name: getattr(d, name) for name in values},
        "fields": {
            name: {"bits": [field.high, field.low], "raw": field.raw(d.word), "value": field.value(d.word), "meaning": _meaning(d, name)}
            for name, field in d.table.fields.items()
        },
        "kinds": kinds_that_fit(d.word),
        "grade": "documented",
        "findings": [finding_json(f) for f in findings],
    }
