"""Measured rules about Hopper with alternatives. They show how reliable programs are as witnesses.

For these rules the truth is known. If they had not been measured, would programs that run right on Hopper have refuted
all alternatives? The answer is the best guess for rules about Blackwell that programs alone support.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.core.spec.alternatives import ALTERNATIVES, Alternative
from smemsim.core.spec.mma_arithmetic import MmaArithmetic
from smemsim.core.spec.swizzles import Swizzle, SwizzleMode

__all__ = ["CALIBRATION", "calibration", "every_alternative"]

_CODES = {"128B": 1, "64B": 2, "32B": 3}  # layout codes of wgmma's descriptor, bits 63:62
_FROM = {"operand.words": "wgmma.words", "operand.tables": "wgmma.tables"}
_FIELDS = ("lbo_of_32_bytes", "sbo_of_32_bytes", "start_of_13_bits", "start_of_16_bits", "lbo_of_16_bits", "sbo_of_17_bits")
_NOT_THERE = ("base_offset", "lbo_past_width")  # of these every alternative but those of tables


def _as_on_blackwell() -> list[Alternative]:
    """Alternatives of Blackwell's operands that mean the same of wgmma's: its fields lie at the same bits, except for
    the layout code.
    """
    rules = (
        "operand.k_major",
        "operand.mn_major",
        "operand.any_start",
        "operand.base_offset",
        "operand.lbo_past_width",
        "descriptor.reserved_bits",
    )
    found = []
    for a in ALTERNATIVES.values():
        by_words = a.point == "operand.words" and a.name not in ("only_128b", "next_bytes", "by_sbo", "constant_needed")
        if a.rule in rules and (by_words or a.name in _FIELDS):
            found.append(a._replace(point=_FROM[a.point]))
    found.append(ALTERNATIVES["operand.swizzle=from_start"]._replace(point="wgmma.words"))
    return found


def _table(change: Callable[[np.ndarray], None]) -> Callable[..., Any]:
    def changed(tables: tuple[np.ndarray, np.ndarray], _: bool) -> tuple[np.ndarray, np.ndarray]:
        modes = tables[1].copy()
        change(modes)
        return tables[0], modes

    return changed


def _mode(name: str, **to: int) -> Callable[..., Any]:
    def change(modes: np.ndarray) -> None:
        for column, key in enumerate(("width", "mask", "shift", "k_rows")):
            modes[_CODES[name], column] = to.get(key, modes[_CODES[name], column])

    return _table(change)


def _swap(one: str, other: str) -> Callable[..., Any]:
    def change(modes: np.ndarray) -> None:
        both = [_CODES[one], _CODES[other]]
        modes[both] = modes[both[::-1]]

    return _table(change)


def _row(which: Callable[[MmaArithmetic], bool], **changed: Any) -> Callable[..., Any]:
    return lambda row: row._replace(**changed) if row.kept_bits is not None and which(row) else row


def _is_8_bit(row: MmaArithmetic) -> bool:
    return "e4m3" in row.a_types


def _is_wide(row: MmaArithmetic) -> bool:
    return not _is_8_bit(row)


def _tma(mode: Swizzle, **changed: Any) -> Callable[..., Any]:
    return lambda value: value._replace(**changed) if isinstance(value, SwizzleMode) and value.swizzle is mode else value


_S, _A, _T = "operand.swizzle", "arithmetic.wgmma", "tma.placement"
# fmt: off
CALIBRATION: dict[str, Alternative] = {str(a): a for a in (
    *_as_on_blackwell(),
    Alternative(_S, "64_and_32", "layout codes 2 and 3 are 32B and 64B", "other order of codes", "wgmma.tables", _swap("64B", "32B")),
    Alternative(_S, "128_and_64", "layout codes 1 and 2 are 64B and 128B", "other order of codes", "wgmma.tables", _swap("128B", "64B")),
    Alternative(_S, "128_and_32", "layout codes 1 and 3 are 32B and 128B", "in the order of their widths", "wgmma.tables", _swap("128B", "32B")),
    Alternative(_S, "128_of_4_lines", "128B takes two bits of the line", "off by one bit", "wgmma.tables", _mode("128B", mask=3)),
    Alternative(_S, "64_of_2_lines", "64B takes one bit of the line", "off by one bit", "wgmma.tables", _mode("64B", mask=1)),
    Alternative(_S, "64_of_8_lines", "64B takes three bits of the line", "off by one bit", "wgmma.tables", _mode("64B", mask=7)),
    Alternative(_S, "32_of_4_lines", "32B takes two bits of the line", "off by one bit", "wgmma.tables", _mode("32B", mask=3)),
    Alternative(_S, "128_of_32_bytes", "128B moves 32 bytes together", "as 32-byte atoms do", "wgmma.tables", _mode("128B", mask=3, shift=5)),
    *(Alternative(_A, f"{bits}_bits", f"terms of 16- and 32-bit types are cut {bits} bits below the largest", "the width is in no document", "wgmma.row", _row(_is_wide, kept_bits=bits)) for bits in (23, 24, 26)),
    *(Alternative(_A, f"fp8_{bits}_bits", f"terms of 8-bit types are cut {bits} bits below the largest", "the width is in no document", "wgmma.row", _row(_is_8_bit, kept_bits=bits)) for bits in (12, 14, 25)),
    Alternative(_A, "fp8_23_bits_of_d", "f32 results of 8-bit types have 23 fraction bits", "as of the other types", "wgmma.row", _row(lambda row: _is_8_bit(row) and row.d_type == "f32", fraction_bits=23)),
    Alternative(_A, "f32_to_nearest", "f32 results are rounded to nearest even", "other rounding", "wgmma.row", _row(lambda row: row.d_type == "f32", to_nearest=True)),
    Alternative(_A, "f16_toward_zero", "f16 results are rounded toward zero", "other rounding", "wgmma.row", _row(lambda row: row.d_type == "f16", to_nearest=False)),
    Alternative(_A, "zeros_at_126", "zero terms count with the exponent -126", "MMA-Sim as released", "wgmma.row", _row(lambda row: row.d_type == "f32", zero_exponent=-126)),
    Alternative(_T, "128_of_4_lines", "128B: two bits of the line take part", "off by one bit", "tma.mode", _tma(Swizzle.B128, mask=3)),
    Alternative(_T, "128_of_32_bytes", "128B: 32 bytes move together", "as 32-byte atoms do", "tma.mode", _tma(Swizzle.B128, mask=3, shift=5)),
    Alternative(_T, "64_of_8_lines", "64B: three bits of the line take part", "off by one bit", "tma.mode", _tma(Swizzle.B64, mask=7)),
    Alternative(_T, "32_of_4_lines", "32B: two bits of the line take part", "off by one bit", "tma.mode", _tma(Swizzle.B32, mask=3)),
    Alternative(_T, "dense", "rows narrower than the swizzle follow each other without gaps", "as without swizzle", "tma.pitch", lambda pitch, swizzle, row: row),
    Alternative(_T, "pitch_128", "rows of every swizzled box lie 128 bytes apart", "the line of the XOR", "tma.pitch", lambda pitch, swizzle, row: pitch if swizzle is Swizzle.NONE else 128),
)}
# fmt: on


def every_alternative(arch: str) -> dict[str, Alternative]:
    """The alternatives that programs of an architecture are tried under: of measured rules where it is Hopper.

    >>> len(every_alternative("sm_100a")) == len(ALTERNATIVES), "arithmetic.wgmma=24_bits" in every_alternative("sm_90a")
    (True, True)
    """
    return CALIBRATION if arch == "sm_90a" else ALTERNATIVES


@functools.cache
def calibration() -> dict[str, Any]:
    """Which programs of Hopper refute which alternatives of measured rules (calibration.json, as `kill_matrix`)."""
    found: dict[str, Any] = json.loads((pathlib.Path(__file__).parent / "calibration.json").read_text(encoding="utf-8"))
    return found
