"""Draws docs/pictures/demo.svg, the demonstration at the top of the README: real commands, and what they print.

    python -m tools.demo [--check]

The commands run in a terminal of 100 columns, so that their colours are in the picture. The SVG moves by CSS alone; a
reader who wants no motion sees its last scene. --check compares the texts with what the commands print now, and exits
with 1 if they differ.
"""

from __future__ import annotations

import argparse
import html
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
COLUMNS, LINES = 100, 27
WIDTH, HEIGHT, X, Y = 8.4, 18, 16, 34
KERNELS = "golden/sm_90a/launches/kernels"
COLOURS = {
    "red": "#f38ba8",
    "green": "#a6e3a1",
    "yellow": "#f9e2af",
    "blue": "#89b4fa",
    "magenta": "#cba6f7",
    "cyan": "#94e2d5",
    "bright_black": "#8a8fa8",
}
PLAIN, BACK = "#dfe3f5", "#1c1e2e"


class Scene(NamedTuple):
    """A comment, a command, and the seconds that its output stays."""

    comment: str
    command: str
    seconds: float


SCENES = (
    Scene("A GEMM that ran right on an H200. One number of its second K step is changed: 32 becomes 64.",
          f"sed 's/%r128, %r122, 32;/%r128, %r122, 64;/' {KERNELS}/gemm_specialized/kernel.ptx > k.ptx", 4),
    Scene("No GPU, no expected result. Which line is wrong, and what is the fix?",
          f"smemsim run k.ptx --launch {KERNELS}/gemm_specialized/launch.json", 12),
    Scene("The same GEMM without its wgmma.wait_group: the producer overwrites what is still being read.",
          f"sed '/wgmma.wait_group/d' {KERNELS}/gemm_specialized/kernel.ptx > k.ptx", 4),
    Scene("Both halves of the race, with their lines.", f"smemsim run k.ptx --launch {KERNELS}/gemm_specialized/launch.json", 12),
    Scene("What does a line cost? Wavefronts as Nsight Compute counts them, and a swizzle that was tried.",
          "smemsim run golden/sm_90a/counted_kernels/kernels/epilogue_plain --counters", 12),
    Scene("And does its ring of stages keep loads in flight?",
          f"smemsim run {KERNELS}/gemm_specialized --pipeline ring.txt > out.txt; head -18 ring.txt", 12),
)  # fmt: skip


def printed(command: str, folder: pathlib.Path) -> str:
    """What a command prints in a terminal, with its colours."""
    leader, follower = pty.openpty()
    env = os.environ | {
        "COLUMNS": str(COLUMNS),
        "LINES": "40",
        "TERM": "xterm-256color",
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    env.pop("NO_COLOR", None)
    subprocess.run(["stty", "cols", str(COLUMNS), "rows", "40"], stdin=follower, check=False)
    with subprocess.Popen(["bash", "-c", command], cwd=folder, stdin=follower, stdout=follower, stderr=follower, env=env) as process:
        os.close(follower)
        said = b""
        while True:
            try:
                more = os.read(leader, 1 << 16)
            except OSError:  # the terminal is closed
                break
            if not more:
                break
            said += more
        process.wait()
    os.close(leader)
    return said.decode(errors="replace").replace("\r\n", "\n")


def scenes() -> list[tuple[Scene, list[Text]]]:
    """Every scene with its lines."""
    out = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "golden").symlink_to(ROOT / "golden")
        for scene in SCENES:
            text = re.sub(r"\x1b\[\?25[lh]|\x1b\[\d*[AKJ]|\r", "", printed(scene.command, folder))
            lines = [Text.from_ansi(line) for line in text.splitlines() if line.strip()]
            out.append((scene, [_cropped(line) for line in lines][: LINES - 4]))
    return out


def _cropped(text: Text) -> Text:
    text.truncate(COLUMNS, overflow="ellipsis")
    return text


def line_of(text: Text, row: int) -> str:
    """One line as SVG."""
    parts, y = [], Y + HEIGHT * row
    for begin, piece, style in _pieces(text):
        fill, weight = _fill(style), ' font-weight="700"' if style.bold else ""
        parts.append(f'<tspan x="{X + WIDTH * begin:.1f}" fill="{fill}"{weight}>{html.escape(piece)}</tspan>')
    return f'<text y="{y}" xml:space="preserve">{"".join(parts)}</text>'


def _pieces(text: Text) -> list[tuple[int, str, Style]]:
    console, out, at = Console(width=COLUMNS, color_system="truecolor"), [], 0
    for segment in text.render(console):
        if segment.text and segment.text != "\n":
            out.append((at, segment.text, segment.style or Style()))
            at += len(segment.text)
    return out


def _fill(style: Style) -> str:
    if style.color is None:
        return COLOURS["bright_black"] if style.dim else PLAIN
    return COLOURS.get(style.color.name.removeprefix("bright_"), PLAIN)


def drawn(every: list[tuple[Scene, list[Text]]]) -> str:
    """The SVG."""
    total = sum(scene.seconds for scene, _ in every)
    width, height = X * 2 + WIDTH * COLUMNS, Y + HEIGHT * LINES
    rules, groups, at = [], [], 0.0
    for number, (scene, lines) in enumerate(every):
        first, last = 100 * at / total, 100 * (at + scene.seconds) / total
        rules.append(
            f"@keyframes s{number}{{0%,{first:.2f}%{{visibility:hidden}}{first + 0.01:.2f}%,{last - 0.01:.2f}%{{visibility:visible}}{last:.2f}%,100%{{visibility:hidden}}}}"
        )
        rules.append(f".s{number}{{visibility:hidden;animation:s{number} {total:g}s infinite}}")
        head = [(f"# {scene.comment}", "bright_black"), (f"$ {scene.command}", "bold")]
        wrapped = [part for plain, style in head for part in _wrapped(plain, style)]
        body = "".join(line_of(line, row) for row, line in enumerate((wrapped + lines)[:LINES]))
        groups.append(f'<g class="s{number}">{body}</g>')
        at += scene.seconds
    still = f"@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}.s{len(every) - 1}{{visibility:visible!important}}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img" '
        f'aria-label="smemsim finds a wrong K step, counts wavefronts and draws a ring of stages"><style>text{{font:14px ui-monospace,Menlo,Consolas,monospace}}{"".join(rules)}{still}</style>'
        f'<rect width="100%" height="100%" rx="10" fill="{BACK}"/>{"".join(groups)}</svg>\n'
    )


def _wrapped(plain: str, style: str) -> list[Text]:
    lines = []
    while plain:
        cut = plain.rfind(" ", 0, COLUMNS) if len(plain) > COLUMNS else len(plain)
        lines.append(Text.assemble((plain[: cut if cut > 0 else COLUMNS], style)))
        plain = plain[cut if cut > 0 else COLUMNS :].strip()
        plain = f"    {plain}" if plain else ""
    return lines


def texts(svg: str) -> list[str]:
    """What an SVG says, line by line."""
    return [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in re.findall(r"<text.*?</text>", svg)]


def main() -> int:
    """Draw, or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the picture is stale")
    asked = parser.parse_args()
    if shutil.which("bash") is None:
        raise SystemExit("bash is not on the PATH")
    svg = drawn(scenes())
    if asked.check:
        is_stale = not PICTURE.exists() or texts(PICTURE.read_text()) != texts(svg)
        print(f"{PICTURE.relative_to(ROOT)}: {'stale; run python -m tools.demo' if is_stale else 'as the commands print it'}")
        return int(is_stale)
    PICTURE.write_text(svg)
    print(f"{PICTURE.relative_to(ROOT)}: {len(svg):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
