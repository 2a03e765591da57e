"""What a program's processes tell of their launches comes through, whoever tells."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

from smemsim.virtual import Doors, Journal, Launched, Policy, RemoteWriter, Sessions, Writer, environment, summary_of


@pytest.mark.skipif(os.name != "posix", reason="needs sockets of Linux")
def test_threads_that_tell_first_at_once_get_the_journal_that_is_handed_out_once():
    name = f"smemsim-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door, tempfile.TemporaryFile() as journal:
        door.bind(f"\0{name}-launches")
        door.listen()
        writer = RemoteWriter(name)
        channel, _ = door.accept()
        threads = [threading.Thread(target=writer.refuse, args=(word,), daemon=True) for word in ("one", "two", "three")]
        for thread in threads:
            thread.start()
        socket.send_fds(channel, [b"\n"], [journal.fileno()])
        for thread in threads:
            thread.join(20)
        journal.seek(0)
        told = journal.read().decode()
        channel.close()
    assert not any(thread.is_alive() for thread in threads)
    assert all(f'"{word}"' in told for word in ("one", "two", "three"))


def test_the_summary_names_limits_of_the_race_detector():
    def launched(number: int, *bounds: str) -> Launched:
        run = {"remarks": [], "strictly_ok": True, "bounds": list(bounds)}
        return Launched(number, "add", "add", (4, 1, 1), (256, 1, 1), (1, 1, 1), 0, run=run)

    assert "limit" not in summary_of([launched(1)])
    assert summary_of([launched(1), launched(2, "line 7 overwrites more")]).endswith(
        "no findings, a limit of the race detector reached in 1 (add: line 7 overwrites more)"
    )


def test_the_summary_names_the_option_that_prints_remarks_where_some_were_not_printed():
    def launched(*codes: str, because: str = "", is_fine: bool = True) -> Launched:
        remarks = [{"code": code, "because": because} for code in codes]
        run = {"remarks": remarks, "findings": [], "strictly_ok": not because}
        return Launched(1, "add", "add", (4, 1, 1), (256, 1, 1), (1, 1, 1), 0, run=run, is_fine=is_fine)

    hint = "--remarks prints them"
    assert summary_of([launched("D310", "R508")], are_left=True).endswith("no findings, remarks in 1 (D310, R508; --remarks prints them)")
    assert hint not in summary_of([launched("D310")])  # all were printed
    # what --strict fails for is printed at once
    assert hint not in summary_of([launched("X007", because="PTX ISA")], are_left=True)
    # a launch with findings prints its remarks
    assert hint not in summary_of([launched("D310", is_fine=False)], are_left=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_process_that_has_told_of_launches_tells_all_of_its_own():
    """Of a launch, what is not as with the one before of that process is told: a fork has none before."""
    journal = Journal()
    writer = Writer(journal.descriptor)
    one, two, three = (Launched(number, "add", "add", (4, 1, 1), (256, 1, 1), (1, 1, 1), 0) for number in (1, 2, 3))
    writer.end(one)
    writer.begin(three)
    if not (child := os.fork()):
        writer.end(two)
        writer.begin(three)
        os._exit(0)
    os.waitpid(child, 0)
    told = [(launch["number"], launch["name"]) for launch in journal.read().launches]
    journal.close()
    assert told == [(1, "add"), (2, "add")]
    assert len(journal.running) == 2


# ---- What a program's processes find


@pytest.mark.skipif(sys.platform != "linux", reason="needs sockets of Linux")
def test_a_program_s_devices_are_waited_for_until_the_last_has_ended():
    """Two processes that have devices themselves tell of them. The program ends between them, and says so itself."""
    doors, journal = Doors.open(), Journal()
    sessions = Sessions(doors, journal, "sm_90a", Policy(), {})
    sessions.parts.clear()  # nothing is to be loaded for devices of its own
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    waiting = threading.Thread(target=sessions.until_end, args=(program.pid,), daemon=True)
    waiting.start()
    assert not sessions.has_device
    one, two = RemoteWriter(doors.name), RemoteWriter(doors.name)
    one.refuse("first")
    two.refuse("second")
    assert (journal.read().refused, sessions.has_device) == (["first", "second"], True)
    two._forget()  # as when its process ends
    while len(sessions.alive) > 1:
        waiting.join(0.005)
    three = RemoteWriter(doors.name)  # in the place of the second one
    three.refuse("later")
    assert (journal.read().refused, waiting.is_alive()) == (["later"], True)
    three._forget()
    program.communicate()
    waiting.join(0.05)
    assert waiting.is_alive()
    one.refuse("third")
    assert (journal.read().refused, len(sessions.alive)) == (["third"], 1)
    one._forget()
    waiting.join(20)
    assert (waiting.is_alive(), sessions.alive, sessions.died) == (False, [], [])
    doors.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as late, pytest.raises(OSError, match="refused"):
        late.connect(f"\0{doors.name}")
    journal.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's dynamic linker")
@pytest.mark.parametrize("given", ["", "one", "one:two", "LIBS:one", "one:LIBS"])
def test_libraries_and_modules_of_ours_come_first_and_once_and_those_of_the_program_stay(given, monkeypatch):
    libs, variables = pathlib.Path("/libs"), ("LD_LIBRARY_PATH", "PYTHONPATH", "LD_AUDIT")
    ours = environment(libs, "name", "sm_90a", Policy(), {})
    for name in variables:
        monkeypatch.setenv(name, given.replace("LIBS", ours[name].split(":")[0]))
    found = environment(libs, "name", "sm_90a", Policy(), {})
    for name in variables:
        first = ours[name].split(":")[0]
        assert found[name].split(":") == [first, *(x for x in given.replace("LIBS", first).split(":") if x not in ("", first))]
    monkeypatch.setenv("LIBRARY_PATH", given.replace("LIBS", "/libs"))
    behind = environment(libs, "name", "sm_90a", Policy(), {})["LIBRARY_PATH"].split(":")
    assert sorted(behind) == sorted({*given.replace("LIBS", "/libs").split(":"), "/libs"} - {""})
    assert "LIBS" in given or behind[-1] == "/libs"
    without = environment(None, "name", "sm_90a", Policy(), {})
    assert not {"LD_LIBRARY_PATH", "LD_AUDIT", "LIBRARY_PATH", "GLIBC_TUNABLES"} & {*without}
    assert without["PYTHONPATH"] == found["PYTHONPATH"]


@pytest.mark.parametrize(
    ("tunables", "expected"),
    [
        ("", "glibc.rtld.optional_static_tls=65536"), ("a=1", "a=1:glibc.rtld.optional_static_tls=65536"),
        ("glibc.rtld.optional_static_tls=9:a=1", "glibc.rtld.optional_static_tls=9:a=1"), ("a=1:glibc.rtld.optional_static_tls=9", "a=1:glibc.rtld.optional_static_tls=9"),
    ],
)  # fmt: skip
def test_room_for_the_variables_of_threads_is_asked_for_unless_the_program_asks_itself(tunables, expected, monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", tunables)
    assert environment(pathlib.Path("/libs"), "name", "sm_90a", Policy(), {})["GLIBC_TUNABLES"] == expected


@pytest.mark.parametrize(("flags", "expected"), [("", "{}"), ("-O3", "-O3 {}"), ("-O3 {}", "-O3 {}"), ("{} -O3", "{0} -O3 {0}")])
def test_flags_of_nvcc_come_behind_those_of_the_program_and_what_is_known_of_the_card_is_told(flags, expected, monkeypatch):
    monkeypatch.delenv("NVCC_APPEND_FLAGS", raising=False)
    ours = environment(None, "name", "sm_90a", Policy(), {})["NVCC_APPEND_FLAGS"]
    monkeypatch.setenv("NVCC_APPEND_FLAGS", flags.format(ours))
    monkeypatch.delenv("TILELANG_CLEANUP_TEMP_FILES", raising=False)
    found = environment(None, "name", "sm_100a", Policy(), {"multiprocessors": 7, "memory": 0})
    assert found["NVCC_APPEND_FLAGS"] == expected.format(ours)
    assert (found["SMEMSIM_SOCKET"], found["SMEMSIM_ARCH"], found["SMEMSIM_MULTIPROCESSORS"]) == ("name", "sm_100a", "7")
    assert ("SMEMSIM_MEMORY" in found, found["TILELANG_CLEANUP_TEMP_FILES"]) == (False, "0")


def test_a_launch_that_is_told_again_takes_the_place_of_its_first_report():
    def launched(number: int, **more: object) -> Launched:
        return Launched(number, "add", "add", (4, 1, 1), (256, 1, 1), (1, 1, 1), 0, **more)

    journal = Journal()
    writer = Writer(journal.descriptor)
    for number in (1, 2):
        writer.end(launched(number))
    writer.again(launched(1, is_fine=False))
    assert [(x["number"], x["is_fine"]) for x in journal.read().launches] == [(1, False), (2, True)]
    writer.again(launched(2, is_fine=False))  # its first report was read before
    writer.end(launched(3))
    assert [(x["number"], x["is_fine"]) for x in journal.read().launches] == [(2, False), (3, True)]
    journal.close()
