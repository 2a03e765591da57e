"""`smemsim exec`."""

from __future__ import annotations

import os
from typing import Any

import click

from smemsim.arguments import suggestion
from smemsim.cli.options import PLACE, ScheduledCommand
from smemsim.errors import InputError

__all__ = ["exec_command"]


@click.command("exec", cls=ScheduledCommand, short_help="Run a program that needs a GPU on a virtual one, and judge every kernel that it launches.",
               context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})  # fmt: skip
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM ARGS")
@click.option("--arch", help="The card: sm_90a is an H200, sm_100a a B200, sm_103a a B300; else SMEMSIM_ARCH.")
@click.option(
    "--on-finding",
    type=click.Choice(["warn", "raise", "collect"]),
    help="What a finding does: print it at once (warn), let the launch fail (raise), print it at the end (collect).",
)
@click.option("--strict", is_flag=True, default=None, help="Remarks on rules that the PTX breaks count as findings.")
@click.option("--ctas", metavar="0-3", help="Run these CTAs of every grid alone.")
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
@click.option("--require-launches", type=click.IntRange(1), metavar="N", help="Exit code 2 where fewer launches were run; for CI.")
@click.option("--quiet", is_flag=True, default=None, help="No line for each launch.")
@click.pass_context
def exec_command(ctx: click.Context, /, program: tuple[str, ...], arch: str | None, **o: Any) -> None:
    """Run PROGRAM unchanged with a virtual GPU: CUDA C++ built with PTX and -cudart shared, or whatever uses the driver API.

    Every launch is executed, watched and judged; a line on stderr tells of it. Options have environment variables: SMEMSIM_ARCH, SMEMSIM_ON_FINDING,
    SMEMSIM_LIMIT_SECONDS and so on.

    The exit code is the program's own; where that is 0, 1 for findings and launches that were not run, 2 for code that cannot run here (no PTX, the
    static runtime) and fewer launches than --require-launches, 3 for kernels that are not modelled.

    \b
    nvcc -gencode arch=compute_90a,code=compute_90a -cudart shared -lineinfo gemm.cu -o gemm
    smemsim exec --arch sm_90a -- ./gemm
    smemsim exec --arch sm_100a --on-finding raise --report report -- python test_gemm.py
    """
    from smemsim.budget import amount
    from smemsim.spec.architectures import architecture
    from smemsim.virtual.exec import run_program
    from smemsim.virtual.policy import Policy, card_of_environment, numbers_of

    if program[0].startswith("-"):  # options of a program come behind its name
        known = [name for param in ctx.command.params if isinstance(param, click.Option) for name in (*param.opts, *param.secondary_opts)]
        name = program[0].partition("=")[0]
        raise click.UsageError(f"No such option {name!r}{suggestion(name, known)}", ctx)
    chosen = arch or os.environ.get("SMEMSIM_ARCH")
    if not chosen:
        raise InputError("--arch is missing; choose a card: sm_90a (H200), sm_100a (B200) or sm_103a (B300)")
    o["ctas"] = numbers_of("--ctas", o["ctas"]) if o["ctas"] else None
    o["sanitize"] = False if o.pop("no_sanitize") else None
    o["json"] = o.pop("json_file")
    size = o.pop("device_memory")
    sizes = {"multiprocessors": o.pop("multiprocessors"), "memory_bytes": amount(size, "--device-memory") if size else None}
    card = card_of_environment() | {key: value for key, value in sizes.items() if value}
    for key in ("record", "report", "json", "hooks"):
        o[key] = o[key] and o[key].absolute()
    ctx.exit(run_program(program, architecture(chosen).name, Policy.of(**o), card))
