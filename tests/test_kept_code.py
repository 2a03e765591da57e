"""Machine code that is kept: found again without numba, bounded, cleared, and not needed."""

import inspect
import json
import os
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
from smemsim.virtual import libraries

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


def test_an_entry_counts_under_its_own_key_alone(folder):
    store.write(KEY, b"code")
    (path,) = folder.glob("*.o")
    for key in ("cd" * 32, KEY[:40] + "0" * 24):
        path = path.rename(path.with_name(path.name.replace(path.name[:40], key[:40])))
        assert store.read(key) is None


@pytest.mark.parametrize("name", ["", "here", "./here", "~/here"])
def test_a_cache_folder_that_is_no_absolute_path_is_not_used(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(store.FOLDER, name)
    store.write(KEY, b"code")
    assert store.read(KEY) is None
    assert store.base() is None
    assert cache("where")[0] == 2
    assert not list(tmp_path.iterdir())


def test_a_relative_xdg_cache_home_does_not_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(store.FOLDER, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert store.folder() == tmp_path / "home" / ".cache" / "smemsim" / "objects"


def test_without_a_home_nothing_is_kept_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(store.FOLDER, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as it answers without a home and without an entry in passwd
    store.write(KEY, b"code")
    assert (store.read(KEY), store.base(), list(tmp_path.iterdir())) == (None, None, [])


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
@pytest.mark.parametrize("of", ["objects", ".", ".."])
def test_a_folder_that_others_can_write_to_is_not_used(of, mode, folder, monkeypatch):
    """A group of the user alone counts as the user; a sticky folder above keeps others from replacing what is in it."""
    monkeypatch.setattr(store, "_is_own_group", lambda group, user: False)
    monkeypatch.setenv(store.FOLDER, str(folder.parent / "inner"))
    store.write(KEY, b"code")
    assert store.read(KEY) == b"code"
    store._trusted.clear()
    inner = folder.parent / "inner"
    {"objects": inner / "objects", ".": inner, "..": inner.parent}[of].chmod(mode)
    is_safe = (of, mode) == ("..", 0o1777)
    assert (store.read(KEY) == b"code") == is_safe


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    store.write(KEY, b"code")
    store._trusted.clear()
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
    assert store.read(KEY) is None
    assert "belongs to user" in store.unusable()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_an_entry_that_is_no_regular_file_is_missing(kind, folder):
    store.write(KEY, b"code")
    (path,) = folder.glob("*.o")
    path.rename(folder / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(folder / "elsewhere")
    else:
        path.mkdir()
    assert store.read(KEY) is None


def test_what_is_made_is_the_users_alone_whatever_the_umask_is(tmp_path, monkeypatch):
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        store.write(KEY, b"code")
        with store.locked(KEY):
            pass
    finally:
        os.umask(before)
    assert all(not path.stat().st_mode & 0o077 for path in (tmp_path / "cache").rglob("*"))


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The folders that the virtual GPU's libraries were built in."""
    folders = []

    def stand_in(folder, compiler):
        folders.append(folder)
        (folder / "libcuda.so.1").write_bytes(b"")

    module = sys.modules[libraries.__module__]
    monkeypatch.setattr(module, "build", stand_in)
    monkeypatch.setattr(module, "compiler", lambda: "cc")
    monkeypatch.setattr(module, "SOURCES", tmp_path)  # no wheel's libraries there
    module._temporary.cache_clear()
    yield folders
    module._temporary.cache_clear()


def test_the_virtual_gpus_libraries_are_kept_in_the_cache_folder(folder, made):
    found = libraries()
    assert found.parent == folder.parent
    assert libraries() == found
    assert len(made) == 1


@pytest.mark.parametrize("fault", ["library", "folder", "relative"])
def test_libraries_that_others_can_write_to_are_not_loaded(fault, folder, made, monkeypatch):
    kept = libraries()
    if fault == "relative":
        monkeypatch.setenv(store.FOLDER, "cache")
    else:
        (kept / "libcuda.so.1" if fault == "library" else kept).chmod(0o777)
    found = libraries()
    assert found != kept
    assert not found.stat().st_mode & 0o077
    assert libraries() == found


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
