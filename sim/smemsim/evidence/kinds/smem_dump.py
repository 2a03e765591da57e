"""A user's kernel: the tensor transfers it makes, in their order, and what they left in shared and global memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.machine.memory import GlobalMemory, SharedMemory
from smemsim.core.machine.tma import Transfer
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import RULES
from smemsim.core.words.tensor_map import TensorMap
from smemsim.evidence.kinds.common import Comparer, trapped
from smemsim.evidence.outcome import Case, Outcome, differ

__all__ = ["STEPS", "TENSOR_FLAGS", "SmemDump"]


STEPS = (("load", "tile"), ("load", "im2col"), ("store", "tile"), ("store", "im2col_no_offs"))  # column 0 of `steps`
TENSOR_FLAGS = {"input": 0, "output": 1}  # column 2 of `tensors`: compared afterwards?
WIDTH = 12  # columns of `steps`: code, map, smem_address, rank, coordinates (5), im2col_offsets (3)


class SmemDump(Comparer):
    """Loads and stores of one CTA, then every byte of the dump, and of the tensors that the stores went to."""

    columns = {  # noqa: RUF012
        "status": 1, "window_end": 1, "dump_address": 1, "fill": 1, "steps_start": 1, "maps_start": 1, "tensors_start": 1, "tensor_bytes_start": 1,
        "after_start": 1, "dump_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare the outcome, then the dump, then the outputs; the first that differs is the outcome."""
        a = self.suite.arrays
        rows = self._rows(index)
        dump, address = self.suite.ragged("dump", index), int(a["dump_address"][index])

        def title() -> str:
            made = [f"{STEPS[int(row[0])][0]} of map {int(row[1])} at {tuple(row[4 : 4 + int(row[3])].tolist())}" for row in rows[:2]]
            return f"{', '.join(made)}{', ...' if len(rows) > 2 else ''}; {len(dump):,} B from shared {address:#x}"

        result, outcome = trapped(int(a["status"][index]), "tma.traps", lambda: self._run(index))
        if outcome:
            return Case(title, outcome)
        shared, world, outputs, seen = result
        model = shared.peek(address, len(dump))
        seen = seen[address - shared.begin :][: len(dump)]
        # If the bytes before the kernel are not known, only bytes that a load wrote are compared.
        there = np.where(seen, dump, model)
        found = differ(there, model, RULES["tma.placement"], "bytes of the dump", _describer("shared", address, there, model), 16)
        if found.differing:
            return Case(title, found)
        other = self._compare_outputs(index, world, outputs)
        return Case(title, other if other.differing else Outcome(int(seen.sum()) + other.compared))

    def written(self, index: int) -> np.ndarray:
        """bool: the bytes of the dump that can be compared, all of them where the kernel filled shared memory first."""
        address, size = int(self.suite.arrays["dump_address"][index]), len(self.suite.ragged("dump", index))
        shared, _, _, seen = self._run(index)
        return seen[address - shared.begin :][:size]

    def _rows(self, index: int) -> np.ndarray:
        rows = self.suite.ragged("steps", index)
        if rows.ndim != 2 or rows.shape[1] != WIDTH:
            raise InputError(f"steps has shape {rows.shape}: needs {WIDTH} numbers a step")
        return rows

    def _run(self, index: int) -> tuple[SharedMemory, GlobalMemory, list[tuple[int, int]], np.ndarray]:
        """Shared and global memory after the steps, the outputs as (address, size), and
        which shared bytes are known.
        """
        a = self.suite.arrays
        maps = [TensorMap.from_bytes(raw.tobytes()) for raw in self.suite.ragged("maps", index)]
        world, outputs = self._world(index)
        begin, fill = architecture(self.suite.arch).shared_begin, int(a["fill"][index])
        shared = SharedMemory(self.suite.arch, size=int(a["window_end"][index]) - begin)
        if fill >= 0:
            shared.bytes[:] = fill
        seen = np.full(len(shared.bytes), fill >= 0)
        for row in self._rows(index).tolist():
            transfer = self._step(row, maps, shared, world)
            if not transfer.is_store:
                seen[transfer.shared_address.astype(np.int64) - begin] = True
        return shared, world, outputs, seen

    def _world(self, index: int) -> tuple[GlobalMemory, list[tuple[int, int]]]:
        """Global memory before the kernel, and (address, size) of the tensors that are compared after it."""
        world, contents, at = GlobalMemory(), self.suite.ragged("tensor_bytes", index), 0
        outputs = []
        for address, size, flag in self.suite.ragged("tensors", index).tolist():
            if at + size > len(contents):
                raise InputError(f"tensors has {size} B at {address:#x}: more than tensor_bytes holds")
            world.place(contents[at : at + size], address)
            at += size
            if flag == TENSOR_FLAGS["output"]:
                outputs.append((address, size))
        return world, outputs

    def _step(self, row: list[int], maps: list[TensorMap], shared: SharedMemory, world: GlobalMemory) -> Transfer:
        code, number, address, rank = row[:4]
        if not 0 <= code < len(STEPS) or not 0 <= number < len(maps):
            raise InputError(f"step {row}: needs a code below {len(STEPS)} and a map below {len(maps)}")
        what, mode = STEPS[code]
        at, given = tuple(row[4 : 4 + rank]), {"smem_address": address, "mode": mode}
        if what == "store":
            return shared.tma_store(maps[number], at, to=world, **given)  # type: ignore[arg-type]
        offsets = tuple(row[9 : 9 + rank - 2]) if mode == "im2col" else ()
        return shared.tma_load(maps[number], at, source=world, im2col_offsets=offsets, **given)  # type: ignore[arg-type]

    def _compare_outputs(self, index: int, world: GlobalMemory, outputs: list[tuple[int, int]]) -> Outcome:
        """The first output that differs, or how much was compared."""
        hardware, at = self.suite.ragged("after", index), 0
        for address, size in outputs:
            mine, model = hardware[at : at + size], world.span(address, size)
            at += size
            if len(mine) != size:
                raise InputError(f"after has {len(hardware)} B: fewer than the outputs")
            found = differ(mine, model, RULES["tma.store_clip"], "bytes of the outputs", _describer("global", address, mine, model), 16)
            if found.differing:
                return found
        return Outcome(at)


def _describer(space: str, begin: int, hardware: np.ndarray, model: np.ndarray) -> Any:
    def describe(where: tuple[int, ...]) -> str:
        i = where[0] // 16 * 16
        words = [bytes(x[i : i + 16]).hex(" ", 4) for x in (hardware, model)]
        return f"{space} {begin + where[0]:#x}: from {begin + i:#x} on hardware {words[0]} | model {words[1]}"

    return describe
