"""Writes the parts of README.md and golden/README.md that come from the code: `python tools/readme.py [--check]`.

Between a marker `<!-- name -->` and the next blank-line-delimited block that this tool wrote before, the text is replaced.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

from smemsim.show.operand import OperandMap
from smemsim.show.svg import operand_svg
from smemsim.spec.errata import ERRATA
from smemsim.spec.evidence import RULES

ROOT = pathlib.Path(__file__).resolve().parents[1]
DECODE = "decode 0x4000000800010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16"
PICTURE = {"arch": "sm_90a", "dtype": "bf16", "major": "K", "rows": 16, "k": 16}


def console(command: str) -> str:
    """A command and what it prints, as an indented block."""
    done = subprocess.run([sys.executable, "-m", "smemsim", *command.split()], capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [f"$ smemsim {command}", *done.stdout.rstrip().splitlines()]
    return "\n".join(f"    {line}".rstrip() for line in lines)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(cell or " " for cell in row) + " |" for row in rows])


def evidence() -> str:
    rows = []
    for r in RULES.values():
        grades = [str(r.grades.get(arch, "")) for arch in ("sm_90a", "sm_100a", "sm_103a")]
        rows.append((r.statement.replace("|", "/"), *grades, ", ".join([*(f"`{t}`" for t in r.traces), r.source])))
    return table(("rule", "sm_90a", "sm_100a", "sm_103a", "traces and sources"), rows)


def errata() -> str:
    rows = [(e.topic, e.document, e.says, e.but, f"`{e.trace}`" if e.trace else "not measured") for e in ERRATA]
    return table(("topic", "document", "says", "but", "trace"), rows)


def suites() -> str:
    rows = []
    for path in sorted((ROOT / "golden").rglob("manifest.json")):
        manifest = json.loads(path.read_text())
        rows.append(f"| `{manifest['suite']}` | {manifest['cases']:,} | {manifest['title']} |")
    return "\n".join(rows)


def replaced(text: str, name: str, block: str) -> str:
    """The text with `block` after the marker; what stood between marker and end marker goes."""
    end = f"<!-- /{name} -->"
    pattern = re.compile(rf"<!-- {name} -->\n(.*?{re.escape(end)}\n)?", re.DOTALL)
    return pattern.sub(lambda _: f"<!-- {name} -->\n{block}\n{end}\n", text, count=1)


def wanted() -> dict[pathlib.Path, str]:
    readme, golden = ROOT / "README.md", ROOT / "golden" / "README.md"
    text = readme.read_text()
    for name, block in (
        ("decode", "\n" + console(DECODE) + "\n"),
        ("replay", "\n" + console("replay golden/") + "\n"),
        ("evidence", "\n" + evidence() + "\n"),
        ("errata", "\n" + errata() + "\n"),
    ):
        text = replaced(text, name, block)
    picture = operand_svg(OperandMap.of(0x4000004000010040, **PICTURE))  # type: ignore[arg-type]
    return {
        readme: text,
        golden: replaced(golden.read_text(), "suites", suites()),
        ROOT / ".readme" / "operand.svg": picture + "\n",
    }


def main() -> None:
    check = "--check" in sys.argv[1:]
    stale = [path for path, text in wanted().items() if not path.exists() or path.read_text() != text]
    if check and stale:
        sys.exit(f"stale: {', '.join(str(p.relative_to(ROOT)) for p in stale)}; run python tools/readme.py")
    for path in stale:
        path.write_text(wanted()[path])


if __name__ == "__main__":
    main()
