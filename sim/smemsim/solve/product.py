"""`explain_product`: from a wrong D and the right A and B alone, which descriptor fault is it?"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.arguments import choice, whole
from smemsim.arithmetic.multiply import row_of
from smemsim.arithmetic.values import from_float64, to_float64
from smemsim.descriptors.layout import check_major, check_packing
from smemsim.diagnose.compared import Compared
from smemsim.diagnose.difference import LooksLike, diagnose
from smemsim.diagnose.product import Product, Side
from smemsim.errors import InputError, Unmodelled
from smemsim.solve.atoms import Shape
from smemsim.solve.given import element_bits
from smemsim.solve.matched import ProductFault, candidates_of, in_part, solved_for, those
from smemsim.solve.pattern import pattern
from smemsim.solve.recover import recovered
from smemsim.solve.tile import Tile
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.swizzles import MODES
from smemsim.spec.tcgen05 import KINDS
from smemsim.spec.wgmma import WGMMA_M

__all__ = ["ProductExplanation", "ProductFault", "explain_product"]

MOST_SIZE = 1024  # rows, columns or K of D


@dataclasses.dataclass(frozen=True)
class ProductExplanation:
    """What a wrong D looks like: `pattern` says where it is wrong, by more than rounding if there is such; `faults` are those of descriptors and writers that give it, alike in what they do.

    `looks_like` and `because` are as in `Diagnosis`, of all that was tried. `measured`: do the rules rest on an H200?
    """

    looks_like: LooksLike
    because: tuple[str, ...]
    pattern: str
    wrong: int
    of: int
    faults: tuple[ProductFault, ...]
    measured: bool

    def __str__(self) -> str:
        return "; ".join(filter(None, (f"looks like {self.looks_like}", self.pattern, *self.because)))

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "looks_like": self.looks_like,
            "because": list(self.because),
            "pattern": self.pattern,
            "wrong": self.wrong,
            "of": self.of,
            "faults": [dataclasses.asdict(one) | {"certain": one.certain} for one in self.faults],
            "measured": self.measured,
        }


def explain_product(
    d: Any,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    arch: str,
    a_type: str,
    b_type: str | None = None,
    d_type: str = "f32",
    kind: str | None = None,
    a_swizzle: str = "128B",
    b_swizzle: str = "128B",
    a_major: str = "K",
    b_major: str = "K",
    m: int | None = None,
    n: int | None = None,
) -> ProductExplanation:
    """What is wrong with D (M, N) = A (M, K) B^T (N, K) + C of a whole tile: which fault of a descriptor or of a writer gives just this D.

    The matrices are raw bits in unsigned integers, or numbers of numpy. The tile is cut into instructions of `m` x `n` and their K, which follow
    one another; each operand is meant to lie in the plain layout of its swizzle: panels of its width, the lines one after the other. Known
    faults of A, of B and of both are applied to it; what D would be then is compared with D, in float64 first, bit for bit (or but for
    rounding) at last. If none gives D, what A or B must have been is solved for, and a descriptor for that is looked for. What else D may look like, `explain_difference` says: other options, rounding, missing K steps, D's rows elsewhere.
    Faults that these data do not tell apart are all told. `kind` of sm_100a as in `dot_product`, "wgmma" on sm_90a.

    Raises InputError for shapes that no instructions have, Unmodelled for kinds with scale factors. Addresses and sums are measured on an H200
    for sm_90a and documented or inferred for sm_100a.

    >>> import smemsim
    >>> rng = np.random.default_rng(1)
    >>> a, b = (smemsim.to_float64(rng.integers(0x3F80, 0x4000, (64, 64)), "bf16") for _ in "ab")
    >>> read = a.reshape(64, 8, 8)[np.arange(64)[:, None], np.arange(8) ^ np.arange(64)[:, None] % 8].reshape(64, 64)
    >>> found = explain_product((read @ b.T).astype(np.float32), a, b, arch="sm_90a", a_type="bf16")
    >>> found.pattern
    '87.5 % of D is wrong (3584 of 4096): rows 0 mod 8 are right, all others wrong'
    >>> print(found.faults[0])
    A were written with swizzle none and read with 128B
    """
    machine = architecture(arch)
    b_type = a_type if b_type is None else b_type
    types = tuple(element_format(x) for x in (a_type, b_type, d_type))
    kinds = ("wgmma",) if machine.instruction == "wgmma" else tuple(KINDS)
    kind = choice(
        "kind",
        kinds[0] if kind is None and len(kinds) == 1 else kind,
        kinds,
        f"{'the kind of instruction: ' * (len(kinds) > 1)}{' '.join(kinds)}",
    )
    if kind in KINDS and KINDS[kind].block_scaled:
        raise Unmodelled(f"kind {kind}: products with scale factors are not explained from D alone; explain_difference takes what was read")
    row = row_of(kind, *(x.name for x in types))
    for name, x, fmt in zip("abd", (a, b, d), types, strict=True):
        given = getattr(x, "dtype", None)
        if given is not None and given.kind == "u" and given.itemsize * 8 < fmt.bits:
            raise InputError(
                f"{name}: an array of {given}; raw bits of {fmt.name} have {fmt.bits}. Of a converted matrix give the numbers, as float32"
            )
    a_bits, b_bits, d_bits = (element_bits(name, x, fmt) for name, x, fmt in zip("abd", (a, b, d), types, strict=True))
    rows, columns, k = _sizes(a_bits, b_bits, d_bits, row.k)
    start = np.zeros((rows, columns), np.uint32) if c is None else element_bits("c", c, types[2])
    if start.shape != (rows, columns):
        raise InputError(f"c has shape {start.shape}: D is {(rows, columns)}")
    packing = KINDS[kind].packing if kind in KINDS else "packed"
    m, n = (
        _part(name, x, extent, most)
        for name, x, extent, most in (("m", m, rows, WGMMA_M if kind == "wgmma" else 128), ("n", n, columns, 256))
    )
    tiles = []
    for name, fmt, swizzle, major, own, count in (
        ("a", types[0], a_swizzle, a_major, m, rows),
        ("b", types[1], b_swizzle, b_major, n, columns),
    ):
        check_major(major)
        check_packing(packing)
        modes = {str(x): MODES[x] for x in layout_codes(machine.smem_descriptor).values()}
        choice(f"{name}_swizzle", swizzle, tuple(modes), f"one of {' '.join(modes)}")
        shape = Shape(machine, fmt, major, packing, count // own, k // row.k, own, row.k)
        tiles.append(Tile(shape, modes[swizzle]))
        _ = tiles[-1].right
    names = (types[0].name, types[1].name, types[2].name)
    product = Product(kind, names, Side(_steps(a_bits, row.k)), Side(_steps(b_bits, row.k)), start)
    return _explained(product, tiles, d_bits.astype(np.uint32), measured=machine.measured)


CONVERTED = ("e5m2", "e4m3", "bf16", "f16")  # what epilogues make of f32, the coarsest first


def _conversion(hardware: np.ndarray, d_type: str) -> tuple[str, np.ndarray | None]:
    """The coarsest type that has all the numbers of an f32 D, and how far (M, N) a conversion to it may have moved them."""
    if d_type != "f32":
        return "", None
    values = to_float64(hardware, d_type)
    finite = np.where(np.isfinite(values), values, 0)
    for name in CONVERTED:
        fmt = element_format(name)
        if (to_float64(from_float64(finite, name), name) == finite).all():
            half = 2.0 ** -(fmt.fraction_bits + 1)
            smallest = 2.0 ** (fmt.smallest_exponent - fmt.fraction_bits - 1)
            return name, np.asarray(np.maximum(np.abs(finite) * half / (1 - half), smallest))
    return "", None


def _sizes(a: np.ndarray, b: np.ndarray, d: np.ndarray, k: int) -> tuple[int, int, int]:
    """M, N and K."""
    for name, x in (("a", a), ("b", b), ("d", d)):
        if x.ndim != 2 or not x.size or max(x.shape) > MOST_SIZE:
            raise InputError(
                f"{name} has shape {x.shape}: needs a matrix of at most {MOST_SIZE} x {MOST_SIZE}; A is (M, K), B (N, K), D (M, N)"
            )
    if d.shape != (len(a), len(b)) or a.shape[1] != b.shape[1]:
        raise InputError(f"a {a.shape}, b {b.shape} and d {d.shape} do not fit: A is (M, K), B (N, K), D (M, N)")
    if a.shape[1] % k:
        raise InputError(f"a has K = {a.shape[1]}: an instruction has {k} elements of K, and a tile a multiple of that")
    return len(a), len(b), a.shape[1]


def _part(name: str, value: int | None, extent: int, most: int) -> int:
    """Rows of one instruction's operand."""
    size = min(extent, most) if value is None else whole(name, value, minimum=1)
    if extent % size:
        raise InputError(f"{name} = {size}: does not divide the {extent} {'rows' if name == 'm' else 'columns'} of D")
    return size


def _steps(bits: np.ndarray, k: int) -> np.ndarray:
    return np.ascontiguousarray(bits.reshape(len(bits), -1, k).transpose(1, 0, 2))


def _explained(product: Product, tiles: list[Tile], hardware: np.ndarray, *, measured: bool) -> ProductExplanation:
    converted, extra = _conversion(hardware, product.types[2])
    c = Compared.of(product, hardware, extra)
    shape = c.wrong.shape
    if not c.wrong.any():
        return ProductExplanation("the same", (), pattern(c.wrong), 0, c.wrong.size, (), measured)
    certain: dict[bool, list[ProductFault]] = {}
    solved = functools.cache(lambda i: recovered(c, tiles[i], "AB"[i]))
    candidates = list(candidates_of(tiles))

    def faults(own: Compared) -> list[str]:
        certain[own.exact] = found = those(own, candidates) or solved_for(own, tiles, solved)
        return [str(one) for one in found]

    said = diagnose(product, hardware, (("a wrong layout", faults),), extra)
    found = next((certain[exact] for exact in (True, False) if certain.get(exact)), [])
    because, looks_like = said.because, said.looks_like
    if looks_like == "unknown" and not found:
        found = in_part(c, candidates)
        because = (*(f"it may be that {one}" for one in found), *because)
    if converted:
        because = (*because, f"D has numbers of {converted} only: an epilogue may have converted it, and what that rounds is allowed for")
    where = c.beyond if c.beyond.any() else c.wrong
    return ProductExplanation(looks_like, because, pattern(where), int(where.sum()), shape[0] * shape[1], tuple(found), measured)
