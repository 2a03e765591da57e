"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from smemsim.errors import InputError
from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.formats import FORMATS

__all__ = ["arch_option", "check_options", "json_option", "operand_options", "parse_map", "parse_word"]

F = TypeVar("F", bound=Callable[..., Any])


def parse_word(text: str) -> int:
    """A descriptor word as people paste it: 0x…, 0b…, decimal, hex digits alone, with _ or ' or L suffixes.

    >>> hex(parse_word("0x4000'4040'0001'0040ULL")), hex(parse_word("4000404000010040")), parse_word("-1")
    ('0x4000404000010040', '0x4000404000010040', -1)
    """
    cleaned = text.strip().lower().replace("_", "").replace("'", "").rstrip("ul")
    try:
        return int(cleaned, 16 if len(cleaned) == 16 and not cleaned.startswith(("0x", "0b", "-")) else 0)
    except ValueError:
        raise InputError(
            f"{text!r} is not a 64-bit word; write it as 0x…, as 16 hex digits, or in decimal (a tensor map: 256 hex digits)"
        ) from None


def check_options(words: tuple[str, ...]) -> None:
    """Commands that take negative words let unknown options through as arguments; those are typos."""
    for word in words:
        if word.startswith("--"):
            raise InputError(f"{word}: no such option; --help lists them")


def parse_map(text: str) -> bytes | None:
    """The 128 bytes of a tensor map from hex as debuggers print it; None when the text is something else.

    Bytes in order, in any grouping; or 32-bit or 64-bit little-endian words, each in its own token.

    >>> parse_map("00 " * 128) == bytes(128), parse_map("0x00000001, " + "0x00000000 " * 31)[:2], parse_map("0x4000404000010040")
    (True, b'\\x01\\x00', None)
    """
    tokens = re.findall(r"[0-9a-f]+", re.sub(r"0x|_", " ", text.lower()))
    digits = "".join(tokens)
    if len(digits) != 256 or re.search(r"[^0-9a-fx_\s,;:|\[\](){}]", text.lower()):
        return None
    word = len(tokens[0])
    if word in (8, 16) and all(len(token) == word for token in tokens):
        return b"".join(int(token, 16).to_bytes(word // 2, "little") for token in tokens)
    return bytes.fromhex(digits)


arch_option = click.option("--arch", metavar="ARCH", help=f"Architecture: {', '.join(ARCHITECTURES)}.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def operand_options(*, required: bool) -> Callable[[F], F]:
    """--dtype --major --rows --k --packing."""
    options = (
        click.option("--dtype", required=required, metavar="TYPE", help=f"Element type: {' '.join(FORMATS)}."),
        click.option("--major", required=required, metavar="K|MN", help="Which axis is contiguous."),
        click.option("--rows", type=int, required=required, help="M or N elements of one instruction's operand."),
        click.option("--k", type=int, required=required, help="K elements of one instruction's operand."),
        click.option("--packing", default="packed", show_default=True, help="4-bit types: packed (mxf4) or padded (f8f6f4)."),
    )

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
