"""The encode calls with odd pointers, and the results of cuTensorMapEncodeIm2colWide on this device."""

from __future__ import annotations

import ctypes
import pathlib
from typing import Any

import numpy as np

from smemsim.capture.bench import Bench


def _call(library: Any, what: str, alignment: int, rank: int) -> int:
    """One encode call that is legal except for `what` and the address of the map: `alignment` past a multiple of
    256."""
    storage = ctypes.create_string_buffer(1024)
    at = ctypes.addressof(storage) + -ctypes.addressof(storage) % 256 + alignment

    def array(kind: Any, values: list[int]) -> Any:
        return (kind * 5)(*values)

    dims, strides = array(ctypes.c_uint64, [64, 4, 4, 4, 4]), array(ctypes.c_uint64, [128, 512, 2048, 8192])
    box, steps = array(ctypes.c_uint32, [64, 2, 2, 2, 2]), array(ctypes.c_uint32, [1] * 5)
    pointers: dict[str, Any] = {"map": ctypes.c_void_p(at), "dims": dims, "strides": strides, "box": box, "steps": steps}
    address = ctypes.c_void_p(1 << 20)
    if what in pointers:
        pointers[what] = None
    if what == "im2col_wide":
        corners = (ctypes.c_int(0), ctypes.c_int(0), ctypes.c_uint32(64), ctypes.c_uint32(16))
        tail = (0, 0, 3, 0, 0)  # interleave, mode W, swizzle, promotion, fill
        call = library.cuTensorMapEncodeIm2colWide
        return int(call(pointers["map"], 9, rank, address, dims, strides, *corners, steps, *tail))
    head = (pointers["map"], 9, rank, address, pointers["dims"], pointers["strides"], pointers["box"], pointers["steps"])
    return int(library.cuTensorMapEncodeTiled(*head, 0, 3, 0, 0))


def encode_pointers(bench: Bench, out: pathlib.Path) -> None:
    library = ctypes.CDLL("libcuda.so.1")
    cases = [("legal", alignment, rank) for alignment in (0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 192) for rank in (1, 2, 5)]
    cases += [(what, 0, rank) for what in ("map", "dims", "strides", "box", "steps") for rank in (1, 2, 5)]
    cases += [("im2col_wide", 0, rank) for rank in (3, 4, 5)]
    bench.write(
        out,
        "encode_pointers",
        "encode_pointer",
        "Encode calls, legal but for one null pointer or for the alignment of the map's own address; cuTensorMapEncodeIm2colWide",
        0,
        len(cases),
        {
            "what": np.array([what for what, _, _ in cases]),
            "alignment": np.array([alignment for _, alignment, _ in cases], np.uint16),
            "rank": np.array([rank for _, _, rank in cases], np.uint8),
            "result": np.array([_call(library, *case) for case in cases], np.uint16),
        },
    )


SUITES = {"encode_pointers": encode_pointers}
