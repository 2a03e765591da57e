"""wgmma from registers to registers: laws that the traces do not state, and sentences for what there is not."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import smemsim
from mma import AT, encode, lay_out, numbers
from smemsim import HardwareTrap, InputError, SharedMemory, wgmma, wgmma_registers
from smemsim.core.layout import fragments
from smemsim.core.machine import halves
from smemsim.core.spec.wgmma import WGMMA_TYPES

B_AT = AT + 0x8000


def words(rng, a_type, b_type, n, *, majors=("K", "MN"), swizzle="64B"):
    row = next(r for r in WGMMA_TYPES if a_type in r.a and b_type in r.b)
    shared = SharedMemory("sm_90a")
    a, b = numbers(rng, (64, row.k), a_type), numbers(rng, (n, row.k), b_type)
    found = [
        lay_out(shared, x, dtype, major, swizzle, at, arch="sm_90a")
        for x, dtype, major, at in ((a, a_type, majors[0], AT), (b, b_type, majors[1], B_AT))
    ]
    return shared, found, a, b


@pytest.mark.parametrize("majors", [("K", "K"), ("K", "MN"), ("MN", "K"), ("MN", "MN")])
@pytest.mark.parametrize("d_type", ["f16", "f32"])
def test_registers_hold_d_element_for_element(majors, d_type):
    shared, (a_word, b_word), a, b = words(np.random.default_rng(1), "f16", "f16", 40, majors=majors)
    result = wgmma(shared, a_word, b_word, n=40, a_type="f16", d_type=d_type, a_major=majors[0], b_major=majors[1])
    registers = wgmma_registers(result)
    product = (a @ b.T).astype(np.float32)
    for thread in range(128):
        for element in range(20):
            row, column = fragments.d_row(thread, element), fragments.d_column(thread, element)
            if d_type == "f16":
                value = np.uint16(registers[thread, element // 2] >> 16 * (element % 2) & 0xFFFF).view(np.float16)
            else:
                value = registers[thread, element].view(np.float32)
            assert value == product[row, column]
    again = wgmma(
        shared, a_word, b_word, n=40, a_type="f16", d_type=d_type, d=registers, a_major=majors[0], b_major=majors[1], imm_scale_b=-1
    )
    assert not again.d.any()  # D - A B
    ignored = wgmma(
        shared, a_word, b_word, n=40, a_type="f16", d_type=d_type, d=registers, scale_d=False, a_major=majors[0], b_major=majors[1]
    )
    assert (ignored.d == result.d).all()


def test_a_comes_from_registers_or_from_shared_memory_with_one_result():
    shared, (a_word, b_word), a, _ = words(np.random.default_rng(2), "e4m3", "e5m2", 16, majors=("K", "K"))
    registers = np.zeros((128, 4), np.uint32)
    raw = encode(a, "e4m3").astype(np.uint32)
    for row in range(64):
        for k in range(32):
            element = fragments.a_element(row, k, 8)
            registers[fragments.a_thread(row, k, 8), element // 4] |= raw[row, k] << np.uint32(element % 4 * 8)
    both = [wgmma(shared, source, b_word, n=16, a_type="e4m3", b_type="e5m2") for source in (a_word, registers)]
    assert (both[0].d == both[1].d).all()
    assert both[1].a[0].element(20, 5).place.startswith("thread ")
    assert both[0].a[0].element(20, 5).value == both[1].a[0].element(20, 5).value


def test_terms_add_up_to_d():
    shared, (a_word, b_word), *_ = words(np.random.default_rng(3), "bf16", "bf16", 24, majors=("K", "K"))
    result = wgmma(shared, a_word, b_word, n=24, a_type="bf16")
    for m, n in ((0, 0), (63, 23), (17, 5)):
        assert sum(t.product for t in result.terms(m, n)) == Fraction(float(result.d.view(np.float32)[m, n]))
        assert [t.k for t in result.terms(m, n)] == list(range(16))
    for m, n in ((64, 0), (0, 24), (64, 24), (-1, 0), (0, -1)):  # of a D of 64 x 24
        for of in (result.terms, result.dot):
            with pytest.raises(InputError):
                of(m, n)
    first = result.terms(17, 5)[2]
    assert str(first) == f"k 2: A {first.a} x B {first.b} = {float(first.product):g}"
    scaled = dataclasses.replace(first, scale_a=Fraction(1, 2), scale_b=Fraction(4))
    assert str(scaled) == f"k 2: A {first.a} x B {first.b} x 0.5 x 4 = {float(first.product):g}"
    placed = dataclasses.replace(first.a, coordinate=(3, 7))
    assert str(placed) == f"{dataclasses.replace(first.a, coordinate=None)} = tensor element (3, 7)"
    assert [repr(operand)[:40] for operand in (result.b,)] == ["<MmaOperand 24 x 16 of bf16 in shared me"]


def test_a_tf32_torn_by_its_metadata_meets_halves_of_two_elements():
    """0b0001: lower half from half 1, upper half from half 0 of each group of four halves. Measured in trace
    wgmma_metadata.
    """
    shared = SharedMemory("sm_90a")
    raw = np.arange(8 * 16, dtype=np.uint32).reshape(8, 16) * np.uint32(0x10001) + np.uint32(0x3F803F80)
    sparse_b = lay_out_raw(shared, raw)
    a = np.full((128, 4), np.float32(1).view(np.uint32))
    metadata = np.full(128, 0x11111111, np.uint32)
    result = wgmma(shared, a, sparse_b, n=8, a_type="tf32", metadata=metadata)
    term = result.terms(3, 2)[1]
    assert term.b.bits == int(halves(raw[2:3], np.array([[5, 4]]))[0, 0])
    assert "upper half" in term.b.place
    assert term.b.bits == (int(raw[2, 2]) & 0xFFFF) << 16 | int(raw[2, 2]) >> 16
    whole = wgmma(shared, a, sparse_b, n=8, a_type="tf32", metadata=np.full(128, 0xE4E4E4E4, np.uint32))
    assert whole.lower is None


def lay_out_raw(shared, raw):
    """A K-major tf32 operand of 8 rows x 16, without swizzle."""
    image = np.zeros(8 * 64, np.uint8)
    for row in range(8):
        for k in range(16):
            at = row * 16 + k // 4 * 128 + k % 4 * 4
            image[at : at + 4] = np.frombuffer(int(raw[row, k]).to_bytes(4, "little"), np.uint8)
    shared.write(0x20000, image)
    return smemsim.SmemDescriptor(arch="sm_90a", start_address=0x20000, leading_byte_offset=128, stride_byte_offset=1024)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n": 20}, "8 to 256 in steps of 8"),
        ({"a_type": "s8", "d_type": "s32", "n": 40}, "32 to 256 in steps of 16"),
        ({"a_type": "f16", "b_type": "bf16"}, "wgmma has f16 x f16"),
        ({"a_type": "bf16", "d_type": "f16"}, "D 'f16'"),
        ({"a_type": "e4m3", "b_major": "MN"}, "K-major only"),
        ({"imm_scale_a": 2}, "needs 1 or -1"),
        ({"a_type": "s8", "d_type": "s32", "imm_scale_b": -1}, "have no sign"),
        ({"satfinite": True}, "no .satfinite"),
        ({"a_type": "b1", "d_type": "s32", "metadata": np.zeros(128, np.uint32)}, "does not exist for b1"),
        ({"metadata": np.zeros(128, np.uint32), "sparsity_selector": 2}, "bf16 has 0 or 1"),
        ({"metadata": np.zeros(64, np.uint32)}, "shape \\(128,\\)"),
        ({"a": np.zeros((128, 2), np.uint32)}, "shape \\(128, 4\\)"),
        ({"a": np.zeros((128, 4), np.uint32), "a_major": "MN"}, "no imm-trans-a"),
        ({"d": np.zeros((128, 8), np.uint16)}, "32-bit registers"),
        ({"shared": SharedMemory("sm_100a")}, "architecture with wgmma"),
        ({"shared": None}, "architecture with wgmma"),
        ({"b": 1.5}, "descriptor: needs"),
        ({"a_type": np.zeros(3)}, "a_type"),
        ({"satfinite": {}}, "satfinite"),
        ({"scale_d": "x"}, "scale_d = 'x'"),
        ({"sparsity_selector": 1}, "only wgmma.sp"),
        ({"sparsity_selector": "x"}, "sparsity_selector"),
    ],
)
def test_what_is_no_instruction_is_a_sentence(options, says):
    given = {"shared": SharedMemory("sm_90a"), "a": 0x40, "b": 0x40, "n": 8, "a_type": "bf16"} | options
    with pytest.raises(InputError, match=says):
        wgmma(given.pop("shared"), given.pop("a"), given.pop("b"), **given)


def test_operands_past_the_window_trap():
    shared = SharedMemory("sm_90a", size=4096)
    with pytest.raises(HardwareTrap):
        wgmma(shared, 0x40, 0x140, n=8, a_type="bf16")


def test_infinities_and_nans_are_numbers_too():
    """A row of infinities, and B of 1, with a -1 or a 0 in one column: Inf, Inf - Inf and Inf * 0."""
    shared = SharedMemory("sm_90a")
    a, b = np.full((64, 16), 0x3F80, np.uint16), np.full((8, 16), 0x3F80, np.uint16)
    a[5, :2], a[6, 0], b[2, 1], b[3, 0] = 0x7F80, 0xFFC1, 0xBF80, 0
    for at, raw in ((AT, a), (B_AT, b)):  # core matrices of 8 rows x 16 bytes
        shared.write(at, raw.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3).copy())
    words = [smemsim.SmemDescriptor(arch="sm_90a", start_address=at, leading_byte_offset=128, stride_byte_offset=256) for at in (AT, B_AT)]
    result = wgmma(shared, *words, n=8, a_type="bf16")
    assert result.d[5].tolist() == [0x7F800000] * 2 + [0x7FFFFFFF] * 2 + [0x7F800000] * 4
    assert (result.d[6] == 0x7FFFFFFF).all()
    assert np.isfinite(np.delete(result.d, [5, 6], axis=0).view(np.float32)).all()
    assert result.certain.all()
    assert repr(result).endswith("addresses measured; arithmetic measured>")
    assert result.rounding == "D is measured bit for bit"


def test_only_a_wgmma_has_registers():
    for wrong in (None, smemsim.SmemDescriptor.decode(0, arch="sm_90a")):
        with pytest.raises(InputError, match="what wgmma returned"):
            wgmma_registers(wrong)


def test_what_nobody_wrote_is_counted():
    shared = SharedMemory("sm_90a")
    shared.write(AT, np.full(64 * 16, 0x3F80, np.uint16))
    word = smemsim.SmemDescriptor(arch="sm_90a", start_address=AT, leading_byte_offset=128, stride_byte_offset=256)
    below = word.advance(0x4000)
    result = wgmma(shared, word, below, n=8, a_type="bf16")
    assert result.unwritten == {"B": 128}
    assert "128 elements of B are uninitialised" in repr(result)
    assert not result.certain.any()
    for row, k in ((64, 0), (0, 16), (-1, 0)):
        with pytest.raises(InputError):
            result.a[0].place(row, k)
