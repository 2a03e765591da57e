"""Sphinx: `python -m sphinx -W docs docs/_build/html`. Pages are Markdown; `python -m tools.docs` writes what commands print into them."""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "sim"), str(ROOT)]

import smemsim  # noqa: E402

project = "smemsim"
copyright = "the authors of smemsim, MIT licence"
release = version = smemsim.__version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure"]  # a command over several lines, with a quote in each

html_theme = "furo"
html_title = "smemsim"
html_static_path = ["_static"]
html_css_files = ["smemsim.css"]
html_js_files = ["theme.js"]
html_copy_source = False
html_show_sphinx = False
templates_path: list[str] = []
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {"navigation_with_keys": True}

# ---- the explanations of findings lie in the package, so that `smemsim explain` has them; the site has copies
EXPLANATIONS = ROOT / "sim" / "smemsim" / "explanations"
COPIES = ROOT / "docs" / "findings"

LEXERS = {"toml": "toml", "python": "python", "cuda": "cuda", "cpp": "cpp", "ptx": "text", "json": "json", "ini": "ini", "yaml": "yaml"}


def _copy_explanations(*_: Any) -> None:
    for page in EXPLANATIONS.glob("*.md"):
        copy = COPIES / page.name
        if not copy.exists() or copy.read_text() != page.read_text():
            shutil.copyfile(page, copy)


def _blocks(_: Any, docname: str, source: list[str]) -> None:
    """The words after a block's language are for tools.docs. A file name becomes a caption. Links to explanations lead
    to the copies, and links of the copies to pages of the site.
    """

    def block(found: re.Match[str]) -> str:
        language, words = found[1], found[2].split()
        lexer = LEXERS.get(language, language)
        name = words[0] if words and "." in words[0] and "=" not in words[0] else ""
        if language == "diff" and "from" in words:
            name = f"{words[0]}, which is {words[2]} with this change"
        caption = f"\n:caption: {name}" if name else ""
        return f"```{{code-block}} {lexer}{caption}\n\n" if caption else f"```{lexer}\n"

    source[0] = re.sub(r"^```(\w+)[ ]*([^\n`]*)\n", block, source[0], flags=re.MULTILINE)
    findings = "../" * docname.count("/") + "findings/"
    source[0] = re.sub(r"\]\((?:\.\./)+sim/smemsim/explanations/", f"]({findings}", source[0])
    if docname.startswith("findings/"):
        source[0] = source[0].replace("](../../../docs/", "](../")
    source[0] = re.sub(r"<!-- /?\w+[^>]*-->\n?", "", source[0])
    source[0] = re.sub(r"^!\[([^\]]*)\]\(([./\w]*?pictures/)([\w-]+\.svg)\)$", _picture, source[0], flags=re.MULTILINE)


def _picture(found: re.Match[str]) -> str:
    """A picture stands in the page itself, so that it follows the page's light and dark."""
    svg = (ROOT / "docs" / "pictures" / found[3]).read_text().strip()
    label = found[1].replace('"', "&quot;")
    svg = re.sub(r'aria-label="[^"]*"', f'aria-label="{label}"', svg, count=1)
    return f'<div class="picture" tabindex="0" role="group" aria-label="{label}">\n{svg}\n</div>\n'


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("builder-inited", _copy_explanations)
    app.connect("source-read", _blocks)
