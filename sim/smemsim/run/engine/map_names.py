"""The name of a tensor map in findings: as in the kernel's source if that counts elements (Triton), else as in the
driver's call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smemsim.run.engine.arrays import HostMap
from smemsim.run.engine.traps import region_name

if TYPE_CHECKING:
    from smemsim.core.words.tensor_map import TensorMap
    from smemsim.run.engine.launch import Launch

__all__ = ["Described", "beyond_array", "described"]


@dataclasses.dataclass(frozen=True)
class Described:
    """A tensor descriptor of the source: `name` as it calls it, if that is known, `shape` and `strides` in elements,
    the slowest dimension first.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return f"the descriptor {self.name}".rstrip()


def described(launch: Launch, address: int, tm: TensorMap) -> Described | None:
    """The descriptor that a map was made of, by the host's library or by the kernel; None where the source has the
    driver's terms.
    """
    places, at = launch.program.places, address - launch.parameter_address
    for parameter, value in zip(places.parameters, launch.config.args, strict=False):
        if isinstance(value, HostMap) and places.of(parameter.name).offset == at and len(value.strides) == tm.rank:
            return Described(value.name, value.shape, value.strides)
    size = tm.type_row.bits // 8
    if not launch.kernel.counts_elements or not size:
        return None
    return Described("", tuple(tm.global_dim[::-1]), (*(stride // size for stride in tm.global_strides[::-1]), 1))


def beyond_array(launch: Launch, address: int, tm: TensorMap, coordinates: Sequence[int]) -> tuple[str, str]:
    """Why a transfer leaves the array of its map: the map's extents and strides against the array's bytes, and what to
    change.
    """
    region = launch.memory.find(tm.global_address)
    name, room = region_name(launch, region.begin, region.end), region.end - tm.global_address
    said = described(launch, address, tm)
    if said is None:
        return (
            f"the map has global_dim {list(tm.global_dim)} and global_strides {list(tm.global_strides)} (bytes), and the box at {list(coordinates)} lies inside "
            f"of that; {name} has {room} bytes from its global_address on",
            "global_dim and global_strides (bytes) of the array that is there",
        )
    size = tm.type_row.bits // 8
    last = sum((n - 1) * stride for n, stride in zip(said.shape, said.strides, strict=True))
    return (
        f"{said} has shape {list(said.shape)} and strides {list(said.strides)} (elements), up to element {last}, and the block at {list(coordinates)[::-1]} "
        f"lies inside of that; {name} has {room // size} elements",
        "the shape and the strides of the tensor that is there, in elements",
    )
