"""Messages as one line: what is said in a text that is wrapped for a terminal; and the facts of findings, without
their words.
"""

import json
import re


def one_line(text: str) -> str:
    """A text with one space in place of every line break and indent."""
    return " ".join(text.split())


def is_one_sentence(text: str) -> bool:
    """Is a text one sentence, perhaps in several lines, the later ones indented?"""
    first, *later = text.splitlines()
    return not first.startswith(" ") and all(line.startswith("  ") for line in later)


NUMBER = re.compile(r"0x[0-9a-f]+|(?<![A-Za-z])\d+(?:\.\d+)?")
FACTS = ("code", "severity", "where", "first", "wrong", "of", "because")


def facts(findings) -> list[str]:
    """A line for each finding of a scenario: its code, its places, what is to be changed, and each number that it says."""
    lines = []
    for f in findings:
        told = f.as_dict()
        fixes = [[fix["path"], fix["old"], fix["new"]] for fix in (told["repair"], *told["together"]) if fix["path"] is not None]
        said = " ".join([*NUMBER.findall(told["message"]), "|", *NUMBER.findall(told["fix"]["text"])])
        lines.append(json.dumps([*(told[name] for name in FACTS), fixes, said], default=str))
    return lines
