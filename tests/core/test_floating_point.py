"""Simulated launches and public computations do not depend on the floating-point state of the thread that asks for
them, and give it back.
"""

import concurrent.futures
import contextlib
import ctypes
import os
import platform
import struct
import subprocess
import sys

import numpy as np
import pytest

import smemsim
from launches import kernel
from smemsim import Gpu, HardwareTrap, InputError, Unmodelled

MACHINE = platform.machine() if sys.platform == "linux" else ""
PLACE = {"x86_64": 28, "aarch64": 0}.get(MACHINE)  # of the control word in a fenv_t
STATES = {
    "x86_64": {"subnormals are flushed": 0x8040, "rounds upwards": 0x4000, "rounds to zero and flushes": 0x6000 | 0x8040},
    "aarch64": {"subnormals are flushed": 1 << 24, "rounds upwards": 1 << 22, "rounds to zero and flushes": 3 << 22 | 1 << 24},
}.get(MACHINE, {})
pytestmark = pytest.mark.skipif(PLACE is None, reason="where the control word of this system lies is not known")

SCRIPT = """
import ctypes, struct, sys
bits, place = int(sys.argv[1]), int(sys.argv[2])
library, room = ctypes.CDLL("libm.so.6"), ctypes.create_string_buffer(512)
library.fegetenv(room)
struct.pack_into("<I", room, place, struct.unpack_from("<I", room, place)[0] | bits)
library.fesetenv(room)
sys.path[:0] = sys.argv[3:]
import test_floating_point
print(test_floating_point.computed().hex())
"""


def _word() -> int:
    """The bits of the control word that say how the thread computes."""
    room = ctypes.create_string_buffer(512)
    ctypes.CDLL("libm.so.6").fegetenv(room)
    return struct.unpack_from("<I", room, PLACE)[0] & (0xFFC0 if MACHINE == "x86_64" else 0x07C00000)


@contextlib.contextmanager
def _in_state(bits: int):
    library, room, before = ctypes.CDLL("libm.so.6"), ctypes.create_string_buffer(512), ctypes.create_string_buffer(512)
    library.fegetenv(before)
    library.fegetenv(room)
    struct.pack_into("<I", room, PLACE, struct.unpack_from("<I", room, PLACE)[0] | bits)
    library.fesetenv(room)
    try:
        yield
    finally:
        library.fesetenv(before)


TEXT = kernel(
    2,
    """mov.u32 %r50, %ctaid.x; mad.lo.u32 %r50, %r50, 64, %r1; mul.wide.u32 %d1, %r50, 4; add.u64 %d2, %d20, %d1; ld.global.f32 %f1, [%d2];
    mul.f32 %f2, %f1, 0f3F000000; add.f32 %f3, %f1, %f1; fma.rn.f32 %f4, %f1, 0f3EAAAAAB, %f1; cvt.f64.f32 %g1, %f1; mul.f64 %g2, %g1, 0d2000000000000000;
    mul.f64 %g2, %g2, 0d1F00000000000000; cvt.rn.f16.f32 %h1, %f1; mul.rn.f16 %h2, %h1, %h1; div.rn.f32 %f5, %f1, 0f40400000; sqrt.rn.f32 %f6, %f1; min.f32 %f7, %f1, 0f00000000;
    mul.wide.u32 %d3, %r50, 32; add.u64 %d4, %d21, %d3; st.global.v4.f32 [%d4], {%f2, %f3, %f4, %f5}; st.global.f64 [%d4+16], %g2; st.global.b16 [%d4+24], %h1;
    st.global.b16 [%d4+26], %h2; mov.u32 %r2, sm; mad.lo.u32 %r2, %r1, 4, %r2;
    st.shared.f32 [%r2], %f6; atom.shared.add.f32 %f8, [%r2], %f2; add.f32 %f7, %f7, %f8; st.global.f32 [%d4+28], %f7;""",
    variables=".shared .align 16 .b8 sm[256];",
)
WORDS = np.concatenate([np.arange(1, 1 << 23, 1 << 16), np.arange(0x33000000, 0x3F800000, 0x1808181)]).astype(np.uint32)[:128]


def _launched(**options) -> bytes:
    gpu = Gpu("sm_90a")
    words = np.resize(WORDS, 256)
    given, out = gpu.array(words), gpu.array(np.zeros((256, 8), np.uint32))
    run = gpu.launch(TEXT, grid=4, block=64, args=[given, out], progress=False, **options)
    assert run.findings == []
    return out.numpy().tobytes()


def computed() -> bytes:
    """What the public functions make of subnormals, and of sums that have to be rounded."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 1 << 12, shape, dtype=np.uint16) for shape in ((16, 16), (8, 16)))
    c = rng.integers(0, 1 << 20, (16, 8), dtype=np.uint32)
    types = {"arch": "sm_90a", "kind": "wgmma", "a_type": "f16", "b_type": "f16", "d_type": "f32"}
    found = [smemsim.mma(a, b, c, **types), smemsim.to_float64(a, "f16"), smemsim.from_float64(np.array([1e-40, 3e-45, 1 / 3]), "f32")]
    moved = smemsim.bulk_reduce("add", "f32", 0x10000, 0x400, 512, dst_space="global")
    found.append(smemsim.bulk_bytes(moved, dst=WORDS.view(np.uint8), src=WORDS[::-1].copy().view(np.uint8)))
    return b"".join(np.asarray(array).tobytes() for array in found) + _launched(workers=1)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "options", [{"workers": 1}, {"workers": 2}, {"workers": 1, "schedule": 1}, {"workers": 1, "sanitize": False}], ids=str
)
@pytest.mark.parametrize("tier", ["closures", "compiled"])
def test_a_launch_computes_the_same_in_every_state_and_gives_it_back(state, options, tier, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    usual = _launched(**options)
    with _in_state(STATES[state]):
        before = _word()
        assert _launched(**options) == usual
        with concurrent.futures.ThreadPoolExecutor(1) as pool:  # a thread that has begun in this state
            assert pool.submit(_launched, **options).result() == usual
            assert pool.submit(_word).result() == before
        assert _word() == before


@pytest.mark.parametrize("state", STATES)
def test_public_functions_compute_the_same_in_every_state_and_give_it_back(state):
    usual = computed()
    with _in_state(STATES[state]):
        before = _word()
        assert computed() == usual
        with pytest.raises(InputError):
            smemsim.mma(1, 2, 3, arch="sm_90a", kind="wgmma", a_type="f16", b_type="f16", d_type="f32")
        with pytest.raises((InputError, HardwareTrap)):
            smemsim.check("no such file.toml")
        with pytest.raises(Unmodelled):
            Gpu("sm_90a").launch(kernel(0, "multimem.red.global.add.u32 [%d1], 1;"), progress=False)
        assert _word() == before


def test_modules_that_are_imported_in_another_state_have_the_same_tables():
    bits = STATES["rounds to zero and flushes"]
    arguments = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(bits), str(PLACE), *sys.path]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert bytes.fromhex(done.stdout) == computed()


PRODUCT = {"arch": "sm_90a", "kind": "wgmma", "a_type": "f16", "b_type": "f16", "d_type": "f32"}


class InFlight:
    """An argument that changes the state of the thread when it is converted, as a library does that is loaded at its
    first use.
    """

    def __init__(self, array, bits, is_forked=False):
        self.array, self.bits, self.is_forked, self.child = array, bits, is_forked, 0

    def __array__(self, dtype=None, copy=None):
        self.child = os.fork() if self.is_forked else 0
        if self.is_forked and self.child:
            return self.array
        _change(self.bits)
        if self.is_forked:
            os._exit(0 if np.array_equal(_product(self.array), EXPECTED) else 1)
        return self.array


def _change(bits):
    library, room = ctypes.CDLL("libm.so.6"), ctypes.create_string_buffer(512)
    library.fegetenv(room)
    struct.pack_into("<I", room, PLACE, struct.unpack_from("<I", room, PLACE)[0] | bits)
    library.fesetenv(room)


A, B = (np.random.default_rng(3).integers(0, 1 << 12, shape, dtype=np.uint16) for shape in ((16, 16), (8, 16)))
C = np.random.default_rng(4).integers(0, 1 << 20, (16, 8), dtype=np.uint32)


def _product(a):
    return smemsim.mma(a, B, C, **PRODUCT)


EXPECTED = _product(A)


@pytest.mark.parametrize("state", STATES)
def test_a_state_that_changes_during_a_call_changes_nothing(state):
    with _in_state(0):
        assert np.array_equal(_product(InFlight(A, STATES[state])), EXPECTED)
        assert _word() & STATES[state]
        assert np.array_equal(_product(A), EXPECTED)


@pytest.mark.parametrize("state", STATES)
def test_a_process_that_is_forked_during_a_call_has_a_state_of_its_own(state):
    given = InFlight(A, STATES[state], is_forked=True)
    assert np.array_equal(_product(given), EXPECTED)
    assert os.waitpid(given.child, 0)[1] == 0
