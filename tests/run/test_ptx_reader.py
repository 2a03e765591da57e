"""Reading PTX: what compilers wrote comes back whole, names mean what the scopes say, and nothing else than a sentence
meets a bad text.
"""

import ast
import math
import operator
import pathlib
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import TESTS
from ptx_rendering import module_text
from smemsim import Gpu, InputError, Unmodelled
from smemsim.core.ptx import (
    Address,
    Arguments,
    Immediate,
    Label,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
    instruction_forms,
    read_module,
)
from strategies import examples

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
FILES = sorted((TESTS / "ptx").glob("*.ptx"))
TEXTS = {path.stem: path.read_text() for path in FILES}
MODULES = {name: read_module(text) for name, text in TEXTS.items()}
REGISTERS = ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<5>;"

every_file = pytest.mark.parametrize("name", TEXTS)


def kernel(body, before=""):
    return read_module(f"{HEAD}{before}.visible .entry k(.param .u64 p)\n{{ {REGISTERS}\n{body}\n}}\n").functions["k"]


def operands(statement, before=""):
    return kernel(statement, ".global .align 4 .b8 g[64];\n" + before).body[-1].operands


def bare(operand):
    """An operand without the names that registers have in the text."""
    match operand:
        case Register(slot, _, kind, negated, part):
            return slot, kind, negated, part
        case Vector(items) | Arguments(items):
            return type(operand), *map(bare, items)
        case Pair(first, second):
            return bare(first), bare(second)
        case Address(base, offset, coordinates):
            return bare(base), offset, None if coordinates is None else tuple(map(bare, coordinates))
    return operand


def meaning(module):
    """All that decides what a module does: everything but lines, spelling and order of declarations."""

    def function(f):
        body = f.body and [(i.op, i.modifiers, tuple(map(bare, i.operands)), bare(i.guard)) for i in f.body]
        variables = [(v.name, v.space, v.align, v.size, v.initial, v.references) for v in f.variables]
        kinds = [r.type for r in f.registers]
        return f.is_entry, f.parameters, f.results, kinds, variables, body, f.labels, f.targets, f.directives, f.prototypes

    variables = {v.name: (v.space, v.align, v.size, v.initial, v.references, v.is_extern) for v in module.variables.values()}
    return module.version, module.target, module.address_size, {n: function(f) for n, f in module.functions.items()}, variables


def attempt(text):
    """(module, ""), or (None, the sentence that refuses it)."""
    try:
        return read_module(text), ""
    except InputError as e:
        return None, str(e)


def instructions(module):
    return [i for f in module.functions.values() for i in f.body or ()]


# What compilers wrote


@every_file
def test_what_is_read_is_enough_to_write_the_module_again(name):
    module = MODULES[name]
    assert meaning(read_module(module_text(module))) == meaning(module)


@every_file
def test_every_instruction_stands_in_the_line_it_says(name):
    lines = TEXTS[name].splitlines()
    for i in instructions(MODULES[name]):
        assert i.text in " ".join(" ".join(lines[i.line - 1 : i.line + 12]).split())
        assert i.text.split()[0] in lines[i.line - 1]


@every_file
def test_every_instruction_has_the_place_of_the_last_loc_before_it(name):
    lines = TEXTS[name].splitlines()
    files = dict(re.findall(r'\.file\s+(\d+) "(.*?)"', TEXTS[name]))
    for f in MODULES[name].functions.values():
        for i in f.body or ():
            before = [line for line in lines[f.line - 1 : i.line] if re.match(r"\s*\.loc\b", line)]
            last = before[-1].split() if before else None
            assert (str(i.location) if i.location else None) == (last and f"{files[last[1]]}:{last[2]}")


@every_file
def test_as_many_instructions_as_semicolons_that_end_one(name):
    text = re.sub(r"//.*|^\s*\.(loc|file|version|target|address_size)\b.*", "", TEXTS[name], flags=re.MULTILINE)
    text = re.sub(r"\.section[^{]*\{[^}]*\}", "", text)
    text = re.sub(r"\{[\w\s%,$()+]*\}", "", text)  # vectors and contents
    statements = [re.sub(r"^(\s*[\w$%]+\s*:(?!:))+", "", s).strip() for s in re.split("[;{}]", text)]
    assert sum(bool(s) and s[0] != "." for s in statements) == len(instructions(MODULES[name]))


@every_file
def test_comments_may_stand_wherever_blanks_may(name):
    quoted = re.compile(r'("[^"\n]*")')
    directives = re.compile(r"^(\s*\.(?:loc|file|version|target|address_size)\b.*)$", re.MULTILINE)
    parts = directives.split(TEXTS[name])
    parts[::2] = [re.sub(r"(?<=,)(?=\s)", ' /* ; { " */ ', p) if not quoted.search(p) else p for p in parts[::2]]
    text = re.sub(r"\n", " // } ; @\n", "".join(parts))
    assert text != TEXTS[name]
    assert meaning(read_module(text)) == meaning(MODULES[name])


# one of each directive that may stand outside of functions, and of those that may follow it
DIRECTIVES = """.version 8.8 .target sm_90a, debug, texmode_unified .address_size 64 .file 1 "a.cu", 12, 34 .file 2 "b.h" .extern .global .b8 x[]; .global .u64 y[2] = {generic(x), 1}; .const .align 8 .b8 z[8] = {1, 2};
.func f(.param .b32 a) { ret; } .func g(.param .b32 a); .alias g, f; .func g2(.param .b32 a); .alias g2, f; .pragma "nounroll";
.section .debug { .b8 1 .b8 2 } .weak .func (.reg .b32 r) h() { .loc 1 2 3 mov.b32 r, 1; ret; } .shared .align 16 .b8 w[32]; .weak .entry
k(.param .u64 p) .reqntid 32, 1 .minnctapersm 1 { .reg .pred %p<2>; .reg .b32 %r<3>; .pragma "nounroll"; .shared .b32 v[2]; L: @!%p1 bra L;
{ .reg .b32 inner; call (inner), h, (); add.u32 %r1, inner, 1; } P: .callprototype (.param .b32 _) _ (.param .b32 _); T: .branchtargets L, M;
M: brx.idx %r1, T; ret; } .func .attribute(.unified(1, 2)) u() { ret; } .entry last() .pragma "a;b"; .maxntid 32 .pragma "c"; { ret; }"""


def dense(text):
    """A text whose only blanks are those between words, and in front of directives."""
    parts = re.split(r'("[^"\n]*")', re.sub(r"//.*", "", text))
    return "".join(p if p[:1] == '"' else re.sub(r"\s*([;{}()\[\],=])\s*", r"\1", re.sub(r"\s+", " ", p)) for p in parts).strip()


@pytest.mark.parametrize("text", [*TEXTS.values(), DIRECTIVES], ids=[*TEXTS, "directives"])
def test_no_blank_is_needed_beside_punctuation(text):
    assert meaning(read_module(dense(text))) == meaning(read_module(text))
    spread = "".join(p if p[:1] == '"' else re.sub(r"([;{}()\[\],=])", r"\n \1 \n", p) for p in re.split(r'("[^"\n]*")', dense(text)))
    assert meaning(read_module(spread)) == meaning(read_module(text))


def test_a_variable_may_be_declared_before_and_behind_its_definition():
    declared = ".extern .global .u32 x[4];\n"
    x = read_module(HEAD + declared + ".visible .global .u32 x[4] = {7};\n" + declared).variables["x"]
    assert (x.is_extern, x.size, x.initial) == (False, 16, struct.pack("<4I", 7, 0, 0, 0))


def test_line_markers_of_the_preprocessor_are_passed_over():
    """In the form that ptxas 13.0 takes: to the end of its line, within a statement too, and no other one."""
    plain = HEAD + ".entry k() {\n.reg .b32 %r<2>;\nmov.b32 %r1,\n3;\nret; }"
    marked = plain.replace("\n", ' # 12 "a//b.cu" 1 3 \n').replace("3;", '#line 7 "x"\r\n3;')
    module = read_module('#1 "<built-in>"\n' + marked)
    assert [(i.name, i.operands, i.line) for i in module.functions["k"].body] == [
        (i.name, i.operands, i.line + 1 + (i.name == "ret")) for i in read_module(plain).functions["k"].body
    ]


@every_file
def test_lines_may_end_and_files_begin_and_end_as_other_systems_do(name):
    text = TEXTS[name].replace("\n", "\r\n")
    assert meaning(read_module(f"\ufeff{text}\0")) == meaning(MODULES[name])


@every_file
def test_names_of_a_flat_function_are_unique_and_all_there(name):
    for f in MODULES[name].functions.values():
        names = [v.name for v in f.variables] + [p.name for p in (*f.parameters, *f.results) if p.slot is None]
        places = [*names, *f.labels, *f.targets, *f.prototypes]
        assert len(set(places)) == len(places)
        known = {*places, *MODULES[name].functions, *MODULES[name].variables}
        for i in f.body or ():
            for text in re.findall(r"(?:Symbol|Label)\(name='([^']*)'", repr(i.operands)):
                assert text in known
            for slot, kind in re.findall(r"slot=(\d+), name='[^']*', type='(\w+)'", repr((i.operands, i.guard))):
                assert f.registers[int(slot)].type == kind


def test_the_files_hold_what_their_sources_say():
    calls = MODULES["calls_sm90a"]
    assert [f.name for f in calls.entries] == ["calls", "scopes"]
    assert calls.functions["calls"].directives == {"maxntid": (128, 1, 1), "minnctapersm": (2,)}
    assert calls.variables["weights"].initial == struct.pack("<3f", 1, -0.5, 2.5)
    assert calls.variables["counters"].initial == struct.pack("<4i", 1, 2, 3, 0)
    assert calls.variables["second"].references == ((0, "counters", 4),)
    assert calls.variables["packed"].references == ((1, "counters", 8),)
    assert calls.variables["packed"].initial == bytes([1, *bytes(8), 3, 0])
    assert [symbol for _, symbol, _ in calls.variables["steps"].references] == ["_Z2upi", "_Z4downi"]
    assert (calls.variables["dynamic"].is_extern, calls.variables["dynamic"].size) == (True, 0)
    indirect = [i for i in calls.functions["calls"].body if i.op == "call" and isinstance(i.operands[1], Register)]
    assert [len(calls.functions["calls"].prototypes[i.operands[3].name].parameters) for i in indirect] == [1]
    scopes = calls.functions["scopes"]
    assert sum(name.startswith("AGAIN") for name in scopes.labels) == sum(name.startswith("DONE") for name in scopes.labels) > 1


@pytest.mark.parametrize(("name", "form"), [("tensor_cores_sm90a", "wgmma.mma_async"), ("tensor_cores_sm100a", "tcgen05.mma")])
def test_tensor_core_instructions_have_their_operands(name, form):
    module = MODULES[name]
    (kernel_,) = module.entries
    assert kernel_.directives == {"explicitcluster": (), "reqnctapercluster": (2, 1, 1)}
    assert (kernel_.parameters[0].size, kernel_.parameters[0].align) == (128, 128)
    (load,) = [i for i in kernel_.body if i.name.startswith("cp.async.bulk.tensor")]
    assert load.modifiers == ("async", "bulk", "tensor", "2d", "shared::cluster", "global", "mbarrier::complete_tx::bytes")
    assert [len(load.operands), len(load.operands[1].coordinates)] == [3, 2]
    (mma,) = [i for i in kernel_.body if i.name.startswith(form)]
    assert mma.operands[3].type == "pred" if form[0] == "w" else mma.operands[5].type == "pred"
    assert {form.partition(".")[0], "cp", "mbarrier"} < {i.op for i in kernel_.body}


def test_inlined_lines_know_their_callers():
    """As nvcc writes them: `inlined_at` names the place of the call, whose own .loc stands before; a later inlining of
    the same line is another.
    """
    ptx = """.version 8.0 .target sm_90a .address_size 64 .file 1 "a.cu" .file 2 "b.h"
    .visible .entry k() { .reg .b32 %r;
    .loc 1 30 3
    .loc 1 20 5, function_name $L__info_string1, inlined_at 1 30 3
    .loc 2 10 7, function_name $L__info_string0, inlined_at 1 20 5
    mov.b32 %r, 1;
    .loc 1 31 3
    .loc 2 10 7, function_name $L__info_string0, inlined_at 1 31 3
    mov.b32 %r, 2;
    .loc 1 40 1, function_name $L__info_string0, inlined_at 1 40 1
    mov.b32 %r, 3;
    ret; }"""
    places = [i.location.path for i in read_module(ptx).functions["k"].body if i.location]
    assert places == ["b.h:10, inlined at a.cu:20, inlined at line 30", "b.h:10, inlined at a.cu:31", *["a.cu:40, inlined at line 40"] * 2]


def test_a_triton_kernel_knows_its_source():
    add = MODULES["add_sm90"].functions["add"]
    assert add.directives == {"reqntid": (128,)}
    assert {i.location.line for i in add.body if i.op == "add" and "f32" in i.modifiers} == {15}
    assert {pathlib.PurePath(i.location.file).name for i in add.body if i.location} == {"add.py"}


def test_the_listing_has_every_instruction_once():
    for module in MODULES.values():
        forms = instruction_forms(module)
        assert sorted(line for lines in forms.values() for line in lines) == sorted(i.line for i in instructions(module))
        assert [len(lines) for lines in forms.values()] == sorted(map(len, forms.values()), reverse=True)


# Operands

R1 = Register(0, "%r1", "b32")
OPERANDS = {
    "mov.b32 %r1, %tid.x": (R1, Special("tid.x")),
    "mov.u64 %rd1, g+4": (Register(0, "%rd1", "b64"), Symbol("g", 4)),
    "mov.b64 {%r1, _}, -1": (Vector((R1, Sink())), Immediate(-1)),
    "elect.sync %r1|%p1, 0xF0": (Pair(R1, Register(1, "%p1", "pred")), Immediate(240)),
    "setp.ne.and.b32 %p1|_, %r1, 3, !%p2": (
        Pair(Register(0, "%p1", "pred"), Sink()), Register(1, "%r1", "b32"), Immediate(3), Register(2, "%p2", "pred", True),
    ),
    "ld.b32 %r1, [g]": (R1, Address(Symbol("g"))),
    "ld.b32 %r1, [g+2*4]": (R1, Address(Symbol("g"), 8)),
    "ld.b32 %r1, [%rd1+-4]": (R1, Address(Register(1, "%rd1", "b64"), -4)),
    "ld.b32 %r1, [ %r1 ]": (R1, Address(R1)),
    "ld.b32 %r1, [0x20]": (R1, Address(Immediate(32))),
    "x [p, {%r1, 8}], [%rd1]": (Address(Symbol("p"), 0, (R1, Immediate(8))), Address(Register(1, "%rd1", "b64"))),
    "x [p, g, {%r1}]": (Address(Symbol("p"), 0, (Symbol("g"), Vector((R1,)))),),
    "mov.f32 %f1, 0f3F800000": (Register(0, "%f1", "f32"), Immediate(0x3F800000, "f32")),
    "mov.f32 %f1, -0D3FF0000000000000": (Register(0, "%f1", "f32"), Immediate(0xBFF0000000000000, "f64")),
    "mov.f32 %f1, - -1.5": (Register(0, "%f1", "f32"), Immediate(0x3FF8000000000000, "f64")),
    "mov.f32 %f1, +-0f3F800000": (Register(0, "%f1", "f32"), Immediate(0xBF800000, "f32")),
    "mov.f32 %f1, 1.5": (Register(0, "%f1", "f32"), Immediate(0x3FF8000000000000, "f64")),
    "call.uni (%r1), f, (%r1, 4), L": (Arguments((R1,)), Symbol("f"), Arguments((R1, Immediate(4))), Label("L")),
    "bra L": (Label("L"),),
    "bar.sync 0, WARP_SZ*2": (Immediate(0), Immediate(64)),
    "ret": (),
}  # fmt: skip


@pytest.mark.parametrize("statement", OPERANDS)
def test_operands(statement):
    found = kernel(f"L: {statement};", ".global .b8 g[9];\n.func (.reg .b32 x) f(.reg .b32 a, .reg .b32 b);\n").body[0].operands
    assert found == OPERANDS[statement]


@pytest.mark.parametrize("guard", ["@%p1", "@!%p1", "@ ! %p1"])
def test_a_guard_is_no_operand(guard):
    (i,) = kernel(f"{guard} mov.b32 %r1, 1;").body
    assert (i.op, len(i.operands), i.guard) == ("mov", 2, Register(0, "%p1", "pred", "!" in guard))
    assert i.text == f"{guard} mov.b32 %r1, 1"


def test_a_mnemonic_may_be_written_apart():
    assert kernel("ld .global\n.b32 %r1, [%rd1];").body[0].name == "ld.global.b32"


@examples(60)
@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_integers_are_the_same_in_every_base(value):
    sign, size = "-" if value < 0 else "", abs(value)
    spelled = [f"{sign}{size}", f"{sign}{size:#x}", f"{sign}0X{size:X}U", f"{sign}0{size:o}", f"{sign}{size:#b}U"]
    body = kernel("".join(f"mov.b64 %rd1, {text};" for text in spelled)).body
    assert [i.operands[1] for i in body] == [Immediate(value)] * len(spelled)


@examples(60)
@given(st.floats(width=64, allow_nan=False, allow_infinity=False))
def test_decimal_floats_are_doubles(value):
    text = f"{value:.20e}"
    assert operands(f"mov.f64 %rd1, {text};")[1] == Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")


NUMBERS = st.integers(0, 1 << 20).map(str)
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor}
TERMS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(sorted(SIGNS)), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("(-({}))".format),
        inner.map("~{}".format),
        st.tuples(inner, st.integers(0, 7)).map(lambda t: f"(({t[0]}) << {t[1]})"),
    ),
    max_leaves=6,
)


@examples(100)
@given(TERMS)
def test_constant_expressions_are_those_of_c(text):
    wanted = eval(compile(ast.parse(text, mode="eval"), "", "eval"), {"__builtins__": {}})
    wanted = wanted if -(1 << 63) <= wanted < 1 << 64 else (wanted + (1 << 63)) % (1 << 64) - (1 << 63)
    assert operands(f"mov.b64 %rd1, {text};")[1] == Immediate(wanted)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7/-2", -3),
        ("-7 % 3", -1),
        ("1 ? 2 : 3", 2),
        ("2 == 2 && 0 || 1 < 0", 0),
        ("!5", 0),
        ("-8 >> 1", -4),
        ("1 << 2 + 1", 8),
        ("1 + 1 << 2", 8),
        ("(.u64)-1", 2**64 - 1),
        ("(.s64)-1", -1),
        ("(.s64)0xFFFFFFFFFFFFFFFB / 2", -2),  # the operators after a cast see its value, not only its 64 bits
        ("(.s64)0x7FFFFFFFFFFFFFFF / 2", (1 << 62) - 1),
        ("(.s64)(1 << 63) < 0", 1),
        ("(.u64)-8 >> 62", 3),
        ("1 ? 0 || 3 : 5", 1),  # a choice is of whole expressions, other choices among them
        ("1 ? 0 ? 4 : 5 : 6", 5),
        ("0 ? 1 : 0 ? 2 : 3", 3),
        ("0 ? 1 : 0 || 2", 1),
        ("(0 || 3)", 1),
        ("(1 ? 2 : 3) + 1", 3),
    ],
)
def test_what_c_does_and_python_does_not(text, value):
    assert operands(f"mov.b64 %rd1, {text};")[1] == Immediate(value)


# Scopes


def test_an_inner_register_hides_the_outer_one_until_its_brace():
    f = kernel("mov.b32 %r1, 1; { .reg .b64 %r1; mov.b64 %r1, 2; { mov.b64 %r1, 3; } } mov.b32 %r1, 4;")
    slots = [i.operands[0].slot for i in f.body]
    assert slots[0] == slots[3] != slots[1] == slots[2]
    assert [f.registers[s].type for s in slots] == ["b32", "b64", "b64", "b32"]


def test_a_declaration_hides_from_its_place_on():
    f = kernel("{ mov.b32 %r1, 1; .reg .b32 %r<2>; mov.b32 %r1, 2; }")
    assert [i.operands[0].slot for i in f.body] == [0, 1]


def test_a_register_stays_the_same_when_others_are_declared_behind_it():
    f = kernel(
        ".reg .b32 a; mov.b32 a, 1; .reg .b64 b; mov.b32 a, 2; .reg .b32 c<4>; mov.b32 a, 3; mov.b32 c1, 4; .reg .b32 d<4>; mov.b32 c1, 5;"
    )
    assert [i.operands[0].slot for i in f.body] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("count", [1, 10, 11, 13])
def test_a_range_declares_its_numbers_and_no_more(count):
    assert kernel(f".reg .b32 a<{count}>; mov.b32 a{count - 1}, a0;").body[0].operands[0].name == f"a{count - 1}"
    for name in (f"a{count}", "a00", "a"):
        with pytest.raises(InputError, match=f"{name} is not declared"):
            kernel(f".reg .b32 a<{count}>; mov.b32 {name}, 1;")


def test_a_label_is_the_one_of_the_nearest_scope():
    f = kernel("{ bra L; L: ret; } { L: bra L; { bra L; } } bra L; L: bra M; M:")
    at = [f.labels[i.operands[0].name] for i in f.body if i.op == "bra"]
    assert at == [1, 2, 2, 5, 6]
    assert sorted(f.labels) == ["L", "L$2", "L$3", "M"]


def test_variables_of_one_name_stay_apart():
    f = kernel(
        "{ .param .b32 a; st.param.b32 [a], 1; } { .param .b64 a; st.param.b64 [a], 1; } st.b32 [a], 1; .local .b32 a; st.b32 [a], 1;",
        ".global .b32 a;\n",
    )
    bases = [i.operands[0].base.name for i in f.body]
    assert bases[2] == "a"
    assert bases[0:2] + bases[3:] == [v.name for v in f.variables]
    assert len(set(bases)) == 4


def test_lists_of_targets_follow_their_labels():
    f = kernel("{ T: .branchtargets A, B; brx.idx %r1, T; A: ret; } B: { T: .branchtargets B; brx.idx %r1, T; } A: ret;")
    lists = [f.targets[i.operands[1].name] for i in f.body if i.op == "brx"]
    assert [[f.labels[name] for name in one] for one in lists] == [[1, 2], [2]]


# Declarations

CONTENTS = {
    ".b8 x[4] = {1, 255, -1}": bytes([1, 255, 255, 0]),
    ".u16 x[] = {1, 0x1234}": b"\1\0\x34\x12",
    ".u32 x = 3 + 4": struct.pack("<I", 7),
    ".u32 x[2][2] = {{1, 2}, {3}}": struct.pack("<4I", 1, 2, 3, 0),
    ".u32 x[2][2] = {{1}, {2, 3}}": struct.pack("<4I", 1, 2, 3, 0),  # as ptxas places them
    ".u32 x[][2] = {{1, 2}, {3}}": struct.pack("<4I", 1, 2, 3, 0),
    ".f32 x[3] = {1.5, 0f40000000, -1e2}": struct.pack("<3f", 1.5, 2, -100),
    ".f64 x[2] = {0d3FF0000000000000, .5}": struct.pack("<2d", 1, 0.5),
    ".v2 .f32 x[1] = {{1.0, 2.0}}": struct.pack("<2f", 1, 2),
    ".b64 x[2] = {-1, 18446744073709551615}": b"\xff" * 16,
    ".b32 x[2] = {}": bytes(8),
    ".b32 x[2] = {1.5, 7}": struct.pack("<fI", 1.5, 7),  # the rest as ptxas 13.0 has it in the machine code
    ".b64 x = 1.5": struct.pack("<d", 1.5),
    ".b16 x = 1.1": b"\x9a\x99",
    ".f32 x[2] = {-3.5e38, 0d3FF0000000000001}": struct.pack("<2f", -math.inf, 1),
    ".f64 x[3] = {0f3F800000, -(1.0 / 4.0) * 2.0 + 3.0, 1e300 * 1e300}": struct.pack("<Q2d", 0x3F800000, 2.5, math.inf),
    ".u64 x = (1.5 < 2.0) + 1": struct.pack("<Q", 2),
    ".u64 x = 0xFFFFFFFFFFFFFFFF * 3": struct.pack("<Q", -3 % 2**64),
    f".u64 x = {' * '.join(['0xFFFFFFFFFFFFFFFD'] * 5)}": struct.pack("<Q", (-3) ** 5 % 2**64),
    ".attribute(.managed) .u32 x = 7": struct.pack("<I", 7),
}


@pytest.mark.parametrize("text", CONTENTS)
def test_contents(text):
    x = read_module(f"{HEAD}.visible .global .align 16 {text};").variables["x"]
    assert (x.initial, x.size, x.align, x.space) == (CONTENTS[text], len(CONTENTS[text]), 16, "global")


def test_addresses_in_contents_keep_their_place():
    pieces = ", ".join(f"{0xFF << 8 * i:#X}(generic(a)+6)" for i in range(8))
    text = f".global .b32 a[4];\n.global .u64 x[4] = {{0, a, generic(a)+8, a - 4}};\n.global .u8 y[10] = {{7, {pieces}, 9}};"
    variables = read_module(HEAD + text).variables
    assert variables["x"].references == ((8, "a", 0), (16, "a", 8), (24, "a", -4))
    assert (variables["y"].references, variables["y"].initial) == (((1, "a", 6),), b"\7" + bytes(8) + b"\x09")


def test_parameters_have_sizes_and_alignments():
    text = """.visible .entry k(.param .align 64 .b8 map[128], .param .u64 .ptr .global .align 16 q, .param .u32 n, .param .b64 a[3])
    .maxntid WARP_SZ, 4, 1 .minnctapersm 2 .pragma "x;y"; .maxnreg 0x40 { ret; }
    .func (.reg .f32 r, .param .align 16 .b8 s[32]) f(.reg .pred c) { ret; }
    .extern .func g .noreturn;"""
    functions = read_module(HEAD + text).functions
    assert [(p.name, p.size, p.align, p.slot) for p in functions["k"].parameters] == [
        ("map", 128, 64, None), ("q", 8, 8, None), ("n", 4, 4, None), ("a", 24, 8, None),
    ]  # fmt: skip
    assert functions["k"].directives == {"maxntid": (32, 4, 1), "minnctapersm": (2,), "maxnreg": (64,)}
    assert [(p.name, p.size, p.slot) for p in functions["f"].results + functions["f"].parameters] == [
        ("r", 4, 0),
        ("s", 32, None),
        ("c", 0, 1),
    ]
    assert [r.type for r in functions["f"].registers] == ["f32", "pred"]
    assert (functions["g"].body, functions["g"].directives) == (None, {"noreturn": ()})


def test_words_without_a_meaning_here_are_read_over():
    text = """.file 1 "a.cu"
    .loc 1 2 3
    .pragma "nounroll";
    .func .attribute(.unified(1, 2)) f(.param .b32 a); .func f(.param .b32 a);
    .section .debug { { .b8 1 } }
    .entry k() { T: .callprototype _ () .noreturn .abi_preserve 4; .extern .shared .b8 x[]; ret; }"""
    functions = read_module(HEAD + text).functions
    assert [functions[name].is_entry for name in ("f", "k")] == [False, True]
    assert [(v.name, v.size, v.is_extern) for v in functions["k"].variables] == [("x", 0, True)]


def test_a_definition_may_follow_its_declaration_and_an_alias_is_its_target():
    text = ".extern .global .b8 x[];.global .b8 x[4];.func f(.param .b32 a);.func h(.param .b32 a);.func f(.param .b32 a) { ret; } .alias h, f;"
    module = read_module(HEAD + text)
    assert (module.variables["x"].size, module.variables["x"].is_extern) == (4, False)
    assert module.functions["h"].body is module.functions["f"].body is not None
    assert instruction_forms(module) == {"ret": [4]}


# Refusals

REFUSALS = {
    "": "line 1: no .version in the file",
    "\x7fELF\2\1": "compiled file (ELF)",
    "hello": "line 1: this is not PTX, which begins with .version",
    ".entry k() {}": "a PTX file begins with .version, not with .entry",
    ".version 8.8": "no .target in the file",
    HEAD + ".version 8.8": "line 4: .version stands twice",
    ".version eight": ".version has no value that smemsim knows",
    HEAD + "\n/* ": "line 5: a comment '/*' begins here and never ends",
    HEAD + "}": "line 4: a '}' too much: '}'",
    HEAD + "ret;": "line 4: a directive expected outside of functions: 'ret;'",
    HEAD + ".visble .entry k() {}": "directive .visble is unknown outside of functions; did you mean '.visible'?",
    HEAD + ".section .debug {": "line 4: this .section has no '}' that ends it",
    HEAD + ".global .b33 x;": "'.b33' is no type for .global variables; .b32, .u64, .f32, .pred ... are; did you mean 'b32'?",
    HEAD + ".global .b32 x[": "line 4: neither '{' nor ';' after '.global .b32 x['",
    HEAD + ".global .b32 x[-1];": "x[-1]: extents must be from 0 on",
    HEAD + ".extern .global .b8 x[281474976710657];": "x[281474976710657]: extents must be from 0 on, 8 at most, and the array smaller than 2^48 bytes",
    HEAD + ".extern .global .b32 x[70368744177665];": "x[70368744177665]: extents must be from 0 on",
    HEAD + ".extern .global .b8 x" + "[1]" * 10 + ";": "x[1]: extents must be from 0 on, 8 at most",
    HEAD + ".global .b32 x[2][];": "x: only the first extent of an array may be left out",
    HEAD + ".global .align 3 .b32 x;": ".align 3: needs a power of two, in bytes",
    HEAD + ".global .b32 x;\n.const .b32 x;": "line 5: x is declared twice in the file",
    HEAD + ".global .b32 x[2] = {1, 2, 3};": "the contents of x are too long: 3 between braces, where 2 fit",
    HEAD + ".global .b32 x[2] = {{1}, {2}};": "x has 1 extents, and more braces",
    HEAD + ".global .b32 x = y;": "x: an address has 8 bytes, an element of .b32 has 4",
    HEAD + ".global .u64 x = y;": "x begins with the address of y, which nothing declares",
    HEAD + ".global .b32 x[1] = 1;": "'{' expected before the elements of x, an array or a vector",
    HEAD + ".global .b32 x[2][2] = {{1, 2}, 3};": "'{' expected before the elements of x",
    HEAD + ".global .v2 .b32 x[2] = {{1, 2}, {3}};": "x: a vector has all of its 2 elements, not 1",
    HEAD + ".global .f32 x = 1;": "x: a .f32 begins with a float such as 1.0 or 0f3F800000, not with the integer 1",
    HEAD + ".global .u32 x = 1.0;": "x: a .u32 begins with an integer, not with '1.0'",
    HEAD + ".global .f16x2 x = 1;": "x: a .f16x2 has no contents",
    HEAD + ".global .b64 y; .global .b64 x = y;": "x: ptxas takes an address in elements of .u64, not of .b64",
    HEAD + ".shared .b32 x = 1;": "x: only variables of .global and .const that are no .extern have contents",
    HEAD + ".extern .global .b32 x = 1;": "x: only variables of .global and .const that are no .extern have contents",
    HEAD + ".global .b8 x[];": "x: a variable that is no .extern has a size",
    HEAD + ".global .f64 x = 1e400;": "'1e400' is no number of 64 bits",
    HEAD + ".global .f64 x = 1.0 + 1;": "'+' of these is no constant",
    HEAD + ".global .f64 x = 1.0 / -0.0;": "a constant expression divides by zero",
    HEAD + ".global .f64 x = 1 ? 1.5 : 2.5;": "'?' chooses between integers",
    HEAD + ".global .f64 x = 1 ? 1.5 : 2;": "'?' chooses between integers",
    HEAD + ".global .f64 x = 1 ? 2 : 1.5;": "'?' chooses between integers",
    HEAD + ".global .u64 x = 1.5 ? 1 : 2;": "'?' asks an integer, not a float",
    HEAD + ".global .u64 x = (.s64) 1.5;": "(.s64) of a float is no constant",
    "# 1\n" + HEAD: "line 1: this is not PTX",
    HEAD + ".entry k() .maxntid 0 { ret; }": ".maxntid 0: each needs to be 1 or more",
    HEAD + ".entry k() .maxntid -1 { ret; }": ".maxntid -1: each needs to be 1 or more",
    HEAD + ".entry k() .maxntid 1, { ret; }": "a number expected, not the end of the statement",
    HEAD + ".entry k() .maxntid 1, 2, 3, 4 { ret; }": ".maxntid has 4 numbers; it needs 1 to 3",
    HEAD + ".entry k() .maxnreg { ret; }": ".maxnreg has 0 numbers; it needs 1",
    HEAD + ".entry k() .maxntid 32 .reqntid 32 { ret; }": ".maxntid and .reqntid cannot stand together",
    HEAD + ".entry k() .blocksareclusters .reqntid 32 { ret; }": ".blocksareclusters needs .reqntid and .reqnctapercluster beside it",
    HEAD + ".entry k() .noreturn { ret; }": ".noreturn is for functions that are no entries",
    HEAD + ".func f() .maxntid 32 { ret; }": ".maxntid is for entries",
    HEAD + ".func (.reg .b32 r) f() .noreturn { ret; }": "a function that is .noreturn has no results",
    HEAD + ".visible .weak .entry k() { ret; }": ".visible and .weak cannot stand together",
    HEAD + ".common .shared .b32 x;": "variables of .global alone are .common",
    HEAD + ".local .b32 x;": "a variable of .local is declared in a function",
    HEAD + ".global .v4 .f64 x;": "a vector of 4 f64 has more than 128 bits",
    HEAD + ".const .texref x;": "a .texref is a variable of .global",
    HEAD + ".func g(.param .b32 a) { ret; } .func f(); .alias f, g;": "alias f: g has other parameters",
    HEAD + ".entry k(.reg .b32 a) { ret; }": "a: a parameter of an entry is in .param space",
    HEAD + ".entry k(.param .b8 a[]) { ret; }": "a: a parameter of an entry is in .param space, and has a size",
    HEAD + ".entry k(.param .v2 .b32 a) { ret; }": "a: a .param is one number or an array of one extent",
    ".version 8.8 .target sm_90a, dbug": ".target: unknown word 'dbug'; did you mean 'debug'?",
    ".version 8.8 .target sm_90a, debug, texmode": ".target: unknown word 'texmode'",
    ".target sm_90a .version 8.8": ".target stands elsewhere",
    ".version 8.8 .target sm_90a .entry k() { ret; } .address_size 64": ".address_size stands elsewhere",
    HEAD + '# 1 "x" .global .b32 x;': "a directive expected outside of functions",
    HEAD + ".global .b8 x[2] = {0xFF(y), 0xFF00(y)};": "x: the bytes of address y at offset 0 are not all eight",
    HEAD + ".global .b8 x[2] = {0(y)};": "x: 0(...) must be one byte of an address",
    HEAD + ".global .b8 x[999999999] = {1};": "smemsim takes 268435456 at most",
    HEAD + ".func f() { ret; }\n.func f() { ret; }": "line 5: a function f has two bodies",
    HEAD + ".func f();\n.entry f() { ret; }": "f was declared in line 4 with other parameters",
    HEAD + ".func f();\n.func f(.param .b32 a) { ret; }": "f was declared in line 4 with other parameters",
    HEAD + ".func f();\n.func f(.param .b32 x) { ret; }": "f was declared in line 4 with other parameters",
    HEAD + ".func f(.param .b32 x, .param .b32 x);": "x is declared twice among the parameters",
    HEAD + ".func f();\n.func g();\n.alias f, g;": "line 6: alias f: g has no body in this file",
    HEAD + ".entry k() .maxnred 3 { }": "'.maxnred' is unknown before a function's body; did you mean 'maxnreg'?",
    HEAD + ".entry k()\n{ ret;": "line 5: the '{' here is never closed; is the file cut off?",
    HEAD + ".entry k()\n{\n\n": "line 5: the '{' here is never closed",
    HEAD + ".entry k() {\n{ ret;": "line 5: the '{' here is never closed",
    HEAD + ".global .u64 x = generic(1);": "the name of a variable expected in 'generic(...)', not '1'",
    HEAD + ".func f(.global .b32 a);": ".param or .reg expected before one of the parameters, not '.global'",
    HEAD + ".entry k(.param .ptr .u64 a) { ret; }": ".ptr stands after the type of a parameter",
    HEAD + ".global .u32 .u64 x;": "'.u64' is unknown in the declaration of",
    HEAD + ".entry k(.param a) { ret; }": "a type is missing for",
    HEAD + ".global .attribute .b32 x;": "'(' expected after .attribute",
    HEAD + ".global .attribute(.managed .b32 x;": "a ')' is missing after .attribute(",
    HEAD + ".file one": "'.file' needs a number and a name in quotes",
    HEAD + '.entry k() .pragma "x': "neither '{' nor ';' after",
    HEAD + '.entry k() .pragma "x"': "neither '{' nor ';' after",
    HEAD + ".section .debug }": "this .section has no '}' that ends it",
    HEAD + ".section .debug {{{}}}": "this .section has no '}' that ends it",
    HEAD + ".global .b32 x {": "no ';' after a variable",
    HEAD + ".global .b32 x = 1 2;": "'2' is too much",
    HEAD + ".func f() { ret; } .func g(); .func h(); .alias g, f; .alias h, nobody;": "nobody is no declared function: .alias h, nobody",
    HEAD + ".func f() { ret; } .alias g, f;": "g is no declared function",
    HEAD + ".entry k() {" + "{" * 300: "more than 200 braces within one another",
}  # fmt: skip

REFUSED_STATEMENTS = {
    "mov.b32 %r9, 1;": "line 6: %r9 is not declared: no register, variable or function of this scope, no special register: mov.b32 %r9, 1",
    "mov.b32 %r1, %laneidd;": "%laneidd is not declared: no register, variable or function of this scope, no special register; did you mean 'laneid'?",
    "ret;\nret;\nmov.b32 %r1,\n%q;": "line 9: %q is not declared",
    "{ .reg .b32 a; } mov.b32 a, 1;": "a is not declared",
    "mov.b32 %r1.x, 1;": "%r1.x selects a part of register %r1",
    "add.u32 %r1, %r2.b0, 1;": "%r2.b0 selects a part of register %r2, which is no vector register; smemsim reads .b0 .b1 .b2 .b3 .h0 .h1 of scalar video",
    "vadd.u32.u32.u32 %r1, %r2.b4, 1;": "%r2.b4 selects a part of register %r2",
    "vadd.u32.u32.u32 %r1, %r2.b1 .b0, 1;": "'.b0' is too much after an operand",
    "mov.b32 %r1, %r2": "no ';' after 'mov.b32 %r1, %r2'",
    "mov.b32 %r1, %r2\nret;": "line 7: 'ret' is too much after an operand of mov.b32; is a ',' or ';' missing before it?",
    "mov.b32 %r1,;": "an operand is missing after the last ','",
    "mov.b32 ,%r1;": "an operand expected, not ','",
    "mov.b32 %r1, {%r2;": "',' expected or '}' in a list of operands, not the end of the statement",
    "mov.b32 %r1, {{{{{{{{1}}}}}}}};": "more than 4 braces or parentheses",
    "ld.b32 %r1, [%rd1;": "']' expected at the end of an address",
    "ld.b32 %r1, [%tid.x];": "special register %tid.x is no address; move it into a register first",
    "ld.b32 %r1, [1.5];": "a float is no address",
    "mov.b32 %r1, 0x1FFFFFFFFFFFFFFFF;": "'0x1FFFFFFFFFFFFFFFF' is no number of 64 bits",
    "mov.b32 %r1, 08;": "'08' is no number of 64 bits",
    "mov.b32 %r1, 1/0;": "a constant expression divides by zero",
    "mov.b32 %r1, 1 << 64;": "a constant expression shifts by 64 bits; 0 to 63 are possible",
    "mov.b32 %r1, (1;": "')' expected after a constant expression",
    "mov.f32 %f1, 1.5+1;": "'+' of these is no constant: both must be integers, or both floats of 64 bits",
    "mov.f32 %f1, ~1.5;": "'~' of a float is no constant",
    f"mov.b32 %r1, {'(' * 51}1{')' * 51};": "more than 50 parentheses or signs within one another",
    f"mov.b32 %r1, {'-(' * 25}~1{')' * 25};": "more than 50 parentheses or signs within one another",
    "setp.eq.b32 %p1, 1, 2, !1.5;": "'!' of a float is no constant",
    "setp.eq.b32 %p1, 1, 2, !%laneid;": "'!' negates a predicate register only",
    "@%r1 ret;": "a guard needs a declared predicate after '@': %r1 is no predicate register",
    "@%p9 ret;": "a guard needs a declared predicate after '@': %p9 is not declared",
    "@ ret": "no ';' after '@ ret'",
    "bra L;": "line 6: L is neither a label that can be reached from here nor a declared function: bra L",
    "loop: bra lop;": "lop is neither a label that can be reached from here nor a declared function; did you mean 'loop'?",
    "{ L: } bra L;": "L is neither a label",
    "T: .branchtargets L;": "line 6: L is neither a label that can be reached from here nor a declared function: T: .branchtargets ...",
    "T: .calltargets f;": "f is not declared: no function of this file",
    "L: L: ret;": "label L stands twice in this scope",
    "call f, (%r1);": "f is neither a label that can be reached from here nor a declared function",
    ".reg .b32 a, a;": "a is declared twice in this scope",
    ".reg .b32 a<3>; .reg .b64 a2;": "a2 is declared twice in this scope",
    ".reg .b64 a2; .reg .b32 a<3>;": "a is declared twice in this scope",
    ".reg .v8 .b32 a;": ".v8 registers do not exist, .v2 and .v4 do",
    ".reg .v2 .b32 a1; .reg .v2 .b32 a<3>;": "a is declared twice in this scope",
    ".reg .v2 .b32 a<3>; mov.b32 a3.x, 1;": "a3.x is not declared",
    ".reg .v4 .b64 a;": ".v4 .b64 registers do not exist: .v4 is for numbers of up to 32 bits",
    ".reg .v2 .pred a;": ".v2 .pred registers do not exist",
    ".reg .align 3 .b32 a;": ".align 3: needs a power of two",
    ".reg .v2 .align 8 .b32 a;": "'.align' is no type for registers",
    ".reg .b32 a<b>;": "the number of registers must be a whole number",
    ".shared .b32 a; .reg .b32 a;": "a is declared twice in this scope",
    ".rge .b32 a;": "directive .rge is unknown inside a function; did you mean '.reg'?",
    ".branchtargets L;": ".branchtargets needs a label before it",
    ".loc one;": "'.loc' needs a file's number, a line and a column",
    ".pragma nounroll;": "'.pragma' needs a text in quotes and a ';'",
    "%r1;": "an instruction expected, not '%r1'",
    "ret;;": "an instruction expected, not another ';': ptxas takes no empty statement",
    ".reg .v2 .b32 a<99999999>;": "vectors of registers are not read",
    ".reg .b32 a<1.5>;": "the number of registers must be a whole number",
    ".shared .b32 a; .shared .b32 a;": "a is declared twice in this scope",
    f"mov.b32 %r1, {'1' * 67};": "is no number of 64 bits",
    "\x00;": "an instruction expected",
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "behind", "value"), [("(" * 50, ")" * 50, 7), ("-(" * 25, ")" * 25, -7), ("(~" * 25, ")" * 25, ~7), ("!" * 50, "", 1)]
)
def test_fifty_parentheses_and_signs_within_one_another_are_a_constant(before, behind, value):
    body = read_module(f"{HEAD}.entry k() {{ {REGISTERS} mov.b32 %r1, {before}7{behind}; }}").entries[0].body
    assert body[0].operands[1].value == value


@pytest.mark.parametrize("text", REFUSALS)
def test_what_is_no_module_is_refused_with_a_sentence(text):
    with pytest.raises(InputError) as refused:
        read_module(text)
    assert REFUSALS[text] in str(refused.value)


@pytest.mark.parametrize("body", REFUSED_STATEMENTS)
def test_what_is_no_statement_is_refused_with_its_line(body):
    with pytest.raises(InputError, match=r"^line [6-9]: ") as refused:
        kernel(body)
    assert REFUSED_STATEMENTS[body] in str(refused.value)


def test_a_message_names_the_file():
    with pytest.raises(InputError, match=r"^gemm\.ptx, line 1: "):
        read_module("x", name="gemm.ptx")
    with pytest.raises(InputError, match="needs the text of a PTX file, not b'x'"):
        read_module(b"x")


PIECES = [
    "{",
    "}",
    ";",
    "[",
    "]",
    "(",
    ")",
    ",",
    "@",
    "!",
    "|",
    "\n",
    " ",
    "0x",
    "0f",
    ".",
    ":",
    "/*",
    "//",
    '"',
    "%r1",
    "L:",
    ".reg",
    ".b8 x[9]",
    "\0",
    "é",
]


@st.composite
def damaged(draw):
    """A real file with a few characters taken out, put in, doubled or moved, perhaps cut off."""
    text = TEXTS[draw(st.sampled_from(sorted(TEXTS)))]
    for _ in range(draw(st.integers(1, 4))):
        at, size = draw(st.integers(0, len(text))), draw(st.integers(0, 40))
        piece = draw(st.sampled_from(["", text[at : at + size] * 2, *PIECES]))
        text = text[:at] + piece + ("" if draw(st.integers(0, 9)) == 0 else text[at + size * (piece not in PIECES) :])
    return text


@examples(150)
@given(damaged())
def test_a_damaged_file_is_a_module_or_a_sentence(text):
    module, sentence = attempt(text)
    if module is None:
        assert 1 <= int(re.match(r"line (\d+): \S", sentence)[1]) <= text.count("\n") + 1
    else:
        assert meaning(read_module(module_text(module))) == meaning(module)


@examples(100)
@given(st.text(st.sampled_from([*'{}[]();,.@%!|+-:\n "/*\0é09axLr', "\ud800"]), max_size=60), st.booleans())
def test_noise_is_a_module_or_a_sentence(text, is_body):
    module, sentence = attempt(f"{HEAD}.entry k() {{ {REGISTERS} {text} }}" if is_body else HEAD + text)
    assert (module is None) == bool(sentence)


@pytest.mark.parametrize("piece", ["{", "[", "(", "ret;", "L", "\n", '"', "/* ", "-", ".", "1"])
def test_a_megabyte_of_one_thing_is_a_module_or_a_sentence(piece):
    module, sentence = attempt(f"{HEAD}.entry k() {{ mov.b32 {piece * (1000000 // len(piece))}")
    assert module is None
    assert len(sentence) < 300


def test_a_name_of_any_length_is_refused_in_a_line():
    with pytest.raises(InputError, match="not declared") as e:
        kernel(f"mov.u32 %r1, %r{'9' * 30_000}x;")
    assert len(str(e.value)) < 500


@pytest.mark.parametrize(("kind", "element"), [("b8", 1), ("u32", 4), ("v2 .f32", 4), ("u64", 8)])
def test_an_index_behind_a_variable_counts_its_elements(kind, element):
    """PTX ISA 9.1 §6.4.2; ptxas makes the same code of w[3] and of three elements' bytes behind w, inside a function or
    outside.
    """
    text = (
        f".version 8.0\n.target sm_90a\n.address_size 64\n.global .{kind} w[8];\n.visible .entry k() {{ .reg .b64 %r<3>; .reg .b32 %a<2>; "
        f".shared .{kind} s[8]; mov.u64 %r1, w[3]; mov.u64 %r2, s[3]; ld.global.u32 %a1, w[2]; ret; }}"
    )
    body = read_module(text).functions["k"].body
    assert [i.operands[1].offset for i in body[:3]] == [3 * element, 3 * element, 2 * element]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ld.shared.u33 %r1, [%r2];", "no instruction with .u33; did you mean .u32?"),
        ("ld.global.v3.u32 {%r1, %r2, %r3}, [%r2];", "no instruction with .v3; did you mean .v"),
        ("tex.1d.v4.f33.s32 {%r1, %r1, %r1, %r1}, [%rd1, {%r2}];", "no instruction with .f33; did you mean .f32?"),
        ("fma.rnd.f32 %f1, %f1, %f1, %f1;", "no instruction with .rnd; did you mean .rn?"),
        ("ld.shared.zq %r1, [%r2];", "no instruction with .zq"),
        ("frob.u32 %r1, %r2;", "PTX has no instruction frob"),
    ],
)
def test_a_word_that_ptx_has_nowhere_is_an_error(line: str, message: str):
    """Not a limit of the model: ptxas refuses it, too."""
    text = f".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<4>;\n{line}\nret; }}"
    with pytest.raises(InputError, match=re.escape(message)):
        Gpu("sm_90a").launch(text, progress=False)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("cvt.rn.satfinite.s2f6x2.f32 %h1, %f1, %f2;", ".s2f6x2"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.ignore_oob [%r1], [%d1], 16, 1, 2, [%r2];", ".ignore_oob"),
        ("nextop.b32 %r1, %r2;", "nextop"),
    ],
)
def test_a_word_of_a_newer_ptx_is_not_modelled(line: str, word: str):
    """The list of words ends with PTX 9.0: a newer text may have others, and is no typing error."""
    registers = ".reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<4>; .reg .b16 %h<4>;"
    for version, kind in (("9.0", InputError), ("9.1", Unmodelled), ("10.0", Unmodelled)):
        text = f".version {version}\n.target sm_100a\n.address_size 64\n.visible .entry k() {{ {registers}\n{line}\nret; }}"
        with pytest.raises(kind, match=f"has no instruction (with )?{re.escape(word)}"):
            Gpu("sm_100a").launch(text, progress=False)


# Each limit: what is just inside of it, and what is just outside, with the words of the refusal.
LIMITS = {
    "vectors": (".reg .v2 .b32 a<4096>;", ".reg .v2 .b32 a<4097>;", "more than 4096 vectors"),
    "digits": (".reg .b32 a<999999999>;", ".reg .b32 a<1000000000>;", "must be a whole number"),
    "128 bits": (".shared .v4 .b32 a;", ".shared .v4 .b64 a;", "has more than 128 bits"),
    "two of 64 bits": (".shared .v2 .b64 a;", ".shared .v4 .f64 a;", "has more than 128 bits"),
    "some bytes": (".shared .b8 a[1];", ".shared .b8 a[0];", "has a size"),
    "2^48 bytes": (".shared .b8 a[281474976710655];", ".shared .b8 a[281474976710657];", "smaller than 2^48 bytes"),
    "parts of video instructions": ("vadd.u32.u32.u32 %r1, %r2.b0, %r3 .h1;", "add.u32 %r1, %r2.b0, 1;", "is no vector register"),
    "a label beside a register": ("%r1: bra %r1;", "bra %r1;", "neither a label"),
}
WHOLE_MODULES = {
    "a reference of global memory": (".global .texref t;", ".const .texref t;", "is a variable of .global"),
    "an address of 8 bytes": (".global .u64 w = x; .global .b8 x[4];", ".global .u32 w = x; .global .b8 x[4];", "an address has 8 bytes"),
    "an address as a number": (".global .b8 x[4]; .global .u64 w = x;", ".global .b8 x[4]; .global .b64 w = x;", "in elements of .u64"),
    "an address that is declared": (".extern .global .b8 x[4]; .global .u64 w = x;", ".global .u64 w = x;", "which nothing declares"),
    "a number with the size of a warp": (".global .b32 w = WARP_SZ;", ".global .b32 w = WARP;", "an address has 8 bytes"),
    "contents": (".global .b8 a[4] = {1};", ".global .b8 a[268435457] = {1};", "268435457 bytes with contents"),
    "a parameter of one extent": (".func f(.param .b32 a[2]);", ".func f(.param .b32 a[2][2]);", "no vector and no predicate"),
    "a predicate in a register": (".func f(.reg .pred a);", ".func f(.param .pred a);", "no vector and no predicate"),
    "a parameter of one number": (".func f(.param .b64 a);", ".func f(.param .v2 .b32 a);", "no vector and no predicate"),
    "results of functions": (".func (.param .b32 x) f() { ret; }", ".entry (.param .b32 x) f() { ret; }", "the name of an entry expected"),
    "parameters with a size": (".entry f(.param .b8 a[1]) { ret; }", ".entry f(.param .b8 a[]) { ret; }", "and has a size"),
    "sections": (".section .debug { { .b8 1 } }", ".section .debug { .b8 1", "has no '}' that ends it"),
    "texts in headers": ('.entry f() .pragma "nounroll"; { ret; }', '.entry f() .pragma "nounroll', "is the file cut off"),
    "sizes of a block": (".entry f() .reqntid 32 { ret; }", ".entry f() .maxntid 32 .reqntid 32 { ret; }", "cannot stand together"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*LIMITS, *WHOLE_MODULES])
def test_what_is_just_inside_of_a_limit_is_read_and_what_is_outside_refused(name):
    right, wrong, words = (LIMITS | WHOLE_MODULES)[name]
    head = ".version 8.8\n.target sm_90a\n.address_size 64\n"
    form = head + (".entry k() { .reg .b32 %r<9>;\n@\nret; }" if name in LIMITS else "@\n")
    assert read_module(form.replace("@", right)) is not None
    with pytest.raises(InputError, match=re.escape(words)):
        read_module(form.replace("@", wrong))


def test_a_location_may_lack_its_column_and_that_of_its_call():
    """Columns say which places are the same: a call at another column of a line is another one."""
    lines = [".loc 1 5", ".loc 1 5 7", ".loc 1 8 1, function_name $f, inlined_at 1 5", ".loc 1 8 1, function_name $f, inlined_at 1 5 7", ".loc 1 8 1, function_name $f, inlined_at 1 5"]  # fmt: skip
    text = "".join(f"{line}\nmov.b32 %r1, 1;\n" for line in lines)
    module = read_module(f'.version 8.8\n.target sm_90a\n.address_size 64\n.file 1 "a.cu"\n.entry k() {{ .reg .b32 %r<9>;\n{text}ret; }}')
    found = [i.location for i in module.functions["k"].body[:5]]
    assert [(one.line, one.caller and one.caller.line) for one in found] == [(5, None), (5, None), (8, 5), (8, 5), (8, 5)]
    assert found[2].caller is found[0]
    assert found[3].caller is found[1]
    assert found[0] is not found[1]
    assert found[4].caller is found[0]
