"""What one recorded launch is: a kernel, its arguments, the recipes of its arrays, and what numpy expects of it."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smemsim.run.engine.launch import LaunchConfig

__all__ = ["LAUNCHES", "Launch", "array", "cuda", "descriptor", "launch", "null", "tiled", "triton", "value", "zeros"]

SCHEMA = "smemsim.launch/1"
Expect = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Launch:
    """`source` is a file of this folder or the name of a Triton kernel; `config` what it is launched
    with, its arguments being `args`, as a launch file has them; `expect` gives outputs from arrays, raw
    bits where numpy has no such type.
    """

    name: str
    source: str
    title: str
    config: LaunchConfig
    args: tuple[dict[str, Any], ...]
    arrays: tuple[dict[str, Any], ...]
    outputs: tuple[str, ...]
    why_not_exact: str = ""
    tolerance: dict[str, float] = dataclasses.field(default_factory=dict)
    status: int = 0  # the CUDA error that is expected
    suite: str = "launches"  # which keeps what it leaves
    defines: tuple[str, ...] = ()
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)  # of a Triton kernel
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    expect: Expect | None = None

    def json(self) -> str:
        """launch.json: one key a line, one array and one argument a line."""
        members = {name: getattr(self.config, name) for name in ("grid", "block", "cluster", "shared_bytes", "cooperative")}
        head = {"schema": SCHEMA, "title": self.title, "entry": self.config.entry, "arch": "sm_90a", **members}
        tail = {"outputs": self.outputs, "exact": not self.why_not_exact, "why_not_exact": self.why_not_exact, "tolerance": self.tolerance}
        lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
        for name, rows in (("args", self.args), ("arrays", self.arrays)):
            body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            lines.append(f' "{name}": [\n{body}\n ]')
        return "{\n" + ",\n".join(lines + [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in tail.items()]) + "\n}\n"


LAUNCHES: dict[str, Launch] = {}


def array(name: str, dtype: str, shape: int | Sequence[int], distribution: Any) -> dict[str, Any]:
    """An array and the argument that is its address."""
    sizes = [shape] if isinstance(shape, int) else list(shape)
    return {"name": name, "dtype": dtype, "shape": sizes, "seed": 0, "distribution": distribution}


def zeros(name: str, dtype: str, shape: int | Sequence[int]) -> dict[str, Any]:
    return array(name, dtype, shape, "zeros")


def value(n: float, kind: str = "u32") -> dict[str, Any]:
    return {"value": n, "type": kind}


def null() -> dict[str, Any]:
    return {"null": True}


def tiled(of: str, data_type: str, dims: Sequence[int], strides: Sequence[int], box: Sequence[int], **more: Any) -> dict[str, Any]:
    """A tensor map, passed by value: arguments of cuTensorMapEncodeTiled."""
    arguments = {"data_type": data_type, "global_address": of, "global_dim": list(dims), "global_strides": list(strides), "box_dim": list(box),
                 "element_strides": [1] * len(dims), "interleave": "none", "swizzle": "none", "l2_promotion": "none", "oob_fill": "zeros"}  # fmt: skip
    return {"map": arguments | more}


def launch(name: str, title: str, source: str, args: Sequence[dict[str, Any]], outputs: str, *, grid: Any = 1, block: Any = 128, cluster: Any = 1,
           hidden: Sequence[dict[str, Any]] = (), entry: str = "", **more: Any) -> None:  # fmt: skip
    """Register a launch. In `args`, an array stands for its address; `hidden` arrays are behind tensor
    maps; `outputs` are names.
    """
    arrays, arguments = [dict(a) for a in hidden], []
    for arg in args:
        if "dtype" in arg:
            arrays.append(dict(arg))
            arguments.append({"array": arg["name"]})
        else:
            arguments.append(arg)
    arrays = [a | {"seed": zlib.crc32(f"{name} {a['name']}".encode())} for a in arrays]
    if name in LAUNCHES:
        raise ValueError(f"two launches called {name}")
    config = LaunchConfig(grid=grid, block=block, cluster=cluster, shared_bytes=more.pop("shared_bytes", 0), entry=entry or name,
                          cooperative=more.pop("cooperative", False))  # fmt: skip
    LAUNCHES[name] = Launch(name, source, title, config, tuple(arguments), tuple(arrays), tuple(outputs.split()), **more)


def cuda(name: str, title: str, args: Sequence[dict[str, Any]], outputs: str, **more: Any) -> None:
    """A launch of cuda/NAME.cu, or of `source`."""
    launch(name, title, "cuda/" + more.pop("source", f"{name}.cu"), args, outputs, **more)


def descriptor(of: str, shape: Sequence[int], block: Sequence[int]) -> dict[str, Any]:
    """A host tensor descriptor of a Triton kernel, which the build expands."""
    return {"descriptor": {"array": of, "shape": list(shape), "block": list(block)}}


def triton(
    name: str, title: str, kernel: str, args: Sequence[dict[str, Any]], outputs: str, constants: dict[str, Any], **more: Any
) -> None:
    """A launch of triton_sources/MODULE.py's KERNEL, `kernel` being MODULE.KERNEL; block and shared
    memory come from the compiler.
    """
    launch(f"triton_{name}", title, f"triton:{kernel}", args, outputs, constants=constants, options=more.pop("options", {}), **more)
