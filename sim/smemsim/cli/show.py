"""`smemsim show`: draw the elements of an operand, and what is wrong with them."""

from __future__ import annotations

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any

import click

from smemsim.base.errors import InputError
from smemsim.base.files import check_place, same_file, write_whole, wrote
from smemsim.cli.options import FILE, OPERAND_EXAMPLE, check_options, json_option, operand_options, parse_numbers, parse_word, strangers

if TYPE_CHECKING:
    from smemsim.diagnosis.report import Report
    from smemsim.diagnosis.tile import TilePicture

__all__ = ["show"]


_OPERAND = ("arch", "dtype", "major", "rows", "k")
_ADDS = ("k_add", "mn_add")
_NOT_ATOMS = ("html_file", "as_json", "lines", "k_step", "block")
LINES = 24


@click.command(
    context_settings={"ignore_unknown_options": True}, short_help="Draw a tile and shared memory, with everything that is wrong."
)
@click.argument("words", nargs=-1, required=True, metavar="WORD | SCENARIO | patterns | banks")
@click.option(
    "--access",
    metavar="OP:BYTES:AT",
    help="Banks: the access to draw, as ldmatrix.x4:16:lane % 16 * 128 + lane // 16 * 16 (see smemsim solve).",
)
@click.option("--arch", metavar="ARCH", help="Descriptor: sm_90a, sm_100a or sm_103a.")
@operand_options(required=False)
@click.option("--k-add", metavar="B0,B1,…", help="Descriptor: bytes that each K step adds to the start address, as 0,32,64,96.")
@click.option("--mn-add", metavar="B0,B1,…", help="Descriptor: bytes that each block of M or N adds.")
@click.option("--operand", metavar="PLACE", help="Scenario: one operand, as step[1].a.")
@click.option("--stage", type=int, metavar="N", help="Scenario: only operands that read from this stage.")
@click.option(
    "--k-step", type=int, metavar="N", help="Outline what this K step (from 0) reads; left out: the step of the first wrong element."
)
@click.option("--block", type=int, metavar="N", help="Outline what this block of M or N reads, from 0 on.")
@click.option(
    "--html",
    "html_file",
    type=FILE,
    metavar="FILE",
    help="Scenario: write one self-contained page.",
)
@click.option(
    "--atoms", is_flag=True, help="Draw the operand as its swizzle atoms, with what each instruction reads and where LBO and SBO lead."
)
@click.option("--svg", "as_svg", is_flag=True, help="Print an SVG picture of one operand.")
@json_option
@click.option("--lines", type=int, help=f"At most this many 128-byte lines in a picture; {LINES} in the terminal, 48 in an SVG.")
@click.pass_context
def show(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    operand: str | None,
    stage: int | None,
    k_step: int | None,
    block: int | None,
    html_file: pathlib.Path | None,
    as_svg: bool,
    atoms: bool,
    as_json: bool,
    lines: int | None,
    **given: Any,
) -> None:
    """Draw an operand: its tile, and the 128-byte lines of shared memory that hold it.

    For a scenario (see smemsim check): the findings, and every operand with its wrong chunks and the chunks that each K
    step reads. For a 64-bit matrix descriptor: the bytes that it reads. It needs --arch, --dtype, --major, --rows and
    --k. With --html one page is written. It has the findings, the pictures, and the address, bank, writer and reader of
    each element.

    In the terminal, ! marks a wrong chunk, [ ] a chunk that the selected K step reads, ( ) a chunk that
    was meant and is never read.

    The command smemsim show patterns draws the swizzle patterns. The command smemsim show banks draws how an access
    uses the banks.

    Exit code 0: nothing is wrong. 1: the scenario has findings. 2: bad input. 3: not modelled.

    \b
    smemsim show kernel.toml
    smemsim show kernel.toml --html report.html
    smemsim show kernel.toml --operand 'step[1].a' --svg > a.svg
    smemsim show 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16 --k-add 0,32,64,96
    smemsim show 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16 --k-add 0,32,64,96 --atoms --svg > atoms.svg
    smemsim show patterns --svg > patterns.svg
    smemsim show banks --access "ldmatrix.x4:16:lane % 16 * 128 + lane // 16 * 16"
    """
    check_options(words)
    text = " ".join(words)
    _check_form(as_svg + as_json + (html_file is not None), lines, html_file, text)
    access = given.pop("access")
    if text in ("patterns", "banks"):
        others = (*_OPERAND, *_ADDS, *_NOT_ATOMS, "packing", "operand", "stage", "atoms", *(["access"] if text == "patterns" else []))
        ctx.exit(_patterns(as_svg, strangers(ctx, others)) if text == "patterns" else _banks(access, as_svg, strangers(ctx, others)))
    if atoms and (foreign := strangers(ctx, _NOT_ATOMS)):
        raise InputError(f"{foreign}: not with --atoms, which draws in the terminal or, with --svg, as a picture")
    report: Report | None = None
    if _is_file(text):
        if foreign := strangers(ctx, (*_OPERAND, *_ADDS, "packing", "access")):
            raise InputError(f"{foreign}: of a descriptor; the scenario says it of its operands")
        report, tiles = _of_scenario(text, operand, stage)
    else:
        if foreign := strangers(ctx, ("operand", "stage", "html_file", "access")):
            raise InputError(f"{foreign.replace('html-file', 'html')}: of a scenario; {text} is a descriptor")
        tiles = [_of_word(text, given)]
    chosen = [_selected(tile, block, k_step) for tile in tiles]
    if html_file is not None:
        _write(html_file, report, tiles)
    elif atoms:
        _print_atoms(tiles, as_svg)
    elif as_svg:
        _print_svg(tiles, chosen, lines)
    elif as_json:
        _print_json(report, tiles)
    else:
        _print_text(report, tiles, chosen, lines or LINES)
    if report is not None and report.is_empty and report.expected is None:
        ctx.exit(2)
    ctx.exit(0 if report is None or (report.as_expected if report.expected is not None else not report.codes) else 1)


def _is_file(text: str) -> bool:
    """Is the text a path? Words have no dot and no slash."""
    return pathlib.Path(text).suffix in (".toml", ".json") or os.path.isfile(text)


def _of_scenario(path: str, operand: str | None, stage: int | None) -> tuple[Report, list[TilePicture]]:
    from smemsim.diagnosis.check import check
    from smemsim.diagnosis.tile import TilePicture

    report = check(pathlib.Path(path))
    machine = report.machine
    assert machine is not None
    seen = [s for s in machine.seen if operand in (None, str(s.read.where)) and stage in (None, s.read.operand.stage or 0)]
    there = [str(s.read.where) for s in machine.seen]
    if operand is not None and operand not in there:
        raise InputError(f"--operand {operand}: the scenario shows {', '.join(there) or 'no operand (an operand needs words and meant)'}")
    if stage is not None and not seen:
        stages = sorted({s.read.operand.stage or 0 for s in machine.seen})
        raise InputError(f"--stage {stage}: no operand reads it; they read {', '.join(map(str, stages)) or 'none'}")
    return report, [TilePicture.of_seen(machine, s) for s in seen]


def _of_word(text: str, given: dict[str, Any]) -> TilePicture:
    from smemsim.diagnosis.tile import TilePicture

    word = parse_word(text)
    if missing := [f"--{name}" for name in _OPERAND if given[name] is None]:
        raise InputError(f"a descriptor alone does not say what it reads; missing: {', '.join(missing)}, as {OPERAND_EXAMPLE}")
    adds: dict[str, Any] = {
        name: list(parse_numbers(f"--{name.replace('_', '-')}", given.pop(name) or "0", "bytes, as 0,32,64,96")) for name in _ADDS
    }
    return TilePicture.of(word, **given, **adds)


def _selected(tile: TilePicture, block: int | None, k_step: int | None) -> tuple[int, int] | None:
    """(block, K step) to outline; None if neither is given."""
    if block is None and k_step is None:
        return None
    blocks, steps = tile.words.shape
    for name, value, count in (("--block", block, blocks), ("--k-step", k_step, steps)):
        if value is not None and not 0 <= value < count:
            raise InputError(f"{name} {value}: {tile.name} has {count}, from 0 to {count - 1}")
    return block or 0, k_step or 0


def _one(tiles: list[TilePicture], option: str = "--svg") -> None:
    if len(tiles) != 1:
        listed = ", ".join(tile.where for tile in tiles) or "none"
        raise InputError(f"{option}: draws one operand, and there are {len(tiles)} ({listed}); choose with --operand")


def _check_form(forms: int, lines: int | None, html_file: pathlib.Path | None, text: str) -> None:
    if html_file is not None:
        check_place("--html", html_file)
        if _is_file(text) and same_file(html_file, pathlib.Path(text)):
            raise InputError(f"--html {html_file}: is the file of the scenario too; needs a file of its own")
    if forms > 1:
        raise InputError("--html, --json and --svg exclude each other")
    if lines is not None and lines < 1:
        raise InputError(f"--lines {lines}: needs at least 1")


def _patterns(as_svg: bool, foreign: str) -> int:
    """Draw the swizzle patterns."""
    from smemsim.core.picture.text import picture_text, stdout
    from smemsim.show.tile import pattern_svg, patterns

    if foreign:
        raise InputError(f"{foreign}: not of the patterns, which take --svg")
    if as_svg:
        click.echo(pattern_svg())
    else:
        for picture in patterns():
            stdout().print(picture_text(picture))
    return 0


def _banks(access: str | None, as_svg: bool, foreign: str) -> int:
    """Draw how one access uses the banks."""
    from smemsim.core.layout.conflicts import read_access
    from smemsim.core.picture.text import picture_text, stdout
    from smemsim.show.banks import banks_picture, banks_svg

    if foreign or access is None:
        raise InputError(
            f"{foreign}: not of banks, which take --access and --svg"
            if foreign
            else "--access is missing; for example --access 'ld:4:lane * 8'"
        )
    one = read_access(access)
    if as_svg:
        click.echo(banks_svg(one))
    else:
        stdout().print(picture_text(banks_picture(one)))
    return 1 if one.cost > one.ideal else 0


def _print_atoms(tiles: list[TilePicture], as_svg: bool) -> None:
    from smemsim.core.picture.text import picture_text, stdout
    from smemsim.show.tile import atoms_svg

    _one(tiles, "--atoms")
    if as_svg:
        click.echo(atoms_svg(tiles[0]))
    else:
        stdout().print(picture_text(tiles[0].atoms()))


def _print_svg(tiles: list[TilePicture], chosen: list[tuple[int, int] | None], lines: int | None) -> None:
    from smemsim.diagnosis.tile import MOST_LINES
    from smemsim.show.tile import tile_svg

    _one(tiles)
    click.echo(tile_svg(tiles[0], selected=chosen[0], most=lines or MOST_LINES))


def _print_json(report: Report | None, tiles: list[TilePicture]) -> None:
    from smemsim.diagnosis.tile import page_data

    if report is None or report.machine is None:
        click.echo(json.dumps(tiles[0].data()))
        return
    click.echo(json.dumps({**report.as_dict(), **page_data(report.machine, tiles)}))


def _print_text(report: Report | None, tiles: list[TilePicture], chosen: list[tuple[int, int] | None], lines: int) -> None:
    """Print the findings of a scenario, then draw every operand."""
    from rich.text import Text

    from smemsim.core.picture.lines import SENTENCE, wrapped
    from smemsim.core.picture.text import picture_text, stdout

    console, widest = stdout(), (SENTENCE - 10) // 8
    if report is not None:
        console.print(
            *[Text(report.title, "bold")] * bool(report.title), Text("\n".join(map(wrapped, report.text().splitlines()))), sep="\n"
        )
    for tile, selected in zip(tiles, chosen, strict=True):
        console.print(*[""] * (report is not None), picture_text(tile.picture(lines, selected), widest), sep="\n")


def _write(path: pathlib.Path, report: Report | None, tiles: list[TilePicture]) -> None:
    from smemsim.core.picture.page import page_html

    assert report is not None
    write_whole(path, page_html(report.page(tiles)))
    click.echo(report.text())
    click.echo(f"smemsim: {wrote(path, 'findings and pictures')}", err=True)
