"""A scenario's steps in their order; and the same again with other values, to try a repair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from smemsim.base.errors import InputError, SmemsimError
from smemsim.core.finding import Path, Value
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.tables import TableError
from smemsim.diagnosis.causes.threads import threads_step
from smemsim.diagnosis.scenario import BulkStep, ScenarioTables, TensorStep, ThreadsStep
from smemsim.diagnosis.scenario_machine import (
    Machine,
    Rerun,
    buffers_of,
    no_rerun,
)
from smemsim.diagnosis.tensors import tensors_of

__all__ = ["Reruns", "before", "machine_of", "transfer"]


def machine_of(scenario: ScenarioTables) -> Machine:
    """A machine before its first step."""
    try:
        arch = any_architecture(scenario.arch)
        if not arch.has_clusters:
            raise InputError(
                f"arch = {arch.name!r}: not an architecture with TMA or matrix descriptors, which scenarios are about (sm_90a and later)"
            )
    except InputError as e:
        raise TableError(str(e), Path.of("arch")) from None
    return Machine(arch.name, arch.shared_end, tensors_of(scenario), buffers_of(scenario), scenario.maps)


def transfer(machine: Machine, scenario: ScenarioTables, number: int, rerun: Rerun = no_rerun) -> None:
    """A step that moves bytes; others leave shared memory as it is."""
    match scenario.steps[number]:
        case TensorStep() as step:
            machine.tensor_step(number, step)
        case BulkStep() as step:
            machine.bulk_step(number, step)
        case ThreadsStep() as step:
            threads_step(machine, number, step, hardware=_hardware(scenario), rerun=rerun)


MOST_KEPT = 1_000  # steps times machines: each keeps what the steps before wrote


class Reruns:
    """Run the steps of a scenario again, with other values at some paths. Later operands continue with the values that
    earlier ones had tried.
    """

    def __init__(self, scenario: ScenarioTables) -> None:
        self._scenario = scenario
        self._left: dict[
            tuple[tuple[Path, str], ...], tuple[Machine | None, int]
        ] = {}  # by changes: the machine, and the step before which it stands

    def before(self, number: int) -> Rerun:
        """The steps before step `number`; `until` and `only` take other steps. None if any of that is refused."""

        def again(changes: Mapping[Path, Value], until: int | None = None, only: int | None = None) -> Machine | None:
            if only is None:
                return self._until(changes, number if until is None else until)
            changed = self._changed(changes)
            return None if changed is None else _after(changed, (only,), whole=bool(changes))

        return again

    def _changed(self, changes: Mapping[Path, Value]) -> ScenarioTables | None:
        changed = self._scenario
        try:
            for path, value in changes.items():
                changed = changed.with_change(path, value)
        except TableError:
            return None
        return changed

    def _until(self, changes: Mapping[Path, Value], end: int) -> Machine | None:
        key = tuple((path, repr(value)) for path, value in changes.items())
        machine, done = self._left.get(key, (None, 0))
        if done > end:
            machine, done = None, 0
        elif key in self._left and machine is None:
            return None
        changed = self._changed(changes)
        if changed is not None:
            machine = _after(changed, range(done, end), whole=bool(changes), machine=machine)
            if key in self._left or len(self._left) * end <= MOST_KEPT:
                self._left[key] = machine, end
        return machine


def before(scenario: ScenarioTables, until: int) -> Machine | None:
    """Shared memory as it is before a step; None where something is refused."""
    return _after(scenario, range(until), whole=True)


def _after(scenario: ScenarioTables, steps: Iterable[int], *, whole: bool, machine: Machine | None = None) -> Machine | None:
    """A machine, a new one if none is given, after these steps. `whole`: None where a map is refused."""
    try:
        if machine is None:
            machine = machine_of(scenario)
            machine.encode_maps()
            if machine.findings and whole:
                return None
        for number in steps:
            transfer(machine, scenario, number)
    except SmemsimError:
        return None
    return machine


def _hardware(scenario: ScenarioTables) -> set[str]:
    """Buffers that TMA or the tensor core touch."""
    names = {step.buffer for step in scenario.steps if isinstance(step, TensorStep)}
    return names | {operand.start for _, operand in scenario.operands() if isinstance(operand.start, str)}
