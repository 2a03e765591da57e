"""Command lines that cannot be understood: one sentence names the option, the given value, and the allowed values."""

from __future__ import annotations

import collections
import copy
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import click

from smemsim.base.arguments import closest, shown, suggestion
from smemsim.base.errors import InputError
from smemsim.base.terminal import PREFIXED, in_columns

__all__ = ["EXAMPLES", "UsageError", "as_sentence", "prepared"]


MOST = 1 << 63  # no option takes a larger number
EXAMPLES = {  # the usage of a command that lacks an argument
    "run": "smemsim run kernel.ptx --block 128 --arg random:bf16:128x64 --arg zeros:f32:1024",
    "exec": "smemsim exec --arch sm_90a -- ./program",
    "plan": "smemsim plan 128x64 --arch sm_90a --dtype bf16 --major K",
    "show": "smemsim show kernel.toml --html report.html",
    "decode": "smemsim decode 0x4000404000010040 --arch sm_90a",
    "map": "smemsim map 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 16 --k 16",
    "dot": 'smemsim dot --a-type bf16 -a "3f80 3380*15" -b "3f80*16" -c 3f000000',
    "solve": "smemsim solve smem.bin a.npy --base 0x400 --arch sm_90a --dtype bf16 --major K --k 16",
}


OTHER_NAMES = {
    "--kernel": "--entry",
    "--threads": "--block",
    "--gpu": "--card",
    "--output": "--out",
    "--seed": "--schedule",
}  # words of other tools


class UsageError(click.ClickException):
    """A command line that cannot be understood. It is printed like every other error, and the exit code is 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the sentence to stderr."""
        click.echo(in_columns(f"{PREFIXED}{self.message}"), file=file, err=True)


def as_sentence(error: click.UsageError, group: click.Context | None = None) -> UsageError:
    """An error of click as one sentence that ends with what to do. `group` is the context that called the command."""
    ctx = error.ctx
    if ctx is not None:
        command = ctx.command_path
    else:
        command = " ".join(["smemsim", *([group.invoked_subcommand] if group is not None and group.invoked_subcommand else [])])
    lists = f"; {command} --help lists the options"
    if isinstance(error, click.NoSuchOption):
        return UsageError(f"{error.option_name}: no such option{_near(error, group) or _elsewhere(error.option_name, group) + lists}")
    if isinstance(error, click.BadOptionUsage):
        return UsageError(f"{error.option_name}: {_value_of(error, group)}{lists}")
    if isinstance(error, click.MissingParameter):
        name = (
            error.param.get_error_hint(error.ctx).replace("'", "") if error.param is not None and error.ctx is not None else "a parameter"
        )
        example = _example(ctx)
        return UsageError(f"{name} is missing{f'; for example: {example}' if example else lists}")
    if isinstance(error, click.BadParameter) and error.param is not None:
        is_option = isinstance(error.param, click.Option)
        return UsageError(f"{error.param.opts[0] if is_option else error.param.human_readable_name}: {_small(error.message)}")
    return UsageError(f"{_small(error.format_message())}{lists}")


def _example(ctx: click.Context | None) -> str:
    """A command line that has what is missing, with the launch file that was given."""
    name = (ctx.info_name if ctx is not None else "") or ""
    launch = ctx.params.get("launch_path") if ctx is not None else None
    return EXAMPLES.get(name, "") if launch is None else f"smemsim {name} kernel.ptx --launch {launch}"


def _value_of(error: click.BadOptionUsage, group: click.Context | None) -> str:
    """The fault of an option's value: it is missing, or the option is a flag."""
    command = (
        group.command.get_command(group, group.invoked_subcommand or "")
        if group is not None and isinstance(group.command, click.Group)
        else None
    )
    params = command.params if command is not None else []
    is_flag = any(isinstance(param, click.Option) and param.is_flag and error.option_name in _names(param) for param in params)
    return "takes no value" if is_flag else "needs a value"


def _near(error: click.NoSuchOption, group: click.Context | None) -> str:
    """The option of this command that was meant; "" if none is close, or if another command has just this one."""
    name, ctx = error.option_name, error.ctx
    if name[1:2].isdigit():
        if ctx is not None and ctx.info_name == "plan":
            return "; a size has no sign, as in smemsim plan 128x64"
        return "; a size has no sign: leave the - out; the negative value of an option follows =, as --at=-1,0"
    known = [n for param in ctx.command.params if isinstance(param, click.Option) for n in _names(param)] if ctx is not None else []
    if OTHER_NAMES.get(name) in known:
        return f"; did you mean {OTHER_NAMES[name]!r}?"
    if any(name in own for own in _options(group).values()):  # the option of another command
        return ""
    if near := _alike(name, (*known, *(error.possibilities or ()))):
        return f"; did you mean {near!r}?"
    return ""


def _elsewhere(name: str, group: click.Context | None) -> str:
    """The commands that have an option with this name, or with one that begins so."""
    options = _options(group)
    longer = sorted({n for own in options.values() for n in own if len(name) > len("--x") and n.startswith(name)}, key=len)
    having = [f"smemsim {other}" for other, own in options.items() if longer and longer[0] in own]
    more = f" and {len(having) - 3} more" * (len(having) > 3)
    told = f"; {longer[0]} is an option of {', '.join(having[:3])}{more}" if having else ""
    own = group.invoked_subcommand if group is not None else ""
    return told + f"; smemsim {own} chooses the card by --arch, as --arch sm_100a" * (
        name == "--card" and "--arch" in options.get(own or "", ())
    )


def _options(group: click.Context | None) -> dict[str, list[str]]:
    """The options of each command."""
    if group is None or not isinstance(group.command, click.Group):
        return {}
    commands = {other: group.command.get_command(group, other) for other in group.command.list_commands(group)}
    return {other: [n for param in c.params for n in param.opts] for other, c in commands.items() if c is not None}


def _alike(name: str, known: Iterable[str]) -> str:
    """The option whose word is closest; "" if none is close. The dashes do not count."""
    word, words = name.lstrip("-"), {option.lstrip("-"): option for option in sorted(known) if option.startswith("--")}
    return words.get(word) or words.get(closest(word, words), "")


def _small(sentence: str) -> str:
    """A sentence of click, to stand after a colon."""
    return f"{sentence[:1].lower()}{sentence[1:]}".rstrip(".")


def _names(param: click.Parameter) -> tuple[str, ...]:
    return (*param.opts, *param.secondary_opts)


def prepared(command: click.Command) -> click.Command:
    """The command; a value that an option does not take, and an option that is given twice, are InputErrors."""
    if getattr(command, "is_prepared", False):
        return command
    for param in command.params:
        if isinstance(param.type, (click.IntRange, click.FloatRange, click.Choice, type(click.INT), type(click.FLOAT))):
            param.type = copy.copy(param.type)
            param.type.convert = functools.partial(_converted, param.type.convert, param.type)  # type: ignore[method-assign]
    command.make_parser = functools.partial(_parser, command.make_parser)  # type: ignore[method-assign]
    command.is_prepared = True  # type: ignore[attr-defined]
    return command


def _converted(
    convert: Callable[..., Any], kind: click.ParamType[Any], value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> Any:
    is_huge = False
    try:
        number = convert(value, param, ctx)
        is_finite = isinstance(number, (str, int)) or math.isfinite(number)
        is_huge = not isinstance(number, str) and is_finite and abs(number) >= MOST
        if is_finite and not is_huge:
            return number
    except click.BadParameter:
        pass
    known = [str(choice) for choice in kind.choices] if isinstance(kind, click.Choice) else []
    wanted = f"one of {', '.join(known)}{suggestion(value, known)}" if known else _wanted(kind)
    given = value if isinstance(value, str) and value and len(value) < 80 else shown(value)
    raise InputError(f"{param.opts[0] if param is not None else 'the value'} {given}: needs {wanted}{', below 2^63' if is_huge else ''}")


def _wanted(kind: click.ParamType[Any]) -> str:
    """The values that an option with this type takes, in words."""
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    what = "a whole number" if isinstance(kind, (click.IntRange, type(click.INT))) else "a number"
    if least is None:
        return what
    if most is not None:
        return f"{what} from {least:g} to {most:g}"
    return f"{what} above {least:g}" if getattr(kind, "min_open", False) else f"{what} from {least:g} on"


def _parser(make: Callable[[click.Context], Any], ctx: click.Context) -> Any:
    """The parser of a command, which refuses an option with a value that is given twice."""
    parser = make(ctx)
    parse = parser.parse_args

    def parse_args(args: list[str]) -> Any:
        given, rest, order = parse(args)
        for param, times in collections.Counter(order).items():
            if times > 1 and isinstance(param, click.Option) and not (param.multiple or param.is_flag or param.count):
                raise InputError(f"{param.opts[0]}: given {times} times; give it once")
        return given, rest, order

    parser.parse_args = parse_args
    return parser
