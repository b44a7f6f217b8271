"""The process table read from /proc, held against what `ps` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from selftest_core.tools.process_table import ProcessTable, PsReader, parse_ps, parse_stat, process_reader
from worlds import eventually


def test_a_name_may_hold_brackets_spaces_and_newlines() -> None:
    assert parse_stat(b"7 (a) R (b c) S 3 7 7 0") == ("a)", 3)
    assert parse_stat(b"7 (cut sho") is None
    assert parse_stat(b"7 (x) S") is None
    assert parse_stat(b"") is None
    assert parse_stat(b"7 () S 1 1") == ("", 1)


def test_ps_output_is_read_by_columns() -> None:
    table = parse_ps(
        "    1     0 init\n   20     1 Web Content\n   30    20 sleep <defunct>\n    0     1 gone\nnonsense\n"
    )
    assert table.names == {1: "init", 20: "Web", 30: "sleep"}
    assert list(table.descendants(1)) == [20, 30]


def test_a_circle_of_parents_ends() -> None:
    table = ProcessTable({1: "a", 2: "b", 3: "c"}, {1: [2], 2: [3], 3: [1, 2]})
    assert list(table.descendants(1)) == [2, 3]


def test_both_readers_tell_the_same_of_our_own_children() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000 & wait"])
    try:

        def names(table: ProcessTable) -> list[str]:
            return sorted(table.names[pid] for pid in table.descendants(shell.pid))

        reader = process_reader()
        eventually(lambda: names(reader.read()) == ["sleep", "sleep"], "two children")
        by_ps = PsReader().read()
        assert names(by_ps) == ["sleep", "sleep"]
        assert by_ps.names[shell.pid] == reader.read().names[shell.pid]
        assert shell.pid in reader.read().children[os.getpid()]
    finally:
        for child in process_reader().read().descendants(shell.pid):
            os.kill(child, 9)
        shell.kill()
        shell.wait()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="zombies of /proc")
def test_a_zombie_is_still_there_as_it_is_for_ps() -> None:
    child = subprocess.Popen(["sleep", "0"])
    stat = Path(f"/proc/{child.pid}/stat")
    eventually(lambda: ") Z " in stat.read_text(), "a zombie")
    assert process_reader().read().names[child.pid] == "sleep" == PsReader().read().names[child.pid]
    child.wait()
    assert child.pid not in process_reader().read().names
