"""Calls: products of cuBLAS and cuBLASLt, which programs compare their kernels with. They are computed by numpy, and
the log says that they are references.

A product is alpha op(A) op(B) + beta C, in the precision that cuBLAS documents for its compute type (cuBLAS 13,
cublasGemmEx). Floats of 8, 16 and 32 bits are multiplied and added in fp32, fp64 in fp64, and integers in 32 bits. The
order of a sum is BLAS's, so the last bits differ from a card's.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.arithmetic.values import from_float64, to_float64
from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, NOT_SUPPORTED, CudaError
from smemsim.virtual.graphs import Node

__all__ = ["ProductCalls"]


TYPES = {0: "f32", 1: "f64", 2: "f16", 3: "s8", 10: "s32", 14: "bf16", 28: "e4m3", 29: "e5m2"}  # cudaDataType_t
STORED = {
    "f32": "f4",
    "f64": "f8",
    "f16": "u2",
    "bf16": "u2",
    "s8": "i1",
    "s32": "i4",
    "e4m3": "u1",
    "e5m2": "u1",
}  # as numpy has their bits
COMPUTE = {
    **dict.fromkeys(
        (0, 64, 65, 68, 69, 74, 75, 77, 78), "f32"
    ),  # cublasComputeType_t: 16F is at least as precise, and older programs give a cudaDataType_t
    **dict.fromkeys((1, 70, 71), "f64"),
    **dict.fromkeys((10, 72, 73), "s32"),
    2: "f32",
}
ROW = 1  # cublasLtOrder_t
MATRICES = "abcd"
_WORDS = (
    "op_a",
    "op_b",
    "m",
    "n",
    "k",
    "batch",
    "scalars_on_card",
    "compute",
    "scale",
    "epilogue",
    "bias",
    "bias_type",
    "scale_a",
    "scale_b",
)
_CALL = struct.Struct(f"<{len(_WORDS) + 5 * len(MATRICES)}q16s16s")  # the numbers, alpha, beta


@dataclasses.dataclass(frozen=True)
class _Matrix:
    """The place of a matrix: rows and columns as they are stored, the leading dimension, and the distance of the
    matrices of a batch, in elements.
    """

    address: int
    dtype: str
    rows: int
    columns: int
    ld: int
    stride: int
    is_by_rows: bool

    @property
    def span(self) -> int:
        """Elements from the first to the last one."""
        lines, length = (self.rows, self.columns) if self.is_by_rows else (self.columns, self.rows)
        return (lines - 1) * self.ld + length

    def of(self, bits: np.ndarray) -> np.ndarray:
        """The matrix in the elements of its span, without a copy."""
        size = bits.itemsize
        strides = (self.ld * size, size) if self.is_by_rows else (size, self.ld * size)
        return np.lib.stride_tricks.as_strided(bits, (self.rows, self.columns), strides)


class ProductCalls(Handles):
    """Products."""

    def product(self, name: str, stream: int, raw: bytes) -> None:
        """Compute a product of cuBLAS: the structure `product_call` of `clib/cublas.c`."""
        *given, alpha, beta = _CALL.unpack(raw)
        about = dict(zip(_WORDS, given[: len(_WORDS)], strict=True))
        places = {side: given[len(_WORDS) + 5 * n : len(_WORDS) + 5 * (n + 1)] for n, side in enumerate(MATRICES)}
        if min(about["m"], about["n"], about["k"], about["batch"]) < 0:
            raise CudaError(INVALID_VALUE, f"{name}: m, n, k and the batch count are 0 or more")
        if not (about["m"] and about["n"] and about["batch"]):
            return
        compute = self._known(name, COMPUTE, about["compute"], "compute type")
        matrices = {side: self._matrix(name, side, place, about) for side, place in places.items()}

        def run() -> None:
            self.host.materialize()
            try:
                with np.errstate(all="ignore"):  # infinities and NaN are results, as on a card
                    self._compute(about, matrices, (alpha, beta), compute)
            except InputError as e:
                raise InputError(f"{name}: {e}") from None
            self._say(name, about, matrices)

        self.device.submit(self._stream(stream), Node("host", run))

    def _known(self, name: str, table: dict[int, str], value: int, what: str) -> str:
        if value not in table:
            self.device.tell(f"{name}: {what} {value} is not supported; it answers CUBLAS_STATUS_NOT_SUPPORTED")
            raise CudaError(NOT_SUPPORTED, f"{name}: {what} {value}")
        return table[value]

    def _matrix(self, name: str, side: str, place: Sequence[int], about: dict[str, int]) -> _Matrix:
        address, kind, ld, stride, order = place
        m, n, k = about["m"], about["n"], about["k"]
        rows, columns = {"a": (m, k), "b": (k, n)}.get(side, (m, n))
        if about.get(f"op_{side}"):
            rows, columns = columns, rows
        if order > ROW:
            self._known(name, {}, order, "order of a matrix")
        if ld < (columns if order == ROW else rows):
            raise CudaError(
                INVALID_VALUE, f"{name}: the leading dimension of {side.upper()} is {ld}, less than {columns if order == ROW else rows}"
            )
        return _Matrix(address, self._known(name, TYPES, kind, "data type"), rows, columns, ld, stride, order == ROW)

    def _say(self, name: str, about: dict[str, int], matrices: dict[str, _Matrix]) -> None:
        """A line for a product, once for its name, shape and types."""
        batch = f" x {about['batch']}" if about["batch"] > 1 else ""
        types = ", ".join(f"{side.upper()} {matrices[side].dtype}" for side in "abd")
        said = f"{name}: {about['m']} x {about['n']} x {about['k']}{batch} ({types}): a reference by numpy, not simulated"
        if said not in self.device.code.references:
            self.device.code.references.add(said)
            if not self.device.policy.quiet:
                self.device.tell(said)

    def _bits(self, at: _Matrix, n: int, *, is_read: bool = True) -> np.ndarray:
        kind = np.dtype(STORED[at.dtype])
        view = self.device.view if is_read else self.device.memory.view
        try:
            return view(at.address + n * at.stride * kind.itemsize, at.span * kind.itemsize).view(kind)
        except InputError as e:
            raise InputError(f"a matrix of {at.rows} x {at.columns} {at.dtype} with a leading dimension of {at.ld}: {e}") from None

    def _scalar(self, raw: bytes, about: dict[str, int]) -> float:
        kind = TYPES.get(about["scale"], "f32")
        size = np.dtype(STORED[kind]).itemsize
        if about["scalars_on_card"]:
            raw = bytes(self.device.view(struct.unpack("<Q", raw[:8])[0], size))
        return float(_values(np.frombuffer(raw, STORED[kind], 1), kind)[0])

    def _compute(self, about: dict[str, int], matrices: dict[str, _Matrix], scalars: tuple[bytes, bytes], compute: str) -> None:
        alpha, beta = (self._scalar(raw, about) for raw in scalars)
        for side in "ab":
            if address := about[f"scale_{side}"]:
                alpha *= float(self.device.view(address, 4).view("f4")[0])
        # of integers, fp64 has every sum below 2^53
        wide: Any = np.float64 if compute in ("f64", "s32") else np.float32
        for n in range(about["batch"]):
            a, b = (np.asarray(_operand(matrices[side], self._bits(matrices[side], n), about[f"op_{side}"]), wide) for side in "ab")
            out = np.matmul(a, b) if about["k"] else np.zeros((about["m"], about["n"]), wide)
            out *= wide(alpha)
            if beta:
                c = matrices["c"]
                out += wide(beta) * np.asarray(_values(c.of(self._bits(c, n)), c.dtype), wide)
            if about["bias"]:
                kind = TYPES[about["bias_type"]]
                size = np.dtype(STORED[kind]).itemsize
                added = _values(self.device.view(about["bias"], about["m"] * size).view(STORED[kind]), kind)
                out += np.asarray(added, wide)[:, None]
            d = matrices["d"]
            d.of(self._bits(d, n, is_read=False))[...] = _stored(out, d.dtype)


def _operand(at: _Matrix, bits: np.ndarray, op: int) -> np.ndarray:
    values = _values(at.of(bits), at.dtype)
    return values.T if op else values


def _values(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers of raw bits."""
    return to_float64(np.ascontiguousarray(bits), dtype) if bits.dtype.kind == "u" else bits


def _stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as they are stored, rounded to the nearest."""
    if dtype in ("s8", "s32"):
        values = np.rint(values)
    stored: np.ndarray = values.astype(STORED[dtype]) if STORED[dtype][0] != "u" else from_float64(values, dtype)
    return stored
