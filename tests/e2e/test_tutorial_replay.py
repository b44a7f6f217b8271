"""The tutorial's blocks that replay: a real agent, recorded, and replayed in a real terminal as tmux showed it then."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from recorder.onhost.collecting import Collecting
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.e2e.expect import expect
from selftest_recorder.e2e.session import open_session
from worlds import BIN, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd
    from selftest_recorder.e2e.session import Session
    from worlds import World

AGENT = """#!/bin/sh
stage() {
    printf '\\033[2J\\033[H\\033[3%sm== stage %s ==\\033[0m\\n' "$1" "$2"
    for line in 1 2 3 4 5; do printf '%s: 日本語 of %s, line %s\\n' "$line" "$2" "$line"; done
    printf '\\033[10;20Hat a place: %s' "$2"
    until [ -e "$HOME/after-$2" ]; do sleep 0.05; done
}
stage 1 alpha
stage 2 beta
stage 3 gamma
exec sleep 100000
"""


def shown(session: Session) -> list[str]:
    """The recorded terminal's part of the screen: below the title, above the bar."""
    return [line.rstrip() for line in session.screen().splitlines()[1:25]]


PLAY = """
    # Play a recording, of a file or of an agent by its name: space plays, ← → wind, / searches, ] is the next mark.
    selftest-tui replay build.cast
"""


@pytest.mark.real
def test_a_real_agent_is_replayed_as_tmux_showed_it(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(PLAY)
    world.create("build", world.script("agent", AGENT))
    home = Collecting(world, tmp_path)
    then: dict[str, list[str]] = {}
    argv = [str(BIN / "selftest-tui"), "record", "build"]
    with open_session(argv, environment=world.environment, cwd=tmp_path) as recorder:
        recorder.wait_for("recording")
        home.wait_until_recorded("mngr-build")
        for stage in ("alpha", "beta", "gamma"):
            eventually(lambda stage=stage: f"at a place: {stage}" in home.text("mngr-build"), stage)  # type: ignore[misc]
            eventually(lambda: home.shows_what_tmux_shows("mngr-build"), "the recording")
            then[stage] = world.tmux("capture-pane", "-p", "-t", "=mngr-build:").split("\n")[:-1]
            (world.home / f"after-{stage}").touch()
        recorder.send_keys("C-c")
        recorder.wait_for_end()
    (tmp_path / "mngr-build.cast").rename(tmp_path / "build.cast")
    rows = {stage: [line.rstrip() for line in lines][:24] for stage, lines in then.items()}
    with block.pty(environment=world.environment, cwd=tmp_path, columns=140, lines=60) as session:
        session.wait_for("paused")

        def see(stage: str) -> None:
            """The player shows what tmux showed at that stage."""
            wanted = rows[stage]
            session.wait_until(lambda _: shown(session)[: len(wanted)] == wanted, f"{stage} as it was")

        def search(words: str) -> None:
            session.type_text("/")
            session.wait_for("⏎ search")
            session.type_text(words)
            session.send_keys("Enter")

        search("at a PLACE: beta")
        see("beta")
        session.wait_for(re.compile(r"/at a PLACE: beta: 1 of 1"))
        session.send_keys("End")
        see("gamma")
        session.send_keys("Home", "n")
        see("beta")
        session.send_keys("0")
        search("at a place: alpha")
        see("alpha")
        # Played from the beginning it comes to the end by itself, however short it is.
        session.send_keys("Escape", "Home", "space")
        see("gamma")
        session.wait_for("paused")
        session.send_keys("q")
        assert session.wait_for_end() == 0


PRINT = """
    # One moment of it, as it was on the screen: as text, and as a picture of its end.
    selftest-tui replay build.cast --at 0:02 --format text > then.txt
    selftest-tui replay build.cast --format svg > end.svg
"""


def test_a_moment_is_printed(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(PRINT)
    events = [
        (1.0, "o", "one\r\n\x1b[31mtwo\x1b[0m  "),
        (2.0, "o", "\r\n日本 \x1b]52;c;aGk=\x07<&>"),
        (2.5, "o", "\x1b[2Jend"),
    ]
    write_cast(tmp_path / "build.cast", Header(3, 20, 5), events)
    done = block.run(environment=world.environment, cwd=tmp_path)
    assert (done.exit_status, done.stderr) == (0, "")
    assert (tmp_path / "then.txt").read_text() == "one\ntwo\n日本 <&>\n\n\n"
    picture = ET.fromstring((tmp_path / "end.svg").read_text())
    assert [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text") if text.text] == [" " * 8 + "end"]


@pytest.mark.unhappy
def test_a_file_that_is_no_recording_is_not_played(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(PLAY)
    (tmp_path / "build.cast").write_text("these are not the lines of a recording\n")

    with block.pty(environment=plain.environment, cwd=tmp_path) as session:
        status = session.wait_for_end()
        screen = session.screen()

    assert status == 2
    expect(screen).to_contain("build.cast is no recording")


@pytest.mark.unhappy
def test_a_moment_of_a_damaged_recording_is_printed_as_far_as_possible(
    e2e: EndToEnd, plain: World, tmp_path: Path
) -> None:
    block = e2e.write_tutorial_block(PRINT)
    lines = ['{"version": 3, "term": {"cols": 20, "rows": 2}}', '[1.0, "o", "one"]', "torn", '[0.5, "o", "two"]']
    (tmp_path / "build.cast").write_text("\n".join(lines) + "\n")

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed().stderr.to_contain("line 3: this is no event; skipped")
    expect(tmp_path / "then.txt").to_have_text("onetwo\n\n")
    expect(tmp_path / "end.svg").to_contain("onetwo")
