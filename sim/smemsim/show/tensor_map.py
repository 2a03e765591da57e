"""A tensor map as a person wants to see it: the encode call that makes it, what a transfer moves, what is odd about its bits."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smemsim.addressing.tma import row_pitch
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.spec.tensor_map import TENSOR_MAP

__all__ = ["tensor_map_json", "tensor_map_view", "unknown_fields"]


def unknown_fields(tm: TensorMap) -> list[str]:
    """Fields whose bits are not what the encoder writes for these arguments, with what they hold."""
    raw = int.from_bytes(bytes(tm), "little")
    fields = [(name, TENSOR_MAP.fields[name]) for name in tm.unknown_fields]
    return [f"word {f.low // 32}, bits {f.high % 32}:{f.low % 32} ({name.lstrip('_')}): {f.raw(raw):#x}" for name, f in fields]


def _arguments(tm: TensorMap) -> dict[str, Any]:
    """The arguments of the encode call that the map has, under the driver's names."""
    named = {f.name: getattr(tm, f.name) for f in dataclasses.fields(tm) if f.name != "unknown_bits"}
    absent = (
        ("box_dim",) if tm.is_im2col else ("pixel_box_lower_corner", "pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column")
    )
    return {name: value for name, value in named.items() if name not in absent}


def _moves(tm: TensorMap) -> str:
    """One line on what a transfer moves, for types of whole bytes without interleave."""
    if not tm.type_row.itemsize or tm.interleave:
        return ""
    inner = (tm.channels_per_pixel if tm.is_im2col else tm.box_dim[0]) * tm.type_row.itemsize
    rows = tm.pixels_per_column if tm.is_im2col else 1
    for box, step in zip(tm.box_dim[1:], tm.element_strides[1:], strict=False):
        rows *= -(-box // step)
    pitch = row_pitch(inner, tm.swizzle_mode.width)
    return f"{rows} rows of {inner} B, {pitch} B apart in shared memory; {inner * rows} B on the barrier; pattern repeats every {tm.swizzle_mode.period} B"


def tensor_map_view(tm: TensorMap) -> RenderableType:
    """The whole view."""
    call = "cuTensorMapEncodeIm2col" if tm.is_im2col else "cuTensorMapEncodeTiled"
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name, value in _arguments(tm).items():
        if name == "global_address":
            shown = f"{value:#x}"
        elif hasattr(value, "name"):
            shown = f"{value.name} = {int(value)}"
        else:
            shown = str(value)
        table.add_row(Text(name, "cyan"), shown)
    parts: list[RenderableType] = [Text.assemble((call, "bold"), f"  rank {tm.rank}"), Text(repr(tm), "dim"), Text(), table, Text()]
    if moves := _moves(tm):
        parts.append(Text(moves))
    parts += [Text(f"refused by the driver: {sentence}", "red") for sentence in tm.broken_rules]
    parts += [Text(f"unknown bits: {field}", "yellow") for field in unknown_fields(tm)]
    parts.append(Text("bits and rules: measured (driver 580 on an H200)", "dim"))
    return Group(*parts)


def tensor_map_json(tm: TensorMap) -> dict[str, Any]:
    """The same for programs."""
    return {
        "mode": "im2col" if tm.is_im2col else "tiled",
        "rank": tm.rank,
        "arguments": {name: value.name if hasattr(value, "name") else value for name, value in _arguments(tm).items()},
        "codes": {name: int(value) for name, value in _arguments(tm).items() if hasattr(value, "name")},
        "bytes": bytes(tm).hex(),
        "violations": list(tm.broken_rules),
        "unknown_bits": unknown_fields(tm),
    }
