"""`smemsim exec`: run a GPU program on a virtual GPU, and check every kernel that it launches."""

from __future__ import annotations

import os
from typing import Any

import click

from smemsim.base.arguments import cta_numbers
from smemsim.base.errors import InputError
from smemsim.cli.options import OLD_FOLDER, PLACE, ScheduledCommand, global_races_option
from smemsim.cli.usage import EXAMPLES

__all__ = ["exec_command"]


@click.command("exec", cls=ScheduledCommand, short_help="Run a GPU program on a virtual GPU, and check every kernel that it launches.",
               context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})  # fmt: skip
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM ARGS")
@click.option("--arch", help="The card by its architecture: sm_90a (H200), sm_100a (B200), sm_120a (RTX 5090), ... Default: SMEMSIM_ARCH.")
@click.option("--card", metavar="NAME", help="The card by its product name, such as 'RTX 5090' or 'H100 PCIe'. Default: SMEMSIM_CARD.")
@click.option("--list-cards", is_flag=True, help="Print the cards that --card and --arch take, and what is known of each.")
@click.option(
    "--on-finding",
    type=click.Choice(["warn", "raise", "collect"]),
    help="A finding is printed after its launch (warn, the default), makes the launch fail (raise), or is printed at the end (collect).",
)
@click.option("--strict", is_flag=True, default=None, help="Remarks about documented rules that the kernel breaks count as findings.")
@click.option("--remarks", is_flag=True, default=None, help="Print the remarks of launches without findings, too, each once.")
@click.option(
    "--ctas",
    metavar="0-3",
    help="Run only these CTAs of every grid. sample: CTAs that represent the grid (corners, edges, interior); outputs are partial then.",
)
@click.option("--no-sanitize", is_flag=True, help="Execute only: nothing is checked.")
@global_races_option
@click.option(
    "--no-sanitize-kernels",
    "--unwatched",
    "unwatched",
    metavar="REGEX",
    help="Run kernels with these names without the sanitizer: fills, references.",
)
@click.option("--hooks", type=PLACE, metavar="FILE.py", help="Python functions (smemsim.virtual.hook) that replace kernels.")
@click.option("--limit", type=click.IntRange(1), metavar="BLOCKS", help="Stop a kernel after this many blocks of instructions.")
@click.option("--limit-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Stop a launch after this many seconds.")
@click.option("--limit-launches", type=click.IntRange(1), metavar="N", help="Run no more launches than this.")
@click.option(
    "--total-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Launch no more kernels after this many seconds."
)
@click.option("--record", type=PLACE, metavar="DIR", help="Write every launch as a launch file with its arrays, for smemsim run.")
@click.option(
    "--report", type=PLACE, metavar="DIR", help="Write HTML pages: each launch with its time, findings, pictures, and what was checked."
)
@click.option("--json", "json_file", type=PLACE, metavar="FILE", help="Write the launches and findings as JSON.")
@click.option(
    "--source", "sources", multiple=True, type=OLD_FOLDER, metavar="FOLDER",
    help="A further folder of source files, so that findings quote their lines.",
)  # fmt: skip
@click.option("--cancel", metavar="HOW", help="The answer of clusterlaunchcontrol.try_cancel: resident, never, one or always.")
@click.option(
    "--schedule",
    metavar="SEED",
    help="Run in another order that the memory model allows: a seed, earliest, latest, or all:N for these and N seeds.",
)
@click.option(
    "--assume", metavar="RULE=ALTERNATIVE", help="Replace a rule about Blackwell by an alternative (smemsim evidence --alternatives)."
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes for independent CTAs. Default: as many as save time on idle processors.",
)
@click.option("--multiprocessors", type=click.IntRange(1), metavar="N", help="SMs of the card. Default: those of the real card.")
@click.option("--device-memory", metavar="BYTES", help="Memory of the card, such as 16G. Default: that of the real card.")
@click.option(
    "--fresh-memory",
    type=click.Choice(["garbage", "zeros"]),
    help="Content of allocated memory: garbage, whose use is reported (R507), or zeros.",
)
@click.option(
    "--overrun",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Report accesses of at most this many bytes past an array (X001), and continue with zeros there.",
)
@click.option(
    "--no-host-code",
    "host_code",
    flag_value=False,
    default=None,
    help="Do not run the x86 code for tensor maps in cubins of cuTile. Kernels that need it are not modelled then.",
)
@click.option("--counters", is_flag=True, default=None, help="Count bank conflicts, sectors and bytes of each line.")
@click.option("--pipeline", is_flag=True, default=None, help="Print how deep the rings of stages are; pages of --report have the picture.")
@click.option("--require-launches", type=click.IntRange(1), metavar="N", help="Exit code 2 if fewer launches ran. For CI.")
@click.option("--quiet", is_flag=True, default=None, help="Do not print a line for each launch.")
@click.pass_context
def exec_command(ctx: click.Context, /, program: tuple[str, ...], arch: str | None, card: str | None, list_cards: bool, **o: Any) -> None:
    """Run PROGRAM unchanged with a virtual GPU. PROGRAM is CUDA C++ built with PTX and -cudart shared, or any program
    that uses the driver API.

    Every launch is executed and checked, and a line on stderr reports it. Each option has an environment variable:
    SMEMSIM_ARCH, SMEMSIM_ON_FINDING, SMEMSIM_LIMIT_SECONDS and so on.

    The exit code is that of the program. If the program returns 0, smemsim may return another code. Exit code 1:
    findings, or launches that did not run. Exit code 2: code that cannot run here (no PTX, the static runtime), fewer
    launches than --require-launches, or a CTA that waits for one that --ctas left out. Exit code 3: kernels that are
    not modelled.

    \b
    nvcc -gencode arch=compute_90a,code=compute_90a -cudart shared -lineinfo gemm.cu -o gemm
    smemsim exec --arch sm_90a -- ./gemm
    smemsim exec --card "RTX 5090" -- ./gemm
    smemsim exec --arch sm_100a --on-finding raise --report report -- python test_gemm.py
    """
    from smemsim.base.budget import amount
    from smemsim.base.required import check_required
    from smemsim.virtual.exec import run_program
    from smemsim.virtual.policy import Policy, card_of_environment

    if list_cards:
        click.echo(cards_text())
        return
    if not program:
        raise InputError(f"-- PROGRAM ARGS is missing; for example: {EXAMPLES['exec']}")
    if program[0].startswith("-"):  # options of a program follow its name
        raise click.NoSuchOption(program[0].partition("=")[0], ctx=ctx)
    chosen, product = _chosen(arch, card)
    o["ctas"] = cta_numbers("--ctas", o["ctas"]) if o["ctas"] else None
    o["sanitize"] = False if o.pop("no_sanitize") else None
    o["json"] = o.pop("json_file")
    size = o.pop("device_memory")
    sizes = {"multiprocessors": o.pop("multiprocessors"), "memory_bytes": amount(size, "--device-memory") if size else None}
    of_card = card_of_environment() | {key: value for key, value in sizes.items() if value} | {"card": product}
    for key in ("record", "report", "json", "hooks"):
        o[key] = o[key] and o[key].absolute()
    o["sources"] = tuple(folder.absolute() for folder in o["sources"]) or None
    check_required()  # before the program starts: each of its processes would say so
    ctx.exit(run_program(program, chosen, Policy.of(**o), of_card))


def _chosen(arch: str | None, card: str | None) -> tuple[str, str | None]:
    """(architecture, product or None) from the options, else from the environment. Raises InputError if there is none,
    or if the two disagree.
    """
    from smemsim.core.spec.architectures import any_architecture
    from smemsim.core.spec.cards import card_named

    if card is None and arch is None:
        arch, card = os.environ.get("SMEMSIM_ARCH"), os.environ.get("SMEMSIM_CARD")
    if not arch and not card:
        raise InputError("--arch is missing; choose a card: sm_90a (H200), sm_100a (B200) or sm_103a (B300), or one of --list-cards")
    if not card:
        try:
            return any_architecture(arch).name, None
        except InputError:
            try:
                named = card_named(arch or "")
            except InputError:
                named = None
            if named is None:
                raise
            raise InputError(f"--arch {arch}: is the name of a card; write --card '{arch}' or --arch {named.arch}") from None
    found = card_named(card)
    if arch and any_architecture(arch).name != found.arch:
        raise InputError(f"--card {card}: is an {found.arch}, and --arch says {arch}: leave one of them out")
    return found.arch, found.name


def cards_text() -> str:
    """The table of `--list-cards`: one line for each card."""
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
