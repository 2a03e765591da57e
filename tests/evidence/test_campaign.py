"""`smemsim campaign`: chunks say the same every time and the same as the public interface, nothing is lost in a crash,
and what is wrong is found.
"""

import collections
import copy
import functools
import hashlib
import itertools
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import types

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from smemsim import InputError, InstrDescriptor, SmemDescriptor, Unmodelled, operand_addresses, sweep
from smemsim.base import processes
from smemsim.campaign import Case, ChunkResult, Space, Trouble, chunks_of, do_chunk, shrunk
from smemsim.campaign import report as ledgers
from smemsim.campaign.interpreted import interpreted
from smemsim.campaign.oracles import cute_descriptors, cute_layouts, mmasim, mmasim_sync, numpy_formulas, triton_layouts
from smemsim.campaign.spaces import NAMES, ORACLE_NAMES, arithmetic, boxes, cohorts, faults, idesc, keys, paths, plans, ptx, smem, space
from smemsim.campaign.spaces import keys as keys_loops
from smemsim.cli import main
from smemsim.core.layout import loops
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.swizzles import MODES
from smemsim.run.engine.grid import execute
from smemsim.run.procs import shards
from strategies import examples, is_night
from test_gpu_execute import killing, same_launch, scaled

ALONE = {"workers": 1}


def told(report):
    """Everything but how long it took."""
    return {name: value for name, value in report.as_dict().items() if name not in ("elapsed_s", "cases_per_s")}


@functools.cache
def undisturbed():
    """All of the keys, done here in one go."""
    return sweep(["keys"], **ALONE)


def command(*arguments):
    return CliRunner().invoke(main, ["campaign", *map(str, arguments)])


# ---- spaces


@pytest.mark.parametrize("name", ["maps", "paths", "arithmetic", "plans", "check"])
def test_a_case_is_the_same_every_time_whatever_came_before_and_nothing_is_wrong(name):
    found = space(name)
    numbers = [2, 0, 1] if name not in ("plans", "check") else [1, 0]
    first = [found.case(7, 1, number) for number in numbers]
    assert [found.case(7, 1, number) for number in sorted(numbers)] == [one for _, one in sorted(zip(numbers, first, strict=True))]
    assert [one.wrong for one in first] == [""] * len(numbers)
    assert [found.case(8, 1, number) for number in numbers] != first
    assert json.loads(json.dumps([dict(one.shown) for one in first], default=str))


def _drawn(name, count):
    return [dict(one.shown) for one in (space(name).case(7, 3, number) for number in range(count))]


def _programs(of, count):
    """Programs, and what each is made smaller to."""
    drawn_ = [of.draw(random.Random(f"{of.__name__} {number}")) for number in range(count)]
    return [(program.text(), [other.text() for other in of.simpler(program)][:: 1 + number % 7]) for number, program in enumerate(drawn_)]


def _of_oracle(name, count):
    rng, cases = random.Random(name), []
    for _ in range(count):
        case = oracles[name].draw(rng)
        cases.append([case, list(oracles[name].smaller(case))[:40]])
    return cases


def _leaves(x, path=""):
    if isinstance(x, (dict, list, tuple)):
        for key, value in x.items() if isinstance(x, dict) else enumerate(x):
            yield from _leaves(value, f"{path}.{key}")
    else:
        yield path, x


def _mistakes(_, count):
    """What each fault changes in plans of several kinds, and whether the kernel still reads right."""
    found = []
    for rows, dtype, major, arch in (
        (128, "bf16", "K", "sm_90a"), (256, "e4m3", "K", "sm_100a"), (128, "f16", "MN", "sm_90a"), (64, "tf32", "K", "sm_100a"),
    )[:count]:  # fmt: skip
        plan = smemsim.plan(rows, 128, dtype=dtype, major=major, arch=arch)
        right = {key: value for key, value in plan.scenario().items() if key != "expect"}
        for n, name in enumerate(faults.FAULTS):
            wrong = faults.planted(right, name, random.Random(n))
            more = None if wrong is None else sorted({*_leaves(wrong)} - {*_leaves(right)})
            found.append((name, more, None if wrong is None else faults.reads_right(wrong)))
    return found


@pytest.mark.parametrize("at", [0, 1024])
def test_an_operand_reads_the_stage_that_the_load_has_filled(at):
    """A stage that is not named is the first one. A start that lies elsewhere in the buffer reads other bytes."""
    scenario = smemsim.plan(128, 64, dtype="bf16", major="K", arch="sm_90a").scenario()
    buffer = scenario["buffer"][scenario["step"][0]["to"]]
    assert faults.reads_right(scenario)
    for stage_bytes, load, read in itertools.product((None, 16384, 32768), (None, 0, 1, 2), (None, 0, 1, 2)):
        other = copy.deepcopy(scenario)
        if stage_bytes is not None:
            other["buffer"][scenario["step"][0]["to"]] = buffer | {"stage_bytes": stage_bytes}
        for step, stage in ((other["step"][0], load), (other["step"][1]["a"], read)):
            step.update({} if stage is None else {"stage": stage})
        other["step"][1]["a"] |= {"start_offset": at} if at else {}
        assert faults.reads_right(other) == (at == 0 and ((load or 0) == (read or 0) or stage_bytes is None))


oracles = {
    f.__name__.rpartition(".")[2]: f.ORACLE for f in (numpy_formulas, triton_layouts, cute_layouts, cute_descriptors, mmasim, mmasim_sync)
}
THE_SAME = {
    "maps": (_drawn, 60, "0455f75a9264d010"),
    "paths": (_drawn, 40, "b1516beefba797f3"),
    "arithmetic": (_drawn, 12, "8af0fe15f58b3c90"),
    "plans": (_drawn, 5, "1cdee3e81870edea"),
    "smem": (_drawn, 10, "187283c990ea4c85"),
    "idesc-f16": (_drawn, 4, "1d5d63f4bfe9e7f0"),
    "numpy_formulas": (_of_oracle, 60, "2af619e82550bb8f"),
    "triton_layouts": (_of_oracle, 60, "b38eec9ae6bab662"),
    "cute_layouts": (_of_oracle, 60, "a2a56dcada0b9626"),
    "cute_descriptors": (_of_oracle, 60, "9a9cdbf14c7eaa03"),
    "mmasim": (_of_oracle, 60, "56561ed2bba8e375"),
    "mmasim_sync": (_of_oracle, 60, "8cb7d4f1e8905f10"),
    "programs": (lambda _, count: _programs(ptx, count), 30, "a83660116dd30e1a"),
    "programs of CTAs": (lambda _, count: _programs(cohorts, count), 40, "9b2d93d361027d2c"),
    "plans made smaller": (
        lambda _, count: [(drawn_ := plans.draw(random.Random(n)), list(plans.simpler(drawn_))) for n in range(count)],
        40,
        "16fc1fc5ecba137b",
    ),
    "planted faults": (_mistakes, 4, "d24c576b92810393"),
    "changed programs": (
        lambda _, count: [cohorts.mutated(cohorts.draw(random.Random(n)).text(), random.Random(n)) for n in range(count)],
        40,
        "5f7fadc0da3d3360",
    ),
}


@pytest.mark.parametrize("name", THE_SAME)
def test_cases_of_a_seed_are_the_same_on_every_machine_and_in_every_version(name):
    """A ledger goes on where another version left it, and a command shows a case again. Who changes a space on purpose
    writes its digest anew.
    """
    of, count, digest = THE_SAME[name]
    text = json.dumps(of(name, count), default=str)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def test_chunks_of_every_kind_of_space_are_the_same_every_time():
    for name, chunk in (("keys", 9), ("idesc-f16", 40)):
        assert space(name).run(0, chunk) == space(name).run(5, chunk)
    small = Space("maps", "", lambda seed, chunk: ChunkResult(1, {boxes.case(seed, chunk, 0).of: 1}), 1, boxes.case)
    assert [small.run(1, n) for n in range(9)] == [small.run(1, n) for n in range(9)] != [small.run(2, n) for n in range(9)]


def test_descriptors_are_classified_as_problems_and_operand_addresses_do():
    words, of, flags = smem._some(3, 0, range(150))
    seen = collections.Counter()
    for word, operand, found in zip(words.view(np.uint64).tolist(), of.tolist(), flags.tolist(), strict=True):
        given_ = dict(smem.context(operand))
        arch = given_.pop("arch")
        said = SmemDescriptor.decode(word, arch=arch).problems(**given_)
        assert {smem.MEANS[f] for f in smem.MEANS if found & f} == {(f.code, f.severity) for f in said if f.code[0] != "I"}
        seen[smem.class_of(smem.Flag(found))] += 1
        try:
            addresses = operand_addresses(word, arch=arch, **given_)
        except Unmodelled:
            assert found & smem.Flag.UNKNOWN
            continue
        assert bool(found & smem.Flag.ALIASES) is (len({*addresses.ravel().tolist()}) < _apart(addresses, given_))
    assert len(seen) >= 9


def _apart(addresses, operand):
    """Addresses of an operand that shares no byte: elements that share a byte by their width count once."""
    bits = smem.element_format(operand["dtype"]).bits
    stored = smem.element_format(operand["dtype"]).elements_per_chunk(operand["packing"])
    along = operand["k"] if operand["major"] == "K" else operand["rows"]
    bytes_of_chunk = len({e * bits // 8 for e in range(stored)})
    lines = addresses.size // along
    whole, rest = divmod(along, stored)
    return lines * (whole * bytes_of_chunk + len({e * bits // 8 for e in range(rest)}))


@pytest.mark.parametrize("first", [0, 3 << 12])
def test_words_are_counted_by_class_and_each_class_names_its_first_word(first):
    """As if each word was looked up by itself."""
    rng, count = np.random.default_rng(first), 4 << 12
    shifts = np.array([[[0, 7, 0], [11, 15, 3]], [[5, 31, 0], [13, 3, 5]]], np.int64)  # bits 0 to 2 and 11 to 14; 5 to 9 and 13 to 14
    entries = np.stack([rng.integers(0, 4, 128), 4 * (rng.random(128) < 0.01)]).astype(np.uint32)
    words, classes = np.arange(first, first + count), np.zeros(count, np.int64)
    idesc.look_up(words, shifts, entries, classes)
    counts, firsts = np.zeros(8, np.int64), np.full(8, -1, np.int64)
    idesc.sweep(first, count, shifts, entries, counts, firsts)
    assert counts.tolist() == np.bincount(classes, minlength=8).tolist()
    assert firsts.tolist() == [next((int(word) for word in words[classes == one]), -1) for one in range(8)]


def test_every_class_of_descriptors_comes_in_a_sweep():
    flags = smem._some(0, 0, range(60_000))[2]
    seen = {smem.class_of(smem.Flag(f)) for f in np.unique(flags).tolist()}
    assert seen == {name for name, _ in smem.CLASSES if "wrong" not in name} | {"legal"}


def test_no_swizzle_mode_comes_much_more_often_than_another_and_few_words_have_none():
    words, of, _ = smem._some(0, 0, range(2000))
    modes = collections.defaultdict(collections.Counter)
    for word, operand in zip(words.view(np.uint64).tolist(), of.tolist(), strict=True):
        arch = smem.context(operand)["arch"]
        modes[arch][str(SmemDescriptor.decode(word, arch=arch).swizzle)] += 1
    for found in modes.values():
        valid = [count for name, count in found.items() if name != "invalid"]
        assert 3 * min(valid) > max(valid), found
        assert 6 * found["invalid"] < found.total(), found


@examples(60)
@given(st.sampled_from(["f16", "f8f6f4", "mxf8f6f4", "mxf4"]), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1), st.booleans())
def test_instruction_descriptors_are_classified_as_problems_does(kind, word, bits, near):
    if near:
        word = InstrDescriptor(kind=kind, n=64).word ^ (bits & bits >> 8 & bits >> 16 & 0xFFFFFFFF)
    said = [f for f in InstrDescriptor.decode(word, kind=kind).problems() if f.where != "kind" or f.code != "I603"]
    grave = any(f.severity in ("trap", "wrong") for f in said)
    found = idesc.broken_by(word, kind)
    assert found.startswith("breaks") is grave
    assert found == "legal" if not said else found != "legal"


def test_a_product_that_is_not_doubled_with_its_operands_is_told():
    """Of most drawn products the law says something, and of each of these it finds a result that is a bit off."""
    judged = found = 0
    for seed in range(9):
        p = arithmetic.Product(random.Random(seed))
        if p.is_integer or (said := arithmetic.LAWS["doubled"](p, random.Random(0))) is None:
            continue
        judged += 1
        assert said == ""
        plain = p.d
        p.d = lambda plain=plain, **changes: plain(**changes) ^ plain().dtype.type(bool(changes))
        found += (arithmetic.LAWS["doubled"](p, random.Random(0)) or "").startswith("2A and 2C: D[")
    assert judged == found > 2


@pytest.mark.parametrize(("block", "least", "most"), [(16, 8, 0x70), (32, 1, 0xF0)])
def test_factors_of_a_scaled_product_are_doubled_where_they_have_room(block, least, most):
    """The next binade of ue4m3 is 8 codes on, that of ue8m0 the next code. Below the normal numbers and near the largest
    one nothing is said.
    """
    drawn = (arithmetic.Product(random.Random(seed)) for seed in itertools.count())
    p = next(p for p in drawn if p.block == block and not p.any_bits and (p.given["scale_type"] == "ue4m3") == (block == 16))
    law = arithmetic.LAWS["doubled"]
    assert law(p, random.Random(0)) == ""
    for code, says in ((least, ""), (least - 1, None), (most, ""), (most + 1, None), (0xC0, "")):  # the highest bit of ue4m3 says nothing
        p.given["scale_a"][0, 0] = code
        assert law(p, random.Random(0)) == says, code
    p.given["scale_a"][0, 0] = most
    plain = p.d
    p.d = lambda **changes: plain(**{name: x + (name == "scale_a") for name, x in changes.items()}).astype(plain().dtype)
    assert law(p, random.Random(0)).startswith("2A and 2C: D[")


def test_numbers_that_have_no_double_are_not_judged():
    """A that is subnormal or too large, or C that does not outweigh the zeros or overflows."""
    drawn = (arithmetic.Product(random.Random(seed)) for seed in itertools.count())
    p = next(p for p in drawn if p.types[0] == "f16" and p.types[2] == "f32" and not p.any_bits)
    law, a, c = arithmetic.LAWS["doubled"], p.a.copy(), p.c.copy()
    # codes of f16: 0, the smallest normal number and the one below, half of the largest number and all of it, infinity
    for code, says in ((0, ""), (0x8000, ""), (0x0400, ""), (0x03FF, None), (0x7BFF - 0x400, ""), (0x7BFF, None), (0xFC00, None)):
        p.a = a.copy()
        p.a[0, 0] = code
        assert law(p, random.Random(0)) == says, hex(code)
    p.a = a
    for code, says in (
        (0x3F800000, ""),
        (0xBF800000, ""),
        (0x3F7FFFFF, None),
        (0, None),
        (0x7F7FFFFF, None),
        (0x7F800000, None),
        (0x7FC00000, None),
    ):
        p.c = np.full_like(c, code)  # f32: 1, -1, a bit less, 0, the largest number, infinity, NaN
        assert law(p, random.Random(0)) == says, hex(code)


def test_every_law_of_sums_holds_for_zeros_too_and_finds_one_wrong_bit():
    """The law on one element at a time and the exact one look at D itself, the others at what changed operands give."""
    found = collections.Counter()
    for seed in range(6):
        p = arithmetic.Product(random.Random(seed))
        laws = arithmetic.INTEGER_LAWS if p.is_integer else arithmetic.LAWS
        assert {law(p, random.Random(1)) for law in laws.values()} <= {"", None}
        plain, (p.a, p.b, p.c) = p.d, (np.zeros_like(x) for x in (p.a, p.b, p.c))
        assert p.block or not p.d().any()  # a scale of 255 is a NaN
        assert {law(p, random.Random(1)) for law in laws.values()} <= {"", None}
        for name, law in laws.items():
            p.d = lambda plain=plain, by=name in ("step by step", "exact"), **changes: (
                plain(**changes) ^ plain().dtype.type(by or bool(changes))
            )
            found[name] += (law(p, random.Random(1)) or "") != ""
    assert found.keys() == arithmetic.LAWS.keys() | arithmetic.INTEGER_LAWS.keys()
    assert all(found[name] for name in found if name != "doubled"), found  # of zeros that law says nothing


def test_sums_of_integers_are_exact_for_every_type_clamped_or_not():
    seen = set()
    for seed in range(400):
        p = arithmetic.Product(random.Random(seed))
        key = (*p.types, p.saturate)
        if not p.is_integer or key in seen:
            continue
        seen.add(key)
        assert arithmetic.INTEGER_LAWS["exact"](p, random.Random(1)) == ""
        p.d = lambda plain=p.d: plain() ^ plain().dtype.type(1)
        assert arithmetic.INTEGER_LAWS["exact"](p, random.Random(1)).startswith("exact sums: D[0, 0]")
    assert {(a, clamped) for a, _, _, clamped in seen} >= {("s8", True), ("s8", False), ("u8", True), ("u8", False), ("b1", False)}


def test_a_chunk_of_instruction_descriptors_counts_every_word_once():
    result = space("idesc-f16").run(0, 8)
    assert sum(result.classes.values()) == result.cases == 1 << 24
    legal = InstrDescriptor(kind="f16", m=128, n=256, a_type="bf16", b_type="bf16").word
    assert legal >> 24 == 8
    assert 0 < result.classes["legal"] < 1 << 14


def test_tables_of_exchanged_halves_are_the_xor():
    for size in (1, 2, 4, 8):
        assert keys.halves(size) == tuple(tuple(unit ^ line for unit in range(size)) for line in range(size))
    for mode in MODES.values():
        for base in range(8):
            for address in random.Random(base).sample(range(1 << 18), 40):
                assert int(keys.placed_by_table(address, base, mode)) == swizzle(address, base, mode.mask, mode.shift)


def test_interpreted_loops_are_python_all_the_way_down():
    slow = interpreted(loops)
    assert not any(hasattr(value, "py_func") for value in vars(slow).values())
    assert slow.k_major_chunk(1024, 16, 1024, 128, 9, 0) == 2176


@pytest.mark.parametrize("name", list(faults.FAULTS))
def test_every_planted_fault_changes_something_and_is_judged(name):
    p = smemsim.plan(128, 64, dtype="bf16", major="K", arch="sm_100a" if name.startswith("idesc") else "sm_90a")
    scenario = {key: value for key, value in p.scenario().items() if key != "expect"}
    assert faults.reads_right(scenario) is True
    wrong = faults.planted(scenario, name, random.Random(3))
    assert wrong is not None
    assert wrong != scenario
    of, what = faults.judged(wrong, faults.FAULTS[name].codes)
    assert what == ""
    assert of.startswith(("named", "reads right")), of


def test_a_fault_that_check_names_otherwise_is_a_trouble():
    p = smemsim.plan(128, 64, dtype="bf16", major="K", arch="sm_90a")
    wrong = faults.planted({k: v for k, v in p.scenario().items() if k != "expect"}, "K steps that do not advance", random.Random(0))
    of, what = faults.judged(wrong, "D308")
    assert of == "wrong: another cause"
    assert "R502" in what


@examples(200)
@given(st.integers(0, 1 << 16), st.integers(0, 1 << 16))
def test_a_case_made_small_is_still_wrong_and_no_simpler_one_is(start, limit):
    def simpler(n):
        return (n // 2, n - 1) if n else ()

    found = shrunk(start, simpler, lambda n: n >= limit, most=1 << 18) if start >= limit else None
    assert found in (None, limit)


@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_case_is_made_small_in_at_most_so_many_attempts(most):
    asked = []
    found = shrunk(100, lambda n: (n - 1,), lambda n: asked.append(n) is None, most=most)
    assert (found, len(asked)) == (100 - most, most)


# ---- what is wrong is found


def wrong_addresses(start, lbo, sbo, base_offset, width, mask, shift, out):
    keys_addresses(start, lbo, sbo, base_offset, width, mask, shift, out)
    if mask == 7 and base_offset == 2:
        out[5, 1] ^= 16


keys_addresses = keys_loops.addresses


def test_a_formula_that_is_wrong_is_found_filed_and_shown_again(monkeypatch, tmp_path):
    monkeypatch.setattr(keys_loops, "addresses", wrong_addresses)
    out = tmp_path / "troubles"
    result = command("keys", "--workers", 1, "--out", out, "--ledger", tmp_path / "l.db")
    assert result.exit_code == 1, result.output
    assert "64  128B wrong: another address" in result.stdout  # one of every phase
    (path,) = out.iterdir()
    filed = json.loads(path.read_text())
    assert filed["case"]["row"] == 5
    assert filed["reproduce"] in result.stdout
    again = command(*filed["reproduce"].split()[2:])
    assert again.exit_code == 1
    assert again.stdout.rstrip().endswith(filed["what"])
    monkeypatch.setattr(keys_loops, "addresses", keys_addresses)
    assert command(*filed["reproduce"].split()[2:]).exit_code == 0


def test_a_descriptor_that_is_classified_otherwise_is_made_small(monkeypatch):
    honest = smem.said
    monkeypatch.setattr(
        smem, "said", lambda word, operand: ({("D999", "wrong")}, *honest(word, operand)[1:]) if word >> 20 & 1 else honest(word, operand)
    )
    words, of, flags = smem._some(0, 0, range(40))
    wrong = [
        smem._case(w, o, smem.Flag(f))
        for w, o, f in zip(words.view(np.uint64).tolist(), of.tolist(), flags.tolist(), strict=True)
        if w >> 20 & 1
    ]
    assert wrong
    assert {one.shown["small"] for one in wrong} == {f"{1 << 20:#018x}"}
    assert all("D999" in one.wrong for one in wrong)


SLOW = types.SimpleNamespace  # stands for loops that are interpreted
# What is wrong in a space: what is put in the place of what, and what the space says of the first case that meets it.
PLANTED = {
    "an element of a box": ("maps", boxes, "element_by_element", lambda right: lambda *a: dict(list(right(*a).items())[1:]), 0, "wrong: a load differs", "instead of None"),
    "bytes of a map": ("maps", boxes, "TensorMap", lambda right: SLOW(tiled=right.tiled, from_bytes=lambda raw: right.tiled(**MAP)), 0, "wrong: other bytes", " becomes "),
    "a refusal": ("maps", boxes, "TensorMap", lambda right: SLOW(tiled=lambda **a: right.tiled(**a | {"box_dim": (9999,) * len(a["box_dim"])})), 0, "wrong: a legal map is refused", "box"),
    "an address": ("paths", paths, "chunk_address", lambda right: lambda *a: right(*a) + 16, 0, "wrong: operand addresses", "by operand_addresses, at 0x"),
    "a transfer": ("paths", paths, "_slow", lambda right: lambda module: SLOW(**vars(right(module)) | {"reach": lambda *a: (0, 0, 0, 2)}), 0, "wrong: transfers", "shared_end differs between the compiled and the interpreted loop"),
    "a sum": ("paths", paths, "_slow", lambda right: lambda module: SLOW(**{n: getattr(right(module), n) for n in ("exponent_all", "float_sums")} | {"float_sums": lambda *a: a[9].fill(7)}) if module is paths.dot_loops else right(module), 0, "wrong: dot products", " compiled, 0x7 interpreted"),
    "a law": ("arithmetic", arithmetic, "LAWS", lambda right: right | {"negated": lambda p, rng: "no"}, 0, "wrong: negated", "no"),
    "a plan": ("plans", plans, "check", lambda right: lambda scenario: right({**scenario, "buffer": {n: b | {"address": b["address"] + 64} for n, b in scenario["buffer"].items()}}), 0, "wrong: a correct plan raises an alarm", "A101"),
    "a blind check": ("check", faults, "check", lambda right: lambda scenario: SLOW(findings=(), codes=()), 1, "wrong: missed", "the operand reads other elements and check finds nothing"),
    "a vain repair": ("check", faults, "_number", lambda right: lambda new: 0, 0, "wrong: the repair leaves findings", ": then "),
}  # fmt: skip
MAP = {"data_type": "u8", "global_address": 4096, "global_dim": (64, 8), "global_strides": (64,), "box_dim": (64, 8)}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_wrong_in_a_space_is_told_by_it(what, monkeypatch):
    name, module, member, wrong, first, of, says = PLANTED[what]
    monkeypatch.setattr(module, member, wrong(getattr(module, member)))
    cases = (space(name).case(7, 1, number) for number in range(first, 60))
    found = next(one for one in cases if one.wrong)
    assert found.of.startswith(of)
    assert says in found.wrong
    assert found.shown


def leaves(tree, at=()):
    """The numbers and words of a scenario, by where they stand."""
    if not isinstance(tree, (dict, list)):
        return {at: tree}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {place: leaf for key, one in items for place, leaf in leaves(one, (*at, key)).items()}


def test_the_scenario_of_a_missed_fault_is_the_small_plan_with_the_fault_alone(monkeypatch):
    """What is shown can be read, and run again: it is that of the plan that is left after all that it needs not."""
    monkeypatch.setattr(faults, "check", lambda scenario: SLOW(findings=(), codes=()))
    wrong = [one.shown for number in range(12, 23) if (one := space("check").case(7, 1, number)).wrong]
    assert len(wrong) >= 3
    for shown in wrong:
        assert shown["small"] != shown["plan"]
        plan = leaves({key: of for key, of in faults.unchecked(**shown["small"]).scenario(shown["form"]).items() if key != "expect"})
        told = leaves(shown["scenario"])
        assert 1 <= len({*plan.items()} ^ {*told.items()}) <= 8
        assert faults.reads_right(shown["scenario"]) is False


def test_an_instruction_descriptor_that_is_classified_otherwise_is_made_small(monkeypatch):
    right, monkey = idesc._by_problems, 1 << 20
    monkeypatch.setattr(idesc, "_by_problems", lambda word, kind: "odd" if word & monkey else right(word, kind))
    found = idesc.case_of_word(0xFFFFFFFF, "f16")
    assert (found.of, found.shown["small"]) == ("wrong: unlike problems()", f"{monkey:#010x}")
    assert "problems() says 'odd'" in found.wrong
    assert idesc.case_of_word(0xFFFFFFFF & ~monkey, "f16").wrong == ""


RAN = (tuple(np.arange(n, dtype=np.uint64).tobytes() for n in (400, 400)), (("X008", 3, "a race"),), ((1, 2), (3, 4)))
OF_CTAS = ((b"1", b"2"), 0, (("X008", 1),), ())


@pytest.mark.parametrize(
    ("of", "one", "other", "says"),
    [
        (ptx, RAN, RAN, ""),
        (ptx, "refused", "refused", ""),
        (ptx, "refused", RAN, "closures say refused, machine code says nothing"),
        (ptx, RAN, "refused", "closures say nothing, machine code says refused"),
        (ptx, RAN, ((RAN[0][0], RAN[0][0][:-8] + bytes(8)), *RAN[1:]), " of closures, 0x0 of machine code; 1 words differ"),
        (ptx, RAN, ((bytes(8) + bytes(8) + RAN[0][0][16:], RAN[0][1]), *RAN[1:]), "word 1 of in of thread 0 is 0x1 of closures, 0x0 of machine code; 1 words differ"),
        (ptx, RAN, (*RAN[:2], ((1, 2), (3, 5))), "closures count [(3, 4)], machine code counts [(3, 5)]"),
        (ptx, RAN, (RAN[0], (), RAN[2]), "closures find [('X008', 3, 'a race')], machine code finds []"),
        (cohorts, OF_CTAS, OF_CTAS, ""),
        (cohorts, "refused", OF_CTAS, "as one: refused; one by one: runs"),
        (cohorts, OF_CTAS, "refused", "as one: runs; one by one: refused"),
        (cohorts, OF_CTAS, ((b"1", b"3"), *OF_CTAS[1:]), "other bytes in an array"),
        (cohorts, OF_CTAS, (OF_CTAS[0], 700, *OF_CTAS[2:]), "status 0 as one, 700 one by one"),
        (cohorts, OF_CTAS, (*OF_CTAS[:2], (), ()), "as one: [('X008', 1)]; one by one: []"),
        (cohorts, (*OF_CTAS[:2], (("X008", 1), ("X003", 2)), ()), (*OF_CTAS[:2], (("X003", 2), ("X008", 1)), ()), "as one: []; one by one: [] (the same findings in another order)"),
    ],
)  # fmt: skip
def test_what_two_runs_differ_in_is_a_sentence(of, one, other, says):
    found = of.difference(one, other)
    assert found.endswith(says)
    assert bool(found) == bool(says)


def test_exceptions_nobody_expected_are_troubles(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("no lines")

    monkeypatch.setattr(keys, "walked", broken)
    result, _ = do_chunk("keys", 0, 0)
    assert result.cases == 0
    assert "ZeroDivisionError: no lines" in result.troubles[0].what
    monkeypatch.setattr(boxes, "draw", broken)
    one_ = space("maps").run(0, 0)
    assert one_.classes == {"wrong: raises ZeroDivisionError": space("maps").chunk_cases}
    assert len(one_.troubles) == 1


# ---- chunks, shards, ledgers


@pytest.mark.parametrize("shard", ["2", "a/4", "9" * 5000 + "/" + "9" * 5000])
def test_a_shard_that_is_none_is_a_sentence(shard):
    done = CliRunner().invoke(main, ["campaign", "keys", "--shard", shard])
    assert done.exit_code == 2
    assert "needs I/N, as 2/4" in done.output
    assert len(done.output) < 200


@examples(100)
@given(st.integers(1, 9), st.one_of(st.none(), st.integers(1, 1 << 40)), st.sampled_from(NAMES))
def test_shards_part_the_chunks_among_them(of, cases, name):
    whole = chunks_of(space(name), cases, endless=False, shard=(1, 1))
    parts = [chunks_of(space(name), cases, endless=False, shard=(i, of)) for i in range(1, of + 1)]
    if cases is not None or space(name).chunks:
        assert sum(map(len, parts)) == len(whole)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert {part[0] for part in parts if part} == set(whole[:of])
        assert len(whole) == min(space(name).chunks or 1 << 62, -(-(cases or 1 << 62) // space(name).chunk_cases))
    else:
        assert [list(part) for part in parts] == [[i] for i in range(of)]


def test_what_the_shards_find_is_what_one_machine_finds():
    whole = undisturbed()
    assert whole.spaces[0].is_whole
    assert whole.cases == len(MODES) * keys.BASES * keys.PER_CHUNK
    total = collections.Counter()
    for i in (1, 2, 3):
        total.update(sweep(["keys"], shard=(i, 3), **ALONE).spaces[0].classes)
    assert total == whole.spaces[0].classes


def test_a_ledger_goes_on_where_it_was_and_gives_the_same_report(tmp_path):
    path, steps = tmp_path / "l.db", []
    first = sweep(["keys"], cases=20 * keys.PER_CHUNK, ledger=path, **ALONE)
    assert first.spaces[0].chunks == 20
    second = sweep(["keys"], ledger=path, progress=lambda p: steps.append((p.cases, p.chunks, p.troubles)), **ALONE)
    assert steps[-1] == (44 * keys.PER_CHUNK, 44, 0)
    assert told(second) == told(undisturbed())
    again = sweep(["keys"], ledger=path, progress=lambda p: pytest.fail("a chunk was done twice"), **ALONE)
    assert told(again) == told(second)
    assert again.elapsed == second.elapsed > first.elapsed > 0


KILLED = """
import os, signal, sys
from smemsim import sweep
if __name__ == "__main__":
    sweep(["keys"], ledger=sys.argv[1], workers=int(sys.argv[2]), progress=lambda p: p.chunks >= 10 and os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_campaign_killed_in_the_middle_ends_with_the_report_of_an_undisturbed_one(tmp_path):
    path, script = tmp_path / "l.db", tmp_path / "killed.py"
    script.write_text(KILLED)
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(smemsim.__file__).parents[1])}
    done = subprocess.run([sys.executable, script, path, "2"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with sqlite3.connect(path) as db:
        kept = {number for (number,) in db.execute("SELECT number FROM chunk")}
    db.close()
    assert 10 <= len(kept) < 64
    steps = []
    resumed = sweep(["keys"], ledger=path, progress=lambda p: steps.append(p.chunks), **ALONE)
    assert steps[-1] == 64 - len(kept)
    assert told(resumed) == told(undisturbed())


def test_ledgers_refuse_what_they_were_not_begun_with(tmp_path, monkeypatch):
    path = tmp_path / "l.db"
    sweep(["keys"], cases=1, ledger=path, **ALONE)
    for change, sentence in (
        ({"seed": 1}, r"begun with seed 0, asked for now is 1"),
        ({"spaces": ["keys", "maps"]}, "begun with spaces and their chunks keys, asked for now is keys, maps"),
        ({"shard": (1, 2)}, "shard"),
    ):
        with pytest.raises(InputError, match=sentence):
            sweep(**{"spaces": ["keys"], "cases": 1, "ledger": path, **ALONE} | change)
    monkeypatch.setattr("smemsim.campaign.sweep.version", lambda: "0.0.9+0")
    with pytest.raises(InputError, match=r"begun with smemsim .*, asked for now is 0\.0\.9\+0; name another file"):
        sweep(["keys"], cases=1, ledger=path, **ALONE)
    (tmp_path / "text").write_text("no ledger at all, but some text that is long enough\n" * 40)
    with pytest.raises(InputError, match="not a ledger"):
        sweep(["keys"], cases=1, ledger=tmp_path / "text", **ALONE)
    with pytest.raises(InputError, match="cannot be opened"):
        sweep(["keys"], cases=1, ledger=tmp_path / "nowhere" / "l.db", **ALONE)


def test_two_campaigns_do_not_write_one_ledger(tmp_path):
    book = ledgers.Ledger(tmp_path / "l.db", {"seed": 0})
    with pytest.raises(InputError, match="another campaign is writing it"):
        ledgers.Ledger(tmp_path / "l.db", {"seed": 0})
    book.close()
    ledgers.Ledger(tmp_path / "l.db", {"seed": 0}).close()


@examples(30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 99)), max_size=20))
def test_a_chunk_counts_once_however_often_it_is_recorded(records):
    book, want = ledgers.Ledger(None, {}), {}
    for number, cases in records:
        book.record("s", number, ChunkResult(cases, {"fine": cases}, (Trouble("what", {"x": 1}, "again"),)), 1.0, 0.25)
        want.setdefault(number, cases)
    assert {number: one.cases for number, one in book.chunks("s").items()} == want
    assert book.done("s") == set(want)
    assert book.elapsed == 0.25 * len(records)
    book.close()


def test_time_ends_a_campaign_and_every_space_had_some_of_it():
    report = sweep(["keys", "maps"], seconds=0.5, **ALONE)
    assert all(s.chunks for s in report.spaces)
    assert report.elapsed < 20


def test_a_worker_that_dies_is_replaced(monkeypatch):
    from concurrent.futures.process import BrokenProcessPool

    from smemsim.campaign import sweep as workers

    class Dying(workers.Crew):
        """Every third chunk is lost."""

        asked = 0

        def submit(self, name, seed, chunk):
            self.asked += 1
            future = super().submit(name, seed, chunk)
            if self.asked % 3 == 0:
                future = type(future)()
                future.set_exception(BrokenProcessPool())
            return future

        def survives(self, error):
            return isinstance(error, BrokenProcessPool)

    monkeypatch.setattr(workers, "_Processes", Dying)
    assert told(sweep(["keys"], workers=2)) == told(undisturbed())


@pytest.fixture(scope="module")
def cluster():
    """Two workers on this machine; one that is killed is replaced."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install 'smemsim[campaign]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(pathlib.Path(smemsim.__file__).parents[1]))
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
            yield cluster


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2)
        yield client


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_loses_a_worker_and_nothing_else(cluster, client, tmp_path):
    steps, killed = [], []
    pids = list(client.run(os.getpid).values())

    def progress(p):
        steps.append(p.chunks)
        if p.chunks >= 5 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    report = sweep(["keys"], dask=cluster.scheduler_address, ledger=tmp_path / "l.db", progress=progress)
    assert killed
    assert len(set(pids)) == 2
    assert steps[-1] == 64
    assert told(report) == told(undisturbed())


@pytest.mark.filterwarnings("default")
def test_a_launch_on_a_dask_cluster_gives_the_same_also_when_it_loses_a_worker(client):
    if not is_night():
        pytest.skip("by night; by day the test above loses a worker of a cluster, and test_gpu_execute.py a process of a launch")
    ctas = 1024
    one, (_, expected) = scaled(ctas=ctas)
    execute(one)
    two, (_, out) = scaled(ctas=ctas, client=client)
    pids = list(client.run(os.getpid).values())
    done, killed = killing(lambda: pids)
    assert shards.execute_spread(two, done=done)
    assert sum(killed) == ctas
    assert (out.numpy() == expected.numpy()).all()
    same_launch(one, two)


def test_no_dask_scheduler_is_a_sentence():
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with pytest.raises(InputError, match="no Dask scheduler"):
        sweep(["keys"], cases=1, dask="nowhere")


# ---- the report and the command line


def test_the_report_of_a_campaign(snapshot):
    report = sweep(["keys"], cases=60 * keys.PER_CHUNK, shard=(3, 4), **ALONE)
    *lines, version, cases, _time = report.text().splitlines()
    assert "\n".join([*lines, cases]) == snapshot
    assert version == f"smemsim {processes.version()}, seed 0, shard 3/4"
    assert json.loads(json.dumps(report.as_dict()))["spaces"][0]["classes"] == report.spaces[0].classes


@pytest.mark.parametrize("count", [0, 1, 2, 20, 21, 45])
@pytest.mark.parametrize(
    ("shard", "interrupted", "end"), [((1, 1), False, ""), ((1, 2), True, ", shard 1/2; broken off"), ((2, 2), False, ", shard 2/2")]
)
def test_a_report_has_what_fits_on_a_screen_and_json_has_all(count, shard, interrupted, end):
    """24 classes, those that are wrong first and then the largest, and 20 troubles."""
    classes = {f"class {n}": 3 + n % 5 for n in range(23 + count % 3)} | {"wrong: a": 1}
    troubles = tuple(smemsim.campaign.Trouble(f"what {n}", {"n": n}, f"smemsim campaign --reproduce maps:0:{n}:0") for n in range(count))
    cases = sum(classes.values())
    spaces = (
        ledgers.SpaceReport("maps", "boxes", cases, 1, None, classes, troubles[:1]),
        ledgers.SpaceReport("keys", "all of them", 5000, 64, 64, {"legal": 5000}, troubles[1:]),
        ledgers.SpaceReport("smem", "none yet", 0, 1, 2000, {"nothing": 0}, ()),
        ledgers.SpaceReport("plans", "drawn", 7, 1200, None, {}, ()),
    )
    report = ledgers.CampaignReport(spaces, 5, shard, 2.5, version="9", interrupted=interrupted)
    text = report.text().splitlines()
    assert (report.ok, report.cases, len(report.troubles)) == (count == 0, cases + 5007, count)
    assert [line for line in text if " cases in " in line] == [
        f"  {cases} cases in 1 chunk", "  5,000 cases in all 64 chunks there are", "  0 cases in 1 of 2,000 chunks", "  7 cases in 1,200 chunks",
    ]  # fmt: skip
    ordered = sorted(classes, key=lambda name: (name[0] != "w", -classes[name], name))
    shown = [f"  {classes[name] / cases:8.3%} {classes[name]:>15,}  {name}" for name in ordered]
    rest = sum(classes[name] for name in ordered[24:])
    more = [f"  {rest / cases:8.3%} {rest:>15,}  {len(ordered) - 24} smaller classes (--json has them)"] * (len(ordered) > 24)
    assert text[2 : text.index("keys: all of them")] == shown[:24] + more
    assert [line for line in text if line.endswith("  nothing")] == [f"  {0:8.3%} {0:>15,}  nothing"]
    told_ = [line for n in range(min(count, 20)) for line in (f"trouble: what {n}", f"  smemsim campaign --reproduce maps:0:{n}:0")]
    begin = text.index("  7 cases in 1,200 chunks") + 1
    assert text[begin:] == [
        *told_, *[f"and {count - 20} more troubles"] * (count > 20), "rules for sm_100a and sm_103a are witnessed (by programs that are right on a B200), documented,", "  compiled (in compilers' output) or inferred: nothing is measured on Blackwell",
        f"smemsim 9, seed 5{end}", f"{cases + 5007:,} cases, {count or 'no'} trouble{'s' * (count != 1)}", f"2.5 s, {(cases + 5007) / 2.5:,.0f} cases a second",
    ]  # fmt: skip
    said = report.as_dict()
    assert [len(one["troubles"]) for one in said["spaces"]] == [min(count, 1), max(count - 1, 0), 0, 0]
    assert [one["whole"] for one in said["spaces"]] == [False, True, False, False]
    assert (said["ok"], said["seed"], said["shard"], said["interrupted"], said["elapsed_s"]) == (count == 0, 5, [*shard], interrupted, 2.5)
    assert (said["cases_per_s"], said["version"], said["cases"]) == (round(report.cases / 2.5, 1), "9", report.cases)
    at_once = ledgers.CampaignReport(spaces[3:], 0, (1, 1), 0.0)
    assert at_once.text().endswith("0.0 s, 7,000,000,000 cases a second")
    assert at_once.as_dict()["cases_per_s"] == 7e9


def test_every_space_is_listed_and_says_what_it_is():
    lines = command("--list").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [*NAMES, *ORACLE_NAMES]
    listed = json.loads(command("--list", "--json").stdout)
    assert {one["name"]: one["chunks"] for one in listed} == {name: space(name).chunks for name in NAMES} | dict.fromkeys(ORACLE_NAMES)


def test_chunks_and_cases_are_shown_again():
    chunk = command("--reproduce", "keys:0:31", "--json")
    assert chunk.exit_code == 0
    assert json.loads(chunk.stdout)["cases"] == keys.PER_CHUNK
    one = command("--reproduce", "smem:0:3:17", "--json")
    assert one.exit_code == 0
    assert json.loads(one.stdout) == json.loads(json.dumps({"class": (c := smem.case(0, 3, 17)).of, "wrong": "", "case": c.shown}))


@pytest.mark.parametrize("words", [
    ["keyz"], ["--cases", "many"], ["--cases", "0"], ["--cases", "nan"], ["--shard", "4/3"], ["--shard", "0/1"], ["--shard", "1"], ["--seed", "-1"],
    ["--seed", str(1 << 70)], ["--workers", "0"], ["--seconds", "-1"], ["--seconds", "nan"], ["--reproduce", "keys"], ["--reproduce", "keys:0:64"],
    ["--reproduce", "keys:0:x"], ["--reproduce", "keys:0:0:131072"], ["--reproduce", "keys:0:0:0:0"], ["--out", "/dev/null/x"],
])  # fmt: skip
def test_bad_input_is_a_sentence(words):
    result = command("keys", *words) if words[0] != "keyz" else command(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert len(result.stderr.splitlines()) <= 5


@pytest.mark.parametrize("change", [
    {"spaces": 5}, {"spaces": [None]}, {"cases": 1.5}, {"seconds": "x"}, {"seed": "x"}, {"shard": 3}, {"shard": (1, 2, 3)}, {"workers": 1.5},
])  # fmt: skip
def test_arguments_that_are_none_are_sentences(change):
    with pytest.raises(InputError):
        sweep(**{"spaces": ["keys"], "cases": 1, **ALONE} | change)


def test_architectures_of_the_sweep_are_those_of_the_package():
    assert {smem.context(i)["arch"] for i in range(len(smem.contexts()))} == set(ARCHITECTURES)
    assert isinstance(smem.case(0, 0, 0), Case)


def test_a_fault_that_check_refuses_is_no_trouble_and_says_why(monkeypatch):
    p = smemsim.plan(128, 64, dtype="bf16", major="K", arch="sm_90a")
    scenario = {k: v for k, v in p.scenario().items() if k != "expect"} | {"arch": "sm_1"}
    assert faults.judged(scenario, "D308") == ("refused", "")
    monkeypatch.setattr(faults, "check", lambda scenario: (_ for _ in ()).throw(smemsim.InputError("")))
    assert faults.judged(scenario, "D308") == ("refused", "an InputError without a sentence")


def test_processes_of_a_pool_import_nothing_from_the_current_folder(tmp_path, monkeypatch):
    """Modules that multiprocessing imports before it takes over the path of its parent."""
    monkeypatch.chdir(tmp_path)
    for module in ("pickle", "selectors", "signal", "socket", "struct", "tempfile"):
        (tmp_path / f"{module}.py").write_text("import os; os._exit(7)")
    with processes.pool(1) as pool:
        assert pool.submit(abs, -3).result(timeout=60) == 3
    assert "PYTHONSAFEPATH" not in os.environ


def test_a_campaign_that_ctrl_c_broke_off_does_not_end_like_one_that_found_nothing(monkeypatch):
    def interrupted(progress):
        raise KeyboardInterrupt

    monkeypatch.setattr("smemsim.cli.campaign._line", interrupted)
    done = CliRunner().invoke(main, ["campaign", "keys", "--workers", "1"])
    assert done.exit_code == 130
    assert "; broken off" in done.output
    monkeypatch.undo()
    done = CliRunner().invoke(main, ["campaign", "keys", "--cases", "1", "--workers", "1"])
    assert (done.exit_code, "broken off" in done.output) == (0, False)


def test_a_shard_without_a_chunk_has_tested_nothing():
    shards = [CliRunner().invoke(main, ["campaign", "keys", "--cases", "1", "--workers", "1", "--shard", f"{n}/2"]).output for n in (1, 2)]
    assert ["no troubles" in text for text in shards] == [True, False]
    assert "0 cases, nothing was tested" in shards[1]
