"""Notes on costs: what each line of a page has, and which lines are worth a note."""

import dataclasses
import re
import types

import numpy as np
import pytest

from smemsim import BankAccess, TensorMap
from smemsim.core.ptx import read_module
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.counters import Sure
from smemsim.diagnosis.costs import cost_notes, heat_of, limit_findings
from smemsim.run import Load, Store
from smemsim.run.counters.limits import Limit
from smemsim.run.counters.rows import Row

NAMES = {
    "wavefronts": "shared wavefronts", "ideal_wavefronts": "needed", "worst_degree": "conflict degree", "sectors": "global sectors",
    "ideal_sectors": "needed", "operand_wavefronts": "operand wavefronts", "copied_bytes": "bytes copied",
}  # fmt: skip
TEXT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .b32 %r; .reg .b64 %d;\n"
TEXT += "ld.shared.u32 %r, [0];\nst.global.u32 [%d], %r;\n" * 4 + "ret; }"
BODY = [*read_module(TEXT).functions["k"].body]


class Table(dict):
    """Counters of instructions, as columns."""

    def __init__(self, rows):
        super().__init__({name: np.array([row.get(name, 0) for row in rows]) for name in NAMES})
        self["line"] = np.array([row["line"] for row in rows])
        self["source"] = [row.get("source", "") for row in rows]
        self["instruction"] = [row.get("instruction", "ld.shared.u32") for row in rows]

    def __len__(self):
        return len(self["line"])

    def text(self, most):
        return f"a total\nof {most}"


def page(*rows):
    return heat_of(Table(rows), lambda line: f"  line {line} ", lambda place: f" at {place}\n")


@pytest.mark.parametrize("seed", range(4))
def test_a_page_has_the_sums_of_each_line(seed):
    """Of degrees the largest. A wavefront costs as much as the four sectors of its 128 bytes."""
    rng, rows = np.random.default_rng(seed), []
    for n in range(12):
        source = ("", "dir/a.cu:12", "dir/a.cu:7", "b.cu:30")[rng.integers(4 if seed else 1)]
        some = {
            name: int(rng.integers(0, 3000)) * int(rng.integers(2)) for name in NAMES if (name != "copied_bytes" or seed == 2) and n % 5
        }
        rows.append(
            {"line": 10 + n // 2, "source": source, "instruction": ("ld.shared.u32", "wgmma.mma_async.sync.aligned")[n % 2], **some}
        )
    heat, kept = page(*rows), {}
    for row in rows:
        place = row["source"]
        key = ("", row["line"]) if not place else (place.split(":")[0], int(place.split(":")[1]))
        kept.setdefault(key, []).append(row)
    sums = {
        key: {name: (max if name == "worst_degree" else sum)(row.get(name, 0) for row in some) for name in NAMES}
        for key, some in kept.items()
    }
    sums = {key: one for key, one in sorted(sums.items()) if any(one.values())}
    used = [name for name in NAMES if any(one[name] for one in sums.values())]
    weights = {key: 4 * (one["wavefronts"] + one["operand_wavefronts"]) + one["sectors"] for key, one in sums.items()}
    assert heat.heads == tuple(NAMES[name] for name in used)
    assert [line.where for line in heat.lines] == [f"{file.split('/')[-1]}:{n}" if file else f"PTX {n}" for file, n in sums]
    assert [line.text for line in heat.lines] == [f"at {file}:{n}" if file else f"line {n}" for file, n in sums]
    for line, (key, one) in zip(heat.lines, sums.items(), strict=True):
        assert line.numbers == tuple(f"{one[name]:,}" if one[name] else "" for name in used)
        assert line.share == pytest.approx(weights[key] / sum(weights.values()))
        conflicts = one["wavefronts"] > one["ideal_wavefronts"] and one["worst_degree"] > 1
        uncoalesced = one["sectors"] >= 3 * max(one["ideal_sectors"], 1)
        assert line.says == ", ".join(["bank conflicts"] * conflicts + ["uncoalesced"] * uncoalesced)
        runs = [row for row in kept[key] if any(row.get(name) for name in NAMES)][:3] if key[0] else []
        short = {"ld.shared.u32": "ld.shared.u32", "wgmma.mma_async.sync.aligned": "wgmma.mma_async"}
        assert line.runs == ", ".join(f"{short[row['instruction']]} (PTX line {row['line']})" for row in runs)
    assert heat.sums == ("a total", "of 0")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"wavefronts": 8, "ideal_wavefronts": 8, "worst_degree": 4}, ""), ({"wavefronts": 9, "ideal_wavefronts": 8, "worst_degree": 1}, ""),
        ({"wavefronts": 9, "ideal_wavefronts": 8, "worst_degree": 2}, "bank conflicts"), ({"sectors": 24, "ideal_sectors": 8}, "uncoalesced"),
        ({"sectors": 23, "ideal_sectors": 8}, ""), ({"sectors": 3}, "uncoalesced"), ({"sectors": 2}, ""),
    ],
)  # fmt: skip
def test_what_a_line_loses_is_said(row, says):
    (line,) = page({"line": 3, **row}).lines
    assert line.says == says


def test_a_page_without_costs_is_none():
    assert page({"line": 3}, {"line": 4, "source": "a.cu:1"}) is None
    assert page() is None


@pytest.mark.parametrize(
    ("place", "values", "column", "found", "at"),
    [
        ("", (5, 7, 1), "wavefronts", 13, 1), ("5", (5, 7, 1), "wavefronts", 5, 0), ("b.cu:2", (5, 7, 9), "wavefronts", 16, 2), ("", (5, -1, 1), "sectors", 6, 0),
        ("", (5, 7, 1), "worst_degree", 7, 1), ("a.cu:1", (5, 7, 1), "worst_degree", 5, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("by", [-1, 0, 1])
def test_a_bound_is_exceeded_by_the_sum_or_by_the_largest_degree(place, values, column, found, at, by):
    """Unknown numbers, which are negative, count for nothing. The finding is at the instruction that has most."""
    sources = ("x/a.cu:1", "x/b.cu:2", "b.cu:2")
    rows = [{"line": BODY[n].line, "source": sources[n], "instruction": BODY[n].name, column: value} for n, value in enumerate(values)]
    told = [*limit_findings(Table(rows), [Limit("some", column, place, found + by)], BODY)]
    assert len(told) == (by < 0)
    for f in told:
        where = f" at {'line ' * place.isdigit()}{place}" * bool(place)
        assert (f.code, f.line) == ("P905", BODY[at].line)
        assert f.what == f"counters: {found} some{where}; the launch file allows at most {found + by}"


@pytest.mark.parametrize("place", ["77", "c.cu:1"])
def test_a_bound_of_a_line_that_nothing_runs_at_is_told(place):
    (f,) = limit_findings(Table([{"line": BODY[0].line, "source": "a.cu:1"}]), [Limit("some", "wavefronts", place, 10**9)], BODY)
    assert f.what == f"counters: no instruction ran at {'line ' * place.isdigit()}{place}, which has a bound for some"


def counted(rows, *, executed=(), lanes=(), off=()):
    """What a launch has counted: a row by number of instruction."""
    of_all = {
        name: np.array([*given, *[0] * (len(BODY) - len(given))])
        for name, given in (("executed", executed), ("lanes", lanes), ("off", off))
    }
    body = types.SimpleNamespace(number=BODY.index, instructions=BODY)
    ended = []
    return types.SimpleNamespace(
        ended=ended, finish=lambda: ended.append(True), rows=rows, samples={}, instructions=dict(enumerate(BODY)), body=body, **of_all
    )


def notes(*args, **given):
    counting = counted(*args, **given)
    found = cost_notes(None, counting)
    assert counting.ended
    return found


@pytest.mark.parametrize(
    ("sectors", "ideal", "is_told"), [(96, 32, True), (95, 32, False), (47, 15, True), (46, 15, False), (48, 17, False), (4000, 1000, True)]
)
def test_an_access_is_uncoalesced_from_three_times_its_sectors_on(sectors, ideal, is_told):
    """And from 32 sectors too many on."""
    row = Row(sectors=sectors, ideal_sectors=ideal, global_requests=8)
    found = notes({1: row})
    assert len(found) == is_told
    for f in found:
        assert (f.code, f.line) == ("P903", BODY[1].line)
        assert f.what == f"uncoalesced access: {sectors:,} sectors of 32 bytes, {ideal:,} are enough for the bytes"
        assert f.why == f"{sectors / 8:.1f} sectors for each warp; 100% of all sectors of the launch"
    assert not notes({1: Row(sectors=sectors, ideal_sectors=ideal, sure=Sure.NONE)})


def test_the_worst_uncoalesced_accesses_are_told_and_the_share_of_each():
    rows = {n: Row(sectors=400 + 100 * n, ideal_sectors=100, global_requests=10) for n in range(6)}
    found = notes(rows)
    total = sum(row.sectors for row in rows.values())
    assert [f.line for f in found] == [BODY[n].line for n in (5, 4, 3, 2)]
    assert [f.why.partition("; ")[2] for f in found] == [
        f"{rows[n].sectors / total:.0%} of all sectors of the launch" for n in (5, 4, 3, 2)
    ]
    many = {0: Row(sectors=1000, ideal_sectors=1000), 1: Row(sectors=80, ideal_sectors=20)}  # 60 too many of 1080
    assert [f.line for f in notes(many)] == [BODY[1].line]
    many[0] = Row(sectors=1200, ideal_sectors=1200)  # less than a twentieth
    assert not notes(many)


@pytest.mark.parametrize(
    ("executed", "lanes", "is_told"),
    [((40, 10), (1280, 1), False), ((32,), (511,), True), ((32,), (512,), False), ((31,), (1,), False), ((20, 20), (40, 500), True)],
)
def test_idle_lanes_are_told_if_half_of_all_lanes_are(executed, lanes, is_told):
    found = notes({}, executed=executed, lanes=lanes)
    assert [f.code for f in found] == ["P904"] * is_told
    for f in found:
        n = int(np.argmax(np.array(executed) * 32 - lanes))
        assert f.line == BODY[n].line
        assert f.what == f"idle lanes: {lanes[n] / executed[n]:.1f} of 32 lanes run here, {executed[n]} times"
        assert f"{sum(lanes) / sum(executed):.1f} of 32 lanes on average" in f.why


def test_idle_lanes_are_told_at_an_access_rather_than_at_another_instruction_of_its_block():
    same = {"executed": (40, 40, 40, 40), "lanes": (40, 40, 40, 40)}
    quiet = Row(sectors=40, ideal_sectors=40)
    assert [f.line for f in notes({}, **same)] == [BODY[0].line]
    assert [f.line for f in notes({2: quiet}, **same)] == [BODY[2].line]
    assert [f.line for f in notes({}, **same, off=(0, 3))] == [BODY[1].line]


class NoEvents(tuple):
    def transfers(self):
        return ()


def conflicts(rows, samples):
    """The notes on bank conflicts of a launch with these counters and kept accesses."""
    counting = counted(rows)
    counting.samples = {key: [BankAccess("ld", [at], 4) for at in some] for key, some in samples.items()}
    launch = types.SimpleNamespace(arch="sm_90a", result=types.SimpleNamespace(events=NoEvents()))
    return [f for f in cost_notes(launch, counting) if f.code == "P902"]


LANE = np.arange(32)


@pytest.mark.parametrize("begin", [0, 0x2000, 0x2010])
def test_a_buffer_is_told_at_the_access_that_loses_most(begin):
    """Accesses of the same bytes are of one buffer. Columns of a tile of 128-byte rows need all 32 turns."""
    column, row = begin + 128 * LANE, begin + 4 * LANE
    rows = {
        0: Row(wavefronts=320, ideal_wavefronts=10, worst_degree=32),
        2: Row(wavefronts=640, ideal_wavefronts=20, worst_degree=32),
        4: Row(wavefronts=40, ideal_wavefronts=40, worst_degree=1),
    }
    (f,) = conflicts(rows, {0: [column], 2: [column + 4], 4: [row]})
    lost = 320 * 31 // 32 + 640 * 31 // 32
    assert f.line == BODY[2].line
    assert f.what == f"bank conflicts of degree 32 here and at 1 more line: {lost / 1000:.0%} of all shared wavefronts are wasted"
    assert f.why == f"these lines take 960 of the launch's 1,000 shared wavefronts; without conflicts they would take {960 - lost}"
    assert [half.instruction for half in f.halves] == [BODY[2], BODY[0]]
    assert f"960 wavefronts become {960 - lost}" in f.repair
    assert "replace each byte offset in the buffer by" in f.repair


@pytest.mark.parametrize("apart", [0x1000, 0x0FFC, 0x0F80])
def test_buffers_without_a_common_byte_are_apart(apart):
    """A column of 32 rows of 128 bytes ends 4 bytes after the begin of its last row, at 0xf84."""
    rows = {n: Row(wavefronts=320, ideal_wavefronts=10, worst_degree=32) for n in (0, 2)}
    found = conflicts(rows, {0: [128 * LANE], 2: [apart + 128 * LANE]})
    assert [f.line for f in found] == [BODY[n].line for n in ((0,) if apart < 0xF84 else (0, 2))]
    assert all(("at 1 more line" in f.what) == (apart < 0xF84) for f in found)


@pytest.mark.parametrize("active", [0xFFFFFFFF, 0x0000FFFF, 0xFFFF0000, 0x00FFFF00])
@pytest.mark.parametrize("apart", [0x1000, 0x1800])
def test_lanes_that_are_not_active_are_of_no_buffer(active, apart):
    """Two columns of 128-byte rows. The addresses of other lanes are kept as 0."""
    rows = {n: Row(wavefronts=160, ideal_wavefronts=10, worst_degree=16) for n in (0, 2)}
    is_active = (active >> LANE & 1).astype(bool)
    own = {n: np.where(is_active, first + 128 * LANE, 0) for n, first in ((0, 0x1000), (2, 0x1000 + apart))}
    counting = counted(rows)
    counting.samples = {key: [BankAccess("ld", [at], 4, active)] for key, at in own.items()}
    launch = types.SimpleNamespace(arch="sm_90a", result=types.SimpleNamespace(events=NoEvents()))
    assert [f.line for f in cost_notes(launch, counting) if f.code == "P902"] == [BODY[0].line, BODY[2].line]


@pytest.mark.parametrize(("cost", "others", "is_told"), [(32, 0, False), (34, 0, True), (66, 500, True), (66, 1300, False)])
def test_conflicts_are_worth_a_note_from_so_many_wavefronts_on(cost, others, is_told):
    """From 32 too many on, and from a twentieth of all on. Two turns instead of one lose half."""
    two = np.where(LANE < 16, 4 * LANE, 4 * LANE + 64)  # two lanes in each of 16 banks
    rows = {
        0: Row(wavefronts=2 * cost, ideal_wavefronts=cost, worst_degree=2),
        2: Row(wavefronts=others, ideal_wavefronts=others, worst_degree=1),
        4: Row(wavefronts=4000 * (not is_told), ideal_wavefronts=1, worst_degree=9, sure=Sure.NONE),
    }
    found = conflicts(rows, {0: [two], 2: [0x4000 + 4 * LANE], 4: [0x8000 + 128 * LANE]})
    total = sum(row.wavefronts for row in rows.values())
    assert bool(found) == (cost >= max(32, 0.05 * total)) == is_told


def test_without_conflicts_there_is_no_note():
    rows = {0: Row(wavefronts=100, ideal_wavefronts=10, worst_degree=1)}
    assert not conflicts(rows, {0: [128 * LANE]})


def swizzled(offsets, bits):
    """The hardware's XOR: bits from 7 on into bits from 4 on."""
    return offsets ^ (offsets >> 7 & (1 << bits) - 1) << 4


def loaded(at, row, bits, *, is_store=False):
    """A tensor copy into a buffer, or out of it, with rows of so many bytes."""
    swizzle = ("none", "32B", "64B", "128B")[bits]
    tm = TensorMap.tiled(
        data_type="u16", global_address=0x10000, global_dim=(256, 256), global_strides=(512,), box_dim=(row // 2, 32), swizzle=swizzle
    )
    if is_store:
        return Store(0, 0, BODY[0], 0, tm, "tile", (0, 0), at)
    return Load(0, 0, BODY[0], 0, tm, "tile", (0, 0), (), (types.SimpleNamespace(smem_address=at),))


class Events(tuple):
    def transfers(self):
        return (object(), *self)


def repair(at, size, name="ld.shared.v4.b32", events=()):
    """The fix of one access with conflicts."""
    rows = {0: Row(wavefronts=400 * 1000, ideal_wavefronts=10, worst_degree=8)}
    counting = counted(rows)
    counting.samples = {0: [BankAccess("ld", [at], size)]}
    counting.instructions[0] = dataclasses.replace(BODY[0], modifiers=tuple(name.split(".")[1:]))
    launch = types.SimpleNamespace(arch="sm_90a", result=types.SimpleNamespace(events=Events(events)))
    return next(f.repair for f in cost_notes(launch, counting) if f.code == "P902")


def moved(text, offsets, size):
    """Where a sentence puts the bytes that have these offsets without a swizzle; None for the same in CuTe's words."""
    if found := re.search(r"by offset \^ \(offset (>>|<<) (\d+) & 0x([0-9a-f]+)\)", text):
        shift = int(found[2]) if found[1] == ">>" else -int(found[2])
        return offsets ^ ((offsets >> shift if shift > 0 else offsets << -shift) & int(found[3], 16))
    if text.startswith("as it lies"):
        return offsets
    if found := re.search(r"in CuTe: Swizzle<(\d+),(\d+),(\d+)> on elements of (\d+) B", text):
        bits, base, shift, element = map(int, found.groups())
        n = offsets // element
        return (n ^ (n >> shift & ((1 << bits) - 1) << base)) * element + offsets % element
    if found := re.search(r"tile\[rows\]\[(\d+) \+ (\d+)\](?: with T of (\d+) bytes)?", text):
        columns, more, element = int(found[1]), int(found[2]), int(found[3] or 4)
        return offsets + offsets // (columns * element) * more * element
    found = re.search(r"in Gluon: .*for\(\[\[(\d+), (\d+)\]\].*\)(?: of (\d+)-byte elements)?", text)
    every, more, element = int(found[1]), int(found[2]), int(found[3] or 4)
    return offsets + offsets // (every * element) * more * element


@pytest.mark.parametrize("begin", [0, 0x2000, 0x2080])
@pytest.mark.parametrize(
    ("pitch", "size", "name"),
    [
        (128, 4, "ld.shared.b32"),
        (128, 16, "ld.shared.v4.b32"),
        (64, 16, "ld.shared.v4.b32"),
        (512, 8, "ld.shared.v2.f32"),
        (256, 16, "ld.shared.v2.b64"),
    ],
)
def test_every_layout_that_is_told_has_no_conflicts(begin, pitch, size, name):
    offsets = pitch * LANE
    said = repair(begin + offsets, size, name).split("; or ")
    assert [text.split(" ")[0] for text in said] == ["replace", "in", "pad", "in"]
    unit = begin % 128 + offsets
    for text in said:
        after = BankAccess("ld", [moved(text, unit, size)], size)
        assert after.cost == after.ideal, text
    assert ("of 8-byte elements" in said[-1]) == (name.endswith("b64"))
    assert ("-byte elements" in said[-1]) == (size > int(name[-2:]) // 8)


@pytest.mark.parametrize("is_store", [False, True])
@pytest.mark.parametrize("begin", [0, 0x2000])
@pytest.mark.parametrize(("row", "bits"), [(32, 0), (64, 0), (128, 0), (32, 1), (64, 2), (32, 3), (64, 3), (128, 3)])
def test_the_layout_of_a_tensor_copy_is_one_that_its_rows_may_have(is_store, begin, row, bits):
    """What the map writes with one swizzle, another one or none puts elsewhere; a row is no longer than the swizzle."""
    at = begin + row * LANE
    offsets = swizzled(row * LANE, bits)  # what the access would have without a swizzle
    first = architecture("sm_90a").shared_begin
    said = repair(at, 16, events=[loaded(first + begin, row, bits, is_store=is_store)]).split("; or ")
    assert " in the map and the threads' addresses (tried" in said[0]
    assert len(said) == 2
    for text in said:
        after = BankAccess("ld", [moved(text, offsets, 16)], 16)
        assert after.cost == after.ideal, text
    mask = re.search(r"& 0x(\d0)\)", said[0])
    assert mask is None or {0x10: 32, 0x30: 64, 0x70: 128}[int(mask[1], 16)] >= row
    for elsewhere in (begin - 16, begin + 32 * row):  # another buffer's copy
        assert "in the map" not in repair(at, 16, events=[loaded(first + elsewhere, row, bits, is_store=is_store)])
