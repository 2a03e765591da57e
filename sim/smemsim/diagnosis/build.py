"""`smemsim.Scenario`: a scenario that is put together in Python from what a program has at hand."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.formats import element_format
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis import scenario as scenarios
from smemsim.diagnosis.scenario import plain_tables, read_scenario

__all__ = ["Scenario", "toml_value"]


# what people read in hex
HEX = ("word", "words", "idesc", "address", "base", "start", "global_address", "object_address")


class Scenario(metaclass=OwnMembers):
    """A scenario that is being built. Methods add tables and steps with the keys of the file format. They return the
    scenario.

    Pass it to `check(scenario)` like a file. The text of the file is `toml()` or `json()`. Descriptors may be words or
    `SmemDescriptor`s. Maps are the arguments of the encode call or a `TensorMap`.

    Raises InputError, like the file, for unknown keys and values.

    >>> from smemsim import Scenario
    >>> word = 0x4000000800010000
    >>> s = Scenario("sm_90a").tensor("A", "bf16", m=64, k=64).buffer("sA", address=0x400)
    >>> s = s.map("tmA", of="A", box_dim=(64, 64), swizzle="128B").step("tma_load", map="tmA", to="sA", at=[0, 0])
    >>> a = {"dtype": "bf16", "major": "K", "word": word, "start": "sA", "k_add": [0, 32], "meant": {"tensor": "A", "axes": ["m", "k"]}}
    >>> s = s.step("mma", kind="wgmma", m=64, n=64, k=16, a=a)
    >>> from smemsim import check
    >>> check(s).findings[0].repair
    'stride_byte_offset 128 must be 1024: 0x4000004000010000'
    """

    def __init__(self, arch: str, **top: Any) -> None:
        self.tables: dict[str, Any] = {"arch": any_architecture(arch).name, **top}

    def __repr__(self) -> str:
        counted = ", ".join(f"{len(self.tables.get(kind, ()))} {kind}s" for kind in ("tensor", "buffer", "map", "step"))
        return f"<Scenario {self.tables['arch']}: {counted}>"

    @classmethod
    def of(cls, scenario: scenarios.ScenarioTables | str | pathlib.Path | Mapping[str, Any]) -> Scenario:
        """A builder that begins with the tables of a scenario: its file, or the same structure as a dict."""
        read = scenario if isinstance(scenario, scenarios.ScenarioTables) else read_scenario(scenario)
        builder = cls(read.arch)
        builder.tables = read.as_dict()
        return builder

    def tensor(
        self,
        name: str,
        dtype: Any,
        *,
        strides: Mapping[str, int] | None = None,
        address: int | None = None,
        walks: Mapping[str, Any] | None = None,
        **extent: Any,
    ) -> Scenario:
        """Add a tensor: the number of elements of each axis, the slowest axis first. Without strides in bytes it has
        no gaps. `walks` are axes that several dimensions of memory make up.
        """
        fmt = element_format(dtype)
        extent, strides = _as_in_the_file(name, extent, strides)
        if not extent:
            raise InputError(f"tensor {name}: needs its axes and their elements, slowest first, as m=256, k=512")
        if strides is None:
            strides, step = {}, fmt.bits
            for axis in reversed(extent):
                if step % 8 and step != fmt.bits:
                    raise InputError(f"tensor {name}: {step} bits a row are no whole bytes; give strides in bytes")
                strides[axis] = max(step // 8, 1)
                step *= extent[axis]
        table = {"dtype": fmt.name, "extent": dict(extent), "stride": {axis: strides[axis] for axis in extent if axis in strides}}
        return self._add("tensor", name, table | ({} if address is None else {"address": address}) | ({"walks": walks} if walks else {}))

    def buffer(self, name: str, **keys: Any) -> Scenario:
        """Add a shared buffer. Keys: address, bytes, stages, stage_bytes, declared_align, layout."""
        return self._add("buffer", name, keys)

    def map(self, name: str, tensor_map: TensorMap | None = None, *, of: str | None = None, **arguments: Any) -> Scenario:
        """Add a tensor map: a `TensorMap`, or the arguments of the encode call. Arguments that the tensor `of` has
        need not be repeated.
        """
        table: dict[str, Any] = {} if of is None else {"of": of}
        if tensor_map is not None:
            if not isinstance(tensor_map, TensorMap):
                raise InputError(f"map {name}: {shown(tensor_map)}: needs a TensorMap, or the arguments of the encode call by name")
            return self._add("map", name, table | {"raw": bytes(tensor_map).hex()})
        tensor = self.tables.get("tensor", {}).get(of) if isinstance(of, str) else None
        if tensor is not None:
            axes = sorted(tensor["stride"], key=lambda axis: tensor["stride"][axis])
            arguments = {"data_type": tensor["dtype"], "global_address": of,
                         "global_dim": [tensor["extent"][axis] for axis in axes],
                         "global_strides": [tensor["stride"][axis] for axis in axes[1:]]} | arguments  # fmt: skip
        return self._add("map", name, table | arguments)

    def step(self, op: str, **keys: Any) -> Scenario:
        """Add a step, with the keys of its `op`."""
        self.tables.setdefault("step", []).append({"op": op, **_plain(keys)})
        return self

    def expect(self, *codes: str) -> Scenario:
        """Add the codes of the findings that the scenario should give."""
        self.tables["expect"] = {"findings": list(codes)}
        return self

    def _add(self, kind: str, name: str, table: dict[str, Any]) -> Scenario:
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"{kind} {shown(name)}: needs a name of letters, digits and _")
        self.tables.setdefault(kind, {})[name] = _plain(table)
        return self

    def as_dict(self) -> dict[str, Any]:
        """The scenario as a dict, with the keys of the file format."""
        read_scenario(self.tables)
        return dict(plain_tables(self.tables))  # type: ignore[call-overload,no-any-return]

    def json(self) -> str:
        """The text of the file as JSON."""
        return json.dumps(self.as_dict(), indent=1)

    def toml(self) -> str:
        """The text of the file as TOML. Words and addresses are in hex."""
        tables = self.as_dict()
        lines = [f"{key} = {toml_value(key, value)}" for key, value in tables.items() if not isinstance(value, (dict, list))]
        for kind in ("tensor", "buffer", "map"):
            for name, table in tables.get(kind, {}).items():
                lines += ["", f"[{kind}.{name}]", *(f"{key} = {toml_value(key, value)}" for key, value in table.items())]
        for step in tables.get("step", []):
            operands = {key: value for key, value in step.items() if key in ("a", "b", "scale_a", "scale_b")}
            lines += ["", "[[step]]", *(f"{key} = {toml_value(key, value)}" for key, value in step.items() if key not in operands)]
            for side, operand in operands.items():
                lines += [f"[step.{side}]", *(f"{key} = {toml_value(key, value)}" for key, value in operand.items())]
        if "expect" in tables:
            lines += ["", "[expect]", f"findings = {toml_value('', tables['expect']['findings'])}"]
        return "\n".join(lines) + "\n"


def _as_in_the_file(name: str, extent: dict[str, Any], strides: Any) -> tuple[dict[str, int], Any]:
    """Axes and strides, also as the keys `extent` and `stride` of a file; InputError for sizes that are none."""
    if isinstance(extent.get("extent"), Mapping):
        strides = extent.pop("stride", strides)
        extent = {**extent.pop("extent"), **extent}
    for axis, elements in extent.items():
        whole(f"tensor {name}: {axis}", elements, minimum=1, wanted="the elements of an axis, as m=256")
    if strides is not None and not isinstance(strides, Mapping):
        raise InputError(f"tensor {name}: strides = {shown(strides)}: needs bytes for each axis, as {{'m': 1024, 'k': 2}}")
    return extent, strides


def _plain(value: Any) -> Any:
    """Descriptors as words, tuples as lists, numpy's numbers as Python's."""
    if isinstance(value, (SmemDescriptor, InstrDescriptor)):
        return value.encode()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    return value


def toml_value(key: str, value: Any) -> str:
    """A TOML value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:#x}" if key in HEX and value >= 0 else str(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml_value(name, inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(key, inner) for inner in value) + "]"
    return json.dumps(value)
