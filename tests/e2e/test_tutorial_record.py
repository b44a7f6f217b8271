"""The tutorial's blocks that record: run as they stand, and what they recorded is what tmux showed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from recorder.onhost.collecting import Collecting
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.e2e.expect import expect
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World


RECORD = """
    # Record a tmux session, of an agent or any, into build.cast until it ends or Ctrl-C. Runs record theirs anyway.
    selftest-tui record build
"""


def test_a_session_is_recorded_until_ctrl_c(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(RECORD)
    home = Collecting(world, tmp_path)
    home.session("build", columns=70, lines=12)
    with block.pty(environment=world.environment, cwd=tmp_path) as session:
        session.wait_for("recording build into build.cast")
        home.wait_until_recorded("build")
        home.type("build", "echo made it")
        eventually(lambda: "\nmade it" in home.text("build"))
        eventually(lambda: home.shows_what_tmux_shows("build"))
        session.send_keys("C-c")
        session.wait_for("bytes  build.cast")
        session.wait_for_end()
    # The session goes on as it was.
    assert world.tmux("display-message", "-p", "-t", "=build:", "#{pane_pipe} #{pane_dead}").split() == ["0", "0"]
    assert read_cast(tmp_path / "build.cast").header.title == "build"


RECORD_SEVERAL = """
    # The same for several, without a word, into a folder that is there; what was made is the answer.
    selftest-tui record --batch build watch --to recordings > recorded.json
"""


def test_sessions_that_end_are_recorded_for_programs(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(RECORD_SEVERAL)
    home = Collecting(world, tmp_path / "recordings")
    home.home.mkdir()
    (home.home / "build.cast").write_text("of yesterday\n")
    for name in ("build", "mngr-watch"):  # an agent's name is as good as its session's
        home.session(name)
    with block.pty(environment=world.environment, cwd=tmp_path) as session:
        home.wait_until_recorded("build-2", "mngr-watch")
        for name in ("build", "mngr-watch"):
            home.type(name, "echo bye; exit")
        assert session.wait_for_end() == 0, session.screen()
    found = json.loads((tmp_path / "recorded.json").read_text())["recordings"]
    assert [one["session"] for one in found] == ["build", "mngr-watch"]
    assert [one["file"] for one in found] == [str(home.file("build-2")), str(home.file("mngr-watch"))]
    assert all("\nbye" in home.text(name) for name in ("build-2", "mngr-watch"))
    assert (home.home / "build.cast").read_text() == "of yesterday\n"


@pytest.mark.unhappy
def test_a_session_that_is_not_there_is_refused_with_the_nearest(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(RECORD)
    Collecting(world, tmp_path).session("built")

    result = block.run(environment=world.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no tmux session 'build'", "Did you mean built?")
    expect(tmp_path / "build.cast").to_be_missing()


@pytest.mark.unhappy
def test_recordings_go_into_no_folder_that_is_not_there(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(RECORD_SEVERAL)
    Collecting(world, tmp_path).session("build")

    result = block.run(environment=world.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no folder recordings")
    expect(tmp_path / "recordings").to_be_missing()


RECORD_AS_JSON = """
    # What was made, as one JSON document.
    selftest-tui record --json build > recorded.json
"""


def test_a_recording_as_a_document(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(RECORD_AS_JSON)
    home = Collecting(world, tmp_path)
    home.session("build")

    with block.start(environment=world.environment, cwd=tmp_path) as recording:
        home.wait_until_recorded("build")
        home.type("build", "echo bye; exit")
        result = recording.wait(150)

    expect(result).to_succeed()
    file = home.file("build")
    expect(tmp_path / "recorded.json").to_have_json(
        {"recordings": [{"session": "build", "file": str(file), "bytes": file.stat().st_size}]}
    )


@pytest.mark.unhappy
def test_a_recording_as_a_document_where_no_server_runs(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(RECORD_AS_JSON)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no tmux session 'build'")
    expect(tmp_path / "recorded.json").to_have_text("")


def test_what_cannot_be_recorded_is_refused_with_the_nearest(world: World, tmp_path: Path) -> None:
    home = Collecting(world, tmp_path)
    home.session("build")
    for words, says in (
        ([], "No session is given to record"),
        (["bild"], "Did you mean build?"),
        (["build", "--to", "nowhere"], "There is no folder nowhere"),
        (["no\x1b[31mthing"], "There is no tmux session"),
    ):
        done = world.run(["selftest-tui", "record", *words], check=False, cwd=tmp_path)
        assert (done.returncode, says in done.stderr, "\x1b" in done.stderr) == (2, True, False), done.stderr
    assert list(tmp_path.iterdir()) == []
