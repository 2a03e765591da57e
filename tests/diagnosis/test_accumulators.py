"""Accumulators in tensor memory that overlap: which two are named, and for which findings."""

import types

import pytest

from smemsim.core.finding import Half, at_instruction
from smemsim.core.ptx import read_module
from smemsim.diagnosis.accumulators import with_overlaps
from smemsim.run import Mma

TEXT = (
    ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k() { .reg .b32 %r<99>;\n"
    + "".join(f"mov.u32 %r{n}, {n};\n" for n in range(9))
    + "ret; }"
)
LINES = [i for i in read_module(TEXT).functions["k"].body if i.op == "mov"]


def product(line, column, *, cta=0, lane=0, m=128, n=32, group=1, kind="f16"):
    d = lane << 16 | column
    return Mma(cta, 0, LINES[line], kind, m, n, 16, None, 0, "f16", "f16", "f32", cta_group=group, d=d)


def finding(line, code="X017", **given):
    return at_instruction(code, LINES[line], "what", "the fix", **given)


def told(findings, products):
    return with_overlaps(findings, types.SimpleNamespace(result=types.SimpleNamespace(events=[object(), *products])))


@pytest.mark.parametrize("code", ["X012", "X017"])
@pytest.mark.parametrize(("first", "second"), [(0, 16), (64, 33), (100, 131), (7, 8)])
@pytest.mark.parametrize("lane", [0, 64])
def test_two_accumulators_that_share_some_columns_are_named(code, first, second, lane):
    low, high = sorted((first, second))
    (found,) = told([finding(1, code)], [product(1, first, lane=lane), product(2, second, lane=lane)])
    assert found.why == f"two accumulators overlap: columns {low} to {low + 31} and {high} to {high + 31} of tensor memory"
    assert (
        found.repair == f"accumulators 32 columns apart (now {high - low}), as many as each has; or if they are meant to overlap: the fix"
    )
    assert {name: found.numbers[name] for name in ("apart", "columns")} == {"apart": high - low, "columns": 32}


@pytest.mark.parametrize(
    ("second", "names"),
    [
        ({"column": 32}, False), ({"column": 31}, True), ({"column": 0}, False), ({"column": 16, "cta": 1}, False), ({"column": 16, "lane": 64}, False),
        ({"column": 16, "n": 64}, False), ({"column": 16, "m": 64}, False), ({"column": 16, "kind": "wgmma"}, False), ({"column": 16, "group": 2}, False),
    ],
)  # fmt: skip
def test_accumulators_of_one_cta_and_shape_are_compared(second, names):
    (found,) = told([finding(1)], [product(1, 0), product(2, **second)])
    assert (found != finding(1)) == names


@pytest.mark.parametrize(("m", "n", "group", "columns"), [(128, 64, 1, 64), (64, 64, 1, 64), (256, 64, 2, 64), (128, 64, 2, 32)])
def test_an_accumulator_has_the_columns_of_its_shape(m, n, group, columns):
    """Of a pair with 128 rows, each CTA has half of the columns of all rows."""
    shape = {"m": m, "n": n, "group": group}
    (found,) = told([finding(0)], [product(0, 0, **shape), product(1, columns - 1, **shape)])
    assert found.numbers["columns"] == columns
    assert told([finding(0)], [product(0, 0, **shape), product(1, columns, **shape)]) == [finding(0)]


def test_a_shape_that_no_product_has_is_passed_over():
    odd = [product(0, 0, m=65, n=7), product(1, 1, m=65, n=7)]
    assert told([finding(0)], odd) == [finding(0)]
    assert told([finding(0)], [*odd, product(0, 0), product(1, 8)])[0].numbers["apart"] == 8


@pytest.mark.parametrize(
    ("f", "names"),
    [
        (finding(1), True), (finding(2), True), (finding(3), False), (finding(3, halves=(Half("write", "a product", LINES[2]),)), True),
        (finding(3, halves=(Half("write", "something"), Half("read", "a load", LINES[4]))), False), (finding(1, "X008"), False), (finding(1, why="because"), True),
    ],
)  # fmt: skip
def test_a_finding_of_other_lines_or_of_another_rule_is_left_as_it_is(f, names):
    other = finding(5, "X012")
    found, same = told([f, other], [product(1, 0), product(2, 16)])
    assert same == other
    assert (found != f) == names
    assert not f.why or found.why.endswith("of tensor memory; because")
    assert told([finding(1, "X008")], [product(1, 0), product(2, 16)]) == [finding(1, "X008")]
