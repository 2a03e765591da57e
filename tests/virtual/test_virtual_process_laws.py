"""Laws of a process and its device: which card is chosen, doors that open at an import, and what is said of a device
that ends.
"""

import importlib
import os
import signal
import sys

import pytest

from smemsim import InputError
from smemsim.virtual import Doors, Journal, Policy, Sessions, VirtualDevice, process


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
