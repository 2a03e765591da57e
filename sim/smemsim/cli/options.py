"""Arguments and options that several commands share."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.core.spec.architectures import WITH_DESCRIPTORS
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.tcgen05 import KINDS

__all__ = [
    "FILE",
    "FOLDER",
    "OLD_FOLDER",
    "OPERAND_EXAMPLE",
    "PLACE",
    "ScheduledCommand",
    "arch_option",
    "assume_option",
    "check_options",
    "global_races_option",
    "in_capitals",
    "instruction_options",
    "json_option",
    "operand_options",
    "parse_address",
    "parse_extents",
    "parse_numbers",
    "parse_offsets",
    "parse_word",
    "strangers",
]


OPERAND_EXAMPLE = "--arch sm_90a --dtype bf16 --major K --rows 64 --k 16"  # of a descriptor
F = TypeVar("F", bound=Callable[..., Any])


class _Place(click.Path):
    """The path of a file or a folder. An empty path is refused: it would mean the current folder."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            name = (
                param.make_metavar(ctx)
                if isinstance(param, click.Argument) and ctx is not None
                else param.opts[0]
                if param is not None
                else "path"
            )
            raise InputError(f"{name}: is empty: name a file or a folder (an unset variable of the shell?)")
        if os.path.exists(value) and not os.access(value, os.R_OK):
            raise InputError(f"{shown(str(value))[1:-1]}: permission denied")
        return super().convert(value, param, ctx)


PLACE = _Place(path_type=pathlib.Path)
FILE = _Place(path_type=pathlib.Path, dir_okay=False)
FOLDER = _Place(path_type=pathlib.Path, file_okay=False)
OLD_FOLDER = _Place(path_type=pathlib.Path, file_okay=False, exists=True)


def parse_word(text: str, bits: int = 64) -> int:
    """A descriptor word from text: 0x…, 0b…, decimal or 16 hex digits, with _, ' or an L suffix.

    >>> hex(parse_word("0x4000'4040'0001'0040ULL")), hex(parse_word("4000404000010040")), parse_word("-1")
    ('0x4000404000010040', '0x4000404000010040', -1)
    """
    cleaned = text.strip().lower().replace("_", "").replace("'", "").rstrip("ul")
    try:
        return int(cleaned, 16 if len(cleaned) == 16 and not cleaned.startswith(("0x", "0b", "-")) else 0)
    except ValueError:
        if os.path.isdir(text):
            raise InputError(f"{text}: is a folder; name a file in it") from None
        digits, maps = ("as 16 hex digits, ", " (a tensor map: 256 hex digits, an encode call, or a file)") if bits == 64 else ("", "")
        what = f"no such file, and not a {bits}-bit word" if " " not in cleaned and len(text) < 200 else f"not a {bits}-bit word"
        raise InputError(f"{shown(text)}: {what}; write a word as 0x…, {digits}or in decimal{maps}") from None


def parse_numbers(name: str, text: str, wanted: str) -> tuple[int, ...]:
    """Whole numbers, decimal or 0x…, separated by commas or spaces, with or without brackets.

    >>> parse_numbers("--at", "(0, -64)", "coordinates"), parse_numbers("--at", "0x10 2", "coordinates")
    ((0, -64), (16, 2))
    """
    inner = text.strip(" ()[]{}")
    pieces = inner.split(",") if "," in inner else inner.split()
    if inner != text.strip() and pieces[1:] and not pieces[-1].strip():
        pieces.pop()  # Python's (64,)
    try:
        return tuple(int(number, 0) for piece in pieces for number in piece.split() or [""])
    except ValueError:
        raise InputError(f"{name} {shown(text)}: needs whole numbers: {wanted}") from None


def parse_offsets(text: str) -> tuple[int, ...]:
    """im2col offsets: unsigned numbers of the instruction.

    >>> parse_offsets("1,0")
    (1, 0)
    """
    numbers = parse_numbers("--offsets", text, "im2col offsets, W first, as --offsets 1,0")
    if min(numbers, default=0) < 0:
        raise InputError(f"--offsets {shown(text)}: im2col offsets are unsigned; a start further left goes into --at")
    return numbers


def parse_address(name: str, text: str) -> int:
    """One address, in hexadecimal or decimal.

    >>> parse_address("--smem", "0x800")
    2048
    """
    numbers = parse_numbers(name, text, "one address, as 0x400")
    if len(numbers) != 1:
        raise InputError(f"{name} {shown(text)}: needs one address, as 0x400")
    return numbers[0]


def check_options(words: tuple[str, ...]) -> None:
    """Refuse unknown options: commands that take negative words pass them on as arguments."""
    for word in words:
        if word.startswith("--"):
            raise click.NoSuchOption(word.partition("=")[0], ctx=click.get_current_context())


def strangers(ctx: click.Context, names: Sequence[str]) -> str:
    """The options of `names` on the command line, as the user wrote them; "" if there are none."""
    from click.core import ParameterSource

    written = {param.name: param.opts[0] for param in ctx.command.params}
    given = [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    return ", ".join(written.get(name, name) for name in given)


arch_option = click.option(
    "--arch", metavar="ARCH", help=f"Architecture: {', '.join(WITH_DESCRIPTORS)}. Default: all of them; differences are printed."
)
assume_option = click.option(
    "--assume",
    metavar="RULE=ALTERNATIVE",
    envvar="SMEMSIM_ASSUME",
    help="Replace a rule about Blackwell by an alternative, such as tcgen05.pair=b_interleaved (smemsim evidence --alternatives).",
)
global_races_option = click.option(
    "--global-races/--no-global-races",
    "--watch-global/--no-watch-global",
    "watch_global",
    default=None,
    help="Look for races in global memory too, or in shared and tensor memory only.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def parse_extents(name: str, text: str) -> tuple[int, int]:
    """Two extents written as ROWSxK.

    >>> parse_extents("--tile", "128x64")
    (128, 64)
    """
    match = re.fullmatch(r"\s*(\d{1,9})\s*[xX×,]\s*(\d{1,9})\s*", text)
    if match is None:
        raise InputError(f"{name} {shown(text)}: needs ROWSxK, as 128x64, each a whole number of up to 9 digits")
    return int(match[1]), int(match[2])


def in_capitals(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Convert a choice to capitals: K, MN."""
    return None if value is None else value.upper()


def operand_options(*, required: bool) -> Callable[[F], F]:
    """Add the options of an operand: --dtype --major --rows --k --packing."""
    options = (
        click.option("--dtype", required=required, metavar="TYPE", help=f"Descriptor: element type: {' '.join(FORMATS)}."),
        click.option("--major", required=required, callback=in_capitals, metavar="K|MN", help="Descriptor: which axis is contiguous."),
        click.option("--rows", type=int, required=required, help="Descriptor: M or N elements of one instruction's operand."),
        click.option("--k", type=int, required=required, help="Descriptor: K elements of one instruction's operand."),
        click.option("--packing", default="packed", show_default=True, help="Descriptor: 4-bit types, packed (mxf4) or padded (f8f6f4)."),
    )

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def instruction_options(function: F) -> F:
    """Add the options of a tcgen05.mma: --kind and others."""
    options = (
        click.option("--kind", metavar="KIND", help=f"The word is the 32-bit instruction descriptor of this kind: {' '.join(KINDS)}."),
        click.option("--cta-group", type=int, metavar="1|2", help="Instruction: one CTA or a pair."),
        click.option("--ws/--no-ws", default=None, help="Instruction: with or without .ws."),
        click.option("--a-source", metavar="shared|tensor", help="Instruction: the memory that A lies in."),
        click.option(
            "--swizzle-a", metavar="SWIZZLE", help="Instruction: swizzle of A's shared-memory descriptor: none 32B 64B 128B 128B_ATOM_32B."
        ),
        click.option("--swizzle-b", metavar="SWIZZLE", help="Instruction: the same of B's."),
        click.option("--scale-vec", metavar="1X|2X|4X", help="Instruction: scale vector size (or block16, block32)."),
        click.option("--ashift/--no-ashift", default=None, help="Instruction: with or without .ashift."),
    )
    for option in reversed(options):
        function = option(function)
    return function


class ScheduledCommand(click.Command):
    """Read `--schedule all N` as `--schedule all:N`. Words of the program that runs are not changed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {
            name
            for param in self.params
            if isinstance(param, click.Option) and param.is_flag
            for name in (*param.opts, *param.secondary_opts)
        }
        known = {name for param in self.params if isinstance(param, click.Option) for name in param.opts}
        joined, n = [*args], 0
        while n < len(joined) and joined[n] != "--":
            if f"-{joined[n]}" in known:  # click would take -arch for -a -r -c -h
                raise click.NoSuchOption(joined[n], possibilities=[f"-{joined[n]}"], ctx=ctx)
            if not joined[n].startswith("-") and not ctx.allow_interspersed_args:
                break  # the program
            if joined[n : n + 2] == ["--schedule", "all"] and joined[n + 2 : n + 3] and joined[n + 2].isdigit():
                joined[n + 1 : n + 3] = [f"all:{joined[n + 2]}"]
            n += 1 if joined[n] in flags or "=" in joined[n] or not joined[n].startswith("-") else 2
        return super().parse_args(ctx, joined)
