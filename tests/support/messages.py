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


def numbers_in(text: str) -> str:
    """The numbers of a text, in their order."""
    return " ".join(NUMBER.findall(text))


def facts(findings) -> list[str]:
    """A line for each finding of a scenario: its code, its places, its numbers, and what is to be changed."""
    lines = []
    for f in findings:
        told = f.as_dict()
        fixes = [[fix["path"], fix["old"], fix["new"]] for fix in (told["repair"], *told["together"]) if fix["path"] is not None]
        lines.append(
            json.dumps([*(told[name] for name in FACTS), fixes, told["numbers"], numbers_in(" ".join(told["pattern"]))], default=str)
        )
    return lines


OF_LAUNCH = ("code", "severity", "line", "lines", "count", "mentions", "ctas", "follows")


def launch_facts(run) -> list[str]:
    """A line for each finding and remark of a launch: its code, lines, CTAs and numbers. Which repair was tried depends
    on the time that there is.
    """
    return [json.dumps([*(f.as_dict()[name] for name in OF_LAUNCH), f.numbers], default=str) for f in (*run.findings, *run.remarks)]
