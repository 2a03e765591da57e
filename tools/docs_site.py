"""Looks at the built site in a headless browser: `python -m tools.docs_site FOLDER [--pictures FOLDER]`.

No page may fetch anything from elsewhere, run into an error, or break a rule of axe-core (WCAG 2 A and AA): at 420 and 1400 pixels, light and dark. The search
must find a finding's page. --pictures keeps screenshots of a few pages.
"""

from __future__ import annotations

import itertools
import pathlib
import shutil
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
SHOWN = ("index", "tutorial", "commands/run", "commands/show", "findings/index", "findings/X003", "reference/python", "speed")


def problems(page: Page, path: pathlib.Path, theme: str, width: int) -> list[str]:
    """What is wrong with one page."""
    page.goto(path.as_uri())
    page.evaluate(f"document.body.dataset.theme = {theme!r}")
    found = [
        f"{violation['id']}: {violation['help']}: {violation['nodes'][0]['html'][:120]}"
        for violation in Axe().run(page, options=RULES).response["violations"]
    ]
    if page.evaluate("document.documentElement.scrollWidth") > width + 1:
        found.append(f"wider than {width} pixels")
    return found


def main(arguments: list[str]) -> int:
    site = pathlib.Path(arguments[0]).resolve()
    pictures = pathlib.Path(arguments[2]) if "--pictures" in arguments else None
    chosen = (
        [site / f"{name}.html" for name in SHOWN]
        if "--few" in arguments
        else sorted(p for p in site.rglob("*.html") if "_static" not in p.parts)
    )
    wrong: dict[str, list[str]] = {}
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"))
        for number, (width, theme) in enumerate(itertools.product((420, 1400), ("light", "dark"))):
            # A few pages in every way, each of the others in one.
            page = browser.new_page(viewport={"width": width, "height": 900})
            said: list[str] = []
            page.on("pageerror", lambda error, said=said: said.append(f"error: {error}"))
            page.on("request", lambda request, said=said: said.append(f"fetches {request.url}") if not request.url.startswith(("file:", "data:")) else None)  # fmt: skip
            for path in (
                path for i, path in enumerate(chosen) if i % 4 == number or path.relative_to(site).with_suffix("").as_posix() in SHOWN
            ):
                said.clear()
                if found := problems(page, path, theme, width) + said:
                    wrong.setdefault(str(path.relative_to(site)), []).extend(f"{width} {theme}: {one}" for one in found)
                name = path.relative_to(site).with_suffix("").as_posix()
                if pictures is not None and name in SHOWN:
                    page.screenshot(path=pictures / f"{name.replace('/', '-')}-{width}-{theme}.png", full_page=False)
            page.close()
        wrong |= searched(browser.new_page(), site)
        browser.close()
    for name, found in wrong.items():
        print(name, *dict.fromkeys(found), sep="\n  ")
    print(f"{len(chosen)} pages, {len(wrong)} with problems", file=sys.stderr)
    return 1 if wrong else 0


def searched(page: Page, site: pathlib.Path) -> dict[str, list[str]]:
    """The search works from files, without a server."""
    page.goto(f"{(site / 'search.html').as_uri()}?q=proxy")
    try:
        page.wait_for_selector("#search-results li a", timeout=20_000)
    except Exception:
        return {"search.html": ["finds nothing for 'proxy'"]}
    return {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
