"""Launching: arrays of other libraries, arguments as bytes, which CTAs run, what ends early, and what Triton compiled."""

import ctypes
import dataclasses
import gc
import gzip
import inspect
import io
import json
import re
import struct
import sys
import time
import types
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import smemsim
import triton_kernels
from places import TESTS
from smemsim import InputError, Unmodelled
from smemsim.diagnosis import Progress
from smemsim.diagnosis.progress import told
from smemsim.run import LaunchConfig, RunOptions
from smemsim.run.engine.arrays import as_numpy, storage
from strategies import examples

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<10>; .reg .b64 %d<10>; .reg .f32 %f<4>; .reg .f64 %g<4>;"
TYPES = {"u8": "B", "s8": "b", "u16": "H", "s16": "h", "u32": "I", "s32": "i", "u64": "Q", "s64": "q", "f32": "f", "f64": "d"}


def kernel(parameters, body, *, directives="", name="k"):
    return f"{HEAD}.visible .entry {name}({parameters}) {directives} {{ {REGISTERS}\n{body}\nret; }}"


# Each CTA writes its own number, plus one, to its place.
NUMBERS = """ld.param.u64 %d1, [to];
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
mul.wide.u32 %d2, %r4, 4; add.u64 %d1, %d1, %d2; add.u32 %r5, %r4, 1; st.global.u32 [%d1], %r5;"""
FILL = kernel(".param .u64 to", NUMBERS)


class Dlpack:
    """Something that only has the protocol of DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **given):
        return self._array.__dlpack__(**given)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Protocol:
    """Something that only has numpy's protocol."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


class Cupy:
    """Something on a GPU, as CuPy has it."""

    __cuda_array_interface__ = {"version": 3}  # noqa: RUF012

    def __init__(self, array):
        self._array = array

    def get(self):
        return self._array


PLAIN = st.sampled_from(["u1", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "?", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])


@examples(60)
@given(PLAIN, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4), st.randoms(use_true_random=False), st.data())
def test_an_array_comes_back_as_it_went_in(kind, shape, random, data):
    """Any type, shape and order of axes, views with steps, nothing and a single number: bytes, type and shape stay."""
    dtype = np.dtype(kind)
    raw = np.frombuffer(random.randbytes(int(np.prod(shape)) * dtype.itemsize), np.uint8)
    array = (raw & 1).view(dtype).reshape(shape) if dtype.kind == "b" else raw.view(dtype).reshape(shape)
    axes = data.draw(st.permutations(range(len(shape))))
    view = array.transpose(axes)[..., ::-1] if shape else array
    made = smemsim.Gpu().array(view)
    backwards = view.shape[-1] - 1 if shape and view.size else 0  # elements in front of the first one
    assert (made.address - backwards * abs(view.strides[-1] if shape else 0)) % 256 == 0
    assert (made.numpy().dtype, made.numpy().shape) == (view.dtype, view.shape)
    assert made.numpy().tobytes() == view.tobytes()
    assert made.stride() == tuple(s // dtype.itemsize for s in view.strides)
    assert made.nbytes == view.nbytes  # no gaps between them


LOOK = kernel(
    ".param .u64 a, .param .u64 out, .param .s64 rows, .param .s64 columns",
    """ld.param.u64 %d1, [a]; ld.param.u64 %d2, [out]; ld.param.s64 %d3, [rows]; ld.param.s64 %d4, [columns]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
cvt.u64.u32 %d5, %r2; cvt.u64.u32 %d6, %r1; mul.lo.s64 %d3, %d3, %d5; mad.lo.s64 %d3, %d4, %d6, %d3; shl.b64 %d3, %d3, 2; add.s64 %d1, %d1, %d3;
ld.global.u32 %r3, [%d1]; mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r2, %r4, %r1; mul.wide.u32 %d7, %r5, 4; add.u64 %d7, %d2, %d7; st.global.u32 [%d7], %r3;""",
)
LAYOUTS = {
    "rows": lambda x: x, "transposed": lambda x: x.T, "every other": lambda x: x[::2, 1::3], "backwards": lambda x: x[::-1, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[1], (6, 20)), "a column": lambda x: x[:, 3:4], "Fortran": np.asfortranarray,
    "a part": lambda x: x[1:5, 2:9].T,
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["<u4", ">u4", "<f4", ">f4"])
def test_a_kernel_that_goes_by_the_strides_of_an_array_sees_that_array(layout, kind):
    view = LAYOUTS[layout](np.arange(120).reshape(6, 20).astype(kind))
    gpu = smemsim.Gpu()
    a, out = gpu.array(view), gpu.zeros(view.shape, kind[1:])
    assert a.stride() == tuple(s // 4 for s in view.astype(kind[1:], copy=False).strides) if kind[0] == "<" else a.numpy().dtype.isnative
    run = gpu.launch(LOOK, "k", grid=view.shape[0], block=view.shape[1], args=[a, out, *a.stride()], progress=False)
    assert run.findings == []
    assert np.array_equal(out.numpy(), view)
    assert np.array_equal(a.numpy(), view)
    a.update(np.ascontiguousarray(view).astype(kind[1:]) + a.dtype.type(1))
    if layout != "broadcast":
        assert np.array_equal(a.numpy(), view + 1)


def test_a_conversion_keeps_the_strides_in_elements():
    x = np.arange(24, dtype=np.float64).reshape(4, 6)[:, ::2]
    a = smemsim.Gpu().array(x, "f32")
    assert a.stride() == (6, 2)
    assert np.array_equal(a.numpy(), x)
    assert not a.is_contiguous
    assert smemsim.Gpu().array(x.copy(), "f32").is_contiguous


def test_strides_that_are_no_elements_or_span_more_than_there_is_are_refused():
    fields = np.zeros(8, np.dtype([("a", np.uint8), ("b", np.float32)]))["b"]
    with pytest.raises(InputError, match=r"strides of \(5,\) bytes, elements of 4: pass a copy"):
        smemsim.Gpu().array(fields)
    wide = np.lib.stride_tricks.as_strided(np.zeros(2, np.float32), (2,), (1 << 40,))
    with pytest.raises(InputError, match="span 1099511627780 bytes"):
        smemsim.Gpu().array(wide, name="wide")


@pytest.mark.parametrize("wrap", [Dlpack, Protocol, Cupy, np.asarray])
def test_other_libraries(wrap):
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert np.array_equal(smemsim.Gpu().array(wrap(array)).numpy(), array)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        ("float8_e5m2", ml_dtypes.float8_e5m2),
        ("float32", np.float32),
    ],
)
def test_tensors_whose_type_numpy_has_not(monkeypatch, name, kind):
    """Torch gives no numpy array of them: their bits leave it as integers, and keep their meaning."""
    values = np.arange(8).astype(kind).reshape(2, 4)

    class Tensor:
        dtype = f"torch.{name}"

        def __init__(self, array):
            self.array = array

        def detach(self):
            return self

        cpu = contiguous = detach

        def view(self, integer):
            return Tensor(self.array.view(integer))

        def numpy(self):
            if self.array.dtype.kind == "V" or self.array.dtype.name.startswith(("bfloat", "float8")):
                raise TypeError("Got unsupported ScalarType")
            return self.array

    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(int16=np.int16, uint8=np.uint8))
    made = smemsim.Gpu().array(Tensor(values))
    assert made.dtype == kind
    assert np.array_equal(made.numpy().astype(np.float32), values.astype(np.float32))


def test_names_of_element_types():
    gpu = smemsim.Gpu()
    assert gpu.zeros((2, 3), "bf16").numpy().dtype == ml_dtypes.bfloat16
    assert gpu.zeros(4, "f16").dtype == np.float16, "half precision, not numpy's 16 bytes"
    assert gpu.zeros(()).numpy().shape == ()
    assert gpu.array([0.5, 1.5, 448.0], "e4m3").numpy().view(np.uint8).tolist() == [0x30, 0x3C, 0x7E]
    assert storage("u32") == np.uint32


def test_update_keeps_the_place():
    gpu = smemsim.Gpu()
    a = gpu.array(np.zeros((2, 3), np.int32))
    before = a.address
    a.update(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert a.address == before
    assert np.asarray(a).tolist() == [[0, 1, 2], [3, 4, 5]]
    for other in (np.zeros((3, 2), np.int32), np.zeros((2, 3), np.int64), None):
        with pytest.raises(InputError, match="array"):
            a.update(other)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "text",
        {},
        object(),
        np.array(["a"]),
        np.array([None]),
        np.array("2020", "M8[Y]"),
        [[1], [1, 2]],
        np.zeros(2, ml_dtypes.float4_e2m1fn),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_is_no_array_is_a_sentence(wrong):
    with pytest.raises(InputError, match=r"^array"):
        smemsim.Gpu().array(wrong)


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("on another device")


def test_an_array_that_its_library_refuses_is_a_sentence():
    with pytest.raises(InputError, match="on another device"):
        as_numpy("x", Broken())


@pytest.mark.parametrize("wrong", [-1, "a", 1.5, (1, -2), (1 << 20, 1 << 20)])
def test_a_shape_that_cannot_be_is_a_sentence(wrong):
    with pytest.raises(InputError, match="shape"):
        smemsim.Gpu().zeros(wrong)


@pytest.mark.parametrize("kind", TYPES)
@examples(20)
@given(st.data())
def test_a_number_arrives_as_the_bytes_of_its_type(kind, data):
    """Against struct.pack; the parameter stands behind a byte, so that its alignment counts."""
    size = struct.calcsize(TYPES[kind])
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if kind[0] == "s" else (0, (1 << 8 * size) - 1)
    floats = st.floats(width=8 * size, allow_nan=False) if kind[0] == "f" else None
    value = data.draw(st.integers(low, high) if floats is None else floats)
    register = {1: "%h1", 2: "%h1", 4: "%r1", 8: "%d3"}[size]
    body = f"ld.param.u64 %d1, [to]; ld.param.b{8 * size} {register}, [v]; st.global.b{8 * size} [%d1], {register};"
    text = kernel(f".param .u64 to, .param .u8 gap, .param .{kind} v", body)
    gpu = GPUS.setdefault(kind, smemsim.Gpu())
    out = OUTS.setdefault(kind, gpu.zeros(8, np.uint8))
    for given_as in (value, np.dtype(TYPES[kind]).type(value)):
        gpu.launch(text, args=[out, 1, given_as])
        assert out.numpy().tobytes()[:size] == struct.pack("<" + TYPES[kind], value)


GPUS, OUTS = {}, {}


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_float))


@pytest.mark.parametrize(
    "given_as", [Pair(7, 0.5), struct.pack("<if", 7, 0.5), np.array((7, 0.5), "i4,f4")[()], bytearray(struct.pack("<if", 7, 0.5))]
)
def test_a_structure_is_its_bytes(given_as):
    gpu = smemsim.Gpu()
    out = gpu.zeros(2, np.uint32)
    body = "ld.param.u64 %d1, [to]; ld.param.v2.b32 {%r1, %r2}, [v]; st.global.v2.b32 [%d1], {%r1, %r2};"
    gpu.launch(kernel(".param .u64 to, .param .align 8 .b8 v[8]", body), args=[out, given_as])
    assert out.numpy().tobytes() == struct.pack("<if", 7, 0.5)


PARAMETERS = ".param .u64 to, .param .f32 scale, .param .align 64 .b8 map[128], .param .u32 n"
TAKES = kernel(PARAMETERS, "ld.param.u64 %d1, [to];")


def tensor_map(address):
    return smemsim.TensorMap.tiled(
        data_type="bf16", global_address=address, global_dim=(64, 8), global_strides=(128,), box_dim=(64, 8), element_strides=(1, 1),
        interleave="none", swizzle="128B", l2_promotion="none", oob_fill="zeros",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (0, 1.5, "whole number"),
        (0, 1 << 64, "does not fit into 64 bits"),
        (0, np.zeros(4), r"pass gpu\.array"),
        (0, "map", "takes the address of a tensor map"),
        (0, "foreign", "another Gpu"),
        (1, "array", "order of the arguments"),
        (1, "text", "needs a number"),
        (1, 1e39, "beyond the largest f32"),
        (1, np.array(1.0), r"value\.item\(\)"),
        (2, 5, "128 bytes"),
        (2, b"123", "3 were given"),
        (3, "map", "a tensor map has 128"),
        (3, 1j, "needs a number"),
    ],
)
def test_an_argument_that_does_not_fit_names_its_parameter(place, value, said):
    gpu = smemsim.Gpu()
    a = gpu.zeros(1024, np.uint8)
    known = {"map": tensor_map(a.address), "array": a, "foreign": smemsim.Gpu().zeros(4)}
    args = [a, 1, known["map"], 4]
    gpu.launch(TAKES, args=args)
    args[place] = known.get(value, value) if isinstance(value, str) else value
    name = ("to", "scale", "map", "n")[place]
    with pytest.raises(InputError, match=rf"(?s)^args\[{place}\] \({name}, .*{said}"):
        gpu.launch(TAKES, args=args)


@pytest.mark.parametrize(
    ("given_as", "said"),
    [
        ({"args": [1]}, r"1 given, the kernel has 4 parameters \(0: to"),
        ({"args": 5}, "needs a list"),
        ({"entry": "kk"}, "did you mean 'k'"),
        ({"grid": 0}, "grid"),
        ({"grid": (1, 2, 3, 4)}, "one to three"),
        ({"grid": "12"}, "one to three"),
        ({"grid": (1, 70000)}, r"grid\.y"),
        ({"grid": (2**31 - 1, 65535, 65535)}, "would run for years"),
        ({"block": 2000}, "1024"),
        ({"cluster": 3, "grid": 4}, "multiple"),
        ({"shared_bytes": 1 << 20}, "shared_bytes"),
        ({"shared_bytes": -1}, "shared_bytes"),
        ({"ctas": [1]}, "ctas = 1: the grid has 1 CTA, CTA 0"),
        ({"pipeline": {"cta": 1}}, "pipeline.cta = 1: the grid has 1 CTA, CTA 0"),
        ({"ctas": []}, "ctas"),
        ({"ctas": 1}, "ctas"),
        ({"ctas": ["a"]}, "ctas"),
    ],
    ids=repr,
)
def test_a_launch_that_cannot_be_is_refused_before_anything_runs(given_as, said):
    gpu = smemsim.Gpu()
    with pytest.raises(InputError, match=said):
        gpu.launch(TAKES, **{"args": [0, 1, None, 4], **given_as})


@pytest.mark.parametrize(
    ("ptx", "said"),
    [
        (kernel("", "").replace("sm_90a", "hopper"), r"\.target hopper: names no architecture"),
        (kernel("", ".local .b8 large[4000000000];"), "4000000000 bytes of local variables"),
        (kernel("", "").replace(".visible", ".global .b8 large[100000000000];\n.visible"), "line 4: large has 100000000000 bytes"),
        (kernel("", "", directives=".blocksareclusters .reqntid 32 .reqnctapercluster 1"), "not modelled"),
        (kernel("", "").replace("size 64", "size 32"), ".address_size 32: sm_90 and higher have addresses of 64 bits alone"),
        (kernel("", "").replace(".visible", ".const .b8 a[65536], b;\n.visible"), "the .const variables have 65537 bytes; 65536 are there"),
        (kernel(".param .b8 a[32765]", ""), "line 4: the parameters of k take 32765 bytes; 32764 are possible"),
        (kernel(".param .b8 a[4352], .param .b8 b", "").replace("8.7", "8.0"), "take 4353 bytes; 4352 are possible under .version 8.0"),
    ],
)
def test_ptx_that_no_gpu_could_run_is_refused_before_anything_runs(ptx, said):
    with pytest.raises((InputError, Unmodelled), match=said):
        smemsim.Gpu().launch(ptx)


@pytest.mark.parametrize("wrong", ["kernel.ptx", 5, None, b".version 8.0", "", "hello"])
def test_what_is_no_ptx_is_a_sentence(wrong):
    with pytest.raises(InputError):
        smemsim.Gpu().launch(wrong, "k")


def test_the_entry_may_be_left_out_where_there_is_one():
    gpu = smemsim.Gpu()
    two = FILL + FILL.removeprefix(HEAD).replace(".entry k", ".entry other")
    with pytest.raises(InputError, match="entry is missing: name one kernel; the PTX has k, other"):
        gpu.launch(two, args=[gpu.zeros(4)])
    assert gpu.launch(FILL, args=[gpu.zeros(4)]).ok


def test_what_an_entry_requires_is_checked():
    text = kernel(".param .u64 to", NUMBERS, directives=".reqntid 64")
    with pytest.raises(InputError, match=r"block = \(32, 1, 1\): the entry requires \(64, 1, 1\) \(\.reqntid\)"):
        smemsim.Gpu().launch(text, block=32, args=[None])


# ---- one description of a launch


COUNT = """ld.param.u64 %d1, [to]; mov.u64 %d2, kept;
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 ret;
atom.global.add.u32 %r2, [%d2], 1; st.global.u32 [%d1], %r2; mov.u32 %r3, %cluster_nctaid.x; st.global.u32 [%d1+4], %r3;
mov.u32 %r3, %ntid.x; st.global.u32 [%d1+8], %r3;"""


def counting(directives=""):
    """A kernel that counts its launches in a variable, and says how many CTAs and threads it has."""
    return kernel(".param .u64 to, .param .u32 n, .param .align 64 .b8 map[128]", COUNT, directives=directives).replace(
        ".visible", ".visible .global .u32 kept = 5;\n.visible", 1
    )


def test_what_a_kernel_needs_is_known_before_a_launch():
    gpu = smemsim.Gpu()
    known = gpu.kernel(counting(".reqntid 64 .reqnctapercluster 2"))
    assert (known.name, known.parameter_sizes, known.block, known.cluster, known.most_threads) == (
        "k",
        (8, 4, 128),
        (64, 1, 1),
        (2, 1, 1),
        None,
    )
    assert gpu.kernel(kernel("", "", directives=".maxntid 16, 4")).most_threads == 64
    shared = kernel("", "mov.u32 %r1, sm;").replace(".visible", ".shared .b8 sm[100];\n.visible", 1)
    assert gpu.kernel(shared).static_shared_bytes == 100
    assert gpu.kernel(known) is known


def test_block_and_cluster_are_as_the_entry_requires_where_nobody_says_others():
    gpu = smemsim.Gpu()
    out, text = gpu.zeros(3, np.uint32), counting(".reqntid 64 .reqnctapercluster 2")
    assert gpu.launch(text, grid=2, args=[out, 0, None], watch_global=False).ok  # threads race for out[0]
    assert out.numpy()[1:].tolist() == [2, 64]
    assert gpu.launch(counting(), args=[out, 0, None]).ok
    assert out.numpy()[1:].tolist() == [1, 1]
    with pytest.raises(InputError, match=r"cluster = \(1, 1, 1\): the entry requires \(2, 1, 1\) \(\.reqnctapercluster\)"):
        gpu.launch(text, grid=2, cluster=1, args=[out, 0, None])
    with pytest.raises(InputError, match=r"grid.x = 3: needs a multiple of cluster.x = 2"):
        gpu.launch(text, grid=3, args=[out, 0, None])


def test_the_keywords_of_a_launch_are_the_members_of_its_two_descriptions():
    """One list of names, with the same defaults, for `Gpu.launch` and everything that passes them on."""
    members = {f.name: f.default for kind in (LaunchConfig, RunOptions) for f in dataclasses.fields(kind)}
    keywords = {n: p.default for n, p in inspect.signature(smemsim.Gpu.launch).parameters.items() if n not in ("self", "ptx", "try_fixes")}
    assert keywords == members


def test_a_description_runs_as_the_keywords_do():
    gpu = smemsim.Gpu()
    first, second = gpu.zeros(8, np.uint32), gpu.zeros(8, np.uint32)
    gpu.launch(FILL, grid=8, ctas=range(2, 4), args=[first], name="a.ptx")
    run = gpu.run(gpu.kernel(FILL), LaunchConfig(grid=8, args=[second]), RunOptions(ctas=range(2, 4), name="a.ptx"))
    assert (run.name, run.ctas) == ("a.ptx", 2)
    assert first.numpy().tolist() == second.numpy().tolist() == [0, 0, 3, 4, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LaunchConfig(grid=0), "grid"), (lambda: LaunchConfig(grid=None), "grid = None: needs one to three numbers"),
        (lambda: LaunchConfig(block=(1, 2, 3, 4)), "block"), (lambda: LaunchConfig(shared_bytes=-1), "shared_bytes"),
        (lambda: LaunchConfig(cancel="neve"), "cancel = 'neve': needs one of .*never"), (lambda: LaunchConfig(cooperative=2), "cooperative"),
        (lambda: RunOptions(limit=0), "limit"), (lambda: RunOptions(limit_seconds=0), "limit_seconds = 0: needs a number of seconds above 0"),
        (lambda: RunOptions(workers=0), "workers"), (lambda: RunOptions(client=3), "client = 3: needs a distributed.Client"),
        (lambda: RunOptions(sources=["/no/such/folder"]), "sources: '/no/such/folder' is not a folder"), (lambda: RunOptions(sanitize="no"), "sanitize"),
    ],
)  # fmt: skip
def test_a_description_is_checked_where_it_is_made(make, said):
    with pytest.raises(InputError, match=said):
        make()


def test_cards_share_programs_and_no_memory():
    """The same text in two cards, launched in turns: each has its own arrays and its own variables."""
    cards = [smemsim.Gpu(), smemsim.Gpu()]
    cards[1].zeros(1 << 16)  # so that their addresses differ
    outs = [gpu.zeros(3, np.uint32) for gpu in cards]
    for launched in range(3):
        for gpu, out in zip(cards, outs, strict=True):
            assert gpu.launch(counting(), args=[out, 0, None]).ok
            assert out.numpy()[0] == 5 + launched
    assert cards[0].kernel(counting()).program is cards[1].kernel(counting()).program


def test_a_module_that_is_loaded_again_has_variables_of_its_own():
    gpu = smemsim.Gpu()
    out, (one, two) = gpu.zeros(3, np.uint32), (gpu.load(counting()), gpu.load(counting().encode() + b"\0"))
    for module, wanted in ((one, 5), (one, 6), (two, 5), (one, 7)):
        gpu.run(module.kernel("k"), LaunchConfig(args=[out, 0, None]))
        assert out.numpy()[0] == wanted
    (address, size) = one.variable("kept")
    assert (size, gpu.get(address, size).view(np.uint32)[0]) == (4, 8)
    assert two.variable("kept")[0] != address
    with pytest.raises(InputError, match=r"variable 'keep': the PTX has no such variable; did you mean 'kept'"):
        one.variable("keep")
    one.unload()
    with pytest.raises(InputError, match="nothing was placed there"):
        gpu.get(address, size)


def test_a_kernel_works_on_the_hosts_own_memory():
    gpu, held = smemsim.Gpu(), np.zeros(8, np.uint32)
    at = gpu.memory.bind(held, name="held")
    assert gpu.launch(FILL, grid=8, args=[at]).ok
    assert held.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    (finding,) = gpu.launch(FILL, grid=9, args=[at]).findings
    assert finding.code == "X001"
    assert "right after the array held of arg0 (to), 32 bytes" in finding.message
    gpu.free(at)
    (finding,) = gpu.launch(FILL, grid=8, args=[at]).findings
    assert (finding.code, held.tolist()) == ("X001", [1, 2, 3, 4, 5, 6, 7, 8])


def test_a_launch_leaves_nothing_behind_in_memory():
    gpu = smemsim.Gpu()
    out = gpu.zeros(4, np.uint32)
    for _ in range(3):
        gpu.launch(FILL, grid=4, args=[out])
    gc.collect(1)
    other = gpu.zeros(4, np.uint32)
    assert [r.begin for r in gpu.memory.table()[2]] == [out.address, other.address]


@pytest.mark.parametrize(
    ("body", "status"),
    [("", 0), ("mov.u64 %d1, 16; st.global.u32 [%d1], 1;", 700), ("ld.param.u64 %d1, [to]; st.global.u64 [%d1+4], 1;", 716), ("L: bra L;", 702)],
)  # fmt: skip
def test_a_card_says_with_which_error_a_launch_ended(body, status):
    gpu = smemsim.Gpu()
    kernel_ = gpu.load(kernel(".param .u64 to", body)).kernel()
    assert gpu.execute(kernel_, LaunchConfig(args=[gpu.allocate(64).to_bytes(8, "little")])) == status
    assert gpu.run(kernel_, LaunchConfig(args=[gpu.allocate(64)])).launch.status == status


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("griddepcontrol.later;", "line 5: griddepcontrol.later: PTX has no instruction with .later"),
        ("ld.global.u32 %r1, [there];", "line 4: there is declared .extern"),
        ("setmaxnreg.inc.sync.aligned.u32 100;", "from 24 to 256"),
        ("mov.u32 %r1, 2; brx.idx %r1, L; A: ret; L: .branchtargets A, A;", "index 2 of a list of 2"),
    ],
)
def test_what_nobody_knows_is_not_passed_over(body, said):
    ptx = kernel("", body).replace(".visible", ".extern .global .u32 there; .visible")
    with pytest.raises((Unmodelled, InputError), match=said):
        smemsim.Gpu("sm_90a").launch(ptx)


def test_every_instruction_that_is_not_modelled_is_named_before_anything_runs():
    gpu = smemsim.Gpu()
    out = gpu.zeros(4, np.uint32)
    text = kernel(".param .u64 to", f"{NUMBERS}\ntex.1d.v4.f32.s32 {{%f1, %f1, %f1, %f1}}, [%d1, {{%r1}}];\nnanosleep.u33 5;")
    with pytest.raises((Unmodelled, InputError)) as e:
        gpu.launch(text, args=[out])
    assert "line" in str(e.value)
    assert not out.numpy().any()


@examples(25)
@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]), st.data())
def test_parts_of_a_grid_make_the_whole(x, y, cluster, data):
    """Just the CTAs of the clusters that were asked for run; all parts together leave what the whole grid leaves."""
    grid = (x * cluster[0], y * cluster[1])
    count = grid[0] * grid[1]
    gpu = PARTS.setdefault(0, smemsim.Gpu())
    out = gpu.zeros(count, np.uint32)
    order = data.draw(st.permutations(range(count)))
    split = data.draw(st.integers(1, count))
    seen = set()
    for part in filter(None, (order[:split], order[split:])):
        out.update(np.zeros(count, np.uint32))
        run = gpu.launch(FILL, grid=grid, cluster=cluster, args=[out], ctas=part, sanitize=False)
        ran = np.flatnonzero(out.numpy())
        clusters = {(n % grid[0] // cluster[0], n // grid[0] // cluster[1]) for n in part}
        wanted = [n for n in range(count) if (n % grid[0] // cluster[0], n // grid[0] // cluster[1]) in clusters]
        assert ran.tolist() == wanted
        assert (out.numpy()[ran] == ran + 1).all()
        assert run.ctas == len(ran)
        seen |= set(ran.tolist())
    assert seen == set(range(count))


PARTS = {}


@pytest.mark.parametrize(
    ("grid", "cluster", "ran", "told"),
    [
        (64, 1, [0, 32, 63], "CTA (0, 0, 0) first; CTA (32, 0, 0) interior; CTA (63, 0, 0) last"),
        ((8, 6), (2, 1), [0, 1, 4, 5, 6, 7, 24, 25, 28, 29, 30, 31, 40, 41, 44, 45, 46, 47], "cluster of CTA (4, 3, 0) interior; cluster of CTA (6, 3, 0) edge: last of x"),
        (5, 1, [0, 1, 2, 3, 4], ""),
    ],
)  # fmt: skip
def test_a_sample_has_the_corners_the_edges_and_the_interior_of_a_grid(grid, cluster, ran, told):
    """More than half of a grid is all of it, and no sample."""
    gpu = smemsim.Gpu()
    out = gpu.zeros(64, np.uint32)
    run = gpu.launch(FILL, grid=grid, cluster=cluster, args=[out], ctas="sample")
    assert np.flatnonzero(out.numpy()).tolist() == ran
    assert run.is_partial is bool(told) is ("partial: outputs" in run.text())
    assert told in run.text()
    more = gpu.launch(FILL, grid=64, args=[out], ctas=["sample", 5])
    assert more.ctas == 4
    with pytest.raises(InputError, match="sample"):
        gpu.launch(FILL, grid=64, args=[out], ctas="some")


GROUPED = kernel(  # tiles in groups of two rows, as Triton numbers them: rows of 7 tiles, 3 groups and a single row
    ".param .u64 to, .param .u32 rows",
    """.reg .b32 %s<16>; ld.param.u64 %d1, [to]; ld.param.u32 %s0, [rows]; mov.u32 %s1, %ctaid.x; div.u32 %s2, %s1, 14; shl.b32 %s3, %s2, 1; sub.u32 %s4, 7, %s3;
min.u32 %s5, %s4, 2; rem.u32 %s6, %s1, 14; rem.u32 %s7, %s6, %s5; add.u32 %s8, %s7, %s3; div.u32 %s9, %s6, %s5; mov.u32 %s10, %tid.x; mad.lo.u32 %s11, %s8, 32, %s10;
mul.wide.u32 %d2, %s1, 4; add.u64 %d3, %d1, %d2; setp.ge.u32 %p1, %s11, %s0; setp.eq.u32 %p2, %s9, 6; @%p1 ret; selp.u32 %s12, 2, 1, %p2; st.global.u32 [%d3], %s12;""",
)


def test_a_sample_has_the_edges_of_an_order_of_tiles_that_the_kernel_computes():
    """The last row of tiles is cut off at 200 rows: its CTAs, those of the last column, and the one that is in both are
    one each.
    """
    gpu = smemsim.Gpu()
    out = gpu.zeros(49, np.uint32)
    run = gpu.launch(GROUPED, grid=49, block=32, args=[out, 200], ctas="sample")
    assert np.flatnonzero(out.numpy()).tolist() == [0, 12, 24, 42, 48]
    assert out.numpy()[[0, 12, 24, 42, 48]].tolist() == [1, 2, 1, 1, 2]
    assert "CTA (12, 0, 0) another outcome of the test at line" in run.text()
    assert "as in 5 others" in run.text()
    assert gpu.launch(GROUPED, grid=49, block=32, args=[out, 224], ctas="sample").ctas == 3


OTHERS = kernel(
    ".param .u64 to",
    """.reg .b64 %d; ld.param.u64 %d, [to]; .shared .b32 told; mov.u32 %r1, %ctaid.x; mov.u32 %r3, 0; ld.global.u32 %r4, [%d + 8]; add.u32 %r1, %r1, %r4;
  setp.eq.u32 %p1, %r1, 5;
  @!%p1 bra WAIT; st.release.gpu.global.u32 [%d], 1; ret;
WAIT: LOOK setp.ne.u32 %p2, %r2, 0; @%p2 bra DONE; add.u32 %r3, %r3, STEP; setp.lt.u32 %p3, %r3, 300; @%p3 bra WAIT; trap;
DONE: ret;""",
)


@pytest.mark.parametrize(
    ("look", "step"), [("ld.acquire.gpu.global.u32 %r2, [%d];", 0), ("atom.acquire.gpu.global.or.b32 %r2, [%d], 0;", 1)]
)
def test_a_part_of_a_grid_that_waits_for_the_rest_is_no_hang(look, step):
    """Nor is a trap behind a limit on the wait. A loop that looks at nothing is a hang, whatever was left out."""
    ptx = OTHERS.replace("STEP", str(step))
    gpu = smemsim.Gpu()

    def launch(look, ctas):
        return gpu.launch(ptx.replace("LOOK", look), grid=64, block=32, args=[gpu.zeros(4, np.uint32)], ctas=ctas)

    for ctas in ("sample", [0, 9])[: 2 - step]:
        part = launch(look, ctas)
        assert not part.findings
        assert "were left out" in part.held_up
        assert "held up: " in part.text()
        assert part.launch.status == 0
    assert not launch(look, None).findings
    assert not launch(look, ["sample", 5]).held_up
    # as Triton does, and with too much memory to compare
    told = f"{look} st.shared.u32 [told], %r2; bar.sync 0; ld.shared.u32 %r2, [told]; bar.sync 0;"
    large = gpu.array(np.zeros(1 << 24, np.uint8))
    assert step or "were left out" in launch(told, [0]).held_up
    del large
    stuck = launch("mov.u32 %r2, 0;", "sample")
    assert [f.code for f in stuck.findings] == ["X013" if step else "X006"]
    assert not stuck.held_up


def test_an_interruption_leaves_what_has_run(monkeypatch):
    done = []

    def first_wave(self, ctas):
        self.done += ctas
        done.append(ctas)
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", first_wave)
    gpu = smemsim.Gpu()
    out = gpu.zeros(4096, np.uint32)
    run = gpu.launch(FILL, grid=4096, block=1, args=[out])
    assert run.interrupted
    assert 0 < run.ctas == sum(done) < 4096
    assert np.count_nonzero(out.numpy()) == run.ctas
    assert f"{run.ctas} of 4096 CTAs" in run.text()
    assert "interrupted" in run.text()
    assert run.as_dict()["interrupted"] is True


def test_the_largest_grid_begins_at_once(monkeypatch):
    def first_wave(self, ctas):
        self.done += ctas
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", first_wave)
    run = smemsim.Gpu().launch(kernel("", ""), grid=(2**31 - 1, 512))
    assert run.interrupted
    assert 0 < run.ctas < 10_000


def told_of(waves, capsys, *, quiet=False):
    """What is said of a launch of 1000 CTAs whose waves of two end at these seconds."""
    with Progress(1000, "k", quiet=quiet) as progress:
        began = progress._began
        for seconds in waves:
            progress._began = time.perf_counter() - seconds
            progress(2)
        progress._began = began
    return capsys.readouterr().err


def test_a_long_launch_says_how_long(capsys):
    """A slow first wave says so at once; after a fast one, which compiles, the next ones tell."""
    assert "2 of 1000 CTAs took 2 minutes, the others will take about 13.9 hours;" in told_of([100], capsys)
    assert told_of([100, 200, 300], capsys).count("CTAs took") == 1
    assert told_of([3], capsys) == told_of([3, 3.01], capsys) == ""
    assert "will take about 83 minutes" in told_of([3, 13], capsys)
    assert told_of([100, 200], capsys, quiet=True) == ""
    assert told_of([500, 501], capsys).count("CTAs took") == 1


def test_a_long_launch_prints_a_line_now_and_then_where_there_is_no_terminal(capsys, monkeypatch):
    assert "CTAs in" not in told_of([3, 13], capsys)
    monkeypatch.setattr("smemsim.diagnosis.progress.EVERY", 0.0)
    assert "smemsim: k: 2 of 1000 CTAs in 3 s\n" in told_of([3], capsys)
    assert "smemsim: k: 6 of 1000 CTAs in 5 s, about 8 minutes left\n" in told_of([3, 4, 5], capsys)
    assert told_of([3, 4, 5], capsys, quiet=True) == ""


@pytest.mark.parametrize(
    ("total", "waves", "said"),
    [
        # (seconds, CTAs) when a wave ends. The first one alone counts if it took more than 10 s.
        (100, [(10.0, 1)], []), (100, [(10.5, 1)], ["1 of 100 CTAs took 10 s, the others will take about 17 minutes"]),
        # More than ten minutes are worth a sentence.
        (51, [(12.0, 1)], []), (52, [(12.0, 1)], ["1 of 52 CTAs took 12 s, the others will take about 10 minutes"]),
        # Later waves count from the first one on, if they took more than a second and had CTAs.
        (4000, [(5.0, 4), (6.0, 4)], []), (4000, [(5.0, 4), (7.0, 4)], ["8 of 4000 CTAs took 7 s, the others will take about 33 minutes"]), (4000, [(5.0, 4), (9.0, 0)], []),
        # A line each 30 seconds, with the time left if it is known, and none at the end.
        (20, [(5.0, 2), (30.0, 2)], []), (20, [(5.0, 2), (31.0, 2)], ["4 of 20 CTAs in 31 s, about 3 minutes left"]), (4, [(5.0, 2), (31.0, 2)], []),
        (9, [(5.0, 2), (31.0, 2), (61.0, 2), (62.0, 2)], ["4 of 9 CTAs in 31 s, about 65 s left", "8 of 9 CTAs in 62 s, about 10 s left"]),
        (20, [(5.0, 2), (31.0, 0)], ["2 of 20 CTAs in 31 s"]),
        # After the sentence the next line comes 30 seconds later.
        (1000, [(20.0, 2), (45.0, 2), (51.0, 2)], ["2 of 1000 CTAs took 20 s, the others will take about 2.8 hours", "6 of 1000 CTAs in 51 s, about 2.1 hours left"]),
    ],
)  # fmt: skip
def test_what_is_said_of_progress_follows_from_the_times_of_its_waves(total, waves, said, capsys, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("smemsim.diagnosis.progress.time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    with Progress(total, "k") as progress:
        for seconds, ctas in waves:
            now[0] = 1000.0 + seconds
            progress(ctas)
    assert progress.done == sum(ctas for _, ctas in waves)
    lines = [line.removeprefix("smemsim: k: ").partition("; ctas=")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == said


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89.4, "89 s"), (90, "2 minutes"), (150, "2 minutes"), (5399, "90 minutes"), (5400, "1.5 hours"), (36 * 3600 - 1, "36.0 hours"), (36 * 3600, "1.5 days")],
)  # fmt: skip
def test_a_time_is_told_in_one_unit(seconds, text):
    assert told(seconds) == text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_drawn_on_a_terminal_after_some_seconds(monkeypatch):
    monkeypatch.setattr("smemsim.diagnosis.progress.AFTER", 0.05)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    for wait in (0.0, 0.4):
        with Progress(8, "kernel") as progress:
            time.sleep(wait)
            progress(8)
        assert ("kernel: CTAs" in terminal.getvalue()) is bool(wait)


def test_a_map_of_no_array_says_so():
    body = """.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar;
mov.u32 %r1, bar; mov.u32 %r2, tile; mbarrier.init.shared.b64 [%r1], 1; mov.u32 %r3, 0; fence.proxy.async;
mov.b64 %d1, map; cvta.param.u64 %d1, %d1;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%d1, {%r3, %r3}], [%r1];"""
    run = smemsim.Gpu().launch(kernel(".param .align 64 .b8 map[128]", body), args=[tensor_map(0x10000)])
    [finding] = [f for f in run.findings if f.code == "X001"]
    assert "global_address 0x10000 is in no array of this GPU" in finding.message
    assert "global_address=array.address" in finding.repair


def test_a_finding_shows_its_lines(tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text("def kernel():\n    acc = load(far)\n")
    text = kernel(".param .u64 to", "ld.param.u64 %d1, [to];\n.loc 1 2 0\nld.global.u32 %r1, [%d1+4096];") + f'\n.file 1 "{source}"\n'
    gpu = smemsim.Gpu()
    [finding] = gpu.launch(text, args=[gpu.zeros(4)], name="k.ptx").findings
    assert finding.printed.excerpt() == [
        f"{finding.line} | ld.global.u32 %r1, [%d1+4096]"
    ]  # a file elsewhere is not opened because the PTX names it
    run = gpu.launch(text, args=[gpu.zeros(4)], name="k.ptx", sources=[tmp_path])
    [finding] = run.findings
    assert finding.code == "X001"
    assert finding.where.startswith(f"k.ptx:{finding.line} ({source}:2)")
    assert text.splitlines()[finding.line - 1].startswith("ld.global.u32")
    assert finding.printed.excerpt() == ["kernel.py:2 | acc = load(far)", f"{finding.line} | ld.global.u32 %r1, [%d1+4096]"]
    assert all(line in run.text() for line in finding.printed.excerpt())
    page = run.html()
    assert "acc = load(far)" in page
    assert "X001" in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    source.unlink()
    assert finding.printed.excerpt() == [f"{finding.line} | ld.global.u32 %r1, [%d1+4096]"]


UNROLLED = """.shared .align 16 .b8 tile[512];
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
.loc 1 3 0
st.shared.u32 [%r2], %r1;
{barrier}
.loc 1 5 0
setp.lt.u32 %p1, %r1, 64; setp.lt.u32 %p2, %r1, 16;
@%p1 ld.shared.u32 %r4, [%r2+{first}];
@%p1 st.shared.u32 [%r2], %r4;
@%p2 ld.shared.u32 %r4, [%r2+64];
@%p2 st.shared.u32 [%r2], %r4;"""


@pytest.mark.parametrize(
    ("first", "barrier", "repair"),
    [(256, "bar.sync 0;", "__syncwarp"), (128, "bar.sync 0;", "__syncthreads"), (256, "", "__syncthreads")],
)
def test_a_race_between_warps_is_told_before_one_between_lanes_of_the_same_line(first, barrier, repair, tmp_path):
    """A reduction without barriers, its steps unrolled: a barrier for all warps orders the lanes too, and __syncwarp
    does not order warps.
    """
    text = kernel("", UNROLLED.format(first=first, barrier=barrier)) + f'\n.file 1 "{tmp_path}/reduce.cu"\n'
    found = [f for f in smemsim.Gpu().launch(text, block=128, name="k.ptx").findings if f.code == "X008"]
    assert repair in found[0].repair
    halves = [(f, f.as_dict()["other"]) for f in found if f.as_dict()["other"]]  # the two are of one line else
    assert len({f.repair for f, other in halves if other["location"].endswith(":5")}) == 1  # in the loop, one repair
    for f, other in halves:
        assert f"{other['location'].rpartition('/')[2]}, PTX line {other['line']}" in str(f)
        assert f"{other['line']} | {other['instruction']}" in f.printed.excerpt()


# What Triton's compiler returns, as far as a launch looks at it.
ADD = kernel(
    ".param .u64 x, .param .u32 n, .param .f32 s, .param .u64 scratch, .param .u64 profile",
    """ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [s]; ld.param.u64 %d4, [scratch]; ld.param.u64 %d5, [profile];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4; setp.ge.u32 %p1, %r5, %r1; @%p1 ret;
setp.ne.u64 %p2, %d5, 0; @%p2 trap;
mul.wide.u32 %d2, %r5, 4; add.u64 %d3, %d1, %d2; add.u64 %d6, %d4, %d2; st.global.u32 [%d6], %r5;
ld.global.f32 %f2, [%d3]; mul.f32 %f2, %f2, %f1; st.global.f32 [%d3], %f2;""",
    name="scale",
)


def compiled(ptx=ADD, signature=None, **metadata):
    signature = signature or {"x": "*fp32", "n": "i32", "s": "fp32", "BLOCK": "constexpr"}
    about = {
        "name": "scale",
        "num_warps": 1,
        "num_ctas": 1,
        "shared": 0,
        "global_scratch_size": 128,
        "profile_scratch_size": 0,
        "tensordesc_meta": None,
    }
    return SimpleNamespace(asm={"ptx": ptx}, metadata=SimpleNamespace(**(about | metadata)), src=SimpleNamespace(signature=signature))


@pytest.mark.parametrize("style", ["plain", "constexprs", "names", "gpu"])
def test_a_triton_kernel_is_launched_by_its_convention(style):
    x = np.arange(100, dtype=np.float32)
    wanted = x * 3
    gpu = smemsim.Gpu()
    if style == "gpu":
        a = gpu.array(x)
        run = smemsim.launch_triton(compiled(), a, 100, 3.0, grid=(4,), gpu=gpu)
        x = a.numpy()
    else:
        args, named = {"plain": ((x, 100, 3.0), {}), "constexprs": ((x, 100, 3.0, 32), {}), "names": ((x,), {"s": 3.0, "n": 100})}[style]
        run = smemsim.launch_triton(compiled(), *args, grid=4, **named)
    assert run.ok, run.text()
    assert np.array_equal(x, wanted)
    assert run.launch.block == (32, 1, 1)
    assert run.launch.grid == (4, 1, 1)


@pytest.mark.parametrize("place", ["numpy", "gpu"])
def test_a_descriptor_of_triton_may_stand_over_an_array_of_the_host_or_of_the_gpu(place):
    """Two descriptors, the second over another array: each kernel parameter is the base of its own."""
    names = [f"{name}{n}" for name in "ab" for n in range(7)]
    kinds = ["u64", "u32", "u64", "u8", "u8", "u32", "u64"]  # base, shape, stride, two flags, shape, stride
    parameters = ", ".join(f".param .{kinds[n % 7]} {name}" for n, name in enumerate(names)) + ", .param .u64 scratch, .param .u64 profile"
    body = """ld.param.u64 %d1, [a0]; ld.param.u64 %d2, [b0]; ld.param.u32 %r1, [a1]; mov.u32 %r2, %tid.x; setp.ge.u32 %p1, %r2, %r1; @%p1 ret;
mul.wide.u32 %d3, %r2, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3; ld.global.u32 %r3, [%d1]; st.global.u32 [%d2], %r3;"""
    gpu = smemsim.Gpu()
    host = np.arange(20, dtype=np.int32), np.zeros(20, np.int32)
    bases = host if place == "numpy" else tuple(map(gpu.array, host))
    given = [SimpleNamespace(base=base, shape=[20], strides=[1], block_shape=[32]) for base in bases]
    of = {"a": "tensordesc<i32[32]>", "b": "tensordesc<i32[32]>"}
    run = smemsim.launch_triton(compiled(kernel(parameters, body, name="scale"), of, global_scratch_size=0), *given, grid=1, gpu=gpu)
    assert run.ok, run.text()
    assert np.array_equal(host[1] if place == "numpy" else bases[1].numpy(), host[0])


def test_a_kernel_of_an_older_triton_has_one_scratch_pointer_and_clusters_of_three_dimensions():
    body = """ld.param.u64 %d1, [x]; ld.param.u64 %d4, [scratch]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r4, %r3, 4, %r2; mul.wide.u32 %d2, %r4, 4; add.u64 %d3, %d1, %d2;
add.u32 %r4, %r4, %r1; st.global.u32 [%d3], %r4; mul.lo.u64 %d2, %d2, 32; add.u64 %d4, %d4, %d2; st.global.u32 [%d4], %r4;"""
    old = kernel(".param .u64 x, .param .u32 n, .param .u64 scratch", body, name="scale")
    x = np.zeros(8, np.int32)
    run = smemsim.launch_triton(compiled(old, {"x": "*i32", "n": "i32"}, num_ctas=2, cluster_dims=(1, 2, 1)), x, 5, grid=(4,))
    assert run.ok, run.text()
    assert x.tolist() == [5 + n for n in range(8)]
    assert (run.launch.grid, run.launch.cluster) == ((4, 2, 1), (1, 2, 1))


@pytest.mark.parametrize(("version", "stride"), [("8.4", 256), ("8.7", 16)])
def test_strides_of_maps_count_16_bytes_where_ptxas_of_cuda_12_4_counts_them_so(version, stride):
    body = """ld.param.u64 %d1, [x]; ld.param.u64 %d2, [map]; mov.u64 %d3, 16; tensormap.replace.tile.global_stride.global.b1024.b64 [%d2], 0, %d3;"""
    text = re.sub(
        r"\.version \S+", f".version {version}", kernel(".param .u64 x, .param .u64 map, .param .u64 scratch", body, name="scale")
    )
    made = smemsim.TensorMap.tiled(
        data_type="f32", global_address=1 << 20, global_dim=[64, 8], global_strides=[512], box_dim=[32, 8], element_strides=[1, 1],
        interleave="none", swizzle="none", l2_promotion="none", oob_fill="zeros", arch="sm_90a",
    )  # fmt: skip
    raw = np.frombuffer(bytes(made), np.uint8).copy()
    smemsim.launch_triton(compiled(text, {"x": "*i32", "map": "*i8"}), np.zeros(8, np.int32), raw, grid=1)
    assert smemsim.TensorMap.from_bytes(raw.tobytes()).global_strides[0] == stride


@pytest.mark.parametrize(
    ("args", "named", "said"),
    [
        ((1, 100, 3.0), {}, "x = 1: is a pointer"),
        ((None, 100), {}, r"s \(fp32\) not given"),
        ((None, 100, 3.0, 4, 5), {}, "5 were given"),
        ((None, 100, 3.0), {"x": None}, "twice"),
        ((None, 100), {"S": 1}, "did you mean 's'"),
        ((None, "a", 3.0), {}, r"args\[1\]"),
        ((np.zeros(100), 100, 3.0), {}, r"an array of float64 \(64 bits an element\); the kernel was compiled for \*fp32"),
    ],
)
def test_what_does_not_fit_a_triton_kernel_is_a_sentence(args, named, said):
    with pytest.raises(InputError, match=said):
        smemsim.launch_triton(compiled(), *args, grid=1, **named)


def test_what_triton_did_not_compile_is_a_sentence():
    for wrong in (None, "kernel", SimpleNamespace(warmup=1), SimpleNamespace(asm={}, metadata=1, src=1), compiled(ptx=b"")):
        with pytest.raises(InputError, match=r"triton\.compile"):
            smemsim.launch_triton(wrong, grid=1)
    pair = compiled(signature={"x": ("*fp32", "i32"), "s": "fp32"})
    for wrong, said in (((1, 2), r"x\[0\] = 1: is a pointer"), (5, "x = 5: the kernel takes a tuple of 2"), ((None,), "a tuple of 2")):
        with pytest.raises(InputError, match=said):
            smemsim.launch_triton(pair, wrong, 3.0, grid=1)


ADD_TO = kernel(
    ".param .u64 x, .param .u64 y, .param .align 2 .b8 s[2], .param .u64 scratch, .param .u64 profile",
    """ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.b16 %h1, [s]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3;
add.u64 %d2, %d2, %d3; cvt.f32.TYPE %f1, %h1; ld.global.f32 %f2, [%d1]; add.f32 %f2, %f2, %f1; st.global.f32 [%d2], %f2;""",
    name="scale",
)


def adding(kind="fp16", signature=None, **source):
    """A kernel of one warp: y = x + s, the number passed in 16 bits."""
    ptx = ADD_TO.replace("TYPE", {"fp16": "f16", "bf16": "bf16"}[kind])
    done = compiled(ptx, signature or {"x": "*fp32", "y": "*fp32", "s": kind}, global_scratch_size=0)
    vars(done.src).update(source)
    return done


@pytest.mark.parametrize("way", ["a view and its base", "the base and a view", "two halves", "overlapping", "columns", "twice"])
def test_views_and_their_bases_are_one_memory(way):
    a = np.zeros(100, np.float32)
    a[:32] = np.arange(32)
    wanted = a.copy()
    x, y = {
        "a view and its base": lambda: (a[:50], a), "the base and a view": lambda: (a, a[40:]), "two halves": lambda: (a[:32], a[64:96]),
        "overlapping": lambda: (a[:40], a[1:]), "columns": lambda: (a.reshape(10, 10)[:, 5:], a.reshape(10, 10).T), "twice": lambda: (a, a),
    }[way]()  # fmt: skip
    offset = (y.ctypes.data - a.ctypes.data) // 4
    begin = (x.ctypes.data - a.ctypes.data) // 4
    wanted[offset : offset + 32] = wanted[begin : begin + 32] + np.float32(1.5)
    run = smemsim.launch_triton(adding(), x, y, 1.5, grid=1, progress=False)
    assert run.findings == []
    assert np.array_equal(a, wanted)


def test_triton_launches_on_one_gpu_leave_nothing_behind_once_their_runs_are_gone():
    gpu, arrays = smemsim.Gpu(), []
    for _ in range(3):
        run = smemsim.launch_triton(adding(), np.zeros(32, np.float32), np.zeros(32, np.float32), 1.5, grid=1, gpu=gpu, progress=False)
        assert run.ok
        del run
        gc.collect(1)
        gpu.zeros(1)
        arrays.append(len(gpu.memory.table()[2]))
    assert arrays == [1, 2, 3]


def test_arrays_of_their_own_memory_stay_apart_and_read_only_ones_as_they_are():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    y.flags.writeable = False
    run = smemsim.launch_triton(adding(), x, y, 1.5, grid=1, progress=False)
    assert run.findings == []
    assert not y.any()
    short = smemsim.launch_triton(adding(), x, np.zeros(31, np.float32), 1.5, grid=1, progress=False)
    assert [f.code for f in short.findings] == ["X001"]


def test_arrays_of_the_other_byte_order_are_converted_there_and_back():
    x, y = np.arange(32).astype(">f4"), np.zeros(32, ">f4")
    assert smemsim.launch_triton(adding(), x, y, 2.0, grid=1, progress=False).findings == []
    assert y.tolist() == [n + 2.0 for n in range(32)]
    with pytest.raises(InputError, match="y: shares memory with x, and one of them has to be copied"):
        smemsim.launch_triton(adding(), y[:32], y, 2.0, grid=1, progress=False)


@pytest.mark.parametrize(
    ("kind", "value", "arrives"), [("fp16", 1.0004, 1.0), ("bf16", 1.0078, 1.0), ("bf16", -1.5, -1.5), ("fp16", np.float16(0.25), 0.25)]
)
def test_numbers_of_16_bits_arrive_as_tritons_launcher_passes_them(kind, value, arrives):
    """Rounded to fp16, cut off to bf16."""
    y = np.zeros(32, np.float32)
    assert smemsim.launch_triton(adding(kind), np.zeros(32, np.float32), y, value, grid=1, progress=False).ok
    assert (y == arrives).all()
    with pytest.raises(InputError, match=f"s = .*needs a number that {kind} has room for"):
        smemsim.launch_triton(adding(kind), y, y, "1" if kind == "bf16" else 1e9, grid=1, progress=False)


def test_tuples_are_taken_member_by_member_and_a_grid_may_be_a_function():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    signature = {"p": ("*fp32", "constexpr", ("*fp32",)), "s": "fp16", "N": "constexpr"}
    seen = {}

    def grid(meta):
        seen.update(meta)
        return (meta["N"] // 32,)

    done = adding(signature=signature, constants={(2,): 32, (0, 1): 7})
    run = smemsim.launch_triton(done, (x, 7, (y,)), 2.0, grid=grid, progress=False)
    assert run.findings == []
    assert y.tolist() == [n + 2.0 for n in range(32)]
    assert (seen["N"], seen["s"], seen["num_warps"]) == (32, 2.0, 1)
    assert smemsim.launch_triton(adding(signature=signature), (x, 7, (y,)), 2.0, 64, grid=lambda meta: meta["N"] // 64, progress=False).ok
    with pytest.raises(InputError, match=r"grid: the function asks for 'BLOCK'; there are .*N"):
        smemsim.launch_triton(done, (x, 7, (y,)), 2.0, grid=lambda meta: meta["BLOCK"])


def test_tensors_of_pytorch_hold_the_results():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(64.0), torch.zeros(2, 32)
    assert smemsim.launch_triton(adding(), x, y[1], 1.0, grid=1, progress=False).findings == []  # a view of its storage
    assert y[1].tolist() == [n + 1.0 for n in range(32)]
    assert not y[0].any()
    storage = torch.zeros(64, requires_grad=True)
    assert smemsim.launch_triton(adding(), storage, storage[32:], 3.0, grid=1, progress=False).ok
    assert storage[32:].tolist() == [3.0] * 32
    b = torch.zeros(32, dtype=torch.bfloat16)
    bits = adding(signature={"x": "*bf16", "y": "*bf16", "s": "fp16"})
    assert smemsim.launch_triton(
        bits, torch.ones(64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16), 0.0, grid=1, progress=False
    ).ok
    gpu = smemsim.Gpu()
    assert gpu.array(b.reshape(8, 4).T).stride() == (1, 4)
    assert gpu.array(torch.arange(12.0).reshape(3, 4).T).numpy().tolist() == np.arange(12.0).reshape(3, 4).T.tolist()


COPY = kernel(
    ".param .align 64 .b8 map[128], .param .u32 h, .param .u32 w, .param .u64 sh, .param .u64 sw, .param .u64 out, .param .u64 g, .param .u64 p",
    """ld.param.u64 %d1, [out]; ld.param.u32 %r1, [h]; ld.param.u32 %r2, [w]; ld.param.u64 %d2, [sh]; ld.param.u64 %d3, [sw];
st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2; st.global.u64 [%d1+8], %d2; st.global.u64 [%d1+16], %d3;
mov.b64 %d4, map; cvta.param.u64 %d4, %d4; mov.u32 %r3, 0;
LOOP: cvt.u64.u32 %d5, %r3; add.u64 %d6, %d4, %d5; ld.b32 %r4, [%d6]; add.u64 %d7, %d1, %d5; st.global.u32 [%d7+24], %r4;
add.u32 %r3, %r3, 4; setp.lt.u32 %p1, %r3, 128; @%p1 bra LOOP;""",
    name="scale",
)


def test_a_host_descriptor_becomes_a_map_its_shape_and_its_strides():
    """The bytes that arrive are those of the map that the driver would encode."""
    gpu = smemsim.Gpu()
    base, out = gpu.zeros((16, 64), "bf16"), gpu.zeros(38, np.uint32)
    meta = {"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [8, 64], "fp4_padded": False}
    signature = {"a": "tensordesc<bf16[8, 64]>", "out": "*i32"}
    done = compiled(COPY, signature, tensordesc_meta=[meta], global_scratch_size=0)
    descriptor = SimpleNamespace(base=base, shape=[16, 64], strides=[64, 1], block_shape=[8, 64], padding="nan")
    assert smemsim.launch_triton(done, descriptor, out, grid=1, gpu=gpu).ok
    raw = out.numpy().tobytes()
    assert struct.unpack("<IIqq", raw[:24]) == (16, 64, 64, 1)
    wanted = smemsim.TensorMap.tiled(
        data_type="bf16", global_address=base.address, global_dim=(64, 16), global_strides=(128,), box_dim=(64, 8), element_strides=(1, 1),
        interleave="none", swizzle="128B", l2_promotion="128B", oob_fill="nan",
    )  # fmt: skip
    assert raw[24:] == bytes(wanted)
    with pytest.raises(InputError, match="a = 5: is a tensor descriptor"):
        smemsim.launch_triton(done, 5, out, grid=1, gpu=gpu)
    with pytest.raises(InputError, match="the driver refuses"):
        smemsim.launch_triton(done, SimpleNamespace(**{**vars(descriptor), "strides": [63, 1]}), out, grid=1, gpu=gpu)


@pytest.mark.parametrize(
    ("directives", "others", "codes"),
    [
        (".maxnreg 128", "setmaxnreg.dec.sync.aligned.u32 24;", []),
        (".maxnreg 128", "", ["X006"]),
        (".maxnreg 128", "setmaxnreg.dec.sync.aligned.u32 32;", ["X006"]),  # 232 and 32 are more than twice 128
        (".maxntid 256 .minnctapersm 2", "", ["X006"]),
        (".maxntid 256 .minnctapersm 1", "", []),  # 256 a thread from the beginning
        ("", "", []),  # ptxas ignores it
    ],
)
def test_registers_that_nobody_gives_back_are_waited_for_for_ever(directives, others, codes):
    body = f"""mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; @%p1 bra A;
    {others} bra B; A: setmaxnreg.inc.sync.aligned.u32 232; B:"""
    run = smemsim.Gpu("sm_90a").launch(kernel("", body, directives=directives), block=256)
    assert [f.code for f in run.findings] == codes
    assert all("setmaxnreg.inc" in f.instruction for f in run.findings)
    assert all(
        f.repair.startswith(".minnctapersm 1" if "minnctapersm 2" in directives else "setmaxnreg.dec to at most 24 registers")
        for f in run.findings
    )


@pytest.mark.parametrize(
    ("gives", "asks", "repair"),
    [
        (40, 256, "setmaxnreg.inc of at most 232 registers here"),  # 24 in the others would not be enough
        (56, 232, "setmaxnreg.dec to at most 40 registers in the other warps, or setmaxnreg.inc of at most 224 registers here"),
    ],
)
def test_the_numbers_of_registers_that_fit_are_named(gives, asks, repair):
    body = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; @%p1 bra A; setmaxnreg.inc.sync.aligned.u32 {}; bra B; A: setmaxnreg.dec.sync.aligned.u32 {}; B:"""
    directives = ".maxntid 384 .minnctapersm 1"  # 168 registers a thread
    run = smemsim.Gpu("sm_90a").launch(kernel("", body.format(asks, gives), directives=directives), block=384)
    assert [(f.code, f.repair) for f in run.findings] == [("X006", repair)]
    least, most = (int(word) for word in repair.split() if word.isdigit()) if gives == 56 else (gives, 232)
    for fixed in ((asks, least), (most, gives)) if gives == 56 else ((most, gives),):
        assert not smemsim.Gpu("sm_90a").launch(kernel("", body.format(*fixed), directives=directives), block=384).findings


@pytest.mark.parametrize(("threads", "codes"), [(128, []), (96, ["X011"])])
def test_setmaxnreg_of_a_part_of_a_warpgroup_is_a_remark(threads, codes):
    body = f"mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, {threads}; @!%p1 bra B; setmaxnreg.dec.sync.aligned.u32 64; B:"
    run = smemsim.Gpu("sm_90a").launch(kernel("", body, directives=".maxnreg 128"), block=256)
    assert run.findings == []
    assert [f.code for f in run.broken] == codes
    assert all("only warps 0 to 2 of a warpgroup execute" in f.message for f in run.broken)
    ignored = smemsim.Gpu("sm_90a").launch(kernel("", body, directives=""), block=256)  # ptxas knows no number of registers at entry
    assert [f.code for f in ignored.broken] == codes
    assert all("ptxas" in f.why for f in ignored.broken)


def test_tritons_own_compilation_of_tuples_and_half_precision_numbers_runs_on_tensors(monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # without it Triton 3.9 warns
    triton, torch = pytest.importorskip("triton"), pytest.importorskip("torch")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    done = triton.compile(
        ASTSource(triton_kernels.shifted, {"p": ("*fp32", "*fp32"), "s": "fp16", "step": "i32", "block": "constexpr"}, {"block": 64}),
        target=GPUTarget("cuda", 90, 32),
    )
    base = torch.zeros(2, 128)
    base[0] = torch.arange(128.0)
    run = smemsim.launch_triton(
        done, (base.T[:, 0], base.T[:, 1]), 0.5, base.T.stride(0), grid=lambda meta: (128 // meta["block"],), progress=False
    )
    assert run.findings == []
    assert base[1].tolist() == [n + 0.5 for n in range(128)]


# ---- what a launch leaves behind

# Each warp stores to shared memory what its neighbour reads behind a barrier; a register gets a value in some threads
# only where the parameter is not 0.
LEFT = kernel(
    ".param .u64 to, .param .u32 gives",
    """.shared .align 4 .b8 sm[256];
ld.param.u64 %d1, [to]; ld.param.u32 %r1, [gives]; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 mov.u32 %r9, 7;
mov.u32 %r3, sm; mad.lo.u32 %r4, %r2, 4, %r3; st.shared.u32 [%r4], %r9; bar.sync 0; xor.b32 %r5, %r4, 128; ld.shared.u32 %r6, [%r5];
mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r6;""",
)


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
def test_a_launch_that_is_over_leaves_nothing_for_the_garbage_collector(tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    gpu = smemsim.Gpu("sm_90a")
    to = gpu.array(np.zeros(64, np.uint32))
    text = LEFT.replace("@%p1 mov.u32 %r9, 7;", "mov.u32 %r9, 0; @%p1 mov.u32 %r9, 7;")  # in all threads

    def launch():
        assert not gpu.launch(text, grid=40, block=64, args=[to, 1], progress=False, workers=1).findings

    launch()
    gc.collect()
    gc.disable()
    try:
        launch()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_registers_of_a_launch_before_are_not_seen():
    gpu = smemsim.Gpu("sm_90a")
    to = gpu.array(np.zeros(64, np.uint32))
    for gives in (1, 0, 1, 0):
        gpu.launch(LEFT, grid=1, block=64, args=[to, gives], progress=False, workers=1)
        assert (to.numpy() == 7 * gives).all()


@pytest.mark.parametrize("body", ["", "trap;"])
def test_the_garbage_collector_comes_by_as_before_when_a_launch_is_over(body):
    before = gc.get_threshold()
    try:
        for own in ((700, 10, 10), (0, 10, 10)):
            gc.set_threshold(*own)
            smemsim.Gpu("sm_90a").launch(kernel("", body), grid=1, block=32, args=[], progress=False, workers=1)
            assert gc.get_threshold() == own
    finally:
        gc.set_threshold(*before)


def test_a_kernel_without_instructions_runs_and_does_nothing():
    run = smemsim.Gpu("sm_90a").launch(
        ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { }", grid=2, block=32, progress=False
    )
    assert run.ok
    assert run.ctas == 2


CODES = json.loads(gzip.decompress((TESTS / "data" / "h200_fault_codes.json.gz").read_bytes()))


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
def test_kernels_end_with_the_error_of_an_h200(monkeypatch, tiers):
    """Kernels that use addresses, mbarriers, copies and barriers wrong in one way each: the card's error, or none."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    assert len(CODES["rows"]) > 100
    rows = CODES["rows"] if tiers == "closures" else CODES["rows"][::5]
    for name, body, grid, block, cluster, error in rows:
        gpu = smemsim.Gpu()
        text = f"{CODES['head']}{body}\n mov.u32 %r15,1; st.global.u32 [%o],%r15; ret; }}\n"
        config = LaunchConfig(grid=grid, block=block, cluster=cluster, args=[gpu.zeros(1024, np.uint32)])
        run = gpu.run(gpu.load(text).kernel("k"), config, RunOptions(progress=False))
        assert run.launch.status == error, name
        assert run.findings or not error or name.startswith(("trap", "brkpt", "store then brkpt")), name


ASYNC = """.version 8.8 .target sm_90a .address_size 64
.visible .entry k(.param .u64 out) {more} {{ .reg .b64 %o; .reg .b32 %r<9>; .reg .pred %p; .shared .align 16 .b8 sm[64]; .shared .align 8 .b64 bar;
ld.param.u64 %o, [out]; mov.u32 %r0, sm; mov.u32 %r1, bar; mov.u32 %r2, 7; mbarrier.init.shared.b64 [%r1], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {bytes}; {at} {form} [%r3], {value}, [%r4];
W: mbarrier.try_wait.parity.shared.b64 %p, [%r1], 0; @!%p bra W; ld.shared.u32 %r5, [%r0]; st.global.u32 [%o], %r5; ret; }}
"""
OWN_CTA = "mov.u32 %r3, %r0; mov.u32 %r4, %r1;"
BY_MAPA = "mapa.shared::cluster.u32 %r3, %r0, 0; mapa.shared::cluster.u32 %r4, %r1, 0;"


@pytest.mark.parametrize("at", [OWN_CTA, BY_MAPA], ids=["own", "mapa"])
@pytest.mark.parametrize(
    ("form", "size", "value"),
    [
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32", 4, "%r2"),
        ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32", 16, "{%r2, %r2, %r2, %r2}"),
        ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.or.b32", 4, "%r2"),
    ],
)
@pytest.mark.parametrize(
    ("more", "cluster", "error"),
    [("", None, 715), ("", 1, 0), (".reqnctapercluster 1", None, 0)],
    ids=["no cluster", "cluster", "directive"],
)
def test_asynchronous_stores_need_a_launch_with_clusters(at, form, size, value, more, cluster, error):
    gpu = smemsim.Gpu()
    out = gpu.zeros(1, np.uint32)
    run = gpu.launch(ASYNC.format(more=more, at=at, form=form, bytes=size, value=value), "k", cluster=cluster, args=[out], progress=False)
    assert run.launch.status == error
    assert [f.code for f in run.findings if f.code == "X010"] == ["X010"] * bool(error)
    assert not error or (run.findings[0].line == 4 and "cluster dimension" in run.findings[0].repair)
    assert error or "red" in form or out.numpy()[0] == 7


def test_a_constant_beyond_all_constants_is_a_finding_but_no_error():
    body = "ld.param.u64 %d1, [to]; mov.u32 %r1, c; ld.const.u32 %r2, [%r1+4096]; st.global.u32 [%d1], %r2;"
    gpu = smemsim.Gpu()
    out = gpu.array(np.array([9], np.uint32))
    run = gpu.launch(kernel(".param .u64 to", body).replace(".visible .entry", ".const .align 4 .b32 c = 5; .visible .entry"), args=[out])
    assert ([f.code for f in run.findings], run.launch.status, out.numpy()[0]) == (["X001"], 0, 0)
