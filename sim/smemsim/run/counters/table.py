"""The table of counters: a row for each source line, PTX line and instruction that ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.counters import COLUMNS, SECTOR, Sure
from smemsim.run.counters.classes import class_of
from smemsim.run.counters.rows import Row

if TYPE_CHECKING:
    from smemsim.run.counters.observer import Counting

__all__ = ["Counters"]


MOST_LINES = 12
_WORDS = ("source", "line", "instruction", "class")
_SUMMED = tuple(c.name for c in COLUMNS if c.name not in ("worst_degree", "predicated_off"))


@dataclasses.dataclass(frozen=True, eq=False)
class Counters:
    """What a launch cost, as numpy arrays of one length: `table["wavefronts"]`, `table["line"]` …; `columns` has their
    names.

    A row is one instruction of one PTX line: its source line (`gemm.cu:91`, "" if the PTX has none), the line of the
    PTX, the instruction, its class, the counters of `smemsim.core.spec.counters.COLUMNS`, how sure the row is
    ("exact", "lower bound", "not countable") and why not. `predicated_off` is -1 if no access shows which lanes were
    off. PTX instructions are no machine instructions: they are never `smsp__inst_executed`.
    """

    data: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, counting: Counting, source: Callable[[Instruction], str], copied: Iterable[tuple[Instruction, int, int]] = ()) -> Counters:
        """The table of what was counted. `source` names an instruction's source line; `copied` are bytes and operations
        of instructions in the records.
        """
        counting.finish()
        for i, byte_count, flop in copied:
            row = counting.row(i)
            row.copied_bytes += byte_count
            row.flop += flop
        joined: dict[tuple[str, int, str], tuple[Instruction, Row]] = {}
        for key, row in counting.rows.items():
            i = counting.instructions[key]
            where = source(i), i.line, i.name
            if where in joined:
                joined[where][1].add(row)
            else:
                joined[where] = i, dataclasses.replace(row)
        rows = sorted(joined.items(), key=lambda x: x[0][1])
        data: dict[str, np.ndarray] = {
            "source": np.array([where[0] for where, _ in rows], object),
            "line": np.array([where[1] for where, _ in rows], np.int64),
            "instruction": np.array([where[2] for where, _ in rows], object),
            "class": np.array([class_of(i) for _, (i, _) in rows], object),
        }
        for column in COLUMNS:
            if column.name == "predicated_off":
                values = [
                    row.lanes - row.accessing if i.guard is not None and row.accessing else 0 if i.guard is None else -1
                    for _, (i, row) in rows
                ]
            else:
                values = [getattr(row, column.name) for _, (_, row) in rows]
            data[column.name] = np.array(values, np.int64)
        data["sure"] = np.array([str(row.sure) for _, (_, row) in rows], object)
        data["why"] = np.array([row.why for _, (_, row) in rows], object)
        return cls(data)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.data)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.data:
            raise InputError(f"column {shown(name)}: there is none{suggestion(name, self.data)}")
        return self.data[name]

    def __len__(self) -> int:
        return len(self.data["line"])

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame. InputError where pandas is not installed."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise InputError("to_pandas: pandas is not installed; the columns are numpy arrays, dict(table.data) has them") from None
        return pandas.DataFrame(dict(self.data))

    def total(self, name: str) -> int:
        """The sum of a column over all rows; the largest of `worst_degree`."""
        return int(self[name].max(initial=0)) if name == "worst_degree" else int(np.maximum(self[name], 0).sum())

    def by(self, name: str) -> dict[Any, dict[str, int]]:
        """The columns summed up by `source`, `line` or `class`.

        `worst_degree` is the largest of the rows.
        """
        if name not in _WORDS:
            raise InputError(f"by {shown(name)}: needs one of {', '.join(_WORDS)}")
        out: dict[Any, dict[str, int]] = {}
        for n, key in enumerate(self[name].tolist()):
            one = out.setdefault(key, dict.fromkeys((*_SUMMED, "worst_degree"), 0))
            for column in _SUMMED:
                one[column] += int(self.data[column][n])
            one["worst_degree"] = max(one["worst_degree"], int(self.data["worst_degree"][n]))
        return out

    def text(self, most: int = MOST_LINES) -> str:
        """Totals, then the lines that cost most, with what ncu would call exact and what it would not."""
        total, ideal = self.total("wavefronts"), self.total("ideal_wavefronts")
        head = f"counters: {total:,} shared wavefronts ({ideal:,} ideal), {self.total('sectors'):,} global sectors ({self.total('ideal_sectors'):,} ideal)"
        if self.total("operand_wavefronts"):
            head += f", {self.total('operand_wavefronts'):,} wavefronts of matrix operands"
        if self.total("copied_bytes"):
            head += f", {self.total('copied_bytes'):,} bytes copied"
        if self.total("flop"):
            head += f", {self.total('flop'):,} operations of matrix instructions, {self.intensity:.1f} for each byte of global memory"
        order = np.argsort(-(self["wavefronts"] * 4 + self["sectors"]), kind="stable")
        chosen = [n for n in order.tolist() if self["wavefronts"][n] or self["sectors"][n]]
        rows = [head]
        if chosen and most:
            rows.append(f"  {'wavefronts':>12} {'ideal':>10} {'degree':>6} {'sectors':>12} {'ideal':>10}  line")
        for n in chosen[:most]:
            d = self.data
            where = f"{d['source'][n]}, line {d['line'][n]}" if d["source"][n] else f"line {d['line'][n]}"
            sure = "" if d["sure"][n] == str(Sure.EXACT) else f" ({d['sure'][n]}: {d['why'][n]})"
            rows.append(
                f"  {d['wavefronts'][n]:>12,} {d['ideal_wavefronts'][n]:>10,} {d['worst_degree'][n]:>6} {d['sectors'][n]:>12,} {d['ideal_sectors'][n]:>10,}  {where}: {d['instruction'][n]}{sure}"
            )
        if len(chosen) > most > 0:
            rows.append(f"  and {len(chosen) - most} more, see --json")
        return "\n".join(rows)

    @property
    def is_exact(self) -> bool:
        """Are all rows exact, if ptxas removes, merges and widens nothing?"""
        return bool((self["sure"] == str(Sure.EXACT)).all())

    @property
    def moved_bytes(self) -> int:
        """Bytes of global memory: sectors of the threads' accesses, and what copies move."""
        return self.total("sectors") * SECTOR + self.total("copied_bytes")

    @property
    def intensity(self) -> float:
        """Operations of matrix instructions for each byte of global memory; 0.0 without any of the two."""
        return self.total("flop") / self.moved_bytes if self.moved_bytes else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The table for JSON: a list of rows, totals, and ncu's names of the columns that equal its metrics."""
        rows = [{name: _plain(values[n]) for name, values in self.data.items()} for n in range(len(self))]
        totals = {c.name: self.total(c.name) for c in COLUMNS}
        return {"rows": rows, "totals": totals, "intensity": self.intensity, "metrics": {c.name: c.metric for c in COLUMNS if c.metric}}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
