"""`smemsim campaign`: test whole spaces of inputs, and list what disagrees."""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING

import click

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.cli.narrator import narrator
from smemsim.cli.options import FILE, FOLDER, json_option, parse_numbers

if TYPE_CHECKING:
    from smemsim.campaign.sweep import Progress

__all__ = ["campaign"]

LONGEST_SHARD = 20  # characters of I/N


MOST_CASES = 10**18


@click.command(short_help="Test whole spaces of descriptors, maps, plans and programs.")
@click.argument("spaces", nargs=-1, metavar="[SPACE]...")
@click.option("--cases", metavar="N", help="Cases of each space, such as 1e6. Rounded up to whole chunks.")
@click.option("--seconds", type=float, metavar="S", help="Start no new chunk after this time.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random cases.")
@click.option("--shard", default="1/1", show_default=True, metavar="I/N", help="Run the I-th of N equal parts.")
@click.option(
    "--ledger",
    type=FILE,
    metavar="FILE",
    help="Record finished chunks in this file. The same command continues after a crash.",
)
@click.option("--workers", type=int, metavar="N", help="Processes. Default: as many as processors.")
@click.option("--dask", metavar="ADDRESS", help="Run the chunks on the Dask cluster at this address (pip install 'smemsim[campaign]').")
@click.option("--out", type=FOLDER, metavar="FOLDER", help="Write a JSON file for each disagreement.")
@click.option("--list", "listed", is_flag=True, help="List the spaces.")
@click.option("--reproduce", metavar="SPACE:SEED:CHUNK[:CASE]", help="Run one chunk, or one case of it, again.")
@json_option
@click.pass_context
def campaign(ctx: click.Context, spaces: tuple[str, ...], cases: str | None, seconds: float | None, seed: int, shard: str, ledger: pathlib.Path | None,
             workers: int | None, dask: str | None, out: pathlib.Path | None, listed: bool, reproduce: str | None, as_json: bool) -> None:  # fmt: skip
    """Test whole spaces of inputs. Each case is compared with a second implementation, a law, or another project. The
    cases are counted by class.

    Without --cases and --seconds, a finite space is tested to its end, and an infinite one for one chunk. The
    seed and the number of a chunk decide its cases. So a disagreement can be repeated, and a campaign that was
    killed ends with the same report.

    Exit code 0: nothing is wrong. 1: a disagreement. 2: bad input. 130: Ctrl-C ended it.

    \b
    smemsim campaign --list
    smemsim campaign keys idesc-f16
    smemsim campaign smem --cases 1e8 --ledger smem.db
    smemsim campaign --seconds 3600 --shard 1/4 --ledger night.db --out troubles
    smemsim campaign --reproduce smem:0:3:17
    """
    from smemsim.campaign.sweep import sweep

    if listed:
        _list(as_json)
        return
    if reproduce is not None:
        ctx.exit(_reproduce(reproduce, as_json))
    number, slash, of = shard.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and len(shard) <= LONGEST_SHARD):
        raise InputError(f"--shard {shown(shard)}: needs I/N, as 2/4")
    with narrator("campaign: beginning") as show:
        report = sweep(spaces, cases=None if cases is None else _count(cases), seconds=seconds, seed=seed, shard=(int(number), int(of)), ledger=ledger,
                       workers=workers, dask=dask, out=out, progress=lambda p: show(_line(p)))  # fmt: skip
    click.echo(json.dumps(report.as_dict(), indent=1) if as_json else report.text())
    ctx.exit(130 if report.interrupted else 0 if report.ok else 1)


def _count(text: str) -> int:
    """A number of cases from text, such as 1e6.

    >>> _count("1e6"), _count("2_000")
    (1000000, 2000)
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= MOST_CASES:
        raise InputError(f"--cases {text!r}: needs a number of cases, as 1e6")
    return int(value)


def _list(as_json: bool) -> None:
    from smemsim.campaign.oracles import ORACLES
    from smemsim.campaign.spaces import NAMES, space

    spaces = [*(space(name) for name in NAMES), *(oracle.space() for oracle in ORACLES.values())]
    if as_json:
        click.echo(
            json.dumps([{"name": s.name, "says": s.says, "chunk_cases": s.chunk_cases, "chunks": s.chunks} for s in spaces], indent=1)
        )
        return
    for s in spaces:
        size = f"{s.chunks * s.chunk_cases:,} cases" if s.chunks else "any number of cases"
        needs = f"; needs {', '.join(s.needs)}" if s.needs else ""
        click.echo(f"{s.name}: {size}, in chunks of {s.chunk_cases:,}{needs}\n  {s.says}")


def _reproduce(text: str, as_json: bool) -> int:
    """Run one chunk or one case again. Returns the exit code."""
    from smemsim.campaign.report import CampaignReport, SpaceReport
    from smemsim.campaign.spaces import space
    from smemsim.campaign.sweep import do_chunk

    name, _, rest = text.partition(":")
    of = space(name)
    numbers = parse_numbers("--reproduce", rest.replace(":", ","), "SPACE:SEED:CHUNK or SPACE:SEED:CHUNK:CASE, as smem:0:3:17")
    if len(numbers) not in (2, 3) or min(numbers) < 0 or max(numbers) >= 1 << 63:
        raise InputError(f"--reproduce {text!r}: needs SPACE:SEED:CHUNK or SPACE:SEED:CHUNK:CASE, as smem:0:3:17")
    seed, chunk = numbers[:2]
    if of.chunks is not None and chunk >= of.chunks:
        raise InputError(f"--reproduce {text!r}: {name} has the chunks 0 to {of.chunks - 1}")
    if len(numbers) == 2:
        result, took = do_chunk(name, seed, chunk)
        report = CampaignReport(
            (SpaceReport(name, of.says, result.cases, 1, of.chunks, dict(result.classes), result.troubles),), seed, (1, 1), took
        )
        click.echo(json.dumps(report.as_dict(), indent=1, default=str) if as_json else report.text())
        return int(not report.ok)
    if numbers[2] >= of.chunk_cases:
        raise InputError(f"--reproduce {text!r}: a chunk of {name} has the cases 0 to {of.chunk_cases - 1}")
    case = of.case(seed, chunk, numbers[2])
    told = {"class": case.of, "wrong": case.wrong, "case": dict(case.shown)}
    click.echo(
        json.dumps(told, indent=1, default=str)
        if as_json
        else f"{case.of}\n{json.dumps(dict(case.shown), indent=1, default=str)}\n{case.wrong or 'nothing is wrong'}"
    )
    return int(bool(case.wrong))


def _line(p: Progress) -> str:
    to_go = "" if p.to_go is None else f", {p.to_go:,.0f} s to go"
    return f"campaign: {p.chunks:,} chunks, {p.cases:,} cases, {p.cases / max(p.elapsed, 1e-9):,.0f} a second{to_go}, {p.troubles or 'no'} trouble{'s' * (p.troubles != 1)}"
