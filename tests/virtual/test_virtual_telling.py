"""What a program's processes tell of their launches comes through, whoever tells."""

import os
import socket
import tempfile
import threading

import pytest

from smemsim.virtual import Journal, Launched, RemoteWriter, Writer, summary_of


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
