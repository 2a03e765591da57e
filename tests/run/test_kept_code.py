"""Machine code that is kept: found again without numba, bounded, cleared, and not needed."""

import inspect
import json
import os
import subprocess
import sys
import warnings

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings
from numba.core.errors import NumbaError

from gpu_faults import KERNELS
from messages import is_one_sentence, one_line
from smemsim import Gpu, InputError
from smemsim.base import store
from smemsim.base.compiling import LOOPS, Loop, describe, digest, ship
from smemsim.base.compiling.ship import known, typed
from smemsim.cli import COMMANDS, main
from smemsim.core.arithmetic.loops import look_up
from smemsim.evidence import load_launch_file
from smemsim.run import RunOptions
from smemsim.run.sanitizer import shared_loops
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
    # as it answers without a home and without an entry in passwd
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
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


@pytest.mark.parametrize("fault", ["too long", "a loop of links", "not to be looked at"])
def test_a_folder_that_cannot_be_looked_at_is_not_used(fault, folder, monkeypatch):
    where = folder.parent / "inner"
    if fault == "too long":
        monkeypatch.setenv(store.FOLDER, f"/{'a' * 300}")
    elif fault == "a loop of links":
        where.symlink_to(where)
        monkeypatch.setenv(store.FOLDER, str(where / "cache"))
    else:
        looked = os.stat

        def refuse(path, **options):
            if str(path).startswith(str(folder.parent)):
                raise PermissionError(13, "Permission denied", str(path))
            return looked(path, **options)

        monkeypatch.setattr("os.stat", refuse)
    store.write(KEY, b"code")
    assert (store.has(KEY), store.read(KEY), store.is_writable()) == (False, None, False)
    assert "cannot be looked at" in store.unusable()
    with store.locked(KEY):
        assert cache("clear")[0] == 2


@pytest.mark.parametrize("fault", ["", "relative", "of others", "no folder", "nothing may be kept"])
def test_code_that_took_long_and_is_not_kept_is_said_once(fault, folder, monkeypatch):
    """A refused cache makes every command compile for seconds."""
    monkeypatch.setattr(store, "_lost", [0.0])
    inner = folder.parent / "inner"
    monkeypatch.setenv(store.FOLDER, "cache" if fault == "relative" else str(inner))
    inner.mkdir(mode=0o777 if fault == "of others" else 0o700)
    inner.chmod(0o777 if fault == "of others" else 0o700)
    if fault == "no folder":
        (inner / "objects").write_bytes(b"")
    elif fault == "nothing may be kept":
        monkeypatch.setenv(store.MOST, "0")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(4):
            store.write(KEY, b"code", seconds=store.LONG / 2)
    is_said = fault in ("relative", "of others", "no folder")
    assert [one.category for one in told] == [store.NotKeptWarning] * is_said
    assert all(store.FOLDER in str(one.message) or "chmod" in str(one.message) for one in told)
    assert all("will compile again" in str(one.message) for one in told)


def test_a_command_says_in_its_own_words_that_code_is_not_kept(tmp_path):
    text = (
        "from smemsim.base import store; from smemsim.cli import main; from smemsim.cli.cache import cache; "
        "cache.callback = lambda **given: store.write('0' * 64, b'', seconds=9); main(['cache'])"
    )
    given = os.environ | {store.FOLDER: "relative"}
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True, timeout=60, env=given, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert one_line(done.stderr).startswith(
        "smemsim: compiling took 9 s, and the next process will compile again: SMEMSIM_CACHE_DIR names no absolute folder"
    )
    assert is_one_sentence(done.stderr)


def test_a_link_cannot_be_replaced_between_the_check_and_the_use(folder, monkeypatch):
    mine, other, link = folder.parent / "mine", folder.parent / "other", folder.parent / "link"
    mine.mkdir(mode=0o700)
    link.symlink_to(mine)
    monkeypatch.setenv(store.FOLDER, str(link))
    store.write(KEY, b"code")
    link.unlink()
    (other / "objects").mkdir(parents=True)
    link.symlink_to(other)
    assert store.read(KEY) == b"code"
    assert store._path(KEY).is_relative_to(mine)


def test_an_entry_that_others_can_write_to_is_missing(folder):
    store.write(KEY, b"code")
    (path,) = folder.glob("*.o")
    for mode in (0o620, 0o602):
        path.chmod(mode)
        assert store.read(KEY) is None
    path.chmod(0o644)
    assert store.read(KEY) == b"code"


def test_an_entry_larger_than_any_is_not_read(folder):
    store.write(KEY, b"code")
    (path,) = folder.glob("*.o")
    with path.open("r+b") as file:
        file.truncate(store.MOST_BYTES + 1)
    assert store.read(KEY) is None


def test_clearing_removes_no_file_of_anybody_else(folder, monkeypatch):
    """The folder may be one that the user has for something else: a project has a folder of objects, too."""
    store.write(KEY, b"code")
    others = ["main.o", ".gitignore", ".htaccess", "ab.o", f"{'ab' * 20}.obj", ".lock", f"{'cd' * 20}-2.o/inner"]
    for name in others:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"precious")
    (folder / ".new-abc").write_bytes(b"left by a process that ended")
    monkeypatch.setenv(store.MOST, "1")
    store.write("12" * 32, b"which makes room")
    assert cache("clear")[0] == 0
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == sorted(others)


def test_a_lock_that_another_process_keeps_is_waited_for_so_long_and_no_longer(folder, monkeypatch):
    monkeypatch.setattr(store, "LONGEST_WAIT", 0.05)
    store.write(KEY, b"code")
    held = (
        "import fcntl, os, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX); print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", held, str(folder / store.LOCK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with store.locked(KEY):
            assert store.read(KEY) == b"code"
        other.stdin.close()


def test_a_folder_with_rights_for_named_users_is_not_used(folder, monkeypatch):
    store.write(KEY, b"code")
    store._trusted.clear()
    monkeypatch.setattr(store, "_is_own_group", lambda group, user: True)
    folder.chmod(0o770)
    assert store.read(KEY) == b"code"
    store._trusted.clear()
    monkeypatch.setattr(store, "_has_list", lambda path: True)
    assert store.read(KEY) is None
    folder.chmod(0o750)
    assert store.read(KEY) == b"code"


@pytest.mark.parametrize(
    ("group", "members", "users", "is_own"),
    [
        ("me", [], [(7, 70)], True),
        ("me", ["me"], [(7, 70), (8, 80)], True),
        ("me", ["me", "you"], [(7, 70)], False),
        ("me", [], [(7, 70), (8, 70)], False),
        ("staff", [], [(7, 70)], False),
    ],
)
def test_a_private_group_has_no_other_user_in_it(group, members, users, is_own, monkeypatch):
    import grp
    import pwd
    from types import SimpleNamespace as Row

    monkeypatch.setattr(grp, "getgrgid", lambda number: Row(gr_name=group, gr_mem=members))
    monkeypatch.setattr(pwd, "getpwuid", lambda number: Row(pw_name="me"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [Row(pw_uid=user, pw_gid=own) for user, own in users])
    assert store._is_own_group.__wrapped__(70, 7) == is_own


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
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "some" / "parents" / "cache"))
    before = os.umask(0)
    try:
        store.write(KEY, b"code")
        with store.locked(KEY):
            pass
    finally:
        os.umask(before)
    assert store.read(KEY) == b"code"
    assert all(not path.stat().st_mode & 0o077 for path in tmp_path.rglob("*"))


NAMES = ["libcuda.so.1", "libcudart.so.13"]


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The folders that the virtual GPU's libraries were built in."""
    folders = []

    def stand_in(folder, compiler):
        folders.append(folder)
        for name in NAMES:
            (folder / name).write_bytes(b"")

    module = sys.modules[libraries.__module__]
    monkeypatch.setattr(module, "build", stand_in)
    monkeypatch.setattr(module, "_names", lambda: NAMES)
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


@pytest.mark.parametrize("fault", ["a library is missing", "a file has the name", "the folder is empty"])
def test_a_damaged_folder_of_libraries_is_built_again(fault, folder, made):
    kept = libraries()
    if fault == "a library is missing":
        (kept / "libcudart.so.13").unlink()
    else:
        kept.rename(kept.with_name("away"))
        kept.write_bytes(b"") if fault == "a file has the name" else kept.mkdir()
    assert libraries() == kept
    assert sorted(path.name for path in kept.iterdir()) == NAMES
    assert len(made) == 2
    assert not list(kept.parent.glob(".doors-*"))


def test_libraries_that_cannot_be_kept_are_made_elsewhere(folder, made, monkeypatch):
    """Such as on a full disk."""
    module = sys.modules[libraries.__module__]
    build = module.build

    def full(where, compiler):
        if where.is_relative_to(folder.parent):
            raise InputError("No space left on device")
        build(where, compiler)

    monkeypatch.setattr(module, "build", full)
    found = libraries()
    assert found.parent != folder.parent
    assert (found / "libcudart.so.13").exists()
    assert not list(folder.parent.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="there are no such libraries elsewhere")
def test_libraries_are_the_users_alone_whatever_the_umask_is(tmp_path):
    """By a compiler that makes empty files."""
    compiler, made = tmp_path / "cc", tmp_path / "made"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; : > "$2"; chmod 777 "$2"\n')
    compiler.chmod(0o700)
    made.mkdir()
    module = sys.modules[libraries.__module__]
    before = os.umask(0)
    try:
        module.build(made, str(compiler))
    finally:
        os.umask(before)
    assert all(path.is_symlink() or not path.stat().st_mode & 0o022 for path in made.iterdir())
    assert {path.name for path in made.iterdir()} >= set(module._names())


def test_what_was_used_longest_ago_goes_first(folder, monkeypatch):
    monkeypatch.setenv(store.MOST, "100")
    for n in range(3):
        store.write(f"{n}" * 64, bytes(18))  # 50 bytes with the digest
    assert sum(entry.bytes for entry in store.entries()) <= 100
    assert store.read("2" * 64) == bytes(18)


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "64M", ""])
def test_a_size_that_is_no_number_of_bytes_is_the_usual_one(text, folder, monkeypatch):
    monkeypatch.setenv(store.MOST, text)
    store.write(KEY, b"code")
    assert store.read(KEY) == b"code"
    assert store.most_bytes() == store.MOST_BYTES
    done = CliRunner().invoke(main, ["cache"])
    assert done.exit_code == (2 if text else 0), done.output
    assert ("needs a whole number of bytes, as 268435456" in " ".join(done.stderr.split())) == bool(text)
    assert len(done.output) < 400


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
from smemsim.core.machine.loops import touch_chunks
entry = np.zeros(16, np.uint64)
touch_chunks(np.array([3]), np.uint64(7), np.zeros(2, np.uint64), entry)
print(entry.nonzero()[0].tolist(), int(entry[3]), "numba" in sys.modules)
"""
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout for _ in range(2)]
    assert said == ["[3] 7 True\n", "[3] 7 False\n"]
    assert len(list(folder.glob("*.o"))) == 1


def test_types_of_arguments_can_be_written_down_and_made_again():
    known = shared_loops.Known(*[np.zeros(2)] * len(shared_loops.Known._fields))
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
    assert isinstance(shared_loops.read, Loop)
    assert shared_loops.read.py_func.__name__ == "read"


def test_the_help_says_of_each_command_what_it_says_of_itself():
    context = click.Context(main)
    for name, (_, says) in COMMANDS.items():
        assert main.get_command(context, name).short_help == says


def test_the_help_imports_no_command():
    code = "import sys; from smemsim.cli import main; main(['--help'], standalone_mode=False); sys.exit(any('smemsim.cli.' + c[0].partition('.')[0] in sys.modules for c in COMMANDS.values()))"
    assert (
        subprocess.run([sys.executable, "-c", code.replace("main;", "COMMANDS, main;", 1)], capture_output=True, check=False).returncode
        == 0
    )


def test_what_is_heavy_is_imported_when_it_is_asked_for():
    """Neither `import smemsim` nor `smemsim decode` loads textures, NVML, host code of cuTile, the capture kit,
    campaigns, the engine, numpy or numba.
    """
    heavy = (
        "numpy",
        "numba",
        "llvmlite",
        "cuda",
        "smemsim.capture",
        "smemsim.campaign",
        "smemsim.run",
        "smemsim.virtual",
        "smemsim.evidence",
        "smemsim.testing",
    )
    code = (
        "import sys, smemsim; from smemsim.cli import main; main(['decode', '0x4000404000010040', '--arch', 'sm_100a'], standalone_mode=False); "
        f"print(*sorted(n for n in sys.modules if n in {heavy} or n.startswith(tuple(h + '.' for h in {heavy}))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not done.stdout.splitlines()[-1].strip()


@pytest.mark.skipif(settings.get_current_profile_name() != "nightly", reason="two minutes: by night")
def test_every_loop_that_wheels_have_compiles(tmp_path, capsys):
    """A wheel is built from this list; a line that a loop no longer takes costs every user of the wheel a compilation."""
    assert ship.ship(tmp_path / "level") == sum(1 for _ in known())
    assert not capsys.readouterr().err


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
    listed.write_text("ufunc smemsim.core.arithmetic.integers:bit_reverse uint32(int64,int64)\n")
    monkeypatch.setattr(ship, "KNOWN", listed)
    assert ship.fill() == 1
    assert cache()[1].startswith("1 objects, ")
    assert ship.fill(1, 2) == 0  # the second of two processes: nothing is left for it
