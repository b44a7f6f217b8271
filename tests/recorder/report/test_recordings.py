"""Recordings as scripts of a page: all formats, damage, size, and texts that try to leave the script."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.report import recordings
from selftest_recorder.report.recordings import write_recording

if TYPE_CHECKING:
    from pathlib import Path

HEAD = {"version": 2, "width": 80, "height": 24}


def read_script(path: Path) -> tuple[str, list[Any]]:
    """What the page gets: the name and the lines."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("selftestRecording(")
    assert text.endswith(");\n")
    name, lines = json.loads(f"[{text.removeprefix('selftestRecording(').removesuffix(');\n')}]")
    return name, lines


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked recordings of the test stay in its folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


V1 = {"version": 1, "width": 80, "height": 24, "duration": 3, "stdout": [[1, "a"], [2, "b"]]}
V2 = '{"version": 2, "width": 80, "height": 24}\n[1, "o", "a"]\n[3, "o", "b"]\n'
V3 = '{"version": 3, "term": {"cols": 80, "rows": 24}}\n[1, "o", "a"]\n[2, "o", "b"]\n[0, "x", "0"]\n'


@pytest.mark.parametrize(
    "data",
    [json.dumps(V1).encode(), V2.encode(), V3.encode(), gzip.compress(V3.encode(), mtime=0)],
    ids=["version 1", "version 2", "version 3", "packed"],
)
def test_every_format_is_the_same_to_the_player(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.cast").write_bytes(data)
    found = write_recording(tmp_path / "a.cast", tmp_path / "a.js", "a")
    assert read_script(tmp_path / "a.js") == ("a", [HEAD, [1.0, "o", "a"], [3.0, "o", "b"]])
    assert (found.seconds, found.cols, found.rows, found.problem) == (3.0, 80, 24, "")


def test_markers_are_kept_what_was_typed_is_not_and_no_text_ends_the_script(tmp_path: Path) -> None:
    text = "</script>\u2028`${x}`\\\"');alert(1)//\x1b[31m\x00"
    write_cast(tmp_path / "a.cast", Header(2, 80, 24), [(1.0, "o", text), (2.0, "i", "secret"), (3.0, "m", "failed")])
    found = write_recording(tmp_path / "a.cast", tmp_path / "a.js", 'n");alert(1)//')
    assert read_script(tmp_path / "a.js") == ('n");alert(1)//', [HEAD, [1.0, "o", text], [3.0, "m", "failed"]])
    assert found.markers == ((3.0, "failed"),)


def test_of_a_huge_recording_the_beginning_is_there_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "LARGEST", 10_000)
    write_cast(tmp_path / "a.cast", Header(2, 80, 24), [(float(at), "o", "x" * 1000) for at in range(60)])
    found = write_recording(tmp_path / "a.cast", tmp_path / "a.js", "a")
    assert len(read_script(tmp_path / "a.js")[1]) < 15
    assert (found.seconds, found.problem) == (9.0, "the recording is longer: only its first 9 s are on this page")


@pytest.mark.parametrize(
    ("data", "says"), [(b"", "empty"), (b"hello", "no header"), (b"\x28\xb5\x2f\xfd\x00", "zstd"), (None, "No such")]
)
def test_what_is_no_recording_leaves_no_script(tmp_path: Path, data: bytes | None, says: str) -> None:
    if data is not None:
        (tmp_path / "a.cast").write_bytes(data)
    found = write_recording(tmp_path / "a.cast", tmp_path / "a.js", "a")
    assert not found.is_written
    assert says in found.problem
    assert not (tmp_path / "a.js").exists()


def test_a_damaged_recording_shows_what_is_whole_and_names_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_text(f'{V2}nonsense\n[4, "o", "c"]\n[5, "o"')
    found = write_recording(tmp_path / "a.cast", tmp_path / "a.js", "a")
    assert [line[2] for line in read_script(tmp_path / "a.js")[1][1:]] == ["a", "b", "c"]
    assert found.problem == "damaged: 2 lines were skipped or repaired; line 4: this is no event; skipped"
