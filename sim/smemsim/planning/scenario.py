"""A plan as a scenario that `smemsim check` runs: the loads of the first and the last stage, and every instruction's
descriptor.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.core.spec.tensor_map import LIMITS
from smemsim.planning.arrangement import Arrangement
from smemsim.planning.transfers import GLOBAL_ADDRESS, Loads, Matrix, loads_of

__all__ = ["scenario_of"]


def scenario_of(tile: Arrangement, matrix: Matrix, loads: Loads, title: str, *, box: bool) -> dict[str, Any]:
    """The scenario of one way to load the tile; `box`: with a single box. If the matrix is large enough, the stages
    take consecutive tiles along K.
    """
    wish, instruction, name = tile.wish, tile.instruction, tile.wish.side.upper()
    packed = wish.fmt.bits < 8
    size = 1 if packed else wish.fmt.bits // 8
    stride = (matrix.pitch, size) if wish.major == "K" else (size, matrix.pitch)
    arguments = loads.arguments()
    arguments["global_address"] = name
    buffer: dict[str, Any] = {"address": wish.base_address, "bytes": wish.stages * tile.tile_bytes, "declared_align": LIMITS.smem_alignment}
    buffer |= {"stages": wish.stages, "stage_bytes": tile.tile_bytes} if wish.stages > 1 else {}
    steps: list[dict[str, Any]] = []
    for stage in sorted({0, wish.stages - 1}):
        along = stage * wish.k if wish.at[1] + (stage + 1) * wish.k <= matrix.k else 0
        there = dataclasses.replace(tile, wish=dataclasses.replace(wish, at=(wish.at[0], wish.at[1] + along)))
        loop, single, _ = loads_of(there, matrix)
        of_this = (single if box else loop) or loads
        of_stage = {"stage": stage} if wish.stages > 1 else {}
        load: dict[str, Any] = {"op": "tma_load", "map": f"tm{name}", "to": f"s{name}", **of_stage}
        load |= {"offset": [offset for offset, _ in loads.issues], "at": [list(at) for _, at in of_this.issues]}
        load["expect_bytes"] = loads.bytes
        operand: dict[str, Any] = {"dtype": wish.fmt.name, "major": wish.major, "rows": instruction.rows}
        word = tile.descriptor().advance(-wish.base_address).encode()
        operand |= {"word": word, "start": f"s{name}", **of_stage}
        operand["k_add"] = [tile.offset(0, step) for step in range(tile.steps)]
        operand["mn_add"] = [tile.offset(block, 0) for block in range(tile.blocks)]
        operand["meant"] = {"tensor": name, "axes": [wish.axis, "k"], "at": [wish.at[0], wish.at[1] + along]}
        mma: dict[str, Any] = {"op": "mma", "kind": instruction.kind, "m": instruction.m, "n": instruction.n, "k": instruction.k}
        if instruction.descriptor is not None:
            mma["idesc"] = instruction.descriptor.encode()
        steps += [load, {**mma, wish.side: operand}]
    return {
        "arch": wish.machine.name,
        "title": title,
        **({"cta_group": wish.cta_group} if instruction.descriptor is not None else {}),
        "tensor": {
            name: {
                "dtype": wish.fmt.name,
                "extent": {wish.axis: matrix.rows, "k": matrix.k},
                "stride": {wish.axis: stride[0], "k": stride[1]},
                "address": GLOBAL_ADDRESS,
            }
        },
        "buffer": {f"s{name}": buffer},
        "map": {f"tm{name}": {"of": name, **arguments}},
        "step": steps,
        "expect": {"findings": []},
    }
