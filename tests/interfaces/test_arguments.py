"""The Python API: an argument of another type is an InputError that names the argument, what came, and what is needed."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import smemsim
from smemsim import CuteLayout, DeviceArray, GlobalMemory, Gpu, InputError, SharedMemory
from smemsim.run import LaunchConfig, RunOptions

PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"
LAYOUT = CuteLayout.parse("(64,16):(16,1)")
CONFIG = LaunchConfig(args=[None])
LONG = "a" * 300  # no file system has such a name

REFUSED = {
    "a config": (lambda: Gpu().run(PTX, {"grid": 4}), "config = {'grid': 4}: needs a smemsim.run.LaunchConfig"),
    "a prepared config": (lambda: Gpu().prepare(PTX, 4), "config = 4: needs a smemsim.run.LaunchConfig"),
    "a compared config": (lambda: Gpu().run_and_compare(PTX, None, RunOptions()), "config = None: needs a smemsim.run.LaunchConfig"),
    "options": (lambda: Gpu().run(PTX, CONFIG, {"schedule": 1}), "options = {'schedule': 1}: needs smemsim.run.RunOptions"),
    "no options": (lambda: Gpu().run(PTX, CONFIG, 0), "options = 0: needs smemsim.run.RunOptions"),
    "relaxed options": (lambda: Gpu().run_relaxed(PTX, CONFIG, [1]), "options = [1]: needs smemsim.run.RunOptions"),
    "a number of outputs": (lambda: Gpu().launch(PTX, args=[None], outputs=1), "outputs = 1: needs a list of arrays of Gpu.array"),
    "an output": (lambda: Gpu().launch(PTX, args=[None], outputs=Gpu().empty(4)), "needs a list of arrays of Gpu.array"),
    "a name": (lambda: Gpu().array(np.zeros(4), name=np.zeros(4)), "name = array([0., 0., 0., 0.]): needs a text"),
    "a map": (lambda: Gpu().encode(bytes(128), 0x10000), "needs a TensorMap"),
    "data": (lambda: Gpu().put(0, "text"), "data = 'text'"),
    "a memory": (lambda: DeviceArray(None, np.zeros(4)), "memory = None: needs a GlobalMemory"),
    "a list": (lambda: DeviceArray(GlobalMemory(), [1, 2]), "array = [1, 2]: needs a numpy array"),
    "an address": (lambda: GlobalMemory().holds("0x10"), "address = '0x10': needs a whole number"),
    "an address near others": (lambda: GlobalMemory().nearest(None), "address = None: needs a whole number"),
    "windows": (lambda: smemsim.Cluster.of([SharedMemory(), 5]), "needs the SharedMemory of each CTA"),
    "columns": (lambda: smemsim.TensorMemory().free("32"), "columns = '32': needs a whole number"),
    "columns of no allocation": (lambda: smemsim.TensorMemory().free(0), "columns = 0: needs a power of two"),
    "a tiler": (lambda: LAYOUT.zipped_divide([8, 8]), "tiler = [8, 8]: needs a tuple with a number for each mode"),
    "a tiler of 0": (lambda: LAYOUT.logical_divide((8, 0)), "tiler = 0: needs"),
    "bits": (lambda: LAYOUT.recast("128", 16), "new_bits = '128': needs a whole number"),
    "a mode": (lambda: LAYOUT.mode(2), "index = 2: (64,16):(16,1) has 2 modes, needs 0 to 1"),
    "a scenario": (lambda: smemsim.Scenario.of(5), "scenario = 5: needs a path"),
    "a map of a scenario": (lambda: smemsim.Scenario("sm_90a").map("tmA", b"x"), "map tmA: b'x': needs a TensorMap"),
    "a tensor of a scenario": (lambda: smemsim.check(smemsim.Scenario("sm_90a").map("tmA", of=["A"])), "map.tmA.of: ['A']: needs a text"),
    "a long name of a scenario": (lambda: smemsim.check(LONG), "file name too long"),
    "a long name of a launch": (lambda: smemsim.launch_file(LONG), "file name too long"),
    "progress": (lambda: smemsim.sweep(["keys"], cases=1, workers=1, progress=True), "progress = True: needs a function"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_an_argument_of_another_type_is_named(what):
    call, said = REFUSED[what]
    with pytest.raises(InputError) as e:
        call()
    assert said in str(e.value)


def test_arguments_of_the_right_types_are_taken(tmp_path):
    gpu = Gpu()
    out = gpu.empty(4, name="out")
    assert gpu.run(PTX, LaunchConfig(args=[out]), RunOptions(outputs=[out])).ok
    assert gpu.launch(PTX, args=[out], outputs=(out.address,)).ok
    assert gpu.memory.holds(np.uint64(out.address))
    assert gpu.memory.nearest(out.address).begin == out.address
    for call in (gpu.free, gpu.memory.free, gpu.memory.find, lambda at: gpu.memory.span(at, np.int32(8))):
        with pytest.raises(InputError, match="global address 0x4: "):  # the arithmetic is not that of 32 bits
            call(np.int32(4))
    assert gpu.memory.nearest(np.int32(4)) is not None
    assert str(LAYOUT.mode(-1)) == "16:1" == str(LAYOUT.modes()[1])
    assert str(LAYOUT.zipped_divide((8, 8))) == "((8,8),(8,2)):((16,1),(128,8))"
    assert smemsim.TensorMemory().free(32) == 0
    written = pathlib.Path(tmp_path / "s.toml")
    written.write_text('arch = "sm_90a"\n')
    for given in (written, str(written), {"arch": "sm_90a"}):
        assert smemsim.Scenario.of(given).tables["arch"] == "sm_90a"


def test_modules_that_the_pages_name_need_no_import_of_their_own():
    named = "triton.install", "cutedsl.install", "run.Observer", "virtual.hook", "testing.__name__", "evidence.load_suite"
    code = f"import smemsim; {'; '.join(f'smemsim.{name}' for name in named)}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="did you mean 'launch_triton'"):
        smemsim.launch_triton_kernel  # noqa: B018
