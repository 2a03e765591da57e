"""CuTe layouts on the command line: options that `decode` and `map` share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from smemsim.base.errors import InputError
from smemsim.cli.options import parse_address, parse_numbers

if TYPE_CHECKING:
    from smemsim.show.layout import LayoutMap

__all__ = ["DIVISIONS", "decode_layout", "layout_options", "map_layout"]


DIVISIONS = ("zipped_divide", "logical_divide", "recast")
F = TypeVar("F", bound=Callable[..., Any])


def layout_options(function: F) -> F:
    """Add the options that change a layout before it is shown."""
    options = (
        click.option("--zipped-divide", metavar="M,K", help="Layout: CuTe's zipped_divide by this tile, ((tile), (rest))."),
        click.option("--logical-divide", metavar="M,K", help="Layout: CuTe's logical_divide, ((tile, rest), (tile, rest))."),
        click.option(
            "--recast", type=int, metavar="BITS", help="Layout: the same bytes in elements of so many bits, as CuTe's recast_layout."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _made(text: str, dtype: Any, base: str | None, given: dict[str, Any]) -> LayoutMap:
    """The layout of a text after the requested change. Raises InputError if several changes are given."""
    from smemsim.core.layout.cute import CuteLayout, stated_bits
    from smemsim.core.spec.formats import element_format
    from smemsim.show.layout import LayoutMap

    asked = [name for name in DIVISIONS if given[name] is not None]
    if len(asked) > 1:
        named = " and ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise InputError(f"{named}: one at a time; give the printed layout again for the next")
    bits = stated_bits(text) if dtype is None else element_format(dtype).bits
    if dtype is not None and stated_bits(text) not in (0, bits):
        raise InputError(f"--dtype {dtype} has {bits} bits, and the layout says {stated_bits(text)}: leave --dtype out")
    layout = CuteLayout.parse(text, element_bits=bits)
    for name in ("zipped_divide", "logical_divide"):
        if given[name] is not None:
            sizes = parse_numbers(f"--{name.replace('_', '-')}", given[name], "a size for each mode, as 64,16")
            if min(sizes) < 1:
                raise InputError(f"--{name.replace('_', '-')} {given[name]}: every size is at least 1")
            layout = getattr(layout, name)(sizes)
    if (new := given["recast"]) is not None:
        if not bits:
            raise InputError("--recast: from how many bits? say it with --dtype")
        layout, bits = layout.recast(new, bits), new
    return LayoutMap(layout, bits, 0x400 if base is None else parse_address("--smem", base))


def decode_layout(text: str, *, dtype: Any, as_json: bool, given: dict[str, Any]) -> int:
    """Print a layout. Returns the exit code: 1 if the layout is not one-to-one."""
    from smemsim.core.picture.lines import print_lines

    made = _made(text, dtype, None, given)
    if as_json:
        click.echo(json.dumps(made.as_dict(), indent=1))
    else:
        print_lines(made.view())
    return int(made.shared() is not None)


def map_layout(text: str, form: str, *, dtype: Any, smem: str | None, most: int | None, given: dict[str, Any]) -> int:
    """Draw the elements of a layout. Returns the exit code: 1 if two elements share a place."""
    from smemsim.core.picture.svg import grids_svg
    from smemsim.core.picture.text import picture_text, stdout
    from smemsim.show.layout import MOST_LINES

    made = _made(text, dtype, smem, given)
    if form == "csv":
        click.echo(made.csv(), nl=False)
    elif form == "json":
        click.echo(json.dumps(made.as_dict() | {"base": made.base, "bit_address": made.bit_addresses().tolist()}))
    elif form == "svg":
        click.echo(grids_svg(made.picture(most or MOST_LINES)))
    else:
        stdout().print(picture_text(made.picture(most or 32)))
    return int(made.shared() is not None)
