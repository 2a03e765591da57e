"""`smemsim map`: the places of the elements of an operand, a transfer, an accumulator or a layout."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from smemsim.base.arguments import shown
from smemsim.base.errors import HardwareTrap, InputError
from smemsim.cli.decode import Given, read_input
from smemsim.cli.layouts import DIVISIONS, layout_options, map_layout
from smemsim.cli.options import (
    OPERAND_EXAMPLE,
    check_options,
    json_option,
    operand_options,
    parse_address,
    parse_numbers,
    parse_offsets,
    parse_word,
    strangers,
)
from smemsim.core.finding import Finding
from smemsim.core.layout.cute import is_layout
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.transfers import LOAD_MODES, STORE_MODES

if TYPE_CHECKING:
    from smemsim.core.picture.model import Picture
    from smemsim.show.transfer import TransferMap

__all__ = ["ACCUMULATOR", "accumulator_options", "map_accumulator", "map_command"]


# ---- `smemsim map WORD --kind …`: D of a tcgen05.mma in tensor memory


ACCUMULATOR = ("kind", "cta_group", "ws", "taddr", "element", "cell", "register", "ld")
F = TypeVar("F", bound=Callable[..., Any])


def accumulator_options(function: F) -> F:
    """Add --kind, the options that decide the place of D, and --element, --cell and --register."""
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
            help="D: which element does a tcgen05.ld (--ld) put into this register? The lane of the warp is THREAD. A fourth number names the CTA; CTA 0 if left out.",
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
    """Print the picture of D, or the place of one element. Returns the exit code: 1 if the instruction is wrong."""
    from smemsim.core.picture.lines import print_lines
    from smemsim.core.words.instr import InstrDescriptor
    from smemsim.show.accumulator import AccumulatorMap

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
        elif form == "json":
            click.echo(picture.json())
        else:
            _draw(picture.picture(), form)
        return int(bool(grave))
    if form in ("csv", "svg"):
        raise InputError(f"--{form}: of the whole D; one element is printed as text or --json")
    answer = _asked(picture, at, element, cell, register, ld)
    if form == "json":
        described = [picture.describe(m, n) for m, n in answer]
        click.echo(json.dumps(described if len(described) > 1 else described[0], indent=1))
    else:
        for half, (m, n) in enumerate(answer):
            if len(answer) > 1:
                click.echo(f"bits {16 * half + 15}:{16 * half} of the register, the lower half of its cell:")
            print_lines(picture.element_lines(m, n))
    return int(bool(grave))


def _asked(picture: Any, at: int, element: str | None, cell: str | None, register: str | None, ld: str | None) -> list[tuple[int, int]]:
    """(m, n) of the element that was asked for; two of them for a packed register."""
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
    """The `tcgen05.ld` access of text such as `32x32b.x32`, with or without `.pack::16b`."""
    from smemsim.core.machine.tmem.memory import TmemAccess

    text, _, offset = text.removeprefix("tcgen05.ld").removeprefix(".sync.aligned").partition(",")
    shape, *rest = text.removeprefix(".").removesuffix(".b32").split(".")
    repeat = [part for part in rest if re.fullmatch(r"x[0-9]{1,4}", part)]
    others = [part for part in rest if part not in repeat]
    if len(repeat) != 1 or others not in ([], ["pack::16b"]):
        raise InputError(f"--ld {shown(text)}: needs a shape and its repetition, as 32x32b.x32 or 16x256b.x8.pack::16b")
    split = parse_numbers("--ld", offset, "the offset of the second half, as 16x32bx2.x8,16")[0] if offset else None
    return TmemAccess(shape, int(repeat[0][1:]), pack=bool(others), half_split_offset=split, taddr=at)


# ---- `smemsim map`: element to address, of an operand, a TMA transfer or an accumulator, as a picture or as data


_OPERAND = ("dtype", "major", "rows", "k")
_TRANSFER = ("at", "smem", "offsets", "mode", "store")
LINES = 32


@click.command(
    "map", context_settings={"ignore_unknown_options": True}, short_help="Show where each element of an operand, transfer or layout is."
)
@click.argument("words", nargs=-1, required=True, metavar="WORD | MAP | CALL | LAYOUT | FILE | -")
@click.option(
    "--arch", metavar="ARCH", help="sm_90a, sm_100a or sm_103a. A descriptor needs it. Default for a map: any architecture that accepts it."
)
@operand_options(required=False)
@click.option("--at", metavar="C0,C1,…", help="Tensor map: coordinates of the box, dimension 0 first; the origin if left out.")
@click.option("--smem", metavar="ADDRESS", help="Tensor map, layout: shared address of the box or of element 0, 0x400 if left out.")
@click.option("--offsets", metavar="W,H,…", help="Tensor map: im2col offsets, W first; of im2col::w wHalo,wOffset.")
@click.option(
    "--mode",
    metavar="MODE",
    help=f"Tensor map: the mode of the instruction, if it differs from the mode of the map. Loads: {', '.join(LOAD_MODES)}. Stores: {', '.join(STORE_MODES)}.",
)
@click.option("--store", is_flag=True, help="Tensor map: a store, not a load.")
@accumulator_options
@layout_options
@click.option("--csv", "as_csv", is_flag=True, help="Print a line for every element of an operand, for every byte of a transfer.")
@json_option
@click.option("--svg", "as_svg", is_flag=True, help="Print an SVG picture.")
@click.option(
    "--lines",
    type=int,
    help=f"At most this many 128-byte lines in the picture; {LINES} in the terminal. An SVG grows with them.",
)
@click.pass_context
def map_command(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    arch: str | None,
    as_csv: bool,
    as_json: bool,
    as_svg: bool,
    lines: int | None,
    **given: Any,
) -> None:
    """Show where the elements of an operand, a TMA transfer, an accumulator or a layout are.

    The picture has a row for each 128-byte line and a cell for each 16-byte chunk. The input is one of these:

    A 64-bit matrix descriptor: its operand (needs --arch, --dtype, --major, --rows and --k). Colours are the chunk
    columns before swizzling.

    A tensor map in any form that decode takes: one transfer. Colours are the rows of the box.

    A 32-bit instruction descriptor (--kind): the lanes and columns of D. --element, --cell and
    --register ask for one element.

    A layout as CuTe prints it: its elements (--dtype if the text has no [16b]).

    Exit code 1: the transfer would trap, or the driver refuses the map.

    \b
    smemsim map 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 16 --k 16
    smemsim map 0x4000404002000040 --arch sm_100a --dtype bf16 --major MN --rows 128 --k 16 --svg > operand.svg
    smemsim map 'Sw<3,4,3> o smem_ptr[16b](unset) o ((8,16),(64,4)):((64,512),(1,8192))'
    smemsim map 0x04200490 --kind f16 --element 20,3
    smemsim map 0x04200490 --kind f16 --register 1,4,3 --ld 32x32b.x128
    xxd tensor_map.bin | smemsim map - --at 0,64 --smem 0x800
    smemsim map --at 0,-8 'cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
      (void*)0x7f0000000000, {64, 128}, {64 * sizeof(__nv_bfloat16)}, {64, 16}, {1, 1},
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);'
    """
    check_options(words)
    if as_csv + as_json + as_svg > 1:
        raise InputError("--csv, --json and --svg exclude each other")
    if lines is not None and lines < 1:
        raise InputError(f"--lines {lines}: needs at least 1")
    form = "csv" if as_csv else "json" if as_json else "svg" if as_svg else ""
    if is_layout(text := " ".join(words)):
        if foreign := strangers(ctx, ("arch", "major", "rows", "k", "packing", *_TRANSFER[:1], *_TRANSFER[2:], *ACCUMULATOR)):
            raise InputError(f"{foreign}: not of a layout, which takes --dtype, --smem and --{', --'.join(map(_dashed, DIVISIONS))}")
        changes = {name: given[name] for name in DIVISIONS}
        ctx.exit(map_layout(text, form, dtype=given["dtype"], smem=given["smem"], most=lines, given=changes))
    if foreign := strangers(ctx, DIVISIONS):
        raise InputError(f"{foreign}: of a layout, as '((8,16),(64,2)):((64,512),(1,8192))'")
    read = read_input(words, arch)
    if read.maps:
        if foreign := strangers(ctx, (*_OPERAND, "packing", *ACCUMULATOR)):
            raise InputError(
                f"{foreign}: of a descriptor's operand or instruction; a tensor map takes {', '.join(f'--{n}' for n in _TRANSFER)}"
            )
        if len(read.maps) > 1:
            raise InputError(
                f"{len(read.maps)} encode calls ({', '.join(m.title for m in read.maps)}): paste the one whose transfer you mean"
            )
        if read.note:
            click.echo(f"smemsim: {read.note}", err=True)
        _map_transfer(ctx, read.maps[0], arch, form, lines, **{name: given[name] for name in _TRANSFER})
    _map_word(ctx, read.text, arch, form, lines, given)


def _map_word(ctx: click.Context, text: str, arch: str | None, form: str, lines: int | None, given: dict[str, Any]) -> None:
    """Print the operand of a descriptor, or D of an instruction."""
    word = parse_word(text, bits=64 if given["kind"] is None else 32)
    if foreign := strangers(ctx, _TRANSFER):
        raise InputError(f"{foreign}: of a tensor map's transfer; {text} is a descriptor")
    instruction = {name: given.pop(name) for name in ACCUMULATOR}
    if instruction["kind"] is not None:
        if foreign := strangers(ctx, (*_OPERAND, "packing", "arch", "lines")):
            raise InputError(
                f"{foreign}: not of an instruction's D (--kind), which takes {', '.join(f'--{_dashed(n)}' for n in ACCUMULATOR[1:])}"
            )
        ctx.exit(map_accumulator(word, form, **instruction))
    if foreign := strangers(ctx, ACCUMULATOR):
        raise InputError(f"{foreign}: belongs to an instruction's D; choose its kind with --kind")
    operand = {"arch": arch, **{name: value for name, value in given.items() if name not in (*_TRANSFER, *DIVISIONS)}}
    if missing := [f"--{name}" for name, value in operand.items() if value is None]:
        raise InputError(f"a descriptor alone does not say what it reads; missing: {', '.join(missing)}, as {OPERAND_EXAMPLE}")
    _map_operand(word, operand, form, lines)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _map_operand(word: int, operand: dict[str, Any], form: str, lines: int | None) -> None:
    from smemsim.show.operand import OperandMap

    picture = OperandMap.of(word, **operand)
    if form == "csv":
        click.echo(picture.csv(), nl=False)
    elif form == "json":
        click.echo(picture.json())
    else:
        _draw(picture.picture(*_most(form, lines)), form)


def _most(form: str, lines: int | None) -> list[int]:
    """Arguments for the number of lines in a picture, if it is given."""
    return [lines] if lines else [] if form == "svg" else [LINES]


def _draw(picture: Picture, form: str) -> None:
    """Print a picture as SVG or as text."""
    from smemsim.core.picture.svg import grids_svg, strips_svg
    from smemsim.core.picture.text import picture_text, stdout

    if form == "svg":
        click.echo(strips_svg(picture) if picture.strips else grids_svg(picture))
    else:
        stdout().print(picture_text(picture))


def _map_transfer(
    ctx: click.Context,
    pasted: Given,
    arch: str | None,
    form: str,
    lines: int | None,
    *,
    at: str | None,
    smem: str | None,
    offsets: str | None,
    mode: str | None,
    store: bool,
) -> NoReturn:
    from smemsim.core.spec.architectures import any_architecture
    from smemsim.show.tensor_map import refused_json

    tm = pasted.tm
    if pasted.unreadable:
        raise InputError(pasted.unreadable)
    if tm is None:
        about = refused_json(pasted.violations, call=pasted.call, arch=arch, arguments=pasted.arguments, hints=pasted.hints)
        _stopped(
            ctx, form, [*(f"refused: {refusal.message}" for refusal in pasted.violations), *(f"hint: {h}" for h in pasted.hints)], about
        )
    address = any_architecture(arch or "sm_90a").shared_begin if smem is None else parse_address("--smem", smem)
    coordinates = (0,) * tm.rank if at is None else parse_numbers("--at", at, "coordinates, dimension 0 first, as --at 0,-64")
    extra = parse_offsets(offsets) if offsets else ()
    if store and extra:
        raise InputError("--offsets: loads have them, stores have none")
    from smemsim.show.transfer import TransferMap

    try:
        picture = TransferMap.of(tm, coordinates, smem_address=address, im2col_offsets=extra, mode=mode, store=store, arch=arch)
    except HardwareTrap as e:
        _stopped(ctx, form, [f"traps: {e}"], {"trap": e.reason, "cuda_error": e.cuda_error})
    grave = [f for f in tm.problems(arch) if f.severity in (Severity.TRAP, Severity.WRONG)]
    _print_transfer(picture, form, lines, grave)
    ctx.exit(1 if grave else 0)


def _print_transfer(picture: TransferMap, form: str, lines: int | None, grave: list[Finding]) -> None:
    """Print the picture, and the grave findings of the map. If data goes to stdout, findings go to stderr."""
    if form == "csv":
        click.echo(picture.csv(), nl=False)
    elif form == "json":
        click.echo(picture.json())
    else:
        from smemsim.core.picture.text import stdout
        from smemsim.show.transfer import MOST_LINES

        text = form != "svg"
        _draw(picture.picture(lines or (LINES if text else MOST_LINES), stdout().width if text else None), form)
    for finding in grave:
        click.echo(str(finding), err=bool(form))


def _stopped(ctx: click.Context, form: str, sentences: list[str], described: dict[str, Any]) -> NoReturn:
    """Print what stops the transfer: to stdout as text or JSON, else to stderr."""
    if form == "json":
        click.echo(json.dumps(described, indent=1))
    else:
        for sentence in sentences:
            click.echo(sentence, err=bool(form))
    ctx.exit(1)
