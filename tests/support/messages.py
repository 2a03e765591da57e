"""Messages as one line: what is said in a text that is wrapped for a terminal."""


def one_line(text: str) -> str:
    """A text with one space in place of every line break and indent."""
    return " ".join(text.split())


def is_one_sentence(text: str) -> bool:
    """Is a text one sentence, perhaps in several lines, the later ones indented?"""
    first, *later = text.splitlines()
    return not first.startswith(" ") and all(line.startswith("  ") for line in later)
