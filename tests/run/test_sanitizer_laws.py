"""Laws of the sanitizer's parts, each against a simple statement of its own: bits against all values that they can
have, tables of bytes against dictionaries, sets of operations against Python's sets.
"""

import itertools
import operator
import random

import numpy as np
import pytest

from smemsim.core.ptx import read_module
from smemsim.run.sanitizer import operation_sets, settled_bytes
from smemsim.run.sanitizer.byte_masks import Parts, Write
from smemsim.run.sanitizer.strong_bytes import StrongBytes

WIDTH = 4  # bits of the small words whose every value is tried


def instruction(text):
    head = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;\n"
    return read_module(f"{head}{text}\nret;\n}}").entries[0].body[0]


def fillings(value, unknown):
    """Every word that has the known bits of a value."""
    bits = [n for n in range(32) if unknown >> n & 1]
    for chosen in itertools.product((0, 1), repeat=len(bits)):
        yield (value & ~unknown) | sum(bit << n for n, bit in zip(bits, chosen, strict=True))


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


ORDERS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["u32", "s32", "b32"])
def test_known_bits_decide_a_comparison_if_every_value_of_the_others_gives_the_same(kind):
    pairs = [(a << 29 | a >> 1, b << 29 | b >> 1) for a in range(8) for b in range(0, 8, 3)]
    for ua, ub in ((0, 0), (0x80000000, 0), (0x40000001, 0x20000000), (0, 0xA0000000), (0xA0000000, 1)):
        words = [np.array(column, np.uint32) for column in zip(*pairs, strict=True)]
        unknown = [np.full(len(pairs), u, np.uint32) for u in (ua, ub)]
        for name in ORDERS if kind != "b32" else ("eq", "ne"):
            if kind == "s32" and name in ("lo", "ls", "hi", "hs"):
                continue
            test = ORDERS[name]
            read = (lambda v: signed(v, 32)) if kind == "s32" else int
            wanted = []
            for a, b in pairs:
                results = {test(read(x), read(y)) for x in fillings(a, ua) for y in fillings(b, ub)}
                # an equality is decided only by bits that differ: that equal words are known wholly is the caller's question
                wanted.append(len(results) == 1 and (name not in ("eq", "ne") or results == {name == "ne"}))
            assert settled_bytes.is_compared(name, kind, words, unknown).tolist() == wanted, (name, ua, ub)
    assert settled_bytes.is_compared("equ", kind, words, unknown) is None


def leading(value, kind):
    """`clz` of a word, and where `bfind` finds its highest bit, of the absolute kind."""
    if kind == "s32" and value >> 31:
        value = ~value & 0xFFFFFFFF
    return 32 - value.bit_length()


@pytest.mark.parametrize(("text", "kind"), [("clz.b32 %r1, %r2;", "b32"), ("bfind.u32 %r1, %r2;", "u32"), ("bfind.s32 %r1, %r2;", "s32")])
def test_known_bits_decide_the_highest_one_if_every_value_of_the_others_gives_the_same(text, kind):
    i = instruction(text)
    for unknown in (1, 2, 0x10, 0x80000000, 0x80000001, 0x40000000, 0x60000000):
        values = [v << 29 | w for v in range(8) for w in (0, 1, 2, 0x11, 0x1F)]
        wanted = [len({leading(x, kind) for x in fillings(v, unknown)}) == 1 for v in values]
        found = settled_bytes.is_highest_known(i, np.array(values, np.uint32), np.full(len(values), unknown, np.uint32)).tolist()
        assert found == wanted, hex(unknown)


def lop3(table, a, b, c, bits=WIDTH):
    return sum((table >> ((a >> n & 1) * 4 + (b >> n & 1) * 2 + (c >> n & 1)) & 1) << n for n in range(bits))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_bit_changes_a_table_if_some_value_of_the_doubtful_bits_lets_it(count):
    drawn = random.Random(count)
    tables = [*settled_bytes.TABLES.values(), *(drawn.randrange(256) for _ in range(12))]
    for table in tables:
        words = [np.array([drawn.randrange(256) for _ in range(6)], np.uint8) for _ in range(count)]
        unknown = [np.array([drawn.randrange(256) for _ in range(6)], np.uint8) for _ in range(count)]
        marks = [settled_bytes.parts_of(u, 1) for u in unknown]
        found = settled_bytes.changing(table, words, marks)
        for own, n, bit in itertools.product(range(count), range(6), range(8)):
            free = [
                (0, 1) if other == own or unknown[other][n] >> bit & 1 else (int(words[other][n]) >> bit & 1,) for other in range(count)
            ]
            results = {}
            for values in itertools.product(*free):
                a, b, c = (*values, 0, 0)[:3]
                others = values[:own] + values[own + 1 :]
                results.setdefault(others, set()).add(table >> (4 * a + 2 * b + c) & 1)
            assert bool(found[own][n] >> bit & 1) == any(len(r) == 2 for r in results.values()), (table, own, n, bit)


def test_marks_of_bytes_and_of_bits_are_words_and_back():
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        size = np.dtype(kind).itemsize
        words = np.frombuffer(random.Random(size).randbytes(8 * 5), kind)
        assert np.array_equal(settled_bytes.spread(settled_bytes.parts_of(words, 1), words.dtype), words)
        marks = settled_bytes.parts_of(words & kind(0xF0), 8)
        assert marks.shape == (size, len(words))
        whole = settled_bytes.spread(marks, words.dtype)
        assert [int(w) for w in whole] == [0xFF if w & 0xF0 else 0 for w in words.tolist()]
        assert not settled_bytes.are_bytes_cut(whole)
        assert settled_bytes.are_bytes_cut(whole | kind(1)) == (not all(w & 0xF0 for w in words.tolist()))
    assert settled_bytes.are_bytes_cut(np.array([0x7F00], np.uint32))


M32 = (1 << 32) - 1


def sign_extended(value, bits, width=32):
    return signed(value, bits) & ((1 << width) - 1) if bits else 0


def bfe(a, begin, bits, *, is_signed):
    """PTX ISA 9.1, bfe: bits beyond the most significant one are the sign of what is taken, or 0."""
    begin, bits = begin & 255, bits & 255
    sign = 0 if not is_signed or bits == 0 else a >> min(begin + bits - 1, 31) & 1
    return sum((a >> begin + n & 1 if n < bits and begin + n < 32 else sign) << n for n in range(32))


def bfi(a, b, begin, bits):
    begin, bits = begin & 255, bits & 255
    for n in range(bits):
        if begin + n < 32:
            b = b & ~(1 << begin + n) | (a >> n & 1) << begin + n
    return b


def funnel(a, b, far, *, left, wrap):
    """PTX ISA 9.1, shf: [b:a] is shifted; left gives the upper word, right the lower one."""
    far = far & 31 if wrap else min(far, 32)
    both = b << 32 | a
    return both << far >> 32 & M32 if left else both >> far & M32


def prmt(a, b, selector, mode):
    """PTX ISA 9.1, table of prmt's modes: the bytes, most significant one first."""
    low = selector & 3
    rows = {
        "f4e": ["3210", "4321", "5432", "6543"], "b4e": ["5670", "6701", "7012", "0123"], "rc8": ["0000", "1111", "2222", "3333"],
        "ecl": ["3210", "3211", "3222", "3333"], "ecr": ["0000", "1110", "2210", "3210"], "rc16": ["1010", "3232", "1010", "3232"],
    }  # fmt: skip
    data = (b << 32 | a).to_bytes(8, "little")
    if mode:
        return int.from_bytes(bytes(data[int(k)] for k in reversed(rows[mode][low])), "little")
    picked = [selector >> 4 * n & 15 for n in range(4)]
    return int.from_bytes(bytes((data[k & 7] >> 7) * 255 if k & 8 else data[k & 7] for k in picked), "little")


PICKED = [
    *((f"bfe.{kind}32 %r1, %r2, %r3, %r4;", 1, lambda a, n, m, s=kind == "s": bfe(*a, n, m, is_signed=s)) for kind in "us"),
    ("bfi.b32 %r1, %r2, %r3, %r4, %r5;", 2, lambda a, n, m: bfi(*a, n, m)),
    *(
        (f"shf.{way}.{mode}.b32 %r1, %r2, %r3, %r4;", 2, lambda a, n, m, w=way, o=mode: funnel(*a, n, left=w == "l", wrap=o == "wrap"))
        for way in "lr" for mode in ("wrap", "clamp")
    ),
    ("shl.b32 %r1, %r2, %r3;", 1, lambda a, n, m: a[0] << n & M32 if n < 32 else 0),
    *(
        (f"shr.{kind}32 %r1, %r2, %r3;", 1, lambda a, n, m, s=kind == "s": (signed(a[0], 32) if s else a[0]) >> min(n, 32) & M32)
        for kind in "us"
    ),
    *((f"prmt.b32{mode} %r1, %r2, %r3, %r4;", 2, lambda a, n, m, o=mode[1:]: prmt(*a, n, o)) for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sources", "value"), PICKED, ids=[row[0].split()[0] for row in PICKED])
def test_each_bit_of_a_result_is_the_picked_bit_of_its_sources(text, sources, value):
    i, drawn = instruction(text), random.Random(text)
    first = [0, 1, 7, 8, 31, 32, 33, 63, 255, 256, *(drawn.randrange(32) for _ in range(6))]
    if i.op == "prmt":
        first = [0, 1, 2, 3, 0x3210, 0x7654, 0x8F90, *(drawn.randrange(1 << 16) for _ in range(9))]
    elif i.op in ("shl", "shr"):
        first = [n for n in first if n < 256]
    second = [0, 1, 8, 31, 32, 33, 255, 256, *(drawn.randrange(33) for _ in range(8))]
    numbers = [np.array(first[:16]), np.array(second)]
    numbers = [column[: min(len(first), len(second))] for column in numbers]
    rows = settled_bytes.picked_bits(i, 32, numbers if i.op in ("bfe", "bfi") else numbers[:1])
    rows = np.broadcast_to(rows, (32, len(numbers[0])))
    for n, (x, y) in enumerate(zip(*(column.tolist() for column in numbers), strict=True)):
        for _ in range(3):
            words = [drawn.randrange(1 << 32) for _ in range(sources)]
            every = sum(word << 32 * k for k, word in enumerate(words))  # the bit after the last one is 0
            assert sum((every >> int(rows[bit, n]) & 1) << bit for bit in range(32)) == value(words, x, y), (x, y)


def selected(word, selector):
    """A part of a word, and where it begins: .b0 to .b3, .h0, .h1 or all."""
    size = {"b": 8, "h": 16, "": 32}[selector[:1]]
    begin = size * int(selector[1:] or 0)
    return word >> begin & (1 << size) - 1, begin, size


def video(op, selectors, words, *, is_clamped=False):
    """PTX ISA 9.1 §9.7.19, of unsigned sums: one number of parts of a and b into a part of c; or two or four at once."""
    if op == "vadd":
        (x, _, _), (y, _, _) = (selected(word, selector) for word, selector in zip(words, selectors[1:], strict=False))
        _, begin, size = selected(0, selectors[0])
        mask = (1 << size) - 1 << begin
        total = min(x + y, (1 << size) - 1) if is_clamped else x + y
        return words[2] & ~mask & M32 | total << begin & mask
    count = int(op[4])
    bits = 32 // count
    each = [word >> bits * n & (1 << bits) - 1 for word in words[:2] for n in range(count)]
    to, a, b = ([int(n) for n in reversed(selector[1:])] for selector in selectors)
    sums = [each[x] + each[y] for x, y in zip(a or range(count), b or range(count, 2 * count), strict=True)]
    if op.endswith(".add"):
        return words[2] + sum(sums) & M32
    result = words[2]
    for n in to or range(count):
        mask = (1 << bits) - 1 << bits * n
        result = result & ~mask | sums[n] << bits * n & mask
    return result


@pytest.mark.parametrize(
    ("op", "selectors"),
    [
        *(("vadd", (to, a, b)) for to, a, b in [("b2", "b0", "h1"), ("b0", "b3", "b1"), ("h1", "", "b2"), ("h0", "h0", ""), ("b3", "h1", "b0")]),
        *((op, selectors) for op in ("vadd2", "vadd2.add") for selectors in [("", "", ""), ("", "h21", "h03")]), ("vadd2", ("h1", "h32", "")),
        *((op, selectors) for op in ("vadd4", "vadd4.add") for selectors in [("", "", ""), ("", "b7012", "")]), ("vadd4", ("b20", "b6543", "b0123")),
        ("vadd4", ("b310", "", "b7777")),
    ],
)  # fmt: skip
def test_parts_of_a_video_instruction_come_from_the_bytes_that_change_them(op, selectors):
    name, _, add = op.partition(".")
    operands = ", ".join(f"%r{n}{'.' * bool(selector)}{selector}" for n, selector in enumerate((*selectors, ""), start=1))
    i = instruction(f"{name}.u32.u32.u32{'.' * bool(add)}{add} {operands};")
    drawn, depends = random.Random(f"{op} {selectors}"), [set[tuple[int, int]]() for _ in range(4)]
    for _, source, byte, is_clamped in itertools.product(range(40), range(3), range(4), (False, True)):
        words = [drawn.randrange(1 << 32) & drawn.choice((M32, 0x00FF00FF, 0)) for _ in range(3)]
        other = [word ^ (drawn.randrange(1, 256) << 8 * byte if n == source else 0) for n, word in enumerate(words)]
        change = video(op, selectors, words, is_clamped=is_clamped) ^ video(op, selectors, other, is_clamped=is_clamped)
        for n in range(4):
            depends[n] |= {(source, byte)} if change >> 8 * n & 255 else set()
    covered = []
    for part, sources in settled_bytes.parts_of_video(i):
        covered += range(4)[part]
        listed = {(source, byte) for source, bytes_ in sources for byte in range(4)[bytes_]}
        assert listed == (set(itertools.product(range(3), range(4))) if add else set().union(*depends[part])), part
        assert listed >= set().union(*depends[part])
    assert sorted(covered) == [0, 1, 2, 3]


def test_a_product_has_the_zeros_of_each_of_its_factors():
    values = np.array([0, 1, 2, 3, 12, 1 << 31, 1 << 63, (1 << 63) + (1 << 40)], np.uint64)
    assert settled_bytes.trailing_zeros(values).tolist() == [64, *((v & -v).bit_length() - 1 for v in values.tolist()[1:])]


def test_bytes_of_words_are_those_of_a_dictionary():
    """Who wrote a byte last, who may have read it, and which have no value."""
    words, readers = 3, 2
    for seed in range(12):
        drawn, parts = random.Random(seed), Parts(words, readers)
        written, read = {}, {}  # by word: the bytes of the last writer; by word and warp: the bytes read in its last tick
        writer, tick, empty = [-1] * words, 0, {}
        for _ in range(40):
            word, size = drawn.randrange(words), drawn.choice((1, 2))
            byte = drawn.randrange(4 // size) * size
            at, bits = np.array([word]), parts.bits(np.array([4 * word + byte]), size)
            own = set(range(byte, byte + size))
            assert {n for n in range(4) if bits[0] >> n & 1} == own
            does = drawn.choice(("write", "read", "whole", "read whole", "taken", "fill"))
            if does == "write":
                warp = drawn.randrange(readers)
                parts.write(at, bits, np.array([writer[word]]), np.array([warp]), np.array([warp]))
                written[word] = own | (written.get(word, set(range(4))) if writer[word] == warp else set())
                writer[word] = warp
            elif does == "read":
                warp, is_new, tick = drawn.randrange(readers), bool(drawn.randrange(2)), tick + 1
                before = read.get((word, warp), set(range(4)) if (word, warp) in read else None)
                if before is None:
                    is_new = True
                parts.read(at, bits, np.array([warp]), np.array([is_new]))
                read[word, warp] = own | (set() if is_new else before)
            elif does == "whole":
                parts.written_whole(at)
                written[word] = set(range(4))
                empty.pop(word, None)
            elif does == "read whole":
                warp = drawn.randrange(readers)
                parts.read_whole(at, np.array([warp]))
                read[word, warp] = set(range(4))
            elif does == "taken":
                parts.taken(at, bits)
                written[word] = written.get(word, set(range(4))) - own
            else:
                is_first = word not in empty
                parts.fill(at, bits, np.array([is_first]))
                empty[word] = empty.get(word, set(range(4))) - own
            for other, n in itertools.product(range(words), range(4)):
                assert bool(parts.overlap(np.array([other]), np.array([1 << n], np.uint8))[0]) == (n in written.get(other, set(range(4))))
                for warp in range(readers):
                    if (other, warp) in read:
                        assert bool(parts.read_by(np.array([other]), np.array([1 << n], np.uint8))[warp, 0]) == (n in read[other, warp])
                assert bool(parts.holes_of(np.array([other]))[0] >> n & 1) == (n in empty.get(other, set()))


def test_bytes_of_earlier_writers_keep_their_writer():
    for seed in range(20):
        drawn, parts = random.Random(seed), Parts(2, 1)
        by_byte, last, clock = {}, [(-1, 0, 0)] * 2, 0
        for _ in range(15):
            word, warp, byte, clock = drawn.randrange(2), drawn.randrange(3), drawn.randrange(4), clock + 1
            at, bits = np.array([word]), parts.bits(np.array([4 * word + byte]), 1)
            gone, own = last[word], (warp, clock, 10 * clock)
            keeps = gone[0] == warp  # the bytes of a warp that writes again stay its own
            parts.note_others(
                at, bits, np.array([True]), Write(*(np.array([-1 if keeps else v]) for v in gone)), Write(*(np.array([v]) for v in own))
            )
            parts.write(at, bits, np.array([gone[0]]), np.array([warp]), np.array([warp]))
            if not keeps and gone[0] >= 0:
                by_byte |= {(word, n): gone for n in range(4) if by_byte.get((word, n)) == "last"}
            by_byte[word, byte] = "last"
            last[word] = own
            if parts.has_others:
                found = parts.others(np.array([word]))
                for n in range(4):
                    wanted = by_byte.get((word, n), -1)
                    wanted = (-1, -1, -1) if wanted in ("last", -1) else wanted
                    assert tuple(int(column[0, n]) for column in found) == wanted, (seed, n)


def test_warps_that_write_parts_of_a_word_at_once_each_keep_their_byte():
    """Warps 2 and 3 write bytes 0 and 3 of a word that warp 1 had written wholly; warp 3 counts as its writer."""
    parts, at = Parts(2, readers=1), np.array([1, 1])
    bits, last = parts.bits(np.array([4, 7]), 1), np.array([False, True])
    gone, own = Write(*np.array([[1, 1], [5, 5], [50, 50]])), Write(*np.array([[2, 3], [6, 7], [60, 70]]))
    parts.note_others(at, bits, last, gone, own)
    parts.write(at, bits, np.array([1, 1]), np.array([2, 3]), np.array([3, 3]))
    who, when, line = (column[0].tolist() for column in parts.others(np.array([1])))
    assert (who, when, line) == ([2, 1, 1, -1], [6, 5, 5, -1], [60, 50, 50, -1])
    assert [bool(parts.overlap(np.array([1]), np.array([1 << n], np.uint8))[0]) for n in range(4)] == [False, False, False, True]
    assert (parts.others(np.array([0])).who == -1).all()
    parts.taken(np.array([1]), np.array([0b0110], np.uint8))
    assert parts.others(np.array([1])).who.tolist() == [[2, -1, -1, -1]]
    parts.written_whole(np.array([1]))
    assert (parts.others(np.array([1])).who == -1).all()


@pytest.mark.parametrize("keeps_holes", [False, True])
def test_bytes_without_a_value_get_one_by_a_write_of_the_word_unless_it_copies_them(keeps_holes):
    parts = Parts(2, readers=1)
    parts.fill(np.array([1]), np.array([0b0011], np.uint8), np.array([False]))
    assert not parts.holes_of(np.array([0, 1])).any()
    parts.fill(np.array([1]), np.array([0b0011], np.uint8), np.array([True]))
    assert parts.holes_of(np.array([0, 1])).tolist() == [0, 0b1100]
    parts.written_whole(np.array([1]), keeps_holes=keeps_holes)
    assert parts.holes_of(np.array([0, 1])).tolist() == [0, 0b1100 * keeps_holes]


def test_strong_accesses_of_bytes_are_the_last_ones_of_each_other_warp():
    for seed in range(20):
        drawn, strong, noted = random.Random(seed), StrongBytes(3), []  # noted: byte, warp, clock, line, reads, writes, narrow
        for clock in range(1, 25):
            size, warp = drawn.choice((1, 2)), drawn.randrange(3)
            place = drawn.randrange(12 // size) * size
            reads, writes = drawn.choice(((True, False), (False, True), (True, True)))
            is_narrow = drawn.random() < 0.3
            strong.note(
                np.array([place]), size, np.array([warp]), np.array([clock]), 5 * clock, reads=reads, writes=writes, is_narrow=is_narrow
            )
            noted += [(n, warp, clock, 5 * clock, reads, writes, is_narrow) for n in range(place, place + size)]
            if drawn.random() < 0.15:
                word, bits = drawn.randrange(3), drawn.choice((None, 0b0110))
                strong.forget(np.array([word]), None if bits is None else np.array([bits], np.uint8))
                noted = [row for row in noted if row[0] >> 2 != word or not (15 if bits is None else bits) >> (row[0] & 3) & 1]
        assert strong.has_narrow
        for word, warp, with_reads, only_narrow in itertools.product(range(3), range(3), (False, True), (False, True)):
            bits = drawn.randrange(16)
            wanted = {}
            for n, who, when, line, _, wrote, is_narrow in noted:
                if n >> 2 == word and bits >> (n & 3) & 1 and who != warp and (wrote or with_reads) and (is_narrow or not only_narrow):
                    wanted[n & 3, who, wrote] = (when, line)
            assert strong.are_there(np.array([word])) or not any(n >> 2 == word for n, *_ in noted)
            found = strong.accesses(
                np.array([word]), np.array([warp]), np.array([bits], np.uint8), with_reads=with_reads, only_narrow=only_narrow
            )
            got = {
                (b, who, bool(w)): (when, line)
                for b, who, w, when, line in zip(
                    *(c.tolist() for c in (found.byte, found.who, found.wrote, found.when, found.line)), strict=True
                )
            }
            assert got == wanted, (seed, word, warp)
            assert not found.n.any()
        for n in range(12):
            assert strong.is_written(n) == any(place == n and writes for place, _, _, _, _, writes, _ in noted)
    assert not StrongBytes(3).are_there(np.array([0, 1, 2]))


def test_a_strong_write_is_observed_by_who_reads_it_and_who_has_seen_the_reader():
    strong = StrongBytes(4)
    write = lambda warp, clock: strong.note(np.array([5]), 1, np.array([warp]), np.array([clock]), 1, reads=False, writes=True)  # noqa: E731
    write(0, 3)
    strong.note(np.array([5]), 1, np.array([1]), np.array([7]), 2, reads=True, writes=False)
    never, from_7, from_6 = (lambda own, other, seen=seen: seen if other == 1 else 0 for seen in (0, 7, 6))
    assert strong.is_observed(5, 1, 0, 3, never)
    assert strong.is_observed(5, 1, 0, 2, never)
    assert not strong.is_observed(5, 1, 0, 4, never)
    assert not strong.is_observed(4, 1, 0, 3, never)
    assert not strong.is_observed(5, 2, 0, 3, never)
    assert strong.is_observed(5, 2, 0, 3, from_7)
    assert not strong.is_observed(5, 2, 0, 3, from_6)
    assert not strong.is_observed(5, 1, 2, 0, never)
    strong.note(np.array([5]), 1, np.array([1]), np.array([9]), 2, reads=True, writes=False)  # the same writes: it has seen them since 7
    assert strong.is_observed(5, 2, 0, 3, from_7)
    write(0, 8)
    strong.note(np.array([5]), 1, np.array([1]), np.array([10]), 2, reads=True, writes=False)
    assert strong.is_observed(5, 1, 0, 8, never)
    assert not strong.is_observed(5, 2, 0, 8, from_7)


@pytest.fixture
def as_python(monkeypatch):
    """Loops run as Python: to compile them for the types of a test takes longer than the test."""
    monkeypatch.setattr("smemsim.base.compiling.loop.Loop.__call__", lambda loop, *arguments: loop.py_func(*arguments))


@pytest.mark.usefixtures("as_python")
def test_sets_of_operations_are_pythons_sets():
    """Operations that are over for a warp leave an entry when another one joins; so do earlier ones of its chain."""
    for seed in range(25):
        drawn, sets, words = random.Random(seed), operation_sets.made(), 6
        entries, wanted = np.zeros(words, np.int32), [set() for _ in range(words)]
        over, chain = np.zeros((2, 64), bool), np.zeros(64, np.int32)
        for own in range(40):
            chain[own] = drawn.choice((0, 0, 1, 2))
            over[:, : own + 1] |= np.array([[drawn.random() < 0.05 for _ in range(own + 1)] for _ in range(2)])
            over[:, own] = False
            first, warps = drawn.choice(((0, 1), (1, 1), (0, 2)))
            at = np.array(sorted(drawn.sample(range(words), 3)))
            way = drawn.randrange(2)
            if way:
                begins, count = np.array([drawn.randrange(3)]), 3
                at = begins[0] + np.arange(count)
            while True:
                done = (
                    operation_sets.add_runs(entries, begins, count, own, first, warps, over, chain, sets) if way
                    else operation_sets.add(entries, at, own, first, warps, over, chain, sets)
                )  # fmt: skip
                if done:
                    break
                sets = operation_sets.larger(sets)
            for word in at.tolist():
                leaves = {
                    m
                    for m in wanted[word]
                    if (chain[own] and chain[m] == chain[own]) or all(over[w, m] for w in range(first, first + warps))
                }
                wanted[word] = wanted[word] - leaves | {own}
            for word in range(words):
                assert operation_sets.members_of(sets, entries[word : word + 1]) == sorted(wanted[word])
                assert operation_sets.is_over(entries[word], over[0], sets) == all(over[0, m] for m in wanted[word])
            begin, count = drawn.choice(((0, 6), (1, 2), (5, 1)))
            assert operation_sets.are_over(entries, begin, count, over[1], sets) == all(
                over[1, m] for w in wanted[begin : begin + count] for m in w
            )
        assert operation_sets.members_of(sets, entries) == sorted(set().union(*wanted))
        # twins: the operations of CTA k are so many columns later
        twins = operation_sets.of_twins(sets, 3, 64)
        for n, row in enumerate(operation_sets.entries_of_twins(entries, 3, 64, sets)):
            for word in range(words):
                assert operation_sets.members_of(twins, row[word : word + 1]) == [m + 64 * n for m in sorted(wanted[word])]
        # operations get new numbers, and sets that nobody has go
        operations, is_used = np.zeros(64, bool), np.zeros(int(sets.used[0]), bool)
        operation_sets.mark(entries, operations, is_used, sets)
        assert np.flatnonzero(operations).tolist() == sorted(set().union(*wanted))
        assert np.flatnonzero(is_used).tolist() == sorted({-e for e in entries.tolist() if e < 0})
        new = np.cumsum(operations) - 1
        kept, of_sets = operation_sets.compacted(sets, is_used, new)
        operation_sets.renumber(entries, new, of_sets)
        assert kept.used[0] == 1 + len({frozenset(w) for w in wanted if len(w) > 1})
        for word in range(words):
            assert operation_sets.members_of(kept, entries[word : word + 1]) == [int(new[m]) for m in sorted(wanted[word])]
            again, entry = operation_sets.entry_of(kept, [int(new[m]) for m in wanted[word]])
            assert (again, entry) == (kept, entries[word])


def test_an_entry_is_made_once_for_the_same_operations():
    sets = operation_sets.made()
    seen = {}
    for n in range(80):
        some = frozenset({n % 40, n % 40 + 1 + n % 3, n % 7})
        sets, entry = operation_sets.entry_of(sets, some)
        assert seen.setdefault(some, entry) == entry
        assert operation_sets.members_of(sets, np.array([entry])) == sorted(some)
    assert operation_sets.entry_of(sets, [])[1] == 0
    assert len(set(seen.values())) == len(seen)
    for some, entry in seen.items():
        assert operation_sets.members_of(sets, np.array([entry])) == sorted(some)
