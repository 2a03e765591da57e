"""Scale factors, tcgen05.cp and tensor memory, in scenarios and in launches: correct kernels raise nothing, planted
faults have their code. Nothing is measured.
"""

import copy
import dataclasses
import itertools
import json
import re
import types
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kernels import changed, kernel, said_of_damaged, word_with
from messages import facts, launch_facts, one_line
from scaled import ARCH, MODES, scaled
from scaled_fragments import SHUFFLED, FragmentGemm, sparse_fragments
from scaled_gemms import IN_A_ROW, STORES, Gemm, Halves, Mapped, Sparse, SparseWarpgroup, Stored, run
from smemsim import GlobalMemory, InputError, ScaleLayout, SharedMemory, TensorMemory, TmemAddress, check, tcgen05_cp
from smemsim.cli import main
from smemsim.core.spec.tensor_memory import COPY_SHAPES
from smemsim.diagnosis import scales
from smemsim.diagnosis.operands import metadata, orders
from smemsim.diagnosis.operands.metadata import RegisterSources
from strategies import examples, is_night
from test_check import number_of, value_at

# ---- correct kernels


@given(st.sampled_from(list(MODES)), st.sampled_from([64, 128, 192, 256]), st.integers(1, 8), st.sampled_from(["threads", "bulk", "tma"]),
       st.sampled_from([(0, 0), (128, 4), (256, 8)]), st.booleans())  # fmt: skip
@examples(25)
def test_correct_block_scaled_kernels_are_clean_and_looked_at(mode, n, steps, by, at, meant):
    report = check(scaled(mode, n=n, steps=steps, by=by, at=at, meant=meant))
    assert report.findings == ()
    assert report.unchecked == ()
    assert (report.machine.tmem_writer >= 0).any()


@pytest.mark.parametrize("mode", MODES)
def test_tensor_memory_holds_what_the_machine_copies(mode):
    """The owners of a scenario against `tcgen05_cp` on bytes, read back by `ScaleLayout`."""
    scenario = scaled(mode, steps=4)
    tmem = check(scenario).machine.tmem
    first, copies = scenario["step"][2], 4 * MODES[mode][2] // 4
    shared, memory = SharedMemory(ARCH), TensorMemory(ARCH)
    pad = memory.alloc(512)
    assert pad.column == 0
    offsets = first["a"]["k_add"]
    assert len(offsets) == copies
    tmem_bytes = bytes((7 * i + i // 256) % 256 for i in range(512 * copies))
    shared.write(0x400, tmem_bytes)
    for offset, column in zip(offsets, first["to_tmem"][0], strict=True):
        tcgen05_cp(memory, column, first["a"]["word"] + (0x400 + offset >> 4), shape="32x128b", multicast="warpx4", shared=shared)
    held = check(scenario).machine.memory
    source = held.source(np.arange(held.size))
    for row in (0, 1, 31, 32, 70, 127):
        for step in range(4):
            kind, _, each, _ = MODES[mode]
            layout = ScaleLayout("A", m=128, n=128, kind=kind, scale_vec=mode, scale_id=scenario["step"][4]["scale_a"]["id"][step],
                                 column=scenario["step"][4]["scale_a"]["tmem"][step])  # fmt: skip
            for index in range(each):
                for number in range(layout.copies):
                    _, lane, column, byte = layout.location(row, index, number)
                    at = [int(x) for x in (source == tmem[lane, column, byte]).nonzero()[0]]
                    assert len(at) == 1
                    assert memory.read(lane, column) >> 8 * byte & 0xFF == tmem_bytes[at[0] - 0x400]


def test_two_instructions_of_m_in_one_tile():
    """M = 256 as two blocks of A; the offsets that take the logical shape for the layout in tensor memory (triton issue
    11633) are found.
    """
    scenario = scaled("4X", n=256, steps=4)  # what is B there is the A of 256 rows here
    mma = scenario["step"][4]
    good, bad = [[0, 8, 16, 24], [4, 12, 20, 28]], [[0, 8, 16, 24], [8, 16, 24, 32]]
    wide = mma.pop("scale_b")
    mma["n"], mma["idesc"] = 128, scaled("4X")["step"][4]["idesc"]
    mma["scale_a"] = wide | {"id": 0, "tmem": [[320 + c for c in row] for row in good]}
    assert check(scenario).findings == ()
    wrong = changed(scenario, "step.4.scale_a.tmem", [[320 + c for c in row] for row in bad])
    [one] = check(wrong).findings
    assert (one.code, one.wrong, one.of) == ("S702", 2048, 4096)
    assert one.numbers["tmem"]["needed"] == scenario["step"][4]["scale_a"]["tmem"]
    assert one.fix == ("step[4].scale_a.tmem", wrong["step"][4]["scale_a"]["tmem"], scenario["step"][4]["scale_a"]["tmem"])


# ---- planted faults


def faults(mode, meant):
    """(code, in words, scenario)."""
    good = scaled(mode, steps=8, meant=meant)
    scales = 8 * MODES[mode][2]
    plain = {"swizzle": "none", "mn": [[128, scales]], "k": [[scales, 1]]}
    columns, ids = good["step"][4]["scale_a"]["tmem"], good["step"][4]["scale_b"]["id"]
    adds, to = good["step"][2]["a"]["k_add"], good["step"][2]["to_tmem"][0]
    yield "S701", "row-major scales", changed(good, "buffer.sfa.layout", plain)
    yield "S701", "scale-major scales", changed(good, "buffer.sfa.layout", {"swizzle": "none", "mn": [[128, 1]], "k": [[scales, 128]]})
    yield "S701", "rows of a block in order", changed(good, "buffer.sfa.layout.mn", [[128, 4], [1, 512]])
    yield "D308", "another SBO", changed(good, "step.2.a.word", word_with(ARCH, stride_byte_offset=256))
    yield "D301", "SBO in bytes", changed(good, "step.2.a.word", word_with(ARCH, stride_byte_offset=2048))
    yield "D302", "a swizzle code", changed(good, "step.2.a.word", word_with(ARCH, swizzle="128B"))
    yield "R508", "another start", changed(good, "step.2.a.start_offset", 16)
    yield "I605", "no warpx4", changed(good, "step.2.multicast", "")
    yield "I605", "copies that overwrite one another", changed(good, "step.2.to_tmem", [c - 2 * i for i, c in enumerate(to)])
    yield "I605", "an advance of another shape", changed(good, "step.2.a.k_add", [2 * x for x in adds])
    yield "S702", "columns that stand still", changed(good, "step.4.scale_a.tmem", columns[0])
    yield "S702", "columns twice as far", changed(good, "step.4.scale_a.tmem", [2 * c - columns[0] for c in columns])
    yield "S702", "another column", changed(good, "step.4.scale_a.tmem", [c + 1 for c in columns])
    if mode != "4X":
        yield "S702", "ids that stand still", changed(good, "step.4.scale_b.id", 0)
        yield "S702", "ids backwards", changed(good, "step.4.scale_b.id", ids[::-1])
        yield "I603", "the descriptor has another id", changed(good, "step.4.idesc", lambda w: w | 2 << 29)
    yield "R507", "a copy is missing", changed(changed(good, "step.2.to_tmem", to[:1]), "step.2.a.k_add", adds[:1])


CASES = [(mode, meant, number) for mode in MODES for meant in (True, False) for number in range(len(list(faults(mode, meant))))]
TEXT_ONLY = {"a copy is missing"}


@pytest.mark.parametrize(("mode", "meant", "number"), CASES)
def test_a_planted_fault_is_the_first_finding_and_its_repair_works(mode, meant, number, snapshot):
    code, what, scenario = list(faults(mode, meant))[number]
    report = check(scenario)
    assert facts(report.findings) == snapshot
    first = report.findings[0]
    assert first.code == code, report.text()
    assert report.codes == (code,), report.text()  # the rest are consequences
    assert first.grade in ("witnessed", "documented", "compiled", "inferred")
    assert one_line(first.what) in one_line(report.text())
    assert (first.fix is None) == (what in TEXT_ONLY), report.text()
    if first.fix:
        path, old, new = first.fix
        place = path.replace("[", ".").replace("]", "")
        if old is not None:
            assert value_at(scenario, place) == number_of(old)
        assert check(changed(scenario, place, number_of(new))).codes == ()


def test_the_first_wrong_scale_is_a_place_in_tensor_memory():
    scenario = changed(scaled("1X", steps=8), "step.4.scale_a.tmem", 256)
    [one] = check(scenario).findings
    assert (one.where, one.wrong, one.of) == ("step[4].scale_a.tmem", 512, 1024)
    assert one.first == {"block": 0, "step": 4, "row": 0, "k": 0, "read": "SFA[r=0, s=0]", "meant": "SFA[r=0, s=4]", "lane": 0, "column": 256, "byte": 0}  # fmt: skip
    assert one.numbers == {"tmem": {"used": [[256] * 8], "needed": [[256] * 4 + [260] * 4]}}
    assert one.fix[2] == [256] * 4 + [260] * 4
    assert json.loads(json.dumps(check(scenario).as_dict()))["findings"][0]["repair"]["new"] == one.fix[2]


def test_both_tables_can_be_wrong():
    scenario = changed(changed(scaled("2X", steps=4), "step.4.scale_b.id", 0), "step.4.scale_b.tmem", 320)
    [one] = check(scenario).findings
    assert (one.code, one.fix) == ("S702", None)
    assert "columns [320, 320, 320, 320] must be [320, 320, 324, 324] and scale ids [0, 0, 0, 0] must be [0, 2, 0, 2]" in one.repair


def test_an_id_that_the_mode_has_not():
    report = check(changed(scaled("2X", steps=2), "step.4.scale_a.id", [0, 1]))
    assert report.codes == ("S702",)
    assert "2X begins at byte 0 or 2" in report.findings[0].message


def test_an_id_of_the_descriptor_that_the_mode_has_not():
    """The instruction descriptor is what is wrong; that other scale factors are read follows from it."""
    scenario = scaled("2X", steps=1)
    del scenario["step"][4]["scale_a"]["id"]
    report = check(changed(scenario, "step.4.idesc", lambda w: w | 1 << 29))
    assert [(f.code, f.because) for f in report.findings] == [("I603", ""), ("S702", "I603")]


@pytest.mark.parametrize(("k_step", "is_known"), [(4, True), (2, True), (None, False)])
def test_the_type_of_the_tensor_or_the_step_of_k_says_how_many_factors_a_row_has(k_step, is_known):
    """A tensor of bytes may be of either type of mxf4nvf4: two factors for a row, or four."""
    scenario = scaled("4X", steps=1)
    mma = scenario["step"][-1]
    del mma["scale_vec"]
    assert check(scenario).unchecked == ()
    for tensor in scenario["tensor"].values():
        tensor["dtype"] = "u8"
    for step in scenario["step"][2:4]:
        step["a"]["dtype"] = "u8"
    for side in ("scale_a", "scale_b"):
        mma[side]["meant"] |= {} if k_step is None else {"k_step": k_step}
    report = check(scenario)
    assert (report.findings, report.unchecked) == ((), () if is_known else ("step[4].scale_a", "step[4].scale_b"))


def test_the_descriptor_of_one_step_has_its_id():
    """That of several steps has 0, which each step's id is put into."""
    for steps, codes in ((1, ["I603"]), (2, [])):
        scenario = scaled("1X", steps=steps)
        mma = scenario["step"][-1]
        mma["scale_a"] |= {"id": list(range(1, 1 + steps)), "meant": mma["scale_a"]["meant"] | {"at": [0, 1]}}
        report = check(scenario)
        assert [f.code for f in report.findings] == codes, report.text()
        if codes:
            [change] = report.findings[0].changes
            mma["idesc"] = int(change.new, 16)
            assert check(scenario).findings == ()


def test_an_id_of_four_is_no_byte_of_a_cell():
    scenario = scaled("1X")
    scenario["step"][-1]["scale_a"]["id"] = [0, 1, 2, 4]
    with pytest.raises(InputError, match=re.escape("id = [0, 1, 2, 4]: needs bytes of a cell, 0 to 3")):
        check(scenario)


def test_columns_are_repaired_with_the_ids_in_their_addresses():
    scenario = scaled("2X")
    mma = scenario["step"][-1]
    right = [column | id_ << 30 for column, id_ in zip(mma["scale_a"]["tmem"], mma["scale_a"].pop("id"), strict=True)]
    mma["scale_a"]["tmem"] = [address + 4 for address in right]
    [finding] = check(scenario).findings
    mma["scale_a"]["tmem"] = finding.changes[0].new
    assert (finding.code, mma["scale_a"]["tmem"], check(scenario).findings) == ("S702", right, ())


def test_a_column_that_only_begins_right_is_no_repair():
    """Of block 0 at column 128 the next copy leaves a single column."""
    scenario = changed(scaled("1X", steps=8), "step.4.scale_a.tmem", 400)
    again = copy.deepcopy(scenario["step"][2])
    again["a"] |= {"k_add": [0]}
    other = copy.deepcopy(again)
    other["a"] |= {"k_add": [512], "meant": other["a"]["meant"] | {"at": [0, 4]}}
    scenario["step"][2:2] = [again | {"to_tmem": 128}, other | {"to_tmem": 129}]
    [one] = check(scenario).findings
    assert (one.code, one.fix[2]) == ("S702", [256] * 4 + [260] * 4)


def test_scale_ids_in_the_address_and_in_the_descriptor():
    """CUTLASS keeps the id in bits 31:30 of the address; without both it is that of the instruction descriptor."""
    scenario = scaled("1X", steps=4)
    read = scenario["step"][4]["scale_a"]
    ids = read.pop("id")
    assert check(scenario).codes == ("S702",)
    read["tmem"] = [c | i << 30 for c, i in zip(read["tmem"], ids, strict=True)]
    assert check(scenario).findings == ()
    one_step = scaled("1X", steps=1)
    del one_step["step"][4]["scale_a"]["id"]
    assert check(one_step).findings == ()
    wrong = changed(one_step, "step.4.idesc", lambda w: w | 3 << 29)
    [one] = check(wrong).findings
    assert (one.code, one.where) == ("S702", "step[4].idesc")
    assert check(changed(wrong, "step.4.idesc", int(one.fix[2], 16))).findings == ()


@pytest.mark.parametrize(("shape", "cast"), [key for key in COPY_SHAPES if key[0] not in ("32x128b", "4x256b")])
def test_other_copies_do_not_fill_the_lanes(shape, cast):
    scenario = scaled("1X", steps=4, meant=False)
    scenario["step"][2] |= {"shape": shape, "multicast": cast}
    report = check(scenario)
    assert report.findings[0].code == "I605", report.text()
    assert "copy with .32x128b.warpx4" in report.findings[0].repair
    assert check(changed(changed(scenario, "step.2.shape", "32x128b"), "step.2.multicast", "warpx4")).findings == ()


def test_shapes_have_several_names():
    for text in (
        "tcgen05.cp.cta_group::1.32x128b.warpx4",
        "tcgen05.cp 32x128b",
        "tcgen05.cp.4x32dp128bit (scale factors)",
        "SM100_UTCCP_4x32dp128bit_1cta",
    ):
        scenario = scaled("1X")
        del scenario["step"][2]["shape"], scenario["step"][2]["multicast"]
        scenario["step"][2]["instruction"] = text
        assert check(scenario).findings == ()
        assert check(scenario).unchecked == ()
    scenario["step"][2]["instruction"] = "tcgen05.cp.cta_group::1.32x128b"
    assert check(scenario).codes == ("I605",)
    scenario["step"][2]["instruction"] = "tcgen05.cp 64x128b"  # either of two
    assert check(scenario).codes == ()
    assert [x.partition(" ")[0] for x in check(scenario).unchecked] == ["step[4].scale_a", "step[4].scale_b"]


@pytest.mark.parametrize("by", ["bulk", "tma"])
@pytest.mark.parametrize("meant", [True, False])
def test_blocks_that_no_thread_makes_must_lie_so_in_global_memory(by, meant):
    """Copies of whole blocks from a row-major tensor: there is no layout to change."""
    scenario = scaled("1X", steps=8, by=by, meant=meant)
    for tensor in scenario["tensor"].values():
        del tensor["scale_blocks"]
        tensor["stride"] = {"r": 8, "s": 1}
    for tm in scenario["map"].values():
        tm["global_address"] = tm.pop("of")
    report = check(scenario)
    assert report.codes == ("S701",), report.text()
    assert {f.where for f in report.findings if f.code == "S701"} == {"step[2].a", "step[3].a"}
    distances = "counted from row 0, scale 0: row 1 at 8 B (must be at 16 B), row 32 at 256 B (must be at 4 B)"
    assert distances in report.findings[0].message
    assert "in global memory" in report.findings[0].repair
    assert report.findings[0].fix is None


def test_scale_factors_of_two_cells_are_not_looked_at():
    """Those of K = 96."""
    scenario = scaled("4X", steps=1)
    scenario["step"][4] |= {"k": 96, "scale_vec": "block16"}
    del scenario["step"][4]["idesc"]
    report = check(scenario)
    assert report.findings == ()
    assert "step[4].scale_a (scale factors of K = 96" in report.unchecked[0]


def test_what_tensor_memory_holds_may_be_unknown():
    """Without copies nothing is said of the scale factors, but that two steps cannot read the same ones and mean
    others.
    """
    scenario = scaled("1X", steps=8)
    scenario["step"] = [s for s in scenario["step"] if s["op"] == "mma"]
    report = check(scenario)
    assert report.findings == ()
    assert [x.partition(" ")[0] for x in report.unchecked] == ["step[0].scale_a", "step[0].scale_b"]
    assert "not looked at: step[0].scale_a" in report.text()
    assert check(changed(scenario, "step.0.scale_a.tmem", 256)).codes == ("S702",)
    half = scaled("1X")
    del half["step"][2]["to_tmem"]
    assert [x.partition(" ")[0] for x in check(half).unchecked] == ["step[4].scale_a", "step[4].scale_b"]


def test_scales_of_a_pair():
    """M = 128 over two CTAs: this CTA has 64 rows of A, and the upper half of N 64 lanes further, where warpx2::01_23
    brings it.
    """
    scenario = scaled("1X", n=256, steps=4, meant=False)
    mma, copy_b = scenario["step"][4], scenario["step"][3]
    mma["cta_group"] = 2
    copy_b |= {"shape": "64x128b", "multicast": "warpx2::01_23", "to_tmem": 320}
    copy_b["a"] |= {"k_add": [0], "mn_add": [0]}
    mma["scale_b"]["tmem"] = 320
    assert check(scenario).findings == ()
    copy_b["multicast"] = "warpx2::02_13"
    [one, _] = check(scenario).findings
    assert (one.code, one.fix) == ("I605", ("step[3].multicast", "warpx2::02_13", "warpx2::01_23"))


@pytest.mark.parametrize(
    ("shape", "multicast", "fix"),
    [
        ("32x128b", "warpx4", None),
        ("64x128b", "warpx2::02_13", ("step[3].multicast", "warpx2::02_13", "warpx2::01_23")),
    ],
)
def test_a_copy_to_lanes_that_need_other_rows_is_to_be_one_of_more_rows(shape, multicast, fix):
    scenario = scaled("1X", n=256, steps=4, meant=False)
    mma, copy_b = scenario["step"][4], scenario["step"][3]
    mma["cta_group"] = 2
    copy_b |= {"shape": shape, "multicast": multicast, "to_tmem": 320}
    copy_b["a"] |= {"k_add": [0], "mn_add": [0]}
    mma["scale_b"]["tmem"] = 320
    one = check(scenario).findings[0]
    assert (one.code, one.fix, one.repair) == ("I605", fix, "copy with .64x128b.warpx2::01_23")
    copy_b |= {"shape": "64x128b", "multicast": "warpx2::01_23"}
    assert check(scenario).findings == ()


@pytest.mark.parametrize("row", [row for row in COPY_SHAPES.values() if row.copies > 1], ids=lambda row: f"{row.name}.{row.multicast}")
def test_every_copy_that_is_proposed_serves_the_lanes_and_has_the_fewest_rows(row):
    """All ways in which the lanes of the four warps may need the same rows."""
    pairs = {"warpx2::01_23": ((0, 1), (2, 3)), "warpx2::02_13": ((0, 2), (1, 3))}
    for quarters in {tuple(map(of.index, of)) for of in itertools.product(range(4), repeat=4)}:
        need = np.full(scales.TMEM, scales.UNWRITTEN, np.int64)
        need[:, 8:12] = (32 * np.repeat(quarters, 32) + np.tile(np.arange(32), 4))[:, None, None] * 16 + np.arange(16).reshape(4, 4)
        serve = [name for name, of in pairs.items() if all(quarters[one] == quarters[two] for one, two in of)]
        assert scales._needed(need, row, TmemAddress(0, 8))[1] == (
            len(set(quarters)) > 1 if row.copies == 4 else row.multicast not in serve
        )
        if not scales._needed(need, row, TmemAddress(0, 8))[1]:
            continue
        told = scales._other_multicast(3, types.SimpleNamespace(multicast=row.multicast), row, need, [TmemAddress(0, 8)])
        assert told.repair == "copy with " + (" or ".join(f".64x128b.{name}" for name in pairs if name in serve) or ".128x128b")


# ---- copies


def test_blocks_of_a_copy_of_64_lines():
    """Lines 32 to 63 are the next 128 rows, and so the next copy goes on 256 rows further."""
    scenario = scaled("1X", n=256)
    lines = scenario["step"][3]
    lines |= {"shape": "64x128b", "multicast": "warpx2::01_23", "to_tmem": [[320], [324]]}
    lines["a"]["mn_add"] = [0, 1024]
    scenario["tensor"]["SFB"]["extent"]["r"] = 512
    scenario["buffer"]["sfb"] |= {"bytes": 2048}
    scenario["buffer"]["sfb"]["layout"]["mn"][2][0] = 4
    scenario["step"] = scenario["step"][:4]
    assert check(scenario).findings == ()
    assert check(changed(scenario, "step.3.a.mn_add", [0, 512])).findings != ()


def tile(shape="128x256b", m=128, lane=0, **more):
    """A of bf16 through shared memory and copies into tensor memory."""
    x = {"dtype": "bf16", "extent": {"m": 128, "k": 64}, "stride": {"m": 128, "k": 2}}
    layout = {"swizzle": "128B", "mn": [[8, 128], [16, 1024]], "k": [[128, 1]]}
    a = {"dtype": "bf16", "major": "K", "meant": {"tensor": "X", "axes": ["m", "k"]}}
    return {"arch": ARCH, "tensor": {"X": x}, "buffer": {"s": {"address": 1024, "bytes": 16384, "layout": layout}}, "step": [
        {"op": "threads", "to": "s", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"},
        {"op": "copy", "shape": shape, "to_tmem": 64, "a": a | {"word": 0x4000404000010000, "start": "s", "k_add": [0, 32, 64, 96]}},
        {"op": "mma", "kind": "f16", "m": m, "n": 128, "k": 16, "a": a | {"tmem": [(lane << 16) + 64 + 8 * i for i in range(4)]}, **more}]}  # fmt: skip


def test_a_comes_from_tensor_memory():
    scenario = tile()
    assert check(scenario).findings == ()
    assert check(scenario).unchecked == ()
    wrong = changed(scenario, "step.2.a.tmem", [64] * 4)
    [one] = check(wrong).findings
    assert (one.code, one.fix) == ("R502", ("step[2].a.tmem", [64] * 4, [64, 72, 80, 88]))
    registers = changed(scenario, "step", scenario["step"][2:])
    assert check(registers).unchecked == ("step[0].a",)


@pytest.mark.parametrize(("about", "says"), [
    ({"lane": 16}, "begins in lane 16"), ({"m": 64}, "row 16 of A is in lane 16 and is read from lane 32"),
    ({"m": 64, "ws": True}, "the lanes of D (layout E), 2 times"), ({"cta_group": 2}, "(layout B), 2 times"),
])  # fmt: skip
def test_rows_of_a_lie_in_the_lanes_of_d(about, says):
    report = check(tile(**about))
    assert report.codes == ("I604",)
    assert says in report.findings[0].message
    assert report.findings[0].grade == "compiled"
    if report.findings[0].fix:
        assert check(changed(tile(**about), "step.2.a.tmem", report.findings[0].fix[2])).findings == ()


def test_a_copy_moves_the_rows_and_columns_of_its_shape():
    for scenario, fix in (
        (changed(tile(), "step.1.k", 8), None),
        (changed(tile(), "step.1.a.rows", 64), None),
        (changed(tile("128x128b"), "step.1.k", 16), ("step[1].shape", "128x128b", "128x256b")),
        (tile("128x128b"), ("step[1].a.k_add", [0, 32, 64, 96], [0, 16, 32, 48])),
    ):
        report = check(scenario)
        assert report.codes[0] == "I605", report.text()
        assert report.findings[0].fix == fix
    assert check(changed(changed(tile(), "step.1.k", 16), "step.1.a.rows", 128)).findings == ()


def test_a_copy_that_leaves_its_buffer():
    scenario = tile()
    scenario["step"] = scenario["step"][:2]
    del scenario["step"][1]["a"]["meant"]
    assert check(scenario).findings == ()
    assert check(changed(scenario, "step.1.a.k_add", [0, 32, 64, 128])).codes == ("I605",)
    assert check(changed(scenario, "step.1.a.major", "MN")).codes == ("I602",)


def test_copies_need_tensor_memory():
    scenario = tile()
    scenario["arch"] = "sm_90a"
    with pytest.raises(InputError, match=r"step\[1\]: op = 'copy' is tcgen05.cp, which sm_90a has not"):
        check(scenario)


# ---- split operands


def parts(dtype, swizzle, part, total):
    """B of a pair, MN-major, in instructions of `part` columns a CTA."""
    scenario = kernel(ARCH, dtype, "MN", swizzle, total, 64, side="b")
    mma, size, width = scenario["step"][1], 2 if dtype == "f16" else 1, {"128B": 128, "64B": 64}[swizzle]
    starts = [i * part * size for i in range(total // part)]
    mma |= {"cta_group": 2, "m": 256, "n": 2 * part}
    mma["b"] |= {"rows": part, "mn_add": [x // width * 64 * width + x % width for x in starts]}
    return scenario


@pytest.mark.parametrize(("dtype", "swizzle", "part", "total", "cut"), [
    ("f16", "128B", 96, 192, True), ("f16", "64B", 48, 192, True), ("f16", "128B", 64, 192, False), ("f16", "64B", 96, 192, False),
    ("f16", "128B", 32, 192, False), ("e4m3", "128B", 64, 256, False), ("e4m3", "64B", 96, 192, True),
])  # fmt: skip
def test_parts_that_cut_an_atom(dtype, swizzle, part, total, cut):
    """A part may end inside an atom; one that goes on past the end of the atom in which it began has no descriptor."""
    report = check(parts(dtype, swizzle, part, total))
    assert report.codes == (("I604",) if cut else ()), report.text()
    if cut:
        unit = {"128B": 128, "64B": 64}[swizzle] // (2 if dtype == "f16" else 1)
        assert f"multiple of {unit} rows" in report.findings[0].repair


@pytest.mark.parametrize(("rows", "codes"), [(12, ("I604",)), (16, ()), (8, ())])
def test_parts_that_cut_an_atom_of_lines(rows, codes):
    """K-major atoms of 8 lines that are padded: a part may begin at a whole atom only."""
    scenario = kernel(ARCH, "bf16", "K", "128B", 48, 64, side="b")
    scenario["buffer"]["s"] = {"address": 1024, "layout": {"swizzle": "128B", "mn": [[8, 128], [6, 2048]], "k": [[128, 1]]}}
    scenario["step"][0] = {"op": "threads", "to": "s", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"}
    starts = [i * rows // 8 * 2048 + i * rows % 8 * 128 for i in range(48 // rows)]
    scenario["step"][1]["b"] |= {"rows": rows, "mn_add": starts}
    scenario["step"][1]["b"]["word"] = word_with(ARCH, stride_byte_offset=2048)(scenario["step"][1]["b"]["word"])
    report = check(scenario)
    assert report.codes == codes, report.text()


def test_a_layout_that_no_descriptor_reads_is_not_a_cut():
    scenario = kernel(ARCH, "bf16", "K", "128B", 48, 64, side="b")
    scenario["buffer"]["s"] = {"address": 1024, "layout": {"swizzle": "128B", "mn": [[4, 128], [12, 1024]], "k": [[128, 1]]}}
    scenario["step"][0] = {"op": "threads", "to": "s", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"}
    assert check(scenario).codes == ("R508",)


def test_each_cta_of_a_pair_has_half_of_the_rows():
    scenario = kernel(ARCH, "bf16", "K", "128B", 64, 128)
    scenario["step"][1] |= {"cta_group": 2, "m": 128}
    assert check(scenario).findings == ()
    wrong = changed(scenario, "step.1.a.rows", 128)
    [one] = check(wrong).findings
    assert (one.code, one.fix) == ("I604", ("step[1].a.rows", 128, 64))
    del wrong["step"][1]["a"]["rows"]
    assert check(wrong).findings == ()


# ---- bad input

NONSENSE = {
    "step.2.shape": ("33x128b", r"step\[2\]\.shape = '33x128b': tcgen05.cp has"), "step.2.to_tmem": (512, r"step\[2\]\.to_tmem.*column 512"),
    "step.4.scale_a.tmem": ([256, 256], r"step\[4\]\.scale_a\.tmem = \[256, 256\]: 1 x 2 entries; the step has 1 blocks of 4 K steps"),
    "step.4.scale_a.id": (7, r"step\[4\]\.scale_a\.id = 7: needs bytes of a cell, 0 to 3"),
    "step.4.scale_b.tmem": ("x", r"step\[4\]\.scale_b\.tmem: 'x': needs a whole number, one a K step"),
    "step.4.scale_vec": ("3X", r"step\[4\]\.scale_vec = '3X': needs one of 1X 2X 4X block32 block16"),
    "tensor.SFA.scale_blocks": (["r", "q"], r"tensor\.SFA\.scale_blocks = \['r', 'q'\]: needs two axes of SFA"),
    "step.2.a.meant.scale_block": (1, r"scale_block: 1: needs true or false"),
}  # fmt: skip


@pytest.mark.parametrize("path", NONSENSE)
def test_bad_values_are_a_sentence_with_the_key(path, tmp_path):
    value, says = NONSENSE[path]
    scenario = changed(scaled("1X") | {"map": {}}, path.rpartition(".")[0] + "." + path.rpartition(".")[2], value) if not path.startswith("tensor") else scaled("1X")  # fmt: skip
    if path.startswith("tensor"):
        scenario["tensor"]["SFA"]["scale_blocks"] = value
    with pytest.raises(InputError, match=says):
        check(scenario)
    file = tmp_path / "kernel.json"
    file.write_text(json.dumps(scenario, indent=1))
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 2
    assert "kernel.json:" in result.stderr


@pytest.mark.parametrize("mode", ["1X", "2X", "4X"])
def test_the_text_of_an_instruction_says_how_many_scale_factors_a_row_has(mode):
    """PTX ISA, tcgen05.mma: .block32 and .block16 are other names of the vectors of their kinds."""

    def told(**changed):
        scenario = scaled(mode, meant=False)
        mma = scenario["step"][-1]
        del mma["scale_vec"]
        try:
            return check(scenario | {"step": [*scenario["step"][:-1], mma | changed]})
        except InputError as e:
            return str(e)

    kind, answers = scaled(mode)["step"][-1]["kind"], {}
    for vector in ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"):
        by_text = told(instruction=f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale.{vector} [d], a, b, i, [sa], [sb], p;")
        by_key = told(scale_vec=vector.removeprefix("scale_vec::"))
        assert (isinstance(by_text, str), isinstance(by_key, str)) in ((True, True), (False, False)), vector
        answers[vector] = by_text
        assert by_text == by_key
    own = {"1X": "block32", "2X": "block32", "4X": "block16"}[mode]
    assert answers[own] == answers[f"scale_vec::{mode}"]
    assert isinstance(answers[{"block16": "block32", "block32": "block16"}[own]], str) or mode == "4X"


@pytest.mark.parametrize("seed", range(3 if is_night() else 1))
def test_damaged_scenarios_are_an_answer_or_a_sentence(seed):
    good = [scaled("1X", by="bulk"), scaled("2X", n=256, by="tma"), scaled("4X", meant=False), tile(), parts("f16", "128B", 96, 192)]
    answers, sentences = said_of_damaged(good, seed, tries=160, places=2)
    assert answers > 10
    assert min(map(len, sentences)) > 20


# ---- launches: each row and each k with its own scale factors


def own(side: str, block: int) -> tuple[int, int, int]:
    """What a kernel loads: a K block, and the row block of its own m or n."""
    return block, int(side == "a"), int(side == "b")


def padded(_: str, scales: np.ndarray) -> None:
    scales[:, 1:] = 0


def garbage(_: str, scales: np.ndarray) -> None:
    scales[:, 1:] = np.random.default_rng(2).integers(0, 255, scales[:, 1:].shape)


def unused(_: str, scales: np.ndarray) -> None:
    """Of factors of 128 elements in tiles of K, every second block is garbage."""
    scales.reshape(len(scales), -1, 8)[..., 4:] = np.random.default_rng(2).integers(
        0, 255, scales.reshape(len(scales), -1, 8)[..., 4:].shape
    )


def equal(_: str, scales: np.ndarray) -> None:
    scales[:] = 128


RIGHT = {
    "three tiles of K": (Gemm(tiles=3), None),
    "sixteen elements for a factor": (Gemm("mxf4nvf4", "4X", n=64, tiles=2), None),
    "two factors, two of N": (Gemm("mxf4", "2X", n=192, tiles=2, grid=(1, 2)), None),
    "two stages, four CTAs": (Gemm("mxf4nvf4", "2X", n=256, tiles=3, grid=(2, 2), stages=2), None),
    "128 elements for a factor": (Gemm(tiles=4, id=lambda side, tile, step: tile, block=lambda side, tile: own(side, 0)), None),
    "128 elements for a factor, and padding": (Gemm(id=lambda side, tile, step: 0), padded),
    "128 elements for a factor, and garbage": (Gemm(id=lambda side, tile, step: 0), garbage),
    "96 of K": (Gemm(steps=3), None),
    "128 elements for a factor, blocks of garbage": (
        Gemm(tiles=2, id=lambda side, tile, step: tile, block=lambda side, tile: own(side, 0)),
        unused,
    ),
    "pairs": (Gemm(n=256, pair=True, grid=(4, 1)), None),
    "two tiles of K of a pair of 64 rows each": (Gemm(n=256, m=64, pair=True, grid=(4, 1), tiles=2), None),
    "two tiles of K of a pair": (Gemm("mxf4nvf4", "4X", n=224, pair=True, grid=(2, 1), tiles=2), None),
    "one block for all": (Gemm(tiles=3, grid=(2, 1), block=lambda side, tile: (0, 0, 0)), equal),
}


@pytest.mark.parametrize(("gemm", "change"), RIGHT.values(), ids=RIGHT)
def test_launches_with_the_right_scale_factors_are_silent_and_followed(gemm, change):
    done, _ = run(gemm, change=change)
    count = gemm.tiles * gemm.steps * gemm.grid[0] * gemm.grid[1] // (1 + gemm.pair)
    assert done.findings == [], done.text()
    assert done.judged.scales == (count, count)


def first_of_a(side: str, tile: int, step: int) -> int:
    return 0 if side == "a" else step


WRONG = {
    "one id": (Gemm(id=lambda side, tile, step: 0), ["S702", "S702"], "mma", "k = 32 with the scale factors of k = 0 (scale id 0"),
    "one id of A": (Gemm(tiles=2, id=first_of_a), ["S702"], "mma", "of A are multiplied at k = 32"),
    "an id twice": (Gemm(id=lambda side, tile, step: (0, 1, 1, 3)[step]), ["S702", "S702"], "mma", "k = 64 with the scale factors of k = 32"),
    "ids in another order": (Gemm(id=lambda side, tile, step: step if side == "a" else 3 - step), ["R508"], "mma", "another order than k"),
    "ids 0, 1, 3": (Gemm(steps=3, id=lambda side, tile, step: (0, 1, 3)[step]), ["S702", "S702"], "mma", "with byte 3 of column 128 at k = 64"),
    "ids 0, 2, 3 of B": (Gemm(steps=3, id=lambda side, tile, step: (0, 2, 3)[step] if side == "b" else step), ["S702"], "mma", "with byte 2 of column"),
    "one column": (Gemm("mxf4nvf4", "4X", column=lambda side, tile, step: 0), ["S702", "S702"], "mma", "in columns 128 to 131"),
    "one id of two factors": (Gemm("mxf4", "2X", id=lambda side, tile, step: 0), ["S702", "S702"], "mma", "scale id 0"),
    "one K block": (Gemm(tiles=3, block=lambda side, tile: own(side, 0)), ["R508", "R508"], "mma", "k = 128 with the scale factors of k = 0"),
    "the K block before": (Gemm(tiles=3, block=lambda side, tile: own(side, max(tile - (side == "a"), 0))), ["R508"], "mma", "no product uses those of k = 128"),
    "K blocks exchanged": (Gemm(tiles=4, block=lambda side, tile: own(side, tile ^ (side == "a"))), ["R508"], "mma", "another order than k"),
    "a stage that is not loaded again": (Gemm(tiles=4, stages=2, loads=lambda side, tile: side == "b" or tile != 2), ["R508"], "mma", "k = 256 with the scale factors of k = 0"),
    "no copy": (Gemm(tiles=3, copies=lambda side, tile: side == "a" or tile != 1), ["R508"], "mma", "of B are multiplied at k = 128"),
    "A and B exchanged": (Gemm(grid=(2, 2), swapped=True), ["R508", "R508"], "mma", "they change with the rows of B"),
    "those of A by n": (Gemm(grid=(2, 2), block=lambda side, tile: (tile, 0, 1)), ["R508"], "mma", "they change with the rows of B"),
    "one row block": (Gemm(grid=(2, 1), block=lambda side, tile: (tile, 0, int(side == "b"))), ["R508"], "mma", "rows 0 to 127 of A and rows 128 to 255"),
    "a copy of those of A for B": (Gemm(source=lambda offset: 0), ["S701"], "cp", "rows of B, the first one row 0, get scale factors that rows of A get"),
    "B's over A's": (Gemm(one_column=True), ["S701"], "cp", "this copy overwrites the columns from"),
    "B's over half of A's": (Gemm(apart=2), ["S701"], "cp", "64 of 128 rows of A, the first one row 64, get scale factors of B"),
    "B's over half of A's, of two tiles": (Gemm(apart=2, tiles=2), ["S701"], "cp", "64 of 128 rows of A, the first one row 64, get scale factors of B"),
    "B's over A's, of two tiles": (Gemm(one_column=True, tiles=2), ["S701"], "cp", "rows of A and of B get the same scale factors"),
    "one id, stored by threads": (Gemm(by_threads=True, id=first_of_a), ["S702"], "mma", "of A are multiplied at k = 32"),
    "one id of a pair's B": (Gemm(pair=True, grid=(2, 1), id=lambda side, tile, step: 0 if side == "b" else step), ["S702"], "mma", "rows 0 to 63 of B are multiplied at k = 32"),
    "one row block for a pair": (Gemm(pair=True, grid=(2, 1), block=lambda side, tile: (0, 0, 0)), ["R508"], "mma", "rows 0 to 127 of A and rows 128 to 255"),
    "no stride": (Gemm(stride=0), ["S701", "S701"], "cp", "rows 0 and 8 of A get the same scale factors"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("gemm", "shape", "count", "copied"),
    [
        (Gemm(n=64, steps=2), "m128n64k32", 2, {"TMA loads": 128 * 128 + 64 * 128, "bulk copies": 1024}),
        (Gemm(pair=True, grid=(2, 1)), "m256n128k32", 4, {"TMA loads": (256 + 128) * 128, "bulk copies": 2048}),
    ],
    ids=["one CTA", "a pair"],
)
def test_products_of_tensor_memory_are_counted_with_their_shape(gemm, shape, count, copied):
    counters = run(gemm, counters=True)[0].counters
    [row] = counters.products
    m, n, k = map(int, re.findall(r"\d+", shape))
    assert (row.instruction, row.shape, row.types, row.executed) == ("tcgen05.mma kind::mxf8f6f4", shape, "f32.e4m3.e4m3", count)
    assert (row.flop, int(counters["flop"].sum()), int(counters["mmas"].sum())) == (2 * m * n * k * count, 2 * m * n * k * count, count)
    assert {i.split(".")[1] for i, mmas in zip(counters["instruction"], counters["mmas"], strict=True) if mmas} == {"mma"}
    assert counters.copies == copied
    assert int(counters["copied_bytes"].sum()) == sum(copied.values())


@pytest.mark.parametrize(("gemm", "codes", "name", "words"), WRONG.values(), ids=WRONG)
def test_launches_with_scale_factors_of_others_are_found_at_their_line(gemm, codes, name, words, snapshot):
    done, wrong = run(gemm)
    assert launch_facts(done) == snapshot
    assert wrong > 1000
    assert [f.code for f in done.findings] == codes, done.text()
    assert words in done.findings[0].message
    assert all(f"tcgen05.{name}." in f.instruction and f.repair for f in done.findings)


def but(which: str, wrong: Callable[[int, int], int]) -> Callable[[str, int, int], int]:
    """Scale ids of tiles and steps that are right for the other side."""
    return lambda side, tile, step: wrong(tile, step) if side == which else step


# As above for the other side, another tile, or another kind: the finding names the side, its rows, and both k.
SIBLINGS = {
    "one id of B": (Gemm(n=64, id=but("b", lambda tile, step: 0)), "S702", "rows 0 to 63 of B are multiplied at k = 32 with the scale factors of k = 0 (scale id 0"),
    "two ids of A in turn": (Gemm(n=64, id=but("a", lambda tile, step: step % 2)), "S702", "rows 0 to 127 of A are multiplied at k = 64 with the scale factors of k = 0"),
    "ids 1 and 3 of A": (Gemm(n=64, steps=2, id=but("a", lambda tile, step: 1 + 2 * step)), "S702", "with byte 3 of column 64 at k = 32, and with byte 1 at k = 0; byte 2,"),
    "ids 2 and 0 of two factors": (Gemm("mxf4", "2X", n=64, id=lambda side, tile, step: 2 * ((step + (side == "a")) % 2)), "R508", "rows 0 to 127 of A are in another order than k"),
    "one column of A": (Gemm("mxf4nvf4", "4X", n=64, column=lambda side, tile, step: 4 * step * (side == "b")), "S702", "of A are multiplied at k = 64 with the scale factors of k = 0, in columns 64 to 67"),
    "one K block of B": (Gemm(n=64, tiles=2, block=lambda side, tile: own(side, tile * (side == "a"))), "R508", "of B are multiplied at k = 128 with the scale factors of k = 0"),
    "two K blocks of B exchanged": (Gemm(n=64, tiles=3, block=lambda side, tile: own(side, (1, 0, 2)[tile] if side == "b" else tile)), "R508", "the scale factors of rows 0 to 63 of B are in another order than k; row 0"),
    "no copy of A": (Gemm(n=64, tiles=2, copies=lambda side, tile: side == "b" or tile != 1), "R508", "rows 0 to 127 of A are multiplied at k = 128 with the scale factors of k = 0"),
    "a stage of B that is not loaded again": (Gemm(n=64, tiles=3, stages=2, loads=lambda side, tile: side == "a" or tile != 2), "R508", "of B are multiplied at k = 256 with the scale factors of k = 0"),
    "one row block of B": (Gemm(n=64, grid=(1, 2), block=lambda side, tile: (tile, int(side == "a"), 0)), "R508", "rows 0 to 63 of B and rows 64 to 127 get the same scale factors"),
    "those of B by m": (Gemm(n=64, grid=(2, 2), block=lambda side, tile: (tile, 1, 0)), "R508", "they change with the rows of A, rows 0 to 127 of A and rows 128 to 255 of A"),
    "a copy of those of B for A": (Gemm(n=64, source=lambda offset: 8192), "S701", "64 of 128 rows of A, the first one row 0, get scale factors that rows of B get"),
    "one id of A, computed": (Stored(n=64, by="computed", tiles=1, wrong="a", id=first_of_a), "S702", "of A are multiplied at k = 32 with the scale factors of k = 0 (scale id 0, column 64); line 30 copied 384"),
    "one id of A, computed, of two tiles": (Stored(n=64, by="computed", wrong="a", id=first_of_a), "S702", "of A are multiplied at k = 32 with the scale factors of k = 0 (scale id 0, column 64); line 30 copied 384"),
    "one id of B, computed": (Stored(n=64, by="computed", tiles=1, wrong="b", id=but("b", lambda tile, step: 0)), "S702", "rows 0 to 63 of B are multiplied at k = 32 with the scale factors of k = 0 (scale id 0, column 128)"),
    "one row block for 256 rows of B": (Gemm(n=256, source=lambda offset: min(offset, 8192)), "R508", "rows 0 to 127 of B and rows 128 to 255 get the same scale factors"),
    "one row block for 200 rows of B": (Gemm("mxf4nvf4", "4X", n=200, source=lambda offset: offset - 2048 * (offset >= 8192 + 2048)), "R508", "rows 0 to 127 of B and rows 128 to 199 get"),
    "row blocks of tiles of B that overlap": (Mapped(n=256, form="boxes", grid=(1, 2), block=lambda side, tile: (tile, int(side == "a"), 1)), "R508", "rows 128 to 255 of B and rows 256 to 383"),
    "the next K block of A, of three": (Mapped(n=64, tiles=3, form="boxes", block=lambda side, tile: own(side, tile + (side == "a"))), "R508", "rows 0 to 127 of A are multiplied at k = 256 with scale factors from outside"),
    "a copy of those of A for 64 rows of B": (Gemm(n=64, source=lambda offset: 0), "S701", "all of 64 rows of B, the first one row 0, get scale factors that rows of A get"),
    "a copy of tensor loads' of A for B": (Mapped(n=64, source=lambda offset: 0), "S701", "all of 64 rows of B, the first one row 0, get scale factors that rows of A get"),
    "a copy of words of A for B": (Mapped(n=64, form="words", source=lambda offset: 0), "S701", "all of 64 rows of B, the first one row 0, get scale factors that rows of A get"),
    "a copy of tensor loads' of B for A": (Mapped(n=64, source=lambda offset: 8192), "S701", "64 of 128 rows of A, the first one row 0, get scale factors that rows of B get"),
    "those of 64 rows of B over A's": (Mapped(n=64, one_column=True), "S701", "this copy overwrites the columns from 64 on, whose factors, of line"),
    "a pair of 64 rows each, and one block of B": (Gemm(n=256, m=64, pair=True, grid=(2, 1), wide=False), "R508", "a pair takes those of rows 128 to 255 of B from lanes 64 to 127"),
    "one row block for a pair of 64 rows each": (Gemm(n=128, m=64, pair=True, grid=(2, 1), block=lambda side, tile: (tile, 0, 0)), "R508", "of A and rows 64 to 127 get the same scale factors, from 0x7f0000104000 on; no product uses"),
    "two tiles of N in a block, and one column": (Halves(by=0), "R508", "line 40 copies 256 bytes more with them, and no product uses these"),
    "rows of a matrix as a block": (Mapped("mxf4nvf4", "4X", n=64, tiles=2, form="matrix"), "S701", "96 of 128 rows of A get the scale factors of other rows: row 32 gets those of row 0"),
}  # fmt: skip


RIGHT_LOADS = {
    "96 of N": Gemm(n=96, grid=(1, 2)),
    "two loads": Gemm(n=64, tiles=2, parts=2),
    "four loads": Gemm(n=64, tiles=2, parts=4, stages=2),
    "two loads of four blocks": Gemm("mxf4nvf4", "4X", n=64, parts=2),
    "computed": Stored(n=64, by="computed", tiles=1, wrong="ab"),
    "tensor loads of lines": Mapped(n=64, tiles=2, stages=2),
    "tensor loads of blocks": Mapped("mxf4nvf4", "4X", n=200, form="boxes", grid=(2, 1)),
    "tensor loads of words": Mapped(n=200, tiles=2, form="words"),
    "two tiles of N in a block": Halves("mxf4nvf4", "4X", tiles=2, grid=(1, 4)),
}


@pytest.mark.parametrize("gemm", RIGHT_LOADS.values(), ids=RIGHT_LOADS)
def test_right_scale_factors_are_silent_however_many_loads_bring_them(gemm):
    done, wrong = run(gemm)
    assert (done.findings, done.remarks, wrong) == ([], [], 0), done.text()
    count = gemm.tiles * gemm.steps * gemm.grid[0] * gemm.grid[1]
    assert done.judged.scales == (count * (not isinstance(gemm, Stored)), count)


def test_words_in_the_order_of_blocks_are_no_fault():
    """The maps are those of one row after the other, which needs threads."""
    done, wrong = run(Mapped(n=64, tiles=2, form="shuffled", grid=(2, 2)))
    assert (done.findings, wrong, done.judged.scales) == ([], 0, (32, 32)), done.text()


@pytest.mark.parametrize("tiles", [2, 4, 5])
@pytest.mark.parametrize("by", ["computed", "words"])
def test_a_cell_of_factors_of_four_tiles_of_k_is_copied_for_each(by, tiles):
    """A factor for 128 elements: each tile takes another byte of a cell that threads store once more. Bytes of the last
    cell may be padding.
    """
    done, _ = run(Stored(n=64, by=by, wrong="ab", tiles=tiles, id=lambda side, tile, step: tile % 4, tile=lambda tile: tile // 4))
    assert done.findings == [], done.text()


def but_rows_below_eight(_: str, scales: np.ndarray) -> None:
    scales[np.arange(len(scales)) % 32 >= 8] = 0


def far_in_byte_one(_: str, scales: np.ndarray) -> None:
    scales[:, 1::4] = 250


def one_value_behind(side: str, scales: np.ndarray) -> None:
    if side == "a":
        scales[128:] = 127


PADDING = {  # bytes that are left out and may be no factors
    "rows of one value that a stride leaves out": (Gemm(n=64, stride=0), but_rows_below_eight),
    "a byte between two": (Gemm(n=64, steps=3, id=lambda side, tile, step: (0, 2, 3)[step]), far_in_byte_one),
    "a row block of one value": (Gemm(n=64, grid=(2, 1), block=lambda side, tile: (tile, 0, int(side == "b"))), one_value_behind),
    "words of one value": (Mapped(n=64, form="words", transposed=False), equal),
    "one value for A and B": (Gemm(n=64, source=lambda offset: 0), equal),
    "garbage in cells that threads compute": (Stored(n=64, by="computed", tiles=1, wrong="a", id=lambda side, tile, step: 0), garbage),
    "one value in cells that threads compute": (Stored(n=64, by="computed", tiles=1, wrong="a", id=lambda side, tile, step: 0), padded),
    "64 rows for each factor": (Stored(n=64, wrong="a", turn="shr.u32 %r30, %r30, 6;"), None),
}  # fmt: skip


@pytest.mark.parametrize(("gemm", "change"), PADDING.values(), ids=PADDING)
def test_bytes_that_may_be_no_factors_are_not_missed(gemm, change):
    done, _ = run(gemm, change=change)
    told = [f for f in [*done.findings, *done.remarks] if "scale factors" in f.message]
    assert told == [], done.text()


def zeros(_: str, scales: np.ndarray) -> None:
    scales[::3] = 0


@pytest.mark.parametrize(
    ("gemm", "codes"),
    [
        (Gemm("mxf4nvf4", "4X", n=64, column=lambda side, tile, step: 0), ["S702", "S702"]),
        (Gemm(n=64, grid=(2, 1), block=lambda side, tile: (tile, 0, int(side == "b"))), ["R508"]),
        (Gemm(n=64, stride=0), ["S701", "S701"]),
        (Gemm(n=64, source=lambda offset: 0), ["S701"]),
    ],
    ids=["one column", "one row block", "no stride", "those of A for B"],
)  # fmt: skip
def test_zeros_and_two_values_are_factors_too(gemm, codes):
    for options in ({"change": zeros}, {"spread": 2}):
        assert [f.code for f in run(gemm, **options)[0].findings] == codes


def test_factors_that_all_lie_outside_have_no_bytes():
    done, _ = run(Mapped(n=64, form="boxes", block=lambda side, tile: own(side, int(side == "a"))))
    assert (done.findings, [f.code for f in done.remarks], done.judged.scales) == ([], ["T209"], (4, 4)), done.text()


@dataclasses.dataclass(frozen=True)
class Short(Mapped):
    """The tensors of scale factors end behind the first tile of K."""

    form: str = "boxes"

    @property
    def along(self) -> int:
        return 1

    def packed(self, scales: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(super().packed(scales)[:, :1])


def test_k_whose_factors_lie_outside_may_be_padding():
    """All factors that there are are used."""
    done, _ = run(Short(n=64, tiles=2))
    assert (done.findings, done.judged.scales) == ([], (8, 8)), done.text()


def test_factors_that_those_of_the_other_operand_run_into_have_no_finding():
    """B's factors follow those of A, and the copy of A's has twice the stride: its last rows get factors of B."""
    assert run(Gemm(n=64, begin_b=512))[0].findings == []
    done, wrong = run(Gemm(n=64, begin_b=512, stride=256, stride_b=128))
    assert wrong
    assert [f.code for f in done.findings] == ["S701"], done.text()
    assert "of 128 rows of A, the first one row 16, get scale factors that rows of B get" in done.findings[0].message


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_part_of_a_block_that_is_not_loaded_again_is_found(side):
    """Of four loads of a block the first one has the rows 0 to 7, 32 to 39 and so on."""
    done, wrong = run(Gemm(n=64, tiles=2, parts=4, still=(side, 0)))
    assert (wrong > 1000, [f.code for f in done.findings]) == (True, ["R508"]), done.text()
    assert f"of {side.upper()} are multiplied at k = 128 with the scale factors of k = 0" in done.findings[0].message


@pytest.mark.parametrize("how", [{"schedule": "latest"}, {"workers": 2}], ids=str)
def test_scale_factors_are_followed_however_a_launch_runs(how):
    done, _ = run(Gemm(grid=(2, 1), id=first_of_a), **how)
    assert [f.code for f in done.findings] == ["S702"], done.text()
    assert run(Gemm(grid=(2, 1)), **how)[0].findings == []


def periodic(side: str, scales: np.ndarray) -> None:
    """Of four values, which come again in every row and every K: no value says where it is from."""
    scales[:] = 126 + (3 * np.arange(len(scales))[:, None] + 5 * np.arange(scales.shape[1]) + (side == "b")) % 4


@pytest.mark.parametrize("change", [None, padded, garbage])
def test_factors_that_threads_store_again_are_followed(change):
    id_ = None if change is None else lambda side, tile, step: 0
    done, _ = run(Gemm(by_threads=True, tiles=1 if id_ else 2, id=id_), change=change)
    assert done.findings == []
    assert done.judged.scales == ((4, 4) if id_ else (8, 8))


@pytest.mark.parametrize(("gemm", "change"), RIGHT.values(), ids=RIGHT)
def test_factors_that_threads_store_once_more_are_right_too(gemm, change):
    done, _ = run(dataclasses.replace(gemm, by_threads=True), change=change)
    assert done.findings == [], done.text()


@pytest.mark.parametrize(
    "name",
    ["one id of A", "one column", "K blocks exchanged", "A and B exchanged", "a copy of those of A for B", "one row block for a pair"],
)
def test_wrong_factors_that_threads_store_once_more_are_found(name):
    gemm, codes, *_ = WRONG[name]
    assert [f.code for f in run(dataclasses.replace(gemm, by_threads=True))[0].findings] == codes


@pytest.mark.parametrize("by", [by for by in STORES if by not in ("repeated", "computed", "backwards", "looked up")])
def test_factors_that_threads_copy_are_followed_to_their_rows(by):
    done, wrong = run(Stored(by=by), change=periodic)
    assert (done.findings, wrong, done.judged.scales) == ([], 0, (8, 8)), done.text()
    done, wrong = run(Stored(by=by, wrong="b", at=IN_A_ROW), change=periodic)
    assert (wrong > 1000, [f.code for f in done.findings], done.judged.scales) == (True, ["S701"], (8, 8)), done.text()
    assert "126 of 128 rows of B get the scale factors of other rows: row 1 gets those of row 4" in done.findings[0].message
    assert "tcgen05.mma." in done.ptx.splitlines()[done.findings[0].line - 1]


def test_factors_that_threads_compute_are_not_checked():
    done, wrong = run(Stored(by="computed", wrong="a", at=IN_A_ROW))
    assert (done.findings, wrong > 1000, done.judged.scales) == ([], True, (0, 8))
    assert "scale factors that no load has brought from global memory" in done.judged.missed


@pytest.mark.parametrize("by", [("words", "computed"), ("computed", "words"), ("cp.async", "computed"), ("generic", "computed", "words")])
def test_of_bytes_that_are_stored_again_by_another_instruction_nothing_is_known(by):
    """Equal values do not say that the factors of the first tile are still there."""
    done, wrong = run(Stored(by=by, tiles=len(by)), change=periodic)
    assert (done.findings, wrong, done.judged.scales) == ([], 0, (4 * sum(one != "computed" for one in by), 4 * len(by))), done.text()


WRONG_STORES = {
    "K that does not go on": (Stored(wrong="a", tile=lambda tile: 0), "R508", "of A are multiplied at k = 128 with the scale factors of k = 0"),
    "K that does not go on, by tcgen05.st": (Stored(wrong="b", by="tensor", tile=lambda tile: 0), "R508", "of B are multiplied at k = 128 with the scale factors of k = 0"),
    "bytes in the other order": (Stored(wrong="b", by="backwards"), "R508", "another order than k"),
    "neighbours exchanged": (Stored(wrong="a", turn="xor.b32 %r30, %r30, 1;"), "S701", "row r gets those of row r ^ 1"),
    "the last row first": (Stored(wrong="b", turn="sub.u32 %r30, 127, %r30;"), "S701", "in the opposite order"),
    "rows moved": (Stored(wrong="a", by="cp.async", turn="add.u32 %r30, %r30, 32; and.b32 %r30, %r30, 127;"), "S701", "row r gets those of row (r + 32) % 128"),
    "half of them never": (Stored(wrong="b", only="setp.lt.u32 %p5, %r1, 64;"), "R507", "are read before anything has written them: 0x"),
    "one id": (Stored(wrong="", id=first_of_a, tiles=2), "S702", "(scale id 0, column 128)"),
    "one id, by tcgen05.st": (Stored(wrong="a", by="tensor", id=first_of_a, tiles=2), "S702", "(scale id 0, column 128)"),
    "one row block": (Stored(grid=(2, 1), wrong="a", turn="shl.b32 %r33, %r3, 7; sub.u32 %r30, %r30, %r33;"), "R508", "rows 0 to 127 of A and rows 128 to 255"),
}  # fmt: skip


@pytest.mark.parametrize(("gemm", "code", "words"), (SIBLINGS | WRONG_STORES).values(), ids=SIBLINGS | WRONG_STORES)
def test_a_wrong_scale_factor_is_found_on_either_side_and_alone(gemm, code, words, snapshot):
    done, wrong = run(gemm)
    assert launch_facts(done) == snapshot
    assert (wrong > 1000, [f.code for f in done.findings]) == (True, [code]), done.text()
    assert words in done.findings[0].message
    assert done.findings[0].line is not None


def test_the_same_factors_in_other_columns_are_followed():
    """A has the columns before those of B."""
    assert run(Stored(by="tensor", is_shared=True))[0].judged.scales == (8, 8)


def test_factors_of_tcgen05_that_threads_look_up_in_a_table_are_not_judged():
    """The addresses of a table come from data. Rows share its bytes in no order."""
    done, _ = run(Stored(by="looked up", wrong="a", id=first_of_a))
    assert (done.findings, done.remarks, done.judged.scales) == ([], [], (0, 8)), done.text()
    assert "scale factors that threads look up in a table" in done.judged.missed


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
def test_every_tier_follows_bytes_that_threads_copy(tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    monkeypatch.setenv("SMEMSIM_COHORTS", "off" if tiers == "closures" else "")
    assert run(Stored(grid=(2, 2)))[0].judged.scales == (32, 32)
    assert [f.code for f in run(Stored(grid=(2, 2), at=IN_A_ROW, wrong="a"))[0].findings] == ["S701"]
    assert [f.code for f in run(Stored(grid=(2, 2), at=IN_A_ROW, wrong="a"), workers=2)[0].findings] == ["S701"]


def test_factors_in_the_other_order_of_parameters_are_a_remark():
    """Of one tile nothing else says which factors are A's."""
    done, wrong = run(Gemm(swapped=True))
    assert wrong > 1000
    assert done.findings == []
    assert [f.code for f in done.remarks] == ["R508"]
    assert "scale factors come from parameter sfb and B's from sfa" in done.remarks[0].message
    assert run(Gemm())[0].remarks == []


def test_bytes_that_all_have_one_value_are_padding():
    """The other ids hold zeros: the factor is one for 128 elements of K."""
    done, _ = run(Gemm(tiles=2, id=first_of_a), change=lambda side, scales: scales.__setitem__((slice(None), slice(1, None, 4)), 0) if side == "a" else None)  # fmt: skip
    assert [f.code for f in done.findings] == ["S702"]
    done, _ = run(Gemm(id=first_of_a), change=lambda side, scales: padded(side, scales) if side == "a" else None)
    assert done.findings == []


@pytest.mark.parametrize(
    ("kernel", "codes", "words"),
    [
        (Sparse(grid=2), [], ""),
        (Sparse(columns=(0, 0), same=True), [], ""),  # all elements have one pattern
        (Sparse(columns=(0, 0)), ["R508"], "multiplied at k = 64 with the metadata of k = 0"),
        (Sparse(grid=2, block=0), ["R508"], "rows 0 to 127 of A and rows 128 to 255 get the same metadata"),
    ],
)
def test_rows_and_k_of_a_sparse_operand_have_metadata_of_their_own(kernel, codes, words):
    done, wrong = kernel.run()
    assert (wrong > 0) == bool(codes)
    assert [f.code for f in done.findings] == codes, done.text()
    assert all(words in f.message and "tcgen05.mma.sp." in f.instruction for f in done.findings)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (SparseWarpgroup(grid=2), ""),
        (SparseWarpgroup(by_shared=True), ""),
        (SparseWarpgroup(same=True), ""),
        (SparseWarpgroup(steps=((0, 0), (0, 0), (1, 0), (1, 1))), "at k = 32 with the metadata of k = 0"),
        (SparseWarpgroup(steps=((0, 0), (0, 1), (0, 0), (0, 1)), by_shared=True), "at k = 64 with the metadata of k = 0"),
        (SparseWarpgroup(grid=2, block=0), "rows 0 to 63 of A and rows 64 to 127 get the same metadata"),
        (SparseWarpgroup(thread="and.b32 %r2, %r1, 126;"), "at k = 16 with the metadata of k = 0"),
    ],
)
def test_metadata_in_registers_is_that_of_its_rows_and_k(kernel, words):
    done, wrong = kernel.run()
    assert (wrong > 0) == bool(words)
    assert [f.code for f in done.findings] == ["R508"] * bool(words), done.text()
    assert all(words in f.message and "wgmma.mma_async.sp." in f.instruction for f in done.findings)
    assert "not checked: sparse metadata" not in done.text()


def test_metadata_that_is_known_in_part_has_no_finding():
    """The unused words of the array may be what the other registers have been computed from."""
    steps = ((0, 0), (0, 1), (0, 0), (1, 1))
    known, other = (SparseWarpgroup(steps=steps, after=after).run()[0] for after in ("", "xor.b32 %e1, %e1, 0x11111111;"))
    assert ([f.code for f in known.findings], other.findings) == (["R508"], []), other.text()
    assert any("registers that no array holds" in missed for missed in other.judged.missed)


@pytest.mark.parametrize("steps", [((0, 0), (0, 1), (1, 0), (1, 1)), ((0, 0), (0, 0), (1, 0), (1, 1))])
def test_metadata_that_threads_put_together_is_followed(steps):
    for more in ({}, {"same": True}):
        done, wrong = SparseWarpgroup(packed=False, steps=steps, **more).run()
        is_wrong = steps[1] == (0, 0) and not more
        assert ([f.code for f in done.findings], wrong > 0) == (["R508"] * is_wrong, is_wrong), done.text()
        assert "not checked: sparse metadata" not in done.text()


STEPS = (4, 32, 12, 64, 120)  # bytes that bits 0 to 4 of a thread's number add to the address of its word


def table_of(*more: np.ndarray, written: int | None = None) -> tuple[RegisterSources, int]:
    """A table of 64 words that are all different, in memory with other arrays; its address."""
    memory = GlobalMemory()
    begin = memory.place(np.arange(1000, 1064, dtype=np.uint32))
    for n, array in enumerate(more):
        memory.place(array, 0x10_0000 * (n + 1) + n % 4)
    return RegisterSources(memory, {id(r.words) for n, r in enumerate(memory.filled()) if n == written}), begin


def byte_of(thread: int) -> int:
    return sum(step for b, step in enumerate(STEPS) if thread >> b & 1)


THREADS = [range(4), range(32, 40), range(96, 112, 2), range(5, 8, 2), [0, 1, 2, 3, 8, 9, 10, 11], range(32), range(16, 32)]


@pytest.mark.parametrize("twice", [(), (0,), (0, 4), (32,), (0, 12, 44, 36)], ids=str)
@pytest.mark.parametrize("threads", THREADS, ids=str)
def test_registers_are_words_at_a_sum_of_a_step_for_each_bit_of_the_thread(threads, twice):
    """Words that occur at two addresses get theirs from those of other threads."""
    sources, begin = table_of(np.array([1000 + at // 4 for at in twice] + [7] * 5, np.uint32))
    at = np.array([byte_of(t) for t in threads])
    found = sources.of((1000 + at // 4).astype(np.uint32), np.array(threads))
    distinct = {t: a for t, a in zip(threads, at.tolist(), strict=True) if a not in twice}
    bits = [b for b in range(7) if len({t >> b & 1 for t in threads}) == 2]
    if all(any(t | 1 << b in distinct for t in distinct if not t >> b & 1) for b in bits):
        assert found is not None
        assert found.tolist() == (begin + at).tolist()
    else:
        assert found is None


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((60, 61, 62, 63), True),
        ((63, 62, 61, 60), True),
        ((0, 1, 2, 4), False),  # two steps for bit 0
        ((0, 1, 2, -1), False),  # a word that is nowhere
        ((5, 5, 5, 5), False),  # all of one value
        ((0, 1, 2, 64), False),  # its twin lies elsewhere, and the sum is another word's
        ((61, 62, 63, 64), False),  # the sum is behind the table
        ((64, 1, 2, 3), False),
    ],
)
def test_registers_whose_words_do_not_lie_at_such_sums_have_no_address(words, wanted):
    """Word 64 is one that occurs twice in another array."""
    values, threads = np.array([1000 + n for n in words], np.uint32), np.arange(4)
    sources, begin = table_of(np.array([1064, 1064], np.uint32))
    found = sources.of(values, threads)
    assert (None if found is None else found.tolist()) == ([begin + 4 * n for n in words] if wanted else None)


def test_the_source_of_a_register_is_no_array_that_is_written_or_lies_across_words():
    values, threads, copy = np.arange(1000, 1004, dtype=np.uint32), np.arange(4), np.arange(1000, 1064, dtype=np.uint32)
    assert table_of()[0].of(values, threads) is not None
    assert table_of(copy)[0].of(values, threads) is None, "at two places"
    for more in ((np.zeros(3, np.uint8), copy), (np.zeros(0, np.uint8), copy)):  # the copy lies one byte behind a word
        sources, begin = table_of(*more)
        assert sources.of(values, threads).tolist() == [begin + 4 * n for n in range(4)]
    for written in (0, 1):  # the copy lies first
        sources, begin = table_of(copy, written=written)
        assert sources.of(values, threads).tolist() == [(0x10_0000 if written else begin) + 4 * n for n in range(4)]


def test_arrays_of_more_than_some_bytes_are_not_searched(monkeypatch):
    values, threads = np.arange(1000, 1004, dtype=np.uint32), np.arange(4)
    more = np.zeros(39, np.uint8)
    for size, is_found in ((256 + 39, True), (256 + 38, False), (39, False)):
        monkeypatch.setattr(metadata, "MOST_BYTES", size)
        assert (table_of(more)[0].of(values, threads) is not None) == is_found


# ---- scale factors of mma.sync


def in_lanes(scales):
    """In the order in which lanes take the factors of 16 rows: g, g + 8."""
    return scales.reshape(-1, 2, 8, scales.shape[1]).swapaxes(1, 2).reshape(scales.shape) if len(scales) % 16 == 0 else scales


def by_rows(scales):
    """One factor for all rows and 128 of K, as of blocks of 128 x 128."""
    return np.broadcast_to(scales[:1].repeat(len(scales), 0)[:, ::4].repeat(4, 1), scales.shape).copy()


@pytest.mark.parametrize("by", ["direct", "ldmatrix", "cp.async"])
@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
def test_right_factors_of_mma_sync_are_followed_and_silent(kind, by):
    done, wrong = FragmentGemm(kind, by=by, grid=(2, 2), steps=4).run()
    assert (done.findings, done.remarks, wrong, done.judged.scales) == ([], [], 0, (16, 16)), done.text()


@pytest.mark.parametrize(
    ("gemm", "options"),
    [
        (FragmentGemm(byte=lambda side, step: 0), {"same": True}),  # padding
        (FragmentGemm(order=by_rows, grid=(2, 2)), {}),
        (
            FragmentGemm(
                order=by_rows, byte=lambda side, step: 0, after=dict.fromkeys("ab", "and.b32 %w, %w, 0xff; mul.lo.u32 %w, %w, 0x01010101;")
            ),
            {},
        ),
        (FragmentGemm("mxf4nvf4", threads=(1, 2)), {}),
        (
            FragmentGemm(after=dict.fromkeys("ab", "add.u32 %w, %w, 0x01010101;"), word=lambda side, step: 0),
            {},
        ),  # computed: nothing is known
        (FragmentGemm(word=lambda side, step: 0, byte=lambda side, step: step // 4, grid=(2, 2)), {}),  # half of each word
    ],
)
def test_factors_of_mma_sync_that_several_k_or_rows_share_are_right(gemm, options):
    assert gemm.run(**options)[0].findings == []


LOOKED_UP = "and.b32 %w, %w, 7; cvt.u64.u32 %d1, %w; add.u64 %d1, %d1, %sfa; ld.global.u8 %w, [%d1];"


def test_factors_that_threads_look_up_in_a_table_are_not_judged():
    gemm = FragmentGemm(byte=lambda side, step: 0, after=dict.fromkeys("ab", LOOKED_UP), grid=(2, 1))
    done, _ = gemm.run()
    assert (done.findings, done.remarks) == ([], [])
    assert done.judged.missed["scale factors that threads look up in a table"] > 0


def test_one_byte_for_a_part_of_k_is_a_remark():
    done, _ = FragmentGemm(byte=lambda side, step: 0, steps=4, left_out=4).run()
    assert (done.findings, [f.code for f in done.remarks]) == ([], ["S702", "S702"])
    assert all("unless they are those of k = 128 on" in f.why for f in done.remarks)


def test_factors_in_the_order_of_the_lanes_are_a_remark():
    done, wrong = FragmentGemm(rows={"a": SHUFFLED}, order=in_lanes, grid=(2, 1)).run()
    assert (done.findings, wrong) == ([], 0)
    assert [f.code for f in done.remarks] == ["R508"]


WRONG_FRAGMENTS = {
    "one byte pair of both": (FragmentGemm("mxf4", byte=lambda side, step: 0), "S702", "multiplied at k = 64 with the scale factors of k = 0"),
    "one byte pair": (FragmentGemm("mxf4", byte=lambda side, step: 2 * (side == "a" and step % 2)), "S702", "rows 0 to 7 of B are multiplied at k = 64"),
    "bytes 0, 1, 1, 3": (FragmentGemm(byte=lambda side, step: (0, 1, 1, 3)[step % 4]), "S702", "k = 64 with the scale factors of k = 32"),
    "one word": (FragmentGemm(word=lambda side, step: 0), "R508", "at k = 128 with the scale factors of k = 0"),
    "one word, four factors": (FragmentGemm("mxf4nvf4", word=lambda side, step: step * (side == "a"), by="ldmatrix"), "R508", "rows 0 to 7 of B are multiplied at k = 64"),
    "bytes in the other order": (FragmentGemm(after={"a": "prmt.b32 %w, %w, 0, 0x0123;"}), "R508", "another order than k"),
    "rows at half the stride": (FragmentGemm(strides=(4, 4)), "R508", "row 1 of A at k = 0 and row 0 at k = 128 get the same scale factors"),
    "halves of rows exchanged": (FragmentGemm(rows={"b": "xor.b32 %s1, %g, 4;"}), "R508", "row r gets those of row r ^ 4"),
    "rows exchanged": (FragmentGemm(rows={"b": "xor.b32 %s1, %g, 1;"}), "R508", "row r gets those of row r ^ 1"),
    "the last row first": (FragmentGemm("mxf4", rows={"b": "sub.u32 %s1, 7, %g;"}), "R508", "in the opposite order"),
    "the first tile's rows": (FragmentGemm(grid=(2, 2), tile=lambda side: int(side == "b")), "R508", "rows 0 to 15 of A and rows 16 to 31 get the same"),
    "other threads": (FragmentGemm(threads=(1, 0), after={"a": "and.b32 %s1, %lane, 2; setp.eq.u32 %few, %s1, 0; selp.b32 %w, %w, 0x7f7f7f7f, %few;"}), "S702", "lanes 2 and 3 of each four"),
}  # fmt: skip


@pytest.mark.parametrize(("gemm", "code", "words"), WRONG_FRAGMENTS.values(), ids=WRONG_FRAGMENTS)
def test_wrong_factors_of_mma_sync_are_found(gemm, code, words):
    done, wrong = gemm.run()
    assert wrong > 0
    assert {f.code for f in done.findings} == {code}, done.text()
    assert any(words in f.message for f in done.findings), done.text()
    assert all("mma.sync." in done.ptx.splitlines()[f.line - 1] for f in done.findings)


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
def test_every_tier_follows_factors_of_mma_sync(tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    monkeypatch.setenv("SMEMSIM_COHORTS", "off" if tiers == "closures" else "")
    wrong = FragmentGemm("mxf4", byte=lambda side, step: 0, steps=4, grid=(2, 2))
    assert FragmentGemm(steps=4, grid=(2, 2)).run()[0].judged.scales == (16, 16)
    assert [f.code for f in wrong.run()[0].findings] == ["S702", "S702"]
    assert [f.code for f in wrong.run(workers=2)[0].findings] == ["S702", "S702"]


def test_the_parameters_of_factors_of_mma_sync_exchanged_are_a_remark():
    done, wrong = FragmentGemm(of=lambda side: "ab"[side == "a"], grid=(1, 2)).run()
    assert (wrong > 0, done.findings, [f.code for f in done.remarks]) == (True, [], ["R508"])


@pytest.mark.parametrize(
    ("step_of", "row", "words"),
    [
        (lambda step: step, "", ""),
        (lambda step: 0, "", "at k = 64 with the metadata of k = 0"),
        (lambda step: step // 2, "", "at k = 64 with the metadata of k = 0"),
    ],
)
def test_rows_and_k_of_a_sparse_mma_sync_have_metadata_of_their_own(step_of, row, words):
    done = sparse_fragments(step_of, row)
    assert [f.code for f in done.findings] == ["R508"] * bool(words), done.text()
    assert all(words in f.message and "mma.sp::ordered_metadata" in f.instruction for f in done.findings)
    assert not any("metadata" in missed for missed in done.judged.missed)


FILLED = "and.b32 %r22, %r1, 2; setp.{}.u32 %p5, %r22, 0; @%p5 mov.b32 %e0, 0x44444444; @%p5 mov.b32 %e1, 0x44444444;"


@pytest.mark.parametrize(
    ("selectors", "after", "named"),
    [
        ((1, 1, 1, 1), FILLED.format("ne"), "2 and 3"),
        ((0, 0, 0, 0), FILLED.format("eq"), "0 and 1"),
        ((0, 0, 0, 0), FILLED.format("ne"), ""),
        ((0, 1, 0, 1), FILLED.format("ne"), ""),  # the pattern of every second K step is the same in all rows
        ((1, 1, 1, 1), "mov.b32 %e0, 0x44444444; mov.b32 %e1, 0x44444444;", ""),
        ((0, 0, 0, 0), f"{FILLED.format('eq')} xor.b32 %r22, %r1, 0x1010; @!%p5 mov.b32 %e0, %r22; @!%p5 mov.b32 %e1, %r22;", ""),
    ],
    ids=["selector 1", "selector 0", "right", "both", "one pattern", "other values"],
)
def test_a_selector_that_names_threads_without_metadata_is_a_remark(selectors, after, named):
    """The threads that it names hold one value, and the other ones what may be metadata."""
    done, _ = SparseWarpgroup(steps=tuple((n // 2, selector) for n, selector in enumerate(selectors)), after=after).run()
    said = [f.message for f in done.remarks if "sparsity selector names" in f.message]
    assert len(said) == bool(named), done.text()
    assert all(f"names, {named} of each four, all hold the metadata 0x44444444" in message for message in said)


@pytest.mark.parametrize("form", ["m16n8k64.row.col.f32.e4m3.e4m3.f32", "m16n8k128.row.col.s32.u4.u4.s32"])
@pytest.mark.parametrize(
    ("of_a", "step_of", "words"),
    [
        (int, int, ""),
        (lambda step: step % 2, int, "let the address of A advance with k: A at k = {} is not read"),
        (int, lambda step: step % 2, "load the metadata of each k"),
    ],
    ids=["right", "A of other k", "metadata of other k"],
)
def test_a_and_its_metadata_are_of_one_k(of_a, step_of, words, form):
    """The product of another k is wrong, whether A or its metadata is the one of that k."""
    done = sparse_fragments(step_of, of_a=of_a, form=form)
    assert [f.code for f in done.findings] == ["R508"] * bool(words), done.text()
    assert all(f.repair.startswith(words.format(2 * 64 if "e4m3" in form else 2 * 128)) for f in done.findings)


@pytest.mark.parametrize(
    ("order", "codes"),
    [((0, 1, 0, 1, 2, 3, 2, 3), []), ((0, 1, 2, 3, 0, 1, 2, 3), []), ((0, 1, 0, 1, 0, 1, 2, 3), ["R508"]), ((0, 1, 2, 0, 1, 3, 2, 3), [])],
)
def test_k_may_use_metadata_again_if_each_is_used_equally_often(order, codes):
    """The array has that of four steps. A load that is left out uses some of it more often."""
    assert [f.code for f in sparse_fragments(lambda step: order[step], steps=8, held=4).findings] == codes


@pytest.mark.parametrize("row", ["shr.u32 %s1, %s1, 1;", "mov.u32 %s1, %g;"])
def test_rows_may_share_metadata_in_an_array_of_several_layers(row):
    """The others may be those of another layer, of as many rows too."""
    each = [sparse_fragments(int, row, more=more) for more in (0, 16, 48)]
    assert [([f.code for f in done.findings], [f.code for f in done.remarks]) for done in each] == [([], ["R508"])] * 3


def in_quads(x):
    """Rows that have data of their own in quads: the first row of each four."""
    return x.reshape(-1, 4, x.shape[1])[:, 0].repeat(4, axis=0)


OWN = "and.b32 %s2, %lane, 1; shl.b32 %s2, %s2, 3; add.u32 %s1, %g, %s2;"
MAY_BE_MEANT = {  # a host may have stored factors or metadata for this, and other operands' between them
    "rows g and g + 8, of 16": (lambda: FragmentGemm(rows={"a": "mov.u32 %s1, %g;"}).run()[0], "R508", "rows 0 and 8 of A get the same scale factors"),
    "pairs of rows": (lambda: FragmentGemm(rows={"a": f"{OWN} shr.u32 %s1, %s1, 1;"}).run()[0], "R508", "rows 0 and 1 of A get the same"),
    "rows g and g + 8, of 16, metadata": (lambda: sparse_fragments(int, "mov.u32 %s1, %g;"), "R508", "rows 0 and 8 of A get the same metadata"),
    "quads of rows, and bytes between": (lambda: sparse_fragments(int, "and.b32 %s1, %s1, 12;"), "R508", "rows 0 and 1 of A get the same metadata"),
    "four layers in a word": (lambda: FragmentGemm(byte=lambda side, step: 0, steps=4).run()[0], "S702", "unless a factor is meant for all of these k"),
    "four layers in a word, 256 of K": (lambda: FragmentGemm(byte=lambda side, step: 0, grid=(2, 2)).run()[0], "S702", "at k = 32 with"),
    "metadata of rows in another order": (lambda: sparse_fragments(int, "xor.b32 %s1, %s1, 8;"), "R508", "row r gets those of row r ^ 8, unless they were stored in that order"),
    "metadata of K in another order": (lambda: sparse_fragments(lambda step: step ^ 1), "R508", "another order than k"),
    "metadata of threads": (lambda: SparseWarpgroup(thread="and.b32 %r2, %r1, 123;").run()[0], "R508", "rows 0 and 1 of A get the same metadata"),
    "one of four bytes": (lambda: run(Stored(wrong="a", by="repeated"))[0], "R508", "k = 32 with the scale factors of k = 0"),
    "blocks of 128 rows exchanged": (lambda: run(Gemm(n=256, source=lambda offset: offset ^ 512 * (offset >= 8192)))[0], "R508", "of rows 128 to 255 of B lie before those of rows 0 to 127"),
    "words, not in blocks": (lambda: run(Mapped(n=64, form="words", transposed=False))[0], "S701", "126 of 128 rows of A get the scale factors of other rows: row 1 gets those of row 4"),
    "64 rows twice": (lambda: run(Stored(wrong="a", turn="and.b32 %r30, %r30, 63;"))[0], "R508", "rows 0 and 64 of A get the same scale factors"),
}  # fmt: skip


@pytest.mark.parametrize(("launch", "code", "words"), MAY_BE_MEANT.values(), ids=MAY_BE_MEANT)
def test_an_order_that_a_host_may_have_stored_is_a_remark(launch, code, words):
    done = launch()
    assert (done.findings, {f.code for f in done.remarks}) == ([], {code}), done.text()
    assert any(words in f.message and "unless" in f.why for f in done.remarks), done.text()


def behind(x, count=32):
    """With values like those of the array behind it."""
    return np.concatenate([x.reshape(-1), np.random.default_rng(4).choice(x.reshape(-1), count)])


def by_k(x, rows=0, size=4):
    """Words of K one after the other, each of all rows, or of more rows."""
    held = np.random.default_rng(4).choice(x.reshape(-1), (x.shape[1] // size, max(rows, len(x)), size))
    held[:, : len(x)] = x.reshape(len(x), -1, size).swapaxes(0, 1)
    return held.reshape(-1)


ARRAYS = {  # the order of 16 rows of 8 bytes, the strides of rows and words, and whether nothing but a fault explains unused bytes
    "rows": (np.asarray, (8, 4), True),
    "rows, more behind": (behind, (8, 4), True),
    "rows of twice the bytes": (lambda x: np.concatenate([x, x[::-1]], 1), (16, 4), True),
    "rows of twice the bytes, zeros": (lambda x: np.concatenate([x, 0 * x], 1), (16, 4), True),
    "words": (by_k, (4, 64), True),
    "words, more behind": (lambda x: behind(by_k(x)), (4, 64), True),
    "words of 24 rows": (lambda x: by_k(x, 24), (4, 96), False),
    "twice as many words": (lambda x: by_k(np.concatenate([x, x[::-1]], 1)), (4, 64), False),
}


@dataclasses.dataclass(frozen=True)
class Behind(Gemm):
    """The arrays of scale factors go on, with values like the others."""

    more: int = 0

    def packed(self, scales):
        return behind(super().packed(scales), self.more)


@pytest.mark.parametrize(("more", "is_certain"), [(64, True), (4096, False)])
@pytest.mark.parametrize(
    "what",
    [{"tiles": 3, "block": lambda side, tile: own(side, 0)}, {"grid": (2, 1), "block": lambda side, tile: (tile, 0, int(side == "b"))}],
)
def test_blocks_of_tcgen05_that_do_not_go_on_are_found_in_longer_arrays(what, more, is_certain):
    done, wrong = run(Behind(more=more, **what))
    told, other = (done.findings, done.remarks)[:: 1 if is_certain else -1]
    assert (wrong > 1000, {f.code for f in told}, other) == (True, {"R508"}, []), done.text()
    if not is_certain:
        assert run(Behind(more=more, **{**what, "block": None}))[0].findings == []


@pytest.mark.parametrize(("order", "strides", "is_certain"), ARRAYS.values(), ids=ARRAYS)
def test_factors_of_a_k_that_does_not_go_on_are_found_in_padded_arrays(order, strides, is_certain):
    right = FragmentGemm(order=lambda x: order(x.repeat(16 // len(x), 0)), rows={"b": "shl.b32 %s1, %g, 1;"}, strides=strides)
    assert right.run()[0].findings == []
    done, wrong = dataclasses.replace(right, word=lambda side, step: step // 4 * (side == "b")).run()
    assert (wrong > 0, *([f.code for f in found] for found in (done.findings, done.remarks))) == (
        True,
        ["R508"] * is_certain,
        ["R508"] * (not is_certain),
    ), done.text()


# ---- the order of bytes, against what the words say


def brute_runs(at):
    groups = [list(same) for _, same in itertools.groupby(at)]
    lengths = [len(group) for group in groups]
    inner = lengths[1:-1] if len(lengths) > 2 else lengths[:1]
    return len({group[0] for group in groups}) == len(groups) and len({*inner}) == 1 and max(lengths) <= inner[0]


def brute_affine(seq):
    """f(i) = f(0) + the sum of f(2^b) - f(0) for the bits b of i."""
    return all(value - seq[0] == sum(seq[1 << b] - seq[0] for b in range(16) if n >> b & 1) for n, value in enumerate(seq))


def brute_order(seq):
    grows = all(a < b for a, b in itertools.pairwise(seq))
    return grows or (brute_affine(seq) and all(seq[1 << b] > seq[0] for b in range(16) if 1 << b < len(seq)))


def brute_regular(seq):
    period = len({*seq})
    return seq == (seq[:period] * len(seq))[: len(seq)] or len({*Counter(seq).values()}) == 1


SHORT = [list(seq) for size, most in ((1, 4), (2, 4), (3, 4), (4, 4), (5, 3)) for seq in itertools.product(range(most), repeat=size)]


def test_orders_of_a_few_bytes_are_what_their_definitions_say():
    for seq in SHORT:
        at = np.array(seq)
        found = orders.is_in_runs(at), orders.is_affine(seq), orders.is_in_order(seq), orders.is_regular(seq)
        assert found == (brute_runs(seq), brute_affine(seq), brute_order(seq), brute_regular(seq)), seq


def test_offsets_are_those_of_a_table_if_one_factor_of_the_rows_is_in_no_order():
    for seq in SHORT:
        known = [value for value in seq if value]
        is_table = len({*known}) < len(known) and not brute_runs(known) and not brute_affine(known)
        at = np.array(seq)[:, None] - 1  # -1: no byte of an array
        assert orders.is_looked_up(at) == is_table == orders.is_looked_up(np.hstack([np.arange(len(at))[:, None], at])), seq


@pytest.mark.parametrize("pitch", [1, 4, 6])
@pytest.mark.parametrize("base", [0, 4096])
def test_rows_that_are_exchanged_are_named(pitch, base):
    for of in itertools.permutations(range(4)):
        rows = range(4)
        names = {
            tuple(rows): "",
            **{tuple((r + n) % 4 for r in rows): f"so that row r gets those of row (r + {n}) % 4" for n in (1, 2, 3)},
            **{tuple(r ^ n for r in rows): f"so that row r gets those of row r ^ {n}" for n in (1, 2, 3)},
            (3, 2, 1, 0): "in the opposite order",
        }
        says, found, apart = orders.exchanged(base + pitch * np.array(of))
        assert (says, found.tolist(), apart) == (names.get(of, ""), [*of], pitch)
    for other in ([0, 1, 1, 2], [0, 1, 2, 4], [5, 5]):
        assert orders.exchanged(base + pitch * np.array(other)) is None


# ---- operands of four bits, which maps of bytes bring


@dataclasses.dataclass(frozen=True)
class Moved(Gemm):
    """The start address of A moves by so many 16 bytes for each K step."""

    by: int = 2

    @property
    def ptx(self) -> str:
        return re.sub(r"add.s64 %rd10, %rd5, (\d+);", lambda m: f"add.s64 %rd10, %rd5, {int(m[1]) // 2 * self.by};", self._of_one)


@pytest.mark.parametrize("kind", [("mxf4", "2X"), ("mxf4nvf4", "4X"), ("mxf8f6f4", "1X")])
@pytest.mark.parametrize("n", [64, 72])
def test_operands_of_four_bits_are_checked_in_bytes(kind: tuple[str, str], n: int):
    done, _ = run(Moved(*kind, n=n, tiles=2))
    assert (done.findings, done.judged.a, done.judged.b) == ([], (8, 8), (8, 8)), done.text()
    done, _ = run(Moved(*kind, n=n, tiles=2, by=4))
    found = next(f for f in done.findings if f.code == "R502")
    assert "the byte offsets [0, 64, 128, 192] of the K steps must be [0, 32, 64, 96]" in found.repair
    assert ("k counts bytes here" in found.why) == (kind[0] != "mxf8f6f4")
    done, _ = run(Moved(*kind, n=n, steps=3))
    unread = [f for f in done.remarks if f.code == "R508"]
    assert len(unread) == 2
    assert all("k 96 to 127" in f.what and ("k counts bytes here" in f.why) == (kind[0] != "mxf8f6f4") for f in unread)
    done, _ = run(Gemm("mxf4", "2X", n=64, id=lambda side, tile, step: 2 * ((step + (side == "a")) % 2)))
    assert "k counts bytes" not in done.text()  # of scale factors it counts elements
