"""`smemsim check`: does a kernel read what it should read, and if not, which field is wrong?"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import click

from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.terminal import PREFIXED, in_columns
from smemsim.cli.explain import hint
from smemsim.cli.options import PLACE, assume_option, json_option

__all__ = ["check"]


STDIN = ("-", "/dev/stdin")
MOST = 1 << 24  # characters of a scenario on standard input


@click.command(short_help="Check a scenario: which field makes my operand wrong?")
@click.argument("paths", nargs=-1, type=PLACE, metavar="SCENARIO...")
@click.option("--schema", is_flag=True, help="Print the JSON schema of scenario files.")
@assume_option
@json_option
@click.pass_context
def check(ctx: click.Context, paths: tuple[pathlib.Path, ...], schema: bool, assume: str | None, as_json: bool) -> None:
    """Check a scenario: tensors, maps, transfers, descriptors, and what each operand was meant to be. TOML or
    JSON; - is standard input.

    Exit code 0: nothing is wrong, or exactly the expected findings were reported. 1: findings. 2: the file cannot be
    read, or has nothing to check. 3: not modelled. Rules for sm_90a are measured on an H200. Rules for Blackwell are
    witnessed, documented, compiled or inferred.

    \b
    smemsim check kernel.toml
    smemsim check scenarios/*.toml --json
    smemsim plan 128x64 --arch sm_90a --dtype bf16 --major K --scenario | smemsim check -
    """
    from smemsim.diagnosis.scenario import json_schema

    if schema:
        click.echo(json.dumps(json_schema(), indent=1))
        return
    if not paths:
        raise InputError("no scenario is named; smemsim check FILE")
    from smemsim.core.spec.alternatives import assuming
    from smemsim.diagnosis.check import check as run

    reports, codes, single = [], [], len(paths) == 1
    for path in paths:
        try:
            with assuming(assume):
                report = run(_standard_input() if str(path) in STDIN else path)
        except (InputError, Unmodelled) as e:
            if single:
                raise
            click.echo(in_columns(f"{PREFIXED}{f'{path}: not modelled: ' if isinstance(e, Unmodelled) else ''}{e}"), err=True)
            codes.append(3 if isinstance(e, Unmodelled) else 2)
            continue
        reports.append((path, report))
        if not as_json:
            if len(paths) > 1:
                click.echo(f"{path}: {report.title}".rstrip(": "))
            if answer := report.answer:
                click.echo(answer)
            click.echo(report.text())
            hint(report.codes)
    if as_json:
        found = [{"path": str(path), **report.as_dict()} for path, report in reports]
        click.echo(json.dumps(found[0] if single else found, indent=1))
    codes += [
        2 if r.is_empty and r.expected is None else 0 if (r.as_expected if r.expected is not None else not r.codes) else 1
        for _, r in reports
    ]
    ctx.exit(2 if 2 in codes else max(codes))


def _standard_input() -> dict[str, Any]:
    """The scenario on standard input, as nested dicts and lists."""
    from smemsim.core.tables import Source
    from smemsim.diagnosis.scenario import A_SCENARIO

    text = sys.stdin.read(MOST + 1)
    if len(text) > MOST:
        raise InputError(f"standard input: more than {MOST >> 20} MiB; no scenario is that large")
    try:
        raw = Source.of_text(pathlib.Path("standard input"), text).parsed()
    except ValueError as e:
        raise InputError(f"standard input: neither TOML nor JSON ({e})") from None
    if not isinstance(raw, dict) or not raw:
        raise InputError(f"standard input: holds no scenario; {A_SCENARIO}")
    return raw
