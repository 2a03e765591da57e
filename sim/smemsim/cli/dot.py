"""`smemsim dot`: how one dot product is rounded, step by step."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.cli.options import json_option

__all__ = ["dot"]


@click.command(short_help="Explain one dot product of a matrix instruction, bit for bit.")
@click.option("--kind", default="wgmma", show_default=True, help="wgmma, or the kind of a tcgen05.mma: f16, f8f6f4, mxf4nvf4, …")
@click.option("--arch", help="sm_90a for wgmma, sm_100a for tcgen05 if left out.")
@click.option("--a-type", required=True, metavar="TYPE", help="Element type of A.")
@click.option("--b-type", metavar="TYPE", help="Element type of B; A's if left out.")
@click.option("--d-type", default="f32", show_default=True, metavar="TYPE", help="Type of the accumulator.")
@click.option(
    "-a",
    "a",
    required=True,
    metavar="WORDS",
    help="A row of A: raw bits in hex. 3f80*15 is 15 times the same. Missing elements at the end are 0.",
)
@click.option("-b", "b", required=True, metavar="WORDS", help="A column of B, in the same form.")
@click.option("-c", "c", default="0", metavar="WORD", help="The accumulator before.")
@click.option("--scale-a", metavar="WORDS", help="Block-scaled kinds: scale factors of the row.")
@click.option("--scale-b", metavar="WORDS", help="Block-scaled kinds: scale factors of the column.")
@click.option("--scale-type", metavar="TYPE", help="ue8m0 or ue4m3.")
@click.option("--values", is_flag=True, help="The words are numbers (1.5 -2e-3 2^-20 inf), rounded to the element types.")
@click.option("--satfinite", is_flag=True, help="s32 results clamp.")
@json_option
def dot(
    kind: str,
    arch: str | None,
    a_type: str,
    b_type: str | None,
    d_type: str,
    a: str,
    b: str,
    c: str,
    scale_a: str | None,
    scale_b: str | None,
    scale_type: str | None,
    values: bool,
    satfinite: bool,
    as_json: bool,
) -> None:
    """Explain one element of D: its terms, the exponent they are aligned to, the bits that are
    cut off, the sum, the conversion.

    Words are raw element bits in hex, separated by blanks or commas, with or without 0x; `0*8` stands for eight zeros.
    With --values they are numbers. wgmma is measured on an H200, tcgen05 inferred from public studies.

    \b
    smemsim dot --a-type bf16 -a "3f80 3380*15" -b "3f80*16" -c 3f000000
    smemsim dot --a-type e4m3 -a "38 1" -b "38 38" -c 3f800001
    smemsim dot --kind mxf4nvf4 --a-type e2m1 -a "2*64" -b "7*64" --scale-a "38*4" --scale-b "40 38*3"
    smemsim dot --values --a-type f16 --d-type f16 -a "0.5 0.5 2^-11" -b "1 1 1"
    """
    from smemsim.core.arithmetic.mma import dot_product
    from smemsim.core.picture.lines import print_lines
    from smemsim.core.spec.mma_arithmetic import ARITHMETIC
    from smemsim.core.spec.tcgen05 import KINDS, SCALE_TYPES_OF_BLOCK
    from smemsim.show.dot import dot_json, dot_view

    kind = kind.removeprefix("kind::")
    b_type = b_type or a_type
    row = next((r for r in ARITHMETIC if kind in r.kinds and a_type in r.a_types), None)
    k = row.k if row else 0
    block_type = scale_type or ("ue8m0" if kind != "mxf4nvf4" else SCALE_TYPES_OF_BLOCK[16][-1])
    scales = [None if x is None else _words(name, x, block_type, values) for name, x in (("--scale-a", scale_a), ("--scale-b", scale_b))]
    given: dict[str, Any] = {}
    if kind in KINDS and KINDS[kind].block_scaled:
        given = {"scale_a": scales[0], "scale_b": scales[1], "scale_type": scale_type}
        if scales[0] is not None and scale_type is None and kind == "mxf4nvf4" and len(scales[0]) == k // 32:
            given["scale_type"] = "ue8m0"
    elif scale_a or scale_b or scale_type:
        raise InputError(f"--scale-a, --scale-b, --scale-type: {kind} has no scale factors")
    product = dot_product(
        _words("-a", a, a_type, values, k),
        _words("-b", b, b_type, values, k),
        _words("-c", c, d_type, values)[0],
        arch=arch or ("sm_90a" if kind == "wgmma" else "sm_100a"),
        kind=kind,
        a_type=a_type,
        b_type=b_type,
        d_type=d_type,
        saturate=satfinite,
        **given,
    )
    if as_json:
        click.echo(json.dumps(dot_json(product), indent=1))
    else:
        print_lines(dot_view(product))


_WORD = re.compile(r"(?P<word>[^*\s,]+)(?:\*(?P<times>\d+))?")
_POWER = re.compile(r"(?P<sign>-?)2\^(?P<exponent>-?\d+)")
MOST = 256  # elements of K that any instruction has


def _words(name: str, text: str, dtype: str, values: bool, k: int = 0) -> list[int]:
    """Raw bits from hex words or from numbers, padded with zeros to `k` elements."""
    words: list[int] = []
    for part in text.replace(",", " ").split():
        match = _WORD.fullmatch(part)
        if match is None:
            raise InputError(f"{name}: {shown(part)} is not a word, or a word * how often")
        times = int(match["times"] or 1)
        if times + len(words) > MOST:
            raise InputError(f"{name}: more than {MOST} elements; no instruction has as many")
        words += [_number(name, match["word"], dtype) if values else _hex(name, match["word"])] * times
    if not words:
        raise InputError(f"{name}: no words")
    return words + [0] * (k - len(words))


def _hex(name: str, word: str) -> int:
    try:
        return int(word, 16)
    except ValueError:
        raise InputError(f"{name}: {shown(word)} is not a hexadecimal word; numbers are taken with --values") from None


def _number(name: str, word: str, dtype: str) -> int:
    from smemsim.core.arithmetic.values import from_float64

    power = _POWER.fullmatch(word)
    try:
        value = float(f"{power['sign']}1") * 2.0 ** int(power["exponent"]) if power else float(word)
    except (ValueError, OverflowError):
        raise InputError(f"{name}: {shown(word)} is not a number, as 1.5, -2e-3, 2^-24 or inf") from None
    return int(from_float64([value], dtype)[0])
