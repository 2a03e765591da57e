"""`smemsim cache`: show, fill or clear the folder of compiled code."""

from __future__ import annotations

import json
import time
from concurrent.futures import as_completed

import click

from smemsim.base import store
from smemsim.base.compiling import first_run
from smemsim.base.compiling.ship import fill
from smemsim.base.errors import InputError
from smemsim.base.processes import pool
from smemsim.base.processors import processors
from smemsim.cli.options import json_option

__all__ = ["cache"]

PARTS = 48  # of the list of loops: the bar moves as often


@click.command(short_help="Show or clear the compiled code on this machine.")
@click.argument("what", required=False, default="size", metavar="[where|size|fill|clear]")
@json_option
def cache(what: str, as_json: bool) -> None:
    """Show, fill or clear the folder of compiled code: hot loops of smemsim, and blocks of PTX that ran often.

    \b
    where   prints the folder
    size    (the default) prints how much it holds and may hold
    fill    compiles the loops that most commands need, for container images: up to a minute on all processors
    clear   removes all entries, also while other processes run

    SMEMSIM_CACHE_DIR names the folder, SMEMSIM_CACHE_BYTES its size.

    \b
    smemsim cache
    smemsim cache fill
    smemsim cache clear
    """
    if what not in {"where", "size", "fill", "clear"}:
        raise InputError(f"cache {what}: needs where, size, fill or clear")
    if why := store.unusable():
        raise InputError(f"smemsim cache: {why}")
    if why := store.wrong_most():
        raise InputError(why)
    where = str(store.folder())
    if what == "where":
        click.echo(json.dumps({"where": where}) if as_json else where)
        return
    if what == "clear":
        count, size = store.clear()
        click.echo(
            json.dumps({"where": where, "removed": count, "bytes": size})
            if as_json
            else f"removed {count:,} objects, {size:,} bytes, of {where}"
        )
        return
    if what == "fill":
        _fill()
    known = store.entries()
    size, most = sum(entry.bytes for entry in known), store.most_bytes()
    if as_json:
        click.echo(json.dumps({"where": where, "objects": len(known), "bytes": size, "most_bytes": most}))
    else:
        click.echo(f"{len(known):,} objects, {size:,} of at most {most:,} bytes, in {where}")


def _fill() -> None:
    if not store.is_writable():
        raise InputError(
            f"smemsim cache fill: {store.LEAST >> 20} MB cannot be kept in {store.folder()}; "
            f"{store.FOLDER} names another folder, {store.MOST} how much it may have"
        )
    count, parts = processors(), PARTS
    begin = time.monotonic()
    with pool(count) as running:
        for done, part in enumerate(as_completed([running.submit(fill, part, parts) for part in range(parts)]), 1):
            part.result()
            first_run.show(done, parts, time.monotonic() - begin)
