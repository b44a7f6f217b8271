"""Moments of an agent's work in its recording: by its tool call, by the marker of its commit, by the commit's date."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from selftest_core.git.objects import Commit
from selftest_core.git.patches import DiffLine, Hunk, LineKind
from selftest_core.review.evidence import Evidence
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.index.moments import AgentMoments, MomentSource, read_moments

if TYPE_CHECKING:
    from pathlib import Path

BEGAN = 1_800_000_000
HUNK = Hunk(1, 0, 1, 1, "", (DiffLine(LineKind.ADDED, None, 1, "    return price * count"),))
COMMIT = Commit("t", ("p",), b"A <a@b> 1800000030 +0000", b"A <a@b> 1800000030 +0000", b"[FIX_IMPL] Count\n\nWhy.\n")


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


def moments(folder: Path, *, conversation: str = "", marker: bool = True, ends: float = 50.0) -> AgentMoments:
    later = folder / "artifacts" / "a.cast"
    later.parent.mkdir(parents=True)
    own = folder / "terminal.cast"
    events = [(1.0, "o", "$ "), *([(28.5, "m", "commit: [FIX_IMPL] Count")] if marker else []), (ends, "o", "bye")]
    for path in (own, later):
        write_cast(path, Header(3, 80, 24, timestamp=BEGAN), events)
    (folder / "conversation.txt").write_text("said")
    (folder / "conversation.jsonl").write_text(conversation)
    return read_moments("ann", Evidence(conversation=folder / "conversation.txt", recordings=(later, own)))


def edits(at: str = "2027-01-15T08:00:20.500Z") -> str:
    arguments = {"file_path": "/w/shop/cart.py", "old_string": "0", "new_string": "    return price * count"}
    call = {"tool_call_id": "c", "function_name": "Edit", "arguments": arguments}
    return (
        "cut {\n"
        + line(
            type="step",
            event_id="1",
            timestamp="2027-01-15T08:00:19Z",
            source="agent",
            message="Now.",
            tool_calls=[call],
        )
        + line(type="observation", event_id="2", timestamp=at, results=[{"source_call_id": "c", "content": "done"}])
    )


def test_the_tool_call_that_made_a_hunk_gives_its_second_in_the_agents_own_recording(tmp_path: Path) -> None:
    found = moments(tmp_path, conversation=edits()).of_hunk("shop/cart.py", HUNK, COMMIT)
    assert found is not None
    assert (found.source, found.recording, found.time) == (MomentSource.TOOL_CALL, tmp_path / "terminal.cast", 20.5)
    assert (found.words.before, found.words.step) == ("Now.", 0)


def test_without_a_tool_call_the_marker_of_the_commit_counts_and_then_its_date(tmp_path: Path) -> None:
    found = moments(tmp_path / "a").of_hunk("shop/cart.py", HUNK, COMMIT)
    assert found is not None
    assert (found.source, found.time) == (MomentSource.MARKER, 28.5)
    found = moments(tmp_path / "b", marker=False).of_hunk("shop/cart.py", HUNK, COMMIT)
    assert found is not None
    assert (found.source, found.time, found.at) == (MomentSource.COMMIT, 30.0, BEGAN + 30)


def test_a_moment_that_no_recording_has_keeps_its_words(tmp_path: Path) -> None:
    known = moments(tmp_path, conversation=edits("2027-01-15T09:00:00Z"))
    found = known.of_hunk("shop/cart.py", HUNK, COMMIT)
    assert found is not None
    assert (found.recording, found.time, found.words.before) == (None, None, "Now.")


def test_files_of_an_agent_that_cannot_be_read_count_as_missing(tmp_path: Path) -> None:
    (tmp_path / "conversation.txt").write_text("said")
    (tmp_path / "conversation.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "odd.cast").write_bytes(b"\xff\xfe\x00 no recording")
    gone = tmp_path / "gone.cast"
    evidence = Evidence(conversation=tmp_path / "conversation.txt", recordings=(tmp_path / "odd.cast", gone))
    known = read_moments("ann", evidence)
    assert not known.steps
    found = known.of_hunk("a.py", HUNK, COMMIT)
    assert found is not None
    assert found.recording is None
    assert known.of_test("tests/test_a.py::test_a") is None
