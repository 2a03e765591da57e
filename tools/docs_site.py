"""Looks at the built site in a headless browser: `python -m tools.docs_site FOLDER [--few] [--pictures FOLDER]
[--seconds N]`.

No page may fetch anything from elsewhere, run into an error, or break a rule of axe-core (WCAG 2 A and AA): at 420 and
1400 pixels, light and dark. The search must find a finding's page. A page that takes longer than --seconds is a problem
of its own, and the browser is started anew behind it: what runs in a page has no time limit of Playwright's. --few
looks at a few pages of each kind, --pictures keeps screenshots of these.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import pathlib
import shutil
import sys
from collections.abc import AsyncIterator

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserType, Page, async_playwright

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
SHOWN = ("index", "tutorial", "commands/run", "commands/show", "findings/index", "findings/X003", "reference/python", "speed")
WAYS = tuple(itertools.product((420, 1400), ("light", "dark")))
SECONDS = 60.0


@dataclasses.dataclass
class Looking:
    """What is looked at, and the browser, which is started anew where a page does not answer."""

    kind: BrowserType
    site: pathlib.Path
    seconds: float
    pictures: pathlib.Path | None = None
    browser: Browser | None = None

    @contextlib.asynccontextmanager
    async def page(self, width: int) -> AsyncIterator[tuple[Page, list[str]]]:
        """A page of this width, and what goes wrong in it."""
        if self.browser is None:
            self.browser = await self.kind.launch(executable_path=shutil.which("chromium"))
        page = await self.browser.new_page(viewport={"width": width, "height": 900})
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else said.append(f"fetches {request.url}"))
        yield page, said
        await page.close()

    async def problems(self, path: pathlib.Path, width: int, theme: str) -> list[str]:
        """What is wrong with one page."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self._looked_at(path, width, theme)
        except TimeoutError:
            await self.close()
            return [f"not looked at: takes longer than {self.seconds:g} s"]

    async def _looked_at(self, path: pathlib.Path, width: int, theme: str) -> list[str]:
        async with self.page(width) as (page, said):
            await page.goto(path.as_uri())
            await page.evaluate(f"document.body.dataset.theme = {theme!r}")
            violations = (await Axe().run(page, options=RULES)).response["violations"]
            found = [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:120]}" for one in violations]
            if await page.evaluate("document.documentElement.scrollWidth") > width + 1:
                found.append(f"wider than {width} pixels")
            name = path.relative_to(self.site).with_suffix("").as_posix()
            if self.pictures is not None and name in SHOWN:
                await page.screenshot(path=self.pictures / f"{name.replace('/', '-')}-{width}-{theme}.png", full_page=False)
            return found + said

    async def searched(self) -> dict[str, list[str]]:
        """The search works from files, without a server."""
        async with self.page(1400) as (page, _):
            await page.goto(f"{(self.site / 'search.html').as_uri()}?q=proxy")
            try:
                await page.wait_for_selector("#search-results li a", timeout=20_000)
            except Exception:
                return {"search.html": ["finds nothing for 'proxy'"]}
        return {}

    async def close(self) -> None:
        """End the browser, whatever its pages do."""
        browser, self.browser = self.browser, None
        if browser is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await browser.close()


async def look(o: argparse.Namespace) -> int:
    """Look at the pages, each in one way, a few in every way."""
    site = o.site.resolve()
    every = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    chosen = [site / f"{name}.html" for name in SHOWN] if o.few else every
    wrong: dict[str, list[str]] = {}
    async with async_playwright() as p:
        looking = Looking(p.chromium, site, o.seconds, o.pictures)
        for i, path in enumerate(chosen):
            name = path.relative_to(site)
            for number, (width, theme) in enumerate(WAYS):
                if i % len(WAYS) != number and name.with_suffix("").as_posix() not in SHOWN:
                    continue
                if found := await looking.problems(path, width, theme):
                    wrong.setdefault(str(name), []).extend(f"{width} {theme}: {one}" for one in found)
                    print(f"\r{name} {width} {theme}", *found, sep="\n  ", flush=True)
            print(f"\r{i + 1} of {len(chosen)} pages", end="", file=sys.stderr, flush=True)
        wrong |= (searched := await looking.searched())
        await looking.close()
    print(file=sys.stderr)
    for found in searched.values():
        print(*found)
    print(f"{len(chosen)} pages, {len(wrong)} with problems", file=sys.stderr)
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    """Look at a built site."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.docs_site", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=pathlib.Path, metavar="FOLDER", help="the site that sphinx has built")
    parser.add_argument("--few", action="store_true", help="a few pages of each kind")
    parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER", help="keep screenshots of these")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="what one page may take (%(default)g)")
    return asyncio.run(look(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
