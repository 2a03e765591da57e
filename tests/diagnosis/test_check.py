"""`check`: known kernels are clean, known bugs have their known cause, planted faults are found and their repairs work,
and correct kernels raise nothing.
"""

import json
import re
import tomllib

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kernels import BITS, TOML, WIDTHS, changed, kernel, said_of_damaged, word_with
from messages import facts, one_line
from places import TESTS
from smemsim import InputError, Severity, SmemDescriptor, check
from smemsim.cli import main
from smemsim.core.spec.findings import CODES
from smemsim.core.tables import keys_of
from smemsim.diagnosis import STEPS, TABLES, json_schema
from smemsim.diagnosis.scenario import Operand
from strategies import examples, is_night

FILES = sorted((TESTS / "scenarios").glob("*/*.toml"))
SCENARIOS = [tomllib.loads(path.read_text()) for path in FILES]
BUGS = [path for path in FILES if path.parent.name == "bugs"]


def test_the_known_cases_are_there():
    assert len(BUGS) == 26
    assert len(FILES) == 56
    assert len({s["title"] for s in SCENARIOS}) == 56
    assert all(s["source"] for s in SCENARIOS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_known_kernels_are_clean_and_known_bugs_have_their_cause(path, snapshot):
    scenario = tomllib.loads(path.read_text())
    report = check(path)
    if report.findings:
        assert facts(report.findings) == snapshot
    assert report.as_expected, report.text()
    assert report.ok
    assert bool(report.expected) is (path in BUGS)
    without = check({key: value for key, value in scenario.items() if key != "expect"})
    assert without.findings == report.findings
    assert without.ok is not any(f.severity in ("trap", "wrong") for f in report.findings)


def test_known_bugs_are_gone_when_their_fixes_are_made():
    mended = 0
    for path in BUGS:
        scenario = tomllib.loads(path.read_text())
        fixes = [f.fix for f in check(path).findings if f.fix]
        for where, old, new in fixes:
            place = where.replace("[", ".").replace("]", "")
            assert value_at(scenario, place) == number_of(old)
            scenario = changed(scenario, place, number_of(new))
        if fixes:
            assert check(scenario).codes == (), path.stem
        mended += bool(fixes)
    assert mended >= 12


def test_the_command_line_runs_all_of_them_as_regression_tests():
    result = CliRunner().invoke(main, ["check", *map(str, FILES)])
    assert result.exit_code == 0, result.stdout
    assert result.stdout.count("as expected") == len(FILES)


KERNELS = [
    ("sm_90a", "bf16", "K", "128B", 64, 128), ("sm_90a", "f16", "MN", "64B", 64, 64), ("sm_90a", "e4m3", "K", "64B", 128, 128),
    ("sm_90a", "bf16", "K", "none", 64, 64), ("sm_90a", "tf32", "K", "32B", 64, 32), ("sm_100a", "bf16", "K", "128B", 128, 128),
    ("sm_100a", "f16", "MN", "128B", 128, 64), ("sm_100a", "e5m2", "MN", "32B", 128, 128), ("sm_100a", "bf16", "MN", "none", 128, 64),
]  # fmt: skip
WORD, ADDS = "step.1.a.word", "step.1.a.k_add"


def faults(scenario):
    """(the codes that are right, in words, the scenario with the fault)."""
    operand, arch = scenario["step"][1]["a"], scenario["arch"]
    d = SmemDescriptor.decode(operand["word"], arch=arch)
    sbo, lbo, name = d.stride_byte_offset, d.leading_byte_offset, str(d.swizzle)

    def word(**fields):
        return changed(scenario, WORD, word_with(arch, **fields))

    yield "D301", "SBO in bytes", word(stride_byte_offset=sbo * 16 % (1 << 18))
    yield "D308", "SBO doubled", word(stride_byte_offset=2 * sbo)
    if {sbo, lbo} - {16} and sbo != lbo:
        yield "D309", "LBO and SBO exchanged", word(stride_byte_offset=lbo, leading_byte_offset=sbo)
    for other in WIDTHS:
        if other != name:
            yield "D302 R501", f"read as {other}", word(swizzle=other)
            yield "R501 D302 T202", f"written with {other}", changed(scenario, "map.tm.swizzle", other)
    if name == "128B":
        yield "D306", "a base offset", word(base_offset=3)
    yield "R502 R503", "K steps that do not advance", changed(scenario, ADDS, lambda adds: [0] * len(adds))
    yield "R502 R503", "K steps twice as far", changed(scenario, ADDS, lambda adds: [2 * x for x in adds])
    yield "R508", "another start", changed(scenario, "step.1.a.start_offset", lambda x: x + 16)
    yield "D303", "low bits lost", changed(scenario, "step.1.a.start_offset", lambda x: x + 24)
    yield "R505 I602", "the other major-ness", changed(scenario, "step.1.a.major", lambda x: "MN" if x == "K" else "K")
    yield "A101", "a buffer off 128 B", changed(scenario, "buffer.s.address", lambda x: x + 64)
    yield "A107", "half the buffer", changed(scenario, "buffer.s.bytes", lambda x: x // 2)
    yield "T210", "another byte count", changed(scenario, "step.0.expect_bytes", lambda x: x * 2)
    if scenario["tensor"]["X"]["dtype"] in ("bf16", "f16", "tf32") and WIDTHS[name] >= 64:
        yield "T211", "another element width", changed(scenario, "map.tm.data_type", "UINT8")
    yield "T207", "another stride", changed(scenario, "map.tm.global_strides", lambda x: [x[0] * 2])


FAULTS = [pytest.param(k, n, id=f"{'-'.join(map(str, k))}: {what}") for k in KERNELS for n, (_, what, _) in enumerate(faults(kernel(*k)))]


DAMAGE = [{"stride_byte_offset": 512}, {"stride_byte_offset": 2048}, {"swizzle": "64B"}, {"base_offset": 3}]


def as_words(scenario):
    """The same operand as a list of raw words."""
    other = changed(scenario, WORD, lambda word: word)
    a, begin = other["step"][1]["a"], scenario["buffer"]["s"]["address"]
    a["words"] = [a["word"] & ~0x3FFF | begin + add >> 4 for add in a.pop("k_add")]
    for key in ("word", "start", "start_offset"):
        a.pop(key, None)
    return other


def changed_words(finding):
    """The words that a repair changes: the first one as it is, and as it must be."""
    for _, *words in finding.changes:
        first = [word[0] if isinstance(word, list) else word for word in words]
        if isinstance(first[1], str) and first[1].startswith("0x"):
            yield [int(word, 16) for word in first]


@pytest.mark.parametrize("of", [KERNELS[n] for n in (0, 1, 3, 5, 7)], ids=lambda of: "-".join(map(str, of)))
@pytest.mark.parametrize("idle", [{"leading_byte_offset": 4096}, {"base_offset": 2}])
def test_a_repair_names_every_field_of_the_word_that_it_changes(of, idle):
    """Fields beside the wrong one may be set to what no instruction uses: they stay, or the repair names them."""
    reserved, seen = 1 << 15, 0
    for damage in DAMAGE:
        wrong = changed(changed(kernel(*of), WORD, word_with(of[0], **idle | damage)), WORD, lambda word: word | reserved)
        for finding in [*check(wrong).findings, *check(as_words(wrong)).findings]:
            for old, new in changed_words(finding):
                seen += 1
                before, after = (SmemDescriptor.decode(word, arch=of[0]) for word in (old, new))
                for name in ("swizzle", "leading_byte_offset", "stride_byte_offset", "base_offset"):
                    assert getattr(before, name) == getattr(after, name) or name in finding.repair, finding.repair
                assert not (old ^ new) & reserved or "bits 15:14 2 must be 0" in finding.repair, finding.repair
    assert seen


@pytest.mark.parametrize(("of", "number"), FAULTS)
def test_a_planted_fault_is_the_first_finding_and_its_repair_works(of, number, snapshot):
    right, _, scenario = list(faults(kernel(*of)))[number]
    report = check(scenario)
    assert facts(report.findings) == snapshot
    findings = [f for f in report.findings if f.severity is not Severity.NOTE]
    assert findings, "clean"
    first = findings[0]
    assert first.code in right.split(), report.text()
    assert CODES[first.code].slug
    assert first.fix or first.code in ("A101", "A107", "R505", "T202", "T207", "T211", "I602") or first.severity == "luck", report.text()
    if first.fix:
        path, old, new = first.fix
        place = path.replace("[", ".").replace("]", "")
        assert value_at(scenario, place) == number_of(old)
        assert check(changed(scenario, place, number_of(new))).codes == ()


def number_of(value):
    """Words are told in hex."""
    if isinstance(value, list):
        return [number_of(one) for one in value]
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def value_at(scenario, path):
    for part in path.split("."):
        scenario = scenario[int(part) if part.isdigit() else part]
    return scenario


@st.composite
def correct(draw):
    """A kernel as its author should have written it."""
    arch = draw(st.sampled_from(["sm_90a", "sm_100a"]))
    dtype = draw(st.sampled_from(["bf16", "f16", "tf32", "e4m3", "e5m2"]))
    transposes = BITS[dtype] == 16 or (arch != "sm_90a" and BITS[dtype] == 8)
    major = draw(st.sampled_from(["K", "MN"] if transposes else ["K"]))
    swizzle = draw(st.sampled_from(list(WIDTHS)))
    size, width = BITS[dtype] // 8, WIDTHS[swizzle]
    unit = max(width // size, 8)
    rows = draw(st.integers(1, max(1, 256 // unit))) * unit if major == "MN" else draw(st.integers(1, 32)) * 8
    steps = draw(st.integers(1, 8))
    k = steps * 32 // size
    if major == "K":
        k = max(k, -(-k * size // width) * width // size)
    stages = draw(st.integers(1, 3))
    base = 0x400 + 128 * draw(st.integers(0, 20))
    tile = rows * k * size
    if k > 256 or tile % 128 or base + stages * tile > 0x39000 or (k if major == "MN" else rows) * width % 128:
        return None
    at = (draw(st.integers(0, 40)), draw(st.integers(0, 40)))
    align = 16 // size
    at = (at[0] // align * align, at[1] // align * align)
    return kernel(arch, dtype, major, swizzle, rows, k, base=base, stages=stages, at=at, side="b" if rows > 64 or arch != "sm_90a" else "a")


@examples(150)
@given(correct())
def test_correct_kernels_raise_nothing(scenario):
    if scenario is not None:
        report = check(scenario)
        assert report.codes == (), report.text()
        assert report.ok


def test_findings_have_what_programs_need():
    scenario = changed(kernel(*KERNELS[0]), WORD, word_with("sm_90a", stride_byte_offset=512))
    one = check(scenario).findings[0]
    assert (one.code, one.severity, one.where) == ("D308", "wrong", "step[1].a.word")
    assert one.wrong == 64 * 128 // 8 * 7
    assert one.of == 64 * 128
    assert (one.first["block"], one.first["step"], one.first["row"], one.first["k"]) == (0, 0, 8, 0)
    assert one.first["meant"] == "X[m=8, k=0]"
    assert one.numbers == {"stride_byte_offset": [512, 1024]}
    found = json.loads(json.dumps(check(scenario).as_dict()))
    assert found["ok"] is False
    assert found["findings"][0]["repair"]["new"] == f"{kernel(*KERNELS[0])['step'][1]['a']['word']:#018x}"


def test_what_follows_from_an_earlier_finding_says_so():
    scenario = changed(kernel(*KERNELS[0]), "map.tm.box_dim", [128, 64])
    first, second = check(scenario).findings
    assert (first.code, first.where) == ("T202", "map.tm")
    assert (second.code, second.because) == ("R508", "T202")


def test_errors_that_cancel_are_luck():
    scenario = tomllib.loads(next(path for path in BUGS if path.stem.startswith("B12")).read_text())
    (found,) = (f for f in check(scenario).findings if f.severity == "luck")
    assert (found.code, "in one change (a and b: do what A105 says): if" in found.repair) == ("H801", True)
    scenario["buffer"]["sB"]["address"] = 0x4800
    assert "H801" not in check(scenario).codes
    for name, at in (("sA", 0x800), ("sB", 0x4800)):  # no single change makes these layouts right
        scenario["buffer"][name] |= {"address": at}
        scenario["buffer"][name]["layout"]["k"] = [[16, 1], [2, 32], [2, 16], [2, 64]]
    *_, found = check(scenario).findings
    assert (found.code, "in one change: if" in found.repair) == ("H801", True)


def test_a_layout_without_words_asks_for_one():
    scenario = kernel("sm_90a", "bf16", "K", "64B", 64, 64)
    del scenario["step"][1]["a"]["word"], scenario["step"][1]["a"]["k_add"]
    assert check(scenario).codes == ()
    scenario["step"][0] = {"op": "threads", "to": "s", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"}
    scenario["buffer"]["s"]["layout"] = {"swizzle": "none", "mn": [[64, 48]], "k": [[32, 1]]}
    assert check(scenario).codes == ("L402",)


@pytest.mark.parametrize(
    ("keys", "found"),
    [({"to": "s"}, ()), ({"to": "s", "load": True}, ("R507",)), ({"from": "s"}, ("R507",)), ({"from": "s", "load": True}, ("R507",))],
)
def test_threads_read_the_buffer_of_from_and_write_that_of_to(keys, found):
    """Nothing has written the buffer."""
    scenario = kernel("sm_90a", "bf16", "K", "64B", 64, 64)
    scenario["buffer"]["s"]["layout"] = {"swizzle": "none", "mn": [[64, 128]], "k": [[128, 1]]}
    threads = {"op": "threads", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"}
    scenario["step"] = [threads | keys]
    assert check(scenario).codes == found
    for more in ({"from": "s", "load": False}, {"from": "s", "to": "s"}):
        scenario["step"] = [threads | more]
        with pytest.raises(InputError, match="threads read the buffer of from: needs no to, and load = true or no load"):
            check(scenario)


@pytest.mark.parametrize(
    ("buffer", "said"),
    [
        ({"stages": 2}, "2 stages: needs stage_bytes, from one stage to the next$"),
        ({"stages": 2, "bytes": 8193}, "2 stages: needs stage_bytes, from one stage to the next; 8193 bytes are no equal parts$"),
        ({"stages": 0}, "stages = 0: needs 1 or more$"),
    ],
)
def test_stages_are_equal_parts_of_a_buffer_or_have_a_size(buffer, said):
    scenario = kernel("sm_90a", "bf16", "K", "64B", 64, 64)
    scenario["buffer"]["s"] = {"address": scenario["buffer"]["s"]["address"]} | buffer
    with pytest.raises(InputError, match=said):
        check(scenario)


LAID = {"k": {"mn": [[64, 128]], "k": [[128, 1]]}, "mn": {"mn": [[128, 1]], "k": [[64, 128]]}}


@pytest.mark.parametrize(("names", "axes"), [(("mn", "m"), ["m", "k"]), (("k", "k"), ["m", "k"]), (("mn", "k"), ["k", "m"])])
def test_the_contiguous_axis_of_a_tile_of_threads_may_have_the_tensors_name(names, axes):
    """The first axis of the tensor is M or N of the layout, the second one K; the tensor's names come first."""
    scenario = kernel("sm_90a", "bf16", "K", "64B", 64, 64)
    told = []
    for name in names:
        scenario["step"][0] = {"op": "threads", "to": "s", "tensor": "X", "axes": axes, "contiguous": name}
        scenario["buffer"]["s"]["layout"] = {"swizzle": "none"} | LAID[names[0]]
        told.append([str(f) for f in check(scenario).findings])
    assert told[0] == told[1]
    scenario["step"][0]["contiguous"] = "n"
    with pytest.raises(InputError, match="needs 'k' or 'mn', the axis of the layout that counts bytes"):
        check(scenario)


WRONG = {
    "an unknown key": ("major =", "mayor =", r":28: step\[1\]\.a\.mayor: not a key here; did you mean 'major'\?"),
    "a missing key": ('dtype = "bf16"\nmajor', "major", r"step\[1\]\.a: dtype is missing: needs a text"),
    "an unknown op": ('op = "mma"', 'op = "mna"', r":21: step\[1\]\.op: 'mna': needs one of .*did you mean 'mma'\?"),
    "an unknown buffer": ('start = "sA"', 'start = "sAA"', r":30: step\[1\]\.a\.start: 'sAA': there is no \[buffer.sAA\]; did you mean 'sA'\?"),
    "an unknown map": ('map = "tm"', 'map = "tn"', r":17: step\[0\]\.map: 'tn': there is no \[map.tn\]"),
    "a text for a number": ("m = 64\n", 'm = "64"\n', r":23: step\[1\]\.m: '64': needs a whole number"),
    "axes of no tensor": ('axes = ["m", "k"]', 'axes = ["m", "q"]', r":32: step\[1\]\.a\.meant\.axes: .*needs two axes of A \(m, k\)"),
    "axes that contradict": ("stride = { m = 128, k = 2 }", "stride = { m = 128, n = 2 }", r":5: tensor\.A\.stride: .*needs the same axes"),
    "another major-ness": ('major = "K"', 'major = "N"', r":28: step\[1\]\.a\.major: 'N': needs 'K'"),
    "no TOML": ("[tensor.A]", "[tensor.A", r"at line 2"),
    "an unknown architecture": ('"sm_90a"', '"sm_80"', ":1: arch = 'sm_80'"),
    "an unknown type": ('dtype = "bf16"\nmajor', 'dtype = "bf17"\nmajor', r":27: step\[1\]\.a\.dtype: 'bf17': not an element type"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_bad_files_are_a_sentence_with_the_line_and_the_key(what, tmp_path):
    old, new, says = WRONG[what]
    assert old in TOML
    file = tmp_path / "kernel.toml"
    file.write_text(TOML.replace(old, new, 1))
    with pytest.raises(InputError, match=says):
        check(file)
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 2
    assert result.stdout == ""
    as_json = tmp_path / "kernel.json"
    try:
        as_json.write_text(json.dumps(tomllib.loads(file.read_text()), indent=1))
    except tomllib.TOMLDecodeError:
        return
    with pytest.raises(InputError):
        check(as_json)


def test_other_things_are_no_scenarios(tmp_path):
    (tmp_path / "a.json").write_text('{"arch": "sm_90a",\n "arch": "sm_90a"}')
    (tmp_path / "b.json").write_text('{"arch": "sm_90a",\n nonsense}')
    (tmp_path / "c.json").write_bytes(b"\xff\xfe")
    (tmp_path / "d.json").write_text("[" * 100_000)
    for wrong in (
        tmp_path / "none.toml",
        tmp_path,
        *tmp_path.glob("*.json"),
        7,
        None,
        {},
        {"arch": "sm_90a", "step": 3},
        {"arch": "sm_90a", "tensor": []},
    ):
        with pytest.raises(InputError):
            check(wrong)


def test_the_command_line(tmp_path):
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(TOML)
    bad.write_text(TOML.replace("0x4000004000010000", "0x4000000800010000"))
    run = CliRunner()
    result = run.invoke(main, ["check", str(good)])
    assert (result.exit_code, result.stdout) == (0, "OK: nothing is wrong in the scenario\nno findings\n")
    result = run.invoke(main, ["check", str(bad)])
    assert result.exit_code == 1
    assert result.stdout.startswith("WRONG: 1 finding: D308 at step[1].a (mma)\n")
    said = one_line(result.stdout.partition("\n")[2])
    assert said.startswith(
        "D308 step[1].a (mma) stride_byte_offset = 128 B does not fit the tile wrong 3584 of 4096 elements (87.5%) first row 8, k 0 (K step 0): reads A[m=1, k=0] at 0x490"
    )
    assert "fix stride_byte_offset 128 must be 1024: 0x4000004000010000" in said
    result = run.invoke(main, ["check", str(bad), "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["findings"][0]["code"] == "D308"
    bad.write_text(bad.read_text() + '\n[expect]\nfindings = ["D308"]\n')
    result = run.invoke(main, ["check", str(good), str(bad)])
    assert result.exit_code == 0
    assert "1 finding" in result.stdout
    assert "as expected" in result.stdout
    assert run.invoke(main, ["check"]).exit_code == 2


AXIS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 64)), min_size=1, max_size=2)


@examples(60)
@given(AXIS, AXIS, st.sampled_from(["none", "32B", "128B"]))
def test_the_strides_that_l401_proposes_give_each_element_a_place(mn, k, swizzle):
    def codes(**axes):
        layout = {"swizzle": swizzle, "mn": [list(x) for x in mn], "k": [list(x) for x in k]} | axes
        return check({"arch": "sm_90a", "buffer": {"s": {"address": 0x400, "layout": layout}}}).findings

    found = [f for f in codes() if f.code == "L401"]
    for f in found:
        proposed = dict(re.findall(r"(mn|k) = (\[\[.*?\]\])", f.repair))
        assert proposed, f.repair
        assert "L401" not in [other.code for other in codes(**{axis: json.loads(text) for axis, text in proposed.items()})]


def test_every_key_has_a_meaning():
    told = json.dumps(json_schema())
    for name, table in (TABLES | STEPS | {"operand": Operand}).items():
        for key, of in keys_of(table).items():
            assert of.says, (name, key)
            assert json.dumps(of.says) in told, (name, key)


def test_the_schema_has_every_key():
    schema = json_schema()
    assert set(schema["properties"]) == set(keys_of(TABLES["scenario"]))
    steps = {s["properties"]["op"]["const"]: s for s in schema["properties"]["step"]["items"]["anyOf"]}
    assert set(steps) == set(STEPS)
    assert set(steps["mma"]["properties"]["a"]["properties"]) == set(keys_of(Operand))
    assert json.loads(CliRunner().invoke(main, ["check", "--schema"]).stdout) == schema


@pytest.mark.parametrize("seed", range(4 if is_night() else 2))
def test_damaged_scenarios_are_an_answer_or_a_sentence(seed):
    answers, sentences = said_of_damaged(SCENARIOS, seed, tries=300, places=3)
    assert answers > 20
    assert min(map(len, sentences)) > 20


def test_two_checks_of_one_scenario_are_equal_and_those_of_others_are_not():
    texts = TOML, TOML.replace('swizzle = "128B"', 'swizzle = "64B"')
    same, again, other = (check(tomllib.loads(text)) for text in (texts[0], texts[0], texts[1]))
    assert same == again
    assert same != other


@pytest.mark.parametrize(
    ("size", "code", "fix"),
    [
        (992, "", ""),
        (1000, "A103", "copy 992 bytes in bulk, and the last 8 bytes by ld.global and st.shared"),
        (1008, "X001", "copy 992 bytes in bulk, and the last 8 bytes"),
        (984, "A103", "bytes = 992"),
    ],
)
@pytest.mark.parametrize("at", [0, 24])
def test_a_bulk_copy_stays_in_its_tensor(size, code, fix, at):
    """The tensor has 1000 bytes after the place where the copy begins."""
    tensor = {"dtype": "bf16", "extent": {"k": 500 + at // 2}, "stride": {"k": 2}}
    step = {"op": "bulk", "to": "sA", "tensor": "A", "bytes": size, "global_offset": at}
    found = check({"arch": "sm_90a", "tensor": {"A": tensor}, "buffer": {"sA": {"address": 0x400, "bytes": 1024}}, "step": [step]}).findings
    assert [(f.code, f.repair.startswith(fix)) for f in found] == [(code, True)] * bool(code)


@pytest.mark.parametrize(
    ("at", "fix"), [(1000, "begin the copy inside"), (992, "copy the 8 bytes by ld.global"), (968, "copy 32 bytes: the array")]
)
def test_a_bulk_copy_at_the_end_of_its_tensor_is_told_what_is_left(at, fix):
    tensor = {"dtype": "bf16", "extent": {"k": 500}, "stride": {"k": 2}}
    step = {"op": "bulk", "to": "sA", "tensor": "A", "bytes": 64, "global_offset": at}
    (found,) = check(
        {"arch": "sm_90a", "tensor": {"A": tensor}, "buffer": {"sA": {"address": 0x400, "bytes": 1024}}, "step": [step]}
    ).findings
    assert (found.code, found.repair[: len(fix)]) == ("X001", fix)


def test_rows_of_a_tensor_may_have_padding():
    tensor = {"dtype": "bf16", "extent": {"m": 4, "k": 100}, "stride": {"m": 256, "k": 2}}
    step = {"op": "bulk", "to": "sA", "tensor": "A", "bytes": 1024}
    scenario = {"arch": "sm_90a", "tensor": {"A": tensor}, "buffer": {"sA": {"address": 0x400, "bytes": 1024}}, "step": [step]}
    assert not check(scenario).findings


BULK = {
    "arch": "sm_90a",
    "tensor": {"A": {"dtype": "bf16", "extent": {"k": 500}, "stride": {"k": 2}}},
    "buffer": {"sA": {"address": 0x400, "bytes": 1024}},
    "step": [{"op": "bulk", "to": "sA", "tensor": "A", "bytes": 64}],
}
BY_THREADS = {"op": "threads", "to": "s", "tensor": "X", "axes": ["m", "k"], "contiguous": "k"}
# One value of a right scenario is another one: what `check` says of it.
REFUSED = {
    "a pair of three": (KERNELS[5], "cta_group", 3, "step[1]: cta_group = 3: there are .cta_group::1 and .cta_group::2"),
    "a step of three": (KERNELS[5], "step.1.cta_group", 3, "step[1].cta_group = 3: there are .cta_group::1 and .cta_group::2"),
    "too many words": (KERNELS[0], ADDS, [16 * n for n in range(4097)], "step[1].a: 4097 words of 64 x 16 elements; a tile has at most 4,194,304"),
    "an alignment": (KERNELS[0], "buffer.s", {"base_align": 3, "bytes": 1 << 14}, "buffer.s.base_align = 3: needs a power of two"),
    "no alignment": (KERNELS[0], "buffer.s", {"base_align": 0, "bytes": 1 << 14}, "buffer.s.base_align = 0: needs a power of two"),
    "an xor": (KERNELS[0], "buffer.s.layout", {"swizzle": "128B", "mn": [[64, 128]], "k": [[128, 1]], "xor": "x"}, "buffer.s.layout.xor = 'x': needs 'address' or 'offset'"),
    "bytes of a map": (KERNELS[0], "map.tm", {"of": "X", "raw": "00"}, "map.tm.raw has 2 characters: needs the 128 bytes of the CUtensorMap as 256 hex digits"),
    "no tensor": (KERNELS[0], "map.tm.global_address", "Y", "scenario: map.tm.global_address: 'Y': there is no [tensor.Y]"),
    "an object": (KERNELS[0], "arch", object(), "<object> in a scenario: needs numbers, texts, lists and tables"),
    "scales": (KERNELS[0], "tensor.X.scale_blocks", ["m", "k"], "tensor.X.scale_blocks: elements of bf16; scale factors are bytes"),
    "no layout": (KERNELS[0], "step.0", BY_THREADS, "step[0]: buffer.s has no layout: needs what the software believes it is"),
    "a bulk copy to nowhere": (BULK, "step.0", {"op": "bulk", "tensor": "A", "bytes": 64}, "step[0]: to is missing: needs the name of a buffer (from, where it is read)"),
    "a negative place": (BULK, "step.0.global_offset", -16, "step[0].global_offset = -16: needs bytes from the tensor's beginning"),
    "other counts": (BULK, "step.0", BULK["step"][0] | {"offset": [0, 64, 128], "global_offset": [0, 64]}, "step[0]: offset has 3 entries and global_offset 2: needs one of each for every issue"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_cannot_be_is_refused_with_its_key(name):
    of, path, value, says = REFUSED[name]
    right = kernel(*of) if isinstance(of, tuple) else of
    scenario = right | {path: value} if "." not in path else changed(right, path, value)
    with pytest.raises(InputError) as caught:
        check(scenario)
    assert says in str(caught.value)
    assert check(right).codes == ()


WIDTH, HEIGHT = kernel(*KERNELS[0])["map"]["tm"]["global_dim"]
TOLD = {
    "33 bits": (KERNELS[5], "step.1.idesc", 1 << 32, ("I603",), "idesc = 0x100000000 has more than 32 bits", "a word of 32 bits"),
    "a negative word": (KERNELS[5], "step.1.idesc", -1, ("I603",), "idesc = -0x1 is negative", "a word of 32 bits"),
    "N": (KERNELS[5], "step.1.n", 1000, ("I601",), "N = 1000; kind f16 has N of 8 to 256 in steps of 8", "n = 256"),
    "N of M": (KERNELS[5], "step.1", lambda step: step | {"m": 256, "n": 24}, ("I601",), "N = 24; kind f16 has N of 16 to 256 in steps of 16", "n = 16"),
    "K": (KERNELS[5], "step.1.k", 48, ("I601", "R508"), "K = 48; kind f16 has K = 16, with .sp 32", "k = 16"),
    "two types": (KERNELS[0], "step.1.b", {**kernel(*KERNELS[0])["step"][1]["a"], "dtype": "e4m3"}, ("I602", "R508"), "no wgmma multiplies A bf16 and B e4m3",
                  "two f16, bf16 or tf32 operands, or e4m3/e5m2, s8/u8 or b1 on both sides"),
    "a generic address": (KERNELS[0], "step.1.a.start", 0x7F0000000400, ("D303",), "is not a .shared address", "__cvta_generic_to_shared of the pointer"),
    "a lost carry": (KERNELS[0], "step.1.a.start_offset", 0x40000, ("D304",), "does not fit the field", "an advance that stays in the window"),
    "another tensor": (KERNELS[0], "map.tm.global_offset", 1 << 20, ("T207",), "the map begins at 0x10000100000", "global_address = 0x10000000000"),
    "a row too many": (KERNELS[0], "map.tm.global_dim", [WIDTH, HEIGHT + 1], ("T207",), f"the map of extents ({WIDTH}, {HEIGHT + 1}) ends", f"extents of m {HEIGHT}, k {WIDTH}"),
    **{
        f"a row of {KERNELS[n][1]} too many": (KERNELS[n], "map.tm.global_dim", [width, height + 1], ("T207",), f"({width}, {height + 1}) ends {pitch} bytes after X", "extents of m ")
        for n in (1, 2, 4, 7)
        for tm in (kernel(*KERNELS[n])["map"]["tm"],)
        for (width, height), (pitch,) in ((tm["global_dim"], tm["global_strides"]),)
    },
    "other elements": (KERNELS[0], "map.tm", {"of": "X", "raw": "00" * 128}, ("T211", "T205"), "the map has elements of 8 bits; X has bf16, 16 bits", "data_type = bf16"),
    "half an instruction": (("sm_100a", "tf32", "MN", "128B", 128, 64), "step.1.m", 128, ("I602",), "the operand is MN-major tf32 with swizzle 128B", "layout code 1 and a tile in 32-byte atoms"),
    **{
        f"a bulk copy into {swizzle}": (BULK, "buffer.sA.layout", {"swizzle": swizzle, "mn": [[8, 128]], "k": [[128, 1]]}, ("R501",),
                                        f"in {lines - 1} of {lines} lines the 16 B chunks are in other places", "a tensor copy (cp.async.bulk.tensor)")
        for swizzle, lines in (("128B", 8), ("64B", 4), ("32B", 2))
    },
    "a bulk copy off 16 B": (BULK, "step.0.offset", [0, 8], ("A101",), "shared address 0x408 is 8 B past a multiple of 16 B", "place sA at 0x410"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_a_value_that_is_wrong_is_told_with_the_one_that_is_right(name):
    of, path, value, codes, says, fix = TOLD[name]
    right = kernel(*of) if isinstance(of, tuple) else of
    report = check(changed(right, path, value))
    first = report.findings[0]
    assert (report.codes[: len(codes)], says in first.message, first.repair.startswith(fix)) == (codes, True, True), report.text()
    if path != "step.1.m":
        assert check(right).codes == ()


def test_numbers_and_paths_of_other_libraries_are_a_scenarios(tmp_path):
    scenario = kernel(*KERNELS[0])
    assert check(changed(scenario, ADDS, np.array)) == check(scenario)
    assert str(check(scenario)) == check(scenario).text()
    with pytest.raises(InputError, match=re.escape(f"arch = '{tmp_path}'")):
        check(scenario | {"arch": tmp_path})
    with pytest.raises(InputError, match="arch = 'ff'"):
        check(scenario | {"arch": b"\xff"})


FITS = {"dtype": "bf16", "extent": {"m": 64, "k": 16}, "stride": {"m": 32, "k": 2}}


def of_tensor(**given):
    return check({"arch": "sm_90a", "tensor": {"X": FITS | given}})


@pytest.mark.parametrize(("key", "first", "unit"), [("extent", 1, "elements"), ("stride", 0, "bytes")])
@pytest.mark.parametrize("axis", ["m", "k"])
def test_extents_and_strides_are_whole_numbers_from_their_first_on(key, first, unit, axis):
    """One element may lie at any stride, also at none."""
    assert of_tensor(**{key: FITS[key] | {axis: first}}).codes == ()
    for bad in (first - 1, -5, 1.5, True, "1", None, [1]):
        with pytest.raises(InputError, match=rf"tensor\.X\.{key}.*(needs a whole number of {unit} from {first} on|whole number)"):
            of_tensor(**{key: FITS[key] | {axis: bad}})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stride": {"m": 32}}, "has m, extent has m, k: needs the same axes"), ({"stride": {"m": 32, "k": 2, "n": 4}}, "has m, k, n, extent has m, k"),
        ({"stride": {"m": 32, "k": 1}}, "k = 1: strides are bytes, and bf16 has 2"), ({"stride": {"m": 1, "k": 32}}, "m = 1: strides are bytes"),
        ({"stride": {"m": 32, "k": 1}, "extent": {"m": 64, "k": 1}}, ""), ({"stride": {"m": 32, "k": 0}}, ""), ({"dtype": "e4m3", "stride": {"m": 32, "k": 1}}, ""),
        ({"dtype": "e2m1", "stride": {"m": 32, "k": 1}}, ""), ({"dtype": "f32", "stride": {"m": 64, "k": 3}}, "k = 3: strides are bytes, and f32 has 4"),
        ({"walks": {"n": [[2, 64, 0, 1]]}}, "n: needs axes of X (m, k)"), ({"walks": {"m": [[2, 64, 0, 1]]}}, ""), ({"walks": {"m": [[2, 0, 0, 0]]}}, ""),
        *(({"walks": {"m": bad}}, "needs [[indices, bytes from one to the next") for bad in
          ([], [[2, 64, 0]], [[0, 64, 0, 1]], [[2, -1, 0, 1]], [[2, 64, -1, 1]], [[2, 64, 2, 1]], [[2, 64, 0, True]], 5)),
    ],
)  # fmt: skip
def test_a_tensor_has_one_stride_for_each_axis_and_no_elements_that_overlap(given, said):
    if not said:
        assert of_tensor(**given).codes == ()
        return
    with pytest.raises(InputError) as caught:
        of_tensor(**given)
    assert said in str(caught.value)
