"""Where D, A, scale factors and metadata lie in tensor memory: bijections over every shape, and CUTLASS's layouts as a
second source.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cute import parse
from smemsim import AccumulatorLayout, ATmemLayout, InputError, MetadataLayout, ScaleLayout, TmemAddress, Unmodelled
from smemsim.core.layout import tensor_memory as formulas
from smemsim.core.machine import legal_n
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_memory import (
    A_CONTAINER_BITS,
    ACCUMULATORS,
    COPY_SHAPES,
    DECOMPRESSIONS,
    LANES,
    LOAD_STORE_SHAPES,
    METADATA,
    SCALE_MODES,
    SHIFT,
    TENSOR_MEMORY_DISPUTES,
)
from strategies import examples

FORMS = [  # every M x cta_group x .ws x .sp that there is
    {"m": path.m, "cta_group": path.cta_group, "ws": ws, "sparse": sparse}
    for path in ACCUMULATORS
    for ws, sparse in itertools.product((False, True), repeat=2)
    if path.ws in (None, ws) and path.sparse in (None, sparse)
]
SHAPES = [form | {"n": n} for form in FORMS for n in legal_n(form["cta_group"], form["ws"], form["sparse"])]


def named(form):
    return "-".join(f"{key}{int(value)}" for key, value in form.items())


def cells(layout):
    return np.meshgrid(np.arange(layout.cta_group), np.arange(LANES), np.arange(512), indexing="ij")


# ---- addresses ---------------------------------------------------------------------------------------------------------------------


def test_published_addresses():
    """Triton: a second M = 64 tile at 1048576, a tile at 4194306."""
    assert TmemAddress.decode(1048576) == TmemAddress(16, 0)
    assert TmemAddress.decode(4194306) == TmemAddress(64, 2)


@examples(100)
@given(st.integers(0, 127), st.integers(0, 511), st.integers(0, 127), st.integers(0, 511))
def test_addresses_go_both_ways_and_add_up(lane, column, lanes, columns):
    address = TmemAddress(lane, column)
    assert TmemAddress.decode(address.encode()) == address
    if lane + lanes < 128 and column + columns < 512:
        assert address.advance(lanes=lanes, columns=columns).encode() == address.encode() + (lanes << 16) + columns
    else:
        with pytest.raises(Unmodelled, match=r"wraps around or faults"):
            address.advance(lanes=lanes, columns=columns)


@pytest.mark.parametrize("taddr", [-1, 128 << 16, 512, 1 << 40, 1.0, "0", None, True])
def test_words_that_are_no_address_are_refused(taddr):
    with pytest.raises(InputError, match="taddr"):
        TmemAddress.decode(taddr)


# ---- D -----------------------------------------------------------------------------------------------------------------------------


def test_every_form_has_one_layout_and_all_seven_occur():
    names = {AccumulatorLayout(**shape).name for shape in SHAPES}
    assert names == set("ABCDEFG")
    for form in FORMS:
        fitting = [
            p
            for p in ACCUMULATORS
            if (p.m, p.cta_group) == (form["m"], form["cta_group"]) and p.ws in (None, form["ws"]) and p.sparse in (None, form["sparse"])
        ]
        assert len(fitting) == 1


@pytest.mark.parametrize("form", FORMS, ids=named)
def test_d_is_a_bijection_for_every_n(form):
    for n in legal_n(form["cta_group"], form["ws"], form["sparse"]):
        layout = AccumulatorLayout(n=n, **form)
        m, along = np.arange(layout.m)[:, None], np.arange(n)
        cta, lane, column = layout.location(m, along)
        assert len(np.unique((cta * LANES + lane) * 512 + column)) == layout.m * n
        back = layout.element(cta, lane, column)
        assert (back[0] == m).all()
        assert (back[1] == along).all()
        assert (column.max(), lane.max(), cta.max()) == (layout.columns - 1, layout.lanes.max(), layout.cta_group - 1)
        assert layout.lanes.tolist() == np.unique(lane).tolist()
        # the cells are a rectangle without holes
        assert layout.m * n == layout.cta_group * len(layout.lanes) * layout.columns


@pytest.mark.parametrize("form", FORMS, ids=named)
def test_no_other_cell_holds_an_element(form):
    layout = AccumulatorLayout(n=64, column=128, **form)
    m, n = layout.element(*cells(layout))
    assert ((m >= 0) == (n >= 0)).all()
    assert (m >= 0).sum() == layout.m * 64
    assert len(np.unique(m[m >= 0] * 64 + n[m >= 0])) == layout.m * 64


@pytest.mark.parametrize("shape", SHAPES[::7], ids=named)
def test_lane_16_is_the_same_layout_in_the_lanes_that_lane_0_leaves(shape):
    layout = AccumulatorLayout(**shape)
    if layout.name not in "CF":
        with pytest.raises(InputError, match=f"layout {layout.name} begins at lane 0"):
            AccumulatorLayout(**shape, lane=16)
        return
    other = AccumulatorLayout(**shape, lane=16)
    assert sorted([*layout.lanes.tolist(), *other.lanes.tolist()]) == list(range(LANES))
    at, there = layout.location(5, 3), other.location(5, 3)
    assert there == (at[0], at[1] + 16, at[2])


# CUTLASS include/cute/atom/mma_traits_sm100_frag.hpp: (M of a CTA, N) to lane + 128 * column. C has no fragment there.
ATOMS = {
    "A": "(128,N):(1,128)",
    "B": "(64,(H,2)):(1,(128,64))",
    "D": "(128,N):(1,128)",
    "E": "(64,(H,2)):(1,(128,64))",
    "F": "((16,4),N):((1,32),128)",
    "G": "(32,(Q,4)):(1,(128,32))",
}


@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_d_lies_where_cutlass_has_its_fragments(shape):
    layout = AccumulatorLayout(**shape)
    if layout.name == "C":
        assert layout.grade is Grade.INFERRED
        alone = AccumulatorLayout(64, layout.n)  # layout F
        m, n = np.arange(64)[:, None], np.arange(layout.n)
        for cta in (0, 1):
            assert all((a == b).all() for a, b in zip(layout.location(m + 64 * cta, n)[1:], alone.location(m, n)[1:], strict=True))
        return
    n = layout.n
    wanted = parse(ATOMS[layout.name], N=n, H=n // 2, Q=n // 4).offsets()
    cta, lane, column = layout.location(np.arange(layout.m)[:, None], np.arange(n))
    rows = layout.m // layout.cta_group
    for i in range(layout.cta_group):
        part = slice(i * rows, (i + 1) * rows)
        assert (cta[part] == i).all()
        assert (lane[part] + 128 * column[part] == wanted).all()


def test_numbers_in_numbers_out():
    layout = AccumulatorLayout(128, 64, 2)
    assert layout.location(np.int64(70), 40) == (1, 70, 8)
    assert all(type(value) is int for value in (*layout.location(70, 40), *layout.element(1, 70, 8)))
    assert layout.location([1, 2], 3)[1].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"m": 192, "n": 64}, r"m = 192: tcgen05.mma.cta_group::1 has M = 64 or 128"),
        ({"m": 32, "n": 64}, r"M = 64 or 128"),
        ({"m": 64, "n": 64, "cta_group": 2}, r"cta_group::2 has M = 128 or 256, the rows of both CTAs"),
        ({"m": 128, "n": 64, "cta_group": 2, "ws": True}, r"\.ws exists for \.cta_group::1 only"),
        ({"m": 128, "n": 64, "cta_group": 3}, r"cta_group = 3"),
        ({"m": 128, "n": 12}, r"n = 12: \.cta_group::1 has N = 8 to 256 in steps of 8"),
        ({"m": 128, "n": 8, "cta_group": 2}, r"N = 16 to 256 in steps of 16"),
        ({"m": 128, "n": 264}, r"n = 264"),
        ({"m": 64, "n": 32, "ws": True}, r"\.ws has N = 64, 128, 256"),
        ({"m": 64, "n": 256, "ws": True, "sparse": True}, r"\.ws has N = 64, 128"),
        ({"m": 64, "n": 8, "lane": 8}, r"layout F begins at lane 0 or 16"),
        ({"m": 64, "n": 8, "column": 512}, r"column = 512"),
        ({"m": 64, "n": 8, "ws": 2}, r"ws = 2: needs True or False"),
        ({"m": "64", "n": 8}, r"m = '64'"),
    ],
)
def test_shapes_that_there_are_not_are_refused_with_a_sentence(given_, says):
    with pytest.raises(InputError, match=says):
        AccumulatorLayout(**given_)


def test_past_the_last_column_is_not_known():
    assert AccumulatorLayout(128, 256, column=256).location(0, 255) == (0, 0, 511)
    with pytest.raises(Unmodelled, match="pass column 511"):
        AccumulatorLayout(128, 256, column=257)


@pytest.mark.parametrize("call", [lambda d: d.location(64, 0), lambda d: d.location(0, [3, 8]), lambda d: d.element(1, 0, 0)])
def test_elements_that_there_are_not_are_refused(call):
    with pytest.raises(InputError, match=r"0 to \d+"):
        call(AccumulatorLayout(64, 8))
    with pytest.raises(InputError, match="do not go together"):
        AccumulatorLayout(64, 8).location(np.zeros(3, int), np.zeros(2, int))
    with pytest.raises(InputError, match="not an array of float64"):
        AccumulatorLayout(64, 8).location(np.zeros(3), 0)


# ---- A -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", A_CONTAINER_BITS)
@pytest.mark.parametrize("form", FORMS, ids=named)
def test_a_lies_in_the_lanes_of_d_once_for_every_band(form, kind):
    a, d = ATmemLayout(kind=kind, column=40, **form), AccumulatorLayout(n=64, **form)
    m, k, copy = np.arange(a.m)[:, None, None], np.arange(a.k)[:, None], np.arange(a.copies)
    cta, lane, column, bit = a.location(m, k, copy)
    assert len(np.unique(((cta * LANES + lane) * 512 + column) * 32 + bit)) == a.m * a.k * a.copies
    assert set(np.unique(lane).tolist()) == set(d.lanes.tolist())
    assert (column - 40 == k * a.bits // 32).all()
    assert (a.columns, column.max()) == (8, 47)
    # a band of N is multiplied in the lanes where D has it
    band = np.arange(a.copies) * 64 // a.copies
    assert (lane[:, 0, :] == d.location(np.arange(a.m)[:, None], band)[1]).all()
    back = a.element(cta, lane, column, bit + a.bits - 1)
    assert (back[0] == m).all()
    assert (back[1] == k).all()


def test_a_of_two_ctas_with_128_rows_is_doubled_as_cutlass_says():
    """TmemAllocMode::Duplicated: SM0 has A[0:32], A[32:64], A[0:32], A[32:64] in its four subpartitions, SM1 the rows
    from 64 on.
    """
    a = ATmemLayout(128, "f16", 2)
    lanes = np.arange(LANES)
    for cta in (0, 1):
        assert (a.element(np.int64(cta), lanes, 0)[0] == 64 * cta + lanes % 64).all()


# ---- scale factors -----------------------------------------------------------------------------------------------------------------


def scale_layouts():
    for mode in SCALE_MODES:
        for kind, k, group, n in itertools.product(mode.kinds, mode.k, (1, 2), (16, 64, 192, 256)):
            for m, operand, scale_id in itertools.product((128, 256)[:group], "AB", mode.ids):
                if (m, group) == (128, 2) and ((operand == "B" and n % 64) or scale_id + mode.scales > 4):
                    continue
                yield ScaleLayout(operand, m=m, n=n, kind=kind, scale_vec=mode.name, k=k, cta_group=group, scale_id=scale_id, column=100)


def test_scales_are_where_they_are_said_to_be_and_nowhere_else():
    seen = 0
    for layout in scale_layouts():
        total = layout.m if layout.operand == "A" else layout.n
        row, index, copy = np.arange(total)[:, None, None], np.arange(layout.scales)[:, None], np.arange(layout.copies)
        cta, lane, column, byte = layout.location(row, index, copy)
        assert len(np.unique(((cta * LANES + lane) * 512 + column) * 4 + byte)) == total * layout.scales * layout.copies
        back = layout.element(cta, lane, column, byte)
        assert (back[0] == row).all()
        assert (back[1] == index).all()
        everywhere = np.meshgrid(np.arange(layout.cta_group), np.arange(LANES), np.arange(90, 120), np.arange(4), indexing="ij")
        assert (layout.element(*everywhere)[0] >= 0).sum() == total * layout.scales * layout.copies
        assert column.max() == 100 + layout.columns - 1
        seen += 1
    assert seen > 200


@pytest.mark.parametrize("n", [128, 256])
@pytest.mark.parametrize(("vector", "first"), [("block16", 6), ("block32", 3)])
def test_eight_steps_of_k_96_walk_through_all_scales_of_a_tile(n, vector, first):
    """CuTe DSL's sm103 kernels: tile i of 128 rows x 4 scales, which one 32x128b.warpx4 copies, is i's four columns,
    rows before K.

    Step i of K begins at scale i * 6 (or 3) of a row: its address is the column of that scale's cell, its id the byte.
    """
    tiles = n // 128 * 4  # columns from 4 scales to the next 4
    for step in range(8):
        cell, scale_id = divmod(step * first, 4)
        sfb = ScaleLayout("B", m=128, n=n, kind="mxf4nvf4", scale_vec=vector, k=96, scale_id=scale_id, column=100 + cell * tiles)
        row, index = np.arange(n)[:, None], np.arange(first)
        _, lane, column, byte = sfb.location(row, index, 2)
        k = step * first + index
        assert (column == 100 + k // 4 * tiles + row // 32).all()
        assert (byte == np.broadcast_to(k % 4, byte.shape)).all()
        assert (lane == 64 + row % 32).all()
        assert sfb.grade == "compiled"
    assert ScaleLayout("B", m=128, n=96, kind="mxf4nvf4", scale_vec=vector, k=96).grade == "inferred"


@pytest.mark.parametrize("n", [64, 128, 192, 256])
def test_scales_lie_where_cutlass_has_them(n):
    """tmem_sf_frg: lane + 128 * (byte of 4 * column), rows first, then the copies, then the scales."""
    four_by_one = parse("((32,R),4,S):((1,512),32,128)", R=n // 32, S=4).offsets()
    two_by_two = parse("((32,R),2,2,S):((1,512),64,32,128)", R=n // 64, S=4).offsets()
    for group in (1, 2):
        sfb = ScaleLayout("B", m=128, n=n, kind="mxf4nvf4", scale_vec="4X", cta_group=group)
        row, index, copy = np.arange(n)[:, None, None], np.arange(4)[:, None], np.arange(sfb.copies)
        cta, lane, column, byte = sfb.location(row, index, copy)
        found = lane + 128 * (4 * column + byte)  # (row, scale, copy)
        if group == 1:
            assert (found == four_by_one.transpose(0, 2, 1)).all()
        else:
            wanted = two_by_two.reshape(n // 2, 2, 2, 4).transpose(1, 0, 3, 2).reshape(n, 4, 2)  # halves of N outermost
            assert (found == np.concatenate([wanted, wanted], -1)).all()
            assert (cta == np.arange(4) // 2).all()  # all of N in both CTAs


def test_the_block_in_shared_memory_is_cutlass_sf_atom():
    layout = ScaleLayout("A", m=256, n=64, kind="mxf4nvf4", scale_vec="4X", cta_group=2)
    offset = layout.smem_offset(np.arange(256)[:, None], np.arange(4))
    assert (offset[:128] == parse("((32,4),4):((16,4),1)").offsets()).all()
    assert sorted(offset.ravel().tolist()) == list(range(1024))


@pytest.mark.parametrize("n", [32, 64, 96, 160, 256])
def test_each_half_of_b_in_a_pair_of_128_rows_has_64_lanes_whatever_its_rows(n):
    """TIRx-harness 0.1.2.post2 test_mxf8_cta2.py, which a B200 runs, has N = 32: halves of 16 rows begin at lanes 0 and
    64.
    """
    layout = ScaleLayout("B", m=128, n=n, kind="mxf8f6f4", scale_vec="1X", cta_group=2)
    row, copy = np.meshgrid(np.arange(n), np.arange(4), indexing="ij")
    cta, lane, column, byte = layout.location(row, 0, copy)
    inside = row % (n // 2)
    assert (lane == inside % 32 + row // (n // 2) * 64 + copy % 2 * 32).all()
    assert (column == inside // 32).all()
    assert (layout.element(cta, lane, column, byte)[0] == row).all()
    assert layout.columns == -(-n // 64)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"operand": "C"}, InputError, "'A' or 'B'"),
        ({"m": 64}, InputError, "block-scaled kinds have M = 128"),
        ({"kind": "f16"}, InputError, "kind = 'f16'"),
        ({"scale_vec": "4X", "kind": "mxf4"}, InputError, "2X with K = 64 or 128; block32 with K = 96"),
        ({"scale_vec": "2X", "k": 96}, InputError, "scale_vec = '2X', k = 96"),
        ({"scale_id": 1}, InputError, "the id 0"),
        ({"n": 300}, InputError, "n = 300"),
        ({"cta_group": 2, "scale_vec": "block16", "k": 96}, Unmodelled, "a pair with M = 128"),
        ({"column": 510}, Unmodelled, "pass column 511"),
    ],
)
def test_scales_that_there_are_not_are_refused(changes, error, says):
    good = {"operand": "A", "m": 128, "n": 64, "kind": "mxf4nvf4", "scale_vec": "4X"}
    ScaleLayout(**good)
    with pytest.raises(error, match=says):
        ScaleLayout(**good | changes)


def test_block_names_are_the_older_ones():
    """PTX ISA 9.1 §9.7.16.10.7.1: .block16 is .scale_vec::4X, .block32 is 1X or 2X by the kind, and with K = 96 their
    own.
    """
    given_ = {"operand": "A", "m": 128, "n": 64}
    for kind, block, same in [("mxf8f6f4", "block32", "1X"), ("mxf4", "block32", "2X"), ("mxf4nvf4", "block16", "4X")]:
        assert ScaleLayout(kind=kind, scale_vec=block, **given_).mode == ScaleLayout(kind=kind, scale_vec=same, **given_).mode
    assert ScaleLayout(kind="mxf4nvf4", scale_vec="block16", k=96, **given_).scales == 6
    assert ScaleLayout(kind="mxf4", scale_vec="block32", k=96, **given_).scales == 3


# ---- metadata ----------------------------------------------------------------------------------------------------------------------

# CUTLASS tmem_e_frg and tmem_e_frg_ws: (m, k, copy) to lane + 128 * unit of so many bits
METADATA_ATOMS = {
    "tf32": (2, "((8,2,R),(8,2),C):((1,1024,16),(128,8),L)"),
    "f16": (1, "((8,2,R),(16,2),C):((1,2048,16),(128,8),L)"),
    "i8": (1, "(M,64,C):(1,128,L)"),
    "f8f6f4": (1, "(M,64,C):(1,128,L)"),
    "mxf8f6f4": (1, "(M,64,C):(1,128,L)"),
}
METADATA_FORMS = [(m, group, ws) for m, group, ws in [(128, 1, False), (256, 2, False), (128, 1, True), (64, 1, True), (32, 1, True)]]


@pytest.mark.parametrize("kind", METADATA)
@pytest.mark.parametrize(("m", "group", "ws"), METADATA_FORMS)
def test_metadata_fills_its_columns_and_lies_where_cutlass_has_it(kind, m, group, ws):
    if ws and kind.startswith("mx"):
        with pytest.raises(InputError, match=r"has no \.kind"):
            MetadataLayout(m, kind, group, ws=ws)
        return
    row = METADATA[kind]
    for selector in row.selectors:
        e = MetadataLayout(m, kind, group, ws=ws, selector=selector, column=6)
        rows, k, copy = np.arange(m)[:, None, None], np.arange(e.k)[:, None], np.arange(e.copies)
        cta, lane, column, bit = e.location(rows, k, copy)
        whole = ((cta * LANES + lane) * 512 + column) * 32 + bit
        each = max(1, 2 // row.pair_bits)  # elements that share a bit
        assert len(np.unique(whole)) == m * e.k * e.copies // each
        assert group * LANES * row.columns * 32 == m * e.k * e.copies * row.pair_bits // 2  # no bit is left over
        back = e.element(cta, lane, column, bit)
        assert (back[0] == rows).all()
        assert (back[1] == k // each * each).all()
        assert (column.min(), column.max()) == (6 + selector, 6 + selector + row.columns - 1)
        if kind in METADATA_ATOMS:
            unit, text = METADATA_ATOMS[kind]
            wanted = parse(text, R=e.rows // 16, M=e.rows, C=e.copies, L=e.rows).offsets()
            found = lane + 128 * ((32 * (column - 6 - selector) + bit) // unit)
            assert all((found[i * e.rows : (i + 1) * e.rows] == wanted).all() for i in range(group))


def test_metadata_of_64_rows_without_ws_is_not_known():
    for arguments in ({"m": 64}, {"m": 128, "cta_group": 2}):
        with pytest.raises(Unmodelled, match="figures only"):
            MetadataLayout(kind="f16", **arguments)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"selector": 2}, "the selector 0 or 1"), ({"column": 3}, "even"), ({"kind": "f64"}, "kind"), ({"m": 96}, "m = 96")],
)
def test_metadata_that_there_is_not_is_refused(changes, says):
    with pytest.raises(InputError, match=says):
        MetadataLayout(**{"m": 128, "kind": "f16"} | changes)


def test_each_index_stands_in_one_place():
    """Four bits for a chunk: of kind f16 chunk c of row 0 begins at bit 4 c; the upper half of K lies 8 lanes further."""
    e = MetadataLayout(128, "f16")
    starts = [e.location(0, 4 * chunk)[1:] for chunk in range(8)]
    assert starts == [(0, 0, 4 * c) for c in range(4)] + [(8, 0, 4 * c) for c in range(4)]


# ---- the tables, the formulas ------------------------------------------------------------------------------------------------------


def test_nothing_of_tensor_memory_is_called_measured():
    rows = [*ACCUMULATORS, *LOAD_STORE_SHAPES.values(), *COPY_SHAPES.values(), *DECOMPRESSIONS.values(), *SCALE_MODES, SHIFT]
    assert all(row.grade in (Grade.DOCUMENTED, Grade.COMPILED, Grade.INFERRED) and row.source for row in rows)
    layouts = [AccumulatorLayout(**shape) for shape in SHAPES[::9]]
    layouts += [ATmemLayout(kind="f16", **form) for form in FORMS]
    layouts += [MetadataLayout(128, "f16"), ScaleLayout("A", m=128, n=64, kind="mxf4", scale_vec="2X")]
    assert all(layout.grade is not Grade.MEASURED and layout.source for layout in layouts)
    assert all(d.takes and d.source and d.other for d in TENSOR_MEMORY_DISPUTES.values())
    assert all(str(AccumulatorLayout(**shape).grade) in repr(AccumulatorLayout(**shape)) for shape in SHAPES[::9])


@pytest.mark.parametrize("name", formulas.__all__)
def test_formulas_are_the_same_for_numbers_and_for_arrays(name):
    formula = getattr(formulas, name)
    draw = np.random.default_rng(len(name))
    fixed = {"rows": 64, "block": 16, "first": 16, "columns": 24, "split": 2, "bits": 8, "run": 32, "run_step": 64, "copy_step": 32}
    fixed |= {"window": 32, "band_rows": 64, "bands": 2, "k_extent": 32, "pair_bits": 2}
    names = formula.__code__.co_varnames[: formula.__code__.co_argcount]
    arrays = {n: fixed.get(n, draw.integers(0, 64, 50)) for n in names}
    together = formula(**arrays)
    for i in range(50):
        one = {n: int(v if n in fixed else v[i]) for n, v in arrays.items()}
        found, wanted = formula(**one), [part[i] for part in together] if isinstance(together, tuple) else together[i]
        assert np.array_equal(found, wanted)
