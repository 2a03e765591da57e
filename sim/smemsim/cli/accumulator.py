"""`smemsim map WORD --kind …`: D of a tcgen05.mma in tensor memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from smemsim.arguments import shown
from smemsim.cli.options import parse_address, parse_numbers
from smemsim.errors import InputError
from smemsim.spec.findings import Severity

__all__ = ["ACCUMULATOR", "accumulator_options", "map_accumulator"]

ACCUMULATOR = ("kind", "cta_group", "ws", "taddr", "element", "cell", "register", "ld")
F = TypeVar("F", bound=Callable[..., Any])


def accumulator_options(function: F) -> F:
    """--kind and what D's place depends on, and the three questions."""
    options = (
        click.option("--kind", metavar="KIND", help="The word is a tcgen05 instruction descriptor of this kind: show D in tensor memory."),
        click.option("--cta-group", type=int, metavar="1|2", help="D: one CTA or a pair; 1 if left out."),
        click.option("--ws", is_flag=True, help="D: of tcgen05.mma.ws."),
        click.option("--taddr", metavar="ADDRESS", help="D: its tensor-memory address, lane << 16 | column; 0 if left out."),
        click.option("--element", metavar="M,N", help="D: where is this element, and which register loads it?"),
        click.option("--cell", metavar="LANE,COLUMN", help="D: which element is in this cell (of CTA 0; a third number names the CTA)?"),
        click.option(
            "--register",
            metavar="WARP,THREAD,REG",
            help="D: which element does a tcgen05.ld (--ld) put into this register (of CTA 0; or ,CTA)?",
        ),
        click.option(
            "--ld",
            metavar="SHAPE.xN",
            help="D: the tcgen05.ld, as 32x32b.x32, 16x256b.x8.pack::16b or 16x32bx2.x8,16 (offset); from --taddr on.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def map_accumulator(
    word: int,
    form: str,
    *,
    kind: str,
    cta_group: int | None,
    ws: bool,
    taddr: str | None,
    element: str | None,
    cell: str | None,
    register: str | None,
    ld: str | None,
) -> int:
    """Print the picture of D, or the answer to one question; the exit code is 1 when the instruction has something seriously wrong."""
    from smemsim.descriptors.instr import InstrDescriptor
    from smemsim.show.accumulator import AccumulatorMap, accumulator_svg
    from smemsim.show.plain import print_lines

    if (element is not None) + (cell is not None) + (register is not None) > 1:
        raise InputError("--element, --cell and --register exclude each other")
    if (register is None) != (ld is None):
        raise InputError("--register and --ld go together: a register of which tcgen05.ld, as --register 1,4,3 --ld 32x32b.x32")
    at = parse_address("--taddr", taddr) if taddr else 0
    instr, group = InstrDescriptor.decode(word, kind=kind), 1 if cta_group is None else cta_group
    picture = AccumulatorMap.of(instr, cta_group=group, ws=ws, taddr=at)
    grave = [f for f in instr.problems(cta_group=group, ws=ws) if f.severity in (Severity.TRAP, Severity.WRONG)]
    for finding in grave:
        click.echo(f"smemsim: {finding}", err=True)
    if element is None and cell is None and register is None:
        if form == "csv":
            click.echo(picture.csv(), nl=False)
        elif form:
            click.echo(picture.json() if form == "json" else accumulator_svg(picture))
        else:
            print_lines(picture.view())
        return int(bool(grave))
    if form in ("csv", "svg"):
        raise InputError(f"--{form}: of the whole D; one element is printed as text or --json")
    found = _asked(picture, at, element, cell, register, ld)
    if form == "json":
        described = [picture.describe(m, n) for m, n in found]
        click.echo(json.dumps(described if len(described) > 1 else described[0], indent=1))
    else:
        for half, (m, n) in enumerate(found):
            if len(found) > 1:
                click.echo(f"bits {16 * half + 15}:{16 * half} of the register, the lower half of its cell:")
            print_lines(picture.element_lines(m, n))
    return int(bool(grave))


def _asked(picture: Any, at: int, element: str | None, cell: str | None, register: str | None, ld: str | None) -> list[tuple[int, int]]:
    """(m, n) of the element that the question is about; of both for a packed register."""
    if element is not None:
        m, n = _counted("--element", element, "M,N", 2)
        return [(m, n)]
    if cell is not None:
        lane, column, *cta = _counted("--cell", cell, "LANE,COLUMN or LANE,COLUMN,CTA", 2, 3)
        return [picture.layout.element(*(cta or [0]), lane, column)]
    warp, thread, number, *cta = _counted("--register", str(register), "WARP,THREAD,REGISTER or WARP,THREAD,REGISTER,CTA", 3, 4)
    access = _access(str(ld), at)
    halves = (0, 1) if access.pack else (0,)
    return [picture.layout.element(*(cta or [0]), *access.location(warp, thread, number, half=half)) for half in halves]


def _counted(name: str, text: str, wanted: str, *counts: int) -> tuple[int, ...]:
    numbers = parse_numbers(name, text, wanted)
    if len(numbers) not in counts:
        raise InputError(f"{name} {shown(text)}: needs {wanted}")
    return numbers


def _access(text: str, at: int) -> Any:
    """The access of `SHAPE.xN`, with `.pack::16b` or not."""
    from smemsim.machine.tmem.access import TmemAccess

    text, _, offset = text.removeprefix("tcgen05.ld").removeprefix(".sync.aligned").partition(",")
    shape, *rest = text.removeprefix(".").removesuffix(".b32").split(".")
    repeat = [part for part in rest if re.fullmatch(r"x[0-9]{1,4}", part)]
    others = [part for part in rest if part not in repeat]
    if len(repeat) != 1 or others not in ([], ["pack::16b"]):
        raise InputError(f"--ld {shown(text)}: needs a shape and its repetition, as 32x32b.x32 or 16x256b.x8.pack::16b")
    split = parse_numbers("--ld", offset, "the offset of the second half, as 16x32bx2.x8,16")[0] if offset else None
    return TmemAccess(shape, int(repeat[0][1:]), pack=bool(others), half_split_offset=split, taddr=at)
