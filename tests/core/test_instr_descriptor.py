"""The 32-bit instruction descriptor: published words, round trips over legal words, and the rules by name."""

import itertools
import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from smemsim import InputError, InstrDescriptor, Severity
from smemsim.cli import main
from smemsim.core.spec.instr_descriptor import MAX_SHIFTS
from smemsim.core.spec.tcgen05 import KINDS, SCALE_TYPES_OF_BLOCK, scale_modes, shapes_of
from smemsim.core.words.instr import kinds_that_fit
from strategies import examples

# fmt: off
# Published and compiled words: kind, word, what they mean. Triton's lit tests, CuTe DSL and Triton kernels compiled for
# sm_100a, unit tests.
WORDS = [
    ("f16",      0x08410010, {"m": 128, "n": 256, "a_type": "f16", "b_type": "f16", "d_type": "f32", "a_major": "K", "b_major": "MN"}),
    ("tf32",     0x08100910, {"m": 128, "n": 64, "a_type": "tf32", "b_type": "tf32", "d_type": "f32", "k": 8}),
    ("i8",       0x08200020, {"m": 128, "n": 128, "a_type": "u8", "b_type": "u8", "d_type": "s32", "saturate": False}),
    ("i8",       0x082004A0, {"m": 128, "n": 128, "a_type": "s8", "b_type": "s8", "d_type": "s32", "saturate": False, "k": 32}),
    ("i8",       0x082004A8, {"m": 128, "n": 128, "a_type": "s8", "b_type": "s8", "d_type": "s32", "saturate": True}),
    ("f16",      0x08200010, {"m": 128, "n": 128, "a_type": "f16", "b_type": "f16", "d_type": "f32", "k": 16}),
    ("f8f6f4",   0x08200010, {"m": 128, "n": 128, "a_type": "e4m3", "b_type": "e4m3", "d_type": "f32", "k": 32}),
    ("f16",      0x08200490, {"m": 128, "n": 128, "a_type": "bf16", "b_type": "bf16", "a_major": "K", "b_major": "K"}),
    ("f16",      0x08218490, {"m": 128, "n": 128, "a_type": "bf16", "b_type": "bf16", "a_major": "MN", "b_major": "MN"}),
    ("f16",      0x08210490, {"m": 128, "n": 128, "a_type": "bf16", "a_major": "K", "b_major": "MN"}),
    ("f16",      0x04118490, {"m": 64, "n": 64, "a_type": "bf16", "a_major": "MN", "b_major": "MN"}),
    ("tf32",     0x08200910, {"m": 128, "n": 128, "a_type": "tf32", "b_type": "tf32"}),
    ("f16",      0x10200490, {"m": 256, "n": 128, "a_type": "bf16", "b_type": "bf16"}),
    ("f16",      0x08100490, {"m": 128, "n": 64, "a_type": "bf16"}),
    ("f16",      0x04200000, {"m": 64, "n": 128, "a_type": "f16", "b_type": "f16", "d_type": "f16"}),
    ("mxf8f6f4", 0x08A01400, {"m": 128, "n": 128, "a_type": "e4m3", "b_type": "e2m1", "scale_type": "ue8m0", "a_sf_id": 0, "b_sf_id": 0}),
    ("mxf8f6f4", 0x28A01410, {"m": 128, "n": 128, "a_type": "e4m3", "b_type": "e2m1", "scale_type": "ue8m0", "a_sf_id": 1, "b_sf_id": 1}),
    ("mxf8f6f4", 0x08A10280, {"m": 128, "n": 128, "a_type": "e2m1", "b_type": "e4m3", "b_major": "MN", "a_sf_id": 0, "b_sf_id": 0}),
    ("mxf8f6f4", 0x28A10290, {"a_type": "e2m1", "b_type": "e4m3", "b_major": "MN", "a_sf_id": 1, "b_sf_id": 1}),
    ("mxf8f6f4", 0x48A102A0, {"a_type": "e2m1", "b_type": "e4m3", "b_major": "MN", "a_sf_id": 2, "b_sf_id": 2}),
    ("mxf8f6f4", 0x68A102B0, {"a_type": "e2m1", "b_type": "e4m3", "b_major": "MN", "a_sf_id": 3, "b_sf_id": 3}),
]

# rule, kind, word's fields, what is known of the instruction, code, field, a piece of the sentence
BROKEN = [
    ("types",            "f16",      0x08A01400,                              {}, "I602", "b_type", "b_type = 5"),
    ("types",            "i8",       136321696,                               {}, "I602", "a_type", "a_type = 5"),
    ("d_follows_inputs", "f16",      {"a_type": "bf16", "b_type": "bf16", "d_type": "f16"}, {}, "I602", "d_type", "needs f16 inputs"),
    ("qualifiers",       "mxf4",     {},                                      {"ws": True}, "I601", "kind", "no .ws"),
    ("qualifiers",       "f16",      {},                                      {"ws": True, "cta_group": 2}, "I601", "cta_group", "single CTA"),
    ("qualifiers",       "mxf4",     {"k": 96, "sparsity": True},             {}, "I601", "k_size", "dense A only"),
    ("shape",            "f16",      {"m": 192},                              {}, "I601", "m", "M = 192"),
    ("shape",            "f16",      {"m": 64},                               {"cta_group": 2}, "I601", "m", "M = 128 or 256"),
    ("shape",            "f16",      {"m": 32},                               {"ws": False}, "I601", "m", "M = 32"),
    ("shape",            "mxf8f6f4", {"m": 256},                              {"cta_group": 1}, "I601", "m", "M = 128"),
    ("shape",            "mxf8f6f4", {"m": 128, "sparsity": True},            {"cta_group": 2}, "I601", "m", "M = 256"),
    ("shape",            "f16",      {"n": 0},                                {}, "I601", "n", "N = 0"),
    ("shape",            "f16",      {"n": 8},                                {"cta_group": 2}, "I601", "n", "16 to 256 in steps of 16"),
    ("shape",            "i8",       {"n": 40},                               {}, "I601", "n", "steps of 16"),
    ("shape",            "i8",       {"n": 48},                               {"cta_group": 2}, "I601", "n", "32 to 256 in steps of 32"),
    ("shape",            "f16",      {"n": 32},                               {"ws": True}, "I601", "n", "64, 128, 256"),
    ("shape",            "f16",      {"n": 256, "sparsity": True},            {"ws": True}, "I601", "n", "64, 128"),
    ("targets",          "i8",       {},                                      {"arch": "sm_103a"}, "I601", "kind", "sm_103a"),
    ("targets",          "mxf4",     {"k": 96},                               {"arch": "sm_100a"}, "I601", "k_size", "K = 96"),
    ("integers_only",    "f16",      0x08200498,                              {}, "I603", "saturate", "only integers"),
    ("integers_only",    "i8",       {"negate_b": True},                      {}, "I603", "negate_b", "cannot be negated"),
    ("majors",           "f16",      {"a_major": "MN"},                       {"a_source": "tensor"}, "I602", "transpose_a", "tensor memory"),
    ("majors",           "tf32",     {"a_major": "MN"},                       {"swizzle_a": "128B"}, "I602", "transpose_a", "128B_ATOM_32B"),
    ("majors",           "tf32",     {"b_major": "MN"},                       {"swizzle_b": "none"}, "I602", "transpose_b", "128B_ATOM_32B"),
    ("majors",           "tf32",     {"b_major": "MN"},                       {"swizzle_b": "none", "a_source": "tensor"}, "I602", "transpose_b", "128B_ATOM_32B"),
    ("majors",           "f16",      {"b_major": "MN"},                       {"swizzle_b": "128B_ATOM_32B"}, "I602", "transpose_b", "32-byte atoms"),
    ("majors",           "tf32",     {},                                      {"swizzle_b": "128B_ATOM_32B"}, "I602", "transpose_b", "32-byte atoms"),
    ("transposed_bytes", "f8f6f4",   {"b_major": "MN", "n": 24},              {"cta_group": 1}, "I601", "n", "16 to 256"),
    ("transposed_bytes", "f8f6f4",   {"b_major": "MN", "n": 48},              {"cta_group": 2}, "I601", "n", "32 to 256 in steps of 32"),
    ("shape",            "mxf4",     {"k": 96, "n": 24},                      {"cta_group": 1}, "I601", "n", "steps of 16"),
    ("selector",         "f8f6f4",   {"sparsity": True, "sparsity_selector": 1}, {}, "I603", "sparsity_selector", "has 0"),
    ("selector",         "f16",      {"sparsity": True, "sparsity_selector": 2}, {}, "I603", "sparsity_selector", "has 0 or 1"),
    ("ashift",           "f16",      {"m": 64},                               {"ashift": True}, "I601", "m", ".ashift"),
    ("ashift",           "f16",      {},                                      {"ashift": True, "a_source": "shared"}, "I603", "a_source", ".ashift"),
    ("scales",           "f16",      {},                                      {"scale_vec": "1X"}, "I603", "scale_vec", "no scale factors"),
    ("scales",           "mxf4",     {},                                      {"scale_vec": "4X"}, "I603", "scale_vec", "has 2X"),
    ("scales",           "mxf4",     {"scale_type": "ue4m3"},                 {}, "I603", "scale_type", "has ue8m0"),
    ("scales",           "mxf8f6f4", {"scale_type": "ue4m3"},                 {}, "I603", "scale_type", "has ue8m0"),
    ("scales",           "mxf4nvf4", {"scale_type": "ue4m3"},                 {"scale_vec": "block32"}, "I603", "scale_type", "has ue8m0"),
    ("scales",           "mxf4",     {"a_sf_id": 1},                          {}, "I603", "a_sf_id", "0 or 2"),
    ("scales",           "mxf4nvf4", {"b_sf_id": 2, "scale_type": "ue4m3"},   {"scale_vec": "4X"}, "I603", "b_sf_id", "has 0"),
]
# fmt: on


@pytest.mark.parametrize(("kind", "word", "meaning"), WORDS, ids=lambda v: f"{v:#010x}" if isinstance(v, int) else str(v)[:24])
def test_published_words_mean_what_their_sources_say(kind, word, meaning):
    d = InstrDescriptor.decode(word, kind=kind)
    assert {name: getattr(d, name) for name in meaning} == meaning
    assert d.encode() == word
    assert eval(repr(d)).word == word
    assert not any(f.severity in (Severity.TRAP, Severity.WRONG) for f in d.problems())
    assert kind in kinds_that_fit(word)


def test_one_word_means_two_things():
    """0x08200010 is f16 under kind f16 and e4m3 under kind f8f6f4: only the instruction tells."""
    assert kinds_that_fit(0x08200010) == ["f16", "f8f6f4"]


@pytest.mark.parametrize(("rule", "kind", "fields", "known", "code", "where", "text"), BROKEN)
def test_every_rule_names_the_value_and_what_is_wanted(rule, kind, fields, known, code, where, text):
    d = InstrDescriptor.decode(fields, kind=kind) if isinstance(fields, int) else InstrDescriptor(kind=kind, **fields)
    found = [f for f in d.problems(**known) if f.severity in (Severity.TRAP, Severity.WRONG)]
    mine = [f for f in found if f.code == code and f.where == where and text in f"{f.message}; {f.repair}"]
    assert len(mine) == 1, found
    assert mine[0].because
    assert rule in {r.name for r in smemsim.INSTR_RULES}


def test_every_rule_has_a_grade_and_none_is_measured():
    assert {r.name for r in smemsim.INSTR_RULES} >= {row[0] for row in BROKEN}
    for r in smemsim.INSTR_RULES:
        assert r.text
        assert r.source
        assert r.grade in (smemsim.Grade.DOCUMENTED, smemsim.Grade.COMPILED)
        assert "measured" not in str(r)


def legal_fields(kind):
    """Every field of a kind and the values it may have, in some instruction."""
    row = KINDS[kind]
    fields = {"a_type": list(row.a_types.values()), "b_type": list(row.b_types.values()), "d_type": list(row.d_types.values())}
    if kind != "i8":
        fields |= {"negate_a": [False, True], "negate_b": [False, True]}
    if row.transposable:
        fields |= {"a_major": ["K", "MN"], "b_major": ["K", "MN"]}
    if row.block_scaled:
        modes = scale_modes(row, wide_k=False)
        fields["scale_type"] = sorted({t for mode in modes for t in SCALE_TYPES_OF_BLOCK[mode.block]})
        fields["a_sf_id"] = fields["b_sf_id"] = sorted({i for mode in modes for i in mode.ids})
    else:
        fields["max_shift"] = list(MAX_SHIFTS)
    if kind == "i8":
        fields["saturate"] = [False, True]
    return fields


def shapes(kind):
    """(m, n, sparsity, k) that exist for a kind."""
    row = KINDS[kind]
    for sparse, wide in itertools.product((False, True), (False, True)):
        found = {(m, n) for s in shapes_of(row, cta_group=None, ws=None, sparse=sparse, wide_k=wide) for m in s.m for n in s.n}
        for m, n in sorted(found):
            yield {"m": m, "n": n, "sparsity": sparse, "k": 96 if wide else row.k * (1 + sparse)}


@pytest.mark.parametrize("kind", KINDS)
def test_all_legal_shapes_and_all_legal_fields_survive_the_word(kind):
    fields = legal_fields(kind)
    base = {name: values[0] for name, values in fields.items()}
    combinations = [dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())]
    every_shape = list(shapes(kind))
    seen = {}
    for arguments in [s | base for s in every_shape] + [every_shape[-1] | c for c in combinations]:
        d = InstrDescriptor(kind=kind, **arguments)
        assert {name: getattr(d, name) for name in arguments} == arguments
        again = InstrDescriptor.decode(d.encode(), kind=kind)
        assert again == d
        assert seen.setdefault(d.word, arguments) == arguments  # one word, one meaning
    assert len(seen) == len(every_shape) + len(combinations) - 1


def shape_of_table_39(kind, cta_group, ws, sparse, m, n):
    """Does the instruction exist? Table 39 of the PTX ISA (9.7.16.2), written out once more; `K = 96` is not in here."""
    if ws and cta_group == 2:
        return False
    if kind in ("f16", "tf32", "f8f6f4", "i8"):
        if ws:
            return m in (32, 64, 128) and n in ((64, 128) if sparse else (64, 128, 256))
        if kind == "i8":
            if cta_group == 1:
                return m in (64, 128) and (n in (8, 24) or (16 <= n <= 256 and n % 16 == 0))
            return m in (128, 256) and 32 <= n <= 256 and n % 32 == 0
        if cta_group == 1:
            return m in (64, 128) and 8 <= n <= 256 and n % 8 == 0
        return m in (128, 256) and 16 <= n <= 256 and n % 16 == 0
    if ws:
        return False
    if cta_group == 1:
        return m == 128 and 8 <= n <= 256 and n % 8 == 0
    return m in ((256,) if sparse else (128, 256)) and 16 <= n <= 256 and n % 16 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_is_legal_exactly_when_table_39_has_it(kind):
    """Every N with every M that any kind has, and with each other M every fourth one."""
    field = KINDS[kind].word.fields["m"]
    checked = 0
    shapes = [(raw << field.shift, n) for raw in range(field.mask + 1) for n in range(0, 257, 8)]
    shapes = [(m, n) for m, n in shapes if m in (32, 64, 128, 256) or n % 32 == 0]
    for (m, n), sparse in itertools.product(shapes, (False, True)):
        d = InstrDescriptor(kind=kind, m=m, n=n, sparsity=sparse)
        for cg, ws in itertools.product((1, 2), (False, True)):
            found = [f for f in d.problems(cta_group=cg, ws=ws) if f.code == "I601" and f.severity is Severity.TRAP]
            assert bool(found) != shape_of_table_39(kind, cg, ws, sparse, m, n), (cg, ws, sparse, m, n)
            checked += 1
    assert checked == 8 * len(shapes) > 8 * 2 * 33


def is_disputed(kind, cta_group, m, n, k):
    """Do the PTX ISA and CUTLASS disagree about a shape? As `core/spec/alternatives.py` quotes them, written out once more."""
    if kind == "i8":
        return cta_group == 1 and n == 24
    if cta_group == 2:
        return m == 128 and (kind == "mxf8f6f4" or k == 96)
    return m == 128 and n % 16 != 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_about_which_sources_disagree_is_a_note(kind):
    for m, n, cg, k in itertools.product(
        (64, 128, 256), range(8, 257, 8), (1, 2), (KINDS[kind].k, 96) if kind.startswith("mxf4") else (KINDS[kind].k,)
    ):
        if (m == 64 and KINDS[kind].block_scaled) or (k == 96 and n % 16):
            continue
        d = InstrDescriptor(kind=kind, m=m, n=n, k=k)
        found = d.problems(cta_group=cg, ws=False)
        if not any(f.severity is Severity.TRAP for f in found):
            assert ("sources disagree whether" in " ".join(f.message for f in found)) == is_disputed(kind, cg, m, n, k), (m, n, cg, k)


ATOM, MN = {"swizzle_a": "128B_ATOM_32B"}, {"a_major": "MN"}
# kind, fields, what else is known, and all that is noted of it
NOTES = [
    ("tf32", MN, ATOM, []),
    ("tf32", MN, {"swizzle_b": "128B"}, []),
    ("tf32", {"b_major": "MN"}, {"swizzle_b": "128B_ATOM_32B"}, []),
    ("tf32", {}, {"swizzle_a": "128B", "swizzle_b": "128B"}, []),
    ("f16", MN, {"swizzle_a": "128B"}, []),
    ("f16", MN, {}, []),
    ("f16", {}, {"a_source": "tensor"}, []),
    ("f16", {}, {"a_source": "tensor", "swizzle_a": "128B_ATOM_32B"}, []),  # it has no descriptor
    ("f8f6f4", {"a_type": "e2m1", **MN}, {}, ["I602 transpose_a"]),
    ("f8f6f4", {"a_type": "e4m3", **MN}, {}, []),
    ("f8f6f4", {"b_major": "MN", "n": 32}, {"cta_group": 2}, []),
    ("f8f6f4", {"b_major": "MN", "n": 48}, {"cta_group": 1}, []),
    ("f16", {"b_major": "MN", "n": 48}, {"cta_group": 2}, []),
    ("f16", {"m": 64, "n": 8}, {"a_source": "tensor", "cta_group": 1}, []),
    ("f16", {"m": 64, "n": 24}, {"a_source": "tensor", "cta_group": 1}, []),
    ("f16", {"m": 128, "n": 24}, {"a_source": "tensor", "cta_group": 1}, ["I601 n", "I601 n"]),
    ("f16", {"m": 128, "n": 48}, {"a_source": "tensor", "cta_group": 1}, []),
    ("f16", {"m": 128, "n": 48}, {"a_source": "tensor", "cta_group": 2}, ["I601 n"]),
    ("f16", {"m": 128, "n": 64}, {"a_source": "tensor", "cta_group": 2}, []),
    ("f16", {"m": 128, "n": 48}, {"a_source": "shared", "cta_group": 2}, []),
    ("f16", {"max_shift": 8, "n": 64}, {"ws": False}, ["I603 max_shift"]),
    ("f16", {"max_shift": 8, "n": 64}, {"ws": True}, []),
    ("f16", {"max_shift": 8, "n": 64}, {}, []),
    ("f16", {"sparsity": True, "sparsity_selector": 1}, {}, []),
    ("i8", {"saturate": True}, {}, ["I601 kind"]),
    ("i8", {}, {"arch": "sm_100a"}, []),
    ("f16", {"negate_a": True, "negate_b": True}, {}, []),
    ("mxf4", {}, {"scale_vec": "2X", "arch": "sm_100a"}, []),
    ("mxf4", {}, {"scale_vec": "2X", "arch": "sm_103a"}, ["I603 scale_vec"]),
    ("mxf4", {}, {"scale_vec": "block32", "arch": "sm_103a"}, []),
    ("mxf4", {"k": 96}, {"arch": "sm_103a"}, []),
    ("mxf4", {"k": 96}, {}, ["I601 k_size"]),
    ("f16", {"m": 128}, {"ashift": True, "a_source": "tensor"}, []),
]


@pytest.mark.parametrize(("kind", "fields", "known", "notes"), NOTES)
def test_right_descriptors_have_these_notes_and_no_others(kind, fields, known, notes):
    found = InstrDescriptor(kind=kind, **fields).problems(**known)
    assert [f"{f.code} {f.where}" for f in found] == notes
    assert {f.severity for f in found} <= {Severity.NOTE}


@examples(200)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**32 - 1))
def test_every_word_decodes_under_every_kind_and_says_what_is_wrong_with_it(kind, word):
    d = InstrDescriptor.decode(word, kind=kind)
    assert d.encode() == word
    assert d.table.encode(**d.table.decode(word)) == word
    assert eval(repr(d)) == d
    findings = d.problems()
    serious = [f for f in findings if f.severity in (Severity.TRAP, Severity.WRONG)]
    assert [f.message for f in findings if "measured" in f.message] == []
    others = kinds_that_fit(word)
    assert (kind in others) == (not serious and not list(d.table.constants(word)))
    hints = [f for f in findings if f.where == "kind" and "is not a legal word" in f.message]
    assert bool(hints) == bool(others and kind not in others)


def test_block_scaled_m_stands_elsewhere():
    """TensorRT-LLM issue 19183: M >> 4 at bit 24 of a block-scaled word sets reserved bits for M = 64."""
    word = InstrDescriptor(kind="mxf8f6f4").word & ~(0b11 << 27) | (64 >> 4) << 24
    d = InstrDescriptor.decode(word, kind="mxf8f6f4")
    assert d.m == 0
    assert {f.code for f in d.problems()} >= {"I601", "D305"}
    assert InstrDescriptor(kind="mxf8f6f4", m=128).word >> 24 & 31 == 128 >> 4  # the same bits for 128 and 256


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: InstrDescriptor.decode(1 << 32 | 1, kind="f16"), "does not fit 32 bits"),
        (lambda: InstrDescriptor.decode(0x08200490 << 32, kind="f16"), "the instruction takes 0x08200490"),
        (lambda: InstrDescriptor.decode(0, kind="f17"), "kind = 'f17'"),
        (lambda: InstrDescriptor.decode(1.5, kind="f16"), "1.5"),
        (lambda: InstrDescriptor(kind="f16", m=100), "multiple of 16"),
        (lambda: InstrDescriptor(kind="f16", n=512), "n = 512"),
        (lambda: InstrDescriptor(kind="f16", a_type="e4m3"), "f16 bf16"),
        (lambda: InstrDescriptor(kind="f16", scale_type="ue8m0"), "no scale factors"),
        (lambda: InstrDescriptor(kind="mxf4", a_major="MN"), "no such field"),
        (lambda: InstrDescriptor(kind="f16", k=32), "k = 32"),
        (lambda: InstrDescriptor(kind="mxf4", k=32), "or 96"),
        (lambda: InstrDescriptor(kind="f16", max_shift=4), "0, 8, 16, 32"),
        (lambda: InstrDescriptor(kind="f16").problems(cta_group=3), "1 or 2"),
        (lambda: InstrDescriptor(kind="f16").problems(arch="sm_90a"), "wgmma has no instruction descriptor"),
        (lambda: InstrDescriptor(kind="f16").problems(swizzle_a="256B"), "swizzle_a"),
        (lambda: InstrDescriptor(kind="f16").problems(warp=1), "warp"),
        (lambda: InstrDescriptor(kind="mxf4").problems(scale_vec="3X"), "scale_vec = '3X'"),
        (lambda: InstrDescriptor(kind="mxf4").problems(a_source="global"), "a_source = 'global'"),
        (lambda: InstrDescriptor(kind="f16").problems(ws=1), "ws = 1"),
        (lambda: InstrDescriptor(kind="f16").problems(ashift="yes"), "ashift = 'yes'"),
        (lambda: InstrDescriptor(kind="f16").problems(cta_group=True), "1 or 2"),
    ],
)
def test_what_no_instruction_has_is_a_sentence(call, says):
    with pytest.raises(InputError, match=says.replace(".", r"\.")):
        call()


def run(*words):
    return CliRunner().invoke(main, ["decode", *words])


def test_the_command_explains_a_word_with_its_ruler(snapshot):
    assert run("0x28A01410", "--kind", "mxf8f6f4", "--cta-group", "1").output == snapshot


def test_the_command_says_which_kind_a_word_would_suit(snapshot):
    result = run("0x08A01400", "--kind", "f16")
    assert result.exit_code == 1
    assert result.output == snapshot


def test_the_command_has_json_and_sentences():
    described = json.loads(run("0x08200490", "--kind", "kind::f16", "--json").stdout)
    assert (described["m"], described["k"], described["kinds"], described["findings"]) == (128, 16, ["f16", "f8f6f4"], [])
    assert run("0x08200490", "--kind", "f16", "--dtype", "bf16").exit_code == 2
    assert run("0x08200490", "--cta-group", "2").exit_code == 2
    assert "--kind f16 or f8f6f4" in run("0x08200490").stderr
    assert "upper half, 0x08200490, is an instruction descriptor of kind f16" in run("0x0820049000000000").stderr
    assert not run("0x4000404000000000", "--arch", "sm_100a").stderr  # a shared-memory descriptor with start and LBO 0
