"""`smemsim explain`: the page of a finding's code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable

import click

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.cli.options import json_option
from smemsim.core.spec.findings import CODES

__all__ = ["explain", "hint", "page"]


def page(code: str) -> str:
    """The page of a code, as Markdown.

    >>> page("X003").splitlines()[0]
    '# X003 missing-proxy-fence'
    """
    from importlib import resources

    return resources.files("smemsim").joinpath("explanations", f"{code}.md").read_text(encoding="utf-8")


def hint(codes: Iterable[str]) -> None:
    """Print after the findings which command explains them; nothing if there are none."""
    if known := [code for code in dict.fromkeys(codes) if code in CODES]:
        click.echo(
            f"smemsim explain {' '.join(known)}: {'what they mean, and how to fix them' if known[1:] else 'what it means, and how to fix it'}"
        )


@click.command(short_help="Explain a finding's code: cause, bad example, fix, evidence.")
@click.argument("codes", nargs=-1, metavar="CODE...")
@json_option
def explain(codes: tuple[str, ...], as_json: bool) -> None:
    """Print the page of a finding's code: cause, bad example with its output, fixed example,
    what is not reported, evidence.

    CODE is a number (X003) or a name (missing-proxy-fence). Without a code all codes are listed.

    \b
    smemsim explain X003
    smemsim explain missing-proxy-fence
    """
    asked = [_number(code) for code in codes] or list(CODES)
    if as_json:
        said = [
            {"code": number, "name": CODES[number].slug, "severity": str(CODES[number].severity), "says": CODES[number].says} | ({"page": page(number)} if codes else {})
            for number in asked
        ]  # fmt: skip
        click.echo(json.dumps(said[0] if len(codes) == 1 else said, indent=1))
    elif not codes:
        click.echo("\n".join(f"{code.number}  {code.severity:<5}  {code.slug:<26}  {code.says}" for code in CODES.values()))
    else:
        click.echo("\n\n".join(_plain(page(number)) for number in asked))


MOST_SPEAK = 8  # codes that are listed


def _cause(number: str) -> str:
    """The chapter of a page with the cause."""
    return page(number).partition("\n## Cause\n")[2].partition("\n## ")[0]


def _number(text: str) -> str:
    """The number of a code that is given by number or by name."""
    if not text.strip():
        raise InputError("the code is empty: give a code, as X003 (an unset variable of the shell?)")
    names = {code.slug: code.number for code in CODES.values()}
    found = text.upper() if text.upper() in CODES else names.get(text.lower())
    if found is None:
        import difflib

        letter = [code for code in CODES if re.fullmatch(r"[A-Z]\d+", text.upper()) and code[0] == text[0].upper()]
        near = (
            []
            if letter
            else difflib.get_close_matches(text.upper(), CODES, 1, 0.7) or difflib.get_close_matches(text.lower(), names, 1, 0.5)
        )
        speak = [
            code.number
            for code in CODES.values()
            if re.search(rf"\b{re.escape(text)}", f"{code.slug} {code.says} {_cause(code.number)}", re.IGNORECASE)
        ]
        hint = (
            f"; with {letter[0][0]} there are {', '.join(letter)}"
            if letter
            else f"; did you mean {near[0]}?"
            if near
            else f"; {', '.join(speak[:MOST_SPEAK])} mention{'s' * (len(speak) == 1)} it"
            if speak
            else ""
        )
        raise InputError(f"{shown(text)} is not a finding code{hint}; smemsim explain lists them all")
    return found


def _plain(text: str) -> str:
    """A page for the terminal: without markers and links, blocks indented, bold on a terminal alone."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
            words = line.strip("`").split()
            if inside and len(words) > 1 and "." in words[1]:
                lines.append(f"    {words[1]}{f', which is {words[3]} with' if words[0] == 'diff' else ''}:")
        elif inside:
            lines.append(f"    {line}".rstrip())
        elif not line.startswith("<!--"):
            plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", line).replace("**", "")
            lines.append(click.style(plain.lstrip("# "), bold=True) if line.startswith("#") and sys.stdout.isatty() else plain.lstrip("# ") if line.startswith("#") else plain)  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
