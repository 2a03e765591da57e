"""`smemsim decode`: what does this word, or do these 128 bytes, mean, and what is wrong with them?"""

from __future__ import annotations

import json
from typing import Any

import click

from smemsim.cli.options import arch_option, check_options, instruction_options, json_option, operand_options, parse_word, strangers
from smemsim.cli.pasted import Given, Read, read_input
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError
from smemsim.spec.findings import CODES, Severity

__all__ = ["decode"]

_INSTRUCTION = ("cta_group", "ws", "a_source", "swizzle_a", "swizzle_b", "scale_vec", "ashift")
_SERIOUS = (Severity.TRAP, Severity.WRONG)
_CODES = "\b\nCodes of findings, and how grave they usually are:\n" + "\n".join(
    f"{code.number}  {code.severity:<5}  {code.says}" for code in CODES.values()
)


@click.command(context_settings={"ignore_unknown_options": True}, short_help="Explain a descriptor or a tensor map.", epilog=_CODES)
@click.argument("words", nargs=-1, required=True, metavar="WORD | MAP | CALL | FILE | -")  # a negative word is an argument, no option
@arch_option
@operand_options(required=False)
@click.option("--tile-bytes", type=int, help="Descriptor: size of the buffer from the start address on.")
@instruction_options
@json_option
@click.pass_context
def decode(ctx: click.Context, /, words: tuple[str, ...], arch: str | None, as_json: bool, kind: str | None, **context: Any) -> None:
    """Explain a 64-bit shared-memory matrix descriptor, a 32-bit instruction descriptor (--kind), or the 128 bytes of a tensor map.

    A tensor map is its 128 bytes, as gdb, xxd, od -t x1, hexdump -C or an array of C or Python print them; the text of the encode calls in
    C, C++ or Python, with the constants that they use; or a file with one of these, - for standard input. Without --arch a word is shown as
    wgmma (sm_90a) and as tcgen05 (sm_100a) read it, and a map is judged for every architecture: it is shown when it is legal on one of
    them, with those on which it is not. The more is known of a descriptor's operand, the more can be said. Exit code 1 when something is
    silently wrong or would trap, or the driver refuses the call.

    \b
    smemsim decode 0x4000404000010040 --arch sm_100a
    smemsim decode 0x08200490 --kind f16 --cta-group 1
    smemsim decode 0x4000020000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16
    xxd tensor_map.bin | smemsim decode -
    smemsim decode --arch sm_90a 'cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
      (void*)0x7f0000000000, {64, 128}, {64 * sizeof(__nv_bfloat16)}, {64, 64}, {1, 1},
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);'
    """
    check_options(words)
    read = read_input(words, arch)
    of_operand, of_instruction = ("dtype", "major", "rows", "k", "packing", "tile_bytes"), ("kind", *_INSTRUCTION)
    if read.maps:
        if foreign := strangers(ctx, (*of_operand, *of_instruction)):
            raise InputError(f"{foreign}: of a descriptor's operand or instruction; a tensor map takes --arch and --json")
        ctx.exit(_decode_maps(read, arch, as_json))
    number = parse_word(read.text, bits=64 if kind is None else 32)
    instruction = {name: context.pop(name) for name in _INSTRUCTION}
    if kind is not None:
        if foreign := strangers(ctx, of_operand):
            raise InputError(
                f"{foreign}: of a shared-memory descriptor; an instruction descriptor (--kind) takes the options of its instruction"
            )
        ctx.exit(_decode_instruction(number, kind, {"arch": arch, **instruction}, as_json))
    if foreign := strangers(ctx, _INSTRUCTION):
        raise InputError(f"{foreign}: of an instruction; say which with --kind")
    _hint(number)
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
    serious = all(any(f.severity in _SERIOUS for f in found) for found in findings)
    ctx.exit(1 if serious else 0)


def _hint(number: int) -> None:
    """On stderr, when a word that is taken for a shared-memory descriptor is a sound instruction descriptor, or has one in its upper half."""
    from smemsim.descriptors.instr_problems import kinds_that_fit

    upper = number >> 32
    if 0 < number < 1 << 32 and (kinds := kinds_that_fit(number)):
        click.echo(
            f"smemsim: {number:#010x} has 32 bits; an instruction descriptor is explained with --kind {' or '.join(kinds)}", err=True
        )
    elif 0 < upper < 1 << 32 and not number & 0xFFFFFFFF and (kinds := kinds_that_fit(upper)):
        listed = " or ".join(kinds)
        click.echo(f"smemsim: the upper half, {upper:#010x}, is an instruction descriptor of kind {listed} (CUTLASS hands it so)", err=True)


def _decode_instruction(number: int, kind: str, context: dict[str, Any], as_json: bool) -> int:
    """A 32-bit instruction descriptor; the exit code says whether something is seriously wrong."""
    from smemsim.descriptors.instr import InstrDescriptor
    from smemsim.show.instr import instr_json, instr_view
    from smemsim.show.plain import print_lines, terminal_width

    d = InstrDescriptor.decode(number, kind=kind)
    known = {name: value for name, value in context.items() if value is not None}
    findings = d.problems(**known)
    if as_json:
        click.echo(json.dumps(instr_json(d, findings), indent=1))
    else:
        print_lines(instr_view(d, findings, context=bool(known), width=terminal_width()))
    return int(any(f.severity in _SERIOUS for f in findings))


def _decode_maps(read: Read, arch: str | None, as_json: bool) -> int:
    """Every map of the text in its order; the exit code is the gravest of theirs."""
    from smemsim.show.plain import Line, print_lines, terminal_width
    from smemsim.show.tensor_map import refused_json, refused_view, tensor_map_json, tensor_map_view

    if read.note:
        click.echo(f"smemsim: {read.note}", err=True)
    described: list[dict[str, Any]] = []
    for i, given in enumerate(read.maps):
        several = len(read.maps) > 1
        if given.unreadable:
            click.echo(f"smemsim: {given.title + ': ' if several else ''}{given.unreadable}", err=True)
            described.append({"error": given.unreadable})
            continue
        about: dict[str, Any] = {"call": given.call, "arch": arch, "arguments": given.arguments, "hints": given.hints}
        if as_json:
            shown = refused_json(given.violations, **about) if given.tm is None else tensor_map_json(given.tm, arch)
            described.append(({"text": given.title} if several else {}) | shown)
            continue
        lines = refused_view(given.violations, **about) if given.tm is None else tensor_map_view(given.tm, arch, width=terminal_width())
        if given.tm is not None:
            lines += [Line([("hint: ", "yellow"), (hint, "")]) for hint in given.hints]
        print_lines([*([Line()] if i else []), *([Line([(f"[{i + 1}] {given.title}", "bold")])] if several else []), *lines])
    if as_json and (len(described) > 1 or "error" not in described[0]):
        click.echo(json.dumps(described if len(described) > 1 else described[0], indent=1))
    return max(_exit_code(given, arch) for given in read.maps)


def _exit_code(given: Given, arch: str | None) -> int:
    if given.tm is None:
        return 2 if given.unreadable else 1
    return int(any(f.severity in _SERIOUS for f in given.tm.problems(arch)) or bool(given.tm.broken_on(arch)))
