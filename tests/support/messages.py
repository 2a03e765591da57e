"""Messages as one line: what is said in a text that is wrapped for a terminal."""


def one_line(text: str) -> str:
    """A text with one space in place of every line break and indent."""
    return " ".join(text.split())
