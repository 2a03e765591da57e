"""`smemsim map`: element to address, as a picture or as data."""

from __future__ import annotations

from typing import Any

import click

from smemsim.cli.options import check_options, json_option, operand_options, parse_word
from smemsim.errors import InputError

__all__ = ["map_command"]


@click.command("map", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, metavar="WORD")
@click.option("--arch", required=True, metavar="ARCH", help="sm_90a, sm_100a or sm_103a.")
@operand_options(required=True)
@click.option("--csv", "as_csv", is_flag=True, help="Print row,k,address,line,chunk for every element.")
@json_option
@click.option("--svg", "as_svg", is_flag=True, help="Print an SVG picture.")
@click.option("--lines", type=int, default=32, show_default=True, help="128-byte lines that the terminal picture shows at most.")
def map_command(words: tuple[str, ...], as_csv: bool, as_json: bool, as_svg: bool, lines: int, **operand: Any) -> None:
    """Where the elements of an operand lie in shared memory.

    The picture has a row for each 128-byte line and a cell for each 16-byte chunk; colours are the chunk columns before swizzling, so
    that the permutation shows.

    \b
    smemsim map 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 16 --k 16
    smemsim map 0x4000404002000040 --arch sm_100a --dtype bf16 --major MN --rows 128 --k 16 --svg > operand.svg
    """
    from smemsim.show.operand import OperandMap

    check_options(words)
    if as_csv + as_json + as_svg > 1:
        raise InputError("--csv, --json and --svg exclude each other")
    if lines < 1:
        raise InputError(f"--lines {lines}: needs at least 1")
    picture = OperandMap.of(parse_word(" ".join(words)), **operand)
    if as_csv:
        click.echo(picture.csv(), nl=False)
    elif as_json:
        click.echo(picture.json())
    elif as_svg:
        from smemsim.show.svg import operand_svg

        click.echo(operand_svg(picture))
    else:
        from smemsim.show.console import stdout

        stdout().print(picture.view(lines))
