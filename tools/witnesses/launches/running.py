"""Run a launch of the suite on the simulated card."""

from __future__ import annotations

from typing import Any

import numpy as np

import smemsim
from smemsim import Gpu
from tools.witnesses.launches import expected_results

__all__ = ["launched"]

VALUES = {"f32": np.float32, "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64}


def launched(
    launch: dict[str, Any], ptx: str, *, random: bool = False, **options: Any
) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    """A launch with this text: (run, its arrays before, those of the device). `options` as `Gpu.launch` takes them."""
    arrays = expected_results.arrays_of(launch, random=random)
    gpu = Gpu(launch["arch"])
    placed = {n: gpu.array(np.ascontiguousarray(x).reshape(-1).view(np.uint8)) for n, x in arrays.items()}

    def encoded(told: dict[str, Any]) -> bytes:
        call = smemsim.TensorMap.im2col if "channels_per_pixel" in told else smemsim.TensorMap.tiled
        return bytes(call(**told | {"global_address": placed[told["global_address"]].address}))

    args: list[Any] = []
    for one in launch["args"]:
        if "map" in one:
            args.append(encoded(one["map"]))
        elif "maps" in one:
            args.append(gpu.array(np.frombuffer(b"".join(map(encoded, one["maps"])), np.uint8)))
        elif "array" in one:
            args.append(placed[one["array"]])
        elif "value" in one:
            args.append(VALUES[one["type"]](one["value"]))
        else:
            args.append(gpu.array(np.zeros(one["scratch"], np.uint8)) if "scratch" in one else None)
    shape = {key: launch[key] for key in ("grid", "block", "cluster", "shared_bytes")}
    return gpu.launch(ptx, launch["entry"], args=args, **shape, **options), arrays, placed
