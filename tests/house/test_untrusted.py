"""Inputs that nobody should trust: no file that nobody named is opened, no size is taken before it is counted, nothing
ends in a traceback.
"""

import contextlib
import gc
import io
import itertools
import json
import os
import pathlib
import re
import sqlite3
import sys
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from messages import one_line
from smemsim import InputError, TraceError
from smemsim.base import budget
from smemsim.base.array_files import read_npz
from smemsim.base.files import read_bytes, write_whole
from smemsim.campaign import ChunkResult, Ledger
from smemsim.cli import main
from smemsim.core.ptx import read_module
from smemsim.core.tables import parse_toml
from smemsim.core.words.tensor_map.text import find_calls
from smemsim.diagnosis import read_scenario
from smemsim.diagnosis.outputs import out_names
from smemsim.evidence import load_suite
from smemsim.run.isa.threads.printing import formatted

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
SECRET = "alpha:beta:gamma"


def kernel(body="", parameters=".param .u64 p", top="", name="k"):
    registers = ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;"
    return f"{HEAD}{top}\n.visible .entry {name}({parameters}) {{\n{registers}\n{body}\nret;\n}}\n"


STORE = "ld.param.u64 %d1, [p]; st.global.u32 [%d1], 1;"
# A loop that a branch leads out of, and that counts: nothing proves that it never ends.
ENDLESS = "ld.param.u64 %d1, [p];\nL: atom.global.add.u64 %d2, [%d1], 1; setp.ne.u64 %p1, %d2, -7; @%p1 bra L;"


def array(name="a", **about):
    recipe = {"dtype": "u32", "shape": [8], "distribution": "zeros"} if "file" not in about else {}
    return {"name": name, **recipe, **about}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with a file outside of it that nobody names."""
    monkeypatch.setattr(budget._taken, "limit", None)
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text(f"{SECRET}\n")
    (tmp_path / "outside.ptx").write_text(kernel(STORE))
    np.save(tmp_path / "outside.npy", np.zeros(8, np.uint32))
    (folder / "kernel.ptx").write_text(kernel(STORE))
    monkeypatch.chdir(folder)
    return folder


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def told(code, *words):
    """What a command says that ends with a code, in one line and without a traceback."""
    done = run(*words)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    assert "internal error" not in done.output
    return done.output


def launch_file(**about):
    given = {"grid": 1, "block": 32, "args": [{"array": "a"}], "arrays": [array()]} | about
    pathlib.Path("launch.json").write_text(json.dumps(given))
    return "launch.json"


# ---- files that nobody named


@pytest.mark.parametrize("name", ["../secret.txt", "link.txt", "{above}/secret.txt"])
def test_a_line_of_a_source_is_shown_from_folders_that_somebody_named_alone(here, name):
    (here / "link.txt").symlink_to(here.parent / "secret.txt")
    (here / "own.cu").write_text("load(far);\n")
    name = name.format(above=here.parent)
    for file, option, shows in (("own.cu", (), True), (name, (), False), (name, ("--source", here.parent), True)):
        pathlib.Path("k.ptx").write_text(
            kernel("ld.param.u64 %d1, [p];\n.loc 1 1 0\nld.global.u32 %r1, [%d1+4096];") + f'.file 1 "{file}"\n'
        )
        said = told(1, "run", "k.ptx", "--arg", "zeros:u32:4", *option)
        assert f"{file}:1" in said
        assert ("load(far);" in said or SECRET in said) is shows


@pytest.mark.parametrize("key", ["ptx", "array", "expected"])
@pytest.mark.parametrize("way", ["../outside", "{above}/outside", "link"])
def test_what_a_launch_file_names_lies_in_its_folder(here, key, way):
    suffix = ".ptx" if key == "ptx" else ".npy"
    (here / f"link{suffix}").symlink_to(here.parent / f"outside{suffix}")
    name = way.format(above=here.parent) + suffix
    about = {"ptx": {"ptx": name}, "array": {"arrays": [array(file=name)]}, "expected": {"expected": {"a": name}}}[key]
    path = launch_file(**about)
    assert "lies outside of the folder of the launch file" in one_line(told(2, "run", path))
    assert "no findings" in told(1 if key == "expected" else 0, "run", path, "--source", here.parent)


def test_what_the_command_line_names_is_read_wherever_it_lies(here):
    path = launch_file(ptx="../outside.ptx")
    assert "no findings" in told(0, "run", "../outside.ptx", "--launch", path)
    assert "no findings" in told(0, "run", "kernel.ptx", "--arg", "file:../outside.npy")


@pytest.mark.parametrize("text", [f"{SECRET}\n", f".hidden {SECRET}\n", f".target {SECRET}\n"])
def test_what_is_no_ptx_is_not_quoted(here, text):
    pathlib.Path("k.ptx").write_text(text)
    assert SECRET not in told(2, "run", "k.ptx")


@pytest.mark.parametrize("what", ["fifo", "/dev/zero", "/dev/null", "."])
def test_no_device_and_no_pipe_is_opened(here, what):
    if what == "fifo":
        os.mkfifo("fifo")
    with pytest.raises(InputError, match=r"is a (pipe|device|folder); smemsim reads regular files"):
        read_bytes(pathlib.Path(what), 100)
    if what != ".":
        for words in (
            ("run", what),
            ("run", "kernel.ptx", "--arg", f"file:{what}"),
            ("check", what),
            ("decode", what),
            ("run", "kernel.ptx", "--launch", what),
        ):
            assert "is a" in told(2, *words)


# ---- what is written


def test_outputs_never_share_a_file(here):
    names = ["p/x", "q/x", "X", "x", "..", ".", "con", "a b", "a%20b", "x~2", "ä", "/", "long" * 40, "long" * 40 + "er"]
    files = list(out_names(names).values())
    assert len({file.casefold() for file in files}) == len(names)
    assert all(pathlib.PurePath(file).name == file and not file.startswith(".") and len(file) < 256 for file in files)
    parameters = ", ".join(f".param .u64 p{n}" for n in range(len(names)))
    (here / "kernel.ptx").write_text(kernel(parameters=parameters))
    arrays = [array(name, distribution={"fill": n}) for n, name in enumerate(names)]
    told(0, "run", launch_file(args=[{"array": name} for name in names], arrays=arrays, outputs=names), "--out", "out")
    assert sorted(np.load(path)[0] for path in pathlib.Path("out").iterdir()) == list(range(len(names)))


def test_a_name_that_cannot_be_printed_is_refused(here):
    assert "can be printed" in told(2, "run", launch_file(args=[{"array": "a\0b"}], arrays=[array("a\0b")]))


def test_a_file_is_written_whole_or_not_at_all(here):
    path = here / "page.html"
    path.write_text("before")

    def half(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write_whole(path, half)
    assert path.read_text() == "before"
    write_whole(path, "after")
    assert path.read_text() == "after"
    assert sorted(p.name for p in here.iterdir()) == ["kernel.ptx", "page.html"]
    for words, why in (
        (("--report", "/dev/null"), "it is a device"),
        (("--report", "one.html", "--trace", "ONE.html"), "needs a file of its own"),
        (("--report", "out/arg0.npy", "--out", "out"), "may write too"),
    ):
        pathlib.Path("out").mkdir(exist_ok=True)
        assert why in told(2, "run", "kernel.ptx", "--arg", "zeros:u32:4", *words)


def test_what_a_run_found_is_told_where_its_files_cannot_be_written(here):
    (here / "out" / "a.npy").mkdir(parents=True)
    said = told(2, "run", launch_file(outputs=["a"]), "--out", "out")
    assert "cannot be written: it is a folder" in said
    assert "no findings" in said


# ---- sizes


def header(shape, kind="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


ARRAYS = {
    "more than the file has": (header((10**12,)) + bytes(64), "says 3.6 TiB of float32 .* and holds 64 B"),
    "negative": (header((-4,)) + bytes(64), "not an .npy file"),
    "objects": (header((4,), "|O") + bytes(64), "not an .npy file"),
    "no header": (b"\x93NUMPY\x01\0\x10\0" + b"(" * 16, "not an .npy file"),
    "header beyond the file": (b"\x93NUMPY\x02\0\xff\xff\xff\xff", "not an .npy file"),
    "nothing": (b"", "not an .npy file"),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_the_header_of_an_array_is_looked_at_before_memory_is_taken(here, what):
    data, why = ARRAYS[what]
    pathlib.Path("a.npy").write_bytes(data)
    said = told(2, "run", "kernel.ptx", "--arg", "file:a.npy")
    assert re.search(why, said), said


def test_a_sparse_file_of_terabytes_is_beyond_the_budget(here):
    pathlib.Path("a.npy").write_bytes(header((10**12,)))
    try:
        os.truncate("a.npy", 4 * 10**12 + 4096)
    except OSError:
        pytest.skip("this file system has no sparse files")
    assert "needs 3.6 TiB of memory" in told(2, "run", "kernel.ptx", "--arg", "file:a.npy")


class Kept:
    """Something that holds memory, and refers to itself."""

    def __init__(self):
        self.own = self
        budget.hold(self, 1 << 40)


def test_what_nobody_has_any_more_counts_for_nothing(monkeypatch):
    monkeypatch.setattr(budget._taken, "limit", 1 << 40)
    gc.disable()
    try:
        kept = Kept()
        with pytest.raises(InputError, match="of memory"):
            budget.ask("an array", 1 << 20)
        del kept
        budget.ask("an array", 1 << 20)
    finally:
        gc.enable()


def test_the_budget_says_what_is_needed_what_is_taken_and_what_there_is(monkeypatch):
    monkeypatch.setattr(budget, "_taken", type(budget._taken)())
    budget.set_limit(1 << 40)
    with pytest.raises(InputError, match=r"^an array: needs 2.0 TiB of memory; the limit is 1.0 TiB \(--memory, or SMEMSIM_MEMORY\)$"):
        budget.ask("an array", 1 << 41)
    budget.ask("an array", 1 << 40)
    owner = type("Owner", (), {})()
    budget.hold(owner, 1 << 30)
    assert budget.left() == (1 << 40) - (1 << 30)
    with pytest.raises(InputError, match=r"^an array: needs 1.0 TiB of memory, 1.0 GiB are taken already; the limit is 1.0 TiB"):
        budget.ask("an array", 1 << 40)
    del owner
    assert budget.left() == 1 << 40


def test_arrays_together_have_one_budget(here):
    (here / "kernel.ptx").write_text(kernel(parameters=".param .u64 p, .param .u64 q"))
    arrays = ("--arg", "zeros:u8:300000", "--arg", "zeros:u8:300000")
    assert "the limit is 1.0 MiB" in told(2, "run", "kernel.ptx", *arrays, "--memory", "1M")
    assert "no findings" in told(0, "run", "kernel.ptx", *arrays, "--memory", "64M")
    assert "--memory = 'x': needs an amount of memory" in told(2, "run", "kernel.ptx", *arrays, "--memory", "x")


def test_memory_is_given_back_with_its_arrays(monkeypatch):
    monkeypatch.setattr(budget._taken, "limit", budget._taken.bytes + (1 << 21))
    for _ in range(8):
        smemsim.Gpu().zeros(1 << 18)
    gpu = smemsim.Gpu()
    kept = [gpu.zeros(1 << 17)]
    with pytest.raises(InputError, match="of memory"):
        kept += [gpu.zeros(1 << 17) for _ in range(4)]


def peak():
    """The most bytes that this process has had in memory."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) << 10


def test_scratch_memory_takes_no_memory_before_a_kernel_touches_it(here):
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
        before = peak()
    except OSError:
        pytest.skip("this system does not tell the peak of memory")
    assert "no findings" in told(0, "run", launch_file(args=[{"scratch": 1 << 32}]), "--memory", "5G")
    assert peak() - before < 1 << 30
    assert "of memory" in told(2, "run", launch_file(args=[{"scratch": 1 << 32}]), "--memory", "1G")


def test_outputs_that_are_named_more_often_than_there_are_arrays_are_refused(here):
    assert "outputs: 100000 names of 1 arrays" in told(2, "run", launch_file(outputs=["a"] * 100000))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (kernel(parameters=".param .align 8 .b8 x[1099511627776]"), "the parameters of k take 1099511627776 bytes; 4352 are possible"),
        (kernel("mov.u32 %r1, s;", top=".shared .b8 s[1099511627776];"), "more than the 232448 B a CTA has"),
        (kernel("mov.u64 %d1, g0; mov.u64 %d1, g1;", top=".global .b8 g0[17179869184], g1[17179869184];"), "needs 32.0 GiB of memory"),
    ],
)
def test_what_a_kernel_declares_is_counted_before_it_is_taken(text, why, monkeypatch):
    monkeypatch.setattr(budget._taken, "limit", 1 << 33)
    with pytest.raises(InputError, match=why):
        smemsim.Gpu().launch(text, args=[None])


def test_st_bulk_of_more_than_the_window_is_outside_of_it():
    body = ".shared .b8 s[64]; mov.u64 %d1, s; mov.u64 %d2, {}; st.bulk.weak.shared::cta [%d1], %d2, 0;"
    for size, codes in (((1 << 32) - 8, ["X001"]), (1 << 32, ["X001"]), (64, [])):
        found = smemsim.Gpu("sm_100a").launch(kernel(body.format(size)).replace("sm_90a", "sm_100a").replace("8.0", "8.7"), args=[None])
        assert [f.code for f in found.findings] == codes


@pytest.mark.parametrize("template", ["%999999999d", "%" + "9" * 5000 + "d", "%.999999999f", "%099999999lld", "%*d" * 9, "%99999d" * 99])
def test_printf_writes_no_more_than_a_printf_can(template):
    text, _ = formatted(template.encode(), bytes([255, 255, 255, 127] * 64), None)
    assert len(text) < 1 << 18


@pytest.mark.parametrize(("template", "raw", "text"), [("%*d|", [-4, 7], "7   |"), ("%.*f", [-1, 0, 0, 0], "%.*f"), ("%5d", [3], "    3")])
def test_widths_that_are_arguments_are_those_of_c(template, raw, text):
    assert formatted(template.encode(), np.array(raw, np.int32).tobytes(), None)[0] == text.encode()


def bomb(path, count=10**9, declared=None):
    """An .npz file of a few bytes whose array is large."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle, bundle.open("a.npy", "w", force_zip64=True) as file:
        file.write(header((declared or count,), "|u1"))
        for _ in range(count // 10**6):
            file.write(bytes(10**6))


def test_what_a_bundle_unpacks_to_is_known_before_it_is_unpacked(tmp_path):
    bomb(tmp_path / "data.npz", 3 * 10**6, 10**12)
    with pytest.raises(InputError, match=r"unpacks to 2.9 MiB; at most 1.0 MiB"):
        read_npz(tmp_path / "data.npz", 1 << 20)
    with pytest.raises(InputError, match=r"says 931.3 GiB of uint8"):
        read_npz(tmp_path / "data.npz", 1 << 30)["a"]()
    manifest = {"schema": "smemsim.trace/1", "suite": "x", "kind": "dot", "arch": "sm_90a", "device": {}, "source": {}, "cases": 1,
                "arrays": {"a": {"dtype": "|u1", "shape": [10**6], "sha256": "0"}}}  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match="cannot be unpacked"):
        load_suite(tmp_path)


# ---- depth and length


def chain(count, middle=""):
    declared = "".join(f".func f{n}();\n" for n in range(count + 1))
    bodies = "".join(f".func f{n}() {{ call f{n + 1}; call f{n + 1}; ret; }}\n" for n in range(count))
    return f"{declared}.func f{count}() {{ ret; }}\n{bodies}{middle}"


def test_functions_that_double_are_not_inlined_without_end():
    """41 functions, each of which calls the next twice: reached from an entry, or from a function that calls itself."""
    recursive = ".func again() { .reg .pred %q<2>; setp.eq.u32 %q1, 1, 2; @%q1 call again; ret; call f0; ret; }\n"
    smemsim.Gpu().launch(kernel("call again;", top=".func again();\n" + chain(41, recursive)), args=[None])
    body = "setp.eq.u32 %p1, 1, 2; @%p1 call f0;"
    assert smemsim.Gpu().launch(kernel(body, top=chain(41)), args=[None]).ok


LONG = {
    "1<1<": lambda n: lambda: read_module(kernel(f"mov.u32 %r1, {'1<' * n}1;")),
    "registers between uses": lambda n: (
        lambda: read_module(kernel("".join(f".reg .b32 z{i}_<2>; mov.u32 z{i}_1, 1;" for i in range(n // 8))))
    ),
    "unclosed comments": lambda n: lambda: find_calls("cuTensorMapEncodeTiled(&t)\n" + "/*\n" * n),
}


@pytest.mark.parametrize("what", LONG)
def test_twice_the_text_is_about_twice_the_work(what):
    def calls(count):
        """Of functions, those of libraries too."""
        read, made = LONG[what](count), itertools.count()
        before = sys.getprofile()
        sys.setprofile(lambda *_: next(made))
        try:
            with contextlib.suppress(ValueError):
                read()
        finally:
            sys.setprofile(before)
        return next(made)

    calls(250)
    assert 1000 < calls(1000) < 8 * calls(250)  # with its square: 16 times


@pytest.mark.parametrize("text", ["cuTensorMapEncodeTiled", "TensorMap", "encode"])
def test_the_longest_text_of_spaces_has_no_call(text):
    """Who begins again at each of its spaces does not come to its end."""
    assert find_calls(text.ljust(1 << 20)) == []


TOO_LONG = {
    "a text": (find_calls, " \n" * (1 << 20), r"a text of [\d,]+ characters"),
    "a line": (find_calls, "cuTensorMapEncodeTiled(".ljust(1 << 20), r"line 1 has more than \d+ characters"),
    "a call": (find_calls, "cuTensorMapEncodeTiled(\n" + " \n" * (1 << 14), r"no closing bracket within \d+ characters"),
    "a dotted key": (parse_toml, "a." * (1 << 19) + "a = 1", r"line 1: a key of more than \d+ parts"),
}


@pytest.mark.parametrize("what", TOO_LONG)
def test_what_is_too_long_is_refused(what):
    read, text, why = TOO_LONG[what]
    with pytest.raises(InputError, match=why):
        read(text)


def test_a_long_string_is_complained_of(tmp_path):
    """Who begins again at each of its characters does not come to its end."""
    path = tmp_path / "scenario.toml"
    path.write_text(f'a = "{"x" * (1 << 20)}"\n')
    with pytest.raises(InputError, match="not a key here"):
        read_scenario(path)


@pytest.mark.parametrize(
    "nested", ["1<<60<" * 1000 + "1", "(" * 500 + "1" + ")" * 500, "-" * 1000 + "1", "1 if 1 else " * 100 + "1", "[" * 900 + "]" * 900]
)
def test_values_that_are_nested_deeply_are_a_sentence(nested):
    done = run("decode", f"cuTensorMapEncodeTiled(&t, 0, {nested}, p, d, s, b, e, 0, 0, 0, 0)")
    assert done.exit_code in (1, 2)  # 1: the call is there, and cannot be read
    assert "rank = " in done.output or "no closing bracket" in done.output
    assert "internal error" not in done.output


# ---- ends


def test_a_kernel_ends_when_its_time_is_over(here):
    gpu = smemsim.Gpu()
    run_ = gpu.launch(kernel(ENDLESS), args=[gpu.zeros(4)], limit_seconds=0.2)
    assert run_.out_of_time
    assert run_.findings == []
    assert "ended after the 0.2 s that it may run" in run_.summary()
    (here / "kernel.ptx").write_text(kernel(ENDLESS))
    assert "ended after" in told(2, "run", "kernel.ptx", "--arg", "zeros:u32:4", "--limit-seconds", "0.2")
    assert "ended after" in told(2, "run", launch_file(limit_seconds=0.2))
    assert "X006" in told(1, "run", launch_file(limit=100))
    assert "X006" in told(1, "run", "kernel.ptx", "--arg", "zeros:u32:4", "--limit", "100")
    assert "limit_seconds = -1: needs a number of seconds above 0" in told(2, "run", launch_file(limit_seconds=-1))
    with pytest.raises(InputError, match="limit_seconds = 0: needs"):
        gpu.launch(kernel(ENDLESS), args=[gpu.zeros(4)], limit_seconds=0)


def test_reading_and_linking_end_when_their_time_is_over(here):
    long = kernel("".join(f"add.u32 %r1, %r1, {n}; " for n in range(3000)))
    (here / "long.ptx").write_text(long)
    (here / "short.ptx").write_text(kernel(STORE))
    asked = ["--arg", "zeros:u32:4", "--limit-seconds"]
    assert "reading the PTX took longer than the 1e-06 s of --limit-seconds" in told(2, "run", "long.ptx", *asked, "0.000001")
    smemsim.Gpu().load(long)  # it is read, and the process keeps that
    assert "linking the program took longer than the 1e-06 s of --limit-seconds" in told(2, "run", "long.ptx", *asked, "0.000001")
    told(0, "run", "long.ptx", *asked, "600")
    told(0, "run", "short.ptx", *asked, "600")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MemoryError(), 2, "not enough memory on this machine"),
        (RecursionError(), 2, "nested too deeply"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (KeyError("x"), 2, "internal error, please report it: KeyError"),
    ],
)
def test_no_error_ends_in_a_traceback_or_in_the_code_of_a_finding(here, monkeypatch, error, code, said):
    def fail(*args, **more):
        raise error

    monkeypatch.setattr(smemsim.Gpu, "run", fail)
    done = run("run", "kernel.ptx", "--arg", "zeros:u32:4")
    assert done.exit_code == code
    assert said in done.stderr
    assert "Traceback" not in done.output


# ---- ledgers


def filled(path):
    ledger = Ledger(path, {"seed": 0})
    for number in range(3):
        ledger.record("keys", number, ChunkResult(8, {"fine": 8}), 0.5)
    ledger.close()


EDITS = ("UPDATE chunk SET cases = 9 WHERE number = 1", "UPDATE chunk SET classes = '{}' WHERE number = 1", "DELETE FROM chunk WHERE number = 2",
         "UPDATE chunk SET number = 7 WHERE number = 1", "UPDATE campaign SET value = '1' WHERE name = 'seed'", "DELETE FROM campaign WHERE name = 'chunks'",
         "INSERT INTO chunk SELECT space, 9, cases, classes, troubles, seconds, checksum FROM chunk WHERE number = 1", "PRAGMA user_version = 1")  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_a_ledger_that_was_changed_is_refused(tmp_path, edit):
    filled(tmp_path / "l.db")
    Ledger(tmp_path / "l.db", {"seed": 0}).close()
    db = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    db.execute(edit)
    db.close()
    with pytest.raises(InputError, match="damaged"):
        Ledger(tmp_path / "l.db", {"seed": 0})


def test_a_full_disk_is_a_sentence_and_keeps_what_is_there(tmp_path):
    filled(tmp_path / "l.db")
    ledger = Ledger(tmp_path / "l.db", {"seed": 0})
    ledger._db.execute("PRAGMA max_page_count = 1")
    with pytest.raises(InputError, match=r"cannot be written: .*full"):
        ledger.record("keys", 9, ChunkResult(8, {"x" * 100_000: 8}), 0.5)
    ledger.close()
    assert Ledger(tmp_path / "l.db", {"seed": 0}).done("keys") == {0, 1, 2}
