"""Which bytes of global memory threads have copied: against a model of the instructions, asked again with other bytes."""

import random
import types

import numpy as np
import pytest

from launches import kernel
from smemsim import Gpu
from smemsim.core.machine import FOREIGN
from smemsim.run import origins

WORD = 0xFFFFFFFF
PARTS = (0x0FF00000, 0x0F)  # of bytes
MASKS = (0xFF, 0xFF00, 0xFF00FF, 0xFFFFFFFF, *PARTS)


def _prmt(a, b, picks):
    both = [a >> 8 * n & 0xFF for n in range(4)] + [b >> 8 * n & 0xFF for n in range(4)]
    found = 0
    for n in range(4):
        pick = picks >> 4 * n & 15
        byte = both[pick & 7]
        found = found | (np.where(byte & 0x80, 0xFF, 0) if pick & 8 else byte) << 8 * n
    return found


def _bfe(a, begin, count):
    return a >> begin & (1 << count) - 1


def _bfi(a, b, begin, count):
    mask = ((1 << count) - 1 << begin) & WORD
    return (b & ~mask) | (a << begin & mask)


EXACT, CAREFUL, ADDS = range(3)  # may a copy be unknown? may others bytes change a byte that is a copy now?


def _step(rng):
    """(PTX with {d}, {a}, {b}; what it gives for whole numbers a and b, and the thread; how exact the origins are)."""
    by, mask, one, more, picks = (rng.choice((0, 8, 16, 24, 32, 4, 12)), rng.choice(MASKS), rng.choice((1, 0x100, 0x10000)),
                                  rng.choice((1, 0x100, 0x10001, 0x1010101)), rng.getrandbits(16) & rng.choice((0x7777, 0x7777, 0xFFFF)))  # fmt: skip
    begin, count = rng.choice(((0, 8), (8, 8), (8, 16), (16, 16), (16, 24), (0, 32), (4, 8), (8, 4), (24, 16)))
    in_bytes, parts = by % 8, (begin | count) % 8
    pair = "mov.b64 %d10, {{{a}, {b}}};"
    return rng.choice(
        (
            ("mov.b32 {d}, {a};", lambda a, b, t: a, 0),
            (f"prmt.b32 {{d}}, {{a}}, {{b}}, {picks:#x};", lambda a, b, t: _prmt(a, b, picks), 0),
            (f"mov.u32 %r50, {by}; shl.b32 {{d}}, {{a}}, %r50;", lambda a, b, t: a << by, in_bytes),
            (f"shl.b32 {{d}}, {{a}}, {by};", lambda a, b, t: a << by, in_bytes),
            (f"shr.u32 {{d}}, {{a}}, {by};", lambda a, b, t: a >> by, in_bytes),
            ("selp.u32 %r50, 8, 16, %p5; shl.b32 {d}, {a}, %r50;", lambda a, b, t: a << np.where(t % 2, 8, 16), 1),
            (f"and.b32 {{d}}, {{a}}, {mask:#x};", lambda a, b, t: a & mask, 0),
            ("and.b32 {d}, {a}, {b};", lambda a, b, t: a & b, 2),
            (f"and.b32 {{d}}, {mask:#x}, {{a}};", lambda a, b, t: a & mask, 1),
            (f"or.b32 {{d}}, {{a}}, {mask:#x};", lambda a, b, t: a | mask, 0),
            ("or.b32 {d}, {a}, {b};", lambda a, b, t: a | b, 2),
            ("xor.b32 {d}, {a}, {b};", lambda a, b, t: a ^ b, 2),
            ("add.u32 {d}, {a}, {b};", lambda a, b, t: a + b, 2),
            (f"add.s32 {{d}}, {{a}}, {mask:#x};", lambda a, b, t: a + mask, 2),
            (
                f"and.b32 %r50, {{a}}, {mask:#x}; and.b32 %r51, {{b}}, {mask ^ WORD:#x}; or.b32 {{d}}, %r50, %r51;",
                lambda a, b, t: a & mask | b & (mask ^ WORD),
                int(mask in PARTS),
            ),
            (
                "and.b32 %r50, {a}, 0xff00ff; and.b32 %r51, {b}, 0xff00ff00; add.u32 {d}, %r51, %r50;",
                lambda a, b, t: a & 0xFF00FF | b & 0xFF00FF00,
                0,
            ),
            (f"mul.lo.u32 {{d}}, {{a}}, {one};", lambda a, b, t: a * one, 0),
            (f"mul.lo.u32 {{d}}, {{a}}, {2 * more};", lambda a, b, t: a * 2 * more, 2),
            (f"mul.lo.u32 {{d}}, {{a}}, {more};", lambda a, b, t: a * more, 2),
            (f"and.b32 %r50, {{a}}, 0xff; mul.lo.u32 {{d}}, %r50, {more};", lambda a, b, t: (a & 0xFF) * more, 0),
            (
                f"and.b32 %r50, {{a}}, 0xff; and.b32 %r51, {{b}}, 0xff; mad.lo.u32 {{d}}, %r50, {one << 8}, %r51;",
                lambda a, b, t: (a & 0xFF) * (one << 8) + (b & 0xFF),
                0,
            ),
            (f"mul.wide.u32 %d10, {{a}}, {one}; mov.b64 {{{{%r50, {{d}}}}}}, %d10;", lambda a, b, t: a * one >> 32, 0),
            (f"mul.wide.u32 %d10, {{a}}, {more}; cvt.u32.u64 {{d}}, %d10;", lambda a, b, t: a * more, 2),
            (f"bfe.u32 {{d}}, {{a}}, {begin}, {count};", lambda a, b, t: _bfe(a, begin, count), parts),
            (f"bfi.b32 {{d}}, {{a}}, {{b}}, {begin}, {count};", lambda a, b, t: _bfi(a, b, begin, count), parts),
            ("selp.b32 {d}, {a}, {b}, %p5;", lambda a, b, t: np.where(t % 2, a, b), 0),
            ("@!%p5 mov.b32 %r50, {a}; @%p5 mov.b32 %r50, {b}; mov.b32 {d}, %r50;", lambda a, b, t: np.where(t % 2, b, a), 0),
            ("cvt.u16.u32 %h1, {a}; cvt.u32.u16 {d}, %h1;", lambda a, b, t: a & 0xFFFF, 0),
            ("cvt.u32.u8 {d}, {a};", lambda a, b, t: a & 0xFF, 0),
            ("cvt.s32.s8 {d}, {a};", lambda a, b, t: (a & 0xFF ^ 0x80) - 0x80, 0),
            ("mov.b32 {{%h1, %h2}}, {a}; mov.b32 {d}, {{%h2, %h1}};", lambda a, b, t: a >> 16 & 0xFFFF | (a & 0xFFFF) << 16, 0),
            (f"{pair} shr.u64 %d11, %d10, {by}; cvt.u32.u64 {{d}}, %d11;", lambda a, b, t: (a | b << 32) >> by, in_bytes),
            (f"{pair} shl.b64 %d11, %d10, {by}; mov.b64 {{{{%r50, {{d}}}}}}, %d11;", lambda a, b, t: (a >> 32 - by) | b << by, in_bytes),
        )
    )


LOADS = {
    "v4": "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%d1];",
    "words": " ".join(f"ld.global.u32 %r{n + 2}, [%d1+{4 * n}];" for n in range(4)),
    "64 bits": "ld.v2.b64 {%d2, %d3}, [%d1]; mov.b64 {%r2, %r3}, %d2; mov.b64 {%r4, %r5}, %d3;",
    "halves": " ".join(f"ld.global.v2.u16 {{%h3, %h4}}, [%d1+{4 * n}]; mov.b32 %r{n + 2}, {{%h3, %h4}};" for n in range(4)),
    "through shared memory": "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%d1]; shl.b32 %r55, %r1, 4; mov.u32 %r56, sm; add.u32 %r55, %r55, %r56; add.u32 %r55, %r55, 2048; "
    "st.shared.v4.b32 [%r55], {%r2, %r3, %r4, %r5}; ld.shared.v2.b32 {%r2, %r3}, [%r55]; cvta.shared.u64 %d2, sm; cvt.u64.u32 %d3, %r55; cvt.u64.u32 %d4, %r56; sub.u64 %d3, %d3, %d4; "
    "add.u64 %d2, %d2, %d3; ld.v2.b32 {%r4, %r5}, [%d2+8];",
    "cp.async": "shl.b32 %r55, %r1, 4; mov.u32 %r56, sm; add.u32 %r55, %r55, %r56; cp.async.cg.shared.global [%r55+2048], [%d1], 16; cp.async.wait_all; "
    "ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%r55+2048];",
}  # fmt: skip
STORES = {
    "v4": "st.shared.v4.b32 [%r55], {{{}, {}, {}, {}}};",
    "words": "st.shared.b32 [%r55], {}; st.shared.b32 [%r55+4], {}; st.shared.u32 [%r55+8], {}; st.shared.f32 [%r55+12], {};",
    "64 bits": "mov.b64 %d5, {{{}, {}}}; mov.b64 %d6, {{{}, {}}}; st.shared.v2.b64 [%r55], {{%d5, %d6}};",
}
UNREACHED = (
    """bra OVER; wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d18, %d19, %r57, 0, 1, 1, 1, 0, 0; OVER:"""
)


@pytest.fixture
def followed(monkeypatch):
    """The origins of every wave, with the wave."""
    made = []

    class Kept(origins.Origins):
        def __init__(self, x):
            super().__init__(x)
            made.append((x.ctas[0].shared.begin, self))

    monkeypatch.setattr(origins, "Origins", Kept)
    return made


def _copied(steps, held):
    """What 16 words of each thread hold, (threads, 64), and of which of a thread's 16 bytes each byte is a copy,
    (16, threads, 64): it is what they are, whatever that is.
    """
    threads = np.arange(len(held))

    def results(sources):
        values = [*np.ascontiguousarray(sources).view(np.uint32).astype(np.int64).T]
        for (_, does, _), a, b in steps:
            values.append(np.asarray(does(values[a], values[b], threads)) & WORD)
        return np.stack(values[4:], axis=1).astype(np.uint32).view(np.uint8)

    is_copy = np.ones((16, len(held), 64), bool)
    for byte in range(16):
        for number in (0, 1, 0x55, 0x80, 0xAA, 0xFF):
            other = held.copy()
            other[:, byte] = number
            is_copy[byte] &= results(other) == number
    return results(held), is_copy


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("seed", range(5))
def test_bytes_that_threads_copy_are_those_that_change_with_their_source(seed, load, followed, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", "closures" if seed else "compiled")
    rng, numbers = random.Random(f"{seed} {load}"), np.random.default_rng(seed)
    held = (numbers.integers(0, 256, (32, 16)) * (numbers.random((32, 16)) < 0.8)).astype(np.uint8)
    steps = [(_step(rng), rng.randrange(n + 4), rng.randrange(n + 4)) for n in range(16)]
    text = [what.format(d=f"%r{n + 6}", a=f"%r{a + 2}", b=f"%r{b + 2}") for n, ((what, *_), a, b) in enumerate(steps)]
    to = [
        f"add.u32 %r55, %r58, {16 * n}; " + STORES[rng.choice([*STORES])].format(*(f"%r{4 * n + m + 6}" for m in range(4)))
        for n in range(4)
    ]
    body = [
        "shl.b32 %r57, %r1, 4; cvt.u64.u32 %d1, %r57; add.u64 %d1, %d1, %d20; and.b32 %r57, %r1, 1; setp.ne.u32 %p5, %r57, 0;",
        LOADS[load],
        *text,
    ]
    body += ["shl.b32 %r57, %r1, 6; cvt.u64.u32 %d2, %r57; add.u64 %d2, %d2, %d21; mov.u32 %r58, sm; add.u32 %r58, %r58, %r57;"]
    body += [f"st.global.u32 [%d2+{4 * n}], %r{n + 6};" for n in range(16)] + to + ["@%p9 st.global.u32 [%d22], %r58;", UNREACHED]
    gpu = Gpu("sm_90a")
    array, out, place = (gpu.array(one) for one in (held, np.zeros((32, 64), np.uint8), np.zeros(32, np.uint32)))
    gpu.launch(kernel(3, "\n".join(body)), "k", block=32, args=[array, out, place], progress=False)
    ((begin, kept),) = followed
    right, is_copy = _copied(steps, held)
    at = int(place.numpy()[0]) - begin + np.arange(32 * 64)
    assert out.numpy().tolist() == right.tolist(), "the model of the instructions"
    found = (kept.in_shared(0, at) - array.address).reshape(32, 64)
    levels = [EXACT] * 4
    for (*_, level), one, two in steps:
        levels.append(max(min(level, ADDS), levels[one], levels[two]))
    level, threads, bytes_ = np.array(levels[4:]).repeat(4), np.arange(32)[:, None], np.arange(64)
    source = found - 16 * threads
    is_known = found >= 0
    assert (held.ravel()[found[is_known]] == right[is_known]).all(), "the bytes are equal"
    is_right = is_copy[np.clip(source, 0, 15), threads, bytes_] & (source >= 0) & (source < 16)
    assert (is_right | ~is_known | (level == ADDS)).all(), "and others do not change them"
    assert (is_right | (is_copy.sum(axis=0) != 1) | (level > EXACT)).all(), "nothing is missing"


@pytest.mark.parametrize(
    ("mask", "by", "copies"), [("0xff", 1, [0]), ("0xff", 0x10001, [0, 2]), ("0xff", 0x1010101, [0, 1, 2, 3]), ("0xffffffff", 0x10001, [])]
)
def test_a_wide_product_repeats_the_bytes_of_a_register_of_half_its_size(mask, by, copies, followed):
    """The bytes past the register are zeros. A sum with a carry is no copy."""
    body = f"""shl.b32 %r57, %r1, 4; cvt.u64.u32 %d1, %r57; add.u64 %d1, %d1, %d20; ld.global.u32 %r2, [%d1]; and.b32 %r2, %r2, {mask};
    mul.wide.u32 %d10, %r2, {by}; mov.u32 %r58, sm; add.u32 %r57, %r57, %r58; st.shared.v2.b64 [%r57], {{%d10, %d10}}; @%p9 st.global.u32 [%d21], %r58; {UNREACHED}"""
    gpu = Gpu("sm_90a")
    array, place = gpu.array(np.full((32, 16), 0x81, np.uint8)), gpu.array(np.zeros(1, np.uint32))
    gpu.launch(kernel(2, body), "k", block=32, args=[array, place], progress=False)
    ((begin, kept),) = followed
    found = kept.in_shared(0, int(place.numpy()[0]) - begin + np.arange(32 * 16)).reshape(32, 2, 8)
    expected = np.full((32, 2, 8), FOREIGN)
    expected[:, :, copies] = array.address + 16 * np.arange(32)[:, None, None]
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_a_table_has_what_was_put_there_last(seed):
    """CTAs beside each other, places before the first and after the last one, a page and its end."""
    rng, pitch, ctas, held = random.Random(seed), 5000, 3, {}
    table = origins.Table(ctas, pitch)
    some = [0, 1, 1023, 1024, 1025, 2047, 2048, 4095, 4096, 4999]
    for step in range(60):
        byte = [rng.choice(some)] if rng.random() < 0.3 else rng.sample(range(first := rng.choice(some[:-1]), min(first + 400, pitch)), 20)
        at = np.array([cta * pitch + n for cta, n in zip(rng.choices(range(ctas), k=len(byte)), byte, strict=True)])
        if rng.random() < 0.7:
            table.put(at, np.arange(len(at)) + 1000 * step)
            held |= {n: 1000 * step + k for k, n in enumerate(at.tolist())}
        else:
            table.forget(at)
            held = {n: what for n, what in held.items() if n not in at}
        for cta in range(ctas):
            asked = np.array([rng.choice(some), *byte, rng.randrange(pitch)])
            for part in (asked, asked[:1], np.array(some)):
                assert table.of(cta, part).tolist() == [held.get(cta * pitch + n, FOREIGN) for n in part.tolist()]
    table.put(np.zeros(0, np.int64), np.zeros(0, np.int64))


@pytest.mark.parametrize("cta", [0, 1, 2])
def test_columns_of_a_cta_are_forgotten_in_all_lanes_and_no_others(cta):
    held = origins.Origins(types.SimpleNamespace(total=96, ctas=[None] * 3, pitch=1024))
    cells = np.indices((3, 128, 9)).reshape(3, -1)  # CTA, lane, column
    places = origins.cells_in_order((cells[0] * 128 + cells[1]) * 512 + cells[2])
    held.tensor.put(places, np.arange(places.size).reshape(places.shape))
    held.forget_columns(cta, 2, 5)
    is_gone = (cells[0] == cta) & (cells[2] >= 2) & (cells[2] < 5)
    wanted = np.where(is_gone[:, None], FOREIGN, np.arange(places.size).reshape(places.shape))
    for other in range(3):
        mine = cells[0] == other
        found = [held.in_tensor(other, cells[1][mine], cells[2][mine], np.full(mine.sum(), byte)) for byte in range(4)]
        assert np.array_equal(np.stack(found, axis=1), wanted[mine]), other


def test_a_table_is_full_at_its_limit_and_then_has_nothing(monkeypatch):
    monkeypatch.setattr(origins, "MOST", 2 * 2048)
    table, last = origins.Table(2, 8192), np.array([2047])
    table.put(last, np.array([7]))
    table.put(8192 + np.array([0]), np.array([8]))
    assert (table.is_full, table.of(0, last).tolist(), table.of(1, np.array([0])).tolist()) == (False, [7], [8])
    table.put(last + 1, np.array([9]))
    assert (table.is_full, table.of(0, last).tolist(), table.of(1, np.array([0])).tolist()) == (True, [FOREIGN], [FOREIGN])
    table.put(last, np.array([7]))
    table.forget(last)
    assert table.of(0, last).tolist() == [FOREIGN]


# What gives %r6 of words %r2 (bytes 0 to 3 of a thread's 16) and %r3 (bytes 4 to 7), and which of these its bytes are:
# None of those that an instruction computes, and "?" of those that need not be known.
FORMS = {
    "add.cc.u32 {d}, %r2, 0;": "????", "add.u32 {d}, %r2, 0;": "0123", "sub.u32 {d}, %r2, 0;": "????", "add.u32 {d}, %r2, %r2;": "    ", "mul.hi.u32 {d}, %r2, 0x1000000;": "????",
    "mul.lo.u32 {d}, %r2, %r54;": "????", "mul.lo.u32 {d}, %r2, 0;": "    ", "mul.lo.s32 {d}, %r2, -1;": "    ", "mad.lo.u32 {d}, %r2, 1, %r53;": "0123", "mad.hi.u32 {d}, %r2, 1, 0;": "    ",
    "mad.lo.cc.u32 {d}, %r2, 1, 0;": "????", "mul.wide.u16 {d}, %h5, 256;": " 01 ", "and.b32 {d}, %r2, %r55;": "??  ", "prmt.b32.f4e {d}, %r2, %r3, 1;": "????", "prmt.b32.b4e {d}, %r2, %r3, 0;": "????",
    "prmt.b32 {d}, %r2, %r3, 0x6543;": "3456", "prmt.b32 {d}, %r2, %r3, 0x654b;": " 456", "prmt.b32 {d}, %r2, %r3, %r54;": "1000", "shl.b32 {d}, %r2, 32;": "    ", "shl.b32 {d}, %r2, %r54;": "????",
    "shr.u32 {d}, %r2, 31;": "    ", "shr.s32 {d}, %r2, 8;": "123?", "bfe.u32 {d}, %r2, 8, 16;": "12  ", "bfe.u32 {d}, %r2, 8, %r1;": "????", "bfe.u32 {d}, %r2, %r1, 8;": "????",
    "bfi.b32 {d}, %r2, %r3, 8, 16;": "4017", "bfi.b32 {d}, %r2, %r3, %r1, 8;": "????", "bfi.b32 {d}, %r2, %r3, 16, 16;": "4501", "selp.b32 {d}, %r2, 7, %p5;": "????", "selp.f32 %f9, 0f3f800000, %f8, %p5; mov.b32 {d}, %f9;": "????",
    "selp.b32 {d}, %r2, %r2, %p5;": "0123", "cvt.sat.u8.u32 {d}, %r2;": "????", "cvt.u32.u16 {d}, %h5;": "01  ", "mov.b64 %d10, {{%r2, 5}}; cvt.u32.u64 {d}, %d10;": "????",
    "mov.b64 %d10, {{5, %r2}}; mov.b64 {{%r50, {d}}}, %d10;": "????", "mov.b64 {{_, {d}}}, %d9;": "4567", "mov.b64 {{{d}, _}}, %d9;": "0123", "mov.b32 {{%h6, _}}, %r2; cvt.u32.u16 {d}, %h6;": "01  ",
    "mov.u32 {d}, %tid.x;": "    ", "min.u32 {d}, %r2, %r3;": "    ", "not.b32 {d}, %r2;": "    ", "ld.u32 {d}, [%d15];": "mix",
}  # fmt: skip


def test_the_bytes_of_each_form_are_known_or_are_computed(followed):
    lines = [
        "shl.b32 %r57, %r1, 4; cvt.u64.u32 %d1, %r57; add.u64 %d1, %d1, %d20; ld.global.v2.u32 {%r2, %r3}, [%d1]; ld.global.u16 %h5, [%d1]; ld.global.f32 %f8, [%d1]; mov.b64 %d9, {%r2, %r3};",
        "mov.u32 %r53, 0; mov.u32 %r54, 1; mov.u32 %r55, 0xffff; and.b32 %r55, %r55, %r2; or.b32 %r55, %r55, 0xff; setp.lt.u32 %p5, %r1, 16; mov.u32 %r58, sm; mad.lo.u32 %r56, %r1, 128, %r58;",
        "cvta.shared.u64 %d15, sm; selp.b64 %d15, %d15, %d1, %p5; st.shared.u32 [%r58], %r2; bar.warp.sync -1;",
    ]
    for n, form in enumerate(FORMS):
        lines.append(form.format(d="%r6") + f" st.shared.u32 [%r56+{4 * n % 128}], %r6;" + " bar.warp.sync -1;" * (n % 32 == 31))
    found = {}
    for first in (0, 32):  # an array of 32 words for each thread has room for so many
        gpu = Gpu("sm_90a")
        array, place = gpu.array(np.arange(1, 513).astype(np.uint8)), gpu.array(np.zeros(1, np.uint32))
        body = "\n".join([*lines[:3], *lines[3 + first : 35 + first], "@%p9 st.global.u32 [%d21], %r58;", UNREACHED])
        gpu.launch(kernel(2, body, variables=".shared .align 16 .b8 sm[4096];"), "k", block=32, args=[array, place], progress=False)
        begin, kept = followed[-1]
        at = int(place.numpy()[0]) - begin + np.arange(32 * 128)
        origin = kept.in_shared(0, at).reshape(32, 32, 4)
        mine = np.where(origin == FOREIGN, -1, origin - array.address - 16 * np.arange(32)[:, None, None])
        found |= {form: mine[:, n] for n, form in enumerate([*FORMS][first : first + 32])}
    for form, wanted in FORMS.items():
        if wanted == "mix":
            assert (found[form][16:] == np.arange(4)).all()
            continue
        for n, what in enumerate(wanted):
            right = {-1} if what == " " else {-1, *range(8)} if what == "?" else {int(what)}
            assert set(found[form][:, n].tolist()) <= right, (form, n, set(found[form][:, n].tolist()))


def test_registers_of_products_alone_may_be_shifted_and_masked_within_bytes(followed):
    """Elements of less than a byte: their row and k are those of the byte. A register that is stored, too, is not shifted so."""
    forms = {
        "and.b32 %r6, %r2, 0xf0f0f0f0;": "0123", "shl.b32 %r7, %r2, 4;": "0123", "shr.u32 %r8, %r2, 12;": "123-", "and.b32 %r9, %r2, %r3;": "----", "shl.b32 %r10, %r2, 20;": "--01",
        "shr.u32 %r11, %r2, 4;": "----", "and.b32 %r12, %r2, 0xf0f0f0f0;": "----",
    }  # fmt: skip
    body = [
        "shl.b32 %r57, %r1, 4; cvt.u64.u32 %d1, %r57; add.u64 %d1, %d1, %d20; ld.global.v2.u32 {%r2, %r3}, [%d1]; mov.u32 %r58, sm;", *forms, "st.shared.v2.u32 [%r58], {%r11, %r12}; bra OVER;",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r20, %r21, %r22, %r23}, {%r6, %r7, %r8, %r9}, {%r10, %r11}, {%r20, %r21, %r22, %r23}; OVER: st.global.u32 [%d1], %r12;",
    ]  # fmt: skip
    gpu = Gpu("sm_90a")
    array = gpu.array(np.arange(1, 513).astype(np.uint8))
    made = gpu.kernel(kernel(1, "\n".join(body)))
    gpu.launch(made, block=32, args=[array], progress=False)
    slots = {register.name: slot for slot, register in enumerate(made.program.inlined.registers)}
    for form, wanted in forms.items():
        held = followed[-1][1].register(slots[form.split()[1].rstrip(",")])
        found = np.full((32, 4), -1) if held is None else np.where(held == FOREIGN, -1, held - array.address - 16 * np.arange(32)[:, None])
        assert found.tolist() == [[-1 if what == "-" else int(what) for what in wanted]] * 32, form
