"""`smemsim decode`: what does this word mean, and what is wrong with it?"""

from __future__ import annotations

import json
from typing import Any

import click

from smemsim.cli.options import arch_option, json_option, operand_options, parse_word
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.spec.findings import Severity

__all__ = ["decode"]


@click.command(context_settings={"ignore_unknown_options": True})  # a negative word is an argument, not an option
@click.argument("word")
@arch_option
@operand_options(required=False)
@click.option("--tile-bytes", type=int, help="Size of the buffer from the start address on.")
@json_option
@click.pass_context
def decode(ctx: click.Context, /, word: str, arch: str | None, as_json: bool, **context: Any) -> None:
    """Explain a 64-bit shared-memory matrix descriptor, field by field.

    Without --arch the word is shown as wgmma (sm_90a) and as tcgen05 (sm_100a) read it. The more is known of the operand, the more can
    be said. Exit code 1 when something is silently wrong or would trap.

    \b
    smemsim decode 0x4000404000010040 --arch sm_100a
    smemsim decode 0x4000020000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16
    """
    number = parse_word(word)
    shown = [SmemDescriptor.decode(number, arch=name) for name in ([arch] if arch else ["sm_90a", "sm_100a"])]
    findings = [d.problems(**context) for d in shown]
    if as_json:
        from smemsim.show.descriptor import descriptor_json

        described = [descriptor_json(d, found) for d, found in zip(shown, findings, strict=True)]
        click.echo(json.dumps(described[0] if arch else described, indent=1))
    else:
        from smemsim.show.console import stdout
        from smemsim.show.descriptor import descriptor_view

        console = stdout()
        known = context["dtype"] is not None and context["major"] is not None and context["rows"] and context["k"]
        for i, (d, found) in enumerate(zip(shown, findings, strict=True)):
            if i:
                console.print()
            console.print(descriptor_view(d, found, major=context["major"], context=bool(known)))
    serious = any(f.severity in (Severity.TRAP, Severity.WRONG) for found in findings for f in found)
    ctx.exit(1 if serious and arch else 0)
