"""What a program's processes tell of their launches comes through, whoever tells."""

import os
import socket
import tempfile
import threading

import pytest

from smemsim.virtual import RemoteWriter


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
