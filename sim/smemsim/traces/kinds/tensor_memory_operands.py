"""What tcgen05.mma reads from tensor memory: A, scale factors, sparsity metadata."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from smemsim.arithmetic.values import element_value
from smemsim.errors import Unmodelled
from smemsim.machine.tcgen05_operands import stored_k
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.machine.tmem.operands import ATmemLayout, MetadataLayout
from smemsim.machine.tmem.scales import ScaleLayout
from smemsim.spec.evidence import RULES
from smemsim.spec.formats import element_format
from smemsim.spec.tensor_memory import CELL_BITS, DECOMPRESSIONS, LANES, METADATA
from smemsim.traces.kinds.blackwell import Issued, cells_of_d, judged, put_in_cells, words_of
from smemsim.traces.kinds.tensor_memory import PROBE_COLUMNS, TmemProbe, compare_cells, number_of
from smemsim.traces.outcome import Case

__all__ = ["TmemMetadata", "TmemOperand", "TmemScale"]

ROW_BYTES, TAGGED = 2048, 32  # bytes of a lane as tags number them; columns of scale factors that hold tags
UE8M0_LEAST = 15  # tag 0 is 2^-15


def of_any(copies: np.ndarray, shown: np.ndarray, columns: int) -> np.ndarray:
    """Words (pass, M, N) of D: what is `shown` where `columns` of a row are those of one of the copies (copy, pass, M, N), else the first's."""
    bands = copies.reshape(*copies.shape[:3], -1, columns)
    seen = shown.reshape(bands.shape[1:])
    right = (bands == seen).all((1, -1)).any(0)[..., None]
    return np.where(right, seen, bands[0]).reshape(shown.shape)


def owners_in_words(words: np.ndarray, kind: str) -> dict[int, str]:
    """The words of D that two numbers make, and whose number each of them is."""
    even, odd = words_of(words, kind).tolist()
    return {even: "the even CTA's", odd: "the odd CTA's"}


class TmemOperand(TmemProbe):
    """A in tensor memory, B an identity: D shows which byte every element of A came from, or what the byte means; in pairs also whose it is."""

    columns = {**PROBE_COLUMNS, "tag_bits": 1, "owner_words": 2}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare all cells of all passes; each CTA of a pair gives the rows of its D."""
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        i, passes, tags = issued.idesc, int(a["passes"][index]), str(a["what"][index]) == "tags"
        owner_words = a["owner_words"][index].astype(np.int64)
        asks = passes - 1 if owner_words.any() else passes  # the pass that asks for the owner
        source, to = (TmemAddress.decode(int(a[name][index])) for name in ("a", "d"))

        def model() -> tuple[AccumulatorLayout, np.ndarray]:
            if issued.tail == "ashift":
                raise Unmodelled(".ashift: by how many rows A is shifted, and what the first or last row becomes, is in no document")
            issued.check(source, d=to)
            layout = issued.layout(lane=to.lane, column=to.column)
            at = ATmemLayout(i.m, i.kind, issued.cta_group, ws=issued.ws, lane=source.lane, column=source.column)
            k = np.arange(min(i.k, i.n))
            copy = k // (i.n // at.copies)
            cta, lane, column, bit = at.location(np.arange(i.m)[:, None], k, copy)
            numbers = np.zeros((passes, i.m, i.n))
            for step in range(asks):
                read = _digit if tags else _meaning
                numbers[step][:, k] = read(issued, lane, column, bit, step, int(a["tag_bits"][index]))
            if asks < passes:
                numbers[asks][:, k] = _worth(issued, owner_words)[cta]
            return layout, words_of(numbers, i.kind)

        def names(step: int, word: int, m: int, n: int) -> str:
            number = number_of(word, i.kind)
            if step == asks:
                whose = owners_in_words(_worth(issued, owner_words), i.kind).get(word, "nobody's")
                return f"{number} ({whose} A[{m}, {n}])"
            return f"{number} (part {step} of the place of A[{m}, {n}])" if tags else f"{number} (A[{m}, {n}])"

        return self.compare(index, issued, model, RULES["tcgen05.tensor_operands"], names, RULES["tcgen05.pair"] if asks < passes else None)


def _digit(issued: Issued, lane: np.ndarray, column: np.ndarray, bit: np.ndarray, step: int, tag_bits: int) -> np.ndarray:
    """Part `step` of the place of an element: 16-byte chunk times per_chunk and its position, lanes being 2,048 bytes one after the other."""
    bits = (lane * ROW_BYTES * 8 + column * CELL_BITS) + bit
    place = bits // 128 * issued.per_chunk + bits % 128 // issued.element.bits
    return np.asarray(place >> step * tag_bits & (1 << tag_bits) - 1)


def _meaning(issued: Issued, lane: np.ndarray, column: np.ndarray, bit: np.ndarray, step: int, _: int) -> np.ndarray:
    """What the element of a byte is worth: every byte of lane l is l + 128 * step."""
    shift = 0 if issued.idesc.row.packing == "padded" else bit % 8
    return _worth(issued, lane + LANES * step >> shift)


def _worth(issued: Issued, bits: np.ndarray) -> np.ndarray:
    """The number of the element in the lowest bits of a container; a 4- or 6-bit one may lie higher in its byte."""
    fmt, padded = issued.element, issued.idesc.row.packing == "padded"
    shift = next((row.shift for row in DECOMPRESSIONS.values() if padded and fmt.name in row.types), 0)
    codes, where = np.unique(bits >> shift & (1 << fmt.bits) - 1, return_inverse=True)
    return np.asarray(np.array([float(element_value(int(code), fmt)) for code in codes])[where.reshape(bits.shape)])


class TmemScale(TmemProbe):
    """One block of K is ones, the scale factors of one side are tags: D shows the byte that scaled every row; in pairs also whose it is."""

    columns = {**PROBE_COLUMNS, "owner_words": 2}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Every element of D must be scaled by one of the copies of its factor; which one is not part of the model.

        In pairs the last pass asks whose factor it is. Those of A lie in one CTA only. Those of B lie in both (CUTLASS tmem_sf_frg); that each CTA
        takes its own is inferred.
        """
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        i, passes = issued.idesc, int(a["passes"][index])
        side, vector = str(a["what"][index]).split()
        column = TmemAddress.decode(int(a[f"scale_{side.lower()}"][index])).column

        def title() -> str:
            return f"{issued}, factor {vector} of every row of {side}"

        def model() -> tuple[AccumulatorLayout, ScaleLayout]:
            issued.check()
            scale_id = i.a_sf_id if side == "A" else i.b_sf_id
            given: dict[str, Any] = {"cta_group": issued.cta_group, "scale_id": scale_id, "column": column, "k": i.k}
            return issued.layout(), ScaleLayout(side, m=i.m, n=i.n, kind=i.kind, scale_vec=str(issued.scale_vec), **given)

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        layout, scales = found
        owner_words = a["owner_words"][index]
        asks = passes - 1 if owner_words.any() else passes  # the pass that asks for the owner
        ones = i.k // (2 if i.sparsity else 1) // scales.scales
        copies = self._copies(issued, scales, int(vector), asks, column)
        copies = np.broadcast_to(copies if side == "A" else copies.transpose(0, 1, 3, 2), (len(copies), asks, i.m, i.n))
        words = of_any(copies, self.shown(index, layout, passes)[:asks], 1)
        scale = element_format(str(i.scale_type))
        owned = np.array([ones * float(element_value(int(word) & 0xFF, scale)) for word in owner_words])
        if asks < passes:
            words = np.concatenate([words, words_of(owned, i.kind)[cells_of_d(layout)[0]][None]])
        cells = self.before(index, passes, issued)
        put_in_cells(layout, words, cells)
        hardware = self.suite.ragged("words", index).reshape(cells.shape)

        def names(step: int, word: int, m: int, n: int) -> str:
            if step == asks:
                whose = owners_in_words(owned, i.kind).get(word, "nobody's")
                return f"{number_of(word, i.kind)} ({whose} factor of {side}{', which is inferred' if side == 'B' else ''})"
            tag = _tag(Fraction(float(np.uint32(word).view(np.float32))) / ones, str(i.scale_type))
            part = "no tag" if tag is None else f"part {step} of the byte's place is {tag}"
            return f"{number_of(word, i.kind)} ({part})"

        last = RULES["tcgen05.pair"] if asks < passes else None
        return Case(title, compare_cells(layout, hardware, cells, RULES["tcgen05.tensor_operands"], names, last))

    @staticmethod
    def _copies(issued: Issued, scales: ScaleLayout, vector: int, passes: int, column: int) -> np.ndarray:
        """Words of D (copy, pass, row, 1) if that copy of the factor scales the row."""
        i = issued.idesc
        row = np.arange(i.m if scales.operand == "A" else i.n)
        ones = i.k // (2 if i.sparsity else 1) // scales.scales
        out = np.empty((scales.copies, passes, len(row), 1), np.uint32)
        for copy in range(scales.copies):
            _, lane, at, byte = scales.location(row, vector, copy)
            place = (lane * TAGGED + at - column) * 4 + byte
            for step in range(passes):
                if i.scale_type == "ue8m0":
                    scale = 2.0 ** ((place >> 5 * step & 31) - UE8M0_LEAST)
                else:
                    scale = (place >> 4 * step & 15).astype(np.float64)
                out[copy, step, :, 0] = words_of(scale * ones, i.kind)
        return out


def _tag(scale: Fraction, scale_type: str) -> int | None:
    """The tag that a scale factor says."""
    if scale_type != "ue8m0":
        return int(scale) if scale.denominator == 1 and 0 <= scale < 16 else None
    return next((tag for tag in range(32) if Fraction(2) ** (tag - UE8M0_LEAST) == scale), None)


class TmemMetadata(TmemProbe):
    """A is ones, its metadata random, B an identity: D shows which elements of K every row keeps."""

    columns = {**PROBE_COLUMNS, "metadata": 4}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare all cells; where metadata lies once for every band of N, a row of a band may have any of the copies."""
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        i, to = issued.idesc, TmemAddress.decode(int(a["d"][index]))

        def model() -> tuple[AccumulatorLayout, np.ndarray]:
            issued.check()
            layout = issued.layout(lane=to.lane, column=to.column)
            copies = self._copies(index, issued)
            ended = int(a["status"][index]) or len(copies) == 1
            return layout, copies[0] if ended else of_any(copies, self.shown(index, layout, 1), layout.columns)

        def names(step: int, word: int, m: int, n: int) -> str:
            return f"{number_of(word, i.kind)} (times that row {m} keeps k = {n})"

        return self.compare(index, issued, model, RULES["tcgen05.tensor_operands"], names)

    def _copies(self, index: int, issued: Issued) -> np.ndarray:
        """Words of D (copy, 1, M, N) if that copy of the metadata counts."""
        i, words = issued.idesc, self.suite.arrays["metadata"][index]
        at, row = TmemAddress.decode(int(self.suite.arrays["meta"][index])), METADATA[i.kind]
        layout = MetadataLayout(i.m, i.kind, issued.cta_group, ws=issued.ws, selector=i.sparsity_selector, column=at.column)
        stored, found = np.arange(i.k // 2), []
        for copy in range(layout.copies):
            cta, lane, column, bit = layout.location(np.arange(i.m)[:, None], np.arange(0, i.k, row.chunk), copy)
            nibbles = words[cta, lane, column - at.column].astype(np.int64) >> bit & 0xF
            if not np.isin(nibbles, row.indices).all():
                raise Unmodelled(f"metadata that kind {i.kind} does not have")
            kept = stored_k(stored, nibbles[:, stored * 2 // row.chunk], row.chunk)
            numbers = np.zeros((1, i.m, max(i.k, i.n)))
            np.add.at(numbers[0], (np.arange(i.m)[:, None], kept), 1)
            found.append(words_of(numbers[:, :, : i.n], i.kind))
        return np.stack(found)
