"""`check`: a fault planted in a random correct plan: the first finding has to name it, or the operand reads right all
the same, and the repair works.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.errors import HardwareTrap, InputError, InternalError, Unmodelled
from smemsim.campaign.space import Case, Space, drawn, one_by_one, shrunk
from smemsim.campaign.spaces.plans import forms, legal, simpler
from smemsim.core.finding import TensorMapError
from smemsim.core.machine.tma import tma_load
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.swizzles import MODES
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.check import check
from smemsim.planning.arrangement import IllegalPlan
from smemsim.planning.make import unchecked

__all__ = ["FAULTS", "SPACE", "changed", "judged", "planted", "reads_right"]


CHUNK_CASES = 16
NOT_RIGHT = "wrong: "  # how the classes of troubles begin


class Fault(NamedTuple):
    """A mistake: its place, the wrong value (None if it has no effect on this plan), and the codes that name it."""

    path: str
    change: Callable[[Any, random.Random, str], Any]
    codes: str


def _word(change: Callable[[SmemDescriptor, random.Random], dict[str, Any] | None]) -> Callable[[Any, random.Random, str], Any]:
    """A change of a descriptor's fields, in bytes, kept to the bits that the fields have."""

    def made(word: int, rng: random.Random, arch: str) -> int | None:
        d = SmemDescriptor.decode(word, arch=arch)
        fields = change(d, rng)
        if fields is None:
            return None
        for name, value in fields.items():
            if name in d.table.fields:
                field = d.table.fields[name]
                fields[name] = value & (field.mask << field.shift)
        given = {
            name: getattr(d, name) for name in ("start_address", "leading_byte_offset", "stride_byte_offset", "swizzle", "base_offset")
        }
        return SmemDescriptor(arch=arch, **given | fields).encode()

    return made


def _other_swizzle(d: SmemDescriptor, rng: random.Random) -> dict[str, Any]:
    return {"swizzle": rng.choice([s for s in layout_codes(d.table).values() if s is not d.swizzle])}


def _exchanged(d: SmemDescriptor, _: random.Random) -> dict[str, Any]:
    return {"leading_byte_offset": d.stride_byte_offset, "stride_byte_offset": d.leading_byte_offset}


def _map_swizzle(name: str, rng: random.Random, _: str) -> str:
    return rng.choice([s for s in ("SWIZZLE_NONE", "SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B") if s != name])


_STRIDE, _START = "R502 R503 R504 R508 D308", "R508 R502 R503 R504"
# fmt: off
FAULTS: dict[str, Fault] = {
    "SBO in bytes":               Fault("word", _word(lambda d, _: {"stride_byte_offset": d.stride_byte_offset * 16}), "D301 D308 D309 A107"),  # D309: 16 times SBO can be LBO
    "SBO doubled":                Fault("word", _word(lambda d, _: {"stride_byte_offset": 2 * d.stride_byte_offset}), "D308 D309 A107"),  # that can be LBO, too
    "LBO doubled":                Fault("word", _word(lambda d, _: {"leading_byte_offset": 2 * d.leading_byte_offset}), "D308 A107"),
    "LBO and SBO exchanged":      Fault("word", _word(_exchanged), "D309 D308 A107"),
    "another layout code":        Fault("word", _word(_other_swizzle), "D302 R501 I602"),
    "a base offset":              Fault("word", _word(lambda d, rng: {"base_offset": rng.randrange(1, 8)} if MODES[d.swizzle].mask else None), "D306"),
    "K steps that do not advance": Fault("k_add", lambda x, *_: [0] * len(x), f"{_STRIDE}"),
    "K steps twice as far":       Fault("k_add", lambda x, *_: [2 * y for y in x], f"{_STRIDE} A107 D304"),
    "blocks that do not advance": Fault("mn_add", lambda x, *_: [0] * len(x), f"{_STRIDE}"),
    "another start":              Fault("start_offset", lambda x, rng, _: x + 16 * rng.randrange(1, 64), f"{_START} A107 R507"),
    "low bits lost":              Fault("start_offset", lambda x, rng, _: x + rng.randrange(1, 16), "D303"),
    "the other major-ness":       Fault("major", lambda x, *_: "MN" if x == "K" else "K", "R505 I602 I601 I603"),
    "idesc of the other major-ness": Fault("mma idesc", lambda *_: None, "I603 I602"),
    "written with another swizzle": Fault("map swizzle", _map_swizzle, "R501 D302 T202 T203 T205 A107"),
    "another stride":             Fault("map global_strides", lambda x, *_: [2 * y for y in x], "T207"),
    "a buffer off 128 B":         Fault("buffer address", lambda x, *_: x + 64, "A101"),
    "half the buffer":            Fault("buffer bytes", lambda x, *_: x // 2, "A107"),
    "another byte count":         Fault("load expect_bytes", lambda x, *_: 2 * x, "T210"),
}
# fmt: on


def changed(scenario: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a scenario with another value at a path like `step[1].a.word`.

    >>> changed({"step": [{"a": {"k": 1}}]}, "step[0].a.k", 2)
    {'step': [{'a': {'k': 2}}]}
    """
    other = copy.deepcopy(scenario)
    *way, last = (int(part) if part.isdigit() else part for part in path.replace("[", ".").replace("]", "").split("."))
    place: Any = other
    for part in way:
        place = place[part]
    place[last] = value
    return other


def _transposed(step: dict[str, Any], side: str) -> int | None:
    """The instruction descriptor with the operand's other major-ness; None where there is none, or no bit for it."""
    field = KINDS[step["kind"]].word.fields.get(f"transpose_{side}") if "idesc" in step else None
    return None if field is None else int(step["idesc"]) ^ 1 << field.low


def planted(scenario: dict[str, Any], name: str, rng: random.Random) -> dict[str, Any] | None:
    """The scenario of a plan with a fault in its first load or its first instruction; None where the fault changes
    nothing.
    """
    fault, steps = FAULTS[name], scenario["step"]
    side = "a" if "a" in steps[1] else "b"
    other = _transposed(steps[1], side)
    if fault.path == "mma idesc":
        return None if other is None else changed(scenario, "step[1].idesc", other)
    if fault.path == "major" and other is not None:  # a kernel that takes the operand for K-major would write this word
        scenario = changed(scenario, "step[1].idesc", other)
    table, _, key = fault.path.rpartition(" ")
    prefix = {
        "": f"step[1].{side}.", "map": f"map.{steps[0]['map']}.", "buffer": f"buffer.{steps[0]['to']}.", "load": "step[0].",
    }[table]  # fmt: skip
    there: Any = scenario
    for part in prefix.rstrip(".").replace("[", ".").replace("]", "").split("."):
        there = there[int(part) if part.isdigit() else part]
    old = there.get(key, 0)
    new = fault.change(old, rng, scenario["arch"])
    return None if new is None or new == old else changed(scenario, f"{prefix}{key}", new)


def reads_right(scenario: dict[str, Any]) -> bool | None:
    """Does every instruction read what it should, by `tma_load` and `operand_addresses` alone? None if a step traps or
    is not modelled.
    """
    arch = scenario["arch"]

    window = np.full(1 << 18, -1, np.int64)
    for step in scenario["step"]:
        if step["op"] == "tma_load":
            given = dict(scenario["map"][step["map"]])
            tensor = scenario["tensor"][given.pop("of")]
            buffer = scenario["buffer"][step["to"]]
            base = buffer["address"] + step.get("stage", 0) * buffer.get("stage_bytes", 0)
            try:
                tm = TensorMap.tiled(**given | {"global_address": tensor["address"]})
                for offset, at in zip(step["offset"], step["at"], strict=True):
                    load = tma_load(tm, at, smem_address=base + offset, arch=arch)
                    window[load.shared_address] = load.global_address
            except (TensorMapError, HardwareTrap, Unmodelled):
                return None

            continue
        operand = step["a"] if "a" in step else step["b"]
        tensor = scenario["tensor"][operand["meant"]["tensor"]]
        if element_format(operand["dtype"]).bits < 8 or (operand["dtype"] != tensor["dtype"]):
            return None
        buffer = scenario["buffer"][operand["start"]]
        field = architecture(arch).smem_descriptor.fields["start_address"]
        axis, k_axis = operand["meant"]["axes"]
        rows, k, (row0, k0) = operand["rows"], step["k"], operand["meant"]["at"]
        for block, mn_add in enumerate(np.atleast_1d(operand["mn_add"]).tolist()):
            for number, k_add in enumerate(np.atleast_1d(operand["k_add"]).tolist()):
                base = buffer["address"] + operand.get("stage", 0) * buffer.get("stage_bytes", 0) + operand.get("start_offset", 0)
                start = field.raw(operand["word"]) + (base + mn_add + k_add >> field.shift) & field.mask
                word = operand["word"] & ~(field.mask << field.low) | start << field.low
                try:
                    at = operand_addresses(word, arch=arch, dtype=operand["dtype"], major=operand["major"], rows=rows, k=k)
                except Unmodelled:
                    return None
                if at.max() >= len(window):
                    return False
                mn, kk = row0 + block * rows + np.arange(rows)[:, None], k0 + number * k + np.arange(k)
                want = tensor["address"] + mn * tensor["stride"][axis] + kk * tensor["stride"][k_axis]
                outside = (mn >= tensor["extent"][axis]) | (kk >= tensor["extent"][k_axis])
                if (window[at] != np.where(outside, -1, want)).any():
                    return False
    return True


def _number(value: Any) -> Any:
    """A number as text; words in hex."""
    if isinstance(value, list):
        return [_number(one) for one in value]
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def judged(scenario: dict[str, Any], codes: str) -> tuple[str, str]:
    """(how well `check` names a fault whose codes these are, what is wrong about that)."""
    try:
        report = check(scenario)
    except Unmodelled:
        return "nobody knows what it does", ""
    except InputError as e:
        return "refused", "" if str(e) else "an InputError without a sentence"
    findings = [f for f in report.findings if f.severity is not Severity.NOTE]
    right = reads_right(scenario)
    if not findings:
        if right is False:
            return f"{NOT_RIGHT}missed", "the operand reads other elements and check finds nothing"
        return "reads right all the same" if right else "clean, reads not compared", ""
    first = findings[0]
    if first.code not in codes.split() and not right and first.severity is not Severity.LUCK:
        return f"{NOT_RIGHT}another cause", f"the first finding is not one of {codes}: {first}"
    if first.fix is None:
        return f"named {first.code}, no single repair", ""
    path, _, new = first.fix
    after = check(changed(scenario, path, _number(new)))
    if after.codes:
        return f"{NOT_RIGHT}the repair leaves findings", f"{first.code} {path} = {new}: then {after.findings[0]}"
    return f"named {first.code}, repaired", ""


def _tried(arguments: dict[str, Any], name: str, form: str, seed: str) -> tuple[str, str, dict[str, Any] | None]:
    """(class, what is wrong, the scenario) of one fault in one plan."""
    try:
        plan = unchecked(**arguments)
    except (IllegalPlan, Unmodelled, InternalError):
        return "no plan", "", None
    if form not in forms(plan):
        return "no plan", "", None
    scenario = planted({k: v for k, v in plan.scenario(form).items() if k != "expect"}, name, random.Random(seed))
    if scenario is None:
        return "changes nothing", "", None
    return (*judged(scenario, FAULTS[name].codes), scenario)


def case(seed: int, chunk: int, number: int) -> Case:
    """One fault in one plan."""
    rng = drawn("check", seed, chunk, number)
    try:
        arguments, plan = legal(rng)
    except InternalError as e:
        return Case(f"{NOT_RIGHT}a plan contradicts itself", {}, str(e))
    name, form, within = rng.choice(list(FAULTS)), rng.choice(forms(plan)), f"{rng.getrandbits(64)}"
    of, wrong, scenario = _tried(arguments, name, form, within)
    shown: dict[str, Any] = {"plan": arguments, "form": form, "fault": name}
    if wrong:
        small = shrunk(arguments, simpler, lambda other: _tried(other, name, form, within)[0] == of, 40)
        shown |= {"small": small, "scenario": _tried(small, name, form, within)[2] or scenario}
    return Case(f"{of}: {name}" if wrong else f"{name}: {of}", shown, wrong)


SPACE = Space("check", "faults planted in random correct plans: check must name them and its repairs must work",
              one_by_one("check", case, CHUNK_CASES), CHUNK_CASES, case)  # fmt: skip
