"""`smemsim cache`: the machine code that is kept on this machine: where it is, how much there is, more of it, and away with it."""

from __future__ import annotations

import json

import click

from smemsim.base import store
from smemsim.base.compiling.ship import fill
from smemsim.base.errors import InputError
from smemsim.base.processes import pool
from smemsim.base.processors import processors
from smemsim.cli.options import json_option

__all__ = ["cache"]


@click.command(short_help="Show or clear the machine code that is kept on this machine.")
@click.argument("what", required=False, default="size", metavar="[where|size|fill|clear]")
@json_option
def cache(what: str, as_json: bool) -> None:
    """The machine code of hot loops and of blocks of PTX, which one process compiles and all others use. What is removed is compiled again when it is needed.

    `where` prints the folder, `size` (left out: that) how much it has and may have, `fill` compiles now what most commands need, with all processors (half
    a minute to a minute; for the image of a container), `clear` removes all of it, while other processes may run.
    SMEMSIM_CACHE_DIR says where it is, SMEMSIM_CACHE_BYTES how much it may have.

    \b
    smemsim cache
    smemsim cache fill
    smemsim cache clear
    """
    if what not in {"where", "size", "fill", "clear"}:
        raise InputError(f"smemsim cache {what}: needs where, size, fill or clear")
    if why := store.unusable():
        raise InputError(f"smemsim cache: {why}")
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
            f"smemsim cache fill: nothing can be kept in {store.folder()}; {store.FOLDER} names another folder, {store.MOST} how much it may have"
        )
    count = processors()
    with pool(count) as running:
        for part in [running.submit(fill, part, count) for part in range(count)]:
            part.result()
