"""What findings name, whatever the words are, and a record of what the launches of a test are told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import smemsim

__all__ = ["assert_whole", "checked", "claims", "facts", "named", "recorded"]

# What a sentence is about, and what it asks for. How it is said may change.
_WORDS = (
    "acquire|after|alignment|arrive|barrier|before|begin|box|branch|commit|coordinates|count|descriptor|"
    "destination|element|end|every|exchange|exit|expect|factor|fence|flag|flight|group|issue|later|launch|"
    "loop|mask|move|never|once|order|padding|parity|phase|pitch|poll|product|reader|register|release|"
    "scope|shape|stage|start|store|stride|swizzle|tile|twice|type|until|wait|zero"
)
_FACTS = re.compile(rf"0x[0-9a-f]+|\d+|[a-z]\w*(?:::\w+)?(?:\.\w+(?:::\w+)*)+|\.[a-z]\w+|\b(?:{_WORDS})")
# Who and how many are meant, what they do, and whether it is so: what makes a sentence with the same numbers a false one.
_CLAIMS = re.compile(
    r"\b(?:all|alone|another|any|both|each|every|few|first|last|less|many|may|more|never|no|nobody|none|not|nothing|one|only|other|others|same|"
    r"some|still|too|"
    r"(?:array|byte|column|copy|copies|CTA|cluster|element|kernel|lane|launch|load|map|mbarrier|operand|operation|product|row|store|thread|tile|"
    r"warp|warpgroup|word)s?|"
    r"(?:add|allocat|exit|free|hang|initiali[sz]|invalidat|lose|lost|multipl|overwrit|read|undefined|uninitiali[sz]|wrote|writ|"
    r"wrong)\w*)\b"
)
_ADDRESSES = re.compile(r"0x[0-9a-f]{7}([0-9a-f]{5})\b")  # of arrays: where they begin depends on the tests before
_FOLDERS = re.compile(r"\S*/(?=\S)")
# What no sentence of a finding has: a hole where a word or a number belongs, a number that cannot be, a fix to what is there.
_HOLES = re.compile(
    r"\bNone\b|\bnan\b|\[\]|\w  +\w|\w [,;](?:\s|$)|\b(?:with|or|and|of|from|the|a|an)(?:;|\.\s|$)"
    r"|\b(?:CTA|warp|lane|thread|phase|stage|line)s? -\d|(?<!counts )(?<![\w.])-\d+ (?:bytes|threads|arrivals|warps|CTAs)|(\S{3,}) instead of \1(?:[\s;,]|$)"
    r"|(\[.*\]) (?:of the \w+ )?must be \2(?:[\s;,]|$)"
)
_SECTIONS = re.compile(r"PTX ISA [\d.]+( §[\d.]+(, [\d.]+)*)?")


def facts(done: smemsim.Run) -> str:
    """Lines, warps, CTAs, bytes, instructions, the PTX that repairs, and what it is about: one line for each finding and
    remark.
    """
    lines = []
    for f in (*done.findings, *done.remarks):
        assert_whole(f, done)
        lines.append(f"{f.code} {f.severity.name.lower()}: {named(str(f).strip().removeprefix(f.code))}")
    return "\n".join(lines)


def assert_whole(f: Any, done: smemsim.Run | None = None) -> None:
    """The sentences of a finding have no holes, and name CTAs and lines that there are."""
    for text in (f.message, f.repair) if f.code != "X013" else ():  # the words of an assertion are the program's
        assert not (found := _HOLES.search(text)), (found[0], text)
        if done is not None:
            assert all(int(cta) < done.launch.ctas for cta in re.findall(r"\bCTA (\d+)\b", text)), text
            end = done.ptx.count("\n") + 1 if f.code != "P905" else 10**6  # P905: also a line that a user has named
            assert all(0 < int(line) <= end for line in re.findall(r"\blines? (\d+)\b", text) if ".cu" not in text), text


def named(text: str) -> str:
    text = _FOLDERS.sub("", _SECTIONS.sub("", " ".join(text.split())))
    return " ".join(_FACTS.findall(_ADDRESSES.sub(r"0x\1", text)))


def claims(found: Iterable[Any]) -> str:
    """Who does what to how many, in the words of findings: one line for each."""
    return "\n".join(f"{f.code}: {' '.join(_CLAIMS.findall(str(f)))}" for f in found)


def checked(done: smemsim.Run) -> str:
    """How much was checked, and what the lines about limits name."""
    told = done.as_dict()
    numbers = told["checked"] | {"missed": sum(told["checked"]["missed"].values())}
    counts = [
        f"{name} {number}" for name, number in numbers.items() if number and set(number if isinstance(number, tuple) else (1,)) != {0}
    ]
    limits = [named(line) for kind in ("approximate", "unsure", "bounds") for line in told[kind]]
    return "; ".join([*counts, *limits])


def recorded(patch: pytest.MonkeyPatch) -> Callable[[], str]:
    """From now on what launches find is recorded. The result gives the facts of all of them, those of one launch
    after the other. Launches that a time limit may end are left out, and so are all trials of fixes: how far they come
    depends on the machine.
    """
    told: list[str] = []
    depth = [0]
    launch = smemsim.Gpu.run

    def run(self: smemsim.Gpu, ptx: Any, config: Any, options: Any = None) -> smemsim.Run:
        depth[0] += 1
        try:
            done = launch(self, ptx, config, options)
        finally:
            depth[0] -= 1
        if not depth[0] and (options is None or options.limit_seconds is None):
            told.append("\n".join(filter(None, (facts(done), checked(done)))))
        return done

    patch.setattr(smemsim.Gpu, "run", run)
    return lambda: "\n\n".join(filter(None, told))
