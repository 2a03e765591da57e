"""Reductions: against numpy's arithmetic, against exact fractions, and the laws that hold for every type."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import ROOT
from smemsim import HardwareTrap, InputError, TensorMap, Unmodelled
from smemsim.core.arithmetic import reduce, reduce_loops
from smemsim.core.arithmetic.reduce import bulk_reduction, parameters, reduction_op, reduction_type, tensor_reduction
from smemsim.core.arithmetic.reduce_loops import reduce_elements
from smemsim.core.spec.reductions import (
    BULK_REDUCTIONS,
    KNOWN_REDUCTIONS,
    REDUCTION_TYPES,
    TENSOR_REDUCTIONS,
    TENSOR_TYPES,
    Family,
    ReductionOp,
)
from smemsim.core.spec.tensor_map import DATA_TYPES, TensorMapDataType
from smemsim.evidence import load_suite
from strategies import examples

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f32_ftz": np.float32, "f64": np.float64}
INTEGERS = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64}
PAIRS = 400_000
SM90 = ROOT / "golden" / "sm_90a"
each_float = pytest.mark.parametrize("dtype", FLOATS)
each_ordered = pytest.mark.parametrize("dtype", ["f16", "bf16"])  # the floats that have min and max
each_integer = pytest.mark.parametrize("dtype", INTEGERS)


def raw(dtype):
    return np.dtype(f"u{REDUCTION_TYPES[dtype].itemsize}")


def infinity(dtype):
    row = REDUCTION_TYPES[dtype]
    return ((1 << row.exponent_bits) - 1) << row.fraction_bits


def specials(dtype):
    """Zeros, the smallest and largest of each kind, one, infinities, NaNs with payloads; with both signs."""
    row = REDUCTION_TYPES[dtype]
    one, inf = 1 << row.fraction_bits, infinity(dtype)
    middle = ((1 << (row.exponent_bits - 1)) - 1) << row.fraction_bits
    found = [
        0,
        1,
        2,
        one >> 1,
        one - 1,
        one,
        one + 1,
        2 * one,
        middle - 1,
        middle,
        middle + 1,
        inf - one,
        inf - 1,
        inf,
        inf + 1,
        inf + (one >> 1),
        inf + one - 1,
    ]
    return np.array([x | s << (row.bits - 1) for x in found for s in (0, 1)], np.uint64).astype(raw(dtype))


def float_pairs(dtype, seed=1):
    """Random bits; neighbours in exponent, so that bits are rounded off or cancel; ties; every pair of special values."""
    row, rng = REDUCTION_TYPES[dtype], np.random.default_rng(seed)
    sign, inf = np.uint64(1 << (row.bits - 1)), infinity(dtype)
    a = rng.integers(0, 1 << 64, PAIRS, np.uint64) >> np.uint64(64 - row.bits)
    b = rng.integers(0, 1 << 64, PAIRS, np.uint64) >> np.uint64(64 - row.bits)
    quarter = PAIRS // 4
    exponent = a[:quarter] & np.uint64(inf)
    steps = rng.integers(0, row.fraction_bits + 4, quarter).astype(np.uint64) << np.uint64(row.fraction_bits)
    b[:quarter] = b[:quarter] & ~np.uint64(inf) | np.where(exponent > steps, exponent - steps, 0)
    few = slice(quarter, 2 * quarter)  # few bits set: ties
    b[few] &= ~np.uint64((1 << row.fraction_bits) - 1)
    near = slice(2 * quarter, 3 * quarter)  # cancellation
    b[near] = (a[near] ^ sign) + rng.integers(0, 3, quarter).astype(np.uint64)
    b[near] &= np.uint64((1 << row.bits) - 1)
    small = slice(3 * quarter, 3 * quarter + quarter // 2)  # subnormals and the first normal numbers
    for x in (a, b):
        x[small] &= sign | np.uint64((2 << row.fraction_bits) - 1)
    s = specials(dtype).astype(np.uint64)
    some = a[:4096]
    left = np.concatenate([a, np.repeat(s, len(s)), np.tile(s, 128)])
    right = np.concatenate([b, np.tile(s, len(s)), np.resize(some, 128 * len(s))])
    return left.astype(raw(dtype)), right.astype(raw(dtype))


def is_nan(bits, dtype):
    return bits & raw(dtype).type(np.iinfo(raw(dtype)).max >> 1) > infinity(dtype)


def flushed(bits, dtype):
    sign = raw(dtype).type(1 << (REDUCTION_TYPES[dtype].bits - 1))
    return np.where((bits & ~sign) < 1 << REDUCTION_TYPES[dtype].fraction_bits, bits & sign, bits)


# ---- against numpy -----------------------------------------------------------------------------------------------------------------


@each_float
def test_a_float_sum_is_the_one_numpy_computes(dtype):
    a, b = float_pairs(dtype)
    ours = reduce_elements(a, b, "add", dtype)
    if REDUCTION_TYPES[dtype].flush:
        a, b = flushed(a, dtype), flushed(b, dtype)
    with np.errstate(all="ignore"):
        theirs = (a.view(FLOATS[dtype]) + b.view(FLOATS[dtype])).view(raw(dtype))
    if REDUCTION_TYPES[dtype].flush:
        theirs = flushed(theirs, dtype)
    number = ~is_nan(theirs, dtype)
    assert (is_nan(ours, dtype) == ~number).all()
    wrong = np.flatnonzero(number & (ours != theirs))
    assert not len(wrong), [hex(x[wrong[0]]) for x in (a, b, ours, theirs)]
    assert number.sum() > PAIRS // 2
    assert (~number).sum() > 500


@pytest.mark.parametrize("op", ["min", "max"])
@each_ordered
def test_of_two_numbers_min_and_max_are_numpys(dtype, op):
    a, b = float_pairs(dtype)
    ours = reduce_elements(a, b, op, dtype)
    both = ~is_nan(a, dtype) & ~is_nan(b, dtype)
    x, y = (v[both].view(FLOATS[dtype]) for v in (a, b))
    theirs = np.minimum(x, y) if op == "min" else np.maximum(x, y)
    assert (ours[both].view(FLOATS[dtype]) == theirs).all()
    assert ((ours == a) | (ours == b))[both].all()  # bits are never changed


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
@each_integer
def test_an_integer_reduction_is_the_one_numpy_computes(dtype, op):
    if op not in KNOWN_REDUCTIONS[dtype]:
        with pytest.raises(InputError, match="no instruction has it"):
            reduce_elements(np.zeros(1, raw(dtype)), np.zeros(1, raw(dtype)), op, dtype)
        return
    rng, kind = np.random.default_rng(2), INTEGERS[dtype]
    edges = np.array([0, 1, 2, -1, -2, np.iinfo(np.int64).min, np.iinfo(np.int64).max, 1 << 31, -(1 << 31), (1 << 31) - 1], np.int64)
    a = np.concatenate(
        [rng.integers(0, 1 << 64, PAIRS, np.uint64).astype(raw(dtype)), np.repeat(edges, 10).view(np.uint64).astype(raw(dtype))]
    )
    b = np.concatenate(
        [rng.integers(0, 1 << 64, PAIRS, np.uint64).astype(raw(dtype)), np.tile(edges, 10).view(np.uint64).astype(raw(dtype))]
    )
    numpys = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op]
    assert (reduce_elements(a, b, op, dtype).view(kind) == numpys(a.view(kind), b.view(kind))).all()


def test_inc_and_dec_count_between_zero_and_the_operand():
    rng = np.random.default_rng(3)
    limit = np.concatenate([rng.integers(0, 1 << 32, 50_000, np.uint32), rng.integers(0, 5, 50_000).astype(np.uint32)])
    old = np.concatenate([rng.integers(0, 1 << 32, 50_000, np.uint32), rng.integers(0, 7, 50_000).astype(np.uint32)])
    up, down = reduce_elements(old, limit, "inc", "u32"), reduce_elements(old, limit, "dec", "u32")
    assert (up == np.where(old >= limit, 0, old + 1)).all()
    assert (down == np.where((old == 0) | (old > limit), limit, old - 1)).all()
    assert (up <= limit).all()
    assert (down <= limit).all()
    inside = old <= limit
    assert (reduce_elements(up, limit, "dec", "u32") == old)[inside].all()  # each undoes the other between the limits


# ---- against exact fractions, at the edge of every format --------------------------------------------------------------------------


def value(bits, row):
    biased = bits >> row.fraction_bits & ((1 << row.exponent_bits) - 1)
    fraction = (bits & ((1 << row.fraction_bits) - 1)) + ((1 << row.fraction_bits) if biased else 0)
    size = Fraction(fraction) * Fraction(2) ** (max(biased, 1) - (1 << (row.exponent_bits - 1)) + 1 - row.fraction_bits)
    return -size if bits >> (row.bits - 1) else size


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_no_number_is_nearer_to_the_exact_sum(dtype):
    row = REDUCTION_TYPES[dtype]
    finite = st.builds(lambda m, s: m | s << (row.bits - 1), st.integers(0, infinity(dtype) - 1), st.integers(0, 1))

    @examples(150)
    @given(finite, finite)
    def holds(a, b):
        total = value(a, row) + value(b, row)
        [found] = reduce_elements(np.array([a], raw(dtype)), np.array([b], raw(dtype)), "add", dtype).tolist()
        magnitude = found & ((1 << (row.bits - 1)) - 1)
        if magnitude == infinity(dtype):
            largest = value(infinity(dtype) - 1, row)
            assert abs(total) >= largest + (largest - value(infinity(dtype) - 2, row)) / 2
            return
        error = abs(value(found, row) - total)
        for other in {max(magnitude - 1, 0), magnitude + 1} - {magnitude, infinity(dtype)}:
            further = abs(abs(value(other, row)) - abs(total))
            assert error < further or (error == further and found & 1 == 0)

    holds()


# ---- laws --------------------------------------------------------------------------------------------------------------------------


@each_float
def test_addition_commutes_but_for_two_nans(dtype):
    a, b = float_pairs(dtype, seed=5)
    there, back = reduce_elements(a, b, "add", dtype), reduce_elements(b, a, "add", dtype)
    assert (there == back)[~(is_nan(a, dtype) & is_nan(b, dtype))].all()


@pytest.mark.parametrize(("dtype", "nan"), [("f16", 0x7FFF), ("bf16", 0x7FFF), ("f32", 0x7FFFFFFF), ("f32_ftz", 0x7FFFFFFF)])
def test_sums_of_up_to_32_bits_have_one_nan(dtype, nan):
    a, b = float_pairs(dtype, seed=5)
    total = reduce_elements(a, b, "add", dtype)
    assert set(total[is_nan(total, dtype)].tolist()) == {nan}


def test_an_f64_sum_hands_its_nan_on_untouched_and_shared_memorys_first():
    a, b = float_pairs("f64", seed=5)
    total, old, new = reduce_elements(a, b, "add", "f64"), is_nan(a, "f64"), is_nan(b, "f64")
    assert (total == b)[new].all()
    assert (total == a)[old & ~new].all()
    assert (a & np.uint64(1 << 51) == 0)[old & ~new].any()  # signalling ones among them, which stay so
    made = is_nan(total, "f64") & ~old & ~new
    assert set(total[made].tolist()) == {0xFFF8000000000000}


@each_float
def test_minus_zero_comes_of_two_minus_zeros_only(dtype):
    minus = 1 << (REDUCTION_TYPES[dtype].bits - 1)
    zeros = np.array([[0, 0], [0, minus], [minus, 0], [minus, minus], [5, 5 | minus]], np.uint64).astype(raw(dtype))
    assert reduce_elements(zeros[:, 0].copy(), zeros[:, 1].copy(), "add", dtype).tolist() == [0, 0, 0, minus, 0]


@each_ordered
def test_of_a_nan_and_a_number_min_and_max_give_the_number(dtype):
    number = specials(dtype)
    number = number[~is_nan(number, dtype)]
    nan = np.full_like(number, infinity(dtype) + 1)
    for op in ("min", "max"):
        assert (reduce_elements(number, nan, op, dtype) == number).all()
        assert (reduce_elements(nan, number, op, dtype) == number).all()
        assert set(reduce_elements(nan, nan, op, dtype).tolist()) == {0x7FFF}


@pytest.mark.parametrize("dtype", ["f16", "bf16", *INTEGERS])
def test_min_and_max_share_out_the_two_elements(dtype):
    a = float_pairs(dtype, 7)[0] if dtype in FLOATS else np.random.default_rng(7).integers(0, 1 << 32, 1000, np.uint64).astype(raw(dtype))
    b = np.roll(a, 1)
    keep = ~(is_nan(a, dtype) | is_nan(b, dtype)) if dtype in FLOATS else np.ones(len(a), bool)
    low, high = (reduce_elements(a[keep], b[keep], op, dtype) for op in ("min", "max"))
    assert (np.sort([low, high], 0) == np.sort([a[keep], b[keep]], 0)).all()


def test_subnormals_are_kept_but_where_the_type_says_flush():
    for dtype in FLOATS:
        row = REDUCTION_TYPES[dtype]
        tiny = np.array([1, (1 << row.fraction_bits) - 1, 1 << (row.bits - 1) | 3], np.uint64).astype(raw(dtype))
        doubled = reduce_elements(tiny, tiny, "add", dtype)
        assert doubled.tolist() == (
            [0, 0, 1 << (row.bits - 1)] if row.flush else [2, (2 << row.fraction_bits) - 2, 1 << (row.bits - 1) | 6]
        )
        if ReductionOp.MIN in KNOWN_REDUCTIONS[dtype]:
            assert (reduce_elements(tiny, tiny, "min", dtype) == tiny).all()


def test_f32_ftz_differs_from_f32_in_subnormal_sums_only():
    a, b = float_pairs("f32", seed=8)
    kept, gone = reduce_elements(a, b, "add", "f32"), reduce_elements(a, b, "add", "f32_ftz")
    below = [(x & np.uint32(0x7FFFFFFF)) - np.uint32(1) < np.uint32(0x7FFFFF) for x in (a, b, kept)]
    assert (kept == gone)[~(below[0] | below[1] | below[2])].all()
    assert (kept != gone).sum() > 1000


@pytest.mark.parametrize("op", list(ReductionOp))
@pytest.mark.parametrize("dtype", list(REDUCTION_TYPES))
def test_the_compiled_loop_is_the_python_function(dtype, op):
    """`.py_func` of the dispatch calls the compiled leaves; the leaves' own Python is compared where they are called by
    name.
    """
    row = REDUCTION_TYPES[dtype]
    if op not in KNOWN_REDUCTIONS[dtype]:
        with pytest.raises(InputError, match="no instruction has it"):
            reduce_elements(np.zeros(1, raw(dtype)), np.zeros(1, raw(dtype)), op, dtype)
        return
    rng = np.random.default_rng(9)
    a, b = (
        (x[-2000:] for x in float_pairs(dtype))
        if row.family is Family.FLOAT
        else rng.integers(0, 1 << row.bits, (2, 300), np.uint64).astype(raw(dtype))
    )
    signed = [x.astype(np.uint64).view(np.int64).tolist() for x in (a, b)]
    rest = parameters(row)
    family, bits, flip, e, f, nan, hand_on, both, flush = rest

    def leaf(x, y):
        if op == "add":
            if family == Family.FLOAT:
                return reduce.float_add(x, y, e, f, nan, hand_on, flush)
            return reduce.add_64(x, y) if bits == 64 else reduce.add_32(x, y)
        if op in {"min", "max"}:
            if family == Family.FLOAT:
                return reduce.float_least(x, y, e, f, both, op == "max")
            return reduce.integer_least(x, y, flip, op == "max")
        return {"inc": reduce.increment, "dec": reduce.decrement, "and": int.__and__, "or": int.__or__, "xor": int.__xor__}[op](x, y)

    compiled = reduce_elements(a, b, op, dtype).astype(np.uint64).view(np.int64).tolist()
    assert compiled == [leaf(x, y) for x, y in zip(*signed, strict=True)]
    assert compiled[:50] == [
        int(reduce_loops.reduce_one.py_func(x, y, op.code, *rest)) for x, y in zip(*(s[:50] for s in signed), strict=True)
    ]


@each_ordered
def test_minus_zero_is_below_plus_zero(dtype):
    minus = 1 << (REDUCTION_TYPES[dtype].bits - 1)
    a, b = (np.array(x, np.uint64).astype(raw(dtype)) for x in ([0, minus, 0, minus], [minus, 0, 0, minus]))
    assert reduce_elements(a, b, "min", dtype).tolist() == [minus, minus, 0, minus]
    assert reduce_elements(a, b, "max", dtype).tolist() == [0, 0, 0, minus]


def test_bytes_and_raw_elements_give_the_same():
    a, b = float_pairs("bf16")
    as_bytes = reduce_elements(a.view(np.uint8), b.view(np.uint8), "add", "bf16")
    assert as_bytes.dtype == np.uint8
    assert (as_bytes.view(np.uint16) == reduce_elements(a, b, "add", "bf16")).all()
    assert reduce_elements(a.reshape(2, -1), b.reshape(2, -1), "add", "bf16").shape == (2, len(a) // 2)


# ---- against silicon ---------------------------------------------------------------------------------------------------------------


def test_tensor_reductions_make_what_an_h200_made_of_every_element():
    """Of the trace tma_reductions the boxes of rank 1 that are the whole tensor: element i meets element i."""
    suite = load_suite(SM90 / "tma_reductions")
    groups = {}
    for i in range(len(suite)):
        tm = TensorMap.from_bytes(bytes(suite.arrays["tensor_map"][i]))
        before, operand, after = (suite.ragged(name, i) for name in ("before", "operand", "after"))
        whole = tm.rank == 1 and tm.global_dim[0] == tm.box_dim[0] and tm.global_dim[0] * tm.type_row.itemsize == len(before)
        if whole and len(before) == len(operand) and not suite.arrays["coordinates"][i].any():
            assert suite.arrays["status"][i] == 0
            groups.setdefault((tm.data_type.name, str(suite.arrays["operation"][i])), []).append((before, operand, after))
    assert set(groups) == {(name, str(op)) for name, ops in TENSOR_REDUCTIONS.items() for op in ops}
    for (name, op), parts in groups.items():
        before, operand, after = (np.concatenate(column) for column in zip(*parts, strict=True))
        made = reduce_elements(before, operand, op, tensor_reduction(op, name))
        assert len(made) > 2000
        assert (made == after).all(), (name, op)


def test_a_tensor_reduction_runs_or_traps_as_an_h200_said():
    suite = load_suite(SM90 / "tma_reduce_traps")
    tried = set()
    for raw_map, op, status in zip(*(suite.arrays[name] for name in ("tensor_map", "operation", "status")), strict=True):
        data_type = TensorMap.from_bytes(bytes(raw_map)).data_type
        if op == "store":
            continue
        tried.add((data_type.name, str(op)))
        if status == 0:
            assert tensor_reduction(str(op), data_type).itemsize == DATA_TYPES[data_type].itemsize
            continue
        with pytest.raises(HardwareTrap) as trap:
            tensor_reduction(str(op), data_type)
        assert trap.value.cuda_error == status
    assert tried == {(name, str(op)) for name in TENSOR_REDUCTIONS for op in ReductionOp}


# ---- which operation on which type -------------------------------------------------------------------------------------------------


def test_the_tables_name_known_types():
    assert set(BULK_REDUCTIONS["global"]) >= set(BULK_REDUCTIONS["shared::cluster"])
    assert set(BULK_REDUCTIONS["global"]) <= set(REDUCTION_TYPES)
    assert set(TENSOR_TYPES) == {name for name, ops in TENSOR_REDUCTIONS.items() if ops}
    assert set(TENSOR_TYPES.values()) <= set(REDUCTION_TYPES)
    assert set(TENSOR_REDUCTIONS) == {code.name for code, row in DATA_TYPES.items() if row.bits >= 8}
    assert all(row.source for row in REDUCTION_TYPES.values())
    assert all(KNOWN_REDUCTIONS.values())
    for name, dtype in TENSOR_TYPES.items():
        assert REDUCTION_TYPES[dtype].itemsize == DATA_TYPES[TensorMapDataType[name]].itemsize


# The table under "cp.reduce.async.bulk" in the PTX ISA, typed in once more: destination, operations, types.
PTX = """
shared::cluster  add          u32 s32 u64
shared::cluster  min max      u32 s32
shared::cluster  inc dec      u32
shared::cluster  and or xor   b32
global           add          u32 s32 u64 f32 f64 f16 bf16
global           min max      u32 s32 u64 s64 f16 bf16
global           inc dec      u32
global           and or xor   b32 b64
"""


def test_bulk_reductions_are_those_of_the_isa():
    wanted = set()
    for line in PTX.strip().splitlines():
        space, *words = line.split()
        ops = [w for w in words if w in set(ReductionOp)]
        wanted |= {(space, op, dtype) for op in ops for dtype in words if dtype not in ops}
    present = {(space, str(op), dtype) for space, table in BULK_REDUCTIONS.items() for dtype, ops in table.items() for op in ops}
    assert present == wanted
    for space in BULK_REDUCTIONS:
        for op in ReductionOp:
            for dtype in REDUCTION_TYPES:
                if (space, str(op), dtype) in wanted:
                    a = np.zeros(4, raw(dtype))
                    assert reduce_elements(a, a, op, bulk_reduction(op, dtype, space)).shape == a.shape
                else:
                    with pytest.raises(InputError, match="no such instruction"):
                        bulk_reduction(op, dtype, space)


@pytest.mark.parametrize("data_type", [code for code, row in DATA_TYPES.items() if row.bits < 8])
def test_reductions_of_sub_byte_types_are_not_guessed(data_type):
    for op in ReductionOp:
        with pytest.raises(Unmodelled, match="the PTX ISA has no such reduction"):
            tensor_reduction(op, data_type)


@pytest.mark.parametrize("data_type", ["bf16", "FLOAT8", 9, None, 1.5, np.zeros(3)])
def test_an_unknown_data_type_is_refused_with_a_sentence(data_type):
    with pytest.raises(InputError, match="data type, such as BFLOAT16"):
        tensor_reduction("add", data_type)


@pytest.mark.parametrize("op", ["mul", "ADD", 3, None, ["add"]])
def test_an_unknown_operation_is_refused_with_a_sentence(op):
    with pytest.raises(InputError, match="needs one of add min max"):
        reduction_op(op)


@pytest.mark.parametrize("dtype", ["f8", "float", 7, None, np.float32])
def test_an_unknown_type_is_refused_with_a_sentence(dtype):
    with pytest.raises(InputError, match="needs one of u32"):
        reduction_type(dtype)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([1], [1]),
        (np.zeros(4, np.uint16), np.zeros(4, np.uint16)),
        (np.zeros(4, np.float32), np.zeros(4, np.float32)),
        (np.zeros(4, np.uint32), np.zeros(5, np.uint32)),
        (np.zeros(4, np.uint32), np.zeros(16, np.uint8)),
        (np.zeros(6, np.uint8), np.zeros(6, np.uint8)),
        (None, np.zeros(4, np.uint32)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(old, new):
    with pytest.raises(InputError):
        reduce_elements(old, new, "add", "u32")
