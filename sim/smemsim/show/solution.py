"""The results of the solver, for people: the words, their fields, the K steps. If there are none, it is the proof, and
the nearest descriptor.
"""

from __future__ import annotations

from smemsim.core.layout.conflicts import ConflictAnswer, ConflictFree
from smemsim.core.picture.lines import table_lines
from smemsim.core.picture.table import Column, Line, Table
from smemsim.core.spec.architectures import architecture
from smemsim.diagnosis.covered import UNMEASURED
from smemsim.diagnosis.descriptors.answers import Answer, FoundDescriptor, Nearest
from smemsim.diagnosis.parts import element_name
from smemsim.diagnosis.product import ProductExplanation

__all__ = ["answer_view", "conflicts_view", "explanation_view"]


SHOWN = 16


def answer_view(answer: Answer) -> list[Line]:
    """The whole answer in lines."""
    lines: list[Line] = []
    if answer.descriptors:
        more = "" if answer.complete else "; there are more"
        if answer.ambiguous:
            more += ". The contents repeat, so they do not show which one is meant: use data whose elements differ"
        count = len(answer.descriptors)
        lines.append(Line([(f"OK: {count} descriptor{'s read' if count > 1 else ' reads'} the operand{more}", "bold")]))
        lines += _table(answer.descriptors)
        for number, one in enumerate(answer.descriptors[: 0 if answer.ambiguous else SHOWN]):
            lines += _steps(number, one)
    else:
        lines.append(Line([("WRONG: no descriptor was found" if answer.ambiguous else "WRONG: no descriptor reads the operand", "red")]))
        lines += [Line([("  " + text, "")]) for text in answer.why.split("; ")]
    if answer.shared:
        lines.append(Line([(answer.shared, "yellow")]))
    if answer.ambiguous and answer.descriptors:
        lines.append(Line([(answer.ambiguous, "yellow")]))
    if answer.nearest is not None:
        lines += _nearest(answer.nearest)
    if answer.descriptors and answer.unmodelled:
        lines += [Line([(f"not considered: {text}", "dim")]) for text in answer.unmodelled]
    arch = architecture(answer.arch)
    known = "measured on an H200" if arch.measured else f"{UNMEASURED}: nothing is measured on Blackwell"
    lines.append(Line([(f"rules for {answer.arch} are {known}", "dim")]))
    return lines


def _table(descriptors: tuple[FoundDescriptor, ...]) -> list[Line]:
    rows = []
    for number, descriptor in enumerate(descriptors[:SHOWN]):
        bases = "any" if len(descriptor.base_offsets) == 8 else " ".join(str(base) for base in descriptor.base_offsets)
        swizzle = f"{descriptor.swizzle}{' absolute' if descriptor.absolute else ''}"
        strides = ["any" if x is None else str(x) for x in (descriptor.leading, descriptor.stride)]
        first = int(descriptor.words[0, 0])
        rows.append((f"{number}", f"{first:#018x}", swizzle, f"{int(descriptor.starts[0, 0]):#x}", *strides, bases, str(descriptor.grade)))
    columns = tuple(map(Column, ("", "first word", "swizzle", "start", "LBO", "SBO", "base offset", "grade")))
    lines = table_lines(Table(columns, tuple(rows)))
    if len(descriptors) > SHOWN:
        lines.append(Line([(f"   … {len(descriptors) - SHOWN} more (--json has all)", "dim")]))
    return lines


def _steps(number: int, descriptor: FoundDescriptor) -> list[Line]:
    """The advance table of words that are more than one."""
    if descriptor.words.size == 1 and descriptor.sure:
        return []
    lines = [Line([(f"words of {number}: block, step, word, start, bytes from the first", "dim")])]
    for block, row in enumerate(descriptor.words.tolist()):
        for step, word in enumerate(row):
            some = descriptor.alternatives[block][step]
            other = f"  or {len(some) - 1} other starts with the same contents" if len(some) > 1 else ""
            start, by = int(descriptor.starts[block, step]), int(descriptor.advance[block, step])
            lines.append(Line([(f"  {block:>3} {step:>3}  {word:#018x}  {start:#x}  {by:+}{other}", "")]))
    return lines


def _nearest(near: Nearest) -> list[Line]:
    first = element_name(near.first, near.reads.shape)
    lies = f"lies at {near.lies:#x}" if near.lies >= 0 else "lies nowhere"
    should = int(near.reads[near.first])
    return [
        Line([(f"nearest of those that were tried: {int(near.found.words[0, 0]):#018x} {near.found.descriptor!r}", "")]),
        Line([(f"  reads {near.right} of {near.of} elements right; the first wrong one is {first}:", "")]),
        Line([(f"  it {lies}, and would have to lie at {should:#x}; {near.of - near.right} elements would have to move", "")]),
    ]


def explanation_view(explanation: ProductExplanation) -> list[Line]:
    """The explanation of a wrong D as lines of text: the wrong elements, and the faults that give them."""
    lines = [
        Line(
            [
                (
                    {"the same": "OK: D is the same", "unknown": "WRONG: no fault that smemsim knows gives this D (unknown)"}.get(
                        explanation.looks_like, f"WRONG: looks like {explanation.looks_like}"
                    ),
                    "bold",
                )
            ]
        )
    ]
    lines.append(Line([(explanation.pattern, "")]))
    lines += [Line([(f"  {text}", "")]) for text in explanation.because]
    fields = [f"{one.operand}: {one.field}" for one in explanation.faults]
    if fields:
        lines.append(Line([(f"look at {', or '.join(dict.fromkeys(fields))}", "bold")]))
    known = "measured on an H200" if explanation.measured else f"{UNMEASURED}: nothing is measured on Blackwell"
    lines.append(Line([(f"rules are {known}", "dim")]))
    return lines


def conflicts_view(answer: ConflictAnswer, *, element_bytes: int, pitch: int) -> list[Line]:
    """The cost of accesses in banks now, and the layouts that free them of conflicts, as source text."""
    rows = tuple((a.name or a.op, str(a.cost), str(a.ideal)) for a in answer.accesses)
    lines = [*table_lines(Table(tuple(map(Column, ("access", "wavefronts", "without conflicts"))), rows))]
    if answer.now == answer.ideal:
        return [*lines, Line([("no access has bank conflicts", "bold")])]
    if not answer.layouts:
        lines.append(Line([(f"none of {answer.tried} layouts is free of conflicts for all accesses", "red")]))
        if answer.nearest is not None and answer.nearest.wavefronts < answer.now:
            lines.append(Line([(f"nearest: {answer.nearest.says}, {_wavefronts(answer.nearest.wavefronts)} instead of {answer.now}", "")]))
        return lines
    for kind in (True, False):
        for one in [x for x in answer.layouts if (x.swizzle is not None) == kind][:2]:
            lines += _layout_lines(one, element_bytes, pitch)
    lines.append(Line([(f"tried on these accesses: {_wavefronts(answer.ideal)} instead of {answer.now}", "dim")]))
    return lines


def _wavefronts(count: int) -> str:
    return f"{count} wavefront{'s' * (count != 1)}"


def _layout_lines(one: ConflictFree, element_bytes: int, pitch: int) -> list[Line]:
    texts = (("CuTe", one.cute(element_bytes)), ("CUDA", one.cuda(element_bytes)), ("Triton", one.triton(element_bytes, pitch)))
    words = f"{one.says}; elements of {element_bytes} B" if element_bytes > 1 else one.says
    return [Line([(words, "bold")]), *(Line([(f"  {name:<7} {text}", "")]) for name, text in texts if text)]
