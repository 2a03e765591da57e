"""`check` beyond single descriptor fields: what wrote the bytes, when, what a wrong operand looks like, and what is
right by luck.
"""

import copy
import itertools
import re
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import changed, kernel, word_with
from places import ROOT
from smemsim import InputError, InstrDescriptor, SmemDescriptor, check, plan
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.numbers import numbers_told
from strategies import examples

K128 = ("sm_90a", "bf16", "K", "128B", 64, 128)
WORD, ADDS, OFFSET, AT = "step.1.a.word", "step.1.a.k_add", "step.0.offset", "step.0.at"


def with_values(scenario, values):
    """The scenario with other values at paths as findings name them."""
    for path, value in values.items():
        scenario = changed(scenario, path.replace("[", ".").replace("]", ""), value)
    return scenario


def only(scenario):
    """The one finding, after its repair has been applied and found to work."""
    (one,) = check(scenario).findings
    assert one.changes
    values = {str(path): number_of(new) for path, _, new in one.changes}
    assert check(with_values(scenario, values)).findings == ()
    return one


def number_of(value):
    if isinstance(value, list):
        return [number_of(x) for x in value]
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def test_two_issues_that_land_on_each_other_are_the_fault_of_the_offset():
    one = only(changed(kernel(*K128), OFFSET, [0, 0]))
    assert (one.code, one.where) == ("R508", "step[0].offset")
    assert one.fix[2] == [0, 8192]


@pytest.mark.parametrize("by", [(64, 0), (0, 8), (-64, 16)])
def test_another_tile_is_told_by_its_displacement(by):
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64, at=(64, 64))
    scenario = changed(scenario, AT, lambda at: [[at[0][0] + by[0], at[0][1] + by[1]]])
    scenario["tensor"]["X"]["extent"] = {"m": 256, "k": 256}
    scenario["tensor"]["X"]["stride"] = {"m": 512, "k": 2}
    scenario["map"]["tm"] |= {"global_dim": [256, 256], "global_strides": [512]}
    one = only(scenario)
    assert (one.code, one.where) == ("R508", "step[0].at")
    moves = [(name, f"{name} {'+' if d > 0 else '-'} {abs(d)}") for name, d in (("row r", by[1]), ("k", by[0])) if d]
    assert f"reads {', '.join(read for _, read in moves)} in place of {', '.join(meant for meant, _ in moves)}" in one.pattern


def test_what_must_change_together_is_said_and_works():
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64)
    scenario = changed(changed(scenario, "map.tm.swizzle", "none"), WORD, word_with("sm_90a", stride_byte_offset=512))
    one = only(scenario)
    assert one.code == "R501"
    assert [str(path) for path, _, _ in one.changes] == ["map.tm.swizzle", "step[1].a.word"]


def test_data_that_comes_too_late_or_is_gone_names_the_step():
    scenario = kernel(*K128)
    scenario["step"].reverse()
    (one,) = check(scenario).findings
    assert one.code == "R507"
    assert "(step[1]) writes them only afterwards" in one.message
    assert one.repair == "step[1] before step[0]"
    scenario["step"].reverse()
    first_half = changed(changed(scenario, AT, scenario["step"][0]["at"][:1]), OFFSET, scenario["step"][0]["offset"][:1])
    (one,) = (f for f in check(first_half).findings if f.code == "R507")
    assert "k=64 to 127]" in one.message
    assert one.repair.startswith("load X[m=0 to ")
    assert "k=64 to 127] before step[1]; step[0] writes only X[" in one.repair
    over = copy.deepcopy(scenario["step"][0])
    over["at"] = [[x + 64, y] for x, y in over["at"]]
    scenario["tensor"]["X"]["extent"]["k"] = scenario["map"]["tm"]["global_dim"][0] = 512
    scenario["tensor"]["X"]["stride"]["m"] = scenario["map"]["tm"]["global_strides"][0] = 1024
    scenario["step"].insert(1, over)
    (one,) = check(scenario).findings
    assert "(step[1]) overwrote the intended data" in one.message


def test_a_transfer_that_a_wrong_operand_needs_follows_from_its_finding():
    page = (ROOT / "sim/smemsim/explanations/D304.md").read_text()
    bad = tomllib.loads(page.partition("```toml bad.toml\n")[2].partition("```")[0])
    (wrong,), (note,) = check(bad).findings, check(bad).remarks
    assert (wrong.code, note.code, note.because, note.repair) == ("D304", "R510", "D304", "fix D304 first")
    path, _, (words,) = wrong.fix
    assert all(word in wrong.repair for word in words)
    assert check(with_values(bad, {path: [words]})).remarks == ()
    bad["step"].insert(0, bad["step"][1])  # of two transfers that bring the same, the first stays unread
    assert [f.because for f in check(bad).remarks] == ["", "D304"]


@pytest.mark.parametrize("written", [{"stage": 1}, {}], ids=["written", "left out"])
def test_a_stage_that_is_read_instead_of_another_is_named(written):
    """An operand without `stage` reads stage 0."""
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64, stages=3)
    operand, first, read = scenario["step"][1]["a"], scenario["step"][0], written.get("stage", 0)
    operand |= {"start_offset": 0, **written}
    scenario["step"].insert(0, first | {"stage": read, "at": [[at[0], at[1] + 1] for at in first["at"]]})
    one = only(scenario)
    assert (one.code, one.fix) == ("R508", ("step[2].a.stage", read, 2))
    assert one.repair.startswith("stage = 2")
    assert one.message.startswith(f"the operand reads stage {read}; the intended tile is in stage 2;")
    assert "reads row r + 1 in place of row r" in one.pattern


PATTERNS = {
    "rows 0 to 7 of 64 are right": (WORD, word_with("sm_90a", stride_byte_offset=2048)),
    "rows 8 to 15 read the data of rows 16 to 23": (WORD, word_with("sm_90a", stride_byte_offset=2048)),
    "rows 8 apart read the same bytes": (WORD, word_with("sm_90a", stride_byte_offset=0)),
    "rows 0, 8, 16 ... 56 of 64 are right": ("map.tm.swizzle", "none"),
    "16-byte chunks are permuted within their rows": ("map.tm.swizzle", "none"),
    "K steps read the data of others: 1 reads what 0 should read": (ADDS, [0] * 8),
    "only K steps 0 to 3 of 8 are right": (ADDS, [0, 32, 64, 96, 128, 160, 192, 224]),
    "past the end of the shared window": (WORD, word_with("sm_90a", stride_byte_offset=65536)),
    "; all wrong elements read uninitialised bytes": (WORD, word_with("sm_90a", stride_byte_offset=16384)),
}


@pytest.mark.parametrize("says", PATTERNS)
def test_a_fault_has_the_pattern_that_its_formula_gives(says):
    path, value = PATTERNS[says]
    one = check(changed(kernel(*K128), path, value)).findings[0]
    assert any(says in text for text in one.pattern), one.pattern
    assert all(text in one.message for text in one.pattern)


def meant_by(text, of):
    """The numbers that a text of `numbers_told` names."""
    text, _, last = text.partition(" ... ")
    if last:  # the begin of a progression
        first, second, _ = map(int, text.split(", "))
        return {*range(first, int(last) + 1, second - first)}
    text, _, period = text.partition(" mod ")
    parts = [[int(x) for x in part.split(" to ")] for part in text.split(", ")]
    said = {n for part in parts for n in range(part[0], part[-1] + 1)}
    return {n for n in range(of) if n % int(period or of) in said}


@examples(100)
@given(st.one_of(
    st.sets(st.integers(0, 63), min_size=1),
    st.tuples(st.sampled_from([2, 4, 8, 16, 32]), st.sets(st.integers(0, 31), min_size=1)).map(
        lambda drawn: {n for n in range(64) if n % drawn[0] in {x % drawn[0] for x in drawn[1]}}),
))  # fmt: skip
def test_numbers_are_told_in_few_words(numbers):
    text = numbers_told(sorted(numbers), 64)
    assert len(text) < 60
    if not text.endswith("..."):
        assert meant_by(text, 64) == numbers


def epilogue(**layout):
    return {
        "arch": "sm_90a",
        "tensor": {"D": {"dtype": "bf16", "extent": {"m": 128, "n": 128}, "stride": {"m": 256, "n": 2}}},
        "buffer": {"s": {"address": 0x400, "bytes": 8192, "layout": {"swizzle": "128B", "mn": [[64, 128]], "k": [[128, 1]]} | layout}},
        "map": {"tm": {"of": "D", "data_type": "BFLOAT16", "global_address": "D", "global_dim": [128, 128], "global_strides": [256],
                       "box_dim": [64, 64], "swizzle": "128B"}},
        "step": [{"op": "threads", "to": "s", "tensor": "D", "axes": ["m", "n"], "contiguous": "k", "at": [64, 64]},
                 {"op": "tma_store", "map": "tm", "from": "s", "at": [64, 64]}],
    }  # fmt: skip


def test_a_store_takes_what_lies_there_where_it_belongs():
    assert check(epilogue()).findings == ()
    one = only(epilogue(swizzle="none"))
    assert (one.code, one.wrong, one.of) == ("R501", 8192 * 7 // 8, 8192)
    (one,) = check(changed(epilogue(), "step.1.at", [0, 64])).findings
    assert one.code == "R508"
    scenario = epilogue()
    scenario["buffer"]["s"]["layout"]["mn"] = [[32, 128]]
    (one,) = check(scenario).findings
    assert one.code == "R507"


def test_equal_displacements_cancel_only_if_they_do_not_depend_on_the_row():
    """XOR with the same phase: chunk c goes to c ^ 4 in every row if the phase is 4, and to different places in
    different rows if it is 2.
    """

    def both(base):
        layout = {"swizzle": "128B", "xor": "offset", "mn": [[8, 128], [8, 1024]], "k": [[128, 1]]}
        word = SmemDescriptor(arch="sm_90a", stride_byte_offset=1024, leading_byte_offset=16, swizzle="128B").encode()
        sides = {side: {"dtype": "bf16", "major": "K", "word": word, "start": f"s{side}", "k_add": [0, 32, 64, 96],
                        "meant": {"tensor": side, "axes": [axis, "k"]}} for side, axis in (("a", "m"), ("b", "n"))}  # fmt: skip
        return {
            "arch": "sm_90a",
            "tensor": {s: {"dtype": "bf16", "extent": {x: 64, "k": 64}, "stride": {x: 128, "k": 2}} for s, x in (("a", "m"), ("b", "n"))},
            "buffer": {"sa": {"address": base, "layout": layout}, "sb": {"address": base + 0x8000, "layout": layout}},
            "step": [*({"op": "threads", "to": f"s{s}", "tensor": s, "axes": [x, "k"], "contiguous": "k"} for s, x in (("a", "m"), ("b", "n"))),
                     {"op": "mma", "kind": "wgmma", "m": 64, "n": 64, "k": 16, **sides}],
        }  # fmt: skip

    for base, phase in ((0x400, 0), (0x500, 2), (0x600, 4), (0x700, 6)):
        report = check(both(base))
        assert ("H801" in report.codes) is (phase == 4)
        rows, chunks = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
        moved = chunks ^ rows ^ ((rows + phase) % 8)  # hardware's chunk for each of software's
        assert (phase > 0 and bool((moved == moved[:1]).all())) is ("H801" in report.codes)


def test_a_stride_that_only_a_second_atom_would_use_is_luck():
    scenario = kernel("sm_90a", "bf16", "MN", "128B", 128, 64)
    operand = scenario["step"][1]["a"]
    operand |= {"rows": 64, "mn_add": [0, 8192]}
    assert check(scenario).codes == ()
    wrong = changed(scenario, WORD, word_with("sm_90a", leading_byte_offset=4096))
    (one,) = check(wrong).findings
    assert (one.code, one.severity) == ("H803", "luck")
    assert one.numbers == {"leading_byte_offset": [4096, 8192]}
    twice = changed(changed(wrong, "step.1.a.rows", 128), "step.1.a.mn_add", [0])
    assert check(twice).codes == ("D308",)


def test_a_square_tile_hides_that_it_is_transposed():
    wrong = changed(kernel("sm_90a", "bf16", "K", "128B", 64, 64), "step.1.a.meant.axes", ["k", "m"])
    wrong["tensor"]["X"]["extent"] = {"m": 64, "k": 64}
    wrong["tensor"]["X"]["stride"]["m"] = 128
    wrong["map"]["tm"] |= {"global_dim": [64, 64], "global_strides": [128]}
    report = check(wrong)
    first, second = report.findings
    assert (first.code, second.code, second.because) == ("R505", "H802", "R505")
    assert report.answer.startswith("WRONG: 1 finding: R505 at ")
    assert report.text().endswith("1 finding, and 1 that follows from it")


def test_remarks_are_no_findings():
    scenario = changed(kernel("sm_90a", "bf16", "K", "128B", 64, 64), WORD, word_with("sm_90a", leading_byte_offset=1024))
    report = check(scenario)
    assert report.findings == ()
    assert [one.code for one in report.remarks] == ["D310"]
    assert report.text().endswith("no findings, 1 remark")
    twice = copy.deepcopy(scenario)
    twice["step"].insert(0, twice["step"][0] | {"stage": 0, "offset": [16384]})
    twice["buffer"]["s"]["bytes"] = 32768
    assert [one.code for one in check(twice).remarks] == ["R510", "D310"]


def overlaps(buffers, arch="sm_90a"):
    """What is said of buffers that overlap, of a scenario that has nothing else."""
    report = check({"arch": arch, "buffer": buffers})
    assert report.findings == ()
    assert {one.code for one in report.remarks} <= {"A108"}
    return report.remarks


def test_two_buffers_that_overlap_are_told_with_the_bytes_that_they_share():
    scenario = kernel(*K128)
    scenario["buffer"] |= {"epilogue": {"address": 0x2400, "bytes": 0x4000}}
    report = check(scenario)
    assert (report.ok, report.findings) == (True, ())
    (one,) = report.remarks
    assert (one.code, one.severity, one.where) == ("A108", "note", "buffer.epilogue.address")
    assert one.numbers == {"first": 0x2400, "last": 0x43FF, "bytes": 0x2000, "other": "s"}
    assert "s (0x400 to 0x43ff) and epilogue (0x2400 to 0x63ff) share 8,192 bytes, 0x2400 to 0x43ff" in one.message
    assert one.repair == "buffer.epilogue.address = 0x4400, after s"
    assert one.fix == ("buffer.epilogue.address", 0x2400, 0x4400)
    assert check(with_values(scenario, {one.fix[0]: one.fix[2]})).remarks == ()


def test_an_operand_that_an_overlap_destroys_is_told_as_it_is_without_the_note():
    scenario = kernel(*K128)
    scenario["buffer"]["t"] = {"address": 0x2400}
    scenario["step"].insert(1, scenario["step"][0] | {"to": "t"})
    before = check(scenario)
    assert before.findings
    after = check(changed(scenario, "buffer.t", {"address": 0x2400, "bytes": 0x4000}))
    assert (after.findings, after.codes, after.ok) == (before.findings, before.codes, before.ok)
    assert [one.code for one in after.remarks] == ["A108", *(one.code for one in before.remarks)]


SILENT = {
    "they touch": ({"address": 0x400, "bytes": 0x1000}, {"address": 0x1400, "bytes": 0x1000}),
    "they are apart": ({"address": 0x2000, "bytes": 0x1000}, {"address": 0x400, "bytes": 0x1000}),
    "they are the same memory": ({"address": 0x1400, "bytes": 0x2000, "stages": 2}, {"offset": 0x1000, "bytes": 0x2000}),
    "a size is not known": ({"address": 0x400}, {"address": 0x400, "bytes": 0x1000}),
    "a size is nothing": ({"address": 0x400, "bytes": 0x1000}, {"address": 0x800, "bytes": 0}),
    "a size is less than nothing": ({"address": 0x400, "bytes": 0x1000}, {"address": 0x800, "bytes": -64}),
}


@pytest.mark.parametrize("pair", SILENT.values(), ids=SILENT)
def test_buffers_that_do_not_overlap_and_an_alias_are_silent(pair):
    assert overlaps(dict(zip(("a", "b"), pair, strict=True))) == ()


PLACES = {
    "an offset": ({"address": 0x400, "bytes": 0x1800}, {"offset": 0x1000, "bytes": 64}, ("buffer.b.offset", 0x1000, 0x1800)),
    "an offset from a base": ({"address": 0x800, "bytes": 0x1000}, {"base": 0x600, "offset": 0x300, "bytes": 64}, ("buffer.b.offset", 0x300, 0x1200)),
    "no offset": ({"address": 0x200, "bytes": 0x300}, {"base": 0x400, "bytes": 64}, ("buffer.b.offset", None, 0x400)),
    "the first one ends off the second one's alignment": ({"address": 0x400, "bytes": 1000}, {"address": 0x600, "bytes": 64}, ("buffer.b.address", 0x600, 0x800)),
    "one inside the other": ({"address": 0x400, "bytes": 0x4000}, {"address": 0x800, "bytes": 0x100}, ("buffer.b.address", 0x800, 0x4400)),
    "one address, two sizes": ({"address": 0x400, "bytes": 0x100}, {"address": 0x400, "bytes": 0x200}, ("buffer.b.address", 0x400, 0x800)),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "fix"), PLACES.values(), ids=PLACES)
def test_the_second_of_two_buffers_moves_behind_the_first_as_well_aligned_as_it_was(a, b, fix):
    (one,) = overlaps({"a": a, "b": b})
    assert one.fix == fix
    assert overlaps({"a": a, "b": b | {fix[0].rpartition(".")[2]: fix[2]}}) == ()


def test_a_buffer_that_has_no_room_behind_another_is_told_so():
    (one,) = overlaps({"a": {"address": 0x400, "bytes": 0x30000}, "b": {"address": 0x10400, "bytes": 0x30000}})
    assert one.fix is None
    assert one.repair == f"smaller buffers: after a, b would end {0x60400 - 0x39000:,} bytes past the shared window"


@examples(100)
@given(st.dictionaries(st.text("abcdef", min_size=1), st.tuples(st.integers(0x40, 0x60), st.integers(1, 12)), max_size=6))
def test_each_buffer_is_told_once_with_the_one_in_front_with_which_it_shares_most(places):
    has = {name: set(range(16 * at, 16 * (at + size))) for name, (at, size) in places.items()}
    order = sorted(has, key=lambda name: min(has[name]))
    shares = {name: [has[name] & has[other] for other in order[:n] if has[other] != has[name]] for n, name in enumerate(order)}
    wanted = {name: max(map(len, with_others)) for name, with_others in shares.items() if any(with_others)}
    told = overlaps({name: {"address": 16 * at, "bytes": 16 * size} for name, (at, size) in places.items()})
    assert {one.path.name: one.numbers["bytes"] for one in told} == wanted
    assert len(told) == len(wanted)
    for one in told:
        both = has[one.path.name] & has[one.numbers["other"]]
        assert (one.numbers["first"], one.numbers["last"], one.numbers["bytes"]) == (min(both), max(both), len(both))
        in_front = [has[name] for name in order[: order.index(one.path.name)] if has[name] != has[one.path.name]]
        assert one.fix[2] > max(max(other) for other in in_front if other & has[one.path.name])


@pytest.mark.parametrize("layout", ["Sw<3,4,3> o ((8,8),64):((64,512),1)", "S<3,3,3> o 0 o (64,64):(64,1)"])
def test_a_cute_layout_is_the_layout_that_it_prints(layout):
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64)
    scenario["step"][0] = {"op": "threads", "to": "s", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"}
    scenario["buffer"]["s"]["layout"] = layout
    assert check(scenario).findings == ()
    scenario["buffer"]["s"]["layout"] = layout.rpartition("o ")[2]
    one = only(scenario)
    assert (one.code, one.where) == ("R501", "buffer.s.layout")


@pytest.mark.parametrize("layout", ["((8,8),63):((64,512),1)", "(3,5):(5,1)"])
def test_a_cute_layout_whose_elements_do_not_fill_bytes_is_a_sentence(layout):
    scenario = kernel("sm_100a", "bf16", "K", "128B", 64, 64)
    scenario["tensor"]["X"]["dtype"] = scenario["step"][1]["a"]["dtype"] = "e2m1"
    scenario["buffer"]["s"]["layout"] = layout
    with pytest.raises(InputError, match=r"buffer\.s\.layout = .*: .* cannot be recast from 4 to 8 bits"):
        check(scenario)


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ("(64,64):(128,2)", "neither mode begins with stride 1"),
        ("((1,64),64):((1,128),2)", "neither mode begins with stride 1"),  # a mode of one element has no next one
        ("(64,8,8):(64,1,8)", "has 3 modes; needs two"),
        ("Sw<1,4,2> o (64,64):(64,1)", "is the XOR of no swizzle mode"),
    ],
)
def test_a_cute_layout_that_no_operand_has_is_a_sentence(layout, why):
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64)
    scenario["buffer"]["s"]["layout"] = layout
    with pytest.raises(InputError, match=rf"buffer\.s\.layout = .*: .*{why}"):
        check(scenario)


@examples(100)
@given(st.data())
def test_damage_to_what_was_written_is_never_taken_for_health(data):
    """Whatever moves bytes is found, unless the operand still reads what was meant."""
    scenario = kernel(
        *data.draw(st.sampled_from([K128, ("sm_90a", "f16", "MN", "64B", 64, 64), ("sm_100a", "e4m3", "K", "none", 128, 64)]))
    )
    load = scenario["step"][0]
    issue = data.draw(st.integers(0, len(load["at"]) - 1))
    if data.draw(st.booleans()):
        load["offset"][issue] += 128 * data.draw(st.integers(1, 64))
        scenario["buffer"]["s"]["bytes"] += 1 << 14
    else:
        load["at"][issue][data.draw(st.integers(0, 1))] += data.draw(st.sampled_from([8, 16, 64]))
    codes = check(scenario).codes
    assert codes
    assert codes[0][0] in "RDT"


@pytest.mark.parametrize("wrong", [{"n": 64}, {"a_type": "bf16"}, {"b_major": "MN"}, {"m": 64, "n": 256}])
@pytest.mark.parametrize("kept", [{}, {"negate_a": True}])
def test_only_the_wrong_fields_of_an_instruction_descriptor_are_changed(wrong, kept):
    right = {"kind": "f16", "m": 128, "n": 128, "a_type": "f16", "b_type": "f16", "d_type": "f32"} | kept
    a = {"dtype": "f16", "major": "K", "rows": 128}
    step = {"op": "mma", "kind": "f16", "m": 128, "n": 128, "k": 16, "idesc": InstrDescriptor(**right | wrong).word, "a": a, "b": a}
    (one,) = check({"arch": "sm_100a", "step": [step]}).findings
    assert one.code == "I603"
    assert set(one.numbers) == set(wrong)
    assert int(one.fix[2], 16) == InstrDescriptor(**right).word


@pytest.mark.parametrize("rows", [64, 40])
@pytest.mark.parametrize(("path", "value", "code"), [
    (WORD, word_with("sm_90a", stride_byte_offset=512), "D308"), (WORD, word_with("sm_90a", swizzle="64B"), "D302"),
    (ADDS, [0, 32, 64, 96, 128, 160, 192, 224], "R503"), ("step.1.a.start_offset", 16, "R508"), (WORD, word_with("sm_90a", base_offset=2), "D306"),
])  # fmt: skip
def test_at_the_end_of_a_tensor_fill_is_meant_and_faults_are_found_all_the_same(rows, path, value, code):
    """The last rows, and the last 16 of K, are outside the tensor: anything may arrive there."""
    scenario = kernel(*K128)
    scenario["tensor"]["X"]["extent"] = {"m": rows, "k": 112}
    scenario["map"]["tm"]["global_dim"] = [112, rows]
    assert check(scenario).findings == ()
    assert only(changed(scenario, path, value)).code == code


@pytest.mark.parametrize("idesc_agrees", [False, True])
def test_the_other_major_ness_is_changed_in_all_places_at_once(idesc_agrees):
    scenario = changed(kernel("sm_100a", "bf16", "MN", "128B", 128, 64), "step.1.a.major", "K")
    types = {"a_type": "bf16", "b_type": "bf16", "d_type": "f32"}
    scenario["step"][1]["idesc"] = InstrDescriptor(kind="f16", m=128, n=128, a_major="MN" if idesc_agrees else "K", **types).word
    report = check(scenario)
    first = next(one for one in report.findings if not one.because)
    assert first.code == "R505"
    assert {one.because for one in report.findings} == ({"", "R505"} if idesc_agrees else {""})
    assert check(with_values(scenario, {str(path): number_of(new) for path, _, new in first.changes})).findings == ()


def test_an_exchange_of_strides_leaves_nothing_behind():
    scenario = kernel("sm_90a", "bf16", "MN", "128B", 128, 64)
    scenario["step"][1]["a"] |= {"rows": 64, "mn_add": [0, 8192]}
    wrong = changed(scenario, WORD, word_with("sm_90a", leading_byte_offset=1024, stride_byte_offset=8192))
    assert only(wrong).code == "D309"


def test_strides_steps_and_a_writer_that_are_all_wrong_are_changed_together():
    scenario = kernel(*K128)
    wrong = changed(changed(scenario, WORD, word_with("sm_90a", stride_byte_offset=512)), ADDS, [0] * 8)
    one = only(wrong)
    assert {str(path) for path, _, _ in one.changes} == {"step[1].a.word", "step[1].a.k_add"}
    both = only(changed(changed(scenario, "map.tm.swizzle", "none"), ADDS, [0] * 8))
    assert {str(path) for path, _, _ in both.changes} == {"map.tm.swizzle", "step[1].a.k_add"}


def test_a_dimension_that_does_not_step_is_no_reason_to_stop():
    scenario = changed(kernel(*K128), AT, lambda at: [[x + 64, y] for x, y in at])
    scenario["map"]["tm"] |= {
        "global_dim": [*scenario["map"]["tm"]["global_dim"], 2],
        "global_strides": [*scenario["map"]["tm"]["global_strides"], 0],
        "box_dim": [64, 64, 1],
    }
    scenario["step"][0]["at"] = [[*at, 0] for at in scenario["step"][0]["at"]]
    assert check(scenario).findings


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_layout_that_the_other_major_ness_alone_has_is_read_with_that_one(side):
    """32-byte atoms have no K-major layout: who calls such a tile K-major has the major-ness wrong, and what the
    instruction descriptor says follows.
    """
    made = plan(64 if side == "b" else 128, 16, dtype="tf32", major="MN", swizzle="128B_ATOM_32B", arch="sm_100a", side=side)
    scenario = {key: value for key, value in made.scenario().items() if key != "expect"}
    idesc = InstrDescriptor.decode(scenario["step"][1]["idesc"], kind="tf32")
    wrong = with_values(
        scenario, {f"step[1].{side}.major": "K", "step[1].idesc": idesc.word ^ 1 << idesc.table.fields[f"transpose_{side}"].low}
    )
    first, *others = check(wrong).findings
    assert (first.code, first.where) == ("R505", f"step[1].{side}.major")
    assert "128B_ATOM_32B has no K-major layout" in first.message
    assert {one.because for one in others} <= {"R505"}
    assert check(with_values(wrong, {str(path): number_of(new) for path, _, new in first.changes})).findings == ()


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize(("k", "swizzle", "written"), [(16, "32B", "64B"), (16, "32B", "128B"), (32, "64B", "128B")])
def test_a_box_that_is_as_wide_as_the_swizzle_it_is_read_with_was_meant_to_have_it(stages, k, swizzle, written):
    """The wider swizzle of the map leaves holes between its rows, and a ring of stages grows out of its buffer: the
    descriptor is not to follow it.
    """
    made = plan(8, k, dtype="bf16", major="K", swizzle=swizzle, arch="sm_90a", side="b", stages=stages, matrix=(16, 128))
    scenario = {key: value for key, value in made.scenario("box").items() if key != "expect"}
    (name,) = scenario["map"]
    wrong = with_values(scenario, {f"map.{name}.swizzle": f"SWIZZLE_{written}"})
    first = check(wrong).findings[0]
    assert (first.code, first.fix) == ("R501", (f"map.{name}.swizzle", f"SWIZZLE_{written}", swizzle))
    assert f"or swizzle {swizzle} must be {written}" in first.repair
    assert check(with_values(wrong, {first.fix[0]: first.fix[2]})).findings == ()


def test_a_neighbour_whose_swizzle_lets_it_grow_into_a_tile_is_what_is_wrong():
    """Its rows lie 128 bytes apart and not 64: the second half of them covers the tile behind, of which it brings
    nothing.
    """
    scenario = kernel("sm_90a", "bf16", "K", "64B", 64, 32, base=0x1400)
    scenario["tensor"]["Y"] = scenario["tensor"]["X"]
    scenario["map"]["neighbour"] = scenario["map"]["tm"] | {"of": "Y", "global_address": "Y", "swizzle": "128B"}
    scenario["buffer"]["t"] = {"address": 0x400}
    scenario["step"].insert(1, {"op": "tma_load", "map": "neighbour", "to": "t", "at": [[0, 0]]})
    first = check(scenario).findings[0]
    assert (first.code, first.where) == ("R501", "map.neighbour.swizzle")
    assert "writes with swizzle 128B" in first.message
    assert check(with_values(scenario, {first.fix[0]: first.fix[2]})).findings == ()


def test_rows_that_a_map_puts_elsewhere_than_they_are_read_are_its_swizzles_fault():
    """Loaded row by row, 128 bytes apart: rows 4 to 7 lie in the other half of their line, and what is read nobody has
    written.
    """
    scenario = kernel("sm_90a", "bf16", "K", "128B", 8, 64, side="b")
    load, operand = scenario["step"][0], scenario["step"][1]["b"]
    operand["k_add"] = operand["k_add"][:2]
    scenario["map"]["tm"] |= {"box_dim": [32, 1], "swizzle": "64B"}
    load |= {"offset": [128 * row for row in range(8)], "at": [[0, row] for row in range(8)], "expect_bytes": 512}
    first = check(scenario).findings[0]
    assert (first.code, first.fix) == ("R501", ("map.tm.swizzle", "64B", "128B"))
    assert "uninitialised bytes" in first.message
    assert "writes with swizzle 64B" in first.message


def written_by_threads(mode, base, align, **operand):
    """64 rows of one swizzle width of bf16, whose layout XORs offsets, and which wgmma reads."""
    width = MODES[Swizzle(mode)].width
    buffer = {"address": base, "bytes": 64 * width, "layout": {"swizzle": mode, "xor": "offset", "mn": [[64, width]], "k": [[width, 1]]}}
    word = SmemDescriptor(arch="sm_90a", stride_byte_offset=8 * width, swizzle=mode).encode()
    meant = {"tensor": "X", "axes": ["m", "k"]}
    return {
        "arch": "sm_90a",
        "tensor": {"X": {"dtype": "bf16", "extent": {"m": 64, "k": 64}, "stride": {"m": 128, "k": 2}}},
        "buffer": {"s": buffer | ({"declared_align": align} if align else {})},
        "step": [
            {"op": "threads", "to": "s", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"},
            {"op": "mma", "kind": "wgmma", "m": 64, "n": 64, "k": 16, "a": {"dtype": "bf16", "major": "K", "word": word, "k_add": [0], "meant": meant} | operand},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
def test_a_buffer_whose_offsets_are_xored_begins_with_a_pattern_and_is_declared_so(mode):
    """A pattern has 8 swizzled rows of 128 bytes at most; hardware XORs addresses, so a buffer inside a pattern is wrong."""
    pattern = 8 * MODES[Swizzle(mode)].width
    for base, align in itertools.product((0x400, 0x480, 0x500, 0x600, 0x700), (None, 16, 128, 256, 512, 1024, 2048)):
        found = check(written_by_threads(mode, base, align, start="s")).findings
        untouched = check(
            written_by_threads(mode, base, align, word=SmemDescriptor(arch="sm_90a", start_address=0x8000, swizzle=mode).encode())
        )
        if base % pattern:
            assert [f.code for f in found] == ["A105", "R508"]
            assert found[0].repair == f"place s at {-(-base // pattern) * pattern:#x}"
            assert (found[0].numbers["phase"], found[0].fix[1:]) == (base % pattern // 128, (base, -(-base // pattern) * pattern))
            assert f"{base % pattern} B past a multiple of {pattern} B" in found[0].what
            assert "A105" in untouched.codes
        elif align is not None and align < pattern:
            assert [(f.code, f.where, f.repair) for f in found] == [("A106", "buffer.s.declared_align", f"declared_align = {pattern}")]
            assert "A106" not in untouched.codes
        else:
            assert not found
    for xor in ("address", "offset"):  # addresses may begin anywhere, and a layout that is not swizzled, too
        scenario = written_by_threads(mode, 0x480, None, start="s")
        scenario["buffer"]["s"]["layout"] |= {"xor": xor} | ({} if xor == "address" else {"swizzle": "none"})
        assert "A105" not in check(scenario).codes


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("swizzle", ["128B", "64B"])
@pytest.mark.parametrize("meant", [0, 64])
def test_threads_that_read_a_stage_are_told_of_the_elements_of_that_stage(stage, swizzle, meant):
    """The first stage has k 0 to 63, the second one k 64 to 127."""
    scenario = kernel("sm_90a", "bf16", "K", "128B", 64, 64)
    scenario["tensor"]["X"] |= {"extent": {"m": 64, "k": 128}, "stride": {"m": 256, "k": 2}}
    scenario["map"]["tm"] |= {"global_dim": [128, 64], "global_strides": [256], "swizzle": "128B"}
    layout = {"swizzle": swizzle, "mn": [[64, 128]], "k": [[128, 1]]}
    scenario["buffer"]["s"] = {"address": 0x400, "bytes": 16384, "stages": 2, "layout": layout}
    load = {"op": "tma_load", "map": "tm", "to": "s"}
    reads = {"op": "threads", "from": "s", "stage": stage, "tensor": "X", "axes": ["m", "k"], "contiguous": "k", "at": [0, meant]}
    scenario["step"] = [load | {"stage": n, "at": [64 * n, 0]} for n in (0, 1)] + [reads]
    found = [f for f in check(scenario).findings if f.where == "step[2]" or f.changes]
    if meant != 64 * stage:
        assert f"reads X[m=0, k={64 * stage}], needs X[m=0, k={meant}]" in "\n".join(map(str, found))
    elif swizzle == "64B":
        (one,) = found
        assert (one.code, one.repair, one.tried) == ("R501", "buffer.s.layout.swizzle = 128B", True)
    else:
        assert not found


def passes(starts):
    """How many of eight chunks of 16 bytes share one of the eight groups of four banks, at most."""
    return max(np.bincount(np.array(starts) // 16 % 8).tolist())


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("axes", [("mn", "k"), ("k", "mn")])
def test_rows_of_a_layout_that_share_banks_are_counted_and_each_fix_ends_it(mode, axes):
    """Eight chunks of 16 bytes pass at once if they are in other banks: every bank has 4 bytes, and there are 32."""

    def note(lines, stride, mode):
        layout = {"swizzle": mode, axes[0]: [[lines, stride]], axes[1]: [[min(stride, 128), 1]]}
        done = check({"arch": "sm_90a", "buffer": {"s": {"address": 0x400, "bytes": 1 << 15, "layout": layout}}})
        return next((f for f in done.remarks if f.code == "P901"), None)

    def starts(stride, mode):
        return [at ^ (at >> 7 & MODES[Swizzle(mode)].mask) << 4 for at in range(0x400, 0x400 + 8 * stride, stride)]

    for stride in (16, 32, 48, 64, 80, 112, 128, 144, 256, 272, 512, 1040):
        ways = passes(starts(stride, mode))
        assert note(7, stride, mode) is None
        assert (note(8, stride, mode) is not None) == (ways > 1)
        found = note(16, stride, mode)
        if found is None:
            continue
        assert f"of 8 consecutive rows, {ways} have their first 16 bytes in the same 4 banks" in found.what
        assert f" take {ways} passes" in found.why
        for fix in found.repair.split("; or "):
            if swizzled := re.fullmatch(r"swizzle = '(\w+)'", fix):
                assert note(16, stride, swizzled[1]) is None
            elif apart := re.fullmatch(r"rows (\d+) B apart \(now (\d+) B\)", fix):
                assert int(apart[2]) == stride
                assert note(16, int(apart[1]), mode) is None
            else:
                assert fix == "a swizzle, or another stride between rows"
        swizzles = [
            other for other in ("32B", "64B", "128B") if MODES[Swizzle(other)].width == stride and passes(starts(stride, other)) == 1
        ]
        assert re.findall(r"swizzle = '(\w+)'", found.repair) == swizzles
        assert ("B apart" in found.repair) == (passes(starts(stride + 16, mode)) == 1)


STEPS = {1: ("32B", 16), 4: ("128B", 64), 8: ("128B", 128)}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("by", [8, 24, 37, -24])
@pytest.mark.parametrize("which", ["one", "the last", "all"])
def test_a_start_between_two_units_is_told_with_its_step_and_all_starts(steps, by, which):
    """The field loses the low four bits: the address is right only if nothing else is off."""
    scenario = kernel("sm_90a", "bf16", "K", STEPS[steps][0], 64, STEPS[steps][1])
    begin, adds = scenario["buffer"]["s"]["address"], scenario["step"][1]["a"]["k_add"]
    chosen = {"one": [min(1, steps - 1)], "the last": [steps - 1], "all": range(steps)}[which]
    used = [add + by * (n in chosen) for n, add in enumerate(adds)]
    (f,) = (f for f in check(changed(scenario, ADDS, used)).findings if f.cause is None)
    of_step = f" of K step {chosen[0]}" * (steps > 1 and by != 8)
    assert f.code == "D303"
    assert f.what == f"start address {begin + used[chosen[0]]:#x}{of_step} is {by % 16} B past a multiple of 16 B"
    if by == 8:
        assert f.repair == "start addresses that are multiples of 16 B"
        assert "happens to be right" in f.why
        return
    told = [n for n in range(steps) if steps <= 4 or n in chosen]
    some = [f"[{', '.join(f'{begin + add[n]:#x}' for n in told[:4])}{', ...' * (len(told) > 4)}]" for add in (used, adds)]
    which = {1: f" of K step {told[0]}", 8: " of K steps 0 to 3 ..."}[len(told)] if steps > 4 else ""
    assert f.repair == f"start{'s' * (len(told) > 1)} {some[0]}{which} must be {some[1]}"


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("step", [0, -1])
@pytest.mark.parametrize("by", [0x40000, 0x3FC00, 0x40010, 0x7FFF0])
def test_a_start_that_carries_out_of_its_field_is_told_with_its_advance(steps, step, by):
    scenario = kernel("sm_90a", "bf16", "K", STEPS[steps][0], 64, STEPS[steps][1])
    begin, adds = scenario["buffer"]["s"]["address"], scenario["step"][1]["a"]["k_add"]
    step %= steps
    used = [add + by * (n == step) for n, add in enumerate(adds)]
    (f,) = (f for f in check(changed(scenario, ADDS, used)).findings if f.cause is None)
    past = begin + used[step]
    assert f.code == "D304"
    if by == 0x40000:  # a whole turn
        assert f.what == f"start address {past:#x} does not fit the field"
        assert (f.repair, "happen to be the right address" in f.why) == ("an advance that stays in the window", True)
        return
    assert f.what == (
        f"the start address {past:#x} of K step {step} does not fit the field"
        if steps > 1
        else f"start address {past:#x} does not fit the field"
    )
    assert f"the carry is lost, and the start is {past % 0x40000:#x}" in f.why
    apart = [[add - of[0] for add in of] for of in (used, adds)]
    assert (f"it must begin {apart[1][step]} B after the first K step, not {apart[0][step]} B" in f.why) == (step > 0)
    if steps == 1:
        assert f.repair == "mask the sum, or place the buffer at a lower address"
    else:
        assert f.repair.startswith(f"the byte offsets {apart[0]} of the K steps must be {apart[1]}")
        assert (f"start {past:#x} must be {begin:#x}" in f.repair) == (step == 0)


@pytest.mark.parametrize("steps", STEPS)
def test_starts_in_bytes_are_told_with_both_shifts(steps):
    """The field counts units of 16 bytes; the word has the address itself."""
    scenario = kernel("sm_90a", "bf16", "K", STEPS[steps][0], 64, STEPS[steps][1])
    a = scenario["step"][1]["a"]
    begin, adds, word = scenario["buffer"]["s"]["address"], a["k_add"], a["word"]
    of_a = {name: value for name, value in a.items() if name not in ("word", "start", "k_add", "start_offset")}
    right = changed(scenario, "step.1.a", of_a | {"words": [[word | (begin + add) >> 4 for add in adds]]})
    assert check(right).codes == ()
    (f,) = (
        f
        for f in check(changed(scenario, "step.1.a", of_a | {"words": [[word | (begin + add) for add in adds]]})).findings
        if f.cause is None
    )
    assert f.code == "D301"
    also = f", and the byte offsets {[16 * add for add in adds]} of the K steps must be {adds}" * (steps > 1)
    assert f.repair.partition("; or ")[0] == f"start {16 * begin:#x} must be {begin:#x}{also}: shift addresses and advances right by 4"


def test_a_start_of_zero_is_no_start_in_bytes():
    """The low 14 bits of 0x4000 are zero, too."""
    scenario = changed(kernel("sm_90a", "bf16", "K", "128B", 64, 64), "buffer.s.address", 0x4000)
    a = scenario["step"][1]["a"]
    of_a = {name: value for name, value in a.items() if name not in ("word", "start", "k_add", "start_offset")}
    assert check(scenario).codes == ()
    for begin in (0, 0x4400):
        words = [[a["word"] | (begin + add) >> 4 for add in a["k_add"]]]
        assert "D301" not in check(changed(scenario, "step.1.a", of_a | {"words": words})).codes


@pytest.mark.parametrize(("start", "is_generic"), [(0x3FC00, False), (0x3FFF0, False), (0x40000, True), (0x7F0000000400, True)])
def test_an_address_past_the_window_is_a_generic_one(start, is_generic):
    found = [f for f in check(changed(kernel(*K128), "step.1.a.start", start)).findings if f.cause is None]
    assert ["is not a .shared address" in f.what for f in found] == [is_generic]
    assert (found[0].code == "D303") == is_generic
