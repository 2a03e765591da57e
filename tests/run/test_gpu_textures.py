"""Textures and surfaces: where a coordinate lies, what linear filtering weighs, what lies outside; values are those
that an H100 gave.
"""

import struct

import numpy as np
import pytest

from smemsim import Gpu, InputError, Unmodelled
from smemsim.capture.texture_ops import kernel_of
from smemsim.core.machine import Image, Sampler, Texture
from smemsim.core.spec.textures import TextureFormat
from smemsim.virtual import CudaError, Policy, VirtualDevice

CLAMP, WRAP, BORDER = 1, 0, 3


def card():
    return VirtualDevice("sm_90a", policy=Policy(quiet=True))


def how(*, mode=CLAMP, linear=0, floats=0, normalized=0):
    return struct.pack("<6i4f3i3f2i", mode, mode, mode, linear, floats, 0, 0.0, 0.0, 0.0, 0.0, normalized, 0, 0, 0.0, 0.0, 0.0, 0, 0)


def array(device, values, channel=(32, 0, 0, 0, 2), flags=0):
    depth, height, width = (0, 0, *values.shape)[-3:] if values.ndim > 1 else (0, 0, len(values))
    made = device.textures.array(channel, (width, height, depth), flags, "")
    device.view(made.allocation.address, values.nbytes)[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return made


def executed(device, op, handle, coordinates, values=0):
    """The words that an instruction gives at coordinates (n, dimensions); float ones, or whole numbers."""
    samples = np.zeros((len(coordinates), 16), np.uint32)
    given = np.asarray(coordinates)
    samples[:, : given.shape[1]] = given.astype(np.float32 if given.dtype.kind == "f" else np.int32).view(np.uint32)
    samples[:, 12] = values
    at, to = device.allocate(samples.nbytes), device.allocate(16 * len(samples))
    device.view(at, samples.nbytes)[:] = samples.reshape(-1).view(np.uint8)
    arguments = [x.to_bytes(size, "little") for x, size in ((handle, 8), (len(samples), 4), (at, 8), (to, 8))]
    run = device.launch(device.load(kernel_of(op)).function("probe"), 1, 32, arguments)
    return device.view(to, 16 * len(samples)).view(np.uint32).reshape(-1, 4).copy(), {f.code for f in run.findings}


def looked(values, coordinates, **given):
    device = card()
    channel = given.pop("channel", (32, 0, 0, 0, 2))
    handle = device.textures.texture(0, array(device, values, channel), 0, channel, (0, 0, 0), how(**given))
    return executed(device, f"tex.{values.ndim}d.f32", handle, coordinates)[0][:, 0].view(np.float32)


def test_weights_are_256ths_of_a_coordinate_rounded_half_up():
    ramp = np.arange(8, dtype=np.float32) * 256
    at = np.array([904.6427, 1093.5, 866.5, 1454.6231]) / 256
    assert looked(ramp, at[:, None], linear=1).tolist() == [777, 966, 739, 1327]


def test_a_normalised_coordinate_has_21_bits_behind_the_point():
    ramp = np.arange(1000, dtype=np.float32)
    assert looked(ramp, np.array([[0.023], [1.562], [0.5]]), mode=WRAP, normalized=1).tolist() == [22, 561, 500]


def test_four_weights_add_up_to_one_and_what_is_alike_stays():
    rng = np.random.default_rng(1)
    flat = np.full((5, 7), 0.1, np.float32)
    assert set(looked(flat, rng.uniform(-2, 9, (32, 2)), linear=1).tolist()) == {flat[0, 0]}


def test_texels_of_16_bits_give_halves_and_integers_16_bit_fractions():
    halves = looked(np.array([0.1, 0.7], np.float16), np.array([[0.9], [1.1]]), linear=1, channel=(16, 0, 0, 0, 2))
    assert (halves.astype(np.float16).astype(np.float32) == halves).all()
    bytes_ = looked(np.array([126, 59], np.uint8), np.array([[0.5 + 21 / 256]]), linear=1, floats=1, channel=(8, 0, 0, 0, 1))
    assert bytes_[0] == np.float32(30970 / 65535)


def test_what_lies_outside_is_the_border_and_a_nan_is_0():
    ramp = np.arange(1, 14, dtype=np.float32) * 256
    assert looked(ramp, np.array([[-0.1], [13.0], [np.nan], [3.5]]), mode=BORDER).tolist() == [0, 0, 256, 1024]


def test_stores_to_a_surface_count_bytes_and_outside_ends_the_kernel():
    device = card()
    made = array(device, np.zeros((4, 8), np.uint32), (32, 0, 0, 0, 1), flags=2)
    handle = device.textures.surface(made)
    assert executed(device, "sust.2d.b32.zero", handle, np.array([[8, 1], [32, 1]]), 7)[1] == set()
    assert device.view(made.allocation.address, 128).view(np.uint32).nonzero()[0].tolist() == [10]
    assert executed(device, "sust.2d.b32.trap", handle, np.array([[-4, 0]]), 7)[1] == {"X001"}
    assert device.error == 700


@pytest.mark.parametrize("linear", [0, 1])
def test_derivatives_and_levels_choose_nothing_where_there_is_one_level(linear):
    device = card()
    grid = np.random.default_rng(2).uniform(-1, 1, (4, 5)).astype(np.float32)
    handle = device.textures.texture(0, array(device, grid), 0, (32, 0, 0, 0, 2), (0, 0, 0), how(linear=linear))
    at = np.random.default_rng(3).uniform(-1, 6, (32, 2))
    plain, *others = (executed(device, f"tex.{of}2d.f32", handle, at)[0] for of in ("", "grad.", "level."))
    assert len(set(plain[:, 0].tolist())) > 8
    assert all((plain == other).all() for other in others)


@pytest.mark.parametrize(("do", "kind"), [("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32")])
def test_reductions_of_a_surface_are_those_of_numbers(do, kind):
    """Threads that meet reduce one after another; what lies outside is left."""
    device, rng = card(), np.random.default_rng(5)
    before = rng.integers(0, 1 << 32, (4, 8), np.uint32)
    made = array(device, before, (32, 0, 0, 0, 1), flags=2)
    columns, rows, values = rng.integers(-1, 9, 32), rng.integers(-1, 5, 32), rng.integers(0, 1 << 32, 32, np.uint32)
    _, codes = executed(device, f"sured.b.{do}.2d.{kind}.zero", device.textures.surface(made), np.stack([4 * columns, rows], 1), values)
    assert codes == set()
    own = before.view(np.int32 if kind == "s32" else np.uint32).copy()
    f = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or}[do]
    for x, y, value in zip(columns, rows, values.view(own.dtype), strict=True):
        if 0 <= x < 8 and 0 <= y < 4:
            own[y, x] = f(own[y, x], value)
    assert (device.view(made.address, 128).view(own.dtype).reshape(4, 8) == own).all()


def test_another_geometry_than_that_of_the_object_is_refused():
    device = card()
    texture = device.textures.texture(0, array(device, np.zeros((4, 5), np.float32)), 0, (32, 0, 0, 0, 2), (0, 0, 0), how())
    surface = device.textures.surface(array(device, np.zeros((4, 8), np.uint32), (32, 0, 0, 0, 1), flags=2))
    for op, handle, says in (("tex.1d.f32", texture, "a texture of .2d"), ("suld.1d.b32.zero", surface, "a surface of .2d")):
        with pytest.raises(CudaError, match=f"geometry .1d of {says}: not modelled"):
            executed(device, op, handle, np.array([[0.5]]) if op.startswith("tex") else np.array([[0]]))


def test_what_the_runtime_refuses():
    device = card()
    with pytest.raises(CudaError):
        device.textures.array((8, 8, 8, 0, 1), (8, 8, 0), 0, "")
    whole = array(device, np.zeros(8, np.uint32), (32, 0, 0, 0, 1))
    for given in ({"linear": 1}, {"floats": 1}):
        with pytest.raises(CudaError):
            device.textures.texture(0, whole, 0, (32, 0, 0, 0, 1), (0, 0, 0), how(**given))
    with pytest.raises(CudaError):
        device.textures.surface(whole)


def test_a_texture_over_memory_that_was_given_back_is_refused():
    device = card()
    made = array(device, np.arange(8, dtype=np.float32))
    over_array = device.textures.texture(0, made, 0, (32, 0, 0, 0, 2), (0, 0, 0), how())
    memory = device.allocate(64)
    over_memory = device.textures.texture(2, None, memory, (32, 0, 0, 0, 2), (64, 0, 0), how())
    device.textures.free(made), device.free(memory)
    for op, handle, at in (("tex.1d.f32", over_array, [[0.5]]), ("tex.1d.f32.s32", over_memory, [[1]])):
        with pytest.raises(CudaError, match="its memory was given back"):
            executed(device, op, handle, np.array(at))
        device.textures.destroy(handle)


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        ("suld.b.trap {%r1}, [%d1, {%r1}];", Unmodelled, r"without \.1d"),
        ("suld.b.cube.b32.trap {%r1}, [%d1, {%r1}];", Unmodelled, r"without \.1d"),
        ("sust.p.2d.b64.trap [%d1, {%r1, %r1}], {%d1};", Unmodelled, "formatted stores"),
        ("tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, {%r1}];", InputError, "has 1 coordinates, the geometry has 2"),
        ("tex.a1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%r1}];", InputError, "has 1 coordinates, the geometry has 2"),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1];", InputError, "has 0 coordinates"),
    ],
)
def test_what_is_no_texture_instruction_is_refused_in_a_sentence(statement, error, says):
    ptx = f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k() {{ .reg .b32 %r<2>; .reg .f32 %f<5>; .reg .b64 %d<2>; mov.b32 %r1, 0; mov.b64 %d1, 1; {statement} ret; }}"""
    with pytest.raises(error, match=says):
        Gpu("sm_90a").launch(ptx, "k")


def test_planes_of_three_dimensions_are_aligned_to_exponents_in_steps_of_four():
    """Samples of golden/sm_90a/textures that come out one unit off where planes are added as they are."""
    corner = np.zeros((2, 1, 1), np.float32)
    corner[:, 0, 0] = np.array([0xC1441CC1, 0x3C0CD1D3], np.uint32).view(np.float32)
    sampler = Sampler(is_linear=True)
    texture = Texture(Image.of_array(TextureFormat("float", 32, 1), corner.reshape(-1).view(np.uint8), (1, 1, 2)), sampler)
    at = [np.array([0.5]), np.array([0.5]), np.array([0.5 + 250 / 256])]
    assert texture.sample("3d", at, None)[0, 0] == 0xBE8EC96A


def mipmapped(form, levels, **how):
    images = [Image.of_array(form, np.ascontiguousarray(x).reshape(-1).view(np.uint8), (len(x), 0, 0)) for x in levels]
    return Texture(images[0], Sampler(is_normalized=True, most_level=9.0, **how), images[1:])


def test_levels_of_detail_are_counted_in_256ths_and_weighed_like_planes():
    ramp = [np.full(n, 256.0 * k, np.float32) for k, n in enumerate((4, 2, 1))]
    at, lods = [np.full(5, 0.3)], np.array([-1.0, 0.5, 1.3711, 9.0, np.nan])
    form = TextureFormat("float", 32, 1)
    between = mipmapped(form, ramp, is_linear=True, is_linear_between_levels=True).sample("1d", at, None, lods)
    assert between[:, 0].view(np.float32).tolist() == [0, 128, 351, 512, 0]
    nearest = mipmapped(form, ramp).sample("1d", at, None, lods)
    assert nearest[:, 0].view(np.float32).tolist() == [0, 256, 256, 512, 0]
    with pytest.raises(Unmodelled, match="derivatives"):
        mipmapped(form, ramp).grad("1d", at, None)
    assert mipmapped(form, ramp).asked("width", np.array([0, 1, 2, 3])).tolist() == [4, 2, 1, 0]


def test_signed_bytes_and_srgb_are_filtered_as_a_card_filters_them():
    """Samples of golden/sm_90a/textures: 32767ths, and f16 of the elements' own exponents."""
    for texels, kind, srgb, right, wanted in (
        ([47, 32], "signed", False, 253, 8302 / 32767),
        ([86, 248], "unsigned", True, 2, 6068 / 65536),
    ):
        raw = np.repeat(np.array(texels, np.int16).astype(np.uint8), 4)
        how = Sampler(is_linear=True, gives_floats=True, is_srgb=srgb)
        texture = Texture(Image.of_array(TextureFormat(kind, 8, 4), raw, (2, 0, 0)), how)
        assert texture.sample("1d", [np.array([0.5 + right / 256])], None)[0, 0].view(np.float32) == np.float32(wanted)


def test_cubemaps_are_six_faces_and_across_a_seam_their_neighbours():
    faces = np.repeat(np.arange(6, dtype=np.float32), 4)
    image = Image.of_array(TextureFormat("float", 32, 1), faces.view(np.uint8), (2, 2, 6), is_cube=True)
    directions = np.array([[1, 0.2, 0], [-1, 0, 0], [0, 2, 1], [0, -2, 1], [1, 1, 1], [0, 0, -1]], float)
    assert Texture(image, Sampler()).sample("cube", list(directions.T), None)[:, 0].view(np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    # between the faces +z and +x, from which half comes each
    seam = [np.array([1.0]), np.array([0.0]), np.array([1.0])]
    apart, across = (
        Texture(image, Sampler(is_linear=True, is_seamless=s)).sample("cube", seam, None)[0, 0].view(np.float32) for s in (False, True)
    )
    assert (apart, across) == (4, 2)


def test_formatted_stores_limit_integers_cut_halves_and_clamp_columns():
    device = card()
    for channel, value, wanted in (((8, 0, 0, 0, 1), 300, 255), ((8, 0, 0, 0, 0), -200, 0x80), ((16, 0, 0, 0, 2), 0x42F7D1EE, 0x57BE)):
        made = array(device, np.zeros((2, 4), f"u{channel[0] // 8}"), channel, flags=2)
        handle = device.textures.surface(made)
        _, codes = executed(device, "sust.p.2d.clamp", handle, np.array([[9, -3]]), np.array(value).astype(np.int64).astype(np.uint32))
        assert codes == set()
        assert device.view(made.address, 8 * channel[0] // 8).view(f"u{channel[0] // 8}").tolist() == [0, 0, 0, wanted, 0, 0, 0, 0]


def test_an_access_off_its_size_ends_the_kernel_and_outside_of_a_trap_comes_first():
    for op, at, code, error in (("suld.2d.b32.zero", [2, 0], "X002", 716), ("suld.2d.b32.trap", [34, 0], "X001", 700)):
        device = card()
        handle = device.textures.surface(array(device, np.zeros((4, 8), np.uint32), (32, 0, 0, 0, 1), flags=2))
        assert executed(device, op, handle, np.array([at]))[1] == {code}
        assert device.error == error


def test_a_mipmapped_array_has_levels_of_its_own_that_are_freed_together():
    device = card()
    made = device.textures.array((32, 0, 0, 0, 2), (4, 2, 0), 0, "", 9)  # of which there are three
    assert [(made.level(n).extent, made.level(n).address - made.address) for n in range(3)] == [
        ((4, 2, 0), 0),
        ((2, 1, 0), 32),
        ((1, 1, 0), 40),
    ]
    for refused in (
        lambda: made.level(3),
        lambda: device.textures.free(made.level(0)),
        lambda: device.textures.texture(0, made, 0, (0,) * 5, (0,) * 3, how()),
    ):
        with pytest.raises(CudaError):
            refused()
    device.textures.free(made)
