"""`smemsim decode`: what does this word, or do these 128 bytes, mean, and what is wrong with them?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import click

from smemsim.cli.options import arch_option, check_options, json_option, operand_options, parse_word
from smemsim.cli.pasted import read_map
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.spec.findings import Severity

if TYPE_CHECKING:
    from smemsim.descriptors.tensor_map import TensorMap

__all__ = ["decode"]


@click.command(context_settings={"ignore_unknown_options": True})  # a negative word is an argument, not an option
@click.argument("words", nargs=-1, required=True, metavar="WORD | MAP | CALL | FILE")
@arch_option
@operand_options(required=False)
@click.option("--tile-bytes", type=int, help="Size of the buffer from the start address on.")
@json_option
@click.pass_context
def decode(ctx: click.Context, /, words: tuple[str, ...], arch: str | None, as_json: bool, **context: Any) -> None:
    """Explain a 64-bit shared-memory matrix descriptor, or the 128 bytes of a tensor map.

    A tensor map is 256 hex digits in any spacing, 32- or 64-bit words as a debugger prints them, the text of the encode call in C or
    Python, or a file with one of these or with the 128 bytes. Without --arch a word is shown as wgmma (sm_90a) and as tcgen05 (sm_100a)
    read it, and a map is judged for all architectures. The more is known of the operand, the more can be said. Exit code 1 when something
    is silently wrong or would trap, or the driver refuses the call.

    \b
    smemsim decode 0x4000404000010040 --arch sm_100a
    smemsim decode 0x4000020000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16
    smemsim decode tensor_map.bin
    smemsim decode 'cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)0x7f0000000000, {64, 128}, {128}, …);'
    """
    check_options(words)
    text = " ".join(words)
    if (made := read_map(text, arch)) is not None:
        _decode_map(ctx, made, arch, as_json)
    number = parse_word(text)
    shown = [SmemDescriptor.decode(number, arch=name) for name in ([arch] if arch else ["sm_90a", "sm_100a"])]
    findings = [d.problems(**context) for d in shown]
    if as_json:
        from smemsim.show.descriptor import descriptor_json

        described = [descriptor_json(d, found, major=context["major"]) for d, found in zip(shown, findings, strict=True)]
        click.echo(json.dumps(described[0] if arch else described, indent=1))
    else:
        from smemsim.show.descriptor import descriptor_view
        from smemsim.show.plain import Line, print_lines, terminal_width

        known = context["dtype"] is not None and context["major"] is not None and context["rows"] and context["k"]
        for i, (d, found) in enumerate(zip(shown, findings, strict=True)):
            view = descriptor_view(d, found, major=context["major"], context=bool(known), width=terminal_width())
            print_lines([Line(), *view] if i else view)
    # Without --arch the word is wrong when it is wrong in every reading.
    serious = all(any(f.severity in (Severity.TRAP, Severity.WRONG) for f in found) for found in findings)
    ctx.exit(1 if serious else 0)


def _decode_map(ctx: click.Context, tm: TensorMap | list[str], arch: str | None, as_json: bool) -> NoReturn:
    from smemsim.show.plain import print_lines, terminal_width
    from smemsim.show.tensor_map import refused_json, refused_view, tensor_map_json, tensor_map_view

    if isinstance(tm, list):
        if as_json:
            click.echo(json.dumps(refused_json(tm), indent=1))
        else:
            print_lines(refused_view(tm))
        ctx.exit(1)
    if as_json:
        click.echo(json.dumps(tensor_map_json(tm, arch), indent=1))
    else:
        print_lines(tensor_map_view(tm, arch, width=terminal_width()))
    serious = any(f.severity in (Severity.TRAP, Severity.WRONG) for f in tm.problems(arch))
    ctx.exit(1 if serious or tm.broken_on(arch) else 0)
