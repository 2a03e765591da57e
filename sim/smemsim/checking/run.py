"""A scenario's steps in their order; and the same again with other values, to try a repair."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

from smemsim.checking.buffers import buffers_of
from smemsim.checking.simulate import Machine, Rerun, no_rerun
from smemsim.checking.tensors import tensors_of
from smemsim.checking.threads import threads_step
from smemsim.errors import SmemsimError
from smemsim.spec.architectures import architecture

__all__ = ["before", "machine_of", "rerun_of", "transfer", "value_at", "with_values"]


def machine_of(raw: dict[str, Any]) -> Machine:
    """A machine before its first step."""
    machine = architecture(raw["arch"])
    return Machine(machine.name, machine.shared_end, tensors_of(raw), buffers_of(raw), raw.get("map") or {})


def transfer(machine: Machine, raw: dict[str, Any], number: int, rerun: Rerun = no_rerun) -> None:
    """A step that moves bytes; others leave shared memory as it is."""
    step = raw["step"][number]
    if step["op"].startswith("tma_"):
        machine.tensor_step(number, step)
    elif step["op"] == "bulk":
        machine.bulk_step(number, step)
    elif step["op"] == "threads":
        threads_step(machine, number, step, hardware=_hardware(raw), rerun=rerun)


def rerun_of(raw: dict[str, Any], number: int) -> Rerun:
    """The steps before step `number` again, with other values at some paths; `until` and `only` take other steps. None if any of that is refused."""

    def again(changes: Mapping[str, Any], until: int | None = None, only: int | None = None) -> Machine | None:
        end = number if until is None else until
        return _after(with_values(raw, changes), range(end) if only is None else (only,), whole=bool(changes))

    return again


def before(raw: dict[str, Any], until: int) -> Machine | None:
    """Shared memory as it is before a step; None where something is refused."""
    return _after(raw, range(until), whole=True)


def _after(raw: dict[str, Any], steps: Iterable[int], *, whole: bool) -> Machine | None:
    """`whole`: None where a map is refused."""
    try:
        machine = machine_of(raw)
        machine.encode_maps()
        if machine.findings and whole:
            return None
        for one in steps:
            transfer(machine, raw, one)
    except SmemsimError:
        return None
    return machine


def with_values(raw: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario with other values at paths like `step[1].a.word`; the original stays as it is.

    >>> with_values({"step": [{"at": [0, 0]}]}, {"step[0].at": [64, 0]})
    {'step': [{'at': [64, 0]}]}
    """
    changed = copy.deepcopy(raw)
    for path, value in changes.items():
        *way, last = _keys(raw, path)
        place: Any = changed
        for part in way:
            place = place[part]
        place[last] = value
    return changed


def value_at(raw: dict[str, Any], path: str) -> Any:
    """What stands at a path, None where nothing does."""
    place: Any = raw
    for part in _keys(raw, path):
        place = place.get(part) if isinstance(place, dict) else place[part]
    return place


def _keys(raw: Any, path: str) -> list[Any]:
    """The keys of a path; names of tables may have dots."""
    rest, place = re.findall(r"[^.\[\]]+", path), raw
    keys: list[Any] = []
    while rest:
        size = next((n for n in range(len(rest) - 1, 1, -1) if isinstance(place, dict) and ".".join(rest[:n]) in place), 1)
        key: Any = int(rest[0]) if isinstance(place, list) else ".".join(rest[:size])
        keys, rest = [*keys, key], rest[size:]
        place = place[key] if isinstance(place, list) else place.get(key) if isinstance(place, dict) else None
    return keys


def _hardware(raw: dict[str, Any]) -> set[str]:
    """Buffers that TMA or the tensor core touch."""
    names = {step.get("to", step.get("from")) for step in raw.get("step", []) if step["op"].startswith("tma_")}
    return names | {
        step[side].get("start")
        for step in raw.get("step", [])
        for side in "ab"
        if side in step and isinstance(step[side].get("start"), str)
    }
