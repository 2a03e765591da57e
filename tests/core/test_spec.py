"""The tables themselves: codes are unique, rows are cited, grades rest on traces that exist, finding codes keep their
meaning.
"""

import json
import re

import pytest

from places import ROOT
from smemsim import InstrDescriptor, SmemDescriptor, dot_product, operand_addresses
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.spec.architectures import ARCHITECTURES, MACHINES
from smemsim.core.spec.disputes import CUTE_DSL_BITS, CUTE_DSL_DISPUTES
from smemsim.core.spec.errata import ERRATA
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import CODES
from smemsim.core.spec.formats import FORMATS, element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.rule_texts import RULE_TOPICS
from smemsim.core.spec.smem_descriptor import SM90_SMEM_DESC, SM100_SMEM_DESC, layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.spec.tensor_map import DATA_TYPES, SWIZZLES, TensorMapSwizzle, corner_bits

GOLDEN = ROOT / "golden"
SUITES = {p.parent.name for p in (GOLDEN / "sm_90a").glob("*/manifest.json")}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=str)

# The published codes: a number keeps its slug and its severity for ever.
PUBLISHED = """
A101 destination-misaligned trap    A102 stage-misaligned trap        A103 bulk-size trap            A104 map-misaligned trap
A105 pattern-phase wrong            A106 alignment-not-guaranteed luck                               A107 outside-buffer wrong
A108 buffers-overlap note
T201 box-range trap                 T202 inner-exceeds-swizzle trap   T203 inner-not-16 trap         T204 global-misaligned trap
T205 map-refused trap               T206 inner-not-contiguous wrong   T207 map-is-not-tensor wrong   T208 inner-below-swizzle note
T209 fill-where-data wrong          T210 transaction-bytes trap       T211 element-width wrong       T212 map-traps trap
T213 argument-ignored wrong         T214 elements-overlap note        T215 beyond-the-documents luck T216 store-overrun note
T217 sources-disagree note          T218 one-direction note           T219 always-fill note          T220 all-zero trap
T221 null-address note              T222 partial-step note            D301 field-in-bytes wrong
D302 swizzle-code wrong             D303 low-bits-lost wrong          D304 start-overflow wrong      D305 fixed-bits note
D306 base-offset wrong              D307 bytes-alias wrong            D308 stride-value wrong        D309 strides-swapped wrong
D310 field-unused note              L401 layout-aliases wrong         L402 not-representable trap    R501 swizzle-mismatch wrong
R502 k-advance wrong                R503 panel-jump wrong             R504 block-advance wrong       R505 transposed wrong
R507 unwritten wrong                R508 operand-mismatch wrong       L403 descriptor-found note           R510 never-read note           P901 bank-conflicts note
I601 shape trap                     I602 type-major trap
I603 idesc wrong                    I604 lane-split wrong             I605 copy-shape wrong          S701 scale-layout wrong
S702 scale-slice wrong              H801 errors-cancel luck           H802 square-hides luck         H803 one-atom-hides luck
X001 out-of-bounds-access trap      X002 misaligned-access trap       X003 missing-proxy-fence wrong X004 read-before-arrival wrong
X005 overwritten-in-flight wrong    X006 hang trap                    X007 registers-in-flight wrong X008 missing-barrier wrong
X019 own-rank note
X009 tensor-memory-allocation trap  X010 barrier-misuse trap          X011 divergence trap           X012 tensor-memory-order wrong
X013 assertion trap                 X014 missing-wgmma-fence wrong    X015 illegal-instruction trap X016 issued-by-many wrong
X017 product-lost wrong              X020 answer-decides wrong
X030 schedule-decides wrong
P902 line-conflicts note             P903 uncoalesced note              P904 idle-lanes note
P905 counter-limit wrong
P101 ring-held-back note             P102 needless-wait note                P103 wait-never-waits note
"""


def test_finding_codes_are_those_published():
    published = {number: (slug, severity) for number, slug, severity in re.findall(r"([A-Z]\d{3}) (\S+) (\w+)", PUBLISHED)}
    present = {number: (code.slug, str(code.severity)) for number, code in CODES.items()}
    assert {"A107", "D301", "D302", "D305", "D306", "D307", "D310", "I602"} <= present.keys() <= published.keys()
    assert present == {number: published[number] for number in present}
    assert all(number == code.number for number, code in CODES.items())


@pytest.mark.parametrize("place", ["wgmma_code", "tcgen05_code"])
def test_a_swizzle_code_means_one_mode(place):
    codes = [getattr(mode, place) for mode in MODES.values() if getattr(mode, place) is not None]
    assert len(codes) == len(set(codes))
    assert min(codes) == 0


def test_layout_codes_are_those_of_the_manuals():
    assert {c: str(s) for c, s in layout_codes(SM90_SMEM_DESC).items()} == {0: "none", 1: "128B", 2: "64B", 3: "32B"}
    wanted = {0: "none", 1: "128B_ATOM_32B", 2: "128B", 4: "64B", 6: "32B"}
    assert {c: str(s) for c, s in layout_codes(SM100_SMEM_DESC).items()} == wanted


def test_the_drivers_swizzles_name_the_same_modes():
    assert set(SWIZZLES.values()) == set(MODES)
    for code in TensorMapSwizzle:
        assert code.name == "SWIZZLE_" + str(SWIZZLES[code]).upper()


@each_mode
def test_the_period_is_the_smallest_shift_that_the_swizzle_commutes_with(mode):
    def commutes(by):
        return all(swizzle(a + by, 0, mode.mask, mode.shift) == swizzle(a, 0, mode.mask, mode.shift) + by for a in range(0, 4096, 16))

    assert next(by for by in range(16, 4097, 16) if commutes(by)) == mode.period


@pytest.mark.parametrize("mode", [mode for mode in MODES.values() if mode.cute], ids=lambda mode: mode.cute)
def test_cutes_swizzle_is_the_same_xor(mode):
    """CuTe's Swizzle<B, M, S>: B bits from M + S on are XORed into those from M on."""
    bits, base, shift = map(int, re.findall(r"\d+", mode.cute))
    for address in range(0, 4096, 16):
        cute = address ^ ((address >> shift) & (((1 << bits) - 1) << base))
        assert swizzle(address, 0, mode.mask, mode.shift) == cute


def test_one_mode_moves_halves_of_chunks_which_no_swizzle_of_cute_does():
    assert [str(name) for name, mode in MODES.items() if not mode.cute] == ["128B_ATOM_32B_FLIP_8B"]


@each_mode
def test_swizzled_modes_span_whole_atoms(mode):
    assert mode.chunks * 16 == mode.width
    assert mode.mask << mode.shift < 128
    if mode.mask:
        assert mode.width % (1 << mode.shift) == 0


def test_data_types_have_the_formats_of_the_measured_table():
    """Driver types 0 … 12 in the map's format field; types 11 and 12 set the tf32 bit besides."""
    assert [DATA_TYPES[t].format_code for t in list(DATA_TYPES)[:13]] == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8]
    assert [int(t) for t, row in DATA_TYPES.items() if row.to_tf32] == [11, 12]
    assert [int(t) for t, row in DATA_TYPES.items() if not row.sm90] == [13, 14, 15]
    assert len({(row.format_code, row.to_tf32) for row in DATA_TYPES.values()}) == len(DATA_TYPES) == 16


def test_a_data_type_name_means_one_type_of_its_width():
    names = [(name, row) for row in DATA_TYPES.values() for name in row.names]
    assert len({name for name, _ in names}) == len(names)
    for name, row in names:
        if name in FORMATS:
            assert FORMATS[name].bits == row.bits


def test_nan_fill_is_7ff7_in_every_16_bits_of_the_types_that_take_it():
    for row in DATA_TYPES.values():
        assert row.nan_fill == (b"\xf7\x7f" * (row.bits // 16) if 6 <= row.code <= 12 else b"")


def test_corners_of_all_axes_fit_their_half_word():
    assert [corner_bits(rank) * (rank - 2) for rank in (3, 4, 5)] == [16, 16, 15]


def test_formats_have_their_own_widths_and_unique_aliases():
    widths = {"f64": 64, "tf32": 32, "bf16": 16, "e4m3": 8, "ue8m0": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4, "s8": 8, "u64": 64, "b1": 1}
    assert {name: FORMATS[name].bits for name in widths} == widths
    aliases = [alias for f in FORMATS.values() for alias in (f.name, *f.numpy_names)]
    assert len(set(aliases)) == len(aliases)
    assert all(element_format(alias) is f for f in FORMATS.values() for alias in (f.name, *f.numpy_names))


def test_every_row_is_cited():
    for table in (SM90_SMEM_DESC, SM100_SMEM_DESC):
        assert all(field.source for field in table.fields.values())
    rows = [*MODES.values(), *ARCHITECTURES.values(), *RULES.values()]
    assert all(row.source.strip() for row in rows)
    assert RULES["tensor_map.bits"].traces  # one measured rule stands for every row of the tensor map's table


def test_every_trace_that_a_source_names_exists():
    sources = [row.source for row in (*MODES.values(), *ARCHITECTURES.values())]
    named = {name for s in sources for group in re.findall(r"traces? ([a-z_0-9, ]+)", s) for name in re.split(r",\s*", group)}
    assert named
    assert named <= SUITES


@each_rule
def test_measured_means_a_trace_of_that_architecture(rule):
    measured = {arch for arch, grade in rule.grades.items() if grade is Grade.MEASURED}
    assert measured <= {"sm_90a"}
    assert bool(rule.traces) == bool(measured)
    assert set(rule.traces) <= SUITES
    for suite in rule.traces:
        assert json.loads((GOLDEN / "sm_90a" / suite / "manifest.json").read_text())["arch"] == "sm_90a"


@each_rule
def test_a_rule_is_graded_on_known_architectures_and_says_something(rule):
    assert rule.grades
    assert rule.grades.keys() <= MACHINES.keys()
    assert RULES[rule.name] is rule
    assert str(rule).startswith(f"{rule.name}: {rule.statement} (")
    assert all(f"{arch} {grade}" in str(rule) for arch, grade in rule.grades.items())


def test_every_rule_has_its_words_in_one_topic():
    assert sorted(name for topic in RULE_TOPICS for name in topic.rules) == sorted(RULES)


@pytest.mark.parametrize(("rule", "major", "fields", "at"), [
    ("operand.k_major", "K", {"start_address": 0x400, "stride_byte_offset": 1024}, (9, 8)),
    ("operand.mn_major", "MN", {"start_address": 0, "leading_byte_offset": 2048, "stride_byte_offset": 1024}, (64, 9)),
    ("operand.swizzle", "K", {"start_address": 0x420, "stride_byte_offset": 1024}, (0, 0)),
    ("operand.swizzle", "K", {"start_address": 0x420, "stride_byte_offset": 1024}, (1, 0)),
    ("operand.any_start", "K", {"start_address": 0x460, "stride_byte_offset": 1024}, (0, 24)),
])  # fmt: skip
def test_the_example_of_an_operand_rule_has_the_address_that_is_computed(rule, major, fields, at):
    word = SmemDescriptor(arch="sm_90a", swizzle="128B", **fields).word
    addresses = operand_addresses(word, arch="sm_90a", dtype="bf16", major=major, rows=128, k=32)
    assert re.search(rf"(moves it to|read at) {int(addresses[at]):#x}\b", RULES[rule].example)


@pytest.mark.parametrize(("rule", "arch", "kind", "dtype", "one", "last", "d"), [
    ("arithmetic.wgmma", "sm_90a", "wgmma", "bf16", 0x3F80, (0x3980, 0x3900), "terms 1, -1 and 2^-25 give 2^-25"),
    ("arithmetic.wgmma", "sm_90a", "wgmma", "bf16", 0x3F80, (0x3900, 0x3900), "terms 1, -1 and 2^-26 give 0"),
    ("arithmetic.tcgen05", "sm_100a", "f8f6f4", "e4m3", 0x38, (0x04, 0x04), "terms 1, -1 and 2^-14 give 2^-14"),
    ("arithmetic.tcgen05", "sm_90a", "wgmma", "e4m3", 0x38, (0x04, 0x04), "wgmma gives 0"),
])  # fmt: skip
def test_the_example_of_a_sum_has_the_result_that_is_computed(rule, arch, kind, dtype, one, last, d):
    sign = 1 << element_format(dtype).bits - 1
    rest = [0] * (256 // element_format(dtype).bits - 3)
    a, b = [one, one, last[0], *rest], [one, one | sign, last[1], *rest]
    found = dot_product(a, b, arch=arch, kind=kind, a_type=dtype, b_type=dtype, d_type="f32").d
    power = re.search(r"give 2\^(-\d+)", d)
    assert int(found) == (127 + int(power[1]) << 23 if power else 0)
    assert d.lower() in RULES[rule].example.lower()


def test_every_trace_is_evidence_for_some_rule():
    assert {suite for rule in RULES.values() for suite in rule.traces} == SUITES


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda e: e.topic)
def test_an_erratum_says_who_differs_and_names_a_trace_that_exists(erratum):
    """Without a trace it is about Blackwell or a compiler, so that nobody takes it for measured; a second trace stands
    in the sentence.
    """
    assert [e.topic for e in ERRATA].count(erratum.topic) == 1
    assert erratum.document
    assert erratum.says
    assert erratum.but
    assert {name for name in (erratum.trace, *re.findall(r"`(\w+)`", erratum.but)) if name} <= SUITES
    if erratum.document == "none":
        assert erratum.trace  # what no document says must have been seen
        assert erratum.says in ("-", "opaque")


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_trace_says_where_it_comes_from(suite):
    manifest = json.loads((GOLDEN / "sm_90a" / suite / "manifest.json").read_text())
    assert manifest["suite"] == suite
    assert manifest["device"]["gpu"] == "NVIDIA H200"
    assert {"driver", "captured_utc"} <= manifest["device"].keys()
    # the tools that write a suite of another name
    others = {"access_lines": "counter_lines"} | dict.fromkeys(("lanes_at_barriers", "exits_at_cluster_barriers"), "lane_barriers")
    tool = others.get(suite, suite)
    assert tool in manifest["source"]["command"] or f"{manifest['kind']}_suite.py" in manifest["source"]["command"]
    if manifest["kind"] == "smem_dump":  # holds its kernel instead
        assert manifest["source"]["compiler"]
        assert manifest["arrays"]["kernel_image"]["shape"][0] > 1000
    else:
        assert manifest["device"].get("nvcc") or manifest["source"]["ptxas"]
        assert manifest["source"]["files"]


def test_absolute_lbo_exists_on_sm_103a_only():
    assert [name for name, arch in ARCHITECTURES.items() if arch.absolute_lbo] == ["sm_103a"]
    assert list(RULES["operand.absolute_lbo"].grades) == ["sm_103a"]
    assert Swizzle.B128_ATOM_32B not in layout_codes(SM90_SMEM_DESC).values()
    assert "sm_90a" not in RULES["operand.atom_32b"].grades


@pytest.mark.parametrize("of", CUTE_DSL_BITS)
def test_bits_that_only_cute_dsl_names_are_reserved_here_and_noted_where_they_are_set(of):
    for bit in CUTE_DSL_BITS[of]:
        if of in ARCHITECTURES:
            word = SmemDescriptor(arch=of, start_address=1024, stride_byte_offset=1024, swizzle="128B").word
            said = SmemDescriptor.decode(word | 1 << bit, arch=of).problems()
        else:
            word = InstrDescriptor(kind=of, m=128, n=128).word
            said = InstrDescriptor.decode(word | 1 << bit, kind=of).problems()
        assert any("reserved" in one.message for one in said), (of, bit)
        assert any(f"bit {bit} " in dispute.other for dispute in CUTE_DSL_DISPUTES.values())
