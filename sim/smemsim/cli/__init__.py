"""The command line: `smemsim plan`, `check`, `show`, `solve`, `decode`, `map`, `dot`, `replay`, `capture`, `campaign`,
`run`, `exec`, `explain`, `cache`.

Exit codes: 0 fine or identical, 1 a finding or a difference, 2 bad input, 3 not modelled, 130 after Ctrl-C.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import os
import sys
import warnings
from typing import Any, NoReturn

import click

from smemsim import __version__
from smemsim.base.arguments import choice, shown, suggestion
from smemsim.base.errors import NotKeptWarning, SmemsimError, Unmodelled
from smemsim.base.floating_point import default_state
from smemsim.base.required import REQUIRED, missing_module
from smemsim.base.terminal import PREFIXED, in_columns
from smemsim.cli.streams import open_streams
from smemsim.cli.usage import UsageError, as_sentence, prepared

__all__ = ["main"]


# Commands: each is imported when it is asked for. And what the help says of it, its short_help.
COMMANDS = {
    "run": ("run.run", "Run a kernel's PTX: what does it compute, and what is wrong with it?"),
    "exec": ("exec.exec_command", "Run a GPU program on a virtual GPU, and check every kernel that it launches."),
    "plan": ("plan.plan_command", "Plan an operand tile: its descriptors and tensor maps."),
    "check": ("check.check", "Check a scenario: which field makes my operand wrong?"),
    "solve": ("solve.solve", "Find descriptors that read an operand, the fault behind a wrong D, or a layout without bank conflicts."),
    "show": ("show.show", "Draw a tile and shared memory, with everything that is wrong."),
    "decode": ("decode.decode", "Explain a descriptor, a tensor map or a layout."),
    "map": ("map.map_command", "Show where each element of an operand, transfer or layout is."),
    "dot": ("dot.dot", "Explain one dot product of a matrix instruction, bit for bit."),
    "replay": ("replay.replay", "Compare hardware traces with the model."),
    "capture": ("capture.capture", "Capture what the GPU of this machine does, and hold it against the model."),
    "campaign": ("campaign.campaign", "Test whole spaces of descriptors, maps, plans and programs."),
    "explain": ("explain.explain", "Explain a finding's code: cause, bad example, fix, evidence."),
    "evidence": ("evidence.evidence", "Print the rules about hardware, their evidence, and their alternatives."),
    "cache": ("cache.cache", "Show or clear the compiled code on this machine."),
}
# objects, of which hardly any is garbage while modules are imported: how many are made before Python looks for it
ALLOCATED = 20_000
HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())  # `smemsim` alone, since click 8.2: the message is the help
SETTINGS = {"SMEMSIM_COHORTS": ("on", "off"), "SMEMSIM_TIERS": ("closures", "compiled")}  # of the environment, for runs
TRACEBACK = "SMEMSIM_TRACEBACK"  # if set, an unexpected error is raised unchanged


class _Group(click.Group):
    """Turns every error into a sentence on stderr and its exit code: 1 is left to findings."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line, as `click.Group.main`."""
        open_streams()
        try:
            return super().main(*args, **kwargs)
        except OSError:  # of an error's sentence: the disk under stderr is full
            sys.exit(2)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            if name.startswith("-"):
                raise as_sentence(e) from None
            near = suggestion(name, COMMANDS) or f"; there are {', '.join(sorted(COMMANDS))}"
            raise UsageError(f"{name}: no such command{near}") from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name][0].split(".")
        found: click.Command = getattr(importlib.import_module(f"smemsim.cli.{module}"), attribute)
        return prepared(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, none of which is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """The context of the command. Output of `--help` and `--version` comes before any command, and a full disk is
        an error there, too.
        """
        try:
            return super().make_context(*args, **kwargs)
        except HELP:
            raise
        except click.UsageError as e:
            raise as_sentence(e) from None
        except OSError as e:
            with contextlib.suppress(OSError):
                click.echo(f"smemsim: cannot read or write: {e.strerror or e}", err=True)
            sys.exit(2)

    def invoke(self, ctx: click.Context) -> Any:
        often = gc.get_threshold()
        gc.set_threshold(max(often[0], ALLOCATED))
        _leave_at_once()
        _say_warnings()
        try:
            _check_settings()
            with default_state():
                return super().invoke(ctx)
        except click.UsageError as e:
            raise as_sentence(e, ctx) from None
        except (click.exceptions.Exit, click.ClickException):
            raise
        except (KeyboardInterrupt, click.Abort):
            _end(ctx, 130, "interrupted")
        except Unmodelled as e:
            _end(ctx, 3, f"not modelled: {e}")
        except SmemsimError as e:
            _end(ctx, 2, str(e))
        except OSError as e:
            where = f" ({e.filename})" if e.filename else "" if _has_folder() else ": the current folder was removed; change to another one"
            _end(ctx, 2, f"cannot read or write: {e.strerror or e}{where}")
        except MemoryError as e:
            _end(
                ctx,
                2,
                f"not enough memory on this machine: {str(e) or 'all memory is in use'}; "
                "--memory of smemsim run, or SMEMSIM_MEMORY, says how much may be taken",
            )
        except RecursionError:
            _end(ctx, 2, "the input is nested too deeply")
        except Exception as e:
            if os.environ.get(TRACEBACK):
                raise
            if isinstance(e, ModuleNotFoundError) and (e.name or "").partition(".")[0] in REQUIRED:
                _end(ctx, 2, missing_module(e.name or ""))
            _end(
                ctx, 2, f"internal error, please report it: {type(e).__name__}: {shown(str(e))[1:-1]}{_place(e)}; {TRACEBACK}=1 shows where"
            )
        finally:
            gc.set_threshold(*often)


@functools.cache
def _leave_at_once() -> None:
    """When the process ends, Python's garbage collector looks at no object: after a program of 200,000 branches that
    took longer than its execution.
    """
    atexit.register(gc.freeze)


@functools.cache
def _say_warnings() -> None:
    """Warnings of this package are sentences like the others on stderr."""
    before = warnings.showwarning

    def show(message: Any, category: type[Warning], *more: Any, **given: Any) -> None:
        if issubclass(category, NotKeptWarning):
            click.echo(in_columns(f"{PREFIXED}{message}"), err=True)
        else:
            before(message, category, *more, **given)

    warnings.showwarning = show


def _check_settings() -> None:
    """InputError for a variable of the environment whose value would have no effect."""
    for name, values in SETTINGS.items():
        if value := os.environ.get(name, ""):
            choice(name, value, values, f"{' or '.join(values)}, or no value")


def _has_folder() -> bool:
    """Is the current folder still there?"""
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _end(ctx: click.Context, code: int, message: str) -> NoReturn:
    with contextlib.suppress(OSError):  # a full disk under stderr, too
        click.echo(in_columns(f"{PREFIXED}{message}"), err=True)
    ctx.exit(code)


def _place(error: BaseException) -> str:
    """The line of the source that raised an error, for a report of the error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at is not None else ""


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="smemsim", message="%(prog)s %(version)s")
def main() -> None:
    """smemsim runs CUDA kernels without a GPU and finds their bugs.

    It plans, checks and shows operand tiles of tensor cores. It explains descriptors, tensor maps and dot products.

    \b
    smemsim run kernel.ptx --launch launch.toml         run a kernel: which line is wrong, and why?
    smemsim plan 128x64 --arch sm_100a --dtype bf16 --major K
                                                        which descriptors and tensor maps do I need?
    smemsim check kernel.toml                           does an instruction read the tile that I meant?
    smemsim show kernel.toml --html report.html         where is each element, and which are wrong?
    smemsim explain D308                                what does a finding mean, and how is it fixed?
    smemsim solve smem.bin a.npy --base 0x400 --arch sm_90a --dtype bf16 --major K --k 16
                                                        which descriptors read this operand from memory?
    smemsim decode 0x4000404000010040 --arch sm_100a
    smemsim decode encode_calls.cu --arch sm_90a        the cuTensorMapEncode calls of a source file
    xxd tensor_map.bin | smemsim decode -               the 128 bytes of a tensor map
    smemsim map 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 16 --k 16
    smemsim map tensor_map.bin --at 0,64                one TMA load
    smemsim dot --a-type bf16 -a "3f80 3380*15" -b "3f80*16" -c 3f000000
    smemsim replay golden/
    smemsim campaign smem --cases 1e8                   tests over whole spaces of inputs
    smemsim evidence --open sm_100a                     which rules are not measured yet?

    Exit codes: 0 fine, 1 a finding, a refusal or a difference, 2 bad input, 3 not modelled.
    """
