"""What happens between two looks of the collector, or while it looks: no output, event or order is lost by it."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from recorder.onhost.collecting import Collecting, collecting, status_of
from selftest_recorder.cast.events import EXIT
from worlds import eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from worlds import World


@pytest.fixture
def home(world: World, tmp_path: Path) -> Iterator[Collecting]:
    """A collector's folder, and a tmux server of the test's own, which has a session that stays."""
    with collecting(world, tmp_path / "c") as made:
        made.session("stays")
        yield made


def tmux_that(home: Collecting, lines: str) -> dict[str, str]:
    """What has a collector use a tmux that runs these shell lines first; `real` is the one that they can use."""
    path = home.world.environment["PATH"]
    folder = home.world.script("tmux", f'#!/bin/sh\nreal() {{ PATH="{path}" command tmux "$@"; }}\n{lines}').parent
    return {"PATH": f"{folder}:{path}"}


def held(process: subprocess.Popen[bytes]) -> None:
    """Keep it from running, as a busy machine does."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def test_output_that_tmux_still_keeps_when_a_program_has_ended_is_taken(home: Collecting) -> None:
    home.session("much", "/bin/sh", "-c", "read -r word; seq 100000 200000; exit 3")
    home.world.tmux("set-option", "-w", "-t", "=much:", "remain-on-exit", "on")
    home.order("record", "much")
    process = home.start()
    home.wait_until_recorded("much")
    held(process)
    home.type("much", "")
    status = "#{pane_dead_status}"
    eventually(lambda: home.world.tmux("display-message", "-p", "-t", "=much:", status).strip() == "3", "its end")
    process.send_signal(signal.SIGCONT)
    status_of(process)
    assert home.text("much").split()[-100001:] == [str(number) for number in range(100000, 200001)]
    assert (home.events("much")[-1].code, home.events("much")[-1].data) == (EXIT, "3")


def test_a_pane_of_another_server_with_the_same_id_is_another_one(home: Collecting) -> None:
    home.order("record", "stays")
    process = home.start()
    home.wait_until_recorded("stays")
    held(process)
    home.world.end_server()
    home.session("stays", "/bin/sh", "-c", "echo another; exec sleep 100000")
    eventually(lambda: "another" in home.world.tmux("capture-pane", "-p", "-t", "=stays:"))
    process.send_signal(signal.SIGCONT)
    assert status_of(process) == 0
    assert "another" not in home.text("stays")


def test_a_tmux_that_does_not_tell_of_its_panes_ends_no_recording(home: Collecting) -> None:
    silent, asked = home.world.root / "silent", home.world.root / "asked"
    more = tmux_that(
        home,
        f'case "$*" in *list-panes*) [ -e {silent} ] && {{ echo >>{asked}; echo lost server >&2; exit 1; }} ;; esac\n'
        'real "$@"\n',
    )
    home.order("record", "stays")
    process = home.start(**more)
    home.wait_until_recorded("stays")
    silent.touch()
    eventually(lambda: asked.exists() and asked.read_text().count("\n") > 2, "questions without an answer")
    silent.unlink()
    home.type("stays", "echo still here")
    eventually(lambda: "\nstill here" in home.text("stays"))
    assert home.log() == "lost server\n"
    assert process.poll() is None


def test_what_is_ordered_while_the_end_of_a_pane_is_seen_is_obeyed(home: Collecting) -> None:
    last, kept = home.world.root / "last", home.home / "kept.cast"
    more = tmux_that(
        home,
        'case "$*" in *list-panes*) real "$@"; status=$?\n'
        f"if [ -e {last} ] && ! real -S {home.world.socket} has-session -t =work; then\n"
        f"cat {last} >>{home.home}/orders; rm {last}; fi; exit $status ;; esac\n"
        'real "$@"\n',
    )
    home.session("work")
    home.order("record", "work")
    process = home.start(**more)
    home.wait_until_recorded("work")
    orders: list[dict[str, object]] = [
        {"do": "mark", "label": "passed", "at": 1.0},
        {"do": "finish", "link": str(kept)},
    ]
    last.write_text("".join(f"{json.dumps({**order, 'name': 'work'})}\n" for order in orders))
    home.world.tmux("kill-session", "-t", "=work")
    assert status_of(process) == 0
    assert home.labels("work") == ["passed"]
    assert kept.samefile(home.file("work"))


def test_a_marker_that_comes_behind_the_end_is_written(home: Collecting) -> None:
    home.session("work")
    home.world.tmux("set-option", "-w", "-t", "=work:", "remain-on-exit", "on")
    for name in ("work", "stays"):
        home.order("record", name)
    home.start()
    home.wait_until_recorded("work", "stays")
    home.type("work", "exit 2")
    eventually(lambda: home.events("work")[-1].code == EXIT, "its end")
    home.order("mark", "work", label="failed: crash", at=1.0)
    eventually(lambda: home.labels("work") == ["failed: crash"], "the marker behind it")


def test_a_pipe_whose_program_has_not_begun_is_not_at_its_end(home: Collecting) -> None:
    more = tmux_that(
        home,
        'for word; do case "$word" in "[ -p "*) word="sleep 1; $word" ;; esac; set -- "$@" "$word"; shift; done\n'
        'real "$@"\n',
    )
    home.session("short", "/bin/sh", "-c", "read -r word; seq 1000 2000; exit 3")
    home.order("record", "short")
    process = home.start(**more)
    home.wait_until_recorded("short")
    home.type("short", "")
    assert status_of(process) == 0
    assert home.text("short").split()[-1001:] == [str(number) for number in range(1000, 2001)]
    assert [path.name for path in (home.home / "fifos").iterdir()] == ["lock"]


def test_a_pane_that_is_dead_at_the_first_look_is_recorded_as_it_was_left(home: Collecting) -> None:
    home.session("over", "/bin/sh", "-c", "read -r word; echo bye; exit 3")
    home.world.tmux("set-option", "-w", "-t", "=over:", "remain-on-exit", "on")
    home.type("over", "")
    status = "#{pane_dead_status}"
    eventually(lambda: home.world.tmux("display-message", "-p", "-t", "=over:", status).strip() == "3", "its end")
    home.order("record", "over")
    assert status_of(home.start()) == 0
    assert "bye" in home.text("over")
    assert (home.events("over")[-1].code, home.events("over")[-1].data) == (EXIT, "3")
    whole = home.file("over").read_bytes()
    assert status_of(home.start()) == 0, "the next one finds that nothing is left to do"
    assert home.file("over").read_bytes() == whole


def test_secrets_of_a_program_that_begins_later_are_masked(home: Collecting) -> None:
    home.session("begins", "/bin/sh", "-c", "read -r word; exec env TOKEN=hunter2-hunter2 PS1='> ' /bin/sh")
    home.order("record", "begins")
    home.start("--mask", "TOKEN")
    home.wait_until_recorded("begins")
    home.type("begins", "")

    def is_masked() -> bool:
        home.type("begins", "echo is hunter2-hunter2 known")
        return "is *************** known" in home.text("begins")

    eventually(is_masked, "a value that was learned")


def test_the_last_commit_is_marked_however_soon_the_end_comes(home: Collecting) -> None:
    repository = home.world.make_repository()
    home.session("work")
    home.order("record", "work", repository=str(repository))
    process = home.start()
    home.wait_until_recorded("work")
    held(process)
    commit = "git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m Last"
    home.type("work", f"cd {repository} && {commit}; exit")
    eventually(lambda: "=work" not in home.world.tmux("list-sessions", "-F", "=#{session_name}"), "its end")
    process.send_signal(signal.SIGCONT)
    assert status_of(process) == 0
    assert home.labels("work")[-1:] == ["commit: Last"]


def test_a_commit_is_marked_once_whoever_was_there_when_it_was_made(home: Collecting) -> None:
    repository = home.world.make_repository()
    began = time.time() - 3600
    home.order("record", "stays", repository=str(repository), at=began)
    for _ in range(2):
        process = home.start()
        eventually(lambda: "commit: Start" in home.labels("stays"), "the commit of before")
        process.kill()
        process.wait()
    home.start()
    home.order("mark", "stays", label="passed", at=time.time())
    eventually(lambda: home.labels("stays")[-1:] == ["passed"], "what came behind")
    assert [label for label in home.labels("stays") if "resumed" not in label] == ["commit: Start", "passed"]
