"""A D that differs: what it looks like, for faults that were planted, and that no claim is made which is not true."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from smemsim import InputError, explain_difference
from smemsim.diagnose.product import Product
from smemsim.traces.format import load_suite
from smemsim.traces.replay import replay_suite
from strategies import examples
from test_traces import SM90, rewritten

A, B = 0x400, 0x4400


def word(start, sbo=1024, mode=1, base=0):
    return start >> 4 | 1 << 16 | sbo >> 4 << 32 | base << 49 | mode << 62


def memory(seed=3):
    shared = smemsim.SharedMemory("sm_90a")
    numbers = np.random.default_rng(seed).standard_normal(0x4000)
    shared.write(0x400, smemsim.from_float64(numbers, "bf16"))
    return shared


def run(shared, a=None, b=None, **more):
    return smemsim.wgmma(shared, word(A) if a is None else a, word(B) if b is None else b, n=64, a_type="bf16", **more)


def chain(shared, adds):
    """Results of instructions that add into one D; `adds` to the starts of A and B."""
    found = []
    for x, y in adds:
        before = smemsim.wgmma_registers(found[-1]) if found else None
        found.append(run(shared, word(A + x), word(B + y), d=before))
    return found


def said(result, d, shared):
    found = explain_difference(result, d, shared=shared)
    return found.looks_like, "\n".join(found.because)


ROUNDINGS = {
    "24 bits kept below the largest term": {"kept_bits": 24},
    "13 bits kept below the largest term and 13 fraction bits in D": {"kept_bits": 13, "fraction_bits": 13},
    "a final conversion to nearest": {"to_nearest": True},
}


@pytest.mark.parametrize("text", ROUNDINGS)
def test_another_rounding_is_named(text):
    shared = memory()
    product = Product.of([run(shared)])
    other = product.run(dataclasses.replace(product.row, **ROUNDINGS[text]))
    looks, because = said(run(shared), other, shared)
    assert (looks, because) == ("rounding", f"{text}: that gives all of hardware's D, bit for bit")


def test_a_reference_on_the_host_is_told_from_a_tensor_core():
    shared = memory()
    result = run(shared)
    a, b = (smemsim.to_float64(x.bits, "bf16") for x in (result.a[0], result.b))
    looks, because = said(result, (a @ b.T).astype(np.float32).view(np.uint32), shared)
    assert looks == "rounding"
    assert "one sum in float64" in because
    noise = result.d.copy()
    noise[::3, ::5] ^= 1
    looks, because = said(result, noise, shared)
    assert looks == "rounding"
    assert "bit for bit" not in because


LAYOUTS = {
    "SBO of A": ({"a": word(A, sbo=512)}, "every 8 rows it is another 512 bytes back before the 128B swizzle: look at SBO and LBO"),
    "SBO of B": ({"b": word(B, sbo=2048)}, "every 8 columns it is another 1024 bytes further"),
    "start of A": ({"a": word(A + 32)}, "each is 32 bytes further before the 128B swizzle: look at the start address"),
    "stage of A": ({"a": word(A + 0x2000)}, "each is 8192 bytes further: look at the start address"),
    "base offset of B": ({"b": word(B, base=1)}, "that is a base offset which is 1 more"),
}


@pytest.mark.parametrize("fault", LAYOUTS)
def test_a_wrong_descriptor_shows_in_the_addresses_that_were_read(fault):
    change, text = LAYOUTS[fault]
    shared = memory()
    looks, because = said(run(shared), run(shared, **change).d, shared)
    assert looks == "a wrong layout"
    assert text in because
    assert f"of {fault[-1]}'s 16-byte chunks were read elsewhere in shared memory" in because


def test_rows_and_columns_of_d_in_other_places():
    shared = memory()
    result = run(shared)
    for d, text in (
        (result.d.T.copy(), "D is transposed"),
        (result.d[np.arange(64) ^ 8], "D's rows are in other places: row m has what belongs in m ^ 8"),
        (np.roll(result.d, 16, axis=1), "column n has what belongs in (n - 16) % 64"),
    ):
        looks, because = said(result, d, shared)
        assert looks == "a wrong layout"
        assert text in because


def test_options_and_missing_instructions():
    shared, c = memory(), np.random.default_rng(1).standard_normal((128, 32)).astype(np.float32).view(np.uint32)
    with_c = run(shared, d=c)
    assert "if C were not added" in said(with_c, run(shared).d, shared)[1]
    assert "products had the other sign" in said(with_c, run(shared, d=c, imm_scale_a=-1).d, shared)[1]
    moved = run(shared, d=np.roll(c, 4, axis=0))
    assert said(with_c, moved.d, shared)[1].startswith("C's rows are in other places")
    good = chain(shared, [(2 * s * 16, 2 * s * 16) for s in range(4)])
    missing = chain(shared, [(0, 0), (32, 32), (96, 96)])
    assert said(good, missing[-1].d, shared) == ("another option", "D is what it would be if instruction 2 were missing, bit for bit")
    stale = chain(shared, [(0, 0), (32, 32), (0, 64), (96, 96)])
    looks, because = said(good, stale[-1].d, shared)
    assert looks == "a wrong layout"
    assert "A's element (row, k) is the one that belongs in (row, k ^ 32)" in because


@examples(40)
@given(st.sampled_from("AB"), st.integers(0, 63), st.integers(0, 15), st.integers(0x3F80, 0x4100))
def test_one_wrong_element_is_named_with_its_address(operand, line, k, code):
    shared, other = memory(), memory()
    result = run(shared)
    element = (result.a[0] if operand == "A" else result.b).element(line, k)
    address = int(element.place.split()[-1], 16)
    other.write(address, np.array([code], np.uint16))
    found = explain_difference(result, run(other).d, shared=shared)
    if abs(float(element.value) - float(smemsim.element_value(code, "bf16"))) < 0.05:
        return
    assert found.looks_like == "a wrong term"
    assert found.because[0].startswith(f"{operand} at k {k}: {operand}[{line}, {k}] (shared {address:#x}) behaves as {code:#x} = ")
    assert "bit for bit" in found.because[1]


def test_what_no_operand_explains_is_not_blamed_on_one():
    shared = memory()
    result = run(shared)
    one = result.d.copy()
    one[3, 4] ^= 1 << 23
    looks, because = said(result, one, shared)
    assert looks == "unknown"
    assert "differ alone" in because
    random = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32).view(np.uint32)
    looks, because = said(result, random, shared)
    assert looks == "unknown"
    assert "bit for bit" not in because
    assert explain_difference(result, result.d) == smemsim.Diagnosis("the same", ())


def test_integers_that_clamp_are_told():
    shared = smemsim.SharedMemory("sm_90a")
    shared.write(0x400, np.random.default_rng(1).integers(0, 256, 0x8000, np.uint8))
    c = np.full((128, 32), 0x7FFFFFF0, np.uint32)
    results = [smemsim.wgmma(shared, word(A), word(B), n=64, a_type="s8", d_type="s32", d=c, satfinite=on) for on in (False, True)]
    assert said(results[0], results[1].d, shared) == ("another option", "D is what it would be if results were clamped, bit for bit")


def test_replay_says_what_a_difference_looks_like(tmp_path):
    suite = load_suite(SM90 / "wgmma_dots_f32")
    case = int(np.argmax((suite.arrays["style"] == "near_one") & (suite.arrays["dtype_a"] == "bf16")))
    begin = int(suite.arrays["d_start"][case])

    def to_24_bits(arrays):
        from smemsim.traces.kinds.dots import WgmmaDots

        product = WgmmaDots(suite)._given(case).product()
        d = product.run(dataclasses.replace(product.row, kept_bits=24))
        arrays["d"][begin : begin + d.size] = d.ravel()

    report = replay_suite(load_suite(rewritten(SM90 / "wgmma_dots_f32", tmp_path / "dots", to_24_bits)), case=case)
    assert "looks like: rounding" in report.text()
    assert "24 bits kept below the largest term" in report.text()
    assert report.as_dict()["differences"][0]["looks_like"] == "rounding"

    def rows_exchanged(arrays):
        d = arrays["d"][begin : begin + 64 * int(arrays["n"][case])].reshape(64, -1)
        d[:] = d[np.arange(64) ^ 1].copy()

    report = replay_suite(load_suite(rewritten(SM90 / "wgmma_dots_f32", tmp_path / "rows", rows_exchanged)), case=case)
    assert "looks like: a wrong layout" in report.text()
    assert "row m has what belongs in m ^ 1" in report.text()


def test_replay_of_the_reference_kernel_names_the_k_and_the_address(tmp_path):
    def another_element(arrays):
        """D of the kernel with A[5, 70] twice as large."""
        a, b = (smemsim.to_float64(arrays[f"{x}_integers"], "bf16") for x in "ab")
        twice = a.copy()
        twice[5, 70] = 3 if a[5, 70] == 0 else 2 * a[5, 70]
        case = int(np.argmax(arrays["data"] == "integers"))
        arrays["d"][case] = (twice @ b.T).astype(np.float32).view(np.uint32)
        another_element.case = case

    folder = rewritten(SM90 / "reference_gemm", tmp_path / "gemm", another_element)
    report = replay_suite(load_suite(folder), case=another_element.case)
    assert "looks like: a wrong term" in report.text()
    assert "A at k 70: A[5, 6] of instruction 4 (shared 0x" in report.text()


def test_what_does_not_fit_is_a_sentence():
    shared = memory()
    result = run(shared)
    with pytest.raises(InputError, match=r"d has shape \(64, 8\): the result is \(64, 64\)"):
        explain_difference(result, result.d[:, :8])
    with pytest.raises(InputError, match="d: an array of float32; needs raw element bits"):
        explain_difference(result, result.d.view(np.float32))
    for wrong in ([], "x", [result, 3]):
        with pytest.raises(InputError, match="results: needs what wgmma or tcgen05_mma returned"):
            explain_difference(wrong, result.d)
    narrow = smemsim.wgmma(shared, word(A), word(B), n=8, a_type="bf16")
    with pytest.raises(InputError, match="one kind and shape"):
        explain_difference([result, narrow], result.d)
