"""Planned operand tiles, scenarios that are right, and scenarios in which one value was broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from smemsim.base.arguments import whole
from smemsim.base.errors import InputError, Unmodelled
from smemsim.campaign.spaces.faults import changed
from smemsim.core.finding import Path
from smemsim.core.spec.architectures import ARCHITECTURES, Architecture, architecture
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.tensor_map import LIMITS, SWIZZLES
from smemsim.diagnosis.check import check
from smemsim.planning.arrangement import STACKS
from smemsim.planning.make import Plan, unchecked
from smemsim.testing.strategies.descriptors import chosen, is_grave, other_words, readable, swizzles_of

__all__ = ["FAULTS", "Fault", "faulty_scenarios", "plans", "scenarios"]


SIDES, MAJORS, FORMS = ("a", "b"), ("K", "MN"), ("loop", "box")
Draw = Callable[[st.SearchStrategy[Any]], Any]


def plans(
    *,
    arch: str | None = None,
    dtypes: Any = None,
    majors: Any = None,
    swizzles: Any = None,
    sides: Any = None,
    most_rows: int = 128,
    most_k: int = 128,
    most_stages: int = 2,
) -> st.SearchStrategy[Plan]:
    """Operand tiles that `smemsim.plan` plans, of at most `most_rows` x `most_k` elements; None is every architecture,
    type, major, mode, side.

    They are not simulated once more: `smemsim.plan(**plan.arguments)` does. InputError for names that do not exist, and
    where no instruction reads what is left.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(plans(arch="sm_90a", dtypes="bf16", majors="MN"))
    ... def law(plan):
    ...     assert plan.wish.major == "MN" and plan.tile_bytes <= 128 * 128 * 2
    >>> law()
    """
    machines = [architecture(arch)] if arch is not None else list(ARCHITECTURES.values())
    known = tuple(dict.fromkeys(name for machine in machines for name in machine.mma_types if FORMATS[name].bits > 1))
    names, some, which = chosen("dtypes", dtypes, known), chosen("majors", majors, MAJORS), chosen("sides", sides, SIDES)
    modes = swizzles_of(swizzles, dict.fromkeys(mode for machine in machines for mode in layout_codes(machine.smem_descriptor).values()))
    rows = [
        (machine.name, *row[:2], row[3])
        for machine in machines
        for row in readable(machine)
        if row[0] in names and row[1] in some and row[3] in modes
    ]
    if not rows:
        raise InputError(
            f"plans: no instruction reads {' '.join(names)} {' or '.join(some)}-major with swizzle {' '.join(map(str, modes))}"
        )
    extent = (whole("most_rows", most_rows, minimum=64), whole("most_k", most_k, minimum=1))
    return _plans(tuple(rows), which, *extent, whole("most_stages", most_stages, minimum=1))


@st.composite
def _plans(draw: Draw, rows: tuple[Any, ...], sides: tuple[str, ...], most_rows: int, most_k: int, most_stages: int) -> Plan:
    arch, dtype, major, swizzle = draw(st.sampled_from(rows))
    side = draw(st.sampled_from(sides))
    step = _k_of(architecture(arch), dtype)
    given = {
        "dtype": dtype,
        "major": major,
        "swizzle": swizzle,
        "arch": arch,
        "side": side,
        "stack": draw(st.sampled_from(STACKS)),
        "stages": draw(st.integers(1, most_stages)),
    }
    tall = 64 if side == "a" else 16
    extent = tall * draw(st.integers(1, most_rows // tall))
    k = step * draw(st.integers(1, max(1, most_k // step)))
    try:
        return unchecked(extent, k, **given)
    except (InputError, Unmodelled):
        reject()


def _k_of(machine: Architecture, dtype: str) -> int:
    """Elements of K in the rows of one instruction's operand."""
    size = next(size for size in machine.k_row_bytes if size >= 32)
    return size * 8 // FORMATS[dtype].bits


@st.composite
def _scenarios(draw: Draw, drawn: st.SearchStrategy[Plan]) -> dict[str, Any]:
    plan = draw(drawn)
    form = draw(st.sampled_from(FORMS if plan.box is not None else FORMS[:1]))
    made: dict[str, Any] = plan.scenario(form)
    return made


def scenarios(**options: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Scenarios in which every instruction reads what it means to: those of `plans`, which takes the options, with one
    box or several.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=3, derandomize=True, deadline=None)
    ... @given(scenarios(arch="sm_90a", dtypes="bf16", swizzles="128B"))
    ... def law(scenario):
    ...     assert check(scenario).ok
    >>> law()
    """
    return _scenarios(plans(**options))


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault that was planted in a scenario: the value at `path` (as findings name it), `old` and `new`. Its name in
    `FAULTS` is `kind`.
    """

    kind: str
    path: str
    old: Any
    new: Any


def _descriptor(field: str) -> Callable[[Draw, dict[str, Any], Path], Any]:
    """A fault: another value in one field of the operand's descriptor, in its own units."""

    def broken(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
        word = (operand / "word").within(raw)
        return operand / "word", draw(other_words(word, architecture(raw["arch"]).smem_descriptor.fields[field]))

    return broken


def _layout(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
    table = architecture(raw["arch"]).smem_descriptor
    word, field = (operand / "word").within(raw), table.fields["layout_type"]
    other = [code for code in layout_codes(table) if code != field.raw(word)]
    return operand / "word", word & ~(field.mask << field.low) | draw(st.sampled_from(other)) << field.low


def _advance(key: str) -> Callable[[Draw, dict[str, Any], Path], Any]:
    """One K step, or one block of rows, begins elsewhere."""

    def broken(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
        values = list((operand / key).within(raw))
        i = draw(st.integers(0, len(values) - 1))
        values[i] = draw(st.sampled_from(sorted({values[i] + CHUNK, values[i] + 2 * CHUNK, 2 * values[i], values[i] // 2} - {values[i]})))
        return operand / key, values

    return broken


def _start(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
    return operand / "start_offset", CHUNK * draw(st.integers(1, 128))


def _major(_: Draw, raw: dict[str, Any], operand: Path) -> Any:
    return operand / "major", "MN" if (operand / "major").within(raw) == "K" else "K"


def _address(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
    path = Path.of("buffer", (operand / "start").within(raw), "address")
    return path, path.within(raw) + CHUNK * draw(st.integers(1, LIMITS.smem_alignment // CHUNK - 1))


def _map_swizzle(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
    path = Path.of("map", f"tm{operand.side.upper()}", "swizzle")
    legal = [code.name for code in SWIZZLES if code < len(SWIZZLES) and code.name != path.within(raw)]
    return path, draw(st.sampled_from(legal))


def _box(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
    path = Path.of("map", f"tm{operand.side.upper()}", "box_dim")
    values = list(path.within(raw))
    i = draw(st.integers(0, len(values) - 1))
    values[i] = draw(st.sampled_from(sorted({values[i] // 2, values[i] - 1, values[i] + 1, values[i] * 2})))
    return path, values


def _coordinate(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
    path = Path.of("step", (operand.step or 0) - 1, "at")
    values = [list(at) for at in path.within(raw)]
    i = draw(st.integers(0, len(values) - 1))
    values[i][draw(st.integers(0, len(values[i]) - 1))] += draw(st.sampled_from((8, 16, 64)))
    return path, values


def _expect(draw: Draw, raw: dict[str, Any], operand: Path) -> Any:
    path = Path.of("step", (operand.step or 0) - 1, "expect_bytes")
    was = path.within(raw)
    return path, draw(st.sampled_from(sorted({was + CHUNK, was // 2, was * 2})))


# What can be broken, by name.
FAULTS: dict[str, Callable[[Draw, dict[str, Any], Path], Any]] = {
    "stride_byte_offset": _descriptor("stride_byte_offset"),
    "leading_byte_offset": _descriptor("leading_byte_offset"),
    "base_offset": _descriptor("base_offset"),
    "layout_type": _layout,
    "start": _start,
    "k_add": _advance("k_add"),
    "mn_add": _advance("mn_add"),
    "major": _major,
    "address": _address,
    "map_swizzle": _map_swizzle,
    "box_dim": _box,
    "coordinate": _coordinate,
    "expect_bytes": _expect,
}


def faulty_scenarios(*, faults: Any = None, **options: Any) -> st.SearchStrategy[tuple[dict[str, Any], Fault]]:
    """(scenario, the broken part): a scenario of `scenarios` with one other value, for which `smemsim.check` finds a
    trap or wrong numbers.

    `faults` are names of `FAULTS`, None for all. Other options are those of `plans`. The scenario has no `[expect]`.
    Raises InputError for unknown names.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=3, derandomize=True, deadline=None)
    ... @given(faulty_scenarios(arch="sm_90a", dtypes="bf16", most_rows=64, most_k=64, faults="layout_type"))
    ... def law(found):
    ...     assert not check(found[0]).ok and found[1].path.endswith(".word")
    >>> law()
    """
    return _faulty(scenarios(**options), chosen("faults", faults, FAULTS))


@st.composite
def _faulty(draw: Draw, right: st.SearchStrategy[dict[str, Any]], faults: tuple[str, ...]) -> tuple[dict[str, Any], Fault]:
    raw = draw(right)
    kind = draw(st.sampled_from(faults))
    places = [Path.of("step", number, side) for number, step in enumerate(raw["step"]) for side in SIDES if side in step]
    path, new = FAULTS[kind](draw, raw, draw(st.sampled_from(places)))
    fault = Fault(kind, str(path), path.within(raw), new)
    broken = changed({key: value for key, value in raw.items() if key != "expect"}, str(path), new)
    try:
        findings = check(broken).findings
    except (InputError, Unmodelled):
        reject()
    if not is_grave(findings):
        reject()
    return broken, fault
