"""The table of counters: a row for each source line, PTX line and instruction that ran."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.counters import COLUMNS, SECTOR, Sure
from smemsim.run.counters.rows import SUMMED, Row, sum_of
from smemsim.run.counters.totals import OTHERS, MatrixCount, Residence, copy_kind, matrix_words

if TYPE_CHECKING:
    from smemsim.run.counters.observer import Counting

__all__ = ["Counters"]


MOST_LINES = 12
OPERANDS = Sure.NONE, "what tcgen05.mma reads of shared memory was not measured: no counter of a Blackwell card was recorded"
_NUMBERS = operator.attrgetter(*(c.name for c in COLUMNS))
_WORDS = ("source", "line", "instruction", "class")
_ALL_HAVE = [[c.name for c in COLUMNS].index(name) for name in ("executed", "lanes", "predicated_off")]
Words: TypeAlias = tuple[str, int, str, str]  # of an instruction: those columns


class Places(NamedTuple):
    """The places of instructions that ran in a table. It has the columns of their words, and by number the row of each
    (-1: it did not run). It is the same in all launches that run the same instructions.
    """

    words: Mapping[str, np.ndarray]
    at: np.ndarray

    @classmethod
    def of(cls, ran: np.ndarray, instructions: Sequence[Instruction], words: Callable[[Instruction], Words]) -> Places:
        """Those of instructions that ran (a mask), in the order of their lines."""
        named: dict[Words, list[int]] = {}
        for n in np.flatnonzero(ran).tolist():
            named.setdefault(words(instructions[n]), []).append(n)
        rows = sorted(named.items(), key=lambda one: one[0][1])
        at = np.full(len(ran), -1, np.int64)
        for row, (_, own) in enumerate(rows):
            at[own] = row
        columns = {name: np.array([where[n] for where, _ in rows], np.int64 if name == "line" else object) for n, name in enumerate(_WORDS)}
        return cls(columns, at)


@dataclasses.dataclass(frozen=True, eq=False)
class Counters:
    """The cost of a launch, as numpy arrays of one length: `table["wavefronts"]`, `table["line"]` …. Their names are
    `columns`.

    A row is one instruction of one PTX line. It has its source line (`gemm.cu:91`, "" if the PTX has none), the line of
    the PTX, the instruction and its class. It has the counters of `smemsim.core.spec.counters.COLUMNS`. It says how
    sure the row is ("exact", "lower bound", "not countable"), and why it is not exact.

    PTX instructions are no machine instructions: they are never `smsp__inst_executed`. The matrix instructions by type
    and shape are `products`. The CTAs that a multiprocessor holds are `residence`.
    """

    data: Mapping[str, np.ndarray]
    products: tuple[MatrixCount, ...] = ()
    residence: Residence | None = None

    @classmethod
    def of(
        cls,
        counting: Counting,
        words: Callable[[Instruction], Words],
        copied: Iterable[tuple[Instruction, int]] = (),
        products: Iterable[tuple[Instruction, MatrixCount]] = (),
        residence: Residence | None = None,
        known: dict[bytes, Places] | None = None,
    ) -> Counters:
        """The table of the counts. Instructions are named by `words`. Bytes of instructions in the records are
        `copied`. Matrix instructions of tcgen05 are `products`. The places of the program's instructions in tables are
        kept in `known`.
        """
        counting.finish()
        for i, byte_count in copied:
            counting.row(i).copied_bytes += byte_count
        matrix: dict[tuple[str, str, str], list[int]] = {}
        for key, row in counting.rows.items():
            if row.mmas:
                one = matrix.setdefault(matrix_words(counting.instructions[key]), [0, 0])
                one[0], one[1] = one[0] + row.mmas, one[1] + row.flop
        for i, made in products:
            row = counting.row(i)
            row.mmas, row.flop = row.mmas + made.executed, row.flop + made.flop
            row.doubt(*OPERANDS)
            one = matrix.setdefault(made[:3], [0, 0])
            one[0], one[1] = one[0] + made.executed, one[1] + made.flop
        ran = counting.ran.copy()
        numbers_of = [counting.body.number(i) for i in counting.instructions.values()]
        ran.resize(len(counting.body.instructions), refcheck=False)
        ran[numbers_of] = True
        places = None if known is None else known.get(ran.tobytes())
        if places is None:
            places = Places.of(ran, counting.body.instructions, words)
            if known is not None:
                known[ran.tobytes()] = places
        joined: dict[int, list[Row]] = {}
        for n, row in zip(numbers_of, counting.rows.values(), strict=True):
            joined.setdefault(int(places.at[n]), []).append(row)
        numbers, at = np.zeros((len(places.words["line"]), len(COLUMNS)), np.int64), places.at[: len(counting.ran)]
        sure, why = np.full(len(numbers), str(Sure.EXACT), object), np.full(len(numbers), "", object)
        totals = {place: sum_of(own) for place, own in joined.items()}
        if totals:
            numbers[list(totals)] = [_NUMBERS(total) for total in totals.values()]
        for place, total in totals.items():
            if total.sure is not Sure.EXACT:
                sure[place], why[place] = str(total.sure), total.why
        for column, values in zip(_ALL_HAVE, (counting.executed, counting.lanes, counting.off), strict=True):
            numbers[:, column] = 0
            np.add.at(numbers[:, column], at[counting.ran], values[counting.ran])
        data = {name: array.copy() for name, array in places.words.items()}
        data |= {column.name: numbers[:, n].copy() for n, column in enumerate(COLUMNS)}
        data |= {"sure": sure, "why": why}
        counts = sorted((MatrixCount(*words, count, flop) for words, (count, flop) in matrix.items()), key=lambda one: -one.flop)
        return cls(data, tuple(counts), residence)

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
        return int(self[name].max(initial=0)) if name == "worst_degree" else int(self[name].sum())

    def by(self, name: str) -> dict[Any, dict[str, int]]:
        """The columns summed up by `source`, `line` or `class`.

        `worst_degree` is the largest of the rows.
        """
        if name not in _WORDS:
            raise InputError(f"by {shown(name)}: needs one of {', '.join(_WORDS)}")
        out: dict[Any, dict[str, int]] = {}
        for n, key in enumerate(self[name].tolist()):
            one = out.setdefault(key, dict.fromkeys((*SUMMED, "worst_degree"), 0))
            for column in SUMMED:
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
        if self.total("local_sectors"):
            head += f", {self.total('local_sectors'):,} sectors of local memory"
        order = np.argsort(-(self["wavefronts"] * 4 + self["sectors"]), kind="stable")
        chosen = [n for n in order.tolist() if self["wavefronts"][n] or self["sectors"][n]]
        rows = [head, *self._wholes()]
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

    def _wholes(self) -> list[str]:
        """Matrix instructions, copies, lanes and occupancy of the launch, a line each."""
        made = [f"{one.executed:,} {one.instruction} {one.shape} {one.types}" for one in self.products]
        copies = [f"{kind} {size:,}" for kind, size in self.copies.items()]
        found = [f"matrix instructions: {', '.join(made)}"] if made else []
        found += [f"bytes copied: {', '.join(copies)}"] if copies else []
        if executed := self.total("executed"):
            classes = sorted(self.by("class").items(), key=lambda one: -one[1]["executed"])
            lanes, off = self.total("lanes"), self.total("predicated_off")
            says = f"PTX instructions: {executed:,} executed by warps, {lanes / executed:.1f} of 32 lanes active"
            says += f" ({off / lanes:.1%} of the active lanes have a false guard)" if off else ""
            each = (f"{kind} {one['executed']:,} ({one['lanes'] / one['executed']:.1f})" for kind, one in classes if one["executed"])
            found.append(f"{says}: {', '.join(each)}")
        return found + (self.residence.text().splitlines() if self.residence is not None else [])

    @property
    def copies(self) -> dict[str, int]:
        """Bytes by kind of copy: TMA loads and stores, bulk copies, cp.async, st.async; and what threads access in the
        shared memory of other CTAs.
        """
        out: dict[str, int] = {}
        for name, size in zip(self["instruction"].tolist(), self["copied_bytes"].tolist(), strict=True):
            if size:
                kind = copy_kind(name)
                out[kind] = out.get(kind, 0) + size
        others = self.total("cluster_bytes")
        return {**out, **({OTHERS: others} if others else {})}

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
        return {
            "rows": rows, "totals": totals, "intensity": self.intensity, "metrics": {c.name: c.metric for c in COLUMNS if c.metric},
            "classes": self.by("class"), "copies": self.copies, "products": [one._asdict() for one in self.products],
            "occupancy": None if self.residence is None else self.residence.as_dict(),
        }  # fmt: skip


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
