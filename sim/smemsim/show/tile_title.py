"""What a pointer over 16 bytes of shared memory is told."""

from __future__ import annotations

from smemsim.show.tile import Cell, TilePicture
from smemsim.spec.shared_memory import BANKS, CHUNK, LINE

__all__ = ["cell_title"]


def cell_title(tile: TilePicture, cell: Cell) -> str:
    """Everything about 16 bytes, as one sentence."""
    a = cell.address
    told = [f"{a:#x}: chunk {a % LINE // CHUNK} of line {a // LINE * LINE:#x}, banks {BANKS.of(a)} to {BANKS.of(a + CHUNK - 1)}"]
    held = tile.held
    if held is None:
        row, k = tile.first(cell.readers[0])
        told.append(f"row {row}, k {k}" + (f" and {len(cell.readers) - 1} more chunks" if len(cell.readers) > 1 else ""))
        return "; ".join(told)
    if not cell.readers:
        assert cell.home is not None
        return "; ".join([*told, f"holds {held.text(held.meant_at(cell.home))}, which is read elsewhere"])
    place = cell.wrong[0] if cell.wrong else cell.readers[0]
    block, step = tile.instruction(place)
    at = next((i for i, wrong in enumerate(held.wrong[place]) if wrong), 0)
    told.append(f"holds {held.text(held.got_at(place, at))}")
    told.append(f"read by block {block}, K step {step}" + (f", which meant {held.text(held.meant_at(place, at))}" if cell.wrong else ""))
    if len(cell.readers) > 1:
        told.append(f"{len(cell.readers)} chunks of the tile read it")
    if cell.wrong:
        lies = int(held.lies[place])
        told.append(f"in the end that lies at {lies:#x}" if lies >= 0 else "in the end that lies nowhere")
    writer = int(held.writer[place][at])
    if writer >= 0:
        told.append(f"written by step {held.issues[writer].step + 1}: {held.issues[writer].text}")
    return "; ".join(told)
