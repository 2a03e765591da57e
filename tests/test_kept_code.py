"""Machine code that is kept: found again without numba, bounded, cleared, and not needed."""

import inspect
import json
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner
from numba.core.errors import NumbaError

from gpu_faults import KERNELS
from smemsim import Gpu, store
from smemsim.arithmetic.loops import look_up
from smemsim.cli import COMMANDS, main
from smemsim.compiling import LOOPS, Loop, describe, digest, ship
from smemsim.compiling.ship import known, typed
from smemsim.evidence import load_launch_file
from smemsim.program import RunOptions
from smemsim.program.watch import loops

KEY = "ab" * 32


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(store.FOLDER, str(tmp_path))
    return tmp_path / "objects"


def cache(*words):
    result = CliRunner().invoke(main, ["cache", *words])
    return result.exit_code, result.stdout


def test_an_entry_is_read_again_and_a_damaged_one_is_missing(folder):
    assert store.read(KEY) is None
    store.write(KEY, b"code")
    assert store.read(KEY) == b"code"
    (path,) = folder.glob("*.o")
    path.write_bytes(path.read_bytes()[:-1])
    assert store.read(KEY) is None


def test_what_was_used_longest_ago_goes_first(folder, monkeypatch):
    monkeypatch.setenv(store.MOST, "100")
    for n in range(3):
        store.write(f"{n}" * 64, bytes(18))  # 50 bytes with the digest
    assert sum(entry.bytes for entry in store.entries()) <= 100
    assert store.read("2" * 64) == bytes(18)


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "file"))
    store.write(KEY, b"code")
    with store.locked(KEY):
        assert store.read(KEY) is None
    assert store.entries() == []


def test_the_command_says_where_and_how_much_and_clears(folder):
    store.write(KEY, b"code")
    assert cache("where") == (0, f"{folder}\n")
    assert json.loads(cache("--json")[1]) == {"where": str(folder), "objects": 1, "bytes": 36, "most_bytes": store.MOST_BYTES}
    assert cache("clear")[1].startswith("removed 1 objects, 36 bytes")
    assert cache()[1].startswith("0 objects, 0 of at most")
    assert cache("away")[0] == 2


def test_a_loop_is_compiled_for_its_types_once_and_runs_without_numba(folder):
    code = """
import sys, numpy as np
from smemsim.machine.loops import touch_chunks
entry = np.zeros(16, np.uint64)
touch_chunks(np.array([3]), np.uint64(7), np.zeros(2, np.uint64), entry)
print(entry.nonzero()[0].tolist(), int(entry[3]), "numba" in sys.modules)
"""
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout for _ in range(2)]
    assert said == ["[3] 7 True\n", "[3] 7 False\n"]
    assert len(list(folder.glob("*.o"))) == 1


def test_types_of_arguments_can_be_written_down_and_made_again():
    known = loops.Known(*[np.zeros(2)] * len(loops.Known._fields))
    arguments = (1, True, 2.5, np.uint64(3), (1, 1 << 63), np.zeros((4, 3), np.int16)[:, 1:], known, np.zeros(3, np.uint8))
    words = ",".join(map(describe, arguments))
    assert ",".join(map(describe, typed(words))) == words


def test_arrays_that_are_only_read_have_one_machine_code():
    table, codes, out = np.arange(4, dtype=np.float32), np.array([3, 1], np.uint8), np.zeros(2, np.float32)
    look_up(table, codes, out)
    known = set(look_up.described)
    codes.flags.writeable = False
    look_up(table, codes, out)
    assert out.tolist() == [3, 1]
    assert set(look_up.described) == known


def test_a_loop_that_writes_to_what_it_says_it_reads_is_refused(folder):
    def fill(out):
        out[0] = 1

    out = np.zeros(1)
    with pytest.raises(NumbaError, match="readonly"):
        Loop(fill, "out")(out)
    assert out.tolist() == [0]


def test_another_number_that_a_function_names_is_another_digest():
    scope = {"K": 1, "__name__": "smemsim.made"}
    exec("def f(x):\n    return x + K", scope)
    first = digest(scope["f"])
    digest.cache_clear()
    scope["K"] = 2
    assert digest(scope["f"]) != first


def test_a_loop_keeps_its_python_function():
    assert isinstance(loops.read, Loop)
    assert loops.read.py_func.__name__ == "read"


def test_the_help_says_of_each_command_what_it_says_of_itself():
    context = click.Context(main)
    for name, (_, says) in COMMANDS.items():
        assert main.get_command(context, name).short_help == says


def test_the_help_imports_no_command():
    code = "import sys; from smemsim.cli import main; main(['--help'], standalone_mode=False); sys.exit(any(n.startswith('smemsim.cli.') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_every_loop_that_wheels_have_is_one_and_its_types_can_be_made():
    for what, types in known():
        if isinstance(what, Loop):
            assert ",".join(map(describe, typed(types))) == types
            assert len(typed(types)) == len(inspect.signature(what.py_func).parameters), (
                f"{what.__name__} takes other arguments now: python -m tools.loops"
            )
        else:
            assert callable(what)


@pytest.mark.parametrize("name", ["gemm_specialized", "bitonic_sort", "cp_async"])
def test_the_first_launch_of_a_wheel_compiles_no_loop(name, monkeypatch):
    for one in LOOPS:  # as if nobody had called any
        monkeypatch.setattr(one, "entries", {})
        monkeypatch.setattr(one, "described", {})
    gpu, file = Gpu("sm_90a"), load_launch_file(KERNELS / name)
    arrays, args = file.placed(gpu)
    assert arrays
    assert not gpu.run(file.ptx, file.config(args), RunOptions(progress=False, workers=1)).findings
    called = {(one.py_func, types) for one in LOOPS if one.__module__.startswith("smemsim.") for types in one.described}
    shipped = {(what.py_func, types) for what, types in known() if isinstance(what, Loop)}
    assert called
    assert not called - shipped, "python -m tools.loops"


def test_what_is_known_is_compiled_before_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv(store.FOLDER, str(tmp_path))
    listed = tmp_path / "known.txt"
    listed.write_text("ufunc smemsim.arithmetic.integers:bit_reverse uint32(int64,int64)\n")
    monkeypatch.setattr(ship, "KNOWN", listed)
    assert ship.fill() == 1
    assert cache()[1].startswith("1 objects, ")
    assert ship.fill(1, 2) == 0  # the second of two processes: nothing is left for it
