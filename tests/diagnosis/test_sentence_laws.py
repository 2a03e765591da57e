"""Laws of what is told about a launch: the words that name elements, boxes and lines are read back; what stands on a page
is what the finding says; and which other descriptors, places and waits are tried.
"""

import dataclasses
import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim import InstrDescriptor, SmemDescriptor
from smemsim.core.finding import Fix, Half, Path, at_instruction
from smemsim.core.ptx import read_module
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.diagnosis.causes.cause import _box, _of_tensor
from smemsim.diagnosis.copies import targets
from smemsim.diagnosis.instructions import idesc_with
from smemsim.diagnosis.operands.boxes import _goes_on_as_it_is
from smemsim.diagnosis.operands.copied import _others
from smemsim.diagnosis.operands.scaled import AllFactors
from smemsim.diagnosis.operands.sums import Sum
from smemsim.diagnosis.relax import _waits
from smemsim.diagnosis.result.tiles import _bits_told, _linear
from smemsim.diagnosis.run_page import AROUND, entry
from smemsim.diagnosis.run_to_scenario import _is_of_starts
from smemsim.diagnosis.tensors import GlobalTensor
from smemsim.diagnosis.triton import map_arguments

HEAD = ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k() { .reg .b32 %r<99>;\n"
PTX = [*(HEAD + "".join(f"mov.u32 %r{n % 99}, {n};\n" for n in range(60)) + "ret; }").splitlines()]
LINES = {i.line: i for i in read_module("\n".join(PTX)).functions["k"].body}


# ---- a finding on a page


def shown_at(line):
    return [n for n in range(line - AROUND, line + AROUND + 1) if 1 <= n <= len(PTX)]


@pytest.mark.parametrize(
    "lines",
    [(9,), (5, 64), (10, 12), (10, 30), (12, 10), (10, 14, 30), (10, 15, 30), (30, 10, 33), (20, 22, 24, 40), (10, 14, 18), (8, 8, 8)],
)
def test_accesses_stand_with_the_lines_around_each(lines):
    """The two of a race stand alone. Of three and more, those in the lines of an earlier one stand with it."""
    halves = tuple(Half(f"does {n}", f"thread {n}", LINES[line]) for n, line in enumerate(lines))
    sides = entry(at_instruction("X002", LINES[40], "what", "the fix", halves=halves), PTX).sides
    expected = []
    for line in lines:
        near = next((side for side in expected if len(lines) > 2 and line in shown_at(side[0])), None)
        if near is None:
            expected.append([line])
        else:
            near.append(line)
    assert [[int(re.search(r"line (\d+)", told.where)[1]) for told in side.accesses] for side in sides] == expected
    for side, own in zip(sides, expected, strict=True):
        assert [n for n, _ in side.source.lines] == shown_at(own[0])
        assert all(text == PTX[n - 1] for n, text in side.source.lines)
        assert side.source.at == own[0]
        assert side.source.also == tuple(dict.fromkeys(own[1:]))


@pytest.mark.parametrize("line", [5, 8, 40, 63, 64])
@pytest.mark.parametrize("severity", [None, Severity.NOTE])
def test_the_line_of_a_finding_is_drawn_once(line, severity):
    """With its own access, or for a remark as an excerpt. What stands below an excerpt is not that line again."""
    found = at_instruction("X002", LINES[line], "what", "the fix", milder=severity)
    page = entry(found, PTX)
    assert page.message == "what"
    if severity is None:
        (side,) = page.sides
        assert page.excerpt is None
        assert [n for n, _ in side.source.lines] == shown_at(line)
    else:
        assert not page.sides
        assert page.excerpt.at == line
        assert [n for n, _ in page.excerpt.lines] == shown_at(line)
        assert not any(text.startswith(f"{line} |") for text in page.excerpt.below)
    elsewhere = entry(at_instruction("X002", LINES[line], "what", "the fix", halves=[Half("writes", "thread 0", LINES[30])]), PTX)
    assert elsewhere.excerpt.at == line
    assert not elsewhere.excerpt.below


def test_the_source_of_a_finding_is_shown_where_it_can_be_read(tmp_path):
    """With its own line numbers. Of a remark the line of the source is named once more below the PTX."""
    source = [f"  a[{n}] = {n};" for n in range(1, 30)]
    (tmp_path / "gemm.cu").write_text("\n".join(source))
    text = [*PTX[:3], f'.file 1 "{tmp_path}/gemm.cu"', *PTX[3:6], ".loc 1 12 0", *PTX[6:9], ".loc 1 99 0", *PTX[9:]]
    body = {i.line: i for i in read_module("\n".join(text)).functions["k"].body}
    for folders in ((tmp_path,), ()):
        is_read = bool(folders)
        found = dataclasses.replace(
            at_instruction("X002", body[10], "what", "the fix", halves=[Half("writes", "thread 0", body[10])]), folders=folders
        )
        (side,) = entry(found, text).sides
        assert side.source.at == (12 if is_read else 10)
        assert side.source.lines == tuple(
            (n, source[n - 1] if is_read else text[n - 1]) for n in range(8 if is_read else 6, 17 if is_read else 15)
        )
        assert "gemm.cu:12" in side.accesses[0].where
        remark = entry(
            dataclasses.replace(at_instruction("X002", body[10], "what", "the fix", milder=Severity.NOTE), folders=folders), text
        )
        assert [n for n, _ in remark.excerpt.lines] == [*range(6, 15)]
        assert [text.partition(" | ")[2] for text in remark.excerpt.below] == [source[11].strip()] * is_read
        past = dataclasses.replace(at_instruction("X002", body[13], "what", "the fix"), folders=folders)
        assert entry(past, text).sides[0].source.at == 13  # the file has no line 99


# ---- elements of tensors


@pytest.mark.parametrize("dtype", ["f16", "e4m3", "f32"])
def test_bytes_of_a_tensor_are_named_as_its_elements_and_those_of_its_neighbours_are_not(dtype):
    size = element_format(dtype).bits // 8
    tensor = GlobalTensor("A", element_format(dtype), {"m": 4, "k": 8}, {"m": 8 * size, "k": size}, 0x1000)
    read = SimpleNamespace(tensor=tensor, meaning=SimpleNamespace(axes=("m", "k")))
    first, end = 0x1000, 0x1000 + 32 * size
    for some in (
        [first],
        [end - 1],
        [first, end - size],
        [first + 9 * size, first + 10 * size, first + 17 * size, first + 18 * size],
        range(first, end),
    ):
        bytes_ = np.array([first - 1, *some, end, end + size])
        own = _of_tensor(read, bytes_)
        elements = {(int(at - first) // size // 8, int(at - first) // size % 8) for at in some}
        assert {(int(at - first) // size // 8, int(at - first) // size % 8) for at in own} == elements
        assert len(own) == len(elements)
        told = _box(read, own)
        count, ends = re.match(r"(?:(\d+) elements of )?A\[(.*)\]", told).groups()
        (rows, columns) = ([*map(int, re.findall(r"\d+", part))] for part in ends.split(", "))
        box = {*itertools.product(range(rows[0], rows[-1] + 1), range(columns[0], columns[-1] + 1))}
        assert elements <= box
        assert {m for m, _ in elements} >= {rows[0], rows[-1]}
        assert {k for _, k in elements} >= {columns[0], columns[-1]}
        assert (count is None) == (elements == box)
        assert count is None or int(count) == len(elements)
    assert not len(_of_tensor(read, np.array([first - 1, end])))


# ---- places within tiles, by the bits of their numbers


@pytest.mark.parametrize("seed", range(6))
def test_places_that_are_an_xor_of_bits_are_learned_from_those_of_one_bit(seed):
    """Any map of bits that has an inverse, and a constant: fragments, swizzles and mirrors are such."""
    rng, bits, width = np.random.default_rng(seed), 6, 8
    columns = []
    while len(columns) < bits:
        new = int(rng.integers(1, 1 << bits))
        spanned = {0}
        for one in columns:
            spanned |= {x ^ one for x in spanned}
        if new not in spanned:
            columns.append(new)
    constant = int(rng.integers(1 << bits)) * (seed % 2)
    source = np.array(
        [constant ^ int(np.bitwise_xor.reduce([c for k, c in enumerate(columns) if n >> k & 1] or [0])) for n in range(1 << bits)]
    )
    arrays = SimpleNamespace(near=lambda a, b: a == b)
    wanted = rng.permutation(3 << bits).reshape(3, 1 << bits).astype(float)
    assert _linear(arrays, wanted[:, source], wanted).tolist() == source.tolist()
    told = [tuple(map(int, one)) for one in re.findall(r"\[(\d+), (\d+)\] has what belongs in \[(\d+), (\d+)\]", _bits_told(source, width))]
    assert all(source[a * width + b] == c * width + d for a, b, c, d in told)
    odd = [n for n in (0, *(1 << k for k in range(bits))) if source[n] != n]
    assert [a * width + b for a, b, *_ in told] == odd[: len(told)]
    assert len(told) == min(len(odd), 4)
    assert _bits_told(source, width).endswith(", ...") == (len(odd) > len(told))
    assert _linear(arrays, wanted[:, source] + 0.5, wanted) is None
    assert _linear(arrays, wanted[:, :48], wanted[:, :48]) is None
    assert _linear(arrays, wanted[:, source // 2 * 2], wanted) is None


# ---- the other descriptors that are tried


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize(
    ("swizzle", "lbo", "sbo"),
    [("none", 128, 256), ("none", 256, 256), ("32B", 16, 256), ("64B", 16, 1024), ("128B", 16, 1024), ("128B", 4096, 512)],
)
def test_other_strides_and_swizzles_are_tried_once_each(arch, major, swizzle, lbo, sbo):
    """Strides exchanged, groups of 8 rows in rows as wide as the swizzle (K-major), the other swizzles; all the rest stays."""
    more = {"lbo_mode": 1} if arch == "sm_100a" else {}
    word = SmemDescriptor(
        arch=arch, start_address=0x1400, leading_byte_offset=lbo, stride_byte_offset=sbo, base_offset=3 if swizzle == "128B" else 0, swizzle=swizzle, **more,
    )  # fmt: skip
    what = SimpleNamespace(number=word.word, major=major)
    others = [(str(d.swizzle), d.leading_byte_offset, d.stride_byte_offset) for d in _others(what, SimpleNamespace(arch=arch))]
    width = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
    expected = [(swizzle, sbo, lbo)] * (lbo != sbo)
    expected += [(swizzle, lbo, 8 * width[swizzle])] * (major == "K" and swizzle != "none" and sbo != 8 * width[swizzle])
    expected += [(other, lbo, sbo) for other in width if other != swizzle]
    assert others == expected
    assert {getattr(d, "lbo_mode", 0) for d in _others(what, SimpleNamespace(arch=arch))} == {int(arch == "sm_100a")}
    assert {(d.start_address, d.base_offset, d.arch) for d in _others(what, SimpleNamespace(arch=arch))} == {
        (0x1400, word.base_offset, word.arch)
    }


# ---- sums


def sum_of(places, *, fills=(), is_split=False):
    entries = [SimpleNamespace(at=lambda place=place: place, is_fill=n in fills) for n, place in enumerate(places)]
    return Sum(entries, None, set(), is_split=is_split)


@pytest.mark.parametrize("count", range(1, 9))
def test_most_products_of_a_sum_are_more_than_half_or_three_quarters_of_a_split_one(count):
    """Of at least two; those of nothing but fill do not count."""
    for alike in range(count + 1):
        places = ["own"] * alike + [f"other {n}" for n in range(count - alike)]
        for is_split in (False, True):
            enough = 4 * alike >= 3 * count if is_split else 2 * alike > count
            assert sum_of(places, is_split=is_split).most() == ("own" if alike >= 2 and enough else None)
        assert sum_of([*places, *["fill"] * 9], fills=range(count, count + 9)).most() == sum_of(places).most()
    assert sum_of(["own"], fills=[0]).most() is None
    assert sum_of(["own"] * count).is_one_tile
    assert sum_of(["own"] * count + ["other"]).is_one_tile is False


def product_of(a, b, k=16):
    def reads(at):
        return [
            None
            if one is None
            else SimpleNamespace(at=(0, one if isinstance(one, int) else one[0]), share=1 if isinstance(one, int) else one[1])
            for one in at
        ]

    return SimpleNamespace(a=reads(a), b=reads(b), events=[SimpleNamespace(k=k)] * len(a))


@pytest.mark.parametrize(("a", "b", "goes_on"), [
    ((0, 16, 32), (0, 16, 32), True), ((64, 80), (64, 80), True), ((0, 16, 32), (0, 16, 48), False), ((0, 16, 48), (0, 16, 32), False), ((0, 16), (16, 32), False),
    ((0, 16), (0, (16, 0.5)), False), ((0, (16, 0.5)), (0, 16), False), ((0, 8), (0, 8), False), ((None, 16), (0, 16), False), ((0, None), (None, 16), True), ((0, 0), (0, 0), False),
    ((32, 16), (32, 16), False),
])  # fmt: skip
def test_k_go_on_if_each_instruction_begins_where_the_last_one_ended_in_both_operands(a, b, goes_on):
    assert _goes_on_as_it_is(product_of(a, b)) == goes_on


# ---- scale factors that several k share


@pytest.mark.parametrize("count", [2, 4])
def test_factors_are_skipped_if_as_many_unused_ones_lie_between_those_of_successive_k(count):
    """Not if the bytes between are used, hold the same factor, are no factors, or if distances differ."""
    memory = np.arange(256) % 251

    def skips(runs, *, every=(), values=memory, is_like=True):
        stub = SimpleNamespace(group=2, values=lambda at: values[at], every=np.array(every, np.int64), _is_like=lambda idle, used: is_like)
        at = np.array([[start, 100 + start] for start, _ in runs])
        return AllFactors._skips(stub, SimpleNamespace(at=at), 0, runs)

    runs = [(count * n, count) for n in range(3)]
    assert skips(runs)
    assert skips(runs, every=[0, count, 2 * count, 100, 100 + count])
    assert not skips(runs, every=[1])
    assert not skips(runs, every=[100 + count + 1])
    assert not skips(runs, every=[2 * count + 1])
    assert skips(runs, every=[99])
    assert skips(runs[:2])
    assert not skips(runs, is_like=False)
    assert not skips(runs, every=[1], is_like=False)
    assert not skips(runs, values=memory // count * count)
    assert not skips(runs[:1])
    assert not skips([*runs[:2], (3 * count, count)])
    assert not skips([*runs[:2], (2 * count, count + 1)])
    assert not skips([(n, 2 * count) for n in range(0, 3 * count, count)])


# ---- waits that are weakened


WAITS = """.version 8.6
.target sm_90a
.address_size 64
.file 1 "gemm.cu"
.visible .entry k() { .reg .pred %p<3>; .reg .b32 %r<9>;
.loc 1 10 0
cp.async.wait_group 1;
.loc 1 20 0
bar.sync 0;
.loc 1 10 0
cp.async.wait_group 1;
cp.async.wait_group 2;
.loc 1 20 0
bar.sync 0;
cp.async.wait_group 0; bar.sync 1;
mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; bar.sync 2;
mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
ret; }"""


@pytest.mark.parametrize("has_source", [True, False])
def test_waits_of_one_line_of_the_source_are_weakened_together(has_source):
    """Of one kind and count; without a source each line of PTX is alone. A line of two waits is left as it is."""
    text = WAITS if has_source else re.sub(r"\.loc .*", "", WAITS).replace('.file 1 "gemm.cu"', "")
    body = [i for i in read_module(text).functions["k"].body if i.op in ("cp", "bar", "mbarrier")]
    waits = [(w.lines, w.groups) for w in _waits(text, body[::-1])]
    assert waits == (
        [((7, 11), 1), ((9, 14), None), ((12,), 2), ((17,), None)]
        if has_source
        else [((7,), 1), ((9,), None), ((11,), 1), ((12,), 2), ((14,), None), ((17,), None)]
    )
    lines = text.split("\n")
    for wait in _waits(text, body):
        for count in (3, 5):
            other = wait.weakened(text, count).split("\n")
            changed = [n for n, (one, two) in enumerate(zip(lines, other, strict=True), 1) if one != two]
            assert changed == [*wait.lines]
            weaker = f"cp.async.wait_group {count};" if wait.groups is not None else "" if wait.lines != (17,) else "setp.eq.u32 %p2, 0, 0;"
            assert all(other[n - 1] == weaker for n in changed)


# ---- repairs


def repaired(code="R508", fixes=1):
    path = Path.of("step", 1, "a", "word")
    return dataclasses.replace(
        at_instruction(code, LINES[9], "what", "start 0x410"), changes=tuple(Fix(path, n, n + 1) for n in range(fixes))
    )


def test_findings_are_of_starts_if_each_is_and_has_a_repair():
    for found, are_of_starts in (
        ([], False), ([repaired()], True), ([repaired(), repaired()], True), ([repaired(fixes=2)], False), ([repaired(fixes=0)], False), ([repaired(), repaired(fixes=0)], False), ([repaired("R501")], False),
        ([repaired(), repaired("D308")], False), ([repaired("D308"), repaired()], False),
    ):  # fmt: skip
        assert _is_of_starts(found) == are_of_starts


@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4"])
@pytest.mark.parametrize("seed", range(3))
def test_other_fields_of_an_instruction_descriptor_leave_all_the_rest(kind, seed):
    """Bits that must be 0 become so if a word with them would not have the fields that are wanted."""
    rng = np.random.default_rng(seed)
    own = {"mxf8f6f4": {"m": 128}, "mxf4": {"m": 128}}.get(kind, {})
    word = InstrDescriptor(kind=kind, n=64, **own).word
    for _ in range(20):
        other = word ^ (int(rng.integers(1 << 32)) & 0x1FE00000 if rng.random() < 0.3 else 0)
        d = InstrDescriptor.decode(other, kind=kind)
        wanted = {"n": int(rng.integers(1, 17)) * 16}
        if kind not in ("mxf4", "i8"):
            wanted["b_major"] = str(rng.choice(["K", "MN"]))
        found = idesc_with(other, d, wanted)
        if found is None:
            continue
        new = InstrDescriptor.decode(found, kind=kind)
        assert all(getattr(new, name) == value for name, value in wanted.items())
        assert not any(f.code == "I603" for f in new.problems())
        table, changed = d.table, found ^ other
        names = {"n": "n", "b_major": "transpose_b"}
        allowed = sum(table.fields[names[name]].mask << table.fields[names[name]].low for name in wanted)
        reserved = sum(field.mask << field.low for field in table.fields.values() if field.want is not None)
        assert not changed & ~(allowed | reserved)
        assert not found & reserved or not changed & reserved
    assert idesc_with(word, InstrDescriptor.decode(word, kind=kind), {"n": 64}) == word


@pytest.mark.parametrize("columns", [4, 8, 32])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 2)])
def test_copies_fill_tensor_memory_one_after_the_other_unless_each_has_an_address(columns, shape):
    row = SimpleNamespace(columns=columns)
    count = shape[0] * shape[1]
    assert [(at.lane, at.column) for at in targets(1, 64, row, shape)] == [(0, 64 + columns * n) for n in range(count)]
    given = tuple(100 - n for n in range(shape[1])) if shape[0] == 1 else ((7, 9), (16 << 16, 3))
    flat = [*given] if shape[0] == 1 else [x for one in given for x in one]
    assert [(at.lane, at.column) for at in targets(1, given, row, shape)] == [(x >> 16, x & 0xFFFF) for x in flat]


# ---- maps that Triton's driver makes


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("is_nan", [True, False])
def test_dimensions_of_a_triton_descriptor_are_those_of_a_map_in_the_other_order(element_bytes, is_nan):
    """Of each call: shape, strides without that of the contiguous one, block, corners and steps."""
    for rank in (2, 3, 4, 5):
        shape, strides, block = [7 + n for n in range(rank)], [10 ** (rank - 1 - n) for n in range(rank)], [2 + n for n in range(rank)]
        call, found = map_arguments(0x1000, 2, element_bytes, 6, block, shape, strides, is_nan)
        assert call == "tiled"
        assert (found["global_dim"], found["box_dim"]) == (shape[::-1], block[::-1])
        assert found["global_strides"] == [element_bytes * 10**n for n in range(1, rank)]
        assert found["element_strides"] == [1] * rank
        assert (found["swizzle"], found["oob_fill"], found["global_address"], found["data_type"]) == (
            "64B",
            "nan" if is_nan else "zeros",
            0x1000,
            6,
        )
        lower, upper, steps = [*range(1, rank - 1)], [*range(11, 9 + rank)], [*range(1, rank + 1)]
        call, im2col = map_arguments(0x1000, 2, element_bytes, 6, [128, 64], shape, strides, is_nan, lower, upper, steps)
        assert call == "im2col"
        assert (im2col["pixel_box_lower_corner"], im2col["pixel_box_upper_corner"]) == (lower[::-1], upper[::-1])
        assert (im2col["pixels_per_column"], im2col["channels_per_pixel"], im2col["element_strides"]) == (128, 64, steps[::-1])
        assert {name: value for name, value in im2col.items() if name in found and name != "element_strides"} == {
            name: value for name, value in found.items() if name not in ("box_dim", "element_strides")
        }


def test_a_path_names_a_table_a_step_and_a_side_if_it_is_so_long():
    """Of each path of keys: names are texts, numbers of steps are numbers, and sides follow a number."""
    for keys in itertools.product(("step", "map", 1, "a", "rows"), repeat=3):
        for length in range(4):
            path = Path(keys[:length])
            assert path.table == (str(keys[0]) if length else "")
            assert path.name == (keys[1] if length > 1 and isinstance(keys[1], str) else "")
            assert path.step == (1 if length > 1 and keys[:2] == ("step", 1) else None)
            assert path.side == ("a" if length > 2 and keys == ("step", 1, "a") else "")
    raw = {"step": [{"a": [1, 2]}, {"a": [3]}], "map": {"a": 5}}
    paths = {("step", 1, "a", 0): 3, ("step", 0, "a", 1): 2, ("step", 1, "a", 1): None, ("step", 2): None, ("step", "a"): None}
    paths |= {("map", "a"): 5, ("map", 0): None, ("map", "a", "b"): None, ("none",): None, (): raw, ("step", 2, "a"): None}
    assert {keys: Path(keys).within(raw) for keys in paths} == paths
