"""Laws of a process and its device: which card is chosen, doors that open at an import, and what is said of a device
that ends.
"""

import importlib
import os
import signal
import sys

import pytest

from smemsim import InputError
from smemsim.virtual import Doors, Journal, Launched, Policy, Sessions, VirtualDevice, process, summary_of
from smemsim.virtual.exec import run_program


@pytest.fixture
def fresh(monkeypatch):
    """A process that has chosen nothing, and has no device."""
    made = []
    for name in ("SMEMSIM_ARCH", "SMEMSIM_CARD", "SMEMSIM_MULTIPROCESSORS", "SMEMSIM_MEMORY_BYTES", "SMEMSIM_FIRST", "SMEMSIM_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process, "_chosen", {})
    monkeypatch.setattr(process, "_chosen_teller", [])
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)  # which would keep the device of each test
    monkeypatch.setattr(process, "has_device", lambda: bool(made))
    make = process.device.__wrapped__

    def device():
        if not made:
            made.append(make())
        return made[0]

    monkeypatch.setattr(process, "device", device)
    return monkeypatch


# ---- The card


def test_a_card_is_chosen_by_its_architecture_or_by_its_name(fresh):
    with pytest.raises(InputError, match="no architecture is given"):
        process.choose()
    assert process.choose("RTX 5090") == "sm_120a"
    assert process.card().name == "NVIDIA GeForce RTX 5090"
    assert process.choose() == process.choose("sm_120a") == process.choose(card="RTX 5090") == "sm_120a"
    for other in ("sm_90a", "H200"):
        with pytest.raises(InputError, match="this process has a device of sm_120a already"):
            process.choose(other)


def test_a_card_of_the_environment_counts_if_it_is_of_the_architecture(fresh):
    fresh.setenv("SMEMSIM_CARD", "H100")
    fresh.setenv("SMEMSIM_ARCH", "sm_90a")
    assert process.choose() == "sm_90a"
    assert "H100" in process.card().name
    fresh.setattr(process, "_chosen", {})
    assert process.choose("sm_100a") == "sm_100a"
    assert "B200" in process.card().name


def test_what_is_chosen_of_the_card_counts_until_the_device_is_used(fresh):
    assert process.choose("sm_90a", multiprocessors=7, memory_bytes=1 << 20) == "sm_90a"
    device = process.device()
    assert (device.multiprocessors, device.memory_bytes) == (7, 1 << 20)
    other = Policy(quiet=True)
    assert process.choose(policy=other) == "sm_90a"
    assert device.policy is other
    with pytest.raises(InputError, match="multiprocessors: the device of this process is in use already"):
        process.choose(multiprocessors=8)
    with pytest.raises(InputError, match="card: the device of this process is in use already"):
        process.choose(card="H100")


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("x", 132), ("-5", 132), ("", 132), ("1" * 19, 132), ("100000000000000000", 100000000000000000)]
)
def test_numbers_of_the_environment_are_whole(fresh, text, number):
    fresh.setenv("SMEMSIM_MULTIPROCESSORS", text)
    process.choose("sm_90a")
    assert process.device().multiprocessors == number


def test_files_of_the_first_process_have_no_number_in_front(fresh):
    process.choose("sm_90a")
    assert process.device().label == ""
    assert os.environ["SMEMSIM_FIRST"] == str(os.getpid())


def test_files_of_another_process_have_its_number(fresh):
    fresh.setenv("SMEMSIM_FIRST", "1")
    process.choose("sm_90a")
    assert process.device().label == f"{os.getpid()}-"
    assert os.environ["SMEMSIM_FIRST"] == "1"


def test_what_works_on_the_device_ends_what_was_launched(fresh):
    process.worked()  # there is none
    process.choose("sm_90a")
    assert not process.has_taint()
    device = process.device()
    device.launcher.in_front[None] = object()
    process.worked()
    assert not device.launcher.in_front
    assert not process.has_taint()


class Listening:
    def __init__(self):
        self.begin, self.end, self.again, self.refuse = (lambda *given, name=name: None for name in "abcd")


def test_launches_are_told_to_whom_the_process_was_told(fresh):
    first, last = Listening(), Listening()
    for one in (first, last):
        process.tell_to(one)
    process.choose("sm_90a")
    device = process.device()
    assert (device.listeners.begins, device.listeners.ended, device.listeners.again) == (last.begin, last.end, last.again)
    assert device.code.refuses == last.refuse


# ---- Doors


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two libraries, and doors that note when they are opened."""
    (tmp_path / "door_of_this_test.py").write_text(
        "import sys\nseen = []\ndef before_import(): seen.append('before')\ndef install(): seen.append('install')\n"
    )
    (tmp_path / "plain_door_of_this_test.py").write_text("seen = []\ndef install(): seen.append('install')\n")
    (tmp_path / "library_of_this_test.py").write_text("import door_of_this_test; door_of_this_test.seen.append('library')\n")
    (tmp_path / "other_library_of_this_test.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield {
        "library_of_this_test": "door_of_this_test",
        "other_library_of_this_test": "plain_door_of_this_test",
        "missing_library_of_this_test": "door_of_this_test",
    }
    for name in [name for name in sys.modules if name.endswith("_of_this_test")]:
        del sys.modules[name]


def test_a_door_opens_when_its_library_is_imported(modules):
    process.open_on_import(modules)
    assert importlib.util.find_spec("library_of_this_test") is not None  # which programs ask, too
    assert "door_of_this_test" not in sys.modules
    importlib.import_module("library_of_this_test")
    door = sys.modules["door_of_this_test"]
    assert door.seen == ["before", "library", "install"]
    importlib.reload(sys.modules["library_of_this_test"])
    assert door.seen == ["before", "library", "install", "library"]  # it is open
    importlib.import_module("other_library_of_this_test")
    assert sys.modules["plain_door_of_this_test"].seen == ["install"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("missing_library_of_this_test")


def test_a_door_of_a_library_that_is_there_opens_at_once(modules):
    importlib.import_module("other_library_of_this_test")
    process.open_on_import(modules)
    assert sys.modules["plain_door_of_this_test"].seen == ["install"]
    assert "door_of_this_test" not in sys.modules


# ---- Devices of a program's processes


@pytest.fixture
def sessions():
    journal, doors = Journal(), Doors.open()
    yield lambda **more: Sessions(doors, journal, "sm_90a", Policy(), {}, **more), journal
    doors.close()
    journal.close()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0, ""), (1 << 8, "the process of the device ended with an error; calls after that failed with error 999"),
        (signal.SIGKILL, "the process of the device was killed by signal 9 (Killed): the system does that when memory is out; calls after that"),
        (signal.SIGSEGV, "the process of the device was killed by signal 11 (Segmentation fault); calls after that"),
    ],
)  # fmt: skip
def test_a_device_that_ends_before_its_program_is_told(sessions, capsys, status, said):
    make, journal = sessions
    made = make()
    made._ended(int(status))
    told = capsys.readouterr().err
    if not said:
        assert (made.died, told, journal.read().refused) == ([], "", [])
    else:
        assert told.startswith(f"smemsim: {said}")
        assert [text.startswith(said) for text in (*made.died, *journal.read().refused)] == [True, True]
    made.select.close()


def test_files_of_each_session_have_a_name_of_their_own(sessions):
    make, _ = sessions
    plain, others = make(), make(is_the_first_plain=False)
    for count, label in ((0, ""), (1, "2-"), (2, "3-")):
        for one in (plain, others):
            one.processes = dict.fromkeys(range(count), 0)
        assert (plain._label(), others._label()) == (label, f"{os.getpid()}-")
    for one in (plain, others):
        one.select.close()


def test_what_sessions_need_is_loaded_one_after_the_other(sessions, monkeypatch):
    import gc

    made, loaded = sessions[0](), []
    monkeypatch.setattr("smemsim.virtual.sessions.importlib.import_module", loaded.append)
    monkeypatch.setattr(gc, "freeze", lambda: None)  # garbage of other tests would stay
    made.parts = ["a", "b", "c", "d"]
    made._load()
    assert (loaded, made.parts) == (["a"], ["b", "c", "d"])
    made._load(2)
    assert (loaded, made.parts) == (["a", "b", "c"], ["d"])
    made._load(9)
    assert (loaded, made.parts, gc.isenabled()) == (["a", "b", "c", "d"], [], True)
    made.select.close()


def test_a_device_of_another_architecture_is_no_card(fresh):
    with pytest.raises(InputError, match="is an sm_90a, and arch is sm_100a"):
        VirtualDevice("sm_100a", card="H200")


# ---- What is said at the end of a program


def launched(name="k", **more):
    return Launched(1, name, name, (4, 1, 1), (32, 1, 1), (1, 1, 1), 0, **more)


@pytest.mark.parametrize(
    ("more", "is_clean"),
    [
        ({"run": {}}, True), ({"is_fine": False}, False), ({"refused": "no"}, False), ({"error": 702}, False), ({"error": 700}, True), ({"run": None}, True),
        ({"run": {"held_up": "bar"}}, False), ({"run": {"held_up": "", "partial": True}}, True),
    ],
)  # fmt: skip
def test_a_launch_is_clean_if_it_ran_to_its_end_and_nothing_was_found(more, is_clean):
    """702: cudaErrorLaunchTimeout, for a limit that ended it."""
    one = launched(**more)
    assert one.is_clean is is_clean
    assert one.is_partial == bool((more.get("run") or {}).get("partial"))


def test_the_summary_counts_launches_kernels_and_what_was_found():
    assert summary_of([]) == "no kernel was launched"
    one, two = launched("a", seconds=1.0), launched("b", seconds=0.26)
    assert summary_of([one]) == "1 launch of 1 kernel in 1.0 s, no findings"
    assert summary_of([one, two, one]) == "3 launches of 2 kernels in 2.3 s, no findings"
    bad, refused, cut = launched("c", is_fine=False), launched("d", refused="why"), launched("e", error=702)
    assert summary_of([bad, one, bad, launched("f", is_fine=False)]).endswith(", findings in 3 (c, f)")
    assert summary_of([one, refused]).endswith(", no findings, 1 not run")
    assert summary_of([one, cut]).endswith(", no findings, 1 stopped before its end")
    assert summary_of([launched("d", refused="why", error=702)]).endswith("no findings, 1 not run")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("STRICT", "1", True), ("STRICT", "0", False), ("STRICT", "TRUE", True), ("STRICT", "x", None), ("LIMIT_SECONDS", "1", 1.0), ("LIMIT_SECONDS", "0.5", 0.5),
        ("LIMIT_SECONDS", "0", None), ("LIMIT_SECONDS", "-1", None), ("LIMIT_SECONDS", "nan", None), ("LIMIT", "1", 1), ("LIMIT", "0", None), ("LIMIT", "1.5", None),
        ("CTAS", "0,2", (0, 2)),
    ],
)  # fmt: skip
def test_options_of_the_environment_are_numbers_above_0_and_yes_or_no(fresh, name, text, value):
    fresh.setenv(f"SMEMSIM_{name}", text)
    wanted = {"STRICT": "1 or 0", "LIMIT": "a whole number above 0"}.get(name, "a number above 0")
    if value is None:
        with pytest.raises(InputError, match=f"SMEMSIM_{name} = .*: needs {wanted}"):
            Policy.of()
    else:
        assert getattr(Policy.of(), name.lower()) == value


# ---- Memory


def test_ranges_of_addresses_are_aligned_and_apart(fresh):
    process.choose("sm_90a")
    memory = process.device().memory
    taken = [(a.address, a.end) for a in memory]
    for size, align in ((4096, 1), (1 << 21, 1 << 21), (4096, 1 << 30), (1 << 21, 1 << 22), (4096, 512), (1 << 25, 1 << 25), (512, 1)):
        at = memory.reserve(size, align)
        assert at % align == 0
        assert all(at + size <= begin or end <= at for begin, end in taken)
        assert memory.is_reserved(at, size)
        assert not memory.is_reserved(at, size + 1)
        assert not memory.is_reserved(at - 1, 1)
        taken.append((at, at + size))
        one = memory.allocate(1000)
        assert all(one.end <= begin or end <= one.address for begin, end in taken)
        taken.append((one.address, one.end))
    begin, end = taken[-2]
    assert [
        memory.give_back(*of) for of in ((begin, end - begin - 1), (begin + 1, end - begin), (begin, end - begin), (begin, end - begin))
    ] == [False, False, True, False]


def test_memory_is_zero_when_it_is_given_again_and_that_of_neighbours_stays(fresh):
    process.choose("sm_90a")
    memory = process.device().memory
    for size in (1, 500, 4096, 5000, 12_288):
        before, mine, behind = (memory.allocate(n) for n in (700, size, 700))
        used = memory.used
        for a in (before, mine, behind):
            memory.view(a.address, a.size)[:] = 7
        memory.free(mine)
        assert memory.used == used - size
        assert memory.at(mine.address) is None
        assert not memory.raw(mine.address, size).any()
        assert (memory.view(before.address, 700) == 7).all()
        assert (memory.view(behind.address, 700) == 7).all()
        for a in (before, behind):
            memory.free(a)


def test_an_address_belongs_to_one_allocation(fresh):
    process.choose("sm_90a")
    memory = process.device().memory
    some = [memory.allocate(n) for n in (1, 512, 513, 4096)]
    for a in some:
        assert [memory.at(address) is a for address in (a.address - 1, a.address, a.end - 1, a.end)] == [False, True, True, False]
        assert memory.view(a.address, a.size).size == a.size
        for address, size in ((a.address, a.size + 1), (a.end, 1)):
            with pytest.raises(InputError, match="no array holds"):
                memory.view(address, size)


def test_memory_of_the_host_is_bound_once(fresh):
    import numpy as np

    process.choose("sm_90a")
    memory, held = process.device().memory, np.arange(100, dtype=np.uint8)
    at = held.ctypes.data
    memory.bind(at + 10, 20, held)
    for begin, size in ((at + 10, 20), (at, 11), (at + 29, 1), (at, 100), (at + 15, 1)):
        with pytest.raises(InputError, match="is registered already"):
            memory.bind(begin, size)
    for begin, size in ((at, 10), (at + 30, 70)):
        memory.bind(begin, size, held)
    assert memory.view(at + 12, 3).tolist() == [12, 13, 14]
    gone = memory.at(at + 10)
    memory.free(gone)
    assert held[10:30].tolist() == list(range(10, 30))  # it is the host's


# ---- A program is run


def test_signals_are_handled_as_before_once_a_program_has_ended():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    assert run_program(["true"], "sm_90a", Policy(), {}) == 0
    assert [signal.getsignal(number) for number in numbers] == before
