"""What a page knows of an operand, compact: a number or two for each 16-byte chunk, and the names to make sentences of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from smemsim.checking.report import CheckFinding
from smemsim.checking.simulate import NAMES, Machine
from smemsim.show.held import Held
from smemsim.show.tile import Place, TilePicture
from smemsim.spec.shared_memory import BANKS, CHUNK
from smemsim.spec.smem_descriptor import REACH

__all__ = ["buffer_runs", "finding_of", "operand_data", "page_data"]


def page_data(machine: Machine, tiles: list[TilePicture]) -> dict[str, Any]:
    """Everything that the page's script reads."""
    return {
        "tensors": [{"name": t.name, "axes": list(t.extent), "extent": list(t.extent.values())} for t in machine.tensors.values()],
        "issues": [f"step {issue.step + 1}: {issue.text}" for issue in machine.issues],
        "names": {str(code): text for code, text in NAMES.items()},
        "banks": [BANKS.count, BANKS.width],
        "operands": [operand_data(tile) for tile in tiles],
    }


def operand_data(tile: TilePicture) -> dict[str, Any]:
    """One operand, chunk by chunk along the lines of the tile.

    `address`, `wrong` (a mask of elements in hex, 0 for none), `lies` (where the meant data lies), `home` (the chunk whose data was read), `meant` (index
    along every axis of the tensor), `got` (1 as meant; a code of NAMES; [tensor, axis along which the elements follow, index along every axis]; or {"each":
    [...]}) and `writer` (an issue) are lists with an entry for each chunk.
    """
    lines, columns = tile.shape
    offsets = next(
        (tile.address[p] - tile.address[p][0] for p in tile.places() if tile.address[p].min() >= 0),
        tile.address[0, 0] - tile.address[0, 0, 0],
    )
    found: dict[str, Any] = {
        "where": tile.where, "name": tile.name, "title": tile.title, "subtitle": tile.subtitle, "grade": tile.grade,
        "dtype": tile.dtype, "major": tile.major, "rows": tile.rows, "k": tile.k, "axes": list(tile.axes), "lines": lines, "columns": columns,
        "blocks": tile.words.shape[0], "steps": tile.words.shape[1], "one": tile.chunks_of_one, "atom": tile.atom_lines,
        "words": [[f"{int(word):#018x}" for word in row] for row in tile.words], "offsets": [int(x) for x in offsets],
        "strides": [[s.name, s.bytes, s.begin, s.end, s.used] for s in tile.strides()], "address": tile.address[..., 0].ravel().tolist(),
    }  # fmt: skip
    partial = {i: int((tile.address[p] >= 0).sum()) for i, p in enumerate(tile.places()) if tile.address[p].min() < 0}
    found |= {"partial": partial} if partial else {}
    held = tile.held
    if held is None:
        return found
    names = list(held.tensors)
    inner = list(held.tensor.extent).index(held.axes[1] if tile.major == "K" else held.axes[0])
    home = [held.homes.get(int(held.got[p][0])) for p in tile.places()]
    return found | {
        "tensor": names.index(held.tensor.name),
        "inner": inner,
        "shown": [list(held.tensor.extent).index(axis) for axis in held.axes],
        "wrong": [_mask(held.wrong[p]) for p in tile.places()],
        "lies": held.lies.ravel().tolist(),
        "home": [-1 if place is None else place[0] * columns + place[1] for place in home],
        "meant": [list(held.meant_at(p)[1]) for p in tile.places()],
        "got": [_got(held, p, names) for p in tile.places()],
        "writer": held.writer[..., 0].ravel().tolist(),
    }


def _mask(wrong: np.ndarray) -> int | str:
    value = sum(1 << i for i, one in enumerate(wrong) if one)
    return f"{value:x}" if value else 0


def _got(held: Held, place: Place, names: list[str]) -> Any:
    """What a chunk's elements are: as meant, one run along an axis, or each by itself."""
    count = int((held.k[place] >= 0).sum())
    if (held.got[place] == held.meant[place])[:count].all() and (held.meant[place][:count] >= 0).all():
        return 1
    each = [held.got_at(place, i) for i in range(count)]
    first = each[0]
    if isinstance(first, int):
        if all(one == first for one in each):
            return first
    else:
        for axis in range(len(first[1])):
            run = [(first[0], tuple(x + i * (j == axis) for j, x in enumerate(first[1]))) for i in range(count)]
            if run == each:
                return [names.index(first[0]), axis, *first[1]]
    return {"each": [one if isinstance(one, int) else [names.index(one[0]), *one[1]] for one in each]}


def finding_of(tiles: list[TilePicture], finding: CheckFinding) -> tuple[int, Place] | None:
    """(operand, its chunk with the first wrong element) of a finding; None where it is about something else."""
    for number, tile in enumerate(tiles):
        if (finding.title == tile.name or finding.where.startswith(tile.where)) and tile.first_wrong:
            return number, tile.first_wrong
    return None


def buffer_runs(machine: Machine) -> list[dict[str, Any]]:
    """The buffers in the order of their addresses: where each lies, and what filled which bytes of it last; what no step filled has issue -1."""
    ordered = sorted(machine.buffers.values(), key=lambda b: b.address)
    found = []
    for buffer, after in zip(ordered, [*(b.address for b in ordered[1:]), REACH], strict=True):
        end = buffer.address + buffer.bytes if buffer.bytes else after
        writer = machine.writer[buffer.address : min(end, REACH)]
        if not buffer.bytes:
            written = np.flatnonzero(writer >= 0)
            writer = writer[: -(-(int(written[-1]) + 1) // CHUNK) * CHUNK if len(written) else 0]
        cuts = [0, *(np.flatnonzero(np.diff(writer)) + 1).tolist(), len(writer)] if len(writer) else []
        runs = [(buffer.address + a, buffer.address + b, int(writer[a])) for a, b in itertools.pairwise(cuts)]
        found.append({"name": buffer.name, "begin": buffer.address, "end": buffer.address + len(writer), "runs": runs})
    return found
