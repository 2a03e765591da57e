"""What is judged of a run: operands as their boxes lie, all CTAs, coordinates, the whole of K; and what may be a
consequence of what.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection

import numpy as np
import pytest

from gpu_faults import CLUSTER, FAULTS, RING, Fault, launched
from smemsim import Gpu, InputError, Run, TensorMap, check
from smemsim.core.finding import OR
from smemsim.core.spec.findings import CODES, CONSEQUENCES, UPSTREAM, Severity
from smemsim.diagnosis.operands import recorded

ROWS, BOX = 64, 64  # of a tile with the 128B swizzle: 64 elements of 16 bits
TILE = ROWS * BOX * 2
ATOM = 1024  # bytes of 8 rows, from which SBO goes to the next 8


def word(sbo: int = ATOM, lbo: int = 16) -> int:
    """A descriptor's constant part: 128B swizzle."""
    return 1 << 62 | sbo >> 4 << 32 | lbo >> 4 << 16


@dataclasses.dataclass(frozen=True)
class Load:
    """A tensor load of a map: coordinates are numbers or registers (%x is the CTA's number), `offset` where in the tile
    memory it goes.
    """

    map: int
    offset: int
    at: tuple[object, ...]
    bytes: int = TILE


@dataclasses.dataclass(frozen=True)
class Product:
    """A wgmma of m64n64k16: where A and B begin in the tile memory, and their words; `odd`: B's word in the CTA with
    that number; D's first register.
    """

    a: int
    b: int
    word_a: int = word()
    word_b: int = word()
    transposed: bool = False  # B MN-major
    transposed_a: bool = False
    sums: bool = True
    odd: tuple[int, int] | None = None
    d: int = 0
    first: str = ""  # instructions in front of it


ZEROED = "\n".join(
    (
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        *(f"mov.f32 %f{n}, 0f00000000;" for n in range(32)),
        "wgmma.fence.sync.aligned;",
    )
)


def steps(a: int, b: int, **more: object) -> list[Product]:
    """The four products of two K-major tiles, 16 k each."""
    return [Product(a + 32 * k, b + 32 * k, **more) for k in range(4)]  # type: ignore[arg-type]


def kernel(
    maps: int, loads: list[Load], products: list[Product], *, expect: int | None = None, before: str = "", name: str = "tiles"
) -> str:
    """One thread loads everything, a warpgroup waits for it and multiplies."""
    size = max(load.offset + load.bytes for load in loads)
    total = sum(load.bytes for load in loads) if expect is None else expect
    lines = []
    for load in loads:
        at, rank = ", ".join(map(str, load.at)), len(load.at)
        lines.append(f"add.u32 %to, %tiles, {load.offset}; mov.b64 %map, map{load.map};")
        for n, c in enumerate(load.at):
            lines.append(f"mov.b32 %c{n}, {c};")
        at = ", ".join(f"%c{n}" for n in range(rank))
        lines.append(f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%to], [%map, {{{at}}}], [%bar];")
    multiply = []
    for p in products:
        multiply.append(p.first)
        for side, offset, base in (("a", p.a, p.word_a), ("b", p.b, p.word_b)):
            multiply.append(f"add.u32 %at, %tiles, {offset}; and.b32 %at, %at, 0x3ffff; shr.u32 %at, %at, 4; cvt.u64.u32 %start, %at;")
            multiply.append(f"mov.b64 %word, {base:#x};")
            if side == "b" and p.odd is not None:
                multiply.append(f"setp.eq.u32 %q, %x, {p.odd[0]}; selp.b64 %word, {p.odd[1]:#x}, %word, %q;")
            multiply.append(f"or.b64 %{side}, %word, %start;")
        multiply.append(f"setp.ne.u32 %sums, {int(p.sums)}, 0;")
        d = ", ".join(f"%f{n}" for n in range(p.d, p.d + 32))
        multiply.append(
            f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{d}}}, %a, %b, %sums, 1, 1, {int(p.transposed_a)}, {int(p.transposed)};"
        )
    newline = "\n  "
    return f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry {name}({", ".join(f".param .align 64 .b8 map{n}[128]" for n in range(maps))}, .param .u64 out) {{
  .reg .pred %p, %q, %sums; .reg .b32 %x, %y, %z, %tid, %tiles, %bar, %to, %at, %c<5>, %r<8>; .reg .b64 %map, %start, %word, %a, %b, %out, %rd<8>;
  .reg .f32 %f<96>; .shared .align 1024 .b8 tiles[{size}]; .shared .align 8 .b64 bar; .shared .align 8 .b64 other; .shared .align 16 .b8 spare[64];
  mov.u32 %x, %ctaid.x; mul.lo.u32 %y, %x, 64; mov.u32 %z, %ctaid.y; mul.lo.u32 %z, %z, 64; mov.u32 %tid, %tid.x; mov.u32 %tiles, tiles; mov.u32 %bar, bar; ld.param.u64 %out, [out];
  {before}
  setp.ne.u32 %p, %tid, 0; @%p bra WAIT;
  mbarrier.init.shared.b64 [%bar], 1; fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {total};
  {newline.join(lines)}
WAIT: bar.sync 0;
L: mbarrier.try_wait.parity.shared.b64 %q, [%bar], 0; @!%q bra L;
  {newline.join(f"mov.f32 %f{n}, 0f00000000;" for n in range(96))}
  wgmma.fence.sync.aligned;
  {newline.join(multiply)}
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  mad.lo.u32 %r0, %x, 128, %tid; mul.wide.u32 %rd0, %r0, 4; add.s64 %rd0, %rd0, %out; st.global.f32 [%rd0], %f0;
  ret;
}}"""


def tensor(
    gpu: Gpu,
    shape: tuple[int, ...],
    box: tuple[int, ...],
    *,
    fill: object = None,
    name: str = "",
    low: int | None = None,
    scale: float = 1,
    swizzle: str = "128B",
) -> TensorMap:
    """A map of an f16 tensor, its dimensions slowest first. From the k `low` on its numbers are small. Every
    other k is multiplied by `scale`; if that is 0, all are.
    """
    numbers = np.random.default_rng(len(shape)).integers(1, 5, shape).astype(np.float16)
    if fill is not None:
        numbers[fill] = 0  # type: ignore[index]
    if low is not None:
        numbers[..., low:] /= 1024
    numbers[..., :: 2 if scale else 1] *= np.float16(scale)
    array = gpu.array(numbers, name=name)
    dims = shape[::-1]
    strides = [2 * int(np.prod(dims[:n])) for n in range(1, len(dims))]
    return TensorMap.tiled(
        data_type="f16", global_address=array.address, global_dim=dims, global_strides=strides, box_dim=box, swizzle=swizzle
    )


def changed(tm: TensorMap, **more: object) -> TensorMap:
    """A map of f16 with the 128B swizzle, some of its arguments changed."""
    shape = {name: getattr(tm, name) for name in ("global_address", "global_dim", "global_strides", "box_dim")}
    return TensorMap.tiled(data_type="f16", swizzle="128B", **shape, **more)  # type: ignore[arg-type]


def run(ptx: str, gpu: Gpu, *maps: TensorMap, grid: int | tuple[int, int] = 1, **more: object) -> Run:
    out = gpu.array(np.zeros(128 * int(np.prod(grid)), np.float32), name="out")
    return gpu.launch(ptx, grid=grid, block=128, args=[*maps, out], progress=False, **more)


def first_line(found: Run) -> str:
    return found.ptx.splitlines()[found.findings[0].line - 1]


# ---- operands as their boxes lie


@pytest.mark.parametrize(("by", "codes"), [(32, []), (64, ["R502"]), (16, ["R502"])])
def test_few_rows_of_b_with_wrong_k_steps_are_not_taken_for_a_transposed_tile(by: int, codes: list[str]):
    """Read as k, the 8 rows of the tensor would be 8 of 64 k: the other elements would lie outside."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (ROWS, BOX), (BOX, ROWS)), tensor(gpu, (8, BOX), (BOX, 8))
    products = [Product(32 * k, TILE + by * k) for k in range(4)]
    ptx = kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0), 8 * BOX * 2)], products)
    found = run(of_width(ptx, 8), gpu, a, b)
    assert [f.code for f in found.findings] == codes, found.text()


def of_width(ptx: str, n: int) -> str:
    """The same instructions with another N."""
    d = ", ".join(f"%f{x}" for x in range(n // 2))
    return re.sub(r"\{%f0, [^}]*\}", f"{{{d}}}", ptx.replace("m64n64k16", f"m64n{n}k16"))


@pytest.mark.parametrize(("n", "is_b_first"), [(128, False), (128, True), (32, False), (32, True)])
@pytest.mark.parametrize("are_interchanged", [False, True])
def test_a_and_b_that_all_instructions_interchange_are_named(n: int, is_b_first: bool, are_interchanged: bool):
    """The longer operand runs over the end of the other one's tile: into that of B, into nothing, or out of the window."""
    gpu, size = Gpu("sm_90a"), n * BOX * 2
    a, b = tensor(gpu, (ROWS, BOX), (BOX, ROWS)), tensor(gpu, (n, BOX), (BOX, n))
    at_a, at_b = (size, 0) if is_b_first else (0, TILE)
    products = steps(*((at_b, at_a) if are_interchanged else (at_a, at_b)))
    found = run(of_width(kernel(2, [Load(0, at_a, (0, 0)), Load(1, at_b, (0, 0), size)], products), n), gpu, a, b)
    told = [(f.code, f.repair) for f in found.findings if f.code != "A107"]
    assert told == [("R508", "swap the descriptors of A and B")] * are_interchanged, found.text()


@pytest.mark.parametrize(
    ("dimension", "is_turned", "codes", "repairs"),
    [
        (None, False, ["R505"], ["if the tile is K-major: major K (imm-trans-a = 0)", "if the tile is MN-major: the byte offsets"]),
        (0, False, ["R505"], ["major K (imm-trans-a = 0)"]),
        (1, False, ["R502"], ["the byte offsets [0, 32, 64, 96] of the K steps must be [0, 2048, 4096, 6144]"]),
        (1, True, [], []),
    ],
    ids=["one tile", "tiles follow along a row", "tiles follow along a column", "right"],
)
def test_a_square_tile_may_be_transposed_or_have_wrong_k_steps(
    dimension: int | None, is_turned: bool, codes: list[str], repairs: list[str]
):
    """A is read MN-major by steps of 32 bytes. The tiles of a sum follow one another along K."""
    gpu, count = Gpu("sm_90a"), 1 if dimension is None else 2
    a = tensor(gpu, (ROWS * (2 if dimension == 1 else 1), BOX * (2 if dimension == 0 else 1)), (BOX, ROWS))
    b = tensor(gpu, (ROWS, BOX * count), (BOX, ROWS))
    loads, products = [], []
    for n in range(count):
        at = (n * BOX if dimension == 0 else 0, n * ROWS if dimension == 1 else 0)
        loads += [Load(0, 2 * n * TILE, at), Load(1, (2 * n + 1) * TILE, (n * BOX, 0))]
        step = 2 * ATOM if is_turned else 32
        products += [
            Product((2 * n * TILE) + step * k, (2 * n + 1) * TILE + 32 * k, word_a=word(ATOM, ATOM), transposed_a=True) for k in range(4)
        ]
    found = run(kernel(2, loads, products), gpu, a, b)
    assert [f.code for f in found.findings] == codes, found.text()
    for text, told in zip(repairs, [part for f in found.findings for part in f.repair.split(OR)], strict=True):
        assert text in told


@pytest.mark.parametrize(
    ("step", "reads_mn", "repairs"),
    [
        (2 * ATOM, False, ["if the tile is MN-major: major MN (imm-trans-a = 1)", "if the tile is K-major: the byte offsets [0, 2048, 4096, 6144] of"]),
        (32, True, ["if the tile is K-major: major K (imm-trans-a = 0)", "if the tile is MN-major: the byte offsets [0, 32, 64, 96] of"]),
        (32, False, []), (2 * ATOM, True, []),
    ],
    ids=["read K-major", "read MN-major", "right, K-major", "right, MN-major"],
)  # fmt: skip
def test_a_square_tile_read_by_the_k_steps_of_the_other_orientation(step: int, reads_mn: bool, repairs: list[str]):
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (ROWS, BOX), (BOX, ROWS)), tensor(gpu, (ROWS, BOX), (BOX, ROWS))
    products = [Product(step * k, TILE + 32 * k, word_a=word(ATOM, ATOM), transposed_a=reads_mn) for k in range(4)]
    found = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], products), gpu, a, b)
    assert [f.code for f in found.findings] == ["R505"] * bool(repairs)
    for text, told in zip(repairs, [part for f in found.findings for part in f.repair.split(OR)], strict=True):
        assert told.startswith(text)


@pytest.mark.parametrize(
    ("row", "at", "codes"),
    [(32, TILE // 2, []), (0, TILE // 2, ["R508"]), (32, TILE // 2 + ATOM, ["R507", "R508"]), (32, TILE, ["R507", "R508"])],
    ids=["right", "its coordinate", "1024 bytes too far", "a tile too far"],
)
def test_one_wrong_load_of_a_tile_is_not_called_another_major_ness_or_several_things(row: int, at: int, codes: list[str]):
    """A comes by two boxes of 32 rows, and the coordinate or the destination of the second one is wrong."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (ROWS, BOX), (BOX, ROWS // 2)), tensor(gpu, (ROWS, BOX), (BOX, ROWS))
    loads = [Load(0, 0, (0, 0), TILE // 2), Load(0, at, (0, row), TILE // 2), Load(1, 2 * TILE, (0, 0))]
    found = run(kernel(2, loads, steps(0, 2 * TILE)), gpu, a, b)
    assert [f.code for f in found.findings] == codes, found.text()
    if codes:
        is_twice = row == 0
        begin = (
            "other coordinates in one of the two loads" if is_twice else "check the coordinates and destinations of the loads first, then"
        )
        assert found.findings[-1].repair.startswith(begin)


@pytest.mark.parametrize("is_k_major", [True, False], ids=["K-major tile", "MN-major tile"])
@pytest.mark.parametrize("is_right", [False, True], ids=["the other major bit", "its major bit"])
def test_the_first_element_of_a_transposed_read_is_named_by_the_axes_of_the_tile(is_k_major: bool, is_right: bool):
    """The tile begins at 0x400. An MN-major read takes k 1 from line 1, whose chunk 0 the swizzle puts 16 B further: in
    a K-major tile (row 1, k 0) lies there. A K-major read takes k 1 from the next element of line 0: in an MN-major
    tile that is (row 1, k 0), too.
    """
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (ROWS, BOX), (BOX, ROWS)), tensor(gpu, (ROWS, BOX), (BOX, ROWS))
    step, reads_mn = 32 if is_k_major else 2 * ATOM, is_k_major != is_right
    products = [Product(step * k, TILE + 32 * k, word_a=word(ATOM, ATOM), transposed_a=reads_mn) for k in range(4)]
    text = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], products), gpu, a, b).text()
    address = 0x400 + 128 + 16 if is_k_major else 0x400 + 2
    assert ("R505" in text) == (not is_right)
    assert (f"row 0, k 1 (K step 0): reads map0[row=1, k=0] at {address:#x}, needs map0[row=0, k=1]" in text) == (not is_right)


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_tile_with_a_part_unread_that_another_accumulator_takes_in_the_other_orientation_is_found(side: str, is_read: bool):
    """Of 128 rows the first half and one K step of the second, or all four, are read K-major, each half into an
    accumulator; a third one reads some MN-major.
    """
    gpu, far, near = Gpu("sm_90a"), (128, 64), (64, 64)
    a, b = (tensor(gpu, far if side == of else near, (BOX, 128 if side == of else ROWS)) for of in "ab")
    at = {"a": 0, "b": 2 * TILE}
    loads = [Load(n, at[of], (0, 0), 2 * TILE if side == of else TILE) for n, of in enumerate("ab")]
    second = steps(**(at | {side: at[side] + TILE}), d=32)
    turned = Product(**at, **{f"word_{side}": word(ATOM, ATOM)}, transposed=side == "b", transposed_a=side == "a", d=64)  # type: ignore[arg-type]
    found = run(kernel(2, loads, [*steps(**at), *second[: 4 if is_read else 1], turned]), gpu, a, b)
    wrong = [f for f in found.findings if f.code == "R505"]
    assert (len(wrong), found.ok) == (not is_read, is_read), found.text()
    if wrong:
        assert found.findings[0] is wrong[0]
        assert f"{side.upper()} is read MN-major here, and K-major by the other instructions" in wrong[0].message
        assert f"imm-trans-{side} = 0" in wrong[0].repair


@pytest.mark.parametrize("few", [4, 1])
def test_a_sum_of_both_orders_of_a_product_is_right_and_a_few_exchanged_operands_are_not(few: int):
    """D = A B' + B A' has as many steps of each; one step of four with its operands exchanged is a mistake."""
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (64, 64), (BOX, ROWS), name=name) for name in "AB")
    loads = [Load(0, 0, (0, 0), TILE), Load(1, TILE, (0, 0), TILE)]
    exchanged = steps(TILE, 0)
    products = [*steps(0, TILE), *exchanged] if few == 4 else [*steps(0, TILE)[:3], exchanged[3]]
    found = run(kernel(2, loads, products), gpu, a, b)
    assert [f.code for f in found.findings] == ([] if few == 4 else ["R508"]), found.text()


def ragged(k: int, at_a: int = 0) -> Run:
    """A tile of 128 k: A in two boxes of 64 k, B in one of 128 rows, of tensors with `k` of them."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64, k), (BOX, ROWS)), tensor(gpu, (k, 64), (BOX, 128))
    loads = [Load(0, 0, (at_a, 0)), Load(0, TILE, (at_a + 64, 0)), Load(1, 2 * TILE, (0, 0), 2 * TILE)]
    products = [Product(TILE * (n // 4) + 32 * (n % 4), 2 * TILE + 2048 * n, word_b=word(ATOM, ATOM), transposed=True) for n in range(8)]
    return run(kernel(2, loads, products), gpu, a, b)


@pytest.mark.parametrize("k", [8, 64, 72, 128])
def test_a_tile_of_two_boxes_may_end_in_the_first_one(k: int):
    assert ragged(k).findings == []


def test_a_tile_that_is_nothing_but_fill_where_the_other_one_has_data_is_found():
    found = ragged(64, at_a=64)
    assert found.findings[0].code == "T209"
    assert "cp.async.bulk.tensor" in first_line(found)


def planes(rows: int, box: tuple[int, int], at: tuple[int, int], sbo: int = ATOM, fill: str = "zeros") -> Run:
    """The rows of a box with two planes, or of a plane that is shorter than the box."""
    gpu = Gpu("sm_90a")
    a = changed(tensor(gpu, (4, rows, 64), (BOX, *box)), oob_fill=fill)
    loads = [Load(0, 0, (0, at[0], at[1]))]
    return run(kernel(1, loads, steps(0, 0, word_a=word(sbo), word_b=word(sbo))), gpu, a)


@pytest.mark.parametrize(
    ("rows", "box", "at"),
    [
        (48, (64, 1), (0, 1)), (48, (64, 1), (0, 3)), (100, (64, 1), (64, 0)),  # a plane that ends inside the box
        (128, (32, 2), (0, 0)), (128, (32, 2), (32, 1)), (32, (32, 2), (0, 1)), (20, (32, 2), (0, 3)), (128, (8, 8), (40, 0)),
        (128, (32, 2), (-1, 1)), (40, (32, 2), (16, -1)),  # it begins outside
        (32, (32, 2), (0, -1)), (8, (8, 8), (1, -1)), (8, (8, 8), (0, -2)),  # ... in front of the first plane, as padding
    ],
)  # fmt: skip
def test_rows_are_those_of_the_box_in_its_own_order(rows: int, box: tuple[int, int], at: tuple[int, int]):
    found = planes(rows, box, at)
    assert found.findings == []
    assert found.judged.instructions == found.judged.of == 4


@pytest.mark.parametrize(
    ("rows", "box", "at"),
    [(48, (64, 1), (0, 1)), (128, (32, 2), (0, 0)), (128, (32, 2), (-1, 1)), (32, (32, 2), (0, -1)), (8, (8, 8), (0, -2))],
)
def test_a_wrong_stride_is_found_in_such_boxes_too(rows: int, box: tuple[int, int], at: tuple[int, int]):
    first = planes(rows, box, at, sbo=512).findings[0]
    assert first.code == "D308"
    assert "stride_byte_offset 512 must be 1024" in first.repair


@pytest.mark.parametrize(("at", "fill", "dimension"), [((0, -1), "nan", 2), ((-1, 1), "nan", 1), ((0, -1), "zeros", 0), ((0, 0), "nan", 0)])
def test_padding_of_nan_in_such_boxes_is_a_remark(at: tuple[int, int], fill: str, dimension: int):
    found = planes(32, (32, 2), at, fill=fill)
    assert not found.findings
    told = [f.message for f in found.remarks if "they are NaN" in f.message]
    assert [f"(dimension {dimension})" in message for message in told] == [True] * bool(dimension), found.text()


@pytest.mark.parametrize(("box", "steps_of", "sbo", "codes"), [
    ((BOX, 2 * ROWS, 1), (1, 2, 1), ATOM, []), ((BOX, 3 * ROWS - 2, 1), (1, 3, 1), ATOM, []), ((BOX, ROWS, 2), (1, 2, 1), ATOM, []),
    ((BOX, ROWS, 1), (1, 1, 2), ATOM, []), ((BOX, ROWS, 1), (1, 1, 2), 512, ["D308"]),
    ((BOX, ROWS, 2), (1, 1, 3), 512, ["D308"]), ((BOX, ROWS, 2), (1, 1, 2), 512, ["D308"]),  # nothing is left out
])  # fmt: skip
def test_boxes_that_leave_out_elements_are_not_checked(box: tuple[int, ...], steps_of: tuple[int, ...], sbo: int, codes: list[str]):
    """A box that is no longer than its stride leaves out none."""
    gpu = Gpu("sm_90a")
    a = changed(tensor(gpu, (4, 4 * ROWS, BOX), box), element_strides=steps_of)
    found = run(kernel(1, [Load(0, 0, (0, 0, 0))], steps(0, 0, word_a=word(sbo), word_b=word(sbo))), gpu, a)
    assert [f.code for f in found.findings][:1] == codes, found.text()
    assert (found.judged.instructions, found.judged.of) == (
        0 if any(1 < step < size for step, size in zip(steps_of, box, strict=True)) else 4,
        4,
    )


@pytest.mark.parametrize("step", [1, 2], ids=["checked", "not checked"])
def test_an_operand_that_is_not_checked_does_not_work_by_accident(step: int):
    """Code 2 is 128B on tcgen05, and 64B for wgmma: D302. If the box leaves out rows, the reads are not checked."""
    gpu = Gpu("sm_90a")
    a = changed(tensor(gpu, (4, 4 * ROWS, BOX), (BOX, step * ROWS, 1)), element_strides=(1, step, 1))
    wrong = 2 << 62 | word() & (1 << 62) - 1
    found = run(kernel(1, [Load(0, 0, (0, 0, 0))], steps(0, 0, word_a=wrong, word_b=wrong)), gpu, a)
    told = [f for f in (*found.findings, *found.remarks) if f.code == "D302"]
    assert {f.severity for f in told} == {Severity.WRONG if step == 1 else Severity.NOTE}
    assert "by accident" not in found.text()


def contraction(
    parts: int,
    at_b: int = 0,
    lbo: int = 1024,
    ends_a: tuple[int, int] = (32, 2),
    ends_b: tuple[int, int] = (32, 2),
    room: int = 2,
    gap: int = 0,
) -> Run:
    """Over two dimensions of K, in boxes of 8 of the first and `parts` of the second; the maps end at `ends`, the
    arrays at 32, in B with a `gap` of zeros behind, and `room`.
    """
    gpu = Gpu("sm_90a")
    maps, size = [], parts * 1024  # of a box: each part has 64 rows of 16 bytes
    for side, (first, second) in enumerate((ends_a, ends_b)):
        numbers, row = np.random.default_rng(side).integers(1, 5, (ROWS, room, 32)).astype(np.float16), 64 + 2 * gap * side
        array = gpu.array(np.pad(numbers, ((0, 0), (0, 0), (0, gap * side))))
        shape = {"global_dim": [first, ROWS, second], "global_strides": [row * room, row], "box_dim": [8, ROWS, parts]}
        maps.append(TensorMap.tiled(data_type="f16", global_address=array.address, **shape))
    loads = [Load(0, 0, (0, 0, 0), size), Load(1, size, (at_b, 0, 0), size)]
    plain = {side: gap >> 4 << 16 | 128 >> 4 << 32 for side, gap in (("word_a", lbo), ("word_b", 1024))}
    return run(kernel(2, loads, [Product(at, size + at, **plain) for at in range(0, size, 2048)]), gpu, *maps)


@pytest.mark.parametrize(
    ("parts", "at_b", "lbo", "codes"),
    [(2, 0, 1024, []), (4, 0, 1024, []), (2, 8, 1024, ["R508"]), (2, 0, 2048, ["D308"]), (4, 0, 512, ["D308"])],
)
def test_k_of_two_dimensions_is_that_of_the_boxes_where_both_operands_have_it_alike(parts: int, at_b: int, lbo: int, codes: list[str]):
    """A contraction over 32 x 2, in boxes of 8 of the first and all of the second, or more than there are, as CUTLASS's
    GETT has them.
    """
    found = contraction(parts, at_b, lbo, gap=8 if parts == 4 else 0)
    assert [f.code for f in found.findings][:1] == codes
    assert "T209" not in {f.code for f in found.remarks}


@pytest.mark.parametrize("ends_b", [(32, 1), (28, 2)])
def test_one_map_alone_with_too_small_a_k_of_several_dimensions_is_found(ends_b: tuple[int, int]):
    assert contraction(4, ends_b=ends_b).findings


def test_k_of_several_dimensions_has_strides_of_its_own_in_each_operand():
    """A is K-major, its boxes have all of the first dimension of k or a part; B is MN-major, with a gap behind that
    dimension.
    """
    gpu = Gpu("sm_90a")
    for first in (8, 16):
        a, b = gpu.array(np.ones((ROWS, 2, first), np.float16)), gpu.array(np.ones((2, 24, ROWS), np.float16))
        maps = [
            TensorMap.tiled(data_type="f16", global_address=a.address, global_dim=[first, ROWS, 2], global_strides=[4 * first, 2 * first], box_dim=[8, ROWS, 4]),
            TensorMap.tiled(
                data_type="f16", global_address=b.address, global_dim=[ROWS, first, 2], global_strides=[128, 24 * 128], box_dim=[ROWS, 8, 4], swizzle="128B"
            ),
        ]  # fmt: skip
        loads = [Load(0, 0, (first - 8, 0, 0), 4096), Load(1, 4096, (0, first - 8, 0), 4096)]
        products = [Product(at, 4096 + at, 1024 >> 4 << 16 | 128 >> 4 << 32, word(ATOM, ATOM), transposed=True) for at in (0, 2048)]
        found = run(kernel(2, loads, products), gpu, *maps)
        assert found.findings == [], found.text()
        assert found.judged.instructions == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_dimensions_of_k_are_in_the_order_of_the_map_whatever_their_strides(order: tuple[int, int]):
    gpu = Gpu("sm_90a")
    arrays = [gpu.array(np.ones((ROWS, 2, 2, 16), np.float16)) for _ in range(2)]
    strides = [(64, 32)[n] for n in order]
    maps = [
        TensorMap.tiled(
            data_type="f16",
            global_address=array.address,
            global_dim=[16, ROWS, 2, 2],
            global_strides=[128, *strides],
            box_dim=[8, ROWS, 2, 2],
        )
        for array in arrays
    ]
    loads = [Load(side, side * 4096, (8, 0, 0, 0), 4096) for side in range(2)]
    plain = 1024 >> 4 << 16 | 128 >> 4 << 32
    found = run(kernel(2, loads, [Product(at, 4096 + at, plain, plain) for at in (0, 2048)]), gpu, *maps)
    assert found.findings == [], found.text()


@dataclasses.dataclass(frozen=True)
class Boxed:
    """An operand of one box: the tensor's dimensions as the map has them, those behind the contiguous one in the order
    of their strides, the box, its swizzle.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "NONE"

    def loaded(self, gpu: Gpu, number: int, offset: int) -> tuple[TensorMap, Load]:
        array = gpu.array(np.random.default_rng(number).integers(1, 5, int(np.prod(self.dims))).astype(np.float16))
        steps = {n: 2 * self.dims[0] * int(np.prod([self.dims[m] for m in self.strides[:k]])) for k, n in enumerate(self.strides)}
        tm = TensorMap.tiled(
            data_type="f16", global_address=array.address, global_dim=self.dims, global_strides=[steps[n] for n in sorted(steps)], box_dim=self.box,
            swizzle=self.swizzle,
        )  # fmt: skip
        return tm, Load(number, offset, (0,) * len(self.dims), 2 * int(np.prod(self.box)))


SECOND, PLAIN = 2 * TILE, Boxed((64, 64), (1,), (64, 64), "128B")  # B lies behind two tiles of A
ACROSS = {"word_a": word(ATOM, ATOM), "transposed_a": True}


def without_swizzle(lbo: int, sbo: int = 128) -> int:
    return lbo >> 4 << 16 | sbo >> 4 << 32


def of_two_m(wrong: int) -> list[Product]:
    """A MN-major has rows of two dimensions, each for an accumulator."""
    return [Product(TILE * m + 2048 * n, SECOND + 32 * n + wrong * (n == 1), d=32 * m, **ACROSS) for m in range(2) for n in range(4)]  # type: ignore[arg-type]


def of_two_n(wrong: int) -> list[Product]:
    """B MN-major has rows of two dimensions, 32 of each, in one instruction."""
    return [Product(32 * n, SECOND + 1024 * n, word_b=2 << 62 | without_swizzle(4096 - 64 * wrong, 512), transposed=True) for n in range(4)]


def of_two_k(wrong: int) -> list[Product]:
    """K of two dimensions, 64 of each, one after the other."""
    return [Product(at + 32 * n, SECOND + at + 32 * n + wrong * (n == 1)) for at in (0, TILE) for n in range(4)]


def in_eights(wrong: int) -> list[Product]:
    """K of two dimensions, 8 of each, in one instruction."""
    return [Product(0, SECOND, without_swizzle(1024), without_swizzle(1024 - 16 * wrong))]


@pytest.mark.parametrize("strides", [(1, 2), (2, 1)])
@pytest.mark.parametrize(
    ("products", "a", "b"),
    [
        (of_two_m, ((128, 64, 2), (64, 64, 2), "128B"), PLAIN),
        (of_two_n, PLAIN, ((64, 64, 2), (32, 64, 2), "64B")),
        (of_two_k, ((128, 64, 2), (64, 64, 2), "128B"), ((128, 64, 2), (64, 64, 2), "128B")),
        (in_eights, Boxed((32, 32, 2, 2), (2, 3, 1), (8, 32, 2, 2)), ((32, 64, 2), (8, 64, 2), "NONE")),
    ],
)
def test_instructions_say_which_dimensions_of_a_box_are_k_and_which_are_rows(products, a, b, strides):  # type: ignore[no-untyped-def]
    """The stride of one of K may be wider than a row's, and that of one of M narrower or wider than K's; a box may have
    a part of each.
    """
    for wrong in (0, 32):
        gpu = Gpu("sm_90a")
        operands = [x if isinstance(x, Boxed) else Boxed(x[0], strides, *x[1:]) for x in (a, b)]
        maps, loads = zip(*(operand.loaded(gpu, n, SECOND * n) for n, operand in enumerate(operands)), strict=True)
        found = run(kernel(2, list(loads), products(wrong)), gpu, *maps)
        assert bool(found.findings) == bool(wrong), found.text()
        assert not found.judged.missed


@pytest.mark.parametrize(("ends", "room"), [((32, 1), 2), ((32, 2), 4), ((28, 2), 2)])
def test_too_small_a_k_of_several_dimensions_is_a_remark_where_both_maps_have_it(ends: tuple[int, int], room: int):
    """Maps of a part of larger tensors are the same."""
    found = contraction(4, ends_a=ends, ends_b=ends, room=room)
    assert found.findings == []
    dimension = 0 if ends[0] < 32 else 2
    assert [f"end at {ends[dimension // 2]} along dimension {dimension}," in f.message for f in found.remarks if f.code == "T209"] == [True]


@pytest.mark.parametrize(("sbo", "codes"), [(ATOM, []), (512, ["D308"])])
def test_a_batch_of_one_may_have_any_stride(sbo: int, codes: list[str]):
    """CUTLASS writes 0."""
    gpu = Gpu("sm_90a")
    array = gpu.array(np.random.default_rng(0).integers(1, 5, (ROWS, BOX)).astype(np.float16))
    a = TensorMap.tiled(
        data_type="f16", global_address=array.address, global_dim=[BOX, ROWS, 1], global_strides=[2 * BOX, 0], box_dim=[BOX, ROWS, 1],
        swizzle="128B",
    )  # fmt: skip
    found = run(kernel(1, [Load(0, 0, (0, 0, 0))], steps(0, 0, word_a=word(sbo), word_b=word(sbo))), gpu, a)
    assert [f.code for f in found.findings][:1] == codes
    assert found.judged.instructions == found.judged.of == 4


@pytest.mark.parametrize("rows", [ROWS, 40])
@pytest.mark.parametrize(("sbo", "codes"), [(ATOM, []), (512, ["D308"])])
def test_maps_whose_coordinates_take_an_address_around_2_to_the_64_are_judged_as_others(rows: int, sbo: int, codes: list[str]):
    """Of sequences that lie one behind the other, QuACK (c8ec317) and Triton have one map: coordinates say where one
    ends, and bring it back to where it begins.
    """
    gpu, pitch, begin = Gpu("sm_90a"), 2 * BOX, 24
    array = gpu.array(np.random.default_rng(0).integers(1, 5, (begin + rows, BOX)).astype(np.float16), name="many")
    most = 1 << 31
    a = TensorMap.tiled(
        data_type="f16", global_address=array.address, global_dim=[BOX, 1 << 30, most, most], global_strides=[pitch, pitch, (1 << 34) - pitch],
        box_dim=[BOX, ROWS, 1, 1], swizzle="128B",
    )  # fmt: skip
    found = run(
        kernel(1, [Load(0, 0, (0, (1 << 30) - rows, begin + rows, 1 << 30))], steps(0, 0, word_a=word(sbo), word_b=word(sbo))), gpu, a
    )
    assert [f.code for f in found.findings][:1] == codes
    assert found.judged.instructions == found.judged.of == 4


@pytest.mark.parametrize(("planes", "codes"), [(2, []), (4, ["T207"])])
def test_a_stride_is_a_number_of_elements_where_the_array_holds_so_many_bytes(planes: int, codes: list[str]):
    """CUTLASS (7107b05, 75_blackwell_grouped_gemm) replaces the size of a map of scale factors by one in bytes, twice
    the elements, and loads none of the other half.
    """
    gpu = Gpu("sm_90a")
    array = gpu.array(np.random.default_rng(0).integers(1, 5, (planes, ROWS, BOX)).astype(np.float16))
    a = TensorMap.tiled(
        data_type="f16", global_address=array.address, global_dim=[2 * BOX, ROWS, 2], global_strides=[2 * BOX, 2 * BOX * ROWS],
        box_dim=[BOX, ROWS, 1], swizzle="128B",
    )  # fmt: skip
    found = run(kernel(1, [Load(0, 0, (0, 0, 0))], steps(0, 0)), gpu, a)
    assert [f.code for f in found.findings] == codes


@pytest.mark.parametrize(
    ("between", "findings", "remarks"),
    [("fence.proxy.async.shared::cta; bar.sync 0;", [], []), ("fence.proxy.async.shared::cta;", [], ["X008"]), ("", ["X008"], []), ("bar.sync 0;", ["X003"], [])],
)  # fmt: skip
def test_what_the_warps_of_a_warpgroup_write_for_their_own_product(between: str, findings: list[str], remarks: list[str]):
    """FlashMLA (9241ae3, splitkv_mla.cuh) sets the rows past the end to 0 so: each warp some, and a fence, but no
    barrier.
    """
    gpu = Gpu("sm_90a")
    ptx = kernel(1, [Load(0, 0, (0, 0))], steps(0, 0)).replace(
        "wgmma.fence.sync.aligned;",
        f"shl.b32 %to, %tid, 2; add.u32 %to, %to, %tiles; st.shared.b32 [%to], 0; {between} wgmma.fence.sync.aligned;",
    )
    found = run(ptx, gpu, tensor(gpu, (64, 64), (BOX, ROWS)))
    assert (sorted({f.code for f in found.findings if f.code[0] == "X"}), sorted({f.code for f in found.remarks})) == (findings, remarks)


def test_rows_that_the_tensor_does_not_have_may_be_anything():
    """Two boxes of 64 k, with fewer rows than the instruction: behind those of the first it reads those of the second
    one, which are rows of no D.

    DeepGEMM multiplies tiles of 64 rows by instructions of 128.
    """
    gpu, rows, part = Gpu("sm_90a"), ROWS // 2, TILE // 2
    a, b = tensor(gpu, (rows, 2 * BOX), (BOX, rows)), tensor(gpu, (ROWS, 2 * BOX), (BOX, ROWS))
    loads = [Load(0, 0, (0, 0), part), Load(0, part, (BOX, 0), part)]
    loads += [Load(1, TILE, (0, 0)), Load(1, 2 * TILE, (BOX, 0))]
    found = run(kernel(2, loads, [*steps(0, TILE), *steps(part, 2 * TILE)]), gpu, a, b)
    assert found.findings == []
    assert found.judged.instructions == found.judged.of == 8


def test_channels_that_a_filter_does_not_have_are_fill_and_not_the_next_tap():
    """A filter of a convolution: rows of three taps of 32 channels. A box of 64 channels of one tap is half fill, as
    that of CUTLASS's convolutions is.
    """
    gpu = Gpu("sm_90a")
    filters = gpu.array(np.ones((ROWS, 3, 32), np.float16))
    tm = TensorMap.tiled(
        data_type="f16",
        global_address=filters.address,
        global_dim=(32, ROWS, 3),
        global_strides=(192, 64),
        box_dim=(BOX, ROWS, 1),
        swizzle="128B",
    )
    loads = [Load(0, tap * TILE, (0, 0, tap)) for tap in range(3)]
    found = run(kernel(1, loads, [p for tap in range(3) for p in steps(tap * TILE, tap * TILE)]), gpu, tm)
    assert found.findings == [], found.text()
    assert (found.judged.instructions, found.judged.of) == (6, 12)


def test_an_axis_through_two_dimensions_is_checked_as_it_lies():
    two = {"dtype": "f16", "extent": {"m": 64, "k": 64}, "stride": {"m": 128, "k": 2}, "address": 1 << 20}
    walks = {"m": [[32, 128, 0, 32], [2, 128 * 128, 0, 2]]}
    tm = {"data_type": "FLOAT16", "global_address": 1 << 20, "global_dim": [64, 128, 2], "global_strides": [128, 128 * 128],
          "box_dim": [64, 32, 2], "swizzle": "128B"}  # fmt: skip
    a = {"dtype": "f16", "major": "K", "word": word(), "start": "s", "meant": {"tensor": "A", "axes": ["m", "k"]}}
    steps = [{"op": "tma_load", "map": "t", "to": "s", "at": [0, 0, 0]}, {"op": "mma", "kind": "wgmma", "m": 64, "n": 64, "k": 16, "a": a}]
    scenario = {"arch": "sm_90a", "buffer": {"s": {"address": 1024}}, "map": {"t": tm}, "step": steps}
    assert check({**scenario, "tensor": {"A": {**two, "walks": walks}}}).ok
    assert not check({**scenario, "tensor": {"A": two}}).ok


def test_an_excerpt_says_nothing_of_steps_that_it_does_not_have():
    fault = next(f for f in FAULTS if f.kernel == RING and f.name == "K step of B forgotten")
    found, _ = launched(RING, fault)
    assert found.findings
    assert "R510" not in {f.code for f in found.remarks}
    assert not any("no step writes" in f.message for f in found.findings)


# ---- all CTAs


def one_wrong(grid: int, wrong: int, **more: object) -> Run:
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64 * grid, 64), (BOX, ROWS)), tensor(gpu, (64, 64), (BOX, ROWS))
    loads = [Load(0, 0, (0, "%y")), Load(1, TILE, (0, 0))]
    return run(kernel(2, loads, steps(0, TILE, odd=(wrong, word(512)))), gpu, a, b, grid=grid, **more)


@pytest.mark.parametrize("wrong", [0, 3, 40])
def test_what_one_cta_alone_does_wrong_is_found(wrong: int):
    found = one_wrong(41, wrong, workers=1)
    assert [f.code for f in found.findings] == ["D308"]
    assert str(found.judged) == "checked: operand layouts: A and B in all 164 matrix instructions (41 CTAs); 2 tensor maps"
    assert found.judged.distinct == 2
    assert found.text().endswith(str(found.judged))


def test_what_all_do_alike_is_judged_once():
    assert one_wrong(8, 99).judged.distinct == 1
    assert one_wrong(8, 99).findings == []


def test_ctas_of_other_processes_are_judged_as_well():
    found = one_wrong(80, 79, workers=2)
    assert [f.code for f in found.findings] == ["D308"]
    assert (found.judged.instructions, found.judged.ctas, found.judged.distinct) == (320, 80, 2)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_each_cta_is_judged_in_its_own_order_if_one_of_them_ends_otherwise(odd: int):
    """The first warpgroup begins alone, and the two others make up for that step at the end. The CTA `odd` has another
    LBO in one word, which nothing reads.
    """
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (192, 128), (BOX, ROWS)), tensor(gpu, (64, 128), (BOX, ROWS))
    loads = [Load(n % 2, n * TILE, (n // 2 * BOX, 0 if n % 2 else "%y")) for n in range(4)]
    first, *others = steps(0, TILE) + steps(2 * TILE, 3 * TILE)
    others[0] = dataclasses.replace(others[0], first="REST:")
    others[-1] = dataclasses.replace(others[-1], odd=(odd, word(lbo=32)))
    last = dataclasses.replace(first, first="setp.lt.u32 %p, %tid, 128; @%p bra END;")
    first = dataclasses.replace(first, sums=False, first="setp.ge.u32 %p, %tid, 128; @%p bra REST;")
    text = (
        kernel(2, loads, [first, *others, last]).replace("wgmma.commit_group", "END: wgmma.commit_group").replace("%x, 128, ", "%x, 384, ")
    )
    found = gpu.launch(text, grid=3, block=384, args=[a, b, gpu.array(np.zeros(3 * 384, np.float32))], progress=False)
    assert (found.findings, found.judged.instructions) == ([], 3 * 24), found.text()
    assert found.judged.distinct == 4  # of the first tiles: all steps, the first one, the others; of the second tiles: all


def overwritten() -> Run:
    """A thread has stored over the first element of the tile that is read."""
    gpu = Gpu("sm_90a")
    loads = [Load(0, 0, (0, 0))]
    return run(kernel(1, loads, steps(0, 0)).replace("wgmma.fence", "st.shared.v4.b32 [tiles], {%x, %x, %x, %x}; fence.proxy.async; wgmma.fence"),
                gpu, tensor(gpu, (64, 64), (BOX, ROWS)))  # fmt: skip


def test_the_last_line_says_what_was_not_judged():
    found, gpu, loads = overwritten(), Gpu("sm_90a"), [Load(0, 0, (0, 0))]
    assert found.judged.instructions < found.judged.of == 4
    assert "not checked: operands that begin where no tensor load wrote" in found.summary()
    assert found.as_dict()["judged"]["missed"] == found.judged.missed != {}
    silent = run(kernel(1, loads, steps(0, 0)), gpu, tensor(gpu, (64, 64), (BOX, ROWS)), sanitize=False)
    assert silent.summary().endswith("not checked: anything: it ran without the sanitizer")


@pytest.mark.parametrize(
    ("name", "most", "told"),
    [
        ("MOST", 2, "a CTA after its first 2 matrix instructions (16 instructions)"),
        ("MOST_PIECES", 1, "first 1 different ones (4 instructions)"),
    ],
)
def test_limits_are_told_where_they_are_met(monkeypatch, name: str, most: int, told: str):
    monkeypatch.setattr(recorded, name, most)
    found = one_wrong(8, 7)
    assert told in str(found.judged)
    assert found.judged.instructions < found.judged.of == 32


def test_an_instruction_that_is_not_judged_for_two_reasons_counts_once(monkeypatch):
    monkeypatch.setattr(recorded, "MOST_PIECES", 0)
    judged = overwritten().judged
    assert (judged.instructions, sum(judged.missed.values()), len(judged.missed)) == (0, judged.of, 2), judged


@pytest.mark.parametrize("modes", [[], [[32, 128, 0]], [[0, 128, 0, 1]], [[32, 128, 2, 1]], [[32, -1, 0, 1]], "m"])
def test_an_axis_through_several_dimensions_is_read_as_the_format_has_it(modes: object):
    table = {"dtype": "f16", "extent": {"m": 64, "k": 64}, "stride": {"m": 128, "k": 2}, "walks": {"m": modes}}
    with pytest.raises(InputError, match=r"tensor.A.walks: m = .*: needs \[\[indices, bytes"):
        check({"arch": "sm_90a", "tensor": {"A": table}})
    with pytest.raises(InputError, match=r"tensor.A.walks: n: needs axes of A \(m, k\)"):
        check({"arch": "sm_90a", "tensor": {"A": {**table, "walks": {"n": [[1, 1, 0, 1]]}}}})


# ---- coordinates, and the whole of K


def gemm(tiles: range, k: int, *, swapped: str = "", first_row: int = 0, fill: object = None, split: bool = False, **more: object) -> Run:
    """K-major A and B, one product for each tile of 64 k; `split`: CTA x takes tile x alone."""
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (384, k), (BOX, ROWS), fill=fill if name == "A" else None, name=name) for name in "AB")
    loads, products = [], []
    for n, tile in enumerate([0] if split else tiles):
        at = "%y" if split else 64 * tile
        for side, (name, row) in enumerate((("A", first_row), ("B", 64))):
            loads.append(Load(side, (2 * n + side) * TILE, (row, at) if name == swapped else (at, row)))
        products += steps(2 * n * TILE, (2 * n + 1) * TILE)
    return run(kernel(2, loads, products), gpu, a, b, grid=len(tiles) if split else 1, **more)


def test_a_page_names_every_load_into_a_range_of_shared_memory():
    """The operands of alike tiles are drawn once. The table of buffers has the loads of all of them."""
    said = [band.cells[-1] for strip in gemm(range(4), 256).page().strips for band in strip.bands]
    boxes = [re.search(r"^tensor load at PTX line \d+, of the box at \[(\d+), (\d+)\]", text) for text in said]
    assert [tuple(map(int, box.groups())) for box in boxes if box] == [(64 * tile, row) for tile in range(4) for row in (0, 64)]


@pytest.mark.parametrize("name", ["A", "B"])
def test_swapped_coordinates_are_told_at_the_load(name: str):
    assert gemm(range(4), 256).findings == []
    found = gemm(range(4), 256, swapped=name)
    first = found.findings[0]
    assert first.code == "R508"
    assert "cp.async.bulk.tensor" in first_line(found)
    assert f"of {name}'s tile are swapped" in first.message
    assert first.repair.startswith("coordinates {k, row}")


@pytest.mark.parametrize(
    ("a_row", "b_row", "grid", "said"),
    [
        ("%y", "%z", (3, 2), ""),
        ("%y", "%y", (3, 2), "the 2 CTAs along y"),
        ("%y", 64, (3, 2), "the 2 CTAs along y"),
        ("%z", "%z", (3, 2), "the 3 CTAs along x"),
        ("%z", 0, (2, 2), "the 2 CTAs along x"),
        (0, 64, (3, 2), ""),  # benchmarks have one product for all CTAs
        ("%y", 0, 3, ""),  # a grid of one axis
        (0, 64, 3, ""),
    ],
)
def test_an_index_of_the_cta_on_which_no_tile_depends_is_a_remark(a_row, b_row, grid, said: str):
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (192, 64), (BOX, ROWS), name=name) for name in "AB")
    text = kernel(2, [Load(0, 0, (0, a_row)), Load(1, TILE, (0, b_row))], steps(0, TILE))
    found = run(text, gpu, a, b, grid=grid)
    assert not [f for f in found.findings if f.code == "R508"]
    if said == "the 2 CTAs along y":  # what a launch that is stopped would have loaded later is not known
        assert text.count("ret;") == 1
        stopped = run(text.replace("ret;", "trap;"), gpu, a, b, grid=grid)
        assert not any("load the same tiles" in f.message for f in stopped.remarks)
    told = [f for f in found.remarks if "load the same tiles" in f.message]
    assert [f.message.split(" of the grid")[0] for f in told] == [said] * bool(said)
    assert all(f"%ctaid.{said[-1]}" in f.repair for f in told)


@pytest.mark.parametrize(
    ("grid", "a_axis", "b_axis", "said"),
    [
        ((2, 3, 2), "x", "y", "the 2 CTAs along z"),
        ((2, 3, 2), "x", "z", "the 3 CTAs along y"),
        ((3, 2, 2), "z", "y", "the 3 CTAs along x"),
        ((2, 3, 2), "x", "x", ""),  # along two axes
    ],
)
def test_in_a_grid_of_three_axes_no_tile_may_depend_on_one_of_them(grid, a_axis, b_axis, said: str):
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (192, 64), (BOX, ROWS), name=name) for name in "AB")
    text = kernel(2, [Load(0, 0, (0, "%y")), Load(1, TILE, (0, "%z"))], steps(0, TILE))
    text = text.replace("%ctaid.y", f"%ctaid.{b_axis}").replace("%ctaid.x", f"%ctaid.{a_axis}", 1)
    told = [f for f in run(text, gpu, a, b, grid=grid).remarks if "load the same tiles" in f.message]
    assert [f.message.split(" of the grid")[0] for f in told] == [said] * bool(said)
    assert all(f"%ctaid.{said[-1]}" in f.repair for f in told)


@pytest.mark.parametrize(
    ("row", "map_", "said"),
    [
        ("mad.lo.u32 %c1, %y, 2, %z;", "mov.b64 %map, map2;", True),  # a tile of D for each CTA
        ("mov.u32 %c1, %z;", "mov.b64 %map, map2;", False),  # those along x have one tile of D: they repeat the work on purpose
        ("mov.u32 %c1, %z;", "mov.b64 %map, map2; mov.b64 %rd1, map3; setp.eq.u32 %p, %x, 0; selp.b64 %map, %map, %rd1, %p;", True),
    ],
    ids=["apart", "same", "in two arrays"],
)
def test_ctas_with_the_same_tiles_of_a_b_and_d_repeat_a_product_on_purpose(row: str, map_: str, said: bool):
    gpu = Gpu("sm_90a")
    a, b, d, e = (tensor(gpu, (256, 64), (BOX, ROWS), name=name) for name in "ABDE")
    store = f"""setp.ne.u32 %p, %tid, 0; @%p bra END; mov.u32 %c0, 0; {row} {map_}
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{%c0, %c1}}], [%tiles];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END: ret;"""
    text = kernel(4, [Load(0, 0, (0, "%z")), Load(1, TILE, (0, "%z"))], steps(0, TILE)).replace("ret;", store)
    found = run(text, gpu, a, b, d, e, grid=(2, 2))
    assert any("the 2 CTAs along x of the grid load the same tiles" in f.message for f in found.remarks) == said


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("apart", [True, False])
def test_ctas_that_multiply_other_parts_of_the_same_boxes_repeat_nothing(apart: bool, workers: int):
    """All CTAs load both tiles of B, and those along y multiply one each."""
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (192, 64), (BOX, ROWS), name=name) for name in "AB")
    text = kernel(2, [Load(0, 0, (0, "%y")), Load(1, TILE, (0, 0)), Load(1, 2 * TILE, (0, 64))], steps(0, TILE))
    for k in range(4 * apart):
        start = f"add.u32 %at, %tiles, {TILE + 32 * k};"
        text = text.replace(start, f"{start} mad.lo.u32 %at, %z, {TILE // 64}, %at;")
    found = run(text, gpu, a, b, grid=(2, 2), workers=workers)
    assert any("load the same tiles" in f.message for f in found.remarks) == (not apart)


@pytest.mark.parametrize(
    ("at", "said"), [((0, 0), False), ((64, 0), True), ((0, 64), True), ((-64, 0), True), ((56, 0), False), ((0, "%y"), False)]
)
def test_a_map_whose_loads_are_all_outside_of_its_tensor_is_a_remark(at, said: bool):
    """The loads bring fill only. Some CTAs of a grid may have nothing to do, or the whole grid: so it is no finding."""
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (64, 64), (BOX, ROWS), name=name) for name in "AB")
    found = run(kernel(2, [Load(0, 0, at), Load(1, TILE, (0, 0))], steps(0, TILE)), gpu, a, b, grid=2)
    assert [f.code for f in found.findings] == ["T209"] * (said and at[0] != 0), found.text()  # k of A alone
    told = [f for f in found.remarks if "all boxes that loads of this map name are outside the tensor" in f.message]
    assert [f.code for f in told] == ["T209"] * (said and at[0] == 0), found.text()


@pytest.mark.parametrize(
    ("k", "rows", "fill", "steps_", "told"),
    [
        (48, ROWS, "nan", 4, "all elements of D"), (64, 48, "nan", 4, "these rows of D"), (48, 48, "zeros", 4, ""), (64, ROWS, "nan", 4, ""),
        (48, ROWS, "nan", 3, ""),
    ],
)  # fmt: skip
def test_fill_of_nan_in_a_product_is_a_remark(k: int, rows: int, fill: str, steps_: int, told: str):
    """Along k it spoils D. Rows of it may not be stored. Steps that multiply none of it are right."""
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, shape, (BOX, ROWS), name=name) for shape, name in (((rows, k), "A"), ((ROWS, 64), "B")))
    a = changed(a, oob_fill=fill)
    found = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], steps(0, TILE)[:steps_]), gpu, a, b)
    assert not found.findings
    assert [told in str(f) for f in found.remarks if "they are NaN" in f.message] == [True] * bool(told), found.text()


def test_what_is_meant_is_found_in_another_stage():
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (64, 256), (BOX, ROWS), name=name) for name in "AB")
    loads = [Load(side, (2 * n + side) * TILE, (64 * n, 0)) for n in range(4) for side in (0, 1)]
    products = [p for n, stage in enumerate((0, 1, 1, 3)) for p in steps(2 * n * TILE, (2 * stage + 1) * TILE)]
    found = run(kernel(2, loads, products), gpu, a, b)
    first = found.findings[0]
    assert first.message.startswith(f"B, descriptor {word() | (1024 + 3 * TILE) >> 4:#x}")
    assert [i for i, line in enumerate(found.ptx.splitlines(), 1) if "wgmma.mma_async" in line][
        8
    ] == first.line  # the first of the wrong ones
    assert f"must be [0, 32, 64, 96, {2 * TILE}, {2 * TILE + 32}" in first.repair


@pytest.mark.parametrize("before", ["", "setp.eq.u32 %p, %tid, 0; @%p mbarrier.inval.shared.b64 [other];"], ids=["", "a remark"])
@pytest.mark.parametrize("k", [64, 0], ids=["right", "the first block of B twice"])
def test_a_remark_explains_no_wrong_tile(before: str, k: int):
    """The remark is about an mbarrier that nothing has initialised."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64, 128), (BOX, ROWS)), tensor(gpu, (64, 128), (BOX, ROWS))
    loads = [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0)), Load(0, 2 * TILE, (64, 0)), Load(1, 3 * TILE, (k, 0))]
    found = run(kernel(2, loads, [*steps(0, TILE), *steps(2 * TILE, 3 * TILE)], before=before), gpu, a, b)
    assert [f.severity for f in found.remarks if f.code == "X010"] == ["luck"] * bool(before)
    assert [f.code for f in found.findings] == ["R508"] * (k == 0)


def stored_box(*, turned: bool, swizzle: str) -> str:
    """D in shared memory, element (row, column) by threads, then a tensor store of it; `swizzle` makes %r0 of %row."""
    rows = [
        "shr.u32 %r1, %tid, 5; and.b32 %r2, %tid, 31; shr.u32 %r3, %r2, 2; mad.lo.u32 %r3, %r1, 16, %r3; and.b32 %r4, %r2, 3; shl.b32 %r4, %r4, 1;"
    ]
    for n in range(32):
        row, column = ("%r6", "%r5") if turned else ("%r5", "%r6")
        rows.append(f"""add.u32 %r5, %r3, {n // 2 % 2 * 8}; add.u32 %r6, %r4, {n // 4 * 8 + n % 2}; {swizzle.replace("%row", row)}
        shr.u32 %r7, {column}, 3; xor.b32 %r7, %r7, %r0; shl.b32 %r7, %r7, 4; and.b32 %r0, {column}, 7; shl.b32 %r0, %r0, 1; add.u32 %r7, %r7, %r0;
        mad.lo.u32 %r7, {row}, 128, %r7; add.u32 %r7, %r7, %tiles; cvt.rn.f16.f32 %h, %f{n}; st.shared.b16 [%r7], %h;""")
    newline = "\n"
    return f"""{{ .reg .b16 %h; bar.sync 0; {newline.join(rows)} }}
    fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p, %tid, 0; @%p ret; mov.b64 %map, map2; mov.b32 %c0, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{%c0, %c0}}], [%tiles]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("swizzle", "codes"),
    [("and.b32 %r0, %row, 7;", []), ("shr.u32 %r0, %row, 1; and.b32 %r0, %r0, 3;", ["R501"])],
    ids=["right", "of 64 bytes"],
)
def test_the_chunks_of_a_stored_product_are_checked_also_if_it_is_transposed(turned: bool, swizzle: str, codes: list[str]):
    gpu = Gpu("sm_90a")
    maps = [tensor(gpu, (64, 64), (BOX, ROWS)) for _ in range(3)]
    text = kernel(3, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], steps(0, TILE))
    out = "mad.lo.u32 %r0, %x, 128, %tid;"
    assert out in text
    found = run(text.replace(out, f"{stored_box(turned=turned, swizzle=swizzle)} {out}"), gpu, *maps)
    assert [f.code for f in found.findings] == codes, found.text()
    assert all("write shared memory with swizzle 128B" in f.repair for f in found.findings)


@pytest.mark.parametrize(("first", "step"), [(64, 1), (0, 64)], ids=["taps of a convolution", "blocks of k below each other"])
def test_rows_that_go_on_are_no_swapped_coordinates(first: int, step: int):
    """Rows of A move, and k of B: of taps by one row each, of an operand that is stored in blocks of 64 k by a whole
    tile.
    """
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (384, 64), (BOX, ROWS)), tensor(gpu, (64, 192), (BOX, ROWS))
    loads = [load for n in range(3) for load in (Load(0, 2 * n * TILE, (0, first + step * n)), Load(1, (2 * n + 1) * TILE, (64 * n, 0)))]
    products = [p for n in range(3) for p in steps(2 * n * TILE, (2 * n + 1) * TILE)]
    found = run(kernel(2, loads, products), gpu, a, b)
    assert not any("swapped" in f.message or "exchanged" in f.message for f in found.findings)


@pytest.mark.parametrize(
    ("tiles", "k", "left"), [(range(3), 256, "192 to 255"), (range(3), 208, "192 to 207"), (range(1, 4), 256, "0 to 63")]
)
def test_a_part_of_k_that_no_instruction_multiplies_is_a_remark(tiles: range, k: int, left: str):
    """A kernel may multiply less than its maps have: nothing that it stores depends on the rest."""
    found = gemm(tiles, k)
    remark = next(f for f in found.remarks if f.code == "R508")
    assert found.ok
    assert f"no instruction multiplies k = {left} of A and B" in remark.message
    assert remark.repair.startswith("one more iteration")


@pytest.mark.parametrize("side", [0, 1])
def test_a_cta_whose_rows_are_all_past_the_end_covers_no_k(side: int):
    """A grid may have more tiles than an operand has rows: the rest is fill. A tile that it leaves out is told as in others."""
    for tiles, codes in ((range(4), []), ((0, 1, 3), ["R508"])):
        gpu = Gpu("sm_90a")
        a, b = (tensor(gpu, (64, 256), (BOX, ROWS), name=name) for name in "AB")
        loads = [Load(one, (2 * n + one) * TILE, (64 * tile, "%y" if one == side else 0)) for n, tile in enumerate(tiles) for one in (0, 1)]
        products = [p for n in range(len(tiles)) for p in steps(2 * n * TILE, (2 * n + 1) * TILE)]
        found = run(kernel(2, loads, products), gpu, a, b, grid=2)
        assert [f.code for f in (*found.findings, *found.remarks)] == codes


@pytest.mark.parametrize(
    ("row", "fill", "codes"), [(64, None, []), (128, None, ["T209"]), (0, None, ["R508"]), (0, np.s_[64:], []), (128, np.s_[64:], [])]
)
def test_rows_that_no_load_brings_are_told_if_a_tile_was_meant_for_them(row: int, fill: object, codes: list[str]):
    """One tile of A times two of B, of 128 rows: the second one comes from `row`. Rows of zeros are padding."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64, 64), (BOX, ROWS), name="A"), tensor(gpu, (128, 64), (BOX, ROWS), fill=fill, name="B")
    loads = [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0)), Load(1, 2 * TILE, (0, row))]
    found = run(kernel(2, loads, [*steps(0, TILE), *steps(0, 2 * TILE, d=32)]), gpu, a, b)
    assert (found.findings, [f.code for f in found.remarks]) == ([], codes), found.text()
    assert all("no tensor load brings rows 64 to 127 of B" in f.why and "unless" in f.repair for f in found.remarks)


def test_another_batch_is_no_second_load_of_the_same_rows():
    """One tile of A times the first rows of both planes of B, a tensor with 128 rows in a plane."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64, 64), (BOX, ROWS), name="A"), tensor(gpu, (2, 128, 64), (BOX, ROWS, 1), name="B")
    loads = [Load(0, 0, (0, 0)), *(Load(1, (1 + n) * TILE, (0, 0, n)) for n in range(2))]
    found = run(kernel(2, loads, [*steps(0, TILE), *steps(0, 2 * TILE, d=32)]), gpu, a, b)
    assert (found.findings, found.remarks) == ([], []), found.text()


@pytest.mark.parametrize(("rows", "codes"), [(64, []), (72, ["R504", "R504"])])
def test_boxes_of_touching_rows_that_overlap_are_taps_of_a_convolution(rows: int, codes: list[str]):
    """Of 8 channels each: an instruction reads two taps. Of boxes of 72 rows it leaves out seven of the second tap."""
    gpu = Gpu("sm_90a")
    x = tensor(gpu, (80, 8), (8, rows), name="x", swizzle="none")
    w = tensor(gpu, (64, 32), (8, 64), name="w", swizzle="none")
    size = rows * 16
    loads = [
        Load(side, 4096 * side * 2 + n * (w_bytes := (size, 1024)[side]), ((0, n), (8 * n, 0))[side], w_bytes)
        for n in range(4)
        for side in (0, 1)
    ]
    a, b = (128 >> 4 << 32 | lbo >> 4 << 16 for lbo in (size, 1024))
    found = run(kernel(2, loads, [Product(2 * n * size, 8192 + 2048 * n, a, b) for n in range(2)]), gpu, x, w)
    assert (found.findings, [f.code for f in found.remarks if f.code == "R504"]) == ([], codes), found.text()


@pytest.mark.parametrize(
    ("rows", "second", "codes"),
    [
        (32, (8, 0), []),
        (32, (32, 0), []),
        (32, (160, 0), []),
        (64, (160, 0), []),
        (64, (8, 32), ["R508"]),
        (64, (32, 0), ["R508"]),
        (32, (64, 0), []),
    ],
    ids=["hop 8", "hop 32", "hop 160", "of more signals", "wrong k", "exchanged coordinates", "hop 64"],
)
@pytest.mark.parametrize("side", [0, 1])
def test_boxes_of_the_same_rows_at_two_k_are_frames_of_a_signal(rows: int, second: tuple[int, int], codes: list[str], side: int):
    """Two boxes of 32 rows are an operand with 64."""
    gpu = Gpu("sm_90a")
    x, w = tensor(gpu, (rows, 320), (BOX, 32), name="x"), tensor(gpu, (ROWS, 2 * BOX), (BOX, ROWS), name="w")
    loads, products = [], []
    for n in range(2):
        at = 2 * n * TILE
        frames = [Load(side, at + m * TILE // 2, (k + BOX * n, row), TILE // 2) for m, (k, row) in enumerate(((0, 0), second))]
        loads += [*frames, Load(1 - side, at + TILE, (BOX * n, 0))]
        products += steps(*((at, at + TILE) if side == 0 else (at + TILE, at)))
    found = run(kernel(2, loads, products), gpu, *((x, w) if side == 0 else (w, x)))
    assert [f.code for f in found.findings] == codes, found.text()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("hop", "tiles", "rows", "grid", "codes"),
    [
        (32, 2, 32, 2, []),
        (64, 2, 32, 2, []),
        (32, 2, 32, 1, ["R508"]),
        (32, 2, 64, 2, ["R508"]),
        (64, 2, 64, 2, ["R508"]),
        (32, 1, 32, 2, ["R508"]),
    ],
    ids=["the rows of a box", "one box", "rows that no CTA loads", "the row was meant", "the row, not the next box", "one K step"],
)
@pytest.mark.parametrize("side", [0, 1])
def test_frames_one_box_apart_are_right_if_all_rows_are_loaded(
    hop: int, tiles: int, rows: int, grid: int, codes: list[str], side: int, workers: int
):
    """A CTA multiplies two frames of 32 signals. It may also have 64 rows of its own and add the 32 to k by mistake."""
    gpu = Gpu("sm_90a")
    x, w = tensor(gpu, (64 * rows // 32, 320), (BOX, 32), name="x"), tensor(gpu, (ROWS, tiles * BOX), (BOX, ROWS), name="w")
    loads, products = [], []
    for n in range(tiles):
        at = 2 * n * TILE
        loads += [Load(side, at + m * TILE // 2, (BOX * n + m * hop, "%y"), TILE // 2) for m in range(2)]
        loads.append(Load(1 - side, at + TILE, (BOX * n, 0)))
        products += steps(*((at, at + TILE) if side == 0 else (at + TILE, at)))
    ptx = kernel(2, loads, products, before=f"shr.u32 %y, %y, {1 if rows == 32 else 0};")
    found = run(ptx, gpu, *((x, w) if side == 0 else (w, x)), grid=grid, workers=workers)
    assert ([f.code for f in found.findings], found.remarks) == (codes, []), found.text()
    missed = [reason for reason in found.judged.missed if "frames" in reason]
    assert (bool(missed), found.judged.instructions) == (not codes, 0 if missed else 4 * tiles * grid)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("wrong", ["", "A", "B"])
def test_beside_frames_the_products_of_other_tensors_are_judged_as_always(side: int, wrong: str):
    """Frames are taken out of what is compared; a sum of two matrices in the same launch stays, with its fault."""
    gpu = Gpu("sm_90a")
    x, w = tensor(gpu, (64, 320), (BOX, 32), name="x"), tensor(gpu, (ROWS, 2 * BOX), (BOX, ROWS), name="w")
    matrices = [tensor(gpu, (256, 256), (BOX, ROWS), name=name) for name in "AB"]
    loads, products = [], []
    for n in range(2):
        at = 2 * n * TILE
        loads += [Load(side, at + m * TILE // 2, (BOX * n + m * 32, "%y"), TILE // 2) for m in range(2)]
        loads.append(Load(1 - side, at + TILE, (BOX * n, 0)))
        products += steps(*((at, at + TILE) if side == 0 else (at + TILE, at)))
    for n in range(4):
        at = (4 + 2 * n) * TILE
        loads += [Load(2 + m, at + m * TILE, (BOX * (3 if n == 2 and wrong == "AB"[m] else n), 64 + 64 * m)) for m in range(2)]
        products += steps(at, at + TILE, d=32)
    maps = (x, w) if side == 0 else (w, x)
    found = run(kernel(4, loads, products, before="shr.u32 %y, %y, 1;"), gpu, *maps, *matrices, grid=2)
    assert [f.code for f in found.findings] == ["R508"] * bool(wrong), found.text()
    assert all(f"k = 192 of {wrong}" in f.message for f in found.findings)
    assert any("frames" in reason for reason in found.judged.missed)


SLICES = 3 << 62 | 16 >> 4 << 16  # a descriptor of rows of 32 bytes with their swizzle, without SBO


@pytest.mark.parametrize(
    ("rows", "sbo", "codes"),
    [
        (16, 256, []),
        (16, 512, ["D302", "R507"]),
        (32, 256, ["R501"]),
        (64, 256, ["R501"]),
    ],
    ids=["slice-K", "wrong stride", "half of a tile", "a tile of all rows"],
)
def test_an_operand_that_is_all_of_a_tile_in_more_rows_is_slice_k(rows: int, sbo: int, codes: list[str]):
    """Each row of A is read as four rows of 16 k; so is each of the 8 rows of B, whose slices follow one another. The
    program adds up those rows of D that belong together.
    """
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (rows, 64), (BOX, rows), name="A"), tensor(gpu, (8, 64), (BOX, 8), name="B")
    ptx = of_width(
        kernel(2, [Load(0, 0, (0, 0), rows * 128), Load(1, TILE, (0, 0), 1024)], [Product(0, TILE, SLICES | sbo >> 4 << 32, word(32))]), 32
    )
    found = run(ptx, gpu, a, b)
    assert [f.code for f in found.findings] == codes, found.text()
    assert codes or any("slice-K" in reason for reason in found.judged.missed)


@pytest.mark.parametrize(("count", "codes"), [(4, []), (3, ["R508"])], ids=["right", "a K step is missing"])
def test_rows_past_a_tile_that_the_program_may_ignore_are_no_frames(count: int, codes: list[str]):
    """B has 32 rows in two boxes of 64 k. With N = 64, an instruction reads on from the first box into the second one,
    whose own K steps follow.
    """
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (ROWS, 2 * BOX), (BOX, ROWS), name="A"), tensor(gpu, (32, 2 * BOX), (BOX, 32), name="B")
    at = [2 * TILE, 2 * TILE + TILE // 2]
    loads = [Load(0, n * TILE, (n * BOX, 0)) for n in range(2)]
    loads += [Load(1, to, (n * BOX, 0), TILE // 2) for n, to in enumerate(at)]
    spare = Load(0, 3 * TILE, (0, 0))
    found = run(kernel(2, [*loads, spare], [*steps(0, at[0]), *steps(TILE, at[1])[:count]]), gpu, a, b)
    assert [f.code for f in (*found.findings, *found.remarks) if "the tile of B" in f.what] == codes, found.text()
    assert found.judged.instructions == 4 + count


@pytest.mark.parametrize(("grid", "tiles", "codes"), [(1, 2, []), (2, 2, ["R508"]), (3, 2, []), (2, 4, []), (4, 1, ["R508"])])
@pytest.mark.parametrize("idle", [0, 2])
def test_ctas_that_all_multiply_one_part_of_k_have_a_remark(grid: int, tiles: int, codes: list[str], idle: int):
    """They are as many as the parts of K, of four tiles; other numbers of CTAs may leave the rest to other launches.
    CTAs in front of them that end at once do not count.
    """
    gpu = Gpu("sm_90a")
    maps = [tensor(gpu, (64, 256), (BOX, ROWS), name=name) for name in "AB"]
    loads = [Load(side, (2 * n + side) * TILE, (64 * n, 0)) for n in range(tiles) for side in (0, 1)]
    products = [p for n in range(tiles) for p in steps(2 * n * TILE, (2 * n + 1) * TILE)]
    found = run(kernel(2, loads, products, before=f"setp.lt.u32 %p, %x, {idle}; @%p ret;"), gpu, *maps, grid=idle + grid)
    assert (found.findings, [f.code for f in found.remarks]) == ([], codes), found.text()
    assert all(f.what.startswith(f"CTAs {idle}{' and' if grid == 2 else ','} {idle + 1} ") for f in found.remarks)
    assert all(f"and no tensor load brings k = {64 * tiles} to 255" in f.why for f in found.remarks)


@pytest.mark.parametrize(("order", "codes"), [((0, 1, 2, 3), []), ((0, 2, 1, 3), ["R502"]), ((2, 3, 0, 1), []), ((1, 0, 3, 2), [])])
def test_the_steps_of_one_pair_of_tensors_are_judged_by_themselves(order: tuple[int, ...], codes: list[str]):
    """Long runs of other tensors do not excuse them. Steps may be rotated, or exchanged in pairs as complex parts."""
    gpu = Gpu("sm_90a")
    maps = [tensor(gpu, (64, k), (BOX, ROWS), name=name) for k, names in ((128, "AB"), (64, "CD")) for name in names]
    loads = [Load(2 * (n == 2) + side, (2 * n + side) * TILE, (64 * n * (n < 2), 0)) for n in range(3) for side in (0, 1)]
    products = [*steps(0, TILE), *steps(2 * TILE, 3 * TILE), *(Product(4 * TILE + 32 * k, 5 * TILE + 32 * n) for n, k in enumerate(order))]
    assert [f.code for f in run(kernel(4, loads, products), gpu, *maps).findings] == codes


@pytest.mark.parametrize(
    ("sums", "codes"),
    [
        ([(1, 0, 3, 2)], ["R508"]),
        ([(1, 0, 3, 2), (0, 1, 2, 3)], []),  # the imaginary and the real part of complex numbers
        ([(1, 0, 3, 2), (1, 0, 3, 2)], ["R508"]),
        ([(2, 3, 0, 1)], []),  # rotated
        ([(0, 1, 2, 3)], []),
    ],
)
def test_steps_that_are_exchanged_in_all_sums_have_a_remark(sums: list[tuple[int, ...]], codes: list[str]):
    gpu = Gpu("sm_90a")
    maps = [tensor(gpu, (64, 64), (BOX, ROWS)) for _ in "AB"]
    products = [Product(32 * k, TILE + 32 * n, d=32 * d) for d, order in enumerate(sums) for n, k in enumerate(order)]
    done = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], products), gpu, *maps)
    assert (done.findings, [f.code for f in done.remarks]) == ([], codes), done.text()
    assert all("k = 0 of A is multiplied with k = 16 of B" in f.what for f in done.remarks)


@pytest.mark.parametrize(
    ("sums", "codes"),
    [
        ([(1, 0, 3, 2)], []),
        ([(0, 2), (1, 3)], []),  # two accumulators take turns
        ([(0, 3, 4, 7), (1, 2, 5, 6)], []),  # of two tiles
        ([(0, 2)], ["R502", "R502"]),
        ([(0, 2), (1, 2)], ["R502", "R502"]),  # one twice, one never
        ([(0, 2, 4, 6), (1, 3, 5)], ["R502", "R502"]),
    ],
)
def test_steps_of_both_operands_may_come_in_any_order_if_each_is_multiplied_once(sums: list[tuple[int, ...]], codes: list[str]):
    gpu, tiles = Gpu("sm_90a"), 1 + max(map(max, sums)) // 4
    maps = [tensor(gpu, (64, BOX * tiles), (BOX, ROWS)) for _ in "AB"]
    loads = [Load(side, (2 * n + side) * TILE, (n * BOX, 0)) for n in range(tiles) for side in (0, 1)]
    at = [2 * (n // 4) * TILE + 32 * (n % 4) for n in range(4 * tiles)]
    products = [Product(at[n], at[n] + TILE, d=32 * d) for d, order in enumerate(sums) for n in order]
    found = run(kernel(2, loads, products), gpu, *maps)
    assert [f.code for f in found.findings] == codes, found.text()
    assert found.judged.instructions == len(products)


RE = ((0, 0), (1, 1), (2, 2), (3, 3))  # K steps of A and B: the real parts are the first two


@pytest.mark.parametrize(
    ("sums", "is_right"),
    [
        ((RE, ((0, 2), (1, 3)), ((2, 0), (3, 1))), True),
        ((((0, 0), (2, 2), (1, 1), (3, 3)), ((0, 1), (2, 3)), ((1, 0), (3, 2))), True),
        ((RE, ((0, 2), (1, 2)), ((2, 0), (3, 1))), False),
        ((RE, ((0, 3), (1, 2)), ((2, 0), (3, 1))), False),
        ((RE, ((0, 2), (1, 3)), ((2, 0), (3, 0))), False),
        ((RE, ((0, 2), (1, 3)), ((2, 0),)), False),
    ],
    ids=["right", "parts take turns", "a step of B twice", "two steps of B exchanged", "twice in the other part", "one step is missing"],
)
def test_imaginary_parts_may_have_accumulators_of_their_own(sums: tuple[tuple[tuple[int, int], ...], ...], is_right: bool):
    """re(A) * im(B) is one, im(A) * re(B) another one."""
    gpu = Gpu("sm_90a")
    products = [Product(32 * a, TILE + 32 * b, d=32 * d) for d, pairs in enumerate(sums) for a, b in pairs]
    found = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], products), gpu, *[tensor(gpu, (64, BOX), (BOX, ROWS)) for _ in "AB"])
    assert (found.findings == []) == is_right, found.text()
    assert is_right or {"R502", "R508"} & {f.code for f in found.findings}, found.text()
    assert "not checked: whether A and B have the same k" in found.summary()


@pytest.mark.parametrize(
    ("sums", "is_right"),
    [
        ((((0, 2), (1, 3)), ((2, 0), (3, 1))), True),
        ((((0, 1), (2, 3)), ((1, 0), (3, 2))), True),
        ((((0, 2), (1, 3)), ((2, 0), (3, 0))), False),
        ((((0, 2), (1, 3)), ((2, 1), (3, 0))), False),
        ((((0, 2), (1, 3)), ((2, 0),)), False),
        ((((0, 2), (1, 3)),), False),
    ],
    ids=["right", "parts take turns", "a step of B twice", "two steps of B exchanged", "one step is missing", "one sum is missing"],
)
def test_the_imaginary_part_alone_may_have_two_accumulators(sums: tuple[tuple[tuple[int, int], ...], ...], is_right: bool):
    """Two halves of K with the wrong tiles of B look the same: so it is a remark."""
    gpu = Gpu("sm_90a")
    products = [Product(32 * a, TILE + 32 * b, d=32 * d) for d, pairs in enumerate(sums) for a, b in pairs]
    found = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], products), gpu, *[tensor(gpu, (64, BOX), (BOX, ROWS)) for _ in "AB"])
    assert (found.findings == []) == is_right, found.text()
    assert is_right or {"R502", "R508"} & {f.code for f in found.findings}, found.text()
    assert any("K steps are exchanged" in f.what for f in found.remarks) == is_right, found.text()


@pytest.mark.parametrize(("sums", "codes"), [([(0, 1, 2, 3)], []), ([(0, 2), (1, 3)], []), ([(0, 2)], ["R502"])])
def test_steps_of_b_with_a_in_registers_may_be_of_several_accumulators(sums: list[tuple[int, ...]], codes: list[str]):
    gpu = Gpu("sm_90a")
    ptx = kernel(1, [Load(0, 0, (0, 0))], [Product(0, 32 * n, d=32 * d) for d, order in enumerate(sums) for n in order])
    ptx = ptx.replace("%a, %b, %sums, 1, 1, 0, 0;", "{%tid, %tid, %tid, %tid}, %b, %sums, 1, 1, 0;")
    found = run(ptx, gpu, tensor(gpu, (64, BOX), (BOX, ROWS)))
    assert [f.code for f in found.findings] == codes, found.text()


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("sums", "codes"), [([(3, 2, 1, 0)], []), ([(1, 0, 3, 2)], []), ([(0, 2), (3, 1)], []), ([(0, 2, 1)], ["R502"])])
def test_steps_of_the_one_known_operand_may_come_in_any_order_if_each_is_multiplied_once(
    side: int, sums: list[tuple[int, ...]], codes: list[str]
):
    """A strided load, whose elements are not checked, brings the other one."""
    gpu = Gpu("sm_90a")
    known = tensor(gpu, (64, BOX), (BOX, ROWS))
    strided = changed(tensor(gpu, (128, BOX), (BOX, 2 * ROWS - 1)), element_strides=(1, 2))
    loads = [Load(0, side * TILE, (0, 0)), Load(1, (1 - side) * TILE, (0, 0))]
    products = [Product(32 * n, TILE + 32 * n, d=32 * d) for d, order in enumerate(sums) for n in order]
    found = run(kernel(2, loads, products), gpu, known, strided)
    assert [f.code for f in found.findings] == codes, found.text()
    assert found.judged.instructions == 0


@pytest.mark.parametrize(
    ("sums", "codes"),
    [([(0, 1, 2, 3)], []), ([(0, 2), (1, 3)], []), ([(3, 2, 1, 0)], []), ([(1, 0), (3, 2)], []), ([(0, 2)], ["R502", "R502"])],
)
def test_steps_of_a_sparse_product_may_be_of_several_accumulators(sums: list[tuple[int, ...]], codes: list[str]):
    """A step reads 16 stored k of A, and 32 of B, which has two boxes."""
    gpu = Gpu("sm_90a")
    maps = tensor(gpu, (64, BOX), (BOX, ROWS)), tensor(gpu, (64, 2 * BOX), (BOX, ROWS))
    loads = [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0)), Load(1, 2 * TILE, (BOX, 0))]
    products = [Product(32 * n, (1 + n // 2) * TILE + n % 2 * 64, d=32 * d) for d, order in enumerate(sums) for n in order]
    ptx = kernel(2, loads, products).replace(
        "wgmma.mma_async.sync.aligned.m64n64k16", "mov.b32 %at, 0x44444444; wgmma.mma_async.sp.sync.aligned.m64n64k32"
    )
    found = run(ptx.replace("%a, %b, %sums,", "%a, %b, %at, 0, %sums,"), gpu, *maps)
    assert [f.code for f in found.findings] == codes, found.text()
    assert found.judged.instructions == len(products)


@pytest.mark.parametrize("used", [1, 2, 3])
def test_steps_of_a_loaded_tile_may_be_left_out(used: int):
    """The last K steps of a tile, or one in the middle: nothing that is stored depends on them."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64, 64), (BOX, ROWS)), tensor(gpu, (64, 64), (BOX, ROWS))
    found = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], steps(0, TILE)[:used]), gpu, a, b)
    assert found.ok, found.text()
    assert {f.code for f in found.remarks} >= {"R508"}


@pytest.mark.parametrize("first", [0, 64])
def test_rows_of_a_loaded_tile_may_be_left_out(first: int):
    """A box of 128 rows, of which M = 64 takes the first or the last ones."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (128, 64), (BOX, 2 * ROWS)), tensor(gpu, (64, 64), (BOX, ROWS))
    loads = [Load(0, 0, (0, 0), 2 * TILE), Load(1, 2 * TILE, (0, 0))]
    found = run(kernel(2, loads, steps(first * 128, 2 * TILE)), gpu, a, b)
    assert found.ok, found.text()
    assert {f.code for f in found.remarks} & {"R504", "R508"}


def test_each_load_of_which_a_part_is_not_read_has_a_remark():
    """Also if another load comes first: a CTA that runs alone is told the same as in the whole grid."""
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (128, 64), (BOX, 2 * ROWS)) for _ in "ab")
    loads = [Load(0, 0, (0, 0), 2 * TILE), Load(1, 2 * TILE, (0, 0), 2 * TILE)]
    found = run(kernel(2, loads, steps(0, 2 * TILE)), gpu, a, b)
    assert found.ok, found.text()
    told = sorted(re.sub(r"line \d+ ", "", f.what) for f in found.remarks if f.code == "R504")
    assert told == [f"the instruction has {size} = 64, and loads 128 rows of {side} for it" for side, size in (("A", "M"), ("B", "N"))]
    fixes = [f.repair for f in sorted(found.remarks, key=lambda f: f.what[-12:]) if f.code == "R504"]
    assert fixes == ["a second wgmma for rows 64 to 127; or a box of 64 rows", "N = 128, or a smaller box"]


def test_a_part_of_the_grid_says_what_only_the_whole_grid_shows():
    whole, part = gemm(range(3), 256, split=True), gemm(range(3), 256, split=True, ctas=[1])
    assert (whole.findings, part.findings) == ([], [])
    assert "not checked: whether all of K is multiplied" in part.summary()
    assert "whether all of K is multiplied" not in whole.summary()


def test_a_tile_may_be_loaded_and_never_read():
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64, 64), (BOX, ROWS)), tensor(gpu, (128, 64), (BOX, ROWS))
    loads = [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0)), Load(1, 2 * TILE, (0, 64))]
    found = run(kernel(2, loads, steps(0, TILE)), gpu, a, b)
    assert found.ok, found.text()


def test_a_trip_may_be_missing_where_nothing_is_lost():
    assert gemm(range(4), 256).findings == []
    assert gemm(range(3), 256, fill=np.s_[:, 192:]).findings == []  # the tail is padding
    assert gemm(range(2), 256).findings == []  # half of K: somebody else's
    assert gemm(range(0, 4, 2), 256).findings == []  # some blocks of a sparse matrix
    assert gemm(range(4), 256, split=True).findings == []
    assert gemm(range(4), 256, split=True, ctas=range(3)).findings == []


LEFT_OUT = "not checked: whether the k that a sum leaves out between others are meant"


@pytest.mark.parametrize("tiles", [(0, 1, 3), (3, 0, 1), (0, 2)])
def test_a_tile_inside_of_k_that_no_instruction_multiplies_is_told(tiles: tuple[int, ...]):
    """Sparse and masked products leave out tiles on purpose: a remark, and the summary says so."""
    found = gemm(tiles, 256)
    (remark,) = found.remarks
    (gone,) = {*range(max(tiles))} - {*tiles}
    assert (found.findings, remark.code, LEFT_OUT in found.summary()) == ([], "R508", True)
    assert f"no instruction multiplies k = {64 * gone} to {64 * gone + 63}" in remark.message
    assert "wgmma.mma_async" in found.ptx.splitlines()[remark.line - 1]


def test_k_that_several_sums_share_out_or_that_is_zero_is_not_left_out():
    parts = gemm((0, 1, 2, 3), 256, split=True), gemm((2, 0, 3, 1), 256), gemm((0, 1, 3), 256, fill=np.s_[:, 128:192]), gemm((2, 3), 256)
    assert [(f.findings, [r.code for r in f.remarks], LEFT_OUT in f.summary()) for f in parts] == [([], [], False)] * 4
    far = gemm((0, 3), 256)  # two tiles are missing: some blocks of a sparse matrix
    assert (far.findings, far.remarks, LEFT_OUT in far.summary()) == ([], [], True)


WRITTEN_SINCE = "not checked: operands of tensor loads into whose tiles threads have written since"


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(
    ("at", "store"), [(0, ""), (256, "st.shared.v4.u32 [%at], {0, 0, 0, 0};"), (TILE + 516, "st.shared.u32 [%at], 5;"), (300, "st.shared.u8 [%at], %r0;")]
)  # fmt: skip
def test_an_operand_that_a_thread_has_changed_is_not_checked(at: int, store: str, tiers: str, monkeypatch: pytest.MonkeyPatch):
    """Threads convert and mask tiles on purpose. So there is no finding; but the map says no more what is multiplied."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (64, 64), (BOX, ROWS), name=name) for name in "AB")
    change = f"setp.ne.u32 %p, %tid, 0; @%p bra S; add.u32 %at, %tiles, {at}; mov.u32 %r0, 0; {store} fence.proxy.async.shared::cta; S: bar.sync 0;"
    text = kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], steps(0, TILE)).replace("@!%q bra L;", f"@!%q bra L; {change}", 1)
    found = run(text, gpu, a, b, grid=2)
    assert found.findings == []
    assert (WRITTEN_SINCE in found.summary()) == bool(store)


def test_a_change_in_every_line_of_a_tile_is_seen():
    """However many lines threads have changed, and wherever in them."""
    gpu = Gpu("sm_90a")
    a, b = (tensor(gpu, (64, 64), (BOX, ROWS), name=name) for name in "AB")
    change = "shl.b32 %r0, %tid, 7; add.u32 %at, %tiles, %r0; setp.gt.u32 %p, %tid, 63; @%p bra S; st.shared.u16 [%at+38], 5; fence.proxy.async.shared::cta; S: bar.sync 0;"
    text = kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], steps(0, TILE)).replace("@!%q bra L;", f"@!%q bra L; {change}", 1)
    found = run(text, gpu, a, b)
    assert (found.findings, WRITTEN_SINCE in found.summary()) == ([], True)


# ---- the rows and the k of one sum


def summed(at: Callable[[int, int], tuple[object, object]], *, tiles: int = 4, rank: int = 2, k: int = 256, sums: bool = True) -> Run:
    """Two CTAs, each with one sum of tiles of 64 k; `at` has (k, row) of a side's (0: A) tile, %y is 64 times the CTA's
    number. `sums`: else each tile is a sum of its own.
    """
    gpu = Gpu("sm_90a")
    more = (1,) * (rank - 2)
    maps = [tensor(gpu, (*more, 256, k), (BOX, ROWS, *more), name=name) for name in "AB"]
    loads = [
        Load(side, (2 * n + side) * TILE, (*at(side, n), *[0 for _ in more]))
        for n in range(tiles) for side in (0, 1)
    ]  # fmt: skip
    products = [p for n in range(tiles) for p in steps(2 * n * TILE, (2 * n + 1) * TILE)]
    if not sums:
        products = [p if n % 4 else dataclasses.replace(p, first=ZEROED) for n, p in enumerate(products)]
    return run(kernel(2, loads, products), gpu, *maps, grid=2)


def right(side: int, n: int) -> tuple[object, object]:
    return 64 * n, "%y" if side == 0 else 64


def but(
    wrong: int, those: Collection[int], other: Callable[[object, object], tuple[object, object]]
) -> Callable[[int, int], tuple[object, object]]:
    """The right coordinates, but of some tiles of a side (2: of both)."""
    return lambda side, n: other(*right(side, n)) if wrong in (side, 2) and n in those else right(side, n)


def swap(k: object, row: object) -> tuple[object, object]:
    return row, k


SWAPPED = [(0, (0,)), (0, (2,)), (1, (3,)), (0, (1, 2)), (1, range(4)), (2, (2,)), (2, range(4))]


@pytest.mark.parametrize(("side", "those"), SWAPPED)
@pytest.mark.parametrize("rank", [2, 3])
def test_swapped_coordinates_of_any_loads_are_found(side: int, those: Collection[int], rank: int):
    """Also where exchanged coordinates are those of another tile's row or k, and of a tensor with a batch."""
    found = summed(but(side, those, swap), rank=rank)
    assert {f.code for f in found.findings} == {"R508"}, found.text()
    assert all("tile are swapped" in f.message for f in found.findings)
    assert {f.message[f.message.index("of ") + 3] for f in found.findings} == {0: {"A"}, 1: {"B"}, 2: {"A", "B"}}[side]


PARTED: dict[str, tuple[Callable[[int, int], tuple[object, object]], int, int, str]] = {
    "another k": (but(0, (2,), lambda k, row: (192, row)), 0, 2, "k = 192 of A with k = 128 of B"),
    "the stage before": (but(1, (1,), lambda k, row: (0, row)), 1, 1, "k = 64 of A with k = 0 of B"),
    "k and row": (but(0, (1,), lambda k, row: (128, 192)), 0, 1, "k = 128 of A with k = 64 of B"),
    "k of A begins again": (but(0, (2, 3), lambda k, row: (k - 128, row)), 0, 2, "k = 0 of A with k = 128 of B"),
    "k of B begins again": (but(1, (2, 3), lambda k, row: (k - 128, row)), 1, 2, "k = 128 of A with k = 0 of B"),
    "one k": (but(1, range(4), lambda k, row: (0, row)), 1, 1, "k = 64 of A with k = 0 of B"),
    "one row": (but(0, (3,), lambda k, row: (k, 0)), 0, 3, "rows from 0 on at k = 192, and from 64 on at k = 0"),
}


@pytest.mark.parametrize("name", PARTED)
def test_a_tile_from_elsewhere_than_those_of_its_sum_is_found(name: str):
    at, side, n, message = PARTED[name]
    found = summed(at)
    (first,) = found.findings
    loads = [i for i, line in enumerate(found.ptx.splitlines(), 1) if "cp.async.bulk.tensor" in line]
    assert (first.code, first.line, message in first.message) == ("R508", loads[2 * n + side], True), found.text()


def test_a_tile_from_elsewhere_is_found_if_each_tile_is_a_sum_of_its_own():
    assert summed(right, sums=False).findings == []
    found = summed(but(0, (2,), lambda k, row: (192, row)), sums=False)
    assert [f.code for f in found.findings] == ["R508"], found.text()


@pytest.mark.parametrize("is_wrong", [False, True])
def test_tiles_of_other_rows_are_no_part_of_a_sum_however_far_their_k(is_wrong: bool):
    """Four tiles, each a sum of its own, and then four of other rows of A and of B that lie further along k: blocks of
    a matrix. The fault of the first four is found as if these were alone.
    """

    def at(side: int, n: int) -> tuple[object, object]:
        return 64 * (3 if is_wrong and (side, n) == (0, 2) else n), ("%y", 64)[side] if n < 4 else (128, 192)[side]

    found = summed(at, tiles=8, k=512, sums=False)
    assert [f.code for f in found.findings] == ["R508"] * is_wrong, found.text()
    assert "not checked: whether A and B have the same k" not in found.summary()


RIGHT: dict[str, tuple[Callable[[int, int], tuple[object, object]], dict[str, int], bool]] = {
    "k in another order": (lambda side, n: (64 * (2, 0, 3, 1)[n], right(side, n)[1]), {}, True),
    "k of a batch below each other": (lambda side, n: (0, 64 * n), {"k": 64}, False),
    "one k of a batch": (lambda side, n: (64, 64 * n), {}, False),
    "some of k": (lambda side, n: right(side, n + 1), {"tiles": 2}, True),
    "k of B a tile further": (lambda side, n: (64 * (n + side), right(side, n)[1]), {"tiles": 2}, False),
    "two products": (lambda side, n: (64 * (n % 2), 64 * (n // 2)), {}, False),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_may_be_meant_is_no_finding(name: str):
    """What is not decided is listed as not checked."""
    at, more, is_decided = RIGHT[name]
    found = summed(at, **more)
    assert found.findings == []
    assert ("not checked: whether A and B have the same k" in found.summary()) != is_decided


PAIRS = {
    "parts of complex numbers": ((0, 2), (1, 3), (2, 0), (3, 1)),
    "parts of complex numbers in turn": ((0, 1), (1, 0), (2, 3), (3, 2)),
    "parts of split numbers": ((0, 0), (1, 1), (0, 2), (1, 3), (2, 0), (3, 1)),
    "another order of parts": ((0, 1), (1, 2), (2, 3), (3, 0)),
    "a circular convolution": ((0, 0), (3, 1), (2, 2), (1, 3)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_parts_of_numbers_that_are_next_to_each_other_along_k_may_be_meant(name: str):
    """The real part of A and the imaginary part of B have another k. With a wrong stage they would not be loaded so."""
    pairs = PAIRS[name]
    found = summed(lambda side, n: (64 * pairs[n][side], right(side, n)[1]), tiles=len(pairs))
    assert found.findings == []
    assert "not checked: whether A and B have the same k" in found.summary()


def test_parts_in_arrays_of_their_own_have_the_same_rows_or_nobody_knows_what_is_meant():
    """High and low parts of A and B: A's high part times B's low part is added to the product of the high parts."""
    for row, is_open in ((0, False), (64, True)):
        gpu = Gpu("sm_90a")
        maps = [tensor(gpu, (128, 64), (BOX, ROWS), name=name) for name in ("AH", "AL", "BH", "BL")]
        loads = [Load(side, side * TILE, (0, row * (side == 3))) for side in range(4)]
        found = run(kernel(4, loads, [*steps(0, 2 * TILE), *steps(TILE, 2 * TILE), *steps(0, 3 * TILE)]), gpu, *maps)
        assert (found.findings, "not checked: whether A and B have the same k" in found.summary()) == ([], is_open)


@pytest.mark.parametrize("stages", [(1, 0, 3, 2), (1, 2, 3, 0), (0, 1, 3, 2)])
def test_tiles_of_other_stages_than_they_are_loaded_for_are_found(stages: tuple[int, ...]):
    gpu = Gpu("sm_90a")
    maps = [tensor(gpu, (64, 256), (BOX, ROWS), name=name) for name in "AB"]
    loads = [Load(side, (2 * n + side) * TILE, (64 * n, 0)) for n in range(4) for side in (0, 1)]
    found = run(kernel(2, loads, [p for n, of in enumerate(stages) for p in steps(2 * n * TILE, (2 * of + 1) * TILE)]), gpu, *maps)
    assert {f.code for f in found.findings} == {"R508"}, found.text()


def paired(
    pairs: list[tuple[int, int]],
    tiles: tuple[int, int],
    *,
    wide: tuple[int, int] | None = None,
    loaded: int | None = None,
    low: int | None = None,
    scale: float = 1,
) -> Run:
    """A sum of instructions of 16 k: which of A's and which of B's, in `tiles` of 64 k that are loaded once; `loaded`
    of B. Maps have `wide` k. From the k `low` on the numbers are small.
    """
    gpu = Gpu("sm_90a")
    maps = [
        tensor(gpu, (64, k), (BOX, ROWS), name=name, low=low, scale=scale)
        for k, name in zip(wide or [64 * n for n in tiles], "AB", strict=True)
    ]
    counts = tiles[0], tiles[1] if loaded is None else loaded
    loads = [Load(side, (side * tiles[0] + n) * TILE, (64 * n, 0)) for side in (0, 1) for n in range(counts[side])]
    products = [Product(*((4 * side * tiles[0] + k) // 4 * TILE + k % 4 * 32 for side, k in enumerate(pair))) for pair in pairs]
    return run(kernel(2, loads, products), gpu, *maps)


def tile_pairs(*tiles: tuple[int, int]) -> list[tuple[int, int]]:
    return [(4 * a + k, 4 * b + k) for a, b in tiles for k in range(4)]


SPLIT: dict[str, tuple[list[tuple[int, int]], tuple[int, int]]] = {
    "two parts of A": (tile_pairs((0, 0), (1, 0)), (2, 1)),
    "two parts of B": (tile_pairs((0, 0), (0, 1)), (1, 2)),
    "two parts of both": (tile_pairs((0, 0), (1, 0), (0, 1)), (2, 2)),
    "small parts first": (tile_pairs((0, 1), (1, 0), (0, 0)), (2, 2)),
    "three parts of both": (tile_pairs((0, 2), (1, 1), (2, 0), (0, 1), (1, 0), (0, 0)), (3, 3)),
    "two k tiles": (tile_pairs((0, 0), (1, 0), (2, 1), (3, 1)), (4, 2)),
    "parts in turn": ([pair for k in range(4) for pair in ((k, k), (4 + k, k))], (2, 1)),
    "parts within a tile": ([(0, 0), (1, 1), (2, 0), (3, 1), (0, 2), (1, 3)], (1, 1)),
    "real and imaginary parts within a tile": ([(0, 2), (1, 3), (2, 0), (3, 1)], (1, 1)),
}


@pytest.mark.parametrize("name", SPLIT)
def test_a_tile_that_is_loaded_once_may_be_multiplied_with_several(name: str):
    """Parts of split numbers lie along K: each tile is loaded once."""
    found = paired(*SPLIT[name])
    assert found.findings == [], found.text()
    assert "not checked: whether A and B have the same k" in found.summary()


WRONG_STARTS: dict[str, tuple[list[tuple[int, int]], tuple[int, int], int | None, str]] = {
    "a step of A's second part": ([*tile_pairs((0, 0)), (4, 0), (5, 1), (5, 2), (7, 3)], (2, 1), None, "R503"),
    "a tile of B that nothing reads": (tile_pairs((0, 0), (1, 0)), (2, 2), None, "R50"),
    "steps of one operand in another order": ([(0, 0), (1, 2), (2, 1), (3, 3)], (1, 1), None, "R502"),
    "a part of A that meets no part of B": (tile_pairs((0, 0), (1, 0)), (2, 2), 1, "R508"),
}


@pytest.mark.parametrize("name", WRONG_STARTS)
def test_a_wrong_start_in_such_a_sum_is_found(name: str):
    pairs, tiles, loaded, code = WRONG_STARTS[name]
    found = paired(pairs, tiles, loaded=loaded)
    assert any(f.code.startswith(code) for f in found.findings), found.text()


@pytest.mark.parametrize(
    ("tiles", "wide"), [(((0, 0), (0, 1)), (1, 2)), (((0, 0), (1, 0)), (2, 1)), (((0, 0), (1, 1), (0, 2), (1, 3)), (2, 4))]
)
def test_one_part_of_split_numbers_may_be_multiplied_with_all_of_others(tiles: tuple[tuple[int, int], ...], wide: tuple[int, int]):
    """A_high * (B_high + B_low), and A's low part is never used: a remark. Parts of one size are no split numbers, and
    those with NaN are judged by their other numbers. Numbers that are all 0 cannot tell: a remark that says so.
    """
    low_k = 32 * max(wide)
    for low, scale, is_split in ((low_k, 1, True), (None, 1, False), (low_k, math.nan, True), (None, math.nan, False), (None, 0, True)):
        found = paired(tile_pairs(*tiles), wide, wide=(64 * max(wide),) * 2, low=low, scale=scale)
        told = [[f for f in each if f.code == "R508"] for each in (found.findings, found.remarks)]
        assert [len(each) for each in told] == ([0, 1] if is_split else [1, 0]), found.text()
        assert ("all numbers of these parts are 0" in found.text()) == (not scale)


def test_planes_that_add_up_are_not_checked():
    """One tile of B may be that of a wrong plane, or several planes may be meant."""
    gpu = Gpu("sm_90a")
    maps = [tensor(gpu, (2, 64, 128), (BOX, ROWS, 1), name=name) for name in "AB"]
    loads = [Load(side, (2 * n + side) * TILE, (64 * n, 0, side * n)) for n in range(2) for side in (0, 1)]
    found = run(kernel(2, loads, [p for n in range(2) for p in steps(2 * n * TILE, (2 * n + 1) * TILE)]), gpu, *maps)
    assert (found.findings, "not checked: whether A and B have the same k" in found.summary()) == ([], True)


def test_rows_that_are_always_as_far_away_may_be_meant():
    """Such as channels that are shifted in time: a remark."""
    found = summed(but(1, (1,), lambda k, row: (k, 128)))
    assert found.findings == []
    assert [f.code for f in found.remarks if "shifted rows" in f.repair] == ["R508"], found.text()


def test_other_rows_for_each_k_may_be_meant():
    """Such as rows that a table lists: a remark, also if another CTA has others."""
    rows = (128, "%y", 192)
    found = summed(lambda side, n: (64 * n, rows[n] if side == 0 else 64), tiles=3)
    assert found.findings == []
    assert [f.code for f in found.remarks if "shifted rows" in f.repair] == ["R508"], found.text()


def test_an_operand_that_goes_on_in_the_next_box_of_its_tensor_is_not_interchanged():
    """A has 64 rows of a tile of 128. B has the 64 rows of its tile, and 64 of another place."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (2 * ROWS, BOX), (BOX, 2 * ROWS)), tensor(gpu, (4 * ROWS, BOX), (BOX, ROWS))
    loads = [Load(0, 0, (0, 0), 2 * TILE), Load(1, 2 * TILE, (0, 0)), Load(1, 3 * TILE, (0, 96))]
    found = run(of_width(kernel(2, loads, steps(0, 2 * TILE)), 128), gpu, a, b)
    assert found.findings == [], found.text()


# ---- rows that several boxes bring


def in_boxes(side: str, places: list[tuple[int, int]], *, table: str = "", sbo: int = ATOM) -> Run:
    """A product whose A or B comes in boxes, one after the other: of each its first k and its first row. `table`: an
    instruction that loads the row of the second one into %c4.
    """
    gpu, count = Gpu("sm_90a"), len(places)
    of = [tensor(gpu, (256, 128), (BOX, ROWS // count)), tensor(gpu, (ROWS, 128), (BOX, ROWS))]
    boxes = [Load(0, n * TILE // count, (k, "%c4" if table and n == 1 else row), TILE // count) for n, (k, row) in enumerate(places)]
    at = (0, TILE) if side == "a" else (TILE, 0)
    products = [dataclasses.replace(p, **{f"word_{side}": word(sbo)}) for p in steps(*at)]  # type: ignore[arg-type]
    return run(kernel(2, [*boxes, Load(1, TILE, (0, 0))], products, before=table), gpu, *of)


PAGES = {
    "two halves": [(0, 0), (0, 96)], "the other order": [(0, 32), (0, 0)], "pages": [(0, 64), (0, 0), (0, 112), (0, 32)],
    "pages of 8 rows": [(64, row) for row in (8, 64, 0, 120, 32, 200, 16, 96)],
}  # fmt: skip


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("name", PAGES)
def test_rows_from_several_places_may_be_meant(side: str, name: str):
    """Pages of a cache, gate and up halves of a weight, gathered rows: each row of D belongs to its own."""
    found = in_boxes(side, PAGES[name])
    assert found.findings == [], found.text()
    assert "not checked: operands whose rows come from several places in global memory" in found.summary()


WRONG_PAGES: dict[str, tuple[list[tuple[int, int]], dict[str, int]]] = {
    "one of them twice": ([(0, 32), (0, 32)], {}),
    "another k": ([(0, 0), (64, 96)], {}),
    "SBO of two atoms": ([(0, 0), (0, 96)], {"sbo": 2 * ATOM}),
    "SBO of half an atom": ([(0, 0), (0, 96)], {"sbo": ATOM // 2}),
}


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("name", WRONG_PAGES)
def test_boxes_that_cannot_be_one_operand_are_found(side: str, name: str):
    places, more = WRONG_PAGES[name]
    findings = in_boxes(side, places, **more).findings  # type: ignore[arg-type]
    assert any(f.code[0] in "RD" for f in findings)
    assert any("two loads bring the same box of the tensor, at coordinates [0, 32]" in f.why for f in findings) == (
        name == "one of them twice"
    )


STRAYS: dict[str, tuple[list[tuple[int, int]], str, str]] = {
    "the third of four": ([(0, 0), (0, 16), (0, 96), (0, 48)], "begins at 96 in dimension 1", "need 32 there"),
    "the first of four": ([(0, 8), (0, 16), (0, 32), (0, 48)], "begins at 8 in dimension 1", "need 0 there"),
    "two that overlap": ([(0, 0), (0, 16)], "overlap: they begin at 0 and 16 in dimension 1", "have 32 there"),
    "two that overlap backwards": ([(0, 64), (0, 40)], "overlap: they begin at 64 and 40 in dimension 1", "have 32 there"),
    "one of eight": ([(64, 8 * n if n != 5 else 192) for n in range(8)], "begins at 192 in dimension 1", "need 40 there"),
}


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("name", [*STRAYS, *PAGES])
def test_one_box_apart_from_the_others_is_a_remark(side: str, name: str):
    """Boxes from several places may be meant, and are silent. If all but one follow one another, that one is named."""
    places, at, wanted = STRAYS.get(name, (PAGES.get(name, []), "", ""))
    found = in_boxes(side, places)
    assert found.findings == [], found.text()
    told = [f.what for f in found.remarks if "other boxes need" in f.what or "overlap" in f.what]
    assert [at in what and wanted in what for what in told] == [True] * bool(at), found.text()


@pytest.mark.parametrize(("lbo", "second", "code"), [(4096, 64, ""), (4096, 32, ""), (8192, 32, "D308"), (8192, 64, "R508")])
def test_a_stride_over_a_panel_of_four_is_found(lbo: int, second: int, code: str):
    """Four panels of 32 columns of an MN-major B are loaded, of which an instruction reads two. The second one has the
    next columns, or others that may be meant.
    """
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (64, 64), (BOX, ROWS)), tensor(gpu, (64, 256), (32, 64))
    shape = {name: getattr(b, name) for name in ("global_address", "global_dim", "global_strides", "box_dim")}
    b = TensorMap.tiled(data_type="f16", swizzle="64B", **shape)
    boxes = [Load(1, TILE + 4096 * n, (at, 0), 4096) for n, at in enumerate((0, second, 96, 128))]
    products = [Product(32 * n, TILE + 1024 * n, word_b=2 << 62 | without_swizzle(lbo, 512), transposed=True) for n in range(4)]
    found = run(kernel(2, [Load(0, 0, (0, 0)), *boxes], products), gpu, a, b)
    assert [f.code for f in found.findings if f.code != "R504"][:1] == [code] * bool(code), found.text()


@pytest.mark.parametrize(("rows", "is_told"), [(64, False), (80, True)])
def test_a_ring_of_rows_that_begins_anew_has_no_box_apart(rows: int, is_told: bool):
    """The other boxes need row 64: in a tensor of 64 rows there is none."""
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (ROWS, BOX), (BOX, ROWS)), tensor(gpu, (rows, BOX), (BOX, 16))
    boxes = [Load(1, TILE + 2048 * n, (0, row), 2048) for n, row in enumerate((16, 32, 48, 0))]
    found = run(kernel(2, [Load(0, 0, (0, 0)), *boxes], steps(0, TILE)), gpu, a, b)
    assert found.findings == []
    assert any("other boxes need 64" in f.what for f in found.remarks) == is_told


def test_a_coordinate_from_a_table_is_no_box_apart():
    places = [(0, 0), (0, 96), (0, 32), (0, 48)]
    found = in_boxes("b", places, table="ld.global.u32 %c4, [%out]; add.u32 %c4, %c4, 8;")
    assert not any("other boxes need" in f.what for f in found.remarks), found.text()


def test_a_table_may_name_one_place_twice():
    found = in_boxes("b", [(0, 32), (0, 32)], table="ld.global.u32 %c4, [%out]; add.u32 %c4, %c4, 32;")
    assert found.findings == [], found.text()


# ---- two products on one accumulator


def heads(which: str, second: tuple[int, ...] = (0, 1, 2, 3), *, zeroed: bool = True, **more: object) -> Run:
    """One tile and then another one are multiplied with a third, each into the same registers by instructions that add,
    as of two heads or two tiles of keys.

    "tiles of B": A's tile stays, B's rows go on. "heads of A": B's tile stays, A's head goes on along the columns of
    its tensor. `zeroed`: so are the registers between them, `second` is the order in which the second product takes A's
    steps.
    """
    gpu, is_a = Gpu("sm_90a"), which == "heads of A"
    a, b = (tensor(gpu, (128, 128), (BOX, ROWS), name=name) for name in "AB")
    loads = [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0)), Load(0, 2 * TILE, (64, 0)) if is_a else Load(1, 2 * TILE, (0, 64))]
    last = [
        dataclasses.replace(p, a=p.a + 32 * (k - n))
        for n, (k, p) in enumerate(zip(second, steps(*(2 * TILE, TILE) if is_a else (0, 2 * TILE)), strict=True))
    ]
    if zeroed:
        last[0] = dataclasses.replace(last[0], first=ZEROED)
    return run(kernel(2, loads, [*steps(0, TILE), *last]), gpu, a, b, **more)


@pytest.mark.parametrize("which", ["tiles of B", "heads of A"])
def test_two_products_with_one_tile_are_two(which: str):
    assert heads(which).findings == []


@pytest.mark.parametrize("which", ["tiles of B", "heads of A"])
def test_a_wrong_order_of_k_in_one_of_two_products_is_found(which: str):
    found = heads(which, (0, 2, 1, 3))
    assert [f.code for f in found.findings] == ["R502"], found.text()
    assert "only K steps 0, 3 of 4 are right" in found.findings[0].message


def test_two_products_may_add_up():
    assert heads("tiles of B", zeroed=False).findings == []


@pytest.mark.parametrize("schedule", [None, "latest"])
def test_a_sum_that_goes_on_with_another_k_is_found(schedule: str | None):
    """Nobody has zeroed the registers: the second head's k of A meets the first one's of B in one sum."""
    assert heads("heads of A", schedule=schedule).findings == []
    found = heads("heads of A", zeroed=False, schedule=schedule)
    assert [f.code for f in found.findings] == ["R508"], found.text()


# ---- what may be a consequence


UNWRITTEN = "mov.u32 %r1, spare; ld.shared.u32 %r2, [%r1]; st.global.u32 [%out], %r2;"


def hanging(before: str = "", expect: int | None = None) -> Run:
    gpu = Gpu("sm_90a")
    return run(kernel(1, [Load(0, 0, (0, 0))], steps(0, 0), before=before, expect=expect), gpu, tensor(gpu, (64, 64), (BOX, ROWS)))


def test_a_hang_follows_from_what_is_found_of_its_own_barrier():
    found = {f.code: f for f in hanging(expect=TILE + 16).findings}
    assert found["X006"].because == f"follows from T210 at line {found['T210'].line}"


def test_findings_about_other_bytes_are_no_consequences():
    wait = "mov.u32 %r3, other; mbarrier.init.shared.b64 [%r3], 200; bar.sync 0; M: mbarrier.try_wait.parity.shared.b64 %q, [%r3], 0; @!%q bra M;"
    found = {f.code: f for f in hanging(before=f"{UNWRITTEN}\n{wait}").findings}
    assert {"R507", "X006"} <= set(found)
    assert [f.because for f in (found["R507"], found["X006"]) if "consequence" in f.because] == []


# Threads of warp 1 write the 64 bytes behind the tiles, one of them bytes of B's third K step: without a fence.
BEHIND = "sub.u32 %r2, %tid, 32; setp.lt.u32 %q, %r2, 16; mov.u32 %r1, spare; mad.lo.u32 %r1, %r2, 4, %r1; @%q st.shared.u32 [%r1], %tid;"
INSIDE = "add.u32 %r1, %tiles, 64; setp.eq.u32 %q, %tid, 32; @%q st.shared.u32 [%r1], 0; bar.sync 0;"


@pytest.mark.parametrize(
    ("by", "before", "inside", "own", "following"),
    [
        (32, BEHIND, "", set(), set()),
        (384, BEHIND, "", {"R502"}, {"X003"}),
        (384, "", INSIDE, {"R502", "X003"}, set()),
        (32, "", INSIDE, {"X003"}, set()),
    ],
    ids=["right", "past the tile", "wrong steps, and a missing fence", "a missing fence"],
)
def test_races_outside_of_a_tile_follow_from_its_wrong_k_steps(by: int, before: str, inside: str, own: set[str], following: set[str]):
    gpu = Gpu("sm_90a")
    a, b = tensor(gpu, (ROWS, BOX), (BOX, ROWS)), tensor(gpu, (ROWS, BOX), (BOX, ROWS))
    products = [Product(TILE + by * k, 32 * k, first=inside if not k else "") for k in range(4)]
    found = run(
        kernel(2, [Load(1, 0, (0, 0)), Load(0, TILE, (0, 0))], products, before=before), gpu, a, b, try_fixes=False, shared_bytes=2048
    )
    grave = [f for f in found.findings if f.severity in ("trap", "wrong")]
    assert {f.code for f in grave if f.cause is None} == own, found.text()
    assert {f.code for f in grave if f.cause is not None and f.cause.code == "R502"} >= following, found.text()


def test_every_code_has_a_place_among_causes():
    assert set(UPSTREAM) == set(CODES)
    assert set(CODES) > CONSEQUENCES


def test_infinities_in_a_product_that_is_stored_are_numbers_as_others():
    def infinite(name: str, array: np.ndarray) -> np.ndarray:
        array.reshape(-1)[::97], array.reshape(-1)[5::97] = 0x7F80, 0xFF80  # bf16
        return array

    done, _ = launched(CLUSTER, Fault("", CLUSTER, "", "", arrays=infinite))
    assert done.findings == []


def test_a_part_of_a_tile_that_is_not_read_does_not_follow_from_uninitialised_bytes():
    """Half of K is not multiplied, whether the arrays are written or not."""
    told = {}
    for is_written in (False, True):
        gpu = Gpu("sm_90a")
        maps = [tensor(gpu, (64, 64), (BOX, ROWS)) for _ in "ab"]
        if not is_written:
            empty = gpu.empty((64, 64), np.float16)
            maps[0] = dataclasses.replace(maps[0], global_address=empty.address)
        found = run(kernel(2, [Load(0, 0, (0, 0)), Load(1, TILE, (0, 0))], steps(0, TILE)[:2]), gpu, *maps)
        assert [f.code for f in found.findings] == ([] if is_written else ["R507"])
        told[is_written] = {(f.code, f.message, f.because, f.printed.fix()) for f in found.remarks if f.code == "R508"}
    assert len(told[True]) == 2
    assert told[True] == told[False]


ROWS_OF_WARPS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry rows(.param .u64 a, .param .u64 out) {
  .reg .pred %p; .reg .b32 %t, %w, %l, %x, %s, %at, %to, %n<4>, %b; .reg .b64 %a, %o, %d; .reg .f32 %f<4>;
  .shared .align 128 .b8 tile[1024];
  mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; and.b32 %l, %t, 31; mov.u32 %x, %ctaid.x; mov.u32 %s, tile; mov.b32 %b, 0x3c003c00;
  ld.param.u64 %a, [a]; ld.param.u64 %o, [out]; mad.lo.u32 %at, %x, 1024, 0; shl.b32 %to, %t, 4; add.u32 %at, %at, %to;
  mul.wide.u32 %d, %at, 1; add.s64 %a, %a, %d; add.u32 %to, %to, %s;
  cp.async.cg.shared.global [%to], [%a], 16; cp.async.wait_all; bar.sync 0;
  AT; and.b32 %to, %l, 15; shl.b32 %to, %to, 5; add.u32 %at, %at, %to; shr.u32 %to, %l, 4; shl.b32 %to, %to, 4; add.u32 %at, %at, %to;
  add.u32 %at, %at, %s; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%n0, %n1, %n2, %n3}, [%at];
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%n0, %n1, %n2, %n3}, {%b, %b}, {%f0, %f1, %f2, %f3};
  mad.lo.u32 %at, %x, 64, %t; mul.wide.u32 %d, %at, 4; add.s64 %d, %d, %o; st.global.f32 [%d], %f0;
END: ret;
}"""
OWN = "shl.b32 %at, %w, 9"
SKIPS = "setp.eq.u32 %p, {what}, 1; @%p bra END; " + OWN


BULK_COPY = """.shared .align 8 .b64 bar; mov.u32 %n0, bar; setp.ne.u32 %p, %t, 0; @%p bra WAIT;
  mbarrier.init.shared.b64 [%n0], 1; fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx.shared.b64 _, [%n0], 1024;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%to], [%a], 1024, [%n0];
WAIT: bar.sync 0;
L: mbarrier.try_wait.parity.shared.b64 %p, [%n0], 0; @!%p bra L;"""


@pytest.mark.parametrize("copy", ["cp.async", "cp.async.bulk"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("at", "fill", "is_right"),
    [
        (OWN, 1, True),
        ("mov.b32 %at, 0", 1, False),
        (SKIPS.format(what="%w"), 1, False),
        (SKIPS.format(what="%x"), 1, True),
        ("mov.b32 %at, 0", 0, True),
    ],
    ids=["own rows", "no row offset", "warp 1 leaves", "CTA 1 leaves", "the rows are padding"],
)
def test_rows_that_a_copy_brings_and_no_warp_reads_have_a_remark(at: str, fill: int, is_right: bool, workers: int, copy: str):
    """Each of two warps multiplies 16 of 32 rows. CTAs at an edge may leave out rows that others read."""
    gpu = Gpu("sm_90a")
    rows = np.ones((2, 32, 16), np.float16)
    rows[:, 16:] *= fill
    ptx = ROWS_OF_WARPS.replace("AT;", at + ";")
    if copy == "cp.async.bulk":
        ptx = ptx.replace("cp.async.cg.shared.global [%to], [%a], 16; cp.async.wait_all; bar.sync 0;", BULK_COPY)
    found = gpu.launch(ptx, grid=2, block=64, args=[gpu.array(rows), gpu.zeros(128, np.float32)], workers=workers)
    assert (found.findings, [f.code for f in found.remarks]) == ([], [] if is_right else ["R510"]), found.text()
    assert all("512 bytes" in f.what and first_remark(found).startswith(copy) for f in found.remarks)


THREADS_COPY = "cp.async.cg.shared.global [%to], [%a], 16; cp.async.wait_all; bar.sync 0;"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%to{}], [%a], {}, [%n0];"
VOLATILE = "bar.sync 0; shl.b32 %at, %t, 4; add.u32 %at, %at, %s; ld.volatile.shared.v4.b32 {%n0, %n1, %n2, %n3}, [%at];"
FIRST_ROWS, SECOND_ROWS = "mov.b32 %at, 0", "mov.b32 %at, 512"  # the rows that both warps read
WROTE = "shl.b32 %at, %t, 3; add.u32 %at, %at, %s; st{}.shared.v2.b32 [%at+1024], {{%t, %t}};"


def bulk(*copies: str) -> str:
    """All copies of a launch, with the bytes that its mbarrier expects."""
    size = sum(int(copy.split(", ")[-2]) for copy in copies)
    return BULK_COPY.replace("_, [%n0], 1024;", f"_, [%n0], {size};").replace(BULK.format("", 1024), "\n".join(copies))


@pytest.mark.parametrize(
    ("copy", "at", "told"),
    [
        (THREADS_COPY, SECOND_ROWS, "cp.async.cg"),
        (bulk(BULK.format("", 1024)), SECOND_ROWS, "cp.async.bulk"),
        (bulk(BULK.format("", 512), BULK.format("+512", 512)), FIRST_ROWS, None),
        (bulk(BULK.format("+1024", 512), BULK.format("", 1024)), FIRST_ROWS, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%to], "),
        (WROTE.format("") + THREADS_COPY, OWN, None),
        (THREADS_COPY + VOLATILE, FIRST_ROWS, None),
        (WROTE.format(".volatile") + THREADS_COPY, FIRST_ROWS, "cp.async.cg"),
    ],
    ids=["the first warp's rows", "the first rows of a bulk copy", "a bulk copy ahead", "the second bulk copy", "stored words", "volatile loads", "volatile stores of others"],
)  # fmt: skip
def test_what_one_cta_copies_and_leaves_unread(copy: str, at: str, told: str | None):
    """A copy that is not read at all may be one for the next tile. Words that threads store are no copies."""
    gpu = Gpu("sm_90a")
    ptx = ROWS_OF_WARPS.replace(THREADS_COPY, f"{copy}\n").replace("AT;", at + ";").replace("tile[1024]", "tile[2048]")
    ptx = ptx.replace("cp.async.cg", "\ncp.async.cg")
    found = gpu.launch(ptx, grid=1, block=64, args=[gpu.array(np.ones((32, 16), np.float16)), gpu.zeros(64, np.float32)])
    assert (found.findings, [f.code for f in found.remarks]) == ([], ["R510"] if told else []), found.text()
    assert told is None or ("512 bytes" in found.remarks[0].what and first_remark(found).startswith(told))


def first_remark(found: Run) -> str:
    return found.ptx.splitlines()[found.remarks[0].line - 1].strip()
