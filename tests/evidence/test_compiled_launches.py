"""The whole kernels that compilers make for sm_100a: what is kept is whole, fits its launch, and what they must compute
is one thing from two sides.

None of these kernels has run on a card here: the suite is compiled evidence.
"""

from __future__ import annotations

import hashlib
import json
import re

import numpy as np
import pytest

import smemsim
from smemsim.evidence import array_of
from tools.witnesses.launches import compiled_launches as kept
from tools.witnesses.launches import expected_results as results

LAUNCHES = kept.read()
TEXTS = {name: ptx for name, (ptx, _) in LAUNCHES.items()}
SPECS = {name: launch for name, (_, launch) in LAUNCHES.items()}
INDEX = json.loads((kept.GOLDEN / "index.json").read_text())
ADDRESS = 0x7F0000000000


def maps_of(launch, **changed):
    """Every tensor map of a launch, with a global address in place of the array's name."""
    for argument in launch["args"]:
        for told in (argument["map"],) if "map" in argument else argument.get("maps", ()):
            make = smemsim.TensorMap.im2col if "channels_per_pixel" in told else smemsim.TensorMap.tiled
            yield told["global_address"], make(**told | {"global_address": ADDRESS, "arch": "sm_100a"} | changed)


def test_the_index_has_every_file_and_its_digest():
    found = {name: hashlib.sha256(data).hexdigest() for name, data in kept.files().items()}
    said = {f"{name}/{file}": about[file] for name, about in INDEX["launches"].items() for file in kept.FILES}
    assert found == said
    assert (INDEX["schema"], INDEX["arch"], INDEX["grade"]) == (kept.SCHEMA, "sm_100a", "compiled")
    assert len(LAUNCHES) >= 150


def test_nothing_says_that_a_card_ran_it():
    assert "not run" in INDEX["device"]
    assert {launch["compiler"].split()[0] for launch in SPECS.values()} == {"triton", "nvcc"}
    assert not any("device" in launch for launch in SPECS.values())


@pytest.mark.parametrize("name", sorted(LAUNCHES))
def test_a_text_fits_its_launch(name):
    ptx, launch = LAUNCHES[name]
    assert launch["schema"] == "smemsim.launch/1"
    assert launch["name"] == name
    assert re.search(r"^\.target sm_100a$", ptx, re.MULTILINE)
    assert re.search(r"^\s*\.loc\s", ptx, re.MULTILINE), "which line an instruction comes from"
    assert not re.search(r"/(tmp|home|root|usr)/", ptx)
    parameters = dict(re.findall(r"\.entry\s+(\w+)\s*\(([^)]*)\)", ptx))[launch["entry"]]
    declared = [re.search(r"\.(?:u|s|b|f)(\d+).*?(?:\[(\d+)\])?$", p.strip()) for p in parameters.split(",")]
    bits = [int(d[1]) * int(d[2] or 1) for d in declared]
    want = []
    for argument in launch["args"]:
        want.append(1024 if "map" in argument else int(argument["type"][1:]) if "value" in argument else 64)
    assert bits == want
    threads = re.search(r"\.reqntid (\d+)", ptx)
    assert threads is None or int(threads[1]) == launch["block"][0]
    ctas = re.search(r"\.reqnctapercluster (\d+)", ptx)
    assert int(ctas[1] if ctas else 1) == launch["cluster"][0]
    assert launch["grid"][0] % launch["cluster"][0] == 0


@pytest.mark.parametrize("name", sorted(LAUNCHES))
def test_a_launch_names_arrays_that_can_be_made(name):
    launch = SPECS[name]
    arrays = {a["name"]: a for a in launch["arrays"]}
    for recipe in arrays.values():
        assert list(array_of(recipe | {"shape": recipe["shape"]}).shape) == recipe["shape"]
    assert set(launch["outputs"]) == set(launch["expected"]) <= set(arrays)
    assert {a["array"] for a in launch["args"] if "array" in a} <= set(arrays)
    assert set(launch["tolerance"]) == (set() if launch["exact"] else set(launch["outputs"]))
    assert launch["exact"] == (launch["why_not_exact"] == "")
    for array, tensor_map in maps_of(launch):
        assert array in arrays
        assert len(bytes(tensor_map)) == 128


PRODUCTS = [n for n, launch in SPECS.items() if "mma(" in "".join(launch["expected"].values()) and "large" not in n and "kit" not in n]


@pytest.mark.parametrize("name", PRODUCTS[::3])
def test_integers_have_one_sum(name):
    """On small integers no order and no width of summation matters: the chain of instructions gives what plain products
    give.
    """
    launch = SPECS[name]
    arrays = results.arrays_of(launch)
    plain, chained = results.expected(launch, arrays), results.expected_random(launch, arrays)
    for output in launch["outputs"]:
        np.testing.assert_array_equal(plain[output], chained[output])
        assert np.count_nonzero(plain[output]) > plain[output].size / 4


def test_random_numbers_tell_the_instruction_from_a_plain_product():
    """Where the sum is longer than f32: an interpreter that multiplied in float64 would not pass on these."""
    launch = SPECS["triton_tma_bf16"]
    arrays = results.arrays_of(launch, random=True)
    plain, chained = results.expected(launch, arrays)["d"], results.expected_random(launch, arrays)["d"]
    assert 0 < np.mean(plain != chained) < 1
    np.testing.assert_allclose(plain.view(np.float32), chained.view(np.float32), atol=1e-4)


@pytest.mark.parametrize(
    "name", ["gluon_im2col_corner", "gluon_im2col_offset", "gluon_im2col_strided", "gluon_tma_read_negative", "gluon_tma_read_nan"]
)
def test_a_load_brings_what_the_launch_expects(name):
    """The same box by smemsim's TMA, without swizzle: coordinates and offsets as the kernel passes them, innermost
    first.
    """
    launch = SPECS[name]
    arrays = results.arrays_of(launch)
    [(source, tensor_map)] = maps_of(launch, swizzle="none")
    shape = next(a["shape"] for a in launch["arrays"] if a["name"] == source)
    coordinates = [a["value"] for a in launch["args"] if "value" in a][2 * len(shape) :][::-1]
    offsets = {"corner": (0, 0), "offset": (1, 2), "strided": (1, 1)}.get(name.split("_")[2], ())
    want = results.expected(launch, arrays)["y"].tobytes()
    after = smemsim.tma_load_bytes(
        tensor_map, coordinates, smem_address=1024, shared=np.zeros(1024 + len(want), np.uint8),
        global_=np.frombuffer(arrays[source].tobytes(), np.uint8), im2col_offsets=offsets,
    )  # fmt: skip
    assert after[1024:].tobytes() == want


def test_masks_scales_ws_and_sparse_operands_by_the_machine():
    """The forms that Triton does not emit, from descriptors: tiles as cuda/forms.cu writes them, core matrices along
    rows first, no swizzle.
    """
    for name, n, k, more in (
        ("lane_mask", 32, 16, {"disable_output_lane": (0x0F0F3355, 0xF0F0CCAA, 0, 0)}), ("scale_d", 32, 16, {"scale_input_d": 3}),
        ("ws", 64, 16, {"ws": True}), ("sparse", 32, 32, {"metadata": 96}),
    ):  # fmt: skip
        launch = SPECS[f"cuda_mma_{name}"]
        arrays = results.arrays_of(launch, random=True)
        shared, memory = smemsim.SharedMemory("sm_100a"), smemsim.TensorMemory("sm_100a")
        descriptors = []
        for at, tile in ((0x400, arrays["a"]), (0x400 + 4096, arrays["b"])):
            rows, depth = tile.shape
            shared.write(at, np.ascontiguousarray(tile.reshape(rows, depth // 8, 8).transpose(1, 0, 2)).reshape(-1))
            word = smemsim.SmemDescriptor(arch="sm_100a", start_address=at, leading_byte_offset=rows * 16, stride_byte_offset=128)
            descriptors.append(word)
        d = memory.alloc(128)
        memory.cells[:, :n] = arrays["c"]
        memory.cells[:, 96:128] = 0xEEEEEEEE
        idesc = 1 << 4 | n // 8 << 17 | 8 << 24 | (4 if name == "sparse" else 0)
        smemsim.tcgen05_mma(memory, d, *descriptors, idesc, kind="f16", shared=shared, **more)
        want = results.expected_random(launch, arrays)["d"]
        np.testing.assert_array_equal(memory.cells[:, :n], want, err_msg=name)
        assert k == arrays["b"].shape[1]


def test_every_kind_of_product_and_access_is_there():
    found = {form for ptx in TEXTS.values() for form in kept.forms(ptx)}
    for kind in ("f16", "tf32", "f8f6f4", "i8"):
        for group in (1, 2):
            assert f"tcgen05.mma.cta_group::{group}.kind::{kind}" in found
    for kind in ("mxf8f6f4.block_scale.block32", "mxf4.block_scale.block32", "mxf4nvf4.block_scale.block16"):
        assert f"tcgen05.mma.cta_group::1.kind::{kind}" in found
    for shape in ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"):
        for access in ("ld", "st"):
            assert any(f.startswith(f"tcgen05.{access}.sync.aligned.{shape}.") for f in found)
    for form in ("tcgen05.cp.cta_group::1.warpx4.32x128b", "add.f32x2", "fma.rn.f32x2", "redux.sync.max.f32",
                 "cvt.rn.satfinite.e2m1x2.f32", "ld.global.v8.f32"):  # fmt: skip
        assert form in found


def test_directed_rounding_of_sums_lies_around_the_nearest():
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(2000).astype(np.float32).astype(np.float64) for _ in range(3))
    down, up, zero, near = (results.fma(a, b, c, d) for d in (-1, 1, 0, None))
    assert np.all((down <= near) & (near <= up))
    assert np.all(np.abs(zero) <= np.abs(near))
    assert np.all((up == down) | (np.nextafter(down.astype(np.float32), np.float32(np.inf)) == up))
    assert np.all((zero == down) | (zero == up))
