"""PTX text as it is kept: what says nothing about the kernel, and where it was compiled, is cut."""

from __future__ import annotations

import re

__all__ = ["cleaned"]


def cleaned(ptx: str) -> str:
    """The text without debug sections and machine paths; .loc lines and .file names stay."""
    ptx = re.sub(r'(\.file\s+\d+\s+)"[^"\n]*/', r'\1"', ptx)
    ptx = re.sub(r"(\.loc\s+\d+\s+\d+\s+\d+),\s*function_name[^\n]*", r"\1", ptx)
    out, depth, inside = [], 0, False
    for line in ptx.splitlines():
        if line.lstrip().startswith(".section"):
            inside = True
        if inside:
            depth += line.count("{") - line.count("}")
            if depth == 0 and "}" in line:
                inside = False
            continue
        out.append(line.rstrip())
    text = "\n".join(out)
    text = re.sub(r"\n\$L__(info_string|tmp|func_begin|func_end|debug)\w*:", "\n", text)
    text = re.sub(r"^(\.target \S+), debug", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"[ \t]+// \S+\.py:\d+:\d+.*$", "", text, flags=re.MULTILINE)  # what .loc says already
    text = re.sub(r"[ \t]+// (-- (Begin|End) function.*|@\w+)$|^[ \t]+// @\w+\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\A//.*?(?=\.version)", "", text, flags=re.DOTALL)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
