"""The file of scheduled runs: its lock ends with its process, and its lines survive whatever cut one short."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from selftest_core.journal import JournalWriteError
from selftest_core.run.history.scheduled_log import FILE_NAME, scheduled_lines, scheduled_log

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from pathlib import Path
from selftest_core.run.history.scheduled_log import scheduled_log
with scheduled_log(Path(sys.argv[1])) as log:
    log.write({"run": "held"})
    print(log.has_lock, flush=True)
    sys.stdin.read()
"""


def test_one_has_the_lock_and_it_ends_with_its_process(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"

        with scheduled_log(tmp_path) as log:
            assert not log.has_lock
            log.write({"skipped": "another"})
        with scheduled_log(tmp_path) as log:
            assert not log.has_lock, "closing it released nobody else's lock"

        other.send_signal(signal.SIGKILL)
        other.wait()
    with scheduled_log(tmp_path) as log:
        assert log.has_lock
        log.write({"run": "next"})
    assert scheduled_lines(tmp_path) == [{"run": "held"}, {"skipped": "another"}, {"run": "next"}]
    assert (tmp_path / ".selftest" / ".gitignore").read_text() == "*\n"


def test_a_line_that_was_cut_short_costs_no_other(tmp_path: Path) -> None:
    with scheduled_log(tmp_path) as log:
        log.write({"run": "first"})
    path = tmp_path / ".selftest" / FILE_NAME
    path.write_bytes(path.read_bytes() + b'{"run": "cut sh\xff')

    with scheduled_log(tmp_path) as log:
        log.write({"run": "third"})

    assert scheduled_lines(tmp_path) == [{"run": "first"}, {"run": "third"}]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / ".selftest").write_text("a file in its place")
    with pytest.raises(JournalWriteError, match=r"scheduled\.jsonl"), scheduled_log(tmp_path):
        pass
    assert scheduled_lines(tmp_path) == []
