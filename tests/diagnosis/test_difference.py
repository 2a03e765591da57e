"""Planted faults: explain_difference says what was planted and where, and what it says can be done again by hand."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exact
import hand
from mma import lay_out, memories
from smemsim import (
    InputError,
    InstrDescriptor,
    SharedMemory,
    TmemAddress,
    explain_difference,
    from_float64,
    tcgen05_mma,
    to_float64,
    wgmma,
    wgmma_registers,
)
from smemsim.core.layout.fragments import d_column, d_row
from smemsim.evidence import load_suite, replay_suite
from strategies import examples
from test_tcgen05_mma import put_scales, store_a
from test_traces import SM90, rewritten

AT = {"a": 0x400, "b": 0x8400}
BYTES = {"bf16": 2, "f16": 2, "tf32": 4, "e4m3": 1, "s8": 1}
LAYOUT, OPTION, TERM = "a wrong layout", "another option", "a wrong term"


def some(rng, shape, dtype):
    return rng.integers(0, 256, shape).astype(np.uint8) if dtype == "s8" else from_float64(rng.standard_normal(shape), dtype)


def words(side, steps=1, *, start=0, advance=32, base=0, swizzle="128B", sbo=1024, lbo=16):
    return [hand.word("sm_90a", swizzle, start=AT[side] + start + i * advance, lbo=lbo, sbo=sbo) | base << 49 for i in range(steps)]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """wgmmas that add into one D; `each` has what is special in one of them."""

    image: np.ndarray
    a: list
    b: list
    dtype: str = "bf16"
    n: int = 64
    c: np.ndarray | None = None
    options: dict = dataclasses.field(default_factory=dict)
    each: dict = dataclasses.field(default_factory=dict)

    def but(self, **changed):
        return dataclasses.replace(self, **changed)

    def chain(self, a, b=None, **more):
        return self.but(a=[self.a[i] for i in a], b=[self.b[i] for i in (a if b is None else b)], **more)

    def written(self, address, code):
        image = self.image.copy()
        image[(address - AT["a"]) // image.itemsize] = code
        return self.but(image=image)

    def memory(self):
        shared = SharedMemory()
        shared.write(AT["a"], self.image, label="data")
        return shared

    def run(self):
        shared, out, (thread, element) = self.memory(), [], np.indices((128, self.n // 2))
        c = None if self.c is None else self.c[d_row(thread, element), d_column(thread, element)]
        for i, (a, b) in enumerate(zip(self.a, self.b, strict=True)):
            given = {"d_type": "s32" if self.dtype == "s8" else "f32"} | self.options | self.each.get(i, {})
            out.append(wgmma(shared, a, b, n=self.n, a_type=self.dtype, d=wgmma_registers(out[-1]) if out else c, **given))
        return out

    def numbers(self):
        """(A and B of every instruction, C) as numbers."""
        results = self.run()
        return [[to_float64(x.bits, self.dtype) for x in (r.a[0], r.b)] for r in results], to_float64(results[0].c, "f32")


def kernel(dtype="bf16", steps=1, n=64, seed=1, *, c=False, same=None):
    rng = np.random.default_rng(seed)
    image = some(rng, 0x10000 // BYTES[dtype], dtype)
    image = image if same is None else np.full_like(image, same)
    return Kernel(image, words("a", steps), words("b", steps), dtype, n, some(rng, (64, n), "f32") if c else None)


def told(good, bad, *, shared=True):
    """(class, sentences in one text) of the D of another kernel, or of a changed D."""
    results = good.run()
    d = bad.run()[-1].d if isinstance(bad, Kernel) else bad(results[-1].d)
    found = explain_difference(results, d, shared=good.memory() if shared else None)
    return found.looks_like, "; ".join(found.because)


def f32(values):
    return values.astype(np.float32).view(np.uint32)


# ---- what was read


READ = {
    "SBO 512 instead of 1024": {"sbo": 512},
    "SBO 2048 instead of 1024": {"sbo": 2048},
    "base offset 3 instead of 0": {"base": 3},
    "SBO 512 instead of 1024 and swizzle 64B instead of 128B": {"swizzle": "64B", "sbo": 512},
    "LBO 2048 instead of 0 and swizzle none instead of 128B": {"swizzle": "none", "lbo": 2048},
    "a start address 32 bytes further": {"start": 32},
    "a start address 8192 bytes further": {"start": 0x2000},
    "start addresses that advance by 0 bytes instead of 32": {"advance": 0},
}


@pytest.mark.parametrize(
    ("sentence", "dtype", "side"),
    [(sentence, ("bf16", "e4m3", "s8")[(n + m) % 3], side) for n, sentence in enumerate(READ) for m, side in enumerate("ab")],
)
def test_another_descriptor_is_named_with_an_address_that_it_reads(sentence, dtype, side):
    good = kernel(dtype, steps=3)
    bad = good.but(**{side: words(side, 3, **READ[sentence])})
    kind, text = told(good, bad)
    assert kind == LAYOUT
    line, k, step, read, meant = re.search(
        rf"{side.upper()} was read with {sentence}: \w\[(\d+), (\d+)\] of instruction (\d) from (\w+) instead of (\w+)", text
    ).groups()
    operands = [getattr(x.run()[int(step)], side) for x in (good, bad)]
    assert [hex((x[0] if side == "a" else x).address[int(line), int(k)]) for x in operands] == [meant, read]


def test_swapped_strides_a_transposed_operand_and_one_instruction_alone():
    good = kernel().but(b=words("b", swizzle="none", lbo=128, sbo=256))
    assert "B was read with LBO and SBO swapped: B[0, 8] from" in told(good, good.but(b=words("b", swizzle="none", lbo=256, sbo=128)))[1]
    assert "A was read with MN-major instead of K-major" in told(good, good.but(options={"a_major": "MN"}))[1]
    good = kernel(steps=4)
    bad = good.but(b=[*good.b[:2], *words("b", start=64 + 16), good.b[3]])
    assert "B was read with a start address 16 bytes further in instruction 2: B[0, 0] of instruction 2 from" in told(good, bad)[1]


def test_without_the_memory_that_was_read_only_what_the_model_read_is_known():
    good, bad = kernel(), kernel().but(b=words("b", sbo=512))
    assert "SBO 512 instead of 1024" in told(good, bad, shared=False)[1]
    later = explain_difference(good.run(), bad.run()[-1].d, shared=SharedMemory())  # somebody has written there since
    assert any("SBO 512 instead of 1024" in text for text in later.because)
    kind, text = told(good, good.but(b=words("b", start=0x2000)), shared=False)
    assert kind == TERM
    assert text.endswith("with `shared`, the memory that was read, other descriptors are tried on all of it")


# ---- what was done


def swapped(d):
    d = d.copy()
    d[3, 4], d[9, 9] = d[9, 9], d[3, 4]
    return d


# fmt: off
DONE = {
    "instruction 2 were missing": (OPTION, lambda k: k.chain((0, 1, 3))),
    "instruction 1 ran twice": (OPTION, lambda k: k.chain((0, 1, 1, 2, 3))),
    "instruction 2 did not add to D": (OPTION, lambda k: k.but(each={2: {"scale_d": False}})),
    "the products of instruction 3 had the other sign": (OPTION, lambda k: k.but(each={3: {"imm_scale_b": -1}})),
    "if products had the other sign": (OPTION, lambda k: k.but(options={"imm_scale_a": -1})),
    "C were not added": (OPTION, lambda k: k.but(c=None)),
    "no product were added: D is C": (OPTION, lambda k: lambda d: k.c),
    "instruction 2 read A of instruction 0": (LAYOUT, lambda k: k.chain((0, 1, 0, 3), range(4))),
    "instruction 1 read B of instruction 3": (LAYOUT, lambda k: k.chain(range(4), (0, 3, 2, 3))),
    "instruction 3 read A and B of instruction 0": (LAYOUT, lambda k: k.chain((0, 1, 2, 0))),
    "C's rows were in other places: row m has what belongs in m ^ 8": (LAYOUT, lambda k: k.but(c=k.c[np.arange(64) ^ 8])),
    "C's columns were in other places: column n has what belongs in (n - 2) % 64": (LAYOUT, lambda k: k.but(c=np.roll(k.c, 2, 1))),
    "D's rows were in other places: row m has what belongs in m ^ 16": (LAYOUT, lambda k: lambda d: d[np.arange(64) ^ 16]),
    "D's columns were in other places: column n has what belongs in n ^ 63": (LAYOUT, lambda k: lambda d: d[:, ::-1]),
    "D were transposed": (LAYOUT, lambda k: lambda d: d.T),
    "D's elements were in other places: [3, 4] has that of [9, 9], [9, 9] has that of [3, 4]": (LAYOUT, lambda k: swapped),
}
# fmt: on


@pytest.mark.parametrize("sentence", DONE)
def test_what_instructions_did_otherwise_is_named(sentence):
    kind, fault = DONE[sentence]
    good = kernel(steps=4, c=True)
    found, text = told(good, fault(good))
    assert found == kind
    assert re.match(r"D is what it would be if .*, bit for bit", text)
    assert sentence in text


def test_integers_that_wrapped_or_were_clamped():
    good = kernel("s8").but(c=np.full((64, 64), 0x7FFFFFFF, np.uint32))
    clamped = good.but(options={"satfinite": True})
    assert told(good, clamped) == (OPTION, "D is what it would be if results were clamped (.satfinite), bit for bit")
    assert told(clamped, good) == (OPTION, "D is what it would be if results wrapped, bit for bit")
    assert "SBO 512 instead of 1024" in told(good, good.but(b=words("b", sbo=512)))[1]


# ---- how it was summed


@pytest.mark.parametrize(("dtype", "changed", "sentence"), [
    ("bf16", {"kept": 24}, "24 bits were kept below the largest term"),
    ("f16", {"kept": 26}, "26 bits were kept below the largest term"),
    ("e4m3", {"kept": 12}, "12 bits were kept below the largest term"),
    ("e4m3", {"kept": 25, "fraction": 23}, "25 bits were kept below the largest term and D had 23 fraction bits"),
    ("tf32", {"nearest": True}, "the last conversion were to nearest"),
])  # fmt: skip
def test_other_constants_of_the_datapath_are_found(dtype, changed, sentence):
    good, constants = kernel(dtype, n=8, c=True), exact.constants("wgmma", dtype, "f32")[0] | changed
    [result] = good.run()
    a, b, c = (x.tolist() for x in (result.a[0].bits, result.b.bits, result.c))
    d = [[exact.dot(a[m], b[n], c[m][n], (dtype, dtype, "f32"), **constants) for n in range(8)] for m in range(64)]
    kind, text = told(good, lambda _: np.array(d, np.uint32))
    assert kind == "rounding"
    assert f"if {sentence}" in text
    assert ", bit for bit" in text


def test_sums_of_a_host_are_found():
    good = kernel(steps=3, c=True)
    pairs, c = good.numbers()
    whole, fused, stepwise = c, c.astype(np.float32), c.astype(np.float32)
    for a, b in pairs:
        whole = whole + a @ b.T
        stepwise = (stepwise + a @ b.T).astype(np.float32)
        for k in range(16):
            fused = (fused + a[:, k, None] * b[:, k]).astype(np.float32)
    for d, sentence in (
        (whole, "it were one sum in float64"),
        (fused, "one fused multiply-add after"),
        (stepwise, "rounded its exact sum"),
    ):
        kind, text = told(good, lambda _, d=d: f32(d))
        assert (kind, sentence in text) == ("rounding", True)


def test_noise_is_rounding_that_nothing_explains_and_integers_have_none():
    noise = np.random.default_rng(5).random((64, 64)) < 0.2
    assert told(kernel(), lambda d: d ^ noise)[1].startswith("no difference is larger than rounding could make it")
    column = np.arange(64) == 9
    assert "all of them are in column 9, and rounding does not choose: an element of B" in told(kernel(), lambda d: d ^ column)[1]
    assert told(kernel("s8"), lambda d: d ^ noise)[0] == "unknown"


@pytest.mark.parametrize(("bad", "kind", "sentence"), [
    (lambda k: k.but(b=words("b", 2, sbo=512)), LAYOUT, "B was read with SBO 512"),
    (lambda k: k.chain((0,)), OPTION, "instruction 1 were missing"),
    (lambda k: k.written(0x808, 0x4000), TERM, "A[8, 4] of instruction 0 (shared 0x808) were about 2, not 0x"),
])  # fmt: skip
def test_what_is_wrong_is_found_under_other_rounding_too(bad, kind, sentence):
    good = kernel(steps=2)
    pairs, c = bad(good).numbers()
    found, text = told(good, lambda _: f32(sum((a @ b.T for a, b in pairs), c)))
    assert found == kind
    assert sentence in text
    assert ", but for rounding" in text


# ---- elements


@pytest.mark.parametrize("dtype", ["bf16", "e4m3", "s8"])
@examples(40)
@given(data=st.data())
def test_a_single_wrong_element_is_named_with_its_address_or_too_small_to_tell(dtype, data):
    good = kernel(dtype, steps=data.draw(st.integers(1, 3)), n=data.draw(st.sampled_from([16, 64])), c=data.draw(st.booleans()))
    step, side = data.draw(st.integers(0, len(good.a) - 1)), data.draw(st.sampled_from("AB"))
    operand = good.run()[step].a[0] if side == "A" else good.run()[step].b
    line, k = (data.draw(st.integers(0, size - 1)) for size in operand.bits.shape)
    value = data.draw(st.floats(-4, 4, width=16))
    code = int(from_float64([value], dtype)[0])
    kind, text = told(good, good.written(int(operand.address[line, k]), code))
    if kind != TERM:
        assert kind in ("rounding", "the same"), text
        return
    of = f" of instruction {step}" if len(good.a) > 1 else ""
    assert f"if {side}[{line}, {k}]{of} ({operand.place(line, k)}) were " in text
    new, nearly = re.search(r"were (0x\w+) = \S+( or nearly so)?,", text).groups()
    assert nearly or to_float64([int(new, 16)], dtype) == to_float64([code], dtype)


@pytest.mark.parametrize(("dtype", "count", "first"), [("bf16", 8, "0xc040 = -3"), ("s8", 16, "0xfd = -3")])
def test_a_chunk_of_wrong_elements_is_solved_for(dtype, count, first):
    good = chunk = kernel(dtype)
    for i in range(count):
        chunk = chunk.written(0xC00 + i * BYTES[dtype], int(from_float64([i - 3], dtype)[0]))
    kind, text = told(good, chunk)
    assert kind == TERM
    assert f"A[16, 0] (shared 0xc00) were {first}, not 0x" in text
    assert f"({count} elements), bit for bit" in text


def test_data_that_cannot_tell_are_not_told():
    good = kernel()
    kind, text = told(good, good.written(0xC00, 0x7FC0))  # a NaN may be anywhere in its row
    assert (kind, "one element were another, any of 16 in row 16: A[16, 0] (shared 0xc00), " in text) == (TERM, True)
    ones = kernel(steps=3, same=0x3F80)
    assert "any of 48 in row 16" in told(ones, ones.written(0xC00, 0x4000))[1]
    assert told(ones, ones.chain((0, 1)))[1].count("were missing") == 3
    assert told(ones, lambda d: d + np.uint32(1 << 23))[0] == "unknown"
    few = kernel(n=8, same=0x3F80).but(c=np.full((64, 8), 0x3F800000, np.uint32))
    assert told(few, few.but(c=None))[0] == OPTION
    a = good.run()[0].a[0]
    for k in range(1, 16):  # rows 5 and 9 of A differ in one element
        good = good.written(int(a.address[5, k]), int(a.bits[9, k]))
    kind, text = told(good, good.written(int(a.address[5, 0]), int(a.bits[9, 0])))
    assert kind == "unknown"
    assert "or if A[5, 0] (shared" in text
    assert text.endswith("these data do not tell a wrong layout from a wrong term")


def test_sums_that_need_few_bits_are_not_rounded():
    ones = kernel("e4m3", steps=8, same=0x38)
    some_more = np.random.default_rng(3).random((64, 64)) < 0.01
    assert told(ones, lambda d: f32(d.view(np.float32) + some_more))[0] == "unknown"


def test_an_element_that_reaches_no_other_of_d_is_not_blamed():
    rng = np.random.default_rng(4)
    image = np.concatenate([some(rng, 0x4000, "bf16"), np.zeros(0x4000, np.uint16)])
    alone = Kernel(image, words("a"), words("b")).written(AT["b"], 0x3F80)  # B[0, 0] and nothing else
    kind, text = told(alone, lambda d: d ^ np.uint32(1 << 22) * (np.arange(4096) == 0).reshape(64, 64))
    assert (kind, "one element of D differs alone" in text) == ("unknown", True)


def test_a_result_that_its_operands_do_not_give_is_not_looked_into():
    """The D of a result was changed afterwards. Elements that no instruction wrote do not count."""
    good = kernel(steps=2)
    bad = good.but(a=words("a", 2, sbo=512)).run()[-1].d
    *before, last = good.run()
    changed = last.d ^ np.uint32(1 << 22) * (np.indices(last.d.shape).sum(axis=0) == 0)
    written = changed == last.d
    kinds = []
    for d, of in ((last.d, None), (changed, None), (changed, written), (changed, ~written)):
        found = explain_difference([*before, dataclasses.replace(last, d=d, written=of)], bad, shared=good.memory())
        kinds.append(found.looks_like)
    assert kinds == [LAYOUT, "unknown", LAYOUT, "unknown"]


ROW, COLUMN = np.arange(64)[:, None] == 5, np.arange(64) == 7


@pytest.mark.parametrize(("fault", "sentence"), [
    (lambda d: d ^ np.uint32(1 << 30) * (ROW & COLUMN), "in row 5 and column 7; .* one element of D differs alone"),
    (lambda d: np.where(ROW, d[::-1] ^ 0xF00000, d), "in row 5; .* look at that row of A, of C, or of D's own storage"),
    (lambda d: np.where(ROW | COLUMN, d ^ 0xF00000, d), "in row 5 and column 7; .* several of them may be wrong"),
    (lambda d: d ^ 0xF00000, "in 64 rows .0 to 63. and 64 columns .0 to 63.; .* the model adds to no C: hardware may"),
])  # fmt: skip
def test_what_nothing_explains_is_unknown_and_described(fault, sentence):
    kind, text = told(kernel(steps=6), fault)
    assert kind == "unknown"
    assert re.search(sentence, text)


def turned(where):
    return lambda d: np.where(where, d ^ 0xF00000, d).astype(np.uint32)


@pytest.mark.parametrize(("fault", "is_asked"), [
    (turned(ROW | ~ROW), True), (turned(ROW | COLUMN), True), (turned(ROW & (COLUMN | COLUMN[::-1])), False), (turned(COLUMN & (ROW | ROW[::-1])), False),
    (turned(ROW & COLUMN), False), (turned((ROW | ROW[::-1]) & (COLUMN | COLUMN[::-1])), True),
    (lambda d: turned(COLUMN)(np.where(d == 0x7FFFFFFF, 0x7FC00000, d)), False),  # the other differences are NaNs with other bits
    (lambda d: d[:, np.arange(64) ^ 8], False),  # is explained
])  # fmt: skip
def test_memory_is_asked_for_if_several_rows_and_columns_differ_and_nothing_explains_them(fault, is_asked):
    """Row 16 is of NaNs."""
    good = kernel().written(0xC00, 0x7FC0)
    asks = "with `shared`, the memory that was read, other descriptors are tried on all of it"
    assert told(good, fault, shared=False)[1].endswith(asks) == is_asked
    assert not is_asked or asks not in told(good, fault)[1]


def test_nans_with_other_bits_are_told_and_not_counted():
    good = kernel().written(0xC00, 0x7FC0)
    assert told(good, lambda d: np.where(d == 0x7FFFFFFF, 0x7FC00000, d).astype(np.uint32)) == (
        "unknown",
        "hardware has NaNs with other bits, 0x7fc00000 where the model has 0x7fffffff, and nothing else",
    )
    assert told(good, good) == ("the same", "")


# ---- every sentence once more


def again(text, k):
    """The kernel that does what a sentence says; None of what is not done again here."""
    order = list(range(len(k.a)))
    if found := re.match(r"(A|B) were read with (.*?)(?: in instruction (\d+))?: ", text):
        side, only, fields = found[1].lower(), found[3], {}
        for name, value in re.findall(r"(LBO|SBO|base|swizzle|advance)(?: offset| by)? (-?\w+)", found[2]):
            fields[name.lower()] = value if name == "swizzle" else int(value)
        for count, way in re.findall(r"(\d+) bytes (further|back)", found[2]):
            fields["start"] = int(count) * (1 if way == "further" else -1)
        return k.but(**{side: only_in(only and int(only), getattr(k, side), words(side, len(order), **fields))})
    if found := re.match(r"instruction (\d+) (were missing|ran twice|read (A|B|A and B) of instruction (\d+))", text):
        i = int(found[1])
        if found[3] is None:
            return k.chain([*order[:i], *([] if found[2] == "were missing" else [i, i]), *order[i + 1 :]])
        other = [*order[:i], int(found[4]), *order[i + 1 :]]
        return k.chain(other if "A" in found[3] else order, other if "B" in found[3] else order)
    found = re.match(r"[AB]\[\d+, \d+\](?: of instruction \d+)? \(shared (0x\w+)\) were (0x\w+) = [^;]*$", text)
    return found and k.written(int(found[1], 16), int(found[2], 16))


def only_in(step, old, new):
    return [x if step in (None, i) else y for i, (x, y) in enumerate(zip(new, old, strict=True))]


@st.composite
def faults(draw):
    """(kernel, what hardware ran); the data repeat themselves more or less."""
    steps, side, dtype = draw(st.integers(1, 3)), draw(st.sampled_from("ab")), draw(st.sampled_from(["bf16", "e4m3", "s8", "tf32"]))
    good = kernel(dtype, steps, draw(st.sampled_from([8, 64])), draw(st.integers(0, 3)), c=draw(st.booleans()))
    repeats = np.arange(good.image.size) % draw(st.sampled_from([1, 2, 16])) > 0
    good = good.but(image=np.where(repeats, good.image[1], good.image))
    fields = draw(st.sampled_from([{"sbo": 512}, {"sbo": 1040}, {"base": 5}, {"swizzle": "32B"}, {"advance": 64}, {"start": 48}]))
    read = only_in(draw(st.sampled_from([None, *range(steps)])), getattr(good, side), words(side, steps, **fields))
    order = draw(st.lists(st.integers(0, steps - 1), min_size=1, max_size=4))
    element = AT[side] + draw(st.integers(0, 127)) * 4, draw(st.integers(0, 120))
    return good, draw(st.sampled_from([good.but(**{side: read}), good.chain(order), good.written(*element)]))


@examples(40)
@given(faults())
def test_whatever_is_said_to_be_so_bit_for_bit_is_so(fault):
    good, bad = fault
    hardware = bad.run()[-1].d
    found = explain_difference(good.run(), hardware, shared=good.memory())
    if found.because and found.because[0].endswith(", bit for bit"):
        said = [found.because[0].removeprefix("D is what it would be if ").removesuffix(", bit for bit")]
        for text in said + [x.removeprefix("or if ") for x in found.because[1:] if x.startswith("or if ")]:
            other = again(text, good)
            assert other is None or (other.run()[-1].d == hardware).all(), text


# ---- Blackwell


def test_another_power_of_two_of_c_is_named():
    """scale-input-d of tcgen05: of the sixteen, the one that was executed, also if the instruction has one already."""
    rng, i = np.random.default_rng(7), InstrDescriptor(kind="f16", m=128, n=32, a_type="bf16", b_type="bf16")
    (shared,), (tensor,) = memories(1)
    a, b = (lay_out(shared, rng.integers(-3, 4, (rows, 16)), "bf16", "K", "32B", AT[x]) for x, rows in (("a", 128), ("b", 32)))

    def run(scale):
        tcgen05_mma(tensor, 0, a, b, i, shared=shared, enable_input_d=False)
        return tcgen05_mma(tensor, 0, a, b, i, shared=shared, scale_input_d=scale)

    for meant in (0, 5):
        for executed in (1, 4, 15):
            found = explain_difference(run(meant), run(executed).d, shared=shared)
            assert found.because[0] == f"D is what it would be if C were divided by 2^{executed} (scale-input-d), bit for bit"


def test_block_scaled_instructions_of_tcgen05():
    rng, i = np.random.default_rng(6), InstrDescriptor(kind="mxf8f6f4", m=128, n=32, a_type="e4m3", b_type="e4m3", a_sf_id=0, b_sf_id=0)
    (shared,), (tensor,) = memories(1)
    a, b = (lay_out(shared, rng.integers(-3, 4, (rows, 32)), "e4m3", "K", "32B", AT[x]) for x, rows in (("a", 128), ("b", 32)))
    scales = {f"scale_{x}": put_scales(i, rng.integers(0x7C, 0x83, (rows, 1)), x.upper(), "1X", [tensor], at) for x, rows, at in (("a", 128, 400), ("b", 32, 420))}  # fmt: skip

    def run(word, **more):
        return tcgen05_mma(tensor, 0, a, word, i, shared=shared, scale_vec="1X", **scales, **more)

    good, bad = (run(word, enable_input_d=False) for word in (b, b - (8 << 32)))  # SBO 256, 128
    found = explain_difference(good, bad.d, shared=shared)
    assert (found.looks_like, found.because[0].partition(":")[0]) == (
        LAYOUT,
        "D is what it would be if B was read with SBO 128 instead of 256",
    )
    chain = [run(b, enable_input_d=False), run(b)]
    assert "instruction 0 ran twice" in explain_difference(chain, run(b).d).because[0]


@pytest.mark.parametrize(("column", "first"), [(0, 0), (31, 0), (32, 32), (63, 32)])
def test_columns_with_another_copy_of_a_are_looked_at_alone(column, first):
    """.ws with M = 64: the upper lanes have a copy of A for the upper half of N."""
    i, ((shared,), (tensor,)) = InstrDescriptor(kind="f16", m=64, n=64, a_type="bf16", b_type="bf16"), memories(1)
    rng = np.random.default_rng(8)
    a = rng.integers(-3, 4, (64, 16)).astype(np.float64)
    b = lay_out(shared, rng.integers(-3, 4, (64, 16)), "bf16", "K", "32B", AT["b"])
    store_a(i, a, [tensor], 1, True, 0)
    good = tcgen05_mma(tensor, 0, TmemAddress(0, 384), b, i, shared=shared, ws=True, enable_input_d=False)
    assert len(good.a) == 2
    of_half = (np.arange(64) // 32 == first // 32)[None, :]
    for d, kind in (
        (good.d ^ np.where(ROW & (np.arange(64) == column), np.uint32(1 << 22), np.uint32(0)), {"unknown", TERM}),
        (np.where(of_half, good.d[np.arange(64) ^ 8], good.d), {LAYOUT}),
    ):
        found = explain_difference(good, d, shared=shared)
        assert found.looks_like in kind
        assert found.because[-1] == f"columns are counted from {first}, where those begin that share their copy of A"
    assert "row m has what belongs in m ^ 8" in found.because[0]


def test_lanes_that_are_switched_off_do_not_differ():
    i, ((shared,), (tensor,)) = InstrDescriptor(kind="f16", m=128, n=16, a_type="bf16", b_type="bf16"), memories(1)
    a, b = (lay_out(shared, np.ones((rows, 16), int), "bf16", "K", "32B", AT[x]) for x, rows in (("a", 128), ("b", 16)))
    result = tcgen05_mma(tensor, 0, a, b, i, shared=shared, enable_input_d=False, disable_output_lane=(0xFFFFFFFF, 0, 0, 0))
    garbage = np.where(np.arange(128)[:, None] < 32, np.uint32(0x12345678), result.d)
    assert explain_difference(result, garbage).looks_like == "the same"
    assert explain_difference(result, garbage[:, ::-1] ^ (np.arange(16) == 3)).looks_like == "rounding"


# ---- replays


def replayed(name, change, folder, case):
    report = replay_suite(load_suite(rewritten(SM90 / name, folder / name, change)), case=case)
    [found] = report.as_dict()["differences"]
    assert f"\n  looks like: {found['looks_like']}\n    {found['because'][0]}\n" in report.text()
    return found["looks_like"], "; ".join(found["because"])


def test_a_replay_of_whole_wgmmas_says_what_a_difference_looks_like(tmp_path):
    a = load_suite(SM90 / "wgmma_f32").arrays
    chosen = (a["a_source"] == "shared") & (a["sparse"] == 0) & (a["scale_d"] == 1) & (a["n"] >= 40) & (a["dtype_a"] == "bf16")
    case = int(np.flatnonzero(chosen)[0])
    d, word = slice(*a["d_start"][case : case + 2].tolist()), int(a["b_descriptor"][case])

    def swap_registers(x):
        threads = x["d"][d].reshape(128, -1)
        x["d"][d] = threads[:, np.arange(threads.shape[1]) ^ 2].ravel()

    def write(x):
        x["image_bf16"].view(np.uint16)[((word & 0x3FFF) * 16 - 0x400) // 2] = 0x4090

    for change, kind, sentence in (
        (swap_registers, LAYOUT, r"D's rows were in other places: row m has what belongs in m \^ 8"),
        (write, TERM, r"B\[\d+, \d+\] \(shared 0x\w+\) were 0x\w+ = .*, not 0x4090 = 4.5, bit for bit"),
        (lambda x: x["b_descriptor"].__setitem__(case, word + (1 << 32)), LAYOUT, "B was read with SBO"),
    ):
        found, text = replayed("wgmma_f32", change, tmp_path, case)
        assert (found, bool(re.search(sentence, text))) == (kind, True)


def test_a_replay_of_dot_products_says_what_a_difference_looks_like(tmp_path):
    arrays = load_suite(SM90 / "wgmma_dots_f32").arrays
    chosen = (
        (arrays["dtype_a"] == "bf16")
        & (arrays["sparse"] == 0)
        & (arrays["chained"] == 0)
        & (arrays["n"] == 64)
        & (arrays["style"] == "near_one")
    )
    case = int(np.flatnonzero(chosen)[0])
    of = {x: slice(*arrays[f"{x}_start"][case : case + 2].tolist()) for x in "abd"}
    a, b = (to_float64(arrays[x][of[x]].reshape(64, 16), "bf16") for x in "ab")

    def summed(values):
        def change(x):
            for name, value in {"scale_d": 0, "scale_a": 1, "scale_b": 1}.items():
                x[name][case] = value
            x["d"][of["d"]] = f32(values).ravel()

        return change

    other = np.where(np.arange(64 * 16).reshape(64, 16) == 7 * 16 + 3, 4.5, a)
    for d, kind, sentence in (
        (a @ b.T, "rounding", "if it were one sum in float64, rounded to nearest, bit for bit"),
        (other @ b.T, TERM, "if A[7, 3] were about 4.5, not 0x"),
        ((a @ b.T)[np.arange(64) ^ 4], LAYOUT, "row m has what belongs in m ^ 4, but for rounding"),
    ):
        found, text = replayed("wgmma_dots_f32", summed(d), tmp_path, case)
        assert (found, sentence in text) == (kind, True)


def test_a_replay_of_the_reference_kernel_says_what_a_difference_looks_like(tmp_path):
    arrays = load_suite(SM90 / "reference_gemm").arrays
    case = int(np.flatnonzero(arrays["data"] == "normal")[0])
    a, b = (to_float64(arrays[f"{x}_normal"], "bf16") for x in "ab")
    other = np.where(np.arange(a.size).reshape(a.shape) == 69 * 192 + 70, 2.5, a)
    for d, kind, sentence in (
        (arrays["d"][case][np.arange(128) ^ 8], LAYOUT, "D's rows were in other places: row m has what belongs in m ^ 8"),
        (f32(a @ b.T), "rounding", "it were one sum in float64, rounded to nearest"),
        (f32(other @ b.T), TERM, "A[5, 6] of instruction 4 (shared 0x"),
    ):
        found, text = replayed("reference_gemm", lambda x, d=d: x["d"][case].__setitem__(slice(64, 128), d[64:]), tmp_path, case)
        assert (found, sentence in text) == (kind, True)
        assert "counted from row 64 and column 0 of D, where its tile begins" in text


# ---- what does not fit


def test_what_does_not_fit_is_a_sentence_that_names_the_field():
    first, second = kernel(steps=2).run()
    for arguments, sentence in (
        ((first, first.d[:, :8]), r"d has shape \(64, 8\): the result is \(64, 64\)"),
        ((first, first.d.view(np.float32)), "d: an array of float32; needs raw element bits of f32 in unsigned integers"),
        ((first.d, first.d), "results = .*: needs what wgmma or tcgen05_mma returned, or a list of that"),
        (([], first.d), r"results = \[\]: needs what wgmma"),
        (([first, None], first.d), "results = .*: needs what wgmma"),
        (([first, kernel(n=8).run()[0]], first.d), r"results\[1\] is .*: needs instructions of one kind and shape"),
        (([second, first], first.d), r"results\[1\] does not add to what results\[0\] left in D"),
    ):
        with pytest.raises(InputError, match=sentence):
            explain_difference(*arguments)
    with pytest.raises(InputError, match=r"shared = .*: needs the SharedMemory that was read"):
        explain_difference(first, second.d, shared=first)
