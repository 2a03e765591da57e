"""`smemsim plan`: what should I write for this tile?"""

from __future__ import annotations

import json
import re
from typing import Any

import click

from smemsim.arguments import shown
from smemsim.cli.options import json_option, parse_address, parse_numbers
from smemsim.errors import InputError
from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.formats import FORMATS
from smemsim.spec.tcgen05 import KINDS

__all__ = ["plan_command"]


@click.command("plan", short_help="Plan an operand tile: what should I write?")
@click.argument("tile", metavar="ROWSxK")
@click.option("--arch", required=True, metavar="ARCH", help=f"Architecture: {', '.join(ARCHITECTURES)}.")
@click.option("--dtype", required=True, metavar="TYPE", help=f"Element type: {' '.join(FORMATS)}.")
@click.option("--major", required=True, metavar="K|MN", help="Which axis is contiguous.")
@click.option("--swizzle", metavar="SWIZZLE", help="none 32B 64B 128B 128B_ATOM_32B; 128B when left out.")
@click.option("--side", default="a", show_default=True, metavar="a|b", help="Operand A (rows are M) or B (rows are N).")
@click.option("--m", type=int, help="M of the instruction; left out: one that fits.")
@click.option("--n", type=int, help="N of the instruction; left out: one that fits.")
@click.option("--kind", metavar="KIND", help=f"tcgen05: {' '.join(KINDS)}; left out: that of the type.")
@click.option("--cta-group", type=int, default=1, show_default=True, metavar="1|2", help="One CTA or a pair; rows are those of one CTA.")
@click.option("--stack", metavar="MN|K", help="Axis along which swizzle atoms follow one another first; left out: the strided one.")
@click.option("--base", default="0x400", show_default=True, metavar="ADDRESS", help="Shared address of the first stage.")
@click.option("--stages", type=int, default=1, show_default=True, help="Pipeline stages.")
@click.option("--matrix", metavar="ROWSxK", help="The matrix that the tile is cut from; left out: made up.")
@click.option("--pitch", "pitch_bytes", type=int, metavar="BYTES", help="Bytes from line to line of the matrix; left out: no gaps.")
@click.option("--at", default="0,0", show_default=True, metavar="ROW,K", help="The tile's first element in the matrix.")
@click.option("--other-major", default="K", show_default=True, metavar="K|MN", help="The other operand's, for the instruction descriptor.")
@click.option("--all", "every", is_flag=True, help="A table of every swizzle and stacking.")
@click.option("--scenario", is_flag=True, help="Print the scenario for `smemsim check` (JSON).")
@click.option("--one-box", is_flag=True, help="With --scenario: loaded by the single box.")
@click.option("--code", metavar="cpp|cute|triton", help="Print source text to paste.")
@json_option
def plan_command(tile: str, swizzle: str | None, base: str, matrix: str | None, at: str, every: bool, scenario: bool, one_box: bool,
                 code: str | None, as_json: bool, **given: Any) -> None:  # fmt: skip
    """Everything to write down for an operand tile of ROWS (M or N) x K elements in one CTA's shared memory: the TMA boxes and the arguments of
    cuTensorMapEncodeTiled, LBO and SBO, the descriptor of every instruction, how they advance, the instruction descriptor, CuTe layouts, code.

    Every plan is simulated before it is shown: TMA loads the tile, every descriptor reads it, every element must be the right one. Exit code 1
    when the hardware cannot have the tile; the message has the reason, and the nearest tile that it can have. Rules of sm_90a are measured on
    an H200; those of sm_100a and sm_103a are documented, compiled or inferred, and the plan says which.

    \b
    smemsim plan 128x64 --arch sm_100a --dtype bf16 --major K --swizzle 128B
    smemsim plan 256x64 --arch sm_90a --dtype f16 --major MN --side b --n 256 --stages 4
    smemsim plan 128x64 --arch sm_100a --dtype bf16 --major MN --all
    smemsim plan 128x64 --arch sm_100a --dtype bf16 --major K --code cpp
    smemsim plan 128x64 --arch sm_90a --dtype bf16 --major K --scenario | smemsim check /dev/stdin
    """
    from smemsim.planning.arrangement import IllegalPlan
    from smemsim.planning.make import choices_text, plan, plans

    rows, k = _extents("the tile", tile)
    given["base_address"] = parse_address("--base", base)
    given["matrix"] = None if matrix is None else _extents("--matrix", matrix)
    given["at"] = parse_numbers("--at", at, "row and k of the tile's first element, as --at 128,0")
    if every and (swizzle or given["stack"] or code or scenario):
        raise InputError("--all: shows every swizzle and stacking; leave --swizzle, --stack, --code and --scenario out")
    if one_box and not scenario:
        raise InputError("--one-box: says how the --scenario is loaded")
    try:
        if every:
            given.pop("stack")
            choices = plans(rows, k, **given)
            if as_json:
                click.echo(json.dumps([choice.as_dict() for choice in choices], indent=1))
            else:
                of = f"{given['side'].upper()} {rows}x{k} {given['dtype']} {given['major']}-major, {given['arch']}"
                click.echo(choices_text(of, choices))
            if not any(choice.plan for choice in choices):
                click.get_current_context().exit(1)
            return
        made = plan(rows, k, swizzle=swizzle or "128B", **given)
    except IllegalPlan as e:
        if as_json:
            click.echo(json.dumps({"legal": False, "reason": e.reason, "nearest": e.nearest, "changed": list(e.changed)}, indent=1))
        else:
            click.echo(f"smemsim: {e}", err=True)
        click.get_current_context().exit(1)
    if scenario:
        click.echo(json.dumps(made.scenario("box" if one_box else "loop"), indent=1))
    elif code:
        click.echo(made.code(code))
    else:
        click.echo(json.dumps(made.as_dict(), indent=1) if as_json else made.text())


def _extents(name: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*(\d{1,9})\s*[xX×,]\s*(\d{1,9})\s*", text)
    if match is None:
        raise InputError(f"{name} {shown(text)}: needs ROWSxK, as 128x64")
    return int(match[1]), int(match[2])
