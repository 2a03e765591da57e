"""`smemsim exec`."""

from __future__ import annotations

import os
from typing import Any

import click

from smemsim.base.arguments import cta_numbers, suggestion
from smemsim.base.errors import InputError
from smemsim.cli.options import PLACE, ScheduledCommand

__all__ = ["exec_command"]


@click.command("exec", cls=ScheduledCommand, short_help="Run a program that needs a GPU on a virtual one, and judge every kernel that it launches.",
               context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})  # fmt: skip
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM ARGS")
@click.option("--arch", help="The card: sm_90a is an H200, sm_100a a B200, sm_120a an RTX 5090 (--list-cards has all); else SMEMSIM_ARCH.")
@click.option("--card", metavar="NAME", help="The card by its product name, as 'RTX 5090' or 'H100 PCIe'; else SMEMSIM_CARD.")
@click.option("--list-cards", is_flag=True, help="Print the cards that --card and --arch take, and what is known of each; then end.")
@click.option(
    "--on-finding",
    type=click.Choice(["warn", "raise", "collect"]),
    help="What a finding does: print it at once (warn), let the launch fail (raise), print it at the end (collect).",
)
@click.option("--strict", is_flag=True, default=None, help="Remarks on rules that the PTX breaks count as findings.")
@click.option(
    "--ctas",
    metavar="0-3",
    help="Run these CTAs of every grid alone; sample: those that stand for the grid (corners, edges, interior). Outputs are partial then.",
)
@click.option("--no-sanitize", is_flag=True, help="Execute only: no watch, no judgement.")
@click.option("--watch-global/--no-watch-global", default=None, help="Look for races in global memory too, or in shared memory alone.")
@click.option("--unwatched", metavar="REGEX", help="Kernels whose names match run without the watch: fills, references.")
@click.option("--hooks", type=PLACE, metavar="FILE.py", help="Functions marked by smemsim.virtual.hook run in place of kernels.")
@click.option("--limit", type=click.IntRange(1), metavar="BLOCKS", help="Blocks of instructions until a kernel counts as endless.")
@click.option("--limit-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="End a launch after so many seconds.")
@click.option("--limit-launches", type=click.IntRange(1), metavar="N", help="Run no more launches than this.")
@click.option("--total-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Launch nothing more after so many seconds.")
@click.option("--record", type=PLACE, metavar="DIR", help="Keep every launch as a launch file with its arrays, for smemsim run.")
@click.option(
    "--report", type=PLACE, metavar="DIR", help="Write pages: each launch with its time, findings, pictures, and what was judged."
)
@click.option("--json", "json_file", type=PLACE, metavar="FILE", help="Write what was launched and found as JSON.")
@click.option("--cancel", metavar="HOW", help="How clusterlaunchcontrol.try_cancel is answered: resident, never, one, always.")
@click.option(
    "--schedule", metavar="SEED", help="The order in which things happen: a seed, earliest, latest, or all:N for these and N seeds."
)
@click.option(
    "--assume", metavar="RULE=ALTERNATIVE", help="Take a rule about Blackwell otherwise; smemsim evidence --alternatives lists them."
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes for CTAs that do not depend on each other; left out: as many as save time, on processors that have nothing to do.",
)
@click.option("--multiprocessors", type=click.IntRange(1), metavar="N", help="SMs of the card; else those of the real one.")
@click.option("--device-memory", metavar="BYTES", help="Memory of the card, as 16G; else that of the real one.")
@click.option(
    "--fresh-memory",
    type=click.Choice(["garbage", "zeros"]),
    help="What memory holds that is allocated: garbage, of which a use is found (R507), or zeros.",
)
@click.option(
    "--overrun",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Tell of threads that touch no more than so many bytes behind an array (X001), and let the kernel go on, with zeros there.",
)
@click.option(
    "--no-host-code",
    "host_code",
    flag_value=False,
    default=None,
    help="Do not run the x86 code that cubins of cuTile have for tensor maps: kernels that need it are not modelled.",
)
@click.option("--counters", is_flag=True, default=None, help="Count what each line of a launch costs: bank conflicts, sectors, bytes.")
@click.option("--require-launches", type=click.IntRange(1), metavar="N", help="Exit code 2 where fewer launches were run; for CI.")
@click.option("--quiet", is_flag=True, default=None, help="No line for each launch.")
@click.pass_context
def exec_command(ctx: click.Context, /, program: tuple[str, ...], arch: str | None, card: str | None, list_cards: bool, **o: Any) -> None:
    """Run PROGRAM unchanged with a virtual GPU: CUDA C++ built with PTX and -cudart shared, or whatever uses the driver API.

    Every launch is executed, watched and judged; a line on stderr tells of it. Options have environment variables: SMEMSIM_ARCH, SMEMSIM_ON_FINDING,
    SMEMSIM_LIMIT_SECONDS and so on.

    The exit code is the program's own; where that is 0, 1 for findings and launches that were not run, 2 for code that cannot run here (no PTX, the
    static runtime), fewer launches than --require-launches, and CTAs that wait for others that --ctas left out, 3 for kernels that are not modelled.

    \b
    nvcc -gencode arch=compute_90a,code=compute_90a -cudart shared -lineinfo gemm.cu -o gemm
    smemsim exec --arch sm_90a -- ./gemm
    smemsim exec --card "RTX 5090" -- ./gemm
    smemsim exec --arch sm_100a --on-finding raise --report report -- python test_gemm.py
    """
    from smemsim.base.budget import amount
    from smemsim.virtual.exec import run_program
    from smemsim.virtual.policy import Policy, card_of_environment

    if list_cards:
        click.echo(cards_text())
        return
    if not program:
        raise click.UsageError("Missing argument '-- PROGRAM ARGS'.", ctx)
    if program[0].startswith("-"):  # options of a program come behind its name
        known = [name for param in ctx.command.params if isinstance(param, click.Option) for name in (*param.opts, *param.secondary_opts)]
        name = program[0].partition("=")[0]
        raise click.UsageError(f"No such option {name!r}{suggestion(name, known)}", ctx)
    chosen, product = _chosen(arch, card)
    o["ctas"] = cta_numbers("--ctas", o["ctas"]) if o["ctas"] else None
    o["sanitize"] = False if o.pop("no_sanitize") else None
    o["json"] = o.pop("json_file")
    size = o.pop("device_memory")
    sizes = {"multiprocessors": o.pop("multiprocessors"), "memory_bytes": amount(size, "--device-memory") if size else None}
    of_card = card_of_environment() | {key: value for key, value in sizes.items() if value} | {"card": product}
    for key in ("record", "report", "json", "hooks"):
        o[key] = o[key] and o[key].absolute()
    ctx.exit(run_program(program, chosen, Policy.of(**o), of_card))


def _chosen(arch: str | None, card: str | None) -> tuple[str, str | None]:
    """(architecture, product or None) that the options choose, else the environment. InputError where nothing does, or where the two disagree."""
    from smemsim.core.spec.architectures import any_architecture
    from smemsim.core.spec.cards import card_named

    if card is None and arch is None:
        arch, card = os.environ.get("SMEMSIM_ARCH"), os.environ.get("SMEMSIM_CARD")
    if not arch and not card:
        raise InputError("--arch is missing; choose a card: sm_90a (H200), sm_100a (B200) or sm_103a (B300), or one of --list-cards")
    if not card:
        return any_architecture(arch).name, None
    found = card_named(card)
    if arch and any_architecture(arch).name != found.arch:
        raise InputError(f"--card {card}: is an {found.arch}, and --arch says {arch}: leave one of them out")
    return found.arch, found.name


def cards_text() -> str:
    """The table of `--list-cards`: a line for each card, and below it what is not known."""
    from smemsim.core.spec.cards import ALL_CARDS, CARDS

    rows = [("--card", "--arch", "SMs", "memory", "L2", "name of the driver", "known from")]
    for c in ALL_CARDS:
        l2 = c.known("l2_cache_size").value
        mark = " (its card)" if CARDS[c.arch] is c else ""
        known = "measured" if not c.own else "documents" if c.unknown else "documents, else as H200"
        size = f"{c.memory_bytes / 2**30:.1f} GiB"
        rows.append(
            (
                c.names[0],
                c.arch + mark,
                str(c.named("multiprocessor_count")),
                size,
                f"{l2 / 2**20:g} MiB" if l2 else "unknown",
                c.name,
                known,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", "--arch alone takes the card that is marked. Sources and what is unknown: docs/cards.md"])
