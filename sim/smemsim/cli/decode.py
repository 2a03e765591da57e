"""`smemsim decode`: explain a descriptor, a tensor map or a layout."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.base.files import read_bytes
from smemsim.cli.layouts import DIVISIONS, decode_layout, layout_options
from smemsim.cli.options import (
    arch_option,
    check_options,
    instruction_options,
    json_option,
    operand_options,
    parse_extents,
    parse_word,
    strangers,
)
from smemsim.core.finding import Finding, TensorMapError
from smemsim.core.spec.findings import CODES, Severity
from smemsim.core.words.smem import SmemDescriptor

if TYPE_CHECKING:
    from smemsim.core.words.tensor_map import TensorMap
    from smemsim.core.words.tensor_map.text import Pasted
    from smemsim.planning.fits import Fit

__all__ = ["Given", "Read", "decode", "read_input"]


# ---- What the commands are given: a word, or tensor maps as pasted text, in a file, or on standard input


READINGS = ("sm_90a", "sm_100a")  # of a word without --arch: one card for each table of fields
LONGEST_WORD = 100  # characters of a descriptor's word, in binary and with separators
LONGEST_FILE = 1 << 20
SIZE = 128


@dataclasses.dataclass(frozen=True)
class Given:
    """One tensor map of a text: the map, or the reason why the driver refuses it or why it cannot be read."""

    title: str
    tm: TensorMap | None = None
    violations: tuple[Finding, ...] = ()
    unreadable: str = ""
    call: str = ""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    hints: tuple[str, ...] = ()


class Read(NamedTuple):
    """The input of a command: maps, or else the text of a word. `note` says how an ambiguous dump was read."""

    maps: tuple[Given, ...]
    text: str
    note: str = ""


def read_input(words: tuple[str, ...], arch: str | None, defined: tuple[str, ...] = ()) -> Read:
    """Maps and words of an argument: text, a file name, or `-` for standard input. `defined` has values of names as
    NAME=VALUE.
    """
    text = " ".join(words)
    name, data = ("standard input", _standard_input()) if words == ("-",) else (text, _file(text))
    if data is None and len(words) > 1 and (("(" in words[0] and ")" in words[0]) or _file(words[0]) is not None or _is_map(words[0])):
        raise InputError(
            f"{' '.join(words[1:])!r} is one argument too many: the first is a whole map (numbers of an option go in one piece: --at 0,64)"
        )
    # One short word without a separator is a descriptor: no map is that short.
    if data is None and len(text) <= LONGEST_WORD and not set(text.strip()) & set(" ({,:="):
        return Read((), text)
    if data is not None and len(data) == SIZE:
        return Read((_from_bytes(data),), "")
    pasted = text.encode("utf-8", "replace") if data is None else data
    return _read_text(pasted, name if data is not None else "", arch, _values(defined))


def _values(defined: tuple[str, ...]) -> dict[str, str]:
    """Values of names that the text uses and does not define, from NAME=VALUE.

    >>> _values(("cols=512",))
    {'cols': '512'}
    """
    for one in defined:
        if not re.fullmatch(r"[A-Za-z_]\w*=.{1,100}", one):
            raise InputError(f"-D {shown(one)}: needs a name and its value, as -D cols=512")
    return {name: value for name, _, value in (one.partition("=") for one in defined)}


def _read_text(data: bytes, name: str, arch: str | None, values: dict[str, str]) -> Read:
    from smemsim.core.words.tensor_map.dump import parse_dump
    from smemsim.core.words.tensor_map.text import find_calls

    pasted = data.decode("utf-8", "replace")
    if calls := find_calls(pasted, values):
        return Read(tuple(_from_call(called, arch) for called in calls), "")
    if (printed := _printed(pasted)) is not None:
        return printed
    if (dump := parse_dump(pasted)) is not None:
        return Read((_from_bytes(dump.raw),), "", dump.note)
    if len(pasted.strip()) <= LONGEST_WORD and re.fullmatch(r"-?(?:0[xXbB])?[0-9a-fA-F_']+[uUlL]*", pasted.strip()):
        return Read((), pasted.strip())
    _explain(pasted, name, len(data))
    return Read((), pasted)


_PRINTED = re.compile(r"""\s*(\w+)\s*[=:]\s*(["']?)((?:0[xX])?[0-9a-fA-F_']+?[uUlL]*)\2[,;]?\s*(?:\#.*)?""")
# keys of a scenario whose numbers are no words
_PLACES = ("address", "base", "start", "global_address", "object_address")


def _printed(text: str) -> Read | None:
    """Lines `name = number` that a kernel has printed: `word` is a descriptor, `raw` a tensor
    map. None for any other text.

    >>> _printed('address = 0x400\\nword = 0x4000002000010040\\n').text
    '0x4000002000010040'
    """
    lines = [_PRINTED.fullmatch(line) for line in text.splitlines() if line.strip()]
    named = [(line[1], line[3]) for line in lines if line is not None]
    if not named or len(named) != len(lines):
        return None
    for name, value in named:
        if name == "raw" and not _is_map(value):
            raise InputError(
                f"raw = {shown(value)}: {len(value.removeprefix('0x'))} hex digits; a tensor map is {SIZE} bytes, {2 * SIZE} digits"
            )
    maps = tuple(_from_bytes(bytes.fromhex(value.removeprefix("0x"))) for _, value in named if _is_map(value))
    words = [(name, value) for name, value in named if name not in _PLACES and not _is_map(value)]
    if len(words) > 1 or (words and maps):
        names = ", ".join(name for name, value in named if name not in _PLACES)
        raise InputError(f"{names}: one word or one tensor map at a time; give the line that is meant")
    if not words and not maps:
        raise InputError(f"{named[0][0]} = {named[0][1]}: an address, no descriptor; give the word, as word = 0x4000002000010040")
    return Read(maps, words[0][1] if words else "")


def _is_map(word: str) -> bool:
    return len(word) >= 2 * SIZE and bool(re.fullmatch(r"(?:0x)?[0-9a-fA-F]{256}", word))


def _from_bytes(data: bytes) -> Given:
    from smemsim.core.words.tensor_map import TensorMap

    try:
        return Given("128 bytes", TensorMap.from_bytes(data))
    except TensorMapError as e:
        return Given("128 bytes", violations=e.findings)


def _from_call(called: Pasted, arch: str | None) -> Given:
    from smemsim.core.words.tensor_map import TensorMap

    title, arguments = f"line {called.line}: {called.name}", {}
    try:
        arguments = called.arguments()
        made = getattr(TensorMap, called.call)(**arguments | ({"arch": arch} if arch else {}))
    except TensorMapError as e:
        return Given(title, violations=e.findings, call=called.call, arguments=arguments, hints=tuple(called.hints()))
    except InputError as e:
        hints = called.hints()
        return Given(title, unreadable="; ".join([str(e), *hints]))
    return Given(title, made, call=called.call, hints=tuple(called.hints()))


def _explain(text: str, name: str, size: int) -> None:
    """Raise InputError for a text without a map, except if it can be a word."""
    tokens = re.findall(r"[^\s,;:|\[\](){}\"']+", text.lower())
    digits = [re.sub(r"^0x|_", "", t) for t in tokens]
    hexadecimal = bool(tokens) and all(d and set(d) <= set("0123456789abcdef") for d in digits)
    count = sum(map(len, digits))
    what = f"{name}: " if name else ""
    if not text.strip():
        raise InputError(f"{what or 'the text: '}holds nothing: a tensor map is {SIZE} bytes, a dump of them, or an encode call")
    if hexadecimal and count > LONGEST_WORD and count != 2 * SIZE:
        raise InputError(
            f"{what}{count} hex digits: a tensor map has {2 * SIZE} of them, a descriptor 16 (a dump with addresses is taken as xxd, "
            "od -t x1, hexdump -C or a debugger prints it)"
        )
    if re.search(r"cuTensorMapEncode|TensorMap\.", text):
        raise InputError(f"{what}no encode call to read: the name stands in a comment, a string or a declaration only")
    if re.search(r"^\s*\.version\b", text, re.MULTILINE):
        raise InputError(
            f"{what}is PTX, and decode reads one descriptor word (0x…), one tensor map or one encode call. To execute PTX: smemsim run {name or 'kernel.ptx'}"
        )
    if name:
        raise InputError(
            f"{name} ({size} bytes) is no tensor map: needs {SIZE} bytes, a dump of them (xxd, od -t x1, hexdump -C), or an encode call. A "
            f"descriptor is given as a number (0x…). {_other_command(name)}"
        )
    numbers = sum(bool(re.fullmatch(r"-?(?:0x)?[0-9a-f]+u?l{0,2}", t)) for t in tokens)
    if numbers > 8 and numbers > len(tokens) // 2:
        raise InputError(
            f"{numbers} numbers that are no dump of {SIZE} bytes: 16 64-bit, 32 32-bit or 128 8-bit numbers make one, xxd, od -t x1 and "
            "hexdump -C print one"
        )


def _other_command(name: str) -> str:
    """The commands that read files of other kinds."""
    if pathlib.PurePath(name).suffix in (".toml", ".json"):
        return f"A scenario is for smemsim check {name}, a launch file for smemsim run {name}"
    return "smemsim check reads scenarios, smemsim run PTX and launch files"


def _standard_input() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    data: bytes = stream.read(LONGEST_FILE + 1) if stream else sys.stdin.read(LONGEST_FILE + 1).encode()
    return _limited("standard input", data)


def _limited(name: str, data: bytes) -> bytes:
    if len(data) > LONGEST_FILE:
        raise InputError(f"{name}: more than {LONGEST_FILE >> 20} MiB; a tensor map is {SIZE} bytes, or paste the encode call")
    return data


def _file(text: str) -> bytes | None:
    """The text of a file; None if there is no such file."""
    if not text:
        raise InputError("the word is empty: give a descriptor, a tensor map, a layout or a file (an unset variable of the shell?)")
    path = pathlib.Path(text)
    try:
        if path.is_dir() and not re.fullmatch(r"\w+", text):
            raise InputError(f"{text}: is a folder; name a file in it")
        if not path.exists() or path.is_dir():
            return None
        return read_bytes(path, LONGEST_FILE)
    except InputError:
        raise
    except (OSError, ValueError):
        return None


# ---- `smemsim decode`: what does this word, or do these 128 bytes, mean, and what is wrong with them?


_INSTRUCTION = ("cta_group", "ws", "a_source", "swizzle_a", "swizzle_b", "scale_vec", "ashift")
_SERIOUS = (Severity.TRAP, Severity.WRONG)
_CODES = "\b\nCodes of findings, and how grave they usually are:\n" + "\n".join(
    f"{code.number}  {code.severity:<5}  {code.says}" for code in CODES.values()
)


@click.command(
    context_settings={"ignore_unknown_options": True}, short_help="Explain a descriptor, a tensor map or a layout.", epilog=_CODES
)
@click.argument(
    "words", nargs=-1, required=True, metavar="WORD | MAP | CALL | LAYOUT | FILE | -"
)  # a negative word is an argument, no option
@arch_option
@operand_options(required=False)
@click.option(
    "--define",
    "-D",
    "defined",
    multiple=True,
    metavar="NAME=VALUE",
    help="Tensor map: the value of a name in the pasted text, such as a function's parameter.",
)
@click.option("--tile-bytes", type=int, help="Descriptor: size of the buffer from the start address on.")
@click.option(
    "--tile", metavar="ROWSxK", help="Descriptor: the whole tile in shared memory (with --dtype and --major): does the word read it?"
)
@click.option("--swizzle", "meant", metavar="SWIZZLE", help="Descriptor: the swizzle that is meant: none 32B 64B 128B 128B_ATOM_32B.")
@instruction_options
@layout_options
@json_option
@click.pass_context
def decode(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    arch: str | None,
    as_json: bool,
    kind: str | None,
    defined: tuple[str, ...],
    tile: str | None,
    meant: str | None,
    **context: Any,
) -> None:
    """Explain a 64-bit shared-memory matrix descriptor, a 32-bit instruction descriptor (--kind), the 128 bytes of a
    tensor map, or a CuTe layout.

    A tensor map is its 128 bytes as gdb, xxd, od -t x1, hexdump -C, C or Python print them. Or it is the encode call in
    C, C++ or Python with its constants (-D rows=4096 adds one). Both may come from a file, or from standard input (-).

    A layout is shape:stride as CuTe prints it in C++ or Python. The output also has it as Triton's LinearLayout.

    Without --arch a word is decoded for wgmma (sm_90a) and for tcgen05 (sm_100a), and a map is checked for every
    architecture. More options about the operand allow more checks.

    Exit code 1: something is wrong or would trap, or the driver refuses the call.

    \b
    smemsim decode 0x4000404000010040 --arch sm_100a
    smemsim decode 0x08200490 --kind f16 --cta-group 1
    smemsim decode 0x4000020000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16
    smemsim decode 0x4000004002000040 --arch sm_90a --dtype bf16 --major MN --tile 128x64
    smemsim decode 0x4000004000010040 --arch sm_90a --swizzle 128B
    smemsim decode 'S<3,4,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))' --dtype bf16 --zipped-divide 64,16
    xxd tensor_map.bin | smemsim decode -
    smemsim decode --arch sm_90a 'cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
      (void*)0x7f0000000000, {64, 128}, {64 * sizeof(__nv_bfloat16)}, {64, 64}, {1, 1},
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);'
    """
    check_options(words)
    changes = {name: context.pop(name) for name in DIVISIONS}
    if _is_layout(text := " ".join(words)):
        if foreign := strangers(
            ctx, ("arch", "kind", "defined", "major", "rows", "k", "packing", "tile_bytes", "tile", "meant", *_INSTRUCTION)
        ):
            raise InputError(f"{foreign}: not of a layout, which takes --dtype, --json and --{', --'.join(DIVISIONS).replace('_', '-')}")
        ctx.exit(decode_layout(text, dtype=context["dtype"], as_json=as_json, given=changes))
    if foreign := strangers(ctx, DIVISIONS):
        raise InputError(f"{foreign}: of a layout, as '((8,16),(64,2)):((64,512),(1,8192))'")
    read = read_input(words, arch, defined)
    of_operand, of_instruction = ("dtype", "major", "rows", "k", "packing", "tile_bytes", "tile", "meant"), ("kind", *_INSTRUCTION)
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
        raise InputError(f"{foreign}: belongs to an instruction; choose its kind with --kind")
    _hint(number)
    ctx.exit(_decode_word(number, arch, tile, meant, context, as_json))


def _is_layout(text: str) -> bool:
    """Is the text a layout? A word has only letters and digits."""
    if text.isalnum():
        return False
    from smemsim.core.layout.cute import is_layout

    return is_layout(text)


def _decode_word(number: int, arch: str | None, tile: str | None, meant: str | None, context: dict[str, Any], as_json: bool) -> int:
    """Print a shared-memory descriptor for one architecture or for both. Returns the exit code."""
    from smemsim.core.picture.lines import print_lines, terminal_width
    from smemsim.core.picture.table import Line
    from smemsim.core.words.smem import swizzle_problem
    from smemsim.show.words import answer_of, descriptor_json, descriptor_view

    told: list[dict[str, Any]] = []
    serious = True  # without --arch the word is wrong when it is wrong in every reading
    for name in [arch] if arch else READINGS:
        d = SmemDescriptor.decode(number, arch=name)
        fit = _fit(d, tile, context)
        findings = d.problems(**context) + ([fit.finding] if fit is not None and fit.finding is not None else [])
        if meant is not None and (other := swizzle_problem(d, meant)) is not None:
            findings = [other, *(f for f in findings if f.code != "D302")]
        serious &= any(f.severity in _SERIOUS for f in findings)
        reads = "" if fit is None else fit.says
        known = tile is not None or all(context[name] for name in ("dtype", "major", "rows", "k"))
        answer = answer_of(findings, reads=reads, is_known=known or meant is not None)
        told.append(descriptor_json(d, findings, major=context["major"], reads=reads) | {"answer": answer})
        if not as_json:
            view = descriptor_view(d, findings, major=context["major"], context=known, answer=answer, width=terminal_width())
            print_lines([Line(), *view] if len(told) > 1 else view)
    if as_json:
        click.echo(json.dumps(told[0] if arch else told, indent=1))
    elif not arch:
        print_lines([Line(), *(Line([(text, "")]) for text in _without_arch())])
    return int(serious)


def _without_arch() -> list[str]:
    """Sentences about the differences between cards: fields in other bits, and what one card has alone."""
    from smemsim.core.spec.architectures import ARCHITECTURES

    spans = {
        name: {key: field.span for key, field in ARCHITECTURES[name].smem_descriptor.fields.items() if not key.startswith("_")}
        for name in READINGS
    }
    common = set.intersection(*(set(own.items()) for own in spans.values()))
    lines = []
    for name, own in spans.items():
        different = [f"{key} in bit{'s' * (':' in span)} {span}" for key, span in reversed(own.items()) if (key, span) not in common]
        lines.append(f"{name} has {', '.join(different)}.")
    for a in ARCHITECTURES.values():
        if a.name not in READINGS:
            alike = next(name for name in READINGS if ARCHITECTURES[name].smem_descriptor is a.smem_descriptor)
            alone = f", and alone the absolute LBO mode for rows of {a.absolute_row_bytes} bytes" if a.absolute_lbo else ""
            lines.append(f"{a.name} has the fields of {alike}{alone}.")
    return [*lines, "--arch chooses one card."]


def _fit(d: SmemDescriptor, tile: str | None, context: dict[str, Any]) -> Fit | None:
    """Does the word read the tile? None if no tile is given."""
    if tile is None:
        return None
    from smemsim.planning.fits import fit

    given = {name: context[name] for name in ("dtype", "major")}
    if missing := [f"--{name}" for name, value in given.items() if value is None]:
        raise InputError(f"--tile {tile}: needs {' and '.join(missing)} of its elements too")
    return fit(d, *parse_extents("--tile", tile), **given)


def _hint(number: int) -> None:
    """Print a note to stderr if a shared-memory descriptor looks like an instruction descriptor, in the word or its
    upper half.
    """
    from smemsim.core.words.instr import kinds_that_fit

    upper = number >> 32
    if 0 < number < 1 << 32 and (kinds := kinds_that_fit(number)):
        click.echo(
            f"smemsim: {number:#010x} has 32 bits; an instruction descriptor is explained with --kind {' or '.join(kinds)}", err=True
        )
    elif 0 < upper < 1 << 32 and not number & 0xFFFFFFFF and (kinds := kinds_that_fit(upper)):
        listed = " or ".join(kinds)
        click.echo(
            f"smemsim: the upper half, {upper:#010x}, is an instruction descriptor of kind {listed} (CUTLASS passes it like that)", err=True
        )


def _decode_instruction(number: int, kind: str, context: dict[str, Any], as_json: bool) -> int:
    """Print a 32-bit instruction descriptor. Returns the exit code."""
    from smemsim.core.picture.lines import print_lines, terminal_width
    from smemsim.core.words.instr import InstrDescriptor
    from smemsim.show.words import instr_json, instr_view

    d = InstrDescriptor.decode(number, kind=kind)
    known = {name: value for name, value in context.items() if value is not None}
    findings = d.problems(**known)
    if as_json:
        click.echo(json.dumps(instr_json(d, findings), indent=1))
    else:
        print_lines(instr_view(d, findings, context=bool(known), width=terminal_width()))
    return int(any(f.severity in _SERIOUS for f in findings))


def _decode_maps(read: Read, arch: str | None, as_json: bool) -> int:
    """Print every map of the text in order. Returns the gravest exit code."""
    from smemsim.core.picture.lines import print_lines, terminal_width
    from smemsim.core.picture.table import Line
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
