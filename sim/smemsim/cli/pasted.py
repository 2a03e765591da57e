"""Tensor maps as the commands take them: pasted text, or a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from smemsim.errors import InputError, TensorMapError

if TYPE_CHECKING:
    from smemsim.descriptors.tensor_map import TensorMap

__all__ = ["read_map"]

LONGEST_WORD = 100  # characters of a descriptor's word, in binary and with separators
LONGEST_FILE = 1 << 16


def read_map(text: str, arch: str | None) -> TensorMap | list[str] | None:
    """The map that a text or a file holds, or why the driver refuses it; None when it is something else."""
    data = _file(text)
    if data is None and len(text) <= LONGEST_WORD and not set(text.strip()) & set(" ({,:"):  # one word: a descriptor, no map is that short
        return None
    from smemsim.descriptors.tensor_map import TensorMap
    from smemsim.descriptors.tensor_map_text import parse_bytes, parse_call

    if data is not None and len(data) == 128:
        return TensorMap.from_bytes(data)
    pasted = text if data is None else data.decode("utf-8", "replace")
    if (raw := parse_bytes(pasted)) is not None:
        return TensorMap.from_bytes(raw)
    try:
        called = parse_call(pasted)
    except TensorMapError as e:
        return e.violations
    if called is None:
        digits = "".join(text.lower().replace("0x", " ").split())
        if data is None and len(digits) > LONGEST_WORD and set(digits) <= set("0123456789abcdef_,;:"):
            raise InputError(f"{sum(map(str.isalnum, digits))} hex digits: a tensor map has 256 of them, a descriptor 16")
        if data is not None:
            raise InputError(f"{text}: holds {len(data)} bytes, a tensor map is 128 bytes, 256 hex digits, or an encode call")
        return None
    call, arguments = called
    makers: dict[str, Callable[..., TensorMap]] = {
        "tiled": TensorMap.tiled,
        "im2col": TensorMap.im2col,
        "im2col_wide": TensorMap.im2col_wide,
    }
    try:
        return makers[call](**arguments | ({"arch": arch} if arch else {}))
    except TensorMapError as e:
        return e.violations


def _file(text: str) -> bytes | None:
    """What a file holds; None when there is no such file."""
    import pathlib

    path = pathlib.Path(text)
    try:
        return path.read_bytes()[:LONGEST_FILE] if path.is_file() else None
    except (OSError, ValueError):
        return None
