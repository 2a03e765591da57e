"""`smemsim solve`: find descriptors for an operand, the fault that causes a wrong D, or a layout without bank
conflicts.
"""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING, Any, NoReturn

import click

from smemsim.base.errors import InputError
from smemsim.cli.options import PLACE, in_capitals, json_option, parse_address, strangers
from smemsim.core.spec.architectures import WITH_DESCRIPTORS

if TYPE_CHECKING:
    import numpy as np

    from smemsim.diagnosis.descriptors.answers import Answer
    from smemsim.diagnosis.product import ProductExplanation

__all__ = ["solve"]


MOST_BYTES = 1 << 28


OF_PRODUCT = "--d --a --b"  # of the forms of the command the one that explains a D
FORMS = {  # what is given, and what solve then finds
    "a scenario": ("SCENARIO", "descriptors for an operand of a scenario"),
    "a dump and an operand": ("DUMP OPERAND", "descriptors that read an array in a memory dump"),
    OF_PRODUCT: ("--d FILE --a FILE --b FILE", "the fault behind a wrong D"),
    "--layout": ("--layout LAYOUT", "descriptors for a CuTe layout"),
    "--conflicts": ("--conflicts --access OP:BYTES:AT", "a layout without bank conflicts"),
}
PRODUCT = ("a_type", "b_type", "d_type", "kind", "a_swizzle", "b_swizzle", "a_major", "b_major", "m", "n")
DUMP = ("base", "dtype", "major", "rows", "k", "packing")
CONFLICTS = ("access", "pitch", "steps", "tma")


@click.command(short_help="Find descriptors that read an operand, the fault behind a wrong D, or a layout without bank conflicts.")
@click.argument("paths", nargs=-1, type=PLACE, metavar="[SCENARIO | DUMP OPERAND]")
@click.option("--arch", metavar="ARCH", help=f"Dump, product: architecture: {', '.join(WITH_DESCRIPTORS)}.")
@click.option("--operand", "where", metavar="STEP", help="Scenario: the operand, such as step[1].a. It need not have a word.")
@click.option(
    "--layout",
    metavar="LAYOUT",
    help="Instead of files: the tile as a CuTe layout (M or N, K) of elements, as 'Sw<3,4,3> o (128,64):(64,1)'.",
)
@click.option("--base", metavar="ADDRESS", help="Dump, layout: the .shared address of the first byte.")
@click.option("--dtype", metavar="TYPE", help="Dump: element type of the operand.")
@click.option("--major", callback=in_capitals, metavar="K|MN", help="Dump: which axis is contiguous.")
@click.option("--rows", type=int, help="Dump: M or N elements of one instruction. Default: all of the operand.")
@click.option("--k", type=int, help="Dump: K elements of one instruction. Default: all of the operand.")
@click.option("--packing", default="packed", show_default=True, help="Dump: 4-bit types, packed (mxf4) or padded (f8f6f4).")
@click.option("--d", "d", type=PLACE, metavar="FILE", help="Product: the wrong D (M, N), .npy of raw bits or of numbers.")
@click.option("--a", "a", type=PLACE, metavar="FILE", help="Product: A (M, K).")
@click.option("--b", "b", type=PLACE, metavar="FILE", help="Product: B (N, K).")
@click.option("--c", "c", type=PLACE, metavar="FILE", help="Product: D before the product. Default: 0.")
@click.option("--a-type", metavar="TYPE", help="Product: element type of A.")
@click.option("--b-type", metavar="TYPE", help="Product: element type of B; A's if left out.")
@click.option("--d-type", default="f32", show_default=True, metavar="TYPE", help="Product: type of D.")
@click.option("--kind", metavar="KIND", help="Product: kind of the tcgen05.mma: f16, tf32, f8f6f4, i8.")
@click.option("--a-swizzle", default="128B", show_default=True, help="Product: the swizzle that A is meant to have.")
@click.option("--b-swizzle", default="128B", show_default=True, help="Product: the swizzle that B is meant to have.")
@click.option("--a-major", default="K", show_default=True, help="Product: K or MN.")
@click.option("--b-major", default="K", show_default=True, help="Product: K or MN.")
@click.option("--m", type=int, help="Product: rows of one instruction.")
@click.option("--n", type=int, help="Product: columns of one instruction.")
@click.option("--conflicts", is_flag=True, help="Conflicts: find layouts in which no --access has bank conflicts.")
@click.option(
    "--access", multiple=True, metavar="OP:BYTES:AT", help="Conflicts: an access, as ldmatrix.x4:16:lane % 16 * 128 + lane // 16 * 16."
)
@click.option("--pitch", type=int, help="Conflicts: bytes of a row of the buffer.")
@click.option("--steps", type=int, default=1, show_default=True, help="Conflicts: the number of values that `step` takes in AT, from 0 on.")
@click.option("--tma", is_flag=True, help="Conflicts: TMA writes the buffer, so try only its swizzles.")
@json_option
@click.pass_context
def solve(
    ctx: click.Context,
    /,
    paths: tuple[pathlib.Path, ...],
    arch: str | None,
    where: str | None,
    d: pathlib.Path | None,
    a: pathlib.Path | None,
    b: pathlib.Path | None,
    c: pathlib.Path | None,
    layout: str | None,
    conflicts: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Find every descriptor that reads an operand. If there is none, prove it, and show the nearest one.

    DUMP is a file of shared memory (.npy of uint8, or raw bytes). OPERAND is an .npy file (rows, k) of raw element
    bits or of numbers.

    With --d --a --b: find the fault of a descriptor or writer that makes this D from A and B.

    With --conflicts: find an XOR swizzle or a padding in which no --access has bank conflicts. AT is the byte offset
    of each lane; with --layout it is row, column.

    Exit code 0: a descriptor, a cause or a layout was found. 1: there is none. 2: bad input. 3: not modelled.

    \b
    smemsim solve smem.bin a.npy --base 0x400 --arch sm_90a --dtype bf16 --major K --k 16
    smemsim solve --layout 'Sw<3,4,3> o (128,64):(64,1)' --base 0x400 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16
    smemsim solve kernel.toml --operand "step[1].a"
    smemsim solve --d d.npy --a a.npy --b b.npy --arch sm_90a --a-type bf16
    smemsim solve --conflicts --access "ldmatrix.x4:16:lane % 16 * 128 + lane // 16 * 16" --access "st:16:lane * 16" --pitch 128
    """
    from smemsim.core.picture.lines import print_lines

    if conflicts:
        _free_of_conflicts(ctx, layout, given, as_json=as_json, files=bool(paths))
    matrices = {"d": d, "a": a, "b": b, "c": c}
    form = _form(ctx, paths, layout, is_product=any(x is not None for x in matrices.values()))
    answer: Any
    if form == OF_PRODUCT:
        from smemsim.show.solution import explanation_view

        answer = _explained(arch, matrices, given)
        fine, view = answer.looks_like != "unknown", explanation_view(answer)
    else:
        from smemsim.show.solution import answer_view

        if layout is not None:
            answer = _of_layout(layout, arch, given)
        else:
            answer = _of_scenario(paths[0], where or "") if len(paths) == 1 else _of_dump(paths[0], paths[1], arch, given)
        fine, view = bool(answer.descriptors), answer_view(answer)
    if as_json:
        click.echo(json.dumps(answer.as_dict(), indent=1))
    else:
        print_lines(view)
    if not fine and (layout is not None or len(paths) == 2):
        turned = given | {"major": "MN" if given["major"] == "K" else "K"}
        other = _of_layout(layout, arch, turned) if layout is not None else _of_dump(paths[0], paths[1], arch, turned)
        if count := len(other.descriptors):
            told = f"{count} descriptor{'s read' if count > 1 else ' reads'} it as {turned['major']}-major: --major {turned['major']}"
            click.echo(f"smemsim: {told}", err=True)
    ctx.exit(0 if fine else 1)


def _form(ctx: click.Context, paths: tuple[pathlib.Path, ...], layout: str | None, *, is_product: bool) -> str:
    """Which of the forms is asked for. Raises InputError if options of another form are given, too."""
    forms = dict(zip(FORMS, (len(paths) == 1, len(paths) == 2, is_product, layout is not None, False), strict=True))
    given = [name for name, is_ in forms.items() if is_]
    if len(given) != 1 or len(paths) > 2:
        told = " and ".join(given) + ": needs" if given else "no input: give" if not paths else f"{len(paths)} files: give"
        listed = "".join(f"\n    {how:<36}{what}" for how, what in FORMS.values())
        raise InputError(f"{told} one of:{listed}\n  smemsim solve --help has an example of each")
    strange = strangers(
        ctx,
        [
            *CONFLICTS,
            *(() if is_product else PRODUCT),
            *(() if len(paths) == 2 or layout else DUMP),
            *(["where"] if len(paths) != 1 else []),
        ],
    )
    if strange:
        raise InputError(f"{strange.replace('--where', '--operand')}: not an option of {given[0]}")
    return given[0]


def _free_of_conflicts(ctx: click.Context, layout: str | None, given: dict[str, Any], *, as_json: bool, files: bool) -> NoReturn:
    """Print layouts without bank conflicts, and end the command."""
    from smemsim.core.layout.conflicts import conflict_free_layouts, read_access
    from smemsim.core.layout.cute import CuteLayout
    from smemsim.core.picture.lines import print_lines
    from smemsim.core.spec.formats import element_format
    from smemsim.show.solution import conflicts_view

    strange = strangers(ctx, [*PRODUCT, *(x for x in DUMP if x != "dtype"), "where", "arch", "d", "a", "b", "c"])
    if files or strange:
        raise InputError(
            f"{f'{strange}: not an option' if strange else 'files: nothing'} of --conflicts; give accesses by --access OP:BYTES:AT"
        )
    if not given["access"]:
        raise InputError("--access is missing; smemsim solve --help has an example")
    bits = element_format(given["dtype"]).bits if given["dtype"] else 8
    if bits % 8:
        raise InputError(f"--dtype {given['dtype']}: needs elements of whole bytes")
    tile = CuteLayout.parse(layout, element_bits=bits) if layout is not None else None
    try:
        accesses = [read_access(text, steps=given["steps"], layout=tile, element_bytes=bits // 8) for text in given["access"]]
    except InputError as e:
        raise InputError(f"--access: {e}") from None
    answer = conflict_free_layouts(accesses, pitch=given["pitch"], tma=given["tma"])
    if as_json:
        click.echo(json.dumps(answer.as_dict(), indent=1))
    else:
        size = bits // 8 if given["dtype"] else answer.element_bytes
        print_lines(conflicts_view(answer, element_bytes=size, pitch=given["pitch"] or 0))
    ctx.exit(0 if answer.layouts else 1)


def _missing(**given: Any) -> None:
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is None]
    if names:
        raise InputError(f"{', '.join(names)} {'are' if names[1:] else 'is'} missing; smemsim solve --help has examples")


def _of_scenario(path: pathlib.Path, where: str) -> Answer:
    from smemsim.diagnosis.check import wanted_of
    from smemsim.diagnosis.descriptors.find import of_memory

    return of_memory(*wanted_of(path, where))


def _of_layout(text: str, arch: str | None, given: dict[str, Any]) -> Answer:
    import numpy as np

    from smemsim.core.layout.cute import CuteLayout
    from smemsim.core.spec.formats import element_format
    from smemsim.diagnosis.descriptors.find import MOST_ELEMENTS, find_descriptors

    _missing(base=given["base"], arch=arch, dtype=given["dtype"], major=given["major"])
    bits, base = element_format(given["dtype"]).bits, parse_address("--base", given["base"])
    layout = CuteLayout.parse(text, element_bits=bits)
    if layout.rank != 2 or layout.size > MOST_ELEMENTS:
        raise InputError(f"--layout {layout}: needs two modes, (M or N, K), and at most {MOST_ELEMENTS:,} elements")
    rows, k = (mode.size for mode in layout.modes())
    places = np.array([[layout.address(base, bits, i, j) for j in range(k)] for i in range(rows)])
    return find_descriptors(places, arch=str(arch), **{name: given[name] for name in DUMP if name != "base"})


def _of_dump(dump: pathlib.Path, operand: pathlib.Path, arch: str | None, given: dict[str, Any]) -> Answer:
    from smemsim.core.spec.formats import element_format
    from smemsim.diagnosis.descriptors.find import find_descriptors
    from smemsim.diagnosis.product import element_bits

    _missing(base=given["base"], arch=arch, dtype=given["dtype"], major=given["major"])
    bits = element_bits(str(operand), _array(operand), element_format(given["dtype"]))
    own = {name: given[name] for name in DUMP} | {"base": parse_address("--base", given["base"])}
    return find_descriptors(dump=_dump(dump), operand=bits, arch=str(arch), **own)


def _explained(arch: str | None, matrices: dict[str, pathlib.Path | None], given: dict[str, Any]) -> ProductExplanation:
    from smemsim.diagnosis.product import explain_product

    _missing(**{name: matrices[name] for name in "dab"}, arch=arch, a_type=given["a_type"])
    arrays: dict[str, Any] = {name: _array(path) for name, path in matrices.items() if path is not None}
    own: dict[str, Any] = {name: given[name] for name in PRODUCT}
    return explain_product(arch=str(arch), **arrays, **own)


def _array(path: pathlib.Path) -> np.ndarray:
    """The array of an .npy file."""
    from smemsim.base.array_files import read_npy

    return read_npy(path, MOST_BYTES)


def _dump(path: pathlib.Path) -> Any:
    """The bytes of shared memory, from a raw file or an .npy array of any unsigned type."""
    from smemsim.base.files import read_bytes

    if path.suffix != ".npy":
        return read_bytes(path, MOST_BYTES)
    array = _array(path)
    if array.dtype.kind not in "iu":
        raise InputError(f"{path}: an array of {array.dtype}; needs bytes, uint8")
    return array.tobytes()
