"""The tutorial's blocks that record: run as they stand, and what they recorded is what tmux showed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from recorder.onhost.collecting import Collecting
from selftest_recorder.cast.reader import read_cast
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World


def test_a_session_is_recorded_until_ctrl_c(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block("""
        # Record a tmux session, of an agent or any, into build.cast until it ends or Ctrl-C. Runs record theirs anyway.
        selftest-tui record build
    """)
    home = Collecting(world, tmp_path)
    home.session("build", columns=70, lines=12)
    with block.open(environment=world.environment, cwd=tmp_path) as session:
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


def test_sessions_that_end_are_recorded_for_programs(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block("""
        # The same for several, without a word, into a folder that is there; what was made is the answer.
        selftest-tui record --batch build watch --to recordings > recorded.json
    """)
    home = Collecting(world, tmp_path / "recordings")
    home.home.mkdir()
    (home.home / "build.cast").write_text("of yesterday\n")
    for name in ("build", "mngr-watch"):  # an agent's name is as good as its session's
        home.session(name)
    with block.open(environment=world.environment, cwd=tmp_path) as session:
        home.wait_until_recorded("build-2", "mngr-watch")
        for name in ("build", "mngr-watch"):
            home.type(name, "echo bye; exit")
        assert session.wait_for_end() == 0, session.screen()
    found = json.loads((tmp_path / "recorded.json").read_text())["recordings"]
    assert [one["session"] for one in found] == ["build", "mngr-watch"]
    assert [one["file"] for one in found] == [str(home.file("build-2")), str(home.file("mngr-watch"))]
    assert all("\nbye" in home.text(name) for name in ("build-2", "mngr-watch"))
    assert (home.home / "build.cast").read_text() == "of yesterday\n"


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
