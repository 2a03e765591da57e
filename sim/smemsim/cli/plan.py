"""`smemsim plan`: the descriptors and tensor maps of a tile."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.base.terminal import PREFIXED, in_columns
from smemsim.cli.options import json_option, parse_address, parse_extents, parse_numbers, strangers
from smemsim.core.spec.architectures import WITH_DESCRIPTORS
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.tcgen05 import KINDS

__all__ = ["plan_command"]


PLANNED = "OK: this plan is legal, and in the simulation its descriptors read what its boxes load"


@click.command("plan", short_help="Plan an operand tile: its descriptors and tensor maps.")
@click.argument("tile", metavar="ROWSxK | MxNxK")
@click.option("--arch", metavar="ARCH", help=f"Architecture: {', '.join(WITH_DESCRIPTORS)}; sm_100a when left out with --cta-group 2.")
@click.option("--dtype", required=True, metavar="TYPE", help=f"Element type: {' '.join(FORMATS)}.")
@click.option("--major", metavar="K|MN", help="Which axis is contiguous. Default: K.")
@click.option(
    "--swizzle",
    metavar="SWIZZLE",
    help="none 32B 64B 128B 128B_ATOM_32B. Default: 128B for an operand, and the widest that fits for MxNxK.",
)
@click.option("--side", default="a", show_default=True, metavar="a|b", help="Operand A (rows are M) or B (rows are N).")
@click.option("--m", type=int, help="M of the instruction; left out: one that fits.")
@click.option("--n", type=int, help="N of the instruction; left out: one that fits.")
@click.option("--kind", metavar="KIND", help=f"tcgen05: {' '.join(KINDS)}; left out: that of the type.")
@click.option(
    "--cta-group",
    type=int,
    default=1,
    show_default=True,
    metavar="1|2",
    help="One CTA or a pair. ROWSxK: the rows of one CTA. MxNxK: the tile of the pair.",
)
@click.option(
    "--stack",
    metavar="MN|K",
    help="Axis along which swizzle atoms follow one another first. Default: M or N of a K-major operand, K of an MN-major one.",
)
@click.option("--base", default="0x400", show_default=True, metavar="ADDRESS", help="Shared address of the first stage.")
@click.option("--stages", type=int, default=1, show_default=True, help="Pipeline stages.")
@click.option("--matrix", metavar="ROWSxK", help="The matrix that the tile is cut from. Default: an example.")
@click.option("--pitch", "pitch_bytes", type=int, metavar="BYTES", help="Bytes from line to line of the matrix; left out: no gaps.")
@click.option("--at", default="0,0", show_default=True, metavar="ROW,K", help="The tile's first element in the matrix.")
@click.option(
    "--other-major",
    default="K",
    show_default=True,
    metavar="K|MN",
    help="The contiguous axis of the other operand: a bit of the instruction descriptor.",
)
@click.option("--all", "every", is_flag=True, help="A table of every swizzle and stacking.")
@click.option("--scenario", is_flag=True, help="Print the scenario for `smemsim check` (JSON).")
@click.option("--one-box", is_flag=True, help="With --scenario: loaded by the single box.")
@click.option("--code", metavar="cpp|cute|triton", help="Print source text to paste.")
@json_option
def plan_command(tile: str, swizzle: str | None, base: str, matrix: str | None, at: str, every: bool, scenario: bool, one_box: bool,
                 code: str | None, as_json: bool, **given: Any) -> None:  # fmt: skip
    """Plan an operand tile of ROWS (M or N) x K elements in one CTA's shared memory.

    The plan has TMA boxes and the arguments of cuTensorMapEncodeTiled. It has LBO and SBO, the descriptor of every
    instruction and its advance, the instruction descriptor, CuTe layouts and code.

    MxNxK plans A (M x K) and B (N x K) together. The output has the place of D in tensor memory, and
    the PTX around the matrix instructions. With --cta-group 2 it is the tile of the pair, and each CTA
    holds half of the rows of A and of B.

    Every plan is simulated before it is printed: TMA loads the tile, every descriptor reads it, and
    every element is compared.

    Exit code 1: the hardware cannot have the tile. The message has the reason and the nearest possible tile. Rules
    of sm_90a are measured on an H200. Those of Blackwell are witnessed, documented, compiled or inferred; the plan
    prints the grade. Assumed options are printed to stderr.

    \b
    smemsim plan 128x256x64 --dtype fp8 --cta-group 2
    smemsim plan 128x64 --arch sm_100a --dtype bf16 --major K --swizzle 128B
    smemsim plan 256x64 --arch sm_90a --dtype f16 --major MN --side b --n 256 --stages 4
    smemsim plan 128x64 --arch sm_100a --dtype bf16 --major MN --all
    smemsim plan 128x64 --arch sm_100a --dtype bf16 --major K --code cpp
    smemsim plan 128x64 --arch sm_90a --dtype bf16 --major K --scenario | smemsim check -
    """
    from smemsim.planning.arrangement import IllegalPlan
    from smemsim.planning.make import plan, plans
    from smemsim.planning.text import choices_text

    if not _PRODUCT.fullmatch(tile) and not _OPERAND.fullmatch(tile):
        raise InputError(f"the tile {shown(tile)}: needs ROWSxK, as 128x64, or MxNxK, as 128x256x64, each a whole number of up to 9 digits")
    _assume(given)
    given["base_address"] = parse_address("--base", base)
    if _PRODUCT.fullmatch(tile):
        _plan_product(tile, swizzle, as_json, code, given)
        return
    rows, k = parse_extents("the tile", tile)
    given["matrix"] = None if matrix is None else parse_extents("--matrix", matrix)
    given["at"] = parse_numbers("--at", at, "row and k of the tile's first element, as --at 128,0")
    _check_together(every=every, alone=bool(swizzle or given["stack"] or code or scenario), one_box=one_box and not scenario)
    try:
        if every:
            given.pop("stack")
            choices = plans(rows, k, **given)
            rows_of = [choice.as_dict() for choice in choices]
            if as_json:
                click.echo(json.dumps(rows_of, indent=1))
            else:
                of = f"{given['side'].upper()} {rows}x{k} {given['dtype']} {given['major']}-major, {given['arch']}"
                rows_axis = "M" if given["side"] == "a" else "N"
                click.echo(choices_text(of, rows_of, (rows_axis, "K") if given["major"] == "K" else ("K", rows_axis)))
            if not any(choice.plan for choice in choices):
                click.get_current_context().exit(1)
            return
        made = plan(rows, k, swizzle=swizzle or "128B", **given)
    except IllegalPlan as e:
        if as_json:
            click.echo(json.dumps({"legal": False, "reason": e.reason, "nearest": e.nearest, "changed": list(e.changed)}, indent=1))
        else:
            click.echo(in_columns(f"{PREFIXED}WRONG: {e}"), err=True)
        click.get_current_context().exit(1)
    if scenario:
        click.echo(json.dumps(made.scenario("box" if one_box else "loop"), indent=1))
    elif code:
        click.echo(made.code(code))
    else:
        click.echo(json.dumps(made.as_dict(), indent=1) if as_json else f"{PLANNED}\n{made.text()}")


def _check_together(*, every: bool, alone: bool, one_box: bool) -> None:
    if every and alone:
        raise InputError("--all: shows every swizzle and stacking; leave --swizzle, --stack, --code and --scenario out")
    if one_box:
        raise InputError("--one-box: says how the --scenario is loaded")


_PRODUCT = re.compile(r"\s*(\d{1,9})\s*[xX×,]\s*(\d{1,9})\s*[xX×,]\s*(\d{1,9})\s*")
_OPERAND = re.compile(r"\s*\d{1,9}\s*[xX×,]\s*\d{1,9}\s*")
_ALIASES = {
    "fp8": "e4m3",
    "fp6": "e3m2",
    "fp4": "e2m1",
    "fp16": "f16",
    "half": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "int8": "s8",
    "bfloat": "bf16",
}
_OTHERS = {"fp8": "e5m2", "fp6": "e2m3"}
_OF_KINDS = {"nvfp4": ("e2m1", "mxf4nvf4"), "mxfp4": ("e2m1", "mxf4"), "mxfp6": ("e3m2", "mxf8f6f4"), "mxfp8": ("e4m3", "mxf8f6f4")}


def _assume(given: dict[str, Any]) -> None:
    """Fill in missing options and translate common names, and print each assumption."""
    assumed = []
    if (formats := _OF_KINDS.get(given["dtype"].lower())) is not None:
        assumed.append(f"--dtype {formats[0]} --kind {given['kind'] or formats[1]} for {given['dtype']}")
        given["dtype"], given["kind"] = formats[0], given["kind"] or formats[1]
    if (named := _ALIASES.get(given["dtype"].lower())) is not None:
        other = _OTHERS.get(given["dtype"].lower())
        assumed += [f"--dtype {named} for {given['dtype']}{f' (or {other})' if other else ''}"]
        given["dtype"] = named
    if given["cta_group"] not in (1, 2):
        raise InputError(f"--cta-group {given['cta_group']}: needs 1, or 2 for a pair of CTAs")
    if given["arch"] is None:
        if given["cta_group"] != 2:
            raise InputError(f"--arch is missing: needs one of {', '.join(WITH_DESCRIPTORS)}, as --arch sm_90a")
        given["arch"] = "sm_100a"
        assumed.append("--arch sm_100a")
    if given["major"] is None:
        given["major"] = "K"
        assumed.append("--major K (the other is MN)")
    given["major"] = given["major"].upper()
    if assumed:
        click.echo(f"smemsim: assumed {', '.join(assumed)}", err=True)


def _plan_product(tile: str, swizzle: str | None, as_json: bool, code: str | None, given: dict[str, Any]) -> None:
    """Print both operands, D and the PTX of a tile MxNxK."""
    from smemsim.planning.arrangement import IllegalPlan
    from smemsim.planning.product import plan_product, widest_product

    context = click.get_current_context()
    foreign = ("side", "m", "n", "matrix", "pitch_bytes", "at", "other_major", "every", "scenario", "one_box")
    if strange := strangers(context, foreign):
        m, n, k = re.findall(r"\d+", tile)
        raise InputError(
            f"{strange}: of one operand: smemsim plan {m}x{k} for A, {n}x{k} --side b for B (with --cta-group 2 half of the rows)"
        )
    m, n, k = (int(x) for x in re.findall(r"\d+", tile))
    taken = {name: given[name] for name in ("arch", "dtype", "major", "kind", "cta_group", "stack", "base_address", "stages")}
    try:
        made = widest_product(m, n, k, **taken) if swizzle is None else plan_product(m, n, k, swizzle=swizzle, **taken)
    except IllegalPlan as e:
        if as_json:
            click.echo(json.dumps({"legal": False, "reason": e.reason, "nearest": e.nearest, "changed": list(e.changed)}, indent=1))
        else:
            click.echo(in_columns(f"{PREFIXED}WRONG: {e}"), err=True)
        context.exit(1)
    click.echo(made.code(code) if code else json.dumps(made.as_dict(), indent=1) if as_json else f"{PLANNED}\n{made.text()}")
