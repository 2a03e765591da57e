"""Faults planted in right kernels: the first finding is the right one, at the right line; the right kernels have none."""

from __future__ import annotations

import re

import pytest

from gpu_faults import BLACKWELL, FAULTS, PAIR, RING, Fault, idesc, launched, only, sub
from smemsim.diagnosis.operands.tiles import unread


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.kernel}: {f.name}")
def test_the_first_finding_is_the_fault(fault: Fault):
    run, ptx = launched(fault.kernel, fault)
    assert run.findings, "nothing was found"
    first = run.findings[0]
    line = ptx.splitlines()[first.line - 1]
    assert first.code == fault.code, run.text()
    assert re.search(fault.at, line), f"line {first.line}: {line}\n{run.text()}"
    assert first.message
    assert re.search(fault.repair, first.repair), first.repair
    assert not run.ok


@pytest.mark.parametrize("name", sorted({fault.kernel for fault in FAULTS}))
def test_the_right_kernel_has_none(name: str):
    run, _ = launched(name)
    assert not run.findings, run.text()
    assert run.ok


@pytest.mark.parametrize("name", ["A transposed", "B transposed"])
def test_the_loads_of_a_transposed_operand_are_not_told_as_exchanged(name: str):
    run, _ = launched(BLACKWELL, next(f for f in FAULTS if f.kernel == BLACKWELL and f.name == name))
    assert {f.code for f in run.findings} == {"R505"}


@pytest.mark.parametrize(("side", "remarks"), [("%r31", ["R508"]), ("%r29", [])], ids=["B", "A"])
def test_halves_of_a_pair_in_the_other_order_are_a_remark_where_they_are_shared(side: str, remarks: list[str]):
    """Each CTA has its own rows of A and of D; the halves of B are columns of D that both have."""
    count = {"%r31": 6, "%r29": 7}[side]
    turned = f"xor.b32 {side}, %r23, 1; shl.b32 {side}, {side}, {count};"
    run, _ = launched(PAIR, Fault("", PAIR, "", "", sub(rf"shl\.b32 \t{side}, %r23, {count};", turned)))
    assert not [f for f in run.findings if f.code == "R508"]
    assert [f.code for f in run.remarks if f.code == "R508"] == remarks


@pytest.mark.parametrize("maps", [only(0, data_type="f16"), lambda _, arguments: arguments | {"data_type": "f16"}], ids=["A", "both"])
def test_bf16_by_a_map_of_float16_is_a_remark_unless_the_instruction_mixes_the_types(maps):
    """TMA brings the same bytes, and programs name 16-bit words so."""
    run, _ = launched(BLACKWELL, Fault("", BLACKWELL, "", "", lambda ptx: ptx, maps=maps))
    assert not run.findings
    assert "I603" in [f.code for f in run.remarks]
    mixed, _ = launched(BLACKWELL, Fault("", BLACKWELL, "", "", idesc(10, 3, 0), maps=maps))
    assert {f.code for f in mixed.findings} == {"I603"}


def test_what_threads_or_stores_read_of_a_tile_is_not_missed():
    run, _ = launched(BLACKWELL, next(f for f in FAULTS if f.kernel == BLACKWELL and f.name == "N = 64"))
    assert [f.code for f in unread(run.reads)] == ["I603"]
    assert unread(run.reads, {load.event.instruction.line for load in run.reads.loads}) == []


def test_findings_of_one_line_are_one_though_their_sentences_count_other_phases():
    fault = next(f for f in FAULTS if f.kernel == BLACKWELL and f.name == "half of the bytes expected")
    run, _ = launched(BLACKWELL, fault)
    (found,) = (f for f in run.findings if f.code == "T210")
    places = [at.place for at in (found.at, *found.alike)]
    assert (found.count, len(set(places))) == (3, 1)


def test_findings_that_are_alike_are_told_once():
    fault = next(f for f in FAULTS if f.name == "no wgmma.fence")
    _, ptx = launched(RING, fault)
    one_line = re.sub(r"(?m)^(.*wgmma.mma_async)", r".loc 1 7 3\n\1", ptx)
    run, _ = launched(RING, Fault("", RING, "", "", lambda _: one_line))
    (found,) = run.findings
    assert found.code == "X014"
    assert found.count == len(found.lines) > 2
    assert run.text().count("X014") == 1
    assert f"and {found.count - 1} more like it (PTX line" in run.text()
