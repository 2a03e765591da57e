"""Lines of the source for the PTX that ptxas keeps in a cubin. In this PTX `.loc` is blanked. Two line tables of the
cubin have the lines.

The PTX line of each machine instruction is in `.nv_debug_line_sass`, the source line in `.debug_line`. Both are line
programs of DWARF 2. NVIDIA's extended operation 0x90 gives the row at which a row was inlined (compiled: output of
ptxas 13.0, compared with the `.loc` of its PTX).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator, Mapping

__all__ = ["with_locations"]


SASS, SOURCE = ".nv_debug_line_sass", ".debug_line"
_INLINED = 0x90
MOST_ROWS = 1 << 20  # of a line program: a byte can be one
MOST_LINES = 64  # PTX lines after a blank one in which the next machine instruction is searched
_HEADER = struct.Struct("<IHIBBbBB")


class _Broken(Exception):
    """A line program of unknown form."""


@dataclasses.dataclass(frozen=True)
class _Row:
    """A machine instruction's place: `of` is the symbol of its function, `caller` the number of the row that it was
    inlined from, from 1 on; 0 for none.
    """

    of: int
    address: int
    file: int
    line: int
    caller: int


class _Reader:
    """Bytes, one after the other."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, min(end, len(data))

    def byte(self) -> int:
        if self.at >= self.end:
            raise _Broken
        self.at += 1
        return self.data[self.at - 1]

    def number(self, *, signed: bool = False) -> int:
        """A LEB128."""
        value, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise _Broken
        return value - (1 << shift) if signed and byte & 0x40 else value

    def text(self) -> str:
        end = self.data.find(b"\0", self.at, self.end)
        if end < 0:
            raise _Broken
        found = self.data[self.at : end].decode(errors="replace")
        self.at = end + 1
        return found


def _tables(data: bytes, symbols: Mapping[int, int]) -> Iterator[tuple[list[str], list[_Row]]]:
    """(file names, rows) of each line program of a section; `symbols` are those of the addresses at offsets."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, version, header, step, _, base, range_, first = _HEADER.unpack_from(data, at)
        if version != 2 or not range_ or not first:
            raise _Broken
        end = at + 4 + length
        names = _Reader(data, at + _HEADER.size + first - 1, end)
        folders, files = [""], [""]
        while folder := names.text():
            folders.append(folder)
        while name := names.text():
            folder = folders[number] if (number := names.number()) < len(folders) else ""
            names.number(), names.number()
            files.append(name if name.startswith("/") or not folder else f"{folder}/{name}")
        body = _Reader(data, at + 10 + header, end)
        yield files, _Program(body, (step, base, range_, first), symbols).run()
        at = end


class _Program:
    """A line program as it runs: the registers of its machine, and the rows so far."""

    def __init__(self, body: _Reader, form: tuple[int, int, int, int], symbols: Mapping[int, int]) -> None:
        self.body, self.symbols = body, symbols
        self.step, self.base, self.range, self.first = form
        self.rows: list[_Row] = []
        self.of, self.address, self.file, self.line, self.caller = 0, 0, 1, 1, 0

    def row(self) -> None:
        if len(self.rows) >= MOST_ROWS:
            raise _Broken
        self.rows.append(_Row(self.of, self.address, self.file, self.line, self.caller))

    def run(self) -> list[_Row]:
        while self.body.at < self.body.end:
            op = self.body.byte()
            if op >= self.first:
                self.address += (op - self.first) // self.range * self.step
                self.line += self.base + (op - self.first) % self.range
                self.row()
            elif op == 0:
                self.extended()
            else:
                self.standard(op)
        return self.rows

    def extended(self) -> None:
        size = self.body.number()
        end, code = self.body.at + size, self.body.byte()
        if code == 1:
            self.address, self.file, self.line, self.caller = 0, 1, 1, 0
        elif code == 2:
            self.of, self.address = self.symbols.get(self.body.at, 0), 0
        elif code == _INLINED:
            self.caller = self.body.number()
        self.body.at = max(end, self.body.at)

    def standard(self, op: int) -> None:
        if op == 1:
            self.row()
        elif op == 2:
            self.address += self.body.number() * self.step
        elif op == 3:
            self.line += self.body.number(signed=True)
        elif op == 4:
            self.file = self.body.number()
        elif op == 5:  # a column
            self.body.number()
        elif op == 8:
            self.address += (255 - self.first) // self.range * self.step
        elif op == 9:
            self.address += self.body.byte() | self.body.byte() << 8


def _symbols(relocations: bytes) -> dict[int, int]:
    """The symbol of each offset."""
    return {offset: info >> 32 for offset, info, _ in struct.iter_unpack("<QQq", relocations[: len(relocations) // 24 * 24])}


def with_locations(ptx: str, sections: Mapping[str, bytes]) -> str:
    """The PTX with `.loc` on lines that are blank, from the line tables of its cubin, and `.file` at the end; the PTX
    unchanged if these have nothing.

    No line changes its number. A PTX instruction without a machine instruction gets the line of the next one: nine of
    ten are right.
    """
    try:
        lines_of = [rows for _, rows in _tables(sections[SASS], _symbols(sections.get(f".rela{SASS}", b"")))]
        sources = list(_tables(sections[SOURCE], _symbols(sections.get(f".rela{SOURCE}", b""))))
    except (_Broken, KeyError, struct.error, IndexError):
        return ptx
    if len(lines_of) != 1 or len(sources) != 1:
        return ptx
    files, rows = sources[0]
    places = _places(lines_of[0], rows)
    text = ptx.split("\n")
    used, last, depth = set[int](), "", 0
    for n, line in enumerate(text):
        depth += line.count("{") - line.count("}")
        if line.strip() or depth < 1 or not "".join(text[n + 1 : n + 2]).strip():
            continue
        found = next((places[at] for at in range(n + 2, min(n + 2 + MOST_LINES, len(text) + 1)) if at in places), None)
        location = "" if found is None else _loc(found, rows, files, used)
        if location and location != last:
            text[n] = last = location
    declared = "".join(f'\n.file {n} "{files[n]}"' for n in sorted(used))
    return "\n".join(text) + declared


def _places(lines: list[_Row], rows: list[_Row]) -> dict[int, _Row]:
    """The row of the source of each line of PTX: that of its first machine instruction."""
    by_symbol: dict[int, list[_Row]] = {}
    for row in rows:
        by_symbol.setdefault(row.of, []).append(row)
    found: dict[int, _Row] = {}
    lines_of: dict[int, list[_Row]] = {}
    for row in lines:
        lines_of.setdefault(row.of, []).append(row)
    for of, held in by_symbol.items():
        held.sort(key=lambda row: row.address)
        at = 0
        for one in sorted(lines_of.get(of, ()), key=lambda row: row.address):
            while at + 1 < len(held) and held[at + 1].address <= one.address:
                at += 1
            found.setdefault(one.line, held[at])
    return found


def _loc(row: _Row, rows: list[_Row], files: list[str], used: set[int]) -> str:
    """A `.loc` of a row, with the call that it was inlined at."""
    if not 0 < row.file < len(files):
        return ""
    used.add(row.file)
    said = f".loc {row.file} {row.line} 0"
    if 0 < row.caller <= len(rows) and 0 < (caller := rows[row.caller - 1]).file < len(files):
        used.add(caller.file)
        said += f", function_name inlined, inlined_at {caller.file} {caller.line} 0"
    return said
