"""`smemsim replay`: compare hardware traces with the model."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import click

from smemsim.base.errors import InputError
from smemsim.cli.narrator import narrator
from smemsim.cli.options import FILE, PLACE, json_option

__all__ = ["replay"]


@click.command(short_help="Compare hardware traces with the model.")
@click.argument("paths", nargs=-1, type=PLACE, metavar="[PATH]...")
@click.option("--case", type=int, help="Replay only this case of one trace.")
@click.option(
    "--settle", is_flag=True, help="Say which alternatives of the rules these traces of one card refute, and whose grade changes."
)
@click.option("--patch", type=FILE, help="With --settle: write the changed grades as a patch.")
@json_option
@click.pass_context
def replay(ctx: click.Context, paths: tuple[pathlib.Path, ...], case: int | None, settle: bool, patch: pathlib.Path | None, as_json: bool) -> None:  # fmt: skip
    """Compare every trace at or below PATH (default: golden) with the model.

    Exit code 0: nothing differs. 1: a difference. 2: a trace cannot be read. 3: a case is not modelled.

    \b
    smemsim replay golden/
    smemsim replay golden/sm_90a/tma_stores --case 17
    smemsim replay capture-sm_100a --settle --patch grades.patch
    """
    if patch is not None and not settle:
        raise InputError("--patch: writes what --settle finds; give both")
    if settle:
        if case is not None:
            raise InputError("--settle: compares whole traces; leave --case out")
        _settle(ctx, paths, patch, as_json=as_json)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from smemsim.core.picture.text import stderr
    from smemsim.evidence.format import find_suites, load_suite
    from smemsim.evidence.replay import replay_suite

    folders = [folder for path in paths or (pathlib.Path("golden"),) for folder in find_suites(path)]
    if case is not None and len(folders) != 1:
        raise InputError(f"--case {case}: name one trace; there are {len(folders)} at the given paths")
    reports = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not stderr().is_terminal) as progress:
        for folder in folders:
            suite = load_suite(folder)
            task = progress.add_task(suite.name, total=len(suite) if case is None else 1)
            report = replay_suite(suite, case=case, progress=lambda _, task=task: progress.advance(task))  # type: ignore[misc]
            progress.remove_task(task)
            reports.append(report)
            if not as_json:
                click.echo(report.text())
    cases, values = sum(r.cases for r in reports), sum(r.compared for r in reports)
    differing, unmodelled = sum(r.differing for r in reports), sum(len(r.unmodelled) for r in reports)
    if as_json:
        click.echo(json.dumps({"same": all(r.same for r in reports), "suites": [r.as_dict() for r in reports]}, indent=1))
    else:
        verdict = "no difference" if not differing else f"{differing:,} cases differ"
        compiled = sum(r.compiled for r in reports)
        origin = f" ({compiled} of them compiled, not hardware)" if compiled else ""
        click.echo(f"{len(reports)} trace{'s' * (len(reports) != 1)}{origin}, {cases:,} cases, {values:,} values: {verdict}")
    ctx.exit(1 if differing else 3 if unmodelled else 0)


def _settle(ctx: click.Context, paths: tuple[pathlib.Path, ...], patch: pathlib.Path | None, *, as_json: bool) -> None:
    from smemsim.base.files import check_place, write_whole, wrote
    from smemsim.evidence.format import find_suites, load_suite
    from smemsim.evidence.regrade import patch as patch_of
    from smemsim.evidence.settle import settle_suites

    if patch is not None:
        check_place("--patch", patch)
    suites = [load_suite(folder) for path in paths or (pathlib.Path("golden"),) for folder in find_suites(path)]
    with narrator(f"settle: replaying {len(suites)} trace{'s' * (len(suites) != 1)}") as show:
        found = settle_suites(suites, _teller(len(suites), show))
    click.echo(json.dumps(found.as_dict(), indent=1) if as_json else found.text())
    if patch is not None:
        changes = patch_of(found)
        write_whole(patch, changes)
        what = "the changed grades; git apply takes it" if changes else "empty: no grade changes"
        click.echo(f"smemsim: {wrote(patch, what)}", err=True)
    ctx.exit(1 if found.differing else 0)


def _teller(traces: int, show: Callable[[str], None]) -> Callable[[str], None]:
    """Count the traces that were replayed, then the alternatives that were compared, and show them."""
    done = 0

    def tell(name: str) -> None:
        nonlocal done
        done += 1
        show(f"settle: {done} of {traces} traces replayed" if done <= traces else f"settle: alternative {done - traces}, {name}")

    return tell
