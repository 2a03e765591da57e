"""What wgmma makes of numbers: whole tiles of dot products, every bit of D."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smemsim.addressing.fragments import sparse_k
from smemsim.arithmetic.multiply import Options, multiply
from smemsim.diagnose.difference import diagnose
from smemsim.diagnose.product import Product, Side
from smemsim.spec.evidence import RULES
from smemsim.spec.wgmma import WGMMA_M
from smemsim.traces.format import Suite
from smemsim.traces.outcome import Case, differ

__all__ = ["WgmmaDots"]


class WgmmaDots:
    """D of one wgmma, or of two that follow each other into the same registers."""

    columns = {  # noqa: RUF012
        "style": 1, "dtype_a": 1, "dtype_b": 1, "dtype_d": 1, "n": 1, "k": 1, "a_source": 1, "sparse": 1, "scale_a": 1, "scale_b": 1,
        "satfinite": 1, "chained": 1, "scale_d": 1, "nibble": 1, "a_start": 1, "b_start": 1, "c_pool": 2, "c_start": 1, "d_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare every element of D."""
        a = self.suite.arrays
        given = self._given(index)
        d = given.c
        for rows, columns in zip(given.a, given.b, strict=True):
            d, _ = multiply(rows, columns, d, kind="wgmma", index=given.where, **given.options._asdict(), **given.types)
        hardware = self.suite.ragged("d", index).reshape(d.shape)

        def title() -> str:
            mnemonic = ".".join(given.types[x] for x in ("d_type", "a_type", "b_type"))
            forms = [f"A in {a['a_source'][index]}"]
            forms += [
                text for name, text in (("chained", "two in a row"), ("sparse", ".sp"), ("satfinite", ".satfinite")) if a[name][index]
            ]
            forms += [f"imm-scale-{x} -1" for x in "ab" if a[f"scale_{x}"][index] < 0]
            forms += [] if a["scale_d"][index] else ["scale-d 0"]
            return f"wgmma n{d.shape[1]} {mnemonic}, {', '.join(forms)}, numbers: {str(a['style'][index]).partition(':')[0]}"

        def describe(at: tuple[int, ...]) -> str:
            return f"D[{at[0]}, {at[1]}]: hardware {int(hardware[at]):#x} | model {int(d[at]):#x}"

        outcome = differ(hardware, d, RULES["arithmetic.wgmma"], "elements of D", describe, 4)
        return Case(title, outcome, lambda: diagnose(given.product(), hardware))

    def _given(self, index: int) -> _Given:
        a = self.suite.arrays
        n, k, sparse = int(a["n"][index]), int(a["k"][index]), bool(a["sparse"][index])
        types = {f"{x}_type": str(a[f"dtype_{x}"][index]) for x in "abd"}
        stored = k // 2 if sparse else k
        c = a["c_pool"][index][self.suite.ragged("c", index)].reshape(WGMMA_M, n) * np.uint32(a["scale_d"][index])
        where = None
        if sparse:
            s = np.arange(stored)
            # A tf32 is two of the elements that metadata is about.
            halves = types["a_type"] == "tf32"
            k_of = np.asarray(sparse_k(2 * s if halves else s, int(a["nibble"][index])))  # type: ignore[arg-type]
            where = np.broadcast_to(k_of // 2 if halves else k_of, (WGMMA_M, stored))
        options = Options(bool(a["scale_a"][index] < 0), bool(a["scale_b"][index] < 0), 0, bool(a["satfinite"][index]))
        tiles = self.suite.ragged("a", index).reshape(-1, WGMMA_M, stored), self.suite.ragged("b", index).reshape(-1, n, k)
        return _Given(types, *tiles, c.astype(np.uint32), options, where)


class _Given(NamedTuple):
    """One case: types as arguments, A (tiles, 64, stored K), B (tiles, N, K), C (64, N), the K `where` each element of a sparse A is."""

    types: dict[str, Any]
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    options: Options
    where: np.ndarray | None

    def product(self) -> Product:
        """The same with the zeros of a sparse A."""
        a = self.a
        if self.where is not None:
            a = np.zeros((len(a), WGMMA_M, self.b.shape[2]), a.dtype)
            np.put_along_axis(a, np.broadcast_to(self.where, self.a.shape), self.a, axis=2)
        types = (self.types["a_type"], self.types["b_type"], self.types["d_type"])
        return Product("wgmma", types, Side(a), Side(self.b), self.c, self.options)
