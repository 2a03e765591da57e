"""`smemsim capture`: ask the card of this machine what is not measured yet, and compare its answers with the model."""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING, Any

import click

from smemsim.base.files import check_folder
from smemsim.cli.options import FOLDER, json_option

if TYPE_CHECKING:
    from smemsim.capture.plan import Planned
    from smemsim.capture.runner import Done

__all__ = ["capture"]

SEND = "https://github.com/smemsim/smemsim/issues/new?template=trace.yml"


@click.command(short_help="Capture what the GPU of this machine does, and hold it against the model.")
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@click.option(
    "--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="Time for the suites; the first ones settle most."
)
@click.option("--out", type=FOLDER, help="Folder of the traces.  [default: capture-ARCH]")
@click.option("--dry-run", is_flag=True, help="Print what would run and what it would settle. Needs no GPU.")
@click.option("--arch", help="With --dry-run: the card, such as sm_100a.  [default: the GPU of this machine, else all]")
@json_option
@click.pass_context
def capture(ctx: click.Context, suites: tuple[str, ...], minutes: float, out: pathlib.Path | None, dry_run: bool, arch: str | None, as_json: bool) -> None:  # fmt: skip
    """Run the capture kit on the GPU of this machine. It needs a CUDA driver and cuda-bindings (smemsim[cuda]), and
    no toolkit.

    Every case that may trap runs in a process of its own. The traces are replayed at once, and the command prints what
    they settle. Nothing is sent anywhere. The folder holds no names of machines or users, and no paths. A capture that
    was interrupted goes on where it was: run the same command again.

    Exit code 0 when everything agrees with the model, 1 when something differs, 2 when nothing could be captured.

    \b
    smemsim capture --minutes 10
    smemsim capture --dry-run --arch sm_100a
    """
    from smemsim.base.errors import InputError
    from smemsim.testing.recorder import Gpu, why_no_gpu

    why = why_no_gpu()
    if dry_run:
        from smemsim.capture.plan import PLANS

        found = arch or (None if why else Gpu().arch)
        if found is None and not suites and not as_json:
            click.echo(_without_card(why))
        else:
            _print_plans([found] if found else list(PLANS), suites, minutes, as_json=as_json)
        return
    if arch is not None:
        raise InputError(f"--arch {arch}: is for --dry-run; a capture is of the GPU of this machine")
    if why:
        raise InputError(f"nothing can be captured here: {why}; smemsim capture --dry-run shows what a card would be asked")
    from smemsim.capture import runner

    gpu = Gpu()
    card = {name: value for name, value in gpu.describe().items() if name != "captured_utc"}
    planned = _planned(gpu.arch, suites)
    out = out or pathlib.Path(f"capture-{gpu.arch}")
    check_folder("--out", out)
    click.echo(f"{card['gpu']} ({gpu.arch}), driver {card['driver']}: {len(planned)} suites, {minutes:g} minutes, into {out}", err=True)
    with _Progress(planned) as progress:
        done = runner.run(out, gpu.arch, card, planned, minutes, progress.tell)
    there = [d.suite for d in done if d.is_there]
    if not there:
        raise InputError(f"nothing was captured: {done[0].suite}: {done[0].why}" if done else "nothing was captured")
    from smemsim.capture.report import report_of

    report = report_of(out, gpu.arch, card, done)
    click.echo(json.dumps(report.as_dict(), indent=1) if as_json else report.text(SEND))
    ctx.exit(1 if report.differing else 0)


def _without_card(why: str) -> str:
    """The questions to a card of each architecture, a line each."""
    from smemsim.capture.plan import PLANS
    from smemsim.core.spec.evidence import RULES
    from smemsim.core.spec.grades import Grade

    lines = [f"no card was found on this machine: {why}", "a card of each architecture would be asked:"]
    for arch, plan in PLANS.items():
        grades = [r.grades[arch] for r in RULES.values() if arch in r.grades]
        measured = sum(g is Grade.MEASURED for g in grades)
        seconds = sum(p.seconds for p in plan)
        time = f"{seconds / 60:.0f} minutes" if seconds >= 60 else f"{seconds} seconds"
        rules, suites = (f"{n} {word}{'s' * (n != 1)}" for n, word in ((len(grades), "rule"), (len(plan), "suite")))
        lines.append(f"  {arch:8}  {measured} of {rules} measured already; {suites}, about {time}")
    return "\n".join([*lines, "smemsim capture --dry-run --arch sm_100a lists the suites of a card"])


def _planned(arch: str, suites: tuple[str, ...]) -> tuple[Planned, ...]:
    from smemsim.base.arguments import suggestion
    from smemsim.base.errors import InputError
    from smemsim.capture.plan import plan_of

    plan = {p.suite: p for p in plan_of(arch)}
    for name in suites:
        if name not in plan:
            raise InputError(
                f"suite {name!r}: {arch} has none of this name{suggestion(name, list(plan)) or '; there are ' + ', '.join(plan)}"
            )
    return tuple(plan[name] for name in suites) if suites else plan_of(arch)


def _print_plans(archs: list[str], suites: tuple[str, ...], minutes: float, *, as_json: bool) -> None:
    from smemsim.capture.plan import chosen
    from smemsim.core.spec.architectures import any_architecture

    plans: dict[str, Any] = {}
    for arch in archs:
        name = any_architecture(arch).name
        planned = _planned(name, suites)
        plans[name] = planned, {p.suite for p in chosen(planned, 60 * minutes)}
    if as_json:
        click.echo(
            json.dumps({a: [p._asdict() | {"runs": p.suite in runs} for p in planned] for a, (planned, runs) in plans.items()}, indent=1)
        )
        return
    for name, (planned, runs) in plans.items():
        seconds = sum(p.seconds for p in planned)
        length = f"about {seconds / 60:.0f} minutes" if seconds >= 60 else f"about {seconds} seconds"
        left = "; those marked with x do not" if len(runs) < len(planned) else ""
        click.echo(f"{name}: all {len(planned)} suites take {length}; {len(runs)} of them fit {minutes:g} minutes{left}")
        for p in planned:
            mark = "  " if p.suite in runs else "x "
            click.echo(f"  {mark}{p.suite:26}{p.seconds:4} s  {p.question}{f' (needs {p.needs})' if p.needs else ''}")


class _Progress:
    """A bar on a terminal, by the seconds that were planned; a line for each suite otherwise."""

    def __init__(self, planned: tuple[Planned, ...]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from smemsim.core.picture.text import stderr

        self.console = stderr()
        columns = (TextColumn("{task.description:26}"), BarColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self.task = self.bar.add_task("", total=sum(p.seconds for p in planned))

    def __enter__(self) -> _Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, p: Planned, done: Done | None) -> None:
        """A suite begins, or is over."""
        if done is None:
            self.bar.update(self.task, description=p.suite)
            return
        self.bar.advance(self.task, p.seconds)
        took = f", {done.seconds:.0f} s" if done.seconds else ""
        self.bar.console.print(
            f"{p.suite}: {done.state}{took}{f' ({done.why})' if done.why else ''}", highlight=False, markup=False, soft_wrap=True
        )
