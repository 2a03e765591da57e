"""What smemsim.testing promises to other people's tests: its strategies, its pytest plugin, and the traces that its
recorder writes.
"""

import ast
import dataclasses
import importlib
import json
import math
import os
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from kernels import TOML
from places import ROOT
from smemsim import Gpu, InputError, SmemDescriptor, TensorMap, TensorMapError, TraceError, Unmodelled, check, element_value, plan
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.formats import FORMATS
from smemsim.evidence import load_suite, replay_suite, write_suite
from smemsim.evidence.kinds.smem_dump import SmemDump
from smemsim.planning import GRAVE
from smemsim.testing import strategies as drawn
from smemsim.testing.recorder import (
    DUMP,
    FILL,
    Kernel,
    MapOf,
    Recorded,
    Recorder,
    Step,
    differences,
    launch_of,
    load_launch,
    write_recorded,
)
from smemsim.testing.strategies.descriptors import hard_cases
from smemsim.testing.strategies.kernels import FAULTS
from smemsim.testing.strategies.maps import CODES, EDGES
from strategies import examples
from tools import mutants

pytest_plugins = ["pytester"]
FIXED = settings(max_examples=200, derandomize=True, deadline=None)
OPERAND = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16}


def is_grave(findings):
    return any(f.severity in GRAVE for f in findings)


def one_field_apart(a, b):
    return [name for name, field in a.table.fields.items() if field.raw(a.word) != field.raw(b.word)]


# ---- descriptors -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_legal_read_has_no_grave_finding_and_its_operand_is_in_the_window(arch):
    @examples(25)
    @given(drawn.reads(arch=arch))
    def law(read):
        d, operand = read
        assert not is_grave(d.problems(**operand))
        assert operand["dtype"] in ARCHITECTURES[arch].mma_types
        address = smemsim_addresses(d, arch, operand)
        assert ARCHITECTURES[arch].shared_begin <= address.min()
        assert address.max() < ARCHITECTURES[arch].shared_end

    law()


def smemsim_addresses(d, arch, operand):
    from smemsim import operand_addresses

    return operand_addresses(d, arch=arch, **operand)


@examples(25)
@given(drawn.smem_descriptors(arch="sm_90a"), drawn.smem_descriptors(arch="sm_100a", operand=OPERAND))
def test_legal_descriptors_are_judged_with_the_context_that_was_given(alone, for_operand):
    assert not is_grave(alone.problems())
    assert not is_grave(for_operand.problems(**OPERAND))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_near_descriptors_are_one_field_from_a_legal_one_and_wrong(arch):
    broken = set()

    @examples(600)
    @given(drawn.near_smem_descriptors(arch=arch, operand=OPERAND))
    def law(found):
        legal, near, field = found
        assert one_field_apart(legal, near) == [field]
        assert not is_grave(legal.problems(**OPERAND))
        assert is_grave(near.problems(**OPERAND))
        broken.add(field)

    law()
    assert {"stride_byte_offset", "base_offset", "layout_type"} <= broken | ({"layout_type"} if arch == "sm_90a" else set())


@examples(40)
@given(st.data(), st.sampled_from(sorted(ARCHITECTURES)))
def test_any_word_is_any_word(data, arch):
    d = data.draw(drawn.smem_descriptors(arch=arch, legal="any", swizzles="128B", fields={"base_offset": st.just(5)}))
    assert (str(d.swizzle), d.base_offset) == ("128B", 5)


def test_every_bit_of_a_word_is_drawn():
    seen = [0, 0]

    @examples(60)
    @given(drawn.smem_descriptors(arch="sm_100a", legal="any"))
    def collect(d):
        seen[0] |= d.word
        seen[1] |= ~d.word

    collect()
    assert seen[0] == (1 << 64) - 1
    assert seen[1] & (1 << 64) - 1 == (1 << 64) - 1


def test_the_smallest_aliasing_descriptor_is_a_small_one():
    """An operand of two rows of atoms aliases with SBO 0; nothing else of the word is set."""

    def aliases(d):
        return len(np.unique(smemsim_addresses(d, "sm_90a", OPERAND | {"rows": 16}))) < 16 * 16

    words = drawn.smem_descriptors(arch="sm_90a", legal="any", swizzles=["none", "128B"])
    assert find(words, aliases, settings=FIXED) == SmemDescriptor(arch="sm_90a")


@examples(60)
@given(drawn.instr_descriptors(cta_group=1, ws=False), drawn.instr_descriptors(cta_group=2), drawn.instr_descriptors(ws=True))
def test_legal_instruction_descriptors_exist_in_their_context(single, pair, ws):
    assert not is_grave(single.problems(cta_group=1, ws=False))
    assert not is_grave(pair.problems(cta_group=2))
    assert not is_grave(ws.problems(ws=True))


@examples(40)
@given(drawn.near_instr_descriptors())
def test_near_instruction_descriptors_are_one_field_from_a_legal_one(found):
    legal, near, field = found
    assert one_field_apart(legal, near) == [field]
    assert not is_grave(legal.problems())
    assert is_grave(near.problems())


# ---- tensor maps and elements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", [None, *ARCHITECTURES])
def test_maps_are_legal_where_they_say(arch):
    @examples(40)
    @given(drawn.tensor_maps(arch=arch), drawn.encode_arguments(arch=arch, calls="tiled"))
    def law(tm, arguments):
        assert tm.broken_on(arch) == ()
        assert TensorMap.tiled(**arguments, arch=arch).rank == len(arguments["global_dim"])

    law()


def test_mutated_maps_lie_on_both_sides_of_the_verdict_and_name_every_bound():
    seen = set()

    @examples(80)
    @given(drawn.mutated_tensor_maps(arch="sm_90a"))
    def collect(arguments):
        call = TensorMap.im2col if "channels_per_pixel" in arguments else TensorMap.tiled
        try:
            tm = call(**arguments, arch="sm_90a")
        except TensorMapError:
            seen.add("refused")
        except (InputError, Unmodelled) as e:
            assert "needs" in str(e) or "codes" in str(e)  # noqa: PT017
        else:
            assert tm.broken_on("sm_90a") == ()
            seen.add("taken")

    collect()
    assert seen == {"refused", "taken"}
    assert set(EDGES) | set(CODES) == {*TensorMap.tiled.__kwdefaults__, *TensorMap.im2col.__kwdefaults__} - {"arch"} | {
        "data_type", "global_address", "global_dim", "global_strides", "box_dim", "pixel_box_lower_corner", "pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column",
    }  # fmt: skip


@pytest.mark.parametrize("dtype", FORMATS)
def test_hard_cases_hold_the_hard_numbers(dtype):
    fmt = FORMATS[dtype]
    cases = hard_cases(fmt)
    assert cases[0] == 0
    assert all(0 <= bits < 1 << fmt.bits for bits in cases)
    if not fmt.is_float or fmt.bits == 1:
        return
    values = [element_value(bits, dtype) for bits in cases]
    finite = [float(v) for v in values if math.isfinite(v)]
    assert max(finite) == float(element_value(fmt.largest << fmt.dropped_bits, dtype))
    assert 1.0 in finite
    assert any(0 < v <= 2.0**fmt.smallest_exponent for v in finite)
    if fmt.specials:
        assert any(math.isnan(v) for v in values)
    if fmt.specials == "ieee":
        assert float("inf") in map(float, values)
    if fmt.signed:
        assert {bits | 1 << fmt.bits - 1 for bits in cases} <= set(cases)


def test_elements_shrink_to_zero_and_arrays_to_one_odd_element():
    assert find(drawn.element_bits("f32"), lambda bits: True, settings=FIXED) == 0
    array = find(drawn.element_arrays("bf16", shape=(2, 3)), lambda array: (array > 0x7F80).any(), settings=FIXED)
    assert sorted(array.ravel().tolist()) == [0, 0, 0, 0, 0, 0x7F81]


# ---- kernels -----------------------------------------------------------------------------------------------------------------------


@examples(6)
@given(drawn.plans(most_rows=64, most_k=64))
def test_plans_are_those_of_plan(made):
    again = plan(**made.arguments)
    assert np.array_equal(again.words, made.words)


@examples(8)
@given(drawn.scenarios(most_rows=64, most_k=64, most_stages=1))
def test_scenarios_are_right(scenario):
    assert check(scenario).ok


@examples(8)
@given(drawn.faulty_scenarios(arch="sm_90a", most_rows=64, most_k=64, most_stages=1))
def test_faulty_scenarios_are_wrong_and_say_where(found):
    scenario, fault = found
    assert is_grave(check(scenario).findings)
    assert fault.old != fault.new
    assert fault.kind in FAULTS


NAMES_OF_PATHS = {
    "stride_byte_offset": "word", "leading_byte_offset": "word", "base_offset": "word", "layout_type": "word", "start": "start_offset", "k_add": "k_add",
    "mn_add": "mn_add", "major": "major", "address": "address", "map_swizzle": "swizzle", "box_dim": "box_dim", "coordinate": "at", "expect_bytes": "expect_bytes",
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_asked_for_is_the_one_that_is_planted(name):
    options = {"arch": "sm_90a", "dtypes": "bf16", "most_rows": 128, "most_k": 64, "most_stages": 1}
    options |= {"majors": "MN", "swizzles": "64B"} if name in ("leading_byte_offset", "mn_add") else {"swizzles": ["64B", "128B"]}

    @examples(2)
    @given(drawn.faulty_scenarios(faults=name, **options))
    def law(found):
        scenario, fault = found
        assert fault.kind == name
        assert NAMES_OF_PATHS[name] in fault.path
        assert fault.old != fault.new
        assert not check(scenario).ok
        assert "expect" not in scenario

    law()


@examples(30)
@given(st.data(), st.sampled_from(["sm_100a", "sm_103a"]), st.sampled_from(["mxf4", "mxf4nvf4", "f16"]))
def test_instruction_descriptors_are_those_of_the_card_and_of_the_legality_that_is_asked_for(data, arch, kind):
    legal = data.draw(drawn.instr_descriptors(kind=kind, arch=arch))
    assert not is_grave(legal.problems(arch=arch))
    assert legal.kind == kind
    near = data.draw(drawn.instr_descriptors(kind=kind, arch=arch, legal="near"))
    assert is_grave(near.problems(arch=arch))
    assert data.draw(drawn.instr_descriptors(kind=kind, legal="any")).kind == kind
    if kind == "f16":
        assert not is_grave(data.draw(drawn.instr_descriptors(kind=kind, ws=True)).problems(ws=True))


def test_a_k_of_96_is_drawn_for_the_card_that_has_it_alone():
    wide = drawn.instr_descriptors(kind="mxf4", arch="sm_103a")
    assert find(wide, lambda d: bool(d.k_size), settings=FIXED).k == 96
    seen = []

    @examples(60)
    @given(drawn.instr_descriptors(kind="mxf4", arch="sm_100a"))
    def collect(d):
        seen.append(bool(d.k_size))

    collect()
    assert not any(seen)


@examples(20)
@given(st.data(), st.sampled_from(["sm_90a", "sm_100a"]))
def test_reads_and_words_are_of_the_legality_that_is_asked_for(data, arch):
    d, operand = data.draw(drawn.reads(arch=arch, legal="near", swizzles="128B"))
    assert is_grave(d.problems(**operand))
    assert is_grave(data.draw(drawn.smem_descriptors(arch=arch, legal="near", operand=OPERAND)).problems(**OPERAND))
    d, operand = data.draw(drawn.reads(arch=arch, legal="any", swizzles="64B"))
    assert str(d.swizzle) == "64B"
    assert not getattr(d, "lbo_mode", 0)
    assert operand["dtype"] in FORMATS


BAD_OPTIONS = {
    "names in bytes": (lambda: drawn.operands(dtypes=b"bf16"), "dtypes = .*: needs names out of"),
    "names as a number": (lambda: drawn.operands(dtypes=5), "dtypes = 5: needs names out of"),
    "an operand of no instruction": (
        lambda: drawn.operands(arch="sm_90a", dtypes="e4m3", majors="MN"),
        "operands of sm_90a: no instruction reads e4m3 MN-major",
    ),
    "a plan of no instruction": (
        lambda: drawn.plans(arch="sm_90a", dtypes="e4m3", majors="MN"),
        "plans: no instruction reads e4m3 MN-major",
    ),
    "an operand of another K": (
        lambda: drawn.smem_descriptors(arch="sm_90a", operand=OPERAND | {"packing": "padded"}),
        "operand: no descriptor of sm_90a reads|packing",
    ),
    "im2col maps of a plane": (
        lambda: drawn.encode_arguments(calls="im2col", ranks=2),
        "calls: im2col maps have 3 to 5 dimensions and elements of whole bytes",
    ),
    "an architecture": (lambda: drawn.smem_descriptors(arch="sm_80"), "'sm_80': not an architecture"),
    "a legality": (lambda: drawn.smem_descriptors(arch="sm_90a", legal="almost"), "needs 'legal', 'near'"),
    "a swizzle": (lambda: drawn.smem_descriptors(arch="sm_90a", swizzles=["128B_ATOM_32B"]), "needs names out of none 32B 64B 128B"),
    "an operand": (lambda: drawn.smem_descriptors(arch="sm_90a", operand={"dtype": "bf16"}), "needs a dict of dtype, major, rows, k"),
    "a long operand": (
        lambda: drawn.smem_descriptors(arch="sm_90a", operand=OPERAND | {"k": 24}),
        "k = 24: no instruction of sm_90a reads",
    ),
    "a type and a major": (lambda: drawn.reads(arch="sm_90a", dtypes="e4m3", majors="MN"), "no instruction reads e4m3 MN-major"),
    "fields of legal words": (
        lambda: drawn.smem_descriptors(arch="sm_90a", fields={"base_offset": st.just(1)}),
        "pins raw bits of any words",
    ),
    "a field": (lambda: drawn.smem_descriptors(arch="sm_90a", legal="any", fields={"lbo_mode": st.just(1)}), "has no field lbo_mode"),
    "a kind": (lambda: drawn.instr_descriptors(kind="f15"), "did you mean 'f16'"),
    "a kind with .ws": (lambda: drawn.instr_descriptors(kind="mxf4", ws=True), "does not exist with ws = True"),
    "a rank": (lambda: drawn.tensor_maps(ranks=6), "have 1 to 5 dimensions"),
    "a data type": (lambda: drawn.tensor_maps(arch="sm_90a", data_types="U4_ALIGN8B"), "needs names out of UINT8"),
    "a swizzle of maps": (lambda: drawn.tensor_maps(arch="sm_90a", swizzles="SWIZZLE_128B_ATOM_32B"), "needs names out of SWIZZLE_NONE"),
    "an element": (lambda: drawn.element_bits("bf17"), "not an element type"),
    "a shape": (lambda: drawn.element_arrays("bf16", shape=(1024, 1024)), "1,048,576 elements"),
    "a fault": (lambda: drawn.faulty_scenarios(faults="stride"), "needs names out of stride_byte_offset"),
    "no names": (lambda: drawn.operands(dtypes=[]), "the list is empty"),
}


@pytest.mark.parametrize("what", BAD_OPTIONS)
def test_options_that_no_hardware_has_are_sentences_at_once(what):
    call, says = BAD_OPTIONS[what]
    with pytest.raises(InputError, match=says):
        call()


# ---- traces of a user's kernel -----------------------------------------------------------------------------------------------------


def plain_launch(**changes):
    """A box of 8 x 16 bytes without swizzle out of a tensor of 32 rows of 64 bytes: its place in shared memory is plain
    slicing.
    """
    tensor = np.arange(32 * 64, dtype=np.uint32).astype(np.uint8).reshape(32, 64)
    tm = TensorMap.tiled(data_type="u8", global_address=0, global_dim=(64, 32), global_strides=(64,), box_dim=(16, 8))
    out = TensorMap.tiled(data_type="u8", global_address=0, global_dim=(16, 8), global_strides=(16,), box_dim=(16, 8))
    kernel, launch = load_launch(
        "sm_90a", tensors={"A": tensor, "B": np.zeros((8, 16), np.uint8)}, maps={"tmA": MapOf("A", tm), "tmB": MapOf("B", out)},
        steps=[Step("tmA", (32, 4), 0x480), Step("tmB", (0, 0), 0x480, is_store=True)], outputs=("B",),
    )  # fmt: skip
    return kernel, dataclasses.replace(launch, **changes), tensor[4:12, 32:48]


def recorded_trace(folder, *, damage=None, fill=FILL, **changes):
    kernel, launch, box = plain_launch(fill=fill, **changes)
    dump = np.full(launch.dump_bytes, FILL if fill is not None else 0x33, np.uint8)
    dump[0x80 : 0x80 + 128] = box.ravel()
    addresses = {"A": 0x10000, "B": 0x20000, "completed": 0x30000}
    maps = tuple(
        bytes(TensorMap.tiled(**one.tensor_map.arguments | {"global_address": addresses[one.tensor]})) for one in launch.maps.values()
    )
    after = box.ravel().copy()
    if damage:
        damage(dump, after)
    one = Recorded(launch, 0, 0x400 + launch.shared_bytes, addresses, maps, dump, after)
    device = {"gpu": "made up", "compute_capability": "9.0", "driver": "none"}
    write_recorded(folder, title="t", kernel=kernel, recorded=[one], arch="sm_90a", device=device, source={"command": "test", "seed": 0})
    return one


def dump_byte(at):
    def damage(dump, after):
        dump[at] ^= 1

    return damage


def output_byte(dump, after):
    after[5] ^= 1


def test_a_dump_is_compared_byte_by_byte(tmp_path):
    recorded_trace(tmp_path / "good")
    report = replay_suite(load_suite(tmp_path / "good"))
    assert report.same
    assert report.compared == 256 + 128  # the dump up to the box's end, and the output


@pytest.mark.parametrize(
    ("damage", "fill", "found"),
    [
        (dump_byte(0x80), FILL, r"bytes of the dump differ.  first: shared 0x480: from 0x480 on hardware"),
        (dump_byte(0xFF), None, r"first: shared 0x4ff"),
        (dump_byte(0), FILL, r"first: shared 0x400"),
        (dump_byte(0), None, None),  # nobody knows what was there before the kernel
        (output_byte, FILL, r"bytes of the outputs differ.  first: global 0x20005"),
    ],
)
def test_a_difference_is_found_where_it_is(tmp_path, damage, fill, found):
    recorded_trace(tmp_path / "t", damage=damage, fill=fill)
    report = replay_suite(load_suite(tmp_path / "t"))
    assert report.same == (found is None)
    if found:
        import re

        assert re.search(found, report.text())


def test_a_trap_must_be_the_models_trap(tmp_path):
    kernel, launch, _ = plain_launch()
    off = [dataclasses.replace(launch.steps[0], smem_address=0x488)]
    for status, same in ((716, True), (700, False), (0, False)):
        maps = tuple(bytes(one.tensor_map) for one in launch.maps.values())
        steps = dataclasses.replace(launch, steps=off)
        empty = np.zeros(0, np.uint8)
        one = Recorded(steps, status, 0x400 + launch.shared_bytes, {"A": 0x10000, "B": 0x20000, "completed": 0x30000}, maps, empty, empty)
        device = {"gpu": "made up", "compute_capability": "9.0", "driver": "none"}
        write_recorded(tmp_path / str(status), title="t", kernel=kernel, recorded=[one], arch="sm_90a", device=device, source={})
        assert replay_suite(load_suite(tmp_path / str(status))).same == same


def test_a_recorded_launch_is_the_launch_that_is_run_again(tmp_path):
    one = recorded_trace(tmp_path / "t")
    again = launch_of(load_suite(tmp_path / "t"), 0)
    assert again.step_rows() == one.launch.step_rows()
    assert again.argument_rows() == one.launch.argument_rows()
    assert [m.tensor_map for m in again.maps.values()] == list(one.maps)
    assert [a.tobytes() for a in again.tensors.values()] == [a.tobytes() for a in one.launch.tensors.values()]
    for name in ("dump_address", "dump_bytes", "shared_bytes", "block", "fill"):
        assert getattr(again, name) == getattr(one.launch, name)


def test_what_hardware_says_again_is_compared_with_what_it_said(tmp_path):
    one = recorded_trace(tmp_path / "t", fill=None)
    suite = load_suite(tmp_path / "t")
    assert differences(suite, 0, one) == ""
    unknown, known = one.dump.copy(), one.dump.copy()
    unknown[0] ^= 1
    known[0x81] ^= 1
    assert differences(suite, 0, dataclasses.replace(one, dump=unknown)) == ""
    assert "1 bytes of shared differ, the first at 0x481" in differences(suite, 0, dataclasses.replace(one, dump=known))
    assert "CUDA error 0, now 716" in differences(suite, 0, dataclasses.replace(one, status=716))


RECORDED = sorted(path.name for path in (ROOT / "golden" / "sm_90a").glob("recorder_*"))


@pytest.mark.parametrize("name", RECORDED)
def test_what_an_h200_recorded_is_told_from_what_it_did_not(name, tmp_path):
    """Any one bit that can be compared, of any case that ran, is found in that case."""
    suite = load_suite(ROOT / "golden" / "sm_90a" / name)
    ran = np.flatnonzero(suite.arrays["status"] == 0)
    about = {key: suite.manifest[key] for key in ("suite", "kind", "arch", "title", "device", "source")}
    rng = np.random.default_rng(5)
    for case in ran.tolist():
        seen = np.flatnonzero(SmemDump(suite).written(case))
        arrays = {key: array.copy() for key, array in suite.arrays.items()}
        at = int(rng.choice(seen))
        arrays["dump"][int(arrays["dump_start"][case]) + at] ^= 1 << rng.integers(8)
        write_suite(tmp_path / name, cases=len(suite), arrays=arrays, **about)
        report = replay_suite(load_suite(tmp_path / name))
        assert [one.case for one in report.differences] == [case]
        assert f"first: shared {int(arrays['dump_address'][case]) + at:#x}" in report.text()


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_launch_fits_its_kernel_again(name):
    suite = load_suite(ROOT / "golden" / "sm_90a" / name)
    assert {(one["gpu"], one["compute_capability"]) for one in [suite.manifest["device"]]} == {("NVIDIA H200", "9.0")}
    image = suite.arrays["kernel_image"].tobytes()
    for case in range(len(suite)):
        launch = launch_of(suite, case).checked()
        assert launch.argument_rows() == [tuple(row) for row in suite.ragged("arguments", case).tolist()]
        assert launch.step_rows() == suite.ragged("steps", case).tolist()
    if image[:4] == b"\x7fELF":
        assert suite.manifest["source"]["kernel"].encode() in image
    else:
        steps = suite.ragged("steps", 0)
        assert image.decode().count("    cp.async.bulk.tensor.") == len(steps)


def test_the_kernel_is_ptx_with_one_instruction_a_step():
    kernel, launch, _ = plain_launch()
    text = kernel.image.decode()
    assert text.count("cp.async.bulk.tensor.2d") == 2
    assert text.count(".param") - text.count("ld.param") - text.count("cvta.param") == len(launch.arguments)


BAD_LAUNCHES = {
    "a map": {"steps": [Step("tmC", (0, 0), 0x400)]},
    "coordinates": {"steps": [Step("tmA", (), 0x400)]},
    "a number": {"arguments": ["tmA", 1 << 32]},
    "an argument": {"arguments": ["tmC"]},
    "a float": {"arguments": [1.5]},
    "an output": {"outputs": ("C",)},
    "a fill": {"fill": 256},
    "threads": {"block": (2048, 1, 1)},
    "shared memory": {"shared_bytes": 1 << 20},
    "a tensor": {"tensors": {"A": [1, 2]}},
    "an orphan": {"maps": {"tmA": MapOf("C", bytes(128))}},
}


@pytest.mark.parametrize("what", BAD_LAUNCHES)
def test_a_launch_that_cannot_be_is_a_sentence(what):
    with pytest.raises(InputError, match=r"\w+.*(needs|no |does not|ends)"):
        plain_launch(**BAD_LAUNCHES[what])[1].checked()


def test_descriptors_and_numpy_numbers_are_arguments():
    _, launch, _ = plain_launch()
    d = SmemDescriptor(arch="sm_90a", start_address=1024, stride_byte_offset=1024, swizzle="128B")
    rows = dataclasses.replace(launch, arguments=[d, np.uint64(7), -1, np.float32(1), DUMP, "A", "tmA"]).argument_rows()
    assert rows == [(3, d.encode(), 8), (3, 7, 8), (3, 0xFFFFFFFF, 4), (3, 0x3F800000, 4), (2, 0, 8), (1, 0, 8), (0, 0, 128)]


def test_without_a_gpu_recording_says_so(monkeypatch):
    from smemsim.testing import recorder

    monkeypatch.setattr(recorder, "why_no_gpu", lambda: "the CUDA driver sees no GPU here")
    with pytest.raises(InputError, match="nothing to record on: the CUDA driver sees no GPU"):
        recorder.record("nowhere", Kernel(b"", "k"), [], title="t")


def test_other_kinds_do_not_hold_their_kernel(tmp_path):
    suite = load_suite(ROOT / "golden" / "sm_90a" / "encode_pointers")
    with pytest.raises(TraceError, match="only smem_dump traces hold their kernel"):
        Recorder.rerun(None, suite, 0)


@pytest.mark.parametrize("name", ["recorder_im2col", "recorder_loads", "recorder_stores"])
def test_what_was_recorded_on_hardware_runs_alike_on_a_simulated_card(name):
    """The same description, with the recorded image: every byte, and the trap at the end, are those of the H200. It is
    no evidence.
    """
    suite, recorder = load_suite(ROOT / "golden" / "sm_90a" / name), Recorder(gpu=Gpu("sm_90a"))
    again = [recorder.rerun(suite, case) for case in range(len(suite))]
    assert [differences(suite, case, one) for case, one in enumerate(again)] == [""] * len(suite)
    assert any(one.trapped for one in again) == (name == "recorder_loads")
    with pytest.raises(InputError, match="a trace is what hardware does"):
        recorder.write("nowhere", Kernel(b"", "k"), again, title="t")


def test_another_launch_of_a_recorded_kernel_differs_on_a_simulated_card():
    suite, recorder = load_suite(ROOT / "golden" / "sm_90a" / "recorder_loads"), Recorder(gpu=Gpu("sm_90a"))
    kernel, other = Kernel(suite.arrays["kernel_image"].tobytes(), suite.manifest["source"]["kernel"]), launch_of(suite, 1)
    assert "bytes of shared differ" in differences(suite, 0, recorder.run(kernel, other))
    with pytest.raises(InputError, match="takes parameters of"):
        recorder.run(kernel, dataclasses.replace(other, arguments=other.arguments[:-1]))


# ---- the plugin --------------------------------------------------------------------------------------------------------------------

BAD = TOML.replace("0x4000004000010000", "0x4000000800010000")


@pytest.fixture
def repository(pytester, monkeypatch):
    """An empty repository of a user, with the plugin and nothing else installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nsmemsim_golden = golden\ntestpaths = tests\naddopts = -p smemsim.testing.plugin")
    for name in ("golden", "tests"):
        (pytester.path / name).mkdir()
    return pytester


def test_a_good_trace_passes_and_a_damaged_one_fails_with_its_report(repository):
    recorded_trace(repository.path / "golden" / "good")
    recorded_trace(repository.path / "golden" / "wrong", damage=dump_byte(0x90))
    recorded_trace(repository.path / "golden" / "torn")
    manifest = repository.path / "golden" / "torn" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("smemsim.trace/1", "smemsim.trace/2"))
    result = repository.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines_random(
        [
            "wrong * 1 cases differ",
            "*first: shared 0x490*",
            "*where (bytes of the dump in their order*",
            "*rule in force: *",
            "*format 'smemsim.trace/2', this smemsim reads*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_trace_of_an_unknown_kind_fails(repository):
    recorded_trace(repository.path / "golden" / "new")
    manifest = repository.path / "golden" / "new" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"smem_dump"', '"smem_picture"'))
    result = repository.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*kind 'smem_picture' is not one this version replays*"])


def test_scenario_files_are_tests(repository):
    tests = repository.path / "tests"
    (tests / "good.smem.toml").write_text(TOML)
    (tests / "bad.smem.toml").write_text(BAD)
    (tests / "known.smem.toml").write_text(BAD + '[expect]\nfindings = ["D308"]\n')
    (tests / "typo.smem.toml").write_text(TOML.replace("swizzle", "swizle"))
    (tests / "other.toml").write_text(BAD)
    result = repository.runpytest_inprocess("-rA")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines_random(["*fix*stride_byte_offset 128 must be 1024*", "*typo.smem.toml:*swizle*did you mean 'swizzle'*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_fixtures_hold_a_kernel_in_five_lines(repository):
    recorded_trace(repository.path / "golden" / "good")
    (repository.path / "tests" / "kernel.smem.toml").write_text(TOML)
    repository.makepyfile(**{"tests/test_kernel": (
        "def test_reads(smemsim_check):\n    assert smemsim_check('tests/kernel.smem.toml').findings == ()\n\n"
        "def test_trace(smemsim_replay):\n    smemsim_replay('golden/good')\n\n"
        "def test_gpu(smemsim_recorder):\n    raise SystemError\n"
    )})  # fmt: skip
    result = repository.runpytest_inprocess("-rs")
    result.assert_outcomes(passed=4, skipped=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*needs a GPU: run with --smemsim-hardware*"])


def test_hardware_runs_are_asked_for_and_skipped_with_the_reason(repository, monkeypatch):
    from smemsim.testing import recorder as cuda

    monkeypatch.setattr(cuda, "why_no_gpu", lambda: "the CUDA driver sees no GPU here")
    recorded_trace(repository.path / "golden" / "good")
    assert repository.runpytest_inprocess().ret == 0
    result = repository.runpytest_inprocess("--smemsim-hardware", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*the CUDA driver sees no GPU here*"])


def test_a_scenario_in_which_nothing_is_compared_does_not_pass(repository):
    raw = plan(64, 64, dtype="bf16", major="K", swizzle="128B", arch="sm_90a", side="a").scenario()
    tests = repository.path / "tests"
    (tests / "whole.smem.json").write_text(json.dumps(raw))
    del raw["step"][1]["a"]["meant"]
    (tests / "meaningless.smem.json").write_text(json.dumps(raw))
    (tests / "empty.smem.toml").write_text('arch = "sm_90a"\ntitle = "nothing yet"\n')
    repository.makepyfile(
        **{"tests/test_mine": "def test_one(smemsim_check):\n    smemsim_check({'arch': 'sm_90a', 'title': 'nothing'})\n"}
    )
    result = repository.runpytest_inprocess("-rs")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines_random(
        [
            "*nothing was compared: not looked at: step?1?.a (the key meant is missing*",
            "*not looked at: any operand (the scenario has no ??step??)*",
        ]
    )


def test_paths_of_fixtures_count_from_the_configuration_file_too(repository, monkeypatch):
    recorded_trace(repository.path / "golden" / "good")
    (repository.path / "tests" / "kernel.smem.toml").write_text(TOML)
    repository.makepyfile(**{"tests/test_mine": (
        "import pytest, smemsim\n\n"
        "def test_one(smemsim_check, smemsim_replay):\n    assert smemsim_check('tests/kernel.smem.toml').ok\n    assert smemsim_replay('golden')[0].same\n\n"
        "def test_none(smemsim_replay):\n    with pytest.raises(smemsim.TraceError, match='nowhere: no such folder'):\n        smemsim_replay('nowhere')\n"
    )})  # fmt: skip
    monkeypatch.chdir(repository.path / "tests")
    repository.runpytest_inprocess("test_mine.py").assert_outcomes(passed=2)


def test_a_trace_without_its_kernel_is_replayed_and_not_run_again(repository, monkeypatch):
    from smemsim.testing import recorder as cuda

    monkeypatch.setattr(cuda, "why_no_gpu", lambda: "")
    recorded_trace(repository.path / "golden" / "mine")
    suite = load_suite(repository.path / "golden" / "mine")
    about = {key: suite.manifest[key] for key in ("suite", "kind", "arch", "title", "device", "source")}
    write_suite(suite.path, cases=1, arrays=suite.arrays | {"kernel_image": np.zeros(0, np.uint8)}, **about)
    result = repository.runpytest_inprocess("--smemsim-hardware", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*the trace has no kernel image; record it again to run it*"])


def test_a_path_of_ones_own_leaves_the_traces_out(repository):
    recorded_trace(repository.path / "golden" / "good")
    repository.makepyfile(**{"tests/test_mine": "def test_one():\n    pass\n"})
    repository.runpytest_inprocess("tests").assert_outcomes(passed=1)
    repository.runpytest_inprocess("golden").assert_outcomes(passed=1)
    repository.runpytest_inprocess().assert_outcomes(passed=2)


def test_a_folder_that_is_not_there_is_a_usage_error(repository):
    (repository.path / "golden").rmdir()
    result = repository.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*smemsim_golden: *golden is not a folder*"])


def test_collecting_imports_neither_numpy_nor_numba(tmp_path):
    """In a process of its own: what a user's every pytest run would pay for."""
    (tmp_path / "golden" / "t").mkdir(parents=True)
    (tmp_path / "golden" / "t" / "manifest.json").write_text(json.dumps({"schema": "smemsim.trace/1"}))
    (tmp_path / "a.smem.toml").write_text(TOML)
    (tmp_path / "pytest.ini").write_text("[pytest]\nsmemsim_golden = golden\n")
    code = (
        "import sys, pytest; code = pytest.main(['-p', 'smemsim.testing.plugin', '-p', 'no:cacheprovider', '--collect-only', '-q']); "
        "print(code, sorted({'numpy', 'numba', 'hypothesis', 'cuda'} & set(sys.modules)))"
    )
    env = {"PYTHONPATH": str(ROOT / "sim"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "2 tests collected" in done.stdout, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("0 []") or "ExitCode.OK" in done.stdout.splitlines()[-1]
    assert done.stdout.rstrip().endswith("[]")


def test_launch_folders_below_the_golden_path_are_tests(pytester):
    pytester.makeini("[pytest]\nsmemsim_golden = golden")
    pytester.mkdir("golden")
    assert "holds neither a trace" in pytester.runpytest("--collect-only", "-q", "-p", "no:cacheprovider").stdout.str()
    folder = pytester.path / "golden" / "k"
    folder.mkdir()
    arrays = '[{name = "x", dtype = "u32", shape = [64], distribution = "zeros"}]'
    (folder / "launch.toml").write_text(f'block = 64\nargs = [{{array = "x"}}]\narrays = {arrays}\n')
    (folder / "kernel.ptx").write_text(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x)\n{ .reg .b64 %d<2>;\nld.param.u64 %d1, [x];\n"
        '.loc 1 7 0\nst.global.u32 [%d1+256], 1;\nret; }\n.file 1 "k\x1b[2J.cu"\n'
    )
    (pytester.path / "click.py").write_text("raise SystemExit('a file of the current folder was imported')")
    pytester.runpytest("--collect-only", "-q").stdout.fnmatch_lines(["*golden/k/launch.toml::run"])
    shown = pytester.runpytest("-q").stdout
    assert r"X001  k\x1b[2J.cu:7" in shown.str()
    assert r"FAILED golden/k/launch.toml::run - X001 k\x1b[2J.cu:7: " in shown.str()
    assert "\x1b[2J" not in shown.str()


def test_examples_do_not_depend_on_which_modules_are_imported(tmp_path, monkeypatch):
    """Hypothesis would draw the numbers of any module of the checkout that happens to be imported."""

    def drawn():
        found = []

        @settings(max_examples=200)
        @given(st.integers(0, 1 << 62))
        def law(value):
            found.append(value)

        law()
        return found

    before = drawn()
    module = tmp_path / "numbers_of_a_module.py"
    module.write_text(f"X = {[10**15 + n for n in range(1000)]}")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("numbers_of_a_module")
    assert drawn() == before
    assert not {10**15 + n for n in range(1000)} & set(before)


def test_every_test_has_a_limit_of_time(request):
    assert 0 < float(request.config.getini("timeout")) <= 300


def test_mutants_are_drawn_by_their_seed_and_change_one_place():
    drawn = mutants.draw("core/layout", 9, 1)
    assert drawn == mutants.draw("core/layout", 9, 1) != mutants.draw("core/layout", 9, 2)
    for mutant in drawn:
        before = mutant.path.read_text()
        assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(mutant.text))
        same = [a == b for a, b in zip(before.splitlines(), mutant.text.splitlines(), strict=False)]
        assert all(same[: mutant.line - 1])
        assert not same[mutant.line - 1]


def test_a_mutant_is_killed_by_a_test_that_names_what_it_changes():
    assert mutants.witnesses_of(mutants.SOURCES / "core" / "layout" / "cute.py")[0] == "core/test_cute.py"
    names = {name.rpartition("/")[2] for name in mutants.witnesses_of(mutants.SOURCES / "core" / "layout" / "cute.py")}
    assert not names & mutants.NO_WITNESS


MUTATED = """
def compiled(f):
    return f

@compiled
def loop(x):
    return x + 1

def law(x, found):
    if x > 3 and not x == 9:
        found.append(x * 2 if x < 5 else -x)
    match x:
        case 4:
            return loop(x) - 5
    return True
"""


def test_probes_note_which_test_reaches_a_place_and_change_nothing(tmp_path, monkeypatch):
    """Places of patterns and of compiled functions have no probe."""
    path = tmp_path / "mutated.py"
    path.write_text(MUTATED)
    every = mutants.mutants_of(path)
    text = mutants.probed(enumerate(every), path)
    probe, names, found = types.ModuleType(mutants.PROBE), {}, []
    exec(mutants.PROBE_TEXT, probe.__dict__)
    monkeypatch.setitem(sys.modules, mutants.PROBE, probe)
    monkeypatch.setenv("SMEMSIM_PROBES", str(tmp_path / "hits"))
    (tmp_path / "hits").mkdir()
    exec(text, names)
    assert (names["law"](4, found), names["law"](4, found), names["law"](2, found), found) == (0, 0, True, [8, 8])
    lines = [line for file in (tmp_path / "hits").iterdir() for line in file.read_text().splitlines()]
    reached = {every[int(line.partition(" ")[0])] for line in lines}
    assert {line.partition(" ")[2] for line in lines} == {os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]}
    assert len(lines) == len(reached)
    left = {m for m in every if m not in reached}
    assert {(m.line, m.before) for m in left} == {(7, "x + 1"), (7, "1"), (13, "4")}
    assert {(m.line, m.before) for m in reached} >= {(10, "not x == 9"), (11, "found.append(x * 2 if x < 5 else -x)"), (11, "2"), (14, "5")}
