"""The journal loses nothing that was acknowledged, and takes nothing for written that was torn."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.errors import RefusedError
from selftest_core.journal import Entry, Journal, JournalError, decode, encode, is_held, read

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = st.dictionaries(
    st.text(max_size=5), st.integers() | st.text() | st.none() | st.lists(st.booleans()), max_size=4
)
ENTRIES = st.lists(st.tuples(st.text(max_size=8), FIELDS), max_size=8)


def lines(entries: list[tuple[str, dict[str, object]]]) -> bytes:
    return b"".join(encode(Entry(n, float(n), event, fields)) for n, (event, fields) in enumerate(entries, 1))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(ENTRIES)
def test_what_is_written_is_read(entries: list[tuple[str, dict[str, object]]]) -> None:
    reading = read(lines(entries))
    assert [(one.event, one.fields) for one in reading.entries] == entries
    assert (reading.torn, reading.is_damaged) == (0, False)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(ENTRIES.filter(bool), st.data())
def test_a_file_cut_anywhere_gives_the_whole_lines(
    entries: list[tuple[str, dict[str, object]]], data: st.DataObject
) -> None:
    whole = lines(entries)
    cut = data.draw(st.integers(0, len(whole) - 1))
    reading = read(whole[:cut])
    assert len(reading.entries) == whole[:cut].count(b"\n")
    assert reading.good_bytes + reading.torn == cut
    assert not reading.is_damaged


@settings(derandomize=True, deadline=None, max_examples=100)
@given(ENTRIES.filter(bool), st.data())
def test_a_changed_byte_is_never_taken_for_a_line(
    entries: list[tuple[str, dict[str, object]]], data: st.DataObject
) -> None:
    whole = bytearray(lines(entries))
    place = data.draw(st.integers(0, len(whole) - 1))
    line = whole[:place].count(b"\n")
    whole[place] ^= data.draw(st.integers(1, 255))
    reading = read(bytes(whole))
    # A newline changed into another byte joins two lines: both are lost to the reader, none is made up.
    assert len(reading.entries) <= line + 1
    assert list(reading.entries) == list(read(lines(entries)).entries)[: len(reading.entries)]


def test_a_line_after_a_missing_or_a_repeated_one_is_not_read() -> None:
    first, second, third = (encode(Entry(number, 1.0, "x", {})) for number in (1, 2, 3))
    for data, kept in ((first + third, 1), (first + first + second, 1), (second, 0)):
        reading = read(data)
        assert (len(reading.entries), reading.good_bytes, reading.torn) == (
            kept,
            kept * len(first),
            len(data) - kept * len(first),
        )


def test_lines_are_appended_across_openings(tmp_path: Path) -> None:
    path = tmp_path / "run" / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("launched", 1.5, agent="a")
    with Journal(path) as journal:
        assert journal.append("pulled", 2.0).number == 2
        assert [one.event for one in journal.entries] == ["launched", "pulled"]
    assert [one.at for one in read(path.read_bytes()).entries] == [1.5, 2.0]


def test_a_torn_last_line_is_put_aside_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("one", 1.0)
    path.write_bytes(path.read_bytes() + b'0badc0de {"n":2,"at')
    with Journal(path) as journal:
        journal.append("two", 2.0)
    assert [one.event for one in read(path.read_bytes()).entries] == ["one", "two"]
    assert path.with_name("journal.jsonl.torn").read_bytes() == b'0badc0de {"n":2,"at'


def test_damage_in_the_middle_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    before = lines([("one", {}), ("two", {}), ("three", {})]).replace(b'"two"', b'"TWO"')
    path.write_bytes(before)
    with pytest.raises(JournalError, match="changed by another program") as raised:
        Journal(path)
    assert "Line 2" in raised.value.detail
    assert path.read_bytes() == before


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path), pytest.raises(RefusedError) as raised:
        Journal(path)
    assert raised.value.exit_status == 4
    Journal(path).close()


def test_a_lock_is_given_back_even_while_a_program_is_being_started(tmp_path: Path) -> None:
    """Between fork and exec a program has copies of all our files, also of one that is closed meanwhile."""
    path = tmp_path / "journal.jsonl"
    with Journal(path):
        assert is_held(path)
        held = [int(name) for name in os.listdir("/dev/fd") if _is_open(int(name), path)]  # noqa: PTH208 -- numbers
        copies = [os.dup(file) for file in held]
    try:
        assert copies
        assert not is_held(path)
        Journal(path).close()
    finally:
        for copy in copies:
            os.close(copy)


def _is_open(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False  # the one that the names were listed by


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Journal(path) as journal:
        journal.append("one", 1.0)
        size = path.stat().st_size
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limit[1]))
            with pytest.raises(JournalError) as raised:
                journal.append("two", 2.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            signal.signal(signal.SIGXFSZ, handler)
        assert "Free some space" in raised.value.hint
        assert path.stat().st_size == size
        assert journal.append("two", 2.0).number == 2
    assert [one.event for one in read(path.read_bytes()).entries] == ["one", "two"]


def test_every_acknowledged_line_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    program = (
        "import sys\nfrom pathlib import Path\nfrom selftest_core.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "n = 0\nwhile True:\n    n += 1\n    journal.append('tick', 1.0, n=n)\n    print(n, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = 0
    while acknowledged < 20:
        acknowledged = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in writer.stdout.read().split())])
    writer.wait()
    writer.stdout.close()
    with Journal(path) as journal:
        assert [one.fields["n"] for one in journal.entries][:acknowledged] == list(range(1, acknowledged + 1))


def test_a_line_that_is_no_line_is_none() -> None:
    assert decode(b"") is None
    assert decode(b"zzzzzzzz {}") is None
