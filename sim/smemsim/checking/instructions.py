"""The instruction itself: does it have this shape, can it read these types, does its descriptor say what the scenario says?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from smemsim.arguments import in_steps, shown
from smemsim.checking.report import CheckFinding
from smemsim.checking.simulate import Machine, finding
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Severity
from smemsim.spec.formats import element_format
from smemsim.spec.swizzles import Swizzle
from smemsim.spec.tcgen05 import KINDS, WIDE_K, kind_of, shapes_of
from smemsim.spec.wgmma import WGMMA_M, WGMMA_TYPES

__all__ = ["idesc_with", "instruction_findings", "is_sparse", "kind_of_step"]


def kind_of_step(step: dict[str, Any], arch: str) -> str | None:
    """ "wgmma" or a kind of tcgen05, None for one that the architecture has not and for copies."""
    text = step.get("kind") or step.get("instruction", "")
    named = re.search(r"kind::(\w+)", text)
    kind = named[1] if named else "wgmma" if text.startswith("wgmma") else text
    if "kind" in step and kind not in (*KINDS, "wgmma"):
        raise InputError(f"kind = {shown(step['kind'])}: needs wgmma, or one of tcgen05's: {', '.join(KINDS)}")
    here = architecture(arch).instruction
    return kind if (kind == "wgmma" and here == "wgmma") or (kind in KINDS and here == "tcgen05") else None


def instruction_findings(machine: Machine, number: int, step: dict[str, Any], cta_group: int | None) -> Iterator[CheckFinding]:
    """Findings about a step's instruction."""
    where, title = f"step[{number}]", f"step {number + 1} (mma)"
    kind = kind_of_step(step, machine.arch)
    if kind is None:
        return
    operands = {side: step[side] for side in "ab" if side in step}
    cta_group = _group_of(step, operands, cta_group)
    if kind == "wgmma":
        yield from _wgmma(where, title, step, operands)
        return
    idesc = step.get("idesc")
    if idesc is not None:
        yield from _idesc(machine, where, title, step, operands, kind, cta_group)
    elif "kind" in step:
        yield from _shape(where, title, step, kind, cta_group)
    for side, operand in operands.items():
        yield from _tcgen05_type(machine, f"{where}.{side}", f"{title} {side}", operand)


def _wgmma(where: str, title: str, step: dict[str, Any], operands: dict[str, Any]) -> Iterator[CheckFinding]:
    types = {side: element_format(o["dtype"]).name for side, o in operands.items()}
    rows = [r for r in WGMMA_TYPES if types.get("a", r.a[0]) in r.a and types.get("b", r.b[0]) in r.b]
    if operands and not rows:
        pair = " and ".join(f"{side.upper()} {dtype}" for side, dtype in types.items())
        yield finding("I602", where, title, f"{pair}: no wgmma multiplies these", "f16, bf16, tf32, e4m3/e5m2, s8/u8 or b1")
        return
    for side, operand in operands.items():
        if operand["major"] == "MN" and not any(r.transposes for r in rows):
            yield finding("I602", f"{where}.{side}.major", f"{title} {side}",
                          f"{types[side]} MN-major: wgmma transposes 16-bit types only", "store the operand K-major")  # fmt: skip
    if "kind" not in step or not rows:
        return
    row = rows[0]
    one = operands.get("a", {}).get("rows", WGMMA_M)
    if step["m"] % WGMMA_M or WGMMA_M < step["m"] <= one:
        yield finding(
            "I601", f"{where}.m", title, f"M = {max(step['m'], one)}: one wgmma has {WGMMA_M}, larger tiles take several", f"m = {WGMMA_M}"
        )
    if step["n"] not in row.n:
        near = min(row.n, key=lambda n: abs(n - step["n"]))
        yield finding(
            "I601",
            f"{where}.n",
            title,
            f"N = {step['n']}: wgmma with {row.a[0]} has {in_steps(row.n)}",
            f"n = {near}",
        )
    if operands and step["k"] != row.k * (2 if is_sparse(step) else 1):
        yield finding(
            "I601", f"{where}.k", title, f"K = {step['k']}: wgmma with {row.a[0]} has {row.k}, {2 * row.k} with .sp", f"k = {row.k}"
        )


def idesc_with(word: int, d: InstrDescriptor, wanted: dict[str, Any]) -> int | None:
    """The word with other values in some fields and all the rest as it is; None where the kind cannot hold them, or the word's own."""
    now = {name: getattr(d, name) for name in ("m", "n", "a_type", "b_type", "d_type", "a_major", "b_major")}
    try:
        before, after = (InstrDescriptor(kind=d.kind, **fields).word for fields in (now, now | wanted))
    except ValueError:
        return None
    kept = cleared = word ^ before ^ after
    for _, field, _ in d.table.constants(kept):  # a field written where another kind has it leaves its bits in reserved ones
        cleared = cleared & ~(field.mask << field.low) | (field.want or 0) << field.low
    for new in (InstrDescriptor.decode(x, kind=d.kind) for x in (kept, cleared)):
        right = all(getattr(new, name) == value for name, value in wanted.items())
        if right and not any(one.code == "I603" for one in new.problems()):
            return new.word
    return None


def is_sparse(step: dict[str, Any]) -> bool:
    """Does the step say that A is sparse, by itself or in the name of its instruction?"""
    return bool(step.get("sparse")) or ".sp" in step.get("kind", "") + step.get("instruction", "")


def _group_of(step: dict[str, Any], operands: dict[str, Any], given: int | None) -> int | None:
    """CTAs that work together: as the scenario says, or as the rows say that one CTA holds."""
    if given is not None:
        return given
    rows = operands.get("a", {}).get("rows")
    return 1 if rows == step["m"] else 2 if rows == step["m"] // 2 else None


def _shape(where: str, title: str, step: dict[str, Any], kind: str, cta_group: int | None) -> Iterator[CheckFinding]:
    shapes = shapes_of(kind_of(kind), cta_group=cta_group, ws=None, sparse=False, wide_k=False)
    m, n, k = step["m"], step["n"], step["k"]
    ms, ns = sorted({x for s in shapes for x in s.m}), sorted({x for s in shapes for x in s.n})
    for name, value, legal in (("m", m, ms), ("n", n, ns)):
        if value not in legal:
            near = min(legal, key=lambda x: abs(x - value))
            yield finding(
                "I601", f"{where}.{name}", title, f"{name.upper()} = {value}: kind {kind} has {in_steps(legal)}", f"{name} = {near}"
            )
            return
    with_m = {x for s in shapes if m in s.m for x in s.n}
    if n not in with_m:
        near = min(with_m, key=lambda x: abs(x - n))
        yield finding("I601", f"{where}.n", title, f"N = {n}: kind {kind} with M = {m} has {in_steps(with_m)}", f"n = {near}")
    dense = KINDS[kind].k
    if k not in ((2 * dense,) if is_sparse(step) else (dense, WIDE_K if KINDS[kind].has_wide_k else dense)):
        yield finding("I601", f"{where}.k", title, f"K = {k}: kind {kind} has {dense}, {2 * dense} with .sp", f"k = {dense}")


def _tcgen05_type(machine: Machine, where: str, title: str, operand: dict[str, Any]) -> Iterator[CheckFinding]:
    """MN-major 32-bit types need 32-byte atoms."""
    fmt, word = element_format(operand["dtype"]), _word(operand)
    if word is None:
        return
    swizzle = SmemDescriptor.decode(word, arch=machine.arch).swizzle
    if operand["major"] == "MN" and fmt.bits == 32 and swizzle not in (Swizzle.B128_ATOM_32B, Swizzle.INVALID):
        yield finding("I602", f"{where}.major", title, f"{fmt.name} MN-major with swizzle {swizzle}: 32-bit types are MN-major with 128B_ATOM_32B only",
                      "write layout code 1 and lay the tile out in 32-byte atoms, or store it K-major")  # fmt: skip


def _word(operand: dict[str, Any]) -> int | None:
    words = operand.get("words")
    if words:
        first = words[0]
        return int(first[0] if isinstance(first, list) else first)
    return operand.get("word")


def _idesc(
    machine: Machine, where: str, title: str, step: dict[str, Any], operands: dict[str, Any], kind: str, cta_group: int | None
) -> Iterator[CheckFinding]:
    """The instruction descriptor against the step, then its own rules."""
    word = step["idesc"]
    if not 0 <= word < 1 << 32:
        yield finding("I603", f"{where}.idesc", title, f"idesc = {word:#x}: needs 32 bits")
        return
    d = InstrDescriptor.decode(word, kind=kind)
    differ = []
    for name in ("m", "n"):
        if getattr(d, name) != step[name]:
            differ.append((name, getattr(d, name), step[name]))
    for side, operand in operands.items():
        if getattr(d, f"{side}_type") != element_format(operand["dtype"]).name:
            differ.append((f"{side}_type", getattr(d, f"{side}_type"), element_format(operand["dtype"]).name))
        if getattr(d, f"{side}_major") != operand["major"]:
            differ.append((f"{side}_major", getattr(d, f"{side}_major"), operand["major"]))
    if differ:
        listed = ", ".join(f"{name} {has} (the step has {wanted})" for name, has, wanted in differ)
        new = idesc_with(word, d, {name: wanted for name, _, wanted in differ})
        yield finding("I603", f"{where}.idesc", title, f"{word:#010x} of kind {kind} says {listed}",
                      "build it with smemsim.InstrDescriptor" if new is None else f"idesc = {new:#010x}",
                      fix=None if new is None else (f"{where}.idesc", f"{word:#010x}", f"{new:#010x}"),
                      numbers={name: [has, wanted] for name, has, wanted in differ}, grade="documented")  # fmt: skip
        return
    context: dict[str, Any] = {"arch": machine.arch, "cta_group": cta_group}
    for side, operand in operands.items():
        first = _word(operand)
        if first is not None:
            swizzle = SmemDescriptor.decode(first, arch=machine.arch).swizzle
            if swizzle is not Swizzle.INVALID:
                context[f"swizzle_{side}"] = str(swizzle)
    for one in d.problems(**context):
        if one.severity is not Severity.NOTE:
            yield finding(one.code, f"{where}.idesc", title, one.message, one.repair, severity=one.severity)
